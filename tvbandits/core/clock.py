"""A clock: dates and times as the numbers that a bandit counts in, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.core.arrays import Array, as_floats
from tvbandits.core.coercion import shown

if TYPE_CHECKING:
    import pandas as pd

# A point in time, as people give it; a pandas Timestamp is a datetime.
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


_PLAIN = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{6})?)?([+-]\d\d:\d\d)?)?", re.ASCII)
# What is read without pandas, whose import takes longer than most that is done with a clock.
_PLAIN_LENGTH = re.compile(r"(\d+) days (\d\d):(\d\d):(\d\d)", re.ASCII)


@dataclass(frozen=True, init=False, repr=False)
class Clock:
    """Turns dates and times into numbers of a unit since an origin, and back.

    Parameters
    ----------
    unit : str or timedelta
        What one is: "1h", "15min", "1D", `timedelta(hours=1)`. Months and years have no fixed length.
    origin : str, datetime or datetime64
        What zero is. With a time zone, all times must have one (any), and come back in the origin's;
        without, none may have one.

    Raises
    ------
    ValueError
        If the unit is no positive length of time, or the origin no point in time.

    Notes
    -----
    Nanoseconds are counted as integers, and a number is the float nearest to the quotient: in hours, a
    time comes back exactly within 85 days of the origin, and to 26 nanoseconds after ten years.

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
        for name, value in (("_length", _length_of(unit)), ("_start", start), ("_zone", zone)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        # A zone has a name, which the text of a time leaves out.
        start = str(self.origin) if self._zone is None else self.origin
        return f"Clock(unit={str(self.unit)!r}, origin={start!r})"

    @property
    def unit(self) -> pd.Timedelta:
        """What one is."""
        import pandas as pd

        return pd.Timedelta(self._length, unit="ns")

    @property
    def origin(self) -> pd.Timestamp:
        """What zero is."""
        import pandas as pd

        return pd.Timestamp(self._start, unit="ns", tz=self._zone)

    @property
    def now(self) -> float:
        """The present."""
        return (_since_1970(datetime.now(self._zone)) - self._start) / self._length

    @overload
    def number(self, when: Moment) -> float: ...
    @overload
    def number(self, when: Sequence[Any] | NDArray[Any] | pd.Index | pd.Series) -> Array: ...
    def number(self, when: Any) -> float | Array:
        """Units from the origin to one time (a float), or to each of several (n,).

        Parameters
        ----------
        when : datetime, Timestamp, datetime64, ISO 8601 text, or a sequence, array or Series of them

        Raises
        ------
        ValueError
            If something is not a point in time (numbers are none), is NaT, is too far away to be
            counted in nanoseconds (292 years from 1970), or has a time zone where the origin has none,
            or the reverse.
        """
        if isinstance(when, str):
            return (self._counted(when, "when") - self._start) / self._length
        import pandas as pd

        if isinstance(when, Moment) or pd.api.types.is_scalar(when):
            return float(self._numbers(pd.DatetimeIndex([self._moment(when, "when")]))[0])
        if np.ma.is_masked(when):
            raise ValueError(f"when must be times, got {shown(when)}: values are masked")
        given = np.asarray(when, dtype=None if hasattr(when, "dtype") else object)
        if given.ndim == 0:
            return float(self._numbers(pd.DatetimeIndex([self._moment(given[()], "when")]))[0])
        if given.ndim != 1:
            raise ValueError(f"when must be one time or have shape (n,), got shape {given.shape}")
        if given.dtype.kind == "M":
            return self._numbers(self._column(given))
        rows = [self._moment(each, f"when, at position {i},") for i, each in enumerate(when)]
        return self._numbers(pd.DatetimeIndex(rows)) if rows else np.empty(0)

    @overload
    def time(self, number: float) -> pd.Timestamp: ...
    @overload
    def time(self, number: Sequence[float] | NDArray[Any]) -> pd.DatetimeIndex: ...
    def time(self, number: ArrayLike) -> pd.Timestamp | pd.DatetimeIndex:
        """The time that a number speaks about (a Timestamp), or the times of several (n,).

        Raises
        ------
        ValueError
            If a number is not finite, or its time cannot be counted in nanoseconds.
        """
        numbers = as_floats(number, "number")
        if numbers.ndim > 1:
            raise ValueError(f"number must be one or have shape (n,), got shape {numbers.shape}")
        bad = ~np.isfinite(numbers)
        if bad.any():
            raise ValueError(f"number must be finite, got {numbers[bad].flat[0]}")
        times = self._times([self._since_1970(float(each)) for each in numbers.flat])
        return times[0] if numbers.ndim == 0 else times

    def text(self, number: float) -> str:
        """The text of `time(number)`.

        Examples
        --------
        >>> from tvbandits import Clock
        >>> Clock(unit="1h", origin="2026-06-01").text(32.5)
        '2026-06-02 08:30:00'
        """
        if not math.isfinite(number):
            raise ValueError(f"number must be finite, got {number}")
        count, rest = divmod(self._since_1970(float(number)), 1000)
        then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=count)
        then = then.replace(tzinfo=None) if self._zone is None else then.astimezone(self._zone)
        text = then.isoformat(sep=" ", timespec="microseconds" if rest else "auto")
        end = len("2026-06-02 08:30:00.000000")
        return f"{text[:end]}{rest:03d}{text[end:]}" if rest else text

    def _since_1970(self, number: float) -> int:
        """Nanoseconds; in exact numbers, since a float of them has no room for decades."""
        count = self._start + round(Fraction(number) * self._length)
        if not abs(count) < 2**63:
            raise ValueError(f"number must lie within 292 years of 1970, got {number}")
        return count

    def _times(self, since_1970: list[int]) -> pd.DatetimeIndex:
        import pandas as pd

        times = pd.DatetimeIndex(np.array(since_1970, dtype=np.int64).view("datetime64[ns]"))
        return times if self._zone is None else times.tz_localize("UTC").tz_convert(self._zone)

    def _moment(self, given: Any, name: str) -> pd.Timestamp:
        moment = _as_moment(given, name)
        self._check_zone(moment.tz, given, name)
        return moment if moment.tz is None else moment.tz_convert(self._zone)

    def _counted(self, given: str, name: str) -> int:
        count, zone = _nanoseconds(given, name)
        self._check_zone(zone, given, name)
        return count

    def _check_zone(self, zone: tzinfo | None, given: object, name: str) -> None:
        if (zone is None) != (self._zone is None):
            ours = "no time zone" if self._zone is None else f"the time zone {self._zone}"
            theirs = "has none" if zone is None else f"has {zone}"
            raise ValueError(
                f"the clock's origin has {ours}, but {name} {theirs}: got {shown(given)}"
            )

    def _column(self, given: NDArray[np.datetime64]) -> pd.DatetimeIndex:
        """A column of datetime64, which has no time zone, checked."""
        import pandas as pd

        bad = np.isnat(given)
        if bad.any():
            raise ValueError(f"when, at position {bad.argmax()}, must be a time, got NaT")
        if len(given):
            for extreme in (given.min(), given.max()):
                self._moment(extreme, "when")
        return pd.DatetimeIndex(given.astype("datetime64[ns]"))

    def _numbers(self, moments: pd.DatetimeIndex) -> Array:
        start, length = self._start, self._length
        # Python divides integers of any size to the nearest float.
        counts = moments.as_unit("ns").asi8.tolist()
        return np.array([(count - start) / length for count in counts], dtype=np.float64)


