"""What the commands `data fetch` and `data verify` do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress as Bars,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from tvbandits.core.coercion import cleaned
from tvbandits.core.protocols import ExpertError
from tvbandits.datasets.epa_ozone.fetch import AIRDATA_URL, DownloadLimits, Progress, fetch_ozone
from tvbandits.experts import verify_recording

WITHOUT_STATE = "ozone:sites=28"
"""The problem to suggest for the whole country, which has more than a thousand sites."""


messages = Console(stderr=True)


LONGEST = 1500
"""So many characters of a line are printed."""


def fetch(
    years: Sequence[int],
    state: str | None,
    cache: str | None,
    base_url: str | None,
    limits: Mapping[str, Any],
) -> None:
    """Download ozone, and say how to use it; of `limits`, what is None is as usual."""
    given = {name: limit for name, limit in limits.items() if limit is not None}
    with _bars() as progress:
        paths = fetch_ozone(
            years,
            state=state,
            cache=cache,
            base_url=base_url or AIRDATA_URL,
            progress=progress,
            limits=DownloadLimits(**given),
        )
    for path in paths:
        print(path)
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    print(f"tvbandits compare {WITHOUT_STATE if state is None else 'ozone'} {data}")


def verify(files: Sequence[Path]) -> bool:
    """Say whether recordings are as they were written; whether all of them are."""
    return _each(files, lambda file: f"{file}: {verify_recording(file)}")


def _each(files: Sequence[Path], say: Callable[[Path], str]) -> bool:
    """Print what there is to say of each file, or what is wrong with it; whether nothing is."""
    good = True
    for file in files:
        try:
            print("\n".join(cleaned(line, LONGEST) for line in say(file).splitlines()))
        except (ValueError, OSError, ExpertError, MemoryError, RecursionError) as error:
            sys.stdout.flush()
            said = str(error) or f"{file}: {type(error).__name__}"
            print("tvbandits: " + " ".join(cleaned(said, LONGEST).split()), file=sys.stderr)
            good = False
    return good


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
