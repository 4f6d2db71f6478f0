"""Experts that evaluate a function: the reward of a problem, or any function of points and time."""

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
    """An expert that answers with the noise-free reward of a problem plus independent noise.

    The noise of an answer depends only on (seed, point, time), so equal queries have equal answers, and
    a comparison is repeatable whatever the order of its queries.

    Parameters
    ----------
    problem : Problem
    variance : float, optional
        Noise variance of an answer (unit of reward squared). None: that of a reward of the problem; if
        the problem's is unknown, answers state no variance.
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
    stream: ClassVar[int] = 0xE1  # the stream of the noise, different from that of rewards

    def __post_init__(self) -> None:
        # Only one method is checked, since some properties of a problem take long to compute.
        check_part("problem", self.problem, "a problem such as DriftingBump()", "value")
        check_optional(noise_variance_number, "variance", self.variance)
        set_fields(self, cost=nonnegative_number("cost", self.cost))
        whole_number("seed", self.seed, at_least=0)

    def query(self, X: Array, t: float) -> Answers:
        """Return problem.value(X, t) plus noise."""
        points, time = as_points(X), as_time(t)
        if self.variance is None:
            noise_variance = get_added_noise_at(self.problem, points)
            stated_variance = get_noise_at(self.problem, points)
        else:
            noise_variance = stated_variance = np.full(len(points), self.variance)
        noise = np.sqrt(noise_variance) * keyed_normal(self.seed, self.stream, points, time)
        values = self.problem.value(points, time) + noise
        return Answers(values, stated_variance, self.cost * len(points))


@dataclass(frozen=True)
class CallableExpert:
    """An expert that answers with the values of a function.

    If the function returns NaN, the query raises an error that names the point, since NaN is more often
    a mistake in a function than a refusal. An expert that refuses some points needs its own `query`.

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
            row = int(np.isnan(values).argmax())
            raise ExpertError(f"the function returned NaN at {X[row].tolist()}, t = {t}")
        return Answers(values, np.full(len(X), self.variance))
