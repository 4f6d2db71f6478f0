"""Tables as people of this work have them: each value as it was written, or an error with a remedy."""

import gzip
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tvbandits.datasets import FileOptions
from tvbandits.datasets.tables.layout import find_columns, tidy
from tvbandits.datasets.tables.readings import parse_times, pivot_by_time, read_source
from tvbandits.datasets.tables.sentinels import describe_isolated_values, find_sentinels
from tvbandits.option_text import use_command_line_names

HOURS = pd.date_range("2024-03-14", periods=48, freq="1h")
NAMES = ["Nord", "Ost", "Süd"]
VALUES = pd.DataFrame(
    np.round(18 + 5 * np.sin(np.arange(48)[:, None] / 5 + np.arange(3)), 2), HOURS, NAMES
)


def read(path: Path, content: str | bytes | None = None, **options: Any) -> pd.DataFrame:
    """Return the readings of a file by time and station, as every command reads them."""
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    given = FileOptions(**options)
    cells = read_source(path, "values", given).cells
    layout = find_columns(cells, given)
    rows = tidy(cells, layout, given)
    rows["time"] = parse_times(rows["time"], "time", given.dates)
    return rows.pivot_table("value", "time", "station", dropna=False)


def check_values(table: pd.DataFrame, expected: pd.DataFrame = VALUES) -> None:
    assert [*table.columns] == sorted(expected.columns)
    np.testing.assert_array_equal(table.to_numpy(), expected[sorted(expected.columns)].to_numpy())
    assert (table.index == expected.index).all()


def wide(table: pd.DataFrame = VALUES, heading: str = "time", **how: Any) -> str:
    return str(table.rename_axis(heading).to_csv(**how))


def long(header: str, row: str) -> str:
    """Return a file with a row for each reading; `row` has fields t, s and v."""
    rows = [row.format(t=t, s=s, v=VALUES.at[t, s]) for t in HOURS for s in NAMES]
    return "\n".join([header, *rows, ""])


def test_table_reader_takes_a_parquet_file_with_times_in_its_index(tmp_path: Path) -> None:
    VALUES.rename_axis("time").to_parquet(tmp_path / "r.parquet")
    check_values(read(tmp_path / "r.parquet"))


def test_table_reader_unpacks_a_compressed_file_of_any_name(tmp_path: Path) -> None:
    check_values(read(tmp_path / "r.csv", gzip.compress(wide().encode())))


