"""Posteriors: what they are conditioned on, what they answer, and the rules that make them.

Nobody outside of `gp` asks which posterior it has. All of them answer the questions of
`Posterior`. What only some of them can do is a generic function with an answer for all others (`expand`,
`discard_before`, `tvbandits.gp.predictions.look_ahead`). What a posterior assumes of the reward is its
`Prior`, and what holds for all posteriors of a kind are facts of the rule (`PosteriorRule`).

A `CandidateGrid` holds the candidates of a finite domain, at which a posterior is needed at every step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from tvbandits.data import GrowingColumns, append_times, replace_fields, row_keys
from tvbandits.gp.kernels.space_time import advance, is_space_time
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class NoiseLimits:
    """Ratios of a noise variance to the prior variance from which on an observation is treated apart.

    Attributes
    ----------
    negligible : float
        A noisier observation cannot move the posterior by one rounding error: it is left out, so that a
        long discounted history costs nothing.
    faint : float
        A noisier value of a pending point is not worth counting.
    level : float
        Prior variance of an unknown level, whose mean is subtracted before.
    """

    negligible: float = 1e16
    faint: float = 1e6
    level: float = 1e6


NOISE_LIMITS = NoiseLimits()

# Up to so many candidates are taken for the places of a network.
LARGEST_NETWORK = 64


# --- observations ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """What a posterior is conditioned on.

    Attributes
    ----------
    Z : array of shape (n, p)
        Kernel inputs: points, or points and times for a space-time kernel.
    Y : array of shape (n, c)
        Value columns.
    variance : array of shape (n,)
        Finite positive noise variances.
    levels : integer array of shape (n,), optional
        Rows with the same number share an unknown level, which is no part of what is learned.
    """

    Z: Array
    Y: Array
    variance: Array
    levels: Index | None = None
    room: GrowingColumns | None = field(default=None, init=False, repr=False, compare=False)
    """Storage behind the columns, where it has room for more."""

    def __reduce__(self) -> tuple[object, ...]:
        """Store the rows alone."""
        return Data, (self.Z, self.Y, self.variance, self.levels)

    def __len__(self) -> int:
        return len(self.Z)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.Z, self.Y, self.variance))

    def starts_with(self, other: Data, skip: int = 0) -> bool:
        """Return whether these rows begin with `other`'s rows from `skip` on, bit for bit."""
        m = len(other.Z) - skip
        return (
            len(self.Z) >= m
            and np.array_equal(self.variance[:m], other.variance[skip:])
            and np.array_equal(self.Z[:m], other.Z[skip:])
            and np.array_equal(self.Y[:m], other.Y[skip:])
        )

    def rows_missing_from(self, other: Data) -> Data | None:
        """Return the rows that `other` lacks, in their order; None if it has rows that are not here."""
        if self.starts_with(other):
            return self.rows(len(other))
        here, there = (np.column_stack(tuple(each)) for each in (self, other))
        n = min(len(self), len(other))
        differ = np.flatnonzero((here[:n] != there[:n]).any(axis=1))
        start = int(differ[0]) if len(differ) else n
        unmatched = Counter(row.tobytes() for row in there[start:])
        fresh = []
        for i in range(start, len(self)):
            key = here[i].tobytes()
            if unmatched[key] == 0:
                fresh.append(i)
            else:
                unmatched[key] -= 1
        return (
            None if unmatched.total() else Data(self.Z[fresh], self.Y[fresh], self.variance[fresh])
        )

    @property
    def inputs_with_levels(self) -> Array:
        """Inputs, and levels where there are any (n, p): rows that are equal here are repeats."""
        return self.Z if self.levels is None else np.column_stack([self.Z, self.levels])

    def append(self, other: Data) -> Data:
        """Return these rows and then `other`'s, in storage that is shared where it can be."""
        own, theirs = (self.Z, self.Y, self.variance), (other.Z, other.Y, other.variance)
        (Z, Y, variance), room = (self.room or GrowingColumns(own)).append(len(self.Z), theirs)
        data = Data(Z, Y, variance)
        object.__setattr__(data, "room", room)
        return data

    def row(self, i: int) -> Data:
        """Return row i alone."""
        return self.rows(i, i + 1)

    def rows(self, start: int, end: int | None = None) -> Data:
        """Return the rows from `start` on, to before `end`."""
        return Data(self.Z[start:end], self.Y[start:end], self.variance[start:end])

    def in_time(self) -> Data:
        """Return the same rows, the earlier first; itself where they are so already."""
        times = self.Z[:, -1]
        if len(times) < 2 or (times[1:] >= times[:-1]).all():
            return self
        order = np.argsort(times, kind="stable")
        return Data(self.Z[order], self.Y[order], self.variance[order])

    def rows_since(self, t: float) -> Data:
        """Return the rows, which are in order of time, from that time on."""
        return self.rows(int(np.searchsorted(self.Z[:, -1], t)))


