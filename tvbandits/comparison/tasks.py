"""Runs as tasks that any process can play, in any order: the same rows wherever they are played.

This machine plays them, or Dask distributed: workers of this machine, or of any number of them. Dask
gives a task whose worker has died to another one; one that it gives up on, after several workers, is
submitted again here, a few times. A run that is done is yielded at once. If the scheduler goes, what was
being played is lost, and is played when the same command is said again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from joblib import Parallel, delayed

from tvbandits.comparison.compare import Comparison
from tvbandits.comparison.entrants import Maker
from tvbandits.comparison.playing import Conditions, Run, play_one
from tvbandits.comparison.setup import Prepared, prepare
from tvbandits.comparison.summary import Key
from tvbandits.core.protocols import Problem
from tvbandits.core.threads import one_blas_thread

KEPT = 4
"""So many prepared problems a process keeps: tasks of one problem and seed follow each other."""

Engine: TypeAlias = Callable[[list["Task"]], Iterator[Run]]
"""Plays tasks, and yields their runs as they are done."""


@dataclass(frozen=True)
class Task:
    """One run to be played: everything it depends on."""

    label: str
    problem: Problem
    seed: int
    steps: int
    policy: str
    maker: Maker
    conditions: Conditions

    @property
    def key(self) -> Key:
        """Problem, policy and seed."""
        return self.label, self.policy, self.seed


_prepared: dict[Any, Prepared] = {}


def play_task(task: Task) -> Run:
    """Play it with one BLAS thread, so that rows do not depend on where; for any process."""
    key = (task.label, repr(task.problem), task.seed, task.steps, os.getpid())
    with one_blas_thread():
        found = _prepared.get(key)
        if found is None:
            found = prepare(task.label, task.problem, task.seed, task.steps)
            while len(_prepared) >= KEPT:
                del _prepared[next(iter(_prepared))]
            _prepared[key] = found
        return play_one(found, task.policy, task.maker, task.conditions)


def tasks_of(plan: Comparison, finished: Collection[Key] = ()) -> list[Task]:
    """The runs of a comparison that are not finished, those of one problem and seed together.

    Raises
    ------
    ValueError
        If policies are to have equal information: they are played together then.
    """
    if plan.equal_information:
        raise ValueError("equal information is for runs that are played together, in one process")
    return [
        Task(label, problem, seed, plan.steps[label], name, maker, plan.conditions)
        for label, problem in plan.problems.items()
        for seed in plan.seeds
        for name, maker in plan.policies.items()
        if (label, name, seed) not in finished
    ]


@dataclass(frozen=True)
class Here:
    """Processes of this machine.

    Attributes
    ----------
    jobs : int
        How many; -1 for as many as there are cores.
    """

    jobs: int = 1

    def __call__(self, tasks: list[Task]) -> Iterator[Run]:
        """The runs, as they are done."""
        jobs = 1 if len(tasks) == 1 else self.jobs
        playing = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="all")
        yield from playing(delayed(play_task)(task) for task in tasks)


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
