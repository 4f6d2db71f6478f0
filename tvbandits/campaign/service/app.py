"""The service: the methods of a campaign as HTTP requests, for holders of tokens.

It serves plain HTTP to this machine only. TLS, limits on the rate of requests and slow clients are left
to a reverse proxy in front of it, such as that of `examples/nginx.conf`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import numpy as np

try:
    import uvicorn
    from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Security
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
    from fastapi.routing import APIRoute
    from fastapi.security import (
        APIKeyCookie,
        HTTPAuthorizationCredentials,
        HTTPBearer,
        SecurityScopes,
    )
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.middleware.body_limit import RequestBodyLimitMiddleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.routing import Route
except ImportError as error:
    raise ImportError(
        "the service needs more packages: pip install 'tvbandits[service]'"
    ) from error

from tvbandits._version import __version__
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.forecasts import doubts_about
from tvbandits.campaign.service import bodies
from tvbandits.campaign.service.page import campaign_page, sign_in_page
from tvbandits.campaign.service.tokens import Holder, Tokens
from tvbandits.campaign.store.errors import (
    BusyError,
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    DoubtfulReadingError,
    ReplayError,
    StorageError,
)
from tvbandits.clock import parse_time
from tvbandits.experts.protocol import ExpertError
from tvbandits.io import replace_nan
from tvbandits.validation import Array, describe

T = TypeVar("T")

log = logging.getLogger("tvbandits.service")

COOKIE = "tvbandits"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Headers of every reply. With "no-referrer" a browser would send our own form without its origin.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


# The names of remedies in a request.
REMEDIES = {
    "key": 'a "key"',
    "sure": '"sure": true',
    "expert": "its expert (tvbandits campaign serve --expert)",
    "correct": "/correct",
    "correct_answers": "/correct_answers",
}


# --- authentication ------------------------------------------------------------------------------------


bearer = HTTPBearer(description="A token from `tvbandits campaign token`; its roles are scopes.")
cookie = APIKeyCookie(name=COOKIE, auto_error=False)


def holder_of(
    needs: SecurityScopes,
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials, Depends(bearer)],
) -> Holder:
    """Return the holder of the token, if it has the roles that the request needs."""
    holder: Holder | None = request.app.state.tokens.holder(credentials.credentials)
    if holder is None:
        raise HTTPException(401, "the token is unknown", {"WWW-Authenticate": "Bearer"})
    request.state.holder = holder
    if missing := {*needs.scopes} - holder.roles:
        raise HTTPException(403, f"this token has no role {', '.join(sorted(missing))}")
    return holder


def campaign_of(request: Request) -> Campaign:
    """Return the campaign of the service."""
    campaign: Campaign = request.app.state.campaign
    return campaign


Served = Annotated[Campaign, Depends(campaign_of)]
Asker = Annotated[Holder, Security(holder_of, scopes=["ask"])]
Teller = Annotated[Holder, Security(holder_of, scopes=["tell"])]
READS = [Security(holder_of, scopes=["read"])]


# --- requests that write ----------------------------------------------------------------------


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "A wrong host (plain text), or a malformed body",
        "model": bodies.Error,
        "content": {"text/plain": {}},
    },
    401: {"description": "No token, or an unknown one", "model": bodies.Error},
    403: {"description": "The token lacks the role", "model": bodies.Error},
    409: {
        "description": "Another request has used the key, there is another reading, or one is "
        "beyond belief",
        "model": bodies.DoubtError | bodies.Error,
    },
    413: {"description": "The body is too large", "content": {"text/plain": {}}},
    422: {"description": "A value is invalid", "model": bodies.Error},
    500: {"description": "An error of the service", "model": bodies.Error},
    502: {"description": "An error of the expert", "model": bodies.Error},
    503: {"description": "The service cannot write the campaign now", "model": bodies.Error},
}


class OnceRequest(Request):
    """A request with each field and each parameter once, where JSON would take the last one."""

    async def json(self) -> Any:
        """Return the content of the body."""
        return json.loads(await self.body(), object_pairs_hook=_fields)

    def check_query(self) -> None:
        """Raise an `HTTPException` about a parameter that stands in the address several times."""
        for name, count in Counter(name for name, _ in self.query_params.multi_items()).items():
            if count > 1 and name != "available":
                raise _repeated(name, "the address")


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object of JSON, each of which stands there once."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _repeated(name, "one object of the body")
    return fields


def _repeated(name: str, where: str) -> HTTPException:
    return HTTPException(422, f"{describe(name)} stands in {where} more than once: give one value")


class OnceRoute(APIRoute):
    """A route whose requests have each field and each parameter once."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what replies to a request."""
        reply = super().get_route_handler()

        async def reply_once(request: Request) -> Response:
            once = OnceRequest(request.scope, request.receive)
            once.check_query()
            return await reply(once)

        return reply_once


