"""The tables of a campaign: a journal, to which rows are only ever added, and snapshots.

Row 0 of the journal describes the campaign. The checksum of a row covers all of its columns and the
checksum of the row before it, so that a row that was changed, removed, inserted or moved is found; rows
that are missing at the end are found if a snapshot was made after them. The checksums are not
signatures: whoever knows this package can write a journal that says anything. The same code reads and
writes SQLite and PostgreSQL.

Numbers are written as JSON, which restores them to the last bit; those that are not finite are texts.
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

import numpy as np
import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from tvbandits._version import __version__
from tvbandits.campaign.store.databases import Database, database_at
from tvbandits.campaign.store.errors import (
    CampaignError,
    ClosedCampaignError,
    DamagedCampaignError,
    NoCampaignError,
    StorageError,
    report_damage,
)
from tvbandits.io import SavedFile, SavedFileError, get_limit, to_plain
from tvbandits.validation import Array, describe, require

# The version of the tables and of the rows in them; others are refused.
SCHEMA = 8

# Kinds of rows that complete an operation.
OPERATIONS = (
    *("ask", "tell", "drop", "questions", "answer", "correct", "correct_answers", "retract"),
    "sites",
)

# All kinds of rows. An operation that may query the expert is announced as an "intent"; then come each
# "query" with its "reply", and the operation itself or a "failure".
KINDS = {"start", *OPERATIONS, "intent", "query", "reply", "failure"}

# Characters of the body of a row. JSON takes about ten times as much memory when it is parsed.
LONGEST_BODY = 50_000_000

# Rows of the journal that are read at a time.
PAGE = 1_000

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

# The bandit after row `seq`, as a saved file. The first snapshot is the bandit at the start.
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

# Who may use the service of a campaign. This table is created with the first token.
TOKENS = sql.Table(
    "tokens",
    sql.MetaData(),
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("roles", sql.Text, nullable=False),
    sql.Column("sha256", sql.Text, nullable=False, unique=True),
)


# --- the form of rows ------------------------------------------------------------------------


def to_json(body: Mapping[str, Any]) -> str:
    """Return JSON that is the same for equal bodies; numbers that JSON does not have become texts."""
    return json.dumps(to_plain(body, str), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(before: str, *cells: object) -> str:
    """Return the checksum of a row whose predecessor has the checksum `before`."""
    whole = json.dumps([before, *cells], separators=(",", ":"))
    return hashlib.sha256(whole.encode()).hexdigest()


def to_array(values: Any) -> Array:
    """Return numbers of a body as an array; the text "nan" becomes NaN."""
    return np.asarray(values, dtype=np.float64)


def to_points(values: Any, dimension: int) -> Array:
    """Return points (n, d) of a body; arms that were added later are more coordinates, which are 0."""
    X = to_array(values)
    if X.ndim == 2 and 0 < X.shape[1] < dimension:
        return np.pad(X, ((0, 0), (0, dimension - X.shape[1])))
    return X.reshape(-1, dimension)


@dataclass(frozen=True)
class Row:
    """A row of the journal.

    Attributes
    ----------
    seq : int
        The number of the row: 0 of the start, then 1, 2, 3, ...
    kind : str
        One of `KINDS`.
    key : str or None
        The client's name for the operation.
    who, at : str
        Who did it, and when (UTC, ISO 8601).
    body : mapping
        Of an operation: the `payload` of the call, its `resolution` (arguments that replace or complete
        it, such as points for names), the `result`, and the `status` after it.
    digest : str
        The checksum, in hexadecimal digits.
    text : str
        The body of a new row, as it is written.
    """

    seq: int
    kind: str
    key: str | None
    who: str
    at: str
    body: Mapping[str, Any] = field(repr=False)
    digest: str = field(repr=False, default="")
    text: str = field(repr=False, compare=False, default="")

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the bandit's method."""
        return {**self.body["payload"], **self.body["resolution"]}


def next_row(
    last: int, before: str, kind: str, body: Mapping[str, Any], key: str | None, who: str
) -> Row:
    """Return a new row after row `last`, which has the checksum `before`."""
    seq, text, at = last + 1, to_json(body), datetime.now(UTC).isoformat(timespec="milliseconds")
    if len(text) > LONGEST_BODY:
        raise StorageError(
            f"this {kind} has {len(text)} characters, and a row can hold {LONGEST_BODY}: split it up"
        )
    digest = digest_of(before, seq, kind, key, who, at, text)
    return Row(seq, kind, key, who, at, json.loads(text), digest, text)


