"""`campaign new --history`: a campaign that begins with a table of earlier readings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Answers, policies
from tvbandits.bandit import outliers
from tvbandits.campaign import Campaign
from tvbandits.domains.candidates import Candidates

CONFIG = """
[domain]
sites = "sites.csv"
[policy]
name = "{name}"
seed = 3
"""

SITES = ["A", "B", "C", "D"]


class Counting:
    """An expert that counts its questions; `counting` counts the experts."""

    asked, made = 0, 0

    def query(self, X: np.ndarray, _: float) -> Answers:
        Counting.asked += len(X)
        return Answers(np.zeros(len(X)), 0.01)


def counting() -> Counting:
    """Return a new expert, and count it."""
    Counting.made += 1
    return Counting()


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Forty times at four sites, of which C is the best, with a gap; and the files of a campaign."""
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,km\nA,0\nB,2\nC,4\nD,6\n")
    rng = np.random.default_rng(0)
    values = np.round(rng.normal([0.0, 1.0, 3.0, 0.0], 1.0, (40, 4)), 3)
    values[5, 1] = np.nan
    table = pd.DataFrame(values, columns=SITES, index=pd.Index(np.arange(40.0), name="time"))
    table.to_csv("past.csv")
    Path("c.toml").write_text(CONFIG.format(name="adaptive-gp-ucb"))
    return table


def test_new_command_with_history_plays_as_the_policy_with_that_history(
    command: Command, past: pd.DataFrame
) -> None:
    out = check_success(command("new", "c.db", "--config", "c.toml", "--history", "past.csv"))
    assert "past.csv: 159 readings of 40 times as a history; left out: 1 gap" in out
    domain = Candidates([[0.0], [2.0], [4.0], [6.0]])
    bandit = policies.adaptive_gp_ucb(domain, history=past, seed=3)
    with Campaign.open("c.db") as campaign:
        assert campaign.recipe.beta == bandit.recipe.beta
        for _ in range(5):
            X = bandit.ask()
            np.testing.assert_array_equal(campaign.ask(), X)
            y = np.cos(X[:, 0])
            bandit.tell(X, y)
            campaign.tell(X, y)
        assert campaign.status.readings == 159 + 5
        assert campaign.verify().consistent


def test_new_command_reads_a_long_history_and_asks_no_expert(
    command: Command, past: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "made", 0)
    past.reset_index().melt("time", var_name="site", value_name="reward").to_csv("long.csv")
    maker = f'[expert]\nmaker = "{__name__}:counting"\n'
    Path("f.toml").write_text(CONFIG.format(name="frugal-gp-ucb") + maker)
    expert = f"{__name__}:counting"
    arguments = ("--config", "f.toml", "--history", "long.csv", "--expert", expert)
    check_success(command("new", "f.db", *arguments))
    assert (Counting.made, Counting.asked) == (1, 0)
    assert "159 readings" in check_success(command("status", "f.db"))


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("gp-ucb", None, "gp-ucb does not learn from a history"),
        ("adaptive-gp-ucb", "time,A\n0,1.0\n1,off\n", "off"),
        ("adaptive-gp-ucb", "time,E,F\n0,1.0,2.0\n", "time, e, f"),
        ("adaptive-gp-ucb", "site,time,reward,variance\nA,0,1.0,0.5\n", "cannot have variances"),
    ],
)
@pytest.mark.usefixtures("past")
def test_new_command_refuses_an_invalid_history_and_leaves_no_file(
    command: Command, name: str, table: str | None, message: str
) -> None:
    scale = "length_scale = 2.0\n" if name == "gp-ucb" else ""
    Path("c.toml").write_text(CONFIG.format(name=name) + scale)
    if table is not None:
        Path("past.csv").write_text(table)
    said = command("new", "c.db", "--config", "c.toml", "--history", "past.csv")
    check_error_line(said._replace(out=""), message)
    assert not Path("c.db").exists()


def test_new_command_compares_readings_of_a_history_with_the_whole_table(
    command: Command, past: pd.DataFrame
) -> None:
    shifted = past.assign(D=past["D"] + 12.0)  # a gauge with a bias, far from the first readings
    shifted.to_csv("past.csv")
    check_success(command("new", "c.db", "--config", "c.toml", "--history", "past.csv"))
    shifted.loc[20.0, "A"] = 4000.0
    shifted.to_csv("past.csv")
    said = command("new", "d.db", "--config", "c.toml", "--history", "past.csv")
    check_error_line(said._replace(out=""), "4000")


def test_new_command_accepts_a_history_with_a_stated_noise(
    command: Command, past: pd.DataFrame
) -> None:
    Path("c.toml").write_text(CONFIG.format(name="adaptive-gp-ucb") + "noise_sd = 0.1\n")
    check_success(command("new", "c.db", "--config", "c.toml", "--history", "past.csv"))
    with Campaign.open("c.db") as campaign:
        assert campaign.recipe.noise_variance == pytest.approx(0.01)
        assert campaign.status.readings == past.notna().to_numpy().sum()


def test_new_command_checks_each_time_of_a_history_once_for_outliers(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("places.csv").write_text("site,x,y\nA,0,0\nB,1,0\nC,0,1\n")
    rows = [f"{t},{t % 5}.5,{t % 3}.25,{(t + 1) % 4}.75" for t in range(1, 31)]
    rows[20] = "21,-900,1,2"
    Path("past.csv").write_text("\n".join(["time,A,B,C", *rows]) + "\n")
    judged = list[object]()
    judge = outliers._judge
    monkeypatch.setattr(outliers, "_judge", lambda *args: judged.append(args) or judge(*args))
    new = "new", "r.db", "--policy", "adaptive-gp-ucb:robust=true", "--sites", "places.csv"
    check_success(command(*new, "--history", "past.csv", "--yes"))
    assert 0 < len(judged) <= 30
    with Campaign.open("r.db") as campaign:
        assert campaign.state.readings.y[20 * 3] == -900
    assert "outliers, not used: 1" in check_success(command("status", "r.db", "--best"))
