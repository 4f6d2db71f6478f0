"""Campaigns of tests do not wait for the disk: that would take a quarter of their time."""

from collections.abc import Iterator

import pytest

from tvbandits.campaign.store import databases

AS_SHIPPED = databases.SYNCHRONOUS


@pytest.fixture(autouse=True, scope="session")
def commits_do_not_wait() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "SYNCHRONOUS", "OFF")
        yield
