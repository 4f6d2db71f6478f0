"""Rows of a table that hold no readings: units below the names, sums and a word at the end."""

from __future__ import annotations

import re

import pandas as pd

from tvbandits.clock import is_date_text

# Texts of no reading, in small letters.
GAPS = {
    *("", "na", "nan", "n/a", "#n/a", "null", "none", "<na>", "nat", "-", "--", "---", "–", "—"),
    *("−", "no data", "missing"),
}

# What stands for the unit of a time in lines of units, "TS" of Campbell or "dd.mm.yyyy hh:mm".
_UNIT_OF_TIME = re.compile(r"TS|UTC|h|s|min|\W*[yYjJtTdD]{2,4}\W.*")

# A cell of the line in which the USGS says how wide each column is: 20d.
_WIDTH = re.compile(r"\d+[dsn]")

# An offset from UTC, whose digits are no date.
_OFFSET = re.compile(r"\W*(UTC|GMT)?\s*[+-]\s*\d\d?(:\d\d)?\W*")


def unit_lines(cells: pd.DataFrame, time: int | None) -> list[int]:
    """Return the lines right below the names that hold words alone, and no time: units.

    The first of them may have any word above the times, such as "[MEZ]".

    Parameters
    ----------
    cells : DataFrame of str
    time : int, optional
        The place of the column of times; None: it may be the first.
    """
    lines = list[int]()
    for line, row in cells.head(3).iterrows():
        texts = row.str.strip().to_list()
        above = texts.pop(time or 0)
        if any(map(_is_number, (above, *texts))) or above.casefold() in GAPS - {""}:
            break
        if re.search(r"\d", above) and not _OFFSET.fullmatch(above):
            break
        is_first = time is not None and not lines
        has_word = any(each.casefold() not in GAPS for each in texts)
        if above and not _UNIT_OF_TIME.fullmatch(above) and not (is_first and has_word):
            break
        lines.append(int(str(line)))
    return lines


def width_lines(cells: pd.DataFrame) -> list[int]:
    """Return the line below the names that says how wide each column is, as in tables of the USGS."""
    return [
        int(str(line))
        for line, row in cells.head(1).iterrows()
        if all(_WIDTH.fullmatch(each.strip()) for each in row)
    ]


def end_lines(cells: pd.DataFrame) -> list[int]:
    """Return the last lines with a cell in the first column alone, which is no time: "End"."""
    lines = list[int]()
    for line, row in cells[::-1].iterrows():
        first, *others = row.str.strip()
        if any(others) or not others or re.search(r"\d", first):
            break
        lines.append(int(str(line)))
    return lines


def sum_lines(cells: pd.DataFrame, time: int | None) -> list[int]:
    """Return the last lines with a word in the column of times and numbers beside it: means, sums.

    There are none unless each line above them has digits in that column, as times have.

    Parameters
    ----------
    cells : DataFrame of str
        Without units.
    time : int, optional
        The place of the column of times; without one, as in a table of sites, there are no such lines.
    """
    if time is None:
        return []
    texts = cells.iloc[:, time].str.strip()
    last = len(texts)
    while last and _is_word(texts.iloc[last - 1]):
        last -= 1
    if last == 0 or not texts.iloc[:last].str.contains(r"\d").all():
        return []
    has_number = cells.iloc[last:].apply(lambda row: row.str.contains(r"\d").any(), axis=1)
    return [int(line) for line in cells.index[last:][has_number]] if last < len(cells) else []


def _is_word(cell: str) -> bool:
    is_text = re.search(r"[^\W\d_]|[Ø∑Σ]", cell) is not None and not re.search(r"\d", cell)
    return is_text and cell.casefold() not in GAPS and not is_date_text(cell)


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[.,]*\d[\d.,]*([eE][-+]?\d+)?", cell) is not None
