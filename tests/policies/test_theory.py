import math

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, DotProduct, Kernel, Matern

from tvbandits.gp.evidence import information_gains
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.policies import theory
from tvbandits.validation import Array

modest = settings(deadline=None, max_examples=30)


def gain_of(K: Array, rows: list[int], noise: float) -> float:
    """Return 1/2 log det(I + K / noise) of the selected rows, repeats included."""
    submatrix = K[np.ix_(rows, rows)]
    return 0.5 * float(np.linalg.slogdet(np.eye(len(rows)) + submatrix / noise)[1])


def greedy_gain(K: Array, T: int, noise: float) -> float:
    """Return the gain of observations that each raise the dense log det most."""
    rows: list[int] = []
    for _ in range(T):
        rows.append(int(np.argmax([gain_of(K, [*rows, i], noise) for i in range(len(K))])))
    return gain_of(K, rows, noise)


KERNELS: list[Kernel] = [RBF(0.2), 3.0 * Matern(0.5, nu=1.5), DotProduct(0.3)]


@modest
@given(
    st.sampled_from(KERNELS),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([1e-3, 0.1, 5.0]),
    st.integers(0, 1000),
)
@example(RBF(0.2), 4, 3, 1e-3, 218)  # the second point nearly ties with another
def test_information_gains_match_a_dense_greedy_selection(
    kernel: Kernel, n: int, T: int, noise: float, seed: int
) -> None:
    points = np.random.default_rng(seed).random((n, 2))
    K = kernel(points)
    gain = float(information_gains(kernel, points, noise, T)[-1])
    assert gain == pytest.approx(greedy_gain(K, T, noise), rel=1e-8)


def test_information_gains_ignore_the_time_kernel() -> None:
    points = np.random.default_rng(1).random((10, 2))
    drifting_gains = information_gains(OnSpace(RBF(0.3)) * Drift(0.4), points, 0.1, 8)
    assert drifting_gains == pytest.approx(information_gains(RBF(0.3), points, 0.1, 8))


def test_window_length_matches_values_by_hand() -> None:
    assert theory.window_length(400, 4.0, 16.0) == 20
    assert theory.window_length(400, 4.0, 16.1) == 21
    assert theory.window_length(400, 0.0, 16.0) == 400
    assert theory.window_length(400, 4.0, 0.0) == 1


def test_discount_matches_its_formula() -> None:
    discount = theory.discount(400, 4.0, 16.0)
    assert discount == pytest.approx(1 - 16.0**-0.25 * math.sqrt(4.0 / 400)) == pytest.approx(0.95)
    assert theory.discount(400, 0.0, 16.0) == 1 - 1 / 400**2
    assert theory.discount(400, 1e9, 16.0) == 0.01
    assert theory.discount(1, 0.0, 16.0) == 0.75


def test_regret_bound_matches_its_formula_and_falls_with_time() -> None:
    """R_T <= 2 beta sqrt(1 + sqrt(3 eta)) sqrt(2 T (1 + (s^2 log T)^2) gamma), over T."""
    T, beta, s2, gamma, eta = 500, 3.0, 0.04, 12.0, 0.2
    total = 2 * beta * math.sqrt(1 + math.sqrt(3 * eta))
    total *= math.sqrt(2 * T * (1 + (s2 * math.log(T)) ** 2) * gamma)
    assert theory.regret_bound(T, beta, s2, gamma) == pytest.approx(total / T)
    bounds = [theory.regret_bound(t, beta, s2, gamma) for t in (10, 1000, 100_000)]
    assert bounds == sorted(bounds, reverse=True)
