"""Predictions of a posterior at one time, in the unit of the reward, and their slopes.

`ScaledPosterior` combines a posterior in prior units with the prior mean and scale of the reward.

`SmoothPosterior` is a posterior at one time as a smooth function of the point. For kernels that are sums
of amplitude * space * time, amplitude * time, and terms that have forgotten every observation by now,
time is one number an observation, and the rest is a kernel over points:
k_i(x) = sum_S S(x, x_i) w_Si + u_i. S is `Coordinates`, squared exponential, Matern-3/2 or Matern-5/2;
terms of one S share it. With Q = (K + Sigma)^-1,

    mean(x) = k(x)^T Q y,       variance(x) = k(x, x) - k(x)^T Q k(x),

and the slopes follow from those of S. On a dictionary of root R, with k(x) of its points, it is the same
with Q = R^-T (1 - V^-1) R^-1 for the variance and R^-T V^-1 b for the mean (`tvbandits.gp.sparse`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial, singledispatch
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtri, stdtrit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tvbandits.domains.space_kernel import PerParameter
from tvbandits.gp import linalg
from tvbandits.gp.kernels.matern import SLOPED, VALUES, Coordinates, sum_columns
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, is_space_time, products_of
from tvbandits.gp.kernels.units import InUnits
from tvbandits.gp.lookahead import EVERY, JointPosterior, Rows
from tvbandits.gp.posterior import CandidateGrid, Posterior, Prior, expand
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class PredictionConfig:
    """The constants of predictions.

    Attributes
    ----------
    largest_condition : float
        Beyond this condition number, differences of an explicit inverse would lose too many digits.
    smallest_correlation : float
        A term whose correlation with the past is below this share has forgotten it.
    far : float
        At so many length scales every correlation is below 1e-28.
    chunk : int
        Points that are evaluated together.
    most_tests : int
        So many of the latest readings count as tests of a prior variance.
    largest_square : float
        The square of an error, in deviations, counts for at most this: one outlier is no bad model.
    level : float
        Prior variance of an unknown level, in units of that of the rest.
    """

    largest_condition: float = 1e9
    smallest_correlation: float = 1e-12
    far: float = 40.0
    chunk: int = 128
    most_tests: int = 400
    largest_square: float = 25.0
    level: float = 100.0


CONFIG = PredictionConfig()


# --- slopes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmoothPosterior:
    """A posterior at one time, as a smooth function of the point.

    Attributes
    ----------
    parts : tuple of (Shape, array of shape (n,))
        Each S with its w.
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
        """Return that of a posterior; None unless it is a sum of rows of such a kernel."""
        expansion = expand(posterior, CONFIG.largest_condition)
        split = None if expansion is None else _at_time(expansion.kernel, expansion.Z, now)
        if expansion is None or split is None:
            return None
        return cls(*split, expansion.reduction, expansion.weights)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return means (m, c) and variances (m,) at points (m, d)."""
        k = np.tile(self.levels, (len(X), 1))
        for shape, weights in self.parts:
            shape.add_covariances(k, X, self.points, weights)
        return k @ self.answers, np.maximum(
            self.prior - np.einsum("ij,ij->i", k @ self.inverse, k), 0.0
        )

    def slopes(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """Return means (m, c), variances (m,), and their slopes (m, d, c) and (m, d)."""
        parts = [shape.with_slopes(X, self.points, weights) for shape, weights in self.parts]
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
    widths : tuple of int
        Columns of each coordinate; none where each column is one.
    """

    scales: tuple[float, ...]
    nu: float
    additive: float = 0.0
    widths: tuple[int, ...] = ()

    @classmethod
    def of(cls, kernel: Any, dimension: int) -> Shape | None:
        """Return the shape of a kernel over points, if it has one."""
        if type(kernel) is Coordinates:
            return cls(tuple(kernel.scales.tolist()), 2.5, float(kernel.additive), kernel.widths)
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

    @property
    def _coordinates(self) -> list[slice]:
        """The columns of each coordinate."""
        widths = self.widths or (1,) * len(self.scales)
        return [
            slice(end - width, end) for end, width in zip(np.cumsum(widths), widths, strict=True)
        ]

    def add_covariances(self, out: Array, X: Array, points: Array, weights: Array) -> None:
        """Add w_i S(x, x_i) of points X (m, d) and (n, d) to `out` (m, n)."""
        scales, a, profile = self.scales, self.additive, VALUES[self.nu]
        there = points / scales
        # In pieces that stay in the cache of the processor.
        for start in range(0, len(X), CONFIG.chunk):
            here = X[start : start + CONFIG.chunk] / scales
            if a == 0.0:
                r = cdist(here, there)
                if r.min() > CONFIG.far:
                    continue
                S = profile(r)
            else:
                square, S = (np.zeros((len(here), len(there))) for _ in range(2))
                for at in self._coordinates:
                    r = cdist(here[:, at], there[:, at])
                    square += r * r
                    S += profile(r)
                S *= a / len(self._coordinates)
                S += profile(np.sqrt(square, out=square))
            S *= weights / (1.0 + a)
            out[start : start + CONFIG.chunk] += S

    def with_slopes(self, X: Array, points: Array, weights: Array) -> tuple[Array, Array]:
        """Return w_i S(x, x_i) (m, n) of points X (m, d) and (n, d), and its slopes in x (m, n, d)."""
        scales, a, profile = self.scales, self.additive, SLOPED[self.nu]
        apart = (X[:, None] - points) / scales
        S, slope = profile(np.sqrt(np.einsum("ijk,ijk->ij", apart, apart)))
        if a == 0.0:
            slopes = slope[:, :, None] * apart
        else:
            r = np.abs(apart)
            if self.widths:
                r = np.sqrt(np.moveaxis(sum_columns(np.moveaxis(r * r, 2, 0), self.widths), 0, 2))
            each, slopes = profile(r)
            S = (S + a * each.mean(axis=2)) / (1.0 + a)
            slopes *= a / each.shape[2]
            if self.widths:
                slopes = np.repeat(slopes, self.widths, axis=2)
            slopes += slope[:, :, None]
            # dk / dx_j = -(slope + a/d slope_j) (x_j - x'_j) / l_j^2 / (1 + a)
            slopes *= apart
        slopes *= (-weights / (1.0 + a))[:, None]
        slopes /= scales
        return S * weights, slopes


