"""The replay of a journal: what is believed is a bandit that has played every row again.

A `Replay` goes on from a snapshot, row by row, and `Writer` goes on from there with operations of its
own. Every answer of the expert is on the disk before anybody uses it: while a bandit is computed again
from the journal the answers are those on record, and the expert itself is not asked. What it knows (the
rest of a budget, the pairs of a calibration) is on record too.
"""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits._version import __version__
from tvbandits.acquisition.limits import LimitWarning
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.observations import find_readings
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State, same_value
from tvbandits.campaign.records import told_of
from tvbandits.campaign.sites import on_sites
from tvbandits.campaign.status import VerifiedCampaign, summary_of
from tvbandits.campaign.store.errors import (
    CampaignError,
    ClosedCampaignError,
    ExpertNeededError,
    ReplayError,
    reading,
)
from tvbandits.campaign.store.journal import as_text, numbers, points
from tvbandits.campaign.store.store import DONE, Row, Snapshot, Store, Turn, next_row
from tvbandits.data import Dataset
from tvbandits.domains.candidates import Candidates, CandidatesInContext
from tvbandits.experts.protocol import (
    Answers,
    Expert,
    ExpertDownWarning,
    ExpertUnavailableError,
    check_answers,
    inform,
    is_mistake,
    restore_state,
    state_of,
)
from tvbandits.io import to_bytes
from tvbandits.validation import Array

# Writes a row of a kind with a body; it is on the disk on return.
Write = Callable[[str, Mapping[str, Any]], object]

# Answers that were paid for and could not be written yet, by their question.
Unsaved = dict[tuple[bytes, float], Mapping[str, Any]]


