"""What may be played now: stations in maintenance, constraints, and contexts."""

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
    Known,
    made,
    noisy,
    warmed,
)
from tests.helpers.refusals import refused
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
    """Only the right part of the interval."""
    return np.asarray(X[:, 0] >= 7.25)


# --- forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", KINDS)
def test_a_mask_rows_and_a_function_say_the_same(variant: str) -> None:
    mask = right(LINE.X)
    rows = np.flatnonzero(mask)
    forms: list[Any] = [mask, right]
    if variant == "gp-ucb":
        forms += [rows, rows[::-1].tolist()]
    players = [warmed(made(variant)) for _ in forms]
    for t in (10.0, 11.0):
        found = [p.ask(t, n=3, available=form) for p, form in zip(players, forms, strict=True)]
        assert right(found[0]).all()
        for player, X in zip(players, found, strict=True):
            np.testing.assert_array_equal(X, found[0])
            player.tell(X, noisy(X, t), t)


def test_names_of_arms_are_available() -> None:
    bandit = policies.adaptive_gp_ucb(Arms(["red", "green", "blue"]))
    found = bandit.ask(1, n=9, available=["blue", "green"])
    assert {*bandit.recipe.domain.decode(found)["arm"]} == {"blue", "green"}
    refused(
        ValueError,
        r"arm must be one of .*, got 'grey' in row 1",
        bandit.ask,
        2,
        None,
        ["red", "grey"],
    )
    refused(
        ValueError, r"row numbers .* distinct, got 0 twice", bandit.ask, 2, None, ["red", "red"]
    )


def test_it_is_the_best_of_what_is_available() -> None:
    bandit = warmed(made("gp-ucb"))
    mean, deviation = bandit.predict(LINE.X, 10.0)
    rows = np.argsort(mean + 2.0 * deviation)[:11]  # the worst ones
    assert LINE.index(bandit.ask(10.0, available=rows))[0] == rows[-1]
    bandit.drop(bandit.pending)
    best = rows[np.argmax(mean[rows])]
    np.testing.assert_array_equal(bandit.recommend(10.0, available=rows), LINE.X[best])
    np.testing.assert_array_equal(bandit.recommend(10.0), LINE.X[np.argmax(mean)])


@pytest.mark.parametrize("variant", [kind for kind in KINDS if kind in ON_INTERVAL])
def test_a_function_on_a_box(variant: str) -> None:
    player = warmed(made(variant, INTERVAL), INTERVAL)
    for t in (10.0, 11.0, 12.0):
        X = player.ask(t, n=2, available=right)
        assert right(X).all()
        player.tell(X, noisy(X, t), t)
    if isinstance(player, Bandit):
        assert right(player.recommend(13.0, available=right)[None]).all()


@pytest.mark.parametrize("variant", ["gp-ucb", "frugal-gp-ucb"])
def test_ranges_on_a_box_say_the_same_as_a_function(variant: str, tmp_path: Path) -> None:
    players = [warmed(made(variant, INTERVAL), INTERVAL) for _ in range(2)]
    for t in (10.0, 11.0):
        forms: list[Any] = [{"x0": (2.0, 3.0)}, lambda X: (X[:, 0] >= 2.0) & (X[:, 0] <= 3.0)]
        found = [player.ask(t, available=form) for player, form in zip(players, forms, strict=True)]
        np.testing.assert_array_equal(*found)
        assert ((found[0] >= 2.0) & (found[0] <= 3.0)).all()
        for player in players:
            player.tell(found[0], noisy(found[0], t), t)
    players[0].save(tmp_path / "saved")


def test_ranges_on_a_space_hold_numbers_and_categories() -> None:
    space = Space(heat=(10.0, 80.0), fuel=["gas", "oil", "wood"])
    bandit = policies.adaptive_gp_ucb(space, noise_variance=0.01)
    bandit.tell(space.sample(6, np.random.default_rng(0)), np.arange(6.0), 1.0)
    X = bandit.ask(2.0, n=6, available={"heat": (20, 30), "fuel": ["oil", "wood"]})
    frame = space.decode(X)
    assert frame["heat"].between(20, 30).all()
    assert set(frame["fuel"]) <= {"oil", "wood"}
    one = bandit.ask(2.0, n=2, available={"fuel": "wood"})  # a text is one category
    assert set(space.decode(one)["fuel"]) == {"wood"}


