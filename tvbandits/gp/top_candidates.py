"""The top candidates out of many: upper bounds from before spare scoring the others.

On a dictionary with root R and V (`tvbandits.gp.sparse`), mean and variance are those of a
weight vector and a precision matrix over features: mean(x) = phi(x)^T w and sigma^2(x) = phi(x)^T G^-1
phi(x), where G is V on the span of the dictionary and 1 beyond it. With w' and G' later, on a dictionary
that has these inducing points and perhaps more,

    |mean'(x) - mean(x)| <= |G^(1/2) (w' - w)| sigma(x)        (Cauchy-Schwarz)
    sigma'(x) <= c sigma(x)                                    if c^2 G' - G is positive semidefinite,

so a candidate that was scored once has an upper confidence bound ever after: two numbers of its own,
rounded up to 32 bits, and three of the posteriors then and now. Only candidates whose bound exceeds the
values of the top candidates are scored again. A dictionary that is drawn afresh scores all of them.
Means move more than deviations do: where there is room for features of all candidates, all means are
computed anew, in 32 bits and raised by the most that rounding may lower them.

Candidates come in blocks (`tvbandits.domains.rows`), whose bounds alone are stored, and a few points.
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
class SearchConfig:
    """The constants of the search for the top candidates.

    Attributes
    ----------
    smallest_look, largest_look : int
        Candidates that are scored together: few at first, since they raise the floor for the others.
    live_posteriors : int
        Earlier posteriors that are stored to compare the present one with; others by way of these.
    longest_lineage : int
        After so many posteriors everything is scored again.
    stored_features : int
        Features that are stored, of all blocks together: 128 MB, and 64 MB in 32 bits.
    slack : float
        By what share a bound is raised, for rounding.
    """

    smallest_look: int = 64
    largest_look: int = 8192
    live_posteriors: int = 12
    longest_lineage: int = 4096
    stored_features: int = 2**24
    slack: float = 1e-7


CONFIG = SearchConfig()

# The rounding of a sum in 32 bits for each of its terms; and what nothing is divided by.
_SINGLE, _TINY = float(np.finfo(np.float32).eps), float(np.finfo(float).tiny)


@dataclass(frozen=True)
class CandidateScorer:
    """Mean and deviation of a sparse posterior at points, small enough to travel.

    Attributes
    ----------
    kernel : scikit-learn kernel
        Over points.
    Z : array of shape (m, d)
        The inducing points.
    root : array of shape (m, m)
        R, the lower factor of their prior covariance.
    factor, V : arrays of shape (m, m)
        V, and its lower factor.
    weights : array of shape (m,)
        The mean is their product with the features, plus `mean`.
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

        `z` (m, n) are their features, where they are stored.
        """
        prior = np.asarray(self.kernel.diag(X))
        if len(self.Z) == 0:
            return np.full(len(X), self.mean), np.sqrt(prior)
        z = self.features(X) if z is None else z
        residual = np.maximum(prior - np.einsum("ij,ij->j", z, z), 0.0)
        variance = residual + linalg.quadratic_forms(self.factor, z)
        return self.mean + self.weights @ z, np.sqrt(variance)

    def features(self, X: Array, first: Array | None = None) -> Array:
        """Return R^-1 k_S(x) of points (n, d), shape (m, n); without the `first` of them, if stored."""
        m = 0 if first is None else len(first)
        z = np.asarray(self.kernel(self.Z[m:], X))
        if first is not None and m:
            z -= self.root[m:, :m] @ first
        return linalg.solve_lower(np.asfortranarray(self.root[m:, m:]), z)

    def means_above(self, z: NDArray[np.float32], unit: float) -> Array:
        """Return upper bounds of means (n,) from features (m, n) over `unit` in 32 bits.

        `unit` is the root of the largest k(x, x): neither the squares of `z` nor those of the weights
        over their length sum up to more than 1, so that a product is wrong by m roundings at the most.
        They are added.
        """
        length = max(float(np.linalg.norm(self.weights)), _TINY)
        sums = (self.weights / length).astype(np.float32) @ z
        raised = sums.astype(np.float64) + (len(self.Z) + 4) * _SINGLE
        return raised * (length * unit) + self.mean

    def extends(self, other: CandidateScorer) -> bool:
        """Return whether its dictionary begins with the other's."""
        return self.begins_with(other.Z, other.root)

    def begins_with(self, Z: Array, root: Array) -> bool:
        """Return whether its dictionary begins with points `Z` and their root."""
        m = len(Z)
        same = len(self.Z) >= m and np.array_equal(self.Z[:m], Z)
        return same and np.array_equal(self.root[:m, :m], root)

    def distance_from(self, other: CandidateScorer) -> float:
        """Return |G^(1/2) (w' - w)|, how far the weights are from the other's in its metric."""
        m = len(other.Z)
        change = self.weights.copy()
        change[:m] -= other.weights
        inside = other.factor.T @ change[:m]
        return float(np.sqrt(inside @ inside + change[m:] @ change[m:]))

    def growth_from(self, other: CandidateScorer) -> float:
        """Return a c with sigma' <= c sigma everywhere, nearly the least; infinite if there is none."""
        return linalg.dominance(self.V, other.V)


