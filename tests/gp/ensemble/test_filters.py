"""Kalman filters against dense Gaussian processes, and `update_batch` against the filters."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_t

from tests.helpers.models import (
    DAY,
    MIXED,
    MODELS,
    POINTS,
    ROUGH,
    SMOOTH,
    TINY,
    dense_covariance,
    history,
)
from tvbandits.gp import linalg
from tvbandits.gp.ensemble import filters as filters_module
from tvbandits.gp.ensemble.filters import (
    Filters,
    StepReadings,
    initial_filters,
    step_batches,
    update_batch,
)
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
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


GROUPS = {
    "rough": [ROUGH, replace(ROUGH, drift_space=SpatialSpec("matern12", 0.9), drift_time=7.0)],
    "smooth": [SMOOTH, replace(SMOOTH, drift_time=2.5, trend=0.4)],
    "mixed": [MIXED, replace(MIXED, nugget=0.4, static_time=math.inf)],
    "seasonal": [
        replace(ROUGH, season=DAY),
        replace(ROUGH, season=replace(DAY, period=4.0, variance=0.2, decay_periods=9.0)),
    ],
    "smooth and seasonal": [
        replace(SMOOTH, season=DAY),
        replace(SMOOTH, season=replace(DAY, length=0.4)),
    ],
}


def step_readings(seed: int, counts: tuple[int, ...] = (1, 3, 4, 1, 2, 3)) -> list[StepReadings]:
    """Return readings at uneven times, of places some of which are read twice."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0.5, 1.0, 2.5], len(counts)))
    return [
        StepReadings(float(t), rng.integers(0, 9, n), rng.normal(0, 2, n), np.full(n, TINY))
        for t, n in zip(times, counts, strict=True)
    ]


def sequential_update(filters: Filters, readings: list[StepReadings]) -> tuple[Filters, Array]:
    now, density = 0.0, []
    for h, rows, values, noise in readings:
        filters, innovations = filters.predict(h - now).update(rows, values, noise)
        density.append(innovations.log_likelihood)
        now = h
    return filters, np.array(density)


@pytest.mark.parametrize("counts", [(1, 3, 4, 1, 2, 3), (20,), (300,)])
@pytest.mark.parametrize("name", GROUPS)
def test_update_batch_equals_sequential_updates(name: str, counts: tuple[int, ...]) -> None:
    """Many readings of one time, too, are split into batches."""
    (filters,) = initial_filters(GROUPS[name], POINTS, 3.0)
    filters, _ = sequential_update(filters, step_readings(1))
    one, log_likelihood = update_batch(filters, 0.0, step_readings(2, counts), 1.0)
    other, expected = sequential_update(filters, step_readings(2, counts))
    for field in ("mean", "covariance", "squares", "count"):
        values = getattr(one, field), getattr(other, field)
        np.testing.assert_allclose(*values, rtol=1e-7, atol=1e-9, err_msg=field)
    np.testing.assert_allclose(log_likelihood, expected, rtol=1e-7)
    assert one.models == filters.models


def test_step_batches_leave_steps_with_many_readings_alone() -> None:
    steps = step_readings(3, (2, 3, 20, 1, 8, 9, 40, 4))
    sizes = [[len(each.rows) for each in batch] for batch in step_batches(steps)]
    assert sizes == [[2, 3], [20], [1, 8], [9], [40], [4]]


def without_hazard(filters: Filters) -> Filters:
    models = tuple(replace(each, hazard=0.0) for each in filters.models)
    return replace(filters, dynamics=replace(filters.dynamics, models=models))


@pytest.mark.parametrize(("jump", "hazard"), [(0.0, 0.01), (0.0, 0.2), (4.0, 0.1), (30.0, 0.01)])
def test_update_batch_restarts_before_the_first_reading_or_not_at_all(
    jump: float, hazard: float
) -> None:
    """One model has a hazard, and its twin never restarts."""
    static = replace(MIXED, static=0.95, drift=0.05, static_time=math.inf, nugget=0.02)
    (filters,) = initial_filters([static, replace(static, hazard=hazard)], POINTS, 3.0)
    filters, _ = sequential_update(without_hazard(filters), step_readings(1))
    readings = [each._replace(values=jump + each.values) for each in step_readings(2)]
    stay, likely = sequential_update(filters, readings)
    _, unlikely = sequential_update(fresh := without_hazard(filters.restart()), readings)
    survival = (1.0 - hazard) ** len(readings)
    total = np.logaddexp(
        math.log(survival) + likely.cumsum(axis=0)[:, 1],
        math.log(1.0 - survival) + unlikely.cumsum(axis=0)[:, 1],
    )
    nu = survival * np.exp(likely.sum(axis=0)[1] - total[-1])
    nu = 1.0 if nu >= 0.99 else nu if nu > 0.5 else 0.0
    expected = stay
    if nu < 1.0:
        mean = nu * filters.mean + (1.0 - nu) * fresh.mean
        covariance = nu**2 * filters.covariance + (1.0 - nu**2) * fresh.covariance
        expected, _ = sequential_update(
            replace(filters, mean=mean, covariance=covariance), readings
        )
    models = (static, replace(static, hazard=hazard))
    before = replace(filters, dynamics=replace(filters.dynamics, models=models))
    result, log_likelihood = update_batch(before, 0.0, readings, 1.0)
    np.testing.assert_allclose(log_likelihood[:, 0], likely[:, 0], rtol=1e-7)
    np.testing.assert_allclose(log_likelihood[:, 1].cumsum(axis=0), total, rtol=1e-7)
    np.testing.assert_allclose(result.mean[0], stay.mean[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(result.mean[1], expected.mean[1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(result.covariance[1], expected.covariance[1], rtol=1e-6, atol=1e-8)
    assert result.models == models


@pytest.mark.parametrize("count", [100, 300])
def test_ensemble_update_bounds_the_size_of_factorisations(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Factorisations are cubic in the size of a batch, for readings of several steps and of one."""
    sizes, factors = [0], linalg._factorise_each
    monkeypatch.setattr(linalg, "_factorise_each", lambda A: sizes.append(A.shape[1]) or factors(A))
    ensemble, rng = FilterEnsemble.of(POINTS, 0.1), np.random.default_rng(3)
    for t in range(12):
        rows = rng.integers(0, 9, count)
        ensemble = ensemble.update(
            rows, (rng.random(count) < 0.1 + 0.2 * (rows == 4)) * 1.0, None, t
        )
    assert 100 <= max(sizes) <= filters_module.CONFIG.batch_size
