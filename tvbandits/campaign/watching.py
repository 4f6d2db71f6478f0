"""What a campaign shows without changing: computed apart from who writes, so that nobody waits."""

from __future__ import annotations

import json
import os
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Among
from tvbandits.campaign.ledger import Ledger, NotFollowedError
from tvbandits.campaign.naming import Names, texts
from tvbandits.campaign.status import PointOut, Status, points_out, status_of
from tvbandits.campaign.store.errors import CampaignError, DamagedCampaignError, reading
from tvbandits.campaign.store.store import PAGE, Row, Store, points
from tvbandits.core.arrays import Array, as_floats, as_time, flag, positive_number, whole_number
from tvbandits.core.candidates import Candidates, candidates_of
from tvbandits.core.clock import Clock
from tvbandits.core.coercion import file_path, shown
from tvbandits.core.context import Context, completed, measured
from tvbandits.core.files.journal import numbers
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain, Expert
from tvbandits.core.space import Space
from tvbandits.core.tables import history_columns, in_time

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.bandit.state import Info, State
    from tvbandits.campaign.following import Replayer, Unsaved, VerifiedCampaign

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
        self._reader: Replayer | None = None
        self._ledger: Ledger | None = None
        self._opened: list[Row] = []
        self._news: tuple[State, int, str] | None = None
        self._unsaved: Unsaved = {}
        self._named: tuple[Domain, Names] | None = None

    def __repr__(self) -> str:
        return f"<Campaign at {self._store.place}>"

    def predict(
        self,
        X: ArrayLike,
        t: Any = None,
        outcome: str | None = None,
        context: Context = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Posterior mean and deviation, as `Bandit.predict`; waits for nobody."""
        with self._read() as follower:
            place, now = self._points_of(X), self._time(t)
            return follower.bandit.predict(place, now, outcome, context, relative=relative)

    def recommend(self, t: Any = None, among: Among = None, context: Context = None) -> Array:
        """The point of the best posterior mean, as `Bandit.recommend`."""
        with self._read() as follower:
            rows = self.names.rows(among) if texts(among) else among
            return follower.bandit.recommend(self._time(t), rows, context)

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        return self.ledger.pending.X.copy()

    @property
    def outstanding(self) -> list[PointOut]:
        """The points of `pending`: place, the time `t` that each is for, and who asked when."""
        pending = self.ledger.pending
        return points_out(pending, self.journal() if len(pending) else [], self.names)

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked, as `Bandit.history`; and what was told wrong.

        Sites are named; with a clock `time` is a date, and `t` the number. A reading that was corrected
        or taken back stands there as it was, as "corrected" or "retracted".
        """
        import pandas as pd

        columns = self.history_columns
        if self.clock is not None:
            columns["time"] = self.clock.time(columns["t"])
        return pd.DataFrame(columns)

    @property
    def history_columns(self) -> dict[str, Any]:
        """The columns of `history`, by name; dates are texts."""
        ledger, domain = self.whole_ledger, self.domain
        said = (ledger.rewards, ledger.answers, ledger.failed, ledger.pending)
        more = ledger.outcomes, ledger.control, ledger.move_cost
        parts = [history_columns(domain, *said, *more)]
        none, no_plays = Observations.empty(domain.dimension), Plays.none(domain.dimension)
        unread = dict.fromkeys(ledger.outcomes, none)
        for row in self._store.each(*self._store.mark(0)):
            if row.kind in ("corrected", "retracted"):
                was, X = numbers(row.body["got"]), points(row.body["X"], domain.dimension)
                old = Observations(X, was[:, 0], np.zeros(len(X)), np.ones(len(X)))
                given = old, none, no_plays, no_plays, unread
                part = history_columns(domain, *given, ledger.control)
                order = np.argsort(was[:, 0], kind="stable")
                gone = np.full(len(X), np.nan)
                kind = np.full(len(X), row.kind, dtype=object)
                of_old = {"reward": was[order, 1], "variance": gone, "kind": kind}
                parts.append({**part, **of_old, "move_cost": gone})
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return self.names.history(in_time(columns), self.clock)

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
    def domain(self) -> Domain:
        """Where it may play."""
        return self.ledger.domain

    @property
    def sites(self) -> list[str]:
        """The names of what may be played now; empty on a box or a space."""
        domain, names = self.domain, self.names
        if not isinstance(domain, Candidates):
            return []
        rows = [row for row in range(len(domain)) if row not in domain.retired]
        return [names.name(domain.X[row]) for row in rows]

    @property
    def ledger(self) -> Ledger:
        """What is on record, as far as it is known without any beliefs."""
        self._store.check_open()
        with self._looking, suppress(NotFollowedError):
            if self._reader is None:
                opened, self._opened = self._opened, []
                ledger = self._ledger or self._first.following(opened, str(self._store.place))
                self._ledger = ledger.caught_up(self._store)
                return self._ledger
        with self._read() as follower:
            return self._first.at(follower)

    @property
    def whole_ledger(self) -> Ledger:
        """What is on record, with what has left the history of the bandit: read from the disk."""
        known = self.ledger
        if not known.gone.rewards:
            return known
        try:
            return replace(self._first, history=None).caught_up(self._store)
        except NotFollowedError as error:
            raise CampaignError(
                f"{self._store.place}: {known.gone.rewards} rewards have left memory, and what was made "
                f"of them since ({error}) can be told by replay alone: see `journal`"
            ) from error

    @cached_property
    def _first(self) -> Ledger:
        """As it began."""
        return Ledger.of_snapshot(self._store.first_snapshot(), self._asks, self._trusted)

    @property
    def recipe(self) -> Any:
        """The parts of the policy; its expert is the one on record."""
        self._store.check_open()
        with self._looking:
            if self._reader is None:
                self._reader = self._follower(None)
            return self._reader.bandit.recipe

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

    @property
    def names(self) -> Names:
        """What people call its points."""
        domain = self.domain
        if self._named is None or self._named[0] is not domain:
            self._named = domain, self._names_on(domain)
        return self._named[1]

    def _names_on(self, domain_now: Domain) -> Names:
        domain = self._first.domain
        sites = candidates_of(domain)
        self._listed("names", () if sites is None else range(len(sites)))
        known = domain.names if isinstance(domain, Space) else range(domain.dimension)
        self._listed("coordinates", known)
        with self._field("user:given"):
            if domain_now is domain:
                return Names(domain, self.about)
        added = [row.body for row in self.journal() if row.kind == "sites"]
        return Names(domain_now, self.about, added)

    def when(self, t: float | None) -> str:
        """A time as people write it."""
        if t is None:
            return "no time yet"
        t = as_time(t)
        return f"t = {t:.15g}" if self.clock is None else str(self.clock.time(t))

    @property
    def drop_after(self) -> float | None:
        """In units of time: so long after its time a point is dropped that was asked and never told."""
        with self._field("user:drop_after") as said:
            return length_of(said)

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
        ledger = self.ledger
        return status_of(ledger, self._store.in_doubt(ledger.seq))

    def journal(self, since: int = 0) -> list[Row]:
        """The rows after row `since`: what happened, who did it, and when."""
        whole_number("since", since, at_least=0)
        return self._store.rows(*self._store.mark(since))

    def verify(self) -> VerifiedCampaign:
        """Play everything again from the beginning, and compare with what is on record."""
        from tvbandits.campaign.following import verified

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

    def _listed(self, name: str, things: Sequence[object]) -> list[str]:
        """Names of so many things, or none."""
        with self._field(f"user:{name}") as said:
            found: list[str] = json.loads(said or "[]")
            texts = isinstance(found, list) and all(isinstance(each, str) for each in found)
            if not texts or len(found) not in (0, len(things)):
                raise ValueError(f"it should be a list of {len(things)} texts")
            return found

    def _follower(self, expert: Expert | None) -> Replayer:
        from tvbandits.campaign.following import Replayer

        unsaved = None if expert is None else self._unsaved
        return Replayer(self._store.snapshot(), self._asks, expert, self._trusted, unsaved)

    def _check_chain(self) -> None:
        """Whether every row is as it was written, and none is missing before a snapshot."""
        latest = self._store.snapshot()  # first: others may write rows and a snapshot meanwhile
        begun = self._store.about["id"]
        heads = {0: begun}
        first: list[Row] = []
        for row in self._store.each(0, begun):
            if row.seq == latest.seq:
                heads[row.seq] = row.digest
            if len(first) < PAGE:
                first.append(row)
        if heads.get(latest.seq) != latest.head:
            raise DamagedCampaignError(
                f"{self._store.place}: rows are missing: a snapshot was made after row {latest.seq}"
            )
        self._opened = first

    @contextmanager
    def _read(self) -> Iterator[Replayer]:
        """A bandit that is where the journal is, apart from the one that writes."""
        with self._looking:
            if self._reader is None:
                self._reader = self._follower(None)
            reader, news = self._reader, self._news
            known = news is not None and news[0].domain == reader.bandit.recipe.domain
            if known and news is not None and news[1] > reader.seq:
                from tvbandits.bandit.bandit import Bandit

                state, reader.seq, reader.head = news
                reader.bandit = Bandit.from_state(reader.bandit.recipe, state)
                reader.open = []
            try:
                reader.catch_up(self._store)
            except BaseException:
                self._reader = None
                raise
            with self._in_words():
                yield reader

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Errors of the bandit speak of sites by name and, where there is a clock, of dates."""
        try:
            yield
        except CampaignError:
            raise
        except ValueError as error:
            if len(error.args) == 1:
                error.args = (self.names.in_words(str(error), self.clock),)
            raise

    def _points_of(self, X: Any) -> Any:
        return self.names.points(X) if texts(X) else X

    def placed(self, X: ArrayLike, context: Context = None, *, played: bool = False) -> Array:
        """Points of the domain (n, d), given as they are or by name, with their context."""
        flag("played", played)
        X = self._points_of(X)
        if measured(self.domain) or context is not None:
            known = self.ledger
            there = [known.failed.X, known.rewards.X] if played else [known.pending.X]
            X = completed(self.domain, X, context, np.concatenate(there))
        return self.domain.check(X)

    def _time(self, t: Any, name: str = "t") -> float | None:
        if t is None or isinstance(t, int | float | np.number):
            return None if t is None else as_time(t, name)
        if self.clock is None:
            raise ValueError(
                f"{name} must be a number, as the campaign has no clock; got {shown(t)}"
            )
        return float(self.clock.number(t))

    def _times(self, t: Any, name: str = "t") -> Any:
        if t is None or (not isinstance(t, list | tuple) and np.ndim(t) == 0):
            return self._time(t, name)
        if self.clock and not all(isinstance(each, int | float | np.number) for each in t):
            return self.clock.number(t).tolist()
        return as_floats(t, name).tolist()


def length_of(said: str) -> float | None:
    """`drop_after`, as it is kept."""
    try:
        return positive_number("drop_after", float(said)) if said else None
    except ValueError as error:
        raise ValueError(f"drop_after must be a positive number, got {said!r}") from error
