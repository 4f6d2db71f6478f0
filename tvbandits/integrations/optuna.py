"""A bandit as a sampler of Optuna: `optuna.create_study(sampler=TVSampler())`.

Optuna's own samplers treat all trials alike, however old. This one uses the time of each trial, so that
a study may run for weeks while the best parameters drift.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import optuna
import pandas as pd
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from tvbandits import policies
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.domains.domain import as_context_parameters, columns_by_name
from tvbandits.domains.parameters import EXACT, Integer, Periodic
from tvbandits.domains.space import Space
from tvbandits.experts.wrapper import SharedLock
from tvbandits.integrations.playing import (
    Maker,
    as_readings,
    ask_at,
    from_share,
    make_bandit,
    parameter_name,
    set_pending,
    to_share,
)
from tvbandits.validation import (
    Array,
    as_list,
    as_time,
    check_instance,
    describe,
    is_finite_number,
    noise_variance_number,
    require,
    whole_number,
)

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)

# The user attribute with the noise variance of a trial's value.
NOISE_VARIANCE = "noise_variance"

# The largest seed of numpy's older generator, which Optuna draws from.
LARGEST_SEED = 2**32 - 1


def _random_seed() -> int:
    return int(np.random.default_rng().integers(LARGEST_SEED, endpoint=True))


class CodedSpace:
    """A search space of Optuna as a `Space`: shares of ranges, and numbers of steps and choices.

    Choices that are numbers have the order of the numbers, as in a `Space`, and other choices none. The
    parameters that `periodic` names are shares of a turn. The context, if there is one, is in the user's
    own units.
    """

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        context: Mapping[str, Any] | None = None,
        periodic: Collection[str] = (),
    ) -> None:
        self.distributions = dict(distributions)
        self._periodic = periodic
        parts = {
            parameter_name(name): _turn(name, each) if name in periodic else _parameter(each)
            for name, each in distributions.items()
        }
        self.space = Space(context=context, **parts)

    def encode(
        self, rows: Sequence[Mapping[str, Any]], contexts: Sequence[Mapping[str, Any]] = ()
    ) -> Array:
        """Return the points (n, d) for the parameters of trials, and the context of each."""
        if not rows:
            return np.empty((0, self.space.dimension))
        codes = {
            parameter_name(name): [
                (_code_on_turn if name in self._periodic else _code)(each, row[name])
                for row in rows
            ]
            for name, each in self.distributions.items()
        }
        values = {name: [each[name] for each in contexts] for name in self.space.context}
        return self.space.encode(pd.DataFrame(codes | values))

    def decode(self, x: Array) -> dict[str, Any]:
        """Return the parameters of a point (d,)."""
        (row,) = self.space.decode(x[None, :]).to_dict("records")
        return {
            name: (_value_on_turn if name in self._periodic else _value)(
                each, row[parameter_name(name)]
            )
            for name, each in self.distributions.items()
        }

    def contains(self, trial: FrozenTrial) -> bool:
        """Return whether a trial has a value in its range for every parameter."""
        return all(
            name in trial.params and each._contains(each.to_internal_repr(trial.params[name]))
            for name, each in self.distributions.items()
        )


def _parameter(distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        if _ordered_choices(distribution):
            return Integer(0, len(distribution.choices) - 1)
        return [str(i) for i in range(len(distribution.choices))]
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise TypeError(f"a distribution must be float, int or categorical, got {distribution}")
    return Integer(0, _steps(distribution)) if _steps(distribution) else (0.0, 1.0)


def _ordered_choices(distribution: CategoricalDistribution) -> list[Any]:
    """Return the choices in ascending order if they are different numbers, else none."""
    choices = distribution.choices
    are_numbers = all(is_finite_number(each) for each in choices)
    return sorted(choices) if are_numbers and len(set(choices)) == len(choices) else []


def _turn(name: str, distribution: BaseDistribution) -> Periodic:
    """Return the parameter of shares of a turn."""
    if not isinstance(distribution, FloatDistribution | IntDistribution) or distribution.log:
        needs = f"a float or int parameter without log, as periodic has {name!r}"
        raise ValueError(f"{name} must be {needs}, got {distribution}")
    return Periodic(1.0)


def _values_of_turn(distribution: FloatDistribution | IntDistribution) -> int:
    """Return the number of values of a turn, or 0 if they are not counted.

    The lowest value is the next one after the highest: whole hours of a day are from 0 to 23.
    """
    if distribution.step is None:
        return 0
    return round((distribution.high - distribution.low) / distribution.step) + 1


def _code_on_turn(distribution: Any, value: Any) -> float:
    if count := _values_of_turn(distribution):
        return float(round((value - distribution.low) / distribution.step) / count)
    return float(to_share(value, distribution.low, distribution.high))


def _value_on_turn(distribution: Any, code: float) -> Any:
    if count := _values_of_turn(distribution):
        step = round(code * count) % count
        return min(distribution.low + step * distribution.step, distribution.high)
    return from_share(code, distribution.low, distribution.high)


def _steps(distribution: FloatDistribution | IntDistribution) -> int:
    """Return the number of steps from the lowest value to the highest, or 0 if they are not counted."""
    if distribution.log or distribution.step is None:
        return 0
    steps = (distribution.high - distribution.low) / distribution.step
    return round(steps) if steps < EXACT else 0


def _ends(distribution: FloatDistribution | IntDistribution) -> tuple[float, float]:
    """Return the range of a number, or of its logarithm."""
    # A whole number represents half a unit on either side of it.
    half = 0.5 if isinstance(distribution, IntDistribution) else 0.0
    low, high = distribution.low - half, distribution.high + half
    return (math.log(low), math.log(high)) if distribution.log else (low, high)


def _single_value(distribution: Any) -> Any:
    """Return the value of a parameter that has no other."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[0]
    return distribution.low


