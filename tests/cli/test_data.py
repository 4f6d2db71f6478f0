"""`data fetch`, parts of the user's own in `compare`, and campaigns by commands."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.datasets.test_fetch import BODY, NEWER, ZIP
from tests.helpers.commands import Command, CommandResult, check_error_line, check_success, commands
from tests.helpers.file_server import ServedFiles, serve_files
from tests.places import ROOT
from tvbandits import Campaign, Options, Recipe, policies
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.cli.campaign_config import KEYS, options_of
from tvbandits.datasets import ozone
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone
from tvbandits.gp.ensemble.posterior import ModelEnsemble
from tvbandits.policies import POLICIES


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedFiles]:
    """A server in place of the EPA's, and a folder of downloads."""
    with serve_files({ZIP: BODY, "daily_44201_2009.zip": NEWER}) as server:
        known = partial(fetch_ozone, base_url=server.url)
        monkeypatch.setattr("tvbandits.cli.inspecting.fetch_ozone", known)
        monkeypatch.setenv("TVBANDITS_CACHE", str(tmp_path / "our cache"))
        yield server


# --- fetch


def test_fetch_command_downloads_each_file_once_and_prints_the_next_command(
    served: ServedFiles, tmp_path: Path, command: Command
) -> None:
    cache = tmp_path / "our cache"
    given = ("data", "fetch", "ozone", "--years", "2008", "2009")
    paths = [cache / f"daily_44201_{year}_new-york.csv" for year in (2008, 2009)]
    *lines, next_ = check_success(command(*given, "--state", "New York")).splitlines()
    assert lines == [str(path) for path in paths]
    words = shlex.split(next_)
    assert words[:3] == ["tvbandits", "compare", "ozone"]
    assert words[3:] == ["--data", str(paths[0]), "--data", str(paths[1])]
    assert len(ozone(paths).labels) == 2
    said = check_success(command(*given))
    assert said.splitlines()[:2] == [str(cache / ZIP), str(cache / "daily_44201_2009.zip")]
    assert "tvbandits compare ozone:sites=28 --data " in said
    assert len(served.requests) == 2


def test_fetch_command_refuses_invalid_arguments(served: ServedFiles, command: Command) -> None:
    given = ("data", "fetch", "ozone", "--years", "2008")
    for arguments, message in (
        (("data", "fetch", "weather", "--years", "2008"), "'weather' is not"),
        (given[:3], "Missing option '--years'"),
        ((*given[:4], "08-10"), "'--years': .*08-10"),
        ((*given, "--state", "Atlantis"), "state=Atlantis has no rows"),
    ):
        check_error_line(command(*arguments), message)
    said = command(*given[:4], "2035")
    assert said.status == 1
    assert f"{served.url}/daily_44201_2035.zip: HTTP status 404 Not" in said.err


# --- a width, a problem, a policy and an expert of the user's, each from one file in the current folder

