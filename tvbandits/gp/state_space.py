"""The posterior of a sum of terms amplitude * space * time, by the Kalman filter.

The sum is one state of fixed size (`tvbandits.gp.features`); an observation costs the square
of that size, and history costs nothing: the posterior about the present and the future is exact however
long it is, up to the features ([HS] = Hartikainen & Sarkka 2010, docs/references.md). Questions about
times before the latest observation are answered by smoothing, and a late observation by going back to
what was known before it.

What the features leave out of a point's variance counts as noise of its observations and as variance of
its reward, so that no variance is lost (the FITC approximation).
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
    no_grid,
)
from tvbandits.validation import Array, as_points

# --- the Kalman filter and smoothing --------------------------------------------------------------
# A state s (m,) of diagonal prior covariance P0 is stationary and moves in time by a linear law F_h;
# rewards of one time are y = H s + noise, one or several of them. Between rewards and at them (Anderson
# & Moore 1979, Optimal filtering, chapter 3; [HS] = Hartikainen & Sarkka 2010, docs/references.md):
#
#     move:     mean <- F mean,                      P <- P0 - F (P0 - P) F^T
#     correct:  mean <- mean + G^T L^-1 error,       P <- P - G^T G
#               with error = y - H mean, L L^T = H P H^T + noise and G = L^-1 H P
#
# The decomposition of prediction errors gives y^T (K + Sigma)^-1 y = sum |L^-1 error|^2 and log
# det(K + Sigma) = sum log det L L^T.
#
# About the past it answers by fixed-point smoothing (Anderson & Moore 1979, chapter 7): values w^T
# s of the state at an earlier time are carried along while later rewards come in, with their
# covariance with the state of the present. No matrix of states is inverted.


@dataclass(frozen=True)
class FilterConfig:
    """The constants of the filter.

    Attributes
    ----------
    smallest_noise : float
        Noise below this share of a point's prior variance is raised to it, which is reported as jitter.
    largest_batch : int
        Most readings of one time in one update: of more, the matrix of all pairs would cost more than
        all else.
    stride : int
        Earlier posteriors are stored for so many observations at least, and for twice as many at most.
    """

    smallest_noise: float = 1e-10
    largest_batch: int = 1024
    stride: int = 64


CONFIG = FilterConfig()


@dataclass(frozen=True)
class FeatureRows:
    """Rewards as observations of a state, in order of time.

    Attributes
    ----------
    times : array of shape (n,)
    H : array of shape (n, m)
        Rows that observe the state.
    Y : array of shape (n, c)
    noise : array of shape (n,)
        Noise variances as the filter has them: never below rounding of the prior.
    variance : array of shape (n,)
        Noise variances of the observations.
    together : bool
        Whether those of one time are one update, of at most `FilterConfig.largest_batch`. It is faster
        than one by one, and comes to other bits.
    """

    times: Array
    H: Array
    Y: Array
    noise: Array
    variance: Array
    together: bool = False

    @property
    def pieces(self) -> list[slice]:
        """The rows of each update."""
        n = len(self.times)
        if not self.together:
            return [slice(i, i + 1) for i in range(n)]
        starts = np.flatnonzero(np.diff(self.times, prepend=-math.inf)).tolist()
        return [
            slice(first, min(first + CONFIG.largest_batch, end))
            for start, end in pairwise([*starts, n])
            for first in range(start, end, CONFIG.largest_batch)
        ]


@dataclass(frozen=True)
class Filter:
    """Mean and covariance of a state at one time.

    Attributes
    ----------
    model : SpaceFeatures
    mean : array of shape (m, c)
    covariance : array of shape (m, m)
    time : float
        The time of both; minus infinity before any observation.
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
        """Return the filter before any reward, for so many value columns."""
        mean, products = np.zeros((len(model.prior), columns)), np.zeros((columns, columns))
        return cls(model, mean, np.diag(model.prior), -math.inf, products, 0.0)

    def predict(self, t: float) -> Filter:
        """Return the filter at the time `t`; itself where that is in its past."""
        if not t > self.time:
            return self
        mean, covariance = self.model.predict(self.mean, self.covariance, t - self.time)
        return replace_fields(self, mean=mean, covariance=covariance, time=t)

    def step(self, rows: FeatureRows, piece: slice) -> tuple[Filter, Array, Array, Array]:
        """Return the filter updated with rows of one time, and their L, G and L^-1 error.

        Returns
        -------
        filter : Filter
        L : array of shape (k, k)
        G : array of shape (k, m)
        white : array of shape (k, c)
        """
        t, H, mean, P = float(rows.times[piece.start]), rows.H[piece], self.mean, self.covariance
        if t > self.time:
            mean, P = self.model.predict(mean, P, t - self.time)
        reach, error = P @ H.T, rows.Y[piece] - H @ mean
        spread = H @ reach
        spread.flat[:: len(H) + 1] += rows.noise[piece]
        if len(H) == 1:  # mostly: a number has no factor
            L = np.sqrt(spread)
            G, white, gain = reach.T / L, error / L, error / spread
            products = error.T * error / spread
        else:
            L = linalg.cholesky(spread, "rewards of one time").L
            G, white = linalg.solve_lower(L, reach.T), linalg.solve_lower(L, error)
            gain, products = linalg.solve_lower(L, white, transposed=True), white.T @ white
        # Of each piece by itself: more rows at once come to the same bits.
        roots, alone = (
            sum(map(math.log, each.tolist())) for each in (L.diagonal(), rows.variance[piece])
        )
        after = replace_fields(
            self,
            mean=mean + reach @ gain,
            covariance=P - G.T @ G,
            time=t,
            products=self.products + products,
            log_det_ratio=self.log_det_ratio + (2.0 * roots - alone),
        )
        return after, L, G, white

    def update(self, rows: FeatureRows) -> Filter:
        """Return the filter updated with all rows, none of which is before its time."""
        latest = self
        for piece in rows.pieces:
            latest, *_ = latest.step(rows, piece)
        return latest


