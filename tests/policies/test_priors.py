"""Filters of several priors against dense algebra; elimination and drawing restated."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import FINITE_RULES, setting
from tests.helpers.refusals import refused
from tests.oracles.plain_rivals import drift_posterior, known_by_the_future, log_evidence
from tvbandits import Box, Candidates, policies
from tvbandits.policies import POLICIES
from tvbandits.policies.priors import (
    ArmFilter,
    drawn_covariance,
    features_of,
    future_variance,
    log_density,
)
from tvbandits.policies.ruled import numbers_in

LINE = Candidates(np.linspace(0, 1, 12)[:, None])
K = RBF(0.2)(LINE.X)
ROWS, TIMES = [3, 7, 3, 11, 0], [1.0, 2.0, 4.5, 5.0, 9.0]
VALUES = [0.3, -1.0, 0.6, 2.0, 0.1]


def test_the_filter_is_the_dense_posterior() -> None:
    found = ArmFilter.prior(features_of(RBF(0.2), LINE.X)[0], 0.05)
    evidence = 0.0
    for row, t, y in zip(ROWS, TIMES, VALUES, strict=True):
        found = found.at(t)
        mean, variance = found.moments(row, 0.5)
        evidence += log_density(y - mean, variance + 0.1)
        found = found.observed(row, y, 0.1)
    mean, deviation = found.at(12.0).surface(0.5)
    less = [y - 0.5 for y in VALUES]
    expected, covariance = drift_posterior(K, 0.05, ROWS, TIMES, less, 0.1, 12.0)
    np.testing.assert_allclose(mean - 0.5, expected, atol=1e-7)
    np.testing.assert_allclose(deviation**2, np.diag(covariance), atol=1e-7)
    assert evidence == pytest.approx(log_evidence(K, 0.05, ROWS, TIMES, less, 0.1), abs=1e-5)


@pytest.mark.parametrize("noise", [1e-50, 1e-30])
def test_a_filter_lasts_without_noise_to_speak_of(noise: float) -> None:
    found = ArmFilter.prior(features_of(RBF(5.0), LINE.X)[0], 0.0)
    for row in [*ROWS, *range(12)] * 3:
        found = found.observed(row, 1e50, noise)
    mean, deviation = found.surface(0.0)
    np.testing.assert_allclose(mean, 1e50, rtol=1e-3)
    assert (deviation < 1e-3).all()


def plain_world(t: float) -> Any:
    return 2 * np.sin(6 * LINE.X[:, 0] + 0.3 * t)


def test_elimination_is_that_of_the_pseudo_code() -> None:
    lengths, rates, width, noise, delta = (0.2, 1.0, 5.0), (0.001, 0.2), 1.5, 0.04, 0.1
    player: Any = policies.pe_gp_ucb(
        LINE,
        kernel=RBF(0.2),
        noise_variance=noise,
        lengths="0.2 1 5",
        rates="0.001 0.2",
        confidence=width,
        mean=0.0,
    )
    priors = [(RBF(0.2)(LINE.X / a), r) for a in lengths for r in rates]
    left, sums = list(range(6)), [[0.0, 0.0, 0] for _ in range(6)]
    rows: list[int] = []
    times: list[float] = []
    values: list[float] = []
    rng = np.random.default_rng(0)
    for t in range(1, 41):
        x = player.ask(float(t))
        row = int(LINE.index(x)[0])
        bounds, moments = {}, {}
        for p in left:
            mean, covariance = drift_posterior(*priors[p], rows, times, values, noise, t)
            deviation = np.sqrt(np.diag(covariance).clip(0))
            bounds[p] = np.round(mean + width * deviation, 6)  # or rounding would choose
            moments[p] = mean[row], deviation[row]
        chosen = max(left, key=lambda p: bounds[p].max())
        assert bounds[chosen][row] == pytest.approx(bounds[chosen].max(), abs=1e-5)
        y = float(plain_world(t)[row] + 0.2 * rng.standard_normal())
        player.tell(x, [y], float(t))
        sums[chosen][0] += y - moments[chosen][0]
        sums[chosen][1] += width * moments[chosen][1]
        sums[chosen][2] += 1
        error, allowance, rounds = sums[chosen]
        logarithm = math.log(math.pi**2 * t**2 * 6 / (3 * delta))
        if abs(error) > math.sqrt(2 * noise * rounds * logarithm) + allowance and len(left) > 1:
            left.remove(chosen)
        assert player.rule.left == left
        charged = [(m.errors, m.allowance, m.rounds) for m in player.rule.members]
        np.testing.assert_allclose(charged, sums, atol=1e-5)
        rows, times, values = [*rows, row], [*times, float(t)], [*values, y]
    assert 1 <= len(left) < 6


def shares_of_asks(player: Any, asks: int) -> Any:
    """How often each point would be played, without leaving one out."""
    played = np.zeros(12)
    for _ in range(asks):
        x = player.ask(10.0)
        player.drop(x)
        played[LINE.index(x)[0]] += 1 / asks
    return played


def test_priors_are_weighted_by_their_evidence() -> None:
    player: Any = policies.hp_gp_ts(
        LINE,
        kernel=RBF(0.2),
        noise_variance=0.1,
        lengths="0.5 1",
        rates="0.01 0.3",
        mean=0.0,
        seed=1,
    )
    for row, t, y in zip(ROWS, TIMES, VALUES, strict=True):
        player.tell(LINE.X[[row]], [y], t)
    pairs = [(a, r) for a in (0.5, 1.0) for r in (0.01, 0.3)]
    logs = np.array(
        [log_evidence(RBF(0.2)(LINE.X / a), r, ROWS, TIMES, VALUES, 0.1) for a, r in pairs]
    )
    shares = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    np.testing.assert_allclose(player.rule.weights(), shares, rtol=1e-4)
    # And points are played as often as they are best in draws.
    rng, expected = np.random.default_rng(5), np.zeros(12)
    for (a, r), weight in zip(pairs, player.rule.weights(), strict=True):
        kernel = RBF(0.2)(LINE.X / a)
        mean, covariance = drift_posterior(kernel, r, ROWS, TIMES, VALUES, 0.1, 10.0)
        draws = rng.multivariate_normal(mean, covariance, 20_000, method="eigh")
        expected += weight * np.bincount(draws.argmax(axis=1), minlength=12) / 20_000
    np.testing.assert_allclose(shares_of_asks(player, 4000), expected, atol=0.03)


# --- predictive sampling ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gamma", "noise", "V"), [(0.9, 0.5, 0.4), (0.6, 0.1, 1.0), (0.97, 2.0, 0.8)]
)
def test_an_arm_is_drawn_as_its_future_would_tell_it(gamma: float, noise: float, V: float) -> None:
    x = future_variance(gamma, np.array([noise]))
    found = drawn_covariance(np.array([[V]]), gamma, x)[0, 0]
    assert found == pytest.approx(gamma**2 * V**2 / (gamma**2 * V + x[0]))
    assert found == pytest.approx(known_by_the_future(V, gamma, noise, 60), rel=1e-3)


def test_the_best_point_of_a_predictive_draw_is_played() -> None:
    player: Any = policies.predictive_sampling(
        LINE, kernel=RBF(0.2), noise_variance=0.1, epsilon=0.1, mean=0.0, seed=2
    )
    for row, t, y in zip(ROWS, TIMES, VALUES, strict=True):
        player.tell(LINE.X[[row]], [y], t)
    # Over the candidates: each reads its arm in all steps to come, with this noise.
    mean, P = drift_posterior(K, 0.1, ROWS, TIMES, VALUES, 0.1, 10.0)
    gamma2 = 0.9
    values, U = np.linalg.eigh(K)
    b = (1 - gamma2) + (1 - gamma2) * 0.1 / values
    x_ = values * 0.5 * (b + np.sqrt(b**2 + 4 * gamma2 * (1 - gamma2) * 0.1 / values))
    drawn = gamma2 * P @ np.linalg.solve(gamma2 * P + U @ np.diag(x_) @ U.T, P)
    drawn = (drawn + drawn.T) / 2
    draws = np.random.default_rng(3).multivariate_normal(mean, drawn, 20_000, method="eigh")
    expected = np.bincount(draws.argmax(axis=1), minlength=12) / 20_000
    np.testing.assert_allclose(shares_of_asks(player, 3000), expected, atol=0.03)


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FINITE_RULES)
def test_boxes_are_refused(name: str) -> None:
    refused(ValueError, "needs a finite domain", POLICIES[name].make, setting(Box([[0, 1]])))


def test_nonsense_is_refused() -> None:
    for make in (policies.pe_gp_ucb, policies.hp_gp_ts):
        with pytest.raises(ValueError, match="rates must be numbers with spaces"):
            make(LINE, kernel=RBF(), noise_variance=1.0, rates="0.1,0.2")  # type: ignore[operator]
        refused(
            ValueError, "each of lengths", make, LINE, kernel=RBF(), noise_variance=1.0, lengths="0"
        )
    assert numbers_in(" 1 2e-1 ", "x") == [1.0, 0.2]
