"""The learned policy on boxes with time as a further coordinate, beside GP-UCB, at several widths.

    python -m benchmarks.boxes --seeds 5 --out boxes.csv [hartmann3 powell4 ...]

The protocol is that of `benchmarks.boba`: 15 random plays, then 120 decisions; mean regret of the
decisions, in the unit of the function. `tv_gp_ucb` and GP-UCB with time as an ordinary input meet the
same starts and the same noise, at every width of one grid: 0.5, 1 and 2 deviations, and 2 sqrt 2 / d on a box
of d coordinates, the former's default (in place of 0.5 or 1 where it is within a sixth of it). W-DBO has
the width of its paper. A line is printed as soon as a run is over and kept in the file; the same command
goes on where it was stopped, and then prints both tables: at equal widths, and each at its best one.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

from benchmarks.boba import PRINTED, half_interval, regret
from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.datasets import Lifted
from tvbandits.policies.learning import box_width

BEST_PRINTED = {
    "schwefel4": 466,
    "powell4": 452,
    "eggholder": 333,
    "ackley4": 3.05,
    "shekel4": 1.62,
    "griewank6": 4.29,
    "hartmann3": 0.21,
    "hartmann6": 0.55,
}
"""The best of the six methods in Table 1 of BOBA."""

OURS, RIVAL, REMOVING = "tv-gp-ucb", "GP-UCB", "W-DBO"
Run = tuple[str, str, str, int]
"""Function, policy, width ("own" for W-DBO) and seed."""


def widths(name: str) -> list[str]:
    """The grid of a function: the two defaults first."""
    own = box_width(Lifted(name).domain)
    rest = [w for w in (0.5, 1.0) if not 5 / 6 < own / w < 7 / 6]
    return [f"{width:.3g}" for width in (own, DEFAULT_WIDTH, *rest)]


def plan(names: list[str], seeds: int) -> list[Run]:
    """All runs: a seed of every function at the defaults, then the next; the rest of the grid last."""
    grid = {name: widths(name) for name in names}
    own = [(n, REMOVING, "own", s) for s in range(seeds) for n in names]
    both = [
        (n, policy, width, s)
        for part in (slice(0, 2), slice(2, None))
        for s in range(seeds)
        for n in names
        for width in grid[n][part]
        for policy in (OURS, RIVAL)
    ]
    return own + both


def recorded(file: Path) -> dict[Run, float]:
    """What is on record."""
    if not file.exists():
        return {}
    with file.open(newline="") as rows:
        return {(n, p, w, int(s)): float(value) for n, p, w, s, value in csv.reader(rows)}


def cell(found: dict[Run, float], *key: str) -> tuple[float, str]:
    """Mean over seeds, and as written."""
    runs = np.array([value for run, value in sorted(found.items()) if run[:3] == key])
    if not len(runs):
        return float("inf"), ""
    return float(runs.mean()), f"{runs.mean():.3g} ± {half_interval(runs):.2g}"


def tables(names: list[str], found: dict[Run, float]) -> None:
    """A row for each width of a function, and one for each function."""
    print(f"\n| function | width | {OURS} | {RIVAL} | seeds won by {OURS} |\n|---|---|---|---|---|")
    for name in names:
        for width in sorted(widths(name), key=float):
            pairs = [
                (value, found[name, RIVAL, width, run[3]])
                for run, value in found.items()
                if run[:3] == (name, OURS, width) and (name, RIVAL, width, run[3]) in found
            ]
            won = f"{sum(a < b for a, b in pairs)} of {len(pairs)}"
            each = " | ".join(cell(found, name, policy, width)[1] for policy in (OURS, RIVAL))
            print(f"| {name} | {width} | {each} | {won} |")
    print(
        f"\n| function | {OURS} | at width | {RIVAL} | at width | {REMOVING} | {RIVAL} printed |",
        end="",
    )
    print(f" {REMOVING} printed | best of six printed |\n|---|---|---|---|---|---|---|---|---|")
    for name in names:
        best = []
        for policy in (OURS, RIVAL):
            (_, text), width = min((cell(found, name, policy, w), w) for w in widths(name))
            best += [text, width]
        printed = [f"{mean:g}" for mean, _ in PRINTED[name]]
        removing = cell(found, name, REMOVING, "own")[1]
        print("|", " | ".join([name, *best, removing, *printed, f"{BEST_PRINTED[name]:g}"]), "|")


def main() -> None:
    """Play what is not on record, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("functions", nargs="*", help=f"of {', '.join(PRINTED)}; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.025 * 0.025, help="noise / variance")
    parser.add_argument("--out", type=Path, default=Path("boxes.csv"))
    given = parser.parse_args()
    names = given.functions or list(PRINTED)
    if unknown := [name for name in names if name not in PRINTED]:
        sys.exit(f"there are no printed numbers for {', '.join(unknown)}")
    found = recorded(given.out)
    for run in plan(names, given.seeds):
        if run not in found:
            name, policy, width, seed = run
            at = None if width == "own" else float(width)
            found[run] = regret(policy, name, given.share, seed, at)
            with given.out.open("a", newline="") as rows:
                csv.writer(rows).writerow([*run, found[run]])
    tables(names, found)


if __name__ == "__main__":
    main()
