"""The bank as the posterior of a recipe: what it says is the bank's, and it keeps to the protocol."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.ensemble.recent import Recent
from tvbandits.gp.ensemble.rule import EnsemblePosterior, ModelEnsemble
from tvbandits.gp.kernels.additive import structured_kernel
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.protocol import Posterior

POINTS = np.random.default_rng(3).uniform(0, 5, (9, 2))
KERNEL = structured_kernel(RBF(1.0))
NONE = Observations.empty(2)


def observations(steps: int = 12, seed: int = 0) -> Observations:
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(POINTS), size=2 * steps)
    t = np.repeat(np.arange(1.0, steps + 1), 2)
    y = 4.0 + np.sin(POINTS[rows].sum(axis=1) + t / 4.0) + 0.1 * rng.standard_normal(len(t))
    return Observations(POINTS[rows], t, y, np.full(len(t), 0.01))


SURFACE = CandidateGrid(KERNEL, POINTS)


def data_of(seen: Observations) -> Data:
    return Data(np.column_stack([seen.X, seen.t]), seen.y[:, None], seen.variance)


def made(
    now: float = 13.0,
    seen: Observations | None = None,
    rule: ModelEnsemble = ModelEnsemble(),  # noqa: B008 - frozen
    previous: Posterior | None = None,
) -> EnsemblePosterior:
    data = data_of(observations() if seen is None else seen)
    found = rule.condition(
        KERNEL, data, surface=SURFACE, now=now, previous=previous, noise_variance=0.01
    )
    assert isinstance(found, EnsemblePosterior)
    return found


def straight() -> FilterEnsemble:
    bank, seen = FilterEnsemble.of(POINTS, 0.01), observations()
    for t in np.unique(seen.t):
        some = seen.take(seen.t == t)
        rows = [int((x == POINTS).all(axis=1).argmax()) for x in some.X]
        bank = bank.observe(rows, some.y, some.variance, float(t))
    return bank


def inputs(X: Array, t: float = 13.0) -> Array:
    return np.column_stack([X, np.full(len(X), t)])


def test_it_says_what_the_bank_says() -> None:
    posterior: Posterior = made()
    forecast = straight().predict(13.0)
    mean, variance = posterior.on_surface()
    np.testing.assert_array_equal(mean[:, 0], forecast.mean)
    np.testing.assert_array_equal(variance, forecast.learnable**2)
    np.testing.assert_array_equal(posterior.means_on_surface(), mean)
    again = posterior.predict(inputs(POINTS[[4, 1]]))
    np.testing.assert_array_equal(again[0], mean[[4, 1]])
    np.testing.assert_array_equal(again[1], variance[[4, 1]])
    assert posterior.size == 24


def test_what_is_new_at_every_place_is_widened_like_the_rest() -> None:
    space = SpatialSpec("matern12", 0.5)
    rule = ModelEnsemble((ModelSpec(space, space, 0.5, 0.5, 0.1, 0.1, np.inf, 5.0, 3.0),))
    known = made(rule=rule)
    wide = replace(known, recent=Recent(replace(known.ensemble, innovation=4.0)))
    _, learnable = wide.on_surface()
    deviation = np.sqrt(learnable + wide.nugget)
    np.testing.assert_allclose(deviation, wide.ensemble.predict(13.0).deviation)


def test_observations_may_come_in_any_order_and_each_counts_once() -> None:
    seen = observations()
    turned = made(seen=seen.take(slice(None, None, -1)))
    np.testing.assert_allclose(turned.forecast.mean, made().forecast.mean)
    early = made(12.0, seen.take(seen.t < 12.0))
    both = made(seen=seen, previous=early)
    assert both.size == 24
    np.testing.assert_array_equal(both.forecast.mean, made().forecast.mean)
    # Also where those that are new are not the last ones.
    gap = made(seen=seen.take(seen.t != 11.0))
    np.testing.assert_array_equal(made(previous=gap).forecast.mean, made().forecast.mean)
    assert made(previous=both) is both


def test_what_is_not_of_the_same_observations_is_left_aside() -> None:
    others = made(seen=observations(seed=1))
    np.testing.assert_array_equal(made(previous=others).forecast.mean, made().forecast.mean)
    of_more = made(rule=ModelEnsemble(capacity=1000))
    np.testing.assert_array_equal(made(previous=of_more).forecast.mean, made().forecast.mean)


def test_about_the_past_it_says_what_was_known_then() -> None:
    seen = observations()
    known = made(10.0, seen.take(seen.t <= 10.0))
    np.testing.assert_array_equal(made(10.0).forecast.mean, known.forecast.mean)


@pytest.mark.parametrize("seen", [NONE, observations()])
def test_before_anything_is_known_it_is_the_prior(seen: Observations) -> None:
    prior = ModelEnsemble().condition(KERNEL, data_of(seen), surface=SURFACE, now=0.5)
    mean, variance = prior.on_surface()
    assert (mean == 0).all()
    np.testing.assert_allclose(variance, KERNEL.diag(inputs(POINTS)))
    assert prior.nugget == 0.0
    assert not prior.learned
    less = prior.shrunk(inputs(POINTS[[2]], 0.5), 0.01, SURFACE).on_surface()[1]
    assert (less <= variance + 1e-12).all()
    assert less[2] < 0.1 * variance[2]


def test_covariances_are_those_of_the_beliefs() -> None:
    posterior = made()
    everyone = range(len(POINTS))
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    np.testing.assert_allclose(C, C.T, atol=1e-12)
    assert np.linalg.eigvalsh(C).min() > -1e-9
    widening = posterior.ensemble.widening**2
    np.testing.assert_allclose(widening * np.diag(C), posterior.on_surface()[1], rtol=1e-8)
    beliefs = posterior.beliefs(13.0, 2.0)
    np.testing.assert_array_equal(C, beliefs.among(everyone, everyone))


def test_one_more_reading_is_conditioning() -> None:
    posterior = made()
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    noise = 0.04 + posterior.own_nugget
    once = posterior.shrunk(inputs(POINTS[[3]]), 0.04, None)
    before, after = posterior.on_surface()[1], once.on_surface()[1]
    np.testing.assert_allclose(after, before - C[3] ** 2 / (C[3, 3] + noise), rtol=1e-9)
    np.testing.assert_array_equal(once.on_surface()[0], posterior.on_surface()[0])
    twice = once.shrunk(inputs(POINTS[[5]]), 0.04, None).on_surface()[1]
    among = C[np.ix_([3, 5], [3, 5])] + noise * np.eye(2)
    left = before - np.einsum("ij,ij->j", C[[3, 5]], np.linalg.solve(among, C[[3, 5]]))
    np.testing.assert_allclose(twice, left, rtol=1e-8)
    np.testing.assert_array_equal(posterior.on_surface()[1], before)  # nothing changed it
    # Together they are one after the other, also where a candidate is read again.
    rows = inputs(POINTS[[3, 5, 3]])
    again = once.shrunk(rows[1:2], 0.2, None).shrunk(rows[2:], 0.1, None)
    together = posterior.shrunk(rows, np.array([0.04, 0.2, 0.1]), None)
    np.testing.assert_allclose(together.on_surface()[1], again.on_surface()[1], rtol=1e-8)


def test_draws_have_the_covariance() -> None:
    posterior = made()
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    drawn = posterior.samples(posterior.surface, 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.03 * np.sqrt(C.max()))
    np.testing.assert_allclose(np.cov(drawn.T), C, atol=0.05 * C.max())


def test_points_between_the_candidates() -> None:
    posterior = made()
    mean, variance = posterior.on_surface()
    near, far = POINTS[[2]] + 1e-7, np.array([[1e4, 1e4]])
    close, spread = posterior.predict(inputs(near))
    at_home, away = posterior.predict(inputs(far))
    np.testing.assert_allclose(at_home[0, 0], mean.mean(), rtol=1e-6)
    assert away[0] > variance.max()
    assert 0 < spread[0] < away[0]
    assert abs(close[0, 0] - mean[2, 0]) < abs(at_home[0, 0] - mean[2, 0])
    some = np.concatenate([POINTS[[2, 6]], near, far])
    both = posterior.predict(inputs(some))
    np.testing.assert_allclose(both[0][:2], mean[[2, 6]])
    C = posterior.cross_covariance(inputs(some), inputs(POINTS))
    inside = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    np.testing.assert_allclose(C[:2], inside[[2, 6]], atol=1e-12)
    np.testing.assert_allclose(C, posterior.cross_covariance(inputs(POINTS), inputs(some)).T)


def test_points_are_told_by_dense_kriging() -> None:
    """One model, one shape: the textbook's simple kriging around the mean of the candidates."""
    space = SpatialSpec("matern12", 0.5)
    one = ModelSpec(space, space, 0.5, 0.5, 0.1, 0.1, np.inf, 5.0, 3.0)
    posterior = made(rule=ModelEnsemble((one,)))
    extent = np.ptp(POINTS, axis=0).max()
    X = np.array([[1.0, 1.0], [2.5, 4.0]])
    distance = lambda A, B: np.linalg.norm(A[:, None] - B[None], axis=2)  # noqa: E731
    K = np.exp(-distance(POINTS, POINTS) / (0.5 * extent))
    k = np.exp(-distance(X, POINTS) / (0.5 * extent))
    W = k @ np.linalg.inv(K)
    mean, middle = posterior.on_surface()[0][:, 0], posterior.on_surface()[0].mean()
    found, variance = posterior.predict(inputs(X))
    np.testing.assert_allclose(found[:, 0], middle + W @ (mean - middle), rtol=1e-4)
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    left = posterior.learned["scale"] ** 2 * (1.0 - np.einsum("ij,ij->i", W, k))
    W = W + (1.0 - W.sum(axis=1, keepdims=True)) / len(POINTS)
    expected = posterior.ensemble.widening**2 * (np.diag(W @ C @ W.T) + left)
    np.testing.assert_allclose(variance, expected, rtol=1e-3)


