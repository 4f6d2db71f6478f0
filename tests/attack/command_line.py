"""Bad words on the command line: one line that names what is wrong, exit status 2, no traceback.

Every command, its options and arguments, every parameter of every problem and policy are found by
themselves; each gets words that nobody means. A word that is welcome must work. Nothing may end in a
traceback, go on without end, take memory without end, or send control characters to the terminal.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import typer

from tests.attack.bad_values import TEXTS
from tests.attack.children import Ended, in_a_child
from tests.attack.report import CRASHED, Count, Found, Trial, in_the_loop, some
from tvbandits.__main__ import app, main
from tvbandits.cli import comparing, inspecting
from tvbandits.comparison.arguments import PROBLEMS, READS_FILES
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone
from tvbandits.policies import POLICIES
from tvbandits.policies.names import parameters_of

# Imported here, and not by every process again; so is what a first call imports (`attack`).
LOADED = (comparing, inspecting)

SECONDS, MEMORY = 40, 3 << 30

# In place of the EPA's server.
NOWHERE = "http://127.0.0.1:9/"

# So that a comparison that is welcome ends soon, and a reading is whole.
SHORT = {"--seeds": "1", "--horizon": "2", "--jobs": "1", "--policy": "uniform"}
SHORT |= {"--site": "0", "--reward": "1", "--value": "1"}

NAMED = """
    99999999999 -1 -99999999999 0 2 nan inf -inf 1e400 1e300 1e-320 5e-324 0x10 1_000 ٣ None true 1,2
    a=b : :: = x: x:y:z %s%n%(x)s{0} $(reboot) - -- --seeds /dev/zero /dev/null /dev/random . pipe loop
    nowhere/at/all binary.csv empty.csv escapes.csv huge-line.csv nuls.csv os:listdir math:pi
    os.path:join nowhere:nothing json:tool tvbandits:Bandit tvbandits.policies:gp_ucb http://127.0.0.1:9/
    file:///etc/passwd
