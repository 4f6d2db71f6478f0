"""Doubtful readings, corrections and answers are refused, unless the caller is sure of them."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tests.helpers.silent import SilentExpert
from tvbandits import Campaign, Candidates, Clock, Options, policies, rate
from tvbandits.campaign import ConflictError, DoubtfulReadingError
from tvbandits.campaign.service.bodies import DoubtError
from tvbandits.experts import CallableExpert
from tvbandits.experts.protocol import Answers

SITES = Candidates(np.arange(4.0)[:, None])
ABOUT = {"names": json.dumps(["pier", "dune", "wood", "moor"])}


def campaign_at(folder: Path, bandit: Any = None, **options: Any) -> Campaign:
    if bandit is None:
        bandit = policies.tv_gp_ucb(
            SITES, kernel=RBF(1.0), noise_variance=0.01, forgetting_rate=0.05, seed=1
        )
    return Campaign.create(folder / "c.db", bandit, about=ABOUT, **options)


def tell_usual(campaign: Campaign, last: int = 12) -> None:
    """Readings near 19 of the pier, and near 3 of the dune."""
    for t in range(1, last + 1):
        campaign.tell(["pier", "dune"], [19.0 + t % 3 * 0.2, 3.0 + t % 2 * 0.2], t)


def test_campaign_tell_refuses_a_doubtful_reading_unless_sure(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        tell_usual(campaign)
        rows = campaign.status.rows
        with pytest.raises(DoubtfulReadingError, match=r"1927.*sure=True") as caught:
            campaign.tell(["wood", "pier"], [7.0, 1927.0], 13)
        error = caught.value
        assert (error.row, error.site, error.value, error.usual) == (1, "pier", 1927.0, (3.0, 19.4))
        assert campaign.status.rows == rows  # nothing is stored
        assert campaign.tell(["wood", "pier"], [7.0, 1927.0], 13, sure=True).readings == 26
        assert campaign.verify().consistent
    with Campaign.open(tmp_path / "c.db") as again:
        assert again.state.rewards.y[-1] == 1927.0


def test_campaign_tell_compares_a_reading_with_its_site_and_the_prediction(tmp_path: Path) -> None:
    bandit = policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01, seed=1)
    with campaign_at(tmp_path, bandit) as campaign:
        tell_usual(campaign)
        assert_refused(
            DoubtfulReadingError,
            "pier: 3 is far from its readings",
            campaign.tell,
            "pier",
            [3.0],
            13,
        )
        campaign.tell("dune", [3.0], 13)
        with pytest.raises(DoubtfulReadingError) as caught:
            campaign.tell(["pier", "dune", "pier"], [3.0, 19.0, 3.1], [14, 14, 15])
        assert (caught.value.row, caught.value.more) == (0, 2)


def test_campaign_tell_accepts_a_doubtful_value_as_outlier_of_a_robust_bandit(
    tmp_path: Path,
) -> None:
    bandit = policies.adaptive_gp_ucb(SITES, options=Options(robust=True), seed=1)
    with campaign_at(tmp_path, bandit) as campaign:
        tell_usual(campaign)
        assert campaign.tell("pier", [1927.0], 13).outliers == 1
        assert_refused(DoubtfulReadingError, "far ahead", campaign.tell, "pier", [19.0], 1e6)


def test_campaign_tell_refuses_a_time_far_ahead_unless_sure(tmp_path: Path) -> None:
    with campaign_at(tmp_path, clock=Clock("1h", "2026-01-01")) as campaign:
        campaign.tell("pier", [19.0], "2026-01-01T05:00")
        with pytest.raises(
            DoubtfulReadingError, match=r"pier at 2226-01-01 .* far ahead"
        ) as caught:
            campaign.tell("pier", [19.0], "2226-01-01T06:00")
        assert caught.value.usual is None
        campaign.tell("pier", [19.0], "2226-01-01T06:00", sure=True)


def test_campaign_tell_refuses_a_time_far_before_all_others_unless_sure(tmp_path: Path) -> None:
    with campaign_at(tmp_path, clock=Clock("1h", "2026-03-01")) as campaign:
        campaign.tell("pier", [19.0], "2026-02-28T00:00")  # too few readings to doubt a time
        for hour in range(8):
            campaign.tell("pier", [19.0 + hour / 10.0], f"2026-03-01T{hour:02}:00")
        campaign.tell("dune", [19.0], "2026-02-27T12:00")  # a late reading
        message = r"pier at 2025-03-01 .* is far before 2026-02-27 12:00:00, the first time"
        with pytest.raises(DoubtfulReadingError, match=message) as caught:
            campaign.tell("pier", [19.0], "2025-03-01T05:00")
        assert caught.value.usual is None
        campaign.tell("pier", [19.0], "2025-03-01T05:00", sure=True)


def test_campaign_answer_and_correct_answers_refuse_a_doubtful_answer_unless_sure(
    tmp_path: Path,
) -> None:
    brought = policies.frugal_gp_ucb(SITES, noise_variance=0.01, expert=None, queries_per_step=2)
    with campaign_at(tmp_path, brought) as campaign:
        tell_usual(campaign)
        asked = campaign.questions(13)[:1]
        rows = campaign.status.rows
        assert_refused(DoubtfulReadingError, "1927", campaign.answer, asked, [1927.0], 13)
        assert campaign.status.rows == rows
        campaign.answer(asked, [19.0], 13)
        assert_refused(DoubtfulReadingError, "1928", campaign.correct_answers, asked, [1928.0], 13)
        assert campaign.state.answers.y.tolist() == [19.0]
        campaign.correct_answers(asked, [1928.0], 13, sure=True)
        assert campaign.state.answers.y.tolist() == [1928.0]
        campaign.correct_answers(asked, [np.nan], 13)  # a withdrawal is never doubtful
        assert len(campaign.state.answers) == 0


def test_campaign_correct_refuses_a_doubtful_correction_unless_sure(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        tell_usual(campaign)
        with pytest.raises(DoubtfulReadingError, match=r"1927.*sure=True") as caught:
            campaign.correct(["dune", "pier"], [3.0, 1927.0], 12)
        error = caught.value
        assert (error.row, error.site, error.value, error.usual) == (1, "pier", 1927.0, (3.0, 19.4))
        assert_refused(
            DoubtfulReadingError, "far ahead", campaign.correct, "pier", None, 12, to=1e6
        )
        assert campaign.journal()[-1].kind == "tell"
        campaign.correct("pier", None, 12, 0.02)  # the value stays
        campaign.correct("pier", [1927.0], 12, sure=True)
        assert 1927.0 in campaign.state.readings.y
        assert campaign.verify().consistent


def test_campaign_correct_accepts_a_far_time_of_an_existing_reading(tmp_path: Path) -> None:
    with campaign_at(tmp_path, clock=Clock("1h", "2026-01-01")) as campaign:
        campaign.tell("pier", [19.0], "2226-01-01T06:00", sure=True)
        campaign.correct("pier", [19.5], "2226-01-01T06:00")
        assert campaign.state.readings.y.tolist() == [19.5]


def test_campaign_accepts_doubtful_readings_in_record_and_repeated_calls(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        tell_usual(campaign)
        campaign.tell("pier", [1927.0], 13, sure=True, key="k")
        rows = campaign.status.rows
        campaign.tell("pier", [1927.0], 13, key="k")
        assert_refused(ConflictError, "key", campaign.tell, "pier", [1928.0], 13, key="k")
        assert_refused(ConflictError, "already a reading", campaign.tell, "pier", [2222.0], 13)
        assert campaign.status.rows == rows
        assert campaign.record([{"X": "dune", "y": [-5000.0], "t": 14}]) == 1


def test_campaign_tell_compares_a_reading_with_those_of_other_writers(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign, Campaign.open(tmp_path / "c.db") as other:
        tell_usual(campaign)
        assert_refused(DoubtfulReadingError, "1927", other.tell, "wood", [1927.0], 13)
        other.tell("wood", [1927.0], 13, sure=True)
        assert_refused(DoubtfulReadingError, "1928", campaign.tell, "wood", [1928.0], 14)


def test_campaign_tell_accepts_a_far_rate_of_few_trials(tmp_path: Path) -> None:
    bandit = policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=1e-6, seed=1)
    with campaign_at(tmp_path, bandit) as campaign:
        for t in range(1, 13):
            campaign.tell("pier", rate([10 + t % 3], [1000]), t)
        far = rate([8000], [10000])
        assert_refused(DoubtfulReadingError, "0.8", campaign.tell, "dune", far, 13)
        campaign.tell("dune", rate([1], [1]), 13)


@pytest.mark.parametrize("sure", ["yes", 1, None])
def test_campaign_tell_refuses_sure_unless_true_or_false(tmp_path: Path, sure: Any) -> None:
    with campaign_at(tmp_path) as campaign:
        assert_refused(
            ValueError, "sure must be True or False", campaign.tell, "pier", [1.0], 1, sure=sure
        )
        assert campaign.status.rows == 0


@pytest.mark.parametrize("seed", range(3))
def test_campaign_tell_accepts_the_first_readings_of_an_adaptive_policy(
    tmp_path: Path, seed: int
) -> None:
    """The field is nearly flat but for a peak."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (30, 2))
    level = np.exp(-((X - X[7]) ** 2).sum(axis=1) / 4)
    bandit = policies.adaptive_gp_ucb(Candidates(X), seed=seed)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        for t in range(1, 21):
            (x,) = campaign.ask(t)
            row = int((x == X).all(axis=1).argmax())
            campaign.tell([x], [level[row] + 0.1 * rng.standard_normal()], t)
        assert campaign.status.readings == 20


