"""A client of the service, for scripts on other machines."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import requests
from numpy.typing import ArrayLike
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from tvbandits.io import replace_nan
from tvbandits.validation import Array


class RemoteError(ValueError):
    """The service has refused a request; the message is its own.

    Attributes
    ----------
    reply : dict
        The body of the reply: of a reading beyond belief also its `row`, `site`, `value`, what is
        `usual`, and the `remedy`. Empty if there was none.
    """

    def __init__(self, message: str, reply: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.reply = {**(reply or {})}


class Remote:
    """A campaign at a service.

    `ask` and `tell` are those of a bandit; `get` and `post` send every other request. A request that
    changes something has a `key`: it can be repeated if the connection is lost before the reply, and it
    counts once.

    Parameters
    ----------
    address : str
        Such as "http://127.0.0.1:8000".
    token : str
        It is sent to that address only.
    timeout : float
        Seconds to retry while the service cannot be reached, or replies that it is busy.
    verify : bool or str
        How to check the certificate, as in `requests`: the path of your own authority.

    Raises
    ------
    RemoteError
        By every call: if the service refuses it or cannot be reached.
    """

    def __init__(
        self, address: str, token: str, *, timeout: float = 30.0, verify: bool | str = True
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"address must be http://... or https://..., got {address!r}")
        self._address, self._timeout = address.rstrip("/"), timeout
        self._session = requests.Session()
        self._session.trust_env = False  # no .netrc in place of the token, no proxy on the way
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.verify = verify

    def __repr__(self) -> str:
        return f"<Remote campaign at {self._address}>"

    def ask(self, t: Any = None, n: int | None = None, **options: Any) -> Array:
        """Return where to play at time `t`, shape (b, d); `options` are those of /ask."""
        reply = self.post("/ask", t=t, n=n, **options)
        return np.array(reply["points"], dtype=float).reshape(-1, reply["dimension"])

    def tell(self, X: ArrayLike, y: ArrayLike, t: Any = None, **options: Any) -> dict[str, Any]:
        """Report rewards at points or names, NaN for none; `options` are those of /tell."""
        y = np.atleast_1d(np.asarray(y, dtype=float))
        return self.post("/tell", points=X, rewards=y, t=t, **options)

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Return the reply to a request that only reads: `remote.get("/status")`."""
        return self._request("GET", path, params=query)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Return the reply to another request: `remote.post("/drop", points=["AQ01"])`."""
        content = replace_nan({name: value for name, value in body.items() if value is not None})
        if path != "/predict":
            content.setdefault("key", secrets.token_hex(16))
        return self._request("POST", path, json=content)

    def _request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Send a request until there is a reply, and return that."""
        retrying = Retrying(
            retry=retry_if_exception_type(requests.RequestException),
            stop=stop_after_delay(self._timeout),
            wait=wait_exponential(0.05, max=2.0),
            reraise=True,
        )
        try:
            reply = retrying(self._send, method, self._address + path, options)
        except requests.RequestException as error:
            key = options.get("json", {}).get("key")
            hint = f"; if you repeat it with key={key!r}, it counts once" if key else ""
            raise RemoteError(
                f"{self._address}{path}: no reply in {self._timeout:g} s ({error}){hint}"
            ) from error
        try:
            content = reply.json()
            if reply.ok:
                return dict(content)
            detail = content["detail"]
        except (ValueError, TypeError, KeyError) as error:
            raise RemoteError(f"there is no campaign: {reply.status_code}") from error
        raise RemoteError(f"{detail} ({reply.status_code})", content)

    def _send(self, method: str, address: str, options: dict[str, Any]) -> requests.Response:
        reply = self._session.request(
            method, address, timeout=60.0, allow_redirects=False, **options
        )
        if reply.status_code in (429, 502, 503, 504):  # the service, or a proxy, is busy
            reply.raise_for_status()
        return reply
