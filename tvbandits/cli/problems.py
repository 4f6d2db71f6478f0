"""The lists of problems and policies."""

from __future__ import annotations

from tvbandits.comparison.arguments import PROBLEMS, settable_parameters
from tvbandits.policies import POLICIES
from tvbandits.policies.names import parameter_text, parameters_of
from tvbandits.policies.setting import written_options


def list_policies() -> None:
    """Print the name, the title and the parameters of each policy, and the options of most policies."""
    entries = []
    for each in POLICIES.values():
        options = ", options" if len(each.parameters) > len(each.own_parameters) else ""
        entries.append((each.name, each.title, parameter_text(each.own_parameters) + options))
    _print_list(entries)
    print(f"\noptions: {parameter_text(written_options())}")


def list_problems() -> None:
    """Print the name, the summary and the parameters of each problem."""
    entries: list[tuple[str, str, str]] = []
    for name, each in PROBLEMS.items():
        files = 1 if each.files is None or name == "table" else each.files
        entries.append(
            (
                name,
                each.summary,
                parameter_text(settable_parameters(parameters_of(each.make, given=files))),
            )
        )
    _print_list(entries)


def _print_list(entries: list[tuple[str, str, str]]) -> None:
    """Print a line for each entry, in columns."""
    widths = [max(map(len, column)) for column in zip(*entries, strict=True)]
    for entry in entries:
        cells = (f"{cell:<{width}}" for cell, width in zip(entry, widths, strict=True))
        print("  ".join(cells).rstrip())