def without_negligible(kernel: Any, data: Data) -> Data:
    """Return the observations that are not too noisy to move the posterior at all."""
    if len(data.Z) == 0:
        return data
    heard = data.variance <= NOISE_LIMITS.negligible * float(np.max(kernel.diag(data.Z)))
    if heard.all():
        return data
    levels = None if data.levels is None else data.levels[heard]
    return Data(data.Z[heard], data.Y[heard], data.variance[heard], levels)


def level_noise(levels: Index, variance: Array, prior: float) -> Array:
    """Return what unknown levels add to the noise covariance (n, n) of readings.

    Parameters
    ----------
    levels : integer array of shape (n,)
    variance : array of shape (n,)
    prior : float
        Prior variance of the reward.
    """
    precision = np.bincount(levels, 1.0 / variance)[levels]
    wide = NOISE_LIMITS.level * (prior + 1.0 / precision)
    return np.where(levels[:, None] == levels, wide, 0.0)


def without_levels(groups: Array | Index, values: Array, variance: Array) -> Array:
    """Return columns (n, c) less their precision-weighted means over each group, such as a time."""
    _, levels = np.unique(groups, return_inverse=True)
    total = np.bincount(levels, 1.0 / variance)
    means = [np.bincount(levels, column / variance) / total for column in values.T]
    return np.asarray(values - np.column_stack(means)[levels])


@dataclass(frozen=True)
class Groups:
    """Which observations share an input.

    Attributes
    ----------
    Z : array of shape (n, p)
        Kernel inputs.
    group : integer array of shape (n,)
        Number of the input of each row, in order of first appearance.
    first : integer array of shape (u,)
        The row in which each input appears first.
    keys : mapping of bytes to int
        Numbers by input.
    """

    Z: Array
    group: Index
    first: Index
    keys: Mapping[bytes, int]

    @classmethod
    def of(cls, Z: Array, previous: Groups | None = None) -> Groups:
        """Group `Z`; only the rows behind those of `previous` are looked at, if it begins with them."""
        start = 0 if previous is None else len(previous.Z)
        if previous is None or start > len(Z) or not np.array_equal(Z[:start], previous.Z):
            previous, start = _UNGROUPED, 0
        keys, fresh = dict(previous.keys), row_keys(Z[start:])
        group = [keys.setdefault(key, len(keys)) for key in fresh]
        numbers = np.concatenate([previous.group, np.array(group, dtype=np.int64)])
        rows = dict(zip(reversed(group), range(len(Z) - 1, start - 1, -1), strict=True))
        first = [rows[number] for number in range(len(previous.first), len(keys))]
        return cls(Z, numbers, np.append(previous.first, np.array(first, dtype=np.int64)), keys)

    def merge(self, data: Data) -> Data:
        """Join observations of one input: precisions add up, values average by precision.

        Returns the joined rows in order of first appearance.
        """
        if len(self.first) == len(self.group):
            return data
        precision = 1.0 / data.variance
        total = np.bincount(self.group, precision)
        Y = np.empty((len(total), data.Y.shape[1]))
        for column, y in enumerate(data.Y.T):
            Y[:, column] = np.bincount(self.group, precision * y) / total
        levels = None if data.levels is None else data.levels[self.first]
        return Data(data.Z[self.first], Y, 1.0 / total, levels)


_UNGROUPED = Groups(np.empty((0, 0)), np.empty(0, np.int64), np.empty(0, np.int64), {})