def test_ranges_on_candidates_are_those_of_a_mask() -> None:
    one, other = (warmed(made("gp-ucb")) for _ in range(2))
    inside = (LINE.X[:, 0] >= 3.0) & (LINE.X[:, 0] <= 4.0)
    np.testing.assert_array_equal(
        one.ask(10.0, available={"x0": (3.0, 4.0)}), other.ask(10.0, available=inside)
    )


@pytest.mark.parametrize(
    ("ranges", "value"),
    [({"x7": (0, 1)}, "x7"), *(({"x0": each}, "x0") for each in ((2, 1), [1], (0, "a"), 1.0))],
)
def test_wrong_ranges_are_named_and_change_nothing(ranges: Any, value: str) -> None:
    bandit = warmed(made("gp-ucb", INTERVAL), INTERVAL)
    before = bandit.state
    with pytest.raises(ValueError, match=value):
        bandit.ask(10.0, available=ranges)
    assert bandit.state is before


def test_a_part_of_a_box_that_a_search_hardly_meets() -> None:
    """A strip of a thousandth: the sample of the search does not meet it, points at random do."""
    bandit = warmed(made("gp-ucb", INTERVAL), INTERVAL)
    found = [
        bandit.ask(10.0, n=1, available=lambda X: abs(X[:, 0] - 6.0) < 0.005) for _ in range(2)
    ]
    assert (abs(np.concatenate(found) - 6.0) < 0.005).all()


def test_the_best_part_of_a_box_is_climbed() -> None:
    bandit = made("gp-ucb", INTERVAL, mean=0.0)
    bandit.tell([[1.0], [4.0], [9.5]], [0.2, 1.5, -1.0], 1.0)
    mean, deviation = bandit.predict(np.linspace(4.5, 6.0, 1501)[:, None], 2.0)
    x = bandit.ask(2.0, available=lambda X: (X[:, 0] >= 4.5) & (X[:, 0] <= 6.0))
    bound = mean + 2.0 * deviation
    found = bandit.predict(x, 2.0)
    assert float(found[0][0] + 2.0 * found[1][0]) >= bound.max() - 1e-3


# --- what is taken ---------------------------------------------------------------------------------


def test_what_is_taken_comes_last_and_is_looked_at_once() -> None:
    looks: list[int] = []

    def free(X: Array) -> Array:
        looks.append(len(X))
        return right(X)

    watched: Any = free
    allowed = ChoiceSet(LINE, watched, LINE.X[:0])
    left, some, looked = right(LINE.X), np.arange(0, len(LINE), 3), 0
    for row in np.random.default_rng(0).integers(len(LINE), size=400):
        before = len(looks)
        allowed.exclude(LINE.X[row])
        looked += len(looks) - before
        left[row] = False
        left = left if left.any() else right(LINE.X)
        np.testing.assert_array_equal(allowed(LINE.X), left)
        np.testing.assert_array_equal(allowed(LINE.X[some]), left[some])
    assert looked < 20  # each time for all that is taken would be quadratic in what is pending


@pytest.mark.parametrize("available", [None, right])
def test_choice_set_on_a_box_compares_few_of_many_points_in_place_of_one_that_is_taken(
    available: Any,
) -> None:
    """A search that climbs to what is taken again and again made a batch of 100 points take 45 s."""
    compared: list[Array] = []

    def height(X: Array) -> Array:
        compared.append(X)
        return -np.abs(X[:, 0] - 9.0)

    box = Box([(0.0, 10.0)])
    allowed = ChoiceSet(box, available, np.array([[9.0]]))
    x = allowed.repair(np.array([9.0]), height, np.random.default_rng(0))
    (X,) = compared
    assert len(X) == ChoiceSet.comparison_count
    assert allowed(X).all()
    assert x == X[np.argmin(np.abs(X[:, 0] - 9.0))]
    assert abs(x[0] - 9.0) == pytest.approx(box.resolution[0], rel=0.2)