def _at_time(
    kernel: Any, Z: Array, now: float
) -> tuple[tuple[tuple[Shape, Array], ...], Array, Array, float] | None:
    """Return each S and its w, points, u and the prior variance for inputs (n, p).

    None if it is another kernel.
    """
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
        if over_time.max() < CONFIG.smallest_correlation:
            continue
        if over_points is None:
            levels = levels + amplitude * over_time
            continue
        shape = Shape.of(over_points, points.shape[1])
        if shape is None:
            return None
        parts[shape] = parts.get(shape, 0.0) + amplitude * over_time
    return (tuple(parts.items()), points, levels, prior) if parts else None


def has_slopes(kernel: Any, Z: Array) -> bool:
    """Return whether a sum of rows of a kernel, at inputs (n, p) with n > 0, has slopes."""
    return _at_time(kernel, Z, float(Z[0, -1])) is not None


@dataclass(frozen=True)
class Bound:
    """An acquisition with slopes: mean columns @ columns + constant + times * deviation.

    Attributes
    ----------
    about_mean, about_variance : SmoothPosterior
        The latter may have more points: pending ones.
    columns : array of shape (c,)
    constant, times : float
    """

    about_mean: SmoothPosterior
    about_variance: SmoothPosterior
    columns: Array
    constant: float
    times: float

    def __call__(self, X: Array) -> Array:
        """Return values at points (m, d), shape (m,)."""
        means, variance = self.about_mean.predict(X)
        if self.about_variance is not self.about_mean:
            variance = self.about_variance.predict(X)[1]
        return np.asarray(means @ self.columns + self.constant + self.times * np.sqrt(variance))

    def values_and_slopes(self, X: Array) -> tuple[Array, Array]:
        """Return values (m,) and slopes (m, d) at points (m, d)."""
        means, variance, uphill, wider = self.about_mean.slopes(X)
        if self.about_variance is not self.about_mean:
            _, variance, _, wider = self.about_variance.slopes(X)
        deviation = np.sqrt(np.maximum(variance, 1e-300))[:, None]
        values = means @ self.columns + self.constant + self.times * np.sqrt(variance)
        return values, uphill @ self.columns + (0.5 * self.times) * wider / deviation

    @property
    def near(self) -> Array:
        """Points (n, d) with observations, near which its maxima may be narrow."""
        return self.about_mean.points


# --- the width of intervals -----------------------------------------------------------------------


def independent_readings(K: Array) -> float:
    """Return how many independent readings are worth readings of covariance K (n, n).

    It is about a variance around their own mean, so that K has its means of rows and columns subtracted:
    tr(K)^2 / tr(K^2), which is n - 1 where no two readings share anything, and 0 of one reading.
    """
    off = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    total = float(np.trace(off))
    return total**2 / float((off**2).sum()) if total > 1e-9 * float(np.trace(K)) else 0.0


