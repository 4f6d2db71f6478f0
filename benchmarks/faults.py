"""What failing sensors cost SparQ-GP-UCB: `python -m benchmarks.faults --out DIR`.

What gross errors among the rewards cost, with `robust=True` and without:
`python -m benchmarks.faults --rewards [--horizon 600] [--seeds 10] [--problems NAME ...]`. A reading of
twenty is wrong by 10 to 50 prior deviations of the problem, up or down; four times of ten a burst of two
to five steps is.

Every fault is played on the same realisations with the same noise. The stations of a problem are its
candidates, the transport replays its rewards with noise of the problem's own variance, and a tally
beside the expert counts what was asked and answered, to be compared with what the bandit says.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.harness import half_interval, machine
from tvbandits import Answers, Bandit, Expert, ExpertDownWarning, Observations, compare, policies
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Problem, added_noise, inform
from tvbandits.datasets import (
    AutoregressiveArms,
    DriftingBump,
    Field,
    GPDrift,
    MovingPeaks,
    NewPeak,
    Switching,
    ozone_network,
)
from tvbandits.experts.calibrated import Calibrated
from tvbandits.experts.sensors.expert import SensorExpert, stations_at
from tvbandits.experts.sensors.stub import Faults, StubTransport
from tvbandits.policies import Setting

NEVER = 1e9
"""Seconds; a delay beyond every time-out."""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes
    ----------
    name : str
    faults : function of the problem
        What goes wrong.
    noise : float
        True noise variance of a reading, in noise variances of the problem.
    wrapped : callable
        Puts a wrapper around the expert.
    down : bool
        Whether there is a time at which nobody can be reached.
    """

    name: str
    faults: Callable[[Problem], Faults]
    noise: float = 1.0
    wrapped: Callable[[Expert], Expert] = lambda expert: expert
    down: bool = False


def lost(share: float) -> Case:
    """Answers that get lost."""
    return Case(f"loss {share:.0%}" if share else "no fault", lambda _: Faults(loss=share))


def biased(problem: Problem) -> Faults:
    """Off by one deviation of the noise."""
    return Faults(bias=math.sqrt(added_noise(problem)))


