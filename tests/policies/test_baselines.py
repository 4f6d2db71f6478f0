"""Baselines without a model."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tests.oracles.loops import play
from tvbandits import Box, Candidates, policies
from tvbandits.bandit.adapter import PolicyAdapter as Player, adapt

Array = NDArray[np.float64]

SQUARE = Candidates.grid([(0.0, 1.0), (0.0, 2.0)], 3)
BOX = Box([[-1.0, 1.0], [0.0, 5.0]])


def play_points(player: Player, steps: int) -> Array:
    return play(player, lambda _, t: [math.sin(t)], [float(step) for step in range(steps)])


def ask_and_drop(player: Player) -> Array:
    """Return the next point, and drop it, as a pending point is not played again."""
    X = player.ask()
    player.drop(X)
    return X


def test_uniform_plays_each_candidate_with_equal_probability() -> None:
    rows = SQUARE.index(play_points(policies.uniform(SQUARE, seed=1), 1800))
    assert chisquare(np.bincount(rows, minlength=9)).pvalue > 1e-3
    # Successive points are independent.
    pairs = np.bincount(9 * rows[:-1:2] + rows[1::2], minlength=81)
    assert chisquare(pairs).pvalue > 1e-3


# --- all baselines --------------------------------------------------------------------------------

PLAYERS: dict[str, Callable[..., Player]] = {
    "uniform": policies.uniform,
    "greedy": lambda domain, **seed: policies.eps_greedy(domain, decay=3.0, **seed),
    "evolution": lambda domain, **seed: policies.evolution(
        domain, population=5, tournament=2, **seed
    ),
}

each_player = pytest.mark.parametrize("make", PLAYERS.values(), ids=PLAYERS.keys())
each_domain = pytest.mark.parametrize("domain", [SQUARE, BOX], ids=["candidates", "box"])


@each_player
def test_baselines_copy_points_and_rewards(make: Callable[..., Player]) -> None:
    player, twin = make(BOX, seed=2), make(BOX, seed=2)
    for step in range(20):
        x, y = player.ask(), np.array([math.sin(step)])
        player.tell(x, y)
        twin.tell(twin.ask().copy(), y.copy())
        x[:], y[:] = 0.5, 1e9
    np.testing.assert_array_equal(play_points(player, 10), play_points(twin, 10))


# --- epsilon-greedy -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1.0, *[1.0] * 99, 100 / 101, 100 / 102]),
        ({"decay": 3.0}, [1.0, 1.0, 1.0, 3 / 4, 3 / 5, 3 / 6]),
    ],
)
def test_eps_greedy_lowers_exploration_as_documented(
    options: dict[str, Any], expected: list[float]
) -> None:
    player, exploration = policies.eps_greedy(SQUARE, **options), []
    for _ in expected:
        exploration.append(player.rule.exploration)
        player.tell(SQUARE.X[0], 1.0)
    assert exploration == pytest.approx(expected)


def counts_after(player: Player, asks: int) -> NDArray[np.int64]:
    return np.bincount(
        [int(SQUARE.index(ask_and_drop(player))[0]) for _ in range(asks)], minlength=9
    )


def test_eps_greedy_plays_the_best_mean_or_a_random_point() -> None:
    player = policies.eps_greedy(SQUARE, decay=4.0, seed=1)
    # Row 3 has the best reward and row 5 the best mean; rows that were never played do not count.
    player.tell(SQUARE.X[[3, 3, 5, 5, 7, 7, 0]], [-1.0, -9.0, -3.0, -3.5, -4.0, -4.0, -5.0])
    shares = np.full(9, 0.5 / 9)
    shares[5] += 0.5
    assert chisquare(counts_after(player, 3000), 3000 * shares).pvalue > 1e-3


def test_eps_greedy_breaks_ties_at_random() -> None:
    player = policies.eps_greedy(SQUARE, decay=1e-9, seed=1)
    # The floating-point sum of three tenths is not 0.3, but their mean must be a tenth.
    player.tell(SQUARE.X[[1, 1, 1, 4, 8, 0]], [0.1, 0.1, 0.1, 0.1, 0.1, 0.0])
    counts = counts_after(player, 900)
    assert counts.sum() == counts[[1, 4, 8]].sum()
    assert chisquare(counts[[1, 4, 8]]).pvalue > 1e-3


@each_domain
def test_eps_greedy_averages_the_rewards_of_each_point(domain: Candidates | Box) -> None:
    rng = np.random.default_rng(4)
    points = domain.sample(6, rng)
    player = policies.eps_greedy(domain, decay=1e-9)
    rewards_of: dict[tuple[float, ...], list[float]] = {}
    for _ in range(60):
        rows = rng.integers(6, size=rng.integers(1, 4))
        rewards = rng.standard_normal(len(rows))
        player.tell(points[rows], rewards)
        for x, reward in zip(points[rows], rewards, strict=True):
            rewards_of.setdefault(tuple(x), []).append(reward)
        best = max(rewards_of, key=lambda x: np.mean(rewards_of[x]))
        np.testing.assert_array_equal(ask_and_drop(player), [best])


def test_eps_greedy_treats_minus_zero_as_zero() -> None:
    player = policies.eps_greedy(BOX, decay=1e-9)
    player.tell([[0.0, 1.0], [-0.0, 1.0], [1.0, 1.0]], [4.0, -4.0, 1.0])
    np.testing.assert_array_equal(ask_and_drop(player), [[1.0, 1.0]])


# --- regularised evolution ------------------------------------------------------------------------


def plain_evolution(
    domain: Candidates | Box,
    reward: Callable[[Array], float],
    steps: int,
    *,
    population: int,
    tournament: int,
    seed: int,
) -> Array:
    """Return the points of Algorithm 1 of Real 2019, with draws in the same order."""
    rng = np.random.default_rng(seed)
    history: list[tuple[Array, float]] = []
    queue: list[tuple[Array, float]] = []
    while len(history) < steps:
        if len(queue) < population:
            child = domain.sample(1, rng)[0]
        else:
            sample = [queue[i] for i in rng.integers(population, size=tournament)]
            parent = sample[0][0]
            best = sample[0][1]
            for x, y in sample[1:]:
                if y > best:
                    parent, best = x, y
            if isinstance(domain, Box):
                low, high = domain.bounds.T
                child = parent + 0.1 * (high - low) * rng.standard_normal(len(parent))
                child = np.minimum(np.maximum(child, low), high)
            else:
                distances = ((domain.X - parent) / domain.X.std(axis=0)) ** 2
                child = domain.X[rng.choice(np.argsort(distances.sum(axis=1), kind="stable")[1:11])]
        queue.append((child, reward(child)))
        history.append(queue[-1])
        if len(queue) > population:
            queue.pop(0)
    return np.array([x for x, _ in history])


SCATTER = Candidates(np.random.default_rng(8).standard_normal((60, 3)) * [1.0, 50.0, 0.01])


@pytest.mark.parametrize("domain", [SCATTER, BOX], ids=["candidates", "box"])
def test_evolution_matches_its_pseudo_code(domain: Candidates | Box) -> None:
    def reward(x: Array) -> float:
        return float(np.sin(3 * x[0]) + np.cos(x[1]))

    options: dict[str, Any] = {"population": 12, "tournament": 4, "seed": 6}
    player = policies.evolution(domain, **options)
    points = []
    for _ in range(150):
        x = player.ask()
        player.tell(x, [reward(x[0])])
        points.append(x[0])
    np.testing.assert_array_equal(points, plain_evolution(domain, reward, 150, **options))


def test_evolution_on_few_candidates_mutates_to_any_other() -> None:
    two = Candidates([[1.0, 3.0], [2.0, 3.0]])  # one coordinate never changes
    player = policies.evolution(two, population=1, seed=1)
    player.tell([1.0, 3.0], 1.0)
    np.testing.assert_array_equal(ask_and_drop(player), [[2.0, 3.0]])
    single = policies.evolution(Candidates([[1.0, 3.0]]), population=1)
    for _ in range(3):
        np.testing.assert_array_equal(play_points(single, 1), [[1.0, 3.0]])


def test_policy_adapter_repr_counts_rewards_and_pending_plays() -> None:
    player = policies.uniform(SQUARE, seed=0)
    player.tell(SQUARE.X[:3], [1.0, 2.0, 3.0])
    assert repr(player).endswith(", 3 rewards>")
    player.ask(9.0)
    assert repr(player).endswith(", 3 rewards, 1 pending>")


# --- custom rules ---------------------------------------------------------------------------------


class ConstantRule:
    """A rule that plays the first point, and has no noise."""

    def choose(self, now: float, allowed: Any, out: Any, rng: Any) -> Array:  # noqa: ARG002
        return SQUARE.X[0]

    def learn(self, rewards: Any, rng: Any) -> None: ...


class NoisyConstantRule(ConstantRule):
    """A rule whose noise variance can be set."""

    noise = 0.1


def test_adapt_refuses_to_learn_the_noise_of_a_rule_without_noise() -> None:
    options = {"noise_variance": None, "minimize": False, "seed": 0}
    match = "attribute noise, which .*ConstantRule.* lacks: give noise_variance"
    assert_refused(ValueError, match, adapt, SQUARE, ConstantRule(), RBF(1.0), **options)
    assert_refused(
        ValueError,
        "kernel=None: give kernel or noise",
        adapt,
        SQUARE,
        NoisyConstantRule(),
        **options,
    )
    adapt(SQUARE, ConstantRule(), minimize=False, seed=0).tell([[0.0, 0.0]], [0.5], 1.0)
    player = adapt(SQUARE, NoisyConstantRule(), RBF(1.0), **options)
    assert player.tell([[0.0, 0.0]], [0.5], 1.0).readings == 1
