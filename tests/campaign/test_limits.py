"""Limits in a campaign: its file, its journal, the command line and the service."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import commands
from tvbandits import Campaign, Candidates, Limit, policies

SITES = Candidates(np.linspace(0.0, 5.0, 6)[:, None])
LOUD = Limit("noise_level", at_most=60.0, noise_variance=1.0, each=True)

CONFIG = """
[domain]
sites = "sites.csv"
safe = ["A", "B"]

[policy]
name = "gp-ucb"
noise_sd = 0.1
length_scale = 2.0

[[limits]]
name = "noise_level"
at_most = 60
noise_sd = 1.0
"""


def begun(path: Path) -> Campaign:
    bandit = policies.adaptive_gp_ucb(SITES, None, 0.01, posterior="exact")
    return Campaign.create(path, bandit.with_limits([LOUD], SITES.X[:2]))


@pytest.mark.filterwarnings("ignore::tvbandits.core.limits.LimitWarning")
def test_it_is_a_bandit_under_limits_that_outlives_its_process(tmp_path: Path) -> None:
    twin = begun(tmp_path / "twin.db")._read().__enter__().bandit
    with begun(tmp_path / "campaign.db") as campaign:
        for t in range(1, 8):
            X = campaign.ask(t)
            assert (twin.ask(t) == X).all()
            level = {"noise_level": 50.0 + 3.0 * X[:, 0]}
            campaign.tell(X, X[:, 0], t, outcomes=level)
            twin.tell(X, X[:, 0], t, outcomes=level)
        campaign.correct(X, None, 7, outcomes={"noise_level": [70.0]})
        twin.correct(X, None, 7, outcomes={"noise_level": [70.0]})
    with Campaign.open(tmp_path / "campaign.db") as again:
        assert again.verify().fine
        assert again.status.violations == 1
        assert again.state.outcomes == twin.state.outcomes
        expected = twin.predict(SITES.X, 8, outcome="noise_level")
        assert np.array(again.predict(SITES.X, 8, outcome="noise_level")).tolist() == (
            np.array(expected).tolist()
        )
        table = again.history
        assert table["noise_level"].notna().sum() == 7
        assert table["violations"].sum() == 1


def test_what_is_recorded_without_a_bandit_is_the_same(tmp_path: Path) -> None:
    from sklearn.gaussian_process.kernels import RBF

    bandit = policies.gp_ucb(SITES, RBF(2.0), 0.01).with_limits([LOUD], SITES.X[:2])
    with Campaign.create(tmp_path / "campaign.db", bandit) as campaign:
        campaign.record([[0.0]], [0.1], 1, outcomes={"noise_level": [61.0]})
        campaign.record([[1.0]], [0.2], 2, outcomes={"noise_level": [float("nan")]})
        campaign.record([[2.0]], [0.2], 3)
        with pytest.raises(ValueError, match="no limit on weight"):
            campaign.record([[2.0]], [0.2], 4, outcomes={"weight": [61.0]})
        assert (campaign.status.told, campaign.status.violations) == (3, 1)
        assert campaign.history["noise_level"].tolist()[0] == 61.0
        assert len(campaign.state.outcomes["noise_level"].rewards) == 1
        assert campaign.verify().fine


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commands(monkeypatch, capsys, "campaign")
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,x\nA,0\nB,1\nC,2\nD,3\n")
    Path("campaign.toml").write_text(CONFIG)
    command("new", "c.db", "--config", "campaign.toml")
    assert command("ask", "c.db", "--at", "1").out.strip() == "A"
    tell = ("tell", "c.db")
    command(*tell, "--site", "A", "--reward", "0.2", "--at", "1", "--outcome", "noise_level=55")
    Path("more.csv").write_text("site,time,reward,noise_level\nB,2,0.3,61\nA,3,0.1,\n")
    command(*tell, "--csv", "more.csv")
    assert "3 told, 1 limits violated" in command("status", "c.db").out
    command("correct", "c.db", "--site", "B", "--outcome", "noise_level=59")
    assert "0 limits violated" in command("status", "c.db").out
    forecast = command("forecast", "c.db", "--site", "A", "--outcome", "noise_level").out
    assert forecast.startswith("A: 5")
    history = command("history", "c.db").out
    assert history.splitlines()[0].endswith("noise_level,violations")
    Path("slip.csv").write_text("site,time,reward,noise_levl\nB,4,0.3,61\n")
    slip = command(*tell, "--csv", "slip.csv")
    assert slip.status == 2
    assert "there is no outcome 'noise_levl': did you mean \"noise_level\"?" in slip.err
    Path("word.csv").write_text("site,time,reward\nB,4,0.3\nA,4,three\n")
    assert "word.csv: row 2: could not convert" in command(*tell, "--csv", "word.csv").err
    for said, why in (("noise_level", "name=number"), ("weight=3", "no limit on weight")):
        wrong = command(*tell, "--site", "A", "--reward", "1", "--outcome", said)
        assert wrong.status == 2
        assert why in wrong.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CONFIG.replace("[[limits]]", "[limits]"), r"\[\[limits\]\]"),
        (CONFIG.replace("at_most", "atmost"), "unknown 'atmost'"),
        (CONFIG.replace('["A", "B"]', '["A", "Z"]'), "Z"),
        (CONFIG.replace("at_most = 60", ""), "at_most or at_least"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, says: str) -> None:
    from tvbandits.cli.campaign_config import read_config

    (tmp_path / "sites.csv").write_text("site,x\nA,0\nB,1\nC,2\nD,3\n")
    (tmp_path / "campaign.toml").write_text(text)
    with pytest.raises(ValueError, match=says):
        read_config(tmp_path / "campaign.toml", lambda name: name)
