"""Ask and tell: times, units, predictions, random numbers, and continuing from a state."""

import math
import pickle
import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import KERNEL, LINE, NOISE
from tests.helpers.recipes import build
from tests.oracles.dense import Dense
from tests.oracles.loops import play_without_times
from tests.oracles.states import fingerprint
from tvbandits import Answers, Arms, Bandit, Box, Candidates, Recipe, policies
from tvbandits.acquisition.widths import Fixed
from tvbandits.bandit.observations import append_visited
from tvbandits.data import Source
from tvbandits.errors import PlayError
from tvbandits.validation import Array

SQUARE = Candidates(np.random.default_rng(1).random((50, 2)))


def wave(X: Array, t: float) -> Array:
    """Return a drifting reward on the line or the square."""
    return np.asarray(np.sin(X.sum(axis=1) + 0.1 * t) + 0.3 * np.cos(2.7 * X[:, 0] - 0.05 * t))


@dataclass(frozen=True)
class ScaledWaveExpert:
    """An expert that answers `shift + factor * wave` with an error that depends on the point."""

    factor: float = 1.0
    shift: float = 0.0
    variance: float = 0.01

    def query(self, X: Array, t: float) -> Answers:
        value = wave(X, t) + 0.1 * np.sin(1e3 * X.sum(axis=1) + t)
        return Answers(self.shift + self.factor * value, self.variance * self.factor**2, len(X))


Make = Callable[..., Bandit]
MAKERS: dict[str, tuple[Make, dict[str, Any]]] = {
    "gp-ucb": (policies.gp_ucb, {}),
    "r-gp-ucb": (policies.r_gp_ucb, {"reset_every": 13}),
    "sw-gp-ucb": (policies.sw_gp_ucb, {"window": 20}),
    "w-gp-ucb": (policies.w_gp_ucb, {"discount": 0.9}),
    "tv-gp-ucb": (policies.tv_gp_ucb, {"forgetting_rate": 0.05}),
    "ui-gp-ucb": (policies.ui_gp_ucb, {"forgetting_rate": 0.02}),
    "sparq-gp-ucb": (policies.sparq_gp_ucb, {"expert": ScaledWaveExpert()}),
}


def make(
    policy: str = "gp-ucb",
    domain: Candidates | Box = LINE,
    kernel: Any = KERNEL,
    noise_variance: float = NOISE,
    **options: Any,
) -> Bandit:
    recipe, parameters = MAKERS[policy]
    values = {"kernel": kernel, "noise_variance": noise_variance, **parameters, **options}
    bandit: Bandit = build(recipe, domain, **values)
    return bandit


def tell_rows(bandit: Bandit, rows: list[int], times: list[float], **options: Any) -> Bandit:
    """Tell a bandit rewards of candidates on the line, and return it."""
    for row, t in zip(rows, times, strict=True):
        bandit.tell(LINE.X[row], wave(LINE.X[[row]], t), t, **options)
    return bandit


def play(bandit: Bandit, steps: int, factor: float = 1.0, shift: float = 0.0) -> Array:
    """Return the points of some steps."""

    def reward(x: Array, t: float) -> Array:
        return shift + factor * (wave(x, t) + 0.1 * np.sin(1e4 * x.sum() + 3 * t))

    return play_without_times(bandit, reward, steps)


def dense(X: Array, y: Array, variance: Array, at: Array, mean: float = 0.0) -> tuple[Array, Array]:
    """Return posterior mean and deviation under KERNEL."""
    oracle = Dense(KERNEL, X, (y - mean)[:, None], variance)
    return mean + oracle.mean(at)[:, 0], oracle.deviation(at)


# --- times ----------------------------------------------------------------------------------------


def test_ask_and_tell_count_times_from_one_by_default() -> None:
    bandit = make()
    bandit.ask()
    assert bandit.state.record.pending_time == 1.0
    for row in (3, 5, 5):
        bandit.tell(LINE.X[row], [0.0])
    np.testing.assert_array_equal(bandit.state.rewards.t, [1.0, 2.0, 3.0])
    bandit.ask()
    assert bandit.state.record.pending_time == 4.0


