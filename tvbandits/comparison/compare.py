"""Comparisons: policies x problems x seeds -> one table of rows.

Every policy of one seed meets the same realisation of a problem, and the same noise where it plays the
same point at the same time. The rows are a DataFrame; files, tables, pictures and tests share it.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd
from joblib import Parallel, delayed

from tvbandits.acquisition.widths import Confidence, as_confidence
from tvbandits.bandit.bandit import MOST_POINTS
from tvbandits.comparison.entrants import (
    MakeExpert,
    Maker,
    labelled_problems,
    makers_of,
    steps_of,
    text_of_width,
)
from tvbandits.comparison.playing import Conditions, Run, play_equally, play_one
from tvbandits.comparison.setup import prepare
from tvbandits.comparison.summary import Key, as_seeds
from tvbandits.experts.functions import SimulatorExpert
from tvbandits.policies.names import PATH, instance_of, load
from tvbandits.protocols import Expert, Problem
from tvbandits.threads import one_blas_thread
from tvbandits.validation import flag, function, is_whole, optional, require, settle, whole_number

# So many processes no machine has.
MOST_JOBS = 100_000

# Fewer runs than this, with no more steps together, are done before other processes have started.
FEW_RUNS, FEW_STEPS = 4, 2000

# Seconds between two looks of a worker at its parent.
WATCH = 1.0


def simulated(problem: Problem, seed: int) -> Expert:
    """The expert a comparison asks by default: the problem's truth with noise of the same variance."""
    return SimulatorExpert(problem, seed=seed)


@dataclass(frozen=True)
class Comparison:
    """What is to be played; checked, and in the form of its attributes, when it is made.

    Parameters are described in `compare`.

    Attributes
    ----------
    problems : dict of label to Problem
    policies : dict of label to maker
    seeds : tuple of int
    steps : dict of label to int
        Of a run on each problem.
    conditions : Conditions
        Width and expert.

    Raises
    ------
    TypeError, ValueError
        If something cannot be played; the message names it.
    """

    problems: Any
    policies: Any
    seeds: Any = 10
    horizon: int | None = None
    n_jobs: int = 1
    beta: Confidence | float | str | None = None
    expert: MakeExpert | None = simulated
    batch: int | None = None
    equal_information: bool = False
    steps: dict[str, int] = field(init=False, repr=False, compare=False)
    conditions: Conditions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problems = labelled_problems(self.problems)
        policies = makers_of(self.policies, self.expert)
        width = as_width(self.beta)
        seeds = tuple(as_seeds(self.seeds))
        optional(whole_number, "batch", self.batch, at_most=MOST_POINTS)
        flag("equal_information", self.equal_information)
        optional(function, "expert", self.expert, "a function of a problem and a seed, or None")
        if not (is_whole(self.n_jobs) and self.n_jobs == -1):
            whole_number("n_jobs, unless it is -1 for all cores,", self.n_jobs, at_most=MOST_JOBS)
        steps = {name: steps_of(name, each, self.horizon) for name, each in problems.items()}
        text = None if width is None else text_of_width(self.beta)
        conditions = Conditions(width, text, self.expert, self.batch)
        settle(self, problems=problems, policies=policies, seeds=seeds)
        settle(self, steps=steps, conditions=conditions)

    @property
    def runs(self) -> list[Key]:
        """All runs, in their order."""
        return list(product(self.problems, self.policies, self.seeds))


def compare(
    problems: Problem | Sequence[Problem] | Mapping[str, Problem],
    policies: Sequence[str] | Mapping[str, Maker],
    seeds: int | Sequence[int] = 10,
    horizon: int | None = None,
    n_jobs: int = 1,
    *,
    beta: Confidence | float | str | None = None,
    expert: MakeExpert | None = simulated,
    batch: int | None = None,
    equal_information: bool = False,
) -> pd.DataFrame:
    """Play every policy on every problem with every seed.

    Parameters
    ----------
    problems : problems, or a mapping of labels to problems
    policies : names as on the command line ("sw-gp-ucb:window=40"), or a mapping of labels to makers
        A maker takes a `tvbandits.policies.Setting` and returns something with `ask` and `tell`.
    seeds : int or sequence of int
        A number n means the seeds 0, ..., n - 1.
    horizon : int, optional
        Number of steps; each problem's own by default.
    n_jobs : int
        Runs at the same time, each with one BLAS thread; -1 for all cores, where there is enough to do.
    beta : Confidence, float, "theory" or "package.module:Width", optional
        Each policy's own default where it is not given.
    expert : callable, optional
        `expert(problem, seed)` makes the expert of a run; by default it tells the problem's truth with
        noise of the same variance.
    batch : int, optional
        So many points a step, all at the time of the step and told together: `ask(t, n=batch)`. The
        reward and the regret of a step are means over its points, and x0, ... are its first point. By
        default each policy plays as many points as it decides itself.
    equal_information : bool
        Every bandit that asks nobody gets as many of the expert's answers, at random points of the
        domain and in the same steps, as the policy of the comparison that gets most. It takes them as
        it takes rewards, the latest 300 of them. What is left of the difference is due to where the
        answers are asked for, and what is done with them.

    Returns
    -------
    DataFrame
        One row a step, in the order of problems, policies and seeds, with the columns problem, policy,
        width, seed, t, x0, ..., reward, best, regret, cumulative_regret, average_regret, queries,
        answered, cost, seconds, batch_size, dictionary_size, beta, bound;
        `tvbandits.comparison.summary` has `summarise` and `paired` of them. `width` is the width
        that was played; `reward` and `best` are noise-free; `bound` is the bound of SparQ-GP-UCB's
        theorem on the average regret, at that width. The points of a batch are played one a step and
        told together: queries and their cost stand in its first row, and each of its rows has its share
        of the seconds, which are of processor time. With `batch` each step is one row, and has no bound
        if it plays several points.

    Raises
    ------
    TypeError, ValueError
        If something cannot be played; before the first run. In a run, if a player asks for a point
        outside of the domain, or a problem's value or best is not finite: a note says where.

    Examples
    --------
    >>> from tvbandits import compare
    >>> from tvbandits.comparison.summary import summarise
    >>> from tvbandits.datasets import DriftingBump
    >>> rows = compare(DriftingBump(candidates=51, horizon=20), ["uniform", "eps-greedy"], seeds=2)
    >>> print(summarise(rows)[["policy", "seeds", "horizon"]])
           policy  seeds  horizon
    0     uniform      2       20
    1  eps-greedy      2       20
    """
    plan = Comparison(
        problems, policies, seeds, horizon, n_jobs, beta, expert, batch, equal_information
    )
    rows = {run.key: run.rows for run in iterate(plan)}
    return pd.concat([rows[key] for key in plan.runs], ignore_index=True)


