"""The service: a campaign's methods as HTTP requests, for whoever has a token for them.

It speaks plain HTTP to this machine only. TLS, rates of requests and slow clients are the work of a
reverse proxy before it: `examples/nginx.conf` is one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import numpy as np
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from tvbandits._version import __version__
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.service import bodies
from tvbandits.campaign.service.page import campaign_page, sign_in_page
from tvbandits.campaign.service.tokens import Holder, Tokens
from tvbandits.campaign.store.errors import (
    BusyError,
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    ReplayError,
    StorageError,
)
from tvbandits.campaign.store.journal import without_nan
from tvbandits.campaign.times import time_in
from tvbandits.domains.candidates import candidates_of
from tvbandits.experts.protocol import ExpertError
from tvbandits.validation import Array, describe

T = TypeVar("T")

log = logging.getLogger("tvbandits.service")

COOKIE = "tvbandits"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# Bytes of a request.
LARGEST = 1_000_000
# Points asked for at once where each is found by a search, while everybody else who writes waits.
MOST_SEARCHED = 20

# Of every reply. With "no-referrer" a browser would say of our own form that its origin is none.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


# --- who asks ------------------------------------------------------------------------------------


bearer = HTTPBearer(
    description="A token that `tvbandits campaign token` made; its roles are scopes."
)
cookie = APIKeyCookie(name=COOKIE, auto_error=False)


def holder_of(
    needs: SecurityScopes,
    request: Request,
    said: Annotated[HTTPAuthorizationCredentials, Depends(bearer)],
) -> Holder:
    """Whose token it is, if it has the roles that the request needs."""
    holder: Holder | None = request.app.state.tokens.holder(said.credentials)
    if holder is None:
        raise HTTPException(401, "the token is unknown", {"WWW-Authenticate": "Bearer"})
    request.state.holder = holder
    if missing := {*needs.scopes} - holder.roles:
        raise HTTPException(403, f"this token has no role {', '.join(sorted(missing))}")
    return holder


def campaign_of(request: Request) -> Campaign:
    """The campaign that is served."""
    found: Campaign = request.app.state.campaign
    return found


Served = Annotated[Campaign, Depends(campaign_of)]
Asker = Annotated[Holder, Security(holder_of, scopes=["ask"])]
Teller = Annotated[Holder, Security(holder_of, scopes=["tell"])]
READS = [Security(holder_of, scopes=["read"])]


# --- what changes something ----------------------------------------------------------------------


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "Another host (plain text), or a body that cannot be read",
        "model": bodies.Error,
        "content": {"text/plain": {}},
    },
    401: {"description": "No token, or an unknown one", "model": bodies.Error},
    403: {"description": "The token lacks the role", "model": bodies.Error},
    409: {"description": "Something else is on record", "model": bodies.Error},
    413: {"description": "The body is too large", "content": {"text/plain": {}}},
    422: {"description": "A value is refused", "model": bodies.Error},
    500: {"description": "A fault of the service", "model": bodies.Error},
    502: {"description": "The expert does not work", "model": bodies.Error},
    503: {"description": "Nothing can be written now", "model": bodies.Error},
}
api = APIRouter(responses=ERRORS)


async def in_turn(request: Request, method: Callable[..., T], body: bodies.Body, who: Holder) -> T:
    """Call a method that writes. Who waits for a turn needs no thread: these are left to readers."""
    given = body.arguments()
    async with request.app.state.turn:
        return await run_in_threadpool(method, **given, who=who.name)


@api.post("/ask")
async def ask(
    request: Request, body: bodies.AskBody, who: Asker, campaign: Served
) -> bodies.ChosenPoints:
    """Choose points, which are pending until they are told or dropped."""
    return await in_turn(request, partial(_ask, campaign), body, who)


@api.post("/questions")
async def questions(
    request: Request, body: bodies.QuestionsBody, who: Asker, campaign: Served
) -> bodies.ChosenPoints:
    """Choose what to ask an expert whose questions people carry."""
    return await in_turn(request, partial(_questions, campaign), body, who)


@api.post("/sites")
async def change_sites(
    request: Request, body: bodies.SitesBody, who: Asker, campaign: Served
) -> bodies.ChangedSites:
    """Add sites or arms, and retire others."""
    await in_turn(request, campaign.change_sites, body, who)
    return bodies.ChangedSites(added=[*body.add], retired=body.retire)


@api.post("/tell")
async def tell(
    request: Request, body: bodies.TellBody, who: Teller, campaign: Served
) -> bodies.Recorded:
    """Report rewards."""
    await in_turn(request, campaign.tell, body, who)
    given = body.rewards, body.successes, body.trials, body.events, body.exposure
    return _counted(*(column for column in given if column is not None))


@api.post("/answer")
async def answer(
    request: Request, body: bodies.AnswerBody, who: Teller, campaign: Served
) -> bodies.Recorded:
    """Report answers of the expert."""
    await in_turn(request, campaign.answer, body, who)
    return _counted(body.values)


@api.post("/correct")
async def correct(
    request: Request, body: bodies.CorrectBody, who: Teller, campaign: Served
) -> bodies.Changed:
    """Replace readings by the right ones."""
    await in_turn(request, campaign.correct, body, who)
    return bodies.Changed(changed=len(body.points))


@api.post("/retract")
async def retract(
    request: Request, body: bodies.RetractBody, who: Teller, campaign: Served
) -> bodies.Changed:
    """Withdraw readings."""
    await in_turn(request, campaign.retract, body, who)
    return bodies.Changed(changed=len(body.points))


@api.post("/drop")
async def drop(
    request: Request, body: bodies.DropBody, who: Teller, campaign: Served
) -> bodies.Changed:
    """Give up on pending points."""
    await in_turn(request, campaign.drop, body, who)
    return bodies.Changed(changed=len(body.points))


def _ask(campaign: Campaign, n: int | None = None, **given: Any) -> bodies.ChosenPoints:
    if candidates_of(campaign.domain) is None and (n or 1) > MOST_SEARCHED:
        raise ValueError(
            f"n must be at most {MOST_SEARCHED} where each point is searched for, got {n}: "
            "ask several times"
        )
    return _points(campaign, campaign.ask(n=n, **given))


def _questions(campaign: Campaign, **given: Any) -> bodies.ChosenPoints:
    return _points(campaign, campaign.questions(**given))


def _points(campaign: Campaign, X: Array) -> bodies.ChosenPoints:
    sites = [campaign.names.name(x) for x in X]
    return bodies.ChosenPoints(points=X.tolist(), sites=sites, dimension=X.shape[1])


def _counted(*columns: list[Any]) -> bodies.Recorded:
    """Of the request alone, so that it is the same when the request is repeated."""
    failed = int(np.isnan(columns).any(axis=0).sum())
    return bodies.Recorded(recorded=len(columns[0]) - failed, failed=failed)


# --- what looks ----------------------------------------------------------------------------------


@api.get("/status", dependencies=READS)
def status(campaign: Served, _: Annotated[bodies.NoQuery, Query()]) -> dict[str, Any]:
    """Say how the campaign stands."""
    found, about = campaign.status, campaign.about
    noise = campaign.info.model.noise
    learned = {} if noise is None else {"noise_variance": asdict(noise)}
    known: dict[str, Any] = {key: about[key] for key in ("title", "unit") if key in about}
    return {**known, **learned, **dict(found.summary), "last": campaign.when(found.time)}


@api.get("/pending", dependencies=READS)
def pending(campaign: Served, _: Annotated[bodies.NoQuery, Query()]) -> bodies.PendingPoints:
    """List the points that are asked and not yet told."""
    out = campaign.outstanding
    return bodies.PendingPoints(
        **dict(_points(campaign, campaign.pending)),
        t=[each.t for each in out],
        asked=[each.asked for each in out],
        who=[each.who for each in out],
    )


@api.get("/sites", dependencies=READS)
def sites(campaign: Served, _: Annotated[bodies.NoQuery, Query()]) -> bodies.Sites:
    """List the sites or arms that may be played."""
    return bodies.Sites(sites=campaign.sites)


@api.get("/recommend", dependencies=READS)
def recommend(
    campaign: Served, query: Annotated[bodies.RecommendQuery, Query()]
) -> bodies.Recommendation:
    """Name the point of the best mean."""
    context, known = campaign.names.context(query.context), campaign.names.sites
    rows = [int(x) if x.isdecimal() and x not in known else x for x in query.available or []]
    now = time_in(query.t)
    point = campaign.recommend(now, rows or None, context)
    (mean,), (deviation,) = campaign.predict(point[None, :], now)
    return bodies.Recommendation(
        point=point.tolist(), site=campaign.names.name(point), mean=mean, deviation=deviation
    )


@api.post("/predict", dependencies=READS)
def predict(campaign: Served, body: bodies.PredictBody) -> bodies.Prediction:
    """Predict mean and deviation at points, at a time."""
    mean, deviation = campaign.predict(**body.arguments())
    return bodies.Prediction(mean=mean.tolist(), deviation=deviation.tolist())


@api.get("/history", dependencies=READS)
def history(campaign: Served, query: Annotated[bodies.HistoryQuery, Query()]) -> dict[str, Any]:
    """List what was told, answered and asked, the latest last."""
    table = campaign.history.tail(query.last)
    table = table if campaign.clock is None else table.assign(time=table["time"].astype(str))
    return {"rows": without_nan(table.to_dict("records"))}


# --- what everybody may see, and what people look at in a browser --------------------------------


pages = APIRouter()


@pages.get("/health")
async def health() -> dict[str, str]:
    """Say that the service runs; for everybody."""
    return {"status": "running", "version": __version__}


@pages.get("/", include_in_schema=False)
def front(
    request: Request, campaign: Served, token: Annotated[str | None, Depends(cookie)]
) -> Response:
    """Show the campaign to whoever has signed in, and to others a form for their token."""
    if token is None:
        return HTMLResponse(sign_in_page(), 401)
    holder: Holder | None = request.app.state.tokens.holder(token)
    if holder is None:
        return HTMLResponse(sign_in_page("That token is unknown."), 401)
    request.state.holder = holder
    if "read" not in holder.roles:
        return HTMLResponse(sign_in_page("That token may not look."), 403)
    return HTMLResponse(campaign_page(campaign))


@pages.post("/session", include_in_schema=False)
async def sign_in(request: Request) -> Response:
    """Keep the token of the form in a cookie, which opens the page and nothing else."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers["host"]:
        raise HTTPException(403, "the form comes from another site")
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    token = fields.get("token", [""])[0].strip()
    if await run_in_threadpool(request.app.state.tokens.holder, token) is None:
        return HTMLResponse(sign_in_page("That token is unknown."), 401)
    answer = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"  # as the proxy says
    answer.set_cookie(
        COOKIE, token, max_age=43_200, httponly=True, samesite="strict", secure=secure
    )
    return answer


