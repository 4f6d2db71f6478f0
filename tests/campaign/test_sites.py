"""Sites and arms that are added to a campaign, and retired."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Arms, Box, Campaign, Candidates, Clock, policies
from tvbandits.campaign.names import Names
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.cli.campaign_config import read_config

OLD = Candidates([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
ABOUT = {"names": json.dumps(["A", "B", "C"]), "coordinates": json.dumps(["x", "y"])}


def begun(place: Path) -> Campaign:
    campaign = Campaign.create(
        place, policies.gp_ucb(OLD, kernel=RBF(1.0), noise_variance=0.01), about=ABOUT
    )
    campaign.tell(["A", "B", "C"], [0.1, 0.5, 0.3], 1)
    return campaign


def test_campaign_change_sites_adds_a_site_as_if_present_from_the_start(tmp_path: Path) -> None:
    with begun(tmp_path / "c.db") as campaign:
        campaign.change_sites({"D": [3.0, 1.0]}, retire=["A"], key="k")
        campaign.change_sites({"D": [3.0, 1.0]}, retire=["A"], key="k")
        assert campaign.sites == ["B", "C", "D"]
        assert campaign.names.sites == ["A", "B", "C", "D"]
        campaign.tell(["D", "A"], [0.9, 0.2], 2)
        always = policies.gp_ucb(
            Candidates([*OLD.X.tolist(), [3.0, 1.0]]), kernel=RBF(1.0), noise_variance=0.01
        )
        always.tell(OLD.X, [0.1, 0.5, 0.3], 1)
        always.tell([[3.0, 1.0], [0.0, 0.0]], [0.9, 0.2], 2)
        X = np.array([*OLD.X, [3.0, 1.0]])
        np.testing.assert_allclose(campaign.predict(X, 3), always.predict(X, 3), rtol=0, atol=1e-8)
        assert campaign.history["site"].tolist() == ["A", "B", "C", "D", "A"]
        assert_refused(ConflictError, "the key 'k'", campaign.change_sites, retire=["B"], key="k")
        assert_refused(
            ValueError, "^A is already retired", campaign.change_sites, retire=["B", "A"]
        )
    with Campaign.open(tmp_path / "c.db") as campaign:
        assert campaign.sites == ["B", "C", "D"]
        assert campaign.ask(3, n=3, available=["C", "D", "B"]).shape == (3, 2)
        campaign.change_sites(["A"])
        assert campaign.sites == ["A", "B", "C", "D"]
        assert campaign.verify().consistent


def test_campaign_change_sites_restores_a_retired_site_at_its_own_coordinates(
    tmp_path: Path,
) -> None:
    with begun(tmp_path / "c.db") as campaign:
        campaign.change_sites(retire=["B"])
        rows = len(campaign.journal())
        assert_refused(
            ValueError,
            r'"B" .*\[1.0, 0.0\], got \[3.0, 3.0\]',
            campaign.change_sites,
            {"B": [3, 3]},
        )
        assert_refused(ValueError, '"B" must have shape', campaign.change_sites, {"B": [1.0]})
        assert_refused(ValueError, '"D" .*its 2 coordinates', campaign.change_sites, ["D"])
        assert len(campaign.journal()) == rows
        campaign.change_sites({"B": [1, 0]})
        assert campaign.sites == ["A", "B", "C"]


def test_campaign_sites_without_names_are_named_by_their_coordinates(tmp_path: Path) -> None:
    bandit = policies.gp_ucb(OLD, kernel=RBF(1.0), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        campaign.change_sites({"D": [3.0, 1.0]})
        assert campaign.sites == ["0,0", "1,0", "0,2", "3,1"]


def test_names_history_keeps_an_outcome_with_the_name_of_a_coordinate() -> None:
    columns = {"time": [1.0], "x0": [0.0], "x1": [2.0], "reward": [0.3], "x": [7.0]}
    history = Names(OLD, ABOUT).history(columns, None)
    assert (history["x"], history["x1"], history["site"]) == ([7.0], [2.0], ["C"])


def test_campaign_change_sites_is_seen_by_other_readers_and_writers(tmp_path: Path) -> None:
    with begun(tmp_path / "c.db") as one, Campaign.open(tmp_path / "c.db") as other:
        assert other.predict(["A"], 2)[0].shape == (1,)
        one.change_sites({"D": [3.0, 1.0]}, ["B"])
        one.ask(2)
        one.tell(["D"], [4.0], 2)
        assert other.sites == ["A", "C", "D"]
        assert other.predict(["D"], 3)[0][0] > 1.0
        other.tell(["D"], [5.0], 3)
        assert one.status.readings == 5
        assert other.verify().consistent


@pytest.mark.parametrize("about", [{}, {"names": '["old", "new"]'}])  # as of a configuration
def test_campaign_change_sites_adds_and_retires_arms(tmp_path: Path, about: dict[str, str]) -> None:
    bandit = policies.adaptive_gp_ucb(Arms(["old", "new"]), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit, about=about) as campaign:
        campaign.tell(["old", "new"], [1.0, 2.0], 1)
        campaign.change_sites(["bold"], retire=["old"])
        campaign.correct(["old"], [1.5], 1)
        campaign.tell(["bold"], [3.0], 2)
        campaign.ask(3)
        campaign.change_sites(["last"])
        assert all(each.asked for each in campaign.pending_points)
        campaign.change_sites(retire=["last"])
        assert campaign.sites == ["new", "bold"]
        assert campaign.domain == Arms(["old", "new", "bold", "last"], retired=[0, 3])
        assert campaign.history["site"].tolist()[:4] == ["old", "new", "old", "bold"]
        with pytest.raises(ValueError, match='arms have no coordinates, got some for "plain"'):
            campaign.change_sites({"plain": [1.0]})
        assert campaign.verify().consistent


def test_campaign_change_sites_adds_and_retires_sites_in_a_measured_context(tmp_path: Path) -> None:
    domain = Candidates([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]], context={"outside": (-9, 9)})
    bandit = policies.gp_ucb(domain, kernel=RBF(2.0), noise_variance=0.05)
    with Campaign.create(tmp_path / "c.db", bandit, about={"names": '["A", "B", "C"]'}) as campaign:
        assert campaign.sites == ["A", "B", "C"]
        campaign.change_sites({"D": [3.0, 1.0]}, retire=["A"])
        assert campaign.sites == ["B", "C", "D"]
        X = campaign.ask(1, 3, context={"outside": 2.0})
        assert sorted(map(campaign.names.name, X)) == campaign.sites
        assert campaign.verify().consistent


def test_names_change_projects_degrees_as_the_table_of_sites(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text(
        "site,latitude,longitude\nA,45.0,7.0\nB,45.2,7.1\nC,45.1,7.4\n"
    )
    config = tmp_path / "campaign.toml"
    policy = '[policy]\nname = "gp-ucb"\nlength_scale = 10.0\nnoise_sd = 0.1\n'
    config.write_text('[domain]\nsites = "sites.csv"\n' + policy)
    configuration = read_config(config)
    domain: Any = configuration.domain
    about = configuration.about
    found = Names(domain, about).change({"D": [45.1, 7.1]}, [])
    with pytest.raises(ValueError, match=r"latitude must be degrees of at most 90 in size, got 95"):
        Names(domain, about).change({"E": [95.0, 7.1]}, [])
    assert found["X"][0] == pytest.approx([domain.X[1, 0], domain.X[2, 1]])
    assert found["table"] == {"latitude": [45.1], "longitude": [7.1]}


@pytest.mark.parametrize(
    ("add", "retire", "match"),
    [
        ({"A": [9.0, 9.0]}, [], 'already a site "A"'),
        ({"D": [0.0]}, [], r'"D" is a new site, .* 2 coordinates \(x, y\), got 1'),
        ({"D": [0.0, 0.0]}, [], "candidates must differ"),
        ({}, ["E"], 'unknown site "E"'),
        ({}, ["A", "B", "C"], "retired must leave a row to play"),
        ([[1.0]], [], r"each of add must be .* text .* got \[1.0\]"),
        (["D"], [], '"D" is a new site, .* its 2 coordinates'),
        ({}, [[1.0]], r"each of retire must be a whole number .* got \[1.0\]"),
        ({}, [np.inf], "each of retire must be a whole number .* got inf"),
        ({}, [3], "each of retire must be at most 2, got 3"),
    ],
)
def test_campaign_change_sites_refuses_an_invalid_change(
    tmp_path: Path, add: Any, retire: list[Any], match: str
) -> None:
    with begun(tmp_path / "c.db") as campaign:
        assert_refused(ValueError, match, campaign.change_sites, add, retire)
        assert campaign.status.rows == 1
        assert campaign.sites == ["A", "B", "C"]


@pytest.mark.parametrize("ragged", [[[1.0], [1.0, 2.0]], [[[[2.0]], 1.0]]])
@pytest.mark.parametrize("clock", [None, Clock()])
def test_campaign_tell_refuses_ragged_points_and_times(
    tmp_path: Path, ragged: Any, clock: Clock | None
) -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.1)
    with Campaign.create(tmp_path / "c.db", bandit, clock=clock) as campaign:
        assert_refused(ValueError, "X must", campaign.tell, ragged, [1.0], 1.0)
        assert_refused(ValueError, "^(t|when)\\b.* must", campaign.tell, [[0.0]], [1.0], ragged)


def test_campaign_change_sites_refuses_a_box(tmp_path: Path) -> None:
    bandit = policies.gp_ucb(Box([(0, 1)]), kernel=RBF(1.0), noise_variance=0.1)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        rows = campaign.journal()
        assert_refused(ValueError, "Box", campaign.change_sites, {"D": [0.5]})
        assert campaign.journal() == rows
