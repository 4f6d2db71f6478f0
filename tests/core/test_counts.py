"""Clicks and counts as rewards: unbiased together, and honest where nothing or everything succeeded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom, poisson
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates, count, policies, rate

pairs = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 1000)).map(sorted), min_size=1, max_size=20
)


@given(pairs)
def test_rates_weighted_by_their_variances_are_the_rate_of_all(drawn: list[list[int]]) -> None:
    k, n = np.array(drawn, dtype=float).T
    made = rate(k, n)
    np.testing.assert_allclose(
        np.average(made.values, weights=1 / made.variance), k.sum() / n.sum()
    )
    calls = count(k, n)
    weighted = np.average(calls.values, weights=1 / calls.variance)
    np.testing.assert_allclose(weighted, k.sum() / n.sum())


@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("p", [0.005, 0.02, 0.1, 0.5, 0.98, 0.995])
def test_two_deviations_hold_the_rate(n: int, p: float) -> None:
    """Enumerated: at least 93% of what is drawn; with the share itself as p it is 14% to 95%."""
    k = np.arange(n + 1)
    made = [rate(each, n) for each in k]
    off = np.abs(np.concatenate([each.values for each in made]) - p)
    holds = off <= 2 * np.sqrt(np.concatenate([each.variance for each in made]))
    assert binom.pmf(k, n, p)[holds].sum() >= 0.93


@pytest.mark.parametrize("expected", [0.05, 0.5, 2.0, 20.0])
def test_two_deviations_hold_the_expected_count(expected: float) -> None:
    k = np.arange(200)
    holds = [abs(made.values[0] - expected) <= 2 * made.variance[0] ** 0.5
             for made in (count(each, 1.0) for each in k)]  # fmt: skip
    assert poisson.pmf(k, expected)[holds].sum() >= 0.93


def test_few_successes_are_counted_alike_by_both() -> None:
    k, n = np.array([3.0, 8.0]), np.array([1e6, 2e6])
    np.testing.assert_allclose(rate(k, n).variance, count(k, n).variance, rtol=1e-5)


def test_what_is_known_of_the_rate_is_the_variance_of_a_visit() -> None:
    visits = rate([0, 1], 1, around=0.02)
    assert visits.values.tolist() == [0.0, 1.0]
    np.testing.assert_allclose(visits.variance, 0.02 * 0.98)
    np.testing.assert_allclose(count(3, 2.0, around=1.5).variance, 0.75)


def test_no_trials_are_no_reading() -> None:
    made = rate([0, np.nan, 4], [0, 10, 10])
    np.testing.assert_array_equal(made.values, [np.nan, np.nan, 0.4])
    np.testing.assert_allclose(made.variance[2], 6 / 14 * 8 / 14 / 10)
    assert np.isnan(count(0, 0).values).all()
    assert (rate(0, 0).variance > 0).all()


def test_a_bandit_is_told_counts() -> None:
    sites, clicks = Candidates([[0.0], [1.0], [2.0]]), rate([0, 3, 0], [100, 50, 0])
    for make in (policies.gp_ucb, policies.bkb):
        told, plain = (make(sites, RBF(1.0), 0.01) for _ in range(2))
        told.tell(sites.X, clicks, 1)
        plain.tell(sites.X, clicks.values, 1, clicks.variance)
        assert told.history.equals(plain.history)
    bandit = policies.gp_ucb(sites, RBF(1.0), 0.01)
    bandit.tell(sites.X[:2], [0.0, 0.0], 1)
    bandit.correct(sites.X[:2], rate([0, 3], [100, 50]), 1)
    np.testing.assert_array_equal(bandit.state.rewards.y, clicks.values[:2])
    np.testing.assert_array_equal(bandit.state.rewards.variance, clicks.variance[:2])
    greedy = policies.eps_greedy(sites)
    greedy.tell(sites.X, clicks, 1)
    assert greedy.info.failed == 1


def test_what_is_wrong_is_named() -> None:
    for k, n, said in (
        ([1, 5], [9, 4], r"successes must be no more than trials, got 5.0 at position 1"),
        ([-1], [4], "successes must be finite and not negative, got -1.0"),
        ([1], [np.inf], "trials must be finite and not negative, got inf"),
        ([1, 2], [4, 5, 6], "successes and trials must be of one length, got 2 and 3"),
        ([[1]], [4], r"successes must have shape \(n,\), got \(1, 1\)"),
    ):
        with pytest.raises(ValueError, match=said):
            rate(k, n)
    with pytest.raises(ValueError, match=r"there are no events without exposure, got 2\.0"):
        count(2, 0)
    for around in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="around must be above 0 and below 1, got"):
            rate(1, 2, around=around)
    with pytest.raises(ValueError, match=r"around must be a number or have shape \(1,\)"):
        count(1, 2, around=[1.0, 2.0])
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
    with pytest.raises(ValueError, match=r"that were counted have a variance; got 0\.1 as well"):
        bandit.tell([[0.0]], rate(1, 2), 1, 0.1)
    with pytest.raises(ValueError, match=r"y must have shape \(2,\), got \(1,\)"):
        bandit.tell([[0.0], [1.0]], rate(1, 2), 1)
    assert bandit.info.told == 0
