"""A bandit that follows a journal: it plays every row again, and is then where the journal is."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits._version import __version__
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State, same_value
from tvbandits.bandit.told import readings_at, told_next
from tvbandits.campaign.naming import on_sites
from tvbandits.campaign.status import VerifiedCampaign
from tvbandits.campaign.store.errors import (
    CampaignError,
    ClosedCampaignError,
    ExpertNeededError,
    ReplayError,
    reading,
)
from tvbandits.campaign.store.store import DONE, Row, Snapshot, Store, Turn, outcomes_in, points
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import Candidates, CandidatesInContext
from tvbandits.core.files.journal import as_text, numbers
from tvbandits.core.limits import LimitWarning
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import (
    Answers,
    Expert,
    ExpertDownWarning,
    ExpertUnavailableError,
    checked_answers,
    inform,
    is_mistake,
    restored,
    state_of,
)
from tvbandits.io import to_bytes

# What an operation was given, of plain values.
Given = Mapping[str, Any]

# --- the expert: what it says is on the disk before anybody uses it, and is read from there --------
# While a bandit is computed again from the journal, the answers are those on record, and the expert
# itself is not asked. What it knows (the rest of a budget, the pairs of a calibration) is on record too.

# Writes a row of a kind with a body; it is on the disk on return.
Write = Callable[[str, Mapping[str, Any]], object]

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
        return {"inside": self._known if self._expert is None else state_of(self._expert)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Know what the expert knew."""
        self._know(state["inside"])

    def _know(self, known: Mapping[str, Any] | None) -> None:
        self._known = known
        if self._expert is not None and known is not None:
            restored(self._expert, known)


# --------------------------------------------------------------------------------------------------


def snapshot_of(recipe: Recipe, state: State) -> bytes:
    """A bandit as a saved file, its expert left out."""
    if recipe.asking is not None:
        recipe = replace(recipe, asking=replace(recipe.asking, expert=None))
    return to_bytes({"recipe": recipe, "state": state})


class Replayer:
    """A bandit at some row of a journal.

    Parameters
    ----------
    snapshot : Snapshot
        Where it begins.
    asks : bool
        Whether the campaign has an expert.
    expert : Expert or None
        The expert itself, for who asks it.
    trusted : mapping
        The user's own parts, by name.
    unsaved : dict, optional
        Answers that were paid for and could not be written yet.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        asks: bool,
        expert: Expert | None,
        trusted: Mapping[str, Any],
        unsaved: Unsaved | None = None,
    ) -> None:
        self._place = snapshot.place
        self.seq, self.head = snapshot.seq, snapshot.head
        self.snapshot = snapshot.seq
        self.expert = JournaledExpert(expert, unsaved) if asks else None
        self.open: list[Row] = []
        saved = snapshot.saved(trusted).value()
        with reading(f"{self._place}: the snapshot after row {snapshot.seq}"):
            if not (isinstance(saved, dict) and saved.keys() == {"recipe", "state"}):
                raise ValueError("it holds no bandit")
            recipe: Recipe = saved["recipe"]
            if self.expert is not None and recipe.asking is not None:
                recipe = replace(recipe, asking=replace(recipe.asking, expert=self.expert))
            self.bandit = Bandit.from_state(recipe, saved["state"])

    def go_to(self, state: State, seq: int, head: str) -> None:
        """Be where another bandit is, if it is farther on; on another domain it is not gone to."""
        if seq > self.seq and state.domain == self.bandit.recipe.domain:
            self.bandit = Bandit.from_state(self.bandit.recipe, state)
            self.seq, self.head, self.open = seq, head, []

    def catch_up(self, store: Store) -> None:
        """Follow the journal to its end."""
        for row in store.rows(self.seq, self.head):
            self.follow(row)

    def follow(self, row: Row) -> None:
        """Play a row again.

        Raises
        ------
        ReplayError
            If it gives something else than what is on record.
        DamagedCampaignError
            If what is on record has another form.
        """
        where = f"{self._place}: row {row.seq} ({row.kind})"
        with reading(where):
            if row.kind in ("meant", "consulting", "consulted"):
                self.open.append(row)
            elif row.kind == "failed":
                if self.expert is not None:
                    self.expert.skip(self.open)
                self.open = []
            else:
                self._replay(row, where)
                self.open = []
        self.passed(row)

    def passed(self, row: Row) -> None:
        """The row is behind."""
        self.seq, self.head = row.seq, row.digest

    def _replay(self, row: Row, where: str) -> None:
        try:
            with warnings.catch_warnings():
                for known in (ExpertDownWarning, LimitWarning):  # whoever did it was warned
                    warnings.simplefilter("ignore", known)
                got = self.perform(row.kind, row.body, None)
        except ReplayError as error:
            raise ReplayError(f"{where}: {error}") from error
        except (ValueError, RuntimeError) as error:
            raise ReplayError(f"{where} cannot be played again: {error}") from error
        if got is not None and as_text({"got": got}) != as_text({"got": row.body["got"]}):
            raise ReplayError(
                f"{where} gives {got.tolist()} here, and {row.body['got']} is on "
                "record: was it made on another kind of processor, or by other versions?"
            )

    def perform(self, kind: str, given: Given, write: Write | None) -> Array | None:
        """Do what an operation says, with what is on record of it and, if `write` is given, more.

        Raises
        ------
        ValueError, ExpertError
            As the bandit's calls.
        CampaignError
            If the expert is not here, or its answer cannot be written.
        """
        if self.expert is not None:
            self.expert.prepare(self.open, write)
        try:
            got = operated(self.bandit, kind, given)
        except Exception as error:
            if self.expert is not None and self.expert.stopped is not None:
                raise self.expert.stopped from error
            raise
        if self.expert is not None:
            if self.expert.stopped is not None:
                raise self.expert.stopped
            self.expert.finish()
        if isinstance(got, Bandit):
            self.bandit, got = got, None
        return got


# --- operations: done in one's turn, written down, ended by others if need be ---------------------


class Writer:
    """Does operations in one's turn, and writes them down."""

    def __init__(self, turn: Turn, follower: Replayer, who: str) -> None:
        self._turn, self._follower, self._by = turn, follower, who
        self.uncertain = False

    def operate(self, kind: str, given: Mapping[str, Any], key: str | None) -> Row:
        """Do it, and return its row; what may ask the expert is written down before it begins."""
        expert = self._follower.expert
        if expert is not None and kind in ("asked", "told"):
            if not expert.present:
                raise ExpertNeededError(
                    "the campaign has an expert, and it is needed to ask and to tell: hand it over, "
                    "by expert= or --expert"
                )
            self._write("meant", {"kind": kind, "given": given, "key": key})
        return self._end(kind, given, key)

    def recover(self) -> None:
        """End what a process has begun that is no more."""
        meant = self._follower.open[0]
        self._by = meant.who
        body = meant.body
        try:
            self._end(body["kind"], body["given"], body["key"])
        except CampaignError:
            raise
        except Exception:
            # It is on record as failed, as it would have been then.
            return

    def _end(self, kind: str, given: Mapping[str, Any], key: str | None) -> Row:
        follower = self._follower
        begun = bool(follower.open)
        write = self._write if begun else None
        self.uncertain = True
        try:
            got = follower.perform(kind, given, write)
        except CampaignError:
            raise
        except Exception as error:
            if begun:
                self._write("failed", {"error": f"{type(error).__name__}: {error}"})
                follower.open = []
            self.uncertain = False
            raise
        body = {**given, "got": None if got is None else got.tolist()}
        row = self._write(kind, body, key)
        follower.open = []
        self.uncertain = False
        return row

    def _write(self, kind: str, body: Mapping[str, Any], key: str | None = None) -> Row:
        follower = self._follower
        row = self._turn.append(follower.seq, follower.head, kind, (body, key, self._by))
        follower.passed(row)
        if kind not in (*DONE, "failed"):
            follower.open.append(row)
        return row