# --- contexts -------------------------------------------------------------------------------------


def test_a_context_is_given_and_not_chosen() -> None:
    bandit = policies.gp_ucb(CONTEXTS, kernel=RBF([1.0, 1.0]), noise_variance=NOISE, seed=1)
    for t in range(1, 13):
        given = float(t % 3)
        X = bandit.ask(float(t), n=2, context=[given])
        np.testing.assert_array_equal(X[:, 1], [given, given])
        bandit.tell(X, np.sin(X[:, 0] + X[:, 1]), float(t))
        mean, _ = bandit.predict(CONTEXTS.X, t + 1.0)
        here = np.flatnonzero(CONTEXTS.X[:, 1] == 2.0)
        best = bandit.recommend(t + 1.0, context=[2.0])
        np.testing.assert_array_equal(best, CONTEXTS.X[here[np.argmax(mean[here])]])


def test_a_context_and_a_mask_are_both_kept() -> None:
    bandit = policies.gp_ucb(CONTEXTS, kernel=RBF([1.0, 1.0]), noise_variance=NOISE)
    X = bandit.ask(1.0, n=3, available=CONTEXTS.X[:, 0] > 3.9, context=[1.0])
    assert (X[:, 0] > 3.9).all()
    assert (X[:, 1] == 1.0).all()
    with pytest.raises(NothingAvailableError, match=r"in the context \[2\.0\]"):
        bandit.ask(1.0, available=CONTEXTS.X[:, 1] == 0.0, context=[2.0])


# --- maintenance ----------------------------------------------------------------------------------


# --- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
@pytest.mark.parametrize("domain", [LINE, INTERVAL], ids=["line", "interval"])
@pytest.mark.parametrize("pool", ["domain", "played"])
def test_only_what_is_available_is_asked_about(pool: Any, domain: Any, consult: Any) -> None:
    expert = Known()
    query_config = QueryConfig(RandomPoints(4), expert, pool=pool)
    bandit = Bandit(
        Recipe(domain, KERNEL, NOISE, query_config=query_config, consult=consult), seed=1
    )
    for t in map(float, range(1, 9)):
        left = t % 2 == 0

        def free(X: Array, left: bool = left) -> Array:
            return np.asarray(X[:, 0] < 5.0) if left else np.asarray(X[:, 0] >= 5.0)

        X = bandit.ask(t, available=free)
        assert free(X).all()
        bandit.tell(X, noisy(X, t), t)
    asked = [(points, t) for points, t in expert.asked if len(points)]
    assert len(asked) >= 6
    for points, t in asked:
        assert ((points[:, 0] < 5.0) == (t % 2 == 0)).all()


def test_questions_to_carry_keep_to_what_is_available() -> None:
    recipe = Recipe(LINE, KERNEL, NOISE, query_config=QueryConfig(NextDecision(3), pool="domain"))
    bandit = Bandit(recipe, seed=1)
    assert right(bandit.questions(1.0, available=right)).all()
    bandit.ask(2.0, available=np.arange(5))
    assert set(LINE.index(bandit.questions(2.0))) <= set(range(5))  # those of the decision
    bandit.ask(3.0, available=np.arange(5))
    assert right(bandit.questions(3.0, available=right)).all()  # or what is said now


