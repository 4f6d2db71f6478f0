"""What a real campaign costs: several points at once, late rewards, stations in maintenance.

    python -m benchmarks.campaign [--seeds 5] [--steps 200]

On the drifting bump, for the frugal policy, learned TV-GP-UCB and a window, at the default width: the
average regret of a plain run, of four points a step at the same number of plays (also of the best of the
four), of rewards that come four steps late, and of a tenth of the candidates away at every step.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.progress import track

from tvbandits import Bandit, policies
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.datasets import DriftingBump
from tvbandits.experts import SimulatorExpert

PROBLEM = DriftingBump()
AT_ONCE, LATE, AWAY = 4, 4, 0.1

MAKERS: dict[str, Callable[[int], Bandit]] = {
    "frugal": lambda seed: policies.frugal_gp_ucb(
        PROBLEM.domain,
        None,
        PROBLEM.noise_variance,
        expert=SimulatorExpert(PROBLEM, seed=seed),
        budget=2,
        seed=seed,
    ),
    "tv, learned": lambda seed: policies.adaptive_gp_ucb(
        PROBLEM.domain, None, PROBLEM.noise_variance, seed=seed
    ),
    "window of 40": lambda seed: policies.sw_gp_ucb(
        PROBLEM.domain, PROBLEM.kernel, PROBLEM.noise_variance, window=40, seed=seed
    ),
}


def reward(X: Any, t: float, seed: int) -> Any:
    """With the noise of the problem."""
    noise = np.sqrt(PROBLEM.noise_variance) * keyed_normal(seed, 7, X, t)
    return PROBLEM.value(X, t) + noise


def regrets(X: Any, t: float) -> Any:
    """Of points (n, d) at a time."""
    return PROBLEM.best(t) - PROBLEM.value(X, t)


def plain(bandit: Bandit, steps: int, seed: int) -> dict[str, float]:
    """A point a step."""
    missed = []
    for t in range(1, steps + 1):
        X = bandit.ask(float(t))
        bandit.tell(X, reward(X, t, seed), float(t))
        missed.append(float(regrets(X, t)[0]))
    return {"plain": statistics.fmean(missed)}


def at_once(bandit: Bandit, steps: int, seed: int) -> dict[str, float]:
    """Four points a step, as many plays."""
    mean, best, repeated = [], [], 0
    for t in range(1, steps // AT_ONCE + 1):
        now = float(t)
        X = bandit.ask(now, n=AT_ONCE)
        repeated += AT_ONCE - len(np.unique(X, axis=0))
        bandit.tell(X, reward(X, now, seed), now)
        missed = regrets(X, now)
        mean.append(float(missed.mean()))
        best.append(float(missed.min()))
    return {
        "four at once": statistics.fmean(mean),
        "best of four": statistics.fmean(best),
        "repeated": float(repeated),
    }


def late(bandit: Bandit, steps: int, seed: int) -> dict[str, float]:
    """Every reward comes four steps after its play."""
    missed, out = [], []
    for t in range(1, steps + 1):
        X = bandit.ask(float(t))
        out.append((X, t))
        missed.append(float(regrets(X, t)[0]))
        if len(out) > LATE:
            X, then = out.pop(0)
            bandit.tell(X, reward(X, then, seed), float(then))
    return {"late": statistics.fmean(missed)}


def away(bandit: Bandit, steps: int, seed: int) -> dict[str, float]:
    """A tenth of the candidates is away at every step; regret is against what is there."""
    rng, missed, chosen = np.random.default_rng(seed), [], 0
    for t in range(1, steps + 1):
        there = rng.random(len(PROBLEM.domain)) >= AWAY
        X = bandit.ask(float(t), among=there)
        chosen += int(not there[PROBLEM.domain.index(X)[0]])
        bandit.tell(X, reward(X, t, seed), float(t))
        best = float(PROBLEM.value(PROBLEM.domain.X[there], t).max())
        missed.append(best - float(PROBLEM.value(X, t)[0]))
    return {"a tenth away": statistics.fmean(missed), "away and chosen": float(chosen)}


def main() -> None:
    """Play, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaign")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    ways = (plain, at_once, late, away)
    runs = [(n, w, s) for n in MAKERS for w in ways for s in range(given.seeds)]
    for name, way, seed in track(runs):
        for what, value in way(MAKERS[name](seed), given.steps, seed).items():
            found[name][what].append(value)
    for name, row in found.items():
        print(name)
        for what, values in row.items():
            print(f"  {what:16} {statistics.fmean(values):8.4f}   sd {np.std(values):.4f}")


if __name__ == "__main__":
    main()
