"""The tables of a campaign: what it is about, its journal, and snapshots.

The checksum of a row of the journal covers every column and the checksum of the row before it, so that a
row that was changed, taken out, put in or moved is found. Rows at the end that are missing are found
where a snapshot was made after them.

Numbers are JSON's, which come back to the last bit; those that are not finite are texts.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from tvbandits._version import __version__
from tvbandits.campaign.store.errors import (
    CampaignError,
    ClosedCampaignError,
    ConflictError,
    DamagedCampaignError,
    NoCampaignError,
    StorageError,
    reading,
)
from tvbandits.campaign.store.places import PostgreSQLPlace, SQLitePlace, place_of, reason_of
from tvbandits.core.arrays import Array
from tvbandits.core.files.journal import as_text, digest_of, numbers
from tvbandits.io import Saved, SavedFileError, limit_of
from tvbandits.validation import require, shown

# --- rows of the journal: what happened, who did it and when --------------------------------------


# Kinds of rows that are a whole operation by themselves, or end one.
DONE = ("asked", "told", "dropped", "questions", "answers", "corrected", "retracted", "sites")

# All kinds, and what their bodies have at least.
#
# What may need the expert is `meant` first; then come its questions, and its answers.
FIELDS = {
    "asked": {"t", "n", "among", "got"},
    "told": {"X", "y", "t", "variance", "got"},
    "dropped": {"X", "got"},
    "questions": {"t", "among", "got"},
    "answers": {"X", "values", "t", "variance", "got"},
    "corrected": {"X", "y", "t", "variance", "to", "got"},
    "retracted": {"X", "t", "got"},
    "sites": {"said", "names", "X", "given", "retire", "back", "got"},
    "meant": {"kind", "given", "key"},
    "consulting": {"X", "t"},
    "consulted": {"X", "t", "knows"},
    "failed": {"error"},
}

# What else a body may have; any other field is refused before it is written.
#
# `said` is what the caller sent, where something else was made of it by what was so at the time.
MORE_FIELDS = {
    "asked": {"said", "context", "near"},
    "told": {"said", "outcomes", "counts"},
    "dropped": {"said"},
    "questions": {"said"},
    "answers": {"said"},
    "corrected": {"said", "outcomes"},
    "retracted": {"said"},
    "consulted": {"failure", "values", "variance", "cost", "notes"},
}

# Fields that are made of what was sent.
MADE = {
    **{kind: {"among"} for kind in ("asked", "questions")},
    **{kind: {"X"} for kind in ("told", "dropped", "answers", "corrected", "retracted")},
    "sites": {"names", "X", "given", "retire", "back"},
}


# The body of a row, its key, and who did it.
Operation = tuple[Mapping[str, Any], str | None, str]

# Characters of the body of a row, which is JSON and takes ten times as much once it is read.
LONGEST_BODY = 50_000_000


@dataclass(frozen=True)
class Row:
    """A row of the journal.

    Attributes
    ----------
    seq : int
        1, 2, 3, ...
    kind : str
        One of `FIELDS`.
    key : str or None
        The client's name for the operation.
    who, at : str
        Who did it, and when (UTC, ISO 8601).
    body : mapping
        What was given, and what came of it.
    digest : str
        The checksum, in hexadecimal digits.
    """

    seq: int
    kind: str
    key: str | None
    who: str
    at: str
    body: Mapping[str, Any] = field(repr=False)
    digest: str = field(repr=False, default="")


def chained(before: str, row: Row, text: str) -> str:
    """The checksum that a row should have, after the one that has `before`."""
    return digest_of(before, row.seq, row.kind, row.key, row.who, row.at, text)


def checked_row(place: str, cells: tuple[Any, ...], last: int, before: str) -> Row:
    """A row as it was read at a place, after the row `last` with the checksum `before`.

    Raises
    ------
    DamagedCampaignError
        If it is not as it was written, or another one should come first.
    """
    seq, kind, key, who, at, text, digest = cells
    row = Row(seq, kind, key, who, at, {}, digest)
    if seq != last + 1:
        raise DamagedCampaignError(
            f"{place}: row {last + 1} of the journal is missing: row {seq} is next"
        )
    with reading(f"{place}: row {seq} of the journal ({kind!r})"):
        if len(text) > LONGEST_BODY:
            raise ValueError(f"it has {len(text)} characters, and {LONGEST_BODY} are the limit")
        if kind not in FIELDS or chained(before, row, text) != digest:
            raise ValueError("it has another checksum")
        body = json.loads(text)
        if not isinstance(body, dict) or not FIELDS[kind] <= body.keys():
            raise ValueError(f"it needs {sorted(FIELDS[kind])}")
        return Row(seq, kind, key, who, at, body, digest)


def optional(values: Any) -> Array | None:
    """A column out of a body, where there is one."""
    return None if values is None else numbers(values)


def points(values: Any, dimension: int) -> Array:
    """Points (n, d) out of a body; arms that were added since are coordinates more, which are 0."""
    X = numbers(values)
    if X.ndim == 2 and 0 < X.shape[1] < dimension:
        return np.pad(X, ((0, 0), (0, dimension - X.shape[1])))
    return X.reshape(-1, dimension)


def outcomes_in(given: Mapping[str, Any]) -> dict[str, Array] | None:
    """What a row says of further outcomes, by name."""
    said = given.get("outcomes")
    return None if said is None else {name: numbers(values) for name, values in said.items()}


# --- operations ------------------------------------------------------------------------------


# Characters of a key, or of a name of who does something.
LONGEST = 500


def as_name(name: str, text: object) -> None:
    """Raise a `ValueError` unless this is a text that can be printed, and not too long."""
    good = isinstance(text, str) and 0 < len(text) <= LONGEST and text.isprintable()
    require(good, name, f"a text of 1 to {LONGEST} characters that can be printed", text)


def as_given(
    kind: str, given: Mapping[str, Any], key: str | None, who: str
) -> tuple[dict[str, Any], str | None, str]:
    """What an operation is given, as it comes back from the disk; its key and who does it, checked."""
    for name, text in (("key", key), ("who", who)):
        if text is not None:
            as_name(name, text)
    check_body(kind, given)
    return json.loads(as_text(given)), key, who


def check_body(kind: str, body: Mapping[str, Any]) -> None:
    """Raise a `ValueError` unless a row of this kind may have such a body: others could not read it."""
    if kind == "meant":
        check_body(body["kind"], body["given"])
    unknown = sorted(body.keys() - FIELDS[kind] - MORE_FIELDS.get(kind, set()))
    missing = sorted(FIELDS[kind] - {"got"} - body.keys())
    if unknown or missing:
        wrong = f"unknown {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        there = ", ".join(sorted(FIELDS[kind] | MORE_FIELDS.get(kind, set())))
        raise ValueError(f"{kind}: {wrong}; the fields are: {there}")


def is_same(there: Row, kind: str, given: Mapping[str, Any]) -> bool:
    """Whether what is on record is what a caller sent, or comes to the same by now.

    Parameters
    ----------
    there : Row
    kind : str
    given : mapping
        With `said`, and without what is made of it where that is not known.
    """
    known = {name: value for name, value in there.body.items() if name != "got"}
    # Of counts the variance is another one when more is counted at their time.
    counted = {"variance": known.get("variance")} if "counts" in given else {}
    given = {**given, **counted}

    def without(names: set[str], body: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in body.items() if name not in names}

    made = MADE.get(kind, set())
    sent = known.get("said", {name: known.get(name) for name in made})
    same_sent = given.get("said") == sent and without(made | {"said"}, known) == without(
        made | {"said"}, given
    )
    same_made = without({"said"}, known) == without({"said"}, given)
    return there.kind == kind and (same_sent or same_made)


def same_operation(there: Row, kind: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body of what is on record under a key, if it is what is to be done.

    Raises
    ------
    ConflictError
        If it is something else.
    """
    if not is_same(there, kind, given):
        known = {name: value for name, value in there.body.items() if name != "got"}
        raise ConflictError(
            f"the key {there.key!r} is taken: on record is {there.kind} {as_text(known)} "
            f"(row {there.seq}, by {there.who} at {there.at}), and given is {kind} {as_text(given)}",
            key=there.key,
        )
    return there.body


