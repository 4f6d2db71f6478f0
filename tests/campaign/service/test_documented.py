"""Every POST of docs/service.md is what the service takes, and its reply what the service gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import requests

from tests.campaign.service.serving import serving
from tests.places import ROOT
from tvbandits import Campaign, Candidates, Clock, policies
from tvbandits.campaign.service.app import VERBS
from tvbandits.campaign.service.door import SIGN_IN

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
PARTS = {
    part.split("\n", 1)[0]: part
    for part in re.split(r"^### POST ", PAGE.partition("### GET")[0], flags=re.MULTILINE)[1:]
}


def test_every_body_and_reply_of_the_page_is_one_of_the_service(tmp_path: Path) -> None:
    assert set(PARTS) == {path for path, (method, _) in VERBS.items() if method == "POST"} - {
        SIGN_IN
    }
    sites = Candidates([[4.0, 1.0], [6.0, 2.0]])
    campaign = Campaign.create(
        tmp_path / "documented.db",
        policies.frugal_gp_ucb(sites, None, 1.0, expert=None, budget=2),
        about={"names": json.dumps(["AQ01", "AQ07"])},
        clock=Clock(unit="1h", origin="2026-01-01"),
    )
    with serving(tmp_path, campaign=campaign) as served:
        described = requests.get(f"{served.address}/openapi.json", timeout=60).json()
        for path, part in PARTS.items():
            body, reply = map(json.loads, re.findall(r"^```json\n(.*?)^```$", part, re.M | re.S))
            schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            model = described["components"]["schemas"][schema["schema"]["$ref"].rpartition("/")[2]]
            assert set(model.get("required", ())) <= set(body) <= set(model["properties"])
            assert all(f"`{field}`" in part for field in model["properties"]), path
            got = requests.post(
                f"{served.address}{path}", json=body, headers=served.says("all"), timeout=60
            )
            assert got.status_code == 200, f"{path}: {got.text}"
            assert set(got.json()) == set(reply), path
