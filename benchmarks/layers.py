"""Does each layer of the ensemble earn its place? Each is switched off alone, where it was developed.

    python -m benchmarks.layers NETWORKS OZONE OUT [--layers NAME ...] [--seeds N] [--steps T]

NETWORKS is a folder with the tables of Irish wind, OZONE a file of daily ozone.
Runs are added to OUT, lines of JSON, and those that it holds are not played again. A layer stays if
average regret without it is worse by 1% (geometric mean over problems and seeds, which are paired: the
same draws and the same noise), or a step takes a third more processor time: the layer saves a quarter.
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

from benchmarks.harness import arguments, course, heading, kept, line
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
from tvbandits.datasets.base import autoregressive
from tvbandits.domains.problem import Problem, get_mean_noise
from tvbandits.gp.ensemble import filters, mixture, models, seasons
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.queries import plans
from tvbandits.threads import limit_blas_threads

# A layer stays if regret without it is that many times as large, or the time of a step.
STAYS, DEARER = 1.01, 4 / 3

# In the first steps all models are active.
SETTLED = 20

# Answers a step of `frugal_gp_ucb`.
ANSWERS = 3

# What to put in the place of an attribute of a module or class.
Switch = tuple[Any, str, Any]


# --- the layers ---------------------------------------------------------------------------------


def only(condition: Callable[[ModelSpec], bool], name: str) -> Switch:
    """Leave some models of a network or of a function."""
    every = getattr(models, name)
    return models, name, lambda *dimension: tuple(filter(condition, every(*dimension)))


def constants(module: Any, **changes: Any) -> Switch:
    """Change some constants of a module of the ensemble."""
    return module, "CONFIG", replace(module.CONFIG, **changes)


ENSEMBLE = mixture.FilterEnsemble
INACTIVE = mixture.InactiveModels
# What takes the place of each layer.
LAYERS: dict[str, tuple[Switch, ...]] = {
    "inactive models": ((INACTIVE, "exchange", lambda self, *step: (*step[:2], self)),),
    "waking after a surprise": (constants(mixture, large_innovation=math.inf),),
    "thinning": (constants(mixture, prune_steps=()),),
    "first-guess replay": ((ENSEMBLE, "_learns_scale", lambda _: False),),
    "its replay after 4 steps": (constants(mixture, start_steps=(16,)),),
    "first guess worth 30": (constants(mixture, function_scale_count=1.0),),
    "variance inflation": ((ENSEMBLE, "inflation", 1.0),),
    "forgetting of weights": (constants(mixture, forgetting=1.0),),
    "forgetting of the scale": (constants(filters, scale_memory=math.inf),),
    "models that restart": (only(lambda each: each.hazard == 0, "function_models"),),
    "slow weather": (only(lambda each: each.drift_time < 8, "network_models"),),
    "smooth drift": (
        only(lambda each: not each.smooth, "network_models"),
        only(lambda each: not each.smooth, "function_models"),
    ),
    "lasting width": ((ENSEMBLE, "persistent_share", lambda self, _: np.ones(len(self.points))),),
    "search for seasons": ((seasons.SeasonSearch, "is_due", False),),
    "every fourth question": (constants(plans, discover_every=10**9),),
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


def day(seed: int, steps: int) -> TableProblem:
    """Hourly means at 12 stations: own levels, a day that all share, weather that lasts 8 hours."""
    rng = np.random.default_rng([seed, 12])
    points = rng.uniform(0.0, 30.0, (12, 2))
    hours = np.arange(24 * max(1, round(steps / 24)))[:, None]
    angle = 2.0 * np.pi * (hours - 15.0) / 24.0
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    root = np.linalg.cholesky(np.exp(-apart / 10.0))
    weather = autoregressive(rng.standard_normal((len(hours), 12)) @ root.T, math.exp(-1.0 / 8.0))
    level = 40.0 + 5.0 * rng.standard_normal(12) + 4.0 * weather
    values = level + 15.0 * (np.cos(angle) + 0.3 * np.cos(2.0 * angle))
    return TableProblem(values, points, "made day", "ug/m3", noise_variance=4.0)


# A problem by seed and number of steps.
Maker = Callable[[int, int], Problem]


def networks(folder: Path, file: Path) -> dict[str, Maker]:
    """Those that the ensemble was developed on: small tables, read once."""
    wind = [folder / f"ireland_wind_{kind}.csv" for kind in ("daily", "sites")]
    years: Any = {"start": "1970-01-01", "end": "1971-12-31"}
    tables = {
        "ozone Colorado": ozone(file, state="Colorado", start="2021-05-01"),
        "wind 1970": sensor_field(*wind, noise_variance=0.25, **years),
    }
    first = {
        name: lambda _, steps, each=each: replace(each, values=each.values[:steps])
        for name, each in tables.items()
    }
    return {**first, "made dust": dust, "made day": day}


# With so many candidates nobody who does not ask plays an ensemble; smaller functions are for them.
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


def table(rows: pd.DataFrame) -> None:
    """Print regret and time without each layer over those with all of them; ± a standard error."""
    keys = ["policy", "problem", "seed"]
    all_there = rows[rows.layer == ""].set_index(keys)
    heading("without", "pairs", "regret", *PLAYERS, "time", "stays")
    for layer, some in rows[rows.layer != ""].groupby("layer", sort=False):
        joined = some.set_index(keys).join(all_there.add_suffix("_all"), how="inner")
        logs = pd.Series(np.log(joined.regret / joined.regret_all))
        slower = joined.seconds.sum() / joined.seconds_all.sum()
        ratio, error = math.exp(logs.mean()), logs.std(ddof=1) / math.sqrt(len(logs))
        by = logs.groupby("policy").mean().reindex(list(PLAYERS))
        parts = (f"{math.exp(each):.3f}" for each in by)
        verdict = ratio >= STAYS or slower >= DEARER
        line(
            layer, len(logs), f"{ratio:.3f} ± {ratio * error:.3f}", *parts, f"{slower:.2f}", verdict
        )


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
        with switched_off(layer), limit_blas_threads():
            return run(PLAYERS[player](problem, seed), problem, seed)

    rows = []
    for case in wanted(makers, given.layers, given.seeds):
        key = (*case, given.steps)
        rows.append((*case, *kept(given.out, key, partial(played, *key))))
    columns = ["layer", "policy", "problem", "seed", "regret", "seconds"]
    table(pd.DataFrame(rows, columns=columns))


if __name__ == "__main__":
    main()
