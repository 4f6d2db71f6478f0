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
from tvbandits.acquisition.confidence import Fixed, Situation
from tvbandits.acquisition.rules import Decision
from tvbandits.arrays import at_times
from tvbandits.bandit.recipe import Recipe, first_kernel, learned_noise
from tvbandits.bandit.state import Info, ModelInfo, PosteriorInfo, State, generator_of
from tvbandits.data import Dataset, Plays, changed
from tvbandits.domains.availability import Available
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.forgetting.aging import Ages, Aging, Constant, Paced, at_noise, has_pace
from tvbandits.forgetting.learned_rate import learned_pace
from tvbandits.gp.fitting import noise, standardisation
from tvbandits.gp.fitting.online import Every, Learned, at_step, refit
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.posterior import Conditioning, Posterior
from tvbandits.gp.predictions import View
from tvbandits.gp.rows import NEGLIGIBLE, CandidateGrid, Data, without_levels
from tvbandits.gp.top_candidates import TopCandidates
from tvbandits.queries.plans import CandidatePool
from tvbandits.validation import Array, Index, flag, is_finite_number, shown

# From fewer observations nothing is learned: everything may just have been forgotten.
FEWEST = 2

# Of so many rewards all are aged at a decision; of more, those that are not known to be forgotten.
MANY = 2000

# A factor of twice as many rows as these takes a core some two seconds.
EXPENSIVE = 1500

# So many conditioned states are remembered: looks ahead are made aside from what is gone on with.
KEPT = 3

# To take up another noise variance an ensemble observes all readings again. With this many rewards that
# takes long: it does so aside, `AHEAD` at each decision, and takes it up with `SOON` rewards more.
MANY_AGAIN, SOON, AHEAD = 32, 16, 24


class ExpensiveWarning(UserWarning):
    """A bandit goes on, but its steps will take long; the message says what helps."""


@dataclass(frozen=True)
class _Conditioned:
    """A state `made` of another one to speak about the time `now`, what it says, and what it drew."""

    of: State
    now: float
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    made: State
    view: View

    def is_of(self, state: State, random: Mapping[str, Any]) -> bool:
        """Whether it is what `state` comes to: of the same parts, and drawn from the same numbers."""
        of = self.of
        return (
            of.answers is state.answers
            and of.model is state.model
            and of.posterior is state.posterior
            and of.calibration is state.calibration
            and (of.since, of.time) == (state.since, state.time)
            and self.before == random
        )

    def gone_on(self, state: State) -> State:
        """What such a state comes to, with what else it knows."""
        made, about = self.made, self.made.info
        info = changed(state.info, posterior=about.posterior, model=about.model)
        return changed(state, model=made.model, posterior=made.posterior, info=info)


