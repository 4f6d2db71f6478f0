"""Parsers of times in other forms than ISO 8601, such as digits only or the numbers of spreadsheets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from tvbandits.clock import HALF_OF_DAY, find_date_order, is_date_text, to_iso_date
from tvbandits.datasets.tables.headings import as_id, simplify_heading
from tvbandits.option_text import format_option

# Simplified headings, preferred ones first. Pairs are of a date and a time of day.
PAIRS = (
    *(("date_gmt", "time_gmt"), ("date_local", "time_local"), ("date", "time"), ("date", "hour")),
    *(("datum", "uhrzeit"), ("datum", "zeit"), ("day", "hour"), ("yyyymmdd", "hh")),
)
TIMES = (
    *("timestamp", "datetimeutc", "datetime_utc", "utc", "datetime", "date_time", "time", "when"),
    *("time_stamp", "mess_datum", "date_local", "date", "local", "datum", "zeit", "zeitpunkt"),
    *("yyyymmdd", "ts", "last_changed"),
    *("hour", "day", "t"),
)

# 20240131, 2024013112, 202401311200, 20240131120000
_DIGITS = re.compile(
    r"((?:19|20)\d\d)(0[1-9]|1[0-2])([0-2]\d|3[01])(?:([01]\d|2[0-4])(?:([0-5]\d)([0-5]\d)?)?)?"
)
# Headings of columns with the parts of a date; those of the time of day are optional.
_PARTS = (
    *({"year", "jahr", "yyyy"}, {"month", "monat", "mm", "mo"}, {"day", "tag", "dd", "dy"}),
    *({"hour", "hr", "hh", "stunde"}, {"minute", "min", "mi"}),
)
# The end of a time of day with its offset from UTC.
OFFSET = re.compile(r":\d\d(?:[.,]\d+)?\s*(?:Z|[+-]\d\d:?\d\d)$")
# A time of day with minutes.
CLOCK = rf"\s*\d{{1,2}}:\d\d(:\d\d)?({HALF_OF_DAY})?\s*"
_HOURS_AND_MINUTES = r"\d|(?:\d|[01]\d|2[0-4])?[0-5]\d"
_DATED = re.compile(r"date|datum|fecha|data|timestamp|datetime|zeitstempel|zeitpunkt")

# The start of a date with a year of two digits: 31.01.24, 01/31/24, 24-01-31, 31-Jan-24.
_SHORT = re.compile(r"\s*(\d\d?([./ -])(?:\d\d?|[^\W\d]{3,9})\2)(\d\d)(?![\d./-])")

# Days since the end of 1899, as spreadsheets count them; these are from 1954 to 2119.
SERIALS = 20_000, 80_000

# Numbers that may be times since 1970; these are from 2001 to 2096.
EPOCHS = {"s": (1e9, 4e9), "ms": (1e12, 4e12), "us": (1e15, 4e15), "ns": (1e18, 4e18)}
UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def convert_numeric_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with numbers that are dates as texts of ISO 8601; any other column unchanged.

    Numbers are dates if all cells are the digits of a date, or if the heading is that of a date and all
    cells are serial numbers of a spreadsheet.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.times import convert_numeric_dates
    >>> print(*convert_numeric_dates(pd.Series(["202401011230", "202401011300"])))
    2024-01-01 12:30:00 2024-01-01 13:00:00
    >>> print(*convert_numeric_dates(pd.Series(["45292", "45292.25"], name="Date")))
    2024-01-01 00:00:00 2024-01-01 06:00:00
    """
    texts = {cell: str(cell).strip() for cell in column.unique()}
    matches = {cell: _DIGITS.fullmatch(text) for cell, text in texts.items()}
    if texts and all(matches.values()):
        dates = {}
        for cell, match in matches.items():
            assert match is not None
            year, month, day, *clock = match.groups()
            dates[cell] = f"{year}-{month}-{day} {':'.join(part or '00' for part in clock)}"
        return column.map(dates)
    is_dated = any(_DATED.fullmatch(word) for word in simplify_heading(column.name).split("_"))
    numbers = pd.to_numeric(column, errors="coerce")
    if is_dated and len(numbers) and numbers.between(*SERIALS).all():
        moments = pd.Timestamp("1899-12-30") + pd.to_timedelta(numbers, unit="D").dt.round("s")
        return moments.dt.strftime("%Y-%m-%d %H:%M:%S")
    return column


def is_day(cell: object) -> bool:
    """Return whether a cell is a date without a time of day."""
    text = str(cell).strip()
    return re.fullmatch(r"(19|20)\d{6}", text) is not None or (
        is_date_text(text) and re.search(r":|T|\d \d", text) is None
    )


