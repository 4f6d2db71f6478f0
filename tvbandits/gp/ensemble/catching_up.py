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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble.filters import CONSTANT, Filters, Layout, remembered, student
from tvbandits.gp.kernels.matern import matern32_rate, matern32_transition


class Read(NamedTuple):
    """What was read at one time.

    Attributes
    ----------
    h : float
        Time since the models knew everything, in steps.
    rows : integer array of shape (n,)
    values : array of shape (n,)
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
    log_density : array of shape (s, M)
        Of the readings of a time together.
    squares : array of shape (s, M)
        Squared errors of differences between the places read at a time (`squares_of_differences`).
    """

    log_density: Array
    squares: Array


def after(filters: Filters, reads: Sequence[Read]) -> tuple[Filters, Said]:
    """The models at the time of the last readings, once they know all of them, which are in order."""
    told = _Told.of(reads)
    prior = _PriorOf.readings(filters.layout, told)
    if not filters.layout.restarts:
        seen = _SeenTogether.of(filters, told, prior)
        return _conditioned(filters, told, prior, seen), seen.said
    # All but the constant may have started afresh before the first reading: the soft reset of
    # `Filters.observed`, once for all readings, with the hazard of so many steps.
    M, (afresh, layout) = len(filters), filters.layout.restarting
    some, everyone = filters.some(afresh, layout), np.append(np.arange(M), afresh)
    beside = filters.joined(some.restarted(), filters.layout.with_restarting)
    both = _SeenTogether.of(beside, told, prior.take(everyone))
    seen, log_density = both.first(M), both.said.log_density
    known, said = _conditioned(filters, told, prior, seen), seen.said
    stays = np.log1p(-layout.hazard) * len(reads)
    on = stays + np.cumsum(log_density[:, afresh], axis=0)
    off = np.log(-np.expm1(stays)) + np.cumsum(log_density[:, M:], axis=0)
    together = np.logaddexp(on, off)
    said.log_density[:, afresh] = together
    said.log_density[1:, afresh] -= together[:-1]
    kept = some.kept(on[-1], together[-1])
    if (kept < 1.0).any():
        drawn, own = some.drawn_to_prior(kept), prior.take(afresh)
        again = _conditioned(drawn, told, own, _SeenTogether.of(drawn, told, own))
        for name in ("mean", "covariance"):
            getattr(known, name)[afresh] = getattr(again, name)
    return known, said


class _Told(NamedTuple):
    """The readings of s times in one row.

    Attributes
    ----------
    n, first : integer arrays of shape (s,)
        How many there were at each time, and the number of the first of them.
    times : array of shape (s,)
    step : integer array of shape (N,)
        Which time each of them is of.
    rows, values, noise : arrays of N rows
    """

    n: Index
    first: Index
    times: Array
    step: Index
    rows: Index
    values: Array
    noise: Array

    @classmethod
    def of(cls, reads: Sequence[Read]) -> _Told:
        n = np.array([len(each.rows) for each in reads])
        parts = ("rows", "values", "noise")
        rows, values, noise = (np.concatenate([getattr(r, part) for r in reads]) for part in parts)
        times = np.array([each.h for each in reads])
        return cls(n, np.cumsum(n) - n, times, np.repeat(np.arange(len(n)), n), rows, values, noise)

    @property
    def h(self) -> Array:
        """The time (N,) of each reading."""
        return np.asarray(self.times[self.step])

    def summed(self, each: Array) -> Array:
        """Sums (s, M) over the readings of each time, of numbers (M, N)."""
        return np.asarray(np.add.reduceat(each, self.first, axis=1).T)


class _PriorOf(NamedTuple):
    """What M models say of N readings before anything is observed.

    Attributes
    ----------
    H : array of shape (N, S)
        What observes a state at the places read.
    back : array of shape (M, S, N)
        F(h)^T H^T, to the state that is known.
    joint : array of shape (M, N, N)
        Prior covariance of what is read, without noise.
    ahead : array of shape (M, S, N)
        Prior covariance of the state at the end with what is read.
    """

    H: Array
    back: Array
    joint: Array
    ahead: Array

    @classmethod
    def readings(cls, layout: Layout, told: _Told) -> _PriorOf:
        time, H = _Fading(layout), layout.rows(told.rows)
        joint = time.stationary(H, told.times, told.step)
        return cls(H, time.back(H, told.h), joint, time.since(H, told.times[-1] - told.h))

    def take(self, models: Index) -> _PriorOf:
        """As some of the models say."""
        return _PriorOf(self.H, *(each[models] for each in self[1:]))


