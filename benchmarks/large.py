"""Which forgetting on 100,000 candidates whose best moves: `python -m benchmarks.large`.

Batches of `--n` points a step are played. Printed are, for each problem and policy, the regret of a play
over that of a uniform choice (mean and standard error over seeds) and processor milliseconds a step.
Kernel and rate of drift come from the sample that a comparison takes before the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import arguments, clock, heading, line
from tvbandits import Candidates, datasets, policies
from tvbandits.comparison.setup import prepare
from tvbandits.datasets.environment import Stream
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.policies import POLICIES, Setting
from tvbandits.validation import Array

# Test functions whose last coordinate is time.
PROBLEMS = "hartmann3", "shekel4"
# Random candidates that the exact policies choose from.
SUBSET = 1000


def subset(setting: Setting) -> Setting:
    """The same on some of the candidates."""
    assert isinstance(setting.domain, Candidates)
    rows = np.random.default_rng(setting.seed).choice(len(setting.domain), SUBSET, replace=False)
    return replace(setting, domain=Candidates(setting.domain.X[rows]))


def named(name: str, **options: Any) -> Callable[[Setting], Any]:
    return lambda setting: POLICIES[name].make(setting, **options)


PLAYERS: dict[str, Callable[[Setting], Any]] = {
    "tv-bbkb": named("tv-bbkb"),
    "tv-bbkb, learned": named("tv-bbkb", forgetting_rate="learn"),
    "tv-gp-ucb, 1000 of them": lambda setting: named("tv-gp-ucb")(subset(setting)),
    "adaptive-gp-ucb, 1000 of them": lambda setting: policies.adaptive_gp_ucb(
        subset(setting).domain, noise_variance=setting.noise_variance, seed=setting.seed
    ),
}


def played(problem: Any, setting: Setting, make: Callable[[Setting], Any], n: int) -> Array:
    """Regret over a uniform choice's, and processor milliseconds a step."""
    player, regret, uniform, seconds = make(setting), 0.0, 0.0, 0.0
    for step in range(setting.horizon):
        t = step + 1.0
        begun = clock()
        X = player.ask(t, n=n)
        seconds += clock() - begun
        value = problem.value(X, t)
        noise = problem.noise_variance**0.5 * keyed_normal(setting.seed, Stream.REWARD, X, t)
        begun = clock()
        player.tell(X, value + noise, t)
        seconds += clock() - begun
        everywhere = problem.value(problem.domain.X, t)
        regret += everywhere.max() - float(value.mean())
        uniform += float(everywhere.max() - everywhere.mean())
    return np.array([regret / uniform, 1e3 * seconds / setting.horizon])


def main() -> None:
    """Play, and print a line for each problem and policy."""
    options = arguments(__doc__, seeds=2, steps=40, n=5, candidates=100_000).parse_args()
    heading("problem", "policy", "regret over a uniform choice's", "ms a step")
    for name in PROBLEMS:
        problem = datasets.Lifted(name, options.steps, candidates=options.candidates)
        settings = [
            prepare(name, problem, seed, options.steps).setting_for(None, None)
            for seed in range(options.seeds)
        ]
        for policy, make in PLAYERS.items():
            with threadpool_limits(limits=1):
                found = np.array([played(problem, each, make, options.n) for each in settings])
            mean, error = found.mean(axis=0), found[:, 0].std(ddof=1) / len(found) ** 0.5
            line(name, policy, f"{mean[0]:.3f} ± {error:.3f}", f"{mean[1]:.1f}")


if __name__ == "__main__":
    main()
