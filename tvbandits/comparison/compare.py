"""Comparisons: policies x problems x seeds -> flat rows -> tables.

Every policy of one seed meets the same realisation of a problem, and the same noise where it plays the
same point at the same time. A row is a plain dict; files, tables, pictures and tests share it.
"""

from __future__ import annotations

import functools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from tvbandits.acquisition.confidence import Confidence, as_confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.comparison.entrants import (
    OF_A_PLAYER,
    PLAYER,
    MakeExpert,
    Maker,
    Player,
    check_whole,
    labelled_problems,
    makers_of,
    steps_of,
)
from tvbandits.comparison.setup import REWARD_NOISE, Prepared, played, prepare
from tvbandits.comparison.summary import Row, as_seeds
from tvbandits.core.arrays import as_points, is_finite_number
from tvbandits.core.protocols import Expert, Problem
from tvbandits.experts.functions import SimulatorExpert
from tvbandits.policies import Setting
from tvbandits.policies.theory import regret_bound
from tvbandits.queries.asking import Asking
from tvbandits.queries.budgets import Following
from tvbandits.queries.plans import RandomPoints

FEW_RUNS, FEW_STEPS = 4, 2000
"""Fewer runs than this, with no more steps together, are done before other processes have started."""


KEPT_ANSWERS = 300
"""Of so many answers a bandit that was given them at random keeps the latest: no policy that forgets has
a use for more, and a step's cost stays bounded."""


@dataclass(frozen=True)
class Run:
    """One finished run: its label, and a row for every step."""

    problem: str
    policy: str
    seed: int
    rows: list[Row]


def simulated(problem: Problem, seed: int) -> Expert:
    """The expert a comparison asks by default: the problem's truth with noise of the same variance."""
    return SimulatorExpert(problem, seed=seed)


def compare(
    problems: Problem | Sequence[Problem] | Mapping[str, Problem],
    policies: Sequence[str] | Mapping[str, Maker],
    seeds: int | Sequence[int] = 10,
    horizon: int | None = None,
    n_jobs: int = 1,
    *,
    confidence: Confidence | float | str = "theory",
    expert: MakeExpert | None = simulated,
    equal_information: bool = False,
) -> Iterator[Row]:
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
    confidence : Confidence, float or "theory"
    expert : callable, optional
        `expert(problem, seed)` makes the expert of a run; by default it tells the problem's truth with
        noise of the same variance.
    equal_information : bool
        Every bandit that asks nobody gets as many of the expert's answers, at random points of the
        domain and in the same steps, as the policy of the comparison that gets most. It takes them as
        it takes rewards, the latest `KEPT_ANSWERS` of them. What is left of the difference is due to
        where the answers are asked for, and what is done with them.

    Yields
    ------
    dict
        One row a step, in the order of problems, policies and seeds, with the columns problem, policy,
        confidence, seed, t, x0, ..., reward, best, regret, cumulative_regret, average_regret, queries,
        answered, cost, seconds, batch_size, dictionary_size, beta, bound. `reward` and `best` are
        noise-free; `bound` is the bound of SparQ-GP-UCB's theorem on the average regret, at the width
        that was used. The points of a batch are played one a step and told together: queries and their
        cost stand in its first row, and each of its rows has its share of the seconds.
    """
    runs = iterate(
        problems,
        policies,
        seeds,
        horizon,
        n_jobs,
        confidence=confidence,
        expert=expert,
        equal_information=equal_information,
    )
    return (row for run in runs for row in run.rows)


def iterate(
    problems: Problem | Sequence[Problem] | Mapping[str, Problem],
    policies: Sequence[str] | Mapping[str, Maker],
    seeds: int | Sequence[int] = 10,
    horizon: int | None = None,
    n_jobs: int = 1,
    *,
    confidence: Confidence | float | str = "theory",
    expert: MakeExpert | None = simulated,
    equal_information: bool = False,
) -> Iterator[Run]:
    """As `compare`, but one `Run` at a time, as soon as it and all runs before it are done."""
    labelled = labelled_problems(problems)
    makers = makers_of(policies, expert)
    width = as_width(confidence)
    chosen = as_seeds(seeds)
    check_whole("n_jobs", n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; give a number of processes, or -1 for all cores")
    steps = {label: steps_of(label, problem, horizon) for label, problem in labelled.items()}
    text = confidence if isinstance(confidence, str) else _text(confidence)
    alone = functools.partial(_one_thread, os.getpid())
    plays = len(makers) * len(chosen)
    few = plays * len(labelled) < FEW_RUNS and plays * sum(steps.values()) <= FEW_STEPS
    workers = 1 if n_jobs == -1 and few else n_jobs

    def runs() -> Iterator[Run]:
        prepared = {
            (made.label, made.seed): made
            for made in _parallel(workers, len(labelled) * len(chosen))(
                delayed(alone)(prepare, label, problem, seed, steps[label])
                for label, problem in labelled.items()
                for seed in chosen
            )
        }
        if equal_information:
            contests = _parallel(workers, plays * len(labelled))(
                delayed(alone)(_play_equally, made, makers, width, expert, text)
                for made in prepared.values()
            )
            yield from _by_policy(contests, len(chosen))
            return
        tasks = (
            delayed(alone)(_play, prepared[label, seed], name, maker, width, expert, text)
            for label in labelled
            for name, maker in makers.items()
            for seed in chosen
        )
        yield from _parallel(workers, plays * len(labelled))(tasks)

    return runs()


def _parallel(workers: int, tasks: int) -> Any:
    """So many processes, and none but this one for a single task."""
    return Parallel(n_jobs=1 if tasks == 1 else workers, return_as="generator")


def _one_thread(parent: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Parallel runs share the cores; threads of BLAS inside them would only get in their way.

    Ctrl-C on a terminal reaches all processes. It is for the `parent` to act on: it ends the others.
    """
    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with threadpool_limits(limits=1):
        return call(*arguments)