# --- errors, and every reply ---------------------------------------------------------------------


def _detail(
    status: int, **headers: str
) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    async def reply(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status, headers)

    return reply


async def _invalid(_: Request, error: Any) -> JSONResponse:
    """Where a request is wrong, and how; of a value that may be one thing or another, the last."""
    first, *more = error.errors()
    wrong = [first, *(each for each in more if each["loc"][:2] == first["loc"][:2])][-1]
    place = ".".join(str(each) for each in wrong["loc"][1:])
    there = wrong["type"] not in ("missing", "json_invalid")
    text = wrong["msg"] + (f", got {describe(wrong['input'])}" if there else "")
    return JSONResponse({"detail": f"{place}: {text}" if place else text}, 422)


async def _conflict(request: Request, error: Any) -> JSONResponse:
    """What others told is shown to those only who may look."""
    text = str(error)
    if "read" not in request.state.holder.roles:
        taken = f"under the key {error.key!r}" if error.key else "of that place and time"
        text = f"something else is on record {taken}"
    return JSONResponse({"detail": text}, 409)


async def _fault(request: Request, error: Exception) -> JSONResponse:
    """Nothing of the inside is shown; the log has it."""
    number = secrets.token_hex(4)
    log.error("%s failed, %s", _route_of(request), number, exc_info=error)
    return JSONResponse({"detail": f"something went wrong here; the log has it: {number}"}, 500)


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    RequestValidationError: _invalid,
    ConflictError: _conflict,
    DamagedCampaignError: _fault,
    ReplayError: _fault,
    BusyError: _detail(503, **{"Retry-After": "1"}),
    StorageError: _detail(503, **{"Retry-After": "1"}),
    CampaignError: _detail(409),
    ExpertError: _detail(502),
    ValueError: _detail(422),
}


