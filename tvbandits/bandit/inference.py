"""Inference: from a bandit's state to the posterior at a time, and its confidence width."""

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
from tvbandits.bandit.conditioning import ConditioningResult
from tvbandits.bandit.info import Info, PosteriorInfo
from tvbandits.bandit.recipe import Recipe, estimate_noise, make_initial_kernel
from tvbandits.bandit.state import ModelState, State, restore_generator
from tvbandits.data import Dataset, Plays, append_times
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
from tvbandits.validation import Array, Index, as_bool, describe, is_finite_number


@dataclass(frozen=True)
class InferenceConfig:
    """The numbers that determine the cost of inference.

    Attributes
    ----------
    fewest_readings : int
        The least number of observations to which a kernel is fitted; there may be fewer, as just after
        everything was forgotten.
    aged_rewards : int
        The largest number of rewards whose effective variances are all computed at a decision. Of more
        rewards, the oldest are skipped while they are known to be forgotten.
    expensive_rows : int
        With more rows, the bandit warns: factoring twice as many takes a core some two seconds.
    memory : int
        The number of conditioned states that are cached, so that a `predict` for another time between
        two steps does not discard the posterior that the next `ask` needs.
    replay_from, replay_after, replay_rows : int
        When the noise variance changes, an ensemble must observe all readings again. From `replay_from`
        rewards on that takes long: the ensemble then observes `replay_rows` readings at each decision,
        and the change takes effect after `replay_after` further rewards.
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
    """A warning that the steps of a bandit will take long; the message names faster alternatives."""


class Inference:
    """The inference for one recipe: conditions its model on states and learns the model's numbers.

    All attributes but `recipe` are caches, which can be computed again.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._sign = -1.0 if recipe.minimize else 1.0
        self._space_time = is_space_time(recipe.kernel)  # learning changes numbers, never the form
        self._finite = isinstance(recipe.domain, Candidates)
        self._self_learning = recipe.posterior.self_learning
        self._has_control = recipe.options.control is not None
        self._online = recipe.mean == "online" and not self._self_learning
        self._latest: tuple[ConditioningResult, ...] = ()
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
        """Return whether the width depends on the sum over all rewards in [BB] Theorem 2."""
        return isinstance(self.recipe.beta, BBKBWidth)

    def take_generator(self, random: Mapping[str, Any]) -> np.random.Generator:
        """Return a generator in the state `random`: the cached one if it is in that state, or a new one.

        The cache is emptied until `store_generator`. A call that fails does not reach that, so that the
        next call starts again from the stored state.
        """
        memo, self._generator_memo = self._generator_memo, None
        return memo[1] if memo is not None and memo[0] is random else restore_generator(random)

    def store_generator(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """Return the state of `rng`, and cache `rng` for the next call."""
        self._generator_memo = (rng.bit_generator.state, rng)
        return self._generator_memo[0]

    def noise_variance(self, state: State) -> float:
        """Return the noise variance of rewards that have none of their own: learned, or the recipe's."""
        estimate = state.model.noise
        if estimate is not None:
            return estimate.variance
        assert self.recipe.noise_variance is not None  # otherwise there is an estimate
        return self.recipe.noise_variance

    def with_noise(self, state: State, data: Dataset) -> Dataset:
        """Return data with the learned noise variance in place of missing ones."""
        estimate = state.model.noise
        return data if estimate is None else data.with_noise(estimate.variance)

    def _orient_to_maximize(self, state: State, data: Dataset) -> Dataset:
        """Return data with the learned noise variance, negated if smaller rewards are better."""
        data = self.with_noise(state, data)
        return data if self._sign > 0 else data.with_values(-data.y)

    def _get_aging(self, state: State) -> Aging:
        aging, noise, memo = state.model.aging, self.noise_variance(state), self._aging_memo
        if memo is None or memo[0] is not aging or memo[1] != noise:
            memo = self._aging_memo = aging, noise, set_noise(aging, noise)
        return memo[2]

    def condition(
        self, state: State, now: float, rng: np.random.Generator
    ) -> tuple[State, ScaledPosterior]:
        """Return the state with its posterior at the time `now`, and that in the unit of reward.

        The latest results are cached with their random numbers, so that a prediction, a recommendation
        and a decision for the same time condition once.
        """
        before = rng.bit_generator.state
        for cached in self._latest:
            same = cached.now == now and cached.start.rewards is state.rewards
            if same and cached.is_result_for(state, before):
                rng.bit_generator.state = cached.after
                return cached.apply_to(state), cached.view
        start, expired = state, state.expired
        state = self._set_first_time_step(state, now)
        count = expired.rewards + len(state.rewards.t) + expired.answers + len(state.answers.t)
        # If the kernel is fitted, the fits determine the scale from the first fit on.
        model = state.model
        learns = self._online and (model.fit is None or model.fit.fits == 0)
        learns = learns and standardisation.is_scaling_due(model.scaling, count)
        grid = self._get_grid(state)
        posterior = None if learns else self._update_posterior(state, now, grid)
        if posterior is None:
            state, observations, variances = self._select_observations(state, now, learns)
            rule, in_use = self.recipe.posterior_with_control, len(observations.y)
            kernel = self.recipe.kernel_with_control if self._has_control else state.model.kernel
            data = self._make_data(state, observations, variances)
            noise = self.noise_variance(state)
            previous = state.posterior or self._get_replayed_posterior(state, data)
            posterior = rule.condition(Conditioning(kernel, data, grid, now, previous, rng, noise))
            summary = posterior.summary
        else:
            summary = posterior.summary
            in_use = len(summary.data)
        # Repeated points are merged, so that the posterior may have fewer rows.
        if in_use > CONFIG.expensive_rows < summary.size and summary.dense:
            self._warn_of_cost(summary.size)
        view = self._make_view(state, now, posterior, grid)
        info = self._make_info(state, view, summary, in_use, count)
        result = replace(state, posterior=posterior, info=info)
        cached = ConditioningResult(start, now, before, rng.bit_generator.state, result, view)
        self._latest = (cached, *self._latest[: CONFIG.memory - 1])
        next_model = result.model.next_model
        if next_model is not None:
            model = result.model.with_prior_of(next_model)
            self._continue_replay(
                replace(result, model=model), next_model, summary.kernel, now, rng
            )
        return result, view

    def _make_info(
        self,
        state: State,
        view: ScaledPosterior,
        summary: PosteriorSummary,
        in_use: int,
        count: int,
    ) -> Info:
        """Return the information about a posterior, which has `in_use` of `count` observations."""
        calibration, info = state.model.calibration, state.info
        model_info: dict[str, Any] = {
            "mean": view.prior_mean,
            "scale": view.scale,
            "deviation_factor": view.deviation_factor,
            "coverage": calibration.coverage if calibration.count else math.nan,
            **view.prior.parameters,
        }
        model_info["mean"] *= self._sign
        dictionary_size = None if summary.exact else summary.dictionary_size
        return replace(
            info,
            posterior=PosteriorInfo(in_use, count - in_use, summary.jitter, dictionary_size),
            model=replace(info.model, **model_info),
        )

    def _set_first_time_step(self, state: State, now: float) -> State:
        """Return the state with a kernel whose time step is the time since all rewards.

        It applies to kernels that count time in steps, before the first fit, if all rewards have the
        same time: the data do not show the length of a step then.
        """
        rule, t = self.recipe.learn, state.rewards.t
        in_steps = rule is not None and rule.in_steps and state.model.fit is None
        if not (in_steps and len(t) and now > t[0] and (t == t[0]).all()):
            return state
        kernel = scale_times(self.recipe.kernel, now - float(t[0]))
        same = kernel == state.model.kernel
        return state if same else replace(state.with_model(kernel=kernel), posterior=None)

    def _continue_replay(
        self, state: State, model: ModelState, kernel: Any, now: float, rng: np.random.Generator
    ) -> None:
        """Observe some more of the readings with the noise variance of the next model."""
        _, observations, variances = self._select_observations(state, now, learns=False)
        data = self._make_data(state, observations, variances).sort_by_time()
        before, t = self._get_replayed_posterior(state, data), data.Z[:, -1]
        rows = 0 if before is None else before.summary.size
        until = t[min(rows + CONFIG.replay_rows, len(t)) - 1]
        first = data.rows(0, int(np.searchsorted(t, until, "right")))
        grid, noise = self._get_grid(state), self.noise_variance(state)
        conditioning = Conditioning(kernel, first, grid, until, before, rng, noise)
        self._replay_memo = model, self.recipe.posterior_with_control.condition(conditioning)

    def _get_replayed_posterior(self, state: State, data: Data) -> Posterior | None:
        """Return the replayed posterior of the first readings of a state, if `data` begin with them.

        They do not if a late reading precedes them: the replay then starts again.
        """
        model, posterior = self._replay_memo
        if model is None or posterior is None or not model.has_prior_of(state.model):
            return None
        return posterior if data.sort_by_time().starts_with(posterior.summary.data) else None

    def _warn_of_cost(self, rows: int) -> None:
        """Warn once of the cost of exact steps, and name alternatives."""
        if self._warned:
            return
        self._warned = True  # set first, as the warning may be raised as an error
        drifts = "StateSpace() where rewards drift, " if self._space_time else ""
        warnings.warn(
            f"the exact posterior has {rows} rows to factor, and its time grows with their cube. "
            f"Take posterior={drifts}Nystrom(), or a policy that forgets, such as sw_gp_ucb.",
            ExpensiveWarning,
            stacklevel=2,
        )

    def _select_observations(
        self, state: State, now: float, learns: bool
    ) -> tuple[State, Dataset, Array]:
        """Return the state, the observations in use and their effective variances (n,).

        If `learns`, the state returned has a newly learned scale.
        """
        model = state.model
        many = len(state.rewards.t) > CONFIG.aged_rewards
        whole = learns or model.fit is not None or self._has_control or not many
        data, effective, in_use = self._age(state, now, whole=whole)
        if learns:
            sample, in_sample = data, in_use
            if self._has_control:  # the scale of differences within a time
                sample = data.take(in_use).compute_time_contrasts()
                in_sample = np.ones(len(sample), dtype=bool)
            scaling = standardisation.learn_scaling(
                model.scaling,
                model.kernel,
                sample,
                in_sample,
                self.noise_variance(state),
                state.expired.rewards + state.expired.answers,
            )
            if scaling is not model.scaling:
                state = state.with_model(scaling=scaling)
        in_use = np.logical_and(in_use, self._select_subset(state, data))
        return state, data if in_use.all() else data.take(in_use), effective[in_use]

    def _update_posterior(
        self, state: State, now: float, grid: CandidateGrid | None
    ) -> Posterior | None:
        """Return a cached posterior of the first observations, updated with the others, or None.

        The result equals conditioning on all observations, bit for bit, and costs only the new ones.
        """
        if (self._has_control and not self._self_learning) or not _forgets_nothing(state):
            return None
        present = state.posterior
        for cached in self._latest:
            start, posterior = cached.start, cached.result.posterior
            if (
                posterior is None
                or (posterior is not present and posterior.summary.dense)
                # An ensemble depends on the order in which late readings arrived: only the posterior of
                # the state, or one updated from it, has the right order. Other filters do not depend
                # on the order.
                or (
                    self._self_learning and not (posterior is present or start.posterior is present)
                )
                or not cached.result.model.has_prior_of(state.model)
                or start.model.reset_index != (0, 0)
                # The posterior lacks observations that were too noisy to matter.
                or len(posterior.summary.data) < cached.result.info.posterior.in_use
                or not state.rewards.begins_with(start.rewards)
                or not (start.answers is state.answers or state.answers.begins_with(start.answers))
            ):
                continue
            new = state.rewards.take(slice(len(start.rewards.t), None))
            # Rewards precede answers of the same time, so that no reward may follow them.
            both = len(new.t) and len(start.answers.t)
            if both and new.t.min() <= start.answers.t.max():
                continue
            if len(state.answers.t) > len(start.answers.t):
                answers = state.answers.take(slice(len(start.answers.t), None))
                new = new.concatenate(answers) if len(new.t) else answers
            if posterior is not present:
                latest = -math.inf if start.time is None else start.time
                if new.t.min(initial=math.inf) <= start.answers.t.max(initial=latest):
                    continue
            new = self._orient_to_maximize(state, new)
            updated = posterior.update(self._make_data(state, new, new.variance), now, grid)
            if updated is not None:
                return updated
        return None

    def _make_data(self, state: State, data: Dataset, effective: Array) -> Data:
        """Return observations with effective variances (n,) in the form that posteriors take."""
        if self._self_learning:
            counts = self.recipe.posterior_with_control.counts_trials
            trials = np.where(np.isfinite(data.trials), data.trials, 0.0)
            columns = (data.y, self._sign * trials) if counts else (data.y,)
            return Data(append_times(data.X, data.t), np.column_stack(columns), effective)
        noise = state.model.scaling.in_prior_units(effective)
        if self._has_control:
            y = subtract_level_means(data.t, data.y[:, None], noise)
            _, levels = np.unique(data.t, return_inverse=True)
            return Data(self.make_inputs(data.X, data.t), y, noise, levels)
        values = np.ones((len(data.y), 2))
        values[:, 0] = data.y - self._get_origin(state)
        return Data(self.make_inputs(data.X, data.t), values, noise)

    def _make_view(
        self, state: State, now: float, posterior: Posterior, grid: CandidateGrid | None
    ) -> ScaledPosterior:
        scaling, calibration = state.model.scaling, state.model.calibration
        origin = self._get_origin(state)
        prior_mean = 0.0 if self._has_control else scaling.anchor
        if scaling.estimated_at and not self._has_control:
            prior_mean = scaling.mean(posterior.summary.products, origin)
        return ScaledPosterior(
            posterior=posterior,
            prior=self.recipe.posterior_with_control.prior(posterior),
            grid=grid,
            inputs_at=self.make_inputs,
            prior_mean=prior_mean,
            scale=scaling.scale,
            origin=origin,
            now=now,
            deviation_factor=calibration.deviation_factor if calibration.count else 1.0,
            prior_is_learned=self._self_learning or state.model.fit is not None,
            dimension=state.rewards.X.shape[1] if self.recipe.options.control is None else None,
        )

    def predict(self, state: State, X: Array, t: float) -> tuple[State, Array, Array]:
        """Return the state conditioned at a time, and mean and standard deviation (n,) at points (n, d).

        If smaller rewards are better, the mean is that of the negative reward.
        """
        state, view = self.condition(state, t, restore_generator(state.random))
        return state, *view.predict(X)

    def compute_prediction_errors(
        self, state: State, data: Dataset, t: float
    ) -> tuple[State, Array, Array, Callable[[Index], Array]]:
        """Return the state conditioned at a time, prediction errors (n,) of `data`, and variances (n,).

        The last value is a function that returns the prior covariance (k, k) of some rows, each at its
        own time. All are in the unit of reward.
        """
        state, view = self.condition(state, t, restore_generator(state.random))
        mean, deviation = view.predict(data.X)
        make_inputs = append_times if self._self_learning else self.make_inputs
        Z = make_inputs(data.X, data.t)

        def prior_covariance(rows: Index) -> Array:
            return np.asarray(view.scale**2 * view.prior.covariance(Z[rows]))

        variance = deviation**2 + view.nugget + data.variance
        return state, self._sign * data.y - mean, variance, prior_covariance

    def beta(self, state: State, view: ScaledPosterior) -> float:
        """Return the confidence width of a conditioned state and its posterior `view`.

        Raises
        ------
        ValueError
            If the recipe's width is not finite or negative.
        """
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
            value = f"got {describe(beta)} from {describe(self.recipe.beta)}"
            raise ValueError(f"a width must be finite and not negative, {value}")
        return beta

    def make_joint_posterior(
        self, state: State, view: ScaledPosterior, points: Array, query_time: float
    ) -> JointPosterior:
        """Return the joint posterior of points (n, d) for queries about a time."""
        noise = state.queries.variance
        noise = self.noise_variance(state) if noise is None else noise
        return view.look_ahead(points, query_time, self.beta(state, view), noise)

    def make_decision(
        self,
        state: State,
        view: ScaledPosterior,
        beta: float,
        n: int | None = None,
        domain: Domain | None = None,
        available: Available | None = None,
    ) -> Decision:
        """Return the decision of a conditioned state, in `domain`, by default the recipe's.

        `n` and `available` are as for `Bandit.ask`.
        """
        recipe, plays = self.recipe, state.pending
        same_time = plays.X[plays.t == view.now]
        if recipe.options.control is not None:
            # A pending control does not inform about differences, and a batch contains it once.
            plays = plays.take(~recipe.is_control(plays.X))
            same_time = np.concatenate([same_time, np.array(recipe.options.control)[None]])
        if recipe.query_config is not None and recipe.query_config.informed_width is not None:
            beta = min(beta, recipe.query_config.informed_width) if state.queries.answered else beta
        pending, noise = plays.X[:0], np.empty(0)
        if recipe.acquisition.counts_pending and len(plays.t):
            noise = self.compute_pending_noise(state, view, plays)
            finite = np.isfinite(noise)
            pending, noise = plays.X[finite], noise[finite]
        # Without a unit of the reward, a batch rule cannot compare the noise with the prior.
        has_unit = recipe.mean != "online" or len(state.rewards.y) + len(state.answers.y) > 0
        return Decision(
            domain=recipe.domain if domain is None else domain,
            view=view,
            beta=beta,
            noise_variance=self.noise_variance(state),
            batching=recipe.batching if has_unit else replace(recipe.batching, rule=One()),
            n=n,
            pending=pending,
            pending_noise=noise,
            same_time=same_time,
            failed=state.failed.X,
            available=available,
            top=self.get_top_candidates(state) if recipe.searches_top else None,
            uncertainty=self._uncertainty,
        )

    def compute_pending_noise(self, state: State, view: ScaledPosterior, pending: Plays) -> Array:
        """Return the effective noise variances (k,) of pending rewards at the time of the view.

        They are in units of the prior variance.
        """
        X, model, now = pending.X, state.model, view.now
        age = np.maximum(now - pending.t, 0.0)
        ages = Ages(age, np.zeros(len(X), dtype=np.int64), state.count)
        variance = np.full(len(X), self.noise_variance(state))
        noise = model.scaling.in_prior_units(self._get_aging(state)(variance, ages))
        present, past = (self.make_inputs(X, t) for t in (np.full(len(X), now), pending.t))
        return view.prior.effective_noise(present, past, ages.age, noise)

    def compute_bbkb_information(self, state: State, new: Dataset) -> float:
        """Return the sum of log(1 + 3 variance / noise variance) over new rewards.

        The variances are those of the posterior without them; see [BB] Theorem 2.
        """
        if not self.counts_bbkb_information or len(new) == 0:
            return 0.0
        Z = self.make_inputs(new.X, new.t)
        prior = state.model.kernel.diag(Z)
        variance = prior if state.posterior is None else state.posterior.predict(Z)[1]
        noise = state.model.scaling.in_prior_units(new.variance)
        return float(np.log1p(3 * variance / noise).sum())

    def reset_at_events(self, state: State, new: Dataset, rng: np.random.Generator) -> State:
        """Return the state before new rewards, with everything forgotten if one of them is an event.

        A late reward does not inform about the present, and cannot be an event.
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
            if as_bool("the reset", trigger(error, float(deviation[0]), noise, count)):
                # The first reward that is not forgotten is the event itself.
                index = len(state.rewards) + i, len(state.answers)
                info = {"resets": state.info.model.resets + 1}
                return state.with_model(info=info, reset_index=index)
        return state

    def learn(self, state: State, count_before: int) -> State:
        """Return the state after noise, kernel or forgetting rate were learned, if that is due.

        The state had `count_before` rewards at the last call.
        """
        rule, count, model = self.recipe.learn, state.count, state.model
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
        if rule is not None and rule.is_due(count_before, count):
            fit = self._fit_kernel if self._space_time else self._fit_forgetting_rate
            state = fit(state, rule)
        if rule is None or not rule.in_steps or state.model.fit is not None:
            return state
        kernel = make_initial_kernel(self.recipe, state.rewards)
        same = kernel == state.model.kernel
        return state if same else replace(state.with_model(kernel=kernel), posterior=None)

    def _fit_forgetting_rate(self, state: State, _: Every) -> State:
        """Return the state with the forgetting rate that predicts the latest rewards best."""
        model, recipe = state.model, self.recipe
        scaling, rewards = model.scaling, self._orient_to_maximize(state, state.rewards)
        expired = state.expired.rewards
        if recipe.mean == "online":
            # Decisions learn the scale, but there may have been none yet.
            in_use, noise = np.ones(len(rewards), dtype=bool), self.noise_variance(state)
            scaling = standardisation.learn_scaling(
                scaling, model.kernel, rewards, in_use, noise, expired
            )
        unit = scaling.anchor, scaling.scale
        rate = learn_rate(self._get_aging(state), model.kernel, rewards, *unit, expired)
        if rate is None or not has_rate(model.aging):
            return state
        aging = model.aging.at_rate(rate)
        info = {
            "fits": state.info.model.fits + 1,
            "forgetting_rate": aging.forgetting_rate if isinstance(aging, RatedAging) else rate,
        }
        return state.with_model(aging=aging, info=info)

    def _fit_kernel(self, state: State, rule: Every) -> State:
        """Return the state with a kernel fitted to the observations, and the unit of that fit."""
        recipe, model = self.recipe, state.model
        data, _, in_use = self._age(state, state.time or 0.0)
        data = data if in_use.all() else data.take(in_use)
        if len(data) < CONFIG.fewest_readings:
            return state
        scaling = model.scaling
        if recipe.mean == "online":
            scaling = standardisation.scaling_from_moments(data, self.noise_variance(state))
        before = model.fit or Learned.initial(recipe.kernel, rule)
        sample = data.take(rule.select(data.t))
        fit = refit(rule, recipe.kernel, before, sample, scaling, model.scaling)
        fit = replace(fit, at=(len(state.rewards), len(state.answers)))
        info = {"fits": fit.fits}
        changed = state.with_model(scaling=scaling, kernel=fit.kernel, fit=fit, info=info)
        return replace(changed, posterior=None)

    def extend_query_pool(self, state: State, visited: Array) -> PlayedPool:
        """Return the pool of a query plan with the new ones among the points `visited` (n, d)."""
        query_config = self.recipe.query_config
        return state.queries.pool.extend(
            visited,
            state.model.kernel,
            lambda X: self.make_inputs(X, 0.0),
            None if query_config is None else query_config.pool_size,
        )

    def _age(
        self, state: State, now: float, *, whole: bool = True
    ) -> tuple[Dataset, Array, NDArray[np.bool_]]:
        """Return observations to maximize, their effective variances (n,), and a mask of those in use.

        Unless `whole`, rewards that are known to be forgotten are left out.
        """
        latest = now if state.time is None else max(state.time, now - self.recipe.age_lag)
        start = 0 if whole else self._count_expired(state, latest)
        data = state.rewards.take(slice(start, None)) if start else state.rewards
        if len(state.answers.y):
            data = data.concatenate(state.answers)
        data = self._orient_to_maximize(state, data)
        if _forgets_nothing(state):
            return data, data.variance, np.ones(len(data), dtype=bool)
        ages = Ages.of(data, latest, state.expired.rewards + start)
        effective = np.asarray(self._get_aging(state)(data.variance, ages))
        if effective.shape != data.variance.shape or not (effective > 0).all():
            needs = f"{len(data)} positive variances, infinite for what is forgotten"
            raise ValueError(f"{state.model.aging!r} must return {needs}, got {effective!r}")
        if state.model.reset_index != (0, 0):
            rewards, answers = state.model.reset_index
            count = len(state.rewards)
            effective = effective.copy()
            effective[:rewards] = np.inf
            effective[count : count + answers] = np.inf
        if whole:
            return data, effective, np.isfinite(effective)
        in_use = effective <= self._largest_variance(state)
        forgotten = min(int(in_use.argmax()), len(state.rewards.t) - start) if len(in_use) else 0
        if forgotten:
            newest, least = float(data.t[:forgotten].max()), float(data.variance[:forgotten].min())
            if start and self._expired_memo is not None:
                newest = max(newest, self._expired_memo[2])
                least = min(least, self._expired_memo[3])
            self._expired_memo = state.rewards, start + forgotten, newest, least
        return data, effective, in_use

    def _largest_variance(self, state: State) -> float:
        """Return the largest effective variance with which an observation can change the posterior."""
        grid, scale = self._get_grid(state), state.model.scaling.scale
        if grid is None or self._self_learning:
            return sys.float_info.max
        # The factor of 2 keeps rounding from excluding an observation that the posterior would use.
        return min(
            2.0 * NOISE_LIMITS.negligible * grid.largest_prior * scale**2, sys.float_info.max
        )

    def _count_expired(self, state: State, latest: float) -> int:
        """Return how many of the first rewards are known to be forgotten, from a cached bound.

        They are if all other observations are newer, and a reward as new as the newest of them, with
        their smallest variance, would be forgotten. A step then need not age all rewards.
        """
        aging, memo = self._get_aging(state), self._expired_memo
        if memo is None or state.model.reset_index != (0, 0) or not is_monotone(aging):
            return 0
        rewards, start, newest, least = memo
        t, answer_times = state.rewards.t, state.answers.t
        if not state.rewards.begins_with(rewards):
            return 0
        if min(t[start:].min(initial=math.inf), answer_times.min(initial=math.inf)) < newest:
            return 0
        age = np.array([max(latest - newest, 0.0)])
        ages = Ages(age, np.array([len(t) - start]), state.count)
        least = min(least, self.noise_variance(state))
        return start if aging(np.array([least]), ages)[0] > self._largest_variance(state) else 0

    def trim(self, state: State, count_before: int) -> State:
        """Return the state without its oldest rows, if the history is long enough.

        Rows that decisions still use stay: those that are not forgotten, and those that a posterior has
        only as rows. The state had `count_before` rewards at the last call.
        """
        limit, t = self.recipe.options.max_history, state.rewards.t
        assert limit is not None
        if len(t) < 2 * limit or state.count // limit == count_before // limit:
            return state
        until, posterior = float(t[len(t) - limit :].min()), state.posterior
        if not _forgets_nothing(state):
            aging = self._get_aging(state)
            if type(aging) is not Constant and not is_monotone(aging):
                return state
            data, effective, in_use = self._age(state, float(t.max()))
            in_use = np.logical_and(in_use, effective <= self._largest_variance(state))
            until = min(until, float(data.t[in_use].min(initial=math.inf)))
        elif self.recipe.learn is not None:
            posterior = None  # it is conditioned again on the remaining rows
        elif posterior is not None:
            rows, posterior = len(posterior.summary.data), discard_before(posterior, until)
            old_rows = int((t < until).sum() + (state.answers.t < until).sum())
            if posterior is None or rows - len(posterior.summary.data) < old_rows:
                return state  # the posterior has not observed all of them yet
        else:
            return state
        if not (t < until).any():
            return state
        state = state.drop_before(until, posterior)
        if (
            not self._finite and self.recipe.query_config is None
        ):  # otherwise it would grow for ever
            X = np.concatenate([state.rewards.X, state.failed.X])
            _, first = np.unique(X, axis=0, return_index=True)
            state = replace(state, visited=X[np.sort(first)])
            state.visited.setflags(write=False)
        return state

    def _select_subset(self, state: State, data: Dataset) -> NDArray[np.bool_] | bool:
        """Return a mask (n,) of the observations in the posterior of a fitted kernel; True: all."""
        rule, fit = self.recipe.learn, state.model.fit
        if rule is None or fit is None:
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
            # The data of a fit change only at the next fit, or when an outlier is removed.
            Z = self.make_inputs(data.X, data.t)
            selected = rule.remember(data.t, fitted, state.model.kernel, Z)[fitted]
            memo = self._subset_memo = fit, state.rewards, state.answers, selected
        subset = np.ones(n, dtype=bool)
        subset[fitted] = memo[3]
        return subset

    def _get_origin(self, state: State) -> float:
        """Return a constant near the rewards; values are differences from it, against cancellation."""
        if state.expired.rewards:
            return self._sign * state.expired.first
        return self._sign * float(state.rewards.y[0]) if len(state.rewards.y) else 0.0

    def make_inputs(self, X: Array, t: Array | float) -> Array:
        """Return the kernel inputs of points (n, d) at one time, or at their times (n,)."""
        if not self._space_time:
            return X
        return append_times(X, t)

    def _get_grid(self, state: State) -> CandidateGrid | None:
        domain = self.recipe.domain
        if not isinstance(domain, Candidates) or self.recipe.searches_top:
            return None
        kernel = self.recipe.kernel_with_control if self._has_control else state.model.kernel
        if self._grid_memo is None or self._grid_memo.kernel is not kernel:
            self._grid_memo = CandidateGrid(kernel, domain.X)
        return self._grid_memo

    def get_top_candidates(self, state: State) -> TopCandidates:
        """Return the search for the candidates with the largest bounds, if there are many candidates."""
        domain, kernel, memo = self.recipe.domain, state.model.kernel, self._top_memo
        assert isinstance(domain, Candidates)  # `Recipe.searches_top` checks that
        if memo is None or memo[0] is not kernel or not memo[1].intact:
            memo = self._top_memo = kernel, TopCandidates(domain.rows)
        return memo[1]


def _forgets_nothing(state: State) -> bool:
    return type(state.model.aging) is Constant and state.model.reset_index == (0, 0)