def test_table_reader_names_a_folder_a_web_address_and_empty_lines(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a folder, not a file: give the files in it"):
        read(tmp_path)
    with pytest.raises(ValueError, match="a web address, not a file: download it"):
        read(Path("https://example.org/r.csv"))
    with pytest.raises(ValueError, match=r"r\.csv: the file has no text but empty lines"):
        read(tmp_path / "r.csv", "\n\n\n")


@pytest.mark.parametrize("mark", ["comma", "point"])
def test_table_reader_takes_quoted_numbers_with_commas_between_commas(
    mark: str, tmp_path: Path
) -> None:
    """As Excel writes 1,012.5 in America, and 1.012,5 in Germany."""
    large = (VALUES * 100).round(1)
    swap = str.maketrans(",.", ".,") if mark == "comma" else {}
    cells = large.map(lambda value: f"{value:,.1f}".translate(swap))
    check_values(read(tmp_path / "r.csv", wide(cells)), large)
    assert read_source(tmp_path / "r.csv").decimal == mark


def test_table_reader_keeps_a_comma_in_the_name_of_a_station(tmp_path: Path) -> None:
    content = 'time,station,value\n1,"1,5","2,5"\n2,"1,5","3,25"\n'
    assert [*read(tmp_path / "r.csv", content)["1,5"]] == [2.5, 3.25]


@pytest.mark.parametrize(("unit", "factor"), [("us", 10**6), ("ns", 10**9)])
def test_table_reader_takes_micro_and_nanoseconds_since_1970(
    unit: str, factor: int, tmp_path: Path
) -> None:
    seconds = (HOURS - pd.Timestamp("1970-01-01")) // pd.Timedelta("1s")
    check_values(read(tmp_path / "r.csv", wide(VALUES.set_axis(seconds * factor)), dates=unit))


def test_table_reader_takes_a_history_of_home_assistant(tmp_path: Path) -> None:
    content = long("entity_id,state,last_changed", "sensor.{s},{v},{t:%Y-%m-%dT%H:%M:%S}.000Z")
    content = content.replace(f",{VALUES.iat[0, 0]},", ",unavailable,", 1)
    expected = VALUES.rename(columns="sensor.{}".format).copy()
    expected.iat[0, 0] = np.nan
    check_values(read(tmp_path / "r.csv", content), expected)


def test_table_reader_takes_columns_of_nasa_power(tmp_path: Path) -> None:
    rows = [
        f"{t.year},{t.month},{t.day},{t.hour},{','.join(map(str, VALUES.loc[t]))}" for t in HOURS
    ]
    header = f"-BEGIN HEADER-\nNASA/POWER\n-END HEADER-\nYEAR,MO,DY,HR,{','.join(NAMES)}"
    check_values(read(tmp_path / "r.csv", "\n".join([header, *rows, ""])))


def test_table_reader_refuses_an_hour_without_its_day_with_options_that_read_it(
    tmp_path: Path,
) -> None:
    rows = [f"{t:%Y},{t:%j},{t.hour},{','.join(map(str, VALUES.loc[t]))}" for t in HOURS]
    content = "\n".join([f"year,doy,hour,{','.join(NAMES)}", *rows, ""])
    with (
        use_command_line_names(),
        pytest.raises(ValueError, match="hour may be a part of") as caught,
    ):
        read(tmp_path / "r.csv", content)
    remedy = shlex.split(str(caught.value).partition("as by ")[2])
    check_values(read(tmp_path / "r.csv", content, time=remedy[1], dates=remedy[3]))


@pytest.mark.parametrize("code", ["-1e+34", "9.96921e+36", "-999.9", "1e+20"])
def test_find_sentinels_asks_about_numbers_that_no_instrument_shows(code: str) -> None:
    values = pd.DataFrame({"value": [*VALUES["Nord"], float(code)]})
    assert find_sentinels(values, FileOptions()) == {code: 1}


def test_find_sentinels_names_all_digits_that_the_option_needs() -> None:
    numbers = np.array([*VALUES["Nord"], -999.9, 9.969209968386869e36], dtype=np.float32)
    values = pd.DataFrame({"value": numbers.astype(float)})
    codes = [*find_sentinels(values, FileOptions())]
    assert [float(code) for code in codes] == [float(numbers[-2]), float(numbers[-1])]


@pytest.mark.parametrize("code", ["999", "-88", "999.9", "99.99"])
def test_describe_isolated_values_names_an_extreme_far_from_all_others(code: str) -> None:
    values = pd.DataFrame({"value": [*VALUES["Nord"], float(code), float(code)]})
    (note,) = describe_isolated_values(values, FileOptions())
    assert note.startswith(f"{code} comes 2 times, far from all other values")
    assert describe_isolated_values(VALUES, FileOptions()) == []


def test_table_reader_names_the_column_of_words_that_may_be_the_station(tmp_path: Path) -> None:
    content = long(
        "_start;_time;_value;_field;host", "2024-03-14T00:00:00Z;{t:%Y-%m-%dT%H}:00:00Z;{v};pm;{s}"
    )
    with (
        use_command_line_names(),
        pytest.raises(ValueError, match="column host has words") as caught,
    ):
        read(tmp_path / "r.csv", content)
    assert "by --station host, and otherwise" in str(caught.value)
    assert str(caught.value).endswith("leave these columns out by --without _field --without host")
    check_values(read(tmp_path / "r.csv", content, station="host"))


def test_table_reader_refuses_a_row_without_a_station_or_a_time_by_its_line(tmp_path: Path) -> None:
    content = long("time,station,value", "{t},{s},{v}")
    for row, word in (("2024-03-16,,17.5", "station"), (",Nord,17.5", "time")):
        with pytest.raises(ValueError, match=rf"{word} must .*line 146: remove the row"):
            read(tmp_path / "r.csv", f"{content}{row}\n")


def test_table_reader_takes_columns_of_flags_for_no_stations(tmp_path: Path) -> None:
    """Beside each station, after each station, or once for a row; as words and as numbers."""
    for headings, word in (
        ("{0},{0} flag", "flag"),
        ("{0},QC_{0}", "qc"),
        ("{0},status", "status"),
    ):
        for good, bad in (("V", "R"), ("0", "2")):
            rows = [
                f"{t},{','.join(f'{v},{bad if t == HOURS[3] else good}' for v in VALUES.loc[t])}"
                for t in HOURS
            ]
            header = f"time,{','.join(map(headings.format, NAMES))}"
            path, content = tmp_path / "r.csv", "\n".join([header, *rows, ""])
            check_values(read(path, content))
            assert f"3 columns of {word} ({good} 141, {bad} 3" in read_source(path).flags
            expected = VALUES.copy()
            expected.loc[HOURS[3]] = np.nan
            check_values(read(path, keep=[f"{word}={good}"]), expected)


def test_table_reader_keeps_rows_with_the_cells_of_a_column(tmp_path: Path) -> None:
    content = long("time,station,value,qc", "{t},{s},{v},1") + long("#", "{t},{s},999,4")[2:]
    path = tmp_path / "r.csv"
    check_values(read(path, content, keep=["qc=1"]))
    source = read_source(path, options=FileOptions(keep=["qc=1"]))
    assert source.omissions == ["144 rows without FileOptions(keep=['qc=1'])"]
    assert read(path, keep=["qc=1", "qc=4"]).iat[0, 0] == (VALUES.iat[0, 0] + 999) / 2
    for keep, message in (
        ("qc=7", "no row has it; there are: 1 144, 4 144"),
        ("q=1", "no such column"),
    ):
        with pytest.raises(ValueError, match=message):
            read(path, keep=[keep])
    with pytest.raises(ValueError, match="must be COLUMN=CELL"):
        FileOptions(keep=["qc"])


def test_describe_averages_names_the_column_in_which_repeated_readings_differ(
    tmp_path: Path,
) -> None:
    content = (
        long("time,station,value,POC,MDL", "{t},{s},{v},1,5") + long("#", "{t},{s},{v},2,5")[2:]
    )
    path = tmp_path / "r.csv"
    path.write_text(content)
    note = pivot_by_time(read_source(path).cells, NAMES).averaged
    assert "144 readings averaged with others of the same site and time (all equal)" in note
    assert "differ in column POC (1 144, 2 144): FileOptions(keep=['POC=1']) reads one" in note
    assert (
        pivot_by_time(read_source(path, options=FileOptions(keep=["POC=1"])).cells, NAMES).averaged
        == ""
    )


# Summer time ends at 2024-10-27 01:00 in UTC in Berlin, and begins at 2024-03-31 01:00.
AUTUMN = VALUES.set_axis(pd.date_range("2024-10-26 12:00", periods=48, freq="1h"))
LOCAL = AUTUMN.index.tz_localize("UTC").tz_convert("Europe/Berlin")


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M %Z", "%Y-%m-%d %H:%M Europe/Berlin"]
)
def test_table_reader_takes_local_times_of_a_named_zone(form: str, tmp_path: Path) -> None:
    path, table = tmp_path / "r.csv", AUTUMN.set_axis(LOCAL.strftime(form))
    check_values(read(path, wide(table), zone="Europe/Berlin"), AUTUMN)
    check_values(read(path, wide(table[::-1]), zone="Europe/Berlin"), AUTUMN)
    rows = table.rename_axis("time").reset_index().melt("time", var_name="station")
    check_values(read(path, rows.to_csv(index=False), zone="Europe/Berlin"), AUTUMN)


