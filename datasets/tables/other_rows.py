"""Rows of a table without readings: units below the names, sums, and words at the end."""

from __future__ import annotations

import re

import pandas as pd

from tvbandits.clock import is_date_text

# Texts for a missing reading, in lower case.
GAPS = {
    *("", "na", "nan", "n/a", "#n/a", "null", "none", "<na>", "nat", "-", "--", "---", "–", "—"),
    *("−", "no data", "missing", "unavailable", "unknown"),
}

# The unit of a time in a line of units, such as Campbell's "TS", or "dd.mm.yyyy hh:mm".
_UNIT_OF_TIME = re.compile(r"TS|UTC|h|s|min|\W*[yYjJtTdD]{2,4}\W.*")

# A cell of the line with the width of each column in tables of the USGS, such as 20d.
_WIDTH = re.compile(r"\d+[dsn]")

# An offset from UTC, whose digits are not those of a date.
_OFFSET = re.compile(r"\W*(UTC|GMT)?\s*[+-]\s*\d\d?(:\d\d)?\W*")


def find_unit_lines(cells: pd.DataFrame, time: int | None) -> list[int]:
    """Return the lines of units directly below the names, which have only words, and no time.

    The first line of units may have any word in the column of times, such as "[MEZ]".

    Parameters
    ----------
    cells : DataFrame of str
    time : int, optional
        The position of the column of times. None: it may be the first column.
    """
    lines = list[int]()
    for line, row in cells.head(3).iterrows():
        texts = row.str.strip().to_list()
        time_unit = texts.pop(time or 0)
        if any(map(_is_number, (time_unit, *texts))) or time_unit.casefold() in GAPS - {""}:
            break
        if re.search(r"\d", time_unit) and not _OFFSET.fullmatch(time_unit):
            break
        is_first = time is not None and not lines
        has_word = any(text.casefold() not in GAPS for text in texts)
        if time_unit and not _UNIT_OF_TIME.fullmatch(time_unit) and not (is_first and has_word):
            break
        lines.append(int(str(line)))
    return lines


def find_width_lines(cells: pd.DataFrame) -> list[int]:
    """Return the line below the names with the widths of columns, as in tables of the USGS."""
    return [
        int(str(line))
        for line, row in cells.head(1).iterrows()
        if all(_WIDTH.fullmatch(cell.strip()) for cell in row)
    ]


def find_end_lines(cells: pd.DataFrame) -> list[int]:
    """Return the last lines with only one cell, in the first column, which is no time, such as "End"."""
    lines = list[int]()
    for line, row in cells[::-1].iterrows():
        first_cell, *others = row.str.strip()
        if any(others) or not others or re.search(r"\d", first_cell):
            break
        lines.append(int(str(line)))
    return lines


def find_sum_lines(cells: pd.DataFrame, time: int | None) -> list[int]:
    """Return the last lines with a word in the column of times, and numbers: means or sums.

    There are none unless every line above them has digits in the column of times.

    Parameters
    ----------
    cells : DataFrame of str
        Cells without lines of units.
    time : int, optional
        The position of the column of times. None: the result is empty, as for a table of sites.
    """
    if time is None:
        return []
    texts = cells.iloc[:, time].str.strip()
    end = len(texts)
    while end and _is_word(texts.iloc[end - 1]):
        end -= 1
    if end == 0 or not texts.iloc[:end].str.contains(r"\d").all():
        return []
    has_number = cells.iloc[end:].apply(lambda row: row.str.contains(r"\d").any(), axis=1)
    return [int(line) for line in cells.index[end:][has_number]] if end < len(cells) else []


def _is_word(cell: str) -> bool:
    is_text = re.search(r"[^\W\d_]|[Ø∑Σ]", cell) is not None and not re.search(r"\d", cell)
    return is_text and cell.casefold() not in GAPS and not is_date_text(cell)


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[.,]*\d[\d.,]*([eE][-+]?\d+)?", cell) is not None
