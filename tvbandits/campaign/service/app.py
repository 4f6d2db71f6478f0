"""The service: a campaign's verbs as HTTP requests, for whoever has a token for them."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from tvbandits._version import __version__
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.service import verbs
from tvbandits.campaign.service.limits import BodyLimits, Limits, Rate
from tvbandits.campaign.service.pages import Drawn, reference_page, sign_in_page
from tvbandits.campaign.service.tokens import FreshTokens, Holder
from tvbandits.campaign.store.errors import (
    BusyError,
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    StorageError,
)
from tvbandits.core.arrays import Array
from tvbandits.core.display.page import without_nan
from tvbandits.core.protocols import ExpertError

log = logging.getLogger("tvbandits.service")
COOKIE = "tvbandits"
LONGEST_HISTORY = 10_000


def service(
    campaign: Campaign,
    tokens: str | os.PathLike[str],
    *,
    limits: Limits | None = None,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]"),
    secure: bool = False,
) -> BodyLimits:
    """An ASGI application that serves a campaign.

    Parameters
    ----------
    campaign : Campaign
        Opened with its expert, if it has one.
    tokens : path
        A file of `Tokens`.
    limits : Limits, optional
    hosts : tuple of str
        Names under which it is reached: others are refused, so that a page elsewhere cannot reach it by
        a name of its own.
    secure : bool
        It is reached over TLS only.
    """
    served = FastAPI(
        title="tvbandits", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    bounds = limits or Limits()
    door = _Door(FreshTokens(tokens), bounds, secure=secure)
    _look(served, campaign, door)
    turn = _Turn(bounds)
    _play(served, campaign, door, turn)
    _consult(served, campaign, door, turn)
    _pages(served, campaign, door)
    _errors(served)
    served.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return BodyLimits(served, bounds)


class _Door:
    """Who comes in."""

    def __init__(self, tokens: FreshTokens, limits: Limits, *, secure: bool) -> None:
        self._tokens = tokens
        self._known = Rate(limits.per_second, limits.burst)
        self._strangers = Rate(limits.strangers_per_second, limits.strangers_burst)
        self.secure = secure

    def holder(self, request: Request, token: str | None) -> Holder:
        """Whose token it is, within the rate of requests; an `HTTPException` for nobody's."""
        address = request.client.host if request.client else "unknown"
        found = self._tokens.now().holder(token or "")
        rate, name = (self._strangers, address) if found is None else (self._known, found.name)
        if not rate.allows(name):
            log.warning("%s: too many requests", name)
            raise HTTPException(429, "too many requests", {"Retry-After": "1"})
        if found is None:
            log.warning("%s: no token for %s %s", address, request.method, _line(request.url.path))
            why = "a token is needed" if token is None else "that token is wrong"
            raise HTTPException(401, why, {"WWW-Authenticate": "Bearer"})
        return found

    def needs(self, role: str, *, cookie: bool = False) -> Any:
        """A dependency: the holder of a token with this role."""

        async def check(request: Request) -> Holder:
            scheme, _, said = request.headers.get("authorization", "").partition(" ")
            token = said.strip() if scheme.casefold() == "bearer" else None
            if token is None and cookie:
                token = request.cookies.get(COOKIE)
            found = self.holder(request, token)
            if role not in found.roles:
                log.warning("%s: may not %s", found.name, role)
                raise HTTPException(403, f"this token may not {role}")
            return found

        return Depends(check)


