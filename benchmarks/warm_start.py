"""What it helps to begin with what was learned elsewhere, and hurts where that was of another kind.

`python -m benchmarks.warm_start [--seeds 10] [--steps 40]` prints, for each problem, the mean regret of
the first steps from nothing, after `learn_from` a bandit that played another draw of the same kind for
60 steps, and after one that played something else: with the difference to nothing, and the standard
error of that over pairs by seed. What is taken was chosen on `bump`. With ten seeds a row takes a minute
and a half of processor time, and is printed when it is done.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tvbandits import Bandit, datasets, policies
from tvbandits.core.protocols import added_noise

LEARNED_FOR = 60


def gp(epsilon: float, length_scale: float) -> Callable[[int], Any]:
    """Draws of the model of TV-GP-UCB on 8 x 8 points."""
    return datasets.GPDrift(epsilon=epsilon, points_per_axis=8, length_scale=length_scale).realise


def bump(seed: int) -> datasets.DriftingBump:
    """It wanders at a speed, and as far, as the seed says."""
    amplitude, speed = np.random.default_rng(seed).uniform((3.0, 0.05), (10.0, 0.15))
    return datasets.DriftingBump(candidates=101, amplitude=amplitude, speed=speed)


KINDS: dict[str, Callable[[int], Any]] = {
    "slow": gp(0.003, 0.4),
    "fast": gp(0.1, 0.15),
    "switching": datasets.Switching(every=25, candidates=101).realise,
    "bump": bump,
}

OTHERS = {"bump": "switching", "switching": "bump", "slow": "fast", "fast": "slow"}
"""What is of another kind than a problem."""


def played(bandit: Bandit, problem: Any, steps: int, seed: int) -> float:
    """Mean regret of so many steps."""
    rng, regret = np.random.default_rng([seed, 1]), 0.0
    for t in range(1, steps + 1):
        X = bandit.ask(t)
        value = problem.value(X, t)
        regret += problem.best(t) - float(value[0])
        bandit.tell(X, value + np.sqrt(added_noise(problem)) * rng.normal(size=1), t)
    return regret / steps


@cache
def learned(kind: str, seed: int) -> Bandit:
    """A bandit that has played a problem of a kind."""
    problem = KINDS[kind](seed)
    bandit = policies.adaptive_gp_ucb(problem.domain, seed=seed)
    played(bandit, problem, LEARNED_FOR, seed)
    return bandit


def regrets(name: str, seed: int, steps: int) -> list[float]:
    """From nothing, after one of the same kind, and after one of another kind."""
    problem = KINDS[name](seed)
    new = policies.adaptive_gp_ucb(problem.domain, seed=seed)
    starts = [new, *(new.learn_from(learned(kind, seed + 1000)) for kind in (name, OTHERS[name]))]
    return [played(each, problem, steps, seed) for each in starts]


def main() -> None:
    """Play, and print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    print("| problem | from nothing | after its like | after another kind |\n|---|---|---|---|")
    for name in KINDS:
        found = np.array([regrets(name, seed, given.steps) for seed in range(given.seeds)])
        mean = found.mean(axis=0)
        over, error = mean / mean[0] - 1, (found - found[:, :1]).std(axis=0, ddof=1) / mean[0]
        error = error / np.sqrt(given.seeds)
        cells = [f"{mean[i]:.3f} ({over[i]:+.0%} ± {error[i]:.0%})" for i in (1, 2)]
        print(f"| {name} | {mean[0]:.3f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
