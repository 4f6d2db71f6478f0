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
from tvbandits.gp.ensemble.layout import Layout, kind
from tvbandits.gp.ensemble.settings import ModelSpec, in_steps

MEMORY = 400.0
"""How many innovations the scale remembers."""

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
    group : int
        A number of all models with these features.
    """

    layout: Layout
    mean: Array
    covariance: Array
    squares: Array
    count: Array
    group: int = 0

    @classmethod
    def prior(
        cls,
        layout: Layout,
        variance: float,
        transforms: int = 1,
        count: float = 1.0,
        group: int = 0,
    ) -> Filters:
        """Before any observation; `variance` is the first guess of the squared scale, worth `count`."""
        M, S, _ = layout.prior.shape
        squares, counts = np.full((M, transforms), count * float(variance)), np.full(M, count)
        mean = np.zeros((M, S, transforms))
        return cls(layout, mean, layout.prior.copy(), squares, counts, group)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def settings(self) -> tuple[ModelSpec, ...]:
        """The models."""
        return self.layout.settings

    @property
    def variance(self) -> Array:
        """Squared scales (M, K), in units of reward squared."""
        return np.asarray(self.squares / self.count[:, None])

    @property
    def white(self) -> Array:
        """Variance (M,) of the white parts, in units of the squared scale."""
        return self.layout.white

    @property
    def hazard(self) -> Array:
        """Chances (M,) of a fresh start in a step."""
        return self.layout.hazard

    @property
    def floor(self) -> Array:
        """Least noise (M, 1) of a reading, in units of the squared scale."""
        return self.layout.floor

    @property
    def hazards(self) -> NDArray[np.bool_]:
        """Which members may start afresh, (M, 1)."""
        return np.asarray(self.hazard[:, None] > 0)

    def take(self, members: NDArray[Any]) -> Filters:
        """Some of the models, by their numbers or a mask."""
        parts = (self.mean, self.covariance, self.squares, self.count)
        mean, covariance, squares, count = (each[members] for each in parts)
        return Filters(self.layout.take(members), mean, covariance, squares, count, self.group)

    def joined(self, other: Filters) -> Filters:
        """With other models of the same features."""
        pairs = (
            (self.mean, other.mean),
            (self.covariance, other.covariance),
            (self.squares, other.squares),
            (self.count, other.count),
        )
        mean, covariance, squares, count = (np.concatenate(pair) for pair in pairs)
        layout = self.layout.joined(other.layout)
        return Filters(layout, mean, covariance, squares, count, self.group)

    def counted_in(self, step: float) -> Filters:
        """The same, with periods of seasons in steps of such a length."""
        settings = in_steps(self.settings, step)
        return replace(self, layout=replace(self.layout, settings=settings))

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
        own = self.white[:, None] + self.layout.left[:, points]
        noise = np.maximum(own + noise / self.variance[:, :1], self.floor)
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
        told_of = remembered(
            self.squares + told[:, None] * squares, self.count + told * len(values)
        )
        after = self.like(start.mean + gain, covariance, *told_of)
        return after, Innovations(errors, variances, log_density)

    def like(self, mean: Array, covariance: Array, squares: Array, count: Array) -> Filters:
        """The same models, which know something else."""
        return Filters(self.layout, mean, covariance, squares, count, self.group)

    def _afresh(
        self, H: Array, values: Array, noise: Array, log_density: Array, squares: Array
    ) -> tuple[Filters, Array, Array]:
        """Drawn to the prior by the chance that everything but the constant has started afresh.

        The soft reset towards the prior of arXiv 2411.10153: with the chance nu that it has not, the
        state becomes nu mean, nu^2 covariance + (1 - nu^2) prior; and the prior itself below 1/2.
        """
        fresh = self.restarted()
        other = _Seen.of(fresh, H, values, noise)
        hazard = np.maximum(self.hazard, 1e-300)
        goes_on = np.log1p(-self.hazard)[:, None] + log_density
        starts = np.log(hazard)[:, None] + other.log_density(self)
        together = np.logaddexp(goes_on, starts)
        log_density = np.where(self.hazards, together, log_density)
        kept = self.kept(goes_on, together)
        if (kept == 1.0).all():
            return self, log_density, squares
        squares = np.where(self.hazards, np.minimum(squares, other.squares), squares)
        return self.drawn_to_prior(kept), log_density, squares

    def kept(self, goes_on: Array, together: Array) -> Array:
        """What is kept (M,) of the states by the chance that nothing started afresh.

        By log densities (M, K) of what was read, if nothing did and whatever did. One covariance serves
        all transforms: they start afresh together.
        """
        on, off = np.logaddexp.reduce(goes_on, axis=1), np.logaddexp.reduce(together, axis=1)
        chance = np.where(self.hazard > 0, np.exp(on - off), 1.0)
        return np.where(chance >= NO_RESET, 1.0, np.where(chance > 0.5, chance, 0.0))

    def drawn_to_prior(self, kept: Array) -> Filters:
        """With so much kept (M,) of the states, and the rest started afresh."""
        fresh, own = self.restarted(), kept[:, None, None]
        mean = own * self.mean + (1.0 - own) * fresh.mean
        covariance = own**2 * self.covariance + (1.0 - own**2) * fresh.covariance
        return replace(self, mean=mean, covariance=covariance)

    def restarted(self) -> Filters:
        """At the prior, but for the constant."""
        mean, covariance = np.zeros_like(self.mean), self.layout.prior.copy()
        mean[:, 0], covariance[:, 0, 0] = self.mean[:, 0], self.covariance[:, 0, 0]
        return replace(self, mean=mean, covariance=covariance)


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
        n, count, known = self.errors.shape[1], filters.count, filters.squares
        half = (count + n) / 2
        constant = gammaln(half) - gammaln(count / 2) - self.log_determinant / 2
        return np.asarray(
            constant[:, None]
            - n / 2 * np.log(math.pi * known)
            - half[:, None] * np.log1p(self.squares / known)
        )


def remembered(squares: Array, count: Array) -> tuple[Array, Array]:
    """Sums of squares (M, K) and how many innovations (M,) they are of, the old ones forgotten."""
    kept = np.minimum(1.0, MEMORY / count)
    return squares * kept[:, None], count * kept


def filters_of(
    settings: Sequence[ModelSpec],
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
    groups: dict[object, list[ModelSpec]] = {}
    for each in settings:
        groups.setdefault(kind(each, len(points)), []).append(each)
    return tuple(
        Filters.prior(Layout.of(alike, distance, extent), variance, transforms, count, group)
        for group, alike in enumerate(groups.values())
    )
