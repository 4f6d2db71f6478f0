"""Values for people: numbers with significant digits, and a line of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tvbandits.validation import cut

# From here on a number is written with an exponent.
LARGEST_PLAIN = 1e6

# Characters of a line at the most.
LONGEST = 200


def number_text(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits; whole ones below a million are written in full.

    Examples
    --------
    >>> from tvbandits.text import number_text
    >>> print(*map(number_text, (0.5, 1.23456e-7, 12345.6, 1.23456e11)))
    0.5 1.235e-07 12346 1.235e+11
    """
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < LARGEST_PLAIN else text


def interval_text(mean: float, half: float, sign: str = "±") -> str:
    """Return a mean and the half-width of its interval: to two digits of the half-width.

    Examples
    --------
    >>> from tvbandits.text import interval_text
    >>> print(interval_text(1013.254, 0.0213))
    1013.254 ± 0.021
    >>> print(interval_text(1.23456e-6, 3.21e-8))
    1.235e-06 ± 3.2e-08
    """
    if not math.isfinite(half) or half <= 0:
        return f"{number_text(mean)} {sign} {number_text(half, 2)}"
    half = float(f"{half:.2g}")
    decimals = 1 - math.floor(math.log10(half))
    largest = max(abs(mean), half)
    if decimals > 6 or largest >= LARGEST_PLAIN:
        # Digits of the mean down to the last one of the half-width; not more than a number has.
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


def cell_text(value: object) -> str:
    """Return the text of a cell of a page: a number with four digits, a dash for none.

    Examples
    --------
    >>> from tvbandits.text import cell_text
    >>> print(*map(cell_text, (0.123456, 3, "mill", float("nan"))))
    0.1235 3 mill –
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return number_text(value) if isinstance(value, float) else str(value)


def as_text(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """`<title: name value, name value>` on one line of at most 200 characters.

    A float is shown with four digits, anything else as its `str`. What does not fit is cut off, with
    "..." for it.

    Examples
    --------
    >>> from tvbandits.text import as_text
    >>> print(as_text("Info", [("readings", 3), ("failed", 0)]))
    <Info: readings 3, failed 0>
    """
    parts = ", ".join(f"{name} {_shown(value)}" for name, value in rows)
    line = " ".join((f"{title}: {parts}" if parts else title).split())
    return f"<{cut(line, LONGEST - 2)}>"


def _shown(value: object) -> str:
    return number_text(value) if isinstance(value, float) else str(value)
