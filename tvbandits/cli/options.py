"""Options that belong together: a dataclass, whose fields are options of each command that takes it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option
from typer.core import TyperCommand

Text = str | None
Texts = list[str] | None


File = Annotated[str, Argument(metavar="FILE", help="The campaign, or postgresql://...")]
Who = Annotated[Text, Option(help="Who does it; user and host by default.")]
ByName = Annotated[
    Text, Option("--expert", metavar="MODULE:NAME", help="The campaign's own expert.")
]
Steps = Annotated[int | None, Option(min=1, help="Steps; the problem's own by default.")]
Jobs = Annotated[int, Option(min=-1, max=1024, help="Runs at the same time; -1 for all cores.")]
Engine = Annotated[
    Text, Option("--cluster", help="local:N, or a Dask scheduler's address: play the runs there.")
]
Folder = Annotated[
    Text, Option(metavar="DIR", help="Folder for tables and picture; the same run is resumed.")
]


@dataclass(frozen=True)
class Call:
    """What every command of a campaign is given."""

    file: File
    shape: Annotated[Literal["text", "json"], Option("--format")] = "text"


@dataclass(frozen=True)
class Change(Call):
    """What those are given that change something."""

    key: Annotated[Text, Option(help="A name for this call: tried again, it counts once.")] = None
    who: Who = None
    expert: ByName = None


@dataclass(frozen=True)
class Arguments:
    """What is to be played, as it stands on the command line."""

    problems: Annotated[
        list[str],
        Argument(
            metavar="PROBLEM", help="NAME[:key=value,...], or package.module:problem of yours."
        ),
    ]
    beta: Annotated[
        Text,
        Option(
            help='The width of policies that are given none: a number, "theory" (of the theorem of '
            "each), or package.module:Width."
        ),
    ] = None
    horizon: Steps = None
    seeds: Annotated[int, Option(min=1, help="Number of seeds.")] = 10
    jobs: Jobs = -1
    data: Annotated[
        list[Path] | None, Option("--data", help="A data file; may be given several times.")
    ] = None
    expert: Annotated[
        Text,
        Option(help="package.module:maker of (problem, seed); the truth with noise by default."),
    ] = None
    cluster: Engine = None
    batch: Annotated[
        int | None,
        Option(min=1, help="Points a step, whose regret is their mean; as each policy decides."),
    ] = None
    equal_information: Annotated[
        bool,
        Option(
            "--equal-information",
            help="Give policies that ask nobody as many answers, at random points.",
        ),
    ] = False


@dataclass(frozen=True)
class SuiteRun:
    """What a suite is played with."""

    suite: Annotated[str, Argument(help="quick, paper or peaks.")]
    policy: Annotated[
        Texts, Option("--policy", help="One more policy, or package.module:maker; once for each.")
    ] = None
    only: Annotated[Texts, Option("--only", help="Policies instead of the suite's.")] = None
    problem: Annotated[Texts, Option("--problem", help="Problems instead of the suite's.")] = None
    seeds: Annotated[int | None, Option(min=1, help="Number of seeds; the suite's by default.")] = (
        None
    )
    horizon: Steps = None
    jobs: Jobs = -1
    cluster: Engine = None
    out: Folder = None


class Once(TyperCommand):
    """A command that refuses an option given twice, unless it takes several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the parser itself would keep the last of two values and say nothing."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in order:
            single = param.param_type_name == "option" and not param.multiple
            if single and sum(each is param for each in order) > 1:
                raise ValueError(f"{max(param.opts, key=len)} is given twice, and takes one value")
        return super().parse_args(ctx, args)


def escaped(text: str) -> str:
    """One line that commands no terminal: control characters and marks of direction are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command; the fields of each dataclass among its parameters are options of it."""

    def added(does: Callable[..., None]) -> Callable[..., None]:
        given = inspect.signature(does, eval_str=True).parameters
        kinds: dict[str, Any] = {
            each: part.annotation for each, part in given.items() if is_dataclass(part.annotation)
        }
        fields = {
            each: inspect.signature(kind, eval_str=True).parameters for each, kind in kinds.items()
        }

        @functools.wraps(does)
        def run(**said: Any) -> None:
            made = {
                each: kind(**{field: said.pop(field) for field in fields[each]})
                for each, kind in kinds.items()
            }
            does(**made, **said)

        parts = [part for each in given for part in fields.get(each, {each: given[each]}).values()]
        keywords = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in parts]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        return app.command(name, cls=Once)(run)

    return added
