"""The state that some models of a bank share: which numbers it has, what they mean, how they move.

Models with the same correlations over points, and of the same order in time, have the same features.
Their states lie side by side in one array, so that a step is a few operations on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.gp.bank.settings import Setting, Space

CONSTANT = 25.0
"""Prior variance of the constant, in units of the squared prior deviation: next to unknown."""

MOST_FEATURES = 96
TOLERANCE = 1e-4
"""Features end when no point keeps more than this share of its prior variance."""


class Transition(NamedTuple):
    """The expected state after some time: value' = own value + other derivative, and so on.

    `own` (M, S) is what a number keeps of itself. For a smooth drift, `up` (M, 1) is what a value takes
    of its derivative, and `down` (M, 1) what a derivative takes of its value.
    """

    own: Array
    up: Array
    down: Array


@dataclass(frozen=True)
class Layout:
    """States [constant, level, slow, drift, derivatives of a smooth drift] of M models.

    Attributes
    ----------
    settings : tuple of M Setting
    basis : array of shape (A, c)
        What observes the folded state [constant + level, slow, drift], where slow and drift are added if
        they have the same features.
    fold : array of shape (S, c)
        Folds a state: its reward is basis @ fold.T @ state.
    drift, derivative : int
        Where these begin.
    prior : array of shape (M, S)
        Prior variances; the prior covariance is diagonal.
    left : array of shape (M, A)
        Prior variance that the features leave out, at each point.
    """

    settings: tuple[Setting, ...]
    basis: Array
    fold: Array
    drift: int
    derivative: int
    prior: Array
    left: Array
    _latest: list[tuple[float, Transition]] = field(default_factory=list, compare=False)

    @classmethod
    def of(cls, settings: Sequence[Setting], distance: Array, extent: float) -> Layout:
        """Of settings with the same spaces and smoothness, on points at distances (A, A)."""
        first = settings[0]
        slow, slow_left = features(first.slow_space, distance, extent)
        same = first.slow_space == first.drift_space
        made = (slow, slow_left) if same else features(first.drift_space, distance, extent)
        drift, drift_left = made
        r, q = slow.shape[1], drift.shape[1]
        size = 2 + r + (2 * q if first.smooth else q)
        parts = [np.ones((len(distance), 1)), slow] + ([] if same else [drift])
        basis = np.column_stack(parts)
        fold = np.zeros((size, basis.shape[1]))
        fold[:2, 0] = 1.0
        fold[2 + np.arange(r), 1 + np.arange(r)] = 1.0
        fold[2 + r + np.arange(q), (1 if same else 1 + r) + np.arange(q)] = 1.0
        prior = np.array([_prior(each, r, q) for each in settings])
        left = np.array([s.slow * slow_left + s.drift * drift_left for s in settings])
        return cls(tuple(settings), basis, fold, 2 + r, 2 + r + q, prior, left)

    @property
    def size(self) -> int:
        """Numbers S of a state."""
        return len(self.fold)

    def take(self, members: NDArray[Any]) -> Layout:
        """Of some of the models, by their numbers or a mask."""
        rows = np.arange(len(self.settings))[members]
        kept = tuple(self.settings[i] for i in rows)
        return Layout(
            kept,
            self.basis,
            self.fold,
            self.drift,
            self.derivative,
            self.prior[rows],
            self.left[rows],
        )

    def rows(self, points: Index) -> Array:
        """What observes a state at some of the points, shape (n, S)."""
        return np.asarray(self.basis[points] @ self.fold.T)

    def folded(self, states: Array) -> Array:
        """fold.T @ states (S, n), without the product with zeros."""
        slow = self.drift - 2
        shared = self.basis.shape[1] == 1 + slow
        ends = self.drift if shared else self.derivative
        out = np.concatenate([states[:1] + states[1:2], states[2:ends]])
        if shared:
            out[1:] += states[self.drift : self.derivative]
        return np.asarray(out)

    def transition(self, h: float) -> Transition:
        """Over a time of h >= 0 steps; the latest is remembered, since most are equally long."""
        if self._latest and self._latest[0][0] == h:
            return self._latest[0][1]
        found = self._transition(h)
        self._latest[:] = [(h, found)]
        return found

    def _transition(self, h: float) -> Transition:
        own = np.ones_like(self.prior)
        up, down = np.zeros((len(own), 1)), np.zeros((len(own), 1))
        for m, each in enumerate(self.settings):
            own[m, 1] = math.exp(-h / each.level_scale)
            own[m, 2 : self.drift] = math.exp(-h / each.slow_scale)
            if not each.smooth:
                own[m, self.drift :] = math.exp(-h / each.drift_scale)
                continue
            # Matern-3/2 as a stochastic differential equation (Hartikainen & Sarkka 2010, eq. 14).
            rate = math.sqrt(3.0) / each.drift_scale
            fall = math.exp(-rate * h)
            own[m, self.drift : self.derivative] = fall * (1.0 + rate * h)
            own[m, self.derivative :] = fall * (1.0 - rate * h)
            up[m], down[m] = fall * h, -fall * rate**2 * h
        return Transition(own, up, down)

    def moved(self, states: Array, h: float) -> Array:
        """States (M, S), or matrices (M, S, n) with states as columns, after h steps."""
        own, up, down = self.transition(h)
        if states.ndim == 3:
            own, up, down = own[:, :, None], up[:, :, None], down[:, :, None]
        out = own * states
        if self.derivative < self.size:
            value, slope = slice(self.drift, self.derivative), slice(self.derivative, None)
            out[:, value] += up * states[:, slope]
            out[:, slope] += down * states[:, value]
        return np.asarray(out)


def features(space: Space, distance: Array, extent: float) -> tuple[Array, Array]:
    """Features (A, r) by pivoted Cholesky, and the variance (A,) that they leave out."""
    K = space.correlation(distance, extent)
    most = min(MOST_FEATURES, len(K))
    made = linalg.pivoted_cholesky(np.diagonal(K).copy(), lambda i: K[i].copy(), most, TOLERANCE)
    return np.asarray(made.G.T), np.asarray(made.residual)


def _prior(setting: Setting, slow: int, drift: int) -> Array:
    parts = [[CONSTANT, setting.level], [setting.slow] * slow, [setting.drift] * drift]
    if setting.smooth:
        parts.append([setting.drift * 3.0 / setting.drift_scale**2] * drift)
    return np.concatenate(parts)
