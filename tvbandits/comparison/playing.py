"""One run: a policy plays a problem with one seed, and leaves a row for every step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from tvbandits.acquisition.confidence import Confidence, Fixed, Theory
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.play import Player
from tvbandits.bandit.state import Info
from tvbandits.comparison.entrants import MakeExpert, Maker, Named
from tvbandits.comparison.setup import (
    REWARD_NOISE,
    STREAMS,
    Prepared,
    begun,
    limits_of,
    outcomes_of,
    played,
)
from tvbandits.comparison.summary import NO_WIDTH, Key, Row
from tvbandits.core.arrays import Array, as_points
from tvbandits.core.coercion import shown
from tvbandits.core.moving import MoveCost, costs_along
from tvbandits.core.protocols import Expert, Problem
from tvbandits.policies import Setting
from tvbandits.policies.theory import regret_bound
from tvbandits.queries.plans import Asking, Following, RandomPoints

# Of so many answers a bandit that was given them at random keeps the latest: no policy that forgets
# has a use for more, and a step's cost stays bounded.
KEPT_ANSWERS = 300


@dataclass(frozen=True)
class Run:
    """One finished run: its label, and a row for every step."""

    problem: str
    policy: str
    seed: int
    rows: list[Row]

    @property
    def key(self) -> Key:
        """Which of all runs it is."""
        return self.problem, self.policy, self.seed


@dataclass(frozen=True)
class Conditions:
    """What is the same for all runs of a comparison.

    Attributes
    ----------
    confidence : Confidence or None
        None: each policy's own default.
    text : str or None
        What rows call it.
    expert : callable or None
        Makes the expert of a problem and a seed.
    batch : int or None
        Points a step; None: as each policy decides.
    """

    confidence: Confidence | None
    text: str | None
    expert: MakeExpert | None
    batch: int | None = None


class _Entered(NamedTuple):
    """A policy before its first step, and what `_played_out` needs of it."""

    prepared: Prepared
    name: str
    player: Player
    width: str
    points: int | None


def play_one(prepared: Prepared, name: str, maker: Maker, conditions: Conditions) -> Run:
    """One run of one policy."""
    return _played_out(*_entered(prepared, name, maker, conditions))


def play_equally(
    prepared: Prepared, makers: Mapping[str, Maker], conditions: Conditions
) -> list[Run]:
    """One run of every policy on one realisation, those that ask nobody after those that do."""
    entered = [_entered(prepared, name, maker, conditions) for name, maker in makers.items()]
    asking = [each for each in entered if _asks(each.player)]
    if not asking or conditions.expert is None:
        raise ValueError(
            f"equal information needs a policy that asks an expert; there are: {', '.join(makers)}"
        )
    runs = {each.name: _played_out(*each) for each in asking}
    counts = max(([row["answered"] for row in run.rows] for run in runs.values()), key=sum)
    for each in entered:
        if each.name not in runs:
            expert = conditions.expert(each.prepared.problem, prepared.seed)
            player = _informed(each.player, expert, counts)
            runs[each.name] = _played_out(*each._replace(player=player))
    return [runs[name] for name in makers]


def _informed(player: Player, expert: Expert, counts: list[int]) -> Player:
    """A bandit with so many answers in each step, at random points, taken as it takes rewards."""
    if not isinstance(player, Bandit):
        return player
    # An ensemble conditions on every answer once, and forgets by itself.
    most = None if player.recipe.posterior.self_learning else KEPT_ANSWERS
    plan = RandomPoints(Following(tuple(counts)))
    asking = Asking(plan, expert, about="domain", reuse_answers=True, most_answers=most)
    return Bandit.from_state(replace(player.recipe, asking=asking), player.state)


def _asks(player: Player) -> bool:
    return isinstance(player, Bandit) and player.recipe.asking is not None


def _entered(prepared: Prepared, name: str, maker: Maker, conditions: Conditions) -> _Entered:
    """A policy that is made for a problem, which is copied where it is moved."""
    prepared, batch = begun(prepared), conditions.batch
    setting = prepared.setting(conditions.confidence, conditions.expert)
    player = _suited(_player(name, maker, setting, batch), prepared.problem, batch)
    return _Entered(prepared, name, player, _width_text(maker, player, conditions.text), batch)


def _suited(player: Player, problem: Problem, points: int | None) -> Player:
    """A bandit under the limits of the problem, with its control and move costs; no other knows them."""
    if not isinstance(player, Bandit):
        return player
    control = getattr(problem, "control", None)
    if control is not None and player.recipe.control is None:
        if points is None or points < 2:
            raise ValueError(
                f"{problem.name} has a control, which others are held against at one time: give batch=2 "
                "or more"
            )
        player = player.with_control(control)
    limits, cost = limits_of(problem), getattr(problem, "move_cost", None)
    if limits and not player.recipe.limits:
        player = player.with_limits(limits, getattr(problem, "safe", ()))
    if cost is not None and player.recipe.move_cost is None:
        player = player.with_move_cost(cost)
    return player


def _move_cost_of(prepared: Prepared, player: Player) -> MoveCost | None:
    """What moves cost in truth: as the problem says, or else as the bandit believes."""
    own = player.recipe.move_cost if isinstance(player, Bandit) else None
    said: MoveCost | None = getattr(prepared.problem, "move_cost", None)
    return own if said is None else said


def _player(name: str, maker: Maker, setting: Setting, points: int | None) -> Player:
    player = maker(setting)
    if isinstance(player, type) or not (hasattr(player, "ask") and hasattr(player, "tell")):
        raise TypeError(
            f'the maker of "{name}" must return a player with ask and tell, got {shown(player)}'
        )
    if points is not None and "n" not in signature(player.ask).parameters:
        raise TypeError(f'"{name}" plays one point a step: its ask takes no n, got batch={points}')
    return player


def _width_text(maker: Maker, player: Player, asked: str | None) -> str:
    """The width that is played, as rows show it."""
    told = maker.width_text(asked) if isinstance(maker, Named) else asked
    if told is not None:
        return told
    if not isinstance(player, Bandit):
        return NO_WIDTH
    width = player.recipe.confidence
    if isinstance(width, Fixed):
        return f"{width.value:g}"
    return "theory" if width == Theory() else repr(width)


@dataclass(frozen=True)
class _Batch:
    """Points that were told together: each of them is a step, or all are one, with its mean."""

    step: int
    X: Array
    rewards: Array
    best: Array
    violations: Array
    move_cost: Array | None
    beta: float
    info: Info
    seconds: float
    size: int


def _played_out(
    prepared: Prepared, name: str, player: Player, width: str, points: int | None
) -> Run:
    """All steps of a run, of so many points each, or as the player decides."""
    rows: list[Row] = []
    label: Row = {
        "problem": prepared.label,
        "policy": name,
        "confidence": width,
        "seed": prepared.seed,
    }
    here = np.empty((0, prepared.problem.domain.dimension))
    while len(rows) < prepared.horizon:
        batch, here = _next_batch(prepared, player, len(rows) + 1, points, here)
        for i in range(len(batch.X)):
            before = rows[-1]["cumulative_regret"] if rows else 0.0
            rows.append(label | _row(prepared, batch, i, before))
    return Run(prepared.label, name, prepared.seed, rows)


def _next_batch(
    prepared: Prepared, player: Player, step: int, points: int | None, here: Array
) -> tuple[_Batch, Array]:
    """Ask, play and tell, from `here` (0 or 1, d) on; and where that ends.

    Only the player is clocked, in processor time: that of the wall depends on who else is there.
    """
    problem = prepared.problem
    more: dict[str, Any] = {} if points is None else {"n": points}
    started = time.process_time()
    X = as_points(player.ask(float(step), **more), problem.domain.dimension)
    asked = time.process_time() - started
    if points is None:
        X = X[: prepared.horizon - step + 1]
    times = float(step) + np.arange(float(len(X))) * (points is None)
    beta = _info_of(player).beta
    best, pairs = np.empty(len(X)), np.empty((len(X), 2))
    read, violations = outcomes_of(problem, X, times, prepared.seed, 0)
    knows = isinstance(player, Bandit) and player.recipe.limits
    told_too: dict[str, Any] = {"outcomes": read} if knows else {}
    for i in range(len(X)):
        # Before it is played: a problem may be moved by its player.
        best[i] = problem.best(float(times[i]))
        one = slice(i, i + 1)
        # A point that is played twice in a step is read twice.
        again = 0 if points is None else int((X[:i] == X[i]).all(axis=1).sum())
        stream = REWARD_NOISE + again * STREAMS
        pairs[i] = np.ravel(played(problem, X[one], times[one], prepared.seed, stream))
    rewards, told = pairs.T.copy()
    started = time.process_time()
    player.tell(X, told, float(times[0]) if len(X) == 1 else times, **told_too)
    seconds = asked + time.process_time() - started
    size, there, cost = len(X), X[-1:], _move_cost_of(prepared, player)
    way = np.concatenate([here, X])
    paid = None if cost is None else costs_along(cost, problem.domain, way)[len(here) :]
    if points is not None:
        means = [each.mean(keepdims=True) for each in (rewards, best, violations)]
        X, (rewards, best, violations) = X[:1], means
        paid = None if paid is None else paid.mean(keepdims=True)
    info = _info_of(player)
    batch = _Batch(step, X, rewards, best, violations, paid, beta, info, seconds, size)
    return batch, there


def _info_of(player: Player) -> Info:
    """What a player says of itself; one that says nothing has no width, and asks nobody."""
    info: Info | None = getattr(player, "info", None)
    return Info() if info is None else info


def _row(prepared: Prepared, batch: _Batch, i: int, before: float) -> Row:
    """Row of the i-th point of a batch; questions and their cost stand in that of the first."""
    step, info = batch.step + i, batch.info
    best, reward = float(batch.best[i]), float(batch.rewards[i])
    # What a violation earns is no gain.
    regret = best - reward if batch.violations[i] == 0 else max(best - reward, 0.0)
    cumulative = before + regret
    size = info.posterior.dictionary_size
    return {
        "t": step,
        **{f"x{j}": float(coordinate) for j, coordinate in enumerate(batch.X[i])},
        "reward": reward,
        "best": best,
        "regret": regret,
        "cumulative_regret": cumulative,
        "average_regret": cumulative / step,
        "queries": info.queries.asked if i == 0 else 0,
        "answered": info.queries.answered if i == 0 else 0,
        "cost": info.queries.cost if i == 0 else 0.0,
        "seconds": batch.seconds / len(batch.X),
        "batch_size": batch.size,
        "dictionary_size": math.nan if size is None else float(size),
        "beta": batch.beta,
        "bound": _bound(prepared, step, batch.beta) if len(batch.X) == batch.size else math.nan,
        **({"violations": float(batch.violations[i])} if limits_of(prepared.problem) else {}),
        **({} if batch.move_cost is None else {"move_cost": float(batch.move_cost[i])}),
    }


def _bound(prepared: Prepared, step: int, beta: float) -> float:
    """The theorem's bound on the average regret, in the unit of reward."""
    noise = prepared.noise_variance / prepared.scale**2
    gain = float(prepared.gains[step - 1])
    return prepared.scale * regret_bound(step, beta, noise, gain)
