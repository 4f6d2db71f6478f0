"""Experts that answer in part, go down and come back; experts that want to see rewards."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.oracles import loops
from tvbandits import (
    Answers,
    Bandit,
    Candidates,
    ExpertDownWarning,
    ExpertError,
    ExpertUnavailableError,
    policies,
)
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import MISTAKES, inform
from tvbandits.queries.plans import KDPP

DOMAIN = Candidates(np.linspace(0, 10, 41)[:, None])
NOISE = 0.01


def truth(X: Array, t: float) -> Array:
    return np.asarray(np.exp(-((X[:, 0] - 5 - 3 * np.sin(t / 9)) ** 2)))


@dataclass
class Flaky:
    """Down at some times, deaf to some points, and honest about the rest."""

    down: frozenset[int] = frozenset()
    share: float = 1.0
    error: Exception = field(default_factory=lambda: ConnectionError("no route"))
    asked: list[tuple[float, int, int]] = field(default_factory=list)

    def query(self, X: Array, t: float) -> Answers:
        if int(t) in self.down:
            self.asked.append((t, len(X), 0))
            raise self.error
        values = truth(X, t) + NOISE**0.5 * keyed_normal(0, 7, X, t)
        heard = np.abs(keyed_normal(0, 8, X, t)) < self.share * 3
        values = np.where(heard, values, np.nan)
        self.asked.append((t, len(X), int(heard.sum())))
        return Answers(values, NOISE, 0.5 * len(X), ("some are deaf",) if not heard.all() else ())


def sparq(expert: Any, plan: KDPP | None = None) -> Bandit:
    return policies.sparq_gp_ucb(
        DOMAIN, RBF(1.0), NOISE, expert=expert, queries=plan or KDPP(6), confidence=2.0, seed=3
    )


def play(bandit: Bandit, first: int, last: int) -> Array:
    def reward(x: Array, t: float) -> Array:
        return truth(x, t) + NOISE**0.5 * keyed_normal(0, 1, x, t)

    return loops.play(bandit, reward, range(first, last + 1))


def test_one_warning_for_an_outage() -> None:
    expert = Flaky(down=frozenset([*range(8, 15), 20, 21]))
    bandit = sparq(expert)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(bandit, 1, 30)
    said = [str(each.message) for each in caught]
    assert [each.category for each in caught] == [ExpertDownWarning, ExpertDownWarning]
    assert "cannot be reached at t = 8 (ConnectionError: no route)" in said[0]
    assert "at t = 20 " in said[1]
    assert all(each.filename == loops.__file__ for each in caught)
    info = bandit.info
    assert (info.queries.total_asked, info.queries.total_answered) == tuple(
        np.array(expert.asked)[:, 1:].sum(axis=0)
    )
    assert info.queries.total_refused == info.queries.total_asked - info.queries.total_answered
    assert info.queries.failures == 9
    assert info.queries.total_cost == 0.5 * sum(
        q for t, q, _ in expert.asked if int(t) not in expert.down
    )


def test_the_last_query_s_counts_and_notes_speak_of_an_outage() -> None:
    bandit = sparq(Flaky(down=frozenset([5])))
    with pytest.warns(ExpertDownWarning, match="at t = 5 "):
        play(bandit, 1, 5)
    info = bandit.info
    assert info.queries.asked > 0
    assert info.queries.refused == info.queries.asked
    assert (info.queries.answered, info.queries.cost) == (0, 0.0)
    assert info.queries.notes == ("ConnectionError: no route",)
    assert bandit.state.questions.down
    assert len(bandit.state.answers) == 0  # those before it are not held for its answers
    play(bandit, 6, 6)
    assert not bandit.state.questions.down
    assert bandit.info.queries.notes == ()
    assert bandit.info.queries.failures == 1


def test_an_outage_goes_on_over_a_resume_without_another_warning() -> None:
    expert = Flaky(down=frozenset(range(4, 9)))
    bandit = sparq(expert)
    with pytest.warns(ExpertDownWarning, match="at t = 4 "):
        play(bandit, 1, 6)
    again = Bandit.from_state(bandit.recipe, bandit.state)
    play(again, 7, 8)  # warnings are errors here
    assert again.info.queries.failures == 5


def test_an_expert_that_is_never_there_leaves_the_bandit_that_injects_uncertainty() -> None:
    # A chain of no steps draws nothing, so that both break ties by the same draws.
    deaf = sparq(Flaky(down=frozenset(range(60))), KDPP(6, sweeps=0.0))
    with pytest.warns(ExpertDownWarning) as caught:
        points = play(deaf, 1, 40)
    assert len(caught) == 1
    alone = Bandit(replace(deaf.recipe, asking=None), seed=3)
    np.testing.assert_array_equal(points, play(alone, 1, 40))
    for one, other in zip(deaf.predict(DOMAIN.X), alone.predict(DOMAIN.X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_refused_points_are_left_out() -> None:
    partial = Flaky(share=0.3)
    bandit = sparq(partial)
    play(bandit, 1, 20)
    t, asked, answered = partial.asked[-1]
    assert 0 < answered < asked  # else nothing is tested
    assert len(bandit.state.answers) == answered == bandit.info.queries.answered
    assert bandit.info.queries.refused == asked - answered
    assert bandit.info.queries.notes == ("some are deaf",)
    said = partial.query(bandit.state.answers.X, t)
    np.testing.assert_array_equal(bandit.state.answers.y, said.values)


@pytest.mark.parametrize("error", [OSError("x"), TimeoutError("x"), ExpertUnavailableError("x")])
def test_what_counts_as_down(error: Exception) -> None:
    bandit = sparq(Flaky(down=frozenset([1]), error=error))
    with pytest.warns(ExpertDownWarning, match=type(error).__name__):
        play(bandit, 1, 1)


@pytest.mark.parametrize("kind", [*MISTAKES, ExpertError], ids=lambda kind: kind.__name__)
def test_what_counts_as_broken(kind: type[Exception]) -> None:
    bandit = sparq(Flaky(down=frozenset([3]), error=kind("wrong")))
    play(bandit, 1, 2)
    state = bandit.state
    with pytest.raises(
        ExpertError, match=f"the expert failed on . points .*{kind.__name__}: wrong"
    ):
        bandit.tell([[1.0]], [0.5], 3)
    assert bandit.state is state


def test_with_warnings_as_errors_an_outage_stops_the_call() -> None:
    bandit = sparq(Flaky(down=frozenset([2])))
    play(bandit, 1, 1)
    state = bandit.state
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExpertDownWarning)
        with pytest.raises(ExpertError, match="cannot be reached") as caught:
            bandit.tell([[1.0]], [0.5], 2)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert bandit.state is state


@dataclass
class Watching(Flaky):
    seen: list[Observations] = field(default_factory=list)

    def observe(self, rewards: Observations) -> None:
        if (rewards.y < -1).any():
            raise OSError("disk is full")
        self.seen.append(rewards)


def test_an_expert_may_watch_the_rewards() -> None:
    expert = Watching()
    bandit = sparq(expert)
    play(bandit, 1, 5)
    bandit.tell([[1.0], [2.0]], [0.1, 0.2], [2.0, 6.0], variance=[0.5, 0.6])
    assert [len(each) for each in expert.seen] == [1, 1, 1, 1, 1, 2]
    np.testing.assert_array_equal(expert.seen[-1].t, [2.0, 6.0])
    np.testing.assert_array_equal(expert.seen[-1].variance, [0.5, 0.6])
    inform(Flaky(), expert.seen[0])  # who does not want to see is not bothered


def test_an_expert_that_fails_on_a_reward_stops_the_call() -> None:
    expert = Watching()
    bandit = sparq(expert)
    play(bandit, 1, 2)
    state = bandit.state
    with pytest.raises(ExpertError, match="shown 1 rewards: OSError: disk is full"):
        bandit.tell([[1.0]], [-2.0])
    assert bandit.state is state


def test_a_note_is_one_of_several() -> None:
    with pytest.raises(ValueError, match="notes must be a tuple of texts, got 'closed'"):
        Answers([1.0], 1.0, notes="closed")
