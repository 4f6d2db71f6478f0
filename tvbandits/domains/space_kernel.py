"""A kernel for a space with names, to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    Hyperparameter,
    Kernel,
    Matern,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from tvbandits.validation import Array


class PerParameter(StationaryKernelMixin, NormalizedKernelMixin, Kernel):  # type: ignore[misc]
    """A Matern kernel with one length scale for each parameter, in the unit of its columns.

    k(x, x') = Matern_nu(r), r^2 = sum over parameters of the squared distance in their columns, over the
    squared scale. Two points that differ in a category alone have r = sqrt(2) / scale.

    Parameters
    ----------
    scales : array of shape (p,)
        A length scale for each parameter.
    scales_bounds : array of shape (p, 2), pair of floats, or "fixed"
        Where a fit may look for them.
    parts : tuple of (str, int)
        Name and number of columns of each parameter, in their order.
    nu : float
        Smoothness; infinity is the squared exponential (RBF).
    """

    def __init__(
        self,
        scales: Any,
        scales_bounds: Any = (1e-3, 1e3),
        parts: tuple[tuple[str, int], ...] = (),
        nu: float = 2.5,
    ) -> None:
        self.scales = scales
        self.scales_bounds = scales_bounds
        self.parts = parts
        self.nu = nu

    @property
    def hyperparameter_scales(self) -> Hyperparameter:
        """The length scales."""
        return Hyperparameter("scales", "numeric", self.scales_bounds, len(self.parts))

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to `theta`."""
        widths = [width for _, width in self.parts]
        rows = np.atleast_2d(X)
        if rows.shape[1] != sum(widths):
            needs = f"sees points of dimension {sum(widths)}"
            raise ValueError(f"{self!r} {needs}, got {rows.shape[1]}")
        each = Matern(np.repeat(np.atleast_1d(self.scales), widths), nu=self.nu)
        if not eval_gradient:
            return each(rows, Y)
        if self.hyperparameter_scales.fixed:
            K = each(rows, Y)
            return K, np.empty((*K.shape, 0))
        # Columns of one parameter share a scale, so that their logarithmic slopes add up.
        K, slopes = each(rows, Y, eval_gradient=True)
        return K, np.add.reduceat(slopes, np.cumsum([0, *widths[:-1]]), axis=2)

    def __repr__(self) -> str:
        scales = np.atleast_1d(self.scales)
        text = ", ".join(
            f"{name}={scale:.3g}" for (name, _), scale in zip(self.parts, scales, strict=True)
        )
        return f"PerParameter({text}, nu={self.nu:g})"


def with_arms(kernel: Any, columns: int) -> Any:
    """Return a kernel over the names of arms, or of no space, once there are so many more arms."""
    parts = {name: each for name, each in kernel.get_params().items() if name.endswith("parts")}
    wider = {name: (("arm", each[0][1] + columns),) for name, each in parts.items()}
    return clone(kernel).set_params(**wider)
