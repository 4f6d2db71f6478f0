"""Connections to a server that end when the time is out, whatever they are doing."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import requests
import urllib3


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
