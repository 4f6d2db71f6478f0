"""A file that is whole or not there: written beside its place, then put into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from stat import S_ISREG


def put_in_place(
    path: Path,
    write: Callable[[Path], object],
    *,
    durable: bool = False,
    replaces: Callable[[Path], bool] | None = None,
) -> None:
    """Let `write` fill a draft, and rename it: `path` is whole, or as it was.

    Parameters
    ----------
    path : Path
    write : callable
        Is given the draft, in a folder of its own beside `path` and of the same name: some formats
        follow from it. Whatever else `write` leaves in that folder is removed.
    durable : bool
        The content is on the disk before the name is, so that a power cut leaves no empty file.
    replaces : callable, optional
        Whether the file at `path` may be replaced; a folder or a link never is. By default everything
        is.

    Raises
    ------
    FileExistsError
        If there is something that may not be replaced.
    OSError
        If it cannot be written; what was there before stays as it was.
    """
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        write(draft)
        if durable:
            _sync(draft)
        if replaces is None or (is_plain(path) and replaces(path)):
            draft.replace(path)
        else:
            _put_new(draft, path)
    if durable and hasattr(os, "O_DIRECTORY"):  # the new name is on the disk, too
        _sync(path.parent)


def is_plain(path: Path) -> bool:
    """Whether there is a file, and no folder, link, or device."""
    return os.path.lexists(path) and S_ISREG(path.lstat().st_mode)


def _put_new(draft: Path, path: Path) -> None:
    """Give a draft its name, which nobody else has."""
    try:
        os.link(draft, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(f"{path}: there is something already") from None
        draft.rename(path)  # on a disk without hard links


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
