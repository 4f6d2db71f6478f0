"""The service: a campaign's verbs as HTTP requests, for whoever has a token for them.

What is said over HTTP: the requests and their limits.

The page of the service besides the campaign's own: sign in.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import logging
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

import uvicorn
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    create_model,
)
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from tvbandits._version import __version__
from tvbandits.bandit.state import Info
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.naming import time_in
from tvbandits.campaign.service.door import (
    COOKIE,
    SIGN_IN,
    Door,
    Limits,
    impatient_protocol,
    line,
    path_of,
)
from tvbandits.campaign.service.page import campaign_page
from tvbandits.campaign.service.tokens import Tokens, holder_in
from tvbandits.campaign.store.errors import (
    BusyError,
    CampaignError,
    ConflictError,
    DamagedCampaignError,
    ReplayError,
    StorageError,
)
from tvbandits.core.arrays import Array
from tvbandits.core.coercion import shown
from tvbandits.core.counts import count, rate
from tvbandits.core.files.journal import without_nan
from tvbandits.core.files.page import page
from tvbandits.core.protocols import ExpertError

T = TypeVar("T")

# Whole numbers up to here are floats, too.
EXACT = 2**53
# Points in a request.
MOST = 10_000

Whole = Annotated[StrictInt, Field(ge=-EXACT, le=EXACT)]
Number = Whole | StrictFloat
Point = Annotated[list[Number], Field(min_length=1, max_length=1000, fail_fast=True)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=1000)]
Among = Annotated[list[str] | None, Query(description="Only these sites, by row number or name.")]


def _with_nan(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


Values = Annotated[
    list[Number | None], Field(max_length=MOST, fail_fast=True), AfterValidator(_with_nan)
]

# What the parameters of a campaign's verbs are in JSON, by their names; each means one thing in all.
JSON: dict[str, Any] = {
    "X": Annotated[
        list[Point | Name],
        Field(
            min_length=1,
            max_length=MOST,
            fail_fast=True,
            alias="points",
            description="Coordinates, or a name as /ask says it, each.",
        ),
    ],
    "t": Annotated[
        Number | StrictStr | None, Field(description="A number, or a date where there is a clock.")
    ],
    "to": Annotated[Number | StrictStr | None, Field(description="The right time.")],
    "n": Annotated[StrictInt | None, Field(ge=1, le=1000)],
    "among": Annotated[
        Annotated[list[Whole | Name], Field(max_length=MOST, fail_fast=True)] | None,
        Field(description="Row numbers of sites, or names."),
    ],
    "context": Annotated[
        dict[str, StrictFloat | StrictInt | StrictStr] | None,
        Field(max_length=100, description="What is measured and not chosen, by name."),
    ],
    "near": Annotated[Number | None, Field(gt=0)],
    "values": Values,
    "variance": Annotated[list[Number], Field(max_length=MOST, fail_fast=True)] | Number | None,
    "outcomes": Annotated[
        dict[Name, Values] | None,
        Field(max_length=100, description="What else was read, by its limit's name; null: not."),
    ],
    "outcome": Name | None,
    "relative": Annotated[StrictBool, Field(description="Beside the control.")],
    "add": Annotated[
        dict[Name, Point | None],
        Field(max_length=1000, description="Coordinates by name; null: of an arm, or one retired."),
    ],
    "retire": Annotated[list[Name], Field(max_length=1000)],
    "key": Annotated[
        StrictStr | None,
        Field(max_length=200, description="Said again, the request has the same result, once."),
    ],
}


class RequestBody(BaseModel):
    """What is said to a verb."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def arguments(self) -> dict[str, Any]:
        """The same as the campaign's verb takes it."""
        return self.model_dump(exclude_unset=True)


