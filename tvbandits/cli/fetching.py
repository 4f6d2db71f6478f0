"""The command `data fetch`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.progress import DownloadColumn, TaskID, TransferSpeedColumn

from tvbandits.cli.terminal import progress_bars
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone


def fetch(years: Sequence[int], state: str | None) -> None:
    """Download ozone data, with a bar for each file, and print how to use them."""
    tasks: dict[str, TaskID] = {}
    with progress_bars(DownloadColumn(), TransferSpeedColumn()) as bars:

        def report(name: str, size: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=size, total=total)

        paths = fetch_ozone(years, state=state, progress=report)
    for path in paths:
        print(path)
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    # The whole country has more than a thousand sites.
    print(f"tvbandits compare {'ozone:sites=28' if state is None else 'ozone'} {data}")