""".split()  # noqa: SIM905 - words, as a text
LONG = ("9" * 30, "9" * 5000, "x" * 10_000, "é" * 50)
OTHER = ("\udcff\udcfe", " ", "[b]x[/b]", *(each for each in TEXTS if "\0" not in each))
# Numbers without end, texts that are none, files of every bad kind, objects of other modules.
WORDS = (*NAMED, *LONG, *OTHER)


@dataclass(frozen=True)
class Line:
    """Arguments of the command, and the name and the word that they are about."""

    arguments: tuple[str, ...]
    name: str
    word: str


def make_files(folder: Path) -> None:
    """Files that are none."""
    (folder / "binary.csv").write_bytes(np.random.default_rng(0).bytes(4096))
    (folder / "empty.csv").write_bytes(b"")
    (folder / "escapes.csv").write_text("\x1b[31mid\x1b[0m,\x1b]0;title\x07x,y\n\x1b[2J,1,2\n")
    (folder / "huge-line.csv").write_bytes(b"x" * 6_000_000)
    (folder / "nuls.csv").write_bytes(b"a,b\n\0\0,1\n")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, by the words that lead to it."""

    def walk(found: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        if hasattr(found, "commands"):
            for name, inner in found.commands.items():
                yield from walk(inner, (*path, name))
        else:
            yield path, found

    yield from walk(typer.main.get_command(app), ())


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def usual(path: tuple[str, ...], command: Any) -> dict[str, tuple[str, ...]]:
    """Arguments that make a command short, by the name of the option or of the argument."""
    known = {each.opts[0] for each in command.params if _is_option(each)}
    found = {name: (name, word) for name, word in SHORT.items() if name in known}
    for each in command.params:
        if not _is_option(each):
            start = "drifting-bump" if "problem" in str(each.name) else "binary.csv"
            found[str(each.name)] = ("ozone" if path[-1] == "fetch" else start,)
    if path[-1] == "fetch":
        found |= {"--years": ("--years", "2008")}
    if path[-1] == "frontier":
        found |= {"--plan": ("--plan", "random"), "--budgets": ("--budgets", "1")}
    return found


def lines() -> list[Line]:
    """Every line that is tried."""
    found = []
    for path, command in commands():
        known = usual(path, command)
        for each in command.params:
            if _is_option(each) and each.is_flag:
                continue
            name = each.opts[0] if _is_option(each) else str(each.name)
            for word in WORDS:
                given = {**known, name: (name, word) if name.startswith("--") else (word,)}
                words = [part for parts in given.values() for part in parts]
                found.append(Line((*path, *words), name.lstrip("-"), word))
    return [*found, *specs()]


def specs() -> Iterator[Line]:
    """Parameters of problems and policies."""
    rest = ("--seeds", "1", "--jobs", "1", "--horizon", "2")
    for name, problem in PROBLEMS.items():
        files = ("--data", "binary.csv") * (problem.files or 1) if name in READS_FILES else ()
        for key in parameters_of(problem.make, skip=int(name in READS_FILES)):
            for word in WORDS:
                spec = f"{name}:{key}={word}"
                yield Line(("compare", spec, *files, "--policy", "uniform", *rest), key, word)
    problem = "drifting-bump:candidates=11"
    for name, policy in POLICIES.items():
        for key in policy.parameters:
            for word in WORDS:
                spec = f"{name}:{key}={word}"
                yield Line(("compare", problem, "--policy", spec, *rest), key, word)


def run(line: Line, folder: Path) -> Ended:
    """One line, in a process and a folder of its own."""

    def call() -> int:
        os.chdir(folder)
        inspecting.fetch_ozone = partial(fetch_ozone, base_url=NOWHERE)
        sys.argv = ["tvbandits", *line.arguments]
        main()
        return 0

    return in_a_child(call, seconds=SECONDS, memory=MEMORY)


# What is refused for another reason than the word that is tried, or by the object that it names.
OTHERS = (
    *("Missing option", "Missing argument", "No such option", "got Situation("),
    *("has no model of the reward", "not https", "the server cannot be reached", "on a server"),
    "is for the table of --csv",
)


def typed(line: Line) -> str:
    """Run it, and judge."""
    with TemporaryDirectory(prefix="attack") as folder:
        make_files(Path(folder))
        ended = run(line, Path(folder))
    said = ended.err.strip()
    if ended.too_long:
        raise Found("without end", f"no end after {SECONDS} s")
    if "Traceback" in ended.err or (ended.status in (70, 1) and "Error" in said.split(":")[0]):
        raise Found(CRASHED, said[-200:])
    if ended.status < 0:
        raise Found(CRASHED, f"signal {-ended.status}")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f\x9b]", ended.out + ended.err):
        raise Found("terminal escapes", repr(said[-120:]))
    if ended.status == 0:
        return "taken"
    if ended.status not in (1, 2):
        raise Found(CRASHED, f"status {ended.status}: {said[-120:]}")
    if ended.status == 1 and not said.startswith("tvbandits: http"):
        raise Found("status 1", said[-160:])
    if said.count("\n") or not said.startswith("tvbandits: "):
        raise Found("not one line", repr(said[:160]))
    if len(said) > 3000:
        raise Found("endless message", f"{len(said)} characters")
    plain = "".join(each if each.isprintable() else " " for each in line.word)
    # A name ends at a colon, if there is anything to see of it; one of the budgets is a budget.
    name, shown = line.name.removesuffix("s"), " ".join(plain.split()).partition(":")[0][:12]
    words = {"binary.csv", "two files", name, name.replace("_", "-"), name.replace("-", "_")}
    named = any(each.casefold() in said.casefold() for each in {*words, shown})
    if not named and not any(each in said for each in OTHERS):
        raise Found("not named", said[-160:])
    return "refused by one line"


@in_the_loop(10**9, 60)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """Try so many lines, drawn at random; all, if there are not as many."""
    with contextlib.suppress(Exception):
        app(["plot", "nowhere"], standalone_mode=False)
    for line in some(lines(), count, seed):
        yield repr(" ".join(each[:60] for each in line.arguments)), partial(typed, line)
