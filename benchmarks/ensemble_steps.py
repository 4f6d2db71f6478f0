"""What a step costs of the policies that play a bank of models, beside GP-UCB, and late in a long run.

    python -m benchmarks.ensemble_steps [--steps 120] [--late 1000 20000] [NAME ...]

Candidates of a line, over which a bump drifts, and networks of places that change at random are played.
A step is `ask` and `tell`, of `frugal_gp_ucb` also three answers. Printed are milliseconds of processor
time: the median and the mean over the second half of the steps, the largest of all steps, and the
median over that of `gp_ucb`. `--late` prints the median of `frugal_gp_ucb` on the network of 33 places
after so many steps; what these would have brought is told without decisions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.harness import arguments, clock, heading, line
from tvbandits import Bandit, Candidates, policies
from tvbandits.validation import Array

ANSWERS = 3
NOISE = 0.01
Values = Callable[[float], Array]


class Case(NamedTuple):
    """Candidates, and their values at a time."""

    domain: Candidates
    values: Values


def drifting(points: int) -> Case:
    """A bump that drifts along a line."""
    domain = Candidates(np.linspace(-50.0, 50.0, points)[:, None])

    def values(t: float) -> Array:
        return np.asarray(np.exp(-(((domain.X[:, 0] - 30.0 * np.sin(t / 40.0)) / 8.0) ** 2)))

    return Case(domain, values)


def network(points: int) -> Case:
    """Places of an own mean each, under weather that is forgotten in a few steps."""
    rng = np.random.default_rng(points)
    domain = Candidates(rng.uniform(0.0, 1.0, (points, 2)))
    own = rng.normal(0.0, 1.0, points)
    phases, waves = rng.uniform(0.0, 6.0, 12), rng.normal(0.0, 3.0, (12, 2))
    rates = rng.uniform(0.3, 1.5, 12)

    def values(t: float) -> Array:
        weather = np.cos(domain.X @ waves.T + phases + rates * t).mean(axis=1)
        sudden = np.random.default_rng([points, int(t)]).normal(0.0, 0.3, points)
        return np.asarray(own + 3.0 * weather + sudden)

    return Case(domain, values)


CASES: dict[str, Callable[[], Case]] = {
    "line-101": lambda: drifting(101),
    "line-1001": lambda: drifting(1001),
    "network-12": lambda: network(12),
    "network-33": lambda: network(33),
    "network-60": lambda: network(60),
}


POLICIES: dict[str, Callable[[Candidates], Bandit]] = {
    "gp_ucb": lambda domain: policies.gp_ucb(
        domain, kernel=RBF(np.ptp(domain.X) / 10), noise_variance=NOISE
    ),
    "adaptive_gp_ucb": lambda domain: policies.adaptive_gp_ucb(domain, noise_variance=NOISE),
    "frugal_gp_ucb": lambda domain: policies.frugal_gp_ucb(
        domain, noise_variance=NOISE, expert=None, queries_per_step=ANSWERS
    ),
}


class Player:
    """Plays a case, and takes its time."""

    def __init__(self, case: Case, policy: str) -> None:
        self.case, self.rng = case, np.random.default_rng(0)
        self.bandit = POLICIES[policy](case.domain)

    def read(self, X: Array, t: float) -> Array:
        """Noisy values of candidates."""
        exact = self.case.values(t)[self.case.domain.index(X)]
        return np.asarray(exact + NOISE**0.5 * self.rng.standard_normal(len(X)))

    def step(self, t: float) -> float:
        """Milliseconds of one decision."""
        begun = clock()
        X = self.bandit.ask(t)
        spent = clock() - begun
        y = self.read(X, t)
        begun = clock()
        self.bandit.tell(X, y, t)
        Q = self.bandit.questions() if self.bandit.recipe.asking is not None else X[:0]
        spent += clock() - begun
        if len(Q):
            values = self.read(Q, t)
            begun = clock()
            self.bandit.answer(Q, values)
            spent += clock() - begun
        return 1e3 * spent

    def skip(self, start: int, end: int) -> None:
        """Tell random readings of steps `start` to `end` - 1, without decisions."""
        for t in range(start, end):
            rows = self.rng.choice(len(self.case.domain), 1 + ANSWERS, replace=False)
            X = self.case.domain.X[rows]
            y = self.read(X, float(t))
            self.bandit.tell(X[:1], y[:1], float(t))
            self.bandit.answer(X[1:], y[1:], float(t))


def early(names: Sequence[str], steps: int) -> None:
    """A row for each case and policy."""
    heading("ms a step", "policy", "median", "mean", "largest", "over gp_ucb")
    for name in names:
        plain = 0.0
        for policy in POLICIES:
            player = Player(CASES[name](), policy)
            spent = [player.step(float(t)) for t in range(1, steps + 1)]
            later = spent[steps // 2 :]
            median = statistics.median(later)
            plain = plain or median
            times = (median, statistics.mean(later), max(spent))
            line(name, policy, *(f"{ms:.2f}" for ms in times), f"{median / plain:.1f}")


def late(at: Sequence[int], steps: int) -> None:
    """A row for each of some times."""
    player, now = Player(CASES["network-33"](), "frugal_gp_ucb"), 1
    for t in at:
        player.skip(now, t)
        player.step(float(t))  # takes in what was told in bulk
        now = t + 1 + steps
        median = statistics.median(player.step(float(s)) for s in range(t + 1, now))
        print(f"network-33 at t = {t}: {median:.2f} ms", flush=True)


def main() -> None:
    """Print both tables."""
    parser = arguments(__doc__, steps=120)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--late", type=int, nargs="*", default=[])
    options = parser.parse_args()
    with threadpool_limits(1):
        early(options.names or list(CASES), options.steps)
        if options.late:
            late(options.late, options.steps)


if __name__ == "__main__":
    main()
