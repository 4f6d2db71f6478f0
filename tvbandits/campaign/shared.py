"""`SharedBandit`: a bandit that several processes share through a journal.

It keeps one bandit for reading and another one for writing, so that readers never wait. A request is
looked up by its key, resolved, compared with the readings in the journal, performed and written.
"""

from __future__ import annotations

import logging
import math
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tvbandits.bandit.extremes import OutlierWarning
from tvbandits.bandit.observations import check_values_and_variance, fill_variance
from tvbandits.campaign.names import Names, apply_change
from tvbandits.campaign.records import RecordedReadings, observations_of, refuse_taken_times
from tvbandits.campaign.status import Outline, PendingPoint
from tvbandits.campaign.store.errors import (
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    StorageError,
    report_damage,
)
from tvbandits.campaign.store.store import Row, Store, check_name, to_array, to_json, to_points
from tvbandits.campaign.verbs import Request
from tvbandits.clock import parse_duration, restore_clock
from tvbandits.domains.candidates import get_candidates
from tvbandits.errors import PlayError, format_plain_time
from tvbandits.validation import Array, as_times

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.info import Info
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State
    from tvbandits.campaign.doubts import Doubts
    from tvbandits.campaign.replay import Replay, Unsaved, Writer
    from tvbandits.experts.protocol import Answers, Expert

log = logging.getLogger("tvbandits.campaign")

# Who the journal names for points that are dropped because nobody has reported them in time.
EXPIRY = "expiry"

# A snapshot is due once the rows since the last one take so many seconds to replay: each command that a
# person types would take that long.
SLOW_REPLAY = 1.0

# A site is silent after so many times that were asked for in vain.
SILENT_ASKS = 4

# The end of a note about an answer that was set aside; answers of so many places are believed.
ASIDE, FAR_PLACES = "; it was set aside", 3

# Kinds of rows that take long to replay.
CORRECTIONS = ("correct", "correct_answers", "retract")

# A request, its number, its key, and the name of who makes it.
NumberedRequest = tuple[int, Request, str | None, str]

# Numbers of readings, and the error of each.
Errors = list[tuple[int, ValueError]]

# Numbers of readings that were retracted or moved, and what became of each.
Withdrawn = list[tuple[int, str]]


