"""What the command `data fetch` does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.progress import DownloadColumn, TaskID, TransferSpeedColumn

from tvbandits.cli.terminal import bars
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone

# The problem to suggest for the whole country, which has more than a thousand sites.
WITHOUT_STATE = "ozone:sites=28"


def fetch(years: Sequence[int], state: str | None) -> None:
    """Download ozone, with a bar a file, and say how to use it."""
    tasks: dict[str, TaskID] = {}
    with bars(DownloadColumn(), TransferSpeedColumn()) as shown:

        def progress(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = shown.add_task(name, total=total)
            shown.update(tasks[name], completed=done, total=total)

        paths = fetch_ozone(years, state=state, progress=progress)
    for path in paths:
        print(path)
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    print(f"tvbandits compare {WITHOUT_STATE if state is None else 'ozone'} {data}")
