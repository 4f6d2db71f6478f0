"""Forgetting policies on the sparse posterior at length, against exact ones, on the drifting bump.

Peers are exact GP-UCB, each policy's own exact form, and GP-UCB on the observations of exact GP-UCB
refitted by scikit-learn (one step at the length of the run). Runs take turns, and every run goes its own
way.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.drifting import DISCOUNT, WINDOW, Course, course
from benchmarks.harness import Pair, Row, seconds, summary
from benchmarks.step import refit
from tvbandits.bandit.bandit import Bandit
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom

HORIZON, LAST, TARGET = 5000, 500, 10.0
FORGETTING = {
    "tv-gp-ucb": "tv-gp-ucb",
    "sw-gp-ucb": f"sw-gp-ucb, window {WINDOW}",
    "w-gp-ucb": f"w-gp-ucb, discount {DISCOUNT}",
}


@dataclass(frozen=True)
class Timing:
    """Of a run: seconds of all steps, of the last ones, and average regret."""

    total: float
    last: float
    regret: float

    @classmethod
    def of(cls, run: Course) -> Timing:
        """Read from a run."""
        last = float(run.seconds[-LAST:].sum())
        return cls(float(run.seconds.sum()), last, float(run.regret.mean()))


def one_refit(bandit: Bandit) -> float:
    """Seconds of scikit-learn for one step of GP-UCB on what the bandit was told."""
    assert bandit.state.posterior is not None
    domain = bandit.recipe.domain
    points = domain.X  # type: ignore[attr-defined]
    return seconds(lambda: refit(bandit, bandit.recipe.kernel, points))


def compared(
    name: str, peer: str, ours: Sequence[Timing], theirs: Sequence[Timing], target: float | None
) -> list[Row]:
    """Two rows: all steps, and the last ones."""
    regrets = [statistics.mean(run.regret for run in side) for side in (ours, theirs)]
    note = f"average regret {regrets[0]:.3f}, peer {regrets[1]:.3f}"
    pairs = list(zip(ours, theirs, strict=True))
    total = [Pair(a.total, b.total) for a, b in pairs]
    last = [Pair(a.last, b.last) for a, b in pairs]
    return [
        summary(name, f"{peer}, {HORIZON} steps", total, target=target, note=note),
        summary(name, f"{peer}, last {LAST} steps", last, target=target),
    ]


def rows(repeats: int, tables: Path | None = None) -> list[Row]:  # noqa: ARG001 - no table
    """For each policy two rows against each exact peer, and one against scikit-learn."""
    sparse: dict[str, list[Timing]] = {name: [] for name in FORGETTING}
    exact: dict[str, list[Timing]] = {name: [] for name in (*FORGETTING, "gp-ucb")}
    refits = []
    for seed in range(repeats):
        run = course("gp-ucb", Exact(), seed, HORIZON)
        exact["gp-ucb"].append(Timing.of(run))
        refits.append(one_refit(run.bandit))
        for name in FORGETTING:
            sparse[name].append(Timing.of(course(name, Nystrom(), seed, HORIZON)))
            exact[name].append(Timing.of(course(name, Exact(), seed, HORIZON)))
    made = []
    for name, title in FORGETTING.items():
        made += compared(title, "exact gp-ucb", sparse[name], exact["gp-ucb"], TARGET)
        made += compared(title, "its own exact form", sparse[name], exact[name], None)
        steps = [
            Pair(one.last / LAST, refit) for one, refit in zip(sparse[name], refits, strict=True)
        ]
        case = f"a step of gp-ucb refitted by scikit-learn, n = {HORIZON}"
        made.append(summary(title, case, steps, note=f"ours: mean of the last {LAST} steps"))
    return made
