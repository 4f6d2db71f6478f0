"""What the command report does."""

from __future__ import annotations

from pathlib import Path

from tvbandits.cli.console import say
from tvbandits.comparison.report import comparison_report

PAGE = "report.html"


def report(folder: str, out: str | None) -> None:
    """Write the page of a comparison.

    Raises
    ------
    ValueError
        If the folder holds none, if plotly is missing, or if the page cannot be written.
    """
    try:
        text = comparison_report(Path(folder))
    except ImportError as error:
        raise ValueError(str(error)) from error
    place = Path(out) if out else Path(folder) / PAGE
    try:
        beside = place.with_name(f".{place.name}.part")
        beside.write_text(text, encoding="utf-8")
        beside.replace(place)
    except OSError as error:
        raise ValueError(f'cannot write "{place}": {error.strerror or error}') from error
    say(f"{place}")
