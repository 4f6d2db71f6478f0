"""What the command `data fetch` does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress as Bars,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from tvbandits.cli.terminal import messages
from tvbandits.datasets.epa_ozone.fetch import Progress, fetch_ozone

# The problem to suggest for the whole country, which has more than a thousand sites.
WITHOUT_STATE = "ozone:sites=28"


def fetch(years: Sequence[int], state: str | None) -> None:
    """Download ozone, and say how to use it."""
    with _bars() as progress:
        paths = fetch_ozone(years, state=state, progress=progress)
    for path in paths:
        print(path)
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    # The whole country has more than a thousand sites.
    print(f"tvbandits compare ozone:sites=28 {data}")
