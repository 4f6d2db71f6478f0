"""`SharedBandit`: one bandit of several processes, which is where the journal is.

It lends a bandit to those who look and another one to who writes: those who look never wait. Requests
are done here: looked up under their key, resolved, held against what is on record, and written down.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tvbandits.campaign.names import Names
from tvbandits.campaign.records import Readings, told_of
from tvbandits.campaign.sites import on_sites
from tvbandits.campaign.status import Outline, PointOut
from tvbandits.campaign.store.errors import (
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    StorageError,
    reading,
)
from tvbandits.campaign.store.journal import as_text
from tvbandits.campaign.store.store import Row, Store, check_name
from tvbandits.campaign.times import clock_of, length_of
from tvbandits.campaign.verbs import Request
from tvbandits.errors import PlayError, time_text
from tvbandits.experts.protocol import Expert
from tvbandits.validation import Array

if TYPE_CHECKING:
    from tvbandits.bandit.info import Info
    from tvbandits.bandit.state import State
    from tvbandits.campaign.replay import Replay, Unsaved, Writer

# Who is said to have dropped what nobody told in time.
EXPIRY = "expiry"

# A request, its number, its key, and who makes it.
Numbered = tuple[int, Request, str | None, str]

# Numbers of readings, and what is wrong with each.
Refused = list[tuple[int, ValueError]]


class SharedBandit:
    """A bandit that several processes share.

    Parameters
    ----------
    store : Store
    expert : Expert or None
        The campaign's expert, for who writes.
    trusted : mapping
        The user's own parts, by name.
    snapshot_every : int
        Rows from one snapshot to the next.
    """

    def __init__(
        self, store: Store, expert: Expert | None, trusted: Mapping[str, Any], snapshot_every: int
    ) -> None:
        self.store, self._expert, self._trusted = store, expert, trusted
        self._snapshot_every = snapshot_every
        with reading(f"{store.place}: row 0"):
            body = store.first.body
            self.about: dict[str, str] = {**body["about"]}
            self.asks = bool(body["asks"])
            self.clock = clock_of(*body["clock"]) if body["clock"] else None
            self.drop_after = length_of(self.about.get("drop_after", ""))
            self._outline = Outline(store.first)
        self._writing, self._looking = threading.RLock(), threading.RLock()
        self._writer: Replay | None = None
        self._reader: Replay | None = None
        self._latest: tuple[State, int, str] | None = None
        self._unsaved: Unsaved = {}
        self._names: tuple[int, Names] | None = None

    def check_rows(self) -> None:
        """Raise an error unless rows are as they were written, and none is missing before a snapshot."""
        latest = self.store.snapshot()  # first: others may write rows and a snapshot meanwhile
        heads = [row.digest for row in self.store.rows(-1, "") if row.seq == latest.seq]
        if heads != [latest.head]:
            raise DamagedCampaignError(
                f"{self.store.place}: rows are missing: a snapshot was made after row {latest.seq}"
            )

    # --- for those who look -----------------------------------------------------------------------

    @contextmanager
    def outline(self) -> Iterator[Outline]:
        """Lend what the journal says up to its end, for which no bandit is needed."""
        with self._looking:
            last = self._outline.last
            for row in self.store.rows(last.seq, last.digest):
                with reading(f"{self.store.place}: row {row.seq} ({row.kind})"):
                    self._outline.follow(row)
            yield self._outline

    @property
    def names(self) -> Names:
        """What people call its points."""
        with self.outline() as outline:
            changes = outline.sites
            if self._names is None or self._names[0] != len(changes):
                domain = self.store.snapshot(0).saved(self._trusted).value("recipe", "domain")
                for change in changes:
                    domain = on_sites(domain, change)
                place = str(self.store.place)
                self._names = len(changes), Names(domain, self.about, place, changes)
            return self._names[1]

    def outstanding(self) -> list[tuple[Array, PointOut]]:
        """Return the points that are out."""
        with self._looking:
            names = self.names  # which follows the journal to its end
            X, out = self._outline.pending(names.domain.dimension), self._outline.out
            return [
                (x, PointOut(names.name(x), t, at, who))
                for x, (_, t, at, who) in zip(X, out, strict=True)
            ]

    def when(self, t: float) -> str:
        """Return a time as people write it."""
        return time_text(t) if self.clock is None else self.clock.text(t)

    def rows_of(self, *kinds: str) -> list[Row]:
        """Return the rows of some kinds."""
        return [row for row in self.store.rows(0) if row.kind in kinds]

    @contextmanager
    def read(self) -> Iterator[Replay]:
        """Lend a bandit that is where the journal is, apart from the one that writes."""
        with self._looking:
            replay, self._reader = self._reader, None
            self._reader = self._at_the_end(replay, None)
            with self._in_words():
                yield self._reader

    def info_after(self, row: Row) -> Info:
        """Return what was known after a row, as whoever wrote it was told."""
        from tvbandits.campaign.replay import Replay

        with self.read() as replay:
            if replay.seq == row.seq:
                return replay.bandit.info
        before = next(each for each in self.store.snapshots() if each.seq <= row.seq)
        past = Replay(before, self.asks, None, self._trusted)
        for each in self.store.rows(before.seq, before.head):
            if each.seq <= row.seq:
                past.follow(each)
        return past.bandit.info

    def _at_the_end(self, replay: Replay | None, expert: Expert | None) -> Replay:
        """Return a bandit that is where the journal is, from where another one has come to."""
        from tvbandits.campaign.replay import Replay

        self.store.check_open()
        if replay is None:
            unsaved = None if expert is None else self._unsaved
            replay = Replay(self.store.snapshot(), self.asks, expert, self._trusted, unsaved)
        # What an expert learns from rewards is known to who shows them to it, row by row.
        if self._latest is not None and expert is None:
            replay.go_to(*self._latest)
        for row in self.store.rows(replay.seq, replay.head):
            replay.follow(row)
        if not replay.open:
            self._latest = replay.bandit.state, replay.seq, replay.head
        return replay

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Let errors of the bandit speak of sites by name and, where there is a clock, of dates."""
        try:
            yield
        except PlayError as error:
            error.sentence, error.values = error.message(self._name_or_numbers, self.when), {}
            raise

    def _name_or_numbers(self, x: Array) -> str:
        with suppress(ValueError):  # no site is there
            return self.names.name(x)
        return str(x.tolist())

    # --- for who writes ---------------------------------------------------------------------------

    def do(self, request: Request, key: str | None, who: str) -> tuple[Row, Info | None]:
        """Do something once and write it down.

        Returns
        -------
        row : Row
        info : Info or None
            What is known after it; None where it was on record already.

        Raises
        ------
        ConflictError
            If something else is on record under the key; if no key is given, and a reading of the same
            place and time is on record.
        """
        check_names(key, who)
        with self._in_words():
            row = self._repeated(request, key)
            if row is None:
                with self._turn() as writer:
                    row = self._repeated(request, key)  # somebody else may have done it meanwhile
                    if row is None:
                        row = self._write(
                            writer, request, key, who, *self._names_and_readings(writer)
                        )
                        # To play a correction again takes long.
                        self._keep_snapshot(writer, due=request.kind in ("corrected", "retracted"))
                        return row, writer.replay.bandit.info
            return row, None

    def do_all(self, requests: Sequence[Numbered], refused: Refused, leave_out: bool) -> int:
        """Do several things, where no expert is asked in one transaction; how many are new.

        Those that are refused are put down in `refused` if they are to be left out.
        """
        new = 0
        with self._turn() as writer:
            rows = self.store.keyed([key for *_, key, _ in requests])
            names, readings = self._names_and_readings(writer)
            with writer.together():
                for number, request, key, who in requests:
                    with skip_refused(refused, number, leave_out), self._in_words():
                        if key in rows:
                            _check_same(rows[key], request)
                            continue
                        try:
                            row = self._write(writer, request, key, who, names, readings)
                        except ConflictError as error:
                            if not error.same:
                                raise
                            continue
                        new += 1
                        if key is not None:
                            rows[key] = row
            self._keep_snapshot(writer)
        return new

    def keep_snapshot(self) -> None:
        """Keep a snapshot now."""
        with self._turn() as writer:
            self._keep_snapshot(writer, due=True)

    def _repeated(self, request: Request, key: str | None) -> Row | None:
        """Return the row under the key; a `ConflictError` if something else is on record there."""
        row = None if key is None else self.store.keyed([key]).get(key)
        if row is not None:
            _check_same(row, request)
        return row

    def _names_and_readings(self, writer: Writer) -> tuple[Names, Readings]:
        """Return what stays as it is in one's turn, until sites are changed."""
        told = partial(self.rows_of, "told")
        return self.names, Readings(writer.replay.bandit.recipe, told)

    def _write(
        self,
        writer: Writer,
        request: Request,
        key: str | None,
        who: str,
        names: Names,
        readings: Readings,
    ) -> Row:
        """Check what is asked of the bandit, let it be done, and write it down."""
        bandit, kind, sent = writer.replay.bandit, request.kind, request.sent
        resolved = request.resolve(bandit, names)
        made = {name: value for name, value in resolved.items() if value != sent.get(name)}
        given = {**sent, **made}
        if kind == "told" and key is None:
            told = told_of(bandit.recipe, bandit.state, given)
            readings.check(bandit.state, told, given, names.name, self.when)
        if kind == "asked" and self.drop_after is not None:
            out = bandit.state.pending
            if late := out.X[given["t"] - out.t >= self.drop_after].tolist():
                writer.operate("dropped", {"X": late}, {}, None, EXPIRY)
        return writer.operate(kind, sent, made, key, who)

    @contextmanager
    def _turn(self) -> Iterator[Writer]:
        """Take one's turn to write, with a bandit that is where the journal is."""
        from tvbandits.campaign.replay import Writer

        with self._writing, self.store.turn() as turn:
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
            warnings.warn(f"no snapshot: {error}", RuntimeWarning, stacklevel=5)
        else:
            replay.snapshot = replay.seq


def check_names(key: object, who: object) -> None:
    """Raise a `ValueError` unless a row may have this key, and may be by this person."""
    if key is not None:
        check_name("key", key)
    check_name("who", who)


def _check_same(row: Row, request: Request) -> None:
    """Raise a `ConflictError` unless what is on record under a key is what is sent under it again."""
    if row.kind != request.kind or row.body["sent"] != request.sent:
        raise ConflictError(
            f"the key {row.key!r} is taken: on record is {row.kind} {as_text(row.body['sent'])} "
            f"(row {row.seq}, by {row.who} at {row.at}), and given is {request.kind} "
            f"{as_text(request.sent)}",
            key=row.key,
        )


@contextmanager
def skip_refused(refused: Refused, number: int, leave_out: bool) -> Iterator[None]:
    """Put down what is wrong with a reading; what is wrong with the campaign is raised in any case."""
    try:
        yield
    except ValueError as error:
        own = not isinstance(error, CampaignError) or isinstance(error, ConflictError)
        if not (leave_out and own):
            raise
        refused.append((number, error))
