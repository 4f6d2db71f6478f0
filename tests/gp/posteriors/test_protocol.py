"""What holds for every posterior: one face, samples of its own law, and only one with lazy bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tvbandits.core.arrays import Array
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.kernels.structure import inputs
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.protocol import LazyBounds, Posterior, PosteriorRule
from tvbandits.gp.posteriors.state_space import StateSpace

POINTS = np.random.default_rng(0).uniform(0.0, 3.0, (9, 2))
NOW, ALL = 8.0, Nystrom(oversampling=1e12, tolerance=1e-12)
SPACE, DRIFTING = Matern(0.8, nu=1.5), OnSpace(Matern(0.8, nu=1.5)) * Drift(0.2)
SUM = ConstantKernel(0.5) * OnTime(Matern(4.0, nu=0.5)) + DRIFTING

CASES: dict[str, tuple[PosteriorRule, Any]] = {
    "exact": (Exact(), SPACE),
    "exact in time": (Exact(), OnSpace(SPACE) * OnTime(RBF(4.0))),
    "nystrom": (ALL, SPACE),
    "nystrom, drifting": (ALL, DRIFTING),
    "nystrom, other kernels in time": (ALL, OnSpace(SPACE) * OnTime(RBF(4.0))),
    "state space": (StateSpace(), SUM),
}
each = pytest.mark.parametrize(("rule", "kernel"), CASES.values(), ids=CASES.keys())


def told(kernel: Any, n: int = 12) -> Data:
    """Rewards at all fixed points, and a few more, each at its time."""
    rng = np.random.default_rng(1)
    X = POINTS[np.arange(n) % len(POINTS)]
    Z = inputs(kernel, X, np.sort(rng.uniform(0.0, 7.0, n)))
    return Data(Z, np.column_stack([rng.standard_normal(n), np.ones(n)]), rng.uniform(0.1, 1.0, n))


def conditioned(rule: PosteriorRule, kernel: Any) -> tuple[Posterior, CandidateGrid]:
    surface = CandidateGrid(kernel, POINTS)
    return rule.condition(kernel, told(kernel), surface=surface, now=NOW), surface


def dense(kernel: Any, Z: Array) -> tuple[Array, Array]:
    """Means and covariance by plain inversion."""
    data = told(kernel)
    solve = np.linalg.inv(kernel(data.Z) + np.diag(data.variance))
    k = kernel(Z, data.Z)
    return k @ solve @ data.Y, kernel(Z) - k @ solve @ k.T


@each
def test_samples_have_the_covariance(rule: PosteriorRule, kernel: Any) -> None:
    made, surface = conditioned(rule, kernel)
    count = 20_000
    drawn = made.samples(surface, count, np.random.default_rng(2))
    _, covariance = dense(kernel, inputs(kernel, POINTS, NOW))
    variance = np.diag(covariance)
    if isinstance(made, LazyBounds) and surface.space_time:
        # The dictionary is of the past: what it leaves out now is drawn for each point on its own.
        np.testing.assert_allclose(drawn.var(axis=0), made.on_surface()[1], rtol=0.05)
        return
    errors = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
    assert (np.abs(drawn.mean(axis=0)) < 4.5 * np.sqrt(variance / count)).all()
    assert (np.abs(drawn.T @ drawn / count - covariance) < 4.5 * errors).all()
    assert (np.abs(drawn.T @ drawn / count - 1.1 * covariance) > 6.0 * errors).any()


@each
def test_without_fixed_points_there_is_nothing_to_say_about_them(
    rule: PosteriorRule, kernel: Any
) -> None:
    if isinstance(rule, StateSpace):
        rule = StateSpace(anchors=POINTS)
    made = rule.condition(kernel, told(kernel), now=NOW)
    surface, rng = CandidateGrid(kernel, POINTS), np.random.default_rng(0)
    for ask in (
        made.on_surface,
        made.means_on_surface,
        lambda: made.samples(surface, 3, rng),
    ):
        with pytest.raises(ValueError, match="conditioned without fixed points"):
            ask()


def test_who_has_lazy_bounds_and_inducing_points() -> None:
    found = {name: conditioned(*case)[0] for name, case in CASES.items()}
    assert [name for name, made in found.items() if isinstance(made, LazyBounds)] == [
        "nystrom",
        "nystrom, other kernels in time",
    ]
    assert [name for name, made in found.items() if made.dictionary_size is not None] == [
        "nystrom",
        "nystrom, other kernels in time",
    ]
    shrunk = found["nystrom"].shrunk(POINTS[:1], 0.3, None)
    assert not shrunk.settled
    assert shrunk.dictionary_size == found["nystrom"].dictionary_size
