"""Readings that are grossly wrong: set aside before anything is learned from them, until others agree.

A reading is beyond belief if it is off by more than `CONFIG.far` deviations of what may be there: of the
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
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, ndtr, ndtri, stdtrit

from tvbandits.bandit.state import State
from tvbandits.data import Dataset, NewObservations, Outliers
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class OutlierConfig:
    """The numbers by which readings are set aside.

    Attributes
    ----------
    far : float
        A reading is beyond belief if it is off by so many deviations: under a normal law one of 16,000
        is.
    first, fewest : int
        While at most `first` readings are known, at least `fewest`, they are compared with each other.
    usual_share : float
        Of the first readings so many are not errors: they tell what is usual.
    agreement : float
        Log odds from which readings beyond belief agree, if none of them are contradicted.
    confirming_times : int
        Readings of so many times at the most confirm each other.
    chunk : int
        Prior variances are had of so many readings at once, about.
    watched, most : int
        If more than `most` of the latest `watched` readings are beyond belief, the beliefs are wrong.
    """

    far: float = 4.0
    first: int = 16
    fewest: int = 5
    usual_share: float = 0.8
    agreement: float = 2.5
    confirming_times: int = 8
    chunk: int = 512
    watched: int = 24
    most: int = 12


CONFIG = OutlierConfig()


class ErrorModel(Protocol):
    """What readings are judged by: the `Inference` of a bandit, or another one of these methods."""

    def noise_variance(self, state: State) -> float:
        """Return that of a reward without one of its own."""

    def with_noise(self, state: State, data: Dataset) -> Dataset:
        """Return data with the noise variance that was learned, where they have none."""

    def compute_prediction_errors(
        self, state: State, data: Dataset, t: float
    ) -> tuple[State, Array, Array, Callable[[Index], Array]]:
        """Return the state conditioned for a time, and errors of readings (n,) against what it says.

        Further their variances, and the prior covariance of some rows.
        """


def set_outliers_aside(
    model: ErrorModel, state: State, new: NewObservations
) -> tuple[State, NewObservations]:
    """Return the state and what it is told, with readings beyond belief moved to the outliers, or back.

    Parameters
    ----------
    model : ErrorModel
    state : State
        Before.
    new : NewObservations
        The readings of one time are judged together, each time by all before it.
    """
    fresh, readings = new.rewards, state.readings
    if len(fresh) == 0:
        return state, new
    # In storage of their own, so that those that stay go on from what was told before.
    every, before = readings.concatenate(fresh), len(readings)
    was = np.zeros(before, dtype=bool)
    if state.outliers is not None:
        was[state.outliers.rows] = True
    is_outlier, latest, is_outlier_there = was, state, was
    for rows in np.split(np.arange(len(fresh)), np.flatnonzero(np.diff(fresh.t)) + 1):
        data = every.take(slice(len(is_outlier) + len(rows)))
        if len(data) > CONFIG.first:
            latest = _extend(latest, every, is_outlier_there, is_outlier)
            is_outlier_there = is_outlier
            latest, is_outlier = _judge(model, latest, data, is_outlier)
            continue
        is_outlier = find_isolated_readings(data.y, model.noise_variance(state))
        if is_outlier.any():
            without = state.with_outliers(data, is_outlier)
            _, is_outlier = _judge(model, without, data, is_outlier)
    if (is_outlier[:before] != was).any():
        state = state.with_outliers(readings, is_outlier[:before])
    if is_outlier[before:].any():
        state = replace(state, outliers=Outliers.from_mask(every, is_outlier))
    return state, replace(new, rewards=fresh.take(~is_outlier[before:]))


def _extend(
    state: State, every: Dataset, before: NDArray[np.bool_], is_outlier: NDArray[np.bool_]
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
    is_outlier : boolean array of shape (n,)
        Which of the first n are.
    """
    m, n = len(before), len(is_outlier)
    if (is_outlier[:m] != before).any():
        return state.with_outliers(every.take(slice(n)), is_outlier)
    if n == m:
        return state
    rewards = state.rewards.append(every.take(m + np.flatnonzero(~is_outlier[m:])))
    rest = np.zeros(len(every) - n, dtype=bool)
    outliers = Outliers.from_mask(every, np.append(is_outlier, rest)) if is_outlier.any() else None
    time = float(every.t[m:n].max())
    latest = time if state.time is None else max(time, state.time)
    return replace(state.with_record(rewards=rewards, time=latest), outliers=outliers)