class _Turn:
    """Who writes waits here before a thread is taken, so that the threads are left to who looks."""

    def __init__(self, limits: Limits) -> None:
        self._most, self._turn = limits.points, asyncio.Lock()

    async def __call__(self, said: Any, do: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do it when it is one's turn, if the request is not too long."""
        if verbs.rows_of(said) > self._most:
            raise HTTPException(413, f"a request has at most {self._most} points")
        async with self._turn:
            return await run_in_threadpool(do)


def _play(served: FastAPI, campaign: Campaign, door: _Door, done: _Turn) -> None:
    """The verbs that play."""
    asking, telling = door.needs("ask"), door.needs("tell")

    @served.post("/ask")
    async def ask(said: verbs.Asked, who: Holder = asking) -> dict[str, Any]:
        """Where to go next; the points are out until they are told or dropped."""

        def do() -> dict[str, Any]:
            t, n, among = said.t, said.n, said.among
            return _points(campaign.ask(t, n, among, key=said.key, who=who.name))

        return await done(said, do)

    @served.post("/tell")
    async def tell(said: verbs.Told, who: Holder = telling) -> dict[str, Any]:
        """Rewards, in the order of the points."""

        def do() -> dict[str, Any]:
            y, more = _values(said.rewards), {"key": said.key, "who": who.name}
            info = campaign.tell(said.points, y, said.t, said.variance, **more)
            return {"told": info.told, "failed": info.failed}

        return await done(said, do)

    @served.post("/drop")
    async def drop(said: verbs.Dropped, who: Holder = telling) -> dict[str, Any]:
        """Give up on points that are out."""

        def do() -> dict[str, Any]:
            campaign.drop(said.points, key=said.key, who=who.name)
            return _points(campaign.pending)

        return await done(said, do)


def _consult(served: FastAPI, campaign: Campaign, door: _Door, done: _Turn) -> None:
    """The verbs of an expert whom people ask."""
    asking, telling = door.needs("ask"), door.needs("tell")

    @served.post("/questions")
    async def questions(said: verbs.Questioned, who: Holder = asking) -> dict[str, Any]:
        """What to ask an expert that the service cannot reach itself."""

        def do() -> dict[str, Any]:
            return _points(campaign.questions(said.t, said.among, key=said.key, who=who.name))

        return await done(said, do)

    @served.post("/answer")
    async def answer(said: verbs.Answered, who: Holder = telling) -> dict[str, Any]:
        """What the expert said."""

        def do() -> dict[str, Any]:
            values, more = _values(said.values), {"key": said.key, "who": who.name}
            info = campaign.answer(said.points, values, said.t, said.variance, **more)
            return {"answered": info.queries.total_answered}

        return await done(said, do)


def _look(served: FastAPI, campaign: Campaign, door: _Door) -> None:
    """The verbs that only look."""
    reading = door.needs("read", cookie=True)

    @served.get("/status", dependencies=[reading])
    def status() -> dict[str, Any]:
        """At a glance."""
        return dict(campaign.status.summary)

    @served.get("/pending", dependencies=[reading])
    def pending() -> dict[str, Any]:
        """Points that are out."""
        return _points(campaign.pending)

    @served.get("/recommend", dependencies=[reading])
    def recommend(t: str | None = None) -> dict[str, Any]:
        """The point of the best mean."""
        point = campaign.recommend(_time(t))
        mean, deviation = campaign.predict(point[None, :], _time(t))
        return {"point": point.tolist(), "mean": float(mean[0]), "deviation": float(deviation[0])}

    @served.post("/predict", dependencies=[reading])
    def predict(said: verbs.Foretold) -> dict[str, Any]:
        """Mean and deviation at points, at a time."""
        mean, deviation = campaign.predict(said.points, said.t)
        return {"mean": without_nan(mean), "deviation": without_nan(deviation)}

    @served.get("/history", dependencies=[reading])
    def history(last: int = 100) -> dict[str, Any]:
        """What was told, answered and asked, the latest last."""
        if not 1 <= last <= LONGEST_HISTORY:
            raise HTTPException(422, f"last must be 1 to {LONGEST_HISTORY}, got {last}")
        table = campaign.history.tail(last)
        return {"rows": without_nan(table.to_dict("records"))}

    @served.get("/journal", dependencies=[reading])
    def journal(since: int = 0) -> dict[str, Any]:
        """Who did what, and when."""
        rows = campaign.journal(since)[:LONGEST_HISTORY]
        said = [{"seq": row.seq, "kind": row.kind, "who": row.who, "at": row.at} for row in rows]
        return {"rows": said}

    @served.get("/health")
    async def health() -> dict[str, str]:
        """Whether it runs; for everybody."""
        return {"status": "running", "version": __version__}


def _pages(served: FastAPI, campaign: Campaign, door: _Door) -> None:
    """What people look at in a browser."""
    drawn = Drawn(campaign)

    @served.get("/", include_in_schema=False)
    async def front(request: Request) -> Response:
        token = request.cookies.get(COOKIE)
        if token is None:
            return HTMLResponse(sign_in_page(), 401)
        try:
            holder = door.holder(request, token)
        except HTTPException as error:
            if error.status_code == 429:
                raise
            return HTMLResponse(sign_in_page("That token is not known any more."), 401)
        if "read" not in holder.roles:
            return HTMLResponse(sign_in_page("That token may not look."), 403)
        return HTMLResponse(await run_in_threadpool(drawn.page))

    @served.post("/session", include_in_schema=False)
    async def session(request: Request) -> Response:
        # A form of one field; python-multipart is not needed for that.
        body = (await request.body()).decode("utf-8", "replace")
        token = parse_qs(body).get("token", [""])[0].strip()
        try:
            door.holder(request, token)
        except HTTPException as error:
            return HTMLResponse(sign_in_page("That token is not known."), error.status_code)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE, token, max_age=43_200, httponly=True, samesite="strict", secure=door.secure
        )
        return answer

    @served.get("/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        return JSONResponse(served.openapi())

    @served.get("/reference", include_in_schema=False)
    def reference() -> HTMLResponse:
        return HTMLResponse(reference_page(served.openapi()))


def _errors(served: FastAPI) -> None:
    """Every error is one line of JSON, and none shows the inside."""

    def said(status: int, error: str, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"error": error}, status, headers)

    def handles(kind: type[Exception], make: Callable[[Request, Any], JSONResponse]) -> None:
        served.add_exception_handler(kind, make)

    def inner(request: Request, error: Exception) -> JSONResponse:
        number = secrets.token_hex(4)
        log.error(
            "%s %s failed, %s", request.method, _line(request.url.path), number, exc_info=error
        )
        return said(500, f"something went wrong here; the log has it under {number}")

    def unavailable(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s: %s", request.method, _line(request.url.path), _line(str(error)))
        return said(503, "the campaign cannot be written now; try again", {"Retry-After": "1"})

    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"][1:])
        return said(422, _line(f"{place}: {first['msg']}" if place else first["msg"]))

    handles(RequestValidationError, invalid)
    handles(
        StarletteHTTPException,
        lambda _, error: said(error.status_code, _line(str(error.detail)), error.headers),
    )
    handles(ConflictError, lambda _, error: said(409, _line(str(error))))
    handles(BusyError, unavailable)
    handles(StorageError, unavailable)
    handles(DamagedCampaignError, inner)
    handles(CampaignError, lambda _, error: said(409, _line(str(error))))
    handles(ExpertError, lambda _, error: said(502, _line(str(error))))
    handles(ValueError, lambda _, error: said(422, _line(str(error))))
    handles(Exception, inner)


def _line(text: str) -> str:
    """One line that can be shown: no control characters, at most 500 letters."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))[:500]


def _points(X: Array) -> dict[str, Any]:
    return {"points": X.tolist(), "dimension": X.shape[1]}


def _values(values: list[Any]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


def _time(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def default_tokens(place: str) -> Path:
    """Where the tokens of a campaign in a file are kept: beside it."""
    return Path(f"{place}.tokens.json")