def recall(start: Filter, rows: FeatureRows, times: Array, H: Array) -> tuple[Array, Array]:
    """Return means and covariance of values H s at any times, given all rows, by smoothing.

    O(m (m + q)) for each row, for q values, or for as many as the states at their times have numbers.

    Parameters
    ----------
    start : Filter
        Where to start: its time is before all rows, and all `times`.
    rows : FeatureRows
    times : array of shape (q,)
    H : array of shape (q, m)

    Returns
    -------
    means : array of shape (q, c)
    covariance : array of shape (q, q)
    """
    m = len(start.model.prior)
    distinct, which = np.unique(times, return_inverse=True)
    if len(distinct) * m >= len(times):
        order = np.argsort(times, kind="stable")
        back = np.argsort(order, kind="stable")
        means, D = _smooth(start, rows, times[order], H[order])
        return means[back], D[np.ix_(back, back)]
    # The states of those times are fewer numbers than the values.
    states = np.tile(np.eye(m), (len(distinct), 1))
    means, D = _smooth(start, rows, np.repeat(distinct, m), states)
    placed = np.zeros((len(times), len(distinct), m))
    placed[np.arange(len(times)), which] = H
    W = placed.reshape(len(times), -1)
    return W @ means, W @ D @ W.T


def _smooth(latest: Filter, rows: FeatureRows, times: Array, H: Array) -> tuple[Array, Array]:
    """Return `recall` of values in order of time.

    The first n of them have joined: their means, covariances D, and those with the present state.
    """
    q, (m, columns) = len(times), latest.mean.shape
    means, across, D = np.empty((q, columns)), np.empty((m, q)), np.empty((q, q))
    pieces, n = deque(rows.pieces), 0
    while n < q or pieces:
        first = float(rows.times[pieces[0].start]) if pieces else math.inf
        is_update = not (n < q and times[n] < first)
        t = first if is_update else float(times[n])
        across[:, :n] = latest.model.propagate(across[:, :n], max(t - latest.time, 0.0))
        if is_update:
            piece = pieces.popleft()
            latest, L, G, error = latest.step(rows, piece)
            half = linalg.solve_lower(L, rows.H[piece] @ across[:, :n])
            means[:n] += half.T @ error
            across[:, :n] -= G.T @ half
            D[:n, :n] -= half.T @ half
        else:
            latest = latest.predict(t)
            end = int(np.searchsorted(times, latest.time, side="right"))
            fresh = slice(n, end)
            means[fresh], across[:, fresh] = H[fresh] @ latest.mean, latest.covariance @ H[fresh].T
            D[fresh, :end] = H[fresh] @ across[:, :end]
            D[:n, fresh] = D[fresh, :n].T
            n = end
    return means, D


