"""Baselines without a model."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import refused
from tests.oracles.loops import play
from tvbandits import Box, Candidates, policies
from tvbandits.bandit.adapter import PolicyAdapter as Player, adapt

Array = NDArray[np.float64]

SQUARE = Candidates.grid([(0.0, 1.0), (0.0, 2.0)], 3)
BOX = Box([[-1.0, 1.0], [0.0, 5.0]])


def played(player: Player, steps: int) -> Array:
    return play(player, lambda _, t: [math.sin(t)], [float(step) for step in range(steps)])


def drawn(player: Player) -> Array:
    """What it would play, without leaving a point out: one that is out does not come again."""
    X = player.ask()
    player.drop(X)
    return X


def test_every_candidate_is_equally_likely() -> None:
    rows = SQUARE.index(played(policies.uniform(SQUARE, seed=1), 1800))
    assert chisquare(np.bincount(rows, minlength=9)).pvalue > 1e-3
    # One draw says nothing about the next.
    pairs = np.bincount(9 * rows[:-1:2] + rows[1::2], minlength=81)
    assert chisquare(pairs).pvalue > 1e-3


# --- what all of them share -----------------------------------------------------------------------

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
def test_what_was_told_may_be_overwritten(make: Callable[..., Player]) -> None:
    player, twin = make(BOX, seed=2), make(BOX, seed=2)
    for step in range(20):
        x, y = player.ask(), np.array([math.sin(step)])
        player.tell(x, y)
        twin.tell(twin.ask().copy(), y.copy())
        x[:], y[:] = 0.5, 1e9
    np.testing.assert_array_equal(played(player, 10), played(twin, 10))


# --- epsilon-greedy -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1.0, *[1.0] * 99, 100 / 101, 100 / 102]),
        ({"decay": 3.0}, [1.0, 1.0, 1.0, 3 / 4, 3 / 5, 3 / 6]),
    ],
)
def test_exploration_falls_as_it_says(options: dict[str, Any], expected: list[float]) -> None:
    player, found = policies.eps_greedy(SQUARE, **options), []
    for _ in expected:
        found.append(player.rule.exploration)
        player.tell(SQUARE.X[0], 1.0)
    assert found == pytest.approx(expected)


def counts_after(player: Player, asks: int) -> NDArray[np.int64]:
    return np.bincount([int(SQUARE.index(drawn(player))[0]) for _ in range(asks)], minlength=9)


def test_the_best_mean_is_played_but_for_epsilon() -> None:
    player = policies.eps_greedy(SQUARE, decay=4.0, seed=1)
    # Row 3 has the best reward, row 5 the best mean; a row never played is no candidate for it.
    player.tell(SQUARE.X[[3, 3, 5, 5, 7, 7, 0]], [-1.0, -9.0, -3.0, -3.5, -4.0, -4.0, -5.0])
    shares = np.full(9, 0.5 / 9)
    shares[5] += 0.5
    assert chisquare(counts_after(player, 3000), 3000 * shares).pvalue > 1e-3


def test_ties_fall_at_random() -> None:
    player = policies.eps_greedy(SQUARE, decay=1e-9, seed=1)
    # Three tenths add up to more than three times a tenth; their mean is a tenth all the same.
    player.tell(SQUARE.X[[1, 1, 1, 4, 8, 0]], [0.1, 0.1, 0.1, 0.1, 0.1, 0.0])
    found = counts_after(player, 900)
    assert found.sum() == found[[1, 4, 8]].sum()
    assert chisquare(found[[1, 4, 8]]).pvalue > 1e-3


@each_domain
def test_means_are_those_of_each_point(domain: Candidates | Box) -> None:
    rng = np.random.default_rng(4)
    spots = domain.sample(6, rng)
    player = policies.eps_greedy(domain, decay=1e-9)
    seen: dict[tuple[float, ...], list[float]] = {}
    for _ in range(60):
        rows = rng.integers(6, size=rng.integers(1, 4))
        rewards = rng.standard_normal(len(rows))
        player.tell(spots[rows], rewards)
        for x, reward in zip(spots[rows], rewards, strict=True):
            seen.setdefault(tuple(x), []).append(reward)
        best = max(seen, key=lambda x: np.mean(seen[x]))
        np.testing.assert_array_equal(drawn(player), [best])


def test_minus_zero_is_zero() -> None:
    player = policies.eps_greedy(BOX, decay=1e-9)
    player.tell([[0.0, 1.0], [-0.0, 1.0], [1.0, 1.0]], [4.0, -4.0, 1.0])
    np.testing.assert_array_equal(drawn(player), [[1.0, 1.0]])


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
    """Algorithm 1 of Real 2019, with the draws in the order they are made."""
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
                apart = ((domain.X - parent) / domain.X.std(axis=0)) ** 2
                child = domain.X[rng.choice(np.argsort(apart.sum(axis=1), kind="stable")[1:11])]
        queue.append((child, reward(child)))
        history.append(queue[-1])
        if len(queue) > population:
            queue.pop(0)
    return np.array([x for x, _ in history])


SCATTER = Candidates(np.random.default_rng(8).standard_normal((60, 3)) * [1.0, 50.0, 0.01])


@pytest.mark.parametrize("domain", [SCATTER, BOX], ids=["candidates", "box"])
def test_evolution_is_its_pseudo_code(domain: Candidates | Box) -> None:
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


def test_few_candidates_are_all_neighbours() -> None:
    two = Candidates([[1.0, 3.0], [2.0, 3.0]])  # one coordinate never changes
    player = policies.evolution(two, population=1, seed=1)
    player.tell([1.0, 3.0], 1.0)
    np.testing.assert_array_equal(drawn(player), [[2.0, 3.0]])
    alone = policies.evolution(Candidates([[1.0, 3.0]]), population=1)
    for _ in range(3):
        np.testing.assert_array_equal(played(alone, 1), [[1.0, 3.0]])


def test_repr_counts_rewards_and_pending_plays() -> None:
    player = policies.uniform(SQUARE, seed=0)
    player.tell(SQUARE.X[:3], [1.0, 2.0, 3.0])
    assert repr(player).endswith(", 3 rewards>")
    player.ask(9.0)
    assert repr(player).endswith(", 3 rewards, 1 pending>")


# --- a rule of one's own --------------------------------------------------------------------------


class Still:
    """A rule that plays the first point, and knows no noise."""

    def choose(self, now: float, allowed: Any, out: Any, rng: Any) -> Array:  # noqa: ARG002
        return SQUARE.X[0]

    def learn(self, rewards: Any, rng: Any) -> None: ...


class NoisyStill(Still):
    """A rule whose noise variance can be set."""

    noise = 0.1


def test_adapt_refuses_to_learn_a_noise_variance_that_the_rule_cannot_take() -> None:
    how = {"noise_variance": None, "minimize": False, "seed": 0}
    match = "attribute noise, which .*Still.* lacks: give noise_variance"
    refused(ValueError, match, adapt, SQUARE, Still(), RBF(1.0), **how)
    refused(ValueError, "kernel=None: give kernel or noise", adapt, SQUARE, NoisyStill(), **how)
    adapt(SQUARE, Still(), minimize=False, seed=0).tell([[0.0, 0.0]], [0.5], 1.0)
    player = adapt(SQUARE, NoisyStill(), RBF(1.0), **how)
    assert player.tell([[0.0, 0.0]], [0.5], 1.0).readings == 1
