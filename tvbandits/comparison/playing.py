"""One run: a policy plays a problem with one seed, and leaves a row for every step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.acquisition.widths import Confidence, Fixed, Theory
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
from tvbandits.comparison.summary import NO_WIDTH, Key
from tvbandits.domains.moving import MoveCost, costs_along
from tvbandits.policies.theory import regret_bound
from tvbandits.protocols import Expert, Problem
from tvbandits.queries.plans import Asking, Following, RandomPoints
from tvbandits.validation import Array, finite_number, shown

# A bandit with random answers keeps the latest of them, so many: no policy that forgets has a use for
# more, and a step's cost stays bounded.
KEPT_ANSWERS = 300


@dataclass(frozen=True)
class Run:
    """One finished run: its label, and a table with a row for every step."""

    problem: str
    policy: str
    seed: int
    rows: pd.DataFrame

    @property
    def key(self) -> Key:
        """Which of all runs it is."""
        return self.problem, self.policy, self.seed


@dataclass(frozen=True)
class Conditions:
    """What is the same for all runs of a comparison.

    Attributes
    ----------
    beta : Confidence or None
        None: each policy's own default.
    text : str or None
        What rows call it.
    expert : callable or None
        Makes the expert of a problem and a seed.
    batch : int or None
        Points a step; None: as each policy decides.
    """

    beta: Confidence | None
    text: str | None
    expert: MakeExpert | None
    batch: int | None = None


def play_one(prepared: Prepared, name: str, maker: Maker, conditions: Conditions) -> Run:
    """Play all steps of one run of one policy; a problem that is moved is copied for it."""
    return _run(*_entered(prepared, name, maker, conditions), name, maker, conditions)


def play_equally(
    prepared: Prepared, makers: Mapping[str, Maker], conditions: Conditions
) -> list[Run]:
    """Play one run of every policy on one realisation, those that ask nobody after those that do."""
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
    counts = max((run.rows["answered"].to_list() for run in runs.values()), key=sum)
    for name in [name for name in makers if name not in runs]:
        here, player = entries[name]
        player = _informed(player, conditions.expert(here.problem, prepared.known.seed), counts)
        runs[name] = _run(here, player, name, makers[name], conditions)
    return [runs[name] for name in makers]


def _entered(
    prepared: Prepared, name: str, maker: Maker, conditions: Conditions
) -> tuple[Prepared, Player]:
    """Return a problem before its first step, and who is going to play it."""
    prepared, points = begun(prepared), conditions.batch
    player = maker(prepared.setting(conditions.beta, conditions.expert))
    if isinstance(player, type) or not (hasattr(player, "ask") and hasattr(player, "tell")):
        raise TypeError(
            f'the maker of "{name}" must return a player with ask and tell, got {shown(player)}'
        )
    if points is not None and "n" not in signature(player.ask).parameters:
        raise TypeError(f'"{name}" plays one point a step: its ask takes no n, got batch={points}')
    return prepared, _suited(player, prepared.problem, points)


def _suited(player: Player, problem: Problem, points: int | None) -> Player:
    """Put a bandit under the limits of the problem, with its control and move costs; no other player."""
    if not isinstance(player, Bandit):
        return player
    control = getattr(problem, "control", None)
    if control is not None and player.recipe.options.control is None:
        if points is None or points < 2:
            raise ValueError(
                f"{problem.name} has a control, which others are held against at one time: give batch=2 "
                "or more"
            )
        player = player.with_options(control=control)
    limits, cost = limits_of(problem), getattr(problem, "move_cost", None)
    if limits and not player.recipe.options.limits:
        player = player.with_options(limits=limits, safe=getattr(problem, "safe", ()))
    if cost is not None and player.recipe.options.move_cost is None:
        player = player.with_options(move_cost=cost)
    return player


def _informed(player: Player, expert: Expert, counts: list[int]) -> Player:
    """Return a bandit with so many answers in each step, at random points, taken as it takes rewards."""
    if not isinstance(player, Bandit):
        return player
    # An ensemble conditions on every answer once, and forgets by itself.
    most = None if player.recipe.posterior.self_learning else KEPT_ANSWERS
    plan = RandomPoints(Following(tuple(counts)))
    asking = Asking(plan, expert, about="domain", reuse_answers=True, most_answers=most)
    return Bandit.from_state(replace(player.recipe, asking=asking), player.state)


def _run(
    prepared: Prepared, player: Player, name: str, maker: Maker, conditions: Conditions
) -> Run:
    """Play to the horizon, and make a table of what was played."""
    label, known, points = prepared.label, prepared.known, conditions.batch
    parts: list[dict[str, Array]] = []
    here, step = np.empty((0, known.domain.dimension)), 1
    while step <= known.horizon:
        try:
            part, here = _play_batch(prepared, player, points, step, here)
        except Exception as error:
            error.add_note(f"{name} on {label}, seed {known.seed}, step {step}")
            raise
        parts.append(part)
        step += len(part["t"])
    columns = {each: np.concatenate([part[each] for part in parts]) for each in parts[0]}
    rows = pd.DataFrame(
        {
            "problem": label,
            "policy": name,
            "width": _width_text(maker, player, conditions.text),
            "seed": known.seed,
            **columns,
        }
    )
    t, total = columns["t"], np.cumsum(columns["regret"])
    bounds = _bounds(prepared, t, columns["beta"])
    if points is not None:  # it is a bound on plays of one point each
        bounds = np.where(columns["batch_size"] > 1, math.nan, bounds)
    place = list(rows).index("regret") + 1
    rows.insert(place, "cumulative_regret", total)
    rows.insert(place + 1, "average_regret", total / t)
    rows.insert(list(rows).index("beta") + 1, "bound", bounds)
    return Run(label, name, known.seed, rows)


def _bounds(prepared: Prepared, t: Array, beta: Array) -> Array:
    """Return the theorem's bounds on the average regret after each step, in the unit of reward."""
    scale, gains = prepared.known.scale, prepared.gains[t - 1]
    noise = prepared.noise_variance / scale**2
    steps = zip(t.tolist(), beta.tolist(), gains.tolist(), strict=True)
    return np.array([scale * regret_bound(step, width, noise, gain) for step, width, gain in steps])


