from __future__ import annotations

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.browser import looking
from tvbandits import policies
from tvbandits.comparison import files
from tvbandits.comparison.compare import compare
from tvbandits.comparison.page import command_of, comparison_report
from tvbandits.comparison.summary import problem_references, summarise
from tvbandits.datasets import DriftingBump

pytest.importorskip("plotly", reason="no plotly: no report")

ARGUMENTS = {
    "command": "compare",
    "problems": ["drifting-bump:candidates=31"],
    "policies": ["uniform", "tv-gp-ucb:epsilon=0.1"],
    "confidence": None,
    "horizon": 12,
    "seeds": 2,
    "data": [],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("comparison")
    problem = DriftingBump(horizon=12, candidates=31)
    rows = pd.DataFrame(
        compare(
            [problem],
            {
                "uniform": lambda setting: policies.uniform(setting.domain, seed=setting.seed),
                "</script><b>odd": lambda setting: policies.uniform(
                    setting.domain, seed=setting.seed + 9
                ),
            },
            seeds=2,
        )
    )
    found = {problem.name: problem_references(problem)}
    files.write(out, rows, found, {problem.name: "m/s"}, ARGUMENTS, bound=False)
    return out


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return comparison_report(folder)


class Cells(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag == "tr":
            self.rows.append([])
        self.open = tag in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.open:
            self.rows[-1].append(data)
            self.open = False


def test_the_table_is_the_summary(folder: Path, text: str) -> None:
    lines = summarise(files.read(folder).rows).sort_values("average_regret")
    shown = {row[0]: row for row in reversed(Cells(text).rows) if row}
    for _, line in lines.iterrows():
        row = shown[line["policy"]]
        assert row[2] == f"{line['average_regret']:.4g}"
        assert row[4] == f"{line['last_fifth_regret']:.4g}"


def test_the_curves_are_the_rows(folder: Path, text: str) -> None:
    (data,) = re.findall(r'id="regret-0-data">(.*?)</script>', text)
    drawn = {each["name"]: each for each in json.loads(data)["data"] if "name" in each}
    rows = files.read(folder).rows
    for policy, group in rows.groupby("policy"):
        mean = group.groupby("t")["average_regret"].mean()
        assert drawn[policy]["y"] == pytest.approx(list(mean))
        assert drawn[policy]["x"] == list(mean.index)
    assert json.loads(data)["layout"]["yaxis"]["title"]["text"] == "average regret R_t / t [m/s]"


def test_names_are_text_only(text: str) -> None:
    assert "<b>odd" not in text
    assert "&lt;b&gt;odd" in text


def test_it_says_how_it_was_made(text: str) -> None:
    command = "tvbandits compare drifting-bump:candidates=31 --policy uniform"
    assert command in text
    assert "Seeds 0, 1." in text
    assert "scikit-learn" in text


def test_the_command_can_be_said_again() -> None:
    arguments = {
        **ARGUMENTS,
        "data": ["a b.csv"],
        "equal_information": True,
        "confidence": "theory",
    }
    assert shlex.split(command_of(arguments))[1:] == [
        "compare", "drifting-bump:candidates=31", "--policy", "uniform", "--policy",
        "tv-gp-ucb:epsilon=0.1", "--confidence", "theory", "--horizon", "12", "--seeds", "2",
        "--data", "a b.csv", "--equal-information",
    ]  # fmt: skip


def test_nothing_is_fetched(text: str) -> None:
    outside_of_scripts = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!#)', outside_of_scripts)
    assert "default-src 'none'" in text


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1200, True)])
def test_a_browser_draws_it(text: str, tmp_path: Path, width: int, dark: bool) -> None:
    place = tmp_path / "report.html"
    place.write_text(text, encoding="utf-8")
    with looking(place.as_uri(), width, dark=dark) as looked:
        looked.page.wait_for_selector(".plot .main-svg", timeout=180_000)
        curves = looked.page.locator(".plot .scatterlayer .trace").count()
        assert curves == 4  # a curve and a band for each policy
        looked.page.locator(".plot .nsewdrag").first.hover()
        looked.page.wait_for_selector(".hoverlayer .hovertext, .hoverlayer .legend", timeout=90_000)
        assert looked.fits
        assert looked.complaints == []
        assert looked.requests == [place.as_uri()]
