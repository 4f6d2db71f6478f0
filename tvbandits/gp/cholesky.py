"""Compute the exact heteroscedastic Gaussian-process posterior by a Cholesky factor.

For observations at inputs Z with values y and noise variances v, Sigma = diag(v), [S] eqs. 11-12 are

    mu(z)      = k(z)^T (K + Sigma)^-1 y
    sigma^2(z) = k(z, z) - k(z)^T (K + Sigma)^-1 k(z)

computed as in Rasmussen & Williams, Algorithm 2.1. The factor depends on inputs and variances only.
Values may have several columns, because the mean is linear in them: a bandit conditions on the reward
and the constant 1 together, so that the prior mean may change without a new factorisation.

`condition_by_cholesky` takes the cheapest of three exact routes that applies:

* if the old rows are unchanged, the new rows are appended, O(n^2 + n A) each;
* if the oldest rows were dropped, they are rotated out, O(n (n + A)) each, then new rows are appended;
* in any other case observations of one input are merged into one of their joint precision, which
  gives the same posterior, and the matrix is factorised anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.gp.features import SpaceFeatures, pivoted_kernel_cholesky, terms_of
from tvbandits.gp.kernels.space_time import advance
from tvbandits.gp.posterior import (
    NOISE_LIMITS,
    AppendBuffer,
    CandidateGrid,
    Data,
    Expansion,
    GridPosterior,
    Groups,
    PosteriorSummary,
    drop_negligible,
    expand_posterior,
    level_covariance,
    no_grid_error,
)
from tvbandits.validation import Array


@dataclass(frozen=True)
class ExactConfig:
    """Constants of the exact posterior, which affect its speed and rounding.

    Attributes
    ----------
    rotate_from : int
        With fewer rows a new factorisation is faster than rotating rows out.
    merge_from : int
        At least this many rows are appended before rows of one input are merged.
    smallest_pivot : float
        A pivot of an appended row below this fraction of its diagonal has lost its digits. The matrix is
        then factorised anew, with jitter if it needs any.
    smallest_repeated_pivot : float
        The same for a repeated input, which a new factorisation merges without loss.
    few : int
        With fewer observations a new factorisation is as fast as a spanning dictionary or state.
    span_tolerance : float
        A dictionary spans the candidates if no candidate's residual variance exceeds this fraction of
        its prior variance.
    largest_span : int
        The largest rank of a spanning dictionary or state.
    """

    rotate_from: int = 96
    merge_from: int = 192
    smallest_pivot: float = 1e-13
    smallest_repeated_pivot: float = 1e-10
    few: int = 64
    span_tolerance: float = 1e-13
    largest_span: int = 256


CONFIG = ExactConfig()


@dataclass(frozen=True)
class ExactPosterior:
    """An exact posterior with its Cholesky factor, as `condition_by_cholesky` returns it.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
        The observations.
    rows : Data
        The rows of the factor: `data`, with observations of one input merged.
    factor : AppendBuffer of shape (u, u)
        L, the lower factor of K + Sigma.
    weights : AppendBuffer of shape (u, c)
        L^-1 Y of `rows`.
    log_det_ratio : float
        log det(Sigma + K) - log det Sigma.
    jitter : float
        Variance that was added to the diagonal for the factorisation.
    on_grid : GridPosterior or None
        The posterior at the candidates; None without candidates.
    extended : bool
        Whether rows were appended to the factor of an earlier posterior.
    merged : int
        The number of rows at the last search for repeated inputs.
    """

    kernel: Any
    data: Data
    rows: Data
    factor: AppendBuffer
    weights: AppendBuffer
    log_det_ratio: float
    jitter: float
    on_grid: GridPosterior | None
    extended: bool = False
    merged: int = 0

    @property
    def size(self) -> int:
        """Return the number of rows of the factor."""
        return len(self.rows.Z)

    @property
    def summary(self) -> PosteriorSummary:
        """Return descriptive values of the posterior."""
        W = self.weights.array
        return PosteriorSummary(
            kernel=self.kernel,
            data=self.data,
            size=self.size,
            products=np.asarray(W.T @ W),
            log_det_ratio=self.log_det_ratio,
            effective_dimension=self._effective_dimension,
            jitter=self.jitter,
            dense=True,
        )

    def _effective_dimension(self) -> float:
        """Return tr(K (K + Sigma)^-1): the sum of posterior over noise variances of the rows."""
        inverse = linalg.solve_lower(self.lower, np.eye(self.size))
        return self.size - float((inverse**2).sum(axis=0) @ self.rows.variance)

    @cached_property
    def lower(self) -> Array:
        """Return the factor in column-major order."""
        return np.asfortranarray(self.factor.array)

    @property
    def condition_number(self) -> float:
        """Return a lower bound of the condition number of K + Sigma, from the diagonal of its factor."""
        return linalg.diagonal_ratio(np.diagonal(self.factor.array)) ** 2

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> ExactPosterior | None:
        """Return the posterior given more observations, appended as rows of the factor."""
        n, on_grid = len(rows.Z), self.on_grid
        if len(self.rows.Z) == 0 or self.jitter > 0 or (grid is None) != (on_grid is None):
            return None
        largest = NOISE_LIMITS.negligible
        if n and rows.variance.max() > largest * float(self.kernel.diag(rows.Z).max()):
            return None
        if grid is not None and on_grid is not None and grid.space_time:
            on_grid = on_grid.advance(grid, self.rows.Z, now)
            if on_grid is None or find_cheaper_state(len(self.data.Z) + n, grid, False):
                return None
        elif on_grid is not None:
            on_grid = replace_fields(on_grid, now=now)
        posterior = replace_fields(self, on_grid=on_grid, extended=True)
        if n:
            appended = _append(self, on_grid, rows, grid)
            if appended is None:
                return None
            posterior = appended
        data = posterior.rows if self.rows is self.data else self.data.append(rows)
        # Nothing else refers to this new posterior; setting the field avoids a copy of it.
        object.__setattr__(posterior, "data", data)
        return reject_repetitive(posterior)

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, c) and variances (n,) at kernel inputs (n, p), or at candidates."""
        if isinstance(Z, CandidateGrid):
            on_grid = self.grid_posterior
            explained = on_grid.explained * on_grid.shrink**2
            return on_grid.means * on_grid.shrink, np.maximum(on_grid.prior - explained, 0.0)
        prior = np.asarray(self.kernel.diag(Z))
        if self.size == 0:
            return np.zeros((len(Z), self.data.Y.shape[1])), prior
        V = linalg.solve_lower(self.lower, self.kernel(self.rows.Z, Z))
        return V.T @ self.weights.array, np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of inputs (n1, p) and (n2, p), or candidates."""
        if isinstance(Z2, CandidateGrid):
            Z2 = Z2.at(self.grid_posterior.now)
        V1 = linalg.solve_lower(self.lower, self.kernel(self.rows.Z, Z1))
        if Z2 is Z1:  # this form is symmetric to the last bit
            return np.asarray(self.kernel(Z1) - V1.T @ V1)
        V2 = linalg.solve_lower(self.lower, self.kernel(self.rows.Z, Z2))
        return np.asarray(self.kernel(Z1, Z2) - V1.T @ V2)

    def fantasize(
        self, Z: Array, noise: float | Array, grid: CandidateGrid | None
    ) -> ExactPosterior:
        """Return the posterior given observations whose values are unknown."""
        rows = Data(Z, np.zeros((len(Z), self.data.Y.shape[1])), np.full(len(Z), noise))
        rows = Groups.of(Z).merge(rows)
        appended = _append(self, self.on_grid, rows, grid)
        if appended is not None:
            return appended
        now = 0.0 if self.on_grid is None else self.on_grid.now
        return factor(self.kernel, self.rows.append(rows), grid, now)

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Return centred joint samples (count, A) at the candidates, in O(A^3)."""
        Z = grid.at(self.grid_posterior.now)
        # A small posterior variance has rounding errors of the prior's size, so jitter is in its scale.
        prior = float(np.mean(self.kernel.diag(Z)))
        name = "posterior covariance of the candidates"
        L = linalg.cholesky(self.covariance(Z, Z), name, scale=prior).L
        return np.asarray(rng.standard_normal((count, len(Z))) @ L.T)

    @property
    def grid_posterior(self) -> GridPosterior:
        """Return the posterior at the candidates; raise a `ValueError` if there are none."""
        if self.on_grid is None:
            raise no_grid_error()
        return self.on_grid

    def begins_with(self, other: ExactPosterior) -> bool:
        """Return whether the first rows and rows of the factor are all those of `other`."""
        n = other.size
        if self.size < n or not np.array_equal(self.rows.Z[:n], other.rows.Z):
            return False
        # Rows of a storage never change, so that factors in the same storage agree.
        shared = self.factor.storage is other.factor.storage
        return shared or np.array_equal(self.factor.array[:n, :n], other.factor.array)


