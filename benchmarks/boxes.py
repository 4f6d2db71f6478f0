"""The learned policy on boxes with time as a further coordinate, beside GP-UCB, at equal widths.

    python -m benchmarks.boxes --seeds 5 --out boxes.jsonl [--more] [hartmann3 powell4 ...]

The protocol is that of `benchmarks.boba`: 15 random plays, then 120 decisions; mean regret of the
decisions, in the unit of the function. `adaptive_gp_ucb` and GP-UCB with time as an ordinary input meet
the same starts and the same noise, both at the default width of either: 2 sqrt 2 / d deviations on a
box of d > 1 coordinates, and 2; with `--more` also at 0.5 and 1, but for those within a sixth of the
former.
Runs are kept in the file, and the same command goes on where it was stopped. Two tables are printed: of
equal widths, and of each policy at the best of the widths.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.boba import PRINTED, regret
from benchmarks.harness import arguments, half_interval, heading, kept, line
from tvbandits.acquisition.widths import DEFAULT_WIDTH
from tvbandits.bandit.policy import box_width
from tvbandits.datasets import Lifted
from tvbandits.gp.additive import Bounded

POLICIES = ("adaptive-gp-ucb", "GP-UCB")
# Function, policy, width and seed.
Run = tuple[str, str, str, int]


def widths(name: str, more: bool) -> list[str]:
    """What a function is played at, the defaults first."""
    box = Lifted(name).domain
    own = DEFAULT_WIDTH
    if isinstance(box, Bounded) and box.dimension > 1:
        own = box_width(box)
    rest = [w for w in (0.5, 1.0) if more and not 5 / 6 < own / w < 7 / 6]
    return list(dict.fromkeys(f"{width:.3g}" for width in (own, DEFAULT_WIDTH, *rest)))


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
    heading("function", "width", *POLICIES, "seeds won")
    for name in names:
        for width in sorted(widths(name, more), key=float):
            ours, theirs = (runs_of(found, name, policy, width) for policy in POLICIES)
            seeds = ours.keys() & theirs.keys()
            won = f"{sum(ours[seed] < theirs[seed] for seed in seeds)} of {len(seeds)}"
            line(name, width, cell(ours), cell(theirs), won)
    print()
    heading("function", *(each for policy in POLICIES for each in (policy, "at width")))
    for name in names:
        row = [name]
        for policy in POLICIES:
            played = {w: runs_of(found, name, policy, w) for w in widths(name, more)}
            best = min(
                (w for w in played if played[w]), key=lambda w: np.mean(list(played[w].values()))
            )
            row += [cell(played[best]), best]
        line(*row)


def main() -> None:
    """Play what is not on record, then print the tables."""
    parser = arguments(__doc__, seeds=5, share=0.025 * 0.025)
    parser.add_argument("functions", nargs="*", help=f"of {', '.join(PRINTED)}; all by default")
    parser.add_argument("--more", action="store_true", help="more widths than the defaults")
    parser.add_argument("--out", type=Path, help="keeps the runs")
    given = parser.parse_args()
    names = given.functions or list(PRINTED)
    if unknown := [name for name in names if name not in PRINTED]:
        sys.exit(f"there are no printed numbers for {', '.join(unknown)}")
    found: dict[Run, float] = {}
    for seed in range(given.seeds):
        for name in names:
            for width in widths(name, given.more):
                for policy in POLICIES:
                    settings = policy, name, given.share, seed, float(width)
                    run = (name, policy, width, seed)
                    found[run] = kept(given.out, settings, partial(regret, *settings))
    tables(names, found, given.more)


if __name__ == "__main__":
    main()
