"""Run the benchmarks against peers and plain forms, and print their tables: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import chain, direct, dpp, runs, step
from benchmarks.harness import Row, machine

GROUPS: dict[str, Callable[[int, Path | None], list[Row]]] = {
    "dpp": dpp.rows,
    "step": step.rows,
    "policies": runs.rows,
    "direct": direct.rows,
}
# Those that print a table of their own.
TABLES: dict[str, Callable[[int, Path | None], object]] = {"chain": chain.table}
QUICK = ("dpp", "step", "policies")


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=[*GROUPS, *TABLES], help="one group of rows")
    parser.add_argument("--all", action="store_true", help="all groups, for some hours")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="3 by default")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures there")
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="where abalone.csv and california_housing.parquet are "
        "(by default shared/data/tables beside the repository)",
    )
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {options.repeats}")
    if options.tables is not None and not options.tables.is_dir():
        parser.error(f"--tables must be a directory, got {options.tables}")
    return options


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """The table of ratios, and its notes below."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("benchmark", "case"):
        table.add_column(name)
    for name in ("ours (ms)", "peer (ms)", "ratio", "range", "target", "note"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, row in enumerate(rows, 1):
        times = f"{1e3 * row.ours_seconds:.4g}", f"{1e3 * row.peer_seconds:.4g}"
        ratios = f"{row.ratio:.1f}", f"{row.low:.1f} - {row.high:.1f}"
        target = "" if row.target is None else f">= {row.target:g}"
        table.add_row(row.name, row.case, *times, *ratios, target, str(number))
    console.print(table)
    for number, row in enumerate(rows, 1):
        console.print(f"{number:3d}. {row.note}", highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for."""
    options = parsed(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    every = [*GROUPS, *TABLES] if options.all else QUICK
    names = [options.only] if options.only else every
    rows: list[Row] = []
    with threadpool_limits(limits=1):
        facts = machine()
        console.print(
            f"{', '.join(f'{name} {value}' for name, value in facts.items())}\nprocessor time; "
            f"ratio = peer / ours, measured in turn: median and range of {options.repeats} repeats",
            highlight=False,
        )
        for name in names:
            if name in TABLES:
                TABLES[name](options.repeats, options.tables)
            else:
                rows += GROUPS[name](options.repeats, options.tables)
    if rows:
        print_rows(console, rows)
    if options.out:
        figures = {"machine": facts, "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
