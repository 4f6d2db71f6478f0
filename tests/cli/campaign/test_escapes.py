"""Control characters in names, titles and categories of a campaign are printed escaped."""

import json
from pathlib import Path

import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.commands import Command, check_success
from tvbandits import Campaign, Candidates, Space, policies

EVIL = "a\x1b]0;owned\x07\u202eb\nc\u2066"
SHOWN = "a\\x1b]0;owned\\x07\\u202eb\\nc\\u2066"


def on_sites(place: Path) -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    about = {"names": json.dumps([EVIL, "d"]), "title": EVIL, "unit": EVIL, "places": EVIL}
    with Campaign.create(place, bandit, about=about) as campaign:
        campaign.ask(1.0, available=[0])
        campaign.tell([[0.0]], [1.0], 1.0)
        campaign.tell([[0.0]], [1.1], 1.5)
        campaign.ask(2.0, available=[0])


def on_words(place: Path) -> None:
    space = Space(kind=[EVIL, "d"])
    bandit = policies.gp_ucb(space, kernel=space.kernel(), noise_variance=0.01)
    with Campaign.create(place, bandit) as campaign:
        campaign.tell([{"kind": EVIL}], [1.0], 1.0)


VERBS = [
    ("ask", "--at", 3),
    ("status",),
    ("status", "--best"),
    ("history",),
    ("forecast", "--at", 3),
    ("sites", "retire", "d"),
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(map(str, verb)))
def test_campaign_commands_escape_the_names_of_sites(
    command: Command, tmp_path: Path, verb: tuple
) -> None:  # type: ignore[type-arg]
    on_sites(tmp_path / "c.db")
    name, *more = verb
    place = tmp_path / "c.db"
    arguments = ["sites", "retire", place, "d"] if name == "sites" else [name, place, *more]
    said = check_success(command(*arguments))
    assert said.replace("\n", "").isprintable()
    if name in ("status", "history", "forecast"):
        assert SHOWN in said


def test_campaign_commands_escape_the_categories_of_a_space(
    command: Command, tmp_path: Path
) -> None:
    on_words(tmp_path / "c.db")
    for verb in (("ask", "--at", 3), ("status", "--best"), ("history",)):
        said = check_success(command(verb[0], tmp_path / "c.db", *verb[1:]))
        assert said.replace("\n", "").isprintable()
    assert SHOWN in said
