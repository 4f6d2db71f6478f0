"""The exact posterior of a drifting reward, by a filter: that of a new factorisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tvbandits.gp.kernels.space_time import Drift
from tvbandits.gp.kernels.structure import space_time
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact, spanning_state
from tvbandits.gp.posteriors.state_space import StateSpacePosterior


def drifting(noise: float, epsilon: float, n: int = 700) -> tuple[Any, CandidateGrid, Data]:
    """Observations in order of time at points of a line."""
    rng = np.random.default_rng(11)
    kernel = space_time(RBF(8.0)) * Drift(epsilon, "fixed")
    points = np.linspace(-50.0, 50.0, 60)[:, None]
    times = np.sort(rng.uniform(0.0, n, n))
    Z = np.column_stack([points[rng.integers(60, size=n)], times])
    y = np.sin(Z[:, 0] / 8 + times / 50) + noise**0.5 * rng.standard_normal(n)
    data = Data(Z, np.column_stack([y, np.ones(n)]), np.full(n, noise))
    return kernel, CandidateGrid(kernel, points), data


@pytest.mark.parametrize("epsilon", [0.001, 0.03, 0.3])
@pytest.mark.parametrize("noise", [1e-1, 1e-4])
def test_the_filter_is_the_dense_posterior_to_rounding(noise: float, epsilon: float) -> None:
    kernel, surface, data = drifting(noise, epsilon)
    now = float(data.Z[-1, 1]) + 1.5
    found = Exact().condition(kernel, data, surface=surface, now=now)
    dense = Factored().condition(kernel, data, surface=surface, now=now)
    assert isinstance(found, StateSpacePosterior)
    assert found.dictionary_size is None
    for ours, theirs in zip(found.on_surface(), dense.on_surface(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)
    Z = np.column_stack([surface.points[:9], np.linspace(0.3 * now, 2 * now, 9)])
    for ours, theirs in zip(found.predict(Z), dense.predict(Z), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.products, dense.products, rtol=1e-8)
    np.testing.assert_allclose(found.log_det_ratio, dense.log_det_ratio, rtol=1e-10)


def test_few_observations_are_factored_and_so_are_features_without_end() -> None:
    kernel, surface, data = drifting(1e-2, 0.03)
    few = Exact().condition(kernel, data.rows(650), surface=surface, now=1e3)
    assert isinstance(few, ExactPosterior)
    rough = space_time(Matern(1e-3, nu=0.5)) * Drift(0.03, "fixed")
    points = np.random.default_rng(0).random((300, 1))
    assert spanning_state(CandidateGrid(rough, points)) is None
    assert isinstance(Exact().condition(kernel, data, surface=None, now=1e3), ExactPosterior)


def test_going_on_comes_to_the_bits_of_starting_anew() -> None:
    kernel, surface, data = drifting(1e-2, 0.03)
    half = Data(data.Z[:400], data.Y[:400], data.variance[:400])
    start = Exact().condition(kernel, half, surface=surface, now=450.0)
    assert isinstance(start, StateSpacePosterior)
    made = start
    for i in range(400, 700):
        following = made.continued(data.row(i), 800.0)
        assert following is not None
        made = following
    anew = Exact().condition(kernel, data, surface=surface, now=800.0)
    for ours, theirs in zip(made.on_surface(), anew.on_surface(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(made.data.Z, anew.data.Z)
    assert made.continued(data.row(3), 800.0) is None  # of the past
    assert start.size == 400


def test_rows_that_repeat_are_merged_in_the_end() -> None:
    rng = np.random.default_rng(2)
    points = np.linspace(0.0, 1.0, 20)[:, None]
    kernel = RBF(0.3)
    surface = CandidateGrid(kernel, points)
    data = Data(np.empty((0, 1)), np.empty((0, 1)), np.empty(0))
    made: Any = None
    largest = 0
    for _ in range(500):
        row = Data(points[rng.integers(20)][None], rng.standard_normal((1, 1)), np.full(1, 0.1))
        data = data.append(row)
        made = Exact().condition(kernel, data, surface=surface, previous=made)
        largest = max(largest, made.size)
    assert largest <= 2 * 20 + 192 + 1
    dense = Factored().condition(kernel, data, surface=surface)
    for ours, theirs in zip(made.on_surface(), dense.on_surface(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)
