"""Gross errors among the readings: set aside, unless others agree with them."""

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
# At steps: by how much a reading is wrong.
ERRORS = {12: 14.0, 19: -30.0, 20: 45.0, 21: -12.0, 26: 20.0}


def truth(X: Array, t: float) -> Array:
    """A bump that moves, on both domains."""
    centre = 0.4 + 0.1 * np.sin(0.1 * t)
    return np.asarray(
        np.exp(-(((X / (10.0 if X.shape[1] == 1 else 1.0)) - centre) ** 2).sum(1) / 0.1)
    )


class Nobody:
    """Refuses everything."""

    def query(self, X: Array, _t: float) -> Answers:
        return Answers.none(len(X))


NOBODY = Nobody()
MAKERS: dict[str, Callable[..., Bandit]] = {
    "ensemble": partial(build, policies.adaptive_gp_ucb, SITES, noise_variance=0.01),
    "fitted": partial(build, policies.adaptive_gp_ucb, SITES, noise_variance=0.01, refit=10),
    "on a box": partial(build, policies.adaptive_gp_ucb, BOX, noise_variance=0.01),
    "frugal": partial(build, policies.frugal_gp_ucb, SITES, noise_variance=0.01, expert=NOBODY),
    "tv": partial(build, policies.tv_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01),
    "w": partial(build, policies.w_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01),
    "w on a dictionary": partial(
        build, policies.w_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01, posterior="nystrom"
    ),
    "ui": partial(build, policies.ui_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01),
    "time as input": partial(build, policies.time_gp_ucb, SITES, noise_variance=0.01),
    "sparq": partial(
        build, policies.sparq_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01, expert=NOBODY
    ),
    "learned noise": partial(build, policies.adaptive_gp_ucb, SITES),
    "minimizing": partial(
        build, policies.tv_gp_ucb, SITES, kernel=RBF(2.0), noise_variance=0.01, minimize=True
    ),
}


def played(
    bandit: Bandit, steps: int, wrong: Any = None, drop: bool = False, first: int = 1
) -> Bandit:
    """So many steps, with errors of some readings, or without these readings."""
    errors = ERRORS if wrong is None else wrong
    rng = np.random.default_rng([5, first])
    for t in range(first, steps + 1):
        X = bandit.ask(t)
        y = truth(X, t) + 0.1 * rng.standard_normal(len(X))
        y += np.nan if drop and t in errors else errors.get(t, 0.0)
        bandit.tell(X, y, t)
    return bandit


@pytest.mark.parametrize("name", MAKERS)
def test_gross_errors_stand_aside_as_if_nothing_was_read(name: str) -> None:
    """The oracle: a bandit that is told NaN for them, to the last bit."""
    steps = 30 if name not in ("on a box", "time as input") else 22
    found = played(MAKERS[name](options=Options(robust=True)), steps)
    wrong = [t for t in ERRORS if t <= steps]
    assert found.state.outliers.observations.t.tolist() == wrong
    oracle = played(MAKERS[name](), steps, drop=True)
    assert oracle.state.failed.t.tolist() == wrong
    assert np.array_equal(found.state.rewards.X, oracle.state.rewards.X)
    visited = found.state.visited
    np.testing.assert_array_equal(found.predict(visited), oracle.predict(visited))
    assert (found.info.readings, found.info.outliers) == (steps, len(wrong))
    assert (found.history["kind"] == "outlier").sum() == len(wrong)
    assert found.noise == oracle.noise


@pytest.mark.parametrize("name", MAKERS)
def test_without_gross_errors_nothing_changes(name: str) -> None:
    steps = 24 if name not in ("on a box", "time as input") else 18
    found, plain = (
        played(MAKERS[name](options=Options(robust=each)), steps, {}) for each in (True, False)
    )
    assert found.state == plain.state


