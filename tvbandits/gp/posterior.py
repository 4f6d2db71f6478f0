"""Define the interface of all posteriors, of their priors and of the rules that compute them.

Code outside of `gp` uses any posterior through the protocol `Posterior`. An operation that only some
posteriors support is a generic function with a default for all others (`expand_posterior`,
`discard_before`, `predictions.look_ahead`). A posterior's assumptions about the reward are its `Prior`;
properties that all posteriors of one kind share are attributes of their rule (`PosteriorRule`).

A `CandidateGrid` contains the candidates of a finite domain, at which each step needs the posterior.
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
    """Ratios of noise variance to prior variance above which observations are treated differently.

    Attributes
    ----------
    negligible : float
        A noisier observation cannot change the posterior by even one rounding error. It is dropped, so
        that a long discounted history costs nothing.
    faint : float
        The value of a pending point that would be noisier than this is ignored.
    level : float
        Ratio of the prior variance of an unknown level to that of the mean of its readings.
    """

    negligible: float = 1e16
    faint: float = 1e6
    level: float = 1e6


NOISE_LIMITS = NoiseLimits()

# A domain with at most this many candidates is treated as a network of places.
LARGEST_NETWORK = 64


# --- observations ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """The observations that a posterior is conditioned on.

    Attributes
    ----------
    Z : array of shape (n, p)
        Kernel inputs: points, or points and times for a space-time kernel.
    Y : array of shape (n, c)
        Value columns.
    variance : array of shape (n,)
        Finite positive noise variances.
    levels : integer array of shape (n,), optional
        Rows with the same number share an unknown additive level, which the posterior leaves out.
    """

    Z: Array
    Y: Array
    variance: Array
    levels: Index | None = None
    storage: GrowingColumns | None = field(default=None, init=False, repr=False, compare=False)
    """The storage behind the columns, if it has room for more rows."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the rows without the shared storage."""
        return Data, (self.Z, self.Y, self.variance, self.levels)

    def __len__(self) -> int:
        return len(self.Z)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.Z, self.Y, self.variance))

    def starts_with(self, other: Data, skip: int = 0) -> bool:
        """Return whether these rows begin with the rows of `other` from `skip` on, bit for bit."""
        m = len(other.Z) - skip
        return (
            len(self.Z) >= m
            and np.array_equal(self.variance[:m], other.variance[skip:])
            and np.array_equal(self.Z[:m], other.Z[skip:])
            and np.array_equal(self.Y[:m], other.Y[skip:])
        )

    def rows_missing_from(self, other: Data) -> Data | None:
        """Return the rows that `other` lacks, in their order; None if `other` has rows beyond these."""
        if self.starts_with(other):
            return self.rows(len(other))
        own_rows, other_rows = (np.column_stack(tuple(data)) for data in (self, other))
        n = min(len(self), len(other))
        differ = np.flatnonzero((own_rows[:n] != other_rows[:n]).any(axis=1))
        start = int(differ[0]) if len(differ) else n
        unmatched = Counter(row.tobytes() for row in other_rows[start:])
        missing = []
        for i in range(start, len(self)):
            key = own_rows[i].tobytes()
            if unmatched[key] == 0:
                missing.append(i)
            else:
                unmatched[key] -= 1
        if unmatched.total():
            return None
        return Data(self.Z[missing], self.Y[missing], self.variance[missing])

    @property
    def inputs_with_levels(self) -> Array:
        """Return the inputs (n, p), with levels as one more column; equal rows repeat a measurement."""
        return self.Z if self.levels is None else np.column_stack([self.Z, self.levels])

    def append(self, other: Data) -> Data:
        """Return these rows followed by the rows of `other`, in shared storage if it has room."""
        own_columns = (self.Z, self.Y, self.variance)
        other_columns = (other.Z, other.Y, other.variance)
        storage = self.storage or GrowingColumns(own_columns)
        (Z, Y, variance), storage = storage.append(len(self.Z), other_columns)
        data = Data(Z, Y, variance)
        object.__setattr__(data, "storage", storage)
        return data

    def row(self, i: int) -> Data:
        """Return the data of row i only."""
        return self.rows(i, i + 1)

    def rows(self, start: int, end: int | None = None) -> Data:
        """Return the rows from `start` up to, but not including, `end`."""
        return Data(self.Z[start:end], self.Y[start:end], self.variance[start:end])

    def sort_by_time(self) -> Data:
        """Return the rows in the order of their times; `self` if they are already sorted."""
        times = self.Z[:, -1]
        if len(times) < 2 or (times[1:] >= times[:-1]).all():
            return self
        order = np.argsort(times, kind="stable")
        return Data(self.Z[order], self.Y[order], self.variance[order])

    def rows_since(self, t: float) -> Data:
        """Return the rows from time `t` on; the rows must be sorted by time."""
        return self.rows(int(np.searchsorted(self.Z[:, -1], t)))


