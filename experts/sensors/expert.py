"""An expert that queries a network of measuring stations through a transport.

The expert finds the station of every point, a `Transport` carries the queries (`StubTransport` in this
process, `MQTTTransport` over a network), and the expert checks every reading that comes back. Networks
lose, delay and garble messages: a fault of one station costs its own answer, with a note that names it,
but never the answers of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from tvbandits.experts.protocol import MISTAKES, Answers, ExpertError, ExpertUnavailableError
from tvbandits.forgetting.aging import Ages, Aging, check_effective
from tvbandits.text import first_few
from tvbandits.validation import (
    LARGEST_VARIANCE,
    SMALLEST_VARIANCE,
    Array,
    as_floats,
    as_list,
    as_points,
    as_time,
    as_variances,
    check_function,
    check_instance,
    check_optional,
    check_part,
    check_sizes,
    clean,
    cut,
    describe,
    describe_error,
    finite_number,
    is_finite_number,
    noise_variance_number,
    nonnegative_number,
    set_fields,
)


@dataclass(frozen=True)
class Reading:
    """A station's answer to a query, which the expert checks.

    Attributes
    ----------
    station : str
        The id of the station.
    time : float
        The time of the measurement, in the bandit's unit.
    value : float
        The measurement (unit of reward); NaN for none.
    variance : float, optional
        Noise variance of the value (unit of reward squared); None: the station's.
    note : str
        The reason for a missing value; ignored if there is a value.

    Examples
    --------
    >>> from tvbandits.experts import Reading
    >>> print(Reading("station 3", time=8.0, value=0.4).variance)  # None: the station's own
    None
    """

    station: str
    time: float
    value: float
    variance: float | None = None
    note: str = ""


def check_id(name: object) -> None:
    """Raise a `ValueError` unless an object can be the id of a station."""
    if not (isinstance(name, str) and name):
        raise ValueError(
            f"the id of a station must be a text that is not empty, got {describe(name)}"
        )


@dataclass(frozen=True)
class Station:
    """A station that measures the reward at a point.

    Attributes
    ----------
    id : str
        The station's name, not empty.
    coordinates : tuple of d float
        The station's place, as a point of the domain; if d = 1, it may be a number.
    noise_variance : float
        Noise variance of readings that do not state one (unit of reward squared); positive.

    Raises
    ------
    ValueError
        If the id is not a text, a coordinate is not finite, or the variance is not positive.

    Examples
    --------
    >>> from tvbandits.experts import Station
    >>> print(Station("mill", (2.0, 3.5), noise_variance=0.04).coordinates)
    (2.0, 3.5)
    """

    id: str
    coordinates: tuple[float, ...]
    noise_variance: float

    def __post_init__(self) -> None:
        check_id(self.id)
        name = f"coordinates of station {self.id!r}"
        point = as_points(np.atleast_2d(as_floats(self.coordinates, name)), name=name)
        if len(point) != 1 or point.shape[1] == 0:
            raise ValueError(f"{name} must be one point, got {describe(self.coordinates)}")
        variance = noise_variance_number(
            f"noise_variance of station {self.id!r}", self.noise_variance
        )
        set_fields(self, coordinates=tuple(point[0].tolist()), noise_variance=variance)


@runtime_checkable
class Transport(Protocol):
    """A way to query stations."""

    def request(self, stations: Sequence[str], t: float) -> Sequence[Reading]:
        """Query stations for their readings at time `t`, all at once.

        Parameters
        ----------
        stations : sequence of str
            The ids of the stations, all different.
        t : float

        Returns
        -------
        sequence of Reading
            The readings that arrived in time, in any order.

        Raises
        ------
        OSError or any exception that is not in `tvbandits.experts.protocol.MISTAKES`
            If no station can be reached now, such as a `ConnectionError`.
        """


def stations_at(
    points: ArrayLike, ids: Sequence[str] | None = None, *, noise_variance: ArrayLike
) -> tuple[Station, ...]:
    """Return stations at `points`, such as the columns of a table of measurements.

    Parameters
    ----------
    points : array of shape (A, d)
    ids : sequence of A str, optional
        Names of the stations. None or empty: "0", "1", ...
    noise_variance : float or array of shape (A,)
        Noise variance of the stations' readings (unit of reward squared); positive.

    Examples
    --------
    >>> from tvbandits.experts import stations_at
    >>> print(stations_at([[0.0], [1.0]], ["mill", "weir"], noise_variance=0.04)[1].id)
    weir
    """
    places = as_points(points, name="points")
    names = [] if ids is None else as_list("ids", ids, "the names of stations")
    names = names or [str(row) for row in range(len(places))]
    if len(names) != len(places):
        raise ValueError(f"ids must name {len(places)} points, got {len(names)}")
    variance = as_variances(noise_variance, len(places), "noise_variance").tolist()
    return tuple(map(Station, names, map(tuple, places.tolist()), variance))


@dataclass(frozen=True, eq=False, repr=False)
class SensorExpert:
    """An expert that answers with the readings of measuring stations.

    The answer for a point is the reading of the nearest station. It is NaN, with a note, if no station
    is within `tolerance`, the station does not answer, or its reading cannot be used.

    Parameters
    ----------
    stations : sequence of Station
        At least one station; all must have different names and places.
    transport : Transport
    tolerance : float
        Largest distance between a point and its station, in the unit of the domain. The variance of an
        answer is that of the reading: it does not grow with this distance.
    staleness : float
        Largest difference between the time of a reading and the time of the query. A reading may be
        older, or a little newer if the clock of a station is fast.
    aging : map of `tvbandits.forgetting.aging`, optional
        Growth of a reading's variance with that difference; required if `staleness` is positive. The map
        gets each such reading as the second newest of two observations, so only maps of age make sense:
        `Linear`, `Wiener`, `Exponential`, `Constant`.
    cost : float
        Cost of one query to one station, whether it answers or not.
    least_variance : float, optional
        Smallest variance of a reading: a smaller stated one is raised to it, with a note. None: a
        thousandth of the smallest `noise_variance` of the stations, since a station that claims to
        measure so much better than the others is mistaken.

    Raises
    ------
    ValueError
        If stations have different dimensions, or equal names or places, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import SensorExpert, StubTransport, stations_at
    >>> points, levels = np.array([[0.0], [1.0]]), np.array([[3.0, 5.0], [4.0, 2.0]])
    >>> stations = stations_at(points, noise_variance=1e-4)
    >>> ids = [station.id for station in stations]
    >>> transport = StubTransport(levels, ids, noise_variance=1e-4)
    >>> print(SensorExpert(stations, transport).query(points, 2.0).values.round(1))
    [4. 2.]
    """

    stations: Sequence[Station]
    transport: Transport
    tolerance: float = field(default=0.0, kw_only=True)
    staleness: float = field(default=0.0, kw_only=True)
    aging: Aging | None = field(default=None, kw_only=True)
    cost: float = field(default=0.0, kw_only=True)
    least_variance: float | None = field(default=None, kw_only=True)
    _least: float = field(init=False)
    _places: Array = field(init=False)

    def __post_init__(self) -> None:
        stations = tuple(as_list("stations", self.stations, "a sequence of stations"))
        _check_stations(stations)
        requirement = "an object with a method request(stations, t)"
        check_part("transport", self.transport, requirement, "request")
        for name in ("tolerance", "staleness", "cost"):
            set_fields(self, **{name: nonnegative_number(name, getattr(self, name))})
        check_optional(check_function, "aging", self.aging, "a map of tvbandits.forgetting.aging")
        if self.staleness > 0 and self.aging is None:
            raise ValueError(
                f"staleness = {self.staleness} needs aging=, by which the variance of an old reading "
                "grows (tvbandits.forgetting.aging.Constant() if it does not grow)"
            )
        floor = self.least_variance
        if floor is None:
            floor = max(min(s.noise_variance for s in stations) / 1000, SMALLEST_VARIANCE)
        least = noise_variance_number("least_variance", floor)
        places = np.array([s.coordinates for s in stations])
        set_fields(self, stations=stations, _least=least, _places=places)

    def __repr__(self) -> str:
        return f"<SensorExpert: {len(self.stations)} stations through {self.transport!r}>"

    def query(self, X: Array, t: float) -> Answers:
        """Query the stations of the points `X` (q, d), each station once.

        Raises
        ------
        ExpertUnavailableError
            If the transport cannot reach any station.
        """
        points, t = as_points(X, self._places.shape[1]), as_time(t)
        if len(points) == 0:
            return Answers.none(0)
        distances = cdist(points, self._places)
        row, distance = distances.argmin(axis=1), distances.min(axis=1)
        has_station = distance <= self.tolerance
        refusals = [
            f"no station within {self.tolerance:g} of {[float(f'{x:.6g}') for x in points[i]]}: "
            f"the nearest is {self.stations[row[i]].id!r}, {distance[i]:.3g} away"
            for i in np.flatnonzero(~has_station)
        ]
        rows = {self.stations[i].id: i for i in row[has_station].tolist()}
        values, variance = np.full((2, len(self.stations)), np.nan)
        readings, notes = self._read_stations(rows, t) if rows else ({}, [])
        for i, reading in readings.items():
            values[i], variance[i] = reading
        return Answers(
            np.where(has_station, values[row], np.nan),
            np.where(has_station, variance[row], np.nan),
            self.cost * len(rows),
            (*_limit_notes(refusals, "points without a station"), *notes),
        )

    def _read_stations(
        self, rows: dict[str, int], t: float
    ) -> tuple[dict[int, tuple[float, float]], list[str]]:
        """Return value and variance of each valid reading, and notes on stations without one.

        `rows` maps the ids of stations to their rows, which are the keys of the result.
        """
        readings: dict[str, Reading] = {}
        valid: dict[int, tuple[float, float]] = {}
        refusals, below_floor = [], []
        for reading in self._request_readings(list(rows), t):
            name = reading.station
            if not isinstance(name, str) or name not in rows:
                refusals.append(
                    f"a reading of {_shorten(name)}, which was not queried, is left out"
                )
            elif name in readings:
                refusals.append(f"a second reading of {_shorten(name)} is left out")
            else:
                readings[name] = reading
        for name, reading in readings.items():
            try:
                variance = self._variance(reading, self.stations[rows[name]].noise_variance, t)
            except ValueError as error:
                refusals.append(f"the reading of {_shorten(name)} is refused: {error}")
                continue
            valid[rows[name]] = float(reading.value), variance
            if reading.variance is not None and reading.variance < self._least:
                below_floor.append(name)
        notes = _limit_notes(refusals, "readings refused or left out")
        if below_floor:
            notes.insert(
                0,
                f"variance raised to {self._least:.3g} for {first_few([*map(_shorten, below_floor)])}",
            )
        if silent := [name for name in rows if name not in readings]:
            notes.append(f"no answer from {first_few([*map(_shorten, silent)])}")
        return valid, notes

    def _request_readings(self, ids: list[str], t: float) -> list[Reading]:
        """Return the unchecked readings of stations."""
        try:
            readings = list(self.transport.request(ids, t))
        except (ExpertError, *MISTAKES):
            raise
        except Exception as error:
            raise ExpertUnavailableError(
                f"{len(ids)} station{'s' * (len(ids) > 1)} cannot be reached: {describe_error(error)}"
            ) from error
        for reading in readings:
            if not isinstance(reading, Reading):
                raise TypeError(f"the transport must return Readings, got {_shorten(reading)}")
        return readings

    def _variance(self, reading: Reading, default: float, t: float) -> float:
        """Return the variance of a reading for a query at time `t`, after checking the reading.

        Raises
        ------
        ValueError
            If the reading cannot be used; the message is the reason.
        """
        if not is_finite_number(reading.value) and isinstance(reading.note, str) and reading.note:
            raise ValueError(clean(reading.note, 80))
        check_sizes(np.array([finite_number("its value", reading.value)]), "its value")
        age = abs(t - as_time(reading.time, "its time"))
        if age > self.staleness:
            side = "older" if reading.time < t else "newer"
            raise ValueError(f"it is of t = {reading.time:g}, {age:.3g} {side} than t = {t:g}")
        stated_variance = check_optional(noise_variance_number, "its variance", reading.variance)
        variance = max(default if stated_variance is None else stated_variance, self._least)
        if age > 0 and self.aging is not None:
            ages = Ages(np.array([age]), np.array([1]), 2)
            variance = float(check_effective(self.aging(np.array([variance]), ages), 1)[0])
        if variance > LARGEST_VARIANCE:
            raise ValueError(f"its variance is {variance:g} at the age of {age:.3g}")
        return variance


def _shorten(value: object) -> str:
    """Return a description of a value for a note, with at most 80 characters."""
    return cut(describe(value), 80)


def _limit_notes(notes: list[str], subject: str, most: int = 5) -> list[str]:
    """Return the first notes, and one note with the number of the others."""
    excess = len(notes) - most
    return notes[:most] + ([f"and {excess} more {subject}"] if excess > 0 else [])


def _check_stations(stations: tuple[Station, ...]) -> None:
    """Raise a `ValueError` unless there are stations, all with different ids and places."""
    if not stations:
        raise ValueError("stations must have at least one station, got none")
    names: set[str] = set()
    places: dict[tuple[float, ...], str] = {}
    for station in stations:
        check_instance("stations", station, Station, "Stations")
        place, dimension = station.coordinates, len(stations[0].coordinates)
        if len(place) != dimension:
            raise ValueError(
                f"station {station.id!r} has {len(place)} coordinates, "
                f"station {stations[0].id!r} has {dimension}"
            )
        if station.id in names:
            raise ValueError(f"two stations are called {station.id!r}")
        if place in places:
            raise ValueError(
                f"stations {places[place]!r} and {station.id!r} are at the same place, {list(place)}: "
                "the second would never be queried"
            )
        names.add(station.id)
        places[place] = station.id
