"""A reading that was retracted or moved is recorded again only under a key."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Campaign, Candidates, policies, rate
from tvbandits.campaign.store.errors import ConflictError

SITES = Candidates([[0.0], [1.0], [2.0]])
READINGS = [
    {"X": [[0.0]], "y": [5.0], "t": 1.0},
    {"X": [[1.0]], "y": [6.0], "t": 1.0},
    {"X": [[0.0]], "y": [float("nan")], "t": 2.0},
]


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    bandit = policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit, about={"names": '["A", "B", "C"]'}) as made:
        assert made.record(READINGS) == 3
        yield made


WITHDRAWN: dict[str, tuple[Callable[[Campaign], Any], str]] = {
    "retracted": (lambda c: c.retract("A", 1.0), "A at t = 1: 5 was retracted by "),
    "moved": (lambda c: c.correct("A", t=1.0, to=3.0), "A at t = 1: 5 was moved to t = 3 by "),
    "without a value": (lambda c: c.correct("A", [float("nan")], 1.0), "A at t = 1: 5 was retr"),
    "corrected and retracted": (
        lambda c: (c.correct("A", [7.0], 1.0), c.retract("A", 1.0)),
        "A at t = 1: 5 was retracted by ",
    ),
    "corrected and moved": (
        lambda c: c.correct("A", [7.0], 1.0, to=4.0),
        "A at t = 1: 5 was moved to t = 4 by ",
    ),
    "moved and retracted": (
        lambda c: (c.correct("A", t=1.0, to=3.0), c.retract("A", 3.0)),
        "A at t = 1: 5 was moved to t = 3 by ",
    ),
    "a failed reading": (lambda c: c.retract("A", 2.0), "A at t = 2: no reading was retracted by"),
}


@pytest.mark.parametrize("case", WITHDRAWN)
def test_campaign_record_skips_and_names_withdrawn_readings(campaign: Campaign, case: str) -> None:
    change, text = WITHDRAWN[case]
    change(campaign)
    before, withdrawn = campaign.state.record, list[tuple[int, str]]()
    assert campaign.record(READINGS, [], withdrawn) == 0
    assert campaign.state.record == before
    ((number, why),) = withdrawn
    assert (number, why[: len(text)]) == (2 if case == "a failed reading" else 0, text)
    reading = READINGS[number]
    assert_refused(ConflictError, "give key= to bring it back", campaign.tell, **reading)
    assert campaign.record([{**reading, "key": "on purpose"}]) == 1
    withdrawn.clear()
    assert campaign.record(READINGS, [], withdrawn) == 0
    assert withdrawn == []
    assert campaign.verify().problems == ()


def test_campaign_record_accepts_a_withdrawn_reading_with_another_value_or_variance(
    campaign: Campaign,
) -> None:
    campaign.retract("A", 1.0)
    assert campaign.record([{**READINGS[0], "noise_variance": [0.5]}]) == 1
    campaign.retract("A", 1.0)
    assert campaign.record([{**READINGS[0], "y": [5.5]}]) == 1


def test_campaign_record_recognizes_a_rate_by_its_counts(tmp_path: Path) -> None:
    bandit = policies.adaptive_gp_ucb(SITES)
    shares = {"X": SITES.X, "y": rate([3, 5, 9], [10, 10, 10]), "t": 1.0}
    shares["counts"] = [[3, 10], [5, 10], [9, 10]]
    alone = {"X": SITES.X[1:2], "y": rate([5], [10]), "t": 1.0, "counts": [[5, 10]]}
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        assert campaign.record([shares]) == 3
        assert campaign.record([alone]) == 0
        campaign.retract(SITES.X[1:2], 1.0)
        withdrawn: list[tuple[int, str]] = []
        assert campaign.record([alone], None, withdrawn) == 0
        assert len(withdrawn) == 1


def test_campaign_record_refuses_several_points_of_which_some_are_known(campaign: Campaign) -> None:
    errors: list[tuple[int, ValueError]] = []
    both = {"X": [[0.0], [2.0]], "y": [5.0, 8.0], "t": 1.0}
    assert campaign.record([both], errors) == 0
    assert "already a reading of A" in str(errors[0][1])
    campaign.retract("A", 1.0)
    assert_refused(ConflictError, "A at t = 1: 5 was retracted", campaign.record, [both])


def test_campaign_record_does_not_report_a_reading_that_was_moved_back(campaign: Campaign) -> None:
    campaign.correct("A", t=1.0, to=3.0)
    campaign.correct("A", t=3.0, to=1.0)
    withdrawn: list[tuple[int, str]] = []
    assert campaign.record(READINGS, None, withdrawn) == 0
    assert withdrawn == []


def test_campaign_record_skips_a_retracted_reading_from_before_the_campaign(tmp_path: Path) -> None:
    bandit = policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01)
    bandit.tell([[0.0]], [5.0], 1.0)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        campaign.retract([[0.0]], 1.0)
        assert campaign.record(READINGS[:1]) == 0


@pytest.mark.parametrize("withdrawn", ["all", 1, ()])
def test_campaign_record_refuses_withdrawn_unless_a_list(
    campaign: Campaign, withdrawn: Any
) -> None:
    assert_refused(
        ValueError, "withdrawn must be a list", campaign.record, READINGS, None, withdrawn
    )


def test_campaign_are_recorded_finds_readings_as_told_and_as_corrected(campaign: Campaign) -> None:
    campaign.correct("A", [7.0], 1.0)
    campaign.retract("B", 1.0)
    X, t = ["A", "A", "B", "B", "A", "C"], [1, 1, 1, 1, 2, 1]
    found = campaign.are_recorded(X, [5, 7, 6, 7, float("nan"), 6], t)
    assert found.tolist() == [True, True, True, False, True, False]
    assert campaign.are_recorded(["A"], [5], [1], [0.5]).tolist() == [False]
    wrong: Any = campaign.are_recorded
    assert_refused(ValueError, 'unknown site "Z"', wrong, ["Z"], [5], [1])
    assert_refused(ValueError, r"y must have shape \(1,\)", wrong, ["A"], [5, 6], [1])
    assert_refused(
        ValueError, r"counts must have shape \(1, 2\)", wrong, ["A"], [5], [1], None, [[1]]
    )
    assert campaign.recorded_keys(["a", "b"]) == set()
