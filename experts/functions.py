"""Experts that are functions: a simulator of a problem, and a plain function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.domains.problem import Problem, get_added_noise_at, get_noise_at
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.experts.protocol import Answers, ExpertError
from tvbandits.validation import (
    Array,
    as_floats,
    as_points,
    as_time,
    check_function as check_function,
    check_optional,
    check_part,
    noise_variance_number,
    nonnegative_number,
    set_fields,
    whole_number,
)


@dataclass(frozen=True)
class SimulatorExpert:
    """Answers with the true reward of a problem, and noise of its own.

    The noise of an answer depends on (seed, point, time) alone, so the same question has the same
    answer, and a comparison is repeatable whatever the order of questions.

    Parameters
    ----------
    problem : Problem
    variance : float, optional
        Noise variance of an answer (unit of reward squared). By default an answer is as noisy as a
        reward of the problem, and states no variance where nobody knows that one.
    seed : int
    cost : float
        Cost of one answer.

    Examples
    --------
    >>> from tvbandits.datasets import DriftingBump
    >>> from tvbandits.experts import SimulatorExpert
    >>> problem = DriftingBump(candidates=11)
    >>> answers = SimulatorExpert(problem, variance=0.01, cost=2.0).query(problem.domain.X[:3], 1)
    >>> print(len(answers.values), answers.cost)
    3 6.0
    """

    problem: Problem
    variance: float | None = None
    seed: int = 0
    cost: float = 0.0
    stream: ClassVar[int] = 0xE1  # of the noise, which is not that of rewards

    def __post_init__(self) -> None:
        # One method is enough: to look at all members of a problem may take long.
        check_part("problem", self.problem, "a problem such as DriftingBump()", "value")
        check_optional(noise_variance_number, "variance", self.variance)
        set_fields(self, cost=nonnegative_number("cost", self.cost))
        whole_number("seed", self.seed, at_least=0)

    def query(self, X: Array, t: float) -> Answers:
        """Return problem.value(X, t) plus noise."""
        points, when = as_points(X), as_time(t)
        if self.variance is None:
            added, stated = (
                get_added_noise_at(self.problem, points),
                get_noise_at(self.problem, points),
            )
        else:
            added = stated = np.full(len(points), self.variance)
        noise = np.sqrt(added) * keyed_normal(self.seed, self.stream, points, when)
        values = self.problem.value(points, when) + noise
        return Answers(values, stated, self.cost * len(points))


@dataclass(frozen=True)
class CallableExpert:
    """Turns a plain function into an expert.

    A NaN is an error that names the point: from a plain function it is more often a mistake than a
    refusal. An expert that refuses some points has a `query` of its own.

    Parameters
    ----------
    function : callable
        `function(X, t)` takes points (q, d) and a time and returns q numbers.
    variance : float
        Noise variance of its answers (unit of reward squared), positive.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert
    >>> expert = CallableExpert(lambda X, t: X[:, 0] + t, variance=0.04)
    >>> print(expert.query(np.array([[1.0], [2.0]]), 10.0).values)
    [11. 12.]
    """

    function: Callable[[Array, float], ArrayLike]
    variance: float

    def __post_init__(self) -> None:
        check_function("function", self.function)
        noise_variance_number("variance", self.variance)

    def query(self, X: Array, t: float) -> Answers:
        """Return function(X, t)."""
        X, t = as_points(X), as_time(t)
        try:
            values = as_floats(self.function(X, t), "the result of the function")
        except ValueError as error:
            raise ExpertError(str(error)) from error
        if values.shape != (len(X),):
            raise ExpertError(
                f"the function must return {len(X)} numbers, got shape {values.shape}"
            )
        if np.isnan(values).any():
            where = int(np.isnan(values).argmax())
            raise ExpertError(f"the function returned NaN at {X[where].tolist()}, t = {t}")
        return Answers(values, np.full(len(X), self.variance))
