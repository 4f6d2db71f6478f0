"""The learned policy on boxes with time as a further coordinate, beside numbers that were printed.

Protocol of BOBA (Kelly et al. 2026, Table 1): 15 random plays in the first 1/40 of time, then 120
decisions evenly spaced over the rest; mean regret against the best point of each time, in the unit of
the function. The printed columns are theirs, of 10 replications, for GP-UCB with time as an ordinary
input, W-DBO, and the best of six methods. How much noise they added is not certain: their text says
2.5% of the value in one place and of the variance in another (`--share` 0.000625 and 0.025).

    python -m benchmarks.boxes --seeds 2 --share 0.000625 hartmann3 powell4
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np

from tvbandits import Bandit, policies
from tvbandits.core.arrays import Array
from tvbandits.datasets import Lifted

PRINTED = {
    "schwefel4": (788.0, 846.0, 466.0),
    "powell4": (903.0, 2025.0, 452.0),
    "eggholder": (351.0, 506.0, 333.0),
    "ackley4": (3.92, 4.57, 3.05),
    "shekel4": (1.62, 1.72, 1.62),
    "griewank6": (4.55, 59.68, 4.29),
    "hartmann3": (0.21, 0.26, 0.21),
    "hartmann6": (1.05, 1.02, 0.55),
}
"""GP-UCB, W-DBO, best of six."""

STARTS, DECISIONS = 15, 120


@dataclass(frozen=True)
class Run:
    """Regret of every decision, in the unit of the function, and seconds of every ask and tell."""

    regret: Array
    seconds: list[float]


def played(name: str, share: float, seed: int, decisions: int = DECISIONS) -> Run:
    """One replication."""
    problem = Lifted(name, horizon=decisions, noise_share=share)
    rng = np.random.default_rng([seed, 7])
    bandit: Bandit = policies.tv_gp_ucb(problem.domain, None, problem.noise_variance, seed=seed)
    noise = problem.noise_variance**0.5
    begin = 1 + (decisions - 1) / 40
    for x, t in zip(problem.domain.sample(STARTS, rng), np.linspace(1, begin, STARTS), strict=True):
        bandit.tell(x[None], problem.value(x[None], t) + noise * rng.standard_normal(1), t)
    regret, seconds = [], []
    for t in np.linspace(begin, decisions, decisions + 1)[1:]:
        started = time.process_time()
        x = bandit.ask(t)
        seconds.append(time.process_time() - started)
        value = problem.value(x, t)
        regret.append(problem.best(t) - float(value[0]))
        told = value + noise * rng.standard_normal(1)
        started = time.process_time()
        bandit.tell(x, told, t)
        seconds[-1] += time.process_time() - started
    return Run(np.array(regret), seconds)


def row(name: str, share: float, seeds: int) -> str:
    """One function as a row of a table."""
    runs = [played(name, share, seed) for seed in range(seeds)]
    means = [float(run.regret.mean()) for run in runs]
    ours, deviation = statistics.fmean(means), Lifted(name).deviation
    ucb, wdbo, best = PRINTED[name]
    late = statistics.median([s for run in runs for s in run.seconds[-30:]])
    beaten = " ".join(
        label
        for label, other in (("GP-UCB", ucb), ("W-DBO", wdbo), ("best", best))
        if ours <= other
    )
    return (
        f"| {name} | {ours:.3g} | {ours / deviation:.2f} | {ucb:g} | {wdbo:g} | {best:g} | "
        f"{beaten or '-'} | {1e3 * late:.0f} |"
    )


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("functions", nargs="*", default=list(PRINTED))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.025 * 0.025, help="noise / variance")
    given = parser.parse_args()
    unknown = [name for name in given.functions if name not in PRINTED]
    if unknown:
        sys.exit(f"there are no printed numbers for {', '.join(unknown)}")
    print(f"noise variance {given.share:g} of the function's, {given.seeds} seeds")
    print("| function | ours | in deviations | GP-UCB | W-DBO | best of 6 | at or below | ms |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.functions:
        print(row(name, given.share, given.seeds), flush=True)


if __name__ == "__main__":
    main()
