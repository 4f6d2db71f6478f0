"""A script, and many scripts at once, play a campaign over HTTP."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import requests
from sklearn.gaussian_process.kernels import RBF

from tests.campaign.service.serving import DOMAIN, Served, new_bandit, serving
from tests.helpers.refusals import refused
from tests.places import ROOT
from tvbandits import Campaign, Candidates, Clock, Limit, Space, policies, rate
from tvbandits.campaign.service import Remote, RemoteError
from tvbandits.campaign.service.app import VERBS
from tvbandits.campaign.service.door import SIGN_IN

pytestmark = pytest.mark.slow


def test_a_script_plays_the_service_like_a_bandit(served: Served) -> None:
    remote: Any = Remote(served.address, served.tokens["all"])
    twin: Any = new_bandit()
    for t in range(1, 9):
        chosen = [each.ask(t, n=2) for each in (remote, twin)]
        np.testing.assert_array_equal(*chosen)
        y = np.sin(chosen[0][:, 0] + t / 9)
        y[t % 2] = np.nan if t == 5 else y[t % 2]
        for each in (remote, twin):
            each.tell(chosen[0][:1], y[:1], t)
            if t == 7:
                each.drop(chosen[0][1:])
            else:
                each.tell(chosen[0][1:], y[1:], t, 0.02)
    np.testing.assert_array_equal(remote.pending, twin.pending)
    np.testing.assert_array_equal(remote.predict(DOMAIN.X, 9), twin.predict(DOMAIN.X, 9))
    for among in (None, np.arange(40) < 9):
        np.testing.assert_array_equal(*(each.recommend(9, among) for each in (remote, twin)))
    assert len(remote.history) == len(twin.history)
    assert remote.status["told"] == len(twin.state.rewards)
    assert {row.who for row in served.campaign.journal()} == {"all"}
    assert served.campaign.state == twin.state


def test_moves_cost_over_it(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit().with_move_cost(0.1)) as served:
        remote: Any = Remote(served.address, served.tokens["all"])
        remote.tell(DOMAIN.X[:1], [False], 1)
        assert np.linalg.norm(remote.ask(2, near=1.0) - DOMAIN.X[0]) <= 1.0
        assert len(remote.history["move_cost"]) == 2
        for near in (-1.0, "2", True):
            refused(RemoteError, f"near.*, got {near!r}", remote.ask, 2, near=near)


def test_limits_are_kept_to_over_it(tmp_path: Path) -> None:
    loud = Limit("noise_level", at_most=60.0, noise_variance=1.0)
    limited = new_bandit().with_limits([loud], DOMAIN.X[:5])
    with serving(tmp_path, limited) as served:
        remote: Any = Remote(served.address, served.tokens["all"])
        for t in range(1, 6):
            X = remote.ask(t)
            level = [np.nan if t == 2 else 50.0 + t]
            remote.tell(X, X[:, 0], t, outcomes={"noise_level": level})
        remote.correct(X, t=5, outcomes={"noise_level": [66.0]})
        assert remote.status["violations"] == 1
        assert len(served.campaign.state.outcomes["noise_level"].rewards) == 4
        mean, _ = remote.predict(DOMAIN.X[:5], 6, outcome="noise_level")
        assert (mean > 45.0).all()
        with pytest.raises(RemoteError, match="no limit on 'weight'"):
            remote.tell(X, [0.0], 6, outcomes={"weight": [1.0]})
        page = requests.get(f"{served.address}/", headers=served.says("all"), timeout=60).text
        assert "limits violated" in page


def test_successes_and_events_are_told_over_it(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit()) as served:

        def told(t: float, verb: str = "tell", **said: Any) -> requests.Response:
            body = {"points": DOMAIN.X[:2].tolist(), "t": t, **said}
            says = {"json": body, "headers": served.says("all"), "timeout": 60}
            return requests.post(f"{served.address}/{verb}", **says)  # type: ignore[arg-type]

        assert told(1, successes=[0, 3], trials=[100, 50]).json() == {"told": 2, "failed": 0}
        assert told(2, events=[0, 6], exposure=[2.0, None]).json() == {"told": 3, "failed": 1}
        assert told(1, "correct", successes=[2, 3], trials=[100, 50]).status_code == 200
        remote = Remote(served.address, served.tokens["all"])
        remote.correct(DOMAIN.X[:2], rate([1, 3], [100, 50]), 1)
        rewards = served.campaign.state.rewards
        counted = rate([1, 3], [100, 50])
        assert rewards.y[:2].tolist() == counted.values.tolist()
        assert rewards.variance[:2].tolist() == counted.variance.tolist()
        rows = served.campaign.status.rows
        assert "correct needs what is right" in told(1, "correct").json()["error"]
        assert (
            "exposure must be 0, or from" in told(4, events=[0], exposure=[1e-300]).json()["error"]
        )
        assert served.campaign.status.rows == rows
        wrong = told(3, successes=[1, 3])
        assert wrong.status_code == 422
        assert "got successes" in wrong.json()["error"]
        assert "no more than trials" in told(3, successes=[9, 3], trials=[5, 5]).json()["error"]
        assert "needs rewards" in told(3).json()["error"]
        odd = requests.get(
            f"{served.address}/history?lst=5", headers=served.says("all"), timeout=60
        )
        assert (odd.status_code, odd.json()) == (
            422, {"error": 'unknown lst in "?lst=5"; there are: last'}
        )  # fmt: skip


def test_sites_come_and_go_over_it(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit()) as served:
        remote: Any = Remote(served.address, served.tokens["all"])
        first, *_ = served.campaign.sites
        left = remote.change_sites({"new": (DOMAIN.X[-1] + 1.0).tolist()}, [first], key="k")
        assert left == remote.change_sites({"new": (DOMAIN.X[-1] + 1.0).tolist()}, [first], key="k")
        assert len(left) == len(DOMAIN)
        assert first not in left
        remote.tell(DOMAIN.X[-1:] + 1.0, [3.0], 1)
        refused(RemoteError, "already", remote.change_sites, {left[0]: None})
        with pytest.raises(RemoteError):
            Remote(served.address, served.tokens["read"]).change_sites([first])
        assert served.campaign.verify().fine


def test_a_control_is_played_and_shown_over_it(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit().with_control(DOMAIN.X[2])) as served:
        remote: Any = Remote(served.address, served.tokens["all"])
        for t, level in ((1, 0.0), (2, 30.0)):
            X = remote.ask(t, n=2)
            assert (X[0] == DOMAIN.X[2]).all()
            remote.tell(X, [level, level + 1.0], t)
        assert remote.history["relative"].tolist() == [0.0, 1.0, 0.0, 1.0]
        mean, _ = remote.predict(X, 3, relative=True)
        assert mean == pytest.approx([0.0, 1.0], abs=0.2)
        page = requests.get(f"{served.address}/", headers=served.says("all"), timeout=60).text
        assert f"beside {served.campaign.names.name(DOMAIN.X[2])}" in page
        assert served.campaign.verify().fine


def test_questions_and_answers_go_over_it(tmp_path: Path) -> None:
    brought = policies.frugal_gp_ucb(DOMAIN, RBF(1.0), 0.01, expert=None, budget=2, seed=3)
    with serving(tmp_path, brought) as served:
        remote: Any = Remote(served.address, served.tokens["all"])
        twin: Any = policies.frugal_gp_ucb(DOMAIN, RBF(1.0), 0.01, expert=None, budget=2, seed=3)
        for t in range(1, 5):
            for each in (remote, twin):
                X = each.ask(t)
                each.tell(X, np.sin(X[:, 0]), t)
            asked = [each.questions(t) for each in (remote, twin)]
            np.testing.assert_array_equal(*asked)
            for each in (remote, twin):
                each.answer(asked[0], np.where(np.arange(len(asked[0])) % 2, np.nan, 0.5), t, 0.01)
        assert served.campaign.state == twin.state
        assert served.campaign.status.answers == len(twin.state.answers) > 0


def test_what_had_no_reply_counts_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    remote: Any = Remote(served.address, served.tokens["all"], patience=0.2)
    request = remote._session.request

    def lost(*given: Any, **more: Any) -> None:
        request(*given, **more)
        raise requests.ConnectionError

    monkeypatch.setattr(remote._session, "request", lost)
    with pytest.raises(RemoteError, match="it counts once") as failed:
        remote.tell(DOMAIN.X[:1], [0.5], 1)
    monkeypatch.undo()
    (key,) = re.findall("key='(.*)'", str(failed.value))
    assert remote.tell(DOMAIN.X[:1], [0.5], 1, key=key)["told"] == 1


def test_many_at_once_lose_nothing(served: Served) -> None:
    def work(number: int) -> None:
        remote = Remote(served.address, served.tokens["all"])
        for i in range(4):
            X = remote.ask(float(i))
            remote.tell(X, [number + i / 10], float(i))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    rewards = served.campaign.history
    told = rewards[rewards["kind"] == "reward"]["reward"].to_numpy()
    expected = [number + i / 10 for number in range(8) for i in range(4)]
    np.testing.assert_allclose(np.sort(told), np.sort(expected))
    assert served.campaign.verify().fine


def test_looking_does_not_wait_for_writing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty who write stand in line behind one that takes long; there are forty threads."""
    begun, go_on = threading.Event(), threading.Event()
    done = served.campaign._done

    def long(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(120)
        return done(*arguments, **options)

    monkeypatch.setattr(served.campaign, "_done", long)

    def asks(number: int) -> int:
        said = {"t": float(number)}
        address, headers = f"{served.address}/ask", served.says("ask")
        return requests.post(address, json=said, headers=headers, timeout=300).status_code

    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(asks, number) for number in range(60)]
        try:
            assert begun.wait(120)
            for path in ("/status", "/history", "/pending", "/health"):
                address = f"{served.address}{path}"
                reply = requests.get(address, headers=served.says("read"), timeout=60)
                assert reply.status_code == 200
            assert served.campaign.status.rows == 0
        finally:
            go_on.set()
        assert {each.result() for each in waiting} == {200}
    assert len(served.campaign.pending) == 60


