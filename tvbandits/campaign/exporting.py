"""A journal as a table: one row a point, for a spreadsheet or for another program."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from tvbandits.campaign.naming import Names
from tvbandits.campaign.store.errors import CampaignError
from tvbandits.campaign.store.rows import Row, points_of

WHAT = {
    "asked": "asked",
    "told": "told",
    "dropped": "dropped",
    "questions": "question",
    "answers": "answer",
    "consulted": "bought",
    "corrected": "corrected",
    "retracted": "retracted",
}
"""What a row of the table says, by the kind of row of the journal."""


def table_of(journal: Sequence[Row], names: Names) -> pd.DataFrame:
    """A row for each point: row of the journal, what, when, who, key, time, point, value, variance.

    Parameters
    ----------
    journal : sequence of Row
    names : Names
        Of the coordinates, or of the parameters of a space.
    """
    head = ["row", "what", "at", "who", "key", "time"]
    rows = [cells for row in journal if row.kind in WHAT for cells in _cells(row, names)]
    frame = pd.DataFrame(rows, columns=[*head, *names.coordinates, "value", "variance"])
    numbers = ("time", *names.coordinates, "value", "variance")
    floats = {name: "float64" for name in numbers if name not in names.words}
    return frame.astype({"row": "int64", **floats})


def _cells(row: Row, names: Names) -> Iterator[list[Any]]:
    body = row.body
    X = points_of(row)
    values = body.get("y") or body.get("values") or []
    for i, x in enumerate(X):
        yield [
            row.seq,
            WHAT[row.kind],
            row.at,
            row.who,
            row.key,
            _of(body.get("t"), i),
            *names.values(x),
            _of(values, i) if values else None,
            _of(body.get("variance"), i),
        ]


def _of(values: Any, i: int) -> Any:
    """One for all, or one each."""
    if isinstance(values, list):
        return float(values[i]) if i < len(values) else None
    return None if values is None else float(values)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """A table as CSV or Parquet, by the name of the file; wholly or not at all.

    Raises
    ------
    CampaignError
        If the name says neither, or what writes Parquet is not there.
    OSError
        If it cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise CampaignError(f"{path}: export to a name that ends in .csv or .parquet")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=suffix, dir=path.parent)
    os.close(handle)
    try:
        if suffix == ".csv":
            frame.to_csv(name, index=False)
        else:
            frame.to_parquet(name, index=False)
        Path(name).replace(path)
    except ImportError as error:
        raise CampaignError(
            f'{path}: Parquet needs pyarrow: pip install "tvbandits[parquet]"'
        ) from error
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
