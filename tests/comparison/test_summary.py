"""Summaries and references against plain loops."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from tvbandits.comparison.compare import ComparisonResult, compare
from tvbandits.comparison.summary import (
    SUMMARY,
    Row,
    as_seeds,
    counted,
    problem_references,
    summarise,
)
from tvbandits.datasets import DriftingBump, GPDrift, HeatPump
from tvbandits.datasets.tables.references import average_regret, references


def make_rows(
    seeds: int, horizon: int, plays: int = 1, policies: tuple[str, ...] = ("b", "a")
) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seeds, horizon, plays])
    return [
        {
            "problem": problem,
            "policy": policy,
            "confidence": "theory",
            "seed": seed,
            "t": t,
            "regret": float(rng.exponential()),
            "queries": 3 * t,
            "answered": 2 * t,
            "seconds": 0.1 * t,
        }
        for problem in ("q", "p")
        for policy in policies
        for seed in range(seeds)
        for t in range(1, horizon + 1)
        for _ in range(1 + t % plays)
    ]


def plainly(rows: list[dict[str, Any]], problem: str, policy: str) -> dict[str, Any]:
    mine = [row for row in rows if (row["problem"], row["policy"]) == (problem, policy)]
    horizon = max(row["t"] for row in mine)
    seeds = sorted({row["seed"] for row in mine})
    averages = []
    for seed in seeds:
        regrets = [row["regret"] for row in mine if row["seed"] == seed]
        averages.append(sum(regrets) / len(regrets))
    mean = sum(averages) / len(averages)
    sd = ci = math.nan
    if len(seeds) > 1:
        sd = math.sqrt(sum((a - mean) ** 2 for a in averages) / (len(seeds) - 1))
        ci = float(student.ppf(0.975, len(seeds) - 1)) * sd / math.sqrt(len(seeds))
    last = [row["regret"] for row in mine if row["t"] > horizon - max(horizon // 5, 1)]
    per_step = {}
    for column in ("queries", "answered", "seconds"):
        total = 0.0
        for seed in seeds:
            for t in range(1, horizon + 1):
                total += next(r[column] for r in mine if (r["seed"], r["t"]) == (seed, t))
        per_step[f"{column}_per_step"] = total / (len(seeds) * horizon)
    return {
        "problem": problem,
        "policy": policy,
        "confidence": "theory",
        "seeds": len(seeds),
        "horizon": horizon,
        "average_regret": mean,
        "average_regret_sd": sd,
        "average_regret_ci95": ci,
        "last_fifth_regret": sum(last) / len(last),
        **per_step,
    }


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("horizon", [1, 4, 5, 23])
def test_summary_against_loops(seeds: int, horizon: int) -> None:
    rows = make_rows(seeds, horizon)
    found = summarise(iter(rows))
    expected = pd.DataFrame([plainly(rows, p, a) for p in "qp" for a in "ba"])
    assert list(found.columns) == SUMMARY == list(expected.columns)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
    assert found["average_regret_sd"].isna().all() == (seeds == 1)
    assert found["average_regret_ci95"].isna().all() == (seeds == 1)
    pd.testing.assert_frame_equal(summarise(pd.DataFrame(rows)), found)


def test_widths_are_kept_apart() -> None:
    rows = make_rows(2, 3)
    rows += [{**row, "confidence": "2", "regret": 0.0} for row in rows]
    found = summarise(rows)
    assert len(found) == 8
    assert (found["average_regret"] == 0.0).tolist() == (found["confidence"] == "2").tolist()


def plain_references(problem: Any, points: np.ndarray, horizon: int) -> tuple[float, ...]:
    uniform = followed = 0.0
    fixed = np.zeros(len(points))
    previous = None
    table, missed = [], []
    for t in range(1, horizon + 1):
        values = problem.value(points, float(t))
        regret = problem.best(float(t)) - values
        missed.append(problem.best(float(t)) - values.max())
        table.append(values)
        uniform += regret.mean() / horizon
        fixed += regret / horizon
        if previous is not None:
            followed += regret[previous] / (horizon - 1)
        previous = int(values.argmax())
    forecast = average_regret(np.array(table)) + np.mean(missed)
    return uniform, float(fixed.min()), followed, float(forecast)


def test_references_of_candidates() -> None:
    problem = DriftingBump(candidates=60, horizon=40)
    expected = plain_references(problem, problem.domain.X, 40)  # type: ignore[union-attr]
    np.testing.assert_allclose(problem_references(problem), expected, rtol=1e-12)
    shorter = plain_references(problem, problem.domain.X, 7)  # type: ignore[union-attr]
    np.testing.assert_allclose(problem_references(problem, 5, 7), shorter, rtol=1e-12)


def test_references_of_a_random_problem_are_means_over_seeds() -> None:
    problem = GPDrift(points_per_axis=4, horizon=30)
    each = [plain_references(problem.realise(s), problem.domain.X, 30) for s in (3, 5, 8)]
    found = problem_references(problem, [3, 5, 8])
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-12)
    assert problem_references(problem, 1) != problem_references(problem, 2)


def test_references_of_a_box_are_near_those_of_a_fine_grid() -> None:
    fine = problem_references(DriftingBump(candidates=5001, horizon=100))
    box = problem_references(DriftingBump(candidates=0, horizon=100))
    np.testing.assert_allclose(box, fine, atol=0.03)
    assert box != fine


def test_seeds() -> None:
    assert as_seeds(3) == as_seeds(np.int64(3)) == [0, 1, 2]  # type: ignore[arg-type]
    assert as_seeds((7, 2)) == as_seeds(np.array([7, 2])) == [7, 2]  # type: ignore[arg-type]
    for none in (0, -2):
        with pytest.raises(ValueError, match="seeds must be a whole number of at least 1, got"):
            as_seeds(none)
    with pytest.raises(ValueError, match="seeds must be at least 1, or a sequence of seeds"):
        as_seeds([])
    with pytest.raises(ValueError, match="seeds must not be negative, got -1"):
        as_seeds([3, -1])
    with pytest.raises(ValueError, match=r"seeds must be different, got \[1, 1\]"):
        as_seeds([1, 1])


@pytest.mark.parametrize("wrong", [1.5, [1.5], "3", None, {"a": 1}])
def test_seeds_that_are_no_whole_numbers(wrong: Any) -> None:
    message = f"seeds must be a whole number, or a sequence of whole numbers; got {wrong!r}"
    with pytest.raises(TypeError, match=re.escape(message)):
        as_seeds(wrong)


@pytest.mark.parametrize(
    ("numbers", "text"), [([1], "1 seed"), ([5, 5], "5 seeds"), ([5, 1, 3], "1-5 seeds")]
)
def test_counted(numbers: list[int], text: str) -> None:
    assert counted(iter(numbers), "seed") == text


def test_a_result_is_its_rows_and_their_tables() -> None:
    """Rows are played when they are wanted, once; what is shown is what they sum up to."""
    played: list[int] = []

    def rows() -> Iterator[Row]:
        for row in compare(DriftingBump(candidates=41, horizon=5), ["uniform", "gp-ucb"], 2):
            played.append(int(row["t"]))
            yield row

    result = ComparisonResult(rows())
    assert "0 rows played so far" in repr(result)
    assert (len(result[2:4]), result[3]["t"], len(played)) == (2, 4, 4)
    assert [row["t"] for row in result] == [1, 2, 3, 4, 5] * 4 == played
    assert list(result) == list(result[:]) == list(result[::-1])[::-1]
    assert (len(result), result[-1]["policy"]) == (20, "gp-ucb")
    assert result.to_frame().equals(pd.DataFrame(result))
    assert str(result).splitlines()[2].split()[:4] == ["drifting-bump", "gp-ucb", "2", "5"]
    assert "<td>gp-ucb</td>" in result._repr_html_()
    (pair,) = result.paired("uniform").to_dict(orient="records")
    difference = pair["difference"]
    means = result.summary().set_index("policy")["average_regret"]
    assert difference == pytest.approx(means["gp-ucb"] - means["uniform"])
    latex = result.to_latex().splitlines()
    assert latex[4].startswith(f"drifting-bump & uniform & 2 & 5 & {means['uniform']:.3f} & ")
    assert len({line.count("&") for line in latex if line.endswith(r"\\")}) == 1
    assert r"a\_b\%" in ComparisonResult([{**result[0], "policy": "a_b%"}]).to_latex()


def test_references_of_a_problem_with_limits_keep_to_them() -> None:
    problem = HeatPump(horizon=30)
    allowed = np.array([problem.limit.holds(problem.outcome_at(t)) for t in range(1, 31)])
    values = np.array([problem.rewards_at(t) for t in range(1, 31)])
    assert not allowed.all()
    expected = references(values, allowed)
    np.testing.assert_allclose(problem_references(problem, [0]), expected, atol=1e-12)
    assert min(expected) >= 0.0