def _length_of(unit: object) -> int:
    """Nanoseconds of a positive length of time."""
    plain = _PLAIN_LENGTH.fullmatch(unit) if isinstance(unit, str) else None
    if plain is None:
        return int(_as_unit(unit).value)
    days, hours, minutes, seconds = map(int, plain.groups())
    count = 1_000_000_000 * (((24 * days + hours) * 60 + minutes) * 60 + seconds)
    return count if 0 < count < 2**63 else int(_as_unit(unit).value)


def _nanoseconds(given: object, name: str) -> tuple[int, tzinfo | None]:
    """A point in time as nanoseconds since 1970, and its zone."""
    if isinstance(given, str) and _PLAIN.fullmatch(given):
        with suppress(ValueError):
            moment = datetime.fromisoformat(given)
            count = _since_1970(moment)
            if abs(count) < 2**62:
                return count, moment.tzinfo
    stamp = _as_moment(given, name)
    return int(stamp.value), stamp.tz


def _since_1970(moment: datetime) -> int:
    """Nanoseconds."""
    zero = datetime(1970, 1, 1, tzinfo=None if moment.tzinfo is None else UTC)
    return (moment - zero) // timedelta(microseconds=1) * 1000


def _as_unit(unit: object) -> pd.Timedelta:
    """A positive length of time, in nanoseconds."""
    import pandas as pd

    number = isinstance(unit, str) and not _LENGTH.fullmatch(unit)
    if isinstance(unit, np.timedelta64):
        number = np.datetime_data(unit.dtype)[0] == "generic"
    if isinstance(unit, str | timedelta | np.timedelta64) and not number:
        try:
            length = pd.Timedelta(unit).as_unit("ns")
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f'unit must be a length of time such as "1h", got {shown(unit)}'
            ) from error
        if isinstance(length, pd.Timedelta) and length.value > 0:  # NaT is none
            return length
    raise ValueError(f'unit must be a positive length of time such as "1h", got {shown(unit)}')


def _as_moment(given: object, name: str) -> pd.Timestamp:
    """A point in time, in nanoseconds."""
    import pandas as pd

    text = isinstance(given, str)
    if given is pd.NaT or not isinstance(given, datetime | date | np.datetime64 | str):
        raise ValueError(f"{name} must be a date and time, got {shown(given)}")
    if text and not _ISO.fullmatch(str(given)):
        raise ValueError(f'{name} must be ISO text such as "2024-01-31T12:00", got {shown(given)}')
    try:
        moment = pd.Timestamp(given)
        if isinstance(moment, pd.Timestamp):
            return moment.as_unit("ns")
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be a date and time, and within 292 years of 1970, got {shown(given)}"
        ) from error
    raise ValueError(f"{name} must be a date and time, got {shown(given)}")
