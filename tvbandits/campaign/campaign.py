"""`Campaign`: a bandit in a database, which several processes share and none of them can lose.

Every call that changes something is a row of the journal, on the disk before the call returns. A process
that opens the campaign takes the latest snapshot, plays the rows after it again, and is where the others
are, to the last bit. What may ask the expert is written down before it begins, and every answer before
it is used: if the process dies in between, the next one ends what was begun, and pays for no answer that
is on record.
"""

from __future__ import annotations

import base64
import getpass
import json
import platform
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Among, at_hand, available
from tvbandits.bandit.told import decision_time, told_again
from tvbandits.campaign.ledger import Ledger
from tvbandits.campaign.naming import texts
from tvbandits.campaign.store.errors import (
    CampaignError,
    ConflictError,
    ExpertNeededError,
    StorageError,
    reading,
)
from tvbandits.campaign.store.places import place_of
from tvbandits.campaign.store.store import DONE, Row, Store, Turn, points
from tvbandits.campaign.watching import Place, Watching, length_of
from tvbandits.core.arrays import Array, as_floats, not_negative, positive_number, whole_number
from tvbandits.core.clock import Clock
from tvbandits.core.coercion import check_part, of_kind, several, shown
from tvbandits.core.context import Context, measured, written
from tvbandits.core.counts import Counted, with_variance
from tvbandits.core.files.journal import as_text, numbers
from tvbandits.core.files.saving import from_bytes, to_bytes
from tvbandits.core.files.values import Encoder, name_of
from tvbandits.core.limits import as_outcomes
from tvbandits.core.protocols import Expert, state_of

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.state import Info, State
    from tvbandits.campaign.following import Replayer

# --- operations: done in one's turn, written down, ended by others if need be ---------------------


# Characters of a key, or of a name of who does something.
LONGEST = 500


def as_name(name: str, text: object) -> None:
    """Raise a `ValueError` unless this is a text that can be printed, and not too long."""
    if not (isinstance(text, str) and 0 < len(text) <= LONGEST and text.isprintable()):
        raise ValueError(
            f"{name} must be a text of 1 to {LONGEST} characters that can be printed, "
            f"got {shown(text)}"
        )


def as_given(
    given: Mapping[str, Any], key: str | None, who: str
) -> tuple[dict[str, Any], str | None, str]:
    """What an operation is given, as it comes back from the disk; its key and who does it, checked."""
    for name, text in (("key", key), ("who", who)):
        if text is not None:
            as_name(name, text)
    return json.loads(as_text(given)), key, who


