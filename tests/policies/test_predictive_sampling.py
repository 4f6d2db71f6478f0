"""Predictive sampling: its filter and its samples against dense algebra."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import FINITE_RULES, setting
from tests.helpers.refusals import assert_refused
from tests.oracles.plain_rivals import drift_posterior, variance_explained_by_future
from tvbandits import Box, Candidates, policies
from tvbandits.gp.kernel_matrix import eigen_features
from tvbandits.policies import POLICIES
from tvbandits.policies.rivals.predictive import ArmFilter, future_variance, sample_covariance

LINE = Candidates(np.linspace(0, 1, 12)[:, None])
K = RBF(0.2)(LINE.X)
ROWS, TIMES = [3, 7, 3, 11, 0], [1.0, 2.0, 4.5, 5.0, 9.0]
VALUES = [0.3, -1.0, 0.6, 2.0, 0.1]


def marginals(arm_filter: ArmFilter, centre: float) -> tuple[Any, Any]:
    """Return mean and deviation of every candidate."""
    variance = np.einsum(
        "ar,rs,as->a", arm_filter.features, arm_filter.covariance, arm_filter.features
    )
    return centre + arm_filter.features @ arm_filter.centred_mean(centre), np.sqrt(
        np.maximum(variance, 0.0)
    )


def test_arm_filter_matches_the_dense_posterior() -> None:
    arm_filter = ArmFilter.prior(eigen_features(RBF(0.2), LINE.X)[0], 0.05)
    for row, t, y in zip(ROWS, TIMES, VALUES, strict=True):
        arm_filter = arm_filter.at(t).update(row, y, 0.1)
    mean, deviation = marginals(arm_filter.at(12.0), 0.5)
    centred_values = [y - 0.5 for y in VALUES]
    expected, covariance = drift_posterior(K, 0.05, ROWS, TIMES, centred_values, 0.1, 12.0)
    np.testing.assert_allclose(mean - 0.5, expected, atol=1e-7)
    np.testing.assert_allclose(deviation**2, np.diag(covariance), atol=1e-7)


@pytest.mark.parametrize("noise", [1e-50, 1e-30])
def test_arm_filter_is_exact_under_tiny_noise(noise: float) -> None:
    arm_filter = ArmFilter.prior(eigen_features(RBF(5.0), LINE.X)[0], 0.0)
    for row in [*ROWS, *range(12)] * 3:
        arm_filter = arm_filter.update(row, 1e50, noise)
    mean, deviation = marginals(arm_filter, 0.0)
    np.testing.assert_allclose(mean, 1e50, rtol=1e-3)
    assert (deviation < 1e-3).all()


def shares_of_asks(player: Any, asks: int) -> Any:
    """Return the frequency of each point in repeated asks, each followed by `drop`."""
    shares = np.zeros(12)
    for _ in range(asks):
        x = player.ask(10.0)
        player.drop(x)
        shares[LINE.index(x)[0]] += 1 / asks
    return shares


@pytest.mark.parametrize(
    ("gamma", "noise", "V"), [(0.9, 0.5, 0.4), (0.6, 0.1, 1.0), (0.97, 2.0, 0.8)]
)
def test_sample_covariance_is_the_variance_explained_by_future_rewards(
    gamma: float, noise: float, V: float
) -> None:
    x = future_variance(gamma, np.array([noise]))
    variance = sample_covariance(np.array([[V]]), gamma, x)[0, 0]
    assert variance == pytest.approx(gamma**2 * V**2 / (gamma**2 * V + x[0]))
    assert variance == pytest.approx(variance_explained_by_future(V, gamma, noise, 60), rel=1e-3)


def test_predictive_sampling_plays_the_best_point_of_a_sample() -> None:
    player: Any = policies.predictive_sampling(
        LINE, kernel=RBF(0.2), noise_variance=0.1, forgetting_rate=0.1, mean=0.0, seed=2
    )
    for row, t, y in zip(ROWS, TIMES, VALUES, strict=True):
        player.tell(LINE.X[[row]], [y], t)
    # In the model, every candidate is read in all later steps, with this noise.
    mean, P = drift_posterior(K, 0.1, ROWS, TIMES, VALUES, 0.1, 10.0)
    gamma2 = 0.9
    values, U = np.linalg.eigh(K)
    b = (1 - gamma2) + (1 - gamma2) * 0.1 / values
    x_ = values * 0.5 * (b + np.sqrt(b**2 + 4 * gamma2 * (1 - gamma2) * 0.1 / values))
    covariance = gamma2 * P @ np.linalg.solve(gamma2 * P + U @ np.diag(x_) @ U.T, P)
    covariance = (covariance + covariance.T) / 2
    draws = np.random.default_rng(3).multivariate_normal(mean, covariance, 20_000, method="eigh")
    expected = np.bincount(draws.argmax(axis=1), minlength=12) / 20_000
    np.testing.assert_allclose(shares_of_asks(player, 3000), expected, atol=0.03)


# --- domains ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FINITE_RULES)
def test_finite_policies_refuse_boxes(name: str) -> None:
    assert_refused(ValueError, "needs a finite domain", POLICIES[name].make, setting(Box([[0, 1]])))
