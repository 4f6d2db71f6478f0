"""Gross errors among the readings: set aside, unless other readings agree with them."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.recipes import build
from tvbandits import Answers, Arms, Bandit, Box, Campaign, Candidates, Options, Space, policies
from tvbandits.bandit.outliers import CONFIG, find_agreement, find_isolated_readings
from tvbandits.data import Dataset, Outliers
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.state_space import FeatureRows, Filter
from tvbandits.validation import Array

SITES = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
BOX = Box([(0.0, 1.0), (0.0, 1.0)])
# Errors of readings, by step.
ERRORS = {12: 14.0, 19: -30.0, 20: 45.0, 21: -12.0, 26: 20.0}


def truth(X: Array, t: float) -> Array:
    """Return a bump that moves, on either domain."""
    centre = 0.4 + 0.1 * np.sin(0.1 * t)
    return np.asarray(
        np.exp(-(((X / (10.0 if X.shape[1] == 1 else 1.0)) - centre) ** 2).sum(1) / 0.1)
    )


class RefusingExpert:
    """An expert that refuses all queries."""

    def query(self, X: Array, _t: float) -> Answers:
        return Answers.none(len(X))


REFUSING = RefusingExpert()
MAKERS: dict[str, Callable[..., Bandit]] = {
    "ensemble": partial(build, policies.adaptive_gp_ucb, SITES, noise_variance=0.01),
    "fitted": partial(build, policies.adaptive_gp_ucb, SITES, noise_variance=0.01, refit=10),
    "on a box": partial(build, policies.adaptive_gp_ucb, BOX, noise_variance=0.01),
    "frugal": partial(build, policies.frugal_gp_ucb, SITES, noise_variance=0.01, expert=REFUSING),
    "tv": partial(build, policies.tv_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01),
    "w": partial(build, policies.w_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01),
    "w on a dictionary": partial(
        build, policies.w_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01, posterior="nystrom"
    ),
    "ui": partial(build, policies.ui_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01),
    "time as input": partial(build, policies.time_gp_ucb, SITES, noise_variance=0.01),
    "sparq": partial(
        build, policies.sparq_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01, expert=REFUSING
    ),
    "learned noise": partial(build, policies.adaptive_gp_ucb, SITES),
    "minimizing": partial(
        build, policies.tv_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01, minimize=True
    ),
}


def play(
    bandit: Bandit, steps: int, wrong: Any = None, drop: bool = False, first: int = 1
) -> Bandit:
    """Play some steps, with errors of some readings, or with failed readings in their place."""
    errors = ERRORS if wrong is None else wrong
    rng = np.random.default_rng([5, first])
    for t in range(first, steps + 1):
        X = bandit.ask(t)
        y = truth(X, t) + 0.1 * rng.standard_normal(len(X))
        y += np.nan if drop and t in errors else errors.get(t, 0.0)
        bandit.tell(X, y, t)
    return bandit


@pytest.mark.parametrize("name", MAKERS)
def test_robust_treats_gross_errors_as_failed_readings(name: str) -> None:
    """The oracle is a bandit that is told NaN in their place, compared bitwise."""
    steps = 30 if name not in ("on a box", "time as input") else 22
    robust = play(MAKERS[name](options=Options(robust=True)), steps)
    times = [t for t in ERRORS if t <= steps]
    assert robust.state.outliers.observations.t.tolist() == times
    oracle = play(MAKERS[name](), steps, drop=True)
    assert oracle.state.failed.t.tolist() == times
    assert np.array_equal(robust.state.rewards.X, oracle.state.rewards.X)
    visited = robust.state.visited
    np.testing.assert_array_equal(robust.predict(visited), oracle.predict(visited))
    assert (robust.info.readings, robust.info.outliers) == (steps, len(times))
    assert (robust.history["kind"] == "outlier").sum() == len(times)
    assert robust.noise == oracle.noise


@pytest.mark.parametrize("name", MAKERS)
def test_robust_changes_nothing_without_gross_errors(name: str) -> None:
    steps = 24 if name not in ("on a box", "time as input") else 18
    robust, plain = (
        play(MAKERS[name](options=Options(robust=each)), steps, {}) for each in (True, False)
    )
    assert robust.state == plain.state


@pytest.mark.parametrize("name", ["ensemble", "fitted", "tv", "w"])
@pytest.mark.parametrize("size", [12.0, -40.0])
def test_robust_accepts_a_change_after_at_most_three_readings(name: str, size: float) -> None:
    changed = dict.fromkeys(range(31, 41), size)
    bandit = play(MAKERS[name](options=Options(robust=True)), 33, changed)
    assert bandit.state.outliers is None
    later = play(bandit, 40, changed, first=34)
    assert later.state.outliers is None
    assert abs(float(later.state.rewards.y[-1]) - size) < 2.0


@pytest.mark.parametrize("level", [8.0, 11.0])
def test_robust_accepts_a_change_to_an_earlier_level_at_once(level: float) -> None:
    """The earlier reading may be old, and at another point."""
    bandit = MAKERS["tv"](options=Options(robust=True), mean=0.0)
    for t in range(1, 50):
        x, y = (2.0, 0.0) if t > 20 else (0.5 * t, 0.5 * t)
        bandit.tell([[x]], [y], t)
    bandit.tell([[2.0]], [level], 50)
    assert bandit.state.outliers is None


@pytest.mark.parametrize("first", [1, 3, 5])
def test_robust_finds_an_error_among_the_first_readings(first: int) -> None:
    bandit = play(MAKERS["ensemble"](options=Options(robust=True)), 16, {first: 25.0})
    assert bandit.state.outliers.observations.t.tolist() == [first]


def test_robust_finds_the_same_outliers_at_once_or_one_by_one() -> None:
    rng = np.random.default_rng(1)
    X, t = SITES.sample(40, rng), np.arange(1.0, 41.0)
    y = np.array([truth(x[None], s)[0] for x, s in zip(X, t, strict=True)])
    y += 0.1 * rng.standard_normal(40)
    y[[7, 20, 21]] += [20.0, -15.0, 33.0]
    one, other = (MAKERS["tv"](options=Options(robust=True)) for _ in range(2))
    one.tell(X, y, t)
    for i in range(40):
        other.tell(X[i : i + 1], y[i : i + 1], t[i])
    for bandit in (one, other):
        assert bandit.state.outliers.rows.tolist() == [7, 20, 21]
    assert np.array_equal(one.state.readings.y, y)


def test_robust_finds_outliers_among_many_readings_of_one_time() -> None:
    bandit, rng = (
        play(MAKERS["ensemble"](options=Options(robust=True)), 20, {}),
        np.random.default_rng(2),
    )
    y = truth(X := SITES.sample(1100, rng), 21) + 0.1 * rng.standard_normal(1100)
    y[[7, 600]] += [40.0, -30.0]
    bandit.tell(X, y, 21)
    assert (bandit.state.outliers.rows - 20).tolist() == [7, 600]


def test_correct_and_from_state_bring_outliers_back() -> None:
    bandit = play(MAKERS["ensemble"](options=Options(robust=True)), 24)
    without_robust = Bandit.from_state(
        replace(bandit.recipe, options=Options(robust=False)), bandit.state
    )
    assert without_robust.state.outliers is None
    assert without_robust.state.rewards.t.tolist() == list(range(1, 25))  # in the original order
    X, t = bandit.state.readings.X, bandit.state.readings.t
    bandit.correct(X[18:21], truth(X[18:21], 20.0), t[18:21])
    assert bandit.state.outliers.observations.t.tolist() == [12]
    assert bandit.retract(X[11:12], t[11:12]).outliers == 0
    assert bandit.info.readings == 23


def test_robust_keeps_equal_errors_aside_if_they_are_far_apart_in_time() -> None:
    assert (
        play(MAKERS["tv"](options=Options(robust=True)), 50, {20: 36.0, 45: 36.0}).info.outliers
        == 2
    )


@pytest.mark.parametrize("between", [True, False])
def test_robust_keeps_equal_errors_aside_if_a_normal_reading_is_between(between: bool) -> None:
    bandit = play(MAKERS["tv"](options=Options(robust=True)), 30, {})
    x = bandit.state.rewards.X[-1:]
    for t, wrong in ((31, 20.0), (32, 20.0), (33, 0.0), (34, 20.0)):
        if wrong or between:
            bandit.tell(x, truth(x, t) + wrong, t)
    assert bandit.info.outliers == (3 if between else 0)


def test_robust_needs_more_agreement_among_more_errors() -> None:
    bandit = play(MAKERS["tv"](options=Options(robust=True)), 30, {})
    for t, wrong in enumerate((30.0, 47.0, -22.0, 13.0, 30.6, 30.2), 31):
        bandit.tell(x := np.array([[4.0 if t > 34 else 2.0 * (t - 31)]]), truth(x, t) + wrong, t)
        assert bandit.info.outliers == (3 if t == 36 else t - 30)


def test_tell_of_an_outlier_replaces_a_failed_reading() -> None:
    bandit = play(MAKERS["tv"](options=Options(robust=True)), 20, {})
    X = bandit.ask(21)
    bandit.tell(X, [np.nan], 21)
    bandit.tell(X, [99.0], 21)
    assert (len(bandit.state.failed), bandit.info.outliers) == (0, 1)


def test_robust_accepts_readings_if_more_than_half_would_be_outliers() -> None:
    wrong = {t: 20.0 * (-1.0) ** t + 3.0 * (t % 5) for t in range(31, 50)}
    assert play(MAKERS["w"](options=Options(robust=True)), 44, wrong).info.outliers <= 8


def test_from_state_without_robust_keeps_the_reset_of_the_event_trigger() -> None:
    """The first reading after a reset is the first of its time among all readings."""
    bandit = policies.et_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.01, options=Options(mean=0.0)
    )
    bandit = Bandit.from_state(replace(bandit.recipe, options=Options(robust=True)), bandit.state)
    for t in range(1, 40):
        bandit.tell([[5.0]], [-3.0 if t > 20 else 40.0 if t == 18 else 3.0], t)
    state = bandit.state
    assert len(state.outliers or ()) == 1
    assert (first := state.rewards.t[state.model.reset_index[0]]) > 18
    plain = Bandit.from_state(replace(bandit.recipe, options=Options(robust=False)), state).state
    assert plain.rewards.t[plain.model.reset_index[0]] == first


def test_find_agreement_matches_its_formula() -> None:
    """The oracle evaluates the formula pair by pair."""
    rng = np.random.default_rng(3)
    error, half = np.array([20.0, 20.3, -15.0, 20.4]), rng.standard_normal((4, 6))
    prior, noise = half @ half.T / 3.0, np.full(4, 0.04)
    expected = np.zeros((4, 4), dtype=bool)
    for i in range(4):
        odds = {}
        for j in range(4):
            spread = prior[i, i] + prior[j, j] - 2 * prior[i, j] + noise[i] + noise[j]
            size = max(abs(error[i]), abs(error[j]))
            odds[j] = np.log(size / spread**0.5) - (error[i] - error[j]) ** 2 / (2 * spread)
        some = [j for j in range(4) if j != i and odds[j] > 0]
        ways = math.comb(4, len(some) + 1)
        if sum(odds[j] for j in some) > CONFIG.agreement + math.log(ways) and len(some) > 1:
            expected[i, some] = True
    assert np.array_equal(find_agreement(error, prior, noise), expected)
    assert expected[0, 1] > expected[0, 2]
    assert not find_agreement(error[:2], 0.01 * prior[:2, :2], noise[:2]).any()


def test_find_isolated_readings_needs_enough_readings_and_no_neighbour() -> None:
    y = np.array([0.1, 0.5, 30.0, 0.3, 0.9])
    assert find_isolated_readings(y, 0.01).tolist() == [False, False, True, False, False]
    assert not find_isolated_readings(y[:4], 0.01).any()  # too few to compare with
    nearer = y / [1, 1, 10, 1, 1]
    assert not find_isolated_readings(nearer, 0.01).any()  # five readings have no reliable spread
    assert find_isolated_readings(np.append(nearer, np.tile(y[[0, 1, 3, 4]], 2)), 0.01)[2]
    assert not find_isolated_readings(np.append(y, 30.1), 0.01).any()


def test_outliers_merge_restores_the_original_order() -> None:
    rng = np.random.default_rng(0)
    data = Dataset(rng.random((9, 2)), np.arange(9.0), rng.random(9), np.ones(9))
    mask = rng.random(9) < 0.4
    outliers = Outliers.from_mask(data, mask)
    assert len(outliers) == mask.sum()
    merged = outliers.merge(data.take(~mask))
    for name in ("X", "t", "y", "variance", "source"):
        assert np.array_equal(getattr(merged, name), getattr(data, name))


def test_options_refuse_robust_with_a_control() -> None:
    recipe = policies.gp_ucb(SITES, kernel=RBF(2.0), noise_variance=0.01).recipe
    with pytest.raises(ValueError, match="robust=True"):
        replace(recipe, options=Options(robust=True, control=[0.0]))


@pytest.mark.parametrize("arms", [True, False])
def test_robust_works_on_arms_and_spaces(arms: bool) -> None:
    domain: Any = Arms(["a", "b", "c"]) if arms else Space(speed=(0.0, 1.0), kind=["a", "b"])
    bandit = play(
        policies.adaptive_gp_ucb(domain, noise_variance=0.01, options=Options(robust=True)),
        24,
        {20: 40.0},
    )
    assert bandit.state.outliers.observations.t.tolist() == [20]


def test_campaign_keeps_outliers_aside_and_records_all_readings(tmp_path: Path) -> None:
    """The journal contains all readings, and a later process finds the same outliers."""
    place = tmp_path / "c.db"
    bandit = MAKERS["tv"](options=Options(robust=True))
    rng = np.random.default_rng(5)
    with Campaign.create(place, bandit, snapshot_every=7) as campaign:
        for t in range(1, 25):
            X = campaign.ask(t)
            campaign.tell(X, truth(X, t) + 0.1 * rng.standard_normal(1) + ERRORS.get(t, 0.0))
        assert campaign.state.info.outliers == 4
        assert campaign.status.readings == 24
    with Campaign.open(place) as reopened:
        assert reopened.status.readings == 24  # from a snapshot and the rows after it
        readings = reopened.state.readings
        assert readings.t.tolist() == list(range(1, 25))
        reopened.correct(readings.X[18:21], [0.5, 0.5, 0.5], readings.t[18:21])
        assert reopened.state.info.outliers == 1
        assert reopened.verify().problems == ()


def test_tell_of_a_long_history_finds_outliers_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of updates is linear in the number of readings, not quadratic."""
    rng, n = np.random.default_rng(0), 45
    points = rng.uniform(0, 1, (6, 2))
    rows, t = rng.integers(6, size=n), np.arange(1.0, n + 1)
    y = np.sin(5 * points[rows, 0] + t / 30) + 0.1 * rng.standard_normal(n)
    y += 20.0 * (rng.random(n) < 0.1)
    updates, update = [0], FilterEnsemble.update

    def count_updates(ensemble: FilterEnsemble, *parts: Any) -> FilterEnsemble:
        updates[0] += 1
        return update(ensemble, *parts)

    monkeypatch.setattr(FilterEnsemble, "update", count_updates)

    def bandit() -> Bandit:
        return policies.adaptive_gp_ucb(
            Candidates(points), noise_variance=0.01, options=Options(robust=True)
        )

    at_once = bandit()
    at_once.tell(points[rows], y, t)
    assert updates[0] < 5 * n  # one pass, and some replays at the start
    one_by_one = bandit()
    for i in range(n):
        one_by_one.tell(points[rows[[i]]], y[[i]], t[i])
    outliers = [each.state.outliers for each in (at_once, one_by_one)]
    assert outliers[0] is not None
    assert outliers[1] is not None
    assert len(outliers[0]) > 1
    np.testing.assert_array_equal(outliers[0].rows, outliers[1].rows)
    np.testing.assert_array_equal(at_once.predict(points)[0], one_by_one.predict(points)[0])


