"""Models of an ensemble that differ in every part, on a few places of a plane, and their dense form."""

import math
from dataclasses import replace

import numpy as np

from tvbandits.gp.ensemble import dynamics
from tvbandits.gp.ensemble.models import ModelSpec, Season, SpatialSpec
from tvbandits.validation import Array

POINTS = np.random.default_rng(0).uniform(0, 5, (9, 2))

ROUGH = ModelSpec(
    SpatialSpec("identity"), SpatialSpec("matern12", 0.3), 0.5, 0.4, 0.6, 0.1, 50.0, 2.0, 3.0
)
WIDE = SpatialSpec("rbf", 0.4)
SMOOTH = ModelSpec(WIDE, WIDE, 0.4, 0.6, 0.1, 0.05, math.inf, 6.0, 8.0, smooth=True)
MIXED = ModelSpec(
    SpatialSpec("matern52", 0.2), SpatialSpec("matern32", 0.5), 0.3, 0.7, 0.0, 0.2, 80.0, 4.0, 9.0
)
DAY = Season(7.3, 0.6, SpatialSpec("matern32", 0.4), harmonics=2, decay_periods=3.0)
# A negligible noise variance of a sensor.
TINY = 1e-13
SEASONAL = replace(ROUGH, season=DAY)
SMOOTH_SEASONAL = replace(SMOOTH, season=DAY)
MODELS = {
    "rough": ROUGH,
    "smooth": SMOOTH,
    "mixed": MIXED,
    "seasonal": SEASONAL,
    "smooth and seasonal": SMOOTH_SEASONAL,
}


def dense_covariance(model: ModelSpec, rows: Array, times: Array) -> Array:
    """Return the prior covariance of the reward, term by term."""
    X = POINTS[rows]
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    extent = np.ptp(POINTS, axis=0).max()
    lag = np.abs(times[:, None] - times[None])
    rate = math.sqrt(3.0) * lag / model.drift_time
    decay = (1.0 + rate) * np.exp(-rate) if model.smooth else np.exp(-lag / model.drift_time)
    periodic: Array | float = 0.0
    if (season := model.season) is not None:
        waves = sum(
            variance * np.cos(2.0 * np.pi * (j + 1) * lag / season.period)
            for j, variance in enumerate(season.variances)
        )
        shared = 0.5 + 0.5 * season.space.correlation(distance, extent)
        periodic = waves * np.exp(-lag / (season.decay_periods * season.period)) * shared
    return np.asarray(
        periodic
        + dynamics.CONFIG.constant_variance
        + model.trend * np.exp(-lag / model.trend_time)
        + model.static
        * model.static_space.correlation(distance, extent)
        * np.exp(-lag / model.static_time)
        + model.drift * model.drift_space.correlation(distance, extent) * decay
    )


def history(n: int = 24, seed: int = 1) -> tuple[Array, Array, Array]:
    """Return rows, times (several of them equal, unevenly spaced) and values of readings."""
    rng = np.random.default_rng(seed)
    times = np.repeat(np.cumsum(rng.choice([0.5, 1.0, 2.5], n // 3)), 3)
    return rng.integers(0, len(POINTS), n), times, rng.normal(0, 2, n)
