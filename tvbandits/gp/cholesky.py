"""The exact heteroscedastic Gaussian-process posterior.

With observations at inputs Z, values y and noise variances v (Sigma = diag(v)), [S] eqs. 11-12:

    mu(z)      = k(z)^T (K + Sigma)^-1 y
    sigma^2(z) = k(z, z) - k(z)^T (K + Sigma)^-1 k(z)

computed as in Rasmussen & Williams, Algorithm 2.1. The factor depends on inputs and variances only.
Values may have several columns, because the mean is linear in them: a bandit conditions the reward and
the constant 1 together, so that the prior mean may move without a new factorisation.

Three exact routes lead to a posterior, and `condition` takes the cheapest that applies:

* nothing older changed: the new rows are appended, O(n^2 + n A) each;
* the oldest rows were forgotten: they are rotated out, O(n (n + A)) each, then rows are appended;
* anything else: a new factorisation, after observations of one input are merged into one of their
  joint precision, which is the same posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tvbandits.data import changed
from tvbandits.gp import linalg
from tvbandits.gp.features import cheaper_state
from tvbandits.gp.kernels.structure import advance
from tvbandits.gp.posterior import UNCONDITIONED, Expansion, KernelPosterior
from tvbandits.gp.rows import (
    NEGLIGIBLE,
    AppendBuffer,
    CandidateGrid,
    Data,
    GridPosterior,
    Groups,
    level_noise,
    without_negligible,
)
from tvbandits.validation import Array

# Below this many rows a new factorisation is faster than rotating rows out.
ROTATE_FROM = 96


# So many rows are appended at the least before those of one input are merged.
MERGE_FROM = 192


# An appended pivot below this share of its diagonal has lost its digits, and a new factorisation
# decides about jitter; sooner for a repeated input, which a new factorisation merges without loss.
CANCELLED, CANCELLED_IF_REPEATED = 1e-13, 1e-10


@dataclass(frozen=True)
class ExactPosterior(KernelPosterior):
    """A conditioned Gaussian process. Made by `by_cholesky`."""

    kernel: Any
    data: Data
    rows: Data  # what was factored: `data`, with observations of one input merged
    factor: AppendBuffer  # L
    weights: AppendBuffer  # L^-1 Y of `rows`, (u, c)
    log_det_ratio: float
    """log det(Sigma + K) - log det Sigma: twice the information gain of the observations."""
    jitter: float
    """What had to be added to the diagonal for the factorisation; 0 in good health."""
    surface: GridPosterior | None
    extended: bool = False
    """Whether it came from an earlier posterior, row by row."""
    merged: int = 0
    """Its number of rows when observations of one input were last looked for, to merge them."""

    dictionary_size: ClassVar[None] = None
    dense: ClassVar[bool] = True

    @property
    def size(self) -> int:
        """Number of rows of the factor."""
        return len(self.rows.Z)

    @property
    def products(self) -> Array:
        """Y^T (K + Sigma)^-1 Y of the value columns of the rows, shape (c, c)."""
        W = self.weights.array
        return np.asarray(W.T @ W)

    @cached_property
    def lower(self) -> Array:
        """The factor, column after column."""
        return np.asfortranarray(self.factor.array)

    @property
    def condition_number(self) -> float:
        """Lower estimate of the condition number of K + Sigma, from the diagonal of its factor."""
        return linalg.spread_of(np.diagonal(self.factor.array)) ** 2

    def continued(
        self, rows: Data, now: float, surface: CandidateGrid | None
    ) -> ExactPosterior | None:
        """With observations more, as rows of the factor; None if that takes `condition`."""
        n, on = len(rows.Z), self.surface
        if len(self.rows.Z) == 0 or self.jitter > 0 or (surface is None) != (on is None):
            return None
        if n and rows.variance.max() > NEGLIGIBLE * float(self.kernel.diag(rows.Z).max()):
            return None
        if surface is not None and on is not None and surface.space_time:
            on = on.moved(surface, self.rows.Z, now)
            if on is None or cheaper_state(len(self.data.Z) + n, surface, False):
                return None
        elif on is not None:
            on = GridPosterior(on.V, now, on.shrink, on.means, on.explained, on.prior)
        made = _appended(self, on, rows, surface) if n else changed(self, surface=on, extended=True)
        if made is None:
            return None
        data = made.rows if self.rows is self.data else self.data.append(rows)
        object.__setattr__(made, "data", data)  # nobody has seen it yet
        return without_repeats(made)

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (m, c) and variances (m,) at kernel inputs `Z` of shape (m, p)."""
        prior = np.asarray(self.kernel.diag(Z))
        if self.size == 0:
            return np.zeros((len(Z), self.data.Y.shape[1])), prior
        V = linalg.solve_lower(self.lower, self.kernel(self.rows.Z, Z))
        return V.T @ self.weights.array, np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)

    def covariance(self, Z: Array) -> Array:
        """Posterior covariance (m, m) at kernel inputs `Z` of shape (m, p)."""
        V = linalg.solve_lower(self.lower, self.kernel(self.rows.Z, Z))
        return np.asarray(self.kernel(Z) - V.T @ V)

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (m1, m2) between kernel inputs `Z1` and `Z2`."""
        V1, V2 = (linalg.solve_lower(self.lower, self.kernel(self.rows.Z, Z)) for Z in (Z1, Z2))
        return np.asarray(self.kernel(Z1, Z2) - V1.T @ V2)

    def shrunk(
        self, Z: Array, noise: float | Array, surface: CandidateGrid | None
    ) -> ExactPosterior:
        """The same with more observations at inputs `Z` (k, p), their values unknown.

        Variances are those of the larger set; means are of no use.
        """
        rows = Data(Z, np.zeros((len(Z), self.data.Y.shape[1])), np.full(len(Z), noise))
        rows = Groups.of(Z).merge(rows)
        appended = _appended(self, self.surface, rows, surface)
        if appended is not None:
            return appended
        rows = self.rows.append(rows)
        return factor(self.kernel, rows, surface, 0.0 if self.surface is None else self.surface.now)

    def expansion(self, worst: float) -> Expansion | None:
        """With (K + Sigma)^-1 and (K + Sigma)^-1 Y."""
        if self.size == 0 or self.condition_number > worst:
            return None
        means = linalg.solve_lower(self.factor.array, self.weights.array, transposed=True)
        return Expansion(self.rows.Z, linalg.inverse(self.lower), means)

    def effective_dimension(self) -> float:
        """Sum over observations of posterior variance over noise variance: tr(K (K + Sigma)^-1)."""
        inverse = linalg.solve_lower(self.lower, np.eye(self.size))
        return self.size - float((inverse**2).sum(axis=0) @ self.rows.variance)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time of conditioning."""
        on = self.surface or self.fixed_points
        return on.means * on.shrink, np.maximum(on.prior - on.explained * on.shrink**2, 0.0)

    def means_on_surface(self) -> Array:
        """Means (A, c) at the fixed points."""
        on = self.fixed_points
        return on.means * on.shrink

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Centred joint draws at the fixed points, shape (count, A), in O(A^3)."""
        Z = surface.at(self.fixed_points.now)
        # Where much is known, what is left is near rounding of the prior: that is the yardstick.
        prior = float(np.mean(self.kernel.diag(Z)))
        what = "posterior covariance of the candidates"
        L = linalg.cholesky(self.covariance(Z), what, scale=prior).L
        return np.asarray(rng.standard_normal((count, len(Z))) @ L.T)

    @property
    def fixed_points(self) -> GridPosterior:
        """What is kept about the fixed points."""
        if self.surface is None:
            raise ValueError(UNCONDITIONED)
        return self.surface

    def begins_with(self, other: ExactPosterior) -> bool:
        """Whether its rows, and those of its factor, are the other's and then perhaps more."""
        n = other.size
        if self.size < n or not np.array_equal(self.rows.Z[:n], other.rows.Z):
            return False
        shared = self.factor.storage is other.factor.storage  # then no row of it has changed
        return shared or np.array_equal(self.factor.array[:n, :n], other.factor.array)


