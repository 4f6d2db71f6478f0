"""A posterior in the user's unit: another prior mean and scale, from one factor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import Matern

from tests.oracles.dense import Dense
from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.predictions import View, independent_readings, students_factor

KERNEL = Matern(0.4, nu=2.5)
RNG = np.random.default_rng(0)
POINTS, X = RNG.random((25, 2)), RNG.random((18, 2))
Y, NOISE = 1e3 + 7 * RNG.standard_normal(18), RNG.uniform(0.5, 3.0, 18)
ORIGIN, CENTRE, SCALE = float(Y[0]), 995.0, 6.0


def view(part: Any, surface: CandidateGrid | None) -> View:
    values = np.stack([Y - ORIGIN, np.ones(18)], axis=1)
    p = part.condition(KERNEL, Data(X, values, NOISE / SCALE**2), surface=surface)
    return View(p, surface, lambda points: points, CENTRE, SCALE, ORIGIN)


def expected(at: Array) -> tuple[Array, Array]:
    """The rewards, less their prior mean, under the kernel in their unit squared."""
    posterior = Dense(SCALE**2 * KERNEL, X, (Y - CENTRE)[:, None], NOISE)
    return CENTRE + posterior.mean(at)[:, 0], np.sqrt(posterior.variance(at))


@pytest.mark.parametrize("part", [Exact(), Nystrom(1e6)], ids=["exact", "sparse"])
@pytest.mark.parametrize("finite", [True, False])
def test_unit_and_prior_mean(part: Any, finite: bool) -> None:
    made = view(part, CandidateGrid(KERNEL, POINTS) if finite else None)
    # The candidates themselves, a copy of them, and points that are none.
    for at in (POINTS, POINTS.copy(), POINTS[3:5] + 0.01):
        mean, deviation = made.predict(at)
        np.testing.assert_allclose(mean, expected(at)[0], rtol=1e-9)
        np.testing.assert_allclose(deviation, expected(at)[1], rtol=1e-7)
        np.testing.assert_allclose(made.mean(at), expected(at)[0], rtol=1e-9)
        bound = expected(at)[0] + 1.7 * expected(at)[1]
        np.testing.assert_allclose(made.upper_bound(at, 1.7), bound, rtol=1e-9)


def test_correlated_readings_count_for_fewer() -> None:
    assert independent_readings(np.eye(7)) == pytest.approx(6.0)
    assert independent_readings(5.0 * np.eye(1)) == 0.0
    # Of three places read four times each; and a level that all share tells nothing about a variance.
    thrice = np.kron(np.eye(3), np.ones((4, 4)))
    assert independent_readings(thrice) == pytest.approx(2.0)
    assert independent_readings(thrice + 9.0) == pytest.approx(2.0)
    assert independent_readings(np.ones((6, 6))) == 0.0


def test_the_mean_square_of_correlated_readings_has_so_many_degrees_of_freedom() -> None:
    K = KERNEL(X)
    drawn = np.random.default_rng(1).multivariate_normal(np.zeros(18), K, size=20_000)
    squares = drawn.var(axis=1)
    # A chi-square law of n degrees of freedom has the variance 2 mean^2 / n.
    degrees = 2.0 * squares.mean() ** 2 / squares.var()
    assert independent_readings(K) == pytest.approx(degrees, rel=0.05)


def test_the_factor_is_students() -> None:
    for readings in (0.0, 2.5, 40.0):
        interval = stats.t.ppf(0.975, readings + 1.0) / stats.norm.ppf(0.975)
        assert students_factor(readings) == pytest.approx(interval)


def test_what_no_reading_has_tested_is_shown_wider_and_decides_as_it_is() -> None:
    known = view(Exact(), None)
    learned, far = replace(known, learned=True), np.array([[90.0, 90.0]])
    factor = students_factor(independent_readings(KERNEL(X)))
    mean, deviation = learned.reward(far)
    np.testing.assert_array_equal(mean, known.reward(far)[0])
    np.testing.assert_allclose(deviation, factor * SCALE, rtol=1e-9)
    near = learned.reward(X)[1] / known.reward(X)[1]
    share = known.reward(X)[1] ** 2 / SCALE**2
    np.testing.assert_allclose(near, 1.0 + (factor - 1.0) * share)
    np.testing.assert_array_equal(learned.predict(far), known.predict(far))
