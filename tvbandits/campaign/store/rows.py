"""Rows of the journal: what happened, who did it and when, chained by checksums.

The checksum of a row covers every column and the checksum of the row before it, so that a row that was
changed, taken out, put in or moved is found. Rows at the end that are missing are found where a snapshot
was made after them.

Numbers are JSON's, which come back to the last bit; those that are not finite are texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvbandits.campaign.store.errors import DamagedCampaignError, reading
from tvbandits.core.arrays import Array
from tvbandits.core.files.journal import as_text, digest_of, numbers

DONE = ("asked", "told", "dropped", "questions", "answers", "corrected", "retracted", "sites")
"""Kinds of rows that are a whole operation by themselves, or end one."""

FIELDS = {
    "asked": {"t", "n", "among", "got"},
    "told": {"X", "y", "t", "variance", "got"},
    "dropped": {"X", "got"},
    "questions": {"t", "among", "got"},
    "answers": {"X", "values", "t", "variance", "got"},
    "corrected": {"X", "y", "t", "variance", "to", "got"},
    "retracted": {"X", "t", "got"},
    "sites": {"said", "names", "X", "given", "retire", "back", "got"},
    "meant": {"kind", "given", "key"},
    "consulting": {"X", "t"},
    "consulted": {"X", "t", "knows"},
    "failed": {"error"},
}
"""All kinds, and what their bodies have at least.

What may need the expert is `meant` first; then come its questions, and its answers.
"""


LONGEST_BODY = 50_000_000
"""Characters of the body of a row, which is JSON and takes ten times as much once it is read."""


@dataclass(frozen=True)
class Row:
    """A row of the journal.

    Attributes
    ----------
    seq : int
        1, 2, 3, ...
    kind : str
        One of `FIELDS`.
    key : str or None
        The client's name for the operation.
    who, at : str
        Who did it, and when (UTC, ISO 8601).
    body : mapping
        What was given, and what came of it.
    digest : str
        The checksum, in hexadecimal digits.
    """

    seq: int
    kind: str
    key: str | None
    who: str
    at: str
    body: Mapping[str, Any] = field(repr=False)
    digest: str = field(repr=False, default="")

    @property
    def text(self) -> str:
        """The body as it is stored."""
        return as_text(self.body)


def chained(before: str, row: Row, text: str) -> str:
    """The checksum that a row should have, after the one that has `before`."""
    return digest_of(before, row.seq, row.kind, row.key, row.who, row.at, text)


def checked_row(place: str, cells: tuple[Any, ...], last: int, before: str) -> Row:
    """A row as it was read at a place, after the row `last` with the checksum `before`.

    Raises
    ------
    DamagedCampaignError
        If it is not as it was written, or another one should come first.
    """
    seq, kind, key, who, at, text, digest = cells
    row = Row(seq, kind, key, who, at, {}, digest)
    if seq != last + 1:
        raise DamagedCampaignError(
            f"{place}: row {last + 1} of the journal is missing: row {seq} is next"
        )
    with reading(f"{place}: row {seq} of the journal ({kind!r})"):
        if len(text) > LONGEST_BODY:
            raise ValueError(f"it has {len(text)} characters, and {LONGEST_BODY} are the limit")
        if kind not in FIELDS or chained(before, row, text) != digest:
            raise ValueError("it has another checksum")
        body = json.loads(text)
        if not isinstance(body, dict) or not FIELDS[kind] <= body.keys():
            raise ValueError(f"it needs {sorted(FIELDS[kind])}")
        return Row(seq, kind, key, who, at, body, digest)


def points_of(row: Row) -> list[Any]:
    """The points that a row speaks about: those it was given, or else those that were chosen."""
    found: list[Any] = row.body.get("X") or row.body.get("got") or []
    return found


def optional(values: Any) -> Array | None:
    """A column out of a body, where there is one."""
    return None if values is None else numbers(values)


def points(values: Any, dimension: int) -> Array:
    """Points (n, d) out of a body; arms that were added since are coordinates more, which are 0."""
    X = numbers(values)
    if X.ndim == 2 and 0 < X.shape[1] < dimension:
        return np.pad(X, ((0, 0), (0, dimension - X.shape[1])))
    return X.reshape(-1, dimension)


def outcomes_in(given: Mapping[str, Any]) -> dict[str, Array] | None:
    """What a row says of further outcomes, by name."""
    said = given.get("outcomes")
    return None if said is None else {name: numbers(values) for name, values in said.items()}
