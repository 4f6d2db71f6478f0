"""Options that several commands share: dataclasses whose fields are options of a command."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer import Argument, Option
from typer.core import TyperCommand

SiteAction = Literal["list", "add", "retire", "confirm"]

Text = str | None
Texts = list[str] | None


File = Annotated[
    str, Argument(metavar="FILE", help="The file of the campaign, or postgresql://...")
]
Who = Annotated[Text, Option(help="Your name in the journal; user and host by default.")]
ExpertName = Annotated[
    Text,
    Option(
        "--expert",
        metavar="MODULE:NAME",
        help="Run your own code as the expert; it must be the maker of the configuration.",
    ),
]
Steps = Annotated[int | None, Option(min=1, help="Number of steps; by default the problem's.")]


def check_jobs(jobs: int) -> int:
    """Refuse a number of processes that is none, by the name of its option."""
    if jobs == 0:
        raise ValueError("--jobs must be -1 for all cores, or at least 1, got 0")
    return jobs


def reward_option(text: str) -> Any:
    """Return an option for a reading, which refuses an infinite one by its name."""

    def check(reward: float | None) -> float | None:
        if reward is not None and math.isinf(reward):
            raise ValueError(f"--reward must be finite, or nan if the reading failed, got {reward}")
        return reward

    return Option("--reward", callback=check, help=text)


def variance_option(text: str) -> Any:
    """Return an option for a noise variance, which refuses one that is not positive by its name."""

    def check(variance: float | None) -> float | None:
        if variance is not None and not 0 < variance < math.inf:
            raise ValueError(f"--variance must be positive and finite, got {variance:g}")
        return variance

    return Option("--variance", callback=check, help=text)


Jobs = Annotated[
    int,
    Option(
        min=-1, max=1024, callback=check_jobs, help="Number of parallel runs; -1 for all cores."
    ),
]
Scheduler = Annotated[Text, Option("--cluster", help="Run on Dask: the address of a scheduler.")]
Folder = Annotated[
    Text,
    Option(
        metavar="DIR", help="Folder for tables and pictures; runs that it has are not repeated."
    ),
]


@dataclass(frozen=True)
class Call:
    """The options of every command of a campaign."""

    file: File
    form: Annotated[Literal["text", "json"], Option("--format", help="The form of the output.")] = (
        "text"
    )


@dataclass(frozen=True)
class Change(Call):
    """The options of every command that changes a campaign."""

    key: Annotated[
        Text, Option(help="A name for this call: if you repeat the call, it counts once.")
    ] = None
    who: Who = None
    expert: ExpertName = None


@dataclass(frozen=True)
class CountOptions:
    """The options of every command that takes a reading which was counted."""

    successes: Annotated[
        float | None, Option(help="Number of successes; with --trials, instead of --reward.")
    ] = None
    trials: Annotated[float | None, Option(help="Number of trials.")] = None
    events: Annotated[
        float | None, Option(help="Number of events; with --exposure, instead of --reward.")
    ] = None
    exposure: Annotated[
        float | None, Option(help="Hours, visits or metres in which the events were counted.")
    ] = None

    @property
    def given(self) -> dict[str, float]:
        """Return the options that the user has set, by name: none, or the two of one kind of count.

        Raises
        ------
        ValueError
            If one has no other, or counts of both kinds are given.
        """
        values = {name: value for name, value in vars(self).items() if value is not None}
        if values and {*values} not in ({"successes", "trials"}, {"events", "exposure"}):
            options = ", ".join(f"--{name}" for name in values)
            raise ValueError(
                f"give --successes and --trials, or --events and --exposure, got {options}"
            )
        return values


@dataclass(frozen=True)
class TableOptions:
    """The options of every command that reads tables: the fields of `tvbandits.datasets.FileOptions`."""

    header: Annotated[
        int | None, Option(min=1, metavar="LINE", help="The line with the column names.")
    ] = None
    decimal: Annotated[
        Text, Option(metavar="comma|point", help="The decimal mark, if 1.012 is ambiguous.")
    ] = None
    dates: Annotated[
        Text,
        Option(
            metavar="day|month|FORMAT|s|ms|us|ns",
            help="What comes first in 03/02/2026; or the format of times, such as %d.%m.%y %H:%M; or "
            "the unit of times that count from 1970.",
        ),
    ] = None
    time: Annotated[
        Text, Option("--time", metavar="COLUMN", help="The column of times; A+B joins two columns.")
    ] = None
    station: Annotated[
        Text, Option("--station", metavar="COLUMN", help="The column of stations.")
    ] = None
    parameter: Annotated[
        Text,
        Option("--parameter", metavar="NAME", help="The parameter to read, if there are several."),
    ] = None
    value: Annotated[Text, Option("--value", metavar="COLUMN", help="The column of values.")] = None
    degrees: Annotated[
        Text,
        Option(
            "--degrees",
            metavar="LAT+LON",
            help="The columns of latitude and longitude, or none if coordinates are not degrees.",
        ),
    ] = None
    zone: Annotated[
        Text,
        Option(
            "--zone",
            metavar="NAME",
            help="The time zone of times without an offset from UTC, such as Europe/Berlin.",
        ),
    ] = None
    missing: Annotated[
        Texts,
        Option(
            "--missing",
            metavar="CELL",
            help="A code for a missing reading, such as -999, or none if such numbers are readings. "
            "Repeat it for more.",
        ),
    ] = None
    without: Annotated[
        Texts,
        Option("--without", metavar="STATION", help="A station to leave out. Repeat it for more."),
    ] = None
    keep: Annotated[
        Texts,
        Option(
            "--keep",
            metavar="COLUMN=CELL",
            help="Read only rows with this cell, such as qc=1 or POC=1. Repeat it for more.",
        ),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Return the options that the user has set, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Comparing:
    """The options of `compare` and `frontier`."""

    problems: Annotated[
        list[str],
        Argument(
            metavar="PROBLEM", help="NAME[:key=value,...], or your own package.module:problem."
        ),
    ]
    beta: Annotated[
        Text,
        Option(
            help="The confidence width of policies that do not set their own: a number, "
            '"theory" (the width of each policy\'s theorem), or your own package.module:Width.'
        ),
    ] = None
    horizon: Steps = None
    seeds: Annotated[int, Option(min=1, help="Number of seeds.")] = 10
    jobs: Jobs = -1
    data: Annotated[
        list[Path] | None, Option("--data", help="A data file. Repeat it for more.")
    ] = None
    expert: Annotated[
        Text,
        Option(
            help="Your own package.module:function, which makes an expert for (problem, seed). "
            "By default experts answer with the true reward and noise."
        ),
    ] = None
    cluster: Scheduler = None
    batch: Annotated[
        int | None,
        Option(
            min=1, help="Points per step; regret is their mean. By default each policy decides."
        ),
    ] = None
    equal_information: Annotated[
        bool,
        Option(
            "--equal-information",
            help="Give policies without an expert as many answers, about random points.",
        ),
    ] = False


@dataclass(frozen=True)
class BoardOptions:
    """The options of `board`."""

    suite: Annotated[str, Argument(help="quick, paper or peaks.")]
    policy: Annotated[
        Texts,
        Option(
            "--policy",
            help="An additional policy, or your own package.module:function. Repeat it for more.",
        ),
    ] = None
    only: Annotated[
        Texts, Option("--only", help="A policy instead of the suite's. Repeat it for more.")
    ] = None
    problem: Annotated[
        Texts, Option("--problem", help="A problem instead of the suite's. Repeat it for more.")
    ] = None
    seeds: Annotated[int | None, Option(min=1, help="Number of seeds; by default the suite's.")] = (
        None
    )
    horizon: Steps = None
    jobs: Jobs = -1
    cluster: Scheduler = None
    out: Folder = None


class StrictCommand(TyperCommand):
    """A command that refuses a repeated option, unless it takes several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the parser itself would silently use the last of two values."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in order:
            single = param.param_type_name == "option" and not param.multiple
            if single and sum(each is param for each in order) > 1:
                raise ValueError(f"{max(param.opts, key=len)} is given twice, but takes one value")
        return super().parse_args(ctx, args)


class SitesCommand(StrictCommand):
    """The command `sites ACTION FILE ...`, which lists the sites of a file that stands alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        words, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        is_alone = isinstance(words["action"], str) and not isinstance(words["file"], str)
        if is_alone and words["action"] not in get_args(SiteAction):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def command(
    app: typer.Typer, name: str, kind: type[StrictCommand] = StrictCommand
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command to an app; the fields of each dataclass among its parameters are options of it."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(function, eval_str=True).parameters
        groups: dict[str, Any] = {
            each: part.annotation
            for each, part in parameters.items()
            if is_dataclass(part.annotation)
        }
        fields = {
            each: inspect.signature(group, eval_str=True).parameters
            for each, group in groups.items()
        }

        @functools.wraps(function)
        def run(**values: Any) -> None:
            options = {
                each: group(**{field: values.pop(field) for field in fields[each]})
                for each, group in groups.items()
            }
            function(**options, **values)

        parts = [
            part
            for each in parameters
            for part in fields.get(each, {each: parameters[each]}).values()
        ]
        keywords = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in parts]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        return app.command(name, cls=kind)(run)

    return add
