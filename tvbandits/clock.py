"""A clock, which converts between dates and the numbers that a bandit uses as times."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

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
    set_fields,
)

if TYPE_CHECKING:
    import pandas as pd

# A point in time, as users write it; a pandas Timestamp is a datetime.
Moment = datetime | date | np.datetime64 | str

# A date of ISO 8601 with its time of day. pandas would also accept "now", "12:00" and "1/2/24".
_ISO = re.compile(
    r"\d{4}-?\d\d-?\d\d([T ]\d\d(:?\d\d(:?\d\d([.,]\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?"
)

# A length of time in which every number has a unit. pandas would read "1" as a nanosecond, "1,5h" as 15
# hours, and "P1M", a month in ISO 8601, as a minute.
_LENGTH = re.compile(
    r"\s*[+-]?\s*(\d+(\.\d*)?\s*[a-zA-Zµμ]+(\s*,?\s*|$))*(\d+:\d\d:\d\d(\.\d+)?)?\s*"
    r"|P(\d+[DW])?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
)


# The half of the day after a time of day: " p.m.", "PM", "p".
HALF_OF_DAY = r"\s*[AaPp]\.?\s?[Mm]\.?|[AaPp]"

# A date of another form, from people or instruments: 31.01.2026 24:00, 1/31/2026 1:30 PM.
_WRITTEN = re.compile(
    r"(?:(?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)"
    r"|(?P<a>\d\d?)(?P<mark>[-/.])(?P<b>\d\d?)(?P=mark)(?P<last>\d{4}))"
    r"(?:(?:T|,?\s+)(?P<hour>\d\d?)(?::(?P<minute>\d\d)(?::(?P<second>\d\d(?:[.,]\d+)?))?)?"
    rf"(?P<half>{HALF_OF_DAY})?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?"
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

# Dates and lengths of time that are parsed without pandas, whose import would take most of the time.
_PLAIN = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{6})?)?([+-]\d\d:\d\d)?)?", re.ASCII)
_PLAIN_LENGTH = re.compile(r"(\d{1,5}) days (\d\d):(\d\d):(\d\d)", re.ASCII)


@dataclass(frozen=True, init=False, repr=False)
class Clock:
    """A clock that converts dates to numbers of time units since an origin, and back.

    Parameters
    ----------
    unit : str or timedelta
        The length of time of the number 1: "1h", "15min", "1D", `timedelta(hours=1)`. Months and years
        have no fixed length.
    origin : str, datetime or datetime64
        The time of the number 0. If it has a time zone, all dates must have one (any), and are returned
        in the origin's; otherwise none may have one. (In a campaign, a single date without a time zone
        is a local time of the origin's zone.)

    Raises
    ------
    ValueError
        If the unit is not a positive length of time, or the origin not a point in time.

    Notes
    -----
    Nanoseconds are counted as integers, and a number is the float nearest to the quotient. Several times
    may have the same number: `time` returns the one in whole seconds if there is one, or else in whole
    milliseconds or microseconds. Times in whole seconds are therefore recovered exactly.

    Examples
    --------
    >>> from tvbandits import Clock
    >>> clock = Clock(unit="1h", origin="2026-06-01")
    >>> print(clock.number("2026-06-02 07:30"), clock.time(32.0))
    31.5 2026-06-02 08:00:00
    """

    _length: int
    """The nanoseconds in a unit."""

    _start: int
    """The nanoseconds from 1970 to the origin."""

    _zone: tzinfo | None
    """The time zone of the origin."""

    def __init__(
        self, unit: str | timedelta | np.timedelta64 = "1h", origin: Moment = "2024-01-01"
    ) -> None:
        start, zone = _to_nanoseconds(origin, "origin")
        set_fields(self, _length=_parse_length(unit), _start=start, _zone=zone)

    def __repr__(self) -> str:
        # A Timestamp is shown instead of text if it has a zone, as text lacks the zone's name.
        start = str(self.origin) if self._zone is None else self.origin
        return f"Clock(unit={str(self.unit)!r}, origin={start!r})"

    @property
    def unit(self) -> pd.Timedelta:
        """Return the length of time that the number 1 stands for."""
        import pandas as pd

        return pd.Timedelta(self._length, unit="ns")

    @property
    def origin(self) -> pd.Timestamp:
        """Return the time that the number 0 stands for."""
        import pandas as pd

        return pd.Timestamp(self._start, unit="ns", tz=self._zone)

    @property
    def now(self) -> float:
        """Return the present time as a number."""
        return self.number(datetime.now(self._zone))

    @overload
    def number(self, when: Moment) -> float: ...
    @overload
    def number(self, when: Sequence[Any] | NDArray[Any] | pd.Index | pd.Series) -> Array: ...
    def number(self, when: Any) -> float | Array:
        """Return the units from the origin to a time (a float), or to each of n times (n,).

        Parameters
        ----------
        when : datetime, Timestamp, datetime64, text, or a sequence, array or Series of them
            Texts are dates of ISO 8601, or of an unambiguous form: 31.01.2026 12:00, 01/31/2026.

        Raises
        ------
        ValueError
            If an item is not a point in time (a number is not), is NaT, is ambiguous as 02/03/2026, is
            more than 292 years from 1970, so that its nanoseconds cannot be counted, or has a time zone
            while the origin has none, or the reverse.
        """
        if np.ma.is_masked(when):
            raise ValueError(f"when must be times, got {describe(when)}: values are masked")
        times = np.asarray(when, dtype=None if hasattr(when, "dtype") else object)
        if times.ndim == 0:
            return self._number(times[()], "when")
        if times.ndim != 1:
            raise ValueError(f"when must be one time or have shape (n,), got shape {times.shape}")
        numbers = [self._number(time, f"when, at position {i},") for i, time in enumerate(when)]
        return np.array(numbers, dtype=np.float64)

    @overload
    def time(self, number: float) -> pd.Timestamp: ...
    @overload
    def time(self, number: Sequence[float] | NDArray[Any]) -> pd.DatetimeIndex: ...
    def time(self, number: ArrayLike) -> pd.Timestamp | pd.DatetimeIndex:
        """Return the time that a number stands for (a Timestamp), or the times of n numbers (n,).

        Raises
        ------
        ValueError
            If a number is not finite, or its time is more than 292 years from 1970.
        """
        numbers = as_floats(number, "number")
        if numbers.ndim > 1:
            raise ValueError(f"number must be one or have shape (n,), got shape {numbers.shape}")
        refuse(~np.isfinite(numbers.ravel()), numbers.ravel(), "number must be finite")
        import pandas as pd

        counts = [self._nanoseconds_since_1970(float(value)) for value in numbers.flat]
        times = pd.DatetimeIndex(np.array(counts, dtype=np.int64).view("datetime64[ns]"))
        if self._zone is not None:
            times = times.tz_localize("UTC").tz_convert(self._zone)
        return times[0] if numbers.ndim == 0 else times

    def text(self, number: float) -> str:
        """Return `time(number)` as text.

        Examples
        --------
        >>> from tvbandits import Clock
        >>> Clock(unit="1h", origin="2026-06-01").text(32.5)
        '2026-06-02 08:30:00'
        """
        nanoseconds = self._nanoseconds_since_1970(as_time(number, "number"))
        microseconds, remainder = divmod(nanoseconds, 1000)
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        time = time.replace(tzinfo=None) if self._zone is None else time.astimezone(self._zone)
        text = time.isoformat(sep=" ", timespec="microseconds" if remainder else "auto")
        end = len("2026-06-02 08:30:00.000000")
        return f"{text[:end]}{remainder:03d}{text[end:]}" if remainder else text

    def _nanoseconds_since_1970(self, number: float) -> int:
        """Return the nanoseconds from 1970 to a number's time, computed exactly."""
        count = self._start + round(Fraction(number) * self._length)
        for resolution in (1_000_000_000, 1_000_000, 1000):
            rounded = round(Fraction(count, resolution)) * resolution
            if (rounded - self._start) / self._length == number:  # both have the same number
                count = rounded
                break
        if not abs(count) < 2**63:
            raise ValueError(
                f"number must be within 292 years of 1970, got {number} times {self.unit}"
            )
        return count

    def _number(self, moment: Any, name: str, *, may_be_local: bool = False) -> float:
        """Return the units from the origin to one time, as the nearest float.

        If `may_be_local`, a time without a zone is a local time of the clock's zone.
        """
        count, zone = _to_nanoseconds(moment, name)
        if may_be_local and zone is None and self._zone is not None:
            count, zone = self._localize_nanoseconds(count, moment, name), self._zone
        if (zone is None) != (self._zone is None):
            clock_zone = "no time zone" if self._zone is None else f"the time zone {self._zone}"
            moment_zone = "has none" if zone is None else f"has {zone}"
            remedy = "add one" if zone is None else "leave it out, or give the origin one"
            raise ValueError(
                f"the clock's origin has {clock_zone}, but {name} {moment_zone}, "
                f"got {describe(moment)}: {remedy}"
            )
        return (count - self._start) / self._length

    def _localize_nanoseconds(self, count: int, moment: Any, name: str) -> int:
        """Return the nanoseconds since 1970 of a local time; `count` is of the same time in UTC.

        Raises
        ------
        ValueError
            If the local time occurs twice, as clocks are put back, or never, as they are put forward.
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
                f"{name}: {describe(moment)} occurs twice in {self._zone}, as clocks are put back then: "
                f"write {summer.isoformat()} or {winter.isoformat()}"
            )
        return int(summer.value)


def _parse_length(unit: object) -> int:
    """Return the nanoseconds of a positive length of time."""
    match = _PLAIN_LENGTH.fullmatch(unit) if isinstance(unit, str) else None
    days, hours, minutes, seconds = map(int, match.groups()) if match else (0, 0, 0, 0)
    count = ((24 * days + hours) * 60 + minutes) * 60 + seconds
    return 1_000_000_000 * count if count else int(_as_timedelta(unit).value)


def _to_nanoseconds(moment: object, name: str) -> tuple[int, tzinfo | None]:
    """Return the nanoseconds from 1970 to a point in time, and its zone."""
    time = moment
    if isinstance(moment, str) and _PLAIN.fullmatch(moment):
        with suppress(ValueError):
            time = datetime.fromisoformat(moment)
    if type(time) is datetime and 1700 < time.year < 2200:
        zero = datetime(1970, 1, 1, tzinfo=time.tzinfo and UTC)
        return (time - zero) // timedelta(microseconds=1) * 1000, time.tzinfo
    timestamp = _as_timestamp(moment, name)
    return int(timestamp.value), timestamp.tz


def _as_timedelta(unit: object) -> pd.Timedelta:
    """Return a positive length of time, in nanoseconds."""
    import pandas as pd

    lacks_unit = isinstance(unit, str) and not _LENGTH.fullmatch(unit)
    if isinstance(unit, np.timedelta64):
        lacks_unit = np.datetime_data(unit.dtype)[0] == "generic"
    if isinstance(unit, str | timedelta | np.timedelta64) and not lacks_unit:
        with suppress(ValueError, OverflowError):
            length = pd.Timedelta(unit).as_unit("ns")
            if isinstance(length, pd.Timedelta) and length.value > 0:  # NaT is not a Timedelta
                return length
    raise ValueError(f'unit must be a positive length of time such as "1h", got {describe(unit)}')


def _as_timestamp(moment: object, name: str) -> pd.Timestamp:
    """Return a point in time, in nanoseconds."""
    import pandas as pd

    if not isinstance(moment, Moment) or pd.isna(moment):
        raise ValueError(f"{name} must be a date and time, got {describe(moment)}")
    if isinstance(moment, str):
        try:
            moment = to_iso_date(moment)
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


# --- dates of other forms ----------------------------------------------------------------------------


def is_date_text(text: str) -> bool:
    """Return whether a text is a date of any form that `to_iso_date` accepts, or of ISO 8601.

    Examples
    --------
    >>> from tvbandits.clock import is_date_text
    >>> print(is_date_text("31.01.2026 24:00"), is_date_text("2026-01-31"), is_date_text("Hall 3"))
    True True False
    """
    text = _replace_month_name(text.strip())
    return _WRITTEN.fullmatch(text) is not None or _PLAIN.fullmatch(text) is not None


def _replace_month_name(text: str) -> str:
    """Return a date with the number of its month instead of the name; any other text unchanged."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return text
    word = (match["name"] or match["word"]).lower()
    numbers = {number for name, number in MONTHS.items() if name.startswith(word)}
    if len(numbers) != 1:
        return text
    return f"{match['year']}-{numbers.pop()}-{match['day'] or match['date']}{match['rest']}"


