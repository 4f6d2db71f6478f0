"""An expert that is a network of measuring stations, asked through some transport.

The expert finds the station of every point, a `Transport` carries the questions (`StubTransport` in this
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
    as_points,
    as_time,
    as_variances,
    check_part,
    check_sizes,
    clean,
    cut,
    describe,
    error_line,
    finite_number,
    function,
    is_finite_number,
    noise_variance_number,
    not_negative,
    of_kind,
    optional,
    settle,
    several,
)


@dataclass(frozen=True)
class Reading:
    """The message of a station. The expert checks it.

    Attributes
    ----------
    station : str
        The id of the station.
    time : float
        The time of the measurement, in the bandit's unit.
    value : float
        The measurement (unit of reward); NaN where there is none.
    variance : float, optional
        Its noise variance (unit of reward squared); by default the station's.
    note : str
        The reason why there is no value; ignored where there is one.

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
    """Raise a `ValueError` unless a station can have this id."""
    if not (isinstance(name, str) and name):
        raise ValueError(
            f"the id of a station must be a text that is not empty, got {describe(name)}"
        )


@dataclass(frozen=True)
class Station:
    """A place where the reward is measured.

    Attributes
    ----------
    id : str
        Its name, not empty.
    coordinates : tuple of d float
        Its place, as a point of the domain; a number will do where d is 1.
    noise_variance : float
        Noise variance of its readings (unit of reward squared); positive. It is used where a reading
        does not state its own.

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
        settle(self, coordinates=tuple(point[0].tolist()), noise_variance=variance)


@runtime_checkable
class Transport(Protocol):
    """A way to ask stations."""

    def request(self, stations: Sequence[str], t: float) -> Sequence[Reading]:
        """Ask stations (ids, each once) for their reading at time `t`, all at once.

        Returns
        -------
        sequence of Reading
            Those that came in time, in any order, of the stations that answered.

        Raises
        ------
        OSError or any exception that is not in `tvbandits.experts.protocol.MISTAKES`
            If no station can be reached now, as with `ConnectionError`.
        """


def stations_at(
    points: ArrayLike, ids: Sequence[str] | None = None, *, noise_variance: ArrayLike
) -> tuple[Station, ...]:
    """Return stations at `points`, such as those of a table of measurements.

    Parameters
    ----------
    points : array of shape (A, d)
    ids : sequence of A str, optional
        Their names; by default, or if empty, "0", "1", ...
    noise_variance : float or array of shape (A,)
        Noise variance of their readings (unit of reward squared); positive.

    Examples
    --------
    >>> from tvbandits.experts import stations_at
    >>> print(stations_at([[0.0], [1.0]], ["mill", "weir"], noise_variance=0.04)[1].id)
    weir
    """
    places = as_points(points, name="points")
    names = [] if ids is None else several("ids", ids, "the names of stations")
    names = names or [str(row) for row in range(len(places))]
    if len(names) != len(places):
        raise ValueError(f"ids must name {len(places)} points, got {len(names)}")
    variance = as_variances(noise_variance, len(places), "noise_variance").tolist()
    return tuple(map(Station, names, map(tuple, places.tolist()), variance))


@dataclass(frozen=True, eq=False, repr=False)
class SensorExpert:
    """Answers with the readings of measuring stations.

    The nearest station answers for a point. The answer is NaN, with a note, where no station is within
    `tolerance`, or the station does not answer or its reading cannot be used.

    Parameters
    ----------
    stations : sequence of Station
        At least one; no two of one name or at one place.
    transport : Transport
    tolerance : float
        Largest distance between a point and its station, in the unit of the domain. The variance of an
        answer is that of the reading: it does not grow with this distance.
    staleness : float
        Largest difference between the times of reading and question. A reading may be older, or a little
        newer where the clock of a station runs ahead.
    aging : map of `tvbandits.forgetting.aging`, optional
        The growth of the variance of a reading with that difference; needed where `staleness` is
        positive. It sees every such reading as the second newest of two observations, so only maps of
        age make sense: `Linear`, `Wiener`, `Exponential`, `Constant`.
    cost : float
        Cost of asking one station once, whether it answers or not.
    least_variance : float, optional
        Floor of the variances that readings state: a smaller one is raised to it, with a note. By
        default a thousandth of the smallest `noise_variance` of the stations: a station that claims to
        measure so much better than the network is mistaken.

    Raises
    ------
    ValueError
        If stations are not alike in dimension, share a name or a place, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import SensorExpert, StubTransport, stations_at
    >>> points, levels = np.array([[0.0], [1.0]]), np.array([[3.0, 5.0], [4.0, 2.0]])
    >>> stations = stations_at(points, noise_variance=1e-4)
    >>> transport = StubTransport(levels, [each.id for each in stations], noise_variance=1e-4)
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
        stations = tuple(several("stations", self.stations, "a sequence of stations"))
        _check_stations(stations)
        needs = "an object with a method request(stations, t)"
        check_part("transport", self.transport, needs, "request")
        for name in ("tolerance", "staleness", "cost"):
            settle(self, **{name: not_negative(name, getattr(self, name))})
        optional(function, "aging", self.aging, "a map of tvbandits.forgetting.aging")
        if self.staleness > 0 and self.aging is None:
            raise ValueError(
                f"staleness = {self.staleness} needs aging=: how the variance of an old reading "
                "grows (tvbandits.forgetting.aging.Constant() if it does not)"
            )
        floor = self.least_variance
        if floor is None:
            floor = max(min(s.noise_variance for s in stations) / 1000, SMALLEST_VARIANCE)
        least = noise_variance_number("least_variance", floor)
        places = np.array([s.coordinates for s in stations])
        settle(self, stations=stations, _least=least, _places=places)

    def __repr__(self) -> str:
        return f"<SensorExpert: {len(self.stations)} stations through {self.transport!r}>"

    def query(self, X: Array, t: float) -> Answers:
        """Ask the stations of the points `X` (q, d), each station once.

        Raises
        ------
        ExpertUnavailableError
            If the transport cannot reach anybody.
        """
        points, now = as_points(X, self._places.shape[1]), as_time(t)
        if len(points) == 0:
            return Answers.none(0)
        distances = cdist(points, self._places)
        row, distance = distances.argmin(axis=1), distances.min(axis=1)
        near = distance <= self.tolerance
        refusals = [
            f"no station within {self.tolerance:g} of {[float(f'{x:.6g}') for x in points[i]]}: "
            f"the nearest is {self.stations[row[i]].id!r}, {distance[i]:.3g} away"
            for i in np.flatnonzero(~near)
        ]
        rows = {self.stations[i].id: i for i in row[near].tolist()}
        values, variance = np.full((2, len(self.stations)), np.nan)
        readings, notes = self._read(rows, now) if rows else ({}, [])
        for i, reading in readings.items():
            values[i], variance[i] = reading
        return Answers(
            np.where(near, values[row], np.nan),
            np.where(near, variance[row], np.nan),
            self.cost * len(rows),
            (*_first_notes(refusals, "points without a station"), *notes),
        )

    def _read(
        self, rows: dict[str, int], t: float
    ) -> tuple[dict[int, tuple[float, float]], list[str]]:
        """Return value and variance of each valid reading by row of its station, and notes on others."""
        first: dict[str, Reading] = {}
        valid: dict[int, tuple[float, float]] = {}
        refusals, below_floor = [], []
        for reading in self._request(list(rows), t):
            name = reading.station
            if not isinstance(name, str) or name not in rows:
                refusals.append(f"a reading of {_short(name)}, which was not asked, is left out")
            elif name in first:
                refusals.append(f"a second reading of {_short(name)} is left out")
            else:
                first[name] = reading
        for name, reading in first.items():
            try:
                variance = self._variance(reading, self.stations[rows[name]].noise_variance, t)
            except ValueError as error:
                refusals.append(f"the reading of {_short(name)} is refused: {error}")
                continue
            valid[rows[name]] = float(reading.value), variance
            if reading.variance is not None and reading.variance < self._least:
                below_floor.append(name)
        notes = _first_notes(refusals, "readings refused or left out")
        if below_floor:
            notes.insert(
                0,
                f"variance raised to {self._least:.3g} for {first_few([*map(_short, below_floor)])}",
            )
        if silent := [name for name in rows if name not in first]:
            notes.append(f"no answer from {first_few([*map(_short, silent)])}")
        return valid, notes

    def _request(self, ids: list[str], t: float) -> list[Reading]:
        """Return the readings of stations, unchecked."""
        try:
            readings = list(self.transport.request(ids, t))
        except (ExpertError, *MISTAKES):
            raise
        except Exception as error:
            raise ExpertUnavailableError(
                f"{len(ids)} station{'s' * (len(ids) > 1)} cannot be reached: {error_line(error)}"
            ) from error
        for reading in readings:
            if not isinstance(reading, Reading):
                raise TypeError(f"the transport must return Readings, got {_short(reading)}")
        return readings

    def _variance(self, reading: Reading, default: float, t: float) -> float:
        """Return the variance of a reading at time `t`; a `ValueError` says why it cannot be used."""
        if not is_finite_number(reading.value) and isinstance(reading.note, str) and reading.note:
            raise ValueError(clean(reading.note, 80))
        check_sizes(np.array([finite_number("its value", reading.value)]), "its value")
        age = abs(t - as_time(reading.time, "its time"))
        if age > self.staleness:
            side = "older" if reading.time < t else "newer"
            raise ValueError(f"it is of t = {reading.time:g}, {age:.3g} {side} than t = {t:g}")
        stated = optional(noise_variance_number, "its variance", reading.variance)
        variance = max(default if stated is None else stated, self._least)
        if age > 0 and self.aging is not None:
            ages = Ages(np.array([age]), np.array([1]), 2)
            variance = float(check_effective(self.aging(np.array([variance]), ages), 1)[0])
        if variance > LARGEST_VARIANCE:
            raise ValueError(f"its variance is {variance:g} at the age of {age:.3g}")
        return variance


def _short(value: object) -> str:
    """Return a value for a note, of at most 80 characters."""
    return cut(describe(value), 80)


def _first_notes(notes: list[str], what: str, most: int = 5) -> list[str]:
    """Return the first notes, and one on how many more there are."""
    more = len(notes) - most
    return notes[:most] + ([f"and {more} more {what}"] if more > 0 else [])


def _check_stations(stations: tuple[Station, ...]) -> None:
    """Raise a `ValueError` unless there are stations, with ids and places of their own."""
    if not stations:
        raise ValueError("stations must have at least one station, got none")
    names: set[str] = set()
    places: dict[tuple[float, ...], str] = {}
    for station in stations:
        of_kind("stations", station, Station, "Stations")
        first, place = stations[0], station.coordinates
        if len(place) != len(first.coordinates):
            raise ValueError(
                f"station {station.id!r} has {len(place)} coordinates, "
                f"station {first.id!r} has {len(first.coordinates)}"
            )
        if station.id in names:
            raise ValueError(f"two stations are called {station.id!r}")
        if place in places:
            raise ValueError(
                f"stations {places[place]!r} and {station.id!r} stand at one place, {list(place)}: the "
                "second would never be asked"
            )
        names.add(station.id)
        places[place] = station.id