def test_a_state_does_not_keep_a_function_that_nobody_needs() -> None:
    """So that a bandit on a box can be saved whatever says what is available."""
    bandit = warmed(made("gp-ucb", INTERVAL), INTERVAL)
    bandit.ask(10.0, available=lambda X: X[:, 0] > 3.0)
    assert pickle.loads(pickle.dumps(bandit.state)) == bandit.state
    assert bandit.state.queries.available is None


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
@pytest.mark.parametrize("pool", ["domain", "played"])
def test_a_bandit_that_was_told_a_function_goes_on_from_its_file(
    pool: Any, consult: Any, tmp_path: Path
) -> None:
    """And from a pickle; what is asked about afterwards was available all the same."""
    query_config = QueryConfig(RandomPoints(4), Known(), pool=pool)
    recipe = Recipe(INTERVAL, KERNEL, NOISE, query_config=query_config, consult=consult)
    bandit = warmed(Bandit(recipe, seed=1), INTERVAL)
    for near in (None, 4.0):
        X = bandit.ask(
            bandit.state.record.decision_time, available=lambda X: X[:, 0] > 5.0, near=near
        )
        bandit.save(tmp_path / "saved")
        expert = Known()
        twins = [
            load(tmp_path / "saved", trusted={"tests.helpers.players:Known": expert}),
            pickle.loads(pickle.dumps(bandit)),
        ]
        assert [each.state == bandit.state for each in twins] == [True, True]
        for each in (*twins, bandit):
            each.tell(X, noisy(X, 20.0))
        assert [each.state == bandit.state for each in twins] == [True, True]
        for points, _ in expert.asked:
            assert len(points)
            assert (points[:, 0] > 5.0).all()


@pytest.mark.parametrize("name", ["frugal-gp-ucb", "adaptive-gp-ucb", "sparq-gp-ucb"])
def test_a_policy_with_an_expert_is_saved_after_it_was_told_a_function(
    name: str, tmp_path: Path
) -> None:
    setting = Setting(INTERVAL, KERNEL, NOISE, 60, 0.1, 1.0, 0.03, 10.0, None, Known, 1)
    bandit: Any = POLICIES[name].make(setting)
    for t in (1.0, 2.0, 3.0):
        X = bandit.ask(t, available=lambda X: X[:, 0] > 5.0)
        bandit.save(tmp_path / "saved")
        assert pickle.loads(pickle.dumps(bandit.state)) == bandit.state
        bandit.tell(X, noisy(X, t), t)


def test_questions_may_be_about_what_was_chosen_of_a_function() -> None:
    query_config = QueryConfig(RandomPoints(4), Known(), pool="played")
    bandit = Bandit(
        Recipe(INTERVAL, KERNEL, NOISE, query_config=query_config, consult="after tell"), seed=1
    )
    x = bandit.ask(1.0, available=lambda X: X[:, 0] > 5.0)
    bandit.tell([[1.0], *x.tolist()], [0.1, 0.2], 1.0)
    (points, _), *_ = [each for each in query_config.expert.asked if len(each[0])]
    np.testing.assert_array_equal(points, x)


def test_availability_of_another_domain_is_left_behind() -> None:
    query_config = QueryConfig(RandomPoints(2), Known(), pool="domain")
    bandit = Bandit(Recipe(LINE, KERNEL, NOISE, query_config=query_config), seed=1)
    x = bandit.ask(1.0, available=np.arange(20))
    wider = Candidates(np.linspace(0.0, 20.0, 81)[:, None])
    again = Bandit.from_state(Recipe(wider, KERNEL, NOISE, query_config=query_config), bandit.state)
    again.tell(x, [0.3], 1.0)
    assert again.info.queries.asked == 2
    assert again.ask(2.0).shape == (1, 1)


# --- nothing, and what is wrong ---------------------------------------------------------------------


def test_a_function_of_a_space_is_given_its_names() -> None:
    space = Space(flow=(30, 60), mode=["eco", "loud"])
    bandit = policies.gp_ucb(space, kernel=space.kernel(), noise_variance=0.01)
    X = bandit.ask(1, n=3, available=lambda frame: (frame["flow"] < 40) & (frame["mode"] == "eco"))
    points = space.decode(X)
    assert (points["flow"] < 40).all()
    assert (points["mode"] == "eco").all()


def test_nothing_is_recommended_before_anything_was_told() -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    before = bandit.state
    with pytest.raises(ValueError, match="recommend needs observations"):
        bandit.recommend(1)
    assert bandit.state == before
