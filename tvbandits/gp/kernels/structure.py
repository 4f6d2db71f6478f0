"""What a kernel sees of points and times, and what its structure allows: forgetting, separation."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Exponentiation,
    Kernel,
    Matern,
    Product,
    Sum,
)

from tvbandits.core.arrays import Array
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, _Restricted
from tvbandits.gp.kernels.terms import parts_of, products_of


def is_space_time(kernel: Kernel) -> bool:
    """Whether `OnSpace`, `OnTime` or `Drift` is part of the kernel: its rows are [x, t]."""
    return any(isinstance(part, _Restricted | Drift) for part in parts_of(kernel))


def space_time(kernel: Kernel) -> Kernel:
    """Return a pure-space kernel wrapped in `OnSpace`, a space-time one unchanged."""
    return kernel if is_space_time(kernel) else OnSpace(kernel)


def inputs(kernel: Kernel, X: Array, t: ArrayLike) -> Array:
    """What the kernel sees of points `X` (n, d) at times `t` (n,), or at one time for all.

    It is `X` itself for a pure-space kernel, [X, t] of shape (n, d + 1) for a space-time one.
    """
    if not is_space_time(kernel):
        return X
    times = np.asarray(t, dtype=np.float64)
    if times.shape not in ((), (len(X),)):
        raise ValueError(f"t must be a number or have shape ({len(X)},), got {times.shape}")
    return np.column_stack([X, np.broadcast_to(times, len(X))])


def advance(kernel: Kernel, h: float) -> float | None:
    """The c with k((x, t + h), (x', t')) = c k((x, t), (x', t')) for all t >= t', if there is one.

    Moving the present on by h >= 0 then only scales the covariance with the past. None where the
    structure of the kernel guarantees no such number.
    """
    if not 0.0 <= h < np.inf:
        raise ValueError(f"h must be finite and not negative, got {h}")
    return _factor(kernel, float(h), in_time=False) if is_space_time(kernel) else 1.0


def _factor(kernel: Kernel, h: float, in_time: bool) -> float | None:
    """`advance` of a part; `in_time`: inside of `OnTime`, where a plain kernel sees times alone."""
    # Exact types: a subclass may have redefined the formula that is relied on here.
    kind = type(kernel)
    if kind in (OnSpace, ConstantKernel):
        return 1.0
    if kind is Drift:
        return float((1.0 - kernel._rate()) ** (0.5 * h))
    if kind is OnTime:
        return _factor(kernel.kernel, h, in_time=True)
    if kind is Matern and in_time and kernel.nu == 0.5:
        return float(np.exp(-h / np.asarray(kernel.length_scale).item()))
    if kind is Exponentiation:
        base = _factor(kernel.kernel, h, in_time)
        return None if base is None else float(base**kernel.exponent)
    if kind in (Sum, Product):
        first, second = _factor(kernel.k1, h, in_time), _factor(kernel.k2, h, in_time)
        if first is None or second is None:
            return None
        return first * second if kind is Product else (first if first == second else None)
    return None


def separate(kernel: Kernel) -> Kernel | None:
    """The part over points, where `kernel` is k(x, x') rho(t - t') with a Markov correlation rho.

    That is a product of at least one kernel over points (`OnSpace`, possibly times constants) and at
    least one over time (`Drift`, or `OnTime` of products and powers of Matern-1/2 kernels of
    variance 1); None for anything else.
    """
    products = products_of(kernel)
    if len(products) > 1:
        return None
    factors = [leaf.kernel for leaf in products[0]]
    # Exact types: a subclass may have redefined the formula that is relied on here.
    space = [f for f in factors if type(f) in (OnSpace, ConstantKernel)]
    time = [f for f in factors if type(f) in (Drift, OnTime)]
    if len(space) + len(time) < len(factors) or not time:
        return None
    if not any(type(f) is OnSpace for f in space) or not all(map(_is_correlation, time)):
        return None
    over_points = [f.kernel if type(f) is OnSpace else f for f in space]
    return reduce(operator.mul, over_points)


def _is_correlation(in_time: Kernel) -> bool:
    """Whether a kernel over time is a Markov correlation, at all distances in time."""
    # `advance` of a sum tells about one distance only.
    if (
        any(isinstance(part, Sum) for part in parts_of(in_time))
        or float(in_time.diag(np.zeros((1, 2)))[0]) != 1.0
    ):
        return False
    factor = advance(in_time, 1.0)
    return factor is not None and factor <= 1.0
