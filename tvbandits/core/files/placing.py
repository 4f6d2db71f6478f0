"""A file that is whole or not there: written beside its place, then put into it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path


def put_in_place(path: Path, write: Callable[[Path], object], *, durable: bool = False) -> None:
    """Let `write` fill a neighbour of `path`, and rename it: `path` is whole, or as it was.

    Parameters
    ----------
    path : Path
    write : callable
        Is given the neighbour, whose name ends like that of `path`: some formats follow from it.
    durable : bool
        The content is on the disk before the name is, so that a power cut leaves no empty file.

    Raises
    ------
    OSError
        If it cannot be written; what was there before stays as it was.
    """
    stem, dot, ending = path.name.partition(".")
    draft = path.with_name(f".{stem}-{os.getpid()}{dot}{ending}")
    try:
        write(draft)
        if durable:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
        draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
