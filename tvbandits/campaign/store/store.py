"""The tables of a campaign: what it is about, its journal, and snapshots."""

from __future__ import annotations

import hashlib
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from tvbandits._version import __version__
from tvbandits.campaign.store.errors import (
    CampaignError,
    DamagedCampaignError,
    NoCampaignError,
    StorageError,
)
from tvbandits.campaign.store.migrations import SCHEMA, migrate, version_in
from tvbandits.campaign.store.places import PostgreSQLPlace, SQLitePlace
from tvbandits.campaign.store.rows import LONGEST_BODY, Row, chained, checked_row
from tvbandits.campaign.store.schema import ABOUT, JOURNAL, METADATA, SNAPSHOTS
from tvbandits.core.files import current_limits

KEPT = 3
"""Snapshots that are kept besides the first."""


@dataclass(frozen=True)
class Snapshot:
    """A bandit after so many rows, the checksum of the last of them, and the version that made it."""

    seq: int
    head: str
    data: bytes
    made_by: str


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
        self.about: Mapping[str, str] = {}

    # --- beginning ------------------------------------------------------------------------------

    def create(self, about: Mapping[str, str], first: bytes) -> None:
        """Make the tables and the first snapshot, in one transaction.

        Raises
        ------
        CampaignError
            If there is something already.
        """
        with self._connected(writes=True) as connection, connection.begin():
            if sql.inspect(connection).get_table_names():
                raise CampaignError(f"{self.place}: there is something already")
            METADATA.create_all(connection)
            whole = {"id": str(uuid.uuid4()), "schema": str(SCHEMA), **about}
            rows = [{"name": name, "value": value} for name, value in whole.items()]
            connection.execute(ABOUT.insert(), rows)
            connection.execute(SNAPSHOTS.insert(), [self._snapshot_row(0, whole["id"], first)])
            self.about = whole

    def open(self) -> None:
        """Read what it is about, brought up to date where it was written by an older version.

        Raises
        ------
        NoCampaignError
            If there is none, or something else, or one of a newer version.
        """
        if not self._exists():
            raise NoCampaignError(f"{self.place}: there is no campaign")
        with self._connected() as connection, connection.begin():
            version = version_in(connection, str(self.place))
        if version < SCHEMA:
            with self.turn() as turn:
                turn.migrate()
        with self._connected() as connection, connection.begin():
            found = connection.execute(sql.select(ABOUT.c.name, ABOUT.c.value)).all()
        self.about = {row.name: row.value for row in found}

    def _exists(self) -> bool:
        with self.naming():
            return self.place.exists()

    # --- reading --------------------------------------------------------------------------------

    def rows(self, after: int, head: str) -> list[Row]:
        """The rows after row `after`, whose checksum is `head`, checked."""
        columns = [
            JOURNAL.c[name] for name in ("seq", "kind", "key", "who", "at", "body", "digest")
        ]
        wanted = sql.select(*columns).where(JOURNAL.c.seq > after).order_by(JOURNAL.c.seq)
        found = []
        with self._connected() as connection, connection.begin():
            for cells in connection.execute(wanted):
                row = checked_row(tuple(cells), after, head)
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

    def keyed(self, key: str) -> Row | None:
        """The operation on record under a key."""
        columns = [
            JOURNAL.c[name] for name in ("seq", "kind", "key", "who", "at", "body", "digest")
        ]
        wanted = sql.select(*columns).where(JOURNAL.c.key == key)
        before = sql.select(JOURNAL.c.digest)
        with self._connected() as connection, connection.begin():
            cells = connection.execute(wanted).first()
            if cells is None:
                return None
            head = connection.execute(before.where(JOURNAL.c.seq == cells[0] - 1)).scalar()
        return checked_row(tuple(cells), cells[0] - 1, head or self.about["id"])

    def snapshot(self, first: bool = False) -> Snapshot:
        """The latest snapshot, or the first."""
        order = SNAPSHOTS.c.seq.asc() if first else SNAPSHOTS.c.seq.desc()
        with self._connected() as connection, connection.begin():
            row = connection.execute(sql.select(SNAPSHOTS).order_by(order).limit(1)).first()
        if row is None:
            raise DamagedCampaignError(f"{self.place}: it has no snapshot")
        return self._checked_snapshot(row)

    def snapshots(self) -> list[Snapshot]:
        """All that are kept, in their order."""
        with self._connected() as connection, connection.begin():
            found = connection.execute(sql.select(SNAPSHOTS).order_by(SNAPSHOTS.c.seq)).all()
        return [self._checked_snapshot(row) for row in found]

    def _checked_snapshot(self, row: Any) -> Snapshot:
        if _sum_of(row.seq, row.head, row.data) != row.checksum:
            raise DamagedCampaignError(
                f"{self.place}: the snapshot after row {row.seq} is not as it was written"
            )
        return Snapshot(row.seq, row.head, row.data, row.made_by)

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
        with (
            self._connected(writes=True) as connection,
            self.place.turn(connection, self.patience),
        ):
            yield Turn(self, connection)

    @contextmanager
    def _connected(self, writes: bool = False) -> Iterator[sql.Connection]:
        """A connection; what the database says of its disk or its server is a `StorageError`."""
        with self.naming(), self.place.engine.connect() as connection:
            yield connection.execution_options(writes=writes)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Turn what a database says into an error that says what it means."""
        try:
            yield
        except IntegrityError as error:
            raise StorageError(
                f"{self.place}: somebody else has written at the same time: {_reason(error)}"
            ) from error
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise _named(str(self.place), error) from error

    def close(self) -> None:
        """Close what is open."""
        self.place.close()


class Turn:
    """One's turn to write.

    Parameters
    ----------
    store : Store
    connection : sqlalchemy.Connection
    """

    def __init__(self, store: Store, connection: sql.Connection) -> None:
        self._store, self._connection = store, connection

    def append(self, last: int, head: str, new: Sequence[tuple[Any, ...]]) -> list[Row]:
        """Write rows of (kind, key, who, body) after row `last`; they are on the disk on return."""
        rows, cells = [], []
        for kind, key, who, body in new:
            row = Row(last + 1, kind, key, who, now(), body)
            text = row.text
            if len(text) > LONGEST_BODY:
                raise StorageError(
                    f"{self._store.place}: {kind} has {len(text)} characters, and a row takes "
                    f"{LONGEST_BODY}: do it in parts"
                )
            head = chained(head, row, text)
            last = row.seq
            rows.append(Row(row.seq, kind, key, who, row.at, body, head))
            cells.append(
                {"seq": row.seq, "kind": kind, "key": key, "who": who, "at": row.at, "body": text,
                 "digest": head}
            )  # fmt: skip
        with self._store.naming(), self._connection.begin():
            self._connection.execute(JOURNAL.insert(), cells)
        return rows

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

    def migrate(self) -> None:
        """Bring the tables up to date, in one transaction."""
        with self._connection.begin():
            migrate(self._connection, str(self._store.place))


def _sum_of(seq: int, head: str, data: bytes) -> str:
    return hashlib.sha256(f"{seq} {head} ".encode() + data).hexdigest()


def _reason(error: Exception) -> str:
    inner = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(inner).split())


def _named(place: str, error: Exception) -> CampaignError:
    """The name of what a database says."""
    reason = _reason(error)
    if "not a database" in reason:
        return NoCampaignError(f"{place}: it is no campaign: {reason}")
    if "too big" in reason:
        most = current_limits().unpacked_bytes
        return DamagedCampaignError(
            f"{place}: a cell has more than {most} bytes; if the file is to be trusted, open it within "
            "reading_limits(unpacked_bytes=...)"
        )
    if "malformed" in reason:
        return DamagedCampaignError(f"{place}: {reason}")
    return StorageError(f"{place}: {reason}")
