"""The one Kalman filter, and what it knows about its past.

A state s (m,) of diagonal prior covariance P0 is stationary and moves in time by a linear law F_h; a
reward is y = h^T s + noise. Between rewards and at one (Anderson & Moore 1979, Optimal filtering,
chapter 3; [HS] = Hartikainen & Sarkka 2010, docs/references.md):

    move:     mean <- F mean,                      P <- P0 - F (P0 - P) F^T
    correct:  mean <- mean + P h error / spread,   P <- P - P h h^T P / spread
              with error = y - h^T mean and spread = h^T P h + noise

The decomposition of prediction errors gives y^T (K + Sigma)^-1 y = sum error^2 / spread and
log det(K + Sigma) = sum log spread.

About the past it answers by fixed-point smoothing (Anderson & Moore 1979, chapter 7): values w^T s of
the state at an earlier time are carried along while later rewards come in, with their covariance with
the state of the present. No matrix is inverted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tvbandits.core.arrays import Array

ROUNDING = 1e-10
"""Noise below this share of a point's prior variance is raised to it, which is reported as jitter."""


class StateModel(Protocol):
    """How a state moves in time."""

    @property
    def prior(self) -> Array:
        """Prior variances (m,) of the state; its prior covariance is diagonal."""

    def moved(self, M: Array, h: float) -> Array:
        """F_h times a matrix (m, n) of states, for a time h >= 0."""

    def advanced(self, mean: Array, P: Array, h: float) -> tuple[Array, Array]:
        """Mean and covariance of the state after a time h >= 0; infinite: nothing is known yet."""


@dataclass(frozen=True)
class FeatureRows:
    """Rewards as a filter sees them, in order of time.

    Attributes
    ----------
    times : array of shape (n,)
    H : array of shape (n, m)
        What observes the state.
    Y : array of shape (n, c)
    noise : array of shape (n,)
        As the filter takes it: never below rounding of the prior.
    variance : array of shape (n,)
        As it was told.
    """

    times: Array
    H: Array
    Y: Array
    noise: Array
    variance: Array


def lowest_noise(model: StateModel, H: Array) -> Array:
    """Noise (n,) below which that of rewards seen through `H` (n, m) would be lost in rounding."""
    return np.asarray(ROUNDING * (H**2 @ model.prior))


def gain_of(P: Array, h: Array, noise: float) -> tuple[Array, float]:
    """P h (m,), and the variance of a reward seen through h (m,) with its noise."""
    reach = P @ h
    return reach, max(float(h @ reach), 0.0) + noise


@dataclass
class Filter:
    """A filter at work; the arrays that it is given are its own, and change.

    Attributes
    ----------
    model : StateModel
    mean : array of shape (m, c)
    covariance : array of shape (m, m)
    time : float
        What both speak about; minus infinity: nothing has been seen.
    products : array of shape (c, c)
        Y^T (K + Sigma)^-1 Y.
    log_det_ratio : float
        log det(K + Sigma) - log det Sigma.
    """

    model: StateModel
    mean: Array
    covariance: Array
    time: float
    products: Array
    log_det_ratio: float

    @classmethod
    def prior(cls, model: StateModel, columns: int) -> Filter:
        """Before any reward, of so many value columns."""
        mean, products = np.zeros((len(model.prior), columns)), np.zeros((columns, columns))
        return cls(model, mean, np.diag(model.prior), -math.inf, products, 0.0)

    def move(self, t: float) -> None:
        """On to the time `t`; one before the present is no move."""
        if t > self.time:
            h = t - self.time
            self.mean, self.covariance = self.model.advanced(self.mean, self.covariance, h)
            self.time = t

    def correct(self, rows: FeatureRows, i: int) -> tuple[Array, Array, float]:
        """Take in row i, of the present; returns P h / sqrt(spread) (m,), error (c,) and spread."""
        h, noise = rows.H[i], float(rows.noise[i])
        reach, spread = gain_of(self.covariance, h, noise)
        error = rows.Y[i] - h @ self.mean
        self.mean += np.outer(reach, error / spread)
        reach /= math.sqrt(spread)
        self.covariance -= np.outer(reach, reach)
        self.products += np.outer(error, error) / spread
        told = float(rows.variance[i])
        self.log_det_ratio += math.log(spread / noise) + math.log(noise / told)
        return reach, error, spread

    def run(self, rows: FeatureRows) -> Filter:
        """Take in all rows, none of which is before the present."""
        for i, t in enumerate(rows.times):
            self.move(float(t))
            self.correct(rows, i)
        return self


