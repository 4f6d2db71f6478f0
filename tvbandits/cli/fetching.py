"""What the command `data fetch` does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.progress import DownloadColumn, TaskID, TransferSpeedColumn

from tvbandits.cli.terminal import bars
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone


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
    # The whole country has more than a thousand sites.
    print(f"tvbandits compare {'ozone:sites=28' if state is None else 'ozone'} {data}")
