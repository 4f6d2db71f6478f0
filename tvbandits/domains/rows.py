"""Candidates in blocks: in memory, in a .npy file that is named by its path, or in a Dask array.

Those that are not in memory are read in blocks, when they are looked at. That no two rows are equal is
taken on trust, since nobody sorts all of a large file for it: a row that is there twice is played as if
it were two. Numbers that are not finite are refused as soon as they are read.
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

# Rows of a block, where the source has no blocks of its own.
BLOCK = 65_536


def mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of whole numbers so that every bit depends on every bit.

    It is the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _refuse_as_whole(rows: object, *_: object, **__: object) -> NoReturn:
    """Refuse `len` and conversion to an array, for whoever looks at all candidates at once."""
    raise ValueError(
        "candidates that are not in memory are looked at in blocks, which bbkb, bkb and "
        'gp_ucb(..., options=Options(posterior="nystrom")) do: load them, as in '
        f"Candidates(np.load(path)); got {describe(rows)}"
    )


class Rows(Protocol):
    """Points (A, d) in blocks."""

    @property
    def shape(self) -> tuple[int, int]:
        """(A, d)."""
        ...

    @property
    def sizes(self) -> Sequence[int]:
        """Numbers of rows of the blocks, in their order."""
        ...

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block, of rows counted from its first."""
        ...


@dataclass(frozen=True)
class MemoryRows:
    """Points in memory, in blocks."""

    points: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(A, d)."""
        count, dimension = self.points.shape
        return count, dimension

    @property
    def sizes(self) -> list[int]:
        """All of one size, but for the last."""
        return _sizes(len(self.points))

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block."""
        return self.points[block * BLOCK : (block + 1) * BLOCK][rows]


@dataclass(frozen=True)
class MappedRows:
    """Points in a .npy file that is mapped into memory."""

    path: str
    shape: tuple[int, int]

    __len__ = __array__ = _refuse_as_whole

    @property
    def sizes(self) -> list[int]:
        """All of one size, but for the last."""
        return _sizes(self.shape[0])

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block."""
        about = Path(self.path).stat()  # once the file was written again it is opened again
        points = _map_file(self.path, about.st_mtime_ns, about.st_ino)
        return as_finite_points(points[block * BLOCK : (block + 1) * BLOCK][rows])


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Points in a Dask array, whose chunks are the blocks; the current client computes them."""

    array: Any

    __len__ = __array__ = _refuse_as_whole

    @property
    def shape(self) -> tuple[int, int]:
        """(A, d)."""
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def sizes(self) -> list[int]:
        """Those of the chunks."""
        return list(self.array.chunks[0])

    def read(self, block: int, rows: Index | slice) -> Array:
        """Return points (n, d) of a block."""
        return as_finite_points(np.asarray(self.array.blocks[block][rows].compute()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DaskRows) and self.array.name == other.array.name

    def __hash__(self) -> int:
        return hash(self.array.name)


def rows_outside_memory(X: object) -> MappedRows | DaskRows | None:
    """Return the rows of `Candidates` that are not in memory; None where they are.

    Raises
    ------
    ValueError
        If it is no table of numbers, or a file of a kind that is not read.
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
        about = path.stat()
        points = _map_file(str(path), about.st_mtime_ns, about.st_ino)
        _check_table(points.shape, points.dtype)
        return MappedRows(str(path), points.shape)
    if isinstance(X, np.memmap) and 8 * X.size > _memory():
        raise ValueError(
            "candidates in a memory map must fit into memory, or be named by the path of their .npy "
            f"file; got shape {X.shape}"
        )
    if is_library_instance(X, "dask.array.core", "Array"):
        array: Any = X
        _check_table(array.shape, array.dtype)
        return DaskRows(array.rechunk({0: tuple(filter(None, array.chunks[0])), 1: -1}))
    return None


@lru_cache(maxsize=4)
def _map_file(path: str, *_: int) -> NDArray[Any]:
    try:
        points: NDArray[Any] = np.load(path, mmap_mode="r")
    except OSError:
        raise
    except Exception as error:  # of whatever kind numpy makes of a header, and without the name
        raise ValueError(
            f"candidates in a file must be numbers as np.save writes them, got {describe(path)}"
        ) from error
    return points


def _memory() -> float:
    """Return the bytes of memory of this machine; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def keys_of(X: Array) -> NDArray[np.uint64]:
    """Return a number (n,) for each of points (n, d) without -0.0; equal points have equal ones."""
    key = np.zeros(len(X), dtype=np.uint64)
    for column in X.T:
        key = mix_bits(key ^ np.ascontiguousarray(column).view(np.uint64))
    return key


def _check_table(shape: tuple[Any, ...], kind: np.dtype[Any]) -> None:
    if len(shape) != 2 or not all(n > 0 for n in shape) or kind.kind not in "fiu":
        raise ValueError(f"candidates must be numbers of shape (A, d), got shape {shape} of {kind}")


def as_finite_points(X: NDArray[Any]) -> Array:
    """Return points as floats; `ValueError` names the first that is not finite."""
    points = as_floats(X, "candidates") + 0.0
    for x in points[~np.isfinite(points).all(axis=1)]:  # of some rows of some block
        raise ValueError(f"candidates must be finite, got {x.tolist()}")
    return points


def _sizes(count: int) -> list[int]:
    return [min(BLOCK, count - start) for start in range(0, count, BLOCK)]
