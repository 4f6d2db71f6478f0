"""Runs of a comparison: a policy plays a problem with one seed, with a row of results per step."""

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
from tvbandits.domains.moving import MoveCost, compute_path_costs
from tvbandits.experts.protocol import Expert
from tvbandits.policies.registry import NamedPolicy
from tvbandits.policies.setting import Maker
from tvbandits.policies.theory import regret_bound
from tvbandits.queries.plans import Following, QueryConfig, RandomPoints
from tvbandits.validation import Array, describe, finite_number, is_finite_number


@dataclass(frozen=True)
class Conditions:
    """The conditions that are the same for all runs of a comparison.

    Attributes
    ----------
    beta : Confidence or None
        The confidence width; None: each policy's own.
    text : str or None
        The width as it is written in rows.
    expert : callable or None
        A function that makes the expert for a problem and a seed.
    batch : int or None
        Points per step; None: each policy decides.
    """

    beta: Confidence | None
    text: str | None
    expert: MakeExpert | None
    batch: int | None = None


def play_run(realisation: Realisation, name: str, maker: Maker, conditions: Conditions) -> Run:
    """Play one run of a policy, and return it."""
    realisation, player = _make_player(realisation, name, maker, conditions)
    return _play(realisation, player, name, maker, conditions)


def play_equally(
    realisation: Realisation, makers: Mapping[str, Maker], conditions: Conditions
) -> list[Run]:
    """Play one run of every policy, with equally many answers for bandits without an expert.

    Policies with an expert are played first, since they determine the number of answers.
    """
    starts = {
        name: _make_player(realisation, name, maker, conditions) for name, maker in makers.items()
    }
    with_expert = [
        name
        for name, (_, player) in starts.items()
        if isinstance(player, Bandit) and player.recipe.query_config is not None
    ]
    if not with_expert or conditions.expert is None:
        raise ValueError(
            f"equal information needs a policy that queries an expert; got {', '.join(makers)}"
        )
    runs = {name: _play(*starts[name], name, makers[name], conditions) for name in with_expert}
    counts = max((run.rows["answered"].to_list() for run in runs.values()), key=sum)
    for name in [name for name in makers if name not in runs]:
        realisation, player = starts[name]
        expert = conditions.expert(realisation.problem, realisation.seed)
        player = _add_answers(player, expert, counts)
        runs[name] = _play(realisation, player, name, makers[name], conditions)
    return [runs[name] for name in makers]


# --- before the first step ----------------------------------------------------------------------------


def _make_player(
    realisation: Realisation, name: str, maker: Maker, conditions: Conditions
) -> tuple[Realisation, Player]:
    """Return the realisation for one run, and the player of a policy."""
    realisation, points = realisation.begin(), conditions.batch
    player = maker(realisation.setting_for(conditions.beta, conditions.expert))
    if isinstance(player, type) or not (hasattr(player, "ask") and hasattr(player, "tell")):
        raise TypeError(
            f'the maker of "{name}" must return a player with ask and tell, got {describe(player)}'
        )
    if points is not None and "n" not in signature(player.ask).parameters:
        raise TypeError(f'"{name}" plays one point a step: its ask takes no n, got batch={points}')
    return realisation, _add_options(player, realisation.environment, points)


