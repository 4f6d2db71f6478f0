"""Reading files of tables: what goes wrong is one line that names the file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd


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
