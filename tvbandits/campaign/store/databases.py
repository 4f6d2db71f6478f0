"""The databases that can hold a campaign: an SQLite file, or a PostgreSQL database given by its URL."""

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

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from tvbandits.campaign.store.errors import BusyError, CampaignError, NoCampaignError, StorageError
from tvbandits.io import limit_cells, name_file_in_errors, replace_file
from tvbandits.validation import file_path

# Ways to open a file. The first reads it as it is and creates no file beside it.
IMMUTABLE, READ, WRITE, CREATE = "mode=ro&immutable=1", "mode=ro", "mode=rw", "mode=rwc"

# A commit waits for the disk, so that a power cut loses nothing. Tests, which none hits, do not wait.
SYNCHRONOUS = "FULL"

# Endings of the files that SQLite keeps beside a database, and of the lock of those who write.
SQLITE_ENDINGS = ("-wal", "-shm", "-journal")
LOCK_ENDING = "-turn"


class SQLiteFile:
    """A campaign in an SQLite file.

    The file is in WAL mode, so that readers never wait for a writer, and every commit is synced to the
    disk (synchronous = FULL). Writers hold an exclusive lock on a second, empty database beside the
    file, `FILE-turn`, over several transactions; the system releases the lock if its holder dies.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Resolve links now: the same file is meant whatever the working directory is later.
        with name_file_in_errors(path):
            self._file = path.resolve()
        creator = partial(_connect, self._file)
        self.engine = sql.create_engine(
            "sqlite://", creator=creator, poolclass=sql.QueuePool, max_overflow=50
        )
        sql.event.listen(self.engine, "begin", _begin)
        # Close the file if nobody else does. The engine has no reference to `self` that would keep it.
        weakref.finalize(self, self.engine.dispose)

    def __str__(self) -> str:
        return str(self.path)

    def inspect(self, read: Callable[[sql.Connection], int]) -> int:
        """Return what `read` finds in the file, or 0 if there is no file; change nothing."""
        if not self._file.exists():
            return 0
        if not self._file.is_file():
            raise NoCampaignError(f"{self}: this is not a file")
        creator = partial(_open, self._file, READ if _in_use(self._file) else IMMUTABLE)
        engine = sql.create_engine("sqlite://", creator=creator, poolclass=sql.NullPool)
        with engine.connect() as connection:
            return read(connection)

    def create(self) -> None:
        """Create an empty database, unless there is anything but an empty file."""
        if not self._file.parent.is_dir():
            raise NoCampaignError(f"there is no folder {str(self.path.parent)!r}")
        if self._file.exists() and self._file.stat().st_size:
            count = sql.text("SELECT count(*) FROM sqlite_master")
            if self.inspect(lambda connection: connection.execute(count).scalar() or 0):
                raise CampaignError(f"{self} already exists")
        else:
            check_neighbours(self._file)
        _open(self._file, CREATE).close()

    @contextmanager
    def write_lock(self, connection: sql.Connection, timeout: float) -> Iterator[None]:  # noqa: ARG002
        """Hold the lock of the database beside the file."""
        path = Path(f"{self._file}{LOCK_ENDING}")
        try:
            lock = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StorageError(f"{self}: cannot write beside it: {error}") from error

        def acquire() -> bool:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error) or "busy" in str(error):
                    return False
                raise StorageError(f"{path}: {error}") from error
            return True

        try:
            _wait(acquire, timeout, str(self))
            yield
        finally:
            lock.close()

    def backup(self, target: Path) -> None:
        """Copy the file as of one moment to a new file, completely or not at all."""

        def write(draft: Path) -> None:
            with closing(_connect(self._file)) as source, closing(sqlite3.connect(draft)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")

        if os.path.lexists(target):
            raise CampaignError(f"{target} already exists")
        check_file_name(target)
        check_neighbours(target)
        try:
            replace_file(target, write, durable=True, replaces=lambda _: False)
        except FileExistsError as error:
            raise CampaignError(f"{target} already exists") from error
        except OSError as error:
            raise StorageError(f"{target}: cannot be written: {error.strerror or error}") from error
        except sqlite3.Error as error:
            raise StorageError(f"{target}: cannot be written: {error}") from error


def _in_use(file: Path) -> bool:
    """Return whether a process has the file open, or was killed while it had."""
    return Path(f"{file}-wal").exists()


def _connect(file: Path) -> sqlite3.Connection:
    """Open a file for writing, or as it is if the disk is read-only."""
    try:
        return _open(file, WRITE)
    except sqlite3.OperationalError:
        if not file.exists() or os.access(file, os.W_OK):
            raise
        return _open(file, READ if _in_use(file) else IMMUTABLE)


def _open(file: Path, mode: str) -> sqlite3.Connection:
    """Open a file in one of the modes above, and check that it is a database."""
    connection = sqlite3.connect(
        f"{file.as_uri()}?{mode}",
        uri=True,
        timeout=5.0,
        isolation_level=None,
        check_same_thread=False,
    )
    # Invalid text is found by its checksum, or where it is parsed.
    connection.text_factory = _decode
    try:
        if mode in (WRITE, CREATE):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        connection.execute("PRAGMA trusted_schema = OFF")
        limit_cells(connection)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException as error:
        connection.close()
        if isinstance(error, UnicodeDecodeError):  # SQLite quotes what it cannot read
            raise sqlite3.DatabaseError("malformed database schema") from error
        raise
    return connection


def check_file_name(path: Path) -> None:
    """Raise a `CampaignError` if SQLite would take a file of this name for a part of a database."""
    endings = (*SQLITE_ENDINGS, LOCK_ENDING)
    if path.name.endswith(endings):
        raise CampaignError(
            f"{path}: names that end in {', '.join(endings)} are reserved for parts of databases"
        )


def check_neighbours(path: Path) -> None:
    """Raise a `CampaignError` if there are files that SQLite would take for parts of a new database."""
    for ending in SQLITE_ENDINGS:
        if os.path.lexists(f"{path}{ending}"):
            raise CampaignError(
                f"{path}{ending} already exists, and would be taken for a part of {path}"
            )


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _begin(connection: sql.Connection) -> None:
    # A writer takes the lock at once, so that it does not fail in the middle of its transaction.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _wait(acquire: Callable[[], bool], timeout: float, name: str, interval: float = 0.02) -> None:
    """Try every `interval` seconds to acquire a lock, until the timeout."""
    end = time.monotonic() + timeout
    while not acquire():
        if time.monotonic() >= end:
            raise BusyError(
                f"{name}: other processes were writing for longer than {timeout:g} s; try again, or "
                "set a longer timeout"
            )
        time.sleep(interval)


class PostgreSQLDatabase:
    """A campaign in a database of a PostgreSQL server; writers hold one of its advisory locks.

    The lock belongs to the connection that writes: if one is lost, so is the other.

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
                f'{self}: a campaign on a server needs psycopg: pip install "tvbandits[postgresql]" '
                f"({error})"
            ) from error
        number = hashlib.sha256(b"tvbandits campaign").digest()[:8]
        self._lock = int.from_bytes(number, "big", signed=True)

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def inspect(self, read: Callable[[sql.Connection], int]) -> int:
        """Return what `read` finds in the database; change nothing."""
        with self.engine.connect() as connection:
            return read(connection)

    def create(self) -> None:
        """Do nothing: the database must exist already."""

    def backup(self, target: Path) -> None:  # noqa: ARG002
        """Raise a `CampaignError`."""
        raise CampaignError(
            f"{self}: copy a campaign on a server by the server's own tool, pg_dump"
        )

    @contextmanager
    def write_lock(self, connection: sql.Connection, timeout: float) -> Iterator[None]:
        """Hold an advisory lock of the server on this connection."""
        lock = sql.text("SELECT pg_try_advisory_lock(:n)")
        unlock = sql.text("SELECT pg_advisory_unlock(:n)")

        def acquire() -> bool:
            with connection.begin():
                return bool(connection.execute(lock, {"n": self._lock}).scalar())

        _wait(acquire, timeout, str(self))
        try:
            yield
        finally:
            # A lost connection has lost its lock already.
            with suppress(DBAPIError), connection.begin():
                connection.execute(unlock, {"n": self._lock})


Database = SQLiteFile | PostgreSQLDatabase


def database_at(location: str | os.PathLike[str]) -> Database:
    """Return the database at a path, `sqlite:///path` or `postgresql://user@host/database`.

    Raises
    ------
    NoCampaignError
        If the URL is that of something else.
    ValueError
        If it is neither a path nor a URL.
    """
    if not (isinstance(location, str) and "://" in location):
        return SQLiteFile(file_path("location", location))
    try:
        url = sql.make_url(location)
    except ArgumentError as error:
        raise NoCampaignError(f"{location!r} is not a URL of a database") from error
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return SQLiteFile(Path(url.database))
    if kind in ("postgresql", "postgres"):
        return PostgreSQLDatabase(url.set(drivername="postgresql+psycopg"))
    raise NoCampaignError(
        f"a campaign is stored in a file or on a PostgreSQL server, got {location!r}"
    )