def find_isolated_readings(y: Array, noise_variance: float) -> NDArray[np.bool_]:
    """Tell which of the first readings (n,) lie apart from the others and from each other.

    As far as `CONFIG.far` deviations are of a normal law, but of Student's, as its deviation is guessed
    from few: from the distance within which `CONFIG.usual_share` of them lie.
    """
    if len(y) < CONFIG.fewest:
        return np.zeros(len(y), dtype=bool)
    off, others = np.abs(y - np.median(y)), math.floor(CONFIG.usual_share * len(y))
    usual = max(np.sort(off)[others - 1], 3.0 * noise_variance**0.5)
    deviation = usual / float(ndtri(0.5 + CONFIG.usual_share / 2.0))
    apart = np.abs(y[:, None] - y) + np.where(np.eye(len(y)), np.inf, 0.0)
    beyond = off > float(stdtrit(others - 1, ndtr(CONFIG.far))) * deviation
    return np.asarray(beyond & (apart.min(axis=1) > 0.5 * usual))


def _judge(
    model: ErrorModel, state: State, every: Dataset, before: NDArray[np.bool_]
) -> tuple[State, NDArray[np.bool_]]:
    """Tell which of all readings (n,) are outliers, by a state that knows neither these nor the last.

    The state comes back as conditioned for their time: with the unit of reward that it learned, so that
    the judgement of later readings goes on from it.

    Parameters
    ----------
    model : ErrorModel
    state : State
    every : Dataset
    before : boolean array of shape (m,)
        Which of the first m are outliers, as far as is known; if m = n, they are judged anew.
    """
    n, m, first = len(every), len(before), len(every) <= CONFIG.first
    since = np.unique(every.t)[-CONFIG.confirming_times :][0]
    lately = np.flatnonzero(before & ((every.t[:m] >= since) | first))
    if not first:
        lately = lately[~_find_refuted(every.take(lately), every.take(np.flatnonzero(~before)))]
    rows = np.concatenate([lately, np.arange(m, n)])
    data = model.with_noise(state, every.take(rows))
    state, error, variance, prior = model.compute_prediction_errors(state, data, float(every.t[-1]))
    # Of thousands of readings a matrix would not fit into memory.
    parts = np.array_split(np.arange(len(data)), len(data) // CONFIG.chunk + 1)
    own = np.concatenate([np.diagonal(prior(some)) for some in parts])
    far = np.abs(error) > CONFIG.far * np.sqrt(variance + own)
    # A place may change to what was read of another one, or to anything between two of them.
    usual = every.y[:m][~before]
    reach = CONFIG.far * np.sqrt(own + data.variance)
    far &= (data.y < usual.min(initial=np.inf) - reach) | (
        data.y > usual.max(initial=-np.inf) + reach
    )
    is_outlier = np.concatenate([before, np.zeros(n - m, dtype=bool)])
    fresh = rows >= (0 if first else m)
    is_outlier[rows[fresh]] = far[fresh]
    if not far[fresh].any():
        return state, is_outlier
    beyond = np.flatnonzero(far)
    agreed = find_agreement(error[beyond], prior(beyond), data.variance[beyond])
    for i, alike in zip(beyond, agreed, strict=True):
        if fresh[i] and alike.any():
            is_outlier[[rows[i], *rows[beyond[alike]]]] = False
    latest = np.argsort(every.t, kind="stable")[-CONFIG.watched :]
    if is_outlier[latest].sum() > CONFIG.most:
        is_outlier[latest] = False
    return state, is_outlier


def _find_refuted(outliers: Dataset, others: Dataset) -> NDArray[np.bool_]:
    """Tell which outliers (k,) were errors: the place was read again since, and as was believed."""
    again = (outliers.X[:, None] == others.X).all(axis=2)
    return np.asarray((again & (others.t > outliers.t[:, None])).any(axis=1))


def find_agreement(error: Array, prior: Array, noise: Array) -> NDArray[np.bool_]:
    """Tell which readings beyond belief (k, k) confirm each other, a row for each; none if too few.

    Of k of them m are chosen in C(k, m) ways, and each may be alike by chance.
    """
    own = np.diagonal(prior)
    apart = np.maximum(own[:, None] + own - 2.0 * prior, 0.0) + noise[:, None] + noise
    size = np.maximum(np.abs(error[:, None]), np.abs(error))
    odds = np.log(size / np.sqrt(apart)) - 0.5 * (error[:, None] - error) ** 2 / apart
    counts = (odds > 0) & ~np.eye(len(error), dtype=bool)
    others = counts.sum(axis=1)
    least = CONFIG.agreement + np.log(comb(len(error), others + 1))
    enough = np.where(counts, odds, 0.0).sum(axis=1) > least
    enough &= others > 1  # two errors in a row are alike by chance too often
    return np.asarray(counts & enough[:, None])