def is_clock(cell: object) -> bool:
    """Return whether a cell is a time of day, which may be an hour only, or empty."""
    clock = rf"\d{{1,2}}(:\d\d){{0,2}}(:\d\d\.\d+)?|{CLOCK}|"
    return re.fullmatch(clock, str(cell).strip()) is not None


def are_clocks(column: pd.Series[Any]) -> bool:
    """Return whether a column has times of day: 12:30, hours only, or 30, 100, 1230, 2400."""
    cells = column.astype(str).str.strip()
    return bool(cells.map(is_clock).all() or cells.str.fullmatch(_HOURS_AND_MINUTES).all())


def add_colons(clocks: pd.Series[str]) -> pd.Series[str]:
    """Return times of day with colons (100 becomes 01:00), unless all are hours or other texts."""
    if clocks.map(is_clock).all() or not are_clocks(clocks):
        return clocks
    digits = clocks.str.zfill(4)
    return digits.str[:2] + ":" + digits.str[2:]


def find_date_parts(columns: Iterable[object]) -> tuple[str, ...]:
    """Return the columns of year, month, day, and perhaps hour and minute, or none of them.

    Examples
    --------
    >>> from tvbandits.datasets.tables.times import find_date_parts
    >>> find_date_parts(["Station number", "Year", "Month", "Day", "Quality"])
    ('Year', 'Month', 'Day')
    """
    names = [str(column) for column in columns]
    matches = [
        next((name for name in names if simplify_heading(name) in part), None) for part in _PARTS
    ]
    parts = tuple(itertools.takewhile(lambda name: name is not None, matches))
    return tuple(str(name) for name in parts) if len(parts) >= 3 else ()


def join_date_parts(cells: pd.DataFrame) -> pd.Series[str]:
    """Join columns of year, month, day, and perhaps hour and minute to texts of ISO 8601."""
    texts = [cells.iloc[:, i].map(as_id).astype(str).str.zfill(2) for i in range(cells.shape[1])]
    year, month, day, *clock = texts
    date = year + "-" + month + "-" + day
    if not clock:
        return date
    hours = date + " " + clock[0] + ":"
    return hours + clock[1] if len(clock) > 1 else hours + "00"


def check_offsets(column: pd.Series[Any]) -> None:
    """Raise a `ValueError` if some times have an offset from UTC and others have none."""
    texts = column[column.map(lambda cell: isinstance(cell, str) and ":" in cell)].astype(str)
    has_offset = texts.str.contains(OFFSET)
    if has_offset.any() and not has_offset.all():
        with_offset, without = texts[has_offset].iloc[0], texts[~has_offset].iloc[0]
        raise ValueError(
            f"{with_offset} has an offset from UTC and {without} has none: write it in all times, or in "
            "none"
        )


def expand_years(date: str) -> list[str]:
    """Return the possible dates for a date with a two-digit year; an empty list for any other text.

    Examples
    --------
    >>> from tvbandits.datasets.tables.times import expand_years
    >>> print(expand_years("31.01.24 12:00"), expand_years("31.01.2024"))
    ['31.01.2024', '31.01.1924'] []
    """
    match = _SHORT.match(date)
    if match is None:
        return []
    start, mark, year = match.groups()
    dates = [f"{start}20{year}", f"{start}19{year}"]
    # With hyphens the year may come first.
    return [f"20{start}{year}", dates[0]] if mark == "-" and start[-2].isdigit() else dates


def to_iso_times(
    column: pd.Series[Any],
    dates: str | None = None,
    zone: str | None = None,
    stations: pd.Series[Any] | None = None,
) -> pd.Series[Any]:
    """Return a column with dates as texts of ISO 8601, and other cells unchanged.

    Parameters
    ----------
    column : Series
    dates : str, optional
        The option of that name: "day" or "month", a format, or a unit of time since 1970.
    zone : str, optional
        The time zone of times without an offset, which then get one (see `localize`).
    stations : Series, optional
        The station of each time, if there are several.

    Raises
    ------
    ValueError
        If it is not certain whether the day comes first, or dates contradict each other in that or in
        having an offset from UTC.
    """
    codes, different = pd.factorize(column)
    if zone is None and 2 * len(different) < len(column) and (codes >= 0).all():
        texts = to_iso_times(pd.Series(different, name=column.name, dtype=object), dates)
        return pd.Series(texts.to_numpy()[codes], column.index, name=column.name, dtype=object)
    if zone is None:
        check_offsets(convert_numeric_dates(column))
        return _to_iso_times(column, dates)
    texts = column.map(lambda cell: cell if isinstance(cell, str) else str(cell))
    # A name such as CET, or that of the zone, is read with the zone.
    pattern = rf"(?<=\d)\s*(\[?{re.escape(zone)}\]?|(?!UTC|GMT|AM|PM)[A-Z]{{3,5}})$"
    names = texts.str.extract(pattern)[0].fillna("")
    plain = texts.str.replace(pattern, "", regex=True)
    return localize(
        _to_iso_times(plain, dates), zone, names.where(~names.str.contains("/"), ""), stations
    )


