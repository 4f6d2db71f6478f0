"""Build models whose covariance over places is estimated from the readings of a network.

It is for networks whose places were often read together, as in a table of earlier readings. The models
compete in an ensemble with those in which the covariance is a function of distance.

A function of distance cannot represent that two distant places have the same wind, or that one place
varies more than its neighbour; an empirical covariance can. It is estimated for each pair of places from
their common times, so that gaps do no harm, and shrunk towards its diagonal, since there are often as
many places as times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from tvbandits.data import replace_fields
from tvbandits.gp.ensemble.filters import Filters, batch_slices, initial_filters
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import CONFIG as MODEL_CONFIG, ModelSpec, Season, SpatialSpec
from tvbandits.gp.ensemble.seasons import steps_in_octaves
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class EmpiricalConfig:
    """Constants of the empirical models.

    Attributes
    ----------
    first_octave, last_step, estimates_per_octave : int
        The covariance is first estimated after `first_octave` times with readings, then this many times
        in each doubling of the number of times, up to the last step.
    fewest_pairs : int
        The smallest number of common times of every two places.
    most_times : int
        The largest number of latest times from which the covariance is estimated.
    time_factors : tuple of float
        The time scales of the models' drift in units of that from the autocorrelation.
    static_shares : tuple of float
        Variances of permanent changes of a place since the table, in units of the drift variance.
    components : int
        The number of principal components with a time scale of their own; the others have a common one.
    nugget : float
        The variance of the nugget in units of the drift variance.
    smallest_correlation, largest_correlation : float
        Limits of the autocorrelation at one step.
    length : float
        Length scale over points outside of the network, as a fraction of the largest extent.
    filter_steps : int
        The number of latest times with which a new model is updated; older ones are in the covariance.
    """

    first_octave: int = 16
    last_step: int = 4096
    estimates_per_octave: int = 4
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
    def estimation_steps(self) -> tuple[int, ...]:
        """Return the numbers of times after which the covariance is estimated."""
        return steps_in_octaves(self.first_octave, self.last_step, self.estimates_per_octave)


CONFIG = EmpiricalConfig()


@dataclass(frozen=True)
class EmpiricalSpace(SpatialSpec):
    """An estimated covariance over places; over other points it is the correlation of `shape`.

    It is V diag(variances) V^T + diag(place_variances), in units of the mean variance of the places. The
    features are the principal components V, because each may change at its own rate.

    Attributes
    ----------
    components : tuple of A tuples of A float
        The orthogonal matrix V, whose columns are the components.
    variances, place_variances : tuple of A float
        Variances of the components, and of a part that is independent at each place.
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

    def feature_covariance(self, distance: Array, extent: float) -> Array:  # noqa: ARG002 - inherited
        """Return the covariance (A, A) of the components."""
        V = np.array(self.components)
        return np.asarray(np.diag(self.variances) + (V.T * self.place_variances) @ V)

    def place_features(self, count: int) -> Array:  # noqa: ARG002 - inherited
        """Return the components (A, A), which are the features of the places."""
        return np.array(self.components)

    @property
    def features_key(self) -> object:
        """Return a value that covariances with the same components have in common."""
        return hash(self.components)


# The group of the empirical models; other groups have numbers from 0 on.
GROUP = -1


class TimedReadings(NamedTuple):
    """Readings of a network, sorted by time.

    Attributes
    ----------
    times : array of shape (N,)
    places : integer array of shape (N,)
    values, noise : arrays of shape (N,)
        Rewards and noise variances of the sensor.
    """

    times: Array
    places: Index
    values: Array
    noise: Array

    def models(
        self, count: int, step_length: float, season: Season | None = None
    ) -> tuple[ModelSpec, ...]:
        """Return the empirical models from the latest times.

        Parameters
        ----------
        count : int
            Number of places.
        step_length : float
            Duration of a step of the ensemble.
        season : Season, optional
            The season of the ensemble, with its period in steps. It is removed from the readings before
            the covariance is estimated.
        """
        times, numbers = np.unique(self.times, return_inverse=True)
        first = max(len(times) - CONFIG.most_times, 0)
        part = numbers >= first
        table = tabulate_readings(
            numbers[part] - first, self.places[part], self.values[part], count
        )
        step = float(np.median(np.diff(times))) / step_length
        if season is None:
            return empirical_models(table, step)
        phases = (times[first:] - times[first]) / (season.period * step_length)
        models = empirical_models(remove_season(table, phases, season.harmonics), step)
        return tuple(replace(model, season=season) for model in models)

    def filters(
        self, models: Sequence[ModelSpec], ensemble: FilterEnsemble, until: float
    ) -> Filters:
        """Return the filters of models at a time, updated with the readings shortly before it.

        Parameters
        ----------
        models : sequence of ModelSpec
        ensemble : FilterEnsemble
            The ensemble, for its points, origin and step.
        until : float
            The time of the filters, before which the readings are used.
        """
        values = self.values - ensemble.origin
        (filters,) = initial_filters(models, ensemble.points, float(values.var()))
        times = np.unique(self.times)
        times = times[times < until][-CONFIG.filter_steps :]
        ends = np.searchsorted(self.times, np.append(times, until))
        steps = np.diff(times, append=until) / ensemble.step_length
        for (start, end), step in zip(pairwise(ends.tolist()), steps.tolist(), strict=True):
            for part in batch_slices(end - start):
                rows = slice(start + part.start, min(start + part.stop, end))
                filters, _ = filters.update(self.places[rows], values[rows], self.noise[rows])
            filters = filters.predict(step)
        return replace_fields(filters, group=GROUP)


