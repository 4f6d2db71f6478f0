"""How long the k-DPP chain of SparQ-GP-UCB should be: regret on the drifting bump by its length.

A second table has the length that [S] Proposition 2 asks for, on fewer steps. Draws by the library dppy
have the law that it approximates; the last line says how long it is in the last decision of those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import heading, line, seconds
from tvbandits import Bandit, compare, policies
from tvbandits.datasets import DriftingBump
from tvbandits.policies import Setting
from tvbandits.queries import k_dpp
from tvbandits.queries.plans import KDPP, LogSchedule, Pool, QueryPlan, chain_accuracy
from tvbandits.validation import Array, Index

STEPS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
HORIZON, SHORT = 500, 100


@dataclass(frozen=True)
class ByPool(QueryPlan):
    """A chain of `factor` lazy steps for each point of the pool."""

    factor: float = 5.0
    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Run the chain."""
        k = LogSchedule()(pool.decisions)
        return KDPP(steps=self.factor * len(pool) / max(k, 1)).choose(pool, rng)


class Draw(NamedTuple):
    """The rows that were drawn of some points, after so many rewards of this noise, in prior units."""

    rows: Index
    points: Array
    rewards: int
    noise_variance: float | None

    def covariance(self) -> Array:
        """Prior covariance of the points."""
        return np.asarray(RBF(3.5)(self.points))


@dataclass(frozen=True)
class Recorder(QueryPlan):
    """A plan whose draws are recorded from decision `first` on."""

    plan: QueryPlan
    first: int
    draws: list[Draw] = field(default_factory=list)
    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Draw, and record the set."""
        rows = self.plan.choose(pool, rng)
        if pool.decisions >= self.first:
            self.draws.append(Draw(rows, pool.points, pool.rewards, pool.noise_variance))
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


def left_over(draws: Sequence[Draw]) -> tuple[float, float]:
    """What the reward at the drawn points leaves open at those they were drawn from, as a mean.

    Returns
    -------
    trace : float
        tr(K - Q), in prior variances: what the guarantee of [S] bounds.
    largest : float
        The largest deviation of a point, in prior deviations.
    """
    traces, largest = [], []
    for draw in draws:
        K, rows = draw.covariance(), draw.rows
        factor = cho_factor(K[np.ix_(rows, rows)] + 1e-8 * np.eye(len(rows)), lower=True)
        explained = np.einsum("ij,ij->j", K[rows], cho_solve(factor, K[rows]))
        left = np.maximum(1.0 - explained, 0.0)
        traces.append(left.sum())
        largest.append(math.sqrt(left.max()))
    return float(np.mean(traces)), float(np.mean(largest))


def print_theory_chain(draw: Draw) -> None:
    """Print how many lazy steps [S] Proposition 2 asks for in a decision, and how long they take."""
    k, rng, K = len(draw.rows), np.random.default_rng(0), draw.covariance()
    pool = Pool(draw.points, draw.rewards, draw.covariance, noise_variance=draw.noise_variance)
    accuracy = chain_accuracy(pool, 1.0)
    steps = k_dpp.mixing_steps(K, k, accuracy)
    taken = seconds(lambda: k_dpp.sample_mcmc(K, k, steps=steps, rng=rng))
    print(
        f"{k} of {len(pool)} points after {pool.rewards} rewards, within {accuracy:.1e} of the k-DPP: "
        f"{steps} lazy steps, {taken:.1f} s"
    )


def table(repeats: int, tables: Path | None = None) -> None:  # noqa: ARG001 - one face
    """A row for each width and number of lazy steps for a set of k out of N points."""
    for horizon, plans, widths in (
        (HORIZON, PLANS, ("theory", 2.0)),
        (SHORT, SHORT_PLANS, ("theory",)),
    ):
        last = horizon // 5
        heading(
            "steps",
            "width",
            "lazy steps",
            "average regret",
            "deviation of seeds",
            f"last {last}",
            "trace",
            "largest deviation",
            "ms a step",
        )
        for width in widths:
            recorders = {name: Recorder(plan, horizon - last + 1) for name, plan in plans.items()}
            makers = {name: maker(plan) for name, plan in recorders.items()}
            makers["gp-ucb"] = policies.POLICIES["gp-ucb"].make
            rows = compare(DriftingBump(horizon=horizon), makers, repeats, beta=width)
            for name in makers:
                mine = rows[rows["policy"] == name]
                of_seeds = mine.groupby("seed")["regret"].mean()
                spread = of_seeds.std() if repeats > 1 else 0.0
                at_end = mine.loc[mine["t"] > horizon - last, "regret"].mean()
                draws = recorders[name].draws if name in recorders else []
                open_there = [f"{each:.2g}" for each in left_over(draws)] if draws else ["", ""]
                regret = f"{of_seeds.mean():.3f}", f"{spread:.3f}", f"{at_end:.3f}"
                line(
                    horizon,
                    width,
                    name,
                    *regret,
                    *open_there,
                    f"{1e3 * mine['seconds'].mean():.2f}",
                )
            if (horizon, width) == (HORIZON, "theory"):
                last_draw = recorders[EXACT].draws[-1]
    print_theory_chain(last_draw)
