"""How long the k-DPP chain of SparQ-GP-UCB should be: regret on the drifting bump by its length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.harness import heading, line
from tvbandits import Bandit, compare, policies
from tvbandits.datasets import DriftingBump
from tvbandits.policies import Setting
from tvbandits.queries.plans import KDPP, LogSchedule, Pool, QueryPlan
from tvbandits.validation import Index

SWEEPS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
HORIZON, LAST = 500, 100


@dataclass(frozen=True)
class ByPool(QueryPlan):
    """A chain of `factor` lazy steps for each point of the pool."""

    factor: float = 5.0
    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Run the chain."""
        k = LogSchedule()(pool.decisions)
        return KDPP(sweeps=self.factor * len(pool) / max(k, 1)).choose(pool, rng)


PLANS: dict[str, QueryPlan] = {f"{sweeps:g} k": KDPP(sweeps=sweeps) for sweeps in SWEEPS}
PLANS["5 N"] = ByPool()


def maker(plan: QueryPlan) -> Any:
    """SparQ-GP-UCB with a query plan."""

    def make(setting: Setting) -> Bandit:
        assert setting.expert is not None
        return policies.sparq_gp_ucb(
            **setting.parts,
            expert=setting.expert(),
            queries_per_step=plan,
            beta=setting.beta or 2.0,
            seed=setting.seed,
        )

    return make


def table(repeats: int, tables: Path | None = None) -> None:  # noqa: ARG001 - one face
    """A row for each width and number of lazy steps for a set of k out of N points."""
    heading("width", "lazy steps", "average regret", f"last {LAST}", "ms a step")
    makers = {steps: maker(plan) for steps, plan in PLANS.items()}
    for width in ("theory", 2.0):
        rows = compare(DriftingBump(horizon=HORIZON), makers, repeats, beta=width)
        for steps, mine in rows.groupby("policy", sort=False):
            last = mine.loc[mine["t"] > HORIZON - LAST, "regret"].mean()
            ms = 1e3 * mine["seconds"].mean()
            line(width, steps, f"{mine['regret'].mean():.3f}", f"{last:.3f}", f"{ms:.2f}")
