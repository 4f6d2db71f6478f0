"""Rewards of a batch, evaluated side by side.

`evaluate` is one batch; `play` is the loop of ask, evaluate and tell. Any `concurrent.futures.Executor`
will do: threads, processes, or a cluster's.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.state import Info
from tvbandits.core.arrays import Array, as_points, as_time, is_finite_number, whole_number
from tvbandits.core.coercion import check_part, error_line, function as check_function, shown

# The reward of a point (d,) at a time. Processes need one that can be pickled.
Function: TypeAlias = Callable[[Array, float], float]


class EvaluationError(RuntimeError):
    """A reward could not be had; the message names the point and the time."""


class Player(Protocol):
    """What can be played, by `play` and by a comparison: a bandit, or anything with its ask and tell."""

    @property
    def info(self) -> Info:
        """What happened in the last ask and tell."""

    def ask(self, t: float | None = None) -> Array:
        """Where to play at time `t`, shape (b, d)."""

    def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
        """Learn rewards (b,) of points (b, d)."""


@dataclass(frozen=True)
class Played:
    """A batch that was played and told.

    Attributes
    ----------
    X : array of shape (b, d)
    y : array of shape (b,)
    t : float
    done : int
        Evaluations since `play` began, with these.

    Examples
    --------
    >>> from tvbandits import Candidates, play, policies
    >>> bandit = policies.uniform(Candidates([[0.0], [1.0]]))
    >>> (last,) = play(bandit, lambda x, t: x[0] + t, steps=1)
    >>> print(last.t, last.done, bool(last.y[0] == last.X[0, 0] + 1))
    1.0 1 True
    """

    X: Array
    y: Array
    t: float
    done: int


def evaluate(function: Function, X: ArrayLike, t: float, executor: Executor | None = None) -> Array:
    """The rewards (b,) of the points `X` (b, d) at the time `t`, in their order.

    Parameters
    ----------
    function : callable
        `function(x, t)` is the reward of one point (d,), which it has to itself.
    executor : concurrent.futures.Executor, optional
        Evaluates all points at once; without one, they are evaluated one after another, here.

    Raises
    ------
    EvaluationError
        If the function raises, or its reward is no finite number. Points whose evaluation has not
        begun are not evaluated then; those that run are not waited for.

    Examples
    --------
    >>> from tvbandits import evaluate
    >>> print(evaluate(lambda x, t: x[0] * t, [[1.0], [2.0]], t=3.0))
    [3. 6.]
    """
    _check_function(function, executor)
    points = as_points(X)
    t = as_time(t)
    if executor is None:
        return np.array([_reward(partial(function, x.copy(), t), x, t) for x in points])
    rewards = np.empty(len(points))
    futures: dict[Future[float], int] = {}
    try:
        for i, x in enumerate(points):
            futures[executor.submit(function, x.copy(), t)] = i
        for future in as_completed(futures):
            i = futures[future]
            rewards[i] = _reward(future.result, points[i], t)
    except BaseException:  # Ctrl-C, too
        for future in futures:
            future.cancel()
        raise
    return rewards


def play(
    bandit: Player,
    function: Function,
    steps: int,
    *,
    t: float | None = None,
    executor: Executor | None = None,
    progress: Callable[[Played], None] | None = None,
) -> list[Played]:
    """Ask, evaluate and tell, until so many points are evaluated.

    Whatever happens, Ctrl-C included, the bandit has been told all whole batches, `progress` has seen
    them, and no point of any other is left pending.

    Parameters
    ----------
    bandit : Bandit or baseline
    function : callable
        `function(x, t)`, as for `evaluate`.
    steps : int
        How many evaluations; the last batch is cut to that.
    t : float, optional
        Time of the first batch; by default one unit after the latest time told, 1 at the start. All
        points of a batch are played at one time, and the next batch one unit later.
    executor : concurrent.futures.Executor, optional
        Evaluates the points of a batch at once.
    progress : callable, optional
        Called with every batch after it was told.

    Returns
    -------
    played : list of Played

    Raises
    ------
    ValueError
        If `steps` is no whole number of at least 0.
    EvaluationError
        If a reward could not be had.

    Examples
    --------
    >>> from tvbandits import Candidates, play, policies
    >>> bandit = policies.uniform(Candidates([[0.0], [1.0], [2.0]]))
    >>> played = play(bandit, lambda x, t: x[0] + t, steps=5)
    >>> print(len(played), bandit.info.told)
    5 5
    """
    whole_number("steps", steps, at_least=0)
    check_part("bandit", bandit, "a bandit, or what has ask and tell", "ask")
    _check_function(function, executor)
    if progress is not None:
        check_function("progress", progress, "a function of what was played, or None")
    now = _next_time(bandit) if t is None else t
    played: list[Played] = []
    done = 0
    while done < steps:
        batch = bandit.ask(now)
        X = batch[: steps - done]
        _drop(bandit, batch[len(X) :])
        try:
            y = evaluate(function, X, now, executor)
            bandit.tell(X, y, now)
        except BaseException:  # Ctrl-C, too
            _drop(bandit, X)
            raise
        done += len(X)
        played.append(Played(X, y, now, done))
        if progress is not None:
            progress(played[-1])
        now += 1.0
    return played


def _check_function(evaluated: object, executor: object) -> None:
    check_function("function", evaluated, "a function of a point and a time")
    if executor is not None:
        check_part("executor", executor, "a concurrent.futures.Executor, or None", "submit")


def _drop(bandit: object, X: Array) -> None:
    """Let a bandit know that points it was asked for will not be told."""
    if isinstance(bandit, Bandit):
        for x in X:
            if (x == bandit.pending).all(axis=1).any():
                bandit.drop(x)


def _next_time(bandit: Player) -> float:
    latest = bandit.state.time if isinstance(bandit, Bandit) else None
    return 1.0 if latest is None else latest + 1.0


def _reward(value: Callable[[], Any], x: Array, t: float) -> float:
    """A checked reward."""
    where = f"{x.tolist()}, t = {t}"
    try:
        reward = value()
    except Exception as error:
        raise EvaluationError(f"the function failed at {where}: {error_line(error)}") from error
    number = reward.item() if isinstance(reward, np.ndarray) and reward.ndim == 0 else reward
    if not is_finite_number(number):
        raise EvaluationError(
            f"the reward at {where}, must be a finite number, got {shown(reward)}"
        )
    return float(number)
