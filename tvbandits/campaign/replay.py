"""The replay of a journal: a bandit that starts from a snapshot and follows the rows after it.

Every answer of the expert is on the disk before it is used. While a bandit is computed again from the
journal, the answers are those in the journal, and the expert is not queried. The state of the expert
(the rest of a budget, the pairs of a calibration) is in the journal, too.
"""

from __future__ import annotations

import json
import time
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
from tvbandits.bandit.extremes import OutlierWarning
from tvbandits.bandit.observations import find_readings, replace_answers
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State, is_same_value
from tvbandits.campaign.names import NO_CHANGE, apply_change
from tvbandits.campaign.records import times_of
from tvbandits.campaign.status import Verification, bandit_summary
from tvbandits.campaign.store.errors import (
    CampaignError,
    ClosedCampaignError,
    ExpertNeededError,
    ReplayError,
    report_damage,
)
from tvbandits.campaign.store.store import (
    OPERATIONS,
    Row,
    Snapshot,
    Store,
    Turn,
    next_row,
    to_array,
    to_json,
    to_points,
)
from tvbandits.counts import Counted
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
from tvbandits.validation import Array, describe_error

# Returns the answers of an expert about points without those that are beyond belief.
Review = Callable[[Array, Answers], Answers]

# Writes a row of a kind with a body, which is on the disk on return.
Write = Callable[[str, Mapping[str, Any]], object]

# What a snapshot has.
PARTS = {"recipe", "state"}

# Answers that were paid for and could not be written yet, by their question.
Unsaved = dict[tuple[bytes, float], Mapping[str, Any]]


