"""The kernel over coordinates against scikit-learn's, and its gradient against differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from tvbandits.gp.kernels.coordinates import Coordinates
from tvbandits.gp.kernels.structure import check_kernel

SCALES = np.array([0.3, 2.0, 0.7])


def points(n: int, d: int = 3) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1, 1, (n, d))


@pytest.mark.parametrize("additive", [1e-3, 0.5, 40.0])
def test_it_is_a_joint_matern_kernel_and_one_for_each_coordinate(additive: float) -> None:
    X, Y = points(7), points(5)
    joint = Matern(SCALES, nu=2.5)(X, Y)
    each = [Matern(SCALES[j], nu=2.5)(X[:, [j]], Y[:, [j]]) for j in range(3)]
    expected = (joint + additive * np.mean(each, axis=0)) / (1 + additive)
    kernel = Coordinates(SCALES, additive)
    np.testing.assert_allclose(kernel(X, Y), expected, atol=1e-14)
    np.testing.assert_allclose(np.diagonal(kernel(X)), kernel.diag(X), atol=1e-14)
    check_kernel(kernel, X)


def test_its_gradient_is_that_of_differences() -> None:
    X, kernel = points(6), Coordinates(SCALES, 0.8)
    K, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_array_equal(K, kernel(X))
    for p in range(4):
        shift = 1e-5 * np.eye(4)[p]
        up, down = (kernel.clone_with_theta(kernel.theta + sign * shift)(X) for sign in (1, -1))
        np.testing.assert_allclose(gradient[:, :, p], (up - down) / 2e-5, atol=1e-9)


def test_fixed_hyperparameters_have_no_gradient() -> None:
    kernel = Coordinates(SCALES, 0.8, additive_bounds="fixed")
    assert kernel(points(4), eval_gradient=True)[1].shape == (4, 4, 3)
    neither = Coordinates(SCALES, 0.8, "fixed", "fixed")
    assert neither(points(4), eval_gradient=True)[1].shape == (4, 4, 0)


def test_points_of_another_dimension_are_refused() -> None:
    with pytest.raises(ValueError, match="3 length scales for points of 2"):
        Coordinates(SCALES)(points(4, 2))
    with pytest.raises(ValueError, match="only be evaluated when Y is None"):
        Coordinates(SCALES)(points(4), points(4), eval_gradient=True)
