"""The candidates that lead, out of many: upper bounds from before spare looking at the others.

On a dictionary with root R and V (`tvbandits.gp.sparse`), mean and variance are those of a
weight vector and a precision matrix over features: mean(x) = phi(x)^T w and sigma^2(x) = phi(x)^T G^-1
phi(x), where G is V on the span of the dictionary and 1 beyond it. With w' and G' later, on a dictionary
that has these inducing points and perhaps more,

    |mean'(x) - mean(x)| <= |G^(1/2) (w' - w)| sigma(x)        (Cauchy-Schwarz)
    sigma'(x) <= c sigma(x)                                    if c^2 G' - G is positive semidefinite,

so a candidate that was looked at once has an upper confidence bound ever after: two numbers of its own,
rounded up to 32 bits, and three of the posteriors then and now. Only candidates whose bound exceeds what
the leaders have are looked at again. A dictionary that is drawn afresh takes a look at all of them.
Means move more than deviations do: where there is room for features of all candidates, all means are
told anew, in 32 bits and raised by what rounding may take off them.

Candidates come in blocks (`tvbandits.domains.rows`), of which only the bounds and a few points are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tvbandits.domains.rows import Rows
from tvbandits.gp import linalg
from tvbandits.gp.sparse import SparsePosterior, markov, variances
from tvbandits.validation import Array, Index

# Candidates that are looked at together: few at first, since they raise the floor for the others.
SMALLEST_LOOK, LARGEST_LOOK = 64, 8192

# Below the bounds of all candidates that count.
LOWEST = -float(np.finfo(float).max)

# Earlier posteriors that are kept to compare the present one with; others by way of these.
LIVE = 12

# After so many posteriors everything is looked at again.
LONGEST = 4096

# Features that are kept, of all blocks together: 128 MB, and 64 MB in 32 bits.
KEPT = 2**24

# Of a sum in 32 bits, for each of its terms.
SINGLE = float(np.finfo(np.float32).eps)

# What nothing is divided by.
TINY = float(np.finfo(float).tiny)

# By what share a bound is raised, for rounding.
SLACK = 1e-7


class CandidateScorer:
    """Mean and deviation of a sparse posterior at points, small enough to travel.

    Parameters
    ----------
    posterior : SparsePosterior
        On a kernel over points.
    columns : array of shape (c,)
        The mean is that of the value columns times these, plus `centre`.
    centre : float
    """

    def __init__(self, posterior: SparsePosterior, columns: Array, centre: float) -> None:
        self.kernel, self.Z = posterior.kernel, posterior.dictionary.rows.Z
        term = markov(self.kernel)
        if term is not None:  # all is of one time, at which the rest of the kernel is 1
            self.kernel, self.Z = term.at_one_time, self.Z[:, :-1]
        self.root = posterior.dictionary.lower
        self.factor, self.V = posterior.factor, posterior.V
        self.weights, self.centre = posterior.coefficients @ columns, centre

    def __call__(self, X: Array, z: Array | None = None) -> tuple[Array, Array]:
        """Means, and deviations in prior units, at points (n, d), shape (n,) each.

        `z` (m, n) are their features, where they are known.
        """
        prior = np.asarray(self.kernel.diag(X))
        if len(self.Z) == 0:
            return np.full(len(X), self.centre), np.sqrt(prior)
        z = self.features(X) if z is None else z
        variance = variances(prior - np.einsum("ij,ij->j", z, z), z, self.factor)
        return self.centre + self.weights @ z, np.sqrt(variance)

    def features(self, X: Array, known: Array | None = None) -> Array:
        """R^-1 k_S(x) of points (n, d), shape (m, n); of these, what comes behind those `known`."""
        m = 0 if known is None else len(known)
        z = np.asarray(self.kernel(self.Z[m:], X))
        if known is not None and m:
            z -= self.root[m:, :m] @ known
        return linalg.solve_lower(np.asfortranarray(self.root[m:, m:]), z)

    def means_above(self, z: NDArray[np.float32], unit: float) -> Array:
        """Means (n,) from features (m, n) over `unit` in 32 bits, raised by what rounding may take off.

        `unit` is the root of the largest k(x, x): neither the squares of `z` nor those of the weights
        over their length sum up to more than 1, so that a product is wrong by m roundings at the most.
        """
        length = max(float(np.linalg.norm(self.weights)), TINY)
        sums = (self.weights / length).astype(np.float32) @ z
        return (sums.astype(np.float64) + (len(self.Z) + 4) * SINGLE) * (
            length * unit
        ) + self.centre

    def extends(self, other: CandidateScorer) -> bool:
        """Whether its dictionary begins with the other's."""
        return self.begins_with(other.Z, other.root)

    def begins_with(self, Z: Array, root: Array) -> bool:
        """Whether its dictionary begins with points `Z` and their root."""
        m = len(Z)
        same = len(self.Z) >= m and np.array_equal(self.Z[:m], Z)
        return same and np.array_equal(self.root[:m, :m], root)

    def moved_from(self, other: CandidateScorer) -> float:
        """|G^(1/2) (w' - w)| of the weights since the other's, in its metric."""
        m = len(other.Z)
        change = self.weights.copy()
        change[:m] -= other.weights
        inside = other.factor.T @ change[:m]
        return float(np.sqrt(inside @ inside + change[m:] @ change[m:]))

    def growth_from(self, other: CandidateScorer) -> float:
        """The least known c with sigma' <= c sigma everywhere; infinite where there is none."""
        return linalg.dominance(self.V, other.V)


