"""Points that are out: what they do to the next ones, and how they end."""

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
    distinct,
    made,
    noisy,
    step,
    warmed,
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


@pytest.mark.parametrize("known", [0, 9])
@pytest.mark.parametrize("variant", KINDS)
def test_points_differ_on_candidates(variant: str, known: int) -> None:
    """So many at once, one after the other, and both mixed."""
    player = warmed(made(variant), steps=known)
    t = known + 1.0
    X = player.ask(t, n=4)
    assert X.shape == (4, 1)
    np.testing.assert_array_equal(player.pending, X)
    out = X
    for n in (1, 3, 1):
        X = player.ask(t, n=n)
        assert len(X) == n
        out = np.concatenate([out, X])
    assert distinct(out) == len(out) == 9
    np.testing.assert_array_equal(player.pending, out)


@pytest.mark.parametrize("variant", [kind for kind in KINDS if kind in ON_INTERVAL])
def test_points_differ_on_a_box(variant: str) -> None:
    player = warmed(made(variant, INTERVAL), INTERVAL)
    out = [player.ask(10.0, n=4), *(player.ask(10.0, n=1) for _ in range(4))]
    INTERVAL.check(np.concatenate(out))
    assert distinct(np.concatenate(out)) == 8


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
def test_what_is_unknown_is_spread_over(variant: str) -> None:
    """Not a cluster around one point: also where a sparse posterior's dictionary has no points."""
    player = warmed(made(variant, INTERVAL, beta=20.0), INTERVAL)
    out = np.concatenate([player.ask(10.0, n=1) for _ in range(4)])[:, 0]
    unknown = np.sort(out[out > 6.0])
    assert len(unknown) >= 2
    assert np.diff(unknown).min() > 0.5


@pytest.mark.parametrize("variant", KINDS)
def test_where_there_are_no_more_points_they_come_again(variant: str) -> None:
    player = made(variant, FEW)
    X = player.ask(1.0, n=7)
    counts = np.bincount(FEW.index(X), minlength=3)
    assert counts.sum() == 7
    # With beliefs, shares follow them: tests/acquisition/test_thompson.py.
    assert isinstance(player, Bandit) or sorted(counts) == [2, 2, 3]
    assert player.ask(1.0, n=2).shape == (2, 1)
    player.tell(X, np.zeros(7), 1.0)
    assert len(player.pending) == 2


# --- variances after points that are out ------------------------------------------------------------

SPACE_TIME = {
    "space": KERNEL,
    "drift": OnSpace(Matern(1.5, nu=2.5)) * Drift(0.1),
    "sum": OnSpace(RBF(2.0)) + OnSpace(RBF(1.0)) * OnTime(Matern(8.0, nu=0.5)),
}
TIMES = np.array([1.0, 2.5, 3.0, 4.5, 6.0, 6.5])
TOLD = np.array([[0.0], [1.25], [2.5], [2.5], [3.75], [5.0]])


def inputs(kernel: Any, X: Array, t: Any) -> Array:
    spaced = kernel is SPACE_TIME["space"]
    return X if spaced else np.column_stack([X, np.broadcast_to(t, len(X))])


def expected_noise(kernel: Any, x: Array, t: float, now: float, aged: float) -> float:
    """(k (1 - r^2) + v) / r^2 with the correlation r of the reward then and now."""
    if kernel is SPACE_TIME["space"]:
        return aged
    here, then = np.append(x, now)[None], np.append(x, t)[None]
    k = float(kernel(here)[0, 0])
    r2 = (float(kernel(here, then)[0, 0]) / k) ** 2
    return (k * (1 - r2) + aged) / r2


AGED = {
    "none": (None, lambda _age: NOISE),
    "wiener": (Wiener(0.02), lambda age: NOISE + 0.02 * age),
    "weights": (Exponential(0.8), lambda age: NOISE / 0.8**age),
}


