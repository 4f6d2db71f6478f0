"""A bandit as a sampler of Optuna: `optuna.create_study(sampler=TVSampler())`.

Optuna's own samplers take every trial for equally true today. This one gives each trial its time, so
that a study may go on for weeks while what is good drifts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from tvbandits.domains.parameters import EXACT, Integer
from tvbandits.domains.space import Space
from tvbandits.experts.wrapper import SharedLock
from tvbandits.integrations.playing import (
    Maker,
    asked,
    bandit_on,
    called,
    readings,
    share_of,
    value_at,
    with_pending,
)
from tvbandits.validation import Array, as_time, describe, whole_number

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)

# That numpy's older generator, which Optuna draws from, takes.
LARGEST_SEED = 2**32 - 1


def _any_seed() -> int:
    return int(np.random.default_rng().integers(LARGEST_SEED, endpoint=True))


class Coded:
    """A space of Optuna as a `Space`: shares of ranges, and steps and choices by number."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        pairs = self.distributions.items()
        self.space = Space(**{called(name): _parameter(each) for name, each in pairs})

    def encode(self, rows: Sequence[Mapping[str, Any]]) -> Array:
        """The points (n, d) of the parameters of trials."""
        if not rows:
            return np.empty((0, self.space.dimension))
        codes = {
            called(name): [_code(each, row[name]) for row in rows]
            for name, each in self.distributions.items()
        }
        return self.space.encode(pd.DataFrame(codes))

    def decode(self, x: Array) -> dict[str, Any]:
        """The parameters of a point (d,)."""
        (row,) = self.space.decode(x[None, :]).to_dict("records")
        return {name: _value(each, row[called(name)]) for name, each in self.distributions.items()}

    def has(self, trial: FrozenTrial) -> bool:
        """Whether a trial has a value of every parameter that lies in its range."""
        return all(
            name in trial.params and each._contains(each.to_internal_repr(trial.params[name]))
            for name, each in self.distributions.items()
        )


def _parameter(of: BaseDistribution) -> Any:
    if isinstance(of, CategoricalDistribution):
        return [str(i) for i in range(len(of.choices))]
    if not isinstance(of, FloatDistribution | IntDistribution):
        raise TypeError(f"a distribution must be float, int or categorical, got {of}")
    return Integer(0, _steps(of)) if _steps(of) else (0.0, 1.0)


def _steps(of: FloatDistribution | IntDistribution) -> int:
    """How many steps lead from the lowest value to the highest, where they can be counted, or 0."""
    if of.log or of.step is None:
        return 0
    steps = (of.high - of.low) / of.step
    return round(steps) if steps < EXACT else 0


def _ends(of: FloatDistribution | IntDistribution) -> tuple[float, float]:
    """The range of a number, or of its logarithm."""
    # A whole number stands for the half unit on either side of it.
    half = 0.5 if isinstance(of, IntDistribution) else 0.0
    low, high = of.low - half, of.high + half
    return (math.log(low), math.log(high)) if of.log else (low, high)


def _code(of: Any, value: Any) -> Any:
    if isinstance(of, CategoricalDistribution):
        return str(int(of.to_internal_repr(value)))
    if _steps(of):
        return round((value - of.low) / of.step)
    return float(share_of(math.log(value) if of.log else value, *_ends(of)))


def _value(of: Any, code: Any) -> Any:
    if isinstance(of, CategoricalDistribution):
        return of.choices[int(code)]
    if _steps(of):
        return min(of.low + int(code) * of.step, of.high)
    number = value_at(float(code), *_ends(of))
    number = math.exp(number) if of.log else number
    if of.step is not None:
        number = of.low + round(number / of.step - of.low / of.step) * of.step
    return min(max(number, of.low), of.high)


@dataclass
class StudyRun:
    """A bandit on one space, and the numbers of the trials that it was told.

    A study is known by its name and its start: a sampler may be given to several, of one name too.
    """

    study: tuple[str, float]
    coded: Coded
    bandit: Bandit
    told: set[int] = field(default_factory=set)

    def tell(self, finished: Sequence[FrozenTrial], times: Sequence[float]) -> None:
        """Tell the rewards of trials that the bandit does not know yet."""
        if not finished:
            return
        X = self.coded.encode([each.params for each in finished])
        # One that was pruned may have a value, of before its end.
        y: Any = [each.value if each.state == TrialState.COMPLETE else np.nan for each in finished]
        self.bandit.tell(X, readings(y), times)
        self.told.update(each.number for each in finished)