def test_its_prior_is_that_of_the_model_of_the_largest_weight() -> None:
    space = SpatialSpec("matern12", 0.5)
    one = ModelSpec(SpatialSpec("identity"), space, 0.4, 0.5, 0.1, 0.1, 50.0, 5.0, 3.0)
    Z = np.column_stack([POINTS[[0, 3, 3]], [2.0, 2.0, 8.0]])
    posterior = made(rule=ModelEnsemble((one,)))
    apart = np.linalg.norm(POINTS[0] - POINTS[3]) / (0.5 * np.ptp(POINTS, axis=0).max())
    near, later = np.exp(-apart), 0.4 * np.exp(-6.0 / 50.0) + 0.5 * np.exp(-6.0 / 5.0)
    across = 0.5 * near * np.exp(-6.0 / 5.0)
    expected = [[0.9, 0.5 * near, across], [0.5 * near, 0.9, later], [across, later, 0.9]]
    unit = posterior.learned["scale"] ** 2
    np.testing.assert_allclose(posterior.prior_covariance(Z), unit * np.array(expected))


def test_it_can_be_stored() -> None:
    posterior = made()
    posterior.on_surface()
    again = pickle.loads(pickle.dumps(posterior.shrunk(inputs(POINTS[[3]]), 0.1, None)))
    assert again.fantasy is None
    np.testing.assert_array_equal(again.on_surface()[0], posterior.on_surface()[0])
    np.testing.assert_array_equal(again.on_surface()[1], posterior.on_surface()[1])


def test_widths_of_theorems_have_nothing_to_go_by() -> None:
    assert np.isnan(made().log_det_ratio)
    assert np.isnan(made().effective_dimension())
    assert np.isnan(made().products).all()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: ModelEnsemble(capacity=0), "capacity must be a whole number"),
        (
            lambda: made(seen=Observations([[9.0, 9.0]], [1.0], [1.0], [1.0])),
            r"observes candidates, got the point \[9",
        ),
    ],
)
def test_errors_say_what_is_wrong(call: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()
