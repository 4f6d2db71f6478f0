"""Ask and tell: times, units, information, and going on from a stored state."""

import math
import pickle
import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field
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
from tvbandits import Answers, Bandit, Box, Candidates, Recipe, policies
from tvbandits.acquisition.widths import Fixed
from tvbandits.bandit.observations import append_visited
from tvbandits.data import Source
from tvbandits.validation import Array

SQUARE = Candidates(np.random.default_rng(1).random((50, 2)))


def wave(X: Array, t: float) -> Array:
    """A drifting reward on the line and on the square."""
    return np.asarray(np.sin(X.sum(axis=1) + 0.1 * t) + 0.3 * np.cos(2.7 * X[:, 0] - 0.05 * t))


@dataclass(frozen=True)
class Known:
    """An expert that answers `shift + factor * wave`, with a deviation that depends on the question."""

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
    "sparq-gp-ucb": (policies.sparq_gp_ucb, {"expert": Known()}),
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


def told(bandit: Bandit, rows: list[int], times: list[float], **options: Any) -> Bandit:
    """After rewards of candidates on the line at some times."""
    for row, t in zip(rows, times, strict=True):
        bandit.tell(LINE.X[row], wave(LINE.X[[row]], t), t, **options)
    return bandit


def play(bandit: Bandit, steps: int, factor: float = 1.0, shift: float = 0.0) -> Array:
    """The points of some steps."""

    def reward(x: Array, t: float) -> Array:
        return shift + factor * (wave(x, t) + 0.1 * np.sin(1e4 * x.sum() + 3 * t))

    return play_without_times(bandit, reward, steps)


def dense(X: Array, y: Array, variance: Array, at: Array, mean: float = 0.0) -> tuple[Array, Array]:
    """Posterior mean and deviation under KERNEL."""
    oracle = Dense(KERNEL, X, (y - mean)[:, None], variance)
    return mean + oracle.mean(at)[:, 0], oracle.deviation(at)


# --- times ----------------------------------------------------------------------------------------


def test_times_count_from_one_where_none_is_given() -> None:
    bandit = make()
    bandit.ask()
    assert bandit.state.record.pending_time == 1.0
    for row in (3, 5, 5):
        bandit.tell(LINE.X[row], [0.0])
    np.testing.assert_array_equal(bandit.state.rewards.t, [1.0, 2.0, 3.0])
    bandit.ask()
    assert bandit.state.record.pending_time == 4.0


def test_a_tell_without_a_time_belongs_to_the_time_asked_for() -> None:
    bandit = told(make(), [0], [5.0])
    bandit.ask(9.75)
    bandit.tell(LINE.X[2], [0.3], t=3.0)  # a late one does not take it
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
def test_only_differences_of_times_matter(times: list[int], offset: float, policy: str) -> None:
    here, there = make(policy, seed=4), make(policy, seed=4)
    for i, t in enumerate(times):
        x, y = LINE.X[(5 * i) % 41], math.sin(i)
        here.tell(x, [y], t / 4)
        there.tell(x, [y], t / 4 + offset)
    now = max(times) / 4 + 1.25
    np.testing.assert_array_equal(here.ask(now), there.ask(now + offset))
    assert fingerprint(here.info) == fingerprint(there.info)


# --- what is told ---------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, 0.5, [0.5, 0.002, 3.0, 0.1]])
def test_several_points_may_be_told_at_once_and_their_variances_count(given: Any) -> None:
    rows, y = [4, 9, 30, 9], np.array([0.1, -0.4, 0.8, -0.3])
    together, common = make(mean=0.0), make(mean=0.0)
    info = together.tell(LINE.X[rows], y, [1.0, 2.0, 3.0, 4.0], given)
    common.tell(LINE.X[rows], y, 4.0, given)
    assert info.readings == 4
    np.testing.assert_array_equal(common.state.rewards.t, [4.0] * 4)
    np.testing.assert_array_equal(together.state.visited, LINE.X[[4, 9, 30]])
    variance = np.broadcast_to(NOISE if given is None else given, 4)
    np.testing.assert_array_equal(together.state.rewards.variance, variance)
    expected = dense(LINE.X[rows], y, variance, LINE.X)
    for bandit in (together, common):
        np.testing.assert_allclose(bandit.predict(LINE.X), expected, rtol=1e-9, atol=1e-12)


