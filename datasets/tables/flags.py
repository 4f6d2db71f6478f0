"""Columns of quality flags, and the choice of rows and readings by the cells of a column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.datasets.tables.headings import as_id, simplify_heading
from tvbandits.datasets.tables.layout import FileOptions
from tvbandits.option_text import format_option

# Words of headings, in the form of `simplify_heading`, for columns of quality flags.
_WORDS = (
    "flags?|quality|qc|qa|qaqc|qualifier|quality_code|status|validity|grade|qualitat|qualitaet|"
    "guete|gute|qualite"
)
_FLAG = re.compile(_WORDS)
_HAS_FLAG = re.compile(f"(^|_)({_WORDS})(_|$)")
_BESIDE = re.compile(f"(?P<before>.+)_(?:{_WORDS})|(?:{_WORDS})_(?P<after>.+)")
MOST_FLAGS = 20  # a column with more different texts contains remarks


def is_flag_heading(heading: object) -> bool:
    """Return whether a word of a heading means a quality flag."""
    return _HAS_FLAG.search(simplify_heading(heading)) is not None


def find_flag_columns(columns: Iterable[object]) -> dict[int, int | None]:
    """Return the positions of columns of flags in a wide table, with that of the station of each.

    The heading of such a column is that of a station with a word such as "flag"; or it is such a word
    alone. If the word stands there once, it has the flag of all readings of a row (None); if it repeats,
    each column has the flags of the column on its left.

    Examples
    --------
    >>> from tvbandits.datasets.tables.flags import find_flag_columns
    >>> find_flag_columns(["time", "Nord", "Nord_QC", "Ost", "Ost_QC"])
    {2: 1, 4: 3}
    >>> find_flag_columns(["time", "Nord", "flag", "Ost", "flag"])
    {2: 1, 4: 3}
    >>> find_flag_columns(["time", "Nord", "Ost", "flag"])
    {3: None}
    """
    names = [simplify_heading(column) for column in columns]
    positions = {name: i for i, name in reversed([*enumerate(names)])}
    counts, flags = Counter(names), dict[int, int | None]()
    for i, name in enumerate(names):
        match = _BESIDE.fullmatch(name)
        station = positions.get((match["before"] or match["after"]) if match else "")
        if _FLAG.fullmatch(name) and i:
            flags[i] = i - 1 if counts[name] > 1 else None
        elif station is not None and station != i:
            flags[i] = station
    return flags


def count_flags(cells: pd.Series[Any]) -> str:
    """Return how often each flag occurs in some cells, or "" if there is one flag, or are remarks."""
    texts = cells.map(as_id)
    counts = texts[texts != ""].value_counts()
    if not 2 <= len(counts) <= MOST_FLAGS:
        return ""
    return ", ".join(f"{flag} {count}" for flag, count in counts.items())


def describe_column(name: str, cells: pd.Series[Any], where: str) -> str:
    """Return a note on a column of flags, with the option that keeps some readings, or "".

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.flags import describe_column
    >>> print(describe_column("qc", pd.Series(["1", "1", "4"]), "column qc"))
    column qc (1 2, 4 1; FileOptions(keep=['qc=1']) keeps these alone)
    """
    counts = count_flags(cells)
    if not counts:
        return ""
    first = cells.map(as_id).replace("", np.nan).value_counts().index[0]
    return f"{where} ({counts}; {format_option('keep', f'{name}={first}')} keeps these alone)"


def _selected_cells(options: FileOptions) -> Mapping[str, list[str]]:
    """Return the cells to keep by the column of each, with both as the user writes them."""
    cells = dict[str, list[str]]()
    for text in options.keep:
        name, _, cell = text.partition("=")
        cells.setdefault(name.strip(), []).append(cell)
    return cells


def _is_one_of(cells: pd.Series[Any], texts: Iterable[str]) -> pd.Series[bool]:
    """Return a mask of the cells that are one of some texts, whatever their case."""
    return cells.map(as_id).str.casefold().isin([as_id(each).casefold() for each in texts])


def select_readings(
    cells: pd.DataFrame, options: FileOptions, *, is_wide: bool
) -> tuple[pd.DataFrame, list[str], str]:
    """Return the cells to read, in words what the option `keep` leaves out, and a note on flags.

    A wide table is returned without its columns of flags. A reading with another flag is a gap.

    Raises
    ------
    ValueError
        If `keep` names a column that does not exist, or no reading is left.
    """
    flags = find_flag_columns(cells.columns) if is_wide else {}
    if len(flags) + 1 >= cells.shape[1]:
        flags = {}
    words = {i: _word(cells.columns[i]) for i in flags}
    names = {
        simplify_heading(name): i
        for i, name in reversed([*enumerate(cells.columns)])
        if i not in flags
    }
    names |= {word: i for i, word in words.items() if flags[i] is None}
    selection, omissions = cells.copy() if flags and options.keep else cells, list[str]()
    for name, flag_texts in _selected_cells(options).items():
        word, texts = (
            simplify_heading(name),
            format_option("keep", *(f"{name}={w}" for w in flag_texts)),
        )
        beside = {i: s for i, s in flags.items() if s is not None and words[i] == word}
        if word not in names and not beside:
            listed = ", ".join(dict.fromkeys([*map(str, cells.columns), *words.values()]))
            raise ValueError(f"{texts}: there is no such column; there are: {listed}")
        if word in names:
            column = selection.iloc[:, names[word]]
            is_selected = _is_one_of(column, flag_texts)
            left_out, noun = int((~is_selected).sum()), "row"
            selection = selection[is_selected]
        else:
            column, left_out, noun = pd.concat([cells.iloc[:, i] for i in beside]), 0, "reading"
            is_selected = _is_one_of(column, flag_texts)
            for i, station in beside.items():
                has_flag = _is_one_of(selection.iloc[:, i], flag_texts)
                left_out += int((~has_flag).sum())
                selection.isetitem(
                    station,
                    selection.iloc[:, station].where(has_flag, _gap(selection, station)).to_list(),
                )
        if not is_selected.any():
            raise ValueError(
                f"{texts}: no {noun} has it; there are: {count_flags(column) or 'none'}"
            )
        if left_out:
            omissions.append(f"{left_out} {noun}{'s' * (left_out > 1)} without {texts}")
    rest = [i for i in range(cells.shape[1]) if i not in flags]
    return selection.iloc[:, rest] if flags else selection, omissions, _note(cells, flags, words)


def _gap(cells: pd.DataFrame, position: int) -> Any:
    """Return the cell of no reading for a column of texts or of numbers."""
    return np.nan if pd.api.types.is_numeric_dtype(cells.dtypes.iloc[position]) else ""


def _word(heading: object) -> str:
    """Return the word for a flag in the heading of a column of flags."""
    match = _HAS_FLAG.search(simplify_heading(heading))
    return match[2] if match else ""


def _note(cells: pd.DataFrame, flags: Mapping[int, int | None], words: Mapping[int, str]) -> str:
    """Return a note on the columns of flags of a wide table, or ""."""
    notes = list[str]()
    for word in dict.fromkeys(words.values()):
        columns = [i for i in flags if words[i] == word]
        listed = [str(cells.columns[i]) for i in columns]
        where = f"column {listed[0]}" if len(columns) == 1 else f"{len(columns)} columns of {word}"
        texts = pd.concat([cells.iloc[:, i] for i in columns])
        notes.append(describe_column(word, texts, where) or where)
    return "; ".join(notes)


def describe_distinction(cells: pd.DataFrame, used: Iterable[str], groups: pd.DataFrame) -> str:
    """Return in which column readings of the same site and time differ, such as POC, or "".

    Parameters
    ----------
    cells : DataFrame
    used : iterable of str
        The columns that are read.
    groups : DataFrame
        The time and the station of these readings; the index has their rows in `cells`.
    """
    if not cells.index.is_unique:
        return ""
    read, rows, keys = {*used}, cells.loc[groups.index], groups[["time", "station"]]
    for name in dict.fromkeys(map(str, cells.columns)):
        if name in read or not isinstance(rows.get(name), pd.Series):
            continue
        texts = rows[name].map(as_id)
        counts = texts.value_counts()
        is_different = not keys.assign(cell=texts).duplicated().any()
        if 2 <= len(counts) <= MOST_FLAGS and is_different:
            listed = ", ".join(f"{text or 'empty'} {count}" for text, count in counts.items())
            option = format_option("keep", f"{name}={counts.index[0]}")
            return f", which differ in column {name} ({listed}): {option} reads one of them"
    return ""
