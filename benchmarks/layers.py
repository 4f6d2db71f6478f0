"""Ablation of the ensemble: regret with each of its layers switched off alone.

    python -m benchmarks.layers NETWORKS OZONE OUT [--layers NAME ...] [--seeds N] [--steps T]

on the problems that it was developed on. NETWORKS is a folder with the tables of Irish wind, OZONE a
file of daily ozone. OUT has a line of JSON for each run; runs that are in it are not played again. A
layer stays if regret without it is larger by 1% (geometric mean over problems and seeds, with the same
draws and noise in each pair), or if a step without it takes a third more processor time, so that the
layer saves a quarter.
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

from benchmarks.harness import cache_result, heading, line, make_parser, play_course
from tvbandits import Bandit, policies
from tvbandits.comparison.compare import simulator
from tvbandits.datasets import (
    AutoregressiveArms,
    DriftingBump,
    GPDrift,
    Switching,
    TableProblem,
    ozone,
    sensor_field,
)
from tvbandits.datasets.base import make_autoregressive
from tvbandits.domains.problem import Problem, get_mean_noise
from tvbandits.gp.ensemble import filters, mixture, models, seasons
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.queries import plans
from tvbandits.threads import limit_blas_threads

# A layer stays if regret, or the time of a step, without it is at least so many times as large.
REGRET_RATIO, TIME_RATIO = 1.01, 4 / 3

# Before, the ensemble starts anew.
SETTLED = 20

# Answers a step of `frugal_gp_ucb`.
ANSWERS = 3

# A module or class, the name of its attribute, and the value in its place.
Switch = tuple[Any, str, Any]


# --- the layers ---------------------------------------------------------------------------------


def keep_models(condition: Callable[[ModelSpec], bool], name: str) -> Switch:
    """Return the switch that keeps the models of a network or a function that satisfy a condition."""
    make_models = getattr(models, name)
    return models, name, lambda *dimension: tuple(filter(condition, make_models(*dimension)))


def set_constants(module: Any, **changes: Any) -> Switch:
    """Return the switch that changes some constants of a module of the ensemble."""
    return module, "CONFIG", replace(module.CONFIG, **changes)


ENSEMBLE = mixture.FilterEnsemble
# The switches that take the place of each layer.
LAYERS: dict[str, tuple[Switch, ...]] = {
    "removal of light models": (set_constants(mixture, prune_steps=()),),
    "first-guess replay": ((ENSEMBLE, "_learns_scale", lambda _: False),),
    "its replay after 4 steps": (set_constants(mixture, start_steps=(16,)),),
    "first guess worth 30": (set_constants(mixture, function_scale_count=1.0),),
    "variance inflation": ((ENSEMBLE, "inflation", 1.0),),
    "forgetting of weights": (set_constants(mixture, forgetting=1.0),),
    "forgetting of the scale": (set_constants(filters, scale_memory=math.inf),),
    "models that restart": (keep_models(lambda each: each.hazard == 0, "function_models"),),
    "slow weather": (keep_models(lambda each: each.drift_time < 8, "network_models"),),
    "smooth drift": (
        keep_models(lambda each: not each.smooth, "network_models"),
        keep_models(lambda each: not each.smooth, "function_models"),
    ),
    "persistent width": (
        (ENSEMBLE, "persistent_share", lambda self, _: np.ones(len(self.points))),
    ),
    "search for seasons": ((seasons.SeasonSearch, "is_due", False),),
    "every fourth question": (set_constants(plans, discover_every=10**9),),
}

FRUGAL_ONLY = {"every fourth question"}
ADAPTIVE_ONLY = {"persistent width"}


@contextlib.contextmanager
def switch_off(layer: str) -> Iterator[None]:
    """Switch off one of the layers, or none ("")."""
    with contextlib.ExitStack() as stack:
        for target, name, value in LAYERS.get(layer, ()):
            stack.enter_context(patch.object(target, name, value))
        yield


# --- the problems -------------------------------------------------------------------------------


def dust(seed: int, steps: int) -> TableProblem:
    """Return log-normal dust: a level that 12 stations share, levels of each, and noise."""
    rng = np.random.default_rng([seed, 12])
    points, levels = rng.uniform(0.0, 20.0, (12, 2)), 0.4 * rng.standard_normal(12)
    shared, level = np.zeros(steps), 0.0
    for step in range(steps):
        level = 0.7 * level + 0.5 * rng.standard_normal()
        shared[step] = level
    values = np.exp(3.0 + shared[:, None] + levels + 0.35 * rng.standard_normal((steps, 12)))
    return TableProblem(values, points, "made dust", "ug/m3", noise_variance=4.0)


def day(seed: int, steps: int) -> TableProblem:
    """Return hourly means at 12 stations: levels of each, a daily cycle, weather that lasts 8 hours."""
    rng = np.random.default_rng([seed, 12])
    points = rng.uniform(0.0, 30.0, (12, 2))
    hours = np.arange(24 * max(1, round(steps / 24)))[:, None]
    angle = 2.0 * np.pi * (hours - 15.0) / 24.0
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    root = np.linalg.cholesky(np.exp(-distance / 10.0))
    weather = make_autoregressive(
        rng.standard_normal((len(hours), 12)) @ root.T, math.exp(-1.0 / 8.0)
    )
    level = 40.0 + 5.0 * rng.standard_normal(12) + 4.0 * weather
    values = level + 15.0 * (np.cos(angle) + 0.3 * np.cos(2.0 * angle))
    return TableProblem(values, points, "made day", "ug/m3", noise_variance=4.0)


# A function of seed and number of steps that returns a problem.
Maker = Callable[[int, int], Problem]


def networks(folder: Path, file: Path) -> dict[str, Maker]:
    """Return the makers of the networks that the ensemble was developed on."""
    wind = [folder / f"ireland_wind_{kind}.csv" for kind in ("daily", "sites")]
    years: Any = {"start": "1970-01-01", "end": "1971-12-31"}
    tables = {
        "ozone Colorado": ozone(file, state="Colorado", start="2021-05-01"),
        "wind 1970": sensor_field(*wind, noise_variance=0.25, **years),
    }
    cropped = {
        name: lambda _, steps, each=each: replace(each, values=each.values[:steps])
        for name, each in tables.items()
    }
    return {**cropped, "made dust": dust, "made day": day}


# On so many candidates only `frugal_gp_ucb` plays an ensemble; the smaller functions are for
# `adaptive_gp_ucb`.
LARGE = "switching, 201"
FUNCTIONS: dict[str, Maker] = {
    LARGE: lambda seed, steps: Switching(30, horizon=steps, seed=seed),
    "drifting-bump, 51": lambda _, steps: DriftingBump(51, steps),
    "switching, 51": lambda seed, steps: Switching(30, 51, horizon=steps, seed=seed),
    "gp-drift, 7 x 7": lambda seed, steps: GPDrift(points_per_axis=7, horizon=steps, seed=seed),
    "ar-arms, 6 x 6": lambda seed, steps: AutoregressiveArms(side=6, horizon=steps, seed=seed),
}


# --- runs ---------------------------------------------------------------------------------------


PLAYERS: dict[str, Callable[[Problem, int], Bandit]] = {
    "adaptive_gp_ucb": lambda problem, seed: policies.adaptive_gp_ucb(
        problem.domain, noise_variance=get_mean_noise(problem), seed=seed
    ),
    "frugal_gp_ucb": lambda problem, seed: policies.frugal_gp_ucb(
        problem.domain,
        noise_variance=get_mean_noise(problem),
        expert=simulator(problem, seed),
        queries_per_step=ANSWERS,
        seed=seed,
    ),
}


def run(bandit: Bandit, problem: Problem, seed: int) -> tuple[float, float]:
    """Return the average regret, and the processor time of a step after the first `SETTLED` ones."""
    course = play_course(bandit, problem, seed, problem.horizon)
    return float(course.regret.mean()), float(course.seconds[SETTLED:].mean())


def list_cases(
    makers: Iterable[str], layers: Iterable[str], seeds: int
) -> list[tuple[str, str, str, int]]:
    """Return the runs to play: layer ("" for all of them), policy, problem, seed."""
    return [
        (layer, player, name, seed)
        for seed in range(seeds)
        for layer in ("", *layers)
        for player in PLAYERS
        for name in makers
        if not (layer in FRUGAL_ONLY and player == "adaptive_gp_ucb")
        and not (layer in ADAPTIVE_ONLY and player == "frugal_gp_ucb")
        and (name not in FUNCTIONS or (name == LARGE) == (player == "frugal_gp_ucb"))
    ]


def table(rows: pd.DataFrame) -> None:
    """Print the ratios of regret and time without each layer to those with all; ± a standard error."""
    keys = ["policy", "problem", "seed"]
    all_layers = rows[rows.layer == ""].set_index(keys)
    heading("without", "pairs", "regret", *PLAYERS, "time", "stays")
    for layer, group in rows[rows.layer != ""].groupby("layer", sort=False):
        joined = group.set_index(keys).join(all_layers.add_suffix("_all"), how="inner")
        logs = pd.Series(np.log(joined.regret / joined.regret_all))
        time_ratio = joined.seconds.sum() / joined.seconds_all.sum()
        ratio, error = math.exp(logs.mean()), logs.std(ddof=1) / math.sqrt(len(logs))
        by_policy = logs.groupby("policy").mean().reindex(list(PLAYERS))
        parts = (f"{math.exp(each):.3f}" for each in by_policy)
        stays = ratio >= REGRET_RATIO or time_ratio >= TIME_RATIO
        line(
            layer,
            len(logs),
            f"{ratio:.3f} ± {ratio * error:.3f}",
            *parts,
            f"{time_ratio:.2f}",
            stays,
        )


def main() -> None:
    parser = make_parser(__doc__, seeds=3, steps=60)
    parser.add_argument("networks", type=Path)
    parser.add_argument("ozone", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), metavar="NAME")
    options = parser.parse_args()
    makers = networks(options.networks, options.ozone) | FUNCTIONS

    def play(layer: str, player: str, name: str, seed: int, steps: int) -> tuple[float, float]:
        problem = makers[name](seed, steps)
        with switch_off(layer), limit_blas_threads():
            return run(PLAYERS[player](problem, seed), problem, seed)

    rows = []
    for case in list_cases(makers, options.layers, options.seeds):
        key = (*case, options.steps)
        rows.append((*case, *cache_result(options.out, key, partial(play, *key))))
    columns = ["layer", "policy", "problem", "seed", "regret", "seconds"]
    table(pd.DataFrame(rows, columns=columns))


if __name__ == "__main__":
    main()
