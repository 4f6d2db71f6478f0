"""A sampler for Optuna that asks a bandit: `optuna.create_study(sampler=TVSampler())`.

Optuna's own samplers do not forget old trials. This one uses the time of each trial, so that a study may
run for weeks while the best parameters drift.
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
from tvbandits.domains.domain import as_context_parameters, encode_context
from tvbandits.domains.parameters import EXACT, Integer, Periodic
from tvbandits.domains.space import Space
from tvbandits.experts.wrapper import SharedLock
from tvbandits.integrations.sampling import (
    Maker,
    as_readings,
    ask_at,
    build_bandit,
    denormalize,
    normalize,
    parameter_name,
    set_pending,
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

# The name of the user attribute with the noise variance of a trial's value.
NOISE_VARIANCE = "noise_variance"

# The largest seed of numpy's older generator, which Optuna uses.
LARGEST_SEED = 2**32 - 1


def _draw_seed() -> int:
    return int(np.random.default_rng().integers(LARGEST_SEED, endpoint=True))


class CodedSpace:
    """A `Space` for a search space of Optuna, with a map between their values.

    Float parameters are coded by numbers from 0 to 1, parameters with steps and choices by integers.
    Choices are ordered if they are numbers. The parameters named by `periodic` are coded by fractions of
    a period. The context is not coded.
    """

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        context: Mapping[str, Any] | None = None,
        periodic: Collection[str] = (),
    ) -> None:
        self.distributions = dict(distributions)
        self._periodic = periodic
        parameters = {
            parameter_name(name): _make_periodic(name, distribution)
            if name in periodic
            else _make_parameter(distribution)
            for name, distribution in distributions.items()
        }
        self.space = Space(context=context, **parameters)

    def encode(
        self, rows: Sequence[Mapping[str, Any]], contexts: Sequence[Mapping[str, Any]] = ()
    ) -> Array:
        """Return the points (n, d) for n trials' parameters and contexts."""
        if not rows:
            return np.empty((0, self.space.dimension))
        codes = {
            parameter_name(name): [
                (_encode_periodic if name in self._periodic else _encode)(distribution, row[name])
                for row in rows
            ]
            for name, distribution in self.distributions.items()
        }
        values = {name: [context[name] for context in contexts] for name in self.space.context}
        return self.space.encode(pd.DataFrame(codes | values))

    def decode(self, x: Array) -> dict[str, Any]:
        """Return the parameters of a point (d,)."""
        (row,) = self.space.decode(x[None, :]).to_dict("records")
        return {
            name: (_decode_periodic if name in self._periodic else _decode)(
                distribution, row[parameter_name(name)]
            )
            for name, distribution in self.distributions.items()
        }

    def contains(self, trial: FrozenTrial) -> bool:
        """Return whether a trial has a value for every parameter, within its range."""
        return all(
            name in trial.params
            and distribution._contains(distribution.to_internal_repr(trial.params[name]))
            for name, distribution in self.distributions.items()
        )


def _make_parameter(distribution: BaseDistribution) -> Any:
    """Return the parameter of a `Space` for a distribution."""
    if isinstance(distribution, CategoricalDistribution):
        if _sort_choices(distribution):
            return Integer(0, len(distribution.choices) - 1)
        return [str(i) for i in range(len(distribution.choices))]
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise TypeError(f"a distribution must be float, int or categorical, got {distribution}")
    steps = _count_steps(distribution)
    return Integer(0, steps) if steps else (0.0, 1.0)


def _sort_choices(distribution: CategoricalDistribution) -> list[Any]:
    """Return the choices in ascending order if they are different numbers, else an empty list."""
    choices = distribution.choices
    are_numbers = all(is_finite_number(choice) for choice in choices)
    return sorted(choices) if are_numbers and len(set(choices)) == len(choices) else []


