"""What moves cost in a comparison: a column beside the regret, and bandits that know of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import commands
from tvbandits import compare, policies
from tvbandits.comparison.page import comparison_report
from tvbandits.comparison.summary import summarise
from tvbandits.datasets import DriftingBump


@dataclass(frozen=True)
class Dear(DriftingBump):
    """A bump to which it costs something to go."""

    candidates: int = 21
    horizon: int = 8
    move_cost: float = 0.1


def test_a_problem_says_what_moves_cost_and_bandits_know_it() -> None:
    rows = compare(Dear(move_cost=100.0), ["gp-ucb", "uniform"], seeds=2)
    table = summarise(rows).set_index("policy")["move_cost_per_step"]
    assert table["gp-ucb"] == 0.0
    assert table["uniform"] > 100.0
    way = [row["x0"] for row in rows if (row["policy"], row["seed"]) == ("uniform", 1)]
    paid = [row["move_cost"] for row in rows if (row["policy"], row["seed"]) == ("uniform", 1)]
    assert paid == (100.0 * np.abs(np.diff(way, prepend=way[0]))).tolist()


def test_a_policy_may_have_its_own_cost_and_a_batch_is_one_step() -> None:
    made = {"dear": lambda s: policies.gp_ucb(s.domain, s.kernel, 0.01).with_move_cost(0.2)}
    rows = compare(DriftingBump(candidates=21, horizon=4), made, seeds=1, batch=3)
    assert [row["move_cost"] > 0 for row in rows] == [True] * 4
    assert (
        "move_cost" not in compare(DriftingBump(candidates=9, horizon=2), ["uniform"], seeds=1)[0]
    )


def test_tables_files_and_the_page_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commands(monkeypatch, capsys)
    plan = ("compare", f"{__name__}:Dear", "drifting-bump:candidates=9", "--policy", "uniform")
    plan = (*plan, "--horizon", "6", "--seeds", "1", "--out", tmp_path / "out")
    for _again in range(2):
        said = command(*plan)
        assert said.status == 0, said.err
        assert said.out.count("move cost") == 1
    assert comparison_report(tmp_path / "out").count("move cost a step") == 1
