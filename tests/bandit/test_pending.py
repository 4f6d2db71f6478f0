"""Pending points: their effect on the next points, and their end by `tell` or `drop`."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.players import (
    INTERVAL,
    KERNEL,
    KINDS,
    LINE,
    NOISE,
    ON_INTERVAL,
    VARIANTS,
    WITH_MODEL,
    count_distinct,
    make_player,
    noisy_wave,
    step,
    warm_up,
    wave,
)
from tvbandits import Bandit, Candidates, Exact, Nystrom, Recipe, StateSpace
from tvbandits.acquisition.batches import Batching, One
from tvbandits.acquisition.widths import Fixed
from tvbandits.forgetting.aging import Exponential, Wiener
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.policies import POLICIES
from tvbandits.validation import Array

FEW = Candidates(np.array([[0.0], [1.0], [4.0]]))


# --- points differ --------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 9])
@pytest.mark.parametrize("variant", KINDS)
def test_ask_on_candidates_returns_distinct_points_while_they_are_pending(
    variant: str, steps: int
) -> None:
    """Points are asked for together, one after the other, and both."""
    player = warm_up(make_player(variant), steps=steps)
    t = steps + 1.0
    X = player.ask(t, n=4)
    assert X.shape == (4, 1)
    np.testing.assert_array_equal(player.pending, X)
    pending = X
    for n in (1, 3, 1):
        X = player.ask(t, n=n)
        assert len(X) == n
        pending = np.concatenate([pending, X])
    assert count_distinct(pending) == len(pending) == 9
    np.testing.assert_array_equal(player.pending, pending)


@pytest.mark.parametrize("variant", [kind for kind in KINDS if kind in ON_INTERVAL])
def test_ask_on_a_box_returns_distinct_points_while_they_are_pending(variant: str) -> None:
    player = warm_up(make_player(variant, INTERVAL), INTERVAL)
    batches = [player.ask(10.0, n=4), *(player.ask(10.0, n=1) for _ in range(4))]
    INTERVAL.check(np.concatenate(batches))
    assert count_distinct(np.concatenate(batches)) == 8


@pytest.mark.parametrize(
    "variant",
    [
        name
        for name in KINDS
        if name in WITH_MODEL
        and name in ON_INTERVAL
        and "beta" in POLICIES[VARIANTS[name][0]].parameters
    ],
)
def test_ask_spreads_pending_points_over_an_unknown_region(variant: str) -> None:
    """They do not cluster around one point, also where a sparse dictionary has no points."""
    player = warm_up(make_player(variant, INTERVAL, beta=20.0), INTERVAL)
    points = np.concatenate([player.ask(10.0, n=1) for _ in range(4)])[:, 0]
    unknown = np.sort(points[points > 6.0])
    assert len(unknown) >= 2
    assert np.diff(unknown).min() > 0.5


@pytest.mark.parametrize("variant", KINDS)
def test_ask_repeats_points_if_all_candidates_are_pending(variant: str) -> None:
    player = make_player(variant, FEW)
    X = player.ask(1.0, n=7)
    counts = np.bincount(FEW.index(X), minlength=3)
    assert counts.sum() == 7
    # A bandit repeats points by their probability of being the best.
    assert isinstance(player, Bandit) or sorted(counts) == [2, 2, 3]
    assert player.ask(1.0, n=2).shape == (2, 1)
    player.tell(X, np.zeros(7), 1.0)
    assert len(player.pending) == 2


# --- variances with pending points ------------------------------------------------------------------

SPACE_TIME = {
    "space": KERNEL,
    "drift": OnSpace(Matern(1.5, nu=2.5)) * Drift(0.1),
    "sum": OnSpace(RBF(2.0)) + OnSpace(RBF(1.0)) * OnTime(Matern(8.0, nu=0.5)),
}
TIMES = np.array([1.0, 2.5, 3.0, 4.5, 6.0, 6.5])
OBSERVED = np.array([[0.0], [1.25], [2.5], [2.5], [3.75], [5.0]])


def inputs(kernel: Any, X: Array, t: Any) -> Array:
    spaced = kernel is SPACE_TIME["space"]
    return X if spaced else np.column_stack([X, np.broadcast_to(t, len(X))])


def expected_noise(kernel: Any, x: Array, t: float, now: float, aged: float) -> float:
    """Return (k (1 - r^2) + v) / r^2 with the correlation r of the reward at the two times."""
    if kernel is SPACE_TIME["space"]:
        return aged
    present, past = np.append(x, now)[None], np.append(x, t)[None]
    k = float(kernel(present)[0, 0])
    r2 = (float(kernel(present, past)[0, 0]) / k) ** 2
    return (k * (1 - r2) + aged) / r2


AGINGS = {
    "none": (None, lambda _age: NOISE),
    "wiener": (Wiener(0.02), lambda age: NOISE + 0.02 * age),
    "weights": (Exponential(0.8), lambda age: NOISE / 0.8**age),
}


@pytest.mark.parametrize(
    ("posterior", "name", "aging"),
    [
        *(("exact", "space", aging) for aging in AGINGS),
        *(("exact", name, "wiener") for name in SPACE_TIME if name != "space"),
        ("nystrom", "space", "none"),
        ("nystrom", "space", "weights"),
        ("nystrom", "drift", "wiener"),
        ("all points", "drift", "none"),
        ("filter", "sum", "none"),
    ],
)
def test_ask_with_pending_points_matches_dense_algebra(
    posterior: str, name: str, aging: str
) -> None:
    """A pending point counts as observed at its mean, so that only variances change."""
    kernel, (map_, aged_noise) = SPACE_TIME[name], AGINGS[aging]
    rules = {"exact": Exact(), "nystrom": Nystrom(0.5), "filter": StateSpace()}
    rule: Any = rules.get(posterior, Nystrom(1e9))
    parts: Any = {} if map_ is None else {"aging": map_}
    recipe = Recipe(LINE, kernel, NOISE, mean=0.2, beta=Fixed(3.0), posterior=rule, **parts)
    bandit = Bandit(recipe, seed=1)
    for x, t in zip(OBSERVED, TIMES, strict=True):
        bandit.tell(x, noisy_wave(x[None], t), t)
    now, pending = 9.0, []
    for t in (7.0, 7.5, 8.0, 8.0, now):
        mean, deviation = bandit.predict(LINE.X, t)
        p = bandit.state.posterior
        x = bandit.ask(t)
        variance = variance_given_pending(bandit, kernel, pending, t, aged_noise)
        bound = mean + 3.0 * np.sqrt(np.maximum(variance, 0.0))
        for pending_point, at in pending:
            if at == t:
                bound[LINE.index(pending_point)[0]] = -np.inf
        assert bound[int(LINE.index(x)[0])] == pytest.approx(bound.max(), abs=1e-7)
        if len(pending) > 1:
            assert (variance <= deviation**2 + 1e-9).all()
            assert (variance < 0.5 * deviation**2).any()
        pending.append((x[0], t))
        assert p is None or bandit.info.posterior.in_use == 6


def variance_given_pending(
    bandit: Bandit, kernel: Any, pending: Any, t: float, aged_noise: Any
) -> Array:
    """Return variances at all candidates at time t, by one dense update for each pending point."""
    posterior: Any = bandit.state.posterior
    present = inputs(kernel, LINE.X, t)
    rows = [int(LINE.index(x)[0]) for x, _ in pending]
    C = posterior.covariance(present, present)  # tested against dense formulas in tests/gp
    noise = [expected_noise(kernel, x, at, t, aged_noise(t - at)) for x, at in pending]
    if not rows:
        return np.diagonal(C).copy()
    cross = C[:, rows]
    A = C[np.ix_(rows, rows)] + np.diag(noise)
    return np.asarray(np.diagonal(C) - np.einsum("ij,ji->i", cross, np.linalg.solve(A, cross.T)))


def test_ask_ignores_a_pending_point_without_correlation() -> None:
    """Long after its `ask`, a pending point has no correlation with the present."""
    kernel = OnSpace(KERNEL) * OnTime(RBF(2.0))
    recipe = Recipe(LINE, kernel, NOISE, mean=0.0, beta=Fixed(2.0))
    bandit, free = Bandit(recipe, seed=1), Bandit(recipe, seed=1)
    for each in (bandit, free):
        each.tell(OBSERVED, wave(OBSERVED, TIMES), TIMES)
    bandit.ask(7.0)
    np.testing.assert_array_equal(bandit.ask(500.0), free.ask(500.0))
    assert len(bandit.pending) == 2


# --- the end of pending points --------------------------------------------------------------------


@pytest.mark.parametrize("variant", KINDS)
def test_tell_ends_pending_points_in_any_order(variant: str) -> None:
    player, order = make_player(variant), [3, 1, 0, 2]
    X = player.ask(1.0, n=4)
    for done, row in enumerate(order, 1):
        player.tell(X[[row]], noisy_wave(X[[row]], 1.0), 1.0)
        remaining = [i for i in range(4) if i not in order[:done]]
        np.testing.assert_array_equal(player.pending, X[remaining])
    assert player.info.readings == 4


@pytest.mark.parametrize("variant", KINDS)
def test_tell_without_a_time_takes_the_time_of_its_pending_point(variant: str) -> None:
    player = make_player(variant)
    X = np.concatenate([player.ask(t, n=1) for t in (2.0, 9.0, 16.0)])
    assert count_distinct(X) == 3
    player.tell(X[[1]], [0.5])
    player.tell(X[[2, 0]], [0.1, 0.2])
    table = player.history.query("kind == 'reward'")[["time", "x0", "reward"]].to_numpy()
    expected = [[2.0, X[0, 0], 0.2], [9.0, X[1, 0], 0.5], [16.0, X[2, 0], 0.1]]
    np.testing.assert_array_equal(table, expected)
    assert len(player.pending) == 0


def test_tell_ends_the_pending_point_of_its_time() -> None:
    """A reward with a time ends the point of this time; one without takes the remaining time."""
    bandit = make_player("gp-ucb", FEW)
    bandit.ask(1.0, n=3)
    bandit.ask(2.0, n=3)
    x = FEW.X[[1]]
    bandit.tell(x, [0.5], 2.0)
    remaining = bandit.state.pending
    assert remaining.t[(x == remaining.X).all(axis=1)].tolist() == [1.0]
    bandit.tell(x, [0.25])
    np.testing.assert_array_equal(bandit.state.rewards.t, [2.0, 1.0])
    assert len(bandit.pending) == 4
    # The point is no longer pending: the next reward is one unit after the latest time.
    bandit.tell(x, [0.0])
    assert bandit.state.rewards.t[-1] == 3.0


def test_tell_of_another_point_ends_no_pending_point() -> None:
    bandit = make_player("gp-ucb")
    X = bandit.ask(3.0, n=2)
    bandit.tell(LINE.X[[row for row in range(41) if LINE.X[row] not in X][:1]], [0.4], 3.0)
    np.testing.assert_array_equal(bandit.pending, X)


@pytest.mark.parametrize("variant", KINDS)
def test_drop_ends_pending_points(variant: str) -> None:
    player, twin = (warm_up(make_player(variant)) for _ in range(2))
    X = player.ask(10.0, n=3)
    twin.ask(10.0, n=3)
    for each in (player, twin):
        each.drop(X[[1]])
    np.testing.assert_array_equal(player.pending, X[[0, 2]])
    for each in (player, twin):
        each.drop(X[[2, 0]])
    assert len(player.pending) == 0
    assert player.info.readings == 9
    with pytest.raises(ValueError, match=r"is not pending; 0 points are"):
        player.drop(X[[0]])
    np.testing.assert_array_equal(step(player, 10.0, 1), step(twin, 10.0, 1))


def test_ask_after_drop_decides_as_without_the_first_ask() -> None:
    """An exact posterior on candidates draws no random numbers."""
    player, twin = (warm_up(make_player("gp-ucb")) for _ in range(2))
    player.drop(player.ask(10.0, n=3))
    np.testing.assert_array_equal(player.ask(10.0), twin.ask(10.0))


def test_pending_returns_a_copy() -> None:
    bandit = make_player("gp-ucb")
    X = bandit.ask(1.0, n=2)
    bandit.pending[:] = 99.0
    X[:] = -1.0
    assert set(LINE.index(bandit.pending)) <= set(range(41))
    assert repr(bandit).endswith("0 rewards, 2 pending, at the start>")


# --- continuing from a state ----------------------------------------------------------------------


def test_from_state_refuses_pending_points_of_another_domain() -> None:
    bandit = warm_up(make_player("gp-ucb"))
    bandit.ask(10.0, n=2)
    recipe = Recipe(Candidates(np.unique(bandit.state.visited, axis=0)), KERNEL, NOISE)
    with pytest.raises(ValueError, match="points pending must be candidates"):
        Bandit.from_state(recipe, bandit.state)
    bandit.drop(bandit.pending)
    assert Bandit.from_state(recipe, bandit.state).ask(10.0).shape == (1, 1)


@pytest.mark.parametrize("posterior", [Exact(), Nystrom()])
def test_ask_with_batch_rule_one_returns_one_point(posterior: Any) -> None:
    bandit = Bandit(Recipe(LINE, KERNEL, NOISE, posterior=posterior, batching=Batching(One())))
    assert [len(bandit.ask(1.0)) for _ in range(3)] == [1, 1, 1]
