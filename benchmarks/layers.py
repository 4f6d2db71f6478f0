"""Does each layer of the ensemble earn its place? Each is switched off alone, where it was developed.

    python -m benchmarks.layers NETWORKS OZONE OUT [--layers NAME ...] [--seeds N] [--steps T]

NETWORKS is a folder with the tables of Irish wind, OZONE a file of daily ozone.
Runs are added to OUT, lines of JSON, and those that it holds are not played again. A layer stays if
average regret without it is worse by 1% (geometric mean over problems and seeds, which are paired: the
same draws and the same noise), or the processor time of a step larger by a quarter.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.days import day_network
from benchmarks.harness import arguments, course, kept
from tvbandits import Bandit, policies
from tvbandits.comparison.compare import simulated
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Problem
from tvbandits.core.threads import one_blas_thread
from tvbandits.datasets import (
    AutoregressiveArms,
    DriftingBump,
    GPDrift,
    Switching,
    TableProblem,
    ozone,
    sensor_field,
)
from tvbandits.gp.ensemble import ensemble, filters, models, rule
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.queries import plans

# A layer stays if regret without it is that many times as large, or the time of a step.
STAYS, DEARER = 1.01, 1.25

# In the first steps all models are active.
SETTLED = 20

# Answers a step of `frugal_gp_ucb`.
ANSWERS = 3

# What to put in the place of an attribute of a module or class.
Switch = tuple[Any, str, Any]


# --- the layers ---------------------------------------------------------------------------------


def density_alone(log_density: Array, squares: Array, variance: float) -> Array:  # noqa: ARG001
    """Evidence of a step without that of differences between places."""
    return log_density


def half_density(log_density: Array, squares: Array, variance: float) -> Array:  # noqa: ARG001
    """The same, half as sure of itself."""
    return np.asarray(0.5 * log_density)


def only(keep: Callable[[ModelSpec], bool], name: str) -> Switch:
    """Some models of a network or of a function."""
    made = getattr(models, name)
    return models, name, lambda *dimension: tuple(filter(keep, made(*dimension)))


ENSEMBLE = ensemble.FilterEnsemble
# What takes the place of each layer.
LAYERS: dict[str, tuple[Switch, ...]] = {
    "inactive models": ((ensemble.Inactive, "turned", lambda self, *now: (*now[:2], self)),),
    "waking after a surprise": ((ensemble, "STARTLING", math.inf),),
    "thinning": ((ensemble, "THINNED_AT", ()),),
    "evidence of differences": ((ensemble, "evidence_of", density_alone),),
    "evidence of differences, half": ((ensemble, "evidence_of", half_density),),
    "transforms": ((ensemble, "POWERS", (1.0,)),),
    "first-guess replay": ((ENSEMBLE, "_is_early", lambda _: False),),
    "its replay after 4 steps": ((ensemble, "UNIT_LEARNED_AT", (16,)),),
    "first guess worth 30": ((ensemble, "GUESS_OF_A_FUNCTION", 1.0),),
    "variance inflation": ((ENSEMBLE, "widening", 1.0),),
    "forgetting of weights": ((ensemble, "FORGETTING", 1.0),),
    "forgetting of the scale": ((filters, "MEMORY", math.inf),),
    "models that start afresh": (only(lambda each: each.hazard == 0, "function_settings"),),
    "lasting weather": (only(lambda each: each.drift_scale < 8, "network_settings"),),
    "smooth drift": (
        only(lambda each: not each.smooth, "network_settings"),
        only(lambda each: not each.smooth, "function_settings"),
    ),
    "lasting width": ((rule, "lasting_share", lambda held, _: np.ones(len(held.points))),),
    "search for seasons": ((rule, "LOOKED_AT", ()),),
    "every fourth question": ((plans, "DISCOVER_EVERY", 10**9),),
}

ASKED_ONLY = {"every fourth question"}
ALONE_ONLY = {"lasting width"}


@contextlib.contextmanager
def switched_off(layer: str) -> Iterator[None]:
    """Without one of the layers, or with all ("")."""
    with contextlib.ExitStack() as stack:
        for where, name, value in LAYERS.get(layer, ()):
            stack.enter_context(patch.object(where, name, value))
        yield


# --- the problems -------------------------------------------------------------------------------


def dust(seed: int, steps: int) -> TableProblem:
    """Log-normal: a heavy level that 12 stations share, their own, and what is new."""
    rng = np.random.default_rng([seed, 12])
    points, own = rng.uniform(0.0, 20.0, (12, 2)), 0.4 * rng.standard_normal(12)
    shared, at = np.zeros(steps), 0.0
    for step in range(steps):
        at = 0.7 * at + 0.5 * rng.standard_normal()
        shared[step] = at
    values = np.exp(3.0 + shared[:, None] + own + 0.35 * rng.standard_normal((steps, 12)))
    return TableProblem(values, points, "made dust", "ug/m3", noise_variance=4.0)


# A problem by seed and number of steps.
Maker = Callable[[int, int], Problem]


def networks(folder: Path, file: Path) -> dict[str, Maker]:
    """Those that the ensemble was developed on: small tables, read once."""

    def first(problem: TableProblem) -> Maker:
        return lambda _, steps: replace(problem, values=problem.values[:steps])

    colorado = ozone(file, state="Colorado", start="2021-05-01")
    wind = sensor_field(
        folder / "ireland_wind_daily.csv",
        folder / "ireland_wind_sites.csv",
        noise_variance=0.25,
        start="1970-01-01",
        end="1971-12-31",
    )
    tables = {"ozone Colorado": colorado, "wind 1970": wind}
    return {name: first(each) for name, each in tables.items()} | {
        "made dust": dust,
        "made day": lambda seed, steps: day_network(seed, days=max(1, round(steps / 24))),
    }


# With so many candidates nobody who does not ask plays an ensemble; smaller functions are for them.
LARGE = "switching, 201"

FUNCTIONS: dict[str, Maker] = {
    LARGE: lambda seed, steps: Switching(every=30, horizon=steps, seed=seed),
    "drifting-bump, 51": lambda _, steps: DriftingBump(candidates=51, horizon=steps),
    "switching, 51": lambda seed, steps: Switching(
        every=30, candidates=51, horizon=steps, seed=seed
    ),
    "gp-drift, 7 x 7": lambda seed, steps: GPDrift(points_per_axis=7, horizon=steps, seed=seed),
    "ar-arms, 6 x 6": lambda seed, steps: AutoregressiveArms(side=6, horizon=steps, seed=seed),
}


# --- runs ---------------------------------------------------------------------------------------


def alone(problem: Problem, seed: int) -> Bandit:
    """Nobody is asked."""
    return policies.adaptive_gp_ucb(problem.domain, None, problem.noise_variance, seed=seed)


def asking(problem: Problem, seed: int) -> Bandit:
    """Some answers a step."""
    return policies.frugal_gp_ucb(
        problem.domain,
        None,
        problem.noise_variance,
        expert=simulated(problem, seed),
        budget=ANSWERS,
        seed=seed,
    )


PLAYERS: dict[str, Callable[[Problem, int], Bandit]] = {
    "adaptive_gp_ucb": alone,
    "frugal_gp_ucb": asking,
}


def run(bandit: Bandit, problem: Problem, seed: int) -> tuple[float, float]:
    """Average regret, and seconds of processor time of a step, once `SETTLED` are over."""
    run = course(bandit, problem, seed, problem.horizon)
    return float(run.regret.mean()), float(run.seconds[SETTLED:].mean())


def wanted(
    makers: Iterable[str], chosen: Iterable[str], seeds: int
) -> list[tuple[str, str, str, int]]:
    """What is to be played: layer ("" for all of them there), policy, problem, seed."""
    return [
        (layer, player, name, seed)
        for seed in range(seeds)
        for layer in ("", *chosen)
        for player in PLAYERS
        for name in makers
        if not (layer in ASKED_ONLY and player == "adaptive_gp_ucb")
        and not (layer in ALONE_ONLY and player == "frugal_gp_ucb")
        and (name not in FUNCTIONS or (name == LARGE) == (player == "frugal_gp_ucb"))
    ]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Regret and time without each layer over those with all of them; errors are standard errors."""
    keys = ["policy", "problem", "seed"]
    all_there = rows[rows.layer == ""].set_index(keys)
    made = []
    for layer, some in rows[rows.layer != ""].groupby("layer", sort=False):
        joined = some.set_index(keys).join(all_there.add_suffix("_all"), how="inner")
        logs = pd.Series(np.log(joined.regret / joined.regret_all))
        slower = joined.seconds.sum() / joined.seconds_all.sum()
        ratio = math.exp(logs.mean())
        line = {"layer": layer, "pairs": len(logs), "regret": ratio}
        line["error"] = ratio * logs.std(ddof=1) / math.sqrt(len(logs))
        parts = logs.groupby("policy").mean()
        line |= {name: math.exp(parts[name]) for name in PLAYERS if name in parts}
        line |= {"time": slower, "stays": ratio >= STAYS or slower >= DEARER}
        made.append(line)
    return pd.DataFrame(made)


def main() -> None:
    parser = arguments(__doc__, seeds=3, steps=60)
    parser.add_argument("networks", type=Path)
    parser.add_argument("ozone", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), metavar="NAME")
    given = parser.parse_args()
    makers = networks(given.networks, given.ozone) | FUNCTIONS

    def played(layer: str, player: str, name: str, seed: int, steps: int) -> tuple[float, float]:
        problem = makers[name](seed, steps)
        with switched_off(layer), one_blas_thread():
            return run(PLAYERS[player](problem, seed), problem, seed)

    rows = []
    for case in wanted(makers, given.layers, given.seeds):
        key = (*case, given.steps)
        rows.append((*case, *kept(given.out, key, partial(played, *key))))
    columns = ["layer", "policy", "problem", "seed", "regret", "seconds"]
    print(table(pd.DataFrame(rows, columns=columns)).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
