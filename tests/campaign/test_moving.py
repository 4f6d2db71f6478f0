"""Move costs and `near` in a campaign: its file, its journal, the command line and the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.campaign.service.serving import DOMAIN, new_bandit, serving
from tests.helpers.commands import commands
from tvbandits import Campaign, Candidates, policies
from tvbandits.campaign.service import Remote, RemoteError

SITES = Candidates(np.linspace(0.0, 5.0, 6)[:, None])

CONFIG = """
[campaign]
move_cost = 0.1

[domain]
sites = "sites.csv"

[policy]
name = "gp-ucb"
noise_sd = 0.1
length_scale = 2.0
"""


def bandit() -> Any:
    return policies.gp_ucb(SITES, RBF(2.0), 0.01).with_move_cost(0.1)


def test_it_is_a_bandit_that_outlives_its_process(tmp_path: Path) -> None:
    twin = bandit()
    with Campaign.create(tmp_path / "campaign.db", bandit()) as campaign:
        for t in range(1, 8):
            near = None if t == 1 else 2.0
            X = campaign.ask(t, near=near, key=f"{t}")
            assert (campaign.ask(t, near=near, key=f"{t}") == X).all()
            assert (twin.ask(t, near=near) == X).all()
            for each in (campaign, twin):
                each.tell(X, X[:, 0], t)
        for each in (campaign, twin):
            each.correct(X, [9.0], 7)
    with Campaign.open(tmp_path / "campaign.db") as again:
        assert again.verify().fine
        costs = again.history["move_cost"]
        assert costs.dropna().tolist() == twin.history["move_cost"].tolist()
        assert costs.isna().sum() == 1  # what was corrected stands there, too


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commands(monkeypatch, capsys, "campaign")
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,x\nA,0\nB,1\nC,2\nD,3\n")
    Path("campaign.toml").write_text(CONFIG)
    command("new", "c.db", "--config", "campaign.toml")
    early = command("ask", "c.db", "--near", "1")
    assert (early.status, "there is none yet" in early.err) == (2, True)
    command("tell", "c.db", "--site", "A", "--reward", "0.2", "--at", "1")
    assert command("ask", "c.db", "--at", "2", "--near", "0.5").out.strip() == "A"
    assert command("ask", "c.db", "--at", "2", "--near", "1").out.strip() in ("A", "B")
    assert command("history", "c.db").out.splitlines()[0].endswith("move_cost")
    wrong = command("ask", "c.db", "--at", "2", "--near=-1")
    assert (wrong.status, "near must be" in wrong.err) == (2, True)


@pytest.mark.parametrize("cost", ['"much"', "-1", "[1]", "true"])
def test_a_file_that_cannot_be_used(tmp_path: Path, cost: str) -> None:
    from tvbandits.cli.campaign_config import read_config

    (tmp_path / "sites.csv").write_text("site,x\nA,0\nB,1\n")
    (tmp_path / "campaign.toml").write_text(
        CONFIG.replace("0.1\n\n[domain]", f"{cost}\n\n[domain]")
    )
    with pytest.raises(ValueError, match="move_cost must be"):
        read_config(tmp_path / "campaign.toml", lambda name: name)


@pytest.mark.slow
def test_over_the_service(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit().with_move_cost(0.1)) as served:
        remote: Any = Remote(served.address, served.tokens["all"])
        remote.tell(DOMAIN.X[:1], [0.0], 1)
        assert np.linalg.norm(remote.ask(2, near=1.0) - DOMAIN.X[0]) <= 1.0
        assert len(remote.history["move_cost"]) == 2
        with pytest.raises(RemoteError, match="near"):
            remote.ask(2, near=-1.0)