def _make_periodic(name: str, distribution: BaseDistribution) -> Periodic:
    """Return a periodic parameter with period 1; raise a `ValueError` for choices or a log scale."""
    if not isinstance(distribution, FloatDistribution | IntDistribution) or distribution.log:
        requirement = f"a float or int parameter without log, since periodic has {name!r}"
        raise ValueError(f"{name} must be {requirement}, got {distribution}")
    return Periodic(1.0)


def _count_period(distribution: FloatDistribution | IntDistribution) -> int:
    """Return the number of values in a period, or 0 for a continuous parameter.

    The lowest value follows the highest: whole hours of a day are from 0 to 23.
    """
    if distribution.step is None:
        return 0
    return round((distribution.high - distribution.low) / distribution.step) + 1


def _encode_periodic(distribution: Any, value: Any) -> float:
    """Return a value of a periodic parameter as a fraction of the period."""
    if count := _count_period(distribution):
        return float(round((value - distribution.low) / distribution.step) / count)
    return float(normalize(value, distribution.low, distribution.high))


def _decode_periodic(distribution: Any, code: float) -> Any:
    """Return the value of a periodic parameter at a fraction of the period."""
    if count := _count_period(distribution):
        step = round(code * count) % count
        return min(distribution.low + step * distribution.step, distribution.high)
    return denormalize(code, distribution.low, distribution.high)


def _count_steps(distribution: FloatDistribution | IntDistribution) -> int:
    """Return the number of steps from the lowest value to the highest, or 0 for a continuous code."""
    if distribution.log or distribution.step is None:
        return 0
    steps = (distribution.high - distribution.low) / distribution.step
    return round(steps) if steps < EXACT else 0


def _range(distribution: FloatDistribution | IntDistribution) -> tuple[float, float]:
    """Return the range of a parameter with a continuous code, or of its logarithm."""
    # An integer stands for the interval from half a unit below to half a unit above it.
    half = 0.5 if isinstance(distribution, IntDistribution) else 0.0
    low, high = distribution.low - half, distribution.high + half
    return (math.log(low), math.log(high)) if distribution.log else (low, high)


