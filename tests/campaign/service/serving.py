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
import requests
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Campaign, Candidates, policies

pytest.importorskip("fastapi", reason="no fastapi: no service")
uvicorn = pytest.importorskip("uvicorn", reason="no uvicorn: no service")

from tvbandits.campaign.service import Tokens  # noqa: E402
from tvbandits.campaign.service.app import service  # noqa: E402

DOMAIN = Candidates(np.linspace(0, 10, 40)[:, None])
ROLES = ("read", "tell", "ask")


class Served(NamedTuple):
    address: str
    campaign: Campaign
    tokens: dict[str, str]
    port: int
    place: Path

    def says(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}

    def get(self, path: str, role: str = "all", **query: Any) -> requests.Response:
        return requests.get(self.address + path, params=query, headers=self.says(role), timeout=120)

    def post(self, path: str, role: str = "all", **body: Any) -> requests.Response:
        return requests.post(self.address + path, json=body, headers=self.says(role), timeout=120)


def new_bandit() -> Any:
    return policies.tv_gp_ucb(
        DOMAIN, kernel=RBF(1.0), noise_variance=0.01, forgetting_rate=0.05, seed=3
    )


@contextmanager
def serving(
    folder: Path, bandit: Any = None, *, campaign: Campaign | None = None, place: Path | None = None
) -> Iterator[Served]:
    """A campaign of its own, with a token for every role."""
    about = {"names": json.dumps([f"S{i}" for i in range(40)]), "title": "Forty <sites>"}
    if campaign is None:
        place = folder / "c.db"
        campaign = Campaign.create(place, bandit or new_bandit(), about=about)
    assert place is not None
    tokens = Tokens(place)
    made = {role: tokens.new(role, ROLES if role == "all" else [role]) for role in (*ROLES, "all")}
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    application = service(campaign, tokens, largest=100_000)
    config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield Served(f"http://127.0.0.1:{port}", campaign, made, port, place)
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        campaign.close()
        tokens.close()
