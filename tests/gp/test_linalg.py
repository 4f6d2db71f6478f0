import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.helpers.refusals import assert_refused
from tvbandits.gp import linalg
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.linalg import FactorisationError
from tvbandits.validation import Array

modest = settings(deadline=None, max_examples=40)
sizes = st.integers(0, 8)
seeds = st.integers(0, 2**32 - 1)


def positive_definite(n: int, rng: np.random.Generator, scale: float = 1.0) -> Array:
    root = rng.standard_normal((n, n))
    return scale * (root @ root.T + 0.5 * np.eye(n))


def assert_factor(L: Array, A: Array) -> None:
    assert L.shape == A.shape
    assert np.array_equal(L, np.tril(L))
    assert (np.diagonal(L) > 0).all()
    np.testing.assert_allclose(L @ L.T, A, rtol=1e-10, atol=1e-10 * np.abs(A).max(initial=0.0))


@modest
@given(sizes, seeds, st.sampled_from([1e-12, 1.0, 1e12]))
def test_cholesky_of_a_positive_definite_matrix_needs_no_jitter(
    n: int, seed: int, scale: float
) -> None:
    A = positive_definite(n, np.random.default_rng(seed), scale)
    upper_is_not_read = np.tril(A) + np.triu(np.full((n, n), 7.0), 1)
    before = upper_is_not_read.copy()
    result = linalg.cholesky(upper_is_not_read)
    assert_factor(result.L, A)
    assert result.jitter == 0.0
    assert np.array_equal(upper_is_not_read, before)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_cholesky_uses_and_reports_the_smallest_sufficient_jitter(scale: float) -> None:
    x = np.linspace(0.0, 1.0, 12)
    A = scale * np.exp(-0.5 * (x[:, None] - x) ** 2)
    result = linalg.cholesky(A)
    smaller = max(j * scale for j in linalg.JITTERS if j * scale < 0.99 * result.jitter)
    assert result.jitter > 0
    assert_factor(result.L, A + result.jitter * np.eye(12))
    np.testing.assert_allclose(result.jitter / scale, np.array(linalg.JITTERS)[1:].min(), rtol=1e-9)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        np.linalg.cholesky(A + smaller * np.eye(12))


@pytest.mark.parametrize("deficit", [1e-11, 1e-9, 1e-7])
def test_cholesky_raises_jitter_until_it_covers_the_deficit(deficit: float) -> None:
    result = linalg.cholesky(np.diag([1.0, 1.0, 1.0, -deficit]))
    expected = min(j for j in linalg.JITTERS if j * 0.75 > deficit)
    np.testing.assert_allclose(result.jitter, expected * 0.75, rtol=1e-6)


def test_cholesky_names_an_indefinite_matrix_and_a_remedy() -> None:
    message = r"the thing of shape \(2, 2\).*even with 1e-06 on its diagonal.*larger noise"
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert_refused(FactorisationError, message, linalg.cholesky, K, "the thing")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_cholesky_refuses_entries_that_are_not_finite(bad: float) -> None:
    with pytest.raises(FactorisationError, match=r"K of shape \(2, 2\) .*finite"):
        linalg.cholesky(np.array([[1.0, 0.0], [bad, 1.0]]), "K")


@modest
@given(sizes, st.integers(0, 5), seeds, st.booleans(), st.booleans(), st.booleans())
def test_solve_lower_inverts_the_factor_and_keeps_its_arguments(
    n: int, m: int, seed: int, transposed: bool, flat: bool, fortran: bool
) -> None:
    rng = np.random.default_rng(seed)
    L = np.array(np.linalg.cholesky(positive_definite(n, rng)), order="F" if fortran else "C")
    B = rng.standard_normal(n) if flat else rng.standard_normal((n, m))
    if fortran:
        B = np.asfortranarray(B)
    before = B.copy()
    solution = linalg.solve_lower(L, B, transposed=transposed)
    assert solution.shape == B.shape
    np.testing.assert_allclose((L.T if transposed else L) @ solution, B, rtol=1e-9, atol=1e-9)
    assert np.array_equal(B, before)
    solution[...] = 0.0
    assert np.array_equal(B, before)


