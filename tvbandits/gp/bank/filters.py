"""Kalman filters of several models at once, each with a scale of its own.

All variances of a model are known but for one factor, the square of its prior deviation. Its
posterior under an inverse-gamma prior follows from the sum of squared standardised innovations, and
old ones are forgotten, so that the scale may change. The predictive density is Student's then.

The sensor's noise is known in the unit of reward: it enters each filter divided by the scale as it is
known then. That is the one approximation; where the white part exceeds it, it hardly matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.gp.bank.layout import Layout
from tvbandits.gp.bank.settings import Setting

MEMORY = 400.0
"""How many innovations the scale remembers."""

ROUNDING = 1e-9
"""Noise below this share of the prior variance would be lost, and the filter with it."""

NO_RESET = 0.99
"""A member goes on as it is while it is that certain that nothing started afresh."""


@dataclass(frozen=True)
class Innovations:
    """What observations were to M models before they knew them.

    Attributes
    ----------
    errors, variances : arrays of shape (M, n)
        Observation less expectation, and the predictive variance of each with its noise.
    log_density : array of shape (M,)
        Of all of them together.
    """

    errors: Array
    variances: Array
    log_density: Array


@dataclass(frozen=True)
class Mixture:
    """The first two moments of a mixture of models that share features, in units of reward.

    Attributes
    ----------
    weight : float
        Of the models together, in the bank.
    basis : array of shape (A, c)
        What observes a folded state.
    now, ahead : arrays of shape (c,)
        Means of the folded state.
    known, spread : arrays of shape (c, c)
        Its covariances now and ahead.
    across : array of shape (c, c)
        Covariance of the folded state now (rows) with that ahead (columns).
    left : array of shape (A,)
        Variance that the features leave out.
    white : float
        Variance of the white part.
    """

    weight: float
    basis: Array
    now: Array
    ahead: Array
    known: Array
    spread: Array
    across: Array
    left: Array
    white: float


@dataclass(frozen=True)
class Filters:
    """The posteriors of M models at one time.

    Attributes
    ----------
    layout : Layout
    mean : array of shape (M, S)
        In the unit of reward.
    covariance : array of shape (M, S, S)
        In units of the squared scale.
    squares, count : arrays of shape (M,)
        Sum of squared standardised innovations, and how many: their ratio is the squared scale.
    """

    layout: Layout
    mean: Array
    covariance: Array
    squares: Array
    count: Array

    @classmethod
    def prior(cls, layout: Layout, variance: float) -> Filters:
        """Before any observation; `variance` is the first guess of the squared scale."""
        M, S = layout.prior.shape
        covariance = np.zeros((M, S, S))
        covariance[:, np.arange(S), np.arange(S)] = layout.prior
        return cls(layout, np.zeros((M, S)), covariance, np.full(M, float(variance)), np.ones(M))

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The models."""
        return self.layout.settings

    @property
    def variance(self) -> Array:
        """Squared scales (M,), in units of reward squared."""
        return np.asarray(self.squares / self.count)

    @cached_property
    def white(self) -> Array:
        """Variance (M,) of the white parts, in units of the squared scale."""
        return np.array([each.white for each in self.settings])

    @cached_property
    def hazard(self) -> Array:
        """Chances (M,) of a fresh start in a step."""
        return np.array([each.hazard for each in self.settings])

    def take(self, members: NDArray[Any]) -> Filters:
        """Some of the models, by their numbers or a mask."""
        return Filters(
            self.layout.take(members),
            self.mean[members],
            self.covariance[members],
            self.squares[members],
            self.count[members],
        )

    def moved(self, h: float) -> Filters:
        """After h >= 0 steps without an observation."""
        if h == 0:
            return self
        S = np.arange(self.layout.size)
        # The covariance is the stationary prior less what is known: only the latter moves.
        known = self.covariance.copy()
        known[:, S, S] -= self.layout.prior
        known = self.layout.moved(known, h)
        known = self.layout.moved(known.transpose(0, 2, 1), h)
        known[:, S, S] += self.layout.prior
        return replace(self, mean=self.layout.moved(self.mean, h), covariance=known)

    def observed(self, points: Index, values: Array, noise: Array) -> tuple[Filters, Innovations]:
        """With observations at points (n,), of values (n,) less the origin, and noise variances (n,)."""
        H = self.layout.rows(points)
        floor = ROUNDING * self.layout.prior.sum(axis=1, keepdims=True)
        own = self.white[:, None] + self.layout.left[:, points]
        noise = np.maximum(own + noise / self.variance[:, None], floor)
        seen = _Seen.of(self, H, values, noise)
        log_density, squares = seen.log_density(self), seen.squares
        errors, variances = seen.errors, seen.diagonal * self.variance[:, None]
        start = self
        if self.hazard.any():
            start, log_density, squares = self._afresh(H, values, noise, log_density, squares)
            if start is not self:
                seen = _Seen.of(start, H, values, noise)
                squares = np.where(self.hazard > 0, np.minimum(squares, seen.squares), squares)
        gain = np.matmul(seen.reach.transpose(0, 2, 1), seen.whitened[:, :, None])[:, :, 0]
        covariance = start.covariance - np.matmul(seen.reach.transpose(0, 2, 1), seen.reach)
        total, count = self.squares + squares, self.count + len(values)
        forget = np.minimum(1.0, MEMORY / count)
        after = Filters(self.layout, start.mean + gain, covariance, total * forget, count * forget)
        return after, Innovations(errors, variances, log_density)

    def _afresh(
        self, H: Array, values: Array, noise: Array, log_density: Array, squares: Array
    ) -> tuple[Filters, Array, Array]:
        """Drawn to the prior by the chance that everything but the constant has started afresh.

        The soft reset towards the prior of arXiv 2411.10153: with the chance nu that it has not, the
        state becomes nu mean, nu^2 covariance + (1 - nu^2) prior; and the prior itself below 1/2.
        """
        fresh = self._restarted()
        other = _Seen.of(fresh, H, values, noise)
        hazard = np.maximum(self.hazard, 1e-300)
        goes_on = np.log1p(-self.hazard) + log_density
        together = np.logaddexp(goes_on, np.log(hazard) + other.log_density(self))
        chance = np.where(self.hazard > 0, np.exp(goes_on - together), 1.0)
        log_density = np.where(self.hazard > 0, together, log_density)
        if (chance >= NO_RESET).all():
            return self, log_density, squares
        kept = np.where(chance >= NO_RESET, 1.0, np.where(chance > 0.5, chance, 0.0))
        share = kept[:, None, None] ** 2
        mean = kept[:, None] * self.mean + (1.0 - kept[:, None]) * fresh.mean
        covariance = share * self.covariance + (1.0 - share) * fresh.covariance
        squares = np.where(self.hazard > 0, np.minimum(squares, other.squares), squares)
        return replace(self, mean=mean, covariance=covariance), log_density, squares

    def _restarted(self) -> Filters:
        """At the prior, but for the constant."""
        M, S = self.mean.shape
        mean, covariance = np.zeros((M, S)), np.zeros((M, S, S))
        covariance[:, np.arange(S), np.arange(S)] = self.layout.prior
        mean[:, 0], covariance[:, 0, 0] = self.mean[:, 0], self.covariance[:, 0, 0]
        return replace(self, mean=mean, covariance=covariance)

    def mixture(self, weights: Array, h: float) -> Mixture:
        """The models by their weights (M,) in the bank, now and h steps ahead."""
        share = weights / weights.sum()
        unit, layout, later = share * self.variance, self.layout, self.moved(h)
        now, ahead = layout.folded(self.mean.T).T, layout.folded(later.mean.T).T
        # What the models disagree about adds to what each of them does not know.
        from_now, from_ahead = now - share @ now, ahead - share @ ahead
        # What a state ahead shares with one now, ahead in rows.
        carried = layout.moved(self.covariance, h)
        return Mixture(
            weight=float(weights.sum()),
            basis=self.layout.basis,
            now=share @ now,
            ahead=share @ ahead,
            known=_folded(layout, unit, self.covariance) + (from_now.T * share) @ from_now,
            spread=_folded(layout, unit, later.covariance) + (from_ahead.T * share) @ from_ahead,
            across=_folded(layout, unit, carried).T + (from_now.T * share) @ from_ahead,
            left=unit @ self.layout.left,
            white=float(unit @ self.white),
        )


