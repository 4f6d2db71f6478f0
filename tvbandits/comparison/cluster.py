"""Runs on Dask distributed: workers of this machine, or of any number of them.

Dask gives a task whose worker has died to another one; one that it gives up on, after several workers,
is submitted again here, a few times. A run that is done is yielded at once. If the scheduler goes, what
was being played is lost, and is played when the same command is said again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tvbandits.comparison.playing import Run
from tvbandits.comparison.tasks import Task, play_task

AGAIN = 3
"""So often a task is submitted once more that Dask has given up on."""

LOCAL = re.compile(r"local:([1-9]\d*)")
ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://\S+|(?!local:)[\w.-]+:\d+")


@dataclass(frozen=True)
class Cluster:
    """Where runs are played.

    Attributes
    ----------
    where : str
        "local:N" for N workers on this machine, each a process; or the address of a scheduler, such as
        tcp://10.0.0.1:8786.
    say : callable
        Is told the address of the dashboard.

    Raises
    ------
    ValueError
        If `where` is neither, or the package distributed is not installed.
    """

    where: str
    say: Callable[[str], object] = field(default=print, compare=False)

    def __post_init__(self) -> None:
        if not (LOCAL.fullmatch(self.where) or ADDRESS.fullmatch(self.where)):
            raise ValueError(
                "--cluster must be local:N, or the address of a scheduler such as "
                f'tcp://10.0.0.1:8786, got "{self.where}"'
            )
        _distributed()

    def __call__(self, tasks: list[Task]) -> Iterator[Run]:
        """The runs, as they are done.

        Raises
        ------
        ConnectionError
            If the scheduler goes while they are played.
        """
        dask = _distributed()
        with ExitStack() as stack:
            client = stack.enter_context(self._client(dask, stack))
            self.say(f"dashboard: {client.dashboard_link}")
            try:
                yield from _as_done(dask, client, tasks)
            except (CancelledError, dask.comm.CommClosedError) as error:
                raise ConnectionError(
                    f"the scheduler at {self.where} is gone; runs that are done are kept: when it is "
                    "there again, say the same command again"
                ) from error

    def _client(self, dask: Any, stack: ExitStack) -> Any:
        local = LOCAL.fullmatch(self.where)
        if local is None:
            # What Dask says of a lost scheduler are pages; here it is one line.
            log = logging.getLogger("distributed.client")
            stack.callback(log.setLevel, log.level)
            log.setLevel(logging.CRITICAL)
            try:
                return dask.Client(self.where, timeout=10)
            except OSError as error:
                raise ValueError(f"--cluster: no scheduler answers at {self.where}") from error
        cluster = dask.LocalCluster(
            n_workers=int(local[1]),
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=50,
        )
        return dask.Client(stack.enter_context(cluster))


def _as_done(dask: Any, client: Any, tasks: list[Task]) -> Iterator[Run]:
    """The runs of tasks that a client submits, again where Dask has given up on one."""
    left = {}
    for i, task in enumerate(tasks):
        # Early tasks first, so that those of one problem and seed meet in one worker.
        left[client.submit(play_task, task, pure=False, priority=-i)] = (task, AGAIN)
    done = dask.as_completed(list(left))
    for future in done:
        task, again = left.pop(future)
        # Of a future whose scheduler has gone there is a result that cannot be had, but no exception.
        error = None if future.cancelled() else future.exception()
        if error is None:
            yield future.result()
        elif isinstance(error, dask.KilledWorker) and again > 0:
            once_more = client.submit(play_task, task, pure=False)
            left[once_more] = (task, again - 1)
            done.add(once_more)
        else:
            raise error


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ValueError("--cluster needs Dask: pip install 'tvbandits[dask]'") from error
    return distributed