def by_cholesky(
    kernel: Any,
    data: Data,
    *,
    surface: CandidateGrid | None = None,
    now: float = 0.0,
    previous: ExactPosterior | None = None,
) -> ExactPosterior:
    """The exact posterior by a Cholesky factor, from `previous` where that is cheaper.

    Parameters
    ----------
    surface : CandidateGrid, optional
        Fixed points that `on_surface` will answer for, at the time `now`.
    previous : ExactPosterior, optional
        A posterior of the same kernel and surface on other data.

    Raises
    ------
    FactorisationError
        If the kernel matrix is not positive definite.
    """
    data = without_negligible(kernel, data)
    route = None if previous is None else extend(previous, data, surface, now)
    return factor(kernel, data, surface, now) if route is None else route


def factor(kernel: Any, data: Data, surface: CandidateGrid | None, now: float) -> ExactPosterior:
    """Condition from scratch."""
    rows = Groups.of(data.apart).merge(data)
    across, K = np.empty((0, 0 if surface is None else len(surface.points))), np.empty((0, 0))
    if surface is not None and len(rows.Z):
        across = surface.rows(rows.Z, now)
        K = surface.among(rows.Z, across)
    elif len(rows.Z):
        K = np.array(kernel(rows.Z))
    noise = float(np.log(rows.variance).sum())
    if rows.levels is not None and len(rows.Z):
        shared = level_noise(rows.levels, rows.variance, float(np.max(kernel.diag(rows.Z))))
        K += shared
        shared[np.diag_indices_from(K)] += rows.variance
        noise = linalg.log_determinant(linalg.cholesky(shared, "noise with levels").L)
    diagonal = np.einsum("ii->i", K)
    diagonal += rows.variance  # of `K`: it is a view
    made = linalg.cholesky(K, "noisy kernel matrix")
    posterior = ExactPosterior(
        kernel=kernel,
        data=data,
        rows=rows,
        factor=AppendBuffer.of(made.L, square=True),
        weights=AppendBuffer.of(linalg.solve_lower(made.L, rows.Y)),
        log_det_ratio=linalg.log_determinant(made.L) - noise,
        jitter=made.jitter,
        surface=None,
        merged=len(rows.Z),
    )
    if surface is not None:
        V, prior = linalg.solve_lower(posterior.lower, across), surface.prior_variance(now)
        # Nobody has seen it yet: filling the field in spares a copy of the whole value.
        on = GridPosterior.of(V, posterior.weights.array, prior, now)
        object.__setattr__(posterior, "surface", on)
    return posterior


