"""Define stationary correlations of scaled distances, with derivatives and state-space transitions.

The state of a process with a Matern kernel over time is its value and, for nu = 3/2, its derivative. It
follows a linear stochastic differential equation ([HS] = Hartikainen & Sarkka 2010, docs/references.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.gaussian_process.kernels import (
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from tvbandits.validation import Array

ROOT3, ROOT5 = math.sqrt(3.0), math.sqrt(5.0)

Number = TypeVar("Number", float, Array)


def identity(r: Array) -> Array:
    """Return 1 for a distance of 0, else 0."""
    return np.asarray(r == 0, dtype=np.float64)


def matern12(r: Array) -> Array:
    """Return the Matern-1/2 correlation at distances r."""
    return np.asarray(np.exp(-r))


def matern32(r: Array) -> Array:
    """Return the Matern-3/2 correlation at distances r."""
    return matern32_and_slope(r)[0]


def matern52(r: Array) -> Array:
    """Return the Matern-5/2 correlation at distances r."""
    s = ROOT5 * r
    decay = np.exp(-s)
    s *= 1.0 + s / 3.0
    s += 1.0
    s *= decay
    return np.asarray(s)


def rbf(r: Array) -> Array:
    """Return the squared exponential correlation at distances r."""
    return np.asarray(np.exp(-0.5 * r * r))


# Correlations by their smoothness nu.
VALUES: dict[float, Callable[[Array], Array]] = {
    0.5: matern12,
    1.5: matern32,
    2.5: matern52,
    math.inf: rbf,
}


def matern32_and_slope(r: Array) -> tuple[Array, Array]:
    """Return the Matern-3/2 correlation at distances r, and -1/r times its derivative."""
    s = ROOT3 * r
    decay = np.exp(-s)
    return (1.0 + s) * decay, 3.0 * decay


def matern52_and_slope(r: Array) -> tuple[Array, Array]:
    """Return the Matern-5/2 correlation at distances r, and -1/r times its derivative."""
    s = ROOT5 * r
    decay = np.exp(-s)
    slope = (5.0 / 3.0) * (1.0 + s) * decay
    return decay + s * decay + (s * s / 3.0) * decay, slope


def rbf_and_slope(r: Array) -> tuple[Array, Array]:
    """Return the squared exponential correlation at distances r, and -1/r times its derivative."""
    value = rbf(r)
    return value, value


# Correlations that are differentiable at 0, with -1/r times their derivatives, by their smoothness.
SLOPED: dict[float, Callable[[Array], tuple[Array, Array]]] = {
    1.5: matern32_and_slope,
    2.5: matern52_and_slope,
    math.inf: rbf_and_slope,
}


def matern32_rate(scale: Number) -> Number:
    """Return the rate sqrt(3) / scale of Matern-3/2, whose derivative has the prior variance rate^2."""
    return ROOT3 / scale


def matern32_transition(
    rate: Number, h: Number, decay: Number
) -> tuple[Number, Number, Number, Number]:
    """Return the transition matrix of the state of Matern-3/2 over a time h >= 0 ([HS] eq. 14).

    Parameters
    ----------
    rate : float or array
        The value of `matern32_rate`.
    h : float or array
    decay : float or array
        exp(-rate h).

    Returns
    -------
    value, up : floats or arrays
        Coefficients of the value and of the derivative in the next value.
    down, derivative : floats or arrays
        Coefficients of the value and of the derivative in the next derivative.
    """
    x = rate * h
    return decay * (1.0 + x), decay * h, -decay * rate**2 * h, decay * (1.0 - x)


def sum_columns(values: Array, widths: tuple[int, ...]) -> Array:
    """Return the sums (p, ...) of values (d, ...) over the columns of each of p coordinates.

    `widths` are the numbers of columns of the coordinates; if empty, each column is a coordinate.
    """
    if not widths:
        return values
    return np.asarray(np.add.reduceat(values, np.cumsum([0, *widths[:-1]]), axis=0))


class Coordinates(StationaryKernelMixin, NormalizedKernelMixin, Kernel):  # type: ignore[misc]
    """A Matern-5/2 kernel m with an additive part: a joint kernel and one for each coordinate.

    k(x, x') = (m(r) + a mean_j m(r_j)) / (1 + a), r_j = abs(x_j - x'_j) / l_j, r^2 = sum_j r_j^2

    With a large a, a function that is nearly a sum of functions of one coordinate each is learned from
    few points (Duvenaud, Nickisch and Rasmussen 2011). With a = 0 it is the usual Matern kernel.

    Parameters
    ----------
    length_scale : array of shape (p,)
        The length scale l_j of each coordinate.
    additive : float
        The ratio a > 0 of the variance of the additive part to that of the joint part.
    length_scale_bounds : pair of floats, array of shape (p, 2) or "fixed"
    additive_bounds : pair of floats or "fixed"
    widths : tuple of p ints, optional
        The number of columns of each coordinate. A circle has 2 columns, and r_j is the distance in them
        over l_j. By default each column is a coordinate.
    """

    def __init__(
        self,
        length_scale: Any,
        additive: float = 1.0,
        length_scale_bounds: Any = (1e-5, 1e5),
        additive_bounds: Any = (1e-3, 1e3),
        widths: tuple[int, ...] = (),
    ) -> None:
        self.length_scale = length_scale
        self.additive = additive
        self.length_scale_bounds = length_scale_bounds
        self.additive_bounds = additive_bounds
        self.widths = widths

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        """Return the hyperparameter of the length scales."""
        n = len(np.atleast_1d(self.length_scale))
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds, n)

    @property
    def hyperparameter_additive(self) -> Hyperparameter:
        """Return the hyperparameter of the additive part."""
        return Hyperparameter("additive", "numeric", self.additive_bounds)

    @property
    def scales(self) -> Array:
        """Return the length scales (d,) of the columns."""
        scales = np.atleast_1d(np.asarray(self.length_scale, dtype=np.float64))
        return np.repeat(scales, self.widths) if self.widths else scales

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to `theta`."""
        scales = self.scales
        A = np.atleast_2d(X) / scales
        B = A if Y is None else np.atleast_2d(Y) / scales
        squares = sum_columns((A.T[:, :, None] - B.T[:, None, :]) ** 2, self.widths)
        joint, slope = matern52_and_slope(np.sqrt(squares.sum(axis=0)))
        single, slopes = matern52_and_slope(np.sqrt(squares))
        mean, a = single.mean(axis=0), float(self.additive)
        K = (joint + a * mean) / (1.0 + a)
        if not eval_gradient:
            return K
        gradients = []
        if not self.hyperparameter_additive.fixed:
            gradients.append(((mean - joint) * (a / (1.0 + a) ** 2))[None])
        if not self.hyperparameter_length_scale.fixed:
            # dk / dlog l_j = -r_j dk / dr_j
            gradients.append(squares * (slope + (a / len(squares)) * slopes) / (1.0 + a))
        if not gradients:
            return K, np.empty((*K.shape, 0))
        return K, np.moveaxis(np.concatenate(gradients), 0, -1)

    def __repr__(self) -> str:
        scales = ", ".join(f"{scale:.3g}" for scale in self.scales)
        return f"Coordinates([{scales}], additive={self.additive:.3g})"
