"""Predictions of a campaign change no decision, and are made for its present sites."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.networks import shared_weather
from tvbandits import Bandit, Campaign, Candidates, policies
from tvbandits.gp.ensemble import posterior
from tvbandits.validation import Array

SITES = np.arange(6.0)[:, None]
TABLE = shared_weather(110, seed=7)


def bandit(history: Array | None = None) -> Bandit:
    return policies.adaptive_gp_ucb(Candidates(SITES), noise_variance=0.01, history=history)


def test_campaign_predict_does_not_change_later_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of 100 times an ensemble uses the latest 64; one that was conditioned before has used others.
    monkeypatch.setattr(posterior, "CONFIG", replace(posterior.CONFIG, latest_times=64))
    places = [tmp_path / "predicted.db", tmp_path / "silent.db"]
    for place in places:
        Campaign.create(place, bandit(TABLE[:88])).close()
    predicted, silent = (Campaign.open(place) for place in places)
    with predicted, silent, Campaign.open(places[0]) as other:
        for t in range(1, 13):
            predicted.predict(SITES)
            for each in (other, silent):
                each.tell(SITES[:2], TABLE[87 + t, :2], float(t))
        points = other.ask(13.0)
        np.testing.assert_array_equal(points, silent.ask(13.0))
        here, there = predicted.predict(SITES), silent.predict(SITES)
        np.testing.assert_array_equal(here, there)
        assert predicted.verify().consistent


def test_campaign_predict_uses_the_changed_sites(tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "a.db", bandit(TABLE[:100])) as campaign:
        campaign.predict(SITES)
        campaign.change_sites(add={"far": [7.0]})
    same = bandit(TABLE[:100]).with_candidates(np.append(SITES, [[7.0]], axis=0))
    points = np.append(SITES, [[7.0]], axis=0)
    with Campaign.open(tmp_path / "a.db") as campaign:
        np.testing.assert_array_equal(campaign.predict(points), same.predict(points))
