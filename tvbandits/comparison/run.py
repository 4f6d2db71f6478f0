"""One run: a policy plays a problem with one seed, and leaves a row for every step."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.acquisition.widths import Confidence, Fixed, Theory
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.info import Info, Player
from tvbandits.bandit.options import Options
from tvbandits.comparison.setup import MakeExpert, Realisation
from tvbandits.comparison.summary import BEST_OF_BATCH, NO_WIDTH, Run
from tvbandits.datasets.environment import Environment, Stream, true_regrets
from tvbandits.domains.domain import Domain
from tvbandits.domains.moving import MoveCost, costs_along
from tvbandits.experts.protocol import Expert
from tvbandits.policies.registry import NamedPolicy
from tvbandits.policies.setting import Maker
from tvbandits.policies.theory import regret_bound
from tvbandits.queries.plans import Following, QueryConfig, RandomPoints
from tvbandits.validation import Array, describe, finite_number, is_finite_number


@dataclass(frozen=True)
class Conditions:
    """What is the same for all runs of a comparison.

    Attributes
    ----------
    beta : Confidence or None
        None: each policy's own default.
    text : str or None
        The width in rows.
    expert : callable or None
        Makes the expert of a problem and a seed.
    batch : int or None
        Points a step; None: as each policy decides.
    """

    beta: Confidence | None
    text: str | None
    expert: MakeExpert | None
    batch: int | None = None


def play_run(realisation: Realisation, name: str, maker: Maker, conditions: Conditions) -> Run:
    """Return one run of one policy."""
    realisation, player = _start(realisation, name, maker, conditions)
    return _play(realisation, player, name, maker, conditions)


def play_equally(
    realisation: Realisation, makers: Mapping[str, Maker], conditions: Conditions
) -> list[Run]:
    """Return one run of every policy, where bandits without an expert get as many answers as the others.

    Policies that ask an expert are played first: theirs is the number of answers.
    """
    starts = {name: _start(realisation, name, maker, conditions) for name, maker in makers.items()}
    with_expert = [
        name
        for name, (_, player) in starts.items()
        if isinstance(player, Bandit) and player.recipe.query_config is not None
    ]
    if not with_expert or conditions.expert is None:
        raise ValueError(
            f"equal information needs a policy that asks an expert; there are: {', '.join(makers)}"
        )
    runs = {name: _play(*starts[name], name, makers[name], conditions) for name in with_expert}
    counts = max((run.rows["answered"].to_list() for run in runs.values()), key=sum)
    for name in [name for name in makers if name not in runs]:
        own, player = starts[name]
        player = _add_answers(player, conditions.expert(own.problem, own.seed), counts)
        runs[name] = _play(own, player, name, makers[name], conditions)
    return [runs[name] for name in makers]


# --- before the first step ----------------------------------------------------------------------------


def _start(
    realisation: Realisation, name: str, maker: Maker, conditions: Conditions
) -> tuple[Realisation, Player]:
    """Return the realisation before its first step, and the player of a policy."""
    realisation, points = realisation.begin(), conditions.batch
    player = maker(realisation.setting_for(conditions.beta, conditions.expert))
    if isinstance(player, type) or not (hasattr(player, "ask") and hasattr(player, "tell")):
        raise TypeError(
            f'the maker of "{name}" must return a player with ask and tell, got {describe(player)}'
        )
    if points is not None and "n" not in signature(player.ask).parameters:
        raise TypeError(f'"{name}" plays one point a step: its ask takes no n, got batch={points}')
    return realisation, _adapt(player, realisation.environment, points)


def _adapt(player: Player, environment: Environment, points: int | None) -> Player:
    """Return a bandit under the limits, control and move cost of its problem; others as they are."""
    if not isinstance(player, Bandit):
        return player
    options = player.recipe.options
    changes: dict[str, Any] = {}
    if environment.control is not None and options.control is None:
        if points is None or points < 2:
            raise ValueError(
                f"{environment.problem.name} has a control, with which a batch compares the other "
                "points: give batch=2 or more"
            )
        changes["control"] = environment.control
    if environment.limits and not options.limits:
        changes |= {"limits": environment.limits, "safe": environment.safe}
    if environment.move_cost is not None and options.move_cost is None:
        changes["move_cost"] = environment.move_cost
    return player.with_options(**changes) if changes else player


def _add_answers(
    player: Player, expert: Expert, counts: list[int], most_answers: int = 300
) -> Player:
    """Return a bandit that gets so many answers in each step, at random points, as if they were rewards.

    A model that forgets has no use for more than the latest `most_answers`, and a step's cost stays
    bounded; an ensemble conditions on every answer once, and forgets by itself.
    """
    if not isinstance(player, Bandit):
        return player
    most = None if player.recipe.posterior.self_learning else most_answers
    plan = RandomPoints(Following(tuple(counts)))
    query_config = QueryConfig(plan, expert, pool="domain", reuse_answers=True, most_answers=most)
    return Bandit.from_state(replace(player.recipe, query_config=query_config), player.state)


# --- steps --------------------------------------------------------------------------------------------


def _play(
    realisation: Realisation, player: Player, name: str, maker: Maker, conditions: Conditions
) -> Run:
    """Play to the horizon, and return a table with a row for every step."""
    label, seed, points = realisation.label, realisation.seed, conditions.batch
    states_noise = _takes_noise(player, maker)
    parts: list[dict[str, Array]] = []
    position, step = np.empty((0, realisation.problem.domain.dimension)), 1
    while step <= realisation.horizon:
        try:
            part, position = _play_batch(
                realisation, player, points, step, position, states_noise=states_noise
            )
        except Exception as error:
            error.add_note(f"{name} on {label}, seed {seed}, step {step}")
            raise
        parts.append(part)
        step += len(part["t"])
    columns = {each: np.concatenate([part[each] for part in parts]) for each in parts[0]}
    _warn_of_low_best(label, columns)
    t, total = columns["t"], np.cumsum(columns["regret"])
    bounds = _bounds(realisation, t, columns["beta"])
    if points is not None:  # it is a bound on plays of one point each
        bounds = np.where(columns["batch_size"] > 1, math.nan, bounds)
    width = _width_text(maker, player, conditions.text)
    rows = pd.DataFrame({"problem": label, "policy": name, "width": width, "seed": seed, **columns})
    place = list(rows).index("regret") + 1
    rows.insert(place, "cumulative_regret", total)
    rows.insert(place + 1, "average_regret", total / t)
    rows.insert(list(rows).index("beta") + 1, "bound", bounds)
    return Run(label, name, seed, rows)


def _takes_noise(player: Player, maker: Maker) -> bool:
    """Return whether a player is told the noise variance of each reading, where candidates differ.

    One whose text says a noise variance of its own is not, nor one whose `tell` does not take it.
    """
    own = maker.options() if isinstance(maker, NamedPolicy) else {}
    return "noise_variance" not in own and "noise_variance" in signature(player.tell).parameters


def _bounds(realisation: Realisation, t: Array, beta: Array) -> Array:
    """Return the theorem's bounds on the average regret after each step, in the unit of reward."""
    scale, gains = realisation.setting.scale, realisation.gains[t - 1]
    noise = realisation.noise_variance / scale**2
    steps = zip(t.tolist(), beta.tolist(), gains.tolist(), strict=True)
    return np.array([scale * regret_bound(step, width, noise, gain) for step, width, gain in steps])