@pytest.mark.parametrize("name", ["ensemble", "fitted", "tv", "w"])
@pytest.mark.parametrize("size", [12.0, -40.0])
def test_a_true_change_is_believed_after_three_readings_at_most(name: str, size: float) -> None:
    changed = dict.fromkeys(range(31, 41), size)
    bandit = played(MAKERS[name](options=Options(robust=True)), 33, changed)
    assert bandit.state.outliers is None
    later = played(bandit, 40, changed, first=34)
    assert later.state.outliers is None
    assert abs(float(later.state.rewards.y[-1]) - size) < 2.0


@pytest.mark.parametrize("level", [8.0, 11.0])
def test_a_change_to_what_was_read_before_is_believed_at_once(level: float) -> None:
    """However long ago that was, and at another place."""
    bandit = MAKERS["tv"](options=Options(robust=True), mean=0.0)
    for t in range(1, 50):
        x, y = (2.0, 0.0) if t > 20 else (0.5 * t, 0.5 * t)
        bandit.tell([[x]], [y], t)
    bandit.tell([[2.0]], [level], 50)
    assert bandit.state.outliers is None


@pytest.mark.parametrize("first", [1, 3, 5])
def test_an_error_among_the_first_readings_is_found_when_there_are_some(first: int) -> None:
    bandit = played(MAKERS["ensemble"](options=Options(robust=True)), 16, {first: 25.0})
    assert bandit.state.outliers.observations.t.tolist() == [first]


def test_told_at_once_it_is_as_told_one_by_one() -> None:
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


def test_of_many_readings_of_one_time_the_wrong_ones_stand_aside() -> None:
    bandit, rng = (
        played(MAKERS["ensemble"](options=Options(robust=True)), 20, {}),
        np.random.default_rng(2),
    )
    y = truth(X := SITES.sample(1100, rng), 21) + 0.1 * rng.standard_normal(1100)
    y[[7, 600]] += [40.0, -30.0]
    bandit.tell(X, y, 21)
    assert (bandit.state.outliers.rows - 20).tolist() == [7, 600]


def test_it_is_corrected_and_handed_to_other_recipes() -> None:
    bandit = played(MAKERS["ensemble"](options=Options(robust=True)), 24)
    plain = Bandit.from_state(replace(bandit.recipe, options=Options(robust=False)), bandit.state)
    assert plain.state.outliers is None
    assert plain.state.rewards.t.tolist() == list(range(1, 25))  # in the order they were told
    X, t = bandit.state.readings.X, bandit.state.readings.t
    bandit.correct(X[18:21], truth(X[18:21], 20.0), t[18:21])
    assert bandit.state.outliers.observations.t.tolist() == [12]
    assert bandit.retract(X[11:12], t[11:12]).outliers == 0
    assert bandit.info.readings == 23


def test_errors_that_are_alike_by_chance_long_apart_confirm_nothing() -> None:
    assert (
        played(MAKERS["tv"](options=Options(robust=True)), 50, {20: 36.0, 45: 36.0}).info.outliers
        == 2
    )


@pytest.mark.parametrize("between", [True, False])
def test_what_was_read_again_as_believed_confirms_nothing(between: bool) -> None:
    bandit = played(MAKERS["tv"](options=Options(robust=True)), 30, {})
    x = bandit.state.rewards.X[-1:]
    for t, wrong in ((31, 20.0), (32, 20.0), (33, 0.0), (34, 20.0)):
        if wrong or between:
            bandit.tell(x, truth(x, t) + wrong, t)
    assert bandit.info.outliers == (3 if between else 0)


def test_two_of_several_errors_may_be_alike() -> None:
    bandit = played(MAKERS["tv"](options=Options(robust=True)), 30, {})
    for t, wrong in enumerate((30.0, 47.0, -22.0, 13.0, 30.6, 30.2), 31):
        bandit.tell(x := np.array([[4.0 if t > 34 else 2.0 * (t - 31)]]), truth(x, t) + wrong, t)
        assert bandit.info.outliers == (3 if t == 36 else t - 30)


