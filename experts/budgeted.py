"""`Budgeted` limits the points per step, the total points, and the total cost of an expert's queries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tvbandits.experts.protocol import Answers, Expert, ExpertError, restore_state, state_of
from tvbandits.experts.wrapper import NEEDS, SharedLock, Wrapper, query_and_check
from tvbandits.validation import (
    Array,
    as_points,
    as_time,
    check_optional,
    check_part,
    nonnegative_number,
    positive_number,
    whole_number,
)


@dataclass(frozen=True)
class Spending:
    """Counts of the queries that a budget has allowed so far, and their cost.

    Attributes
    ----------
    queries : int
        Calls of the expert.
    asked : int
        Points in these calls.
    answered : int
        Points that the expert answered.
    refused : int
        Points that the budget refused.
    cost : float
        Cost of all answers, in the expert's own unit.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import Budgeted, CallableExpert
    >>> expert = Budgeted(CallableExpert(lambda X, t: X[:, 0], 0.01), total=3)
    >>> answers = expert.query(np.array([[1.0], [2.0]]), 1.0)
    >>> print(expert.spending)
    Spending(queries=1, asked=2, answered=2, refused=0, cost=0.0)
    """

    queries: int = 0
    asked: int = 0
    answered: int = 0
    refused: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class _Account:
    """The state of a budget, which is one object so that an interrupt cannot leave it half-changed.

    Attributes
    ----------
    spending : Spending
    steps : mapping of time to int
        Points in queries at each time.
    price : float or None
        The largest of the budget's `price` and the costs of an answer so far; None if both are unknown.
    """

    spending: Spending
    steps: Mapping[float, int]
    price: float | None


@dataclass(eq=False)
class Budgeted(Wrapper):
    """A wrapper that queries an expert within a budget, and itself refuses the points beyond it.

    The expert is queried about the first points that the budget allows; a note counts the others. When
    the budget is used up, the expert is not called.

    Parameters
    ----------
    expert : Expert
    per_step : int, optional
        Largest number of points at one time t, over all queries at that time.
    total : int, optional
        Largest number of points over all queries.
    cost : float, optional
        Largest total cost, in the expert's unit.
    price : float, optional
        Cost of one answer. None: the highest cost of an answer so far; then the first query is about
        one point only. A cost is known only after the query, so `cost` is not exceeded as long as the
        price does not rise.

    Notes
    -----
    Points that the expert refused count as asked. So do the points of a query that raised an error, at
    the highest price so far, since an expert that did not answer may charge for it. A pickled budget
    keeps its spending. A query plan puts the points that were played long ago first, which are the same
    in step after step: if the budget cuts every query short, let the plan select fewer points instead
    (`KDPP(budget)`), and use the budget as the last resort. To make a budget count the extra queries of
    `Calibrated(..., probe=True)` and `Retrying`, put these wrappers around it, not inside.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import Budgeted, CallableExpert
    >>> expert = Budgeted(CallableExpert(lambda X, t: X[:, 0], 0.01), total=3)
    >>> for t in (1.0, 2.0):
    ...     print(expert.query(np.array([[1.0], [2.0]]), t).values)
    [1. 2.]
    [ 1. nan]
    """

    expert: Expert
    per_step: int | None = field(default=None, kw_only=True)
    total: int | None = field(default=None, kw_only=True)
    cost: float | None = field(default=None, kw_only=True)
    price: float | None = field(default=None, kw_only=True)
    _account: _Account = field(init=False, repr=False)
    _lock: SharedLock = field(default_factory=SharedLock, init=False, repr=False)

    def __post_init__(self) -> None:
        check_part("expert", self.expert, NEEDS, "query")
        check_optional(whole_number, "per_step", self.per_step, at_least=0)
        check_optional(whole_number, "total", self.total, at_least=0)
        check_optional(positive_number, "cost", self.cost)
        check_optional(nonnegative_number, "price", self.price)
        if (self.per_step, self.total, self.cost) == (None, None, None):
            raise ValueError("a budget needs a limit: give per_step=, total= or cost=")
        self._account = _Account(Spending(), {}, self.price)

    @property
    def spending(self) -> Spending:
        """Return the counts and the cost of the queries so far."""
        return self._account.spending

    def query(self, X: Array, t: float) -> Answers:
        """Return answers for as many of the points as the budget allows; only one thread queries."""
        points, t = as_points(X), as_time(t)
        parts: list[Answers] = []
        count = 0
        with self._lock.current:
            while count < len(points):
                is_trial = self.cost is not None and self._account.price is None
                size = self._count_affordable(len(points) - count, t)
                if size == 0:
                    break
                parts.append(self._query_and_charge(points[count : count + size], t))
                count += size
                if not is_trial:
                    break
            refused = len(points) - count
            spending = self._account.spending
            spending = replace(spending, refused=spending.refused + refused)
            self._account = replace(self._account, spending=spending)
        notes = tuple(note for part in parts for note in part.notes)
        missing = np.full(refused, np.nan)
        return Answers(
            np.concatenate([*(part.values for part in parts), missing]),
            self._join_variances(parts, missing),
            sum(part.cost for part in parts),
            (*notes, self._describe_limits(count, len(points), t)) if refused else notes,
        )

    @staticmethod
    def _join_variances(parts: list[Answers], missing: Array) -> Array | None:
        """Return the variances of all points, or None if the expert states none."""
        variances = [part.variance for part in parts if part.variance is not None]
        if len(variances) < len(parts):
            if variances:
                raise ExpertError(
                    "the expert must state variances with all of its answers or with none"
                )
            return None
        return np.concatenate([*variances, missing])

    def _count_affordable(self, most: int, t: float) -> int:
        """Return how many of `most` points the budget allows at time `t`.

        If costs are limited and no price is known, it allows one point.
        """
        account = self._account
        if self.per_step is not None:
            most = min(most, self.per_step - account.steps.get(t, 0))
        if self.total is not None:
            most = min(most, self.total - account.spending.asked)
        if self.cost is not None:
            remaining = self.cost - account.spending.cost
            if account.price is None:
                most = min(most, int(remaining > 0))
            elif most * account.price > remaining:
                # Three answers at 0.1 are within a limit of 0.3, whatever their sum rounds to.
                most = math.floor(remaining / account.price * (1 + 1e-9))
        return max(most, 0)

    def _query_and_charge(self, points: Array, t: float) -> Answers:
        """Query the expert, and charge the account even if the query fails."""
        before, count = self._account, len(points)
        total = before.spending
        total = replace(total, queries=total.queries + 1, asked=total.asked + count)
        steps = {**before.steps, t: before.steps.get(t, 0) + count}
        advance = replace(total, cost=total.cost + count * (before.price or 0.0))
        pending = self._account = _Account(advance, steps, before.price)
        answers = query_and_check(self.expert, points, t)
        answered, price = int(answers.answered.sum()), before.price
        if answered or answers.cost > 0:
            # The price is per answer, not per point, since refusals may be free.
            price = max(answers.cost / (answered or count), price or 0.0)
        total = replace(total, answered=total.answered + answered, cost=total.cost + answers.cost)
        if self._account is pending:  # `restore` did not replace it in the meantime
            self._account = _Account(total, steps, price)
        return answers

    def _describe_limits(self, count: int, points: int, t: float) -> str:
        """Return a note about a query of which only `count` points were passed on to the expert."""
        spending = self._account.spending
        note = f"budget: queried {count} of {points} points"
        if self.per_step is not None:
            note += f", {self._account.steps.get(t, 0)} of {self.per_step} at t = {t:g}"
        if self.total is not None:
            note += f", {spending.asked} of {self.total} in total"
        if self.cost is not None:
            note += f", cost {spending.cost:g} of {self.cost:g}"
        return note

    def state(self) -> dict[str, Any]:
        """Return the spending in total and at each time, the price, and the expert's state."""
        account = self._account
        return {
            "spending": asdict(account.spending),
            "steps": [[t, count] for t, count in account.steps.items()],
            "price": account.price,
            "expert": state_of(self.expert),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace the state by that of another budget; a query in progress will not be counted."""
        try:
            counts = dict(state["spending"])
            cost = nonnegative_number("cost", counts.pop("cost"))
            spending = Spending(**{n: whole_number(n, v, 0) for n, v in counts.items()}, cost=cost)
            steps = {as_time(t): whole_number("asked", count, 0) for t, count in state["steps"]}
            price = check_optional(nonnegative_number, "price", state["price"])
            expert_state = state["expert"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not the state of a budget: {error!r}") from error
        restore_state(self.expert, expert_state)
        self._account = _Account(spending, steps, price)