def students_factor(readings: float) -> float:
    """Return how much wider a 95% interval is if its variance was estimated from so many readings.

    Student's of one degree of freedom more: the first guess of the variance counts as a reading.
    """
    return float(stdtrit(readings + 1.0, 0.975) / ndtri(0.975))


def excess_error(K: Array, noise: Array, values: Array) -> float:
    """Return how far values (n,) are from the predictions of all others, in their deviations.

    With Q = (K + noise + m)^-1, m for an unknown level, y_i is off by (Q y)_i / Q_ii, of the variance
    1 / Q_ii. The mean of the standardised squares is weighted by the share of the prior variance that
    the others leave: what they predict exactly tests little. Half a standard error is for chance. It is
    1 at the least: narrower intervals did not hold.
    """
    prior = float(np.diagonal(K).mean())
    Q = linalg.inverse(linalg.cholesky(K + CONFIG.level * prior + np.diag(noise), "places").L)
    variance = 1.0 / np.diagonal(Q)
    # Of the control alone, which has no prior variance, readings test nothing.
    share = np.clip((variance - noise) / prior, 0.0, 1.0) if prior > 0 else 0.0 * noise
    squares = np.minimum((Q @ (values - values.mean())) ** 2 * variance, CONFIG.largest_square)
    most = float(share.sum() + np.sqrt(share.sum() / 2.0))
    return math.sqrt(max(float(share @ squares), most) / most) if most else 1.0


# --- in the unit of the reward --------------------------------------------------------------------


