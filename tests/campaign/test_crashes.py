"""Campaigns that are killed, cut and starved; `tests.attack.campaigns` does more of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.attack.campaigns import cut, kill_often, starve, still
from tests.attack.postgresql import Server, why_not

pytestmark = pytest.mark.slow


def test_writers_are_killed(tmp_path: Path) -> None:
    found = kill_often(str(tmp_path / "campaign.db"), tmp_path, 5, 3, random.Random(1), None)
    assert (found.faults, found.kills) == ([], 5)
    assert found.steps > 5


def test_the_disk_is_full(tmp_path: Path) -> None:
    found = starve(tmp_path, 3, random.Random(2))
    assert (found.faults, found.full) == ([], 3)


def test_the_power_is_cut(tmp_path: Path) -> None:
    found = cut(tmp_path, 2, random.Random(3))
    assert (found.faults, found.cuts) == ([], 2)


def test_the_disk_cannot_be_written(tmp_path: Path) -> None:
    found = still(tmp_path)
    if found.read_only.startswith("not tried"):
        pytest.skip(found.read_only)
    assert (found.faults, found.read_only) == ([], "read: True; to ask: StorageError")


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_server_and_its_clients_are_killed(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        found = kill_often(server.url, tmp_path, 4, 2, random.Random(4), server)
    assert (found.faults, found.kills, found.servers) == ([], 4, 1)
