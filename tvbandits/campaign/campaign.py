"""`Campaign`: a bandit in a database, which several processes share and none of them can lose.

Every call that changes something is checked, done in one's turn and written to the journal; it is on
the disk before the call returns. What is believed is a replay of the journal: a process that opens the
campaign takes the latest snapshot, plays the rows after it again, and is where the others are, to the
last bit. What may ask the expert is written down before it begins, and every answer before it is used:
if the process dies in between, the next one ends what was begun, and pays for no answer on record.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Among
from tvbandits.bandit.told import told_next, zero_or_one
from tvbandits.campaign.names import (
    Names,
    check_options,
    clock_of,
    length_of,
    number_of,
    numbers_of,
    on_sites,
)
from tvbandits.campaign.records import Readings, columns_of
from tvbandits.campaign.status import Outline, PointOut, Status, VerifiedCampaign, summary_of
from tvbandits.campaign.store.errors import (
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    StorageError,
    reading,
)
from tvbandits.campaign.store.store import Row, Store, check_name, opened
from tvbandits.core.arrays import Array, as_floats, as_time, flag, positive_number, whole_number
from tvbandits.core.candidates import candidates_of
from tvbandits.core.clock import Clock
from tvbandits.core.coercion import check_part, file_path, of_kind, several, shown
from tvbandits.core.context import Context, completed, measured, written
from tvbandits.core.counts import Counted, with_variance
from tvbandits.core.errors import PlayError, time_text
from tvbandits.core.files.journal import as_text, numbers, points
from tvbandits.core.limits import as_outcomes
from tvbandits.core.parameters import Named, has_names, rows_by_name, texts
from tvbandits.core.protocols import Domain, Expert, state_of

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import Info, State
    from tvbandits.campaign.replay import Replay, Unsaved, Writer

Place = str | os.PathLike[str]

# What else was read, by name.
Outcomes = Mapping[str, ArrayLike] | None

# What the caller sent becomes what the bandit is given: names become points, for instance.
Resolve = Callable[["Bandit"], dict[str, Any]]

# What a reading may say, by name.
READING = ("X", "y", "t", "variance", "outcomes", "context", "counts", "key", "who")

# Who is said to have dropped what nobody told in time.
EXPIRY = "expiry"


class Campaign:
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
        self._store, self._expert, self._trusted = store, expert, trusted
        self._who = who or _user()
        self._snapshot_every = snapshot_every
        with reading(f"{store.place}: row 0"):
            about = store.first.body
            self._about: dict[str, str] = {**about["about"]}
            self._asks = bool(about["asks"])
            self._clock = clock_of(*about["clock"]) if about["clock"] else None
            self._outline = Outline(store.first)
        # Who looks has a bandit of its own, and never waits for who writes.
        self._writing, self._looking = threading.RLock(), threading.RLock()
        self._writer: Replay | None = None
        self._reader: Replay | None = None
        self._latest: tuple[State, int, str] | None = None
        self._unsaved: Unsaved = {}
        self._named: tuple[int, Names] | None = None

    def __repr__(self) -> str:
        return f"<Campaign at {self._store.place}>"

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
            What to keep with it: `names` of the sites (a JSON list); a `title` and the `unit` of a
            reward, for people; `drop_after`, a number: the first `ask` that is so much later drops a
            pending point, and the journal records it.
        trusted, who, patience, snapshot_every
            As for `open`.

        Raises
        ------
        CampaignError
            If there is something at that place already, or it cannot be written.
        ValueError
            If a part of the bandit has no name by which it could be read back.
        """
        from tvbandits.bandit.bandit import Bandit
        from tvbandits.campaign.replay import JournaledExpert, snapshot_of

        of_kind("bandit", bandit, Bandit, "a Bandit, with which a campaign begins")
        if clock is not None:
            of_kind("clock", clock, Clock, "a Clock, or None")
        if about is not None:
            of_kind("about", about, Mapping, "a mapping of names to texts, or None")
        kept = {name: str(value) for name, value in (about or {}).items()}
        length_of(kept.get("drop_after", ""))
        Names(bandit.recipe.domain, kept, "about")
        check_options(trusted, who, patience, snapshot_every)
        recipe, state = bandit.recipe, bandit.state
        expert = None if recipe.asking is None else recipe.asking.expert
        knowledge = None if expert is None else state_of(JournaledExpert(expert))
        parts = None if clock is None else [clock.unit, clock.origin, clock.origin.tz]
        body = {
            "about": kept,
            "asks": expert is not None,
            "clock": None if parts is None else [*map(str, parts)],
            "status": summary_of(recipe, state),
            "pending": [*zip(state.pending.X.tolist(), state.pending.t.tolist(), strict=True)],
        }
        first = snapshot_of(recipe, replace(state, expert=knowledge))
        with opened(place, patience) as store:
            store.create(body, first, who or _user())
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
            The campaign's expert, if it has one. Whoever only looks needs none.
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
        check_options(trusted, who, patience, snapshot_every)
        if expert is not None:
            check_part("expert", expert, "an expert, or None", "query")
        with opened(place, patience) as store:
            store.open()
            campaign = cls(store, expert, trusted or {}, who, snapshot_every)
            campaign._check_rows()
            return campaign

    def _check_rows(self) -> None:
        """Raise an error unless rows are as they were written, and none is missing before a snapshot."""
        latest = self._store.snapshot()  # first: others may write rows and a snapshot meanwhile
        heads = [row.digest for row in self._store.rows(-1, "") if row.seq == latest.seq]
        if heads != [latest.head]:
            raise DamagedCampaignError(
                f"{self._store.place}: rows are missing: a snapshot was made after row {latest.seq}"
            )

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

    # --- what is looked at

    def predict(
        self,
        X: ArrayLike | Named,
        t: Any = None,
        outcome: str | None = None,
        context: Context = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Posterior mean and deviation, as `Bandit.predict`; waits for nobody."""
        with self._read() as replay:
            place, now = self.names.points(X), number_of(self.clock, t)
            return replay.bandit.predict(place, now, outcome, context, relative=relative)

    def recommend(self, t: Any = None, among: Among = None, context: Context = None) -> Array:
        """The point of the best posterior mean, as `Bandit.recommend`."""
        with self._read() as replay:
            now, rows = number_of(self.clock, t), self.names.rows(among)
            return replay.bandit.recommend(now, rows, context)

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        return self._followed().pending(self.domain.dimension)

    @property
    def outstanding(self) -> list[PointOut]:
        """The points of `pending`: place, the time `t` that each is for, and who asked when."""
        X, names = self.pending, self.names
        out = zip(X, self._outline.out, strict=True)
        return [PointOut(names.name(x), t, at, who) for x, (_, t, at, who) in out]

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
        with self._read() as replay:
            changes = self._rows_of("corrected", "retracted")
            columns = columns_of(replay.bandit.recipe, replay.bandit.state, changes)
        return self.names.history(columns, self.clock)

    @property
    def info(self) -> Info:
        """What happened last."""
        with self._read() as replay:
            return replay.bandit.info

    @property
    def state(self) -> State:
        """Everything that is known, as of a bandit with the same expert that nobody stopped."""
        with self._read() as replay:
            state = replay.bandit.state
        return replace(state, expert=None if state.expert is None else state.expert["inside"])

    @property
    def recipe(self) -> Recipe:
        """The parts of the policy; its expert is the one on record."""
        with self._read() as replay:
            return replay.bandit.recipe

    @property
    def names(self) -> Names:
        """What people call its points."""
        changes = self._followed().sites
        if self._named is None or self._named[0] != len(changes):
            domain = self._store.snapshot(0).saved(self._trusted).value("recipe", "domain")
            for change in changes:
                domain = on_sites(domain, change)
            place = str(self._store.place)
            self._named = len(changes), Names(domain, self._about, place, changes)
        return self._named[1]

    @property
    def domain(self) -> Domain:
        """Where it may play."""
        return self.names.domain

    @property
    def sites(self) -> list[str]:
        """The names of what may be played now; empty on a box or a space."""
        domain, names = candidates_of(self.domain), self.names
        if domain is None:
            return []
        rows = [row for row in range(len(domain)) if row not in domain.retired]
        return [names.name(domain.X[row]) for row in rows]

    @property
    def clock(self) -> Clock | None:
        """The clock by which times may be given as dates."""
        self._store.check_open()
        return self._clock

    @property
    def about(self) -> dict[str, str]:
        """What is kept with it."""
        self._store.check_open()
        return {**self._about}

    def when(self, t: float | None) -> str:
        """A time as people write it."""
        if t is None:
            return "no time yet"
        t = as_time(t)
        return time_text(t) if self.clock is None else self.clock.text(t)

    @property
    def drop_after(self) -> float | None:
        """In units of time: so long after its time a point is dropped that was asked and never told."""
        return length_of(self._about.get("drop_after", ""))

    @property
    def id(self) -> str:
        """What no other campaign is called; its copies are."""
        return str(self._store.first.body["id"])

    @property
    def budget(self) -> int | None:
        """Questions in all, as the configuration that is kept with it says."""
        with reading(f"{self._store.place}: the field 'config'"):
            config = tomllib.loads(self._about.get("config", ""))
            total = config.get("expert", {}).get("budget")
            return None if total is None else whole_number("budget", total, at_least=0)

    @property
    def status(self) -> Status:
        """At a glance."""
        return self._followed().status

    def journal(self, since: int = 0) -> list[Row]:
        """The rows after row `since`: what happened, who did it, and when."""
        return [*self._store.rows(whole_number("since", since, at_least=0))]

    def verify(self) -> VerifiedCampaign:
        """Play everything again from the beginning, and compare with what is on record."""
        from tvbandits.campaign.replay import verified

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

    # --- what changes something ------------------------------------------------------------------

    def ask(
        self,
        t: Any = None,
        n: int | None = None,
        among: Among = None,
        context: Context = None,
        near: float | None = None,
        *,
        without: Sequence[str | int] = (),
        key: str | None = None,
        who: str | None = None,
    ) -> Array:
        """Where to play at time `t`, as `Bandit.ask`; the same points again under the same `key`.

        Sites `without` which it is are not available, by name or row number.

        Raises
        ------
        ConflictError
            If something else was asked under the key.
        BusyError, StorageError
            If it cannot be written now; nothing has happened then, or it is found under the key.
        """
        out = [*several("without", without, "names of sites")]
        sent = {
            "t": number_of(self.clock, t),
            "n": None if n is None else whole_number("n", n),
            "near": None if near is None else positive_number("near", near),
            **_plain(among=_no_function(among), without=out or None, context=written(context)),
        }

        def resolve(bandit: Bandit) -> dict[str, Any]:
            chosen = bandit.state.decision_time if sent["t"] is None else sent["t"]
            rows = self.names.available(among, context, out)
            where = sent.get("context") if measured(bandit.recipe.domain) else None
            return {"t": chosen, "among": rows, "context": where}

        row, _ = self._do("asked", sent, resolve, key, who)
        return points(row.body["got"], self.domain.dimension)

    def tell(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted,
        t: Any = None,
        variance: ArrayLike | None = None,
        outcomes: Outcomes = None,
        context: Context = None,
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
        sent, resolve = self._reading(X, y, t, variance, outcomes, context)
        return self._do_for_info("told", sent, resolve, key, who)

    def record(
        self,
        readings: Iterable[Mapping[str, Any]],
        refused: list[tuple[int, ValueError]] | None = None,
    ) -> int:
        """Write rewards down as if `tell` told one after the other, all or none; how many are new.

        With a list as `refused`, readings that cannot be told are left out: their numbers, from 0, and
        what is wrong with each are put there, and the others are told.

        Each reading says by name what `tell` takes. It may also say `counts`: of what it was made, as
        [successes, trials] or [events, exposure]. By these it is known again, though its variance is
        another one once more is counted at its time. What is on record as it is given is passed over.

        All are one transaction, unless the campaign has an expert, which is asked reading by reading:
        what comes before a refused reading stays told then.
        """
        leaves_out = refused is not None
        wrong: list[tuple[int, ValueError]] = []
        requests = []
        for number, each in enumerate(readings):
            with _left_out(wrong, number, leaves_out):
                requests.append((number, *self._request(each)))
        new = 0
        with self._turn() as writer:
            writer.hold()
            rows = self._store.keyed([key for *_, key, _ in requests])
            on_record = self._on_record(writer)
            for number, sent, resolve, key, who in requests:
                with _left_out(wrong, number, leaves_out), self._in_words():
                    if key in rows:
                        _check_same(rows[key], "told", sent)
                        continue
                    try:
                        row = self._write(writer, "told", sent, resolve, key, who, on_record)
                    except ConflictError as error:
                        if not error.same:
                            raise
                        continue
                    new += 1
                    if key is not None:
                        rows[key] = row
            writer.flush()
            self._keep_snapshot(writer)
        if refused is not None:
            refused += sorted(wrong, key=lambda each: each[0])
        return new

    def _request(self, said: Any) -> tuple[dict[str, Any], Resolve, str | None, str]:
        """Return what a reading that `record` is given sends, and its key and who tells it."""
        of_kind("readings", said, Mapping, "mappings by the names of tell")
        if unknown := [*said.keys() - {*READING}]:
            there = ", ".join(READING)
            raise ValueError(f"unknown {shown(unknown[0])} in a reading; there are: {there}")
        if missing := [name for name in ("X", "y") if name not in said]:
            raise ValueError(f"a reading must say {missing[0]}, got {shown(dict(said))}")
        given = dict(said)
        key, who = given.pop("key", None), given.pop("who", None) or self._who
        _check_names(key, who)
        return *self._reading(**given), key, who

    def _reading(
        self,
        X: Any,
        y: Any,
        t: Any = None,
        variance: Any = None,
        outcomes: Outcomes = None,
        context: Context = None,
        counts: Any = None,
    ) -> tuple[dict[str, Any], Resolve]:
        """Return what tells rewards, as it is sent and how it is resolved."""
        times = numbers_of(self.clock, t)
        read = self._columns("y", y, variance, outcomes)
        sent, made = {"X": _places(X), "t": times, **_plain(context=written(context))}, {}
        if counts is None:
            sent |= read
        else:
            # By these it is known again: its variance is another one when more is counted at its time.
            pairs = as_floats(counts, "counts")
            if pairs.ndim != 2 or pairs.shape[1] != 2:
                raise ValueError(f"counts must be pairs, got {shown(counts)}")
            made = {name: read.pop(name) for name in ("y", "variance")}
            sent |= {"counts": pairs.tolist(), **read}

        def resolve(bandit: Bandit) -> dict[str, Any]:
            return {"X": self._points(bandit, X, context, times).tolist(), **made}

        return sent, resolve

    def correct(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted | None = None,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        to: Any = None,
        outcomes: Outcomes = None,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Put other rewards in the place of those that were told, as `Bandit.correct`.

        The journal keeps both; whoever opens the campaign next computes everything since the last
        snapshot again, and a snapshot is kept now.
        """
        t, to = numbers_of(self.clock, t), numbers_of(self.clock, to, "to")
        read = self._columns("y", [float("nan")] if y is None else y, variance, outcomes)
        if y is None:
            del read["y"]
        sent = {"X": _places(X), "t": t, "to": to, **read}

        def resolve(bandit: Bandit) -> dict[str, Any]:
            X_played = self._points(bandit, X, None, t, played=True)
            if all(each is None for each in (y, to, variance)) and not outcomes:
                raise ValueError("correct needs what is right: reward, time, variance or outcomes")
            return {"X": X_played.tolist()}

        return self._do_for_info("corrected", sent, resolve, key, who)

    def retract(
        self, X: ArrayLike | Named, t: Any = None, *, key: str | None = None, who: str | None = None
    ) -> Info:
        """Take back what was told, as `Bandit.retract`; the journal keeps both."""
        t = numbers_of(self.clock, t)

        def resolve(bandit: Bandit) -> dict[str, Any]:
            return {"X": self._points(bandit, X, None, t, played=True).tolist()}

        return self._do_for_info("retracted", {"X": _places(X), "t": t}, resolve, key, who)

    def drop(self, X: ArrayLike | Named, *, key: str | None = None, who: str | None = None) -> None:
        """Give up on points, as `Bandit.drop`."""

        def resolve(bandit: Bandit) -> dict[str, Any]:
            return {"X": self._points(bandit, X).tolist()}

        self._do("dropped", {"X": _places(X)}, resolve, key, who)

    def change_sites(
        self,
        add: Mapping[str, ArrayLike | None] | Sequence[str] = (),
        retire: Sequence[str | int] = (),
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> None:
        """Add sites or arms, and retire others, as `Bandit.with_candidates`; rows stay as they are.

        Parameters
        ----------
        add : mapping of names to coordinates, or names
            Coordinates as in the table of sites, degrees where there were such; arms have none, and
            neither have those that come back.
        retire : sequence of names or row numbers

        Raises
        ------
        ValueError
            If there is such a site already, none such to retire, or none would be left.
        """
        names = list(add) if isinstance(add, Mapping) else several("add", add, "names")
        for name in names:
            check_name("each of add", name)
        places = add if isinstance(add, Mapping) else dict.fromkeys(names)
        known = {k: x if x is None else as_floats(x, f"add: {k}") for k, x in places.items()}
        gone = list(several("retire", retire, "names of sites"))

        def resolve(bandit: Bandit) -> dict[str, Any]:  # noqa: ARG001 - by names alone
            return self.names.change(known, gone)

        self._do("sites", _plain(add=known, retire=gone), resolve, key, who)

    def questions(
        self, t: Any = None, among: Among = None, *, key: str | None = None, who: str | None = None
    ) -> Array:
        """What to ask somebody else now, as `Bandit.questions`."""
        sent = {"t": number_of(self.clock, t), **_plain(among=_no_function(among))}

        def resolve(bandit: Bandit) -> dict[str, Any]:  # noqa: ARG001 - by names alone
            return {"among": self.names.available(among, None, any_context=True)}

        row, _ = self._do("questions", sent, resolve, key, who)
        return points(row.body["got"], self.domain.dimension)

    def answer(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Take answers that somebody brought, as `Bandit.answer`; each `key` counts once."""
        read = self._columns("values", values, variance)
        sent = {"X": _places(X), "t": number_of(self.clock, t), **read}

        def resolve(bandit: Bandit) -> dict[str, Any]:
            # The points of an answer have the context of what is out, whatever its time.
            return {"X": self._points(bandit, X).tolist()}

        return self._do_for_info("answers", sent, resolve, key, who)

    def snapshot(self) -> None:
        """Keep a snapshot now, so that opening takes less time."""
        with self._turn() as writer:
            self._keep_snapshot(writer, due=True)

    def placed(
        self, X: ArrayLike | Named, context: Context = None, t: Any = None, *, played: bool = False
    ) -> Array:
        """Points of the domain (n, d), given as they are or by name, with their context at a time."""
        flag("played", played)
        times = numbers_of(self.clock, t)
        with self._read() as replay:
            return self._points(replay.bandit, X, context, times, played=played)

    # --- inside: one's turn to write ---------------------------------------------------------------

    def _do(
        self, kind: str, sent: Mapping[str, Any], resolve: Resolve, key: str | None, who: str | None
    ) -> tuple[Row, Info | None]:
        """Do something once and write it down; its row, and what is known now if it was not there."""
        who = self._who if who is None else who
        _check_names(key, who)
        with self._in_words():
            if (row := self._repeated(kind, sent, key)) is not None:
                return row, None
            with self._turn() as writer:
                # Somebody else may have done it meanwhile.
                if (row := self._repeated(kind, sent, key)) is not None:
                    return row, None
                on_record = self._on_record(writer)
                row = self._write(writer, kind, sent, resolve, key, who, on_record)
                # To play a correction again takes long.
                self._keep_snapshot(writer, due=kind in ("corrected", "retracted"))
                return row, writer.replay.bandit.info

    def _do_for_info(self, kind: str, *given: Any) -> Info:
        """Do something once, and return what was known after it, also when it is repeated."""
        from tvbandits.campaign.replay import Replay

        row, info = self._do(kind, *given)
        if info is not None:
            return info
        with self._read() as replay:
            if replay.seq == row.seq:
                return replay.bandit.info
        before = next(each for each in self._store.snapshots() if each.seq <= row.seq)
        past = Replay(before, self._asks, None, self._trusted)
        for each in self._store.rows(before.seq, before.head):
            if each.seq <= row.seq:
                past.follow(each)
        return past.bandit.info

    def _repeated(self, kind: str, sent: Mapping[str, Any], key: str | None) -> Row | None:
        """Return the row under the key; a `ConflictError` if something else is on record there."""
        row = None if key is None else self._store.keyed([key]).get(key)
        if row is not None:
            _check_same(row, kind, sent)
        return row

    def _write(
        self,
        writer: Writer,
        kind: str,
        sent: Mapping[str, Any],
        resolve: Resolve,
        key: str | None,
        who: str,
        on_record: Readings,
    ) -> Row:
        """Check what is asked of the bandit, let it be done, and write it down."""
        bandit = writer.replay.bandit
        sent = {name: value for name, value in sent.items() if value is not None}
        made = {k: each for k, each in resolve(bandit).items() if each != sent.get(k)}
        if kind == "told" and key is None:
            given = {**sent, **made}
            variance, t = given.get("variance"), given.get("t")
            columns = numbers(given["y"]), t, None if variance is None else numbers(variance)
            X = points(given["X"], bandit.recipe.domain.dimension)
            told = told_next(bandit.recipe, bandit.state, X, *columns)
            on_record.check(bandit.state, told, given, self.names.name, self.when)
        if kind == "asked" and self.drop_after is not None:
            out, now = bandit.state.pending, {**sent, **made}["t"]
            if late := out.X[now - out.t >= self.drop_after].tolist():
                writer.operate("dropped", {"X": late}, {}, None, EXPIRY)
        return writer.operate(kind, sent, made, key, who)

    @contextmanager
    def _turn(self) -> Iterator[Writer]:
        """Take one's turn to write, with a bandit that is where the journal is."""
        from tvbandits.campaign.replay import Writer

        with self._writing, self._store.turn() as turn:
            replay, self._writer = self._writer, None
            writer = Writer(turn, self._at_the_end(replay, self._expert))
            writer.recover()
            try:
                yield writer
            finally:
                if not writer.uncertain:  # else what is in memory may be ahead of the disk
                    self._writer = replay = writer.replay
                    # Let those who look see it without computing it again.
                    self._latest = replay.bandit.state, replay.seq, replay.head

    def _keep_snapshot(self, writer: Writer, *, due: bool = False) -> None:
        """Keep a snapshot where it is due, and what the expert knows is known."""
        from tvbandits.campaign.replay import snapshot_of

        replay = writer.replay
        due = due or replay.seq - replay.snapshot >= self._snapshot_every
        if not due or (replay.expert is not None and not replay.expert.present):
            return
        data = snapshot_of(replay.bandit.recipe, replay.bandit.state)
        try:
            writer.turn.snapshot(replay.seq, replay.head, data)
        except StorageError as error:  # what was done is on the disk, and stays done
            warnings.warn(f"no snapshot: {error}", RuntimeWarning, stacklevel=4)
        else:
            replay.snapshot = replay.seq

    # --- inside: who looks --------------------------------------------------------------------------

    @contextmanager
    def _read(self) -> Iterator[Replay]:
        """Lend a bandit that is where the journal is, apart from the one that writes."""
        with self._looking:
            replay, self._reader = self._reader, None
            self._reader = self._at_the_end(replay, None)
            with self._in_words():
                yield self._reader

    def _at_the_end(self, replay: Replay | None, expert: Expert | None) -> Replay:
        """Return a bandit that is where the journal is, from where another one has come to."""
        from tvbandits.campaign.replay import Replay

        self._store.check_open()
        if replay is None:
            unsaved = None if expert is None else self._unsaved
            replay = Replay(self._store.snapshot(), self._asks, expert, self._trusted, unsaved)
        # What an expert learns from rewards is known to who shows them to it, row by row.
        if self._latest is not None and expert is None:
            replay.go_to(*self._latest)
        for row in self._store.rows(replay.seq, replay.head):
            replay.follow(row)
        if not replay.open:
            self._latest = replay.bandit.state, replay.seq, replay.head
        return replay

    def _followed(self) -> Outline:
        """Return what the journal says up to its end, for which no bandit is needed."""
        with self._looking:
            last = self._outline.last
            for row in self._store.rows(last.seq, last.digest):
                with reading(f"{self._store.place}: row {row.seq} ({row.kind})"):
                    self._outline.follow(row)
            return self._outline

    def _rows_of(self, *kinds: str) -> list[Row]:
        return [row for row in self._store.rows(0) if row.kind in kinds]

    def _on_record(self, writer: Writer) -> Readings:
        return Readings(writer.replay.bandit.recipe, partial(self._rows_of, "told"))

    # --- inside: what is sent -----------------------------------------------------------------------

    def _columns(
        self, name: str, values: Any, variance: Any, outcomes: Outcomes = None
    ) -> dict[str, Any]:
        """Return what was read, as it is written down."""
        values, variance = with_variance(values, variance)
        read = as_outcomes(outcomes).items()
        columns = {each: as_floats(zero_or_one(y), each).tolist() for each, y in read}
        return {
            name: as_floats(zero_or_one(values), name).tolist(),
            "variance": None if variance is None else as_floats(variance, "variance").tolist(),
            **({"outcomes": columns} if columns else {}),
        }

    def _points(
        self,
        bandit: Bandit,
        X: Any,
        context: Context = None,
        t: Any = None,
        *,
        played: bool = False,
    ) -> Array:
        """Return points of the domain; without a context they have that of what is out or was played."""
        domain, state = bandit.recipe.domain, bandit.state
        X = self.names.points(X)
        if measured(domain) or context is not None:
            X = completed(domain, X, context, state.played if played else state.pending, t)
        return domain.check(X)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Let errors of the bandit speak of sites by name and, where there is a clock, of dates."""
        try:
            yield
        except PlayError as error:
            error.sentence, error.values = error.worded(self._name_or_numbers, self.when), {}
            raise

    def _name_or_numbers(self, x: Array) -> str:
        with suppress(ValueError):  # no site is there
            return self.names.name(x)
        return str(x.tolist())


def _user() -> str:
    return f"{getpass.getuser()}@{platform.node()}"


def _check_names(key: object, who: object) -> None:
    if key is not None:
        check_name("key", key)
    check_name("who", who)


def _check_same(row: Row, kind: str, sent: Mapping[str, Any]) -> None:
    """Raise a `ConflictError` unless what is on record under a key is what is sent under it again."""
    sent = _on_disk({name: value for name, value in sent.items() if value is not None})
    if row.kind != kind or row.body["sent"] != sent:
        raise ConflictError(
            f"the key {row.key!r} is taken: on record is {row.kind} {as_text(row.body['sent'])} "
            f"(row {row.seq}, by {row.who} at {row.at}), and given is {kind} {as_text(sent)}",
            key=row.key,
        )


def _on_disk(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as they come back from the disk."""
    found: dict[str, Any] = json.loads(as_text(values))
    return found


def _plain(**values: Any) -> dict[str, Any]:
    """Return values as they come back from the disk."""
    try:
        return _on_disk(values)
    except TypeError as error:
        raise ValueError(
            f"{', '.join(values)} cannot be written down in a campaign: {error}"
        ) from error


def _no_function(among: Among) -> Among:
    if callable(among):
        raise ValueError(
            "among: a function of points cannot be written down in a campaign: give ranges by name, "
            'such as {"x0": (0, 5)}'
        )
    return among


def _places(X: Any) -> Any:
    """Return points as they are written down, by name where they are given so."""
    if texts(X) is not None:
        X = texts(X)
    elif has_names(X):
        X = rows_by_name(X)
    return _plain(X=X)["X"]


@contextmanager
def _left_out(
    refused: list[tuple[int, ValueError]], number: int, leaves_out: bool
) -> Iterator[None]:
    """Put down what is wrong with a reading; what is wrong with the campaign is raised in any case."""
    try:
        yield
    except ValueError as error:
        own = not isinstance(error, CampaignError) or isinstance(error, ConflictError)
        if not (leaves_out and own):
            raise
        refused.append((number, error))
