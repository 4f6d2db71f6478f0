"""Models whose covariance over places is estimated from readings: what a past of a network tells.

It is for networks whose places were read together often, as in a table of earlier readings. Such a table
goes in; out come a few `ModelSpec`, which stand beside the models of distance in an ensemble, so that
evidence decides between the two.

A model of distance cannot know that two far places share a wind, or that one place swings more than
its neighbour. The empirical covariance knows both. It is taken from pairs of places, so that gaps do no
harm, and shrunk towards its diagonal, since there are often as many places as times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from tvbandits.data import replace_fields
from tvbandits.gp.ensemble.filters import (
    Filters,
    StepReadings,
    batched_update,
    filters_at_prior,
    step_batches,
)
from tvbandits.gp.ensemble.mixture import CONFIG as MIXTURE_CONFIG, FilterEnsemble
from tvbandits.gp.ensemble.models import CONFIG as MODEL_CONFIG, ModelSpec, Season, SpatialSpec
from tvbandits.gp.ensemble.seasons import steps_in_octaves
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class EmpiricalConfig:
    """The constants of the empirical models.

    Attributes
    ----------
    first_octave, last_step, looks_per_octave : int
        The covariance is estimated after 16 times with readings, and then four times until their number
        has doubled; no more after the last step.
    fewest_pairs : int
        Every two places must have been read together so often.
    most_times : int
        The covariance follows from so many of the latest times.
    time_factors : tuple of float
        The models forget the drift in these multiples of the time that the autocorrelation suggests.
    static_shares : tuple of float
        Variance of lasting changes of a place since the past, as a share of that of the drift.
    components : int
        Principal components with a time of their own; the others share one.
    nugget : float
        Share of the variance of the drift that is new at every reading.
    smallest_correlation, largest_correlation : float
        Limits of the autocorrelation at one step.
    length : float
        Correlation length for points that are no place, as a share of the largest extent.
    filter_steps : int
        The models read so many of the latest times; what is older is in the covariance.
    """

    first_octave: int = 16
    last_step: int = 4096
    looks_per_octave: int = 4
    fewest_pairs: int = 16
    most_times: int = 1024
    time_factors: tuple[float, ...] = (1 / 9, 1 / 3, 1.0, 3.0)
    static_shares: tuple[float, ...] = (0.3, 1.0)
    components: int = 3
    nugget: float = 1e-4
    smallest_correlation: float = 0.05
    largest_correlation: float = 0.998
    length: float = 0.3
    filter_steps: int = 100

    @property
    def look_steps(self) -> tuple[int, ...]:
        """Return the numbers of times after which the covariance is estimated."""
        return steps_in_octaves(self.first_octave, self.last_step, self.looks_per_octave)


CONFIG = EmpiricalConfig()


@dataclass(frozen=True)
class EmpiricalSpace(SpatialSpec):
    """A covariance over places that was estimated; over other points it is the correlation of `shape`.

    It is V diag(variances) V^T + diag(place_variances), in units of the mean variance of the places. The
    features of a model with it are the principal components V, as each may change at its own rate.

    Attributes
    ----------
    components : tuple of A tuples of A float
        The orthogonal matrix V, one column for each component.
    variances, place_variances : tuple of A float
        Of the components, and of a part that is independent at every place.
    """

    components: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    variances: tuple[float, ...] = field(default=(), repr=False)
    place_variances: tuple[float, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, components: Array, variances: Array, place_variances: Array) -> EmpiricalSpace:
        """Return the covariance with components (A, A) and variances (A,)."""
        columns = tuple(map(tuple, components.tolist()))
        parts = tuple(variances.tolist()), tuple(place_variances.tolist())
        return cls("matern12", CONFIG.length, columns, *parts)

    def feature_covariance(self, distance: Array, extent: float) -> Array:  # noqa: ARG002 - needs none
        """Return the covariance (A, A) of the components."""
        V = np.array(self.components)
        return np.asarray(np.diag(self.variances) + (V.T * self.place_variances) @ V)

    def place_features(self, count: int) -> Array:  # noqa: ARG002 - the components know their number
        """Return the components (A, A), which are the features of the places."""
        return np.array(self.components)

    @property
    def features_key(self) -> object:
        """Return a value that is equal for covariances with the same components."""
        return hash(self.components)


# The number of the group of the empirical models, the last that has a turn: others have smaller ones.
GROUP = MIXTURE_CONFIG.turn_period - 1


class TimedReadings(NamedTuple):
    """Readings of a network, in order of time.

    Attributes
    ----------
    times : array of shape (N,)
    places : integer array of shape (N,)
    values, noise : arrays of shape (N,)
        Rewards, and variances of the sensor.
    """

    times: Array
    places: Index
    values: Array
    noise: Array

    def models(
        self, count: int, step_length: float, season: Season | None = None
    ) -> tuple[ModelSpec, ...]:
        """Return the models that the latest times suggest for so many places.

        Parameters
        ----------
        count : int
        step_length : float
            Duration of a step of the ensemble.
        season : Season, optional
            Of the ensemble, its period in steps: the covariance is that of the rest, then.
        """
        times, numbers = np.unique(self.times, return_inverse=True)
        first = max(len(times) - CONFIG.most_times, 0)
        part = numbers >= first
        table = reading_table(numbers[part] - first, self.places[part], self.values[part], count)
        step = float(np.median(np.diff(times))) / step_length
        if season is None:
            return empirical_models(table, step)
        phases = (times[first:] - times[first]) / (season.period * step_length)
        models = empirical_models(without_season(table, phases, season.harmonics), step)
        return tuple(replace(each, season=season) for each in models)

    def filters(
        self, models: Sequence[ModelSpec], ensemble: FilterEnsemble, until: float
    ) -> Filters:
        """Return the filters of models at a time, updated with the readings shortly before it.

        Parameters
        ----------
        models : sequence of ModelSpec
        ensemble : FilterEnsemble
            The points, the origin and the step are its own.
        until : float
        """
        values = self.values - ensemble.origin
        (filters,) = filters_at_prior(models, ensemble.points, float(values.var()))
        times = np.unique(self.times)
        times = times[times < until][-CONFIG.filter_steps :]
        ends = np.searchsorted(self.times, np.append(times, until))
        parts = [slice(*pair) for pair in pairwise(ends.tolist())]
        steps = [
            StepReadings(float(t), self.places[part], values[part], self.noise[part])
            for t, part in zip(times, parts, strict=True)
        ]
        time = steps[0].t
        for batch in step_batches(steps):
            filters, _ = batched_update(filters, time, batch, ensemble.step_length)
            time = batch[-1].t
        filters = filters.predict((until - time) / ensemble.step_length)
        return replace_fields(filters, group=GROUP)


def reading_table(numbers: Index, places: Index, values: Array, count: int) -> Array:
    """Return readings (N,) as a table (T, count) of means, NaN where nothing was read.

    Parameters
    ----------
    numbers : integer array of shape (N,)
        The number of the time of each reading, from 0 on.
    places : integer array of shape (N,)
    values : array of shape (N,)
    count : int
        Number of places.
    """
    cells = numbers * count + places
    size = (int(numbers.max()) + 1) * count
    sums, reads = np.bincount(cells, values, size), np.bincount(cells, minlength=size)
    table = np.full(size, np.nan)
    table[reads > 0] = sums[reads > 0] / reads[reads > 0]
    return table.reshape(-1, count)


def without_season(table: Array, phases: Array, harmonics: int) -> Array:
    """Return a table (T, A) less the harmonics of each place, by least squares.

    Parameters
    ----------
    table : array of shape (T, A)
        NaN where nothing was read.
    phases : array of shape (T,)
        The times, in periods.
    harmonics : int
    """
    angles = 2.0 * math.pi * phases[:, None] * np.arange(1, harmonics + 1)
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    basis = np.column_stack([np.ones(len(phases)), waves])
    rest = table.copy()
    for column in rest.T:
        rows = np.isfinite(column)
        column[rows] -= waves[rows] @ np.linalg.lstsq(basis[rows], column[rows], rcond=None)[0][1:]
    return rest


def empirical_models(table: Array, step: float) -> tuple[ModelSpec, ...]:
    """Return the models that a table of readings suggests; none where places were rarely read together.

    The drift is in principal components, each an autoregression: the level that all places share may
    last for days where that of one place lasts for hours.

    Parameters
    ----------
    table : array of shape (T, A)
        Readings of A places at T times, in order of time; NaN where nothing was read.
    step : float
        Time between two rows, in steps of the ensemble.
    """
    is_reading = np.isfinite(table).astype(np.float64)
    pairs = is_reading.T @ is_reading
    if len(table) == 0 or pairs.min() < CONFIG.fewest_pairs:
        return ()
    mean = np.nansum(table, axis=0) / is_reading.sum(axis=0)
    above = np.where(is_reading > 0, table - mean, 0.0)
    covariance = above.T @ above / pairs
    own = np.diagonal(covariance)
    drift, between = float(own.mean()), float(mean.var())
    total = drift + between
    if not drift > 0:
        return ()
    later_pairs = np.maximum(is_reading[1:].T @ is_reading[:-1], 1.0)
    later_covariance = above[1:].T @ above[:-1] / later_pairs
    shrinkage = estimated_shrinkage(covariance, pairs)
    components, variances = principal_components(covariance, shrinkage)
    correlations = component_correlations(components, covariance, later_covariance, len(table))
    times = -step / np.log(correlations)
    drift_space = EmpiricalSpace.of(components, variances / drift, np.zeros_like(own))
    # A place that varies much may also change for long by much.
    variances_of_static = [between + share * own for share in CONFIG.static_shares]
    statics = [
        (float(each.mean()), EmpiricalSpace.of(components, np.zeros_like(own), each / each.mean()))
        for each in variances_of_static
    ]
    return tuple(
        ModelSpec(
            static_space,
            drift_space,
            static=static / total,
            drift=drift / total,
            trend=0.0,
            nugget=CONFIG.nugget * drift / total,
            static_time=MODEL_CONFIG.static_time,
            drift_time=factor * float(times[-1]),
            trend_time=1.0,
            component_times=tuple((factor * times[:-1]).tolist()),
        )
        for factor, (static, static_space) in product(CONFIG.time_factors, statics)
    )


def estimated_shrinkage(covariance: Array, pairs: Array) -> float:
    """Return the share of the diagonal in a covariance, as far as its correlations are uncertain.

    That of the smallest expected squared error is the sum of the variances of the correlations r over
    the sum of their squares [SS5]; the variance of r from n times is (1 - r^2)^2 / n.

    Parameters
    ----------
    covariance : array of shape (A, A)
        Of the places at one time.
    pairs : array of shape (A, A)
        How often every two places were read together.

    References
    ----------
    [SS5] J. Schaefer and K. Strimmer. A shrinkage approach to large-scale covariance matrix estimation.
        2005.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    r = np.clip(covariance / np.outer(deviations, deviations), -1.0, 1.0)
    np.fill_diagonal(r, 0.0)
    variance = (1.0 - r**2) ** 2 / pairs
    np.fill_diagonal(variance, 0.0)
    return min(float(variance.sum() / max((r**2).sum(), np.finfo(float).tiny)), 1.0)


