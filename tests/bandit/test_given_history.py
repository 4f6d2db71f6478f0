"""A table of readings before the first decision."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.networks import shared_weather
from tvbandits import Answers, Box, Candidates, load, policies
from tvbandits.bandit.past import list_readings, parse_history
from tvbandits.datasets import sensor_field
from tvbandits.domains.space import Arms
from tvbandits.gp.ensemble.empirical import EmpiricalSpace
from tvbandits.gp.table_noise import (
    CONFIG,
    bound_table_noise,
    estimate_table_noise,
    mask_stuck_readings,
    table_evidence,
)
from tvbandits.validation import Array

SITES = np.arange(6.0)[:, None]
POLICIES = {
    "adaptive": policies.adaptive_gp_ucb,
    "frugal": lambda domain, **more: policies.frugal_gp_ucb(domain, expert=None, **more),
}


class CountingExpert:
    """An expert that knows a table, and records the times of its queries."""

    def __init__(self, table: Array) -> None:
        self.table, self.times = table, []  # type: ignore[var-annotated]

    def query(self, X: Array, t: float) -> Answers:
        self.times.append(t)
        return Answers(self.table[int(t), X[:, 0].astype(int)])


@pytest.mark.parametrize("policy", POLICIES)
def test_history_equals_telling_its_rows(policy: str) -> None:
    table = shared_weather(30, seed=1)
    table[3:7, 2] = np.nan
    frame = pd.DataFrame(table[:25], index=np.arange(25.0))
    make = POLICIES[policy]
    bandit = make(Candidates(SITES), noise_variance=0.01, beta=1.0, history=frame)
    other = make(Candidates(SITES), noise_variance=0.01, beta=1.0)
    for t, row in enumerate(table[:25]):
        read = np.isfinite(row)
        other.tell(SITES[read], row[read], t)
    pd.testing.assert_frame_equal(bandit.history, other.history)
    for t in range(25, 30):
        X = bandit.ask(t)
        np.testing.assert_array_equal(X, other.ask(t))
        reward = table[t, X[:, 0].astype(int)]
        bandit.tell(X, reward, t)
        other.tell(X, reward, t)


def test_noise_of_history_does_not_depend_on_its_first_readings() -> None:
    table = shared_weather(60, seed=3) + 0.5 * np.random.default_rng(3).standard_normal((60, 6))
    table[:20] *= 100.0
    bandit = policies.adaptive_gp_ucb(Candidates(SITES), history=table)
    assert 0.05 < bandit.noise.variance < 1.0


def test_history_queries_no_expert_about_the_past() -> None:
    table = shared_weather(30, seed=2)
    expert = CountingExpert(table)
    bandit = policies.frugal_gp_ucb(
        Candidates(SITES), noise_variance=0.01, expert=expert,
        history=pd.DataFrame(table[:25], index=np.arange(25.0)),
    )  # fmt: skip
    assert expert.times == []
    X = bandit.ask(25)
    bandit.tell(X, table[25, X[:, 0].astype(int)], 25)
    assert set(expert.times) == {25}


def test_history_determines_the_correlation_of_places() -> None:
    """Far places with the same weather predict each other, and a place between them does not."""
    table, expected = shared_weather(100, seed=0), []
    for above in (0.0, 5.0):
        bandit = policies.adaptive_gp_ucb(Candidates(SITES), noise_variance=0.01, history=table)
        bandit.tell(SITES[:1], [table[-1, 0] + above], 1)
        expected.append(bandit.predict(SITES, 1)[0])
    share = (expected[1] - expected[0]) / 5.0
    assert share[0] > 0.8
    assert share[[2, 4]].min() > 0.5
    assert np.abs(share[[1, 3, 5]]).max() < 0.2


@pytest.mark.parametrize("times", [263, 264, 343])
def test_history_of_any_length_predicts_the_next_row(times: int) -> None:
    # At some lengths, the covariance is estimated before the length of a step is known.
    table = shared_weather(344, seed=4)
    bandit = policies.adaptive_gp_ucb(Candidates(SITES), noise_variance=0.01, history=table[:times])
    mean, deviation = bandit.predict(SITES, 1)
    assert (np.abs(table[times] - mean) < 4.0 * deviation).all()
    assert (deviation < 1.2 * table.std(axis=0)).all()
    bandit.ask(1)
    models = bandit.state.posterior.ensemble.current_models
    assert any(isinstance(each.drift_space, EmpiricalSpace) for each in models)


@pytest.mark.parametrize("policy", POLICIES)
def test_history_with_constant_offsets_of_places_widens_no_prediction(policy: str) -> None:
    rng, places = np.random.default_rng(7), np.arange(15.0)[:, None]
    root = np.linalg.cholesky(RBF(3.0)(places) + 0.1 * np.eye(15))
    weather = np.zeros((200, 15))
    for before, row in pairwise(weather):
        row[:] = 0.95 * before + 0.3 * root @ rng.normal(size=15)
    readings = weather + 0.3 * rng.normal(size=weather.shape)
    widths = [
        POLICIES[policy](Candidates(places), noise_variance=0.09, history=table).predict(places)[1]
        for table in (readings, readings + 3.0 * rng.normal(size=15))
    ]
    assert widths[1].mean() == pytest.approx(widths[0].mean(), rel=0.3)


def test_bandit_with_history_plays_the_same_after_loading(tmp_path) -> None:  # type: ignore[no-untyped-def]
    table = shared_weather(40, seed=3)
    bandit = policies.adaptive_gp_ucb(Candidates(SITES), noise_variance=0.01, history=table[:30])
    for t in (1, 2):
        X = bandit.ask(t)
        bandit.tell(X, table[29 + t, X[:, 0].astype(int)], t)
    bandit.save(tmp_path / "bandit.tvb")
    loaded = load(tmp_path / "bandit.tvb")
    for one, other in zip(bandit.predict(SITES, 3), loaded.predict(SITES, 3), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(bandit.ask(3), loaded.ask(3))


def test_list_readings_matches_columns_of_arms_by_name() -> None:
    arms = Arms(["a", "b", "c"])
    frame = pd.DataFrame({"c": [1.0], "a": [2.0], "b": [np.nan]}, [-4])
    X, y, t = list_readings(arms, *parse_history(arms, frame))
    np.testing.assert_array_equal(X, arms.X[[0, 2]])
    np.testing.assert_array_equal(y, [2.0, 1.0])
    np.testing.assert_array_equal(t, [-4.0, -4.0])


def test_list_readings_of_an_array_ends_at_time_zero() -> None:
    sites = Candidates(SITES[:2])
    _, y, t = list_readings(sites, *parse_history(sites, [[1.0, 2.0], [3.0, np.nan]]))
    np.testing.assert_array_equal(y, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(t, [-1.0, -1.0, 0.0])


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (np.zeros((3, 5)), r"a column for each of 6 candidates, got shape \(3, 5\)"),
        (np.zeros(6), r"got shape \(6,\)"),
        (np.full((2, 6), np.nan), "at least one reading"),
        (pd.DataFrame(np.zeros((2, 6)), index=[1.0, 1.0]), "increase, got 1 after 1 in row 1"),
        (pd.DataFrame(np.zeros((1, 6)), index=pd.to_datetime(["2024-01-01"])), "times as numbers.*2024"),
        (pd.DataFrame([["x"] * 6]), "history must be numeric|numbers"),
        (np.full((2, 6), np.inf), "inf"),
        ("r.csv", "a table in memory, .*'r.csv': .*sensor_field.* reads files"),
        (Path("r.csv"), "a table in memory, .*r.csv.*sensor_field"),
    ],
)  # fmt: skip
def test_history_is_refused_if_it_does_not_fit(history: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        policies.adaptive_gp_ucb(Candidates(SITES), noise_variance=0.01, history=history)  # type: ignore[arg-type]


def test_history_is_refused_on_a_box() -> None:
    with pytest.raises(ValueError, match="needs a finite domain"):
        policies.adaptive_gp_ucb(Box([(0.0, 1.0)]), history=[[1.0]])


def test_history_accepts_the_table_of_a_sensor_field(tmp_path: Path) -> None:
    readings, sites = tmp_path / "readings.csv", tmp_path / "sites.csv"
    readings.write_text("time,a,b\n0,1.0,2.0\n1,2.0,2.5\n2,1.5,2.0\n")
    sites.write_text("id,x,y\na,0,0\nb,1,0\n")
    problem = sensor_field(readings, sites, noise_variance=0.01)
    bandit = policies.adaptive_gp_ucb(problem.domain, noise_variance=0.01, history=problem.values)
    assert bandit.predict(problem.points, 1)[0].shape == (2,)


@pytest.mark.parametrize("change", ["none", "cycle", "slow walk", "gaps"])
def test_bound_table_noise_is_just_above_the_true_noise(change: str) -> None:
    rng, times = np.random.default_rng(0), np.arange(300.0)
    table = 0.5 * rng.standard_normal((300, 12)) + rng.normal(0.0, 9.0, 12)
    if change == "cycle":
        table += 8.0 * np.sin(2.0 * np.pi * times[:, None] / 24.0 + rng.uniform(0.0, 6.0, 12))
    if change == "slow walk":
        table += 0.1 * rng.standard_normal((300, 12)).cumsum(axis=0)
    if change == "gaps":
        table[rng.random(table.shape) < 0.2] = np.nan
    assert 0.23 < bound_table_noise(table, 60.0 * times) < 0.32


def test_bound_table_noise_uses_differences_of_successive_steps_alone() -> None:
    rng, times = np.random.default_rng(1), np.arange(40.0)
    walk = rng.standard_normal((40, 3)).cumsum(axis=0)
    times[20:] += 7.0
    jump = walk + 100.0 * (np.arange(40) >= 20)[:, None]
    bound = bound_table_noise(walk, times)
    assert bound_table_noise(jump, times) == pytest.approx(bound, rel=1e-9)
    assert bound < 3.0
    assert bound_table_noise(walk[:12], times[:12]) == np.inf
    assert bound_table_noise(walk, times**2) == np.inf
    assert bound_table_noise(walk, 1e-9 * times**2) == np.inf
    assert bound_table_noise(walk[:1], times[:1]) == np.inf


def test_table_evidence_matches_dense_algebra() -> None:
    rng = np.random.default_rng(3)
    times = np.array([0.0, 2.0, 4.0, 10.0, 12.0, 14.0])
    above = rng.standard_normal((6, 2))
    above[[1, 4], 0] = np.nan
    sizes, noises = np.array([[0.5, 2.0], [1.0, 3.0]]), np.array([0.01, 0.4])
    evidence = table_evidence(above, times, sizes, noises)
    lags = np.abs(times[:, None] - times) / 2.0
    memories = np.geomspace(*CONFIG.memories)
    rough = [np.exp(-lags / memory) for memory in memories]
    smooth = [(1.0 + lags / memory) * np.exp(-lags / memory) for memory in memories]
    for correlation, row in zip(rough + smooth, evidence, strict=True):
        for noise, value in zip(noises, row, strict=True):
            expected = 0.0
            for values, of_place in zip(above.T, sizes, strict=True):
                read = np.isfinite(values)
                process = correlation[np.ix_(read, read)]
                densities = []
                for size in of_place:
                    normal = multivariate_normal(cov=size * process + noise * np.eye(read.sum()))
                    densities.append(
                        normal.logpdf(values[read]) + 0.5 * read.sum() * np.log(2 * np.pi)
                    )
                expected += np.logaddexp.reduce(densities)
            assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("noise", [0.25, 0.01])
@pytest.mark.parametrize("period", [None, 24])
def test_noise_interval_of_history_contains_the_true_noise(
    period: int | None, noise: float
) -> None:
    """The weather lasts ten steps, with a cycle or without; one in three may be just outside."""
    inside = 0
    for seed in range(3):
        rng, times = np.random.default_rng(seed), np.arange(256)
        weather = np.zeros((256, 12))
        for t in times[1:]:
            weather[t] = 0.9 * weather[t - 1] + np.sqrt(0.19) * rng.standard_normal(12)
        table = weather + rng.standard_normal(12) + np.sqrt(noise) * rng.standard_normal((256, 12))
        if period is not None:
            table += 1.5 * np.sin(2.0 * np.pi * times[:, None] / period + rng.uniform(0.0, 2.0, 12))
        domain = Candidates(rng.uniform(0.0, 10.0, (12, 2)))
        bandit = policies.adaptive_gp_ucb(domain, history=table)
        inside += bandit.noise.low < noise < bandit.noise.high
        assert 0.4 * noise < bandit.noise.variance < 3.0 * noise
    assert inside >= 2


def smooth_rewards(times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return four samples (T, 4) of a Gaussian process with a squared exponential kernel of 6 steps."""
    K = np.exp(-0.5 * ((times[:, None] - times) / 6.0) ** 2) + 1e-9 * np.eye(len(times))
    return np.linalg.cholesky(K) @ rng.standard_normal((len(times), 4))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("reward", ["none", "smooth", "irregular", "counts"])