@pytest.mark.parametrize(
    ("diagonal", "expected"),
    [
        ([], 1.0),
        ([3.0], 3.0 / 3.0),
        ([2.0, 8.0, 4.0], 4.0),
        ([1.0, 0.0], 1e150),
        ([1.0, -1e-20], 1e150),
        ([1e-310, 1e300], 1e150),
        ([0.0, 0.0], 1e150),
    ],
)
def test_diagonal_ratio_is_finite(diagonal: list[float], expected: float) -> None:
    ratio = linalg.diagonal_ratio(np.array(diagonal))
    assert ratio == expected
    assert np.isfinite(ratio**2)


@modest
@given(st.integers(1, 9), st.integers(0, 12), seeds, st.data())
def test_drop_rows_equals_a_new_factorisation(
    n: int, m: int, seed: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, n - 1))
    count = data.draw(st.integers(0, n - first))
    rng = np.random.default_rng(seed)
    A, B = positive_definite(n, rng), rng.standard_normal((n, m))
    L = linalg.cholesky(A).L
    V = linalg.solve_lower(L, B)
    before = L.copy(), V.copy()
    factor, whitened = linalg.drop_rows(L, V, first, count)
    remaining = np.r_[:first, first + count : n]
    assert_factor(factor, A[np.ix_(remaining, remaining)])
    assert whitened.shape == (n - count, m)
    np.testing.assert_allclose(factor @ whitened, B[remaining], rtol=1e-9, atol=1e-9)
    assert np.array_equal(L, before[0])
    assert np.array_equal(V, before[1])


@modest
@given(sizes, seeds, st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
def test_rank_one_update_equals_a_new_factorisation(n: int, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    A, x = positive_definite(n, rng), size * rng.standard_normal(n)
    assert_factor(linalg.rank_one_update(linalg.cholesky(A).L, x), A + np.outer(x, x))


def column_of(A: Array, requested_columns: list[int]) -> Callable[[int], Array]:
    def column(i: int) -> Array:
        requested_columns.append(i)
        return A[:, i]

    return column


@modest
@given(st.integers(0, 9), st.integers(0, 10), st.integers(0, 9), seeds)
def test_pivoted_cholesky_selects_greedily(n: int, rank: int, r: int, seed: int) -> None:
    root = np.random.default_rng(seed).standard_normal((n, r))
    A = root @ root.T
    tolerance = 1e-6
    requested_columns: list[int] = []
    result = linalg.pivoted_cholesky(
        np.diagonal(A), column_of(A, requested_columns), rank, tolerance
    )
    pivots: list[int] = []
    residual = A
    while len(pivots) < min(rank, n) and np.diagonal(residual).max() > tolerance:
        pivots.append(int(np.diagonal(residual).argmax()))
        residual = A - A[:, pivots] @ np.linalg.solve(A[np.ix_(pivots, pivots)], A[pivots])
    assert result.pivots.tolist() == pivots == requested_columns
    assert result.G.shape == (len(pivots), n)
    np.testing.assert_allclose(result.residual, np.maximum(np.diagonal(residual), 0.0), atol=1e-7)
    np.testing.assert_allclose(A - result.G.T @ result.G, residual, atol=1e-7)
    assert (result.residual >= 0.0).all()
    assert (result.residual[result.pivots] == 0.0).all()


@modest
@given(st.integers(2, 12), st.floats(0.3, 3.0), seeds)
def test_pivoted_cholesky_breaks_ties_despite_rounding(n: int, scale: float, seed: int) -> None:
    x = np.linspace(0.0, 3.0, n)  # mirrored, it is the same: rows tie in pairs
    A = np.exp(-np.abs(x[:, None] - x) / scale)
    rounded = A * (1.0 + 1e-14 * np.random.default_rng(seed).standard_normal(A.shape))
    np.fill_diagonal(rounded, 1.0)
    one, other = (
        linalg.pivoted_cholesky(np.diagonal(K), column_of(K, []), n, 1e-4) for K in (A, rounded)
    )
    assert one.pivots.tolist() == other.pivots.tolist()
    np.testing.assert_allclose(other.G, one.G, atol=1e-10)


@modest
@given(sizes, seeds)
def test_eigenpairs_decompose_a_matrix(n: int, seed: int) -> None:
    A = positive_definite(n, np.random.default_rng(seed))
    values, vectors = linalg.eigenpairs(A)
    np.testing.assert_allclose((vectors * values) @ vectors.T, A, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-9)
    assert (np.diff(values) >= 0).all()


ARM_NUMBERS = """25 19 8 23 0 26 11 13 28 11 12 14 2 14 21 22 29 22 15 22 14 22 26 3 11 22 11 0 19 11 17
20 26 17 7 20 17 3 9 20 7 11 22 29 22 17 16 5 11 24 23 11 22"""


def test_eigenpairs_decompose_a_matrix_with_clustered_eigenvalues() -> None:
    """Divide and conquer fails on some of these; on which of them depends on the processor."""
    rng = np.random.default_rng(0)
    space = SpatialSpec("rbf", 0.12)
    smooth = ModelSpec(space, space, 0.05, 0.95, 0.1, 1e-4, math.inf, 5.0, 10.0, smooth=True)
    bank = FilterEnsemble.of(np.random.default_rng([0, 77]).random((30, 2)), 0.04, [smooth])
    for t, row in enumerate(ARM_NUMBERS.split()):
        bank = bank.update([int(row)], rng.standard_normal(1), None, float(t))
    A = bank.filters[0].covariance[0]
    for _ in range(200):
        order = rng.permutation(len(A))
        shuffled = A[order][:, order]
        values, vectors = linalg.eigenpairs(shuffled)
        np.testing.assert_allclose((vectors * values) @ vectors.T, shuffled, atol=1e-12)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(A)), atol=1e-12)
        assert (np.diff(values) >= 0).all()