class JournaledExpert:
    """An expert whose questions and answers are in a journal.

    Parameters
    ----------
    expert : Expert or None
        The expert itself; None if the journal is only read.
    unsaved : dict, optional
        Answers that were paid for and could not be written yet.

    Attributes
    ----------
    error : BaseException or None
        The error that ended the operation, because an answer could not be written or replayed.
    review : callable or None
        Returns the answers (q,) about points (q, d) that may be used, before they are written.
    """

    def __init__(self, expert: Expert | None, unsaved: Unsaved | None = None) -> None:
        self._expert = expert
        self._state: Mapping[str, Any] | None = None if expert is None else state_of(expert)
        self._replies: deque[Mapping[str, Any]] = deque()
        self._write: Write | None = None
        self._unsaved: Unsaved = {} if unsaved is None else unsaved
        self.error: BaseException | None = None
        self.review: Review | None = None

    @property
    def present(self) -> bool:
        """Return whether this process has the expert itself."""
        return self._expert is not None

    def prepare(self, rows: Iterable[Row], write: Write | None = None) -> None:
        """Answer by the replies in these rows and then, if `write` is given, by querying the expert."""
        self._replies = deque(row.body for row in rows if row.kind == "reply")
        self._write, self.error = write, None

    def finish(self) -> None:
        """End an operation; raise a `ReplayError` if it did not use all replies."""
        count, self._replies, self._write = len(self._replies), deque(), None
        if count:
            raise ReplayError(f"the journal has {count} more replies of the expert than questions")

    def skip(self, rows: Iterable[Row]) -> None:
        """Restore the state of the expert after an operation that failed."""
        for row in rows:
            if row.kind == "reply":
                self._restore(row.body["expert_state"])

    def query(self, X: Array, t: float) -> Answers:
        """Answer by the journal, or by querying the expert and writing its answers to the journal."""
        try:
            body = self._reply(X, t)
        except CampaignError as error:
            self.error = error
            raise
        if "failure" in body:
            raise ExpertUnavailableError(body["failure"])
        stated = body["variance"]
        variance = None if stated is None else to_array(stated)
        return Answers(
            to_array(body["values"]), variance, float(body["cost"]), tuple(body["notes"])
        )

    def _reply(self, X: Array, t: float) -> Mapping[str, Any]:
        if self._replies:
            body = self._replies.popleft()
            if body["X"] != X.tolist() or body["t"] != t:
                raise ReplayError(
                    f"the question is about {X.tolist()} at t = {t:g}, and in the journal about "
                    f"{body['X']} at t = {body['t']}"
                )
            self._restore(body["expert_state"])
            return body
        if self._write is None:
            raise ReplayError(f"the journal has no reply about {len(X)} points at t = {t:g}")
        if self._expert is None:
            raise ExpertNeededError("the campaign must ask its expert, but was opened without it")
        # An answer that could not be written the last time was paid for: the expert is not asked again.
        body = self._unsaved.get((X.tobytes(), t)) or self._query_expert(self._expert, X, t)
        self._unsaved[X.tobytes(), t] = body
        self._write_row("reply", body)
        self._unsaved.clear()
        self._state = body["expert_state"]
        return body

    def _query_expert(self, expert: Expert, X: Array, t: float) -> Mapping[str, Any]:
        question = {"X": X.tolist(), "t": t}
        self._write_row("query", question)
        try:
            answers = check_answers(expert.query(X.copy(), t), len(X))
        except Exception as error:
            if is_mistake(error):
                raise
            return {**question, "failure": describe_error(error), "expert_state": state_of(expert)}
        if self.review is not None:
            answers = self.review(X, answers)
        return {
            **question,
            "values": answers.values.tolist(),
            "variance": None if answers.variance is None else answers.variance.tolist(),
            "cost": answers.cost,
            "notes": list(answers.notes),
            "expert_state": state_of(expert),
        }

    def _write_row(self, kind: str, body: Mapping[str, Any]) -> None:
        """Write a row; remember an error, which the bandit takes for an expert that is down."""
        assert self._write is not None
        try:
            self._write(kind, body)
        except BaseException as error:
            self.error = error
            raise

    def observe(self, rewards: Dataset) -> None:
        """Show rewards to the expert."""
        if self._expert is not None:
            inform(self._expert, rewards)
            self._state = state_of(self._expert)

    def state(self) -> dict[str, Any]:
        """Return the state of the expert inside."""
        return {"inside": self._state if self._expert is None else state_of(self._expert)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state of the expert inside."""
        self._restore(state["inside"])

    def _restore(self, state: Mapping[str, Any] | None) -> None:
        self._state = state
        if self._expert is not None and state is not None:
            restore_state(self._expert, state)


def snapshot_data(recipe: Recipe, state: State) -> bytes:
    """Return a bandit as the bytes of a saved file, without its expert."""
    return to_bytes({"recipe": _without_expert(recipe), "state": state})


def _without_expert(recipe: Recipe) -> Recipe:
    if recipe.query_config is None:
        return recipe
    return replace(recipe, query_config=replace(recipe.query_config, expert=None))


class Replay:
    """A bandit as of some row of a journal.

    Parameters
    ----------
    snapshot : Snapshot
        The snapshot it starts from.
    has_expert : bool
        Whether the campaign has an expert.
    expert : Expert or None
        The expert itself, if it may be queried.
    trusted : mapping
        The user's own parts, by name.
    unsaved : dict, optional
        Answers that were paid for and could not be written yet.

    Attributes
    ----------
    seq, head : int, str
        The latest row and its checksum.
    snapshot_seq : int
        The row of the latest snapshot.
    seconds : float
        Processor time that the rows after it took, here or in a replay.
    open_rows : list of Row
        The rows of an operation that was announced and is not finished.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        has_expert: bool,
        expert: Expert | None,
        trusted: Mapping[str, Any],
        unsaved: Unsaved | None = None,
    ) -> None:
        self._location = snapshot.location
        self.seq, self.head = snapshot.seq, snapshot.head
        self.snapshot_seq, self.seconds = snapshot.seq, 0.0
        self.expert = JournaledExpert(expert, unsaved) if has_expert else None
        self.open_rows: list[Row] = []
        content = snapshot.read(trusted).value()
        with report_damage(f"{self._location}: the snapshot after row {snapshot.seq}"):
            if not (isinstance(content, dict) and content.keys() >= PARTS):
                raise ValueError("it does not hold a bandit")
            recipe: Recipe = content["recipe"]
            if self.expert is not None and recipe.query_config is not None:
                recipe = replace(
                    recipe, query_config=replace(recipe.query_config, expert=self.expert)
                )
            self.bandit = Bandit.from_state(recipe, content["state"])

    def predictor(self) -> Bandit:
        """Return another bandit of the same state, which may condition it without a trace.

        A decision after it must come to the same bits as in a process that predicts nothing.
        """
        return Bandit.from_state(_without_expert(self.bandit.recipe), self.bandit.state)

    def skip_to(self, state: State, seq: int, head: str, seconds: float) -> None:
        """Take over the state of another replay, if that is further on and has the same domain."""
        if seq > self.seq and state.domain == self.bandit.recipe.domain:
            self.bandit = Bandit.from_state(self.bandit.recipe, state)
            self.seq, self.head, self.seconds, self.open_rows = seq, head, seconds, []

    def follow(self, row: Row) -> None:
        """Replay a row.

        Raises
        ------
        ReplayError
            If the result is not that of the journal.
        DamagedCampaignError
            If the content of the row has another form.
        """
        start = time.process_time()
        with report_damage(f"{self._location}: row {row.seq} ({row.kind})"):
            if row.kind in ("intent", "query", "reply"):
                self.open_rows.append(row)
            else:
                if row.kind != "failure":
                    self._replay(row)
                elif self.expert is not None:
                    self.expert.skip(self.open_rows)
                self.open_rows = []
        self.seq, self.head = row.seq, row.digest
        self.seconds += time.process_time() - start

    def _replay(self, row: Row) -> None:
        where = f"{self._location}: row {row.seq} ({row.kind})"
        try:
            with warnings.catch_warnings():
                for category in (
                    ExpertDownWarning,
                    LimitWarning,
                    OutlierWarning,
                ):  # the caller was warned then
                    warnings.simplefilter("ignore", category)
                outcome = self.perform(row.kind, row.arguments, None)
        except ReplayError as error:
            raise ReplayError(f"{where}: {error}") from error
        except (ValueError, RuntimeError) as error:
            raise ReplayError(f"{where} cannot be replayed: {error}") from error
        recorded = {name: row.body[name] for name in outcome}
        if to_json(outcome) != to_json(recorded):
            raise ReplayError(
                f"{where} gives {to_json(outcome)} here, but the journal has {to_json(recorded)}: was "
                "it written on another kind of processor, or by other versions of packages?"
            )

    def perform(
        self, kind: str, arguments: Mapping[str, Any], write: Write | None
    ) -> dict[str, Any]:
        """Perform an operation, with replies of the journal first and, if `write` is given, new ones.

        Returns
        -------
        outcome : dict
            The `result`, and the `status` after it.

        Raises
        ------
        ValueError, ExpertError
            As the methods of a bandit.
        CampaignError
            If the expert is not here, or its answer cannot be written.
        """
        expert = self.expert
        if expert is not None:
            expert.prepare(self.open_rows, write)
        try:
            result = self._call_bandit(kind, arguments)
        except Exception as error:
            if expert is not None and expert.error is not None:
                raise expert.error from error
            raise
        if expert is not None:
            if expert.error is not None:
                raise expert.error
            expert.finish()
        summary = bandit_summary(self.bandit.recipe, self.bandit.state)
        return {"result": None if result is None else result.tolist(), "status": summary}

    def _call_bandit(self, kind: str, arguments: Mapping[str, Any]) -> Array | None:
        """Call the method of the bandit, and return the result that the journal has."""
        bandit, recipe, state = self.bandit, self.bandit.recipe, self.bandit.state
        if kind == "sites":
            assert isinstance(recipe.domain, Candidates | CandidatesInContext)
            if any(arguments[name] for name in NO_CHANGE):
                self.bandit = bandit.move_to(apply_change(recipe.domain, arguments))
            return None
        method, names = METHODS[kind]
        values = {
            name: _restore_value(name, arguments[name], recipe)
            for name in names
            if name in arguments
        }
        if "trials" in arguments:  # the right variance of a share was written beside it
            trials = to_array(arguments["trials"])
            values["y"] = Counted(values["y"], values.pop("noise_variance"), trials)
        result = None
        if kind == "tell":  # the time (n,) of each reading
            result = times_of(recipe, state, arguments)
        elif kind in ("correct", "retract"):  # the old time and reward (n, 2) of each; NaN: none
            readings = find_readings(recipe, state, values["X"], values.get("t"))
            result = np.column_stack([readings.old_times, readings.before.y[readings.rows]])
        elif kind == "correct_answers":  # the old time and answer (n, 2) of each
            old = state.answers
            _, rows = replace_answers(recipe, old, **{"t": None, "noise_variance": None, **values})
            result = np.column_stack([old.t[rows], old.y[rows]])
        points = method(bandit, **values)
        return points if kind in ("ask", "questions") else result