class SharedBandit:
    """A bandit that several processes share.

    Parameters
    ----------
    store : Store
    expert : Expert or None
        The campaign's expert, which is needed to write.
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
        with report_damage(f"{store}: row 0"):
            body = store.first.body
            self.about: dict[str, str] = {**body["about"]}
            self.has_expert = bool(body["has_expert"])
            self.clock = restore_clock(*body["clock"]) if body["clock"] else None
            self.drop_after = parse_duration(self.about.get("drop_after", ""))
            self._outline = Outline(store.first)
        self._writer_lock, self._reader_lock = threading.RLock(), threading.RLock()
        self._writer: Replay | None = None
        self._reader: Replay | None = None
        self._predictor: tuple[int, Bandit] | None = None
        self._latest: tuple[State, int, str, float] | None = None
        self._unsaved: Unsaved = {}
        self._names: tuple[int, Names] | None = None

    def check_rows(self) -> None:
        """Raise an error unless all rows are as they were written, and there are all of them."""
        latest = self.store.snapshot()  # first: other processes may write rows and snapshots now
        rows = chain([self.store.first], self._follow())
        heads = [row.digest for row in rows if row.seq == latest.seq]
        if heads != [latest.head]:
            raise DamagedCampaignError(
                f"{self.store}: rows are missing: a snapshot was made after row {latest.seq}"
            )

    # --- reading ----------------------------------------------------------------------------------

    @contextmanager
    def outline(self) -> Iterator[Outline]:
        """Lend the outline of the whole journal, which needs no bandit."""
        with self._reader_lock:
            for _ in self._follow():
                pass
            yield self._outline

    def _follow(self) -> Iterator[Row]:
        """Let the outline follow the journal to its end, and yield each row that it follows."""
        last = self._outline.last
        for row in self.store.rows(last.seq, last.digest):
            with report_damage(f"{self.store}: row {row.seq} ({row.kind})"):
                self._outline.follow(row)
            yield row

    @property
    def names(self) -> Names:
        """Return the names of points and sites."""
        with self.outline() as outline:
            changes = outline.changes
            if self._names is None or self._names[0] != len(changes):
                domain = self.store.snapshot(0).read(self._trusted).value("recipe", "domain")
                for change in changes:
                    domain = apply_change(domain, change)
                self._names = len(changes), Names(domain, self.about, str(self.store), changes)
            return self._names[1]

    def pending(self) -> list[tuple[Array, PendingPoint]]:
        """Return the pending points."""
        with self._reader_lock:
            names = self.names  # which follows the journal to its end
            X, points = self._outline.pending_array(names.domain.dimension), self._outline.pending
            return [
                (x, PendingPoint(names.name(x), each.t, each.at, each.who))
                for x, each in zip(X, points, strict=True)
            ]

    @property
    def silent_sites(self) -> dict[str, str]:
        """Return the sites whose last requested readings did not arrive, each with the reason.

        A site counts once, whatever was measured beside it.
        """
        names = self.names
        if not names.sites:
            return {}
        with self.outline() as outline:
            missed, came = outline.missed, outline.came
            in_vain = {each: names.name(each.place) for each in missed}
            sites = {*in_vain.values()}
            latest = dict.fromkeys(sites, -1)
            if missed and self.names.context_names:  # else a place is a site
                for place, seq in came.items():
                    site = names.name(place)
                    latest[site] = max(latest.get(site, -1), seq)
        times: dict[str, set[float]] = {site: set() for site in sites}
        for each, site in in_vain.items():
            if each.seq > latest[site]:
                times[site].add(each.t)
        return {
            site: f"silent: none of the last {len(each)} readings that were asked for has come"
            for site, each in times.items()
            if len(each) >= SILENT_ASKS
        }

    def format_time(self, t: float) -> str:
        """Return a time as text: a date if there is a clock."""
        return format_plain_time(t) if self.clock is None else self.clock.text(t)

    def rows_of(self, *kinds: str) -> list[Row]:
        """Return the rows of some kinds."""
        return [row for row in self.store.rows(0) if row.kind in kinds]

    @contextmanager
    def read(self) -> Iterator[Replay]:
        """Lend a bandit that has followed the whole journal, and is not the one that writes."""
        with self._reader_lock:
            replay, self._reader = self._reader, None
            self._reader = self._catch_up(replay, None)
            with self._translate_errors():
                yield self._reader

    @contextmanager
    def predictor(self) -> Iterator[Bandit]:
        """Lend a bandit for predictions alone; it remembers what it has conditioned, until a new row."""
        with self.read() as replay:
            if self._predictor is None or self._predictor[0] != replay.seq:
                self._predictor = replay.seq, replay.predictor()
            yield self._predictor[1]

    def info_after(self, row: Row) -> Info:
        """Return the info that the operation of a row returned."""
        from tvbandits.campaign.replay import Replay

        with self.read() as replay:
            if replay.seq == row.seq:
                return replay.bandit.info
        snapshot = next(each for each in self.store.snapshots() if each.seq <= row.seq)
        past = Replay(snapshot, self.has_expert, None, self._trusted)
        for each in self.store.rows(snapshot.seq, snapshot.head):
            if each.seq <= row.seq:
                past.follow(each)
        return past.bandit.info

    def _catch_up(self, replay: Replay | None, expert: Expert | None) -> Replay:
        """Return a replay that has followed the whole journal; it starts from `replay`, if given."""
        from tvbandits.campaign.replay import Replay

        self.store.check_open()
        if replay is None:
            unsaved = None if expert is None else self._unsaved
            replay = Replay(self.store.snapshot(), self.has_expert, expert, self._trusted, unsaved)
        # An expert may learn from rewards, so that it must be shown them row by row.
        if self._latest is not None and expert is None:
            replay.skip_to(*self._latest)
        for row in self.store.rows(replay.seq, replay.head):
            replay.follow(row)
        if not replay.open_rows:
            self._latest = replay.bandit.state, replay.seq, replay.head, replay.seconds
        return replay

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Let errors of the bandit name sites and, if there is a clock, dates."""
        try:
            yield
        except PlayError as error:
            error.sentence, error.values = error.message(self._place_text, self.format_time), {}
            raise

    def _place_text(self, x: Array) -> str:
        with suppress(ValueError):  # there is no site
            return self.names.name(x)
        return str(x.tolist())

    # --- writing ----------------------------------------------------------------------------------

    def execute(self, request: Request, key: str | None, who: str) -> tuple[Row, Info | None]:
        """Perform a request once and write it to the journal.

        Returns
        -------
        row : Row
        info : Info or None
            The bandit's info after it; None if it was in the journal already.

        Raises
        ------
        ConflictError
            If another request has the key; if no key is given, and there is a reading of the same place
            and time.
        """
        check_key_and_name(key, who)
        with self._translate_errors():
            row = self._find_row(request, key)
            if row is not None:
                return row, None
            with self._turn() as writer:
                row = self._find_row(request, key)  # another process may have written it meanwhile
                if row is not None:
                    return row, None
                with _without_warnings(request):
                    row = self._write(writer, request, key, who, *self._names_and_readings(writer))
                # To replay a correction takes long.
                self._snapshot(writer, always=request.kind in CORRECTIONS)
                return row, writer.replay.bandit.info

    def execute_all(
        self,
        requests: Sequence[NumberedRequest],
        errors: Errors | None,
        withdrawn: Withdrawn | None = None,
    ) -> int:
        """Perform several requests, in one transaction if there is no expert.

        Return how many readings are new.

        With a list of errors, a request that is refused is put there and left out. Readings that were
        retracted or moved are put into a list `withdrawn`, if there is one.
        """
        new = 0
        with self._turn() as writer:
            rows = self.store.rows_by_key([key for *_, key, _ in requests])
            names, readings = self._names_and_readings(writer)
            with writer.transaction():
                for number, request, key, who in requests:
                    with collect_errors(errors, number), self._translate_errors():
                        if key in rows:
                            _check_same(rows[key], request)
                            continue
                        try:
                            row = self._write(writer, request, key, who, names, readings)
                        except ConflictError as error:
                            if not error.same:
                                raise
                            if error.withdrawn and withdrawn is not None:
                                withdrawn.append((number, error.reason))
                            continue
                        new += len(row.body["result"])
                        if key is not None:
                            rows[key] = row
            self._snapshot(writer)
        return new

    def are_recorded(
        self, X: Array, y: Array, t: Array, variance: Array, counts: Array | None
    ) -> NDArray[np.bool_]:
        """Return which readings the journal has, also if they were corrected or withdrawn since."""
        with self.read() as replay:
            recipe, state = replay.bandit.recipe, replay.bandit.state
            usual = fill_variance(len(X), recipe.noise_variance)
            noise = np.where(np.isnan(variance), usual, variance)
            pairs = None if counts is None else counts.tolist()
            verdicts = self._recorded(recipe).compare(state, X, t, y, noise, pairs)
        return np.array([each not in ("new", "other") for each in verdicts], dtype=bool)

    def write_snapshot(self) -> None:
        """Write a snapshot now."""
        with self._turn() as writer:
            self._snapshot(writer, always=True)

    def _find_row(self, request: Request, key: str | None) -> Row | None:
        """Return the row with the key; raise a `ConflictError` if it is another request's."""
        row = None if key is None else self.store.rows_by_key([key]).get(key)
        if row is not None:
            _check_same(row, request)
        return row

    def _names_and_readings(self, writer: Writer) -> tuple[Names, RecordedReadings]:
        """Return what stays the same while the process holds the lock and changes no sites."""
        return self.names, self._recorded(writer.replay.bandit.recipe)

    def _recorded(self, recipe: Recipe) -> RecordedReadings:
        """Return the readings of the journal, to be looked up."""
        with self.outline() as outline:
            return RecordedReadings(recipe, partial(self.rows_of, "tell"), outline.withdrawals)

    def _write(
        self,
        writer: Writer,
        request: Request,
        key: str | None,
        who: str,
        names: Names,
        readings: RecordedReadings,
    ) -> Row:
        """Resolve and check a request, perform it, and write it."""
        bandit, kind, payload = writer.replay.bandit, request.kind, request.payload
        resolved = request.resolve(bandit, names)
        if kind == "answer" and bandit.recipe.query_config is not None:
            resolved |= self._answered_time(payload, resolved, names, key)
        resolution = {name: value for name, value in resolved.items() if value != payload.get(name)}
        arguments = {**payload, **resolution}
        if kind == "tell" and key is None:
            state = bandit.state
            new = observations_of(bandit.recipe, state, arguments)
            readings.check_new(state, new, arguments, names.name, self.format_time)
        elif kind == "tell" and not request.sure:  # what is wrong is said before what is doubtful
            observations_of(bandit.recipe, bandit.state, arguments)
        if kind == "correct" and key is None and "to" in payload:
            recipe, now = bandit.recipe, bandit.state
            refuse_taken_times(recipe, now, arguments, names.name, self.format_time)
        if not request.sure:
            self._refuse_doubtful(writer.replay, request, arguments, names)
        if kind == "ask" and self.drop_after is not None:
            pending = bandit.state.pending
            if expired := pending.X[arguments["t"] - pending.t >= self.drop_after].tolist():
                writer.perform("drop", {"X": expired}, {}, None, EXPIRY)
        if kind == "ask" and not {"available", "near"} & payload.keys():
            resolution |= self._leave_out(writer.replay.bandit, names, arguments)
        return writer.perform(kind, payload, resolution, key, who)

    def _leave_out(self, bandit: Bandit, names: Names, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the rows that are available without silent sites, and these with what says so.

        Nothing if there are none, if all are silent, or if more points are asked for than are left. A
        control stays.
        """
        candidates = get_candidates(names.domain)
        silent = self.silent_sites
        if candidates is None or not silent:
            return {}
        if (control := bandit.recipe.options.control) is not None:
            silent.pop(names.name(np.asarray(control)), None)
        active = (row for row in range(len(candidates)) if row not in candidates.retired)
        rows = [*active] if arguments.get("available") is None else arguments["available"]
        sites = [names.sites[row] for row in rows]
        left_out = {site: silent[site] for site in sites if site in silent}
        available = [row for row in rows if names.sites[row] not in left_out]
        n = arguments.get("n") or 1
        if not left_out or not available or len(available) < n <= len(rows):
            return {}
        return {"available": available, "left_out": left_out}

    def doubts(self, replay: Replay, table: Sequence[float] = ()) -> Doubts:
        """Return the checks for unusual readings after the rows that a replay has followed."""
        from tvbandits.campaign.doubts import Doubts

        return Doubts(replay.bandit, replay.predictor, self.clock, self.format_time, table=table)

    def _refuse_doubtful(
        self, replay: Replay, request: Request, arguments: dict[str, Any], names: Names
    ) -> None:
        """Raise a `DoubtfulReadingError` if a reading or an answer is unusual."""
        from tvbandits.campaign.doubts import refuse_doubtful

        is_reading = request.kind in ("tell", "correct")
        column = "y" if is_reading else "values"
        X, to = to_points(arguments["X"], names.domain.dimension), request.payload.get("to")
        payload_time = request.payload.get("t") if to is None else to
        noise = arguments.get("noise_variance")
        values, variance = check_values_and_variance(
            column,
            to_array(arguments.get(column, [math.nan] * len(X))),
            len(X),
            None if noise is None else to_array(noise),
            None,
        )
        t = None if payload_time is None else as_times(to_array(payload_time), len(X))
        if is_reading and replay.bandit.recipe.options.robust:
            values = np.full(len(X), np.nan)  # the bandit sets them aside by itself; times it takes
        doubts = self.doubts(replay, values[~np.isnan(values)].tolist())
        # The time of what is corrected was believed before.
        is_new = request.kind in ("tell", "answer") or to is not None
        noises = None if noise is None else variance
        refuse_doubtful(doubts, names.name, X, t, values, noises, is_new_time=is_new)

    def _set_aside(self, replay: Replay, X: Array, answers: Answers) -> Answers:
        """Return the answers of an expert in a program without those that are beyond belief.

        Nobody is there to be asked. The notes of the answers and the log say what was set aside. If
        nothing but that has come lately, of three places, the reward has changed.
        """
        from tvbandits.campaign.doubts import ENOUGH, Doubts, far_values

        beliefs = replay.bandit, replay.predictor
        doubts = Doubts(*beliefs, self.clock, self.format_time, fewest=ENOUGH)
        places = [self.names.name(x) for x in X]
        texts = far_values(doubts, places, answers.values, answers.variance)
        if not texts:
            return answers
        far = {places[row] for row in texts}
        only_far = len(texts) == np.count_nonzero(answers.answered)
        if only_far and len(far | self._far_lately(doubts)) >= FAR_PLACES:
            return answers
        values, notes = answers.values.copy(), [f"{text}{ASIDE}" for text in texts.values()]
        values[[*texts]] = np.nan
        for note in notes:
            log.warning("%s: the expert: %s", self.store, note)
        return replace(answers, values=values, notes=(*answers.notes, *notes))

    def _far_lately(self, doubts: Doubts) -> set[str]:
        """Return the places of the latest answers up to one that is not far; set aside or believed."""
        names, places = self.names, set[str]()
        for row in reversed(self.rows_of("reply")):
            for x, value in zip(row.body["X"], row.body.get("values", ()), strict=False):
                name = names.name(x)
                if not math.isnan(float(value)):
                    if not doubts.about_reading(name, None, float(value)):
                        return places
                    places.add(name)
            notes = (note for note in row.body.get("notes", ()) if note.endswith(ASIDE))
            places |= {note.partition(": ")[0] for note in notes}
        return places

    def _answered_time(
        self, payload: dict[str, Any], resolved: dict[str, Any], names: Names, key: str | None
    ) -> dict[str, float]:
        """Return the time of answers; raise an error unless their questions were asked and are open.

        An expert in a program has no open questions: there an answer may be about anything.
        """
        with self.outline() as outline:
            questions, t = outline.questions, resolved["t"]
            if "t" not in payload and (latest := questions.time_of(resolved["X"])) is not None:
                t = latest
            arguments = {**payload, **resolved, "t": t}
            if not self.has_expert:
                questions.check_asked(arguments, names.name, self.format_time)
            questions.check(arguments, names.name, self.format_time, second=key is not None)
        return {"t": t}

    @contextmanager
    def _turn(self) -> Iterator[Writer]:
        """Hold the write lock, with a bandit that has followed the whole journal."""
        from tvbandits.campaign.replay import Writer

        with self._writer_lock, self.store.turn() as turn:
            replay, self._writer = self._writer, None
            writer = Writer(turn, self._catch_up(replay, self._expert))
            if writer.replay.expert is not None:
                writer.replay.expert.review = partial(self._set_aside, writer.replay)
            writer.recover()
            try:
                yield writer
            finally:
                if not writer.uncertain:  # else the replay may be ahead of the disk
                    self._writer = replay = writer.replay
                    # Readers need not compute it again.
                    self._latest = replay.bandit.state, replay.seq, replay.head, replay.seconds

    def _snapshot(self, writer: Writer, *, always: bool = False) -> None:
        """Write a snapshot if it is time for one and the state of the expert is available."""
        from tvbandits.campaign.replay import snapshot_data

        replay = writer.replay
        is_slow = replay.seconds > SLOW_REPLAY
        if not (always or is_slow or replay.seq - replay.snapshot_seq >= self._snapshot_every):
            return
        if replay.expert is not None and not replay.expert.present:
            return
        data = snapshot_data(replay.bandit.recipe, replay.bandit.state)
        try:
            writer.turn.snapshot(replay.seq, replay.head, data)
        except StorageError as error:  # the operation itself is on the disk
            warnings.warn(f"no snapshot was written: {error}", RuntimeWarning, stacklevel=5)
        else:
            replay.snapshot_seq, replay.seconds = replay.seq, 0.0


@contextmanager
def _without_warnings(request: Request) -> Iterator[None]:
    """Give no `OutlierWarning` about readings of which somebody is sure."""
    if request.kind != "tell" or not request.sure:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)
        yield


def check_key_and_name(key: object, who: object) -> None:
    """Raise a `ValueError` unless a row can have this key and this name of its author."""
    if key is not None:
        check_name("key", key)
    check_name("who", who)


def _check_same(row: Row, request: Request) -> None:
    """Raise a `ConflictError` unless a row is the same request."""
    if row.kind != request.kind or row.body["payload"] != request.payload:
        raise ConflictError(
            f"the key {row.key!r} belongs to another call: {row.kind} {to_json(row.body['payload'])} "
            f"(row {row.seq}, by {row.who} at {row.at}); this call is {request.kind} "
            f"{to_json(request.payload)}",
            key=row.key,
        )


@contextmanager
def collect_errors(errors: Errors | None, number: int) -> Iterator[None]:
    """Put the error of a reading into a list, if there is one; raise errors of the campaign itself."""
    try:
        yield
    except ValueError as error:
        is_own = not isinstance(error, CampaignError) or isinstance(error, ConflictError)
        if errors is None or not is_own:
            raise
        errors.append((number, error))
