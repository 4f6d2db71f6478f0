"""The ensemble as a posterior, and its buffer for late readings."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates, Dataset, policies
from tvbandits.bandit.state import is_same_value
from tvbandits.gp.additive import structured_kernel
from tvbandits.gp.ensemble import posterior as posterior_module
from tvbandits.gp.ensemble.candidate_posterior import Readings
from tvbandits.gp.ensemble.empirical import EmpiricalSpace, empirical_models
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.ensemble.posterior import (
    CONFIG,
    EnsemblePosterior,
    ModelEnsemble,
    ReplayBuffer,
    compute_effective_noise,
    find_start_of_latest,
)
from tvbandits.gp.posterior import CandidateGrid, Conditioning, Data, Posterior
from tvbandits.validation import Array

POINTS = np.random.default_rng(3).uniform(0, 5, (9, 2))
# An ensemble divides each coordinate by its range.
RANGES = np.ptp(POINTS, axis=0)
SCALED = POINTS / RANGES
KERNEL = structured_kernel(RBF(1.0))
NO_READINGS = Dataset.empty(2)


def observations(steps: int = 12, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(POINTS), size=2 * steps)
    t = np.repeat(np.arange(1.0, steps + 1), 2)
    y = 4.0 + np.sin(POINTS[rows].sum(axis=1) + t / 4.0) + 0.1 * rng.standard_normal(len(t))
    return Dataset(POINTS[rows], t, y, np.full(len(t), 0.01))


GRID = CandidateGrid(KERNEL, POINTS)


def data_from(readings: Dataset) -> Data:
    return Data(np.column_stack([readings.X, readings.t]), readings.y[:, None], readings.variance)


def posterior_at(
    now: float = 13.0,
    readings: Dataset | None = None,
    rule: ModelEnsemble = ModelEnsemble(),  # noqa: B008 - frozen
    previous: Posterior | None = None,
) -> EnsemblePosterior:
    data = data_from(observations() if readings is None else readings)
    return rule.condition(Conditioning(KERNEL, data, GRID, now, previous, noise_variance=0.01))


def ensemble_of(models: list[ModelSpec] | None = None) -> FilterEnsemble:
    ensemble, readings = FilterEnsemble.of(SCALED, 0.01, models), observations()
    for t in np.unique(readings.t):
        some = readings.take(readings.t == t)
        rows = [int((x == POINTS).all(axis=1).argmax()) for x in some.X]
        ensemble = ensemble.update(rows, some.y, some.variance, float(t))
    return ensemble


MIDDLE = SpatialSpec("matern12", 0.5)
MIDDLING = ModelSpec(MIDDLE, MIDDLE, 0.5, 0.5, 0.1, 0.1, np.inf, 5.0, 3.0)


def posterior_of_one(model: ModelSpec) -> EnsemblePosterior:
    """Return the posterior of an ensemble with one model."""
    return replace(posterior_at(), buffer=ReplayBuffer(ensemble_of([model])))


def inputs(X: Array, t: float = 13.0) -> Array:
    return np.column_stack([X, np.full(len(X), t)])


def test_predict_of_grid_is_the_forecast_of_the_ensemble() -> None:
    posterior: Posterior = posterior_at()
    forecast = ensemble_of().predict(13.0)
    mean, variance = posterior.predict(GRID)
    np.testing.assert_array_equal(mean[:, 0], forecast.mean)
    np.testing.assert_array_equal(variance, forecast.learnable**2)
    np.testing.assert_array_equal(posterior.predict(GRID)[0], mean)
    some = posterior.predict(inputs(POINTS[[4, 1]]))
    np.testing.assert_array_equal(some[0], mean[[4, 1]])
    np.testing.assert_array_equal(some[1], variance[[4, 1]])
    assert posterior.summary.size == 24


def test_ensemble_prior_inflates_the_nugget() -> None:
    posterior = posterior_of_one(MIDDLING)
    wide = replace(
        posterior, buffer=ReplayBuffer(replace(posterior.ensemble, mean_squared_innovation=4.0))
    )
    _, learnable = wide.predict(GRID)
    deviation = np.sqrt(learnable + wide.prior.nugget)
    np.testing.assert_allclose(deviation, wide.ensemble.predict(13.0).deviation)


def test_condition_counts_each_reading_once_in_any_order() -> None:
    readings = observations()
    backwards = posterior_at(readings=readings.take(slice(None, None, -1)))
    np.testing.assert_allclose(backwards.forecast.mean, posterior_at().forecast.mean)
    both = posterior_at(
        readings=readings, previous=posterior_at(12.0, readings.take(readings.t < 12.0))
    )
    assert both.summary.size == 24
    np.testing.assert_array_equal(both.forecast.mean, posterior_at().forecast.mean)
    # The new readings need not be the latest.
    gap = posterior_at(readings=readings.take(readings.t != 11.0))
    np.testing.assert_array_equal(
        posterior_at(previous=gap).forecast.mean, posterior_at().forecast.mean
    )
    assert posterior_at(previous=both) is both
    # The posterior of a past time ignores later readings.
    past = posterior_at(10.0, readings.take(readings.t <= 10.0))
    np.testing.assert_array_equal(posterior_at(10.0).forecast.mean, past.forecast.mean)


def test_condition_ignores_a_previous_posterior_of_other_data_or_rule() -> None:
    others = posterior_at(readings=observations(seed=1))
    np.testing.assert_array_equal(
        posterior_at(previous=others).forecast.mean, posterior_at().forecast.mean
    )
    of_more = posterior_at(rule=ModelEnsemble(both=True))
    np.testing.assert_array_equal(
        posterior_at(previous=of_more).forecast.mean, posterior_at().forecast.mean
    )


@pytest.mark.parametrize("readings", [NO_READINGS, observations()])
def test_condition_before_any_reading_is_the_prior(readings: Dataset) -> None:
    prior = ModelEnsemble().condition(Conditioning(KERNEL, data_from(readings), GRID, 0.5))
    mean, variance = prior.predict(GRID)
    assert (mean == 0).all()
    np.testing.assert_allclose(variance, KERNEL.diag(inputs(POINTS)))
    assert ModelEnsemble().prior(prior).nugget == 0.0
    assert not ModelEnsemble().prior(prior).parameters
    less = prior.fantasize(inputs(POINTS[[2]], 0.5), 0.01, GRID).predict(GRID)[1]
    assert (less <= variance + 1e-12).all()
    assert less[2] < 0.1 * variance[2]


def test_covariance_equals_that_of_the_joint_posterior() -> None:
    posterior = posterior_at()
    rows = range(len(POINTS))
    C = posterior.covariance(inputs(POINTS), inputs(POINTS))
    np.testing.assert_allclose(C, C.T, atol=1e-12)
    assert np.linalg.eigvalsh(C).min() > -1e-9
    inflation = posterior.ensemble.inflation**2
    np.testing.assert_allclose(inflation * np.diag(C), posterior.predict(GRID)[1], rtol=1e-8)
    np.testing.assert_array_equal(C, posterior.joint_posterior(13.0, 2.0).covariance(rows, rows))


def test_fantasize_lowers_variances_as_conditioning() -> None:
    posterior = posterior_at()
    C = posterior.covariance(inputs(POINTS), inputs(POINTS))
    noise = 0.04 + posterior.nugget_variance
    once = posterior.fantasize(inputs(POINTS[[3]]), 0.04, None)
    before, after = posterior.predict(GRID)[1], once.predict(GRID)[1]
    np.testing.assert_allclose(after, before - C[3] ** 2 / (C[3, 3] + noise), rtol=1e-9)
    np.testing.assert_array_equal(once.predict(GRID)[0], posterior.predict(GRID)[0])
    twice = once.fantasize(inputs(POINTS[[5]]), 0.04, None).predict(GRID)[1]
    among = C[np.ix_([3, 5], [3, 5])] + noise * np.eye(2)
    expected = before - np.einsum("ij,ij->j", C[[3, 5]], np.linalg.solve(among, C[[3, 5]]))
    np.testing.assert_allclose(twice, expected, rtol=1e-8)
    # `fantasize` has not changed it.
    np.testing.assert_array_equal(posterior.predict(GRID)[1], before)
    # Several points at once equal one after the other, also with a repeated candidate.
    rows = inputs(POINTS[[3, 5, 3]])
    again = once.fantasize(rows[1:2], 0.2, None).fantasize(rows[2:], 0.1, None)
    together = posterior.fantasize(rows, np.array([0.04, 0.2, 0.1]), None)
    np.testing.assert_allclose(together.predict(GRID)[1], again.predict(GRID)[1], rtol=1e-8)


def test_sample_has_the_posterior_covariance() -> None:
    posterior = posterior_at()
    C = posterior.covariance(inputs(POINTS), inputs(POINTS))
    samples = posterior.sample(posterior.grid, 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(samples.mean(axis=0), 0.0, atol=0.03 * np.sqrt(C.max()))
    np.testing.assert_allclose(np.cov(samples.T), C, atol=0.05 * C.max())


def test_predict_of_candidates_among_other_points_matches_the_grid() -> None:
    posterior = posterior_at()
    mean, variance = posterior.predict(GRID)
    some = np.concatenate([POINTS[[2, 6]], POINTS[[2]] + 1e-7, [[1e4, 1e4]]])
    means, variances = posterior.predict(inputs(some))
    np.testing.assert_allclose(means[:2], mean[[2, 6]])
    np.testing.assert_allclose(means[3, 0], mean.mean(), rtol=1e-6)
    assert variances[3] > variance.max() > variances[2] > 0


def test_predict_of_other_points_matches_dense_kriging() -> None:
    """With one model and one shape it is simple kriging around the mean of the candidates."""
    posterior = posterior_of_one(MIDDLING)
    X = np.array([[1.0, 1.0], [2.5, 4.0]])
    distance = lambda A, B: np.linalg.norm(A[:, None] - B[None], axis=2)  # noqa: E731
    K = np.exp(-distance(SCALED, SCALED) / 0.5)
    k = np.exp(-distance(X / RANGES, SCALED) / 0.5)
    W = k @ np.linalg.inv(K)
    mean, middle = posterior.predict(GRID)[0][:, 0], posterior.predict(GRID)[0].mean()
    means, variance = posterior.predict(inputs(X))
    np.testing.assert_allclose(means[:, 0], middle + W @ (mean - middle), rtol=1e-4)
    C = posterior.covariance(inputs(POINTS), inputs(POINTS))
    residual = posterior.prior.parameters["scale"] ** 2 * (1.0 - np.einsum("ij,ij->i", W, k))
    W = W + (1.0 - W.sum(axis=1, keepdims=True)) / len(POINTS)
    expected = posterior.ensemble.inflation**2 * (np.diag(W @ C @ W.T) + residual)
    np.testing.assert_allclose(variance, expected, rtol=1e-3)


def test_prior_covariance_is_that_of_the_heaviest_model() -> None:
    space = SpatialSpec("matern12", 0.5)
    one = ModelSpec(SpatialSpec("identity"), space, 0.4, 0.5, 0.1, 0.1, 50.0, 5.0, 3.0)
    Z = np.column_stack([POINTS[[0, 3, 3]], [2.0, 2.0, 8.0]])
    posterior = posterior_of_one(one)
    apart = np.linalg.norm(SCALED[0] - SCALED[3]) / 0.5
    near, later = np.exp(-apart), 0.4 * np.exp(-6.0 / 50.0) + 0.5 * np.exp(-6.0 / 5.0)
    across = 0.5 * near * np.exp(-6.0 / 5.0)
    expected = [[0.9, 0.5 * near, across], [0.5 * near, 0.9, later], [across, later, 0.9]]
    unit = posterior.prior.parameters["scale"] ** 2
    np.testing.assert_allclose(posterior.prior.covariance(Z), unit * np.array(expected))


def test_condition_refuses_points_that_are_no_candidates() -> None:
    elsewhere = Dataset([[9.0, 9.0]], [1.0], [1.0], [1.0])
    with pytest.raises(ValueError, match=r"point \[9"):
        posterior_at(readings=elsewhere)


PLACES = np.random.default_rng(1).uniform(0, 4, (6, 2))
EVERYWHERE = SpatialSpec("matern12", 0.4)


def reading(rng: np.random.Generator, n: int = 2) -> Readings:
    rows = rng.permutation(len(PLACES))[:n]
    return Readings(rows, rng.standard_normal(n), rng.uniform(0.05, 0.2, n))


def history(steps: int, seed: int = 0) -> list[tuple[float, Readings]]:
    rng = np.random.default_rng(seed)
    return [(float(t), reading(rng)) for t in range(1, steps + 1)]


def buffer_of(
    readings: list[tuple[float, Readings]], start: ReplayBuffer | None = None
) -> ReplayBuffer:
    buffer = ReplayBuffer(FilterEnsemble.of(PLACES, 0.1)) if start is None else start
    for t, each in readings:
        buffer = buffer.add(t, each)
    return buffer


def ensemble_in_order(readings: list[tuple[float, Readings]]) -> FilterEnsemble:
    ensemble = FilterEnsemble.of(PLACES, 0.1)
    for t, each in readings:
        ensemble = ensemble.update(*each, t)
    return ensemble


def test_replay_buffer_counts_late_readings_at_their_own_time() -> None:
    readings = history(CONFIG.replay_times + 5)
    late = [*readings[:-4], *readings[-3:], readings[-4]]  # the fourth last comes at the end
    assert is_same_value(buffer_of(late).latest, ensemble_in_order(readings))
    # Also in the first steps, when the second time determines the length of a step.
    assert is_same_value(
        buffer_of([readings[0], readings[2], readings[1]]).latest, ensemble_in_order(readings[:3])
    )
    # The earliest of all may come last.
    assert is_same_value(
        buffer_of([readings[1], readings[0]]).latest, ensemble_in_order(readings[:2])
    )


def test_replay_buffer_keeps_the_order_of_readings_of_one_time() -> None:
    readings, rng = history(5), np.random.default_rng(9)
    more = [(3.0, reading(rng)), (5.0, reading(rng))]
    expected = ensemble_in_order([*readings[:3], more[0], *readings[3:], more[1]])
    assert is_same_value(buffer_of([*readings, *more]).latest, expected)
    assert is_same_value(buffer_of([*readings, *more[::-1]]).latest, expected)


def test_replay_buffer_at_ignores_later_readings() -> None:
    readings = history(6)
    buffer = buffer_of(readings)
    for t in (1.0, 3.0, 3.5, 6.0, 9.0):
        earlier = [each for each in readings if each[0] <= t]
        assert is_same_value(buffer.at(t), ensemble_in_order(earlier))
    assert not buffer.at(0.5).filters  # before any reading


def test_replay_buffer_is_bounded() -> None:
    sizes = []
    for steps in (CONFIG.replay_times + 5, CONFIG.replay_times + 30, CONFIG.replay_times + 60):
        buffer = buffer_of(history(steps))
        assert len(buffer.times) == CONFIG.replay_times
        sizes.append(len(pickle.dumps(buffer)))
    assert max(sizes) <= 1.01 * sizes[0]


def test_replay_buffer_counts_earlier_readings_with_effective_noise() -> None:
    buffer = buffer_of(history(CONFIG.replay_times + 9))
    begins = buffer.start.time
    old = Readings(np.array([2]), np.array([3.0]), np.array([0.1]))
    after = buffer.add(begins - 1.5, old)
    noise = compute_effective_noise(buffer.start, 1.5, old.variance)
    assert noise > 0.1
    assert is_same_value(after.start, buffer.start.update(old.rows, old.values, noise, begins))
    assert after.latest.predict(20.0).mean[2] > buffer.latest.predict(20.0).mean[2]
    # A reading that is far too old changes nothing.
    assert (
        buffer.add(begins - 1e9, old) is buffer
        or not np.isfinite(compute_effective_noise(buffer.start, 1e9, old.variance)).any()
    )


@pytest.mark.parametrize("smooth", [False, True])
def test_effective_noise_gives_the_conditional_variance(smooth: bool) -> None:
    one = ModelSpec(EVERYWHERE, EVERYWHERE, 0.0, 1.0, 0.0, 0.0, np.inf, 4.0, 3.0, smooth)
    ensemble = replace(FilterEnsemble.of(PLACES, 0.1, (one,)), step_length=1.0)
    ensemble = ensemble.update([0], np.array([1.0]), None, 0.0)
    (unit,) = ensemble.filters[0].variance
    x = 3.0 / 4.0 * (np.sqrt(3.0) if smooth else 1.0)
    r = (1.0 + x if smooth else 1.0) * np.exp(-x)  # Matern-3/2 or -1/2 over three steps
    noise = compute_effective_noise(ensemble, 3.0, np.array([0.2]))
    # The variance of f_now given a reading of f_then, and given one of f_now with that noise.
    remaining_variance = unit - (r * unit) ** 2 / (unit + 0.2)
    np.testing.assert_allclose(unit - unit**2 / (unit + noise), remaining_variance, rtol=1e-12)


def test_ensemble_advance_changes_no_forecast() -> None:
    ensemble = buffer_of(history(6)).latest
    later = ensemble.advance(7.5)
    ahead, again = ensemble.predict(9.0), later.predict(9.0)
    for name in ("mean", "deviation", "learnable"):
        np.testing.assert_allclose(getattr(ahead, name), getattr(again, name), rtol=1e-9)
    assert ensemble.advance(ensemble.time) is ensemble
    none = FilterEnsemble.of(PLACES, 0.1)
    assert none.advance(3.0) is none


def test_replay_buffer_add_leaves_the_buffer_unchanged() -> None:
    readings = history(6)
    buffer = buffer_of(readings)
    before: Array = buffer.latest.predict(8.0).mean.copy()
    buffer.add(4.5, readings[0][1])
    buffer.add(6.0, readings[1][1])
    buffer.add(7.0, readings[2][1])
    np.testing.assert_array_equal(buffer.latest.predict(8.0).mean, before)


def test_predict_by_kriging_from_200_candidates_is_close_to_all(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    bandit = policies.adaptive_gp_ucb(
        Candidates(rng.uniform(0.0, 1.0, (300, 2))), noise_variance=0.01
    )
    for t in range(1, 13):
        X = bandit.ask(t)
        bandit.tell(X, np.sin(5.0 * X[:, 0] + 0.1 * t), t)
    others = rng.uniform(0.0, 1.0, (20, 2))
    from_all = bandit.predict(others, 13)
    monkeypatch.setattr(
        posterior_module, "CONFIG", replace(posterior_module.CONFIG, kriging_points=200)
    )
    mean, deviation = bandit.predict(others, 13)
    assert mean == pytest.approx(from_all[0], abs=1e-3)
    assert deviation == pytest.approx(from_all[1], abs=0.03)  # rough models predict less from fewer
    monkeypatch.setattr(
        posterior_module, "CONFIG", replace(posterior_module.CONFIG, kriging_points=5)
    )
    assert not np.allclose(bandit.predict(others, 13)[0], from_all[0], atol=2e-3)


# --- long histories -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "fewest", "row"), [(1, 0, 5), (2, 0, 3), (2, 4, 2), (2, 7, 0), (9, 0, 0), (2, 99, 0)]
)
def test_find_start_of_latest_counts_times_and_readings(count: int, fewest: int, row: int) -> None:
    times = np.array([1.0, 1.0, 2.0, 3.0, 3.0, 4.0])
    assert find_start_of_latest(times, count, fewest) == row


@pytest.fixture
def few_times(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lower the number of times that the models of a new ensemble read."""
    few = replace(CONFIG, latest_times=12, latest_readings=1)
    monkeypatch.setattr(posterior_module, "CONFIG", few)
    return few.latest_times


