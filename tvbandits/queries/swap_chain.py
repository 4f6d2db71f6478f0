"""The swap chain of a k-DPP, run without a step of Python for every step of the chain."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas

from tvbandits.core.arrays import Array, Index
from tvbandits.core.linalg import cholesky, solve_lower

CHUNK = 4096
"""Proposals drawn at once from the generator."""


BLOCK_OVERHEAD = 1e5
"""Starting a block of proposals costs as much time as looking at `BLOCK_OVERHEAD / k^2` of them."""


REFRESH = 256
"""Swaps after which the whitening table is computed afresh, whatever its consistency."""


CONSISTENCY = 1e-6
"""Relative gap between two computations of one determinant ratio that calls for a fresh table."""


NOT_PSD = 1e-6
"""Relative size of a negative variance or eigenvalue that rounding does not explain."""


class SwapChain:
    """The set Z, and a whitening table A (k, k) with A A^T = L_Z^-1 from which all ratios follow.

    With V = A^T L_{Z,j}: S_j = L_jj - |V|^2 is j's conditional variance, A_i V its coefficient
    C_ij, and |A_i|^2 = (L_Z^-1)_ii, so that det L_{Z-i+j} / det L_Z = |A_i|^2 S_j + C_ij^2. Working
    with A rather than with L_Z^-1 loses half as many digits; no ratio is ever negative.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries.swap_chain import SwapChain
    >>> chain = SwapChain(np.diag([1.0, 2.0, 4.0]), chosen=np.array([0]), floor=1e-12)
    >>> print(chain.ratios(np.array([0]), np.array([1])).round(3))  # det 4 over det 1
    [4.]
    """

    def __init__(self, L: Array, chosen: Index, floor: float) -> None:
        self.L = np.ascontiguousarray(L)
        self.flat = self.L.ravel()
        self.diagonal = np.diagonal(L).copy()
        self.floor = floor
        """No conditional variance is smaller: L's smallest eigenvalue is not."""
        self.chosen = np.array(chosen, dtype=np.int64)
        unused = np.ones(len(L), dtype=bool)
        unused[self.chosen] = False
        self.others = np.flatnonzero(unused)
        self.accepted = 0
        self.raised = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Compute the table from a Cholesky factor."""
        factor = cholesky(self.L[np.ix_(self.chosen, self.chosen)], "kernel matrix of a k-DPP set")
        self.raised = max(self.raised, factor.jitter)
        inverse = solve_lower(factor.L, np.eye(len(self.chosen)))
        self.table = np.ascontiguousarray(inverse.T)
        self.age = 0

    def run(self, proposals: int, rng: np.random.Generator) -> None:
        """Put so many uniform proposals (i, j) to the Metropolis test, one after the other."""
        k, overhead = len(self.chosen), 1.0 + BLOCK_OVERHEAD / len(self.chosen) ** 2
        waited, wait = 0, 10.0  # proposals since the last swap, and between swaps on average
        for done in range(0, proposals, CHUNK):
            size = min(CHUNK, proposals - done)
            removed = rng.integers(k, size=size)
            added = rng.integers(len(self.others), size=size)
            threshold = rng.random(size)
            first = 0
            while first < size:
                # Minimises (time of the blocks needed) + (time on proposals behind the first swap).
                block = slice(first, first + 1 + int(math.sqrt(2 * overhead * max(wait, waited))))
                ratios = self.ratios(removed[block], added[block])
                passed = threshold[block] < ratios
                swap = int(passed.argmax())
                if passed[swap]:
                    self.swap(removed[first + swap], added[first + swap], ratios[swap])
                    wait += 0.1 * (waited + swap + 1 - wait)
                    first, waited = first + swap + 1, 0
                else:
                    first, waited = first + len(ratios), waited + len(ratios)

    def ratios(self, removed: Index, added: Index) -> Array:
        """Determinant ratios (m,) of swapping positions (m,) of `chosen` and of `others`."""
        j = self.others[added]
        cross = self.flat.take((j * len(self.L))[:, None] + self.chosen)
        V = cross @ self.table
        A = self.table.take(removed, axis=0)
        variance = self.diagonal[j] - np.einsum("ij,ij->i", V, V)
        if (variance < -NOT_PSD * self.diagonal[j]).any():
            raise ValueError(
                "K must be positive semi-definite, got a conditional variance of "
                f"{variance.min():.3g} times its mean diagonal"
            )
        variance = np.maximum(variance, self.floor)
        coefficient = np.einsum("ij,ij->i", A, V)
        return np.asarray(np.einsum("ij,ij->i", A, A) * variance + coefficient**2)

    def swap(self, removed: int, added: int, ratio: float) -> None:
        """Exchange a pair, and update the table in O(k^2).

        A reflection of the table's columns, which leaves A A^T alone, turns row i into a multiple
        of the last unit vector. Without that row and column A whitens L_{Z-i}; j takes their place
        as a new row of an inverse Cholesky factor does.
        """
        A, i, j = self.table, self.chosen[removed], self.others[added]
        u = A[removed].copy()
        norm = math.copysign(math.sqrt(u @ u), u[-1])
        u[-1] += norm
        blas.dger(-1.0 / (norm * u[-1]), u, A @ u, a=A.T, overwrite_a=1)
        A[:, -1] = 0.0
        A[removed] = 0.0
        v = self.L[j].take(self.chosen) @ A
        variance = self.diagonal[j] - v @ v
        self.chosen[removed], self.others[added] = j, i
        self.accepted += 1
        self.age += 1
        # The ratio a second time: det L_{Z-i+j} / det L_{Z-i} times det L_{Z-i} / det L_Z.
        if self.age >= REFRESH or abs(variance * norm**2 - ratio) > CONSISTENCY * ratio:
            self.refresh()
            return
        A[:, -1] = (A @ v) / -math.sqrt(variance)
        A[removed, -1] = 1.0 / math.sqrt(variance)