def extend(
    previous: ExactPosterior, data: Data, surface: CandidateGrid | None, now: float
) -> ExactPosterior | None:
    """Condition by forgetting the oldest rows of `previous` and appending new ones, or None."""
    dropped = _dropped(previous, data)
    if dropped is None or dropped > len(previous.rows) // 8 or previous.jitter > 0:
        return None
    on = None
    if surface is not None and previous.surface is not None:
        on = previous.surface.moved(surface, previous.rows.Z, now)
    shorter = replace(previous, surface=on)
    if dropped:
        shorter = _rotate_out(shorter, dropped)
    rows = data.rows(len(previous.data) - dropped)
    posterior = _appended(shorter, shorter.surface, rows, surface)
    if posterior is None:
        return None
    if surface is not None and posterior.surface is None:
        V = linalg.solve_lower(posterior.lower, surface.rows(posterior.rows.Z, now))
        on = GridPosterior.of(V, posterior.weights.array, surface.prior_variance(now), now)
        posterior = changed(posterior, surface=on)
    return replace(posterior, data=data, extended=True)


def without_repeats(posterior: ExactPosterior) -> ExactPosterior | None:
    """The posterior itself, or None where most of its rows repeat others: a new factor is smaller.

    Rows that are appended are not merged; that is looked at whenever their number has doubled.
    """
    size = len(posterior.rows.Z)
    if size - posterior.merged <= max(MERGE_FROM, posterior.merged):
        return posterior
    if 2 * len(Groups.of(posterior.rows.Z).first) <= size:
        return None
    return changed(posterior, merged=size)


def _dropped(previous: ExactPosterior, new: Data) -> int | None:
    """How many of the oldest rows are gone, if `new` is the rest and perhaps more.

    None as well where rows that are gone could not be rotated out.
    """
    old = previous.data
    if len(old.Z) == 0 or len(new.Z) == 0:
        return None
    if len(previous.rows) != len(old) or len(old) < ROTATE_FROM:
        return 0 if new.starts_with(old) else None
    first = (new.Z[0] == old.Z).all(axis=1) & (old.variance == new.variance[0])
    # Repeated points make false starts; a few are tried, then a new factorisation is no loss.
    for skip in np.flatnonzero(first)[:4]:
        if new.starts_with(old, int(skip)):
            return int(skip)
    return None


