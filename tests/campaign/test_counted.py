"""Counts in a campaign: its bandit knows how many trials a share is of, also after a replay."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.refusals import refused
from tvbandits import Arms, Campaign, count, load, policies, rate
from tvbandits.cli.campaign_tables import Reading, _with_rates
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
            each.correct(ARMS.X[:1], rate([5], [60]), 2)
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


@pytest.mark.parametrize("policy", ["adaptive_gp_ucb", "discounted_thompson"])
def test_a_bandit_refuses_shares_beside_plain_numbers_and_stays_as_it_was(
    tmp_path: Any, policy: str
) -> None:
    shares, plain = (getattr(policies, policy)(ARMS) for _ in range(2))
    shares.tell(["red", "blue"], rate([1, 2], [10, 20]), 1)
    plain.tell(["red", "blue"], [0.0, 1.0], 1)
    refused(ValueError, r"row 1: .*: 1 is no share", shares.tell, ARMS.X, [np.nan, 1.0, 0.5], 2)
    refused(ValueError, r"0\.3 is a share of 10 trials", plain.tell, ["red"], rate([3], [10]), 2)
    for bandit in (shares, plain):
        assert len(bandit.history) == 2
        bandit.save(tmp_path / "saved")
        load(tmp_path / "saved").tell(["red"], [np.nan], 2)
        bandit.tell(["red"], [np.nan], 2)  # no reading is of either kind
    if policy == "adaptive_gp_ucb":
        refused(ValueError, "no share of trials", shares.correct, ["red"], [0.2], 1)
        refused(ValueError, "is a share", plain.correct, ["red"], rate([1], [2]), 1)
        plain.correct(["red", "blue"], rate([0, 1], [1, 1]), 1)
        plain.tell(["green"], rate([3], [10]), 3)


def test_a_campaign_names_the_site_of_a_plain_number_beside_shares(tmp_path: Any) -> None:
    with Campaign.create(tmp_path / "campaign.db", policies.adaptive_gp_ucb(ARMS)) as campaign:
        campaign.tell(ARMS.X, rate([2, 7, 1], [100, 90, 80]), 1)
        for key in (None, "k"):
            refused(ValueError, "^blue: 37 is no share", campaign.tell, "blue", 37, 2, key=key)
        errors: list[Any] = []
        rows = [{"X": "red", "y": [0.5], "t": 2}, {"X": "red", "y": rate([2], [9]), "t": 2}]
        assert campaign.record(rows, errors) == 1
        assert [(number, str(error)[:15]) for number, error in errors] == [(0, "red: 0.5 is no ")]
        assert campaign.verify().consistent
