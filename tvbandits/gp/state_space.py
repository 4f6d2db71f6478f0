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
from typing import Any, ClassVar

import numpy as np

from tvbandits.data import changed
from tvbandits.gp import linalg
from tvbandits.gp.features import SpaceFeatures
from tvbandits.gp.kernels.terms import terms_of
from tvbandits.gp.posterior import UNCONDITIONED, Conditioning, KernelPosterior, PosteriorRule
from tvbandits.gp.rows import CandidateGrid, Data
from tvbandits.validation import Array, as_points

# --- the one Kalman filter, and what it knows about its past --------------------------------------
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


# Noise below this share of a point's prior variance is raised to it, which is reported as jitter.
ROUNDING = 1e-10

# Of more readings of one time at once, the matrix of all pairs would cost more than all else.
MOST_TOGETHER = 1024


@dataclass(frozen=True)
class FeatureRows:
    """Rewards as a filter sees them, in order of time.

    Attributes
    ----------
    times : array of shape (n,)
    H : array of shape (n, m)
        What observes the state.
    Y : array of shape (n, c)
    noise : array of shape (n,)
        As the filter takes it: never below rounding of the prior.
    variance : array of shape (n,)
        As it was told.
    together : bool
        Those of one time are taken in together, `MOST_TOGETHER` at once. It is faster, but whoever is
        told them one by one comes to other bits.
    """

    times: Array
    H: Array
    Y: Array
    noise: Array
    variance: Array
    together: bool = False

    @property
    def pieces(self) -> list[slice]:
        """What is taken in at once."""
        n = len(self.times)
        if not self.together:
            return [slice(i, i + 1) for i in range(n)]
        starts = np.flatnonzero(np.diff(self.times, prepend=-math.inf)).tolist()
        return [
            slice(first, min(first + MOST_TOGETHER, end))
            for start, end in pairwise([*starts, n])
            for first in range(start, end, MOST_TOGETHER)
        ]


@dataclass(frozen=True)
class Filter:
    """What is known of a state at one time.

    Attributes
    ----------
    model : SpaceFeatures
    mean : array of shape (m, c)
    covariance : array of shape (m, m)
    time : float
        What both speak about; minus infinity: nothing has been seen.
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
        """Before any reward, of so many value columns."""
        mean, products = np.zeros((len(model.prior), columns)), np.zeros((columns, columns))
        return cls(model, mean, np.diag(model.prior), -math.inf, products, 0.0)

    def at(self, t: float) -> Filter:
        """On to the time `t`; one before the present is no move."""
        if not t > self.time:
            return self
        mean, covariance = self.model.advanced(self.mean, self.covariance, t - self.time)
        return changed(self, mean=mean, covariance=covariance, time=t)

    def step(self, rows: FeatureRows, piece: slice) -> tuple[Filter, Array, Array, Array]:
        """At the time of some rows, with them; and their L (k, k), G (k, m) and L^-1 error (k, c)."""
        t, H, mean, P = float(rows.times[piece.start]), rows.H[piece], self.mean, self.covariance
        if t > self.time:
            mean, P = self.model.advanced(mean, P, t - self.time)
        reach, error = P @ H.T, rows.Y[piece] - H @ mean
        spread = H @ reach
        spread.flat[:: len(H) + 1] += rows.noise[piece]
        if len(H) == 1:  # mostly: a number has no factor
            L = np.sqrt(spread)
            G, white, told = reach.T / L, error / L, error / spread
            products = error.T * error / spread
        else:
            L = linalg.cholesky(spread, "rewards of one time").L
            G, white = linalg.solve_lower(L, reach.T), linalg.solve_lower(L, error)
            told, products = linalg.solve_lower(L, white, transposed=True), white.T @ white
        # Of each piece by itself: whoever is told more at once comes to the same bits.
        roots, alone = (
            sum(map(math.log, each.tolist())) for each in (L.diagonal(), rows.variance[piece])
        )
        after = changed(
            self,
            mean=mean + reach @ told,
            covariance=P - G.T @ G,
            time=t,
            products=self.products + products,
            log_det_ratio=self.log_det_ratio + (2.0 * roots - alone),
        )
        return after, L, G, white

    def told(self, rows: FeatureRows) -> Filter:
        """With all rows, none of which is before the present."""
        known = self
        for piece in rows.pieces:
            known, *_ = known.step(rows, piece)
        return known


def recall(start: Filter, rows: FeatureRows, times: Array, H: Array) -> tuple[Array, Array]:
    """Means and covariance of values H s at any times, given all rows: smoothing.

    O(m (m + q)) for each row, for q values, or for as many as the states at their times have numbers.

    Parameters
    ----------
    start : Filter
        Where to start: it speaks about a time before all rows, and all `times`.
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
        means, D = _carried(start, rows, times[order], H[order])
        return means[back], D[np.ix_(back, back)]
    # The states of those times are fewer numbers than the values asked for.
    states = np.tile(np.eye(m), (len(distinct), 1))
    means, D = _carried(start, rows, np.repeat(distinct, m), states)
    placed = np.zeros((len(times), len(distinct), m))
    placed[np.arange(len(times)), which] = H
    W = placed.reshape(len(times), -1)
    return W @ means, W @ D @ W.T


