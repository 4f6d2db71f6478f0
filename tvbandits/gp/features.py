"""A sum of terms amplitude * space * time as a state that moves in time.

Every term is a vector of independent processes in time, one for each feature of its space kernel:
with features phi(x), phi(x)^T phi(x') = space(x, x'), it is f(x, t) = phi(x)^T s(t), where s moves
by the linear stochastic differential equation of the time kernel ([HS] = Hartikainen & Sarkka 2010,
docs/references.md). The sum is one state of fixed size.

Features are a pivoted Cholesky root on the candidates (or on anchors of a domain that is not
finite). Where they end before the kernel does, what a point keeps of its own variance is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.gp import linalg
from tvbandits.gp.kernels.structure import spanned
from tvbandits.gp.kernels.terms import Term, terms_of
from tvbandits.gp.rows import CandidateGrid
from tvbandits.validation import Array, Index

# Features end when no point keeps more than this share of its prior variance.
TOLERANCE = 1e-4


# Features of a term at the most.
LARGEST_RANK = 96

# With fewer observations than this, a new factorisation is as fast as a spanning dictionary.
FEW = 64

# A dictionary spans the domain when no point keeps more than this share of its prior variance.
SPAN_TOLERANCE = 1e-13

# Rank beyond which a spanning dictionary is not looked for.
LARGEST_SPAN = 256


@dataclass(frozen=True)
class Features:
    """A root of a space kernel: phi(x) = R^-1 k(pivots, x).

    Attributes
    ----------
    kernel : scikit-learn kernel or None
        None: constant, with the one feature 1.
    pivots : array of shape (r, d)
    root : array of shape (r, r)
        Lower triangle R with R R^T = k(pivots, pivots).
    """

    kernel: Any | None
    pivots: Array
    root: Array

    @classmethod
    def of(
        cls,
        kernel: Any | None,
        points: Array,
        tolerance: float = TOLERANCE,
        largest: int = LARGEST_RANK,
    ) -> Features:
        """By pivoted Cholesky on `points` (A, d)."""
        if kernel is None:
            return cls(None, points[:0], np.empty((0, 0)))
        made = spanned(kernel, points, largest, tolerance)
        root = np.asfortranarray(np.tril(made.G[:, made.pivots].T))
        return cls(kernel, points[made.pivots], root)

    @classmethod
    def in_order(cls, kernel: Any, points: Array, tolerance: float) -> Features:
        """By those of `points` (n, d) that the ones before them leave more than that share of.

        More points change nothing about the features so far, to the last bit.
        """
        pivots, root = points[:0], np.empty((0, 0))
        for x in points[:, None]:
            row, prior = np.empty(0), float(kernel.diag(x)[0])
            if len(pivots):
                row = linalg.solve_lower(root, np.asarray(kernel(pivots, x))[:, 0])
            left = prior - float(row @ row)
            if left > tolerance * prior:
                grown = np.zeros((len(row) + 1, len(row) + 1), order="F")
                grown[:-1, :-1], grown[-1, :-1], grown[-1, -1] = root, row, math.sqrt(left)
                pivots, root = np.concatenate([pivots, x]), grown
                if len(pivots) == LARGEST_RANK:
                    break
        return cls(kernel, pivots, root)

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Features (n, r), and the variance (n,) that they leave out."""
        if self.kernel is None:
            return np.ones((len(X), 1)), np.zeros(len(X))
        phi = linalg.solve_lower(self.root, np.asarray(self.kernel(self.pivots, X))).T
        left = np.asarray(self.kernel.diag(X)) - np.einsum("ij,ij->i", phi, phi)
        return phi, np.maximum(left, 0.0)


