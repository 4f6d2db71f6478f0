"""The bandit: ask where to play, tell what came of it.

A `Recipe` says which parts a policy is made of; a `State` is everything it has learned. Both are frozen:
`ask` and `tell` build the next state aside and put it in place in one assignment at the end, so a call
that fails leaves the bandit as it was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.acquisition.batch_rules import Batching
from tvbandits.acquisition.ucb import choose
from tvbandits.bandit.inference import Model
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import Info, State, with_queries
from tvbandits.core.arrays import Array, as_column, as_floats, as_points, is_finite_number
from tvbandits.core.observations import Observations, Source
from tvbandits.forgetting.aging import Paced
from tvbandits.gp.fitting.standardisation import Scaling
from tvbandits.gp.kernels.terms import same_form
from tvbandits.queries.consultation import consult, show, warn_of
from tvbandits.queries.pool import Members


class Bandit:
    """A bandit: `ask` for points to play, `tell` their rewards.

    Parameters
    ----------
    recipe : Recipe
    seed : int or numpy.random.Generator
        The only source of randomness. A generator is not advanced: a child is spawned from it.
    """

    def __init__(self, recipe: Recipe, *, seed: int | np.random.Generator = 0) -> None:
        rng = (
            seed.spawn(1)[0]
            if isinstance(seed, np.random.Generator)
            else np.random.default_rng(seed)
        )
        none = Observations.empty(recipe.domain.dimension)
        self._recipe = recipe
        self._live: tuple[Mapping[str, Any], np.random.Generator] | None = None
        self._state = State(
            rewards=none,
            answers=none,
            visited=none.X,
            pool=Members.none(),
            time=None,
            asked_for=None,
            scaling=_first_scaling(recipe),
            kernel=recipe.kernel,
            aging=recipe.aging,
            posterior=None,
            random=rng.bit_generator.state,
            domain=recipe.domain,
        )

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
        bandit._state = _fitted_to(recipe, state)
        return bandit

    def __repr__(self) -> str:
        at = "at the start" if self._state.time is None else f"at t = {self._state.time:g}"
        return f"<Bandit on {self._recipe.domain!r}, {len(self._state.rewards)} rewards told, {at}>"

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

    def ask(self, t: float | None = None) -> Array:
        """Where to play at time `t`, shape (b, d): b = 1 unless the batch rule decides for more.

        Parameters
        ----------
        t : float, optional
            Time of the decision; by default one unit after the latest time told, 1 at the start.

        Raises
        ------
        ValueError
            If `t` is not finite, or before a time already told.
        """
        state = self._state
        now = self._decision_time(t)
        if state.time is not None and now < state.time:
            raise ValueError(f"cannot ask for t = {now}: a reward at t = {state.time} is told")
        rng = self._generator(state)
        with self._model.calmly():
            state = self._model.conditioned(state, now, rng)
            started = time.perf_counter()
            beta = self._model.beta(state)
            informed = self._recipe.informed_width if state.informed else None
            width = beta if informed is None else min(beta, informed)
            X, looks = self._chosen(state, now, width, rng)
        seconds = {**state.info.seconds, "acquisition": time.perf_counter() - started}
        info = replace(state.info, beta=beta, batch_size=len(X), batch_looks=looks, seconds=seconds)
        self._state = replace(
            state, asked_for=now, informed=False, random=self._stored(rng), info=info
        )
        return X

    def _chosen(
        self, state: State, now: float, beta: float, rng: np.random.Generator
    ) -> tuple[Array, int]:
        """Points (b, d) for a conditioned state, and how many variances were computed for them."""
        recipe, view = self._recipe, self._model.view(state, now)
        batching = Batching(recipe.batch, recipe.minimum_batch, recipe.largest_batch)
        return choose(recipe.domain, view, beta, recipe.noise_variance, batching, rng)

    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike,
        t: ArrayLike | None = None,
        variance: ArrayLike | None = None,
    ) -> Info:
        """Learn rewards; then ask the expert, if there is one.

        It happens wholly or not at all: whatever is wrong, the bandit stays as it was.

        Parameters
        ----------
        X : array of shape (n, d)
            The points that were played, asked for or not.
        y : array of shape (n,)
            Their rewards (larger is better).
        t : float or array of shape (n,), optional
            The times of the rewards; older ones than the latest are welcome. By default the time that
            was asked for, or one unit after the latest time told.
        variance : float or array of shape (n,), optional
            Noise variance of the rewards; the recipe's by default.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is not finite, a variance is not positive, or a point lies
            outside the domain.
        ExpertError
            If the expert answers in a form that cannot be used, or raises what Python raises for
            mistakes in a program. An expert that raises anything else is down: the bandit goes on
            without its answers, with one `ExpertDownWarning` for every outage.
        """
        state = self._state
        told = self._observed(X, y, t, variance)
        rng = self._generator(state)
        state = self._model.watched(state, told, rng)
        latest = float(told.t.max())
        rewards = state.rewards.append(told)
        visited = _with_new_points(state.visited, told.X)
        # A late reward does not take the time of the decision that is still out.
        pending = state.asked_for is not None and latest < state.asked_for
        state = replace(
            state,
            rewards=rewards,
            visited=visited,
            pool=self._model.members(state, visited),
            time=latest if state.time is None else max(state.time, latest),
            asked_for=state.asked_for if pending else None,
            spent=state.spent + self._model.information(state, told),
            info=replace(state.info, told=len(rewards)),
        )
        state = self._model.learned(state, len(rewards) - len(told))
        if self._recipe.expert is not None:
            show(self._recipe.expert, told)
        state = self._queried(state, rng)
        self._state = replace(state, random=self._stored(rng))
        return self._state.info

    def predict(self, X: ArrayLike, t: float | None = None) -> tuple[Array, Array]:
        """Posterior mean and deviation of the reward, in its unit.

        Parameters
        ----------
        X : array of shape (m, d)
            Any finite points.
        t : float, optional
            The time spoken about; by default the time of the next decision.

        Returns
        -------
        mean, deviation : arrays of shape (m,)
        """
        points = as_points(X, self._recipe.domain.dimension)
        now = self._decision_time(t)
        rng = _generator(self._state.random)
        return self._model.view(self._model.conditioned(self._state, now, rng), now).predict(points)

    def recommend(self, t: float | None = None) -> Array:
        """The point (d,) of the best posterior mean at time `t`, by default the next decision's."""
        now = self._decision_time(t)
        rng = _generator(self._state.random)
        state = self._model.conditioned(self._state, now, rng)
        x, _ = self._recipe.domain.maximise(self._model.view(state, now).mean, rng)
        return x.copy()

    def _decision_time(self, t: float | None) -> float:
        if t is None:
            return 1.0 if self._state.time is None else self._state.time + 1.0
        if not is_finite_number(t):
            raise ValueError(f"t must be a finite number, got {t!r}")
        return float(t)

    def _observed(
        self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None, variance: ArrayLike | None
    ) -> Observations:
        """Check what was told."""
        points = self._recipe.domain.check(as_points(X, self._recipe.domain.dimension))
        n = len(points)
        if n == 0:
            raise ValueError(f"X must have at least one point, got shape {points.shape}")
        if t is None:
            asked = self._state.asked_for
            t = self._decision_time(None) if asked is None else asked
        if variance is None:
            variance = self._recipe.noise_variance
        rewards = as_floats(y, "y")
        if rewards.ndim == 0 and n != 1:
            raise ValueError(f"y must have shape ({n},), got ()")
        return Observations(
            points,
            as_column(t, n, "t"),
            as_column(rewards, n, "y"),
            as_column(variance, n, "variance"),
        )

    def _queried(self, state: State, rng: np.random.Generator) -> State:
        """Ask the expert about the latest time, as the query plan says."""
        recipe = self._recipe
        if recipe.expert is None or recipe.queries is None or state.time is None:
            return state
        started = time.perf_counter()
        asking = self._model.pool(state, rng)
        with self._model.calmly():
            choice = recipe.queries.choose(asking.pool, rng)
        chosen = time.perf_counter()
        now, points = state.time, asking.pool.points[choice.rows]
        state = asking.state
        asked = consult(recipe.expert, points.copy(), now)
        said = asked.said
        seconds = {"queries": chosen - started, "expert": time.perf_counter() - chosen}
        has = said.answered
        fresh = Observations(
            points[has],
            np.full(int(has.sum()), now),
            said.values[has],
            said.variance[has],
            np.full(int(has.sum()), Source.EXPERT, dtype=np.uint8),
        )
        answers, since = self._model.kept(state, fresh)
        info = with_queries(state.info, choice, asked, {**state.info.seconds, **seconds})
        if asked.failure is not None and not state.expert_down:
            warn_of(asked.failure, now)
        # No question is no sign of life.
        down = state.expert_down if len(points) == 0 else asked.failure is not None
        return replace(
            state,
            answers=answers,
            since=since,
            expert_down=down,
            informed=state.informed or bool(has.any()),
            info=info,
        )

    def _generator(self, state: State) -> np.random.Generator:
        """The generator that continues from `state`: the live one, or one made anew.

        It is taken, not lent: a call that fails does not bring it back by `_stored`, so that the next
        one starts again from the state.
        """
        live, self._live = self._live, None
        return live[1] if live is not None and live[0] is state.random else _generator(state.random)

    def _stored(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """The state of `rng`, which stays live for the next call."""
        self._live = (rng.bit_generator.state, rng)
        return self._live[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"_recipe": self._recipe, "_state": self._state, "_live": None}


def _first_scaling(recipe: Recipe) -> Scaling:
    return Scaling(0.0 if recipe.mean == "online" else recipe.mean, 1.0)


def _fitted_to(recipe: Recipe, state: State) -> State:
    """`state` without what was computed by parts that are not the recipe's."""
    if recipe.mean != "online" or state.scaling.estimated_at == 0:
        state = replace(state, scaling=_first_scaling(recipe))
    state = _with_kernel_of(recipe, _with_aging_of(recipe, state))
    same = state.domain == recipe.domain and (
        state.posterior is not None and bool(state.posterior.kernel == state.kernel)
    )
    return replace(state, domain=recipe.domain, posterior=state.posterior if same else None)


def _with_aging_of(recipe: Recipe, state: State) -> State:
    """`state` with the recipe's aging map, or that map at the pace that was learned."""
    given, known = recipe.aging, state.aging
    if (
        recipe.learn is not None
        and isinstance(given, Paced)
        and isinstance(known, Paced)
        and known.pace > 0  # not that of a composition without one, which is not a number
        and given.at_pace(1.0) == known.at_pace(1.0)
    ):
        return state
    return replace(state, aging=given, info=replace(state.info, pace=math.nan))


def _with_kernel_of(recipe: Recipe, state: State) -> State:
    """`state` with the recipe's kernel, or what was learned from kernels of that form."""
    if recipe.learn is not None and state.learned is not None:
        given, known = (recipe.kernel, *recipe.learn.rivals), state.learned.kernels
        if len(given) == len(known) and all(map(same_form, known, given)):
            return replace(state, kernel=state.learned.kernel)
    info = replace(state.info, learned=()) if state.learned is not None else state.info
    return replace(state, kernel=recipe.kernel, learned=None, info=info)


def _with_new_points(visited: Array, X: Array) -> Array:
    """`visited` and those rows of `X` that are not in it, each once."""
    for x in X:
        if not (visited == x).all(axis=1).any():
            visited = np.concatenate([visited, x[None, :]])
    visited.setflags(write=False)
    return visited


def _generator(random: Mapping[str, Any]) -> np.random.Generator:
    """A generator that continues from a stored state."""
    bits = getattr(np.random, random["bit_generator"])()
    bits.state = random
    return np.random.Generator(bits)