def _carried(known: Filter, rows: FeatureRows, times: Array, H: Array) -> tuple[Array, Array]:
    """`recall` of values in order of time.

    The first n of them have joined: their means, covariances D, and those with the present state.
    """
    q, (m, columns) = len(times), known.mean.shape
    means, across, D = np.empty((q, columns)), np.empty((m, q)), np.empty((q, q))
    pieces, n = deque(rows.pieces), 0
    while n < q or pieces:
        first = float(rows.times[pieces[0].start]) if pieces else math.inf
        told = not (n < q and times[n] < first)
        t = first if told else float(times[n])
        across[:, :n] = known.model.moved(across[:, :n], max(t - known.time, 0.0))
        if told:
            piece = pieces.popleft()
            known, L, G, error = known.step(rows, piece)
            seen = linalg.solve_lower(L, rows.H[piece] @ across[:, :n])
            means[:n] += seen.T @ error
            across[:, :n] -= G.T @ seen
            D[:n, :n] -= seen.T @ seen
        else:
            known = known.at(t)
            end = int(np.searchsorted(times, known.time, side="right"))
            fresh = slice(n, end)
            means[fresh], across[:, fresh] = H[fresh] @ known.mean, known.covariance @ H[fresh].T
            D[fresh, :end] = H[fresh] @ across[:, :end]
            D[:n, fresh] = D[fresh, :n].T
            n = end
    return means, D


# --------------------------------------------------------------------------------------------------


# What was known is kept for this many observations at least, and for twice as many at the most.
STRIDE = 64


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

    def condition(self, given: Conditioning) -> StateSpacePosterior:
        """Condition on data, in any order, from a posterior that only has to be told the rest.

        Raises
        ------
        ValueError
            If the kernel is not a sum of terms, or there are no points to make features on.
        """
        return filtered(given, lambda: self._space(given.kernel, given.surface))

    def _space(self, kernel: Any, surface: CandidateGrid | None) -> SpaceFeatures:
        self.check(kernel)
        terms: Any = terms_of(kernel)
        points = self.anchors if surface is None else surface.points
        if points is None:
            raise ValueError("without candidates it needs anchors: StateSpace(anchors=points)")
        return SpaceFeatures.of(terms, points)


def filtered(
    given: Conditioning, space: Callable[[], SpaceFeatures], grows: float | None = None
) -> StateSpacePosterior:
    """Condition on data, in any order, from a posterior that only has to be told the rest.

    Where a filter starts anew, `space` makes the state; `grows` is that of `ObservationModel`.
    """
    kernel, data, surface, now, previous, *_ = given
    data = data.in_time()
    known = (previous, *previous.kept) if isinstance(previous, StateSpacePosterior) else ()
    for start in known:
        if start.begins(kernel, data, surface):
            posterior = start.continued(data.rows(len(start.data)), now)
            if posterior is not None:
                return posterior
    made = space()
    prior, sight = Filter.prior(made, data.Y.shape[1]), ObservationModel(made, surface, grows)
    return StateSpacePosterior(kernel, data.rows(0, 0), sight, prior, now).told(data)


@dataclass(frozen=True)
class ObservationModel:
    """What observes a state at points: looked up at the fixed points, where there are any.

    Attributes
    ----------
    space : SpaceFeatures
    surface : CandidateGrid or None
    grows : float, optional
        The state is to be made anew for an observation at a point whose features leave more than this
        share of its prior variance. None: it stays as it is.
    """

    space: SpaceFeatures
    surface: CandidateGrid | None
    grows: float | None = None

    def spans(self, X: Array) -> bool:
        """Whether the state does for observations at points (n, d)."""
        return self.grows is None or self.space.spans(X, self.grows)

    @cached_property
    def on_surface(self) -> tuple[Array, Array]:
        """`SpaceFeatures.observe` of the fixed points."""
        if self.surface is None:
            raise ValueError(UNCONDITIONED)
        return self.space.observe(self.surface.points)

    def rows(self, X: Array) -> tuple[Array, Array]:
        """`SpaceFeatures.observe` of points (n, d)."""
        if self.surface is None:
            return self.space.observe(X)
        points = self.surface.points
        if X.shape == points.shape and np.array_equal(X, points):
            return self.on_surface
        where = [self.surface.index(x) for x in X]
        if any(i is None for i in where):
            return self.space.observe(X)
        H, left = self.on_surface
        index = np.array(where, dtype=np.int64)
        return H[index], left[index]


