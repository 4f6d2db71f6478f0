"""Regrets are readable in any unit of reward."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tvbandits.cli.tables import print_tables
from tvbandits.comparison import files
from tvbandits.comparison.board import Board, board_text, provenance
from tvbandits.comparison.compare import compare
from tvbandits.comparison.frontier import frontier_policies
from tvbandits.comparison.plots import frontier_figure, regret_figure
from tvbandits.comparison.report import comparison_report
from tvbandits.comparison.summary import (
    pairwise_differences,
    problem_references,
    regret_texts,
    summarise,
)
from tvbandits.datasets import TableProblem

POINTS = np.linspace(0.0, 1.0, 12)[:, None]
VALUES = np.sin(5 * POINTS[:, 0] + 0.3 * np.arange(9)[:, None])
SIZES = [1e-12, 1.0, 1e11]


@cache
def played(size: float) -> tuple[TableProblem, pd.DataFrame]:
    noise = (0.1 * size) ** 2
    problem = TableProblem(size * VALUES, POINTS, "waves", "u", noise)
    return problem, compare(problem, ["uniform", "eps-greedy"], 2)


def numbers(line: str) -> list[float]:
    """All numbers in a line that stand alone."""
    found = re.findall(r"(?<![\w.+-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])", line)
    return [float(each) for each in found]


def shows(line: str, value: float) -> None:
    """Assert that the line contains this value to three digits."""
    assert any(each == pytest.approx(value, rel=6e-3) for each in numbers(line)), (line, value)


@pytest.mark.parametrize("size", SIZES)
def test_print_tables_and_board_text_show_regrets_in_any_unit(
    size: float, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, rows = played(size)
    summary = summarise(rows).set_index("policy")
    references = problem_references(problem, 2)
    print_tables(rows, {"waves": references}, {"waves": problem})
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 120
    board = board_text(Board.of(rows), provenance("quick", "tvbandits board quick"))
    over = pairwise_differences(rows).iloc[0]
    (line,) = re.findall(rf"^│ {over['policy']} .*$", out, re.MULTILINE)
    shows(line, over["difference"])
    for policy, row in summary.iterrows():
        (line,) = re.findall(rf"^│ {policy} .*$", out, re.MULTILINE)
        for name in ("average_regret", "average_regret_ci95", "last_fifth_regret"):
            shows(line, row[name])
        shows(
            " ".join(each for each in board.splitlines() if policy in each), row["average_regret"]
        )
    (line,) = [each for each in out.splitlines() if each.startswith("references: ")]
    for value in (references.uniform, references.best_fixed):
        assert any(each == pytest.approx(value, rel=0.06) for each in numbers(line))


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.usefixtures("no_pictures")
def test_comparison_report_shows_regrets_in_any_unit(size: float, tmp_path: Path) -> None:
    problem, rows = played(size)
    references = {"waves": problem_references(problem, 2)}
    files.write(tmp_path, rows, references, {"waves": "u"}, {})
    texts = Texts()
    texts.feed(comparison_report(tmp_path))
    for value in summarise(rows)["average_regret"]:
        shows(" ; ".join(texts.found), value)
    kept = pd.read_csv(tmp_path / files.SUMMARY)["average_regret"]
    assert kept.to_list() == pytest.approx(summarise(rows)["average_regret"].to_list(), rel=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_regret_and_frontier_figures_label_regrets_in_any_unit(size: float) -> None:
    problem, rows = played(size)
    asked = compare(problem, frontier_policies([1.0], ["next"]), 2)
    for figure in (regret_figure(rows), frontier_figure(asked)):
        figure.draw_without_rendering()
        axis = figure.axes[0].yaxis
        labels = [label.get_text() for label in axis.get_ticklabels() if label.get_text()]
        assert len(set(labels)) == len(labels) > 2
        assert max(map(len, labels)) < 20


def test_print_tables_formats_regrets_of_each_problem_in_its_own_unit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Small regrets are not rounded to zero beside the large ones of another problem."""
    (small, one), (large, other) = played(1e-6), played(1e11)
    problems = {"small": small, "large": large}
    both = compare(problems, ["uniform", "eps-greedy"], 2)
    references = {name: problem_references(each, 2) for name, each in problems.items()}
    print_tables(both, references, problems)
    _, of_small, of_large = re.split("^(?:small|large), ", capsys.readouterr().out, flags=re.M)
    for out, alone in ((of_small, one), (of_large, other)):
        for policy, value in summarise(alone).set_index("policy")["average_regret"].items():
            (line,) = re.findall(rf"^│ {policy} .*$", out, re.MULTILINE)
            shows(line, value)


def test_regret_texts_show_rounding_errors_as_zero() -> None:
    assert regret_texts([0.5, 1e-17, -1e-17]) == ["0.500", "0.000", "0.000"]
    assert regret_texts([]) == []
    assert regret_texts([0.0, 0.0]) == ["0.000", "0.000"]
    assert regret_texts([float("inf"), -2.0, 999_999.0, 1e6]) == [
        *("inf", "-2.000", "999999.000", "1e+06")
    ]
