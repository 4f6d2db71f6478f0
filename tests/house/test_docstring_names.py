"""Docstrings and comments refer to existing types of parameters and names between backticks."""

import ast
import builtins
import io
import pkgutil
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from docs.making.package_modules import modules_without_extra
from tests.places import ROOT

# The folders of experts and data sets stand at the top; in the package they are links.
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("tvbandits", "experts", "datasets")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
    and path.relative_to(ROOT).parts[:2]
    not in (("tvbandits", "experts"), ("tvbandits", "datasets"))
)

# Names of other packages, programs and services.
ELSEWHERE = {
    "DataFrame": "pandas",
    "DatetimeIndex": "pandas",
    "Series": "pandas",
    "Timestamp": "pandas",
    "Dask": "the name of a project",
    "Connection": "sqlalchemy",
    "Xopt": "xopt",
    "Discrete": "gymnasium.spaces",
    "Dict": "gymnasium.spaces",
    "optuna.create_study": "optuna",
    "Study": "optuna",
    "study.enqueue_trial": "optuna",
    "study.best_params": "optuna",
    "best_params": "optuna",
    "fetch_california_housing": "sklearn.datasets",
    "fetch_openml": "sklearn.datasets",
    "tls_set": "a client of paho",
    "username_pw_set": "a client of paho",
    "_update_beta": "the authors' program for BBKB",
}

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
FILE = re.compile(r".*\.(css|csv|js|json|md|txt|toml|zip)")
BETWEEN_BACKTICKS = re.compile(r"(`+)([^`\n]+)\1")
ENTRY = re.compile(r"(?P<names>[\w*, .]+?) : (?P<type>.+)")
CLASS_LIKE = re.compile(r"\b_?[A-Z]\w*[a-z]\w*")
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))


def defined_in(path: Path) -> Iterator[str]:
    """Names of functions, classes, modules and values that a file defines or imports."""
    for node in nodes(path):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name
            case ast.alias():
                yield node.asname or node.name.rpartition(".")[2]
            case ast.Assign():
                yield from (each.id for each in node.targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def used_in(path: Path) -> Iterator[str]:
    """Names of parameters, variables and attributes, and words that are values."""
    for node in nodes(path):
        match node:
            case ast.arg(arg=name) | ast.keyword(arg=str(name)) | ast.Name(id=name):
                yield name
            case ast.Attribute(attr=name):
                yield name
            case ast.Constant(value=str(word)) if word.isidentifier():
                yield word


# These sets are made by the tests, so that collecting the tests parses no file.
@cache
def defined() -> set[str]:
    return {name for path in FILES for name in defined_in(path)} | {*dir(builtins)}


@cache
def defined_and_modules() -> set[str]:
    return defined() | {part for path in FILES for part in path.with_suffix("").parts}


@cache
def all_names() -> set[str]:
    return (
        defined_and_modules()
        | {*sys.stdlib_module_names}
        | {name for path in FILES for name in used_in(path)}
    )


def resolves(dotted: str) -> bool:
    try:
        pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError):
        return dotted.startswith(tuple(modules_without_extra()))
    return True


def exists(name: str) -> bool:
    """Whether a name between backticks exists in the package or in ELSEWHERE."""
    if name in ELSEWHERE or FILE.fullmatch(name):
        return True
    first, *rest = name.split(".")
    if first in ("tvbandits", "numpy", "scipy", "pandas", "sklearn"):
        return resolves(name)
    wanted = defined_and_modules() if CLASS_LIKE.fullmatch(first) else all_names()
    return first in wanted and all_names().issuperset(rest)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments of a file, with their lines."""
    for node in nodes(path):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line):
                yield line, text
    source = io.StringIO((ROOT / path).read_text(encoding="utf-8"))
    for token in tokenize.generate_tokens(source.readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def entries(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Names, and classes among their types, that a numpy-style docstring states."""
    inside = False
    for line, below in pairwise([*text.splitlines(), ""]):
        if set(below.strip()) == {"-"}:
            inside = line.strip() in SECTIONS
        elif inside and (entry := ENTRY.fullmatch(line.strip())):
            names = [name.strip(" *") for name in entry["names"].split(",")]
            yield names, CLASS_LIKE.findall(re.sub(r'"[^"]*"', "", entry["type"]))


def references(text: str) -> Iterator[str]:
    """Names between backticks, also of calls."""
    for _, inside in BETWEEN_BACKTICKS.findall(text):
        name = inside.partition("(")[0] if inside.endswith(")") else inside
        if NAME.fullmatch(name):
            yield name


@pytest.mark.parametrize("path", FILES, ids=str)
def test_docstrings_and_comments_refer_only_to_existing_names(path: Path) -> None:
    gone = [
        f"line {line}: {name}"
        for line, text in texts(path)
        for name in (
            *(
                each
                for _, types in entries(text)
                for each in types
                if each not in defined() and each not in ELSEWHERE
            ),
            *(each for each in references(text) if not exists(each)),
        )
    ]
    assert gone == []


def is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).partition("[")[0].endswith("Protocol") for base in node.bases)


# Classes other than protocols, which a docstring must state if the annotation has one.
@cache
def concrete() -> set[str]:
    return {
        node.name
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and not is_protocol(node)
    }


def annotations(node: ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Annotated attributes of a class, and parameters of it or of a function."""
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if each.annotation is not None:
                yield each.arg, ast.unparse(each.annotation)
        return
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                yield name, ast.unparse(annotation)
            case ast.FunctionDef(name="__init__"):
                yield from annotations(part)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_docstrings_state_the_class_of_the_annotation(path: Path) -> None:
    others = [
        f"line {node.lineno}: {name} is {stated[0]}, and {annotated[name]}"
        for node in nodes(path)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for annotated in (dict(annotations(node)),)
        for names, stated in entries(ast.get_docstring(node) or "")
        for name in names
        if len(stated) == 1 and stated[0] in concrete() and name in annotated
        for real in (concrete() & {*re.findall(r"\w+", annotated[name])},)
        if real and stated[0] not in real
    ]
    assert others == []


def test_elsewhere_contains_only_used_names_of_other_packages() -> None:
    said = {
        name
        for path in FILES
        for _, text in texts(path)
        for name in (*references(text), *(each for _, types in entries(text) for each in types))
    }
    assert ELSEWHERE.keys() <= said
    assert not ELSEWHERE.keys() & {
        node.name
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
