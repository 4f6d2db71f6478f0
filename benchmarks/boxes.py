"""The learned policy on boxes with time as a further coordinate, beside GP-UCB, at equal widths.

    python -m benchmarks.boxes --seeds 5 --out boxes.jsonl [--more] [hartmann3 powell4 ...]
    python -m benchmarks.boxes --printed --seeds 6 [hartmann3 powell4 ...]

The protocol is that of BOBA (Kelly et al. 2026, Table 1): a test function of d coordinates, the last of
which is time; 15 random plays in the first 1/40 of time, then 120 decisions evenly spaced over the rest;
mean regret of the decisions, in the unit of the function. `adaptive_gp_ucb` and GP-UCB with time as an
ordinary input meet the same starts and the same noise, both at the default width of either: 2 sqrt 2 / d
deviations on a box of d > 1 coordinates, and 2; with `--more` also at 0.5 and 1, but for those within a
sixth of the former. Runs are kept in the file, and the same command goes on where it was stopped. Two
tables are printed: of equal widths, and of each policy at the best of the widths.

`--printed` plays GP-UCB and W-DBO beside what is printed there, means of 10 replications and a +- that
they do not name; a row is apart where the 95% interval of our mean and theirs do not meet. Their text
says that noise is 2.5% of the value in one place and of the variance in another: `--share 0.000625` (of
the variance; the former) and `--share 0.025`. Nor does it name the width of their GP-UCB: 1 was chosen
here, of 0.3, 1, 1.41, 2 and 4, as what comes closest to their rows.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, half_interval, heading, kept, line
from tvbandits import policies
from tvbandits.acquisition.widths import DEFAULT_WIDTH
from tvbandits.bandit.policy import compute_box_width
from tvbandits.datasets import Lifted

STARTS, DECISIONS = 15, 120
PLAYERS = ("adaptive-gp-ucb", "GP-UCB")
# Mean and +- of GP-UCB, and of W-DBO.
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


def player_of(policy: str, problem: Lifted, seed: int, width: float) -> Any:
    """The policy, on the problem's box."""
    box, noise = problem.domain, problem.noise_variance
    if policy == "W-DBO":  # whose width is its paper's
        return policies.w_dbo(box, noise_variance=noise, initial_points=STARTS, seed=seed)
    if policy == "adaptive-gp-ucb":
        return policies.adaptive_gp_ucb(box, noise_variance=noise, beta=width, seed=seed)
    span = float(DECISIONS)
    return policies.time_gp_ucb(box, noise_variance=noise, span=span, beta=width, seed=seed)


def regret(policy: str, name: str, share: float, seed: int, width: float) -> float:
    """Mean regret of the decisions of one replication."""
    problem = Lifted(name, horizon=DECISIONS, noise_share=share)
    rng, noise = np.random.default_rng([seed, 7]), problem.noise_variance**0.5
    player = player_of(policy, problem, seed, width)
    begin = 1 + (DECISIONS - 1) / 40
    for x, t in zip(problem.domain.sample(STARTS, rng), np.linspace(1, begin, STARTS), strict=True):
        player.tell(x[None], problem.value(x[None], t) + noise * rng.standard_normal(1), t)
    found = []
    for t in np.linspace(begin, DECISIONS, DECISIONS + 1)[1:]:
        x = player.ask(t)
        value = problem.value(x, t)
        found.append(problem.best(t) - float(value[0]))
        player.tell(x, value + noise * rng.standard_normal(1), t)
    return float(np.mean(found))


def runs(given: Any, policy: str, name: str, width: float) -> Runs:
    """Regrets by seed, of which those in the file are not played again."""
    every = {seed: (policy, name, given.share, seed, width) for seed in range(given.seeds)}
    return {seed: kept(given.out, key, partial(regret, *key)) for seed, key in every.items()}


def mean_of(found: Runs) -> str:
    """A mean and half of its interval."""
    values = np.array(list(found.values()))
    pair = values.mean(), half_interval(values)
    return " ± ".join(f"{each:.0f}" if each >= 100 else f"{each:.3g}" for each in pair)


def widths(name: str, more: bool) -> list[float]:
    """What a function is played at, rising."""
    box: Any = Lifted(name).domain
    own = compute_box_width(box) if box.dimension > 1 else DEFAULT_WIDTH
    rest = [each for each in (0.5, 1.0) if more and not 5 / 6 < own / each < 7 / 6]
    return sorted({float(f"{each:.3g}") for each in (own, DEFAULT_WIDTH, *rest)})


def at_equal_widths(given: Any, names: list[str]) -> None:
    """Print a row for each width of a function, then one for each function."""
    heading("function", "width", *PLAYERS, "seeds won")
    best = []
    for name in names:
        played = {
            w: [runs(given, each, name, w) for each in PLAYERS] for w in widths(name, given.more)
        }
        for width, (ours, theirs) in played.items():
            won = f"{sum(ours[seed] < theirs[seed] for seed in ours)} of {len(ours)}"
            line(name, f"{width:g}", mean_of(ours), mean_of(theirs), won)
        best.append([name])
        for i in range(len(PLAYERS)):
            width = min(played, key=lambda w: sum(played[w][i].values()))
            best[-1] += [mean_of(played[width][i]), f"{width:g}"]
    print()
    heading("function", *(each for policy in PLAYERS for each in (policy, "at width")))
    for row in best:
        line(*row)


def beside_the_printed(given: Any, names: list[str]) -> None:
    """Print a row for each function and policy of the paper."""
    heading("function", "policy", "ours", "printed", "+-", "")
    for name in names:
        for policy, (mean, printed) in zip(("GP-UCB", "W-DBO"), PRINTED[name], strict=True):
            found = runs(given, policy, name, 1.0)
            values = np.array(list(found.values()))
            apart = abs(values.mean() - mean) > half_interval(values) + printed
            line(name, policy, mean_of(found), mean, printed, "apart" if apart else "")


def main() -> None:
    """Play what is not on record, and print the tables."""
    parser = arguments(__doc__, seeds=5, share=0.025 * 0.025)
    parser.add_argument("functions", nargs="*", help=f"of {', '.join(PRINTED)}; all by default")
    parser.add_argument("--more", action="store_true", help="more widths than the defaults")
    parser.add_argument("--printed", action="store_true", help="beside what is printed")
    parser.add_argument("--out", type=Path, help="keeps the runs")
    given = parser.parse_args()
    names = given.functions or list(PRINTED)
    if unknown := [name for name in names if name not in PRINTED]:
        parser.error(f"there are no printed numbers for {', '.join(unknown)}")
    (beside_the_printed if given.printed else at_equal_widths)(given, names)


if __name__ == "__main__":
    main()
