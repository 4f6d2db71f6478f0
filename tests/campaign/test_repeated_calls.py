"""Calls repeated under their key return the first result; invalid arguments never enter the journal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Arms, Bandit, Campaign, Candidates, Space, policies
from tvbandits.bandit.state import is_same_value
from tvbandits.campaign import ConflictError
from tvbandits.domains.candidates import CandidatesInContext
from tvbandits.experts import CallableExpert

SITES = Candidates([[0.0], [1.0], [2.5], [4.0]])
NAMED = {"names": '["a", "b", "c", "d"]'}


def plain() -> Bandit:
    return policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01)


def brought() -> Bandit:
    return policies.frugal_gp_ucb(
        SITES, kernel=RBF(1.0), noise_variance=0.01, expert=None, queries_per_step=2
    )


@pytest.fixture
def campaign(tmp_path: Path) -> Any:
    with Campaign.create(tmp_path / "c.db", brought(), about=NAMED) as made:
        yield made


CHANGES: dict[str, dict[str, Any]] = {
    "retired": {"retire": ["a"]},
    "added": {"add": {"e": [9.0]}},
    "both": {"retire": ["b"], "add": {"e": [9.0]}},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"available": ["a", "b"]},
        {"available": [0, 1]},
        {"available": np.arange(4) < 2},
        {"without": ["a"]},
    ],
    ids=["all", "names", "rows", "mask", "without"],
)
def test_campaign_ask_with_a_key_returns_the_same_points_after_sites_changed(
    campaign: Campaign, change: str, said: dict[str, Any]
) -> None:
    first = campaign.ask(1.0, 2, **said, key="k")
    campaign.change_sites(**CHANGES[change])
    rows = len(campaign.journal())
    assert np.array_equal(campaign.ask(1.0, 2, **said, key="k"), first)
    assert len(campaign.journal()) == rows
    with pytest.raises(ConflictError, match="key 'k'"):
        campaign.ask(1.0, 2, available=["c"], key="k")
    assert campaign.verify().consistent


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("available", [None, ["a", "b"]])
def test_campaign_questions_with_a_key_return_the_same_points_after_sites_changed(
    campaign: Campaign, change: str, available: Any
) -> None:
    first = campaign.questions(1.0, available, key="k")
    assert len(first) == 2
    campaign.change_sites(**CHANGES[change])
    assert np.array_equal(campaign.questions(1.0, available, key="k"), first)
    with pytest.raises(ConflictError, match="key 'k'"):
        campaign.questions(2.0, available, key="k")


def test_campaign_calls_with_a_key_return_their_first_info(campaign: Campaign) -> None:
    asked = campaign.questions(1.0)
    calls: list[Callable[[], Any]] = [
        lambda: campaign.tell(["b"], [1.0], 1.0, key="tell"),
        lambda: campaign.answer(asked[:1], [0.5], 1.0, key="answer"),
        lambda: campaign.correct(["b"], [2.0], 1.0, key="correct"),
        lambda: campaign.tell(["d"], [float("nan")], 2.0, key="failed"),
        lambda: campaign.retract(["b"], 1.0, key="retract"),
    ]
    first = [call() for call in calls]
    assert [(info.readings, info.failed, info.queries.total_answered) for info in first] == [
        (1, 0, 0), (1, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1),
    ]  # fmt: skip
    campaign.change_sites(retire=["a"], add={"e": [9.0]})
    campaign.tell(["d"], [1.0], 3.0)
    rows = len(campaign.journal())
    assert is_same_value([call() for call in calls], first)
    assert len(campaign.journal()) == rows


def test_campaign_tell_with_a_key_counts_once_after_an_arm_was_added(tmp_path: Path) -> None:
    bandit = policies.gp_ucb(Arms(["red", "green"]), kernel=RBF(1.0), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        calls: list[Callable[[], Any]] = [
            lambda: campaign.tell(["red"], [1.0], 1.0, key="by name"),
            lambda: campaign.tell([[0.0, 1.0]], [1.0], 1.0, key="by coordinates"),
            lambda: campaign.record([{"X": ["red"], "y": [2.0], "t": 2.0, "key": "recorded"}]),
        ]
        first = [call() for call in calls]
        campaign.change_sites(["blue"])
        assert is_same_value([call() for call in calls], [*first[:2], 0])
        assert campaign.status.readings == 3


def test_campaign_calls_with_a_key_can_be_repeated_without_the_earlier_context(
    tmp_path: Path,
) -> None:
    domain = CandidatesInContext(SITES, {"outside": (0.0, 10.0)})
    bandit = policies.gp_ucb(domain, kernel=RBF(1.0), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit, about=NAMED) as campaign:
        campaign.ask(1.0, available=["b"], context={"outside": 3.0})
        campaign.ask(2.0, available=["c"], context={"outside": 5.0})
        calls: list[Callable[[], Any]] = [
            lambda: campaign.drop(["c"], key="drop"),
            lambda: campaign.tell(["b"], [1.0], 1.0, key="tell"),
            lambda: campaign.retract(["b"], 1.0, key="retract"),
        ]
        first = [call() for call in calls]
        assert is_same_value([call() for call in calls], first)
        assert campaign.record([{"X": ["b"], "y": [1.0], "t": 1.0, "key": "tell"}]) == 0
        assert campaign.status.readings == 0


BAD_READINGS: dict[str, Any] = {
    "unknown": {"X": ["b"], "y": [1.0], "t": 1.0, "unit": "ppb"},
    "unknown of a bandit": {"X": ["b"], "y": [1.0], "t": 1.0, "got": [1.0]},
    "no mapping": 5,
    "no place": {"y": [1.0], "t": 1.0},
    "no value": {"X": ["b"], "t": 1.0},
    "counts": {"X": ["b"], "y": [1.0], "t": 1.0, "counts": "many"},
    "counts of three": {"X": ["b"], "y": [1.0], "t": 1.0, "counts": [[1.0, 2.0, 3.0]]},
    "outcome": {"X": ["b"], "y": [1.0], "t": 1.0, "outcomes": {"loud": [1.0]}},
}


@pytest.mark.parametrize("make", [plain, brought])
@pytest.mark.parametrize("case", BAD_READINGS)
def test_campaign_record_keeps_an_invalid_reading_out_of_the_journal(
    case: str, make: Callable[[], Bandit], tmp_path: Path
) -> None:
    with Campaign.create(tmp_path / "c.db", make(), about=NAMED) as campaign:
        with pytest.raises(ValueError, match=r"unknown|must|loud"):
            campaign.record([BAD_READINGS[case]])
        assert campaign.journal() == []
        campaign.record([{"X": ["b"], "y": [1.0], "t": 1.0, "counts": [[1.0, 2.0]]}])
    with Campaign.open(tmp_path / "c.db") as campaign:
        campaign.ask(2.0)
        assert campaign.status.readings == 1
        assert campaign.verify().consistent


def test_campaign_record_refuses_a_number_and_ask_an_endless_list(campaign: Campaign) -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match=r"readings must be .*1e\+300"):
        campaign.record(1e300)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="available"):
        campaign.ask(1.0, available=endless)  # type: ignore[arg-type]
    assert campaign.journal() == []


def test_campaign_record_appends_refused_readings_to_a_given_list(campaign: Campaign) -> None:
    campaign.tell(["a"], [1.0], 1.0)
    readings = [
        {"X": ["b"], "y": [1.0], "t": 1.0},
        {"X": ["nowhere"], "y": [1.0], "t": 1.0},
        {"X": ["a"], "y": [2.0], "t": 1.0},  # another one is on record
        {"X": ["a"], "y": [1.0], "t": 1.0},
        {"X": ["c"], "y": [1.0], "t": 1.0, "unit": "ppb"},
        {"X": ["d"], "y": [1.0], "t": 1.0},
    ]
    with pytest.raises(ValueError, match="unknown"):
        campaign.record(readings)
    assert campaign.status.readings == 1
    refused: list[tuple[int, ValueError]] = []
    assert campaign.record(readings, refused) == 2
    assert [number for number, _ in refused] == [1, 2, 4]
    assert campaign.status.readings == 3


def test_campaign_create_leaves_no_file_if_names_are_invalid(tmp_path: Path) -> None:
    for names in ("no list", "[1, 2, 3, 4]", '["a"]'):
        with pytest.raises(ValueError, match="names"):
            Campaign.create(tmp_path / "c.db", plain(), about={"names": names})
        assert not (tmp_path / "c.db").exists()


def sees(X: Any, t: float) -> Any:
    return np.sin(X[:, 0] + t / 5)


class Unreliable:
    """An expert that answers now and then."""

    def __init__(self) -> None:
        self.down = False

    def query(self, X: Any, t: float) -> Any:
        if self.down:
            raise ConnectionError("nobody is there")
        return CallableExpert(sees, 0.02).query(X, t)


@pytest.mark.filterwarnings("ignore::tvbandits.experts.protocol.ExpertDownWarning")
@pytest.mark.parametrize("context", [False, True])
def test_campaign_status_and_backup_count_the_answers_that_the_bandit_uses(
    tmp_path: Path, context: bool
) -> None:
    expert = Unreliable()
    domain = CandidatesInContext(SITES, {"outside": (0.0, 10.0)}) if context else SITES
    bandit = policies.sparq_gp_ucb(domain, kernel=RBF(1.0), noise_variance=0.01, expert=expert)
    seen = set()
    with Campaign.create(tmp_path / "c.db", bandit, snapshot_every=100) as campaign:
        for t in range(1, 7):
            expert.down = t % 3 == 0
            where = {"outside": float(t)} if context else None
            X = campaign.ask(float(t), context=where)
            campaign.tell(X, [0.5], float(t))
            campaign.backup(tmp_path / f"{t}.db")
            truth = len(campaign.state.answers)
            seen.add(truth)
            assert campaign.status.answers == truth
            for place in ("c.db", f"{t}.db"):
                with Campaign.open(tmp_path / place) as reader:
                    assert (reader.status.answers, len(reader.state.answers)) == (truth, truth)
    assert 0 in seen
    assert max(seen) > 0


def test_campaign_calls_with_a_key_and_points_by_name_count_once(tmp_path: Path) -> None:
    space = Space(heat=(0.0, 10.0), fuel=["gas", "oil"])
    points: list[Any] = [
        [{"heat": 3, "fuel": "gas"}],
        {"heat": 3.0, "fuel": "gas"},
        pd.DataFrame({"heat": [3.0], "fuel": ["gas"]}),
    ]
    bandit = policies.gp_ucb(space, kernel=space.kernel(), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        for X in points:
            campaign.tell(X, [1.0], 1.0, key="k")
        assert campaign.status.readings == 1
        with pytest.raises(ConflictError, match="oil"):
            campaign.tell({"heat": 3.0, "fuel": "oil"}, [1.0], 1.0, key="k")
        first = campaign.ask(2.0, available={"fuel": ["oil"], "heat": (1.0, 2.0)}, key="a")
        again = campaign.ask(2.0, available={"fuel": ("oil",), "heat": [1, 2]}, key="a")
        assert np.array_equal(first, again)
        assert campaign.verify().consistent


@pytest.mark.parametrize("odd", [{1, 2}, object(), [object()]], ids=["set", "object", "objects"])
def test_campaign_keeps_arguments_that_are_not_json_out_of_the_journal(
    campaign: Campaign, odd: Any
) -> None:
    for call in (
        lambda: campaign.ask(1.0, available=odd),
        lambda: campaign.tell(odd, [1.0], 1.0),
        lambda: campaign.drop(odd),
        lambda: campaign.questions(1.0, odd),
    ):
        with pytest.raises(ValueError, match=r"object|set"):
            call()
    assert campaign.journal() == []
