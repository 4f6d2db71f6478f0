"""A client with the face of a `Bandit`: a script that plays a bandit plays a service unchanged."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import requests
from numpy.typing import ArrayLike

from tvbandits.bandit.told import zero_or_one
from tvbandits.core.arrays import Array
from tvbandits.core.counts import Counted, with_variance
from tvbandits.core.files.journal import plain
from tvbandits.core.parameters import texts

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
        more = {"t": t, "n": n, "among": among, "context": context, "near": near}
        return _points(self._done("/ask", key, **more))

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
        more = {"t": t, "variance": variance, "outcomes": outcomes, "context": context}
        return self._done("/tell", key, points=X, rewards=y, **more)

    def correct(
        self,
        X: ArrayLike,
        y: ArrayLike | Counted | None = None,
        t: Any = None,
        variance: ArrayLike | None = None,
        *,
        to: Any = None,
        outcomes: Mapping[str, ArrayLike] | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Put right what was told wrong, as `Campaign.correct`."""
        values, variance = (y, variance) if y is None else with_variance(y, variance)
        more = {"t": t, "variance": variance, "to": to, "outcomes": outcomes}
        return self._done("/correct", key, points=X, rewards=values, **more)

    def retract(self, X: ArrayLike, t: Any = None, *, key: str | None = None) -> dict[str, Any]:
        """Take back what was told."""
        return self._done("/retract", key, points=X, t=t)

    def change_sites(
        self,
        add: Mapping[str, ArrayLike | None] | Sequence[str] = (),
        retire: Sequence[str] = (),
        *,
        key: str | None = None,
    ) -> list[str]:
        """Add sites or arms and retire others, as `Campaign.change_sites`; names of what is left."""
        places = add if isinstance(add, Mapping) else dict.fromkeys(add)
        found: list[str] = self._done("/sites", key, add=places, retire=retire)["sites"]
        return found

    def drop(self, X: ArrayLike, *, key: str | None = None) -> None:
        """Give up on points."""
        self._done("/drop", key, points=X)

    def questions(
        self, t: Any = None, among: ArrayLike | None = None, *, key: str | None = None
    ) -> Array:
        """What to ask somebody else, shape (q, d)."""
        return _points(self._done("/questions", key, t=t, among=among))

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
        return self._done("/answer", key, points=X, values=values, t=t, variance=variance)

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
        said = {"points": X, "t": t, "outcome": outcome, "relative": relative, "context": context}
        found = self._said("POST", "/predict", _plain(said))
        return _floats(found["mean"]), _floats(found["deviation"])

    def recommend(
        self,
        t: Any = None,
        among: ArrayLike | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Array:
        """The point of the best posterior mean, shape (d,), of what is available."""
        given = _plain({"t": t, "among": among})
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

    def _done(self, path: str, key: str | None, **said: Any) -> dict[str, Any]:
        """Say what changes something, under a key of its own where none is given."""
        return self._said("POST", path, {**_plain(said), "key": key or secrets.token_hex(16)})

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
                key = (said or {}).get("key")
                again = (
                    f"; it may be done: said again with key={key!r}, it counts once" if key else ""
                )
                raise RemoteError(
                    f"{self._address}{path}: no reply in {self._patience:g} s ({failure}){again}"
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


def _plain(said: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of what is given, in JSON."""
    shaped = {
        name: SHAPES[name](value) if name in SHAPES else value
        for name, value in said.items()
        if value is not None
    }
    found: dict[str, Any] = plain(shaped, lambda odd: None if np.isnan(odd) else str(odd))
    return found


def _points_or_names(X: ArrayLike) -> Any:
    given: Any = X.to_dict("records") if isinstance(X, pd.DataFrame) else X
    given = [given] if isinstance(given, Mapping) else given
    if isinstance(given, list | tuple) and any(isinstance(each, Mapping) for each in given):
        return [", ".join(f"{name}={value}" for name, value in each.items()) for each in given]
    return texts(X) or np.atleast_2d(np.asarray(X, dtype=np.float64))


def _rows(among: ArrayLike) -> Any:
    """Row numbers, of a mask or of row numbers; or names."""
    if callable(among):
        raise ValueError("among: a function of points cannot be sent to a service")
    given = np.atleast_1d(np.asarray(among))
    return np.flatnonzero(given) if given.dtype == bool else given


def _columns(outcomes: Mapping[str, ArrayLike]) -> dict[str, Any]:
    return {name: _values(values) for name, values in outcomes.items()}


def _values(values: ArrayLike) -> Any:
    return np.atleast_1d(zero_or_one(values))


# What may be given in more than one shape.
SHAPES: dict[str, Callable[[Any], Any]] = {
    "points": _points_or_names,
    "rewards": _values,
    "values": _values,
    "among": _rows,
    "outcomes": _columns,
}


def _floats(values: Sequence[float | None]) -> Array:
    return np.array(values, dtype=np.float64)


def _points(said: Mapping[str, Any]) -> Array:
    return np.array(said["points"], dtype=float).reshape(-1, int(said["dimension"]))
