"""The output of a command: lines for people that no terminal obeys, or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from tvbandits.io import replace_nan

Format = Literal["text", "json"]

# Where a spreadsheet would start a formula; in some countries ; ends a cell.
_FORMULA = re.compile("(^|[;\t\r\n])(?=\\s*[-=+@\uff0d\uff1d\uff0b\uff20])")

# What a remedy is called on the command line.
REMEDIES = {
    "key": "a --key",
    "sure": "--yes",
    "expert": "--expert",
    "correct": "`campaign correct`",
    "correct_answers": "`campaign correct --answer` or `campaign retract --answer`",
}


def print_result(form: Format, lines: str | list[str], values: Mapping[str, Any]) -> None:
    """Print one line or several for people, or the values as JSON."""
    if form == "json":
        print(json.dumps(replace_nan(values)))
    else:
        print("\n".join(map(escape, [lines] if isinstance(lines, str) else lines)))


def escape(text: str) -> str:
    """Return the text with its control characters and marks of direction as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def without_formula(value: Any) -> Any:
    """Return a cell with an apostrophe before anything that a spreadsheet would take for a formula."""
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value


def plural(count: int, noun: str) -> str:
    """Return "1 reading" or "2 readings"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
