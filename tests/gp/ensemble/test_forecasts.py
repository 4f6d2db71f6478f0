"""Power transforms against scipy's, moments against a fine grid, and predictions of skewed rewards."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import lognorm, norm, yeojohnson

from tvbandits.gp.ensemble.forecasts import PowerTransform
from tvbandits.gp.ensemble.mixture import CONFIG, FilterEnsemble
from tvbandits.validation import Array

Y = np.linspace(-9.0, 30.0, 79)
EVERY_POWER = (0.0, 0.5, 1.0, 1.5, 2.0)
EVERYTHING = (-np.inf, np.inf)


@pytest.mark.parametrize("power", EVERY_POWER)
def test_power_transform_is_yeo_johnson(power: float) -> None:
    np.testing.assert_allclose(
        PowerTransform(power, 3.0)(Y), 3.0 * yeojohnson(Y / 3.0, power), atol=1e-12
    )


@pytest.mark.parametrize("power", EVERY_POWER)
def test_inverse_and_slope_match_transform(power: float) -> None:
    transform = PowerTransform(power, 3.0)
    np.testing.assert_allclose(transform.inverse(transform(Y)), Y, atol=1e-9)
    h = 1e-5
    slope = (transform(Y + h) - transform(Y - h)) / (2 * h)
    np.testing.assert_allclose(np.exp(transform.log_slope(Y)), slope, rtol=1e-4)


@pytest.mark.parametrize("power", EVERY_POWER)
def test_moments_match_fine_grid(power: float) -> None:
    transform, z = PowerTransform(power, 2.0), np.linspace(-8, 8, 20_001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    for center, variance in ((0.0, 0.3), (1.5, 0.5), (-2.0, 0.2)):
        y = transform.inverse(center + np.sqrt(variance) * z)
        mean, spread, slope = transform.moments(
            np.array([center]), np.array([variance]), EVERYTHING
        )
        assert mean[0] == pytest.approx(weights @ y, rel=2e-3, abs=2e-3)
        assert spread[0] == pytest.approx(weights @ (y - weights @ y) ** 2, rel=0.02)
        assert slope[0] == pytest.approx(weights @ (y * z) / np.sqrt(variance), rel=0.02)


def test_moments_ignore_rewards_far_outside_range() -> None:
    mean, variance, _ = PowerTransform(0.0, 1.0).moments(
        np.array([2.0]), np.array([9.0]), (0.0, 5.0)
    )
    assert mean[0] < 10.0
    assert variance[0] < 36.0


def ensemble_of_skewed_field(
    power_of_ten: float, seed: int, flip: float = 1.0
) -> tuple[FilterEnsemble, Array]:
    """A bank that has read a skewed field, in some unit, and one step more of the field."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 5, (8, 2))
    site, unit = rng.normal(0, 0.5, 8), 10.0**power_of_ten
    powers = CONFIG.powers if flip > 0 else tuple(2.0 - power for power in CONFIG.powers)
    bank = replace(FilterEnsemble.of(points, 1e-4 * unit**2), powers=powers)
    fields = lognorm.rvs(0.7, size=(41, 8), random_state=rng) * np.exp(site) * unit * flip
    for t, field in enumerate(fields[:-1]):
        rows = rng.choice(8, 4, replace=False)
        bank = bank.update(rows, field[rows], None, float(t))
    return bank, fields[-1]


def test_power_is_learned_whatever_the_unit_and_sign() -> None:
    bank, _ = ensemble_of_skewed_field(0.0, 0)
    assert bank.transform.power < 1
    scaled, _ = ensemble_of_skewed_field(3.0, 0)
    np.testing.assert_allclose(scaled.predict(40.0).mean, 1e3 * bank.predict(40.0).mean, rtol=1e-6)
    turned, _ = ensemble_of_skewed_field(0.0, 0, flip=-1.0)
    assert turned.transform.power == 2.0 - bank.transform.power
    np.testing.assert_allclose(turned.predict(40.0).mean, -bank.predict(40.0).mean, rtol=1e-6)
    np.testing.assert_allclose(
        turned.predict(40.0).deviation, bank.predict(40.0).deviation, rtol=1e-6
    )


def test_joint_posterior_is_in_unit_of_reward() -> None:
    bank, _ = ensemble_of_skewed_field(2.0, 1)
    beliefs, forecast = bank.joint_posterior(40.0), bank.predict(40.0)
    np.testing.assert_allclose(beliefs.mean, forecast.mean, rtol=1e-9)
    np.testing.assert_allclose(beliefs.deviation, forecast.learnable, rtol=1e-9)
    every = list(range(8))
    among, reach = beliefs.covariance(every, every), beliefs.cross_covariance(every)
    assert np.linalg.eigvalsh(among).min() > -1e-8 * np.abs(among).max()
    # What an answer about a point tells about the point itself is less than what it does not know.
    assert (np.abs(np.diag(reach)) < np.diag(among) + forecast.learnable**2).all()
