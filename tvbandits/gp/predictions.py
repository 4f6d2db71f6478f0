"""What a posterior says at one time, in the user's unit.

A posterior at one time as a smooth function of the point, with its slopes.

For kernels that are sums of amplitude * space * time, amplitude * time, and terms that have forgotten
every observation by now, time is one number an observation, and what is left is a kernel over points:
k_i(x) = sum_S S(x, x_i) w_Si + u_i. S is `Coordinates`, squared exponential, Matern-3/2 or Matern-5/2;
terms of one S share it. With Q = (K + Sigma)^-1,

    mean(x) = k(x)^T Q y,       variance(x) = k(x, x) - k(x)^T Q k(x),

and the slopes follow from those of S. On a dictionary of root R, with k(x) of its points, it is the same
with Q = R^-T (1 - V^-1) R^-1 for the variance and R^-T V^-1 b for the mean (`nystrom`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtri, stdtrit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tvbandits.domains.space_kernel import PerParameter
from tvbandits.gp import linalg
from tvbandits.gp.kernels.coordinates import Coordinates
from tvbandits.gp.kernels.matern import SLOPED, VALUES
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import products_of
from tvbandits.gp.kernels.units import InUnits
from tvbandits.gp.posterior import Posterior
from tvbandits.gp.rows import CandidateGrid
from tvbandits.validation import Array

# Beyond this condition number, differences of an explicit inverse would lose too many digits.
WORST = 1e9

# A term whose correlation with the past is below this share has forgotten it.
FORGOTTEN = 1e-12

# So many of the latest readings count as tests of a prior variance.
MOST_TESTS = 400

# The square of an error, in deviations, counts for at most this: one outlier is no bad model.
LARGEST_SQUARE = 25.0

# Prior variance of a level that nobody knows, in units of that of the rest.
UNKNOWN = 100.0

# At so many length scales every correlation is below 1e-28.
FAR = 40.0

# Points that are looked at together.
CHUNK = 128


@dataclass(frozen=True)
class SmoothPosterior:
    """What a posterior says at one time.

    Attributes
    ----------
    parts : tuple of (Shape, array of shape (n,))
        Each S with its w: what of it has not been forgotten.
    points : array of shape (n, d)
        Of the observations, or of the dictionary.
    levels : array of shape (n,)
        u.
    prior : float
        Variance before any observation.
    inverse : array of shape (n, n)
        Q.
    answers : array of shape (n, c)
        Q y.
    """

    parts: tuple[tuple[Shape, Array], ...]
    points: Array
    levels: Array
    prior: float
    inverse: Array
    answers: Array

    @classmethod
    def of(cls, posterior: Posterior, now: float) -> SmoothPosterior | None:
        """Of a posterior, if it is a sum of kernel rows, and of such a kernel."""
        known = posterior.expansion(WORST)
        split = None if known is None else _at_time(posterior.kernel, known.Z, now)
        return None if known is None or split is None else cls(*split, known.less, known.means)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Means (m, c) and variances (m,) at points (m, d)."""
        k = np.tile(self.levels, (len(X), 1))
        for shape, weights in self.parts:
            shape.add_covariances(k, X, self.points, weights)
        return k @ self.answers, np.maximum(
            self.prior - np.einsum("ij,ij->i", k @ self.inverse, k), 0.0
        )

    def slopes(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """Means (m, c), variances (m,), and their slopes (m, d, c) and (m, d)."""
        parts = [shape.sloped(X, self.points, weights) for shape, weights in self.parts]
        k = sum((values for values, _ in parts), start=self.levels)
        slopes = sum((each for _, each in parts[1:]), start=parts[0][1])
        Qk = k @ self.inverse
        variance = np.maximum(self.prior - np.einsum("ij,ij->i", Qk, k), 0.0)
        mean_slopes = np.einsum("ijk,jc->ikc", slopes, self.answers)
        return k @ self.answers, variance, mean_slopes, -2.0 * np.einsum("ijk,ij->ik", slopes, Qk)


@dataclass(frozen=True)
class Shape:
    """A correlation over points: a joint part, and `additive` times the mean of one a coordinate.

    Attributes
    ----------
    scales : tuple of d floats
    nu : float
        Smoothness of all parts: 1.5, 2.5 or infinity.
    additive : float
    """

    scales: tuple[float, ...]
    nu: float
    additive: float = 0.0

    @classmethod
    def of(cls, kernel: Any, dimension: int) -> Shape | None:
        """Of a kernel over points, if it has one."""
        if type(kernel) is Coordinates:
            return cls(tuple(kernel.scales.tolist()), 2.5, float(kernel.additive))
        if type(kernel) is InUnits:
            inner = cls.of(kernel.kernel, dimension)
            if inner is None:
                return None
            scales = np.asarray(inner.scales) * np.asarray(kernel.units)
            return replace(inner, scales=tuple(scales.tolist()))
        if type(kernel) is PerParameter:
            widths = [width for _, width in kernel.parts]
            scales, nu = np.repeat(np.atleast_1d(kernel.scales), widths), kernel.nu
        elif type(kernel) in (RBF, Matern):
            scales = np.broadcast_to(kernel.length_scale, (dimension,))
            nu = kernel.nu if type(kernel) is Matern else math.inf
        else:
            return None
        return cls(tuple(scales.tolist()), float(nu)) if nu in SLOPED else None

    def add_covariances(self, out: Array, X: Array, points: Array, weights: Array) -> None:
        """Add w_i S(x, x_i) of points X (m, d) and (n, d) to `out` (m, n)."""
        scales, a, profile = self.scales, self.additive, VALUES[self.nu]
        there = points / scales
        # In pieces that stay in the cache of the processor.
        for start in range(0, len(X), CHUNK):
            here = X[start : start + CHUNK] / scales
            if a == 0.0:
                r = cdist(here, there)
                if r.min() > FAR:
                    continue
                S = profile(r)
            else:
                square, S = (np.zeros((len(here), len(there))) for _ in range(2))
                for j in range(len(scales)):
                    r = np.abs(here[:, j, None] - there[:, j])
                    square += r * r
                    S += profile(r)
                S *= a / len(scales)
                S += profile(np.sqrt(square, out=square))
            S *= weights / (1.0 + a)
            out[start : start + CHUNK] += S

    def sloped(self, X: Array, points: Array, weights: Array) -> tuple[Array, Array]:
        """w_i S(x, x_i) of points X (m, d) and (n, d), shape (m, n), and its slopes in x (m, n, d)."""
        scales, a, profile = self.scales, self.additive, SLOPED[self.nu]
        apart = (X[:, None] - points) / scales
        S, slope = profile(np.sqrt(np.einsum("ijk,ijk->ij", apart, apart)))
        if a == 0.0:
            slopes = slope[:, :, None] * apart
        else:
            each, slopes = profile(np.abs(apart))
            S = (S + a * each.mean(axis=2)) / (1.0 + a)
            slopes *= a / len(scales)
            slopes += slope[:, :, None]
            # dk / dx_j = -(slope + a/d slope_j) (x_j - x'_j) / l_j^2 / (1 + a)
            slopes *= apart
        slopes *= (-weights / (1.0 + a))[:, None]
        slopes /= scales
        return S * weights, slopes


def _at_time(
    kernel: Any, Z: Array, now: float
) -> tuple[tuple[tuple[Shape, Array], ...], Array, Array, float] | None:
    """Each S and its w, points, u and the prior variance for inputs (n, p); None: another kernel."""
    of_time = is_space_time(kernel)
    points, times = (Z[:, :-1], Z[:, -1:]) if of_time else (Z, np.zeros((len(Z), 1)))
    inputs, present = np.column_stack([np.zeros(len(times)), times]), np.array([[0.0, now]])
    parts: dict[Shape, Array] = {}
    levels, prior = np.zeros(len(times)), 0.0
    for term in products_of(kernel):
        amplitude, over_time, over_points = 1.0, np.ones(len(times)), None
        for leaf in term:
            if type(leaf.kernel) is ConstantKernel:
                amplitude *= float(leaf.kernel.constant_value)
            elif type(leaf.kernel) is OnSpace or not of_time:
                if over_points is not None:
                    return None
                over_points = leaf.kernel.kernel if of_time else leaf.kernel
            elif type(leaf.kernel) in (OnTime, Drift):
                over_time = over_time * leaf.kernel(inputs, present)[:, 0]
            else:
                return None
        prior += amplitude
        if over_time.max() < FORGOTTEN:
            continue
        if over_points is None:
            levels = levels + amplitude * over_time
            continue
        shape = Shape.of(over_points, points.shape[1])
        if shape is None:
            return None
        parts[shape] = parts.get(shape, 0.0) + amplitude * over_time
    return (tuple(parts.items()), points, levels, prior) if parts else None


@dataclass(frozen=True)
class Bound:
    """sum of mean columns * `columns` + constant + times * deviation, as an acquisition with slopes.

    Attributes
    ----------
    about_mean, about_variance : SmoothPosterior
        The latter may know of more points: those that are out.
    columns : array of shape (c,)
    constant, times : float
    """

    about_mean: SmoothPosterior
    about_variance: SmoothPosterior
    columns: Array
    constant: float
    times: float

    def __call__(self, X: Array) -> Array:
        """Values at points (m, d), shape (m,)."""
        means, variance = self.about_mean.predict(X)
        if self.about_variance is not self.about_mean:
            variance = self.about_variance.predict(X)[1]
        return np.asarray(means @ self.columns + self.constant + self.times * np.sqrt(variance))

    def sloped(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and slopes (m, d) at points (m, d)."""
        means, variance, uphill, wider = self.about_mean.slopes(X)
        if self.about_variance is not self.about_mean:
            _, variance, _, wider = self.about_variance.slopes(X)
        deviation = np.sqrt(np.maximum(variance, 1e-300))[:, None]
        values = means @ self.columns + self.constant + self.times * np.sqrt(variance)
        return values, uphill @ self.columns + (0.5 * self.times) * wider / deviation

    @property
    def near(self) -> Array:
        """Points (n, d) about which most is known, where its maxima may be narrow."""
        return self.about_mean.points


def independent_readings(K: Array) -> float:
    """How many independent readings tell as much about a variance as readings of covariance K (n, n).

    About their own mean, so that K has its means of rows and columns taken off: tr(K)^2 / tr(K^2), which
    is n - 1 where no two readings share anything, and 0 of one reading.
    """
    off = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    total = float(np.trace(off))
    return total**2 / float((off**2).sum()) if total > 1e-9 * float(np.trace(K)) else 0.0


def students_factor(readings: float) -> float:
    """Width of a 95% interval whose variance so many readings told, over that of a known variance.

    Student's of one degree of freedom more: the first guess of the variance counts as a reading.
    """
    return float(stdtrit(readings + 1.0, 0.975) / ndtri(0.975))


def excess_error(K: Array, noise: Array, values: Array) -> float:
    """How far values (n,) are from what all others say of each, in the deviations that are expected.

    With Q = (K + noise + m)^-1, m for a level that nobody knows, y_i is off by (Q y)_i / Q_ii, of the
    variance 1 / Q_ii. The mean of the standardised squares is weighted by the share of the prior
    variance that the others leave: what they know anyhow tests little. Half a standard error is for
    chance. It is 1 at the least: narrower intervals did not hold.
    """
    prior = float(np.diagonal(K).mean())
    Q = linalg.inverse(linalg.cholesky(K + UNKNOWN * prior + np.diag(noise), "places").L)
    variance = 1.0 / np.diagonal(Q)
    # Of the control alone, which has no prior variance, readings test nothing.
    share = np.clip((variance - noise) / prior, 0.0, 1.0) if prior > 0 else 0.0 * noise
    squares = np.minimum((Q @ (values - values.mean())) ** 2 * variance, LARGEST_SQUARE)
    most = float(share.sum() + np.sqrt(share.sum() / 2.0))
    return math.sqrt(max(float(share @ squares), most) / most) if most else 1.0


@dataclass(frozen=True)
class View:
    """A posterior of reward - origin and of the constant 1, read as one of the reward.

    The mean is linear in the values: conditioning reward - centre is conditioning reward - origin, less
    (centre - origin) times conditioning the constant.

    Attributes
    ----------
    posterior : Posterior
        With two value columns: reward - origin, and 1; or with the reward alone.
    surface : CandidateGrid or None
        The candidates of a finite domain, which the posterior answers for without a solve.
    inputs : callable
        Kernel inputs (n, p) of points (n, d) at the time of the view.
    centre, scale : float
        Prior mean and prior deviation of the reward.
    origin : float
    now : float
        The time of the view.
    nugget : float
        Variance of the reward beyond that of what can be learned, which a width leaves out: of what is
        new at every place at every time.
    widening : float
        Factor on the deviation of the reward, which a width leaves out too: what innovations have shown.
    learned : bool
        Whether the prior variance was learned from the readings themselves.
    dimension : int, optional
        Coordinates of a point, the first columns of `inputs`. None: readings are not held against each
        other, as beside a control, where each time has a level of its own.
    """

    posterior: Posterior
    surface: CandidateGrid | None
    inputs: Callable[[Array], Array]
    centre: float
    scale: float
    origin: float
    now: float = math.nan
    nugget: float = 0.0
    widening: float = 1.0
    learned: bool = False
    dimension: int | None = None

    def shown(self, X: Array) -> tuple[Array, Array]:
        """As `reward`, wider where readings are further from each other than their model says."""
        mean, deviation = self.reward(X)
        tested = self.learned and self.dimension and self.posterior.size
        return mean, self._excess * deviation if tested else deviation

    @cached_property
    def _excess(self) -> float:
        """`excess_error` of the latest reading of each place."""
        Z, Y, noise = (each[-MOST_TESTS:] for each in self.posterior.data)
        latest = len(Z) - 1 - np.unique(Z[::-1, : self.dimension], axis=0, return_index=True)[1]
        K, noise = self.posterior.prior_covariance(Z[latest]), noise + self.nugget / self.scale**2
        return excess_error(K, noise[latest], Y[latest, 0] / self.scale)

    def reward(self, X: Array) -> tuple[Array, Array]:
        """Mean and deviation of the reward at points (n, d): widened, and with what nobody can learn.

        A prior variance that was learned is known as well as its few independent readings allow: the
        share of it that is left at a point is widened as Student's intervals are (`students_factor`).
        """
        mean, deviation = self.predict(X)
        if self.learned and self.posterior.size:
            factor, prior = self._untested
            # Of the control alone, which has no prior variance, readings test nothing.
            share = np.minimum(deviation**2, prior) / prior if prior > 0 else 1.0
            deviation = deviation * (1.0 + (factor - 1.0) * share)
        deviation = self.widening * deviation
        return mean, np.sqrt(deviation**2 + self.nugget) if self.nugget else deviation

    @cached_property
    def _untested(self) -> tuple[float, float]:
        """Factor on the deviation of what no reading has tested, and its prior variance."""
        K = self.posterior.prior_covariance(self.posterior.data.Z[-MOST_TESTS:])
        prior = self.scale**2 * float(np.diagonal(K).mean())
        return students_factor(independent_readings(K)), prior

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and deviation at points (n, d), each of shape (n,)."""
        if self.surface is not None and X is self.surface.points:
            columns, variance = self.posterior.on_surface()
        else:
            columns, variance = self.posterior.predict(self.inputs(X))
        return self._in_units(columns), self.scale * np.sqrt(variance)

    def mean(self, X: Array) -> Array:
        """Mean alone, which a sparse posterior has without its variances, shape (n,)."""
        if self.surface is not None and X is self.surface.points:
            return self._in_units(self.posterior.means_on_surface())
        return self.predict(X)[0]

    def upper_bound(self, X: Array, beta: float) -> Array:
        """Mean + beta deviation, shape (n,)."""
        mean, deviation = self.predict(X)
        return np.asarray(mean + beta * deviation)

    def bound(self, beta: float) -> Callable[[Array], Array]:
        """Mean + beta deviation as a function of points (n, d); with slopes where there are any."""
        field = None if self.surface is not None else self._field
        if field is None:
            return partial(self.upper_bound, beta=beta)
        return self._bound_of(field, field, beta * self.scale)

    def mean_to_climb(self) -> Callable[[Array], Array]:
        """The mean as a function of points (n, d); with slopes where there are any."""
        field = self._field
        return self.mean if field is None else self._bound_of(field, field, 0.0)

    def smooth_bound(self, posterior: Posterior, times: float) -> Bound | None:
        """Mean + times * the deviation in prior units that another posterior has; None: no slopes."""
        own = self._field
        other = None if own is None else SmoothPosterior.of(posterior, self.now)
        return None if own is None or other is None else self._bound_of(own, other, times)

    @cached_property
    def _field(self) -> SmoothPosterior | None:
        if self.surface is not None or not math.isfinite(self.now):
            return None
        return SmoothPosterior.of(self.posterior, self.now)

    def _bound_of(self, mean: SmoothPosterior, variance: SmoothPosterior, times: float) -> Bound:
        columns = np.array([1.0, self.origin - self.centre])
        return Bound(mean, variance, columns, self.centre, times)

    def _in_units(self, columns: Array) -> Array:
        shift = self.centre - self.origin
        if columns.shape[1] == 1:
            return columns[:, 0]  # of a posterior with a centre of its own
        return np.asarray(self.centre + columns[:, 0] - shift * columns[:, 1])
