"""Every form of the EPA files gives one table; every file of another kind is named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.ozone_samples import airdata, csv, download, field, same, snake
from tvbandits.datasets.epa_ozone.problem import OzoneField, load_ozone


@pytest.fixture
def reference(tmp_path: Path) -> OzoneField:
    return load_ozone(csv(tmp_path / "reference.csv", airdata(field())))


@pytest.mark.parametrize(
    "frame",
    [
        snake(field()),
        airdata(field(), "Parts per billion"),
        download(field()),
        download(field(), "ppb"),
        download(field()).rename(
            columns={
                "UNITS": "Units",
                "Site Name": "Local Site Name",
                "CBSA_NAME": "CBSA Name",
                "STATE": "State",
                "SITE_LATITUDE": "Site Latitude",
                "SITE_LONGITUDE": "Site Longitude",
            }
        ),
        download(field()).rename(columns={"Site ID": "AQS_SITE_ID"}),
        airdata(field()).astype({"State Code": int, "County Code": int, "Site Num": int}),
        airdata(field()).sample(frac=1, random_state=1),
    ],
    ids=["snake", "ppb", "download", "download-ppb", "newer", "older", "no-zeros", "shuffled"],
)
def test_every_form_gives_the_same_table(
    frame: pd.DataFrame, reference: OzoneField, tmp_path: Path
) -> None:
    same(load_ozone(csv(tmp_path / "other.csv", frame)), reference)


def test_zip_gives_the_same_table(reference: OzoneField, tmp_path: Path) -> None:
    path = tmp_path / "daily.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "reference.csv", "daily_44201_2008.csv")
        archive.writestr("__MACOSX/._daily_44201_2008.csv", b"\x00\x05\x16\x07")
    same(load_ozone(path), reference)
    same(load_ozone(str(path)), reference)


def test_byte_order_mark_and_foreign_letters(reference: OzoneField, tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    text = airdata(field()).to_csv(index=False).replace("MAIN", "PEÑA")
    path.write_bytes(text.encode("utf-8-sig"))
    same(load_ozone(path), reference)
    path.write_bytes(text.encode("latin-1"))
    same(load_ozone(path), reference)


def test_files_are_put_together_and_the_same_day_twice_counts_once(
    reference: OzoneField, tmp_path: Path
) -> None:
    early = csv(tmp_path / "a.csv", airdata([r for r in field() if r[2] < "2008-02-01"]))
    late = csv(tmp_path / "b.csv", download([r for r in field() if r[2] >= "2008-01-31"]))
    same(load_ozone([early, late]), reference)


def test_rows_of_an_instrument_are_averaged_before_the_instruments(tmp_path: Path) -> None:
    one, other = "2008-01-01", "36-001-0012"
    readings = [(other, 1, one, 10.0), (other, 1, one, 20.0), (other, 2, one, 45.0)]
    frame = airdata(readings).assign(**{"Pollutant Standard": ["2008", "2015", "2015"]})
    assert load_ozone(csv(tmp_path / "a.csv", frame)).values.item() == 30.0


def test_only_eight_hour_ozone_rows_are_read(reference: OzoneField, tmp_path: Path) -> None:
    higher = [(site, instrument, day, 2 * level) for site, instrument, day, level in field()]
    hourly = airdata(higher).assign(**{"Sample Duration": "1 HOUR"})
    other = airdata(field()).assign(
        **{"Parameter Code": "42602", "Units of Measure": "Parts per cow"}
    )
    mixed = pd.concat([hourly, airdata(field()), other])
    same(load_ozone(csv(tmp_path / "mixed.csv", mixed)), reference)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (airdata(field()).drop(columns=["Date Local", "POC"]), "missing: POC, Date Local$"),
        (download(field()).drop(columns="UNITS"), "not an EPA daily ozone file: .*missing: UNITS$"),
        (airdata(field()).head(0), "a header and no rows"),
        (airdata(field(), "Micrograms/cubic meter"), "units must be ppm or ppb, got 'Micrograms"),
        (airdata(field()).assign(**{"Parameter Code": "42602"}), "44201.*, but parameter '42602'"),
        (airdata(field()).assign(**{"Sample Duration": "1 HOUR"}), "8-hour means, but of '1 HOUR'"),
        (airdata(field()).assign(**{"Date Local": "20080101"}), "dates must read .*got '20080101'"),
        (airdata(field()).assign(**{"1st Max Value": "high"}), "high"),
    ],
)
def test_a_file_of_another_kind_is_named(frame: pd.DataFrame, message: str, tmp_path: Path) -> None:
    good = csv(tmp_path / "good.csv", airdata(field()))
    with pytest.raises(ValueError, match=rf"other\.csv: .*{message}") as error:
        load_ozone([good, csv(tmp_path / "other.csv", frame)])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "not an EPA daily ozone file"),
        ("ragged.csv", b"a,b\n1,2\n", "columns missing: Site ID, "),
        ("broken.zip", b"PK\x03\x04 and no more", "not a zip archive, or a broken one"),
    ],
)
def test_a_file_that_is_no_table_is_named(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: .*{message}"):
        load_ozone(tmp_path / name)


def test_other_paths_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.csv: No such file"):
        load_ozone(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="files must name at least one"):
        load_ozone([])
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("readme.txt", "no table here")
    with pytest.raises(ValueError, match=r"notes\.zip: the zip holds no csv file, but 'readme"):
        load_ozone(tmp_path / "notes.zip")