class RewardsBody(RequestBody):
    """Rewards, or in their place successes of so many trials, or events in so much exposure."""

    rewards: Values | None = None
    successes: Values | None = None
    trials: Values | None = None
    events: Values | None = None
    exposure: Values | None = None

    def arguments(self) -> dict[str, Any]:
        """The same as the campaign's verb takes it, with `y` for rewards or counts."""
        found = super().arguments()
        names = "rewards", "successes", "trials", "events", "exposure"
        said = {name: each for name in names if (each := found.pop(name, None)) is not None}
        for made, pair in ((rate, ("successes", "trials")), (count, ("events", "exposure"))):
            if said.keys() == set(pair):
                return {**found, "y": made(*(said[name] for name in pair))}
        # Only a correction may leave them as they are.
        if said.keys() - {"rewards"} or not (said or "to" in type(self).model_fields):
            raise ValueError(
                "the service needs rewards, or successes and trials, or events and exposure, "
                f"got {', '.join(sorted(said)) or 'none'}"
            )
        return {**found, "y": said.get("rewards")}


def body_of(verb: Callable[..., Any]) -> type[RequestBody]:
    """What a request says to a verb of a campaign: its parameters, without who it is that asks."""
    parameters = inspect.signature(verb).parameters
    fields: dict[str, Any] = {
        name: (JSON[name], ... if each.default is each.empty else each.default)
        for name, each in parameters.items()
        if name in JSON
    }
    base = RewardsBody if "y" in parameters else RequestBody
    return create_model(f"{verb.__name__}_body", __base__=base, **fields)


def sign_in_page(complaint: str = "") -> str:
    """A form for the token."""
    said = f'<div class="now warn" role="alert">{escape(complaint)}</div>' if complaint else ""
    form = (
        '<form method="post" action="/session"><p><label for="token">Token</label><br>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required '
        'size="50"></p><p><button>Look</button></p></form>'
    )
    return page(
        "Campaign", "Whoever has a token for reading sees it here.", said + form,
        f"tvbandits {__version__}", drawing=False, served=True,
    )  # fmt: skip


log = logging.getLogger("tvbandits.service")
LONGEST_HISTORY = 10_000

# All that there is: the method of a path, and who may; the `Door` lets nobody in to anything else.
VERBS = {
    **dict.fromkeys(("/ask", "/questions", "/sites"), ("POST", "ask")),
    **dict.fromkeys(("/tell", "/answer", "/drop", "/correct", "/retract"), ("POST", "tell")),
    **dict.fromkeys(("/status", "/pending", "/recommend", "/history"), ("GET", "read")),
    "/predict": ("POST", "read"),
    **dict.fromkeys(("/", "/health", "/openapi.json"), ("GET", None)),
    SIGN_IN: ("POST", None),
}


def _holder(request: Request) -> Any:
    return request.state.holder


# The holder of the token; None where nobody needs one and there is none.
Who = Annotated[Any, Depends(_holder)]


def _check_query(request: Request) -> None:
    """Refuse what a request for a look says by an unknown name."""
    known = {each.alias for each in request.scope["route"].dependant.query_params}
    if request.method == "GET" and (unknown := [*{*request.query_params} - known]):
        there = f"; there are: {', '.join(sorted(known))}" if known else ""
        raise ValueError(f'unknown {", ".join(sorted(unknown))} in "?{request.url.query}"{there}')


def service(
    campaign: Campaign,
    tokens: str | os.PathLike[str],
    *,
    limits: Limits | None = None,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]"),
    secure: bool = False,
) -> Door:
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
        title="tvbandits", version=__version__, docs_url=None, redoc_url=None, openapi_url=None,
        dependencies=[Depends(_check_query)],
    )  # fmt: skip
    kept = Path(tokens)
    _look(served, campaign)
    _play(served, campaign)
    _pages(served, campaign, kept, secure=secure)
    _errors(served)
    return Door(served, kept, limits or Limits(), VERBS, hosts)


