"""Make the quick tables and pictures of the pages again, and say what differs.

`python -m docs.making.check` (or `make results`). Below a table of measurements, or a picture, stands
what made it:

    *Made by `tvbandits compare ...` on 2026-11-21, commit 1a2b3c4, 2 cores of an Intel Xeon.*

and what takes less than about two minutes has a comment besides, in TOML, that says how to compare it:

    <!-- check
    ["width 2"]                    # a column of the table
    run = "tvbandits compare drifting-bump --beta 2"
    value = "average_regret"       # of the summary; after "±" its half interval is compared, too
    within = 0.002
    wider = {ui-gp-ucb = 0.02}     # rows that vary more
    -->

Rows are found by their first cell, the policy. A picture has `[picture]`, with `file`, what the command
leaves in the folder `OUT`, and `within` in grey levels, the root of their mean square; `without` is a
part that no other run draws alike, such as a panel of times: left, top, right and bottom, in shares.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)]+\.png)\).*$", re.MULTILINE)
MADE = re.compile(
    r"\*Made by `(?P<command>[^`]+)`.*? on (?P<date>\d{4}-\d\d-\d\d), commit (?P<commit>[0-9a-f]{7,}),"
    r" (?P<machine>[^*]+)\*",
    re.DOTALL,
)
CHECK = re.compile(r"\s*<!-- check\n(.*?)-->", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")
MEASURED = 0.2
"""A table with decimals in so many of its cells is one of measurements."""


@dataclass(frozen=True)
class Shown:
    """A table of measurements or a picture, who made it, and how it can be compared."""

    page: str
    line: int
    text: str
    made: re.Match[str] | None
    checks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def picture(self) -> Path | None:
        """Its file, if it is one."""
        found = PICTURE.match(self.text)
        return None if found is None else (ROOT / self.page).parent / found[1]


def cells_of(row: str) -> list[str]:
    """The cells of a row of a table, without their markup."""
    return [cell.strip().strip("*`") for cell in row.strip().strip("|").split("|")]


def is_measured(table: str) -> bool:
    """Whether a table is one of measurements."""
    bare = LINK.sub("", table)  # the number of a paper is no measurement
    cells = [cell for row in bare.strip().splitlines()[2:] for cell in cells_of(row)]
    return sum(bool(re.search(r"\d\.\d", cell)) for cell in cells) >= MEASURED * max(len(cells), 1)


def shown_on(path: Path) -> Iterator[Shown]:
    """All tables of measurements and pictures of a page."""
    page = path.read_text(encoding="utf-8")
    bare = FENCED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), page)
    found = [each for each in TABLE.finditer(bare) if is_measured(each[0])]
    found += list(PICTURE.finditer(bare))
    for each in sorted(found, key=lambda one: one.start()):
        after = bare[each.end() :]
        # Below it, or below its caption.
        below = "\n\n".join(after.strip().split("\n\n")[:2])
        made = MADE.search(below)
        checks: dict[str, dict[str, Any]] = {}
        if made is not None:
            comment = CHECK.match(bare, bare.index(made[0], each.end()) + len(made[0]))
            checks = {} if comment is None else tomllib.loads(comment[1])
        line = bare.count("\n", 0, each.start()) + 1
        yield Shown(path.relative_to(ROOT).as_posix(), line, each[0], made, checks)


def ran(command: str, done: dict[str, Path]) -> Path:
    """The folder that a command has left, each run once."""
    if command in done:
        return done[command]
    out = Path(tempfile.mkdtemp(prefix="results-"))
    program, *rest = shlex.split(command)
    words = [word.replace("OUT", str(out)) for word in rest]
    if program == "tvbandits":
        words = ["-m", "tvbandits", *words, "--out", str(out / "run"), "--format", "json"]
    print(f"  {command}", flush=True)
    started = time.monotonic()
    run = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(f"    {time.monotonic() - started:.0f} s", flush=True)
    if run.returncode:
        raise RuntimeError(f"{command} ended with {run.returncode}:\n{run.stderr}")
    (out / "said.json").write_text(run.stdout, encoding="utf-8")
    done[command] = out
    return out


def commands_of(check: dict[str, Any]) -> list[str]:
    """What is to be run: one command, or several whose rows belong together."""
    return [check["run"]] if isinstance(check["run"], str) else list(check["run"])


def numbers(cell: str) -> list[float]:
    """The numbers of a cell: the value, and what stands behind ±."""
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", cell.replace("±", " "))]


def differing_cells(shown: Shown, done: dict[str, Path]) -> list[str]:
    """What of a table is not as it comes out now."""
    head, _, *rows = shown.text.strip().splitlines()
    columns, found = cells_of(head), []
    for column, check in shown.checks.items():
        now = {}
        for command in commands_of(check):
            said = (ran(command, done) / "said.json").read_text("utf-8")
            now |= {row["policy"]: row for row in json.loads(said)["summary"]}
        place = columns.index(column)
        for row in map(cells_of, rows):
            if not numbers(row[place]) or row[0] not in now:
                continue
            values = [now[row[0]][check["value"]]]
            if "±" in row[place]:
                values.append(now[row[0]][f"{check['value']}_ci95"])
            for written, value in zip(numbers(row[place]), values, strict=False):
                if not abs(written - value) <= check.get("wider", {}).get(row[0], check["within"]):
                    found.append(f"{column}, {row[0]}: {written:g} on the page, {value:.4g} now")
        if not now.keys() & {cells_of(row)[0] for row in rows}:
            found.append(
                f"{column}: no row of the table was played by {', '.join(commands_of(check))}"
            )
    return found


def differing_picture(shown: Shown, done: dict[str, Path]) -> list[str]:
    """Whether a picture is not as it comes out now."""
    from matplotlib.image import imread

    check, place = shown.checks["picture"], shown.picture
    assert place is not None
    old, new = (
        imread(each)[..., :3].mean(axis=-1) * 255.0
        for each in (place, ran(check["run"], done) / check["file"])
    )
    height, width = (min(pair) for pair in zip(old.shape, new.shape, strict=True))
    if abs(np.subtract(old.shape, new.shape)).max() > 0.1 * max(old.shape):
        return [f"{place.name}: {old.shape} on the page, {new.shape} now"]
    squares = (old[:height, :width] - new[:height, :width]) ** 2
    left, top, right, bottom = check.get("without", (0, 0, 0, 0))
    rows, columns = (np.arange(size) / size for size in (height, width))
    outside = ((rows < top) | (rows >= bottom))[:, None] | (columns < left) | (columns >= right)
    apart = float(np.sqrt(np.mean(squares[outside])))
    return [] if apart <= check["within"] else [f"{place.name}: {apart:.1f} grey levels apart"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make again what is quick, and print what differs; the number of places that do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a part of page, line or command")
    options = parser.parse_args(arguments)
    done: dict[str, Path] = {}
    differing = 0
    every = [each for path in PAGES for each in shown_on(path)]
    for shown in every:
        made = "nobody" if shown.made is None else shown.made["command"]
        if options.only not in f"{shown} {made}":
            continue
        if not shown.checks:
            print(f"{shown}: not made again, takes long or needs files: {' '.join(made.split())}")
            continue
        print(f"{shown}:")
        compared = differing_picture if shown.picture else differing_cells
        for sentence in (found := compared(shown, done)):
            print(f"    DIFFERS {sentence}")
        print(f"    {'differs' if found else 'the same, within its tolerance'}")
        differing += bool(found)
    print(f"{len(every)} tables and pictures, {differing} differ")
    return differing


if __name__ == "__main__":
    sys.exit(main())
