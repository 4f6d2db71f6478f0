"""A kernel over the points of a box that finds out which coordinates matter, and whether they add up."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from tvbandits.gp.kernels.matern import matern52_and_slope
from tvbandits.validation import Array


def sum_columns(values: Array, widths: tuple[int, ...]) -> Array:
    """Return the sums (p, ...) of values (d, ...) over the columns of each coordinate.

    Without widths each column is a coordinate.
    """
    if not widths:
        return values
    return np.asarray(np.add.reduceat(values, np.cumsum([0, *widths[:-1]]), axis=0))


class Coordinates(StationaryKernelMixin, NormalizedKernelMixin, Kernel):  # type: ignore[misc]
    """A joint Matern-5/2 kernel and the mean of one for each coordinate, of the same length scales.

    k(x, x') = (m(r) + a mean_j m(r_j)) / (1 + a), r_j = abs(x_j - x'_j) / l_j, r^2 = sum_j r_j^2

    A function that is a sum of functions of one coordinate each, or nearly so, is learned from few
    points where a is large (Duvenaud, Nickisch and Rasmussen 2011); a = 0 is the usual kernel.

    Parameters
    ----------
    length_scale : array of shape (p,)
        l_j, of each coordinate.
    additive : float
        a, the variance of the sum in units of that of the joint part; positive.
    length_scale_bounds : pair of floats, array of shape (p, 2) or "fixed"
    additive_bounds : pair of floats or "fixed"
    widths : tuple of p ints, optional
        The number of columns of each coordinate: 2 for one on a circle, whose r_j is the distance in its
        columns over l_j. By default each column is a coordinate.
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
        """Of each coordinate."""
        n = len(np.atleast_1d(self.length_scale))
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds, n)

    @property
    def hyperparameter_additive(self) -> Hyperparameter:
        """The share of the sum."""
        return Hyperparameter("additive", "numeric", self.additive_bounds)

    @property
    def scales(self) -> Array:
        """Length scales (d,) of the columns."""
        each = np.atleast_1d(np.asarray(self.length_scale, dtype=np.float64))
        return np.repeat(each, self.widths) if self.widths else each

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to `theta`."""
        scales = self.scales
        A = np.atleast_2d(X) / scales
        B = A if Y is None else np.atleast_2d(Y) / scales
        squares = sum_columns((A.T[:, :, None] - B.T[:, None, :]) ** 2, self.widths)
        joint, slope = matern52_and_slope(np.sqrt(squares.sum(axis=0)))
        each, slopes = matern52_and_slope(np.sqrt(squares))
        mean, a = each.mean(axis=0), float(self.additive)
        K = (joint + a * mean) / (1.0 + a)
        if not eval_gradient:
            return K
        parts = []
        if not self.hyperparameter_additive.fixed:
            parts.append(((mean - joint) * (a / (1.0 + a) ** 2))[None])
        if not self.hyperparameter_length_scale.fixed:
            # dk / dlog l_j = -r_j dk / dr_j
            parts.append(squares * (slope + (a / len(squares)) * slopes) / (1.0 + a))
        if not parts:
            return K, np.empty((*K.shape, 0))
        return K, np.moveaxis(np.concatenate(parts), 0, -1)

    def __repr__(self) -> str:
        scales = ", ".join(f"{scale:.3g}" for scale in self.scales)
        return f"Coordinates([{scales}], additive={self.additive:.3g})"