def test_doubtful_reading_error_keeps_its_values_in_a_pickle() -> None:
    error = DoubtfulReadingError(
        "A: 9 is far", row=2, site="A", value=9.0, usual=(1.0, 2.0), more=1
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))
    assert "row 2: A: 9 is far (and 1 more like it)" in str(error)


# --- answers of an expert in a program, which cannot confirm them


def field(X: Any, t: float) -> Any:
    return 10.0 + np.cos(X[:, 0] + t / 9)


def with_expert(answer: Any) -> Any:
    return policies.frugal_gp_ucb(
        SITES, noise_variance=0.01, expert=CallableExpert(answer, 0.02), queries_per_step=3, seed=2
    )


def play(campaign: Campaign, last: int) -> None:
    for t in range(1, last + 1):
        X = campaign.ask(float(t))
        campaign.tell(X, field(X, t), float(t))


def test_campaign_leaves_out_a_broken_answer_of_an_expert_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(X: Any, t: float) -> Any:
        return np.where((X[:, 0] == 2.0) & (t >= 8), 5e4, field(X, t))

    with (
        caplog.at_level(logging.WARNING, "tvbandits.campaign"),
        campaign_at(tmp_path, with_expert(broken)) as campaign,
    ):
        play(campaign, 20)
        answers = campaign.state.answers
        assert answers.y.max() < 12.0
        assert (answers.X[:, 0] != 2.0)[answers.t >= 8].all()
        assert (answers.t > 15).any()
        notes = [
            note for row in campaign.journal() if row.kind == "reply" for note in row.body["notes"]
        ]
        assert notes
        assert notes[0].startswith("wood: 50000 is far from the readings so far")
        assert campaign.verify().consistent
        state = campaign.state
    assert notes[0] in caplog.records[0].getMessage()
    with Campaign.open(tmp_path / "c.db") as again:
        assert again.state == state


