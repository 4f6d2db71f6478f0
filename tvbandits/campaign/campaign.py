"""`Campaign`: a bandit in a database, which several processes share and none of them can lose.

Every call that changes something is a row of the journal, on the disk before the call returns. A process
that opens the campaign takes the latest snapshot, plays the rows after it again, and is where the others
are, to the last bit. What may ask the expert is written down before it begins, and every answer before
it is used: if the process dies in between, the next one ends what was begun, and pays for no answer that
is on record.

What a campaign shows without changing: computed apart from who writes, so that nobody waits.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import platform
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Among, available
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.state import Info, State
from tvbandits.bandit.told import told_again
from tvbandits.campaign.consulted import Unsaved
from tvbandits.campaign.following import Replayer, VerifiedCampaign, snapshot_of, verified
from tvbandits.campaign.naming import Names, texts
from tvbandits.campaign.status import Status, points_out, status_of, table_of, write_table
from tvbandits.campaign.store.errors import (
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    StorageError,
    reading,
)
from tvbandits.campaign.store.places import place_of
from tvbandits.campaign.store.rows import Row, points
from tvbandits.campaign.store.store import Store, Turn
from tvbandits.campaign.writing import Writer, as_given, as_name, expert_on_record, same_operation
from tvbandits.core.arrays import (
    Array,
    as_floats,
    as_time,
    not_negative,
    positive_number,
    whole_number,
)
from tvbandits.core.candidates import Candidates
from tvbandits.core.clock import Clock
from tvbandits.core.coercion import check_part, file_path, of_kind, shown
from tvbandits.core.files.journal import numbers
from tvbandits.core.files.saving import from_bytes
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Expert, state_of
from tvbandits.core.space import Space
from tvbandits.core.tables import history_of

EXPIRY = "expiry"
"""Who is said to have dropped what nobody told in time."""

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
        self._news: tuple[State, int, str] | None = None
        self._unsaved: Unsaved = {}

    def __repr__(self) -> str:
        return f"<Campaign at {self._store.place}>"

    def predict(self, X: ArrayLike, t: Any = None) -> tuple[Array, Array]:
        """Posterior mean and deviation, as `Bandit.predict`; waits for nobody."""
        with self._read() as follower:
            return follower.bandit.predict(self._points_of(X), self._time(t))

    def recommend(
        self, t: Any = None, among: Among = None, context: ArrayLike | None = None
    ) -> Array:
        """The point of the best posterior mean, as `Bandit.recommend`."""
        with self._read() as follower:
            rows = self.names.rows(among) if texts(among) else among
            return follower.bandit.recommend(self._time(t), rows, context)

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        with self._read() as follower:
            return follower.bandit.pending

    @property
    def out(self) -> pd.DataFrame:
        """The points of `pending`: place, the time `t` that each is for, who asked for it, and when."""
        with self._read() as follower:
            pending = follower.bandit.state.pending
        return points_out(pending, self.journal() if len(pending) else [], self.names)

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked, as `Bandit.history`; and what was told wrong.

        Sites are named; with a clock `time` is a date, and `t` the number. A reading that was corrected
        or taken back stands there as it was, as "corrected" or "retracted".
        """
        return self.names.history(self._history, self.clock)

    @property
    def _history(self) -> pd.DataFrame:
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
        known = domain.names if isinstance(domain, Space) else range(domain.dimension)
        self._listed("coordinates", known)
        with self._field("user:given"):
            return Names(domain, self.about)

    def when(self, t: float | None) -> str:
        """A time as people write it."""
        if t is None:
            return "no time yet"
        return f"t = {t:.15g}" if self.clock is None else str(self.clock.time(t))

    @property
    def drop_after(self) -> float | None:
        """In units of time: so long after its time a point is dropped that was asked and never told."""
        with self._field("user:drop_after") as said:
            return _length(said)

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
        write_table(table_of(self.journal(), self.names, self.clock), there)

    def verify(self) -> VerifiedCampaign:
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

    def _listed(self, name: str, things: Sequence[object]) -> list[str]:
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

    def _follower(self, expert: Expert | None) -> Replayer:
        unsaved = None if expert is None else self._unsaved
        return Replayer(self._store.snapshot(), self._asks, expert, self._trusted, unsaved)

    def _check_chain(self) -> None:
        """Whether every row is as it was written, and none is missing before a snapshot."""
        latest = self._store.snapshot()  # first: others may write rows and a snapshot meanwhile
        rows = self._store.rows(0, self._store.about["id"])
        heads = {0: self._store.about["id"]} | {row.seq: row.digest for row in rows}
        if heads.get(latest.seq) != latest.head:
            raise DamagedCampaignError(
                f"{self._store.place}: rows are missing: a snapshot was made after row {latest.seq}"
            )

    @contextmanager
    def _read(self) -> Iterator[Replayer]:
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

    def _checked(self, X: ArrayLike) -> Array:
        """Points of the domain (n, d), given as they are or by name."""
        checked: Array = self._recipe.domain.check(self._points_of(X))
        return checked

    def _time(self, t: Any, name: str = "t") -> float | None:
        if t is None or isinstance(t, int | float | np.number):
            return None if t is None else as_time(t, name)
        if self.clock is None:
            raise ValueError(
                f"{name} must be a number, as the campaign has no clock; got {shown(t)}"
            )
        return float(self.clock.number(t))

    def _times(self, t: Any, name: str = "t") -> Any:
        if t is None or np.ndim(t) == 0:
            return self._time(t, name)
        if self.clock is not None and np.asarray(t).dtype.kind not in "iuf":
            return self.clock.number(t).tolist()
        return as_floats(t, name).tolist()


