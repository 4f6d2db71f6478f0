"""Comparisons of policies on problems over seeds, which return one table of rows.

With a given seed, every policy plays the same realisation of a problem, with the same noise at the same
point and time. The rows are a DataFrame, from which all files, tables and pictures are made.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd
from joblib import Parallel, delayed

from tvbandits.acquisition.widths import Confidence
from tvbandits.comparison.arguments import Problems, as_width, label_problems, steps_of
from tvbandits.comparison.run import Conditions, play_equally, play_run, text_of_width
from tvbandits.comparison.setup import MakeExpert, prepare
from tvbandits.comparison.summary import Key, Run, as_seeds
from tvbandits.domains.problem import Problem
from tvbandits.domains.space import MOST_POINTS
from tvbandits.experts.functions import SimulatorExpert
from tvbandits.experts.protocol import Expert
from tvbandits.policies.registry import Policies, label_policies
from tvbandits.threads import limit_blas_threads
from tvbandits.validation import (
    as_bool,
    check_function,
    check_optional,
    is_whole,
    require,
    set_fields,
    whole_number,
)


def simulator(problem: Problem, seed: int) -> Expert:
    """Return an expert that answers with a problem's rewards and noise of the same variance."""
    return SimulatorExpert(problem, seed=seed)


@dataclass(frozen=True)
class Comparison:
    """A plan of all runs of a comparison, whose arguments are checked and labelled.

    The parameters are described in `compare`.

    Attributes
    ----------
    problems : dict of label to Problem
    policies : dict of label to maker
    seeds : tuple of int
    steps : dict of label to int
        The length of a run on each problem.
    conditions : Conditions
        Width, expert and size of a batch.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid.
    """

    problems: Any
    policies: Any
    seeds: Any = 10
    horizon: int | None = None
    n_jobs: int = 1
    beta: Confidence | float | str | None = None
    expert: MakeExpert | None = simulator
    batch: int | None = None
    equal_information: bool = False
    steps: dict[str, int] = field(init=False, repr=False, compare=False)
    conditions: Conditions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problems = label_problems(self.problems, self.horizon)
        policies = label_policies(self.policies, has_expert=self.expert is not None)
        width = as_width(self.beta)
        seeds = tuple(as_seeds(self.seeds))
        check_optional(whole_number, "batch", self.batch, at_most=MOST_POINTS)
        as_bool("equal_information", self.equal_information)
        check_optional(
            check_function, "expert", self.expert, "a function of a problem and a seed, or None"
        )
        if not (is_whole(self.n_jobs) and self.n_jobs == -1):
            whole_number("n_jobs, unless it is -1 for all cores,", self.n_jobs, at_most=100_000)
        steps = {label: steps_of(label, problems[label], self.horizon) for label in problems}
        text = None if width is None else text_of_width(self.beta)
        conditions = Conditions(width, text, self.expert, self.batch)
        set_fields(self, problems=problems, policies=policies, seeds=seeds)
        set_fields(self, steps=steps, conditions=conditions)

    @property
    def runs(self) -> list[Key]:
        """Return the keys of all runs, in the order of problems, policies and seeds."""
        return list(product(self.problems, self.policies, self.seeds))