def _play_batch(
    prepared: Prepared, player: Player, points: int | None, step: int, here: Array
) -> tuple[dict[str, Array], Array]:
    """Ask, play and tell, from `here` (0 or 1, d) on: columns of what is told together, and its end.

    Each point is a step, or all are one, with its mean. Only the player is clocked, in processor time:
    that of the wall depends on who else is there.
    """
    problem, known = prepared.problem, prepared.known
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
    knows = isinstance(player, Bandit) and player.recipe.options.limits
    told_too: dict[str, Any] = {"outcomes": read} if knows else {}
    best, rewards, readings = _readings(problem, X, times, known.seed)
    started = time.process_time()
    # A copy: what becomes of it must not become of the rows.
    player.tell(X.copy(), readings, float(times[0]) if size == 1 else times, **told_too)
    seconds += time.process_time() - started
    cost, paid = _move_cost(problem, player), np.zeros(size)
    if cost is not None:
        paid = costs_along(cost, problem.domain, np.concatenate([here, X]))[len(here) :]
    if points is not None:
        means = [each.mean(keepdims=True) for each in (best, rewards, violations, paid)]
        X, (best, rewards, violations, paid) = X[:1], means
    t, lost = step + np.arange(len(X)), best - rewards
    info, first = _info_of(player), t == step
    kept = info.posterior.dictionary_size
    columns = {
        "t": t,
        **{f"x{j}": coordinates for j, coordinates in enumerate(X.T)},
        "reward": rewards,
        "best": best,
        # What a violation earns is no gain.
        "regret": np.where(violations == 0, lost, np.maximum(lost, 0.0)),
        # Questions and their cost stand in the row of the first point.
        "queries": np.where(first, info.queries.asked, 0),
        "answered": np.where(first, info.queries.answered, 0),
        "cost": np.where(first, info.queries.cost, 0.0),
        "seconds": np.full(len(X), seconds / len(X)),
        "batch_size": np.full(len(X), size),
        "dictionary_size": np.full(len(X), math.nan if kept is None else float(kept)),
        "beta": np.full(len(X), beta),
        **({"violations": violations} if limits_of(problem) else {}),
        **({"move_cost": paid} if cost is not None else {}),
    }
    return columns, there


def _readings(problem: Problem, X: Array, times: Array, seed: int) -> Array:
    """Return best and true rewards, and what is read, (3, n), of points that are played in turn."""
    values = np.empty((3, len(X)))
    for i, t in enumerate(times.tolist()):
        # Before it is played: a problem may be moved by its player.
        values[0, i] = finite_number(f"the best of {problem.name}", problem.best(t))
        # A point that is played twice at a time is read twice.
        again = int(((X[:i] == X[i]).all(axis=1) & (times[:i] == t)).sum())
        values[1:, i] = played(problem, X[i : i + 1], t, seed, REWARD_NOISE + again * STREAMS)
    return values


def _move_cost(problem: Problem, player: Player) -> MoveCost | None:
    """Return what moves cost in truth: as the problem says, or else as the bandit believes."""
    own = player.recipe.options.move_cost if isinstance(player, Bandit) else None
    stated: MoveCost | None = getattr(problem, "move_cost", None)
    return own if stated is None else stated


def _width_text(maker: Maker, player: Player, asked: str | None) -> str:
    """Return the width that is played, as rows show it."""
    text = maker.width_text(asked) if isinstance(maker, Named) else asked
    if text is not None:
        return text
    if not isinstance(player, Bandit):
        return NO_WIDTH
    width = player.recipe.beta
    if isinstance(width, Fixed):
        return f"{width.value:g}"
    return "theory" if width == Theory() else repr(width)


def _info_of(player: Player) -> Info:
    """Return what a player says of itself; one that says nothing has no width, and asks nobody."""
    info: Info | None = getattr(player, "info", None)
    return Info() if info is None else info
