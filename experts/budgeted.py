"""`Budgeted`: at most so many answers a step, so many in all, and so much cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tvbandits.core.arrays import (
    Array,
    as_points,
    as_time,
    not_negative,
    positive_number,
    whole_number,
)
from tvbandits.core.protocols import Answers, Expert, restored, state_of
from tvbandits.experts.asking import SharedLock, Wrapper, ask, checked_expert


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


@dataclass(frozen=True, eq=False)
class _Grant:
    """Points that may be asked, the cost set aside for them, whether that is a first trial."""

    points: int
    cost: float = 0.0
    trial: bool = False


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
    open : tuple of _Grant
        What is being asked at this moment.
    """

    spent: Spent
    steps: Mapping[float, int]
    dearest: float | None
    open: tuple[_Grant, ...] = ()


@dataclass(eq=False, repr=False)
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
    (`KDPP(schedule)`), and keep the budget as the last resort. Put `Calibrated(..., probe=True)` and
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
    _account: _Account = field(init=False)
    _lock: SharedLock = field(default_factory=SharedLock, init=False)

    def __post_init__(self) -> None:
        checked_expert(self.expert)
        for name in ("per_step", "total"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), at_least=0)
        if self.cost is not None:
            positive_number("cost", self.cost)
        if self.price is not None:
            not_negative("price", self.price)
        if (self.per_step, self.total, self.cost) == (None, None, None):
            raise ValueError("a budget needs a limit: give per_step=, total= or cost=")
        self._account = _Account(Spent(), {}, self.price)

    def __repr__(self) -> str:
        limits = {name: getattr(self, name) for name in ("per_step", "total", "cost", "price")}
        given = "".join(f", {name}={value}" for name, value in limits.items() if value is not None)
        return f"Budgeted({self.expert!r}{given})"

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        return self._account.spent

    def query(self, X: Array, t: float) -> Answers:
        """Ask about as many of the points as the budget allows."""
        points, when = as_points(X), as_time(t)
        parts: list[Answers] = []
        grants: list[_Grant] = []
        asked = 0
        try:
            while asked < len(points):
                grant = self._granted(len(points) - asked, when, grants)
                if grant.points:
                    parts.append(self._paid(points[asked : asked + grant.points], when, grant))
                    asked += grant.points
                if not grant.trial:
                    break
        finally:
            # Those that an interrupt kept from being settled: the expert may have been asked.
            for grant in grants:
                self._settle(None, grant)
        left_out = len(points) - asked
        if left_out:
            with self._lock.now:
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

    def _granted(self, wanted: int, t: float, grants: list[_Grant]) -> _Grant:
        """Count up to `wanted` points as asked at time `t`, before they are; listed in `grants`."""
        with self._lock.now:
            account = self._account
            spent, asked = account.spent, account.steps.get(t, 0)
            most = wanted
            if self.per_step is not None:
                most = min(most, self.per_step - asked)
            if self.total is not None:
                most = min(most, self.total - spent.asked)
            trial = False
            if self.cost is not None:
                left = self.cost - spent.cost - sum(grant.cost for grant in account.open)
                trial = account.dearest is None
                most = self._affordable(left, most)
            if most <= 0:
                return _Grant(0)
            grant = _Grant(most, most * (account.dearest or 0.0), trial)
            grants.append(grant)  # known to whoever has to settle it before it is given
            self._account = replace(
                account,
                spent=replace(spent, queries=spent.queries + 1, asked=spent.asked + most),
                steps={**account.steps, t: asked + most},
                open=(*account.open, grant),
            )
            return grant

    def _affordable(self, left: float, most: int) -> int:
        """How many points `left` pays for; one for a trial, unless another one is under way."""
        dearest = self._account.dearest
        if dearest is None:
            return min(most, int(left > 0 and not any(grant.trial for grant in self._account.open)))
        if most * dearest <= left:
            return most
        # Three answers at 0.1 are within a limit of 0.3, whatever their sum rounds to.
        return math.floor(left / dearest * (1 + 1e-9))

    def _paid(self, points: Array, t: float, grant: _Grant) -> Answers:
        """Ask, and settle the account, whatever happens."""
        said = None
        try:
            said = ask(self.expert, points, t)
        finally:
            self._settle(said, grant)
        return said

    def _settle(self, said: Answers | None, grant: _Grant) -> None:
        """Close a grant; once is enough."""
        with self._lock.now:
            account = self._account
            if not any(each is grant for each in account.open):
                return
            spent, dearest = account.spent, account.dearest
            if said is not None:
                answered = int(said.answered.sum())
                if answered or said.cost > 0:
                    # By answers, not by questions: refusals may be free.
                    each = said.cost / (answered or len(said))
                    dearest = max(each, dearest or 0.0)
                spent = replace(
                    spent, answered=spent.answered + answered, cost=spent.cost + said.cost
                )
            else:
                spent = replace(spent, cost=spent.cost + grant.cost)
            rest = tuple(each for each in account.open if each is not grant)
            self._account = _Account(spent, account.steps, dearest, rest)

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
        with self._lock.now:
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
            dearest = state["dearest"]
            dearest = None if dearest is None else not_negative("dearest", dearest)
            for name in ("queries", "asked", "answered", "refused"):
                whole_number(name, getattr(spent, name), at_least=0)
            not_negative("cost", spent.cost)
            inside = state["expert"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a budget: {error!r}") from error
        restored(self.expert, inside)
        with self._lock.now:
            self._account = _Account(spent, steps, dearest)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is under way; asked points stay counted."""
        with self._lock.now:
            return {**vars(self), "_account": replace(self._account, open=())}
