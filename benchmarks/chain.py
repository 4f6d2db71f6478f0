"""Regret of SparQ-GP-UCB on the drifting bump by the length of its k-DPP chain.

The last line is the time of the chain of [S] Proposition 2 in the last decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from benchmarks.harness import heading, line, seconds
from tvbandits import Bandit, compare, policies
from tvbandits.datasets import DriftingBump
from tvbandits.policies import Setting
from tvbandits.queries.plans import KDPP, Pool, QueryPlan
from tvbandits.validation import Index

HORIZON, LAST = 500, 100
# Lazy steps for each of the k points of a set; 0 is the greedy set.
STEPS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Recorder(QueryPlan):
    """A plan of exact draws that stores the pool of the last decision."""

    last: list[Pool] = field(default_factory=list)
    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Store the pool, and return an exact draw."""
        self.last[:] = [pool]
        return KDPP(sampler="exact").choose(pool, rng)


def maker(plan: QueryPlan) -> Any:
    """Return the maker of SparQ-GP-UCB with a query plan."""

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


def table(repeats: int) -> None:
    """Print a row for each width and number of lazy steps for a set of k points."""
    heading("steps", "width", "lazy steps", "average regret", f"last {LAST}", "ms a step")
    recorder = Recorder()
    plans: dict[str, QueryPlan] = {f"{steps:g} k": KDPP(steps=steps) for steps in STEPS}
    makers = {name: maker(plan) for name, plan in (plans | {"exact draw": recorder}).items()}
    makers["gp-ucb"] = policies.POLICIES["gp-ucb"].make
    for width in (2.0, "theory"):
        rows = compare(DriftingBump(horizon=HORIZON), makers, repeats, beta=width)
        for name, run in rows.groupby("policy", sort=False):
            late = run.loc[run["t"] > HORIZON - LAST, "regret"]
            ms = f"{1e3 * run['seconds'].mean():.2f}"
            line(HORIZON, width, name, f"{run['regret'].mean():.3f}", f"{late.mean():.3f}", ms)
    pool, rng = recorder.last[0], np.random.default_rng(0)
    elapsed = seconds(lambda: KDPP(steps="theory").choose(pool, rng))
    print(f"the chain of Proposition 2 on {len(pool)} points: {elapsed:.1f} s")
