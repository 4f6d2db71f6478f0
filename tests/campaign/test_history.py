"""Campaigns with a bounded history keep all readings on the disk."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Campaign, Candidates, Options, policies
from tvbandits.bandit import options
from tvbandits.campaign.store import store
from tvbandits.campaign.store.errors import ConflictError

SITES = Candidates([[0.0], [1.0], [2.5], [4.0], [6.0]])
BANDITS = {
    "window": lambda: policies.sw_gp_ucb(
        SITES, kernel=RBF(1.0), noise_variance=0.01, window=5, options=Options(mean=0.0)
    ),
    "ensemble": lambda: policies.adaptive_gp_ucb(SITES, noise_variance=0.01, minimize=True),
}


@pytest.mark.parametrize("name", BANDITS)
def test_campaign_with_a_bounded_history_keeps_all_readings_in_the_journal(
    name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Memory and snapshots hold the latest readings; journal, status and conflicts use all of them."""
    monkeypatch.setattr(options, "SHORTEST_HISTORY", 8)
    monkeypatch.setattr(store, "PAGE", 16)
    whole, bounded = (
        Campaign.create(tmp_path / f"{n}.db", bandit, snapshot_every=20)
        for n, bandit in enumerate((BANDITS[name](), BANDITS[name]().with_options(max_history=8)))
    )
    for campaign in (whole, bounded):
        for t in range(1, 34):
            campaign.tell(campaign.ask(t), [np.sin(t) if t % 9 else np.nan])
    sizes = [len(each._store.snapshot().data) for each in (whole, bounded)]
    assert sizes[1] < sizes[0] - 16 * 12  # twelve rewards and more of two numbers and more
    old = whole.state.rewards
    for campaign in (bounded, Campaign.open(tmp_path / "1.db")):
        assert 8 <= len(campaign.state.rewards) < 16
        assert campaign.status == replace(whole.status, rows=campaign.status.rows)
        told = [row.body["result"][0] for row in campaign.journal() if row.kind == "tell"]
        assert told == list(range(1, 34))
        for y, same in ((7.0, False), (old.y[0], True)):
            with pytest.raises(ConflictError, match="already a reading") as error:
                campaign.tell(old.X[:1], [y], old.t[:1])
            assert error.value.same == same
        assert_refused(
            ValueError, "are no longer stored", campaign.correct, old.X[:1], [7.0], old.t[:1]
        )
    bounded.correct(old.X[-2:-1], [0.25], old.t[-2:-1])
    assert bounded.verify().problems == ()
