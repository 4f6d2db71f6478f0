"""A problem as a player meets it: noisy rewards, and all that a problem may have besides `Problem`."""

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
from tvbandits.domains.problem import Problem, get_added_noise_at, get_noise_at
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.validation import Array, finite_number


class Stream(IntEnum):
    """Streams of noise: the same point at the same time has another noise in each.

    `REPEAT` is the distance between the streams of a first and a second reading in one step.
    """

    REWARD = 0x01
    OUTCOME = 0x11
    FIRST_SAMPLE = 0xF1
    REPRESENTATIVES = 0xF2
    REPEAT = 0x100


@dataclass(frozen=True)
class Environment:
    """A problem with the members that only some problems have.

    A problem may have each of the attributes below. One that is random has `realise(seed)`; one that its
    player changes has `begin()`, which returns a copy for one run, and `wear(X)`, which is called with
    every point that is played; one with limits has `outcomes(X, t)`, values (n,) by name.

    Attributes
    ----------
    problem : Problem
    limits : sequence of Limit
    safe : array of shape (m, d)
        Points where the limits are known to hold.
    control : array of shape (d,), optional
        The point that others are compared with at the same time.
    move_cost : number or callable, optional
        As for a bandit.
    trials : int, optional
        With trials, the reward is a chance to succeed, and a reading is the share of the trials that
        succeeded.
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
            problem, **{each: getattr(problem, each) for each in names if hasattr(problem, each)}
        )

    @property
    def random(self) -> bool:
        """Whether the problem has a realisation for each seed."""
        return hasattr(self.problem, "realise")

    @property
    def wears(self) -> bool:
        """Whether the problem is changed by what is played."""
        return hasattr(self.problem, "wear")

    def realise(self, seed: int) -> Environment:
        """Return the realisation of a seed; of a problem that is not random, the problem itself."""
        problem = self.problem
        return Environment.of(problem.realise(seed)) if hasattr(problem, "realise") else self

    def begin(self) -> Environment:
        """Return the environment of one run: a copy where a player changes the problem."""
        problem = self.problem
        return Environment.of(problem.begin()) if hasattr(problem, "begin") else self

    def wear(self, x: Array) -> None:
        """Let the problem change as it does when the points (n, d) are played."""
        if hasattr(self.problem, "wear"):
            self.problem.wear(x)

    def play(
        self, x: Array, t: float, seed: int, stream: int = Stream.REWARD
    ) -> tuple[float, float]:
        """Return the true reward of a point (1, d) at a time, and the reward with noise.

        The noise depends on (seed, stream, point, time) alone: see `tvbandits.experts.keyed_noise`. A
        problem that its player changes is changed.
        """
        problem = self.problem
        reward = finite_number(f"the value of {problem.name}", problem.value(x, t)[0])
        self.wear(x)
        noise = float(keyed_normal(seed, stream, x, t)[0])
        if self.trials is not None:
            return reward, float(binom.ppf(ndtr(noise), self.trials, reward)) / self.trials
        return reward, reward + float(get_added_noise_at(problem, x)[0]) ** 0.5 * noise

    def stated_noise(self, X: Array) -> Array | None:
        """Return the noise variances (n,) of readings, where each candidate has its own."""
        each = self.problem.noise_variance
        return None if each is None or np.ndim(each) == 0 else get_noise_at(self.problem, X)

    def outcomes(self, X: Array, t: float) -> dict[str, Array]:
        """Return the true values (n,) of each outcome that has a limit, by name."""
        if not self.limits:
            return {}
        values = self.problem.outcomes(X, t)  # type: ignore[attr-defined]
        return {limit.name: np.asarray(values[limit.name]) for limit in self.limits}

    def read_outcomes(self, X: Array, times: Array, seed: int) -> tuple[dict[str, Array], Array]:
        """Return readings (n,) of each outcome by name, and how many limits each point violates (n,).

        The noise depends on what that of rewards does, and on the outcome.
        """
        readings, violations = {}, np.zeros(len(X))
        points = list(zip(X[:, None], times.tolist(), strict=True))
        true = [self.outcomes(x, t) for x, t in points]
        for k, limit in enumerate(self.limits):
            values = np.array([each[limit.name][0] for each in true])
            noise = np.array([keyed_normal(seed, Stream.OUTCOME + k, x, t)[0] for x, t in points])
            violations += ~limit.holds(values)
            readings[limit.name] = values + (limit.noise_variance or 0.0) ** 0.5 * noise
        return readings, violations


def true_regrets(best: Array, rewards: Array, violations: Array) -> Array:
    """Return regrets (n,): what a violation earns is no gain."""
    regret = best - rewards
    return np.where(violations == 0, regret, np.maximum(regret, 0.0))