def test_table_reader_names_local_times_that_occur_twice_or_never(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    once = wide(AUTUMN.set_axis(LOCAL.strftime("%Y-%m-%d %H:%M")).drop(index="2024-10-27 03:00"))
    once = once.replace("2024-10-27 02:00", "2024-10-26 08:00", 1)
    message = r"2024-10-27 02:00 occurs twice .*: write 2024-10-27T02:00:00\+02:00 or .*\+01:00"
    with pytest.raises(ValueError, match=message) as caught:
        read(path, once, zone="Europe/Berlin")
    remedy = str(caught.value).rpartition(" ")[2]
    table = read(path, once.replace("2024-10-27 02:00", remedy), zone="Europe/Berlin")
    assert pd.Timestamp("2024-10-27 01:00") in table.index
    never = "time,Nord,Ost\n2024-03-31 02:30,1,2\n"
    with pytest.raises(ValueError, match="2024-03-31 02:30 does not occur in Europe/Berlin"):
        read(path, never, zone="Europe/Berlin")
    with pytest.raises(ValueError, match="2024-01-31 02:30 is not CEST in Europe/Berlin"):
        read(path, "time,Nord,Ost\n2024-01-31 02:30 CEST,1,2\n", zone="Europe/Berlin")
    with pytest.raises(ValueError, match=r"must be the name of a time zone.*mean Europe/Berlin"):
        FileOptions(zone="Europe/Berln")
    with pytest.raises(ValueError, match="is for dates, got 3"):
        read(path, "time,Nord,Ost\n3,1,2\n", zone="Europe/Berlin")


def test_table_reader_leaves_offsets_beside_a_named_zone(tmp_path: Path) -> None:
    table = AUTUMN.set_axis(AUTUMN.index.strftime("%Y-%m-%dT%H:%M:%SZ"))
    check_values(read(tmp_path / "r.csv", wide(table), zone="Europe/Berlin"), AUTUMN)


def test_table_reader_prefers_the_id_of_a_station_to_its_name(tmp_path: Path) -> None:
    """Two stations of OpenAQ may have the same name."""
    rows = [
        f"{i + 1},Main Street,{t},{VALUES.iat[k, i]}" for k, t in enumerate(HOURS) for i in range(3)
    ]
    content = "\n".join(["locationId,location,utc,value", *rows, ""])
    check_values(read(tmp_path / "r.csv", content), VALUES.set_axis(["1", "2", "3"], axis=1))
