"""Values for people: numbers with significant digits, and a line of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tvbandits.validation import cut

# Numbers of at least this size are written with an exponent.
LARGEST_PLAIN = 1e6

# The largest number of characters in a line.
LONGEST = 200


def format_number(value: float, digits: int = 4) -> str:
    """Return a number as text with so many significant digits, and none cut before the point below 1e6.

    Examples
    --------
    >>> from tvbandits.text import format_number
    >>> print(*map(format_number, (0.5, 1.23456e-7, 12345.6, 1.23456e11)))
    0.5 1.235e-07 12346 1.235e+11
    """
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < LARGEST_PLAIN else text


def format_interval(mean: float, half: float, sign: str = "±") -> str:
    """Return a mean and the half-width of its interval as text, to two digits of the half-width.

    Examples
    --------
    >>> from tvbandits.text import format_interval
    >>> print(format_interval(1013.254, 0.0213))
    1013.254 ± 0.021
    >>> print(format_interval(1.23456e-6, 3.21e-8))
    1.235e-06 ± 3.2e-08
    """
    if not math.isfinite(half) or half <= 0:
        return f"{format_number(mean)} {sign} {format_number(half, 2)}"
    half = float(f"{half:.2g}")
    decimals = 1 - math.floor(math.log10(half))
    largest = max(abs(mean), half)
    if decimals > 6 or largest >= LARGEST_PLAIN:
        # The mean has digits down to the last digit of the half-width, and no more than a float has.
        digits = math.floor(math.log10(largest)) + decimals + 1
        return f"{mean:.{min(max(digits, 1), 15)}g} {sign} {half:g}"
    return f"{mean:.{max(decimals, 0)}f} {sign} {half:.{max(decimals, 0)}f}"


def first_few(texts: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """Return the first of some texts, and how many more there are.

    Examples
    --------
    >>> from tvbandits.text import first_few
    >>> print(first_few(["mill", "weir", "ford"], 2))
    mill, weir and 1 more
    """
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def format_cell(value: object) -> str:
    """Return the text of a cell of a page: a number with four digits, a dash for none.

    Examples
    --------
    >>> from tvbandits.text import format_cell
    >>> print(*map(format_cell, (0.123456, 3, "mill", float("nan"))))
    0.1235 3 mill –
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return format_number(value) if isinstance(value, float) else str(value)


def as_text(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return the line `<title: name value, name value>`, of at most 200 characters.

    A float is shown with four digits, anything else as its `str`. What does not fit is cut off, with
    "..." for it.

    Examples
    --------
    >>> from tvbandits.text import as_text
    >>> print(as_text("Info", [("readings", 3), ("failed", 0)]))
    <Info: readings 3, failed 0>
    """
    parts = ", ".join(f"{name} {_format_value(value)}" for name, value in rows)
    line = " ".join((f"{title}: {parts}" if parts else title).split())
    return f"<{cut(line, LONGEST - 2)}>"


def _format_value(value: object) -> str:
    """Return a float with four digits, any other value as its `str`."""
    return format_number(value) if isinstance(value, float) else str(value)
