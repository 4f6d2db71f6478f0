"""Periods of a series: against a regression stated plainly, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import f as f_distribution, norm

from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble import seasons


def weather(n: int, keeps: float, rng: np.random.Generator) -> Array:
    return np.asarray(lfilter([1.0], [1.0, -keeps], rng.standard_normal(n + 200))[200:])


def by_least_squares(series: Array, period: float) -> float:
    """The same chance by two regressions: with and without the harmonics."""
    harmonics = min(3, math.ceil(period / 2) - 1)
    rows = [t for t in range(3, len(series)) if np.isfinite(series[t - 3 : t + 1]).all()]
    y = series[rows]
    columns = [np.ones(len(rows)), *([series[t - k] for t in rows] for k in (1, 2, 3))]
    waves = [
        wave(2 * np.pi * j * np.array(rows) / period)
        for j in range(1, harmonics + 1)
        for wave in (np.cos, np.sin)
    ]
    without, beside = np.column_stack(columns), np.column_stack(columns + waves)
    left = [
        float(np.sum((y - M @ np.linalg.lstsq(M, y, rcond=None)[0]) ** 2))
        for M in (without, beside)
    ]
    one, other = 2 * harmonics, len(rows) - beside.shape[1]
    return float(f_distribution.logsf((left[0] - left[1]) / one / (left[1] / other), one, other))


@pytest.mark.parametrize("missing", [0.0, 0.05])
@pytest.mark.parametrize("period", [4.0, 5.5, 7.0, 24.0, 31.3])
def test_it_is_the_f_test_of_two_regressions(period: float, missing: float) -> None:
    rng = np.random.default_rng(3)
    series = 5.0 + weather(120, 0.8, rng) + np.cos(2 * np.pi * np.arange(120) / 7.0)
    series[rng.random(120) < missing] = np.nan
    (found,) = seasons.log_chances(series, np.array([period]))
    assert found == pytest.approx(by_least_squares(series, period), rel=1e-5)


@pytest.mark.parametrize("period", [7.0, 12.5, 24.0, 48.0])
@pytest.mark.parametrize("sharp", [False, True])
def test_a_day_under_weather_is_found(period: float, sharp: bool) -> None:
    """A pure wave of a few periods may be taken for twice itself, and its course is right then, too."""
    found, t = [], np.arange(200)
    wave = np.cos(2 * np.pi * t / period)
    day = np.exp(3.0 * wave) / 3.0 if sharp else 4.0 * wave
    for seed in range(5):
        series = weather(200, 0.7, np.random.default_rng(seed)) + day
        each = seasons.period_in(series)
        assert each is not None
        found.append(each)
    close = [abs(each - period) <= 0.3 * period**2 / 200 for each in found]
    assert sum(close) >= (5 if sharp else 4)


@pytest.mark.parametrize("keeps", [0.0, 0.6, 0.95, 0.999])
def test_weather_has_none(keeps: float) -> None:
    found = [
        seasons.period_in(weather(n, keeps, np.random.default_rng([seed, n])))
        for seed in range(25)
        for n in (48, 96, 192)
    ]
    assert sum(each is not None for each in found) <= 1


def test_one_that_is_known_stays_until_the_series_speaks_against_it() -> None:
    t, rng = np.arange(240), np.random.default_rng(1)
    noise = weather(240, 0.5, rng)
    day = 0.9 * np.cos(2 * np.pi * t / 24.0)
    # What would not be enough to be found is enough to stay.
    short = (0.5 * day + noise)[:96]
    assert seasons.period_in(short) is None
    assert seasons.period_in(short, 24.0) == 24.0
    assert seasons.period_in(noise, 24.0) is None
    # And another that is far likelier takes its place.
    for known in (31.0, 25.0):
        assert seasons.period_in(3.0 * day + noise, known) == 24.0


@pytest.mark.parametrize(
    "series",
    [
        np.zeros(0),
        np.ones(3),
        np.ones(100),
        np.arange(100.0),
        np.full(100, np.nan),
        np.where(np.arange(100) % 2 == 0, np.nan, 1.0),
    ],
    ids=["empty", "three", "constant", "line", "nothing read", "every second"],
)
def test_where_nothing_can_be_said_nothing_is(series: Array) -> None:
    assert seasons.period_in(series) is None


def test_the_course_is_a_least_squares_fit_of_steps_and_places() -> None:
    rng = np.random.default_rng(4)
    steps = np.sort(rng.integers(0, 12, 60))
    steps[steps == 5] = 6
    places = rng.integers(0, 4, 60)
    values = 10.0 + rng.standard_normal(12)[steps] + rng.standard_normal(4)[places]
    course = seasons.course(steps, places, values)
    seen = np.unique(steps)
    S = (steps[:, None] == seen).astype(float)
    P = (places[:, None] == np.arange(4)).astype(float)
    # One reading of 0 more at each place.
    left = np.block([[S, P], [np.zeros((4, len(seen))), np.eye(4)]])
    right = np.concatenate([values - values.mean(), np.zeros(4)])
    fitted = np.linalg.lstsq(left, right, rcond=None)[0]
    apart = course[seen] - fitted[: len(seen)]
    # Up to what the last sweep leaves.
    np.testing.assert_allclose(apart, apart.mean(), atol=1e-3)
    assert np.isnan(course[5])


def test_ranks_keep_the_order_and_are_normal() -> None:
    series = np.array([3.0, np.nan, -1e9, 7.0, 4.0])
    ranks = seasons.in_ranks(series)
    assert np.isnan(ranks[1])
    np.testing.assert_allclose(ranks[[2, 0, 4, 3]], norm.ppf([0.125, 0.375, 0.625, 0.875]))
