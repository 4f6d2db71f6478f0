"""How kinds of tables spell their columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


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
