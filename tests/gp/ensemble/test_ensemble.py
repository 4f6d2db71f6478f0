"""The ensemble of filters, against dense Gaussian processes and plain restatements of its rules."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_t

from tests.helpers.models import DAY, MIXED, POINTS, ROUGH, SMOOTH
from tvbandits import Candidates, policies
from tvbandits.bandit.state import same_value
from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble import ensemble, ensemble as module, rule
from tvbandits.gp.ensemble.catching_up import Read, Said, after
from tvbandits.gp.ensemble.ensemble import (
    FORGETTING,
    GUESS_OF_A_FUNCTION,
    THINNED_AT,
    TURN,
    UNIT_LEARNED_AT,
    FilterEnsemble,
)
from tvbandits.gp.ensemble.filters import CONSTANT, MOST_LEFT, Filters, filters_of, held
from tvbandits.gp.ensemble.models import (
    SMALL_NETWORK,
    ModelSpec,
    Season,
    SpatialSpec,
    function_settings,
)
from tvbandits.queries.plans import questions

TINY = 1e-13

SEASONAL = replace(ROUGH, season=DAY)
BOTH = replace(SMOOTH, season=DAY)
SETTINGS = {
    "rough": ROUGH,
    "smooth": SMOOTH,
    "mixed": MIXED,
    "seasonal": SEASONAL,
    "smooth and seasonal": BOTH,
}


def dense(setting: ModelSpec, rows: Array, times: Array) -> Array:
    """The prior covariance of the reward, written down term by term."""
    X = POINTS[rows]
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    extent = np.ptp(POINTS, axis=0).max()
    lag = np.abs(times[:, None] - times[None])
    rate = math.sqrt(3.0) * lag / setting.drift_scale
    fades = (1.0 + rate) * np.exp(-rate) if setting.smooth else np.exp(-lag / setting.drift_scale)
    again: Array | float = 0.0
    if (season := setting.season) is not None:
        waves = sum(
            variance * np.cos(2.0 * np.pi * (j + 1) * lag / season.period)
            for j, variance in enumerate(season.variances)
        )
        shared = 0.5 + 0.5 * season.space.correlation(distance, extent)
        again = waves * np.exp(-lag / (season.lasts * season.period)) * shared
    return np.asarray(
        again
        + CONSTANT
        + setting.trend * np.exp(-lag / setting.trend_scale)
        + setting.static
        * setting.static_space.correlation(distance, extent)
        * np.exp(-lag / setting.static_scale)
        + setting.drift * setting.drift_space.correlation(distance, extent) * fades
    )


def history(n: int = 24, seed: int = 1) -> tuple[Array, Array, Array]:
    """Rows, times (several of them equal, unevenly spaced) and values."""
    rng = np.random.default_rng(seed)
    times = np.repeat(np.cumsum(rng.choice([0.5, 1.0, 2.5], n // 3)), 3)
    return rng.integers(0, len(POINTS), n), times, rng.normal(0, 2, n)


def filtered(setting: ModelSpec, rows: Array, times: Array, y: Array) -> tuple[Filters, float]:
    """One model by the filter, and its log density of all that it has seen."""
    (filters,) = filters_of([setting], POINTS, 3.0)
    now, total = times[0], 0.0
    for t in np.unique(times):
        filters = filters.moved(t - now)
        at = times == t
        filters, seen = filters.observed(rows[at], y[at], np.full(at.sum(), TINY))
        now, total = t, total + float(seen.log_density[0])
    return filters, total


@pytest.mark.parametrize("name", SETTINGS)
def test_a_member_is_the_dense_process(name: str) -> None:
    setting = SETTINGS[name]
    rows, times, y = history()
    filters, _ = filtered(setting, rows, times, y)
    ahead = filters.moved(1.7)
    every = np.arange(len(POINTS))
    H = filters.layout.rows(every)
    n, at = len(rows), np.full(len(POINTS), times[-1] + 1.7)
    K = dense(setting, np.r_[rows, every], np.r_[times, at])
    solved = np.linalg.solve(K[:n, :n] + setting.nugget * np.eye(n), K[:n, n:])
    # Features end at a ten-thousandth of the variance; what they leave out counts as noise.
    close = 2e-3 if setting.smooth else 1e-7
    np.testing.assert_allclose(H @ ahead.mean[0], solved.T @ y, atol=5 * close)
    left = np.diag(ahead.layout.left[0])
    expected = K[n:, n:] - K[n:, :n] @ solved
    np.testing.assert_allclose(H @ ahead.covariance[0] @ H.T + left, expected, atol=close)


@pytest.mark.parametrize("name", ["rough", "mixed", "seasonal"])
def test_scale_and_density_are_those_of_the_conjugate_prior(name: str) -> None:
    setting = SETTINGS[name]
    rows, times, y = history()
    filters, log_density = filtered(setting, rows, times, y)
    data = dense(setting, rows, times) + setting.nugget * np.eye(len(y))
    squares = 3.0 + y @ np.linalg.solve(data, y)
    assert filters.variance[0] == pytest.approx(squares / (1 + len(y)), rel=1e-6)
    student = multivariate_t(shape=3.0 * data, df=1)
    assert log_density == pytest.approx(float(student.logpdf(y)), rel=1e-6)


def test_harmonics_are_those_of_the_periodic_kernel() -> None:
    season = Season(24.0, 2.0, SpatialSpec("identity"), harmonics=30)
    phase = np.linspace(0, 2 * np.pi, 50)
    kernel = np.exp(-2.0 * np.sin(phase / 2) ** 2 / season.length**2)
    mean = np.exp(-2.0 * np.sin(np.linspace(0, np.pi, 4096, endpoint=False)) ** 2 / 0.49).mean()
    series = np.cos(np.outer(phase, np.arange(1, 31))) @ season.variances
    np.testing.assert_allclose(series, 2.0 * (kernel - mean) / (1.0 - mean), atol=1e-9)


def test_a_season_counts_in_the_unit_of_time() -> None:
    ensemble = FilterEnsemble.of(POINTS, 0.04, [SEASONAL])
    for t in range(6):
        ensemble = ensemble.observe([t], np.array([np.sin(t)]), None, 0.5 * t)
    assert ensemble.members[0].season.period == pytest.approx(7.3 / 0.5)
    twin = FilterEnsemble.of(POINTS, 0.04, [replace(SEASONAL, season=replace(DAY, period=14.6))])
    for t in range(6):
        twin = twin.observe([t], np.array([np.sin(t)]), None, float(t))
    np.testing.assert_allclose(ensemble.predict(4.0).mean, twin.predict(8.0).mean, rtol=1e-9)


def played(
    ensemble: FilterEnsemble, steps: int, jump_at: int | None = None, wander: float = 0.1
) -> FilterEnsemble:
    """A ensemble that has read some places of a drifting field at every step."""
    rng = np.random.default_rng(3)
    field = rng.normal(0, 2, len(ensemble.points))
    for t in range(1, steps + 1):
        # What was high is low from then on.
        if t == jump_at:
            field = rng.permutation(-field)
        field = field + wander * rng.normal(size=len(field))
        rows = rng.choice(len(field), min(3, len(field)), replace=False)
        ensemble = ensemble.observe(rows[:1], field[rows[:1]], None, float(t))
        ensemble = ensemble.observe(rows[1:], field[rows[1:]], None, float(t))
    return ensemble


def test_weights_are_the_plain_rule() -> None:
    rivals = [ROUGH, replace(ROUGH, nugget=0.4), replace(ROUGH, drift_scale=20.0)]
    rng = np.random.default_rng(5)
    ensemble = FilterEnsemble.of(POINTS, 0.04, rivals)
    filters: list[Filters] = []
    score, spread = np.zeros(3), 0.0
    for t in range(12):
        rows, y = rng.choice(len(POINTS), 3, replace=False), rng.normal(4, 2, 3)
        ensemble = ensemble.observe(rows, y, None, float(t))
        if t == 0:
            guess = max(float(y.var()), 0.16)
            filters = [filters_of([each], POINTS, guess)[0] for each in rivals]
        log_density, squares = [], []
        for i in range(3):
            moved = filters[i].moved(1.0 if t else 0.0)
            errors = y - ensemble.origin - moved.layout.rows(rows) @ moved.mean[0]
            squares.append(((errors - errors.mean()) ** 2).sum())
            filters[i], seen = moved.observed(rows, y - ensemble.origin, np.full(3, 0.04))
            log_density.append(float(seen.log_density[0]))
        before = np.exp(score) / np.exp(score).sum()
        spread += max(0.02, 1 / (t + 1)) * (before @ np.array(squares) / 2 - spread)
        density = np.array(log_density) - np.array(squares) / (2 * (spread + 0.04))
        score = FORGETTING * score + density / 2
        np.testing.assert_allclose(ensemble.weights, np.exp(score) / np.exp(score).sum(), rtol=1e-8)


def test_beliefs_are_the_dense_covariances() -> None:
    rows, times, y = history()
    ensemble = replace(FilterEnsemble.of(POINTS, TINY, [ROUGH]), step=1.0)
    for t in np.unique(times):
        ensemble = ensemble.observe(rows[times == t], y[times == t], None, float(t))
    unit = float(ensemble.filters[0].variance[0])
    asked, every = np.array([0, 4, 7]), np.arange(len(POINTS))
    n, now = len(rows), times[-1]
    K = dense(ROUGH, np.r_[rows, asked, every], np.r_[times, [now] * 3, [now + 1.0] * len(every)])
    data = K[:n, :n] + ROUGH.nugget * np.eye(n)
    posterior = K[n:, n:] - K[n:, :n] @ np.linalg.solve(data, K[:n, n:])
    beliefs = ensemble.beliefs(float(now) + 1.0)
    np.testing.assert_allclose(beliefs.among(asked, asked), unit * posterior[:3, :3], atol=1e-6)
    np.testing.assert_allclose(beliefs.reach(asked), unit * posterior[:3, 3:], atol=1e-6)
    noise = np.full(len(POINTS), unit * ROUGH.nugget)
    np.testing.assert_allclose(beliefs.noise_variance, noise, rtol=1e-6)


def test_mixture_counts_what_members_disagree_about() -> None:
    far = replace(ROUGH, static_space=SpatialSpec("matern12", 0.5))
    ensemble = played(FilterEnsemble.of(POINTS, 0.04, [ROUGH, far]), 6)
    means, variances = [], []
    (both,) = ensemble.filters
    ahead, H = both.moved(1.0), both.layout.rows(np.arange(len(POINTS)))
    for i, setting in enumerate(ensemble.members):
        means.append(H @ ahead.mean[i])
        spread = np.einsum("ij,jk,ik->i", H, ahead.covariance[i], H) + ahead.layout.left[i]
        variances.append(float(both.variance[i]) * (spread + setting.nugget))
    w, m, v = ensemble.weights, np.array(means), np.array(variances)
    forecast = ensemble.predict(ensemble.time + 1.0)
    np.testing.assert_allclose(forecast.mean, ensemble.origin + w @ m)
    expected = ensemble.widening * np.sqrt(w @ (v + (m - w @ m) ** 2))
    np.testing.assert_allclose(forecast.deviation, expected)
    alone = played(FilterEnsemble.of(POINTS, 0.04, [ROUGH]), 6)
    said = alone.predict(alone.time + 1.0)
    nugget = float(alone.filters[0].variance[0]) * ROUGH.nugget
    both = np.hypot(said.learnable, alone.widening * np.sqrt(nugget))
    np.testing.assert_allclose(said.deviation, both)


def test_models_that_share_features_say_together_what_they_say_side_by_side(monkeypatch) -> None:
    models = (ROUGH, replace(ROUGH, smooth=True), MIXED, replace(MIXED, smooth=True))
    ensemble = FilterEnsemble.of(POINTS, 0.1, models)
    for t, row in enumerate([0, 2, 1, 2]):
        ensemble = ensemble.observe([row], np.array([float(t % 3)]), None, float(t))
    joined = ensemble.beliefs(5.0)
    every_layout = "tvbandits.gp.ensemble.filters.Layout.basis_key"
    monkeypatch.setattr(every_layout, property(lambda layout: str(id(layout))))
    apart = ensemble.beliefs(5.0)
    assert joined.mean == pytest.approx(apart.mean, rel=1e-12)
    assert joined.deviation == pytest.approx(apart.deviation, rel=1e-12)
    assert joined.reach([0, 2]) == pytest.approx(apart.reach([0, 2]), rel=1e-11)
    assert joined.among([0, 2], [1]) == pytest.approx(apart.among([0, 2], [1]), rel=1e-11)


@pytest.mark.parametrize(("where", "hazard"), [("far from both", 0.05), ("between", 0.2)])
def test_a_soft_reset_draws_the_state_to_the_prior(where: str, hazard: float) -> None:
    """By the chance that nothing started afresh: nu mean, nu^2 covariance + (1 - nu^2) prior."""
    rows, times, y = history()
    plain, _ = filtered(ROUGH, rows, times, y)
    soft = replace(plain, layout=filters_of([replace(ROUGH, hazard=hazard)], POINTS, 3.0)[0].layout)
    place, fresh = np.array([4, 7]), plain.restarted()
    near = plain.layout.rows(place) @ (0.95 * plain.mean[0] + 0.05 * fresh.mean[0])
    values = near if where == "between" else np.array([4.0, -3.0])
    told = place, values, np.full(2, 0.1)
    goes_on, starts = (each.observed(*told)[1].log_density[0] for each in (plain, fresh))
    nu = 1.0 / (1.0 + hazard / (1.0 - hazard) * math.exp(starts - goes_on))
    assert 0.6 < nu < 0.97
    after, _ = soft.observed(*told)
    drawn = replace(
        plain,
        mean=nu * plain.mean + (1.0 - nu) * fresh.mean,
        covariance=nu**2 * plain.covariance + (1.0 - nu**2) * fresh.covariance,
    )
    expected, _ = drawn.observed(*told)
    np.testing.assert_allclose(after.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(after.covariance, expected.covariance, rtol=1e-9)
    if where == "between":  # what is off least says how large the scale is
        np.testing.assert_allclose(after.squares, expected.squares, rtol=1e-9)


def test_noise_below_rounding_of_the_prior_is_raised() -> None:
    (filters,) = filters_of([replace(ROUGH, nugget=1e-14)], POINTS, 1.0)
    told = np.array([3]), np.zeros(1), np.full(1, 1e-16)
    filters, _ = filters.observed(*told)
    _, seen = filters.observed(*told)
    # What is left to know of the place is the noise of the first reading.
    left = 2 * filters.layout.floor * filters.variance
    np.testing.assert_allclose(seen.variances, left, rtol=1e-3)


def test_large_innovations_widen_the_deviations() -> None:
    ensemble = played(FilterEnsemble.of(POINTS, 0.04, [ROUGH]), 40)
    jumped = played(FilterEnsemble.of(POINTS, 0.04, [ROUGH]), 44, jump_at=41)
    assert jumped.innovation > 1.5 * ensemble.innovation
    assert jumped.coverage < ensemble.coverage
    assert ensemble.coverage == pytest.approx(0.95, abs=0.04)
    wide, t = replace(ensemble, innovation=4.0), ensemble.time + 1.0
    np.testing.assert_allclose(wide.predict(t).deviation, 2.0 * ensemble.predict(t).deviation)
    assert replace(ensemble, innovation=0.3).widening == 1.0


def test_large_banks_are_thinned_and_cost_stops_growing(monkeypatch) -> None:
    grid = np.linspace(0, 1, 101)[:, None]
    monkeypatch.setattr(module, "CAPACITY", 60_000)
    ensemble = played(FilterEnsemble.of(grid, 0.04), THINNED_AT[-1] + 2)
    assert sum(each.covariance.size for each in ensemble.filters) <= 60_000
    assert len(ensemble.weights) == len(ensemble.members)


def test_questions_are_distinct_and_discover() -> None:
    beliefs = played(FilterEnsemble.of(POINTS, 0.04), 6).beliefs(7.0)
    for asked in range(4):
        assert len(set(questions(beliefs, 5, asked).tolist())) == 5
    assert questions(beliefs, 1, 3)[0] == beliefs.deviation.argmax()
    assert len(questions(beliefs, 0)) == 0
    assert np.array_equal(questions(beliefs, 99), np.arange(len(POINTS)))


def test_an_innovation_counts_by_its_share_that_is_not_the_sensors() -> None:
    """Written down for one reading: its predictive variance, and what of it is not the sensor's."""
    (filters,) = filters_of([ROUGH], POINTS, 3.0)
    for y, noise in ((1.4, 2.0), (0.3, 5.0), (0.5, 0.1)):
        scale, row = float(filters.variance[0]), np.array([4])
        H = filters.layout.rows(row)
        field = float((H @ filters.covariance[0] @ H.T).item()) + ROUGH.nugget
        spread, error = field + noise / scale, y - float((H @ filters.mean[0]).item())
        told = field / spread
        after, _ = filters.observed(row, np.array([y]), np.array([noise]))
        np.testing.assert_allclose(after.count, filters.count + told)
        np.testing.assert_allclose(after.squares, filters.squares + told * error**2 / spread)
        filters = after