@pytest.mark.parametrize(
    ("posterior", "name", "aging"),
    [
        *(("exact", "space", aging) for aging in AGED),
        *(("exact", name, "wiener") for name in SPACE_TIME if name != "space"),
        ("nystrom", "space", "none"),
        ("nystrom", "space", "weights"),
        ("nystrom", "drift", "wiener"),
        ("all points", "drift", "none"),
        ("filter", "sum", "none"),
    ],
)
def test_the_next_point_is_that_of_dense_algebra(posterior: str, name: str, aging: str) -> None:
    """Each pending point is observed at its mean: bounds keep their mean, and lose variance."""
    kernel, (map_, grown) = SPACE_TIME[name], AGED[aging]
    rules = {"exact": Exact(), "nystrom": Nystrom(0.5), "filter": StateSpace()}
    rule: Any = rules.get(posterior, Nystrom(1e9))
    parts: Any = {} if map_ is None else {"aging": map_}
    recipe = Recipe(LINE, kernel, NOISE, mean=0.2, beta=Fixed(3.0), posterior=rule, **parts)
    bandit = Bandit(recipe, seed=1)
    for x, t in zip(TOLD, TIMES, strict=True):
        bandit.tell(x, noisy(x[None], t), t)
    now, asked = 9.0, []
    for t in (7.0, 7.5, 8.0, 8.0, now):
        mean, deviation = bandit.predict(LINE.X, t)
        p = bandit.state.posterior
        x = bandit.ask(t)
        variance = left_after(bandit, kernel, asked, t, grown)
        bound = mean + 3.0 * np.sqrt(np.maximum(variance, 0.0))
        for out, at in asked:
            if at == t:
                bound[LINE.index(out)[0]] = -np.inf
        assert bound[int(LINE.index(x)[0])] == pytest.approx(bound.max(), abs=1e-7)
        if len(asked) > 1:
            assert (variance <= deviation**2 + 1e-9).all()
            assert (variance < 0.5 * deviation**2).any()
        asked.append((x[0], t))
        assert p is None or bandit.info.posterior.in_use == 6


def left_after(bandit: Bandit, kernel: Any, asked: Any, t: float, grown: Any) -> Array:
    """Variances at all candidates at the time t, by one dense update for each point that is out."""
    p: Any = bandit.state.posterior
    here = inputs(kernel, LINE.X, t)
    rows = [int(LINE.index(x)[0]) for x, _ in asked]
    C = p.covariance(here, here)  # itself held against dense formulas with the posteriors
    noise = [expected_noise(kernel, x, at, t, grown(t - at)) for x, at in asked]
    if not rows:
        return np.diagonal(C).copy()
    cross = C[:, rows]
    A = C[np.ix_(rows, rows)] + np.diag(noise)
    return np.asarray(np.diagonal(C) - np.einsum("ij,ji->i", cross, np.linalg.solve(A, cross.T)))


def test_a_point_that_says_nothing_any_more_is_no_reason() -> None:
    """Long after it was asked, a point that is still out tells nothing about now."""
    kernel = OnSpace(KERNEL) * OnTime(RBF(2.0))
    recipe = Recipe(LINE, kernel, NOISE, mean=0.0, beta=Fixed(2.0))
    bandit, free = Bandit(recipe, seed=1), Bandit(recipe, seed=1)
    for each in (bandit, free):
        each.tell(TOLD, wave(TOLD, TIMES), TIMES)
    bandit.ask(7.0)
    np.testing.assert_array_equal(bandit.ask(500.0), free.ask(500.0))
    assert len(bandit.pending) == 2


# --- how they end ---------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", KINDS)
def test_telling_ends_them_in_any_order(variant: str) -> None:
    player, order = made(variant), [3, 1, 0, 2]
    X = player.ask(1.0, n=4)
    for done, row in enumerate(order, 1):
        player.tell(X[[row]], noisy(X[[row]], 1.0), 1.0)
        left = [i for i in range(4) if i not in order[:done]]
        np.testing.assert_array_equal(player.pending, X[left])
    assert player.info.readings == 4