# The method of a bandit and its arguments, by the kind of the row.
METHODS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "ask": (Bandit.ask, ("t", "n", "available", "context", "near")),
    "tell": (Bandit.tell, ("X", "y", "t", "noise_variance", "outcomes")),
    "drop": (Bandit.drop, ("X",)),
    "questions": (Bandit.questions, ("t", "available")),
    "answer": (Bandit.answer, ("X", "values", "t", "noise_variance")),
    "correct_answers": (Bandit.correct_answers, ("X", "values", "t", "noise_variance")),
    "correct": (Bandit.correct, ("X", "y", "t", "noise_variance", "to", "outcomes")),
    "retract": (Bandit.retract, ("X", "t")),
}


def _restore_value(name: str, value: Any, recipe: Recipe) -> Any:
    """Return an argument from its JSON, in which numbers that are not finite are texts."""
    if name == "X":
        return to_points(value, recipe.domain.dimension)
    if name == "outcomes":
        return {outcome: to_array(values) for outcome, values in value.items()}
    columns = ("t", "to", "y", "values", "noise_variance")
    return to_array(value) if name in columns and isinstance(value, list | str) else value


def verify(store: Store, has_expert: bool, trusted: Mapping[str, Any]) -> Verification:
    """Replay the journal from its start, and compare every result and snapshot."""
    operations = rows = count = 0
    problems: list[str] = []
    try:
        first, *later = reversed(store.snapshots())
        replay = Replay(first, has_expert, None, trusted)
        snapshots = {each.seq: each for each in later}
        for row in store.rows(first.seq, first.head):
            replay.follow(row)
            rows += 1
            operations += row.kind in OPERATIONS
            snapshot = snapshots.pop(row.seq, None)
            if snapshot is None:
                continue
            if snapshot.head != row.digest:
                problems.append(f"the snapshot after row {row.seq} belongs to another row")
            # Another version may represent the same beliefs differently.
            elif snapshot.made_by == __version__:
                count += 1
                other = Replay(snapshot, has_expert, None, trusted)
                # The state of the expert may differ: an expert is free to represent it differently.
                here, there = (x.bandit.state.with_queries(expert=None) for x in (replay, other))
                if not is_same_value(here, there):
                    problems.append(f"the snapshot after row {row.seq} differs from the replay")
        problems += [f"rows are missing: a snapshot was made after row {seq}" for seq in snapshots]
    except ClosedCampaignError:
        raise
    except CampaignError as error:
        problems.append(str(error))
    return Verification(rows, operations, count, tuple(problems))