def _play(served: FastAPI, campaign: Campaign) -> None:
    """The verbs that change something: what is said, what the campaign does, what is replied."""
    turn = asyncio.Lock()

    def serves(path: str, verb: Callable[..., T], reply: Callable[[T], dict[str, Any]]) -> None:
        async def done(said: RequestBody, who: Who) -> dict[str, Any]:
            given = said.arguments()
            async with turn:  # who waits has no thread yet: threads are left to who looks
                found = await run_in_threadpool(verb, **given, who=who.name)
            return await run_in_threadpool(reply, found)

        done.__annotations__["said"] = body_of(verb)
        described = (verb.__doc__ or "").partition("\n")[0]
        served.post(path, name=path.strip("/"), description=described)(done)

    def told(info: Info) -> dict[str, Any]:
        return {"told": info.told, "failed": info.failed}

    serves("/ask", campaign.ask, partial(_points, campaign))
    serves("/questions", campaign.questions, partial(_points, campaign))
    serves("/tell", campaign.tell, told)
    serves("/correct", campaign.correct, told)
    serves("/retract", campaign.retract, told)
    serves("/drop", campaign.drop, lambda _: {"pending": len(campaign.pending)})
    serves("/sites", campaign.change_sites, lambda _: {"sites": campaign.sites})
    serves("/answer", campaign.answer, lambda info: {"answered": info.queries.total_answered})


def _look(served: FastAPI, campaign: Campaign) -> None:
    """The verbs that look."""

    @served.get("/status")
    def status() -> dict[str, Any]:
        """At a glance."""
        found, about = campaign.status, campaign.about
        said: dict[str, Any] = {key: about[key] for key in ("title", "unit") if key in about}
        noise = campaign.info.model.noise
        if noise is not None:  # it is learned
            said["noise_variance"] = asdict(noise)
        return {**said, **dict(found.summary), "last": campaign.when(found.time)}

    @served.get("/pending")
    def pending() -> dict[str, Any]:
        """Points that are out."""
        out = campaign.outstanding
        said = {name: [getattr(each, name) for each in out] for name in ("t", "asked", "who")}
        return {**_points(campaign, campaign.pending), **said}

    @served.get("/recommend")
    def recommend(
        t: str | None = None, context: str | None = None, among: Among = None
    ) -> dict[str, Any]:
        """The point of the best mean; a context is "outside=3.2"."""
        given, sites = campaign.names.context(context), campaign.names.sites
        rows = [int(x) if x.isdecimal() and x not in sites else x for x in among or []]
        now = time_in(t)
        point = campaign.recommend(now, rows or None, given)
        mean, deviation = campaign.predict(point[None, :], now)
        believed = {"mean": float(mean[0]), "deviation": float(deviation[0])}
        return {"point": point.tolist(), "site": campaign.names.name(point), **believed}

    def predict(said: RequestBody) -> dict[str, Any]:
        """Mean and deviation at points, at a time."""
        mean, deviation = campaign.predict(**said.arguments())
        return {"mean": without_nan(mean), "deviation": without_nan(deviation)}

    predict.__annotations__["said"] = body_of(campaign.predict)
    served.post("/predict")(predict)

    @served.get("/history")
    def history(last: Annotated[int, Query(ge=1, le=LONGEST_HISTORY)] = 100) -> dict[str, Any]:
        """What was told, answered and asked, the latest last."""
        table = campaign.history.tail(last)
        table = table if campaign.clock is None else table.assign(time=table["time"].astype(str))
        return {"rows": without_nan(table.to_dict("records"))}