def _play_batch(
    realisation: Realisation,
    player: Player,
    points: int | None,
    step: int,
    position: Array,
    *,
    states_noise: bool,
) -> tuple[dict[str, Array], Array]:
    """Return the columns of one batch, played from `position` (0 or 1, d) on, and the last point.

    Each point is a step, or all are one, with its mean. Only the player is clocked, in processor time:
    that of the wall depends on who else is there.
    """
    environment, seed = realisation.environment, realisation.seed
    domain, options = environment.problem.domain, _options(player)
    size_by_keyword: dict[str, Any] = {} if points is None else {"n": points}
    start = time.process_time()
    batch = player.ask(float(step), **size_by_keyword)
    seconds = time.process_time() - start
    X = domain.check(batch)[: realisation.horizon - step + 1 if points is None else None]
    if not len(X):
        raise ValueError("a player must ask for one point at least, got none")
    size, last = len(X), X[-1:]
    times = float(step) + np.arange(float(size)) * (points is None)
    beta = _info(player).beta
    outcomes, violations = environment.read_outcomes(X, times, seed)
    more: dict[str, Any] = {"outcomes": outcomes} if options.limits else {}
    if states_noise and (noise := environment.stated_noise(X)) is not None:
        more["noise_variance"] = noise
    best, rewards, readings = _read_rewards(environment, X, times, seed)
    start = time.process_time()
    # A copy: what becomes of it must not become of the rows.
    player.tell(X.copy(), readings, float(times[0]) if size == 1 else times, **more)
    seconds += time.process_time() - start
    # What moves cost in truth: as the problem says, or else as the bandit believes.
    cost = options.move_cost if environment.move_cost is None else environment.move_cost
    move_costs = _move_costs(cost, domain, position, X)
    regrets = true_regrets(best, rewards, violations)
    if points is not None:
        means = [each.mean(keepdims=True) for each in (best, rewards, violations, move_costs)]
        X, (best, rewards, violations, move_costs) = X[:1], means
    t = step + np.arange(len(X))
    columns = {
        "t": t,
        **{f"x{j}": coordinates for j, coordinates in enumerate(X.T)},
        "reward": rewards,
        "best": best,
        "regret": true_regrets(best, rewards, violations),
        **_info_columns(_info(player), len(X), seconds, size, beta),
    }
    if points is not None:
        columns[BEST_OF_BATCH] = regrets.min(keepdims=True)
    if environment.limits:
        columns["violations"] = violations
    if cost is not None:
        columns["move_cost"] = move_costs
    return columns, last