class Model:
    """The beliefs of a recipe; all it keeps is what can be computed again."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._sign = -1.0 if recipe.minimize else 1.0
        self._space_time = is_space_time(recipe.kernel)  # learning changes numbers, never the form
        self._finite = isinstance(recipe.domain, Candidates)
        self._self_learning = recipe.posterior.self_learning
        self._beside = recipe.options.control is not None
        self._online = recipe.mean == "online" and not self._self_learning
        self._on_candidates: CandidateGrid | None = None
        self._leaders: tuple[Any, TopCandidates] | None = None
        self._latest: tuple[_Conditioned, ...] = ()
        self._kept: tuple[Learned, Dataset, Dataset, NDArray[np.bool_]] | None = None
        self._gone: tuple[Dataset, int, float, float] | None = None
        self._aged_by: tuple[Aging, float, Aging] | None = None
        self._ahead: tuple[object, Posterior | None] = None, None
        self._live: tuple[Mapping[str, Any], np.random.Generator] | None = None
        self._said_expensive = False
        self._counts_pending = bool(getattr(recipe.acquisition, "counts_pending", True))
        self.counts_spent = bool(getattr(recipe.confidence, "uses_spent", False))

    def generator(self, random: Mapping[str, Any]) -> np.random.Generator:
        """The generator that continues from `random`: the one of the latest state, or one made anew.

        It is taken, not lent: a call that fails does not bring it back by `stored`, so that the next
        one starts again from the state.
        """
        live, self._live = self._live, None
        return live[1] if live is not None and live[0] is random else generator_of(random)

    def stored(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """The state of `rng`, which is kept for the next call."""
        self._live = (rng.bit_generator.state, rng)
        return self._live[0]

    def noise_variance(self, state: State) -> float:
        """Of a reward without one of its own: the recipe's, or what was learned."""
        learned = state.model.noise
        if learned is not None:
            return learned.variance
        assert self.recipe.noise_variance is not None  # else it is learned
        return self.recipe.noise_variance

    def known(self, state: State, seen: Dataset) -> Dataset:
        """Observations with the noise variance that was learned, where they have none."""
        learned = state.model.noise
        return seen if learned is None else seen.with_noise(learned.variance)

    def _maximized(self, state: State, seen: Dataset) -> Dataset:
        """The same, of what is maximized."""
        if state.model.noise is not None:
            seen = self.known(state, seen)
        return seen if self._sign > 0 else seen.with_values(-seen.y)

    def _aging(self, state: State) -> Aging:
        aging, noise = state.model.aging, self.noise_variance(state)
        if self._aged_by is None or self._aged_by[0] is not aging or self._aged_by[1] != noise:
            self._aged_by = aging, noise, at_noise(aging, noise)
        return self._aged_by[2]

    def conditioned(self, state: State, now: float, rng: np.random.Generator) -> tuple[State, View]:
        """The state with its posterior speaking about the time `now`, and what that says.

        The last ones are remembered, with what they drew: to predict, recommend and then ask about one
        time conditions once.
        """
        before = rng.bit_generator.state
        for known in self._latest:
            same = known.now == now and known.of.rewards is state.rewards
            if same and known.is_of(state, before):
                rng.bit_generator.state = known.after
                return known.gone_on(state), known.view
        start, gone = state, state.gone
        state = self._at_first_step(state, now)
        seen = gone.rewards + len(state.rewards.t) + gone.answers + len(state.answers.t)
        # Where the kernel is learned, the scale changes with that.
        model = state.model
        learns = self._online and (model.learned is None or model.learned.fits == 0)
        learns = learns and standardisation.due(model.scaling, seen)
        surface = self._surface(state)
        posterior = None if learns else self._continued(state, now, surface)
        if posterior is None:
            state, used, effective = self._in_use(state, now, learns)
            (rule, kernel), in_use = self.recipe.beliefs, len(used.y)
            kernel = kernel if self._beside else state.model.kernel
            data, noise = self._data(state, used, effective), self.noise_variance(state)
            previous = state.posterior or self._gone_ahead(state, data)
            given = Conditioning(kernel, data, surface, now, previous, rng, noise)
            posterior = rule.condition(given)
        else:
            in_use = len(posterior.data.Z)
        # Merged, they may be fewer.
        if in_use > EXPENSIVE < posterior.size and posterior.dense and not self._said_expensive:
            self._say_expensive(posterior.size)
        view = self._view(state, now, posterior, surface)
        calibration, info = state.calibration, state.info
        learned: dict[str, Any] = {
            "centre": view.centre,
            "scale": view.scale,
            "widening": view.widening,
            "coverage": calibration.coverage if calibration.count else math.nan,
            **posterior.learned,
        }
        learned["centre"] *= self._sign
        size, about = posterior.dictionary_size, ModelInfo(**vars(info.model) | learned)
        of_posterior = PosteriorInfo(in_use, seen - in_use, posterior.jitter, size)
        info = Info(**vars(info) | {"posterior": of_posterior, "model": about})
        made = changed(state, posterior=posterior, info=info)
        known = _Conditioned(start, now, before, rng.bit_generator.state, made, view)
        self._latest = (known, *self._latest[: KEPT - 1])
        if made.coming is not None:
            self._go_ahead(replace(made, model=made.coming), posterior.kernel, now, rng)
        return made, view

    def _at_first_step(self, state: State, now: float) -> State:
        """With a kernel in steps as long as the time since the only one told, where there is one."""
        every, t = self.recipe.learn, state.rewards.t
        counts = every is not None and every.in_steps and state.model.learned is None
        if not (counts and len(t) and now > t[0] and (t == t[0]).all()):
            return state
        kernel = at_step(self.recipe.kernel, now - float(t[0]))
        same = kernel == state.model.kernel
        return state if same else changed(state.with_model(kernel=kernel), posterior=None)

    def _go_ahead(self, state: State, kernel: Any, now: float, rng: np.random.Generator) -> None:
        """Observe some more of the readings with the noise variance to come."""
        _, used, effective = self._in_use(state, now, learns=False)
        data = self._data(state, used, effective).in_time()
        known, t = self._gone_ahead(state, data), data.Z[:, -1]
        until = t[min((0 if known is None else known.size) + AHEAD, len(t)) - 1]
        some, surface = data.rows(0, int(np.searchsorted(t, until, "right"))), self._surface(state)
        given = Conditioning(kernel, some, surface, until, known, rng, self.noise_variance(state))
        self._ahead = state.model, self.recipe.beliefs[0].condition(given)

    def _gone_ahead(self, state: State, data: Data) -> Posterior | None:
        """What has observed the first of a state's readings; late ones have it begin again."""
        model, known = self._ahead
        if model is not state.model or known is None:
            return None
        return known if data.in_time().starts_with(known.data) else None

    def _say_expensive(self, rows: int) -> None:
        """What exact steps are going to cost, and what to take instead, before they do: once."""
        self._said_expensive = True  # a warning may be an error: it comes once then, too
        drifts = "StateSpace() where rewards drift, " if self._space_time else ""
        warnings.warn(
            f"the exact posterior has {rows} rows to factor, and its time grows with their cube. "
            f"Take posterior={drifts}Nystrom(), or a policy that forgets, such as sw_gp_ucb.",
            ExpensiveWarning,
            stacklevel=2,
        )

    def _in_use(self, state: State, now: float, learns: bool) -> tuple[State, Dataset, Array]:
        """The state, with another scale if it learns one, what it is conditioned on, and how noisy."""
        model = state.model
        many = len(state.rewards.t) > MANY
        whole = learns or model.learned is not None or self._beside or not many
        every, effective, used = self._aged(state, now, whole=whole)
        if learns:
            some, those = every, used
            if self._beside:  # of differences within a time
                some = every.take(used).beside_levels()
                those = np.ones(len(some), dtype=bool)
            least, gone = self.noise_variance(state), state.gone.rewards + state.gone.answers
            scaled = standardisation.learn(model.scaling, model.kernel, some, those, least, gone)
            if scaled is not model.scaling:
                state = state.with_model(scaling=scaled)
        used = np.logical_and(used, self._remembered(state, every))
        return state, every if used.all() else every.take(used), effective[used]

    def _continued(
        self, state: State, now: float, surface: CandidateGrid | None
    ) -> Posterior | None:
        """A posterior of the first of what was seen, gone on to the rest of it.

        It comes to the same bits as conditioning on all: a step costs what is new.
        """
        if (self._beside and not self._self_learning) or not _ages_nothing(state):
            return None
        own = state.posterior
        for known in self._latest:
            was, posterior = known.of, known.made.posterior
            if (
                posterior is None
                or (posterior.dense and posterior is not own)
                # An ensemble shows in which order it was told late readings: it goes on from that of the
                # state, or from what that came to. Any other filter comes to the same bits.
                or (self._self_learning and not (posterior is own or was.posterior is own))
                or known.made.model is not state.model
                or was.since != (0, 0)
                or len(posterior.data.Z) < known.made.info.posterior.in_use  # some said too little
                or not state.rewards.begins_with(was.rewards)
                or not (was.answers is state.answers or state.answers.begins_with(was.answers))
            ):
                continue
            fresh = state.rewards.take(slice(len(was.rewards.t), None))
            # Of one time, rewards come before answers: a reward may not follow them.
            both = len(fresh.t) and len(was.answers.t)
            if both and fresh.t.min() <= was.answers.t.max():
                continue
            if len(state.answers.t) > len(was.answers.t):
                more = state.answers.take(slice(len(was.answers.t), None))
                fresh = fresh.joined(more) if len(fresh.t) else more
            if posterior is not own:
                latest = was.answers.t.max(initial=-math.inf if was.time is None else was.time)
                if fresh.t.min(initial=math.inf) <= latest:
                    continue
            fresh = self._maximized(state, fresh)
            made = posterior.continued(self._data(state, fresh, fresh.variance), now, surface)
            if made is not None:
                return made
        return None

    def _data(self, state: State, seen: Dataset, effective: Array) -> Data:
        """What a posterior is told of observations (larger is better) of some effective variances."""
        if self._self_learning:
            return Data(at_times(seen.X, seen.t), seen.y[:, None], effective)
        if self._beside:
            noise = state.model.scaling.in_prior_units(effective)
            y = without_levels(seen.t, seen.y[:, None], noise)
            _, levels = np.unique(seen.t, return_inverse=True)
            return Data(self.inputs(seen.X, seen.t), y, noise, levels)
        values = np.ones((len(seen.y), 2))
        values[:, 0] = seen.y - self._origin(state)
        inputs = self.inputs(seen.X, seen.t)
        return Data(inputs, values, state.model.scaling.in_prior_units(effective))

    def _view(
        self, state: State, now: float, posterior: Posterior, surface: CandidateGrid | None
    ) -> View:
        origin, scaled, calibration = self._origin(state), state.model.scaling, state.calibration
        centre = 0.0 if self._beside else scaled.anchor
        if scaled.estimated_at and not self._beside:
            centre = scaled.centre(posterior.products, origin)
        return View(
            posterior=posterior,
            surface=surface,
            inputs=lambda X: self.inputs(X, now),
            centre=centre,
            scale=scaled.scale,
            origin=origin,
            now=now,
            nugget=posterior.nugget,
            widening=calibration.widening if calibration.count else 1.0,
            learned=self._self_learning or state.model.learned is not None,
            dimension=state.rewards.X.shape[1] if self.recipe.options.control is None else None,
        )

    def expected(self, state: State, X: Array, t: float) -> tuple[State, Array, Array]:
        """The state that speaks about a time, and mean and deviation (n,) at points (n, d), signed."""
        known, view = self.conditioned(state, t, generator_of(state.random))
        return known, *view.predict(X)

    def before_told(
        self, state: State, seen: Dataset, t: float
    ) -> tuple[Array, Array, Callable[[Index], Array]]:
        """Errors (n,) of readings against what is said of time `t`, their variances, and the prior's.

        The latter returns the prior covariance (k, k) of some rows, between their own times; all are in
        the unit of reward.
        """
        _, view = self.conditioned(state, t, generator_of(state.random))
        mean, deviation = view.predict(seen.X)
        Z = np.column_stack([seen.X, seen.t])
        if not self._self_learning:
            Z = self.inputs(seen.X, seen.t)

        def prior(rows: Index) -> Array:
            return np.asarray(view.scale**2 * view.posterior.prior_covariance(Z[rows]))

        return self._sign * seen.y - mean, deviation**2 + view.nugget + seen.variance, prior

    def beta(self, state: State, view: View) -> float:
        """The width of a conditioned state and its view."""
        if type(self.recipe.confidence) is Fixed:
            return self.recipe.confidence.value
        domain, posterior, t = self.recipe.domain, view.posterior, state.rewards.t[-MANY:]
        situation = Situation(
            posterior.log_det_ratio,
            state.told,
            len(domain) if isinstance(domain, Candidates) else None,
            state.spent,
            posterior.effective_dimension,
            lambda: len(t) / max(len(np.unique(t)), 1),
        )
        beta = self.recipe.confidence(situation)
        if not (is_finite_number(beta) and beta >= 0):
            said = f"got {shown(beta)} of {shown(self.recipe.confidence)}"
            raise ValueError(f"a width must be finite and not negative, {said}")
        return beta

    def decision(
        self,
        state: State,
        view: View,
        beta: float,
        n: int | None = None,
        domain: Domain | None = None,
        free: Available | None = None,
    ) -> Decision:
        """The decision of a conditioned state and its view, in a domain, by default the recipe's.

        The rest is as of `Bandit.ask`.
        """
        recipe, out = self.recipe, state.pending
        taken = out.X[out.t == view.now]
        if recipe.options.control is not None:  # it is no news of any effect, and comes once
            out = Plays(*(each[~recipe.is_control(out.X)] for each in (out.X, out.t)))
            taken = np.concatenate([taken, np.array(recipe.options.control)[None]])
        most = None if recipe.asking is None else recipe.asking.informed_width
        pending, noise = out.X[:0], np.empty(0)
        if self._counts_pending and len(out.t):
            noise = self.pending_noise(state, view, out)
            heard = np.isfinite(noise)
            pending, noise = out.X[heard], noise[heard]
        # Without a unit of the reward, a batch rule has nothing to compare the noise with.
        known = recipe.mean != "online" or len(state.rewards.y) + len(state.answers.y) > 0
        return Decision(
            domain=recipe.domain if domain is None else domain,
            view=view,
            beta=beta if most is None or not state.questions.informed else min(beta, most),
            noise_variance=self.noise_variance(state),
            batching=recipe.batching if known else replace(recipe.batching, rule=One()),
            n=n,
            pending=pending,
            pending_noise=noise,
            taken=taken,
            failed=state.failed.X,
            available=free,
            leaders=self.leaders(state) if recipe.by_leaders else None,
        )

    def pending_noise(self, state: State, view: View, out: Plays) -> Array:
        """With what noise the rewards of points that are out will speak about the time of the view.

        In prior units.
        """
        model, now = state.model, view.now
        ages = Ages(np.maximum(now - out.t, 0.0), np.zeros(len(out), dtype=np.int64), state.told)
        made_with = np.full(len(out), self.noise_variance(state))
        noise = model.scaling.in_prior_units(self._aging(state)(made_with, ages))
        here, then = (self.inputs(out.X, t) for t in (np.full(len(out), now), out.t))
        return view.posterior.pending_noise(here, then, ages.age, noise)

    def information(self, state: State, told: Dataset) -> float:
        """Sum of log(1 + 3 variance / noise variance) of what is told, before it was told."""
        if not self.counts_spent or len(told) == 0:
            return 0.0
        Z = self.inputs(told.X, told.t)
        prior = state.model.kernel.diag(Z)
        variance = prior if state.posterior is None else state.posterior.predict(Z)[1]
        noise = state.model.scaling.in_prior_units(told.variance)
        return float(np.log1p(3 * variance / noise).sum())

    def reset_at_events(self, state: State, told: Dataset, rng: np.random.Generator) -> State:
        """The state before it is told rewards, with everything forgotten if one of them is an event.

        A reward that comes late is no news about the present, and triggers nothing.
        """
        trigger = self.recipe.reset
        if trigger is None or len(state.rewards) == state.since[0]:
            return state
        for i, t in enumerate(told.t):
            if state.time is not None and t < state.time:
                continue
            state, view = self.conditioned(state, float(t), rng)
            mean, deviation = view.predict(told.X[i : i + 1])
            count = len(state.rewards) - state.since[0] + i + 1
            error = self._sign * float(told.y[i]) - float(mean[0])
            noise = float(told.variance[i])
            if flag("the reset", trigger(error, float(deviation[0]), noise, count)):
                made = state.with_model(about={"resets": state.info.model.resets + 1})
                # The reward that was the event is the first that is kept.
                return replace(made, since=(len(state.rewards) + i, len(state.answers)))
        return state

    def learned(self, state: State, before: int) -> State:
        """The state once it has learned noise, kernel or pace, if that is due after `before` rewards."""
        every, now, known = self.recipe.learn, state.told, state.model
        if known.noise is not None and noise.due(before, now):
            found = learned_noise(self.recipe, state.rewards.joined(state.answers))
            made = state.with_model(noise=found, about={"noise": found})
            state = replace(made, posterior=None, coming=None)
            if self._self_learning and before >= MANY_AGAIN:
                state = replace(made, model=known, coming=made.model)
        elif state.coming is not None and now >= (1 << now.bit_length() - 1) + SOON:
            state = replace(state, model=state.coming, coming=None, posterior=None)
        if every is not None and every.due(before, now):
            state = self._refitted(state, every) if self._space_time else self._paced(state)
        if every is None or not every.in_steps or state.model.learned is not None:
            return state
        kernel = first_kernel(self.recipe, state.rewards)
        same = kernel == state.model.kernel
        return state if same else replace(state.with_model(kernel=kernel), posterior=None)

    def _paced(self, state: State) -> State:
        """With the pace of the aging map that predicts the latest rewards best."""
        model, recipe = state.model, self.recipe
        scaled, rewards = model.scaling, self._maximized(state, state.rewards)
        before = state.gone.rewards
        if recipe.mean == "online":
            # There may have been no decision yet, which is what a scale is learned for otherwise.
            told = np.ones(len(rewards), dtype=bool)
            least = self.noise_variance(state)
            scaled = standardisation.learn(scaled, model.kernel, rewards, told, least, before)
        aging, unit = self._aging(state), (scaled.anchor, scaled.scale)
        pace = learned_pace(aging, model.kernel, rewards, *unit, before)
        if pace is None or not has_pace(model.aging):
            return state
        aged = model.aging.at_pace(pace)
        known = aged.pace if isinstance(aged, Paced) else pace
        return state.with_model(
            aging=aged, about={"fits": state.info.model.fits + 1, "pace": known}
        )

    def _refitted(self, state: State, every: Every) -> State:
        """With a kernel that was fitted to what has been seen, in a unit that suits it."""
        recipe, model = self.recipe, state.model
        seen, _, used = self._aged(state, state.time or 0.0)
        kept = seen if used.all() else seen.take(used)
        if len(kept) < FEWEST:
            return state
        scaled = model.scaling
        if recipe.mean == "online":
            scaled = standardisation.standard(kept, self.noise_variance(state))
        known = model.learned or Learned.nothing(recipe.kernel, every)
        sample = kept.take(every.select(kept.t))
        learned = refit(every, recipe.kernel, known, sample, scaled, model.scaling)
        learned = replace(learned, at=(len(state.rewards), len(state.answers)))
        made = state.with_model(
            scaling=scaled, kernel=learned.kernel, learned=learned, about={"fits": learned.fits}
        )
        return replace(made, posterior=None)

    def members(self, state: State, visited: Array) -> CandidatePool:
        """The points that a query plan may choose from, grown by those of `visited` that are new."""
        asking = self.recipe.asking
        return state.questions.pool.grown(
            visited,
            state.model.kernel,
            lambda X: self.inputs(X, 0.0),
            None if asking is None else asking.pool_size,
        )

    def _aged(
        self, state: State, now: float, *, whole: bool = True
    ) -> tuple[Dataset, Array, Array]:
        """Observations, larger being better, their effective variances, and which are in use.

        Unless the whole is wanted, without rewards that are known to be forgotten.
        """
        latest = now if state.time is None else max(state.time, now - self.recipe.lead)
        start = 0 if whole else self._forgotten(state, latest)
        seen = state.rewards.take(slice(start, None)) if start else state.rewards
        if len(state.answers.y):
            seen = seen.joined(state.answers)
        seen = self._maximized(state, seen)
        if _ages_nothing(state):
            return seen, seen.variance, np.ones(len(seen), dtype=bool)
        ages = Ages.of(seen, latest, state.gone.rewards + start)
        effective = np.asarray(self._aging(state)(seen.variance, ages))
        if effective.shape != seen.variance.shape or not (effective > 0).all():
            needs = f"{len(seen)} positive variances, infinite where forgotten"
            raise ValueError(f"{state.model.aging!r} must return {needs}, got {effective!r}")
        if state.since != (0, 0):
            rewards, answers = state.since
            told = len(state.rewards)
            effective = effective.copy()
            effective[:rewards] = np.inf
            effective[told : told + answers] = np.inf
        used: Any = np.isfinite(effective) if whole else effective <= self._most_noise(state)
        gone = 0
        if not whole and len(used):
            gone = min(int(used.argmax()), len(state.rewards.t) - start)
        if gone:
            newest, least = float(seen.t[:gone].max()), float(seen.variance[:gone].min())
            if start and self._gone is not None:
                newest, least = max(newest, self._gone[2]), min(least, self._gone[3])
            self._gone = state.rewards, start + gone, newest, least
        return seen, effective, used

    def _most_noise(self, state: State) -> float:
        """An observation of a larger variance does not count, or is too noisy to move the posterior."""
        surface, scale = self._surface(state), state.model.scaling.scale
        if surface is None or self._self_learning:
            return sys.float_info.max
        # Rounding shall leave nothing out that the posterior would not.
        return min(2.0 * NEGLIGIBLE * surface.largest_prior * scale**2, sys.float_info.max)

    def _forgotten(self, state: State, latest: float) -> int:
        """How many of the first rewards are forgotten, as far as that can be known by one of them.

        They are if all others are newer, and their newest one would be forgotten, had it the least
        variance of them: a step need not look at all that was ever told.
        """
        aging = self._aging(state)
        if self._gone is None or state.since != (0, 0) or not getattr(aging, "monotone", False):
            return 0
        rewards, start, newest, least = self._gone
        t, about = state.rewards.t, state.answers.t
        if not state.rewards.begins_with(rewards):
            return 0
        if min(t[start:].min(initial=math.inf), about.min(initial=math.inf)) < newest:
            return 0
        age = np.array([max(latest - newest, 0.0)])
        ages = Ages(age, np.array([len(t) - start]), state.told)
        least = min(least, self.noise_variance(state))
        return start if aging(np.array([least]), ages)[0] > self._most_noise(state) else 0

    def trimmed(self, state: State, before: int) -> State:
        """Without its oldest rows, where the history is long enough; looked at now and then.

        What decisions still use stays: rows that are not forgotten for good, and all that a posterior
        holds in its rows alone. With `before` rewards told, it was looked at the last time.
        """
        keep, t = self.recipe.options.max_history, state.rewards.t
        assert keep is not None
        if len(t) < 2 * keep or state.told // keep == before // keep:
            return state
        until, posterior = float(t[len(t) - keep :].min()), state.posterior
        if not _ages_nothing(state):
            aging = self._aging(state)
            if type(aging) is not Constant and not getattr(aging, "monotone", False):
                return state
            seen, effective, used = self._aged(state, float(t.max()))
            used = np.logical_and(used, effective <= self._most_noise(state))
            until = min(until, float(seen.t[used].min(initial=math.inf)))
        elif self.recipe.learn is not None:
            posterior = None  # it is conditioned anew, on what is kept
        elif posterior is not None:
            known, posterior = len(posterior.data), posterior.since(until)
            leave = int((t < until).sum() + (state.answers.t < until).sum())
            if posterior is None or known - len(posterior.data) < leave:
                return state  # some of them it was not told yet
        else:
            return state
        if not (t < until).any():
            return state
        made = state.since_time(until, posterior)
        if not self._finite and self.recipe.asking is None:  # of such points there is no end
            X = np.concatenate([made.rewards.X, made.failed.X])
            _, first = np.unique(X, axis=0, return_index=True)
            made = replace(made, visited=X[np.sort(first)])
            made.visited.setflags(write=False)
        return made

    def _remembered(self, state: State, seen: Dataset) -> NDArray[np.bool_] | bool:
        """Which of all that was seen a posterior of a learned kernel is conditioned on."""
        every, learned = self.recipe.learn, state.model.learned
        if every is None or learned is None:
            return True
        n = len(state.rewards) + len(state.answers)
        rewards, answers = learned.at
        fitted = np.zeros(n, dtype=bool)
        fitted[:rewards] = True
        fitted[len(state.rewards) : len(state.rewards) + answers] = True
        known = self._kept
        if (
            known is None
            or known[0] is not learned
            or not state.rewards.begins_with(known[1])
            or not state.answers.begins_with(known[2])
        ):
            # What a fit saw is the same until the next one, or until a reading is set aside.
            Z = self.inputs(seen.X, seen.t)
            remembered = every.kept(seen.t, fitted, state.model.kernel, Z)[fitted]
            known = self._kept = learned, state.rewards, state.answers, remembered
        kept = np.ones(n, dtype=bool)
        kept[fitted] = known[3]
        return kept

    def _origin(self, state: State) -> float:
        """A constant near the rewards: values are kept relative to it against cancellation."""
        if state.gone.rewards:
            return self._sign * state.gone.first
        return self._sign * float(state.rewards.y[0]) if len(state.rewards.y) else 0.0

    def inputs(self, X: Array, t: Array | float) -> Array:
        """Kernel inputs of points (n, d) at one time, or at their times (n,)."""
        if not self._space_time:
            return X
        return at_times(X, t)

    def _surface(self, state: State) -> CandidateGrid | None:
        if not self._finite or self.recipe.by_leaders:
            return None
        kernel = self.recipe.beliefs[1] if self._beside else state.model.kernel
        if self._on_candidates is None or self._on_candidates.kernel is not kernel:
            self._on_candidates = CandidateGrid(kernel, self.recipe.domain.X)  # type: ignore[attr-defined]
        return self._on_candidates

    def leaders(self, state: State) -> TopCandidates:
        """What finds the candidates that lead, where there are many."""
        domain, kernel = self.recipe.domain, state.model.kernel
        assert isinstance(domain, Candidates)  # nothing else has so many
        known = self._leaders
        if known is None or known[0] is not kernel or not known[1].whole:
            known = self._leaders = kernel, TopCandidates(domain.rows)
        return known[1]


def _ages_nothing(state: State) -> bool:
    return type(state.model.aging) is Constant and state.since == (0, 0)