@pytest.mark.parametrize("variant", KINDS)
def test_a_reward_without_a_time_takes_the_time_it_was_asked_for(variant: str) -> None:
    player = made(variant)
    X = np.concatenate([player.ask(t, n=1) for t in (2.0, 9.0, 16.0)])
    assert distinct(X) == 3
    player.tell(X[[1]], [0.5])
    player.tell(X[[2, 0]], [0.1, 0.2])
    table = player.history.query("kind == 'reward'")[["time", "x0", "reward"]].to_numpy()
    expected = [[2.0, X[0, 0], 0.2], [9.0, X[1, 0], 0.5], [16.0, X[2, 0], 0.1]]
    np.testing.assert_array_equal(table, expected)
    assert len(player.pending) == 0


def test_one_point_that_is_out_for_two_times() -> None:
    """A reward with a time ends the one of its time; one without takes the time that is left."""
    bandit = made("gp-ucb", FEW)
    bandit.ask(1.0, n=3)
    bandit.ask(2.0, n=3)
    x = FEW.X[[1]]
    bandit.tell(x, [0.5], 2.0)
    left = bandit.state.pending
    assert left.t[(x == left.X).all(axis=1)].tolist() == [1.0]
    bandit.tell(x, [0.25])
    np.testing.assert_array_equal(bandit.state.rewards.t, [2.0, 1.0])
    assert len(bandit.pending) == 4
    # It is not out any more: the next one is a play of its own, one unit after the latest time.
    bandit.tell(x, [0.0])
    assert bandit.state.rewards.t[-1] == 3.0


def test_what_nobody_asked_for_ends_nothing() -> None:
    bandit = made("gp-ucb")
    X = bandit.ask(3.0, n=2)
    bandit.tell(LINE.X[[row for row in range(41) if LINE.X[row] not in X][:1]], [0.4], 3.0)
    np.testing.assert_array_equal(bandit.pending, X)


@pytest.mark.parametrize("variant", KINDS)
def test_dropped_points_are_forgotten(variant: str) -> None:
    player, twin = (warmed(made(variant)) for _ in range(2))
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


def test_after_a_drop_it_decides_as_if_it_had_not_asked() -> None:
    """Except for draws: an exact posterior on candidates makes none."""
    player, twin = (warmed(made("gp-ucb")) for _ in range(2))
    player.drop(player.ask(10.0, n=3))
    np.testing.assert_array_equal(player.ask(10.0), twin.ask(10.0))


def test_pending_is_a_copy() -> None:
    bandit = made("gp-ucb")
    X = bandit.ask(1.0, n=2)
    bandit.pending[:] = 99.0
    X[:] = -1.0
    assert set(LINE.index(bandit.pending)) <= set(range(41))
    assert repr(bandit).endswith("0 rewards, 2 pending, at the start>")


# --- going on -------------------------------------------------------------------------------------


def test_a_state_with_points_out_of_another_domain_is_refused() -> None:
    bandit = warmed(made("gp-ucb"))
    bandit.ask(10.0, n=2)
    recipe = Recipe(Candidates(np.unique(bandit.state.visited, axis=0)), KERNEL, NOISE)
    with pytest.raises(ValueError, match="points pending must be candidates"):
        Bandit.from_state(recipe, bandit.state)
    bandit.drop(bandit.pending)
    assert Bandit.from_state(recipe, bandit.state).ask(10.0).shape == (1, 1)


@pytest.mark.parametrize("posterior", [Exact(), Nystrom()])
def test_one_batch_rule_is_one_point_whatever_is_out(posterior: Any) -> None:
    bandit = Bandit(Recipe(LINE, KERNEL, NOISE, posterior=posterior, batching=Batching(One())))
    assert [len(bandit.ask(1.0)) for _ in range(3)] == [1, 1, 1]
