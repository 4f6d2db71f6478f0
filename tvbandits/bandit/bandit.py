"""The bandit: `ask` returns points to play, `tell` takes their rewards.

A `Recipe` has the parts of a policy; a `State` is everything a bandit has learned. Both are frozen. A
call computes the next state first and assigns it at the end, so that a call that fails changes nothing.
Only an interrupt (Ctrl-C) may also come between the assignment and the return: the call then raises
although it has happened, and `state` shows that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.bandit.extremes import warn_of_outlier
from tvbandits.bandit.history import make_history_columns
from tvbandits.bandit.inference import Inference
from tvbandits.bandit.info import Info
from tvbandits.bandit.initial_state import (
    adapt_state,
    change_candidates,
    check_state,
    make_initial_state,
    move_to_candidates,
)
from tvbandits.bandit.observations import (
    ReadingTable,
    find_readings,
    replace_answers,
    skip_unasked,
    validate_answers,
    validate_correction,
    validate_observations,
)
from tvbandits.bandit.options import OptionChanges, Options, check_changes
from tvbandits.bandit.querying import (
    choose_queries_to_carry,
    concerns_questions,
    find_query_time,
    query_after_tell,
    query_before_ask,
    update_answers,
)
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State, check_after_first, is_same_value, restore_generator
from tvbandits.bandit.step import (
    OutcomeModels,
    Request,
    check_reachable,
    compute_control_level,
    find_region,
    observe,
    recommend,
    replay,
    suggest,
    warm_start,
)
from tvbandits.counts import Counted
from tvbandits.domains.availability import Availability, check_availability, get_decision_domain
from tvbandits.domains.candidates import Candidates, CandidatesInContext
from tvbandits.domains.domain import Context, add_context, as_inputs
from tvbandits.domains.parameters import Named
from tvbandits.domains.space import MOST_POINTS, check_search
from tvbandits.errors import PlayError
from tvbandits.experts.protocol import restore_state, state_of
from tvbandits.gp.noise import NoiseEstimate
from tvbandits.io import save_value
from tvbandits.option_text import choose_words
from tvbandits.threads import CallLock, lock_calls
from tvbandits.validation import Array, as_bool, as_generator, as_time, check_instance, whole_number


class Bandit:
    """A bandit: `ask` it for points to play, and `tell` it their rewards.

    Parameters
    ----------
    recipe : Recipe
    seed : int or numpy.random.Generator
        The only source of randomness. A generator is not advanced: a child is spawned from it. A
        bandit's draws depend on the seed and on the number of rewards of points that it did not choose.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> domain = Candidates(np.linspace(0, 10, 11)[:, None])
    >>> bandit = Bandit(Recipe(domain, RBF(2.0), noise_variance=0.01), seed=0)
    >>> for t in range(1, 31):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, np.exp(-((X[:, 0] - 7) ** 2)), t)
    >>> print(bandit.recommend(), info.readings)
    [7.] 30
    """

    def __init__(self, recipe: Recipe, *, seed: int | np.random.Generator = 0) -> None:
        check_instance("recipe", recipe, Recipe, "a Recipe")
        self._initialize(recipe, make_initial_state(recipe, as_generator(seed)))

    def _initialize(self, recipe: Recipe, state: State) -> None:
        self._recipe, self._state, self._call_lock = recipe, state, CallLock()
        self._inference, self._outcome_models = Inference(recipe), OutcomeModels(recipe)

    @classmethod
    def from_state(cls, recipe: Recipe, state: State) -> Bandit:
        """Return a bandit that continues from `state` as if it had never stopped, bit for bit.

        If the state comes from another recipe, its observations are kept, and whatever depends on other
        parts is computed again. An expert of the same kind gets back its memory, such as its spending.

        Raises
        ------
        ValueError
            If a point that was played or is pending lies outside the recipe's domain.
        """
        check_state(recipe, state)
        bandit = cls.__new__(cls)
        bandit._initialize(recipe, adapt_state(recipe, state))
        expert = None if recipe.query_config is None else recipe.query_config.expert
        memory, saved = state_of(expert), state.queries.expert
        if memory is not None and saved and memory["kind"] == saved["kind"]:
            restore_state(expert, saved)
        return bandit

    @classmethod
    def __restored__(cls, recipe: Recipe, state: State) -> Bandit:
        return cls.from_state(recipe, state)

    def __repr__(self) -> str:
        state = self._state
        time = "at the start" if state.time is None else f"at t = {state.time:g}"
        pending = f", {len(state.pending)} pending" if len(state.pending) else ""
        return f"<Bandit on {self._recipe.domain!r}, {state.count} rewards{pending}, {time}>"

    @property
    def recipe(self) -> Recipe:
        """Return the parts of this bandit."""
        return self._recipe

    @property
    def state(self) -> State:
        """Return everything the bandit has learned, with its expert's memory if that can be saved."""
        # During a call, an expert that reads this gets the state from before that call.
        is_locked = self._call_lock.is_within_call
        return self._get_state() if is_locked else lock_calls(Bandit._get_state)(self)

    def _get_state(self) -> State:
        query_config = self._recipe.query_config
        memory = None if query_config is None else state_of(query_config.expert)
        if memory is not None and not is_same_value(memory, self._state.queries.expert):
            self._state = self._state.with_queries(expert=memory)
        return self._state

    @property
    def _size(self) -> int:
        return len(self._state.rewards.t) + len(self._state.answers.t)

    @property
    def info(self) -> Info:
        """Return information about the last `ask` and `tell`."""
        return self._state.info

    @property
    def noise(self) -> NoiseEstimate:
        """Return the recipe's noise variance of a reward, or the learned one with an interval.

        Examples
        --------
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0]]))
        >>> info = bandit.tell([[0.0]] * 4, [0.2, 0.5, 0.4, 0.3], 1)
        >>> print(bandit.noise.low < bandit.noise.variance < bandit.noise.high)
        True
        """
        variance, model = self._inference.noise_variance(self._state), self._state.model
        latest = model.next_model or model
        return latest.noise or NoiseEstimate(variance, variance, variance)

    @property
    def pending(self) -> Array:
        """Return the points (k, d) of `ask` without rewards so far, in the order of the calls."""
        return self._state.pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """Return a table of all plays and answers: time, coordinates, reward, variance, source, kind.

        With limits, it also has the readings of each outcome and the number of limits that they violate.
        With a control, `relative` is the reward minus the control's reward at that time. With a move
        cost, `move_cost` is the cost of the move from the previous play.
        """
        state, options, fill = self._state, self._recipe.options, self._inference.with_noise
        outliers = None if state.outliers is None else fill(state, state.outliers.observations)
        columns = make_history_columns(
            state.domain,
            fill(state, state.rewards),
            fill(state, state.answers),
            state.failed,
            state.pending,
            {limit: state.outcomes[limit.name].rewards for limit in options.limits},
            options.control,
            options.move_cost,
            outliers,
        )
        return pd.DataFrame(columns)

    @lock_calls
    def predict(
        self,
        X: ArrayLike | Named,
        t: float | None = None,
        outcome: str | None = None,
        context: Context = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Return posterior mean and standard deviation of the reward, in its unit; change nothing.

        Deviations are wider than those of decisions if intervals of a learned kernel covered too few
        readings (`IntervalCalibration`); if no reading has tested a learned variance (those of Student's
        t distribution, `ScaledPosterior.predict_reward`); or if leave-one-out errors of the readings are
        too large (`excess_error`). After a single reading they are guesses.

        Parameters
        ----------
        X : array of shape (m, d)
            Any finite points; on a space also a DataFrame or dictionaries.
        t : float, optional
            The time to predict; by default the time of the next decision.
        outcome : str, optional
            Predict this outcome, in its own unit, instead of the reward.
        context : mapping or array, optional
            The context of all points, if one is measured and `X` does not contain it.
        relative : bool
            Predict the difference from the control's reward, which is what is learned. If False and
            there is a control, its mean level is added, with its deviation (`compute_control_level`).

        Returns
        -------
        mean, deviation : arrays of shape (m,)

        Raises
        ------
        ValueError
            If a point or the time is not finite, the time is before the first observation, the outcome
            has no limit, or `relative` is True and there is no control.
        """
        if as_bool("relative", relative) and self._recipe.options.control is None:
            where = choose_words("Options(control=...)", "control in [domain] of campaign.toml")
            raise ValueError(f"relative predictions need a control: see {where}")
        points = as_inputs(self._recipe.domain, X, context)
        state, now = self._state, self._decision_time(t)
        if outcome is not None:
            if relative:
                raise ValueError(f"only rewards are relative to the control, got {outcome=}")
            return self._outcome_models.predict(state, outcome, points, now)
        check_after_first(state, now)
        rng = restore_generator(state.random)
        state, view = self._inference.condition(state, now, rng)
        mean, deviation = view.predict_reward(points, test=True)
        mean = -mean if self._recipe.minimize else mean
        is_control = self._recipe.is_control(points)
        mean[is_control], deviation[is_control] = 0.0, 0.0  # exactly, without rounding
        if relative or self._recipe.options.control is None:
            return mean, deviation
        level, level_deviation = compute_control_level(self._recipe, state.rewards, view.scale)
        return mean + level, np.hypot(deviation, level_deviation)

    @lock_calls
    def recommend(
        self, t: float | None = None, available: Availability = None, context: Context = None
    ) -> Array:
        """Return the point (d,) with the best posterior mean at time `t`.

        Parameters
        ----------
        t, available, context
            As for `ask`.

        Raises
        ------
        ValueError
            As for `ask`; or if there is no reward and no answer yet, or none until `t`.
        NothingAvailableError
            If nothing is available.
        """
        request = self._make_request(t, None, available, context, None)
        if not (len(self._state.rewards) or len(self._state.answers)):
            raise ValueError(
                "recommend needs observations, and there are none: tell a reward first"
            )
        check_after_first(self._state, request.t)
        rng = restore_generator(self._state.random)
        return recommend(self._inference, self._outcome_models, self._state, request, rng)

    @lock_calls
    def find_best_point(self, t: float | None = None) -> Array:
        """Return the point (d,) of the best mean in any context, even without observations."""
        request = Request(self._decision_time(t), None, self._recipe.domain)
        rng = restore_generator(self._state.random)
        return recommend(self._inference, self._outcome_models, self._state, request, rng)

    def _make_request(
        self,
        t: float | None,
        n: int | None,
        available: Availability,
        context: Context,
        near: float | None,
    ) -> Request:
        """Return the checked arguments of a decision."""
        domain, mask = self._recipe.domain, None
        if not (self._recipe.offers_all and available is None and context is None):
            domain, mask = get_decision_domain(domain, available, context)
        return Request(self._decision_time(t), n, domain, mask, near)

    def _decision_time(self, t: float | None) -> float:
        return self._state.record.decision_time if t is None else as_time(t)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write recipe and state to a file, from which `tvbandits.load` continues; it runs no code.

        An earlier file of that name stays as it was until the new one is complete. Parts that are not of
        this package, such as your own expert, are saved by name; pass them to `load`.

        Raises
        ------
        ValueError
            If a part has no name that can be imported, such as a lambda.
        OSError
            If the file cannot be written.
        """
        save_value(path, self)

    def __saved__(self) -> dict[str, Any]:
        return {"recipe": self._recipe, "state": self.state}

    def __getstate__(self) -> dict[str, Any]:
        return {"_recipe": self._recipe, "_state": self._state}

    def __setstate__(self, parts: dict[str, Any]) -> None:
        self._initialize(parts["_recipe"], parts["_state"])

    @lock_calls
    def ask(
        self,
        t: float | None = None,
        n: int | None = None,
        available: Availability = None,
        context: Context = None,
        near: float | None = None,
    ) -> Array:
        """Return the points (b, d) to play at time `t`.

        Pending points lower the posterior variance around them, so that repeated calls spread out. A
        point that is pending for the same time is returned again only if no other is left. With a move
        cost, the bandit chooses each of several points by its cost from the last play, and returns them
        in the order of a tour to the nearest remaining point.

        Parameters
        ----------
        t : float, optional
            Time of the decision; by default one unit after the latest reward, 1 at the start.
        n : int, optional
            Number of points, distinct if the domain has as many; by default the batch rule decides,
            one point for most policies. If `n` exceeds the number of available points (100 visits, 8
            banners), each gets a fraction of the plays that is its posterior probability of being the
            best (Thompson sampling). A control counts among the `n` and comes first, unless it was
            played or is pending for that time: `n` is then at least 2, and by default one more than the
            batch rule's. On a box or a large space, `n` is at most 100; with limits, `available`, `near`
            or a move cost, or bounds without slopes (of `bbkb`, or of `adaptive_gp_ucb` with a kernel),
            at most 60 in 2 dimensions, 30 in 3, 15 in 4 and 10 in more.
        available : mask (A,), row numbers, ranges by name, or function of points (m, d), optional
            What is available now: for candidates a mask or row numbers; for any domain the ranges of
            some coordinates, as in `{"x0": (0, 5), "fuel": ["gas"]}`, or a function from points to a
            mask (on a space, from a frame with its names).
        context : mapping of str to values, or array of shape (c,), optional
            The present measurement, if the domain has a context: `{"outside": 3.2}`; the points returned
            end with it. Or the values of the context columns of `Candidates`, to which the choice is
            restricted. Required if the domain has either, unless all rows of `available` have the same
            context.
        near : float, optional
            The largest distance from the last point that was played or is pending
            (`domains.moving.distances`).

        Raises
        ------
        ValueError
            If `t` is not finite, or earlier than the latest reward; if `n` is not a whole number of at
            least 1, or too large; if `available` or `context` do not suit the domain; if `near` is not
            above 0, or no point was played yet.
        NothingAvailableError
            If nothing is available.
        ExpertError
            If the bandit queries its expert before decisions, and the expert has an error.
        """
        state, recipe = self._state, self._recipe
        now = self._decision_time(t)
        if state.time is not None and now < state.time:
            message = "cannot ask for {t}: there is a later reading, at {latest}"
            raise PlayError(message, t=now, latest=state.time)
        if n is not None:
            whole_number("n", n, at_most=MOST_POINTS)
            limited = bool(recipe.options.limits) or recipe.options.move_cost is not None
            obstacle = "" if recipe.bounds_have_slopes else "under bounds without slopes"
            if limited or available is not None or near is not None:
                obstacle = "within limits, `available`, `near` or move costs"
            check_search(n, recipe.domain, obstacle)
        request = self._make_request(now, n, available, context, near)
        rng = self._inference.take_generator(state.random)
        # Checked first, so that the expert is not paid for a call that is refused.
        region = find_region(recipe, state, request)
        domain, mask = request.domain, request.available
        if recipe.query_config is not None and concerns_questions(recipe, state, domain, mask):
            if recipe.query_config.expert is not None:
                check_reachable(request, region)
            state = query_before_ask(self._inference, state, now, domain, mask, rng)
        state, X = suggest(self._inference, self._outcome_models, state, request, region, rng)
        self._state = replace(state, random=self._inference.store_generator(rng))
        return X

    def with_options(self, **changes: Unpack[OptionChanges]) -> Bandit:
        """Return a bandit with the same state and some `Options` changed.

        Parameters
        ----------
        changes
            The new values by the names in `Options`; others stay.

        Raises
        ------
        ValueError
            If an option has the wrong form, or does not suit the policy.

        Examples
        --------
        >>> from tvbandits import Candidates, Limit, policies
        >>> sites = Candidates([[0.0], [1.0], [2.0], [3.0]])
        >>> quiet = Limit("noise_level", at_most=60, noise_variance=1.0)
        >>> bandit = policies.adaptive_gp_ucb(sites, noise_variance=0.01)
        >>> bandit = bandit.with_options(limits=[quiet], safe=[[0.0], [1.0]])
        >>> for t in (1, 2):
        ...     X = bandit.ask(t)
        ...     info = bandit.tell(X, X[:, 0], t, outcomes={"noise_level": 40.0 + X[:, 0]})
        >>> print(bandit.history["noise_level"].tolist())
        [40.0, 41.0]
        """
        check_changes(changes)
        options: Any = {**vars(self._recipe.options), **changes}
        state = self.state
        if "control" in changes:  # the prior depends on the control
            state = replace(state, posterior=None)
        return Bandit.from_state(replace(self._recipe, options=Options(**options)), state)

    def learn_from(self, other: Any) -> Bandit:
        """Return this bandit with a prior learned from another bandit in a similar situation.

        It adopts rates, scales and weights of models, but no readings (`bandit.step.warm_start`).

        Parameters
        ----------
        other : Bandit, Campaign or State
            Its rewards are used, whichever policy played them. Its candidates may differ.

        Raises
        ------
        ValueError
            If `other` has no state or no rewards, its points have another number of coordinates, or this
            bandit learns no rate, scale or weight.

        Examples
        --------
        >>> from tvbandits import Candidates, policies
        >>> last_year = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0], [2.0]]))
        >>> info = last_year.tell([[0.0], [1.0]] * 9, [1.0, 9.0] * 9, range(18))
        >>> here = policies.adaptive_gp_ucb(Candidates([[0.0], [0.5]])).learn_from(last_year)
        >>> print(len(here.recipe.posterior.prior_weights) > 0, len(here.history))
        True 0
        """
        return Bandit.from_state(*warm_start(self._recipe, self.state, other))

    @lock_calls
    def tell(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted,
        t: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
        context: Context = None,
    ) -> Info:
        """Learn rewards; then query the expert, if there is one and a query is due.

        A call that fails changes nothing. After an interrupt (Ctrl-C), `info.readings` and `info.failed`
        show whether the call had happened: the interrupt may have come just before the return.

        Parameters
        ----------
        X : array of shape (n, d)
            The points that were played, which need not be those of `ask`.
        y : array of shape (n,), or a result of `rate` or `count`
            Their rewards; True is 1, False is 0. NaN: you played the point, but the reading failed. The
            play counts, the point is no longer pending, and the bandit learns nothing from it; a later
            reading of the same point and time replaces it.
        t : float or array of shape (n,), optional
            The times of the rewards, in any order. By default the time for which a point was asked; for
            other points the time of the pending decision, or else one unit after the latest reward.
        noise_variance : float or array of shape (n,), optional
            Noise variance of the rewards; by default the recipe's, or the learned one.
        outcomes : mapping of str to array of shape (n,), optional
            The readings of limited outcomes, by name; NaN, or no such name: not read.
        context : mapping or array, optional
            The context of all points, if it is measured; by default that of the `ask` for each point.
            Points as `ask` returned them contain it.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is infinite, a variance is not positive, a point lies outside
            the domain, or an outcome has no limit.
        OutlierWarning
            If the distance of a reward from all others exceeds 1,000 times their range, such as the loss
            of a training that diverged; not if the bandit is `robust`.
        ExpertError
            If the expert answers in a wrong form, or raises an error that shows a mistake in its code.
            After any other error the expert counts as down: the bandit continues without its answers,
            with one `ExpertDownWarning` for each outage.
        """
        recipe, before = self._recipe, self._state
        if not recipe.offers_all or context is not None:
            X = add_context(recipe.domain, X, context, before.pending, t)
        new = validate_observations(recipe, before.record, X, y, t, noise_variance)
        rng = self._inference.take_generator(before.random)
        state = observe(self._inference, self._outcome_models, before, new, outcomes, rng)
        state = query_after_tell(self._inference, before, state, new, rng)
        if not recipe.options.robust:
            warn_of_outlier(before.rewards.y, new, y)
        skip_unasked(rng, before.record, state.record, new)
        self._state = replace(state, random=self._inference.store_generator(rng))
        return self._state.info

    @lock_calls
    def correct(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted | None = None,
        t: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
        *,
        to: ArrayLike | None = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
    ) -> Info:
        """Replace rewards, such as a misprint or a revised reading.

        The bandit continues as if you had told the right rewards at first, in the same order. It learns
        unit, kernel, rates and posterior again, which takes as long as all the calls so far. Pending
        points, expert queries and the random numbers stay as they are. The expert does not forget a
        wrong reward that it was shown.

        Parameters
        ----------
        X : array of shape (n, d)
            The points of these rewards.
        y : array of shape (n,), optional
            The right rewards, as for `tell`; NaN: the reading failed. By default they stay.
        t : float or array of shape (n,), optional
            The recorded times of these rewards; by default the latest of each point.
        noise_variance : float or array of shape (n,), optional
            Noise variance of the rewards; by default it stays.
        to : float or array of shape (n,), optional
            The right times, if the recorded ones are wrong.
        outcomes : mapping of str to array of shape (n,), optional
            The right readings of outcomes, by name.

        Raises
        ------
        ValueError
            If a point has no reading at its time, an argument has a wrong form, or nothing changes.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
        >>> info = bandit.tell([[0.0], [1.0]], [0.2, 50.0], 1)
        >>> info = bandit.correct([[1.0]], [0.5], 1)
        >>> print(bandit.state.rewards.y)
        [0.2 0.5]
        """
        recipe, state, points = self._recipe, self._state, self._add_last_context(X, t)
        correction = validate_correction(recipe, state, points, y, t, noise_variance, to, outcomes)
        values = self._outcome_models.validate(outcomes, len(correction.rows))
        states = self._outcome_models.correct(state, correction, values)
        state = replay(self._inference, state, correction.after)
        self._state = replace(state, outcomes=states)
        return self._state.info

    @lock_calls
    def retract(self, X: ArrayLike | Named, t: ArrayLike | None = None) -> Info:
        """Remove rewards, as if you had never told them; see `correct`.

        Parameters
        ----------
        X : array of shape (n, d)
            The points of these rewards.
        t : float or array of shape (n,), optional
            The recorded times of these rewards; by default the latest of each point.

        Raises
        ------
        ValueError
            If a point has no reading at its time.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
        >>> info = bandit.tell([[0.0]], [0.2], 8768)  # the wrong year
        >>> print(bandit.retract([[0.0]], 8768).readings, bandit.state.time)
        0 None
        """
        correction = find_readings(self._recipe, self._state, self._add_last_context(X, t), t)
        states = self._outcome_models.correct(self._state, correction, retract=True)
        state = replay(self._inference, self._state, correction.rest)
        self._state = replace(state, outcomes=states)
        return self._state.info

    def _add_last_context(self, X: ArrayLike | Named, t: ArrayLike | None) -> Any:
        """Return points with the measured context of their last play, at or before their time."""
        return add_context(self._recipe.domain, X, None, self._state.record.plays, t)

    @lock_calls
    def with_candidates(self, X: ArrayLike | Sequence[str]) -> Bandit:
        """Return a bandit with the same state on other candidates, of which some may be new.

        The others are retired: their readings still inform about the remaining candidates, and further
        ones may arrive. New candidates are treated as if they had been there from the start. Kernel,
        unit and rates stay as learned. This bandit does not change; both share the expert.

        Parameters
        ----------
        X : array of shape (A, d), or names
            The new candidates, to whose rows `available=` refers. On `Arms`, their names: present arms
            keep their rows, and new ones follow.

        Raises
        ------
        ValueError
            If the domain is neither `Arms` nor candidates without names, or `X` does not suit it.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
        >>> info = bandit.tell([[0.0], [1.0]], [0.2, 0.5], 1)
        >>> bandit = bandit.with_candidates([[1.0], [2.0]])
        >>> print(bandit.ask(2), len(bandit.state.rewards))
        [[2.]] 2
        """
        return self.move_to(change_candidates(self._recipe, self._get_state(), X))

    def move_to(self, domain: Candidates | CandidatesInContext) -> Bandit:
        """Return this bandit on candidates that include all points of its state."""
        return Bandit.from_state(*move_to_candidates(self._recipe, self._get_state(), domain))

    @lock_calls
    def drop(self, X: ArrayLike | Named) -> None:
        """Remove pending points that will not be played.

        Parameters
        ----------
        X : array of shape (n, d)
            If a point is pending several times, the oldest is removed.

        Raises
        ------
        ValueError
            If a point is not pending.
        """
        state, domain = self._state, self._recipe.domain
        points = domain.check(add_context(domain, X, None, state.pending))
        self._state = state.with_record(pending=state.pending.drop(points))

    @lock_calls
    def questions(self, t: float | None = None, available: Availability = None) -> Array:
        """Return the expert queries of the query plan, for experts that answer later.

        The queries count as sent. There are none if the queries for this decision were returned before.

        Parameters
        ----------
        t : float, optional
            The time of the queried rewards; by default that of the pending decision, or else that of the
            latest reward ("after tell") or the next decision ("before ask").
        available : mask, row numbers or function, optional
            Points that you can query the expert about now, as for `ask`.

        Returns
        -------
        points : array of shape (q, d)

        Raises
        ------
        ValueError
            If the recipe has no query plan, or `t` or `available` cannot be used.
        """
        recipe, state = self._recipe, self._state
        if recipe.query_config is None:
            raise ValueError(
                "questions need a query plan, and the recipe has none: "
                + choose_words("give query_config=...", "choose a policy with queries_per_step")
            )
        query_time = find_query_time(recipe, state, t)
        mask = check_availability(recipe.domain, available, None, any_context=True)
        rng = self._inference.take_generator(state.random)
        state, points = choose_queries_to_carry(self._inference, state, query_time, mask, rng)
        self._state = replace(state, random=self._inference.store_generator(rng))
        return points.copy()

    @lock_calls
    def answer(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: float | None = None,
        noise_variance: ArrayLike | None = None,
    ) -> Info:
        """Learn answers of an expert, which may arrive at any time, also in parts.

        Parameters
        ----------
        X : array of shape (q, d)
            Points of the domain, which need not be those of `questions`.
        values : array of shape (q,)
            The expert's values of their rewards; True is 1, False is 0; NaN: no answer.
        t : float, optional
            The time of these rewards; by default that of the last queries.
        noise_variance : float or array of shape (q,), optional
            Noise variance of the answers; the recipe's by default.

        Raises
        ------
        ValueError
            If the recipe has no query plan, or an argument has a wrong form.
        """
        recipe, state = self._recipe, self._state
        if recipe.query_config is None:
            raise ValueError(
                "answer needs a query plan, and the recipe has none: "
                + choose_words("give query_config=...", "choose a policy with queries_per_step")
            )
        query_time = find_query_time(recipe, state, state.queries.latest if t is None else t)
        answers, refused = validate_answers(recipe, X, values, query_time, noise_variance)
        self._state = update_answers(recipe.query_config, state, answers, refused, replaces=False)
        return self._state.info

    @lock_calls
    def correct_answers(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: float | None = None,
        noise_variance: ArrayLike | None = None,
    ) -> Info:
        """Replace answers of an expert, as `correct` replaces rewards; NaN removes an answer.

        Parameters
        ----------
        X, values, noise_variance : arrays of shape (q, d), (q,) and (q,)
            By default the variance stays.
        t : float, optional
            The time of the answers; by default the latest of each point.

        Raises
        ------
        ValueError
            If a point has no answer at that time, or an argument has a wrong form.

        Examples
        --------
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.frugal_gp_ucb(Candidates([[0.0], [1.0]]), expert=None)
        >>> info = bandit.answer([[0.0], [1.0]], [19.0, 1927.0], 1)
        >>> info = bandit.correct_answers([[1.0]], [19.27], 1)
        >>> print(bandit.state.answers.y)
        [19.   19.27]
        """
        recipe, state = self._recipe, self._state
        answers, _ = replace_answers(recipe, state.answers, X, values, t, noise_variance)
        table = ReadingTable.from_history(state, recipe.noise_variance)
        self._state = replay(self._inference, state.with_record(answers=answers), table)
        return self._state.info
