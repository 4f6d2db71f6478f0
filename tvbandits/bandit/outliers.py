"""Readings that are grossly wrong: set aside before anything is learned from them, until others agree.

A reading is beyond belief if it is off by more than `FAR` deviations of what may be there: of the
reward as it is known, of one that has changed to any other one of the prior, and of noise together; and
if it lies as far outside of all that was believed anywhere so far. So a reward that changes within its
prior, or to what others have been, is believed at once. What is beyond belief stands aside as if the
play had brought no reading, and so the place is played again. If readings then agree with each other
more than gross errors would, three of them, they were right, and come back. If the place is read again
as was believed, it was an error, and confirms none.

A contaminated normal law [Tu] instead of a normal one for rewards, with its components told apart for
each reading; an alternative to Student's law, under which an unknown place takes a gross error for its
value.

[Tu] = J. W. Tukey. A survey of sampling from contaminated distributions. 1960.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, ndtr, ndtri, stdtrit

from tvbandits.data import Dataset, Outliers, Told
from tvbandits.validation import Array

if TYPE_CHECKING:
    from tvbandits.bandit.inference import Model
    from tvbandits.bandit.state import State

# A reading is beyond belief if it is off by so many deviations: under a normal law one of 16,000
# is.
FAR = 4.0

# While so many readings at most are known, at least `FEWEST`, they are compared with each other.
FIRST, FEWEST = 16, 5

# Of the first readings so many are not errors: they tell what is usual.
OTHERS = 0.8

# Log odds from which readings beyond belief agree, if none of them are contradicted.
AGREED = 2.5

# Readings of so many times at the most confirm each other.
LATEST = 8

# Prior variances are had of so many readings at once, about.
TOGETHER = 512

# If more than `MOST` of so many readings are beyond belief, the beliefs are wrong.
WATCHED, MOST = 24, 12


def set_aside(model: Model, state: State, told: Told) -> tuple[State, Told]:
    """The state and what it is told, with readings beyond belief moved to the outliers, or back.

    Parameters
    ----------
    model : Model
    state : State
        Before.
    told : Told
        The readings of one time are judged together, each time by all before it.
    """
    fresh, known = told.rewards, state.readings
    if len(fresh) == 0:
        return state, told
    # In storage of their own, so that those that stay go on from what was told before.
    every, before = known.joined(fresh), len(known)
    was = np.zeros(before, dtype=bool)
    if state.outliers is not None:
        was[state.outliers.rows] = True
    out, at, known_out = was, state, was
    for rows in np.split(np.arange(len(fresh)), np.flatnonzero(np.diff(fresh.t)) + 1):
        seen = every.take(slice(len(out) + len(rows)))
        if len(seen) > FIRST:
            at, known_out = _gone_on(at, every, known_out, out), out
            out = _judged(model, at, seen, out)
            continue
        out = far_from_the_others(seen.y, model.noise_variance(state))
        if out.any():
            out = _judged(model, state.with_outliers(seen, out), seen, out)
    if (out[:before] != was).any():
        state = state.with_outliers(known, out[:before])
    if out[before:].any():
        state = replace(state, outliers=Outliers.of(every, out))
    return state, replace(told, rewards=fresh.take(~out[before:]))


def _gone_on(
    state: State, every: Dataset, before: NDArray[np.bool_], out: NDArray[np.bool_]
) -> State:
    """Return the state that knows the first of `every` reading but the outliers.

    Where nothing else has changed it goes on from a state that knows fewer, and so do its beliefs: a
    reading costs the same however many there are.

    Parameters
    ----------
    state : State
    every : Dataset
    before : boolean array of shape (m,)
        Which of the first m are outliers in that state.
    out : boolean array of shape (n,)
        Which of the first n are.
    """
    m, n = len(before), len(out)
    if (out[:m] != before).any():
        return state.with_outliers(every.take(slice(n)), out)
    if n == m:
        return state
    rewards = state.rewards.append(every.take(m + np.flatnonzero(~out[m:])))
    outliers = Outliers.of(every, np.append(out, np.zeros(len(every) - n, dtype=bool)))
    time = float(every.t[m:n].max())
    return replace(
        state,
        rewards=rewards,
        outliers=outliers if out.any() else None,
        time=time if state.time is None else max(time, state.time),
    )


def far_from_the_others(y: Array, noise_variance: float) -> NDArray[np.bool_]:
    """Which of the first readings (n,) lie apart from the others and from each other.

    As far as `FAR` deviations are of a normal law, but of Student's, as its deviation is guessed from
    few: from the distance within which `OTHERS` of them lie.
    """
    if len(y) < FEWEST:
        return np.zeros(len(y), dtype=bool)
    off, others = np.abs(y - np.median(y)), math.floor(OTHERS * len(y))
    usual = max(np.sort(off)[others - 1], 3.0 * noise_variance**0.5)
    deviation = usual / float(ndtri(0.5 + OTHERS / 2.0))
    apart = np.abs(y[:, None] - y) + np.where(np.eye(len(y)), np.inf, 0.0)
    beyond = off > float(stdtrit(others - 1, ndtr(FAR))) * deviation
    return np.asarray(beyond & (apart.min(axis=1) > 0.5 * usual))


def _judged(
    model: Model, state: State, every: Dataset, out: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of all readings (n,) are outliers, by a state that knows neither these nor the last ones.

    Parameters
    ----------
    model : Model
    state : State
    every : Dataset
    out : boolean array of shape (m,)
        Which of the first m are outliers, as far as is known; if m = n, they are judged anew.
    """
    n, known, first = len(every), len(out), len(every) <= FIRST
    since = np.unique(every.t)[-LATEST:][0]
    lately = np.flatnonzero(out & ((every.t[:known] >= since) | first))
    if not first:
        lately = lately[~_answered(every.take(lately), every.take(np.flatnonzero(~out)))]
    rows = np.concatenate([lately, np.arange(known, n)])
    seen = model.known(state, every.take(rows))
    error, variance, prior = model.before_told(state, seen, float(every.t[-1]))
    # Of thousands of readings a matrix would not fit into memory.
    parts = np.array_split(np.arange(len(seen)), len(seen) // TOGETHER + 1)
    own = np.concatenate([np.diagonal(prior(some)) for some in parts])
    far = np.abs(error) > FAR * np.sqrt(variance + own)
    # A place may change to what was read of another one, or to anything between two of them.
    usual = every.y[:known][~out]
    reach = FAR * np.sqrt(own + seen.variance)
    far &= (seen.y < usual.min(initial=np.inf) - reach) | (
        seen.y > usual.max(initial=-np.inf) + reach
    )
    now = np.concatenate([out, np.zeros(n - known, dtype=bool)])
    fresh = rows >= (0 if first else known)
    now[rows[fresh]] = far[fresh]
    if not far[fresh].any():
        return now
    beyond = np.flatnonzero(far)
    agreed = agreeing(error[beyond], prior(beyond), seen.variance[beyond])
    for i, alike in zip(beyond, agreed, strict=True):
        if fresh[i] and alike.any():
            now[[rows[i], *rows[beyond[alike]]]] = False
    latest = np.argsort(every.t, kind="stable")[-WATCHED:]
    if now[latest].sum() > MOST:
        now[latest] = False
    return now


def _answered(outliers: Dataset, believed: Dataset) -> NDArray[np.bool_]:
    """Which outliers (k,) were errors: the place was read again since, and as was believed of it."""
    again = (outliers.X[:, None] == believed.X).all(axis=2)
    return np.asarray((again & (believed.t > outliers.t[:, None])).any(axis=1))


def agreeing(error: Array, prior: Array, noise: Array) -> NDArray[np.bool_]:
    """Which readings beyond belief (k, k) confirm each other, a row for each: none if they are too few.

    Of k of them m are chosen in C(k, m) ways, and each may be alike by chance.
    """
    own = np.diagonal(prior)
    apart = np.maximum(own[:, None] + own - 2.0 * prior, 0.0) + noise[:, None] + noise
    size = np.maximum(np.abs(error[:, None]), np.abs(error))
    odds = np.log(size / np.sqrt(apart)) - 0.5 * (error[:, None] - error) ** 2 / apart
    counts = (odds > 0) & ~np.eye(len(error), dtype=bool)
    others = counts.sum(axis=1)
    enough = np.where(counts, odds, 0.0).sum(axis=1) > AGREED + np.log(comb(len(error), others + 1))
    enough &= others > 1  # two errors in a row are alike by chance too often
    return np.asarray(counts & enough[:, None])