def drop_negligible(kernel: Any, data: Data) -> Data:
    """Return the observations without those that are too noisy to change the posterior at all."""
    if len(data.Z) == 0:
        return data
    relevant = data.variance <= NOISE_LIMITS.negligible * float(np.max(kernel.diag(data.Z)))
    if relevant.all():
        return data
    levels = None if data.levels is None else data.levels[relevant]
    return Data(data.Z[relevant], data.Y[relevant], data.variance[relevant], levels)


def level_covariance(levels: Index, variance: Array, prior: float) -> Array:
    """Return the covariance (n, n) that unknown levels add to the noise of readings.

    Parameters
    ----------
    levels : integer array of shape (n,)
        The number of each reading's level.
    variance : array of shape (n,)
        Noise variances of the readings.
    prior : float
        Prior variance of the reward.
    """
    precision = np.bincount(levels, 1.0 / variance)[levels]
    wide = NOISE_LIMITS.level * (prior + 1.0 / precision)
    return np.where(levels[:, None] == levels, wide, 0.0)


def subtract_level_means(groups: Array | Index, values: Array, variance: Array) -> Array:
    """Return columns (n, c) minus their precision-weighted means over each group, such as a time."""
    _, levels = np.unique(groups, return_inverse=True)
    total = np.bincount(levels, 1.0 / variance)
    means = [np.bincount(levels, column / variance) / total for column in values.T]
    return np.asarray(values - np.column_stack(means)[levels])


@dataclass(frozen=True)
class Groups:
    """A grouping of observations by their input.

    Attributes
    ----------
    Z : array of shape (n, p)
        Kernel inputs.
    group : integer array of shape (n,)
        The number of each row's group; groups are numbered in order of first appearance.
    first : integer array of shape (u,)
        The first row of each group.
    keys : mapping of bytes to int
        Numbers of the groups by the bytes of their input.
    """

    Z: Array
    group: Index
    first: Index
    keys: Mapping[bytes, int]

    @classmethod
    def of(cls, Z: Array, previous: Groups | None = None) -> Groups:
        """Group the inputs `Z`; if they begin with those of `previous`, only the others are grouped."""
        start = 0 if previous is None else len(previous.Z)
        if previous is None or start > len(Z) or not np.array_equal(Z[:start], previous.Z):
            previous, start = _UNGROUPED, 0
        keys, new_keys = dict(previous.keys), row_keys(Z[start:])
        group = [keys.setdefault(key, len(keys)) for key in new_keys]
        numbers = np.concatenate([previous.group, np.array(group, dtype=np.int64)])
        rows = dict(zip(reversed(group), range(len(Z) - 1, start - 1, -1), strict=True))
        first = [rows[number] for number in range(len(previous.first), len(keys))]
        return cls(Z, numbers, np.append(previous.first, np.array(first, dtype=np.int64)), keys)

    def merge(self, data: Data) -> Data:
        """Merge the observations of each input, and return the merged rows in order of appearance.

        Precisions add up, and values are averaged with the precisions as weights.
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
    """An immutable view of the first rows of shared storage; `append` returns a longer view.

    Rows are written only behind the last row of every view. The second of two appends to the same view
    copies the rows to new storage.

    Attributes
    ----------
    storage : array of shape (capacity, columns)
        The array behind many views. A row that has been written never changes.
    free : list of int
        The index of the first unwritten row. A writer removes it, writes that row and puts the next
        index back. An interrupt in between leaves the list empty, and then nobody writes here again.
    array : array of shape (n, columns), or (n, n) if square
        The rows of this view, without a copy.
    square : bool
        Whether columns grow with the rows, as in a triangular factor.
    """

    storage: Array = field(repr=False, compare=False)
    free: list[int] = field(repr=False, compare=False)
    array: Array = field(repr=False, compare=False)
    square: bool = False

    @classmethod
    def of(cls, rows: Array, *, square: bool = False) -> AppendBuffer:
        """Copy `rows` to new storage that has room for more."""
        n = len(rows)
        capacity = max(16, n + n // 2)
        storage = np.zeros((capacity, capacity if square else rows.shape[1]))
        storage[:n, : rows.shape[1]] = rows
        return cls(storage, [n], storage[:n, : n if square else None], square)

    def append(self, row: Array) -> AppendBuffer:
        """Return these rows and one more, of shape (columns,), or (n + 1,) if square."""
        storage, free, n = self.storage, self.free, len(self.array)
        try:
            free.remove(n if n < len(storage) else -1)
        except ValueError:  # another view has written that row, or the storage is full
            storage, free = AppendBuffer.of(self.array, square=self.square).storage, []
        storage[n, : len(row)] = row
        free.append(n + 1)
        view = storage[: n + 1, : n + 1 if self.square else None]
        return AppendBuffer(storage, free, view, self.square)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the rows of this view only."""
        return AppendBuffer.__restored__, (self.array.copy(), self.square)

    def __saved__(self) -> dict[str, object]:
        """Return the values that a saved file contains, the same as `__reduce__`."""
        return {"rows": self.array.copy(), "square": self.square}

    @classmethod
    def __restored__(cls, rows: Array, square: bool) -> AppendBuffer:
        return cls.of(rows, square=square)


