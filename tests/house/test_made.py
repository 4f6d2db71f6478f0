"""Every table of measurements and every picture of the pages states its command and date."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_params_from_file
from matplotlib.colors import to_rgb
from PIL import Image

from docs.making import check, dark
from docs.making.pictures import DARK as DARK_STYLE
from tests.house.test_documents import check_command

EXHIBITS = [each for path in check.PAGES for each in check.find_exhibits(path)]


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=str)
def test_exhibit_names_its_command_and_has_a_valid_check(exhibit: check.Exhibit) -> None:
    provenance = exhibit.provenance
    assert provenance is not None, f"{exhibit}: *Made by `command` on date, commit, machine.*"
    assert exhibit.picture is None or exhibit.picture.is_file()
    for column, how in exhibit.checks.items():
        assert how["within"] > 0
        for command in check.commands_of(how):
            assert command.removesuffix(" OUT") in " ".join(provenance[0].split())
            if command.startswith("tvbandits "):
                check_command(command)
        if exhibit.picture is None:
            assert column in check.cells_of(exhibit.text.splitlines()[0])


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


@pytest.mark.parametrize(
    ("regret", "interval", "found"),
    [
        (0.205, 0.02, []),
        (0.3, 0.02, ["regret, tv-gp-ucb: 0.2 on the page, 0.3 now"]),
        (0.2, 0.05, ["regret, tv-gp-ucb: 0.02 on the page, 0.05 now"]),
        (float("nan"), 0.02, ["regret, tv-gp-ucb: 0.2 on the page, nan now"]),
    ],
)
def test_check_finds_tables_without_provenance_and_values_that_differ(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    regret: float,
    interval: float,
    found: list[str],
) -> None:
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    exhibit, unmade = check.find_exhibits(tmp_path / "page.md")
    assert (str(exhibit), str(unmade), unmade.provenance) == ("page.md:2", "page.md:17", None)
    rows = [
        {"policy": "tv-gp-ucb", "average_regret": regret, "average_regret_ci95": interval},
        {"policy": "uniform", "average_regret": 1.6, "average_regret_ci95": 0.1},
    ]
    (tmp_path / check.OUTPUT).write_text(json.dumps({"summary": rows}), encoding="utf-8")
    assert check.compare_table(exhibit, {"tvbandits compare drifting-bump": tmp_path}) == found


def test_compare_picture_ignores_only_the_excluded_part(tmp_path: Path) -> None:
    place = check.ROOT / "docs" / "architectures.png"
    drawn = dark.read_pixels(place).copy()
    height, width, _ = drawn.shape
    drawn[height // 2 :, : width // 2] = 0
    Image.fromarray(drawn).save(tmp_path / "new.png")

    def compared(**part: list[float]) -> list[str]:
        how = {"run": "command", "file": "new.png", "within": 1.0, **part}
        exhibit = check.Exhibit("docs/page.md", 1, "![](architectures.png)", None, {"picture": how})
        return check.compare_picture(exhibit, {"command": tmp_path})

    assert len(compared()) == len(compared(without=[0.5, 0.5, 1.0, 1.0])) == 1
    assert compared(without=[0.0, 0.5, 0.5, 1.0]) == []


CONCEPTS = ("width", "aging", "expert", "dictionary")
DARK = (
    "regret",
    "leaderboard-ranks",
    "leaderboard-profile",
    *(f"concept-{each}" for each in CONCEPTS),
)


@pytest.mark.parametrize("name", DARK)
def test_dark_picture_has_the_dark_background_and_the_size_of_the_light_one(name: str) -> None:
    light, drawn = (
        dark.read_pixels(check.ROOT / "docs" / f"{name}{end}.png") for end in ("", "-dark")
    )
    assert np.abs(np.subtract(light.shape, drawn.shape)).max() <= 0.02 * max(light.shape)
    ground = rc_params_from_file(DARK_STYLE, use_default_template=False)["figure.facecolor"]
    np.testing.assert_allclose(drawn[0, 0] / 255.0, to_rgb(ground), atol=0.01)
    assert not (drawn == 0).all(axis=-1).any()  # no black, the text colour of a light page


def test_readme_shows_the_picture_for_the_theme_of_the_reader() -> None:
    page = (check.ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r'\(prefers-color-scheme: dark\)" srcset="([^"]+)"', page) == [
        "docs/regret-dark.png"
    ]
    assert re.findall(r'<img [^>]*src="([^"]+)"', page) == ["docs/regret.png"]
