"""What the command `data fetch` does."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
    print(f"tvbandits compare {WITHOUT_STATE if state is None else 'ozone'} {data}")


@contextmanager
def _bars() -> Iterator[Progress]:
    """A bar a file on a terminal, and silence elsewhere."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield progress
