"""What a campaign shows without changing: computed apart from who writes, so that nobody waits."""

from __future__ import annotations

import json
import os
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Among
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.state import Info, State
from tvbandits.campaign.consulted import Unsaved
from tvbandits.campaign.exporting import table_of, write_table
from tvbandits.campaign.following import Follower, Verified, verified
from tvbandits.campaign.naming import Names
from tvbandits.campaign.status import Status, status_of
from tvbandits.campaign.store.errors import DamagedCampaignError, reading
from tvbandits.campaign.store.rows import Row, numbers, points
from tvbandits.campaign.store.store import Store
from tvbandits.core.arrays import Array, as_floats, as_time, whole_number
from tvbandits.core.clock import Clock
from tvbandits.core.coercion import file_path, shown
from tvbandits.core.display import history_of
from tvbandits.core.domains import Candidates
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Expert

Place = str | os.PathLike[str]


class Watching:
    """A campaign that is looked at.

    Parameters
    ----------
    store : Store
        Opened.
    trusted : mapping of str to object
        The user's own parts of the bandit, by "module:name".
    """

    def __init__(self, store: Store, trusted: Mapping[str, Any]) -> None:
        self._store, self._trusted = store, trusted
        with self._field("asks") as said:
            self._asks = {"true": True, "false": False}[said]
        with self._field("clock") as said:
            self._clock = Clock(*json.loads(said)) if said else None
        self._looking = threading.RLock()
        self._reader: Follower | None = None
        self._news: tuple[State, int, str] | None = None
        self._unsaved: Unsaved = {}

    def __repr__(self) -> str:
        return f"<Campaign at {self._store.place}>"

    def predict(self, X: ArrayLike, t: Any = None) -> tuple[Array, Array]:
        """Posterior mean and deviation, as `Bandit.predict`; waits for nobody."""
        with self._read() as follower:
            return follower.bandit.predict(X, self._time(t))

    def recommend(
        self, t: Any = None, among: Among = None, context: ArrayLike | None = None
    ) -> Array:
        """The point of the best posterior mean, as `Bandit.recommend`."""
        with self._read() as follower:
            return follower.bandit.recommend(self._time(t), among, context)

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        with self._read() as follower:
            return follower.bandit.pending

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked, as `Bandit.history`; and what was told wrong.

        A reading that was corrected or taken back stands there as it was, as "corrected" or "retracted".
        """
        with self._read() as follower:
            history = follower.bandit.history
        gone = [row for row in self.journal() if row.kind in ("corrected", "retracted")]
        if not gone:
            return history
        domain, frames = self._recipe.domain, [history]
        none, no_plays = Observations.empty(domain.dimension), Plays.none(domain.dimension)
        for row in gone:
            was, X = numbers(row.body["got"]), points(row.body["X"], domain.dimension)
            old = Observations(X, was[:, 0], np.zeros(len(X)), np.ones(len(X)))
            frame = history_of(domain, old, none, no_plays, no_plays)
            frames.append(frame.assign(reward=was[:, 1], variance=np.nan, kind=row.kind))
        return pd.concat(frames).sort_values("time", kind="stable", ignore_index=True)

    @property
    def info(self) -> Info:
        """What happened last."""
        with self._read() as follower:
            return follower.bandit.info

    @property
    def state(self) -> State:
        """Everything that is known, as of a bandit with the same expert that nobody stopped."""
        with self._read() as follower:
            state = follower.bandit.state
        known = None if state.expert is None else state.expert["inside"]
        return replace(state, expert=known)

    @property
    def recipe(self) -> Any:
        """The parts of the policy; its expert is the one on record."""
        return self._recipe

    @property
    def clock(self) -> Clock | None:
        """The clock by which times may be given as dates."""
        self._store.check_open()
        return self._clock

    @property
    def about(self) -> dict[str, str]:
        """What is kept with it."""
        prefix = "user:"
        found = self._store.about.items()
        return {key.removeprefix(prefix): value for key, value in found if key.startswith(prefix)}

    @cached_property
    def names(self) -> Names:
        """What people call its points."""
        domain = self._recipe.domain
        self._listed("names", range(len(domain.X)) if isinstance(domain, Candidates) else ())
        self._listed("coordinates", range(domain.dimension))
        with self._field("user:given"):
            return Names(domain, self.about)

    def when(self, t: float | None) -> str:
        """A time as people write it."""
        if t is None:
            return "no time yet"
        return f"t = {t:g}" if self.clock is None else str(self.clock.time(t))

    @property
    def id(self) -> str:
        """What no other campaign is called; its copies are."""
        return self._store.about["id"]

    @property
    def budget(self) -> int | None:
        """Questions in all, as the configuration that is kept with it says."""
        with self._field("user:config") as said:
            total = tomllib.loads(said).get("expert", {}).get("budget")
            return None if total is None else whole_number("budget", total, at_least=0)

    @property
    def status(self) -> Status:
        """At a glance."""
        with self._read() as follower:
            in_doubt = self._store.in_doubt(follower.seq)
            return status_of(follower.bandit, follower.seq, follower.open, in_doubt)

    def journal(self, since: int = 0) -> list[Row]:
        """The rows after row `since`: what happened, who did it, and when."""
        whole_number("since", since, at_least=0)
        return self._store.rows(*self._store.mark(since))

    def export(self, path: Place) -> None:
        """Write everything that happened as a table, CSV or Parquet by the name of the file.

        One row for each point: the row of the journal, what happened, when and by whom, the time and the
        point spoken about, value and variance. In a CSV, a text that a spreadsheet would take for a
        formula has an apostrophe before it.

        Raises
        ------
        CampaignError
            If there is something at `path` that is not an earlier table of this campaign: that alone is
            replaced.
        StorageError
            If it cannot be written.
        """
        there = file_path("path", path)
        write_table(table_of(self.journal(), self.names), there)

    def verify(self) -> Verified:
        """Play everything again from the beginning, and compare with what is on record."""
        return verified(self._store, self._asks, self._trusted)

    def backup(self, path: Place) -> None:
        """Copy the campaign to a new file while others go on; an SQLite file only.

        Raises
        ------
        CampaignError
            If there is something at `path`, or beside it what SQLite would take for a part of it; if the
            campaign lies on a server, which has its own tools for that.
        StorageError
            If it cannot be written; nothing is left of it then.
        """
        self._store.backup(file_path("path", path))

    # --- inside ---------------------------------------------------------------------------------

    @contextmanager
    def _field(self, name: str) -> Iterator[str]:
        """What is kept under a name; `DamagedCampaignError` where that cannot be used."""
        with reading(f"{self._store.place}: the field {name!r}"):
            yield self._store.about.get(name, "")

    def _listed(self, name: str, things: Sequence[int]) -> list[str]:
        """Names of so many things, or none."""
        with self._field(f"user:{name}") as said:
            found: list[str] = json.loads(said or "[]")
            texts = isinstance(found, list) and all(isinstance(each, str) for each in found)
            if not texts or len(found) not in (0, len(things)):
                raise ValueError(f"it should be a list of {len(things)} texts")
            return found

    @property
    def _recipe(self) -> Any:
        self._store.check_open()
        with self._looking:
            if self._reader is None:
                self._reader = self._follower(None)
            return self._reader.bandit.recipe

    def _follower(self, expert: Expert | None) -> Follower:
        unsaved = None if expert is None else self._unsaved
        return Follower(self._store.snapshot(), self._asks, expert, self._trusted, unsaved)

    def _check_chain(self) -> None:
        """Whether every row is as it was written, and none is missing before a snapshot."""
        rows = self._store.rows(0, self._store.about["id"])
        latest = self._store.snapshot()
        heads = {0: self._store.about["id"]} | {row.seq: row.digest for row in rows}
        if heads.get(latest.seq) != latest.head:
            raise DamagedCampaignError(
                f"{self._store.place}: rows are missing: a snapshot was made after row {latest.seq}"
            )

    @contextmanager
    def _read(self) -> Iterator[Follower]:
        """A bandit that is where the journal is, apart from the one that writes."""
        with self._looking:
            if self._reader is None:
                self._reader = self._follower(None)
            reader, news = self._reader, self._news
            if news is not None and news[1] > reader.seq:
                state, reader.seq, reader.head = news
                reader.bandit = Bandit.from_state(reader.bandit.recipe, state)
                reader.open = []
            try:
                reader.catch_up(self._store)
            except BaseException:
                self._reader = None
                raise
            yield reader

    def _time(self, t: Any) -> float | None:
        if t is None or isinstance(t, int | float | np.number):
            return None if t is None else as_time(t)
        if self.clock is None:
            raise ValueError(f"t must be a number, as the campaign has no clock; got {shown(t)}")
        return float(self.clock.number(t))

    def _times(self, t: Any) -> Any:
        if t is None or np.ndim(t) == 0:
            return self._time(t)
        if self.clock is not None and np.asarray(t).dtype.kind not in "iuf":
            return self.clock.number(t).tolist()
        return as_floats(t, "t").tolist()