class Request(NamedTuple):
    """What is wanted of a block: the `enough` largest of mean + times * deviation, from `floor` up."""

    with_mean: bool
    times: float
    enough: int
    floor: float = -np.inf


class Found(NamedTuple):
    """What a block has: rows, points and values of its leaders, and a bound on all others."""

    rows: Index
    X: Array
    values: Array
    rest: float
    looks: int


@dataclass(frozen=True)
class Since:
    """What has become of bounds since the looks number `first`, `first` + 1, ..., shape (n,) each.

    A mean then lies at most `drift` deviations below that of now, less `shift`; a deviation grew at most
    `growth` times.
    """

    first: int
    drift: Array
    growth: Array
    shift: Array


class CandidateBlock:
    """Some of the candidates, with upper bounds of their means and deviations when last looked at.

    Parameters
    ----------
    rows : Rows
    number, start, size : int
        Which block of these it is, and its rows.
    room : int
        So many features may be kept. With those of all candidates, means are never out of date.
    """

    def __init__(self, rows: Rows, number: int, start: int, size: int, room: int = 0) -> None:
        self.rows, self.number, self.start, self.room = rows, number, start, room
        self.mean, self.deviation = np.zeros((2, size), dtype=np.float32)
        self.look = np.zeros(size, dtype=np.int32)
        self._led = np.empty(0, dtype=np.int64)
        self._forget()

    def _forget(self) -> None:
        """Keep no features."""
        self._inducing = self._root = np.empty((0, 0))
        self._features = np.empty((0, len(self.look)))
        self._single, self._unit = self._features.astype(np.float32), 1.0

    def take(self, rows: Index | slice) -> Array:
        """Return points (n, d) of rows of the block."""
        return self.rows.read(self.number, rows)

    def leaders(
        self,
        looker: CandidateScorer,
        number: int,
        since: Since,
        wanted: Request,
        free: NDArray[np.bool_] | None,
    ) -> Found:
        """Return the leaders, of those that are free; `number` is that of the look."""
        kept = self._keep(looker)
        bound = self._bounds(looker if kept else None, since, wanted)
        if free is not None:
            bound[~free] = -np.inf
        exact = np.zeros(len(bound), dtype=bool)
        floor, best, size = max(wanted.floor, LOWEST), np.empty(0), SMALLEST_LOOK
        # Those that led the last time say at once about what it takes.
        rows = self._led[bound[self._led] >= floor]
        while True:
            if len(rows):
                z = self._features[: len(looker.Z), rows] if kept else None
                mean, deviation = looker(self.take(rows), z)
                self.mean[rows], self.deviation[rows] = _above(mean), _above(deviation)
                self.look[rows], exact[rows] = number, True
                bound[rows] = wanted.with_mean * mean + wanted.times * deviation
                best = np.concatenate([best, bound[rows]])
                if len(best) >= wanted.enough:
                    best = np.partition(best, -wanted.enough)[-wanted.enough :]
                    floor = max(floor, float(best[0]))
            rows = np.flatnonzero((bound >= floor) & ~exact)
            if len(rows) == 0:
                break
            if len(rows) > size:
                rows = np.sort(rows[np.argpartition(bound[rows], -size)[-size:]])
            size = min(2 * size, LARGEST_LOOK)
        lead = self._led = np.flatnonzero(exact & (bound >= floor))
        values = bound[lead]
        bound[exact] += SLACK * np.abs(bound[exact])
        bound[lead] = -np.inf
        rest = float(bound.max(initial=-np.inf))
        return Found(lead + self.start, self.take(lead), values, rest, int(exact.sum()))

    def has_room(self, m: int) -> bool:
        """Whether features of `m` inducing points may be kept."""
        return len(self.look) * m <= self.room

    def _bounds(self, looker: CandidateScorer | None, since: Since, wanted: Request) -> Array:
        """Upper bounds (size,); means are exact but for rounding where features are kept."""
        at = self.look - since.first
        unknown = at < 0
        at[unknown] = 0
        tells = looker is not None and wanted.with_mean
        drift = since.drift if wanted.with_mean and not tells else 0.0
        bound = (drift + wanted.times * since.growth)[at] * self.deviation
        if looker is not None and wanted.with_mean:
            bound += looker.means_above(self._single[: len(looker.Z)], self._unit)
        elif wanted.with_mean:
            bound += self.mean + since.shift[at]
        bound[unknown] = np.inf
        return bound

    def _keep(self, looker: CandidateScorer) -> bool:
        """Whether there is room for features of all candidates, which are then kept."""
        size, m, known = len(self.look), len(looker.Z), len(self._inducing)
        if not self.has_room(m) or not looker.begins_with(self._inducing, self._root):
            self._forget()
            known = 0
        if not self.has_room(m):
            return False
        if not len(self._features):  # what is not written yet takes no memory
            self._single = np.empty((self.room // size, size), dtype=np.float32)
            self._features = np.empty(self._single.shape)
        if m > known:
            X = self.take(slice(None))
            if known == 0:
                self._unit = max(math.sqrt(np.max(looker.kernel.diag(X))), TINY)
            self._features[known:m] = fresh = looker.features(X, self._features[:known])
            self._single[known:m] = fresh / self._unit
            self._inducing, self._root = looker.Z, looker.root
        return True


def _above(values: Array) -> NDArray[np.float32]:
    """In 32 bits, rounded up."""
    raised = (values + SLACK * np.abs(values)).astype(np.float32)
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
        """Of a look that is made now."""
        return self.first + len(self.owner) - 1

    def add(self, looker: CandidateScorer, *, means: bool = True) -> None:
        """One more posterior, which looks are made with from now on; as in `since` without `means`."""
        growth = np.inf
        if self.live and len(self.owner) < LONGEST and looker.extends(self.live[-1]):
            growth = looker.growth_from(self.live[-1])
        if np.isinf(growth):
            number = self.number + 1
            self.__dict__.update(vars(Lineage(first=number)))
        else:
            self.to_next.append(growth)
        self.live.append(looker)
        for name, value in (("drift", 0.0), ("growth", 1.0), ("shift", 0.0)):
            setattr(self, name, np.append(getattr(self, name), value))
        self.owner = np.append(self.owner, len(self.live) - 1)
        while len(self.live) > (LIVE if means else 1):
            self._merge(means=means)

    def since(self, *, means: bool = True) -> Since:
        """What became of bounds until now; without `means`, of those of deviations alone."""
        now = self.live[-1]
        growth = np.cumprod([1.0, *self.to_next[::-1]])[::-1][self.owner]
        moved = np.array([now.moved_from(each) if means else np.inf for each in self.live])
        moved = moved[self.owner]
        shift = np.array([now.centre - each.centre for each in self.live])[self.owner]
        return Since(
            self.first, self.drift + self.growth * moved, self.growth * growth, self.shift + shift
        )

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
        moved = there.moved_from(here) if means else np.inf
        self.drift[of_it] += self.growth[of_it] * moved
        self.shift[of_it] += there.centre - here.centre
        self.growth[of_it] *= self.to_next[j]
        self.owner[self.owner > j] -= 1
        if j:
            self.to_next[j - 1] *= self.to_next[j]
        del self.live[j], self.to_next[j]


class TopCandidates:
    """Finds the candidates of the largest mean + times * deviation; what it keeps changes no result.

    Parameters
    ----------
    rows : Rows

    Attributes
    ----------
    enough : int
        How many leaders the last batch needed.
    whole : bool
        False after an error or an interrupt, when bounds may be half-changed: another one is needed.
    """

    def __init__(self, rows: Rows) -> None:
        starts, count = np.cumsum([0, *rows.sizes]).tolist(), rows.shape[0]
        self.blocks = [
            CandidateBlock(rows, number, start, size, KEPT * size // count)
            for number, (start, size) in enumerate(zip(starts, rows.sizes, strict=False))
        ]
        self.enough, self.whole = 1, True
        self._lineage = Lineage()
        self._posterior: object = None

    def find(
        self,
        looker: CandidateScorer,
        posterior: object,
        wanted: Request,
        free: NDArray[np.bool_] | None = None,
    ) -> Found:
        """Return at least `wanted.enough` leaders, in the order of their rows, where there are so many.

        Parameters
        ----------
        looker : CandidateScorer
            Of `posterior`.
        posterior : object
            The same one as the last time needs no new comparison.
        wanted : Request
        free : boolean array of shape (A,), optional
            Which candidates count.
        """
        self.whole = False
        # Where there is room for features, means are never out of date.
        means = wanted.with_mean and not all(each.has_room(len(looker.Z)) for each in self.blocks)
        if posterior is not self._posterior:
            self._lineage.add(looker, means=means)
            self._posterior = posterior
        since, number = self._lineage.since(means=means), self._lineage.number
        found: list[Found] = []
        values, enough = np.empty(0), wanted.enough
        for block in self.blocks:
            of_it = None if free is None else free[block.start : block.start + len(block.look)]
            found.append(block.leaders(looker, number, since, wanted, of_it))
            values = np.concatenate([values, found[-1].values])
            if len(values) >= enough:  # what leads in one raises the floor of the next
                values = np.partition(values, -enough)[-enough:]
                wanted = wanted._replace(floor=max(wanted.floor, float(values[0])))
        self.whole = True
        return _merged(found, enough)


def _merged(found: Sequence[Found], count: int) -> Found:
    """The `count` leaders of all blocks, and those that tie with the last of them."""
    rows, X, values = (np.concatenate(each) for each in zip(*(f[:3] for f in found), strict=True))
    rest = max(f.rest for f in found)
    if len(values) > count:
        keep = values >= np.partition(values, -count)[-count]
        rest = max(rest, float(values[~keep].max(initial=-np.inf)))
        rows, X, values = rows[keep], X[keep], values[keep]
    order = np.argsort(rows)
    return Found(rows[order], X[order], values[order], rest, sum(f.looks for f in found))
