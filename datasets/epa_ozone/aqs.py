"""A reader of the daily ozone files of the US EPA's Air Quality System.

It recognizes three formats by their header:

- AirData's annual files (`daily_44201_2009.csv`, or the zip that the EPA serves),
- the same with column names in snake_case, as R writes them (`x1st_max_value`),
- "Download Daily Data" (`ad_viz_plotval_data.csv`), with its older and newer column names.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from tvbandits.datasets.tables.readings import Form, encode, headings_by_key, quote_few
from tvbandits.datasets.tables.spreadsheets import File, count_bytes, read_csv
from tvbandits.io import check_regular, check_size, name_file_in_errors
from tvbandits.validation import file_paths

# AQS parameter code of ozone.
OZONE = "44201"


# Factor from each unit of the files to ppb.
PPB = {"ppm": 1e3, "parts per million": 1e3, "ppb": 1.0, "parts per billion": 1.0}


# Columns that are read as floats. The others, codes and names, are text, which keeps leading zeros.
NUMBERS = ("value", "latitude", "longitude")


AIRDATA = Form(
    required={
        **headings_by_key("State Code", "County Code", "Site Num", "POC", "Latitude", "Longitude"),
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
        **headings_by_key("POC", "Date", "UNITS"),
        "value": ("Daily Max 8-hour Ozone Concentration",),
    },
    optional=headings_by_key("STATE"),
)


def read_files(files: File | Iterable[File]) -> pd.DataFrame:
    """Return the rows of all files in one frame.

    Returns
    -------
    DataFrame
        One row for each reading of one instrument on one day: site ("36-001-0012"), poc, date
        (midnight), ppb (daily maximum of the 8-hour mean), latitude and longitude (degrees), state
        (an empty text if the file has no names of states) and state_code ("36").

    Raises
    ------
    ValueError
        If a file cannot be read or is no EPA file of daily ozone; the one-line message names the file.
    """
    paths = file_paths("files", files)
    if not paths:
        raise ValueError("files must name at least one EPA ozone file, got none")
    frames: list[pd.DataFrame] = []
    for path in paths:
        with name_file_in_errors(path):
            frames += [_convert_rows(_read_columns(stream)) for stream in _open_streams(path)]
    return pd.concat(frames, ignore_index=True)


def _open_streams(path: Path) -> Iterator[io.BufferedReader]:
    """Yield an open stream for each csv: the file itself, or each csv member of a zip."""
    check_regular(path)
    if not zipfile.is_zipfile(path):
        if path.suffix.lower() == ".zip" and path.is_file():
            raise ValueError("the file is not a zip archive, or is damaged")
        with count_bytes(path.open("rb")) as stream:
            yield stream
        return
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        # An archive that was packed on a Mac contains a second, hidden file for each file.
        members = [m for m in names if m.lower().endswith(".csv") and not m.startswith("__MACOSX")]
        if not members:
            raise ValueError(f"the zip contains no csv file, but {quote_few(names) or 'nothing'}")
        unpacked = sum(archive.getinfo(member).file_size for member in members)
        check_size("unpacked_bytes", unpacked)
        for member in members:
            # The size in the archive's directory may be wrong, so the bytes are counted, too.
            with count_bytes(archive.open(member)) as stream:
                yield stream


def _read_columns(stream: io.BufferedReader) -> pd.DataFrame:
    """Return the columns that are used, renamed to the keys of their form, with the file's values."""
    heading = stream.peek(1 << 22).partition(b"\n")[0]
    # The time that pandas needs to rename equal columns is quadratic in their number.
    check_size("columns", heading.count(b",") + 1)
    header = pd.read_csv(io.BytesIO(heading), nrows=0, encoding_errors="replace").columns
    form = min((AIRDATA, DOWNLOAD), key=lambda form: len(form.missing(header)))
    if missing := form.missing(header):
        raise ValueError(f"not an EPA daily ozone file: columns missing: {', '.join(missing)}")
    columns = form.match(header)
    raw = read_csv(
        stream,
        usecols=list(columns.values()),
        dtype={column: float if key in NUMBERS else str for key, column in columns.items()},
        encoding_errors="replace",  # only names of places are not ASCII
    )
    if raw.empty:
        raise ValueError("the file has a header and no rows")
    raw = raw.rename(columns={column: key for key, column in columns.items()})
    text = [column for column in raw.columns if column not in NUMBERS]
    return raw.assign(**{column: raw[column].fillna("").str.strip() for column in text})


def _convert_rows(raw: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that `read_files` describes: site ids, dates, levels in ppb."""
    raw = _select_ozone(raw)
    if "site_id" in raw:
        site = raw["site_id"].str.replace("-", "").str.zfill(9)
    else:
        # Spreadsheets drop leading zeros, so the codes are padded to their full width.
        site = raw["state_code"].str.zfill(2) + raw["county_code"].str.zfill(3)
        site += raw["site_num"].str.zfill(4)
    return pd.DataFrame(
        {
            "site": site.str[:2] + "-" + site.str[2:5] + "-" + site.str[5:],
            "poc": raw["poc"],
            "date": _parse_dates(raw["date"]),
            # 0.0041 ppm is not exactly 4.1 ppb in floats; rounding keeps equal readings equal.
            "ppb": (raw["value"] * encode(raw["units"], PPB, "units must be ppm or ppb")).round(6),
            "latitude": raw["latitude"],
            "longitude": raw["longitude"],
            "state_code": site.str[:2],
            "state": raw.get("state", ""),
        }
    ).dropna(subset=["ppb"])


def is_in_state(state: str, names: pd.Series[str], codes: pd.Series[str]) -> pd.Series[bool]:
    """Return a mask of the rows of a state, which is its name in any case, or its FIPS code."""
    state = state.strip().casefold()
    if state.isdigit():
        return codes == state.zfill(2)
    return names.str.strip().str.casefold() == state


def _select_ozone(raw: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of 8-hour ozone levels, if columns say which rows these are; otherwise all."""
    for column, pattern, description in (
        ("parameter", OZONE, f"ozone rows (parameter {OZONE})"),
        ("duration", "8-HR.*", "rows of 8-hour means"),
    ):
        if column in raw:
            rows = raw[raw[column].str.fullmatch(pattern)]
            if rows.empty:
                raise ValueError(
                    f"the file has no {description}, but {column} {quote_few(raw[column])}"
                )
            raw = rows
    return raw


def _parse_dates(texts: pd.Series[str]) -> pd.Series[pd.Timestamp]:
    """Return the dates of texts such as 2009-12-31 or, as in the US, 12/31/2009.

    Raises
    ------
    ValueError
        If a text is no date, or its year is not plausible.
    """
    us = texts.str.contains("/", regex=False)
    # Each row has its own format: a spreadsheet rewrites some dates and not others.
    dates = pd.to_datetime(texts.where(~us), format="%Y-%m-%d", errors="coerce").fillna(
        pd.to_datetime(texts.where(us), format="%m/%d/%Y", errors="coerce")
    )
    wrong = ~dates.dt.year.between(1950, 2149)  # a year out of this range is a typing error
    if wrong.any():
        rule = "dates must read 2009-12-31 or 12/31/2009, of the years 1950 to 2149"
        raise ValueError(f"{rule}, got {quote_few(texts[wrong])}")
    return dates.dt.as_unit("s")
