"""Every call of a service, by one client and by many at once."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from sklearn.gaussian_process.kernels import RBF

from tests.campaign.service.serving import DOMAIN, Served, new_bandit, serving
from tests.helpers.refusals import assert_refused
from tests.helpers.silent import SilentExpert
from tests.places import ROOT
from tvbandits import Campaign, Candidates, Clock, Limit, Space, policies, rate
from tvbandits.campaign.service import Remote, RemoteError

pytestmark = pytest.mark.slow


def remote_of(served: Served, role: str = "all", **how: Any) -> Remote:
    return Remote(served.address, served.tokens[role], **how)


def test_remote_plays_the_same_as_a_bandit(served: Served) -> None:
    remote, twin = remote_of(served), new_bandit()
    for t in range(1, 9):
        X = remote.ask(t, n=2)
        np.testing.assert_array_equal(X, twin.ask(t, n=2))
        y = np.sin(X[:, 0] + t / 9)
        y[t % 2] = np.nan if t == 5 else y[t % 2]
        for each in (remote, twin):
            each.tell(X[:1], y[:1], t)
        if t == 7:
            remote.post("/drop", points=X[1:])
            twin.drop(X[1:])
        else:
            remote.tell(X[1:], y[1:], t, noise_variance=0.02)
            twin.tell(X[1:], y[1:], t, 0.02)
    np.testing.assert_array_equal(remote.get("/pending")["points"], twin.pending.tolist())
    found = remote.post("/predict", points=DOMAIN.X, t=9)
    np.testing.assert_array_equal([found["mean"], found["deviation"]], twin.predict(DOMAIN.X, 9))
    for available in (None, [3, 5, 8]):
        best = remote.get("/recommend", t=9, available=available)
        assert best["point"] == twin.recommend(9, available).tolist()
    assert len(remote.get("/history")["rows"]) == len(twin.history)
    assert remote.get("/status")["readings"] == len(twin.state.rewards)
    assert {row.who for row in served.campaign.journal()} == {"all"}
    assert served.campaign.state == twin.state


def test_remote_refuses_an_invalid_address_token_or_path(served: Served) -> None:
    for address in ("ftp://localhost", "localhost:8000", "http://"):
        assert_refused(ValueError, "address", Remote, address, "tvb_x")
    assert_refused(RemoteError, "401", Remote(served.address, "tvb_x").get, "/status")
    assert_refused(RemoteError, "403", remote_of(served, "read").ask, 1)
    assert_refused(RemoteError, "404", remote_of(served).get, "/nothing")
    away = Remote("http://127.0.0.1:9", "tvb_x", timeout=0.1)
    assert_refused(RemoteError, "127.0.0.1:9/status", away.get, "/status")


def test_service_ask_accepts_near_with_a_move_cost(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit().with_options(move_cost=0.1)) as served:
        remote = remote_of(served)
        remote.tell(DOMAIN.X[:1], [False], 1)
        assert np.linalg.norm(remote.ask(2, near=1.0) - DOMAIN.X[0]) <= 1.0
        assert len(remote.get("/history")["rows"]) == 2
        for near, shown in ((-1.0, "-1.0"), ("2", "'2'"), (True, "true")):
            assert_refused(RemoteError, f"near.*, got {shown}", remote.ask, 2, near=near)


def test_service_accepts_outcomes_of_limits(tmp_path: Path) -> None:
    loud = Limit("noise_level", at_most=60.0, noise_variance=1.0)
    limited = new_bandit().with_options(limits=[loud], safe=DOMAIN.X[:5])
    with serving(tmp_path, limited) as served:
        remote = remote_of(served)
        for t in range(1, 6):
            X = remote.ask(t)
            level = [None if t == 2 else 50.0 + t]
            remote.tell(X, X[:, 0], t, outcomes={"noise_level": level})
        remote.post("/correct", points=X, t=5, outcomes={"noise_level": [66.0]})
        assert remote.get("/status")["violations"] == 1
        assert len(served.campaign.state.outcomes["noise_level"].rewards) == 4
        found = remote.post("/predict", points=DOMAIN.X[:5], t=6, outcome="noise_level")
        assert min(found["mean"]) > 45.0
        assert_refused(RemoteError, "weight", remote.tell, X, [0.0], 6, outcomes={"weight": [1.0]})
        cookies = {"tvbandits": served.tokens["read"]}
        page = requests.get(served.address, cookies=cookies, timeout=120).text
        assert "limit violations" in page


def test_service_tell_and_correct_accept_rates_and_refuse_other_readings(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit()) as served:

        def told(t: float, path: str = "/tell", **said: Any) -> requests.Response:
            return served.post(path, points=DOMAIN.X[:2].tolist(), t=t, **said)

        assert told(1, successes=[0, 3], trials=[100, 50]).json() == {"recorded": 2, "failed": 0}
        assert told(2, successes=[0, 6], trials=[2, None]).json() == {"recorded": 1, "failed": 1}
        assert told(1, "/correct", successes=[1, 3], trials=[100, 50]).status_code == 200
        rewards, counted = served.campaign.state.rewards, rate([1, 3], [100, 50])
        assert rewards.y[:2].tolist() == counted.values.tolist()
        assert rewards.variance[:2].tolist() == counted.variance.tolist()
        rows = served.campaign.status.rows
        for refusal in (
            told(1, "/correct"),
            told(4, events=[0], exposure=[1e-300]),
            told(3, successes=[1, 3]),
            told(3, successes=[9, 3], trials=[5, 5]),
            told(3, rewards=[1, 2], trials=[5, 5]),
            told(3, rewards=[0.1, 0.2]),
            told(3, events=[0, 6], exposure=[2.0, 3.0]),
            told(1, "/correct", rewards=[0.1, 0.2]),
            told(3),
            served.get("/history", lst=5),
        ):
            assert refusal.status_code == 422
        assert served.campaign.status.rows == rows
        detail = told(3, rewards=[None, 37.0]).json()["detail"]
        assert detail.startswith("row 1: S1: 37 is a plain number")


def test_service_repeats_its_reply_to_a_request_with_the_same_key(served: Served) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("/ask", {"t": 1, "n": 2}),
        ("/tell", {"points": ["S1", "S2"], "rewards": [0.5, None], "t": 1}),
        ("/correct", {"points": ["S1"], "rewards": [0.6], "t": 1}),
        ("/drop", {"points": None}),
        ("/sites", {"add": {"new": [11.0]}, "retire": ["S39"]}),
        ("/retract", {"points": ["S1"], "t": 1}),
    ]
    first: dict[str, Any] = {}
    for path, body in calls:
        if path == "/drop":
            body["points"] = first["/ask"]["points"][:1]
        reply = served.post(path, **body, key=path)
        assert reply.status_code == 200, reply.text
        first[path] = reply.json()
    served.post("/tell", points=["S3", "S4"], rewards=[0.1, 0.2], t=2)
    rows = served.campaign.status.rows
    for path, body in calls:
        again = served.post(path, **body, key=path)
        assert (again.status_code, again.json()) == (200, first[path]), path
    assert served.campaign.status.rows == rows


def test_service_answer_repeats_its_reply_to_the_same_key(tmp_path: Path) -> None:
    brought = policies.frugal_gp_ucb(
        DOMAIN,
        kernel=RBF(1.0),
        noise_variance=0.01,
        expert=SilentExpert(),
        queries_per_step=2,
        seed=3,
    )
    with serving(tmp_path, brought) as served:
        said = {
            "points": ["S1", "S2"],
            "values": [1.0, None],
            "t": 1,
            "noise_variance": 0.1,
            "key": "k",
        }
        first = served.post("/answer", **said).json()
        assert first == {"recorded": 1, "failed": 1}
        served.post("/answer", points=["S5"], values=[1.0], t=2, noise_variance=0.1)
        assert served.post("/answer", **said).json() == first


def test_service_ask_and_questions_repeat_their_reply_after_sites_retired(tmp_path: Path) -> None:
    brought = policies.frugal_gp_ucb(
        DOMAIN, kernel=RBF(1.0), noise_variance=0.01, expert=None, queries_per_step=2, seed=3
    )
    with serving(tmp_path, brought) as served:

        def replies() -> list[Any]:
            paths = {"/ask": {"n": 2}, "/questions": {}}
            return [served.post(path, t=1, key=path, **more).json() for path, more in paths.items()]

        first = replies()
        chosen = {site for reply in first for site in reply["sites"]}
        assert len(chosen) >= 2
        assert served.post("/sites", retire=[*chosen]).status_code == 200
        assert replies() == first


def test_service_sites_adds_and_retires_sites(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit()) as served:
        remote = remote_of(served)
        first, second, *_ = served.campaign.sites
        said: dict[str, Any] = {"add": {"new": DOMAIN.X[-1] + 1.0}, "retire": [first], "key": "k"}
        reply = {"added": ["new"], "retired": [first], "confirmed": []}
        for _ in range(2):
            assert remote.post("/sites", **said) == reply
        left = remote.get("/sites")["sites"]
        assert left == served.campaign.sites
        assert (len(left), first in left, "new" in left) == (len(DOMAIN), False, True)
        remote.tell(["new"], [3.0], 1)
        assert_refused(RemoteError, second, remote.post, "/sites", add={second: None})
        assert_refused(
            RemoteError, "403", remote_of(served, "read").post, "/sites", add={first: None}
        )
        assert served.campaign.verify().consistent


def test_service_asks_and_predicts_relative_to_a_control(tmp_path: Path) -> None:
    with serving(tmp_path, new_bandit().with_options(control=DOMAIN.X[2])) as served:
        remote = remote_of(served)
        for t, level in ((1, 0.0), (2, 30.0)):
            X = remote.ask(t, n=2)
            assert (X[0] == DOMAIN.X[2]).all()
            remote.tell(X, [level, level + 1.0], t)
        rows = remote.get("/history")["rows"]
        assert [row["relative"] for row in rows] == [0.0, 1.0, 0.0, 1.0]
        found = remote.post("/predict", points=X, t=3, relative=True)
        assert found["mean"] == pytest.approx([0.0, 1.0], abs=0.2)
        cookies = {"tvbandits": served.tokens["read"]}
        page = requests.get(served.address, cookies=cookies, timeout=120).text
        assert f"relative to {served.campaign.names.name(DOMAIN.X[2])}" in page
        assert served.campaign.verify().consistent


def test_service_questions_and_answer_match_those_of_a_bandit(tmp_path: Path) -> None:
    brought = policies.frugal_gp_ucb(
        DOMAIN, kernel=RBF(1.0), noise_variance=0.01, expert=None, queries_per_step=2, seed=3
    )
    with serving(tmp_path, brought) as served:
        remote = remote_of(served)
        twin: Any = policies.frugal_gp_ucb(
            DOMAIN, kernel=RBF(1.0), noise_variance=0.01, expert=None, queries_per_step=2, seed=3
        )
        for t in range(1, 5):
            for each in (remote, twin):
                X = each.ask(t)
                each.tell(X, np.sin(X[:, 0]), t)
            asked = remote.post("/questions", t=t)["points"]
            np.testing.assert_array_equal(asked, twin.questions(t).tolist())
            values = np.where(np.arange(len(asked)) % 2, np.nan, 0.5)
            if asked:
                remote.post("/answer", points=asked, values=values, t=t, noise_variance=0.01)
                twin.answer(np.array(asked), values, t, 0.01)
        assert served.campaign.state == twin.state
        assert served.campaign.status.answers == len(twin.state.answers) > 0


def test_remote_tell_without_a_reply_counts_once_under_its_key(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = remote_of(served, timeout=0.2)
    request = remote._session.request

    def lost(*given: Any, **more: Any) -> None:
        request(*given, **more)
        raise requests.ConnectionError

    monkeypatch.setattr(remote._session, "request", lost)
    with pytest.raises(RemoteError) as failed:
        remote.tell(DOMAIN.X[:1], [0.5], 1)
    monkeypatch.undo()
    (key,) = re.findall("key='(.*)'", str(failed.value))
    remote.tell(DOMAIN.X[:1], [0.5], 1, key=key)
    assert served.campaign.status.readings == 1
    detail = served.post("/tell", points=["S0"], rewards=[0.9], t=1).json()["detail"]
    assert 'give a "key"' in detail
    assert "/correct" in detail


def test_service_tell_refuses_a_doubtful_reading_unless_sure(served: Served) -> None:
    remote = remote_of(served)
    for t in range(1, 13):
        remote.tell(["S1"], [19.0 + t % 3 / 10], t)
    rows = served.campaign.status.rows
    wrong: dict[str, Any] = {"points": ["S2", "S1"], "rewards": [19.0, 1927.0], "t": 13}
    reply = served.post("/tell", **wrong)
    assert reply.status_code == 409
    content = reply.json()
    assert content.pop("detail").startswith(
        "row 1: S1: 1927 is far from the readings so far, 19 to"
    )
    assert content == {
        "row": 1, "site": "S1", "value": 1927.0, "usual": [19.0, 19.2], "remedy": {"sure": True}
    }  # fmt: skip
    # The role `tell` may not see other readings.
    blind = served.post("/tell", "tell", **wrong).json()
    assert (blind["row"], blind["usual"]) == (1, None)
    assert "19." not in blind["detail"]
    with pytest.raises(RemoteError, match=r"1927.*\(409\)") as caught:
        remote.tell(["S1"], [1927.0], 13)
    assert caught.value.reply["remedy"] == {"sure": True}
    far = served.post("/tell", points=["S1"], rewards=[None], t=1e9)
    assert (far.status_code, far.json()["value"], far.json()["usual"]) == (409, None, None)
    assert "far ahead" in far.json()["detail"]
    assert (
        "the time is beyond"
        in served.post("/tell", "tell", **{**wrong, "t": 1e9, "rewards": [None, 19.0]}).json()[
            "detail"
        ]
    )
    for odd in ("yes", 1, None):
        assert served.post("/tell", **wrong, sure=odd).status_code == 422
    assert served.campaign.status.rows == rows
    assert served.post("/tell", **wrong, sure=True).json() == {"recorded": 2, "failed": 0}
    assert served.campaign.status.rows == rows + 1


def test_service_correct_refuses_a_doubtful_correction_unless_sure(served: Served) -> None:
    for t in range(1, 13):
        served.post("/tell", points=["S1"], rewards=[19.0 + t % 3 / 10], t=t)
    wrong: dict[str, Any] = {"points": ["S1"], "rewards": [1927.0], "t": 12}
    told, corrected = (
        served.post(path, **wrong | change)
        for path, change in (("/tell", {"t": 13}), ("/correct", {}))
    )
    assert (corrected.status_code, corrected.json()) == (409, told.json())
    assert served.campaign.state.readings.y.max() < 20.0
    assert served.post("/correct", **wrong, sure=True).json() == {"changed": 1}
    answers = {"points": ["S1"], "values": [1.0], "sure": "yes"}
    assert served.post("/correct_answers", **answers).status_code == 422


def test_service_ask_names_the_silent_sites_that_it_left_out(served: Served) -> None:
    remote = remote_of(served)
    for t in range(4):
        remote.ask(t, available=["S5"])
        remote.tell(["S5"], [np.nan], t)
    reply = remote.post("/ask", t=5, key="k")
    assert reply["left_out"].keys() == {"S5"}
    assert remote.post("/ask", t=5, available=["S5"])["left_out"] == {}
    remote.tell(["S5"], [0.2], 5)
    assert remote.post("/ask", t=5, key="k") == reply
    assert remote.post("/ask", t=6)["left_out"] == {}


def test_service_ask_names_the_doubtful_sites_that_it_chose(served: Served) -> None:
    rng = np.random.default_rng(0)
    for t in range(30):
        levels = np.arange(40) % 7 + rng.normal(0.0, 0.1, 40)
        levels[3] = 4.0  # one is stuck
        served.campaign.tell(DOMAIN.X, levels, t)
    stuck = {"S3": served.campaign.doubtful_sites["S3"]}
    assert stuck["S3"].startswith("stuck: ")
    asked = {"available": ["S3", "S5"], "n": 2, "t": 30}
    assert served.post("/ask", **asked).json()["doubtful"] == stuck
    assert served.post("/ask", "ask", **asked).json()["doubtful"] == {"S3": "stuck"}
    assert served.post("/ask", t=30, available=["S5"]).json()["doubtful"] == {}


def test_service_stores_all_readings_of_many_clients(served: Served) -> None:
    def work(number: int) -> None:
        remote = remote_of(served)
        for i in range(4):
            X = remote.ask(float(i))
            remote.tell(X, [number + i / 10], float(i))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    rewards = served.campaign.history
    told = rewards[rewards["kind"] == "reward"]["reward"].to_numpy()
    expected = [number + i / 10 for number in range(8) for i in range(4)]
    np.testing.assert_allclose(np.sort(told), np.sort(expected))
    assert served.campaign.verify().consistent


def test_service_readers_do_not_wait_for_writers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty requests wait for one slow write, and the service has forty threads."""
    begun, go_on = threading.Event(), threading.Event()
    done = served.campaign._shared.execute

    def long(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(120)
        return done(*arguments, **options)

    monkeypatch.setattr(served.campaign._shared, "execute", long)

    def asks(number: int) -> int:
        return served.post("/ask", "ask", t=float(number)).status_code

    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(asks, number) for number in range(60)]
        try:
            assert begun.wait(120)
            for path in ("/status", "/history", "/pending", "/health"):
                assert served.get(path, "read").status_code == 200
            assert served.campaign.status.rows == 0
        finally:
            go_on.set()
        assert {each.result() for each in waiting} == {200}
    assert len(served.campaign.pending) == 60