def test_campaign_uses_answers_of_an_expert_if_all_have_changed(tmp_path: Path) -> None:
    def changed(X: Any, t: float) -> Any:
        return field(X, t) + 5e4 * (t >= 8)

    with campaign_at(tmp_path, with_expert(changed)) as campaign:
        play(campaign, 12)
        assert campaign.state.answers.y.max() > 4e4


def test_campaign_uses_single_changed_answers_once_three_sites_agree(tmp_path: Path) -> None:
    def changed(X: Any, t: float) -> Any:
        return field(X, t) + 5e4 * (t >= 8)

    bandit = policies.frugal_gp_ucb(
        SITES, noise_variance=0.01, expert=CallableExpert(changed, 0.02), queries_per_step=1, seed=2
    )
    with campaign_at(tmp_path, bandit) as campaign:
        play(campaign, 26)
        replies = [row.body for row in campaign.journal() if row.kind == "reply" and row.body["X"]]
        late = [each for each in replies if each["t"] >= 8]
        aside = [bool(each["notes"]) for each in late]
        first = aside.index(False)
        assert aside == [True] * first + [False] * (len(aside) - first)
        assert len({str(each["X"]) for each in late[: first + 1]}) == 3
        assert campaign.verify().consistent


def test_campaign_leaves_out_one_broken_answer_of_two(tmp_path: Path) -> None:
    def broken(X: Any, t: float) -> Any:
        return np.where((X[:, 0] == 2.0) & (t >= 8), 5e4, field(X, t))

    bandit = policies.frugal_gp_ucb(
        SITES, noise_variance=0.01, expert=CallableExpert(broken, 0.02), queries_per_step=2, seed=2
    )
    with campaign_at(tmp_path, bandit) as campaign:
        play(campaign, 16)
        assert campaign.state.answers.y.max() < 12.0
        assert campaign.verify().consistent


