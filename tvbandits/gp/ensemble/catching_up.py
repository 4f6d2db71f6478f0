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
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.core.observations import changed
from tvbandits.gp.ensemble.filters import Filters, Layout, remembered, student

# Readings that are taken in at once: their covariances cost the cube of that, for each model.
MOST_TOGETHER = 128


class Read(NamedTuple):
    """What was read at one time.

    Attributes
    ----------
    t : float
    rows : integer array of shape (n,)
    values : array of shape (n,)
        Transformed rewards.
    noise : array of shape (n,)
        Variances of the sensor.
    log_slopes : float
        What their densities gain by being in the unit of reward.
    apart : float
        Variance of readings of differences between places, as it was known then.
    """

    t: float
    rows: Index
    values: Array
    noise: Array
    log_slopes: float = 0.0
    apart: float = 0.0


class Said(NamedTuple):
    """What the readings of s times were to M models before they knew them.

    Attributes
    ----------
    log_density : array of shape (s, M)
        Of the readings of a time together, in the unit of reward.
    squares : array of shape (s, M)
        Squared errors of differences between the places read at a time (`squares_of_differences`).
    """

    log_density: Array
    squares: Array


def squares_of_differences(errors: Array) -> Array:
    """Squared errors (M,) of differences between places, of a reading itself where it is alone.

    Parameters
    ----------
    errors : array of shape (M, n)
        Of the transformed rewards of n places at one time, as they were expected.
    """
    if errors.shape[1] > 1:
        errors = errors - errors.sum(axis=1, keepdims=True) / errors.shape[1]
    return np.asarray((errors**2).sum(axis=1))


def after(
    filters: Filters, time: float, reads: Sequence[Read], step: float
) -> tuple[Filters, Said]:
    """Models that knew all until a time, at that of the last readings, once they know all of them.

    Parameters
    ----------
    filters : Filters
    time : float
    reads : sequence of Read
        In order of time.
    step : float
        Time that a step takes.
    """
    if len(reads) == 1 and len(reads[0].rows) > MOST_TOGETHER:
        return _of_one_time(filters, time, reads[0], step)
    told = _ByTime.of(reads, time, step)
    prior = _PriorOf.readings(filters.layout, told)
    seen = _SeenTogether.of(filters, told, prior)
    known, (density, squares) = _conditioned(filters, told, prior, seen), seen.said
    if filters.layout.hazard.any():
        # All but the constant may have started afresh before the first reading: the soft reset of
        # `Filters.observed`, once for all readings, with the hazard of so many steps.
        afresh, layout = filters.layout.restarting
        some, prior = filters.take(afresh, layout), prior.take(afresh)
        fresh = _SeenTogether.of(some.restarted(), told, prior)
        stays = np.log1p(-layout.hazard) * len(told.n)
        on = stays + np.cumsum(density[:, afresh], axis=0)
        off = np.log(-np.expm1(stays)) + np.cumsum(fresh.said.log_density, axis=0)
        together = np.logaddexp(on, off)
        density[:, afresh] = np.diff(together, axis=0, prepend=0.0)
        drawn = some.drawn_to_prior(on[-1], together[-1])
        if drawn is not some:
            again = _conditioned(drawn, told, prior, _SeenTogether.of(drawn, told, prior))
            known.mean[afresh], known.covariance[afresh] = again.mean, again.covariance
    return known, Said(density + np.array([[each.log_slopes] for each in reads]), squares)


def in_parts(count: int) -> list[slice]:
    """Slices of so many readings of one time, `MOST_TOGETHER` in each at the most."""
    return [slice(start, start + MOST_TOGETHER) for start in range(0, count, MOST_TOGETHER)]


def _of_one_time(filters: Filters, time: float, read: Read, step: float) -> tuple[Filters, Said]:
    """As `after`, of one time with many readings."""
    known = filters.moved((read.t - time) / step)
    off = read.values - known.mean @ known.layout.rows(read.rows).T
    density = np.full(len(known), read.log_slopes)
    for part in in_parts(len(read.rows)):
        known, seen = known.observed(read.rows[part], read.values[part], read.noise[part])
        density += seen.log_density
    return known, Said(density[None], squares_of_differences(off)[None])


