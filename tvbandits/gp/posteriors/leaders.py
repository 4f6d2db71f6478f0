"""The candidates that lead, out of many: upper bounds from before spare looking at the others.

On a dictionary with root R and V (`tvbandits.gp.posteriors.sparse`), mean and variance are those of a
weight vector and a precision matrix over features: mean(x) = phi(x)^T w and sigma^2(x) = phi(x)^T G^-1
phi(x), where G is V on the span of the dictionary and 1 beyond it. With w' and G' later, on a dictionary
that has these inducing points and perhaps more,

    |mean'(x) - mean(x)| <= |G^(1/2) (w' - w)| sigma(x)        (Cauchy-Schwarz)
    sigma'(x) <= c sigma(x)                                    if c^2 G' - G is positive semidefinite,

so a candidate that was looked at once has an upper confidence bound ever after: two numbers of its own,
rounded up to 32 bits, and three of the posteriors then and now. Only candidates whose bound exceeds what
the leaders have are looked at again. A dictionary that is drawn afresh takes a look at all of them.

Candidates come in blocks, and nothing else of the size of a block leaves it: a block may stand in memory,
in a file, or on a worker of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.core.rows import BlockReader, Rows
from tvbandits.gp.posteriors.cholesky import embed
from tvbandits.gp.posteriors.sparse import NystromPosterior

CHUNK = 512
"""Candidates that are looked at together."""

LIVE = 12
"""Earlier posteriors that are kept to compare the present one with; others by way of these."""

LONGEST = 4096
"""After so many posteriors everything is looked at again."""

SLACK = 1e-7
"""By what share a bound is raised, for rounding."""


class Looker:
    """Mean and deviation of a sparse posterior at points, small enough to travel.

    Parameters
    ----------
    posterior : NystromPosterior
        On a kernel over points.
    columns : array of shape (c,)
        The mean is that of the value columns times these, plus `centre`.
    centre : float
    """

    def __init__(self, posterior: NystromPosterior, columns: Array, centre: float) -> None:
        self.kernel, self.Z = posterior.kernel, posterior.dictionary.rows.Z
        self.root = np.asfortranarray(posterior.dictionary.factor.array)
        self.factor, self.V = posterior.factor, posterior.V
        self.weights, self.centre = posterior.coefficients @ columns, centre

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Means, and deviations in prior units, at points (n, d), shape (n,) each."""
        prior = np.asarray(self.kernel.diag(X))
        if len(self.Z) == 0:
            return np.full(len(X), self.centre), np.sqrt(prior)
        z = linalg.solve_lower(self.root, np.asarray(self.kernel(self.Z, X)))
        half = linalg.solve_lower(self.factor, z)
        variance = np.maximum(prior - np.einsum("ij,ij->j", z, z), 0.0)
        variance += np.einsum("ij,ij->j", half, half)
        return self.centre + self.weights @ z, np.sqrt(variance)

    def extends(self, other: Looker) -> bool:
        """Whether its dictionary begins with the other's."""
        m = len(other.Z)
        same = len(self.Z) >= m and np.array_equal(self.Z[:m], other.Z)
        return same and np.array_equal(self.root[:m, :m], other.root)

    def moved_from(self, other: Looker) -> float:
        """|G^(1/2) (w' - w)| of the weights since the other's, in its metric."""
        m = len(other.Z)
        change = self.weights.copy()
        change[:m] -= other.weights
        inside = other.factor.T @ change[:m]
        return float(np.sqrt(inside @ inside + change[m:] @ change[m:]))

    def growth_from(self, other: Looker) -> float:
        """The least known c with sigma' <= c sigma everywhere; infinite where there is none."""
        before = np.eye(len(self.Z))
        before[: len(other.Z), : len(other.Z)] = other.V
        return linalg.dominance(self.V, before)


class Request(NamedTuple):
    """What is wanted of a block: the `count` largest of mean + times * deviation, from `floor` up."""

    with_mean: bool
    times: float
    count: int
    floor: float


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