def test_a_reading_in_the_place_of_one_that_failed_leaves_no_failure() -> None:
    bandit = played(MAKERS["tv"](options=Options(robust=True)), 20, {})
    X = bandit.ask(21)
    bandit.tell(X, [np.nan], 21)
    bandit.tell(X, [99.0], 21)
    assert (len(bandit.state.failed), bandit.info.outliers) == (0, 1)


def test_more_than_half_wrong_is_a_wrong_belief() -> None:
    wrong = {t: 20.0 * (-1.0) ** t + 3.0 * (t % 5) for t in range(31, 50)}
    assert played(MAKERS["w"](options=Options(robust=True)), 44, wrong).info.outliers <= 8


def test_what_was_forgotten_stays_so_when_others_come_back() -> None:
    """The first reading after a reset is the first of its time, among all that were told."""
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


def test_readings_agree_by_what_they_differ_in() -> None:
    """The oracle: pair by pair, in words of the formula."""
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


def test_first_readings_are_apart_from_the_others_and_each_other() -> None:
    y = np.array([0.1, 0.5, 30.0, 0.3, 0.9])
    assert find_isolated_readings(y, 0.01).tolist() == [False, False, True, False, False]
    assert not find_isolated_readings(y[:4], 0.01).any()  # of so few nobody can tell
    nearer = y / [1, 1, 10, 1, 1]
    assert not find_isolated_readings(nearer, 0.01).any()  # five do not tell what is usual
    assert find_isolated_readings(np.append(nearer, np.tile(y[[0, 1, 3, 4]], 2)), 0.01)[2]
    assert not find_isolated_readings(np.append(y, 30.1), 0.01).any()


def test_outliers_go_back_to_where_they_were_told() -> None:
    rng = np.random.default_rng(0)
    told = Dataset(rng.random((9, 2)), np.arange(9.0), rng.random(9), np.ones(9))
    out = rng.random(9) < 0.4
    aside = Outliers.from_mask(told, out)
    assert len(aside) == out.sum()
    again = aside.merge(told.take(~out))
    for name in ("X", "t", "y", "variance", "source"):
        assert np.array_equal(getattr(again, name), getattr(told, name))


def test_beside_a_control_no_level_is_known() -> None:
    recipe = policies.gp_ucb(SITES, kernel=RBF(2.0), noise_variance=0.01).recipe
    with pytest.raises(ValueError, match="robust=True"):
        replace(recipe, options=Options(robust=True, control=[0.0]))


@pytest.mark.parametrize("arms", [True, False])
def test_arms_and_spaces_set_aside_too(arms: bool) -> None:
    domain: Any = Arms(["a", "b", "c"]) if arms else Space(speed=(0.0, 1.0), kind=["a", "b"])
    found = played(
        policies.adaptive_gp_ucb(domain, noise_variance=0.01, options=Options(robust=True)),
        24,
        {20: 40.0},
    )
    assert found.state.outliers.observations.t.tolist() == [20]


def test_a_campaign_sets_aside_and_has_all_on_record(tmp_path: Path) -> None:
    """Its journal follows all readings; a process that comes later goes on with the same outliers."""
    place = tmp_path / "c.db"
    bandit = MAKERS["tv"](options=Options(robust=True))
    rng = np.random.default_rng(5)
    with Campaign.create(place, bandit, snapshot_every=7) as campaign:
        for t in range(1, 25):
            X = campaign.ask(t)
            campaign.tell(X, truth(X, t) + 0.1 * rng.standard_normal(1) + ERRORS.get(t, 0.0))
        assert campaign.state.info.outliers == 4
        assert campaign.status.readings == 24
    with Campaign.open(place) as again:
        assert again.status.readings == 24  # by a snapshot and the rows behind it
        told = again.state.readings
        assert told.t.tolist() == list(range(1, 25))
        again.correct(told.X[18:21], [0.5, 0.5, 0.5], told.t[18:21])
        assert again.state.info.outliers == 1
        assert again.verify().problems == ()


