"""Kalman filters against dense Gaussian processes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_t

from tests.helpers.models import MODELS, POINTS, ROUGH, TINY, dense_covariance, history
from tvbandits.gp import linalg
from tvbandits.gp.ensemble import filters as filters_module
from tvbandits.gp.ensemble.filters import Filters, initial_filters
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.validation import Array


def filter_readings(model: ModelSpec, rows: Array, times: Array, y: Array) -> tuple[Filters, float]:
    """Return one model after all readings, and their log likelihood."""
    (filters,) = initial_filters([model], POINTS, 3.0)
    now, total = times[0], 0.0
    for t in np.unique(times):
        filters = filters.predict(t - now)
        at = times == t
        filters, innovations = filters.update(rows[at], y[at], np.full(at.sum(), TINY))
        now, total = t, total + float(innovations.log_likelihood[0])
    return filters, total


@pytest.mark.parametrize("name", MODELS)
def test_filters_have_the_moments_of_the_dense_process(name: str) -> None:
    model = MODELS[name]
    rows, times, y = history()
    filters, _ = filter_readings(model, rows, times, y)
    prediction = filters.predict(1.7)
    every = np.arange(len(POINTS))
    H = filters.dynamics.observation(every)
    n, at = len(rows), np.full(len(POINTS), times[-1] + 1.7)
    K = dense_covariance(model, np.r_[rows, every], np.r_[times, at])
    weights = np.linalg.solve(K[:n, :n] + model.nugget * np.eye(n), K[:n, n:])
    # Features leave out a ten-thousandth of the variance, which counts as noise.
    tolerance = 2e-3 if model.smooth else 1e-7
    np.testing.assert_allclose(H @ prediction.mean[0], weights.T @ y, atol=5 * tolerance)
    residual = np.diag(prediction.dynamics.residual[0])
    expected = K[n:, n:] - K[n:, :n] @ weights
    np.testing.assert_allclose(
        H @ prediction.covariance[0] @ H.T + residual, expected, atol=tolerance
    )


@pytest.mark.parametrize("name", ["rough", "mixed", "seasonal"])
def test_filters_have_scale_and_likelihood_of_the_conjugate_prior(name: str) -> None:
    model = MODELS[name]
    rows, times, y = history()
    filters, log_likelihood = filter_readings(model, rows, times, y)
    data = dense_covariance(model, rows, times) + model.nugget * np.eye(len(y))
    squares = 3.0 + y @ np.linalg.solve(data, y)
    assert filters.variance[0] == pytest.approx(squares / (1 + len(y)), rel=1e-6)
    student = multivariate_t(shape=3.0 * data, df=1)
    assert log_likelihood == pytest.approx(float(student.logpdf(y)), rel=1e-6)


@pytest.mark.parametrize(("where", "hazard"), [("far from both", 0.05), ("between", 0.2)])
def test_update_with_hazard_is_a_soft_reset(where: str, hazard: float) -> None:
    """If nu is the probability of no restart: nu mean, nu^2 covariance + (1 - nu^2) prior."""
    rows, times, y = history()
    plain, _ = filter_readings(ROUGH, rows, times, y)
    soft = replace(
        plain, dynamics=initial_filters([replace(ROUGH, hazard=hazard)], POINTS, 3.0)[0].dynamics
    )
    place, fresh = np.array([4, 7]), plain.restart()
    near = plain.dynamics.observation(place) @ (0.95 * plain.mean[0] + 0.05 * fresh.mean[0])
    values = near if where == "between" else np.array([4.0, -3.0])
    readings = place, values, np.full(2, 0.1)
    stay, restart = (each.update(*readings)[1].log_likelihood[0] for each in (plain, fresh))
    nu = 1.0 / (1.0 + hazard / (1.0 - hazard) * math.exp(restart - stay))
    assert 0.6 < nu < 0.97
    after, _ = soft.update(*readings)
    shrunken = replace(
        plain,
        mean=nu * plain.mean + (1.0 - nu) * fresh.mean,
        covariance=nu**2 * plain.covariance + (1.0 - nu**2) * fresh.covariance,
    )
    expected, _ = shrunken.update(*readings)
    np.testing.assert_allclose(after.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(after.covariance, expected.covariance, rtol=1e-9)
    if where == "between":  # the more likely model determines the scale
        np.testing.assert_allclose(after.squares, expected.squares, rtol=1e-9)


def test_update_raises_noise_below_rounding() -> None:
    (filters,) = initial_filters([replace(ROUGH, nugget=1e-14)], POINTS, 1.0)
    readings = np.array([3]), np.zeros(1), np.full(1, 1e-16)
    filters, _ = filters.update(*readings)
    _, innovations = filters.update(*readings)
    # The noise of the first reading, and that of the second.
    expected = 2 * filters.dynamics.smallest_noise * filters.variance
    np.testing.assert_allclose(innovations.variances, expected, rtol=1e-3)


def test_update_weights_an_innovation_by_its_variance_beyond_sensor_noise() -> None:
    """For one reading: the share of its predictive variance that is not the sensor's noise."""
    (filters,) = initial_filters([ROUGH], POINTS, 3.0)
    for y, noise in ((1.4, 2.0), (0.3, 5.0), (0.5, 0.1)):
        scale, row = float(filters.variance[0]), np.array([4])
        H = filters.dynamics.observation(row)
        field = float((H @ filters.covariance[0] @ H.T).item()) + ROUGH.nugget
        spread, error = field + noise / scale, y - float((H @ filters.mean[0]).item())
        share = field / spread
        after, _ = filters.update(row, np.array([y]), np.array([noise]))
        np.testing.assert_allclose(after.count, filters.count + share)
        np.testing.assert_allclose(after.squares, filters.squares + share * error**2 / spread)
        filters = after


@pytest.mark.parametrize("count", [100, 300])
def test_ensemble_update_bounds_the_size_of_factorisations(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Factorisations are cubic in the number of readings that are processed together."""
    sizes, factors = [0], linalg._factorise_each
    monkeypatch.setattr(linalg, "_factorise_each", lambda A: sizes.append(A.shape[1]) or factors(A))
    ensemble, rng = FilterEnsemble.of(POINTS, 0.1), np.random.default_rng(3)
    for t in range(12):
        rows = rng.integers(0, 9, count)
        ensemble = ensemble.update(
            rows, (rng.random(count) < 0.1 + 0.2 * (rows == 4)) * 1.0, None, t
        )
    assert 100 <= max(sizes) <= filters_module.CONFIG.batch_size