def _rotate_out(posterior: ExactPosterior, count: int) -> ExactPosterior:
    """Forget the `count` oldest rows of the factor."""
    on, W = posterior.surface, posterior.weights.array
    carried = W if on is None else np.hstack([W, on.V.array])
    L, carried = linalg.drop_rows(posterior.factor.array, carried, 0, count)
    W = np.ascontiguousarray(carried[:, : W.shape[1]])
    if on is not None:
        V = np.ascontiguousarray(carried[:, W.shape[1] :])
        on = changed(on, V=AppendBuffer.of(V), means=V.T @ W, explained=np.einsum("ij,ij->j", V, V))
    kept = posterior.rows.rows(count)
    return changed(
        posterior,
        rows=kept,
        factor=AppendBuffer.of(L, square=True),
        weights=AppendBuffer.of(W),
        log_det_ratio=linalg.log_determinant(L) - float(np.log(kept.variance).sum()),
        surface=on,
    )


def _appended(
    posterior: ExactPosterior, on: GridPosterior | None, rows: Data, surface: CandidateGrid | None
) -> ExactPosterior | None:
    """Add observations, each a row of L, of L^-1 Y and of V; None where digits would be lost.

    `on` is what the posterior says on the surface, which may be of another time than its own.
    """
    kernel = posterior.kernel
    for i in range(len(rows.Z)):
        row = rows if len(rows.Z) == 1 else rows.row(i)
        below = _solved_column(posterior, on, row.Z, surface)
        diagonal = float(kernel.diag(row.Z)[0]) + float(row.variance[0])
        pivot = diagonal - float(below @ below)
        repeated = (posterior.rows.Z == row.Z).all(axis=1).any()
        if pivot <= (CANCELLED_IF_REPEATED if repeated else CANCELLED) * diagonal:
            return None
        pivot = math.sqrt(pivot)
        weights = (row.Y[0] - below @ posterior.weights.array) / pivot
        if on is not None and surface is not None:
            spread = surface.rows(row.Z, on.now)[0]
            spread -= (below @ on.V.array) * on.shrink
            spread /= pivot
            spread /= on.shrink
            means, explained = on.means + spread[:, None] * weights, on.explained + spread**2
            on = GridPosterior(on.V.append(spread), on.now, on.shrink, means, explained, on.prior)
        posterior = changed(
            posterior,
            rows=posterior.rows.append(row),
            factor=posterior.factor.append(np.concatenate([below, [pivot]])),
            weights=posterior.weights.append(weights),
            log_det_ratio=posterior.log_det_ratio
            + 2 * math.log(pivot)
            - math.log(float(row.variance[0])),
            surface=on,
            extended=True,
        )
    return posterior


def _solved_column(
    posterior: ExactPosterior, on: GridPosterior | None, z: Array, surface: CandidateGrid | None
) -> Array:
    """L^-1 k(Z, z) for one input z (1, p): at hand in V where z is one of the fixed points."""
    kernel = posterior.kernel
    if surface is not None and on is not None:
        where = surface.index(z[0, : surface.points.shape[1]])
        # V speaks about the points at `on.now`; an observation that is not older than any in the
        # factor differs from that by one number.
        back: float | None = 1.0
        if surface.space_time:
            newest = z[0, -1] >= posterior.rows.Z[:, -1].max(initial=-math.inf)
            back = advance(kernel, on.now - z[0, -1]) if newest and on.now >= z[0, -1] else None
        if where is not None and back is not None and back > 1e-3:
            return on.V.array[:, where] * (on.shrink / back)
    return linalg.solve_lower(posterior.lower, np.asarray(kernel(posterior.rows.Z, z))[:, 0])


def embed(dictionary: ExactPosterior, Z: Array) -> Array:
    """z(x) = R^-1 k_S(x) for kernel inputs `Z` (n, p), shape (n, m)."""
    if dictionary.size == 0 or len(Z) == 0:
        return np.zeros((len(Z), dictionary.size))
    cross = np.asarray(dictionary.kernel(dictionary.rows.Z, Z))
    return np.asarray(linalg.solve_lower(dictionary.lower, cross).T)