def _folded(layout: Layout, unit: Array, covariance: Array) -> Array:
    return layout.folded(layout.folded(np.tensordot(unit, covariance, axes=1)).T).T


@dataclass(frozen=True)
class _Seen:
    """Observations (n,) through filters: C C^T is the predictive covariance of them.

    `reach` (M, n, S) is C^-1 H P, `whitened` (M, n) is C^-1 errors.
    """

    errors: Array
    reach: Array
    whitened: Array
    diagonal: Array
    log_determinant: Array

    @classmethod
    def of(cls, filters: Filters, H: Array, values: Array, noise: Array) -> _Seen:
        HP = np.matmul(H, filters.covariance)
        spread = np.matmul(HP, H.T)
        n = np.arange(len(H))
        spread[:, n, n] += noise
        errors = values - filters.mean @ H.T
        sides = np.concatenate([HP, errors[:, :, None]], axis=2)
        root, solved = linalg.whitened_each(spread, sides)
        return cls(
            errors,
            solved[:, :, :-1],
            solved[:, :, -1],
            spread[:, n, n],
            2.0 * np.log(root[:, n, n]).sum(axis=1),
        )

    @property
    def squares(self) -> Array:
        """Squared length (M,) of the standardised innovations, in units of reward squared."""
        return np.asarray((self.whitened**2).sum(axis=1))

    def log_density(self, filters: Filters) -> Array:
        """Student's, with as many degrees of freedom as the scale has innovations, (M,)."""
        n, count, squares = self.errors.shape[1], filters.count, filters.squares
        constant = gammaln((count + n) / 2) - gammaln(count / 2)
        return np.asarray(
            constant
            - n / 2 * np.log(math.pi * squares)
            - self.log_determinant / 2
            - (count + n) / 2 * np.log1p(self.squares / squares)
        )


def filters_of(settings: Sequence[Setting], points: Array, variance: float) -> tuple[Filters, ...]:
    """Models at their prior, those with the same features together.

    Parameters
    ----------
    settings : sequence of Setting
    points : array of shape (A, d)
    variance : float
        First guess of the squared scale.
    """
    distance = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
    extent = float(np.ptp(points, axis=0).max()) or 1.0
    groups: dict[object, list[Setting]] = {}
    for each in settings:
        groups.setdefault((each.slow_space, each.drift_space, each.smooth), []).append(each)
    return tuple(
        Filters.prior(Layout.of(alike, distance, extent), variance) for alike in groups.values()
    )
