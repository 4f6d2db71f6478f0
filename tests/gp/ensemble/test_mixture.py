"""Weights and predictions of an ensemble, against plain restatements."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.models import (
    DAY,
    MIXED,
    POINTS,
    ROUGH,
    SEASONAL,
    TINY,
    dense_covariance,
    history,
)
from tvbandits.bandit.state import is_same_value
from tvbandits.gp.ensemble import mixture
from tvbandits.gp.ensemble.filters import Filters, initial_filters
from tvbandits.gp.ensemble.mixture import CONFIG, FilterEnsemble, prune
from tvbandits.gp.ensemble.models import CONFIG as MODEL_CONFIG, SpatialSpec, function_models
from tvbandits.queries.plans import choose_questions
from tvbandits.validation import Array


def test_season_period_is_in_the_unit_of_time() -> None:
    ensemble = FilterEnsemble.of(POINTS, 0.04, [SEASONAL])
    for t in range(6):
        ensemble = ensemble.update([t], np.array([np.sin(t)]), None, 0.5 * t)
    assert ensemble.current_models[0].season.period == pytest.approx(7.3 / 0.5)
    twin = FilterEnsemble.of(POINTS, 0.04, [replace(SEASONAL, season=replace(DAY, period=14.6))])
    for t in range(6):
        twin = twin.update([t], np.array([np.sin(t)]), None, float(t))
    np.testing.assert_allclose(ensemble.predict(4.0).mean, twin.predict(8.0).mean, rtol=1e-9)


def ensemble_of_field(
    ensemble: FilterEnsemble, steps: int, jump_at: int | None = None, wander: float = 0.1
) -> FilterEnsemble:
    """Return an ensemble after readings of some places of a drifting field at every step."""
    rng = np.random.default_rng(3)
    field = rng.normal(0, 2, len(ensemble.points))
    for t in range(1, steps + 1):
        # At the jump, high and low are exchanged.
        if t == jump_at:
            field = rng.permutation(-field)
        field = field + wander * rng.normal(size=len(field))
        rows = rng.choice(len(field), min(3, len(field)), replace=False)
        ensemble = ensemble.update(rows[:1], field[rows[:1]], None, float(t))
        ensemble = ensemble.update(rows[1:], field[rows[1:]], None, float(t))
    return ensemble


def test_ensemble_weights_match_a_plain_restatement() -> None:
    rivals = [ROUGH, replace(ROUGH, nugget=0.4), replace(ROUGH, drift_time=20.0)]
    rng = np.random.default_rng(5)
    ensemble = FilterEnsemble.of(POINTS, 0.04, rivals)
    filters: list[Filters] = []
    score = np.zeros(3)
    for t in range(12):
        rows, y = rng.choice(len(POINTS), 3, replace=False), rng.normal(4, 2, 3)
        ensemble = ensemble.update(rows, y, None, float(t))
        if t == 0:
            guess = max(float(y.var()), 0.16)
            filters = [initial_filters([each], POINTS, guess)[0] for each in rivals]
        log_likelihood = []
        for i in range(3):
            prediction = filters[i].predict(1.0 if t else 0.0)
            filters[i], innovations = prediction.update(rows, y - ensemble.origin, np.full(3, 0.04))
            log_likelihood.append(float(innovations.log_likelihood[0]))
        score = CONFIG.forgetting * score + 0.5 * np.array(log_likelihood)
        np.testing.assert_allclose(ensemble.weights, np.exp(score) / np.exp(score).sum(), rtol=1e-8)


def test_joint_posterior_has_the_dense_covariances() -> None:
    rows, times, y = history()
    ensemble = replace(FilterEnsemble.of(POINTS, TINY, [ROUGH]), step_length=1.0)
    for t in np.unique(times):
        ensemble = ensemble.update(rows[times == t], y[times == t], None, float(t))
    unit = float(ensemble.filters[0].variance[0])
    rows_of_query, every = np.array([0, 4, 7]), np.arange(len(POINTS))
    n, now = len(rows), times[-1]
    K = dense_covariance(
        ROUGH, np.r_[rows, rows_of_query, every], np.r_[times, [now] * 3, [now + 1.0] * len(every)]
    )
    data = K[:n, :n] + ROUGH.nugget * np.eye(n)
    posterior = K[n:, n:] - K[n:, :n] @ np.linalg.solve(data, K[:n, n:])
    joint = ensemble.joint_posterior(float(now) + 1.0)
    np.testing.assert_allclose(
        joint.covariance(rows_of_query, rows_of_query), unit * posterior[:3, :3], atol=1e-6
    )
    np.testing.assert_allclose(
        joint.cross_covariance(rows_of_query), unit * posterior[:3, 3:], atol=1e-6
    )
    noise = np.full(len(POINTS), unit * ROUGH.nugget)
    np.testing.assert_allclose(joint.noise_variance, noise, rtol=1e-6)


def test_predict_adds_the_variance_between_models() -> None:
    far = replace(ROUGH, static_space=SpatialSpec("matern12", 0.5))
    ensemble = ensemble_of_field(FilterEnsemble.of(POINTS, 0.04, [ROUGH, far]), 6)
    means, variances = [], []
    (both,) = ensemble.filters
    ahead, H = both.predict(1.0), both.dynamics.observation(np.arange(len(POINTS)))
    for i, model in enumerate(ensemble.current_models):
        means.append(H @ ahead.mean[i])
        spread = np.einsum("ij,jk,ik->i", H, ahead.covariance[i], H) + ahead.dynamics.residual[i]
        variances.append(float(both.variance[i]) * (spread + model.nugget))
    w, m, v = ensemble.weights, np.array(means), np.array(variances)
    forecast = ensemble.predict(ensemble.time + 1.0)
    np.testing.assert_allclose(forecast.mean, ensemble.origin + w @ m)
    expected = ensemble.inflation * np.sqrt(w @ (v + (m - w @ m) ** 2))
    np.testing.assert_allclose(forecast.deviation, expected)
    alone = ensemble_of_field(FilterEnsemble.of(POINTS, 0.04, [ROUGH]), 6)
    forecast = alone.predict(alone.time + 1.0)
    nugget = float(alone.filters[0].variance[0]) * ROUGH.nugget
    both = np.hypot(forecast.learnable, alone.inflation * np.sqrt(nugget))
    np.testing.assert_allclose(forecast.deviation, both)


def test_joint_posterior_is_the_same_with_and_without_shared_features(monkeypatch) -> None:
    models = (ROUGH, replace(ROUGH, smooth=True), MIXED, replace(MIXED, smooth=True))
    ensemble = FilterEnsemble.of(POINTS, 0.1, models)
    for t, row in enumerate([0, 2, 1, 2]):
        ensemble = ensemble.update([row], np.array([float(t % 3)]), None, float(t))
    shared = ensemble.joint_posterior(5.0)
    name = "tvbandits.gp.ensemble.dynamics.Dynamics.basis_key"
    monkeypatch.setattr(name, property(lambda dynamics: str(id(dynamics))))
    apart = ensemble.joint_posterior(5.0)
    assert shared.mean == pytest.approx(apart.mean, rel=1e-12)
    assert shared.deviation == pytest.approx(apart.deviation, rel=1e-12)
    assert shared.cross_covariance([0, 2]) == pytest.approx(
        apart.cross_covariance([0, 2]), rel=1e-11
    )
    assert shared.covariance([0, 2], [1]) == pytest.approx(apart.covariance([0, 2], [1]), rel=1e-11)


def test_predict_inflates_deviations_after_large_innovations() -> None:
    ensemble = ensemble_of_field(FilterEnsemble.of(POINTS, 0.04, [ROUGH]), 40)
    jumped = ensemble_of_field(FilterEnsemble.of(POINTS, 0.04, [ROUGH]), 44, jump_at=41)
    assert jumped.mean_squared_innovation > 1.5 * ensemble.mean_squared_innovation
    assert jumped.coverage < ensemble.coverage
    assert ensemble.coverage == pytest.approx(0.95, abs=0.04)
    wide, t = replace(ensemble, mean_squared_innovation=4.0), ensemble.time + 1.0
    np.testing.assert_allclose(wide.predict(t).deviation, 2.0 * ensemble.predict(t).deviation)
    assert replace(ensemble, mean_squared_innovation=0.3).inflation == 1.0


def test_prune_drops_models_of_low_weight_but_keeps_half_of_all() -> None:
    ensemble = ensemble_of_wave()
    count = len(ensemble.current_models)
    few = np.full(count, -100.0)
    few[[1, 5]] = 0.0
    filters, log_weights = prune(ensemble.filters, few)
    assert len(log_weights) == sum(map(len, filters)) == (count + 1) // 2
    kept = [model for batch in filters for model in batch.models]
    assert {ensemble.current_models[1], ensemble.current_models[5]} <= set(kept)
    light = np.zeros(count)
    light[3] = math.log(CONFIG.predicting_weight) - 0.01
    filters, log_weights = prune(ensemble.filters, light)
    kept = [model for batch in filters for model in batch.models]
    assert kept == [model for i, model in enumerate(ensemble.current_models) if i != 3]
    assert (log_weights == 0.0).all()


def test_prune_keeps_the_heaviest_models_within_capacity(monkeypatch) -> None:
    ensemble = ensemble_of_wave(10)
    monkeypatch.setattr(mixture, "CONFIG", replace(CONFIG, capacity=60_000))
    log_weights = np.linspace(0.0, 0.1, len(ensemble.current_models))
    models = ensemble.current_models
    filters = ensemble.filters
    assert sum(each.covariance.size for each in filters) > 2 * 60_000
    for _ in CONFIG.prune_steps:
        filters, log_weights = prune(filters, log_weights)
    assert sum(each.covariance.size for each in filters) <= 60_000
    kept = [model for each in filters for model in each.models]
    assert kept == list(models[-len(kept) :])


def test_ensemble_with_pruned_models_predicts_like_one_with_all(monkeypatch) -> None:
    pruned = ensemble_of_wave()
    monkeypatch.setattr(mixture, "CONFIG", replace(CONFIG, prune_steps=()))
    complete = ensemble_of_wave()
    assert (
        len(pruned.current_models)
        < 0.6 * len(complete.current_models)
        == 0.6 * len(complete.models)
    )
    one, other = pruned.predict(STEPS + 1.0), complete.predict(STEPS + 1.0)
    np.testing.assert_allclose(one.mean, other.mean, atol=0.02)
    np.testing.assert_allclose(one.deviation, other.deviation, rtol=0.05)


def test_choose_questions_selects_distinct_points_and_every_fourth_by_variance() -> None:
    joint = ensemble_of_field(FilterEnsemble.of(POINTS, 0.04), 6).joint_posterior(7.0)
    for count in range(4):
        assert len(set(choose_questions(joint, 5, count).tolist())) == 5
    assert choose_questions(joint, 1, 3)[0] == joint.deviation.argmax()
    assert len(choose_questions(joint, 0)) == 0
    assert np.array_equal(choose_questions(joint, 99), np.arange(len(POINTS)))


def test_ensemble_scale_survives_repeated_readings_and_large_noise() -> None:
    """Early readings determine the scale; 150 readings of the peak alone change it little."""
    x, rng = np.linspace(0.0, 1.0, 80)[:, None], np.random.default_rng(5)
    ensemble = FilterEnsemble.of(x, 0.01)
    for t in range(170):
        row = int(rng.integers(80)) if t < 20 else 40
        truth = np.sin(9.0 * x[row, 0])
        ensemble = ensemble.update([row], np.array([truth + 0.1 * rng.standard_normal()]), None, t)
    assert 0.35 < math.sqrt(float(ensemble.weights @ ensemble.squared_scales)) < 1.5
    loud = FilterEnsemble.of(x, 4.0)
    for t in range(20):
        loud = loud.update([37 * t % 80], 2.0 * rng.standard_normal(1), None, t)
    assert 0.4 < float(loud.weights @ loud.squared_scales) < 4.0


@pytest.mark.parametrize("noise", [1e-12, 0.01, 1e12])
@pytest.mark.parametrize("value", [0.0, 5.0, -1e3])
def test_predict_of_constant_rewards_is_the_constant(noise: float, value: float) -> None:
    ensemble = FilterEnsemble.of(POINTS, noise)
    for t in range(40):
        ensemble = ensemble.update([t % 4], np.array([value]), None, float(t))
        forecast = ensemble.predict(t + 1.0)
        off = np.abs(forecast.mean - value)
        assert (off <= 1e-6 * np.minimum(forecast.deviation, max(1.0, abs(value)))).all()
        assert (forecast.learnable > 0).all()


def test_restarted_ensemble_equals_one_with_the_later_origin_and_scale_from_the_start() -> None:
    rng, steps = np.random.default_rng(4), CONFIG.start_steps[-1]
    line = np.linspace(0.0, 1.0, MODEL_CONFIG.largest_network + 1)[:, None]
    rows, t = rng.integers(0, len(line), steps + 1), np.arange(steps + 1.0)
    y = 3.0 + np.sin(6.0 * line[rows, 0] + 0.1 * t) + 0.1 * rng.normal(size=steps + 1)
    ensemble = FilterEnsemble.of(line, 0.01)
    readings = [(rows[i : i + 1], y[i : i + 1], None, t[i]) for i in range(steps + 1)]
    for each in readings:
        ensemble = ensemble.update(*each)
    plain = FilterEnsemble.of(line, 0.01, function_models())
    plain = replace(plain, scale_count=CONFIG.function_scale_count)
    plain = plain._start_from_prior(float(np.median(y[:-1])), float(y[:-1].var()))
    plain = replace(plain, scale_count=1.0)  # so that it does not restart
    for each in readings:
        plain = plain.update(*each)
    forecast, other = ensemble.predict(steps + 1.0), plain.predict(steps + 1.0)
    np.testing.assert_allclose(forecast.mean, other.mean, rtol=1e-9)
    np.testing.assert_allclose(forecast.learnable, other.learnable, rtol=1e-9)


GRID = np.linspace(0.0, 1.0, 70)[:, None]
STEPS = 60


def wave(t: float) -> Array:
    return np.asarray(np.sin(7.0 * GRID[:, 0] + 0.05 * t))


def ensemble_of_wave(
    steps: int = STEPS,
    jump_at: int | None = None,
    ensemble: FilterEnsemble | None = None,
    begin: int = 1,
) -> FilterEnsemble:
    """Return an ensemble after three readings of a wave a step; the wave changes its sign at a jump."""
    rng, ensemble = np.random.default_rng([4, begin]), ensemble or FilterEnsemble.of(GRID, 0.01)
    for t in range(begin, begin + steps):
        rows = rng.choice(len(GRID), 3, replace=False)
        sign = -1.0 if jump_at is not None and t >= jump_at else 1.0
        y = sign * wave(t)[rows] + 0.1 * rng.standard_normal(3)
        ensemble = ensemble.update(rows[:1], y[:1], None, float(t))
        ensemble = ensemble.update(rows[1:], y[1:], None, float(t))
    return ensemble


def test_ensemble_with_pruned_models_follows_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = 41
    ensemble = ensemble_of_wave(jump + 6, jump_at=jump)
    monkeypatch.setattr(mixture, "CONFIG", replace(CONFIG, prune_steps=()))
    complete = ensemble_of_wave(jump + 6, jump_at=jump)
    error, expected = (
        np.abs(each.predict(jump + 7.0).mean + wave(jump + 7.0)).mean()
        for each in (ensemble, complete)
    )
    assert error < 1.2 * expected + 0.02


def test_ensemble_is_the_same_after_pickle() -> None:
    ensemble = ensemble_of_wave()
    loaded = pickle.loads(pickle.dumps(ensemble))
    assert is_same_value(ensemble, loaded)
    for t in range(STEPS + 1, STEPS + 5):
        ensemble, loaded = (
            each.update([3], wave(t)[[3]], None, float(t)) for each in (ensemble, loaded)
        )
    assert is_same_value(ensemble, loaded)
