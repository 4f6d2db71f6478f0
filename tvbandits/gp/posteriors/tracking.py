"""Means and variances that follow a sparse posterior: of all candidates now and then, of a few always.

From one batch to the next V gains a row for each point that was played, and the dictionary perhaps some
points. Where the embedding z of a candidate is known, new columns follow from new rows of the root,
and with V' = V + B^T S B, S = diag(+-1),

    z^T V'^-1 z = z^T V^-1 z - c^T (S + B V^-1 B^T)^-1 c,    c = B V^-1 z,

takes as many products as B has rows, where a variance of its own takes two triangular solves. This is
done for the share of the candidates that has the largest bounds. What the others miss is made up for, in
one product, once the bound of one of them from then (`tvbandits.gp.posteriors.leaders`) may lead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.data import AppendBuffer
from tvbandits.gp.posteriors.leaders import SLACK, Found, Leaders, Looker, Request
from tvbandits.gp.posteriors.sparse import NystromPosterior

SHARE = 16
"""One of so many candidates is followed."""

MOST = 2**24
"""Numbers of embeddings that are kept: 128 MB."""

SPANNED = 1e-8
"""In the direction of a new inducing point, what other points have below this is rounding."""

LEAST = 1e-12
"""What is left of a precision is a share above this: what is lost of it is rounding."""


class Tracker:
    """Finds the candidates of the largest mean + times * deviation; what it keeps changes no result.

    Parameters
    ----------
    points : array of shape (A, d)
    others : Leaders
        Finds them where there is no room, or a posterior fades.

    Attributes
    ----------
    enough : int
        How many leaders the last batch needed.
    """

    def __init__(self, points: Array, others: Leaders) -> None:
        self.points, self.others, self.enough = points, others, 1
        self._last: tuple[Looker, NystromPosterior] | None = None

    def find(
        self,
        looker: Looker,
        posterior: NystromPosterior,
        wanted: Request,
        free: NDArray[np.bool_] | None = None,
    ) -> Found:
        """At least `wanted.enough` leaders, in the order of their rows, where there are so many."""
        if posterior.filter is not None or len(looker.Z) * len(self.points) > MOST:
            self.__dict__.update(vars(Tracker(self.points, self.others)) | {"enough": self.enough})
            return self.others.find(looker, posterior, wanted, free)
        last, self._last = self._last, None  # an interrupt leaves nothing that counts
        if last is None:
            self._start(looker)
        elif last[1] is not posterior:
            changes = _changes(last[1], posterior)
            if changes is None or len(changes[0]) > len(looker.Z):
                self._start(looker)
            else:
                self._advance(last[0], looker, *changes)
        found = self._leaders(looker, wanted, free)
        if found is None:
            self._make_up(looker)
            self._follow(wanted, free)
            found = self._leaders(looker, wanted, free)
            assert found is not None  # all others have smaller bounds
        self._last = looker, posterior
        return found

    def _leaders(
        self, looker: Looker, wanted: Request, free: NDArray[np.bool_] | None
    ) -> Found | None:
        """The leaders of those that are followed; None if another one may be among them."""
        mean = looker.weights @ self._z.array + looker.centre
        values = wanted.with_mean * mean + wanted.times * np.sqrt(self._variance)
        since, times = self._since, self._growth * wanted.times
        if wanted.with_mean:
            times += looker.moved_from(since)
        others = wanted.with_mean * (self._mean + (looker.centre - since.centre))
        others += times * self._deviation
        others[self._rows] = -np.inf
        if free is not None:
            values[~free[self._rows]] = others[~free] = -np.inf
        rest = float(others.max())
        floor = _floor(values, wanted.enough, 2 * SLACK)
        if rest > -np.inf and rest >= floor:
            return None
        lead = np.flatnonzero((values >= floor) & (values > -np.inf))
        rows, leading = self._rows[lead], values[lead]
        values[lead] = -np.inf
        rest = max(rest, float(values.max(initial=-np.inf)))
        looks, z = len(self._rows), self._z.array[:, lead]
        return Found(rows, self.points[rows], leading, rest + SLACK * abs(rest), looks, z)

    def _start(self, looker: Looker) -> None:
        """With nothing known from before."""
        z = looker.embedding(self.points)
        self._all, self._since, self._growth = AppendBuffer.of(z), looker, 1.0
        self._mean = looker.weights @ z + looker.centre
        self._deviation = looker.deviations(self.points, z)
        self._missed: list[tuple[Array, Array]] = []
        self._rows, self._z = np.empty(0, dtype=np.int64), AppendBuffer.of(z[:, :0])
        self._variance = np.empty(0)

    def _advance(self, last: Looker, looker: Looker, B: Array, signs: Array) -> None:
        """From one posterior to the next, with V' = V + B^T diag(signs) B."""
        m, M = len(last.Z), len(looker.Z)
        factor = np.eye(M, order="F")
        factor[:m, :m] = last.factor
        half = linalg.solve_lower(factor, B.T)
        inner = half.T @ half
        inner[np.diag_indices_from(inner)] += signs
        if (signs < 0).any():
            # Of 1 + H S H^T, H = L^-1 B^T: the least share of a precision that V' has left of V.
            least = float(np.linalg.eigvals(signs[:, None] * inner).real.min())
            self._growth /= float(np.sqrt(min(max(least, LEAST), 1.0)))
        # In directions that do not mix, c is what variances lose a square of, or gain.
        values, vectors = linalg.eigenpairs(inner)
        directions = vectors / np.sqrt(np.abs(values))
        W = directions.T @ linalg.solve_lower(factor, half, transposed=True).T
        self._missed.append((W, np.sign(values)))
        self._z, c = _extended(looker, self._z, self.points[self._rows], W)
        self._variance = np.maximum(self._variance - np.sign(values) @ c**2, 0.0)

    def _make_up(self, looker: Looker) -> None:
        """Means and variances of now of all candidates."""
        if self._since is looker:
            return
        W = np.zeros((sum(len(each) for each, _ in self._missed), len(looker.Z)))
        start = 0
        for each, _ in self._missed:
            W[start : start + len(each), : each.shape[1]] = each
            start += len(each)
        signs = np.concatenate([each for _, each in self._missed])
        W = np.vstack([W, looker.weights])
        self._all, c = _extended(looker, self._all, self.points, W)
        self._mean = c[-1] + looker.centre
        lost = signs @ np.square(c[:-1], out=c[:-1])
        self._deviation = np.sqrt(np.maximum(self._deviation**2 - lost, 0.0))
        self._since, self._growth, self._missed = looker, 1.0, []

    def _follow(self, wanted: Request, free: NDArray[np.bool_] | None) -> None:
        """From now on those of the largest bounds."""
        bound = wanted.with_mean * self._mean + wanted.times * self._deviation
        if free is not None:
            bound[~free] = -np.inf
        floor = _floor(bound, min(wanted.enough, int((bound > -np.inf).sum())), 3 * SLACK)
        size = max(len(bound) // SHARE, int((bound >= floor).sum()))
        self._rows = np.sort(np.argpartition(bound, -size)[-size:])
        self._z = AppendBuffer.of(self._all.array[:, self._rows])
        self._variance = self._deviation[self._rows] ** 2


def _floor(values: Array, enough: int, slack: float) -> float:
    """What `enough` values are not below, less a share for rounding: those that tie are one leader."""
    if not 0 < enough <= len(values):
        return -np.inf
    least = float(np.partition(values, -enough)[-enough])
    return least - slack * abs(least) if least > -np.inf else least


def _extended(
    looker: Looker, known: AppendBuffer, X: Array, W: Array
) -> tuple[AppendBuffer, Array]:
    """Embeddings (M, n) of points (n, d), of which the first m rows are known, and W times them."""
    z, m, r = known.array, known.n, len(W)
    through = np.vstack([W[:, :m], looker.root[m:, :m]]) @ z
    if m < len(looker.Z):
        cross = np.asarray(looker.kernel(looker.Z[m:], X)) - through[r:]
        fresh = linalg.solve_lower(np.asfortranarray(looker.root[m:, m:]), cross)
        through[:r] += W[:, m:] @ fresh
        for row in fresh:
            known = known.append(row)
    return known, through[:r]


def _changes(old: NystromPosterior, new: NystromPosterior) -> tuple[Array, Array] | None:
    """Rows B (r, M) and signs (r,) with V' = V + B^T diag(signs) B; None where nothing goes on.

    V is that of the old posterior, and 1 in the directions that its dictionary lacks. A row that was
    told more counts by what its precision gained, and one beyond the old dictionary comes anew.
    """
    u, m, z = old.size, old.dictionary.size, new.embedded
    if (
        new.size < u
        or not np.array_equal(new.rows.Z[:u], old.rows.Z)
        or not new.dictionary.begins_with(old.dictionary)
    ):
        return None
    before, after = np.zeros(new.size), 1.0 / new.rows.variance
    before[:u] = 1.0 / old.rows.variance
    changed = np.flatnonzero(after != before)
    beyond = np.abs(z[:u, m:]) / np.sqrt(np.asarray(new.kernel.diag(new.rows.Z[:u])))[:, None]
    moved = np.flatnonzero((beyond > SPANNED).any(axis=1))
    within = z[moved]
    within[:, m:] = 0.0
    weight = np.concatenate([(after - before)[changed], before[moved], -before[moved]])
    B = np.concatenate([z[changed], z[moved], within]) * np.sqrt(np.abs(weight))[:, None]
    return B, np.sign(weight)
