"""Runs as tasks that any process can play, in any order: the same rows wherever they are played."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
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
