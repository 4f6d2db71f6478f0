"""Reading the daily ozone files of the US EPA's Air Quality System into one frame of rows.

Three forms are known by their header:

- AirData's annual files (`daily_44201_2009.csv`, or the zip they are served in),
- the same with column names in snake_case, as R writes them (`x1st_max_value`),
- "Download Daily Data" (`ad_viz_plotval_data.csv`), in its older and newer spelling.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from tvbandits.datasets.tables.readings import Form, encode, few, same_names
from tvbandits.datasets.tables.spreadsheets import File, count_bytes, read_csv
from tvbandits.io import check_regular, check_size, name_file_in_errors
from tvbandits.validation import file_paths

# AQS parameter code of ozone.
OZONE = "44201"


# Factor from each unit of the files to ppb.
PPB = {"ppm": 1e3, "parts per million": 1e3, "ppb": 1.0, "parts per billion": 1.0}


# Columns read as floats; all others are codes and names, and keep their leading zeros as text.
NUMBERS = ("value", "latitude", "longitude")


AIRDATA = Form(
    required={
        **same_names("State Code", "County Code", "Site Num", "POC", "Latitude", "Longitude"),
        "date": ("Date Local",),
        "units": ("Units of Measure",),
        "value": ("1st Max Value", "x1st_max_value"),
    },
    optional={
        "parameter": ("Parameter Code",),
        "duration": ("Sample Duration",),
        "state": ("State Name",),
    },
)


DOWNLOAD = Form(
    required={
        "site_id": ("Site ID", "AQS_SITE_ID"),
        "latitude": ("SITE_LATITUDE",),
        "longitude": ("SITE_LONGITUDE",),
        **same_names("POC", "Date", "UNITS"),
        "value": ("Daily Max 8-hour Ozone Concentration",),
    },
    optional=same_names("STATE"),
)


def read_files(files: File | Iterable[File]) -> pd.DataFrame:
    """Return all rows of the files, one below the other.

    Returns
    -------
    DataFrame
        One row for each reading of one instrument on one day: site ("36-001-0012"), poc, date
        (midnight), ppb (daily maximum of the 8-hour mean), latitude and longitude (degrees),
        state and state_code ("36"), which are empty where a file does not have them.

    Raises
    ------
    ValueError
        If a file cannot be read or is of another kind: one line that names the file and why.
    """
    paths = file_paths("files", files)
    if not paths:
        raise ValueError("files must name at least one EPA ozone file, got none")
    frames: list[pd.DataFrame] = []
    for path in paths:
        with name_file_in_errors(path):
            frames += [_rows(_raw(stream)) for stream in _streams(path)]
    return pd.concat(frames, ignore_index=True)


def _streams(path: Path) -> Iterator[io.BufferedReader]:
    """Yield each csv: the file itself, or the members of a zip."""
    check_regular(path)
    if not zipfile.is_zipfile(path):
        if path.suffix.lower() == ".zip" and path.is_file():
            raise ValueError("not a zip archive, or a broken one")
        with count_bytes(path.open("rb")) as stream:
            yield stream
        return
    with zipfile.ZipFile(path) as archive:
        inside = archive.namelist()
        # An archive packed on a Mac holds a second, hidden file for each one.
        members = [m for m in inside if m.lower().endswith(".csv") and not m.startswith("__MACOSX")]
        if not members:
            raise ValueError(f"the zip holds no csv file, but {few(inside) or 'nothing'}")
        unpacked = sum(archive.getinfo(member).file_size for member in members)
        check_size("unpacked_bytes", unpacked)
        for member in members:
            # The size that an archive states may be wrong: the bytes are counted, too.
            with count_bytes(archive.open(member)) as stream:
                yield stream


def _raw(stream: io.BufferedReader) -> pd.DataFrame:
    """Return the columns we use, under our names and as the file has them."""
    heading = stream.peek(1 << 22).partition(b"\n")[0]
    check_size("columns", heading.count(b",") + 1)  # pandas takes the square of equal names
    header = pd.read_csv(io.BytesIO(heading), nrows=0, encoding_errors="replace").columns
    form = min((AIRDATA, DOWNLOAD), key=lambda each: len(each.missing(header)))
    if missing := form.missing(header):
        raise ValueError(f"not an EPA daily ozone file: columns missing: {', '.join(missing)}")
    columns = form.match(header)
    raw = read_csv(
        stream,
        usecols=list(columns.values()),
        dtype={theirs: float if ours in NUMBERS else str for ours, theirs in columns.items()},
        encoding_errors="replace",  # only names of places hold anything but ASCII
    )
    if raw.empty:
        raise ValueError("the file has a header and no rows")
    raw = raw.rename(columns={theirs: ours for ours, theirs in columns.items()})
    text = [column for column in raw.columns if column not in NUMBERS]
    return raw.assign(**{column: raw[column].fillna("").str.strip() for column in text})


def _rows(raw: pd.DataFrame) -> pd.DataFrame:
    """Return rows in our terms: one site id, dates as dates, levels in ppb."""
    raw = _only_ozone(raw)
    if "site_id" in raw:
        site = raw["site_id"].str.replace("-", "").str.zfill(9)
    else:
        # Spreadsheets drop leading zeros, so the codes are brought back to their full width.
        site = raw["state_code"].str.zfill(2) + raw["county_code"].str.zfill(3)
        site += raw["site_num"].str.zfill(4)
    return pd.DataFrame(
        {
            "site": site.str[:2] + "-" + site.str[2:5] + "-" + site.str[5:],
            "poc": raw["poc"],
            "date": _dates(raw["date"]),
            # 0.0041 ppm is not exactly 4.1 ppb in floats; rounding keeps equal readings equal.
            "ppb": (raw["value"] * encode(raw["units"], PPB, "units must be ppm or ppb")).round(6),
            "latitude": raw["latitude"],
            "longitude": raw["longitude"],
            "state_code": site.str[:2],
            "state": raw.get("state", ""),
        }
    ).dropna(subset=["ppb"])


def of_state(state: str, names: pd.Series[str], codes: pd.Series[str]) -> pd.Series[bool]:
    """Return a mask of the rows of a state: its name in any case, or its FIPS code."""
    state = state.strip().casefold()
    if state.isdigit():
        return codes == state.zfill(2)
    return names.str.strip().str.casefold() == state


def _only_ozone(raw: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the 8-hour ozone level, where a file has a column for it."""
    for column, form, what in (
        ("parameter", OZONE, f"ozone rows (parameter {OZONE})"),
        ("duration", "8-HR.*", "rows of 8-hour means"),
    ):
        if column in raw:
            rows = raw[raw[column].str.fullmatch(form)]
            if rows.empty:
                raise ValueError(f"no {what}, but {column} {few(raw[column])}")
            raw = rows
    return raw


def _dates(texts: pd.Series[str]) -> pd.Series[pd.Timestamp]:
    """Return dates written 2009-12-31 or, as in the US, 12/31/2009; of plausible years."""
    us = texts.str.contains("/", regex=False)
    # Each row is read by its own form: a spreadsheet rewrites some dates and not others.
    dates = pd.to_datetime(texts.where(~us), format="%Y-%m-%d", errors="coerce").fillna(
        pd.to_datetime(texts.where(us), format="%m/%d/%Y", errors="coerce")
    )
    wrong = ~dates.dt.year.between(1950, 2149)  # no reading is of another year; a slip is
    if wrong.any():
        form = "dates must read 2009-12-31 or 12/31/2009, of the years 1950 to 2149"
        raise ValueError(f"{form}, got {few(texts[wrong])}")
    return dates.dt.as_unit("s")
