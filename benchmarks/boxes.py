"""The learned policy on boxes with time as a further coordinate, beside GP-UCB, at equal widths.

    python -m benchmarks.boxes --seeds 5 --out boxes.csv [--more] [hartmann3 powell4 ...]

The protocol is that of `benchmarks.boba`: 15 random plays, then 120 decisions; mean regret of the
decisions, in the unit of the function. `adaptive_gp_ucb` and GP-UCB with time as an ordinary input meet
the same starts and the same noise, both at the default width of either: 2 sqrt 2 / d deviations on a
box of d > 1 coordinates, and 2; with `--more` also at 0.5 and 1, but for those within a sixth of the
former.
Runs are kept in the file, and the same command goes on where it was stopped. Two tables are printed: of
equal widths, and of each policy at the best of the widths.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

from benchmarks.boba import PRINTED, regret
from benchmarks.harness import half_interval
from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.datasets import Lifted
from tvbandits.policies.expert import box_width, has_several

POLICIES = ("adaptive-gp-ucb", "GP-UCB")
Run = tuple[str, str, str, int]
"""Function, policy, width and seed."""


def widths(name: str, more: bool) -> list[str]:
    """What a function is played at, the defaults first."""
    box = Lifted(name).domain
    own = box_width(box) if has_several(box) else DEFAULT_WIDTH
    rest = [w for w in (0.5, 1.0) if more and not 5 / 6 < own / w < 7 / 6]
    return list(dict.fromkeys(f"{width:.3g}" for width in (own, DEFAULT_WIDTH, *rest)))


def recorded(file: Path) -> dict[Run, float]:
    """What is on record."""
    if not file.exists():
        return {}
    with file.open(newline="") as rows:
        return {(n, p, w, int(s)): float(value) for n, p, w, s, value in csv.reader(rows)}


def runs_of(found: dict[Run, float], *key: str) -> dict[int, float]:
    """Regret by seed."""
    return {run[3]: value for run, value in found.items() if run[:3] == key}


def cell(runs: dict[int, float]) -> str:
    """A mean and half of its interval."""
    means = np.array(list(runs.values()))
    pair = (means.mean(), half_interval(means)) if len(means) else ()
    return " ± ".join(f"{each:.0f}" if each >= 100 else f"{each:.3g}" for each in pair)


def tables(names: list[str], found: dict[Run, float], more: bool) -> None:
    """A row for each width of a function, and one for each function."""
    print("| function | width | " + " | ".join(POLICIES) + " | seeds won |\n|---|---|---|---|---|")
    for name in names:
        for width in sorted(widths(name, more), key=float):
            ours, theirs = (runs_of(found, name, policy, width) for policy in POLICIES)
            seeds = ours.keys() & theirs.keys()
            won = f"{sum(ours[seed] < theirs[seed] for seed in seeds)} of {len(seeds)}"
            print(f"| {name} | {width} | {cell(ours)} | {cell(theirs)} | {won} |")
    print(
        "\n| function | " + " | at width | ".join(POLICIES) + " | at width |\n|---|---|---|---|---|"
    )
    for name in names:
        row = [name]
        for policy in POLICIES:
            played = {w: runs_of(found, name, policy, w) for w in widths(name, more)}
            best = min(
                (w for w in played if played[w]), key=lambda w: np.mean(list(played[w].values()))
            )
            row += [cell(played[best]), best]
        print("|", " | ".join(row), "|")


def main() -> None:
    """Play what is not on record, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("functions", nargs="*", help=f"of {', '.join(PRINTED)}; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.025 * 0.025, help="noise / variance")
    parser.add_argument("--more", action="store_true", help="more widths than the defaults")
    parser.add_argument("--out", type=Path, default=Path("boxes.csv"))
    given = parser.parse_args()
    names = given.functions or list(PRINTED)
    if unknown := [name for name in names if name not in PRINTED]:
        sys.exit(f"there are no printed numbers for {', '.join(unknown)}")
    found = recorded(given.out)
    for seed in range(given.seeds):
        for name in names:
            for width in widths(name, given.more):
                for policy in POLICIES:
                    run = (name, policy, width, seed)
                    if run not in found:
                        found[run] = regret(policy, name, given.share, seed, float(width))
                        with given.out.open("a", newline="") as rows:
                            csv.writer(rows).writerow([*run, found[run]])
    tables(names, found, given.more)


if __name__ == "__main__":
    main()
