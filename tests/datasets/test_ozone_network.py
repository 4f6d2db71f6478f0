"""The simulated ozone network: its statistics against those measured on a real field."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Problem
from tvbandits.datasets.epa_ozone.simulated import FLOOR, ozone_network
from tvbandits.datasets.tables.problem import TableProblem

SEEDS = range(6)


def lag_one(series: Array) -> float:
    """Correlation from one day to the next, pooled over columns."""
    centred = series - series.mean(axis=0)
    return float((centred[1:] * centred[:-1]).mean() / (centred**2).mean())


def statistics(problem: TableProblem) -> dict[str, float]:
    values = problem.values
    days, stations = values.shape
    daily, offset = values.mean(axis=1), values.mean(axis=0) - values.mean()
    angle = 2 * np.pi * np.arange(days) / 365.25
    seasons = np.column_stack([np.ones(days), np.cos(angle), np.sin(angle)])
    fit = np.linalg.lstsq(seasons, daily)[0]
    level = daily - seasons @ fit
    anomaly = values - daily[:, None] - offset
    departure = anomaly - seasons @ np.linalg.lstsq(seasons, anomaly)[0]
    summer = np.cos(angle - 2 * np.pi * 149 / 365.25) > 0
    distance = np.hypot(*(problem.points[:, None] - problem.points).T)
    pairs = np.triu_indices(stations, 1)
    correlation, apart = np.corrcoef(departure.T)[pairs], distance[pairs]
    best = values.argmax(axis=1)
    return {
        "mean": float(fit[0]),
        "season": float(np.hypot(*fit[1:])),
        "peak_day": float(np.arctan2(fit[2], fit[1]) * 365.25 / (2 * np.pi)),
        "level_sd": float(level.std()),
        "level_persistence": lag_one(level),
        "offset_sd": float(offset.std()),
        "anomaly_sd": float(anomaly.std()),
        "anomaly_persistence": lag_one(anomaly),
        "departure_sd": float(departure.std()),
        "departure_persistence": lag_one(departure),
        "summer_ratio": float(departure[summer].std() / departure[~summer].std()),
        "near": float(correlation[apart < 50].mean()),
        "middle": float(correlation[(apart > 100) & (apart < 200)].mean()),
        "far": float(correlation[apart > 400].mean()),
        "best_changes": float((best[1:] != best[:-1]).mean()),
        "variation": float(problem.variation or 0.0),
        **problem.references()._asdict(),
    }


@pytest.fixture(scope="module")
def simulated() -> dict[str, float]:
    runs = [statistics(ozone_network(seed)) for seed in SEEDS]
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}


@pytest.mark.parametrize(
    ("statistic", "measured", "tolerance"),
    [
        ("mean", 35.9, 1.5),
        ("season", 11.1, 1.5),
        ("peak_day", 148.6, 8.0),
        ("level_sd", 7.1, 0.7),
        ("level_persistence", 0.55, 0.06),
        ("offset_sd", 3.2, 0.4),
        ("anomaly_sd", 6.8, 0.7),
        ("anomaly_persistence", 0.42, 0.06),
        ("departure_sd", 6.0, 0.7),
        ("departure_persistence", 0.25, 0.06),
        ("summer_ratio", 1.37, 0.2),
        ("near", 0.6, 0.15),
        ("middle", 0.18, 0.15),
        ("far", -0.27, 0.15),
        ("best_changes", 0.81, 0.06),
        ("variation", 18.9, 1.5),
        ("uniform", 12.67, 1.9),
        ("best_fixed", 8.47, 1.3),
        ("last_best", 6.18, 0.9),
    ],
)
def test_statistics_are_those_of_the_real_field(
    statistic: str, measured: float, tolerance: float, simulated: dict[str, float]
) -> None:
    assert simulated[statistic] == pytest.approx(measured, abs=tolerance)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_single_realisation_is_an_easy_one(seed: int) -> None:
    uniform, best_fixed, last_best, all_read = ozone_network(seed).references()
    assert 11 < uniform < 16
    assert 7 < best_fixed < 11
    assert 5 < last_best < 8
    assert all_read < last_best < best_fixed < uniform


def test_shape_unit_and_floor() -> None:
    problem = ozone_network()
    assert isinstance(problem, Problem)
    assert problem.values.shape == (731, 28)
    assert (problem.unit, problem.horizon, problem.domain.dimension) == ("ppb", 731, 2)
    assert (problem.values >= FLOOR).all()
    assert (problem.values == FLOOR).mean() < 0.005
    assert len(problem.labels) == 28


def test_seed_draws_the_weather_and_nothing_else() -> None:
    problem = ozone_network(1, stations=12, days=4000)
    other = problem.realise(2)
    np.testing.assert_array_equal(problem.points, other.points)
    np.testing.assert_array_equal(other.values, ozone_network(2, stations=12, days=4000).values)
    np.testing.assert_array_equal(problem.realise(1).values, problem.values)
    assert np.abs(problem.values - other.values).mean() > 5.0
    # What sets the stations apart for good stays when the weather is averaged out.
    assert np.corrcoef(problem.values.mean(axis=0), other.values.mean(axis=0))[0, 1] > 0.95


def test_first_day_is_like_any_other() -> None:
    runs = [ozone_network(seed, stations=4, days=2).values for seed in range(600)]
    first, second = np.array(runs).mean(axis=2).std(axis=0)
    assert first / second == pytest.approx(1.0, abs=0.06)


def test_global_state_is_not_touched() -> None:
    state = pickle.dumps(np.random.get_state())  # noqa: NPY002
    ozone_network(3, stations=4, days=10)
    assert pickle.dumps(np.random.get_state()) == state  # noqa: NPY002


def test_network_travels_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(ozone_network(4, stations=3, days=5)))
    np.testing.assert_array_equal(sent.realise(4).values, sent.values)


@pytest.mark.parametrize(("stations", "days"), [(2, 1), (2, 2), (200, 3)])
def test_small_and_large_networks(stations: int, days: int) -> None:
    assert ozone_network(stations=stations, days=days).values.shape == (days, stations)


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="stations must be a whole number of at least 2, got 1"):
        ozone_network(stations=1)
    with pytest.raises(ValueError, match="days must be a whole number of at least 1, got 0"):
        ozone_network(days=0)


def test_the_summary_says_how_large_it_is() -> None:
    problem = ozone_network(3, stations=4, days=10)
    assert problem.summary == "simulated, 4 stations, 10 days"
    # A comparison draws the weather of its own seeds.
    assert problem.realise(5).summary == problem.summary
