"""Forgetting policies on the sparse posterior at length, against exact ones, on the drifting bump.

Peers are exact GP-UCB, each policy's own exact form, and GP-UCB on the observations of exact GP-UCB
refitted by scikit-learn (one step at the length of the run). Runs take turns, and every run goes its own
way.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, Row, course, seconds, summary
from benchmarks.step import refit
from tvbandits import Bandit, policies
from tvbandits.acquisition.confidence import Theory
from tvbandits.comparison.setup import prepare
from tvbandits.datasets import DriftingBump
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom

HORIZON, LAST, TARGET = 5000, 500, 10.0
PROBLEM = DriftingBump(horizon=HORIZON)
PARTS = PROBLEM.domain, RBF(3.5), PROBLEM.noise_variance


def forgetting() -> dict[str, Callable[..., Bandit]]:
    """Policies that forget; the drift rate of TV-GP-UCB is what the evidence of a first sample gives."""
    epsilon = prepare(PROBLEM.name, PROBLEM, 0, 500).setting(Theory(), None).epsilon
    return {
        "tv-gp-ucb": partial(policies.tv_gp_ucb, *PARTS, epsilon=epsilon),
        "sw-gp-ucb, window 16": partial(policies.sw_gp_ucb, *PARTS, window=16),
        "w-gp-ucb, discount 0.935": partial(policies.w_gp_ucb, *PARTS, discount=0.935),
    }


@dataclass(frozen=True)
class Timing:
    """Of a run: seconds of all steps, of the last ones, and average regret."""

    total: float
    last: float
    regret: float


def timed(bandit: Bandit, seed: int) -> Timing:
    """Play it."""
    run = course(bandit, PROBLEM, seed, HORIZON)
    total, last = float(run.seconds.sum()), float(run.seconds[-LAST:].sum())
    return Timing(total, last, float(run.regret.mean()))


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
    makers = forgetting()
    sparse: dict[str, list[Timing]] = {name: [] for name in makers}
    exact: dict[str, list[Timing]] = {name: [] for name in makers}
    plain, refits = [], []
    for seed in range(repeats):
        common: Any = {"seed": seed, "confidence": "theory"}
        bandit = policies.gp_ucb(*PARTS, posterior=Exact(), **common)
        plain.append(timed(bandit, seed))
        refits.append(one_refit(bandit))
        for name, make in makers.items():
            sparse[name].append(timed(make(posterior=Nystrom(), **common), seed))
            exact[name].append(timed(make(posterior=Exact(), **common), seed))
    made = []
    for name in makers:
        made += compared(name, "exact gp-ucb", sparse[name], plain, TARGET)
        made += compared(name, "its own exact form", sparse[name], exact[name], None)
        steps = [
            Pair(one.last / LAST, refit) for one, refit in zip(sparse[name], refits, strict=True)
        ]
        case = f"a step of gp-ucb refitted by scikit-learn, n = {HORIZON}"
        made.append(summary(name, case, steps, note=f"ours: mean of the last {LAST} steps"))
    return made