def test_estimate_table_noise_interval_contains_the_noise_of_other_rewards(
    reward: str, unit: float
) -> None:
    rng, times = np.random.default_rng(1), np.arange(200.0)
    if reward == "irregular":
        times = np.sort(rng.choice(600, 200, replace=False)).astype(float)
    table, noise = np.sqrt(0.1) * rng.standard_normal((200, 4)), 0.1
    if reward in ("smooth", "irregular"):
        table += smooth_rewards(times, rng)
    if reward == "counts":  # more than half of them are 0
        table = rng.poisson(0.3, (200, 4)).astype(float)
        noise = table.var()
    estimate = estimate_table_noise(unit * table, times)
    assert estimate is not None
    assert estimate.low < noise * unit**2 < estimate.high


def add_fault(table: np.ndarray, fault: str) -> np.ndarray:
    """Return a table (T, 5) with a fault that gauges have."""
    table = table.copy()
    if fault == "dead":
        table[:, :4] = 3.0
    if fault == "stuck":
        table[40:, 1] = table[40, 1]
    if fault == "all stuck for a time":
        table[50:180] = table[50]
    if fault == "read too often":
        table = table[np.arange(len(table)) // 3 * 3]
    if fault == "ended long ago":
        table = np.concatenate([table, table[::-1]])
        table[100:, 0] = np.nan
    return table


@pytest.mark.parametrize(
    "fault", ["dead", "stuck", "all stuck for a time", "read too often", "ended long ago"]
)
def test_estimate_table_noise_ignores_stuck_gauges(fault: str) -> None:
    rng = np.random.default_rng(2)
    table = 0.2 * rng.standard_normal((240, 5)).cumsum(axis=0)
    table = add_fault(table + 0.3 * rng.standard_normal(table.shape), fault)
    estimate = estimate_table_noise(mask_stuck_readings(table), np.arange(float(len(table))))
    assert estimate is not None
    assert estimate.low < 0.09 < estimate.high
    assert 0.03 < estimate.variance < 0.2


def test_mask_stuck_readings_keeps_values_that_come_back() -> None:
    table = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 2.0], [0.0, np.nan], [0.0, 2.0], [4.0, 5.0]])
    result = mask_stuck_readings(table)
    np.testing.assert_array_equal(result[:, 0], table[:, 0])
    np.testing.assert_array_equal(result[:, 1], [1.0, 2.0, np.nan, np.nan, np.nan, 5.0])


