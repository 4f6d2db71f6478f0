"""Who may do what."""

from __future__ import annotations

import pytest
import requests

from tests.campaign.service.serving import Served
from tvbandits.campaign.service import Tokens

pytestmark = pytest.mark.slow

VERBS = {
    "POST /ask": ("ask", {}),
    "POST /questions": ("ask", {}),
    "POST /tell": ("tell", {"points": [[0.0]], "rewards": [1.0], "t": 1}),
    "POST /answer": ("tell", {"points": [[0.0]], "values": [1.0], "t": 1}),
    "POST /correct": ("tell", {"points": [[0.0]], "rewards": [1.0]}),
    "POST /retract": ("tell", {"points": [[0.0]]}),
    "POST /drop": ("tell", {"points": [[0.0]]}),
    "POST /predict": ("read", {"points": [[0.0]], "t": 1}),
    "GET /status": ("read", None),
    "GET /pending": ("read", None),
    "GET /recommend": ("read", None),
    "POST /sites": ("ask", {"retire": ["no such site"]}),
    "GET /history": ("read", None),
    "GET /journal": ("read", None),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("who", ["nobody", "unknown", "read", "tell", "ask"])
def test_a_verb_needs_its_role(shared: Served, verb: str, who: str) -> None:
    served = shared
    method, path = verb.split()
    role, said = VERBS[verb]
    before = served.campaign.status.rows
    headers = {} if who == "nobody" else {"Authorization": "Bearer tvb_no"}
    headers = served.says(who) if who in served.tokens else headers
    reply = requests.request(method, served.address + path, json=said, headers=headers)
    if who in ("nobody", "unknown"):
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
    elif who != role:
        assert (reply.status_code, reply.json()) == (403, {"error": f"this token may not {role}"})
    else:
        assert reply.status_code in (200, 422)  # 422: nobody to ask, nothing out
    if who != role:
        assert served.campaign.status.rows == before


def test_every_verb_is_in_that_list(shared: Served) -> None:
    found = requests.get(f"{shared.address}/openapi.json").json()["paths"]
    verbs = {f"{method.upper()} {path}" for path, each in found.items() for method in each}
    assert verbs == {*VERBS, "GET /health"}


def test_a_token_that_is_taken_back_is_worthless_at_once(served: Served) -> None:
    def status() -> int:
        address = f"{served.address}/status"
        return requests.get(address, headers=served.says("read")).status_code

    assert status() == 200
    Tokens.at(served.kept).take_back("read")
    assert status() == 401
