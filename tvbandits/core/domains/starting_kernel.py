"""A kernel for a space with names, to start from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvbandits.core.arrays import finite_number, is_infinite, positive_number
from tvbandits.core.domains.parameters import Category, Parameter, PerParameter


def starting_kernel(
    names: Sequence[str], parameters: Sequence[Parameter], nu: float, share: float
) -> PerParameter:
    """A kernel of variance 1 with a length scale for each parameter, as `Space.kernel` says.

    Raises
    ------
    ValueError
        If `nu` or `share` is not positive, or `share` is not finite.
    """
    if not is_infinite(nu):
        nu = positive_number("nu", nu)
    share = finite_number("share", share, above=0.0, high=1e6)
    scales, bounds = [], []
    for part in parameters:
        if isinstance(part, Category):
            scale, low, high = 1.0, 0.2, 20.0
        else:
            scale, low, high = share * part.extent, 0.01 * part.extent, 10 * part.extent
            low = max(low, 0.2) if part.size else low
        scales.append(min(max(scale, low), high))
        bounds.append((low, high))
    parts = tuple(zip(names, (part.width for part in parameters), strict=True))
    return PerParameter(np.array(scales), np.array(bounds), parts, float(nu))