@expand_posterior.register
def _(posterior: ExactPosterior, largest_condition: float) -> Expansion | None:
    """Return the expansion with the matrix (K + Sigma)^-1 and the weights (K + Sigma)^-1 Y."""
    if posterior.size == 0 or posterior.condition_number > largest_condition:
        return None
    L = posterior.factor.array
    weights = linalg.solve_lower(L, posterior.weights.array, transposed=True)
    return Expansion(posterior.kernel, posterior.rows.Z, linalg.inverse(posterior.lower), weights)


def condition_by_cholesky(
    kernel: Any,
    data: Data,
    *,
    grid: CandidateGrid | None = None,
    now: float = 0.0,
    previous: ExactPosterior | None = None,
) -> ExactPosterior:
    """Return the exact posterior by a Cholesky factor, extending `previous` if that is cheaper.

    Parameters
    ----------
    kernel : scikit-learn kernel
    data : Data
        The observations.
    grid : CandidateGrid, optional
        The candidates that the posterior will be evaluated at, at the time `now`.
    previous : ExactPosterior, optional
        A posterior of the same kernel and grid on other data.

    Raises
    ------
    FactorisationError
        If the kernel matrix is not positive definite.
    """
    data = drop_negligible(kernel, data)
    route = None if previous is None else extend(previous, data, grid, now)
    return factor(kernel, data, grid, now) if route is None else route


