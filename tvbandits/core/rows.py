"""Candidates that stand elsewhere: in a .npy or Parquet file that is named, or in a Dask array.

They are read in blocks, when they are looked at. That no two rows are equal is taken on trust, since
nobody sorts all of a large file for it: a row that is there twice is played as if it were two. Numbers
that are not finite are refused as soon as they are read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from tvbandits.core.arrays import Array, Index, as_floats, mixed
from tvbandits.core.coercion import is_of, shown

# What the names of Parquet's kinds of numbers begin with.
NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")

# Rows of a block, where the source has no blocks of its own.
BLOCK = 65_536


def _not_held(rows: object, *_: object, **__: object) -> NoReturn:
    """In the place of `len` and of a whole array, for whoever looks at all candidates at once."""
    raise ValueError(
        "candidates that are not in memory are looked at in blocks, which bbkb, bkb and "
        'gp_ucb(..., posterior="nystrom") do: load them, as in Candidates(np.load(path)); '
        f"got {shown(rows)}"
    )


# Reads points (n, d) of one block, of rows counted from the first of the block; it can travel to
# where it is wanted.
BlockReader = Callable[[Index | slice], Array]


class Rows(Protocol):
    """Points (A, d) that are not in memory; equal if they stand in the same place."""

    @property
    def shape(self) -> tuple[int, int]:
        """(A, d)."""
        ...

    @property
    def sizes(self) -> Sequence[int]:
        """Numbers of rows of the blocks, in their order."""
        ...

    def block(self, number: int) -> BlockReader:
        """What reads a block."""
        ...


@dataclass(frozen=True)
class HeldRows:
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

    def block(self, number: int) -> BlockReader:
        """What reads a block."""
        points = self.points[number * BLOCK : (number + 1) * BLOCK]
        return lambda rows: np.asarray(points[rows])


@dataclass(frozen=True)
class MappedRows:
    """Points in a file that is mapped into memory, row after row.

    Parameters
    ----------
    place : (str, int)
        The file, and where in it they begin.
    kind : str
        The kind of its numbers.
    shape : (int, int)
    """

    place: tuple[str, int]
    kind: str
    shape: tuple[int, int]

    __len__ = __array__ = _not_held

    @property
    def sizes(self) -> list[int]:
        """All of one size, but for the last."""
        return _sizes(self.shape[0])

    def block(self, number: int) -> BlockReader:
        """What reads a block."""
        return partial(_of_mapped, self, number * BLOCK)


def _of_mapped(mapped: MappedRows, start: int, rows: Index | slice) -> Array:
    return finite(_mapped(mapped, _version(mapped.place[0]))[start : start + BLOCK][rows])


@dataclass(frozen=True)
class ParquetRows:
    """Points in a Parquet file: every column is a coordinate, every row group with rows a block."""

    path: str
    shape: tuple[int, int]
    sizes: tuple[int, ...]

    __len__ = __array__ = _not_held

    def block(self, number: int) -> BlockReader:
        """What reads a block."""
        return partial(_of_group, self.path, number)


def _of_group(path: str, group: int, rows: Index | slice) -> Array:
    return _row_group(path, group, _version(path))[rows]


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Points in a Dask array, whose chunks are the blocks; they stay on the workers of a cluster."""

    array: Any

    __len__ = __array__ = _not_held

    @property
    def shape(self) -> tuple[int, int]:
        """(A, d)."""
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def sizes(self) -> list[int]:
        """Those of the chunks."""
        return list(self.array.chunks[0])

    def block(self, number: int) -> BlockReader:
        """What reads a block."""
        return partial(_of_chunk, self.array.blocks[number])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DaskRows) and self.array.name == other.array.name

    def __hash__(self) -> int:
        return hash(self.array.name)


def _of_chunk(chunk: Any, rows: Index | slice) -> Array:
    return finite(np.asarray(chunk[rows].compute()))


