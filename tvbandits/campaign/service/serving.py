"""Run the service: loopback unless told otherwise, TLS by files, a stop that lets requests finish."""

from __future__ import annotations

import ipaddress
import logging
import os
from pathlib import Path

import uvicorn

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.service.app import service
from tvbandits.campaign.service.limits import Limits, impatient_protocol
from tvbandits.campaign.service.tokens import Tokens

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
    if not len(Tokens.at(tokens)):
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
    served = service(
        campaign,
        tokens,
        limits=bounds,
        hosts=(*LOOPBACK, host, *names),
        secure=certificate is not None,
    )
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