class _SeenTogether(NamedTuple):
    """What readings were to models before they knew them.

    Attributes
    ----------
    learned : array of shape (M, S, S)
        What the models knew: their covariances less the prior.
    known : array of shape (M, S, N)
        Its covariance with the readings.
    inverse : array of shape (M, N, N)
        Of the factor of the covariance of the readings.
    whitened : array of shape (M, N)
        What they were off, standardised.
    squares : array of shape (M,)
    counts : array of shape (M,)
        Of the scales once they are known.
    said : Said
    """

    learned: Array
    known: Array
    inverse: Array
    whitened: Array
    squares: Array
    counts: Array
    said: Said

    @classmethod
    def of(cls, filters: Filters, told: _Told, prior: _PriorOf) -> _SeenTogether:
        layout = filters.layout
        own = layout.own[:, told.rows]
        noise = np.maximum(own + told.noise / filters.variance[:, None], layout.floor)
        learned = filters.covariance - layout.prior
        known = np.matmul(learned, prior.back)
        ahead = prior.back.transpose(0, 2, 1)
        joint = np.matmul(ahead, known)
        joint += prior.joint
        diagonal = np.einsum("mii->mi", joint)
        diagonal += noise  # of `joint`: they are a view
        expected = np.matmul(ahead, filters.mean[:, :, None])
        root, inverse = linalg.whitening_each(joint)
        whitened = np.matmul(inverse, told.values[:, None] - expected)[:, :, 0]
        judged = _judged(filters, told, root, whitened, noise - own)
        return cls(learned, known, inverse, whitened, *judged)

    def first(self, M: int) -> _SeenTogether:
        """To the first M of the models."""
        said = Said(self.said.log_density[:, :M].copy(), self.said.squares[:, :M])
        arrays = {name: getattr(self, name)[:M] for name in self._fields[:-1]}
        return self._replace(**arrays, said=said)


def _conditioned(filters: Filters, told: _Told, prior: _PriorOf, seen: _SeenTogether) -> Filters:
    """Models at the last time, once they know all readings."""
    layout, end = filters.layout, told.times[-1]
    reach = layout.moved(seen.known, end) + prior.ahead
    gain = np.matmul(seen.inverse, reach.transpose(0, 2, 1))
    back = gain.transpose(0, 2, 1)
    mean = layout.moved(filters.mean, end) + np.matmul(back, seen.whitened[:, :, None])[:, :, 0]
    covariance = layout.moved_known(seen.learned, end)
    covariance += layout.prior
    covariance -= np.matmul(back, gain)
    return filters.like(mean, covariance, seen.squares, seen.counts)


def _judged(
    filters: Filters, told: _Told, root: Array, whitened: Array, sensor: Array
) -> tuple[Array, Array, Said]:
    """Squares and counts of the scales after the readings, and what these said.

    Parameters
    ----------
    filters : Filters
        Before.
    told : _Told
    root : array of shape (M, N, N)
        Factor of the covariance of all readings.
    whitened : array of shape (M, N)
    sensor : array of shape (M, N)
        Noise of the sensor, in units of the squared scale.
    """
    n, blocks = told.n[:, None], np.where(told.step[:, None] == told.step, root, 0.0)
    found = told.summed(whitened**2)
    log_root = told.summed(np.log(np.einsum("mii->mi", root)))
    known = np.minimum(np.maximum(1.0 - sensor / (blocks**2).sum(axis=2), 0.0), 1.0)
    share = told.summed(known) / n
    scales = [(filters.squares, filters.count)]
    for more, count in zip(share * found, share * n, strict=True):
        scales.append(remembered(scales[-1][0] + more, scales[-1][1] + count))
    squares, counts = np.array(scales).swapaxes(0, 1)
    density = student(n, counts[:-1], squares[:-1], log_root, found)
    errors = np.matmul(blocks, whitened[:, :, None])[:, :, 0]
    # Of two places or more only what they differ by counts.
    common = np.where(n > 1, 1.0 / n, 0.0) * told.summed(errors) ** 2
    off = np.maximum(told.summed(errors**2) - common, 0.0)
    return squares[-1], counts[-1], Said(density, off)