def compare(
    problems: Problems,
    policies: Policies,
    seeds: int | Sequence[int] = 10,
    horizon: int | None = None,
    n_jobs: int = 1,
    *,
    beta: Confidence | float | str | None = None,
    expert: MakeExpert | None = simulator,
    batch: int | None = None,
    equal_information: bool = False,
) -> pd.DataFrame:
    """Play every policy on every problem with every seed.

    Parameters
    ----------
    problems : problems, or a mapping of labels to problems
        Objects, and names as on the command line ("drifting-bump:candidates=51", or
        "package.module:problem" for your own), which are their labels.
    policies : policies, or a mapping of labels to policies
        Names as on the command line ("sw-gp-ucb:window=40"), recipes (`policies.gp_ucb`) and makers, in
        any combination. A maker is a function or a class that is called with a
        `tvbandits.policies.Setting` and returns an object with `ask` and `tell`; its name is the label.
    seeds : int or sequence of int
        Seeds of the realisations and their noise; a number n means the seeds 0, ..., n - 1.
    horizon : int, optional
        Number of steps. None: each problem's own.
    n_jobs : int
        Number of parallel runs, each with one BLAS thread; -1 for all cores.
    beta : Confidence, float, "theory" or "package.module:Width", optional
        The confidence width. None: each policy's own.
    expert : callable, optional
        `expert(problem, seed)` makes the expert of a run; by default, one that answers with the
        noise-free reward plus noise of the same variance. None: there are no experts.
    batch : int, optional
        Number of points in each step, which are chosen by `ask(t, n=batch)`, played at the time of the
        step, and reported together. The reward and the regret of a step are means over its points,
        x0, ... are the coordinates of its first point, and `best_of_batch_regret` is the regret of its
        best point. None: each policy decides how many points it plays.
    equal_information : bool
        Every bandit without an expert gets as many answers, about random points of the domain in the
        same steps, as the policy of the comparison that gets most. It uses the latest 300 of them as
        rewards. The remaining difference shows the gain from good choice and use of queries.

    Returns
    -------
    DataFrame
        One row per step, in the order of problems, policies and seeds, with the columns problem, policy,
        width, seed, t, x0, ..., reward, best, regret, cumulative_regret, average_regret, queries,
        answered, cost, seconds, batch_size, dictionary_size, beta, bound. `width` is the width of
        the policy; `reward` and `best` are noise-free; `bound` is the bound of SparQ-GP-UCB's theorem on
        the average regret, at that width. If a policy chooses a batch itself, its points are played in
        consecutive steps and reported together: queries and their cost are in its first row, and its
        seconds, which are processor time, are divided equally among its rows. With `batch`, each step is
        one row, which has no bound if it has several points. `summarise` and `pairwise_differences`
        (`tvbandits.comparison.summary`) make tables of the rows.

    Raises
    ------
    TypeError, ValueError
        Before the first run, if an argument is not valid. In a run, if a policy asks for a point outside
        of the domain, or a problem's value or best is not finite; a note names the run and the step.

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
    """Yield the unfinished runs of a comparison, each as soon as it is complete.

    With equal information, all policies of a problem and a seed are played together.
    """
    missing = [key for key in plan.runs if key not in finished]
    pairs = list(dict.fromkeys((label, seed) for label, _, seed in missing))
    call = functools.partial(call_in_parallel, _count_workers(plan))
    preparations = [(label, plan.problems[label], seed, plan.steps[label]) for label, seed in pairs]
    # The results come in the order in which they are ready.
    prepared = {(item.label, item.seed): item for item in call(prepare, preparations)}
    realisations = {pair: prepared[pair] for pair in pairs}
    if plan.equal_information:
        arguments = [
            (realisation, plan.policies, plan.conditions) for realisation in realisations.values()
        ]
        for runs in call(play_equally, arguments):
            yield from (run for run in runs if run.key not in finished)
        return
    yield from call(
        play_run,
        [
            (realisations[label, seed], name, plan.policies[name], plan.conditions)
            for label, name, seed in missing
        ],
    )


def _count_workers(plan: Comparison, few_runs: int = 4, few_steps: int = 2000) -> int:
    """Return the number of processes: one if a few runs take less time than starting processes."""
    steps = len(plan.policies) * len(plan.seeds) * sum(plan.steps.values())
    is_short = len(plan.runs) < few_runs and steps <= few_steps
    return 1 if plan.n_jobs == -1 and is_short else plan.n_jobs


def call_in_parallel(
    workers: int, call: Callable[..., Any], arguments: Sequence[Sequence[Any]]
) -> Iterator[Any]:
    """Yield the results of calls in so many processes, each as soon as it is ready.

    So a long call does not delay the results of later ones, which the caller may save. A single call is
    made in this process.
    """
    delayed_call = delayed(functools.partial(call_alone, os.getpid(), call))
    processes = 1 if len(arguments) <= 1 else min(workers, len(arguments))  # -1: all cores
    # joblib warns when it replaces a process whose memory has grown; no run is lost by that. Most of
    # that memory is free, but remains with the process until its heap is trimmed.
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "A worker stopped while some jobs were given", UserWarning
        )
        parallel: Any = Parallel(n_jobs=processes, return_as="generator_unordered")
        yield from parallel(delayed_call(*items) for items in arguments)


def call_alone(parent: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with one BLAS thread, since parallel runs use all cores anyway.

    Ctrl-C on a terminal, and sometimes a request to terminate, reach all processes. Processes other than
    `parent` ignore them: the parent ends them.
    """
    if os.getpid() != parent:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.getppid() == parent:
            _exit_with(parent)
    with limit_blas_threads():
        return call(*arguments)


