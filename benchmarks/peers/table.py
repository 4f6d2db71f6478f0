"""The peers' table of the pages, out of kept runs: `python -m benchmarks.peers.table DIR HORIZON`.

A line a policy, a column a problem: average regret of whole runs with half of its 95% interval; the best
mean rank over problems is on top.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.harness import half_interval
from benchmarks.peers.__main__ import Kept, table_of


def pivot(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the table by policy, in its order, from a row a whole run."""
    by = runs.groupby(["policy", "problem"], sort=False)
    means = by["regret"].mean().unstack()
    halves = by["regret"].agg(lambda each: half_interval(each.to_numpy())).unstack()
    cells = means.map(lambda value: f"{value:.3g}") + halves.map(
        lambda value: "" if np.isnan(value) else f" ± {value:.2g}"
    )
    cells["runs"] = by.size().unstack().min(axis=1)
    cells["mean rank"] = means.rank().mean(axis=1)
    cells["ms a step"] = runs.groupby("policy")["ms"].mean().map(lambda value: f"{value:.3g}")
    return cells.sort_values("mean rank")


def main() -> None:
    out, horizon = Path(sys.argv[1]), int(sys.argv[2])
    kept = Kept(out).runs
    table_of(kept, horizon).to_csv(out / "peers.csv", index=False, float_format="%.4g")
    whole = pd.DataFrame(
        {
            **{name: run[name] for name in ("policy", "problem", "version", "seed")},
            "regret": float(np.mean(run["regrets"])),
            "ms": 1e3 * float(np.mean(run["seconds"])),
        }
        for run in kept
        if len(run["regrets"]) == horizon
    )
    cells = pivot(whole)
    cells.insert(0, "version", whole.groupby("policy")["version"].last())
    print("| policy | " + " | ".join(cells.columns) + " |\n" + "|---" * (1 + cells.shape[1]) + "|")
    for name, row in cells.iterrows():
        print(f"| {name} | " + " | ".join(f"{each}" for each in row) + " |")


if __name__ == "__main__":
    main()