@dataclass(frozen=True)
class StateSpacePosterior(KernelPosterior):
    """What is known of the state at the time of the latest observation. Made by `StateSpace`.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
        In order of time.
    sight : ObservationModel
    known : Filter
        At the time of the latest observation.
    now : float
        The time that `on_surface` speaks about.
    jitter : float
        The most that was added to a noise variance below rounding.
    kept : tuple of StateSpacePosterior
        What was known before the latest observations, latest first: where a late one goes back to. A
        cache: without it the filter starts at the beginning, and comes to the same bits.
    """

    kernel: Any
    data: Data
    sight: ObservationModel
    known: Filter
    now: float
    jitter: float = 0.0
    kept: tuple[StateSpacePosterior, ...] = field(default=(), repr=False, compare=False)

    dictionary_size: ClassVar[None] = None
    dense: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        """All but what can be computed again."""
        return {**self.__dict__, "kept": ()}

    @property
    def products(self) -> Array:
        """Y^T (K + Sigma)^-1 Y, shape (c, c)."""
        return self.known.products

    @property
    def log_det_ratio(self) -> float:
        """Log det(K + Sigma) - log det Sigma."""
        return self.known.log_det_ratio

    @property
    def size(self) -> int:
        """Number of observations."""
        return len(self.data)

    def begins(self, kernel: Any, data: Data, surface: CandidateGrid | None) -> bool:
        """Whether data (sorted by time) begin with what is known."""
        same = self.kernel is kernel or bool(self.kernel == kernel)
        return same and self.sight.surface is surface and data.starts_with(self.data)

    def told(self, data: Data) -> StateSpacePosterior:
        """With the rows of `data` (sorted by time) that come after those known."""
        rest = data.rows(len(self.data))
        if len(rest) == 0:
            return self
        rows, jitter = self._as_rows(rest)
        kept = self.kept
        if not kept or len(self.data) - len(kept[0].data) >= STRIDE:
            kept = (changed(self, kept=()), *kept[:1])
        jitter = max(self.jitter, jitter)
        return changed(self, data=data, known=self.known.told(rows), jitter=jitter, kept=kept)

    def continued(
        self,
        rows: Data,
        now: float,
        surface: CandidateGrid | None = None,  # noqa: ARG002 - one face for all
    ) -> StateSpacePosterior | None:
        """With observations more, speaking about the time `now`; None if that takes a new start."""
        if len(rows) == 0:
            # What was computed for this time is not computed again.
            return self if now == self.now else changed(self, now=now)
        rows = rows.in_time()
        if rows.Z[0, -1] < self.known.time or not self.sight.spans(rows.Z[:, :-1]):
            return None
        return changed(self, now=now).told(self.data.append(rows))

    def since(self, t: float) -> StateSpacePosterior:
        """The same without the rows from before a time: the state holds what they told."""
        data = self.data.since(t)
        left = len(self.data) - len(data)
        kept = tuple(
            changed(each, data=each.data.since(t)) for each in self.kept if len(each.data) >= left
        )
        return changed(self, data=data, kept=kept)

    def _as_rows(self, data: Data) -> tuple[FeatureRows, float]:
        """Observations as the filter sees them, and the most that a noise was raised by."""
        H, left = self.sight.rows(data.Z[:, :-1])
        # Below the rounding of the prior variance a noise would be lost, and the filter with it.
        lowest = ROUNDING * (H**2 @ self.known.model.prior)
        noise = np.maximum(data.variance + left, lowest)
        raised = float((lowest - data.variance - left).max(initial=0.0))
        return FeatureRows(data.Z[:, -1], H, data.Y, noise, data.variance), raised

    def _recalled(self, times: Array, H: Array) -> tuple[Array, Array]:
        """Means and covariance of values H s of the state at any times, of all observations."""
        starts = ((each.known, len(each.data)) for each in self.kept)
        late = ((known, n) for known, n in starts if known.time <= times.min(initial=math.inf))
        start, n = next(late, (self._prior, 0))
        return recall(start, self._as_rows(self.data.rows(n))[0], times, H)

    @property
    def _prior(self) -> Filter:
        """Before all observations."""
        return Filter.prior(self.known.model, self.data.Y.shape[1])

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, c) and variances (n,) at inputs [x, t]."""
        H, left = self.sight.rows(Z[:, :-1])
        means, variances = np.empty((len(Z), self.data.Y.shape[1])), np.empty(len(Z))
        early = Z[:, -1] < self.known.time
        if early.any():
            means[early], spread = self._recalled(Z[early, -1], H[early])
            variances[early] = np.diagonal(spread) + left[early]
        for t in np.unique(Z[~early, -1]):
            at = Z[:, -1] == t
            mean, P = self._present if t == self.now else self._at(float(t))
            means[at] = H[at] @ mean
            variances[at] = np.einsum("ij,ij->i", H[at] @ P, H[at]) + left[at]
        return means, np.maximum(variances, 0.0)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time `now`."""
        H, left = self.sight.on_surface
        mean, P = self._present
        if len(self.data) == 0 and self.sight.surface is not None:
            # Points that are alike tie then, to the last bit.
            return H @ mean, self.sight.surface.prior_variance(self.now)
        variance = np.einsum("ij,ij->i", H @ P, H) + left
        return H @ mean, np.maximum(variance, 0.0)

    def means_on_surface(self) -> Array:
        """Means (A, c) at the fixed points, at the time `now`."""
        H, _ = self.sight.on_surface
        return np.asarray(H @ self._present[0])

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the fixed points at the time `now`, shape (count, A).

        The state is drawn jointly; what the features leave out, for each point on its own.
        """
        H, left = self.sight.on_surface
        root = linalg.square_root(self._present[1])
        states = rng.standard_normal((count, root.shape[1])) @ root.T
        own = rng.standard_normal((count, len(left))) * np.sqrt(left)
        return np.asarray(states @ H.T + own)

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) of inputs [x, t].

        From the latest observation on, with s <= t: Cov(f(x, s), f(x', t)) = h(x)^T P_s F_{t-s}^T h(x').
        """
        (H1, left1), (H2, _) = self.sight.rows(Z1[:, :-1]), self.sight.rows(Z2[:, :-1])
        same = (Z1[:, None, :] == Z2[None, :, :]).all(axis=2)
        apart = np.where(same, left1[:, None], 0.0)
        times = np.concatenate([Z1[:, -1], Z2[:, -1]])
        if (times < self.known.time).any():
            _, covariance = self._recalled(times, np.concatenate([H1, H2]))
            return np.asarray(covariance[: len(Z1), len(Z1) :] + apart)
        out = np.empty((len(Z1), len(Z2)))
        for s in np.unique(Z1[:, -1]):
            for t in np.unique(Z2[:, -1]):
                one, other = Z1[:, -1] == s, Z2[:, -1] == t
                _, P = self._at(float(min(s, t)))
                early, late = (H1[one], H2[other]) if s <= t else (H2[other], H1[one])
                ahead = self.known.model.moved(P @ early.T, abs(float(t) - float(s)))
                block = ahead.T @ late.T
                out[np.ix_(one, other)] = block if s <= t else block.T
        return out + apart

    def shrunk(
        self,
        Z: Array,
        noise: float | Array,
        surface: CandidateGrid | None,  # noqa: ARG002 - one face for all
    ) -> StateSpacePosterior:
        """The same with more observations at inputs `Z` (k, p) of one time, their values unknown.

        Variances are those of the larger set; means stay.
        """
        expected = self.predict(Z)[0]
        at = int(np.searchsorted(self.data.Z[:, -1], Z[0, -1], side="right"))
        columns = zip(self.data, Data(Z, expected, np.full(len(Z), noise)), strict=True)
        grown = Data(*(np.concatenate([old[:at], new, old[at:]]) for old, new in columns))
        if at == len(self.data):
            return self.told(grown)
        known = self._prior.told(self._as_rows(grown)[0])
        return changed(self, data=grown, known=known, kept=())

    def expansion(self, worst: float) -> None:
        """None: it is no sum of kernel rows."""

    def effective_dimension(self) -> float:
        """How many numbers of the state the observations still determine."""
        prior = self.known.model.prior
        return float(len(prior) - (np.diagonal(self.known.covariance) / prior).sum())

    @cached_property
    def _present(self) -> tuple[Array, Array]:
        return self._at(self.now)

    def _at(self, t: float) -> tuple[Array, Array]:
        """Mean and covariance of the state at a time."""
        if t < self.known.time:
            m = len(self.known.mean)
            return self._recalled(np.full(m, t), np.eye(m))
        known = self.known.at(t)
        return known.mean, known.covariance
