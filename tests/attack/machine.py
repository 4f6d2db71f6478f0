"""A machine of calls in any order, by hypothesis: what breaks a bandit is found with the shortest story.

Ask, with so many points; tell at once, in parts, late, without a reading; predict, recommend, drop,
questions and answers; resume from a pickled state; be interrupted at any line; bad calls. A twin does
the same, but the interrupts: it gives the same and stands the same after every call, to the last bit. In
the end predictions are those of the exact posterior of what was told.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.attack import bandits
from tests.attack.interruptions import Call, Duel, player_of, same_state, seen
from tests.attack.report import WRONG, Count, Found, Trial, in_the_loop, strictly
from tvbandits import Bandit
from tvbandits.bandit.state import same_value
from tvbandits.core.linalg import FactorisationError

STEPS = 14

SEEDS = st.integers(0, 9999)


class Machine(RuleBasedStateMachine):
    """A bandit and its twin."""

    first = 0

    @initialize(seed=SEEDS)
    def start(self, seed: int) -> None:
        """Make both."""
        self.seed = self.first + seed
        self.duel = Duel(self.seed, Count("machine"))
        self.now = 1.0

    def both(self, name: str, call: Any) -> Any:
        """Let both make a call; what it gave."""
        results = []
        for each in (self.duel.bandit, self.duel.twin):
            with strictly():
                try:
                    results.append(call(each))
                except FactorisationError as error:  # an honest refusal, with a remedy
                    results.append(str(error))
        one, other = results
        assert same_value(seen(one), seen(other)), f"{name}: {one} and {other}"
        return one

    @rule(gap=st.sampled_from([0.0, 0.25, 1.0, 7.5]), n=st.sampled_from([None, None, 1, 3]))
    def ask(self, gap: float, n: int | None) -> None:
        """Where to play."""
        self.now += gap
        self.both("ask", lambda b: b.ask(self.now, n))

    @precondition(lambda self: len(self.duel.twin.pending))
    @rule(
        part=st.integers(1, 3),
        late=st.sampled_from([None, None, None, 0.5, 20.0]),
        missing=st.sampled_from([False, False, False, True]),
    )
    def tell(self, part: int, late: float | None, missing: bool) -> None:
        """What came of it: in parts, late, without a reading."""
        X = self.duel.twin.pending[:part]
        y = self.duel.truth(X, self.now)
        if missing:
            y[0] = np.nan
        t = None if late is None else self.now - late
        self.both("tell", lambda b: b.tell(X, y, t))

    @rule(seed=SEEDS, ahead=st.sampled_from([-3.0, 0.0, 2.0]))
    def look(self, seed: int, ahead: float) -> None:
        """Predict and recommend change nothing."""
        X = self.duel.twin.recipe.domain.sample(3, np.random.default_rng(seed))
        before = self.duel.bandit.state
        self.both("predict", lambda b: b.predict(X, self.now + ahead))
        if len(before.rewards) or len(before.answers):
            self.both("recommend", lambda b: b.recommend(self.now + 1.0))
        assert self.duel.bandit.state is before

    @precondition(lambda self: len(self.duel.twin.pending))
    @rule()
    def drop(self) -> None:
        """Give up on a point."""
        X = self.duel.twin.pending[:1]
        self.both("drop", lambda b: b.drop(X))

    @precondition(lambda self: self.duel.twin.recipe.asking is not None)
    @rule(seed=SEEDS)
    def carry(self, seed: int) -> None:
        """Questions whose answers come by hand, in part."""
        X = self.both("questions", lambda b: b.questions())
        if not isinstance(X, str) and len(X):
            X = X[np.random.default_rng(seed).random(len(X)) < 0.7]
        if not isinstance(X, str) and len(X):
            self.both("answer", lambda b: b.answer(X, self.duel.truth(X, self.now), self.now))

    @rule()
    def resume(self) -> None:
        """The twin goes on from a stored state, with parts of its own."""
        state = pickle.loads(pickle.dumps(self.duel.twin.state))
        self.duel.twin = Bandit.from_state(player_of(self.seed)[0].recipe, state)

    @rule(seed=SEEDS, what=st.sampled_from(["ask", "predict", "tell", "questions"]))
    def interrupt(self, seed: int, what: str) -> None:
        """A call is thrown out of, and made again."""
        duel, rng = self.duel, np.random.default_rng(seed)
        duel.rng = rng
        X = duel.twin.recipe.domain.sample(2, rng)
        y = duel.truth(X, self.now)
        calls = {
            "ask": lambda b: b.ask(self.now),
            "predict": lambda b: b.predict(X, self.now),
            "tell": lambda b: seen(b.tell(X, y, self.now)),
            "questions": lambda b: b.questions(),
        }
        if what == "questions" and duel.twin.recipe.asking is None:
            return
        with strictly():
            duel.attack(Call(what, calls[what]))
        tally = duel.count.tally
        assert not tally.faults, tally.examples
        if (
            duel.over
        ):  # an expert that counts as down, or a call that only the copy of the twin made
            duel.twin = Bandit.from_state(
                player_of(self.seed)[0].recipe, pickle.loads(pickle.dumps(duel.bandit.state))
            )
            duel.over = False

    @rule(seed=SEEDS)
    def err(self, seed: int) -> None:
        """A bad call is refused, and changes nothing."""
        rng = np.random.default_rng(seed)
        assert bandits.bad_call_changes_nothing(self.duel.bandit, self.now, rng)

    @invariant()
    def alike(self) -> None:
        """Both stand the same."""
        if hasattr(self, "duel"):
            assert same_state(self.duel.bandit.state, self.duel.twin.state)

    def teardown(self) -> None:
        """What is believed is what the exact posterior says."""
        if not hasattr(self, "duel") or self.seed % 2 == 0:
            return
        bandit, rng = self.duel.bandit, np.random.default_rng(self.seed)
        unit = bandits.recipe_of(self.seed)[2]["unit"]
        with strictly(), contextlib.suppress(FactorisationError):
            bandits.against_the_exact(bandit, self.now, unit, rng)


def quick(stories: int) -> settings:
    """The same stories each time, however long each takes."""
    return settings(
        max_examples=stories,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def told(stories: int, first: int) -> None:
    """Play stories; hypothesis ends at the first that breaks something."""
    machine = type("Machine", (Machine,), {"first": first})
    with TemporaryDirectory(prefix="attack") as folder:
        set_hypothesis_home_dir(folder)  # it keeps files wherever it is run
        try:
            run_state_machine_as_test(machine, settings=quick(stories))
        except AssertionError as error:
            raise Found(WRONG, str(error)) from error


@in_the_loop(300, 5)
def attack(found: Count, count: int, seed: int) -> Iterator[Trial]:
    """Play so many stories."""
    found.tried(count - 1)
    yield f"seed {seed}", lambda: told(count, 10_000 * seed)
