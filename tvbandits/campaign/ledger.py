"""What a journal says has happened: readings, answers and points that are out, without any beliefs.

It follows the rows as a bandit does, and needs none of what a bandit believes with, which takes seconds
to import and to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.bandit.told import kept_answers, told_next, usual_variance, values_and_variance
from tvbandits.campaign.naming import Names, on_sites
from tvbandits.campaign.store.errors import ConflictError, reading
from tvbandits.campaign.store.store import Row, Snapshot, Store, optional, outcomes_in, points
from tvbandits.core.arrays import Array, at_times, row_keys
from tvbandits.core.candidates import Candidates
from tvbandits.core.context import Context, completed, measured
from tvbandits.core.files.journal import numbers
from tvbandits.core.limits import Limit, check_outcome
from tvbandits.core.moving import MoveCost
from tvbandits.core.observations import Observations, Plays, Record, Told, answers_of
from tvbandits.core.protocols import Domain
from tvbandits.core.tables import history_columns, in_time
from tvbandits.validation import as_values

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit

# What it has in common with the recipe and the state of a bandit.
OF_RECIPE = ("domain", "noise_variance", "control", "move_cost", "history")
OF_STATE = ("answers", "failed", "pending", "time", "asked_for", "gone")


class NotFollowedError(Exception):
    """A row says something that only a bandit can follow."""


@dataclass(frozen=True)
class Ledger(Record):
    """What is on record after so many rows.

    Attributes
    ----------
    seq, head : int, str
        Of the latest row.
    open : tuple of Row
        Of an operation that somebody has begun and not ended.
    domain, noise_variance, control, move_cost, history
        As of the recipe.
    rewards, answers, failed, pending, time, asked_for, gone
        As of `Record`; what stands aside as an outlier is among the rewards.
    outcomes : mapping of Limit to Observations
        What was read of the outcomes that have limits.
    questions, cost : int, float
        Asked so far, and what they have cost.
    reuse_answers, most_answers
        What becomes of older answers when others come, as of `Asking`.
    tells_only : bool
        Whether a bandit that is told does no more than take note: it asks nobody, and learns nothing
        before the next decision. What it can take note of it can be told.
    asks : bool
        Whether the campaign has an expert. Which of its answers count, only a bandit can follow: where
        the plan asks about nothing, no row of the journal says that earlier answers are out of use.
    """

    seq: int
    head: str
    open: tuple[Row, ...]
    domain: Domain
    noise_variance: float | None
    control: tuple[float, ...] | None
    move_cost: MoveCost | None
    history: int | None
    outcomes: Mapping[Limit, Observations]
    questions: int
    cost: float
    reuse_answers: bool
    most_answers: int | None
    tells_only: bool
    asks: bool

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, asks: bool, trusted: Mapping[str, Any]) -> Ledger:
        """After the rows that a snapshot was made after."""
        saved = snapshot.saved(trusted)
        on_record = _on_record(saved.value)  # an error names what is to be handed over
        with reading(f"{snapshot.place}: the snapshot after row {snapshot.seq}"):
            reuse, most, pool = False, None, None
            if saved.word("recipe", "asking"):
                names = ("reuse_answers", "most_answers", "pool_size")
                reuse, most, pool = (saved.value("recipe", "asking", name) for name in names)
            # A fit, an event, doubt, the width of BBKB and a limited pool look at beliefs when told.
            looks = pool is not None or saved.word("recipe", "confidence") != "Fixed"
            looks |= any(saved.word("recipe", part) for part in ("learn", "reset"))
            looks |= saved.value("recipe", "robust")
            return cls(
                **on_record,
                seq=snapshot.seq,
                head=snapshot.head,
                open=(),
                reuse_answers=reuse,
                most_answers=most,
                tells_only=not (looks or asks),
                asks=asks,
            )

    def at(self, bandit: Bandit, seq: int, head: str, begun: list[Row]) -> Ledger:
        """Where a bandit is that has followed the journal."""

        def look(*path: str) -> Any:
            found: Any = bandit
            for name in path:
                found = found[name] if isinstance(found, Mapping) else getattr(found, name)
            return found

        return replace(self, seq=seq, head=head, open=tuple(begun), **_on_record(look))

    def caught_up(self, store: Store) -> Ledger:
        """At the end of the journal.

        Raises
        ------
        NotFollowedError
            If a row says something that only a bandit can follow.
        """
        ledger = self
        for row in store.each(self.seq, self.head):
            with reading(f"{store.place}: row {row.seq} ({row.kind})"):
                ledger = ledger._followed(row)
        return ledger

    def _followed(self, row: Row) -> Ledger:
        if self.asks:
            raise NotFollowedError(row.kind)
        return replace(self._with(row.kind, row.body), seq=row.seq, head=row.digest)

    def _with(self, kind: str, body: Mapping[str, Any]) -> Ledger:
        d = self.domain.dimension
        if kind == "told":
            return self.told(body)[1]
        if kind == "asked":
            X = points(body["got"], d)
            now = self.decision_time if body["t"] is None else float(body["t"])
            pending = self.pending.append(X, np.full(len(X), now))
            return replace(self, pending=pending, asked_for=now)
        if kind == "sites":
            return self._on(on_sites(self.domain, body))  # type: ignore[arg-type]
        if kind == "dropped":
            return replace(self, pending=self.pending.dropped(points(body["X"], d)))
        if kind == "answers" and body["t"] is not None:
            given = body["variance"]
            noise = usual_variance(1, self.noise_variance) if given is None else given
            return self._answered({**body, "variance": noise})
        if kind == "questions":
            return replace(self, questions=self.questions + len(body["got"]))
        raise NotFollowedError(kind)

    def _on(self, domain: Candidates) -> Ledger:
        """On other candidates; arms that are new are coordinates more."""
        columns = domain.dimension - self.domain.dimension
        read = {limit: seen.widened(columns) for limit, seen in self.outcomes.items()}
        control = None if self.control is None else (*self.control, *(0.0,) * columns)
        wide = self.with_coordinates(columns)
        return replace(self, domain=domain, outcomes=read, control=control, **wide)

    def placed(
        self, X: Any, context: Context = None, t: Any = None, *, played: bool = False
    ) -> Array:
        """Points (n, d) of the domain; without a context they have that of what is out or was played."""
        if measured(self.domain) or context is not None:
            there = self.played if played else self.pending
            X = completed(self.domain, X, context, there, t)
        return self.domain.check(X)

    def told_next(self, given: Mapping[str, Any]) -> Told:
        """What a row tells, if it can be used."""
        X, y = points(given["X"], self.domain.dimension), numbers(given["y"])
        return told_next(self, self, X, y, optional(given["t"]), optional(given["variance"]))

    def told(self, given: Mapping[str, Any]) -> tuple[Told, Ledger]:
        """What is told, and what is on record then.

        Raises
        ------
        ValueError
            As `Bandit.tell`.
        NotFollowedError
            If the history is so long that some of it may have to go.
        """
        told, read = self.told_next(given), dict(self.outcomes)
        limits = {limit.name: limit for limit in read}
        for name, values in (outcomes_in(given) or {}).items():
            check_outcome(name, limits)
            limit = limits[name]
            usual = len(told.X), None, limit.noise_variance
            more = Told.of(told.X, told.t, *values_and_variance(name, values, *usual))
            read[limit] = read[limit].append(more.rewards)
        made = replace(self, outcomes=read, **self.noted(told))
        if self.history is not None and len(made.rewards) >= 2 * self.history:
            raise NotFollowedError("a long history")
        return told, made

    def _answered(self, body: Mapping[str, Any]) -> Ledger:
        X, values = points(body["X"], self.domain.dimension), numbers(body["values"])
        variance = np.broadcast_to(numbers(body["variance"]), len(values))
        fresh = answers_of(X, float(body["t"]), values, variance)
        rule = self.reuse_answers, self.most_answers
        answers, _ = kept_answers(rule, self.answers, (0, 0), fresh, replaces=False)
        return replace(self, answers=answers)


def _on_record(look: Callable[..., Any]) -> dict[str, Any]:
    """What is on record at paths of names, in a saved bandit or a living one."""
    rewards, outliers = look("state", "rewards"), look("state", "outliers")
    queries = ("state", "info", "queries")
    return {
        **{name: look("recipe", name) for name in OF_RECIPE},
        **{name: look("state", name) for name in OF_STATE},
        "rewards": rewards if outliers is None else outliers.among(rewards),
        "outcomes": {
            limit: look("state", "outcomes", limit.name, "rewards")
            for limit in look("recipe", "limits")
        },
        "questions": look(*queries, "total_asked"),
        "cost": look(*queries, "total_cost"),
    }


# --- what a bandit remembers, and what stands in the journal alone: told wrong, or too old ----------


def columns_of(known: Ledger, put_right: Iterable[Row]) -> dict[str, Any]:
    """The columns of a history, with what was told wrong as rows of "corrected" and "retracted"."""
    domain = known.domain
    said = known.rewards, known.answers, known.failed, known.pending
    parts = [history_columns(domain, *said, known.outcomes, known.control, known.move_cost)]
    none, no_plays = Observations.empty(domain.dimension), Plays.none(domain.dimension)
    unread = dict.fromkeys(known.outcomes, none)
    for row in put_right:
        was, X = numbers(row.body["got"]), points(row.body["X"], domain.dimension)
        old = Observations(X, was[:, 0], np.zeros(len(X)), np.ones(len(X)))
        part = history_columns(domain, old, none, no_plays, no_plays, unread, known.control)
        order = np.argsort(was[:, 0], kind="stable")
        gone = np.full(len(X), np.nan)
        kind = np.full(len(X), row.kind, dtype=object)
        of_old = {"reward": was[order, 1], "variance": gone, "kind": kind, "move_cost": gone}
        parts.append({**part, **of_old})
    return in_time({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


class OnRecord:
    """The readings on record by place and time, to be looked up.

    Parameters
    ----------
    known : Ledger
    rows_of : callable
        The rows of the journal of a kind.
    t : array, optional
        At these times only.
    """

    def __init__(
        self, known: Ledger, rows_of: Callable[[str], Iterable[Row]], t: Array | None = None
    ) -> None:
        if known.gone.rewards and (t is None or (t < known.gone.until).any()):
            known = _with_gone(known, rows_of("told"))
        before = known.rewards if t is None else known.rewards.take(np.isin(known.rewards.t, t))
        self._until, self._rows_of = known.gone.until, rows_of
        self._failed, self._dimension = {*_plays(known.failed)}, known.domain.dimension
        self._readings = _by_play(before, before.y, before.variance)
        read = known.outcomes.items()
        self._outcomes = {limit.name: _by_play(each, each.y) for limit, each in read}

    def add(self, told: Told) -> None:
        """It is told, too."""
        read = told.rewards
        for play, said in _by_play(read, read.y, read.variance).items():
            self._readings.setdefault(play, []).extend(said)
        self._failed |= {*_plays(told.failed)}

    @cached_property
    def _counts(self) -> dict[bytes, Any]:
        """What readings were made of that were counted."""
        told = [row.body for row in self._rows_of("told") if "counts" in row.body]
        plays = [
            at_times(points(each["X"], self._dimension), numbers(each["got"])) for each in told
        ]
        return {row_keys(at)[0]: each["counts"] for at, each in zip(plays, told, strict=True)}

    def conflict(
        self, told: Told, given: Mapping[str, Any], names: Names, when: Callable[[float], str]
    ) -> ConflictError | None:
        """What is wrong if a reading of the same place and time is on record.

        A play without a reading is no obstacle to a reading, and adds nothing to one.
        """
        read, found, same = told.rewards, set[bytes](), True
        for play, y, variance in zip(_plays(read), read.y, read.variance, strict=True):
            if play in self._readings:
                found.add(play)
                # Of counts the variance is another one when more is counted at their time.
                counted = "counts" in given and self._counts.get(play) == given["counts"]
                same = same and any(
                    was == y and (counted or np.array_equal(noise, variance, equal_nan=True))
                    for was, noise in self._readings[play]
                )
        found |= {
            play for play in _plays(told.failed) if play in self._readings or play in self._failed
        }
        if not found:
            return None
        plays = row_keys(at_times(told.X, told.t))
        for name, values in (outcomes_in(given) or {}).items():
            check_outcome(name, self._outcomes)
            read_there = as_values(values, len(plays), name, missing=True)
            for play, t, value in zip(plays, told.t, read_there, strict=True):
                if play in found and t >= self._until and not np.isnan(value):
                    same = same and [value] in self._outcomes[name].get(play, [])
        first = min(map(plays.index, found))
        was = self._readings.get(plays[first], [[np.nan]])[-1][0]
        return ConflictError(
            f"{names.name(told.X[first])} at {when(float(told.t[first]))} was told already, as "
            f"{was:g}: give a key (--key) if another reading "
            "is to count beside it, or let `campaign correct` replace it",
            same=bool(same),
        )


def _plays(plays: Observations | Plays) -> list[bytes]:
    """Keys of places and times."""
    return row_keys(at_times(plays.X, plays.t))


def _by_play(plays: Observations, *columns: Array) -> dict[bytes, list[list[float]]]:
    """What was read at each place and time, the latest last."""
    found: dict[bytes, list[list[float]]] = {}
    for play, said in zip(_plays(plays), np.column_stack(columns).tolist(), strict=True):
        found.setdefault(play, []).append(said)
    return found


def _with_gone(known: Ledger, told: Iterable[Row]) -> Ledger:
    """With readings that have left the history, as they were told."""
    d, until = known.domain.dimension, known.gone.until
    found = Observations.empty(d)
    for row in told:
        X, t = points(row.body["X"], d), numbers(row.body["got"])
        y, said = numbers(row.body["y"]).reshape(-1), optional(row.body["variance"])
        variance = usual_variance(len(t), known.noise_variance)
        variance = variance if said is None else np.broadcast_to(said, len(t))
        old = (t < until) & ~np.isnan(y)
        found = found.append(Observations.checked(X[old], t[old], y[old], variance[old]))
    return replace(known, rewards=found.append(known.rewards))
