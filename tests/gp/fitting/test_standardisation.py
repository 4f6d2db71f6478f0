from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, DotProduct, Kernel

from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.gp.fitting import standardisation
from tvbandits.gp.fitting.standardisation import (
    ANCHOR_WEIGHT,
    Scaling,
    declustering_weights,
    learn,
    robust_moments,
)
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.gp.posteriors.cholesky import Factored
from tvbandits.gp.posteriors.data import Data

modest = settings(deadline=None, max_examples=40)
START = Scaling(0.0, 1.0)


def rewards(n: int, seed: int = 0, noise: float = 0.01) -> Observations:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = 5.0 + 2.0 * np.sin(6 * X[:, 0]) + math.sqrt(noise) * rng.standard_normal(n)
    return Observations(X, np.arange(float(n)), y, np.full(n, noise))


def learned(seen: Observations, kernel: Kernel | None = None, noise: float = 0.01) -> Scaling:
    return learn(START, kernel or RBF(0.2), seen, np.ones(len(seen), dtype=bool), noise)


# Weights.


@modest
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_copies_of_a_point_count_as_one(copies: list[int]) -> None:
    far = 100.0 * np.arange(len(copies))[:, None]
    weights = declustering_weights(RBF(1.0)(np.repeat(far, copies, axis=0)))
    ends = np.cumsum(copies)
    together = [part.sum() for part in np.split(weights, ends[:-1])]
    np.testing.assert_allclose(together, 1 / len(copies), rtol=1e-12)


@modest
@given(st.integers(1, 20), st.integers(0, 1000))
def test_weights_are_inverse_to_the_number_of_neighbours(n: int, seed: int) -> None:
    C = RBF(0.3)(np.random.default_rng(seed).random((n, 2)))
    plain = [1 / sum(C[i, j] for j in range(n)) for i in range(n)]
    weights = declustering_weights(C)
    np.testing.assert_allclose(weights, np.array(plain) / sum(plain), rtol=1e-9)
    assert weights.sum() == pytest.approx(1.0)