@functools.cache
def _exit_with(parent: int, seconds: float = 1.0) -> None:
    """End this process after its parent has ended, such as by a SIGKILL; check every `seconds`.

    A process whose parent ends gets another parent, except on Windows, where this has no effect.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(seconds)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end with the parent").start()


# --- on a cluster -------------------------------------------------------------------------------------


ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://\S+|(?!local:)[\w.-]+:\d+")


def play_on_cluster(
    address: str,
    plans: Sequence[Comparison],
    finished: Collection[Key],
    say: Callable[[str], object] = print,
) -> Iterator[Run]:
    """Play the unfinished runs of comparisons on a Dask cluster, and yield each when it is complete.

    If a worker dies, Dask gives its task to another worker, as often as its option
    `distributed.scheduler.allowed-failures` allows. If the scheduler stops, the incomplete runs are
    lost; repeating the command plays them again.

    Parameters
    ----------
    address : str
        The address of a scheduler, such as tcp://10.0.0.1:8786.
    plans : sequence of Comparison
    finished : collection of keys
    say : callable
        A function that shows a message, which contains the address of the dashboard.

    Raises
    ------
    ValueError
        If the address is not valid, no scheduler answers there, or the package distributed is not
        installed.
    ConnectionError
        If the scheduler stops before all runs are complete.
    """
    requirement = (
        "the address of a scheduler such as tcp://10.0.0.1:8786; --jobs is for this machine"
    )
    require(ADDRESS.fullmatch(address), "--cluster", requirement, address)
    try:
        import distributed
    except ImportError as error:
        raise ValueError("--cluster needs Dask: pip install 'tvbandits[dask]'") from error
    dask: Any = distributed  # which has no types
    with ExitStack() as stack:
        # Dask would log pages about a lost scheduler, for which one error message is enough.
        log = logging.getLogger("distributed.client")
        stack.callback(log.setLevel, log.level)
        log.setLevel(logging.CRITICAL)
        try:
            client = stack.enter_context(dask.Client(address, timeout=10))
        except OSError as error:
            raise ValueError(f"--cluster: no scheduler answers at {address}") from error
        say(f"dashboard: {client.dashboard_link}")
        try:
            # No reference to a finished future is kept, so that its rows can be freed.
            for future in dask.as_completed(list(_submit(client, plans, finished))):
                yield future.result()
        except (CancelledError, dask.comm.CommClosedError) as error:
            raise ConnectionError(
                f"the scheduler at {address} has stopped; complete runs are kept: restart it, and "
                "repeat the command"
            ) from error


def _submit(client: Any, plans: Sequence[Comparison], finished: Collection[Key]) -> Iterator[Any]:
    """Submit all unfinished runs, and yield their futures; each realisation is prepared only once."""
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
