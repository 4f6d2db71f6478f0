"""Reading files of tables: what goes wrong is one line that names the file."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

File = str | os.PathLike[str]


@dataclass(frozen=True)
class Form:
    """How one kind of file spells our columns: our name -> spellings, the usual one first."""

    required: dict[str, tuple[str, ...]]
    optional: dict[str, tuple[str, ...]]

    def match(self, header: Iterable[str]) -> dict[str, str]:
        """Our names of the columns a header has -> the header's own spelling."""
        spelled = {_plain(column): column for column in header}
        return {
            ours: next(spelled[_plain(theirs)] for theirs in known if _plain(theirs) in spelled)
            for ours, known in {**self.required, **self.optional}.items()
            if any(_plain(theirs) in spelled for theirs in known)
        }

    def missing(self, header: Iterable[str]) -> list[str]:
        """Usual spelling of the required columns that a header lacks."""
        found = self.match(header)
        return [known[0] for ours, known in self.required.items() if ours not in found]


def _plain(column: str) -> str:
    """A header without the differences of case and punctuation between the forms."""
    return re.sub(r"[^0-9a-z]+", "_", column.lower()).strip("_")


def few(values: Iterable[str], most: int = 8) -> str:
    """The first few different values, for a message."""
    different = sorted(set(values))
    shown = ", ".join(repr(value) for value in different[:most])
    return shown if len(different) <= most else f"{shown}, ... ({len(different)} in all)"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn what reading a file may raise into a `ValueError` of one line that names it and why."""
    try:
        yield
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path}: the file is empty") from None
    except OSError as error:
        reason = " ".join((error.strerror or str(error)).split())
        raise ValueError(f"{path}: {reason}") from None
    except (ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = " ".join(str(error).split())  # parser errors can run over several lines
        raise ValueError(f"{path}: {reason}") from None


def is_parquet(path: Path) -> bool:
    """Whether a file is in the Parquet format, by its first bytes or its name."""
    with path.open("rb") as file:
        start = file.read(4)
    return start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")


def read_parquet(path: Path) -> pd.DataFrame:
    """The table of a Parquet file; a `ValueError` says what to install where that cannot be read."""
    try:
        return pd.read_parquet(path)
    except ImportError as error:
        raise ValueError(
            'reading Parquet needs pyarrow: pip install "tvbandits[parquet]"'
        ) from error
