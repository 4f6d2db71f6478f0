"""What people want to know of a campaign at a glance.

A journal as a table: one row a point, for a spreadsheet or for another program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvbandits.campaign.ledger import Ledger
from tvbandits.campaign.naming import Names
from tvbandits.campaign.store.errors import CampaignError, StorageError
from tvbandits.campaign.store.store import Row, points_of
from tvbandits.core.clock import Clock
from tvbandits.core.files.reading import naming, read_parquet
from tvbandits.core.files.saving import put_in_place
from tvbandits.core.observations import Plays
from tvbandits.core.tables import as_html, as_text

if TYPE_CHECKING:
    import pandas as pd


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
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
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

    def _repr_html_(self) -> str:
        return as_html("Status", self.summary)


def status_of(ledger: Ledger, in_doubt: int) -> Status:
    """Of what is on record, and questions in doubt."""
    meant: Mapping[str, Any] = ledger.open[0].body if ledger.open else {}
    return Status(
        rows=ledger.seq,
        told=len(ledger.rewards),
        failed=len(ledger.failed),
        pending=len(ledger.pending),
        answers=len(ledger.answers),
        violations=sum(
            int((~limit.holds(read.y)).sum()) for limit, read in ledger.outcomes.items()
        ),
        questions=ledger.questions,
        cost=ledger.cost,
        time=ledger.time,
        open=meant.get("kind"),
        in_doubt=in_doubt,
    )


WHAT = {
    "asked": "asked",
    "told": "told",
    "dropped": "dropped",
    "questions": "question",
    "answers": "answer",
    "consulted": "bought",
    "corrected": "corrected",
    "retracted": "retracted",
}
"""What a row of the table says, by the kind of row of the journal."""

FORMULA = re.compile("(^|[;\t\r\n])(?=\\s*[-=+@\uff0d\uff1d\uff0b\uff20])")
"""Where a spreadsheet would begin to calculate; in some countries it reads ; as the end of a cell."""


def table_of(journal: Sequence[Row], names: Names, clock: Clock | None = None) -> pd.DataFrame:
    """A row for each point: row of the journal, what, when, who, key, time, point, value, variance.

    Parameters
    ----------
    journal : sequence of Row
    names : Names
        Of sites and coordinates, or of the parameters of a space.
    clock : Clock, optional
        Then `time` is a date, and `t` the number.
    """
    import pandas as pd

    head = ["row", "what", "at", "who", "key", "time"]
    rows = [cells for row in journal if row.kind in WHAT for cells in _cells(row, names)]
    frame = pd.DataFrame(rows, columns=[*head, "site", *names.coordinates, "value", "variance"])
    numbers = ("time", *names.coordinates, "value", "variance")
    floats = {name: "float64" for name in numbers if name not in names.words}
    frame = frame.astype({"row": "int64", **floats})
    if not names.sites:
        frame = frame.drop(columns="site")
    if clock is not None:
        frame.insert(len(head), "t", frame["time"])
        frame["time"] = [pd.NaT if np.isnan(t) else clock.time(t) for t in frame["t"]]
    return frame


def _cells(row: Row, names: Names) -> Iterator[list[Any]]:
    body = row.body
    X = points_of(row)
    values = body.get("y") or body.get("values") or []
    for i, x in enumerate(X):
        yield [
            row.seq,
            WHAT[row.kind],
            row.at,
            row.who,
            row.key,
            _of(body.get("t"), i),
            names.name(np.asarray(x)) if names.sites else None,
            *names.values(x),
            _of(values, i) if values else None,
            _of(body.get("variance"), i),
        ]


def _of(values: Any, i: int) -> Any:
    """One for all, or one each."""
    if isinstance(values, list):
        return float(values[i]) if i < len(values) else None
    return None if values is None else float(values)


class PointOut(NamedTuple):
    """A point that is out: its place, the time `t` that it is for, who asked when (UTC, ISO 8601)."""

    place: str
    t: float
    asked: str | None
    who: str | None


def points_out(pending: Plays, journal: Sequence[Row], names: Names) -> list[PointOut]:
    """The points that are out, and what the journal says of them."""
    rows = []
    left = [row for row in journal if row.kind == "asked" and row.body["got"]]
    free = [(row, x) for row in left for x in row.body["got"]]
    for x, t in zip(pending.X.tolist()[::-1], pending.t.tolist()[::-1], strict=True):
        there = [i for i, (row, y) in enumerate(free) if y == x and row.body["t"] in (None, t)]
        row = free.pop(there[-1])[0] if there else None  # asked before the campaign began
        asked, who = (None, None) if row is None else (row.at, row.who)
        rows.append(PointOut(names.name(np.asarray(x)), t, asked, who))
    return rows[::-1]


def ago(moment: str | None) -> str:
    """How long ago a time was (ISO 8601), as people say it; empty where nobody knows."""
    if moment is None:
        return ""
    seconds = max((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds(), 0.0)
    for unit, length in (("days", 86_400), ("h", 3600)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{seconds // 60:.0f} min ago"


def drop_command(file: str, place: str) -> str:
    """What gives up on a point."""
    return f"tvbandits campaign drop {shlex.quote(file)} --site {shlex.quote(place)}"


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """A table as CSV or Parquet, by the name of the file; wholly or not at all.

    Raises
    ------
    CampaignError
        If the name says neither, what writes Parquet is not there, or there is something else than the
        beginning of this table.
    StorageError
        If it cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise CampaignError(f"{path}: export to a name that ends in .csv or .parquet")
    csv = without_formulas(frame).to_csv(index=False).encode()

    def write(draft: Path) -> None:
        if suffix == ".csv":
            draft.write_bytes(csv)
        else:
            frame.to_parquet(draft, index=False)

    def continued(there: Path) -> bool:
        """Whether the table begins with all that is there: rows are only ever added."""
        if suffix == ".csv":
            with there.open("rb") as file:
                old = file.read(len(csv) + 1)
            return old.endswith(b"\n") and csv.startswith(old)
        try:
            with naming(there):
                text = read_parquet(there).to_csv(index=False)
        except ValueError:
            return False
        return frame.to_csv(index=False).startswith(text)

    try:
        put_in_place(path, write, replaces=continued)
    except ImportError as error:
        raise CampaignError(
            f'{path}: Parquet needs pyarrow: pip install "tvbandits[parquet]"'
        ) from error
    except FileExistsError as error:
        raise CampaignError(f"{error} that is no earlier table of this campaign") from error
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts a spreadsheet shows and does not calculate."""
    return frame.rename(columns=without_formula).map(without_formula)


def without_formula(value: Any) -> Any:
    """A cell, with an apostrophe before what a spreadsheet would take for a formula."""
    return FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