def _add_options(player: Player, environment: Environment, points: int | None) -> Player:
    """Return a bandit with the limits, control and move cost of its problem; other players unchanged."""
    if not isinstance(player, Bandit):
        return player
    options = player.recipe.options
    changes: dict[str, Any] = {}
    if environment.control is not None and options.control is None:
        if points is None or points < 2:
            raise ValueError(
                f"{environment.problem.name} has a control, which the other points of a batch are "
                "compared with: give batch=2 or more"
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
    """Return a bandit that gets `counts[s]` answers at random points in step s, as if they were rewards.

    It uses the latest `most_answers`, which bounds the time of a step, and is enough for a model that
    forgets. An ensemble conditions on every answer once, and forgets by itself.
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
    """Play all steps to the horizon, and return the run."""
    label, seed, points = realisation.label, realisation.seed, conditions.batch
    states_noise = _accepts_noise(player, maker)
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
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    _warn_of_low_best(label, columns)
    t, total = columns["t"], np.cumsum(columns["regret"])
    bounds = _compute_bounds(realisation, t, columns["beta"])
    if points is not None:  # the theorem is about steps with one point
        bounds = np.where(columns["batch_size"] > 1, math.nan, bounds)
    width = _width_text(maker, player, conditions.text)
    rows = pd.DataFrame({"problem": label, "policy": name, "width": width, "seed": seed, **columns})
    position_in_row = list(rows).index("regret") + 1
    rows.insert(position_in_row, "cumulative_regret", total)
    rows.insert(position_in_row + 1, "average_regret", total / t)
    rows.insert(list(rows).index("beta") + 1, "bound", bounds)
    return Run(label, name, seed, rows)


def _accepts_noise(player: Player, maker: Maker) -> bool:
    """Return whether a player gets the noise variances of readings, if candidates differ in them.

    It does not if its text sets a noise variance, or its `tell` has no such parameter.
    """
    options = maker.options() if isinstance(maker, NamedPolicy) else {}
    return "noise_variance" not in options and "noise_variance" in signature(player.tell).parameters


def _compute_bounds(realisation: Realisation, t: Array, beta: Array) -> Array:
    """Return the theorem's bounds (n,) on the average regret after each step, in unit of reward."""
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
    """Play a batch, and return the columns of its rows and its last point (1, d).

    `position` (0 or 1, d) is the last point of the previous batch. With `points`, the batch is one row
    of means; otherwise each point is a row. Only the player's time is measured, as processor time, since
    wall-clock time depends on other processes.
    """
    environment, seed = realisation.environment, realisation.seed
    domain, options = environment.problem.domain, _options_of(player)
    size_by_keyword: dict[str, Any] = {} if points is None else {"n": points}
    start = time.process_time()
    batch = player.ask(float(step), **size_by_keyword)
    seconds = time.process_time() - start
    X = domain.check(batch)[: realisation.horizon - step + 1 if points is None else None]
    if not len(X):
        raise ValueError("a player must ask for at least one point, got none")
    size, last = len(X), X[-1:]
    times = float(step) + np.arange(float(size)) * (points is None)
    beta = _info_of(player).beta
    outcomes, violations = environment.read_outcomes(X, times, seed)
    optional_arguments: dict[str, Any] = {"outcomes": outcomes} if options.limits else {}
    if states_noise and (noise := environment.stated_noise(X)) is not None:
        optional_arguments["noise_variance"] = noise
    best, rewards, readings = _read_rewards(environment, X, times, seed)
    start = time.process_time()
    # A copy, since a player may change the array in place.
    tell_time = float(times[0]) if size == 1 else times
    player.tell(X.copy(), readings, tell_time, **optional_arguments)
    seconds += time.process_time() - start
    # The bandit's cost of moves counts only if the problem has none.
    cost = options.move_cost if environment.move_cost is None else environment.move_cost
    move_costs = _move_costs(cost, domain, position, X)
    regrets = true_regrets(best, rewards, violations)
    if points is not None:
        columns_of_batch = best, rewards, violations, move_costs
        means = [column.mean(keepdims=True) for column in columns_of_batch]
        X, (best, rewards, violations, move_costs) = X[:1], means
    t = step + np.arange(len(X))
    columns = {
        "t": t,
        **{f"x{j}": coordinates for j, coordinates in enumerate(X.T)},
        "reward": rewards,
        "best": best,
        "regret": true_regrets(best, rewards, violations),
        **_info_columns(_info_of(player), len(X), seconds, size, beta),
    }
    if points is not None:
        columns[BEST_OF_BATCH] = regrets.min(keepdims=True)
    if environment.limits:
        columns["violations"] = violations
    if cost is not None:
        columns["move_cost"] = move_costs
    return columns, last


def _warn_of_low_best(label: str, columns: Mapping[str, Array], rounding: float = 1e-6) -> None:
    """Warn if a point without violations has a larger reward than the problem's `best`."""
    # Rewards of a batch are means, which may hide a point that is too good.
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
    """Return the costs (n,) of moves to points (n, d) in their order, from `position` (0 or 1, d)."""
    if cost is None:
        return np.zeros(len(X))
    return compute_path_costs(cost, domain, np.concatenate([position, X]))[len(position) :]


def _read_rewards(environment: Environment, X: Array, times: Array, seed: int) -> Array:
    """Play points (n, d) in their order; return best rewards, rewards and noisy readings, (3, n)."""
    problem, values = environment.problem, np.empty((3, len(X)))
    for i, t in enumerate(times.tolist()):
        # The best reward is computed before the play, which may change the problem.
        values[0, i] = finite_number(f"the best of {problem.name}", problem.best(t))
        # If a point is played repeatedly at a time, each reading has its own noise.
        repeats = int(((X[:i] == X[i]).all(axis=1) & (times[:i] == t)).sum())
        stream = Stream.REWARD + repeats * Stream.REPEAT
        values[1:, i] = environment.play(X[i : i + 1], t, seed, stream)
    return values


# --- attributes of players ----------------------------------------------------------------------------


def _options_of(player: Player) -> Options:
    """Return the options of a bandit, or default options for another player."""
    return player.recipe.options if isinstance(player, Bandit) else Options()


def _info_of(player: Player) -> Info:
    """Return the info of a player, or an empty one if it has none."""
    info = player.info if hasattr(player, "info") else None
    return Info() if info is None else info


def _info_columns(
    info: Info, rows: int, seconds: float, size: int, beta: float
) -> dict[str, Array]:
    """Return the columns of a batch with the player's queries, time, batch size, dictionary and width.

    Queries and their cost are in the row of the first point.
    """
    is_first = np.arange(rows) == 0
    dictionary_size = info.posterior.dictionary_size
    return {
        "queries": np.where(is_first, info.queries.asked, 0),
        "answered": np.where(is_first, info.queries.answered, 0),
        "cost": np.where(is_first, info.queries.cost, 0.0),
        "seconds": np.full(rows, seconds / rows),
        "batch_size": np.full(rows, size),
        "dictionary_size": np.full(
            rows, math.nan if dictionary_size is None else float(dictionary_size)
        ),
        "beta": np.full(rows, beta),
    }


def _width_text(maker: Maker, player: Player, width: str | None) -> str:
    """Return the text of a run's width for its rows; `width` is that of the comparison."""
    if isinstance(maker, NamedPolicy):
        width = text_of_width(maker.width(width)) if maker.takes_width else NO_WIDTH
    if width is not None:
        return width
    if not isinstance(player, Bandit):
        return NO_WIDTH
    beta = player.recipe.beta
    if isinstance(beta, Fixed):
        return f"{beta.value:g}"
    return "theory" if beta == Theory() else repr(beta)


def text_of_width(width: Any) -> str | None:
    """Return the text of a width for rows, or None for None."""
    if width is None or isinstance(width, str):
        return width
    return f"{width:g}" if is_finite_number(width) else repr(width)
