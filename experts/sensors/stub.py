"""Stations without a network: a table of true levels, replayed with noise and with chosen faults.

Everything that looks random is drawn by key: the noise of a measurement from (seed, station, time), and
the fate of an answer from (seed, station, time asked, fault). So the same question has the same answer,
in whatever order and in whatever process it is asked, and runs under faults can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.experts.sensors.expert import Reading
from tvbandits.validation import (
    as_floats,
    as_time,
    as_variances,
    finite_number,
    is_finite_number,
    of_kind,
    positive_number,
    require,
    settle,
    several,
    shown,
    whole_number,
)

# Streams of draws; the place of a fault in the tuple is added to the last.
_NOISE, _LOSS = 0x5E0000, 0x5E1000


@dataclass(frozen=True)
class Faults:
    """What goes wrong with some stations, or with all.

    Attributes
    ----------
    loss : float
        Probability that an answer is lost, or comes too late, which is the same to whoever asked.
    drift : float
        A bias that grows by so much per unit of time (of the bandit), from the first time of the table.
    bias : float
        Added to every value (unit of reward).
    stuck_from : float, optional
        From this time on a station goes on reporting what it measured then, as if it were new. One that
        had not measured anything reports its first measurement.
    variance_factor : float
        The variance that is reported is the true one times this; the noise stays. 0.1: noise is
        understated ten times.
    down : pair of float, optional
        (from, until): nobody answers at times from <= t < until. A request then raises
        `ConnectionError`, unless `stations` says that only some are down.
    stations : collection of str, optional
        The ids that this applies to; None: all.

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
        for name in ("drift", "bias"):
            finite_number(name, getattr(self, name))
        positive_number("variance_factor", self.variance_factor)
        if self.stuck_from is not None:
            as_time(self.stuck_from, "stuck_from")
        if self.down is not None:
            settle(self, down=_pair(self.down))
        if self.stations is not None:
            of_kind("stations", self.stations, Collection, "a collection of ids")
            given = sorted(self.stations) if isinstance(self.stations, Set) else self.stations
            settle(self, stations=tuple(several("stations", given, "a collection of ids")))

    def is_down(self, t: float) -> bool:
        """Whether nobody answers at time `t`."""
        return self.down is not None and self.down[0] <= t < self.down[1]


