"""How long the k-DPP chain of SparQ-GP-UCB should be: regret on the drifting bump by its length.

A second table has the length that [S] Proposition 2 asks for, on fewer steps: its 1.4 million lazy steps
in the 500th decision take 20 seconds. Draws by the library dppy have the law that it approximates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import heading, line
from tvbandits import Bandit, compare, policies
from tvbandits.datasets import DriftingBump
from tvbandits.policies import Setting
from tvbandits.queries.plans import KDPP, LogSchedule, Pool, QueryPlan
from tvbandits.validation import Array, Index

STEPS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
HORIZON, LAST, SHORT = 500, 100, 100


@dataclass(frozen=True)
class ByPool(QueryPlan):
    """A chain of `factor` lazy steps for each point of the pool."""

    factor: float = 5.0
    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Run the chain."""
        k = LogSchedule()(pool.decisions)
        return KDPP(steps=self.factor * len(pool) / max(k, 1)).choose(pool, rng)


@dataclass(frozen=True)
class Noting(QueryPlan):
    """A plan whose sets of the last `LAST` decisions are kept, with the points they were drawn from."""

    plan: QueryPlan
    horizon: int
    drawn: list[tuple[Array, Index]] = field(default_factory=list)
    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Draw, and keep the set."""
        rows = self.plan.choose(pool, rng)
        if pool.decisions > self.horizon - LAST:
            self.drawn.append((pool.points, rows))
        return rows


GREEDY, EXACT, THEORY = "0 k, greedy", "exact draw", "theory"
PLANS: dict[str, QueryPlan] = {GREEDY: KDPP(steps=0.0)}
PLANS |= {f"{steps:g} k": KDPP(steps=steps) for steps in STEPS[1:]}
PLANS |= {"5 N": ByPool(), EXACT: KDPP(sampler="exact")}
SHORT_PLANS: dict[str, QueryPlan] = {
    name: PLANS[name] for name in (GREEDY, "0.5 k", "5 N", EXACT)
} | {THEORY: KDPP(steps="theory")}


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


def left_over(drawn: Sequence[tuple[Array, Index]]) -> tuple[float, float]:
    """What the reward at the drawn points leaves open at those they were drawn from, as a mean.

    Returns
    -------
    trace : float
        tr(K - Q), in prior variances: what the guarantee of [S] bounds.
    largest : float
        The largest deviation of a point, in prior deviations.
    """
    traces, largest = [], []
    for points, rows in drawn:
        K = RBF(3.5)(points)
        factor = cho_factor(K[np.ix_(rows, rows)] + 1e-8 * np.eye(len(rows)), lower=True)
        explained = np.einsum("ij,ij->j", K[rows], cho_solve(factor, K[rows]))
        left = np.maximum(1.0 - explained, 0.0)
        traces.append(left.sum())
        largest.append(math.sqrt(left.max()))
    return float(np.mean(traces)), float(np.mean(largest))


def table(repeats: int, tables: Path | None = None) -> None:  # noqa: ARG001 - one face
    """A row for each width and number of lazy steps for a set of k out of N points."""
    for horizon, plans, widths in (
        (HORIZON, PLANS, ("theory", 2.0)),
        (SHORT, SHORT_PLANS, ("theory",)),
    ):
        heading(
            "steps",
            "width",
            "lazy steps",
            "average regret",
            "deviation of seeds",
            f"last {horizon // 5}",
            "trace",
            "largest deviation",
            "ms a step",
        )
        for width in widths:
            noted = {name: Noting(plan, horizon) for name, plan in plans.items()}
            makers = {name: maker(plan) for name, plan in noted.items()}
            makers["gp-ucb"] = policies.POLICIES["gp-ucb"].make
            rows = compare(DriftingBump(horizon=horizon), makers, repeats, beta=width)
            for name in makers:
                mine = rows[rows["policy"] == name]
                of_seeds = mine.groupby("seed")["regret"].mean()
                spread = of_seeds.std() if repeats > 1 else 0.0
                last = mine.loc[mine["t"] > horizon - horizon // 5, "regret"].mean()
                drawn = noted[name].drawn if name in noted else []
                open_there = [f"{each:.2g}" for each in left_over(drawn)] if drawn else ["", ""]
                regret = f"{of_seeds.mean():.3f}", f"{spread:.3f}", f"{last:.3f}"
                line(
                    horizon,
                    width,
                    name,
                    *regret,
                    *open_there,
                    f"{1e3 * mine['seconds'].mean():.2f}",
                )