MESSAGE = r"\w.* of shape \(.*\).*: is the kernel a valid .*larger noise variance"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "factor",
    [
        linalg.eigenpairs,
        linalg.square_root,
        lambda A: linalg.whiten_each(A[None], A[None]),
        lambda A: linalg.predict_each(A[None], A[:1], A[:1]),
        lambda A: linalg.greedy_pivots(A, 0.0),
        lambda A: linalg.inverse_lower(np.where(np.isfinite(A), A, 0.0)),
        linalg.cholesky,
    ],
)
def test_factorisations_name_a_matrix_that_is_not_finite_and_a_remedy(
    factor: Callable[[Array], object], bad: float
) -> None:
    A = np.eye(3)
    A[1, 1] = bad
    assert_refused(FactorisationError, MESSAGE, factor, np.asfortranarray(A))


@modest
@given(sizes, st.integers(0, 8), seeds, st.sampled_from([1e-12, 1.0, 1e12]))
def test_square_root_reproduces_a_matrix_of_any_rank(
    n: int, r: int, seed: int, scale: float
) -> None:
    factor = np.random.default_rng(seed).standard_normal((n, r))
    A = scale * factor @ factor.T
    root = linalg.square_root(A)
    assert root.shape[0] == n
    assert root.shape[1] <= n
    np.testing.assert_allclose(root @ root.T, A, atol=1e-11 * scale * max(n * r, 1))


def test_whiten_each_equals_whitening_one_by_one() -> None:
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((3, 4, 4))
    A, B = roots @ np.swapaxes(roots, 1, 2) + np.eye(4), rng.standard_normal((3, 4, 2))
    factors, whitened = linalg.whiten_each(A, B)
    for a, b, L, w in zip(A, B, factors, whitened, strict=True):
        np.testing.assert_allclose(L @ L.T, a, atol=1e-12)
        np.testing.assert_allclose(w.T @ w, b.T @ np.linalg.inv(a) @ b, atol=1e-10)
    assert_refused(linalg.FactorisationError, "not positive definite", linalg.whiten_each, -A, B)
