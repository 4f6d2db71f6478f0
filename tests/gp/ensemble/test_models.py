"""The sets of models of an ensemble, and the features that represent them."""

import numpy as np

from tvbandits.gp.ensemble import dynamics
from tvbandits.gp.ensemble.dynamics import representable_models
from tvbandits.gp.ensemble.filters import initial_filters
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import (
    CONFIG as MODEL_CONFIG,
    Season,
    SpatialSpec,
    function_models,
)


def test_season_has_the_harmonics_of_the_periodic_kernel() -> None:
    season = Season(24.0, 2.0, SpatialSpec("identity"), harmonics=30)
    phase = np.linspace(0, 2 * np.pi, 50)
    kernel = np.exp(-2.0 * np.sin(phase / 2) ** 2 / season.length**2)
    mean = np.exp(-2.0 * np.sin(np.linspace(0, np.pi, 4096, endpoint=False)) ** 2 / 0.49).mean()
    series = np.cos(np.outer(phase, np.arange(1, 31))) @ season.variances
    np.testing.assert_allclose(series, 2.0 * (kernel - mean) / (1.0 - mean), atol=1e-9)


def test_function_models_scale_lengths_with_the_dimension() -> None:
    one, four = (
        [each.drift_space.length for each in function_models(dimension)] for dimension in (1, 4)
    )
    np.testing.assert_allclose(four, 2.0 * np.array(one))
    plane = np.random.default_rng(0).uniform(size=(MODEL_CONFIG.largest_network + 1, 2))
    assert FilterEnsemble.of(plane, 0.01).models == function_models(2)


def test_representable_models_leave_little_residual_variance() -> None:
    scattered = np.random.default_rng(0).uniform(size=(200, 3))
    models = FilterEnsemble.of(scattered, 0.01).models
    lengths = sorted({each.drift_space.length for each in function_models(3)})
    assert {each.drift_space.length for each in models} == set(lengths[2:])
    for (filters,) in (initial_filters([each], scattered, 1.0) for each in models):
        assert filters.dynamics.residual.mean() <= dynamics.CONFIG.largest_residual
    shortest = function_models(3)[:1]
    assert representable_models(shortest, scattered) == shortest
    assert FilterEnsemble.of(scattered, 0.01, function_models(3)).models == function_models(3)
