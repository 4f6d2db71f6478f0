"""One file from a server, in as many calls as it takes: what has come is kept, and continued.

Connections to a server that end when the time is out, whatever they are doing.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from tvbandits.core.arrays import flag, positive_number, whole_number
from tvbandits.core.coercion import cleaned, has_controls


@contextlib.contextmanager
def ended_at(deadline: float) -> Iterator[requests.Session]:
    """A session whose connections end at the deadline, whatever they are doing.

    A time-out is of each byte: a server that sends a header, or a handshake, a byte a second, or says
    "100 Continue" without end, would never be left.
    """
    held: list[socket.socket] = []

    def remembered(new: socket.socket) -> socket.socket:
        held.append(socket.socket(fileno=os.dup(new.fileno())))
        return new

    class Plain(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return remembered(super()._new_conn())

    class Encrypted(urllib3.connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return remembered(super()._new_conn())

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Encrypted

    def end() -> None:
        for each in tuple(held):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(deadline - time.monotonic(), 0.0), end)
    timer.daemon = True
    timer.start()
    try:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                adapter = requests.adapters.HTTPAdapter()
                adapter.poolmanager.pool_classes_by_scheme = {
                    "http": PlainPool,
                    "https": EncryptedPool,
                }
                session.mount(scheme, adapter)
            yield session
    finally:
        timer.cancel()
        for each in held:
            each.close()


if sys.platform != "win32":
    import fcntl


Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, its bytes so far, and its bytes in all, if known."""


PATIENCE = 30.0
"""Seconds without an answer, or without a byte, after which a server has failed."""


CHUNK = 1 << 14
"""Bytes read at once; when a connection is cut, fewer than these are lost."""


@dataclass(frozen=True)
class DownloadLimits:
    """How far a server is trusted.

    Attributes
    ----------
    largest : int
        Bytes of a file; a longer one is given up, and nothing of it is kept.
    seconds : float
        For a whole file, however slowly it comes; what has come is kept, and continued.
    anywhere : bool
        Whether http, a server of this machine or network, and redirects to other hosts will do.
        Otherwise it is https, from the host that was named, and nowhere else.

    Examples
    --------
    >>> from tvbandits.datasets import DownloadLimits
    >>> print(DownloadLimits(seconds=600.0).seconds)
    600.0
    """

    largest: int = 500_000_000
    seconds: float = 3600.0
    anywhere: bool = False

    def __post_init__(self) -> None:
        whole_number("largest", self.largest)
        positive_number("seconds", self.seconds)
        flag("anywhere", self.anywhere)

    def check(self, url: str, origin: str) -> None:
        """Raise an `OSError` unless `url` is where a file of `origin` may come from."""
        found, named = urlsplit(url), urlsplit(origin)
        where = url if url == origin else f"{origin}: the server sends us to {url}"
        if found.scheme not in ("http", "https") or not found.hostname:
            raise OSError(f"{where}: neither http nor https")
        if self.anywhere:
            return
        if found.scheme != "https":
            raise OSError(
                f"{where}: not https; DownloadLimits(anywhere=True) takes it all the same"
            )
        if (found.hostname, found.port) != (named.hostname, named.port):
            raise OSError(
                f"{origin}: the server sends us to another host, {found.hostname}; "
                "DownloadLimits(anywhere=True) follows"
            )


MOST_REDIRECTS = 5


LONGEST_URL = 4000


ODD = (ValueError, http.client.HTTPException)
"""What else comes of headers that are none: ports, lengths and addresses that nobody can read."""