def test_a_function_is_not_taken_for_flat_where_one_point_is_played_nor_for_its_noise() -> None:
    """Its first readings say how far it varies; 150 of its peak alone leave most of that."""
    x, rng = np.linspace(0.0, 1.0, 80)[:, None], np.random.default_rng(5)
    ensemble = FilterEnsemble.of(x, 0.01)
    for t in range(170):
        row = int(rng.integers(80)) if t < 20 else 40
        truth = np.sin(9.0 * x[row, 0])
        ensemble = ensemble.observe([row], np.array([truth + 0.1 * rng.standard_normal()]), None, t)
    assert 0.35 < math.sqrt(float(ensemble.weights @ ensemble.scales)) < 1.5
    loud = FilterEnsemble.of(x, 4.0)
    for t in range(20):
        loud = loud.observe([37 * t % 80], 2.0 * rng.standard_normal(1), None, t)
    assert 0.4 < float(loud.weights @ loud.scales) < 4.0


@pytest.mark.parametrize("noise", [1e-12, 0.01, 1e12])
@pytest.mark.parametrize("value", [0.0, 5.0, -1e3])
def test_told_a_constant_it_expects_that_constant(noise: float, value: float) -> None:
    ensemble = FilterEnsemble.of(POINTS, noise)
    for t in range(40):
        ensemble = ensemble.observe([t % 4], np.array([value]), None, float(t))
        forecast = ensemble.predict(t + 1.0)
        off = np.abs(forecast.mean - value)
        assert (off <= 1e-6 * np.minimum(forecast.deviation, max(1.0, abs(value)))).all()
        assert (forecast.learnable > 0).all()


