"""What people want to know of a campaign at a glance."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tvbandits.campaign.ledger import Ledger
from tvbandits.campaign.naming import Names
from tvbandits.campaign.store.store import Row, points
from tvbandits.core.observations import Plays
from tvbandits.core.tables import as_text

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
    violations : int
        Readings of further outcomes that violate a limit.
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


def status_of(known: Ledger, in_doubt: int) -> Status:
    """Of what is on record at the end of the journal, and questions in doubt."""
    return Status(
        rows=known.seq,
        told=known.gone.rewards + len(known.rewards),
        failed=known.gone.failed + len(known.failed),
        pending=len(known.pending),
        answers=known.gone.answers + len(known.answers),
        violations=sum(int((~limit.holds(read.y)).sum()) for limit, read in known.outcomes.items()),
        questions=known.questions,
        cost=known.cost,
        time=known.time,
        open=known.open[0].body.get("kind") if known.open else None,
        in_doubt=in_doubt,
    )


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


class PointOut(NamedTuple):
    """A point that is out: its place, the time `t` that it is for, who asked when (UTC, ISO 8601)."""

    place: str
    t: float
    asked: str | None
    who: str | None


def points_out(pending: Plays, asked: Iterable[Row], names: Names) -> list[PointOut]:
    """The points that are out, and what the journal says of them."""
    rows: dict[tuple[tuple[float, ...], float | None], list[Row]] = {}
    for row in asked:
        for x in points(row.body["got"], pending.X.shape[1]).tolist():  # arms that were added since
            rows.setdefault((tuple(x), row.body["t"]), []).append(row)
    found = []
    for x, t in zip(pending.X[::-1], pending.t[::-1].tolist(), strict=True):
        place = tuple(x.tolist())
        there = rows.get((place, t)) or rows.get((place, None))
        latest = there.pop() if there else None  # asked before the campaign began
        at, who = (None, None) if latest is None else (latest.at, latest.who)
        found.append(PointOut(names.name(x), t, at, who))
    return found[::-1]


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
