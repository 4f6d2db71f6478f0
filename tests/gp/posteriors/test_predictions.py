"""A posterior in the user's unit: another prior mean and scale, from one factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from tests.oracles.dense import Dense
from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.predictions import View

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
