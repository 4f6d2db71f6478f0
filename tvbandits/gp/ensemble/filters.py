"""Kalman filters of several models at once, each with a scale of its own, and the state they share.

Models with the same correlations over points, and of the same order in time, have the same features.
Their states lie side by side in one array, so that a step is a few operations on all of them (`Layout`).

All variances of a model are known but for one factor, the square of its prior deviation. Its
posterior under an inverse-gamma prior follows from the sum of squared standardised innovations, and
old ones are forgotten, so that the scale may change. The predictive density is Student's then.
An innovation counts by the share of its variance that is not the sensor's noise: where one place is
played again and again, readings are of next to nothing else, and say nothing about the scale.

The sensor's noise is known in the unit of reward: it enters each filter divided by the scale as it is
known then. That is the one approximation; where the nugget exceeds it, it hardly matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import gammaln

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.core.observations import changed
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.kernels.matern import matern32_rate, matern32_transition
from tvbandits.gp.posteriors.features import LARGEST_RANK, TOLERANCE

# Prior variance of the constant, in units of the squared prior deviation: next to unknown.
CONSTANT = 25.0

# A model whose features leave more than this share of the variance is not taken: what it cannot
# hold would count as noise, and go on looking unknown however often it is read.
MOST_LEFT = 0.1

# Features of a season at the most: each of them has two numbers for each harmonic.
MOST_OF_A_SEASON = 12

# Noise below this share of the prior variance would be lost, and the filter with it.
ROUNDING = 1e-9


# A part of states whose halves take so much (M, 2, k, n) or (M, 2, 1, n) of each other.
Taken: TypeAlias = tuple[slice, Array]

# What parts (M, P, n) of states keep of themselves in each of n times, and what halves take.
Fading: TypeAlias = tuple[Array, tuple[Taken, ...]]


class Transition(NamedTuple):
    """The expected state after some time: value' = own value + other derivative, and so on.

    `own` (M, S, n) is what a number keeps of itself in each of n times, `taken` what halves take of each
    other: the values of a smooth drift and their derivatives, and of a season the two numbers of a pair.
    Without any, and for one time, `outer` (M, S, S) is what a covariance keeps of itself, and `fresh`
    what is new in it.
    """

    own: Array
    taken: tuple[Taken, ...] = ()
    outer: Array | None = None
    fresh: Array | None = None


@dataclass(frozen=True)
class Layout:
    """States [constant, trend, static, drift, derivatives of a smooth drift, season] of M models.

    A season is [values of all harmonics, the other numbers of the pairs that turn].

    Attributes
    ----------
    settings : tuple of M ModelSpec
    basis : array of shape (A, c)
        What observes the folded state [constant + trend, static, drift, season], where static and drift
        are added if they have the same features, and the harmonics of a season are added.
    drift, derivative, season : int
        Where these begin.
    prior : array of shape (M, S, S)
        Prior covariances, which are those of the stationary process.
    left : array of shape (M, A)
        Prior variance that the features leave out, at each point.
    """

    settings: tuple[ModelSpec, ...]
    basis: Array
    drift: int
    derivative: int
    season: int
    prior: Array
    left: Array
    _latest: list[tuple[float, Transition]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        settings: Sequence[ModelSpec],
        points: Array,
        spanned: Callable[[SpatialSpec, int], tuple[Array, Array]],
    ) -> Layout:
        """Of settings of the same basis and order in time, on points (A, d) with such `features`."""
        first, count = settings[0], len(points)
        spaces = [(each.static_space, each.drift_space) for each in settings]
        if is_rough(first, count):
            # Each point is a feature of its own, so that settings with different spaces share a layout.
            apart, extent = distances(points, points), extent_of(points)
            static = drift = np.eye(count), np.zeros(count)
            roots = [[space.correlation(apart, extent) for space in both] for both in spaces]
        else:
            static, drift = (spanned(space, LARGEST_RANK) for space in spaces[0])
            roots = [[np.eye(static[0].shape[1]), np.eye(drift[0].shape[1])]] * len(settings)
        shared = is_rough(first, count) or first.static_space == first.drift_space
        made = [static[0]] if shared else [static[0], drift[0]]
        waves, unknown = np.zeros((count, 0)), np.zeros(count)
        if first.season is not None:  # half of it is shared
            own, left_out = spanned(first.season.space, MOST_OF_A_SEASON)
            waves = math.sqrt(0.5) * np.column_stack([np.ones((count, 1)), own])
            unknown = 0.5 * left_out
        r, q, s = static[0].shape[1], drift[0].shape[1], waves.shape[1]
        basis = np.column_stack([np.ones((count, 1)), *made, waves])
        season = 2 + r + (2 * q if first.smooth else q)
        pairs = zip(settings, roots, strict=True)
        prior = [_prior(each, one, other, s) for each, (one, other) in pairs]
        left = [
            each.static * static[1]
            + each.drift * drift[1]
            + (each.season.variances.sum() * unknown if each.season else 0.0)
            for each in settings
        ]
        return cls(
            tuple(settings), basis, 2 + r, 2 + r + q, season, np.array(prior), np.array(left)
        )

    @cached_property
    def size(self) -> int:
        """Numbers S of a state."""
        return len(self.prior[0])

    @cached_property
    def nugget(self) -> Array:
        """Variance (M,) of the nuggets, in units of the squared scale."""
        return np.array([each.nugget for each in self.settings])

    @cached_property
    def own(self) -> Array:
        """Variance (M, A) of a reward at each point that none elsewhere tells about, in such units."""
        return self.nugget[:, None] + self.left

    @cached_property
    def hazard(self) -> Array:
        """Chances (M,) of a fresh start in a step."""
        return np.array([each.hazard for each in self.settings])

    @cached_property
    def floor(self) -> Array:
        """Least noise (M, 1) of a reading, in units of the squared scale."""
        return np.asarray(ROUNDING * np.trace(self.prior, axis1=1, axis2=2)[:, None])

    @cached_property
    def independent(self) -> bool:
        """Whether all features are independent, and those of a part vary as much."""
        numbers = np.einsum("mii->mi", self.prior)
        same = all(
            (each == each[:, :1]).all() for each in np.split(numbers, self.parts[1:], axis=1)
        )
        return same and np.count_nonzero(self.prior) == np.count_nonzero(numbers)

    @cached_property
    def _observing(self) -> Array:
        """What observes a state at each point, shape (A, S)."""
        return np.asarray(self.basis @ self.folded(np.eye(self.size)).T)

    @cached_property
    def basis_key(self) -> str:
        """Equal for layouts of the same `basis`."""
        return repr(basis_of(self.settings[0], len(self.basis)))

    def take(self, members: NDArray[Any]) -> Layout:
        """Of some of the models, by their numbers or a mask."""
        rows = np.arange(len(self.settings))[members]
        return self._of(tuple(self.settings[i] for i in rows), self.prior[rows], self.left[rows])

    @cached_property
    def restarting(self) -> tuple[Index, Layout]:
        """Which of the models may start afresh (m,), and the layout of these."""
        rows = np.flatnonzero(self.hazard > 0)
        return rows, self.take(rows)

    @cached_property
    def scales(self) -> tuple[Array, Array, Array]:
        """Of trend, static part and drift (M,), in steps."""
        each = [(s.trend_scale, s.static_scale, s.drift_scale) for s in self.settings]
        trend, static, drift = np.array(each).T
        return trend, static, drift

    def _of(self, settings: tuple[ModelSpec, ...], prior: Array, left: Array) -> Layout:
        """Of other models with the same features."""
        parts = self.basis, self.drift, self.derivative, self.season
        made = Layout(settings, *parts, prior, left)
        made.__dict__["_observing"] = self._observing
        return made

    def joined(self, other: Layout) -> Layout:
        """With other models of the same features."""
        prior = np.concatenate([self.prior, other.prior])
        left = np.concatenate([self.left, other.left])
        return self._of(self.settings + other.settings, prior, left)

    def rows(self, points: Index) -> Array:
        """What observes a state at some of the points, shape (n, S)."""
        return np.asarray(self._observing[points])

    def folded(self, states: Array) -> Array:
        """States (..., S) folded to (..., c): what `basis` observes."""
        static, waves = self.drift - 2, self._waves
        shared = self.basis.shape[1] - waves == 1 + static
        out = states[..., 1 : self.drift if shared else self.derivative].copy(order="K")
        out[..., 0] += states[..., 0]
        if shared:
            out[..., 1:] += states[..., self.drift : self.derivative]
        if waves:
            season = states[..., self.waves]
            season = season.reshape(*states.shape[:-1], -1, waves).sum(axis=-2)
            out = np.concatenate([out, season], axis=-1)
        return np.asarray(out)

    @property
    def waves(self) -> slice:
        """The values of a season in a state."""
        return slice(self.season, (self.season + self.size) // 2)

    @cached_property
    def _waves(self) -> int:
        """Features of the season."""
        season = self.settings[0].season
        return 0 if season is None else (self.size - self.season) // (2 * season.harmonics)

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Where the parts of a state begin whose numbers fade alike; of a season, each harmonic's."""
        smooth = (self.derivative,) if self.derivative < self.season else ()
        season = range(self.season, self.size, self._waves) if self._waves else ()
        return (0, 1, 2, self.drift, *smooth, *season)

    def fading(self, h: Array) -> Fading:
        """What parts (M, P, n) keep of themselves in times (n,), in steps, and what halves take."""
        trend, static, drift = (np.exp(-h / each[:, None]) for each in self.scales)
        kept, taken = [np.ones_like(trend), trend, static, drift], []
        if self.derivative < self.season:
            rate = matern32_rate(self.scales[2])[:, None]
            kept[3], up, down, slope = matern32_transition(rate, h, np.exp(-rate * h))
            kept.append(slope)
            much = np.stack([up, down], axis=1)[:, :, None]
            taken.append((slice(self.drift, self.season), much))
        if self._waves:
            turn = np.exp(self._turning * h)
            kept += [*turn.real.swapaxes(0, 1)] * 2
            turned = turn.imag.repeat(self._waves, axis=1)
            taken.append((slice(self.season, self.size), np.stack([turned, -turned], axis=1)))
        return np.stack(kept, axis=1), tuple(taken)

    @cached_property
    def _turning(self) -> NDArray[np.complex128]:
        """Logarithms (M, harmonics, 1) of what a season's pairs, as complex numbers, keep in a step."""
        turning = [
            (2j * math.pi * np.arange(1, each.harmonics + 1) - 1.0 / each.lasts) / each.period
            for each in (setting.season for setting in self.settings)
            if each is not None
        ]
        return np.array(turning)[:, :, None]

    def over(self, fading: Fading, times: Index) -> Transition:
        """Over some of the times of `fading`, by their numbers (n,)."""
        kept, taken = fading
        own = kept[:, :, times].repeat(np.diff([*self.parts, self.size]), axis=1)
        return Transition(own, tuple((part, much[..., times]) for part, much in taken))

    def transition(self, h: float) -> Transition:
        """Over h >= 0 steps; it is remembered, since most are equally long."""
        if self._latest and self._latest[0][0] == h:
            return self._latest[0][1]
        change = self.over(self.fading(np.array([h])), np.zeros(1, np.int64))
        if not change.taken:
            outer = change.own * change.own[:, None, :, 0]
            change = Transition(change.own, (), outer, (1.0 - outer) * self.prior)
        self._latest[:] = [(h, change)]
        return change

    def moved(self, states: Array, h: float | Transition, back: bool = False) -> Array:
        """F states after h steps, or over other times, F moving a state; F^T states going `back`.

        States (M, S), or matrices (M, S, n) with states as columns.
        """
        if states.ndim == 2:
            return np.asarray(self.moved(states[:, :, None], h, back)[:, :, 0])
        change = h if isinstance(h, Transition) else self.transition(h)
        out = change.own * states
        for part, much in change.taken:
            halves = _halves(out, part)
            halves += (much[:, ::-1] if back else much) * _halves(states, part)[:, ::-1]
        return np.asarray(out)

    def moved_covariance(self, covariance: Array, h: float) -> Array:
        """Covariances (M, S, S) after h steps, with what is new by then.

        A covariance is the stationary prior less what is known: only the latter moves.
        """
        change = self.transition(h)
        if change.outer is not None and change.fresh is not None:
            return np.asarray(covariance * change.outer + change.fresh)
        return self.moved_known(covariance - self.prior, h) + self.prior

    def moved_known(self, known: Array, h: float) -> Array:
        """F known F^T of symmetric matrices (M, S, S), F moving a state by h steps."""
        outer = self.transition(h).outer
        if outer is not None:
            return known * outer
        for _ in range(2):  # from the left; and, turned over, from the right
            known = self.moved(known, h).transpose(0, 2, 1)
        return known


