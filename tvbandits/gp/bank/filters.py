"""Kalman filters of several models at once, each with a scale of its own.

All variances of a model are known but for one factor, the square of its prior deviation. Its
posterior under an inverse-gamma prior follows from the sum of squared standardised innovations, and
old ones are forgotten, so that the scale may change. The predictive density is Student's then.
An innovation counts by the share of its variance that is not the sensor's noise: where one place is
played again and again, readings are of next to nothing else, and say nothing about the scale.

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
from tvbandits.gp.bank.layout import Layout, kind
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
    errors, variances : arrays of shape (M, n, K)
        Observation less expectation, and the predictive variance of each with its noise.
    log_density : array of shape (M, K)
        Of all of them together.
    """

    errors: Array
    variances: Array
    log_density: Array


@dataclass(frozen=True)
class Mixture:
    """The first two moments of a mixture of models that share features and a transform.

    Attributes
    ----------
    transform : int
        Its number.
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

    transform: int
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
    """The posteriors of M models at one time, each of them under K transforms of the rewards.

    In units of its scale a covariance does not depend on the values, so that transforms share it: the
    sensor's noise is taken to be the same share of the variance under all of them as under the first.

    Attributes
    ----------
    layout : Layout
    mean : array of shape (M, S, K)
        In the unit of reward.
    covariance : array of shape (M, S, S)
        In units of the squared scale.
    squares : array of shape (M, K)
        Sum of squared standardised innovations.
    count : array of shape (M,)
        How many there were, each by what it says: the squared scale is their ratio.
    """

    layout: Layout
    mean: Array
    covariance: Array
    squares: Array
    count: Array

    @classmethod
    def prior(
        cls, layout: Layout, variance: float, transforms: int = 1, count: float = 1.0
    ) -> Filters:
        """Before any observation; `variance` is the first guess of the squared scale, worth `count`."""
        M, S, _ = layout.prior.shape
        squares, counts = np.full((M, transforms), count * float(variance)), np.full(M, count)
        return cls(layout, np.zeros((M, S, transforms)), layout.prior.copy(), squares, counts)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The models."""
        return self.layout.settings

    @property
    def variance(self) -> Array:
        """Squared scales (M, K), in units of reward squared."""
        return np.asarray(self.squares / self.count[:, None])

    @cached_property
    def white(self) -> Array:
        """Variance (M,) of the white parts, in units of the squared scale."""
        return np.array([each.white for each in self.settings])

    @cached_property
    def hazard(self) -> Array:
        """Chances (M,) of a fresh start in a step."""
        return np.array([each.hazard for each in self.settings])

    @property
    def hazards(self) -> NDArray[np.bool_]:
        """Which members may start afresh, (M, 1)."""
        return np.asarray(self.hazard[:, None] > 0)

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
        if h not in self._later:
            # A forecast and the next observation are mostly about the same time.
            self._later.clear()
            self._later[h] = replace(
                self,
                mean=self.layout.moved(self.mean, h),
                covariance=self.layout.moved_covariance(self.covariance, h),
            )
        return self._later[h]

    @cached_property
    def _later(self) -> dict[float, Filters]:
        return {}

    def observed(self, points: Index, values: Array, noise: Array) -> tuple[Filters, Innovations]:
        """With observations at points (n,), of transformed values (n, K), and noise variances (n,)."""
        H = self.layout.rows(points)
        floor = ROUNDING * np.trace(self.layout.prior, axis1=1, axis2=2)[:, None]
        own = self.white[:, None] + self.layout.left[:, points]
        noise = np.maximum(own + noise / self.variance[:, :1], floor)
        seen = _Seen.of(self, H, values, noise)
        log_density, squares = seen.log_density(self), seen.squares
        errors = seen.errors
        variances = seen.diagonal[:, :, None] * self.variance[:, None, :]
        start = self
        if self.hazard.any():
            start, log_density, squares = self._afresh(H, values, noise, log_density, squares)
            if start is not self:
                seen = _Seen.of(start, H, values, noise)
                squares = np.where(self.hazards, np.minimum(squares, seen.squares), squares)
        gain = np.matmul(seen.reach.transpose(0, 2, 1), seen.whitened)
        covariance = start.covariance - np.matmul(seen.reach.transpose(0, 2, 1), seen.reach)
        told = np.clip(1.0 - (noise - own) / seen.diagonal, 0.0, 1.0).mean(axis=1)
        total, count = self.squares + told[:, None] * squares, self.count + told * len(values)
        forget = np.minimum(1.0, MEMORY / count)
        kept = forget[:, None]
        after = Filters(self.layout, start.mean + gain, covariance, total * kept, count * forget)
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
        goes_on = np.log1p(-self.hazard)[:, None] + log_density
        starts = np.log(hazard)[:, None] + other.log_density(self)
        together = np.logaddexp(goes_on, starts)
        log_density = np.where(self.hazards, together, log_density)
        # One covariance serves all transforms: they start afresh together.
        on, off = np.logaddexp.reduce(goes_on, axis=1), np.logaddexp.reduce(together, axis=1)
        chance = np.where(self.hazard > 0, np.exp(on - off), 1.0)
        if (chance >= NO_RESET).all():
            return self, log_density, squares
        kept = np.where(chance >= NO_RESET, 1.0, np.where(chance > 0.5, chance, 0.0))
        share = kept[:, None, None] ** 2
        own = kept[:, None, None]
        mean = own * self.mean + (1.0 - own) * fresh.mean
        covariance = share * self.covariance + (1.0 - share) * fresh.covariance
        squares = np.where(self.hazards, np.minimum(squares, other.squares), squares)
        return replace(self, mean=mean, covariance=covariance), log_density, squares

    def _restarted(self) -> Filters:
        """At the prior, but for the constant."""
        mean, covariance = np.zeros_like(self.mean), self.layout.prior.copy()
        mean[:, 0], covariance[:, 0, 0] = self.mean[:, 0], self.covariance[:, 0, 0]
        return replace(self, mean=mean, covariance=covariance)

    def mixtures(self, weights: Array, h: float, present: bool = True) -> list[Mixture]:
        """The models by their weights (M, K) in the bank, now and h steps ahead, for each transform.

        What a transform is not weighted with is left out. Without `present`, all that is not about the
        time ahead is left at 0.
        """
        layout, size, later = self.layout, self.layout.size, self.moved(h)
        # What a state ahead (rows) shares with one now is the covariance moved on one side.
        covariances = [later.covariance] + [self.covariance] * present
        if present:
            covariances.append(layout.moved(self.covariance, h))
        found = []
        for k in np.flatnonzero(weights.any(axis=0)):
            share = weights[:, k] / weights[:, k].sum()
            unit = share * self.variance[:, k]
            sums = [
                layout.folded(
                    layout.folded((unit @ each.reshape(len(unit), -1)).reshape(size, size)).T
                ).T
                for each in covariances
            ]
            now, ahead = (layout.folded(each.mean[:, :, k].T).T for each in (self, later))
            # What the models disagree about adds to what each of them does not know.
            from_now, from_ahead = now - share @ now, ahead - share @ ahead
            nothing = np.zeros(0)
            found.append(
                Mixture(
                    transform=int(k),
                    weight=float(weights[:, k].sum()),
                    basis=layout.basis,
                    now=share @ now,
                    ahead=share @ ahead,
                    spread=sums[0] + (from_ahead.T * share) @ from_ahead,
                    known=sums[1] + (from_now.T * share) @ from_now if present else nothing,
                    across=sums[2].T + (from_now.T * share) @ from_ahead if present else nothing,
                    left=unit @ layout.left,
                    white=float(unit @ self.white),
                )
            )
        return found


