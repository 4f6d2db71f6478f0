"""Forecasts and the joint posterior of an ensemble, in the unit of the reward."""

import numpy as np
from scipy.stats import lognorm

from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.validation import Array


def ensemble_of_skewed_field(
    power_of_ten: float, seed: int, flip: float = 1.0
) -> tuple[FilterEnsemble, Array]:
    """Return an ensemble after readings of a skewed field in some unit, and the next field."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 5, (8, 2))
    site, unit = rng.normal(0, 0.5, 8), 10.0**power_of_ten
    ensemble = FilterEnsemble.of(points, 1e-4 * unit**2)
    fields = lognorm.rvs(0.7, size=(41, 8), random_state=rng) * np.exp(site) * unit * flip
    for t, field in enumerate(fields[:-1]):
        rows = rng.choice(8, 4, replace=False)
        ensemble = ensemble.update(rows, field[rows], None, float(t))
    return ensemble, fields[-1]


def test_predict_of_ensemble_scales_with_unit_and_sign() -> None:
    forecast = ensemble_of_skewed_field(0.0, 0)[0].predict(40.0)
    scaled = ensemble_of_skewed_field(3.0, 0)[0].predict(40.0)
    np.testing.assert_allclose(scaled.mean, 1e3 * forecast.mean, rtol=1e-6)
    np.testing.assert_allclose(scaled.deviation, 1e3 * forecast.deviation, rtol=1e-6)
    mirrored = ensemble_of_skewed_field(0.0, 0, flip=-1.0)[0].predict(40.0)
    np.testing.assert_allclose(mirrored.mean, -forecast.mean, rtol=1e-6)
    np.testing.assert_allclose(mirrored.deviation, forecast.deviation, rtol=1e-6)


def test_joint_posterior_is_in_the_unit_of_reward() -> None:
    ensemble, _ = ensemble_of_skewed_field(2.0, 1)
    joint, forecast = ensemble.joint_posterior(40.0), ensemble.predict(40.0)
    np.testing.assert_allclose(joint.mean, forecast.mean, rtol=1e-9)
    np.testing.assert_allclose(joint.deviation, forecast.learnable, rtol=1e-9)
    every = list(range(8))
    covariance, cross = joint.covariance(every, every), joint.cross_covariance(every)
    assert np.linalg.eigvalsh(covariance).min() > -1e-8 * np.abs(covariance).max()
    # An answer explains less than the remaining variance at its own point.
    assert (np.abs(np.diag(cross)) < np.diag(covariance) + forecast.learnable**2).all()