# --- the tables, and what tells that they are there -----------------------------------------------


METADATA = sql.MetaData()

# What it is about: its id, the version of the tables, the clock, the expert, the names of sites.
ABOUT = sql.Table(
    "about",
    METADATA,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)

# What happened: rows are added and never changed.
JOURNAL = sql.Table(
    "journal",
    METADATA,
    sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("key", sql.Text, unique=True),
    sql.Column("who", sql.Text, nullable=False),
    sql.Column("at", sql.Text, nullable=False),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("digest", sql.Text, nullable=False),
)

# The bandit after so many rows, as a saved file; the first of them is the beginning.
SNAPSHOTS = sql.Table(
    "snapshots",
    METADATA,
    sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("head", sql.Text, nullable=False),
    sql.Column("at", sql.Text, nullable=False),
    sql.Column("data", sql.LargeBinary, nullable=False),
    sql.Column("checksum", sql.Text, nullable=False),
    sql.Column("made_by", sql.Text, nullable=False),
)

# Who may speak to the service of a campaign: made with the first token, where there is one.
TOKENS = sql.Table(
    "tokens",
    sql.MetaData(),
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("roles", sql.Text, nullable=False),
    sql.Column("sha256", sql.Text, nullable=False, unique=True),
)

# The version of the tables and of what is saved in them; one that is not known is refused.
SCHEMA = 6