# --- candidates -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class AppendBuffer:
    """The first rows of shared storage; `append` returns a longer view.

    A view never changes: rows are written only behind the last one of any view, and a view that was
    overtaken (two appends to the same view) gets storage of its own.

    Attributes
    ----------
    storage : array of shape (capacity, columns)
        Behind many views; rows that are written never change again.
    free : list of int
        The number of the first row that is not written. Who takes it out may write that row, and puts
        the next one back; an interrupt in between leaves it empty, and nobody writes here any more.
    array : array of shape (n, columns), or (n, n) where square
        The rows, without a copy.
    square : bool
        Rows and columns grow together, for triangular factors.
    """

    storage: Array = field(repr=False, compare=False)
    free: list[int] = field(repr=False, compare=False)
    array: Array = field(repr=False, compare=False)
    square: bool = False

    @classmethod
    def of(cls, rows: Array, *, square: bool = False) -> AppendBuffer:
        """Copy `rows`, with room behind them."""
        n = len(rows)
        capacity = max(16, n + n // 2)
        storage = np.zeros((capacity, capacity if square else rows.shape[1]))
        storage[:n, : rows.shape[1]] = rows
        return cls(storage, [n], storage[:n, : n if square else None], square)

    def append(self, row: Array) -> AppendBuffer:
        """Return these rows and one more, of shape (columns,), or (n + 1,) where square."""
        storage, free, n = self.storage, self.free, len(self.array)
        try:
            free.remove(n if n < len(storage) else -1)
        except ValueError:  # another view has it, or there is none
            storage, free = AppendBuffer.of(self.array, square=self.square).storage, []
        storage[n, : len(row)] = row
        free.append(n + 1)
        view = storage[: n + 1, : n + 1 if self.square else None]
        return AppendBuffer(storage, free, view, self.square)

    def __reduce__(self) -> tuple[object, ...]:
        """Store the rows of this view alone."""
        return AppendBuffer.__restored__, (self.array.copy(), self.square)

    def __saved__(self) -> dict[str, object]:
        """Return what a saved file holds, as `__reduce__`."""
        return {"rows": self.array.copy(), "square": self.square}

    @classmethod
    def __restored__(cls, rows: Array, square: bool) -> AppendBuffer:
        return cls.of(rows, square=square)


T = TypeVar("T")


class CandidateGrid:
    """The candidates at which a posterior is needed again and again, and kernel rows to them.

    Rows of a kernel that does not see time are stored: each input is evaluated once.

    Parameters
    ----------
    kernel : scikit-learn kernel
    points : array of shape (A, d)
    """

    def __init__(self, kernel: Any, points: Array) -> None:
        self.kernel, self.points = kernel, points
        self.space_time = is_space_time(kernel)
        # Numbers of rows, and the rows: one value, so that neither is ever there without the other.
        self._kernel_rows: tuple[dict[bytes, int], AppendBuffer] = (
            {},
            AppendBuffer.of(np.empty((0, len(points)))),
        )
        self._memo: dict[Any, Any] = {}

    def __saved__(self) -> dict[str, Any]:
        """Return what a saved file holds; the rest is computed again."""
        return {"kernel": self.kernel, "points": self.points}

    def at(self, now: float) -> Array:
        """Return the kernel inputs of the candidates at the time `now`."""
        if not self.space_time:
            return self.points
        return append_times(self.points, now)

    def prior_variance(self, now: float) -> Array:
        """Return k(x, x) at the candidates, shape (A,)."""
        return np.asarray(self.kernel.diag(self.at(now)))

    @cached_property
    def largest_prior(self) -> float:
        """The largest prior variance of an observation; infinite where that cannot be known."""
        constant = not self.space_time and self.kernel.is_stationary()
        return float(self.prior_variance(0.0).max()) if constant else math.inf

    def rows(self, Z: Array, now: float) -> Array:
        """Return the kernel rows k(Z, candidates at now), shape (n, A), in an array of their own."""
        if self.space_time:
            return np.array(self.kernel(Z, self.at(now)), order="C")
        keys = row_keys(Z)
        where, stored = self._kernel_rows
        fresh = [key for key in dict.fromkeys(keys) if key not in where]
        if fresh:
            rows = self.kernel(np.array([np.frombuffer(key) for key in fresh]), self.points)
            where = dict(where)
            for key, row in zip(fresh, rows, strict=True):
                where[key] = len(stored.array)
                stored = stored.append(row)
            self._kernel_rows = (where, stored)
        return stored.array[[where[key] for key in keys]]

    def covariance(self, Z: Array, rows: Array) -> Array:
        """Return k(Z, Z) (n, n), in an array of its own.

        It is taken from `rows`, which are k(Z, candidates) (n, A), where all inputs are candidates.
        """
        where = [] if self.space_time else self.indices(Z)
        if None in where or len(where) < len(Z):
            return np.array(self.kernel(Z))
        return rows[:, np.array(where, dtype=np.int64)]

    def index(self, x: Array) -> int | None:
        """Return which of the candidates `x` (d,) is, if any."""
        return self._points_by_key.get((x + 0.0).tobytes())

    def indices(self, X: Array) -> list[int | None]:
        """Return which of the candidates each of points (n, d) is, if any."""
        return [self._points_by_key.get(key) for key in row_keys(X)]

    def contains(self, keys: Iterable[bytes]) -> bool:
        """Return whether all inputs, as the bytes of their coordinates, are candidates."""
        return self._points_by_key.keys() >= set(keys)

    def remember(self, make: Callable[[CandidateGrid], T]) -> T:
        """Return `make(self)`, which is computed once."""
        if make not in self._memo:
            self._memo[make] = make(self)
        value: T = self._memo[make]
        return value

    @cached_property
    def _points_by_key(self) -> dict[bytes, int]:
        return {key: i for i, key in enumerate(row_keys(self.points))}


@dataclass(frozen=True)
class GridPosterior:
    """A posterior at the candidates: their embedding L^-1 k(Z, candidates), and what follows from it.

    All of it speaks about the time `now`; for a kernel that only shrinks covariances as time goes on,
    later times cost one number (`shrink`), which multiplies every row of the embedding.

    Attributes
    ----------
    embedding : AppendBuffer of shape (n, A)
    now, shrink : float
    means : array of shape (A, c)
        embedding^T L^-1 Y, without `shrink`.
    explained : array of shape (A,)
        Squared column lengths of the embedding, without `shrink`.
    prior : array of shape (A,)
        Prior variances.
    """

    embedding: AppendBuffer
    now: float
    shrink: float
    means: Array
    explained: Array
    prior: Array

    @classmethod
    def of(cls, embedding: Array, weights: Array, prior: Array, now: float) -> GridPosterior:
        """Compute what follows from an embedding (n, A) and L^-1 Y (n, c)."""
        explained = np.einsum("ij,ij->j", embedding, embedding)
        means = embedding.T @ weights
        return cls(AppendBuffer.of(embedding), now, 1.0, means, explained, prior)

    def advance(self, grid: CandidateGrid, Z: Array, now: float) -> GridPosterior | None:
        """Return the same at a later time; None if the kernel does not allow it.

        `Z` are the inputs of the rows.
        """
        if now == self.now:
            return self
        if not grid.space_time:
            return replace(self, now=now)
        # Inputs that were in the future of `self.now` do not all shrink by one number.
        later = now > self.now and Z[:, -1].max(initial=-math.inf) <= self.now
        factor = advance(grid.kernel, now - self.now) if later else None
        if factor is None:
            return None
        shrink = self.shrink * factor
        if shrink >= 1e-6:
            return replace_fields(self, now=now, shrink=shrink)
        # Folded into the rows, so that new rows need not be divided by a tiny number.
        return replace_fields(
            self,
            embedding=AppendBuffer.of(self.embedding.array * shrink),
            now=now,
            shrink=1.0,
            means=self.means * shrink,
            explained=self.explained * shrink**2,
        )


# --- the prior ------------------------------------------------------------------------------------


class Prior(Protocol):
    """What a posterior assumes of the reward: a kernel, or a law that was learned from the rewards.

    Variances and covariances are in the unit of the posterior's variances.
    """

    @property
    def kernel(self) -> Any:
        """The prior covariance before any observation, a scikit-learn kernel."""

    def covariance(self, Z: Array) -> Array:
        """Return the prior covariance (n, n) of what differs between inputs (n, p)."""

    def effective_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:
        """Return the noise (n,) with which earlier values speak about inputs of now.

        Parameters
        ----------
        here, then : arrays of shape (n, p)
            Inputs now, and those of the values.
        ages : array of shape (n,)
            Time since the values.
        noise : array of shape (n,)
            Their noise variances.

        Returns
        -------
        noise : array of shape (n,)
            Infinite where a value is not worth counting.
        """

    @property
    def nugget(self) -> float:
        """Variance of what is new at every point and time, which `Posterior.predict` leaves out."""

    @property
    def persistent_share(self) -> Array | float:
        """Share (A,) of the deviations at the candidates that rewards of later steps would explain."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What was learned of the reward, by the names of `tvbandits.bandit.info.ModelInfo`."""


@dataclass(frozen=True)
class KernelPrior:
    """The prior of a kernel, which learns nothing: a `Prior`."""

    kernel: Any

    nugget: ClassVar[float] = 0.0
    persistent_share: ClassVar[float] = 1.0
    parameters: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def covariance(self, Z: Array) -> Array:
        """Return the prior covariance (n, n) of inputs (n, p)."""
        return np.asarray(self.kernel(Z))

    def effective_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """Return the noise (n,) with which earlier values speak about inputs of now."""
        prior = np.asarray(self.kernel.diag(here))
        if is_space_time(self.kernel):
            across = np.diagonal(self.kernel(here, then))
            noise = as_of_now(noise, prior, np.minimum((across / prior) ** 2, 1.0))
        return np.asarray(np.where(noise <= NOISE_LIMITS.faint * prior, noise, np.inf))


def as_of_now(noise: Array, prior: Array | float, r2: Array) -> Array:
    """Return the noise (n,) with which values of other times speak about now.

    A value of the time s is y = f_s + e. Where f_s and f_now have the correlation r, it is worth an
    observation of f_now with the noise variance (k (1 - r^2) + v) / r^2.

    Parameters
    ----------
    noise : array of shape (n,)
        v.
    prior : array of shape (n,) or float
        k.
    r2 : array of shape (n,)
        r^2; where it is 0, the noise is infinite.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray((prior * (1.0 - r2) + noise) / r2)


# --- the posterior --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PosteriorSummary:
    """Facts about a posterior.

    Attributes
    ----------
    kernel : scikit-learn kernel
        That of conditioning.
    data : Data
        What it is conditioned on.
    size : int
        Number of its rows: observations, or distinct inputs of them.
    products : array of shape (c, c)
        Y^T (K + Sigma)^-1 Y of the value columns; NaN where the mean is not linear in the values.
    log_det_ratio : float
        log det(Sigma + K) - log det Sigma: twice the information gain of the observations.
    effective_dimension : callable
        Returns how many independent numbers the observations determine, tr(K (K + Sigma)^-1). It may
        take as long as a new factor.
    jitter : float
        What had to be added to a diagonal, in prior units; 0 in good health.
    dictionary_size : int, optional
        Number of inducing points; None where there are none.
    exact : bool
        Whether nothing is approximated on inducing points.
    dense : bool
        Whether a matrix of all rows is factored.
    """

    kernel: Any
    data: Data
    size: int
    products: Array
    log_det_ratio: float
    effective_dimension: Callable[[], float]
    jitter: float = 0.0
    dictionary_size: int | None = None
    exact: bool = True
    dense: bool = False


class Posterior(Protocol):
    """A conditioned Gaussian process of zero prior mean, with c value columns.

    Kernel inputs are rows of shape (p,): a point, or a point and its time
    (`tvbandits.gp.kernel_matrix.inputs`). Variances are in prior units, means in the unit of the
    values. Nothing changes a posterior.

    Methods that take a `CandidateGrid` answer for all its candidates at the time of conditioning,
    without a new solve. They raise a `ValueError` if the posterior was conditioned without the grid.
    """

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, c) and variances (n,) at kernel inputs (n, p), or at candidates."""

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of inputs (n1, p) with others, or with candidates."""

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Return centred draws (count, A) at the candidates: of the first column less its mean.

        Each value has the variance of `predict`. What a dictionary or features leave out of the kernel
        is drawn for each candidate on its own.
        """

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> Posterior | None:
        """Return the posterior with more observations, about the time `now`; None: condition anew.

        It is what `PosteriorRule.condition` comes to. None says that the caller has to condition on all
        observations, as for a `SparsePosterior` always: its dictionary is drawn anew.
        """

    def fantasize(self, Z: Array, noise: float | Array, grid: CandidateGrid | None) -> Posterior:
        """Return the posterior with more observations of one time, whose values are unknown.

        Variances are those of the larger set; means are of no use.

        Parameters
        ----------
        Z : array of shape (k, p)
        noise : float or array of shape (k,)
            Noise variances of the observations, in prior units.
        grid : CandidateGrid or None
            That of conditioning.
        """

    @property
    def summary(self) -> PosteriorSummary:
        """Facts about it."""


def no_grid() -> ValueError:
    """Return the error of a posterior that is asked about candidates it was conditioned without."""
    return ValueError("this posterior was conditioned without candidates")


class Expansion(NamedTuple):
    """A posterior as sums of kernel rows: means k(z)^T means, variances k(z, z) - k(z)^T less k(z).

    Attributes
    ----------
    kernel : scikit-learn kernel
    Z : array of shape (n, p)
        The inputs of the rows k(z) = k(Z, z).
    less : array of shape (n, n)
    means : array of shape (n, c)
    """

    kernel: Any
    Z: Array
    less: Array
    means: Array


@singledispatch
def expand(posterior: Posterior, largest_condition: float) -> Expansion | None:  # noqa: ARG001
    """Return a posterior as sums of kernel rows.

    None where it is none, or one whose matrix has a larger condition number.
    """
    return None


@singledispatch
def discard_before(posterior: Posterior, t: float) -> Posterior | None:  # noqa: ARG001
    """Return a posterior without the rows from before a time, whose information it still has.

    None where it needs them: all that most posteriors know is in their rows.
    """
    return None


@singledispatch
def dictionary_data(posterior: Posterior) -> Data | None:  # noqa: ARG001
    """Return the data of a posterior on a dictionary, from which the exact posterior can be had, too.

    None for one that is on none, and where not all of it comes from such data.
    """
    return None


# --- rules ----------------------------------------------------------------------------------------


class Conditioning(NamedTuple):
    """What a posterior is conditioned on, from what, and about which candidates and time.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
    grid : CandidateGrid, optional
        Candidates that the posterior will answer for, at the time `now`.
    now : float
    previous : Posterior, optional
        A posterior of the same kernel and grid on other data; ignored where it is no help.
    rng : numpy.random.Generator, optional
        Draws a dictionary, where one is drawn.
    noise_variance : float
        Of a reward to come, where it is learned how much of a reward is noise.
    """

    kernel: Any
    data: Data
    grid: CandidateGrid | None = None
    now: float = 0.0
    previous: Posterior | None = None
    rng: np.random.Generator | None = None
    noise_variance: float = 0.0


class PosteriorRule(Protocol):
    """How a posterior is made of data: a part of a recipe. What is usual may be inherited.

    Attributes
    ----------
    self_learning : bool
        Whether it learns mean, unit and forgetting of the reward: its data are rewards in their own
        unit at inputs [x, t], whatever the kernel.
    dense : bool
        Whether whole matrices are factored: of all candidates for `Posterior.sample`, and of all rows,
        whose noise may then be shared, as that of an unknown level.
    in_rows : bool
        Whether all information is in the rows of data, of which none may leave.
    points_apart : bool
        Whether a reading at a point says nothing about the others, whatever the kernel.
    counts_trials : bool
        Whether it is told how many trials a reading is the share of: a second column of values, 0 where
        a reading was measured, and negative where fewer successes are better.
    """

    self_learning: ClassVar[bool] = False
    dense: ClassVar[bool] = False
    in_rows: ClassVar[bool] = False
    points_apart: ClassVar[bool] = False
    counts_trials: ClassVar[bool] = False

    def check(self, kernel: Any) -> None:  # noqa: ARG002
        """Raise a `ValueError` if there is no such posterior of the kernel; by default there is."""
        return

    def on_dictionary(self, kernel: Any) -> bool:  # noqa: ARG002
        """Return whether variances under the kernel are computed one by one, on inducing points."""
        return False

    @property
    def fewest_fitted(self) -> int:
        """Fewest candidates on which a kernel is fitted to an outcome, in place of this rule.

        Fewer are the places of a network, each with a level of its own.
        """
        return LARGEST_NETWORK + 1

    def of_other_unit(self) -> PosteriorRule:
        """Return the rule for what has another unit than the reward; by default itself."""
        return self

    def warm_start(self, posterior: Any) -> PosteriorRule:  # noqa: ARG002
        """Return the rule whose prior is what a posterior has learned elsewhere; by default itself."""
        return self

    def prior(self, posterior: Posterior) -> Prior:
        """Return what a posterior of this rule assumes of the reward."""
        return KernelPrior(posterior.summary.kernel)

    def condition(self, conditioning: Conditioning) -> Posterior:
        """Condition on data, from the previous posterior where that is cheaper.

        Raises
        ------
        FactorisationError
            If the kernel matrix is not positive definite.
        """
