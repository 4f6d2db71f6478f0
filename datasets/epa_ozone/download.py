"""One file from a server, in as many calls as it takes: what has come is kept, and continued."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import requests

if sys.platform != "win32":
    import fcntl


Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, its bytes so far, and its bytes in all, if known."""


PATIENCE = 30.0
"""Seconds without an answer, or without a byte, after which a server has failed."""


CHUNK = 1 << 14
"""Bytes read at once; when a connection is cut, fewer than these are lost."""


@dataclass(frozen=True)
class Transfer:
    """A download that may take several calls.

    Parameters
    ----------
    url : str
        What to download; http or https.
    part : Path
        Where to; after an error it holds what has come.
    name : str
        What `progress` calls the file.
    progress : callable, optional
        Called after each chunk.
    """

    url: str
    part: Path
    name: str
    progress: Progress | None = None

    @property
    def note(self) -> Path:
        """What `part` is made of: the URL, and how its server marks this edition of it."""
        return self.part.with_name(f"{self.part.name}.json")

    @property
    def kept(self) -> str:
        """What became of the bytes so far, for a message."""
        if self.part.suffix != ".part" or not self.part.exists() or not self.part.stat().st_size:
            return ""
        return f" ({self.part.stat().st_size} bytes are kept; call again to continue)"


def download(transfer: Transfer) -> None:
    """Download a file, continuing what is there if it is of the same origin.

    The next bytes are asked for on condition that the mark in the note still holds; a server that
    has another edition, or knows no ranges, sends the whole. When the part is whole the note is
    removed.

    Raises
    ------
    OSError
        If the server refuses, fails, or stops before the end: one line that names the URL.
        TimeoutError if it does not answer.
    """
    mark = _noted_mark(transfer)
    offset = transfer.part.stat().st_size if mark and transfer.part.exists() else 0
    try:
        if not (offset and _take(transfer, offset, mark)):
            _take(transfer)
    except requests.RequestException as error:
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            raise TimeoutError(
                f"{transfer.url}: no answer within {PATIENCE:g} seconds{transfer.kept}"
            ) from None
        raise OSError(f"{transfer.url}: {_reason(error)}{transfer.kept}") from None
    transfer.note.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Keep other processes out of a folder; the value says whether that is possible here.

    Waits for who is in it. The lock is the system's, and goes with the process that holds it. Where
    there is none (Windows, some network disks), the value is False, and nobody is kept out.
    """
    if sys.platform == "win32":
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _take(transfer: Transfer, offset: int = 0, mark: str = "") -> bool:
    """Ask for the bytes from `offset` on, and write what comes; False if they cannot be had."""
    # Bytes as they are: a compressed answer has another length, and no ranges that add up.
    headers = {"Accept-Encoding": "identity"}
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": mark}
    with requests.get(transfer.url, headers=headers, stream=True, timeout=PATIENCE) as response:
        status = response.status_code
        if offset and status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return False
        if offset and status == HTTPStatus.PARTIAL_CONTENT:
            total = _continued(response, offset, mark)
            if total is None:
                return False
        elif status == HTTPStatus.OK:
            offset, total = 0, _length(response)
            # In this order: a note must never speak of a part that is older than it.
            transfer.part.unlink(missing_ok=True)
            _write_note(transfer, response)
        else:
            said = f"HTTP status {status} {response.reason or ''}".strip()
            raise OSError(f"{transfer.url}: {said}")
        size = _write(transfer, response, offset, total)
    if total is not None and size != total:
        raise OSError(
            f"{transfer.url}: the connection ended after {size} of {total} bytes{transfer.kept}"
        )
    return True


def _write(transfer: Transfer, response: requests.Response, offset: int, total: int | None) -> int:
    """Write the body at the end of the part, or in its place, and return the size."""
    size = offset
    with transfer.part.open("ab" if offset else "wb") as file:
        for chunk in response.iter_content(CHUNK):
            file.write(chunk)
            size += len(chunk)
            if transfer.progress is not None:
                transfer.progress(transfer.name, size, total)
        file.flush()
        os.fsync(file.fileno())
    return size


def _continued(response: requests.Response, offset: int, mark: str) -> int | None:
    """Bytes in all, if the answer goes on from `offset` in the same edition; else None."""
    found = re.fullmatch(
        r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", "").strip()
    )
    other = _mark(response) not in ("", mark)
    if found is None or int(found[1]) != offset or other:
        return None
    return int(found[2])


def _length(response: requests.Response) -> int | None:
    """Bytes of the body, if that is what the server has said."""
    length = response.headers.get("Content-Length", "")
    packed = response.headers.get("Content-Encoding", "identity") != "identity"
    return int(length) if length.isdigit() and not packed else None


def _mark(response: requests.Response) -> str:
    """What tells one edition of a file from another: its ETag, or else when it was modified."""
    tag = response.headers.get("ETag", "")
    # A weak tag promises the same meaning, not the same bytes.
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


def _write_note(transfer: Transfer, response: requests.Response) -> None:
    note = {"url": transfer.url, "mark": _mark(response)}
    transfer.note.write_text(json.dumps(note), encoding="utf-8")


def _noted_mark(transfer: Transfer) -> str:
    """The mark of the edition a part is of; empty if it is of another URL, or not known."""
    try:
        noted = json.loads(transfer.note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(noted, dict) or noted.get("url") != transfer.url:
        return ""
    return str(noted.get("mark") or "")


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached, or has cut the connection"
    return " ".join(str(error).split()) or type(error).__name__