def test_tell_of_a_long_history_on_a_box_filters_each_reading_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scale of the reward is learned on the way, as on a box."""
    rng, n = np.random.default_rng(0), 150
    X = rng.uniform(0, 1, (n, 1))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    y += rng.normal(0, 20, n) * (rng.random(n) < 0.05)
    steps, step = [0], Filter.step

    def count_steps(self: Filter, rows: FeatureRows, piece: slice) -> Any:
        steps[0] += 1
        return step(self, rows, piece)

    monkeypatch.setattr(Filter, "step", count_steps)

    def bandit() -> Bandit:
        return policies.adaptive_gp_ucb(
            Box([(0, 1)]), noise_variance=0.01, options=Options(robust=True)
        )

    at_once = bandit()
    at_once.tell(X, y, np.arange(1.0, n + 1))
    assert steps[0] < 8 * n  # one pass, and some for each of about ten estimates of the scale
    one_by_one = bandit()
    for i in range(n):
        one_by_one.tell(X[[i]], y[[i]], i + 1.0)
    outliers = [each.state.outliers for each in (at_once, one_by_one)]
    assert outliers[0] is not None
    assert outliers[1] is not None
    assert len(outliers[0]) > 1
    np.testing.assert_array_equal(outliers[0].rows, outliers[1].rows)


def test_tell_after_an_outlier_observes_no_earlier_reading_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An outlier does not make the ensemble observe all earlier readings again."""
    rng, n = np.random.default_rng(0), 60
    points = rng.uniform(0, 1, (6, 2))
    rows = rng.integers(6, size=n)
    y = np.sin(5 * points[rows, 0]) + 0.1 * rng.standard_normal(n)
    y[30] += 20.0
    bandit = policies.adaptive_gp_ucb(
        Candidates(points), noise_variance=0.01, options=Options(robust=True)
    )
    updates, update = [0], FilterEnsemble.update

    def count_updates(ensemble: FilterEnsemble, *parts: Any) -> FilterEnsemble:
        updates[0] += 1
        return update(ensemble, *parts)

    for i in range(n):
        if i == 32:
            monkeypatch.setattr(FilterEnsemble, "update", count_updates)
        bandit.tell(points[rows[[i]]], y[[i]], float(i))
    assert bandit.state.outliers is not None
    assert bandit.state.outliers.rows.tolist() == [30]
    assert updates[0] < 2 * (n - 32)
