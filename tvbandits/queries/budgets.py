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


@dataclass(frozen=True)
class LogSchedule:
    """ceil(factor log t) queries after t told rewards; the paper's experiments take factor = 6."""

    factor: float = 6.0

    def __post_init__(self) -> None:
        _check_amount("factor", self.factor)

    def __call__(self, told: int) -> int:
        """Number of queries."""
        return math.ceil(self.factor * math.log(max(told, 1)))


@dataclass(frozen=True)
class PolylogSchedule:
    """ceil(factor log^d(t / accuracy)): the number of queries of the theory ([S] eq. 57)."""

    dimension: int
    factor: float = 1.0
    accuracy: float = 0.2

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {self.dimension}")
        _check_amount("factor", self.factor)
        if not 0 < self.accuracy <= 1:
            raise ValueError(f"accuracy must lie in (0, 1], got {self.accuracy}")

    def __call__(self, told: int) -> int:
        """Number of queries."""
        return math.ceil(self.factor * math.log(max(told, 1) / self.accuracy) ** self.dimension)


class Budget(Protocol):
    """How many questions may be asked now.

    A budget may have an attribute `per_reward`: True says that it counts rewards instead of decisions.
    """

    def __call__(self, told: int, asked: int) -> int:
        """In the `told`-th decision, after `asked` questions so far."""
        ...


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
    """

    rate: float
    most: int | None = None

    def __post_init__(self) -> None:
        _check_amount("rate", self.rate)
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
        check_number("horizon", self.horizon)
        if self.horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {self.horizon}")
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
    """

    counts: tuple[int, ...]
    per_reward: ClassVar[bool] = True

    def __call__(self, told: int, asked: int) -> int:
        """What the other has asked by now, less what was asked."""
        return max(sum(self.counts[:told]) - asked, 0)


def as_budget(budget: Budget | int) -> Budget:
    """A number is a number per step."""
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool):
        return PerStep(int(budget))
    if isinstance(budget, type) or not callable(budget):
        raise ValueError(
            f"budget must be a whole number per step, or a budget such as OnAverage(3); "
            f"got {budget!r}"
        )
    return budget


def whole(schedule: Callable[[int], int], told: int) -> int:
    """The number of a schedule, if it is one."""
    wanted = schedule(told)
    if not (math.isfinite(wanted) and wanted >= 0 and int(wanted) == wanted):
        raise ValueError(f"schedule({told}) must be a whole number >= 0, got {wanted}")
    return int(wanted)


def check_number(name: str, value: object) -> None:
    """Raise a `ValueError` unless `value` is a whole number that is not negative."""
    if not (isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0):
        raise ValueError(f"{name} must be a whole number >= 0, got {value!r}")


def _check_amount(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and not negative, got {value}")
