"""Whether intervals hold, and what forecasts are worth beside those of a model fitted by hand.

    python -m benchmarks.coverage [--steps 60] [--seeds 2] [--only NAME ...]

On synthetic problems of finite candidates and on some networks `frugal_gp_ucb` (three answers a step)
and `adaptive_gp_ucb` (`learn=True`: a learned kernel, nobody asked) are played. Before every fourth
step, from the twentieth on, they predict the *true value* at all candidates: for the present, before its
reward, and two steps ahead. Printed are the share of 95% intervals that hold it, the mean log predictive
density (in nats), how much larger that is than the density of a model fitted by hand, and the share of
the latter's intervals that hold. That model is a level that all points share, what stays, and two fields
that drift, with white noise; its parameters have the largest evidence on readings of the whole run at
random points. It is conditioned on all that the bandit was told, by dense algebra.

    python -m benchmarks.coverage --unasked --seeds 5

plays what has no expert: `adaptive_gp_ucb` as it is by default (an ensemble, of both kinds of models on
up to 96 candidates) and with `posterior="ensemble"`. The row of a table has
the share of intervals that hold, in brackets the lowest of a seed, and the mean log density; no model is
fitted by hand.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tvbandits import Bandit, policies
from tvbandits.cli.problems import make_problem
from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import Problem, added_noise
from tvbandits.gp.fitting.evidence import fit
from tvbandits.gp.kernels.additive import space_kernels, structured_kernel
from tvbandits.gp.kernels.structure import inputs

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
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
SHARES = (1e-4, 0.05, 0.15, 0.3)
"""Of the variance of all readings: what may be white, beside the noise of the sensor."""

Makers = dict[str, Callable[[Problem, int], Bandit]]
MAKERS: Makers = {
    "frugal": lambda problem, seed: policies.frugal_gp_ucb(
        problem.domain, None, problem.noise_variance, expert=None, budget=ANSWERS, seed=seed
    ),
    "tv": lambda problem, seed: policies.adaptive_gp_ucb(
        problem.domain, None, problem.noise_variance, learn=True, seed=seed
    ),
}
UNASKED: Makers = {
    "default": lambda problem, seed: policies.adaptive_gp_ucb(
        problem.domain, None, problem.noise_variance, seed=seed
    ),
    "ensemble": lambda problem, seed: policies.adaptive_gp_ucb(
        problem.domain, None, problem.noise_variance, posterior="ensemble", seed=seed
    ),
}


class Forecasts(NamedTuple):
    """What came of forecasts: whether 95% intervals held, and log densities."""

    held: list[float]
    density: list[float]

    def add(self, truth: Array, mean: Array, deviation: Array) -> None:
        """Those of all points at one time."""
        off = (truth - mean) / deviation
        self.held.append(float((np.abs(off) < HALF).mean()))
        each = -0.5 * off**2 - np.log(deviation) - 0.5 * math.log(2.0 * math.pi)
        self.density.append(float(each.mean()))


class Model(NamedTuple):
    """A kernel over points and times, a prior mean, and white noise."""

    kernel: Any
    mean: float
    white: float

    def predict(self, seen: Observations, X: Array, t: float) -> tuple[Array, Array]:
        """Mean and deviation of the reward at points (n, d) at a time."""
        Z, at = (inputs(self.kernel, seen.X, seen.t), inputs(self.kernel, X, np.full(len(X), t)))
        K = self.kernel(Z)
        K[np.diag_indices_from(K)] += seen.variance + self.white
        half = linalg.solve_lower(factor := linalg.cholesky(K).L, self.kernel(Z, at))
        mean = self.mean + half.T @ linalg.solve_lower(factor, seen.y - self.mean)
        variance = self.kernel.diag(at) + self.white - (half**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))


def by_hand(problem: Problem, steps: int, seed: int, readings: int = 300) -> Model:
    """The model of largest evidence on readings of the whole run."""
    rng = np.random.default_rng([seed, 11])
    X = problem.domain.X  # type: ignore[attr-defined]
    t = np.sort(rng.integers(1, steps + 3, readings // ANSWERS)).repeat(ANSWERS).astype(float)
    rows = rng.integers(len(X), size=len(t))
    y = np.array([float(problem.value(X[[r]], s)[0]) for r, s in zip(rows, t, strict=True)])
    noise = max(added_noise(problem), 1e-6 * float(y.var()))
    y = y + math.sqrt(noise) * rng.standard_normal(len(y))
    unit, best = float(y.std()), None
    for space in space_kernels(problem.domain):
        for share in SHARES:
            told = Observations(X[rows], t, y / unit, np.full(len(y), noise / unit**2 + share))
            found = fit(structured_kernel(space), told, max_iterations=60)
            if best is None or found.log_evidence > best[0].log_evidence:
                best = found, share
    assert best is not None  # there are shares
    found, share = best
    return Model(unit**2 * found.kernel, unit * found.mean, unit**2 * share)


Found = dict[tuple[str, int], Forecasts]


def play(
    make: Callable[[Problem, int], Bandit],
    problem: Problem,
    model: Model | None,
    steps: int,
    seed: int,
) -> Found:
    """Forecasts of the bandit and of the model by hand, if any, for the present and ahead."""
    rng, bandit = np.random.default_rng([seed, 12]), make(problem, seed)
    X, root = problem.domain.X, math.sqrt(added_noise(problem))  # type: ignore[attr-defined]
    found = {(who, h): Forecasts([], []) for who in ("bandit", "hand") for h in AHEAD}

    def read(points: Array, t: float) -> Array:
        return np.asarray(problem.value(points, t) + root * rng.standard_normal(len(points)))

    for step in range(1, steps + 1):
        t = float(step)
        point = bandit.ask(t)
        if step >= FIRST and step % EVERY == 0:
            seen = bandit.state.rewards.append(bandit.state.answers)
            for h in AHEAD:
                truth = problem.value(X, t + h)
                found["bandit", h].add(truth, *bandit.predict(X, t + h))
                if model is not None:
                    found["hand", h].add(truth, *model.predict(seen, X, t + h))
        bandit.tell(point, read(point, t), t)
        if bandit.recipe.asking is not None and len(asked := bandit.questions()):
            bandit.answer(asked, read(asked, t))
    return found


def realised(name: str, steps: int, seed: int) -> Problem:
    """A problem as it is for a seed."""
    problem: Any = make_problem(*PROBLEMS[name], steps + max(AHEAD))
    made: Problem = problem.realise(seed) if hasattr(problem, "realise") else problem
    return made


def unasked_row(name: str, steps: int, seeds: int) -> None:
    """Print a row of the table of policies that ask nobody."""
    problems = [realised(name, steps, seed) for seed in range(seeds)]
    row = [name, f"{len(problems[0].domain.X)}"]  # type: ignore[attr-defined]
    for make in UNASKED.values():
        runs = [play(make, problem, None, steps, s) for s, problem in enumerate(problems)]
        for h in AHEAD:
            held = [float(np.mean(run["bandit", h].held)) for run in runs]
            density = np.mean([run["bandit", h].density for run in runs])
            row += [f"{np.mean(held):.3f} ({min(held):.3f})", f"{density:.2f}"]
    print("|", " | ".join(row), "|", flush=True)


def rows(name: str, steps: int, seeds: int) -> None:
    """Print a line for each policy on a problem."""
    runs: dict[str, list[Found]] = {policy: [] for policy in MAKERS}
    for seed in range(seeds):
        problem = realised(name, steps, seed)
        model = by_hand(problem, steps, seed)
        for policy, make in MAKERS.items():
            runs[policy].append(play(make, problem, model, steps, seed))
    for policy, found in runs.items():
        line = f"{name:<15}{policy:<8}"
        for h in AHEAD:
            held, density, by_held, by_density = (
                float(np.mean([getattr(run[who, h], what) for run in found]))
                for who in ("bandit", "hand")
                for what in ("held", "density")
            )
            line += f"{held:>8.3f}{density:>9.3f}{density - by_density:>+9.3f}{by_held:>8.3f}  "
        print(line, flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--unasked", action="store_true", help="policies that ask nobody")
    given = parser.parse_args()
    head = "".join(
        f"{text:>{w}}" for text, w in (("held", 8), ("density", 9), ("gain", 9), ("hand", 8))
    )
    if given.unasked:
        each = "".join(f" | {who}: {when} | density" for who in UNASKED for when in WHEN)
        print(f"| problem | points{each} |\n|{'---|' * (2 + 2 * len(UNASKED) * len(AHEAD))}")
    else:
        print(f"{'':<23}{WHEN[0]:^34}  {WHEN[1]:^34}")
        print(f"{'':<23}{head}  {head}")
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in given.only:
            if missing := [file for file in PROBLEMS[name][1] if not file.exists()]:
                print(f"{name}: skipped, its data are not there ({missing[0]})")
                continue
            (unasked_row if given.unasked else rows)(name, given.steps, given.seeds)


if __name__ == "__main__":
    main()
