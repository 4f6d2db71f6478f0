"""The bandit: ask where to play, tell what came of it.

A `Recipe` says which parts a policy is made of; a `State` is everything it has learned. Both are frozen:
every call builds the next state aside and puts it in place in one assignment at the end, so a call that
fails leaves the bandit as it was. An interrupt alone (Ctrl-C) may also come between that assignment and
the return: then the call raises and has happened, wholly, and `state` shows it.

What a bandit shows without changing, and what all of its calls share: one at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.acquisition.availability import Allowed, Among, Available, at_hand, available
from tvbandits.acquisition.batch_rules import One
from tvbandits.acquisition.rules import Decision, chosen
from tvbandits.bandit import consulting
from tvbandits.bandit.inference import Model
from tvbandits.bandit.learning import retold, with_rewards
from tvbandits.bandit.limited import Outcomes, play_within, where_limits_hold
from tvbandits.bandit.recipe import (
    Recipe,
    first_state,
    on_candidates,
    points_to_keep,
    state_for,
)
from tvbandits.bandit.state import Info, State, generator_of, same_value
from tvbandits.bandit.told import (
    ToldReadings,
    checked_answers,
    checked_told,
    corrected,
    decision_time,
    readings_at,
    values_and_variance,
)
from tvbandits.core.arrays import Array, Index, as_generator, as_points, as_time, whole_number
from tvbandits.core.candidates import Candidates
from tvbandits.core.coercion import of_kind
from tvbandits.core.context import Context, completed
from tvbandits.core.counts import Counted
from tvbandits.core.files.saving import save_value
from tvbandits.core.limits import Limit, as_outcomes
from tvbandits.core.observations import Plays
from tvbandits.core.parameters import has_names
from tvbandits.core.protocols import Domain, restored, state_of
from tvbandits.core.space import Arms
from tvbandits.core.tables import as_html, history_of
from tvbandits.core.threads import Turns
from tvbandits.gp.fitting.noise import NoiseEstimate
from tvbandits.gp.posteriors.leaders import Request
from tvbandits.queries.asking import show

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
T = TypeVar("T")

MOST_POINTS = 100_000
"""Most points of one ask."""

LARGE = 2000
"""With more observations, several BLAS threads help."""


def in_turn(
    method: Callable[Concatenate[Bandit, P], T],
) -> Callable[Concatenate[Bandit, P], T]:
    """One call at a time, with one BLAS thread unless there is much to compute.

    Other threads wait, and a call from inside of a call is refused.
    """

    @wraps(method)
    def call(self: Bandit, /, *args: P.args, **kwargs: P.kwargs) -> T:
        small = len(self._state.rewards.y) + len(self._state.answers.y) <= LARGE
        return self._turns.take(method.__name__, partial(method, self, *args, **kwargs), small)

    return call


class Bandit:
    """A bandit: `ask` for points to play, `tell` their rewards.

    Parameters
    ----------
    recipe : Recipe
    seed : int or numpy.random.Generator
        The only source of randomness. A generator is not advanced: a child is spawned from it.

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
    >>> print(bandit.recommend(), info.told)
    [7.] 30
    """

    def __init__(self, recipe: Recipe, *, seed: int | np.random.Generator = 0) -> None:
        of_kind("recipe", recipe, Recipe, "a Recipe")
        rng = as_generator(seed)
        if rng is seed:
            (rng,) = rng.spawn(1)
        self._recipe, self._state = recipe, first_state(recipe, rng)
        self._model, self._outcomes = Model(recipe), Outcomes(recipe)
        self._live: tuple[Mapping[str, Any], np.random.Generator] | None = None
        self._turns = Turns()

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
        given: tuple[object, object] = (recipe, state)
        if not (isinstance(given[0], Recipe) and isinstance(given[1], State)):
            names = " and ".join(type(part).__name__ for part in given)
            raise ValueError(
                f"from_state takes a Recipe and then a State, got {names} as recipe and state"
            )
        if state.rewards.dimension != recipe.domain.dimension:
            raise ValueError(
                f"the state has points of {state.rewards.dimension} coordinates, "
                f"the recipe's domain of {recipe.domain.dimension}"
            )
        recipe.domain.check(state.visited, "points played")
        recipe.domain.check(state.pending.X, "points pending")
        bandit = cls(recipe)
        bandit._state = state_for(recipe, state)
        expert = None if recipe.asking is None else recipe.asking.expert
        known = state_of(expert)
        if known is not None and state.expert and known["kind"] == state.expert["kind"]:
            restored(expert, state.expert)
        return bandit

    @classmethod
    def __restored__(cls, recipe: Recipe, state: State) -> Bandit:
        return cls.from_state(recipe, state)

    def __repr__(self) -> str:
        state = self._state
        at = "at the start" if state.time is None else f"at t = {state.time:g}"
        out = f", {len(state.pending)} out" if len(state.pending) else ""
        return f"<Bandit on {self._recipe.domain!r}, {len(state.rewards)} rewards told{out}, {at}>"

    def _repr_html_(self) -> str:
        recipe = self._recipe
        parts = [("domain", recipe.domain), ("kernel", self._state.model.kernel)]
        parts += [("aging", self._state.model.aging), ("width", recipe.confidence)]
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
        return self._whole() if self._turns.mine else self._turns.take("state", self._whole)

    def _whole(self) -> State:
        expert = None if self._recipe.asking is None else self._recipe.asking.expert
        known = state_of(expert)
        if known is not None and not same_value(known, self._state.expert):
            self._state = replace(self._state, expert=known)
        return self._state

    @property
    def info(self) -> Info:
        """What happened in the last `ask` and `tell`."""
        return self._state.info

    @property
    def noise(self) -> NoiseEstimate:
        """The noise variance of a reward told without one: as given, or learned, with its doubt.

        Examples
        --------
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0]]))
        >>> info = bandit.tell([[0.0]] * 4, [0.2, 0.5, 0.4, 0.3], 1)
        >>> print(bandit.noise.low < bandit.noise.variance < bandit.noise.high)
        True
        """
        known = self._model.noise_variance(self._state)
        return self._state.model.noise or NoiseEstimate(known, known, known)

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, in the order they were asked, shape (k, d)."""
        return self._state.pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked: time, coordinates, reward, variance, source, kind.

        With limits also what was read of each outcome, and how many limits that violates: as read. With
        a control also `relative`: the reward less what the control gave at that time.
        """
        state, known = self._state, self._model.known
        rewards, answers = known(state, state.rewards), known(state, state.answers)
        read = {each: state.outcomes[each.name].rewards for each in self._recipe.limits}
        columns = rewards, answers, state.failed, state.pending, read, self._recipe.control
        aside = None if state.outliers is None else known(state, state.outliers.seen)
        return history_of(state.domain, *columns, aside)

    @in_turn
    def predict(
        self,
        X: ArrayLike,
        t: float | None = None,
        outcome: str | None = None,
        context: Context = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Posterior mean and deviation of the reward, in its unit; changes nothing.

        A learned kernel that has missed more than it said shows wider deviations
        (`IntervalCalibration`), and where no reading has tested a learned variance, they are Student's
        (`View.reward`); decisions take them as they are.

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
            a control, at the mean of the levels at which it was read, and with their deviation.

        Returns
        -------
        mean, deviation : arrays of shape (m,)

        Raises
        ------
        ValueError
            If a point or the time is not finite, or there is no limit on such an outcome; or no control.
        """
        domain, control = self._recipe.domain, self._recipe.control
        if relative and control is None:
            raise ValueError("nothing is relative without a control: see with_control")
        encode = getattr(domain, "encode", None)
        given = completed(domain, X, context)
        given = encode(given) if encode is not None and has_names(given) else given
        points = as_points(given, domain.dimension)
        if outcome is not None:
            return self._outcomes.predict(self._state, outcome, points, self._decision_time(t))
        state, now, _ = self._conditioned_for(t)
        mean, deviation = self._model.view(state, now).reward(points)
        mean = -mean if self._recipe.minimise else mean
        levels = state.rewards.y[self._is_control(state.rewards.X)]
        if relative or not len(levels):
            return mean, deviation
        return mean + levels.mean(), np.hypot(deviation, levels.std())

    @in_turn
    def recommend(
        self, t: float | None = None, among: Among = None, context: Context = None
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
            As for `ask`; or if nothing was told or answered yet.
        NothingAvailableError
            If nothing is available.
        """
        domain, free = at_hand(self._recipe.domain, among, context)
        if not (len(self._state.rewards) or len(self._state.answers)):
            raise ValueError("there is nothing to recommend: no reward and no answer was told yet")
        return self._best(t, free, domain)

    def _best(self, t: float | None, free: Available | None, domain: Domain | None = None) -> Array:
        """The point of the best mean, of any context where none is said."""
        domain = self._recipe.domain if domain is None else domain
        state, now, rng = self._conditioned_for(t)
        if any(len(each.rewards) for each in state.outcomes.values()):
            _, outcomes, own = self._outcomes.believed(state, now)
            free, likeliest, holds = where_limits_hold(domain, free, outcomes, own)
            if not holds:
                return np.asarray(likeliest[0])
        decision = self._decision(state, now, 0.0, None, domain, free)
        if decision.leaders is not None:
            decision = decision.narrowed(Request(with_mean=True, times=0.0, enough=1))
        allowed = Allowed(decision.domain, decision.available, decision.taken[:0])
        return allowed.best(decision.view.mean_to_climb(), rng)

    def _conditioned_for(self, t: float | None) -> tuple[State, float, np.random.Generator]:
        """The state conditioned for a look that changes nothing, and a generator for its ties."""
        now, rng = self._decision_time(t), generator_of(self._state.random)
        return self._model.conditioned(self._state, now, rng), now, rng

    def _decision_time(self, t: float | None) -> float:
        if t is None:
            return decision_time(self._state)
        return as_time(t)

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
        recipe = kept["_recipe"]
        self.__dict__.update(kept, _live=None, _turns=Turns(), _model=Model(recipe))
        self._outcomes = Outcomes(recipe)

    @in_turn
    def ask(
        self,
        t: float | None = None,
        n: int | None = None,
        among: Among = None,
        context: Context = None,
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
            With a control, which comes first unless it was asked or told for that time already: so many
            with it, and at least 2 then; by default one more than the batch rule says. Else
            exactly so many points, distinct where the domain has as many; by default the batch rule
            decides, one point for most policies. Of more than the candidates that are available (100
            visits, 8 banners) each gets a share: that of draws from the beliefs in which it is the best
            (Thompson shares).
        among : mask (A,), row numbers, or function of points (m, d), optional
            What is available now: of candidates a mask or row numbers, of any other domain a function
            from points to a mask; on a space the points are a frame with its names.
        context : mapping of str to values, or array of shape (c,), optional
            What is measured now, where the domain has a context: `{"outside": 3.2}`; the points returned
            have it behind what is chosen. Or values of the context columns of `Candidates`: only rows
            with these are available. It must be given where there is either, unless `among` has rows
            of one context alone.

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
        state, now = self._state, self._decision_time(t)
        if state.time is not None and now < state.time:
            raise ValueError(f"cannot ask for t = {now}: a reward at t = {state.time} is told")
        if n is not None:
            whole_number("n", n, at_most=MOST_POINTS)
        domain, free = at_hand(self._recipe.domain, among, context)
        rng = self._generator(state)
        asks = self._recipe.asking is not None
        # Questions about a decision keep to what was available; nobody else looks at that.
        if asks and free is None and domain is not self._recipe.domain:
            free = Available(domain, None, None)
        kept = free if asks else None
        state = replace(state, questions=replace(state.questions, available=kept))
        about = consulting.about_before_ask(self._recipe, state, now) if asks else None
        if about is not None:
            state = consulting.with_answers_of_the_expert(
                self._recipe, self._model, state, about, rng
            )
        state = self._model.conditioned(state, now, rng)
        started = time.perf_counter()
        beta = self._model.beta(state)
        control = self._control_first(state, now, n, free)
        rest = None if n is None else n - len(control)
        decision = self._decision(state, now, beta, rest, domain, free)
        if rest == 0:
            X, looks = control[:0], 0
        elif self._outcomes:
            state, outcomes, own = self._outcomes.believed(state, now)
            start, rule = self._outcomes.start(state, free), self._recipe.acquisition
            X, looks = play_within(rule, decision, outcomes, start, rng, own)
            state = state if len(start) else self._outcomes.played(state, outcomes, X)
        else:
            X, looks = chosen(self._recipe.acquisition, decision, rng)
        X = np.concatenate([control, X]) if len(control) else X
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

    def _decision(
        self,
        state: State,
        now: float,
        beta: float,
        n: int | None,
        domain: Domain | None = None,
        free: Available | None = None,
    ) -> Decision:
        """What the acquisition is asked, of the recipe's domain or of another in its place."""
        recipe, out, taken = self._recipe, state.pending, state.pending.X[state.pending.t == now]
        if recipe.control is not None:  # it is no news of any effect, and comes once
            out = Plays(*(each[~self._is_control(out.X)] for each in (out.X, out.t)))
            taken = np.concatenate([taken, np.array(recipe.control)[None]])
        most = None if recipe.asking is None else recipe.asking.informed_width
        informed = state.questions.informed and most is not None
        noise = self._model.pending_noise(state, now, out) if len(out.t) else np.empty(0)
        heard = np.isfinite(noise)
        # Without a unit of the reward, a batch rule has nothing to compare the noise with.
        known = recipe.mean != "online" or len(state.rewards.y) + len(state.answers.y) > 0
        batching = recipe.batching if known else replace(recipe.batching, rule=One())
        return Decision(
            domain=recipe.domain if domain is None else domain,
            view=self._model.view(state, now),
            beta=min(beta, most) if informed and most is not None else beta,
            noise_variance=self._model.noise_variance(state),
            batching=batching,
            n=n,
            pending=out.X[heard],
            pending_noise=noise[heard],
            taken=taken,
            available=free,
            leaders=self._model.leaders(state),
        )

    def _is_control(self, X: Array) -> NDArray[np.bool_]:
        """Which of the points (n, d) are the control."""
        control = self._recipe.control
        if control is None:
            return np.zeros(len(X), dtype=bool)
        return np.asarray((np.array(control) == X).all(axis=1))

    def _control_first(
        self, state: State, now: float, n: int | None, free: Available | None
    ) -> Array:
        """The control (c, d), as often as it is to be played at a time before others are chosen.

        Once; of more points than there are candidates, in its equal share of them.
        """
        recipe = self._recipe
        none = np.empty((0, recipe.domain.dimension))
        if recipe.control is None:
            return none
        control = np.array(recipe.control)[None]
        known = any(
            (self._is_control(each.X) & (each.t == now)).any()
            for each in (state.pending, state.rewards, state.failed)
        )
        if known or not (free is None or free(control)[0]):
            return none
        if n == 1:
            raise ValueError(
                f"a batch with a control has at least 2 points, got n=1 at t = {now:g}: the control, "
                "and another that is held against it"
            )
        count = 1
        if n is not None and isinstance(recipe.domain, Candidates):
            there = len(recipe.domain) if free is None else int(free(recipe.domain.X).sum())
            count = max(1, n // there)
        return np.repeat(control, count, axis=0)

    def with_control(self, control: Any) -> Bandit:
        """The same bandit with a control in every batch, which the other points are held against.

        Where rewards go up and down for all points together, as by day and night, it learns how points
        differ: the level of each time is one number that nobody knows before, and readings of one time
        tell of each other by their differences alone. Tell the rewards of a batch at one time.

        Parameters
        ----------
        control : array of shape (d,)
            A point of the domain; on one with names, a name or a dictionary.

        Raises
        ------
        ValueError
            If it is no such point, or the bandit's posterior cannot take a control: it needs a kernel
            that is given and the exact posterior, or an ensemble on at most 200 candidates.

        Examples
        --------
        >>> from tvbandits import Arms, policies
        >>> arms = Arms(["old", "new", "bold"])
        >>> bandit = policies.adaptive_gp_ucb(arms, None, 0.01).with_control("old")
        >>> for hour in range(1, 25):
        ...     X = bandit.ask(hour, n=2)
        ...     day = 10.0 * (8 < hour < 20)
        ...     better = [{"new": 1.0}.get(name, 0.0) for name in arms.decode(X)["arm"]]
        ...     info = bandit.tell(X, [day + each for each in better], hour)
        >>> mean, deviation = bandit.predict(arms.X, relative=True)
        >>> print(mean.round(1), deviation[0])
        [0. 1. 0.] 0.0
        """
        recipe = replace(self._recipe, control=control)
        return Bandit.from_state(recipe, replace(self.state, posterior=None))

    def with_limits(self, limits: Sequence[Limit], safe: ArrayLike = ()) -> Bandit:
        """The same bandit, which plays only where limits on further outcomes are known to hold.

        Parameters
        ----------
        limits : sequence of Limit
        safe : array of shape (s, d), optional
            Points to start from, five or more: they come first.

        Raises
        ------
        ValueError
            If `limits` or `safe` cannot be used.

        Examples
        --------
        >>> from tvbandits import Candidates, Limit, policies
        >>> sites = Candidates([[0.0], [1.0], [2.0], [3.0]])
        >>> quiet = Limit("noise_level", at_most=60, noise_variance=1.0)
        >>> bandit = policies.adaptive_gp_ucb(sites, None, 0.01)
        >>> bandit = bandit.with_limits([quiet], safe=[[0.0], [1.0]])
        >>> for t in (1, 2):
        ...     X = bandit.ask(t)
        ...     info = bandit.tell(X, X[:, 0], t, outcomes={"noise_level": 40.0 + X[:, 0]})
        >>> print(bandit.history[["time", "x0", "noise_level", "violations"]])
           time   x0  noise_level  violations
        0   1.0  0.0         40.0           0
        1   2.0  1.0         41.0           0
        """
        kept: Any = limits  # the recipe makes a tuple of them
        return Bandit.from_state(replace(self._recipe, limits=kept, safe=safe), self.state)

    @in_turn
    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike | Counted,
        t: ArrayLike | None = None,
        variance: ArrayLike | None = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
        context: Context = None,
    ) -> Info:
        """Learn rewards; then ask the expert, if there is one and it is its turn.

        It happens wholly or not at all: whatever is wrong, the bandit stays as it was. After an
        interrupt (Ctrl-C), `info.told` and `info.failed` say which: it may have come when all was done
        but the return.

        Parameters
        ----------
        X : array of shape (n, d)
            The points that were played, asked for or not.
        y : array of shape (n,), or what `rate` and `count` return
            Their rewards; True is 1, False is 0. NaN: the point was played, and there is no reading; the
            play counts, it is no longer pending, and nothing is learned from it. A reading of the same
            point and time that is told later takes its place.
        t : float or array of shape (n,), optional
            The times of the rewards; older ones than the latest are welcome. By default the time that
            each point was asked for, and one unit after the latest time told where it was not.
        variance : float or array of shape (n,), optional
            Noise variance of the rewards; by default the recipe's, or what is learned.
        outcomes : mapping of str to array of shape (n,), optional
            What else was read, for the limits, by name; NaN, or no such name: not read.
        context : mapping or array, optional
            Of all points, where one is measured; by default that which each was asked at. Points as
            `ask` gave them have it.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is infinite, a variance is not positive, a point lies outside
            the domain, or there is no limit on an outcome.
        ExpertError
            If the expert answers in a form that cannot be used, or raises what Python raises for
            mistakes in a program. An expert that raises anything else is down: the bandit goes on
            without its answers, with one `ExpertDownWarning` for every outage.
        """
        before = self._state
        asked_for = self._decision_time(None) if before.asked_for is None else before.asked_for
        recipe = self._recipe
        told = checked_told(
            recipe.domain,
            recipe.noise_variance,
            before.pending,
            asked_for,
            completed(recipe.domain, X, context, before.pending.X),
            y,
            t,
            variance,
        )
        read = self._outcomes.told(before, told, outcomes)
        rng = self._generator(before)
        state = with_rewards(recipe, self._model, before, told, rng)
        state = replace(state, outcomes=read)
        expert = None if recipe.asking is None else recipe.asking.expert
        if expert is not None:
            if len(told.rewards):
                show(expert, self._model.known(state, told.rewards))
            if consulting.due_after_tell(recipe, before, state, told):
                about = consulting.about_after_tell(state, told.latest)
                state = consulting.with_answers_of_the_expert(
                    recipe, self._model, state, about, rng
                )
        self._state = replace(state, random=self._stored(rng))
        return self._state.info

    @in_turn
    def correct(
        self,
        X: ArrayLike,
        y: ArrayLike | Counted | None = None,
        t: ArrayLike | None = None,
        variance: ArrayLike | None = None,
        *,
        to: ArrayLike | None = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
    ) -> Info:
        """Put other rewards in the place of those that were told: a slip of the pen, a revised reading.

        The bandit goes on as one that was told the right rewards at once, in the same order: unit,
        kernel, pace and beliefs are learned again, which takes as long as all of them took, with a
        decision before each time told. Points that are out, questions and the random stream stay as they
        are. An expert that was shown a reward keeps what it made of it.

        Parameters
        ----------
        X : array of shape (n, d)
            The points that were told.
        y : array of shape (n,), optional
            The right rewards; NaN: there was no reading. By default they are as they were.
        t : float or array of shape (n,), optional
            The times at which they were told; by default, the latest told of each point.
        variance : float or array of shape (n,), optional
            Noise variance of the rewards; that of what was told by default.
        to : float or array of shape (n,), optional
            The right times, where those were wrong.
        outcomes : mapping of str to array of shape (n,), optional
            What was read of them in truth, by name, where something was.

        Raises
        ------
        ValueError
            If nothing was told of a point at its time, or something has no form that can be used.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
        >>> info = bandit.tell([[0.0], [1.0]], [0.2, 50.0], 1)
        >>> info = bandit.correct([[1.0]], [0.5], 1)
        >>> print(bandit.state.rewards.y)
        [0.2 0.5]
        """
        X = self._played(X)
        told = corrected(self._recipe, self._state, X, y, t, variance, to)
        before, points, rows = readings_at(self._recipe, self._state, X, t)
        right = as_outcomes(outcomes)
        for name, values in right.items():
            self._outcomes.check(name)
            right[name] = values_and_variance(name, values, len(rows), None, 1.0)[0]

        def change(
            name: str, read: ToldReadings, there: Index, which: NDArray[np.bool_]
        ) -> ToldReadings:
            more = {"y": np.asarray(right[name])[which]} if name in right else {}
            return read.with_rows(there, t=told.t[rows][which], **more)

        made = retold(self._recipe, self._model, self._state, told)
        made = replace(
            made,
            outcomes=self._outcomes.retold(self._state.outcomes, points, before.t[rows], change),
        )
        self._state = made
        return self._state.info

    @in_turn
    def retract(self, X: ArrayLike, t: ArrayLike | None = None) -> Info:
        """Take back what was told, as if it had never been; see `correct`.

        Parameters
        ----------
        X : array of shape (n, d)
            The points that were told.
        t : float or array of shape (n,), optional
            The times at which they were told; by default, the latest told of each point.

        Raises
        ------
        ValueError
            If nothing was told of a point at its time.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
        >>> info = bandit.tell([[0.0]], [0.2], 8768)  # the wrong year
        >>> print(bandit.retract([[0.0]], 8768).told, bandit.state.time)
        0 None
        """
        told, points, rows = readings_at(self._recipe, self._state, self._played(X), t)
        made = retold(self._recipe, self._model, self._state, told.without(rows))
        outcomes = self._outcomes.retold(
            self._state.outcomes,
            points,
            told.t[rows],
            lambda _, read, there, __: read.without(there),
        )
        self._state = replace(made, outcomes=outcomes)
        return self._state.info

    def _played(self, X: ArrayLike) -> Any:
        """Points with the context that they were played at last, where one is measured."""
        state = self._state
        played = np.concatenate([state.failed.X, state.rewards.X])
        return completed(self._recipe.domain, X, None, played)

    @in_turn
    def with_candidates(self, X: ArrayLike | Sequence[str]) -> Bandit:
        """A bandit that goes on with other candidates: some are added, some are retired.

        What was told of retired ones still tells about the others, and readings of those that are out
        are welcome; what is added is as if it had been there from the start. Kernel, unit and pace stay
        as they were learned. This bandit stays as it is; both have the expert.

        Parameters
        ----------
        X : array of shape (A, d), or names
            What may be played from now on; `among=` goes by its rows. On `Arms`, names: their rows stay
            as they are, and new ones come last.

        Raises
        ------
        ValueError
            If the domain is neither `Arms` nor made of candidates without names, or these are no such
            candidates.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from tvbandits import Candidates, policies
        >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
        >>> info = bandit.tell([[0.0], [1.0]], [0.2, 0.5], 1)
        >>> bandit = bandit.with_candidates([[1.0], [2.0]])
        >>> print(bandit.ask(2), len(bandit.state.rewards))
        [[2.]] 2
        """
        recipe, state = self._recipe, self._whole()
        domain = recipe.domain
        if isinstance(domain, Arms):
            return self.on(domain.changed(X))  # type: ignore[arg-type]
        if type(domain) is not Candidates:
            raise ValueError(f"with_candidates needs a domain of Candidates, got {domain!r}")
        offered = Candidates(as_points(X, domain.dimension), domain.context)
        known = [state.visited, state.pending.X, state.answers.X, points_to_keep(recipe)]
        return self.on(offered.with_retired(np.concatenate(known)))

    def on(self, domain: Candidates) -> Bandit:
        """The same bandit on candidates that hold all that it knows of; see `with_candidates`."""
        return Bandit.from_state(*on_candidates(self._recipe, self._whole(), domain))

    @in_turn
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
        state = self._state
        domain = self._recipe.domain
        points = domain.check(completed(domain, X, None, state.pending.X))
        self._state = replace(state, pending=state.pending.dropped(points))

    @in_turn
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
        recipe, state = self._recipe, self._state
        if recipe.asking is None:
            raise ValueError("there is nothing to ask: the recipe has no query plan (asking=None)")
        about = consulting.question_time(recipe, state, t)
        free = available(recipe.domain, among, None, any_context=True)
        rng = self._generator(state)
        state, points = consulting.asked_out(recipe, self._model, state, about, free, rng)
        self._state = replace(state, random=self._stored(rng))
        return points.copy()

    @in_turn
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
        recipe, state = self._recipe, self._state
        if recipe.asking is None:
            raise ValueError("there is nothing to answer: the recipe has no query plan")
        given = state.questions.latest if t is None else t
        when = consulting.question_time(recipe, state, given)
        fresh, refused = checked_answers(recipe, X, values, when, variance)
        self._state = consulting.with_answers(recipe.asking, state, fresh, refused)
        return self._state.info
