"""From what a bandit has learned to what it believes: a posterior at a time, and the width around it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvbandits.acquisition.batches import One
from tvbandits.acquisition.rules import Decision, UncertaintySampling
from tvbandits.acquisition.widths import BBKBWidth, Situation
from tvbandits.bandit.info import Info, PosteriorInfo
from tvbandits.bandit.recipe import Recipe, estimate_noise, first_kernel
from tvbandits.bandit.state import ModelState, State, generator_of
from tvbandits.data import Dataset, Plays, at_times
from tvbandits.domains.availability import Available
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.forgetting.aging import (
    Ages,
    Aging,
    Constant,
    RatedAging,
    has_rate,
    is_monotone,
    set_noise,
)
from tvbandits.gp import noise, standardisation
from tvbandits.gp.kernels.space_time import is_space_time
from tvbandits.gp.learned_rate import learn_rate
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.online import Every, Learned, refit, scale_times
from tvbandits.gp.posterior import (
    NOISE_LIMITS,
    CandidateGrid,
    Conditioning,
    Data,
    Posterior,
    PosteriorSummary,
    discard_before,
    subtract_level_means,
)
from tvbandits.gp.predictions import ScaledPosterior
from tvbandits.gp.top_candidates import TopCandidates
from tvbandits.queries.plans import PlayedPool
from tvbandits.validation import Array, Index, describe, flag, is_finite_number


@dataclass(frozen=True)
class InferenceConfig:
    """The numbers that the cost of inference depends on.

    Attributes
    ----------
    fewest_readings : int
        From fewer observations no kernel is fitted: everything may just have been forgotten.
    aged_rewards : int
        Of so many rewards all are aged at a decision; of more, those that are not known to be forgotten.
    expensive_rows : int
        A factor of twice as many rows as these takes a core some two seconds.
    memory : int
        So many of the latest conditioned states are kept, so that a `predict` of another time between
        two steps does not cost the next `ask` its posterior.
    replay_from, replay_after, replay_rows : int
        To take up another noise variance an ensemble observes all readings again. From `replay_from`
        rewards on that takes long: it does so beside the play, `replay_rows` at each decision, and takes
        it up with `replay_after` rewards more.
    """

    fewest_readings: int = 2
    aged_rewards: int = 2000
    expensive_rows: int = 1500
    memory: int = 3
    replay_from: int = 32
    replay_after: int = 16
    replay_rows: int = 24


CONFIG = InferenceConfig()


class ExpensiveWarning(UserWarning):
    """A bandit goes on, but its steps will take long; the message says what helps."""


@dataclass(frozen=True)
class _Conditioned:
    """A state that was conditioned to speak about a time, and what it says.

    Attributes
    ----------
    start, result : State
        Before and after.
    now : float
    before, after : mapping
        States of the random generator.
    view : ScaledPosterior
    """

    start: State
    now: float
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    result: State
    view: ScaledPosterior

    def is_of(self, state: State, random: Mapping[str, Any]) -> bool:
        """Tell whether it is what `state` comes to: of the same parts, drawn from the same numbers."""
        start = self.start
        return (
            start.answers is state.answers
            and start.model.has_prior_of(state.model)
            and start.posterior is state.posterior
            and start.model.calibration is state.model.calibration
            and start.model.reset_index == state.model.reset_index
            and start.time == state.time
            and self.before == random
        )

    def apply_to(self, state: State) -> State:
        """Return what such a state comes to, with what else it knows."""
        result, about = self.result, self.result.info
        info = replace(state.info, posterior=about.posterior, model=about.model)
        model = state.model
        if not model.has_prior_of(result.model):
            model = model.with_prior_of(result.model)
        return replace(state, model=model, posterior=result.posterior, info=info)


class Inference:
    """Conditioning of a recipe's model on a state; all that it remembers can be computed again."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._sign = -1.0 if recipe.minimize else 1.0
        self._space_time = is_space_time(recipe.kernel)  # learning changes numbers, never the form
        self._finite = isinstance(recipe.domain, Candidates)
        self._self_learning = recipe.posterior.self_learning
        self._has_control = recipe.options.control is not None
        self._online = recipe.mean == "online" and not self._self_learning
        self._latest: tuple[_Conditioned, ...] = ()
        self._grid_memo: CandidateGrid | None = None
        self._top_memo: tuple[Any, TopCandidates] | None = None
        self._uncertainty = UncertaintySampling()
        self._subset_memo: tuple[Learned, Dataset, Dataset, NDArray[np.bool_]] | None = None
        self._expired_memo: tuple[Dataset, int, float, float] | None = None
        self._aging_memo: tuple[Aging, float, Aging] | None = None
        self._replay_memo: tuple[ModelState | None, Posterior | None] = None, None
        self._generator_memo: tuple[Mapping[str, Any], np.random.Generator] | None = None
        self._warned = False

    @property
    def counts_bbkb_information(self) -> bool:
        """Whether the width depends on the sum of [BB] Theorem 2 over all rewards."""
        return isinstance(self.recipe.beta, BBKBWidth)

    def generator(self, random: Mapping[str, Any]) -> np.random.Generator:
        """Return the generator that continues from `random`: that of the latest state, or a new one.

        It is taken, not lent: a call that fails does not bring it back by `random_state`, so that the
        next one starts again from the state.
        """
        memo, self._generator_memo = self._generator_memo, None
        return memo[1] if memo is not None and memo[0] is random else generator_of(random)

    def random_state(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """Return the state of `rng`, which is remembered for the next call."""
        self._generator_memo = (rng.bit_generator.state, rng)
        return self._generator_memo[0]

    def noise_variance(self, state: State) -> float:
        """Return that of a reward without one of its own: the recipe's, or what was learned."""
        estimate = state.model.noise
        if estimate is not None:
            return estimate.variance
        assert self.recipe.noise_variance is not None  # else it is learned
        return self.recipe.noise_variance

    def with_noise(self, state: State, data: Dataset) -> Dataset:
        """Return data with the noise variance that was learned, where they have none."""
        estimate = state.model.noise
        return data if estimate is None else data.with_noise(estimate.variance)

    def _to_maximize(self, state: State, data: Dataset) -> Dataset:
        """Return the same, of what is maximized."""
        data = self.with_noise(state, data)
        return data if self._sign > 0 else data.with_values(-data.y)

    def _aging(self, state: State) -> Aging:
        aging, noise, memo = state.model.aging, self.noise_variance(state), self._aging_memo
        if memo is None or memo[0] is not aging or memo[1] != noise:
            memo = self._aging_memo = aging, noise, set_noise(aging, noise)
        return memo[2]

    def condition(
        self, state: State, now: float, rng: np.random.Generator
    ) -> tuple[State, ScaledPosterior]:
        """Return the state with its posterior speaking about the time `now`, and what that says.

        The last ones are remembered, with what they drew: to predict, recommend and then ask about one
        time conditions once.
        """
        before = rng.bit_generator.state
        for each in self._latest:
            same = each.now == now and each.start.rewards is state.rewards
            if same and each.is_of(state, before):
                rng.bit_generator.state = each.after
                return each.apply_to(state), each.view
        start, expired = state, state.expired
        state = self._at_first_step(state, now)
        count = expired.rewards + len(state.rewards.t) + expired.answers + len(state.answers.t)
        # Where the kernel is learned, the scale changes with that.
        model = state.model
        learns = self._online and (model.fit is None or model.fit.fits == 0)
        learns = learns and standardisation.is_scaling_due(model.scaling, count)
        grid = self._grid(state)
        posterior = None if learns else self._update(state, now, grid)
        if posterior is None:
            state, used, effective = self._in_use(state, now, learns)
            rule, in_use = self.recipe.posterior_with_control, len(used.y)
            kernel = self.recipe.kernel_with_control if self._has_control else state.model.kernel
            data, noise = self._data(state, used, effective), self.noise_variance(state)
            previous = state.posterior or self._replay(state, data)
            posterior = rule.condition(Conditioning(kernel, data, grid, now, previous, rng, noise))
            summary = posterior.summary
        else:
            summary = posterior.summary
            in_use = len(summary.data)
        # Merged, they may be fewer.
        if in_use > CONFIG.expensive_rows < summary.size and summary.dense:
            self._warn_of_cost(summary.size)
        view = self._view(state, now, posterior, grid)
        info = self._info(state, view, summary, in_use, count)
        result = replace(state, posterior=posterior, info=info)
        memo = _Conditioned(start, now, before, rng.bit_generator.state, result, view)
        self._latest = (memo, *self._latest[: CONFIG.memory - 1])
        upcoming = result.model.next_model
        if upcoming is not None:
            model = result.model.with_prior_of(upcoming)
            self._go_on_replaying(replace(result, model=model), upcoming, summary.kernel, now, rng)
        return result, view

    def _info(
        self,
        state: State,
        view: ScaledPosterior,
        summary: PosteriorSummary,
        in_use: int,
        count: int,
    ) -> Info:
        """Return what people are told of a posterior, which has `in_use` of `count` observations."""
        calibration, info = state.model.calibration, state.info
        about: dict[str, Any] = {
            "mean": view.prior_mean,
            "scale": view.scale,
            "deviation_factor": view.deviation_factor,
            "coverage": calibration.coverage if calibration.count else math.nan,
            **view.prior.parameters,
        }
        about["mean"] *= self._sign
        health = summary.jitter, None if summary.exact else summary.dictionary_size
        return replace(
            info,
            posterior=PosteriorInfo(in_use, count - in_use, *health),
            model=replace(info.model, **about),
        )

    def _at_first_step(self, state: State, now: float) -> State:
        """Return the state with a kernel in steps as long as the time since the only time told."""
        every, t = self.recipe.learn, state.rewards.t
        counts = every is not None and every.in_steps and state.model.fit is None
        if not (counts and len(t) and now > t[0] and (t == t[0]).all()):
            return state
        kernel = scale_times(self.recipe.kernel, now - float(t[0]))
        same = kernel == state.model.kernel
        return state if same else replace(state.with_model(kernel=kernel), posterior=None)

    def _go_on_replaying(
        self, state: State, model: ModelState, kernel: Any, now: float, rng: np.random.Generator
    ) -> None:
        """Observe some more of the readings with the noise variance of the next model."""
        _, used, effective = self._in_use(state, now, learns=False)
        data = self._data(state, used, effective).sort_by_time()
        before, t = self._replay(state, data), data.Z[:, -1]
        rows = 0 if before is None else before.summary.size
        until = t[min(rows + CONFIG.replay_rows, len(t)) - 1]
        some, grid = data.rows(0, int(np.searchsorted(t, until, "right"))), self._grid(state)
        noise = self.noise_variance(state)
        conditioning = Conditioning(kernel, some, grid, until, before, rng, noise)
        self._replay_memo = model, self.recipe.posterior_with_control.condition(conditioning)

    def _replay(self, state: State, data: Data) -> Posterior | None:
        """Return what has observed the first of a state's readings; late ones have it begin again."""
        model, posterior = self._replay_memo
        if model is None or posterior is None or not model.has_prior_of(state.model):
            return None
        return posterior if data.sort_by_time().starts_with(posterior.summary.data) else None

    def _warn_of_cost(self, rows: int) -> None:
        """Warn, once, what exact steps are going to cost, and what to take instead."""
        if self._warned:
            return
        self._warned = True  # a warning may be an error: it comes once then, too
        drifts = "StateSpace() where rewards drift, " if self._space_time else ""
        warnings.warn(
            f"the exact posterior has {rows} rows to factor, and its time grows with their cube. "
            f"Take posterior={drifts}Nystrom(), or a policy that forgets, such as sw_gp_ucb.",
            ExpensiveWarning,
            stacklevel=2,
        )

    def _in_use(self, state: State, now: float, learns: bool) -> tuple[State, Dataset, Array]:
        """Return what a state is conditioned on, and how noisy; it may learn another scale."""
        model = state.model
        many = len(state.rewards.t) > CONFIG.aged_rewards
        whole = learns or model.fit is not None or self._has_control or not many
        data, effective, used = self._age(state, now, whole=whole)
        if learns:
            some, those = data, used
            if self._has_control:  # of differences within a time
                some = data.take(used).time_contrasts()
                those = np.ones(len(some), dtype=bool)
            least, left = self.noise_variance(state), state.expired.rewards + state.expired.answers
            scaling = standardisation.learn_scaling(
                model.scaling, model.kernel, some, those, least, left
            )
            if scaling is not model.scaling:
                state = state.with_model(scaling=scaling)
        used = np.logical_and(used, self._in_subset(state, data))
        return state, data if used.all() else data.take(used), effective[used]

    def _update(self, state: State, now: float, grid: CandidateGrid | None) -> Posterior | None:
        """Return a posterior of the first observations, updated with the rest of them.

        It comes to the same bits as conditioning on all: a step costs what is new.
        """
        if (self._has_control and not self._self_learning) or not _ages_nothing(state):
            return None
        own = state.posterior
        for each in self._latest:
            start, posterior = each.start, each.result.posterior
            if (
                posterior is None
                or (posterior is not own and posterior.summary.dense)
                # An ensemble shows in which order it was told late readings: it goes on from that of the
                # state, or from what that came to. Any other filter comes to the same bits.
                or (self._self_learning and not (posterior is own or start.posterior is own))
                or not each.result.model.has_prior_of(state.model)
                or start.model.reset_index != (0, 0)
                # Some observations said too little.
                or len(posterior.summary.data) < each.result.info.posterior.in_use
                or not state.rewards.begins_with(start.rewards)
                or not (start.answers is state.answers or state.answers.begins_with(start.answers))
            ):
                continue
            fresh = state.rewards.take(slice(len(start.rewards.t), None))
            # Of one time, rewards come before answers: a reward may not follow them.
            both = len(fresh.t) and len(start.answers.t)
            if both and fresh.t.min() <= start.answers.t.max():
                continue
            if len(state.answers.t) > len(start.answers.t):
                more = state.answers.take(slice(len(start.answers.t), None))
                fresh = fresh.concatenate(more) if len(fresh.t) else more
            if posterior is not own:
                latest = -math.inf if start.time is None else start.time
                if fresh.t.min(initial=math.inf) <= start.answers.t.max(initial=latest):
                    continue
            fresh = self._to_maximize(state, fresh)
            updated = posterior.update(self._data(state, fresh, fresh.variance), now, grid)
            if updated is not None:
                return updated
        return None

    def _data(self, state: State, data: Dataset, effective: Array) -> Data:
        """Return what a posterior is conditioned on: observations, with effective variances (n,)."""
        if self._self_learning:
            counts = self.recipe.posterior_with_control.counts_trials
            trials = np.where(np.isfinite(data.trials), data.trials, 0.0)
            columns = (data.y, self._sign * trials) if counts else (data.y,)
            return Data(at_times(data.X, data.t), np.column_stack(columns), effective)
        noise = state.model.scaling.in_prior_units(effective)
        if self._has_control:
            y = subtract_level_means(data.t, data.y[:, None], noise)
            _, levels = np.unique(data.t, return_inverse=True)
            return Data(self.inputs(data.X, data.t), y, noise, levels)
        values = np.ones((len(data.y), 2))
        values[:, 0] = data.y - self._origin(state)
        return Data(self.inputs(data.X, data.t), values, noise)

    def _view(
        self, state: State, now: float, posterior: Posterior, grid: CandidateGrid | None
    ) -> ScaledPosterior:
        scaling, calibration = state.model.scaling, state.model.calibration
        origin = self._origin(state)
        prior_mean = 0.0 if self._has_control else scaling.anchor
        if scaling.estimated_at and not self._has_control:
            prior_mean = scaling.mean(posterior.summary.products, origin)
        return ScaledPosterior(
            posterior=posterior,
            prior=self.recipe.posterior_with_control.prior(posterior),
            grid=grid,
            inputs_at=self.inputs,
            prior_mean=prior_mean,
            scale=scaling.scale,
            origin=origin,
            now=now,
            deviation_factor=calibration.deviation_factor if calibration.count else 1.0,
            prior_is_learned=self._self_learning or state.model.fit is not None,
            dimension=state.rewards.X.shape[1] if self.recipe.options.control is None else None,
        )

    def predict(self, state: State, X: Array, t: float) -> tuple[State, Array, Array]:
        """Return the state conditioned for a time, and mean and deviation (n,) at points (n, d).

        They are of what is maximized.
        """
        state, view = self.condition(state, t, generator_of(state.random))
        return state, *view.predict(X)

    def prediction_errors(
        self, state: State, data: Dataset, t: float
    ) -> tuple[State, Array, Array, Callable[[Index], Array]]:
        """Return the state conditioned for a time, errors (n,) of readings there, and their variances.

        The last value returns the prior covariance (k, k) of some rows, between their own times; all
        are in the unit of reward.
        """
        state, view = self.condition(state, t, generator_of(state.random))
        mean, deviation = view.predict(data.X)
        Z = at_times(data.X, data.t) if self._self_learning else self.inputs(data.X, data.t)

        def prior(rows: Index) -> Array:
            return np.asarray(view.scale**2 * view.prior.covariance(Z[rows]))

        variance = deviation**2 + view.nugget + data.variance
        return state, self._sign * data.y - mean, variance, prior

    def beta(self, state: State, view: ScaledPosterior) -> float:
        """Return the width of a conditioned state and its view."""
        domain, summary = self.recipe.domain, view.posterior.summary
        t = state.rewards.t[-CONFIG.aged_rewards :]
        situation = Situation(
            summary.log_det_ratio,
            state.count,
            len(domain) if isinstance(domain, Candidates) else None,
            state.model.bbkb_information,
            summary.effective_dimension,
            lambda: len(t) / max(len(np.unique(t)), 1),
        )
        beta = self.recipe.beta(situation)
        if not (is_finite_number(beta) and beta >= 0):
            value = f"got {describe(beta)} of {describe(self.recipe.beta)}"
            raise ValueError(f"a width must be finite and not negative, {value}")
        return beta

    def joint_posterior(
        self, state: State, view: ScaledPosterior, points: Array, about: float
    ) -> JointPosterior:
        """Return what a conditioned state says of points (n, d) together, asked about a time."""
        stated = state.queries.variance
        noise = self.noise_variance(state) if stated is None else stated
        return view.look_ahead(points, about, self.beta(state, view), noise)

    def decision(
        self,
        state: State,
        view: ScaledPosterior,
        beta: float,
        n: int | None = None,
        domain: Domain | None = None,
        available: Available | None = None,
    ) -> Decision:
        """Return the decision of a conditioned state and its view, in a domain, by default the recipe's.

        The rest is as of `Bandit.ask`.
        """
        recipe, waiting = self.recipe, state.pending
        same_time = waiting.X[waiting.t == view.now]
        if recipe.options.control is not None:  # it is no news of any effect, and comes once
            others = ~recipe.is_control(waiting.X)
            waiting = waiting.take(others)
            same_time = np.concatenate([same_time, np.array(recipe.options.control)[None]])
        most = None if recipe.asking is None else recipe.asking.informed_width
        pending, noise = waiting.X[:0], np.empty(0)
        if recipe.acquisition.counts_pending and len(waiting.t):
            noise = self.pending_noise(state, view, waiting)
            counts = np.isfinite(noise)
            pending, noise = waiting.X[counts], noise[counts]
        # Without a unit of the reward, a batch rule has nothing to compare the noise with.
        has_unit = recipe.mean != "online" or len(state.rewards.y) + len(state.answers.y) > 0
        return Decision(
            domain=recipe.domain if domain is None else domain,
            view=view,
            beta=beta if most is None or not state.queries.answered else min(beta, most),
            noise_variance=self.noise_variance(state),
            batching=recipe.batching if has_unit else replace(recipe.batching, rule=One()),
            n=n,
            pending=pending,
            pending_noise=noise,
            same_time=same_time,
            failed=state.failed.X,
            available=available,
            top=self.top_candidates(state) if recipe.searches_top else None,
            uncertainty=self._uncertainty,
        )

    def pending_noise(self, state: State, view: ScaledPosterior, pending: Plays) -> Array:
        """Return with what noise rewards of pending points will speak about the time of the view.

        In prior units, shape (k,).
        """
        X, model, now = pending.X, state.model, view.now
        waited = np.maximum(now - pending.t, 0.0)
        ages = Ages(waited, np.zeros(len(X), dtype=np.int64), state.count)
        fresh = np.full(len(X), self.noise_variance(state))
        noise = model.scaling.in_prior_units(self._aging(state)(fresh, ages))
        here, then = (self.inputs(X, t) for t in (np.full(len(X), now), pending.t))
        return view.prior.effective_noise(here, then, ages.age, noise)

    def bbkb_information(self, state: State, new: Dataset) -> float:
        """Return the sum of log(1 + 3 variance / noise variance) of new rewards, before they count."""
        if not self.counts_bbkb_information or len(new) == 0:
            return 0.0
        Z = self.inputs(new.X, new.t)
        prior = state.model.kernel.diag(Z)
        variance = prior if state.posterior is None else state.posterior.predict(Z)[1]
        noise = state.model.scaling.in_prior_units(new.variance)
        return float(np.log1p(3 * variance / noise).sum())

    def reset_at_events(self, state: State, new: Dataset, rng: np.random.Generator) -> State:
        """Return the state before new rewards, with everything forgotten if one of them is an event.

        A reward that comes late is no news about the present, and triggers nothing.
        """
        trigger = self.recipe.reset
        if trigger is None or len(state.rewards) == state.model.reset_index[0]:
            return state
        for i, t in enumerate(new.t):
            if state.time is not None and t < state.time:
                continue
            state, view = self.condition(state, float(t), rng)
            mean, deviation = view.predict(new.X[i : i + 1])
            count = len(state.rewards) - state.model.reset_index[0] + i + 1
            error = self._sign * float(new.y[i]) - float(mean[0])
            noise = float(new.variance[i])
            if flag("the reset", trigger(error, float(deviation[0]), noise, count)):
                # The reward that was the event is the first that stays.
                index = len(state.rewards) + i, len(state.answers)
                resets = {"resets": state.info.model.resets + 1}
                return state.with_model(about=resets, reset_index=index)
        return state

    def learn(self, state: State, count_before: int) -> State:
        """Return the state once it has learned noise, kernel or forgetting rate, if that is due.

        It had `count_before` rewards the last time.
        """
        every, count, model = self.recipe.learn, state.count, state.model
        since_doubling = count - (1 << max(count.bit_length() - 1, 0))
        if model.noise is not None and noise.is_noise_due(count_before, count):
            readings = state.rewards.concatenate(state.answers)
            changed = state.with_noise(estimate_noise(self.recipe, readings))
            if self._self_learning and count_before >= CONFIG.replay_from:
                model = replace(model, next_model=changed.model)
                changed = replace(changed, model=model, posterior=state.posterior)
            state = changed
        elif model.next_model is not None and since_doubling >= CONFIG.replay_after:
            model = replace(model.with_prior_of(model.next_model), next_model=None)
            state = replace(state, model=model, posterior=None)
        if every is not None and every.is_due(count_before, count):
            fit = self._fit_kernel if self._space_time else self._fit_forgetting_rate
            state = fit(state, every)
        if every is None or not every.in_steps or state.model.fit is not None:
            return state
        kernel = first_kernel(self.recipe, state.rewards)
        same = kernel == state.model.kernel
        return state if same else replace(state.with_model(kernel=kernel), posterior=None)

    def _fit_forgetting_rate(self, state: State, _: Every) -> State:
        """Return the state with the rate of the aging map that predicts the latest rewards best."""
        model, recipe = state.model, self.recipe
        scaling, rewards = model.scaling, self._to_maximize(state, state.rewards)
        before = state.expired.rewards
        if recipe.mean == "online":
            # There may have been no decision yet, which is what a scale is learned for otherwise.
            every = np.ones(len(rewards), dtype=bool)
            least = self.noise_variance(state)
            scaling = standardisation.learn_scaling(
                scaling, model.kernel, rewards, every, least, before
            )
        unit = scaling.anchor, scaling.scale
        rate = learn_rate(self._aging(state), model.kernel, rewards, *unit, before)
        if rate is None or not has_rate(model.aging):
            return state
        aging = model.aging.at_rate(rate)
        about = {
            "fits": state.info.model.fits + 1,
            "forgetting_rate": aging.forgetting_rate if isinstance(aging, RatedAging) else rate,
        }
        return state.with_model(aging=aging, about=about)

    def _fit_kernel(self, state: State, every: Every) -> State:
        """Return the state with a kernel fitted to the observations, in a unit that suits it."""
        recipe, model = self.recipe, state.model
        data, _, used = self._age(state, state.time or 0.0)
        data = data if used.all() else data.take(used)
        if len(data) < CONFIG.fewest_readings:
            return state
        scaling = model.scaling
        if recipe.mean == "online":
            scaling = standardisation.scaling_from_moments(data, self.noise_variance(state))
        before = model.fit or Learned.initial(recipe.kernel, every)
        sample = data.take(every.select(data.t))
        fit = refit(every, recipe.kernel, before, sample, scaling, model.scaling)
        fit = replace(fit, at=(len(state.rewards), len(state.answers)))
        about = {"fits": fit.fits}
        changed = state.with_model(scaling=scaling, kernel=fit.kernel, fit=fit, about=about)
        return replace(changed, posterior=None)

    def query_pool(self, state: State, visited: Array) -> PlayedPool:
        """Return the points that a query plan may choose from, with those of `visited` that are new."""
        asking = self.recipe.asking
        return state.queries.pool.grown(
            visited,
            state.model.kernel,
            lambda X: self.inputs(X, 0.0),
            None if asking is None else asking.pool_size,
        )

    def _age(
        self, state: State, now: float, *, whole: bool = True
    ) -> tuple[Dataset, Array, NDArray[np.bool_]]:
        """Return observations, larger being better, effective variances, and which are in use.

        Unless the whole is wanted, without rewards that are known to be forgotten.
        """
        latest = now if state.time is None else max(state.time, now - self.recipe.age_lag)
        start = 0 if whole else self._expired(state, latest)
        data = state.rewards.take(slice(start, None)) if start else state.rewards
        if len(state.answers.y):
            data = data.concatenate(state.answers)
        data = self._to_maximize(state, data)
        if _ages_nothing(state):
            return data, data.variance, np.ones(len(data), dtype=bool)
        ages = Ages.of(data, latest, state.expired.rewards + start)
        effective = np.asarray(self._aging(state)(data.variance, ages))
        if effective.shape != data.variance.shape or not (effective > 0).all():
            needs = f"{len(data)} positive variances, infinite where forgotten"
            raise ValueError(f"{state.model.aging!r} must return {needs}, got {effective!r}")
        if state.model.reset_index != (0, 0):
            rewards, answers = state.model.reset_index
            count = len(state.rewards)
            effective = effective.copy()
            effective[:rewards] = np.inf
            effective[count : count + answers] = np.inf
        used = np.isfinite(effective) if whole else effective <= self._most_noise(state)
        oldest = 0
        if not whole and len(used):
            oldest = min(int(used.argmax()), len(state.rewards.t) - start)
        if oldest:
            newest, least = float(data.t[:oldest].max()), float(data.variance[:oldest].min())
            if start and self._expired_memo is not None:
                newest = max(newest, self._expired_memo[2])
                least = min(least, self._expired_memo[3])
            self._expired_memo = state.rewards, start + oldest, newest, least
        return data, effective, used

    def _most_noise(self, state: State) -> float:
        """Return the variance from which an observation is too noisy to move the posterior."""
        grid, scale = self._grid(state), state.model.scaling.scale
        if grid is None or self._self_learning:
            return sys.float_info.max
        # Rounding shall leave nothing out that the posterior would not.
        return min(
            2.0 * NOISE_LIMITS.negligible * grid.largest_prior * scale**2, sys.float_info.max
        )

    def _expired(self, state: State, latest: float) -> int:
        """Return how many of the first rewards are forgotten, as far as one of them can tell.

        They are if all others are newer, and their newest one would be forgotten, had it the least
        variance of them: a step need not look at all that was ever told.
        """
        aging, memo = self._aging(state), self._expired_memo
        if memo is None or state.model.reset_index != (0, 0) or not is_monotone(aging):
            return 0
        rewards, start, newest, least = memo
        t, about = state.rewards.t, state.answers.t
        if not state.rewards.begins_with(rewards):
            return 0
        if min(t[start:].min(initial=math.inf), about.min(initial=math.inf)) < newest:
            return 0
        age = np.array([max(latest - newest, 0.0)])
        ages = Ages(age, np.array([len(t) - start]), state.count)
        least = min(least, self.noise_variance(state))
        return start if aging(np.array([least]), ages)[0] > self._most_noise(state) else 0

    def trim(self, state: State, count_before: int) -> State:
        """Return the state without its oldest rows, where the history is long enough.

        What decisions still use stays: rows that are not forgotten for good, and all that a posterior
        holds in its rows alone. With `count_before` rewards, it was looked at the last time.
        """
        most, t = self.recipe.options.max_history, state.rewards.t
        assert most is not None
        if len(t) < 2 * most or state.count // most == count_before // most:
            return state
        until, posterior = float(t[len(t) - most :].min()), state.posterior
        if not _ages_nothing(state):
            aging = self._aging(state)
            if type(aging) is not Constant and not is_monotone(aging):
                return state
            data, effective, used = self._age(state, float(t.max()))
            used = np.logical_and(used, effective <= self._most_noise(state))
            until = min(until, float(data.t[used].min(initial=math.inf)))
        elif self.recipe.learn is not None:
            posterior = None  # it is conditioned anew, on what stays
        elif posterior is not None:
            rows, posterior = len(posterior.summary.data), discard_before(posterior, until)
            leaving = int((t < until).sum() + (state.answers.t < until).sum())
            if posterior is None or rows - len(posterior.summary.data) < leaving:
                return state  # some of them it was not told yet
        else:
            return state
        if not (t < until).any():
            return state
        state = state.since_time(until, posterior)
        if not self._finite and self.recipe.asking is None:  # of such points there is no end
            X = np.concatenate([state.rewards.X, state.failed.X])
            _, first = np.unique(X, axis=0, return_index=True)
            state = replace(state, visited=X[np.sort(first)])
            state.visited.setflags(write=False)
        return state

    def _in_subset(self, state: State, data: Dataset) -> NDArray[np.bool_] | bool:
        """Return which of all observations a posterior of a fitted kernel is conditioned on."""
        every, fit = self.recipe.learn, state.model.fit
        if every is None or fit is None:
            return True
        n = len(state.rewards) + len(state.answers)
        rewards, answers = fit.at
        fitted = np.zeros(n, dtype=bool)
        fitted[:rewards] = True
        fitted[len(state.rewards) : len(state.rewards) + answers] = True
        memo = self._subset_memo
        if (
            memo is None
            or memo[0] is not fit
            or not state.rewards.begins_with(memo[1])
            or not state.answers.begins_with(memo[2])
        ):
            # What a fit saw is the same until the next one, or until a reading is set aside.
            Z = self.inputs(data.X, data.t)
            remembered = every.remember(data.t, fitted, state.model.kernel, Z)[fitted]
            memo = self._subset_memo = fit, state.rewards, state.answers, remembered
        subset = np.ones(n, dtype=bool)
        subset[fitted] = memo[3]
        return subset

    def _origin(self, state: State) -> float:
        """Return a constant near the rewards, which values are relative to against cancellation."""
        if state.expired.rewards:
            return self._sign * state.expired.first
        return self._sign * float(state.rewards.y[0]) if len(state.rewards.y) else 0.0

    def inputs(self, X: Array, t: Array | float) -> Array:
        """Return kernel inputs of points (n, d) at one time, or at their times (n,)."""
        if not self._space_time:
            return X
        return at_times(X, t)

    def _grid(self, state: State) -> CandidateGrid | None:
        domain = self.recipe.domain
        if not isinstance(domain, Candidates) or self.recipe.searches_top:
            return None
        kernel = self.recipe.kernel_with_control if self._has_control else state.model.kernel
        if self._grid_memo is None or self._grid_memo.kernel is not kernel:
            self._grid_memo = CandidateGrid(kernel, domain.X)
        return self._grid_memo

    def top_candidates(self, state: State) -> TopCandidates:
        """Return what finds the candidates of the largest bounds, where there are many."""
        domain, kernel, memo = self.recipe.domain, state.model.kernel, self._top_memo
        assert isinstance(domain, Candidates)  # nothing else has so many
        if memo is None or memo[0] is not kernel or not memo[1].intact:
            memo = self._top_memo = kernel, TopCandidates(domain.rows)
        return memo[1]


def _ages_nothing(state: State) -> bool:
    return type(state.model.aging) is Constant and state.model.reset_index == (0, 0)
