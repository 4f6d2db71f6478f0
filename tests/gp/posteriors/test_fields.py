"""A posterior at one time against the posterior itself, and its slopes against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tvbandits import Box
from tvbandits.core.space_kernel import PerParameter
from tvbandits.gp.kernels.additive import box_kernel
from tvbandits.gp.kernels.coordinates import Coordinates
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.posteriors.cholesky import ExactPosterior
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.predictions import Bound, SmoothPosterior

BOX = Box(np.array([[-1.0, 1.0], [0.0, 10.0], [5.0, 6.0]]))


def posterior(kernel: Any, n: int = 30, noise: float = 0.05) -> ExactPosterior:
    rng = np.random.default_rng(1)
    Z = np.column_stack([BOX.sample(n, rng), np.arange(float(n))])
    Y = np.column_stack([rng.standard_normal(n), np.ones(n)])
    made = Exact().condition(kernel, Data(Z, Y, np.full(n, noise)), now=float(n))
    assert isinstance(made, ExactPosterior)
    return made


def at(X: np.ndarray, t: float) -> np.ndarray:
    return np.column_stack([X, np.full(len(X), t)])


def field_of(given: ExactPosterior, now: float) -> SmoothPosterior:
    field = SmoothPosterior.of(given, now)
    assert field is not None
    return field


@pytest.mark.parametrize("now", [30.0, 37.5])
@pytest.mark.parametrize("level", [0.0, 0.4])
def test_it_says_what_the_posterior_says(now: float, level: float) -> None:
    kernel = box_kernel(BOX)
    if level:
        kernel = kernel + ConstantKernel(level) * OnTime(Matern(9.0, nu=1.5))
    given = posterior(kernel)
    field, X = field_of(given, now), BOX.sample(300, np.random.default_rng(2))
    means, variance = given.predict(at(X, now))
    for found in (field.predict(X), field.slopes(X)[:2]):
        np.testing.assert_allclose(found[0], means, atol=1e-10)
        np.testing.assert_allclose(found[1], variance, atol=1e-10)


def test_slopes_are_those_of_differences() -> None:
    field, X = field_of(posterior(box_kernel(BOX)), 31.0), BOX.sample(9, np.random.default_rng(3))
    _, _, mean_slopes, variance_slopes = field.slopes(X)
    bound = Bound(field, field, np.array([1.0, 0.3]), 2.0, 1.5)
    for j in range(3):
        h = 1e-5 * np.eye(3)[j]
        (m1, v1), (m0, v0) = field.predict(X + h), field.predict(X - h)
        np.testing.assert_allclose(mean_slopes[:, j], (m1 - m0) / 2e-5, atol=1e-7)
        np.testing.assert_allclose(variance_slopes[:, j], (v1 - v0) / 2e-5, atol=1e-7)
        np.testing.assert_allclose(
            bound.slopes(X)[:, j], (bound(X + h) - bound(X - h)) / 2e-5, atol=1e-6
        )


@pytest.mark.parametrize("rule", [Exact(), Nystrom()], ids=["exact", "dictionary"])
@pytest.mark.parametrize(
    "kernel",
    [
        RBF([0.8, 3.0, 0.5]),
        ConstantKernel(2.0) * Matern(1.5, nu=1.5),
        Matern([0.8, 3.0, 0.5], nu=2.5),
        PerParameter([0.8, 3.0], parts=(("a", 1), ("b", 2)), nu=np.inf),
    ],
)
def test_kernels_over_points_and_posteriors_on_a_dictionary(kernel: Any, rule: Any) -> None:
    rng = np.random.default_rng(1)
    Z, Y = BOX.sample(30, rng), np.column_stack([rng.standard_normal(30), np.ones(30)])
    given = rule.condition(kernel, Data(Z, Y, np.full(30, 0.05)), rng=rng)
    field, X = SmoothPosterior.of(given, 0.0), BOX.sample(40, rng)
    assert field is not None
    means, variance = given.predict(X)
    found = field.slopes(X)
    for some in (field.predict(X), found[:2]):
        np.testing.assert_allclose(some[0], means, atol=1e-9)
        np.testing.assert_allclose(some[1], variance, atol=1e-9)
    for j in range(3):
        h = 1e-5 * np.eye(3)[j]
        (m1, v1), (m0, v0) = field.predict(X + h), field.predict(X - h)
        np.testing.assert_allclose(found[2][:, j], (m1 - m0) / 2e-5, atol=1e-6)
        np.testing.assert_allclose(found[3][:, j], (v1 - v0) / 2e-5, atol=1e-6)


def test_a_bound_may_take_its_variance_from_more_points() -> None:
    kernel = box_kernel(BOX)
    few, more = (field_of(posterior(kernel, n), 31.0) for n in (20, 30))
    X = BOX.sample(9, np.random.default_rng(3))
    bound = Bound(few, more, np.array([1.0, -0.5]), 3.0, 2.0)
    mean = few.predict(X)[0] @ np.array([1.0, -0.5]) + 3.0
    np.testing.assert_allclose(bound(X), mean + 2.0 * np.sqrt(more.predict(X)[1]), atol=1e-12)
    h = 1e-5 * np.eye(3)[1]
    np.testing.assert_allclose(
        bound.slopes(X)[:, 1], (bound(X + h) - bound(X - h)) / 2e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "kernel",
    [
        OnSpace(Matern(1.0, nu=0.5)) * OnTime(Matern(9.0, nu=1.5)),
        OnSpace(Coordinates([1.0] * 3)) * OnSpace(Matern(2.0, nu=2.5)),
    ],
)
def test_other_kernels_have_none(kernel: Any) -> None:
    assert SmoothPosterior.of(posterior(kernel), 31.0) is None


def test_nor_has_what_an_inverse_would_be_too_coarse_for() -> None:
    assert SmoothPosterior.of(posterior(box_kernel(BOX), noise=1e-14), 31.0) is not None
    kernel = ConstantKernel(1.0) * OnSpace(Coordinates([50.0, 500.0, 50.0])) * OnTime(Matern(1e4))
    assert SmoothPosterior.of(posterior(kernel, noise=1e-12), 31.0) is None


@pytest.mark.parametrize(
    "kernel",
    [
        OnSpace(Coordinates([1.0] * 3)) * OnTime(Matern(9.0, nu=1.5))
        + 0.5 * OnSpace(RBF(2.0)) * OnTime(Matern(30.0, nu=0.5)),
        # What is different at every place and time is known at the points told at this very time.
        box_kernel(BOX),
    ],
)
def test_terms_may_have_length_scales_of_their_own(kernel: Any) -> None:
    given, X = posterior(kernel), BOX.sample(40, np.random.default_rng(4))
    field = field_of(given, 29.0)
    assert len(field.parts) == 2
    means, variance = given.predict(at(X, 29.0))
    found = field.slopes(X)
    for some in (field.predict(X), found[:2]):
        np.testing.assert_allclose(some[0], means, atol=1e-9)
        np.testing.assert_allclose(some[1], variance, atol=1e-9)
    for j in range(3):
        h = 1e-5 * np.eye(3)[j]
        (m1, v1), (m0, v0) = field.predict(X + h), field.predict(X - h)
        np.testing.assert_allclose(found[2][:, j], (m1 - m0) / 2e-5, atol=1e-6)
        np.testing.assert_allclose(found[3][:, j], (v1 - v0) / 2e-5, atol=1e-6)
