"""Divide coordinates by their ranges, so that results do not depend on their units."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Exponentiation, Kernel

from tvbandits.validation import Array, check_instance

# A coordinate whose range is less than this fraction of its magnitude is constant up to rounding.
CONSTANT = 1e-12


def column_units(low: Array, high: Array) -> Array:
    """Return the unit (d,) of each coordinate: its range, from `low` (d,) to `high` (d,).

    The unit of a constant coordinate is its magnitude. If all ranges are equal, all units are 1, because
    the coordinates are in the same unit already.
    """
    extent, magnitude = high - low, np.maximum(np.abs(low), np.abs(high))
    varies = extent > CONSTANT * magnitude
    if not varies.any() or (extent[varies] == extent[varies][0]).all():
        return np.ones(len(extent))
    return np.where(varies, extent, np.where(magnitude > 0, magnitude, 1.0))


def scale_columns(points: Array) -> Array:
    """Return points (n, d) with each coordinate divided by its unit (`column_units`)."""
    return points / column_units(points.min(axis=0), points.max(axis=0))


class InUnits(Kernel):  # type: ignore[misc]
    """A kernel of scaled points: k(x, x') = kernel(x / units, x' / units).

    Its hyperparameters are those of the inner kernel.

    Parameters
    ----------
    kernel : scikit-learn kernel
        A kernel over points.
    units : tuple of d positive floats
        The unit of each coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.gp.kernels.units import InUnits
    >>> kilometres_and_metres = InUnits(RBF(1.0), (1.0, 1000.0))
    >>> print(kilometres_and_metres(np.array([[0.0, 0.0], [0.0, 1000.0]])).round(3))
    [[1.    0.607]
     [0.607 1.   ]]
    """

    def __init__(self, kernel: Kernel, units: Any) -> None:
        check_instance("kernel", kernel, Kernel, "a scikit-learn kernel")
        self.kernel = kernel
        self.units = units

    # These members of Exponentiation use only its attribute `kernel`, which this class has as well.
    hyperparameters = Exponentiation.hyperparameters
    theta = Exponentiation.theta
    bounds = Exponentiation.bounds
    is_stationary = Exponentiation.is_stationary
    requires_vector_input = Exponentiation.requires_vector_input

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the inner kernel, the units and, if `deep`, its parameters as `kernel__<name>`."""
        params = {"kernel": self.kernel, "units": self.units}
        if deep:
            params |= {f"kernel__{name}": value for name, value in self.kernel.get_params().items()}
        return params

    def _scale(self, X: Array) -> Array:
        """Return points (n, d) divided by the units."""
        return np.asarray(np.atleast_2d(X) / np.asarray(self.units))

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to `theta`."""
        other = None if Y is None else self._scale(Y)
        return self.kernel(self._scale(X), other, eval_gradient=eval_gradient)

    def diag(self, X: Array) -> Array:
        """Return the diagonal of `self(X)`, shape (n,)."""
        return np.asarray(self.kernel.diag(self._scale(X)))

    def __repr__(self) -> str:
        units = ", ".join(f"{unit:.3g}" for unit in self.units)
        return f"InUnits({self.kernel!r}, ({units}))"