def iterate(plan: Comparison, finished: Collection[Key] = ()) -> Iterator[Run]:
    """The runs of a comparison that are not finished, each as soon as it and all before it are done.

    With equal information all policies of a problem and a seed are played together, and come together.
    """
    wanted = [key for key in plan.runs if key not in finished]
    places = list(dict.fromkeys((label, seed) for label, _, seed in wanted))
    steps = len(plan.policies) * len(plan.seeds) * sum(plan.steps.values())
    few = len(plan.runs) < FEW_RUNS and steps <= FEW_STEPS
    found = functools.partial(_in_parallel, 1 if plan.n_jobs == -1 and few else plan.n_jobs)
    prepared = {
        (made.label, made.known.seed): made
        for made in found(
            prepare,
            [(label, plan.problems[label], seed, plan.steps[label]) for label, seed in places],
        )
    }
    if plan.equal_information:
        given = [(made, plan.policies, plan.conditions) for made in prepared.values()]
        contests = found(play_equally, given)
        yield from (run for contest in contests for run in contest if run.key not in finished)
        return
    yield from found(
        play_one,
        [
            (prepared[label, seed], name, plan.policies[name], plan.conditions)
            for label, name, seed in wanted
        ],
    )


def _in_parallel(workers: int, call: Callable[..., Any], given: Sequence[Any]) -> Iterator[Any]:
    """Results of calls by so many processes, and none but this one for a single task."""
    alone = delayed(functools.partial(_one_thread, os.getpid(), call))
    used = 1 if len(given) <= 1 else min(workers, len(given))  # -1: all cores
    parallel: Any = Parallel(n_jobs=used, return_as="generator")
    results: Iterator[Any] = parallel(alone(*each) for each in given)
    return results


def _one_thread(parent: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Parallel runs share the cores; threads of BLAS inside them would only get in their way.

    Ctrl-C on a terminal, and at times a request to end, reach all processes. They are for the `parent`
    to act on: it ends the others.
    """
    if os.getpid() != parent:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.getppid() == parent:
            _end_with(parent)
    with one_blas_thread():
        return call(*arguments)


@functools.cache
def _end_with(parent: int) -> None:
    """End this process once its parent is gone, as after a SIGKILL that lets it end nobody.

    A process whose parent ends is given another one; where that is not so (Windows), nothing happens.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end with the parent").start()


def as_width(beta: Confidence | float | str | None) -> Confidence | None:
    """As `as_confidence`, and "package.module:Width"."""
    if beta is None:
        return None
    if isinstance(beta, str) and PATH.fullmatch(beta):
        beta = instance_of(load(beta))
    return as_confidence(beta)


# --- on a cluster -----------------------------------------------------------------------------------
# Dask distributed plays runs: workers of this machine, or of any number of them. It gives a task whose
# worker has died to another one; its option `distributed.scheduler.allowed-failures` says how often. A
# run that is done is yielded at once. If the scheduler goes, what was being played is lost; the same
# command, said again, plays it.

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
        known = LOCAL.fullmatch(self.where) or ADDRESS.fullmatch(self.where)
        needs = "local:N, or the address of a scheduler such as tcp://10.0.0.1:8786"
        require(known, "--cluster", needs, self.where)
        _distributed()

    def __call__(self, plans: Sequence[Comparison], finished: Collection[Key]) -> Iterator[Run]:
        """The runs of comparisons that are not finished, as they are done.

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
                # A future that is done is let go, and its rows with it.
                for future in dask.as_completed(list(_submitted(client, plans, finished))):
                    yield future.result()
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
        alone = {"threads_per_worker": 1, "processes": True, "memory_limit": 0}
        quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
        cluster = dask.LocalCluster(n_workers=int(local[1]), **alone, **quiet)
        return dask.Client(stack.enter_context(cluster))


def _submitted(
    client: Any, plans: Sequence[Comparison], finished: Collection[Key]
) -> Iterator[Any]:
    """The runs that a client plays, each on a problem that is prepared once, on some worker."""
    submit = functools.partial(client.submit, functools.partial(_one_thread, os.getpid()))
    prepared: dict[tuple[str, int], Any] = {}
    for plan in plans:
        for label, name, seed in plan.runs:
            if (label, name, seed) in finished:
                continue
            if (label, seed) not in prepared:
                given = label, plan.problems[label], seed, plan.steps[label]
                prepared[label, seed] = submit(prepare, *given, pure=False)
            play = play_one, prepared[label, seed], name, plan.policies[name], plan.conditions
            yield submit(*play, pure=False)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ValueError("--cluster needs Dask: pip install 'tvbandits[dask]'") from error
    return distributed