def test_length_scales_of_a_function_grow_with_the_distances_between_points() -> None:
    one, four = (
        [each.drift_space.length for each in function_settings(dimension)] for dimension in (1, 4)
    )
    np.testing.assert_allclose(four, 2.0 * np.array(one))
    plane = np.random.default_rng(0).uniform(size=(SMALL_NETWORK + 1, 2))
    assert FilterEnsemble.of(plane, 0.01).settings == function_settings(2)


def test_models_whose_features_leave_much_are_not_taken_unless_all_are_such() -> None:
    scattered = np.random.default_rng(0).uniform(size=(200, 3))
    taken = FilterEnsemble.of(scattered, 0.01).settings
    lengths = sorted({each.drift_space.length for each in function_settings(3)})
    assert {each.drift_space.length for each in taken} == set(lengths[2:])
    for (filters,) in (filters_of([each], scattered, 1.0) for each in taken):
        assert filters.layout.left.mean() <= MOST_LEFT
    shortest = function_settings(3)[:1]
    assert held(shortest, scattered) == shortest
    assert FilterEnsemble.of(scattered, 0.01, function_settings(3)).settings == function_settings(3)


def test_beginning_again_comes_to_about_what_one_reading_after_the_other_does() -> None:
    rng, steps = np.random.default_rng(4), UNIT_LEARNED_AT[-1]
    line = np.linspace(0.0, 1.0, SMALL_NETWORK + 1)[:, None]
    rows, t = rng.integers(0, len(line), steps + 1), np.arange(steps + 1.0)
    y = 3.0 + np.sin(6.0 * line[rows, 0] + 0.1 * t) + 0.1 * rng.normal(size=steps + 1)
    bank = FilterEnsemble.of(line, 0.01)
    told = [(rows[i : i + 1], y[i : i + 1], None, t[i]) for i in range(steps + 1)]
    for each in told:
        bank = bank.observe(*each)
    plain = FilterEnsemble.of(line, 0.01, function_settings())
    plain = replace(plain, guess=GUESS_OF_A_FUNCTION)
    plain = plain._in_unit(float(np.median(y[:-1])), float(y[:-1].var()), 1.0)
    plain = replace(plain, guess=1.0)  # of a scale that is taken for known: it does not begin again
    for each in told:
        plain = plain.observe(*each)
    ours, other = bank.predict(steps + 1.0), plain.predict(steps + 1.0)
    assert np.abs(ours.mean - other.mean).max() < 0.2 * other.learnable.max()
    # How wide innovations have shown deviations to be is learned anew.
    expected = other.learnable / plain.widening
    np.testing.assert_allclose(ours.learnable / bank.widening, expected, rtol=0.15)


