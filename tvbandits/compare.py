"""Comparisons: policies x problems x seeds -> flat rows -> tables.

Every policy of one seed meets the same realisation of a problem, and the same noise where it plays the
same point at the same time. A row is a plain dict; files, tables, pictures and tests share it.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from tvbandits.confidence import Confidence, as_confidence
from tvbandits.domains import Candidates
from tvbandits.experts.simulator import CallableExpert, SimulatorExpert
from tvbandits.observations import Array, as_points
from tvbandits.policies import POLICIES, Setting
from tvbandits.prepare import REWARD_NOISE, Prepared, played, prepare
from tvbandits.protocols import Expert, Problem
from tvbandits.recipe import Info, is_finite_number
from tvbandits.recommended import regret_bound
from tvbandits.specs import in_the_user_s_words, parse_call, parse_spec
from tvbandits.tables import Row, as_seeds


class Player(Protocol):
    """What a comparison can play: a `Bandit`, or anything with its ask and tell."""

    @property
    def info(self) -> Info:
        """What happened in the last ask and tell."""
        ...

    def ask(self, t: float | None = None) -> Array:
        """Where to play at time `t`, shape (b, d)."""
        ...

    def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
        """Learn rewards."""
        ...


FEW_RUNS, FEW_STEPS = 4, 2000
"""Fewer runs than this, with no more steps together, are done before other processes have started."""

Maker = Callable[[Setting], Player]
MakeExpert = Callable[[Problem, int], Expert]


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
    runs = iterate(problems, policies, seeds, horizon, n_jobs, confidence=confidence, expert=expert)
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
) -> Iterator[Run]:
    """As `compare`, but one `Run` at a time, as soon as it and all runs before it are done."""
    labelled = _labelled_problems(problems)
    makers = _makers(policies, expert)
    width = as_width(confidence)
    chosen = as_seeds(seeds)
    _check_whole("n_jobs", n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; give a number of processes, or -1 for all cores")
    steps = {label: _steps(label, problem, horizon) for label, problem in labelled.items()}
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
    problem, seed = prepared.problem, prepared.seed
    player = maker(prepared.setting(confidence, expert))
    if isinstance(player, type) or not all(hasattr(player, each) for each in _OF_A_PLAYER):
        raise TypeError(f'the maker of "{name}" must return a {_PLAYER}, got {player!r}')
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
                "queries": info.queries_asked if i == 0 else 0,
                "answered": info.queries_answered if i == 0 else 0,
                "cost": info.cost if i == 0 else 0.0,
                "seconds": seconds / len(X),
                "batch_size": len(X),
                "dictionary_size": _or_nan(info.dictionary_size),
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


@dataclass(frozen=True)
class _Named:
    """A maker of a named policy that can be sent to another process."""

    text: str

    def __call__(self, setting: Setting) -> Player:
        name, _ = parse_spec(self.text)
        make = POLICIES[name].make
        parameters = parse_call(make, self.text, given=1)
        try:
            made: Player = make(setting, **parameters)
        except (TypeError, ValueError) as error:
            said = in_the_user_s_words(str(error), parameters)
            raise ValueError(said if self.text in said else f'"{self.text}": {said}') from error
        return made


def _makers(
    policies: Sequence[str] | Mapping[str, Maker], expert: MakeExpert | None
) -> dict[str, Maker]:
    if isinstance(policies, Mapping):
        makers = dict(policies)
        for label, maker in makers.items():
            if not callable(maker):
                raise TypeError(f'policy "{label}" must be a function of a Setting, got {maker!r}')
    else:
        makers = {}
        several = isinstance(policies, Iterable) and not isinstance(policies, str)
        for text in policies if several else [policies]:
            if not isinstance(text, str):
                raise TypeError(
                    f"policies must be names, or a mapping of labels to makers; got {text!r}"
                )
            name, _ = parse_spec(text)
            if name not in POLICIES:
                raise ValueError(f'unknown policy "{name}"; there are: {", ".join(POLICIES)}')
            makers[text] = _Named(text)
            # Made once for a toy, so that a bad value is met before the first run, not after hours.
            makers[text](_toy(expert))
    if not makers:
        raise ValueError("policies must name at least one policy")
    return makers


def _toy(expert: MakeExpert | None) -> Setting:
    """What is known of a problem of two points."""
    return Setting(
        domain=Candidates(np.array([[0.0], [1.0]])),
        kernel=RBF(),
        noise_variance=1.0,
        horizon=10,
        variation=1.0,
        scale=1.0,
        epsilon=0.1,
        information_gain=1.0,
        confidence=as_confidence("theory"),
        expert=None if expert is None else lambda: CallableExpert(lambda X, t: X[:, 0] * t, 1.0),
        seed=0,
    )


_MEMBERS = [name for name in dir(Problem) if not name.startswith("_")]
_OF_A_PLAYER = ("ask", "tell", "info")
_PLAYER = "player with ask, tell and info"


def _labelled_problems(
    problems: Problem | Sequence[Problem] | Mapping[str, Problem],
) -> dict[str, Problem]:
    if isinstance(problems, Mapping):
        labelled = dict(problems)
    else:
        several = isinstance(problems, Iterable) and not isinstance(problems, str | type)
        listed: list[Any] = list(problems) if several else [problems]  # type: ignore[arg-type]
        for problem in listed:
            _check_kind(problem)
        labelled = {getattr(problem, "name", ""): problem for problem in listed}
        if len(labelled) < len(listed):
            names = [problem.name for problem in listed]
            raise ValueError(f"problems must have different names, or labels of yours; got {names}")
    if not labelled:
        raise ValueError("problems must hold at least one problem")
    for label, problem in labelled.items():
        _check_problem(label, problem)
    return labelled


def _check_kind(problem: object) -> None:
    """Refuse what is not a problem, and say what it is if it could make one."""
    if isinstance(problem, str):
        raise TypeError(
            f"problems must be objects such as tvbandits.datasets.DriftingBump(), got {problem!r}"
        )
    if isinstance(problem, type) or inspect.isroutine(problem):
        kind = "class" if isinstance(problem, type) else "function"
        name = problem.__name__
        raise TypeError(f"{name} is a {kind}, not a problem; problems are made by a call: {name}()")
    missing = [name for name in _MEMBERS if not _has(problem, name)]
    if missing:
        raise ValueError(f"{problem!r} is not a problem: it has no {', '.join(missing)}")


def _check_problem(label: str, problem: Problem) -> None:
    _check_kind(problem)
    noise = problem.noise_variance
    if not (math.isfinite(noise) and noise > 0):
        raise ValueError(f"{label}: noise_variance must be positive and finite, got {noise}")
    with np.errstate(all="ignore"):
        logarithms = getattr(problem.kernel, "theta", np.zeros(0))
    if not np.isfinite(logarithms).all():
        raise ValueError(
            f"{label}: the numbers of a kernel must be positive and finite, got {problem.kernel!r}"
        )


def _has(problem: object, name: str) -> bool:
    """Whether there is such a member; what takes work to compute is not computed for this."""
    return getattr_static(problem, name, None) is not None or hasattr(problem, name)


def _steps(label: str, problem: Problem, horizon: int | None) -> int:
    steps = problem.horizon if horizon is None else horizon
    _check_whole("horizon", steps)
    if steps < 1:
        raise ValueError(f"horizon must be at least 1, got {steps}")
    if steps > problem.horizon:
        raise ValueError(
            f"{label} has {problem.horizon} steps, got horizon = {steps}; "
            "where it is made up, make a longer one"
        )
    return steps


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