CASES = (
    *(lost(share) for share in (0.0, 0.1, 0.3, 0.5, 0.9)),
    Case("delay, mean 2 time-outs", lambda _: Faults(delay=2.0, time_out=1.0)),
    Case("delay beyond time-out", lambda _: Faults(delay=NEVER, time_out=1.0)),
    Case("stuck from mid-run, all", lambda p: Faults(stuck_from=p.horizon // 2)),
    Case(
        "stuck from mid-run, 1 in 10",
        lambda p: Faults(stuck_from=p.horizon // 2, stations=tenth(p)),
    ),
    Case("bias of 1 noise sd", biased),
    Case("bias of 1 noise sd, calibrated", biased, wrapped=Calibrated),
    Case("variance stated / 10", lambda _: Faults(variance_factor=0.1), noise=10.0),
    Case(
        "variance stated / 10, calibrated", lambda _: Faults(variance_factor=0.1), 10.0, Calibrated
    ),
    Case("same noise, stated honestly", lambda _: Faults(), noise=10.0),
    Case("down for 50 steps", lambda p: Faults(down=middle(p, 50)), down=True),
    Case("down throughout", lambda _: Faults(down=(0.0, NEVER)), down=True),
)


def tenth(problem: Problem) -> list[str]:
    """Every tenth station."""
    return [str(i) for i in range(0, len(candidates(problem)), 10)]


def middle(problem: Problem, steps: int) -> tuple[float, float]:
    """So many steps around the middle of a run."""
    start = problem.horizon // 2 - steps // 2
    return float(start), float(start + steps)


def candidates(problem: Problem) -> Array:
    domain: Any = problem.domain
    return np.asarray(domain.X)


@dataclass
class Tally:
    """Counts what passes, and takes no part in it."""

    expert: Expert
    asked: int = 0
    answered: int = 0
    failures: int = 0
    cost: float = 0.0
    times: set[float] = field(default_factory=set)

    def query(self, X: Array, t: float) -> Answers:
        """Hand on."""
        self.asked += len(X)
        self.times.add(t)
        try:
            said = self.expert.query(X, t)
        except Exception:
            self.failures += 1
            raise
        self.answered += int(np.isfinite(said.values).sum())
        self.cost += said.cost
        return said

    def observe(self, rewards: Observations) -> None:
        """Hand on."""
        inform(self.expert, rewards)


def make(case: Case, problem: Problem, tallies: dict[str, Tally], setting: Setting) -> Bandit:
    """SparQ-GP-UCB with an expert that has the faults of a case."""
    points, noise = candidates(problem), case.noise * added_noise(problem)
    levels = np.array([problem.value(points, float(t)) for t in range(1, problem.horizon + 1)])
    ids = [str(i) for i in range(len(points))]
    transport = StubTransport(
        levels, ids, noise_variance=noise, seed=setting.seed, faults=case.faults(problem)
    )
    expert = SensorExpert(stations_at(points, ids, noise_variance=noise), transport, cost=1.0)
    tallies[case.name] = Tally(case.wrapped(expert))
    return policies.sparq_gp_ucb(
        *setting.parts,
        expert=tallies[case.name],
        confidence=setting.confidence or 2.0,
        seed=setting.seed,
    )


def run(problem: Problem, seed: int, width: float) -> list[dict[str, Any]]:
    """All cases on one realisation; a row each."""
    realise = getattr(problem, "realise", None)
    realised = problem if realise is None else realise(seed)
    tallies: dict[str, Tally] = {}
    makers = {case.name: partial(make, case, realised, tallies) for case in CASES}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExpertDownWarning)
        rows = pd.DataFrame(compare([problem], makers, seeds=[seed], confidence=width))
    told = sum(issubclass(each.category, ExpertDownWarning) for each in caught)
    out = []
    for case in CASES:
        mine, tally = rows[rows["policy"] == case.name], tallies[case.name]
        counted = (mine["queries"].sum(), mine["answered"].sum(), mine["cost"].sum())
        out.append(
            {
                "problem": problem.name,
                "fault": case.name,
                "seed": seed,
                "average_regret": float(mine["regret"].mean()),
                "asked_per_step": float(mine["queries"].mean()),
                "answered_per_step": float(mine["answered"].mean()),
                "wrong_counts": int(counted != (tally.asked, tally.answered, tally.cost)),
                "failures": tally.failures,
                "outages": sum(case.down for case in CASES),
                "warnings": told,
            }
        )
    return out


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and half of a 95% interval over seeds, in the order of the cases."""
    found = []
    for (problem, fault), group in rows.groupby(["problem", "fault"], sort=False):
        found.append(
            {
                "problem": problem,
                "fault": fault,
                "seeds": len(group),
                "average_regret": group["average_regret"].mean(),
                "ci95": half_interval(group["average_regret"].to_numpy()),
                "asked_per_step": group["asked_per_step"].mean(),
                "answered_per_step": group["answered_per_step"].mean(),
                "failed_queries": int(group["failures"].sum()),
                "wrong_counts": int(group["wrong_counts"].sum()),
            }
        )
    return pd.DataFrame(found)


def picture(found: pd.DataFrame, units: dict[str, str]) -> Figure:
    """Average regret of every fault, a panel a problem."""
    problems = list(found["problem"].unique())
    figure = Figure(
        figsize=(5.2 * len(problems) + 1.6, 0.34 * len(CASES) + 1.2), layout="constrained"
    )
    FigureCanvasAgg(figure)
    grid = figure.subplots(1, len(problems), sharey=True, squeeze=False)[0]
    for axes, problem in zip(grid, problems, strict=True):
        mine = found[found["problem"] == problem].iloc[::-1]
        axes.errorbar(
            mine["average_regret"],
            mine["fault"],
            xerr=mine["ci95"],
            fmt="ok",
            capsize=3,
            markersize=5,
        )
        healthy = float(mine[mine["fault"] == "no fault"]["average_regret"].iloc[0])
        axes.axvline(healthy, color="0.6", linewidth=1, linestyle="--", zorder=0)
        unit = f" ({units[problem]})" if units[problem] else ""
        axes.set(xlabel=f"average regret{unit}", title=problem, xlim=(0, None))
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    return figure


def show(console: Console, found: pd.DataFrame, title: str) -> None:
    """Print the table."""
    shown = Table(title=title)
    for name in found.columns:
        is_text = name in ("problem", "fault")
        shown.add_column(name.replace("_", " "), justify="left" if is_text else "right")
    for line in found.itertuples(index=False):
        shown.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in line))
    console.print(shown)


# --- gross errors among the rewards -----------------------------------------------------------------


def gross_errors(seed: int, steps: int, scale: float) -> Array:
    """By how much the reading of each step is wrong, shape (steps + 1,): 0 but for a twentieth."""
    rng, out, left = np.random.default_rng([seed, 77]), np.zeros(steps + 1), round(steps / 20)
    while left > 0:
        length = min(left, 1 if rng.random() < 0.6 else int(rng.integers(2, 6)))
        at = int(rng.integers(1, steps + 2 - length))
        if not out[max(at - 1, 0) : at + length + 1].any():
            signs = rng.choice([-1.0, 1.0], length)
            out[at : at + length] = signs * rng.uniform(10.0, 50.0, length) * scale
            left -= length
    return out


@dataclass
class Erring:
    """A bandit that is told rewards with errors."""

    bandit: Bandit
    errors: Array

    def ask(self, t: float) -> Array:
        """As the bandit does."""
        return self.bandit.ask(t)

    def tell(self, X: Array, y: Array, t: float) -> Any:
        """With the error of the step."""
        return self.bandit.tell(X, y + self.errors[int(t)], t)


def erring(policy: str, robust: bool, wrong: bool, setting: Setting) -> Erring:
    """A policy that learns, with errors or without."""
    steps = setting.horizon
    errors = gross_errors(setting.seed, steps, setting.scale) if wrong else np.zeros(steps + 1)
    common: Any = {"seed": setting.seed, "robust": robust}
    if policy == "adaptive":
        parts: Any = setting.domain, None, setting.noise_variance
        return Erring(policies.adaptive_gp_ucb(*parts, **common), errors)
    recipes: dict[str, Any] = {"tv": policies.tv_gp_ucb, "w": policies.w_gp_ucb}
    return Erring(recipes[policy](*setting.parts, **common), errors)


ERRING_PROBLEMS: dict[str, Callable[[int], Any]] = {
    "drifting-bump": lambda steps: DriftingBump(candidates=201, horizon=steps),
    "switching": lambda steps: Switching(horizon=steps),
    "gp-drift": lambda steps: GPDrift(points_per_axis=10, horizon=steps),
    "new-peak": lambda steps: NewPeak(horizon=steps),
    "moving-peaks": lambda steps: MovingPeaks(dimension=2, every=50, horizon=steps),
    "ar-arms": lambda steps: AutoregressiveArms(side=6, horizon=steps),
    "ozone-network": lambda steps: ozone_network(days=steps),
    "field-tide": lambda steps: Field("tide", horizon=steps),
    "field-jumps": lambda steps: Field("jumps", horizon=steps),
}
"""By name. Made on the bump, switching, GP drift and arms, looked at on moving peaks and ozone; the
others, and seeds from 20 of the arms, judge."""

WAYS = {
    "plain": (False, False),
    "plain, errors": (False, True),
    "robust": (True, False),
    "robust, errors": (True, True),
}
"""Robust, and with errors."""


def rewards_with_errors(options: argparse.Namespace) -> None:
    """Play and print: average regret, and times that of the plain policy without errors."""
    for name in options.problems or ERRING_PROBLEMS:
        problem = ERRING_PROBLEMS[name](options.horizon or 600)
        for policy in options.policies:
            makers: Any = {label: partial(erring, policy, *way) for label, way in WAYS.items()}
            rows = compare([problem], makers, seeds=options.seeds).to_frame()
            regret = rows.groupby("policy", sort=False)["regret"].mean()
            line = ", ".join(
                f"{label} {each:.4f} ({each / regret['plain']:.3f})"
                for label, each in regret.items()
            )
            print(f"{name}, {policy}, {options.seeds} seeds: {line}", flush=True)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--width", type=float, default=2.0)
    parser.add_argument("--horizon", type=int, help="steps; the problems' own by default")
    parser.add_argument("--out", type=Path, help="folder for faults.csv and faults.png")
    parser.add_argument("--rewards", action="store_true", help="gross errors among the rewards")
    parser.add_argument("--problems", nargs="*", choices=ERRING_PROBLEMS, help="for --rewards")
    parser.add_argument("--policies", nargs="*", default=["adaptive", "tv", "w"])
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    if options.rewards:
        rewards_with_errors(options)
        return 0
    bump, network = DriftingBump(), ozone_network()
    if options.horizon:
        bump, network = replace(bump, horizon=options.horizon), ozone_network(days=options.horizon)
    tasks = [(problem, seed) for problem in (bump, network) for seed in range(options.seeds)]
    work = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(run)(problem, seed, options.width) for problem, seed in tasks
    )
    errors = Console(stderr=True)
    bar = track(work, total=len(tasks), console=errors, disable=not errors.is_terminal)
    rows = pd.DataFrame([row for done in bar for row in done])
    found = table(rows)
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(machine())
    show(console, found, f"SparQ-GP-UCB, width {options.width:g}, {options.seeds} seeds")
    # Warnings are counted per run of all cases.
    heard = rows.groupby(["problem", "seed"])[["warnings", "outages"]].first().sum()
    console.print(f"{heard['outages']} outages, {heard['warnings']} warnings of them")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        found.to_csv(options.out / "faults.csv", index=False)
        units = {problem.name: problem.unit for problem in (bump, network)}
        picture(found, units).savefig(options.out / "faults.png", dpi=120)
    return int(found["wrong_counts"].sum() > 0 or heard["warnings"] != heard["outages"])


if __name__ == "__main__":
    sys.exit(main())