api = APIRouter(responses=ERRORS, route_class=OnceRoute)


async def in_turn(request: Request, method: Callable[..., T], body: bodies.Body, who: Holder) -> T:
    """Call a method that writes; a request that waits for others takes no thread from readers."""
    arguments = body.arguments()
    async with request.app.state.turn:
        return await run_in_threadpool(method, **arguments, who=who.name)


@api.post("/ask")
async def ask(
    request: Request, body: bodies.AskBody, who: Asker, campaign: Served
) -> bodies.AskedPoints:
    """Return the next points, which are pending until you report or drop them."""
    choice = await in_turn(request, campaign.choose, body, who)
    points = await run_in_threadpool(_points, campaign, choice.points)
    doubts = await run_in_threadpool(doubts_about, campaign, points.sites)
    if "read" not in who.roles:  # what is doubted, without figures that come from readings
        doubts = {site: text.partition(":")[0] for site, text in doubts.items()}
    return bodies.AskedPoints(**dict(points), left_out=choice.left_out, doubtful=doubts)


@api.post("/questions")
async def questions(
    request: Request, body: bodies.QuestionsBody, who: Asker, campaign: Served
) -> bodies.ChosenPoints:
    """Return the points to ask the expert about."""
    X = await in_turn(request, campaign.questions, body, who)
    return await run_in_threadpool(_points, campaign, X)


@api.post("/sites")
async def change_sites(
    request: Request, body: bodies.SitesBody, who: Asker, campaign: Served
) -> bodies.ChangedSites:
    """Add sites or arms, retire others, and confirm some that stand out."""
    await in_turn(request, campaign.change_sites, body, who)
    return bodies.ChangedSites(added=[*body.add], retired=body.retire, confirmed=body.confirm)


@api.post("/tell")
async def tell(
    request: Request, body: bodies.TellBody, who: Teller, campaign: Served
) -> bodies.Recorded:
    """Report rewards."""
    await in_turn(request, campaign.tell, body, who)
    columns = body.rewards, body.successes, body.trials, body.events, body.exposure
    return _count(*(column for column in columns if column is not None))


@api.post("/answer")
async def answer(
    request: Request, body: bodies.AnswersBody, who: Teller, campaign: Served
) -> bodies.Recorded:
    """Report answers of the expert."""
    await in_turn(request, campaign.answer, body, who)
    return _count(body.values)


@api.post("/correct")
async def correct(
    request: Request, body: bodies.CorrectBody, who: Teller, campaign: Served
) -> bodies.Changed:
    """Replace readings."""
    await in_turn(request, campaign.correct, body, who)
    return bodies.Changed(changed=len(body.points))


@api.post("/correct_answers")
async def correct_answers(
    request: Request, body: bodies.AnswersBody, who: Teller, campaign: Served
) -> bodies.Changed:
    """Replace answers of the expert; null withdraws one."""
    await in_turn(request, campaign.correct_answers, body, who)
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
    """Give up pending points."""
    await in_turn(request, campaign.drop, body, who)
    return bodies.Changed(changed=len(body.points))


def _points(campaign: Campaign, X: Array) -> bodies.ChosenPoints:
    names = campaign.names
    sites = [names.name(x) for x in X]
    return bodies.ChosenPoints(points=X.tolist(), sites=sites, dimension=X.shape[1])