def check_name(name: str, text: object, longest: int = 500) -> None:
    """Raise a `ValueError` unless this is a printable text of at most `longest` characters."""
    good = isinstance(text, str) and 0 < len(text) <= longest and text.isprintable()
    require(good, name, f"a printable text of 1 to {longest} characters", text)


@dataclass(frozen=True)
class Snapshot:
    """A bandit after row `seq`, the checksum of that row, and the version that made the snapshot."""

    location: str
    seq: int
    head: str
    data: bytes
    made_by: str

    def read(self, trusted: Mapping[str, Any]) -> SavedFile:
        """Return the content; a `SavedFileError` names the campaign."""
        try:
            return SavedFile(self.data, trusted)
        except SavedFileError as error:
            raise SavedFileError(f"{self.location}: the snapshot in it: {error}") from error


class Store:
    """The tables of a campaign in its database.

    Parameters
    ----------
    database : SQLiteFile or PostgreSQLDatabase
    timeout : float
        Seconds to wait for other writers.
    """

    def __init__(self, database: Database, timeout: float = 30.0) -> None:
        self.database, self.timeout = database, timeout
        self._closed = False
        self.first: Row

    def __str__(self) -> str:
        return str(self.database)

    def create(self, about: Mapping[str, Any], snapshot: bytes, who: str) -> None:
        """Write the tables, row 0 and the first snapshot in one transaction.

        Raises
        ------
        CampaignError
            If there is something in the database already.
        """
        with self.translate_errors():
            self.database.create()
        body = {"id": str(uuid.uuid4()), "schema": SCHEMA, **about}
        self.first = next_row(-1, "", "start", body, None, who)
        with self.connect(writes=True) as connection:
            if sql.inspect(connection).get_table_names():
                raise CampaignError(f"{self} already exists")
            METADATA.create_all(connection)
            connection.execute(JOURNAL.insert(), [_row_cells(self.first)])
            first = _snapshot_cells(0, self.first.digest, snapshot)
            connection.execute(SNAPSHOTS.insert(), [first])

    def open(self) -> None:
        """Check the tables and read row 0.

        Raises
        ------
        NoCampaignError
            If there is none, or something else, or one of another version.
        """
        with self.translate_errors():
            exists = self.database.inspect(lambda connection: _check_tables(connection, str(self)))
        if not exists:
            raise NoCampaignError(
                f"{self}: there is no campaign: check the name, or create one first"
            )
        self.first = next(self.rows(-1, ""))

    # --- reading --------------------------------------------------------------------------------

    def rows(self, after: int, head: str | None = None) -> Iterator[Row]:
        """Yield the rows after row `after`, after checking each.

        Parameters
        ----------
        after : int
        head : str, optional
            The checksum of row `after`; by default it is read.
        """
        after = min(after, 2**62)
        if head is None:
            with self.connect() as connection:
                query = sql.select(JOURNAL.c.digest).where(JOURNAL.c.seq == after)
                head = connection.execute(query).scalar()
        while head is not None:
            page = self._page(after, head)
            yield from page
            if len(page) < PAGE:
                return
            after, head = page[-1].seq, page[-1].digest

    def _page(self, after: int, head: str) -> list[Row]:
        query = sql.select(JOURNAL).where(JOURNAL.c.seq > after).order_by(JOURNAL.c.seq)
        rows = []
        with self.connect() as connection:
            for cells in connection.execute(query.limit(PAGE)):
                rows.append(self._parse(tuple(cells), after, head))
                after, head = rows[-1].seq, rows[-1].digest
        return rows

    def _parse(self, cells: tuple[Any, ...], last: int, before: str) -> Row:
        """Return the row that follows the row `last` with the checksum `before`."""
        seq, kind, key, who, at, text, digest = cells
        if seq != last + 1:
            raise DamagedCampaignError(
                f"{self}: row {last + 1} of the journal is missing: row {seq} is next"
            )
        with report_damage(f"{self}: row {seq} of the journal ({kind!r})"):
            if len(text) > LONGEST_BODY:
                raise ValueError(f"it has {len(text)} characters; the limit is {LONGEST_BODY}")
            if kind not in KINDS or digest_of(before, *cells[:-1]) != digest:
                raise ValueError("its checksum differs")
            body = json.loads(text)
            if not isinstance(body, dict):
                raise TypeError("its body is not an object")
            return Row(seq, kind, key, who, at, body, digest)

    def rows_by_key(self, keys: Sequence[str | None]) -> dict[str, Row]:
        """Return the operations in the journal that have one of these keys."""
        keys = [key for key in keys if key is not None]
        query = sql.select(JOURNAL).where(JOURNAL.c.key.in_(keys))
        with self.connect() as connection:
            rows = connection.execute(query).all() if keys else []
        with report_damage(f"{self}: a row of the journal"):
            return {
                str(row.key): Row(**{**row._mapping, "body": json.loads(row.body)}) for row in rows
            }

    def snapshot(self, seq: int | None = None) -> Snapshot:
        """Return the latest snapshot, or the one after row `seq`."""
        query = self._snapshot_query.limit(1)
        if seq is not None:
            query = query.where(SNAPSHOTS.c.seq == seq)
        return self._read_snapshots(query)[0]

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots, the latest first."""
        return self._read_snapshots(self._snapshot_query)

    @property
    def _snapshot_query(self) -> sql.Select[Any]:
        # Read the cell without its type: a text in the place of bytes is reported as damage.
        data = sql.type_coerce(SNAPSHOTS.c.data, sql.types.NULLTYPE).label("data")
        columns = (data if each.name == "data" else each for each in SNAPSHOTS.c)
        return sql.select(*columns).order_by(SNAPSHOTS.c.seq.desc())

    def _read_snapshots(self, query: sql.Select[Any]) -> list[Snapshot]:
        with self.connect() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise DamagedCampaignError(f"{self}: it has no snapshot")
        for row in rows:
            with report_damage(f"{self}: the snapshot after row {row.seq}"):
                if _snapshot_digest(row.seq, row.head, row.data) != row.checksum:
                    raise ValueError("its checksum differs")
        return [Snapshot(str(self), row.seq, row.head, row.data, row.made_by) for row in rows]

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Hold the write lock.

        Raises
        ------
        BusyError
            If other processes write until the timeout.
        StorageError
            If nothing can be written.
        """
        self.check_open()
        with self.translate_errors(), self.database.engine.connect() as connection:
            connection.execution_options(writes=True)
            with self.database.write_lock(connection, self.timeout):
                yield Turn(self, connection)

    @contextmanager
    def connect(self, writes: bool = False) -> Iterator[sql.Connection]:
        """Open a transaction; errors of the database are raised as a `CampaignError`."""
        self.check_open()
        engine = self.database.engine.execution_options(writes=writes)
        with self.translate_errors(), engine.begin() as connection:
            yield connection

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of the database as the `CampaignError` that says what they mean."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            original = error.orig if isinstance(error, DBAPIError) else error
            reason = " ".join(str(original).split())
            if isinstance(error, IntegrityError):
                reason = f"another process has written at the same time: {reason}"
                raise StorageError(f"{self}: {reason}") from error
            if "not a database" in reason:
                raise NoCampaignError(f"{self}: this is not a campaign: {reason}") from error
            if "too big" in reason:
                raise DamagedCampaignError(
                    f"{self}: a cell has more than {get_limit('unpacked_bytes')} bytes; if you trust "
                    "the file, set TVBANDITS_READ_UNPACKED_BYTES to a larger number"
                ) from error
            kind = DamagedCampaignError if "malformed" in reason else StorageError
            raise kind(f"{self}: {reason}") from error

    def backup(self, target: Path) -> None:
        """Copy the campaign to a new file."""
        self.check_open()
        self.database.backup(target)

    def check_open(self) -> None:
        """Raise a `ClosedCampaignError` after `close`."""
        if self._closed:
            raise ClosedCampaignError(f"{self}: the campaign is closed: open it again")

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self.database.engine.dispose()


