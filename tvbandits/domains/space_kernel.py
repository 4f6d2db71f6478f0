"""A kernel with one length scale for each named parameter of a space."""

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

    k(x, x') = Matern_nu(r), where r^2 is the sum over the parameters of the squared distance in their
    columns divided by the squared length scale. Two points that differ only in a category have
    r = sqrt(2) / scale.

    Parameters
    ----------
    scales : array of shape (p,)
        A length scale for each parameter.
    scales_bounds : array of shape (p, 2), pair of floats, or "fixed"
        The bounds of the length scales in a fit.
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
        """Return the length scales as a hyperparameter of scikit-learn."""
        return Hyperparameter("scales", "numeric", self.scales_bounds, len(self.parts))

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to `theta`."""
        widths = [width for _, width in self.parts]
        rows = np.atleast_2d(X)
        if rows.shape[1] != sum(widths):
            needs = f"is for points of dimension {sum(widths)}"
            raise ValueError(f"{self!r} {needs}, got {rows.shape[1]}")
        matern = Matern(np.repeat(np.atleast_1d(self.scales), widths), nu=self.nu)
        if not eval_gradient:
            return matern(rows, Y)
        if self.hyperparameter_scales.fixed:
            K = matern(rows, Y)
            return K, np.empty((*K.shape, 0))
        # The columns of a parameter have the same scale, so that their logarithmic slopes add up.
        K, slopes = matern(rows, Y, eval_gradient=True)
        return K, np.add.reduceat(slopes, np.cumsum([0, *widths[:-1]]), axis=2)

    def __repr__(self) -> str:
        scales = np.atleast_1d(self.scales)
        text = ", ".join(
            f"{name}={scale:.3g}" for (name, _), scale in zip(self.parts, scales, strict=True)
        )
        return f"PerParameter({text}, nu={self.nu:g})"


def add_arms(kernel: Any, count: int) -> Any:
    """Return a kernel for arms, extended by further arms; other kernels are copied unchanged."""
    parts = {name: part for name, part in kernel.get_params().items() if name.endswith("parts")}
    extended = {name: (("arm", part[0][1] + count),) for name, part in parts.items()}
    return clone(kernel).set_params(**extended)
