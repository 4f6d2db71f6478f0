"""The log evidence of structured kernels: against dense algebra on all rows, and scikit-learn's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.gp.fitting.evidence import MEAN_VARIANCE, Evidence
from tvbandits.gp.kernels.additive import structured_kernel
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.kernels.structure import inputs

Constant = ConstantKernel


def level(amplitude: float = 0.4) -> Any:
    return Constant(amplitude) * OnTime(Matern(6.0, nu=0.5))


def drifting() -> Any:
    return Constant(1.3) * OnSpace(RBF(1.2)) * OnTime(Matern(8.0, nu=1.5))


SHARED = OnSpace(RBF(0.9))

SUMS: dict[str, Any] = {
    "a constant": Constant(0.7),
    "space": OnSpace(RBF(1.0)),
    "time": OnTime(Matern(3.0, nu=1.5)),
    "drift": Drift(0.1),
    "a term": drifting(),
    "a term with a drift": Constant(0.5) * OnSpace(Matern(1.0, nu=0.5)) * Drift(0.1),
    "a time kernel of another kind": OnSpace(RBF(1.0)) * OnTime(RBF(3.0)),
    "two space kernels in a term": OnSpace(RBF(1.0)) * OnSpace(Matern(2.0, nu=1.5)) * Drift(0.2),
    "a sum": Constant(2.0) + level() + drifting(),
    "a product of sums": (Constant(0.5) + OnSpace(RBF(1.0))) * (level() + drifting()),
    "an amplitude of a sum": Constant(0.6) * (level() + SHARED * Drift(0.3) + SHARED),
    "fixed numbers": Constant(1.3, "fixed") * OnSpace(RBF(1.2)) * OnTime(Matern(4.0, "fixed"))
    + Constant(0.3) * OnSpace(RBF(0.5, "fixed")) * Drift(0.1, "fixed"),
    "nothing but fixed numbers": Constant(1.3, "fixed") * OnSpace(RBF(1.2, "fixed")),
    "anisotropic": Constant(1.1) * OnSpace(RBF([0.7, 2.5])) * OnTime(Matern(8.0, nu=0.5)),
    "an inner sum": OnSpace(RBF(1.0) + 0.2 * Matern(0.5, nu=0.5)) * OnTime(Matern(5.0) * RBF(9.0)),
    "structured": structured_kernel(Matern(1.0, nu=0.5)),
}
"""Kernels that are put together from distinct points and times."""

OTHERS: dict[str, Any] = {
    "over points": Constant(0.8) * RBF(1.0),
    "over points, anisotropic": RBF([0.7, 2.5]) + Matern(0.4, nu=1.5),
    "over rows": RBF(2.0) * Drift(0.1) + OnSpace(RBF(1.0)),
    "a power": OnSpace(RBF(1.0)) * Drift(0.1) ** 2.0,
}
"""Kernels that are not."""

KERNELS = {**SUMS, **OTHERS}


def sample(n: int, seed: int) -> Observations:
    """Of few points and times, so that both repeat, alone and together, in no order."""
    rng = np.random.default_rng(seed)
    X, t = rng.uniform(0, 4, (6, 2))[rng.integers(0, 6, n)], rng.integers(0, 8, n) * 1.5
    X[-1], t[-1] = X[0], t[0]
    return Observations(X, t, rng.standard_normal(n) * 1.4 + 0.3, rng.uniform(0.05, 1.0, n))


def made(
    kernel: Kernel, seen: Observations, spread: Array | float = math.inf, **other: Any
) -> Evidence:
    parts: dict[str, Any] = {"values": seen.y, "variance": seen.variance, "prior": kernel.theta}
    parts |= other
    return Evidence(kernel, seen, parts["values"], parts["variance"], parts["prior"], spread)


def restated(kernel: Kernel, theta: Array, seen: Observations) -> float:
    """-log N(y; 0, K + constant + diag(variance)), by plain algebra on all rows."""
    Z = inputs(kernel, seen.X, seen.t)
    A = kernel.clone_with_theta(theta)(Z) + MEAN_VARIANCE + np.diag(seen.variance)
    quadratic = seen.y @ np.linalg.inv(A) @ seen.y
    return float(0.5 * (quadratic + np.linalg.slogdet(A)[1] + len(seen) * np.log(2 * np.pi)))


def slopes(loss: Any, theta: Array, h: float = 1e-5) -> Array:
    """Central differences."""
    steps = h * np.eye(len(theta))
    return np.array([(loss(theta + step) - loss(theta - step)) / (2 * h) for step in steps])


def moved(kernel: Kernel, seed: int) -> Array:
    """Hyperparameters near those of the kernel."""
    rng = np.random.default_rng(seed)
    return np.asarray(kernel.theta + 0.2 * rng.standard_normal(len(kernel.theta)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [1, 2, 25])
def test_value_and_gradient_are_those_of_plain_algebra(name: str, n: int) -> None:
    kernel, seen = KERNELS[name], sample(n, 1)
    theta = moved(kernel, 2)
    value, gradient = made(kernel, seen)(theta)
    assert value == pytest.approx(restated(kernel, theta, seen), rel=1e-9, abs=1e-9)
    assert gradient.shape == theta.shape
    expected = slopes(lambda at: restated(kernel, at, seen), theta)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_one_point_at_one_time() -> None:
    seen = Observations([[1.0, 2.0]] * 4, [3.0] * 4, [0.1, 0.5, -0.2, 0.4], [0.3] * 4)
    for kernel in KERNELS.values():
        value, gradient = made(kernel, seen)(kernel.theta)
        assert value == pytest.approx(restated(kernel, kernel.theta, seen), rel=1e-9)
        expected = slopes(lambda at, k=kernel: restated(k, at, seen), kernel.theta)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


# --- the prior ------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [False, True], ids=["one spread", "a spread for each"])
@pytest.mark.parametrize("name", ["structured", "over points", "fixed numbers"])
def test_the_prior_is_log_normal(name: str, each: bool) -> None:
    kernel, seen = KERNELS[name], sample(12, 6)
    theta, medians = moved(kernel, 7), moved(kernel, 8)
    spread = np.linspace(0.3, 2.0, len(theta)) if each else 0.7
    free, slope = made(kernel, seen)(theta)
    value, gradient = made(kernel, seen, spread, prior=medians)(theta)
    off = (theta - medians) / spread
    assert value - free == pytest.approx(0.5 * (off**2).sum())
    np.testing.assert_allclose(gradient - slope, off / spread, rtol=1e-6, atol=1e-9)
    at_medians, steep = made(kernel, seen, spread, prior=medians)(medians)
    free, slope = made(kernel, seen)(medians)
    assert at_medians == free
    np.testing.assert_array_equal(steep, slope)


# --- the wall -------------------------------------------------------------------------------------


class Indefinite(RBF):  # type: ignore[misc]
    """No covariance: above some length scale, minus one."""

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        K = super().__call__(X, Y, eval_gradient)
        if self.length_scale < 2.0:
            return K
        return (-9.0 * K[0], -9.0 * K[1]) if eval_gradient else -9.0 * K


@pytest.mark.parametrize("kernel", [OnSpace(Indefinite(1.0)), Indefinite(1.0)], ids=["sum", "not"])
@pytest.mark.parametrize("spread", [math.inf, 0.5])
def test_a_matrix_without_a_factor_is_a_wall(kernel: Any, spread: float) -> None:
    evidence = made(kernel, sample(10, 9), spread)
    good, gradient = evidence(np.log([1.5]))
    assert np.isfinite(good)
    assert gradient[0] != 0.0
    wall, flat = evidence(np.log([3.0]))
    assert np.isfinite(wall)
    assert wall > good + 1e3
    np.testing.assert_array_equal(flat, [0.0])


def test_the_wall_is_higher_than_the_land() -> None:
    # Two rewards of almost one point that differ by far more than their noise.
    seen = Observations([[0.0, 0.0], [1e-5, 0.0]], [0.0] * 2, [-1.0, 1.0], [1e-12] * 2)
    evidence = made(OnSpace(Indefinite(1.0)), seen)
    high, low = (evidence(np.log([scale]))[0] for scale in (1.5, 1e-6))
    assert low < 1e3 < 2e10 < high
    assert evidence(np.log([3.0]))[0] > 1.5 * high