def test_one_point_and_one_reward_may_be_plain_numbers() -> None:
    flat, nested = make(domain=SQUARE), make(domain=SQUARE)
    flat.tell(SQUARE.X[3].tolist(), 0.5, t=2, noise_variance=0.3)
    nested.tell(SQUARE.X[[3]], [0.5], t=[2.0], noise_variance=[0.3])
    assert fingerprint(flat.state) == fingerprint(nested.state)


def test_a_point_is_told_by_its_candidate() -> None:
    bandit = make()
    bandit.tell([[0.25 + 1e-11]], [1.0])
    assert bandit.state.rewards.X[0, 0] == 0.25
    assert len(bandit.state.visited) == 1
    bandit.tell([[0.25 - 1e-11]], [1.0])
    assert len(bandit.state.visited) == 1


# --- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", MAKERS)
def test_asking_predicting_and_recommending_agree(policy: str) -> None:
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
    # QueryConfig draws the same posterior as predicting, which leaves no trace.
    bandit = Bandit.from_state(bandit.recipe, state)
    state, before = bandit.state, fingerprint(state)
    bandit.predict(LINE.X[:3], 99.0)
    bandit.recommend(99.0)
    assert bandit.state is state
    assert fingerprint(bandit.state) == before


def test_the_recommendation_is_about_the_time_given() -> None:
    bandit = make("tv-gp-ucb", forgetting_rate=0.3, mean=0.0)
    bandit.tell(LINE.X[[5, 35]], [2.0, 1.9], [1.0, 6.0])
    # The best reward seen is the first, but it is five steps older.
    assert bandit.recommend(7.0)[0] == LINE.X[35, 0]
    assert bandit.recommend(1.0)[0] == LINE.X[5, 0]


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", MAKERS)
def test_the_unit_and_the_origin_of_the_reward_do_not_matter(policy: str) -> None:
    factor, shift = 1e6, -3e7
    options: dict[str, Any] = {}
    if policy == "ui-gp-ucb":
        options = {"forgetting_rate": 0.02 * factor**2}  # reward squared per unit of time
    if policy == "sparq-gp-ucb":
        options = {"expert": Known(factor, shift)}
    kernel = RBF(3.0)  # so long that no two candidates differ by rounding alone
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


def test_a_constant_reward_is_no_obstacle() -> None:
    bandit = make()
    for _ in range(30):
        bandit.tell(bandit.ask(), [7.0])
    mean, deviation = bandit.predict(LINE.X)
    np.testing.assert_allclose(mean, 7.0)
    assert (deviation <= math.sqrt(NOISE)).all()  # no smaller variation can be told from noise


# --- experts --------------------------------------------------------------------------------------


@dataclass
class Noted:
    """An expert that keeps what it was asked, and spoils what it was given."""

    asked: list[tuple[Array, float]] = field(default_factory=list)

    def query(self, X: Array, t: float) -> Answers:
        self.asked.append((X.copy(), t))
        answers = Answers(wave(X, t), 0.01)
        X[:] = np.nan
        return answers


def test_the_expert_is_asked_about_the_latest_time() -> None:
    expert = Noted()
    bandit = make("sparq-gp-ucb", expert=expert)
    told(bandit, [3, 8, 8, 12], [1.5, 4.0, 2.0, 9.25])
    # log 1 = 0: nothing at first; and the reward that comes late asks nothing.
    assert [t for _, t in expert.asked] == [4.0, 9.25]
    np.testing.assert_array_equal(expert.asked[-1][0], LINE.X[[3, 8, 12]])
    # What it did to its points is not seen by the bandit.
    np.testing.assert_array_equal(bandit.state.visited, LINE.X[[3, 8, 12]])
    np.testing.assert_array_equal(bandit.state.answers.X, LINE.X[[3, 8, 12]])
    assert (bandit.state.answers.source == Source.EXPERT).all()


