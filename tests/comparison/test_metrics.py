"""Metrics against hand calculations, tables of the literature, and plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tvbandits.comparison.board import (
    by_problem,
    held_regret,
    held_table,
    profile,
    ranks,
    winners,
)
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.summary import paired
from tvbandits.datasets import DriftingBump, GPDrift, WearingArms

TABLE = pd.DataFrame(
    {"a": [1.0, 2.0, 3.0, 0.0], "b": [2.0, 2.0, 1.0, 1.0], "c": [3.0, 6.0, 2.0, 2.0]},
    index=["p", "q", "r", "s"],
)


def test_mean_ranks_and_the_critical_difference() -> None:
    found = ranks(TABLE)
    # Ranks: (1 2 3), (1.5 1.5 3), (3 1 2), (1 2 3).
    assert found.mean.to_dict() == {"a": 1.625, "b": 1.625, "c": 2.75}
    # Demsar 2006, table 5: q of 0.05 for 3 classifiers is 2.343.
    assert found.critical_difference == pytest.approx(2.343 * math.sqrt(3 * 4 / (6 * 4)), rel=1e-3)
    ten = ranks(pd.DataFrame(np.random.default_rng(0).random((14, 10))))
    assert ten.critical_difference == pytest.approx(3.164 * math.sqrt(110 / 84), rel=1e-3)
    assert 0 <= found.p_value <= 1
    alone = ranks(TABLE.iloc[:1])
    assert math.isnan(alone.critical_difference)
    assert alone.mean["a"] == 1.0


def test_profiles_count_problems() -> None:
    found = profile(TABLE, [1.0, 2.0, 3.0])
    assert found["a"].to_list() == [0.75, 0.75, 1.0]
    assert found["b"].to_list() == [0.5, 0.75, 0.75]  # nothing is near a regret of 0
    assert found["c"].to_list() == [0.0, 0.25, 0.75]


def test_what_speaks_against_ours_comes_first() -> None:
    found = winners(TABLE, ["b"])
    assert found["problem"].to_list() == ["p", "q", "r", "s"]
    assert found["times_the_best"].to_list()[:3] == [2.0, 1.0, 1.0]
    assert found["ours"].eq("b").all()
    assert winners(TABLE, ["nobody"])["times_the_best"].isna().all()


def rows_of(runs: dict[tuple[str, str, int], list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"problem": p, "policy": q, "seed": s, "t": t, "regret": regret}
            for (p, q, s), found in runs.items()
            for t, regret in enumerate(found, start=1)
        ]
    )


def test_policies_are_paired_by_seed() -> None:
    rows = rows_of(
        {
            ("p", "x", 0): [1.0, 3.0],
            ("p", "x", 1): [2.0, 2.0],
            ("p", "y", 0): [1.0, 1.0],
            ("p", "y", 1): [4.0, 4.0],
            ("p", "y", 2): [9.0, 9.0],
        }
    )
    table = by_problem(rows)
    assert table.loc["p"].to_dict() == {"x": 2.0, "y": 2.5}  # seed 2 has no partner
    found = paired(rows, "x")
    assert found.loc[0, ["policy", "seeds", "difference"]].to_list() == ["y", 2, 0.5]
    # Differences -1 and 2: deviation 3 / sqrt 2, and t of one degree is 12.706.
    assert found.loc[0, "ci95"] == pytest.approx(12.706 * 3 / math.sqrt(2) / math.sqrt(2), rel=1e-3)
    best = paired(rows[rows["seed"] < 2]).iloc[0]
    assert (best["policy"], best["reference"], best["difference"]) == ("y", "x", 0.5)
    with pytest.raises(ValueError, match='"z" was not played; there are: x, y'):
        paired(rows, "z")


def played(problem: Any, policy: str = "gp-ucb", steps: int = 20) -> list[dict[str, Any]]:
    return next(iter(iterate(Comparison(problem, [policy], 1, steps)))).rows


def test_the_held_action_is_charged_between_steps() -> None:
    problem = DriftingBump(candidates=51, horizon=20)
    rows = played(problem)
    dense = []
    for now in np.arange(1.0005, 20.0, 0.001):
        row = rows[math.floor(now) - 1]
        dense.append(problem.best(now) - problem.value(np.array([[row["x0"]]]), now)[0])
    dense += [rows[-1]["regret"]] * 1000  # it is not known what comes after the last step
    assert held_regret(problem, rows, parts=100) == pytest.approx(np.mean(dense), rel=1e-3)


def test_a_late_application_holds_the_action_before() -> None:
    problem = DriftingBump(candidates=51, horizon=20)
    rows = played(problem)
    dense = []
    for now in np.arange(1.5005, 20.0, 0.001):
        row = rows[math.floor(now - 0.5) - 1]
        dense.append(problem.best(now) - problem.value(np.array([[row["x0"]]]), now)[0])
    for k in (-2, -1):
        x = np.array([[rows[k]["x0"]]])
        dense += [problem.best(20.0) - problem.value(x, 20.0)[0]] * 500
    found = held_regret(problem, rows, parts=100, delay=0.5)
    assert found == pytest.approx(np.mean(dense), rel=1e-3)
    with pytest.raises(ValueError, match="delay must be"):
        held_regret(problem, rows, delay=1.0)


@pytest.mark.parametrize(
    "problem", [GPDrift(points_per_axis=4, horizon=20), WearingArms(arms=9, horizon=20)]
)
def test_what_stands_still_between_steps_is_charged_as_at_plays(problem: Any) -> None:
    rows = played(problem, "uniform")
    found = held_regret(problem.realise(0), rows)
    assert found == pytest.approx(np.mean([row["regret"] for row in rows]))
    table = held_table(pd.DataFrame(rows), {problem.name: problem})
    assert table.loc[0, "held_regret"] == pytest.approx(found)
