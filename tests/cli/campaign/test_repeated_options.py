"""Options of `campaign` that are given twice: every value is used, or the second is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.helpers.commands import Command, check_error_line, check_success, commands
from tvbandits import Campaign
from tvbandits.__main__ import app

# Options that take several values, and the test here or elsewhere that all of them are used.
SEVERAL = {
    ("campaign", "answer"): set[str](),
    ("campaign", "ask"): {"--available", "--without", "--context"},
    ("campaign", "correct"): {"--context", "--keep", "--missing", "--outcome", "--without"},
    ("campaign", "forecast"): {"--context"},
    ("campaign", "new"): {"--keep", "--missing", "--without"},
    ("campaign", "questions"): {"--available"},
    ("campaign", "retract"): {"--context"},
    ("campaign", "serve"): {"--name"},
    ("campaign", "status"): {"--context"},
    ("campaign", "tell"): {"--context", "--keep", "--missing", "--outcome", "--without"},
    ("campaign", "token"): {"--role"},
}

CONTEXT = "context = { outside.interval = [0, 10], tariff.interval = [0, 1] }"


def subcommands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from subcommands(each, (*path, name))
        else:
            yield (*path, name), each


COMMANDS = dict(subcommands(typer.main.get_command(app)))

OPTIONS = [
    (path, max(option.opts, key=len), option)
    for path, each in COMMANDS.items()
    for option in each.params
    if option.param_type_name == "option"
]


def test_campaign_commands_have_these_options_of_several_values() -> None:
    several = {
        path: {name for where, name, option in OPTIONS if where == path and option.multiple}
        for path in COMMANDS
        if path[0] == "campaign"
    }
    assert {path: names for path, names in several.items() if names} == {
        path: names for path, names in SEVERAL.items() if names
    }


@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) for path, name, option in OPTIONS if not option.multiple],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_commands_refuse_an_option_of_one_value_given_twice(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    path: tuple[str, ...],
    name: str,
) -> None:
    command = commands(monkeypatch, capsys)
    (option,) = (each for where, long, each in OPTIONS if (where, long) == (path, name))
    for first in option.opts:
        said = [first] if option.is_flag else [first, "1"]
        again = [name] if option.is_flag else [f"{name}=2"]
        check_error_line(command(*path, *said, *again), f"{name} is given twice")


def test_ask_command_leaves_out_the_sites_of_every_without(command: Command, place: Path) -> None:
    for t in range(1, 7):
        out = check_success(command("ask", place, "--at", t, "--without", "A", "--without", "B,d"))
        assert out == "C\n"


def test_ask_command_allows_the_sites_of_every_available(command: Command, place: Path) -> None:
    said = "ask", place, "--at", 1, "-n", 2, "--available", "A", "--available", "D"
    assert {*check_success(command(*said)).strip().split("; ")} == {"A", "D"}
    only = "ask", place, "--at", 2, *said[-4:]
    assert check_success(command(*only, "--without", "D")) == "A\n"


@pytest.mark.parametrize("place", [CONTEXT], indirect=True)
def test_campaign_commands_use_every_context(command: Command, place: Path) -> None:
    said = "--context", "outside=3", "--context", "tariff=1"
    check_success(command("ask", place, "--at", 1, *said))
    check_success(command("tell", place, "--site", "A", "--reward", 1, "--at", 1, *said))
    check_success(command("tell", place, "--site", "B", "--reward", 2, "--at", 1, *said))
    check_success(command("forecast", place, "--at", 2, *said))
    check_success(command("status", place, "--best", *said))
    history = json.loads(check_success(command("history", place, "--format", "json")))
    assert {(row["outside"], row["tariff"]) for row in history} == {(3.0, 1.0)}
    twice = "--context", "outside=3", "--context", "outside=4, tariff=0"
    check_error_line(command("ask", place, "--at", 2, *twice), "outside appears twice")


def test_new_and_tell_commands_use_every_missing(command: Command, place: Path) -> None:
    missing = "--missing", "-999", "--missing", "off"
    draft = "--policy", "adaptive-gp-ucb", "--sites", "sites.csv", "--config", "d.toml"
    check_success(command("new", "d.db", *draft, *missing))
    assert 'read = { missing = ["-999", "off"] }' in Path("d.toml").read_text()
    Path("day.csv").write_text("site,time,reward\nA,1,-999\nB,2,off\nC,3,1.5\n")
    check_success(command("tell", place, "--csv", "day.csv", *missing))
    with Campaign.open(place) as campaign:
        assert campaign.state.rewards.y.tolist() == [1.5]


def test_ask_command_accepts_a_name_with_a_comma_among_others(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arms = '[domain]\narms = ["hall, west", "mill", "yard"]\n[policy]\nname = "adaptive-gp-ucb"\n'
    Path("a.toml").write_text(arms)
    check_success(command("new", "a.db", "--config", "a.toml"))
    ask = "ask", "a.db", "--at", 1
    for without in (["hall, west", "mill"], ["hall, west; MILL"], ["mill;hall, west"]):
        out = check_success(
            command(*ask, *(word for each in without for word in ("--without", each)))
        )
        assert out == "yard\n"
    check_error_line(command(*ask, "--without", "hall, west, mill"), '"hall".*"A, B; C"')


def test_sites_add_command_refuses_a_site_given_twice(command: Command, place: Path) -> None:
    check_error_line(command("sites", "add", place, "E=1", "E=3"), '"E" is given twice')
    with Campaign.open(place) as campaign:
        assert campaign.sites == ["A", "B", "C", "D"]