T = TypeVar("T")


class CandidateGrid:
    """The candidates of a finite domain, with the kernel rows between inputs and candidates.

    The rows of a kernel over points are stored, so that the kernel is evaluated once for each input.

    Parameters
    ----------
    kernel : scikit-learn kernel
    points : array of shape (A, d)
        The candidates.
    """

    def __init__(self, kernel: Any, points: Array) -> None:
        self.kernel, self.points = kernel, points
        self.space_time = is_space_time(kernel)
        # The row numbers and the rows are one value, so that an interrupt cannot separate them.
        self._kernel_rows: tuple[dict[bytes, int], AppendBuffer] = (
            {},
            AppendBuffer.of(np.empty((0, len(points)))),
        )
        self._memo: dict[Any, Any] = {}

    def __saved__(self) -> dict[str, Any]:
        """Return the values that a saved file contains; the others are computed again."""
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
        """Return the largest prior variance of a candidate; infinite if it may vary with time."""
        constant = not self.space_time and self.kernel.is_stationary()
        return float(self.prior_variance(0.0).max()) if constant else math.inf

    def rows(self, Z: Array, now: float) -> Array:
        """Return the kernel rows k(Z, candidates at `now`), shape (n, A), as a new array."""
        if self.space_time:
            return np.array(self.kernel(Z, self.at(now)), order="C")
        keys = row_keys(Z)
        index, stored_rows = self._kernel_rows
        new_keys = [key for key in dict.fromkeys(keys) if key not in index]
        if new_keys:
            rows = self.kernel(np.array([np.frombuffer(key) for key in new_keys]), self.points)
            index = dict(index)
            for key, row in zip(new_keys, rows, strict=True):
                index[key] = len(stored_rows.array)
                stored_rows = stored_rows.append(row)
            self._kernel_rows = (index, stored_rows)
        return stored_rows.array[[index[key] for key in keys]]

    def covariance(self, Z: Array, rows: Array) -> Array:
        """Return k(Z, Z) (n, n) as a new array.

        If all inputs are candidates, it is a selection of `rows` = k(Z, candidates), shape (n, A).
        """
        indices = [] if self.space_time else self.indices(Z)
        if None in indices or len(indices) < len(Z):
            return np.array(self.kernel(Z))
        return rows[:, np.array(indices, dtype=np.int64)]

    def index(self, x: Array) -> int | None:
        """Return the index of the candidate that equals `x` (d,); None if there is none."""
        return self._points_by_key.get((x + 0.0).tobytes())

    def indices(self, X: Array) -> list[int | None]:
        """Return the index of the candidate that equals each of the points (n, d), or None."""
        return [self._points_by_key.get(key) for key in row_keys(X)]

    def contains(self, keys: Iterable[bytes]) -> bool:
        """Return whether all inputs are candidates; `keys` are the bytes of their coordinates."""
        return self._points_by_key.keys() >= set(keys)

    def remember(self, make: Callable[[CandidateGrid], T]) -> T:
        """Return `make(self)`, which is computed at the first call and stored."""
        if make not in self._memo:
            self._memo[make] = make(self)
        value: T = self._memo[make]
        return value

    @cached_property
    def _points_by_key(self) -> dict[bytes, int]:
        return {key: i for i, key in enumerate(row_keys(self.points))}