def _code(distribution: Any, value: Any) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        ordered = _ordered_choices(distribution)
        return ordered.index(value) if ordered else str(int(distribution.to_internal_repr(value)))
    if _steps(distribution):
        return round((value - distribution.low) / distribution.step)
    return float(to_share(math.log(value) if distribution.log else value, *_ends(distribution)))


def _value(distribution: Any, code: Any) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return (_ordered_choices(distribution) or distribution.choices)[int(code)]
    if _steps(distribution):
        return min(distribution.low + int(code) * distribution.step, distribution.high)
    number = from_share(float(code), *_ends(distribution))
    number = math.exp(number) if distribution.log else number
    if distribution.step is not None:
        number = (
            distribution.low
            + round(number / distribution.step - distribution.low / distribution.step)
            * distribution.step
        )
    return min(max(number, distribution.low), distribution.high)


@dataclass
class StudyRun:
    """A bandit on one search space of a study, and the numbers of the trials that it has learned.

    A study is identified by its name and its start, since one sampler may serve several studies, even of
    the same name.
    """

    study: tuple[str, float]
    space: CodedSpace
    bandit: Bandit
    numbers: set[int] = field(default_factory=set)

    def tell(self, finished: Sequence[PlayedTrial]) -> None:
        """Tell the bandit the rewards of trials."""
        # A call has a noise variance for all of its rewards, or for none.
        for _, group in groupby(finished, lambda each: each.noise_variance is None):
            trials = [*group]
            noise: Any = [each.noise_variance for each in trials]
            self.bandit.tell(
                self.encode(trials),
                as_readings([each.value for each in trials]),
                [each.t for each in trials],
                None if trials[0].noise_variance is None else noise,
            )
            self.numbers.update(each.trial.number for each in trials)

    def encode(self, trials: Sequence[PlayedTrial]) -> Array:
        """Return the points (n, d) of trials."""
        return self.space.encode(
            [each.trial.params for each in trials], [each.context for each in trials]
        )


@dataclass(frozen=True)
class PlayedTrial:
    """A trial with its time and its context."""

    trial: FrozenTrial
    t: float
    context: Mapping[str, Any]

    @property
    def value(self) -> Any:
        """The value of a trial that is complete; a pruned one may have a value from before its end."""
        return self.trial.value if self.trial.state == TrialState.COMPLETE else np.nan

    @property
    def noise_variance(self) -> float | None:
        """The noise variance of the value, where the trial says one."""
        if self.trial.state != TrialState.COMPLETE or NOISE_VARIANCE not in self.trial.user_attrs:
            return None
        name = f"the user attribute {NOISE_VARIANCE!r} of trial {self.trial.number}"
        return noise_variance_number(name, self.trial.user_attrs[NOISE_VARIANCE])