def component_correlations(
    components: Array, covariance: Array, later_covariance: Array, times: int
) -> Array:
    """Return the autocorrelations (k + 1,) at one step of the first k components, and of all others.

    An autocorrelation rho that is estimated from T times is too small by (1 + 3 rho) / T on average
    (Kendall 1954), which is added.

    Parameters
    ----------
    components : array of shape (A, A)
    covariance, later_covariance : arrays of shape (A, A)
        Of the places at one time, and of the places a step later (rows) with those before.
    times : int
        Number T of times.
    """
    variances, later = (
        np.einsum("ai,ab,bi->i", components, each, components)
        for each in (covariance, later_covariance)
    )
    starts = np.arange(min(CONFIG.components, len(components) - 1) + 1)
    squares = np.add.reduceat(variances, starts)
    rho = np.add.reduceat(later, starts) / np.where(squares > 0, squares, np.inf)
    rho = rho + (1.0 + 3.0 * rho) / times
    return np.clip(rho, CONFIG.smallest_correlation, CONFIG.largest_correlation)


def principal_components(covariance: Array, shrinkage: float) -> tuple[Array, Array]:
    """Return the components (A, A) and variances (A,), largest first, of a covariance of pairs.

    The covariance (A, A) is shrunk towards its diagonal. Correlations of pairs that were read at
    different times need not fit together: variances below zero become zero.
    """
    shrunk = (1.0 - shrinkage) * covariance
    shrunk[np.diag_indices_from(shrunk)] = np.diagonal(covariance)
    variances, components = np.linalg.eigh(shrunk)
    return components[:, ::-1], np.maximum(variances[::-1], 0.0)
