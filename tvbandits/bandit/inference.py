"""From what a bandit has learned to what it believes: a posterior at a time, and the width around it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.acquisition.confidence import BBKBWidth, Situation
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import ModelState, PosteriorInfo, State
from tvbandits.core.arrays import Array, is_finite_number
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
from tvbandits.gp.predictions import View
from tvbandits.gp.threads import one_blas_thread
from tvbandits.queries.pool import Members

FEWEST = 2
"""From fewer observations nothing is learned: everything may just have been forgotten."""

LARGE = 2000
"""With more observations, several BLAS threads help."""

FAINT = 1e6
"""A point that is out says nothing worth counting if its noise exceeds the prior variance so far."""


@dataclass(frozen=True)
class _Conditioned:
    """A state that was conditioned, and what it was made from: by identity, and what was drawn."""

    told: tuple[Any, ...]
    since: tuple[int, int]
    time: float | None
    now: float
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    made: State


class Model:
    """The beliefs of a recipe; all it keeps is what can be computed again.

    Parameters
    ----------
    recipe : Recipe
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._sign = -1.0 if recipe.minimise else 1.0
        self._on_candidates: Surface | None = None
        self._latest: _Conditioned | None = None

    def one_thread(self, state: State) -> AbstractContextManager[None]:
        """One BLAS thread, unless there is much to compute."""
        return one_blas_thread(len(state.rewards) + len(state.answers) <= LARGE)

    def conditioned(self, state: State, now: float, rng: np.random.Generator) -> State:
        """The state with its posterior speaking about the time `now`.

        The last one is remembered, with what it drew: to predict, recommend and then ask about one time
        conditions once.
        """
        told = (state.rewards, state.answers, state.model, state.posterior)
        known, before = self._latest, rng.bit_generator.state
        if not (
            known is not None
            and all(one is other for one, other in zip(known.told, told, strict=True))
            and (known.since, known.time, known.now) == (state.since, state.time, now)
            and known.before == before
        ):
            made = self._conditioned(state, now, rng)
            after = rng.bit_generator.state
            known = _Conditioned(told, state.since, state.time, now, before, after, made)
            self._latest = known
        rng.bit_generator.state = known.after
        info = replace(
            state.info,
            posterior=known.made.info.posterior,
            model=known.made.info.model,
            seconds={**state.info.seconds, **known.made.info.seconds},
        )
        made = known.made
        return replace(state, model=made.model, posterior=made.posterior, info=info)

    def _conditioned(self, state: State, now: float, rng: np.random.Generator) -> State:
        started = time.perf_counter()
        recipe = self._recipe
        seen, effective, used = self._aged(state, now)
        scaled, learned = state.model.scaling, state.model.learned
        # Where the kernel is learned, the scale is its unit: both change together, in `learned`.
        if recipe.mean == "online" and (learned is None or learned.fits == 0):
            noise = recipe.noise_variance
            scaled = standardisation.learn(scaled, state.model.kernel, seen, used, noise)
        kept = seen if used.all() else seen.take(used)
        origin = self._origin(state)
        values = np.ones((len(kept), 2))
        values[:, 0] = kept.y - origin
        posterior = recipe.posterior.condition(
            state.model.kernel,
            Data(self.inputs(state, kept.X, kept.t), values, effective[used] / scaled.scale**2),
            surface=self._surface(state),
            now=now,
            previous=state.posterior,
            rng=rng,
        )
        about = PosteriorInfo(
            in_use=len(kept),
            forgotten=len(seen) - len(kept),
            effective_sample_size=float((kept.variance / effective[used]).sum()),
            information_gain=posterior.log_det_ratio / 2,
            jitter=posterior.jitter,
            condition=posterior.condition_number,
            dictionary_size=posterior.dictionary_size,
        )
        centre = self._sign * scaled.centre(posterior.products, origin)
        info = replace(
            state.info,
            posterior=about,
            model=replace(state.info.model, centre=centre, scale=scaled.scale),
            seconds={"posterior": time.perf_counter() - started},
        )
        model = (
            state.model if scaled is state.model.scaling else replace(state.model, scaling=scaled)
        )
        return replace(state, model=model, posterior=posterior, info=info)

    def view(self, state: State, now: float) -> View:
        """What a conditioned state says about the time `now`."""
        assert state.posterior is not None  # every caller conditions first
        origin, scaled = self._origin(state), state.model.scaling
        return View(
            posterior=state.posterior,
            surface=self._surface(state),
            inputs=lambda X: self.inputs(state, X, now),
            centre=scaled.centre(state.posterior.products, origin),
            scale=scaled.scale,
            origin=origin,
        )

    def beta(self, state: State) -> float:
        """The width of a conditioned state."""
        domain, posterior = self._recipe.domain, state.posterior
        size = len(domain) if isinstance(domain, Candidates) else None
        gain = 0.0 if posterior is None else posterior.log_det_ratio
        dimension = (lambda: 0.0) if posterior is None else posterior.effective_dimension
        situation = Situation(gain, len(state.rewards), size, state.spent, dimension)
        beta = self._recipe.confidence(situation)
        if not (is_finite_number(beta) and beta >= 0):
            raise ValueError(
                f"a width must be finite and not negative, got {beta!r} of {self._recipe.confidence!r}"
            )
        return beta

    def pending_noise(self, state: State, now: float) -> Array:
        """With what noise the rewards that are out will speak about the time `now`, in prior units.

        A reward of the time s says y = f_s + e. Where f_s and f_now have the correlation r, that is
        worth an observation of f_now with the noise variance (k (1 - r^2) + v) / r^2.
        """
        out, model = state.pending, state.model
        told = len(state.rewards)
        ages = Ages(np.maximum(now - out.t, 0.0), np.zeros(len(out), dtype=np.int64), told)
        made_with = np.full(len(out), self._recipe.noise_variance)
        noise = np.asarray(model.aging(made_with, ages)) / model.scaling.scale**2
        here, then = (self.inputs(state, out.X, t) for t in (np.full(len(out), now), out.t))
        prior = np.asarray(model.kernel.diag(here))
        if self._space_time:
            across = np.array(
                [model.kernel(a[None], b[None])[0, 0] for a, b in zip(here, then, strict=True)]
            )
            r2 = np.minimum((across / prior) ** 2, 1.0)
            with np.errstate(divide="ignore"):
                noise = (prior * (1.0 - r2) + noise) / r2
        return np.asarray(np.where(noise <= FAINT * prior, noise, np.inf))

    def information(self, state: State, told: Observations) -> float:
        """Sum of log(1 + 3 variance / noise variance) of what is told, before it was told."""
        if not isinstance(self._recipe.confidence, BBKBWidth) or len(told) == 0:
            return 0.0
        Z = self.inputs(state, told.X, told.t)
        prior = state.model.kernel.diag(Z)
        variance = prior if state.posterior is None else state.posterior.predict(Z)[1]
        noise = told.variance / state.model.scaling.scale**2
        return float(np.log1p(3 * variance / noise).sum())

    def reset_at_events(self, state: State, told: Observations, rng: np.random.Generator) -> State:
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
            error = self._sign * float(told.y[i]) - float(mean[0])
            if trigger(error, float(deviation[0]), float(told.variance[i]), count):
                about = replace(state.info.model, resets=state.info.model.resets + 1)
                # The reward that was the event is the first that is kept.
                return replace(
                    state,
                    since=(len(state.rewards) + i, len(state.answers)),
                    info=replace(state.info, model=about),
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
        state = self._refitted(state, every) if self._space_time else self._paced(state)
        seconds = {**state.info.seconds, "learning": time.perf_counter() - started}
        return replace(state, info=replace(state.info, seconds=seconds))

    def _paced(self, state: State) -> State:
        """With the pace of the aging map that predicts the latest rewards best."""
        model, recipe = state.model, self._recipe
        scaled, rewards = model.scaling, self._signed(state.rewards)
        if recipe.mean == "online":
            # There may have been no decision yet, which is what a scale is learned for otherwise.
            told = np.ones(len(rewards), dtype=bool)
            noise = recipe.noise_variance
            scaled = standardisation.learn(scaled, model.kernel, rewards, told, noise)
        pace = learned_pace(model.aging, model.kernel, rewards, scaled.anchor, scaled.scale)
        if pace is None or not isinstance(model.aging, Paced):
            return state
        aged = model.aging.at_pace(pace)
        known = aged.pace if isinstance(aged, Paced) else pace
        about = replace(state.info.model, fits=state.info.model.fits + 1, pace=known)
        return replace(
            state, model=replace(model, aging=aged), info=replace(state.info, model=about)
        )

    def _refitted(self, state: State, every: Every) -> State:
        """With a kernel that was fitted to what has been seen, in a unit that suits it."""
        recipe, model = self._recipe, state.model
        seen, _, used = self._aged(state, state.time or 0.0)
        kept = seen if used.all() else seen.take(used)
        if len(kept) < FEWEST:
            return state
        scaled = model.scaling
        if recipe.mean == "online":
            scaled = standardisation.standard(kept, recipe.noise_variance)
        learned = refit(
            every,
            recipe.kernel,
            model.learned or Learned.nothing(recipe.kernel, every),
            kept.take(every.select(kept.t)),
            scaled.anchor,
            scaled.scale,
            model.scaling.scale / scaled.scale,
        )
        terms = components_of(learned.kernel, scaled.scale)
        about = replace(state.info.model, fits=learned.fits, terms=terms)
        return replace(
            state,
            model=ModelState(scaled, learned.kernel, model.aging, learned),
            posterior=None,
            info=replace(state.info, model=about),
        )

    def members(self, state: State, visited: Array) -> Members:
        """The points that a query plan may choose from, grown by those of `visited` that are new."""
        asking = self._recipe.asking
        return state.questions.pool.grown(
            visited,
            state.model.kernel,
            lambda X: self.inputs(state, X, 0.0),
            None if asking is None else asking.pool_size,
        )

    def _aged(self, state: State, now: float) -> tuple[Observations, Array, Array]:
        """All observations, larger being better, their effective variances, and which are in use."""
        seen = self._signed(state.rewards.append(state.answers))
        latest = now if state.time is None else max(state.time, now - self._recipe.lead)
        effective = np.asarray(state.model.aging(seen.variance, Ages.of(seen, latest)))
        if effective.shape != seen.variance.shape or not (effective > 0).all():
            raise ValueError(
                f"an aging map must return {len(seen)} positive variances, infinite where forgotten; "
                f"{state.model.aging!r} returned {effective!r}"
            )
        if state.since != (0, 0):
            rewards, answers = state.since
            effective = effective.copy()
            effective[:rewards] = np.inf
            effective[len(state.rewards) : len(state.rewards) + answers] = np.inf
        return seen, effective, np.isfinite(effective)

    def _signed(self, seen: Observations) -> Observations:
        """Observations of what is maximised."""
        return seen if self._sign > 0 else replace(seen, y=-seen.y)

    def _origin(self, state: State) -> float:
        """A constant near the rewards: values are kept relative to it against cancellation."""
        return self._sign * float(state.rewards.y[0]) if len(state.rewards) else 0.0

    def inputs(self, state: State, X: Array, t: Array | float) -> Array:
        """Kernel inputs of points (n, d) at one time, or at their times (n,)."""
        if not self._space_time:
            return X
        return inputs(state.model.kernel, X, np.full(len(X), t))

    def _surface(self, state: State) -> Surface | None:
        domain, kernel = self._recipe.domain, state.model.kernel
        if not isinstance(domain, Candidates):
            return None
        if self._on_candidates is None or self._on_candidates.kernel is not kernel:
            self._on_candidates = Surface(kernel, domain.X)
        return self._on_candidates

    @cached_property
    def _space_time(self) -> bool:
        # Learning changes the numbers of a kernel, never its form.
        return is_space_time(self._recipe.kernel)