def _route_of(request: Request) -> str:
    """Method and route, without what a client has put into the path or the query."""
    route = request.scope.get("route")
    return f"{request.method} {getattr(route, 'path', 'elsewhere')}"


async def _finish(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
    """A line in the log for every request, and the headers of every reply."""
    request.state.holder = None
    try:
        reply = await respond(request)
    except Exception as error:
        reply = await _fault(request, error)
    reply.headers.update(HEADERS)
    holder, address = request.state.holder, request.client.host if request.client else "unknown"
    who = address if holder is None else f"{holder.name} at {address}"
    log.info("%s: %s %d", who, _route_of(request), reply.status_code)
    return reply


# --- the application -----------------------------------------------------------------------------


def service(
    campaign: Campaign, tokens: Tokens, *, hosts: tuple[str, ...] = LOOPBACK, largest: int = LARGEST
) -> FastAPI:
    """An ASGI application that serves a campaign.

    Parameters
    ----------
    campaign : Campaign
        Opened with its expert, if it has one.
    tokens : Tokens
        Who may do what.
    hosts : tuple of str
        Names under which it is reached: others are refused, so that a page elsewhere cannot reach it by
        a name of its own.
    largest : int
        Bytes of a request.
    """
    served = FastAPI(
        title="tvbandits",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        exception_handlers=HANDLERS,
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=_finish),
            Middleware(TrustedHostMiddleware, allowed_hosts=[*hosts], www_redirect=False),
            Middleware(RequestBodyLimitMiddleware, max_body_size=largest),
        ],
    )
    served.include_router(api)
    served.include_router(pages)
    served.state.campaign, served.state.tokens, served.state.turn = campaign, tokens, asyncio.Lock()
    return served


def serve(
    campaign: Campaign,
    tokens: Tokens,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    names: tuple[str, ...] = (),
) -> None:
    """Serve a campaign on this machine until the process is told to stop.

    Parameters
    ----------
    campaign : Campaign
    tokens : Tokens
        At least one.
    host, port
        Where to listen: an address of this machine itself.
    names : tuple of str
        Host names under which a proxy before it is reached.

    Raises
    ------
    ValueError
        If there are no tokens, or it would be reachable from elsewhere without TLS.
    """
    if not tokens.names:
        raise ValueError("nobody has a token: make one first by tvbandits campaign token")
    if not _is_loopback(host):
        raise ValueError(
            f"host must be an address of this machine itself, as 127.0.0.1, got {host}: a reverse proxy "
            "with TLS makes the service reachable from elsewhere"
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    uvicorn.run(
        service(campaign, tokens, hosts=(*LOOPBACK, *names)),
        host=host,
        port=port,
        ws="none",
        access_log=False,  # addresses would stand there, with what people put into them
        server_header=False,
        limit_concurrency=500,
        timeout_graceful_shutdown=20,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
