"""Few points, each many times: what mini-GP-UCB loses and saves where the reward stands still.

`python -m benchmarks.mini [--seeds 3] [--steps 1000]` prints, for each policy on draws of a Gaussian
process at 201 points, the mean regret, how many decisions and different points that took, and the
milliseconds of a play.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.harness import arguments, heading, line
from tvbandits import datasets, policies

NOISE = 0.1

POLICIES = (policies.gp_ucb, policies.bbkb, policies.mini_gp_ucb)


def main() -> None:
    """Play, and print a line for each policy."""
    given = arguments(__doc__, seeds=3, steps=1000).parse_args()
    heading("policy", "regret", "decisions", "points", "ms a play")
    for maker in POLICIES:
        runs = []
        for seed in range(given.seeds):
            problem = datasets.Switching(given.steps, horizon=given.steps, noise_variance=NOISE)
            problem = problem.realise(seed)
            bandit = maker(problem.domain, kernel=problem.kernel, noise_variance=NOISE, seed=seed)
            rng, regret, asked, started = np.random.default_rng(seed), 0.0, 0, time.perf_counter()
            while bandit.info.told < given.steps:
                X = bandit.ask()[: given.steps - bandit.info.told]
                value = problem.value(X, 1.0)
                regret, asked = regret + float((problem.best(1.0) - value).sum()), asked + 1
                bandit.tell(X, value + np.sqrt(NOISE) * rng.normal(size=len(X)))
            seconds = time.perf_counter() - started
            points = len(bandit.state.visited)
            runs.append((regret / given.steps, asked, points, 1e3 * seconds / given.steps))
        regret, asked, points, ms = np.mean(runs, axis=0)
        line(f"`{maker.__name__}`", f"{regret:.3f}", f"{asked:.0f}", f"{points:.0f}", f"{ms:.1f}")


if __name__ == "__main__":
    main()
