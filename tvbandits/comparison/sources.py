"""Versions of packages, and checksums of the user's modules and tables that a run depends on.

Rows are kept with the checksums of the code that computed them. Files and environment variables that
this code reads are not checked: give them as parameters in the text of a policy, or use another folder.
Modules are found without importing them, so that rows of policies that are not played can be checked.
"""

from __future__ import annotations

import ast
import importlib.metadata
import platform
import re
import sys
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path

from tvbandits._version import __version__
from tvbandits.policies.names import TABLE, path_of

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib", "matplotlib")

THIS_PACKAGE = __name__.partition(".")[0]


def sources_of(texts: Iterable[str]) -> dict[str, int]:
    """Return checksums of the files that texts depend on, by module, or by path for "table:FILE".

    For "package.module:attribute", these are the module, the modules that it imports anywhere in its
    code, and recursively their imports. Of installed packages, only the module in the text itself has a
    checksum. Modules that cannot be found have none, nor has this package, whose version is recorded.
    """
    texts = list(texts)
    tables = [match[1] for text in texts if (match := TABLE.fullmatch(text.strip()))]
    paths = (path_of(part) for text in texts for part in re.split("[,=]", text))
    queue = [path.partition(":")[0] for path in paths if path]
    files = {name: Path(name) for name in tables if Path(name).is_file()}
    modules_in_texts = set(queue)
    while queue:
        name = queue.pop()
        skips = name in files or name.partition(".")[0] == THIS_PACKAGE
        file = None if skips else _file_of(name)
        if file is None or (_is_installed(file) and name not in modules_in_texts):
            continue
        files[name] = file
        if not _is_installed(file):
            queue += _imports_of(name, file)
    return {name: _checksum(files[name]) for name in sorted(files)}


def _checksum(file: Path) -> int:
    return zlib.crc32(file.read_bytes())


def _file_of(name: str) -> Path | None:
    """Return the file of a module, or None if it is built in, a folder, or cannot be found."""
    module = sys.modules.get(name)
    path = _find_file(name) if module is None else vars(module).get("__file__")
    return Path(path).resolve() if isinstance(path, str) and Path(path).is_file() else None


def _find_file(name: str) -> str | None:
    """Return the path of a module's file, or None, without importing the module."""
    path, origin, parts = None, None, name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), path)
        if spec is None or (spec.submodule_search_locations is None and depth < len(parts)):
            return None
        path, origin = spec.submodule_search_locations, spec.origin
    return origin


def _imports_of(name: str, file: Path) -> Iterator[str]:
    """Yield the modules that a Python file may import, and the packages that contain them."""
    try:
        nodes = ast.walk(ast.parse(file.read_bytes()))
    except (SyntaxError, ValueError):  # it is not Python
        return
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    modules = [package] if package else []
    for node in nodes:
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                base = resolve_name(base, package)
            except ImportError:  # a relative import beyond the package always fails
                continue
            # A name that is imported from a package may be one of its modules.
            modules += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    for module in modules:
        parts = module.split(".")
        yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _is_installed(file: Path) -> bool:
    """Return whether a file belongs to Python's library or to an installed package."""
    library = Path(sysconfig.get_path("stdlib")).resolve()
    return file.is_relative_to(library) or not {"site-packages", "dist-packages"}.isdisjoint(
        file.parts
    )


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the packages that rows may depend on."""
    return {
        "tvbandits": __version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }
