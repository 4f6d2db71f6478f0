"""The status of a campaign: what the journal says of it without a bandit."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvbandits.campaign.questions import Questions, coordinates
from tvbandits.campaign.store.store import OPERATIONS, Row, to_array
from tvbandits.campaign.withdrawals import Withdrawals
from tvbandits.text import as_text
from tvbandits.validation import Array

if TYPE_CHECKING:
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State

# Half the width of a 95% interval of a normal distribution, in standard deviations.
HALF_WIDTH = 1.96


@dataclass(frozen=True, repr=False)
class Status:
    """The status of a campaign.

    Attributes
    ----------
    rows : int
        Rows of the journal.
    readings, failed, pending, answers : int
        Rewards, points without a reading, pending points, and answers in use.
    limits, violations : int
        Limits on further outcomes, and readings that violate one.
    mean_excess : mapping of str to float
        By how much those of an outcome violate its limit, on average, in its unit; none where all hold.
    questions, cost : int, float
        Questions to the expert so far, and their cost.
    time : float or None
        The latest time of a reading.
    open : str or None
        The kind of an operation that a process has started and not finished.
    in_doubt : int
        Questions to the expert that may or may not have been answered: one that is under way, and each
        that was when a process died. Such a question was repeated, and may have cost twice.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     X = campaign.ask(1)
    ...     print(campaign.status.readings, campaign.status.pending)
    0 1
    """

    rows: int
    readings: int
    failed: int
    pending: int
    answers: int
    limits: int
    violations: int
    mean_excess: Mapping[str, float]
    questions: int
    cost: float
    time: float | None
    open: str | None
    in_doubt: int

    @property
    def summary(self) -> dict[str, Any]:
        """Return the values by name."""
        return asdict(self)

    def __repr__(self) -> str:
        return as_text("Status", self.summary.items())


def bandit_summary(recipe: Recipe, state: State) -> dict[str, Any]:
    """Return the part of a `Status` that comes from a bandit."""
    outcomes = [(limit, state.outcomes[limit.name].rewards.y) for limit in recipe.options.limits]
    queries = state.info.queries
    excess = {limit.name: limit.excess(y) for limit, y in outcomes}
    return {
        "readings": state.expired.rewards + len(state.readings),
        "failed": state.expired.failed + len(state.failed),
        "answers": state.expired.answers + len(state.answers),
        "limits": len(recipe.options.limits),
        "violations": sum(int((~limit.holds(y)).sum()) for limit, y in outcomes),
        "mean_excess": {
            name: float(each[each > 0].mean()) for name, each in excess.items() if (each > 0).any()
        },
        "questions": queries.total_asked,
        "cost": queries.total_cost,
        "time": state.time,
    }


class PendingPoint(NamedTuple):
    """A pending point: its place, the time `t` it is for, and who asked for it when (UTC, ISO 8601)."""

    place: str
    t: float
    asked: str | None
    who: str | None


# The coordinates of a place, without the zeros at its end.
Place = tuple[float, ...]


class Asked(NamedTuple):
    """A point that was asked for and not told: its place and time, who asked when, and the row."""

    place: Place
    t: float
    at: str | None
    who: str | None
    seq: int


class Outline:
    """The part of a campaign that follows from the journal alone, quickly and without the expert.

    Parameters
    ----------
    first : Row
        Row 0.

    Attributes
    ----------
    last : Row
        The latest row that was followed.
    pending : list of Asked
        Pending points.
    came : dict
        The row of the latest reading of each place.
    changes : list of dict
        What each change of the sites has added and retired.
    questions : Questions
        The questions that people carry to an expert.
    withdrawals : Withdrawals
        The readings that were retracted or moved.
    confirmed : dict
        By how much sites stood out when somebody confirmed that they are right, by name.
    """

    def __init__(self, first: Row) -> None:
        self.last = first
        self.pending = [Asked(coordinates(x), t, None, None, 0) for x, t in first.body["pending"]]
        self.came: dict[Place, int] = {}
        self._missed: list[Asked] = []
        self.changes: list[dict[str, Any]] = []
        self.questions = Questions()
        self.withdrawals = Withdrawals()
        self.confirmed: dict[str, float] = {}
        self._status = _bandit_status(first)
        self._open: str | None = None
        self._in_doubt = 0

    def follow(self, row: Row) -> None:
        """Follow the next row of the journal."""
        if self.last.kind == "query" and row.kind not in ("reply", "failure"):
            self._in_doubt += 1
        self.last = row
        if row.kind == "intent":
            self._open = row.body["kind"]
        elif row.kind in ("failure", *OPERATIONS):
            self._open = None
        if row.kind not in OPERATIONS:
            return
        arguments, result, self._status = row.arguments, row.body["result"], _bandit_status(row)
        if row.kind == "ask":
            self.pending += [
                Asked(coordinates(x), arguments["t"], row.at, row.who, row.seq) for x in result
            ]
        elif row.kind == "tell":
            self._remove(arguments["X"], result)
            self._remove_counted(arguments, result)
            self._note_readings(row.seq, arguments)
        elif row.kind in ("correct", "retract"):
            self.withdrawals.follow(row)
            if "y" in arguments:
                self._note_readings(row.seq, arguments)
        elif row.kind == "drop":
            self._remove(arguments["X"], [None] * len(arguments["X"]))
        elif row.kind == "sites":
            self.changes.append(arguments)
            self.confirmed |= arguments.get("confirm", {})
        elif row.kind in ("questions", "answer", "correct_answers"):
            self.questions.follow(row)

    def _remove(self, X: Sequence[Sequence[float]], times: Sequence[float | None]) -> None:
        """Remove one pending point at each place: that of the time, or else the oldest.

        Each counts as missed until `_note_readings` finds that a reading has come.
        """
        for x, t in zip(X, times, strict=True):
            here = [i for i, each in enumerate(self.pending) if each.place == coordinates(x)]
            at_time = [i for i in here if self.pending[i].t == t]
            if here:
                self._missed.append(self.pending.pop([*at_time, *here][0]))

    def _note_readings(self, seq: int, arguments: Mapping[str, Any]) -> None:
        """Note the places of which a row has a reading."""
        values = to_array(arguments["y"]).reshape(-1).tolist()
        came = {
            coordinates(x): seq
            for x, value in zip(arguments["X"], values, strict=True)
            if not math.isnan(value)
        }
        self.came |= came
        self._missed = [each for each in self._missed if each.place not in came]

    @property
    def missed(self) -> list[Asked]:
        """Return the requests without a reading since the last one of their place.

        A point that is pending is in vain once a later time was told.
        """
        now = self._status.time
        overdue = [] if now is None else [each for each in self.pending if each.t < now]
        return [
            each for each in (*self._missed, *overdue) if each.seq > self.came.get(each.place, -1)
        ]

    def _remove_counted(self, arguments: Mapping[str, Any], times: Sequence[float]) -> None:
        """Remove all pending points of a place and time of which a share of trials is told."""
        if "trials" not in arguments:
            return
        trials = to_array(arguments["trials"]).reshape(-1)
        counted = (
            (trials > 0) & np.isfinite(trials) & ~np.isnan(to_array(arguments["y"]).reshape(-1))
        )
        plays = {
            (coordinates(x), t)
            for x, t, each in zip(arguments["X"], times, counted, strict=True)
            if each
        }
        self.pending = [each for each in self.pending if each[:2] not in plays]

    def pending_array(self, dimension: int) -> Array:
        """Return the pending points, shape (k, d)."""
        X = np.zeros((len(self.pending), dimension))
        for row, each in zip(X, self.pending, strict=True):
            row[: len(each.place)] = each.place
        return X

    @property
    def status(self) -> Status:
        """Return the status of the campaign."""
        return replace(
            self._status,
            rows=self.last.seq,
            pending=len(self.pending),
            open=self._open,
            in_doubt=self._in_doubt + (self.last.kind == "query"),
        )


def _bandit_status(row: Row) -> Status:
    """Return the part of a status that a row has, with zeros for what the journal says."""
    return Status(rows=0, pending=0, open=None, in_doubt=0, **row.body["status"])


@dataclass(frozen=True)
class Verification:
    """The result of replaying a whole journal.

    Attributes
    ----------
    rows, operations, snapshots : int
        How many were compared. Snapshots of other versions are not.
    problems : tuple of str
        Differences, in words; empty if there are none.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     X = campaign.ask(1)
    ...     verification = campaign.verify()
    >>> print(verification.consistent, verification.problems)
    True ()
    """

    rows: int
    operations: int
    snapshots: int
    problems: tuple[str, ...] = ()

    @property
    def consistent(self) -> bool:
        """Return whether there are no problems."""
        return not self.problems


def age_text(moment: str | None) -> str:
    """Return a time (ISO 8601, UTC) for people, with its age; a dash if it is unknown."""
    if moment is None:
        return "–"
    seconds = max((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds(), 0.0)
    units = ("days", 86_400), ("h", 3600), ("min", 60)
    unit, length = next((each for each in units if seconds >= 2 * each[1]), units[-1])
    return f"{moment[:16].replace('T', ' ')} UTC, {seconds // length:.0f} {unit} ago"


def drop_command(file: str, place: str) -> str:
    """Return the command that drops a pending point."""
    return f"tvbandits campaign drop {shlex.quote(file)} --site {shlex.quote(place)}"


def with_answer(doubt: str, file: str, place: str) -> str:
    """Return a doubt about a place, and how to answer it if it is a question."""
    if not doubt.endswith("?"):
        return doubt
    command = f"tvbandits campaign sites confirm {shlex.quote(file)} {shlex.quote(place)}"
    return f"{doubt} if so: {command}"
