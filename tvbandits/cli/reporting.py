"""What the command report does with a comparison."""

from __future__ import annotations

from pathlib import Path

from tvbandits.cli.terminal.pages import write_page
from tvbandits.comparison.studies.report import comparison_report

PAGE = "report.html"


def report(place: str, out: str | None) -> None:
    """Write the page of a comparison."""
    write_page(lambda: comparison_report(Path(place)), Path(out) if out else Path(place) / PAGE)
