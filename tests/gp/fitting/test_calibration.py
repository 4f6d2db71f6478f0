from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tvbandits.gp.fitting.calibration import FADING, LARGEST, PRIOR_COUNT, IntervalCalibration

modest = settings(deadline=None, max_examples=40)
ERRORS = st.lists(st.tuples(st.floats(-20, 20), st.floats(0.01, 10)), max_size=30)


@modest
@given(ERRORS)
def test_it_is_the_faded_mean_square_with_a_prior_count(told: list[tuple[float, float]]) -> None:
    known = IntervalCalibration()
    for error, variance in told:
        known = known.after(error, variance)
    z = np.array([error / math.sqrt(variance) for error, variance in reversed(told)])
    weights = (1 - FADING) ** np.arange(len(z))
    mean = (PRIOR_COUNT + weights @ np.minimum(z**2, LARGEST)) / (PRIOR_COUNT + weights.sum())
    assert known.widening == pytest.approx(math.sqrt(max(mean, 1.0)), rel=1e-12)


def test_errors_as_large_as_expected_change_nothing() -> None:
    known = IntervalCalibration()
    for sign in (1.0, -1.0) * 50:
        known = known.after(2.0 * sign, 4.0)
        assert known.widening == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_deviations_that_are_too_small_by_a_factor_are_widened_by_it(factor: float) -> None:
    rng, known, found = np.random.default_rng(0), IntervalCalibration(), []
    for error in factor * rng.standard_normal(4000):
        known = known.after(error, 1.0)
        found.append(known.widening)
    # An innovation of three deviations too many is cut at five: the mean of a cut square is lower.
    cut = np.minimum((factor * rng.standard_normal(10**6)) ** 2, LARGEST).mean()
    assert np.mean(found[500:]) == pytest.approx(math.sqrt(cut), rel=0.05)


def test_one_outlier_is_no_bad_model() -> None:
    known = IntervalCalibration()
    for error in np.resize([1.0, -1.0], 60):
        known = known.after(error, 1.0)
    assert known.after(1e6, 1.0).widening < 1.35


def test_it_says_how_many_intervals_held() -> None:
    known, held = IntervalCalibration(), []
    assert math.isnan(known.coverage)
    for error in np.random.default_rng(0).standard_normal(3000):
        known = known.after(error, 1.0)
        held.append(known.coverage)
    # A deviation that is widened by chance holds a little more than it should.
    assert 0.94 < np.mean(held) < 0.99
    for _ in range(200):
        known = known.after(100.0, 1.0)
    assert known.coverage < 0.05
