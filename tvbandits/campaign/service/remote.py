"""A client with the face of a `Bandit`: a script that plays a bandit plays a service unchanged."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import requests
from numpy.typing import ArrayLike

from tvbandits.core.arrays import Array
from tvbandits.core.counts import Counted, with_variance

RETRIED = (408, 429, 502, 503, 504)


class RemoteError(ValueError):
    """What the service refused, in its words."""


class Remote:
    """A campaign at a service.

    Points are arrays, as for a bandit, or what they are called: `remote.tell("AQ01", [3.2], t)`,
    `remote.ask(t, among=["AQ01", "AQ07"])`. Every request that changes something carries a key, so that
    it can be said again when the connection is lost before the reply: it counts once.

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

    def ask(
        self,
        t: Any = None,
        n: int | None = None,
        among: ArrayLike | None = None,
        context: Mapping[str, Any] | None = None,
        near: float | None = None,
        *,
        key: str | None = None,
    ) -> Array:
        """Where to play at time `t`, shape (b, d)."""
        where = {"among": _rows(among), "near": near}
        said = {"t": _time(t), "n": n, **where, "key": key or _key()}
        said |= {} if context is None else {"context": dict(context)}
        return _points(self._said("POST", "/ask", said))

    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike | Counted,
        t: Any = None,
        variance: ArrayLike | None = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Rewards, counts among them, and what else was read; NaN: played without a reading."""
        y, variance = with_variance(y, variance)
        said = {"points": _lists(X), "rewards": _numbers(y), "t": _time(t), "key": key or _key()}
        more = {"variance": _variance(variance), **_read(outcomes)}
        more |= {} if context is None else {"context": dict(context)}
        return self._said("POST", "/tell", said | more)

    def correct(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        to: Any = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Put right what was told wrong, as `Campaign.correct`."""
        said = {"points": _lists(X), "rewards": None if y is None else _numbers(y), "t": _time(t)}
        more = {"to": _time(to), "variance": _variance(variance), "key": key or _key()}
        return self._said("POST", "/correct", {**said, **more, **_read(outcomes)})

    def retract(self, X: ArrayLike, t: Any = None, *, key: str | None = None) -> dict[str, Any]:
        """Take back what was told."""
        said = {"points": _lists(X), "t": _time(t), "key": key or _key()}
        return self._said("POST", "/retract", said)

    def change_sites(
        self,
        add: Mapping[str, ArrayLike | None] | Sequence[str] = (),
        retire: Sequence[str] = (),
        *,
        key: str | None = None,
    ) -> list[str]:
        """Add sites or arms and retire others, as `Campaign.change_sites`; names of what is left."""
        places: Mapping[str, ArrayLike | None] = (
            add if isinstance(add, Mapping) else dict.fromkeys(add)
        )
        given = {
            name: None if x is None else np.asarray(x, dtype=float).tolist()
            for name, x in places.items()
        }
        said = {"add": given, "retire": list(retire), "key": key or _key()}
        found: list[str] = self._said("POST", "/sites", said)["sites"]
        return found

    def drop(self, X: ArrayLike, *, key: str | None = None) -> None:
        """Give up on points."""
        self._said("POST", "/drop", {"points": _lists(X), "key": key or _key()})

    def questions(
        self, t: Any = None, among: ArrayLike | None = None, *, key: str | None = None
    ) -> Array:
        """What to ask somebody else, shape (q, d)."""
        said = {"t": _time(t), "among": _rows(among), "key": key or _key()}
        return _points(self._said("POST", "/questions", said))

    def answer(
        self,
        X: ArrayLike,
        values: ArrayLike,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Answers that somebody brought; NaN for none."""
        said = {"points": _lists(X), "values": _numbers(values), "t": _time(t)}
        more = {"variance": _variance(variance), "key": key or _key()}
        return self._said("POST", "/answer", {**said, **more})

    def predict(
        self,
        X: ArrayLike,
        t: Any = None,
        outcome: str | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Posterior mean and deviation, each of shape (n,), as `Campaign.predict`."""
        said = {"points": _lists(X), "t": _time(t), "outcome": outcome, "relative": relative}
        said |= {} if context is None else {"context": dict(context)}
        found = self._said("POST", "/predict", said)
        return _floats(found["mean"]), _floats(found["deviation"])

    def recommend(self, t: Any = None, context: Mapping[str, Any] | None = None) -> Array:
        """The point of the best posterior mean, shape (d,)."""
        given = {} if t is None else {"t": _time(t)}
        if context is not None:
            given["context"] = ", ".join(f"{name}={value}" for name, value in context.items())
        return _floats(self._said("GET", "/recommend", given)["point"])

    @property
    def pending(self) -> Array:
        """Points that are out, shape (k, d)."""
        return _points(self._said("GET", "/pending"))

    @property
    def history(self) -> pd.DataFrame:
        """The last ten thousand rows of what was told, answered and asked."""
        frame = pd.DataFrame(self._said("GET", "/history", {"last": 10_000})["rows"])
        return frame.assign(time=pd.to_datetime(frame["time"])) if "t" in frame else frame

    @property
    def status(self) -> dict[str, Any]:
        """At a glance."""
        return self._said("GET", "/status")

    def _said(self, method: str, path: str, said: dict[str, Any] | None = None) -> dict[str, Any]:
        """Say it until there is a reply."""
        given: dict[str, Any] = {"params": said} if method == "GET" else {"json": said}
        end, wait = time.monotonic() + self._patience, 0.05
        while True:
            try:
                reply = self._session.request(
                    method, self._address + path, timeout=60.0, allow_redirects=False, **given
                )
                failure = f"{reply.status_code}" if reply.status_code in RETRIED else None
            except requests.RequestException as error:
                reply, failure = None, type(error).__name__
            if failure is None and reply is not None:
                return self._reply(reply)
            if time.monotonic() + wait > end:
                raise RemoteError(
                    f"{self._address}{path}: no reply in {self._patience:g} s ({failure})"
                )
            time.sleep(wait)
            wait = min(2 * wait, 2.0)

    @staticmethod
    def _reply(reply: requests.Response) -> dict[str, Any]:
        try:
            found = reply.json()
        except ValueError as error:
            raise RemoteError(f"no campaign answers there: {reply.status_code}") from error
        if not isinstance(found, dict) or reply.status_code >= 300:
            said = found.get("error", "") if isinstance(found, dict) else ""
            raise RemoteError(f"{said or 'refused'} ({reply.status_code})")
        return found


def _key() -> str:
    return secrets.token_hex(16)


def _time(t: Any) -> Any:
    if t is None or isinstance(t, str):
        return t
    return t.isoformat() if hasattr(t, "isoformat") else float(t)


def _rows(among: ArrayLike | None) -> list[int] | list[str] | None:
    """Row numbers, of a mask or of row numbers; or names."""
    if among is None:
        return None
    given = np.atleast_1d(np.asarray(among))
    if given.dtype.kind == "U":
        return [str(name) for name in given]
    return [int(row) for row in (np.flatnonzero(given) if given.dtype == bool else given)]


def _lists(X: ArrayLike) -> list[list[float]] | list[str]:
    names = np.atleast_1d(np.asarray(X))
    if names.dtype.kind == "U":
        return [str(name) for name in names]
    given = np.atleast_2d(np.asarray(X, dtype=float))
    return [[float(value) for value in row] for row in given]


def _numbers(values: ArrayLike) -> list[float | None]:
    given = np.atleast_1d(np.asarray(values, dtype=float))
    return [None if np.isnan(value) else float(value) for value in given]


def _read(outcomes: Mapping[str, ArrayLike] | None) -> dict[str, Any]:
    if not outcomes:
        return {}
    return {"outcomes": {name: _numbers(values) for name, values in outcomes.items()}}


def _variance(variance: ArrayLike | None) -> list[float] | float | None:
    if variance is None:
        return None
    given = np.asarray(variance, dtype=float)
    return float(given) if given.ndim == 0 else [float(value) for value in given]


def _floats(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _points(said: Mapping[str, Any]) -> Array:
    return np.array(said["points"], dtype=float).reshape(-1, int(said["dimension"]))
