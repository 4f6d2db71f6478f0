"""Who asks nobody, on eight fields that no choice of this package was made on.

    python -m benchmarks.alone [--seeds 10] [--policies NAME ...]

Two bumps that trade places, a ridge that turns, a sum of waves, a walk on a graph, a peak on an
orbit, a function that jumps, bumps that a tide moves, and arms of their own rates; 100 steps. Every
policy is told the noise. `mk-gp-ucb` gets its kernel, scale and rate from 200 free plays, `gp-ucb` its
kernel and scale; `adaptive-gp-ucb` is told nothing more.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from benchmarks.harness import half_interval
from tvbandits import compare
from tvbandits.datasets.fields import KINDS, Field


def main() -> None:
    """Play, and print a table with the ratios to the second policy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=10)
    names = ["adaptive-gp-ucb", "mk-gp-ucb", "gp-ucb"]
    parser.add_argument("--policies", nargs="+", default=names, metavar="NAME")
    given = parser.parse_args()
    print("| field |", " | ".join(given.policies), "|\n|---|" + "---|" * len(given.policies))
    ratios = []
    for name, kind in KINDS.items():
        problem = Field(name, noise_variance=kind.noise_variance)
        rows = pd.DataFrame(list(compare(problem, given.policies, seeds=given.seeds)))
        runs = rows.pivot_table(index="seed", columns="policy", values="regret")[given.policies]
        cells = [f"{runs[k].mean():.3f} ± {half_interval(runs[k].to_numpy()):.3f}" for k in runs]
        print("|", " | ".join([problem.name, *cells]), "|", flush=True)
        ratios.append(runs.mean().to_numpy() / runs.iloc[:, min(1, len(cells) - 1)].mean())
    geometric = np.exp(np.log(ratios).mean(axis=0))
    print("| geometric mean of ratios |", " | ".join(f"{each:.3f}" for each in geometric), "|")


if __name__ == "__main__":
    main()