def test_tell_judges_a_long_history_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings told at once are observed about as often as they are many, not as their square."""
    rng, n = np.random.default_rng(0), 45
    points = rng.uniform(0, 1, (6, 2))
    rows, t = rng.integers(6, size=n), np.arange(1.0, n + 1)
    y = np.sin(5 * points[rows, 0] + t / 30) + 0.1 * rng.standard_normal(n)
    y += 20.0 * (rng.random(n) < 0.1)
    observed, observe = [0], FilterEnsemble.update

    def counted(ensemble: FilterEnsemble, *parts: Any) -> FilterEnsemble:
        observed[0] += 1
        return observe(ensemble, *parts)

    monkeypatch.setattr(FilterEnsemble, "update", counted)

    def bandit() -> Bandit:
        return policies.adaptive_gp_ucb(
            Candidates(points), noise_variance=0.01, options=Options(robust=True)
        )

    at_once = bandit()
    at_once.tell(points[rows], y, t)
    assert observed[0] < 5 * n  # once for each of them by one pass, and some replays at the start
    in_turn = bandit()
    for i in range(n):
        in_turn.tell(points[rows[[i]]], y[[i]], t[i])
    outliers = [each.state.outliers for each in (at_once, in_turn)]
    assert outliers[0] is not None
    assert outliers[1] is not None
    assert len(outliers[0]) > 1
    np.testing.assert_array_equal(outliers[0].rows, outliers[1].rows)
    np.testing.assert_array_equal(at_once.predict(points)[0], in_turn.predict(points)[0])


def test_tell_filters_each_reading_of_a_long_history_about_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the unit of the reward is learned on the way, as it is on a box."""
    rng, n = np.random.default_rng(0), 150
    X = rng.uniform(0, 1, (n, 1))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    y += rng.normal(0, 20, n) * (rng.random(n) < 0.05)
    steps, step = [0], Filter.step

    def counted(self: Filter, rows: FeatureRows, piece: slice) -> Any:
        steps[0] += 1
        return step(self, rows, piece)

    monkeypatch.setattr(Filter, "step", counted)

    def bandit() -> Bandit:
        return policies.adaptive_gp_ucb(
            Box([(0, 1)]), noise_variance=0.01, options=Options(robust=True)
        )

    at_once = bandit()
    at_once.tell(X, y, np.arange(1.0, n + 1))
    assert steps[0] < 8 * n  # once in the pass, and for each of some ten estimates of the unit
    in_turn = bandit()
    for i in range(n):
        in_turn.tell(X[[i]], y[[i]], i + 1.0)
    outliers = [each.state.outliers for each in (at_once, in_turn)]
    assert outliers[0] is not None
    assert outliers[1] is not None
    assert len(outliers[0]) > 1
    np.testing.assert_array_equal(outliers[0].rows, outliers[1].rows)


def test_tell_goes_on_after_an_outlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that stands aside does not have all that came before it observed once more."""
    rng, n = np.random.default_rng(0), 60
    points = rng.uniform(0, 1, (6, 2))
    rows = rng.integers(6, size=n)
    y = np.sin(5 * points[rows, 0]) + 0.1 * rng.standard_normal(n)
    y[30] += 20.0
    bandit = policies.adaptive_gp_ucb(
        Candidates(points), noise_variance=0.01, options=Options(robust=True)
    )
    observed, observe = [0], FilterEnsemble.update

    def counted(ensemble: FilterEnsemble, *parts: Any) -> FilterEnsemble:
        observed[0] += 1
        return observe(ensemble, *parts)

    for i in range(n):
        if i == 32:
            monkeypatch.setattr(FilterEnsemble, "update", counted)
        bandit.tell(points[rows[[i]]], y[[i]], float(i))
    assert bandit.state.outliers is not None
    assert bandit.state.outliers.rows.tolist() == [30]
    assert observed[0] < 2 * (n - 32)