# A loss of 10,000 among losses of 0.3 is common where trainings diverge, and no model survives it.
DEFAULT_POLICY: Maker = partial(policies.adaptive_gp_ucb, options=Options(robust=True))


class TVSampler(optuna.samplers.BaseSampler):
    """A sampler that asks a bandit, and tells it the times of the trials.

    The first trial is random, since Optuna does not know the search space before. Running trials, also
    those of other processes on the same storage, are pending points. A trial that failed or was pruned
    is a play without a reading. The user attribute "noise_variance" of a trial, set before it ends, is
    the noise variance of its value; without it the policy's own applies, which is learned by default.

    Parameters
    ----------
    policy : callable, optional
        A recipe of a `Bandit`, by default `policies.adaptive_gp_ucb` with `Options(robust=True)`, which
        sets aside what a training that diverged returns (`bandit.history` shows it); set options by
        `partial(policies.sw_gp_ucb, window=30)`.
    time : str or callable, optional
        The name of a user attribute that holds the time of a trial, set before its first `suggest`; or a
        function of a `FrozenTrial`. By default seconds since the first trial of the study began.
    context : mapping of str to parameters, optional
        What you measure before a trial and do not choose, with the range of each, as for a `Space`:
        `{"outside": (-15, 20), "shift": ["day", "night"]}`. The user attributes of these names have the
        values of a trial; set them before its first `suggest`, or by
        `study.enqueue_trial({}, user_attrs=...)`.
    periodic : sequence of str, optional
        The names of float and int parameters on a circle, such as an angle. Of a float parameter, the
        highest value is the lowest one, as 360 and 0 degrees are. Of whole numbers, or with a step, the
        lowest value is the next one after the highest: hours are from 0 to 23.
    seed : int, optional
        With a seed, the random numbers of a trial depend on the seed and on the number of the trial
        alone, so that a new sampler may go on with a study on a storage. By default, as with Optuna's
        samplers, each sampler has other random numbers.

    Raises
    ------
    ValueError
        If a study has several objectives, a trial has no time or lacks a value of the context, or a
        periodic parameter has choices or a log scale.

    Examples
    --------
    >>> import optuna
    >>> from tvbandits.integrations.optuna import TVSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> sampler = TVSampler(time=lambda trial: trial.number)
    >>> study = optuna.create_study(sampler=sampler, direction="maximize")
    >>> study.optimize(lambda trial: -trial.suggest_float("x", -1, 1) ** 2, n_trials=5)
    >>> print(len(study.trials))
    5
    """

    def __init__(
        self,
        policy: Maker = DEFAULT_POLICY,
        *,
        time: str | Callable[[FrozenTrial], float] | None = None,
        context: Mapping[str, Any] | None = None,
        periodic: Sequence[str] = (),
        seed: int | None = None,
    ) -> None:
        if not callable(policy):
            raise TypeError(f"policy must be a recipe such as gp_ucb, got {describe(policy)}")
        if not (time is None or callable(time)):
            needs = "the name of a user attribute, a function of a trial, or None"
            require(isinstance(time, str) and bool(time), "time", needs, time)
        self._policy, self._time = policy, time
        self._context = as_context_parameters(context)
        self._periodic = tuple(as_list("periodic", periodic, "names of parameters"))
        for name in self._periodic:
            check_instance("periodic", name, str, "names of parameters")
        self._seed = _random_seed() if seed is None else whole_number("seed", seed, 0, LARGEST_SEED)
        self._lock = SharedLock()
        self._run: StudyRun | None = None
        self._warned = set[str]()

    @property
    def bandit(self) -> Bandit | None:
        """The bandit, which has learned the trials that ended before the latest sample; at first None.

        It plays on shares of ranges: 0 is the lowest value of a float parameter, or its logarithm, 1 the
        highest.
        """
        return None if self._run is None else self._run.bandit

    def reseed_rng(self) -> None:
        """Change the random numbers, as Optuna demands of a sampler that several workers use."""
        with self._lock.current:
            self._seed = _random_seed()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:  # noqa: ARG002
        """Raise an error for a study of several objectives."""
        self._raise_error_if_multi_objective(study)

    def infer_relative_search_space(
        self,
        study: optuna.Study,
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that all finished trials have."""
        self._raise_error_if_multi_objective(study)
        space = optuna.search_space.intersection_search_space(
            study.get_trials(deepcopy=False), include_pruned=True
        )
        return {name: each for name, each in space.items() if not each.single()}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value, for the first trial and for a parameter that not all trials have."""
        self._raise_error_if_multi_objective(study)
        self._warn_of_another_range(study, param_name, param_distribution)
        seed = int(self._random_of(trial, param_name).integers(LARGEST_SEED, endpoint=True))
        uniform = optuna.samplers.RandomSampler(seed)
        return uniform.sample_independent(study, trial, param_name, param_distribution)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Tell the bandit the trials that have finished since, and ask it."""
        self._raise_error_if_multi_objective(study)
        trials = study.get_trials(deepcopy=False)
        asked = self._played(trial, _start(trials))
        if not search_space:
            return {}
        with self._lock.current:
            run = self._follow(study, trials, search_space)
            # Exactly the running trials are pending, whoever has asked for them.
            running = self._played_of(run, trials, TrialState.RUNNING)
            t = np.array([each.t for each in running])
            random = self._random_of(trial).bit_generator.state
            run.bandit = set_pending(run.bandit, run.encode(running), t, random)
            (x,) = ask_at(run.bandit, asked.t, context=asked.context)
            return run.space.decode(x)

    def recommend(
        self,
        study: optuna.Study,
        *,
        t: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the parameters that have the best mean now, in the form of `study.best_params`.

        `best_params` are those of the best value that was ever seen, however long ago, and with its
        noise. These here are the best according to all trials, and may be those of no trial.

        Parameters
        ----------
        study : optuna.Study
            Any study of one objective, whatever sampler it has.
        t : float, optional
            The time to recommend for; by default now, or with `time` of your own the latest time of a
            finished trial.
        context : mapping of str to values, optional
            The context to recommend for, where the sampler has one.

        Returns
        -------
        dict
            The value of every parameter that all finished trials have.

        Raises
        ------
        ValueError
            If no trial has a value yet, or the context is wrong; the message names what is missing.

        Examples
        --------
        >>> import optuna
        >>> from tvbandits.integrations.optuna import TVSampler
        >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
        >>> sampler = TVSampler(time=lambda trial: trial.number, seed=0)
        >>> study = optuna.create_study(sampler=sampler)
        >>> study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=9)
        >>> print(abs(sampler.recommend(study)["x"] - 0.3) < 0.1)
        True
        """
        self._raise_error_if_multi_objective(study)
        if context and not self._context:
            needs = "TVSampler(context={...}) says what it is and its range"
            raise ValueError(f"the sampler has no context, got {dict(context)}; {needs}")
        columns_by_name(self._context, context or {})
        trials = study.get_trials(deepcopy=False)
        whole = optuna.search_space.intersection_search_space(trials, include_pruned=True)
        single = {name: _single_value(each) for name, each in whole.items() if each.single()}
        space = {name: each for name, each in whole.items() if name not in single}
        complete = [each for each in trials if each.state == TrialState.COMPLETE]
        if not complete or not whole:
            names = dict.fromkeys(name for each in complete for name in each.distributions)
            why = "no finished trial with a value and a parameter"
            if names:
                why = f"no parameter with one range in all its trials, of {', '.join(names)}"
            raise ValueError(
                f"there is nothing to recommend: the study {study.study_name!r} has {why}"
            )
        if not space:
            return single
        with self._lock.current:
            run = self._follow(study, trials, space)
            if t is None:
                latest = run.bandit.state.time
                now = datetime.now().timestamp() - _start(trials)
                t = now if self._time is None and (latest is None or now > latest) else latest
            point = run.bandit.recommend(t, context=context or None)
            return {**run.space.decode(point), **single}

    def _random_of(self, trial: FrozenTrial, name: str = "") -> np.random.Generator:
        """Return the random numbers of a trial, or of one of its parameters.

        They depend on its number: a new sampler with the same seed that goes on with a study, as one
        made each night, draws what the first one would have drawn, and repeats no earlier trial.
        """
        return np.random.default_rng((self._seed, trial.number, zlib.crc32(name.encode())))

    def _follow(
        self,
        study: optuna.Study,
        trials: Sequence[FrozenTrial],
        search_space: dict[str, BaseDistribution],
    ) -> StudyRun:
        """Return the run of a study after its bandit has learned all trials that have finished."""
        run, key = self._run, (study.study_name, _start(trials))
        if run is None or run.study != key or run.space.distributions != search_space:
            self._warn_of_unknown_names(trials)
            space = CodedSpace(search_space, self._context, self._periodic)
            minimize = study.direction == optuna.study.StudyDirection.MINIMIZE
            bandit = make_bandit(self._policy, space.space, minimize=minimize, seed=self._seed)
            run = self._run = StudyRun(key, space, bandit)
        run.tell(self._played_of(run, trials, *FINISHED))
        return run

    def _warn_of_unknown_names(self, trials: Sequence[FrozenTrial]) -> None:
        """Warn of names in `periodic` that no trial has; one under a condition may come later."""
        names = {name: None for trial in trials for name in trial.distributions}
        if unknown := [name for name in self._periodic if name not in names]:
            warnings.warn(
                f"periodic has {unknown[0]!r}, a parameter of no trial so far; they have: "
                f"{', '.join(names)}",
                stacklevel=2,
            )

    def _warn_of_another_range(
        self, study: optuna.Study, name: str, distribution: BaseDistribution
    ) -> None:
        """Warn once of a parameter that is random since it had another range in a trial before."""
        if name in self._warned:
            return
        for trial in reversed(study.get_trials(deepcopy=False, states=FINISHED)):
            before = trial.distributions.get(name, distribution)
            if before != distribution:
                self._warned.add(name)
                warnings.warn(
                    f"{name} is chosen at random: it was {before} in trial {trial.number}, and is "
                    f"{distribution} now. Keep one range in a study, or begin a new one",
                    stacklevel=2,
                )
                return

    def _played_of(
        self, run: StudyRun, trials: Sequence[FrozenTrial], *states: TrialState
    ) -> list[PlayedTrial]:
        """Return the trials in some states that the bandit has not learned, and can learn."""
        played, start = [], run.study[1]
        for trial in trials:
            if trial.state not in states or trial.number in run.numbers:
                continue
            if not run.space.contains(trial):
                continue
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                played.append(self._played(trial, start))
                continue
            # What has no time or context was stopped by this sampler, or is of another one.
            with suppress(ValueError):
                played.append(self._played(trial, start))
        return played

    def _played(self, trial: FrozenTrial, start: float) -> PlayedTrial:
        return PlayedTrial(trial, self._time_of(trial, start), self._context_of(trial))

    def _time_of(self, trial: FrozenTrial, start: float) -> float:
        if self._time is None:
            if trial.datetime_start is None:
                raise ValueError(f"trial {trial.number} has no time at which it started")
            return trial.datetime_start.timestamp() - start
        if callable(self._time):
            name = f"time(trial) of trial {trial.number}"
            return as_time(self._time(trial), name)
        name = f"the user attribute {self._time!r} of trial {trial.number}"
        return as_time(_attribute(trial, self._time), name)

    def _context_of(self, trial: FrozenTrial) -> dict[str, Any]:
        context = {name: _attribute(trial, name) for name in self._context}
        try:
            columns_by_name(self._context, context)
        except ValueError as error:
            raise ValueError(f"trial {trial.number}: {error}") from error
        return context


def _start(trials: Sequence[FrozenTrial]) -> float:
    """Return when the first trial of a study started, in seconds since 1970."""
    return min(each.datetime_start.timestamp() for each in trials if each.datetime_start)


def _attribute(trial: FrozenTrial, name: str) -> Any:
    if name not in trial.user_attrs:
        raise ValueError(
            f"trial {trial.number} has no user attribute {name!r}: set it before the first suggest, "
            f"by trial.set_user_attr({name!r}, ...)"
        )
    return trial.user_attrs[name]
