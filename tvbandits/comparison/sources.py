"""Versions of packages, and checksums of the files that a run depends on: a user's modules, and tables.

Rows belong to the code that made them. Files and environment variables that this code reads are not
watched: give them as parameters in the text of a policy, or play into another folder. Files are found
without importing anything, so that the rows of a policy can be checked that a command does not play.
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

OWN_PACKAGE = __name__.partition(".")[0]


def sources_of(texts: Iterable[str]) -> dict[str, int]:
    """Return checksums of the files behind these texts, by module, or by path of a "table:FILE".

    With the module of a "package.module:attribute" go all that it imports, anywhere in its text, and
    what these import; of what is installed it is the module alone. What cannot be found has none, nor
    has this package, which has a version.
    """
    texts = list(texts)
    tables = [match[1] for text in texts if (match := TABLE.fullmatch(text.strip()))]
    parts = (path_of(part) for text in texts for part in re.split("[,=]", text))
    pending = [part.partition(":")[0] for part in parts if part]
    files = {name: Path(name) for name in tables if Path(name).is_file()}
    named = set(pending)
    while pending:
        name = pending.pop()
        file = None if name in files or name.partition(".")[0] == OWN_PACKAGE else _file_of(name)
        if file is None or (_is_installed(file) and name not in named):
            continue
        files[name] = file
        if not _is_installed(file):
            pending += _imports(name, file)
    return {name: _checksum(files[name]) for name in sorted(files)}


def _checksum(file: Path) -> int:
    return zlib.crc32(file.read_bytes())


def _file_of(name: str) -> Path | None:
    """Return the file of a module; None of what is built in, a folder, or cannot be found."""
    loaded = sys.modules.get(name)
    place = _find(name) if loaded is None else vars(loaded).get("__file__")
    return Path(place).resolve() if isinstance(place, str) and Path(place).is_file() else None


def _find(name: str) -> str | None:
    """Return the file of a module that was not imported."""
    path, origin, parts = None, None, name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), path)
        if spec is None or (spec.submodule_search_locations is None and depth < len(parts)):
            return None
        path, origin = spec.submodule_search_locations, spec.origin
    return origin


def _imports(name: str, file: Path) -> Iterator[str]:
    """Yield the modules that a file of Python may import, with the packages around them."""
    try:
        nodes = ast.walk(ast.parse(file.read_bytes()))
    except (SyntaxError, ValueError):  # no file of Python
        return
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    modules = [package] if package else []
    for node in nodes:
        if isinstance(node, ast.Import):
            modules += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                base = resolve_name(base, package)
            except ImportError:  # beyond the package: it cannot be imported
                continue
            # What is imported from a package may be a module of it.
            modules += [base, *(f"{base}.{each.name}" for each in node.names)]
    for module in modules:
        parts = module.split(".")
        yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _is_installed(file: Path) -> bool:
    """Return whether a file belongs to Python or to a package that is installed."""
    library = Path(sysconfig.get_path("stdlib")).resolve()
    return file.is_relative_to(library) or not {"site-packages", "dist-packages"}.isdisjoint(
        file.parts
    )


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the packages that rows may depend on."""
    own = {"tvbandits": __version__, "python": platform.python_version()}
    return own | {name: importlib.metadata.version(name) for name in PACKAGES}