def test_a_context_goes_over_it(tmp_path: Path) -> None:
    space = Space(x=(0.0, 1.0), context={"outside": (-15, 20)})
    campaign = Campaign.create(tmp_path / "c.db", policies.gp_ucb(space, RBF(1.0), 0.01))
    with serving(tmp_path, campaign=campaign) as served:
        remote: Any = Remote(served.address, served.tokens["all"])
        X = remote.ask(1, context={"outside": 3.2})
        np.testing.assert_array_equal(X[:, 1], [3.2])
        remote.tell(X[:, :1], [0.5])
        remote.tell({"x": 0.25}, [0.25], 2, context={"outside": -4.0})
        assert remote.history["outside"].tolist() == [3.2, -4.0]
        for point in ([[0.25]], [{"x": 0.25}], pd.DataFrame({"x": [0.25]})):
            mean, _ = remote.predict(point, 3, context={"outside": -4.0})
            assert abs(mean[0] - 0.25) < 0.1
        refused(ValueError, "among: a function", remote.ask, 4, among=len)
        assert remote.recommend(3, context={"outside": 1.5})[1] == 1.5
        with pytest.raises(RemoteError, match="outside must be from -15 to 20, got 99"):
            remote.ask(4, context={"outside": 99})


# --- what docs/service.md says of every POST is what the service takes and gives

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
PARTS = {
    part.split("\n", 1)[0]: part
    for part in re.split(r"^### POST ", PAGE.partition("### GET")[0], flags=re.MULTILINE)[1:]
}


