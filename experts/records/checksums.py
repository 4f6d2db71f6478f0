"""Checksums of rows: what was written is what is read, or there is an error that names the row.

A row's checksum covers the name of its table and every column but the checksum. The checksums of a table
are also summed up, modulo 2^128, and the sum is kept with the number of rows in the table `seals`: a row
that is missing, or there twice, makes another sum. The sum is the same in whatever order rows come, and
a new row costs one addition.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from tvbandits.core.protocols import ExpertError

Cell = int | float | str | None
"""What a column of a recording may hold."""


MODULUS = 2**128


class DamagedRecordingError(ExpertError, ValueError):
    """A recording holds something else than what was written to it."""


def checksum(table: str, cells: Iterable[object]) -> str:
    """Of one row: 32 hexadecimal digits.

    Raises
    ------
    TypeError
        If a cell is of a kind that a recording does not hold.
    """
    digest = blake2b(table.encode(), digest_size=16)
    for cell in cells:
        digest.update(_bytes(cell))
    return digest.hexdigest()


def _bytes(cell: object) -> bytes:
    """A cell with its kind and its length, so that no two rows give the same bytes."""
    if cell is None:
        return b"n"
    if isinstance(cell, float):
        return b"f" + struct.pack("<d", cell)
    if isinstance(cell, int):
        return b"i" + struct.pack("<q", cell)
    if isinstance(cell, str):
        text = cell.encode()
        return b"s" + struct.pack("<q", len(text)) + text
    raise TypeError(f"a cell of a recording cannot be {type(cell).__name__}")


def is_whole(table: str, row: Sequence[object]) -> bool:
    """Whether a row, whose last cell is its checksum, is as it was written."""
    try:
        return bool(row[-1] == checksum(table, row[:-1]))
    except (TypeError, struct.error, UnicodeError):
        return False


def added(total: str, new: str, old: str | None = None) -> str:
    """The sum of checksums after one was added, in the place of another where that is given."""
    value = int(total, 16) + int(new, 16) - (0 if old is None else int(old, 16))
    return f"{value % MODULUS:032x}"
