"""A comparison on a cluster: three problems and four policies on two Dask workers, with the same rows.

`--cluster` has the address of a scheduler. Here the scheduler and its two workers are on this machine;
the same command uses all machines of a larger cluster. Every finished run is written to the disk at
once. This script compares rows of the cluster with those of one process. It needs the extra `dask`:
`pip install '.[dask]'`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from distributed import LocalCluster
from matplotlib.figure import Figure

from tvbandits import compare
from tvbandits.datasets import DriftingBump

HERE = Path(__file__).resolve().parent
PROBLEMS = [
    "drifting-bump:candidates=101",
    "gp-drift:points_per_axis=7",
    "switching:candidates=101",
]
POLICIES = ["uniform", "sw-gp-ucb", "adaptive-gp-ucb", "frugal-gp-ucb:queries_per_step=2"]
STEPS, SEEDS = 80, 2


def play_on_cluster(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Play on a cluster; return a row for every step, and one for each problem and policy."""
    command = [sys.executable, "-m", "tvbandits", "compare", *PROBLEMS, "--format", "json"]
    command += [word for name in POLICIES for word in ("--policy", name)]
    command += ["--horizon", str(STEPS), "--seeds", str(SEEDS), "--out", str(folder)]
    with LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address="127.0.0.1:0"
    ) as cluster:
        command += ["--cluster", cluster.scheduler_address]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return pd.read_csv(folder / "rows.csv.gz"), pd.DataFrame(json.loads(output)["summary"])


def main(folder: Path = HERE) -> float:
    with tempfile.TemporaryDirectory() as temporary:
        rows, summary = play_on_cluster(Path(temporary) / "results")
    regret = summary.pivot(index="problem", columns="policy", values="average_regret")
    regret = regret.loc[PROBLEMS, POLICIES]
    print(regret.round(3).to_string())

    problem = DriftingBump(candidates=101)
    local_rows = compare(problem, ["sw-gp-ucb"], seeds=SEEDS, horizon=STEPS)
    cluster_rows = rows[(rows["problem"] == PROBLEMS[0]) & (rows["policy"] == "sw-gp-ucb")]
    is_equal = bool(np.array_equal(local_rows["reward"], cluster_rows["reward"]))
    print(f"{len(rows)} rows; those of sw-gp-ucb equal the rows of one process: {is_equal}")

    ratio = regret.div(regret["uniform"], axis=0)
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    x = np.arange(len(PROBLEMS))
    for i, name in enumerate(POLICIES[1:]):
        grey = str(0.85 - 0.32 * i)
        axes.bar(x + 0.27 * (i - 1), ratio[name], 0.25, color=grey, edgecolor="k", label=name)
    axes.axhline(1.0, color="k", linestyle=":", linewidth=1)
    axes.annotate("uniform choice", (x[-1] + 0.4, 1.0), ha="right", va="bottom", fontsize="small")
    axes.set_xticks(x, [name.partition(":")[0] for name in PROBLEMS])
    axes.set(ylabel="regret / regret of uniform choice", ylim=(0, 1.1))
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    figure.savefig(folder / "09_on_a_cluster.png", dpi=120)
    return float(ratio["frugal-gp-ucb:queries_per_step=2"].mean()) if is_equal else float("nan")


if __name__ == "__main__":
    main()
