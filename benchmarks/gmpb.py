"""Few evaluations a change: the learned policy beside 25 evolutionary algorithms on moving peaks.

    python -m benchmarks.gmpb --runs 3 --out gmpb.jsonl [--evaluations 100] [--width 1]

The generalised moving peaks benchmark (arXiv 2106.06174), F8 of the CEC competitions: 10 peaks in 5
dimensions that move by 1 at a change, 500 evaluations between two changes, no noise; its first 10
environments. Draws are our own. `adaptive_gp_ucb` is told of a change as the algorithms are: its time is
the number of the environment. The width is its own, which many plays at a time make 2 deviations.

What is printed is how far the best point so far in an environment is from the best, after 100, 200, ...
evaluations: ours from the true optimum, theirs (means of 31 runs, published with EDOLAB) from the best
that any of the 25 found there, which is never more. With `--evaluations 100` only so many are played in
an environment: less is known after a change. Runs are kept in the file, and the same command goes on.
"""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import arguments, cell, heading, kept, line
from tvbandits import policies
from tvbandits.core.arrays import Array
from tvbandits.datasets import GeneralisedMovingPeaks

PUBLISHED = Path(__file__).parent / "results" / "gmpb_low_budget.csv"
LOOKS = (100, 200, 300, 400, 500)
# What the policy is told: heights are 30 to 70, and nothing has less noise than arithmetic.
NOISE_VARIANCE = 0.01


def gaps(seed: int, environments: int, evaluations: int, width: float | None) -> list[list[float]]:
    """Gap of the best so far to the optimum, for each environment, after each hundred evaluations."""
    horizon = environments * evaluations
    problem = GeneralisedMovingPeaks(every=evaluations, horizon=horizon, seed=seed)
    player = policies.adaptive_gp_ucb(
        problem.domain, noise_variance=NOISE_VARIANCE, confidence=width, seed=seed
    )
    found = []
    for environment in range(environments):
        step = environment * evaluations + 1
        values = np.empty(evaluations)
        for i in range(evaluations):
            x = player.ask(environment)
            values[i : i + 1] = problem.value(x, step)
            player.tell(x, values[i : i + 1], environment)
        looks = [look for look in LOOKS if look <= evaluations]
        found.append([problem.best(step) - float(values[:look].max()) for look in looks])
    return found


def table(runs: Array) -> None:
    """Ours, then the published ones, the best first: mean gaps of all environments."""
    looks = LOOKS[: runs.shape[2]]
    heading("", *(f"after {look}" for look in looks))
    cells = (cell(means, ".2f") for means in runs.mean(axis=1).T)
    line(f"adaptive_gp_ucb, {len(runs)} runs", *cells)
    with PUBLISHED.open(newline="") as rows:
        for row in csv.DictReader(rows):
            line(row["algorithm"], *(row[f"gap_at_{look}"] for look in looks))


def main() -> None:
    """Play what is not on record, then print the table."""
    parser = arguments(__doc__, runs=3, environments=10, evaluations=500)
    parser.add_argument("--width", type=float, help="in deviations; the policy's own by default")
    parser.add_argument("--out", type=Path, help="keeps the runs")
    given = parser.parse_args()
    runs = []
    for seed in range(given.runs):
        settings = (seed, given.environments, given.evaluations, given.width)
        runs.append(kept(given.out, settings, partial(gaps, *settings)))
    table(np.array(runs))


if __name__ == "__main__":
    main()
