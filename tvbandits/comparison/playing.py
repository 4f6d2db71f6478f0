"""One run: a policy plays a problem with one seed, and leaves a row for every step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from tvbandits.acquisition.confidence import Confidence, Fixed, Theory
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.state import Info, Player
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
from tvbandits.core.arrays import Array, Index
from tvbandits.core.moving import MoveCost, costs_along
from tvbandits.core.protocols import Expert, Problem
from tvbandits.policies import Setting
from tvbandits.policies.theory import regret_bound
from tvbandits.queries.plans import Asking, Following, RandomPoints
from tvbandits.validation import finite_number, shown

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


def play_one(prepared: Prepared, name: str, maker: Maker, conditions: Conditions) -> Run:
    """All steps of one run of one policy; a problem that is moved is copied for it."""
    return _run(*_entered(prepared, name, maker, conditions), name, maker, conditions)


def _entered(
    prepared: Prepared, name: str, maker: Maker, conditions: Conditions
) -> tuple[Prepared, Player]:
    """A problem before its first step, and who is going to play it."""
    prepared, points = begun(prepared), conditions.batch
    player = _player(
        name, maker, prepared.setting(conditions.confidence, conditions.expert), points
    )
    return prepared, _suited(player, prepared.problem, points)


def _run(
    prepared: Prepared, player: Player, name: str, maker: Maker, conditions: Conditions
) -> Run:
    """Play to the horizon."""
    label, known, points = prepared.label, prepared.known, conditions.batch
    names: Row = {"problem": label, "policy": name}
    names |= {"confidence": _width_text(maker, player, conditions.text), "seed": known.seed}
    rows: list[Row] = []
    playing, here = _Playing(prepared, player, points), np.empty((0, known.domain.dimension))
    while len(rows) < known.horizon:
        before, step = rows[-1]["cumulative_regret"] if rows else 0.0, len(rows) + 1
        try:
            batch, here = playing.batch(step, here, before)
        except Exception as error:
            error.add_note(f"{name} on {label}, seed {known.seed}, step {step}")
            raise
        rows += [names | row for row in batch]
    return Run(label, name, known.seed, rows)


def play_equally(
    prepared: Prepared, makers: Mapping[str, Maker], conditions: Conditions
) -> list[Run]:
    """One run of every policy on one realisation, those that ask nobody after those that do."""
    entries = {name: _entered(prepared, name, makers[name], conditions) for name in makers}
    asking = [
        name
        for name, (_, player) in entries.items()
        if isinstance(player, Bandit) and player.recipe.asking is not None
    ]
    if not asking or conditions.expert is None:
        raise ValueError(
            f"equal information needs a policy that asks an expert; there are: {', '.join(makers)}"
        )
    runs = {name: _run(*entries[name], name, makers[name], conditions) for name in asking}
    counts = max(([row["answered"] for row in run.rows] for run in runs.values()), key=sum)
    for name in [name for name in makers if name not in runs]:
        here, player = entries[name]
        player = _informed(player, conditions.expert(here.problem, prepared.known.seed), counts)
        runs[name] = _run(here, player, name, makers[name], conditions)
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


def _info_of(player: Player) -> Info:
    """What a player says of itself; one that says nothing has no width, and asks nobody."""
    info: Info | None = getattr(player, "info", None)
    return Info() if info is None else info


@dataclass(frozen=True)
class _Playing:
    """A player on a problem, and how many points a step."""

    prepared: Prepared
    player: Player
    points: int | None

    def batch(self, step: int, here: Array, before: float) -> tuple[list[Row], Array]:
        """Ask, play and tell, from `here` (0 or 1, d) on: rows of what is told together, and its end.

        Each point is a step, or all are one, with its mean. Only the player is clocked, in processor
        time: that of the wall depends on who else is there.
        """
        problem, player, points = self.prepared.problem, self.player, self.points
        known = self.prepared.known
        more: dict[str, Any] = {} if points is None else {"n": points}
        started = time.process_time()
        asked = player.ask(float(step), **more)
        seconds = time.process_time() - started
        X = problem.domain.check(asked)[: known.horizon - step + 1 if points is None else None]
        if not len(X):
            raise ValueError("a player must ask for one point at least, got none")
        size, there = len(X), X[-1:]
        times = float(step) + np.arange(float(size)) * (points is None)
        beta = _info_of(player).beta
        read, violations = outcomes_of(problem, X, times, known.seed)
        knows = isinstance(player, Bandit) and player.recipe.limits
        told_too: dict[str, Any] = {"outcomes": read} if knows else {}
        best, rewards, told = self._readings(X, times)
        started = time.process_time()
        # A copy: what becomes of it must not become of the rows.
        player.tell(X.copy(), told, float(times[0]) if size == 1 else times, **told_too)
        seconds += time.process_time() - started
        cost = self._move_cost()
        paid = np.zeros(size)
        if cost is not None:
            paid = costs_along(cost, problem.domain, np.concatenate([here, X]))[len(here) :]
        if points is not None:
            means = [each.mean(keepdims=True) for each in (best, rewards, violations, paid)]
            X, (best, rewards, violations, paid) = X[:1], means
        t, lost = step + np.arange(len(X)), best - rewards
        # What a violation earns is no gain.
        regret = np.where(violations == 0, lost, np.maximum(lost, 0.0))
        total = np.cumsum([before, *regret])[1:]
        info, first = _info_of(player), t == step
        kept = info.posterior.dictionary_size
        columns = {
            "t": t,
            **{f"x{j}": coordinates for j, coordinates in enumerate(X.T)},
            "reward": rewards,
            "best": best,
            "regret": regret,
            "cumulative_regret": total,
            "average_regret": total / t,
            # Questions and their cost stand in the row of the first point.
            "queries": np.where(first, info.queries.asked, 0),
            "answered": np.where(first, info.queries.answered, 0),
            "cost": np.where(first, info.queries.cost, 0.0),
            "seconds": np.full(len(X), seconds / len(X)),
            "batch_size": np.full(len(X), size),
            "dictionary_size": np.full(len(X), math.nan if kept is None else float(kept)),
            "beta": np.full(len(X), beta),
            "bound": self._bounds(t, beta) if len(X) == size else np.full(len(X), math.nan),
            **({"violations": violations} if limits_of(problem) else {}),
            **({"move_cost": paid} if cost is not None else {}),
        }
        lines = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, line, strict=True)) for line in lines], there

    def _readings(self, X: Array, times: Array) -> tuple[Array, Array, Array]:
        """Best and true rewards, and what is read, each (n,), of points that are played in turn."""
        problem, seed = self.prepared.problem, self.prepared.known.seed
        found = np.empty((3, len(X)))
        for i, t in enumerate(times.tolist()):
            # Before it is played: a problem may be moved by its player.
            found[0, i] = finite_number(f"the best of {problem.name}", problem.best(t))
            # A point that is played twice at a time is read twice.
            again = int(((X[:i] == X[i]).all(axis=1) & (times[:i] == t)).sum())
            stream = REWARD_NOISE + again * STREAMS
            found[1:, i] = played(problem, X[i : i + 1], t, seed, stream)
        best, rewards, told = found
        return best, rewards, told

    def _move_cost(self) -> MoveCost | None:
        """What moves cost in truth: as the problem says, or else as the bandit believes."""
        own = self.player.recipe.move_cost if isinstance(self.player, Bandit) else None
        said: MoveCost | None = getattr(self.prepared.problem, "move_cost", None)
        return own if said is None else said

    def _bounds(self, t: Index, beta: float) -> Array:
        """The theorem's bounds on the average regret after steps (m,), in the unit of reward."""
        scale, gains = self.prepared.known.scale, self.prepared.gains[t - 1].tolist()
        noise = self.prepared.noise_variance / scale**2
        steps = zip(t.tolist(), gains, strict=True)
        return np.array([scale * regret_bound(step, beta, noise, gain) for step, gain in steps])
