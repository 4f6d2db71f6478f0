"""`Budgeted`: at most so many answers a step, so many in all, and so much cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tvbandits.experts.asking import NEEDS, SharedLock, Wrapper, ask
from tvbandits.experts.protocol import Answers, Expert, restore_state, state_of
from tvbandits.validation import (
    Array,
    as_points,
    as_time,
    check_part,
    not_negative,
    optional,
    positive_number,
    whole_number,
)


@dataclass(frozen=True)
class Spent:
    """What a budget has paid for so far.

    Attributes
    ----------
    queries : int
        Calls of the expert.
    asked : int
        Points it was asked about.
    answered : int
        Points it answered.
    refused : int
        Points that were not asked, for want of budget.
    cost : float
        In the expert's own unit.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import Budgeted, CallableExpert
    >>> expert = Budgeted(CallableExpert(lambda X, t: X[:, 0], 0.01), total=3)
    >>> answers = expert.query(np.array([[1.0], [2.0]]), 1.0)
    >>> print(expert.spent)
    Spent(queries=1, asked=2, answered=2, refused=0, cost=0.0)
    """

    queries: int = 0
    asked: int = 0
    answered: int = 0
    refused: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class _Account:
    """All that a budget knows: one value, so that an interrupt finds it before or after a change.

    Attributes
    ----------
    spent : Spent
    steps : mapping of time to int
        Points asked about each time.
    dearest : float or None
        The price of an answer, as far as it is known.
    """

    spent: Spent
    steps: Mapping[float, int]
    dearest: float | None


@dataclass(eq=False)
class Budgeted(Wrapper):
    """Asks an expert within a budget, and refuses the points beyond it without asking.

    The points asked are the first ones in the order given; a note says how many were left out. With
    nothing left, the expert is not called.

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
        Cost of one answer, where it is known. Otherwise it is taken to be the dearest cost of an
        answer seen so far, and one point alone is asked before any was seen. Cost is known only
        afterwards: `cost` is not exceeded as long as the price does not rise.

    Notes
    -----
    Points that the expert was asked about and refused count as asked, and so does a query that raises,
    at the price known so far: whoever did not answer may send a bill all the same. A pickled budget
    goes on where it was. A query plan names the points played long ago first, and the same ones come
    first in step after step: where a budget cuts every query short, rather let the plan ask for fewer
    (`KDPP(budget)`), and keep the budget as the last resort. Put `Calibrated(..., probe=True)` and
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
        optional(whole_number, "per_step", self.per_step, at_least=0)
        optional(whole_number, "total", self.total, at_least=0)
        optional(positive_number, "cost", self.cost)
        optional(not_negative, "price", self.price)
        if (self.per_step, self.total, self.cost) == (None, None, None):
            raise ValueError("a budget needs a limit: give per_step=, total= or cost=")
        self._account = _Account(Spent(), {}, self.price)

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        return self._account.spent

    def query(self, X: Array, t: float) -> Answers:
        """Ask about as many of the points as the budget allows; threads take turns."""
        points, when = as_points(X), as_time(t)
        parts: list[Answers] = []
        asked = 0
        with self._lock.now:
            while asked < len(points):
                trial = self.cost is not None and self._account.dearest is None
                granted = self._affordable(len(points) - asked, when)
                if granted == 0:
                    break
                parts.append(self._paid(points[asked : asked + granted], when))
                asked += granted
                if not trial:
                    break
            left_out = len(points) - asked
            spent = self._account.spent
            spent = replace(spent, refused=spent.refused + left_out)
            self._account = replace(self._account, spent=spent)
        notes = tuple(note for part in parts for note in part.notes)
        rest = np.full(left_out, np.nan)
        return Answers(
            np.concatenate([*(part.values for part in parts), rest]),
            np.concatenate([*(part.variance for part in parts), rest]),
            sum(part.cost for part in parts),
            (*notes, self._note(asked, len(points), when)) if left_out else notes,
        )

    def _affordable(self, most: int, t: float) -> int:
        """How many of `most` points may be asked at time `t`; one as a trial of an unknown price."""
        spent, dearest = self._account.spent, self._account.dearest
        if self.per_step is not None:
            most = min(most, self.per_step - self._account.steps.get(t, 0))
        if self.total is not None:
            most = min(most, self.total - spent.asked)
        if self.cost is not None:
            left = self.cost - spent.cost
            if dearest is None:
                most = min(most, int(left > 0))
            elif most * dearest > left:
                # Three answers at 0.1 are within a limit of 0.3, whatever their sum rounds to.
                most = math.floor(left / dearest * (1 + 1e-9))
        return max(most, 0)

    def _paid(self, points: Array, t: float) -> Answers:
        """Ask, with the account charged before: whoever does not answer may send a bill."""
        before, count = self._account, len(points)
        spent = before.spent
        spent = replace(spent, queries=spent.queries + 1, asked=spent.asked + count)
        steps = {**before.steps, t: before.steps.get(t, 0) + count}
        sure = replace(spent, cost=spent.cost + count * (before.dearest or 0.0))
        charged = self._account = _Account(sure, steps, before.dearest)
        said = ask(self.expert, points, t)
        answered, dearest = int(said.answered.sum()), before.dearest
        if answered or said.cost > 0:
            # By answers, not by questions: refusals may be free.
            dearest = max(said.cost / (answered or count), dearest or 0.0)
        paid = replace(spent, answered=spent.answered + answered, cost=spent.cost + said.cost)
        if self._account is charged:  # it was not restored meanwhile
            self._account = _Account(paid, steps, dearest)
        return said

    def _note(self, asked: int, wanted: int, t: float) -> str:
        spent = self._account.spent
        note = f"budget: {asked} of {wanted} points asked"
        if self.per_step is not None:
            note += f", {self._account.steps.get(t, 0)} of {self.per_step} at t = {t:g}"
        if self.total is not None:
            note += f", {spent.asked} of {self.total} in total"
        if self.cost is not None:
            note += f", cost {spent.cost:g} of {self.cost:g}"
        return note

    def state(self) -> dict[str, Any]:
        """What was spent, in all and at each time; the price known so far; what the expert knows."""
        account = self._account
        return {
            "spent": asdict(account.spent),
            "steps": [[t, asked] for t, asked in account.steps.items()],
            "dearest": account.dearest,
            "expert": state_of(self.expert),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where another budget was; what is asked at this moment does not count."""
        try:
            spent = Spent(**state["spent"])
            steps = {as_time(t): whole_number("asked", asked, 0) for t, asked in state["steps"]}
            dearest = optional(not_negative, "dearest", state["dearest"])
            for name in ("queries", "asked", "answered", "refused"):
                whole_number(name, getattr(spent, name), at_least=0)
            not_negative("cost", spent.cost)
            inside = state["expert"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a budget: {error!r}") from error
        restore_state(self.expert, inside)
        self._account = _Account(spent, steps, dearest)