@dataclass(frozen=True)
class _Seen:
    """Observations (n,) through filters: C C^T is the predictive covariance of them.

    `reach` (M, n, S) is C^-1 H P, `whitened` (M, n, K) is C^-1 errors.
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
        errors = values - np.matmul(H, filters.mean)
        sides = np.concatenate([HP, errors], axis=2)
        root, solved = linalg.whitened_each(spread, sides)
        size = H.shape[1]
        return cls(
            errors,
            solved[:, :, :size],
            solved[:, :, size:],
            spread[:, n, n],
            2.0 * np.log(root[:, n, n]).sum(axis=1),
        )

    @property
    def squares(self) -> Array:
        """Squared length (M, K) of the standardised innovations, in units of reward squared."""
        return np.asarray((self.whitened**2).sum(axis=1))

    def log_density(self, filters: Filters) -> Array:
        """Student's, with as many degrees of freedom as the scale has innovations, (M, K)."""
        n, count, squares = self.errors.shape[1], filters.count[:, None], filters.squares
        constant = gammaln((count + n) / 2) - gammaln(count / 2)
        return np.asarray(
            constant
            - n / 2 * np.log(math.pi * squares)
            - self.log_determinant[:, None] / 2
            - (count + n) / 2 * np.log1p(self.squares / squares)
        )


def filters_of(
    settings: Sequence[Setting],
    points: Array,
    variance: float,
    transforms: int = 1,
    count: float = 1.0,
) -> tuple[Filters, ...]:
    """Models at their prior, those with the same features together.

    Parameters
    ----------
    settings : sequence of Setting
    points : array of shape (A, d)
    variance : float
        First guess of the squared scale.
    transforms : int
        Of the rewards, that each model is held under.
    count : float
        How many innovations the first guess is worth.
    """
    distance = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
    extent = float(np.ptp(points, axis=0).max()) or 1.0
    groups: dict[object, list[Setting]] = {}
    for each in settings:
        groups.setdefault(kind(each, len(points)), []).append(each)
    return tuple(
        Filters.prior(Layout.of(alike, distance, extent), variance, transforms, count)
        for alike in groups.values()
    )