def version_in(connection: sql.Connection, place: str) -> int:
    """The version of the tables that are there; 0 where there are none.

    Raises
    ------
    NoCampaignError
        If they are none of a campaign, or of another version.
    """
    inspector = sql.inspect(connection)
    tables = inspector.get_table_names()
    if not tables:
        return 0
    ours = {"about", "journal", "snapshots"} <= set(tables)
    if not ours or {each["name"] for each in inspector.get_columns("about")} != {*ABOUT.c.keys()}:
        raise NoCampaignError(
            f"{place}: it is no campaign: it has the tables {shown(sorted(tables))}"
        )
    wanted = sql.select(ABOUT.c.value).where(ABOUT.c.name == "schema")
    said = connection.execute(wanted).scalar()
    if said != str(SCHEMA):
        raise NoCampaignError(f"{place}: its tables are of version {said}, and {SCHEMA} is known")
    if odd := sorted(_foreign_objects(connection)):
        kind, name = odd[0]
        raise NoCampaignError(
            f"{place}: it is no campaign as it was made: it has the {kind} {shown(name)}, and what "
            "stands in a database besides the tables could change what is written; take that out "
            "only if you know where it comes from"
        )
    return SCHEMA


def _foreign_objects(connection: sql.Connection) -> set[tuple[str, str]]:
    """Kinds and names of what is in a database and not in one that we have made."""
    if connection.dialect.name == "sqlite":
        there = _definitions(connection)
        return {(kind, name) for kind, name, _, _ in there - _own_definitions()}
    ours = ", ".join(f"'{table.name}'" for table in METADATA.sorted_tables)
    wanted = (
        "SELECT 'trigger', tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
        f"WHERE NOT tgisinternal AND relname IN ({ours}) "
        f"UNION ALL SELECT 'rule', rulename FROM pg_rules WHERE tablename IN ({ours})"
    )
    return {(kind, str(name)) for kind, name in connection.execute(sql.text(wanted))}


def _definitions(connection: sql.Connection) -> set[tuple[str, str, str, str]]:
    """Kind, name, table and definition of everything in a SQLite database but its statistics."""
    found = connection.execute(sql.text("SELECT type, name, tbl_name, sql FROM sqlite_master"))
    return {
        (str(kind), str(name), str(table), " ".join(str(said).split()))
        for kind, name, table, said in found
        if name not in ("sqlite_stat1", "sqlite_stat4")  # of ANALYZE
    }