def factor(kernel: Any, data: Data, grid: CandidateGrid | None, now: float) -> ExactPosterior:
    """Return the posterior by a new factorisation."""
    rows = Groups.of(data.inputs_with_levels).merge(data)
    cross, K = np.empty((0, 0 if grid is None else len(grid.points))), np.empty((0, 0))
    if grid is not None and len(rows.Z):
        cross = grid.rows(rows.Z, now)
        K = grid.covariance(rows.Z, cross)
    elif len(rows.Z):
        K = np.array(kernel(rows.Z))
    noise = float(np.log(rows.variance).sum())
    if rows.levels is not None and len(rows.Z):
        shared = level_covariance(rows.levels, rows.variance, float(np.max(kernel.diag(rows.Z))))
        K += shared
        shared[np.diag_indices_from(K)] += rows.variance
        noise = linalg.log_determinant(linalg.cholesky(shared, "noise with levels").L)
    diagonal = np.einsum("ii->i", K)
    diagonal += rows.variance  # `diagonal` is a view of `K`
    root = linalg.cholesky(K, "noisy kernel matrix")
    posterior = ExactPosterior(
        kernel=kernel,
        data=data,
        rows=rows,
        factor=AppendBuffer.of(root.L, square=True),
        weights=AppendBuffer.of(linalg.solve_lower(root.L, rows.Y)),
        log_det_ratio=linalg.log_determinant(root.L) - noise,
        jitter=root.jitter,
        on_grid=None,
        merged=len(rows.Z),
    )
    if grid is not None:
        z, prior = linalg.solve_lower(posterior.lower, cross), grid.prior_variance(now)
        # Nothing else refers to this new posterior; setting the field avoids a copy of it.
        on_grid = GridPosterior.of(z, posterior.weights.array, prior, now)
        object.__setattr__(posterior, "on_grid", on_grid)
    return posterior


def extend(
    previous: ExactPosterior, data: Data, grid: CandidateGrid | None, now: float
) -> ExactPosterior | None:
    """Condition by removing the oldest rows of `previous` and appending new ones.

    None if the data are not such a change of its rows, or if digits would be lost.
    """
    count = _count_dropped(previous, data)
    if count is None or count > len(previous.rows) // 8 or previous.jitter > 0:
        return None
    on_grid = None
    if grid is not None and previous.on_grid is not None:
        on_grid = previous.on_grid.advance(grid, previous.rows.Z, now)
    shorter = replace(previous, on_grid=on_grid)
    if count:
        shorter = _rotate_out(shorter, count)
    rows = data.rows(len(previous.data) - count)
    posterior = _append(shorter, shorter.on_grid, rows, grid)
    if posterior is None:
        return None
    if grid is not None and posterior.on_grid is None:
        z = linalg.solve_lower(posterior.lower, grid.rows(posterior.rows.Z, now))
        on_grid = GridPosterior.of(z, posterior.weights.array, grid.prior_variance(now), now)
        posterior = replace_fields(posterior, on_grid=on_grid)
    return replace(posterior, data=data, extended=True)