@dataclass(frozen=True)
class GridPosterior:
    """The embedding L^-1 k(Z, candidates) and the moments of a posterior at the candidates.

    All values are for the time `now`. Under a kernel whose covariances with the past only shrink as time
    passes, a later time changes one number: `shrink`, which multiplies every row of the embedding.

    Attributes
    ----------
    embedding : AppendBuffer of shape (n, A)
        L^-1 k(Z, candidates), without `shrink`.
    now : float
        The time of the predictions.
    shrink : float
        The factor on the embedding.
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
        """Compute means and explained variances from an embedding (n, A) and weights L^-1 Y (n, c)."""
        explained = np.einsum("ij,ij->j", embedding, embedding)
        means = embedding.T @ weights
        return cls(AppendBuffer.of(embedding), now, 1.0, means, explained, prior)

    def advance(self, grid: CandidateGrid, Z: Array, now: float) -> GridPosterior | None:
        """Return the values at a later time; None if they are not this embedding times one number.

        `Z` are the inputs (n, p) of the rows.
        """
        if now == self.now:
            return self
        if not grid.space_time:
            return replace(self, now=now)
        # Inputs later than `self.now` do not all shrink by the same factor.
        later = now > self.now and Z[:, -1].max(initial=-math.inf) <= self.now
        factor = advance(grid.kernel, now - self.now) if later else None
        if factor is None:
            return None
        shrink = self.shrink * factor
        if shrink >= 1e-6:
            return replace_fields(self, now=now, shrink=shrink)
        # Multiply the rows by the factor now, so that new rows are not divided by a tiny number.
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
    """A model of the reward before any observation: a kernel, or moments learned from the rewards.

    Variances and covariances have the scale of the posterior's variances.
    """

    @property
    def kernel(self) -> Any:
        """Return the prior covariance before any observation, a scikit-learn kernel."""

    def covariance(self, Z: Array) -> Array:
        """Return the prior covariance (n, n) of the inputs (n, p), without a common level."""

    def effective_noise(self, current: Array, earlier: Array, ages: Array, noise: Array) -> Array:
        """Return the noise variances (n,) of earlier values as observations of current inputs.

        Parameters
        ----------
        current, earlier : arrays of shape (n, p)
            The current inputs, and the inputs of the values.
        ages : array of shape (n,)
            Ages of the values.
        noise : array of shape (n,)
            Noise variances of the values at their own inputs.

        Returns
        -------
        noise : array of shape (n,)
            Infinite for a value that says almost nothing about its current input.
        """

    @property
    def nugget(self) -> float:
        """Return the variance that is independent at each point and time; `predict` leaves it out."""

    @property
    def persistent_share(self) -> Array | float:
        """Return the fraction (A,) of each candidate's deviation that later rewards would explain."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the learned parameters, by the names of `tvbandits.bandit.info.ModelInfo`."""