# What a bandit does, by the kind of row that says so; sites change its domain instead.
VERBS: dict[str, Callable[..., Any]] = {
    "asked": Bandit.ask,
    "told": Bandit.tell,
    "dropped": Bandit.drop,
    "questions": Bandit.questions,
    "answers": Bandit.answer,
    "corrected": Bandit.correct,
    "retracted": Bandit.retract,
}

assert {*VERBS, "sites"} == set(DONE)


def operated(bandit: Bandit, kind: str, given: Given) -> Array | Bandit | None:
    """Do what a row says; what came of it, as far as that is written down."""
    if kind == "sites":
        domain = bandit.recipe.domain
        assert isinstance(domain, Candidates | CandidatesInContext)  # there are no others
        return bandit.on(on_sites(domain, given))
    said, was = _arguments(bandit, given), None
    if kind == "told":  # the time of each, which may have left memory when it is told again
        told = (said[name] for name in ("X", "y", "t", "variance"))
        was = told_next(bandit.recipe, bandit.state, *told).t
    elif kind in ("corrected", "retracted"):  # the time and reward (n, 2) of each; NaN: no reading
        readings, _, rows = readings_at(bandit.recipe, bandit.state, said["X"], said["t"])
        was = np.column_stack([readings.t[rows], readings.y[rows]])
    got = VERBS[kind](bandit, **said)
    return got if kind in ("asked", "questions") else was


def _arguments(bandit: Bandit, given: Given) -> dict[str, Any]:
    """What a row says, as the bandit's verb takes it."""
    found = {name: each for name, each in given.items() if name not in ("counts", "got", "said")}
    for name in ("t", "to", "y", "values", "variance"):
        if isinstance(found.get(name), list | str):  # as a text what is not finite
            found[name] = numbers(found[name])
    if "X" in found:
        found["X"] = points(found["X"], bandit.recipe.domain.dimension)
    if "outcomes" in found:
        found["outcomes"] = outcomes_in(given)
    return found


def verified(store: Store, asks: bool, trusted: Mapping[str, Any]) -> VerifiedCampaign:
    """Play everything again from the beginning, and compare with what is on record."""
    operations = rows = compared = 0
    problems: list[str] = []
    try:
        first, *later = reversed(store.snapshots())
        follower = Replayer(first, asks, None, trusted)
        snapshots = {each.seq: each for each in later}
        journal = store.rows(first.seq, first.head)
        known = {0: first.head} | {row.seq: row.digest for row in journal}
        problems += [
            f"rows are missing: a snapshot was made after row {each.seq}"
            for each in later
            if known.get(each.seq) != each.head
        ]
        for row in journal:
            follower.follow(row)
            rows += 1
            operations += row.kind in DONE
            # Another version may keep the same beliefs in another form.
            if row.seq in snapshots and snapshots[row.seq].made_by == __version__:
                other = Replayer(snapshots[row.seq], asks, None, trusted)
                compared += 1
                # What the expert knows is its own affair.
                here, there = (replace(x.bandit.state, expert=None) for x in (follower, other))
                if not same_value(here, there):
                    problems.append(f"the snapshot after row {row.seq} is not what its rows give")
    except ClosedCampaignError:
        raise
    except CampaignError as error:
        problems.append(str(error))
    return VerifiedCampaign(rows, operations, compared, tuple(problems))
