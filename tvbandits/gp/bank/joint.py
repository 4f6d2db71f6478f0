"""Readings of several steps, taken in at once by models that nobody has asked in between.

A state of a model is a stationary Gauss-Markov process, x(t + h) = F(h) x(t) + noise, whose covariance
without readings is `prior` at all times. Readings at the times h_i after the state was known therefore
have the joint covariance

    H_i F(h_i) (P - prior) F(h_j)^T H_j^T + H_i F(h_i - h_j) prior H_j^T + noise,       h_i >= h_j,

and one factorisation of it gives what a filter finds step by step: the blocks of the factor are the
innovations. It costs a few products of matrices instead of many passes over all covariances.

Two things differ from the filter: the sensor's noise is divided by the scale that is known at the
beginning; and members that may start afresh do so before the first reading or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.gp.bank.filters import Filters, remembered, student
from tvbandits.gp.bank.layout import CONSTANT, Layout


class Read(NamedTuple):
    """What was read at one time.

    Attributes
    ----------
    h : float
        Time since the models knew everything, in steps.
    rows : integer array of shape (n,)
    values : array of shape (n, K)
        Transformed rewards.
    noise : array of shape (n,)
        Variances of the sensor.
    """

    h: float
    rows: Index
    values: Array
    noise: Array


class Said(NamedTuple):
    """What the readings of s times were to M models before they knew them.

    Attributes
    ----------
    log_density : array of shape (s, M, K)
        Of the readings of a time together.
    squares : array of shape (s, M, K)
        Squared errors of differences between the places read at a time (`squares_of_differences`).
    """

    log_density: Array
    squares: Array


def after(filters: Filters, reads: Sequence[Read]) -> tuple[Filters, Said]:
    """The models at the time of the last readings, once they know all of them, which are in order."""
    afresh = filters.hazard > 0
    if not afresh.any():
        return _together(filters, reads)
    if afresh.all():
        return _perhaps_afresh(filters, reads)
    one, other = filters.take(~afresh), filters.take(afresh)
    order = np.argsort(np.concatenate([np.flatnonzero(~afresh), np.flatnonzero(afresh)]))
    (one, heard), (other, too) = _together(one, reads), _perhaps_afresh(other, reads)
    said = Said(*(np.concatenate(both, axis=1)[:, order] for both in zip(heard, too, strict=True)))
    return one.joined(other).take(order), said


def _perhaps_afresh(filters: Filters, reads: Sequence[Read]) -> tuple[Filters, Said]:
    """As `_together`, with the chance that all but the constant started afresh before the first.

    The soft reset of `Filters.observed`, once for all readings: the hazard is that of so many steps.
    """
    goes_on, said = _together(filters, reads)
    _, other = _together(filters.restarted(), reads)
    stays = np.log1p(-filters.hazard) * len(reads)
    on = stays[:, None] + np.cumsum(said.log_density, axis=0)
    off = np.log(-np.expm1(stays))[:, None] + np.cumsum(other.log_density, axis=0)
    both = np.logaddexp(on, off)
    density = np.diff(both, axis=0, prepend=0.0)
    kept = filters.kept(on[-1], both[-1])
    if (kept == 1.0).all():
        return goes_on, Said(density, said.squares)
    after, _ = _together(filters.drawn_to_prior(kept), reads)
    return after, Said(density, said.squares)


def _together(filters: Filters, reads: Sequence[Read]) -> tuple[Filters, Said]:
    layout = filters.layout
    rows = np.concatenate([each.rows for each in reads])
    n = np.array([len(each.rows) for each in reads])
    h = np.repeat([each.h for each in reads], n)
    values = np.concatenate([each.values for each in reads])
    noise = np.concatenate([each.noise for each in reads])
    own = filters.white[:, None] + layout.left[:, rows]
    noise = np.maximum(own + noise / filters.variance[:, :1], filters.floor)
    time, end = _Fading.of(layout), reads[-1].h
    H = layout.rows(rows)
    back = time.back(H, h)
    learned = filters.covariance - layout.prior
    known = np.matmul(learned, back)
    joint = np.matmul(back.transpose(0, 2, 1), known) + time.stationary(H, h)
    diagonal = np.arange(len(rows))
    joint[:, diagonal, diagonal] += noise
    errors = values - np.matmul(back.transpose(0, 2, 1), filters.mean)
    reach = layout.moved(known, end) + time.since(H, end - h)
    sides = np.concatenate([reach.transpose(0, 2, 1), errors], axis=2)
    root, solved = linalg.whitened_each(joint, sides)
    gain, whitened = solved[:, :, : layout.size], solved[:, :, layout.size :]
    mean = layout.moved(filters.mean, end) + np.matmul(gain.transpose(0, 2, 1), whitened)
    layout.move_known(learned, end)
    learned += layout.prior
    learned -= np.matmul(gain.transpose(0, 2, 1), gain)
    squares, count, said = _judged(filters, n, root, whitened, noise - own)
    return filters.like(mean, learned, squares, count), said


def _judged(
    filters: Filters, n: Index, root: Array, whitened: Array, sensor: Array
) -> tuple[Array, Array, Said]:
    """Squares and counts of the scales after readings, n (s,) at each time, and what these said.

    Parameters
    ----------
    filters : Filters
        Before.
    n : integer array of shape (s,)
    root : array of shape (M, N, N)
        Factor of the covariance of all readings.
    whitened : array of shape (M, N, K)
    sensor : array of shape (M, N)
        Noise of the sensor, in units of the squared scale.
    """
    step, first = np.repeat(np.arange(len(n)), n), np.cumsum(n) - n
    blocks = np.where(step[:, None] == step, root, 0.0)
    found = np.add.reduceat(whitened**2, first, axis=1).transpose(1, 0, 2)
    logs = 2.0 * np.log(np.einsum("mii->mi", root))
    log_determinant = np.add.reduceat(logs, first, axis=1).T
    share = np.clip(1.0 - sensor / (blocks**2).sum(axis=2), 0.0, 1.0)
    told = np.add.reduceat(share, first, axis=1).T / n[:, None]
    squares, count, before = filters.squares, filters.count, []
    for s in range(len(n)):
        before.append((squares, count))
        squares, count = remembered(
            squares + told[s][:, None] * found[s], count + told[s] * int(n[s])
        )
    knew, counts = (np.array(each) for each in zip(*before, strict=True))
    density = student(n[:, None], counts, knew, log_determinant, found)
    errors = np.matmul(blocks, whitened)
    sums = np.add.reduceat(errors, first, axis=1)
    common = np.where(n > 1, 1.0 / n, 0.0)[:, None] * sums**2  # one error is none of a difference
    off = np.add.reduceat(errors**2, first, axis=1) - common
    return squares, count, Said(density, np.maximum(off, 0.0).transpose(1, 0, 2))


@dataclass(frozen=True)
class _Fading:
    """How the parts of the states of M models fade; times are arrays (n,), in steps."""

    layout: Layout
    level_scale: Array
    slow_scale: Array
    drift_scale: Array

    @classmethod
    def of(cls, layout: Layout) -> _Fading:
        scales = ("level_scale", "slow_scale", "drift_scale")
        return cls(layout, *(np.array([getattr(s, n) for s in layout.settings]) for n in scales))

    @property
    def smooth(self) -> bool:
        return self.layout.derivative < self.layout.size

    def _kept(self, scale: Array, h: Array) -> Array:
        return np.asarray(np.exp(-h / scale[:, None]))

    def _drift(self, h: Array) -> tuple[Array, Array, Array]:
        """What a value keeps of itself, takes of its derivative, and what that takes of the value."""
        if not self.smooth:
            kept = self._kept(self.drift_scale, h)
            return kept, np.zeros_like(kept), np.zeros_like(kept)
        # As `Layout.transition`: Hartikainen & Sarkka 2010, eq. 14.
        rate = (math.sqrt(3.0) / self.drift_scale)[:, None]
        fall = np.exp(-rate * h)
        return fall * (1.0 + rate * h), fall * h, -fall * rate**2 * h

    def back(self, H: Array, h: Array) -> Array:
        """F(h)^T H^T for rewards observed by rows H (n, S) after times h, shape (M, S, n)."""
        layout = self.layout
        value, up, _ = self._drift(h)
        out = np.empty((len(value), layout.size, len(h)))
        out[:, 0] = H[:, 0]
        out[:, 1] = self._kept(self.level_scale, h) * H[:, 1]
        out[:, 2 : layout.drift] = (
            self._kept(self.slow_scale, h)[:, None] * H[:, 2 : layout.drift].T
        )
        drift = H[:, layout.drift : layout.derivative].T
        out[:, layout.drift : layout.derivative] = value[:, None] * drift
        if self.smooth:
            out[:, layout.derivative :] = up[:, None] * drift
        return out

    def since(self, H: Array, h: Array) -> Array:
        """F(h) prior H^T, the covariance of a state with rewards (n,) of times h before, (M, S, n)."""
        layout, prior = self.layout, self.layout.prior
        value, _, down = self._drift(h)
        a, b = layout.drift, layout.derivative
        out = np.empty((len(value), layout.size, len(h)))
        out[:, 0] = CONSTANT * H[:, 0]
        out[:, 1] = prior[:, 1, 1, None] * self._kept(self.level_scale, h) * H[:, 1]
        slow = np.matmul(prior[:, 2:a, 2:a], H[:, 2:a].T)
        out[:, 2:a] = self._kept(self.slow_scale, h)[:, None] * slow
        drift = np.matmul(prior[:, a:b, a:b], H[:, a:b].T)
        out[:, a:b] = value[:, None] * drift
        if self.smooth:
            out[:, b:] = down[:, None] * drift
        return out

    def stationary(self, H: Array, h: Array) -> Array:
        """Prior covariance (M, n, n) of rewards at times h."""
        layout, prior = self.layout, self.layout.prior
        # Many readings are as far apart in time: what fades is computed once for each distance.
        times, step = np.unique(h, return_inverse=True)
        apart = np.abs(times[:, None] - times[None, :]).ravel()
        lag = len(times) * step[:, None] + step
        a, b = layout.drift, layout.derivative
        # Every reward is the constant and the level as they are.
        shared = CONSTANT + prior[:, 1, 1, None] * self._kept(self.level_scale, apart)
        out = np.take(shared, lag, axis=1)
        slow = np.matmul(np.matmul(H[:, 2:a], prior[:, 2:a, 2:a]), H[:, 2:a].T)
        if np.isfinite(self.slow_scale).any():
            slow *= np.take(self._kept(self.slow_scale, apart), lag, axis=1)
        out += slow
        drift = np.matmul(np.matmul(H[:, a:b], prior[:, a:b, a:b]), H[:, a:b].T)
        drift *= np.take(self._drift(apart)[0], lag, axis=1)
        out += drift
        return np.asarray(out)
