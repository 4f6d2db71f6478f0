"""Problems with limits, and what a comparison makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import commands
from tvbandits import compare
from tvbandits.comparison.page import comparison_report
from tvbandits.comparison.summary import summarise
from tvbandits.datasets import BumpAndWall, DriftingBump, HeatPump, QuietNetwork
from tvbandits.datasets.limited import UnderALimit

PROBLEMS = [BumpAndWall(horizon=30), HeatPump(horizon=30), QuietNetwork(horizon=30)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_best_point_satisfies_the_limit_and_so_does_the_start(problem: UnderALimit) -> None:
    (limit,), X = problem.limits, problem.domain.X
    forbids = 0
    for seed in range(5):
        drawn = problem.realise(seed)
        for t in (1, 10, 30):
            outcome, rewards = drawn.outcomes(X, t)[limit.name], drawn.value(X, t)
            holds = outcome <= limit.at_most
            assert drawn.best(t) == max(r for r, ok in zip(rewards, holds, strict=True) if ok)
            forbids += rewards.max() > drawn.best(t)
            assert holds.mean() > 0.1
        assert (drawn.outcomes(drawn.safe, 1)[limit.name] <= limit.at_most).all()
    assert forbids > 0


def test_realisations_differ_and_repeat() -> None:
    for problem in PROBLEMS:
        one, again, other = problem.realise(1), problem.realise(1), problem.realise(2)
        assert (one.outcome_at(5) == again.outcome_at(5)).all()
        assert (one.outcome_at(5) != other.outcome_at(5)).any()


def test_a_comparison_plays_bandits_under_the_limits_and_counts_violations() -> None:
    rows = list(compare(BumpAndWall(horizon=9), ["gp-ucb", "uniform"], seeds=2))
    table = summarise(rows)
    assert table["violations_per_step"].between(0.0, 1.0).all()
    broken = [row for row in rows if row["violations"] > 0]
    assert broken
    assert all(row["regret"] >= 0.0 for row in broken)
    drawn = BumpAndWall(horizon=9).realise(1)
    for row in rows:
        if row["seed"] == 1:
            there = drawn.outcomes(np.array([[row["x0"]]]), row["t"])["load"]
            assert row["violations"] == (there[0] > 0.0)
    starts = [row["x0"] for row in rows if row["policy"] == "gp-ucb" and row["t"] <= 6]
    assert set(starts) == set(drawn.safe[:, 0])


def test_without_limits_nothing_is_counted() -> None:
    rows = compare(DriftingBump(candidates=21, horizon=3), ["uniform"], seeds=1)
    assert "violations" not in rows[0]
    assert "violations_per_step" not in summarise(rows)


def test_tables_the_files_and_the_page_show_violations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commands(monkeypatch, capsys)
    plan = ("compare", "heat-pump", "drifting-bump:candidates=9", "--policy", "uniform")
    plan = (*plan, "--horizon", "6", "--seeds", "1", "--out", tmp_path / "out")
    said = command(*plan)
    assert said.status == 0, said.err
    assert said.out.count("violations") == 1
    assert command(*plan).out.count("violations") == 1  # resumed
    page = comparison_report(tmp_path / "out")
    assert page.count("violations a step") == 1