def test_estimate_table_noise_is_none_for_few_readings_per_place() -> None:
    table = np.full((600, 300), np.nan)
    table[np.arange(600), np.arange(600) % 300] = np.random.default_rng(0).standard_normal(600)
    assert estimate_table_noise(table, np.arange(600.0)) is None


def test_estimate_table_noise_is_an_interval_if_differences_contradict_the_process() -> None:
    """Spikes are noise for the process, and hardly change the median of the differences."""
    rng = np.random.default_rng(0)
    table = 0.3 * rng.standard_normal((300, 4))
    table[rng.random(table.shape) < 0.02] += 20.0
    estimate = estimate_table_noise(table, np.arange(300.0))
    assert estimate is not None
    assert estimate.low < estimate.variance <= estimate.high < 0.3


@pytest.mark.parametrize("shape", [(15, 1), (100, 1), (20, 4), (100, 4), (100, 20)])
def test_bound_table_noise_exceeds_the_noise_of_nearly_all_tables(shape: tuple[int, int]) -> None:
    bounds = [
        bound_table_noise(
            np.random.default_rng(seed).standard_normal(shape), np.arange(float(shape[0]))
        )
        for seed in range(200)
    ]
    assert np.mean(np.array(bounds) < 1.0) < 0.08


def test_estimate_table_noise_is_none_for_a_short_or_constant_table() -> None:
    table = np.random.default_rng(0).standard_normal((40, 3))
    assert estimate_table_noise(table[:11], np.arange(11.0)) is None
    assert estimate_table_noise(np.ones((40, 3)), np.arange(40.0)) is None
    table[:, 1], table[5:, 2] = np.nan, np.nan
    estimate = estimate_table_noise(table, np.arange(40.0))
    assert estimate is not None
    assert estimate.readings == 45


@pytest.mark.parametrize("policy", POLICIES)
def test_noise_of_history_excludes_a_daily_change(policy: str) -> None:
    """The sun reaches the places one after the other, and light is read without noise."""
    rng, hours = np.random.default_rng(0), np.arange(24.0 * 12)[:, None]
    sunrise, height = rng.uniform(6.0, 9.0, 12), rng.uniform(100.0, 400.0, 12)
    table = height / (1.0 + np.exp(-3.0 * (hours % 24.0 - sunrise)))
    table *= (hours % 24.0) < 18.0
    table += 5.0 + 0.1 * rng.standard_normal(table.shape)
    table = table[: 24 * 11 + 9]  # the latest readings are those of a morning
    bandit = POLICIES[policy](Candidates(rng.uniform(0.0, 30.0, (12, 2))), history=table)
    assert bandit.noise.variance < 1e-3 * table.var()