class Campaign(Watching):
    """A bandit that outlives its process. Made by `Campaign.create` or `Campaign.open`.

    It has the face of a `Bandit`: `ask`, `tell`, `drop`, `questions`, `answer`, `predict`, `recommend`,
    `pending`, `history`. What changes something takes a `key`, by which a client that lost the reply can
    try again and is counted once.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0], [2.0]]), RBF(1.0), 0.01)
    >>> Campaign.create("campaign.db", bandit).close()
    >>> with Campaign.open("campaign.db") as campaign:  # any process, any number of times
    ...     X = campaign.ask(1, key="ask 1")
    ...     info = campaign.tell(X, [0.4], 1, key="tell 1")
    ...     print(campaign.status.told, campaign.verify().fine)
    1 True
    """

    def __init__(
        self,
        store: Store,
        expert: Expert | None,
        trusted: Mapping[str, Any],
        who: str | None,
        snapshot_every: int,
    ) -> None:
        super().__init__(store, trusted)
        self._who = who or f"{getpass.getuser()}@{platform.node()}"
        self._snapshot_every = snapshot_every
        self._expert = expert
        self._writing = threading.RLock()
        self._writer: Replayer | None = None

    @classmethod
    def create(
        cls,
        place: Place,
        bandit: Bandit,
        *,
        clock: Clock | None = None,
        about: Mapping[str, str] | None = None,
        trusted: Mapping[str, Any] | None = None,
        who: str | None = None,
        patience: float = 30.0,
        snapshot_every: int = 50,
    ) -> Campaign:
        """Begin a campaign.

        Parameters
        ----------
        place : path or URL
            A new file, or an empty database: `postgresql://user@host/database`.
        bandit : Bandit
            As it is now; it is not changed.
        clock : Clock, optional
            Then times may be given as dates, too.
        about : mapping of str to str, optional
            What else is to be kept with it: `names` of the sites (a JSON list); a `title` and the `unit`
            of a reward, to be shown; `drop_after`, a number: points asked and not told are dropped when
            something is asked for that much later, and the journal says so.
        trusted, who, patience, snapshot_every
            As for `open`.

        Raises
        ------
        CampaignError
            If there is something at that place already, or it cannot be written.
        ValueError
            If a part of the bandit has no name by which it could be read back.
        """
        of_kind("bandit", bandit, Bandit, "a Bandit, with which a campaign begins")
        if clock is not None:
            of_kind("clock", clock, Clock, "a Clock, or None")
        if about is not None:
            of_kind("about", about, Mapping, "a mapping of names to texts, or None")
            _length(about.get("drop_after", ""))
        _check_options(trusted, who, patience, snapshot_every)
        asking = bandit.recipe.asking
        expert = None if asking is None else asking.expert
        known = {"inside": state_of(expert), "kind": "OnRecord"} if expert is not None else None
        beginning = Bandit.from_state(
            replace(bandit.recipe, asking=None if asking is None else replace(asking, expert=None)),
            bandit.state,
        )
        beginning._state = replace(beginning.state, expert=known)
        with _store(place, patience) as store:
            store.create(
                {
                    **{f"user:{key}": str(value) for key, value in (about or {}).items()},
                    **expert_on_record(expert),
                    "clock": ""
                    if clock is None
                    else json.dumps([str(clock.unit), str(clock.origin)]),
                },
                snapshot_of(beginning),
            )
            return cls(store, expert, trusted or {}, who, snapshot_every)

    @classmethod
    def open(
        cls,
        place: Place,
        *,
        expert: Expert | None = None,
        trusted: Mapping[str, Any] | None = None,
        who: str | None = None,
        patience: float = 30.0,
        snapshot_every: int = 50,
    ) -> Campaign:
        """Go on with a campaign, at any time, from any process.

        Parameters
        ----------
        place : path or URL
        expert : Expert, optional
            The campaign's expert, where it is not one that can be read back from the file. Whoever only
            looks needs none.
        trusted : mapping of str to object, optional
            The user's own parts of the bandit, by "module:name".
        who : str, optional
            Who is said to have done what is done; user and host by default.
        patience : float
            Seconds to wait for one's turn to write.
        snapshot_every : int
            Operations from one snapshot to the next.

        Raises
        ------
        NoCampaignError
            If there is none.
        DamagedCampaignError
            If a row is not as it was written.
        """
        _check_options(trusted, who, patience, snapshot_every)
        if expert is not None:
            check_part("expert", expert, "an expert, or None", "query")
        with _store(place, patience) as store:
            store.open()
            if expert is None and store.about.get("expert_saved"):
                with reading(f"{store.place}: the field 'expert_saved'"):
                    data = base64.b64decode(store.about["expert_saved"], validate=True)
                # One that cannot be read is no expert: it is said when it is needed.
                with suppress(ValueError):
                    saved = from_bytes(data, trusted)
                    check_part("expert", saved, "an expert", "query")
                    expert = saved
            campaign = cls(store, expert, trusted or {}, who, snapshot_every)
            campaign._check_chain()
            return campaign

    def __enter__(self) -> Campaign:
        self._store.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the campaign goes on where it is opened again.

        Whatever is called here afterwards is a `ClosedCampaignError`.
        """
        self._store.close()

    # --- what changes something ------------------------------------------------------------------

    def ask(
        self,
        t: Any = None,
        n: int | None = None,
        among: Among = None,
        context: ArrayLike | None = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Array:
        """Where to play at time `t`, as `Bandit.ask`; the same points again under the same `key`.

        Raises
        ------
        ConflictError
            If something else was asked under the key.
        BusyError, StorageError
            If it cannot be written now; nothing has happened then, or it is found under the key.
        """
        if n is not None:
            n = whole_number("n", n)
        given = {"t": self._time(t), "n": n, "among": self._rows(among, context)}
        return self._points(self._done("asked", given, key, who))

    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Learn rewards, as `Bandit.tell`; the same rewards under the same `key` count once.

        Raises
        ------
        ConflictError
            If other rewards are on record under the key; the message shows both. Without a key, if a
            reading of the same place and time is on record.
        """
        given = {**self._readings(X, "y", y, variance), "t": self._times(t)}
        self._done("told", given, key, who, self._check_first if key is None else None)
        return self.info

    def correct(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        to: Any = None,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Put other rewards in the place of those that were told, as `Bandit.correct`.

        The journal keeps both; whoever opens the campaign next computes everything since the last
        snapshot again, and a snapshot is kept now.
        """
        values = [float("nan")] if y is None else y
        given = {**self._readings(X, "y", values, variance), "t": self._times(t)}
        given = {**given, "to": self._times(to, "to"), **({"y": None} if y is None else {})}
        self._done("corrected", given, key, who)
        return self.info

    def retract(
        self, X: ArrayLike, t: Any = None, *, key: str | None = None, who: str | None = None
    ) -> Info:
        """Take back what was told, as `Bandit.retract`; the journal keeps both."""
        given = {"X": self._checked(X).tolist(), "t": self._times(t)}
        self._done("retracted", given, key, who)
        return self.info

    def drop(self, X: ArrayLike, *, key: str | None = None, who: str | None = None) -> None:
        """Give up on points, as `Bandit.drop`."""
        self._done("dropped", {"X": self._checked(X).tolist()}, key, who)

    def questions(
        self, t: Any = None, among: Among = None, *, key: str | None = None, who: str | None = None
    ) -> Array:
        """What to ask somebody else now, as `Bandit.questions`."""
        free = self._rows(among, None, any_context=True)
        given = {"t": self._time(t), "among": free}
        return self._points(self._done("questions", given, key, who))

    def answer(
        self,
        X: ArrayLike,
        values: ArrayLike,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Take answers that somebody brought, as `Bandit.answer`; each `key` counts once."""
        given = {**self._readings(X, "values", values, variance), "t": self._time(t)}
        self._done("answers", given, key, who)
        return self.info

    def snapshot(self) -> None:
        """Keep a snapshot now, so that opening takes less time."""
        with self._turn() as (turn, follower):
            self._keep(turn, follower)

    # --- inside ----------------------------------------------------------------------------------

    def _check_first(self, bandit: Bandit, given: Mapping[str, Any]) -> None:
        """Raise a `ConflictError` if a reading of the same place and time is on record."""
        recipe, t, variance = bandit.recipe, given["t"], given["variance"]
        X, y = points(given["X"], recipe.domain.dimension), numbers(given["y"])
        there = told_again(recipe, bandit.state, X, y, t, variance)
        if there is not None:
            known, rows, same = there
            first = rows[0]
            raise ConflictError(
                f"{self.names.name(known.X[first])} at {self.when(float(known.t[first]))} was told "
                f"already, as {known.y[first]:g}: give a key (--key) if another reading is to count "
                "beside it, or let `campaign correct` replace it",
                same=same,
            )

    def _done(
        self,
        kind: str,
        given: dict[str, Any],
        key: str | None,
        who: str | None,
        check: Callable[[Bandit, Mapping[str, Any]], None] | None = None,
    ) -> Mapping[str, Any]:
        """Do something once, and write it down; the body of its row."""
        given, key, who = as_given(given, key, self._who if who is None else who)
        with self._turn() as (turn, follower), self._in_words():
            there = None if key is None else self._store.keyed(key)
            if there is not None:
                return same_operation(there, kind, given)
            if check is not None:
                check(follower.bandit, given)
            writer = Writer(turn, follower, who)
            late = self._overdue(follower.bandit.state, given) if kind == "asked" else []
            try:
                if late:
                    Writer(turn, follower, EXPIRY).operate("dropped", {"X": late}, None)
                body = writer.operate(kind, given, key)
            except BaseException:
                if writer.uncertain:
                    self._writer = None  # what is in memory may be ahead of the disk
                raise
            # Let those who look see it without computing it again.
            self._news = (follower.bandit.state, follower.seq, follower.head)
            due = kind in ("corrected", "retracted")  # to do it again takes long
            if due or follower.seq - follower.snapshot >= self._snapshot_every:
                try:
                    self._keep(turn, follower)
                except StorageError as error:  # what was done is on the disk, and stays done
                    warnings.warn(f"no snapshot: {error}", RuntimeWarning, stacklevel=3)
            return body

    def _overdue(self, state: State, given: Mapping[str, Any]) -> list[list[float]]:
        """Points that are out for longer than `drop_after` when something is asked for."""
        out, next_time = state.pending, 1.0 if state.time is None else state.time + 1.0
        t = next_time if given["t"] is None else given["t"]
        late = np.inf if self.drop_after is None else self.drop_after
        found: list[list[float]] = out.X[t - out.t >= late].tolist()
        return found

    def _keep(self, turn: Turn, follower: Replayer) -> None:
        """Keep a snapshot, where what the expert knows is known."""
        if follower.expert is None or follower.expert.present:
            turn.snapshot(follower.seq, follower.head, snapshot_of(follower.bandit))
            follower.snapshot = follower.seq

    @contextmanager
    def _turn(self) -> Iterator[tuple[Turn, Replayer]]:
        """One's turn to write, with a bandit that is where the journal is."""
        with self._writing, self._store.turn() as turn:
            if self._writer is None:
                self._writer = self._follower(self._expert)
            follower = self._writer
            try:
                follower.catch_up(self._store)
                if follower.open:
                    Writer(turn, follower, self._who).recover()
            except BaseException:
                self._writer = None
                raise
            yield turn, follower

    def _readings(
        self, X: ArrayLike, name: str, values: ArrayLike, variance: ArrayLike | None
    ) -> dict[str, Any]:
        """Points, and what was read there, as they are written down."""
        return {
            "X": self._checked(X).tolist(),
            name: as_floats(values, name).tolist(),
            "variance": None if variance is None else as_floats(variance, "variance").tolist(),
        }

    def _points(self, body: Mapping[str, Any]) -> Array:
        return points(body["got"], self._recipe.domain.dimension)

    def _rows(
        self, among: Among, context: ArrayLike | None, *, any_context: bool = False
    ) -> list[int] | None:
        """What is available as row numbers, which can be written down."""
        rows = self.names.rows(among) if texts(among) else among
        free = available(self._recipe.domain, rows, context, any_context=any_context)
        if free is None:
            return None
        if free.mask is None:
            raise ValueError("among: a function of points cannot be written down in a campaign")
        return [int(row) for row in np.flatnonzero(free.mask)]


@contextmanager
def _store(place: Place, patience: float) -> Iterator[Store]:
    """Tables to be opened; closed where that fails."""
    store = Store(place_of(place), patience)
    try:
        yield store
    except BaseException:
        store.close()
        raise


def _length(said: str) -> float | None:
    """`drop_after`, as it is kept."""
    try:
        return positive_number("drop_after", float(said)) if said else None
    except ValueError as error:
        raise ValueError(f"drop_after must be a positive number, got {said!r}") from error


def _check_options(trusted: object, who: object, patience: object, snapshot_every: object) -> None:
    if trusted is not None:
        of_kind("trusted", trusted, Mapping, 'a mapping of "module:name" to parts, or None')
    if who is not None:
        as_name("who", who)
    not_negative("patience", patience)
    whole_number("snapshot_every", snapshot_every)
