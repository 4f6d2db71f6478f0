"""What a step costs late in a long run, beside peers as far as they get.

    python -m benchmarks.long_run [--steps 100000] [--minutes 10] [--python .venv-peers/bin/python]

The bump of SparQ-GP-UCB wanders over 101 candidates of [-50, 50], which peers play as an interval. A
step is an ask and a tell, of so many readings of the point as `--readings` says. Ours keep the latest
`--history` rewards. Printed, and drawn into `--picture`, are medians of milliseconds of processor time
around steps 100, 1,000, ...; and the megabytes that our process holds then, each policy in one of its
own. A peer has `--minutes` of processor time, and none is played where `--python` is not there.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import arguments, clock, heading, line
from benchmarks.peers.__main__ import Served
from tvbandits import Bandit, policies
from tvbandits.datasets import DriftingBump
from tvbandits.experts import SimulatorExpert
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.validation import Array

PROBLEM = DriftingBump(candidates=101)
NOISE = PROBLEM.noise_variance
PARTS: Any = {"domain": PROBLEM.domain, "kernel": PROBLEM.kernel, "noise_variance": NOISE}
OURS: dict[str, Callable[[], Bandit]] = {
    "sw-gp-ucb": lambda: policies.sw_gp_ucb(**PARTS, window=50),
    "w-gp-ucb": lambda: policies.w_gp_ucb(**PARTS, discount=0.95),
    "tv-gp-ucb": lambda: policies.tv_gp_ucb(**PARTS, forgetting_rate=0.01),
    "sparq-gp-ucb": lambda: policies.sparq_gp_ucb(**PARTS, expert=SimulatorExpert(PROBLEM)),
    "adaptive-gp-ucb": lambda: policies.adaptive_gp_ucb(PROBLEM.domain, noise_variance=NOISE),
    "frugal-gp-ucb": lambda: policies.frugal_gp_ucb(
        PROBLEM.domain, noise_variance=NOISE, expert=SimulatorExpert(PROBLEM), queries_per_step=2
    ),
}
PEERS = {"BoTorch, time as an input": "botorch-time", "Optuna's GPSampler": "optuna-gp"}
# A step, and milliseconds of one around it.
Row = tuple[int, float]

# How many steps to either side of a late one are looked at.
MANY = 250


def half(step: int) -> int:
    """How many steps to either side of one are looked at."""
    return 25 if step < 1000 else MANY


def looked_at(steps: int) -> list[int]:
    """Steps 50, 100, 200, 500, ... as far as the steps go."""
    return [50, *(a * 10**b for b in range(2, 8) for a in (1, 2, 5) if a * 10**b <= steps)]


def curve(
    ask: Any, tell: Any, steps: int, readings: int = 1, seconds: float = np.inf
) -> Iterator[Row]:
    """Step and milliseconds of a step around it, while `seconds` are left.

    `ask(t)` gives a point and the time of others that it took, `tell(x, y, t)` that time.
    """
    ends = {each + half(each): each for each in looked_at(steps)}
    spent: deque[float] = deque(maxlen=2 * MANY)
    for step in range(1, max(ends) + 1):
        spent.append(one_step(ask, tell, step, readings))
        if step in ends:
            latest = list(spent)[-2 * half(ends[step]) :]
            yield ends[step], 1e3 * statistics.median(latest)
        seconds -= spent[-1]
        if seconds < 0:
            return


def one_step(ask: Any, tell: Any, step: int, readings: int) -> float:
    """Play one, and the seconds it took."""
    x, asked = ask(float(step))
    noise = np.concatenate([keyed_normal(seed, 1, x, step) for seed in range(readings)])
    X = np.repeat(x, readings, axis=0)
    return float(asked + tell(X, PROBLEM.value(X, step) + NOISE**0.5 * noise, float(step)))


def megabytes() -> float:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def timed(bandit: Bandit) -> tuple[Any, Any]:
    """Its `ask` and its `tell`, and the time that they take."""

    def ask(t: float) -> tuple[Array, float]:
        begun = clock()
        return bandit.ask(t), clock() - begun

    def tell(x: Array, y: Array, t: float) -> float:
        begun = clock()
        bandit.tell(x, y, t)
        return clock() - begun

    return ask, tell


def ours(name: str, steps: int, readings: int, history: int | None) -> list[Row]:
    """The curve of one of ours, printed with megabytes on the way."""
    bandit, rows = OURS[name]().with_options(max_history=history), []
    with threadpool_limits(1):
        for step, spent in curve(*timed(bandit), steps, readings):
            rows.append((step, spent))
            line(name, f"{step * readings:,}", f"{spent:.2f}", f"{megabytes():.0f}")
    return rows


def peers(name: str, python: str, seconds: float) -> list[Row]:
    """The curve of a peer, whose process tells what it worked; printed when it is over."""
    peer = Served(python, PEERS[name], [[-50.0, 50.0]], 1000, 0)

    def ask(t: float) -> tuple[Array, float]:
        answer = peer.call({"ask": t})
        return np.array([answer["x"]]), answer["worked"]

    def tell(x: Array, y: Array, t: float) -> float:
        return float(peer.call({"tell": [x[0].tolist(), float(y[0]), t]})["worked"])

    try:
        rows = list(curve(ask, tell, 10**6, seconds=seconds))
    finally:
        peer.close()
    for step, spent in rows:
        line(name, f"{step:,}", f"{spent:.2f}", "")
    return rows


def picture(curves: dict[str, list[Row]], path: Path) -> None:
    """Milliseconds of a step against its number."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    styles = itertools.cycle(["-", "--", ":", "-."])
    for (name, points), marker in zip(curves.items(), "osv^DPX", strict=False):
        steps, spent = zip(*points, strict=True)
        color = "0.55" if name in PEERS else None
        axes.loglog(
            steps, spent, next(styles), marker=marker, markersize=4, color=color, label=name
        )
    axes.set(xlabel="step", ylabel="processor time of a step (ms)")
    axes.grid(True, alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Play, print and draw."""
    parser = arguments(__doc__, steps=100_000, readings=1, history=10_000, minutes=10.0)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(OURS)}; all by default")
    parser.add_argument("--python", default=".venv-peers/bin/python", help="of the peers")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    heading("policy", "rewards", "ms a step", "MB")
    curves = {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as fresh:
        for name in options.names or OURS:
            plan = name, options.steps, options.readings, options.history or None
            curves[name] = fresh.submit(ours, *plan).result()
    for name in PEERS if Path(options.python).exists() else ():
        curves[name] = peers(name, options.python, 60 * options.minutes)
    if options.picture:
        picture(curves, options.picture)


if __name__ == "__main__":
    main()