def test_service_accepts_a_context(tmp_path: Path) -> None:
    space = Space(x=(0.0, 1.0), context={"outside": (-15, 20)})
    place = tmp_path / "c.db"
    campaign = Campaign.create(place, policies.gp_ucb(space, kernel=RBF(1.0), noise_variance=0.01))
    with serving(tmp_path, campaign=campaign, place=place) as served:
        remote = remote_of(served)
        X = remote.ask(1, context={"outside": 3.2})
        np.testing.assert_array_equal(X[:, 1], [3.2])
        remote.tell(X[:, :1], [0.5])
        remote.tell(["x=0.25"], [0.25], 2, context={"outside": -4.0})
        rows = remote.get("/history")["rows"]
        assert [row["outside"] for row in rows] == [3.2, -4.0]
        for point in ([[0.25]], ["x=0.25"]):
            found = remote.post("/predict", points=point, t=3, context={"outside": -4.0})
            assert abs(found["mean"][0] - 0.25) < 0.1
        assert remote.get("/recommend", t=3, context="outside=1.5")["point"][1] == 1.5
        assert_refused(RemoteError, "outside.*99", remote.ask, 4, context={"outside": 99})


# --- the bodies and replies in docs/service.md are those of the service

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
CALLS = {
    path: (json.loads(body), json.loads(reply))
    for path, body, reply in re.findall(
        r"^\| `POST (/\w+)`[^|]* \| `(.*)` \| `(.*)` \|$", PAGE, re.MULTILINE
    )
}


