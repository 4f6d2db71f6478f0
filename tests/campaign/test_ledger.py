"""What is on record is known without a bandit, and is what a bandit would say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Bandit, Campaign, Candidates, Clock, policies
from tvbandits.bandit import recipe
from tvbandits.bandit.state import same_value
from tvbandits.campaign import watching
from tvbandits.campaign.ledger import OF_STATE
from tvbandits.campaign.store import store
from tvbandits.campaign.store.errors import ConflictError

SITES = Candidates([[0.0], [1.0], [2.5], [4.0], [6.0]])


class Sees:
    """Refuses one of the sites."""

    def query(self, X: Any, t: float) -> Answers:
        answers = np.sin(X[:, 0] + t / 5)
        return Answers(np.where(X[:, 0] == 4.0, np.nan, answers), 0.02)


EXPERT = Sees()
RECIPES: dict[str, Callable[[], Bandit]] = {
    "fixed": lambda: policies.gp_ucb(SITES, RBF(1.0), 0.01),
    "ensemble": lambda: policies.adaptive_gp_ucb(SITES, None, 0.01, minimise=True),
    "expert": lambda: policies.frugal_gp_ucb(SITES, None, 0.01, expert=EXPERT, budget=2),
    "one query's answers": lambda: policies.sparq_gp_ucb(SITES, RBF(1.0), 0.01, expert=EXPERT),
    "brought": lambda: policies.frugal_gp_ucb(SITES, None, 0.01, expert=None, budget=2),
    "learned": lambda: policies.tv_gp_ucb(SITES, RBF(1.0), 0.01),
}


@pytest.mark.parametrize("name", RECIPES)
def test_it_is_what_a_bandit_knows(name: str, tmp_path: Path) -> None:
    place, rng = tmp_path / "c.db", np.random.default_rng(0)
    asks = RECIPES[name]().recipe.asking is not None
    expert = EXPERT if name in ("expert", "one query's answers") else None
    with Campaign.create(place, RECIPES[name](), snapshot_every=7) as campaign:
        for step in range(1, 11):
            X = campaign.ask(None if step % 3 else float(step), 1 + step % 2)
            y = np.where(rng.random(len(X)) < 0.2, np.nan, rng.standard_normal(len(X)))
            if step % 4 == 0:
                campaign.drop(X[:1])
            elif step % 5 == 0:
                campaign.tell(X, y, campaign.ledger.time, 0.3, key=f"late {step}")
            else:
                campaign.tell(X, y)
            if asks and expert is None:
                Q = campaign.questions()
                campaign.answer(Q[:1], [0.1], float(step)) if len(Q) else None
            if step == 6:
                campaign.correct(X[:1], [0.25])
            if step == 7:
                told = campaign.state.rewards
                campaign.correct(told.X[:2], None, told.t[:2], 0.5, to=told.t[:2] + 0.5)
            if step == 8:
                campaign.retract(told.X[2:3], told.t[2:3])
            if step % 2 == 0:
                with Campaign.open(place, expert=expert) as fresh:
                    known = fresh.ledger
                    assert fresh._reader is None  # and no bandit was made for it
                    state = campaign.state
                    for each in OF_STATE:
                        assert same_value(getattr(known, each), getattr(state, each)), (step, each)
                    queries = state.info.queries
                    assert (known.questions, known.cost) == (
                        queries.total_asked,
                        queries.total_cost,
                    )
                    shown = fresh.history, fresh.status, fresh.outstanding
                    fresh.predict(SITES.X)  # from here on there is one
                    assert fresh._reader is not None
                    assert shown[0].equals(fresh.history)
                    assert shown[1] == fresh.status == campaign.status
                    assert same_value(shown[2], fresh.outstanding)


@pytest.mark.parametrize(("name", "plain"), [("fixed", True), ("brought", True), ("expert", False)])
def test_recording_is_telling(name: str, plain: bool, tmp_path: Path) -> None:
    """Where a bandit only takes note none is made; asked next, it is where one is that was told."""
    expert = EXPERT if name == "expert" else None
    made = [tmp_path / "recorded.db", tmp_path / "told.db"]
    for place in made:
        Campaign.create(place, RECIPES[name]()).close()
    for t in (1.0, 2.0, 3.0):
        states = []
        for place in made:
            with Campaign.open(place, expert=expert, who="anna") as campaign:
                campaign.ask(t, key=f"ask {t}")
            with Campaign.open(place, expert=expert, who="anna") as campaign:
                tell = campaign.record if place is made[0] else campaign.tell
                for _ in range(2):  # under one key it counts once
                    tell([[2.5], [1.0]], [0.5 * t, float("nan")], key=f"tell {t}")
                if place is made[0]:
                    assert (campaign._writer is None and campaign._reader is None) == plain
                states.append(campaign.state)
        assert states[0] == states[1]
    with Campaign.open(made[0], expert=expert) as campaign:
        assert campaign.verify().problems == ()


REFUSED: dict[str, tuple[Any, ...]] = {
    "no candidate": ([[0.5]], [1.0]),
    "shape": ([[1.0]], [1.0, 2.0]),
    "infinite": ([[1.0]], [float("inf")]),
    "too large": ([[1.0]], [1e60]),
    "variance": ([[1.0]], [1.0], None, [0.0]),
    "no variance": ([[1.0]], [1.0], None, [float("nan")]),
    "time": ([[1.0]], [1.0], float("nan")),
    "times": ([[1.0]], [1.0], [1.0, 2.0]),
    "nothing": (np.empty((0, 1)), []),
    "text": ([[1.0]], ["a"]),
    "told already": ([[2.5]], [7.0], 1.0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_told_cannot_be_recorded(case: str, tmp_path: Path) -> None:
    place = tmp_path / "c.db"
    with Campaign.create(place, RECIPES["fixed"](), clock=Clock("1h", "2024-01-01")) as campaign:
        campaign.tell([[2.5]], [0.5], 1.0, key="a")
        with pytest.raises(ValueError, match=r"got|must|already|beyond") as told:
            campaign.tell(*REFUSED[case])
    with Campaign.open(place) as campaign:
        with pytest.raises(type(told.value)) as recorded:
            campaign.record(*REFUSED[case])
        assert str(recorded.value) == str(told.value)
        with pytest.raises(ValueError, match="the key 'a' is taken"):
            campaign.record([[1.0]], [0.5], key="a")
        assert campaign._reader is None
        assert len(campaign.journal()) == 1


@pytest.mark.parametrize("name", ["window", "ensemble"])
def test_a_bounded_history_is_on_the_disk(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Memory and snapshots hold the latest; history, status and what is told again know all."""
    monkeypatch.setattr(recipe, "SHORTEST_HISTORY", 10)
    monkeypatch.setattr(store, "PAGE", 16)
    monkeypatch.setattr(watching, "PAGE", 16)
    make = {
        "window": lambda: policies.sw_gp_ucb(SITES, RBF(1.0), 0.01, window=5, mean=0.0),
        "ensemble": RECIPES["ensemble"],
    }[name]
    whole, bounded = (
        Campaign.create(tmp_path / f"{n}.db", bandit, snapshot_every=20)
        for n, bandit in enumerate((make(), make().with_history(10)))
    )
    for campaign in (whole, bounded):
        for t in range(1, 62):
            campaign.tell(campaign.ask(t), [np.sin(t) if t % 9 else np.nan], t)
    sizes = [len(each._store.snapshot().data) for each in (whole, bounded)]
    assert sizes[1] < sizes[0] - 16 * 30  # thirty rewards and more of two numbers and more
    for campaign in (bounded, Campaign.open(tmp_path / "1.db")):
        ledger = campaign.ledger
        assert 10 <= len(ledger.rewards) < 20
        assert campaign.status == replace(whole.status, rows=campaign.status.rows)
        pd.testing.assert_frame_equal(campaign.history, whole.history)
        old = whole.ledger.rewards
        with pytest.raises(ConflictError, match="was told already"):
            campaign.tell(old.X[:1], [7.0], old.t[:1])
        with pytest.raises(ValueError, match="have left the history"):
            campaign.correct(old.X[:1], [7.0], old.t[:1])
    late = whole.ledger.rewards
    for campaign in (whole, bounded):
        campaign.correct(late.X[-2:-1], [0.25], late.t[-2:-1])
    pd.testing.assert_frame_equal(bounded.history, whole.history)
    assert bounded.verify().problems == ()
