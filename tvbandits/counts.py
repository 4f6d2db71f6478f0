"""Clicks and counts as rewards: estimates of proportions and rates, with their noise variances.

[AC] = A. Agresti and B. A. Coull. Approximate is better than "exact" for interval estimation of
binomial proportions. The American Statistician 52, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.validation import LARGEST_VALUE, Array, as_floats, as_vector, describe, refuse

# The number of trials of an event count: the limit of many trials of which few succeed.
EVENTS = np.inf

# Half-width, in standard deviations, of the interval of [AC], which covers the true proportion also if
# no trial succeeds, or every trial.
DEVIATIONS = 2.0


@dataclass(frozen=True, eq=False)
class Counted:
    """Rewards from counts, with their noise variances: the result of `rate` or `count`, `y` of `tell`.

    Attributes
    ----------
    values : array of shape (n,)
        The proportions or rates; NaN (a failed reading) for a play without trials or exposure.
    variance : array of shape (n,)
        The noise variance of each value.
    trials : array of shape (n,)
        The number of trials of each proportion; infinite for counts of events.
    """

    values: Array
    variance: Array
    trials: Array

    def __len__(self) -> int:
        return len(self.values)


def rate(successes: ArrayLike, trials: ArrayLike, *, around: ArrayLike | None = None) -> Counted:
    """Return proportions of successful trials as rewards: k of n clicked, converted, passed.

    The value is k / n, which is unbiased: a bias of many small readings would add up. Its variance is
    p (1 - p) / n with p = (K + 2) / (N + 4), the estimate of [AC] for intervals of two deviations, from
    all K successes and N trials of this call. It is positive also if no trial succeeded, or every trial.
    With the same p for all, readings are weighted by their trials; if each had its own p, a reading that
    is low by chance would weigh more than one that is high. Models of the trials themselves, as in
    `discounted_thompson` and in `adaptive_gp_ucb` on arms, do not use these variances.

    Parameters
    ----------
    successes, trials : array of shape (n,) or a number
        At least 0, and no more successes than trials. 0 trials or NaN: the reading failed. A number
        applies to all readings.
    around : float or array of shape (n,), optional
        p, in (0, 1), instead of the estimate: state it if each call has a single reading of few trials.

    Raises
    ------
    ValueError
        If a number is out of these bounds.

    Examples
    --------
    >>> from tvbandits import rate
    >>> clicks = rate([0, 3], [100, 50])
    >>> print(clicks.values, clicks.variance.round(6))
    [0.   0.06] [0.000314 0.000628]
    """
    k, n = _columns(("successes", successes), ("trials", trials))
    refuse(k > n, k, "successes must be no more than trials", f" of {describe(n.tolist())}")
    p = _mean(around, k, n, DEVIATIONS**2, 1.0)
    return _divide_counts(k, n, p * (1.0 - p), n.copy())


def count(events: ArrayLike, exposure: ArrayLike, *, around: ArrayLike | None = None) -> Counted:
    """Return rates of events per unit of exposure as rewards: calls an hour, defects a metre.

    The value is k / e. Its variance is r / e with r = (K + 2) / E, from all K events and the whole
    exposure E of this call: the limit of `rate` for many trials with rare successes.

    Parameters
    ----------
    events, exposure : array of shape (n,) or a number
        At least 0. An exposure of 0 or NaN: the reading failed. A number applies to all readings.
    around : float or array of shape (n,), optional
        r, positive, instead of the estimate: state it if each call has a single reading of few events.

    Raises
    ------
    ValueError
        If a number is out of these bounds, or there are events without exposure.

    Examples
    --------
    >>> from tvbandits import count
    >>> calls = count([0, 6], [2.0, 2.0])
    >>> print(calls.values, calls.variance)
    [0. 3.] [1. 1.]
    """
    k, e = _columns(("events", events), ("exposure", exposure))
    refuse((k > 0) & (e == 0), k, "there are no events without exposure")
    return _divide_counts(k, e, _mean(around, k, e, 0.0, np.inf), np.full(len(e), EVENTS))


def _columns(*columns: tuple[str, ArrayLike]) -> tuple[Array, Array]:
    """Return two columns (n,) of nonnegative numbers, in which both of a row are 0 if one is NaN."""
    # A variance divided by a smaller number might not be representable.
    smallest = 1e-50
    arrays = []
    for name, values in columns:
        numbers = as_floats(values, name)
        if numbers.ndim > 1:
            raise ValueError(f"{name} must have shape (n,), got {numbers.shape}")
        column = np.atleast_1d(numbers)
        invalid = (column < 0) | (column > LARGEST_VALUE) | ((column > 0) & (column < smallest))
        refuse(invalid, column, f"{name} must be 0, or from {smallest:g} to {LARGEST_VALUE:g}")
        arrays.append(numbers)
    first, second = arrays
    if first.ndim == second.ndim == 1 and len(first) != len(second):
        names = " and ".join(name for name, _ in columns)
        raise ValueError(f"{names} must be of one length, got {len(first)} and {len(second)}")
    first, second = (np.atleast_1d(array) for array in np.broadcast_arrays(first, second))
    missing = np.isnan(first) | np.isnan(second)
    return np.where(missing, 0.0, first), np.where(missing, 0.0, second)


def _mean(
    around: ArrayLike | None, k: Array, size: Array, prior_size: float, upper_bound: float
) -> Array:
    """Return the mean of a trial or a unit of exposure (n,), from which the variances follow.

    It is `around`, checked against `upper_bound`, or estimated from all counts and a prior.
    """
    if around is None:
        total = float(size.sum()) + prior_size
        return np.full(len(k), (k.sum() + DEVIATIONS**2 / 2) / (total or 1.0))
    column = as_vector(around, len(k), "around")
    invalid = ~((column > 0) & (column < upper_bound))
    refuse(invalid, column, f"around must be above 0 and below {upper_bound:g}")
    return column


def _divide_counts(k: Array, size: Array, variance: Array, trials: Array) -> Counted:
    """Return rewards k / size, NaN if the size is 0; `variance` is that of a size of 1."""
    k, size = np.where(size > 0, k, np.nan), np.where(size > 0, size, 1.0)
    values, variances = k / size, variance / size
    for column in (values, variances, trials):
        column.setflags(write=False)
    return Counted(values, variances, trials)


def split_variance(
    y: ArrayLike | Counted, variance: ArrayLike | None
) -> tuple[ArrayLike, ArrayLike | None]:
    """Return rewards and their noise variances as two arrays.

    Raises
    ------
    ValueError
        If rewards from counts, which have variances, come with a variance besides.
    """
    if not isinstance(y, Counted):
        return y, variance
    if variance is not None:
        raise ValueError(
            f"counted rewards have a variance, got noise_variance={describe(variance)} as well"
        )
    return y.values, y.variance


def estimate_proportion_variances(proportions: Array, trials: Array) -> Array:
    """Return the noise variances (n,) of proportions (n,) of trials (n,), as in `rate`."""
    p = _mean(None, proportions * trials, trials, DEVIATIONS**2, 1.0)
    return np.asarray(p * (1.0 - p) / trials)