def test_opposite_points_are_neighbours_too() -> None:
    weights = declustering_weights(np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(weights, [0.25, 0.25, 0.5])


# Moments.


def lower_median(values: list[float], weights: list[float]) -> float:
    """The smallest value with at least half of the weight at or below it."""
    return min(
        v
        for v in values
        if sum(w for u, w in zip(values, weights, strict=True) if u <= v) >= 0.5 * sum(weights)
    )


@modest
@given(st.integers(1, 40), st.integers(0, 1000))
def test_moments_are_the_weighted_formulas(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, w = rng.standard_t(2, n), rng.random(n) + 0.5  # heavy tails: some values are clipped
    w /= w.sum()
    middle = lower_median(y.tolist(), w.tolist())
    reach = 3 * 1.4826 * lower_median(np.abs(y - middle).tolist(), w.tolist())
    low = min(middle - reach, np.quantile(y, 0.05, method="higher"))
    high = max(middle + reach, np.quantile(y, 0.95, method="lower"))
    moved = [min(max(v, low), high) for v in y] if reach else y.tolist()
    mean = sum(a * b for a, b in zip(w, moved, strict=True))
    variance = sum(a * (b - mean) ** 2 for a, b in zip(w, moved, strict=True))
    np.testing.assert_allclose(robust_moments(y, w), (mean, variance), rtol=1e-9, atol=1e-12)


def test_a_rare_region_that_is_played_often_is_not_clipped() -> None:
    """Thirty plays of one high point weigh as little as one, and are no outliers all the same."""
    y = np.r_[np.linspace(0.9, 1.1, 30), np.full(30, 5.0)]
    weights = np.r_[np.full(30, 1.0), np.full(30, 1 / 30)] / 31
    assert robust_moments(y, weights)[0] == pytest.approx(weights @ y)


def test_one_value_has_no_variance() -> None:
    assert robust_moments(np.array([3.0]), np.ones(1)) == (3.0, 0.0)
    assert robust_moments(np.full(4, 3.0), np.full(4, 0.25)) == (3.0, 0.0)


def test_where_most_values_agree_nothing_is_clipped() -> None:
    mean, variance = robust_moments(np.array([0.0, 0.0, 0.0, 10.0]), np.full(4, 0.25))
    assert (mean, variance) == (2.5, 18.75)


@pytest.mark.parametrize("size", [1e2, 1e4, 1e8])
def test_one_value_in_twenty_may_be_anything(size: float) -> None:
    rng = np.random.default_rng(1)
    y = 3.0 + 0.5 * rng.standard_normal(400)
    y[::20] = size
    mean, variance = robust_moments(y, np.full(400, 1 / 400))
    assert mean == pytest.approx(3.0, abs=0.15)
    assert math.sqrt(variance) == pytest.approx(0.5, rel=0.35)


# When and from what it is learned.


def test_scale_is_estimated_again_as_values_multiply() -> None:
    seen, current, at = rewards(200), START, []
    for n in range(1, 201):
        new = learn(current, RBF(0.2), seen.take(slice(n)), np.ones(n, dtype=bool), 0.01)
        if new is not current:
            at.append(n)
            assert new.estimated_at == n
        current = new
    plain, last = [], 0
    for n in range(1, 201):
        if n >= 1.5 * last:
            plain.append(n)
            last = n
    assert at == plain == [1, 2, 3, 5, 8, 12, 18, 27, 41, 62, 93, 140]


def plain_scale(seen: Observations, C: Array) -> tuple[float, float]:
    """Anchor and scale, sum by sum: spread = scale^2 (1 - w C w) + sum_i w_i (1 - w_i) noise_i."""
    w = declustering_weights(C)
    mean, spread = robust_moments(seen.y, w)
    noise = sum(a * (1 - a) * v for a, v in zip(w, seen.variance, strict=True))
    shared = sum(w[i] * w[j] * C[i, j] for i in range(len(w)) for j in range(len(w)))
    return mean, math.sqrt((spread - noise) / (1 - shared))


@pytest.mark.parametrize("kernel", [RBF(0.2), 7.0 * OnSpace(RBF(0.2)) * Drift(0.5)], ids=str)
def test_what_is_learned_in_plain_formulas(kernel: Kernel) -> None:
    """With a space-time kernel, too, only the distance in space makes neighbours."""
    clean = rewards(60)
    seen = Observations(clean.X, clean.t, clean.y, np.linspace(0.01, 0.5, 60))
    made = learned(seen, kernel)
    assert (made.anchor, made.scale) == pytest.approx(plain_scale(seen, RBF(0.2)(seen.X)))


def test_the_scale_of_draws_from_the_prior_is_found() -> None:
    """Also where half of the points crowd in a corner."""
    rng = np.random.default_rng(4)
    X = np.vstack([rng.random((40, 2)), 0.1 * rng.random((40, 2))])
    root = np.linalg.cholesky(RBF(0.25)(X) + 1e-10 * np.eye(80))
    squares = []
    for _ in range(200):
        y = 50.0 + 3.0 * (root @ rng.standard_normal(80)) + 0.5 * rng.standard_normal(80)
        seen = Observations(X, np.zeros(80), y, np.full(80, 0.25))
        squares.append(learned(seen, RBF(0.25), noise=0.25).scale ** 2)
    assert np.mean(squares) == pytest.approx(9.0, rel=0.15)


def test_opposite_values_are_no_shared_offset() -> None:
    """Under f(x) = a x the values at -1 and 1 spread by a, though their correlation is -1."""
    X = np.array([[-1.0], [1.0]] * 20)
    seen = Observations(X, np.zeros(40), 3.0 * X[:, 0], np.full(40, 1e-6))
    made = learned(seen, DotProduct(1e-6), noise=1e-6)
    assert made.scale == pytest.approx(3.0, rel=1e-3)


def test_a_sample_from_one_spot_says_little() -> None:
    """Hardly any spread is expected there: it is multiplied by ten at most."""
    X = np.full((20, 2), 0.5)
    y = np.array([1.0, -1.0] * 10)
    seen = Observations(X, np.zeros(20), y, np.full(20, 0.2))
    assert learned(seen).scale == pytest.approx(math.sqrt((1.0 - 0.2 * 0.95) / 0.1))


def test_the_noise_is_the_smallest_scale() -> None:
    seen = rewards(30)
    flat = Observations(seen.X, seen.t, np.full(30, 2.0), np.full(30, 0.25))
    made = learned(flat, noise=0.25)
    assert (made.anchor, made.scale) == (pytest.approx(2.0), 0.5)
    assert learned(rewards(1)).scale == pytest.approx(0.1)


def test_playing_high_rewards_does_not_move_the_centre() -> None:
    """Nine in ten values are at the best points; the weights see to the rest."""
    rng = np.random.default_rng(2)
    X = np.vstack([rng.random((20, 2)), 0.01 * rng.random((180, 2)) + [0.25, 0.5]])
    y = 2.0 * np.sin(6 * X[:, 0])
    made = learned(Observations(X, np.zeros(200), y, np.full(200, 0.01)))
    everywhere = 2.0 * np.sin(6 * np.linspace(0, 1, 1000))
    assert abs(y.mean() - everywhere.mean()) > 1.5
    assert abs(made.anchor - everywhere.mean()) < 0.7
    assert y.std() < 0.5 * everywhere.std() < made.scale < 2 * everywhere.std()


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e6])
def test_the_unit_of_reward_does_not_matter(factor: float) -> None:
    seen, one = rewards(150), learned(rewards(150))
    other = learned(
        Observations(seen.X, seen.t, factor * seen.y, factor**2 * seen.variance),
        noise=factor**2 * 0.01,
    )
    assert other.scale == pytest.approx(factor * one.scale, rel=1e-9)
    assert other.anchor == pytest.approx(factor * one.anchor, rel=1e-9)


