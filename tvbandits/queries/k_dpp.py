"""Diverse subsets: k-DPPs by greedy search, by a chain of swaps, and exactly by the library dppy.

A k-DPP draws a set Z of k out of N items with probability proportional to det K_Z. [S] asks its expert
at such a set ([S] appendix A; Burt et al. 2020). Kernel matrices of nearby points are numerically
singular, so that the sampler draws from the k-DPP of

    L = K + jitter * mean(diag K) * I,

under which every set has a positive probability, also where k exceeds the rank of K. A factor of K
changes nothing; with a K of zeros all sets of size k have the same probability.

The chain evaluates many proposals at once in numpy, and not one by one in Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from tvbandits.gp.linalg import cholesky, greedy_pivots, pivoted_cholesky, solve_lower
from tvbandits.validation import (
    Array,
    Index,
    as_floats,
    as_rows,
    check_instance,
    positive_number,
    whole_number,
)


@dataclass(frozen=True)
class SamplerConfig:
    """The constants of the chain; none of them changes the distribution that it draws from.

    Attributes
    ----------
    chunk : int
        Number of proposals that are drawn at once from the generator.
    block_overhead : float
        Starting a block of proposals costs as much time as evaluating `block_overhead / k^2` of them.
    refresh : int
        Number of swaps after which the whitening table is computed anew.
    consistency : float
        Relative difference between two computations of a determinant ratio after which the table is
        computed anew.
    not_psd : float
        Relative size of a negative variance that is no rounding error.
    """

    chunk: int = 4096
    block_overhead: float = 1e5
    refresh: int = 256
    consistency: float = 1e-6
    not_psd: float = 1e-6


CONFIG = SamplerConfig()


class SwapChain:
    """The state of the chain: the set Z, and a whitening table A (k, k) with A A^T = L_Z^-1.

    With V = A^T L_{Z,j}: S_j = L_jj - |V|^2 is j's conditional variance, A_i V its coefficient
    C_ij, and |A_i|^2 = (L_Z^-1)_ii, so that det L_{Z-i+j} / det L_Z = |A_i|^2 S_j + C_ij^2. Working
    with A rather than with L_Z^-1 loses half as many digits; no ratio is ever negative.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries.k_dpp import SwapChain
    >>> chain = SwapChain(np.diag([1.0, 2.0, 4.0]), members=np.array([0]), floor=1e-12)
    >>> print(chain.ratios(np.array([0]), np.array([1])).round(3))  # det 4 over det 1
    [4.]
    """

    def __init__(self, L: Array, members: Index, floor: float) -> None:
        self.L = np.ascontiguousarray(L)
        self.flat = self.L.ravel()
        self.diagonal = np.diagonal(L).copy()
        # No conditional variance is smaller, since the smallest eigenvalue of L is not.
        self.floor = floor
        self.members = np.array(members, dtype=np.int64)
        is_other = np.ones(len(L), dtype=bool)
        is_other[self.members] = False
        self.others = np.flatnonzero(is_other)
        self.accepted = 0
        self.refresh()

    def refresh(self) -> None:
        """Compute the table from a Cholesky factor."""
        factor = cholesky(
            self.L[np.ix_(self.members, self.members)], "kernel matrix of a k-DPP set"
        )
        inverse = solve_lower(factor.L, np.eye(len(self.members)))
        self.table = np.ascontiguousarray(inverse.T)
        self.age = 0

    def run(self, proposals: int, rng: np.random.Generator) -> None:
        """Run the Metropolis test for a number of uniform proposals (i, j)."""
        k, overhead = len(self.members), 1.0 + CONFIG.block_overhead / len(self.members) ** 2
        waited, wait = 0, 10.0  # proposals since the last swap, and the average between swaps
        for count in range(0, proposals, CONFIG.chunk):
            size = min(CONFIG.chunk, proposals - count)
            # [S] Algorithm 2, line 5: i uniform in Z, j uniform outside.
            removals = rng.integers(k, size=size)
            additions = rng.integers(len(self.others), size=size)
            threshold = rng.random(size)
            first = 0
            while first < size:
                # This size minimizes the time for all blocks plus that for proposals after the first
                # swap.
                block = slice(first, first + 1 + int(math.sqrt(2 * overhead * max(wait, waited))))
                ratios = self.ratios(removals[block], additions[block])
                # Line 8: accept with probability min(1, ratio); `sample_mcmc` has the factor 1/2.
                accepts = threshold[block] < ratios
                swap = int(accepts.argmax())
                if accepts[swap]:
                    self.swap(removals[first + swap], additions[first + swap], ratios[swap])
                    wait += 0.1 * (waited + swap + 1 - wait)
                    first, waited = first + swap + 1, 0
                else:
                    first, waited = first + len(ratios), waited + len(ratios)

    def ratios(self, removals: Index, additions: Index) -> Array:
        """Return determinant ratios (m,) of swaps of positions (m,) of `members` and of `others`."""
        j = self.others[additions]
        cross = self.flat.take((j * len(self.L))[:, None] + self.members)
        V = cross @ self.table
        A = self.table.take(removals, axis=0)
        variance = self.diagonal[j] - np.einsum("ij,ij->i", V, V)
        if (variance < -CONFIG.not_psd * self.diagonal[j]).any():
            raise ValueError(
                "K must be positive semi-definite, got a conditional variance of "
                f"{variance.min():.3g} times its mean diagonal"
            )
        variance = np.maximum(variance, self.floor)
        # [S] Algorithm 2, line 7: det K_Z' / det K_Z.
        coefficient = np.einsum("ij,ij->i", A, V)
        return np.asarray(np.einsum("ij,ij->i", A, A) * variance + coefficient**2)

    def swap(self, removal: int, addition: int, ratio: float) -> None:
        """Swap a pair, and update the table in O(k^2).

        A reflection of the table's columns, which does not change A A^T, turns row i into a multiple of
        the last unit vector. Without that row and column A whitens L_{Z-i}; the row of j takes their
        place like a new row of an inverse Cholesky factor.
        """
        A, i, j = self.table, self.members[removal], self.others[addition]
        u = A[removal].copy()
        norm = math.copysign(math.sqrt(u @ u), u[-1])
        u[-1] += norm
        blas.dger(-1.0 / (norm * u[-1]), u, A @ u, a=A.T, overwrite_a=1)
        A[:, -1] = 0.0
        A[removal] = 0.0
        v = self.L[j].take(self.members) @ A
        variance = self.diagonal[j] - v @ v
        # [S] Algorithm 2, line 6: Z' = Z - i + j.
        self.members[removal], self.others[addition] = j, i
        self.accepted += 1
        self.age += 1
        # The ratio, computed a second time: det L_{Z-i+j} / det L_{Z-i} times det L_{Z-i} / det L_Z.
        if (
            self.age >= CONFIG.refresh
            or abs(variance * norm**2 - ratio) > CONFIG.consistency * ratio
        ):
            self.refresh()
            return
        A[:, -1] = (A @ v) / -math.sqrt(variance)
        A[removal, -1] = 1.0 / math.sqrt(variance)


@dataclass(frozen=True)
class Sample:
    """A set that the chain has drawn.

    Attributes
    ----------
    indices : array of shape (k,)
        The distinct items of the set, ascending.
    accepted : int
        Number of swaps.
    """

    indices: Index
    accepted: int


def greedy(K: ArrayLike, k: int, *, jitter: float = 1e-8) -> Index:
    """Return the set of greedily maximal determinant: [S] Alg. 3, a pivoted Cholesky factorisation.

    Each item has the largest variance conditional on those before it. Once no variance exceeds jitter *
    mean(diag K), determinants are rounding errors, and the set is filled with the other items of the
    largest conditional variance, with ties broken by index.

    Parameters
    ----------
    K : array of shape (N, N)
        Symmetric positive semi-definite.
    k : int
        Size of the set, 0 to N.
    jitter : float
        Relative to the mean diagonal of K; positive.

    Returns
    -------
    array of shape (k,)
        Distinct items, in the order of their choice.

    Raises
    ------
    ValueError
        If `K` is not a finite symmetric square matrix with a non-negative diagonal, `k` is not an
        integer from 0 to N, or `jitter` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.queries.k_dpp import greedy
    >>> K = RBF(1.0)(np.array([[0.0], [0.1], [3.0]])) + np.diag([0.2, 0.0, 0.0])
    >>> print(greedy(K, 2))
    [0 2]
    """
    kernel = _check_kernel_matrix(K)
    k = _check_size(k, len(kernel))
    return _greedy(kernel, k, positive_number("jitter", jitter) * _scale(kernel))


def sample_mcmc(
    K: ArrayLike,
    k: int,
    *,
    steps: int,
    rng: np.random.Generator,
    start: Sequence[int] | Index | None = None,
    jitter: float = 1e-8,
) -> Sample:
    """Return the state of the lazy swap chain of [S] Alg. 2 (Burt et al. 2020 Alg. 1) after some steps.

    One step picks i in Z and j outside Z uniformly, and moves to Z - i + j with probability
    1/2 min(1, det L_{Z-i+j} / det L_Z); its limit is the k-DPP of L = K + jitter mean(diag K) I. The
    result has the distribution after exactly `steps` such steps, though few are run one by one: the
    factor 1/2 is independent of the state, so that the number of steps with a proposal is binomial; and
    since proposals are independent of the state, too, a block of them is compared with the present state
    at once, up to the first one that is accepted.

    Parameters
    ----------
    K, k, jitter
        As `greedy`.
    steps : int
        Number of lazy steps, with those that do not move.
    start : sequence of k distinct items, optional
        Default: the greedy set, [S] Alg. 3.

    Raises
    ------
    ValueError
        As `greedy`; also if `steps` is not an integer >= 0, `start` is not k distinct items, or `K`
        shows a clearly negative eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.queries.k_dpp import sample_mcmc
    >>> K = RBF(1.0)(np.linspace(0, 10, 50)[:, None])
    >>> drawn = sample_mcmc(K, 5, steps=200, rng=np.random.default_rng(0))
    >>> print(len(set(drawn.indices.tolist())))
    5
    """
    kernel = _check_kernel_matrix(K)
    k = _check_size(k, len(kernel))
    steps = whole_number("steps", steps, at_least=0)
    check_instance("rng", rng, np.random.Generator, "a numpy.random.Generator")
    scale, jitter = _scale(kernel), positive_number("jitter", jitter)
    if start is None:
        # [S] Algorithm 2, line 3.
        first = _greedy(kernel, k, jitter * scale)
    else:
        first = as_rows(start, len(kernel), "start")
        if len(first) != k:
            raise ValueError(f"start must have {k} items, got {len(first)}")
    if k in (0, len(kernel)):  # there is only one set
        return Sample(_sort(first), 0)
    L = _likelihood_kernel(kernel, scale, jitter)
    chain = SwapChain(L, first, jitter)
    # [S] Algorithm 2, lines 4 to 9.
    chain.run(int(rng.binomial(steps, 0.5)), rng)
    return Sample(_sort(chain.members), chain.accepted)


def mixing_steps(K: ArrayLike, k: int, accuracy: float, *, jitter: float = 1e-8) -> int:
    """Return the number of lazy steps after which the chain is within `accuracy` of the k-DPP.

    By the theorem of Anari, Oveis Gharan and Rezaei (arXiv 1602.05242), Lemma 9 of Burt et al. 2020 in
    [S], the total variation of the chain from a set Z_0 is at most epsilon after the number of steps

        log(1 / (epsilon P(Z_0))) / C,    C = min max(P(Z to Z'), P(Z' to Z)) = 1 / (2 k (N - k)),

    with the minimum over sets Z and Z' one swap apart. Z_0 is the greedy set, P(Z_0) = det L_{Z_0} /
    e_k(L), and e_k(L) is the sum of det L_Z over all sets of size k, a polynomial of the eigenvalues.

    Parameters
    ----------
    K, k, jitter
        As `greedy`.
    accuracy : float
        epsilon, the largest total variation; positive.

    Returns
    -------
    int
        0 where there is only one set.

    Raises
    ------
    ValueError
        As `greedy`; also if `accuracy` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries.k_dpp import mixing_steps
    >>> print(mixing_steps(np.eye(3), 1, 0.1))  # 2 * 1 * 2 * log(3 / 0.1) = 13.6
    14
    """
    kernel = _check_kernel_matrix(K)
    N, k = len(kernel), _check_size(k, len(kernel))
    positive_number("accuracy", accuracy)
    scale, jitter = _scale(kernel), positive_number("jitter", jitter)
    if k in (0, N):
        return 0
    first = _greedy(kernel, k, jitter * scale)
    L = _likelihood_kernel(kernel, scale, jitter)
    factor = cholesky(L[np.ix_(first, first)], "kernel matrix of a k-DPP set")
    log_determinant = 2.0 * float(np.log(np.diagonal(factor.L)).sum())
    # log e_0, ..., log e_k of more and more eigenvalues (Kulesza and Taskar 2012, algorithm 7).
    polynomials = np.full(k + 1, -np.inf)
    polynomials[0] = 0.0
    for eigenvalue in np.log(np.maximum(np.linalg.eigvalsh(L), jitter)):
        polynomials[1:] = np.logaddexp(polynomials[1:], eigenvalue + polynomials[:-1])
    # Rounding errors may raise a probability above 1.
    log_probability = min(log_determinant - float(polynomials[k]), 0.0)
    return max(math.ceil(2 * k * (N - k) * (-math.log(accuracy) - log_probability)), 0)


def sample_exact(K: ArrayLike, k: int, *, rng: np.random.Generator, jitter: float = 1e-8) -> Index:
    """Return an exact draw of the k-DPP of L = K + jitter mean(diag K) I, ascending, from dppy.

    dppy (Gautier et al. 2019) draws k eigenvectors of L by elementary symmetric polynomials, and then
    an item for each (Kulesza and Taskar 2012, algorithm 8): O(N^3), whereas a step of the chain of
    `sample_mcmc` costs at most O(k^2).

    Parameters
    ----------
    K, k, jitter
        As `greedy`.

    Raises
    ------
    ValueError
        As `greedy`; also if the polynomials overflow, which begins at about 250 items.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.queries.k_dpp import sample_exact
    >>> K = RBF(1.0)(np.linspace(0, 10, 50)[:, None])
    >>> print(len(set(sample_exact(K, 5, rng=np.random.default_rng(0)).tolist())))
    5
    """
    kernel = _check_kernel_matrix(K)
    k = _check_size(k, len(kernel))
    check_instance("rng", rng, np.random.Generator, "a numpy.random.Generator")
    scale, jitter = _scale(kernel), positive_number("jitter", jitter)
    if k in (0, len(kernel)):  # there is only one set
        return _sort(np.arange(k))
    # Imported here: dppy takes as long to import as all of this package.
    from dppy.finite_dpps import FiniteDPP

    L = _likelihood_kernel(kernel, scale, jitter)
    # A factor of L does not change the distribution. With this one the largest product of k eigenvalues
    # is 1, and the polynomials of degree 0 to k do not vanish.
    largest = np.maximum(np.linalg.eigvalsh(L)[-k:], jitter)
    process = FiniteDPP("likelihood", L=L / np.exp(np.log(largest).mean()))
    random_state = np.random.RandomState(rng.bit_generator)
    try:
        with np.errstate(over="raise", divide="raise"):
            items = process.sample_exact_k_dpp(k, random_state=random_state)
    except FloatingPointError as error:
        advice = 'ask for fewer, or take sampler="mcmc"'
        raise ValueError(f"{k} of {len(L)} items cannot be drawn exactly: {advice}") from error
    return _sort(np.array(items))


def _greedy(kernel: Array, k: int, tolerance: float) -> Index:
    """Return the greedy set of a valid kernel matrix, in the order of choice."""
    # [S] Algorithm 3, lines 3 to 6: the pivots of a Cholesky factor are the largest Schur complements.
    if len(kernel) <= max(4 * k, 256):
        # LAPACK computes all pivots faster than Python k of them.
        pivots = greedy_pivots(kernel, tolerance)
        if len(pivots) >= k:
            return pivots[:k]
    rows = pivoted_cholesky(np.diagonal(kernel), lambda i: kernel[i], k, tolerance)
    residual = rows.residual.copy()
    residual[rows.pivots] = -1.0
    fill = np.argsort(-residual, kind="stable")[: k - len(rows.pivots)]
    return np.concatenate([rows.pivots, fill])


def _scale(kernel: Array) -> float:
    """Return the mean of the diagonal; 1 if it is 0 or the matrix is empty."""
    return float(np.diagonal(kernel).sum()) / max(len(kernel), 1) or 1.0


def _likelihood_kernel(kernel: Array, scale: float, jitter: float) -> Array:
    """Return L of the k-DPP: the kernel matrix over its scale, with a jitter on the diagonal."""
    L = kernel / scale
    L[np.diag_indices_from(L)] += jitter
    return np.asarray(L)


def _sort(items: Index) -> Index:
    """Return the items in ascending order, read-only."""
    ordered = np.sort(items)
    ordered.setflags(write=False)
    return ordered


def _check_kernel_matrix(K: ArrayLike) -> Array:
    """Return a kernel matrix as floats; raise a `ValueError` if it is none."""
    kernel = as_floats(K, "K")
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1]:
        raise ValueError(f"K must be square, got shape {kernel.shape}")
    _refuse(~np.isfinite(kernel), kernel, "be finite")
    _refuse(np.diag(np.diagonal(kernel) < 0), kernel, "have no negative variance")
    apart = np.abs(kernel - kernel.T) > 1e-8 * np.abs(kernel).max(initial=0.0)
    _refuse(apart, kernel, "be symmetric")
    return kernel


def _refuse(bad: NDArray[np.bool_], kernel: Array, needs: str) -> None:
    """Raise a `ValueError` about the first bad entry of a matrix, if there is one."""
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"K must {needs}, got {kernel[row, column]} at ({row}, {column})")


def _check_size(k: int, N: int) -> int:
    """Return the size of a set; raise a `ValueError` unless it is from 0 to N."""
    size = whole_number("k", k, at_least=0)
    if size > N:
        raise ValueError(f"k must be from 0 to {N}, got {size}")
    return size