def test_every_body_and_reply_of_the_page_is_one_of_the_service(tmp_path: Path) -> None:
    assert set(PARTS) == {path for path, (method, _) in VERBS.items() if method == "POST"} - {
        SIGN_IN
    }
    sites = Candidates([[4.0, 1.0], [6.0, 2.0]])
    campaign = Campaign.create(
        tmp_path / "documented.db",
        policies.frugal_gp_ucb(sites, None, 1.0, expert=None, budget=2),
        about={"names": json.dumps(["AQ01", "AQ07"])},
        clock=Clock(unit="1h", origin="2026-01-01"),
    )
    with serving(tmp_path, campaign=campaign) as served:
        described = requests.get(f"{served.address}/openapi.json", timeout=60).json()
        for path, part in PARTS.items():
            body, reply = map(json.loads, re.findall(r"^```json\n(.*?)^```$", part, re.M | re.S))
            schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            model = described["components"]["schemas"][schema["schema"]["$ref"].rpartition("/")[2]]
            assert set(model.get("required", ())) <= set(body) <= set(model["properties"])
            assert all(f"`{field}`" in part for field in model["properties"]), path
            got = requests.post(
                f"{served.address}{path}", json=body, headers=served.says("all"), timeout=60
            )
            assert got.status_code == 200, f"{path}: {got.text}"
            assert set(got.json()) == set(reply), path
