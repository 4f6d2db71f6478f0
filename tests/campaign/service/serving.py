"""A real server on loopback, in a thread of the tests."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Campaign, Candidates, policies

pytest.importorskip("fastapi", reason="no fastapi: no service")
uvicorn = pytest.importorskip("uvicorn", reason="no uvicorn: no service")

from tvbandits.campaign.service import Tokens  # noqa: E402
from tvbandits.campaign.service.app import service  # noqa: E402
from tvbandits.campaign.service.door import Limits, impatient_protocol  # noqa: E402

DOMAIN = Candidates(np.linspace(0, 10, 40)[:, None])
# Machines are shared: nothing is slow but who means to be.
LIMITS = Limits(body=100_000, seconds=60.0, strangers_per_second=1000.0, strangers_burst=1000.0)


class Served(NamedTuple):
    address: str
    campaign: Campaign
    tokens: dict[str, str]
    port: int
    kept: Path

    def says(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}


def new_bandit() -> Any:
    return policies.tv_gp_ucb(DOMAIN, RBF(1.0), 0.01, epsilon=0.05, seed=3)


@contextmanager
def serving(
    folder: Path, bandit: Any = None, limits: Limits = LIMITS, *, campaign: Campaign | None = None
) -> Iterator[Served]:
    """A campaign of its own, with a token for every role."""
    kept = folder / "tokens.json"
    tokens = {
        role: Tokens.at(kept).new(role, ["read", "tell", "ask"] if role == "all" else [role])
        for role in ("read", "tell", "ask", "all")
    }
    about = {"names": json.dumps([f"S{i}" for i in range(40)]), "title": "Forty <sites>"}
    if campaign is None:
        campaign = Campaign.create(folder / "c.db", bandit or new_bandit(), about=about)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        service(campaign, kept, limits=limits),
        http=impatient_protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield Served(f"http://127.0.0.1:{port}", campaign, tokens, port, kept)
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        campaign.close()
