"""What it helps to begin with what was learned elsewhere, and hurts where that was of another kind.

`python -m benchmarks.warm_start [--seeds 10] [--steps 50]` prints, for each problem, the mean regret of
the first steps from nothing, after `learn_from` a bandit that played another draw of the same kind for
100 steps, and after one that played something else: with the difference to nothing, and the standard
error of that over pairs by seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from tvbandits import Bandit, datasets, policies
from tvbandits.core.protocols import added_noise

LEARNED_FOR = 100


def gp(epsilon: float, length_scale: float) -> Callable[[int], Any]:
    """Draws of the model of TV-GP-UCB on 8 x 8 points."""
    problem = datasets.GPDrift(epsilon=epsilon, points_per_axis=8, length_scale=length_scale)
    return problem.realise


def bump(candidates: int) -> Callable[[int], Any]:
    """A bump that wanders at a speed and as far as the seed says."""

    def made(seed: int) -> Any:
        amplitude, speed = np.random.default_rng(seed).uniform((3.0, 0.05), (10.0, 0.15))
        return datasets.DriftingBump(candidates=candidates, amplitude=amplitude, speed=speed)

    return made


switching = datasets.Switching(every=25, candidates=101).realise
slow, fast = gp(0.003, 0.4), gp(0.1, 0.15)

ROWS: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    "slow": (slow, fast),
    "fast": (fast, slow),
    "bump": (bump(101), switching),
    "switching": (switching, bump(101)),
    "bump on a box": (bump(0), switching),
}
"""The problem, and what is of another kind, by name."""


def played(bandit: Bandit, problem: Any, steps: int, seed: int) -> float:
    """Mean regret of so many steps."""
    rng, regret = np.random.default_rng([seed, 1]), 0.0
    for t in range(1, steps + 1):
        X = bandit.ask(t)
        value = problem.value(X, t)
        regret += problem.best(t) - float(value[0])
        bandit.tell(X, value + np.sqrt(added_noise(problem)) * rng.normal(size=1), t)
    return regret / steps


def regrets(
    alike: Callable[[int], Any], other: Callable[[int], Any], seed: int, steps: int
) -> list[float]:
    """From nothing, after one of the same kind, and after one of another kind."""
    problem = alike(seed)

    def here() -> Bandit:
        return policies.adaptive_gp_ucb(problem.domain, seed=seed)

    found = [played(here(), problem, steps, seed)]
    for kind in (alike, other):
        there = kind(seed + 1000)
        learned = policies.adaptive_gp_ucb(there.domain, seed=seed)
        played(learned, there, LEARNED_FOR, seed + 1000)
        found.append(played(here().learn_from(learned), problem, steps, seed))
    return found


def main() -> None:
    """Play, and print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50)
    given = parser.parse_args()
    print("| problem | from nothing | after its like | after another kind |\n|---|---|---|---|")
    for name, (alike, other) in ROWS.items():
        found = np.array([regrets(alike, other, s, given.steps) for s in range(given.seeds)])
        spread = (found - found[:, :1]).std(axis=0) / np.sqrt(given.seeds)
        mean = found.mean(axis=0)
        cells = [
            f"{mean[i]:.3f} ({mean[i] / mean[0] - 1:+.0%} ± {spread[i] / mean[0]:.0%})"
            for i in (1, 2)
        ]
        print(f"| {name} | {mean[0]:.3f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