def test_of_many_candidates_a_few_hundred_tell_another_point_as_all_do(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    bandit = policies.adaptive_gp_ucb(
        Candidates(rng.uniform(0.0, 1.0, (300, 2))), noise_variance=0.01
    )
    for t in range(1, 13):
        X = bandit.ask(t)
        bandit.tell(X, np.sin(5.0 * X[:, 0] + 0.1 * t), t)
    others = rng.uniform(0.0, 1.0, (20, 2))
    everyone = bandit.predict(others, 13)
    monkeypatch.setattr(rule, "MOST_TELLING", 200)
    mean, deviation = bandit.predict(others, 13)
    assert mean == pytest.approx(everyone[0], abs=1e-3)
    assert deviation == pytest.approx(everyone[1], abs=0.03)  # of what is rough, less is told
    monkeypatch.setattr(rule, "MOST_TELLING", 5)
    assert not np.allclose(bandit.predict(others, 13)[0], everyone[0], atol=2e-3)


# --- inactive models: what is believed without them, and that they come back

GRID = np.linspace(0.0, 1.0, 70)[:, None]
STEPS = 60


def wave(t: float) -> Array:
    return np.asarray(np.sin(7.0 * GRID[:, 0] + 0.05 * t))


def played_with_a_jump(
    steps: int = STEPS,
    jump_at: int | None = None,
    ensemble: FilterEnsemble | None = None,
    begin: int = 1,
) -> FilterEnsemble:
    """Three readings of a wave a step; at a jump it turns over."""
    rng, ensemble = np.random.default_rng([4, begin]), ensemble or FilterEnsemble.of(GRID, 0.01)
    for t in range(begin, begin + steps):
        rows = rng.choice(len(GRID), 3, replace=False)
        sign = -1.0 if jump_at is not None and t >= jump_at else 1.0
        y = sign * wave(t)[rows] + 0.1 * rng.standard_normal(3)
        ensemble = ensemble.observe(rows[:1], y[:1], None, float(t))
        ensemble = ensemble.observe(rows[1:], y[1:], None, float(t))
    return ensemble


def inactive_in(ensemble: FilterEnsemble) -> int:
    return sum(len(each.filters) for each in ensemble._inactive.groups)


def test_what_is_believed_is_next_to_what_all_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = played_with_a_jump()
    assert inactive_in(ensemble) > len(ensemble.settings) / 2
    monkeypatch.setattr(module, "ACTIVE", 1e-300)
    everyone = played_with_a_jump()
    assert inactive_in(everyone) == 0
    one, other = ensemble.predict(STEPS + 1.0), everyone.predict(STEPS + 1.0)
    np.testing.assert_allclose(one.mean, other.mean, atol=0.02)
    np.testing.assert_allclose(one.deviation, other.deviation, rtol=0.05)


def test_nobody_is_lost_and_who_is_inactive_is_never_far_behind() -> None:
    ensemble = played_with_a_jump()
    for steps in range(STEPS, STEPS + TURN):
        ensemble = played_with_a_jump(1, ensemble=ensemble, begin=steps + 1)
        inactive = [each for group in ensemble._inactive.groups for each in group.filters.settings]
        everyone = sorted(map(repr, (*ensemble.members, *inactive)))
        assert everyone == sorted(map(repr, ensemble.settings))
        assert len(ensemble._inactive.backlog) <= TURN
        for each in ensemble._inactive.groups:
            assert ensemble.time - each.time <= TURN + 1


def test_a_jump_brings_back_those_that_can_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = 41
    ensemble = played_with_a_jump(jump + 6, jump_at=jump)
    monkeypatch.setattr(module, "ACTIVE", 1e-300)
    everyone = played_with_a_jump(jump + 6, jump_at=jump)
    at = jump + 7.0
    off, without = (np.abs(e.predict(at).mean + wave(at)).mean() for e in (ensemble, everyone))
    assert off < 1.2 * without + 0.02


def test_nobody_falls_below_the_least_weight() -> None:
    ensemble = played_with_a_jump()
    over = ensemble._inactive.backlog[-1]._replace(t=ensemble.time + 1.0)
    given = ensemble.filters, ensemble._score - 1e6, over, None, ensemble.step
    _, score, _ = ensemble._inactive.turned(*given)
    assert score.min() >= score.max() + math.log(module.ACTIVE)


def test_what_is_inactive_is_stored() -> None:
    ensemble = played_with_a_jump()
    again = pickle.loads(pickle.dumps(ensemble))
    assert same_value(ensemble, again)
    for t in range(STEPS + 1, STEPS + 1 + TURN):
        y = wave(t)[[3]]
        ensemble, again = (each.observe([3], y, None, float(t)) for each in (ensemble, again))
    assert same_value(ensemble, again)


# --- readings of several steps taken in at once, against the filter that takes them one after the other


GROUPS = {
    "rough": [ROUGH, replace(ROUGH, drift_space=SpatialSpec("matern12", 0.9), drift_scale=7.0)],
    "smooth": [SMOOTH, replace(SMOOTH, drift_scale=2.5, trend=0.4)],
    "mixed": [MIXED, replace(MIXED, nugget=0.4, static_scale=math.inf)],
    "seasonal": [
        replace(ROUGH, season=DAY),
        replace(ROUGH, season=replace(DAY, period=4.0, variance=0.2, lasts=9.0)),
    ],
    "smooth and seasonal": [
        replace(SMOOTH, season=DAY),
        replace(SMOOTH, season=replace(DAY, length=0.4)),
    ],
}


def reads(seed: int, counts: tuple[int, ...] = (1, 3, 4, 1, 2, 3)) -> list[Read]:
    """Uneven times and numbers of places, some of them twice."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0.5, 1.0, 2.5], len(counts)))
    return [
        Read(float(t), rng.integers(0, 9, n), rng.normal(0, 2, n), np.full(n, TINY))
        for t, n in zip(times, counts, strict=True)
    ]


def one_by_one(filters: Filters, told: list[Read]) -> tuple[Filters, Said]:
    now, density, squares = 0.0, [], []
    for h, rows, values, noise, *_ in told:
        filters, seen = filters.moved(h - now).observed(rows, values, noise)
        density.append(seen.log_density)
        off = seen.errors - (seen.errors.mean(axis=1, keepdims=True) if len(rows) > 1 else 0.0)
        squares.append((off**2).sum(axis=1))
        now = h
    return filters, Said(np.array(density), np.array(squares))


@pytest.mark.parametrize("counts", [(1, 3, 4, 1, 2, 3), (300,)])
@pytest.mark.parametrize("name", GROUPS)
def test_at_once_is_one_after_the_other(name: str, counts: tuple[int, ...]) -> None:
    """Of one time with many readings, in parts."""
    (filters,) = filters_of(GROUPS[name], POINTS, 3.0)
    filters, _ = one_by_one(filters, reads(1))
    one, said = after(filters, 0.0, reads(2, counts), 1.0)
    other, expected = one_by_one(filters, reads(2, counts))
    for field in ("mean", "covariance", "squares", "count"):
        found, right = getattr(one, field), getattr(other, field)
        np.testing.assert_allclose(found, right, rtol=1e-7, atol=1e-9, err_msg=field)
    np.testing.assert_allclose(said.log_density, expected.log_density, rtol=1e-7)
    np.testing.assert_allclose(said.squares, expected.squares, rtol=1e-7, atol=1e-9)
    assert one.settings == filters.settings


def never_afresh(filters: Filters) -> Filters:
    settings = tuple(replace(each, hazard=0.0) for each in filters.settings)
    return replace(filters, layout=replace(filters.layout, settings=settings))


@pytest.mark.parametrize(("jump", "hazard"), [(0.0, 0.01), (0.0, 0.2), (4.0, 0.1), (30.0, 0.01)])
def test_members_start_afresh_before_all_of_it_or_not_at_all(jump: float, hazard: float) -> None:
    """The soft reset written down for one member, beside a twin that never starts afresh."""
    lasting = replace(MIXED, static=0.95, drift=0.05, static_scale=math.inf, nugget=0.02)
    (filters,) = filters_of([lasting, replace(lasting, hazard=hazard)], POINTS, 3.0)
    filters, _ = one_by_one(never_afresh(filters), reads(1))
    told = [each._replace(values=jump + each.values) for each in reads(2)]
    stays, on = one_by_one(filters, told)
    _, off = one_by_one(fresh := never_afresh(filters.restarted()), told)
    going = (1.0 - hazard) ** len(told)
    mixed = np.logaddexp(
        math.log(going) + on.log_density.cumsum(axis=0)[:, 1],
        math.log(1.0 - going) + off.log_density.cumsum(axis=0)[:, 1],
    )
    chance = going * np.exp(on.log_density.sum(axis=0)[1] - mixed[-1])
    kept = 1.0 if chance >= 0.99 else chance if chance > 0.5 else 0.0
    expected = stays
    if kept < 1.0:
        mean = kept * filters.mean + (1.0 - kept) * fresh.mean
        covariance = kept**2 * filters.covariance + (1.0 - kept**2) * fresh.covariance
        expected, _ = one_by_one(replace(filters, mean=mean, covariance=covariance), told)
    settings = (lasting, replace(lasting, hazard=hazard))
    known = replace(filters, layout=replace(filters.layout, settings=settings))
    found, said = after(known, 0.0, told, 1.0)
    np.testing.assert_allclose(said.log_density[:, 0], on.log_density[:, 0], rtol=1e-7)
    np.testing.assert_allclose(said.log_density[:, 1].cumsum(axis=0), mixed, rtol=1e-7)
    np.testing.assert_allclose(found.mean[0], stays.mean[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.mean[1], expected.mean[1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.covariance[1], expected.covariance[1], rtol=1e-6, atol=1e-8)
    assert found.settings == settings


@pytest.mark.parametrize("count", [100, 300])
def test_no_more_readings_than_some_are_taken_in_at_once(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Their cost is cubic, whether they are of several steps or of one."""
    taken, factors = [0], linalg._factors_each
    monkeypatch.setattr(linalg, "_factors_each", lambda A: taken.append(A.shape[1]) or factors(A))
    bank, rng = FilterEnsemble.of(POINTS, 0.1), np.random.default_rng(3)
    for t in range(40):
        rows = rng.integers(0, 9, count)
        bank = bank.observe(rows, (rng.random(count) < 0.1 + 0.2 * (rows == 4)) * 1.0, None, t)
    assert 100 <= max(taken) <= ensemble.MOST_TOGETHER