# --- randomness -----------------------------------------------------------------------------------


def test_a_generator_as_seed_is_not_advanced_and_serves_several_bandits() -> None:
    shared = np.random.default_rng(7)
    before = shared.bit_generator.state
    first, second = make(seed=shared), make(seed=shared)
    points = play(first, 10)
    assert shared.bit_generator.state == before
    assert first.state.random != second.state.random
    assert not np.array_equal(points, play(second, 10))
    np.testing.assert_array_equal(points, play(make(seed=np.random.default_rng(7)), 10))


@pytest.mark.parametrize("policy", [policies.uniform, policies.thompson])
def test_a_bandit_made_anew_from_a_longer_log_draws_other_numbers(policy: Any) -> None:
    log: list[float] = []
    for t in range(12):
        bandit = policy(LINE, seed=0)
        if log:  # rewards of no information: what differs is drawn
            bandit.tell(
                LINE.X[:1].repeat(len(log), axis=0), np.zeros(len(log)), np.arange(len(log)), 1e9
            )
        log.append(float(bandit.ask(t)[0, 0]))
    assert len({*log}) > 6


@pytest.mark.parametrize("policy", [policies.uniform, policies.gp_ucb])
def test_the_numbers_depend_on_how_many_rewards_were_told_not_on_the_calls(policy: Any) -> None:
    X, y = LINE.X[:6], np.zeros(6)
    once, in_turn = policy(LINE, seed=3), policy(LINE, seed=3)
    once.tell(X, y, np.arange(6.0))
    for t in range(6):
        in_turn.tell(X[t : t + 1], y[:1], t)
    np.testing.assert_array_equal(once.ask(7, n=3), in_turn.ask(7, n=3))


def test_numbers_are_not_skipped_for_rewards_that_were_asked_for() -> None:
    bandit, other = policies.uniform(LINE, seed=3), policies.uniform(LINE, seed=3)
    for t in range(3):
        X = bandit.ask(t)
        bandit.tell(X, [0.0], t)
    for t in range(3):
        other.ask(t)
    np.testing.assert_array_equal(bandit.ask(3), other.ask(3))


@pytest.mark.parametrize("bits", [np.random.PCG64DXSM, np.random.MT19937, np.random.SFC64])
def test_a_generator_keeps_its_kind(bits: Any) -> None:
    bandit = make(seed=np.random.Generator(bits(1)))
    play(bandit, 3)
    resumed = Bandit.from_state(bandit.recipe, pickle.loads(pickle.dumps(bandit.state)))
    assert bandit.state.random["bit_generator"] == bits.__name__
    np.testing.assert_array_equal(play(bandit, 5), play(resumed, 5))


def test_global_randomness_is_left_alone() -> None:
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


# --- going on -------------------------------------------------------------------------------------


def resumed(bandit: Bandit) -> Bandit:
    """The same, after a trip through a file."""
    return Bandit.from_state(bandit.recipe, pickle.loads(pickle.dumps(bandit.state)))


def test_a_state_goes_on_under_another_recipe() -> None:
    bandit = make(mean=0.0)
    play(bandit, 20)
    bandit.drop(bandit.ask())
    seen = bandit.state.rewards
    wider = Recipe(LINE, RBF(4.0), NOISE, beta=Fixed(1.0), mean=0.0)
    fresh = Bandit(wider)
    fresh.tell(seen.X, seen.y, seen.t)
    expected = fresh.predict(LINE.X)
    np.testing.assert_allclose(
        Bandit.from_state(wider, bandit.state).predict(LINE.X), expected, rtol=1e-8, atol=1e-10
    )
    # More candidates; and as many as before, but others: the played ones and new ones.
    more = np.linspace(0.0, 10.0, 81)[:, None]
    others = np.concatenate([bandit.state.visited, np.linspace(20, 30, 41)[:, None]])[:41]
    for X in (more, others):
        finer = Recipe(Candidates(X), KERNEL, NOISE, beta=Fixed(0.5), mean=0.0)
        mean, deviation = dense(seen.X, seen.y, seen.variance, X)
        again = Bandit.from_state(finer, bandit.state)
        for _ in range(2):
            x = again.ask()
            assert x[0, 0] == X[np.argmax(mean + 0.5 * deviation), 0]
            again.drop(x)
            again = resumed(again)