def recall(
    start: Filter, rows: FeatureRows, times: Array, H: Array, *, joint: bool = False
) -> tuple[Array, Array]:
    """Means and (co)variances of values H s at any times, given all rows: smoothing.

    O(m (m + q)) for each row, for q values, or for as many as the states at their times have numbers.

    Parameters
    ----------
    start : Filter
        Where to start; it is used up. It speaks about a time before all rows, and all `times`.
    rows : Rows
    times : array of shape (q,)
    H : array of shape (q, m)
    joint : bool
        Whether the covariance of all values is asked for, or their variances.

    Returns
    -------
    means : array of shape (q, c)
    covariance : array of shape (q, q), or (q,)
    """
    m = len(start.model.prior)
    distinct, which = np.unique(times, return_inverse=True)
    if len(distinct) * m >= len(times):
        order = np.argsort(times, kind="stable")
        back = np.argsort(order, kind="stable")
        means, D = _carried(start, rows, times[order], H[order], joint)
        return means[back], D[np.ix_(back, back)] if joint else D[back]
    # The states of those times are fewer numbers than the values asked for.
    states = np.tile(np.eye(m), (len(distinct), 1))
    means, D = _carried(start, rows, np.repeat(distinct, m), states, True)
    placed = np.zeros((len(times), len(distinct), m))
    placed[np.arange(len(times)), which] = H
    W = placed.reshape(len(times), -1)
    spread = W @ D
    return W @ means, spread @ W.T if joint else np.einsum("ij,ij->i", spread, W)


@dataclass
class _Carried:
    """Values of a state at earlier times, while a filter goes on.

    The first `count` of them have joined: their means, covariance with the present state, and (co)
    variances.
    """

    filter: Filter
    times: Array
    H: Array
    means: Array
    across: Array
    D: Array
    count: int = 0

    def move(self, t: float) -> None:
        """On to the time `t`; values of earlier times join on the way."""
        while self.count < len(self.times) and self.times[self.count] < t:
            self._advance(float(self.times[self.count]))
            self._join(int(np.searchsorted(self.times, self.filter.time, side="right")))
        if math.isfinite(t):
            self._advance(t)

    def _advance(self, t: float) -> None:
        n, h = self.count, t - self.filter.time
        if n and h > 0:
            self.across[:, :n] = self.filter.model.moved(self.across[:, :n], h)
        self.filter.move(t)

    def _join(self, end: int) -> None:
        """The values before number `end`, of the present, join."""
        fresh, before, H = slice(self.count, end), slice(0, self.count), self.H[self.count : end]
        self.means[fresh] = H @ self.filter.mean
        self.across[:, fresh] = self.filter.covariance @ H.T
        if self.D.ndim == 1:
            self.D[fresh] = np.einsum("ij,ji->i", H, self.across[:, fresh])
        else:
            self.D[fresh, :end] = H @ self.across[:, :end]
            self.D[before, fresh] = self.D[fresh, before].T
        self.count = end

    def correct(self, rows: FeatureRows, i: int) -> None:
        """Take in row i, of the present."""
        n = self.count
        told = self.across[:, :n].T @ rows.H[i]
        reach, error, spread = self.filter.correct(rows, i)
        told /= math.sqrt(spread)
        self.means[:n] += np.outer(told, error / math.sqrt(spread))
        self.across[:, :n] -= np.outer(reach, told)
        if self.D.ndim == 1:
            self.D[:n] -= told**2
        else:
            self.D[:n, :n] -= np.outer(told, told)


def _carried(
    start: Filter, rows: FeatureRows, times: Array, H: Array, joint: bool
) -> tuple[Array, Array]:
    """`recall` of values in order of time."""
    q, (m, columns) = len(times), start.mean.shape
    values = _Carried(
        start,
        times,
        H,
        np.empty((q, columns)),
        np.empty((m, q)),
        np.empty((q, q)) if joint else np.empty(q),
    )
    for i, t in enumerate(rows.times):
        values.move(float(t))
        values.correct(rows, i)
    values.move(math.inf)
    return values.means, values.D