def _play(
    prepared: Prepared,
    name: str,
    maker: Maker,
    confidence: Confidence,
    expert: MakeExpert | None,
    width: str,
) -> Run:
    """One run of one policy."""
    player = _player(name, maker, prepared.setting(confidence, expert))
    return _played_out(prepared, name, player, width)


def _play_equally(
    prepared: Prepared,
    makers: Mapping[str, Maker],
    confidence: Confidence,
    expert: MakeExpert | None,
    width: str,
) -> list[Run]:
    """One run of every policy on one realisation, those without an expert after those with one."""
    setting = prepared.setting(confidence, expert)
    players = {name: _player(name, maker, setting) for name, maker in makers.items()}
    asking = [name for name, player in players.items() if _asks(player)]
    if not asking or setting.expert is None:
        raise ValueError(
            f"equal information needs a policy that asks an expert; there are: {', '.join(makers)}"
        )
    done = {name: _played_out(prepared, name, players[name], width) for name in asking}
    counts = max(([row["answered"] for row in run.rows] for run in done.values()), key=sum)
    plan = RandomPoints(Following(tuple(counts)))
    for name, player in players.items():
        if name in done:
            continue
        if isinstance(player, Bandit):
            given = Asking(
                plan,
                setting.expert(),
                about="domain",
                reuse_answers=True,
                most_answers=KEPT_ANSWERS,
            )
            player = Bandit.from_state(replace(player.recipe, asking=given), player.state)
        done[name] = _played_out(prepared, name, player, width)
    return [done[name] for name in players]


def _asks(player: Player) -> bool:
    return isinstance(player, Bandit) and player.recipe.asking is not None


def _by_policy(contests: Iterable[list[Run]], seeds: int) -> Iterator[Run]:
    """The runs of a problem's seeds, sorted by policy."""
    waiting: list[list[Run]] = []
    for contest in contests:
        waiting.append(contest)
        if len(waiting) == seeds:
            yield from (
                run for of_one_policy in zip(*waiting, strict=True) for run in of_one_policy
            )
            waiting = []


def _player(name: str, maker: Maker, setting: Setting) -> Player:
    player = maker(setting)
    if isinstance(player, type) or not all(hasattr(player, each) for each in OF_A_PLAYER):
        raise TypeError(f'the maker of "{name}" must return a {PLAYER}, got {player!r}')
    return player


def _played_out(prepared: Prepared, name: str, player: Player, width: str) -> Run:
    """All steps of a run."""
    problem, seed = prepared.problem, prepared.seed
    rows: list[Row] = []
    cumulative = 0.0
    while len(rows) < prepared.horizon:
        step = len(rows) + 1
        started = time.perf_counter()
        X = as_points(player.ask(float(step)), problem.domain.dimension)
        X = X[: prepared.horizon - len(rows)]
        asked = time.perf_counter() - started
        beta = player.info.beta
        # The points of a batch are played one a step, and told together.
        times = np.arange(float(step), float(step + len(X)))
        rewards, told = played(problem, X, times, seed, REWARD_NOISE)
        started = time.perf_counter()
        info = player.tell(X, told, float(times[0]) if len(X) == 1 else times)
        seconds = asked + time.perf_counter() - started
        for i, x in enumerate(X):
            best, reward = float(problem.best(float(times[i]))), float(rewards[i])
            regret = best - reward
            cumulative += regret
            row: Row = {
                "problem": prepared.label,
                "policy": name,
                "confidence": width,
                "seed": seed,
                "t": step + i,
                **{f"x{j}": float(coordinate) for j, coordinate in enumerate(x)},
                "reward": reward,
                "best": best,
                "regret": regret,
                "cumulative_regret": cumulative,
                "average_regret": cumulative / (step + i),
                "queries": info.queries.asked if i == 0 else 0,
                "answered": info.queries.answered if i == 0 else 0,
                "cost": info.queries.cost if i == 0 else 0.0,
                "seconds": seconds / len(X),
                "batch_size": len(X),
                "dictionary_size": _or_nan(info.posterior.dictionary_size),
                "beta": beta,
                "bound": _bound(prepared, step + i, beta),
            }
            rows.append(row)
    return Run(prepared.label, name, seed, rows)


def _or_nan(number: int | None) -> float:
    return math.nan if number is None else float(number)


def _bound(prepared: Prepared, step: int, beta: float) -> float:
    """The theorem's bound on the average regret, in the unit of reward."""
    noise = prepared.problem.noise_variance / prepared.scale**2
    gain = float(prepared.gains[step - 1])
    return prepared.scale * regret_bound(step, beta, noise, gain)


def as_width(confidence: Confidence | float | str) -> Confidence:
    """As `as_confidence`; a message speaks of confidence, also where a part of it is to blame."""
    try:
        return as_confidence(confidence)
    except ValueError as error:
        said = str(error).removeprefix("confidence ").removeprefix("value ")
        raise ValueError(f"confidence {said}") from error


def _text(confidence: Confidence | float) -> str:
    return f"{confidence:g}" if is_finite_number(confidence) else repr(confidence)
