"""The house: which folder may import which, how large a room may be, and where matrices are factored."""

from __future__ import annotations

import ast
import pkgutil
from collections import Counter
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from types import ModuleType

import tvbandits
from tests.helpers.modules import modules
from tests.places import ROOT

# A folder imports itself and folders above it. What is in experts and datasets counts as theirs.
ORDER = [
    "core",
    "gp",
    "gp.kernels",
    "core.files",
    "campaign.store",
    "gp.posteriors",
    "gp.fitting",
    "forgetting",
    "queries",
    "gp.ensemble",
    "acquisition",
    "experts",
    "bandit",
    "plots",
    "policies",
    "datasets",
    "campaign",
    "campaign.service",
    "comparison",
    "integrations",
    "cli",
    "",  # tvbandits/__init__.py and __main__.py
]

# All that these may import besides themselves.
ONLY = {
    "experts": {"core", "core.domains", "core.files", "forgetting"},
    "datasets": {"core", "core.domains", "core.files"},
}

# Files that only hand names on: a face may import the rooms that stand behind it.
FACES = ("__init__.py", "__main__.py", "_version.py")

NAMES = """
cholesky cholesky_banded cho_factor cho_solve eig eigh eigvals eigvalsh eig_banded inv pinv pinvh svd
svdvals qr qr_update qr_delete qr_insert rq lu lu_factor lu_solve ldl schur solve solve_triangular
solveh_banded lstsq det slogdet matrix_rank cond sqrtm logm null_space orth lapack dtrsm dtrsv dpotrf
get_lapack_funcs multivariate_normal
"""
# Names in numpy and scipy that factor a matrix, or draw by factoring one.
FACTORISATIONS = set(NAMES.split())

# A drawing of correlated weather, by numpy's own generator.
EXCEPTIONS = {("datasets/epa_ozone/simulated.py", "multivariate_normal")}

LINALG = "tvbandits/core/linalg.py"
LONGEST, MOST_ENTRIES = 800, 25


@dataclass(frozen=True)
class Arrow:
    """One module of the package imports another."""

    importer: str
    imported: str
    where: str


def module_of(path: str) -> str:
    """`tvbandits/gp/x.py` is gp.x, `experts/y.py` is experts.y, and an __init__ is its folder."""
    parts = path.removesuffix(".py").split("/")
    parts = parts[1:] if parts[0] == "tvbandits" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(module: str, modules: dict[str, str]) -> str:
    """The folder that a module counts to, by the order."""
    path = modules[module]
    folder = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    top = folder.split(".")[0]
    return top if top in ("experts", "datasets") else folder


def imports_of(path: str, tree: ast.AST, modules: dict[str, str]) -> list[Arrow]:
    """The arrows out of a file."""
    module, found = module_of(path), []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            # `from package import room` is an arrow to the room, if there is one of that name.
            names = [
                f"{base}.{alias.name}" if _inner(f"{base}.{alias.name}") in modules else base
                for alias in node.names
            ]
        for name in dict.fromkeys(names):
            if name == "tvbandits" or name.startswith("tvbandits."):
                found += [Arrow(module, _inner(name), f"{path}:{node.lineno}")]
    return found


def _inner(name: str) -> str:
    return name.removeprefix("tvbandits").removeprefix(".")


def factorisations(path: str, tree: ast.AST) -> list[tuple[str, str]]:
    """Where a file uses a factorisation that is not linalg.py's, and its name."""
    ours: set[str] = set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if source.startswith("tvbandits"):
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
    modules = {module_of(path): path for path in sources}
    arrows = [arrow for path in sources for arrow in imports_of(path, trees[path], modules)]
    folders = {module: folder_of(module, modules) for module in modules}
    found = [
        f"{module}: {folder} is not in the order of folders"
        for module, folder in sorted(folders.items())
        if folder not in ORDER
    ]
    found += [complaint for arrow in arrows for complaint in wrongs_of(arrow, folders)]
    found += circles_in(arrows, modules) + crowds_in(sources)
    for path, source in sources.items():
        if path != LINALG:
            found += [
                f"{where}: {name} is a factorisation, which belongs to linalg.py"
                for where, name in factorisations(path, trees[path])
                if (path, name) not in EXCEPTIONS
            ]
        if (length := len(source.splitlines())) > LONGEST:
            found.append(f"{path}: {length} lines, more than {LONGEST}")
    return found


