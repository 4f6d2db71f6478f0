"""Compute the posterior under a sum of terms amplitude * space * time by the Kalman filter.

The sum is represented by one state of fixed size (`tvbandits.gp.features`). An observation costs the
square of that size however long the history is, and up to the features the posterior is exact for the
present and the future ([HS] = Hartikainen & Sarkka 2010, docs/references.md). Predictions for times
before the latest observation come from smoothing. For a late observation the filter starts again from a
stored posterior before it.

The variance that the features leave out of a point counts as noise of its observations and as variance
of its reward, so that no variance is lost (the FITC approximation).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.gp.features import SpaceFeatures, terms_of
from tvbandits.gp.posterior import (
    CandidateGrid,
    Conditioning,
    Data,
    PosteriorRule,
    PosteriorSummary,
    discard_before,
    no_grid_error,
)
from tvbandits.validation import Array, as_points

# --- the Kalman filter and smoothing --------------------------------------------------------------
# The state s (m,) is stationary with a diagonal prior covariance P0, and has the linear transition F_h
# over a time h. Rewards of one time are y = H s + noise. The steps of the filter are (Anderson & Moore
# 1979, Optimal filtering, chapter 3; [HS] = Hartikainen & Sarkka 2010, docs/references.md):
#
#     predict:  mean <- F mean,                      P <- P0 - F (P0 - P) F^T
#     update:   mean <- mean + G^T L^-1 error,       P <- P - G^T G
#               with error = y - H mean, L L^T = H P H^T + noise and G = L^-1 H P
#
# The prediction error decomposition gives y^T (K + Sigma)^-1 y = sum |L^-1 error|^2 and log
# det(K + Sigma) = sum log det L L^T.
#
# Values for the past come from fixed-point smoothing (Anderson & Moore 1979, chapter 7): while later
# rewards are processed, the moments of values w^T s at an earlier time and their covariance with the
# present state are updated as well. No matrix of states is inverted.


@dataclass(frozen=True)
class StateSpaceConfig:
    """Constants of the filter.

    Attributes
    ----------
    smallest_noise : float
        A noise variance below this fraction of a point's prior variance is raised to it; the increase
        is reported as jitter.
    largest_batch : int
        The largest number of readings of one time in one update. With more, their covariance matrix
        would cost more than everything else.
    stride : int
        A stored earlier posterior lacks at least this many of the latest observations, where there are
        as many, and at most twice as many.
    """

    smallest_noise: float = 1e-10
    largest_batch: int = 1024
    stride: int = 64


CONFIG = StateSpaceConfig()


@dataclass(frozen=True)
class FeatureRows:
    """Rewards as observations Y = H s + noise of the state s, sorted by time.

    Attributes
    ----------
    times : array of shape (n,)
    H : array of shape (n, m)
        The observation matrix.
    Y : array of shape (n, c)
    noise : array of shape (n,)
        The noise variances that the filter uses; they are never below rounding of the prior.
    variance : array of shape (n,)
        Noise variances of the observations.
    joint : bool
        Whether rows of one time are one update, of at most `StateSpaceConfig.largest_batch` rows. This
        is faster than one update for each row, but rounds differently.
    """

    times: Array
    H: Array
    Y: Array
    noise: Array
    variance: Array
    joint: bool = False

    @property
    def batches(self) -> list[slice]:
        """Return the rows of each update."""
        n = len(self.times)
        if not self.joint:
            return [slice(i, i + 1) for i in range(n)]
        starts = np.flatnonzero(np.diff(self.times, prepend=-math.inf)).tolist()
        return [
            slice(first, min(first + CONFIG.largest_batch, end))
            for start, end in pairwise([*starts, n])
            for first in range(start, end, CONFIG.largest_batch)
        ]


@dataclass(frozen=True)
class Filter:
    """A Kalman filter: mean and covariance of the state at one time.

    Attributes
    ----------
    model : SpaceFeatures
    mean : array of shape (m, c)
    covariance : array of shape (m, m)
    time : float
        The time of mean and covariance; minus infinity before any observation.
    products : array of shape (c, c)
        Y^T (K + Sigma)^-1 Y.
    log_det_ratio : float
        log det(K + Sigma) - log det Sigma.
    """

    model: SpaceFeatures
    mean: Array
    covariance: Array
    time: float
    products: Array
    log_det_ratio: float

    @classmethod
    def prior(cls, model: SpaceFeatures, columns: int) -> Filter:
        """Return the filter before any reward, for values with `columns` columns."""
        mean, products = np.zeros((len(model.prior), columns)), np.zeros((columns, columns))
        return cls(model, mean, np.diag(model.prior), -math.inf, products, 0.0)

    def predict(self, t: float) -> Filter:
        """Return the filter at the time `t`; `self` if `t` is not after its time."""
        if not t > self.time:
            return self
        mean, covariance = self.model.predict(self.mean, self.covariance, t - self.time)
        return replace_fields(self, mean=mean, covariance=covariance, time=t)

    def step(self, rows: FeatureRows, batch: slice) -> tuple[Filter, Array, Array, Array]:
        """Return the filter updated with one batch, and its L, G and whitened error L^-1 error.

        Returns
        -------
        filter : Filter
        L : array of shape (k, k)
        G : array of shape (k, m)
        whitened : array of shape (k, c)
        """
        t, H, mean, P = float(rows.times[batch.start]), rows.H[batch], self.mean, self.covariance
        if t > self.time:
            mean, P = self.model.predict(mean, P, t - self.time)
        cross, error = P @ H.T, rows.Y[batch] - H @ mean
        S = H @ cross  # the innovation covariance
        S.flat[:: len(H) + 1] += rows.noise[batch]
        if len(H) == 1:  # the usual case, for which scalar arithmetic is faster
            L = np.sqrt(S)
            G, whitened, solution = cross.T / L, error / L, error / S
            products = error.T * error / S
        else:
            L = linalg.cholesky(S, "rewards of one time").L
            G, whitened = linalg.solve_lower(L, cross.T), linalg.solve_lower(L, error)
            solution = linalg.solve_lower(L, whitened, transposed=True)
            products = whitened.T @ whitened
        # The sums are per batch, so that the rounding does not depend on how many rows an update has.
        log_root, log_noise = (
            sum(map(math.log, values.tolist())) for values in (L.diagonal(), rows.variance[batch])
        )
        updated = replace_fields(
            self,
            mean=mean + cross @ solution,
            covariance=P - G.T @ G,
            time=t,
            products=self.products + products,
            log_det_ratio=self.log_det_ratio + (2.0 * log_root - log_noise),
        )
        return updated, L, G, whitened

    def update(self, rows: FeatureRows) -> Filter:
        """Return the filter updated with all rows, which must not be before its time."""
        latest = self
        for batch in rows.batches:
            latest, *_ = latest.step(rows, batch)
        return latest


def smooth_values(start: Filter, rows: FeatureRows, times: Array, H: Array) -> tuple[Array, Array]:
    """Return means and covariance of values H s at any times, given all rows, by smoothing.

    Each row costs O(m (m + q)) for q values, or for the q components of the states at all distinct
    times if these are fewer.

    Parameters
    ----------
    start : Filter
        The filter to start from; its time is before all rows and all `times`.
    rows : FeatureRows
    times : array of shape (q,)
        The times of the values.
    H : array of shape (q, m)

    Returns
    -------
    means : array of shape (q, c)
    covariance : array of shape (q, q)
    """
    m = len(start.model.prior)
    distinct, index = np.unique(times, return_inverse=True)
    if len(distinct) * m >= len(times):
        order = np.argsort(times, kind="stable")
        inverse = np.argsort(order, kind="stable")
        means, D = _smooth_sorted_values(start, rows, times[order], H[order])
        return means[inverse], D[np.ix_(inverse, inverse)]
    # The states at these times have fewer components than there are values: smooth the states.
    states = np.tile(np.eye(m), (len(distinct), 1))
    means, D = _smooth_sorted_values(start, rows, np.repeat(distinct, m), states)
    blocks = np.zeros((len(times), len(distinct), m))
    blocks[np.arange(len(times)), index] = H
    W = blocks.reshape(len(times), -1)
    return W @ means, W @ D @ W.T


def _smooth_sorted_values(
    latest: Filter, rows: FeatureRows, times: Array, H: Array
) -> tuple[Array, Array]:
    """Return `smooth_values` of values that are sorted by time.

    In the loop the times of the first n values have been reached: `means` and `D` are their means and
    covariance, `cross` is the covariance of the present state with them.
    """
    q, (m, columns) = len(times), latest.mean.shape
    means, cross, D = np.empty((q, columns)), np.empty((m, q)), np.empty((q, q))
    batches, n = deque(rows.batches), 0
    while n < q or batches:
        first = float(rows.times[batches[0].start]) if batches else math.inf
        is_update = not (n < q and times[n] < first)
        t = first if is_update else float(times[n])
        cross[:, :n] = latest.model.propagate(cross[:, :n], max(t - latest.time, 0.0))
        if is_update:
            batch = batches.popleft()
            latest, L, G, whitened = latest.step(rows, batch)
            half = linalg.solve_lower(L, rows.H[batch] @ cross[:, :n])
            means[:n] += half.T @ whitened
            cross[:, :n] -= G.T @ half
            D[:n, :n] -= half.T @ half
        else:
            latest = latest.predict(t)
            end = int(np.searchsorted(times, latest.time, side="right"))
            new = slice(n, end)
            means[new], cross[:, new] = H[new] @ latest.mean, latest.covariance @ H[new].T
            D[new, :end] = H[new] @ cross[:, :end]
            D[:n, new] = D[new, :n].T
            n = end
    return means, D


# --- the rule -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateSpace(PosteriorRule):
    """A posterior rule that conditions a sum of terms by a Kalman filter.

    Parameters
    ----------
    anchors : array of shape (A, d), optional
        Points from which the features are computed if the domain is not finite.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe, StateSpace
    >>> from tvbandits.gp.kernels.space_time import Drift, OnSpace
    >>> kernel = Drift(0.1) * OnSpace(RBF(1.0))
    >>> recipe = Recipe(Candidates([[0.0], [1.0]]), kernel, 0.01, posterior=StateSpace(), mean=0.0)
    >>> bandit = Bandit(recipe)
    >>> info = bandit.tell([[0.0]], [1.0], 1)
    >>> print(bandit.predict([[0.0]], t=11)[0].round(3))  # faded towards the prior mean
    [0.585]
    """

    anchors: Array | None = None

    def __post_init__(self) -> None:
        if self.anchors is not None:
            object.__setattr__(self, "anchors", as_points(self.anchors, name="anchors"))

    def check(self, kernel: Any) -> None:
        """Raise a `ValueError` unless the kernel is a sum of terms."""
        if terms_of(kernel) is None:
            needs = "a sum of terms constant * OnSpace(...) * OnTime(Matern(nu=0.5 or 1.5))"
            raise ValueError(f"a state space needs {needs}, or Drift for the time; got {kernel}")

    def condition(self, conditioning: Conditioning) -> StateSpacePosterior:
        """Return the posterior given data in any order, starting from a posterior of the first rows.

        Raises
        ------
        ValueError
            If the kernel is not a sum of terms, or there are no points to compute features from.
        """
        kernel, grid = conditioning.kernel, conditioning.grid
        return condition_filter(conditioning, lambda: self._state(kernel, grid))

    def _state(self, kernel: Any, grid: CandidateGrid | None) -> SpaceFeatures:
        self.check(kernel)
        terms: Any = terms_of(kernel)
        points = self.anchors if grid is None else grid.points
        if points is None:
            raise ValueError(
                "without candidates a state space needs anchors: StateSpace(anchors=X)"
            )
        return SpaceFeatures.of(terms, points)


def condition_filter(
    conditioning: Conditioning,
    make_state: Callable[[], SpaceFeatures],
    largest_residual: float | None = None,
) -> StateSpacePosterior:
    """Return the posterior given data in any order, starting from a posterior of the first rows.

    Without such a posterior, `make_state` returns the state of a new filter, with `largest_residual`
    for its `ObservationModel`.
    """
    kernel, data, grid, now, previous, *_ = conditioning
    data = data.sort_by_time()
    starts: tuple[StateSpacePosterior, ...] = ()
    if isinstance(previous, StateSpacePosterior):
        starts = (previous, *previous.checkpoints)
    for start in starts:
        if start.is_start_of(kernel, data, grid):
            posterior = start.update(data.rows(len(start.data)), now, grid)
            if posterior is not None:
                return posterior
    state = make_state()
    prior = Filter.prior(state, data.Y.shape[1])
    observation = ObservationModel(state, grid, largest_residual)
    return StateSpacePosterior(kernel, data.rows(0, 0), observation, prior, now).observe(data)


# --- the posterior --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservationModel:
    """The observation matrix of a state; its rows for the candidates are computed once.

    Attributes
    ----------
    state : SpaceFeatures
    grid : CandidateGrid or None
    largest_residual : float, optional
        An observation at a point whose features leave more than this fraction of its prior variance
        needs a new state. None: the state is never replaced.
    """

    state: SpaceFeatures
    grid: CandidateGrid | None
    largest_residual: float | None = None

    def spans(self, X: Array) -> bool:
        """Return whether the state can represent observations at points (n, d)."""
        return self.largest_residual is None or self.state.spans(X, self.largest_residual)

    @cached_property
    def on_grid(self) -> tuple[Array, Array]:
        """Return `SpaceFeatures.observe` of the candidates."""
        if self.grid is None:
            raise no_grid_error()
        return self.state.observe(self.grid.points)

    def rows(self, X: Array) -> tuple[Array, Array]:
        """Return `SpaceFeatures.observe` of points (n, d)."""
        if self.grid is None:
            return self.state.observe(X)
        points = self.grid.points
        if X.shape == points.shape and np.array_equal(X, points):
            return self.on_grid
        indices = self.grid.indices(X)
        if None in indices:
            return self.state.observe(X)
        H, residual = self.on_grid
        rows = np.array(indices, dtype=np.int64)
        return H[rows], residual[rows]


@dataclass(frozen=True)
class StateSpacePosterior:
    """A posterior that is a filtered state, as `StateSpace` returns it.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
        The observations, sorted by time.
    observation : ObservationModel
    filter : Filter
        The state at the time of the latest observation.
    now : float
        The time of predictions at the candidates.
    jitter : float
        The largest variance that was added to a noise variance below rounding.
    checkpoints : tuple of StateSpacePosterior
        Posteriors before the latest observations, the latest first, from which the filter starts for a
        late observation. They are a cache: from the beginning the filter gives the same result, bit for
        bit.
    """

    kernel: Any
    data: Data
    observation: ObservationModel
    filter: Filter
    now: float
    jitter: float = 0.0
    checkpoints: tuple[StateSpacePosterior, ...] = field(default=(), repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the checkpoints, which can be computed again."""
        return {**self.__dict__, "checkpoints": ()}

    @property
    def summary(self) -> PosteriorSummary:
        """Return descriptive values of the posterior."""
        return PosteriorSummary(
            kernel=self.kernel,
            data=self.data,
            size=len(self.data),
            products=self.filter.products,
            log_det_ratio=self.filter.log_det_ratio,
            effective_dimension=self._effective_dimension,
            jitter=self.jitter,
        )

    def _effective_dimension(self) -> float:
        """Return the number of components of the present state that the observations determine."""
        prior = self.filter.model.prior
        return float(len(prior) - (np.diagonal(self.filter.covariance) / prior).sum())

    def is_start_of(self, kernel: Any, data: Data, grid: CandidateGrid | None) -> bool:
        """Return whether it has this kernel and grid, and the sorted `data` begin with its data."""
        same = self.kernel is kernel or bool(self.kernel == kernel)
        return same and self.observation.grid is grid and data.starts_with(self.data)

    def observe(self, data: Data) -> StateSpacePosterior:
        """Return the posterior given `data`, sorted by time, which begin with the data it has."""
        new_rows = data.rows(len(self.data))
        if len(new_rows) == 0:
            return self
        rows, jitter = self._feature_rows(new_rows)
        checkpoints = self.checkpoints
        if not checkpoints or len(self.data) - len(checkpoints[0].data) >= CONFIG.stride:
            checkpoints = (replace_fields(self, checkpoints=()), *checkpoints[:1])
        return replace_fields(
            self,
            data=data,
            filter=self.filter.update(rows),
            jitter=max(self.jitter, jitter),
            checkpoints=checkpoints,
        )

    def update(
        self,
        rows: Data,
        now: float,
        grid: CandidateGrid | None,  # noqa: ARG002 - part of the protocol
    ) -> StateSpacePosterior | None:
        """Return the posterior given more observations, for the time `now`.

        None if an observation is earlier than the latest one, or at a point that the state cannot
        represent.
        """
        if len(rows) == 0:
            # At the same time `self` is returned, to keep its cached properties.
            return self if now == self.now else replace_fields(self, now=now)
        rows = rows.sort_by_time()
        if rows.Z[0, -1] < self.filter.time or not self.observation.spans(rows.Z[:, :-1]):
            return None
        return replace_fields(self, now=now).observe(self.data.append(rows))

    def _feature_rows(self, data: Data) -> tuple[FeatureRows, float]:
        """Return the data as observations of the state, and the largest increase of a noise variance."""
        H, residual = self.observation.rows(data.Z[:, :-1])
        # Noise below rounding of the prior variance would be lost, and the filter would break down.
        lowest = CONFIG.smallest_noise * (H**2 @ self.filter.model.prior)
        noise = np.maximum(data.variance + residual, lowest)
        raised = float((lowest - data.variance - residual).max(initial=0.0))
        return FeatureRows(data.Z[:, -1], H, data.Y, noise, data.variance), raised

    def _smooth_values(self, times: Array, H: Array) -> tuple[Array, Array]:
        """Return means and covariance of values H s of the state at any times."""
        checkpoints = ((posterior.filter, len(posterior.data)) for posterior in self.checkpoints)
        first = times.min(initial=math.inf)
        starts = ((filter_, n) for filter_, n in checkpoints if filter_.time <= first)
        start, n = next(starts, (self._prior, 0))
        return smooth_values(start, self._feature_rows(self.data.rows(n))[0], times, H)

    @property
    def _prior(self) -> Filter:
        """Return the filter before all observations."""
        return Filter.prior(self.filter.model, self.data.Y.shape[1])

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, c) and variances (n,) at inputs [x, t], or at candidates."""
        if isinstance(Z, CandidateGrid):
            return self._predict_grid()
        H, residual = self.observation.rows(Z[:, :-1])
        means, variances = np.empty((len(Z), self.data.Y.shape[1])), np.empty(len(Z))
        early = Z[:, -1] < self.filter.time
        if early.any():
            means[early], covariance = self._smooth_values(Z[early, -1], H[early])
            variances[early] = np.diagonal(covariance) + residual[early]
        for t in np.unique(Z[~early, -1]):
            at = Z[:, -1] == t
            mean, P = self._present if t == self.now else self._state_at(float(t))
            means[at] = H[at] @ mean
            variances[at] = np.einsum("ij,ij->i", H[at] @ P, H[at]) + residual[at]
        return means, np.maximum(variances, 0.0)

    def _predict_grid(self) -> tuple[Array, Array]:
        """Return means (A, c) and variances (A,) at the candidates, at the time `now`."""
        H, residual = self.observation.on_grid
        mean, P = self._present
        if len(self.data) == 0 and self.observation.grid is not None:
            # The exact prior variances, so that equivalent candidates tie to the last bit.
            return H @ mean, self.observation.grid.prior_variance(self.now)
        variance = np.einsum("ij,ij->i", H @ P, H) + residual
        return H @ mean, np.maximum(variance, 0.0)

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return centred samples (count, A) at the candidates, at the time `now`.

        The state is sampled jointly; the residual of the features independently for each candidate.
        """
        H, residual = self.observation.on_grid
        root = linalg.square_root(self._present[1])
        states = rng.standard_normal((count, root.shape[1])) @ root.T
        residuals = rng.standard_normal((count, len(residual))) * np.sqrt(residual)
        return np.asarray(states @ H.T + residuals)

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of inputs [x, t] with others, or with candidates.

        From the latest observation on, Cov(f(x, s), f(x', t)) = h(x)^T P_s F_{t-s}^T h(x') for s <= t.
        """
        if isinstance(Z2, CandidateGrid):
            Z2 = Z2.at(self.now)
        (H1, residual), (H2, _) = (self.observation.rows(Z[:, :-1]) for Z in (Z1, Z2))
        same = (Z1[:, None, :] == Z2[None, :, :]).all(axis=2)
        residuals = np.where(same, residual[:, None], 0.0)
        times = np.concatenate([Z1[:, -1], Z2[:, -1]])
        if (times < self.filter.time).any():
            _, covariance = self._smooth_values(times, np.concatenate([H1, H2]))
            return np.asarray(covariance[: len(Z1), len(Z1) :] + residuals)
        out = np.empty((len(Z1), len(Z2)))
        for s in np.unique(Z1[:, -1]):
            for t in np.unique(Z2[:, -1]):
                rows, columns = Z1[:, -1] == s, Z2[:, -1] == t
                _, P = self._state_at(float(min(s, t)))
                early, late = (H1[rows], H2[columns]) if s <= t else (H2[columns], H1[rows])
                cross = self.filter.model.propagate(P @ early.T, abs(float(t) - float(s)))
                block = cross.T @ late.T
                out[np.ix_(rows, columns)] = block if s <= t else block.T
        return out + residuals

    def fantasize(
        self,
        Z: Array,
        noise: float | Array,
        grid: CandidateGrid | None,  # noqa: ARG002 - part of the protocol
    ) -> StateSpacePosterior:
        """Return the posterior given observations of one time whose values are unknown.

        Their values are set to the means, so that means do not change.
        """
        mean = self.predict(Z)[0]
        at = int(np.searchsorted(self.data.Z[:, -1], Z[0, -1], side="right"))
        columns = zip(self.data, Data(Z, mean, np.full(len(Z), noise)), strict=True)
        data = Data(*(np.concatenate([old[:at], new, old[at:]]) for old, new in columns))
        if at == len(self.data):
            return self.observe(data)
        latest = self._prior.update(self._feature_rows(data)[0])
        return replace_fields(self, data=data, filter=latest, checkpoints=())

    @cached_property
    def _present(self) -> tuple[Array, Array]:
        return self._state_at(self.now)

    def _state_at(self, t: float) -> tuple[Array, Array]:
        """Return mean and covariance of the state at the time `t`."""
        if t < self.filter.time:
            m = len(self.filter.mean)
            return self._smooth_values(np.full(m, t), np.eye(m))
        prediction = self.filter.predict(t)
        return prediction.mean, prediction.covariance


@discard_before.register
def _(posterior: StateSpacePosterior, t: float) -> StateSpacePosterior:
    """Return the posterior without the rows before `t`, whose information is in the state."""
    data = posterior.data.rows_since(t)
    count = len(posterior.data) - len(data)
    checkpoints = tuple(
        replace_fields(checkpoint, data=checkpoint.data.rows_since(t))
        for checkpoint in posterior.checkpoints
        if len(checkpoint.data) >= count
    )
    return replace_fields(posterior, data=data, checkpoints=checkpoints)
