"""Very many steps: what a step costs and what the process holds, fifth by fifth.

    python -m benchmarks.long_runs [--steps 100000] [NAME ...]

Each bandit plays a line of 100 candidates alone in a process of its own, step by step. Printed are, for
each fifth of the run, the median and the largest processor time of a step and the resident memory at its
end; then the two ratios that are aimed at: the last fifth's median to the second's (at most 1.3), and
the memory after the last fifth to that after the second (at most 1.1).
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.harness import clock
from tvbandits import Answers, Bandit, Candidates, StateSpace, policies
from tvbandits.core.arrays import Array

FIFTHS = 5
LINE = Candidates(np.linspace(-50.0, 50.0, 100)[:, None])
PARTS = (LINE, RBF(3.5), 0.01)


def reward(X: Array, t: float) -> Array:
    """Two waves that move against each other."""
    return np.asarray(np.sin(X[:, 0] / 8 + t / 200) + 0.5 * np.cos(X[:, 0] / 5 - t / 150))


class Noisy:
    """An expert with a noise of 0.1."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)

    def query(self, X: Array, t: float) -> Answers:
        """What it says."""
        noise = 0.1 * self.rng.standard_normal(len(X))
        return Answers(reward(X, t) + noise, np.full(len(X), 0.01))


MAKERS: dict[str, Callable[[], Bandit]] = {
    "sw-gp-ucb": lambda: policies.sw_gp_ucb(*PARTS, window=30),
    "r-gp-ucb": lambda: policies.r_gp_ucb(*PARTS, reset_every=50),
    "w-gp-ucb": lambda: policies.w_gp_ucb(*PARTS, discount=0.95),
    "tv-gp-ucb, filter": lambda: policies.tv_gp_ucb(*PARTS, epsilon=0.02, posterior=StateSpace()),
    "tv-gp-ucb, exact": lambda: policies.tv_gp_ucb(*PARTS, epsilon=0.02),
    "adaptive-gp-ucb": lambda: policies.adaptive_gp_ucb(LINE, None, 0.01),
    "sparq-gp-ucb": lambda: policies.sparq_gp_ucb(*PARTS, expert=Noisy()),
    "frugal-gp-ucb": lambda: policies.frugal_gp_ucb(LINE, None, 0.01, expert=Noisy()),
}


def resident() -> float:
    """Memory of this process now, in MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def play(name: str, steps: int) -> None:
    """Play one bandit, and print a line for each fifth."""
    bandit, rng = MAKERS[name](), np.random.default_rng(1)
    medians, memory = [], []
    for fifth in range(FIFTHS):
        taken = []
        for step in range(fifth * steps // FIFTHS, (fifth + 1) * steps // FIFTHS):
            t = step + 1.0
            begun = clock()
            X = bandit.ask(t)
            asked = clock() - begun
            y = reward(X, t) + 0.1 * rng.standard_normal(len(X))
            begun = clock()
            bandit.tell(X, y, t)
            taken.append(asked + clock() - begun)
        medians.append(statistics.median(taken))
        memory.append(resident())
        print(
            f"{name}: to {step + 1}, median {1e3 * medians[-1]:.2f} ms, "
            f"largest {1e3 * max(taken):.0f} ms, {memory[-1]:.0f} MB",
            flush=True,
        )
    stored = len(pickle.dumps(bandit.state)) / 2**20
    print(
        f"{name}: last fifth over second: time {medians[-1] / medians[1]:.2f}, "
        f"memory {memory[-1] / memory[1]:.2f}; state {stored:.1f} MB",
        flush=True,
    )


def main() -> None:
    """Play each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_runs", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MAKERS, []], metavar="NAME")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--here", action="store_true", help="in this process")
    given = parser.parse_args()
    for name in given.names or MAKERS:
        if given.here:
            with threadpool_limits(1):
                play(name, given.steps)
            continue
        command = [sys.executable, "-m", "benchmarks.long_runs", name, "--here"]
        subprocess.run([*command, "--steps", str(given.steps)], check=True)


if __name__ == "__main__":
    main()
