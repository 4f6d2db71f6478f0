"""What a move costs, and how far one may go: `move_cost` and `near`."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.recipes import build
from tests.helpers.refusals import refused
from tests.oracles.moving import plain_trajectory
from tvbandits import Bandit, Box, Candidates, Integer, Limit, Space, policies
from tvbandits.domains.availability import NothingAvailableError
from tvbandits.domains.moving import compute_path_costs, distances
from tvbandits.validation import Array

LINE = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
PLANE = Candidates.grid([(0, 4), (0, 4)], 5)
SPACE = Space(flow=(0, 10), pumps=Integer(1, 9), mode=["eco", "loud"])
DOMAINS = [LINE, Box([(0, 10), (0, 10)]), SPACE, Space(a=(0, 1), b=(0, 5))]


def dear(x: Array, z: Array) -> float:
    """A function of two points."""
    return float(np.abs(x - z).sum())


def bandit_on(domain: Any, **more: Any) -> Bandit:
    kernel = domain.kernel() if isinstance(domain, Space) else RBF(2.0)
    values = {"kernel": kernel, "noise_variance": 0.01, "forgetting_rate": 0.05, **more}
    bandit: Bandit = build(policies.tv_gp_ucb, domain, **values)
    return bandit


def reward(X: Array, t: float) -> Array:
    return np.asarray(np.exp(-((X[:, 0] - 5.0 - 3.0 * np.sin(0.2 * t)) ** 2) / 4.0))


def played(bandit: Any, steps: int, near: float | None = None) -> Array:
    """So many plays, and where they were."""
    plays = []
    for t in range(1, steps + 1):
        X = bandit.ask(t, near=None if t == 1 else near)
        bandit.tell(X, reward(X, t), t)
        plays.append(X[0])
    return np.array(plays)


@pytest.mark.parametrize("cost", [0.05, 0.5, dear])
def test_it_plays_what_the_plain_rule_plays(cost: Any) -> None:
    places = Candidates(np.random.default_rng(0).uniform(0, 6, (20, 2)))
    bandit = bandit_on(places).with_options(move_cost=cost)
    expected = plain_trajectory(places, cost, reward, 25, first=played(bandit_on(places), 1))
    np.testing.assert_array_equal(played(bandit, 25), expected)


@pytest.mark.parametrize(
    "made",
    [
        lambda: policies.adaptive_gp_ucb(LINE, noise_variance=0.01),
        lambda: policies.thompson(LINE, kernel=RBF(2.0), noise_variance=0.01),
        lambda: policies.gp_ucb(Box([(0, 10)]), kernel=RBF(2.0), noise_variance=0.01),
        lambda: policies.gp_ucb(SPACE, kernel=SPACE.kernel(), noise_variance=0.01),
        lambda: policies.bbkb(LINE, kernel=RBF(2.0), noise_variance=0.01),
        lambda: policies.gp_ucb(LINE, kernel=RBF(2.0), noise_variance=0.01).with_options(
            limits=[Limit("q", at_most=9)], safe=LINE.X[:5]
        ),
    ],
)
def test_every_rule_moves_less_where_it_costs_more(made: Any) -> None:
    ways = []
    for cost in (None, 100.0):
        bandit = made().with_options(move_cost=cost)
        for t in range(1, 16):
            X = bandit.ask(t, n=1)
            read = {limit.name: np.zeros(1) for limit in bandit.recipe.options.limits}
            bandit.tell(X, reward(X, t), t, outcomes=read)
        ways.append(compute_path_costs(1.0, bandit.recipe.domain, bandit.state.rewards.X).sum())
    assert ways[1] < 0.5 * ways[0]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("near", [0.3, 1.5])
def test_near_is_kept_to_and_is_not_in_the_way(domain: Any, near: float) -> None:
    plays = played(bandit_on(domain), 12, near)
    steps = [distances(domain, a, b[None])[0] for a, b in pairwise(plays)]
    assert max(steps) <= near * (1 + 1e-9)
    if near > 1:
        assert max(steps) > 0.4
    assert (domain.check(plays) == plays).all()


@pytest.mark.parametrize("cost", [None, lambda x, z: 1.0 if x[1] == z[1] else np.nan])
def test_one_is_where_one_is_whatever_the_context_is_now(cost: Any) -> None:
    """Candidates at a measured context: `near` is no distance of contexts, nor is the cost."""
    bandit = bandit_on(Candidates(LINE.X, {"load": (0, 9)})).with_options(move_cost=cost)
    bandit.tell([[5.0]], [1.0], 1, context={"load": 0})
    assert abs(bandit.ask(2, near=1.0, context={"load": 9})[0, 0] - 5.0) <= 1.0
    assert bandit.ask(2, context={"load": 9})[0, 1] == 9.0


def test_near_is_measured_from_what_is_out_and_holds_for_all_of_a_batch() -> None:
    bandit = bandit_on(LINE)
    bandit.tell([[0.0]], [0.0], 1)
    (x,) = bandit.ask(2, near=3.0)
    assert np.abs(bandit.ask(2, n=4, near=1.0) - x).max() <= 1.0
    bandit.drop(bandit.pending)
    assert bandit.ask(3, near=0.4).tolist() == [[0.0]]


def test_several_points_come_in_the_order_of_a_tour() -> None:
    bandit = bandit_on(LINE).with_options(move_cost=0.01)
    bandit.tell([[10.0], [2.0]], [0.0, 0.1], 1)
    X = bandit.ask(2, n=6)[:, 0]
    here = 2.0
    for i in range(6):
        assert np.abs(X[i] - here) == np.abs(X[i:] - here).min()
        here = X[i]


def test_one_stays_on_a_box_at_the_very_point() -> None:
    assert len(np.unique(played(bandit_on(Box([(0, 10)])).with_options(move_cost=5.0), 10))) <= 3


@pytest.mark.parametrize(
    "made",
    [bandit_on, lambda domain: policies.thompson(domain, kernel=RBF(2.0), noise_variance=0.01)],
)
def test_nothing_within_reach(made: Any) -> None:
    bandit = made(LINE)
    bandit.tell([[0.0]], [0.0], 1)
    with pytest.raises(NothingAvailableError, match=r"within near=2 of \[0.0\]"):
        bandit.ask(2, near=2, available=[10, 11])


def test_a_context_is_no_way_to_go() -> None:
    bandit = bandit_on(Candidates(PLANE.X, context=[1])).with_options(move_cost=100.0)
    for t in range(1, 10):
        X = bandit.ask(t, context=[t % 5])
        bandit.tell(X, X[:, 0], t)
    assert len(np.unique(bandit.state.rewards.X[:, 0])) == 1
    assert bandit.history["move_cost"].sum() == 0.0


def test_history_says_what_moves_cost() -> None:
    bandit = bandit_on(LINE).with_options(move_cost=0.1)
    bandit.tell([[0.0], [4.0]], [0.0, np.nan], [1, 2])
    bandit.tell([[1.0]], [0.0], 3)
    bandit.ask(4, near=0.1)
    assert bandit.history["move_cost"].round(12).tolist() == [0.0, 0.4, 0.3, 0.0]
    assert "move_cost" not in bandit.with_options(move_cost=None).history


@pytest.mark.parametrize("value", [-1.0, 1e300, np.nan, np.inf, "1", None, [1.0]])
def test_a_function_that_returns_no_cost(value: Any) -> None:
    bandit = bandit_on(LINE).with_options(move_cost=lambda _x, _z: value)
    bandit.tell([[0.0]], [0.0], 1)
    before = bandit.state
    refused(ValueError, r"move_cost\(\[0.0\], \[0.5\]\) must lie in", bandit.ask, 2)
    assert bandit.state == before


def test_a_distance_from_nowhere() -> None:
    bandit = bandit_on(LINE)
    with pytest.raises(ValueError, match="near=1"):
        bandit.ask(1, near=1.0)
    assert len(bandit.pending) == 0


def test_a_distance_that_rounding_swallows() -> None:
    bandit = bandit_on(Box([(0, 10)]))
    bandit.tell([[5.0]], [0.0], 1)
    assert np.abs(bandit.ask(2, near=1e-30) - 5.0).max() < 1e-8


def test_a_rule_that_weighs_information_has_no_unit_for_it() -> None:
    with pytest.raises(ValueError, match="move_cost is subtracted from rewards"):
        policies.boba(LINE, noise_variance=0.01).with_options(move_cost=0.1)


def test_a_measured_context_is_no_way_to_go() -> None:
    box = Box([(0, 10)], context={"outside": (-15, 20)})
    bandit = policies.gp_ucb(box, kernel=RBF(2.0), noise_variance=0.01).with_options(
        move_cost=100.0
    )
    for t in range(1, 6):
        X = bandit.ask(t, context={"outside": 3.0 * t}, near=None if t == 1 else 0.5)
        bandit.tell(X, X[:, 0], t)
    assert len(np.unique(bandit.state.rewards.X[:, 0])) == 1
    assert bandit.history["move_cost"].sum() == 0.0
    near = bandit.with_options(move_cost=None).ask(6, context={"outside": 0.0}, near=0.5)
    assert abs(near[0, 0] - bandit.state.rewards.X[-1, 0]) <= 0.5 + 1e-9


def test_of_many_candidates_a_price_finds_the_best_one_too() -> None:
    many = Candidates(np.linspace(0.0, 10.0, 5001)[:, None])
    for cost in (0.01, 0.5):
        bandit = policies.bkb(many, kernel=RBF(1.0), noise_variance=0.01).with_options(
            move_cost=cost
        )
        bandit.tell(many.X[[0, 2500, 4000]], [0.0, 0.3, 0.2], [1, 2, 3])
        x = bandit.ask(4)[0]
        mean, deviation = bandit.predict(many.X, 4)
        worth = mean + 2.0 * deviation - cost * np.abs(many.X[:, 0] - 8.0)
        assert x == pytest.approx(many.X[worth.argmax()], abs=0.02)
