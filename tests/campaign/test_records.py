"""Status and pending points from the journal equal those of the bandit; `record` equals `tell`."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import (
    Answers,
    Bandit,
    Campaign,
    Candidates,
    Clock,
    ExpertDownWarning,
    ExpertUnavailableError,
    Limit,
    policies,
)
from tvbandits.bandit import options
from tvbandits.campaign import ConflictError
from tvbandits.campaign.replay import Replay
from tvbandits.campaign.status import bandit_summary
from tvbandits.experts import CallableExpert

SITES = Candidates([[0.0], [1.0], [2.5], [4.0], [6.0]])


def sees(X: Any, t: float) -> Any:
    return np.sin(X[:, 0] + t / 5)


EXPERT = CallableExpert(sees, 0.02)
LOUD = Limit("noise_level", at_most=60, noise_variance=0.1)
RECIPES: dict[str, Callable[[], Bandit]] = {
    "limits": lambda: policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01).with_options(
        limits=[LOUD], safe=SITES.X[:2]
    ),
    "ensemble": lambda: policies.adaptive_gp_ucb(SITES, noise_variance=0.01, minimize=True),
    "expert": lambda: policies.frugal_gp_ucb(
        SITES, noise_variance=0.01, expert=EXPERT, queries_per_step=2
    ),
    "one query's answers": lambda: policies.sparq_gp_ucb(
        SITES, kernel=RBF(1.0), noise_variance=0.01, expert=EXPERT
    ),
    "brought": lambda: policies.frugal_gp_ucb(
        SITES, noise_variance=0.01, expert=None, queries_per_step=2
    ),
    "learned": lambda: policies.tv_gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01),
}


def same_without_a_bandit(place: Path) -> None:
    """Check that status and pending points need no bandit, and equal those of the bandit."""
    with Campaign.open(place) as fresh:
        status, out, pending = fresh.status, fresh.pending_points, fresh.pending
        assert fresh._shared._reader is None
        state = fresh.state
        summary = bandit_summary(fresh.recipe, state)
        assert {name: getattr(status, name) for name in summary} == summary
        assert np.array_equal(pending, state.pending.X)
        assert [each.t for each in out] == state.pending.t.tolist()
        assert status.pending == len(state.pending)


@pytest.mark.parametrize("name", RECIPES)
def test_campaign_status_and_pending_match_those_of_the_bandit(name: str, tmp_path: Path) -> None:
    place, rng = tmp_path / "c.db", np.random.default_rng(0)
    asks = RECIPES[name]().recipe.query_config is not None
    expert = EXPERT if name in ("expert", "one query's answers") else None
    with Campaign.create(place, RECIPES[name](), snapshot_every=7) as campaign:
        for step in range(1, 11):
            X = campaign.ask(None if step % 3 else float(step), 1 + step % 2)
            y = np.where(rng.random(len(X)) < 0.2, np.nan, rng.standard_normal(len(X)))
            read = {"noise_level": np.where(y > 1, 61.0, y)} if name == "limits" else None
            if step % 4 == 0:
                campaign.drop(X[:1])
            elif step % 5 == 0:
                campaign.tell(X, y, campaign.status.time, 0.3, read, key=f"late {step}")
            else:
                campaign.tell(X, y, outcomes=read)
            if asks and expert is None:
                Q = campaign.questions()
                campaign.answer(Q[:1], [0.1]) if len(Q) else None
            if step == 6:
                campaign.correct(X[:1], [0.25])
            if step in (1, 3, 4, 5, 6, 10):
                same_without_a_bandit(place)


class Station:
    """An expert with a cost, which can be unavailable."""

    def __init__(self, cost: float) -> None:
        self.cost, self.away = cost, False

    def query(self, X: Any, t: float) -> Answers:
        if self.away:
            raise ExpertUnavailableError("no line")
        return Answers(sees(X, t), np.full(len(X), 0.02), self.cost)


@pytest.mark.parametrize("name", ["expert", "one query's answers"])
def test_campaign_status_sums_the_cost_of_answers_without_failures(
    name: str, tmp_path: Path
) -> None:
    place, station = tmp_path / "c.db", Station(0.75)
    made = RECIPES[name]().recipe
    bandit = Bandit(replace(made, query_config=replace(made.query_config, expert=station)))
    with Campaign.create(place, bandit) as campaign:
        campaign.tell([[0.0], [1.0], [2.5]], [0.1, 0.4, -0.2], 1.0)
        for t, away in ((2.0, False), (3.0, True), (4.0, False)):
            station.away = away
            with pytest.warns(ExpertDownWarning) if away else nullcontext():
                campaign.tell(campaign.ask(t), [0.3])
    rows = Campaign.open(place, expert=station).journal()
    said = [row.body for row in rows if row.kind == "reply"]
    asked = sum(len(body["X"]) for body in said)
    paid = 0.75 * sum("failure" not in body for body in said)
    assert any("failure" in body for body in said)
    with Campaign.open(place) as fresh:
        assert (fresh.status.questions, fresh.status.cost) == (asked, paid)
        assert paid > 0.75
    same_without_a_bandit(place)


def test_campaign_status_ignores_answers_of_a_failed_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, station = tmp_path / "c.db", Station(0.75)
    made = RECIPES["expert"]().recipe
    bandit = Bandit(replace(made, query_config=replace(made.query_config, expert=station)))
    call_bandit = Replay._call_bandit

    def fails_afterwards(*arguments: Any) -> Any:
        call_bandit(*arguments)
        raise ValueError("something else")

    with Campaign.create(place, bandit) as campaign:
        campaign.tell([[0.0], [1.0], [2.5]], [0.1, 0.4, -0.2], 1.0)
        before = campaign.status
        monkeypatch.setattr(Replay, "_call_bandit", fails_afterwards)
        with pytest.raises(ValueError, match="something else"):
            campaign.tell([[4.0]], [0.3], 2.0)
        monkeypatch.undo()
        kinds = [row.kind for row in campaign.journal()]
        assert kinds[-3:] == ["query", "reply", "failure"]
    with Campaign.open(place, expert=station) as fresh:
        assert fresh.status.open is None
        assert fresh.status.questions == before.questions
        fresh.tell([[6.0]], [0.2], 3.0)
    same_without_a_bandit(place)


@pytest.mark.parametrize("told", [19, 20, 21])
def test_campaign_status_counts_readings_that_left_a_full_history(
    told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "SHORTEST_HISTORY", 10)
    place, bandit = (
        tmp_path / "c.db",
        policies.sw_gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01, window=5),
    )
    with Campaign.create(place, bandit.with_options(max_history=10)) as campaign:
        for t in range(1, told + 1):
            campaign.tell(SITES.X[t % 5 : t % 5 + 1], [np.sin(t)], float(t))
    with Campaign.open(place) as fresh:
        state = fresh.state
        assert len(state.rewards) == (19 if told < 20 else told - 10)
        assert state.expired.rewards == told - len(state.rewards)
        assert fresh.status.readings == told


@pytest.mark.parametrize("name", ["limits", "brought", "expert"])
def test_campaign_record_changes_the_state_as_tell_does(name: str, tmp_path: Path) -> None:
    expert = EXPERT if name == "expert" else None
    made = [tmp_path / "recorded.db", tmp_path / "told.db"]
    for place in made:
        Campaign.create(place, RECIPES[name]()).close()
    read = {"noise_level": [61.0, float("nan")]} if name == "limits" else None
    for t in (1.0, 2.0, 3.0):
        states = []
        for place in made:
            with Campaign.open(place, expert=expert, who="anna") as campaign:
                campaign.ask(t, key=f"ask {t}")
            with Campaign.open(place, expert=expert, who="anna") as campaign:
                said = {"X": [[2.5], [1.0]], "y": [0.5 * t, float("nan")], "outcomes": read}
                for _ in range(2):  # under one key it counts once
                    if place is made[0]:
                        campaign.record([said | {"key": f"tell {t}"}])
                    else:
                        campaign.tell(**said, key=f"tell {t}")
                states.append(campaign.state)
        assert states[0] == states[1]
    with Campaign.open(made[0], expert=expert) as campaign:
        assert campaign.verify().problems == ()


NAMES = "X", "y", "t", "noise_variance", "outcomes"
REFUSED: dict[str, tuple[Any, ...]] = {
    "no candidate": ([[0.5]], [1.0]),
    "shape": ([[1.0]], [1.0, 2.0]),
    "infinite": ([[1.0]], [float("inf")]),
    "variance": ([[1.0]], [1.0], None, [0.0]),
    "time": ([[1.0]], [1.0], float("nan")),
    "no time": ([[1.0]], [1.0], []),
    "times in rows": ([[1.0]], [1.0], [[1.0]]),
    "nothing": (np.empty((0, 1)), []),
    "told already": ([[2.5]], [7.0], 1.0),
    "no such limit": ([[1.0]], [1.0], 2.0, None, {"weight": [1.0]}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_campaign_record_refuses_what_tell_refuses(case: str, tmp_path: Path) -> None:
    place = tmp_path / "c.db"
    with Campaign.create(place, RECIPES["limits"](), clock=Clock("1h", "2024-01-01")) as campaign:
        campaign.tell([[2.5]], [0.5], 1.0, key="a")
        with pytest.raises(ValueError, match=r"got|must|already|no limit") as told:
            campaign.tell(*REFUSED[case])
    with Campaign.open(place) as campaign:
        with pytest.raises(type(told.value)) as recorded:
            campaign.record([dict(zip(NAMES, REFUSED[case], strict=False))])
        assert str(recorded.value) == str(told.value)
        with pytest.raises(ValueError, match="the key 'a'"):
            campaign.record([{"X": [[1.0]], "y": [0.5], "key": "a"}])
        assert len(campaign.journal()) == 1


@pytest.mark.slow
def test_status_command_imports_no_numerical_library(tmp_path: Path) -> None:
    place = tmp_path / "c.db"
    with Campaign.create(place, RECIPES["limits"](), clock=Clock("1h", "2024-01-01")) as campaign:
        campaign.ask(1.0)
    call = (
        "import atexit, sys; from tvbandits.__main__ import main; heavy = 'sklearn', 'pandas', 'scipy'; "
        "atexit.register(lambda: print([m for m in heavy if m in sys.modules])); main()"
    )
    said = subprocess.run(
        [sys.executable, "-c", call, "campaign", "status", str(place)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.endswith("\n[]\n")


def test_campaign_create_keeps_readings_and_pending_points_of_its_bandit(tmp_path: Path) -> None:
    bandit = RECIPES["limits"]()
    bandit.tell([[0.0], [1.0]], [0.5, float("nan")], 1.0)
    X = bandit.ask(2.0, 2)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        assert (campaign.status.readings, campaign.status.failed, campaign.status.pending) == (
            1,
            1,
            2,
        )
        assert np.array_equal(campaign.pending, X)
        with pytest.raises(ConflictError):
            campaign.tell([[0.0]], [0.7], 1.0)
        campaign.tell(X[:1], [0.1])
    same_without_a_bandit(tmp_path / "c.db")
    with Campaign.open(tmp_path / "c.db") as campaign:
        assert np.array_equal(campaign.pending, X[1:])
        assert campaign.verify().consistent
