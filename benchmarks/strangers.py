"""Two problems as a stranger has them, beside what one would write for them by hand in an evening.

    python -m benchmarks.strangers [stations] [banners] [--seeds N] [--policies NAME ...]

`stations`: 12 stations with a day, two readings an hour; `frugal_gp_ucb` with questions that nobody
answers, beside a filter for each station and a profile of the hours. `banners`: 3,000 visits and 8
banners of which 0.5 to 5% convert, drifting, with results that come 100 visits late; beside discounted
Thompson sampling. Regret is the average over plays; for banners in conversions per 1,000 visits. Time is
the processor's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.days import HOURS, day_network
from benchmarks.harness import clock
from tvbandits import Arms, Candidates, policies, rate
from tvbandits.core.arrays import Array, Index
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.core.protocols import added_noise
from tvbandits.datasets import TableProblem


class Player(Protocol):
    """Who chooses rows, and is told what they gave at the time they were chosen."""

    def ask(self, t: float, n: int) -> Index:
        """Rows to play."""
        ...

    def tell(self, rows: Index, y: Array, t: float) -> None:
        """What they gave."""
        ...


class Ours:
    """One of the package's policies on candidates."""

    def __init__(self, bandit: Any, domain: Candidates) -> None:
        self.bandit, self.domain = bandit, domain

    def ask(self, t: float, n: int) -> Index:
        """Rows to play."""
        return np.asarray(self.domain.index(self.bandit.ask(t, n=n)))

    def tell(self, rows: Index, y: Array, t: float) -> None:
        """What they gave."""
        self.bandit.tell(self.domain.X[rows], y, t)


class InBlocks:
    """One of the package's policies that splits so many plays at once, and is told of them at once."""

    def __init__(self, bandit: Any, domain: Candidates, size: int, seed: int) -> None:
        self.bandit, self.domain, self.size = bandit, domain, size
        self.rng = np.random.default_rng([seed, 4])
        self.waiting: list[int] = []
        self.rows: list[int] = []
        self.results: list[float] = []
        self.asked = self.told = 0

    def ask(self, t: float, n: int) -> Index:  # noqa: ARG002 - one face
        """The next of a block, in an order of chance."""
        if not self.waiting:
            self.asked += 1
            rows = np.asarray(self.domain.index(self.bandit.ask(self.asked, n=self.size)))
            self.waiting = self.rng.permutation(rows).tolist()
        return np.array([self.waiting.pop()])

    def tell(self, rows: Index, y: Array, t: float) -> None:  # noqa: ARG002 - one face
        """All results of a block together."""
        self.rows += rows.tolist()
        self.results += y.tolist()
        if len(self.rows) == self.size:
            self.told += 1
            self.bandit.tell(self.domain.X[self.rows], self.results, self.told)
            self.rows, self.results = [], []


class Played(NamedTuple):
    """Average regret, and milliseconds of a decision."""

    regret: float
    milliseconds: float


# --- stations -----------------------------------------------------------------------------------


class ByHand:
    """A level for each station that walks, and a mean for each hour of the day that they share."""

    WALK, UNKNOWN, WIDTH = 1.0, 100.0, 2.0

    def __init__(self, stations: int, noise_variance: float) -> None:
        self.noise_variance = noise_variance
        self.level, self.variance = np.zeros(stations), np.full(stations, self.UNKNOWN)
        self.total, self.count = np.zeros(HOURS), np.full(HOURS, 1.0)
        self.begun = False

    def ask(self, t: float, n: int) -> Index:  # noqa: ARG002 - one face
        """The largest upper bounds."""
        self.variance += self.WALK
        bound = self.level + self.WIDTH * np.sqrt(self.variance)
        return np.argsort(-bound, kind="stable")[:n]

    def tell(self, rows: Index, y: Array, t: float) -> None:
        """Filter each station, less the hour's mean; then the hour's mean, less the stations'."""
        if not self.begun:
            self.level += y.mean()
            self.begun = True
        hour = int(t) % HOURS
        off = y - self.level[rows] - self.total[hour] / self.count[hour]
        gain = self.variance[rows] / (self.variance[rows] + self.noise_variance)
        self.level[rows] += gain * off
        self.variance[rows] *= 1.0 - gain
        self.total[hour] += off.sum() + len(rows) * self.total[hour] / self.count[hour]
        self.count[hour] += len(rows)


def frugal(problem: TableProblem, seed: int) -> Player:
    """Whose questions nobody answers."""
    domain, variance = problem.domain, problem.noise_variance
    bandit = policies.frugal_gp_ucb(domain, None, variance, expert=None, seed=seed)
    return Ours(bandit, domain)


STATIONS: dict[str, Callable[[TableProblem, int], Player]] = {
    "frugal_gp_ucb": frugal,
    "by hand": lambda problem, _: ByHand(len(problem.points), added_noise(problem)),
}


def stations(make: Callable[[TableProblem, int], Player], seed: int) -> Played:
    """Two stations an hour, for ten days."""
    problem = day_network(seed, offsets=3.0, weather=6.0)
    player, regret, taken = make(problem, seed), 0.0, 0.0
    for hour, truth in enumerate(problem.values, start=1):
        t, begun = float(hour), clock()
        rows = player.ask(t, 2)
        taken += clock() - begun
        noise = keyed_normal(seed, 1, problem.points[rows], t)
        begun = clock()
        player.tell(rows, truth[rows] + added_noise(problem) ** 0.5 * noise, t)
        taken += clock() - begun
        regret += float((truth.max() - truth[rows]).mean())
    return Played(regret / problem.horizon, 1e3 * taken / problem.horizon)