def _warn_of_low_best(label: str, columns: Mapping[str, Array], rounding: float = 1e-6) -> None:
    """Warn where a point that holds all limits has a larger reward than the best that is stated."""
    # Rewards of a batch are means: its best point has the regret that tells.
    regret, best = columns.get(BEST_OF_BATCH, columns["regret"]), columns["best"]
    low = np.flatnonzero(regret < -rounding * np.abs([best, columns["reward"]]).max())
    if len(low):
        row = low[np.argmin(regret[low])]
        value, reward = float(best[row]), float(best[row] - regret[row])
        warnings.warn(
            f"{label}: best({columns['t'][row]}) is {value:g}, and a point there has the reward "
            f"{reward:g} (so in {len(low)} of {len(regret)} steps), which makes its regret negative: "
            "best(t) must return the largest reward over the domain",
            RuntimeWarning,
            stacklevel=2,
        )


def _move_costs(cost: MoveCost | None, domain: Domain, position: Array, X: Array) -> Array:
    """Return what the moves to points (n, d) cost, in turn, from `position` (0 or 1, d) on, (n,)."""
    if cost is None:
        return np.zeros(len(X))
    return costs_along(cost, domain, np.concatenate([position, X]))[len(position) :]


def _read_rewards(environment: Environment, X: Array, times: Array, seed: int) -> Array:
    """Return best and true rewards, and readings, (3, n), of points (n, d) that are played in turn."""
    problem, values = environment.problem, np.empty((3, len(X)))
    for i, t in enumerate(times.tolist()):
        # Before it is played: a problem may be changed by its player.
        values[0, i] = finite_number(f"the best of {problem.name}", problem.best(t))
        # A point that is played twice at a time is read twice.
        repeats = int(((X[:i] == X[i]).all(axis=1) & (times[:i] == t)).sum())
        stream = Stream.REWARD + repeats * Stream.REPEAT
        values[1:, i] = environment.play(X[i : i + 1], t, seed, stream)
    return values


# --- what a player says of itself ---------------------------------------------------------------------


def _options(player: Player) -> Options:
    """Return the options of a bandit; no other player has any."""
    return player.recipe.options if isinstance(player, Bandit) else Options()


def _info(player: Player) -> Info:
    """Return what a player says of itself; one that says nothing has no width, and asks nobody."""
    info = player.info if hasattr(player, "info") else None
    return Info() if info is None else info


def _info_columns(
    info: Info, rows: int, seconds: float, size: int, beta: float
) -> dict[str, Array]:
    """Return the columns of a batch of so many rows that say how its player chose.

    Questions and their cost stand in the row of the first point.
    """
    first = np.arange(rows) == 0
    dictionary_size = info.posterior.dictionary_size
    return {
        "queries": np.where(first, info.queries.asked, 0),
        "answered": np.where(first, info.queries.answered, 0),
        "cost": np.where(first, info.queries.cost, 0.0),
        "seconds": np.full(rows, seconds / rows),
        "batch_size": np.full(rows, size),
        "dictionary_size": np.full(
            rows, math.nan if dictionary_size is None else float(dictionary_size)
        ),
        "beta": np.full(rows, beta),
    }


def _width_text(maker: Maker, player: Player, width: str | None) -> str:
    """Return the width that is played, as rows show it."""
    if isinstance(maker, NamedPolicy):
        width = text_of_width(maker.width(width)) if maker.takes_width else NO_WIDTH
    if width is not None:
        return width
    if not isinstance(player, Bandit):
        return NO_WIDTH
    own = player.recipe.beta
    if isinstance(own, Fixed):
        return f"{own.value:g}"
    return "theory" if own == Theory() else repr(own)


def text_of_width(width: Any) -> str | None:
    """Return a width as rows show it; None: it is not known."""
    if width is None or isinstance(width, str):
        return width
    return f"{width:g}" if is_finite_number(width) else repr(width)
