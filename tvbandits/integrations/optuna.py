"""A bandit as a sampler of Optuna: `optuna.create_study(sampler=TVSampler())`.

Optuna's own samplers treat all trials alike, however old. This one uses the time of each trial, so that
a study may run for weeks while the best parameters drift.
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
    as_readings,
    ask_at,
    from_share,
    make_bandit,
    parameter_name,
    set_pending,
    to_share,
)
from tvbandits.validation import Array, as_time, describe, whole_number

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)

# The largest seed of numpy's older generator, which Optuna draws from.
LARGEST_SEED = 2**32 - 1


def _random_seed() -> int:
    return int(np.random.default_rng().integers(LARGEST_SEED, endpoint=True))


class CodedSpace:
    """A search space of Optuna as a `Space`: shares of ranges, and numbers of steps and choices."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        pairs = self.distributions.items()
        self.space = Space(**{parameter_name(name): _parameter(each) for name, each in pairs})

    def encode(self, rows: Sequence[Mapping[str, Any]]) -> Array:
        """Return the points (n, d) for the parameters of trials."""
        if not rows:
            return np.empty((0, self.space.dimension))
        codes = {
            parameter_name(name): [_code(each, row[name]) for row in rows]
            for name, each in self.distributions.items()
        }
        return self.space.encode(pd.DataFrame(codes))

    def decode(self, x: Array) -> dict[str, Any]:
        """Return the parameters of a point (d,)."""
        (row,) = self.space.decode(x[None, :]).to_dict("records")
        return {
            name: _value(each, row[parameter_name(name)])
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
        return [str(i) for i in range(len(distribution.choices))]
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise TypeError(f"a distribution must be float, int or categorical, got {distribution}")
    return Integer(0, _steps(distribution)) if _steps(distribution) else (0.0, 1.0)


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


def _code(distribution: Any, value: Any) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return str(int(distribution.to_internal_repr(value)))
    if _steps(distribution):
        return round((value - distribution.low) / distribution.step)
    return float(to_share(math.log(value) if distribution.log else value, *_ends(distribution)))


def _value(distribution: Any, code: Any) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(code)]
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

    def tell(self, finished: Sequence[FrozenTrial], times: Sequence[float]) -> None:
        """Tell the bandit the rewards of trials."""
        if not finished:
            return
        X = self.space.encode([each.params for each in finished])
        # A pruned trial may have a value from before its end.
        y: Any = [each.value if each.state == TrialState.COMPLETE else np.nan for each in finished]
        self.bandit.tell(X, as_readings(y), times)
        self.numbers.update(each.number for each in finished)


class TVSampler(optuna.samplers.BaseSampler):
    """A sampler that asks a bandit, and tells it the times of the trials.

    The first trial is random, since Optuna does not know the search space before. Running trials, also
    those of other processes on the same storage, are pending points. A trial that failed or was pruned
    is a play without a reading.

    Parameters
    ----------
    policy : callable, optional
        A recipe of a `Bandit`, by default `policies.adaptive_gp_ucb`; set options by
        `partial(policies.sw_gp_ucb, window=30)`.
    time : str or callable, optional
        The name of a user attribute that holds the time of a trial, set before its first `suggest`; or a
        function of a `FrozenTrial`. By default seconds since the first trial of the study began.
    seed : int, optional
        By default, as with Optuna's samplers, each sampler has other random numbers.

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
        self._seed = _random_seed() if seed is None else whole_number("seed", seed, 0, LARGEST_SEED)
        self._first = optuna.samplers.RandomSampler(self._seed)
        self._lock = SharedLock()
        self._run: StudyRun | None = None

    @property
    def bandit(self) -> Bandit | None:
        """The bandit, which has learned the trials that ended before the latest sample; at first None.

        It plays on shares of ranges: 0 is the lowest value of a float parameter, or its logarithm, 1 the
        highest.
        """
        return None if self._run is None else self._run.bandit

    def reseed_rng(self) -> None:
        """Change the random numbers, as Optuna demands of a sampler that several workers use."""
        with self._lock.now:
            self._seed = _random_seed()
            self._first.reseed_rng()
            if self._run is not None:
                bandit = self._run.bandit
                random = np.random.default_rng(self._seed).bit_generator.state
                state = replace(bandit.state, random=random)
                self._run.bandit = Bandit.from_state(bandit.recipe, state)

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
        return self._first.sample_independent(study, trial, param_name, param_distribution)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Tell the bandit the trials that have finished since, and ask it."""
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        with self._lock.now:
            trials = study.get_trials(deepcopy=False)
            origin = min(each.datetime_start for each in trials if each.datetime_start).timestamp()
            run, key = self._run, (study.study_name, origin)
            if run is None or run.study != key or run.space.distributions != search_space:
                space = CodedSpace(search_space)
                minimize = study.direction == optuna.study.StudyDirection.MINIMIZE
                bandit = make_bandit(self._policy, space.space, minimize=minimize, seed=self._seed)
                run = self._run = StudyRun(key, space, bandit)
            new = [each for each in trials if each.number not in run.numbers]
            new = [each for each in new if run.space.contains(each)]
            finished = [each for each in new if each.state in FINISHED]
            run.tell(finished, [self._time_of(each, origin) for each in finished])
            # Exactly the running trials are pending, whoever has asked for them.
            running = [each for each in new if each.state == TrialState.RUNNING]
            X = run.space.encode([each.params for each in running])
            t = np.array([self._time_of(each, origin) for each in running])
            run.bandit = set_pending(run.bandit, X, t)
            (x,) = ask_at(run.bandit, self._time_of(trial, origin))
            return run.space.decode(x)

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
