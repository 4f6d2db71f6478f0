"""The rooms of the package and what they may import: arrows run one way."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ORDER = [
    "_version",
    "observations",
    "protocols",
    "linalg",
    "kernels",
    "aging",
    "growing",
    "surface",
    "posterior",
    "sparse_posterior",
    "bless",
    "drifting",
    "nystrom",
    "exact",
    "terms",
    "statespace",
    "view",
    "confidence",
    "domains",
    "swap_chain",
    "dpp",
    "beliefs",
    "budgets",
    "queries",
    "batching",
    "fantasy",
    "scaling",
    "members",
    "triggers",
    "evidence",
    "learning",
    "pacing",
    "recipe",
    "model",
    "consult",
    "choosing",
    "bandit",
    "evaluation",
    "recommended",
    "baselines",
    "thompson",
    "structured",
    "recipes",
    "registry",
    "policies",
    "references",
    "experts",
    "datasets",
    "specs",
    "data_commands",
    "tables",
    "prepare",
    "contestants",
    "compare",
    "plots",
    "maps",
    "output",
    "frontier",
    "catalogue",
    "console",
    "cli",
    "__main__",
    "tvbandits",  # __init__.py, which a user imports from
]
"""A room imports only rooms above it."""

ONLY = {
    "experts": {"observations", "protocols", "aging"},
    "datasets": {"observations", "protocols", "domains", "linalg", "kernels", "references"},
}
"""All that these may import besides themselves."""

MAY_IMPORT_OUTER_ROOMS = {
    "experts",
    "datasets",
    "contestants",
    "compare",
    "data_commands",
    "catalogue",
    "cli",
}
"""Who may import experts and datasets."""

NAMES = """
cholesky cholesky_banded cho_factor cho_solve eig eigh eigvals eigvalsh eig_banded inv pinv pinvh svd
svdvals qr qr_update qr_delete qr_insert rq lu lu_factor lu_solve ldl schur solve solve_triangular
solveh_banded lstsq det slogdet matrix_rank cond sqrtm logm null_space orth lapack dtrsm dtrsv dpotrf
get_lapack_funcs multivariate_normal
"""
FACTORISATIONS = set(NAMES.split())
"""Names in numpy and scipy that factor a matrix, or draw by factoring one."""

EXCEPTIONS = {("datasets/ozone_network.py", "multivariate_normal")}
"""A drawing of correlated weather, by numpy's own generator."""

LONGEST = 440


@dataclass(frozen=True)
class Arrow:
    """One module of the package imports another."""

    importer: str
    imported: str
    where: str


def module_of(path: str) -> str:
    """`tvbandits/x.py` is x, `experts/y.py` is experts.y, and an __init__ is its folder."""
    folder, name = path.removesuffix(".py").rsplit("/", 1)
    if name == "__init__":
        return folder
    return name if folder == "tvbandits" else f"{folder}.{name}"


def room_of(module: str) -> str:
    return module.split(".")[0]


def imports_of(path: str, tree: ast.AST, modules: set[str]) -> list[Arrow]:
    """The arrows out of a file."""
    module, found = module_of(path), []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                folder = path.split("/", maxsplit=1)[0]
                package = "tvbandits" if folder == "tvbandits" else f"tvbandits.{folder}"
                package = package.rsplit(".", node.level - 1)[0]
                base = f"{package}.{base}" if base else package
            # `from package import room` is an arrow to the room, if there is one of that name.
            names = [
                f"{base}.{alias.name}"
                if f"{base}.{alias.name}".removeprefix("tvbandits.") in modules
                else base
                for alias in node.names
            ]
        for name in dict.fromkeys(names):
            if name == "tvbandits" or name.startswith("tvbandits."):
                imported = name.removeprefix("tvbandits.")
                found.append(Arrow(module, imported, f"{path}:{node.lineno}"))
    return found