@cache
def _own_definitions() -> set[tuple[str, str, str, str]]:
    engine = sql.create_engine("sqlite://")
    METADATA.create_all(engine)
    TOKENS.create(engine)
    with engine.connect() as connection:
        found = _definitions(connection)
    engine.dispose()
    return found


# --------------------------------------------------------------------------------------------------


# Rows of a long journal that are read at once.
PAGE = 10_000

# Snapshots that are kept besides the first.
KEPT = 3


@dataclass(frozen=True)
class Snapshot:
    """A bandit after so many rows, the checksum of the last of them, and the version that made it."""

    place: str
    seq: int
    head: str
    data: bytes
    made_by: str

    def saved(self, trusted: Mapping[str, Any]) -> Saved:
        """What it holds; a `SavedFileError`, as of another version, names the campaign."""
        try:
            return Saved(self.data, trusted)
        except SavedFileError as error:
            raise SavedFileError(f"{self.place}: the snapshot in it: {error}") from error


def now() -> str:
    """The present: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """A campaign's tables.

    Parameters
    ----------
    place : SQLitePlace or PostgreSQLPlace
    patience : float
        Seconds to wait for one's turn to write.
    """

    def __init__(self, place: SQLitePlace | PostgreSQLPlace, patience: float = 30.0) -> None:
        self.place, self.patience = place, patience
        self._about: Mapping[str, str] = {}
        self._closed = False

    @property
    def about(self) -> Mapping[str, str]:
        """What it is about."""
        self.check_open()
        return self._about

    # --- beginning ------------------------------------------------------------------------------

    def create(self, about: Mapping[str, str], first: bytes) -> None:
        """Make the tables and the first snapshot, in one transaction.

        Raises
        ------
        CampaignError
            If there is something already.
        """
        with self.naming():
            self.place.begin()
        with self._connected(writes=True) as connection, connection.begin():
            if sql.inspect(connection).get_table_names():
                raise CampaignError(f"{self.place}: there is something already")
            METADATA.create_all(connection)
            whole = {"id": str(uuid.uuid4()), "schema": str(SCHEMA), **about}
            rows = [{"name": name, "value": value} for name, value in whole.items()]
            connection.execute(ABOUT.insert(), rows)
            connection.execute(SNAPSHOTS.insert(), [self._snapshot_row(0, whole["id"], first)])
            self._about = whole

    def open(self) -> None:
        """Read what it is about.

        Raises
        ------
        NoCampaignError
            If there is none, or something else, or one of another version.
        """
        with self.naming():
            version = self.place.look(lambda c: version_in(c, str(self.place)))
        if not version:
            raise NoCampaignError(f"{self.place}: there is no campaign")
        with self._connected() as connection, connection.begin():
            found = connection.execute(sql.select(ABOUT.c.name, ABOUT.c.value)).all()
        for row in found:
            with reading(f"{self.place}: the field {row.name!r}"):
                if not isinstance(row.name, str):
                    raise TypeError("its name is no text")
                row.value.encode()
        self._about = {row.name: row.value for row in found}
        for name in ("id", "asks", "clock"):
            if name not in self._about:
                raise DamagedCampaignError(f"{self.place}: the field {name!r} is missing")

    # --- reading --------------------------------------------------------------------------------

    def check_chain(self) -> None:
        """Raise an error unless rows are as they were written, and none is missing before a snapshot."""
        latest = self.snapshot()  # first: others may write rows and a snapshot meanwhile
        heads = [row.digest for row in self.each(0, self.about["id"]) if row.seq == latest.seq]
        if (heads or [self.about["id"]])[0] != latest.head:
            raise DamagedCampaignError(
                f"{self.place}: rows are missing: a snapshot was made after row {latest.seq}"
            )

    def each(self, after: int, head: str) -> Iterator[Row]:
        """As `rows`, and no more than a page of them in memory."""
        page = self.rows(after, head, PAGE)
        yield from page
        while len(page) == PAGE:
            page = self.rows(page[-1].seq, page[-1].digest, PAGE)
            yield from page

    def rows(self, after: int, head: str, most: int | None = None) -> list[Row]:
        """The rows after row `after`, whose checksum is `head`, checked; `most`: so many of them."""
        wanted = (
            sql.select(JOURNAL).where(JOURNAL.c.seq > after).order_by(JOURNAL.c.seq).limit(most)
        )
        found = []
        with self._connected() as connection, connection.begin():
            for cells in connection.execute(wanted):
                row = checked_row(str(self.place), tuple(cells), after, head)
                after, head = row.seq, row.digest
                found.append(row)
        return found

    def mark(self, seq: int) -> tuple[int, str]:
        """Number and checksum of a row, to read on from; of the last one, where it is still to come."""
        known = JOURNAL.c.seq <= min(max(seq, 0), 2**62)
        wanted = sql.select(JOURNAL.c.seq, JOURNAL.c.digest).where(known)
        with self._connected() as connection, connection.begin():
            found = connection.execute(wanted.order_by(JOURNAL.c.seq.desc()).limit(1)).first()
        return (0, self.about["id"]) if found is None else (found.seq, found.digest)

    def keyed(self, *keys: str | None) -> dict[str, Row]:
        """The operations on record under some keys, by them."""
        before = JOURNAL.alias()
        both = JOURNAL.outerjoin(before, before.c.seq == JOURNAL.c.seq - 1)
        given = [key for key in keys if key is not None]
        wanted = (
            sql.select(before.c.digest, JOURNAL).select_from(both).where(JOURNAL.c.key.in_(given))
        )
        with self._connected() as connection, connection.begin():
            found = connection.execute(wanted).all() if given else []
        place, start = str(self.place), self.about["id"]
        rows = [checked_row(place, tuple(row), row[0] - 1, head or start) for head, *row in found]
        return {str(row.key): row for row in rows}

    def in_doubt(self, until: int) -> int:
        """Questions to the expert, up to a row, that are not followed by what came of them."""
        after = JOURNAL.alias()
        came = after.c.kind.in_(("consulted", "failed")), after.c.seq <= until
        known = sql.exists().where(after.c.seq == JOURNAL.c.seq + 1, *came)
        asked = JOURNAL.c.kind == "consulting", JOURNAL.c.seq <= until
        wanted = sql.select(sql.func.count()).select_from(JOURNAL).where(*asked, ~known)
        with self._connected() as connection, connection.begin():
            return connection.execute(wanted).scalar() or 0

    def snapshot(self) -> Snapshot:
        """The latest snapshot."""
        return self.snapshots(1)[0]

    def snapshots(self, most: int | None = None) -> list[Snapshot]:
        """So many, or all that are kept, the latest first."""
        # As it lies there: a text in place of bytes is damage, and said so.
        data = sql.type_coerce(SNAPSHOTS.c.data, sql.types.NULLTYPE).label("data")
        columns = [data if column.name == "data" else column for column in SNAPSHOTS.c]
        wanted = sql.select(*columns).order_by(SNAPSHOTS.c.seq.desc()).limit(most)
        with self._connected() as connection, connection.begin():
            found = connection.execute(wanted).all()
        if not found:
            raise DamagedCampaignError(f"{self.place}: it has no snapshot")
        return [self._checked_snapshot(row) for row in found]

    def _checked_snapshot(self, row: Any) -> Snapshot:
        with reading(f"{self.place}: the snapshot after row {row.seq}"):
            if _sum_of(row.seq, row.head, row.data) != row.checksum:
                raise ValueError("it has another checksum")
        return Snapshot(str(self.place), row.seq, row.head, row.data, row.made_by)

    def _snapshot_row(self, seq: int, head: str, data: bytes) -> dict[str, Any]:
        checksum = _sum_of(seq, head, data)
        return {
            "seq": seq,
            "head": head,
            "at": now(),
            "data": data,
            "checksum": checksum,
            "made_by": __version__,
        }

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """One's turn to write, which others wait for.

        Raises
        ------
        BusyError
            If it does not come in time.
        StorageError
            If nothing can be written.
        """
        with self._connected(writes=True) as connection, self.place.turn(connection, self.patience):
            yield Turn(self, connection)

    @contextmanager
    def _connected(self, writes: bool = False) -> Iterator[sql.Connection]:
        """A connection; what the database says of its disk or its server is a `StorageError`."""
        self.check_open()
        with self.naming(), self.place.engine.connect() as connection:
            yield connection.execution_options(writes=writes)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Turn what a database says into an error that says what it means."""
        try:
            yield
        except IntegrityError as error:
            raise StorageError(
                f"{self.place}: somebody else has written at the same time: {reason_of(error)}"
            ) from error
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise _named(str(self.place), error) from error

    def backup(self, target: Path) -> None:
        """Copy it to a new file."""
        self.check_open()
        self.place.backup(target)

    def check_open(self) -> None:
        """Raise a `ClosedCampaignError` after `close`."""
        if self._closed:
            raise ClosedCampaignError(f"{self.place}: the campaign is closed: open it again")

    def close(self) -> None:
        """Close what is open."""
        self._closed = True
        self.place.engine.dispose()