class Writer:
    """Performs operations and writes them to the journal while the process holds the write lock.

    Parameters
    ----------
    turn : Turn
    replay : Replay
        A replay that has followed the journal to its end.

    Attributes
    ----------
    uncertain : bool
        Whether the replay may be ahead of the disk.
    """

    def __init__(self, turn: Turn, replay: Replay) -> None:
        self.turn, self.replay, self.uncertain = turn, replay, False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write several operations in one transaction, unless an expert may be queried in between."""
        if self.replay.expert is not None:
            yield
            return
        try:
            with self.turn.transaction():
                yield
        except BaseException:
            self.uncertain = True
            raise

    def perform(
        self,
        kind: str,
        payload: Mapping[str, Any],
        resolution: Mapping[str, Any],
        key: str | None,
        who: str,
    ) -> Row:
        """Perform an operation and return its row; announce it first if it may query the expert."""
        expert, body = self.replay.expert, {"payload": payload, "resolution": resolution}
        if expert is not None and kind in ("ask", "tell"):
            if not expert.present:
                raise ExpertNeededError(
                    "the expert of the campaign is needed to ask and to tell",
                    "open the campaign with {expert}",
                )
            self._write("intent", {"kind": kind, "key": key, **body}, None, who)
        return self._complete(kind, body, key, who)

    def recover(self) -> None:
        """Complete an operation that another process has announced before it died."""
        if not self.replay.open_rows:
            return
        intent = self.replay.open_rows[0]
        body = {name: intent.body[name] for name in ("payload", "resolution")}
        try:
            self._complete(intent.body["kind"], body, intent.body["key"], intent.who)
        except CampaignError:
            raise
        except Exception:
            # The journal has the failure, as it would have had then.
            return

    def _complete(self, kind: str, body: Mapping[str, Any], key: str | None, who: str) -> Row:
        replay, announced = self.replay, bool(self.replay.open_rows)
        start = time.process_time()

        def write(kind: str, body: Mapping[str, Any]) -> None:
            self._write(kind, body, None, who)

        self.uncertain = True
        try:
            # As the disk restores it, so that the replay gives the same.
            arguments = json.loads(to_json({**body["payload"], **body["resolution"]}))
            outcome = replay.perform(kind, arguments, write if announced else None)
        except CampaignError:
            raise
        except Exception as error:
            if announced:
                write("failure", {"error": describe_error(error)})
            self.uncertain = False
            raise
        row = self._write(kind, {**body, **outcome}, key, who)
        self.uncertain = False
        replay.seconds += time.process_time() - start
        return row

    def _write(self, kind: str, body: Mapping[str, Any], key: str | None, who: str) -> Row:
        replay = self.replay
        row = next_row(replay.seq, replay.head, kind, body, key, who)
        self.turn.append(row)
        replay.seq, replay.head = row.seq, row.digest
        replay.open_rows = [] if kind in (*OPERATIONS, "failure") else [*replay.open_rows, row]
        return row
