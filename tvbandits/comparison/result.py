"""What a comparison returns: its rows, and the tables that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import pandas as pd

from tvbandits.comparison.summary import Row, paired, summarise

MARKS = str.maketrans({each: rf"\{each}" for each in "&%$#_{}"})
r"""What LaTeX reads as its own; no name of a policy or a problem holds ~, ^ or a backslash."""

IN_PRINT = {
    "problem": "problem",
    "policy": "policy",
    "seeds": "seeds",
    "horizon": "steps",
    "average_regret": "average regret",
    "average_regret_ci95": r"95\% $\pm$",
    "last_fifth_regret": "last fifth",
}
"""Columns of the summary that are shown, with their headings in LaTeX."""


class ComparisonResult(Sequence[Row]):
    r"""The rows of a comparison: each is played when it is wanted first, and kept.

    Iterating plays as it goes. `len`, `print` and the tables play all there is to play; the `repr` plays
    nothing.

    Parameters
    ----------
    rows : iterable of dict

    Examples
    --------
    >>> from tvbandits import compare
    >>> from tvbandits.datasets import DriftingBump
    >>> result = compare(DriftingBump(candidates=51, horizon=20), ["uniform", "eps-greedy"], seeds=2)
    >>> print(len(result), result[-1]["t"], len(result[:5]))
    80 20 5
    >>> print(result.to_frame()["regret"].shape, result.summary()["policy"].to_list())
    (80,) ['uniform', 'eps-greedy']
    >>> print(result.to_latex().splitlines()[0])
    \begin{tabular}{llrrrrr}
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._coming = iter(rows)
        self._rows: list[Row] = []
        self._error: Exception | None = None

    def _played(self, count: int | None = None) -> list[Row]:
        """The first `count` rows, as far as there are so many, or all."""
        try:
            while count is None or len(self._rows) < count:
                if self._error is not None:
                    raise self._error
                self._rows.append(next(self._coming))
        except StopIteration:
            pass
        except Exception as error:
            # Raised again whenever more is wanted: `list` passes over a TypeError of `len`.
            self._error = error
            raise
        return self._rows

    def __len__(self) -> int:
        return len(self._played())

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> ComparisonResult: ...

    def __getitem__(self, place: int | slice) -> Row | ComparisonResult:
        """A row, or the rows of a slice; from the front no more is played than it takes."""
        if isinstance(place, slice):
            ends = place.start or 0, place.stop, place.step or 1
            ahead = None not in ends and min(ends) >= 0
            return ComparisonResult(self._played(place.stop if ahead else None)[place])
        return self._played(place + 1 if place >= 0 else None)[place]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {len(self._rows)} rows played so far>"

    def __str__(self) -> str:
        return self._shown().to_string(index=False, float_format="{:.3f}".format)

    def _repr_html_(self) -> str:
        return str(self._shown().to_html(index=False, float_format="{:.3f}".format))

    def _shown(self) -> pd.DataFrame:
        return self.summary()[list(IN_PRINT)]

    def to_frame(self) -> pd.DataFrame:
        """All rows."""
        return pd.DataFrame(self._played())

    def summary(self) -> pd.DataFrame:
        """A line for each problem and policy: `tvbandits.comparison.summary.summarise`."""
        return summarise(self.to_frame())

    def paired(self, reference: str | None = None) -> pd.DataFrame:
        """Differences to one policy, or each problem's best: `tvbandits.comparison.summary.paired`."""
        return paired(self.to_frame(), reference)

    def to_latex(self) -> str:
        """The summary as a `tabular` with the rules of the package booktabs."""
        lines = [" & ".join(IN_PRINT.values())]
        lines += [" & ".join(map(_cell, line)) for line in self._shown().itertuples(index=False)]
        head, *body = [rf"{line} \\" for line in lines]
        kinds = "".join("l" if name in ("problem", "policy") else "r" for name in IN_PRINT)
        rules = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head, r"\midrule", *body]
        return "\n".join([*rules, r"\bottomrule", r"\end{tabular}", ""])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "--" if value != value else f"{value:.3f}"
    return str(value).translate(MARKS)