def test_tell_without_a_time_takes_the_time_of_ask() -> None:
    bandit = tell_rows(make(), [0], [5.0])
    bandit.ask(9.75)
    bandit.tell(LINE.X[2], [0.3], t=3.0)  # a late reward leaves the time of `ask`
    assert bandit.state.time == 5.0
    bandit.tell(LINE.X[4], [1.0])
    bandit.tell(LINE.X[4], [1.0])
    np.testing.assert_array_equal(bandit.state.rewards.t, [5.0, 3.0, 9.75, 10.75])


@given(
    times=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    offset=st.sampled_from([-1024.0, 0.5, 2.0**20]),
    policy=st.sampled_from(sorted(set(MAKERS) - {"sparq-gp-ucb"})),
)
@settings(deadline=None, max_examples=25)
def test_bandit_ignores_the_origin_of_time(times: list[int], offset: float, policy: str) -> None:
    bandit, shifted = make(policy, seed=4), make(policy, seed=4)
    for i, t in enumerate(times):
        x, y = LINE.X[(5 * i) % 41], math.sin(i)
        bandit.tell(x, [y], t / 4)
        shifted.tell(x, [y], t / 4 + offset)
    now = max(times) / 4 + 1.25
    np.testing.assert_array_equal(bandit.ask(now), shifted.ask(now + offset))
    assert fingerprint(bandit.info) == fingerprint(shifted.info)


# --- observations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_variance", [None, 0.5, [0.5, 0.002, 3.0, 0.1]])
def test_tell_accepts_several_points_with_their_variances(noise_variance: Any) -> None:
    rows, y = [4, 9, 30, 9], np.array([0.1, -0.4, 0.8, -0.3])
    together, common = make(mean=0.0), make(mean=0.0)
    info = together.tell(LINE.X[rows], y, [1.0, 2.0, 3.0, 4.0], noise_variance)
    common.tell(LINE.X[rows], y, 4.0, noise_variance)
    assert info.readings == 4
    np.testing.assert_array_equal(common.state.rewards.t, [4.0] * 4)
    np.testing.assert_array_equal(together.state.visited, LINE.X[[4, 9, 30]])
    variance = np.broadcast_to(NOISE if noise_variance is None else noise_variance, 4)
    np.testing.assert_array_equal(together.state.rewards.variance, variance)
    expected = dense(LINE.X[rows], y, variance, LINE.X)
    for bandit in (together, common):
        np.testing.assert_allclose(bandit.predict(LINE.X), expected, rtol=1e-9, atol=1e-12)


def test_tell_accepts_a_point_and_a_reward_as_plain_numbers() -> None:
    flat, nested = make(domain=SQUARE), make(domain=SQUARE)
    flat.tell(SQUARE.X[3].tolist(), 0.5, t=2, noise_variance=0.3)
    nested.tell(SQUARE.X[[3]], [0.5], t=[2.0], noise_variance=[0.3])
    assert fingerprint(flat.state) == fingerprint(nested.state)


def test_tell_rounds_a_point_to_its_candidate() -> None:
    bandit = make()
    bandit.tell([[0.25 + 1e-11]], [1.0])
    assert bandit.state.rewards.X[0, 0] == 0.25
    assert len(bandit.state.visited) == 1
    bandit.tell([[0.25 - 1e-11]], [1.0])
    assert len(bandit.state.visited) == 1


# --- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", MAKERS)
def test_ask_predict_and_recommend_agree(policy: str) -> None:
    bandit = make(policy, beta=1.3)
    play(bandit, 25)
    mean, deviation = bandit.predict(LINE.X)
    recommended = bandit.recommend()
    state = bandit.state
    x = bandit.ask()[0, 0]
    assert bandit.info.beta == 1.3
    assert x == LINE.X[np.argmax(mean + 1.3 * deviation), 0]
    assert recommended.shape == (1,)
    assert recommended[0] == LINE.X[mean.argmax(), 0]
    # `predict` and `recommend` do not change the state.
    bandit = Bandit.from_state(bandit.recipe, state)
    state, before = bandit.state, fingerprint(state)
    bandit.predict(LINE.X[:3], 99.0)
    bandit.recommend(99.0)
    assert bandit.state is state
    assert fingerprint(bandit.state) == before


