"""Make the quick tables and pictures of the pages again, and print which of them differ.

`python -m docs.making.check` (or `make results`). The line below a table of measurements or a picture
names the command that made it:

    *Made by `tvbandits compare ...` on 2026-11-21, commit 1a2b3c4, 2 cores of an Intel Xeon.*

If the command takes less than about two minutes, a comment in TOML says how to compare the results:

    <!-- check
    ["width 2"]                    # a column of the table
    run = "tvbandits compare drifting-bump --beta 2"
    value = "average_regret"       # of the summary; after "±" is its half interval
    within = 0.002
    wider = {ui-gp-ucb = 0.02}     # rows that vary more
    -->

The first cell of a row is the name of its policy. For a picture the heading is `[picture]`: `file` is
what the command writes into the folder `OUT`, and `within` is a root mean square in grey levels.
`without` leaves out a part that differs between runs, such as a panel of times: left, top, right and
bottom, as fractions of width and height.
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
PROVENANCE = re.compile(
    r"\*Made by `(?P<command>[^`]+)`.*? on (?P<date>\d{4}-\d\d-\d\d), commit (?P<commit>[0-9a-f]{7,}),"
    r" (?P<machine>[^*]+)\*",
    re.DOTALL,
)
CHECK = re.compile(r"\s*<!-- check\n(.*?)-->", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")

# A table is one of measurements if at least this fraction of its cells has a decimal number.
MEASURED = 0.2

# The file in the folder of a command with the text that it printed.
OUTPUT = "output.json"


@dataclass(frozen=True)
class Exhibit:
    """A table of measurements or a picture of a page, with its provenance and the checks for it.

    Attributes
    ----------
    page : str
    line : int
        Where it begins on the page.
    text : str
        Its Markdown.
    provenance : re.Match or None
        The match of `PROVENANCE` below it.
    checks : dict of str to dict
        How to compare a column, or the picture.
    """

    page: str
    line: int
    text: str
    provenance: re.Match[str] | None
    checks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def picture(self) -> Path | None:
        """Return the file of the picture, or None for a table."""
        match = PICTURE.match(self.text)
        return None if match is None else (ROOT / self.page).parent / match[1]


def cells_of(row: str) -> list[str]:
    """Return the cells of a row of a table, without their markup."""
    return [cell.strip().strip("*`") for cell in row.strip().strip("|").split("|")]


def is_measured(table: str) -> bool:
    """Return whether a table is one of measurements."""
    plain = LINK.sub("", table)  # the number of a paper is not a measurement
    cells = [cell for row in plain.strip().splitlines()[2:] for cell in cells_of(row)]
    return sum(bool(re.search(r"\d\.\d", cell)) for cell in cells) >= MEASURED * max(len(cells), 1)


def find_exhibits(path: Path) -> Iterator[Exhibit]:
    """Yield all tables of measurements and all pictures of a page, from top to bottom."""
    page = path.read_text(encoding="utf-8")
    prose = FENCED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page)
    matches = [each for each in TABLE.finditer(prose) if is_measured(each[0])]
    matches += list(PICTURE.finditer(prose))
    for match in sorted(matches, key=lambda each: each.start()):
        # The provenance is below the table or picture, or below its caption.
        below = "\n\n".join(prose[match.end() :].strip().split("\n\n")[:2])
        provenance = PROVENANCE.search(below)
        checks: dict[str, dict[str, Any]] = {}
        if provenance is not None:
            end = prose.index(provenance[0], match.end()) + len(provenance[0])
            comment = CHECK.match(prose, end)
            checks = {} if comment is None else tomllib.loads(comment[1])
        line = prose.count("\n", 0, match.start()) + 1
        yield Exhibit(path.relative_to(ROOT).as_posix(), line, match[0], provenance, checks)


def run_once(command: str, folders: dict[str, Path]) -> Path:
    """Return the folder with the output of a command, which runs unless `folders` has its folder.

    Raises
    ------
    RuntimeError
        If the command fails.
    """
    if command in folders:
        return folders[command]
    out = Path(tempfile.mkdtemp(prefix="results-"))
    program, *rest = shlex.split(command)
    words = [word.replace("OUT", str(out)) for word in rest]
    if program == "tvbandits":
        words = ["-m", "tvbandits", *words, "--out", str(out / "run"), "--format", "json"]
    print(f"  {command}", flush=True)
    start = time.monotonic()
    process = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(f"    {time.monotonic() - start:.0f} s", flush=True)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}:\n{process.stderr}")
    (out / OUTPUT).write_text(process.stdout, encoding="utf-8")
    folders[command] = out
    return out


def commands_of(check: dict[str, Any]) -> list[str]:
    """Return the commands of a check: one, or several whose rows belong together."""
    return [check["run"]] if isinstance(check["run"], str) else list(check["run"])


def parse_numbers(cell: str) -> list[float]:
    """Return the numbers of a cell: the value, and the half interval after ±."""
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", cell.replace("±", " "))]


def compare_table(exhibit: Exhibit, folders: dict[str, Path]) -> list[str]:
    """Return a sentence for each cell of a table that differs from the present results."""
    head, _, *rows = exhibit.text.strip().splitlines()
    columns, sentences = cells_of(head), []
    for column, check in exhibit.checks.items():
        results = {}
        for command in commands_of(check):
            output = (run_once(command, folders) / OUTPUT).read_text("utf-8")
            results |= {row["policy"]: row for row in json.loads(output)["summary"]}
        place = columns.index(column)
        for row in map(cells_of, rows):
            if not parse_numbers(row[place]) or row[0] not in results:
                continue
            values = [results[row[0]][check["value"]]]
            if "±" in row[place]:
                values.append(results[row[0]][f"{check['value']}_ci95"])
            tolerance = check.get("wider", {}).get(row[0], check["within"])
            for number, value in zip(parse_numbers(row[place]), values, strict=False):
                if not abs(number - value) <= tolerance:
                    sentences.append(f"{column}, {row[0]}: {number:g} on the page, {value:.4g} now")
        if not results.keys() & {cells_of(row)[0] for row in rows}:
            sentences.append(
                f"{column}: no row of the table was played by {', '.join(commands_of(check))}"
            )
    return sentences


def compare_picture(exhibit: Exhibit, folders: dict[str, Path]) -> list[str]:
    """Return a sentence if a picture differs from the present one, else an empty list."""
    from matplotlib.image import imread

    check, path = exhibit.checks["picture"], exhibit.picture
    assert path is not None
    old, new = (
        imread(each)[..., :3].mean(axis=-1) * 255.0
        for each in (path, run_once(check["run"], folders) / check["file"])
    )
    height, width = (min(pair) for pair in zip(old.shape, new.shape, strict=True))
    if abs(np.subtract(old.shape, new.shape)).max() > 0.1 * max(old.shape):
        return [f"{path.name}: {old.shape} on the page, {new.shape} now"]
    squares = (old[:height, :width] - new[:height, :width]) ** 2
    left, top, right, bottom = check.get("without", (0, 0, 0, 0))
    rows, columns = (np.arange(size) / size for size in (height, width))
    outside = ((rows < top) | (rows >= bottom))[:, None] | (columns < left) | (columns >= right)
    distance = float(np.sqrt(np.mean(squares[outside])))
    return [] if distance <= check["within"] else [f"{path.name}: {distance:.1f} grey levels apart"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quick commands, print which results differ, and return how many differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a part of page, line or command")
    options = parser.parse_args(arguments)
    folders: dict[str, Path] = {}
    differing = 0
    exhibits = [each for path in PAGES for each in find_exhibits(path)]
    for exhibit in exhibits:
        provenance = exhibit.provenance
        command = "no command" if provenance is None else " ".join(provenance["command"].split())
        if options.only not in f"{exhibit} {command}":
            continue
        if not exhibit.checks:
            print(f"{exhibit}: skipped, because it takes long or needs files: {command}")
            continue
        print(f"{exhibit}:")
        compare = compare_picture if exhibit.picture else compare_table
        sentences = compare(exhibit, folders)
        for sentence in sentences:
            print(f"    DIFFERS {sentence}")
        print(f"    {'differs' if sentences else 'the same, within its tolerance'}")
        differing += bool(sentences)
    print(f"{len(exhibits)} tables and pictures, of which {differing} differ")
    return differing


if __name__ == "__main__":
    sys.exit(main())
