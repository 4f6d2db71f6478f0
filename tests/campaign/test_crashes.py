"""Campaigns with killed writers, a full disk or a cut log.

`python -m tests.attack --only campaigns` does more.
"""

import random
from pathlib import Path

import pytest

from tests.attack.campaigns import cut, kill_often, on_a_server, starve, still
from tests.attack.postgresql import why_not
from tests.attack.report import Count

pytestmark = pytest.mark.slow


def test_campaign_is_consistent_after_its_writers_are_killed(tmp_path: Path) -> None:
    found = Count("kills")
    kill_often(found, str(tmp_path / "campaign.db"), tmp_path, 5, random.Random(1), None)
    assert found.also["steps"] > 5


def test_campaign_is_consistent_after_a_full_disk(tmp_path: Path) -> None:
    found = Count("full")
    starve(found, tmp_path, 3, random.Random(2))
    assert found.also["times that the disk was full"] == 3


def test_campaign_is_consistent_after_a_loss_of_power(tmp_path: Path) -> None:
    found = Count("cuts")
    cut(found, tmp_path, 2, random.Random(3))
    assert found.also["logs that were cut"] == 2


def test_campaign_is_readable_on_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    outcome = still(tmp_path)
    if outcome.startswith("not tried"):
        pytest.skip(outcome)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_campaign_is_consistent_after_its_server_and_clients_are_killed(tmp_path: Path) -> None:
    found = Count("server")
    on_a_server(found, tmp_path, 4, random.Random(4))
    assert found.also["kills of a server"] == 1