@pytest.mark.parametrize("first", [0.0, 5.0, "online"])
@pytest.mark.parametrize("then", [0.0, "online"])
def test_a_state_goes_on_under_another_mean(first: Any, then: Any) -> None:
    bandit, fresh = make(mean=first), make(mean=then)
    for step in range(8):
        bandit.ask()
        for other in (bandit, fresh):
            other.tell(LINE.X[5 * step], [math.sin(step)])
    bandit.ask()
    again = Bandit.from_state(fresh.recipe, bandit.state)
    if first == then == "online":
        fresh = bandit
    np.testing.assert_allclose(again.predict(LINE.X), fresh.predict(LINE.X), rtol=1e-8, atol=1e-10)


def test_a_state_that_does_not_fit_is_refused() -> None:
    bandit = told(make(), [3], [1])
    with pytest.raises(ValueError, match=r"1 coordinates, .* 2"):
        Bandit.from_state(make(domain=SQUARE, kernel=RBF(0.3)).recipe, bandit.state)
    elsewhere = make(domain=Candidates([[50.0], [60.0]]))
    with pytest.raises(ValueError, match=r"candidates, .*\[0\.75\]"):
        Bandit.from_state(elsewhere.recipe, bandit.state)


def test_a_state_is_read_only() -> None:
    bandit = make("sparq-gp-ucb")
    play(bandit, 5)
    state = bandit.state
    columns = [state.visited]
    for seen in (state.rewards, state.answers):
        columns += [seen.X, seen.t, seen.y, seen.variance, seen.source]
    for column in columns:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    with pytest.raises(FrozenInstanceError, match="time"):
        state.time = 0.0  # type: ignore[misc]


def test_what_is_returned_and_what_was_given_may_be_changed() -> None:
    bandit, untouched = make(), make()
    x, y, t = bandit.ask(), np.array([1.0]), np.array([1.0])
    untouched.tell(untouched.ask(), [1.0], 1.0)
    bandit.tell(x, y, t)
    for array in (x, y, t, bandit.recommend(), *bandit.predict(LINE.X)):
        array[:] = 1e9
    np.testing.assert_array_equal(play(bandit, 5), play(untouched, 5))


# --- boxes ----------------------------------------------------------------------------------------


def test_a_box_is_searched_well() -> None:
    bandit = make(domain=Box([[0.0, 10.0]]), beta=2.0, mean=0.0)
    bandit.tell(X := np.array([[1.0], [4.0], [9.5]]), y := np.array([0.2, 1.5, -1.0]), 1.0)
    grid = np.linspace(0, 10, 10001)[:, None]
    mean, deviation = dense(X, y, np.full(3, NOISE), grid)
    assert bandit.ask()[0, 0] == pytest.approx(grid[np.argmax(mean + 2 * deviation), 0], abs=2e-3)
    assert bandit.recommend()[0] == pytest.approx(grid[mean.argmax(), 0], abs=2e-3)


# --- recipes --------------------------------------------------------------------------------------


def test_visited_points_of_a_batch_are_kept_once_in_the_order_they_came() -> None:
    before = np.array([[0.0, 1.0], [2.0, 3.0]])
    batch = np.array([[5.0, 5.0], [-0.0, 1.0], [4.0, 4.0], [5.0, 5.0], [2.0, 3.0]])
    expected = [[0.0, 1.0], [2.0, 3.0], [5.0, 5.0], [4.0, 4.0]]
    assert append_visited(before, batch).tolist() == expected
    one_by_one = before
    for x in batch:
        one_by_one = append_visited(one_by_one, x[None])
    assert one_by_one.tolist() == expected
