"""Available points: masks, rows, functions, ranges, contexts, and expert queries among them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import (
    INTERVAL,
    KERNEL,
    KINDS,
    LINE,
    NOISE,
    ON_INTERVAL,
    RecordingWaveExpert,
    make_player,
    noisy_wave,
    warm_up,
)
from tests.helpers.refusals import assert_refused
from tvbandits import (
    Arms,
    Bandit,
    Box,
    Candidates,
    NothingAvailableError,
    Recipe,
    Space,
    load,
    policies,
)
from tvbandits.domains.availability import ChoiceSet
from tvbandits.policies import POLICIES, Setting
from tvbandits.queries import NextDecision, RandomPoints
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import Array

PLANE = np.stack(np.meshgrid(np.linspace(0, 5, 11), [0.0, 1.0, 2.0], indexing="ij"), axis=-1)
CONTEXTS = Candidates(PLANE.reshape(-1, 2), context=[1])


def right(X: Array) -> Array:
    """Return a mask of the points in the right part of the interval."""
    return np.asarray(X[:, 0] >= 7.25)


# --- forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", KINDS)
def test_ask_treats_a_mask_rows_and_a_function_alike(variant: str) -> None:
    mask = right(LINE.X)
    rows = np.flatnonzero(mask)
    forms: list[Any] = [mask, right]
    if variant == "gp-ucb":
        forms += [rows, rows[::-1].tolist()]
    players = [warm_up(make_player(variant)) for _ in forms]
    for t in (10.0, 11.0):
        batches = [p.ask(t, n=3, available=form) for p, form in zip(players, forms, strict=True)]
        assert right(batches[0]).all()
        for player, X in zip(players, batches, strict=True):
            np.testing.assert_array_equal(X, batches[0])
            player.tell(X, noisy_wave(X, t), t)


def test_ask_accepts_names_of_arms_as_available() -> None:
    bandit = policies.adaptive_gp_ucb(Arms(["red", "green", "blue"]))
    points = bandit.ask(1, n=9, available=["blue", "green"])
    assert {*bandit.recipe.domain.decode(points)["arm"]} == {"blue", "green"}
    assert_refused(
        ValueError,
        r"arm must be one of .*, got 'grey' in row 1",
        bandit.ask,
        2,
        None,
        ["red", "grey"],
    )
    assert_refused(
        ValueError, r"row numbers .* distinct, got 0 twice", bandit.ask, 2, None, ["red", "red"]
    )


def test_ask_and_recommend_return_the_best_available_point() -> None:
    bandit = warm_up(make_player("gp-ucb"))
    mean, deviation = bandit.predict(LINE.X, 10.0)
    rows = np.argsort(mean + 2.0 * deviation)[:11]  # the lowest bounds
    assert LINE.index(bandit.ask(10.0, available=rows))[0] == rows[-1]
    bandit.drop(bandit.pending)
    best = rows[np.argmax(mean[rows])]
    np.testing.assert_array_equal(bandit.recommend(10.0, available=rows), LINE.X[best])
    np.testing.assert_array_equal(bandit.recommend(10.0), LINE.X[np.argmax(mean)])


@pytest.mark.parametrize("variant", [kind for kind in KINDS if kind in ON_INTERVAL])
def test_ask_on_a_box_keeps_to_a_function(variant: str) -> None:
    player = warm_up(make_player(variant, INTERVAL), INTERVAL)
    for t in (10.0, 11.0, 12.0):
        X = player.ask(t, n=2, available=right)
        assert right(X).all()
        player.tell(X, noisy_wave(X, t), t)
    if isinstance(player, Bandit):
        assert right(player.recommend(13.0, available=right)[None]).all()


@pytest.mark.parametrize("variant", ["gp-ucb", "frugal-gp-ucb"])
def test_ask_on_a_box_treats_ranges_and_a_function_alike(variant: str, tmp_path: Path) -> None:
    players = [warm_up(make_player(variant, INTERVAL), INTERVAL) for _ in range(2)]
    for t in (10.0, 11.0):
        forms: list[Any] = [{"x0": (2.0, 3.0)}, lambda X: (X[:, 0] >= 2.0) & (X[:, 0] <= 3.0)]
        points = [
            player.ask(t, available=form) for player, form in zip(players, forms, strict=True)
        ]
        np.testing.assert_array_equal(*points)
        assert ((points[0] >= 2.0) & (points[0] <= 3.0)).all()
        for player in players:
            player.tell(points[0], noisy_wave(points[0], t), t)
    players[0].save(tmp_path / "saved")


def test_ask_on_a_space_keeps_to_ranges_of_numbers_and_categories() -> None:
    space = Space(heat=(10.0, 80.0), fuel=["gas", "oil", "wood"])
    bandit = policies.adaptive_gp_ucb(space, noise_variance=0.01)
    bandit.tell(space.sample(6, np.random.default_rng(0)), np.arange(6.0), 1.0)
    X = bandit.ask(2.0, n=6, available={"heat": (20, 30), "fuel": ["oil", "wood"]})
    frame = space.decode(X)
    assert frame["heat"].between(20, 30).all()
    assert set(frame["fuel"]) <= {"oil", "wood"}
    one = bandit.ask(2.0, n=2, available={"fuel": "wood"})  # a text is one category
    assert set(space.decode(one)["fuel"]) == {"wood"}


def test_ask_on_candidates_treats_ranges_and_a_mask_alike() -> None:
    one, other = (warm_up(make_player("gp-ucb")) for _ in range(2))
    inside = (LINE.X[:, 0] >= 3.0) & (LINE.X[:, 0] <= 4.0)
    np.testing.assert_array_equal(
        one.ask(10.0, available={"x0": (3.0, 4.0)}), other.ask(10.0, available=inside)
    )


@pytest.mark.parametrize(
    ("ranges", "value"),
    [({"x7": (0, 1)}, "x7"), *(({"x0": each}, "x0") for each in ((2, 1), [1], (0, "a"), 1.0))],
)
def test_ask_names_wrong_ranges_and_changes_nothing(ranges: Any, value: str) -> None:
    bandit = warm_up(make_player("gp-ucb", INTERVAL), INTERVAL)
    before = bandit.state
    with pytest.raises(ValueError, match=value):
        bandit.ask(10.0, available=ranges)
    assert bandit.state is before


def test_ask_on_a_box_finds_a_small_available_part() -> None:
    """The sample of the search misses a strip of a thousandth, but uniform samples do not."""
    bandit = warm_up(make_player("gp-ucb", INTERVAL), INTERVAL)
    points = [
        bandit.ask(10.0, n=1, available=lambda X: abs(X[:, 0] - 6.0) < 0.005) for _ in range(2)
    ]
    assert (abs(np.concatenate(points) - 6.0) < 0.005).all()


def test_ask_on_a_box_climbs_within_the_available_part() -> None:
    bandit = make_player("gp-ucb", INTERVAL, mean=0.0)
    bandit.tell([[1.0], [4.0], [9.5]], [0.2, 1.5, -1.0], 1.0)
    mean, deviation = bandit.predict(np.linspace(4.5, 6.0, 1501)[:, None], 2.0)
    x = bandit.ask(2.0, available=lambda X: (X[:, 0] >= 4.5) & (X[:, 0] <= 6.0))
    bound = mean + 2.0 * deviation
    prediction = bandit.predict(x, 2.0)
    assert float(prediction[0][0] + 2.0 * prediction[1][0]) >= bound.max() - 1e-3


# --- excluded points -------------------------------------------------------------------------------


def test_choice_set_offers_excluded_points_last_and_checks_each_once() -> None:
    sizes: list[int] = []

    def free(X: Array) -> Array:
        sizes.append(len(X))
        return right(X)

    function: Any = free
    choice_set = ChoiceSet(LINE, function, LINE.X[:0])
    remaining, every_third, count = right(LINE.X), np.arange(0, len(LINE), 3), 0
    for row in np.random.default_rng(0).integers(len(LINE), size=400):
        before = len(sizes)
        choice_set.exclude(LINE.X[row])
        count += len(sizes) - before
        remaining[row] = False
        remaining = remaining if remaining.any() else right(LINE.X)
        np.testing.assert_array_equal(choice_set(LINE.X), remaining)
        np.testing.assert_array_equal(choice_set(LINE.X[every_third]), remaining[every_third])
    assert count < 20  # a check of all excluded points each time would be quadratic in their number


@pytest.mark.parametrize("available", [None, right])
def test_choice_set_on_a_box_compares_few_points_to_replace_an_excluded_one(available: Any) -> None:
    """A search that climbs to excluded points again and again would take 45 s for 100 points."""
    evaluated: list[Array] = []

    def height(X: Array) -> Array:
        evaluated.append(X)
        return -np.abs(X[:, 0] - 9.0)

    box = Box([(0.0, 10.0)])
    choice_set = ChoiceSet(box, available, np.array([[9.0]]))
    x = choice_set.repair(np.array([9.0]), height, np.random.default_rng(0))
    (X,) = evaluated
    assert len(X) == ChoiceSet.comparison_count
    assert choice_set(X).all()
    assert x == X[np.argmin(np.abs(X[:, 0] - 9.0))]
    assert abs(x[0] - 9.0) == pytest.approx(box.resolution[0], rel=0.2)


# --- contexts -------------------------------------------------------------------------------------


def test_ask_and_recommend_keep_the_given_context() -> None:
    bandit = policies.gp_ucb(CONTEXTS, kernel=RBF([1.0, 1.0]), noise_variance=NOISE, seed=1)
    for t in range(1, 13):
        value = float(t % 3)
        X = bandit.ask(float(t), n=2, context=[value])
        np.testing.assert_array_equal(X[:, 1], [value, value])
        bandit.tell(X, np.sin(X[:, 0] + X[:, 1]), float(t))
        mean, _ = bandit.predict(CONTEXTS.X, t + 1.0)
        rows = np.flatnonzero(CONTEXTS.X[:, 1] == 2.0)
        best = bandit.recommend(t + 1.0, context=[2.0])
        np.testing.assert_array_equal(best, CONTEXTS.X[rows[np.argmax(mean[rows])]])


def test_ask_keeps_to_a_context_and_a_mask() -> None:
    bandit = policies.gp_ucb(CONTEXTS, kernel=RBF([1.0, 1.0]), noise_variance=NOISE)
    X = bandit.ask(1.0, n=3, available=CONTEXTS.X[:, 0] > 3.9, context=[1.0])
    assert (X[:, 0] > 3.9).all()
    assert (X[:, 1] == 1.0).all()
    with pytest.raises(NothingAvailableError, match=r"in the context \[2\.0\]"):
        bandit.ask(1.0, available=CONTEXTS.X[:, 1] == 0.0, context=[2.0])


# --- expert queries -------------------------------------------------------------------------------


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
@pytest.mark.parametrize("domain", [LINE, INTERVAL], ids=["line", "interval"])
@pytest.mark.parametrize("pool", ["domain", "played"])
def test_expert_queries_are_among_available_points(pool: Any, domain: Any, consult: Any) -> None:
    expert = RecordingWaveExpert()
    query_config = QueryConfig(RandomPoints(4), expert, pool=pool)
    bandit = Bandit(
        Recipe(domain, KERNEL, NOISE, query_config=query_config, consult=consult), seed=1
    )
    for t in map(float, range(1, 9)):
        left_half = t % 2 == 0

        def free(X: Array, left_half: bool = left_half) -> Array:
            return np.asarray(X[:, 0] < 5.0) if left_half else np.asarray(X[:, 0] >= 5.0)

        X = bandit.ask(t, available=free)
        assert free(X).all()
        bandit.tell(X, noisy_wave(X, t), t)
    queries = [(points, t) for points, t in expert.queries if len(points)]
    assert len(queries) >= 6
    for points, t in queries:
        assert ((points[:, 0] < 5.0) == (t % 2 == 0)).all()


def test_questions_are_among_available_points() -> None:
    recipe = Recipe(LINE, KERNEL, NOISE, query_config=QueryConfig(NextDecision(3), pool="domain"))
    bandit = Bandit(recipe, seed=1)
    assert right(bandit.questions(1.0, available=right)).all()
    bandit.ask(2.0, available=np.arange(5))
    assert set(LINE.index(bandit.questions(2.0))) <= set(range(5))  # as for the decision
    bandit.ask(3.0, available=np.arange(5))
    assert right(bandit.questions(3.0, available=right)).all()  # as given here


def test_state_drops_a_function_that_no_query_needs() -> None:
    """A bandit on a box can therefore be saved after any `available`."""
    bandit = warm_up(make_player("gp-ucb", INTERVAL), INTERVAL)
    bandit.ask(10.0, available=lambda X: X[:, 0] > 3.0)
    assert pickle.loads(pickle.dumps(bandit.state)) == bandit.state
    assert bandit.state.queries.available is None


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
@pytest.mark.parametrize("pool", ["domain", "played"])
def test_bandit_continues_from_its_file_after_an_available_function(
    pool: Any, consult: Any, tmp_path: Path
) -> None:
    """A pickle works as well; later expert queries keep to the available points."""
    query_config = QueryConfig(RandomPoints(4), RecordingWaveExpert(), pool=pool)
    recipe = Recipe(INTERVAL, KERNEL, NOISE, query_config=query_config, consult=consult)
    bandit = warm_up(Bandit(recipe, seed=1), INTERVAL)
    for near in (None, 4.0):
        X = bandit.ask(
            bandit.state.record.decision_time, available=lambda X: X[:, 0] > 5.0, near=near
        )
        bandit.save(tmp_path / "saved")
        expert = RecordingWaveExpert()
        twins = [
            load(tmp_path / "saved", trusted={"tests.helpers.players:RecordingWaveExpert": expert}),
            pickle.loads(pickle.dumps(bandit)),
        ]
        assert [each.state == bandit.state for each in twins] == [True, True]
        for each in (*twins, bandit):
            each.tell(X, noisy_wave(X, 20.0))
        assert [each.state == bandit.state for each in twins] == [True, True]
        for points, _ in expert.queries:
            assert len(points)
            assert (points[:, 0] > 5.0).all()


@pytest.mark.parametrize("name", ["frugal-gp-ucb", "adaptive-gp-ucb", "sparq-gp-ucb"])
def test_policy_with_an_expert_can_be_saved_after_an_available_function(
    name: str, tmp_path: Path
) -> None:
    setting = Setting(
        INTERVAL, KERNEL, NOISE, 60, 0.1, 1.0, 0.03, 10.0, None, RecordingWaveExpert, 1
    )
    bandit: Any = POLICIES[name].make(setting)
    for t in (1.0, 2.0, 3.0):
        X = bandit.ask(t, available=lambda X: X[:, 0] > 5.0)
        bandit.save(tmp_path / "saved")
        assert pickle.loads(pickle.dumps(bandit.state)) == bandit.state
        bandit.tell(X, noisy_wave(X, t), t)


def test_expert_queries_can_be_about_points_that_a_function_allowed() -> None:
    query_config = QueryConfig(RandomPoints(4), RecordingWaveExpert(), pool="played")
    bandit = Bandit(
        Recipe(INTERVAL, KERNEL, NOISE, query_config=query_config, consult="after tell"), seed=1
    )
    x = bandit.ask(1.0, available=lambda X: X[:, 0] > 5.0)
    bandit.tell([[1.0], *x.tolist()], [0.1, 0.2], 1.0)
    (points, _), *_ = [each for each in query_config.expert.queries if len(each[0])]
    np.testing.assert_array_equal(points, x)


def test_from_state_on_another_domain_drops_availability() -> None:
    query_config = QueryConfig(RandomPoints(2), RecordingWaveExpert(), pool="domain")
    bandit = Bandit(Recipe(LINE, KERNEL, NOISE, query_config=query_config), seed=1)
    x = bandit.ask(1.0, available=np.arange(20))
    wider = Candidates(np.linspace(0.0, 20.0, 81)[:, None])
    again = Bandit.from_state(Recipe(wider, KERNEL, NOISE, query_config=query_config), bandit.state)
    again.tell(x, [0.3], 1.0)
    assert again.info.queries.asked == 2
    assert again.ask(2.0).shape == (1, 1)


# --- functions of named columns, and no data --------------------------------------------------------


def test_ask_passes_named_columns_to_a_function_on_a_space() -> None:
    space = Space(flow=(30, 60), mode=["eco", "loud"])
    bandit = policies.gp_ucb(space, kernel=space.kernel(), noise_variance=0.01)
    X = bandit.ask(1, n=3, available=lambda frame: (frame["flow"] < 40) & (frame["mode"] == "eco"))
    points = space.decode(X)
    assert (points["flow"] < 40).all()
    assert (points["mode"] == "eco").all()


def test_recommend_without_observations_is_an_error() -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    before = bandit.state
    with pytest.raises(ValueError, match="recommend needs observations"):
        bandit.recommend(1)
    assert bandit.state == before