# --- banners ------------------------------------------------------------------------------------

VISITS, BANNERS, LATE = 3000, 8, 100
CONVERTING = 0.02
"""What nobody knows better: a share of visits, for the noise variance of a result."""


Make = Callable[[int], Player]
"""A player by seed."""


def on_corners(make: Callable[..., Any], size: int = 1, **parts: object) -> Make:
    """One of the package's policies on banners with nothing in common, so many visits at once."""

    def player(seed: int) -> Player:
        domain = Candidates(np.eye(BANNERS))
        bandit = make(domain, seed=seed, **parts)
        return Ours(bandit, domain) if size == 1 else InBlocks(bandit, domain, size, seed)

    return player


UNLIKE = 1e-4 * RBF(0.3)
"""What banners share, and how much they differ."""

noisy = partial(on_corners, noise_variance=CONVERTING * (1.0 - CONVERTING))
"""Of policies that take a result for a mean and noise."""


class Counting(Ours):
    """One that is told a visit as a rate, near what is known of all."""

    def tell(self, rows: Index, y: Array, t: float) -> None:
        """What came of it."""
        self.bandit.tell(self.domain.X[rows], rate(y, 1, around=CONVERTING), t)


def on_arms(seed: int) -> Player:
    """`adaptive_gp_ucb` on banners that have a name and nothing else, a visit at a time."""
    arms = Arms([f"banner {i}" for i in range(BANNERS)])
    return Counting(policies.adaptive_gp_ucb(arms, seed=seed), arms)


DISCOUNTS = (0.99, 0.995, 0.998, 0.999, 0.9995, 1.0)
VISITED: dict[str, Make] = {
    "adaptive_gp_ucb on Arms": on_arms,
    "adaptive_gp_ucb": noisy(policies.adaptive_gp_ucb, kernel=None),
    "w_gp_ucb, 0.999": noisy(policies.w_gp_ucb, kernel=UNLIKE, discount=0.999),
    "adaptive_gp_ucb, 100 at once": on_corners(policies.adaptive_gp_ucb, 100, kernel=None),
    "adaptive_gp_ucb, 50 at once": on_corners(policies.adaptive_gp_ucb, 50, kernel=None),
    "adaptive_gp_ucb, 25 at once": on_corners(policies.adaptive_gp_ucb, 25, kernel=None),
    "gp_ucb, 100 at once": noisy(policies.gp_ucb, 100, kernel=UNLIKE),
    "w_gp_ucb, 0.9, 100 at once": noisy(policies.w_gp_ucb, 100, kernel=UNLIKE, discount=0.9),
    **{
        f"discounted Thompson, {discount}": on_corners(
            policies.discounted_thompson, discount=discount
        )
        for discount in DISCOUNTS
    },
}


def converting(seed: int) -> Array:
    """Chances (VISITS, BANNERS), each a wave of the logarithm between 0.5% and 5%."""
    rng = np.random.default_rng([seed, 8])
    period, phase = rng.uniform(2000, 6000, BANNERS), rng.uniform(0, 2 * np.pi, BANNERS)
    wave = np.sin(2 * np.pi * np.arange(VISITS)[:, None] / period + phase)
    return np.asarray(0.005 * 10.0 ** (0.5 + 0.5 * wave))


def banners(make: Make, seed: int) -> Played:
    """A banner a visit; what came of it is told `LATE` visits later."""
    chances, player = converting(seed), make(seed)
    chance = np.random.default_rng([seed, 9]).random((VISITS, BANNERS))
    shown, taken = np.empty(VISITS, dtype=np.int64), 0.0
    for visit in range(VISITS):
        begun = clock()
        shown[visit] = player.ask(visit + 1.0, 1)[0]
        taken += clock() - begun
        known = visit - LATE
        if known >= 0:
            row = shown[[known]]
            y = (chance[known, row] < chances[known, row]).astype(float)
            begun = clock()
            player.tell(row, y, known + 1.0)
            taken += clock() - begun
    missed = chances.max(axis=1) - chances[np.arange(VISITS), shown]
    return Played(1e3 * float(missed.mean()), 1e3 * taken / VISITS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=["stations", "banners"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=[*STATIONS, *VISITED], metavar="NAME")
    given = parser.parse_args()
    runs: dict[str, dict[str, Callable[[int], Played]]] = {
        "stations": {name: partial(stations, make) for name, make in STATIONS.items()},
        "banners": {name: partial(banners, make) for name, make in VISITED.items()},
    }
    for case in given.cases:
        for name in filter(given.policies.__contains__, runs[case]):
            played = [runs[case][name](seed) for seed in range(given.seeds)]
            regrets = ", ".join(f"{run.regret:.2f}" for run in played)
            slow = np.mean([run.milliseconds for run in played])
            print(f"{case}: {name:28} {regrets}; {slow:.2f} ms a decision", flush=True)


if __name__ == "__main__":
    main()