def test_doubt_error_of_the_service_has_row_site_value_and_usual() -> None:
    assert {"row", "site", "value", "usual"} <= DoubtError.model_fields.keys()


def test_campaign_leaves_out_a_broken_answer_without_a_variance(tmp_path: Path) -> None:
    class Plain:
        def query(self, X: Any, t: float) -> Answers:
            return Answers(np.where((X[:, 0] == 2.0) & (t >= 8), -5e4, field(X, t)))

    bandit = policies.frugal_gp_ucb(SITES, expert=Plain(), queries_per_step=3, seed=2)
    with campaign_at(tmp_path, bandit) as campaign:
        play(campaign, 16)
        assert campaign.state.answers.y.min() > 8.0


def test_campaign_tell_accepts_an_expert_without_answers(tmp_path: Path) -> None:
    with campaign_at(tmp_path, policies.frugal_gp_ucb(SITES, expert=SilentExpert())) as campaign:
        play(campaign, 3)
        assert len(campaign.state.answers) == 0


def test_conflict_error_names_its_remedies_in_the_words_of_each_interface(tmp_path: Path) -> None:
    from tvbandits.campaign.service.app import REMEDIES as OF_THE_SERVICE
    from tvbandits.cli.output import REMEDIES as OF_THE_COMMAND_LINE
    from tvbandits.integrations.mcp import REMEDIES as OF_AN_AGENT

    with campaign_at(tmp_path) as campaign:
        campaign.tell("pier", [19.0], 1)
        with pytest.raises(ConflictError) as caught:
            campaign.tell("pier", [20.0], 1)
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error).startswith("there is already a reading of pier at t = 1: 19; give key= if")
    assert "--" not in str(error)
    for words in (OF_THE_SERVICE, OF_THE_COMMAND_LINE, OF_AN_AGENT):
        assert words.keys() == error.words.keys()
        assert words["key"] in error.message(words)
        assert words["correct"] in error.message(words)
    assert OF_THE_COMMAND_LINE["key"] not in error.message(OF_THE_SERVICE)


def test_campaign_correct_refuses_the_time_of_another_reading_without_a_key(tmp_path: Path) -> None:
    with campaign_at(tmp_path) as campaign:
        campaign.tell(["pier", "pier", "dune"], [1.0, 2.0, 3.0], [1, 2, 3])
        assert_refused(ConflictError, "pier at t = 2", campaign.correct, "pier", None, 1, to=2)
        campaign.correct(["pier", "pier"], None, [1, 2], to=[2, 1])  # exchanged
        campaign.correct("dune", None, 3, to=2)
        campaign.correct("pier", None, 1, to=2, key="both count")
        assert campaign.state.readings.t.tolist() == [2.0, 2.0, 2.0]
        assert campaign.verify().consistent
