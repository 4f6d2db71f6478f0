"""How long the k-DPP chain of SparQ-GP-UCB should be: regret and trace by length.

The guarantee of SparQ-GP-UCB is about tr(K - Q) / noise, with Q the Nystrom approximation of the kernel
matrix K of the points played on those asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console
from rich.table import Table

from benchmarks.harness import clock
from tvbandits import Bandit, compare, policies
from tvbandits.bandit.state import Info
from tvbandits.core.arrays import Array, Index
from tvbandits.datasets import DriftingBump
from tvbandits.policies import Setting
from tvbandits.queries import k_dpp
from tvbandits.queries.plans import KDPP, LogSchedule, Pool, QueryPlan

SWEEPS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
WIDTHS: tuple[float | str, ...] = ("theory", 2.0)
SEEDS, HORIZON, LAST = 3, 500, 100


@dataclass(frozen=True)
class ChainRow:
    """One length of the chain with one width; means over seeds and steps.

    Attributes
    ----------
    steps : str
        Lazy steps for a set of k out of N points.
    trace, last_trace : float
        tr(K - Q) / noise of the points asked about, over all steps and over the last ones; 0 where all
        points played are asked about.
    seconds_per_step : float
        Without the time of computing the trace.
    """

    steps: str
    confidence: str
    average_regret: float
    last_regret: float
    trace: float
    last_trace: float
    seconds_per_step: float


@dataclass(frozen=True)
class ByPool:
    """A chain of `factor` lazy steps for each point of the pool."""

    factor: float = 5.0

    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Run the chain."""
        k = LogSchedule()(pool.decisions)
        return KDPP(sweeps=self.factor * len(pool) / max(k, 1)).choose(pool, rng)


@dataclass
class Recorder:
    """A query plan, the traces of what it chose, and the time of the run without computing them."""

    plan: QueryPlan
    noise: float = 1.0
    traces: list[float] = field(default_factory=list)
    seconds: float = 0.0

    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Let the plan choose."""
        rows = self.plan.choose(pool, rng)
        begun = clock()
        self.traces.append(k_dpp.trace_bound(pool.covariance(), rows, self.noise))
        self.seconds -= clock() - begun
        return rows


@dataclass
class Timed:
    """A bandit, and the processor time of its asking and telling."""

    bandit: Bandit
    recorder: Recorder

    @property
    def info(self) -> Info:
        """The bandit's."""
        return self.bandit.info

    def ask(self, t: float | None = None) -> Array:
        """Ask the bandit."""
        begun = clock()
        X = self.bandit.ask(t)
        self.recorder.seconds += clock() - begun
        return X

    def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
        """Tell the bandit."""
        begun = clock()
        info = self.bandit.tell(X, y, t)
        self.recorder.seconds += clock() - begun
        return info


def measured(steps: str, plan: QueryPlan, width: float | str) -> ChainRow:
    """Runs of all seeds."""
    recorder = Recorder(plan)

    def make(setting: Setting) -> Timed:
        assert setting.expert is not None
        assert setting.noise_variance is not None
        recorder.noise = setting.noise_variance / setting.scale**2
        bandit = policies.sparq_gp_ucb(
            *setting.parts,
            expert=setting.expert(),
            queries=recorder,
            confidence=setting.confidence or 2.0,
            seed=setting.seed,
        )
        return Timed(bandit, recorder)

    problem = DriftingBump(horizon=HORIZON)
    rows = list(compare(problem, {"sparq": make}, SEEDS, confidence=width))
    regrets = np.array([float(row["regret"]) for row in rows]).reshape(SEEDS, HORIZON)
    traces = np.array(recorder.traces).reshape(SEEDS, HORIZON)
    return ChainRow(
        steps,
        str(width),
        float(regrets.mean()),
        float(regrets[:, -LAST:].mean()),
        float(traces.mean()),
        float(traces[:, -LAST:].mean()),
        recorder.seconds / len(rows),
    )


def rows(repeats: int, tables: object = None) -> list[ChainRow]:  # noqa: ARG001 - one face
    """One row for each width and length."""
    plans: dict[str, QueryPlan] = {f"{sweeps:g} k": KDPP(sweeps=sweeps) for sweeps in SWEEPS}
    plans["5 N"] = ByPool(5.0)
    return [measured(steps, plan, width) for width in WIDTHS for steps, plan in plans.items()]


def show(console: Console, rows: Sequence[ChainRow]) -> None:
    """The table of chain lengths."""
    console.print(
        f"SparQ-GP-UCB on the drifting bump by length of the k-DPP chain: {HORIZON} steps, "
        f"{SEEDS} seeds",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("width")
    last = f"last {LAST}"
    for name in ("lazy steps", "average regret", last, "tr(K-Q)/noise", last, "ms/step"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.confidence,
            row.steps,
            f"{row.average_regret:.3f}",
            f"{row.last_regret:.3f}",
            f"{row.trace:.3g}",
            f"{row.last_trace:.3g}",
            f"{1e3 * row.seconds_per_step:.2f}",
        )
    console.print(table)
