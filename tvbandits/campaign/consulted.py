"""The expert of a campaign: what it says is on the disk before anybody uses it, and is read from there.

While a bandit is computed again from the journal, the answers are those on record, and the expert itself
is not asked. What it knows (the rest of a budget, the pairs of a calibration) is on record with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tvbandits.campaign.store.errors import CampaignError, ExpertNeededError, ReplayError
from tvbandits.campaign.store.rows import Row
from tvbandits.core.arrays import Array
from tvbandits.core.files.journal import numbers
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import (
    Answers,
    Expert,
    ExpertUnavailableError,
    checked_answers,
    inform,
    is_mistake,
    restored,
    state_of,
)

Write = Callable[[str, Mapping[str, Any]], None]
"""Writes a row of a kind with a body; it is on the disk on return."""

Unsaved = dict[tuple[bytes, float], Mapping[str, Any]]


class JournaledExpert:
    """An expert whose questions and answers are in a journal.

    Parameters
    ----------
    expert : Expert or None
        The expert itself; None where the journal is only read.
    unsaved : dict, optional
        Answers that were paid for and could not be written yet, by their question.
    """

    def __init__(self, expert: Expert | None, unsaved: Unsaved | None = None) -> None:
        self._expert = expert
        self._known: Mapping[str, Any] | None = None if expert is None else state_of(expert)
        self._script: deque[Mapping[str, Any]] = deque()
        self._write: Write | None = None
        self._unsaved: Unsaved = {} if unsaved is None else unsaved
        self.stopped: BaseException | None = None

    @property
    def present(self) -> bool:
        """Whether the expert itself is here."""
        return self._expert is not None

    def prepare(self, script: Iterable[Row], write: Write | None = None) -> None:
        """Answer as on record, and then, if `write` is given, by asking."""
        self._script = deque(row.body for row in script if row.kind == "consulted")
        self._write, self.stopped = write, None

    def finish(self) -> None:
        """Nothing is under way any more; `ReplayError` if not all that is on record was asked."""
        left, self._script, self._write = len(self._script), deque(), None
        if left:
            raise ReplayError(f"{left} answers are on record that nobody asks for")

    def skip(self, script: Iterable[Row]) -> None:
        """Know what the expert knew after an operation that failed."""
        for row in script:
            if row.kind == "consulted":
                self._know(row.body["knows"])

    def query(self, X: Array, t: float) -> Answers:
        """As on record, or by asking: what the expert says is written down first."""
        try:
            body = self._said(X, t)
        except CampaignError as error:
            self.stopped = error
            raise
        if "failure" in body:
            raise ExpertUnavailableError(body["failure"])
        values, variance = numbers(body["values"]), numbers(body["variance"])
        return Answers(values, variance, float(body["cost"]), tuple(body["notes"]))

    def _said(self, X: Array, t: float) -> Mapping[str, Any]:
        if self._script:
            body = self._script.popleft()
            if body["X"] != X.tolist() or body["t"] != t:
                raise ReplayError(
                    f"{X.tolist()} at t = {t:g} are asked about, and {body['X']} at t = {body['t']} "
                    "are on record"
                )
            self._know(body["knows"])
            return body
        if self._write is None:
            raise ReplayError(f"{len(X)} points at t = {t:g} are asked about, and none on record")
        if self._expert is None:
            raise ExpertNeededError("the campaign's expert is to be asked, and was not handed over")
        # What could not be written the last time was paid for, and is not asked for again.
        body = self._unsaved.get((X.tobytes(), t)) or self._asked(self._expert, X, t)
        self._unsaved[X.tobytes(), t] = body
        self._written("consulted", body)
        self._unsaved.clear()
        self._known = body["knows"]
        return body

    def _asked(self, expert: Expert, X: Array, t: float) -> Mapping[str, Any]:
        about = {"X": X.tolist(), "t": t}
        self._written("consulting", about)
        try:
            said = checked_answers(expert.query(X.copy(), t), len(X))
        except Exception as error:
            if is_mistake(error):
                raise
            failure = f"{type(error).__name__}: {error}"
            return {**about, "failure": failure, "knows": state_of(expert)}
        return {
            **about,
            "values": said.values.tolist(),
            "variance": said.variance.tolist(),
            "cost": said.cost,
            "notes": list(said.notes),
            "knows": state_of(expert),
        }

    def _written(self, kind: str, body: Mapping[str, Any]) -> None:
        """Write it down, or stop: whoever asks takes an expert that fails for one that is away."""
        assert self._write is not None
        try:
            self._write(kind, body)
        except BaseException as error:
            self.stopped = error
            raise

    def observe(self, rewards: Observations) -> None:
        """Hand rewards on."""
        if self._expert is not None:
            inform(self._expert, rewards)
            self._known = state_of(self._expert)

    def state(self) -> dict[str, Any]:
        """What the expert knows, as far as it says."""
        known = self._known if self._expert is None else state_of(self._expert)
        return {"inside": known}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Know what the expert knew."""
        self._know(state["inside"])

    def _know(self, known: Mapping[str, Any] | None) -> None:
        self._known = known
        if self._expert is not None and known is not None:
            restored(self._expert, known)
