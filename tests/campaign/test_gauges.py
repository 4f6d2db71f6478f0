"""Gauges of a network that are silent or stand out, against tables made by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Campaign, Candidates, Dataset, policies
from tvbandits.campaign.gauges import SILENT_ROUNDS, Rounds
from tvbandits.campaign.service.page import Facts
from tvbandits.validation import Array

X = np.arange(8.0)[:, None]
LEVELS = np.array([0.0, 0.3, -0.2, 0.1, 0.4, -0.3, 0.2, -0.1])


def table(rounds: int, gaps: Array | None = None, offset: float = 0.0) -> Dataset:
    """Readings of eight gauges; `gaps` (rounds, 8) has those that are missing, gauge 6 is off."""
    rng = np.random.default_rng(0)
    y = np.sin(np.arange(rounds) / 3)[:, None] + LEVELS + 0.05 * rng.standard_normal((rounds, 8))
    y[:, 6] += offset
    present = np.ones(y.shape, bool) if gaps is None else ~gaps
    row, place = np.nonzero(present)
    return Dataset(X[place], row.astype(float), y[present], np.full(len(row), 0.01))


def test_a_gauge_that_misses_the_last_rounds_is_silent() -> None:
    for missing in (SILENT_ROUNDS - 1, SILENT_ROUNDS, 12):
        gaps = np.zeros((30, 8), bool)
        gaps[-missing:, 2] = True
        expected = [0] * 8
        expected[2] = missing if missing >= SILENT_ROUNDS else 0
        assert Rounds.of(table(30, gaps)).missed.tolist() == expected


def test_a_place_that_is_read_now_and_then_is_not_silent() -> None:
    gaps = np.zeros((30, 8), bool)
    gaps[:, 2] = np.arange(30) % 7 != 0  # the last reading is at 28
    gaps[-6:, 2] = True
    assert not Rounds.of(table(30, gaps)).missed.any()


def test_plays_one_by_one_are_no_rounds() -> None:
    rows = np.arange(60)
    data = Dataset(X[np.minimum(rows % 9, 7)], rows * 1.0, rows % 5 * 1.0, np.full(60, 0.01))
    rounds = Rounds.of(data)
    assert len(rounds.values) == 0
    assert not rounds.missed.any()
    assert np.isnan(rounds.offsets).all()


@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_a_gauge_with_an_offset_stands_out_alone(offset: float) -> None:
    offsets = Rounds.of(table(30, offset=offset)).offsets
    assert np.isnan(np.delete(offsets, 6)).all()
    if offset:
        assert offsets[6] == pytest.approx(offset + LEVELS[6], abs=0.2)
    else:
        assert np.isnan(offsets[6])


@pytest.mark.parametrize("minimize", [False, True])
def test_page_and_campaign_name_gauges_until_they_are_retired(
    tmp_path: Path, minimize: bool
) -> None:
    names = [f"P{i}" for i in range(8)]
    bandit = policies.gp_ucb(Candidates(X), kernel=RBF(2.0), noise_variance=0.01, minimize=minimize)
    gaps = np.zeros((30, 8), bool)
    gaps[-10:, 2] = True
    data = table(30, gaps, offset=5.0)
    with Campaign.create(tmp_path / "c.db", bandit, about={"names": json.dumps(names)}) as campaign:
        campaign.tell(data.X, data.y, data.t)
        found = campaign.doubtful_sites
        # An offset that is worse attracts nobody.
        assert {*found} == ({"P2"} if minimize else {"P2", "P6"})
        assert found["P2"].startswith("silent: no reading in the last 10 times")
        states = {each.name: each.problems for each in Facts(campaign).stations}
        assert states["P2"] == (found["P2"],)
        assert states["P0"] == ()
        campaign.change_sites(retire=["P2"])
        assert "P2" not in campaign.doubtful_sites
        (retired,) = [each for each in Facts(campaign).stations if each.retired]
        assert (retired.name, retired.problems) == ("P2", ())
