"""`Budgeted`: at most so many answers a step, so many in all, and so much cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tvbandits.experts.protocol import Answers, Expert, ExpertError, restore_state, state_of
from tvbandits.experts.wrapper import NEEDS, SharedLock, Wrapper, ask
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
    """The points and costs that a budget has paid for so far.

    Attributes
    ----------
    queries : int
        Calls of the expert.
    asked : int
        Points it was asked about.
    answered : int
        Points it answered.
    refused : int
        Points that the budget did not allow.
    cost : float
        In the expert's own unit.

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
    """The state of a budget: one value, so that an interrupt finds it before or after a change.

    Attributes
    ----------
    spending : Spending
    steps : mapping of time to int
        Points asked about at each time.
    price : float or None
        The highest cost of an answer so far, or the one that was stated.
    """

    spending: Spending
    steps: Mapping[float, int]
    price: float | None


@dataclass(eq=False)
class Budgeted(Wrapper):
    """Asks an expert within a budget, and refuses the points beyond it without asking.

    The first points are asked about; a note has the number of the others. Once the budget is used up,
    the expert is not called.

    Parameters
    ----------
    expert : Expert
    per_step : int, optional
        Most points asked at one time t; several queries at one t share it.
    total : int, optional
        Most points asked in all.
    cost : float, optional
        Most cost in all, in the expert's unit.
    price : float, optional
        Cost of one answer, where it is known. Otherwise it is taken to be the highest cost
        of an answer so far, and the first query asks about one point alone. Cost is known only
        afterwards: `cost` is not exceeded as long as the price does not rise.

    Notes
    -----
    Points that the expert was asked about and refused count as asked, and so does a query that raises,
    at the highest price so far: an expert that did not answer may send a bill all the same. A pickled
    budget goes on where it was. A query plan names the points played long ago first, and the same ones
    come first in step after step: where a budget cuts every query short, rather let the plan ask for
    fewer (`KDPP(budget)`), and keep the budget as the last resort. Put `Calibrated(..., probe=True)` and
    `Retrying` around it, not inside, for a budget that counts their extra questions too.

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
        """The points and costs so far."""
        return self._account.spending

    def query(self, X: Array, t: float) -> Answers:
        """Ask about as many of the points as the budget allows; threads take turns."""
        points, when = as_points(X), as_time(t)
        parts: list[Answers] = []
        count = 0
        with self._lock.now:
            while count < len(points):
                trial = self.cost is not None and self._account.price is None
                size = self._affordable(len(points) - count, when)
                if size == 0:
                    break
                parts.append(self._ask(points[count : count + size], when))
                count += size
                if not trial:
                    break
            rest = len(points) - count
            spending = self._account.spending
            spending = replace(spending, refused=spending.refused + rest)
            self._account = replace(self._account, spending=spending)
        notes = tuple(note for part in parts for note in part.notes)
        missing = np.full(rest, np.nan)
        return Answers(
            np.concatenate([*(part.values for part in parts), missing]),
            self._variance(parts, missing),
            sum(part.cost for part in parts),
            (*notes, self._note(count, len(points), when)) if rest else notes,
        )

    @staticmethod
    def _variance(parts: list[Answers], missing: Array) -> Array | None:
        """Return the variances of parts and of what is missing; None where the expert states none."""
        stated = [part.variance for part in parts if part.variance is not None]
        if len(stated) < len(parts):
            if stated:
                raise ExpertError("the expert states a variance with some of its answers only")
            return None
        return np.concatenate([*stated, missing])

    def _affordable(self, most: int, t: float) -> int:
        """Return how many of `most` points may be asked at time `t`; one while no price is known."""
        account = self._account
        if self.per_step is not None:
            most = min(most, self.per_step - account.steps.get(t, 0))
        if self.total is not None:
            most = min(most, self.total - account.spending.asked)
        if self.cost is not None:
            rest = self.cost - account.spending.cost
            if account.price is None:
                most = min(most, int(rest > 0))
            elif most * account.price > rest:
                # Three answers at 0.1 are within a limit of 0.3, whatever their sum rounds to.
                most = math.floor(rest / account.price * (1 + 1e-9))
        return max(most, 0)

    def _ask(self, points: Array, t: float) -> Answers:
        """Ask, with the account charged before: an expert that does not answer may send a bill."""
        before, count = self._account, len(points)
        total = before.spending
        total = replace(total, queries=total.queries + 1, asked=total.asked + count)
        steps = {**before.steps, t: before.steps.get(t, 0) + count}
        advance = replace(total, cost=total.cost + count * (before.price or 0.0))
        pending = self._account = _Account(advance, steps, before.price)
        answers = ask(self.expert, points, t)
        answered, price = int(answers.answered.sum()), before.price
        if answered or answers.cost > 0:
            # By answers, not by questions: refusals may be free.
            price = max(answers.cost / (answered or count), price or 0.0)
        total = replace(total, answered=total.answered + answered, cost=total.cost + answers.cost)
        if self._account is pending:  # it was not restored meanwhile
            self._account = _Account(total, steps, price)
        return answers

    def _note(self, asked: int, points: int, t: float) -> str:
        """Return a note on the points that the budget did not allow."""
        spending = self._account.spending
        note = f"budget: {asked} of {points} points asked"
        if self.per_step is not None:
            note += f", {self._account.steps.get(t, 0)} of {self.per_step} at t = {t:g}"
        if self.total is not None:
            note += f", {spending.asked} of {self.total} in total"
        if self.cost is not None:
            note += f", cost {spending.cost:g} of {self.cost:g}"
        return note

    def state(self) -> dict[str, Any]:
        """Return the spending, in all and at each time, the price so far, and the expert's state."""
        account = self._account
        return {
            "spending": asdict(account.spending),
            "steps": [[t, asked] for t, asked in account.steps.items()],
            "price": account.price,
            "expert": state_of(self.expert),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue where another budget was; a query that runs at this moment does not count."""
        try:
            counts = dict(state["spending"])
            cost = nonnegative_number("cost", counts.pop("cost"))
            spending = Spending(**{n: whole_number(n, v, 0) for n, v in counts.items()}, cost=cost)
            steps = {as_time(t): whole_number("asked", asked, 0) for t, asked in state["steps"]}
            price = check_optional(nonnegative_number, "price", state["price"])
            inner = state["expert"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a budget: {error!r}") from error
        restore_state(self.expert, inner)
        self._account = _Account(spending, steps, price)