def _count(*columns: list[Any]) -> bodies.Recorded:
    """Count the readings of a request alone, so that a repeated request has the same reply."""
    failed = int(np.isnan(columns).any(axis=0).sum())
    return bodies.Recorded(recorded=len(columns[0]) - failed, failed=failed)


# --- requests that read --------------------------------------------------------------------------


@api.get("/status", dependencies=READS)
def status(campaign: Served, _: Annotated[bodies.NoQuery, Query()]) -> dict[str, Any]:
    """Return the status of the campaign."""
    status, about, noise = campaign.status, campaign.about, campaign.info.model.noise
    last = None if status.time is None else campaign.format_time(status.time)
    reply: dict[str, Any] = {key: about[key] for key in ("title", "unit") if key in about}
    if noise is not None and noise.is_known:
        reply["noise_variance"] = asdict(noise)
    return {**reply, **status.summary, "last": last, "doubtful": campaign.doubtful_sites}


@api.get("/pending", dependencies=READS)
def pending(campaign: Served, _: Annotated[bodies.NoQuery, Query()]) -> bodies.PendingPoints:
    """List the pending points."""
    points = campaign.pending_points
    return bodies.PendingPoints(
        **dict(_points(campaign, campaign.pending)),
        t=[each.t for each in points],
        asked=[each.asked for each in points],
        who=[each.who for each in points],
    )


@api.get("/sites", dependencies=READS)
def sites(campaign: Served, _: Annotated[bodies.NoQuery, Query()]) -> bodies.Sites:
    """List the sites or arms that are not retired."""
    return bodies.Sites(sites=campaign.sites)


@api.get("/recommend", dependencies=READS)
def recommend(
    campaign: Served, query: Annotated[bodies.RecommendQuery, Query()]
) -> bodies.Recommendation:
    """Return the point with the best mean."""
    context, sites = campaign.names.context(query.context), campaign.names.sites
    rows = [int(x) if x.isdecimal() and x not in sites else x for x in query.available or []]
    now = parse_time(query.t)
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
    """List readings, answers and pending points, the latest last."""
    table = campaign.history.tail(query.last)
    table = table if campaign.clock is None else table.assign(time=table["time"].astype(str))
    return {"rows": replace_nan(table.to_dict("records"))}


# --- pages --------------------------------


pages = APIRouter()


@pages.get("/health")
async def health() -> dict[str, str]:
    """Say that the service runs; this needs no token."""
    return {"status": "running", "version": __version__}


@pages.get("/", include_in_schema=False)
def front(
    request: Request, campaign: Served, token: Annotated[str | None, Depends(cookie)]
) -> Response:
    """Show the campaign, or a form for the token."""
    if token is None:
        return HTMLResponse(sign_in_page(), 401)
    holder: Holder | None = request.app.state.tokens.holder(token)
    if holder is None:
        return HTMLResponse(sign_in_page("This token is unknown."), 401)
    request.state.holder = holder
    if "read" not in holder.roles:
        return HTMLResponse(sign_in_page('This token does not have the role "read".'), 403)
    return HTMLResponse(campaign_page(campaign))


