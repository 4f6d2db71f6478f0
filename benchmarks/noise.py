"""What it costs not to know the noise: regret with a learned noise variance over that with the known.

    python -m benchmarks.noise [--seeds 5] [--horizon 80] [--only PROBLEM ...] [--policies NAME ...]

On the problems of the quick board and on ozone networks of two states every policy is played twice, with
the problem's noise variance and with `noise_variance=None`. Printed are, for each problem, the geometric
mean over seeds of the ratio of the two regrets, paired by seed, for each policy and for all, with
its standard error; and the last estimates over the known variance: their median, and the share of 95%
intervals that hold it. A ratio below 1: learning is better.
"""

from __future__ import annotations

import math
import warnings
from itertools import chain
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.coverage import OZONE
from benchmarks.harness import arguments, course, heading, line
from tvbandits.bandit.state import Player
from tvbandits.cli.problems import make_problem
from tvbandits.comparison.board import SUITES
from tvbandits.comparison.compare import simulated
from tvbandits.comparison.setup import Prepared, begun, prepare
from tvbandits.core.protocols import added_noise
from tvbandits.policies import POLICIES

PROBLEMS: dict[str, list[Path]] = {
    **{name: [] for name in SUITES["quick"].problems},
    **{
        f"ozone:state={state},start=2021-05-01,end=2021-09-30": OZONE
        for state in ("Colorado", "Georgia")
    },
}
NAMES = ("gp-ucb", "sw-gp-ucb", "tv-gp-ucb", "sparq-gp-ucb", "adaptive-gp-ucb", "frugal-gp-ucb")


def run(prepared: Prepared, name: str, **options: None) -> tuple[float, Player]:
    """Regret of a policy on a problem, and the player at the end."""
    prepared = begun(prepared)
    player = POLICIES[name].make(prepared.setting(None, simulated), **options)
    run = course(player, prepared.problem, prepared.known.seed, prepared.known.horizon)
    return float(run.regret.sum()), player


def shown(logarithms: list[float]) -> str:
    """Geometric mean, and its standard error."""
    mean = math.exp(float(np.mean(logarithms)))
    error = float(np.std(logarithms, ddof=1)) / math.sqrt(len(logarithms))
    return f"{mean:.3f} +- {mean * error:.3f}"


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, seeds=5, horizon=80)
    parser.add_argument("--only", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--policies", nargs="*", default=list(NAMES))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    heading("problem", *given.policies, "all", "estimate over known, held")
    with threadpool_limits(1):
        for label in given.only:
            problem = make_problem(label, PROBLEMS[label], given.horizon)
            ratios: dict[str, list[float]] = {name: [] for name in given.policies}
            estimates, held = [], []
            for seed in range(given.seeds):
                prepared = prepare(label, problem, seed, given.horizon)
                for name in given.policies:
                    known, _ = run(prepared, name)
                    learned, player = run(prepared, name, noise_variance=None)
                    ratios[name].append(math.log(max(learned, 1e-9) / max(known, 1e-9)))
                    noise = player.info.model.noise
                    assert noise is not None  # it is learned
                    true = added_noise(prepared.problem)
                    estimates.append(noise.variance / true)
                    held.append(noise.low <= true <= noise.high)
            columns = [shown(each) for each in (*ratios.values(), [*chain(*ratios.values())])]
            columns.append(f"{np.median(estimates):.2f}, {np.mean(held):.0%}")
            line(label, *columns)


if __name__ == "__main__":
    main()
