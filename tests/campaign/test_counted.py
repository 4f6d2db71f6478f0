"""Counts in a campaign: its bandit knows how many trials a share is of, also after a replay."""

from typing import Any

import numpy as np

from tvbandits import Arms, Campaign, count, policies, rate
from tvbandits.cli.campaign_readings import Reading, _with_rates
from tvbandits.counts import Counted

ARMS = Arms(["red", "green", "blue"])


def test_a_campaign_tells_its_bandit_the_trials_of_shares_and_replays_them(tmp_path: Any) -> None:
    alone = policies.adaptive_gp_ucb(ARMS)
    with Campaign.create(tmp_path / "campaign.db", policies.adaptive_gp_ucb(ARMS)) as campaign:
        for hour in (1, 2, 3):
            counts = rate([2, 7, hour], [100, 90, 80 + hour])
            for each in (alone, campaign):
                each.tell(ARMS.X, counts, hour)
        for each in (alone, campaign):
            each.correct(ARMS.X[:1], rate([50], [60]), 2)
        np.testing.assert_allclose(campaign.predict(ARMS.X, 4), alone.predict(ARMS.X, 4))
        assert campaign.verify().consistent


def test_a_table_of_counts_reaches_the_bandit_as_counts() -> None:
    readings = [
        Reading("red", at="1", counts=(2.0, 100.0)),
        Reading("blue", at="1", counts=(0.0, 9.0)),
    ]
    shares, events = (_with_rates(readings, compute) for compute in (rate, count))
    for reading, (k, n) in zip(shares, [(2.0, 100.0), (0.0, 9.0)], strict=True):
        assert isinstance(reading.y, Counted)
        assert reading.y.trials is not None
        assert (reading.y.values[0], reading.y.trials[0]) == (k / n, n)
        assert reading.y.variance[0] == reading.variance
    assert [reading.y for reading in events] == [[0.02], [0.0]]