class Block:
    """Some of the candidates, with upper bounds of their means and deviations when last looked at.

    Parameters
    ----------
    start, size : int
        Its rows.
    take : BlockReader
    """

    def __init__(self, start: int, size: int, take: BlockReader) -> None:
        self.start, self.take = start, take
        self.mean, self.deviation = np.zeros((2, size), dtype=np.float32)
        self.look = np.zeros(size, dtype=np.int32)

    def leaders(
        self,
        looker: Looker,
        number: int,
        since: Since,
        wanted: Request,
        free: NDArray[np.bool_] | None = None,
    ) -> Found:
        """The leaders, of those that are `free`; what is looked at now has the given number."""
        bound = self._bounds(since, wanted)
        if free is not None:
            bound[~free] = -np.inf
        exact = np.zeros(len(bound), dtype=bool)
        floor = wanted.floor
        while True:
            stale = np.flatnonzero((bound >= floor) & ~exact & (bound > -np.inf))
            if len(stale) == 0:
                break
            if len(stale) > CHUNK:
                stale = np.sort(stale[np.argpartition(bound[stale], -CHUNK)[-CHUNK:]])
            mean, deviation = looker(self.take(stale))
            self.mean[stale], self.deviation[stale] = _above(mean), _above(deviation)
            self.look[stale], exact[stale] = number, True
            bound[stale] = wanted.with_mean * mean + wanted.times * deviation
            known = bound[exact]
            if len(known) >= wanted.count:
                floor = max(floor, float(np.partition(known, -wanted.count)[-wanted.count]))
        lead = np.flatnonzero(exact & (bound >= floor))
        values = bound[lead]
        bound[exact] += SLACK * np.abs(bound[exact])
        bound[lead] = -np.inf
        rest = float(bound.max(initial=-np.inf))
        return Found(lead + self.start, self.take(lead), values, rest, int(exact.sum()))

    def _bounds(self, since: Since, wanted: Request) -> Array:
        at = self.look - since.first
        known = at >= 0
        at[~known] = 0
        width = wanted.with_mean * since.drift + wanted.times * since.growth
        bound = width[at] * self.deviation if len(width) else np.zeros(len(at))
        if wanted.with_mean and len(width):
            bound += self.mean + since.shift[at]
        bound[~known] = np.inf
        return bound


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

    live: list[Looker] = field(default_factory=list)
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

    def add(self, looker: Looker) -> None:
        """One more posterior, which looks are made with from now on."""
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
        if len(self.live) > LIVE:
            self._merge()

    def since(self) -> Since:
        """What became of bounds until now."""
        now = self.live[-1]
        growth = np.cumprod([1.0, *self.to_next[::-1]])[::-1][self.owner]
        moved = np.array([now.moved_from(each) for each in self.live])[self.owner]
        shift = np.array([now.centre - each.centre for each in self.live])[self.owner]
        return Since(
            self.first,
            self.drift + self.growth * moved,
            self.growth * growth,
            self.shift + shift,
        )

    def _merge(self) -> None:
        """Drop one of the live ones: what belongs to it goes by way of the next.

        Which one keeps their spacing in proportion to their age, so that few hops lead to any.
        """
        numbers = np.array([int(np.flatnonzero(self.owner == j)[-1]) for j in range(LIVE + 1)])
        age = numbers[-1] - numbers + 1.0
        gaps = np.append(numbers[1:2] - numbers[:1], numbers[2:] - numbers[:-2])
        j = int(np.argmin(gaps / age[:-1]))
        of_it = self.owner == j
        here, there = self.live[j], self.live[j + 1]
        self.drift[of_it] += self.growth[of_it] * there.moved_from(here)
        self.shift[of_it] += there.centre - here.centre
        self.growth[of_it] *= self.to_next[j]
        self.owner[self.owner > j] -= 1
        if j:
            self.to_next[j - 1] *= self.to_next[j]
        del self.live[j], self.to_next[j]


def blocks_of(rows: Rows) -> list[Block]:
    """Blocks that nothing is known about."""
    starts = np.cumsum([0, *rows.sizes]).tolist()
    return [
        Block(start, size, rows.block(number))
        for number, (start, size) in enumerate(zip(starts, rows.sizes, strict=False))
    ]


class Leaders:
    """Finds the candidates of the largest mean + times * deviation; what it keeps changes no result.

    Parameters
    ----------
    blocks : sequence of Block

    Attributes
    ----------
    enough : int
        How many leaders the last batch needed.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks, self.enough = blocks, 1
        self._lineage = Lineage()
        self._posterior: object = None
        self._rows, self._X = np.empty(0, dtype=np.int64), np.empty((0, 0))

    def find(
        self,
        looker: Looker,
        posterior: object,
        wanted: Request,
        free: NDArray[np.bool_] | None = None,
    ) -> Found:
        """At least `wanted.count` leaders, in the order of their rows, where there are so many.

        Parameters
        ----------
        looker : Looker
            Of `posterior`.
        posterior : object
            The same one as the last time needs no new comparison.
        wanted : Request
        free : boolean array of shape (A,), optional
            Which candidates count.
        """
        if posterior is not self._posterior:
            self._lineage.add(looker)
            self._posterior = posterior
        since, number = self._lineage.since(), self._lineage.number
        wanted = wanted._replace(floor=self._first_floor(looker, wanted, free))
        best: list[Found] = []
        for block in self.blocks:
            of_it = None if free is None else free[block.start : block.start + len(block.look)]
            best.append(block.leaders(looker, number, since, wanted, of_it))
            if len(values := np.concatenate([each.values for each in best])) >= wanted.count:
                floor = float(np.partition(values, -wanted.count)[-wanted.count])
                wanted = wanted._replace(floor=max(wanted.floor, floor))
        found = _merged(best, wanted.floor)
        self._rows, self._X = found.rows, found.X
        return found

    def _first_floor(
        self, looker: Looker, wanted: Request, free: NDArray[np.bool_] | None
    ) -> float:
        """What the last leaders have now: there are so many of at least that."""
        X = self._X if free is None else self._X[free[self._rows]]
        if len(X) < wanted.count:
            return -np.inf
        mean, deviation = looker(X)
        values = wanted.with_mean * mean + wanted.times * deviation
        lowest = float(np.partition(values, -wanted.count)[-wanted.count])
        return lowest - SLACK * abs(lowest)


def _merged(found: Sequence[Found], floor: float) -> Found:
    """The leaders of all blocks, from `floor` up."""
    rows, X, values = (np.concatenate(each) for each in zip(*(f[:3] for f in found), strict=True))
    keep = values >= floor
    rest = max(max(f.rest for f in found), float(values[~keep].max(initial=-np.inf)))
    return Found(rows[keep], X[keep], values[keep], rest, sum(f.looks for f in found))
