"""Where a campaign may lie: a SQLite file, or a database of a PostgreSQL server by its URL."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from tvbandits.campaign.store.errors import BusyError, CampaignError, NoCampaignError, StorageError
from tvbandits.io import limit_cells, naming, replace_file
from tvbandits.validation import file_path

# How a file is opened: as it stands, which leaves nothing beside it; with its log; to be written.
STILL, READ, WRITE, CREATE = "mode=ro&immutable=1", "mode=ro", "mode=rw", "mode=rwc"

# Files of SQLite's beside a database, and the lock of those who write.
BESIDE = ("-wal", "-shm", "-journal", "-turn")

# Seconds between two looks at a lock that others hold.
POLL = 0.02


class SQLitePlace:
    """A file.

    It is in WAL mode, so that readers never wait for a writer, and what is committed is synced to the
    disk (synchronous = FULL). Writers hold an exclusive lock of a second, empty database beside it,
    `FILE-turn`, over several transactions of the first; the system lets it go when its holder dies.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # One file, whatever it is called and wherever the process goes; a loop of links is none.
        with naming(path):
            self._file = path.resolve()
        creator = partial(_connect, self._file)
        self.engine = sql.create_engine(
            "sqlite://", creator=creator, poolclass=sql.QueuePool, max_overflow=50
        )
        sql.event.listen(self.engine, "begin", _begin)
        # For whoever does not close it; the engine does not refer to the place, and so does not keep it.
        weakref.finalize(self, self.engine.dispose)

    def __str__(self) -> str:
        return str(self.path)

    def look(self, read: Callable[[sql.Connection], int]) -> int:
        """What `read` makes of the file as it stands, with its log where it has one; 0 of none."""
        if not self._file.exists():
            return 0
        if not self._file.is_file():
            raise NoCampaignError(f"{self}: it is no file")
        creator = partial(_open, self._file, READ if _in_use(self._file) else STILL)
        engine = sql.create_engine("sqlite://", creator=creator, poolclass=sql.NullPool)
        with engine.connect() as connection:
            return read(connection)

    def begin(self) -> None:
        """An empty database, where there is nothing but perhaps an empty file."""
        if not self._file.parent.is_dir():
            raise NoCampaignError(f"there is no folder {str(self.path.parent)!r}")
        if self._file.exists() and self._file.stat().st_size:
            count = sql.text("SELECT count(*) FROM sqlite_master")
            if self.look(lambda connection: connection.execute(count).scalar() or 0):
                raise CampaignError(f"{self}: there is something already")
        else:
            check_beside(self._file)
        _open(self._file, CREATE).close()

    @contextmanager
    def turn(self, connection: sql.Connection, patience: float) -> Iterator[None]:  # noqa: ARG002
        """The lock of the database beside it."""
        beside = Path(f"{self._file}-turn")
        try:
            # No file is written but this one, and nothing is written to it.
            lock = sqlite3.connect(
                beside, timeout=0.0, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise StorageError(f"{self}: cannot write beside it: {error}") from error
        try:
            _wait(lambda: _locked(lock, beside), patience, str(self))
            yield
        finally:
            lock.close()

    def backup(self, target: Path) -> None:
        """A copy at one moment, whoever writes meanwhile: in a new file, wholly or not at all."""

        def write(draft: Path) -> None:
            with closing(_connect(self._file)) as source, closing(sqlite3.connect(draft)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")

        if os.path.lexists(target):
            raise CampaignError(f"{target}: there is something already")
        check_name(target)
        check_beside(target)
        try:
            replace_file(target, write, durable=True, replaces=lambda _: False)
        except FileExistsError as error:
            raise CampaignError(str(error)) from error
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{target}: cannot be written: {reason_of(error)}") from error


def _in_use(file: Path) -> bool:
    """Return whether somebody has a file open, or was killed while he had."""
    return Path(f"{file}-wal").exists()


def _connect(file: Path) -> sqlite3.Connection:
    """Open a file to be written, or as it stands where the disk cannot be written."""
    try:
        return _open(file, WRITE)
    except sqlite3.OperationalError:
        if not file.exists() or os.access(file, os.W_OK):
            raise
        return _open(file, READ if _in_use(file) else STILL)


def _open(file: Path, mode: str) -> sqlite3.Connection:
    """Open a file in one of the modes above, and look whether it is a database."""
    connection = sqlite3.connect(
        f"{file.as_uri()}?{mode}",
        uri=True,
        timeout=5.0,
        isolation_level=None,
        check_same_thread=False,
    )
    # A text that is none is found by its checksum, or where it is read.
    connection.text_factory = _text
    try:
        if mode in (WRITE, CREATE):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
        limit_cells(connection)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException as error:
        connection.close()
        if isinstance(error, UnicodeDecodeError):  # SQLite says what it cannot read, as it is
            raise sqlite3.DatabaseError("malformed database schema") from error
        raise
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def check_name(path: Path) -> None:
    """Raise a `CampaignError` if a file of that name would be taken for a part of a database."""
    if path.name.endswith(BESIDE):
        raise CampaignError(f"{path}: names that end in {', '.join(BESIDE)} are parts of databases")


def check_beside(path: Path) -> None:
    """Raise a `CampaignError` if a new database would meet the rest of another one."""
    for end in BESIDE[:3]:
        if os.path.lexists(f"{path}{end}"):
            raise CampaignError(
                f"{path}{end} is there already, and would be taken for a part of {path}"
            )


def reason_of(error: Exception) -> str:
    """What an error says of its reason, in one line."""
    inner = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
    return " ".join(str(inner).split())


def _begin(connection: sql.Connection) -> None:
    # Who is going to write says so at the start, instead of finding out in the middle.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _locked(lock: sqlite3.Connection, beside: Path) -> bool:
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            return False
        raise StorageError(f"{beside}: {error}") from error
    return True


def _wait(attempt: Any, patience: float, what: str) -> None:
    """Try until it works, or until the time is up."""
    end = time.monotonic() + patience
    while not attempt():
        if time.monotonic() >= end:
            raise BusyError(
                f"{what}: others were writing for longer than {patience:g} s; try again, or give more "
                "patience"
            )
        time.sleep(POLL)


class PostgreSQLPlace:
    """A database of a PostgreSQL server; writers hold one of its advisory locks.

    The lock belongs to the connection that is written by: where one is lost, so is the other.

    Parameters
    ----------
    url : sqlalchemy.URL
    """

    def __init__(self, url: sql.URL) -> None:
        self.url = url
        try:
            self.engine = sql.create_engine(url, pool_pre_ping=True, pool_size=2)
        except (ImportError, NoSuchModuleError) as error:
            raise NoCampaignError(
                f'{self}: a campaign there needs psycopg: pip install "tvbandits[postgresql]" '
                f"({error})"
            ) from error
        number = hashlib.sha256(b"tvbandits campaign").digest()[:8]
        self._lock = int.from_bytes(number, "big", signed=True)

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def look(self, read: Callable[[sql.Connection], int]) -> int:
        """What `read` makes of a connection, which changes nothing."""
        with self.engine.connect() as connection:
            return read(connection)

    def begin(self) -> None:
        """A database is there already."""

    def backup(self, target: Path) -> None:  # noqa: ARG002
        """Refuse it."""
        raise CampaignError(f"{self}: a server's campaign is copied by its own tools: pg_dump")

    @contextmanager
    def turn(self, connection: sql.Connection, patience: float) -> Iterator[None]:
        """An advisory lock of the server, for this connection."""
        take = sql.text("SELECT pg_try_advisory_lock(:n)")
        give = sql.text("SELECT pg_advisory_unlock(:n)")

        def attempt() -> bool:
            with connection.begin():
                return bool(connection.execute(take, {"n": self._lock}).scalar())

        _wait(attempt, patience, str(self))
        try:
            yield
        finally:
            # A connection that is lost has lost its lock already.
            with suppress(DBAPIError), connection.begin():
                connection.execute(give, {"n": self._lock})


def place_of(place: str | os.PathLike[str]) -> SQLitePlace | PostgreSQLPlace:
    """A path, `sqlite:///path`, or `postgresql://user@host/database`.

    Raises
    ------
    NoCampaignError
        If it is the URL of something else.
    ValueError
        If it is neither a path nor a URL.
    """
    if not (isinstance(place, str) and "://" in place):
        return SQLitePlace(file_path("place", place))
    text = place
    try:
        url = sql.make_url(text)
    except ArgumentError as error:
        raise NoCampaignError(f"{text!r} is no URL of a database") from error
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return SQLitePlace(Path(url.database))
    if kind in ("postgresql", "postgres"):
        return PostgreSQLPlace(url.set(drivername="postgresql+psycopg"))
    raise NoCampaignError(f"a campaign lies in a file or on a PostgreSQL server, got {text!r}")
