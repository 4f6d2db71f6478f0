"""Define the models of an ensemble and choose those for a domain.

A model is a `ModelSpec`, a value without state that `dynamics` converts to a linear state-space model.
It describes the reward at point x and time t as

    f(x, t) = constant + trend(t) + static(x, t) + drift(x, t) + season(x, t) + nugget(x, t),

in units of a scale that the filter of the model learns. The nugget is independent at each point and
time, and therefore unpredictable. The noise of the sensor is added to it and is not learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from scipy.special import ive

from tvbandits.gp.features import CONFIG as FEATURE_CONFIG
from tvbandits.gp.kernels import matern
from tvbandits.gp.posterior import LARGEST_NETWORK
from tvbandits.validation import Array

# Names of the correlations of `gp.kernels.matern`; under "identity" different points are independent.
Shape = Literal["identity", "matern12", "matern32", "matern52", "rbf"]


@dataclass(frozen=True)
class ModelConfig:
    """Constants of the models, with the reasons for their values.

    Variances are in units of the squared scale, time scales in steps, and length scales in units of the
    largest extent of the points.

    Attributes
    ----------
    largest_network : int
        Domains of at most this many points are treated as networks, in which each place has its own
        mean. Larger ones are treated as grids on which the reward is a smooth function.
    network_lengths : tuple of float
        Length scales of a network's drift, since weather may be local, regional or wide.
    network_times : tuple of float
        Time scales of that drift: about one reading, or a few.
    network_variances : tuple of triples (static, drift, nugget)
        The nugget is a tenth or a fifth of the variance; the rest is static or drift.
    network_trend : pair (variance, time)
        The trend varies about as much as the differences between places, over a few steps.
    static_length : float
        Length scale of the static part in half of the models; in the other half places are independent.
    static_time : float
        Time scale of the static part. With 200, a bandit with one reading per step returned to places
        that had been worse for a year.
    slow_lengths : tuple of float
        Length scales of the drift of the slow models, which are for readings more frequent than changes
        of the weather, such as half-hourly ones.
    slow_parts : tuple of quadruples (time, drift, nugget, smooth)
        The drift of the slow models lasts about ten steps, and most of them have a very small nugget.
    slow_static : float
        Variance of the static part of the slow models: half of the total.
    slow_trend : pair (variance, time)
        The trend of the slow models, which is slower, too.
    function_lengths : tuple of float
        Length scales of a smooth function of one coordinate. In d coordinates they are multiplied by
        sqrt(d), like distances between points. Prior weights are equal: log-normal ones around a length
        scale of 0.1 and 60 steps had a few per cent less regret on most of 14 fields, but missed the
        drifting bump in 10 of 20 runs instead of 6.
    function_drifts : tuple of pairs (time, smooth)
        From a smooth drift over five steps to a rough one over a hundred.
    function_static : tuple of float
        Variances of the static part: as large as the drift, or small.
    function_trend : pair (variance, time)
        The trend is small, since points of a function have less in common than places of a network.
    function_nugget : float
        The nugget is very small, since a function is known up to the noise of its readings.
    nearly_static : tuple (static, drift, time)
        The parts of the models that hardly drift.
    hazards : tuple of float
        Each nearly static model exists with each of these probabilities of a restart per step.
    seasonal_network : pair (length, time)
        The smallest length scale and time scale of the drift of a network's models with a season.
    seasonal_function : pair (static, time)
        Variance of the static part and time scale of the drift of a function's models with a season.
    season_variance : float
        Variance of a season: half of the total, as for the static part.
    season_length : float
        Length scale of the half of a season that differs between places: the middle one of
        `network_lengths`.
    """

    largest_network: int = LARGEST_NETWORK
    network_lengths: tuple[float, ...] = (0.1, 0.3, 1.0)
    network_times: tuple[float, ...] = (1.0, 3.0)
    network_variances: tuple[tuple[float, float, float], ...] = ((0.35, 0.45, 0.2), (0.6, 0.3, 0.1))
    network_trend: tuple[float, float] = (0.7, 3.0)
    static_length: float = 0.1
    static_time: float = 2000.0
    slow_lengths: tuple[float, ...] = (0.3, 1.0)
    slow_parts: tuple[tuple[float, float, float, bool], ...] = (
        (10.0, 0.48, 0.02, False),
        (10.0, 0.3, 0.2, False),
        (8.0, 0.49, 0.01, True),
    )
    slow_static: float = 0.5
    slow_trend: tuple[float, float] = (1.0, 20.0)
    function_lengths: tuple[float, ...] = (0.03, 0.06, 0.12, 0.25)
    function_drifts: tuple[tuple[float, bool], ...] = (
        (5.0, True),
        (20.0, True),
        (20.0, False),
        (100.0, False),
    )
    function_static: tuple[float, ...] = (0.5, 0.05)
    function_trend: tuple[float, float] = (0.1, 10.0)
    function_nugget: float = 1e-4
    nearly_static: tuple[float, float, float] = (0.95, 0.05, 20.0)
    hazards: tuple[float, ...] = (0.0, 0.01)
    seasonal_network: tuple[float, float] = (0.3, 3.0)
    seasonal_function: tuple[float, float] = (0.5, 20.0)
    season_variance: float = 0.5
    season_length: float = 0.3


CONFIG = ModelConfig()


@dataclass(frozen=True)
class SpatialSpec:
    """A correlation over points.

    Attributes
    ----------
    shape : Shape
    length : float
        Length scale in units of the largest extent of the points; ignored for "identity".
    """

    shape: Shape
    length: float = 1.0

    def correlation(self, distance: Array, extent: float) -> Array:
        """Return the correlations (n, m) at distances (n, m), for points with this largest extent."""
        profile: Callable[[Array], Array] = getattr(matern, self.shape)
        return profile(distance / (self.length * extent))

    def feature_covariance(self, distance: Array, extent: float) -> Array:
        """Return the prior covariance (A, A) of the weights of `place_features`."""
        return self.correlation(distance, extent)

    def place_features(self, count: int) -> Array:
        """Return the features (A, A) of `count` places in a rough model."""
        return np.eye(count)

    @property
    def features_key(self) -> object:
        """Return a value that correlations with the same `place_features` have in common."""
        return None


@dataclass(frozen=True)
class Season:
    """A quasi-periodic part of the reward, such as a daily course, which differs between places.

    Half of its variance is common to all places. In time it consists of the first harmonics of the
    kernel exp(-2 sin^2(pi lag / period) / l^2), whose weights are I_j(1 / l^2) (Solin & Sarkka 2014),
    times exp(-lag / (decay_periods * period)). The mean over a period belongs to the static part.

    Attributes
    ----------
    period : float
        The period in the unit of time of a `FilterEnsemble`; in steps once the duration of a step is
        known.
    variance : float
        Variance in units of the squared scale.
    space : SpatialSpec
        Correlation of the half that differs between places.
    harmonics : int
        Number of harmonics.
    length : float
        The length scale l of the kernel; smaller values allow sharper peaks.
    decay_periods : float
        Time scale of changes of the periodic course, in periods.
    """

    period: float
    variance: float
    space: SpatialSpec
    harmonics: int = 3
    length: float = 0.7
    decay_periods: float = 100.0

    @property
    def variances(self) -> Array:
        """Return the variances (harmonics,) of the harmonics, with the sum `variance`."""
        weights = ive(np.arange(1, self.harmonics + 1), self.length**-2)
        return np.asarray(self.variance * weights / weights.sum())


@dataclass(frozen=True)
class ModelSpec:
    """A model of an ensemble; its time scales are in steps.

    Attributes
    ----------
    static_space, drift_space : SpatialSpec
        Correlations of static part and drift over points.
    static, drift, trend, nugget : float
        Prior variances of the parts, in units of the squared scale.
    static_time, drift_time, trend_time : float
        Time scales of the parts; infinite for a part that never changes.
    smooth : bool
        Whether the drift is Matern-3/2 in time instead of Matern-1/2.
    hazard : float
        Probability per step that all parts but the constant restart from the prior.
    season : Season, optional
    component_times : tuple of k float
        Time scales of the first features of a rough drift; the other features have `drift_time`.
    """

    static_space: SpatialSpec
    drift_space: SpatialSpec
    static: float
    drift: float
    trend: float
    nugget: float
    static_time: float
    drift_time: float
    trend_time: float
    smooth: bool = False
    hazard: float = 0.0
    season: Season | None = None
    component_times: tuple[float, ...] = ()

    def covariance(self, distance: Array, steps: Array, extent: float) -> Array:
        """Return the covariance of static part and drift at distances (n, m) and lags (n, m)."""
        over_time = matern.matern32 if self.smooth else matern.matern12
        static = self.static_space.correlation(distance, extent) * np.exp(-steps / self.static_time)
        drift = self.drift_space.correlation(distance, extent)
        return np.asarray(
            self.static * static + self.drift * drift * over_time(steps / self.drift_time)
        )


def network_models() -> tuple[ModelSpec, ...]:
    """Return the models for the places of a network: 24 rough and 6 slow ones.

    Twice the length scales with three times the variance of the trend had a few per cent less regret on
    four networks, within noise, and intervals that were too wide if all places are read (coverage up to
    0.995). A covariance over places that was learned from the few readings of a bandit, by expectation
    maximization, had 0.92 times the regret on the 14 networks on which it was developed, and 1.00 times
    on 13 others (standard error 0.012). Therefore a covariance is estimated only if most places were
    read at most times (`empirical`).
    """
    independent, config = SpatialSpec("identity"), CONFIG
    trend, trend_time = config.network_trend
    rough = tuple(
        ModelSpec(
            static_space,
            SpatialSpec("matern12", length),
            static,
            drift,
            trend,
            nugget,
            config.static_time,
            drift_time,
            trend_time,
        )
        for static_space, length, drift_time, (static, drift, nugget) in product(
            (independent, SpatialSpec("matern12", config.static_length)),
            config.network_lengths,
            config.network_times,
            config.network_variances,
        )
    )
    trend, trend_time = config.slow_trend
    slow = tuple(
        ModelSpec(
            independent,
            SpatialSpec("matern12", length),
            config.slow_static,
            drift,
            trend,
            nugget,
            config.static_time,
            drift_time,
            trend_time,
            smooth,
        )
        for length, (drift_time, drift, nugget, smooth) in product(
            config.slow_lengths, config.slow_parts
        )
    )
    return rough + slow


def function_models(dimension: int = 1) -> tuple[ModelSpec, ...]:
    """Return the models for a smooth function of d coordinates: 32 drifting and 8 nearly static ones."""
    config = CONFIG
    trend, trend_time = config.function_trend
    spaces = [
        SpatialSpec("rbf", math.sqrt(dimension) * length) for length in config.function_lengths
    ]

    def model(
        space: SpatialSpec, static: float, drift: float, time: float, **options: float
    ) -> ModelSpec:
        parts = static, drift, trend, config.function_nugget, math.inf, time, trend_time
        return ModelSpec(space, space, *parts, **options)  # type: ignore[arg-type]

    drifting = tuple(
        model(space, static, 1.0 - static, time, smooth=smooth)
        for space, (time, smooth), static in product(
            spaces, config.function_drifts, config.function_static
        )
    )
    nearly_static = tuple(
        model(space, *config.nearly_static, hazard=hazard)
        for space, hazard in product(spaces, config.hazards)
    )
    return drifting + nearly_static


def allows_both_kinds(points: Array, season: float | None) -> bool:
    """Return whether models of a network and of a function may compete on points (A, d).

    There may be at most as many points as a model has features, and no season, with which points are
    treated as a network.
    """
    return season is None and len(points) <= FEATURE_CONFIG.largest_rank


def models_for(
    points: Array, season: float | None = None, both: bool = False
) -> tuple[ModelSpec, ...]:
    """Return the models for points (A, d): those of a network, of a function, or `both`.

    With a season, whose period is in the unit of time, all of the eight models have it. Models without
    it would often predict the next step equally well, but give flat forecasts of later hours.
    """
    if both and allows_both_kinds(points, season):
        return network_models() + function_models(points.shape[1])
    network = len(points) <= CONFIG.largest_network
    models = network_models() if network else function_models(points.shape[1])
    if season is None:
        return models
    plain = tuple(filter(_suits_seasonal_network if network else _suits_seasonal_function, models))
    space = SpatialSpec("matern32", CONFIG.season_length)
    part = Season(season, CONFIG.season_variance, space)
    return tuple(replace(model, season=part) for model in plain)


def _suits_seasonal_network(model: ModelSpec) -> bool:
    """Return whether static places are independent and the drift is neither local, short nor smooth."""
    length, time = CONFIG.seasonal_network
    return (
        model.drift_space.length >= length
        and model.static_space.shape == "identity"
        and model.drift_time >= time
        and not model.smooth
    )


def _suits_seasonal_function(model: ModelSpec) -> bool:
    """Return whether the function is half static, and its drift has the time scale for a season."""
    return (model.static, model.drift_time) == CONFIG.seasonal_function
