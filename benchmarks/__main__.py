"""Run the benchmarks and print their tables: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import abalone, budgeted, chain, direct, dpp, runs, step
from benchmarks.harness import Row, machine

GROUPS = {"dpp": dpp.rows, "step": step.rows, "policies": runs.rows}

# Groups of ratios that take minutes: run by name, or with --all.
LONG = {"direct": direct.rows, "budgeted": budgeted.rows}

# Groups with a table of their own, likewise.
TABLES: dict[str, Any] = {"chain": chain, "abalone": abalone}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [*GROUPS, *LONG, *TABLES]
    parser.add_argument("--only", choices=names, help="one group of rows")
    parser.add_argument(
        "--all", action="store_true", help=f"{', '.join(names[len(GROUPS) :])} as well (long)"
    )
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


def heading(facts: dict[str, str | int | float], repeats: int) -> str:
    named = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "threads")
    return (
        f"{named}\nBLAS and OpenMP threads: {facts['threads']}; "
        f"processor time; ratio = peer / ours, measured in turn: median and range of {repeats} repeats"
    )


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """The table of ratios, and its notes below."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("benchmark", "case"):
        table.add_column(name)
    for name in ("ours (ms)", "peer (ms)", "ratio", "range", "target", "note"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, row in enumerate(rows, 1):
        table.add_row(
            row.name,
            row.case,
            f"{1e3 * row.ours_seconds:.4g}",
            f"{1e3 * row.peer_seconds:.4g}",
            f"{row.ratio:.1f}",
            f"{row.low:.1f} - {row.high:.1f}",
            "" if row.target is None else f">= {row.target:g}",
            str(number) if row.note else "",
        )
    console.print(table)
    for number, row in enumerate(rows, 1):
        if row.note:
            console.print(f"{number:3d}. {row.note}", highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for."""
    options = parsed(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    long = [*LONG, *TABLES] if options.all else []
    names = [options.only] if options.only else [*GROUPS, *long]
    rows: list[Row] = []
    others: dict[str, list[Any]] = {}
    with threadpool_limits(limits=1):
        facts = machine()
        console.print(heading(facts, options.repeats), highlight=False)
        for name in names:
            with console.status(f"{name} ..."):
                if name in LONG:
                    rows += LONG[name](options.repeats, options.tables)
                elif name in TABLES:
                    others[name] = TABLES[name].rows(options.repeats, options.tables)
                else:
                    rows += GROUPS[name](options.repeats)
    if rows:
        print_rows(console, rows)
    for name, found in others.items():
        if found:
            TABLES[name].show(console, found)
    if options.out:
        written = {
            "machine": facts,
            "rows": [asdict(row) for row in rows],
            **{name: [asdict(row) for row in found] for name, found in others.items()},
        }
        options.out.write_text(json.dumps(written, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
