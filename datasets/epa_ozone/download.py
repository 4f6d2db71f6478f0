"""One file from a server that is not trusted: where from, how much, and until when.

Connections to a server that end when the time is out, whatever they are doing.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


HAS_LOCKS = sys.platform not in {"win32", "emscripten"}

if HAS_LOCKS:
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
        For a whole file, however slowly it comes.
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


@dataclass(frozen=True)
class Transfer:
    """A download.

    Parameters
    ----------
    url : str
        What to download; http or https.
    target : Path
        Where to; after an error it may hold a part.
    name : str
        What `progress` calls the file.
    progress : callable, optional
        Called after each chunk.
    limits : DownloadLimits
    """

    url: str
    target: Path
    name: str
    progress: Progress | None = None
    limits: DownloadLimits = DownloadLimits()


def download(transfer: Transfer) -> None:
    """Download a file.

    Raises
    ------
    OSError
        If the server refuses, fails, or stops before the end: one line that names the URL.
        TimeoutError if it does not answer.
    """
    transfer.limits.check(transfer.url, transfer.url)
    deadline = time.monotonic() + transfer.limits.seconds
    try:
        with ended_at(deadline) as session:
            _take(transfer, session, deadline)
    except (requests.RequestException, urllib3.exceptions.HTTPError, EOFError, *ODD) as error:
        if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
            raise
        if time.monotonic() > deadline:
            raise TimeoutError(_too_slow(transfer)) from None
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            message = f"{transfer.url}: no answer within {PATIENCE:g} seconds"
            raise TimeoutError(message) from None
        raise OSError(f"{transfer.url}: {_reason(error)}") from None


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


def _take(transfer: Transfer, session: requests.Session, deadline: float) -> None:
    """Ask, and write what comes."""
    with _answer(transfer, session, deadline) as response:
        if response.status_code != HTTPStatus.OK:
            said = f"HTTP status {response.status_code} {response.reason or ''}".strip()
            raise OSError(f"{transfer.url}: {cleaned(said, 200)}")
        total = _length(response)
        _check_length(transfer, total or 0)
        size = 0
        with transfer.target.open("wb") as file:
            for chunk in _chunks(response):
                size += len(chunk)
                _check_length(transfer, size)
                file.write(chunk)
                if time.monotonic() > deadline:
                    raise TimeoutError(_too_slow(transfer))
                if transfer.progress is not None:
                    transfer.progress(transfer.name, size, total)
    if total is not None and size != total:
        raise EOFError(f"the connection ended after {size} of {total} bytes")


def _answer(transfer: Transfer, session: requests.Session, deadline: float) -> requests.Response:
    """The answer of the server, after redirects to where a file may come from."""
    url = transfer.url
    headers = {
        "Accept-Encoding": "identity"
    }  # bytes as they are: a packed answer has another length
    for _ in range(MOST_REDIRECTS + 1):
        patience = max(min(PATIENCE, deadline - time.monotonic()), 0.001)
        response = session.get(
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
        f"{transfer.url}: not whole after {transfer.limits.seconds:g} seconds; "
        "DownloadLimits(seconds=...) waits longer"
    )


def _check_length(transfer: Transfer, size: int) -> None:
    if size > transfer.limits.largest:
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


def _length(response: requests.Response) -> int | None:
    """Bytes of the body, if that is what the server has said."""
    length = response.headers.get("Content-Length", "")
    packed = response.headers.get("Content-Encoding", "identity") != "identity"
    return int(length) if length.isdigit() and not packed else None


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return str(error)
    if isinstance(error, (*ODD, urllib3.exceptions.HTTPError)) and not isinstance(
        error, requests.RequestException
    ):
        return "the server answers with what is no answer"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached, or has cut the connection"
    return " ".join(str(error).split()) or type(error).__name__