@dataclass(frozen=True)
class _Fading:
    """How the parts of the states of M models fade; times are arrays (n,), in steps."""

    layout: Layout

    @property
    def smooth(self) -> bool:
        return self.layout.derivative < self.layout.season

    def _kept(self, scale: Array, h: Array) -> Array:
        return np.asarray(np.exp(-h / scale[:, None]))

    def _drift(self, h: Array) -> tuple[Array, Array, Array]:
        """What a value keeps of itself, takes of its derivative, and what that takes of the value."""
        if not self.smooth:
            kept = self._kept(self.layout.scales[2], h)
            return kept, np.zeros_like(kept), np.zeros_like(kept)
        rate = matern32_rate(self.layout.scales[2])[:, None]
        return matern32_transition(rate, h, np.exp(-rate * h))[:3]

    def back(self, H: Array, h: Array) -> Array:
        """F(h)^T H^T for rewards observed by rows H (n, S) after times h, shape (M, S, n)."""
        layout = self.layout
        value, up, _ = self._drift(h)
        out = np.empty((len(value), layout.size, len(h)))
        out[:, 0] = H[:, 0]
        out[:, 1] = self._kept(self.layout.scales[0], h) * H[:, 1]
        out[:, 2 : layout.drift] = (
            self._kept(self.layout.scales[1], h)[:, None] * H[:, 2 : layout.drift].T
        )
        drift = H[:, layout.drift : layout.derivative].T
        out[:, layout.drift : layout.derivative] = value[:, None] * drift
        if self.smooth:
            out[:, layout.derivative : layout.season] = up[:, None] * drift
        if layout.season < layout.size:
            cosine, sine = self._turned(h)
            wave = H[:, layout.waves].T
            out[:, layout.season :] = np.concatenate([cosine * wave, sine * wave], axis=1)
        return out

    def since(self, H: Array, h: Array) -> Array:
        """F(h) prior H^T, the covariance of a state with rewards (n,) of times h before, (M, S, n)."""
        layout, prior = self.layout, self.layout.prior
        value, _, down = self._drift(h)
        a, b = layout.drift, layout.derivative
        out = np.empty((len(value), layout.size, len(h)))
        out[:, 0] = CONSTANT * H[:, 0]
        out[:, 1] = prior[:, 1, 1, None] * self._kept(self.layout.scales[0], h) * H[:, 1]
        static = self._towards(H, slice(2, a))
        out[:, 2:a] = self._kept(self.layout.scales[1], h)[:, None] * static
        drift = self._towards(H, slice(a, b))
        out[:, a:b] = value[:, None] * drift
        if self.smooth:
            out[:, b : layout.season] = down[:, None] * drift
        if layout.season < layout.size:
            cosine, sine = self._turned(h)
            variance = np.einsum("mii->mi", prior)[:, layout.waves, None]
            wave = variance * H[:, layout.waves].T
            out[:, layout.season :] = np.concatenate([cosine * wave, -sine * wave], axis=1)
        return out

    def _turned(self, h: Array) -> tuple[Array, Array]:
        """What a value of a season keeps, and what it takes of the other of its pair, (M, r, n)."""
        found = [self.layout.transition_of_season(float(each)) for each in h]
        return (
            np.stack([cosine for cosine, _ in found], axis=2),
            np.stack([sine for _, sine in found], axis=2),
        )

    def _towards(self, H: Array, part: slice) -> Array:
        """Prior covariance (M, r, n) of a part of the states with rewards at one time."""
        rows, prior = H[:, part].T, self.layout.prior[:, part, part]
        if self.layout.independent:
            return np.asarray(prior[:, :1, :1] * rows)
        return np.asarray(np.matmul(prior, rows))

    def _between(self, H: Array, part: slice) -> Array:
        """Prior covariance (M, n, n) of that part of rewards at one time."""
        rows = np.ascontiguousarray(H[:, part])
        if self.layout.independent:
            return np.asarray(self.layout.prior[:, part, part][:, :1, :1] * (rows @ rows.T))
        return np.asarray(np.matmul(rows, self._towards(H, part)))

    def stationary(self, H: Array, times: Array, step: Index) -> Array:
        """Prior covariance (M, n, n) of rewards, each at one of some times."""
        layout, prior = self.layout, self.layout.prior
        # Many readings are as far apart in time: what fades is computed once for each distance.
        apart = np.abs(times[:, None] - times[None, :]).ravel()
        lag = len(times) * step[:, None] + step
        a, b = layout.drift, layout.derivative
        # Every reward is the constant and the trend as they are.
        shared = CONSTANT + prior[:, 1, 1, None] * self._kept(self.layout.scales[0], apart)
        out = shared.take(lag, axis=1)
        static = self._between(H, slice(2, a))
        if np.isfinite(self.layout.scales[1]).any():
            static *= self._kept(self.layout.scales[1], apart).take(lag, axis=1)
        out += static
        drift = self._between(H, slice(a, b))
        drift *= self._drift(apart)[0].take(lag, axis=1)
        out += drift
        if layout.season < layout.size:
            once, where = np.unique(apart, return_inverse=True)
            variance = np.einsum("mii->mi", prior)[:, layout.waves]
            kept = variance[:, :, None] * self._turned(once)[0]
            rows = H[:, layout.waves]
            again = np.einsum("ar,br,mrl->mabl", rows, rows, kept)
            out += np.take_along_axis(again, where[lag][None, :, :, None], axis=3)[..., 0]
        return np.asarray(out)
