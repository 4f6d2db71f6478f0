"""The pages: every block of code runs alone, every command can be said, every picture is there."""

import pkgutil
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from tests.helpers.modules import absent
from tests.places import ROOT
from tvbandits.cli.main import SEVERAL, app, spread
from tvbandits.cli.problems import READS_FILES, make_problem
from tvbandits.comparison.compare import as_width, compare, simulated
from tvbandits.comparison.entrants import makers_of
from tvbandits.datasets import DriftingBump
from tvbandits.policies.names import parse_spec

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(tvbandits [^`.]+)`")
# The sentence before a block that is to be saved as a module.
SAVED = re.compile(r"`(\w+)\.py`:\s*\Z")


class Block(NamedTuple):
    """A block of a page: `output` stands right below it, and the page saves it as `module`, if so."""

    page: str
    line: int
    kind: str
    text: str
    output: str | None
    module: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    page, name = TEXTS[path], str(path.relative_to(ROOT))
    found = list(FENCED.finditer(page))
    blocks = []
    for block, after in zip(found, [*found[1:], None], strict=False):
        below = after is not None and not page[block.end() : after.start()].strip()
        output = after[2] if after is not None and below and after[1] == "text" else None
        saved = SAVED.search(page[: block.start()])
        line = page.count("\n", 0, block.start()) + 1
        blocks.append(Block(name, line, block[1], block[2], output, saved and saved[1]))
    return blocks


BLOCKS = [block for path in PAGES for block in blocks_of(path)]
PYTHON = [block for block in BLOCKS if block.kind == "python"]


def run(block: Block, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """What a block leaves behind, run with nothing but itself in an empty folder."""
    module = types.ModuleType("page")  # a module, so that its classes can be pickled
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(folder)
    # At its own line, so that a traceback names the line of the page.
    exec(compile("\n" * block.line + block.text, str(ROOT / block.page), "exec"), vars(module))
    return vars(module)


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_a_block_runs_alone_and_prints_what_the_page_says(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(block, monkeypatch, tmp_path)
    if block.output is not None:
        assert capsys.readouterr().out == block.output


@pytest.mark.slow
def test_the_ten_lines_follow_the_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any option; uniform choice loses 0.82 a step."""
    (block,) = [
        block
        for block in PYTHON
        if block.page == "README.md"
        and "bandit = policies.adaptive_gp_ucb(domain)  # learns" in block.text
    ]
    left = run(block, monkeypatch, tmp_path)
    played = left["bandit"].history
    missed = 1 - left["hill"](played[["x0"]].to_numpy(), played["time"].to_numpy())
    assert (len(missed), missed.mean() <= 0.3) == (200, True)


# --- commands ------------------------------------------------------------------------------------


def commands() -> list[tuple[str, str]]:
    """Every `tvbandits ...` of the pages: of console blocks, and of sentences."""
    said = [
        (str(block), line.partition("  #")[0].strip())
        for block in BLOCKS
        if block.kind == "console"
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.startswith("tvbandits ")
    ]
    for path, text in TEXTS.items():
        inline = INLINE.findall(FENCED.sub("", text))
        said += [(path.name, " ".join(each.split())) for each in inline]
    return [(where, line) for where, line in said if "..." not in line and "--help" not in line]


COMMANDS = sorted({line for _, line in commands()})


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The name of the command, and its parameters as the command line reads them."""
    command: Any = typer.main.get_command(app)
    name, rest = "tvbandits", spread(shlex.split(line)[1:], SEVERAL)
    context = command.make_context(name, rest)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return name, context.params


# Modules that pages have their readers save: what they hold is played.
SAVED_AS = {block.module for block in PYTHON if block.module is not None}


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that the pages save, where they can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    for block in PYTHON:
        if block.module is not None:
            (tmp_path / f"{block.module}.py").write_text(block.text, encoding="utf-8")
            monkeypatch.delitem(sys.modules, block.module, raising=False)


def test_every_command_and_option_is_named() -> None:
    said = "".join(TEXTS.values())
    waiting: list[Any] = [typer.main.get_command(app)]
    names: set[str] = set()
    while waiting:
        found = waiting.pop()
        inner = getattr(found, "commands", {})
        waiting += inner.values()
        names |= {*inner, *(name for each in found.params for name in each.opts if "-" in name)}
    unnamed = [name for name in names if not re.search(rf"[` ]{re.escape(name)}(?![\w-])", said)]
    assert not unnamed


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_can_be_said(line: str) -> None:
    check_command(line)


def check_command(line: str) -> None:
    _, given = parsed(line)
    for text in given.get("problem") or ():
        if parse_spec(text)[0] not in READS_FILES:
            assert make_problem(text, [], None).horizon > 0
    makers = makers_of(given.get("policy") or ["uniform"], simulated)
    if mine := {
        name: maker for name, maker in makers.items() if name.partition(":")[0] in SAVED_AS
    }:
        rows = list(compare(DriftingBump(candidates=21, horizon=5), mine, seeds=1))
        assert len(rows) == 5 * len(mine)
    as_width(given.get("confidence"))


@pytest.mark.parametrize("name", ["problems", "policies"])
def test_a_quick_command_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"tvbandits {name}" in COMMANDS
    app([name], standalone_mode=False)
    assert capsys.readouterr().out


# --- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_to_files_and_headings_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", FENCED.sub("", TEXTS[path])):
        file, _, heading = link.partition("#")
        there = path.parent / file if file else path
        if not link.startswith("http"):
            leads = there.exists() and (not heading or heading in headings_of(there))
            assert leads, f"{path.name}: {link}"


def headings_of(path: Path) -> set[str]:
    found = re.findall(r"(?m)^#+ (.+)$", FENCED.sub("", path.read_text(encoding="utf-8")).lower())
    return {re.sub(r"[^\w -]", "", each).replace(" ", "-") for each in found}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", TEXTS[path]):
        assert (ROOT / name).is_file() or (ROOT / "tvbandits" / name).is_file(), name


def test_modules_that_are_named_exist() -> None:
    """`tvbandits.a.b` and `tvbandits.a.b.name`, wherever a page says so."""
    named = set(re.findall(r"`(tvbandits(?:\.\w+)+)", "".join(TEXTS.values())))
    here = {name for name in named if not any(name.startswith(each) for each in absent())}
    for name in sorted(here):
        assert pkgutil.resolve_name(name) is not None


def test_every_paper_has_an_entry_in_bibtex() -> None:
    entries = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    keys = set(re.findall(r"^@\w+\{(\w+),$", entries, re.MULTILINE)) - {"tvbandits"}
    page = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    assert keys == set(re.findall(r"^\| \[(\w+)\] \|", page, re.MULTILINE))
    cited = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\[([A-Z]\w*)\]", cited)) <= keys
