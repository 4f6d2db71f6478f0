"""What a journal says has happened: rewards, answers and points that are out, without any beliefs.

It follows the rows as a bandit does, and needs none of what a bandit believes with, which takes seconds to
import and to compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.bandit.told import checked_told, decision_time, noted
from tvbandits.campaign.store.errors import reading
from tvbandits.campaign.store.rows import Row, numbers, points
from tvbandits.campaign.store.store import Snapshot, Store
from tvbandits.core.arrays import Array
from tvbandits.core.files.saving import Saved
from tvbandits.core.observations import Observations, Plays, Source
from tvbandits.core.protocols import Domain

if TYPE_CHECKING:
    from tvbandits.campaign.following import Replayer


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
    domain, noise_variance
        As of the recipe.
    rewards, answers, failed, pending, time, asked_for
        As of a bandit's state.
    questions, cost : int, float
        Asked so far, and what they have cost.
    keeps_answers : bool
        Whether every answer is kept.
    tells_only : bool
        Whether a bandit that is told does no more than take note: it asks nobody, and learns nothing
        before the next decision. What it can take note of it can be told.
    """

    seq: int
    head: str
    open: tuple[Row, ...]
    domain: Domain
    noise_variance: float
    rewards: Observations
    answers: Observations
    failed: Plays
    pending: Plays
    time: float | None
    asked_for: float | None
    questions: int
    cost: float
    keeps_answers: bool = False
    tells_only: bool = False

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, asks: bool, trusted: Mapping[str, Any]) -> Ledger:
        """After the rows that a snapshot was made after."""
        saved = Saved(snapshot.data, trusted)
        with reading(f"{snapshot.place}: the snapshot after row {snapshot.seq}"):
            state = ("rewards", "answers", "failed", "pending", "time", "asked_for")
            queries = ("state", "info", "queries")
            asking = ("reuse_answers", "most_answers", "pool_size")
            reuse, most, pool = (True, None, None)
            if saved.word("recipe", "asking"):
                reuse, most, pool = (saved.value("recipe", "asking", name) for name in asking)
            # A fit, an event, the width of BBKB and a limited pool look at beliefs when told.
            plain = saved.word("recipe", "confidence") == "Fixed" and not any(
                saved.word("recipe", part) for part in ("learn", "reset")
            )
            return cls(
                seq=snapshot.seq,
                head=snapshot.head,
                open=(),
                domain=saved.value("recipe", "domain"),
                noise_variance=saved.value("recipe", "noise_variance"),
                **{name: saved.value("state", name) for name in state},
                questions=saved.value(*queries, "total_asked"),
                cost=saved.value(*queries, "total_cost"),
                keeps_answers=reuse and most is None,
                tells_only=plain and pool is None and not asks,
            )

    @classmethod
    def of_replayer(cls, replayer: Replayer) -> Ledger:
        """Where a bandit is that has followed the journal."""
        recipe, state = replayer.bandit.recipe, replayer.bandit.state
        queries = state.info.queries
        return cls(
            replayer.seq,
            replayer.head,
            tuple(replayer.open),
            recipe.domain,
            recipe.noise_variance,
            state.rewards,
            state.answers,
            state.failed,
            state.pending,
            state.time,
            state.asked_for,
            queries.total_asked,
            queries.total_cost,
        )

    def caught_up(self, store: Store) -> Ledger:
        """At the end of the journal.

        Raises
        ------
        NotFollowedError
            If a row says something that only a bandit can follow.
        """
        ledger = self
        for row in store.rows(self.seq, self.head):
            with reading(f"{store.place}: row {row.seq} ({row.kind})"):
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
        if kind == "dropped":
            return replace(self, pending=self.pending.dropped(self._points(body["X"])))
        if kind == "answers" and body["t"] is not None:
            noise = self.noise_variance if body["variance"] is None else body["variance"]
            return self._answered({**body, "variance": noise})
        if kind == "questions":
            return replace(self, questions=self.questions + len(body["got"]))
        raise NotFollowedError(kind)

    def told(self, given: Mapping[str, Any]) -> Ledger:
        """Once what is given is told.

        Raises
        ------
        ValueError
            As `Bandit.tell`.
        """
        t, variance = (None if given[name] is None else numbers(given[name]) for name in ("t", "variance"))
        asked_for = decision_time(self) if self.asked_for is None else self.asked_for
        told = checked_told(
            self.domain,
            self.noise_variance,
            self.pending,
            asked_for,
            self._points(given["X"]),
            numbers(given["y"]),
            t,
            variance,
        )
        return replace(self, **noted(self, told))

    def _consulted(self, body: Mapping[str, Any]) -> Ledger:
        """Once the expert has been asked, and has answered or was away."""
        asked = replace(self, questions=self.questions + len(body["X"]))
        if "failure" in body:
            return asked
        return replace(asked._answered(body), cost=self.cost + float(body["cost"]))

    def _answered(self, body: Mapping[str, Any]) -> Ledger:
        if not self.keeps_answers:
            raise NotFollowedError("answers")
        values = numbers(body["values"])
        has = ~np.isnan(values)
        variance = np.broadcast_to(numbers(body["variance"]), len(values))
        n = int(has.sum())
        source = np.full(n, Source.EXPERT, dtype=np.uint8)
        X, t = self._points(body["X"])[has], np.full(n, float(body["t"]))
        fresh = Observations(X, t, values[has], variance[has], source)
        return replace(self, answers=self.answers.append(fresh))

    def _points(self, rows: Any) -> Array:
        return points(rows, self.domain.dimension)
