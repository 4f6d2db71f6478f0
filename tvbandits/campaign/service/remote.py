"""A client of the service, for scripts on other machines."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import requests
from numpy.typing import ArrayLike
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from tvbandits.campaign.store.journal import without_nan
from tvbandits.validation import Array

# The service, or a proxy before it, is busy.
RETRIED = (429, 502, 503, 504)


class RemoteError(ValueError):
    """What the service refused, in its words."""


class Remote:
    """A campaign at a service.

    `ask` and `tell` are those of a bandit; `get` and `post` send every other call. Whatever changes
    something carries a `key`, so that it can be repeated when the connection is lost before the reply:
    it counts once.

    Parameters
    ----------
    address : str
        Such as "http://127.0.0.1:8000".
    token : str
        Sent to that address only.
    patience : float
        Seconds to go on trying while the service cannot be reached, or says that it is busy.
    verify : bool or str
        Of the certificate, as in `requests`: a path of one's own authority.

    Raises
    ------
    RemoteError
        Of every call: what the service refused, or that it cannot be reached.
    """

    def __init__(
        self, address: str, token: str, *, patience: float = 30.0, verify: bool | str = True
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"address must be http://... or https://..., got {address!r}")
        self._address, self._patience = address.rstrip("/"), patience
        self._session = requests.Session()
        self._session.trust_env = False  # no .netrc in place of the token, no proxy on the way
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.verify = verify

    def __repr__(self) -> str:
        return f"<Remote campaign at {self._address}>"

    def ask(self, t: Any = None, n: int | None = None, **more: Any) -> Array:
        """Where to play at time `t`, shape (b, d); `more` as /ask takes it."""
        found = self.post("/ask", t=t, n=n, **more)
        return np.array(found["points"], dtype=float).reshape(-1, found["dimension"])

    def tell(self, X: ArrayLike, y: ArrayLike, t: Any = None, **more: Any) -> dict[str, Any]:
        """Report rewards at points or names, NaN for none; `more` as /tell takes it."""
        y = np.atleast_1d(np.asarray(y, dtype=float))
        return self.post("/tell", points=X, rewards=y, t=t, **more)

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """The reply to a call that looks: `remote.get("/status")`."""
        return self._said("GET", path, params=query)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """The reply to another call: `remote.post("/drop", points=["AQ01"])`."""
        said = without_nan({name: value for name, value in body.items() if value is not None})
        if path != "/predict":
            said.setdefault("key", secrets.token_hex(16))
        return self._said("POST", path, json=said)

    def _said(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        """The reply, when there is one."""
        trying = Retrying(
            retry=retry_if_exception_type(requests.RequestException),
            stop=stop_after_delay(self._patience),
            wait=wait_exponential(0.05, max=2.0),
            reraise=True,
        )
        try:
            reply = trying(self._sent, method, self._address + path, how)
        except requests.RequestException as error:
            key = how.get("json", {}).get("key")
            again = f"; it may be done: repeated with key={key!r}, it counts once" if key else ""
            raise RemoteError(
                f"{self._address}{path}: no reply in {self._patience:g} s ({error}){again}"
            ) from error
        try:
            found = reply.json()
            if reply.ok:
                return dict(found)
            said = found["detail"]
        except (ValueError, TypeError, KeyError) as error:
            raise RemoteError(f"no campaign answers there: {reply.status_code}") from error
        raise RemoteError(f"{said} ({reply.status_code})")

    def _sent(self, method: str, address: str, how: dict[str, Any]) -> requests.Response:
        reply = self._session.request(method, address, timeout=60.0, allow_redirects=False, **how)
        if reply.status_code in RETRIED:
            reply.raise_for_status()
        return reply
