"""The experiment of variance starvation: its posteriors, and the claims of its figure."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from benchmarks import starvation


def test_exact_posterior_matches_scikit_learn() -> None:
    draw = starvation.draw(3)
    posterior = starvation.fit_exact(draw.X[:30], draw.y[:30])
    peer = GaussianProcessRegressor(starvation.KERNEL, alpha=starvation.NOISE, optimizer=None)
    mean, deviation = peer.fit(draw.X[:30], draw.y[:30]).predict(starvation.POINTS, return_std=True)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(posterior.variance), deviation, atol=1e-6)


def test_subset_of_regressors_and_dtc_match_dense_formulas() -> None:
    """SoR is exact under Q = K_xS K_S^-1 K_Sx, and DTC adds K - Q to the variance."""
    draw = starvation.draw(1)
    X, y, S, x = draw.X[:40], draw.y[:40], draw.X[:5], starvation.POINTS
    inverse = np.linalg.inv(starvation.KERNEL(S))

    def q(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(starvation.KERNEL(a, S) @ inverse @ starvation.KERNEL(S, b))

    gain = q(x, X) @ np.linalg.inv(q(X, X) + starvation.NOISE * np.eye(40))
    variance = np.diag(q(x, x) - gain @ q(X, x))
    dtc, sor = starvation.fit_sketch(S, X, y)
    for each in (dtc, sor):
        np.testing.assert_allclose(each.mean, gain @ y, atol=1e-6)
    np.testing.assert_allclose(sor.variance, variance, atol=1e-6)
    np.testing.assert_allclose(dtc.variance, variance + 1.0 - np.diag(q(x, x)), atol=1e-6)


def test_bkb_is_dtc_on_its_dictionary() -> None:
    draw = starvation.draw(2)
    posterior = starvation.fit_bkb(draw.X[:63], draw.y[:63], seed=2)
    dtc, _ = starvation.fit_sketch(posterior.inducing, draw.X[:63], draw.y[:63])
    assert len(posterior.inducing) < 63
    np.testing.assert_allclose(posterior.mean, dtc.mean, atol=1e-6)
    np.testing.assert_allclose(posterior.variance, dtc.variance, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_bkb_keeps_the_ratio_of_theorem_1_where_subset_of_regressors_starves(seed: int) -> None:
    posteriors = starvation.fit_all(starvation.draw(seed), 63, seed)
    exact = posteriors["exact"].variance
    ratio = posteriors["BKB"].variance / exact
    assert ratio.min() > 1 / 3  # (1 + e) / (1 - e) = 3 for e = 1/2
    assert ratio.max() < 3
    for name in (starvation.STARVED, "SoR, dictionary of BKB"):
        assert (posteriors[name].variance / exact)[~starvation.LEFT].min() < 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_bkb_that_keeps_its_dictionary_only_adds_points(seed: int) -> None:
    draw = starvation.draw(seed)
    early, late = (
        starvation.fit_bkb(draw.X[:count], draw.y[:count], seed, keep=True).inducing[:, 0]
        for count in (8, 20)
    )
    assert set(early) <= set(late)
    assert len(late) <= 20
