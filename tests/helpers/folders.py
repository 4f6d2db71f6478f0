"""Folders that many tests begin with."""

from collections.abc import Callable
from pathlib import Path

_made: dict[object, dict[str, bytes]] = {}


def made_once(what: object, folder: Path, make: Callable[[], object]) -> None:
    """Fill an empty folder: by a function the first time, later with the same files again."""
    if what not in _made:
        make()
        _made[what] = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, content in _made[what].items():
        (folder / name).write_bytes(content)
