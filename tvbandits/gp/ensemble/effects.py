"""Effects of arms beside a control, where all readings of one time share a level that nobody knows.

    y_i = level(t) + g_i(t) + noise_i,   g = f - f(control),

with a level of its own at every time, of which nothing is known before. Readings of one time with the
noise R tell of the effects by their contrasts C y alone:

    C = Q R^(-1/2),   the rows of Q orthonormal, and orthogonal to R^(-1/2) 1.

C 1 = 0, so that no level is left in them, and C R C' = 1: n readings are n - 1 readings of independent
noise, and nothing that they say is lost. A reading that is alone at its time says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble.filters import distances, extent_of

# Steps in which an effect is forgotten, up to 1/e.
SCALES = 10.0 ** np.arange(1.0, 5.0)


def contrasts(variance: Array) -> Array:
    """C (n - 1, n) of n readings of one time with these noise variances; see above."""
    weight = 1.0 / np.sqrt(variance)
    mirror = weight / np.linalg.norm(weight)
    mirror[0] += 1.0  # of a Householder reflection that takes the weights to the first axis
    reflection = np.eye(len(weight)) - np.outer(mirror, mirror) / mirror[0]
    return np.asarray(reflection[1:] * weight)


def precision_of_later(kept2: Array, fresh: Array, noise: float) -> Array:
    """What readings of every later step say about a difference now, as a precision J.

    A step later it is f' = k f + sqrt(q) e, and is read with the noise v. These readings say as much
    about f as one of the precision J = k^2 a / (1 + q a) with a = J + 1/v.

    Parameters
    ----------
    kept2, fresh : arrays of one shape
        k^2 and q.
    noise : float
        v.
    """
    g = 1.0 / noise
    b = 1.0 + fresh * g - kept2
    return np.asarray(2.0 * kept2 * g / (b + np.sqrt(b**2 + 4.0 * fresh * kept2 * g)))


@dataclass(frozen=True, eq=False)
class EffectFilters:
    """M models of the effects at A arms, filtered up to one time; see `ArmFilters`, their plain form.

    f is a Gaussian process with a correlation over the arms, and forgotten as an Ornstein-Uhlenbeck
    process is.

    Attributes
    ----------
    time : float
    signal, scale : arrays of shape (M,)
        Variance and time scale of f.
    prior, covariance : arrays of shape (M, A, A)
        Of the effects: before any reading, and now.
    means : array of shape (M, A)
    evidence : array of shape (M,)
        Log density of the contrasts that were read, and the log prior weight.
    """

    time: float
    signal: Array
    scale: Array
    prior: Array
    covariances: Array
    means: Array
    evidence: Array

    @classmethod
    def of(
        cls,
        points: Array,
        control: int,
        lengths: Sequence[float],
        noise: float,
        powers: Array,
        step: float,
    ) -> EffectFilters:
        """Before any reading: all sizes (noise * powers), time scales and lengths.

        Points (A, d) at a distance r have the correlation exp(-(r / l)^2 / 2), with lengths l in
        extents of the points; at a length of 0 no two of them resemble each other.
        """
        grid = np.meshgrid(noise * powers, step * SCALES, np.arange(len(lengths)), indexing="ij")
        signal, scale = grid[0].ravel(), grid[1].ravel()
        apart = distances(points, points) / extent_of(points)
        among = [
            np.exp(-0.5 * (apart / each) ** 2) if each else np.eye(len(points)) for each in lengths
        ]
        beside = [S - S[control] - S[:, [control]] + S[control, control] for S in among]
        prior = signal[:, None, None] * np.array(beside)[grid[2].ravel()]
        weight = 0.25 * np.log(scale * noise / (step * signal))  # as of `ArmFilters.of`
        means = np.zeros(prior.shape[:2])
        return cls(-math.inf, signal, scale, prior, prior, means, weight)

    def moved(self, t: float) -> EffectFilters:
        """At a later time."""
        if not self.time < t:
            return self
        if not math.isfinite(self.time):
            return replace(self, time=t)
        kept = np.exp((self.time - t) / self.scale)[:, None]
        known = kept[:, :, None] ** 2 * (self.covariances - self.prior)
        return replace(self, time=t, means=kept * self.means, covariances=self.prior + known)

    def observed(self, t: float, rows: Index, y: Array, noise: Array) -> EffectFilters:
        """With readings (n,) of some arms at a time that is not before that of the filters."""
        now = self.moved(t)
        total = np.bincount(rows, 1.0 / noise, now.means.shape[1])
        arms = np.flatnonzero(total)
        if len(arms) < 2:
            return now
        value = np.bincount(rows, y / noise, len(total))[arms] / total[arms]
        C = contrasts(1.0 / total[arms])
        across = C @ now.covariances[:, arms]
        spread = across[:, :, arms] @ C.T + np.eye(len(C))
        off = (value - now.means[:, arms]) @ C.T
        root, solved = linalg.whitened_each(
            spread, np.concatenate([across, off[:, :, None]], axis=2)
        )
        reach, whitened = solved[:, :, :-1], solved[:, :, -1]
        size = np.log(np.einsum("mii->mi", root)).sum(axis=1)
        return replace(
            now,
            means=now.means + np.einsum("mia,mi->ma", reach, whitened),
            covariances=now.covariances - reach.transpose(0, 2, 1) @ reach,
            evidence=now.evidence - size - 0.5 * (whitened**2).sum(axis=1),
        )

    @cached_property
    def weights(self) -> Array:
        """Of the models, (M,), of sum 1."""
        weights = np.exp(self.evidence - self.evidence.max())
        return np.asarray(weights / weights.sum())

    @property
    def level(self) -> float:
        """Effects are beside the control."""
        return 0.0

    @cached_property
    def variance(self) -> Array:
        """Of the effects under each model, (M, A)."""
        return np.asarray(np.maximum(np.einsum("maa->ma", self.covariances), 0.0))

    @property
    def total_variance(self) -> Array:
        """The same: there is no level in it."""
        return self.variance

    def covariance(self, kept: Array | float = 1.0) -> Array:
        """Between the arms (A, A), over all models; `kept` (M,) of the effects to another time."""
        weights, apart = self.weights, self.means - self.weights @ self.means
        own = np.tensordot(weights * kept, self.covariances, axes=1)
        return np.asarray(own + (apart * weights[:, None]).T @ apart)

    def prior_covariance(self, rows: Index, lags: Array) -> Array:
        """Of effects at arms (n,) with lags (n, n) between their times, over all models."""
        among = self.prior[:, rows][:, :, rows] * np.exp(-lags / self.scale[:, None, None])
        return np.asarray(np.tensordot(self.weights, among, axes=1))

    def lasting(self, noise: float, _: int, step: float) -> Array:
        """As `ArmFilters.lasting`; a later reading is held against one of the control."""
        kept2 = np.exp(-2.0 * step / self.scale)[:, None]
        fresh = np.einsum("maa->ma", self.prior) * (1.0 - kept2)
        told = self.variance**2 / (
            self.variance + 1.0 / precision_of_later(kept2, fresh, 2.0 * noise)
        )
        return np.asarray(self.weights @ told)

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Centred draws of the effects, shape (count, A)."""
        root = linalg.square_root(self.covariance())
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)
