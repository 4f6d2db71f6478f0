"""Predictions of a campaign: conditioned once for all processes, and without a trace in decisions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.networks import shared_weather
from tvbandits import Bandit, Campaign, Candidates, policies
from tvbandits.gp.ensemble import posterior
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.validation import Array

SITES = np.arange(6.0)[:, None]
TABLE = shared_weather(110, seed=7)


def bandit(history: Array | None = None) -> Bandit:
    return policies.adaptive_gp_ucb(Candidates(SITES), noise_variance=0.01, history=history)


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of each update of an ensemble."""
    times: list[float] = []
    update = FilterEnsemble.update

    def record(self: Any, rows: Any, values: Any, noise: Any, t: float) -> FilterEnsemble:
        times.append(t)
        return update(self, rows, values, noise, t)

    monkeypatch.setattr(FilterEnsemble, "update", record)
    return times


@pytest.mark.parametrize("source", ["history", "tell", "tell after an ask"])
def test_predict_in_another_process_conditions_only_what_is_new(
    source: str, tmp_path: Path, updates: list[float]
) -> None:
    times = np.arange(-98.0, 2.0)
    same = bandit(TABLE[:100] if source == "history" else None)
    with Campaign.create(tmp_path / "a.db", same) as campaign:
        if source != "history":
            for each in (same, campaign):
                if source == "tell after an ask":
                    each.ask(-99.0)
                each.tell(np.tile(SITES, (100, 1)), TABLE[:100].ravel(), times.repeat(6))
            campaign.snapshot()
    for new in (0, 1):
        if new:
            with Campaign.open(tmp_path / "a.db") as campaign:
                campaign.tell(SITES, TABLE[100], 2.0)
            same.tell(SITES, TABLE[100], 2.0)
        for t in (3.0, 9.0):
            with Campaign.open(tmp_path / "a.db") as campaign:
                del updates[:]
                there = campaign.predict(SITES, t)
                assert len(updates) == new
            np.testing.assert_allclose(there, same.predict(SITES, t), rtol=1e-9)


def test_predict_leaves_no_trace_in_what_others_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of 100 times an ensemble reads the latest 64: one that was conditioned before has read others.
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


def test_predict_after_other_sites_is_about_them(tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "a.db", bandit(TABLE[:100])) as campaign:
        campaign.predict(SITES)
        campaign.change_sites(add={"far": [7.0]})
    same = bandit(TABLE[:100]).with_candidates(np.append(SITES, [[7.0]], axis=0))
    points = np.append(SITES, [[7.0]], axis=0)
    with Campaign.open(tmp_path / "a.db") as campaign:
        np.testing.assert_array_equal(campaign.predict(points), same.predict(points))
