"""Campaigns in tests do not wait for the disk, which would take a quarter of their time."""

from collections.abc import Iterator

import pytest

from tvbandits.campaign.store import databases

DEFAULT_SYNCHRONOUS = databases.SYNCHRONOUS


@pytest.fixture(autouse=True, scope="session")
def skip_disk_sync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "SYNCHRONOUS", "OFF")
        yield
