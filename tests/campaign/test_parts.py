"""Options of a bandit in a campaign: its file, its journal, its commands."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.commands import Command, commands
from tests.helpers.refusals import assert_refused
from tvbandits import Campaign, Candidates, Limit, Options, policies
from tvbandits.campaign import ConflictError
from tvbandits.cli.campaign_config import read_config
from tvbandits.io import SavedFileError

SITES = Candidates(np.linspace(0.0, 5.0, 6)[:, None])
LOUD = Limit("noise_level", at_most=60.0, noise_variance=1.0, each=True)

CONFIG = """
[domain]
sites = "sites.csv"

[policy]
name = "gp-ucb"
noise_sd = 0.1
length_scale = 2.0
"""
MOVING = "[campaign]\nmove_cost = 0.1\n" + CONFIG
LIMITED = CONFIG.replace("[domain]", '[domain]\nsafe = ["A", "B"]') + (
    '\n[[limits]]\nname = "noise_level"\nat_most = 60\nnoise_sd = 1.0\n'
)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """`tvbandits campaign` in a folder with sites."""
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,x\nA,0\nB,1\nC,2\nD,3\n")
    return commands(monkeypatch, capsys, "campaign")


# --- candidates in a file


def test_campaign_open_requires_the_object_of_candidates_in_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "points.npy", np.random.default_rng(0).random((50, 2)))
    domain: Any = Candidates(tmp_path / "points.npy")  # type: ignore[arg-type]
    Campaign.create(
        tmp_path / "c.db", policies.bbkb(domain, kernel=RBF(0.3), noise_variance=0.1)
    ).close()
    trusted = {"tvbandits:MappedRows": domain.rows}
    with Campaign.open(tmp_path / "c.db", trusted=trusted) as campaign:
        campaign.tell(X := campaign.ask(1.0), X[:, 0], 1.0)
    with Campaign.open(tmp_path / "c.db") as campaign:  # the status needs no candidates
        assert campaign.status.readings == len(X)
        assert_refused(
            SavedFileError,
            "^it uses 'tvbandits:MappedRows'.*pass that object",
            lambda: campaign.domain,
        )
    with Campaign.open(tmp_path / "c.db", trusted=trusted) as campaign:
        assert campaign.status.readings == len(X)


# --- move costs and `near`


def moving() -> Any:
    return policies.gp_ucb(SITES, kernel=RBF(2.0), noise_variance=0.01).with_options(move_cost=0.1)


def test_campaign_open_restores_move_costs_and_near(tmp_path: Path) -> None:
    twin = moving()
    with Campaign.create(tmp_path / "campaign.db", moving()) as campaign:
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
        assert again.verify().consistent
        costs = again.history["move_cost"]
        assert costs.dropna().tolist() == twin.history["move_cost"].tolist()
        assert costs.isna().sum() == 1  # the history also has the reading before its correction


def test_ask_command_accepts_near_with_move_costs(command: Command) -> None:
    Path("campaign.toml").write_text(MOVING)
    command("new", "c.db", "--config", "campaign.toml")
    early = command("ask", "c.db", "--near", "1")
    assert (early.status, "there is none yet" in early.err) == (2, True)
    command("tell", "c.db", "--site", "A", "--reward", "0.2", "--at", "1")
    assert command("ask", "c.db", "--at", "2", "--near", "0.5").out.strip() == "A"
    assert command("ask", "c.db", "--at", "2", "--near", "1").out.strip() in ("A", "B")
    assert command("history", "c.db").out.splitlines()[0].endswith("move_cost")
    wrong = command("ask", "c.db", "--at", "2", "--near=-1")
    assert (wrong.status, "near must be" in wrong.err) == (2, True)


# --- a bounded history


def test_new_command_reads_history_as_max_history(command: Command, tmp_path: Path) -> None:
    window = CONFIG.replace('"gp-ucb"', '"sw-gp-ucb"') + "options = { window = 5 }\n"
    Path("campaign.toml").write_text(window + "[campaign]\nhistory = 500\n")
    assert command("new", "c.db", "--config", "campaign.toml").status == 0
    with Campaign.open(tmp_path / "c.db") as campaign:
        assert campaign.recipe.options.max_history == 500


# --- limits


def limited(path: Path) -> Campaign:
    bandit = policies.adaptive_gp_ucb(
        SITES, noise_variance=0.01, options=Options(posterior="exact")
    )
    return Campaign.create(path, bandit.with_options(limits=[LOUD], safe=SITES.X[:2]))


@pytest.mark.filterwarnings("ignore::tvbandits.acquisition.limits.LimitWarning")
def test_campaign_open_restores_limits_and_outcomes(tmp_path: Path) -> None:
    twin = limited(tmp_path / "twin.db")._shared.read().__enter__().bandit
    with limited(tmp_path / "campaign.db") as campaign:
        for t in range(1, 8):
            X = campaign.ask(t)
            assert (twin.ask(t) == X).all()
            level = {"noise_level": 50.0 + 3.0 * X[:, 0]}
            campaign.tell(X, X[:, 0], t, outcomes=level)
            twin.tell(X, X[:, 0], t, outcomes=level)
        for read, same in (([70.0], False), (level["noise_level"], True), ([np.nan], True)):
            with pytest.raises(ConflictError) as error:
                campaign.tell(X, X[:, 0], 7, outcomes={"noise_level": read})
            assert error.value.same is same
        for each in (campaign, twin):
            each.correct(X, [True], 7, outcomes={"noise_level": [70.0]})
    with Campaign.open(tmp_path / "campaign.db") as again:
        assert again.verify().consistent
        assert again.status.violations == 1
        assert again.status.mean_excess == {"noise_level": 10.0}
        assert again.state.outcomes == twin.state.outcomes
        expected = twin.predict(SITES.X, 8, outcome="noise_level")
        assert np.array(again.predict(SITES.X, 8, outcome="noise_level")).tolist() == (
            np.array(expected).tolist()
        )
        table = again.history
        assert table["noise_level"].notna().sum() == 7
        assert table["violations"].sum() == 1


def test_campaign_commands_accept_limits_and_outcomes(command: Command) -> None:
    Path("campaign.toml").write_text(LIMITED)
    command("new", "c.db", "--config", "campaign.toml")
    assert command("ask", "c.db", "--at", "1").out.strip() == "A"
    tell = ("tell", "c.db")
    command(*tell, "--site", "A", "--reward", "0.2", "--at", "1", "--outcome", "noise_level=55")
    Path("more.csv").write_text("site,time,reward,noise_level\nB,2,0.3,61\nA,3,0.1,\n")
    command(*tell, "--csv", "more.csv")
    out = command("status", "c.db").out
    assert "3 readings" in out
    assert "1 limit violation (noise_level by 1 on average)" in out
    command("correct", "c.db", "--site", "B", "--outcome", "noise_level=59")
    assert "0 limit violations" in command("status", "c.db").out
    forecast = command("forecast", "c.db", "--site", "A", "--outcome", "noise_level").out
    assert forecast.startswith("A: 5")
    history = command("history", "c.db").out
    assert history.splitlines()[0].endswith("noise_level,violations,noise_level_excess")
    Path("slip.csv").write_text("site,time,reward,noise_levl\nB,4,0.3,61\n")
    slip = command(*tell, "--csv", "slip.csv")
    assert slip.status == 2
    assert "there is no outcome 'noise_levl': did you mean \"noise_level\"?" in slip.err
    Path("word.csv").write_text("site,time,reward\nB,4,0.3\nA,4,three\n")
    assert "word.csv, line 3: reward must be a number" in command(*tell, "--csv", "word.csv").err
    assert "--to must be" in command("correct", "c.db", "--site", "B", "--to", "inf").err
    nothing = command("correct", "c.db", "--site", "B")
    assert "--to, --variance or --outcome" in nothing.err
    Path("campaign.toml").write_text(CONFIG + '[[limits]]\nname = "key"\nat_most = 1\n')
    odd = command("new", "odd.db", "--config", "campaign.toml")
    assert "outcomes must not have the names of columns, got key" in odd.err
    twice = "noise_level=3 --outcome noise_level=4"
    for said, why in (("a", "name=number"), ("b=3", "no limit on 'b'"), (twice, "given twice")):
        wrong = command(*tell, *f"--site A --reward 1 --outcome {said}".split())
        assert wrong.status == 2
        assert why in wrong.err


def test_tell_command_accepts_outcomes_with_names_similar_to_columns(command: Command) -> None:
    for outcome in ("rewards", "tomes", "wells", "depths"):
        config = "[domain]\nspace.well.interval = [0, 9]\ncontext.depth.interval = [0, 9]\n"
        policy = '[policy]\nname = "adaptive-gp-ucb"\n'
        limit = f'[[limits]]\nname = "{outcome}"\nat_most = 60\n'
        Path("campaign.toml").write_text(config + policy + limit)
        command("new", f"{outcome}.db", "--config", "campaign.toml")
        Path("rows.csv").write_text(f"well,depth,time,reward,{outcome}\n3,4,1,0.3,61\n")
        command("tell", f"{outcome}.db", "--csv", "rows.csv")
        assert "1 limit violation" in command("status", f"{outcome}.db").out
    Path("rows.csv").write_text("well,depth,time,reward,depht\n3,4,1,0.3,61\n")
    assert 'mean "depths"' in command("tell", f"{outcome}.db", "--csv", "rows.csv").err


@pytest.mark.parametrize("said", ["well=3,5, kind=a", "kind=a, well=3,5", "well=3,kind=a,"])
def test_tell_command_refuses_a_decimal_comma_in_a_site(command: Command, said: str) -> None:
    space = '[domain]\n[domain.space]\nwell.interval = [0, 9]\nkind = ["a", "b"]\n'
    Path("campaign.toml").write_text(space + '[policy]\nname = "adaptive-gp-ucb"\n')
    command("new", "c.db", "--config", "campaign.toml")
    wrong = command("tell", "c.db", "--site", said, "--reward", 1)
    assert wrong.status == 2
    assert '3,5"' in wrong.err or "got 'a,'" in wrong.err
    assert command("status", "c.db").out.startswith("0 readings;")


def test_status_command_counts_outliers(command: Command) -> None:
    robust = CONFIG.replace("gp-ucb", "adaptive-gp-ucb") + "[policy.options]\nrobust = true\n"
    Path("campaign.toml").write_text(robust)
    command("new", "c.db", "--config", "campaign.toml")
    rows = [f"{'ABCD'[t % 4]},{t},{900.0 if t == 30 else t % 4 / 10}" for t in range(40)]
    Path("rows.csv").write_text("\n".join(["site,time,reward", *rows]))
    command("tell", "c.db", "--csv", "rows.csv", "--yes")
    assert "; outliers, not used: 1;" in command("status", "c.db", "--best").out.strip() + ";"
    assert '"outliers": 1' in command("status", "c.db", "--best", "--format", "json").out


def test_command_line_shows_a_warning_as_one_line_without_code(command: Command) -> None:
    command("status", "c.db")
    said = warnings.formatwarning(UserWarning("it is\na guess\x1b"), UserWarning, "code.py", 3)
    assert said == "tvbandits: warning: it is a guess\n"


# --- configuration files, and `--like`


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *(
            (MOVING.replace("0.1\n\n", f"{cost}\n\n", 1), "move_cost must")
            for cost in ('"much"', "1e300", "-1", "[1]", "true")
        ),
        *(
            (MOVING.replace("move_cost = 0.1", f"history = {said}"), "history must be")
            for said in ('"much"', "0", "1.5", "true")
        ),
        *(
            (MOVING.replace("move_cost = 0.1", line) + '[clock]\nunit = "1h"\n', says)
            for line, says in {
                "drop_after = 0": r"\[campaign\] drop_after must .*0",
                'drop_after = "6h"': r"drop_after must .*'6h'",
                "title = 3": r"\[campaign\] title must .*3",
                "units = 1": "'units'.*: drop_after, history, move_cost, title",
            }.items()
        ),
        (LIMITED.replace("[[limits]]", "[limits]"), r"\[\[limits\]\]"),
        (LIMITED.replace("at_most", "atmost"), "unknown 'atmost'"),
        (LIMITED.replace('["A", "B"]', '["A", "Z"]'), "Z"),
        (LIMITED.replace("at_most = 60", ""), "at_most or at_least"),
    ],
)
def test_read_config_refuses_an_invalid_file(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "sites.csv").write_text("site,x\nA,0\nB,1\nC,2\nD,3\n")
    (tmp_path / "campaign.toml").write_text(text)
    assert_refused(
        ValueError, says, lambda path: read_config(path).bandit(), tmp_path / "campaign.toml"
    )


def test_new_command_with_like_learns_from_another_campaign(command: Command) -> None:
    Path("sites.csv").write_text("site,x\n" + "".join(f"S{i},{i}\n" for i in range(8)))
    Path("plane.csv").write_text("site,x,y\nA,0,0\nB,1,0\nC,2,1\n")
    like = '[domain]\nsites = "sites.csv"\n[policy]\nname = "adaptive-gp-ucb"\n'
    Path("campaign.toml").write_text(like)
    Path("plane.toml").write_text(like.replace("sites.csv", "plane.csv"))
    there = policies.adaptive_gp_ucb(Candidates(np.linspace(0, 9, 12)[:, None]))
    with Campaign.create("other.db", there) as other:
        for t in range(1, 25):
            X = other.ask(t)
            other.tell(X, np.sin(X[:, 0] + 0.1 * t), t)
        assert command("new", "c.db", "--config", "campaign.toml", "--like", "other.db").status == 0
        with Campaign.open("c.db") as campaign:
            known = policies.adaptive_gp_ucb(campaign.domain).learn_from(other)
            assert campaign.recipe.posterior == known.recipe.posterior
            assert campaign.recipe.posterior.prior_weights
            assert campaign.status.readings == 0
    assert command("ask", "c.db").out.startswith("S")
    for new, config, other_place, why in (
        ("d.db", "campaign.toml", "none.db", "none.db"),
        (
            "e.db",
            "plane.toml",
            "other.db",
            "other.db: the points have 2 coordinates, but those of the other bandit 1",
        ),
        ("f.db", "campaign.toml", "sites.csv", "sites.csv"),
    ):
        wrong = command("new", new, "--config", config, "--like", other_place)
        assert (wrong.status, why in wrong.err) == (2, True), wrong.err
        assert not Path(new).exists()