def reject_repetitive(posterior: ExactPosterior) -> ExactPosterior | None:
    """Return the posterior, or None if at least half of its rows repeat inputs of other rows.

    A new factor, of merged rows, is then smaller. Appended rows are not merged, and the search for
    repeated inputs runs whenever the number of rows has doubled.
    """
    size = len(posterior.rows.Z)
    if size - posterior.merged <= max(CONFIG.merge_from, posterior.merged):
        return posterior
    if 2 * len(Groups.of(posterior.rows.Z).first) <= size:
        return None
    return replace_fields(posterior, merged=size)


def _count_dropped(previous: ExactPosterior, new: Data) -> int | None:
    """Return how many of the oldest rows `new` lacks, if it begins with all the others.

    None if it does not, or if the factor does not allow rotating the rows out.
    """
    old = previous.data
    if len(old.Z) == 0 or len(new.Z) == 0:
        return None
    if len(previous.rows) != len(old) or len(old) < CONFIG.rotate_from:
        return 0 if new.starts_with(old) else None
    first = (new.Z[0] == old.Z).all(axis=1) & (old.variance == new.variance[0])
    # Repeated points give false matches. After a few of them a new factorisation is no slower.
    for skip in np.flatnonzero(first)[:4]:
        if new.starts_with(old, int(skip)):
            return int(skip)
    return None


def _rotate_out(posterior: ExactPosterior, count: int) -> ExactPosterior:
    """Return the posterior without the `count` oldest rows of the factor."""
    on_grid, W = posterior.on_grid, posterior.weights.array
    columns = W if on_grid is None else np.hstack([W, on_grid.embedding.array])
    L, columns = linalg.drop_rows(posterior.factor.array, columns, 0, count)
    W = np.ascontiguousarray(columns[:, : W.shape[1]])
    if on_grid is not None:
        z = np.ascontiguousarray(columns[:, W.shape[1] :])
        on_grid = replace_fields(
            on_grid,
            embedding=AppendBuffer.of(z),
            means=z.T @ W,
            explained=np.einsum("ij,ij->j", z, z),
        )
    rows = posterior.rows.rows(count)
    return replace_fields(
        posterior,
        rows=rows,
        factor=AppendBuffer.of(L, square=True),
        weights=AppendBuffer.of(W),
        log_det_ratio=linalg.log_determinant(L) - float(np.log(rows.variance).sum()),
        on_grid=on_grid,
    )


def _append(
    posterior: ExactPosterior, on_grid: GridPosterior | None, rows: Data, grid: CandidateGrid | None
) -> ExactPosterior | None:
    """Append observations as rows of L, of L^-1 Y and of the embedding; None if digits would be lost.

    `on_grid` replaces the posterior's own `on_grid`, and may be for another time.
    """
    kernel = posterior.kernel
    for i in range(len(rows.Z)):
        row = rows if len(rows.Z) == 1 else rows.row(i)
        below = _new_row_of_factor(posterior, on_grid, row.Z, grid)
        diagonal = float(kernel.diag(row.Z)[0]) + float(row.variance[0])
        pivot = diagonal - float(below @ below)
        repeated = (posterior.rows.Z == row.Z).all(axis=1).any()
        smallest = CONFIG.smallest_repeated_pivot if repeated else CONFIG.smallest_pivot
        if pivot <= smallest * diagonal:
            return None
        pivot = math.sqrt(pivot)
        weights = (row.Y[0] - below @ posterior.weights.array) / pivot
        if on_grid is not None and grid is not None:
            v = grid.rows(row.Z, on_grid.now)[0]
            v -= (below @ on_grid.embedding.array) * on_grid.shrink
            v /= pivot
            v /= on_grid.shrink
            on_grid = replace_fields(
                on_grid,
                embedding=on_grid.embedding.append(v),
                means=on_grid.means + v[:, None] * weights,
                explained=on_grid.explained + v**2,
            )
        information = 2 * math.log(pivot) - math.log(float(row.variance[0]))
        posterior = replace_fields(
            posterior,
            rows=posterior.rows.append(row),
            factor=posterior.factor.append(np.concatenate([below, [pivot]])),
            weights=posterior.weights.append(weights),
            log_det_ratio=posterior.log_det_ratio + information,
            on_grid=on_grid,
            extended=True,
        )
    return posterior


