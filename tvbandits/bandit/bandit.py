"""The bandit: ask where to play, tell what came of it.

A `Recipe` says which parts a policy is made of; a `State` is everything it has learned. Both are frozen:
every call builds the next state aside and puts it in place in one assignment at the end, so a call that
fails leaves the bandit as it was. An interrupt alone (Ctrl-C) may also come between that assignment and
the return: then the call raises and has happened, wholly, and `state` shows it.
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
from tvbandits.bandit.history import history_columns
from tvbandits.bandit.inference import Inference
from tvbandits.bandit.info import Info
from tvbandits.bandit.initial_state import (
    change_candidates,
    check_state,
    first_state,
    move_to_candidates,
    state_for,
)
from tvbandits.bandit.observations import (
    ReadingTable,
    corrected_answers,
    find_readings,
    skip_unasked,
    validate_answers,
    validate_correction,
    validate_observations,
)
from tvbandits.bandit.options import OptionChanges, Options, check_changes
from tvbandits.bandit.querying import (
    concerns_questions,
    queries_to_carry,
    query_after_tell,
    query_before_ask,
    question_time,
    update_answers,
)
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State, generator_of, same_value
from tvbandits.bandit.step import (
    OutcomeModels,
    Request,
    check_reachable,
    find_place,
    level_of_control,
    observe,
    recommend,
    replay,
    suggest,
    warm_start,
)
from tvbandits.counts import Counted
from tvbandits.domains.availability import Availability, availability_of, decision_domain
from tvbandits.domains.candidates import Candidates, CandidatesInContext
from tvbandits.domains.domain import Context, add_context, as_inputs
from tvbandits.domains.parameters import Named
from tvbandits.domains.space import MOST_POINTS, check_search
from tvbandits.errors import PlayError
from tvbandits.experts.protocol import restore_state, state_of
from tvbandits.gp.noise import NoiseEstimate
from tvbandits.io import save_value
from tvbandits.text import as_html
from tvbandits.threads import Turns, in_turn
from tvbandits.validation import Array, as_generator, as_time, flag, of_kind, whole_number


class Bandit:
    """A bandit: `ask` for points to play, `tell` their rewards.

    Parameters
    ----------
    recipe : Recipe
    seed : int or numpy.random.Generator
        The only source of randomness. A generator is not advanced: a child is spawned from it. What a
        bandit draws depends on the seed and on the number of rewards told that it did not ask for.

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
        of_kind("recipe", recipe, Recipe, "a Recipe")
        self._initialize(recipe, first_state(recipe, as_generator(seed)))

    def _initialize(self, recipe: Recipe, state: State) -> None:
        self._recipe, self._state, self._turns = recipe, state, Turns()
        self._inference, self._outcome_models = Inference(recipe), OutcomeModels(recipe)

    @classmethod
    def from_state(cls, recipe: Recipe, state: State) -> Bandit:
        """Continue from `state` as if nothing had happened in between, bit for bit.

        The recipe may also be another one than the state comes from: what was told stays, and what
        was computed from it by other parts is computed again. An expert of the same kind is given back
        what it knew, such as how much of its budget is spent.

        Raises
        ------
        ValueError
            If a point that was played, or that is pending, lies outside the recipe's domain.
        """
        check_state(recipe, state)
        bandit = cls.__new__(cls)
        bandit._initialize(recipe, state_for(recipe, state))
        expert = None if recipe.asking is None else recipe.asking.expert
        memory, saved = state_of(expert), state.queries.expert
        if memory is not None and saved and memory["kind"] == saved["kind"]:
            restore_state(expert, saved)
        return bandit

    @classmethod
    def __restored__(cls, recipe: Recipe, state: State) -> Bandit:
        return cls.from_state(recipe, state)

    def __repr__(self) -> str:
        state = self._state
        at = "at the start" if state.time is None else f"at t = {state.time:g}"
        pending = f", {len(state.pending)} pending" if len(state.pending) else ""
        return f"<Bandit on {self._recipe.domain!r}, {state.count} rewards told{pending}, {at}>"

    def _repr_html_(self) -> str:
        recipe = self._recipe
        parts = [("domain", recipe.domain), ("kernel", self._state.model.kernel)]
        parts += [("aging", self._state.model.aging), ("width", recipe.beta)]
        parts += [("noise variance", self.noise)]
        return as_html("Bandit", [*parts, *self._state.summary])

    @property
    def recipe(self) -> Recipe:
        """The parts this bandit is made of."""
        return self._recipe

    @property
    def state(self) -> State:
        """Everything it has learned, frozen, with what its expert knows where that can be taken."""
        # From inside of a call, such as by its expert: the state from before that call.
        return self._whole() if self._turns.mine else in_turn(Bandit._whole)(self)

    def _whole(self) -> State:
        asking = self._recipe.asking
        memory = None if asking is None else state_of(asking.expert)
        if memory is not None and not same_value(memory, self._state.queries.expert):
            self._state = self._state.with_queries(expert=memory)
        return self._state

    @property
    def _size(self) -> int:
        return len(self._state.rewards.t) + len(self._state.answers.t)

    @property
    def info(self) -> Info:
        """What happened in the last `ask` and `tell`."""
        return self._state.info

    @property
    def noise(self) -> NoiseEstimate:
        """The noise variance of a reward without one of its own: given, or learned, with an interval.

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
        """Points asked and not yet told, in the order they were asked, shape (k, d)."""
        return self._state.pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked: time, coordinates, reward, variance, source, kind.

        With limits also what was read of each outcome, and how many limits that violates: as read. With
        a control also `relative`: the reward less what the control gave at that time. Where moves cost
        something, also `move_cost`: of going to a point from the one before it.
        """
        state, options, fill = self._state, self._recipe.options, self._inference.with_noise
        outliers = None if state.outliers is None else fill(state, state.outliers.observations)
        columns = history_columns(
            state.domain,
            fill(state, state.rewards),
            fill(state, state.answers),
            state.failed,
            state.pending,
            {each: state.outcomes[each.name].rewards for each in options.limits},
            options.control,
            options.move_cost,
            outliers,
        )
        return pd.DataFrame(columns)

    @in_turn
    def predict(
        self,
        X: ArrayLike | Named,
        t: float | None = None,
        outcome: str | None = None,
        context: Context = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Posterior mean and deviation of the reward, in its unit; changes nothing.

        A learned kernel that has missed more than it said shows wider deviations
        (`IntervalCalibration`); where no reading has tested a learned variance, they are Student's
        (`ScaledPosterior.predict_reward`); and where readings are further from what the others say of
        them than they should be, all are wider (`excess_error`). Decisions take them as they are.

        Parameters
        ----------
        X : array of shape (m, d)
            Any finite points; on a space also a DataFrame or dictionaries.
        t : float, optional
            The time spoken about; by default the time of the next decision.
        outcome : str, optional
            Of this outcome instead, in its own unit.
        context : mapping or array, optional
            Of all points, where one is measured and they have none.
        relative : bool
            Beside the control at that time, which is what is learned: better by so much. Otherwise, with
            a control, at the mean and deviation of the levels at which it was read (`level_of_control`).

        Returns
        -------
        mean, deviation : arrays of shape (m,)

        Raises
        ------
        ValueError
            If a point or the time is not finite, or there is no limit on such an outcome; or no control.
        """
        if flag("relative", relative) and self._recipe.options.control is None:
            raise ValueError("nothing is relative without a control: see Options")
        points = as_inputs(self._recipe.domain, X, context)
        state, now = self._state, self._decision_time(t)
        if outcome is not None:
            if relative:
                raise ValueError(f"rewards alone are relative to the control, got {outcome=}")
            return self._outcome_models.predict(state, outcome, points, now)
        rng = generator_of(state.random)
        state, view = self._inference.condition(state, now, rng)
        mean, deviation = view.predict_reward(points, test=True)
        mean = -mean if self._recipe.minimize else mean
        own = self._recipe.is_control(points)
        mean[own], deviation[own] = 0.0, 0.0  # exactly, without rounding
        if relative or self._recipe.options.control is None:
            return mean, deviation
        level, spread = level_of_control(self._recipe, state.rewards, view.scale)
        return mean + level, np.hypot(deviation, spread)

    @in_turn
    def recommend(
        self, t: float | None = None, available: Availability = None, context: Context = None
    ) -> Array:
        """The point (d,) of the best posterior mean at time `t`, by default the next decision's.

        Parameters
        ----------
        t : float, optional
        available, context
            What is available, as for `ask`.

        Raises
        ------
        ValueError
            As for `ask`; or if nothing was told or answered yet.
        NothingAvailableError
            If nothing is available.
        """
        request = self._request(t, None, available, context, None)
        if not (len(self._state.rewards) or len(self._state.answers)):
            raise ValueError("there is nothing to recommend: no reading and no answer was told yet")
        rng = generator_of(self._state.random)
        return recommend(self._inference, self._outcome_models, self._state, request, rng)

    @in_turn
    def best_point(self, t: float | None = None) -> Array:
        """Return the point (d,) of the best mean at a time, of any context, whatever was told so far."""
        request = Request(self._decision_time(t), None, self._recipe.domain)
        rng = generator_of(self._state.random)
        return recommend(self._inference, self._outcome_models, self._state, request, rng)

    def _request(
        self,
        t: float | None,
        n: int | None,
        available: Availability,
        context: Context,
        near: float | None,
    ) -> Request:
        """Return what a decision is asked for, checked."""
        domain, mask = self._recipe.domain, None
        if not (self._recipe.offers_all and available is None and context is None):
            domain, mask = decision_domain(domain, available, context)
        return Request(self._decision_time(t), n, domain, mask, near)

    def _decision_time(self, t: float | None) -> float:
        return self._state.record.decision_time if t is None else as_time(t)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that no code can be run from; `tvbandits.load` goes on with it.

        The recipe and the state, wholly or not at all: a file of that name stays as it was until the new
        one is on the disk. Parts that are not of this package, such as an expert of your own, are
        written by name, and must be handed over when the file is loaded.

        Raises
        ------
        ValueError
            If a part has no name by which it could be handed over, such as a lambda.
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

    @in_turn
    def ask(
        self,
        t: float | None = None,
        n: int | None = None,
        available: Availability = None,
        context: Context = None,
        near: float | None = None,
    ) -> Array:
        """Where to play at time `t`, shape (b, d).

        Pending points count: the variance around them is lower, so that repeated asks spread out. A
        point that is pending for the same time comes again only if nothing else is left. Where moves
        cost something, the bandit chooses each of several points by its cost from the last point, and
        returns them in the order of a tour: each time the nearest that is left.

        Parameters
        ----------
        t : float, optional
            Time of the decision; by default one unit after the latest time told, 1 at the start.
        n : int, optional
            Number of points, distinct where the domain has as many; by default the batch rule decides,
            one point for most policies. If `n` exceeds the number of available points (100 visits, 8
            banners), each gets the share of draws from the beliefs in which it is the best (Thompson
            shares). A control counts among the `n`, and comes first unless it was asked or told for that
            time already: then at least 2, and by default one more than the batch rule says. Where each
            point is searched for, on a box or a large space, at most 100; and with limits, `available`,
            `near` or a move cost, or bounds without slopes (of `bbkb`, or of `adaptive_gp_ucb` with a
            kernel), at most 60 in 2 dimensions, 30 in 3, 15 in 4 and 10 in more.
        available : mask (A,), row numbers, ranges by name, or function of points (m, d), optional
            What is available now: of candidates a mask, row numbers or names; or the range of each
            coordinate that has one, as in `{"x0": (0, 5), "fuel": ["gas"]}`, or a function from points
            to a mask; on a space the points are a frame with its names.
        context : mapping of str to values, or array of shape (c,), optional
            What you measure now, where the domain has a context: `{"outside": 3.2}`; the points returned
            end with it. Or values of the context columns of `Candidates`: only rows with these are
            available. Needed where the domain has either, unless all rows of `available` have the same
            context.
        near : float, optional
            No point may be farther than this from the last one played, or asked and not dropped
            (`domains.moving.distances`).

        Raises
        ------
        ValueError
            If `t` is not finite, or before a time already told; if `n` is not a whole number of at least
            1, or more than can be searched for; if `available` or `context` do not suit the domain; if
            `near` is not above 0, or no point was played yet.
        NothingAvailableError
            If nothing is available.
        ExpertError
            If the bandit asks its expert before decisions, and the expert is broken.
        """
        state, recipe = self._state, self._recipe
        now = self._decision_time(t)
        if state.time is not None and now < state.time:
            raise PlayError(
                "cannot ask for {t}: a reading at {latest} is told", t=now, latest=state.time
            )
        if n is not None:
            whole_number("n", n, at_most=MOST_POINTS)
            limited = bool(recipe.options.limits) or recipe.options.move_cost is not None
            obstacle = "" if recipe.bounds_have_slopes else "under bounds without slopes"
            if limited or available is not None or near is not None:
                obstacle = "within limits, `available`, `near` or move costs"
            check_search(n, recipe.domain, obstacle)
        request = self._request(now, n, available, context, near)
        rng = self._inference.generator(state.random)
        # Where it may play is checked first: an expert is not paid for a call that is refused.
        place = find_place(recipe, state, request)
        domain, mask = request.domain, request.available
        if recipe.asking is not None and concerns_questions(recipe, state, domain, mask):
            if recipe.asking.expert is not None:
                check_reachable(request, place)
            state = query_before_ask(self._inference, state, now, domain, mask, rng)
        state, X = suggest(self._inference, self._outcome_models, state, request, place, rng)
        self._state = replace(state, random=self._inference.random_state(rng))
        return X

    def with_options(self, **changes: Unpack[OptionChanges]) -> Bandit:
        """Return the same bandit with some `Options` changed: it goes on with what it has learned.

        Parameters
        ----------
        changes
            As `Options` calls them; those that are not named stay.

        Raises
        ------
        ValueError
            If an option is not of its form, or does not suit the policy.

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
        if "control" in changes:  # another one is another prior
            state = replace(state, posterior=None)
        return Bandit.from_state(replace(self._recipe, options=Options(**options)), state)

    def learn_from(self, other: Any) -> Bandit:
        """The same bandit, which begins with what another one on similar ground has learned.

        Rates, scales and weights of models are taken, readings are not (`bandit.step.warm_start`).

        Parameters
        ----------
        other : Bandit, Campaign or State
            What was told there counts, whoever played it. Candidates may differ.

        Raises
        ------
        ValueError
            If it has no state, points there have another number of coordinates, nothing was told there,
            or there is nothing to be learned here.

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

    @in_turn
    def tell(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted,
        t: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
        context: Context = None,
    ) -> Info:
        """Learn rewards; then ask the expert, if there is one and it is its turn.

        A call happens wholly or not at all: whatever is wrong, the bandit stays as it was. After an
        interrupt (Ctrl-C), `info.readings` and `info.failed` say which of the two: the interrupt may
        have come just before the return.

        Parameters
        ----------
        X : array of shape (n, d)
            The points that were played, asked for or not.
        y : array of shape (n,), or what `rate` and `count` return
            Their rewards; True is 1, False is 0. NaN: you played the point, and there is no reading. The
            play counts, the point is no longer pending, and the bandit learns nothing from it; a later
            reading of the same point and time takes its place.
        t : float or array of shape (n,), optional
            The times of the rewards; older ones than the latest are welcome. By default the time that
            each point was asked for; of any other point that of the decision still pending, or else one
            unit after the latest time told.
        noise_variance : float or array of shape (n,), optional
            Noise variance of the rewards; by default the recipe's, or the learned one.
        outcomes : mapping of str to array of shape (n,), optional
            Further readings, for the limits, by name; NaN, or no such name: not read.
        context : mapping or array, optional
            Of all points, where you measure one; by default that of the `ask` of each. Points as
            `ask` returned them have it.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is infinite, a variance is not positive, a point lies outside
            the domain, or there is no limit on an outcome.
        OutlierWarning
            If a reward lies more than 1,000 ranges of all others outside of them, such as the loss of a
            training that diverged; not if the bandit is `robust`.
        ExpertError
            If the expert answers in a wrong form, or raises what Python raises for mistakes in a
            program. An expert that raises anything else is down: the bandit goes on without its
            answers, with one `ExpertDownWarning` for every outage.
        """
        recipe, before = self._recipe, self._state
        if not recipe.offers_all or context is not None:
            X = add_context(recipe.domain, X, context, before.pending, t)
        new = validate_observations(recipe, before.record, X, y, t, noise_variance)
        rng = self._inference.generator(before.random)
        state = observe(self._inference, self._outcome_models, before, new, outcomes, rng)
        state = query_after_tell(self._inference, before, state, new, rng)
        if not recipe.options.robust:
            warn_of_outlier(before.rewards.y, new, y)
        skip_unasked(rng, before.record, state.record, new)
        self._state = replace(state, random=self._inference.random_state(rng))
        return self._state.info

    @in_turn
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
        """Replace rewards that you told: a slip of the pen, a revised reading.

        The bandit goes on as if you had told the right rewards at once, in the same order. It learns
        unit, kernel, rates and beliefs again, which takes as long as all of them took, with a decision
        before each time told. Pending points, questions and the random stream stay as they are. An
        expert that saw a reward keeps what it learned from it.

        Parameters
        ----------
        X : array of shape (n, d)
            The points of these rewards.
        y : array of shape (n,), optional
            The right rewards, as for `tell`; NaN: there was no reading. By default they stay.
        t : float or array of shape (n,), optional
            The times that you told with them; by default the latest of each point.
        noise_variance : float or array of shape (n,), optional
            Noise variance of the rewards; by default it stays.
        to : float or array of shape (n,), optional
            The right times, where those were wrong.
        outcomes : mapping of str to array of shape (n,), optional
            The right readings of outcomes, by name.

        Raises
        ------
        ValueError
            If you told nothing of a point at its time, an argument has a wrong form, or all stays.

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
        recipe, state, points = self._recipe, self._state, self._played(X, t)
        correction = validate_correction(recipe, state, points, y, t, noise_variance, to, outcomes)
        right = self._outcome_models.validate(outcomes, len(correction.rows))
        states = self._outcome_models.correct(state, correction, right)
        state = replay(self._inference, state, correction.after)
        self._state = replace(state, outcomes=states)
        return self._state.info

    @in_turn
    def retract(self, X: ArrayLike | Named, t: ArrayLike | None = None) -> Info:
        """Take rewards back, as if you had never told them; see `correct`.

        Parameters
        ----------
        X : array of shape (n, d)
            The points of these rewards.
        t : float or array of shape (n,), optional
            The times that you told with them; by default the latest of each point.

        Raises
        ------
        ValueError
            If you told nothing of a point at its time.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
        >>> info = bandit.tell([[0.0]], [0.2], 8768)  # the wrong year
        >>> print(bandit.retract([[0.0]], 8768).readings, bandit.state.time)
        0 None
        """
        correction = find_readings(self._recipe, self._state, self._played(X, t), t)
        states = self._outcome_models.correct(self._state, correction, retract=True)
        state = replay(self._inference, self._state, correction.rest)
        self._state = replace(state, outcomes=states)
        return self._state.info

    def _played(self, X: ArrayLike | Named, t: ArrayLike | None) -> Any:
        """Points with the context that they were played at last, by a time, where one is measured."""
        return add_context(self._recipe.domain, X, None, self._state.record.plays, t)

    @in_turn
    def with_candidates(self, X: ArrayLike | Sequence[str]) -> Bandit:
        """A bandit that goes on with other candidates: it adds some and retires others.

        Readings of retired candidates still tell about the others, and late ones are welcome. Those that
        are new count as if they had been there from the start. Kernel, unit and rates stay as learned.
        This bandit stays as it is; both have the expert.

        Parameters
        ----------
        X : array of shape (A, d), or names
            The candidates from now on; `available=` goes by these rows. On `Arms`, names: known names
            keep their rows, and new ones come last.

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
        return self.on(change_candidates(self._recipe, self._whole(), X))

    def on(self, domain: Candidates | CandidatesInContext) -> Bandit:
        """The same bandit on candidates that hold all that it knows of; see `with_candidates`."""
        return Bandit.from_state(*move_to_candidates(self._recipe, self._whole(), domain))

    @in_turn
    def drop(self, X: ArrayLike | Named) -> None:
        """Give up on pending points that nobody will play.

        Parameters
        ----------
        X : array of shape (n, d)
            Of equal pending points each drops the oldest.

        Raises
        ------
        ValueError
            If one of them is not pending.
        """
        state, domain = self._state, self._recipe.domain
        points = domain.check(add_context(domain, X, None, state.pending))
        self._state = state.with_record(pending=state.pending.drop(points))

    @in_turn
    def questions(self, t: float | None = None, available: Availability = None) -> Array:
        """The questions of the query plan now, for experts whose answers take time.

        The questions count as asked. There are none once the decision has had its own.

        Parameters
        ----------
        t : float, optional
            The time that the questions are about; by default that of the pending decision, or else
            the latest time told ("after tell") or the next decision's ("before ask").
        available : mask, row numbers or function, optional
            Points that you can ask about now, as for `ask`.

        Returns
        -------
        points : array of shape (q, d)

        Raises
        ------
        ValueError
            If the recipe has no query plan, or `t` or `available` cannot be used.
        """
        recipe, state = self._recipe, self._state
        if recipe.asking is None:
            raise ValueError("there is nothing to ask: the recipe has no query plan (asking=None)")
        about = question_time(recipe, state, t)
        mask = availability_of(recipe.domain, available, None, any_context=True)
        rng = self._inference.generator(state.random)
        state, points = queries_to_carry(self._inference, state, about, mask, rng)
        self._state = replace(state, random=self._inference.random_state(rng))
        return points.copy()

    @in_turn
    def answer(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: float | None = None,
        noise_variance: ArrayLike | None = None,
    ) -> Info:
        """Take answers of an expert, whenever they come, whole or in parts.

        Parameters
        ----------
        X : array of shape (q, d)
            Points of the domain, asked about or not.
        values : array of shape (q,)
            The reward there, as the expert says; True is 1, False is 0; NaN: no answer.
        t : float, optional
            The time that the answers speak about; by default that of the last questions.
        noise_variance : float or array of shape (q,), optional
            Noise variance of the answers; the recipe's by default.

        Raises
        ------
        ValueError
            If the recipe has no query plan, or an argument has a wrong form.
        """
        recipe, state = self._recipe, self._state
        if recipe.asking is None:
            raise ValueError("there is nothing to answer: the recipe has no query plan")
        about = question_time(recipe, state, state.queries.latest if t is None else t)
        answers, refused = validate_answers(recipe, X, values, about, noise_variance)
        self._state = update_answers(recipe.asking, state, answers, refused, replaces=False)
        return self._state.info

    @in_turn
    def correct_answers(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: float | None = None,
        noise_variance: ArrayLike | None = None,
    ) -> Info:
        """Replace answers of an expert, as `correct` does rewards; NaN withdraws one.

        Parameters
        ----------
        X, values, noise_variance : arrays of shape (q, d), (q,) and (q,)
            By default the variance stays.
        t : float, optional
            The time that they speak about; by default the latest of each point.

        Raises
        ------
        ValueError
            If there is no answer about a point at that time, or an argument has a wrong form.

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
        answers, _ = corrected_answers(recipe, state.answers, X, values, t, noise_variance)
        table = ReadingTable.of(state, recipe.noise_variance)
        self._state = replay(self._inference, state.with_record(answers=answers), table)
        return self._state.info
