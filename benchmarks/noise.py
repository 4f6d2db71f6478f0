"""What it costs not to know the noise: regret with a learned noise variance over that with the known.

    python -m benchmarks.noise [--seeds 5] [--horizon 80] [--only PROBLEM ...] [--policies NAME ...]

On the problems of the quick board and on ozone networks of two states every policy is played twice, with
the problem's noise variance and with `noise_variance=None`. Printed is, for each problem and policy, the
geometric mean over seeds of the ratio of the two regrets, paired by seed, with its standard error.
A ratio below 1: learning is better.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.coverage import OZONE
from benchmarks.harness import arguments, course, heading, line
from tvbandits.comparison.arguments import make_problem
from tvbandits.comparison.board import SUITES
from tvbandits.comparison.compare import simulator
from tvbandits.comparison.setup import Realisation, prepare
from tvbandits.policies import POLICIES
from tvbandits.validation import Array

PROBLEMS: dict[str, list[Path]] = {
    **{name: [] for name in SUITES["quick"].problems},
    **{
        f"ozone:state={state},start=2021-05-01,end=2021-09-30": OZONE
        for state in ("Colorado", "Georgia")
    },
}
NAMES = ("gp-ucb", "sw-gp-ucb", "tv-gp-ucb", "sparq-gp-ucb", "adaptive-gp-ucb", "frugal-gp-ucb")


def regret(realisation: Realisation, name: str, **options: None) -> float:
    """Of a policy on a problem."""
    realisation = realisation.begin()
    player = POLICIES[name].make(realisation.setting_for(None, simulator), **options)
    run = course(player, realisation.problem, realisation.seed, realisation.horizon)
    return max(float(run.regret.sum()), 1e-9)


def geometric(logarithms: Array) -> str:
    """Geometric mean, and its standard error."""
    mean = math.exp(float(np.mean(logarithms)))
    error = float(np.std(logarithms, ddof=1)) / math.sqrt(logarithms.size)
    return f"{mean:.3f} ± {mean * error:.3f}"


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, seeds=5, horizon=80)
    parser.add_argument("--only", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--policies", nargs="*", default=list(NAMES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heading("problem", *options.policies, "all")
    with threadpool_limits(1):
        for label in options.only:
            problem = make_problem(label, PROBLEMS[label], options.horizon)
            ratios = np.empty((len(options.policies), options.seeds))
            for seed in range(options.seeds):
                realisation = prepare(label, problem, seed, options.horizon)
                for row, name in enumerate(options.policies):
                    learned = regret(realisation, name, noise_variance=None)
                    ratios[row, seed] = math.log(learned / regret(realisation, name))
            line(label, *map(geometric, [*ratios, ratios]))


if __name__ == "__main__":
    main()