def test_recommend_is_for_the_given_time() -> None:
    bandit = make("tv-gp-ucb", forgetting_rate=0.3, mean=0.0)
    bandit.tell(LINE.X[[5, 35]], [2.0, 1.9], [1.0, 6.0])
    # The first reward is the largest, but it is five steps older.
    assert bandit.recommend(7.0)[0] == LINE.X[35, 0]
    assert bandit.recommend(1.0)[0] == LINE.X[5, 0]


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", MAKERS)
def test_bandit_ignores_unit_and_origin_of_the_reward(policy: str) -> None:
    factor, shift = 1e6, -3e7
    options: dict[str, Any] = {}
    if policy == "ui-gp-ucb":
        options = {"forgetting_rate": 0.02 * factor**2}  # reward squared per unit of time
    if policy == "sparq-gp-ucb":
        options = {"expert": ScaledWaveExpert(factor, shift)}
    kernel = RBF(3.0)  # no two candidates differ by rounding alone
    plain = make(policy, kernel=kernel)
    large = make(policy, kernel=kernel, noise_variance=NOISE * factor**2, **options)
    np.testing.assert_array_equal(play(plain, 60), play(large, 60, factor, shift))
    (mean, deviation), (large_mean, large_deviation) = (
        bandit.predict(LINE.X) for bandit in (plain, large)
    )
    np.testing.assert_allclose(large_mean, shift + factor * mean, rtol=1e-7)
    np.testing.assert_allclose(large_deviation, factor * deviation, rtol=1e-7)
    assert large.info.model.scale == pytest.approx(factor * plain.info.model.scale)
    assert large.info.model.mean == pytest.approx(shift + factor * plain.info.model.mean)


def test_predict_after_constant_rewards_is_the_constant() -> None:
    bandit = make()
    for _ in range(30):
        bandit.tell(bandit.ask(), [7.0])
    mean, deviation = bandit.predict(LINE.X)
    np.testing.assert_allclose(mean, 7.0)
    assert (deviation <= math.sqrt(NOISE)).all()  # smaller variation is noise


# --- experts --------------------------------------------------------------------------------------


@dataclass
class SpoilingExpert:
    """An expert that records its queries, and spoils the points that it receives."""

    queries: list[tuple[Array, float]] = field(default_factory=list)

    def query(self, X: Array, t: float) -> Answers:
        self.queries.append((X.copy(), t))
        answers = Answers(wave(X, t), 0.01)
        X[:] = np.nan
        return answers


def test_tell_queries_the_expert_about_the_latest_time() -> None:
    expert = SpoilingExpert()
    bandit = make("sparq-gp-ucb", expert=expert)
    tell_rows(bandit, [3, 8, 8, 12], [1.5, 4.0, 2.0, 9.25])
    # No query at first, as log 1 = 0, nor after the late reward.
    assert [t for _, t in expert.queries] == [4.0, 9.25]
    np.testing.assert_array_equal(expert.queries[-1][0], LINE.X[[3, 8, 12]])
    # The expert receives a copy of the points.
    np.testing.assert_array_equal(bandit.state.visited, LINE.X[[3, 8, 12]])
    np.testing.assert_array_equal(bandit.state.answers.X, LINE.X[[3, 8, 12]])
    assert (bandit.state.answers.source == Source.EXPERT).all()


# --- randomness -----------------------------------------------------------------------------------


def test_seed_as_a_generator_is_not_advanced_and_can_be_shared() -> None:
    shared = np.random.default_rng(7)
    before = shared.bit_generator.state
    first, second = make(seed=shared), make(seed=shared)
    points = play(first, 10)
    assert shared.bit_generator.state == before
    assert first.state.random != second.state.random
    assert not np.array_equal(points, play(second, 10))
    np.testing.assert_array_equal(points, play(make(seed=np.random.default_rng(7)), 10))