def tabulate_readings(numbers: Index, places: Index, values: Array, count: int) -> Array:
    """Return readings (N,) as a table (T, count) of means, with NaN for missing readings.

    Parameters
    ----------
    numbers : integer array of shape (N,)
        The number of each reading's time, from 0 on.
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


def remove_season(table: Array, phases: Array, harmonics: int) -> Array:
    """Return a table (T, A) minus the season of each place, which is fitted by least squares.

    Parameters
    ----------
    table : array of shape (T, A)
        Readings, NaN if missing.
    phases : array of shape (T,)
        The times in periods.
    harmonics : int
        Number of harmonics of the season.
    """
    angles = 2.0 * math.pi * phases[:, None] * np.arange(1, harmonics + 1)
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    basis = np.column_stack([np.ones(len(phases)), waves])
    residual = table.copy()
    for column in residual.T:
        rows = np.isfinite(column)
        column[rows] -= waves[rows] @ np.linalg.lstsq(basis[rows], column[rows], rcond=None)[0][1:]
    return residual


def empirical_models(table: Array, step: float) -> tuple[ModelSpec, ...]:
    """Return the empirical models from a table; none if some places were rarely read together.

    The drift is a sum of principal components with a time scale each, because a component that all
    places have in common may last for days when that of a single place lasts for hours.

    Parameters
    ----------
    table : array of shape (T, A)
        Readings of A places at T times, sorted by time; NaN if missing.
    step : float
        Time between two rows, in steps of the ensemble.
    """
    is_reading = np.isfinite(table).astype(np.float64)
    pairs = is_reading.T @ is_reading
    if len(table) == 0 or pairs.min() < CONFIG.fewest_pairs:
        return ()
    mean = np.nansum(table, axis=0) / is_reading.sum(axis=0)
    deviations = np.where(is_reading > 0, table - mean, 0.0)
    covariance = deviations.T @ deviations / pairs
    variance = np.diagonal(covariance)
    drift, between = float(variance.mean()), float(mean.var())
    total = drift + between
    if not drift > 0:
        return ()
    later_pairs = np.maximum(is_reading[1:].T @ is_reading[:-1], 1.0)
    later_covariance = deviations[1:].T @ deviations[:-1] / later_pairs
    shrinkage = estimate_shrinkage(covariance, pairs)
    components, variances = principal_components(covariance, shrinkage)
    correlations = component_correlations(components, covariance, later_covariance, len(table))
    times = -step / np.log(correlations)
    zeros = np.zeros_like(variance)
    drift_space = EmpiricalSpace.of(components, variances / drift, zeros)
    # Permanent changes of a place are assumed to be proportional to its variation.
    static_variances = [between + share * variance for share in CONFIG.static_shares]
    statics = [
        (float(static.mean()), EmpiricalSpace.of(components, zeros, static / static.mean()))
        for static in static_variances
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


def estimate_shrinkage(covariance: Array, pairs: Array) -> float:
    """Return the shrinkage of a covariance towards its diagonal with the smallest expected error.

    It is the sum of the variances of the correlations r over the sum of their squares [SS5]. The
    variance of r from n times is (1 - r^2)^2 / n.

    Parameters
    ----------
    covariance : array of shape (A, A)
        Covariance of the places at one time.
    pairs : array of shape (A, A)
        The number of common times of every two places.

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
    """Return the autocorrelations (k + 1,) at one step of the first k components and of all others.

    An autocorrelation rho that is estimated from T times is too small by (1 + 3 rho) / T on average
    (Kendall 1954), for which it is corrected.

    Parameters
    ----------
    components : array of shape (A, A)
    covariance, later_covariance : arrays of shape (A, A)
        Covariance of the places at one time, and of the places one step later (rows) with the earlier.
    times : int
        Number T of times.
    """
    variances, later = (
        np.einsum("ai,ab,bi->i", components, matrix, components)
        for matrix in (covariance, later_covariance)
    )
    starts = np.arange(min(CONFIG.components, len(components) - 1) + 1)
    squares = np.add.reduceat(variances, starts)
    rho = np.add.reduceat(later, starts) / np.where(squares > 0, squares, np.inf)
    rho = rho + (1.0 + 3.0 * rho) / times
    return np.clip(rho, CONFIG.smallest_correlation, CONFIG.largest_correlation)


def principal_components(covariance: Array, shrinkage: float) -> tuple[Array, Array]:
    """Return the components (A, A) and variances (A,), largest first, of a covariance (A, A).

    The covariance is shrunk towards its diagonal. Negative variances, which occur because pairs were
    read at different times, are set to zero.
    """
    matrix = (1.0 - shrinkage) * covariance
    matrix[np.diag_indices_from(matrix)] = np.diagonal(covariance)
    variances, components = np.linalg.eigh(matrix)
    return components[:, ::-1], np.maximum(variances[::-1], 0.0)
