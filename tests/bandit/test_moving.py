"""The cost of a move and the largest distance: `move_cost` and `near`."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tests.oracles.moving import plain_trajectory
from tvbandits import Bandit, Box, Candidates, Integer, Limit, Space, policies
from tvbandits.domains.availability import NothingAvailableError
from tvbandits.domains.moving import compute_path_costs, distances
from tvbandits.validation import Array

LINE = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
PLANE = Candidates.grid([(0, 4), (0, 4)], 5)
SPACE = Space(flow=(0, 10), pumps=Integer(1, 9), mode=["eco", "loud"])
DOMAINS = [LINE, Box([(0, 10), (0, 10)]), SPACE, Space(a=(0, 1), b=(0, 5))]


def manhattan_cost(x: Array, z: Array) -> float:
    """Return the cost of a move between two points."""
    return float(np.abs(x - z).sum())


def bandit_on(domain: Any, **more: Any) -> Bandit:
    kernel = domain.kernel() if isinstance(domain, Space) else RBF(2.0)
    values = {"kernel": kernel, "noise_variance": 0.01, "forgetting_rate": 0.05, **more}
    bandit: Bandit = build(policies.tv_gp_ucb, domain, **values)
    return bandit


def reward(X: Array, t: float) -> Array:
    return np.asarray(np.exp(-((X[:, 0] - 5.0 - 3.0 * np.sin(0.2 * t)) ** 2) / 4.0))


def play(bandit: Any, steps: int, near: float | None = None) -> Array:
    """Return the points of some steps."""
    plays = []
    for t in range(1, steps + 1):
        X = bandit.ask(t, near=None if t == 1 else near)
        bandit.tell(X, reward(X, t), t)
        plays.append(X[0])
    return np.array(plays)


@pytest.mark.parametrize("cost", [0.05, 0.5, manhattan_cost])
def test_ask_with_a_move_cost_matches_the_plain_restatement(cost: Any) -> None:
    places = Candidates(np.random.default_rng(0).uniform(0, 6, (20, 2)))
    bandit = bandit_on(places).with_options(move_cost=cost)
    expected = plain_trajectory(places, cost, reward, 25, first=play(bandit_on(places), 1))
    np.testing.assert_array_equal(play(bandit, 25), expected)


@pytest.mark.parametrize(
    "make",
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
def test_move_cost_shortens_the_moves_of_every_rule(make: Any) -> None:
    total_costs = []
    for cost in (None, 100.0):
        bandit = make().with_options(move_cost=cost)
        for t in range(1, 16):
            X = bandit.ask(t, n=1)
            outcomes = {limit.name: np.zeros(1) for limit in bandit.recipe.options.limits}
            bandit.tell(X, reward(X, t), t, outcomes=outcomes)
        total_costs.append(
            compute_path_costs(1.0, bandit.recipe.domain, bandit.state.rewards.X).sum()
        )
    assert total_costs[1] < 0.5 * total_costs[0]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("near", [0.3, 1.5])
def test_ask_near_stays_within_the_distance_and_moves(domain: Any, near: float) -> None:
    plays = play(bandit_on(domain), 12, near)
    steps = [distances(domain, a, b[None])[0] for a, b in pairwise(plays)]
    assert max(steps) <= near * (1 + 1e-9)
    if near > 1:
        assert max(steps) > 0.4
    assert (domain.check(plays) == plays).all()


@pytest.mark.parametrize("cost", [None, lambda x, z: 1.0 if x[1] == z[1] else np.nan])
def test_near_and_move_cost_ignore_a_measured_context(cost: Any) -> None:
    """Neither `near` nor the cost counts distances between measured contexts."""
    bandit = bandit_on(Candidates(LINE.X, {"load": (0, 9)})).with_options(move_cost=cost)
    bandit.tell([[5.0]], [1.0], 1, context={"load": 0})
    assert abs(bandit.ask(2, near=1.0, context={"load": 9})[0, 0] - 5.0) <= 1.0
    assert bandit.ask(2, context={"load": 9})[0, 1] == 9.0


def test_near_is_measured_from_the_last_pending_point_for_a_whole_batch() -> None:
    bandit = bandit_on(LINE)
    bandit.tell([[0.0]], [0.0], 1)
    (x,) = bandit.ask(2, near=3.0)
    assert np.abs(bandit.ask(2, n=4, near=1.0) - x).max() <= 1.0
    bandit.drop(bandit.pending)
    assert bandit.ask(3, near=0.4).tolist() == [[0.0]]


def test_ask_with_a_move_cost_orders_a_batch_as_a_tour() -> None:
    bandit = bandit_on(LINE).with_options(move_cost=0.01)
    bandit.tell([[10.0], [2.0]], [0.0, 0.1], 1)
    X = bandit.ask(2, n=6)[:, 0]
    position = 2.0
    for i in range(6):
        assert np.abs(X[i] - position) == np.abs(X[i:] - position).min()
        position = X[i]


def test_ask_on_a_box_with_a_high_move_cost_stays_at_the_same_point() -> None:
    assert len(np.unique(play(bandit_on(Box([(0, 10)])).with_options(move_cost=5.0), 10))) <= 3


@pytest.mark.parametrize(
    "make",
    [bandit_on, lambda domain: policies.thompson(domain, kernel=RBF(2.0), noise_variance=0.01)],
)
def test_ask_near_names_the_distance_if_no_point_is_within_it(make: Any) -> None:
    bandit = make(LINE)
    bandit.tell([[0.0]], [0.0], 1)
    with pytest.raises(NothingAvailableError, match=r"within near=2 of \[0.0\]"):
        bandit.ask(2, near=2, available=[10, 11])


def test_move_cost_ignores_context_columns_of_candidates() -> None:
    bandit = bandit_on(Candidates(PLANE.X, context=[1])).with_options(move_cost=100.0)
    for t in range(1, 10):
        X = bandit.ask(t, context=[t % 5])
        bandit.tell(X, X[:, 0], t)
    assert len(np.unique(bandit.state.rewards.X[:, 0])) == 1
    assert bandit.history["move_cost"].sum() == 0.0


def test_history_has_the_cost_of_moves() -> None:
    bandit = bandit_on(LINE).with_options(move_cost=0.1)
    bandit.tell([[0.0], [4.0]], [0.0, np.nan], [1, 2])
    bandit.tell([[1.0]], [0.0], 3)
    bandit.ask(4, near=0.1)
    assert bandit.history["move_cost"].round(12).tolist() == [0.0, 0.4, 0.3, 0.0]
    assert "move_cost" not in bandit.with_options(move_cost=None).history


@pytest.mark.parametrize("value", [-1.0, 1e300, np.nan, np.inf, "1", None, [1.0]])
def test_ask_refuses_a_move_cost_that_is_no_number(value: Any) -> None:
    bandit = bandit_on(LINE).with_options(move_cost=lambda _x, _z: value)
    bandit.tell([[0.0]], [0.0], 1)
    before = bandit.state
    assert_refused(ValueError, r"move_cost\(\[0.0\], \[0.5\]\) must lie in", bandit.ask, 2)
    assert bandit.state == before


def test_ask_near_before_the_first_play_is_refused() -> None:
    bandit = bandit_on(LINE)
    with pytest.raises(ValueError, match="near=1"):
        bandit.ask(1, near=1.0)
    assert len(bandit.pending) == 0


def test_ask_near_on_a_box_accepts_a_distance_below_rounding() -> None:
    bandit = bandit_on(Box([(0, 10)]))
    bandit.tell([[5.0]], [0.0], 1)
    assert np.abs(bandit.ask(2, near=1e-30) - 5.0).max() < 1e-8


def test_boba_refuses_a_move_cost() -> None:
    with pytest.raises(ValueError, match="subtracted from rewards"):
        policies.boba(LINE, noise_variance=0.01).with_options(move_cost=0.1)


def test_move_cost_and_near_ignore_a_measured_context_of_a_box() -> None:
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


def test_ask_with_a_move_cost_finds_the_best_of_many_candidates() -> None:
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
