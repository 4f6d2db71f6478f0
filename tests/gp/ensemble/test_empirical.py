"""Models whose covariance over places is estimated from readings, against dense algebra."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.models import POINTS, ROUGH, dense_covariance
from tvbandits.gp.ensemble.empirical import (
    CONFIG,
    EmpiricalSpace,
    TimedReadings,
    empirical_models,
    reading_table,
    shrunk_covariance,
)
from tvbandits.gp.ensemble.filters import filters_at_prior
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.validation import Array

ROOT = np.random.default_rng(4).normal(size=(9, 9))
MATRIX = ROOT @ ROOT.T / 9.0
SPACE = EmpiricalSpace("matern12", 0.3, tuple(map(tuple, MATRIX.tolist())))


def autoregression(steps: int, rho: float, seed: int = 0) -> Array:
    """Return a stationary autoregression (steps, 9) with the covariance MATRIX over places."""
    rng, root = np.random.default_rng(seed), np.linalg.cholesky(MATRIX)
    rows = [root @ rng.standard_normal(9)]
    for _ in range(steps - 1):
        rows.append(rho * rows[-1] + np.sqrt(1 - rho**2) * root @ rng.standard_normal(9))
    return np.array(rows)


def test_filters_have_moments_of_process_with_matrix() -> None:
    model, every, times = replace(ROUGH, drift_space=SPACE), np.arange(9), np.arange(4.0)
    (filters,) = filters_at_prior([model], POINTS, 3.0)
    rng, values = np.random.default_rng(1), []
    for _ in times:
        values.append(rng.normal(size=9))
        filters = filters.update(every, values[-1], np.full(9, 1e-12))[0].predict(1.0)
    rows, at = np.tile(every, 5), np.repeat(np.arange(5.0), 9)
    decay = np.exp(-np.abs(at[:, None] - at) / model.drift_time)
    K = dense_covariance(replace(model, drift=0.0), rows, at)
    K += model.drift * MATRIX[np.ix_(rows, rows)] * decay
    solved = np.linalg.solve(K[:36, :36] + model.nugget * np.eye(36), K[:36, 36:])
    H = filters.dynamics.observation(every)
    np.testing.assert_allclose(H @ filters.mean[0], solved.T @ np.concatenate(values), atol=1e-6)
    covariance = K[36:, 36:] - K[36:, :36] @ solved
    np.testing.assert_allclose(H @ filters.covariance[0] @ H.T, covariance, atol=1e-6)


def test_reading_table_has_means_and_gaps() -> None:
    table = reading_table(
        np.array([0, 0, 2]), np.array([1, 1, 0]), np.array([3.0, 5.0, -1.0]), count=2
    )
    np.testing.assert_array_equal(table, [[np.nan, 4.0], [np.nan, np.nan], [-1.0, np.nan]])


def test_shrunk_covariance_keeps_variances_and_shrinks_the_rest() -> None:
    shrunk = shrunk_covariance(MATRIX, 0.25)
    np.testing.assert_allclose(np.diag(shrunk), np.diag(MATRIX))
    rest = ~np.eye(9, dtype=bool)
    np.testing.assert_allclose(shrunk[rest], 0.75 * MATRIX[rest])


def test_shrunk_covariance_of_pairs_is_positive_semidefinite() -> None:
    # Correlations of pairs that were read at different times need not fit together.
    pairs = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(pairs).min() < -0.5
    assert np.linalg.eigvalsh(shrunk_covariance(pairs, 0.1)).min() > -1e-12


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_empirical_models_find_covariance_and_time(gaps: float) -> None:
    table, rho = autoregression(20_000, 0.8) + 7.0, 0.8
    table[np.random.default_rng(2).random(table.shape) < gaps] = np.nan
    models = empirical_models(table, step=2.0)
    assert len(models) == len(CONFIG.time_factors) * len(CONFIG.static_shares)
    middle = models[len(CONFIG.static_shares)]
    assert middle.drift_time == pytest.approx(-2.0 / np.log(rho), rel=0.05)
    unit = np.trace(MATRIX) / 9.0
    estimate = middle.drift_space.over_points(np.zeros((9, 9)), 1.0)
    np.testing.assert_allclose(estimate, shrunk_covariance(MATRIX, 0.1) / unit, atol=0.08)
    lasting = middle.static * middle.static_space.over_points(np.zeros((9, 9)), 1.0)
    share = CONFIG.static_shares[0] * middle.drift / unit
    between = np.diag(lasting) - share * np.diag(MATRIX)
    np.testing.assert_allclose(between, between.mean(), atol=0.05)  # alike at all places
    np.testing.assert_allclose(lasting, np.diag(np.diag(lasting)))


def test_empirical_models_need_every_pair_of_places_together() -> None:
    table = autoregression(40, 0.8)
    assert empirical_models(table, 1.0)
    table[: 40 - CONFIG.fewest_pairs + 1, 0] = np.nan
    assert not empirical_models(table, 1.0)
    assert not empirical_models(np.full((40, 3), 5.0), 1.0)  # nothing varies


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


def test_filters_of_readings_are_those_of_one_time_after_the_other() -> None:
    table = autoregression(30, 0.8)
    ensemble, readings = ensemble_of(table), timed_readings(table)
    models = readings.models(9, 1.0)[:2]
    filters = readings.filters(models, ensemble, 30.0)
    values = table - ensemble.origin
    (expected,) = filters_at_prior(models, POINTS, float(values.var()))
    for row in values:
        expected = expected.update(np.arange(9), row, np.full(9, 1e-9))[0].predict(1.0)
    np.testing.assert_allclose(filters.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(filters.covariance, expected.covariance, atol=1e-6)


def test_with_group_shares_the_weight_until_evidence_decides() -> None:
    table = autoregression(90, 0.9)
    ensemble, readings = ensemble_of(table[:60]), timed_readings(table[:60])
    filters = readings.filters(readings.models(9, 1.0), ensemble, 60.0)
    both = ensemble.with_group(filters, 60.0)
    assert both.weights[-len(filters) :].sum() == pytest.approx(0.5)
    again = both.with_group(filters, 60.0)
    np.testing.assert_allclose(again.weights, both.weights)
    for t, row in enumerate(table[60:], 60):
        both = both.update(np.arange(4), row[:4], None, float(t))
    empirical = [each.drift_space == filters.models[0].drift_space for each in both.active_models]
    assert both.weights[empirical].sum() > 0.9  # the process has this covariance


def test_forecast_of_place_without_reading_follows_those_that_it_varies_with() -> None:
    """Two places at opposite ends are alike, and their neighbours are not: distance cannot know."""
    rng, points = np.random.default_rng(5), np.arange(6.0)[:, None]
    common = np.cumsum(rng.standard_normal(80)) / 3.0
    table = 0.1 * rng.standard_normal((80, 6))
    table[:, [0, 5]] += common[:, None]
    ensemble = FilterEnsemble.of(points, 1e-4)
    for t, row in enumerate(table[:60]):
        ensemble = ensemble.update(np.arange(6), row, None, float(t))
    readings = timed_readings(table[:60])
    empirical = ensemble.with_group(readings.filters(readings.models(6, 1.0), ensemble, 60.0), 60.0)
    errors = []
    for each in (ensemble, empirical):
        for t, row in enumerate(table[60:], 60):
            each = each.update(np.arange(5), row[:5], None, float(t))
        errors.append(abs(each.predict(80.0).mean[5] - table[79, 5]))
    assert errors[1] < 0.5 * errors[0]