@dataclass(frozen=True, eq=False, repr=False)
class StubTransport:
    """Stations in this process, that replay a table; a `tvbandits.experts.Transport`.

    The rows are of the times 1, 2, ..., T, as in `TableProblem`. A station asked at time `t` answers
    with its latest measurement, the one of the latest time of the table that is not after `t`, and with
    the time of that measurement: so asked between two times, or after the last, its reading is old.
    Before the first time it does not answer.

    Parameters
    ----------
    values : array of shape (T, A)
        True levels, one row for each time (unit of reward); NaN where a station did not measure.
    ids : sequence of A str
        The stations of the columns.
    noise_variance : float or array of shape (A,)
        Variance of the noise that is added (unit of reward squared); positive.
    seed : int
        Of the noise, and of the faults.
    faults : Faults or sequence of Faults
        They act one by one, each with draws of its own: biases add up, variance factors multiply, an
        answer comes if none stops it, and a station is stuck from the earliest time. A stuck station
        keeps its noise, bias and drift of that time too.

    Raises
    ------
    ValueError
        If shapes disagree, a name comes twice, or a fault names a station that is not there.

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
    _column: dict[str, int] = field(init=False)
    # Faults, and whom each of them hits (A,).
    _hits: tuple[tuple[Faults, NDArray[np.bool_]], ...] = field(init=False)

    def __post_init__(self) -> None:
        values = as_floats(self.values, "values")
        if values.ndim != 2 or values.size == 0:
            raise ValueError(f"values must have shape (T, A), T and A >= 1, got {values.shape}")
        if np.isinf(values).any():
            raise ValueError("values must be finite, or NaN where nothing was measured; got inf")
        A = values.shape[1]
        variance = as_variances(self.noise_variance, A, "noise_variance")
        column = _columns(self.ids, A)
        seed = whole_number("seed", self.seed, at_least=0)
        faults = _faults(self.faults)
        for given in (values, variance):
            given.setflags(write=False)
        hits = tuple((fault, _whom(fault, column)) for fault in faults)
        settle(self, values=values, ids=tuple(column), seed=seed)
        settle(self, _variance=variance, _column=column, _hits=hits)

    def __repr__(self) -> str:
        T, A = self.values.shape
        faults = "".join(f", {fault!r}" for fault, _ in self._hits)
        return f"<StubTransport: {A} stations x {T} times, seed {self.seed}{faults}>"

    def request(self, stations: Sequence[str], t: float) -> list[Reading]:
        """Readings of those stations that answer at time `t`.

        Raises
        ------
        ConnectionError
            If everybody is down at time `t`.
        ValueError
            If the table has no such station.
        """
        when, columns = as_time(t), self._columns_of(stations)
        for fault, _ in self._hits:
            if fault.stations is None and fault.is_down(when):
                raise ConnectionError(f"all stations are down at t = {when:g}")
        return self._measured(columns, when)

    def read(self, station: str, t: float) -> Reading | None:
        """The reading of one station at time `t`; None where it does not answer."""
        when = as_time(t)
        measured = self._measured(self._columns_of([station], "station"), when)
        return measured[0] if measured else None

    def _columns_of(self, stations: Sequence[str], name: str = "stations") -> NDArray[np.int64]:
        asked = several(name, stations, "a sequence of ids")
        for each in asked:
            if not isinstance(each, str) or each not in self._column:
                raise ValueError(f"{name}: the table has no station {shown(each)}")
        return np.array([self._column[each] for each in asked], dtype=np.int64)

    def _measured(self, columns: NDArray[np.int64], t: float) -> list[Reading]:
        latest = self._row(t)
        if latest < 0:
            return []
        columns = columns[self._answers(columns, t)]
        rows = np.full(len(columns), latest)
        offset, factor = np.zeros(len(columns)), np.ones(len(columns))
        for fault, whom in self._hits:
            if fault.stuck_from is not None:
                stuck = max(self._row(fault.stuck_from), 0)
                rows = np.where(whom[columns], np.minimum(rows, stuck), rows)
        for fault, whom in self._hits:
            hit = whom[columns]
            offset[hit] += fault.bias + fault.drift * rows[hit]
            factor[hit] *= fault.variance_factor
        deviation = np.sqrt(self._variance[columns])
        measured = np.column_stack([columns, rows + 1.0])
        noise = deviation * keyed_normal(self.seed, _NOISE, measured, 0.0)
        values = self.values[rows, columns] + noise + offset
        reported = self._variance[columns] * factor
        return [
            Reading(self.ids[column], latest + 1.0, value, variance)
            for column, value, variance in zip(
                columns.tolist(), values.tolist(), reported.tolist(), strict=True
            )
            if not math.isnan(value)
        ]

    def _row(self, t: float) -> int:
        """The latest row that is not after time `t`; negative where there is none."""
        return math.floor(min(t, len(self.values))) - 1

    def _answers(self, columns: NDArray[np.int64], t: float) -> NDArray[np.bool_]:
        """Whose answer comes in time."""
        comes = np.ones(len(columns), dtype=bool)
        stations = columns[:, None].astype(np.float64)
        for place, (fault, whom) in enumerate(self._hits):
            stopped = np.full(len(columns), fault.is_down(t))
            if fault.loss > 0:
                draw = keyed_normal(self.seed, _LOSS + place, stations, t)
                stopped |= draw <= ndtri(fault.loss)  # with probability `loss`
            comes &= ~(stopped & whom[columns])
        return comes


def _pair(down: object) -> tuple[float, float]:
    if isinstance(down, Sequence) and len(down) == 2:
        start, end = down
        if is_finite_number(start) and is_finite_number(end) and start < end:
            return float(start), float(end)
    raise ValueError(f"down must be a pair of times (from, until), from < until, got {shown(down)}")


def _columns(ids: Sequence[str], A: int) -> dict[str, int]:
    names = several("ids", ids, f"the names of {A} stations")
    require(len(names) == A, "ids", f"{A} names of stations, one for each column of values", ids)
    column: dict[str, int] = {}
    for name in names:
        of_kind("each of ids", name, str, "a text")
        if name in column:
            raise ValueError(f"ids must differ, got {shown(name)} twice")
        column[name] = len(column)
    return column


def _whom(fault: Faults, column: dict[str, int]) -> NDArray[np.bool_]:
    """The stations a fault applies to, as a mask (A,)."""
    if fault.stations is None:
        return np.ones(len(column), dtype=bool)
    for name in fault.stations:
        if name not in column:
            raise ValueError(f"a fault names the station {name!r}, which the table does not have")
    return np.array([name in fault.stations for name in column])


def _faults(given: object) -> tuple[Faults, ...]:
    """One, or several of them."""
    needs = "Faults(...), or a sequence of them"
    faults = [given] if isinstance(given, Faults) else several("faults", given, needs)
    for each in faults:
        of_kind("faults", each, Faults, needs)
    return tuple(faults)