@contextmanager
def open_store(location: str | os.PathLike[str], timeout: float) -> Iterator[Store]:
    """Return the store of a campaign, which is closed if the block fails."""
    store = Store(database_at(location), timeout)
    try:
        yield store
    except BaseException:
        store.close()
        raise


class Turn:
    """The right to write, which one process has at a time.

    Parameters
    ----------
    store : Store
    connection : sqlalchemy.Connection
    """

    def __init__(self, store: Store, connection: sql.Connection) -> None:
        self._store, self._connection = store, connection
        self._rows: list[dict[str, Any]] = []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything inside the block or nothing; at its end it is on the disk."""
        self._rows = []
        with self._store.translate_errors(), self._connection.begin():
            yield
            if self._rows:
                self._connection.execute(JOURNAL.insert(), self._rows)

    def append(self, row: Row) -> None:
        """Write a row, which is on the disk on return, or at the end of the transaction."""
        with nullcontext() if self._connection.in_transaction() else self.transaction():
            self._rows.append(_row_cells(row))

    def snapshot(self, seq: int, head: str, data: bytes, count: int = 3) -> None:
        """Write a snapshot after row `seq` with the checksum `head`; keep the latest `count` of them.

        One that is there already is replaced; that of the start stays.
        """
        with self.transaction():
            query = sql.select(SNAPSHOTS.c.seq).where(SNAPSHOTS.c.seq > 0)
            old = self._connection.execute(query.order_by(SNAPSHOTS.c.seq.desc())).scalars().all()
            if seq == 0:
                return
            others = [each for each in old if each != seq]
            expired = [*others[count - 1 :], seq]
            self._connection.execute(SNAPSHOTS.delete().where(SNAPSHOTS.c.seq.in_(expired)))
            self._connection.execute(SNAPSHOTS.insert(), [_snapshot_cells(seq, head, data)])


def _row_cells(row: Row) -> dict[str, Any]:
    cells = {name: value for name, value in vars(row).items() if name != "text"}
    return {**cells, "body": row.text}


def _snapshot_cells(seq: int, head: str, data: bytes) -> dict[str, Any]:
    return {
        "seq": seq,
        "head": head,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "data": data,
        "checksum": _snapshot_digest(seq, head, data),
        "made_by": __version__,
    }


def _snapshot_digest(seq: int, head: str, data: bytes) -> str:
    return hashlib.sha256(f"{seq} {head} ".encode() + data).hexdigest()


# --- checking that the database has these tables and nothing else ----------------------------------


def _check_tables(connection: sql.Connection, location: str) -> bool:
    """Return whether there are tables.

    Raises
    ------
    NoCampaignError
        If they are not those of a campaign of this version.
    """
    inspector = sql.inspect(connection)
    tables = inspector.get_table_names()
    if not tables:
        return False
    for table in METADATA.sorted_tables:
        columns = inspector.get_columns(table.name) if table.name in tables else []
        if {each["name"] for each in columns} != {*table.c.keys()}:
            raise NoCampaignError(
                f"{location}: this is not a campaign: it has the tables {describe(sorted(tables))}"
            )
    text = connection.execute(sql.select(JOURNAL.c.body).where(JOURNAL.c.seq == 0)).scalar()
    with report_damage(f"{location}: row 0 of the journal"):
        version = None if text is None else json.loads(text)["schema"]
    if version != SCHEMA:
        raise NoCampaignError(
            f"{location}: its tables have version {version}; this tvbandits reads version {SCHEMA}"
        )
    if foreign := sorted(_foreign_objects(connection)):
        kind, name = foreign[0]
        raise NoCampaignError(
            f"{location}: this is not a campaign as tvbandits makes it: it has the {kind} "
            f"{describe(name)}, which could change rows; remove it only if you know who made it"
        )
    return True


def _foreign_objects(connection: sql.Connection) -> list[tuple[str, str]]:
    """Return kind and name of each object in the database that this package has not made."""
    if connection.dialect.name == "sqlite":
        tables = [*METADATA.sorted_tables, TOKENS]
        own = {_one_line(str(CreateTable(table).compile(connection))) for table in tables}
        query = (
            "SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL"  # NULL: indices of keys
        )
        return [
            (str(kind), str(name))
            for kind, name, definition in connection.execute(sql.text(query))
            # ANALYZE makes tables of statistics.
            if _one_line(definition) not in own and name not in ("sqlite_stat1", "sqlite_stat4")
        ]
    names = ", ".join(f"'{table.name}'" for table in METADATA.sorted_tables)
    query = (
        "SELECT 'trigger', tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
        f"WHERE NOT tgisinternal AND relname IN ({names}) "
        f"UNION ALL SELECT 'rule', rulename FROM pg_rules WHERE tablename IN ({names})"
    )
    return [(kind, str(name)) for kind, name in connection.execute(sql.text(query))]


def _one_line(definition: str) -> str:
    return " ".join(definition.split())
