"""What questions are worth: the policies of a frontier, its table and picture, and the command."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.image import imread

from tests.helpers.commands import Command, commands
from tvbandits.cli.problems import make_problem
from tvbandits.comparison import frontier
from tvbandits.comparison.compare import Run, compare, iterate
from tvbandits.comparison.summary import SUMMARY
from tvbandits.policies.expert import PLANS

SMALL = "ozone-network:stations=5"
HORIZON = 12


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Two plans, two budgets, two seeds."""
    problems = {SMALL: make_problem(SMALL, [], HORIZON)}
    policies = frontier.policies([1, 2], ["plausible", "random"])
    return pd.DataFrame(compare(problems, policies, 2, HORIZON, confidence=2.0))


# --- the policies ---------------------------------------------------------------------------------


def test_policies() -> None:
    assert frontier.policies([4, 0.5, 4], ["random", "kdpp", "random"]) == [
        "adaptive-gp-ucb",
        "sparq-gp-ucb",
        "frugal-gp-ucb:budget=0.5,plan=random",
        "frugal-gp-ucb:budget=4,plan=random",
        "frugal-gp-ucb:budget=0.5,plan=kdpp",
        "frugal-gp-ucb:budget=4,plan=kdpp",
    ]
    assert frontier.policies([], ["random"]) == frontier.policies([1], []) == policies_alone()
    assert len(frontier.policies([1], list(PLANS))) == 2 + len(PLANS)


def policies_alone() -> list[str]:
    return [frontier.WITHOUT, frontier.PAPER]


@pytest.mark.parametrize("bad", [0.0, -2.0, math.nan])
def test_budgets_that_are_none(bad: float) -> None:
    with pytest.raises(ValueError, match=f"budgets must be positive and finite, got {bad:g}"):
        frontier.policies([1.0, bad], ["random"])


def test_plans_that_are_none() -> None:
    known = ", ".join(PLANS)
    with pytest.raises(ValueError, match=f'unknown plan "nope"; there are: {known}'):
        frontier.policies([1.0], ["random", "nope"])


# --- the table ------------------------------------------------------------------------------------


def test_the_frontier_of_rows(rows: pd.DataFrame) -> None:
    found = frontier.frontier(rows)
    assert list(found.columns) == [*SUMMARY, "plan", "budget"]
    assert found["policy"].tolist() == frontier.policies([1, 2], ["plausible", "random"])
    assert found["plan"].tolist() == [
        *policies_alone(),
        *["plausible"] * 2,
        *["random"] * 2,
    ]
    np.testing.assert_array_equal(found["budget"], [np.nan, np.nan, 1.0, 2.0, 1.0, 2.0])
    assert (found["seeds"] == 2).all()
    assert (found["horizon"] == HORIZON).all()
    # By hand, for one of them.
    mine = rows[rows["policy"] == "frugal-gp-ucb:budget=2,plan=random"]
    assert found["average_regret"].iloc[-1] == pytest.approx(mine["regret"].mean())
    assert found["queries_per_step"].iloc[-1] == pytest.approx(2.0)
    # Nobody asks more than the budget; the first policy asks nobody.
    asked = found[found["budget"].notna()]
    assert (asked["queries_per_step"] <= asked["budget"]).all()
    assert found["queries_per_step"].iloc[0] == 0.0 < found["queries_per_step"].iloc[1]


def test_margins_are_regret_over_that_of_random_points(rows: pd.DataFrame) -> None:
    summary = frontier.frontier(rows)
    found = frontier.margins(summary)
    assert found.index.tolist() == ["plausible", "random"]
    assert found.columns.tolist() == [1.0, 2.0]
    regret = summary.set_index("policy")["average_regret"]
    for budget in (1, 2):
        one, other = (regret[f"frugal-gp-ucb:budget={budget},plan={p}"] for p in found.index)
        assert found.loc["plausible", budget] == pytest.approx(one / other)
        assert found.loc["random", budget] == 1.0


