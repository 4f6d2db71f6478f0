"""`Campaign`: a bandit in a database, which several processes share and none of them can lose.

Every call that changes something is a row of the journal, on the disk before the call returns. A process
that opens the campaign takes the latest snapshot, plays the rows after it again, and is where the others
are, to the last bit. What may ask the expert is written down before it begins, and every answer before
it is used: if the process dies in between, the next one ends what was begun, and pays for no answer that
is on record.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Among
from tvbandits.bandit.told import zero_or_one
from tvbandits.campaign.ledger import Ledger, NotFollowedError, OnRecord, columns_of
from tvbandits.campaign.naming import (
    Names,
    check_options,
    clock_of,
    length_of,
    number_of,
    numbers_of,
)
from tvbandits.campaign.status import PointOut, Status, VerifiedCampaign, points_out, status_of
from tvbandits.campaign.store.errors import CampaignError, ConflictError, StorageError, reading
from tvbandits.campaign.store.store import (
    Operation,
    Row,
    Store,
    Turn,
    as_given,
    as_name,
    is_same,
    now,
    opened,
    points,
    same_operation,
)
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import candidates_of
from tvbandits.core.clock import Clock
from tvbandits.core.context import Context, measured, written
from tvbandits.core.counts import Counted, with_variance
from tvbandits.core.files.journal import as_text
from tvbandits.core.limits import as_outcomes
from tvbandits.core.parameters import Named
from tvbandits.core.protocols import Domain, Expert, state_of
from tvbandits.validation import (
    as_floats,
    as_time,
    check_part,
    file_path,
    flag,
    of_kind,
    positive_number,
    several,
    shown,
    whole_number,
)

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import Info, State
    from tvbandits.campaign.following import Replayer, Unsaved

Place = str | os.PathLike[str]

# What else was read, by name.
Outcomes = Mapping[str, ArrayLike] | None

# A reading without its place, its place and context, its key, and who tells it.
Reading = tuple[dict[str, Any], Any, Any, str | None, str]

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
        self._who = who or f"{getpass.getuser()}@{platform.node()}"
        self._snapshot_every = snapshot_every
        with self._field("asks") as said:
            self._asks = {"true": True, "false": False}[said]
        with self._field("clock") as said:
            self._clock = clock_of(*json.loads(said)) if said else None
        # Who looks has a bandit of its own, and never waits for who writes.
        self._writing, self._looking = threading.RLock(), threading.RLock()
        self._writer: Replayer | None = None
        self._reader: Replayer | None = None
        self._ledger: Ledger | None = None
        self._latest: tuple[State, int, str] | None = None
        self._unsaved: Unsaved = {}
        self._named: tuple[Domain, Names] | None = None

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
        from tvbandits.campaign.following import JournaledExpert, snapshot_of

        of_kind("bandit", bandit, Bandit, "a Bandit, with which a campaign begins")
        if clock is not None:
            of_kind("clock", clock, Clock, "a Clock, or None")
        if about is not None:
            of_kind("about", about, Mapping, "a mapping of names to texts, or None")
            length_of(about.get("drop_after", ""))
            Names(bandit.recipe.domain, {key: str(value) for key, value in about.items()}, "about")
        check_options(trusted, who, patience, snapshot_every)
        asking = bandit.recipe.asking
        expert = None if asking is None else asking.expert
        known = None if expert is None else state_of(JournaledExpert(expert))
        first = snapshot_of(bandit.recipe, replace(bandit.state, expert=known))
        with opened(place, patience) as store:
            parts = [] if clock is None else [clock.unit, clock.origin, clock.origin.tz]
            said = json.dumps([*map(str, parts)]) if parts else ""
            kept = {f"user:{key}": str(value) for key, value in (about or {}).items()}
            kept |= {"asks": json.dumps(expert is not None), "clock": said}
            store.create(kept, first)
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
            store.check_chain()
            return cls(store, expert, trusted or {}, who, snapshot_every)

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
        with self._read() as follower:
            place, now = self.names.points(X), number_of(self.clock, t)
            return follower.bandit.predict(place, now, outcome, context, relative=relative)

    def recommend(self, t: Any = None, among: Among = None, context: Context = None) -> Array:
        """The point of the best posterior mean, as `Bandit.recommend`."""
        with self._read() as follower:
            return follower.bandit.recommend(
                number_of(self.clock, t), self.names.rows(among), context
            )

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        return self.ledger.pending.X.copy()

    @property
    def outstanding(self) -> list[PointOut]:
        """The points of `pending`: place, the time `t` that each is for, and who asked when."""
        pending = self.ledger.pending
        return points_out(pending, self._rows_of("asked") if len(pending) else [], self.names)

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
        columns = columns_of(self.ledger, self._rows_of("corrected", "retracted"))
        return self.names.history(columns, self.clock)

    @property
    def info(self) -> Info:
        """What happened last."""
        return self._known[1].info

    @property
    def state(self) -> State:
        """Everything that is known, as of a bandit with the same expert that nobody stopped."""
        _, state = self._known
        return replace(state, expert=None if state.expert is None else state.expert["inside"])

    @property
    def domain(self) -> Domain:
        """Where it may play."""
        return self.ledger.domain

    @property
    def ledger(self) -> Ledger:
        """What is on record; no bandit is made for it, unless only a bandit can follow."""
        self._store.check_open()
        with self._looking:
            known = self._ledger
            if known is None:
                known = Ledger.of_snapshot(self._store.snapshot(), self._asks, self._trusted)
            if self._reader is None:
                with suppress(NotFollowedError):
                    self._ledger = known.caught_up(self._store)
                    return self._ledger
            with self._read() as reader:
                self._ledger = known.at(reader.bandit, reader.seq, reader.head, reader.open)
                return self._ledger

    @property
    def sites(self) -> list[str]:
        """The names of what may be played now; empty on a box or a space."""
        domain, names = candidates_of(self.domain), self.names
        if domain is None:
            return []
        rows = [row for row in range(len(domain)) if row not in domain.retired]
        return [names.name(domain.X[row]) for row in rows]

    @property
    def recipe(self) -> Recipe:
        """The parts of the policy; its expert is the one on record."""
        return self._known[0]

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
            place = str(self._store.place)
            self._named = domain, Names(domain, self.about, place, self._rows_of)
        return self._named[1]

    def when(self, t: float | None) -> str:
        """A time as people write it."""
        if t is None:
            return "no time yet"
        t = as_time(t)
        return f"t = {t:.15g}" if self.clock is None else self.clock.text(t)

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
        known = self.ledger
        return status_of(known, self._store.in_doubt(known.seq))

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
        if n is not None:
            n = whole_number("n", n)
        given: dict[str, Any] = {"t": number_of(self.clock, t), "n": n}
        if measured(self.domain):
            given["context"] = written(context)
        if near is not None:
            given["near"] = positive_number("near", near)
        out = [*several("without", without, "names of sites")]
        given |= _as_sent(among=among, **({"without": out} if out else {}))
        row = self._repeated("asked", given, key)
        if row is None:
            given["among"] = self.names.free(among, context, out)
            row, _ = self._done("asked", given, key, who)
        return self._points(row.body)

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
        given = self._told(y, t, variance, outcomes)
        return self._done_at(X, "told", given, key, who, context)

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

        No bandit is made where it would do no more than take note: it asks no expert, and fits no number
        in between. Others are told one by one, and what comes before a refused reading stays told.
        """
        leave_out, said = refused is not None, list[tuple[int, Reading]]()
        wrong: list[tuple[int, ValueError]] = []
        for number, each in enumerate(readings):
            with _left_out(wrong, number, leave_out):
                said.append((number, self._reading(each)))
        keyed = self._store.keyed(*(key for _, (_, _, _, key, _) in said))
        operations = []
        for number, (given, X, context, key, who) in said:
            with _left_out(wrong, number, leave_out):
                sent = {**given, **_as_sent_places(X, context)}
                if key not in keyed or not is_same(keyed[key], "told", _plain(sent)):
                    given |= self._places(X, context, given["t"])
                    operations.append((number, *as_given("told", given, key, who)))
        found: list[tuple[int, ValueError]] = []
        try:
            new = self._recorded(operations, found, leave_out)
        except NotFollowedError:
            found.clear()
            new = 0
            for number, given, key, who in operations:
                with _left_out(found, number, leave_out):
                    try:
                        if self._on_record("told", given, key) is None:
                            self._done("told", given, key, who)
                            new += 1
                    except ConflictError as error:
                        if not error.same:
                            raise
        if refused is not None:
            refused += sorted([*wrong, *found], key=lambda each: each[0])
        return new

    def _recorded(
        self,
        operations: Sequence[tuple[int, dict[str, Any], str | None, str]],
        refused: list[tuple[int, ValueError]],
        leave_out: bool,
    ) -> int:
        """Write down what can be told without a bandit, in one transaction; how many are new.

        Raises
        ------
        NotFollowedError
            If only a bandit can follow; nothing is written then.
        """
        names, rows = self.names, list[Operation]()
        with self._writing, self._store.turn() as turn:
            known = self.ledger
            if known.open or not known.tells_only:
                raise NotFollowedError("told")
            keyed = self._store.keyed(*(key for _, _, key, _ in operations))
            seen = OnRecord(known, self._rows_of)
            for number, given, key, who in operations:
                with _left_out(refused, number, leave_out), self._in_words():
                    told = known.told_next(given)
                    conflict = None if key else seen.conflict(told, given, names, self.when)
                    if key in keyed:
                        same_operation(keyed[key], "told", given)
                    elif conflict is None:
                        _, known = known.told(given)  # what is refused here would be by a bandit
                        rows.append(({**given, "got": told.t.tolist()}, key, who))
                        seen.add(told)
                        row = Row(known.seq + len(rows), "told", key, who, now(), given)
                        keyed |= {} if key is None else {key: row}
                    elif not conflict.same:
                        raise conflict
            if rows:
                last = turn.append(known.seq, known.head, "told", *rows)
                with self._looking:
                    self._ledger = replace(known, seq=last.seq, head=last.digest)
            return len(rows)

    def _reading(self, said: Any) -> Reading:
        """A reading that `record` is given, in its parts."""
        of_kind("readings", said, Mapping, "mappings by the names of tell")
        if unknown := [*said.keys() - READING]:
            there = ", ".join(READING)
            raise ValueError(f"unknown {shown(unknown[0])} in a reading; there are: {there}")
        if missing := [name for name in ("X", "y") if name not in said]:
            raise ValueError(f"a reading must say {missing[0]}, got {shown(dict(said))}")
        given = dict(said)
        key, who = given.pop("key", None), given.pop("who", None) or self._who
        X, context = given.pop("X"), given.pop("context", None)
        return self._told(**given), X, context, key, who

    def _told(
        self,
        y: Any,
        t: Any = None,
        variance: Any = None,
        outcomes: Outcomes = None,
        counts: Any = None,
    ) -> dict[str, Any]:
        given = self._readings("y", y, variance, outcomes)
        if counts is not None:
            pairs = as_floats(counts, "counts")
            if pairs.ndim != 2 or pairs.shape[1] != 2:
                raise ValueError(f"counts must be pairs, got {shown(counts)}")
            given["counts"] = pairs.tolist()
        return {**given, "t": numbers_of(self.clock, t)}

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
        if all(each is None for each in (y, to, variance)) and not outcomes:
            # What is wrong with what was sent is said first.
            self._places(X, None, numbers_of(self.clock, t), played=True)
            for name, given_name in (("key", key), ("who", who)):
                if given_name is not None:
                    as_name(name, given_name)
            raise ValueError("correct needs what is right: reward, time, variance or outcomes")
        values = [float("nan")] if y is None else y
        given = self._readings("y", values, variance, outcomes)
        given |= {"t": numbers_of(self.clock, t), "to": numbers_of(self.clock, to, "to")}
        given |= {"y": None} if y is None else {}
        return self._done_at(X, "corrected", given, key, who, played=True)

    def retract(
        self, X: ArrayLike | Named, t: Any = None, *, key: str | None = None, who: str | None = None
    ) -> Info:
        """Take back what was told, as `Bandit.retract`; the journal keeps both."""
        given = {"t": numbers_of(self.clock, t)}
        return self._done_at(X, "retracted", given, key, who, played=True)

    def drop(self, X: ArrayLike | Named, *, key: str | None = None, who: str | None = None) -> None:
        """Give up on points, as `Bandit.drop`."""
        self._done_at(X, "dropped", {}, key, who)

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
            as_name("each of add", name)
        places = add if isinstance(add, Mapping) else dict.fromkeys(names)
        known = {k: x if x is None else as_floats(x, f"add: {k}") for k, x in places.items()}
        gone = list(several("retire", retire, "names of sites"))
        plain = {name: None if x is None else x.tolist() for name, x in known.items()}
        given: dict[str, Any] = {"said": {"add": plain, "retire": gone}}
        if self._repeated("sites", given, key) is None:
            self._done("sites", {**given, **self.names.change(known, gone)}, key, who)

    def questions(
        self, t: Any = None, among: Among = None, *, key: str | None = None, who: str | None = None
    ) -> Array:
        """What to ask somebody else now, as `Bandit.questions`."""
        given = {"t": number_of(self.clock, t), **_as_sent(among=among)}
        row = self._repeated("questions", given, key)
        if row is None:
            given["among"] = self.names.free(among, None, any_context=True)
            row, _ = self._done("questions", given, key, who)
        return self._points(row.body)

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
        given = {**self._readings("values", values, variance), "t": number_of(self.clock, t)}
        return self._done_at(X, "answers", given, key, who)

    def snapshot(self) -> None:
        """Keep a snapshot now, so that opening takes less time."""
        with self._turn() as (turn, follower):
            self._keep(turn, follower)

    # --- inside ----------------------------------------------------------------------------------

    def _repeated(self, kind: str, given: Mapping[str, Any], key: str | None) -> Row | None:
        """The row under the key, if the same was sent; whatever would be made of that by now."""
        if key is None:
            return None
        as_name("key", key)
        there = self._store.keyed(key).get(key)
        return there if there is not None and is_same(there, kind, _plain(given)) else None

    def _places(self, X: Any, context: Context, t: Any, *, played: bool = False) -> dict[str, Any]:
        """Points of the domain as they are written down, and what was sent if that is something else."""
        places = self.placed(X, context, t, played=played).tolist()
        sent = _as_sent_places(X, context)
        return {"X": places, **({} if sent.get("said") == {"X": places} else sent)}

    def _done_at(
        self,
        X: Any,
        kind: str,
        given: dict[str, Any],
        key: str | None,
        who: str | None,
        context: Context = None,
        *,
        played: bool = False,
    ) -> Info:
        """Do something at points once; what was known then."""
        row = self._repeated(kind, {**given, **_as_sent_places(X, context)}, key)
        if row is not None:
            return self._info_after(row)
        # The points of an answer have the context of what is out, whatever its time.
        made = self._places(
            X, context, None if kind == "answers" else given.get("t"), played=played
        )
        row, info = self._done(kind, {**given, **made}, key, who)
        return self._info_after(row) if info is None else info

    def _info_after(self, row: Row) -> Info:
        """What was known after a row, as whoever wrote it was told."""
        from tvbandits.campaign.following import Replayer

        with self._read() as follower:
            if follower.seq == row.seq:
                return follower.bandit.info
        before = next(each for each in self._store.snapshots() if each.seq <= row.seq)
        past = Replayer(before, self._asks, None, self._trusted)
        for each in self._store.rows(before.seq, before.head, row.seq - before.seq):
            past.follow(each)
        return past.bandit.info

    def _on_record(self, kind: str, given: Mapping[str, Any], key: str | None) -> Row | None:
        """The row under the key, if there is one.

        Raises
        ------
        ConflictError
            If something else is on record under the key; if no key is given, and a reading of the same
            place and time is on record.
        """
        if key is not None:
            there = self._store.keyed(key).get(key)
            if there is not None:
                same_operation(there, kind, given)
            return there
        if kind == "told":
            known = self.ledger
            told = known.told_next(given)
            seen = OnRecord(known, self._rows_of, told.t)
            if conflict := seen.conflict(told, given, self.names, self.when):
                raise conflict
        return None

    def _done(
        self, kind: str, given: dict[str, Any], key: str | None, who: str | None
    ) -> tuple[Row, Info | None]:
        """Do something once, and write it down; its row, and what is known now if it was not there."""
        from tvbandits.campaign.following import Writer

        given, key, who = as_given(kind, given, key, self._who if who is None else who)
        with self._turn() as (turn, follower), self._in_words():
            there = self._on_record(kind, given, key)
            if there is not None:
                return there, None
            writer = Writer(turn, follower, who)
            late = self._overdue(follower.bandit.state, given) if kind == "asked" else []
            try:
                if late:
                    Writer(turn, follower, EXPIRY).operate("dropped", {"X": late}, None)
                row = writer.operate(kind, given, key)
            except BaseException:
                if writer.uncertain:
                    self._writer = None  # what is in memory may be ahead of the disk
                raise
            # Let those who look see it without computing it again.
            self._latest = follower.bandit.state, follower.seq, follower.head
            due = kind in ("corrected", "retracted")  # to do it again takes long
            if due or follower.seq - follower.snapshot >= self._snapshot_every:
                try:
                    self._keep(turn, follower)
                except StorageError as error:  # what was done is on the disk, and stays done
                    warnings.warn(f"no snapshot: {error}", RuntimeWarning, stacklevel=4)
            return row, follower.bandit.info

    def _overdue(self, state: State, given: Mapping[str, Any]) -> list[list[float]]:
        """Points that are out for longer than `drop_after` when something is asked for."""
        if self.drop_after is None:
            return []
        out, t = state.pending, state.decision_time if given["t"] is None else given["t"]
        found: list[list[float]] = out.X[t - out.t >= self.drop_after].tolist()
        return found

    def _keep(self, turn: Turn, follower: Replayer) -> None:
        """Keep a snapshot, where what the expert knows is known."""
        from tvbandits.campaign.following import snapshot_of

        if follower.expert is None or follower.expert.present:
            data = snapshot_of(follower.bandit.recipe, follower.bandit.state)
            turn.snapshot(follower.seq, follower.head, data)
            follower.snapshot = follower.seq

    @contextmanager
    def _turn(self) -> Iterator[tuple[Turn, Replayer]]:
        """One's turn to write, with a bandit that is where the journal is."""
        from tvbandits.campaign.following import Writer

        with self._writing, self._store.turn() as turn:
            known, self._writer = self._writer, None
            follower = self._at_the_end(known, self._expert)
            if follower.open:
                Writer(turn, follower, self._who).recover()
            self._writer = follower
            yield turn, follower

    def _readings(
        self, name: str, values: Any, variance: Any, outcomes: Outcomes = None
    ) -> dict[str, Any]:
        """What was read, as it is written down."""
        values, variance = with_variance(values, variance)
        said = as_outcomes(outcomes).items()
        read = {each: as_floats(zero_or_one(y), each).tolist() for each, y in said}
        return {
            name: as_floats(zero_or_one(values), name).tolist(),
            "variance": None if variance is None else as_floats(variance, "variance").tolist(),
            **({"outcomes": read} if read else {}),
        }

    def _points(self, body: Mapping[str, Any]) -> Array:
        return points(body["got"], self.domain.dimension)

    @contextmanager
    def _field(self, name: str) -> Iterator[str]:
        """What is kept under a name; `DamagedCampaignError` where that cannot be used."""
        with reading(f"{self._store.place}: the field {name!r}"):
            yield self._store.about.get(name, "")

    def _rows_of(self, *kinds: str) -> list[Row]:
        """The rows of some kinds."""
        return [row for row in self._store.each(*self._store.mark(0)) if row.kind in kinds]

    @property
    def _known(self) -> tuple[Recipe, State]:
        """The parts of the policy, and what it knows now."""
        with self._read() as follower:
            return follower.bandit.recipe, follower.bandit.state

    @contextmanager
    def _read(self) -> Iterator[Replayer]:
        """A bandit that is where the journal is, apart from the one that writes."""
        with self._looking:
            known, self._reader = self._reader, None
            reader = self._reader = self._at_the_end(known, None)
            with self._in_words():
                yield reader

    def _at_the_end(self, follower: Replayer | None, expert: Expert | None) -> Replayer:
        """A bandit that is where the journal is; it goes on from where the other one has come to."""
        from tvbandits.campaign.following import Replayer

        if follower is None:
            unsaved = None if expert is None else self._unsaved
            follower = Replayer(self._store.snapshot(), self._asks, expert, self._trusted, unsaved)
        # What an expert learns from rewards is known to who shows them to it, row by row.
        if self._latest is not None and expert is None:
            follower.go_to(*self._latest)
        follower.catch_up(self._store)
        if not follower.open:
            self._latest = follower.bandit.state, follower.seq, follower.head
        return follower

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Errors of the bandit speak of sites by name and, where there is a clock, of dates."""
        try:
            yield
        except ValueError as error:
            if len(error.args) == 1 and not isinstance(error, CampaignError):
                error.args = (self.names.in_words(str(error), self.clock),)
            raise

    def placed(
        self, X: ArrayLike | Named, context: Context = None, t: Any = None, *, played: bool = False
    ) -> Array:
        """Points of the domain (n, d), given as they are or by name, with their context at a time."""
        flag("played", played)
        X, t = self.names.points(X), numbers_of(self.clock, t)
        return self.ledger.placed(X, context, t, played=played)


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, as it comes back from the disk."""
    found: dict[str, Any] = json.loads(as_text(given))
    return found


def _as_sent(**sent: Any) -> dict[str, Any]:
    """What a caller sent, as it is written down; nothing where that is no plain value."""
    with suppress(TypeError, ValueError):
        return {"said": _plain(sent)}
    return {}


def _as_sent_places(X: Any, context: Context) -> dict[str, Any]:
    return _as_sent(X=X, **({} if context is None else {"context": context}))


@contextmanager
def _left_out(
    refused: list[tuple[int, ValueError]], number: int, leave_out: bool
) -> Iterator[None]:
    """Put down what is wrong with a reading; what is wrong with the campaign is raised in any case."""
    try:
        yield
    except ValueError as error:
        own = not isinstance(error, CampaignError) or isinstance(error, ConflictError)
        if not (leave_out and own):
            raise
        refused.append((number, error))
