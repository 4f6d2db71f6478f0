"""Which forgetting on 100,000 candidates whose best moves: `python -m benchmarks.large`.

Batches of `--n` points a step are played. Printed are, for each problem and policy, the regret of a play
over that of a uniform choice (mean and standard error over seeds) and processor milliseconds a step.
Kernel and rate of drift come from the sample that a comparison takes before the first step. The width of
`tv_bbkb` was chosen on `orbit` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
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

# Random candidates that the exact policies choose from.
SUBSET = 1000


@dataclass(frozen=True)
class OnMany:
    """A reward that is a formula, on many uniform points of the unit cube."""

    name: str
    formula: Callable[[Array, float], Array]
    dimension: int
    count: int
    horizon: int
    noise_variance: float
    kernel: None = None
    variation: None = None
    unit: str = ""

    @cached_property
    def domain(self) -> Candidates:
        """The points."""
        return Candidates(np.random.default_rng(0).random((self.count, self.dimension)))

    def value(self, X: Array, t: float) -> Array:
        """Rewards at points (n, d)."""
        return self.formula(np.asarray(X), t)

    def best(self, t: float) -> float:
        """The largest of all candidates."""
        return float(self.value(self.domain.X, t).max())


def orbit(seed: int, horizon: int, count: int, dimension: int = 3) -> OnMany:
    """A bump that goes round, on a slope."""
    phase, speed = np.random.default_rng([seed, 1]).uniform((0, 0.03), (6.28, 0.09))

    def formula(X: Array, t: float) -> Array:
        centre = np.full(dimension, 0.5)
        centre[:2] += 0.3 * np.array([np.cos(speed * t + phase), np.sin(speed * t + phase)])
        return np.exp(-0.5 * ((X - centre) ** 2).sum(axis=1) / 0.2**2) + 0.2 * X[:, 0]  # type: ignore[no-any-return]

    return OnMany("orbit", formula, dimension, count, horizon, 1e-3)


def lifted(function: str) -> Callable[[int, int, int], Any]:
    """A test function whose last coordinate is time."""
    return lambda _, horizon, count: datasets.Lifted(function, horizon, candidates=count)


PROBLEMS: dict[str, Callable[[int, int, int], Any]] = {
    "orbit": orbit,
    "shekel": lifted("shekel4"),
    "hartmann3": lifted("hartmann3"),
}


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
    "bbkb": named("bbkb", beta=1.0),
    "sw-gp-ucb, dictionary": named("sw-gp-ucb", posterior="nystrom"),
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
    parser = arguments(__doc__, seeds=2, steps=40, n=5, candidates=1e5)
    parser.add_argument("--problem", choices=PROBLEMS, nargs="*", default=list(PROBLEMS))
    parser.add_argument("--policy", choices=PLAYERS, nargs="*", default=list(PLAYERS))
    options = parser.parse_args()
    heading("problem", "policy", "regret over a uniform choice's", "ms a step")
    for problem in options.problem:
        made = []
        for seed in range(options.seeds):
            real = PROBLEMS[problem](seed, options.steps, int(options.candidates))
            made.append((real, prepare(problem, real, seed, options.steps).setting_for(None, None)))
        for policy in options.policy:
            with threadpool_limits(limits=1):
                found = np.array([played(*each, PLAYERS[policy], options.n) for each in made])
            mean, error = found.mean(axis=0), found[:, 0].std(ddof=1) / len(found) ** 0.5
            line(problem, policy, f"{mean[0]:.3f} ± {error:.3f}", f"{mean[1]:.1f}")


if __name__ == "__main__":
    main()
