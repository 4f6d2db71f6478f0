"""Arms that come and go: what is added was there from the start, what is retired still informs."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import refused
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


def taught(bandit: Any, t: int) -> Any:
    """Six readings, each point of the old ones at least once."""
    rng = np.random.default_rng(0)
    for step in range(1, t + 1):
        X = OLD[[step % 5]]
        bandit.tell(X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(1), step)
    return bandit


def go_on_alike(other: Any, always: Any, **asked: Any) -> None:
    """Four steps, in which both play the same of the new ones."""
    for t in range(7, 11):
        X = other.ask(t, **asked)
        np.testing.assert_array_equal(X, always.ask(t, **asked))
        assert X[0, 0] in NEW
        for each in (other, always):
            each.tell(X, np.cos(X.sum(axis=1)), t)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_what_is_added_was_there_from_the_start(make: Any) -> None:
    other = taught(make(Candidates(OLD)), 6).with_candidates(NEW)
    always = taught(make(Candidates(UNION, retired=RETIRED)), 6)
    assert other.recipe.domain == always.recipe.domain
    found, expected = other.predict(UNION, 8), always.predict(UNION, 8)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    go_on_alike(other, always)


def test_in_a_measured_context_what_is_chosen_changes() -> None:
    outside = {"outside": (0.0, 10.0)}
    bandits = [
        policies.gp_ucb(
            Candidates(X, retired=gone, context=outside), kernel=RBF(2.0), noise_variance=0.05
        )
        for X, gone in ((OLD, ()), (UNION, RETIRED))
    ]
    for t in range(1, 7):
        X = np.column_stack([OLD[[t % 5]], [[t]]])
        for bandit in bandits:
            bandit.tell(X, np.sin(X.sum(axis=1)), t)
    other, always = bandits[0].with_candidates(NEW), bandits[1]
    assert other.recipe.domain == always.recipe.domain
    go_on_alike(other, always, context={"outside": 3.0})
    refused(ValueError, r"X must have shape \(n, 1\)", other.with_candidates, np.zeros((3, 2)))


def test_a_reading_of_a_retired_arm_that_is_out_is_welcome() -> None:
    bandit = taught(MAKERS["gp_ucb"](Candidates(OLD)), 6)
    bandit.tell(OLD[[3]], [5.0], 7)
    X = bandit.ask(8, available=[4])
    went = bandit.with_candidates(NEW)
    np.testing.assert_array_equal(went.pending, X)
    mean, _ = went.predict([[5.5]])
    went.tell(X, [9.0], 8)
    assert went.predict([[5.5]])[0] > mean
    assert len(bandit.state.rewards) == 7  # the one before stays as it was


def test_arms_that_come_back_may_be_played_again() -> None:
    bandit = taught(MAKERS["gp_ucb"](Candidates(OLD)), 6)
    back = bandit.with_candidates(NEW).with_candidates(OLD)
    assert back.recipe.domain == Candidates(OLD)
    np.testing.assert_allclose(back.predict(OLD), bandit.predict(OLD), rtol=1e-12)


def test_only_what_is_offered_is_played_recommended_shared_and_asked_about() -> None:
    expert = CallableExpert(lambda X, t: X[:, 0] + t, 0.01)
    asks = policies.sparq_gp_ucb(
        Candidates(OLD), kernel=RBF(2.0), noise_variance=0.05, expert=expert
    )
    went = taught(asks, 6).with_candidates(NEW)
    went.tell(OLD[[3]], [5.0], 6.5)  # which nobody asked for
    assert sorted(went.state.answers.X[:, 0]) == [1.0, 4.0]
    assert went.recommend()[0] in NEW
    assert set(went.ask(7, n=50)[:, 0]) <= set(NEW[:, 0])
    assert sorted(went.ask(8, n=4)[:, 0]) == sorted(NEW[:, 0])
    np.testing.assert_array_equal(went.ask(9, available=[1]), NEW[[1]])
    refused(
        NothingAvailableError, "none of the 7 candidates is available", went.ask, 9, available=[5]
    )


def test_what_is_wrong_is_named() -> None:
    bandit = taught(MAKERS["gp_ucb"](Candidates(OLD)), 2)
    refused(ValueError, "candidates must", bandit.with_candidates, [[1.0], [1.0]])
    refused(ValueError, "X must", bandit.with_candidates, [[1.0, 2.0]])
    on_box = policies.gp_ucb(Box([(0, 1)]), kernel=RBF(0.3), noise_variance=0.05)
    with pytest.raises(ValueError, match="Box"):
        on_box.with_candidates([[0.5]])
    for retired, said in (
        ([5], "retired .*0 to 4.* 5"),
        ([1, 1], "retired .* 1 twice"),
        (range(5), "retired .* all 5"),
    ):
        refused(ValueError, said, Candidates, OLD, retired=retired)


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
def test_arms_that_are_added_were_there_from_the_start(make: Any) -> None:
    few, all_of_them = Arms(["red", "green", "blue"]), ["red", "green", "blue", "grey"]
    bandits = [make(few), make(Arms(all_of_them, retired=[0]))]
    for bandit in bandits:
        for t in range(1, 13):
            names = [all_of_them[t % 3], "green"]
            read = {"load": [1.0, 2.0]} if bandit.recipe.options.limits else None
            bandit.tell(names, [t % 3 + 0.1 * t, 1.0], t, outcomes=read)
    other, always = bandits[0].with_candidates(["green", "grey", "blue"]), bandits[1]
    assert other.recipe.domain == always.recipe.domain == Arms(all_of_them, retired=[0])
    assert other.recipe.domain != Arms(all_of_them)
    mine, its = (each.predict(all_of_them) for each in (other, always))
    np.testing.assert_allclose(mine, its, rtol=1e-8, atol=1e-8)
    assert "red" not in other.recipe.domain.decode(other.ask(13, n=3))["arm"].tolist()
    other.tell(["red"], [3.0], 12.5)  # a late one
    assert other.with_candidates(["red", "green"]).recipe.domain.retired == (2, 3)
    refused(ValueError, "at least two different texts", other.with_candidates, ["red"])


def test_an_outlier_stays_aside_when_arms_are_added() -> None:
    bandit = policies.adaptive_gp_ucb(
        Arms(["red", "green"]), noise_variance=0.01, options=Options(robust=True)
    )
    for t in range(1, 31):
        bandit.tell(["red", "green"], [50.0 if t == 25 else 0.1, 0.2], t)
    assert bandit.info.outliers == 1
    other = bandit.with_candidates(["red", "green", "blue"])
    assert other.history["kind"].tolist() == bandit.history["kind"].tolist()
    assert other.correct(["red"], [0.1], 25).outliers == 0