def wrongs_of(arrow: Arrow, folders: dict[str, str]) -> list[str]:
    """What is wrong with one arrow."""
    what = f"{arrow.where}: {arrow.importer or 'tvbandits'} imports {arrow.imported or 'tvbandits'}"
    if arrow.imported == "_version":
        return []
    if arrow.imported not in folders:
        return [f"{what}, which does not exist"]
    importer, imported = folders[arrow.importer], folders[arrow.imported]
    if importer not in ORDER or imported not in ORDER or importer == imported:
        return []
    is_face = arrow.importer == importer  # the module of that name is the folder's __init__
    if is_face and arrow.imported.startswith(f"{importer}."):
        return []  # it hands on names of the rooms behind it
    if importer in ONLY and imported not in ONLY[importer]:
        return [f"{what}, but {importer} may import {sorted(ONLY[importer])} only"]
    if ORDER.index(imported) > ORDER.index(importer):
        return [f"{what}, which is below it"]
    return []


def circles_in(arrows: list[Arrow], modules: dict[str, str]) -> list[str]:
    """Circles of files, and of the folders they stand in, folders inside of folders told apart."""
    rooms = {module for module, path in modules.items() if not path.endswith(FACES)}
    files: dict[str, set[str]] = {module: set() for module in rooms}
    folders: dict[str, set[str]] = {module.rpartition(".")[0]: set() for module in rooms}
    for arrow in arrows:
        if arrow.importer in rooms and arrow.imported in rooms:
            files[arrow.importer].add(arrow.imported)
            one, other = (m.rpartition(".")[0] for m in (arrow.importer, arrow.imported))
            if one != other:
                folders[one].add(other)
    found = []
    for what, graph in (("files", files), ("folders", folders)):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            found.append(f"circle of {what}: {' -> '.join(error.args[1])}")
    return found


def crowds_in(sources: dict[str, str]) -> list[str]:
    """Folders that hold too much."""
    entries: dict[str, set[str]] = {}
    for path in sources:
        parts = path.split("/")
        if parts[-1] in FACES:
            continue
        for i in range(1, len(parts)):
            entries.setdefault("/".join(parts[:i]), set()).add(parts[i])
    return [
        f"{folder}: {len(held)} entries, more than {MOST_ENTRIES}"
        for folder, held in entries.items()
        if len(held) > MOST_ENTRIES
    ]


def package() -> dict[str, str]:
    """The files of the package, by path; links inside of it are not followed."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("tvbandits", "experts", "datasets")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
    }


# --- the package ----------------------------------------------------------------------------------


def test_the_package_keeps_to_its_layout() -> None:
    assert complaints(package()) == []


def test_no_exception_is_left_over() -> None:
    used = {
        (path, name)
        for path, source in package().items()
        for _, name in factorisations(path, ast.parse(source))
    }
    assert used >= EXCEPTIONS


def test_experts_and_datasets_stand_in_the_package() -> None:
    for name in ("experts", "datasets"):
        assert (ROOT / "tvbandits" / name).is_symlink()
        assert (ROOT / "tvbandits" / name).resolve() == ROOT / name


def test_no_name_shadows_a_module() -> None:
    packages = [module for module in modules() if hasattr(module, "__path__")]
    assert len(packages) > 20
    for outer in (tvbandits, *packages):
        for found in pkgutil.iter_modules(outer.__path__):
            inner = getattr(outer, found.name, None)
            assert inner is None or isinstance(inner, ModuleType), f"{outer.__name__}.{found.name}"


def test_no_two_classes_share_a_name() -> None:
    nodes = (node for source in package().values() for node in ast.walk(ast.parse(source)))
    names = Counter(each.name.strip("_") for each in nodes if isinstance(each, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


# --- the test itself, on a package that is wrong ----------------------------------------------------

TERMS = "tvbandits/gp/kernels/terms.py"
GOOD = {
    LINALG: "from scipy.linalg import cholesky\nimport numpy as np\nnp.linalg.eigh(0)\n",
    TERMS: "from tvbandits.core import linalg\nlinalg.cholesky(0)\n",
    "tvbandits/gp/fitting/online.py": "from tvbandits.gp.kernels.terms import k\n",
    "experts/functions.py": "from tvbandits.core.arrays import Array\n",
    "tvbandits/core/arrays.py": "import numpy as np\n",
}
WRONG = [
    (LINALG, "from tvbandits.gp.kernels import terms", "terms, which is below it"),
    (TERMS, "from tvbandits.gp.fitting.online import f", "circle of files: "),
    ("experts/functions.py", "from tvbandits.gp.kernels.terms import k", "may import ['core', "),
    ("tvbandits/attic/box.py", "", "attic is not in the order of folders"),
    (TERMS, "import numpy as np\nnp.linalg.cholesky(0)", "terms.py:2: cholesky is a factorisation"),
    (TERMS, "from scipy import linalg as la\nla.cho_factor(0)", "terms.py:2: cho_factor is a"),
    (TERMS, "x = 0\n" * (LONGEST + 1), f"{LONGEST + 1} lines, more than {LONGEST}"),
]


def test_a_wrong_package_is_complained_about() -> None:
    assert complaints(GOOD) == []
    for path, source, complaint in WRONG:
        found = complaints({**GOOD, path: source})
        assert any(complaint in each for each in found), found