class Request(NamedTuple):
    """A request for the candidates of the largest mean + times * deviation.

    Attributes
    ----------
    with_mean : bool
        Whether the mean counts.
    times : float
    size : int
        How many candidates.
    floor : float
        Candidates below do not matter.
    """

    with_mean: bool
    times: float
    size: int
    floor: float = -np.inf


class Selection(NamedTuple):
    """The top candidates, and a bound on all others.

    Attributes
    ----------
    rows : integer array of shape (n,)
    X : array of shape (n, d)
    values : array of shape (n,)
        mean + times * deviation.
    upper_bound_of_rest : float
        No other candidate has a larger value.
    scores : int
        How many candidates were scored.
    """

    rows: Index
    X: Array
    values: Array
    upper_bound_of_rest: float
    scores: int


@dataclass(frozen=True)
class Movement:
    """How far the posterior has moved since the looks number `first`, `first` + 1, ..., shape (n,) each.

    A mean of a look then lies at most `drift` deviations below that of now, less `shift`; a deviation
    grew at most `growth` times.
    """

    first: int
    drift: Array
    growth: Array
    shift: Array


class CandidateBlock:
    """Some of the candidates, with upper bounds of their means and deviations when last scored.

    Parameters
    ----------
    rows : Rows
    number, start, size : int
        Which block of these it is, and its rows.
    room : int
        So many features may be stored. With those of all candidates, means are never out of date.
    """

    def __init__(self, rows: Rows, number: int, start: int, size: int, room: int = 0) -> None:
        self.rows, self.number, self.start, self.room = rows, number, start, room
        self.mean, self.deviation = np.zeros((2, size), dtype=np.float32)
        self.look = np.zeros(size, dtype=np.int32)
        self._top = np.empty(0, dtype=np.int64)
        self._forget()

    def _forget(self) -> None:
        """Drop all features."""
        self._inducing = self._root = np.empty((0, 0))
        self._features = np.empty((0, len(self.look)))
        self._single, self._unit = self._features.astype(np.float32), 1.0

    def take(self, rows: Index | slice) -> Array:
        """Return points (n, d) of rows of the block."""
        return self.rows.read(self.number, rows)

    def select(
        self,
        scorer: CandidateScorer,
        number: int,
        movement: Movement,
        request: Request,
        available: NDArray[np.bool_] | None,
    ) -> Selection:
        """Return the top candidates of those that are available; `number` is that of the look."""
        with_features = self._store_features(scorer)
        bound = self._bounds(scorer if with_features else None, movement, request)
        if available is not None:
            bound[~available] = -np.inf
        exact = np.zeros(len(bound), dtype=bool)
        # The lowest floor is below the bounds of all candidates that count.
        floor, best = max(request.floor, -float(np.finfo(float).max)), np.empty(0)
        size = CONFIG.smallest_look
        # The top candidates of the last time say at once what it takes.
        rows = self._top[bound[self._top] >= floor]
        while True:
            if len(rows):
                z = self._features[: len(scorer.Z)].take(rows, axis=1) if with_features else None
                mean, deviation = scorer(self.take(rows), z)
                self.mean[rows], self.deviation[rows] = _round_up(mean), _round_up(deviation)
                self.look[rows], exact[rows] = number, True
                bound[rows] = request.with_mean * mean + request.times * deviation
                best = np.concatenate([best, bound[rows]])
                if len(best) >= request.size:
                    best = np.partition(best, -request.size)[-request.size :]
                    floor = max(floor, float(best[0]))
            rows = np.flatnonzero((bound >= floor) & ~exact)
            if len(rows) == 0:
                break
            if len(rows) > size:
                rows = np.sort(rows[np.argpartition(bound[rows], -size)[-size:]])
            size = min(2 * size, CONFIG.largest_look)
        top = self._top = np.flatnonzero(exact & (bound >= floor))
        values = bound[top]
        bound[exact] += CONFIG.slack * np.abs(bound[exact])
        bound[top] = -np.inf
        rest = float(bound.max(initial=-np.inf))
        return Selection(top + self.start, self.take(top), values, rest, int(exact.sum()))

    def has_room(self, m: int) -> bool:
        """Return whether features of `m` inducing points may be stored."""
        return len(self.look) * m <= self.room

    def _bounds(
        self, scorer: CandidateScorer | None, movement: Movement, request: Request
    ) -> Array:
        """Return upper bounds (size,); means are exact but for rounding where features are stored."""
        at = self.look - movement.first
        unscored = at < 0
        at[unscored] = 0
        exact_means = scorer is not None and request.with_mean
        drift = movement.drift if request.with_mean and not exact_means else 0.0
        bound = (drift + request.times * movement.growth)[at] * self.deviation
        if scorer is not None and request.with_mean:
            bound += scorer.means_above(self._single[: len(scorer.Z)], self._unit)
        elif request.with_mean:
            bound += self.mean + movement.shift[at]
        bound[unscored] = np.inf
        return bound

    def _store_features(self, scorer: CandidateScorer) -> bool:
        """Store features of all candidates, and return whether there is room for them."""
        size, m, stored = len(self.look), len(scorer.Z), len(self._inducing)
        if not self.has_room(m) or not scorer.begins_with(self._inducing, self._root):
            self._forget()
            stored = 0
        if not self.has_room(m):
            return False
        if not len(self._features):  # what is not written yet takes no memory
            self._single = np.empty((self.room // size, size), dtype=np.float32)
            self._features = np.empty(self._single.shape)
        if m > stored:
            X = self.take(slice(None))
            if stored == 0:
                self._unit = max(math.sqrt(np.max(scorer.kernel.diag(X))), _TINY)
            self._features[stored:m] = fresh = scorer.features(X, self._features[:stored])
            self._single[stored:m] = fresh / self._unit
            self._inducing, self._root = scorer.Z, scorer.root
        return True


def _round_up(values: Array) -> NDArray[np.float32]:
    """Return values in 32 bits, rounded up."""
    raised = (values + CONFIG.slack * np.abs(values)).astype(np.float32)
    return np.nextafter(raised, np.float32(np.inf), dtype=np.float32)


@dataclass
class Lineage:
    """The posteriors that looks were made with, and what they say about bounds of then.

    A look has the number of its posterior, `first` + its place in the arrays; each array says what
    became of it until the posterior in `live` that it belongs to.
    """

    live: list[CandidateScorer] = field(default_factory=list)
    to_next: list[float] = field(default_factory=list)
    first: int = 1
    owner: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    drift: Array = field(default_factory=lambda: np.empty(0))
    growth: Array = field(default_factory=lambda: np.empty(0))
    shift: Array = field(default_factory=lambda: np.empty(0))

    @property
    def number(self) -> int:
        """The number of a look that is made now."""
        return self.first + len(self.owner) - 1

    def add(self, scorer: CandidateScorer, *, means: bool = True) -> None:
        """Add a posterior, which looks are made with from now on; `means` as in `movement`."""
        growth = np.inf
        short = len(self.owner) < CONFIG.longest_lineage
        if self.live and short and scorer.extends(self.live[-1]):
            growth = scorer.growth_from(self.live[-1])
        if np.isinf(growth):
            number = self.number + 1
            self.__dict__.update(vars(Lineage(first=number)))
        else:
            self.to_next.append(growth)
        self.live.append(scorer)
        self.drift, self.growth = np.append(self.drift, 0.0), np.append(self.growth, 1.0)
        self.shift = np.append(self.shift, 0.0)
        self.owner = np.append(self.owner, len(self.live) - 1)
        while len(self.live) > (CONFIG.live_posteriors if means else 1):
            self._merge(means=means)

    def movement(self, *, means: bool = True) -> Movement:
        """Return what became of bounds until now; without `means`, of those of deviations alone."""
        now = self.live[-1]
        growth = np.cumprod([1.0, *self.to_next[::-1]])[::-1][self.owner]
        distance = np.array([now.distance_from(each) if means else np.inf for each in self.live])
        drift = self.drift + self.growth * distance[self.owner]
        shift = np.array([now.mean - each.mean for each in self.live])[self.owner]
        return Movement(self.first, drift, self.growth * growth, self.shift + shift)

    def _merge(self, *, means: bool) -> None:
        """Drop one of the live ones: what belongs to it goes by way of the next.

        Which one keeps their spacing in proportion to their age, so that few hops lead to any.
        """
        count = len(self.live)
        numbers = np.array([int(np.flatnonzero(self.owner == j)[-1]) for j in range(count)])
        age = numbers[-1] - numbers + 1.0
        gaps = np.append(numbers[1:2] - numbers[:1], numbers[2:] - numbers[:-2])
        j = int(np.argmin(gaps / age[:-1]))
        of_it = self.owner == j
        here, there = self.live[j], self.live[j + 1]
        distance = there.distance_from(here) if means else np.inf
        self.drift[of_it] += self.growth[of_it] * distance
        self.shift[of_it] += there.mean - here.mean
        self.growth[of_it] *= self.to_next[j]
        self.owner[self.owner > j] -= 1
        if j:
            self.to_next[j - 1] *= self.to_next[j]
        del self.live[j], self.to_next[j]


class TopCandidates:
    """Finds the candidates of the largest mean + times * deviation; its memory changes no result.

    Parameters
    ----------
    rows : Rows

    Attributes
    ----------
    count : int
        How many top candidates the last batch needed.
    intact : bool
        False after an error or an interrupt, when bounds may be half-changed: another one is needed.
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
        request: Request,
        available: NDArray[np.bool_] | None = None,
    ) -> Selection:
        """Return at least `request.size` candidates, in the order of their rows, if there are so many.

        Parameters
        ----------
        scorer : CandidateScorer
            Of `posterior`.
        posterior : object
            The same one as the last time needs no new comparison.
        request : Request
        available : boolean array of shape (A,), optional
            Which candidates count.
        """
        self.intact = False
        # Where there is room for features, means are never out of date.
        all_stored = all(each.has_room(len(scorer.Z)) for each in self.blocks)
        means = request.with_mean and not all_stored
        if posterior is not self._posterior:
            self._lineage.add(scorer, means=means)
            self._posterior = posterior
        movement, number = self._lineage.movement(means=means), self._lineage.number
        selections: list[Selection] = []
        values, count = np.empty(0), request.size
        for block in self.blocks:
            end = block.start + len(block.look)
            mask = None if available is None else available[block.start : end]
            selections.append(block.select(scorer, number, movement, request, mask))
            values = np.concatenate([values, selections[-1].values])
            if len(values) >= count:  # the top of one block raises the floor of the next
                values = np.partition(values, -count)[-count:]
                request = request._replace(floor=max(request.floor, float(values[0])))
        self.intact = True
        return _merge(selections, count)


def _merge(selections: Sequence[Selection], count: int) -> Selection:
    """Return the `count` top candidates of all blocks, and those that tie with the last of them."""
    columns = zip(*(each[:3] for each in selections), strict=True)
    rows, X, values = (np.concatenate(each) for each in columns)
    rest = max(each.upper_bound_of_rest for each in selections)
    if len(values) > count:
        top = values >= np.partition(values, -count)[-count]
        rest = max(rest, float(values[~top].max(initial=-np.inf)))
        rows, X, values = rows[top], X[top], values[top]
    order = np.argsort(rows)
    scores = sum(each.scores for each in selections)
    return Selection(rows[order], X[order], values[order], rest, scores)
