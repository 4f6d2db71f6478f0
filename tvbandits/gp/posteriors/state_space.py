"""The posterior of a sum of terms amplitude * space * time, by a Kalman filter.

Every term is a vector of independent processes in time, one for each feature of its space kernel:
with features phi(x), phi(x)^T phi(x') = space(x, x'), it is f(x, t) = phi(x)^T s(t), where s moves
by the linear stochastic differential equation of the time kernel (Hartikainen & Sarkka 2010). So
the sum is one state of fixed size, an observation costs the square of that size, and history costs
nothing: the posterior about the present and the future is exact however long it is, up to the
features.

Features are a pivoted Cholesky root on the candidates (or on anchors of a domain that is not
finite). Where they end before the kernel does, what a point keeps of its own variance counts as
noise of its observations and as variance of its reward, so that no variance is lost (the FITC
approximation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.gp.kernels.terms import Term, terms_of
from tvbandits.gp.posteriors.candidate_cache import Surface
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.protocol import UNCONDITIONED, Posterior

TOLERANCE = 1e-4
"""Features end when no point keeps more than this share of its prior variance."""


ROUNDING = 1e-10
"""Noise below this share of a point's prior variance is raised to it, which is reported as jitter."""


LARGEST_RANK = 96
"""Features of a term at the most."""


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
    def of(cls, kernel: Any | None, points: Array) -> Features:
        """By pivoted Cholesky on `points` (A, d)."""
        if kernel is None:
            return cls(None, points[:0], np.empty((0, 0)))
        prior = np.asarray(kernel.diag(points), dtype=np.float64)

        def column(i: int) -> Array:
            return np.asarray(kernel(points[i : i + 1], points)[0], dtype=np.float64)

        most = min(LARGEST_RANK, len(points))
        made = linalg.pivoted_cholesky(prior, column, most, TOLERANCE * float(prior.max()))
        root = np.asfortranarray(np.tril(made.G[:, made.pivots].T))
        return cls(kernel, points[made.pivots], root)

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Features (n, r), and the variance (n,) that they leave out."""
        if self.kernel is None:
            return np.ones((len(X), 1)), np.zeros(len(X))
        phi = linalg.solve_lower(self.root, np.asarray(self.kernel(self.pivots, X))).T
        left = np.asarray(self.kernel.diag(X)) - np.einsum("ij,ij->i", phi, phi)
        return phi, np.maximum(left, 0.0)


@dataclass(frozen=True)
class StateSpace:
    """The rule: condition a sum of terms by a Kalman filter.

    Parameters
    ----------
    anchors : array of shape (A, d), optional
        Points that the features are made on, where the domain is not finite.
    """

    anchors: Array | None = None

    def condition(
        self,
        kernel: Any,
        data: Data,
        *,
        surface: Surface | None = None,
        now: float = 0.0,
        previous: Posterior | None = None,
        rng: np.random.Generator | None = None,  # noqa: ARG002 - one face for all
    ) -> StateSpacePosterior:
        """Condition on `data`, from `previous` where it only has to be told the rest.

        Parameters are those of `tvbandits.gp.posteriors.cholesky.Factored.condition`; the rows of
        `data` may come in any order.

        Raises
        ------
        ValueError
            If the kernel is not a sum of terms, or there are no points to make features on.
        """
        order = np.argsort(data.Z[:, -1], kind="stable")
        data = Data(data.Z[order], data.Y[order], data.variance[order])
        if isinstance(previous, StateSpacePosterior) and previous.continues(kernel, data, surface):
            start = replace(previous, now=now)
        else:
            start = self._prior(kernel, data.Y.shape[1], surface, now)
        return start.told(data)

    def _prior(
        self, kernel: Any, columns: int, surface: Surface | None, now: float
    ) -> StateSpacePosterior:
        terms = terms_of(kernel)
        if terms is None:
            raise ValueError(
                "a state space needs a sum of terms constant * OnSpace(...) * OnTime(Matern(nu=0.5 or "
                f"1.5)), or Drift for the time; got {kernel}"
            )
        points = self.anchors if surface is None else surface.points
        if points is None:
            raise ValueError(
                "a domain that is not finite needs anchors: StateSpace(anchors=points)"
            )
        space = Space.of(terms, points, surface)
        none = np.empty((0, points.shape[1] + 1))
        return StateSpacePosterior(
            kernel=kernel,
            data=Data(none, np.empty((0, columns)), np.empty(0)),
            space=space,
            mean=np.zeros((len(space.prior), columns)),
            covariance=np.diag(space.prior),
            last=-math.inf,
            now=now,
            products=np.zeros((columns, columns)),
            log_det_ratio=0.0,
        )


@dataclass(frozen=True)
class Space:
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
    surface : Surface or None
    """

    terms: tuple[Term, ...]
    features: tuple[Features, ...]
    starts: tuple[int, ...]
    prior: Array
    surface: Surface | None

    @classmethod
    def of(cls, terms: tuple[Term, ...], points: Array, surface: Surface | None) -> Space:
        """Of some terms, with features made on `points` (A, d)."""
        made: dict[str, Features] = {}
        for term in terms:
            key = repr((term.space, None if term.space is None else term.space.theta.tobytes()))
            if key not in made:
                made[key] = Features.of(term.space, points)
        keys = [
            repr((t.space, None if t.space is None else t.space.theta.tobytes())) for t in terms
        ]
        features = tuple(made[key] for key in keys)
        starts, prior = [], []
        at = 0
        for term, each in zip(terms, features, strict=True):
            starts.append(at)
            rank = max(len(each.pivots), 1) if term.space is None else len(each.pivots)
            for variance in term.prior():
                prior.append(np.full(rank, variance))
                at += rank
        return cls(terms, features, tuple(starts), np.concatenate(prior), surface)

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

    @cached_property
    def on_surface(self) -> tuple[Array, Array]:
        """`observe` of the points of the surface."""
        if self.surface is None:
            raise ValueError(UNCONDITIONED)
        return self.observe(self.surface.points)

    def rows(self, X: Array) -> tuple[Array, Array]:
        """`observe`, looked up where the points are those of the surface."""
        if self.surface is None:
            return self.observe(X)
        points = self.surface.points
        if X.shape == points.shape and np.array_equal(X, points):
            return self.on_surface
        where = [self.surface.index(x) for x in X]
        if any(i is None for i in where):
            return self.observe(X)
        H, left = self.on_surface
        index = np.array(where, dtype=np.int64)
        return H[index], left[index]

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

    def transition(self, h: float) -> tuple[Array, Array | None, Index]:
        """What a state keeps of itself (m, 1), takes of its partner (m, 1), and who that is (m,).

        Of a value the partner is its derivative, and the other way round; None: nobody has one. The
        latest is remembered, since most steps are equally long.
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


@dataclass(frozen=True)
class StateSpacePosterior:
    """What is known of the state at the time of the latest observation. Made by `StateSpace`."""

    kernel: Any
    data: Data
    space: Space
    mean: Array  # (m, c)
    covariance: Array  # (m, m)
    last: float
    now: float
    products: Array
    log_det_ratio: float
    """log det(Sigma + K) - log det Sigma: twice the information gain of the observations."""

    jitter: float = 0.0

    @property
    def size(self) -> int:
        """Number of observations."""
        return len(self.data)

    @property
    def dictionary_size(self) -> None:
        """None: there are no inducing points."""
        return None

    @property
    def settled(self) -> bool:
        """True: variances at the fixed points are computed together."""
        return True

    @property
    def condition_number(self) -> float:
        """Largest over smallest variance of the state in units of its prior: a lower estimate."""
        share = np.diagonal(self.covariance) / self.space.prior
        return float(share.max() / max(share.min(), 1e-300))

    def continues(self, kernel: Any, data: Data, surface: Surface | None) -> bool:
        """Whether data (sorted by time) begin with what is known, and go on from there in time."""
        same = self.kernel is kernel or bool(self.kernel == kernel)
        if not same or self.space.surface is not surface or not data.starts_with(self.data):
            return False
        rest = data.Z[len(self.data) :, -1]
        return len(rest) == 0 or bool(rest[0] >= self.last)

    def told(self, data: Data) -> StateSpacePosterior:
        """With the rows of `data` (sorted by time) that come after those known."""
        rest = data.rows(len(self.data))
        if len(rest) == 0:
            return self
        H, left = self.space.rows(rest.Z[:, :-1])
        mean, P, last = self.mean.copy(), self.covariance.copy(), self.last
        products, log_det = self.products.copy(), self.log_det_ratio
        # Below the rounding of the prior variance a noise would be lost, and the filter with it.
        floor = ROUNDING * (H**2 @ self.space.prior)
        noises = np.maximum(rest.variance + left, floor)
        for i, t in enumerate(rest.Z[:, -1]):
            if t > last:
                mean, P = self._moved(mean, P, float(t) - last)
                last = float(t)
            h, noise = H[i], float(noises[i])
            reach = P @ h
            spread = max(float(h @ reach), 0.0) + noise
            error = rest.Y[i] - h @ mean
            mean += np.outer(reach, error / spread)
            reach /= math.sqrt(spread)
            P -= np.outer(reach, reach)
            products += np.outer(error, error) / spread
            log_det += math.log(spread / noise) + math.log(noise / float(rest.variance[i]))
        return replace(
            self,
            data=data,
            mean=mean,
            covariance=P,
            last=last,
            products=products,
            log_det_ratio=log_det,
            jitter=max(self.jitter, float((floor - rest.variance - left).max(initial=0.0))),
        )

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, c) and variances (n,) at inputs [x, t], none before the latest observation."""
        H, left = self.space.rows(Z[:, :-1])
        means, variances = np.empty((len(Z), self.mean.shape[1])), np.empty(len(Z))
        for t in np.unique(Z[:, -1]):
            at = Z[:, -1] == t
            mean, P = self._at(float(t))
            means[at] = H[at] @ mean
            variances[at] = np.einsum("ij,ij->i", H[at] @ P, H[at]) + left[at]
        return means, np.maximum(variances, 0.0)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time `now`."""
        H, left = self.space.on_surface
        mean, P = self._present
        variance = np.einsum("ij,ij->i", H @ P, H) + left
        return H @ mean, np.maximum(variance, 0.0)

    def means_on_surface(self) -> Array:
        """Means (A, c) at the fixed points, at the time `now`."""
        H, _ = self.space.on_surface
        return np.asarray(H @ self._present[0])

    def samples(self, surface: Surface, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the fixed points at the time `now`, shape (count, A).

        The state is drawn jointly; what the features leave out, for each point on its own.
        """
        H, left = self.space.on_surface
        root = linalg.square_root(self._present[1])
        states = rng.standard_normal((count, root.shape[1])) @ root.T
        own = rng.standard_normal((count, len(left))) * np.sqrt(left)
        return np.asarray(states @ H.T + own)

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) of inputs [x, t], none before the latest observation.

        With s <= t: Cov(f(x, s), f(x', t)) = h(x)^T P_s F_{t-s}^T h(x').
        """
        (H1, left1), (H2, _) = self.space.rows(Z1[:, :-1]), self.space.rows(Z2[:, :-1])
        out = np.empty((len(Z1), len(Z2)))
        for s in np.unique(Z1[:, -1]):
            for t in np.unique(Z2[:, -1]):
                one, other = Z1[:, -1] == s, Z2[:, -1] == t
                _, P = self._at(float(min(s, t)))
                early, late = (H1[one], H2[other]) if s <= t else (H2[other], H1[one])
                ahead = self.space.moved(P @ early.T, abs(float(t) - float(s)))
                block = ahead.T @ late.T
                out[np.ix_(one, other)] = block if s <= t else block.T
        same = (Z1[:, None, :] == Z2[None, :, :]).all(axis=2)
        return out + np.where(same, left1[:, None], 0.0)

    def shrunk(self, z: Array, noise: float, surface: Surface | None) -> StateSpacePosterior:  # noqa: ARG002
        """The same with one more observation at the input `z` (1, p), its value unknown.

        Variances are those of the larger set; means stay.
        """
        expected = self.predict(z)[0]
        row = Data(z, expected, np.array([noise]))
        grown = Data(*(np.concatenate(pair) for pair in zip(self.data, row, strict=True)))
        return self.told(grown)

    def effective_dimension(self) -> float:
        """How many numbers of the state the observations still determine."""
        return float(
            len(self.space.prior) - (np.diagonal(self.covariance) / self.space.prior).sum()
        )

    @cached_property
    def _present(self) -> tuple[Array, Array]:
        return self._at(self.now)

    def _at(self, t: float) -> tuple[Array, Array]:
        """Mean and covariance of the state at a time."""
        if t < self.last:
            raise ValueError(
                f"a filter speaks about times from its latest observation, t = {self.last}, on, "
                f"got t = {t}; the exact posterior also speaks about earlier ones"
            )
        return self._moved(self.mean, self.covariance, t - self.last)

    def _moved(self, mean: Array, P: Array, h: float) -> tuple[Array, Array]:
        if h == 0 or (math.isinf(h) and len(self.data) == 0):
            return mean, P
        # P is the stationary prior less what is known: only the latter moves.
        known = -P
        known[np.diag_indices_from(known)] += self.space.prior
        known = self.space.moved(self.space.moved(known, h).T, h)
        moved = -known
        moved[np.diag_indices_from(moved)] += self.space.prior
        return self.space.moved(mean, h), moved
