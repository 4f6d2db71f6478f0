"""Regret on boxes with time as a further coordinate, of `adaptive_gp_ucb` and GP-UCB at equal widths.

    python -m benchmarks.boxes --seeds 5 --out boxes.jsonl [--more] [hartmann3 powell4 ...]
    python -m benchmarks.boxes --printed --seeds 6 [hartmann3 powell4 ...]

The protocol is that of BOBA (Kelly et al. 2026, Table 1): a test function of d coordinates, the last of
which is time; 15 random plays in the first 1/40 of time, then 120 decisions evenly spaced over the rest;
mean regret of the decisions, in the unit of the function. `adaptive_gp_ucb` and GP-UCB with time as an
ordinary input have the same starts and the same noise, and both play with the default width of each: 2
sqrt 2 / d deviations on a box of d > 1 coordinates, and 2. With `--more` they also play with 0.5 and 1,
unless these are within a sixth of the former. The file stores the runs, and the same command continues
after a stop. There are two tables: of equal widths, and of each policy at its best width.

`--printed` plays GP-UCB and W-DBO and compares with the numbers of that table, means of 10 replications
with a +- of unknown meaning; a row is "apart" if this interval and ours do not overlap. The paper says
that noise is 2.5% of the value in one place and of the variance in another: `--share 0.000625` (of the
variance; the former) and `--share 0.025`. It does not state the width of GP-UCB: of 0.3, 1, 1.41, 2 and
4, the width 1 is closest to its rows.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import cache_result, half_interval, heading, line, make_parser
from tvbandits import policies
from tvbandits.acquisition.widths import DEFAULT_WIDTH
from tvbandits.bandit.policy import compute_box_width
from tvbandits.datasets import Lifted

STARTS, DECISIONS = 15, 120
PLAYERS = ("adaptive-gp-ucb", "GP-UCB")
# Mean and +- of GP-UCB and of W-DBO in the paper.
PRINTED = {
    "schwefel4": ((788.0, 112.0), (846.0, 253.0)),
    "powell4": ((903.0, 249.0), (2025.0, 673.0)),
    "eggholder": ((351.0, 47.0), (506.0, 54.0)),
    "ackley4": ((3.92, 1.25), (4.57, 1.68)),
    "shekel4": ((1.62, 0.13), (1.72, 0.12)),
    "griewank6": ((4.55, 0.84), (59.68, 23.8)),
    "hartmann3": ((0.21, 0.03), (0.26, 0.06)),
    "hartmann6": ((1.05, 0.14), (1.02, 0.21)),
}
# Regrets by seed.
Runs = dict[int, float]


def make_player(policy: str, problem: Lifted, seed: int, width: float) -> Any:
    """Return a policy on the box of a problem."""
    box, noise = problem.domain, problem.noise_variance
    if policy == "W-DBO":  # the width is that of its paper
        return policies.w_dbo(box, noise_variance=noise, initial_points=STARTS, seed=seed)
    if policy == "adaptive-gp-ucb":
        return policies.adaptive_gp_ucb(box, noise_variance=noise, beta=width, seed=seed)
    span = float(DECISIONS)
    return policies.time_gp_ucb(box, noise_variance=noise, span=span, beta=width, seed=seed)


def regret(policy: str, name: str, share: float, seed: int, width: float) -> float:
    """Return the mean regret of the decisions of one replication."""
    problem = Lifted(name, horizon=DECISIONS, noise_share=share)
    rng, noise = np.random.default_rng([seed, 7]), problem.noise_variance**0.5
    player = make_player(policy, problem, seed, width)
    start = 1 + (DECISIONS - 1) / 40
    for x, t in zip(problem.domain.sample(STARTS, rng), np.linspace(1, start, STARTS), strict=True):
        player.tell(x[None], problem.value(x[None], t) + noise * rng.standard_normal(1), t)
    regrets = []
    for t in np.linspace(start, DECISIONS, DECISIONS + 1)[1:]:
        x = player.ask(t)
        value = problem.value(x, t)
        regrets.append(problem.best(t) - float(value[0]))
        player.tell(x, value + noise * rng.standard_normal(1), t)
    return float(np.mean(regrets))


def play_seeds(options: Any, policy: str, name: str, width: float) -> Runs:
    """Return the regret of each seed, from the file if it has the run."""
    keys = {seed: (policy, name, options.share, seed, width) for seed in range(options.seeds)}
    return {
        seed: cache_result(options.out, key, partial(regret, *key)) for seed, key in keys.items()
    }


def format_mean(runs: Runs) -> str:
    """Return the mean of runs and half of its 95% interval."""
    values = np.array(list(runs.values()))
    pair = values.mean(), half_interval(values)
    return " ± ".join(f"{each:.0f}" if each >= 100 else f"{each:.3g}" for each in pair)


def widths(name: str, more: bool) -> list[float]:
    """Return the widths of a function, in ascending order."""
    box: Any = Lifted(name).domain
    default = compute_box_width(box) if box.dimension > 1 else DEFAULT_WIDTH
    others = [each for each in (0.5, 1.0) if more and not 5 / 6 < default / each < 7 / 6]
    return sorted({float(f"{each:.3g}") for each in (default, DEFAULT_WIDTH, *others)})


def print_equal_widths(options: Any, names: list[str]) -> None:
    """Print a row for each width of a function, then one for each function."""
    heading("function", "width", *PLAYERS, "seeds won")
    best = []
    for name in names:
        played = {
            w: [play_seeds(options, each, name, w) for each in PLAYERS]
            for w in widths(name, options.more)
        }
        for width, (ours, theirs) in played.items():
            wins = f"{sum(ours[seed] < theirs[seed] for seed in ours)} of {len(ours)}"
            line(name, f"{width:g}", format_mean(ours), format_mean(theirs), wins)
        best.append([name])
        for i in range(len(PLAYERS)):
            width = min(played, key=lambda w: sum(played[w][i].values()))
            best[-1] += [format_mean(played[width][i]), f"{width:g}"]
    print()
    heading("function", *(each for policy in PLAYERS for each in (policy, "at width")))
    for row in best:
        line(*row)


def print_beside_paper(options: Any, names: list[str]) -> None:
    """Print a row for each function and policy of the paper."""
    heading("function", "policy", "ours", "printed", "+-", "")
    for name in names:
        for policy, (mean, printed) in zip(("GP-UCB", "W-DBO"), PRINTED[name], strict=True):
            runs = play_seeds(options, policy, name, 1.0)
            values = np.array(list(runs.values()))
            apart = abs(values.mean() - mean) > half_interval(values) + printed
            line(name, policy, format_mean(runs), mean, printed, "apart" if apart else "")


def main() -> None:
    """Play the runs that are not in the file, and print the tables."""
    parser = make_parser(__doc__, seeds=5, share=0.025 * 0.025)
    parser.add_argument("functions", nargs="*", help=f"of {', '.join(PRINTED)}; all by default")
    parser.add_argument("--more", action="store_true", help="more widths than the defaults")
    parser.add_argument(
        "--printed", action="store_true", help="compare with the numbers of the paper"
    )
    parser.add_argument("--out", type=Path, help="file of the runs")
    options = parser.parse_args()
    names = options.functions or list(PRINTED)
    if unknown := [name for name in names if name not in PRINTED]:
        parser.error(f"there are no printed numbers for {', '.join(unknown)}")
    (print_beside_paper if options.printed else print_equal_widths)(options, names)


if __name__ == "__main__":
    main()