def _single_value(distribution: Any) -> Any:
    """Return the value of a parameter that has only one."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[0]
    return distribution.low


def _encode(distribution: Any, value: Any) -> Any:
    """Return the code of a value in the `Space`."""
    if isinstance(distribution, CategoricalDistribution):
        choices = _sort_choices(distribution)
        return choices.index(value) if choices else str(int(distribution.to_internal_repr(value)))
    if _count_steps(distribution):
        return round((value - distribution.low) / distribution.step)
    return float(normalize(math.log(value) if distribution.log else value, *_range(distribution)))


def _decode(distribution: Any, code: Any) -> Any:
    """Return the value with a code in the `Space`."""
    if isinstance(distribution, CategoricalDistribution):
        return (_sort_choices(distribution) or distribution.choices)[int(code)]
    if _count_steps(distribution):
        return min(distribution.low + int(code) * distribution.step, distribution.high)
    number = denormalize(float(code), *_range(distribution))
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
    """A bandit on one search space of a study, and the numbers of the trials that it has observed.

    A study is identified by its name and its start, since one sampler may serve several studies, even
    with the same name.
    """

    study: tuple[str, float]
    space: CodedSpace
    bandit: Bandit
    numbers: set[int] = field(default_factory=set)

    def tell(self, finished: Sequence[TimedTrial]) -> None:
        """Report the rewards of finished trials to the bandit."""
        # A call of `tell` has noise variances for all of its rewards or for none.
        for _, group in groupby(finished, lambda trial: trial.noise_variance is None):
            trials = [*group]
            noise: Any = [trial.noise_variance for trial in trials]
            self.bandit.tell(
                self.encode(trials),
                as_readings([trial.value for trial in trials]),
                [trial.t for trial in trials],
                None if trials[0].noise_variance is None else noise,
            )
            self.numbers.update(trial.trial.number for trial in trials)

    def encode(self, trials: Sequence[TimedTrial]) -> Array:
        """Return the points (n, d) of n trials."""
        return self.space.encode(
            [trial.trial.params for trial in trials], [trial.context for trial in trials]
        )


@dataclass(frozen=True)
class TimedTrial:
    """A trial with its time and its context."""

    trial: FrozenTrial
    t: float
    context: Mapping[str, Any]

    @property
    def value(self) -> Any:
        """Return the value of a complete trial, else NaN: the value of a pruned trial is premature."""
        return self.trial.value if self.trial.state == TrialState.COMPLETE else np.nan

    @property
    def noise_variance(self) -> float | None:
        """Return the noise variance of the value if the trial states one, else None."""
        if self.trial.state != TrialState.COMPLETE or NOISE_VARIANCE not in self.trial.user_attrs:
            return None
        name = f"the user attribute {NOISE_VARIANCE!r} of trial {self.trial.number}"
        return noise_variance_number(name, self.trial.user_attrs[NOISE_VARIANCE])


# The default sets outliers aside: when trainings diverge, a loss of 10,000 among losses of 0.3 is
# common, and would spoil any model.
DEFAULT_POLICY: Maker = partial(policies.adaptive_gp_ucb, options=Options(robust=True))


class TVSampler(optuna.samplers.BaseSampler):
    """A sampler that asks a bandit for parameters, and reports values and times of trials to it.

    The first trial is random, since Optuna does not know the search space yet. Running trials, including
    those of other processes on the same storage, are pending points. A trial that failed or was pruned
    is a play without a reading. The user attribute "noise_variance" of a trial, set before its end, is
    the noise variance of its value; without it, the policy's applies, which is learned by default.

    Parameters
    ----------
    policy : callable, optional
        A recipe of a `Bandit`. None: `policies.adaptive_gp_ucb` with `Options(robust=True)`, which sets
        the values of diverged trainings aside (`bandit.history` shows them). To set options, use
        `partial(policies.sw_gp_ucb, window=30)`.
    time : str or callable, optional
        The name of a user attribute with the time of a trial, which is set before the first `suggest`;
        or a function of a `FrozenTrial`. None: seconds since the start of the study's first trial.
    context : mapping of str to parameters, optional
        Quantities that you measure before a trial and do not choose, with their ranges as for a `Space`:
        `{"outside": (-15, 20), "shift": ["day", "night"]}`. Their values in a trial are its user
        attributes of the same names; set them before the first `suggest`, or by
        `study.enqueue_trial({}, user_attrs=...)`.
    periodic : sequence of str, optional
        The names of float and int parameters on a circle, such as an angle. For a float parameter, the
        highest value is the same as the lowest, as 360 and 0 degrees are. For an int parameter, or with
        a step, the lowest value follows the highest: hours are from 0 to 23.
    seed : int, optional
        With a seed, the random numbers of a trial depend only on the seed and the number of the trial,
        so that a new sampler can continue a study on a storage. None: each sampler has different random
        numbers, as Optuna's samplers do.

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
            requirement = "the name of a user attribute, a function of a trial, or None"
            require(isinstance(time, str) and bool(time), "time", requirement, time)
        self._policy, self._time = policy, time
        self._context = as_context_parameters(context)
        self._periodic = tuple(as_list("periodic", periodic, "names of parameters"))
        for name in self._periodic:
            check_instance("periodic", name, str, "names of parameters")
        self._seed = _draw_seed() if seed is None else whole_number("seed", seed, 0, LARGEST_SEED)
        self._lock = SharedLock()
        self._run: StudyRun | None = None
        self._names_warned_of = set[str]()

    @property
    def bandit(self) -> Bandit | None:
        """Return the bandit after the trials that ended before the latest sample, or None at first.

        Its coordinates are scaled: 0 stands for the lowest value of a float parameter (or its
        logarithm), 1 for the highest.
        """
        return None if self._run is None else self._run.bandit

    def reseed_rng(self) -> None:
        """Change the seed, as Optuna requires of a sampler that several workers use."""
        with self._lock.current:
            self._seed = _draw_seed()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:  # noqa: ARG002
        """Raise a `ValueError` for a study with several objectives."""
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
        return {
            name: distribution for name, distribution in space.items() if not distribution.single()
        }

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value, in the first trial or for a parameter that not all trials have."""
        self._raise_error_if_multi_objective(study)
        self._warn_of_another_range(study, param_name, param_distribution)
        seed = int(self._make_rng(trial, param_name).integers(LARGEST_SEED, endpoint=True))
        uniform = optuna.samplers.RandomSampler(seed)
        return uniform.sample_independent(study, trial, param_name, param_distribution)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Report the newly finished trials to the bandit, and ask it for parameters."""
        self._raise_error_if_multi_objective(study)
        trials = study.get_trials(deepcopy=False)
        new_trial = self._make_timed(trial, _start_of(trials))
        if not search_space:
            return {}
        with self._lock.current:
            run = self._update_run(study, trials, search_space)
            # All running trials are pending, including those that other samplers started.
            running = self._select_trials(run, trials, TrialState.RUNNING)
            t = np.array([timed.t for timed in running])
            random = self._make_rng(trial).bit_generator.state
            run.bandit = set_pending(run.bandit, run.encode(running), t, random)
            (x,) = ask_at(run.bandit, new_trial.t, context=new_trial.context)
            return run.space.decode(x)

    def recommend(
        self,
        study: optuna.Study,
        *,
        t: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the parameters with the best posterior mean now, in the form of `study.best_params`.

        `best_params` are the parameters of the best value of any trial, however old and noisy. The
        recommended parameters are the best according to all trials, and need not be those of one trial.

        Parameters
        ----------
        study : optuna.Study
            Any study with one objective and any sampler.
        t : float, optional
            The time to recommend for. None: now, or, if the sampler has its own `time`, the latest time
            of a finished trial.
        context : mapping of str to values, optional
            The context to recommend for, if the sampler has one.

        Returns
        -------
        dict
            The value of every parameter that all finished trials have.

        Raises
        ------
        ValueError
            If no trial has a value yet, or the context is not valid.

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
            raise ValueError(
                f"the sampler has no context, got {dict(context)}: give its names and ranges by "
                "TVSampler(context={...})"
            )
        encode_context(self._context, context or {})
        trials = study.get_trials(deepcopy=False)
        common = optuna.search_space.intersection_search_space(trials, include_pruned=True)
        constants = {
            name: _single_value(distribution)
            for name, distribution in common.items()
            if distribution.single()
        }
        space = {name: common[name] for name in common if name not in constants}
        complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        if not complete or not common:
            names = dict.fromkeys(name for trial in complete for name in trial.distributions)
            reason = "no finished trial with a value and a parameter"
            if names:
                reason = f"no parameter with one range in all its trials, of {', '.join(names)}"
            raise ValueError(
                f"there is nothing to recommend: the study {study.study_name!r} has {reason}"
            )
        if not space:
            return constants
        with self._lock.current:
            run = self._update_run(study, trials, space)
            if t is None:
                latest = run.bandit.state.time
                present = datetime.now().timestamp() - _start_of(trials)
                is_clock = self._time is None and (latest is None or present > latest)
                t = present if is_clock else latest
            point = run.bandit.recommend(t, context=context or None)
            return {**run.space.decode(point), **constants}

    def _make_rng(self, trial: FrozenTrial, name: str = "") -> np.random.Generator:
        """Return the random generator of a trial, or of one of its parameters.

        Its seed depends on the trial's number: a new sampler with the same seed that continues a study,
        such as one made each night, draws what the first one would have drawn, and repeats no trial.
        """
        return np.random.default_rng((self._seed, trial.number, zlib.crc32(name.encode())))

    def _update_run(
        self,
        study: optuna.Study,
        trials: Sequence[FrozenTrial],
        search_space: dict[str, BaseDistribution],
    ) -> StudyRun:
        """Return the run of a study, whose bandit has observed all finished trials."""
        run, key = self._run, (study.study_name, _start_of(trials))
        if run is None or run.study != key or run.space.distributions != search_space:
            self._warn_of_unknown_names(trials)
            space = CodedSpace(search_space, self._context, self._periodic)
            minimize = study.direction == optuna.study.StudyDirection.MINIMIZE
            bandit = build_bandit(self._policy, space.space, minimize=minimize, seed=self._seed)
            run = self._run = StudyRun(key, space, bandit)
        run.tell(self._select_trials(run, trials, *FINISHED))
        return run

    def _warn_of_unknown_names(self, trials: Sequence[FrozenTrial]) -> None:
        """Warn of a name in `periodic` that no trial has; this is no error, as a later trial may."""
        names = {name: None for trial in trials for name in trial.distributions}
        if unknown := [name for name in self._periodic if name not in names]:
            warnings.warn(
                f"periodic has {unknown[0]!r}, a parameter of no trial so far; the trials have: "
                f"{', '.join(names)}",
                stacklevel=2,
            )

    def _warn_of_another_range(
        self, study: optuna.Study, name: str, distribution: BaseDistribution
    ) -> None:
        """Warn once of a parameter that is random because it had another range in an earlier trial."""
        if name in self._names_warned_of:
            return
        for trial in reversed(study.get_trials(deepcopy=False, states=FINISHED)):
            before = trial.distributions.get(name, distribution)
            if before != distribution:
                self._names_warned_of.add(name)
                warnings.warn(
                    f"{name} is chosen at random: it was {before} in trial {trial.number}, and is "
                    f"{distribution} now. Keep one range in a study, or begin a new one",
                    stacklevel=2,
                )
                return

    def _select_trials(
        self, run: StudyRun, trials: Sequence[FrozenTrial], *states: TrialState
    ) -> list[TimedTrial]:
        """Return the trials in some states that the bandit has not observed, and that fit its space."""
        selection, start = [], run.study[1]
        for trial in trials:
            if trial.state not in states or trial.number in run.numbers:
                continue
            if not run.space.contains(trial):
                continue
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                selection.append(self._make_timed(trial, start))
                continue
            # A trial without time or context was stopped by this sampler, or is from another one.
            with suppress(ValueError):
                selection.append(self._make_timed(trial, start))
        return selection

    def _make_timed(self, trial: FrozenTrial, start: float) -> TimedTrial:
        return TimedTrial(trial, self._time_of(trial, start), self._context_of(trial))

    def _time_of(self, trial: FrozenTrial, start: float) -> float:
        if self._time is None:
            if trial.datetime_start is None:
                raise ValueError(f"trial {trial.number} has no start time: set TVSampler(time=...)")
            return trial.datetime_start.timestamp() - start
        if callable(self._time):
            name = f"time(trial) of trial {trial.number}"
            return as_time(self._time(trial), name)
        name = f"the user attribute {self._time!r} of trial {trial.number}"
        return as_time(_attribute(trial, self._time), name)

    def _context_of(self, trial: FrozenTrial) -> dict[str, Any]:
        context = {name: _attribute(trial, name) for name in self._context}
        try:
            encode_context(self._context, context)
        except ValueError as error:
            raise ValueError(f"trial {trial.number}: {error}") from error
        return context


def _start_of(trials: Sequence[FrozenTrial]) -> float:
    """Return the start time of a study's first trial, in seconds since 1970."""
    return min(trial.datetime_start.timestamp() for trial in trials if trial.datetime_start)


def _attribute(trial: FrozenTrial, name: str) -> Any:
    if name not in trial.user_attrs:
        raise ValueError(
            f"trial {trial.number} has no user attribute {name!r}: set it before the first suggest, "
            f"by trial.set_user_attr({name!r}, ...)"
        )
    return trial.user_attrs[name]
