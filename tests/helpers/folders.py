"""Folders that many tests start from."""

from collections.abc import Callable
from pathlib import Path

_contents: dict[object, dict[str, bytes]] = {}


def fill_once(key: object, folder: Path, make: Callable[[], object]) -> None:
    """Fill an empty folder: by a function the first time, and later with copies of the same files."""
    if key not in _contents:
        make()
        _contents[key] = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, content in _contents[key].items():
        (folder / name).write_bytes(content)