def rows_elsewhere(X: object) -> MappedRows | ParquetRows | DaskRows | None:
    """What `Candidates` was given, if it is not in memory.

    Raises
    ------
    ValueError
        If it is no table of numbers, or a file of a kind that is not read.
    """
    if isinstance(X, MappedRows | ParquetRows | DaskRows):
        return X
    if isinstance(X, str | os.PathLike):
        suffix = Path(X).suffix
        if suffix == ".parquet":
            return _parquet_rows(str(Path(X).absolute()))
        if suffix != ".npy":
            raise ValueError(f"candidates in a file must be .npy or .parquet, got {shown(X)}")
        return _mapped_rows(Path(X).absolute())
    if isinstance(X, np.memmap) and 8 * X.size > _memory():
        raise ValueError(
            "candidates in a memory map must fit into memory, or be named by the path of their .npy "
            f"file; got shape {X.shape}"
        )
    if is_of(X, "dask.array.core", "Array"):
        array: Any = X
        _check_table(array.shape, array.dtype)
        return DaskRows(array.rechunk({0: tuple(filter(None, array.chunks[0])), 1: -1}))
    return None


def _mapped_rows(path: Path) -> MappedRows:
    try:
        X = np.load(path, mmap_mode="r")
    except OSError:
        raise
    except Exception as error:  # of whatever kind numpy makes of a header, and without the name
        raise ValueError(
            f"candidates in a file must be numbers as np.save writes them, got {shown(path)}"
        ) from error
    _check_table(X.shape, X.dtype)
    if not X.flags.c_contiguous:
        raise ValueError("candidates in a mapped file must stand there row after row")
    return MappedRows((str(path), X.offset), X.dtype.str, X.shape)


def _memory() -> float:
    """Bytes of memory of this machine; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def keys_of(X: Array) -> NDArray[np.uint64]:
    """A number (n,) for each of points (n, d) without -0.0: equal ones have equal numbers."""
    key = np.zeros(len(X), dtype=np.uint64)
    for column in X.T:
        key = mixed(key ^ np.ascontiguousarray(column).view(np.uint64))
    return key


def _check_table(shape: tuple[Any, ...], kind: np.dtype[Any]) -> None:
    if len(shape) != 2 or not all(n > 0 for n in shape) or kind.kind not in "fiu":
        raise ValueError(f"candidates must be numbers of shape (A, d), got shape {shape} of {kind}")


def finite(X: NDArray[Any]) -> Array:
    """Points as floats; `ValueError` names the first that is not finite."""
    points = as_floats(X, "candidates") + 0.0
    for x in points[~np.isfinite(points).all(axis=1)]:  # of some rows of some block
        raise ValueError(f"candidates must be finite, got {x.tolist()}")
    return points


def _sizes(count: int) -> list[int]:
    return [min(BLOCK, count - start) for start in range(0, count, BLOCK)]


def _version(path: str) -> tuple[int, int]:
    """Another one once a file was written again: what was read before does not stand for it."""
    about = Path(path).stat()
    return about.st_mtime_ns, about.st_ino


@lru_cache(maxsize=4)
def _mapped(rows: MappedRows, version: tuple[int, int]) -> NDArray[Any]:  # noqa: ARG001
    path, offset = rows.place
    return np.memmap(path, np.dtype(rows.kind), "r", offset, rows.shape)


def _parquet_rows(path: str) -> ParquetRows:
    file = parquet_file(path)
    for column in file.schema_arrow:
        if not str(column.type).startswith(NUMBERS):
            given = f"{shown(column.name)} of {column.type}"
            raise ValueError(f"candidates in a file must be numbers, got column {given}")
    sizes = tuple(filter(None, _sizes_of_groups(file.metadata)))
    shape = (sum(sizes), len(file.schema_arrow))
    _check_table(shape, np.dtype(float))
    return ParquetRows(path, shape, sizes)


def _sizes_of_groups(about: Any) -> list[int]:
    return [about.row_group(i).num_rows for i in range(about.num_row_groups)]


def parquet_file(path: str | os.PathLike[str]) -> Any:
    """A Parquet file, by pyarrow; a `ValueError` says what to install where that is not there."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError('Parquet needs pyarrow: pip install "tvbandits[parquet]"') from error
    try:
        return ParquetFile(path)
    except ValueError as error:  # whose words do not say which file
        raise ValueError(f"{shown(os.fspath(path))} is no Parquet file") from error


@lru_cache(maxsize=1)
def _row_group(path: str, group: int, version: tuple[int, int]) -> Array:  # noqa: ARG001
    """A block, of which several looks follow each other."""
    file = parquet_file(path)
    full = [number for number, size in enumerate(_sizes_of_groups(file.metadata)) if size]
    columns = file.read_row_group(full[group]).columns
    return finite(np.column_stack([column.to_numpy() for column in columns]))
