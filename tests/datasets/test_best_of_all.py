"""`best` of every problem of the command line, against a search that knows nothing but `value`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import differential_evolution, minimize

from tvbandits import Candidates
from tvbandits.cli.problems import PROBLEMS, READS_FILES, make_problem
from tvbandits.comparison.board import SUITES

NAMES = [name for name in PROBLEMS if name not in READS_FILES | {"table"}]
"""What reads files is tested beside its readers."""

BOXES = [
    "drifting-bump:candidates=0",
    "exoskeleton:candidates=0",
    "moving-peaks:dimension=2,peaks=5,shape=function1",
]

LOW = {"moving-peaks": ":dimension=2,peaks=5", "gmpb": ":dimension=2,peaks=3"}
"""What no search finds in the dimensions that it has otherwise."""

LIMITED = {"bump-and-wall", "heat-pump", "quiet-network"}
"""Their best point satisfies a limit, which this search does not know (`test_limited.py`)."""

IN_SUITES = {text for suite in SUITES.values() for text in suite.problems}


def realised(text: str, horizon: int, seed: int = 3) -> Any:
    problem = make_problem(text, [], horizon)
    realise = getattr(problem, "realise", None)
    return problem if realise is None else realise(seed)


def searched(problem: Any, t: float) -> float:
    """The largest value that is found: by looking at all, or by evolution, then downhill."""
    if isinstance(problem.domain, Candidates):
        return float(problem.value(problem.domain.X, t).max())
    low, high = problem.domain.bounds.T

    def loss(x: Any) -> Any:
        return -problem.value(np.clip(x.T if x.ndim == 2 else x[None], low, high), t)

    options: dict[str, Any] = {"vectorized": True, "updating": "deferred", "tol": 1e-12}
    found = [
        differential_evolution(
            loss, problem.domain.bounds, maxiter=400, popsize=60, seed=seed, **options
        )
        for seed in range(3)
    ]
    start = min(found, key=lambda result: result.fun)
    downhill = minimize(
        lambda x: float(loss(x)[0]),
        start.x,
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    return -min(float(start.fun), float(downhill.fun))


@pytest.mark.slow
@pytest.mark.parametrize("text", [*(name for name in NAMES if name not in LIMITED), *BOXES])
def test_no_search_ends_above_it_and_one_reaches_it(text: str) -> None:
    problem = realised(text + LOW.get(text, ""), 60)
    sample = problem.value(problem.domain.sample(500, np.random.default_rng(0)), 1.0)
    scale = float(sample.std())
    for t in (1.0, 30.0, 60.0):
        best, found = problem.best(t), searched(problem, t)
        assert found <= best + 1e-6 * scale
        assert found == pytest.approx(best, abs=2e-2 * scale)


def test_every_problem_of_a_board_is_among_them() -> None:
    assert {text.partition(":")[0] for text in IN_SUITES} <= set(NAMES)


def test_what_is_left_of_worn_arms() -> None:
    problem = realised("wearing-arms:length_scale=0.1", 60).begin()
    for t in range(1, 40):
        values = problem.value(problem.domain.X, t)
        assert problem.best(t) == values.max()
        problem.wear(problem.domain.X[[values.argmax()]])


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "rewards.csv"
    np.savetxt(path, rng.random((30, 3)), delimiter=",", header="x0,x1,reward", comments="")
    problem = make_problem(f"table:{path}", [], 10)
    assert searched(problem, 3.0) == problem.best(3.0)
