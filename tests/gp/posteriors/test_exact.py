"""The exact posterior by its routes: each is the posterior of a new factorisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from tvbandits import Candidates
from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.forgetting.aging import Ages, Aging, Exponential, Linear, Wiener
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.gp.kernels.structure import inputs
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import FEW, LARGEST_SPAN, Exact, spanning
from tvbandits.gp.posteriors.sparse import NystromPosterior

LINE = np.linspace(-50, 50, 401)[:, None]
SQUARE = Candidates.grid([(0.0, 1.0), (0.0, 2.0)], [17, 19]).X
LOW_RANK: dict[str, tuple[Kernel, Array]] = {
    "line": (RBF(8.0), LINE),
    "shifted line": (2.0 * RBF(8.0) + ConstantKernel(0.5), LINE + 1e4),
    "square": (3.0 * RBF([0.6, 1.2]), SQUARE),
    "tiny unit": (1e-8 * RBF([0.6, 1.2]), SQUARE),
}
HIGH_RANK: dict[str, tuple[Kernel, Array]] = {
    "rough line": (Matern(3.0, nu=0.5), LINE),
    "narrow square": (RBF(0.05), SQUARE),
}
AGINGS: dict[str, Aging] = {"linear": Linear(0.1), "wiener": Wiener(0.02), "w": Exponential(0.97)}


def assert_same(made: Any, fresh: ExactPosterior, at: Array) -> None:
    """To 1e-9 of the largest mean and of the prior variance."""
    for get in ("on_surface", "predict"):
        one, other = ((getattr(p, get)(*([at] if get == "predict" else []))) for p in (made, fresh))
        np.testing.assert_allclose(one[0], other[0], rtol=0, atol=1e-9 * np.abs(other[0]).max())
        prior = float(fresh.kernel.diag(at).max())
        np.testing.assert_allclose(one[1], other[1], rtol=0, atol=1e-9 * prior)
    assert made.log_det_ratio == pytest.approx(fresh.log_det_ratio, rel=1e-9)
    np.testing.assert_allclose(made.products, fresh.products, rtol=1e-8)
    assert made.effective_dimension() == pytest.approx(fresh.effective_dimension(), rel=1e-8)


def play(kernel: Kernel, points: Array, map_: Aging, steps: int, *, check: int = 10) -> list[Any]:
    """A run whose weights change at every step; returns the posteriors."""
    surface, rng = CandidateGrid(kernel, points), np.random.default_rng(4)
    unit = float(kernel.diag(points[:1])[0])
    X = points[rng.integers(len(points), size=steps)]
    y, v = rng.standard_normal(steps) * np.sqrt(unit), rng.uniform(0.005, 0.05, steps)
    p, all_ = None, []
    for t in range(1, steps + 1):
        seen = Observations(X[:t], np.arange(float(t)), y[:t], v[:t])
        variance = map_(seen.variance, Ages.of(seen, float(t))) * unit
        data = Data(X[:t], np.stack([y[:t], np.ones(t)], axis=1), variance)
        p = Exact().condition(kernel, data, surface=surface, now=float(t), previous=p)
        all_.append(p)
        if t % check == 0:
            assert_same(p, Factored().condition(kernel, data, surface=surface), points)
    return all_


@pytest.mark.parametrize("map_", AGINGS.values(), ids=AGINGS.keys())
@pytest.mark.parametrize(("kernel", "points"), LOW_RANK.values(), ids=LOW_RANK.keys())
def test_a_spanning_dictionary_is_exact(kernel: Kernel, points: Array, map_: Aging) -> None:
    posteriors = play(kernel, points, map_, 240)
    sparse = [isinstance(p, NystromPosterior) for p in posteriors]
    assert not any(sparse[: FEW - 1])
    assert all(sparse[-60:])
    assert posteriors[-1].dictionary_size is None  # exact
    assert posteriors[-1].dictionary.size < 120


@pytest.mark.parametrize(("kernel", "points"), HIGH_RANK.values(), ids=HIGH_RANK.keys())
def test_without_a_small_span_it_is_factored(kernel: Kernel, points: Array) -> None:
    assert spanning(CandidateGrid(kernel, points)) is None
    posteriors = play(kernel, points, Linear(0.1), 100)
    assert all(isinstance(p, ExactPosterior) for p in posteriors)


def test_rank_decides_up_to_its_limit() -> None:
    """Of unrelated points each is a direction of its own."""
    for n, spanned in ((LARGEST_SPAN, True), (LARGEST_SPAN + 1, False)):
        surface = CandidateGrid(RBF(0.01), np.arange(float(n))[:, None])
        found = spanning(surface)
        assert (found is not None) == spanned
        assert found is None or found.size == n


def test_other_points_of_the_domain_are_predicted_exactly_too() -> None:
    kernel, points = LOW_RANK["line"]
    p = play(kernel, points, Wiener(0.02), 120)[-1]
    assert isinstance(p, NystromPosterior)
    between, outside = points[:-1] + 0.1, points[-1:] + np.array([[1.0], [5.0], [20.0], [90.0]])
    fresh = Factored().condition(kernel, p.data)
    for at, close in ((between, 1e-9), (outside, 1e-6)):
        for one, other in zip(p.predict(at), fresh.predict(at), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=close * np.abs(other).max())


def test_observations_off_the_surface_are_factored() -> None:
    kernel, points = LOW_RANK["square"]
    surface, rng = CandidateGrid(kernel, points), np.random.default_rng(0)
    X = points[rng.permutation(len(points))[:100]]
    Y, v = rng.standard_normal((100, 2)), rng.uniform(0.01, 0.1, 100)
    on = Exact().condition(kernel, Data(X, Y, v), surface=surface)
    assert isinstance(on, NystromPosterior)
    moved = X.copy()
    moved[50] += 1e-3
    off = Exact().condition(kernel, Data(moved, Y, v), surface=surface, previous=on)
    assert isinstance(off, ExactPosterior)
    assert_same(off, Factored().condition(kernel, Data(moved, Y, v), surface=surface), points)
    # -0.0 is the point 0.0.
    zero = np.where(X == 0.0, -0.0, X)
    assert isinstance(
        Exact().condition(kernel, Data(zero, Y, v), surface=surface), NystromPosterior
    )
    # And without fixed points, or under a kernel that sees time, there is nothing to span.
    assert isinstance(Exact().condition(kernel, Data(X, Y, v)), ExactPosterior)
    moving = OnSpace(kernel) * Drift(0.01)
    data = Data(inputs(moving, X, np.arange(100.0)), Y, v)
    made = Exact().condition(moving, data, surface=CandidateGrid(moving, points), now=100.0)
    assert isinstance(made, ExactPosterior)


@pytest.mark.parametrize(("length", "enough"), [(8.0, FEW), (3.0, 93)])
def test_few_distinct_inputs_are_factored(length: float, enough: int) -> None:
    """Fewer than a factorisation minds, or than the span has points, however often observed."""
    kernel, rng = RBF(length), np.random.default_rng(0)
    surface = CandidateGrid(kernel, LINE)
    span = spanning(surface)
    assert span is not None
    assert max(span.size, FEW) == enough
    X = LINE[rng.permutation(len(LINE))]
    for n, kind in ((enough - 1, ExactPosterior), (enough, NystromPosterior)):
        Z = np.repeat(X[:n], 3, axis=0)
        data = Data(Z, rng.standard_normal((3 * n, 2)), np.full(3 * n, 0.1))
        assert type(Exact().condition(kernel, data, surface=surface)) is kind


def test_appended_rows_stay_with_a_factor_and_a_new_scale_too() -> None:
    kernel, points = LOW_RANK["square"]
    surface, rng = CandidateGrid(kernel, points), np.random.default_rng(0)
    X = points[rng.permutation(len(points))[:130]]
    data = Data(X, rng.standard_normal((130, 2)), rng.uniform(0.01, 0.1, 130))
    p: Any = None
    for n in range(1, 121):
        p = Exact().condition(kernel, data_to(data, n), surface=surface, previous=p)
        assert isinstance(p, ExactPosterior)
    assert p.extended
    scaled = Data(X, data.Y, data.variance / 4)
    p = Exact().condition(kernel, data_to(scaled, 121), surface=surface, previous=p)
    assert isinstance(p, ExactPosterior)
    assert not p.extended
    assert_same(p, Factored().condition(kernel, data_to(scaled, 121), surface=surface), points)
    p = Exact().condition(kernel, data_to(scaled, 122), surface=surface, previous=p)
    assert p.extended
    # Weights that change twice in a row are a run of another kind.
    p = Exact().condition(kernel, data_to(data, 123), surface=surface, previous=p)
    p = Exact().condition(kernel, data_to(scaled, 124), surface=surface, previous=p)
    assert isinstance(p, NystromPosterior)
    assert_same(p, Factored().condition(kernel, data_to(scaled, 124), surface=surface), points)


def data_to(data: Data, n: int) -> Data:
    return Data(data.Z[:n], data.Y[:n], data.variance[:n])
