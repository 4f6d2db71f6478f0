"""Gauges of a network that are silent or stand out, against tables made by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.commands import Command
from tests.helpers.refusals import assert_refused
from tests.places import DATA
from tvbandits import Box, Campaign, Candidates, Dataset, Options, policies
from tvbandits.campaign.gauges import offsets_of_plays
from tvbandits.campaign.service.page import Facts
from tvbandits.campaign.shared import SILENT_ASKS
from tvbandits.datasets import sensor_field
from tvbandits.datasets.tables.rounds import SILENT_ROUNDS, Rounds
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


def test_rounds_silence_counts_the_last_rounds_that_a_gauge_missed() -> None:
    for missing in (SILENT_ROUNDS - 1, SILENT_ROUNDS, 12):
        gaps = np.zeros((30, 8), bool)
        gaps[-missing:, 2] = True
        expected = [0] * 8
        expected[2] = missing if missing >= SILENT_ROUNDS else 0
        assert Rounds.of(table(30, gaps)).silence.tolist() == expected


def test_rounds_silence_is_zero_for_a_gauge_that_is_read_rarely() -> None:
    gaps = np.zeros((30, 8), bool)
    gaps[:, 2] = np.arange(30) % 7 != 0  # the last reading is at 28
    gaps[-6:, 2] = True
    assert not Rounds.of(table(30, gaps)).silence.any()


def test_rounds_are_empty_if_gauges_are_read_one_by_one() -> None:
    rows = np.arange(60)
    data = Dataset(X[np.minimum(rows % 9, 7)], rows * 1.0, rows % 5 * 1.0, np.full(60, 0.01))
    rounds = Rounds.of(data)
    assert len(rounds.values) == 0
    assert not rounds.silence.any()
    assert np.isnan(rounds.offsets).all()


@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_rounds_offsets_find_only_the_gauge_with_an_offset(offset: float) -> None:
    offsets = Rounds.of(table(30, offset=offset)).offsets
    assert np.isnan(np.delete(offsets, 6)).all()
    if offset:
        assert offsets[6] == pytest.approx(offset + LEVELS[6], abs=0.2)
    else:
        assert np.isnan(offsets[6])


@pytest.mark.parametrize("minimize", [False, True])
def test_doubtful_sites_and_page_name_gauges_until_they_are_retired(
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
        # A policy does not choose a gauge whose offset makes it worse.
        assert {*found} == ({"P2"} if minimize else {"P2", "P6"})
        assert found["P2"].startswith("silent: no reading in the last 10 times")
        states = {each.name: each.problems for each in Facts(campaign).stations}
        assert states["P2"] == (found["P2"],)
        assert states["P0"] == ()
        campaign.change_sites(retire=["P2"])
        assert "P2" not in campaign.doubtful_sites
        (retired,) = [each for each in Facts(campaign).stations if each.retired]
        assert (retired.name, retired.problems) == ("P2", ())


# --- gauges that are read one by one

NAN = float("nan")
PLACES = [f"P{i}" for i in range(8)]
ABOUT = {"names": json.dumps(PLACES)}


def campaign_at(folder: Path, **options: Any) -> Campaign:
    bandit = policies.gp_ucb(Candidates(X), kernel=RBF(2.0), noise_variance=0.01, **options)
    return Campaign.create(folder / "c.db", bandit, about=ABOUT)


def ask_for(campaign: Campaign, name: str, t: float, y: float | None = NAN) -> None:
    """Ask for one place, and tell its reading unless `y` is None."""
    campaign.ask(t, available=[name])
    if y is not None:
        campaign.tell(name, [y], t)


def silent(campaign: Campaign) -> set[str]:
    return {
        name for name, text in campaign.doubtful_sites.items() if text.startswith("silent: none of")
    }


def test_doubtful_sites_name_a_gauge_without_readings_until_one_comes(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        ask_for(campaign, "P1", 1, 0.3)
        for t in range(2, 2 + SILENT_ASKS):
            assert silent(campaign) == set()
            ask_for(campaign, "P2", t)
        assert silent(campaign) == {"P2"}
        assert campaign.doubtful_sites["P2"].startswith("silent: none of the last 4 readings")
        campaign.tell("P2", [0.4], 3)  # one that comes late
        assert silent(campaign) == set()
        assert campaign.verify().consistent


def test_doubtful_sites_count_dropped_and_overdue_points_as_missing(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        for t in (1, 2):
            ask_for(campaign, "P2", t, None)
            campaign.drop("P2")
        for t in (3, 4):
            ask_for(campaign, "P2", t, None)
        assert silent(campaign) == set()  # nothing later was told
        ask_for(campaign, "P1", 5, 0.3)
        assert silent(campaign) == {"P2"}
        campaign.tell("P2", [NAN], 4)
        campaign.correct("P2", [0.4], 4)
        assert silent(campaign) == set()


def test_doubtful_sites_ignore_a_gauge_whose_readings_come_late(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        for t in range(1, 8):
            ask_for(campaign, "P2", t, None)
        campaign.tell("P2", [0.4], 1)
        ask_for(campaign, "P1", 8, 0.3)
        assert len(campaign.pending) == 6
        assert silent(campaign) == set()


def test_doubtful_sites_ignore_gaps_of_a_table_and_failures_at_one_time(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        campaign.tell(["P2"] * 6, [NAN] * 6, range(6))
        points = campaign.ask(7, n=40, available=["P3", "P4"])
        campaign.tell(points, np.full(len(points), NAN), 7)
        assert silent(campaign) == set()


def test_campaign_choose_leaves_a_silent_gauge_out_unless_named_or_needed(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        for t in range(SILENT_ASKS):
            ask_for(campaign, "P2", t)
        chosen = campaign.choose(5, n=7, key="k")
        assert {*chosen.left_out} == {"P2"}
        assert sorted(chosen.points[:, 0]) == [0, 1, 3, 4, 5, 6, 7]
        assert "P2" not in [campaign.names.name(x) for x in campaign.ask(5, without=["P3"])]
        assert campaign.choose(5, available=["P2"]).left_out == {}
        assert campaign.choose(5, n=8).left_out == {}  # fewer would be left
        campaign.change_sites(retire=[name for name in PLACES if name != "P2"])
        assert (campaign.ask(5) == X[2]).all()  # all are silent
        campaign.change_sites(add=PLACES[3:5])
        campaign.tell("P2", [0.2], 6)
        again = campaign.choose(5, n=7, key="k")
        assert (again.points == chosen.points).all()
        assert again.left_out == chosen.left_out
        assert campaign.choose(7).left_out == {}
        assert campaign.verify().consistent
        state = campaign.state
    with Campaign.open(tmp_path / "c.db") as opened:
        assert opened.state == state


def test_campaign_choose_keeps_a_gauge_that_is_no_longer_read(tmp_path: Path) -> None:
    """Five of eight gauges are read at a time: in turn first, and then always the same five."""
    with campaign_at(tmp_path) as campaign:
        for t in range(20):
            rows = [(t + i) % 8 for i in range(5)] if t < 12 else [0, 1, 2, 3, 4]
            campaign.tell(X[rows], LEVELS[rows], t)
        assert "P7" in campaign.doubtful_sites
        assert campaign.choose(21).left_out == {}


def test_campaign_choose_leaves_a_silent_gauge_out_of_more_points_than_gauges(
    tmp_path: Path,
) -> None:
    with campaign_at(tmp_path) as campaign:
        for t in range(SILENT_ASKS):
            ask_for(campaign, "P2", t)
        chosen = campaign.choose(5, n=30)
        assert {*chosen.left_out} == {"P2"}
        assert 2.0 not in chosen.points[:, 0]


def test_campaign_choose_leaves_a_silent_site_out_in_every_context(tmp_path: Path) -> None:
    domain: Any = Candidates(X, context={"outside": (-15.0, 20.0)})
    bandit = policies.gp_ucb(domain, kernel=RBF(2.0), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit, about=ABOUT) as campaign:
        for t in range(1, 2 + SILENT_ASKS):
            point = campaign.ask(t, available=["P2"], context={"outside": float(t)})
            campaign.tell(point, [0.1 if t == 1 else NAN], t)
        assert {*campaign.choose(9, context={"outside": 0.5}).left_out} == {"P2"}
        campaign.tell(campaign.ask(9, available=["P2"], context={"outside": 7.5}), [0.2], 9)
        assert campaign.choose(10, context={"outside": 0.5}).left_out == {}
        assert campaign.verify().consistent


def test_campaign_choose_keeps_a_silent_control_only(tmp_path: Path) -> None:
    with campaign_at(tmp_path, options=Options(control=X[2])) as campaign:
        for t in range(SILENT_ASKS):
            ask_for(campaign, "P2", t)
            ask_for(campaign, "P3", t)
        chosen = campaign.choose(6, n=3)
        assert {*chosen.left_out} == {"P3"}
        assert (chosen.points[0] == X[2]).all()


def test_ask_command_names_a_silent_gauge_and_how_to_choose_it(
    tmp_path: Path, command: Command
) -> None:
    with campaign_at(tmp_path) as campaign:
        for t in range(SILENT_ASKS):
            ask_for(campaign, "P2", t)
    said = command("campaign", "ask", str(tmp_path / "c.db"), "--at", "5")
    assert said.status == 0
    assert "P2 is left out, silent: none of the last 4 readings" in said.err
    assert "use --available P2 to choose it anyway" in said.err
    named = command("campaign", "ask", str(tmp_path / "c.db"), "--at", "5", "--available", "P2")
    assert named.out.strip() == "P2"
    assert "left out" not in named.err


def one_by_one(problem: Any, seed: int, faulty: int | None = None, by: float = 0.0) -> Dataset:
    """What an adaptive policy reads in 200 steps at most, one gauge at a time."""
    bandit = policies.adaptive_gp_ucb(problem.domain, seed=seed)
    for t, values in enumerate(problem.values[:200]):
        (x,) = bandit.ask(float(t))
        row = int((problem.points == x).all(axis=1).argmax())
        bandit.tell([x], [values[row] + by * (row == faulty)], float(t))
    return bandit.state.readings


def network(name: str) -> Any:
    files = sorted((DATA / "networks").glob(f"{name}_*.csv"))
    if not files:
        pytest.skip(f"no data of {name}")
    readings, sites = sorted(files, key=lambda each: each.stem.endswith("sites"))
    return sensor_field(readings, sites, noise_variance=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sweden_temperature", "ireland_wind", "roads"])
@pytest.mark.parametrize("seed", range(2))
def test_offsets_of_plays_are_empty_for_a_real_network(name: str, seed: int) -> None:
    data = one_by_one(network(name), seed)
    for count in range(12, len(data), 5):
        assert offsets_of_plays(data.take(slice(count))) == []


def test_offsets_of_plays_find_a_large_offset_in_a_real_network() -> None:
    problem = network("sweden_temperature")
    off = 10 * problem.values.std()
    ((x, offset),) = offsets_of_plays(one_by_one(problem, 0, 22, off))
    assert (x == problem.points[22]).all()
    assert offset == pytest.approx(off, rel=0.3)


def test_offsets_of_plays_need_enough_readings_and_other_gauges() -> None:
    t = np.arange(60.0)
    place = np.where(t % 6 < 5, 0, 1 + t // 6 % 3).astype(int)  # three others
    y = np.sin(t) + 100.0 * (place == 0)
    assert offsets_of_plays(Dataset(X[place], t, y, np.full(60, 0.01))) == []
    place = np.where(t % 6 < 5, 0, 1 + t // 6 % 4).astype(int)
    data = Dataset(X[place], t, np.sin(t) + 100.0 * (place == 0), np.full(60, 0.01))
    ((x, offset),) = offsets_of_plays(data)
    assert x == X[0]
    assert offset == pytest.approx(100.0, abs=1.5)
    seven = np.flatnonzero(place == 0)[7:]
    assert offsets_of_plays(data.take(np.delete(np.arange(60), seven))) == []


@pytest.mark.parametrize("minimize", [False, True])
def test_doubtful_sites_name_an_attractive_offset_of_gauges_read_one_by_one(
    tmp_path: Path, minimize: bool
) -> None:
    rng = np.random.default_rng(0)
    with campaign_at(tmp_path, minimize=minimize) as campaign:
        for t in range(80):
            place = int(rng.integers(8))
            y = np.sin(t / 9) + LEVELS[place] + 0.1 * rng.standard_normal() + 30.0 * (place == 6)
            campaign.tell(X[[place]], [y], t, sure=True)
        assert {*campaign.doubtful_sites} == (set() if minimize else {"P6"})


# --- sites that a person confirms


def tell_table(campaign: Campaign, offset: float, first: int, rounds: int = 30) -> None:
    data = table(rounds, offset=offset)
    campaign.tell(data.X, data.y, first + data.t, sure=True)


def test_doubtful_sites_omit_a_confirmed_offset_until_it_changes(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        tell_table(campaign, 5.0, 0)
        before = campaign.state
        assert campaign.doubtful_sites["P6"].endswith("from the median of all places: is it right?")
        campaign.change_sites(confirm=["P6"], key="k")
        campaign.change_sites(confirm=["P6"], key="k")
        assert campaign.doubtful_sites == {}
        assert campaign.state == before
        row = campaign.journal()[-1]
        assert row.arguments["confirm"] == {"P6": pytest.approx(5.2, abs=0.3)}
        tell_table(campaign, 5.5, 30)
        assert campaign.doubtful_sites == {}
        tell_table(campaign, 12.0, 60, rounds=90)
        assert {*campaign.doubtful_sites} == {"P6"}
        campaign.change_sites(confirm=[6])
        assert campaign.verify().problems == ()
    with Campaign.open(tmp_path / "c.db") as opened:
        assert opened.doubtful_sites == {}
        opened.change_sites(retire=["P2"], add={"P8": [9.0]}, confirm=["P6"])
        assert "P2" not in opened.sites
        assert "P8" in opened.sites


def test_campaign_change_sites_confirms_only_sites_that_stand_out(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        wrong: Any = campaign.change_sites
        assert_refused(ValueError, "P1 does not stand out .*; none does", wrong, confirm=["P1"])
        tell_table(campaign, 5.0, 0)
        for sites, text in (
            (["P1"], "P1 does not stand out from the other sites; those that do are P6"),
            (["P6", "P1"], "P1 does not stand out"),
            (["P9"], 'unknown site "P9"'),
            ("P6", "confirm must be"),
            ([8], "confirm"),
            (["P6", "P6", "P1"], "P1 does not stand out"),
            ([2.5], "each of confirm must be a whole number or the name"),
        ):
            assert_refused(ValueError, text, wrong, confirm=sites)
        assert {*campaign.doubtful_sites} == {"P6"}
    with Campaign.create(
        tmp_path / "box.db",
        policies.gp_ucb(Box([(0.0, 1.0)]), kernel=RBF(0.3), noise_variance=0.01),
    ) as campaign:
        assert_refused(ValueError, "sites or arms only", campaign.change_sites, confirm=["P1"])


def test_campaign_change_sites_confirms_a_site_in_a_measured_context(tmp_path: Path) -> None:
    domain: Any = Candidates(X, context={"outside": (-15.0, 20.0)})
    bandit = policies.gp_ucb(domain, kernel=RBF(2.0), noise_variance=0.01)
    data = table(30, offset=5.0)
    with Campaign.create(tmp_path / "c.db", bandit, about=ABOUT) as campaign:
        points = np.column_stack([data.X, np.full(len(data.X), 3.0)])
        campaign.tell(points, data.y, data.t)
        assert {*campaign.doubtful_sites} == {"P6"}
        campaign.change_sites(confirm=["P6"])
        assert campaign.doubtful_sites == {}
        assert campaign.verify().consistent


def test_ask_forecast_and_status_commands_name_the_same_doubts_and_the_remedy(
    tmp_path: Path, command: Command
) -> None:
    data = table(30, offset=5.0)
    data = data.with_values(np.where(data.X[:, 0] == 3.0, LEVELS[3], data.y))
    place = str(tmp_path / "c.db")
    with campaign_at(tmp_path) as campaign:
        campaign.tell(data.X, data.y, data.t)
        stations = {each.name: each.problems for each in Facts(campaign).stations}
    question = f"is it right? if so: tvbandits campaign sites confirm {place} P6"
    stuck = "P3: stuck: its last 30 readings are equal"
    ask = command("campaign", "ask", place, "--at", 31, "--available", "P3,P6", "-n", 2)
    for said in (ask, command("campaign", "forecast", place, "--at", 31)):
        assert said.status == 0
        assert question in said.err
        assert stuck in said.err
    assert question not in command("campaign", "forecast", place, "--site", "P1").err
    status = command("campaign", "status", place, "--best")
    assert question in status.out
    assert stuck in status.out
    assert [len(each) for each in (stations["P3"], stations["P6"])] == [1, 1]
    assert command("campaign", "sites", "confirm", place, "P6").status == 0
    assert "P6" not in command("campaign", "forecast", place, "--at", 31).err
    assert "does not stand out" in command("campaign", "sites", "confirm", place, "P1").err
