"""Find the top candidates out of many, with upper bounds from earlier posteriors for the others.

On a dictionary with root R and V (`tvbandits.gp.sparse`), mean and variance follow from weights w and a
precision matrix G over features: mean(x) = phi(x)^T w and sigma^2(x) = phi(x)^T G^-1 phi(x), where G is
V on the span of the dictionary and 1 elsewhere. For later w' and G', on a dictionary that contains these
inducing points and perhaps more,

    |mean'(x) - mean(x)| <= |G^(1/2) (w' - w)| sigma(x)        (Cauchy-Schwarz)
    sigma'(x) <= c sigma(x)                                    if c^2 G' - G is positive semidefinite,

so that a candidate that was scored once has an upper confidence bound from then on. The bound needs two
numbers of the candidate, rounded up to 32 bits, and three numbers that compare the two posteriors. Only
candidates whose bound exceeds the values of the top candidates are scored again. After a new dictionary
is sampled, all candidates are scored. Means change more than deviations: if the features of all
candidates can be stored, all means are computed anew in 32 bits, plus the largest rounding error.

Candidates come in blocks (`tvbandits.domains.rows`), of which only bounds and a few points are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tvbandits.domains.rows import Rows
from tvbandits.gp import linalg
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class TopSearchConfig:
    """Constants of the search for the top candidates.

    Attributes
    ----------
    smallest_batch, largest_batch : int
        The number of candidates that are scored together. The first batches are small, since their
        values raise the floor for the others.
    live_posteriors : int
        The number of earlier posteriors that are stored. Posteriors that are no longer stored are
        compared with the present one by way of these.
    longest_lineage : int
        After this number of posteriors all candidates are scored again.
    stored_features : int
        The number of stored features of all blocks together: 128 MB, and 64 MB in 32 bits.
    slack : float
        The fraction by which a bound is raised to allow for rounding.
    """

    smallest_batch: int = 64
    largest_batch: int = 8192
    live_posteriors: int = 12
    longest_lineage: int = 4096
    stored_features: int = 2**24
    slack: float = 1e-7


CONFIG = TopSearchConfig()

# The rounding error of a sum in 32 bits for each of its terms, and the smallest divisor.
_SINGLE, _TINY = float(np.finfo(np.float32).eps), float(np.finfo(float).tiny)


@dataclass(frozen=True)
class CandidateScorer:
    """The parts of a sparse posterior that give mean and deviation at points.

    Attributes
    ----------
    kernel : scikit-learn kernel
        The kernel over points.
    Z : array of shape (m, d)
        The inducing points.
    root : array of shape (m, m)
        R, the lower factor of the prior covariance of the inducing points.
    factor, V : arrays of shape (m, m)
        V and its lower factor.
    weights : array of shape (m,)
        The posterior mean is weights @ features + mean.
    mean : float
    """

    kernel: Any
    Z: Array
    root: Array
    factor: Array
    V: Array
    weights: Array
    mean: float

    def __call__(self, X: Array, z: Array | None = None) -> tuple[Array, Array]:
        """Return means, and deviations in prior units, at points (n, d), shape (n,) each.

        `z` (m, n) are the features of the points, if the caller has stored them.
        """
        prior = np.asarray(self.kernel.diag(X))
        if len(self.Z) == 0:
            return np.full(len(X), self.mean), np.sqrt(prior)
        z = self.features(X) if z is None else z
        residual = np.maximum(prior - np.einsum("ij,ij->j", z, z), 0.0)
        variance = residual + linalg.quadratic_forms(self.factor, z)
        return self.mean + self.weights @ z, np.sqrt(variance)

    def features(self, X: Array, first: Array | None = None) -> Array:
        """Return the features R^-1 k_S(x) of points (n, d), shape (m, n), without the `first` rows."""
        m = 0 if first is None else len(first)
        z = np.asarray(self.kernel(self.Z[m:], X))
        if first is not None and m:
            z -= self.root[m:, :m] @ first
        return linalg.solve_lower(np.asfortranarray(self.root[m:, m:]), z)

    def bound_means(self, z: NDArray[np.float32], scale: float) -> Array:
        """Return upper bounds of means (n,) from features (m, n) divided by `scale`, in 32 bits.

        `scale` is the root of the largest k(x, x). The columns of `z` and the normalised weights
        therefore have a norm of at most 1, so that the error of a product is at most m rounding errors,
        which are added.
        """
        norm = max(float(np.linalg.norm(self.weights)), _TINY)
        sums = (self.weights / norm).astype(np.float32) @ z
        bounds = sums.astype(np.float64) + (len(self.Z) + 4) * _SINGLE
        return bounds * (norm * scale) + self.mean

    def extends(self, other: CandidateScorer) -> bool:
        """Return whether its dictionary begins with the dictionary of `other`."""
        return self.begins_with(other.Z, other.root)

    def begins_with(self, Z: Array, root: Array) -> bool:
        """Return whether its dictionary begins with the points `Z` and their root."""
        m = len(Z)
        same = len(self.Z) >= m and np.array_equal(self.Z[:m], Z)
        return same and np.array_equal(self.root[:m, :m], root)

    def distance_from(self, other: CandidateScorer) -> float:
        """Return |G^(1/2) (w' - w)|, the distance of its weights w' from w in the metric of `other`."""
        m = len(other.Z)
        change = self.weights.copy()
        change[:m] -= other.weights
        inside = other.factor.T @ change[:m]
        return float(np.sqrt(inside @ inside + change[m:] @ change[m:]))

    def growth_from(self, other: CandidateScorer) -> float:
        """Return nearly the smallest c with sigma' <= c sigma everywhere; infinite if there is none."""
        return linalg.dominating_factor(self.V, other.V)


class TopRequest(NamedTuple):
    """A request for the candidates with the largest mean + width * deviation.

    Attributes
    ----------
    with_mean : bool
        Whether the mean is included; otherwise candidates are ranked by deviation.
    width : float
        Factor on the deviation.
    size : int
        The number of candidates.
    floor : float
        Candidates with smaller values are not needed.
    """

    with_mean: bool
    width: float
    size: int
    floor: float = -np.inf


class Selection(NamedTuple):
    """The top candidates, and a bound on all others.

    Attributes
    ----------
    rows : integer array of shape (n,)
        Row numbers of the top candidates.
    X : array of shape (n, d)
        Their points.
    values : array of shape (n,)
        Their values mean + width * deviation.
    upper_bound_of_rest : float
        No other candidate has a larger value.
    scores : int
        The number of candidates that were scored.
    """

    rows: Index
    X: Array
    values: Array
    upper_bound_of_rest: float
    scores: int


@dataclass(frozen=True)
class Movement:
    """The change of the posterior since the epochs `first`, `first` + 1, ..., with shape (n,) each.

    An epoch is the number of a posterior. The present mean of a candidate is at most its mean in that
    epoch plus `shift` plus `drift` deviations of that epoch; the present deviation is at most `growth`
    times that of the epoch.
    """

    first: int
    drift: Array
    growth: Array
    shift: Array


class CandidateBlock:
    """A block of candidates, with upper bounds of their means and deviations when last scored.

    Parameters
    ----------
    rows : Rows
        The rows of all candidates.
    number, start, size : int
        The number of the block, its first row and its number of rows.
    capacity : int
        The largest number of stored features. If those of all its candidates can be stored, their means
        are always up to date.
    """

    def __init__(self, rows: Rows, number: int, start: int, size: int, capacity: int = 0) -> None:
        self.rows, self.number, self.start, self.capacity = rows, number, start, capacity
        self.mean, self.deviation = np.zeros((2, size), dtype=np.float32)
        self.epoch = np.zeros(size, dtype=np.int32)  # in which each candidate was last scored
        self._top = np.empty(0, dtype=np.int64)
        self._drop_features()

    def _drop_features(self) -> None:
        """Drop all stored features."""
        self._inducing = self._root = np.empty((0, 0))
        self._features = np.empty((0, len(self.epoch)))
        self._single, self._scale = self._features.astype(np.float32), 1.0

    def take(self, rows: Index | slice) -> Array:
        """Return the points (n, d) of rows of the block."""
        return self.rows.read(self.number, rows)

    def select(
        self,
        scorer: CandidateScorer,
        epoch: int,
        movement: Movement,
        request: TopRequest,
        available: NDArray[np.bool_] | None,
    ) -> Selection:
        """Return the top candidates among the available ones; `epoch` is that of the scorer."""
        with_features = self._store_features(scorer)
        bound = self._bounds(scorer if with_features else None, movement, request)
        if available is not None:
            bound[~available] = -np.inf
        exact = np.zeros(len(bound), dtype=bool)
        # The lowest floor is below the bounds of available candidates; those of others are -infinity.
        floor, best = max(request.floor, -float(np.finfo(float).max)), np.empty(0)
        size = CONFIG.smallest_batch
        # The previous top candidates are scored first, since they raise the floor at once.
        rows = self._top[bound[self._top] >= floor]
        while True:
            if len(rows):
                z = self._features[: len(scorer.Z)].take(rows, axis=1) if with_features else None
                mean, deviation = scorer(self.take(rows), z)
                self.mean[rows], self.deviation[rows] = _round_up(mean), _round_up(deviation)
                self.epoch[rows], exact[rows] = epoch, True
                bound[rows] = request.with_mean * mean + request.width * deviation
                best = np.concatenate([best, bound[rows]])
                if len(best) >= request.size:
                    best = np.partition(best, -request.size)[-request.size :]
                    floor = max(floor, float(best[0]))
            rows = np.flatnonzero((bound >= floor) & ~exact)
            if len(rows) == 0:
                break
            if len(rows) > size:
                rows = np.sort(rows[np.argpartition(bound[rows], -size)[-size:]])
            size = min(2 * size, CONFIG.largest_batch)
        top = self._top = np.flatnonzero(exact & (bound >= floor))
        values = bound[top]
        bound[exact] += CONFIG.slack * np.abs(bound[exact])
        bound[top] = -np.inf
        rest = float(bound.max(initial=-np.inf))
        return Selection(top + self.start, self.take(top), values, rest, int(exact.sum()))

    def has_room(self, m: int) -> bool:
        """Return whether the features for `m` inducing points can be stored."""
        return len(self.epoch) * m <= self.capacity

    def _bounds(
        self, scorer: CandidateScorer | None, movement: Movement, request: TopRequest
    ) -> Array:
        """Return upper bounds (size,), with means from stored features if a scorer is passed."""
        index = self.epoch - movement.first
        unscored = index < 0
        index[unscored] = 0
        exact_means = scorer is not None and request.with_mean
        drift = movement.drift if request.with_mean and not exact_means else 0.0
        bound = (drift + request.width * movement.growth)[index] * self.deviation
        if scorer is not None and request.with_mean:
            bound += scorer.bound_means(self._single[: len(scorer.Z)], self._scale)
        elif request.with_mean:
            bound += self.mean + movement.shift[index]
        bound[unscored] = np.inf
        return bound

    def _store_features(self, scorer: CandidateScorer) -> bool:
        """Store the features of all candidates if there is room, and return whether there is."""
        size, m, stored = len(self.epoch), len(scorer.Z), len(self._inducing)
        if not self.has_room(m) or not scorer.begins_with(self._inducing, self._root):
            self._drop_features()
            stored = 0
        if not self.has_room(m):
            return False
        if not len(self._features):  # rows that are not written yet take no memory
            self._single = np.empty((self.capacity // size, size), dtype=np.float32)
            self._features = np.empty(self._single.shape)
        if m > stored:
            X = self.take(slice(None))
            if stored == 0:
                self._scale = max(math.sqrt(np.max(scorer.kernel.diag(X))), _TINY)
            self._features[stored:m] = features = scorer.features(X, self._features[:stored])
            self._single[stored:m] = features / self._scale
            self._inducing, self._root = scorer.Z, scorer.root
        return True


def _round_up(values: Array) -> NDArray[np.float32]:
    """Return values rounded up to 32 bits."""
    single = (values + CONFIG.slack * np.abs(values)).astype(np.float32)
    return np.nextafter(single, np.float32(np.inf), dtype=np.float32)


@dataclass
class Lineage:
    """The sequence of posteriors with which candidates were scored, and the changes between them.

    Entry i of the arrays is for the epoch `first` + i. It gives the index in `live` of the stored
    posterior that represents the epoch (`owner`), and the movement from the epoch to that posterior.
    `to_next` contains the growth from each stored posterior to the next.
    """

    live: list[CandidateScorer] = field(default_factory=list)
    to_next: list[float] = field(default_factory=list)
    first: int = 1
    owner: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    drift: Array = field(default_factory=lambda: np.empty(0))
    growth: Array = field(default_factory=lambda: np.empty(0))
    shift: Array = field(default_factory=lambda: np.empty(0))

    @property
    def epoch(self) -> int:
        """Return the epoch of the present posterior."""
        return self.first + len(self.owner) - 1

    def add(self, scorer: CandidateScorer, *, means: bool = True) -> None:
        """Add a posterior, which starts a new epoch; for `means` see `movement`."""
        growth = np.inf
        short = len(self.owner) < CONFIG.longest_lineage
        if self.live and short and scorer.extends(self.live[-1]):
            growth = scorer.growth_from(self.live[-1])
        if np.isinf(growth):
            self.__dict__.update(vars(Lineage(first=self.epoch + 1)))
        else:
            self.to_next.append(growth)
        self.live.append(scorer)
        self.drift, self.growth = np.append(self.drift, 0.0), np.append(self.growth, 1.0)
        self.shift = np.append(self.shift, 0.0)
        self.owner = np.append(self.owner, len(self.live) - 1)
        while len(self.live) > (CONFIG.live_posteriors if means else 1):
            self._merge(means=means)

    def movement(self, *, means: bool = True) -> Movement:
        """Return the movement from each epoch to the present; without `means`, drifts are infinite."""
        latest = self.live[-1]
        growth = np.cumprod([1.0, *self.to_next[::-1]])[::-1][self.owner]
        distance = np.array(
            [latest.distance_from(scorer) if means else np.inf for scorer in self.live]
        )
        drift = self.drift + self.growth * distance[self.owner]
        shift = np.array([latest.mean - scorer.mean for scorer in self.live])[self.owner]
        return Movement(self.first, drift, self.growth * growth, self.shift + shift)

    def _merge(self, *, means: bool) -> None:
        """Drop one of the stored posteriors, and assign its epochs to the next one.

        The choice keeps the gaps between stored posteriors in proportion to their ages, so that few
        steps lead from any epoch to the present.
        """
        count = len(self.live)
        numbers = np.array([int(np.flatnonzero(self.owner == j)[-1]) for j in range(count)])
        age = numbers[-1] - numbers + 1.0
        gaps = np.append(numbers[1:2] - numbers[:1], numbers[2:] - numbers[:-2])
        j = int(np.argmin(gaps / age[:-1]))
        epochs = self.owner == j
        scorer, successor = self.live[j], self.live[j + 1]
        distance = successor.distance_from(scorer) if means else np.inf
        self.drift[epochs] += self.growth[epochs] * distance
        self.shift[epochs] += successor.mean - scorer.mean
        self.growth[epochs] *= self.to_next[j]
        self.owner[self.owner > j] -= 1
        if j:
            self.to_next[j - 1] *= self.to_next[j]
        del self.live[j], self.to_next[j]


class TopCandidates:
    """A search for the candidates with the largest mean + width * deviation.

    It stores bounds between searches, which save time but do not change a result.

    Parameters
    ----------
    rows : Rows
        The rows of all candidates.

    Attributes
    ----------
    count : int
        The number of top candidates that the last batch needed.
    intact : bool
        False after an error or an interrupt, when bounds may be partly updated. Then the object must be
        replaced by a new one.
    """

    def __init__(self, rows: Rows) -> None:
        starts, count = np.cumsum([0, *rows.sizes]).tolist(), rows.shape[0]
        self.blocks = [
            CandidateBlock(rows, number, start, size, CONFIG.stored_features * size // count)
            for number, (start, size) in enumerate(zip(starts, rows.sizes, strict=False))
        ]
        self.count, self.intact = 1, True
        self._lineage = Lineage()
        self._posterior: object = None

    def select(
        self,
        scorer: CandidateScorer,
        posterior: object,
        request: TopRequest,
        available: NDArray[np.bool_] | None = None,
    ) -> Selection:
        """Return at least `request.size` candidates, if there are as many, in the order of their rows.

        Parameters
        ----------
        scorer : CandidateScorer
            The scorer of `posterior`.
        posterior : object
            The posterior. If it is the one of the last call, no new epoch begins.
        request : TopRequest
        available : boolean array of shape (A,), optional
            Whether each candidate is available.
        """
        self.intact = False
        # With stored features, means are always up to date and need no movement.
        all_stored = all(block.has_room(len(scorer.Z)) for block in self.blocks)
        means = request.with_mean and not all_stored
        if posterior is not self._posterior:
            self._lineage.add(scorer, means=means)
            self._posterior = posterior
        movement, epoch = self._lineage.movement(means=means), self._lineage.epoch
        selections: list[Selection] = []
        values, count = np.empty(0), request.size
        for block in self.blocks:
            end = block.start + len(block.epoch)
            mask = None if available is None else available[block.start : end]
            selections.append(block.select(scorer, epoch, movement, request, mask))
            values = np.concatenate([values, selections[-1].values])
            if len(values) >= count:  # the top of one block raises the floor of the next
                values = np.partition(values, -count)[-count:]
                request = request._replace(floor=max(request.floor, float(values[0])))
        self.intact = True
        return _merge(selections, count)


def _merge(selections: Sequence[Selection], count: int) -> Selection:
    """Return the `count` top candidates of all blocks, and those that tie with the last of them."""
    columns = zip(*(selection[:3] for selection in selections), strict=True)
    rows, X, values = (np.concatenate(column) for column in columns)
    rest = max(selection.upper_bound_of_rest for selection in selections)
    if len(values) > count:
        top = values >= np.partition(values, -count)[-count]
        rest = max(rest, float(values[~top].max(initial=-np.inf)))
        rows, X, values = rows[top], X[top], values[top]
    order = np.argsort(rows)
    scores = sum(selection.scores for selection in selections)
    return Selection(rows[order], X[order], values[order], rest, scores)
