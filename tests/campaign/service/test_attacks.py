"""Every kind of attack on a service once, as in `python -m tests.attack`."""

import pytest

pytest.importorskip("fastapi", reason="no fastapi: no service")

from tests.attack import service

pytestmark = pytest.mark.slow


def test_service_refuses_and_logs_every_attack() -> None:
    tally = service.attack(len(service.AT_ONCE), 11)
    assert tally.faults == {}, tally.examples