class JournaledExpert:
    """An expert whose questions and answers are in a journal.

    Parameters
    ----------
    expert : Expert or None
        The expert itself; None where the journal is only read.
    unsaved : dict, optional
        Answers that were paid for and could not be written yet.
    """

    def __init__(self, expert: Expert | None, unsaved: Unsaved | None = None) -> None:
        self._expert = expert
        self._knowledge: Mapping[str, Any] | None = None if expert is None else state_of(expert)
        self._recorded: deque[Mapping[str, Any]] = deque()
        self._write: Write | None = None
        self._unsaved: Unsaved = {} if unsaved is None else unsaved
        self.stopped: BaseException | None = None

    @property
    def present(self) -> bool:
        """Whether the expert itself is here."""
        return self._expert is not None

    def prepare(self, rows: Iterable[Row], write: Write | None = None) -> None:
        """Answer as on record, and then, if `write` is given, by asking."""
        self._recorded = deque(row.body for row in rows if row.kind == "consulted")
        self._write, self.stopped = write, None

    def finish(self) -> None:
        """Nothing is under way any more; `ReplayError` if not all that is on record was asked."""
        left, self._recorded, self._write = len(self._recorded), deque(), None
        if left:
            raise ReplayError(f"{left} answers are on record that nobody asks for")

    def skip(self, rows: Iterable[Row]) -> None:
        """Know what the expert knew after an operation that failed."""
        for row in rows:
            if row.kind == "consulted":
                self._know(row.body["knows"])

    def query(self, X: Array, t: float) -> Answers:
        """Answer as on record, or by asking: what the expert says is written down first."""
        try:
            body = self._answer(X, t)
        except CampaignError as error:
            self.stopped = error
            raise
        if "failure" in body:
            raise ExpertUnavailableError(body["failure"])
        values, variance = numbers(body["values"]), numbers(body["variance"])
        return Answers(values, variance, float(body["cost"]), tuple(body["notes"]))

    def _answer(self, X: Array, t: float) -> Mapping[str, Any]:
        if self._recorded:
            body = self._recorded.popleft()
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
        self._knowledge = body["knows"]
        return body

    def _asked(self, expert: Expert, X: Array, t: float) -> Mapping[str, Any]:
        about = {"X": X.tolist(), "t": t}
        self._written("consulting", about)
        try:
            answers = check_answers(expert.query(X.copy(), t), len(X))
        except Exception as error:
            if is_mistake(error):
                raise
            failure = f"{type(error).__name__}: {error}"
            return {**about, "failure": failure, "knows": state_of(expert)}
        return {
            **about,
            "values": answers.values.tolist(),
            "variance": answers.variance.tolist(),
            "cost": answers.cost,
            "notes": list(answers.notes),
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

    def observe(self, rewards: Dataset) -> None:
        """Hand rewards on."""
        if self._expert is not None:
            inform(self._expert, rewards)
            self._knowledge = state_of(self._expert)

    def state(self) -> dict[str, Any]:
        """Return what the expert knows, as far as it says."""
        return {"inside": self._knowledge if self._expert is None else state_of(self._expert)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Know what the expert knew."""
        self._know(state["inside"])

    def _know(self, knowledge: Mapping[str, Any] | None) -> None:
        self._knowledge = knowledge
        if self._expert is not None and knowledge is not None:
            restore_state(self._expert, knowledge)


# --- playing rows again ---------------------------------------------------------------------------


def snapshot_of(recipe: Recipe, state: State) -> bytes:
    """Return a bandit as a saved file, its expert left out."""
    if recipe.asking is not None:
        recipe = replace(recipe, asking=replace(recipe.asking, expert=None))
    return to_bytes({"recipe": recipe, "state": state})


class Replay:
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

    def follow(self, row: Row) -> None:
        """Play a row again.

        Raises
        ------
        ReplayError
            If it gives something else than what is on record.
        DamagedCampaignError
            If what is on record has another form.
        """
        with reading(f"{self._place}: row {row.seq} ({row.kind})"):
            if row.kind in ("meant", "consulting", "consulted"):
                self.open.append(row)
            else:
                if row.kind != "failed":
                    self._play(row)
                elif self.expert is not None:
                    self.expert.skip(self.open)
                self.open = []
        self.seq, self.head = row.seq, row.digest

    def _play(self, row: Row) -> None:
        where = f"{self._place}: row {row.seq} ({row.kind})"
        try:
            with warnings.catch_warnings():
                for known in (ExpertDownWarning, LimitWarning):  # whoever did it was warned
                    warnings.simplefilter("ignore", known)
                outcome = self.perform(row.kind, row.given, None)
        except ReplayError as error:
            raise ReplayError(f"{where}: {error}") from error
        except (ValueError, RuntimeError) as error:
            raise ReplayError(f"{where} cannot be played again: {error}") from error
        recorded = {name: row.body[name] for name in outcome}
        if as_text(outcome) != as_text(recorded):
            raise ReplayError(
                f"{where} gives {as_text(outcome)} here, and {as_text(recorded)} is on record: was it "
                "made on another kind of processor, or by other versions?"
            )

    def perform(self, kind: str, given: Mapping[str, Any], write: Write | None) -> dict[str, Any]:
        """Do what an operation says, with what is on record of it and, if `write` is given, more.

        Returns
        -------
        outcome : dict
            What it `got`, and the `status` after it.

        Raises
        ------
        ValueError, ExpertError
            As the bandit's calls.
        CampaignError
            If the expert is not here, or its answer cannot be written.
        """
        expert = self.expert
        if expert is not None:
            expert.prepare(self.open, write)
        try:
            got = self._operate(kind, given)
        except Exception as error:
            if expert is not None and expert.stopped is not None:
                raise expert.stopped from error
            raise
        if expert is not None:
            if expert.stopped is not None:
                raise expert.stopped
            expert.finish()
        status = summary_of(self.bandit.recipe, self.bandit.state)
        return {"got": None if got is None else got.tolist(), "status": status}

    def _operate(self, kind: str, given: Mapping[str, Any]) -> Array | None:
        """Do what an operation says, and return what came of it, as far as that is written down."""
        bandit, recipe, state = self.bandit, self.bandit.recipe, self.bandit.state
        if kind == "sites":
            assert isinstance(
                recipe.domain, Candidates | CandidatesInContext
            )  # there are no others
            self.bandit = bandit.on(on_sites(recipe.domain, given))
            return None
        method, names = VERBS[kind]
        arguments = {name: _argument(name, given[name], recipe) for name in names if name in given}
        recorded = None
        if kind == "told":  # the time of each, which may have left memory when it is told again
            recorded = told_of(recipe, state, given).t
        elif kind in ("corrected", "retracted"):  # the time and reward (n, 2) of each; NaN: none
            found = find_readings(recipe, state, arguments["X"], arguments.get("t"))
            recorded = np.column_stack([found.old_times, found.before.y[found.rows]])
        result = method(bandit, **arguments)
        return result if kind in ("asked", "questions") else recorded


# What a bandit does, and with which arguments, by the kind of row that says so.
VERBS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "asked": (Bandit.ask, ("t", "n", "available", "context", "near")),
    "told": (Bandit.tell, ("X", "y", "t", "noise_variance", "outcomes")),
    "dropped": (Bandit.drop, ("X",)),
    "questions": (Bandit.questions, ("t", "available")),
    "answers": (Bandit.answer, ("X", "values", "t", "noise_variance")),
    "corrected": (Bandit.correct, ("X", "y", "t", "noise_variance", "to", "outcomes")),
    "retracted": (Bandit.retract, ("X", "t")),
}


def _argument(name: str, value: Any, recipe: Recipe) -> Any:
    """Return a value of a row as the bandit's verb takes it: what is not finite is a text in a row."""
    if name == "X":
        return points(value, recipe.domain.dimension)
    if name == "outcomes":
        return {each: numbers(values) for each, values in value.items()}
    is_column = name in ("t", "to", "y", "values", "noise_variance") and isinstance(
        value, list | str
    )
    return numbers(value) if is_column else value


def verified(store: Store, asks: bool, trusted: Mapping[str, Any]) -> VerifiedCampaign:
    """Play everything again from the beginning, and compare with what is on record."""
    operations = rows = compared = 0
    problems: list[str] = []
    try:
        first, *later = reversed(store.snapshots())
        replay = Replay(first, asks, None, trusted)
        snapshots = {each.seq: each for each in later}
        for row in store.rows(first.seq, first.head):
            replay.follow(row)
            rows += 1
            operations += row.kind in DONE
            snapshot = snapshots.pop(row.seq, None)
            if snapshot is None:
                continue
            if snapshot.head != row.digest:
                problems.append(f"the snapshot after row {row.seq} is of another row")
            # Another version may keep the same beliefs in another form.
            elif snapshot.made_by == __version__:
                compared += 1
                other = Replay(snapshot, asks, None, trusted)
                # What the expert knows is its own affair.
                here, there = (x.bandit.state.with_queries(expert=None) for x in (replay, other))
                if not same_value(here, there):
                    problems.append(f"the snapshot after row {row.seq} is not what its rows give")
        problems += [f"rows are missing: a snapshot was made after row {seq}" for seq in snapshots]
    except ClosedCampaignError:
        raise
    except CampaignError as error:
        problems.append(str(error))
    return VerifiedCampaign(rows, operations, compared, tuple(problems))


# --- operations: done in one's turn, written down, ended by others if need be ---------------------


class Writer:
    """Does operations in one's turn, and writes them down.

    Parameters
    ----------
    turn : Turn
    replay : Replay
        At the end of the journal.

    Attributes
    ----------
    uncertain : bool
        Whether what is in memory may be ahead of the disk.
    """

    def __init__(self, turn: Turn, replay: Replay) -> None:
        self.turn, self.replay, self.uncertain = turn, replay, False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Do several operations in one transaction; where an expert is asked, one by one."""
        if self.replay.expert is not None:
            yield
            return
        try:
            with self.turn.transaction():
                yield
        except BaseException:
            self.uncertain = True
            raise

    def operate(
        self, kind: str, sent: Mapping[str, Any], made: Mapping[str, Any], key: str | None, who: str
    ) -> Row:
        """Do it, and return its row; what may ask the expert is written down before it begins."""
        expert, body = self.replay.expert, {"sent": sent, "made": made}
        if expert is not None and kind in ("asked", "told"):
            if not expert.present:
                raise ExpertNeededError(
                    "the campaign has an expert, and it is needed to ask and to tell: hand it over, "
                    "by expert= or --expert"
                )
            self._write("meant", {"kind": kind, "key": key, **body}, None, who)
        return self._end(kind, body, key, who)

    def recover(self) -> None:
        """End what a process may have begun that is no more."""
        if not self.replay.open:
            return
        meant = self.replay.open[0]
        body = {name: meant.body[name] for name in ("sent", "made")}
        try:
            self._end(meant.body["kind"], body, meant.body["key"], meant.who)
        except CampaignError:
            raise
        except Exception:
            # It is on record as failed, as it would have been then.
            return

    def _end(self, kind: str, body: Mapping[str, Any], key: str | None, who: str) -> Row:
        replay, begun = self.replay, bool(self.replay.open)

        def write(kind: str, body: Mapping[str, Any]) -> None:
            self._write(kind, body, None, who)

        self.uncertain = True
        try:
            # As it comes back from the disk, so that it can be played again.
            given = json.loads(as_text({**body["sent"], **body["made"]}))
            outcome = replay.perform(kind, given, write if begun else None)
        except CampaignError:
            raise
        except Exception as error:
            if begun:
                write("failed", {"error": f"{type(error).__name__}: {error}"})
            self.uncertain = False
            raise
        row = self._write(kind, {**body, **outcome}, key, who)
        self.uncertain = False
        return row

    def _write(self, kind: str, body: Mapping[str, Any], key: str | None, who: str) -> Row:
        replay = self.replay
        row = next_row(replay.seq, replay.head, kind, body, key, who)
        self.turn.append(row)
        replay.seq, replay.head = row.seq, row.digest
        replay.open = [] if kind in (*DONE, "failed") else [*replay.open, row]
        return row
