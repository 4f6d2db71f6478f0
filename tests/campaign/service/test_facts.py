"""The facts on the page of a campaign, against histories made by hand."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.silent import SilentExpert
from tvbandits import Box, Campaign, Candidates, Clock, Integer, Space, policies
from tvbandits.campaign.service.page import Facts, StationFacts
from tvbandits.campaign.status import HALF_WIDTH
from tvbandits.experts import Budgeted, Calibrated, CallableExpert

SITES = Candidates(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]]))
NAMES = ["north", "mill", "south", "east"]
NAN = float("nan")


def campaign(folder: Path, bandit: Any = None, **about: str) -> Campaign:
    player = bandit or policies.tv_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.01, forgetting_rate=0.01
    )
    return Campaign.create(folder / "c.db", player, about={"names": json.dumps(NAMES), **about})


def stations(folder: Path, history: dict[str, Sequence[float]]) -> dict[str, StationFacts]:
    """The stations of a campaign with these readings, one for each step."""
    with campaign(folder) as made:
        for name, values in history.items():
            for t, value in enumerate(values, start=1):
                made.tell(SITES.X[[NAMES.index(name)]], [value], float(t))
        return {each.name: each for each in Facts(made).stations}


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ([0.1, 0.2, 0.3], ()),
        ([0.1, 0.5, 0.5, 0.5, 0.5], ()),
        ([0.1, 0.5, 0.5, 0.5, 0.5, 0.5], ("stuck: the last 5 readings are all 0.5",)),
        ([0.5] * 7, ("stuck: the last 7 readings are all 0.5",)),
        ([0.5] * 7 + [0.6], ()),
        ([0.1, NAN, NAN], ()),
        ([0.1, NAN, NAN, NAN], ("silent: the last 3 readings failed",)),
        ([NAN] * 4, ("silent: the last 4 readings failed",)),
        ([NAN, NAN, NAN, 0.1], ()),
        (
            [0.5] * 5 + [NAN] * 3,
            ("silent: the last 3 readings failed", "stuck: the last 5 readings are all 0.5"),
        ),
    ],
)
def test_facts_name_a_stuck_or_silent_station(
    tmp_path: Path, values: list[float], problems: tuple[str, ...]
) -> None:
    found = stations(tmp_path, {"mill": values, "east": [0.1, 0.2]})
    assert found["mill"].problems == problems
    assert found["mill"].readings == np.isfinite(values).sum()
    assert found["mill"].failed == np.isnan(values).sum()
    assert found["mill"].last_time == len(values)
    assert found["east"].problems == ()
    assert next(iter(found)) == ("mill" if problems else "east")


@pytest.mark.parametrize(
    ("offset", "pairs", "problems"),
    [
        (1.0, 12, ("biased: answers differ by +1 from its own readings",)),
        (0.0, 12, ()),
        (1.0, 5, ()),
    ],
)
def test_facts_name_a_biased_station(
    tmp_path: Path, offset: float, pairs: int, problems: tuple[str, ...]
) -> None:
    chance = np.random.default_rng(0).normal(0, 0.1, pairs)
    bandit = policies.frugal_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.01, expert=SilentExpert(), queries_per_step=2
    )
    with campaign(tmp_path, bandit) as made:
        for t in range(1, pairs + 1):
            made.tell(SITES.X[[1]], [np.sin(t)], float(t))
            made.answer(SITES.X[[1]], [np.sin(t) + offset + chance[t - 1]], float(t), 0.04)
        (mill,) = Facts(made).stations
    assert mill.problems == problems


def test_facts_name_a_stuck_station_in_spite_of_answers(tmp_path: Path) -> None:
    bandit = policies.frugal_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.01, expert=SilentExpert(), queries_per_step=2
    )
    with campaign(tmp_path, bandit) as made:
        for t in range(1, 6):
            made.tell(SITES.X[[1]], [0.5], float(t))
            made.answer(SITES.X[[1]], [np.sin(t)], float(t), 0.04)
        (mill,) = Facts(made).stations
    assert mill.problems == ("stuck: the last 5 readings are all 0.5",)


def test_facts_report_the_calibration_of_the_expert(tmp_path: Path) -> None:
    def said(X: Any, t: float) -> Any:
        return np.sin(X[:, 0] + t) + 0.8

    expert = Calibrated(Budgeted(CallableExpert(said, 0.01), total=500), probe=True)
    bandit = policies.frugal_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.01, expert=expert, queries_per_step=2
    )
    with campaign(tmp_path, bandit) as made:
        assert Facts(made).calibrations == []
        rng = np.random.default_rng(1)
        for t in range(1, 13):
            X = made.ask(float(t))
            made.tell(X, np.sin(X[:, 0] + t) + rng.normal(0, 0.1, len(X)), float(t))
    with Campaign.open(tmp_path / "c.db") as made:  # a reader needs no expert
        (sentence,) = Facts(made).calibrations
    assert expert.report().has_bias
    assert f": {expert.report()}." in sentence


@pytest.mark.parametrize("minimize", [False, True])
def test_facts_most_regret_matches_brute_force(tmp_path: Path, minimize: bool) -> None:
    bandit = policies.tv_gp_ucb(
        SITES,
        kernel=RBF(2.0),
        noise_variance=0.01,
        forgetting_rate=0.01,
        minimize=minimize,
        beta=3.0,
    )
    with campaign(tmp_path, bandit) as made:
        for t, row in enumerate([0, 1, 2, 3, 1, 2], start=1):
            made.ask(float(t))
            made.drop(made.pending)
            made.tell(SITES.X[[row]], [[0.0, 1.0, -1.0, 0.2][row]], float(t))
        made.ask(6.0)
        facts = Facts(made)
        assert facts.names[facts.best] == ("south" if minimize else "mill")
        assert facts.width == 3.0
        mean, deviation = made.predict(SITES.X, 6.0)
        worth = -mean if minimize else mean
        best = int(np.argmax(worth))
        brute = max(
            (worth[i] + 3 * deviation[i]) - (worth[best] - 3 * deviation[best]) for i in range(4)
        )
        assert facts.most_regret == pytest.approx(brute)


@pytest.mark.parametrize("minimize", [False, True])
def test_facts_show_predictions_with_95_percent_interval_and_unit(
    tmp_path: Path, minimize: bool
) -> None:
    bandit = policies.tv_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.01, forgetting_rate=0.01, minimize=minimize
    )
    with campaign(tmp_path, bandit, unit="ppb") as made:
        for t, row in enumerate([0, 1, 2, 3], start=1):
            made.tell(SITES.X[[row]], [[0.0, 100.0, -100.0, 20.0][row]], float(t))
        for _ in range(4):
            made.ask(5.0)
        facts = Facts(made)
        mean, deviation = made.predict(SITES.X, 5.0)
        assert pytest.approx(norm.ppf(0.975), abs=1e-3) == HALF_WIDTH
        assert {name for name, _ in facts.reasons} == {*facts.names}
        for text in (facts.best_guess, *(why for _, why in facts.reasons)):
            for value, half, unit in re.findall(r"(-?[\d.]+) ± ([\d.]+) (\w+)", text):
                row = int(np.argmin(np.abs(mean - float(value))))
                assert float(value) == pytest.approx(mean[row], abs=0.05 * float(half))
                assert float(half) == pytest.approx(HALF_WIDTH * deviation[row], rel=0.06)
                assert unit == "ppb"
            assert text.count("±") == text.count("ppb") >= 1


def test_facts_interval_formats_value_half_width_and_unit(tmp_path: Path) -> None:
    with campaign(tmp_path, unit="ppb") as made:
        assert Facts(made).interval(1234.5, 100.0) == "1234 ± 200 ppb"
        assert Facts(made).interval(0.5, 0.01) == "0.500 ± 0.020 ppb"
        assert Facts(made).interval(3e-9, 1e-9) == "3e-09 ± 2e-09 ppb"
        assert Facts(made).interval(1013.254, 0.0107) == "1013.254 ± 0.021 ppb"
        assert Facts(made).interval(1.2345e-6, 1.6e-8) == "1.234e-06 ± 3.1e-08 ppb"
        assert Facts(made).interval(1.2345e11, 1.6e9) == "1.234e+11 ± 3.1e+09 ppb"


def test_facts_show_the_times_of_the_clock(tmp_path: Path) -> None:
    with Campaign.create(
        tmp_path / "c.db",
        policies.tv_gp_ucb(SITES, kernel=RBF(2.0), noise_variance=0.01, forgetting_rate=0.01),
        clock=Clock("1h", "2024-01-01"),
    ) as made:
        made.tell(SITES.X[[1]], [1.0], "2024-01-02 06:00")
        made.tell(SITES.X[[1]], [1.0], "2024-01-02 08:00")
        facts = Facts(made)
        assert facts.format_time(facts.now) == "2024-01-02 08:00"
        assert [t for t, *_ in facts.course] == [30.0, 32.0, 34.0, 36.0, 38.0, 42.0]
        for t, mean, deviation in facts.course:
            np.testing.assert_array_equal((mean, deviation), made.predict(SITES.X, t))
        assert facts.names == ["0,0", "4,0", "0,4", "4,4"]


@pytest.mark.parametrize(
    "domain",
    [Box([[0, 1], [0, 2]]), Space(temperature=(10, 80), count=Integer(1, 5), mode=["a", "b"])],
    ids=["box", "space"],
)
def test_facts_describe_domains_without_sites(tmp_path: Path, domain: Any) -> None:
    kernel = domain.kernel() if isinstance(domain, Space) else RBF(1.0)
    bandit = policies.tv_gp_ucb(domain, kernel=kernel, noise_variance=0.01, forgetting_rate=0.01)
    with Campaign.create(tmp_path / "c.db", bandit) as made:
        X = made.ask(1.0)
        made.tell(X, [0.5], 1.0)
        made.ask(2.0)
        facts = Facts(made)
        assert len(facts.names) == len(facts.places)
        mean, _ = made.predict(facts.places, 1.0)
        np.testing.assert_array_equal(facts.belief[0], mean)
        assert sum(each.readings for each in facts.stations) == 1
        assert not any(each.failed for each in facts.stations)


def test_facts_describe_a_campaign_without_readings(tmp_path: Path) -> None:
    with campaign(tmp_path) as made:
        facts = Facts(made)
        assert facts.stations == []
        assert facts.now == 0.0
        assert [t for t, *_ in facts.course] == [0.0, 1.0, 2.0, 3.0, 5.0]
        assert np.isfinite(facts.most_regret)
