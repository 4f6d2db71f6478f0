"""Whether intervals hold, and what forecasts are worth.

    python -m benchmarks.coverage [--steps 60] [--seeds 2] [--only NAME ...]

On synthetic problems of finite candidates and on some networks `frugal_gp_ucb` (three answers a step) is
played. Before every fourth step, from the twentieth on, it predicts the *true value* at all candidates:
for the present, before its reward, and two steps ahead. Printed are the share of 95% intervals that hold
it, in brackets the lowest of a seed, and the mean log predictive density (in nats).

    python -m benchmarks.coverage --unasked --seeds 5

plays what has no expert: `adaptive_gp_ucb` as it is by default (an ensemble, of both kinds of models on
up to 96 candidates) and with `Options(posterior="ensemble")`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA, arguments, heading, line
from tvbandits import Bandit, Options, policies
from tvbandits.comparison.arguments import make_problem
from tvbandits.domains.problem import Problem, noise_to_add, usual_noise
from tvbandits.validation import Array

OZONE = [DATA / "ozone" / "daily_44201_2021.zip"]
WIND = [DATA / "networks" / f"ireland_wind_{kind}.csv" for kind in ("daily", "sites")]

PROBLEMS: dict[str, tuple[str, list[Path]]] = {
    "drifting-bump": ("drifting-bump:candidates=101", []),
    "gp-drift": ("gp-drift", []),
    "switching": ("switching", []),
    "mandl": ("mandl", []),
    "exoskeleton": ("exoskeleton", []),
    "bogunovic": ("bogunovic", []),
    "ozone-network": ("ozone-network", []),
    "ar-arms": ("ar-arms", []),
    "switching-arms": ("switching-arms", []),
    **{
        state: (f"ozone:state={state},start=2021-05-01,end=2021-09-30", OZONE)
        for state in ("Colorado", "Virginia", "Kentucky")
    },
    "wind 1965": ("sensor-field:start=1965-01-01,end=1965-12-31,noise_variance=0.25", WIND),
}
ANSWERS, FIRST, EVERY, AHEAD = 3, 20, 4, (0, 2)
WHEN = ("the present", "two steps ahead")
HALF = 1.959963985

# Makes a bandit for a problem and a seed.
Maker = Callable[[Problem, int], Bandit]
ASKING: dict[str, Maker] = {
    "frugal": lambda problem, seed: policies.frugal_gp_ucb(
        problem.domain,
        noise_variance=usual_noise(problem),
        expert=None,
        queries_per_step=ANSWERS,
        seed=seed,
    )
}


def adaptive(posterior: Literal["ensemble"] | None) -> Maker:
    """A policy that asks nobody."""
    return lambda problem, seed: policies.adaptive_gp_ucb(
        problem.domain,
        noise_variance=usual_noise(problem),
        seed=seed,
        options=Options(posterior=posterior),
    )


UNASKED = {"default": adaptive(None), "ensemble": adaptive("ensemble")}


def play(bandit: Bandit, problem: Problem, steps: int, seed: int) -> Array:
    """Mean share of intervals that hold, and mean log density, shape (2, len(AHEAD))."""
    rng = np.random.default_rng([seed, 12])
    X, root = problem.domain.X, math.sqrt(noise_to_add(problem))  # type: ignore[attr-defined]
    found: list[list[tuple[float, float]]] = []

    def read(points: Array, t: float) -> Array:
        return np.asarray(problem.value(points, t) + root * rng.standard_normal(len(points)))

    for step in range(1, steps + 1):
        t = float(step)
        point = bandit.ask(t)
        if step >= FIRST and step % EVERY == 0:
            found.append([])
            for h in AHEAD:
                mean, deviation = bandit.predict(X, t + h)
                off = (problem.value(X, t + h) - mean) / deviation
                density = -0.5 * off**2 - np.log(deviation) - 0.5 * math.log(2.0 * math.pi)
                found[-1].append((float((np.abs(off) < HALF).mean()), float(density.mean())))
        bandit.tell(point, read(point, t), t)
        if bandit.recipe.asking is not None and len(asked := bandit.questions()):
            bandit.answer(asked, read(asked, t))
    return np.asarray(np.mean(found, axis=0)).T


def row(name: str, makers: dict[str, Maker], steps: int, seeds: int) -> None:
    """Print a row of the table."""
    made: Any = make_problem(*PROBLEMS[name], steps + max(AHEAD))
    fixed = not hasattr(made, "realise")
    problems = [made if fixed else made.realise(seed) for seed in range(seeds)]
    cells = [name, len(problems[0].domain.X)]
    for make in makers.values():
        runs = [play(make(problem, s), problem, steps, s) for s, problem in enumerate(problems)]
        held, density = np.moveaxis(np.array(runs), 1, 0)
        for h in range(len(AHEAD)):
            low = f"{held[:, h].min():.3f}"
            cells += [f"{held[:, h].mean():.3f} ({low})", f"{density[:, h].mean():.2f}"]
    line(*cells)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, steps=60, seeds=2)
    parser.add_argument("--only", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--unasked", action="store_true", help="policies that ask nobody")
    given = parser.parse_args()
    makers = UNASKED if given.unasked else ASKING
    columns = [each for who in makers for when in WHEN for each in (f"{who}: {when}", "density")]
    heading("problem", "points", *columns)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in given.only:
            if missing := [file for file in PROBLEMS[name][1] if not file.exists()]:
                print(f"{name}: skipped, its data are not there ({missing[0]})")
                continue
            row(name, makers, given.steps, given.seeds)


if __name__ == "__main__":
    main()