def _halves(states: Array, part: slice) -> Array:
    """A view (M, 2, k, n) of a part of matrices (M, S, n)."""
    return states[:, part].reshape(len(states), 2, -1, states.shape[2])


def distances(X: Array, Y: Array) -> Array:
    """Distances (n, m) between points (n, d) and (m, d)."""
    return np.asarray(np.sqrt(((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)))


def extent_of(points: Array) -> float:
    """The largest extent of points (A, d) along an axis."""
    return float(np.ptp(points, axis=0).max()) or 1.0


def features(space: SpatialSpec, points: Array, at_most: int = LARGEST_RANK) -> tuple[Array, Array]:
    """Features (A, r) of points (A, d) by pivoted Cholesky, and the variance (A,) that they leave out.

    Only the correlations with chosen points are computed: O(A r^2) operations, O(A r) numbers.
    """
    extent, count = extent_of(points), len(points)

    def column(i: int) -> Array:
        return space.correlation(distances(points[i : i + 1], points)[0], extent)

    made = linalg.pivoted_cholesky(np.ones(count), column, min(at_most, count), TOLERANCE)
    return np.asarray(made.G.T), np.asarray(made.residual)


def is_rough(setting: ModelSpec, points: int) -> bool:
    """Whether no features could be left out: each point would need nearly one of its own."""
    rough = {"identity", "matern12"}
    return (
        points <= LARGEST_RANK and {setting.static_space.shape, setting.drift_space.shape} <= rough
    )


def basis_of(setting: ModelSpec, points: int) -> object:
    """Settings of which this is equal, on equal points, have the same `Layout.basis`."""
    spaces = None if is_rough(setting, points) else (setting.static_space, setting.drift_space)
    season = setting.season
    return spaces, season and (season.space, season.harmonics)


def _prior(setting: ModelSpec, static: Array, drift: Array, waves: int) -> Array:
    """Covariance of a state whose static part and drift have these correlations between features.

    A season has so many features, each with two numbers for each harmonic.
    """
    parts = [np.diag([CONSTANT, setting.trend]), setting.static * static, setting.drift * drift]
    if setting.smooth:
        parts.append(setting.drift * matern32_rate(setting.drift_scale) ** 2 * drift)
    if setting.season is not None:
        parts.append(np.diag(np.tile(np.repeat(setting.season.variances, waves), 2)))
    return np.asarray(block_diag(*parts))


# How many innovations the scale remembers.
MEMORY = 400.0

# A member goes on as it is while it is that certain that nothing started afresh.
NO_RESET = 0.99


class Innovations(NamedTuple):
    """What observations were to M models before they knew them.

    Attributes
    ----------
    errors, variances : arrays of shape (M, n)
        Observation less expectation, and the predictive variance of each with its noise.
    log_density : array of shape (M,)
        Of all of them together.
    """

    errors: Array
    variances: Array
    log_density: Array


# What `Filters` hold of each model.
KNOWN = "mean", "covariance", "squares", "count"


@dataclass(frozen=True)
class Filters:
    """The posteriors of M models at one time.

    Attributes
    ----------
    layout : Layout
    mean : array of shape (M, S)
        In the unit of reward.
    covariance : array of shape (M, S, S)
        In units of the squared scale.
    squares : array of shape (M,)
        Sum of squared standardised innovations.
    count : array of shape (M,)
        How many there were, each by what it says: the squared scale is their ratio.
    group : int
        A number of all models with these features.
    """

    layout: Layout
    mean: Array
    covariance: Array
    squares: Array
    count: Array
    group: int = 0

    @classmethod
    def prior(cls, layout: Layout, variance: float, count: float = 1.0, group: int = 0) -> Filters:
        """Before any observation; `variance` is the first guess of the squared scale, worth `count`."""
        M, S, _ = layout.prior.shape
        squares, counts = np.full(M, count * float(variance)), np.full(M, count)
        return cls(layout, np.zeros((M, S)), layout.prior.copy(), squares, counts, group)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def settings(self) -> tuple[ModelSpec, ...]:
        """The models."""
        return self.layout.settings

    @cached_property
    def variance(self) -> Array:
        """Squared scales (M,), in units of reward squared."""
        return np.asarray(self.squares / self.count)

    def take(self, members: NDArray[Any], layout: Layout | None = None) -> Filters:
        """Some of the models, by their numbers or a mask; their layout, where it is known."""
        parts = {name: getattr(self, name)[members] for name in KNOWN}
        return changed(self, layout=layout or self.layout.take(members), **parts)

    def joined(self, other: Filters) -> Filters:
        """With other models of the same features."""
        both = {name: np.concatenate([getattr(f, name) for f in (self, other)]) for name in KNOWN}
        return changed(self, layout=self.layout.joined(other.layout), **both)

    def counted_in(self, step: float) -> Filters:
        """The same, with periods of seasons in steps of such a length."""
        if self.settings[0].season is None:
            return self
        settings = tuple(
            replace(each, season=replace(each.season, period=each.season.period / step))
            for each in self.settings
            if each.season is not None
        )
        return replace(self, layout=replace(self.layout, settings=settings))

    def moved(self, h: float) -> Filters:
        """After h >= 0 steps without an observation."""
        if h == 0:
            return self
        if h not in self._later:
            # A forecast and the next observation are mostly about the same time.
            self._later.clear()
            mean = self.layout.moved(self.mean, h)
            covariance = self.layout.moved_covariance(self.covariance, h)
            self._later[h] = changed(self, mean=mean, covariance=covariance)
        return self._later[h]

    @cached_property
    def _later(self) -> dict[float, Filters]:
        return {}

    def observed(self, points: Index, values: Array, noise: Array) -> tuple[Filters, Innovations]:
        """With observations at points (n,), of transformed values (n,), and noise variances (n,)."""
        H = self.layout.rows(points)
        own = self.layout.own[:, points]
        noise = np.maximum(own + noise / self.variance[:, None], self.layout.floor)
        seen = _Seen.of(self, H, values, noise)
        start, log_density, squares = self, seen.log_density, seen.squares
        errors, variances = seen.errors, seen.diagonal * self.variance[:, None]
        if self.layout.hazard.any():
            start, log_density, squares = self._afresh(H, values, noise, log_density, squares)
            if start is not self:
                seen = _Seen.of(start, H, values, noise)
                least = np.minimum(squares, seen.squares)
                squares = np.where(self.layout.hazard > 0, least, squares)
        back = seen.reach.transpose(0, 2, 1)
        mean = start.mean + np.matmul(back, seen.whitened[:, :, None])[:, :, 0]
        # Of one reading, as mostly, the product of matrices takes three times as long.
        covariance = back * seen.reach if len(values) == 1 else np.matmul(back, seen.reach)
        np.subtract(start.covariance, covariance, out=covariance)
        told = np.minimum(np.maximum(1.0 - (noise - own) / seen.diagonal, 0.0), 1.0)
        told = told.sum(axis=1) / len(values)
        squares, count = remembered(self.squares + told * squares, self.count + told * len(values))
        after = changed(self, mean=mean, covariance=covariance, squares=squares, count=count)
        return after, Innovations(errors, variances, log_density)

    def _afresh(
        self, H: Array, values: Array, noise: Array, log_density: Array, squares: Array
    ) -> tuple[Filters, Array, Array]:
        """Drawn to the prior by the chance that everything but the constant has started afresh.

        The soft reset towards the prior of arXiv 2411.10153: with the chance nu that it has not, the
        state becomes nu mean, nu^2 covariance + (1 - nu^2) prior; and the prior itself below 1/2.
        """
        rows, layout = self.layout.restarting
        some = self.take(rows, layout)
        fresh = some.restarted()
        other = _Seen.of(fresh, H, values, noise[rows])
        goes_on = np.log1p(-layout.hazard) + log_density[rows]
        starts = np.log(layout.hazard) + other.log_density
        together = np.logaddexp(goes_on, starts)
        log_density[rows] = together
        drawn = some.drawn_to_prior(goes_on, together)
        if drawn is some:
            return self, log_density, squares
        squares[rows] = np.minimum(squares[rows], other.squares)
        mean, covariance = self.mean.copy(), self.covariance.copy()
        mean[rows], covariance[rows] = drawn.mean, drawn.covariance
        return changed(self, mean=mean, covariance=covariance), log_density, squares

    def drawn_to_prior(self, goes_on: Array, together: Array) -> Filters:
        """With the rest started afresh of what is kept of the states; itself where all of it is kept.

        What is kept follows from log densities (M,) of what was read, if nothing started afresh and
        whatever did.
        """
        chance = np.exp(goes_on - together)
        kept = np.where(chance >= NO_RESET, 1.0, np.where(chance > 0.5, chance, 0.0))
        if (kept == 1.0).all():
            return self
        fresh, own = self.restarted(), kept[:, None, None]
        mean = own[:, 0] * self.mean + (1.0 - own[:, 0]) * fresh.mean
        covariance = own**2 * self.covariance + (1.0 - own**2) * fresh.covariance
        return changed(self, mean=mean, covariance=covariance)

    def restarted(self) -> Filters:
        """At the prior, but for the constant."""
        mean, covariance = np.zeros_like(self.mean), self.layout.prior.copy()
        mean[:, 0], covariance[:, 0, 0] = self.mean[:, 0], self.covariance[:, 0, 0]
        return changed(self, mean=mean, covariance=covariance)


class _Seen(NamedTuple):
    """Observations (n,) through filters: C C^T is the predictive covariance of them.

    `reach` (M, n, S) is C^-1 H P, `whitened` (M, n) is C^-1 errors, and `squares` (M,) their squared
    length, in units of reward squared. `log_density` (M,) is Student's, with as many degrees of freedom
    as the scale has innovations.
    """

    errors: Array
    reach: Array
    whitened: Array
    diagonal: Array
    squares: Array
    log_density: Array

    @classmethod
    def of(cls, filters: Filters, H: Array, values: Array, noise: Array) -> _Seen:
        HP = np.matmul(H, filters.covariance)
        spread = np.matmul(HP, H.T)
        diagonal = spread.reshape(len(spread), -1)[:, :: len(H) + 1]
        diagonal += noise  # of `spread`: they are a view
        errors = values - np.matmul(H, filters.mean[:, :, None])[:, :, 0]
        sides = np.concatenate([HP, errors[:, :, None]], axis=2)
        root, solved = linalg.whitened_each(spread, sides)
        size, whitened = H.shape[1], solved[:, :, -1]
        squares = (whitened**2).sum(axis=1)
        log_root = np.log(root.diagonal(0, 1, 2).copy("F")).sum(axis=1)
        density = student(len(H), filters.count, filters.squares, log_root, squares)
        return cls(errors, solved[:, :, :size], whitened, diagonal.copy("F"), squares, density)


def student(n: int | Index, count: Array, squares: Array, log_root: Array, found: Array) -> Array:
    """Student's log densities (..., M) of n readings.

    Parameters
    ----------
    n : int, or an array that suits `count`
    count : array of shape (..., M)
        Degrees of freedom: how many innovations the scale has.
    squares : array of shape (..., M)
        Their sum of squares.
    log_root : array of shape (..., M)
        Half the log determinant of the covariance of the readings, in units of the squared scale.
    found : array of shape (..., M)
        Squared length of what they are off, standardised.
    """
    half = (count + n) / 2
    constant = gammaln(half) - gammaln(count / 2) - log_root
    return np.asarray(
        constant - n / 2 * np.log(math.pi * squares) - half * np.log1p(found / squares)
    )


def remembered(squares: Array, count: Array) -> tuple[Array, Array]:
    """Sums of squares (M,) and how many innovations they are of, the old ones forgotten."""
    kept = np.minimum(1.0, MEMORY / count)
    return squares * kept, count * kept


def filters_of(
    settings: Sequence[ModelSpec], points: Array, variance: float, count: float = 1.0
) -> tuple[Filters, ...]:
    """Models at their prior, those with the same features together.

    Parameters
    ----------
    settings : sequence of ModelSpec
    points : array of shape (A, d)
    variance : float
        First guess of the squared scale.
    count : float
        How many innovations the first guess is worth.
    """
    groups: dict[object, list[ModelSpec]] = {}
    for each in settings:
        alike = basis_of(each, len(points)), each.smooth
        groups.setdefault(alike, []).append(each)
    spanned = cache(lambda space, at_most: features(space, points, at_most))
    return tuple(
        Filters.prior(Layout.of(those, points, spanned), variance, count, group)
        for group, those in enumerate(groups.values())
    )


def held(settings: tuple[ModelSpec, ...], points: Array) -> tuple[ModelSpec, ...]:
    """Those of the models whose features hold a function on the points (A, d); all, if none's do."""
    if len(points) <= LARGEST_RANK:
        return settings
    left = {s: features(s, points)[1].mean() for s in {each.drift_space for each in settings}}
    return tuple(each for each in settings if left[each.drift_space] <= MOST_LEFT) or settings