def same_operation(there: Row, kind: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body of what is on record under a key, if it is what is to be done.

    Raises
    ------
    ConflictError
        If it is something else.
    """
    known = {name: value for name, value in there.body.items() if name != "got"}
    if there.kind != kind or _for_each_point(known) != _for_each_point(given):
        raise ConflictError(
            f"the key {there.key!r} is taken: on record is {there.kind} {as_text(known)} "
            f"(row {there.seq}, by {there.who} at {there.at}), and given is {kind} {as_text(given)}"
        )
    return there.body


def _for_each_point(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, with a value for each point where one stands for all of them."""
    repeated = ("t", "y", "values", "variance") if "X" in given else ()
    return {
        name: [value] * len(given["X"])
        if name in repeated and not isinstance(value, list | None)
        else value
        for name, value in given.items()
    }


def expert_on_record(expert: Expert | None) -> dict[str, str]:
    """What is kept of the expert itself: whether there is one, its name, and its parts if it can be."""
    if expert is None:
        return {"asks": "false", "expert": "", "expert_saved": ""}
    saved = ""
    try:
        encoder = Encoder()
        encoder.ref(expert)
        if not encoder.own:
            saved = base64.b64encode(to_bytes(expert)).decode()
    except ValueError:
        pass  # then it is handed over whenever it is needed
    return {"asks": "true", "expert": name_of(expert), "expert_saved": saved}


class Writer:
    """Does operations in one's turn, and writes them down."""

    def __init__(self, turn: Turn, follower: Replayer, who: str) -> None:
        self._turn, self._follower, self._by = turn, follower, who
        self.uncertain = False

    def operate(self, kind: str, given: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
        """Do it; what may ask the expert is written down before it begins."""
        expert = self._follower.expert
        if expert is not None and kind in ("asked", "told"):
            if not expert.present:
                raise ExpertNeededError(
                    "the campaign has an expert, and it is needed to ask and to tell"
                )
            self._write("meant", {"kind": kind, "given": given, "key": key})
        return self._end(kind, given, key)

    def recover(self) -> None:
        """End what a process has begun that is no more."""
        meant = self._follower.open[0]
        self._by = meant.who
        body = meant.body
        try:
            self._end(body["kind"], body["given"], body["key"])
        except CampaignError:
            raise
        except Exception:
            # It is on record as failed, as it would have been then.
            return

    def _end(self, kind: str, given: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
        follower = self._follower
        begun = bool(follower.open)
        write = self._write if begun else None
        self.uncertain = True
        try:
            got = follower.perform(kind, given, write)
        except CampaignError:
            raise
        except Exception as error:
            if begun:
                self._write("failed", {"error": f"{type(error).__name__}: {error}"})
                follower.open = []
            self.uncertain = False
            raise
        body = {**given, "got": None if got is None else got.tolist()}
        self._write(kind, body, key)
        follower.open = []
        self.uncertain = False
        return body

    def _write(self, kind: str, body: Mapping[str, Any], key: str | None = None) -> None:
        follower = self._follower
        row = self._turn.append(follower.seq, follower.head, kind, key, self._by, body)
        follower.passed(row)
        if kind not in (*DONE, "failed"):
            follower.open.append(row)


# --------------------------------------------------------------------------------------------------


# What else was read, by name.
Outcomes = Mapping[str, ArrayLike] | None

# Who is said to have dropped what nobody told in time.
EXPIRY = "expiry"


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
        from tvbandits.campaign.following import snapshot_of

        of_kind("bandit", bandit, Bandit, "a Bandit, with which a campaign begins")
        if clock is not None:
            of_kind("clock", clock, Clock, "a Clock, or None")
        if about is not None:
            of_kind("about", about, Mapping, "a mapping of names to texts, or None")
            length_of(about.get("drop_after", ""))
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
            said = "" if clock is None else json.dumps([str(clock.unit), str(clock.origin)])
            kept = {f"user:{key}": str(value) for key, value in (about or {}).items()}
            kept |= {**expert_on_record(expert), "clock": said}
            store.create(kept, snapshot_of(beginning))
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
        context: Context = None,
        near: float | None = None,
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
        if measured(self.domain):
            given["context"] = written(context)
        if near is not None:
            given["near"] = positive_number("near", near)
        return self._points(self._done("asked", given, key, who))

    def tell(
        self,
        X: ArrayLike,
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
        self._done("told", self._told(X, y, t, variance, outcomes, context), key, who)
        return self.info

    def record(
        self,
        X: ArrayLike,
        y: ArrayLike | Counted,
        t: Any = None,
        variance: ArrayLike | None = None,
        outcomes: Outcomes = None,
        context: Context = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> None:
        """Write rewards down, as `tell` does; what is made of them is seen by whoever asks next.

        Where a bandit that is told does no more than take note, which is so for those that neither
        ask an expert nor fit a number in between, no bandit is made for it.
        """
        given = self._told(X, y, t, variance, outcomes, context)
        given, key, who = as_given(given, key, self._who if who is None else who)
        with self._writing, self._store.turn() as turn, self._in_words():
            ledger = self.ledger
            if self._writer is None and ledger.tells_only and not ledger.open:
                if self._on_record(ledger, "told", given, key) is None:
                    ledger.told(given)  # what is refused here would be by a bandit
                    body = {**given, "got": None}
                    turn.append(ledger.seq, ledger.head, "told", key, who, body)
                return
        self._done("told", given, key, who)

    def _told(
        self, X: ArrayLike, y: Any, t: Any, variance: Any, outcomes: Outcomes, context: Context
    ) -> dict[str, Any]:
        given = self._readings(self.placed(X, context), "y", y, variance)
        return {**given, "t": self._times(t), **_read(outcomes)}

    def correct(
        self,
        X: ArrayLike,
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
        values = [float("nan")] if y is None else y
        given = self._readings(self.placed(X, played=True), "y", values, variance)
        given |= {"t": self._times(t), "to": self._times(to, "to"), **_read(outcomes)}
        self._done("corrected", given | ({"y": None} if y is None else {}), key, who)
        return self.info

    def retract(
        self, X: ArrayLike, t: Any = None, *, key: str | None = None, who: str | None = None
    ) -> Info:
        """Take back what was told, as `Bandit.retract`; the journal keeps both."""
        given = {"X": self.placed(X, played=True).tolist(), "t": self._times(t)}
        self._done("retracted", given, key, who)
        return self.info

    def drop(self, X: ArrayLike, *, key: str | None = None, who: str | None = None) -> None:
        """Give up on points, as `Bandit.drop`."""
        self._done("dropped", {"X": self.placed(X).tolist()}, key, who)

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
        known = {
            name: x if x is None else as_floats(x, f"add: {name}") for name, x in places.items()
        }
        gone = list(several("retire", retire, "names of sites"))
        plain = {name: None if x is None else x.tolist() for name, x in known.items()}
        said = {"add": plain, "retire": gone}
        if key is not None:
            as_name("key", key)
            there = self._store.keyed(key)
            if there is not None and there.body.get("said") == said:
                return  # what came of it stands there
        self._done("sites", {"said": said, **self.names.change(known, gone)}, key, who)

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

    def _on_record(
        self, known: Ledger | State, kind: str, given: Mapping[str, Any], key: str | None
    ) -> Mapping[str, Any] | None:
        """The body of the row under the key, if there is one.

        Raises
        ------
        ConflictError
            If something else is on record under the key; if no key is given, and a reading of the same
            place and time is on record.
        """
        there = None if key is None else self._store.keyed(key)
        if there is not None:
            return same_operation(there, kind, given)
        if key is not None or kind != "told":
            return None
        X, y = points(given["X"], self.domain.dimension), numbers(given["y"])
        if given["t"] is not None and np.min(given["t"]) < known.gone.until:
            known = self.whole_ledger  # it may have left memory
        again = told_again(self.ledger, known, X, y, given["t"], given["variance"])
        if again is None:
            return None
        before, rows, same = again
        first = rows[0]
        raise ConflictError(
            f"{self.names.name(before.X[first])} at {self.when(float(before.t[first]))} was told "
            f"already, as {before.y[first]:g}: give a key (--key) if another reading is to count "
            "beside it, or let `campaign correct` replace it",
            same=same,
        )

    def _done(
        self, kind: str, given: dict[str, Any], key: str | None, who: str | None
    ) -> Mapping[str, Any]:
        """Do something once, and write it down; the body of its row."""
        given, key, who = as_given(given, key, self._who if who is None else who)
        with self._turn() as (turn, follower), self._in_words():
            there = self._on_record(follower.bandit.state, kind, given, key)
            if there is not None:
                return there
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
        out = state.pending
        t = decision_time(state) if given["t"] is None else given["t"]
        late = np.inf if self.drop_after is None else self.drop_after
        found: list[list[float]] = out.X[t - out.t >= late].tolist()
        return found

    def _keep(self, turn: Turn, follower: Replayer) -> None:
        """Keep a snapshot, where what the expert knows is known."""
        from tvbandits.campaign.following import snapshot_of

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
        self, X: ArrayLike, name: str, values: ArrayLike | Counted, variance: ArrayLike | None
    ) -> dict[str, Any]:
        """Points, and what was read there, as they are written down."""
        values, variance = with_variance(values, variance)
        return {
            "X": self.placed(X).tolist(),
            name: as_floats(values, name).tolist(),
            "variance": None if variance is None else as_floats(variance, "variance").tolist(),
        }

    def _points(self, body: Mapping[str, Any]) -> Array:
        return points(body["got"], self.domain.dimension)

    def _rows(
        self, among: Among, context: Context, *, any_context: bool = False
    ) -> list[int] | None:
        """What is available as row numbers, which can be written down."""
        rows = self.names.rows(among) if texts(among) else among
        if any_context:
            free = available(self.domain, rows, None, any_context=True)
        else:
            _, free = at_hand(self.domain, rows, context)
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


def _check_options(trusted: object, who: object, patience: object, snapshot_every: object) -> None:
    if trusted is not None:
        of_kind("trusted", trusted, Mapping, 'a mapping of "module:name" to parts, or None')
    if who is not None:
        as_name("who", who)
    not_negative("patience", patience)
    whole_number("snapshot_every", snapshot_every)


def _read(outcomes: Outcomes) -> dict[str, Any]:
    """What else was read, as it is written down; nothing where nothing was."""
    read = {name: as_floats(y, name).tolist() for name, y in as_outcomes(outcomes).items()}
    return {"outcomes": read} if read else {}