@contextmanager
def opened(place: str | os.PathLike[str], patience: float) -> Iterator[Store]:
    """Tables to be opened; closed where that fails."""
    store = Store(place_of(place), patience)
    try:
        yield store
    except BaseException:
        store.close()
        raise


class Turn:
    """One's turn to write.

    Parameters
    ----------
    store : Store
    connection : sqlalchemy.Connection
    """

    def __init__(self, store: Store, connection: sql.Connection) -> None:
        self._store, self._connection = store, connection

    def append(self, last: int, head: str, kind: str, *operations: Operation) -> Row:
        """Write rows after row `last`, all or none; they are on the disk on return. The last of them."""
        cells = []
        for body, key, who in operations:
            check_body(kind, body)
            row = Row(last + 1, kind, key, who, now(), body)
            text = as_text(body)
            if len(text) > LONGEST_BODY:
                raise StorageError(
                    f"{self._store.place}: {kind} has {len(text)} characters, and a row takes "
                    f"{LONGEST_BODY}: do it in parts"
                )
            row = replace(row, digest=chained(head, row, text))
            last, head = row.seq, row.digest
            cells.append({**vars(row), "body": text})
        with self._store.naming(), self._connection.begin():
            self._connection.execute(JOURNAL.insert(), cells)
        return row

    def snapshot(self, seq: int, head: str, data: bytes) -> None:
        """Keep a snapshot, and the latest ones before it."""
        with self._store.naming(), self._connection.begin():
            there = sql.select(SNAPSHOTS.c.seq).where(SNAPSHOTS.c.seq > 0)
            old = self._connection.execute(there.order_by(SNAPSHOTS.c.seq.desc())).scalars().all()
            if seq in old or seq == 0:
                return
            row = self._store._snapshot_row(seq, head, data)
            self._connection.execute(SNAPSHOTS.insert(), [row])
            late = old[KEPT - 1 :]
            if late:
                self._connection.execute(SNAPSHOTS.delete().where(SNAPSHOTS.c.seq.in_(late)))


def _sum_of(seq: int, head: str, data: bytes) -> str:
    return hashlib.sha256(f"{seq} {head} ".encode() + data).hexdigest()


def _named(place: str, error: Exception) -> CampaignError:
    """The name of what a database says."""
    reason = reason_of(error)
    if "not a database" in reason:
        return NoCampaignError(f"{place}: it is no campaign: {reason}")
    if "too big" in reason:
        most = limit_of("unpacked_bytes")
        return DamagedCampaignError(
            f"{place}: a cell has more than {most} bytes; if the file is to be trusted, set "
            "TVBANDITS_READ_UNPACKED_BYTES to a larger number"
        )
    if "malformed" in reason:
        return DamagedCampaignError(f"{place}: {reason}")
    return StorageError(f"{place}: {reason}")