class _ByTime(NamedTuple):
    """The readings of s times in one row.

    Attributes
    ----------
    n, first : integer arrays of shape (s,)
        How many there were at each time, and the number of the first of them.
    times : array of shape (s,)
        Since the models knew everything, in steps.
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
    def of(cls, reads: Sequence[Read], time: float, step: float) -> _ByTime:
        n = np.array([len(each.rows) for each in reads])
        parts = ("rows", "values", "noise")
        rows, values, noise = (np.concatenate([getattr(r, part) for r in reads]) for part in parts)
        times = np.array([(each.t - time) / step for each in reads])
        return cls(n, np.cumsum(n) - n, times, np.repeat(np.arange(len(n)), n), rows, values, noise)

    def summed(self, each: Array) -> Array:
        """Sums (s, M) over the readings of each time, of numbers (M, N)."""
        return np.asarray(np.add.reduceat(each, self.first, axis=1).T)


class _PriorOf(NamedTuple):
    """What M models say of N readings before anything is observed.

    Attributes
    ----------
    back : array of shape (M, S, N)
        F(h)^T H^T, to the state that is known.
    joint : array of shape (M, N, N)
        Prior covariance of what is read, without noise.
    ahead : array of shape (M, S, N)
        Prior covariance of the state at the end with what is read.
    """

    back: Array
    joint: Array
    ahead: Array

    @classmethod
    def readings(cls, layout: Layout, told: _ByTime) -> _PriorOf:
        H, prior = layout.rows(told.rows), layout.prior
        alike = np.einsum("mii->mi", prior)[:, :, None]
        of_state = alike * H.T if layout.independent else np.matmul(prior, H.T)
        # Many readings are as far apart in time: what fades is computed once for each distance, with
        # those to the time before the first reading.
        times, at = np.append(0.0, told.times), told.step + 1
        fading = layout.fading(np.abs(times[:, None] - times).ravel())
        lag, last = len(times) * at[:, None] + at, len(times) * told.n.size + at
        kept, joint = fading[0], np.zeros((len(prior), len(at), len(at)))
        for i, (start, end) in enumerate(pairwise([*layout.parts, layout.size])):
            if (part := np.ascontiguousarray(H[:, start:end])).any():
                if layout.independent:
                    between = alike[:, start, :, None] * (part @ part.T)
                else:
                    between = np.matmul(part, np.matmul(prior[:, start:end, start:end], part.T))
                if i > 0:  # the constant does not fade
                    between *= kept[:, i].take(lag, axis=1)
                joint += between
        back = layout.moved(H.T[None], layout.over(fading, at), back=True)
        return cls(back, joint, layout.moved(of_state, layout.over(fading, last)))

    def take(self, models: Index) -> _PriorOf:
        """As some of the models say."""
        return _PriorOf(*(each[models] for each in self))


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
    def of(cls, filters: Filters, told: _ByTime, prior: _PriorOf) -> _SeenTogether:
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
        n, blocks = told.n[:, None], np.where(told.step[:, None] == told.step, root, 0.0)
        found = told.summed(whitened**2)
        log_root = told.summed(np.log(np.einsum("mii->mi", root)))
        # An innovation counts by the share of its variance that is not the sensor's noise.
        counted = 1.0 - (noise - own) / (blocks**2).sum(axis=2)
        share = told.summed(np.minimum(np.maximum(counted, 0.0), 1.0)) / n
        scales = [(filters.squares, filters.count)]
        for more, count in zip(share * found, share * n, strict=True):
            scales.append(remembered(scales[-1][0] + more, scales[-1][1] + count))
        squares, counts = np.array(scales).swapaxes(0, 1)
        density = student(n, counts[:-1], squares[:-1], log_root, found)
        errors = np.matmul(blocks, whitened[:, :, None])[:, :, 0]
        # Of two places or more only what they differ by counts.
        common = np.where(n > 1, 1.0 / n, 0.0) * told.summed(errors) ** 2
        said = Said(density, np.maximum(told.summed(errors**2) - common, 0.0))
        return cls(learned, known, inverse, whitened, squares[-1], counts[-1], said)


def _conditioned(filters: Filters, told: _ByTime, prior: _PriorOf, seen: _SeenTogether) -> Filters:
    """Models at the last time, once they know all readings."""
    layout, end = filters.layout, told.times[-1]
    reach = layout.moved(seen.known, end) + prior.ahead
    gain = np.matmul(seen.inverse, reach.transpose(0, 2, 1))
    back = gain.transpose(0, 2, 1)
    mean = layout.moved(filters.mean, end) + np.matmul(back, seen.whitened[:, :, None])[:, :, 0]
    covariance = layout.moved_known(seen.learned, end)
    covariance += layout.prior
    covariance -= np.matmul(back, gain)
    squares, count = seen.squares, seen.counts
    return changed(filters, mean=mean, covariance=covariance, squares=squares, count=count)