@pytest.mark.parametrize("policy", [policies.uniform, policies.thompson])
def test_ask_draws_other_numbers_after_more_observations(policy: Any) -> None:
    log: list[float] = []
    for t in range(12):
        bandit = policy(LINE, seed=0)
        if log:  # rewards without information, so that only the random numbers differ
            bandit.tell(
                LINE.X[:1].repeat(len(log), axis=0), np.zeros(len(log)), np.arange(len(log)), 1e9
            )
        log.append(float(bandit.ask(t)[0, 0]))
    assert len({*log}) > 6


@pytest.mark.parametrize("policy", [policies.uniform, policies.gp_ucb])
def test_ask_draws_numbers_by_the_count_of_rewards_not_of_calls(policy: Any) -> None:
    X, y = LINE.X[:6], np.zeros(6)
    at_once, in_turn = policy(LINE, seed=3), policy(LINE, seed=3)
    at_once.tell(X, y, np.arange(6.0))
    for t in range(6):
        in_turn.tell(X[t : t + 1], y[:1], t)
    np.testing.assert_array_equal(at_once.ask(7, n=3), in_turn.ask(7, n=3))


def test_tell_of_asked_points_skips_no_random_numbers() -> None:
    bandit, other = policies.uniform(LINE, seed=3), policies.uniform(LINE, seed=3)
    for t in range(3):
        X = bandit.ask(t)
        bandit.tell(X, [0.0], t)
    for t in range(3):
        other.ask(t)
    np.testing.assert_array_equal(bandit.ask(3), other.ask(3))


@pytest.mark.parametrize("bits", [np.random.PCG64DXSM, np.random.MT19937, np.random.SFC64])
def test_state_keeps_the_kind_of_the_bit_generator(bits: Any) -> None:
    bandit = make(seed=np.random.Generator(bits(1)))
    play(bandit, 3)
    reload = Bandit.from_state(bandit.recipe, pickle.loads(pickle.dumps(bandit.state)))
    assert bandit.state.random["bit_generator"] == bits.__name__
    np.testing.assert_array_equal(play(bandit, 5), play(reload, 5))