def test_service_accepts_every_body_and_gives_every_reply_of_the_docs(tmp_path: Path) -> None:
    sites = Candidates([[4.0, 1.0], [6.0, 2.0]])
    place = tmp_path / "documented.db"
    campaign = Campaign.create(
        place,
        policies.frugal_gp_ucb(
            sites, noise_variance=1.0, expert=SilentExpert(), queries_per_step=2
        ),
        about={"names": json.dumps(["AQ01", "AQ07"])},
        clock=Clock(unit="1h", origin="2026-01-01"),
    )
    with serving(tmp_path, campaign=campaign, place=place) as served:
        described = served.get("/openapi.json").json()
        assert {*CALLS} == {path for path, each in described["paths"].items() if "post" in each}
        for path, (body, reply) in CALLS.items():
            schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            model = described["components"]["schemas"][schema["schema"]["$ref"].rpartition("/")[2]]
            assert set(model.get("required", ())) <= set(body) <= set(model["properties"])
            got = served.post(path, **body)
            assert got.status_code == 200, f"{path}: {got.text}"
            assert set(got.json()) == set(reply), path


INVALID: dict[str, tuple[str, dict[str, Any], str]] = {
    "a decimal comma": ("/tell", {"rewards": ["12,5"]}, r"rewards\[0\] .*'12,5': write 12.5,"),
    "and two numbers of it": ("/tell", {"rewards": [12, 5]}, r"rewards .* 1, got 2: .* 12\.5"),
    "no list": ("/tell", {"rewards": "12,5"}, r"rewards must be a list.*: write \[12.5\]"),
    "an empty text": ("/tell", {"rewards": [""]}, r"rewards\[0\] .*'': write null if"),
    "NaN as a text": ("/tell", {"rewards": ["NaN"]}, r"rewards\[0\] .*'NaN': write null if"),
    "a truth value": ("/tell", {"rewards": [True]}, r"rewards\[0\] must be a number, got true"),
    "no place": ("/tell", {"points": [None]}, r"points\[0\] must be a list or a text, got null"),
    "a text in a place": ("/tell", {"points": [["1,5"]]}, r"points\[0\]\[0\] .*: write 1.5"),
    "no list of places": ("/tell", {"points": "S1"}, r"points must be a list.*: write \[\"S1\"\]"),
    "an unknown field": ("/tell", {"reward": [1]}, "reward is no field"),
    "a date without a clock": ("/tell", {"t": "31.01.2026"}, "t must be a number.*31.01.2026"),
    "a time that is a list": ("/tell", {"t": [1]}, r"t must be a number or a text, got \[1\]"),
    "an outcome": ("/tell", {"outcomes": {"a": ["1,2"]}}, r"outcomes.a\[0\] .*: write 1.2"),
    "one outcome of two": ("/tell", {"outcomes": {"a": [1, 2]}}, "a must have a value for each"),
    "an answer": ("/answer", {"values": ["1,5"], "rewards": None}, r"values\[0\] .*: write 1.5"),
    "a number of points": (
        "/ask",
        {"n": "1,5", "points": None, "rewards": None},
        "n must be a whole number",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_service_names_an_invalid_field_its_value_and_the_remedy(served: Served, name: str) -> None:
    path, change, message = INVALID[name]
    usual = {"points": ["S1"], "rewards": [1.0], "t": 1}
    body = {field: each for field, each in (usual | change).items() if each is not None}
    reply = served.post(path, **body)
    assert reply.status_code == 422
    assert re.match(message, reply.json()["detail"]), reply.json()["detail"]
    assert served.campaign.status.rows == 0


def test_service_reads_an_unambiguous_date_and_refuses_an_ambiguous_one(tmp_path: Path) -> None:
    clock = Clock(unit="1D", origin="2026-01-01")
    bandit = policies.gp_ucb(Candidates([[4.0], [6.0]]), noise_variance=1.0)
    campaign = Campaign.create(tmp_path / "dates.db", bandit, clock=clock)
    with serving(tmp_path, campaign=campaign, place=tmp_path / "dates.db") as served:
        reading = {"points": [[4.0]], "rewards": [1.0]}
        assert served.post("/tell", **reading, t="13/01/2026").status_code == 200
        assert campaign.state.readings.t.tolist() == [12.0]
        for path, body in (("/tell", reading), ("/ask", {}), ("/predict", {"points": [[4.0]]})):
            reply = served.post(path, **body, t="02/03/2026")
            assert reply.status_code == 422
            assert reply.json()["detail"].endswith("write 2026-03-02 or 2026-02-03")


def test_service_tell_refuses_a_withdrawn_reading_without_key_and_hides_its_value(
    served: Served,
) -> None:
    reading = {"points": ["S1"], "rewards": [0.125], "t": 1}
    assert served.post("/tell", **reading).status_code == 200
    assert served.post("/retract", points=["S1"], t=1).status_code == 200
    reply = served.post("/tell", **reading)
    assert reply.status_code == 409
    assert '0.125 was retracted by all (row 2); give a "key" to' in reply.json()["detail"]
    reply = served.post("/tell", "tell", **reading)
    assert reply.status_code == 409
    assert "0.125" not in reply.json()["detail"]
    assert 'give a "key" to bring it back' in reply.json()["detail"]
    assert served.post("/tell", **reading, key="on purpose").status_code == 200
    assert served.campaign.status.readings == 1


def test_service_sites_confirms_a_site_that_stands_out(served: Served) -> None:
    rng, levels = np.random.default_rng(0), np.zeros(40)
    levels[7] = 30.0
    for t in range(1, 9):
        y = levels + rng.standard_normal(40) / 10
        served.campaign.tell(DOMAIN.X, y, t, sure=True)
    remote = remote_of(served)
    assert {*remote.get("/status")["doubtful"]} == {"S7"}
    assert_refused(RemoteError, "S1 does not stand out", remote.post, "/sites", confirm=["S1"])
    reply = {"added": [], "retired": [], "confirmed": ["S7"]}
    assert remote.post("/sites", confirm=["S7"]) == reply
    assert remote.get("/status")["doubtful"] == {}