def localize(
    times: pd.Series[Any], zone: str, names: pd.Series[str], stations: pd.Series[Any] | None = None
) -> pd.Series[Any]:
    """Return texts of local times with the offset of a time zone; those with an offset keep it.

    A time that occurs twice, as clocks are put back, is the first or the second one by its name (CEST or
    CET), or by the order of rows, if a station has both.

    Parameters
    ----------
    times : Series of str
        Dates of ISO 8601; others are unchanged.
    zone : str
        The name of a time zone.
    names : Series of str
        The name of each time, such as CET, or "".
    stations : Series, optional
        The station of each time, if there are several.

    Raises
    ------
    ValueError
        If times are numbers, a time does not exist, or it is not certain which of two it is.
    """
    texts = times.astype(str)
    numbers = pd.to_numeric(texts, errors="coerce").notna()
    if numbers.any():
        raise ValueError(
            f"{format_option('zone', zone)} is for dates, got {texts[numbers].iloc[0]}: say how times "
            f"are written by {format_option('dates', '%d.%m.%Y %H:%M')}"
        )
    is_local = ~texts.str.contains(OFFSET)
    local = pd.to_datetime(texts.where(is_local), format="ISO8601", errors="coerce")
    first, second = (
        local.dt.tz_localize(zone, ambiguous=np.full(len(local), is_summer), nonexistent="NaT")
        for is_summer in (True, False)
    )
    missing = first.isna() & local.notna()
    if missing.any():
        raise ValueError(
            f"{texts[missing].iloc[0]} does not occur in {zone}, as clocks are put forward then: "
            "correct it, or write its offset from UTC"
        )
    groups = pd.Series("", texts.index) if stations is None else stations
    is_first = _find_first(first, names, groups)
    moments = first.where(is_first, second)
    wrong = (names != "") & moments.notna() & (moments.dt.strftime("%Z") != names)
    if wrong.any():
        raise ValueError(
            f"{texts[wrong].iloc[0]} is not {names[wrong].iloc[0]} in {zone}: correct it, or write its "
            "offset from UTC"
        )
    unclear = (first != second) & moments.notna() & (names == "")
    for station in moments[unclear].groupby(groups[unclear]).groups:
        rows = moments[groups == station].dropna()
        twice = rows[unclear[rows.index]]
        each = first[twice.index].value_counts()
        in_order = rows.is_monotonic_increasing or rows.is_monotonic_decreasing
        if not (in_order and (each == 2).all()):
            text = texts[twice.index].iloc[0]
            both = " or ".join(part[twice.index].iloc[0].isoformat() for part in (first, second))
            raise ValueError(
                f"{text} occurs twice in {zone}, as clocks are put back then, and the rows do not show "
                f"which one it is: write {both}"
            )
    return times.where(moments.isna(), moments.map(str))


def _find_first(
    first: pd.Series[Any], names: pd.Series[str], stations: pd.Series[Any]
) -> pd.Series[bool]:
    """Return a mask of the times that are the first one if a local time occurs twice.

    Without a name it is the first of two rows of a station, or the second if times go backwards.
    """
    rank = (
        pd.DataFrame({"station": stations, "time": first}).groupby(["station", "time"]).cumcount()
    )
    ends = first.groupby(stations).agg(["first", "last"])
    is_backwards = stations.map(ends["first"] > ends["last"])
    by_order = (rank == 0) ^ is_backwards.astype(bool)
    by_name = first.dt.strftime("%Z") == names
    result: pd.Series[bool] = by_name.where(names != "", by_order)
    return result