def test_there_are_no_margins_without_random_points(rows: pd.DataFrame) -> None:
    summary = frontier.frontier(rows)
    assert frontier.margins(summary[summary["plan"] != "random"]).empty
    assert frontier.margins(summary[summary["budget"].isna()]).empty


def test_a_cell_that_was_not_played_is_no_margin(rows: pd.DataFrame) -> None:
    # As after Ctrl-C: the last one of random points is missing.
    summary = frontier.frontier(rows[rows["policy"] != "frugal-gp-ucb:budget=2,plan=random"])
    found = frontier.margins(summary)
    assert found.loc["plausible", 1.0] > 0
    assert math.isnan(found.loc["plausible", 2.0])


# --- the picture ----------------------------------------------------------------------------------


def curves(axes: Axes) -> dict[str, ErrorbarContainer]:
    """What is drawn with an interval, by label."""
    made = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    return {str(each.get_label()): each for each in made}


def test_a_picture(rows: pd.DataFrame) -> None:
    figure = frontier.picture(rows, {SMALL: "ppb"})
    (axes,) = figure.axes
    summary = frontier.frontier(rows).set_index("policy")
    drawn = curves(axes)
    assert set(drawn) == {"plausible", "random", "sparq-gp-ucb"}
    for plan in ("plausible", "random"):
        mine = summary.loc[[f"frugal-gp-ucb:budget={budget},plan={plan}" for budget in (1, 2)]]
        line, _, (bars,) = drawn[plan].lines
        np.testing.assert_allclose(line.get_xdata(orig=False), mine["queries_per_step"])
        np.testing.assert_allclose(line.get_ydata(orig=False), mine["average_regret"])
        heights = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        np.testing.assert_allclose(heights, 2.0 * mine["average_regret_ci95"])
    paper = summary.loc["sparq-gp-ucb"]
    line = drawn["sparq-gp-ucb"].lines[0]
    np.testing.assert_allclose(line.get_xdata(orig=False), [paper["queries_per_step"]])
    np.testing.assert_allclose(line.get_ydata(orig=False), [paper["average_regret"]])
    (alone,) = (line for line in axes.lines if line.get_label() == "adaptive-gp-ucb, no questions")
    np.testing.assert_allclose(
        alone.get_ydata(orig=False), summary.loc["adaptive-gp-ucb", "average_regret"]
    )
    legend = axes.get_legend()
    assert legend is not None
    named = {text.get_text() for text in legend.get_texts()}
    assert named == {"plausible", "random", "sparq-gp-ucb", "adaptive-gp-ucb, no questions"}
    assert axes.get_xlabel() == "queries per step"
    assert axes.get_ylabel() == "average regret (ppb)"
    assert axes.get_title() == f"{SMALL}, width 2, 2 seeds, 12 steps"
    assert axes.get_xscale() == "log"
    ticks = [float(label.get_text()) for label in axes.get_xticklabels()]
    assert ticks == [2.0**power for power in range(len(ticks))]  # powers of two, and all covered
    assert ticks[-1] >= paper["queries_per_step"]
    assert axes.get_ylim()[0] == 0.0


def test_curves_are_told_apart_without_colour(rows: pd.DataFrame) -> None:
    one = rows[rows["policy"].str.endswith("budget=1,plan=random")]
    many = pd.concat([one.assign(policy=f"frugal-gp-ucb:budget=1,plan={plan}") for plan in PLANS])
    (axes,) = frontier.picture(many).axes
    lines = [each.lines[0] for each in curves(axes).values()]
    assert len(lines) == len(PLANS)
    looks = [(line.get_marker(), str(line.get_linestyle())) for line in lines]
    assert len({marker for marker, _ in looks}) == len(PLANS)
    assert len({line.get_color() for line in lines}) == len(PLANS)
    assert axes.get_ylabel() == "average regret"  # in a unit that is not known