BARREN = 3
"""After so many calls in a row that bring no byte, a download starts over."""


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
    limits : DownloadLimits
    session : requests.Session, optional
        What asks the server.
    """

    url: str
    part: Path
    name: str
    progress: Progress | None = None
    limits: DownloadLimits = DownloadLimits()
    session: requests.Session | None = None

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
    transfer.limits.check(transfer.url, transfer.url)
    deadline = time.monotonic() + transfer.limits.seconds
    try:
        with ended_at(deadline) as session:
            _download(replace(transfer, session=session), deadline, offset, mark)
    except (requests.RequestException, urllib3.exceptions.HTTPError, *ODD) as error:
        if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
            raise
        if time.monotonic() > deadline:
            raise TimeoutError(_too_slow(transfer)) from None
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            raise TimeoutError(
                f"{transfer.url}: no answer within {PATIENCE:g} seconds{transfer.kept}"
            ) from None
        raise OSError(f"{transfer.url}: {_reason(error)}{transfer.kept}") from None
    except EOFError as error:
        if time.monotonic() > deadline:
            raise TimeoutError(_too_slow(transfer)) from None
        raise OSError(str(error)) from None
    transfer.note.unlink(missing_ok=True)


def _download(transfer: Transfer, deadline: float, offset: int, mark: str) -> None:
    """Go on with a part, or ask for the whole."""
    barren = False
    try:
        if offset and _take(transfer, deadline, offset, mark):
            return
    except (EOFError, requests.exceptions.ChunkedEncodingError):
        times = 0 if transfer.part.stat().st_size > offset else _noted_barren(transfer) + 1
        barren = times >= BARREN
        if not barren:
            _write_note(transfer, mark, times)
            raise
    try:
        _take(transfer, deadline)
    except (EOFError, requests.exceptions.ChunkedEncodingError):
        if not barren:
            raise
        # It promises more than it has: to call again would never end.
        transfer.part.unlink(missing_ok=True)
        transfer.note.unlink(missing_ok=True)
        raise OSError(
            f"{transfer.url}: the server promises more bytes than it sends; what came has been removed"
        ) from None


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


def _take(transfer: Transfer, deadline: float, offset: int = 0, mark: str = "") -> bool:
    """Ask for the bytes from `offset` on, and write what comes; False if they cannot be had."""
    # Bytes as they are: a compressed answer has another length, and no ranges that add up.
    headers = {"Accept-Encoding": "identity"}
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": mark}
    with _answer(transfer, headers, deadline) as response:
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
            _write_note(transfer, _mark(response))
        else:
            said = cleaned(f"HTTP status {status} {response.reason or ''}".strip(), 200)
            raise OSError(f"{transfer.url}: {said}")
        if total is not None:
            _check_length(transfer, total)
        size = _write(transfer, response, deadline, offset, total)
    if total is not None and size != total:
        raise EOFError(
            f"{transfer.url}: the connection ended after {size} of {total} bytes{transfer.kept}"
        )
    return True


def _answer(transfer: Transfer, headers: dict[str, str], deadline: float) -> requests.Response:
    """The answer of the server, after redirects to where a file may come from."""
    url = transfer.url
    for _ in range(MOST_REDIRECTS + 1):
        patience = max(min(PATIENCE, deadline - time.monotonic()), 0.001)
        response = (transfer.session or requests).get(
            url, headers=headers, stream=True, timeout=patience, allow_redirects=False
        )
        if not response.is_redirect:
            return response
        response.close()
        there = response.headers["Location"]
        if has_controls(there) or len(there) > LONGEST_URL:
            raise OSError(f"{transfer.url}: the server sends us to what is no address")
        url = urljoin(url, there)
        transfer.limits.check(url, transfer.url)
    raise OSError(f"{transfer.url}: more than {MOST_REDIRECTS} redirects")


def _too_slow(transfer: Transfer) -> str:
    return (
        f"{transfer.url}: not whole after {transfer.limits.seconds:g} seconds{transfer.kept}; "
        "DownloadLimits(seconds=...) waits longer"
    )


def _check_length(transfer: Transfer, size: int) -> None:
    if size > transfer.limits.largest:
        transfer.part.unlink(missing_ok=True)
        transfer.note.unlink(missing_ok=True)
        raise OSError(
            f"{transfer.url}: {size} bytes or more, and the limit is {transfer.limits.largest}; "
            "give DownloadLimits(largest=...) to take them"
        )


def _chunks(response: requests.Response) -> Iterator[bytes]:
    """What comes, as it comes: a server that sends a byte a second is not waited for."""
    try:
        while chunk := response.raw.read1(CHUNK, decode_content=True):
            yield chunk
    except urllib3.exceptions.ReadTimeoutError as error:
        raise requests.ReadTimeout(error) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error


def _write(
    transfer: Transfer,
    response: requests.Response,
    deadline: float,
    offset: int,
    total: int | None,
) -> int:
    """Write the body at the end of the part, or in its place, and return the size."""
    size = offset
    with transfer.part.open("ab" if offset else "wb") as file:
        for chunk in _chunks(response):
            size += len(chunk)
            _check_length(transfer, size)
            file.write(chunk)
            if time.monotonic() > deadline:
                file.flush()
                raise TimeoutError(_too_slow(transfer))
            if transfer.progress is not None:
                transfer.progress(transfer.name, size, total)
        file.flush()
        os.fsync(file.fileno())
    return size


def _continued(response: requests.Response, offset: int, mark: str) -> int | None:
    """Bytes in all, if the answer goes on from `offset` in the same edition; else None."""
    found = re.fullmatch(
        r"bytes (\d+)-(\d+)/(\d+)", response.headers.get("Content-Range", "").strip()
    )
    other = _mark(response) not in ("", mark)
    if found is None or other:
        return None
    first, last, total = (int(number) for number in found.groups())
    # A range that does not end where the file ends, or says nothing, is not the rest of it.
    return total if (first, last) == (offset, total - 1) and total > offset else None


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


def _write_note(transfer: Transfer, mark: str, barren: int = 0) -> None:
    """Write down what a part is of, and how often it was not gone on with."""
    note = {"url": transfer.url, "mark": mark, "barren": barren}
    transfer.note.write_text(json.dumps(note), encoding="utf-8")


def _noted_mark(transfer: Transfer) -> str:
    """The mark of the edition a part is of; empty if it is of another URL, or not known."""
    return str(_noted(transfer).get("mark") or "")


def _noted_barren(transfer: Transfer) -> int:
    """How many calls in a row have brought nothing."""
    times = _noted(transfer).get("barren", 0)
    return times if isinstance(times, int) else 0


def _noted(transfer: Transfer) -> dict[str, object]:
    """The note of a part, if it is of this URL."""
    try:
        noted = json.loads(transfer.note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) and noted.get("url") == transfer.url else {}


def _reason(error: Exception) -> str:
    if isinstance(error, (*ODD, urllib3.exceptions.HTTPError)) and not isinstance(
        error, requests.RequestException
    ):
        return "the server answers with what is no answer"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached, or has cut the connection"
    return " ".join(str(error).split()) or type(error).__name__