def test_new_ensemble_reads_the_latest_times_and_keeps_all_data(few_times: int) -> None:
    readings, rule = observations(60), ModelEnsemble(season=None)
    latest = readings.take(readings.t > 60 - few_times)
    posterior, short = (posterior_at(60.0, each, rule) for each in (readings, latest))
    assert len(posterior.data) == 120
    assert (posterior.first_time, posterior.earlier_times) == (49.0, 48)
    assert is_same_value(posterior.buffer.latest, short.buffer.latest)
    # Both continue alike, and count a late reading from before the first time of the ensemble.
    more = observations(61, seed=0).take(slice(120, None))
    late = Dataset(POINTS[:1], np.array([20.0]), np.array([9.0]), np.array([0.01]))
    both = [
        posterior_at(61.0, each.append(more).append(late), rule, before)
        for each, before in ((readings, posterior), (latest, short))
    ]
    np.testing.assert_array_equal(both[0].forecast.mean, both[1].forecast.mean)


def test_empirical_covariance_of_a_long_history_uses_all_of_its_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = replace(CONFIG, latest_times=24, latest_readings=1)
    monkeypatch.setattr(posterior_module, "CONFIG", few)
    rng = np.random.default_rng(5)
    table = 4.0 + rng.multivariate_normal(np.zeros(9), np.eye(9) + 0.8, 200)
    t = np.repeat(np.arange(200.0), 9)
    X, y = np.tile(POINTS, (200, 1)), table.ravel()
    posterior = posterior_at(199.0, Dataset(X, t, y, np.full(len(y), 0.01)), ModelEnsemble())
    spaces = [each.drift_space for each in posterior.buffer.latest.current_models]
    estimated = next(each for each in spaces if isinstance(each, EmpiricalSpace))
    # After 16 times the ensemble estimates it from these times and the 176 before.
    expected = empirical_models(table[:192], 1.0)[0].drift_space
    assert isinstance(expected, EmpiricalSpace)
    np.testing.assert_allclose(estimated.variances, expected.variances)
