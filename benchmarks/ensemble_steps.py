"""What a step of the bandit costs that plays a bank of models, part by part, and late in a long run.

    python -m benchmarks.ensemble_steps [--steps 120] [--late 1000 20000] [NAME ...]
    python -m benchmarks.ensemble_steps --alone 3000 line-101

`frugal_gp_ucb` with three answers a step on candidates of a line, over which a bump drifts, and on
networks of places that change at random. Printed are medians of milliseconds of processor time over the
second half of the steps: `questions` (what was told is taken in, and what to ask is chosen), `ask` (the
answers are taken in, and the next point is chosen), `tell` (a reward and the answers are received), the
whole; then the mean of that half, and the largest of all steps. `--late` prints the whole on the network
of 33 places after so many steps; what these would have brought is told without decisions.

`--alone` plays `adaptive_gp_ucb`, which asks nobody, for so many steps instead: means of steps 301 to
800 and of the last 500, their ratio, and the largest step.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import clock
from tvbandits import Bandit, Candidates, policies
from tvbandits.core.arrays import Array

ANSWERS = 3
NOISE = 0.01
Values = Callable[[float], Array]


class Case(NamedTuple):
    """Candidates, and their values at a time."""

    domain: Candidates
    values: Values


class Parts(NamedTuple):
    """Milliseconds of the parts of one step."""

    questions: float
    ask: float
    tell: float

    @property
    def whole(self) -> float:
        """Of all of them."""
        return sum(self)


def line(points: int) -> Case:
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
    "line-101": lambda: line(101),
    "line-1001": lambda: line(1001),
    "network-12": lambda: network(12),
    "network-33": lambda: network(33),
    "network-60": lambda: network(60),
}


class Player:
    """Plays a case, and takes its time."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        self.case, self.rng = case, np.random.default_rng(seed)
        self.bandit: Bandit = policies.frugal_gp_ucb(
            case.domain, None, NOISE, expert=None, budget=ANSWERS
        )
        self.rows = {x.tobytes(): i for i, x in enumerate(case.domain.X)}

    def read(self, X: Array, t: float) -> Array:
        """Noisy values of candidates."""
        exact = self.case.values(t)[[self.rows[x.tobytes()] for x in X]]
        return np.asarray(exact + NOISE**0.5 * self.rng.standard_normal(len(X)))

    def step(self, t: float) -> Parts:
        """One decision."""
        begun = clock()
        X = self.bandit.ask(t)
        asked = clock()
        y = self.read(X, t)
        telling = clock()
        self.bandit.tell(X, y, t)
        told = clock()
        Q = self.bandit.questions()
        chosen = clock()
        values = self.read(Q, t)
        answering = clock()
        self.bandit.answer(Q, values)
        done = clock()
        spent = (chosen - told, asked - begun, told - telling + done - answering)
        return Parts(*(1e3 * each for each in spent))

    def skip(self, start: int, stop: int) -> None:
        """Be told what a step would have brought, without a decision."""
        count = len(self.case.domain)
        for t in range(start, stop):
            rows = self.rng.choice(count, 1 + ANSWERS, replace=False)
            X = self.case.domain.X[rows]
            y = self.read(X, float(t))
            self.bandit.tell(X[:1], y[:1], float(t))
            self.bandit.answer(X[1:], y[1:], float(t))


def medians(parts: Sequence[Parts]) -> Iterator[float]:
    """Of each part and of the whole in the second half, the mean there, and the largest of all."""
    later = parts[len(parts) // 2 :]
    yield from (statistics.median(each) for each in zip(*later, strict=True))
    whole = [each.whole for each in later]
    yield statistics.median(whole)
    yield statistics.mean(whole)
    yield max(each.whole for each in parts)


def early(names: Sequence[str], steps: int) -> None:
    """A row a case."""
    heads = ("questions", "ask", "tell", "whole", "mean", "largest")
    print(f"{'ms a step':<12}" + "".join(f"{head:>10}" for head in heads))
    for name in names:
        player = Player(CASES[name]())
        parts = [player.step(float(t)) for t in range(1, steps + 1)]
        print(f"{name:<12}" + "".join(f"{x:>10.2f}" for x in medians(parts)), flush=True)


def late(at: Sequence[int], steps: int) -> None:
    """A row for each of some times."""
    player, now = Player(CASES["network-33"]()), 1
    found = []
    for t in at:
        player.skip(now, t)
        player.step(float(t))  # takes in what was told in bulk
        now = t + 1 + steps
        parts = [player.step(float(s)) for s in range(t + 1, now)]
        found.append(statistics.median(each.whole for each in parts))
        print(f"network-33 at t = {t}: {found[-1]:.2f} ms", flush=True)
    if len(found) > 1:
        print(f"last over first: {found[-1] / found[0]:.2f}")


def alone(names: Sequence[str], steps: int) -> None:
    """A row a case of what nobody is asked for."""
    heads = ("301-800", "last 500", "ratio", "largest")
    print(f"{'ms a step':<12}" + "".join(f"{head:>10}" for head in heads))
    for name in names:
        case = CASES[name]()
        bandit, rng = policies.adaptive_gp_ucb(case.domain, None, NOISE), np.random.default_rng(0)
        spent = np.empty(steps)
        for step in range(steps):
            exact, noise = case.values(step + 1.0), NOISE**0.5 * rng.standard_normal()
            begun = clock()
            X = bandit.ask(step + 1.0)
            bandit.tell(X, exact[case.domain.index(X)] + noise, step + 1.0)
            spent[step] = 1e3 * (clock() - begun)
        early, last = spent[300:800].mean(), spent[-500:].mean()
        row = early, last, last / early, spent.max()
        print(f"{name:<12}" + "".join(f"{x:>10.2f}" for x in row), flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ensemble_steps", description=__doc__
    )
    parser.add_argument("names", nargs="*", choices=[*CASES, []], metavar="NAME")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--late", type=int, nargs="*", default=[])
    parser.add_argument("--alone", type=int, metavar="STEPS")
    given = parser.parse_args()
    if given.alone is not None and given.alone < 800:
        parser.error(f"--alone takes at least 800 steps, got {given.alone}")
    with threadpool_limits(1):
        if given.alone is not None:
            alone(given.names or list(CASES), given.alone)
            return
        early(given.names or list(CASES), given.steps)
        if given.late:
            late(given.late, given.steps)


if __name__ == "__main__":
    main()