@pytest.mark.parametrize("shift", [-7.5, 1e6])
def test_the_zero_of_reward_does_not_matter(shift: float) -> None:
    seen, one = rewards(150), learned(rewards(150))
    other = learned(Observations(seen.X, seen.t, seen.y + shift, seen.variance))
    assert other.scale == pytest.approx(one.scale, rel=1e-6)
    assert other.anchor == pytest.approx(one.anchor + shift, rel=1e-9)


# The centre.


def centre_of(made: Scaling, seen: Observations, origin: float) -> float:
    values = np.column_stack([seen.y - origin, np.ones(len(seen))])
    variance = seen.variance / made.scale**2
    posterior = Factored().condition(RBF(0.2), Data(seen.X, values, variance))
    return made.centre(posterior.products, origin)


@pytest.mark.parametrize("origin", [0.0, 5.0, -40.0])
def test_the_centre_is_kriging_with_the_anchor_as_one_more_observation(origin: float) -> None:
    """The anchor joins as an independent value of variance 1 / ANCHOR_WEIGHT, in dense algebra."""
    seen, made = rewards(40), Scaling(3.0, 2.0, 40)
    A = np.zeros((41, 41))
    A[:40, :40] = RBF(0.2)(seen.X) + np.diag(seen.variance / made.scale**2)
    A[40, 40] = 1 / ANCHOR_WEIGHT
    ones, y = np.ones(41), np.append(seen.y, made.anchor)
    expected = (ones @ np.linalg.solve(A, y)) / (ones @ np.linalg.solve(A, ones))
    assert centre_of(made, seen, origin) == pytest.approx(expected, rel=1e-9)


def test_without_observations_the_centre_is_the_anchor() -> None:
    assert Scaling(3.0, 2.0, 5).centre(np.zeros((2, 2)), 1.0) == pytest.approx(3.0)


def test_a_fixed_mean_stays() -> None:
    assert centre_of(Scaling(3.0, 2.0), rewards(40), 5.0) == 3.0


def test_a_short_window_at_a_high_reward_is_drawn_back() -> None:
    rng = np.random.default_rng(3)
    X = 0.5 + 0.001 * rng.random((30, 2))
    seen = Observations(X, np.zeros(30), np.full(30, 9.0), np.full(30, 0.01))
    centre = centre_of(Scaling(0.0, 1.0, 30), seen, 9.0)
    assert centre == pytest.approx(9.0 / (1 + ANCHOR_WEIGHT), rel=0.02)  # thirty values worth one


def test_noise_beyond_a_float_in_prior_units_is_as_large_as_can_be_told() -> None:
    scaling = standardisation.Scaling(0.0, 1e-40)
    found = scaling.in_prior_units(np.array([1.0, 1e250, np.inf]))
    assert found.tolist() == [1.0 / 1e-40**2, standardisation.MOST_NOISE, np.inf]