# --- the rule -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateSpace(PosteriorRule):
    """The rule: condition a sum of terms by a Kalman filter.

    Parameters
    ----------
    anchors : array of shape (A, d), optional
        Points that the features are made on, where the domain is not finite.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe, StateSpace
    >>> from tvbandits.gp.kernels.space_time import Drift, OnSpace
    >>> kernel = Drift(0.1) * OnSpace(RBF(1.0))
    >>> recipe = Recipe(Candidates([[0.0], [1.0]]), kernel, 0.01, posterior=StateSpace(), mean=0.0)
    >>> bandit = Bandit(recipe)
    >>> info = bandit.tell([[0.0]], [1.0], 1)
    >>> print(bandit.predict([[0.0]], t=11)[0].round(3))  # what has faded since
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
        """Condition on data, in any order, from a posterior of the first of them where there is one.

        Raises
        ------
        ValueError
            If the kernel is not a sum of terms, or there are no points to make features on.
        """
        kernel, grid = conditioning.kernel, conditioning.grid
        return condition_filter(conditioning, lambda: self._state(kernel, grid))

    def _state(self, kernel: Any, grid: CandidateGrid | None) -> SpaceFeatures:
        self.check(kernel)
        terms: Any = terms_of(kernel)
        points = self.anchors if grid is None else grid.points
        if points is None:
            raise ValueError("without candidates it needs anchors: StateSpace(anchors=points)")
        return SpaceFeatures.of(terms, points)


def condition_filter(
    conditioning: Conditioning,
    make_state: Callable[[], SpaceFeatures],
    largest_residual: float | None = None,
) -> StateSpacePosterior:
    """Condition on data, in any order, from a posterior of the first of them where there is one.

    Where a filter starts anew, `make_state` makes the state; `largest_residual` is that of
    `ObservationModel`.
    """
    kernel, data, grid, now, previous, *_ = conditioning
    data = data.in_time()
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
    """Rows that observe a state at points: looked up at the candidates, where there are any.

    Attributes
    ----------
    state : SpaceFeatures
    grid : CandidateGrid or None
    largest_residual : float, optional
        A new state is made for an observation at a point whose features leave more than this share of
        its prior variance. None: the state stays as it is.
    """

    state: SpaceFeatures
    grid: CandidateGrid | None
    largest_residual: float | None = None

    def spans(self, X: Array) -> bool:
        """Return whether the state suffices for observations at points (n, d)."""
        return self.largest_residual is None or self.state.spans(X, self.largest_residual)

    @cached_property
    def on_grid(self) -> tuple[Array, Array]:
        """`SpaceFeatures.observe` of the candidates."""
        if self.grid is None:
            raise no_grid()
        return self.state.observe(self.grid.points)

    def rows(self, X: Array) -> tuple[Array, Array]:
        """Return `SpaceFeatures.observe` of points (n, d)."""
        if self.grid is None:
            return self.state.observe(X)
        points = self.grid.points
        if X.shape == points.shape and np.array_equal(X, points):
            return self.on_grid
        where = self.grid.indices(X)
        if None in where:
            return self.state.observe(X)
        H, residual = self.on_grid
        index = np.array(where, dtype=np.int64)
        return H[index], residual[index]


@dataclass(frozen=True)
class StateSpacePosterior:
    """The state at the time of the latest observation. `StateSpace` makes it.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
        In order of time.
    observation : ObservationModel
    filter : Filter
        At the time of the latest observation.
    now : float
        The time of predictions at the candidates.
    jitter : float
        The most that was added to a noise variance below rounding.
    checkpoints : tuple of StateSpacePosterior
        Those before the latest observations, latest first, from which a late one starts. A cache:
        without it the filter starts at the beginning, and comes to the same bits.
    """

    kernel: Any
    data: Data
    observation: ObservationModel
    filter: Filter
    now: float
    jitter: float = 0.0
    checkpoints: tuple[StateSpacePosterior, ...] = field(default=(), repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what can be computed again."""
        return {**self.__dict__, "checkpoints": ()}

    @property
    def summary(self) -> PosteriorSummary:
        """Facts about it."""
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
        """Count the numbers of the state that the observations still determine."""
        prior = self.filter.model.prior
        return float(len(prior) - (np.diagonal(self.filter.covariance) / prior).sum())

    def is_start_of(self, kernel: Any, data: Data, grid: CandidateGrid | None) -> bool:
        """Return whether data (sorted by time) begin with its own."""
        same = self.kernel is kernel or bool(self.kernel == kernel)
        return same and self.observation.grid is grid and data.starts_with(self.data)

    def observe(self, data: Data) -> StateSpacePosterior:
        """Return the posterior with the rows of `data` (sorted by time) that come after its own."""
        rest = data.rows(len(self.data))
        if len(rest) == 0:
            return self
        rows, jitter = self._feature_rows(rest)
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
        grid: CandidateGrid | None,  # noqa: ARG002 - all posteriors have it
    ) -> StateSpacePosterior | None:
        """Return the posterior with more observations, about the time `now`; None if they are late."""
        if len(rows) == 0:
            # What was computed for this time is not computed again.
            return self if now == self.now else replace_fields(self, now=now)
        rows = rows.in_time()
        if rows.Z[0, -1] < self.filter.time or not self.observation.spans(rows.Z[:, :-1]):
            return None
        return replace_fields(self, now=now).observe(self.data.append(rows))

    def _feature_rows(self, data: Data) -> tuple[FeatureRows, float]:
        """Return observations as those of the state, and the most that a noise was raised by."""
        H, residual = self.observation.rows(data.Z[:, :-1])
        # Below the rounding of the prior variance a noise would be lost, and the filter with it.
        lowest = CONFIG.smallest_noise * (H**2 @ self.filter.model.prior)
        noise = np.maximum(data.variance + residual, lowest)
        raised = float((lowest - data.variance - residual).max(initial=0.0))
        return FeatureRows(data.Z[:, -1], H, data.Y, noise, data.variance), raised

    def _recall(self, times: Array, H: Array) -> tuple[Array, Array]:
        """Return means and covariance of values H s of the state at any times."""
        starts = ((each.filter, len(each.data)) for each in self.checkpoints)
        earlier = ((each, n) for each, n in starts if each.time <= times.min(initial=math.inf))
        start, n = next(earlier, (self._prior, 0))
        return recall(start, self._feature_rows(self.data.rows(n))[0], times, H)

    @property
    def _prior(self) -> Filter:
        """The filter before all observations."""
        return Filter.prior(self.filter.model, self.data.Y.shape[1])

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, c) and variances (n,) at inputs [x, t], or at candidates."""
        if isinstance(Z, CandidateGrid):
            return self._predict_grid()
        H, residual = self.observation.rows(Z[:, :-1])
        means, variances = np.empty((len(Z), self.data.Y.shape[1])), np.empty(len(Z))
        early = Z[:, -1] < self.filter.time
        if early.any():
            means[early], spread = self._recall(Z[early, -1], H[early])
            variances[early] = np.diagonal(spread) + residual[early]
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
            # Points that are alike tie then, to the last bit.
            return H @ mean, self.observation.grid.prior_variance(self.now)
        variance = np.einsum("ij,ij->i", H @ P, H) + residual
        return H @ mean, np.maximum(variance, 0.0)

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return centred draws (count, A) at the candidates, at the time `now`.

        The state is drawn jointly; what the features leave out, for each candidate on its own.
        """
        H, residual = self.observation.on_grid
        root = linalg.square_root(self._present[1])
        states = rng.standard_normal((count, root.shape[1])) @ root.T
        own = rng.standard_normal((count, len(residual))) * np.sqrt(residual)
        return np.asarray(states @ H.T + own)

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of inputs [x, t] with others.

        From the latest observation on, with s <= t: Cov(f(x, s), f(x', t)) = h(x)^T P_s F_{t-s}^T h(x').
        """
        if isinstance(Z2, CandidateGrid):
            Z2 = Z2.at(self.now)
        (H1, residual), (H2, _) = (self.observation.rows(Z[:, :-1]) for Z in (Z1, Z2))
        same = (Z1[:, None, :] == Z2[None, :, :]).all(axis=2)
        apart = np.where(same, residual[:, None], 0.0)
        times = np.concatenate([Z1[:, -1], Z2[:, -1]])
        if (times < self.filter.time).any():
            _, covariance = self._recall(times, np.concatenate([H1, H2]))
            return np.asarray(covariance[: len(Z1), len(Z1) :] + apart)
        out = np.empty((len(Z1), len(Z2)))
        for s in np.unique(Z1[:, -1]):
            for t in np.unique(Z2[:, -1]):
                one, other = Z1[:, -1] == s, Z2[:, -1] == t
                _, P = self._state_at(float(min(s, t)))
                early, late = (H1[one], H2[other]) if s <= t else (H2[other], H1[one])
                ahead = self.filter.model.propagate(P @ early.T, abs(float(t) - float(s)))
                block = ahead.T @ late.T
                out[np.ix_(one, other)] = block if s <= t else block.T
        return out + apart

    def fantasize(
        self,
        Z: Array,
        noise: float | Array,
        grid: CandidateGrid | None,  # noqa: ARG002 - all posteriors have it
    ) -> StateSpacePosterior:
        """Return the posterior with more observations of one time, whose values are unknown.

        Variances are those of the larger set; means stay.
        """
        mean = self.predict(Z)[0]
        at = int(np.searchsorted(self.data.Z[:, -1], Z[0, -1], side="right"))
        columns = zip(self.data, Data(Z, mean, np.full(len(Z), noise)), strict=True)
        more = Data(*(np.concatenate([old[:at], new, old[at:]]) for old, new in columns))
        if at == len(self.data):
            return self.observe(more)
        latest = self._prior.update(self._feature_rows(more)[0])
        return replace_fields(self, data=more, filter=latest, checkpoints=())

    @cached_property
    def _present(self) -> tuple[Array, Array]:
        return self._state_at(self.now)

    def _state_at(self, t: float) -> tuple[Array, Array]:
        """Return mean and covariance of the state at a time."""
        if t < self.filter.time:
            m = len(self.filter.mean)
            return self._recall(np.full(m, t), np.eye(m))
        ahead = self.filter.predict(t)
        return ahead.mean, ahead.covariance


@discard_before.register
def _(posterior: StateSpacePosterior, t: float) -> StateSpacePosterior:
    """Without those rows: the state holds their information."""
    data = posterior.data.rows_since(t)
    count = len(posterior.data) - len(data)
    checkpoints = tuple(
        replace_fields(each, data=each.data.rows_since(t))
        for each in posterior.checkpoints
        if len(each.data) >= count
    )
    return replace_fields(posterior, data=data, checkpoints=checkpoints)
