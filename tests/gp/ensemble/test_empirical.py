"""Models whose covariance over places is estimated from readings, against dense algebra."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.helpers.models import POINTS, ROUGH, dense_covariance
from tests.helpers.networks import shared_weather
from tvbandits.gp.ensemble.empirical import (
    CONFIG,
    EmpiricalSpace,
    TimedReadings,
    component_correlations,
    empirical_models,
    estimate_shrinkage,
    principal_components,
    tabulate_readings,
)
from tvbandits.gp.ensemble.filters import initial_filters
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.validation import Array

ROOT = np.random.default_rng(4).normal(size=(9, 9))
MATRIX = ROOT @ ROOT.T / 9.0
COMPONENTS, VARIANCES = principal_components(MATRIX, 0.0)
SPACE = EmpiricalSpace.of(COMPONENTS, VARIANCES, np.zeros(9))
PLACES = EmpiricalSpace.of(COMPONENTS, np.zeros(9), np.linspace(0.2, 1.8, 9))


def place_covariance(space: EmpiricalSpace) -> Array:
    """Return the covariance of the places."""
    V = space.place_features(9)
    return np.asarray(V @ space.feature_covariance(np.zeros((9, 9)), 1.0) @ V.T)


def autoregression(steps: int, rho: float, seed: int = 0) -> Array:
    """Return a stationary autoregression (steps, 9) with the covariance MATRIX over places."""
    rng, root = np.random.default_rng(seed), np.linalg.cholesky(MATRIX)
    rows = [root @ rng.standard_normal(9)]
    for _ in range(steps - 1):
        rows.append(rho * rows[-1] + np.sqrt(1 - rho**2) * root @ rng.standard_normal(9))
    return np.array(rows)


def test_filters_have_moments_of_a_process_with_one_time_per_component() -> None:
    model = replace(
        ROUGH, static_space=PLACES, drift_space=SPACE, component_times=(9.0, 0.5), smooth=False
    )
    every, times = np.arange(9), np.arange(4.0)
    (filters,) = initial_filters([model], POINTS, 3.0)
    rng, values = np.random.default_rng(1), []
    for _ in times:
        values.append(rng.normal(size=9))
        filters = filters.update(every, values[-1], np.full(9, 1e-12))[0].predict(1.0)
    rows, at = np.tile(every, 5), np.repeat(np.arange(5.0), 9)
    lags = np.abs(at[:, None] - at)
    K = dense_covariance(replace(ROUGH, static=0.0, drift=0.0), rows, at)
    place_variances = np.diag(PLACES.place_variances)[np.ix_(rows, rows)]
    K += model.static * place_variances * np.exp(-lags / model.static_time)
    for i, time in enumerate((9.0, 0.5, *[model.drift_time] * 7)):
        component = VARIANCES[i] * np.outer(COMPONENTS[rows, i], COMPONENTS[rows, i])
        K += model.drift * component * np.exp(-lags / time)
    solved = np.linalg.solve(K[:36, :36] + model.nugget * np.eye(36), K[:36, 36:])
    H = filters.dynamics.observation(every)
    np.testing.assert_allclose(H @ filters.mean[0], solved.T @ np.concatenate(values), atol=1e-6)
    covariance = K[36:, 36:] - K[36:, :36] @ solved
    np.testing.assert_allclose(H @ filters.covariance[0] @ H.T, covariance, atol=1e-6)


def test_tabulate_readings_averages_repeats_and_marks_gaps() -> None:
    table = tabulate_readings(
        np.array([0, 0, 2]), np.array([1, 1, 0]), np.array([3.0, 5.0, -1.0]), count=2
    )
    np.testing.assert_array_equal(table, [[np.nan, 4.0], [np.nan, np.nan], [-1.0, np.nan]])


def test_principal_components_keep_variances_and_shrink_covariances() -> None:
    components, variances = principal_components(MATRIX, 0.25)
    covariance = components @ np.diag(variances) @ components.T
    np.testing.assert_allclose(np.diag(covariance), np.diag(MATRIX))
    off_diagonal = ~np.eye(9, dtype=bool)
    np.testing.assert_allclose(covariance[off_diagonal], 0.75 * MATRIX[off_diagonal])
    assert (np.diff(variances) <= 0).all()


def test_principal_components_have_no_negative_variance() -> None:
    # Correlations of pairs that were read at different times need not be consistent.
    pairs = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(pairs).min() < -0.5
    assert principal_components(pairs, 0.1)[1].min() == 0.0


def component_table(steps: int, rhos: Array, seed: int = 0) -> Array:
    """Return autoregressions (steps, 9) of the components of MATRIX, at the places."""
    rng, scale = np.random.default_rng(seed), np.sqrt(VARIANCES)
    rows = [scale * rng.standard_normal(9)]
    for _ in range(steps - 1):
        rows.append(rhos * rows[-1] + scale * np.sqrt(1 - rhos**2) * rng.standard_normal(9))
    return np.array(rows) @ COMPONENTS.T


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_empirical_models_find_covariance_and_times(gaps: float) -> None:
    rhos = np.array([0.9, 0.5, 0.2, *[0.8] * 6])
    table = component_table(20_000, rhos) + 7.0
    table[np.random.default_rng(2).random(table.shape) < gaps] = np.nan
    models = empirical_models(table, step=2.0)
    variants = list(product(CONFIG.time_factors, CONFIG.static_shares))
    assert len(models) == len(variants)
    for model, (factor, share) in zip(models, variants, strict=True):
        # Shrinkage mixes the components a little.
        expected = -2.0 * factor / np.log(rhos[:4])
        times = [*model.component_times, model.drift_time]
        np.testing.assert_allclose(times, expected, rtol=0.15)
        unit = np.trace(MATRIX) / 9.0
        shrunk = 0.9 * MATRIX + 0.1 * np.diag(np.diag(MATRIX))
        assert isinstance(model.drift_space, EmpiricalSpace)
        assert isinstance(model.static_space, EmpiricalSpace)
        np.testing.assert_allclose(place_covariance(model.drift_space), shrunk / unit, atol=0.1)
        lasting = model.static * place_covariance(model.static_space)
        between = np.diag(lasting) - share * model.drift / unit * np.diag(MATRIX)
        np.testing.assert_allclose(between, between.mean(), atol=0.06)  # alike at all places
        np.testing.assert_allclose(lasting, np.diag(np.diag(lasting)), atol=1e-12)
        assert model.nugget == pytest.approx(CONFIG.nugget * model.drift)


def test_component_correlations_of_short_tables_are_not_too_small() -> None:
    # Estimates from 40 times are too small by (1 + 3 rho) / 40 on average, which is added.
    rho, estimates = 0.6, []
    for seed in range(400):
        scores = component_table(40, np.full(9, rho), seed) @ COMPONENTS
        above = scores - scores.mean(axis=0)
        covariance, later = above.T @ above / 40, above[1:].T @ above[:-1] / 39
        estimates.append(component_correlations(np.eye(9), covariance, later, 40))
    assert np.shape(estimates) == (400, CONFIG.components + 1)
    np.testing.assert_allclose(np.mean(estimates, axis=0), rho, atol=0.03)


def test_empirical_models_need_joint_readings_of_every_pair_of_places() -> None:
    table = autoregression(40, 0.8)
    assert empirical_models(table, 1.0)
    table[: 40 - CONFIG.fewest_pairs + 1, 0] = np.nan
    assert not empirical_models(table, 1.0)
    assert not empirical_models(np.full((40, 3), 5.0), 1.0)  # constant readings


def timed_readings(table: Array) -> TimedReadings:
    numbers, places = np.nonzero(np.isfinite(table))
    return TimedReadings(
        numbers.astype(float), places, table[numbers, places], np.full(len(places), 1e-9)
    )


def ensemble_of(table: Array) -> FilterEnsemble:
    ensemble = FilterEnsemble.of(POINTS, 0.01)
    for t, row in enumerate(table):
        ensemble = ensemble.update(np.arange(9), row, None, float(t))
    return ensemble


def test_timed_readings_filters_equal_sequential_updates() -> None:
    table = autoregression(30, 0.8)
    ensemble, readings = ensemble_of(table), timed_readings(table)
    models = readings.models(9, 1.0)[:2]
    filters = readings.filters(models, ensemble, 30.0)
    values = table - ensemble.origin
    (expected,) = initial_filters(models, POINTS, float(values.var()))
    for row in values:
        expected = expected.update(np.arange(9), row, np.full(9, 1e-9))[0].predict(1.0)
    np.testing.assert_allclose(filters.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(filters.covariance, expected.covariance, atol=1e-6)


def test_replace_group_halves_the_weight_until_evidence_decides() -> None:
    table = autoregression(90, 0.9)
    ensemble, readings = ensemble_of(table[:60]), timed_readings(table[:60])
    filters = readings.filters(readings.models(9, 1.0), ensemble, 60.0)
    both = ensemble.replace_group(filters, 60.0)
    assert both.weights[-len(filters) :].sum() == pytest.approx(0.5)
    again = both.replace_group(filters, 60.0)
    np.testing.assert_allclose(again.weights, both.weights)
    for t, row in enumerate(table[60:], 60):
        both = both.update(np.arange(4), row[:4], None, float(t))
    empirical = [each.drift_space == filters.models[0].drift_space for each in both.current_models]
    assert both.weights[empirical].sum() > 0.8  # the process has this covariance


def test_empirical_forecast_follows_correlated_places_at_any_distance() -> None:
    """Two places at opposite ends vary alike, unlike their neighbours, which no distance can model."""
    rng, points = np.random.default_rng(5), np.arange(6.0)[:, None]
    shared_path = np.cumsum(rng.standard_normal(80)) / 3.0
    table = 0.1 * rng.standard_normal((80, 6))
    table[:, [0, 5]] += shared_path[:, None]
    ensemble = FilterEnsemble.of(points, 1e-4)
    for t, row in enumerate(table[:60]):
        ensemble = ensemble.update(np.arange(6), row, None, float(t))
    readings = timed_readings(table[:60])
    empirical = ensemble.replace_group(
        readings.filters(readings.models(6, 1.0), ensemble, 60.0), 60.0
    )
    errors = []
    for each in (ensemble, empirical):
        for t, row in enumerate(table[60:], 60):
            each = each.update(np.arange(5), row[:5], None, float(t))
        errors.append(abs(each.predict(80.0).mean[5] - table[79, 5]))
    assert errors[1] < 0.5 * errors[0]


def test_estimate_shrinkage_matches_schaefer_and_strimmer() -> None:
    """The oracle sums their formula pair by pair: fewer readings, more shrinkage."""
    table = shared_weather(40, seed=2)
    covariance, count = np.cov(table.T, bias=True), table.shape[1]
    pairs = np.full((count, count), 40.0)
    r = np.corrcoef(table.T)
    off = [(i, j) for i in range(count) for j in range(count) if i != j]
    expected = sum((1 - r[i, j] ** 2) ** 2 / 40 for i, j in off) / sum(r[i, j] ** 2 for i, j in off)
    assert estimate_shrinkage(covariance, pairs) == pytest.approx(expected)
    assert estimate_shrinkage(7.0 * covariance, 4.0 * pairs) == pytest.approx(expected / 4)
    alone = np.random.default_rng(0).standard_normal((2000, 8))
    independent = estimate_shrinkage(np.cov(alone.T), np.full((8, 8), 2000.0))
    assert 0.5 < independent <= 1.0
    assert estimate_shrinkage(np.zeros((3, 3)), np.full((3, 3), 16.0)) == 1.0