class TVSampler(optuna.samplers.BaseSampler):
    """Samples what a bandit asks for, with the times of the trials.

    The first trial is drawn at random, since Optuna does not know the space before. Trials that run,
    also those of other processes on the same storage, are pending points; one that failed or was pruned
    was played and has no reading.

    Parameters
    ----------
    policy : callable, optional
        A recipe of a `Bandit`, by default `policies.adaptive_gp_ucb`; `partial(policies.sw_gp_ucb,
        window=30)` gives options.
    time : str or callable, optional
        The name of a user attribute that holds the time of a trial, set before its first `suggest`; or a
        function of a `FrozenTrial`. By default seconds since the first trial of the study began.
    seed : int, optional
        By default, as of Optuna's samplers, the draws differ from one sampler to the next.

    Raises
    ------
    ValueError
        If a study has several objectives, or a trial has no time.

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
        policy: Maker = policies.adaptive_gp_ucb,
        *,
        time: str | Callable[[FrozenTrial], float] | None = None,
        seed: int | None = None,
    ) -> None:
        if not callable(policy):
            raise TypeError(f"policy must be a recipe such as gp_ucb, got {describe(policy)}")
        self._policy, self._time = policy, time
        self._seed = _any_seed() if seed is None else whole_number("seed", seed, 0, LARGEST_SEED)
        self._first = optuna.samplers.RandomSampler(self._seed)
        self._lock = SharedLock()
        self._run: StudyRun | None = None

    @property
    def bandit(self) -> Bandit | None:
        """The bandit, which knows the trials finished before the latest sample; None before it.

        It plays on shares: 0 is the lowest value of a float parameter, or its logarithm, 1 the highest.
        """
        return None if self._run is None else self._run.bandit

    def reseed_rng(self) -> None:
        """Draw other numbers from here on, as Optuna asks of a sampler that another worker uses, too."""
        with self._lock.now:
            self._seed = _any_seed()
            self._first.reseed_rng()
            if self._run is not None:
                bandit = self._run.bandit
                random = np.random.default_rng(self._seed).bit_generator.state
                state = replace(bandit.state, random=random)
                self._run.bandit = Bandit.from_state(bandit.recipe, state)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:  # noqa: ARG002
        """Refuse a study of several objectives."""
        self._raise_error_if_multi_objective(study)

    def infer_relative_search_space(
        self,
        study: optuna.Study,
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """The parameters that all finished trials have."""
        self._raise_error_if_multi_objective(study)
        found = optuna.search_space.intersection_search_space(
            study.get_trials(deepcopy=False), include_pruned=True
        )
        return {name: each for name, each in found.items() if not each.single()}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """At random: the first trial, and a parameter that not every trial has."""
        self._raise_error_if_multi_objective(study)
        return self._first.sample_independent(study, trial, param_name, param_distribution)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Tell the bandit what finished since, and ask it."""
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        with self._lock.now:
            trials = study.get_trials(deepcopy=False)
            origin = min(each.datetime_start for each in trials if each.datetime_start).timestamp()
            run, of = self._run, (study.study_name, origin)
            if run is None or run.study != of or run.coded.distributions != search_space:
                coded = Coded(search_space)
                minimize = study.direction == optuna.study.StudyDirection.MINIMIZE
                made = bandit_on(self._policy, coded.space, minimize=minimize, seed=self._seed)
                run = self._run = StudyRun(of, coded, made)
            new = [each for each in trials if each.number not in run.told and run.coded.has(each)]
            finished = [each for each in new if each.state in FINISHED]
            run.tell(finished, [self._time_of(each, origin) for each in finished])
            # Exactly the trials that run are pending, whoever asked for them.
            running = [each for each in new if each.state == TrialState.RUNNING]
            X = run.coded.encode([each.params for each in running])
            t = np.array([self._time_of(each, origin) for each in running])
            run.bandit = with_pending(run.bandit, X, t)
            (x,) = asked(run.bandit, self._time_of(trial, origin))
            return run.coded.decode(x)

    def _time_of(self, trial: FrozenTrial, origin: float) -> float:
        if self._time is None:
            if trial.datetime_start is None:
                raise ValueError(f"trial {trial.number} has no time at which it started")
            return trial.datetime_start.timestamp() - origin
        if callable(self._time):
            return as_time(self._time(trial))
        if self._time not in trial.user_attrs:
            raise ValueError(f"trial {trial.number} has no user attribute {self._time!r}")
        return as_time(trial.user_attrs[self._time])
