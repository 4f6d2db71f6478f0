"""A clock, which converts dates to the numbers that a bandit counts in, and times of a campaign."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.validation import (
    Array,
    as_floats,
    as_time,
    describe,
    positive_number,
    refuse,
    require,
    settle,
)

if TYPE_CHECKING:
    import pandas as pd

# A point in time, as people write it; a pandas Timestamp is a datetime.
Moment = datetime | date | np.datetime64 | str

# A date of ISO 8601, and its time of day: pandas would also take "now", "12:00" and "1/2/24".
_ISO = re.compile(
    r"\d{4}-?\d\d-?\d\d([T ]\d\d(:?\d\d(:?\d\d([.,]\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?"
)

# A length of time in which every number has its unit: to pandas "1" is a nanosecond, "1,5h" are 15
# hours, and "P1M", a month of ISO 8601, is a minute.
_LENGTH = re.compile(
    r"\s*[+-]?\s*(\d+(\.\d*)?\s*[a-zA-Zµμ]+(\s*,?\s*|$))*(\d+:\d\d:\d\d(\.\d+)?)?\s*"
    r"|P(\d+[DW])?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
)


# A date as people and instruments write it: 31.01.2026 24:00, 1/31/2026 1:30 PM, 2026-01-31 24:00.
_WRITTEN = re.compile(
    r"(?:(?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)"
    r"|(?P<a>\d\d?)(?P<mark>[-/.])(?P<b>\d\d?)(?P=mark)(?P<last>\d{4}))"
    r"(?:(?:T|,?\s+)(?P<hour>\d\d?)(?::(?P<minute>\d\d)(?::(?P<second>\d\d(?:[.,]\d+)?))?)?"
    r"(?P<half>\s*[AaPp]\.?\s?[Mm]\.?|[AaPp])?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?"
)

# A date whose month is a word, in English or German: 04-Mar-2024, 4. März 2024, Mar 4, 2024.
_NAMED = re.compile(
    r"(?:(?P<day>\d\d?)[-./ ]{0,2}(?P<name>[^\W\d_]{3,9})[-./, ]{0,2}"
    r"|(?P<word>[^\W\d_]{3,9})\.? (?P<date>\d\d?)(?:, ?| ))(?P<year>\d{4})(?P<rest>.*)"
)
MONTHS = {
    **{name.lower(): number for number, name in enumerate(month_name) if name},
    **{"januar": 1, "februar": 2, "märz": 3, "mai": 5, "juni": 6, "juli": 7},
    **{"oktober": 10, "dezember": 12, "mrz": 3},
}

# Dates and lengths that are parsed without pandas, whose import takes longer than most uses of a clock.
_PLAIN = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{6})?)?([+-]\d\d:\d\d)?)?", re.ASCII)
_PLAIN_LENGTH = re.compile(r"(\d{1,5}) days (\d\d):(\d\d):(\d\d)", re.ASCII)


@dataclass(frozen=True, init=False, repr=False)
class Clock:
    """Turns dates and times into numbers of a unit since an origin, and back.

    Parameters
    ----------
    unit : str or timedelta
        What one is: "1h", "15min", "1D", `timedelta(hours=1)`. Months and years have no fixed length.
    origin : str, datetime or datetime64
        What zero is. With a time zone, all times must have one (any), and come back in the origin's;
        without, none may have one. (A call of a campaign takes a single time without a zone for one of
        the origin's.)

    Raises
    ------
    ValueError
        If the unit is no positive length of time, or the origin no point in time.

    Notes
    -----
    Nanoseconds are counted as integers, and a number is the float nearest to the quotient. Of the times
    with the same number, the one of whole seconds comes back, or else of whole milliseconds or
    microseconds; so a time of whole seconds comes back exactly.

    Examples
    --------
    >>> from tvbandits import Clock
    >>> clock = Clock(unit="1h", origin="2026-06-01")
    >>> print(clock.number("2026-06-02 07:30"), clock.time(32.0))
    31.5 2026-06-02 08:00:00
    """

    _length: int
    """Nanoseconds of a unit."""

    _start: int
    """Nanoseconds from 1970 to the origin."""

    _zone: tzinfo | None

    def __init__(
        self, unit: str | timedelta | np.timedelta64 = "1h", origin: Moment = "2024-01-01"
    ) -> None:
        start, zone = _nanoseconds(origin, "origin")
        settle(self, _length=_length_of(unit), _start=start, _zone=zone)

    def __repr__(self) -> str:
        # A zone has a name, which the text of a time leaves out.
        start = str(self.origin) if self._zone is None else self.origin
        return f"Clock(unit={str(self.unit)!r}, origin={start!r})"

    @property
    def unit(self) -> pd.Timedelta:
        """The length of time that the number 1 stands for."""
        import pandas as pd

        return pd.Timedelta(self._length, unit="ns")

    @property
    def origin(self) -> pd.Timestamp:
        """The time that the number 0 stands for."""
        import pandas as pd

        return pd.Timestamp(self._start, unit="ns", tz=self._zone)

    @property
    def now(self) -> float:
        """The present time as a number."""
        return self.number(datetime.now(self._zone))

    @overload
    def number(self, when: Moment) -> float: ...
    @overload
    def number(self, when: Sequence[Any] | NDArray[Any] | pd.Index | pd.Series) -> Array: ...
    def number(self, when: Any) -> float | Array:
        """Return the units from the origin to one time (a float), or to each of several (n,).

        Parameters
        ----------
        when : datetime, Timestamp, datetime64, text, or a sequence, array or Series of them
            Texts are dates of ISO 8601, or others that have one meaning: 31.01.2026 12:00, 01/31/2026.

        Raises
        ------
        ValueError
            If something is not a point in time (numbers are none), is NaT, may be either of two days as
            02/03/2026, is too far away to be counted in nanoseconds (292 years from 1970), or has a time
            zone where the origin has none, or the reverse.
        """
        if np.ma.is_masked(when):
            raise ValueError(f"when must be times, got {describe(when)}: values are masked")
        times = np.asarray(when, dtype=None if hasattr(when, "dtype") else object)
        if times.ndim == 0:
            return self._number(times[()], "when")
        if times.ndim != 1:
            raise ValueError(f"when must be one time or have shape (n,), got shape {times.shape}")
        numbers = [self._number(each, f"when, at position {i},") for i, each in enumerate(when)]
        return np.array(numbers, dtype=np.float64)

    @overload
    def time(self, number: float) -> pd.Timestamp: ...
    @overload
    def time(self, number: Sequence[float] | NDArray[Any]) -> pd.DatetimeIndex: ...
    def time(self, number: ArrayLike) -> pd.Timestamp | pd.DatetimeIndex:
        """Return the time that a number stands for (a Timestamp), or those of several (n,).

        Raises
        ------
        ValueError
            If a number is not finite, or its time cannot be counted in nanoseconds.
        """
        numbers = as_floats(number, "number")
        if numbers.ndim > 1:
            raise ValueError(f"number must be one or have shape (n,), got shape {numbers.shape}")
        refuse(~np.isfinite(numbers.ravel()), numbers.ravel(), "number must be finite")
        import pandas as pd

        counts = np.array([self._since_1970(float(each)) for each in numbers.flat], dtype=np.int64)
        times = pd.DatetimeIndex(counts.view("datetime64[ns]"))
        if self._zone is not None:
            times = times.tz_localize("UTC").tz_convert(self._zone)
        return times[0] if numbers.ndim == 0 else times

    def text(self, number: float) -> str:
        """Return the text of `time(number)`.

        Examples
        --------
        >>> from tvbandits import Clock
        >>> Clock(unit="1h", origin="2026-06-01").text(32.5)
        '2026-06-02 08:30:00'
        """
        count, rest = divmod(self._since_1970(as_time(number, "number")), 1000)
        then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=count)
        then = then.replace(tzinfo=None) if self._zone is None else then.astimezone(self._zone)
        text = then.isoformat(sep=" ", timespec="microseconds" if rest else "auto")
        end = len("2026-06-02 08:30:00.000000")
        return f"{text[:end]}{rest:03d}{text[end:]}" if rest else text

    def _since_1970(self, number: float) -> int:
        """Return nanoseconds since 1970, exactly: a float cannot hold decades of them."""
        count = self._start + round(Fraction(number) * self._length)
        for coarser in (1_000_000_000, 1_000_000, 1000):
            rounded = round(Fraction(count, coarser)) * coarser
            if (rounded - self._start) / self._length == number:  # the float cannot tell them apart
                count = rounded
                break
        if not abs(count) < 2**63:
            raise ValueError(
                f"number must be within 292 years of 1970, got {number} times {self.unit}"
            )
        return count

    def _number(self, moment: Any, name: str, *, may_be_local: bool = False) -> float:
        """Return the units from the origin to one time, as the nearest float.

        A time without a zone may be one of the clock's zone.
        """
        count, zone = _nanoseconds(moment, name)
        if may_be_local and zone is None and self._zone is not None:
            count, zone = self._local_nanoseconds(count, moment, name), self._zone
        if (zone is None) != (self._zone is None):
            ours = "no time zone" if self._zone is None else f"the time zone {self._zone}"
            theirs = "has none" if zone is None else f"has {zone}"
            both = f"the clock's origin has {ours}, but {name} {theirs}"
            remedy = "add one" if zone is None else "leave it out, or give the origin one"
            raise ValueError(f"{both}, got {describe(moment)}: {remedy}")
        return (count - self._start) / self._length

    def _local_nanoseconds(self, count: int, moment: Any, name: str) -> int:
        """Return nanoseconds since 1970 to a local time, given those to this time in UTC.

        Raises
        ------
        ValueError
            If it comes twice as clocks are put back, or not at all as they are put forward.
        """
        import pandas as pd
        from pandas.api.typing import NaTType

        local = pd.Timestamp(count, unit="ns")
        summer, winter = (
            local.tz_localize(self._zone, ambiguous=is_summer, nonexistent="NaT")
            for is_summer in (True, False)
        )
        if isinstance(summer, NaTType) or isinstance(winter, NaTType):
            raise ValueError(
                f"{name} must be a time of {self._zone}, got {describe(moment)}: clocks are put forward "
                "then; write its offset from UTC"
            )
        if summer != winter:
            raise ValueError(
                f"{name}: {describe(moment)} comes twice in {self._zone}, as clocks are put back then: "
                f"write {summer.isoformat()} or {winter.isoformat()}"
            )
        return int(summer.value)


def _length_of(unit: object) -> int:
    """Return a positive length of time in nanoseconds."""
    plain = _PLAIN_LENGTH.fullmatch(unit) if isinstance(unit, str) else None
    days, hours, minutes, seconds = map(int, plain.groups()) if plain else (0, 0, 0, 0)
    count = ((24 * days + hours) * 60 + minutes) * 60 + seconds
    return 1_000_000_000 * count if count else int(_as_unit(unit).value)


def _nanoseconds(moment: object, name: str) -> tuple[int, tzinfo | None]:
    """Return a point in time as nanoseconds since 1970, and its zone."""
    plain = moment
    if isinstance(moment, str) and _PLAIN.fullmatch(moment):
        with suppress(ValueError):
            plain = datetime.fromisoformat(moment)
    if type(plain) is datetime and 1700 < plain.year < 2200:
        zero = datetime(1970, 1, 1, tzinfo=plain.tzinfo and UTC)
        return (plain - zero) // timedelta(microseconds=1) * 1000, plain.tzinfo
    time = _as_moment(moment, name)
    return int(time.value), time.tz


def _as_unit(unit: object) -> pd.Timedelta:
    """Return a positive length of time, in nanoseconds."""
    import pandas as pd

    number = isinstance(unit, str) and not _LENGTH.fullmatch(unit)
    if isinstance(unit, np.timedelta64):
        number = np.datetime_data(unit.dtype)[0] == "generic"
    if isinstance(unit, str | timedelta | np.timedelta64) and not number:
        with suppress(ValueError, OverflowError):
            length = pd.Timedelta(unit).as_unit("ns")
            if isinstance(length, pd.Timedelta) and length.value > 0:  # NaT is none
                return length
    raise ValueError(f'unit must be a positive length of time such as "1h", got {describe(unit)}')


def _as_moment(moment: object, name: str) -> pd.Timestamp:
    """Return a point in time, in nanoseconds."""
    import pandas as pd

    if not isinstance(moment, Moment) or pd.isna(moment):
        raise ValueError(f"{name} must be a date and time, got {describe(moment)}")
    if isinstance(moment, str):
        try:
            moment = iso_date(moment)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if isinstance(moment, str) and not _ISO.fullmatch(moment):
        raise ValueError(
            f'{name} must be a date such as "2024-01-31 12:00" or "31.01.2024 12:00", '
            f"got {describe(moment)}"
        )
    with suppress(ValueError, OverflowError):
        return pd.Timestamp(moment).as_unit("ns")
    needs = "a date and time, and within 292 years of 1970"
    raise ValueError(f"{name} must be {needs}, got {describe(moment)}")


# --- dates as people write them ----------------------------------------------------------------------


def is_date_text(text: str) -> bool:
    """Return whether a text is a date as people write it, or one of ISO 8601 with its marks.

    Examples
    --------
    >>> from tvbandits.clock import is_date_text
    >>> print(is_date_text("31.01.2026 24:00"), is_date_text("2026-01-31"), is_date_text("Hall 3"))
    True True False
    """
    text = _with_number_of_month(text.strip())
    return _WRITTEN.fullmatch(text) is not None or _PLAIN.fullmatch(text) is not None


def _with_number_of_month(text: str) -> str:
    """Return a date whose month is a word with its number; any other text as it is."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return text
    word = (match["name"] or match["word"]).lower()
    numbers = {number for name, number in MONTHS.items() if name.startswith(word)}
    if len(numbers) != 1:
        return text
    return f"{match['year']}-{numbers.pop()}-{match['day'] or match['date']}{match['rest']}"


def day_or_month(text: str) -> str:
    """Return what comes first in a date such as 31/01/2026: "day", "month", "either", or "" elsewhere.

    Examples
    --------
    >>> from tvbandits.clock import day_or_month
    >>> print(day_or_month("31/01/2026"), day_or_month("01-31-2026"), day_or_month("03/02/2026"))
    day month either
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None or match["year"] or match["mark"] == ".":
        return ""
    a, b = int(match["a"]), int(match["b"])
    return "day" if a > 12 else "month" if b > 12 else "" if a == b else "either"


def iso_date(text: str, first: str | None = None) -> str:
    """Return a date of another form in that of ISO 8601; a text that is none stays as it is.

    Parameters
    ----------
    text : str
        31.01.2026 12:00, 31/01/2026, 1/31/2026 1:30 PM, 31-Jan-2026 or 31. Januar 2026; 24:00 is 00:00
        of the next day.
    first : str, optional
        "day" or "month", which comes first before a year, unless dots show the day. None: as the text
        itself decides it.

    Raises
    ------
    ValueError
        If the text does not decide it.

    Examples
    --------
    >>> from tvbandits.clock import iso_date
    >>> print(iso_date("31.01.2026 24:00"), "|", iso_date("02/03/2026", "day"))
    2026-02-01 00:00:00 | 2026-03-02 00:00:00
    """
    match = _WRITTEN.fullmatch(_with_number_of_month(text.strip()))
    # pandas takes no comma before parts of a second.
    if match is None or (_ISO.fullmatch(text) and match["hour"] != "24" and "," not in text):
        return text
    year, month, day = match["year"], match["month"], match["day"]
    if year is None:
        order = first or day_or_month(text) or "day"
        if order == "either":
            a, b = int(match["a"]), int(match["b"])
            raise ValueError(
                f"{text} may be {a} {month_name[b]} or {b} {month_name[a]}: write {match['last']}-"
                f"{b:02d}-{a:02d} or {match['last']}-{a:02d}-{b:02d}"
            )
        year, month, day = match["last"], match["a"], match["b"]
        if order == "day" or match["mark"] == ".":
            month, day = day, month
    hour, second = int(match["hour"] or 0), (match["second"] or "00").replace(",", ".")
    if match["half"]:
        hour = hour % 12 + 12 * (match["half"].strip()[0] in "pP") if 1 <= hour <= 12 else 99
    ends = hour == 24 and not int(match["minute"] or 0) and not float(second)
    try:
        begins = datetime(int(year), int(month), int(day), 0 if ends else hour)
    except ValueError:  # no day of the calendar
        return text
    begins += timedelta(days=ends)
    zone = {"UTC": "Z", "GMT": "Z"}.get(match["zone"] or "", match["zone"] or "")
    return f"{begins:%Y-%m-%d %H}:{match['minute'] or '00'}:{second}{zone}"


# --- times of a campaign: numbers, or dates if it has a clock -------------------------------------


def restore_clock(unit: str, origin: str, zone: str = "") -> Clock:
    """Return a clock from the texts of its parts; a zone with summer time has a name: Europe/Berlin."""
    start = datetime.fromisoformat(origin).astimezone(ZoneInfo(zone)) if "/" in zone else origin
    return Clock(unit, start)


def parse_duration(text: str) -> float | None:
    """Return the number that a text of `drop_after` stands for, or None if the text is empty."""
    return positive_number("drop_after", float(text)) if text else None


def parse_time(text: str | None) -> float | str | None:
    """Return the number that a text stands for; any other text, which may be a date, as it is."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def to_number(
    clock: Clock | None, t: Any, name: str = "t", *, of_table: bool = False
) -> float | None:
    """Return a time as a number; with a clock it may be a date.

    A date without an offset is one of the clock's zone, but not in a table: many instruments write them
    in UTC, or in winter time all the year.
    """
    if t is None:
        return None
    if not isinstance(t, int | float | np.number):
        require(
            clock is not None,
            name,
            "a number, as the campaign has no clock ([clock] in its campaign.toml)",
            t,
        )
        if isinstance(t, np.ndarray):
            return float(clock.number(t))  # type: ignore[union-attr]
        return clock._number(t, name, may_be_local=not of_table)  # type: ignore[union-attr]
    number = as_time(t, name)
    if clock is not None:
        try:
            clock.text(number)
        except ValueError as error:  # no date is so far away
            raise ValueError(f"{name}: {error}") from error
    return number


def to_numbers(clock: Clock | None, t: Any, name: str = "t", *, of_table: bool = False) -> Any:
    """Return one time as a number, or several times, which are of a table, as a list of numbers."""
    if t is None or (not isinstance(t, list | tuple) and np.ndim(t) == 0):
        return to_number(clock, t, name, of_table=of_table)
    if clock is None:
        return as_floats(t, name).tolist()
    return [to_number(clock, each, name, of_table=True) for each in t]