def _pages(served: FastAPI, campaign: Campaign, tokens: Path, *, secure: bool) -> None:
    """What everybody may see, and what people look at in a browser."""

    @served.get("/health")
    async def health() -> dict[str, str]:
        """Whether it runs; for everybody."""
        return {"status": "running", "version": __version__}

    @served.get("/", include_in_schema=False)
    async def front(request: Request, who: Who) -> Response:
        if who is None:
            known = COOKIE in request.cookies
            return HTMLResponse(sign_in_page("That token is not known any more." * known), 401)
        if "read" not in who.roles:
            return HTMLResponse(sign_in_page("That token may not look."), 403)
        return HTMLResponse(await run_in_threadpool(campaign_page, campaign, served=True))

    @served.post(SIGN_IN, include_in_schema=False)
    async def session(request: Request) -> Response:
        # A form of one field; python-multipart is not needed for that.
        body = (await request.body()).decode("utf-8", "replace")
        token = parse_qs(body).get("token", [""])[0].strip()
        if holder_in(tokens, token) is None:
            return HTMLResponse(sign_in_page("That token is not known."), 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE, token, max_age=43_200, httponly=True, samesite="strict", secure=secure
        )
        return answer

    @served.get("/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        return JSONResponse(served.openapi())


def _errors(served: FastAPI) -> None:
    """Every error is one line of JSON, and none shows the inside."""

    def said(status: int, error: str, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"error": error}, status, headers)

    def handles(kind: type[Exception], make: Callable[[Request, Any], JSONResponse]) -> None:
        served.add_exception_handler(kind, make)

    def inner(request: Request, error: Exception) -> JSONResponse:
        number = secrets.token_hex(4)
        log.error(
            "%s %s failed, %s", request.method, path_of(request.scope), number, exc_info=error
        )
        return said(500, f"something went wrong here; the log has it under {number}")

    def unavailable(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s: %s", request.method, path_of(request.scope), line(str(error)))
        return said(503, "the campaign cannot be written now; try again", {"Retry-After": "1"})

    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first, *more = error.errors()  # of a field that may be one thing or another, the last
        wrong = [first, *(each for each in more if each["loc"][:2] == first["loc"][:2])][-1]
        place = ".".join(str(each) for each in wrong["loc"][1:])
        there = wrong["type"] not in ("missing", "json_invalid")
        text = wrong["msg"] + (f", got {shown(wrong['input'])}" if there else "")
        return said(422, line(f"{place}: {text}" if place else text))

    def taken(request: Request, error: ConflictError) -> JSONResponse:
        text = str(error)
        if "read" not in request.state.holder.roles:  # what others told is not for everybody
            text = text.partition(": on record is ")[0]
            text = re.sub(r" was told already, as [^:]*:", " was told already:", text)
        return said(409, line(text))

    handles(RequestValidationError, invalid)
    handles(
        HTTPException,
        lambda _, error: said(error.status_code, line(str(error.detail)), error.headers),
    )
    handles(ConflictError, taken)
    handles(BusyError, unavailable)
    handles(StorageError, unavailable)
    handles(DamagedCampaignError, inner)
    handles(ReplayError, inner)
    handles(CampaignError, lambda _, error: said(409, line(str(error))))
    handles(ExpertError, lambda _, error: said(502, line(str(error))))
    handles(ValueError, lambda _, error: said(422, line(str(error))))
    handles(Exception, inner)


def _points(campaign: Campaign, X: Array) -> dict[str, Any]:
    sites = [campaign.names.name(x) for x in X]
    return {"points": X.tolist(), "sites": sites, "dimension": X.shape[1]}


def default_tokens(place: str) -> Path:
    """Where the tokens of a campaign in a file are kept: beside it."""
    return Path(f"{place}.tokens.json")


# --- run the service ------------------------------------------------------------------------------


LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")


def serve(
    campaign: Campaign,
    tokens: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certificate: str | os.PathLike[str] | None = None,
    private_key: str | os.PathLike[str] | None = None,
    names: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> None:
    """Serve a campaign until the process is told to stop.

    Parameters
    ----------
    campaign : Campaign
    tokens : path
        A file of `Tokens`, with one at least.
    host, port
        Where to listen. Anything but this machine itself needs a certificate.
    certificate, private_key : path, optional
        For TLS, in PEM.
    names : tuple of str
        Host names under which it is reached, besides `host`.
    limits : Limits, optional

    Raises
    ------
    ValueError
        If there are no tokens, a file is missing, or it would be reachable from elsewhere without TLS.
    """
    bounds = limits or Limits()
    if not Tokens.at(tokens).names:
        raise ValueError(f'there are no tokens in "{tokens}": make one first')
    for path in (certificate, private_key):
        if path is not None and not Path(path).is_file():
            raise ValueError(f'no such file: "{path}"')
    if (certificate is None) != (private_key is None):
        raise ValueError("TLS needs both a certificate and a private key")
    if certificate is None and not _is_loopback(host):
        raise ValueError(
            f"{host} can be reached from elsewhere: give a certificate and a private key"
        )
    hosts, secure = (*LOOPBACK, host, *names), certificate is not None
    served = service(campaign, tokens, limits=bounds, hosts=hosts, secure=secure)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    uvicorn.run(
        served,
        host=host,
        port=port,
        http=impatient_protocol(bounds),
        ws="none",
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=bounds.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=20,
        h11_max_incomplete_event_size=32_768,
        log_level="info",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
