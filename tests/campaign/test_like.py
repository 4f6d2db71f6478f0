"""A campaign that begins with what another one has learned: `campaign new --like other.db`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import commands
from tvbandits import Campaign, Candidates, policies

CONFIG = """
[domain]
sites = "sites.csv"

[policy]
name = "adaptive-gp-ucb"
"""


def test_new_like_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commands(monkeypatch, capsys, "campaign")
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,x\n" + "".join(f"S{i},{i}\n" for i in range(8)))
    Path("plane.csv").write_text("site,x,y\nA,0,0\nB,1,0\nC,2,1\n")
    Path("campaign.toml").write_text(CONFIG)
    Path("plane.toml").write_text(CONFIG.replace("sites.csv", "plane.csv"))
    there = policies.adaptive_gp_ucb(Candidates(np.linspace(0, 9, 12)[:, None]))
    with Campaign.create("other.db", there) as other:
        for t in range(1, 13):
            X = other.ask(t)
            other.tell(X, np.sin(X[:, 0] + 0.1 * t), t)
        assert command("new", "c.db", "--config", "campaign.toml", "--like", "other.db").status == 0
        with Campaign.open("c.db") as campaign:
            known = policies.adaptive_gp_ucb(campaign.domain).learn_from(other)
            assert campaign.recipe.posterior == known.recipe.posterior
            assert campaign.recipe.posterior.prior
            assert campaign.status.told == 0
    assert command("ask", "c.db").out.startswith("S")
    for new, config, like, why in (
        ("d.db", "campaign.toml", "none.db", "none.db"),
        ("e.db", "plane.toml", "other.db", "other.db: points have 2 coordinates here, and 1"),
        ("f.db", "campaign.toml", "sites.csv", "sites.csv"),
    ):
        wrong = command("new", new, "--config", config, "--like", like)
        assert (wrong.status, why in wrong.err) == (2, True), wrong.err
        assert not Path(new).exists()