@dataclass(frozen=True)
class KernelPrior:
    """A `Prior` that is a fixed kernel."""

    kernel: Any

    nugget: ClassVar[float] = 0.0
    persistent_share: ClassVar[float] = 1.0
    parameters: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def covariance(self, Z: Array) -> Array:
        """Return the prior covariance (n, n) of inputs (n, p)."""
        return np.asarray(self.kernel(Z))

    def effective_noise(self, current: Array, earlier: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """Return the noise variances (n,) of earlier values as observations of current inputs."""
        prior = np.asarray(self.kernel.diag(current))
        if is_space_time(self.kernel):
            cross = np.diagonal(self.kernel(current, earlier))
            noise = equivalent_noise(noise, prior, np.minimum((cross / prior) ** 2, 1.0))
        return np.asarray(np.where(noise <= NOISE_LIMITS.faint * prior, noise, np.inf))


def equivalent_noise(noise: Array, prior: Array | float, r2: Array) -> Array:
    """Return the noise variances (n,) of values of other times as observations of the current reward.

    A value of time s is y = f_s + e. If f_s and f_now have the correlation r, y is as informative as an
    observation of f_now with the noise variance (k (1 - r^2) + v) / r^2.

    Parameters
    ----------
    noise : array of shape (n,)
        Noise variances v at the times of the values.
    prior : array of shape (n,) or float
        Prior variance k.
    r2 : array of shape (n,)
        Squared correlations r^2; where r^2 is 0, the result is infinite.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray((prior * (1.0 - r2) + noise) / r2)


# --- the posterior --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PosteriorSummary:
    """Descriptive values that every posterior reports.

    Attributes
    ----------
    kernel : scikit-learn kernel
        The kernel of the prior.
    data : Data
        The observations that the posterior is conditioned on.
    size : int
        Number of rows: of all observations, or of their distinct inputs.
    products : array of shape (c, c)
        Y^T (K + Sigma)^-1 Y of the value columns; NaN where the mean is not linear in the values.
    log_det_ratio : float
        log det(Sigma + K) - log det Sigma: twice the information gain of the observations.
    effective_dimension : callable
        Returns the number of independent values that the observations determine, tr(K (K + Sigma)^-1).
        The call may take as long as a new factorisation.
    jitter : float
        Variance that was added to a diagonal to factorise a matrix, in prior units; usually 0.
    dictionary_size : int, optional
        Number of inducing points; None for a posterior without a dictionary.
    exact : bool
        Whether the posterior is exact, not an approximation on inducing points.
    dense : bool
        Whether a matrix of all rows was factorised.
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
    """A Gaussian process of zero prior mean, conditioned on observations with c value columns.

    Kernel inputs are rows of shape (p,): a point, or a point and its time
    (`tvbandits.gp.kernel_matrix.inputs`). Variances are in prior units, means in the unit of the
    values. A posterior is immutable.

    Methods that take a `CandidateGrid` return values for all its candidates at the time of conditioning,
    without a new solve. They raise a `ValueError` if the posterior was conditioned without the grid.
    """

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, c) and variances (n,) at kernel inputs (n, p), or at candidates."""

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of inputs (n1, p) and (n2, p), or candidates."""

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Return samples (count, A) of the first value column minus its mean, at the candidates.

        Each value has the variance of `predict`. The part of the kernel that a dictionary or features
        leave out is sampled independently for each candidate.
        """

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> Posterior | None:
        """Return the posterior given more observations, for the time `now`.

        The result equals that of `PosteriorRule.condition`. None means that the caller has to condition
        on all observations; a `SparsePosterior` always returns None: its dictionary is sampled anew.
        """

    def fantasize(self, Z: Array, noise: float | Array, grid: CandidateGrid | None) -> Posterior:
        """Return the posterior given observations of one time whose values are still unknown.

        Only its variances and covariances are meaningful; its means are not.

        Parameters
        ----------
        Z : array of shape (k, p)
            Inputs of the observations.
        noise : float or array of shape (k,)
            Noise variances of the observations, in prior units.
        grid : CandidateGrid or None
            The grid with which the posterior was conditioned.
        """

    @property
    def summary(self) -> PosteriorSummary:
        """Return descriptive values of the posterior."""


def no_grid_error() -> ValueError:
    """Return the error for a query at candidates of a posterior that was conditioned without them."""
    return ValueError("this posterior was conditioned without candidates")


class Expansion(NamedTuple):
    """A posterior written as sums of kernel rows k(z) = k(Z, z).

    Its means are k(z)^T weights, its variances k(z, z) - k(z)^T reduction k(z).

    Attributes
    ----------
    kernel : scikit-learn kernel
    Z : array of shape (n, p)
        The inputs of the rows.
    reduction : array of shape (n, n)
        The matrix of the reduction of the prior variance.
    weights : array of shape (n, c)
        The weights of the rows in the means.
    """

    kernel: Any
    Z: Array
    reduction: Array
    weights: Array


@singledispatch
def expand_posterior(posterior: Posterior, largest_condition: float) -> Expansion | None:  # noqa: ARG001
    """Return a posterior as sums of kernel rows.

    None for a posterior that has no such form, or whose matrix has a larger condition number.
    """
    return None


@singledispatch
def discard_before(posterior: Posterior, t: float) -> Posterior | None:  # noqa: ARG001
    """Return the posterior without the rows before time `t`, but with their information.

    None for a posterior that is computed from all its rows, as most are.
    """
    return None


@singledispatch
def dictionary_data(posterior: Posterior) -> Data | None:  # noqa: ARG001
    """Return the data of a posterior on a dictionary, for computing the exact posterior from them.

    None for a posterior without a dictionary, or with information beyond these data.
    """
    return None


# --- rules ----------------------------------------------------------------------------------------


class Conditioning(NamedTuple):
    """The arguments of `PosteriorRule.condition`.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
        The observations.
    grid : CandidateGrid, optional
        The candidates that the posterior will be evaluated at.
    now : float
        The time of those evaluations.
    previous : Posterior, optional
        A posterior of the same kernel and grid on other data, as a start; ignored if it does not help.
    rng : numpy.random.Generator, optional
        The generator with which a dictionary is sampled.
    noise_variance : float
        Noise variance of a future reward, for rules that learn the noise of the rewards.
    """

    kernel: Any
    data: Data
    grid: CandidateGrid | None = None
    now: float = 0.0
    previous: Posterior | None = None
    rng: np.random.Generator | None = None
    noise_variance: float = 0.0


class PosteriorRule(Protocol):
    """A rule that computes a posterior from data: a part of a recipe. Rules inherit the defaults.

    Attributes
    ----------
    self_learning : bool
        Whether the rule learns the mean, scale and forgetting of the reward. Its data are then rewards
        in their own unit at inputs [x, t], whatever the kernel.
    dense : bool
        Whether whole matrices are factorised: of all candidates for `Posterior.sample`, and of all rows.
        The noise of the rows may then be correlated, as that of an unknown level is.
    needs_all_rows : bool
        Whether a posterior is computed from all rows of the data, so that none may be discarded.
    independent_points : bool
        Whether a reading at a point says nothing about other points, whatever the kernel.
    counts_trials : bool
        Whether the values have a second column: the number of trials of which a reading is the fraction
        of successes. It is 0 for a measured reading, and negative if fewer successes are better.
    """

    self_learning: ClassVar[bool] = False
    dense: ClassVar[bool] = False
    needs_all_rows: ClassVar[bool] = False
    independent_points: ClassVar[bool] = False
    counts_trials: ClassVar[bool] = False

    def check(self, kernel: Any) -> None:  # noqa: ARG002
        """Raise a `ValueError` if the rule does not support the kernel; by default it does."""
        return

    def on_dictionary(self, kernel: Any) -> bool:  # noqa: ARG002
        """Return whether the posterior under the kernel is on a dictionary of inducing points."""
        return False

    @property
    def fewest_candidates_for_fit(self) -> int:
        """Return the number of candidates from which on an outcome gets a fitted kernel instead.

        Fewer candidates are treated as the places of a network, each with a level of its own.
        """
        return LARGEST_NETWORK + 1

    def for_other_outcome(self) -> PosteriorRule:
        """Return the rule for an outcome of another scale than the reward; by default `self`."""
        return self

    def warm_start(self, posterior: Any) -> PosteriorRule:  # noqa: ARG002
        """Return the rule with another bandit's posterior as its prior; by default `self`."""
        return self

    def prior(self, posterior: Posterior) -> Prior:
        """Return the prior of a posterior of this rule."""
        return KernelPrior(posterior.summary.kernel)

    def condition(self, conditioning: Conditioning) -> Posterior:
        """Return the posterior given the data, computed from the previous one if that is cheaper.

        Raises
        ------
        FactorisationError
            If the kernel matrix is not positive definite.
        """
