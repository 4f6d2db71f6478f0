"""The bandit: ask where to play, tell what came of it.

A `Recipe` says which parts a policy is made of; a `State` is everything it has learned. Both are frozen:
every call builds the next state aside and puts it in place in one assignment at the end, so a call that
fails leaves the bandit as it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import (
    Allowed,
    Among,
    available,
)
from tvbandits.acquisition.ucb import Decision
from tvbandits.bandit import consulting
from tvbandits.bandit.history import history_of
from tvbandits.bandit.inference import Model
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.resuming import first_state, generator_of, state_for
from tvbandits.bandit.state import Info, State
from tvbandits.bandit.told import (
    Told,
    checked_answers,
    checked_told,
    visited_with,
)
from tvbandits.core.arrays import Array, as_generator, as_points, as_time, whole_number
from tvbandits.core.display import as_html
from tvbandits.queries.consultation import show

MOST_POINTS = 100_000
"""Most points of one ask."""


class Bandit:
    """A bandit: `ask` for points to play, `tell` their rewards.

    Parameters
    ----------
    recipe : Recipe
    seed : int or numpy.random.Generator
        The only source of randomness. A generator is not advanced: a child is spawned from it.
    """

    def __init__(self, recipe: Recipe, *, seed: int | np.random.Generator = 0) -> None:
        rng = as_generator(seed)
        if rng is seed:
            (rng,) = rng.spawn(1)
        self._recipe = recipe
        self._live: tuple[Mapping[str, Any], np.random.Generator] | None = None
        self._lock = threading.RLock()
        self._busy = False
        self._state = first_state(recipe, rng)

    @classmethod
    def from_state(cls, recipe: Recipe, state: State) -> Bandit:
        """Continue from `state` as if nothing had happened in between, bit for bit.

        The recipe may also be another one than the state comes from: what was told stays, and what
        was computed from it by other parts is computed again.

        Raises
        ------
        ValueError
            If a point that was played lies outside the recipe's domain.
        """
        given: tuple[object, object] = (recipe, state)
        if not (isinstance(given[0], Recipe) and isinstance(given[1], State)):
            names = " and ".join(type(part).__name__ for part in given)
            raise ValueError(f"from_state takes a Recipe and then a State, got {names}")
        if state.rewards.dimension != recipe.domain.dimension:
            raise ValueError(
                f"the state has points of {state.rewards.dimension} coordinates, "
                f"the recipe's domain of {recipe.domain.dimension}"
            )
        recipe.domain.check(state.visited, "points played")
        bandit = cls(recipe)
        bandit._state = state_for(recipe, state)
        return bandit

    def __repr__(self) -> str:
        state = self._state
        at = "at the start" if state.time is None else f"at t = {state.time:g}"
        out = f", {len(state.pending)} out" if len(state.pending) else ""
        return f"<Bandit on {self._recipe.domain!r}, {len(state.rewards)} rewards told{out}, {at}>"

    def _repr_html_(self) -> str:
        recipe = self._recipe
        parts = [("domain", recipe.domain), ("kernel", self._state.model.kernel)]
        parts += [("aging", self._state.model.aging), ("width", recipe.confidence)]
        return as_html("Bandit", [*parts, *self._state.summary])

    @cached_property
    def _model(self) -> Model:
        return Model(self._recipe)

    @property
    def recipe(self) -> Recipe:
        """The parts this bandit is made of."""
        return self._recipe

    @property
    def state(self) -> State:
        """Everything it has learned, frozen."""
        return self._state

    @property
    def info(self) -> Info:
        """What happened in the last `ask` and `tell`."""
        return self._state.info

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, in the order they were asked, shape (k, d)."""
        return self._state.pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked: time, coordinates, reward, variance, source, kind."""
        state = self._state
        return history_of(state.domain, state.rewards, state.answers, state.failed, state.pending)

    def ask(
        self,
        t: float | None = None,
        n: int | None = None,
        among: Among = None,
        context: ArrayLike | None = None,
    ) -> Array:
        """Where to play at time `t`, shape (b, d).

        Points that were asked and not told count: the variance around them is lower, so that repeated
        asks spread out, and a point that is out for the same time comes again only if nothing else is
        left.

        Parameters
        ----------
        t : float, optional
            Time of the decision; by default one unit after the latest time told, 1 at the start.
        n : int, optional
            Exactly so many points, distinct where the domain has as many; by default the batch rule
            decides, one point for most policies.
        among : mask (A,), row numbers, or function of points (m, d), optional
            What is available now: of candidates a mask or row numbers, of any other domain a function
            from points to a mask.
        context : array of shape (c,), optional
            Values of the context columns of `Candidates`: only rows with these are available.

        Raises
        ------
        ValueError
            If `t` is not finite, or before a time already told; if `n` is no whole number of at least 1;
            if `among` or `context` do not suit the domain.
        NothingAvailableError
            If nothing is available.
        ExpertError
            If the expert is consulted before decisions, and is broken.
        """
        with self._alone("ask"):
            state, now = self._state, self._decision_time(t)
            if state.time is not None and now < state.time:
                raise ValueError(f"cannot ask for t = {now}: a reward at t = {state.time} is told")
            if n is not None:
                whole_number("n", n, at_most=MOST_POINTS)
            free = available(self._recipe.domain, among, context)
            rng = self._generator(state)
            state = replace(state, questions=replace(state.questions, available=free))
            with self._model.one_thread(state):
                if consulting.due_before_ask(self._recipe, state, now):
                    model = self._model
                    state = consulting.with_answers_of_the_expert(
                        self._recipe, model, state, now, rng
                    )
                return self._asked(state, now, n, rng)

    def _asked(self, state: State, now: float, n: int | None, rng: np.random.Generator) -> Array:
        """Choose, and put the state in place."""
        state = self._model.conditioned(state, now, rng)
        started = time.perf_counter()
        beta = self._model.beta(state)
        X, looks = self._recipe.acquisition.choose(self._decision(state, now, beta, n), rng)
        seconds = {**state.info.seconds, "acquisition": time.perf_counter() - started}
        info = replace(state.info, beta=beta, batch_size=len(X), batch_looks=looks, seconds=seconds)
        due = state.questions.due or self._recipe.consult == "after tell"
        self._state = replace(
            state,
            asked_for=now,
            pending=state.pending.append(X, np.full(len(X), now)),
            questions=replace(state.questions, informed=False, due=due),
            random=self._stored(rng),
            info=info,
        )
        return X

    def _decision(self, state: State, now: float, beta: float, n: int | None) -> Decision:
        """What the acquisition is asked."""
        recipe, out = self._recipe, state.pending
        most = None if recipe.asking is None else recipe.asking.informed_width
        informed = state.questions.informed and most is not None
        noise = self._model.pending_noise(state, now)
        heard = np.isfinite(noise)
        return Decision(
            domain=recipe.domain,
            view=self._model.view(state, now),
            beta=min(beta, most) if informed and most is not None else beta,
            noise_variance=recipe.noise_variance,
            batching=recipe.batching,
            n=n,
            pending=out.X[heard],
            pending_noise=noise[heard],
            taken=out.X[out.t == now],
            available=state.questions.available,
        )

    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike,
        t: ArrayLike | None = None,
        variance: ArrayLike | None = None,
    ) -> Info:
        """Learn rewards; then ask the expert, if there is one and it is its turn.

        It happens wholly or not at all: whatever is wrong, the bandit stays as it was.

        Parameters
        ----------
        X : array of shape (n, d)
            The points that were played, asked for or not.
        y : array of shape (n,)
            Their rewards. NaN: the point was played, and there is no reading; the play counts, it is no
            longer pending, and nothing is learned from it.
        t : float or array of shape (n,), optional
            The times of the rewards; older ones than the latest are welcome. By default the time that
            each point was asked for, and one unit after the latest time told where it was not.
        variance : float or array of shape (n,), optional
            Noise variance of the rewards; the recipe's by default.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is infinite, a variance is not positive, or a point lies
            outside the domain.
        ExpertError
            If the expert answers in a form that cannot be used, or raises what Python raises for
            mistakes in a program. An expert that raises anything else is down: the bandit goes on
            without its answers, with one `ExpertDownWarning` for every outage.
        """
        with self._alone("tell"):
            before = self._state
            asked_for = self._decision_time(None) if before.asked_for is None else before.asked_for
            recipe = self._recipe
            told = checked_told(
                recipe.domain,
                recipe.noise_variance,
                before.pending,
                asked_for,
                X,
                y,
                t,
                variance,
            )
            rng = self._generator(before)
            with self._model.one_thread(before):
                state = self._with_rewards(before, told, rng)
                expert = consulting.expert_of(self._recipe)
                if expert is not None and len(told.rewards):
                    show(expert, told.rewards)
                if consulting.due_after_tell(self._recipe, before, state, told.latest):
                    about = consulting.about_after_tell(state, told.latest)
                    state = consulting.with_answers_of_the_expert(
                        self._recipe, self._model, state, about, rng
                    )
            self._state = replace(state, random=self._stored(rng))
            return self._state.info

    def _with_rewards(self, state: State, told: Told, rng: np.random.Generator) -> State:
        """The state once it knows what was told."""
        model = self._model
        spent = state.spent + model.information(state, told.rewards)
        state = model.reset_at_events(state, told.rewards, rng)
        before = len(state.rewards)
        visited = visited_with(state.visited, told.X)
        # A late reward does not take the time of the decision that is still out.
        out = state.asked_for is not None and told.latest < state.asked_for
        before_ask = self._recipe.consult == "before ask"
        rewards = state.rewards.append(told.rewards)
        failed = state.failed.append(told.failed.X, told.failed.t)
        state = replace(
            state,
            rewards=rewards,
            failed=failed,
            pending=state.pending.without(told.X),
            visited=visited,
            time=told.latest if state.time is None else max(state.time, told.latest),
            asked_for=state.asked_for if out else None,
            spent=spent,
            questions=replace(
                state.questions,
                pool=model.members(state, visited),
                due=state.questions.due or before_ask,
            ),
            info=replace(state.info, told=len(rewards), failed=len(failed)),
        )
        return model.learned(state, before)

    def drop(self, X: ArrayLike) -> None:
        """Give up on points that were asked and will not be told.

        Parameters
        ----------
        X : array of shape (n, d)
            Each ends the pending point asked first.

        Raises
        ------
        ValueError
            If one of them is not pending.
        """
        with self._alone("drop"):
            state = self._state
            points = self._recipe.domain.check(as_points(X, self._recipe.domain.dimension))
            self._state = replace(state, pending=state.pending.dropped(points))

    def predict(self, X: ArrayLike, t: float | None = None) -> tuple[Array, Array]:
        """Posterior mean and deviation of the reward, in its unit; changes nothing.

        Parameters
        ----------
        X : array of shape (m, d)
            Any finite points.
        t : float, optional
            The time spoken about; by default the time of the next decision.

        Returns
        -------
        mean, deviation : arrays of shape (m,)

        Raises
        ------
        ValueError
            If a point or the time is not finite.
        """
        points = as_points(X, self._recipe.domain.dimension)
        with self._alone("predict"):
            state, now, _ = self._conditioned_for(t)
            with self._model.one_thread(state):
                mean, deviation = self._model.view(state, now).predict(points)
        return (-mean if self._recipe.minimise else mean), deviation

    def recommend(
        self, t: float | None = None, among: Among = None, context: ArrayLike | None = None
    ) -> Array:
        """The point (d,) of the best posterior mean at time `t`, by default the next decision's.

        Parameters
        ----------
        t : float, optional
        among, context
            What is available, as for `ask`.

        Raises
        ------
        ValueError
            As for `ask`.
        NothingAvailableError
            If nothing is available.
        """
        domain = self._recipe.domain
        free = available(domain, among, context)
        with self._alone("recommend"):
            state, now, rng = self._conditioned_for(t)
            with self._model.one_thread(state):
                allowed = Allowed(domain, free, np.empty((0, domain.dimension)))
                return allowed.best(self._model.view(state, now).mean, rng)

    def questions(self, t: float | None = None, among: Among = None) -> Array:
        """What the query plan would ask now: for experts whose answers take their time.

        The questions count as asked. There are none once the decision has had its own.

        Parameters
        ----------
        t : float, optional
            The time that the questions are about; by default that of the decision that is out, or else
            the latest time told ("after tell") or the next decision's ("before ask").
        among : mask, row numbers or function, optional
            What may be asked about now, as for `ask`.

        Returns
        -------
        points : array of shape (q, d)

        Raises
        ------
        ValueError
            If the recipe has no query plan, or `t` or `among` cannot be used.
        """
        with self._alone("questions"):
            recipe, state = self._recipe, self._state
            if recipe.asking is None:
                raise ValueError(
                    "there is nothing to ask: the recipe has no query plan (asking=None)"
                )
            about = self._question_time(t)
            free = available(recipe.domain, among, None)
            questions = state.questions
            if not (questions.due or questions.latest is None or about > questions.latest):
                return np.empty((0, recipe.domain.dimension))
            if free is not None:
                state = replace(state, questions=replace(questions, available=free))
            rng = self._generator(state)
            with self._model.one_thread(state):
                state, points, _ = consulting.chosen(recipe, self._model, state, about, rng)
            about_all = replace(
                state.info.queries,
                asked=len(points),
                total_asked=state.info.queries.total_asked + len(points),
            )
            info = replace(state.info, queries=about_all)
            self._state = replace(state, random=self._stored(rng), info=info)
            return points.copy()

    def answer(
        self,
        X: ArrayLike,
        values: ArrayLike,
        t: float | None = None,
        variance: ArrayLike | None = None,
    ) -> Info:
        """Take answers of an expert, whenever they come, whole or in parts.

        Parameters
        ----------
        X : array of shape (q, d)
            Points of the domain, asked about or not.
        values : array of shape (q,)
            What the expert says of the reward there; NaN: no answer.
        t : float, optional
            The time that the answers speak about; by default that of the last questions.
        variance : float or array of shape (q,), optional
            Noise variance of the answers; the recipe's by default.

        Raises
        ------
        ValueError
            If the recipe has no query plan, or something has no form that can be used.
        """
        with self._alone("answer"):
            recipe, state = self._recipe, self._state
            if recipe.asking is None:
                raise ValueError("there is nothing to answer: the recipe has no query plan")
            when = self._question_time(state.questions.latest if t is None else t)
            fresh, refused = checked_answers(recipe, X, values, when, variance)
            self._state = consulting.with_answers(recipe.asking, state, fresh, refused)
            return self._state.info

    def _question_time(self, t: float | None) -> float:
        state = self._state
        if t is not None:
            return as_time(t)
        if state.asked_for is not None:
            return state.asked_for
        if self._recipe.consult == "after tell" and state.time is not None:
            return state.time
        return self._decision_time(None)

    def _conditioned_for(self, t: float | None) -> tuple[State, float, np.random.Generator]:
        """The state conditioned for a look that changes nothing, and a generator for its ties."""
        now, rng = self._decision_time(t), generator_of(self._state.random)
        with self._model.one_thread(self._state):
            return self._model.conditioned(self._state, now, rng), now, rng

    def _decision_time(self, t: float | None) -> float:
        if t is None:
            return 1.0 if self._state.time is None else self._state.time + 1.0
        return as_time(t)

    @contextmanager
    def _alone(self, call: str) -> Iterator[None]:
        """One call at a time: other threads wait, and a call from inside of a call is refused."""
        with self._lock:
            if self._busy:
                raise RuntimeError(
                    f"{call} was called from inside of a call of the same bandit, such as by its expert"
                )
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _generator(self, state: State) -> np.random.Generator:
        """The generator that continues from `state`: the live one, or one made anew.

        It is taken, not lent: a call that fails does not bring it back by `_stored`, so that the next
        one starts again from the state.
        """
        live, self._live = self._live, None
        if live is not None and live[0] is state.random:
            return live[1]
        return generator_of(state.random)

    def _stored(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """The state of `rng`, which stays live for the next call."""
        self._live = (rng.bit_generator.state, rng)
        return self._live[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"_recipe": self._recipe, "_state": self._state}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, _live=None, _lock=threading.RLock(), _busy=False)
