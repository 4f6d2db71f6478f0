"""Stationary correlations of scaled distances, each stated once: value, slope, and state in time.

Of a Matern kernel over time the state is its value, and for nu = 3/2 its derivative besides, which move
by a linear stochastic differential equation ([HS] = Hartikainen & Sarkka 2010, docs/references.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from tvbandits.validation import Array

ROOT3, ROOT5 = math.sqrt(3.0), math.sqrt(5.0)

Number = TypeVar("Number", float, Array)


def identity(r: Array) -> Array:
    """1 where the distance is 0, else 0."""
    return np.asarray(r == 0, dtype=np.float64)


def matern12(r: Array) -> Array:
    """Matern-1/2."""
    return np.asarray(np.exp(-r))


def matern32(r: Array) -> Array:
    """Matern-3/2."""
    return matern32_and_slope(r)[0]


def matern52(r: Array) -> Array:
    """Matern-5/2."""
    s = ROOT5 * r
    decay = np.exp(-s)
    s *= 1.0 + s / 3.0
    s += 1.0
    s *= decay
    return np.asarray(s)


def rbf(r: Array) -> Array:
    """Squared exponential."""
    return np.asarray(np.exp(-0.5 * r * r))


# Correlations by their smoothness nu.
VALUES: dict[float, Callable[[Array], Array]] = {
    0.5: matern12,
    1.5: matern32,
    2.5: matern52,
    math.inf: rbf,
}


def matern32_and_slope(r: Array) -> tuple[Array, Array]:
    """Matern-3/2, and -1/r times its derivative."""
    s = ROOT3 * r
    decay = np.exp(-s)
    return (1.0 + s) * decay, 3.0 * decay


def matern52_and_slope(r: Array) -> tuple[Array, Array]:
    """Matern-5/2, and -1/r times its derivative."""
    s = ROOT5 * r
    decay = np.exp(-s)
    slope = (5.0 / 3.0) * (1.0 + s) * decay
    return decay + s * decay + (s * s / 3.0) * decay, slope


def rbf_and_slope(r: Array) -> tuple[Array, Array]:
    """Squared exponential, and -1/r times its derivative."""
    value = rbf(r)
    return value, value


# By smoothness, those that have a slope at 0: values, and -1/r times their derivatives.
SLOPED: dict[float, Callable[[Array], tuple[Array, Array]]] = {
    1.5: matern32_and_slope,
    2.5: matern52_and_slope,
    math.inf: rbf_and_slope,
}


def matern32_rate(scale: Number) -> Number:
    """Rate of the state of Matern-3/2 in time; the prior variance of its derivative is its square."""
    return ROOT3 / scale


def matern32_transition(
    rate: Number, h: Number, decay: Number
) -> tuple[Number, Number, Number, Number]:
    """What the state of Matern-3/2 expects after a time h >= 0 ([HS] eq. 14).

    Parameters
    ----------
    rate : float or array
        `matern32_rate`.
    h : float or array
    decay : float or array
        exp(-rate h).

    Returns
    -------
    value, up : floats or arrays
        What a value keeps of itself, and takes of its derivative.
    down, derivative : floats or arrays
        What a derivative takes of its value, and keeps of itself.
    """
    x = rate * h
    return decay * (1.0 + x), decay * h, -decay * rate**2 * h, decay * (1.0 - x)