def test_a_panel_for_each_problem(rows: pd.DataFrame, tmp_path: Path) -> None:
    both = pd.concat([rows, rows.assign(problem="another", regret=2.0 * rows["regret"])])
    figure = frontier.picture(both, {"another": "m"})
    one, other = figure.axes
    assert (one.get_ylabel(), other.get_ylabel()) == ("average regret", "average regret (m)")
    for label, curve in curves(one).items():
        mine, its = curve.lines[0], curves(other)[label].lines[0]
        np.testing.assert_allclose(
            its.get_ydata(orig=False), 2.0 * np.asarray(mine.get_ydata(orig=False))
        )
        assert (mine.get_color(), mine.get_marker()) == (its.get_color(), its.get_marker())
    figure.savefig(tmp_path / "both.png", dpi=30)
    assert imread(tmp_path / "both.png").shape[1] > 0


@pytest.mark.parametrize(
    "policies", [["adaptive-gp-ucb"], ["adaptive-gp-ucb", "sparq-gp-ucb"]], ids=str
)
def test_a_frontier_that_was_cut_short(
    rows: pd.DataFrame, tmp_path: Path, policies: list[str]
) -> None:
    # One seed, which has no interval, and no curve.
    some = rows[rows["policy"].isin(policies) & (rows["seed"] == 0)]
    figure = frontier.picture(some)
    figure.savefig(tmp_path / "some.png", dpi=30)
    assert set(curves(figure.axes[0])) == set(policies) - {"adaptive-gp-ucb"}
    assert "1 seed," in figure.axes[0].get_title()


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return commands(monkeypatch, capsys)


GIVEN: list[object] = ["frontier", SMALL, "--horizon", HORIZON, "--seeds", 1, "--jobs", 1]


