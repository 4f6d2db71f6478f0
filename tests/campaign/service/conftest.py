"""A service for all tests of a module, and one for a single test."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign.service.serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A service for one test."""
    with serving(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for all tests of a module."""
    with serving(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture
def free_port() -> int:
    """A port at which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
