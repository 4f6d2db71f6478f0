"""A stub of stations without a network, which replays a table with noise and simulated faults.

All random numbers depend only on a key: (seed, station, time) for the noise of a measurement, and (seed,
station, time of the query, fault) for the loss of an answer. So equal queries have equal answers, in any
order and process, and runs with faults can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.experts.sensors.expert import Reading
from tvbandits.validation import (
    Array,
    as_floats,
    as_list,
    as_time,
    as_variances,
    check_instance,
    finite_number,
    is_finite_number,
    positive_number,
    require,
    set_fields,
    whole_number,
)

# Streams of random numbers; the index of a fault is added to the second.
_NOISE, _LOSS = 0x5E0000, 0x5E1000


@dataclass(frozen=True)
class Faults:
    """A combination of faults of some stations, or of all.

    Attributes
    ----------
    loss : float
        Probability that an answer is lost, or arrives too late.
    drift : float
        Growth of a bias per unit of time (of the bandit), from the first time of the table on.
    bias : float
        Number that is added to every value (unit of reward).
    stuck_from : float, optional
        From this time on, a station repeats its measurement at this time as if it were new; if it had
        none yet, its first one.
    variance_factor : float
        Stated variance / true variance of a reading. With 0.1, stations understate their noise variance
        ten times.
    down : pair of float, optional
        (from, until): the stations do not answer at times from <= t < until. If all are down, a request
        raises `ConnectionError`.
    stations : collection of str, optional
        The ids of the stations with these faults; None: all.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from tvbandits.experts import Faults
    >>> print(Faults(loss=0.1, down=(20.0, 30.0)).is_down(25.0))
    True
    """

    loss: float = 0.0
    drift: float = 0.0
    bias: float = 0.0
    stuck_from: float | None = None
    variance_factor: float = 1.0
    down: tuple[float, float] | None = None
    stations: Collection[str] | None = None

    def __post_init__(self) -> None:
        finite_number("loss", self.loss, low=0.0, high=1.0)
        finite_number("drift", self.drift)
        finite_number("bias", self.bias)
        positive_number("variance_factor", self.variance_factor)
        if self.stuck_from is not None:
            as_time(self.stuck_from, "stuck_from")
        if self.down is not None:
            pair = as_list("down", self.down, "a pair of times (from, until)")
            valid = len(pair) == 2 and all(map(is_finite_number, pair)) and pair[0] < pair[1]
            require(valid, "down", "a pair of times (from, until), from < until", self.down)
            set_fields(self, down=tuple(map(float, pair)))
        if self.stations is not None:
            ids = sorted(self.stations) if isinstance(self.stations, Set) else self.stations
            set_fields(self, stations=tuple(as_list("stations", ids, "a collection of ids")))

    def applies_to(self, station: str) -> bool:
        """Return whether a station has these faults."""
        return self.stations is None or station in self.stations

    def is_down(self, t: float) -> bool:
        """Return whether the stations with these faults are down at time `t`."""
        return self.down is not None and self.down[0] <= t < self.down[1]


@dataclass(frozen=True, eq=False, repr=False)
class StubTransport:
    """A transport (`tvbandits.experts.Transport`) whose stations replay a table in this process.

    The rows are of the times 1, 2, ..., T, as in `TableProblem`. The reading for time `t` is that of the
    latest time of the table that is not after `t`, and states that time: between two times, and after
    the last, it is old. Before the first time stations do not answer.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free levels, one row for each time (unit of reward); NaN for no measurement.
    ids : sequence of A str
        The stations of the columns.
    noise_variance : float or array of shape (A,)
        Variance of the noise that is added (unit of reward squared); positive.
    seed : int
        Seed of the noise and of the faults.
    faults : Faults or sequence of Faults
        Faults with independent random numbers. Their biases add up, their variance factors multiply, an
        answer arrives if no fault stops it, and a station is stuck from the earliest time on. A stuck
        station also repeats its noise, bias and drift at that time.

    Raises
    ------
    ValueError
        If shapes disagree, two names are equal, or a fault names a station that the table lacks.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import Faults, StubTransport
    >>> levels = np.array([[3.0, 5.0], [4.0, 2.0]])  # 2 steps, 2 stations
    >>> stuck = Faults(stuck_from=1.0)
    >>> transport = StubTransport(levels, ["a", "b"], noise_variance=1e-4, faults=stuck)
    >>> print([round(reading.value, 1) for reading in transport.request(["a"], 2.0)])
    [3.0]
    """

    values: Array
    ids: Sequence[str]
    noise_variance: ArrayLike = field(kw_only=True)
    seed: int = field(default=0, kw_only=True)
    faults: Faults | Sequence[Faults] = field(default=(), kw_only=True)
    _variance: Array = field(init=False)
    _faults: tuple[Faults, ...] = field(init=False)

    def __post_init__(self) -> None:
        values = as_floats(self.values, "values")
        if values.ndim != 2 or values.size == 0:
            raise ValueError(f"values must have shape (T, A), T and A >= 1, got {values.shape}")
        if np.isinf(values).any():
            raise ValueError("values must be finite, or NaN for no measurement; got inf")
        A = values.shape[1]
        ids = as_list("ids", self.ids, f"the names of {A} stations")
        for name in ids:
            check_instance("each of ids", name, str, "a text")
        requirement = f"{A} different names of stations, one for each column of values"
        require(len(ids) == len(set(ids)) == A, "ids", requirement, ids)
        requirement = "Faults(...), or a sequence of them"
        faults = self.faults
        faults = [faults] if isinstance(faults, Faults) else as_list("faults", faults, requirement)
        for fault in faults:
            check_instance("faults", fault, Faults, requirement)
            for name in fault.stations or ():
                require(_is_one_of(ids, name), "stations of a fault", "in the table", name)
        variance = as_variances(self.noise_variance, A, "noise_variance")
        for array in (values, variance):
            array.setflags(write=False)
        set_fields(self, values=values, ids=tuple(ids), _variance=variance, _faults=tuple(faults))
        set_fields(self, seed=whole_number("seed", self.seed, at_least=0))

    def __repr__(self) -> str:
        T, A = self.values.shape
        faults = "".join(f", {fault!r}" for fault in self._faults)
        return f"<StubTransport: {A} stations x {T} times, seed {self.seed}{faults}>"

    def request(self, stations: Sequence[str], t: float) -> list[Reading]:
        """Return the readings of the stations that answer at time `t`.

        Raises
        ------
        ConnectionError
            If all stations are down at time `t`.
        ValueError
            If the table has no such station.
        """
        t, ids = as_time(t), as_list("stations", stations, "a sequence of ids")
        unknown = [name for name in ids if name not in self.ids]
        require(not unknown, "stations", "ids of the table", unknown)
        for fault in self._faults:
            if fault.stations is None and fault.is_down(t):
                raise ConnectionError(f"all stations are down at t = {t:g}")
        readings = (self.read(station, t) for station in ids)
        return [reading for reading in readings if reading is not None]

    def read(self, station: str, t: float) -> Reading | None:
        """Return the reading of one station at time `t`, or None if it does not answer."""
        t = as_time(t)
        require(_is_one_of(self.ids, station), "station", "one of the table", station)
        column, latest = self.ids.index(station), self._latest_row(t)
        offset, variance, row = 0.0, float(self._variance[column]), max(latest, 0)
        for index, fault in enumerate(self._faults):
            if not fault.applies_to(station):
                continue
            if fault.is_down(t) or self._is_lost(fault, index, column, t):
                return None
            if fault.stuck_from is not None:
                row = min(row, max(self._latest_row(fault.stuck_from), 0))
        noise = keyed_normal(self.seed, _NOISE, np.array([[column, row + 1.0]]), 0.0)[0]
        noise *= math.sqrt(variance)
        for fault in self._faults:
            if fault.applies_to(station):
                offset += fault.bias + fault.drift * row
                variance *= fault.variance_factor
        value = float(self.values[row, column] + noise + offset)
        if latest < 0 or math.isnan(value):
            return None
        return Reading(station, latest + 1.0, value, variance)

    def _latest_row(self, t: float) -> int:
        """Return the row of the latest time that is not after `t`; -1 or less if there is none."""
        return math.floor(min(t, len(self.values))) - 1

    def _is_lost(self, fault: Faults, index: int, column: int, t: float) -> bool:
        """Return whether an answer does not arrive in time, because of the fault with this index."""
        if fault.loss == 0:
            return False
        draw = keyed_normal(self.seed, _LOSS + index, np.array([[float(column)]]), t)[0]
        return bool(draw <= ndtri(fault.loss))  # with probability `loss`


def _is_one_of(ids: Sequence[str], name: object) -> bool:
    """Return whether an object is the name of a station; a missing value of pandas is not."""
    return isinstance(name, str) and name in ids
