"""What ties for the largest score, and that rounding does not choose among it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Box, Candidates, policies
from tvbandits.domains.candidates import CandidatesInContext
from tvbandits.ties import acquisition_argmax, find_tied_rows, first_argmax, random_argmax
from tvbandits.validation import Array

seeds = st.integers(0, 10_000)
modest = settings(max_examples=60, deadline=None)


def shaken(values: Array, seed: int, noise: float = 1e-13) -> Array:
    """The same numbers with other last bits."""
    return np.asarray(
        values * (1.0 + noise * np.random.default_rng(seed).uniform(-1, 1, len(values)))
    )


# --- what ties ---------------------------------------------------------------------------------------


@modest
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8), st.floats(1e-6, 1e6), seeds)
def test_find_tied_rows_returns_all_rows_of_the_largest_level(
    levels: list[int], unit: float, seed: int
) -> None:
    scores = unit * np.array(levels, dtype=float)
    expected = [row for row, level in enumerate(levels) if level == max(levels)]
    assert find_tied_rows(scores).tolist() == expected
    assert find_tied_rows(shaken(scores, seed)).tolist() == expected
    assert first_argmax(shaken(scores, seed)) == expected[0]


@pytest.mark.parametrize("offset", [0.0, 1e5, -1e5])
def test_find_tied_rows_ignores_an_offset_of_all_scores(offset: float) -> None:
    assert find_tied_rows(offset + np.array([0.0, 1.0, 1.0 + 1e-4])).tolist() == [2]
    assert find_tied_rows(shaken(np.full(5, offset), 0)).tolist() == [0, 1, 2, 3, 4]


def test_find_tied_rows_ignores_a_very_low_score() -> None:
    assert find_tied_rows([1.0, 1.0 + 1e-6, -1e12]).tolist() == [1]
    assert find_tied_rows([1.0, 1.0 + 1e-6, -np.inf]).tolist() == [1]


def test_find_tied_rows_ties_equal_infinite_scores() -> None:
    assert find_tied_rows([np.inf, 1.0, np.inf]).tolist() == [0, 2]
    assert find_tied_rows([-np.inf, -np.inf]).tolist() == [0, 1]
    assert find_tied_rows([-np.inf, 0.0]).tolist() == [1]


def test_first_argmax_ties_more_scores_with_a_larger_share() -> None:
    variances = np.array([0.0, 2.0 - 1e-8, 1.0, 2.0])
    assert first_argmax(variances) == 3
    assert first_argmax(variances, 1e-8) == 1


def test_random_argmax_is_independent_of_the_last_bits() -> None:
    scores = np.repeat([1.0, 0.5], 5)
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    for seed in range(50):
        assert random_argmax(scores, one) == random_argmax(shaken(scores, seed), other)
    assert one.random() == other.random()


def test_random_argmax_draws_nothing_without_ties() -> None:
    rng = np.random.default_rng(2)
    assert random_argmax([0.0, 1.0, 0.5], rng) == 1
    assert rng.random() == np.random.default_rng(2).random()


def test_acquisition_argmax_refuses_nan() -> None:
    X = np.arange(2.0)[:, None]
    message = r"acquisition is NaN at the point \[1.0\] \(row 1\)"
    assert_refused(
        ValueError, message, acquisition_argmax, [0.0, np.nan], X, np.random.default_rng()
    )


# --- what is chosen ----------------------------------------------------------------------------------

LINE = Candidates(np.linspace(-1, 1, 41)[:, None])


@pytest.mark.parametrize(
    "domain",
    [LINE, CandidatesInContext(LINE, {"outside": (0, 1)}), Box([(-1, 1)])],
    ids=["candidates", "candidates in a context", "a plateau of a box"],
)
def test_domains_maximize_is_independent_of_the_last_bits(domain: Any) -> None:
    def level(X: Array) -> Array:
        return (
            np.full(len(X), 3.0) if isinstance(domain, Box) else 3.0 - np.abs(np.abs(X[:, 0]) - 0.5)
        )

    for seed in range(20):
        one, _ = domain.maximize(level, np.random.default_rng(seed))
        other, _ = domain.maximize(lambda X: shaken(level(X), 7), np.random.default_rng(seed))
        np.testing.assert_array_equal(one, other)


# With options, where it needs any.
POLICIES: dict[str, dict[str, Any]] = {
    "gp_ucb": {},
    "sw_gp_ucb": {"window": 12},
    "r_gp_ucb": {"reset_every": 9},
    "w_gp_ucb": {"discount": 0.9},
    "tv_gp_ucb": {"forgetting_rate": 0.03},
    "bkb": {},
    "eps_greedy": {"decay": 4.0},
}


def plays(policy: str, monkeypatch: pytest.MonkeyPatch, noise: float) -> list[float]:
    """Forty plays on a hill that is the same mirrored; scores have other last bits at each step."""
    count = iter(range(10_000))

    def with_noise(scores: Array, share: float = 1e-9) -> Any:
        return find_tied_rows(shaken(np.asarray(scores, dtype=float), next(count), noise), share)

    monkeypatch.setattr("tvbandits.ties.find_tied_rows", with_noise)
    parts: dict[str, Any] = (
        {} if policy == "eps_greedy" else {"kernel": RBF(0.3), "noise_variance": 0.01}
    )
    bandit = getattr(policies, policy)(LINE, **parts, **POLICIES[policy])
    played: list[float] = []
    for t in range(1, 41):
        X = bandit.ask(t)
        bandit.tell(X, np.rint(4 * np.cos(3 * X[:, 0])) / 4, t)  # equal levels, so that means tie
        played.extend(X[:, 0].tolist())
    return played


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_play_the_same_whatever_the_last_bits_of_scores(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plays(policy, monkeypatch, 1e-13) == plays(policy, monkeypatch, 0.0)
