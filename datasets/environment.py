"""An environment that plays a problem: it adds noise, and handles the optional members of problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import binom

from tvbandits.acquisition.limits import Limit
from tvbandits.domains.moving import MoveCost
from tvbandits.domains.problem import Problem, get_added_noise_at, get_noise_at, rewards_at
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.validation import Array, finite_number


class Stream(IntEnum):
    """The streams of noise, which are independent at the same point and time.

    `REPEAT` is added to the number of a stream for a second reading at the same point and step.
    """

    REWARD = 0x01
    OUTCOME = 0x11
    FIRST_SAMPLE = 0xF1
    REPRESENTATIVES = 0xF2
    REPEAT = 0x100


@dataclass(frozen=True)
class Environment:
    """A problem, with defaults for the members that only some problems have.

    A problem may have any of the attributes below. A random problem has `realise(seed)`. A problem whose
    rewards depend on earlier plays has `begin()`, which returns a copy for one run, and `wear(X)`, which
    is called with every point that is played. A problem with limits has `outcomes(X, t)`, which returns
    values (n,) by name.

    Attributes
    ----------
    problem : Problem
    limits : sequence of Limit
    safe : array of shape (m, d)
        Points that satisfy the limits.
    control : array of shape (d,), optional
        The point that the others are compared with at the same time.
    move_cost : number or callable, optional
        The cost of moves, as for a bandit.
    trials : int, optional
        If given, the reward is a probability of success, and a reading is the fraction of so many
        trials that succeeded.
    """

    problem: Problem
    limits: Sequence[Limit] = ()
    safe: ArrayLike = ()
    control: ArrayLike | None = None
    move_cost: MoveCost | None = None
    trials: int | None = None

    @classmethod
    def of(cls, problem: Problem) -> Environment:
        """Return the environment of a problem."""
        names = ("limits", "safe", "control", "move_cost", "trials")
        return cls(
            problem, **{name: getattr(problem, name) for name in names if hasattr(problem, name)}
        )

    @property
    def is_random(self) -> bool:
        """Return whether the problem has a realisation for each seed."""
        return hasattr(self.problem, "realise")

    def realise(self, seed: int) -> Environment:
        """Return the environment of a seed's realisation; without realisations, this environment."""
        problem = self.problem
        return Environment.of(problem.realise(seed)) if hasattr(problem, "realise") else self

    def begin(self) -> Environment:
        """Return the environment of one run, with a copy of the problem if plays change it."""
        problem = self.problem
        return Environment.of(problem.begin()) if hasattr(problem, "begin") else self

    def play(
        self, x: Array, t: float, seed: int, stream: int = Stream.REWARD
    ) -> tuple[float, float]:
        """Play a point (1, d) at a time; return its noise-free reward and the reward with noise.

        The noise depends only on (seed, stream, point, time): see `tvbandits.experts.keyed_noise`.
        """
        problem = self.problem
        reward = finite_number(f"the value of {problem.name}", rewards_at(problem, x, t)[0])
        if hasattr(problem, "wear"):
            problem.wear(x)
        noise = float(keyed_normal(seed, stream, x, t)[0])
        if self.trials is not None:
            return reward, float(binom.ppf(ndtr(noise), self.trials, reward)) / self.trials
        return reward, reward + float(get_added_noise_at(problem, x)[0]) ** 0.5 * noise

    def stated_noise(self, X: Array) -> Array | None:
        """Return the noise variances (n,) at points (n, d); None unless each candidate has its own."""
        variance = self.problem.noise_variance
        return None if variance is None or np.ndim(variance) == 0 else get_noise_at(self.problem, X)

    def outcomes(self, X: Array, t: float) -> dict[str, Array]:
        """Return the noise-free values (n,) of each outcome that has a limit, by name."""
        if not self.limits:
            return {}
        values = self.problem.outcomes(X, t)  # type: ignore[attr-defined]
        return {limit.name: np.asarray(values[limit.name]) for limit in self.limits}

    def read_outcomes(self, X: Array, times: Array, seed: int) -> tuple[dict[str, Array], Array]:
        """Return noisy readings (n,) of each outcome by name, and the number (n,) of violated limits.

        The noise depends only on (seed, outcome, point, time).
        """
        readings, violations = {}, np.zeros(len(X))
        points = list(zip(X[:, None], times.tolist(), strict=True))
        outcomes = [self.outcomes(x, t) for x, t in points]
        for k, limit in enumerate(self.limits):
            values = np.array([outcome[limit.name][0] for outcome in outcomes])
            noise = np.array([keyed_normal(seed, Stream.OUTCOME + k, x, t)[0] for x, t in points])
            violations += ~limit.holds(values)
            readings[limit.name] = values + (limit.noise_variance or 0.0) ** 0.5 * noise
        return readings, violations


def true_regrets(best: Array, rewards: Array, violations: Array) -> Array:
    """Return regrets (n,), where a play that violates a limit has a regret of at least 0."""
    regret = best - rewards
    return np.where(violations == 0, regret, np.maximum(regret, 0.0))
