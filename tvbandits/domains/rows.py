"""Candidates in blocks: in memory, in a .npy file, or in a Dask array.

Candidates that are not in memory are read block by block whenever they are needed. They are not checked
to be distinct, as that would require sorting a large file: a repeated row counts as two candidates.
Numbers that are not finite are refused when they are read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from tvbandits.validation import Array, Index, as_floats, describe, is_library_instance

# The number of rows of a block, unless the source has blocks of its own.
BLOCK = 65_536


def mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return whole numbers whose bits each depend on all bits of the input.

    This is the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _refuse_conversion(rows: object, *_: object, **__: object) -> NoReturn:
    """Raise a `ValueError` for `len` and for the conversion of all candidates to one array."""
    raise ValueError(
        "candidates that are not in memory are read in blocks, which only bbkb, bkb and "
        'gp_ucb(..., options=Options(posterior="nystrom")) do: load them, as in '
        f"Candidates(np.load(path)); got {describe(rows)}"
    )


class Rows(Protocol):
    """A table of points (A, d) in blocks."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return (A, d)."""
        ...

    @property
    def sizes(self) -> Sequence[int]:
        """Return the number of rows of each block."""
        ...

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block, by their rows within the block."""
        ...


@dataclass(frozen=True)
class MemoryRows:
    """A table of points in memory."""

    points: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Return (A, d)."""
        count, dimension = self.points.shape
        return count, dimension

    @property
    def sizes(self) -> list[int]:
        """Return the number of rows of each block."""
        return _block_sizes(len(self.points))

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block."""
        return self.points[block * BLOCK : (block + 1) * BLOCK][rows]


@dataclass(frozen=True)
class MappedRows:
    """A table of points in a .npy file that is mapped into memory."""

    path: str
    shape: tuple[int, int]

    __len__ = __array__ = _refuse_conversion

    @property
    def sizes(self) -> list[int]:
        """Return the number of rows of each block."""
        return _block_sizes(self.shape[0])

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block."""
        status = Path(self.path).stat()  # if the file has changed, it is opened again
        points = _map_file(self.path, status.st_mtime_ns, status.st_ino)
        return as_finite_points(points[block * BLOCK : (block + 1) * BLOCK][rows])


@dataclass(frozen=True, eq=False)
class DaskRows:
    """A table of points in a Dask array, whose chunks the current client computes as blocks."""

    array: Any

    __len__ = __array__ = _refuse_conversion

    @property
    def shape(self) -> tuple[int, int]:
        """Return (A, d)."""
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def sizes(self) -> list[int]:
        """Return the number of rows of each chunk."""
        return list(self.array.chunks[0])

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block."""
        return as_finite_points(np.asarray(self.array.blocks[block][rows].compute()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DaskRows) and self.array.name == other.array.name

    def __hash__(self) -> int:
        return hash(self.array.name)


def open_rows(X: object) -> MappedRows | DaskRows | None:
    """Return the blocks of candidates in a file or a Dask array; None for candidates in memory.

    Raises
    ------
    ValueError
        If `X` is not a table of numbers, or not a .npy file.
    """
    if isinstance(X, MappedRows | DaskRows):
        return X
    if isinstance(X, str | os.PathLike):
        path = Path(X).absolute()
        if path.suffix != ".npy":
            raise ValueError(
                f"candidates in a file must be .npy, got {describe(X)}; a table is converted by "
                'np.save("points.npy", pd.read_parquet(path).to_numpy(float)), or pd.read_csv(path)'
            )
        status = path.stat()
        points = _map_file(str(path), status.st_mtime_ns, status.st_ino)
        _check_table(points.shape, points.dtype)
        return MappedRows(str(path), points.shape)
    if isinstance(X, np.memmap) and 8 * X.size > _get_memory_size():
        raise ValueError(
            "candidates in a memory map must fit into memory: give the path of their .npy file "
            f"instead; got shape {X.shape}"
        )
    if is_library_instance(X, "dask.array.core", "Array"):
        array: Any = X
        _check_table(array.shape, array.dtype)
        return DaskRows(array.rechunk({0: tuple(filter(None, array.chunks[0])), 1: -1}))
    return None


@lru_cache(maxsize=4)
def _map_file(path: str, *_: int) -> NDArray[Any]:
    """Return the array of a .npy file, mapped into memory; further arguments identify its version."""
    try:
        points: NDArray[Any] = np.load(path, mmap_mode="r")
    except OSError:
        raise
    except Exception as error:  # numpy raises errors of many types, without the file's name
        raise ValueError(
            f"candidates in a file must be numbers as np.save writes them, got {describe(path)}"
        ) from error
    return points


def _get_memory_size() -> float:
    """Return the bytes of memory of this machine, or infinity if they are unknown."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def hash_rows(X: Array) -> NDArray[np.uint64]:
    """Return hashes (n,) of points (n, d) without -0.0; equal points have equal hashes."""
    hashes = np.zeros(len(X), dtype=np.uint64)
    for column in X.T:
        hashes = mix_bits(hashes ^ np.ascontiguousarray(column).view(np.uint64))
    return hashes


def _check_table(shape: tuple[Any, ...], dtype: np.dtype[Any]) -> None:
    """Raise a `ValueError` unless shape and type are those of a table of numbers."""
    if len(shape) != 2 or not all(n > 0 for n in shape) or dtype.kind not in "fiu":
        raise ValueError(
            f"candidates must be numbers of shape (A, d), got shape {shape} of {dtype}"
        )


def as_finite_points(X: NDArray[Any]) -> Array:
    """Return points as floats; a `ValueError` shows the first that is not finite."""
    points = as_floats(X, "candidates") + 0.0
    for x in points[~np.isfinite(points).all(axis=1)]:  # the row number in the table is unknown
        raise ValueError(f"candidates must be finite, got {x.tolist()}")
    return points


def _block_sizes(count: int) -> list[int]:
    """Return the sizes of blocks of `count` rows, all equal but for the last."""
    return [min(BLOCK, count - start) for start in range(0, count, BLOCK)]
