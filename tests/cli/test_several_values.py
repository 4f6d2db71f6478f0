"""Options of several values, except those of `campaign`: a command receives every value."""

from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.helpers.commands import Command
from tvbandits.__main__ import app

# Further arguments, the function that is called, and two values of each option.
SEVERAL: dict[tuple[str, ...], tuple[tuple[str, ...], str, dict[str, tuple[Any, Any]]]] = {
    ("compare",): (
        ("gp-drift",),
        "comparing.compare",
        {
            "--data": (Path("a.csv"), Path("b.csv")),
            "--policy": ("uniform", "gp-ucb"),
            "--missing": ("-999", "off"),
            "--keep": ("flag=V", "QC=1"),
            "--without": ("a", "b"),
        },
    ),
    ("frontier",): (
        ("gp-drift",),
        "comparing.frontier",
        {
            "--data": (Path("a.csv"), Path("b.csv")),
            "--budgets": (2.0, 8.0),
            "--plan": ("next", "random"),
            "--missing": ("-999", "off"),
            "--keep": ("flag=V", "QC=1"),
            "--without": ("a", "b"),
        },
    ),
    ("board",): (
        ("quick",),
        "comparing.board",
        {
            "--policy": ("uniform", "gp-ucb"),
            "--only": ("uniform", "gp-ucb"),
            "--problem": ("gp-drift", "switching"),
        },
    ),
    ("data", "info"): (
        ("a.csv",),
        "inspecting.inspect",
        {"--missing": ("-999", "off"), "--keep": ("flag=V", "QC=1"), "--without": ("a", "b")},
    ),
    ("data", "fetch"): (("ozone",), "inspecting.fetch", {"--years": (2008, 2009)}),
}


def multiple_options() -> dict[tuple[str, ...], set[str]]:
    found: dict[tuple[str, ...], set[str]] = {}

    def walk(group: Any, path: tuple[str, ...]) -> None:
        for name, each in group.commands.items():
            if hasattr(each, "commands"):
                walk(each, (*path, name))
            else:
                several = {option.opts[-1] for option in each.params if option.multiple}
                found[(*path, name)] = several

    walk(typer.main.get_command(app), ())
    return {path: names for path, names in found.items() if names and path[0] != "campaign"}


def test_commands_have_these_options_of_several_values() -> None:
    assert multiple_options() == {path: set(each[2]) for path, each in SEVERAL.items()}


def values_in(given: object) -> list[object]:
    """Return all single values in the arguments of a function."""
    if isinstance(given, list | tuple):
        return [value for each in given for value in values_in(each)]
    if hasattr(given, "__dataclass_fields__"):
        return values_in(list(vars(given).values()))
    return [given]


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, each in SEVERAL.items() for name in each[2]]
)
def test_commands_use_every_value_of_a_repeated_option(
    command: Command, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], name: str
) -> None:
    beside, function, options = SEVERAL[path]
    handed: list[Any] = []
    monkeypatch.setattr(f"tvbandits.cli.{function}", lambda *given: handed.append(given))
    first, second = options[name]
    more = [] if name == "--years" or path != ("data", "fetch") else ["--years", 2008]
    assert command(*path, *beside, name, first, name, second, *more).status == 0
    (given,) = handed
    assert [value for value in values_in(given) if value in (first, second)] == [first, second]