def _to_iso_times(column: pd.Series[Any], dates: str | None) -> pd.Series[Any]:
    """Return `to_iso_times` without a zone, whether or not all times have an offset."""
    if dates in EPOCHS or "%" in (dates or ""):
        return _in_format(column, str(dates))
    column = convert_numeric_dates(column)
    words = pd.Series([cell for cell in column.unique() if isinstance(cell, str)], dtype=object)
    is_other = pd.to_datetime(words, format="ISO8601", errors="coerce", utc=True).isna()
    orders = {text: find_date_order(text) for text in words[is_other]}
    examples = {order: text for text, order in reversed(orders.items())}
    if dates is None and "day" in examples and "month" in examples:
        raise ValueError(
            f"the day comes first in {examples['day']} and the month in {examples['month']}: is one "
            "of them wrong?"
        )
    for order in ("day", "month"):
        other = {"day": "month", "month": "day"}[order]
        if dates == order and other in examples:
            raise ValueError(
                f"{format_option('dates', dates)}: the {other} comes first in {examples[other]}"
            )
        dates = dates or (order if order in examples else None)
    try:
        iso_dates = {text: to_iso_date(text, dates) for text in orders}
    except ValueError as error:
        raise ValueError(
            f"{error}, or say which comes first in the table by {format_option('dates', 'day')} or "
            f"{format_option('dates', 'month')}"
        ) from None
    return column.map(lambda cell: iso_dates.get(cell, cell)) if iso_dates else column


def _in_format(column: pd.Series[Any], dates: str) -> pd.Series[Any]:
    """Return times in a format, or counted since 1970, as texts of ISO 8601; empty cells stay empty.

    Raises
    ------
    ValueError
        If a time does not have the format.
    """
    cells = column.astype(str).str.strip()
    if dates in EPOCHS:
        numbers = pd.to_numeric(cells, errors="coerce")
        unit = cast("Literal['s', 'ms', 'us', 'ns']", dates)
        moments = pd.to_datetime(numbers, unit=unit, errors="coerce", utc=True)
    else:
        has_zone = "%z" in dates or "%Z" in dates
        moments = pd.to_datetime(cells, format=dates, errors="coerce", utc=has_zone)
    wrong = cells[moments.isna() & (cells != "")]
    if len(wrong):
        raise ValueError(
            f"{format_option('dates', dates)}: {wrong.iloc[0]!r} is written differently"
        )
    texts: pd.Series[Any] = moments.map(lambda time: "" if pd.isna(time) else str(time))
    return texts


# Times are far from all others if they are at most this fraction, and the gap to the others is more than
# so many times the span of the others.
MOST_LONE, FAR_SPANS = 0.05, 10


def describe_doubtful_times(times: pd.Index[Any]) -> list[str]:
    """Return sentences about doubtful times: numbers that may count from a date, and outliers.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.times import describe_doubtful_times
    >>> hours = pd.date_range("2024-03-04", periods=40, freq="h")
    >>> (text,) = describe_doubtful_times(hours.insert(7, pd.Timestamp("1970-01-01")))
    >>> print(text.partition(",")[0])
    1 time is far from all others
    """
    return [text for text in (describe_numeric_times(times), _lone_doubt(times)) if text]


def _lone_doubt(times: pd.Index[Any]) -> str:
    """Return a sentence about a few times far from all others, as of a clock that was reset, or ""."""
    moments = times.unique().sort_values()
    if len(moments) < 1 / MOST_LONE:
        return ""
    plain_moments = moments.tz_localize(None) if isinstance(moments, pd.DatetimeIndex) else moments
    values = plain_moments.to_numpy().astype(np.float64)
    gap = int(np.diff(values).argmax()) + 1
    few, others = sorted((slice(gap), slice(gap, None)), key=lambda part: len(values[part]))
    distance, span = values[gap] - values[gap - 1], np.ptp(values[others])
    if len(values[few]) > MOST_LONE * len(values) or distance <= FAR_SPANS * span:
        return ""
    count = f"{len(values[few])} time{'s are' if len(values[few]) > 1 else ' is'}"
    return (
        f"{count} far from all others, such as {moments[few][0]}: is that right? The others are "
        f"{moments[others][0]} to {moments[others][-1]}"
    )


def describe_numeric_times(times: pd.Index[Any]) -> str:
    """Return a sentence if numeric times may count from a date, else an empty text.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.times import describe_numeric_times
    >>> print(describe_numeric_times(pd.Index([1709510400.0, 1709514000.0])).partition(":")[0])
    the times may be seconds since 1970, from 2024-03-04 00
    """
    if isinstance(times, pd.DatetimeIndex) or not len(times):
        return ""
    first, last = float(times.min()), float(times.max())
    for unit, (low, high) in EPOCHS.items():
        if low <= first <= last <= high:
            since = pd.Timestamp(first, unit=unit)
            text = f"{UNITS[unit]} since 1970, from {since:%Y-%m-%d %H:%M}"
            return f"the times may be {text}: then say {format_option('dates', unit)}"
    if SERIALS[0] <= first <= last <= SERIALS[1] and (times % 1 != 0).any():
        since = pd.Timestamp("1899-12-30") + pd.Timedelta(days=first)
        text = f"days as spreadsheets count them, from {since:%Y-%m-%d %H:%M}"
        return f"the times may be {text}: then call their column date"
    return ""
