"""The experiment of variance starvation: its restatements, and what the figure shows."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from benchmarks import starvation


def test_exact_posterior_is_that_of_scikit_learn() -> None:
    one = starvation.draw(3)
    mine = starvation.fit_exact(one.X[:30], one.y[:30])
    peer = GaussianProcessRegressor(starvation.KERNEL, alpha=starvation.NOISE, optimizer=None)
    mean, deviation = peer.fit(one.X[:30], one.y[:30]).predict(starvation.POINTS, return_std=True)
    np.testing.assert_allclose(mine.mean, mean, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(mine.variance), deviation, atol=1e-6)


def test_subset_of_regressors_is_the_process_of_its_own_kernel() -> None:
    """SoR is exact under Q = K_xS K_S^-1 K_Sx, and DTC adds K - Q to its variance."""
    one = starvation.draw(1)
    X, y, S, x = one.X[:40], one.y[:40], one.X[:5], starvation.POINTS
    inverse = np.linalg.inv(starvation.KERNEL(S))

    def q(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(starvation.KERNEL(a, S) @ inverse @ starvation.KERNEL(S, b))

    gain = q(x, X) @ np.linalg.inv(q(X, X) + starvation.NOISE * np.eye(40))
    variance = np.diag(q(x, x) - gain @ q(X, x))
    dtc, sor = starvation.fit_sketch(S, X, y)
    for belief in (dtc, sor):
        np.testing.assert_allclose(belief.mean, gain @ y, atol=1e-6)
    np.testing.assert_allclose(sor.variance, variance, atol=1e-6)
    np.testing.assert_allclose(dtc.variance, variance + 1.0 - np.diag(q(x, x)), atol=1e-6)


def test_bkb_is_dtc_on_the_dictionary_that_it_drew() -> None:
    one = starvation.draw(2)
    mine = starvation.fit_bkb(one.X[:63], one.y[:63], seed=2)
    dtc, _ = starvation.fit_sketch(mine.inducing, one.X[:63], one.y[:63])
    assert len(mine.inducing) < 63
    np.testing.assert_allclose(mine.mean, dtc.mean, atol=1e-6)
    np.testing.assert_allclose(mine.variance, dtc.variance, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_bkb_keeps_the_factor_of_theorem_1_and_the_subset_of_regressors_starves(seed: int) -> None:
    found = starvation.fit_all(starvation.draw(seed), 63, seed)
    exact = found["exact"].variance
    ratio = found["BKB"].variance / exact
    assert ratio.min() > 1 / 3  # (1 + e) / (1 - e) = 3 for e = 1/2
    assert ratio.max() < 3
    for name in (starvation.STARVED, "SoR, dictionary of BKB"):
        assert (found[name].variance / exact)[~starvation.LEFT].min() < 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_dictionary_that_is_kept_holds_what_it_held(seed: int) -> None:
    one = starvation.draw(seed)
    early, late = (
        starvation.fit_bkb(one.X[:count], one.y[:count], seed, keep=True).inducing[:, 0]
        for count in (8, 20)
    )
    assert set(early) <= set(late)
    assert len(late) <= 20
