"""What an ensemble predicts of a field: in the unit of reward, and right together."""

import numpy as np
from scipy.stats import lognorm

from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.validation import Array


def ensemble_of_skewed_field(
    power_of_ten: float, seed: int, flip: float = 1.0
) -> tuple[FilterEnsemble, Array]:
    """A bank that has read a skewed field, in some unit, and one step more of the field."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 5, (8, 2))
    site, unit = rng.normal(0, 0.5, 8), 10.0**power_of_ten
    bank = FilterEnsemble.of(points, 1e-4 * unit**2)
    fields = lognorm.rvs(0.7, size=(41, 8), random_state=rng) * np.exp(site) * unit * flip
    for t, field in enumerate(fields[:-1]):
        rows = rng.choice(8, 4, replace=False)
        bank = bank.update(rows, field[rows], None, float(t))
    return bank, fields[-1]


def test_forecasts_scale_with_the_unit_and_turn_with_the_sign() -> None:
    forecast = ensemble_of_skewed_field(0.0, 0)[0].predict(40.0)
    scaled = ensemble_of_skewed_field(3.0, 0)[0].predict(40.0)
    np.testing.assert_allclose(scaled.mean, 1e3 * forecast.mean, rtol=1e-6)
    np.testing.assert_allclose(scaled.deviation, 1e3 * forecast.deviation, rtol=1e-6)
    turned = ensemble_of_skewed_field(0.0, 0, flip=-1.0)[0].predict(40.0)
    np.testing.assert_allclose(turned.mean, -forecast.mean, rtol=1e-6)
    np.testing.assert_allclose(turned.deviation, forecast.deviation, rtol=1e-6)


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
