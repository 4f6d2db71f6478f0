"""The models of an ensemble: which there are, and the prior covariance of each.

It is for choosing a set of models for a domain. Points go in; out comes a tuple of `ModelSpec`, plain
values without any state, which `dynamics` turns into linear state-space models.

Each model writes the reward at point x and time t as

    f(x, t) = constant + trend(t) + static(x, t) + drift(x, t) + season(x, t) + nugget(x, t),

in units of a scale that the filter of the model learns. The nugget is independent at every point and
time, so that no forecast can know it; the noise of the sensor comes on top of it and is not learned.
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

# The correlations of `gp.kernels.matern`; under "identity" different points are independent.
Shape = Literal["identity", "matern12", "matern32", "matern52", "rbf"]


@dataclass(frozen=True)
class ModelConfig:
    """The constants of the models, each with the reason for its value.

    Variances are in units of the squared scale, times in steps, lengths in shares of the largest extent
    of the points.

    Attributes
    ----------
    largest_network : int
        Up to so many points are taken for the places of a network, each with a mean of its own; more
        points are taken for a grid on a smooth function.
    network_lengths : tuple of float
        Correlation lengths of a network's drift: weather may be local, regional or wide.
    network_times : tuple of float
        Times after which that drift has decayed to 1/e: about one reading, or a few.
    network_variances : tuple of triples (static, drift, nugget)
        A tenth or a fifth of the variance is new at every reading; the rest is split between lasting
        differences and drift.
    network_trend : pair (variance, time)
        The trend varies about as much as the differences between places, over a few steps.
    static_length : float
        Correlation length of static differences in the models where neighbours resemble each other;
        in the other half of the models places are independent.
    static_time : float
        Time after which static differences between places have decayed to 1/e. With 200 a bandit with
        one reading a step returned to places that had been worse for a year.
    slow_lengths : tuple of float
        Correlation lengths of the drift of the slow models, which are for readings more often than the
        weather changes, as by the half-hour.
    slow_parts : tuple of quadruples (time, drift, nugget, smooth)
        Their drift lasts about ten steps, and in most of them next to nothing is new at every reading.
    slow_static : float
        Variance of their static part: half of the total.
    slow_trend : pair (variance, time)
        Their trend is slower, too.
    function_lengths : tuple of float
        Length scales of a smooth function of one coordinate; times sqrt(d) in d coordinates, as
        distances between points grow like that. They begin with equal weights: log-normal ones around a
        length of 0.1 and 60 steps had a few per cent less regret on most of 14 fields, and missed the
        drifting bump in 10 of 20 runs instead of 6.
    function_drifts : tuple of pairs (time, smooth)
        From a drift over five steps, which is smooth, to one over a hundred, which is rough.
    function_static : tuple of float
        Variance of the static part: as large as the drift, or small.
    function_trend : pair (variance, time)
        Small, as points of a function share less than places of a network do.
    function_nugget : float
        Next to nothing, as a function is known up to the noise of its readings.
    nearly_static : tuple (static, drift, time)
        Of the models that hardly drift.
    hazards : tuple of float
        Each of these comes as twins, one of which may restart, on average once in a hundred steps.
    seasonal_network : pair (length, time)
        A network's models with a season have at least this correlation length and time of their drift.
    seasonal_function : pair (static, time)
        A function's models with a season have this variance of the static part and time of the drift.
    season_variance : float
        Half of the total, as for the static part.
    season_length : float
        Correlation length of the half of a season that places do not share: the middle one of those of
        a network.
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
        Length scale, as a share of the largest extent of the points; without meaning for "identity".
    """

    shape: Shape
    length: float = 1.0

    def correlation(self, distance: Array, extent: float) -> Array:
        """Return the correlations (n, m) at distances (n, m) between points of this largest extent."""
        of_distance: Callable[[Array], Array] = getattr(matern, self.shape)
        return of_distance(distance / (self.length * extent))

    def feature_covariance(self, distance: Array, extent: float) -> Array:
        """Return the covariance (A, A) of `place_features`, given the distances between all places."""
        return self.correlation(distance, extent)

    def place_features(self, count: int) -> Array:
        """Return the features (A, A) of so many places, where a rough model has one for each."""
        return np.eye(count)

    @property
    def features_key(self) -> object:
        """Return a value that is equal for correlations with the same `place_features`."""
        return None


@dataclass(frozen=True)
class Season:
    """A part of the reward that returns after a period, such as a day, at each place in its own way.

    Half of its variance is shared by all places. In time it is quasi-periodic: the first harmonics of
    the kernel exp(-2 sin^2(pi lag / period) / l^2), whose weights are I_j(1 / l^2) (Solin & Sarkka
    2014), times exp(-lag / (decay_periods * period)). The mean over a period belongs to the static part.

    Attributes
    ----------
    period : float
        In the unit of time of a `FilterEnsemble`; in steps as soon as that knows the length of a step.
    variance : float
        In units of the squared scale.
    space : SpatialSpec
        Correlation of the half that is not shared.
    harmonics : int
        Number of harmonics.
    length : float
        The kernel's l: smaller values allow sharper peaks.
    decay_periods : float
        Periods after which the course of a period has changed, up to a correlation of 1/e.
    """

    period: float
    variance: float
    space: SpatialSpec
    harmonics: int = 3
    length: float = 0.7
    decay_periods: float = 100.0

    @property
    def variances(self) -> Array:
        """Return the variances (harmonics,) of the harmonics, whose sum is `variance`."""
        weights = ive(np.arange(1, self.harmonics + 1), self.length**-2)
        return np.asarray(self.variance * weights / weights.sum())


@dataclass(frozen=True)
class ModelSpec:
    """One model of an ensemble; its times count in steps.

    Attributes
    ----------
    static_space, drift_space : SpatialSpec
    static, drift, trend, nugget : float
        Prior variances of the parts, in units of the squared scale.
    static_time, drift_time, trend_time : float
        Times after which a correlation has decayed to 1/e (Matern-1/2), or the length scale of a
        Matern-3/2; infinite for a part that never changes.
    smooth : bool
        Whether the drift is Matern-3/2 in time rather than Matern-1/2.
    hazard : float
        Probability that all but the constant restarts from the prior in a step.
    season : Season, optional
    component_times : tuple of k float
        Times of the first features of a rough drift; the other features have `drift_time`.
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
    """Return the models for places of a network: 24 rough ones, and 6 slow ones.

    Twice the length scales with thrice the variance of the trend had a few per cent less regret on four
    networks, within noise, and intervals that were too wide where all places are read (coverage up to
    0.995). A covariance over places that models learn from the few readings of a bandit, by expectation
    maximization, had 0.92 times the regret on the 14 networks that it was made on, and 1.00 times on 13
    others (standard error 0.012); so a covariance is estimated only where most places were read at most
    times (`empirical`).
    """
    alone, config = SpatialSpec("identity"), CONFIG
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
            (alone, SpatialSpec("matern12", config.static_length)),
            config.network_lengths,
            config.network_times,
            config.network_variances,
        )
    )
    trend, trend_time = config.slow_trend
    slow = tuple(
        ModelSpec(
            alone,
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
    """Return the models for a smooth function of d coordinates: 32 that drift, and 8 that hardly do."""
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
    """Return whether points (A, d) may belong to a network as well as to a smooth function.

    There may be at most as many as a model has features, and no season: points with a season are taken
    for a network.
    """
    return season is None and len(points) <= FEATURE_CONFIG.largest_rank


def models_for(
    points: Array, season: float | None = None, both: bool = False
) -> tuple[ModelSpec, ...]:
    """Return the models for points (A, d): those of a network, of a function, or `both` as rivals.

    With a season, whose period is in the unit of time, there are eight models, all of them with it.
    Models without it would often predict the next step as well, and forecast the hours after it flat.
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
    return tuple(replace(each, season=part) for each in plain)


def _suits_seasonal_network(model: ModelSpec) -> bool:
    """Return whether places are independent and the drift is neither local nor short nor smooth."""
    length, time = CONFIG.seasonal_network
    return (
        model.drift_space.length >= length
        and model.static_space.shape == "identity"
        and model.drift_time >= time
        and not model.smooth
    )


def _suits_seasonal_function(model: ModelSpec) -> bool:
    """Return whether half of the function is static and the other half drifts over twenty steps."""
    return (model.static, model.drift_time) == CONFIG.seasonal_function