@pages.post("/session", include_in_schema=False)
async def sign_in(request: Request) -> Response:
    """Put the token of the form into a cookie, which opens the page and nothing else."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers["host"]:
        raise HTTPException(403, "the form was sent by another site")
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    token = fields.get("token", [""])[0].strip()
    if await run_in_threadpool(request.app.state.tokens.holder, token) is None:
        return HTMLResponse(sign_in_page("This token is unknown."), 401)
    answer = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"  # according to the proxy
    answer.set_cookie(
        COOKIE, token, max_age=43_200, httponly=True, samesite="strict", secure=secure
    )
    return answer


# --- errors and logs ---------------------------------------------------------------------


def _detail(
    status: int, **headers: str
) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    async def reply(_: Request, error: Exception) -> JSONResponse:
        text = error.message(REMEDIES) if isinstance(error, CampaignError) else str(error)
        return JSONResponse({"detail": text}, status, headers)

    return reply


async def _invalid(_: Request, error: Any) -> JSONResponse:
    """Reply which part of a request is invalid, and why."""
    return JSONResponse({"detail": bodies.invalid_text(error.errors())}, 422)


async def _conflict(request: Request, error: Any) -> JSONResponse:
    """Reply with the earlier request only if the holder may read."""
    text = error.message(REMEDIES)
    if "read" not in request.state.holder.roles and error.withdrawn:
        text = error.message(REMEDIES, "the reading of that place and time was retracted or moved")
    elif "read" not in request.state.holder.roles:
        earlier = f"with the key {error.key!r}" if error.key else "for that place and time"
        text = f"there is another entry {earlier}"
    return JSONResponse({"detail": text}, 409)


async def _doubtful(request: Request, error: Any) -> JSONResponse:
    """Reply which reading is beyond belief; what is usual there only if the holder may read."""
    may_read = "read" in request.state.holder.roles
    value = None if np.isnan(error.value) else error.value  # of a failed reading its time is odd
    what = "the time" if value is None else f"{value:g}"
    reason = None if may_read else f"{error.site}: {what} is beyond belief"
    reply = bodies.DoubtError(
        detail=error.message(REMEDIES, reason),
        row=error.row,
        site=error.site,
        value=value,
        usual=[*error.usual] if may_read and error.usual else None,
        remedy={"sure": True},
    )
    return JSONResponse(reply.model_dump(), 409)


async def _fault(request: Request, error: Exception) -> JSONResponse:
    """Reply with a number only; the log has the error."""
    number = secrets.token_hex(4)
    log.error("%s failed, %s", _route_of(request), number, exc_info=error)
    return JSONResponse({"detail": f"internal error {number}: see the log of the service"}, 500)


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    RequestValidationError: _invalid,
    ConflictError: _conflict,
    DoubtfulReadingError: _doubtful,
    DamagedCampaignError: _fault,
    ReplayError: _fault,
    BusyError: _detail(503, **{"Retry-After": "1"}),
    StorageError: _detail(503, **{"Retry-After": "1"}),
    CampaignError: _detail(409),
    ExpertError: _detail(502),
    ValueError: _detail(422),
}


def _route_of(request: Request) -> str:
    """Return method and route, without what a client has put into the path or the query."""
    route = request.scope.get("route")
    return f"{request.method} {route.path if isinstance(route, Route) else 'elsewhere'}"


async def _finish(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
    """Write a line to the log, and add the headers to the reply."""
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
    campaign: Campaign,
    tokens: Tokens,
    *,
    hosts: tuple[str, ...] = LOOPBACK,
    largest: int = 1_000_000,
) -> FastAPI:
    """Return an ASGI application that serves a campaign.

    Parameters
    ----------
    campaign : Campaign
        Opened with its expert, if it has one.
    tokens : Tokens
        Who may do what.
    hosts : tuple of str
        The host names of the service. Others are refused, so that a page elsewhere cannot reach it by a
        name of its own.
    largest : int
        The largest size of a request, in bytes.
    """
    app = FastAPI(
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
    app.include_router(api)
    app.include_router(pages)
    app.state.campaign, app.state.tokens, app.state.turn = campaign, tokens, asyncio.Lock()
    return app


def serve(
    campaign: Campaign,
    tokens: Tokens,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    names: tuple[str, ...] = (),
) -> None:
    """Serve a campaign on this machine until the process is stopped.

    Parameters
    ----------
    campaign : Campaign
    tokens : Tokens
        At least one.
    host, port
        The address to listen on, of this machine itself.
    names : tuple of str
        Host names of the proxy in front of it.

    Raises
    ------
    ValueError
        If there are no tokens, or it would be reachable from elsewhere without TLS.
    """
    if not tokens.names:
        raise ValueError("there is no token: create one by tvbandits campaign token")
    if not _is_loopback(host):
        raise ValueError(
            f"host must be an address of this machine itself, such as 127.0.0.1, got {host}: use a "
            "reverse proxy with TLS to make the service reachable from elsewhere"
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    uvicorn.run(
        service(campaign, tokens, hosts=(*LOOPBACK, *names)),
        host=host,
        port=port,
        ws="none",
        access_log=False,  # it would contain whatever clients put into addresses
        server_header=False,
        limit_concurrency=500,
        timeout_graceful_shutdown=20,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
