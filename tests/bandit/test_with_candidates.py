"""`with_candidates`: added points count as if present from the start; retired ones still inform."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Arms, Box, Candidates, Limit, NothingAvailableError, Options, policies
from tvbandits.experts import CallableExpert

OLD = np.array([[0.0], [1.0], [2.5], [4.0], [7.0]])
NEW = np.array([[1.0], [9.0], [4.0], [5.5]])
UNION = np.array([[1.0], [9.0], [4.0], [5.5], [0.0], [2.5], [7.0]])
RETIRED = (4, 5, 6)

MAKERS: dict[str, Any] = {
    "gp_ucb": lambda domain: policies.gp_ucb(domain, kernel=RBF(2.0), noise_variance=0.05),
    "w_gp_ucb": lambda domain: policies.w_gp_ucb(
        domain, kernel=RBF(2.0), noise_variance=0.05, discount=0.9
    ),
    "tv_gp_ucb": lambda domain: policies.tv_gp_ucb(
        domain, kernel=RBF(2.0), noise_variance=0.05, forgetting_rate=0.1
    ),
    "fit": lambda domain: policies.adaptive_gp_ucb(domain, kernel=RBF(2.0), noise_variance=0.05),
    "ensemble": lambda domain: policies.adaptive_gp_ucb(domain, noise_variance=0.05),
}


def tell_readings(bandit: Any, t: int) -> Any:
    """Tell readings of all old points in turn, and return the bandit."""
    rng = np.random.default_rng(0)
    for step in range(1, t + 1):
        X = OLD[[step % 5]]
        bandit.tell(X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(1), step)
    return bandit


def assert_same_plays(other: Any, always: Any, **arguments: Any) -> None:
    """Check that two bandits play the same new points for four steps."""
    for t in range(7, 11):
        X = other.ask(t, **arguments)
        np.testing.assert_array_equal(X, always.ask(t, **arguments))
        assert X[0, 0] in NEW
        for each in (other, always):
            each.tell(X, np.cos(X.sum(axis=1)), t)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_with_candidates_equals_having_all_candidates_from_the_start(make: Any) -> None:
    other = tell_readings(make(Candidates(OLD)), 6).with_candidates(NEW)
    always = tell_readings(make(Candidates(UNION, retired=RETIRED)), 6)
    assert other.recipe.domain == always.recipe.domain
    prediction, expected = other.predict(UNION, 8), always.predict(UNION, 8)
    np.testing.assert_allclose(prediction, expected, rtol=1e-8, atol=1e-8)
    assert_same_plays(other, always)


def test_with_candidates_keeps_a_measured_context() -> None:
    outside = {"outside": (0.0, 10.0)}
    bandits = [
        policies.gp_ucb(
            Candidates(X, retired=retired, context=outside), kernel=RBF(2.0), noise_variance=0.05
        )
        for X, retired in ((OLD, ()), (UNION, RETIRED))
    ]
    for t in range(1, 7):
        X = np.column_stack([OLD[[t % 5]], [[t]]])
        for bandit in bandits:
            bandit.tell(X, np.sin(X.sum(axis=1)), t)
    other, always = bandits[0].with_candidates(NEW), bandits[1]
    assert other.recipe.domain == always.recipe.domain
    assert_same_plays(other, always, context={"outside": 3.0})
    assert_refused(
        ValueError, r"X must have shape \(n, 1\)", other.with_candidates, np.zeros((3, 2))
    )


def test_tell_accepts_a_pending_point_that_was_retired() -> None:
    bandit = tell_readings(MAKERS["gp_ucb"](Candidates(OLD)), 6)
    bandit.tell(OLD[[3]], [5.0], 7)
    X = bandit.ask(8, available=[4])
    changed = bandit.with_candidates(NEW)
    np.testing.assert_array_equal(changed.pending, X)
    mean, _ = changed.predict([[5.5]])
    changed.tell(X, [9.0], 8)
    assert changed.predict([[5.5]])[0] > mean
    assert len(bandit.state.rewards) == 7  # the original bandit is unchanged


def test_with_candidates_brings_retired_points_back() -> None:
    bandit = tell_readings(MAKERS["gp_ucb"](Candidates(OLD)), 6)
    restored = bandit.with_candidates(NEW).with_candidates(OLD)
    assert restored.recipe.domain == Candidates(OLD)
    np.testing.assert_allclose(restored.predict(OLD), bandit.predict(OLD), rtol=1e-12)


def test_retired_candidates_are_not_played_recommended_or_queried() -> None:
    expert = CallableExpert(lambda X, t: X[:, 0] + t, 0.01)
    bandit = policies.sparq_gp_ucb(
        Candidates(OLD), kernel=RBF(2.0), noise_variance=0.05, expert=expert
    )
    changed = tell_readings(bandit, 6).with_candidates(NEW)
    changed.tell(OLD[[3]], [5.0], 6.5)  # without an `ask`
    assert sorted(changed.state.answers.X[:, 0]) == [1.0, 4.0]
    assert changed.recommend()[0] in NEW
    assert set(changed.ask(7, n=50)[:, 0]) <= set(NEW[:, 0])
    assert sorted(changed.ask(8, n=4)[:, 0]) == sorted(NEW[:, 0])
    np.testing.assert_array_equal(changed.ask(9, available=[1]), NEW[[1]])
    assert_refused(
        NothingAvailableError,
        "none of the 7 candidates is available",
        changed.ask,
        9,
        available=[5],
    )


def test_with_candidates_refuses_wrong_candidates() -> None:
    bandit = tell_readings(MAKERS["gp_ucb"](Candidates(OLD)), 2)
    assert_refused(ValueError, "candidates must", bandit.with_candidates, [[1.0], [1.0]])
    assert_refused(ValueError, "X must", bandit.with_candidates, [[1.0, 2.0]])
    on_box = policies.gp_ucb(Box([(0, 1)]), kernel=RBF(0.3), noise_variance=0.05)
    with pytest.raises(ValueError, match="Box"):
        on_box.with_candidates([[0.5]])
    for retired, message in (
        ([5], "retired .*0 to 4.* 5"),
        ([1, 1], "retired .* 1 twice"),
        (range(5), "retired .* all 5"),
    ):
        assert_refused(ValueError, message, Candidates, OLD, retired=retired)


ARMS_MAKERS: dict[str, Any] = {
    "arms": lambda domain: policies.adaptive_gp_ucb(domain, noise_variance=0.05),
    "noise learned": policies.adaptive_gp_ucb,
    "gp_ucb": lambda domain: policies.gp_ucb(
        domain, kernel=domain.space.kernel(), noise_variance=0.05
    ),
    "over time": lambda domain: policies.tv_gp_ucb(
        domain, kernel=domain.space.kernel(), noise_variance=0.05, forgetting_rate=0.1
    ),
    "fit": lambda domain: policies.frugal_gp_ucb(
        domain, noise_variance=0.05, expert=None, queries_per_step=1
    ),
    "fit, given": lambda domain: policies.adaptive_gp_ucb(
        domain, kernel=domain.space.kernel(), noise_variance=0.05
    ),
    "control": lambda domain: policies.adaptive_gp_ucb(domain, noise_variance=0.05).with_options(
        control="green"
    ),
    "limits": lambda domain: policies.adaptive_gp_ucb(domain, noise_variance=0.05).with_options(
        limits=[Limit("load", at_most=9.0)], safe=domain.X[:2]
    ),
}


@pytest.mark.parametrize("make", ARMS_MAKERS.values(), ids=ARMS_MAKERS.keys())
def test_with_candidates_of_arms_equals_having_all_arms_from_the_start(make: Any) -> None:
    few, all_of_them = Arms(["red", "green", "blue"]), ["red", "green", "blue", "grey"]
    bandits = [make(few), make(Arms(all_of_them, retired=[0]))]
    for bandit in bandits:
        for t in range(1, 13):
            names = [all_of_them[t % 3], "green"]
            outcomes = {"load": [1.0, 2.0]} if bandit.recipe.options.limits else None
            bandit.tell(names, [t % 3 + 0.1 * t, 1.0], t, outcomes=outcomes)
    other, always = bandits[0].with_candidates(["green", "grey", "blue"]), bandits[1]
    assert other.recipe.domain == always.recipe.domain == Arms(all_of_them, retired=[0])
    assert other.recipe.domain != Arms(all_of_them)
    prediction, expected = (each.predict(all_of_them) for each in (other, always))
    np.testing.assert_allclose(prediction, expected, rtol=1e-8, atol=1e-8)
    assert "red" not in other.recipe.domain.decode(other.ask(13, n=3))["arm"].tolist()
    other.tell(["red"], [3.0], 12.5)  # a late reward
    assert other.with_candidates(["red", "green"]).recipe.domain.retired == (2, 3)
    assert_refused(ValueError, "at least two different texts", other.with_candidates, ["red"])


def test_with_candidates_keeps_outliers_aside() -> None:
    bandit = policies.adaptive_gp_ucb(
        Arms(["red", "green"]), noise_variance=0.01, options=Options(robust=True)
    )
    for t in range(1, 31):
        bandit.tell(["red", "green"], [50.0 if t == 25 else 0.1, 0.2], t)
    assert bandit.info.outliers == 1
    other = bandit.with_candidates(["red", "green", "blue"])
    assert other.history["kind"].tolist() == bandit.history["kind"].tolist()
    assert other.correct(["red"], [0.1], 25).outliers == 0
