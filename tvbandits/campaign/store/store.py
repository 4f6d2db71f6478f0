"""The tables of a campaign: a journal, to which rows are added and never changed, and snapshots.

Row 0 of the journal says what the campaign is about. The checksum of a row covers every column and the
checksum of the row before it, so that a row that was changed, taken out, put in or moved is found; rows
that are missing at the end are found where a snapshot was made after them. The same code reads and
writes SQLite and PostgreSQL.

Numbers are JSON's, which come back to the last bit; those that are not finite are texts.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from tvbandits._version import __version__
from tvbandits.campaign.store.errors import (
    CampaignError,
    ClosedCampaignError,
    DamagedCampaignError,
    NoCampaignError,
    StorageError,
    reading,
)
from tvbandits.campaign.store.journal import as_text, digest_of
from tvbandits.campaign.store.places import PostgreSQLPlace, SQLitePlace, place_of, reason_of
from tvbandits.io import SavedFile, SavedFileError, limit_of
from tvbandits.validation import describe, require

# The version of the tables and of what is saved in them; one that is not known is refused.
SCHEMA = 7

# Kinds of rows that are a whole operation by themselves, or end one.
DONE = ("asked", "told", "dropped", "questions", "answers", "corrected", "retracted", "sites")

# All kinds. What may need the expert is "meant" first; then come its questions, and its answers.
KINDS = {"begun", *DONE, "meant", "consulting", "consulted", "failed"}

# Characters of the body of a row, which is JSON and takes ten times as much once it is read.
LONGEST_BODY = 50_000_000

# Rows of a long journal that are in memory at once.
PAGE = 1_000

# Snapshots that are kept besides the first.
KEPT = 3

# Characters of a key, or of a name of who does something.
LONGEST_NAME = 500

METADATA = sql.MetaData()

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


@dataclass(frozen=True)
class Row:
    """A row of the journal.

    Attributes
    ----------
    seq : int
        0 of the beginning, then 1, 2, 3, ...
    kind : str
        One of `KINDS`.
    key : str or None
        The client's name for the operation.
    who, at : str
        Who did it, and when (UTC, ISO 8601).
    body : mapping
        Of an operation: what the caller `sent`, what was `made` of it where that is something else, what
        it `got`, and the `status` after it.
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

    @property
    def given(self) -> dict[str, Any]:
        """What the bandit was given."""
        return {**self.body["sent"], **self.body["made"]}


def next_row(
    last: int, before: str, kind: str, body: Mapping[str, Any], key: str | None, who: str
) -> Row:
    """Make the row after row `last`, whose checksum is `before`."""
    seq, text, at = last + 1, as_text(body), datetime.now(UTC).isoformat(timespec="milliseconds")
    if len(text) > LONGEST_BODY:
        raise StorageError(
            f"{kind} has {len(text)} characters, and a row takes {LONGEST_BODY}: do it in parts"
        )
    digest = digest_of(before, seq, kind, key, who, at, text)
    return Row(seq, kind, key, who, at, json.loads(text), digest)


def check_name(name: str, text: object) -> None:
    """Raise a `ValueError` unless this is a text that can be printed, and not too long."""
    good = isinstance(text, str) and 0 < len(text) <= LONGEST_NAME and text.isprintable()
    require(good, name, f"a text of 1 to {LONGEST_NAME} characters that can be printed", text)


