"""Every table of measurements and every picture of the pages says what made it, and when."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from docs.making import check, dark
from tests.house.test_documents import check_command

SHOWN = [each for path in check.PAGES for each in check.shown_on(path)]


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_it_says_what_made_it(shown: check.Shown) -> None:
    assert shown.made is not None, f"{shown}: *Made by `command` on date, commit, machine.*"
    assert shown.picture is None or shown.picture.is_file()


@pytest.mark.parametrize("shown", [each for each in SHOWN if each.checks], ids=str)
def test_it_can_be_compared(shown: check.Shown) -> None:
    for column, how in shown.checks.items():
        assert how["within"] > 0
        for command in check.commands_of(how):
            assert shown.made is not None
            assert command.removesuffix(" OUT") in " ".join(shown.made[0].split())
            if command.startswith("tvbandits "):
                check_command(command)
        if shown.picture is None:
            assert column in check.cells_of(shown.text.splitlines()[0])


PAGE = """
| policy | regret |
|---|---|
| uniform | 1.50 ± 0.10 |
| tv-gp-ucb | 0.20 ± 0.02 |

*Made by `tvbandits compare drifting-bump` on 2026-11-21, commit 0123456, a machine.*

<!-- check
[regret]
run = "tvbandits compare drifting-bump"
value = "average_regret"
within = 0.01
wider = {uniform = 0.3}
-->

| policy | regret |
|---|---|
| uniform | 1.5 |
"""


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[check.Shown]:
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    return list(check.shown_on(tmp_path / "page.md"))


def test_a_table_that_nobody_made_is_noticed(shown: list[check.Shown]) -> None:
    assert [each.made is None for each in shown] == [False, True]
    assert [str(each) for each in shown] == ["page.md:2", "page.md:17"]


@pytest.mark.parametrize(
    ("regret", "interval", "found"),
    [
        (0.205, 0.02, []),
        (0.3, 0.02, ["regret, tv-gp-ucb: 0.2 on the page, 0.3 now"]),
        (0.2, 0.05, ["regret, tv-gp-ucb: 0.02 on the page, 0.05 now"]),
        (float("nan"), 0.02, ["regret, tv-gp-ucb: 0.2 on the page, nan now"]),
    ],
)
def test_a_value_that_differs_is_named(
    shown: list[check.Shown], tmp_path: Path, regret: float, interval: float, found: list[str]
) -> None:
    rows = [
        {"policy": "tv-gp-ucb", "average_regret": regret, "average_regret_ci95": interval},
        {"policy": "uniform", "average_regret": 1.6, "average_regret_ci95": 0.1},
    ]
    (tmp_path / "said.json").write_text(json.dumps({"summary": rows}), encoding="utf-8")
    done = {"tvbandits compare drifting-bump": tmp_path}
    assert check.differing_cells(shown[0], done) == found


def test_the_dark_picture_is_the_light_one() -> None:
    """README shows one of two by the reader's theme: `python docs/making/dark.py` makes the second."""
    page = (check.ROOT / "README.md").read_text(encoding="utf-8")
    (dark_one,) = re.findall(r'\(prefers-color-scheme: dark\)" srcset="([^"]+)"', page)
    (light_one,) = re.findall(r'<img [^>]*src="([^"]+)"', page)
    expected = dark.darkened(dark.pixels(check.ROOT / light_one))
    np.testing.assert_array_equal(dark.pixels(check.ROOT / dark_one), expected)