def _new_row_of_factor(
    posterior: ExactPosterior, on_grid: GridPosterior | None, z: Array, grid: CandidateGrid | None
) -> Array:
    """Return L^-1 k(Z, z) for one input z (1, p); for a candidate z, a column of the embedding."""
    kernel = posterior.kernel
    if grid is not None and on_grid is not None:
        index = grid.index(z[0, : grid.points.shape[1]])
        # The embedding is for the time `on_grid.now`. For an observation that is not older than any in
        # the factor, its column differs from that of the observation's time by one factor.
        shrink: float | None = 1.0
        if grid.space_time:
            newest = z[0, -1] >= posterior.rows.Z[:, -1].max(initial=-math.inf)
            shrink = None
            if newest and on_grid.now >= z[0, -1]:
                shrink = advance(kernel, on_grid.now - z[0, -1])
        if index is not None and shrink is not None and shrink > 1e-3:
            return on_grid.embedding.array[:, index] * (on_grid.shrink / shrink)
    return linalg.solve_lower(posterior.lower, np.asarray(kernel(posterior.rows.Z, z))[:, 0])


def embed(dictionary: ExactPosterior, Z: Array) -> Array:
    """Return the embedding z(x) = R^-1 k_S(x) of kernel inputs `Z` (n, p), shape (n, m)."""
    if dictionary.size == 0 or len(Z) == 0:
        return np.zeros((len(Z), dictionary.size))
    cross = np.asarray(dictionary.kernel(dictionary.rows.Z, Z))
    return np.asarray(linalg.solve_lower(dictionary.lower, cross).T)


# --- cheaper exact routes: dictionaries and states that span all candidates -------------------------


def find_spanning_dictionary(grid: CandidateGrid) -> ExactPosterior | None:
    """Return a small dictionary that spans all candidates to rounding; None if there is none.

    It comes from the pivoted Cholesky factor of the prior covariance, whose pivots are the inducing
    points and whose rows are the embedding of the candidates.
    """
    kernel, points, prior = grid.kernel, grid.points, grid.prior_variance(0.0)
    limit = CONFIG.span_tolerance * float(prior.max())
    pivoted = pivoted_kernel_cholesky(kernel, points, CONFIG.largest_span, CONFIG.span_tolerance)
    if float(pivoted.residual.max()) > limit:
        return None
    # Entries below rounding are set to 0, since products that underflow slow the arithmetic down.
    G = np.where(np.abs(pivoted.G) < 1e-18 * float(prior.max()) ** 0.5, 0.0, pivoted.G)
    r = len(pivoted.pivots)
    Z, no_values = points[pivoted.pivots], np.empty((r, 0))
    data = Data(Z, no_values, np.full(r, limit))
    return ExactPosterior(
        kernel=kernel,
        data=data,
        rows=data,
        factor=AppendBuffer.of(np.tril(G[:, pivoted.pivots].T), square=True),
        weights=AppendBuffer.of(no_values),
        log_det_ratio=0.0,
        jitter=0.0,
        on_grid=GridPosterior.of(G, no_values, prior, 0.0),
    )


def find_spanning_state(grid: CandidateGrid) -> SpaceFeatures | None:
    """Return a small state whose features span all candidates to rounding; None if there is none."""
    terms = terms_of(grid.kernel)
    if terms is None:
        return None
    state = SpaceFeatures.of(terms, grid.points, CONFIG.span_tolerance, CONFIG.largest_span)
    _, residual = state.observe(grid.points)
    limit = 2 * CONFIG.span_tolerance * float(grid.prior_variance(0.0).max())
    small = len(state.prior) <= CONFIG.largest_span
    return state if small and float(residual.max()) <= limit else None


def find_cheaper_state(n: int, grid: CandidateGrid, continues: bool) -> SpaceFeatures | None:
    """Return the state of a filter if filtering is the cheaper way to the exact posterior, else None.

    The kernel is a space-time kernel. A row of a factor of n rows costs n (n + A) for A candidates. With
    a state of m components, a step costs m^2 and a prediction of all candidates A m^2.

    Parameters
    ----------
    n : int
        Number of observations.
    grid : CandidateGrid
    continues : bool
        Whether there is a filter already; it is continued however few the observations are.
    """
    if not (continues or n >= CONFIG.few):
        return None
    A = len(grid.points)
    state: SpaceFeatures | None = grid.remember(find_spanning_state)
    if state is None or not (continues or n * (n + A) > (A + 4) * len(state.prior) ** 2):
        return None
    return state
