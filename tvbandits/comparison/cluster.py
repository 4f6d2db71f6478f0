"""Runs of comparisons on a cluster of Dask: workers of this machine, or of any number of them.

Dask gives a task whose worker has died to another one; its option
`distributed.scheduler.allowed-failures` says how often. A run that is done is yielded at once. If the
scheduler stops, the runs that it was playing are lost; the same command plays them again.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tvbandits.comparison.compare import Comparison, call_alone
from tvbandits.comparison.run import play_run
from tvbandits.comparison.setup import prepare
from tvbandits.comparison.summary import Key, Run
from tvbandits.validation import require

LOCAL = re.compile(r"local:([1-9]\d*)")
ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://\S+|(?!local:)[\w.-]+:\d+")


@dataclass(frozen=True)
class Cluster:
    """A cluster that plays runs.

    Attributes
    ----------
    where : str
        "local:N" for N workers on this machine, each a process; or the address of a scheduler, such as
        tcp://10.0.0.1:8786.
    say : callable
        Called with the address of the dashboard.

    Raises
    ------
    ValueError
        If `where` is neither, or the package distributed is not installed.
    """

    where: str
    say: Callable[[str], object] = field(default=print, compare=False)

    def __post_init__(self) -> None:
        valid = LOCAL.fullmatch(self.where) or ADDRESS.fullmatch(self.where)
        needs = "local:N, or the address of a scheduler such as tcp://10.0.0.1:8786"
        require(valid, "--cluster", needs, self.where)
        _import_distributed()

    def __call__(self, plans: Sequence[Comparison], finished: Collection[Key]) -> Iterator[Run]:
        """Yield the runs of comparisons that are not finished, as they are done.

        Raises
        ------
        ConnectionError
            If the scheduler stops while they are played.
        """
        dask = _import_distributed()
        with ExitStack() as stack:
            client = stack.enter_context(self._client(dask, stack))
            self.say(f"dashboard: {client.dashboard_link}")
            try:
                # A future that is done is let go, and its rows with it.
                for future in dask.as_completed(list(_submit(client, plans, finished))):
                    yield future.result()
            except (CancelledError, dask.comm.CommClosedError) as error:
                raise ConnectionError(
                    f"the scheduler at {self.where} has stopped; complete runs are kept: restart it, "
                    "and repeat the command"
                ) from error

    def _client(self, dask: Any, stack: ExitStack) -> Any:
        """Return a client of the scheduler; the stack closes what was started for it."""
        local = LOCAL.fullmatch(self.where)
        if local is None:
            # Dask logs pages about a lost scheduler; here it is one line.
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
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
        return dask.Client(stack.enter_context(cluster))


def _submit(client: Any, plans: Sequence[Comparison], finished: Collection[Key]) -> Iterator[Any]:
    """Yield the futures of runs, each on a problem that is prepared once, on some worker."""
    submit = functools.partial(
        client.submit, functools.partial(call_alone, os.getpid()), pure=False
    )
    realisations: dict[tuple[str, int], Any] = {}
    for plan in plans:
        for label, name, seed in plan.runs:
            if (label, name, seed) in finished:
                continue
            if (label, seed) not in realisations:
                preparation = label, plan.problems[label], seed, plan.steps[label]
                realisations[label, seed] = submit(prepare, *preparation)
            realisation = realisations[label, seed]
            yield submit(play_run, realisation, name, plan.policies[name], plan.conditions)


def _import_distributed() -> Any:
    """Return the package distributed; a `ValueError` says how to install it."""
    try:
        import distributed
    except ImportError as error:
        raise ValueError("--cluster needs Dask: pip install 'tvbandits[dask]'") from error
    return distributed