def test_the_command_prints_tables_and_writes_files(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    said = command(
        *GIVEN, "--budgets", 1, 2, "--plan", "plausible", "--plan", "random", "--out", out
    )
    assert (said.status, said.err) == (
        0,
        f"wrote rows.csv.gz, summary.csv, regret.png, run.json, frontier.csv, frontier.png in {out}\n",
    )
    assert f"{SMALL}, width 2, 1 seed, 12 steps, regret in ppb" in said.out
    policies = frontier.policies([1, 2], ["plausible", "random"])
    for policy in policies:
        assert re.search(rf"│ {re.escape(policy)} +│", said.out), policy
    assert {path.name for path in out.iterdir()} == {
        "frontier.csv",
        "frontier.png",
        "regret.png",
        "rows.csv.gz",
        "run.json",
        "summary.csv",
    }
    assert imread(out / "frontier.png").shape[0] > 100
    table = pd.read_csv(out / "frontier.csv")
    assert list(table.columns) == [*SUMMARY, "plan", "budget"]
    assert table["policy"].tolist() == policies
    _, margins = said.out.split(f"{SMALL}: regret over that of random points\n")
    regret = table.set_index("policy")["average_regret"]
    ratios = [
        regret[f"frugal-gp-ucb:budget={budget},plan=plausible"]
        / regret[f"frugal-gp-ucb:budget={budget},plan=random"]
        for budget in (1, 2)
    ]
    one, two = (f"{ratio:.2f}" for ratio in ratios)
    assert re.search(rf"│ plausible │ +{one} │ +{two} │", margins)
    assert re.search(r"│ random +│ +1\.00 │ +1\.00 │", margins)


def test_without_random_points_there_are_no_margins(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = command(*GIVEN, "--budgets", 0.5, "--plan=kdpp", "--confidence=theory")
    assert (said.status, said.err) == (0, "")
    assert f"{SMALL}, width theory, 1 seed, 12 steps" in said.out
    assert "frugal-gp-ucb:budget=0.5,plan=kdpp" in said.out
    assert "random points" not in said.out
    assert list(tmp_path.iterdir()) == []


def test_every_problem_has_margins_of_its_own(command: Command, tmp_path: Path) -> None:
    problems = [SMALL, "drifting-bump:candidates=21"]
    said = command(
        "frontier", *problems, *GIVEN[2:], "--budgets", 2, "--plan=random", "--plan=kdpp",
        "--out", tmp_path,
    )  # fmt: skip
    assert said.status == 0
    table = pd.read_csv(tmp_path / "frontier.csv")
    found = []
    for problem in problems:
        mine = table[table["problem"] == problem].set_index("plan")["average_regret"]
        found.append(f"{mine['kdpp'] / mine['random']:.2f}")
        margins = said.out.split(f"{problem}: regret over that of random points\n")[1]
        assert re.search(rf"│ kdpp +│ +{found[-1]} │", margins.split("└")[0])
    assert found[0] != found[1]


def test_what_is_played_by_default(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def noted(budgets: list[float], plans: list[str]) -> list[str]:
        calls.append((budgets, plans))
        return ["uniform"]

    monkeypatch.setattr(frontier, "policies", noted)
    assert command(*GIVEN).status == 0
    assert command(*GIVEN, "--budgets", 3, "--plan=kdpp", "--budgets", 5).status == 0
    assert calls == [([1, 2, 4, 8], list(PLANS)), ([3, 5], ["kdpp"])]


BAD: list[tuple[str, str]] = [
    ("--budgets 0", "budgets must be positive and finite, got 0"),
    ("--budgets 1 -2", "budgets must be positive and finite, got -2"),
    ("--budgets nan", "budgets must be positive and finite, got nan"),
    ("--budgets inf", "got inf"),
    ("--budgets x", "Invalid value for '--budgets': .*number"),
    ("--budgets", "Option '--budgets' requires an argument"),
    ("--plan nope", 'unknown plan "nope"; there are: next, plausible, kdpp, '),
    ("--confidence abc", '--confidence must be "theory" or .*abc'),
    ("--out=", '--out must name a folder, got ""'),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_a_bad_argument_is_one_line_and_status_2(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    out = [] if arguments == "--out=" else ["--out", tmp_path / "new"]
    said = command(*GIVEN, *out, *arguments.split())
    assert said.status == 2
    assert said.out == ""
    assert re.fullmatch(r"tvbandits: [^\n]+\n", said.err), said.err
    assert re.search(message, said.err), said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nope"], 'unknown problem "nope"; there are: '),
        ([SMALL, "--seeds", "0"], "--seeds must be at least 1, got 0"),
        ([SMALL, "--jobs", "0"], "--jobs must be at least 1 .*, or -1 .*, got 0"),
        ([SMALL, "--horizon", "0"], "--horizon must be a whole number of at least 1, got 0"),
        ([], "Missing argument"),
    ],
)
def test_other_bad_arguments(command: Command, given: list[str], message: str) -> None:
    said = command("frontier", *given, "--budgets", 1)
    assert (said.status, said.out) == (2, "")
    assert re.fullmatch(r"tvbandits: [^\n]+\n", said.err), said.err
    assert re.search(message, said.err), said.err


def test_a_frontier_that_is_interrupted(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(done: int) -> Callable[..., Iterator[Run]]:
        def runs(*given: Any, **more: Any) -> Iterator[Run]:
            yield from islice(iterate(*given, **more), done)
            raise KeyboardInterrupt

        return runs

    given = [*GIVEN, "--budgets", 1, "--plan", "random", "--plan", "kdpp", "--out", tmp_path]
    monkeypatch.setattr("tvbandits.cli.comparing.iterate", stopped(0))
    said = command(*given)
    assert (said.status, said.out) == (130, "")
    assert "stopped before the first run was done: nothing to show" in said.err
    assert list(tmp_path.iterdir()) == []
    # What is done is kept: three of four.
    monkeypatch.setattr("tvbandits.cli.comparing.iterate", stopped(3))
    said = command(*given)
    assert said.status == 130
    assert "interrupted: 3 of 4 runs are done and kept" in said.err
    assert re.search(r"│ random +│ +1\.00 │", said.out)
    assert len(pd.read_csv(tmp_path / "frontier.csv")) == 3
    assert (tmp_path / "frontier.png").exists()