def test_bandit_leaves_global_random_states_unchanged() -> None:
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    numpys, pythons = fingerprint(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002
    for policy in MAKERS:
        bandit = make(policy, seed=1)
        play(bandit, 12)
        bandit.predict(LINE.X)
        bandit.recommend()
    play(make(domain=Box([[0.0, 10.0]])), 2)
    assert fingerprint(np.random.get_state(legacy=False)) == numpys  # noqa: NPY002
    assert random.getstate() == pythons


# --- continuing from a state ----------------------------------------------------------------------


def reload(bandit: Bandit) -> Bandit:
    """Return the bandit from its pickled state."""
    return Bandit.from_state(bandit.recipe, pickle.loads(pickle.dumps(bandit.state)))


def test_from_state_accepts_another_recipe() -> None:
    bandit = make(mean=0.0)
    play(bandit, 20)
    bandit.drop(bandit.ask())
    rewards = bandit.state.rewards
    wider = Recipe(LINE, RBF(4.0), NOISE, beta=Fixed(1.0), mean=0.0)
    fresh = Bandit(wider)
    fresh.tell(rewards.X, rewards.y, rewards.t)
    expected = fresh.predict(LINE.X)
    np.testing.assert_allclose(
        Bandit.from_state(wider, bandit.state).predict(LINE.X), expected, rtol=1e-8, atol=1e-10
    )
    # There are more candidates, or as many with new ones beside the played ones.
    more = np.linspace(0.0, 10.0, 81)[:, None]
    others = np.concatenate([bandit.state.visited, np.linspace(20, 30, 41)[:, None]])[:41]
    for X in (more, others):
        finer = Recipe(Candidates(X), KERNEL, NOISE, beta=Fixed(0.5), mean=0.0)
        mean, deviation = dense(rewards.X, rewards.y, rewards.variance, X)
        continued = Bandit.from_state(finer, bandit.state)
        for _ in range(2):
            x = continued.ask()
            assert x[0, 0] == X[np.argmax(mean + 0.5 * deviation), 0]
            continued.drop(x)
            continued = reload(continued)


@pytest.mark.parametrize("first", [0.0, 5.0, "online"])
@pytest.mark.parametrize("second", [0.0, "online"])
def test_from_state_accepts_another_mean(first: Any, second: Any) -> None:
    bandit, fresh = make(mean=first), make(mean=second)
    for step in range(8):
        bandit.ask()
        for other in (bandit, fresh):
            other.tell(LINE.X[5 * step], [math.sin(step)])
    bandit.ask()
    continued = Bandit.from_state(fresh.recipe, bandit.state)
    if first == second == "online":
        fresh = bandit
    np.testing.assert_allclose(
        continued.predict(LINE.X), fresh.predict(LINE.X), rtol=1e-8, atol=1e-10
    )


def test_from_state_refuses_a_state_of_another_domain() -> None:
    bandit = tell_rows(make(), [3], [1])
    with pytest.raises(ValueError, match=r"1 coordinates, .* 2"):
        Bandit.from_state(make(domain=SQUARE, kernel=RBF(0.3)).recipe, bandit.state)
    elsewhere = make(domain=Candidates([[50.0], [60.0]]))
    with pytest.raises(ValueError, match=r"candidates, .*\[0\.75\]"):
        Bandit.from_state(elsewhere.recipe, bandit.state)


def test_state_is_read_only() -> None:
    bandit = make("sparq-gp-ucb")
    play(bandit, 5)
    state = bandit.state
    columns = [state.visited]
    for data in (state.rewards, state.answers):
        columns += [data.X, data.t, data.y, data.variance, data.source]
    for column in columns:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    with pytest.raises(FrozenInstanceError, match="time"):
        state.time = 0.0  # type: ignore[misc]


def test_bandit_copies_arguments_and_results() -> None:
    bandit, untouched = make(), make()
    x, y, t = bandit.ask(), np.array([1.0]), np.array([1.0])
    untouched.tell(untouched.ask(), [1.0], 1.0)
    bandit.tell(x, y, t)
    for array in (x, y, t, bandit.recommend(), *bandit.predict(LINE.X)):
        array[:] = 1e9
    np.testing.assert_array_equal(play(bandit, 5), play(untouched, 5))


# --- boxes ----------------------------------------------------------------------------------------


def test_ask_and_recommend_on_a_box_find_the_maximum_of_a_grid() -> None:
    bandit = make(domain=Box([[0.0, 10.0]]), beta=2.0, mean=0.0)
    bandit.tell(X := np.array([[1.0], [4.0], [9.5]]), y := np.array([0.2, 1.5, -1.0]), 1.0)
    grid = np.linspace(0, 10, 10001)[:, None]
    mean, deviation = dense(X, y, np.full(3, NOISE), grid)
    assert bandit.ask()[0, 0] == pytest.approx(grid[np.argmax(mean + 2 * deviation), 0], abs=2e-3)
    assert bandit.recommend()[0] == pytest.approx(grid[mean.argmax(), 0], abs=2e-3)


# --- recipes --------------------------------------------------------------------------------------


def test_append_visited_adds_each_new_point_once_in_order() -> None:
    before = np.array([[0.0, 1.0], [2.0, 3.0]])
    batch = np.array([[5.0, 5.0], [-0.0, 1.0], [4.0, 4.0], [5.0, 5.0], [2.0, 3.0]])
    expected = [[0.0, 1.0], [2.0, 3.0], [5.0, 5.0], [4.0, 4.0]]
    assert append_visited(before, batch).tolist() == expected
    one_by_one = before
    for x in batch:
        one_by_one = append_visited(one_by_one, x[None])
    assert one_by_one.tolist() == expected


SMALL_DOMAINS = {
    "box": Box([(5.0, 25.0)]),
    "candidates": Candidates(np.linspace(5.0, 25.0, 9)[:, None]),
    "arms": Arms(["red", "green"]),
}


@pytest.mark.parametrize("name", SMALL_DOMAINS)
def test_predict_and_recommend_refuse_a_time_before_the_first_reading(name: str) -> None:
    bandit = policies.adaptive_gp_ucb(SMALL_DOMAINS[name])
    X = bandit.ask(10)
    bandit.tell(X, [100.0], 10)
    for call in (partial(bandit.predict, X), bandit.recommend):
        with pytest.raises(PlayError, match=r"until t = 9\.5: .* t = 10$"):
            call(t=9.5)
        call(t=10)
