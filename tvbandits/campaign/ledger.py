"""What a journal says has happened: rewards, answers and points that are out, without any beliefs.

It follows the rows as a bandit does, and needs none of what a bandit believes with, which takes seconds
to import and to compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvbandits.bandit.told import (
    ToldReadings,
    checked_told,
    corrected,
    decision_time,
    kept_answers,
    noted,
    readings_at,
    still_out,
    usual_variance,
)
from tvbandits.campaign.naming import on_sites
from tvbandits.campaign.store.errors import reading
from tvbandits.campaign.store.store import Row, Snapshot, Store, optional, outcomes_in, points
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import Candidates
from tvbandits.core.files.journal import numbers
from tvbandits.core.files.saving import Saved
from tvbandits.core.limits import Limit
from tvbandits.core.moving import MoveCost
from tvbandits.core.observations import Gone, Observations, Plays, Source
from tvbandits.core.protocols import Domain

if TYPE_CHECKING:
    from tvbandits.campaign.following import Replayer


# What it has in common with the state of a bandit.
OF_STATE = ("rewards", "answers", "failed", "pending", "time", "asked_for")

# Where a snapshot has them; an old one has neither.
HISTORY, GONE = ("recipe", "history"), ("state", "gone")


class KeepingOnRecord(NamedTuple):
    """How many answers are kept, as of `Asking`."""

    reuse_answers: bool = False
    most_answers: int | None = None


class NotFollowedError(Exception):
    """A row says something that only a bandit can follow."""


@dataclass(frozen=True)
class Ledger:
    """What is on record after so many rows.

    Attributes
    ----------
    seq, head : int, str
        Of the latest row.
    open : tuple of Row
        Of an operation that somebody has begun and not ended.
    domain, noise_variance, limits, control, move_cost, history
        As of the recipe.
    outcomes : mapping of Limit to Observations
        What was read of the outcomes that have limits.
    rewards, answers, failed, pending, time, asked_for, gone
        As of a bandit's state.
    questions, cost : int, float
        Asked so far, and what they have cost.
    asking : KeepingOnRecord
        What becomes of older answers when others come.
    tells_only : bool
        Whether a bandit that is told does no more than take note: it asks nobody, and learns nothing
        before the next decision. What it can take note of it can be told.
    """

    seq: int
    head: str
    open: tuple[Row, ...]
    domain: Domain
    noise_variance: float | None
    rewards: Observations
    answers: Observations
    failed: Plays
    pending: Plays
    time: float | None
    asked_for: float | None
    questions: int
    cost: float
    asking: KeepingOnRecord
    tells_only: bool
    outcomes: Mapping[Limit, Observations] = field(default_factory=dict)
    move_cost: MoveCost | None = None
    control: tuple[float, ...] | None = None
    history: int | None = None
    gone: Gone = field(default_factory=Gone)

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, asks: bool, trusted: Mapping[str, Any]) -> Ledger:
        """After the rows that a snapshot was made after."""
        saved = Saved(snapshot.data, trusted)
        with reading(f"{snapshot.place}: the snapshot after row {snapshot.seq}"):
            queries = ("state", "info", "queries")
            keeping, pool = KeepingOnRecord(), None
            if saved.word("recipe", "asking"):
                names = ("reuse_answers", "most_answers", "pool_size")
                *kept, pool = (saved.value("recipe", "asking", name) for name in names)
                keeping = KeepingOnRecord(*kept)
            # A fit, an event, doubt, the width of BBKB and a limited pool look at beliefs when told.
            plain = saved.word("recipe", "confidence") == "Fixed" and not any(
                saved.word("recipe", part) for part in ("learn", "reset")
            )
            plain = plain and not saved.value("recipe", "robust")
            limits = saved.value("recipe", "limits")
            outliers = saved.value("state", "outliers")
            made = cls(
                seq=snapshot.seq,
                head=snapshot.head,
                open=(),
                domain=saved.value("recipe", "domain"),
                noise_variance=saved.value("recipe", "noise_variance"),
                **{name: saved.value("state", name) for name in OF_STATE},
                questions=saved.value(*queries, "total_asked"),
                cost=saved.value(*queries, "total_cost"),
                asking=keeping,
                tells_only=plain and pool is None and not asks,
                outcomes={
                    limit: saved.value("state", "outcomes", limit.name, "rewards")
                    for limit in limits
                },
                move_cost=saved.value("recipe", "move_cost"),
                control=saved.value("recipe", "control"),
                history=saved.value(*HISTORY) if saved.holds(*HISTORY) else None,
                gone=saved.value(*GONE) if saved.holds(*GONE) else Gone(),
            )
        told = made.rewards if outliers is None else outliers.among(made.rewards)
        return replace(made, rewards=told)

    @property
    def readings(self) -> Observations:
        """The rewards."""
        return self.rewards

    def at(self, replayer: Replayer) -> Ledger:
        """Where a bandit is that has followed the journal."""
        state = replayer.bandit.state
        recipe = replayer.bandit.recipe
        return replace(
            self,
            domain=recipe.domain,
            control=recipe.control,
            seq=replayer.seq,
            head=replayer.head,
            open=tuple(replayer.open),
            **({name: getattr(state, name) for name in OF_STATE} | {"rewards": state.readings}),
            gone=state.gone,
            outcomes={limit: state.outcomes[limit.name].rewards for limit in self.outcomes},
            questions=state.info.queries.total_asked,
            cost=state.info.queries.total_cost,
        )

    def caught_up(self, store: Store) -> Ledger:
        """At the end of the journal.

        Raises
        ------
        NotFollowedError
            If a row says something that only a bandit can follow.
        """
        return self.following(store.each(self.seq, self.head), str(store.place))

    def following(self, rows: Iterable[Row], place: str) -> Ledger:
        """So many rows on."""
        ledger = self
        for row in rows:
            with reading(f"{place}: row {row.seq} ({row.kind})"):
                ledger = ledger.followed(row)
        return ledger

    def followed(self, row: Row) -> Ledger:
        """One row on."""
        after = replace(self, seq=row.seq, head=row.digest)
        if row.kind in ("meant", "consulting", "consulted"):
            return replace(after, open=(*self.open, row))
        if row.kind == "failed":
            return replace(after, open=())
        for said in self.open:
            if said.kind == "consulted":
                after = after._consulted(said.body)
        return replace(after._with(row.kind, row.body), open=())

    def _with(self, kind: str, body: Mapping[str, Any]) -> Ledger:
        if kind == "told":
            return self.told(body)
        if kind == "asked":
            X = self._points(body["got"])
            now = decision_time(self) if body["t"] is None else float(body["t"])
            pending = self.pending.append(X, np.full(len(X), now))
            return replace(self, pending=pending, asked_for=now)
        if kind == "sites":
            return self._on(on_sites(self.domain, body))  # type: ignore[arg-type]
        if kind == "dropped":
            return replace(self, pending=self.pending.dropped(self._points(body["X"])))
        if kind == "answers" and body["t"] is not None:
            given = body["variance"]
            noise = usual_variance(1, self.noise_variance) if given is None else given
            return self._answered({**body, "variance": noise}, replaces=False)
        if kind == "questions":
            return replace(self, questions=self.questions + len(body["got"]))
        if kind in ("corrected", "retracted") and not (self.outcomes or self.gone.rewards):
            X, t = self._points(body["X"]), optional(body["t"])
            if kind == "retracted":
                readings, _, rows = readings_at(self, self, X, t)
                return self._retold(readings.without(rows))
            y, variance, to = (optional(body[name]) for name in ("y", "variance", "to"))
            return self._retold(corrected(self, self, X, y, t, variance, to))
        raise NotFollowedError(kind)

    def _on(self, domain: Candidates) -> Ledger:
        """On other candidates; arms that are new are coordinates more."""
        columns = domain.dimension - self.domain.dimension
        wide: dict[str, Any] = {
            name: getattr(self, name).widened(columns)
            for name in ("rewards", "answers", "failed", "pending")
        }
        read = {limit: seen.widened(columns) for limit, seen in self.outcomes.items()}
        control = None if self.control is None else (*self.control, *(0.0,) * columns)
        return replace(self, domain=domain, outcomes=read, control=control, **wide)

    def told(self, given: Mapping[str, Any]) -> Ledger:
        """Once what is given is told.

        Raises
        ------
        ValueError
            As `Bandit.tell`.
        """
        t, variance = optional(given["t"]), optional(given["variance"])
        asked_for = decision_time(self) if self.asked_for is None else self.asked_for
        place = self.domain, self.noise_variance, self.pending, asked_for
        X, y = self._points(given["X"]), numbers(given["y"])
        told = checked_told(*place, X, y, t, variance)
        read = dict(self.outcomes)
        said = outcomes_in(given) or {}
        for limit in self.outcomes:
            values = said.pop(limit.name, None)
            if values is not None:
                place = self.domain, limit.noise_variance, self.pending, 1.0
                more = checked_told(*place, told.X, values, told.t, None, limit.name).rewards
                read[limit] = read[limit].append(more)
        if said:
            raise ValueError(f"there is no limit on {', '.join(said)}")
        return replace(self, outcomes=read, **noted(self, told))._within_history()

    def _within_history(self) -> Ledger:
        """Without the oldest, where there is twice as much as is kept; what limits are on stays."""
        keep, t = self.history, self.rewards.t
        if keep is None or len(t) < 2 * keep or self.outcomes:
            return self
        until = float(t[len(t) - keep :].min())
        return replace(self, **self.gone.grown(until, self.rewards, self.answers, self.failed))

    def _consulted(self, body: Mapping[str, Any]) -> Ledger:
        """Once the expert has been asked, and has answered or was away."""
        asked = replace(self, questions=self.questions + len(body["X"]))
        if "failure" in body:
            return asked
        return replace(asked._answered(body, replaces=True), cost=self.cost + float(body["cost"]))

    def _answered(self, body: Mapping[str, Any], *, replaces: bool) -> Ledger:
        values = numbers(body["values"])
        has = ~np.isnan(values)
        variance = np.broadcast_to(numbers(body["variance"]), len(values))
        n = int(has.sum())
        source = np.full(n, Source.EXPERT, dtype=np.uint8)
        X, t = self._points(body["X"])[has], np.full(n, float(body["t"]))
        fresh = Observations(X, t, values[has], variance[has], source)
        answers, _ = kept_answers(self.asking, self.answers, (0, 0), fresh, replaces)
        return replace(self, answers=answers)

    def _retold(self, readings: ToldReadings) -> Ledger:
        """Once other readings take the place of all that was told."""
        d = self.domain.dimension
        none: dict[str, Any] = {"rewards": Observations.empty(d), "time": None, "asked_for": None}
        made = replace(self, failed=Plays.none(d), pending=Plays.none(d), **none)
        for told in readings.in_turn():
            made = replace(made, **noted(made, told))
        out = still_out(self.asked_for, made.time)
        return replace(made, pending=self.pending, asked_for=out)

    def _points(self, rows: Any) -> Array:
        X = numbers(rows)
        if X.size and (X.ndim, X.shape[-1]) != (2, self.domain.dimension):
            raise ValueError(
                f"points of {self.domain.dimension} coordinates are expected, got {rows}"
            )
        return points(X, self.domain.dimension)
