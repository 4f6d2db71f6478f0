"""The page of the service: who may see it, and what a cookie cannot do."""

from __future__ import annotations

import pytest
import requests

from tests.campaign.service.serving import Served
from tests.helpers.browser import looking

pytestmark = pytest.mark.slow


def test_the_page_needs_a_token(served: Served) -> None:
    assert requests.get(served.address).status_code == 401
    assert "Forty" not in requests.get(served.address).text
    wrong = requests.post(f"{served.address}/session", data={"token": "tvb_wrong"})
    assert wrong.status_code == 401
    may_not = requests.post(f"{served.address}/session", data={"token": served.tokens["tell"]})
    assert may_not.status_code == 403


def test_a_person_signs_in_and_looks(served: Served) -> None:
    pytest.importorskip("plotly", reason="no plotly: no page")
    X = served.campaign.ask(1.0)
    served.campaign.tell(X, [0.5], 1.0)
    served.campaign.ask(2.0)
    with looking(served.address, 390) as looked:
        looked.complaints.clear()  # the sign-in page came with status 401
        looked.page.fill("#token", served.tokens["read"])
        looked.page.click("button")
        looked.page.wait_for_selector(".plot .main-svg", timeout=180_000)
        assert looked.page.title() == "Forty <sites>"
        assert looked.page.inner_text(".now strong").startswith("Go to S")
        assert looked.fits
        assert looked.complaints == []
        assert all(url.startswith(served.address) for url in looked.requests)
