"""Clicks and counts as rewards: the value that they show, and how uncertain it is.

[AC] = A. Agresti and B. A. Coull. Approximate is better than "exact" for interval estimation of
binomial proportions. The American Statistician 52, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.validation import LARGEST_VALUE, Array, as_floats, as_vector, describe, refuse

# Events of an exposure are the limit of many trials of which few succeed.
EVENTS = np.inf

# Deviations of an interval that covers the truth also where nothing, or everything, succeeds: [AC]'s 2.
DEVIATIONS = 2.0


@dataclass(frozen=True, eq=False)
class Counted:
    """Rewards that were counted: give it as `y` to `tell`.

    Attributes
    ----------
    values : array of shape (n,)
        NaN where there were no trials, or no exposure: played, and no reading.
    variance : array of shape (n,)
        Noise variance of each.
    trials : array of shape (n,)
        How many trials each is the share of; infinite where events were counted, not trials.
    """

    values: Array
    variance: Array
    trials: Array

    def __len__(self) -> int:
        return len(self.values)


def rate(successes: ArrayLike, trials: ArrayLike, *, around: ArrayLike | None = None) -> Counted:
    """Return the share of trials that succeeded, as rewards: k of n clicked, converted, passed.

    The value is k / n, without a bias that many small readings would add up. Its variance is
    p (1 - p) / n with p = (K + 2) / (N + 4) of all K successes and N trials given at once, [AC]'s
    estimate for intervals of two deviations. It is positive where nothing or all succeeded, and the
    same p for all makes readings count by their trials: with a p of its own, a reading that is low by
    chance would count more than one that is high. What counts trials, as `discounted_thompson` and
    `adaptive_gp_ucb` on arms, takes these instead.

    Parameters
    ----------
    successes, trials : array of shape (n,) or a number
        At least 0, and no more successes than trials. No trials, or NaN: no reading. A number is that of
        all.
    around : float or array of shape (n,), optional
        p, in (0, 1), where it is known better: give it where readings of few trials are told one by one.

    Raises
    ------
    ValueError
        If a number is not as above.

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
    return _per(k, n, p * (1.0 - p), n.copy())


def count(events: ArrayLike, exposure: ArrayLike, *, around: ArrayLike | None = None) -> Counted:
    """Return events per unit of exposure, as rewards: calls an hour, defects a metre.

    The value is k / e, and its variance r / e with r = (K + 2) / E of all K events and all exposure E
    given at once, as in `rate`: the limit of many trials with rare successes.

    Parameters
    ----------
    events, exposure : array of shape (n,) or a number
        At least 0. No exposure, or NaN: no reading. A number is that of all.
    around : float or array of shape (n,), optional
        r, positive, where it is known better: give it where small readings are told one by one.

    Raises
    ------
    ValueError
        If a number is not as above, or there are events without exposure.

    Examples
    --------
    >>> from tvbandits import count
    >>> calls = count([0, 6], [2.0, 2.0])
    >>> print(calls.values, calls.variance)
    [0. 3.] [1. 1.]
    """
    k, e = _columns(("events", events), ("exposure", exposure))
    refuse((k > 0) & (e == 0), k, "there are no events without exposure")
    return _per(k, e, _mean(around, k, e, 0.0, np.inf), np.full(len(e), EVENTS))


def _columns(*columns: tuple[str, ArrayLike]) -> tuple[Array, Array]:
    """Return two columns (n,) of numbers that are not negative; both 0 where one of them is NaN."""
    # Less than this is as good as nothing, and a variance for each unit of it too large a number.
    smallest = 1e-50
    parts = []
    for name, values in columns:
        numbers = as_floats(values, name)
        if numbers.ndim > 1:
            raise ValueError(f"{name} must have shape (n,), got {numbers.shape}")
        column = np.atleast_1d(numbers)
        odd = (column < 0) | (column > LARGEST_VALUE) | ((column > 0) & (column < smallest))
        refuse(odd, column, f"{name} must be 0, or from {smallest:g} to {LARGEST_VALUE:g}")
        parts.append(numbers)
    one, other = parts
    if one.ndim == other.ndim == 1 and len(one) != len(other):
        names = " and ".join(name for name, _ in columns)
        raise ValueError(f"{names} must be of one length, got {len(one)} and {len(other)}")
    one, other = (np.atleast_1d(each) for each in np.broadcast_arrays(one, other))
    missing = np.isnan(one) | np.isnan(other)
    return np.where(missing, 0.0, one), np.where(missing, 0.0, other)


def _mean(around: ArrayLike | None, k: Array, size: Array, more: float, below: float) -> Array:
    """Return the mean for the variances (n,): as stated, or of all counts and `more`."""
    if around is None:
        whole = float(size.sum()) + more
        return np.full(len(k), (k.sum() + DEVIATIONS**2 / 2) / (whole or 1.0))
    column = as_vector(around, len(k), "around")
    bad = ~((column > 0) & (column < below))
    refuse(bad, column, f"around must be above 0 and below {below:g}")
    return column


def _per(k: Array, size: Array, variance: Array, trials: Array) -> Counted:
    """Return counts for each unit of size, which has this variance; NaN where there is no size."""
    k, size = np.where(size > 0, k, np.nan), np.where(size > 0, size, 1.0)
    values, spread = k / size, variance / size
    for column in (values, spread, trials):
        column.setflags(write=False)
    return Counted(values, spread, trials)


def with_variance(
    y: ArrayLike | Counted, variance: ArrayLike | None
) -> tuple[ArrayLike, ArrayLike | None]:
    """Return rewards and their variances, apart.

    Raises
    ------
    ValueError
        If a variance is given beside rewards that were counted.
    """
    if not isinstance(y, Counted):
        return y, variance
    if variance is not None:
        raise ValueError(
            f"counted rewards have a variance, got noise_variance={describe(variance)} as well"
        )
    return y.values, y.variance


def variance_of_shares(shares: Array, trials: Array) -> Array:
    """Return the variances (n,) of shares of trials, as `rate` estimates them from all at once."""
    p = _mean(None, shares * trials, trials, DEVIATIONS**2, 1.0)
    return np.asarray(p * (1.0 - p) / trials)