def find_date_order(text: str) -> str:
    """Return what stands first in a date such as 31/01/2026: "day", "month" or "either".

    The text is empty if the order makes no difference, as in 2026-01-31 or 31.01.2026.

    Examples
    --------
    >>> from tvbandits.clock import find_date_order
    >>> print(*map(find_date_order, ("31/01/2026", "01-31-2026", "03/02/2026")))
    day month either
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None or match["year"] or match["mark"] == ".":
        return ""
    a, b = int(match["a"]), int(match["b"])
    return "day" if a > 12 else "month" if b > 12 else "" if a == b else "either"


def to_iso_date(text: str, first: str | None = None) -> str:
    """Return a date of another form in the form of ISO 8601; text that is no date is unchanged.

    Parameters
    ----------
    text : str
        31.01.2026 12:00, 31/01/2026, 1/31/2026 1:30 PM, 31-Jan-2026 or 31. Januar 2026; 24:00 is 00:00
        of the next day.
    first : str, optional
        "day" or "month": which of them stands first in dates such as 02/03/2026. In dates with dots it
        is the day. None: follow the text if only one order is possible.

    Raises
    ------
    ValueError
        If both orders are possible and `first` is None.

    Examples
    --------
    >>> from tvbandits.clock import to_iso_date
    >>> print(to_iso_date("31.01.2026 24:00"), "|", to_iso_date("02/03/2026", "day"))
    2026-02-01 00:00:00 | 2026-03-02 00:00:00
    """
    match = _WRITTEN.fullmatch(_replace_month_name(text.strip()))
    # pandas takes no comma before parts of a second.
    if match is None or (_ISO.fullmatch(text) and match["hour"] != "24" and "," not in text):
        return text
    year, month, day = match["year"], match["month"], match["day"]
    if year is None:
        order = first or find_date_order(text) or "day"
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
    is_midnight = hour == 24 and not int(match["minute"] or 0) and not float(second)
    try:
        date_and_hour = datetime(int(year), int(month), int(day), 0 if is_midnight else hour)
    except ValueError:  # not a date of the calendar
        return text
    date_and_hour += timedelta(days=is_midnight)
    zone = {"UTC": "Z", "GMT": "Z"}.get(match["zone"] or "", match["zone"] or "")
    return f"{date_and_hour:%Y-%m-%d %H}:{match['minute'] or '00'}:{second}{zone}"


# --- times of a campaign: numbers, or dates if it has a clock -------------------------------------


def parse_zone(zone: object, name: str = "zone") -> ZoneInfo:
    """Return the time zone with a name of the IANA, such as Europe/Berlin.

    Raises
    ------
    ValueError
        If there is no such zone; the message names similar ones.
    """
    if isinstance(zone, str) and zone in available_timezones():
        return ZoneInfo(zone)
    similar = get_close_matches(str(zone), sorted(available_timezones()), n=2)
    hint = f": did you mean {' or '.join(similar)}?" if similar else ""
    raise ValueError(f"{name} must be the name of a time zone, Europe/Berlin, got {zone!r}{hint}")


def make_clock(unit: Any = "1h", origin: Any = "2024-01-01", zone: Any = None) -> Clock:
    """Return the clock of a configuration, whose origin may be a local time of a zone with a name.

    Examples
    --------
    >>> from tvbandits.clock import make_clock
    >>> print(make_clock("1h", "2026-07-01", "Europe/Berlin").origin)
    2026-07-01 00:00:00+02:00
    """
    clock = Clock(unit, origin)
    if zone is None:
        return clock
    if clock._zone is not None:
        raise ValueError(f"zone is for an origin without an offset, got {origin!r}: leave one out")
    local = Clock(unit, datetime(2000, 1, 1, tzinfo=parse_zone(zone)))
    return Clock(unit, local.time(local._number(origin, "origin", may_be_local=True)))


def restore_clock(unit: str, origin: str, zone: str = "") -> Clock:
    """Return the clock of texts; `zone` is needed if it has a name such as Europe/Berlin."""
    if not zone:
        return Clock(unit, origin)
    try:  # to list all names would read folders each time that a campaign is opened
        named = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return Clock(unit, origin)
    return Clock(unit, datetime.fromisoformat(origin).astimezone(named))


def parse_duration(text: str) -> float | None:
    """Return the number in a text for `drop_after`, or None if the text is empty."""
    return positive_number("drop_after", float(text)) if text else None


def parse_time(text: str | None) -> float | str | None:
    """Return a time as a number if the text is one; otherwise the text, which may be a date."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def to_number(
    clock: Clock | None, t: Any, name: str = "t", *, from_table: bool = False
) -> float | None:
    """Return a time as a number; if there is a clock, the time may be a date.

    A date without an offset is a local time of the clock's zone. If it is from a table, it is refused:
    many instruments write dates in UTC, or in winter time all the year.

    Raises
    ------
    ValueError
        If the time is invalid, or a date without a clock.
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
        return clock._number(t, name, may_be_local=not from_table)  # type: ignore[union-attr]
    number = as_time(t, name)
    if clock is not None:
        try:
            clock.text(number)
        except ValueError as error:  # too far away to be shown as a date
            raise ValueError(f"{name}: {error}") from error
    return number


def to_numbers(clock: Clock | None, t: Any, name: str = "t", *, from_table: bool = False) -> Any:
    """Return one time as a number, or several times, as of a table, as a list of numbers."""
    if t is None or (not isinstance(t, list | tuple) and np.ndim(t) == 0):
        return to_number(clock, t, name, from_table=from_table)
    if clock is None:
        return as_floats(t, name).tolist()
    return [to_number(clock, time, name, from_table=True) for time in t]
