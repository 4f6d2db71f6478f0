"""BBKB and Thompson sampling on the California table, with one thing changed at a time.

    python -m benchmarks.causes [--plays 1000] [--seeds 2] [--tables DIR]

In Figure 1 of [BB] BBKB loses least; on inputs of deviation 1 it does not (`benchmarks.regression`).
Each row has regret over that of uniform choice, and the inducing points of BBKB at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import regression
from benchmarks.harness import arguments, cell, heading, line
from benchmarks.regression import modelled, with_inputs_in_range
from tvbandits import Options, policies
from tvbandits.acquisition.widths import BBKBWidth, Situation, ThompsonWidth
from tvbandits.datasets import TableProblem

DEVIATION = 0.01  # xi, of the noise


@dataclass(frozen=True)
class UnitLambda(BBKBWidth):
    """The width of [BB] Theorem 2 for lambda = 1, the least that the theorem allows."""

    def __call__(self, situation: Situation) -> float:
        """Width from the information of all batches."""
        root = math.sqrt(situation.bbkb_information + math.log(1 / self.delta))
        return 2 * DEVIATION * root + (1 + math.sqrt(2)) * self.norm_bound


@dataclass(frozen=True)
class UnitLambdaTenth(UnitLambda):
    """A tenth of it, of Thompson sampling."""

    def __call__(self, situation: Situation) -> float:
        """Width from the information of all batches."""
        return super().__call__(situation) / 10


@dataclass(frozen=True)
class NotInflated(BBKBWidth):
    """The width of [BB] Theorem 2 over C = 2, which the batch multiplies by C."""

    def __call__(self, situation: Situation) -> float:
        """Width from the information of all batches."""
        return super().__call__(situation) / 2


def unchanged(problem: TableProblem) -> TableProblem:
    """The problem as it is."""
    return problem


def centred(problem: TableProblem) -> TableProblem:
    """The problem whose mean over all points is the prior mean, 0."""
    return replace(problem, values=problem.values - problem.values.mean())


def below_the_cap(problem: TableProblem) -> TableProblem:
    """The problem without the blocks at its largest value, which the census capped."""
    lower = problem.values[0] < problem.values.max()
    values = problem.values[:, lower]
    low, high = values.min(), values.max()
    return replace(problem, values=(values - low) / (high - low), points=problem.points[lower])


@dataclass(frozen=True)
class Change:
    """What is changed: the problem, the width or other parts of BBKB, those of Thompson sampling."""

    problem: Callable[[TableProblem], TableProblem] = unchanged
    width: type[BBKBWidth] = BBKBWidth
    bbkb: Mapping[str, Any] = field(default_factory=dict)
    thompson_width: type[BBKBWidth] = ThompsonWidth
    thompson: Mapping[str, Any] = field(default_factory=dict)


UNIT_NOISE = {"noise_variance": 1.0}
CHANGES = {
    "nothing": Change(),
    "inputs in [-1, 1]": Change(with_inputs_in_range),
    "width of BBKB not multiplied by C": Change(width=NotInflated),
    "width of Thompson sampling for both": Change(width=ThompsonWidth),
    "width of BBKB for both": Change(thompson_width=BBKBWidth),
    "lambda = 1": Change(unchanged, UnitLambda, UNIT_NOISE, UnitLambdaTenth, UNIT_NOISE),
    "values less their mean": Change(centred),
    "first batches of 30 (Algorithm 3)": Change(
        bbkb={"options": Options(mean=0.0, minimum_batch=30)}
    ),
    "without the blocks at the cap": Change(below_the_cap),
}


def main() -> None:
    """Print a row for each change."""
    parser = arguments(__doc__, plays=1000, seeds=2)
    parser.add_argument("--tables", type=Path, metavar="DIR", help="where the table is")
    options = parser.parse_args()
    table = regression.table("california", options.tables)
    if table is None:
        return
    heading("changed", "BBKB, global", "inducing points", "Thompson, batch 30")
    with threadpool_limits(limits=1):
        for name, change in CHANGES.items():
            problem = change.problem(table)
            makers = (
                modelled(policies.bbkb, change.width, **change.bbkb),
                modelled(policies.thompson, change.thompson_width, **change.thompson),
            )
            cells, sizes = [], []
            for make in makers:
                ratios = []
                for seed in range(options.seeds):
                    player = make(problem, options.plays, seed)
                    run = regression.play(player, problem, options.plays, seed)
                    ratios.append(run.regret.mean() / regression.uniform_regret(problem))
                    sizes.append(player.info.posterior.dictionary_size)
                cells.append(cell(np.array(ratios)))
            line(name, cells[0], f"{np.mean(sizes[: options.seeds]):.0f}", cells[1])


if __name__ == "__main__":
    main()
