"""The TV-GP-UCB model on a finite domain as a small Kalman filter, in the eigenvectors of its kernel.

With K = U diag(lambda) U^T over the candidates the reward is f = features w, features = U
sqrt(lambda), and the model f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) g has independent
coordinates: w ~ N(0, I), w_{t+h} = gamma w_t + sqrt(1 - gamma^2) v with gamma = (1 - epsilon)^(h /
2). A step costs O(r^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.core.domains import Candidates
from tvbandits.core.linalg import eigenpairs
from tvbandits.core.observations import Plays

SMALLEST = 1e-10
"""Eigenvalues below this share of the largest are left out."""


def features_of(kernel: Any, X: Array) -> tuple[Array, Array]:
    """Features (A, r) of points (A, d), and the eigenvalues (r,) of their kernel matrix."""
    values, vectors = eigenpairs(np.asarray(kernel(X)))
    kept = values > SMALLEST * float(values.max())
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept])), np.asarray(values[kept])


@dataclass(frozen=True)
class Filter:
    """The posterior of w at a time, of reward and of the constant 1, as two columns.

    Attributes
    ----------
    features : array of shape (A, r)
    epsilon : float
    mean : array of shape (r, 2)
    covariance : array of shape (r, r)
    time : float or None
        What it speaks about; None: the prior, which is the same at any time.
    """

    features: Array
    epsilon: float
    mean: Array
    covariance: Array
    time: float | None = None

    @classmethod
    def prior(cls, features: Array, epsilon: float) -> Filter:
        """Before any reward."""
        r = features.shape[1]
        return cls(features, epsilon, np.zeros((r, 2)), np.eye(r))

    def at(self, t: float) -> Filter:
        """As it is at a time, which is not earlier."""
        if self.time is None or t <= self.time:
            return replace(self, time=t if self.time is None else self.time)
        gamma = (1.0 - self.epsilon) ** ((t - self.time) / 2)
        covariance = gamma**2 * self.covariance
        covariance[np.diag_indices_from(covariance)] += 1.0 - gamma**2
        return replace(self, mean=gamma * self.mean, covariance=covariance, time=t)

    def observed(self, row: int, y: float, noise: float) -> Filter:
        """With a reward at a candidate, at the time it speaks about."""
        h = self.features[row]
        reach = self.covariance @ h
        gain = reach / (float(h @ reach) + noise)
        mean = self.mean + np.outer(gain, np.array([y, 1.0]) - h @ self.mean)
        return replace(self, mean=mean, covariance=self.covariance - np.outer(gain, reach))

    def awaiting(self, out: Plays, domain: Candidates, noise: float) -> Filter:
        """As if the mean had been observed at plays whose rewards are not told yet."""
        found = self
        for x, t in zip(out.X, out.t, strict=True):
            now = found.at(float(t))
            told = now.observed(int(domain.index(x[None])[0]), 0.0, noise)
            found = replace(now, covariance=told.covariance)
        return found

    def moments(self, row: int, centre: float) -> tuple[float, float]:
        """Mean and variance at a candidate, of a reward whose prior mean is `centre`."""
        h = self.features[row]
        return centre + float(h @ self.centred(centre)), float(h @ self.covariance @ h)

    def centred(self, centre: float) -> Array:
        """Mean (r,) of w, for rewards less `centre`."""
        return np.asarray(self.mean[:, 0] - centre * self.mean[:, 1])

    def surface(self, centre: float) -> tuple[Array, Array]:
        """Mean and deviation at all candidates."""
        variance = np.einsum("ar,ar->a", self.features @ self.covariance, self.features)
        mean = centre + self.features @ self.centred(centre)
        return np.asarray(mean), np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True)
class Centre:
    """The prior mean of rewards in prior deviations: as given, or the mean of those seen.

    Attributes
    ----------
    given : float or "online"
    scale : float
        The prior deviation that rewards are divided by.
    total, count : float and int
        Of the rewards seen.
    """

    given: float | Literal["online"]
    scale: float
    total: float = 0.0
    count: int = 0

    def seen(self, y: float) -> Centre:
        """With one more reward, divided by the scale."""
        return replace(self, total=self.total + y, count=self.count + 1)

    @property
    def value(self) -> float:
        """The prior mean, divided by the scale."""
        if self.given == "online":
            return self.total / self.count if self.count else 0.0
        return float(self.given) / self.scale

    def before(self, y: float) -> float:
        """The prior mean of a reward, divided by the scale: the first one is as good as expected."""
        return y if self.given == "online" and not self.count else self.value


def log_density(error: float, variance: float) -> float:
    """Of a normal error."""
    return -0.5 * (math.log(2 * math.pi * variance) + error**2 / variance)
