"""Rates and counts of events in bandits and campaigns, also after a replay."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.commands import commands
from tests.helpers.refusals import assert_refused
from tvbandits import Arms, Campaign, count, load, policies, rate
from tvbandits.cli.campaign_tables import Reading, with_rates
from tvbandits.counts import Counted

ARMS = Arms(["red", "green", "blue"])


def test_campaign_tell_passes_the_trials_of_rates_to_the_bandit_and_replays_them(
    tmp_path: Any,
) -> None:
    alone = policies.adaptive_gp_ucb(ARMS)
    with Campaign.create(tmp_path / "campaign.db", policies.adaptive_gp_ucb(ARMS)) as campaign:
        for hour in (1, 2, 3):
            counts = rate([2, 7, hour], [100, 90, 80 + hour])
            for each in (alone, campaign):
                each.tell(ARMS.X, counts, hour)
        for each in (alone, campaign):
            each.correct(ARMS.X[:1], rate([5], [60]), 2)
        np.testing.assert_allclose(campaign.predict(ARMS.X, 4), alone.predict(ARMS.X, 4))
        assert campaign.verify().consistent


@pytest.mark.parametrize("around", [None, 0.05])
def test_bandit_correct_of_one_rate_matches_telling_the_right_count(around: float | None) -> None:
    plays, wrong, right = [100, 90, 80], [2, 70, 5], [2, 7, 5]
    made = [policies.gp_ucb(ARMS, kernel=RBF(1.0), noise_variance=0.01) for _ in range(3)]
    for bandit, k in zip(made, (wrong, right, wrong), strict=True):
        bandit.tell(ARMS.X, rate([4, 4, 4], plays), 1)
        bandit.tell(ARMS.X, rate(k, plays, around=around), 2)
    corrected, told, retracted = made
    corrected.correct(ARMS.X[[1]], rate([7], [90], around=around), 2)
    np.testing.assert_allclose(corrected.state.rewards.variance, told.state.rewards.variance)
    np.testing.assert_array_equal(corrected.state.rewards.y, told.state.rewards.y)
    # If `around` is stated for one reading alone, the variances of the others do not change.
    others = corrected.state.rewards.variance.copy()
    corrected.correct(ARMS.X[[1]], rate([7], [90], around=0.5), 2)
    changed = np.flatnonzero(corrected.state.rewards.variance != others)
    assert changed.tolist() == [4]
    assert corrected.state.rewards.variance[4] == pytest.approx(0.25 / 90)
    retracted.retract(ARMS.X[[1]], 2)
    alone = rate([2, 5], [100, 80], around=around)
    np.testing.assert_allclose(retracted.state.rewards.variance[3:], alone.variance)


def test_with_rates_returns_counted_readings_with_their_trials() -> None:
    readings = [
        Reading("red", at="1", counts=(2.0, 100.0)),
        Reading("blue", at="1", counts=(0.0, 9.0)),
    ]
    shares, events = (with_rates(readings, compute) for compute in (rate, count))
    for each, is_share in ((shares, True), (events, False)):
        for reading, (k, n) in zip(each, [(2.0, 100.0), (0.0, 9.0)], strict=True):
            assert isinstance(reading.y, Counted)
            assert reading.y.trials[0] == (n if is_share else np.inf)
            assert (reading.y.values[0], reading.y.variance[0]) == (k / n, reading.variance)


@pytest.mark.parametrize("policy", ["adaptive_gp_ucb", "discounted_thompson"])
def test_bandit_refuses_to_mix_rates_with_plain_numbers(tmp_path: Any, policy: str) -> None:
    shares, plain = (getattr(policies, policy)(ARMS) for _ in range(2))
    shares.tell(["red", "blue"], rate([1, 2], [10, 20]), 1)
    plain.tell(["red", "blue"], [0.0, 1.0], 1)
    assert_refused(
        ValueError, r"row 1: .*: 1 is a plain number", shares.tell, ARMS.X, [np.nan, 1.0, 0.5], 2
    )
    assert_refused(
        ValueError, r"0\.3 is a proportion of 10 trials", plain.tell, ["red"], rate([3], [10]), 2
    )
    for bandit in (shares, plain):
        assert len(bandit.history) == 2
        bandit.save(tmp_path / "saved")
        load(tmp_path / "saved").tell(["red"], [np.nan], 2)
        bandit.tell(["red"], [np.nan], 2)  # no reading is of either kind
    if policy == "adaptive_gp_ucb":
        assert_refused(ValueError, "is a plain number", shares.correct, ["red"], [0.2], 1)
        assert_refused(ValueError, "is a proportion", plain.correct, ["red"], rate([1], [2]), 1)
        plain.correct(["red", "blue"], rate([0, 1], [1, 1]), 1)
        plain.tell(["green"], rate([3], [10]), 3)


def test_campaign_names_the_site_of_a_plain_number_among_rates(tmp_path: Any) -> None:
    with Campaign.create(tmp_path / "campaign.db", policies.adaptive_gp_ucb(ARMS)) as campaign:
        campaign.tell(ARMS.X, rate([2, 7, 1], [100, 90, 80]), 1)
        for key in (None, "k"):
            assert_refused(
                ValueError, "^blue: 37 is a plain number", campaign.tell, "blue", 37, 2, key=key
            )
        errors: list[Any] = []
        rows = [{"X": "red", "y": [0.5], "t": 2}, {"X": "red", "y": rate([2], [9]), "t": 2}]
        assert campaign.record(rows, errors) == 1
        assert [(number, str(error)[:15]) for number, error in errors] == [(0, "red: 0.5 is a p")]
        assert campaign.verify().consistent


def test_bandit_refuses_to_mix_counts_of_events_with_other_readings(tmp_path: Any) -> None:
    events, plain, shares = (policies.adaptive_gp_ucb(ARMS) for _ in range(3))
    events.tell(["red", "blue"], count([1, 2], [10, 20]), 1)
    plain.tell(["red", "blue"], [0.0, 1.0], 1)
    shares.tell(["red", "blue"], rate([1, 2], [10, 20]), 1)
    events.save(tmp_path / "saved")
    for bandit in (events, load(tmp_path / "saved")):
        for y, kind in (([0.3], "a plain number"), (rate([3], [10]), "a proportion of 10 trials")):
            text = rf": 0\.3 is {kind}, but .* counts of events: tell .* count\(events, expos"
            assert_refused(ValueError, text, bandit.tell, ["red"], y, 2)
        assert_refused(ValueError, "a plain number", bandit.tell, ["red"], [0.3], 2, [0.1])
        assert_refused(ValueError, "a plain number", bandit.correct, ["red"], [0.3], 1)
        bandit.tell(["red"], [np.nan], 2)  # no reading is of either kind
        bandit.tell(["red"], count([3], [10]), 2)
        bandit.correct(["red"], count([4], [10]), 2)
        assert len(bandit.history) == 3
    for bandit, kind in ((plain, "plain numbers"), (shares, "proportions of trials")):
        text = rf"0\.3 is a count of events, but the other readings are {kind}"
        assert_refused(ValueError, text, bandit.tell, ["red"], count([3], [10]), 2)
    plain.correct(["red", "blue"], count([0, 1], [1, 1]), 1)
    plain.tell(["green"], count([3], [10]), 3)


def test_campaign_tells_counts_of_events_to_the_model_as_measurements(tmp_path: Any) -> None:
    alone = policies.adaptive_gp_ucb(ARMS)
    with Campaign.create(tmp_path / "campaign.db", policies.adaptive_gp_ucb(ARMS)) as campaign:
        for hour in (1, 2, 3):
            events = count([2, 7, hour], [1.0, 0.9, 0.8 + hour])
            campaign.tell(ARMS.X, events, hour)
            alone.tell(ARMS.X, events.values, hour, events.variance)
        campaign.ask(4, 3, ["red"])
        campaign.tell("red", count([2], [1.0]), 4)
        assert (
            len(campaign.pending) == len(campaign.state.pending) == 2
        )  # a count completes one play; a rate completes all
        campaign.drop(campaign.pending)
        alone.tell(["red"], count([2], [1.0]).values, 4, count([2], [1.0]).variance)
        np.testing.assert_allclose(campaign.predict(ARMS.X, 5), alone.predict(ARMS.X, 5))
        assert_refused(
            ValueError, "red: 5 is a plain number", campaign.record, [{"X": "red", "y": [5]}]
        )
        assert campaign.verify().problems == ()


def test_campaign_tell_and_correct_commands_accept_counts_of_events(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, at = str(tmp_path / "c.db"), ("--at", 1)
    Campaign.create(place, policies.adaptive_gp_ucb(ARMS)).close()
    command = commands(monkeypatch, capsys)
    red = (place, "--site", "red", *at)
    for wrong in (
        ("--events", 3),
        ("--events", 3, "--trials", 30),
        ("--events", 3, "--exposure", 30, "--reward", 0.1),
        ("--events", 3, "--exposure", 30, "--variance", 0.1),
        ("--events", 3, "--exposure", 0),
        (),
    ):
        assert command("campaign", "tell", *red, *wrong).status == 2
    assert command("campaign", "tell", *red, "--events", 3, "--exposure", 30).status == 0
    assert command("campaign", "tell", *red, "--events", 3, "--exposure", 30).status == 0  # again
    shares = ("--successes", 3, "--trials", 30)
    assert "counts of events" in command("campaign", "tell", place, "--site", "blue", *shares).err
    for wrong in (("--events", 3), ("--events", 3, "--exposure", 30, "--reward", 0.1)):
        assert command("campaign", "correct", *red, *wrong).status == 2
    said = command("campaign", "correct", *red, "--events", 6, "--exposure", 30)
    assert "which was 0.1 and is 0.2 now" in said.out
    with Campaign.open(place) as campaign:
        right = count([6], [30])
        readings = campaign.state.readings
        assert readings.y == right.values
        assert readings.variance == right.variance
        assert np.isinf(readings.trials).all()
        assert campaign.verify().consistent
