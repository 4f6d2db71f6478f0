"""Discounted Thompson sampling: the published algorithm, late rewards, counts, and refused input."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.refusals import assert_refused
from tvbandits import Box, Candidates, compare, count, policies, rate
from tvbandits.datasets import Banners
from tvbandits.datasets.environment import Environment

ARMS = Candidates(np.arange(4.0)[:, None])


def plain_choices(y: Any, gamma: float, steps: int, seed: int) -> list[int]:
    """Return the choices of the published algorithm, with one reward a step."""
    S, F, rng, choices = [0.0] * 4, [0.0] * 4, np.random.default_rng(seed), []
    for t in range(1, steps + 1):
        draws = [rng.beta(1 + s, 1 + f) for s, f in zip(S, F, strict=True)]
        k = max(range(4), key=draws.__getitem__)
        choices.append(k)
        S, F = [gamma * s for s in S], [gamma * f for f in F]
        S[k] += y(k, t)
        F[k] += 1 - y(k, t)
    return choices


def succeeds(k: int, t: int) -> float:
    return float((7 * k + 3 * t) % 10 < 2 + 2 * k)


@pytest.mark.parametrize("gamma", [0.8, 0.99, 1.0])
def test_discounted_thompson_matches_the_published_algorithm(gamma: float) -> None:
    player = policies.discounted_thompson(ARMS, discount=gamma, seed=3)
    choices = []
    for t in range(1, 61):
        X = player.ask(t)
        choices.append(int(X[0, 0]))
        player.tell(X, [succeeds(choices[-1], t)], t)
    assert choices == plain_choices(succeeds, gamma, 60, 3)


def test_discounted_thompson_ignores_the_order_of_rewards() -> None:
    t = np.array([1.0, 2.0, 2.0, 4.5, 7.0, 9.0])
    X, y = ARMS.X[[0, 1, 0, 3, 2, 1]], np.array([1.0, 0.0, 0.5, 1.0, 1.0, 0.0])
    counts = []
    for order in (np.arange(6), np.arange(6)[::-1], np.array([3, 0, 5, 1, 4, 2])):
        player: Any = policies.discounted_thompson(ARMS, discount=0.9)
        for i in order:
            player.tell(X[[i]], y[[i]], t[i])
        counts.append(player.rule.counts)
    expected = np.zeros((4, 2))
    for row, value, at in zip([0, 1, 0, 3, 2, 1], y, t, strict=True):
        expected[row] += 0.9 ** (9.0 - at) * np.array([value, 1 - value])
    for each in counts:
        np.testing.assert_allclose(each, expected)


def test_discounted_thompson_minimizes_successes() -> None:
    more, less = (policies.discounted_thompson(ARMS, minimize=m, seed=2) for m in (False, True))
    for t in range(1, 40):
        np.testing.assert_array_equal(more.ask(t), less.ask(t))
        X = ARMS.X[[t % 4]]
        more.tell(X, [succeeds(t % 4, t)], t)
        less.tell(X, [1 - succeeds(t % 4, t)], t)


def test_discounted_thompson_refuses_other_rewards_and_changes_nothing() -> None:
    player: Any = policies.discounted_thompson(ARMS)
    player.tell(ARMS.X[:2], rate([1, 3], [4, 4]), 1)
    for y in ([1.5], [-0.1]):
        fresh = policies.discounted_thompson(ARMS)
        assert_refused(ValueError, "takes rewards from 0 to 1, got", fresh.tell, ARMS.X[:1], y, 2)
        assert_refused(ValueError, "is a plain number", player.tell, ARMS.X[:1], y, 2)
    assert player.info.readings == 2
    assert player.rule.counts[:2].tolist() == [[1.0, 3.0], [3.0, 1.0]]
    assert_refused(ValueError, "needs a finite domain", policies.discounted_thompson, Box([(0, 1)]))


def test_compare_plays_discounted_thompson_on_problems_with_trials() -> None:
    path = "tvbandits.policies.beta_bernoulli:PLAYED"
    rows = compare([Banners(horizon=30)], [path, "uniform"], seeds=2)
    assert rows.groupby("policy").size().tolist() == [60, 60]
    assert rows["reward"].between(0.005, 0.05).all()


@pytest.mark.parametrize("trials", [1, 40])
def test_environment_of_trials_returns_the_share_of_successes(trials: int) -> None:
    environment = Environment.of(Banners(trials=trials))
    x = environment.problem.domain.X[:1]
    times = np.arange(1.0, 2001.0).tolist()
    chances, shares = np.transpose([environment.play(x, t, 0) for t in times])
    np.testing.assert_allclose(trials * shares, np.round(trials * shares), atol=1e-9)
    deviation = np.sqrt((chances * (1 - chances)).sum() / trials)
    assert abs((shares - chances).sum()) < 3.0 * deviation


def test_discounted_thompson_counts_a_rate_as_its_trials() -> None:
    """The oracle is told each trial alone."""
    shares: Any = policies.discounted_thompson(ARMS, discount=0.9)
    trials: Any = policies.discounted_thompson(ARMS, discount=0.9)
    # The second rate has no trials.
    shares.tell(ARMS.X[[0, 1, 2]], rate([3, 0, 500], [10, 0, 500]), 1)
    shares.tell(ARMS.X[[3]], rate(1, 2), 3)
    trials.tell(ARMS.X[[0] * 10], [1] * 3 + [0] * 7, 1)
    trials.tell(ARMS.X[[2] * 500], np.ones(500), 1)
    trials.tell(ARMS.X[[3, 3]], [0, 1], 3)
    np.testing.assert_allclose(shares.rule.counts, trials.rule.counts)
    np.testing.assert_allclose(shares.rule.counts[2], [0.81 * 500, 0.0])


def test_discounted_thompson_counts_a_rate_to_be_minimized() -> None:
    player: Any = policies.discounted_thompson(ARMS, minimize=True)
    player.tell(ARMS.X[[0]], rate([3], [10]), 1)
    np.testing.assert_allclose(player.rule.counts[0], [7.0, 3.0])


def test_discounted_thompson_refuses_counts_of_events() -> None:
    player: Any = policies.discounted_thompson(ARMS)
    with pytest.raises(ValueError, match=r"rate\(successes, trials\)"):
        player.tell(ARMS.X[[0]], count([3], [10.0]), 1)
    assert not player.rule.counts.any()
    assert len(player.history) == 0


def test_discounted_thompson_finds_the_best_arm_from_rates() -> None:
    """With one trial a play, 80 plays could not tell 3% from 4%."""
    chances, rng = np.array([0.01, 0.02, 0.03, 0.04]), np.random.default_rng(0)
    player, choices = policies.discounted_thompson(ARMS, seed=0), []
    for t in range(1, 81):
        X = player.ask(t)
        choices.append(int(X[0, 0]))
        player.tell(X, rate(rng.binomial(500, chances[choices[-1]]), 500), t)
    assert np.mean(np.array(choices[20:]) == 3) > 0.8
