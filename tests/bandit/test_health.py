"""Signs of trouble in a run, and the health that `info` reports."""

import math
import re

import numpy as np
import pytest

from tvbandits import Arms, Box, Candidates, Dataset, policies, rate
from tvbandits.bandit.observations import LEAST_COVERAGE, PLAYS, find_signs_of_trouble
from tvbandits.validation import Array

BOX = Box([(0.0, 10.0), (-1.0, 1.0)])
RNG = np.random.default_rng(0)


def rewards_at(X: Array, y: Array) -> Dataset:
    return Dataset(X, np.arange(1.0, len(X) + 1), y, np.full(len(X), 0.01))


def interior_points(count: int = PLAYS) -> Array:
    return np.column_stack([RNG.uniform(3, 7, count), RNG.uniform(-0.5, 0.5, count)])


def test_find_signs_of_trouble_finds_none_in_a_good_run() -> None:
    rewards = rewards_at(interior_points(), RNG.normal(size=PLAYS))
    assert find_signs_of_trouble(BOX, rewards, 0.01, 0.95) == ()
    assert find_signs_of_trouble(BOX, rewards, 0.01, math.nan) == ()


@pytest.mark.parametrize(
    ("coordinate", "value", "words"), [(0, 9.95, "upper.*x0"), (1, -1.0, "lower.*x1")]
)
def test_find_signs_of_trouble_names_the_edge_where_all_plays_lie(
    coordinate: int, value: float, words: str
) -> None:
    X = interior_points(PLAYS + 5)
    X[5:, coordinate] = value
    (sign,) = find_signs_of_trouble(BOX, rewards_at(X, RNG.normal(size=len(X))), 0.01, math.nan)
    assert re.search(words, sign)
    X[-1, coordinate] = 0.0
    assert find_signs_of_trouble(BOX, rewards_at(X, RNG.normal(size=len(X))), 0.01, math.nan) == ()


def test_find_signs_of_trouble_names_rewards_that_are_all_noise() -> None:
    X = interior_points(40)
    noise = 0.1 * RNG.standard_normal(40)
    (sign,) = find_signs_of_trouble(BOX, rewards_at(X, noise), 0.01, math.nan)
    assert "noise" in sign
    # At a single point, readings can only differ by noise.
    assert (
        find_signs_of_trouble(BOX, rewards_at(np.repeat(X[:1], 40, axis=0), noise), 0.01, math.nan)
        == ()
    )
    assert (
        find_signs_of_trouble(BOX, rewards_at(X[: PLAYS - 1], noise[: PLAYS - 1]), 0.01, math.nan)
        == ()
    )


def test_find_signs_of_trouble_compares_rates_with_their_own_variance() -> None:
    X = np.repeat(np.arange(5.0)[:, None], 8, axis=0)
    arms = Candidates(np.arange(5.0)[:, None])
    rates = 0.02 + 0.001 * RNG.standard_normal(40)
    equal = Dataset(X, np.arange(40.0), rates, np.full(40, 1e-6))
    (sign,) = find_signs_of_trouble(arms, equal, 1e-12, math.nan)
    assert "noise" in sign
    differing = Dataset(X, np.arange(40.0), rates + 0.01 * X[:, 0], np.full(40, 1e-6))
    # The prior noise, learned from no reading, is not compared with them.
    assert find_signs_of_trouble(arms, differing, 1.0, math.nan) == ()


def test_find_signs_of_trouble_pools_single_clicks_by_arm() -> None:
    """Single clicks differ by no more than their noise, but the rates of the arms do."""
    arms = Arms(list("abcdef"))
    chances = np.tile(np.linspace(0.2, 0.8, 6), 40)
    clicks = np.random.default_rng(0).random(240) < chances
    X, t, noise = np.tile(arms.X, (40, 1)), np.arange(240.0), np.full(240, 0.24)
    assert find_signs_of_trouble(arms, Dataset(X, t, clicks * 1.0, noise), 1.0, math.nan) == ()
    alike = np.random.default_rng(0).random(240) < 0.5
    (sign,) = find_signs_of_trouble(arms, Dataset(X, t, alike * 1.0, noise), 1.0, math.nan)
    assert "noise" in sign


def test_info_of_counts_reports_no_sign_about_the_noise() -> None:
    arms = Arms(list("abcdef"))
    bandit = policies.adaptive_gp_ucb(arms)
    for t in range(1, 31):
        info = bandit.tell(arms.X, rate(np.zeros(6), np.zeros(6)), t)
    assert (info.readings, info.failed, info.health) == (0, 180, ())
    for t in range(31, 41):
        info = bandit.tell(arms.X, rate(np.arange(6.0), [0.0, *[40.0] * 5]), t)
    assert (info.readings, info.health) == (50, ())
    # The variance comes from the counts.
    assert "reading" not in str(dict(info.summary)["noise variance"])


def test_find_signs_of_trouble_names_a_low_coverage_of_intervals() -> None:
    rewards = rewards_at(interior_points(), RNG.normal(size=PLAYS))
    (sign,) = find_signs_of_trouble(BOX, rewards, 0.01, LEAST_COVERAGE - 0.1)
    assert "70%" in sign


def test_info_reports_an_optimum_at_the_edge_of_the_box() -> None:
    bandit = policies.gp_ucb(Box([(0.0, 1.0)]), noise_variance=1e-4, beta=0.5)
    for t in range(1, 41):
        X = bandit.ask(t)
        info = bandit.tell(X, 3.0 * X[:, 0], t)
    assert [each for each in info.health if "upper end of x0" in each]
    assert "upper end of x0" in repr(info)


def test_info_of_candidates_reports_no_edge() -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), noise_variance=1e-4)
    for t in range(1, 31):
        X = bandit.ask(t)
        info = bandit.tell(X, X[:, 0], t)
    assert info.health == ()
