"""The pages: every block of code runs alone, and every command and name exists."""

import ast
import importlib
import inspect
import pkgutil
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer.main

import tvbandits
import tvbandits.datasets
import tvbandits.experts
import tvbandits.policies
from tests.helpers.modules import missing_modules, modules
from tests.places import ROOT
from tvbandits.__main__ import LIST_OPTIONS, app, repeat_options
from tvbandits.comparison.arguments import READS_FILES, as_width, make_problem
from tvbandits.comparison.compare import compare
from tvbandits.datasets import DriftingBump
from tvbandits.policies.names import parse_spec
from tvbandits.policies.registry import label_policies

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(tvbandits [^`.]+)`")
# The sentence before a block that readers save as a module.
SAVED = re.compile(r"`(\w+)\.py`:\s*\Z")


class Block(NamedTuple):
    """A block of a page, with the output below it and the module that it is saved as, if any."""

    page: str
    line: int
    kind: str
    text: str
    output: str | None
    module: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(name: str, page: str) -> list[Block]:
    found = list(FENCED.finditer(page))
    blocks = []
    for block, after in zip(found, [*found[1:], None], strict=False):
        below = after is not None and not page[block.end() : after.start()].strip()
        output = after[2] if after is not None and below and after[1] == "text" else None
        saved = SAVED.search(page[: block.start()])
        line = page.count("\n", 0, block.start()) + 1
        blocks.append(Block(name, line, block[1], block[2], output, saved and saved[1]))
    return blocks


BLOCKS = [block for name, page in TEXTS.items() for block in blocks_of(name, page)]
PYTHON = [block for block in BLOCKS if block.kind == "python"]


def run(block: Block, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """The variables of a block after it ran alone in an empty folder."""
    module = types.ModuleType("page")  # a module, so that its classes can be pickled
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(folder)
    # Empty lines before the code give a traceback the line of the page.
    exec(compile("\n" * block.line + block.text, str(ROOT / block.page), "exec"), vars(module))
    return vars(module)


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_block_of_a_page_runs_alone_and_prints_its_stated_output(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(block, monkeypatch, tmp_path)
    if block.output is not None:
        assert capsys.readouterr().out == block.output


@pytest.mark.slow
def test_ten_lines_of_readme_have_the_stated_regret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tolerance is wide because another processor may round to other choices."""
    (block,) = [
        block
        for block in PYTHON
        if block.page == "README.md"
        and "bandit = policies.adaptive_gp_ucb(domain)  # learns" in block.text
    ]
    left = run(block, monkeypatch, tmp_path)
    played = left["bandit"].history
    missed = 1 - left["hill"](played[["x0"]].to_numpy(), played["time"].to_numpy())
    uniform = [1 - left["hill"](left["domain"].X, t).mean() for t in range(1, 201)]
    said = re.search(r"It loses ([\d.]+\d) a step .* choice loses ([\d.]+\d)", TEXTS["README.md"])
    assert said is not None
    assert len(missed) == 200
    assert missed.mean() == pytest.approx(float(said[1]), abs=0.03)
    assert np.mean(uniform) == pytest.approx(float(said[2]), abs=0.005)


def commands() -> set[str]:
    """Every `tvbandits ...` command in console blocks and sentences of the pages."""
    blocks = [block.text.replace("\\\n", " ") for block in BLOCKS if block.kind == "console"]
    lines = [line.partition("  #")[0].strip() for text in blocks for line in text.splitlines()]
    for text in TEXTS.values():
        lines += [" ".join(each.split()) for each in INLINE.findall(FENCED.sub("", text))]
    return {
        line
        for line in lines
        if line.startswith("tvbandits ") and "..." not in line and "--help" not in line
    }


def parameters(line: str) -> dict[str, Any]:
    """The parameters of a command, parsed by the command line."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("tvbandits", repeat_options(shlex.split(line)[1:], LIST_OPTIONS))
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, rest, parent=context)
    found: dict[str, Any] = context.params
    return found


def check_command(line: str) -> None:
    """Make the problems and the width of a command, and play the policies of its page."""
    found = parameters(line)
    for text in found.get("problem") or ():
        if parse_spec(text)[0] not in READS_FILES:
            assert make_problem(text, [], None).horizon > 0
    makers = label_policies(found.get("policy") or ["uniform"], has_expert=True)
    saved = {block.module for block in PYTHON if block.module is not None}
    mine = {name: maker for name, maker in makers.items() if name.partition(":")[0] in saved}
    if mine:
        rows = compare(DriftingBump(candidates=21, horizon=5), mine, seeds=1)
        assert len(rows) == 5 * len(mine)
    as_width(found.get("beta"))


@pytest.mark.parametrize("line", sorted(commands()))
def test_command_of_a_page_is_valid(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that readers save as modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    for block in PYTHON:
        if block.module is not None:
            (tmp_path / f"{block.module}.py").write_text(block.text, encoding="utf-8")
            monkeypatch.delitem(sys.modules, block.module, raising=False)
    check_command(line)


@pytest.mark.parametrize("name", TEXTS)
def test_page_refers_only_to_existing_modules_and_files(name: str) -> None:
    """Names such as `tvbandits.a.b.name`, and paths of Python files; mkdocs checks the links."""
    for path in re.findall(r"`((?:\w+/)+\w+\.py)`", TEXTS[name]):
        assert (ROOT / path).is_file() or (ROOT / "tvbandits" / path).is_file(), path
    for path in re.findall(r"`(tvbandits(?:\.\w+)+)", TEXTS[name]):
        if not path.startswith(tuple(missing_modules())):
            assert pkgutil.resolve_name(path) is not None


CALL = re.compile(r"`([^`\n]+\([^`\n]*=[^`\n]*\))`")
CALLED = {
    name: getattr(module, name)
    for module in (tvbandits, tvbandits.experts, tvbandits.policies, tvbandits.datasets)
    for name in module.__all__
}


@pytest.mark.parametrize("name", TEXTS)
def test_page_shows_calls_with_existing_parameters(name: str) -> None:
    for code in CALL.findall(FENCED.sub("", TEXTS[name])):
        try:
            tree = ast.parse(code)
        except SyntaxError:  # a sketch of a call
            continue
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            called = CALLED.get(ast.unparse(call.func).rpartition(".")[2])
            if called is not None:
                given = dict.fromkeys(each.arg for each in call.keywords if each.arg)
                inspect.signature(called).bind_partial(**given)


def test_reference_describes_every_public_name() -> None:
    described = set()
    for path in (ROOT / "docs" / "reference").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"::: (\S+)(?:\n    options:\n +members: \[([^]]*)\])?", text):
            if found[1] in missing_modules():
                continue
            module = importlib.import_module(found[1])
            names = re.findall(r"\w+", found[2]) if found[2] else module.__all__
            described |= {id(getattr(module, name)) for name in names}
    public = [
        (f"{module.__name__}.{name}", getattr(module, name))
        for module in (tvbandits, *modules())
        for name in getattr(module, "__all__", ())
        if not name.startswith("__")
    ]
    missing = [
        name
        for name, value in public
        if not isinstance(value, types.ModuleType) and id(value) not in described
    ]
    assert not missing
