"""Predict the reward at one time, in its own unit and with gradients.

`ScaledPosterior` combines a posterior in prior units with the prior mean and scale of the reward.

`SmoothPosterior` is a posterior at one time as a differentiable function of the point. The kernel must
be a sum of terms amplitude * space * time and amplitude * time; terms that have forgotten all
observations only add prior variance. At one time the factor over time is one weight for each
observation, and the covariance with observation i is k_i(x) = sum_S S(x, x_i) w_Si + u_i, where S is
`Coordinates`, squared exponential, Matern-3/2 or Matern-5/2. With Q = (K + Sigma)^-1,

    mean(x) = k(x)^T Q y,       variance(x) = k(x, x) - k(x)^T Q k(x),

and the gradients follow from those of S. On a dictionary with the root R, and k(x) of its points, the
same formulas apply with Q = R^-T (1 - V^-1) R^-1 for the variance and R^-T V^-1 b in place of Q y for
the mean (`tvbandits.gp.sparse`).
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
from tvbandits.gp.lookahead import ALL_POINTS, JointPosterior, Rows
from tvbandits.gp.posterior import CandidateGrid, Posterior, Prior, expand_posterior
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class PredictionConfig:
    """Constants of predictions.

    Attributes
    ----------
    largest_condition : float
        The largest condition number for which an explicit inverse keeps enough digits.
    smallest_correlation : float
        A term whose correlation with all observations is below this has forgotten them.
    far : float
        A distance in length scales at which every correlation is below 1e-28.
    chunk : int
        The number of points that are evaluated together.
    most_tests : int
        The largest number of latest readings that test a prior variance.
    largest_square : float
        The limit at which squared standardised errors are clipped, because one outlier does not show
        that the model is wrong.
    level : float
        Ratio of the prior variance of an unknown level to that of the reward.
    """

    largest_condition: float = 1e9
    smallest_correlation: float = 1e-12
    far: float = 40.0
    chunk: int = 128
    most_tests: int = 400
    largest_square: float = 25.0
    level: float = 100.0


CONFIG = PredictionConfig()


# --- gradients ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmoothPosterior:
    """A posterior at one time, as a differentiable function of the point.

    Attributes
    ----------
    parts : tuple of (Shape, array of shape (n,))
        Each S with its weights w.
    points : array of shape (n, d)
        The points of the observations, or of the dictionary.
    levels : array of shape (n,)
        The constants u.
    prior : float
        Prior variance.
    inverse : array of shape (n, n)
        The matrix Q.
    coefficients : array of shape (n, c)
        The coefficients Q y of the mean.
    """

    parts: tuple[tuple[Shape, Array], ...]
    points: Array
    levels: Array
    prior: float
    inverse: Array
    coefficients: Array

    @classmethod
    def of(cls, posterior: Posterior, now: float) -> SmoothPosterior | None:
        """Return the posterior as a differentiable function; None if its kernel is of another form."""
        expansion = expand_posterior(posterior, CONFIG.largest_condition)
        parts = None if expansion is None else _split_at_time(expansion.kernel, expansion.Z, now)
        if expansion is None or parts is None:
            return None
        return cls(*parts, expansion.reduction, expansion.weights)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return means (m, c) and variances (m,) at points (m, d)."""
        k = np.tile(self.levels, (len(X), 1))
        for shape, weights in self.parts:
            shape.add_covariances(k, X, self.points, weights)
        variance = np.maximum(self.prior - np.einsum("ij,ij->i", k @ self.inverse, k), 0.0)
        return k @ self.coefficients, variance

    def predict_with_slopes(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """Return means (m, c), variances (m,), and their gradients (m, d, c) and (m, d)."""
        parts = [
            shape.covariances_with_slopes(X, self.points, weights) for shape, weights in self.parts
        ]
        k = sum((values for values, _ in parts), start=self.levels)
        k_slopes = sum((slopes for _, slopes in parts[1:]), start=parts[0][1])
        Qk = k @ self.inverse
        variance = np.maximum(self.prior - np.einsum("ij,ij->i", Qk, k), 0.0)
        mean_slopes = np.einsum("ijk,jc->ikc", k_slopes, self.coefficients)
        variance_slopes = -2.0 * np.einsum("ijk,ij->ik", k_slopes, Qk)
        return k @ self.coefficients, variance, mean_slopes, variance_slopes


@dataclass(frozen=True)
class Shape:
    """A correlation function over points, with an additive part.

    It is (S_joint + `additive` * mean_j S_j) / (1 + `additive`), with S_joint over all coordinates and
    S_j over coordinate j.

    Attributes
    ----------
    scales : tuple of d floats
        Length scales of the columns.
    nu : float
        Smoothness of all parts: 1.5, 2.5 or infinity.
    additive : float
        Weight of the additive part.
    widths : tuple of int
        The number of columns of each coordinate; empty if each column is a coordinate.
    """

    scales: tuple[float, ...]
    nu: float
    additive: float = 0.0
    widths: tuple[int, ...] = ()

    @classmethod
    def of(cls, kernel: Any, dimension: int) -> Shape | None:
        """Return the shape of a kernel over points; None if the kernel is of another form."""
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
        """Return the columns of each coordinate."""
        widths = self.widths or (1,) * len(self.scales)
        return [
            slice(end - width, end) for end, width in zip(np.cumsum(widths), widths, strict=True)
        ]

    def add_covariances(self, out: Array, X: Array, points: Array, weights: Array) -> None:
        """Add w_i S(x, x_i) for the points X (m, d) and `points` (n, d) to `out` (m, n)."""
        scales, a, profile = self.scales, self.additive, VALUES[self.nu]
        scaled_points = points / scales
        # Chunks whose matrices fit in the cache of the processor.
        for start in range(0, len(X), CONFIG.chunk):
            scaled_X = X[start : start + CONFIG.chunk] / scales
            if a == 0.0:
                r = cdist(scaled_X, scaled_points)
                if r.min() > CONFIG.far:
                    continue
                S = profile(r)
            else:
                square, S = (np.zeros((len(scaled_X), len(scaled_points))) for _ in range(2))
                for columns in self._coordinates:
                    r = cdist(scaled_X[:, columns], scaled_points[:, columns])
                    square += r * r
                    S += profile(r)
                S *= a / len(self._coordinates)
                S += profile(np.sqrt(square, out=square))
            S *= weights / (1.0 + a)
            out[start : start + CONFIG.chunk] += S

    def covariances_with_slopes(
        self, X: Array, points: Array, weights: Array
    ) -> tuple[Array, Array]:
        """Return w_i S(x, x_i) (m, n) for the points X (m, d), and its gradients in x (m, n, d)."""
        scales, a, profile = self.scales, self.additive, SLOPED[self.nu]
        differences = (X[:, None] - points) / scales
        S, slope = profile(np.sqrt(np.einsum("ijk,ijk->ij", differences, differences)))
        if a == 0.0:
            slopes = slope[:, :, None] * differences
        else:
            r = np.abs(differences)
            if self.widths:
                r = np.sqrt(np.moveaxis(sum_columns(np.moveaxis(r * r, 2, 0), self.widths), 0, 2))
            single, slopes = profile(r)
            S = (S + a * single.mean(axis=2)) / (1.0 + a)
            slopes *= a / single.shape[2]
            if self.widths:
                slopes = np.repeat(slopes, self.widths, axis=2)
            slopes += slope[:, :, None]
            # dk / dx_j = -(slope + a/d slope_j) (x_j - x'_j) / l_j^2 / (1 + a)
            slopes *= differences
        slopes *= (-weights / (1.0 + a))[:, None]
        slopes /= scales
        return S * weights, slopes


def _split_at_time(
    kernel: Any, Z: Array, now: float
) -> tuple[tuple[tuple[Shape, Array], ...], Array, Array, float] | None:
    """Return the pairs (S, w), the points, u and the prior variance for inputs (n, p).

    None if the kernel is of another form.
    """
    space_time = is_space_time(kernel)
    points, times = (Z[:, :-1], Z[:, -1:]) if space_time else (Z, np.zeros((len(Z), 1)))
    inputs, present = np.column_stack([np.zeros(len(times)), times]), np.array([[0.0, now]])
    parts: dict[Shape, Array] = {}
    levels, prior = np.zeros(len(times)), 0.0
    for term in products_of(kernel):
        amplitude, over_time, over_points = 1.0, np.ones(len(times)), None
        for leaf in term:
            if type(leaf.kernel) is ConstantKernel:
                amplitude *= float(leaf.kernel.constant_value)
            elif type(leaf.kernel) is OnSpace or not space_time:
                if over_points is not None:
                    return None
                over_points = leaf.kernel.kernel if space_time else leaf.kernel
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
    """Return whether a sum of rows of a kernel, at inputs (n, p) with n > 0, has gradients."""
    return _split_at_time(kernel, Z, float(Z[0, -1])) is not None


@dataclass(frozen=True)
class Bound:
    """An acquisition with gradients: means @ columns + constant + width * deviation.

    Attributes
    ----------
    mean_posterior, variance_posterior : SmoothPosterior
        The posteriors of the mean and of the variance; the latter may include pending points.
    columns : array of shape (c,)
        Weights of the value columns.
    constant : float
    width : float
        Factor on the deviation.
    """

    mean_posterior: SmoothPosterior
    variance_posterior: SmoothPosterior
    columns: Array
    constant: float
    width: float

    def __call__(self, X: Array) -> Array:
        """Return values at points (m, d), shape (m,)."""
        means, variance = self.mean_posterior.predict(X)
        if self.variance_posterior is not self.mean_posterior:
            variance = self.variance_posterior.predict(X)[1]
        return np.asarray(means @ self.columns + self.constant + self.width * np.sqrt(variance))

    def values_and_slopes(self, X: Array) -> tuple[Array, Array]:
        """Return values (m,) and gradients (m, d) at points (m, d)."""
        means, variance, mean_slopes, variance_slopes = self.mean_posterior.predict_with_slopes(X)
        if self.variance_posterior is not self.mean_posterior:
            _, variance, _, variance_slopes = self.variance_posterior.predict_with_slopes(X)
        deviation = np.sqrt(np.maximum(variance, 1e-300))[:, None]
        values = means @ self.columns + self.constant + self.width * np.sqrt(variance)
        slopes = mean_slopes @ self.columns + (0.5 * self.width) * variance_slopes / deviation
        return values, slopes

    @property
    def near(self) -> Array:
        """Return the observed points (n, d), near which maxima may be narrow."""
        return self.mean_posterior.points


# --- the width of intervals -----------------------------------------------------------------------


def independent_readings(K: Array) -> float:
    """Return the effective number of independent readings among readings of covariance K (n, n).

    It refers to the variance around the mean of the readings. Therefore the means of the rows and
    columns of K are subtracted; the number is tr(K)^2 / tr(K^2) of the result. It is n - 1 for
    independent readings and 0 for a single one.
    """
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    total = float(np.trace(centred))
    return total**2 / float((centred**2).sum()) if total > 1e-9 * float(np.trace(K)) else 0.0


def students_factor(readings: float) -> float:
    """Return the factor by which a 95% interval widens if its variance is estimated from `readings`.

    It is the quantile of Student's distribution over the normal one, with one more degree of freedom
    because the first guess of the variance counts as a reading.
    """
    return float(stdtrit(readings + 1.0, 0.975) / ndtri(0.975))


def excess_error(K: Array, noise: Array, values: Array) -> float:
    """Return the ratio, at least 1, of leave-one-out errors of values (n,) to their deviations.

    With Q = (K + noise + m)^-1, where m is the variance of an unknown level, y_i minus its leave-one-out
    prediction is (Q y)_i / Q_ii and has the variance 1 / Q_ii. Squared standardised errors are averaged
    with the fractions of the prior variance that the other values leave as weights, because a value that
    the others predict exactly tests little. An excess within half a standard error is ignored.
    """
    prior = float(np.diagonal(K).mean())
    Q = linalg.inverse(linalg.cholesky(K + CONFIG.level * prior + np.diag(noise), "places").L)
    variance = 1.0 / np.diagonal(Q)
    # Readings of the control only, which has no prior variance, test nothing.
    weights = np.clip((variance - noise) / prior, 0.0, 1.0) if prior > 0 else 0.0 * noise
    squares = np.minimum((Q @ (values - values.mean())) ** 2 * variance, CONFIG.largest_square)
    expected = float(weights.sum() + np.sqrt(weights.sum() / 2.0))
    return math.sqrt(max(float(weights @ squares), expected) / expected) if expected else 1.0


# --- in the unit of the reward --------------------------------------------------------------------


@dataclass(frozen=True)
class ScaledPosterior:
    """A posterior in the unit of the reward, from one of the columns reward - origin and 1.

    The mean is linear in the values: the posterior mean of reward - prior mean is that of the first
    column minus (prior mean - origin) times that of the second.

    Attributes
    ----------
    posterior : Posterior
        A posterior with the value columns reward - origin and 1, or with the reward only.
    prior : Prior
        The prior of the posterior.
    grid : CandidateGrid or None
        The candidates of a finite domain, at which the posterior needs no solve.
    inputs_at : callable
        Returns the kernel inputs (n, p) of points (n, d) at a time.
    prior_mean, scale : float
        Prior mean and prior deviation of the reward.
    origin : float
        The constant that was subtracted from the rewards.
    now : float
        The time of the predictions.
    deviation_factor : float
        Factor on the deviation of the reward that corrects for past innovations; the confidence width of
        a decision does not include it.
    prior_is_learned : bool
        Whether the prior variance was learned from the same readings.
    dimension : int, optional
        The number of coordinates of a point, the first columns of `inputs`. If None, readings are not
        tested against each other; so it is relative to a control, where each time has its own level.
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
        """Return the variance that is independent at each point and time; `predict` leaves it out."""
        return self.prior.nugget

    def inputs(self, X: Array) -> Array:
        """Return the kernel inputs (n, p) of points (n, d) at the time `now`."""
        return self.inputs_at(X, self.now)

    def predict_reward(self, X: Array, *, test: bool = False) -> tuple[Array, Array]:
        """Return mean and deviation of the reward at points (n, d), with all sources of uncertainty.

        A learned prior variance is uncertain if there are few independent readings. The fraction of it
        that is left at a point is widened like a Student interval (`students_factor`).

        Parameters
        ----------
        X : array of shape (n, d)
        test : bool
            Widen the deviation also if readings differ more than the model predicts (`excess_error`).
        """
        mean, deviation = self.predict(X)
        learned = self.prior_is_learned and self.posterior.summary.size > 0
        if learned:
            factor, prior = self._student_factor
            # Readings of the control only, which has no prior variance, test nothing.
            fraction = np.minimum(deviation**2, prior) / prior if prior > 0 else 1.0
            deviation = deviation * (1.0 + (factor - 1.0) * fraction)
        deviation = self.deviation_factor * deviation
        if self.nugget:
            deviation = np.sqrt(deviation**2 + self.nugget)
        return mean, self._excess_error * deviation if test and learned else deviation

    @cached_property
    def _excess_error(self) -> float:
        """Return the `excess_error` of the latest readings.

        Each reading is tested against all others, including those of its own place. Differences between
        places alone would test little if each place has many readings.
        """
        if not self.dimension:
            return 1.0
        Z, Y, noise = (column[-CONFIG.most_tests :] for column in self.posterior.summary.data)
        noise = noise + self.nugget / self.scale**2
        return excess_error(self.prior.covariance(Z), noise, Y[:, 0] / self.scale)

    @cached_property
    def _student_factor(self) -> tuple[float, float]:
        """Return the Student factor on the deviation of untested points, and their prior variance."""
        K = self.prior.covariance(self.posterior.summary.data.Z[-CONFIG.most_tests :])
        prior = self.scale**2 * float(np.diagonal(K).mean())
        return students_factor(independent_readings(K)), prior

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and deviation at points (n, d), each of shape (n,)."""
        columns, variance = self.posterior.predict(self._grid_or_inputs(X))
        return self._rescale(columns), self.scale * np.sqrt(variance)

    def mean(self, X: Array) -> Array:
        """Return the mean at points (n, d), shape (n,)."""
        return self._rescale(self.posterior.predict(self._grid_or_inputs(X))[0])

    def _grid_or_inputs(self, X: Array) -> Array | CandidateGrid:
        """Return the grid if `X` is its array of candidates, else the kernel inputs of `X`."""
        return self.grid if self.grid is not None and X is self.grid.points else self.inputs(X)

    def upper_bound(self, X: Array, beta: float) -> Array:
        """Return mean + beta * deviation at points (n, d), shape (n,)."""
        mean, deviation = self.predict(X)
        return np.asarray(mean + beta * deviation)

    def bound(self, beta: float) -> Callable[[Array], Array]:
        """Return mean + beta * deviation as a function of points, with gradients if it has any."""
        smooth = None if self.grid is not None else self._smooth
        if smooth is None:
            return partial(self.upper_bound, beta=beta)
        return self._bound_of(smooth, smooth, beta * self.scale)

    def mean_function(self) -> Callable[[Array], Array]:
        """Return the mean as a function of points (n, d), with gradients if it has any."""
        smooth = self._smooth
        return self.mean if smooth is None else self._bound_of(smooth, smooth, 0.0)

    def smooth_bound(self, posterior: Posterior, width: float) -> Bound | None:
        """Return this mean + width * the deviation of another posterior, in prior units.

        None if there are no gradients.
        """
        own = self._smooth
        other = None if own is None else SmoothPosterior.of(posterior, self.now)
        return None if own is None or other is None else self._bound_of(own, other, width)

    def look_ahead(
        self, points: Array, answer_time: float, beta: float, noise_variance: float
    ) -> JointPosterior:
        """Return the joint posterior at points (n, d) of the decision at `now` and earlier answers.

        Parameters
        ----------
        points : array of shape (n, d)
        answer_time : float
            The time of the expert's answers.
        beta : float
            Confidence width, in deviations.
        noise_variance : float
            Noise variance of an answer, in the unit of the reward squared.
        """
        return look_ahead(self.posterior, self, points, answer_time, beta, noise_variance)

    @cached_property
    def _smooth(self) -> SmoothPosterior | None:
        """Return the posterior as a differentiable function; None on a grid or for another kernel."""
        if self.grid is not None or not math.isfinite(self.now):
            return None
        return SmoothPosterior.of(self.posterior, self.now)

    def _bound_of(self, mean: SmoothPosterior, variance: SmoothPosterior, width: float) -> Bound:
        """Return the bound, in the unit of the reward, of these posteriors."""
        columns = np.array([1.0, self.origin - self.prior_mean])
        return Bound(mean, variance, columns, self.prior_mean, width)

    def _rescale(self, columns: Array) -> Array:
        """Return the mean of the reward (n,) from the means (n, c) of the value columns."""
        shift = self.prior_mean - self.origin
        if columns.shape[1] == 1:
            return columns[:, 0]  # the posterior of a rule that learns the mean itself
        return np.asarray(self.prior_mean + columns[:, 0] - shift * columns[:, 1])


@singledispatch
def look_ahead(
    posterior: Posterior,
    scaled: ScaledPosterior,
    points: Array,
    answer_time: float,
    beta: float,
    noise_variance: float,
) -> JointPosterior:
    """Return `ScaledPosterior.look_ahead`, by default from the covariances of the posterior."""
    mean, deviation = scaled.predict(points)
    answers, decision = scaled.inputs_at(points, answer_time), scaled.inputs(points)
    factor = scaled.scale**2

    def cross_covariance(rows: Rows, others: Index | slice = ALL_POINTS) -> Array:
        return np.asarray(factor * posterior.covariance(answers[list(rows)], decision[others]))

    def covariance(rows: Rows, others: Rows) -> Array:
        return np.asarray(factor * posterior.covariance(answers[list(rows)], answers[list(others)]))

    return JointPosterior(mean, deviation, beta, noise_variance, cross_covariance, covariance)