@dataclass(frozen=True)
class Snapshot:
    """A bandit after so many rows, the checksum of the last of them, and the version that made it."""

    place: str
    seq: int
    head: str
    data: bytes
    made_by: str

    def saved(self, trusted: Mapping[str, Any]) -> SavedFile:
        """Return what it holds; a `SavedFileError`, as of another version, names the campaign."""
        try:
            return SavedFile(self.data, trusted)
        except SavedFileError as error:
            raise SavedFileError(f"{self.place}: the snapshot in it: {error}") from error


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
        self._closed = False
        self.first: Row

    def create(self, about: Mapping[str, Any], snapshot: bytes, who: str) -> None:
        """Make the tables, row 0 and the first snapshot, in one transaction.

        Raises
        ------
        CampaignError
            If there is something already.
        """
        with self.naming():
            self.place.begin()
        body = {"id": str(uuid.uuid4()), "schema": SCHEMA, **about}
        self.first = next_row(-1, "", "begun", body, None, who)
        with self.connected(writes=True) as connection:
            if sql.inspect(connection).get_table_names():
                raise CampaignError(f"{self.place}: there is something already")
            METADATA.create_all(connection)
            connection.execute(JOURNAL.insert(), [_cells(self.first)])
            connection.execute(
                SNAPSHOTS.insert(), [_snapshot_cells(0, self.first.digest, snapshot)]
            )

    def open(self) -> None:
        """Read what it is about.

        Raises
        ------
        NoCampaignError
            If there is none, or something else, or one of another version.
        """
        with self.naming():
            there = self.place.look(lambda connection: _check_tables(connection, str(self.place)))
        if not there:
            raise NoCampaignError(f"{self.place}: there is no campaign")
        self.first = next(self.rows(-1, ""))

    # --- reading --------------------------------------------------------------------------------

    def rows(self, after: int, head: str | None = None) -> Iterator[Row]:
        """Return the rows after row `after`, each checked.

        Parameters
        ----------
        after : int
        head : str, optional
            The checksum of row `after`; it is looked up where it is not known.
        """
        after = min(after, 2**62)
        if head is None:
            with self.connected() as connection:
                wanted = sql.select(JOURNAL.c.digest).where(JOURNAL.c.seq == after)
                head = connection.execute(wanted).scalar()
        while head is not None:
            page = self._page(after, head)
            yield from page
            if len(page) < PAGE:
                return
            after, head = page[-1].seq, page[-1].digest

    def _page(self, after: int, head: str) -> list[Row]:
        wanted = sql.select(JOURNAL).where(JOURNAL.c.seq > after).order_by(JOURNAL.c.seq)
        found = []
        with self.connected() as connection:
            for cells in connection.execute(wanted.limit(PAGE)):
                found.append(self._checked(tuple(cells), after, head))
                after, head = found[-1].seq, found[-1].digest
        return found

    def _checked(self, cells: tuple[Any, ...], last: int, before: str) -> Row:
        """Return a row that was read after the row `last` with the checksum `before`."""
        seq, kind, key, who, at, text, digest = cells
        if seq != last + 1:
            raise DamagedCampaignError(
                f"{self.place}: row {last + 1} of the journal is missing: row {seq} is next"
            )
        with reading(f"{self.place}: row {seq} of the journal ({kind!r})"):
            if len(text) > LONGEST_BODY:
                raise ValueError(f"it has {len(text)} characters, and {LONGEST_BODY} are the limit")
            if kind not in KINDS or digest_of(before, *cells[:-1]) != digest:
                raise ValueError("it has another checksum")
            body = json.loads(text)
            if not isinstance(body, dict):
                raise TypeError("its body is no object")
            return Row(seq, kind, key, who, at, body, digest)

    def keyed(self, keys: Sequence[str | None]) -> dict[str, Row]:
        """Return the operations on record under some keys, by them."""
        known = [key for key in keys if key is not None]
        wanted = sql.select(JOURNAL).where(JOURNAL.c.key.in_(known))
        with self.connected() as connection:
            found = connection.execute(wanted).all() if known else []
        with reading(f"{self.place}: a row of the journal"):
            rows = [Row(**{**each._mapping, "body": json.loads(each.body)}) for each in found]
        return {str(row.key): row for row in rows}

    def snapshot(self, seq: int | None = None) -> Snapshot:
        """Return the latest snapshot, or the one after row `seq`."""
        wanted = self._snapshots.order_by(SNAPSHOTS.c.seq.desc()).limit(1)
        (found,) = self._read_snapshots(
            wanted if seq is None else wanted.where(SNAPSHOTS.c.seq == seq)
        )
        return found

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots that are kept, the latest first."""
        return self._read_snapshots(self._snapshots.order_by(SNAPSHOTS.c.seq.desc()))

    @property
    def _snapshots(self) -> sql.Select[Any]:
        # As it lies there: a text in place of bytes is damage, and said so.
        data = sql.type_coerce(SNAPSHOTS.c.data, sql.types.NULLTYPE).label("data")
        return sql.select(*(data if each.name == "data" else each for each in SNAPSHOTS.c))

    def _read_snapshots(self, wanted: sql.Select[Any]) -> list[Snapshot]:
        with self.connected() as connection:
            rows = connection.execute(wanted).all()
        if not rows:
            raise DamagedCampaignError(f"{self.place}: it has no snapshot")
        for row in rows:
            with reading(f"{self.place}: the snapshot after row {row.seq}"):
                if _sum_of(row.seq, row.head, row.data) != row.checksum:
                    raise ValueError("it has another checksum")
        return [Snapshot(str(self.place), row.seq, row.head, row.data, row.made_by) for row in rows]

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Take one's turn to write, which others wait for.

        Raises
        ------
        BusyError
            If it does not come in time.
        StorageError
            If nothing can be written.
        """
        self.check_open()
        with self.naming(), self.place.engine.connect() as connection:
            connection.execution_options(writes=True)
            with self.place.turn(connection, self.patience):
                yield Turn(self, connection)

    @contextmanager
    def connected(self, writes: bool = False) -> Iterator[sql.Connection]:
        """Open a transaction; what the database says of its disk or its server is a `StorageError`."""
        self.check_open()
        with self.naming(), self.place.engine.connect() as connection:
            connection.execution_options(writes=writes)
            with connection.begin():
                yield connection

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
    """Make a store, which is closed where what follows fails."""
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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write what is written inside all or not at all; it is on the disk at the end."""
        with self._store.naming(), self._connection.begin():
            yield

    def append(self, row: Row) -> None:
        """Write a row; it is on the disk on return, or at the end of the transaction."""
        inside = nullcontext() if self._connection.in_transaction() else self.transaction()
        with inside, self._store.naming():
            self._connection.execute(JOURNAL.insert(), [_cells(row)])

    def snapshot(self, seq: int, head: str, data: bytes) -> None:
        """Keep a snapshot after row `seq`, whose checksum is `head`, and the latest ones before it."""
        with self.transaction():
            there = sql.select(SNAPSHOTS.c.seq).where(SNAPSHOTS.c.seq > 0)
            old = self._connection.execute(there.order_by(SNAPSHOTS.c.seq.desc())).scalars().all()
            if seq in old or seq == 0:
                return
            self._connection.execute(SNAPSHOTS.insert(), [_snapshot_cells(seq, head, data)])
            if late := old[KEPT - 1 :]:
                self._connection.execute(SNAPSHOTS.delete().where(SNAPSHOTS.c.seq.in_(late)))


def _cells(row: Row) -> dict[str, Any]:
    return {**vars(row), "body": as_text(row.body)}


def _snapshot_cells(seq: int, head: str, data: bytes) -> dict[str, Any]:
    checksum, at = _sum_of(seq, head, data), datetime.now(UTC).isoformat(timespec="milliseconds")
    cells = {"seq": seq, "head": head, "at": at, "data": data}
    return {**cells, "checksum": checksum, "made_by": __version__}


def _sum_of(seq: int, head: str, data: bytes) -> str:
    return hashlib.sha256(f"{seq} {head} ".encode() + data).hexdigest()


def _named(place: str, error: Exception) -> CampaignError:
    """Return the error of what a database says."""
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


# --- what tells that the tables are there, and nothing besides them -------------------------------


def _check_tables(connection: sql.Connection, place: str) -> bool:
    """Return whether there are tables.

    Raises
    ------
    NoCampaignError
        If they are none of a campaign, or of another version.
    """
    inspector = sql.inspect(connection)
    tables = inspector.get_table_names()
    if not tables:
        return False
    for table in METADATA.sorted_tables:
        there = inspector.get_columns(table.name) if table.name in tables else []
        if {each["name"] for each in there} != {*table.c.keys()}:
            has = describe(sorted(tables))
            raise NoCampaignError(f"{place}: it is no campaign: it has the tables {has}")
    text = connection.execute(sql.select(JOURNAL.c.body).where(JOURNAL.c.seq == 0)).scalar()
    with reading(f"{place}: row 0 of the journal"):
        version = None if text is None else json.loads(text)["schema"]
    if version != SCHEMA:
        raise NoCampaignError(
            f"{place}: its tables are of version {version}, and {SCHEMA} is known"
        )
    if odd := sorted(_foreign_objects(connection)):
        kind, name = odd[0]
        raise NoCampaignError(
            f"{place}: it is no campaign as it was made: it has the {kind} {describe(name)}, and what "
            "stands in a database besides the tables could change what is written; take that out "
            "only if you know where it comes from"
        )
    return True


def _foreign_objects(connection: sql.Connection) -> list[tuple[str, str]]:
    """Return kinds and names of what is in a database and not in one that we have made."""
    if connection.dialect.name == "sqlite":
        tables = [*METADATA.sorted_tables, TOKENS]
        own = {_one_line(str(CreateTable(table).compile(connection))) for table in tables}
        wanted = "SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL"  # indices of keys
        return [
            (str(kind), str(name))
            for kind, name, definition in connection.execute(sql.text(wanted))
            # Statistics are of ANALYZE.
            if _one_line(definition) not in own and name not in ("sqlite_stat1", "sqlite_stat4")
        ]
    ours = ", ".join(f"'{table.name}'" for table in METADATA.sorted_tables)
    wanted = (
        "SELECT 'trigger', tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
        f"WHERE NOT tgisinternal AND relname IN ({ours}) "
        f"UNION ALL SELECT 'rule', rulename FROM pg_rules WHERE tablename IN ({ours})"
    )
    return [(kind, str(name)) for kind, name in connection.execute(sql.text(wanted))]


def _one_line(definition: str) -> str:
    return " ".join(definition.split())
