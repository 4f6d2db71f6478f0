"""`correct` and `retract` lead to the state of a bandit that was told the right readings."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Candidates, Options, policies

SITES = Candidates(np.array([[0.0, 1.0], [2.5, 1.0], [5.0, 2.0], [7.5, 0.0], [9.0, 3.0]]))

MAKERS: dict[str, Callable[[], Bandit]] = {
    "gp-ucb": lambda: policies.gp_ucb(SITES, kernel=RBF(3.0), noise_variance=0.01),
    "tv-gp-ucb": lambda: policies.tv_gp_ucb(
        SITES, kernel=Matern(3.0), noise_variance=0.01, forgetting_rate=0.05
    ),
    "sw-gp-ucb": lambda: policies.sw_gp_ucb(SITES, kernel=RBF(3.0), noise_variance=0.01, window=6),
    "adaptive": lambda: policies.adaptive_gp_ucb(SITES, noise_variance=0.01),
    "fitted": lambda: policies.adaptive_gp_ucb(
        SITES, kernel=RBF(3.0), noise_variance=0.01, options=Options(refit=5)
    ),
    "frugal": lambda: policies.frugal_gp_ucb(SITES, noise_variance=0.01, expert=None),
    "minimize": lambda: policies.gp_ucb(SITES, kernel=RBF(3.0), noise_variance=0.01, minimize=True),
    "box": lambda: policies.gp_ucb(Box([(0, 10), (0, 5)]), kernel=RBF(3.0), noise_variance=0.01),
}


def reward(X: np.ndarray, t: float) -> np.ndarray:
    return 20 + 5 * np.sin(X[:, 0] / 2 + t / 4) + X[:, 1]


def play(bandit: Bandit, begin: int, end: int, asks: bool) -> None:
    """Tell rewards at the same points in every run, after `ask` or without it."""
    for t in range(begin, end):
        if asks:
            bandit.drop(bandit.ask(t, n=2))
        X = SITES.X[[t % 5, (3 * t + 1) % 5][: 1 + (t % 5 != (3 * t + 1) % 5)]]
        y = reward(X, t)
        if t == 4:
            y[0] = math.nan
        bandit.tell(X, y, t)


def assert_same(one: Bandit, other: Bandit) -> None:
    assert one.state == other.state
    X = SITES.X
    np.testing.assert_array_equal(one.predict(X, 20), other.predict(X, 20))
    assert np.array_equal(one.ask(20), other.ask(20))


@pytest.mark.parametrize("asks", [True, False], ids=["asked", "only told"])
@pytest.mark.parametrize("name", MAKERS)
def test_correct_equals_telling_the_right_reward(name: str, asks: bool) -> None:
    wrong, right = MAKERS[name](), MAKERS[name]()
    X = SITES.X[[1]]
    for bandit, y in ((wrong, 2000.0), (right, 24.0)):
        play(bandit, 1, 9, asks)
        if asks:
            bandit.drop(bandit.ask(9))
        bandit.tell(X, [y], 9)
    assert wrong.state != right.state
    wrong.correct(X, [24.0], 9)
    assert_same(wrong, right)


@pytest.mark.parametrize("name", ["gp-ucb", "tv-gp-ucb", "fitted", "frugal"])
def test_correct_moves_and_retract_removes_a_reading_of_the_wrong_time(name: str) -> None:
    X = SITES.X[[1]]
    corrected, retracted, expected, without_reading = (MAKERS[name]() for _ in range(4))
    for bandit in (corrected, retracted, expected, without_reading):
        play(bandit, 1, 9, True)
    for bandit in (corrected, retracted):
        bandit.ask(9)
        bandit.tell(X, [24.0], 8768)
        assert_refused(ValueError, r"there is a later reading, at t = 8768", bandit.ask, 10)
    for bandit in (expected, without_reading):
        bandit.ask(9)
    expected.tell(X, [24.0], 9)
    corrected.correct(X, [24.0], 8768, to=9)
    assert_same(corrected, expected)
    retracted.retract(X, 8768)
    assert retracted.state.rewards.y.tolist() == without_reading.state.rewards.y.tolist()
    np.testing.assert_array_equal(retracted.predict(X, 10), without_reading.predict(X, 10))


def test_correct_fills_in_a_failed_reading_or_marks_one_as_failed() -> None:
    bandit = MAKERS["gp-ucb"]()
    bandit.tell(SITES.X[:2], [math.nan, 3.0], 1)
    bandit.correct(SITES.X[:2], [2.0, math.nan], 1, 0.25)
    assert bandit.state.rewards.y.tolist() == [2.0]
    assert bandit.state.rewards.variance.tolist() == [0.25]
    assert bandit.state.failed.X.tolist() == SITES.X[[1]].tolist()
    assert bandit.info.readings == bandit.info.failed == 1


def test_correct_keeps_the_variance_by_default() -> None:
    bandit = MAKERS["gp-ucb"]()
    bandit.tell(SITES.X[[0, 0]], [1.0, 2.0], 1, [0.5, 0.25])
    bandit.correct(SITES.X[[0]], [3.0])
    assert bandit.state.rewards.y.tolist() == [1.0, 3.0]  # the latest observation
    assert bandit.state.rewards.variance.tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    "options", [Options(mean=20.0), Options(control=SITES.X[0])], ids=["mean", "control"]
)
def test_correct_after_the_noise_was_learned_equals_telling_the_right_reward(
    options: Options,
) -> None:
    dropped_posteriors, bandit = 0, policies.adaptive_gp_ucb(SITES, options=options)
    for last in range(1, 18):  # some of these steps learn the noise and drop the posterior
        wrong, right = (Bandit.from_state(bandit.recipe, bandit.state) for _ in range(2))
        rewards = reward(SITES.X[[0, last % 5]], last)
        for each, y in ((wrong, 30.0), (right, 24.0), (bandit, rewards[1])):
            each.drop(each.ask(last, n=2))
            each.tell(SITES.X[[0, last % 5]], [rewards[0], y], last)
        if last < 6:
            continue
        dropped_posteriors += wrong.state.posterior is None
        wrong.correct(SITES.X[[last % 5]], [24.0], last)
        assert wrong.info.posterior.in_use == right.info.posterior.in_use > 0
        assert wrong.info.model.scale == right.info.model.scale
        assert_same(wrong, right)
    assert dropped_posteriors


def test_methods_that_take_rewards_read_booleans_as_one_and_zero() -> None:
    bandit = MAKERS["frugal"]()
    bandit.tell(SITES.X[:2], [True, False], 1)
    assert bandit.state.rewards.y.tolist() == [1.0, 0.0]
    bandit.correct(SITES.X[:2], [False, True], 1)
    assert bandit.state.rewards.y.tolist() == [0.0, 1.0]
    bandit.answer(SITES.X[:2], [True, False], 1)
    assert bandit.state.answers.y.tolist() == [1.0, 0.0]
    bandit.correct_answers(SITES.X[:1], False, 1)
    assert bandit.state.answers.y.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.correct(SITES.X[[0]], [1.0], 2), r"at t = 2; there are some at t = 1"),
        (lambda b: b.retract(SITES.X[[1]]), r"\[2.5, 1.0\]; there are none of it"),
        (lambda b: b.retract(SITES.X[[0, 0]]), r"no reading of \[0.0, 1.0\]; there"),
        (lambda b: b.correct(SITES.X[[0]], [math.inf]), r"inf"),
        (lambda b: b.correct(SITES.X[[0]], [1.0], noise_variance=0), r"variance"),
        (lambda b: b.correct([[1.0, 1.0]], [1.0]), r"must be candidates"),
        (lambda b: b.correct(SITES.X[[0]], t=1), r"at least one of y, to,.* got only t=1"),
        (lambda b: b.correct(SITES.X[[0]], outcomes={}), r"at least one of y, to"),
    ],
)
def test_correct_and_retract_change_nothing_if_refused(
    change: Callable[[Bandit], object], message: str
) -> None:
    bandit = MAKERS["gp-ucb"]()
    bandit.tell(SITES.X[[0]], [1.0], 1)
    before = bandit.state
    assert_refused(ValueError, message, change, bandit)
    assert bandit.state is before
