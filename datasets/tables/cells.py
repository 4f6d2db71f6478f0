"""Numbers in cells as spreadsheets and laboratories write them: −5, 1 012,5, <0.5 and 12.5 ppb."""

from __future__ import annotations

import re
from collections.abc import Collection

import pandas as pd

from tvbandits.option_text import format_option

_MINUS = re.compile(r"[−–](?=[.,]?\d)")
# A space (of any width), or an apostrophe, which separates all thousands.
_BETWEEN = " \u00a0\u2009\u202f'’"
_MARKS = f"−–{_BETWEEN}"
_GROUPED = rf"[1-9]\d{{0,2}}([{_BETWEEN}])\d{{3}}(?:\1\d{{3}})*(?:[.,]\d*)?"
_NUMBER = re.compile(rf"[-+]?(?:{_GROUPED}|[\d.,]*\d[.,]?)(?:[eE][-+]?\d+)?")

_LIMIT = re.compile(r"(?:([<≤])|[>≥])\s*=?\s*([-+]?[\d.,]*\d)")
_WITH_WORD = re.compile(r"[-+]?[\d.,]*\d\s*([^\W\d]\D*|[%°*].*)")
_WITH_FLAG = re.compile(r"[-+]?[\d.,]*\d\s*([(\[].*[)\]]|[*#?!])")
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
# Tenths of a degree with a quality code, as in NOAA's hourly files; the comma is no decimal comma.
WITH_CODE = re.compile(r"[-+]0\d{3},\w")
_WITH_COMMA = re.compile(r"[-+]?\d[\d.]*,\d+")


def simplify_numbers(frame: pd.DataFrame, names: Collection[str] = ()) -> pd.DataFrame:
    """Return a frame whose numbers have an ASCII minus and no spaces or apostrophes.

    Parameters
    ----------
    frame : DataFrame of str
    names : collection of str
        Columns of names, which are not changed; nor is the first column.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.cells import simplify_numbers
    >>> frame = pd.DataFrame({"t": ["1", "2"], "a": ["−1 012,5", "5–7"]})
    >>> print(simplify_numbers(frame)["a"].tolist())
    ['-1012,5', '5–7']
    """
    frame = frame.copy()
    for i in range(1, frame.shape[1]):
        if frame.columns[i] in names:
            continue
        cells = frame.iloc[:, i]
        all_text = "".join(
            cells.tolist()
        )  # a check of each cell would take as long as reading the file
        if any(mark in all_text for mark in _MARKS):
            texts = {cell: _plain_number(cell) for cell in cells.unique()}
            frame.isetitem(i, [texts[cell] for cell in cells])
    return frame


def _plain_number(cell: str) -> str:
    """Return the text of a number with an ASCII minus and no spaces; any other text unchanged."""
    text = _MINUS.sub("-", cell.strip())
    return re.sub(f"[{_BETWEEN}]", "", text) if _NUMBER.fullmatch(text) else cell


def remedy_for_cell(cell: object) -> str:
    """Return a remedy, for a message, for a cell that is not a number.

    Examples
    --------
    >>> from tvbandits.datasets.tables.cells import remedy_for_cell
    >>> print(remedy_for_cell("12.5 ppb").partition(",")[0])
    if 'ppb' is a unit
    """
    text = str(cell).strip()
    missing = format_option("missing", text)
    if WITH_CODE.fullmatch(text):
        return "if a value and a mark of quality stand in this cell, write them into two columns"
    if _CLOCK.fullmatch(text):
        return f"if it is a time of day, name its columns by {format_option('time', 'DATE+CLOCK')}"
    if flag := _WITH_FLAG.fullmatch(text):
        return (
            f"if {flag[1]!r} is a flag, write flags into a column of their own; if this one stands for "
            f"no reading, say {missing}"
        )
    if _WITH_COMMA.fullmatch(text):
        return f"say {format_option('decimal', 'comma')} or {format_option('decimal', 'point')}"
    if limit := _LIMIT.fullmatch(text):
        number = f"half of {limit[2]}" if limit[1] else limit[2]
        side = "below" if limit[1] else "above"
        return (
            f"it is {side} the limit of detection: write a number for it, such as {number}, or leave it "
            f"out by {missing}"
        )
    if word := _WITH_WORD.fullmatch(text):
        return (
            f"if {word[1]!r} is a unit, remove it from all cells; if this one stands for no reading, "
            f"say {missing}"
        )
    return f"if it stands for no reading, say {missing}"