@dataclass(frozen=True)
class SpaceFeatures:
    """The state of all terms: what observes it, how it moves, and its prior.

    The state of a term of order p with r features are p blocks of r numbers: values, then derivatives.

    Attributes
    ----------
    terms : tuple of Term
    features : tuple of Features
        Of each term.
    starts : tuple of int
        Where the state of each term begins.
    prior : array of shape (m,)
        Its variances; the prior covariance is diagonal.
    """

    terms: tuple[Term, ...]
    features: tuple[Features, ...]
    starts: tuple[int, ...]
    prior: Array

    @classmethod
    def of(
        cls,
        terms: tuple[Term, ...],
        points: Array,
        tolerance: float = TOLERANCE,
        largest: int = LARGEST_RANK,
    ) -> SpaceFeatures:
        """Of some terms, with features made on `points` (A, d)."""
        made: dict[str, Features] = {}
        features, starts, prior = [], [], []
        at = 0
        for term in terms:
            key = repr((term.space, None if term.space is None else term.space.theta.tobytes()))
            if key not in made:
                made[key] = Features.of(term.space, points, tolerance, largest)
            each = made[key]
            features.append(each)
            starts.append(at)
            rank = max(len(each.pivots), 1) if term.space is None else len(each.pivots)
            for variance in term.prior():
                prior.append(np.full(rank, variance))
                at += rank
        return cls(terms, tuple(features), tuple(starts), np.concatenate(prior))

    def spans(self, X: Array, share: float) -> bool:
        """Whether points (n, d) keep no more than a share of their prior variance.

        True, too, where there are as many features as there may be: more would not be made.
        """
        if any(len(each.pivots) >= LARGEST_RANK for each in self.features):
            return True
        prior = sum(t.amplitude * np.asarray(t.space.diag(X)) for t in self.terms if t.space)
        return bool((self.observe(X)[1] <= share * prior).all())

    def observe(self, X: Array) -> tuple[Array, Array]:
        """Rows (n, m) that observe the state at points (n, d), and the variance (n,) left out."""
        H, left = np.zeros((len(X), len(self.prior))), np.zeros(len(X))
        seen: dict[int, tuple[Array, Array]] = {}
        for term, features, start in zip(self.terms, self.features, self.starts, strict=True):
            if id(features) not in seen:
                seen[id(features)] = features(X)
            phi, rest = seen[id(features)]
            H[:, start : start + phi.shape[1]] = phi
            left += term.amplitude * rest
        return H, left

    def moved(self, M: Array, h: float) -> Array:
        """The transition over a time h >= 0, times a matrix (m, n) of states."""
        if h == 0:
            return M
        own, others, partner = self.transition(h)
        # In rows, whatever the order of M: rounding must not depend on what was moved before.
        out = np.multiply(own, M, order="C")
        if others is not None:
            out += others * M[partner]
        return out

    def advanced(self, mean: Array, P: Array, h: float) -> tuple[Array, Array]:
        """Mean (m, c) and covariance (m, m) of the state after a time h >= 0.

        Infinite: the first time, before which nothing is known.
        """
        if h == 0 or math.isinf(h):
            return mean, P
        # P is the stationary prior less what is known: only the latter moves.
        known = -P
        diagonal = np.einsum("ii->i", known)
        diagonal += self.prior  # of `known`: it is a view
        after = -self.moved(self.moved(known, h).T, h)
        diagonal = np.einsum("ii->i", after)
        diagonal += self.prior
        return self.moved(mean, h), after

    def transition(self, h: float) -> tuple[Array, Array | None, Index]:
        """What a state keeps of itself (m, 1), takes of its partner (m, 1), and who that is (m,).

        Of a value the partner is its derivative, and the other way round; None where no term has
        derivatives. The latest is remembered, since most steps are equally long.
        """
        if self._latest and self._latest[0][0] == h:
            return self._latest[0][1]
        m = len(self.prior)
        own, others, partner = np.ones((m, 1)), np.zeros((m, 1)), np.arange(m)
        ends = (*self.starts[1:], m)
        for term, start, end in zip(self.terms, self.starts, ends, strict=True):
            if term.time is None:
                continue
            step = term.transition(h) if math.isfinite(h) else np.zeros((term.order,) * 2)
            middle = start + (end - start) // term.order
            own[start:middle], own[middle:end] = step[0, 0], step[-1, -1]
            if term.order == 2:
                others[start:middle], others[middle:end] = step[0, 1], step[1, 0]
                partner[start:end] = np.r_[middle:end, start:middle]
        found = own, (others if others.any() else None), partner
        self._latest[:] = [(h, found)]
        return found

    @cached_property
    def _latest(self) -> list[tuple[float, tuple[Array, Array | None, Index]]]:
        return []


def cheaper_state(n: int, surface: CandidateGrid, goes_on: bool) -> SpaceFeatures | None:
    """The state of a filter, where that is the cheaper way to the exact posterior, or is gone on with.

    The surface is one of points and times. A row of a factor of n rows costs n (n + A) for A fixed
    points. Of a state of m numbers a step costs m^2, and a look at all points A m^2.
    """
    if not (goes_on or n >= FEW):
        return None
    A = len(surface.points)
    state: SpaceFeatures | None = surface.remember(spanning_state)
    if state is None or not (goes_on or n * (n + A) > (A + 4) * len(state.prior) ** 2):
        return None
    return state


def spanning_state(surface: CandidateGrid) -> SpaceFeatures | None:
    """A state whose features hold all points of the surface to rounding, if a small one does."""
    terms = terms_of(surface.kernel)
    if terms is None:
        return None
    space = SpaceFeatures.of(terms, surface.points, SPAN_TOLERANCE, LARGEST_SPAN)
    _, left = space.observe(surface.points)
    spans = float(left.max()) <= 2 * SPAN_TOLERANCE * float(surface.prior_variance(0.0).max())
    return space if spans and len(space.prior) <= LARGEST_SPAN else None