OURS = '''
from dataclasses import dataclass
import numpy as np
from tvbandits import Answers, Bandit, Recipe
from tvbandits.datasets import DriftingBump
from tvbandits.policies import POLICIES


@dataclass(frozen=True)
class Shrinking:
    """A width that falls with the number of rewards told."""

    first: float = 3.0

    def __call__(self, situation):
        return self.first / (1 + situation.count) ** 0.5


narrow = Shrinking(0.5)


policy = POLICIES["sw-gp-ucb"]


def greedy(setting, mean: float = 0.0):
    return Bandit(Recipe(**setting.parts, beta=0.0, mean=mean), seed=setting.seed)


def problem(candidates: int = 21, horizon: int = 30):
    return DriftingBump(candidates, horizon=horizon)


fixed = DriftingBump(11, horizon=25)


class Flat:
    """Says the same of every point."""

    def __init__(self, problem, seed):
        assert isinstance(seed, int) and problem.domain

    def query(self, X, t):
        return Answers(np.full(len(X), 1.5), 0.01)


def flat(problem, seed):
    return Flat(problem, seed)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plug") / "here"
    (made / "lab").mkdir(parents=True)
    (made / "lab" / "__init__.py").touch()
    (made / "lab" / "ours.py").write_text(OURS)
    return made


def run_plug_ins(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tvbandits", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def compared(folder: Path, problem: str, *arguments: str, jobs: int = 1) -> list[dict[str, Any]]:
    said = run_plug_ins(
        folder, "compare", problem, "--horizon=8", "--seeds=2", f"--jobs={jobs}",
        "--format=json", *arguments,
    )  # fmt: skip
    assert (said.returncode, said.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(said.stdout)["summary"]
    return [{k: v for k, v in line.items() if k != "seconds_per_step"} for line in found]


@pytest.mark.slow
def test_compare_command_plays_own_parts_alike_in_one_and_two_processes(folder: Path) -> None:
    given = [
        "--policy=lab.ours:policy:window=5,beta=1",
        "--policy=lab.ours:greedy:mean=1",
        "--policy=sparq-gp-ucb",
        "--beta=lab.ours:Shrinking",
        "--expert=lab.ours:flat",
    ]
    one = compared(folder, "lab.ours:problem:candidates=31", *given)
    given[-1] = "--expert=lab.ours:Flat"  # the class itself makes one, too
    assert one == compared(folder, "lab.ours:problem:candidates=31", *given, jobs=2)
    assert [f"--policy={line['policy']}" for line in one] == given[:3]
    widths = [line["width"] for line in one]
    assert widths == ["1", "lab.ours:Shrinking", "lab.ours:Shrinking"]
    assert {line["problem"] for line in one} == {"lab.ours:problem:candidates=31"}
    assert one[2]["answered_per_step"] > 1
    honest = compared(folder, "lab.ours:problem:candidates=31", *given[2:4])
    assert honest[0]["average_regret"] != one[2]["average_regret"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere:problem", '"nowhere:problem": cannot import nowhere: ModuleNotFoundError'),
        ("lab.ours:problm", '"lab.ours:problm": lab.ours has no "problm"; did you mean "problem"?'),
        ("lab.ours:problem:size=3", 'unknown parameter "size"; its parameters: candidates, horizon'),
        ("lab.ours:narrow", "Shrinking(first=0.5), which has no best, domain"),
        ("lab.ours:fixed --policy lab.ours:fixed", "must be a policy, or a function of a Setting"),
        ("lab.ours:fixed --beta lab.ours:fixed", 'beta must be "theory", a number or'),
        ("lab.ours:fixed --expert lab.ours:fixed", "--expert must be package.module:maker"),
        ("lab.ours:fixed --policy sparq-gp-ucb --expert math:gcd --jobs 1", '"math:gcd": '),
    ],
)  # fmt: skip
def test_compare_command_refuses_an_invalid_own_part_in_one_line(
    folder: Path, arguments: str, message: str
) -> None:
    said = run_plug_ins(folder, "compare", *arguments.split())
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.count("\n") == 1
    assert message in said.stderr


# --- campaigns by commands

SITES = (
    "station,lat,lon\nAQ01,48.10,11.50\nAQ02,48.14,11.50\nAQ03,48.10,11.56\nAQ04,48.18,11.62\n"
    "AQ05,48.22,11.40\nAQ06,48.02,11.44\nAQ07,48.06,11.68\nAQ08,48.26,11.58\nAQ09,48.00,11.60\n"
)

CONFIG = """
[domain]
sites = "sites.csv"
[policy]
name = "tv-gp-ucb"
length_scale = 4.0
noise_sd = 1.0
options = { forgetting_rate = 0.01 }
"""

SPACE = """
[domain.space]
flow = { interval = [30, 60] }
pump = { whole = [10, 30] }
hyst = { interval = [2, 8] }
mode = ["eco", "fast, loud"]
[policy]
name = "tv-gp-ucb"
noise_sd = 0.5
"""


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """`tvbandits ...` in a folder with a table of sites."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites.csv").write_text(SITES)
    (tmp_path / "c.toml").write_text(CONFIG)
    (tmp_path / "s.toml").write_text(SPACE)
    return commands(monkeypatch, capsys)


def wrong(said: CommandResult) -> str:
    assert (said.status, said.out) == (2, ""), said
    assert said.err.count("\n") == 1
    return said.err


# --- kilometres


def test_campaign_and_compare_commands_convert_degrees_to_kilometres(command: Command) -> None:
    new = check_success(command("campaign", "new", "c.db", "--config", "c.toml"))
    assert "lat and lon as km north and east of the centre" in new
    check_success(command("campaign", "tell", "c.db", "--site", "AQ01", "--reward", 40, "--at", 1))
    check_success(command("campaign", "tell", "c.db", "--site", "AQ08", "--reward", 20, "--at", 1))
    said = json.loads(
        check_success(command("campaign", "forecast", "c.db", "--at", 2, "--format", "json"))
    )
    mean = {row["site"]: row["mean"] for row in said["forecast"]}
    assert (
        mean["AQ01"] > 36 > 24 > mean["AQ08"]
    )  # with degrees as lengths, all nine would be near 30
    assert abs(mean["AQ05"] - 30) < 2  # 15 km from both
    Path("values.csv").write_text(
        "hour," + ",".join(f"AQ0{i}" for i in range(1, 10)) + "\n"
        + "\n".join(f"{h}," + ",".join(str(h % 5 + i) for i in range(9)) for h in range(8))
    )  # fmt: skip
    files = ("--data", "values.csv", "--data", "sites.csv")
    played = command("compare", "sensor-field", *files, "--policy=uniform", "--seeds=1", "--jobs=1")
    assert "lat and lon as km north and east of the centre" in played.err
    with Campaign.open("c.db") as campaign:
        X = campaign.recipe.domain.X
        assert campaign.about["length_unit"] == "km"
    east = 6371.0088 * np.radians(0.06) * np.cos(np.radians(48.12))
    assert np.allclose(X[2] - X[0], [east, 0.0], rtol=1e-3)


def test_campaign_commands_find_a_site_by_its_degrees(command: Command) -> None:
    check_success(command("campaign", "new", "c.db", "--config", "c.toml"))
    Path("day.csv").write_text("lat,lon,time,reward\n48.14,11.50,1,40\n48.26,11.58,1,20\n")
    assert "2 readings in all" in check_success(
        command("campaign", "tell", "c.db", "--csv", "day.csv")
    )
    by_degrees = check_success(
        command("campaign", "forecast", "c.db", "--at", 2, "--site", "48.14,11.50")
    )
    assert by_degrees == check_success(
        command("campaign", "forecast", "c.db", "--at", 2, "--site", "aq02")
    )


# --- noise


@pytest.mark.parametrize(
    ("said", "variance"),
    [("noise_sd = 0.5", 0.25), ("noise_variance = 0.5", 0.5), ("noise_variance = 'none'", None),
     ("noise_sd = 'none'", None), ("", None)],
)  # fmt: skip
def test_new_command_reads_noise_sd_and_noise_variance(
    command: Command, said: str, variance: float | None
) -> None:
    Path("c.toml").write_text(CONFIG.replace("noise_sd = 1.0", said))
    check_success(command("campaign", "new", "c.db", "--config", "c.toml"))
    with Campaign.open("c.db") as campaign:
        assert campaign.recipe.noise_variance == variance


@pytest.mark.parametrize("said", ["noise = 0.5", "noise_sd = 1\nnoise_variance = 1"])
def test_new_command_refuses_unnamed_or_double_noise_with_both_names(
    command: Command, said: str
) -> None:
    Path("c.toml").write_text(CONFIG.replace("noise_sd = 1.0", said))
    error = wrong(command("campaign", "new", "c.db", "--config", "c.toml"))
    assert "noise_sd" in error
    assert "noise_variance" in error
    assert not Path("c.db").exists()


# --- corrections


@pytest.fixture
def told(command: Command) -> Command:
    """Four readings of one hour each."""
    check_success(command("campaign", "new", "c.db", "--config", "c.toml"))
    for t in range(1, 5):
        site = f"AQ0{t}"
        check_success(
            command("campaign", "tell", "c.db", "--site", site, "--reward", 20 + t, "--at", t)
        )
    return command


def reading(command: Command, verb: str, site: str, *more: object) -> CommandResult:
    return command("campaign", verb, "c.db", "--site", site, *more)


def test_campaign_commands_refuse_a_far_time_and_correct_it(told: Command) -> None:
    late = ("--reward", 25, "--at", 8768)
    refused = wrong(told("campaign", "ask", "c.db", "--at", 8768))
    assert "t = 8768 is far ahead of t = 4" in refused
    assert "--yes" in refused
    assert "AQ05 at t = 8768 is far ahead of t = 4" in wrong(reading(told, "tell", "AQ05", *late))
    for verb, site, t in (("tell", "AQ05", 5), ("correct", "AQ04", 4)):
        error = wrong(reading(told, verb, site, "--reward", 2500, "--at", t))
        assert f"{site}: 2500 is far from the readings so far, 21 to 24" in error
    check_success(reading(told, "tell", "AQ05", *late, "--yes"))
    refused = wrong(told("campaign", "ask", "c.db", "--at", 5))
    assert "there is a later reading, at t = 8768" in refused
    out = check_success(reading(told, "correct", "AQ05", "--at", 8768, "--to", 5, "--who", "anna"))
    assert out == "corrected: AQ05 at t = 8768, which was 25, moved to t = 5; 5 readings in all\n"
    check_success(told("campaign", "ask", "c.db", "--at", 6))
    history = check_success(told("campaign", "history", "c.db"))
    (corrected,) = (line for line in history.splitlines() if "corrected" in line)
    assert corrected.startswith("8768.0,")
    assert "consistent" in check_success(told("campaign", "verify", "c.db"))
    out = check_success(reading(told, "retract", "AQ05"))
    assert out == "retracted: AQ05 at t = 5, which was 25; 4 readings in all\n"
    with Campaign.open("c.db") as campaign:
        rows = campaign.journal()[-3:]
    assert [row.kind for row in rows] == ["correct", "ask", "retract"]
    assert rows[0].who == "anna"


def test_tell_command_says_how_to_add_or_replace_a_second_reading(told: Command) -> None:
    again = ("--reward", 30, "--at", 4)
    error = wrong(reading(told, "tell", "AQ04", *again))
    assert "AQ04 at t = 4: 24; give a --key if" in error
    assert "`campaign correct`" in error
    assert "0 new readings" in check_success(
        reading(told, "tell", "AQ04", "--reward", 24, "--at", 4)
    )
    assert "5 readings in all" in check_success(
        reading(told, "tell", "AQ04", *again, "--key", "second")
    )
    Path("day.csv").write_text("site,time,reward,key\nAQ01,5,30,\nAQ01,5,31,\n")
    said = told("campaign", "tell", "c.db", "--csv", "day.csv")
    assert (said.status, said.out) == (2, "1 new reading; 6 readings in all, 0 pending\n")
    assert "line 3: line 2 already has a reading of AQ01 at t = 5" in said.err
    Path("day.csv").write_text("site,time,reward,key\nAQ01,5,30,a\nAQ01,5,31,b\n")
    assert "8 readings in all" in check_success(
        told("campaign", "tell", "c.db", "--csv", "day.csv")
    )


def test_correct_command_names_the_readings_of_the_site(told: Command) -> None:
    error = wrong(reading(told, "correct", "AQ04", "--reward", 23, "--at", 9))
    assert "at t = 9; there are some at t = 4" in error
    assert "the right reward" in wrong(reading(told, "correct", "AQ04"))


# --- names


def test_tell_command_accepts_the_point_that_ask_prints(command: Command) -> None:
    check_success(command("campaign", "new", "c.db", "--config", "s.toml"))
    for t in range(1, 4):
        place = check_success(command("campaign", "ask", "c.db", "--at", t)).strip()
        out = check_success(reading(command, "tell", place, "--reward", t, "--at", t))
        assert out == f"1 new reading; {t} reading{'s' * (t > 1)} in all, 0 pending\n"
    best = (
        check_success(command("campaign", "status", "c.db", "--best"))
        .strip()
        .partition("best: ")[2]
    )
    assert best in check_success(command("campaign", "forecast", "c.db", "--site", best, "--at", 4))
    Path("day.csv").write_text('flow,pump,hyst,mode,time,reward\n40,12,3,"fast, loud",4,2\n')
    assert "4 readings in all" in check_success(
        command("campaign", "tell", "c.db", "--csv", "day.csv")
    )
    Path("out.csv").write_text(check_success(command("campaign", "history", "c.db")))
    last = pd.read_csv("out.csv").iloc[-1]
    assert (last["flow"], last["pump"], last["mode"]) == (40, 12, "fast, loud")
    error = wrong(reading(command, "tell", "flow=40, pump=12, hys=3, mode=eco", "--reward", 1))
    assert "hyst" in error


EVERY_KIND = """
[domain.space]
rate = { log = [1e-6, 0.1] }
direction = { periodic = [0, 360] }
batch = { choices = [16, 32, 64] }
share = { interval = [0, 1] }
[domain.context]
hour = { periodic = 24 }
[policy]
name = "tv-gp-ucb"
noise_sd = 0.5
"""


def test_campaign_commands_accept_every_kind_of_parameter(command: Command) -> None:
    Path("k.toml").write_text(EVERY_KIND)
    check_success(command("campaign", "new", "k.db", "--config", "k.toml"))
    for t in range(1, 4):
        ask = ("campaign", "ask", "k.db", "--at", t, "--context", "hour=23.5")
        place = check_success(command(*ask)).strip()
        said = ("campaign", "tell", "k.db", "--site", place, "--reward", t, "--at", t)
        assert "0 pending" in check_success(command(*said))
    Path("day.csv").write_text(
        "rate,direction,batch,share,hour,time,reward\n1e-4,350,32,0.5,0.5,4,2\n"
    )
    assert "4 readings in all" in check_success(
        command("campaign", "tell", "k.db", "--csv", "day.csv")
    )
    Path("out.csv").write_text(check_success(command("campaign", "history", "k.db")))
    last = pd.read_csv("out.csv").iloc[-1]
    names = ["rate", "direction", "batch", "share", "hour"]
    assert last[names].tolist() == [1e-4, 350.0, 32, 0.5, 0.5]
    for bad in ("batch=48", "direction=361", "rate=0"):
        text = ["rate=1e-4", "direction=350", "batch=32", "share=0.5"]
        other = ", ".join(each for each in text if each[:4] != bad[:4])
        said = ("--site", f"{other}, {bad}", "--reward", 1, "--context", "hour=1", "--at", 9)
        assert bad.split("=")[0] in wrong(command("campaign", "tell", "k.db", *said))


def test_campaign_commands_accept_an_hour_of_the_day_as_context(command: Command) -> None:
    context = "[domain.context]\nhour = { periodic = [0, 24] }\n[policy]"
    Path("h.toml").write_text(CONFIG.replace("[policy]", context))
    check_success(command("campaign", "new", "h.db", "--config", "h.toml"))
    place = check_success(
        command("campaign", "ask", "h.db", "--at", 1, "--context", "hour=23.5")
    ).strip()
    tell = ("campaign", "tell", "h.db", "--site", place, "--reward", 9, "--at", 1)
    assert "0 pending" in check_success(command(*tell))
    Path("day.csv").write_text("site,hour,time,reward\nAQ01,12,2,1\n")
    check_success(command("campaign", "tell", "h.db", "--csv", "day.csv"))
    Path("out.csv").write_text(check_success(command("campaign", "history", "h.db")))
    history = pd.read_csv("out.csv")
    assert history["hour"].tolist() == [23.5, 12.0]
    assert history["site"].tolist() == [place, "AQ01"]
    ask = ("campaign", "status", "h.db", "--best", "--context", "hour=0.25")
    assert place in check_success(command(*ask))


def test_new_command_reads_season_none(command: Command) -> None:
    text = '[domain]\nsites = "sites.csv"\n[policy]\nname = "frugal-gp-ucb"\n'
    Path("t.toml").write_text(text + 'options = { season = "none" }\n')
    Path("s.toml").write_text(text.replace("ucb", "ucb:season=none"))
    for name in ("t", "s"):
        check_success(command("campaign", "new", f"{name}.db", "--config", f"{name}.toml"))
        with Campaign.open(f"{name}.db") as campaign:
            assert campaign.recipe.posterior == ModelEnsemble(both=True, season=None)


# --- every recipe


NEEDED = {
    "sw-gp-ucb": "window=20",
    "r-gp-ucb": "reset_every=20",
    "mk-gp-ucb": "forgetting_rate=0.05",
}


def with_a_model() -> list[str]:
    found = []
    for policy in POLICIES.values():
        parameters = policy.recipe.__annotations__
        if "kernel" in parameters and parameters["return"] == "Bandit":
            found.append(policy.name)
    return found


@pytest.mark.parametrize("name", with_a_model())
def test_new_command_writes_the_configuration_of_every_policy_with_a_model(
    command: Command, name: str
) -> None:
    spec = f"{name}:{NEEDED[name]}" if name in NEEDED else name
    given = ("--policy", spec, "--sites", "sites.csv", "--noise-sd", 1.5)
    out = check_success(command("campaign", "new", "c.db", *given))
    assert out.startswith("c.db: a campaign on Candidates(9 points, d=2)")
    assert "\nwrote campaign.toml\n" in out
    text = Path("campaign.toml").read_text()
    assert all(option in text for option in options_of(POLICIES[name]))
    with Campaign.open("c.db") as campaign:
        assert isinstance(campaign.recipe, Recipe)
        assert campaign.recipe.noise_variance == 2.25
        assert len(campaign.ask(1)) >= 1


def test_status_command_shows_the_learned_noise(command: Command) -> None:
    check_success(
        command("campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv")
    )
    with Campaign.open("c.db") as campaign:
        for t in range(1, 5):
            X = campaign.ask(t)
            campaign.tell(X, [float(t)] * len(X), t)
            with pytest.raises(ConflictError, match="already a reading") as again:
                campaign.tell(X, [float(t)] * len(X), t)
            assert again.value.same
        noise = campaign.info.model.noise
        assert noise.readings == 4
        assert campaign.status.readings == 4
    shown = f"{noise.variance:.2g}, {noise.low:.2g} to {noise.high:.2g} (95%), from 4 readings"
    assert shown in check_success(command("campaign", "status", "c.db", "--best"))
    said = json.loads(
        check_success(command("campaign", "status", "c.db", "--best", "--format", "json"))
    )
    assert said["noise_variance"]["readings"] == 4


def test_new_command_applies_the_options_of_a_policy(command: Command) -> None:
    spec = "frugal-gp-ucb:queries_per_step=1,season=24"
    out = check_success(command("campaign", "new", "c.db", "--policy", spec, "--config", "c2.toml"))
    assert "wrote c2.toml: fill in sites" in out
    assert "\nqueries_per_step = 1.0\n# " in Path("c2.toml").read_text()
    error = wrong(command("campaign", "new", "d.db", "--policy", spec, "--config", "c2.toml"))
    assert "c2.toml already exists: --config c2.toml without --policy starts" in error
    assert "no model" in wrong(command("campaign", "new", "d.db", "--policy", "uniform"))
    Path("d.toml").write_text(f'domain.sites = "sites.csv"\npolicy.name = "{spec}"\n')
    for name in ("c2", "d"):
        check_success(command("campaign", "new", f"{name}.db", "--config", f"{name}.toml"))
        with Campaign.open(f"{name}.db") as campaign:
            expected = policies.frugal_gp_ucb(
                campaign.recipe.domain, expert=None, queries_per_step=1, options=Options(season=24)
            ).recipe
            assert campaign.recipe.posterior == expected.posterior
            assert campaign.recipe.query_config.plan == expected.query_config.plan


def test_campaign_toml_page_names_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "campaign-toml.md").read_text()
    for keys in KEYS.values():
        for key in keys:
            assert f"`{key}`" in page or f"[{key}]" in page, key


# --- contexts


def test_campaign_commands_use_a_context_and_refuse_an_invalid_one(
    command: Command, tmp_path: Path
) -> None:
    context = "\n[domain.context]\noutside = { interval = [-15, 20] }\n[policy]"
    numbers = SPACE.replace('mode = ["eco", "fast, loud"]\n', "")
    (tmp_path / "h.toml").write_text(numbers.replace("\n[policy]", context))
    check_success(command("campaign", "new", "h.db", "--config", "h.toml"))
    said = wrong(command("campaign", "ask", "h.db", "--at", 1))
    assert "the campaign has a context: give it as --context outside=..." in said
    ask = ("campaign", "ask", "h.db", "--at", 1, "--key", "one", "--context")
    place = check_success(command(*ask, "outside=3.2")).strip()
    assert place.split(", ")[1].removeprefix("pump=").isdigit()  # among numbers it stays whole
    assert check_success(command(*ask, "outside=3.2")).strip() == place
    assert "the key 'one'" in wrong(command(*ask, "outside=4"))
    chosen = place.removesuffix(", outside=3.2")
    check_success(command("campaign", "tell", "h.db", "--site", chosen, "--reward", 40))
    other = ("--site", "flow=40, pump=20, hyst=5", "--reward", 30, "--at", 2)
    assert "is not known" in wrong(command("campaign", "tell", "h.db", *other))
    check_success(command("campaign", "tell", "h.db", *other, "--context", "outside=-4.5"))
    history = check_success(command("campaign", "history", "h.db"))
    assert "hyst,outside," in history
    assert [history.count(each) for each in (",3.2,", ",-4.5,")] == [1, 1]
    best = check_success(command("campaign", "status", "h.db", "--best", "--context", "outside=0"))
    assert "outside=0" in best
    forecast = ("campaign", "forecast", "h.db", "--at", 3, "--site", chosen)
    assert "+-" in check_success(command(*forecast, "--context", "outside=7"))
    assert "consistent" in check_success(command("campaign", "verify", "h.db"))
    assert command("campaign", "report", "h.db").status == 0
    for text, found in (
        ("inside=3", 'unknown parameter "inside"'),
        ("outside", 'write outside=..., got "outside"'),
        ("outside=warm", 'outside must be a number, got "warm"'),
        ("outside=99", "outside must be from -15 to 20, got 99"),
    ):
        assert found in wrong(command("campaign", "ask", "h.db", "--at", 4, "--context", text))
    check_success(command("campaign", "new", "s.db", "--config", "s.toml"))
    said = wrong(command("campaign", "ask", "s.db", "--at", 4, "--context", "outside=3"))
    assert 'no context, got "outside=3"' in said


def test_commands_name_their_options_in_errors_about_readings(command: Command) -> None:
    Path("box.toml").write_text(
        "[domain]\nbox = [[0, 10]]\n[domain.context]\noutside = { interval = [-15, 20] }\n"
        '[policy]\nname = "adaptive-gp-ucb"\n'
    )
    check_success(command("campaign", "new", "b.db", "--config", "box.toml"))
    for arguments, words in (
        (["ask"], "give it as --context outside=..."),
        (["tell", "--site", "3", "--reward", "2"], "give it as --context outside=..."),
        (["correct", "--site", "3", "--reward", "2"], "give it as --context outside=..."),
        (["correct", "--site", "3", "--reward", "2", "--context", "outside=3"], "no reading of"),
        (["ask", "--context", "outside=3", "--near", "2"], "--near 2 is a distance from the last"),
        (["tell", "--site", "3", "--reward", "inf"], "--reward must be finite"),
        (
            ["tell", "--site", "3", "--reward", "1", "--variance", "0"],
            "--variance must be positive",
        ),
        (["questions"], "choose a policy with queries_per_step"),
    ):
        verb, *others = arguments
        assert words in wrong(command("campaign", verb, "b.db", *others)), arguments
