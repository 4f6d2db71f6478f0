"""Values to bytes and to files, and back.

A file that is whole or not there: written beside its place, then put into it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any

from tvbandits._version import __version__
from tvbandits.core.coercion import file_path, of_kind
from tvbandits.core.files.reading import check_size
from tvbandits.core.files.values import (
    Decoder,
    Encoder,
    SavedFileError,
    Trusted,
    check_table,
    packed,
    unpacked_structure,
)

try:
    import fcntl

    HAS_LOCKS = True
except ImportError:  # Windows, browsers
    HAS_LOCKS = False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; waits for who is in it.

    The lock is the system's, and goes with the process that holds it. Where there is none (Windows,
    browsers, some network disks), nobody is kept out.
    """
    if not HAS_LOCKS:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def to_bytes(value: Any) -> bytes:
    """A value as the bytes of a saved file.

    Raises
    ------
    ValueError
        If a part of it has no name by which it could be read back.
    """
    encoder = Encoder()
    root = encoder.ref(value)
    structure = {"by": __version__, "own": encoder.own, "entries": encoder.entries, "root": root}
    return packed(structure, encoder.arrays)


def from_bytes(data: bytes, trusted: Trusted | None = None) -> Any:
    """The value that `to_bytes` was given.

    Raises
    ------
    SavedFileError
        If the bytes are not those of a saved file, or are damaged, or ask for what is not there.
    ValueError
        If there are more of them than the limit of unpacked bytes (`check_size`).
    """
    return Saved(data, trusted).value()


class Saved:
    """The bytes of a saved file, looked into: only what is asked for is made, or imported.

    Parameters
    ----------
    data : bytes
    trusted : mapping of str to object, optional
        The user's own parts of it, by "module:name".

    Raises
    ------
    SavedFileError, ValueError
        As `from_bytes`.
    """

    def __init__(self, data: bytes, trusted: Trusted | None = None) -> None:
        check_size("unpacked_bytes", len(data))
        structure, self._arrays = unpacked_structure(data)
        self._trusted = {} if trusted is None else trusted
        of_kind("trusted", self._trusted, Mapping, "a mapping by 'module:name'")
        entries = structure.get("entries")
        if not isinstance(entries, list):
            raise SavedFileError("its entries are no list")
        check_table(entries, self._arrays)
        self._entries, self._root = entries, structure.get("root")

    def value(self, *path: str) -> Any:
        """What stands at a path of keys of dictionaries and names of parts; by default, all."""
        wanted = self._at(path)
        return Decoder(self._entries, self._arrays, self._trusted, wanted).value(wanted)

    def word(self, *path: str) -> str | None:
        """The word, or the name, of the part at a path, which is not made; None where there is none."""
        found = self._at(path)
        return None if found is None else str(next(iter(self._entries[found["entry"]].values())))

    def _at(self, path: Sequence[str]) -> Any:
        found: Any = self._root
        for name in path:
            entry = self._entries[found["entry"]]
            found = (entry.get("with") or dict(entry["dict"]))[name]
        return found


def save_value(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value to a file, wholly or not at all.

    Raises
    ------
    ValueError
        If a part of it cannot be saved, or the path is none.
    OSError
        If the file cannot be written; one of that name stays as it was.
    """
    write_whole(file_path("path", path), to_bytes(value))


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
    if not path.parent.exists():  # named as it was given, not as the draft in it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
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


def write_whole(path: Path, data: bytes) -> None:
    """Write a file of one's own wholly or not at all, to the disk.

    Nobody else may read it: it is for what is saved, and for secrets.

    Raises
    ------
    OSError
        If it cannot be written; what was there before stays as it was.
    """

    def write(draft: Path) -> None:
        draft.touch(mode=0o600)
        draft.write_bytes(data)

    put_in_place(path, write, durable=True)


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
