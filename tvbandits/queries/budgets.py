"""How many questions an expert may be asked: schedules of the literature, and budgets.

A schedule maps the number t of decisions so far, with this one, to a number of questions. A budget also
knows how many questions have been asked, so that what is saved now may be spent later. Both count
decisions and not rewards: a batch that is told reward by reward is one decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from tvbandits.core.arrays import not_negative, whole_number
from tvbandits.core.coercion import several, shown


@dataclass(frozen=True)
class LogSchedule:
    """ceil(factor log t) queries after t told rewards; the paper's experiments take factor = 6.

    `every` is ours: all of them in every so many decisions, and none in between.

    Examples
    --------
    >>> from tvbandits.queries import LogSchedule
    >>> print([LogSchedule(6.0)(t) for t in (1, 10, 100)])
    [0, 14, 28]
    >>> print([LogSchedule(6.0, every=5)(t) for t in (9, 10, 11)])
    [0, 14, 0]
    """

    factor: float = 6.0
    every: int = 1

    def __post_init__(self) -> None:
        not_negative("factor", self.factor)
        whole_number("every", self.every)

    def __call__(self, told: int) -> int:
        """Number of queries."""
        return 0 if told % self.every else math.ceil(self.factor * math.log(max(told, 1)))


class Budget(Protocol):
    """How many questions may be asked now.

    A budget may have an attribute `per_reward`: True says that it counts rewards instead of decisions.
    """

    def __call__(self, told: int, asked: int) -> int:
        """In the `told`-th decision, after `asked` questions so far."""


@dataclass(frozen=True)
class PerStep:
    """So many questions in every decision; what is not asked is lost."""

    number: int

    def __post_init__(self) -> None:
        check_number("number", self.number)

    def __call__(self, told: int, asked: int) -> int:  # noqa: ARG002 - one face for all
        """The number."""
        return self.number


@dataclass(frozen=True)
class OnAverage:
    """At most `rate` questions a decision on average, at every time, spread freely.

    In t decisions no more than rate t are asked: what a decision saves, later ones may spend.

    Parameters
    ----------
    rate : float
    most : int, optional
        At most so many in one decision.

    Examples
    --------
    >>> from tvbandits.queries import OnAverage
    >>> budget = OnAverage(0.5)
    >>> print(budget(4, 0), budget(4, 2))  # nothing asked yet, and two asked
    2 0
    """

    rate: float
    most: int | None = None

    def __post_init__(self) -> None:
        not_negative("rate", self.rate)
        if self.most is not None:
            check_number("most", self.most)

    def __call__(self, told: int, asked: int) -> int:
        """What is left."""
        left = max(math.floor(self.rate * told + 1e-9) - asked, 0)
        return left if self.most is None else min(left, self.most)


@dataclass(frozen=True)
class Total:
    """At most `total` questions, spread evenly over a horizon: `OnAverage` until they are spent.

    Parameters
    ----------
    total : int
    horizon : int
        Number of steps.
    most : int, optional
        At most so many in one decision.
    """

    total: int
    horizon: int
    most: int | None = None

    def __post_init__(self) -> None:
        check_number("total", self.total)
        whole_number("horizon", self.horizon)
        if self.most is not None:
            check_number("most", self.most)

    def __call__(self, told: int, asked: int) -> int:
        """What is left."""
        spread = OnAverage(self.total / self.horizon, self.most)
        return spread(min(told, self.horizon), asked)


@dataclass(frozen=True)
class Following:
    """As many questions as somebody else has asked: `counts[t - 1]` for the t-th reward.

    A bandit that is told several rewards at once catches up.

    Examples
    --------
    >>> from tvbandits.queries import Following
    >>> budget = Following((0, 2, 5))  # as many as somebody else asked
    >>> print([budget(t, 0) for t in (1, 2, 3)])
    [0, 2, 7]
    """

    counts: tuple[int, ...]
    per_reward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        counts = several("counts", self.counts, "a sequence of whole numbers")
        for count in counts:
            check_number("each of counts", count)
        object.__setattr__(self, "counts", tuple(counts))

    def __call__(self, told: int, asked: int) -> int:
        """What the other has asked by now, less what was asked."""
        return max(sum(self.counts[:told]) - asked, 0)


def as_budget(budget: Budget | int) -> Budget:
    """A number is a number per step."""
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool | np.timedelta64):
        return PerStep(whole_number("budget", budget, at_least=0))
    if isinstance(budget, type) or not callable(budget):
        raise ValueError(
            f"budget must be a whole number per step, or a budget such as OnAverage(3); "
            f"got {shown(budget)}"
        )
    return budget


def whole(schedule: Callable[[int], int], told: int) -> int:
    """The number of a schedule, if it is one."""
    wanted: object = schedule(told)
    # What a formula such as np.ceil makes is a float that is whole; what people write is an integer.
    if isinstance(wanted, float | np.floating) and float(wanted).is_integer():
        wanted = int(wanted)
    return whole_number(f"schedule({told})", wanted, at_least=0)


def check_number(name: str, value: object) -> None:
    """Raise a `ValueError` unless `value` is a whole number that is not negative."""
    whole_number(name, value, at_least=0)
