"""Policies on a space of named parameters, and on a table of its points."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Arms, Bandit, Integer, Options, Space, policies
from tvbandits.experts import CallableExpert
from tvbandits.validation import Array

OVEN = Space(temperature=(10, 80), count=Integer(1, 5), mode=["a", "b", "c"])
DICE = Space(left=Integer(1, 6), right=Integer(1, 6), colour=["red", "blue"])


def reward(X: Array, t: float) -> Array:
    """Return a drifting reward that is best near 45 degrees, at count 3, in mode c."""
    x, count, mode = X[:, 0], X[:, 1], X[:, 2:].argmax(axis=1)
    peak = 4 * np.exp(-(((x - 45 - 5 * np.sin(t / 10)) / 15) ** 2))
    return np.asarray(peak - 0.5 * np.abs(count - 3) + mode)


# The largest reward.
BEST = 6.0

POLICIES: dict[str, Callable[[Any], Bandit]] = {
    "gp": lambda d: policies.gp_ucb(d, kernel=OVEN.kernel(), noise_variance=0.1, beta=2.0),
    "w": lambda d: policies.w_gp_ucb(
        d, kernel=OVEN.kernel(1.5), noise_variance=0.1, discount=0.95, beta=2.0
    ),
    "tv": lambda d: policies.tv_gp_ucb(
        d, kernel=OVEN.kernel(), noise_variance=0.1, forgetting_rate=0.02, beta=2.0
    ),
    "bkb": lambda d: policies.bkb(d, kernel=OVEN.kernel(), noise_variance=0.1, beta=2.0),
    "bbkb": lambda d: policies.bbkb(d, kernel=OVEN.kernel(), noise_variance=0.1, beta=2.0),
    "learned tv": lambda d: policies.adaptive_gp_ucb(
        d, noise_variance=0.1, beta=2.0, options=Options(refit=6)
    ),
    "frugal": lambda d: policies.frugal_gp_ucb(
        d,
        noise_variance=0.1,
        expert=CallableExpert(reward, variance=0.1),
        beta=2.0,
        options=Options(refit=6),
    ),
}


def play(bandit: Bandit, plays: int) -> None:
    """Play at least so many points, each of which survives decoding and encoding."""
    rng, count, step = np.random.default_rng(1), 0, 0
    while count < plays:
        step += 1
        X = bandit.ask(float(step))
        np.testing.assert_array_equal(OVEN.encode(OVEN.decode(X)), X)
        bandit.tell(X, reward(X, step) + 0.3 * rng.standard_normal(len(X)))
        count += len(X)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("table", [False, True], ids=["space", "table"])
def test_policies_learn_on_a_space_and_on_a_table(name: str, table: bool) -> None:
    samples = OVEN.sample(150, np.random.default_rng(0))
    bandit = POLICIES[name](OVEN.table(OVEN.decode(samples)) if table else OVEN)
    play(bandit, 12 if name in ("learned tv", "frugal") else 20)
    now = 1.0 + (bandit.state.time or 0.0)
    regret = BEST - reward(bandit.recommend(now)[None, :], now)[0]
    assert regret < 0.5 * float((BEST - reward(samples, now)).mean())


def test_gp_ucb_plays_a_finite_space_as_its_candidates() -> None:
    one = policies.gp_ucb(DICE, kernel=DICE.kernel(), noise_variance=0.1, beta=2.0)
    other = policies.gp_ucb(DICE.candidates(), kernel=DICE.kernel(), noise_variance=0.1, beta=2.0)
    for _ in range(20):
        X = one.ask()
        np.testing.assert_array_equal(other.ask(), X)
        for bandit in (one, other):
            bandit.tell(X, np.sin(X[:, 0]) + 0.3 * X[:, 2])


@pytest.mark.parametrize("domain", [Space(die=Integer(1, 6)), Arms([*"abcdef"])], ids=repr)
def test_master_plays_all_points_of_a_small_space_before_repeating_one(domain: Any) -> None:
    player = policies.master(domain, kernel=RBF(1.0), noise_variance=0.1)
    X = np.concatenate([player.ask(1, 6), player.ask(1, 2)])
    assert len(np.unique(X[:6], axis=0)) == len(np.unique(X, axis=0)) == 6


def test_gp_ucb_on_a_table_keeps_to_the_context() -> None:
    table = DICE.candidates(context=["colour"])
    bandit = policies.gp_ucb(table, kernel=DICE.kernel(), noise_variance=0.1, beta=2.0)
    for colour, bits in (("red", [1.0, 0.0]), ("blue", [0.0, 1.0])):
        X = bandit.ask(context=bits)
        assert table.decode(X)["colour"].tolist() == [colour]
        bandit.tell(X, [0.0])
