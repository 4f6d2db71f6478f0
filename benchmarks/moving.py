"""Moves that cost something: when to go, on problems that the rule was not chosen on.

`python -m benchmarks.moving [--seeds 3] [--steps 100] [--policy adaptive-gp-ucb]` prints, for each
problem and cost of crossing the domain (in deviations of the reward over it), what a play misses of the
best reward plus what it pays for moves, by three rules: moves that are free to who decides, the whole
cost taken from the reward of the next play, and the share of it that `tvbandits.domains.moving` says. It
was chosen on `drifting-bump` and `gp-drift`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.harness import arguments, heading, line
from tvbandits import datasets, policies
from tvbandits.domains.moving import Position, costs_along
from tvbandits.domains.problem import noise_to_add

# None of them was looked at when the rule was chosen.
PROBLEMS: dict[str, Callable[[int], Any]] = {
    "switching": lambda seed: datasets.Switching(candidates=101).realise(seed),
    "new-peak": lambda _seed: datasets.NewPeak(candidates=101, appears=60),
    "ar-arms": lambda seed: datasets.AutoregressiveArms().realise(seed),
    "switching-arms": lambda seed: datasets.SwitchingArms().realise(seed),
    "moving-peaks": lambda seed: datasets.MovingPeaks(dimension=2).realise(seed),
}

COSTS = (2.0, 10.0)

after = Position.after


@contextmanager
def rule(plays: Callable[[Position], int]) -> Iterator[None]:
    """Bandits for whom a move's cost is shared by so many plays."""

    def told(*given: Any) -> Any:
        start = after(*given)
        return start if start is None else replace(start, plays=plays(start))

    with mock.patch.object(Position, "after", told):
        yield


RULES: dict[str, Callable[[Position], int]] = {
    "free": lambda _: sys.maxsize,
    "whole": lambda _: 1,
    "share": lambda start: start.plays,
}


def missed(policy: str, problem: Any, cost: float, seed: int, steps: int) -> tuple[float, float]:
    """What a play misses, and what it pays for the move, in deviations of the reward over the domain."""
    X = problem.domain.sample(500, np.random.default_rng(0))
    spread = float(np.std(problem.value(X, 1)))
    unit_cost = cost * spread / float(np.linalg.norm(np.ptp(X, axis=0)))
    kernel = {} if policy == "adaptive_gp_ucb" else {"kernel": problem.kernel}
    maker = getattr(policies, policy)
    bandit = maker(problem.domain, noise_variance=problem.noise_variance, seed=seed, **kernel)
    bandit = bandit.with_options(move_cost=unit_cost)
    noise = np.sqrt(noise_to_add(problem)) * np.random.default_rng(seed).normal(size=steps)
    regret = 0.0
    for t in range(1, steps + 1):
        x = bandit.ask(t)
        best, value = problem.best(t), problem.value(x, t)
        regret += best - value[0]
        bandit.tell(x, value + noise[t - 1], t)
    moves = costs_along(unit_cost, problem.domain, bandit.state.rewards.X)
    return regret / steps / spread, float(moves.mean()) / spread


def main() -> None:
    """Play, and print a line for each problem, cost and rule."""
    parser = arguments(__doc__, seeds=3, steps=100)
    parser.add_argument("--policy", default="adaptive-gp-ucb")
    given = parser.parse_args()
    heading("problem", "cost", *RULES)
    for name, made in PROBLEMS.items():
        for cost in COSTS:
            cells = []
            for plays in RULES.values():
                with rule(plays):
                    runs = [
                        missed(given.policy.replace("-", "_"), made(s), cost, s, given.steps)
                        for s in range(given.seeds)
                    ]
                found = np.array(runs)
                error = found.sum(axis=1).std() / np.sqrt(len(found))
                regret, moves = found.mean(axis=0)
                cells.append(f"{regret:.2f} + {moves:.2f} = {regret + moves:.2f} ± {error:.2f}")
            line(name, f"{cost:g}", *cells)


if __name__ == "__main__":
    main()
