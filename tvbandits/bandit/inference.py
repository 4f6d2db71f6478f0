"""From what a bandit has learned to what it believes: a posterior at a time, and the width around it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from threadpoolctl import ThreadpoolController

from tvbandits.acquisition.confidence import BBKBWidth, Situation
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.core.arrays import Array
from tvbandits.core.domains import Candidates
from tvbandits.core.observations import Observations
from tvbandits.forgetting.aging import Ages, Paced
from tvbandits.forgetting.learned_rate import learned_pace
from tvbandits.gp.fitting import standardisation
from tvbandits.gp.fitting.online import Every, Learned, refit
from tvbandits.gp.kernels.structure import inputs, is_space_time
from tvbandits.gp.kernels.terms import components_of
from tvbandits.gp.posteriors.candidate_cache import Surface
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.state_space import StateSpace
from tvbandits.gp.predictions import View
from tvbandits.queries.lookahead import Beliefs
from tvbandits.queries.pool import Members, Pool


@cache
def _threads() -> ThreadpoolController:
    """The thread pools of this process, which take milliseconds to find."""
    return ThreadpoolController()


DRAWN = 256
"""Points drawn from a domain that is not finite, for a plan to choose from."""


@dataclass
class Asking:
    """A pool, and the state: conditioned, if the plan has looked at the posterior."""

    state: State
    pool: Pool = field(init=False)


class Model:
    """The beliefs of a recipe; all it keeps is what can be computed again.

    Parameters
    ----------
    recipe : Recipe
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._on_candidates: Surface | None = None

    def calmly(self) -> AbstractContextManager[object]:
        """One BLAS thread, where matrices are small: several would only wait for each other."""
        recipe = self._recipe
        if recipe.learn is None and not isinstance(recipe.posterior, StateSpace):
            return nullcontext()
        limited: AbstractContextManager[object] = _threads().limit(limits=1, user_api="blas")
        return limited

    def conditioned(self, state: State, now: float, rng: np.random.Generator) -> State:
        """The state with its posterior speaking about the time `now`."""
        started = time.perf_counter()
        recipe = self._recipe
        seen, effective, used = self._aged(state, now)
        learned = state.scaling
        # Where the kernel is learned, the scale is its unit: both change together, in `learned`.
        if recipe.mean == "online" and (state.learned is None or state.learned.fits == 0):
            learned = standardisation.learn(
                learned, state.kernel, seen, used, recipe.noise_variance
            )
        kept = seen if used.all() else seen.take(used)
        values = np.ones((len(kept), 2))
        values[:, 0] = kept.y - origin(state)
        posterior = recipe.posterior.condition(
            state.kernel,
            Data(self._inputs(state, kept.X, kept.t), values, effective[used] / learned.scale**2),
            surface=self._surface(state),
            now=now,
            previous=state.posterior,
            rng=rng,
        )
        info = replace(
            state.info,
            jitter=posterior.jitter,
            condition=posterior.condition_number,
            in_use=len(kept),
            forgotten=len(seen) - len(kept),
            effective_sample_size=float((kept.variance / effective[used]).sum()),
            information_gain=posterior.log_det_ratio / 2,
            dictionary_size=posterior.dictionary_size,
            centre=learned.centre(posterior.products, origin(state)),
            scale=learned.scale,
            seconds={**state.info.seconds, "posterior": time.perf_counter() - started},
        )
        return replace(state, scaling=learned, posterior=posterior, info=info)

    def view(self, state: State, now: float) -> View:
        """What a conditioned state says about the time `now`."""
        assert state.posterior is not None  # every caller conditions first
        return View(
            posterior=state.posterior,
            surface=self._surface(state),
            inputs=lambda X: self._inputs(state, X, now),
            centre=state.info.centre,
            scale=state.scaling.scale,
            origin=origin(state),
        )

    def beta(self, state: State) -> float:
        """The width of a conditioned state."""
        domain, posterior = self._recipe.domain, state.posterior
        size = len(domain) if isinstance(domain, Candidates) else None
        gain = 0.0 if posterior is None else posterior.log_det_ratio
        dimension = (lambda: 0.0) if posterior is None else posterior.effective_dimension
        situation = Situation(gain, len(state.rewards), size, state.spent, dimension)
        return self._recipe.confidence(situation)

    def information(self, state: State, told: Observations) -> float:
        """Sum of log(1 + 3 variance / noise variance) of what is told, before it was told."""
        if not isinstance(self._recipe.confidence, BBKBWidth):
            return 0.0
        Z = self._inputs(state, told.X, told.t)
        prior = state.kernel.diag(Z)
        variance = prior if state.posterior is None else state.posterior.predict(Z)[1]
        noise = told.variance / state.scaling.scale**2
        return float(np.log1p(3 * variance / noise).sum())

    def watched(self, state: State, told: Observations, rng: np.random.Generator) -> State:
        """The state before it is told rewards, with everything forgotten if one of them is an event.

        A reward that comes late is no news about the present, and triggers nothing.
        """
        trigger = self._recipe.reset
        if trigger is None or len(state.rewards) == state.since[0]:
            return state
        for i, t in enumerate(told.t):
            if state.time is not None and t < state.time:
                continue
            state = self.conditioned(state, float(t), rng)
            mean, deviation = self.view(state, float(t)).predict(told.X[i : i + 1])
            count = len(state.rewards) - state.since[0] + i + 1
            error = float(told.y[i] - mean[0])
            if trigger(error, float(deviation[0]), float(told.variance[i]), count):
                # The reward that was the event is the first that is kept.
                return replace(
                    state,
                    since=(len(state.rewards) + i, len(state.answers)),
                    info=replace(state.info, resets=state.info.resets + 1),
                )
        return state

    def learned(self, state: State, before: int) -> State:
        """The state once it has learned, if that falls due after `before` rewards.

        Where the kernel sees time, its numbers say how fast the reward changes; otherwise the pace of
        the aging map does.
        """
        every = self._recipe.learn
        if every is None or not every.due(before, len(state.rewards)):
            return state
        started = time.perf_counter()
        with self.calmly():
            state = self._refitted(state, every) if self._space_time else self._paced(state)
        seconds = {**state.info.seconds, "learning": time.perf_counter() - started}
        return replace(state, info=replace(state.info, seconds=seconds))

    def _paced(self, state: State) -> State:
        """With the pace of the aging map that predicts the latest rewards best."""
        scaled, recipe = state.scaling, self._recipe
        if recipe.mean == "online":
            # There may have been no decision yet, which is what a scale is learned for otherwise.
            told = np.ones(len(state.rewards), dtype=bool)
            noise = recipe.noise_variance
            scaled = standardisation.learn(scaled, state.kernel, state.rewards, told, noise)
        pace = learned_pace(state.aging, state.kernel, state.rewards, scaled.anchor, scaled.scale)
        if pace is None or not isinstance(state.aging, Paced):
            return state
        aged = state.aging.at_pace(pace)
        known = aged.pace if isinstance(aged, Paced) else pace
        info = replace(state.info, fits=state.info.fits + 1, pace=known)
        return replace(state, aging=aged, info=info)

    def _refitted(self, state: State, every: Every) -> State:
        """With a kernel that was fitted to what has been seen, in a unit that suits it."""
        recipe = self._recipe
        seen, _, used = self._aged(state, state.time or 0.0)
        kept = seen if used.all() else seen.take(used)
        scaled = state.scaling
        if recipe.mean == "online":
            scaled = standardisation.standard(kept, recipe.noise_variance)
        known = state.learned or Learned.nothing(recipe.kernel, every)
        sample = kept.take(every.select(kept.t))
        learned = refit(
            every,
            recipe.kernel,
            known,
            sample,
            scaled.anchor,
            scaled.scale,
            state.scaling.scale / scaled.scale,
        )
        info = replace(
            state.info,
            fits=learned.fits,
            learned=components_of(learned.kernel, scaled.scale),
        )
        return replace(
            state,
            kernel=learned.kernel,
            learned=learned,
            scaling=scaled,
            posterior=None,
            info=info,
        )

    def members(self, state: State, visited: Array) -> Members:
        """The points that a query plan may choose from, grown by those of `visited` that are new."""
        size = self._recipe.pool_size
        return state.pool.grown(visited, state.kernel, lambda X: self._inputs(state, X, 0.0), size)

    def pool(self, state: State, rng: np.random.Generator) -> Asking:
        """What a query plan is shown."""
        points = self._askable(state, rng)
        now = 0.0 if state.time is None else state.time
        asking = Asking(state)

        def beliefs() -> Beliefs:
            asking.state = self.conditioned(state, now + 1.0, rng)
            return self._beliefs(asking.state, points, now)

        asking.pool = Pool(
            points,
            len(state.rewards),
            lambda: state.kernel(self._inputs(state, points, now)),
            beliefs,
            state.info.total_asked,
        )
        return asking

    def kept(self, state: State, fresh: Observations) -> tuple[Observations, tuple[int, int]]:
        """The answers to keep when `fresh` ones come, and what an event has made forgotten of them."""
        rewards, forgotten = state.since
        if not self._recipe.reuse_answers:
            return fresh, (rewards, 0)
        answers = state.answers.append(fresh)
        surplus = len(answers) - (self._recipe.most_answers or len(answers))
        if surplus <= 0:
            return answers, state.since
        return answers.take(slice(surplus, None)), (rewards, max(forgotten - surplus, 0))

    def _askable(self, state: State, rng: np.random.Generator) -> Array:
        """The points that may be asked about."""
        domain = self._recipe.domain
        if self._recipe.ask_about == "played":
            return state.visited[state.pool.rows]
        if isinstance(domain, Candidates):
            return domain.X
        return np.concatenate([state.visited[state.pool.rows], domain.sample(DRAWN, rng)])

    def _beliefs(self, state: State, points: Array, now: float) -> Beliefs:
        """Of a state that is conditioned for the decision after `now`, in the unit of reward."""
        view, posterior = self.view(state, now + 1.0), state.posterior
        assert posterior is not None  # it is conditioned
        mean, deviation = view.predict(points)
        asked_now, later = self._inputs(state, points, now), view.inputs(points)
        unit = view.scale**2

        def reach(rows: Sequence[int]) -> Array:
            return unit * posterior.cross_covariance(asked_now[list(rows)], later)

        def among(rows: Sequence[int], others: Sequence[int]) -> Array:
            some, more = asked_now[list(rows)], asked_now[list(others)]
            return unit * posterior.cross_covariance(some, more)

        noise = self._recipe.noise_variance
        return Beliefs(mean, deviation, self.beta(state), noise, reach, among)

    def _aged(self, state: State, now: float) -> tuple[Observations, Array, Array]:
        """All observations, their effective variances, and which are in use, at the time `now`."""
        seen = state.rewards.append(state.answers)
        latest = now if state.time is None else max(state.time, now - self._recipe.lead)
        effective = state.aging(seen.variance, Ages.of(seen, latest))
        if state.since != (0, 0):
            rewards, answers = state.since
            effective = effective.copy()
            effective[:rewards] = np.inf
            effective[len(state.rewards) : len(state.rewards) + answers] = np.inf
        return seen, effective, np.isfinite(effective)

    def _inputs(self, state: State, X: Array, t: Array | float) -> Array:
        """Kernel inputs of points (n, d) at one time, or at their times (n,)."""
        if not self._space_time:
            return X
        return inputs(state.kernel, X, np.full(len(X), t))

    def _surface(self, state: State) -> Surface | None:
        domain = self._recipe.domain
        if not isinstance(domain, Candidates):
            return None
        if self._on_candidates is None or self._on_candidates.kernel is not state.kernel:
            self._on_candidates = Surface(state.kernel, domain.X)
        return self._on_candidates

    @cached_property
    def _space_time(self) -> bool:
        # Learning changes the numbers of a kernel, never its form.
        return is_space_time(self._recipe.kernel)


def origin(state: State) -> float:
    """A constant near the rewards: values are kept relative to it against cancellation."""
    return float(state.rewards.y[0]) if len(state.rewards) else 0.0