@dataclass(frozen=True)
class ScaledPosterior:
    """A posterior of reward - origin and of the constant 1, read as one of the reward.

    The mean is linear in the values: conditioning reward - prior mean is conditioning reward - origin,
    less (prior mean - origin) times conditioning the constant.

    Attributes
    ----------
    posterior : Posterior
        With two value columns: reward - origin, and 1; or with the reward alone.
    prior : Prior
        That of the posterior.
    grid : CandidateGrid or None
        The candidates of a finite domain, which the posterior answers for without a solve.
    inputs_at : callable
        Kernel inputs (n, p) of points (n, d) at a time.
    prior_mean, scale : float
        Prior mean and prior deviation of the reward.
    origin : float
    now : float
        The time it is about.
    deviation_factor : float
        Factor on the deviation of the reward, which the width of a decision leaves out: what innovations
        have shown.
    prior_is_learned : bool
        Whether the prior variance was learned from the readings themselves.
    dimension : int, optional
        Coordinates of a point, the first columns of `inputs`. None: readings are not tested against each
        other, as relative to a control, where each time has a level of its own.
    """

    posterior: Posterior
    prior: Prior
    grid: CandidateGrid | None
    inputs_at: Callable[[Array, float], Array]
    prior_mean: float
    scale: float
    origin: float
    now: float = math.nan
    deviation_factor: float = 1.0
    prior_is_learned: bool = False
    dimension: int | None = None

    @property
    def nugget(self) -> float:
        """Variance of the reward that is new at every point and time, which `predict` leaves out."""
        return self.prior.nugget

    def inputs(self, X: Array) -> Array:
        """Return the kernel inputs (n, p) of points (n, d), now."""
        return self.inputs_at(X, self.now)

    def predict_reward(self, X: Array, *, test: bool = False) -> tuple[Array, Array]:
        """Return mean and deviation of the reward at points (n, d), with everything that is uncertain.

        A prior variance that was learned is as certain as its few independent readings allow: the share
        of it that is left at a point is widened as Student's intervals are (`students_factor`).

        Parameters
        ----------
        X : array of shape (n, d)
        test : bool
            Widen the deviation also where readings are further from each other than the model predicts.
        """
        mean, deviation = self.predict(X)
        learned = self.prior_is_learned and self.posterior.summary.size > 0
        if learned:
            factor, prior = self._student_factor
            # Of the control alone, which has no prior variance, readings test nothing.
            share = np.minimum(deviation**2, prior) / prior if prior > 0 else 1.0
            deviation = deviation * (1.0 + (factor - 1.0) * share)
        deviation = self.deviation_factor * deviation
        if self.nugget:
            deviation = np.sqrt(deviation**2 + self.nugget)
        return mean, self._excess_error * deviation if test and learned else deviation

    @cached_property
    def _excess_error(self) -> float:
        """`excess_error` of the latest readings.

        Each is tested against all others, also those of its own place: how far apart places are tests
        little where each has been read often.
        """
        if not self.dimension:
            return 1.0
        Z, Y, noise = (each[-CONFIG.most_tests :] for each in self.posterior.summary.data)
        noise = noise + self.nugget / self.scale**2
        return excess_error(self.prior.covariance(Z), noise, Y[:, 0] / self.scale)

    @cached_property
    def _student_factor(self) -> tuple[float, float]:
        """Factor on the deviation of what no reading has tested, and its prior variance."""
        K = self.prior.covariance(self.posterior.summary.data.Z[-CONFIG.most_tests :])
        prior = self.scale**2 * float(np.diagonal(K).mean())
        return students_factor(independent_readings(K)), prior

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and deviation at points (n, d), each of shape (n,)."""
        columns, variance = self.posterior.predict(self._where(X))
        return self._rescale(columns), self.scale * np.sqrt(variance)

    def mean(self, X: Array) -> Array:
        """Return the mean at points (n, d), shape (n,)."""
        return self._rescale(self.posterior.predict(self._where(X))[0])

    def _where(self, X: Array) -> Array | CandidateGrid:
        """Return the candidates where the points are all of them, else kernel inputs."""
        return self.grid if self.grid is not None and X is self.grid.points else self.inputs(X)

    def upper_bound(self, X: Array, beta: float) -> Array:
        """Return mean + beta deviation, shape (n,)."""
        mean, deviation = self.predict(X)
        return np.asarray(mean + beta * deviation)

    def bound(self, beta: float) -> Callable[[Array], Array]:
        """Return mean + beta deviation as a function of points; with slopes where there are any."""
        smooth = None if self.grid is not None else self._smooth
        if smooth is None:
            return partial(self.upper_bound, beta=beta)
        return self._bound_of(smooth, smooth, beta * self.scale)

    def mean_function(self) -> Callable[[Array], Array]:
        """Return the mean as a function of points (n, d); with slopes where there are any."""
        smooth = self._smooth
        return self.mean if smooth is None else self._bound_of(smooth, smooth, 0.0)

    def smooth_bound(self, posterior: Posterior, times: float) -> Bound | None:
        """Return the mean + times * the deviation, in prior units, of another posterior.

        None where there are no slopes.
        """
        own = self._smooth
        other = None if own is None else SmoothPosterior.of(posterior, self.now)
        return None if own is None or other is None else self._bound_of(own, other, times)

    def look_ahead(
        self, points: Array, about: float, beta: float, noise_variance: float
    ) -> JointPosterior:
        """Return the posterior at points (n, d) now, with what answers of a time would change.

        Parameters
        ----------
        points : array of shape (n, d)
        about : float
            The time of the answers.
        beta : float
            Confidence width, in deviations.
        noise_variance : float
            Of an answer (unit of reward squared).
        """
        return look_ahead(self.posterior, self, points, about, beta, noise_variance)

    @cached_property
    def _smooth(self) -> SmoothPosterior | None:
        if self.grid is not None or not math.isfinite(self.now):
            return None
        return SmoothPosterior.of(self.posterior, self.now)

    def _bound_of(self, mean: SmoothPosterior, variance: SmoothPosterior, times: float) -> Bound:
        columns = np.array([1.0, self.origin - self.prior_mean])
        return Bound(mean, variance, columns, self.prior_mean, times)

    def _rescale(self, columns: Array) -> Array:
        shift = self.prior_mean - self.origin
        if columns.shape[1] == 1:
            return columns[:, 0]  # of a posterior with a mean of its own
        return np.asarray(self.prior_mean + columns[:, 0] - shift * columns[:, 1])


@singledispatch
def look_ahead(
    posterior: Posterior,
    scaled: ScaledPosterior,
    points: Array,
    about: float,
    beta: float,
    noise_variance: float,
) -> JointPosterior:
    """Return `ScaledPosterior.look_ahead`: from covariances, unless a posterior has its own way."""
    mean, deviation = scaled.predict(points)
    asked, later = scaled.inputs_at(points, about), scaled.inputs(points)
    unit = scaled.scale**2

    def cross_covariance(rows: Rows, others: Index | slice = EVERY) -> Array:
        return np.asarray(unit * posterior.covariance(asked[list(rows)], later[others]))

    def covariance(rows: Rows, others: Rows) -> Array:
        return np.asarray(unit * posterior.covariance(asked[list(rows)], asked[list(others)]))

    return JointPosterior(mean, deviation, beta, noise_variance, cross_covariance, covariance)
