"""What people want to know of a campaign at a glance."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvbandits.bandit.history import as_text
from tvbandits.campaign.store.store import DONE, Row
from tvbandits.validation import Array

if TYPE_CHECKING:
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State

# Standard deviations of a normal law from its mean to the ends of its 95% interval: what stands after ±.
HALF_WIDTH = 1.96


@dataclass(frozen=True, repr=False)
class Status:
    """A campaign at a glance.

    Attributes
    ----------
    rows : int
        Of the journal.
    told, failed, pending, answers : int
        Rewards told, points played without a reading, points out, and answers in use.
    limits, violations : int
        Limits on further outcomes, and readings that violate one.
    questions, cost : int, float
        Asked so far, and what they have cost.
    time : float or None
        The latest time told.
    open : str or None
        An operation that somebody has begun and not ended.
    in_doubt : int
        Questions to the expert of which nobody knows whether they were answered: one that is under
        way, and each that was when a process died. It was asked again, and may have cost twice.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     X = campaign.ask(1)
    ...     print(campaign.status.told, campaign.status.pending)
    0 1
    """

    rows: int
    told: int
    failed: int
    pending: int
    answers: int
    limits: int
    violations: int
    questions: int
    cost: float
    time: float | None
    open: str | None
    in_doubt: int

    @property
    def summary(self) -> list[tuple[str, object]]:
        """Names and values."""
        return list(asdict(self).items())

    def __repr__(self) -> str:
        return as_text("Status", self.summary)


class PointOut(NamedTuple):
    """A point that is out: its place, the time `t` that it is for, who asked when (UTC, ISO 8601)."""

    place: str
    t: float
    asked: str | None
    who: str | None


class Outline:
    """What a journal says of a campaign, apart from what a bandit believes.

    It follows the rows of any campaign in a moment, and needs neither a bandit nor the expert.

    Parameters
    ----------
    first : Row
        Row 0.

    Attributes
    ----------
    last : Row
        The latest that was followed.
    out : list of (tuple, float, str or None, str or None)
        Points asked and neither told nor dropped: place, time, and who asked when.
    sites : list of dict
        What each change of the sites has added and retired.
    """

    def __init__(self, first: Row) -> None:
        self.last = first
        self.out = [(_key(x), t, *_NOBODY) for x, t in first.body["pending"]]
        self.sites: list[dict[str, Any]] = []
        self._summary = Status(**_OPEN, **first.body["status"])
        self._begun: str | None = None
        self._unanswered = 0

    def follow(self, row: Row) -> None:
        """Note the next row."""
        if self.last.kind == "consulting" and row.kind not in ("consulted", "failed"):
            self._unanswered += 1
        self.last = row
        if row.kind == "meant":
            self._begun = row.body["kind"]
        elif row.kind in ("failed", *DONE):
            self._begun = None
        if row.kind not in DONE:
            return
        given, self._summary = row.given, Status(**_OPEN, **row.body["status"])
        if row.kind == "asked":
            self.out += [(_key(x), given["t"], row.at, row.who) for x in row.body["got"]]
        elif row.kind == "told":
            self._remove(given["X"], row.body["got"])
        elif row.kind == "dropped":
            self._remove(given["X"], [None] * len(given["X"]))
        elif row.kind == "sites":
            self.sites.append(given)

    def _remove(self, X: Sequence[Sequence[float]], times: Sequence[float | None]) -> None:
        """Remove a point for each that is there: that of the time, or else the oldest."""
        for x, t in zip(X, times, strict=True):
            there = [i for i, each in enumerate(self.out) if each[0] == _key(x)]
            at_time = [i for i in there if self.out[i][1] == t]
            if there:
                del self.out[[*at_time, *there][0]]

    def pending(self, dimension: int) -> Array:
        """Return the points that are out, shape (k, d)."""
        X = np.zeros((len(self.out), dimension))
        for row, (x, *_) in zip(X, self.out, strict=True):
            row[: len(x)] = x
        return X

    @property
    def status(self) -> Status:
        """The campaign at a glance."""
        in_doubt = self._unanswered + (self.last.kind == "consulting")
        rows, pending = self.last.seq, len(self.out)
        return replace(
            self._summary, rows=rows, pending=pending, open=self._begun, in_doubt=in_doubt
        )


# What a row does not say of itself.
_OPEN: dict[str, Any] = {"rows": 0, "pending": 0, "open": None, "in_doubt": 0}

_NOBODY: tuple[str | None, str | None] = (None, None)


def _key(x: Sequence[float]) -> tuple[float, ...]:
    """Return a point without zeros at its end, which come with arms that are added later."""
    return tuple(x[: max((i + 1 for i, each in enumerate(x) if each), default=0)])


def summary_of(recipe: Recipe, state: State) -> dict[str, Any]:
    """Return what `Status` says of a bandit."""
    read = [(limit, state.outcomes[limit.name].rewards.y) for limit in recipe.options.limits]
    queries = state.info.queries
    return {
        "told": state.expired.rewards + len(state.readings),
        "failed": state.expired.failed + len(state.failed),
        "answers": state.expired.answers + len(state.answers),
        "limits": len(recipe.options.limits),
        "violations": sum(int((~limit.holds(y)).sum()) for limit, y in read),
        "questions": queries.total_asked,
        "cost": queries.total_cost,
        "time": state.time,
    }


@dataclass(frozen=True)
class VerifiedCampaign:
    """What came of playing a whole journal again.

    Attributes
    ----------
    rows, operations, snapshots : int
        How many were compared; of snapshots those that this version has made.
    problems : tuple of str
        What is not as it should be; empty if all is well.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     X = campaign.ask(1)
    ...     verified = campaign.verify()
    >>> print(verified.fine, verified.problems)
    True ()
    """

    rows: int
    operations: int
    snapshots: int
    problems: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


# Where a spreadsheet would begin to calculate; in some countries it reads ; as the end of a cell.
FORMULA = re.compile("(^|[;\t\r\n])(?=\\s*[-=+@\uff0d\uff1d\uff0b\uff20])")


def since(moment: str | None) -> str:
    """A time (ISO 8601, UTC) as people write it, and how long ago; a dash where nobody knows."""
    if moment is None:
        return "–"
    seconds = max((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds(), 0.0)
    units = ("days", 86_400), ("h", 3600), ("min", 60)
    unit, length = next((each for each in units if seconds >= 2 * each[1]), units[-1])
    return f"{moment[:16].replace('T', ' ')} UTC, {seconds // length:.0f} {unit} ago"


def drop_command(file: str, place: str) -> str:
    """What gives up on a point."""
    return f"tvbandits campaign drop {shlex.quote(file)} --site {shlex.quote(place)}"


def without_formula(value: Any) -> Any:
    """A cell, with an apostrophe before what a spreadsheet would take for a formula."""
    return FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