def lazy_imports(path: str, tree: ast.AST) -> list[str]:
    """Imports inside of functions, and those by name."""
    found = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        found |= {
            f"{path}:{node.lineno}: an import inside of a function"
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in ("__import__", "import_module"):
                found.add(f"{path}:{node.lineno}: an import by name")
    return sorted(found)


def factorisations(path: str, tree: ast.AST) -> list[tuple[str, str]]:
    """Where a file uses a factorisation that is not linalg.py's, and its name."""
    ours: set[str] = set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level or source.startswith("tvbandits"):
                ours |= {alias.asname or alias.name for alias in node.names}
            elif source.split(".")[0] in ("numpy", "scipy"):
                parts = [*source.split(".")[1:], *(alias.name for alias in node.names)]
                found += [(node, name) for name in parts if name in FACTORISATIONS]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in FACTORISATIONS:
            base = node.value
            if not (isinstance(base, ast.Name) and base.id in ours):
                found.append((node, node.attr))
    return [(f"{path}:{node.lineno}", name) for node, name in found]


def complaints(sources: dict[str, str]) -> list[str]:
    """Everything that is wrong with a package of these files."""
    trees = {path: ast.parse(source) for path, source in sources.items()}
    modules = {module_of(path) for path in sources}
    arrows = [arrow for path in sources for arrow in imports_of(path, trees[path], modules)]
    found = [
        f"{module}: not in the order of rooms"
        for module in sorted(modules)
        if room_of(module) not in ORDER
    ]
    found += [complaint for arrow in arrows for complaint in wrongs_of(arrow, modules)]
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for arrow in arrows:
        graph[arrow.importer].add(arrow.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"import cycle: {' -> '.join(error.args[1])}")
    for path, source in sources.items():
        found += lazy_imports(path, trees[path])
        if path != "tvbandits/linalg.py":
            found += [
                f"{where}: {name} is a factorisation, which belongs to linalg.py"
                for where, name in factorisations(path, trees[path])
                if (path, name) not in EXCEPTIONS
            ]
        if (length := len(source.splitlines())) > LONGEST:
            found.append(f"{path}: {length} lines, more than {LONGEST}")
    return found


def wrongs_of(arrow: Arrow, modules: set[str]) -> list[str]:
    """What is wrong with one arrow."""
    importer, imported = room_of(arrow.importer), room_of(arrow.imported)
    what = f"{arrow.where}: {arrow.importer} imports {arrow.imported}"
    if arrow.imported not in modules:
        return [f"{what}, which does not exist"]
    if importer not in ORDER or imported not in ORDER or importer == imported:
        return []
    found = []
    if ORDER.index(imported) > ORDER.index(importer):
        found.append(f"{what}, which is below it")
    if importer in ONLY and imported not in ONLY[importer]:
        found.append(f"{what}, but {importer} may import {sorted(ONLY[importer])} only")
    if imported in ("experts", "datasets") and importer not in MAY_IMPORT_OUTER_ROOMS:
        found.append(f"{what}, but only compare and cli may")
    return found


def package() -> dict[str, str]:
    """The files of the package, by path."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("tvbandits", "experts", "datasets")
        for path in sorted((ROOT / folder).glob("*.py"))
    }


# --- the package ----------------------------------------------------------------------------------


def test_the_package_keeps_to_its_layout() -> None:
    assert complaints(package()) == []


def test_the_graph_is_read() -> None:
    sources = package()
    assert len(sources) > 25
    modules = {module_of(path) for path in sources}
    arrows = {
        (arrow.importer, arrow.imported)
        for path, source in sources.items()
        for arrow in imports_of(path, ast.parse(source), modules)
    }
    assert {
        ("linalg", "observations"),
        ("queries", "dpp"),
        ("recipes", "aging"),
        ("experts.simulator", "protocols"),
        ("experts", "experts.simulator"),
        ("datasets.synthetic", "domains"),
        ("datasets.ozone", "datasets.table"),
        ("tvbandits", "bandit"),
        ("tvbandits", "policies"),
    } <= arrows
    assert len(ORDER) == len(set(ORDER))


def test_no_exception_is_left_over() -> None:
    used = {
        (path, name)
        for path, source in package().items()
        for _, name in factorisations(path, ast.parse(source))
    }
    assert used >= EXCEPTIONS


def test_no_folder_is_forgotten() -> None:
    # A folder of its own inside of one of the three would be read by nobody here.
    for folder in ("tvbandits", "experts", "datasets"):
        inner = [path for path in (ROOT / folder).rglob("*.py") if path.parent != ROOT / folder]
        assert inner == []


# --- the test itself, on a package that is wrong ----------------------------------------------------

GOOD = {
    "tvbandits/__init__.py": "from tvbandits.bandit import Bandit\nfrom tvbandits import policies\n",
    "tvbandits/observations.py": "import numpy as np\n",
    "tvbandits/protocols.py": "from tvbandits.observations import Array\n",
    "tvbandits/linalg.py": "from scipy.linalg import cholesky\nimport numpy as np\nnp.linalg.eigh(0)\n",
    "tvbandits/kernels.py": "from tvbandits import linalg\nlinalg.cholesky(0)\n",
    "tvbandits/bandit.py": "from .kernels import k\nfrom . import protocols\n",
    "tvbandits/policies.py": "import tvbandits.bandit\n",
    "tvbandits/compare.py": "from tvbandits.experts import E\nimport numpy\nnumpy.linalg.norm(0)\n",
    "experts/__init__.py": "from .simulator import E\n",
    "experts/simulator.py": "from tvbandits.protocols import Answers\n",
    "datasets/__init__.py": "from tvbandits.datasets.table import T\n",
    "datasets/table.py": "from tvbandits.kernels import k\n",
}


def test_a_good_package_has_no_complaints() -> None:
    assert complaints(GOOD) == []


SEVERAL_LINES = "x = 0\n" * (LONGEST + 1)
WRONG = {
    "upwards": ("tvbandits/observations.py", "from tvbandits.bandit import B", "which is below it"),
    "upwards, by name": (
        "tvbandits/linalg.py",
        "from tvbandits import kernels",
        "kernels, which is",
    ),
    "upwards, relative": (
        "tvbandits/linalg.py",
        "from . import kernels",
        "kernels, which is below",
    ),
    "upwards, plain": ("tvbandits/linalg.py", "import tvbandits.kernels as k", "which is below it"),
    "upwards, if typing": (
        "tvbandits/linalg.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tvbandits.kernels import k",
        "linalg.py:3: linalg imports kernels, which is below it",
    ),
    "the package itself": (
        "tvbandits/policies.py",
        "from tvbandits import Bandit",
        "policies imports tvbandits, which is below it",
    ),
    "cycle": ("tvbandits/kernels.py", "from tvbandits.bandit import B", "import cycle: "),
    "cycle of siblings": (
        "experts/simulator.py",
        "from tvbandits.experts import x",
        "import cycle: ",
    ),
    "lazy": (
        "tvbandits/policies.py",
        "def f():\n    import json",
        "policies.py:2: an import insid",
    ),
    "lazy, nested": (
        "tvbandits/policies.py",
        "class A:\n    async def f(self):\n        if 1:\n            from os import path",
        "policies.py:4: an import inside of a function",
    ),
    "by name": (
        "tvbandits/policies.py",
        "import importlib\nimportlib.import_module('tvbandits.cli')",
        "policies.py:2: an import by name",
    ),
    "expert with a kernel": (
        "experts/simulator.py",
        "from tvbandits.kernels import k",
        "but experts may import ['aging', 'observations', 'protocols'] only",
    ),
    "expert with a kernel, relative": (
        "experts/simulator.py",
        "from ..kernels import k",
        "but experts may import ['aging', 'observations', 'protocols'] only",
    ),
    "dataset with an expert": (
        "datasets/table.py",
        "from tvbandits.experts import E",
        "but datasets may import",
    ),
    "core with a dataset": (
        "tvbandits/bandit.py",
        "from tvbandits.datasets.table import T",
        "but only compare and cli may",
    ),
    "late core with an expert": (
        "tvbandits/output.py",
        "from tvbandits.experts import E",
        "but only compare and cli may",
    ),
    "unknown room": ("tvbandits/attic.py", "", "attic: not in the order of rooms"),
    "nothing there": (
        "tvbandits/policies.py",
        "from tvbandits.cellar import wine",
        "policies imports cellar, which does not exist",
    ),
    "numpy's": (
        "tvbandits/kernels.py",
        "import numpy as np\nL = np.linalg.cholesky(0)",
        "kernels.py:2: cholesky is a factorisation",
    ),
    "scipy's": (
        "tvbandits/kernels.py",
        "from scipy.linalg import solve_triangular as s",
        "kernels.py:1: solve_triangular is a factorisation",
    ),
    "scipy's, by its module": (
        "tvbandits/kernels.py",
        "import scipy\nscipy.linalg.eigh(0)",
        "kernels.py:2: eigh is a factorisation",
    ),
    "scipy's, by another name": (
        "tvbandits/kernels.py",
        "from scipy import linalg as la\nla.cho_factor(0)",
        "kernels.py:2: cho_factor is a factorisation",
    ),
    "lapack": ("tvbandits/kernels.py", "from scipy.linalg.lapack import dpotrf", "lapack is a"),
    "blas": ("datasets/table.py", "from scipy.linalg import blas\nblas.dtrsm(1)", "dtrsm is a"),
    "long": ("tvbandits/kernels.py", SEVERAL_LINES, f"{LONGEST + 1} lines, more than {LONGEST}"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_package_is_complained_about(wrong: str) -> None:
    path, source, complaint = WRONG[wrong]
    found = complaints({**GOOD, path: source})
    assert any(complaint in each for each in found), found
    assert all(path in each or module_of(path) in each for each in found)
