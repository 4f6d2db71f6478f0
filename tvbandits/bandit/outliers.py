"""Outliers: readings that are ignored because they are grossly wrong, unless others agree with them.

A reading is an outlier if it differs from the posterior mean by more than `CONFIG.far` standard
deviations, whose variance is the sum of the posterior variance, the prior variance (the reward may have
changed to any other value under the prior) and the noise variance; and if it lies as far outside of the
range of all accepted readings. A reward that changes within its prior, or to a value that others have
had, is therefore accepted at once. An outlier counts as a failed reading, so that the point is played
again. If three readings agree with each other more closely than gross errors would, they are accepted
after all. If a later reading of the point is accepted, the outlier was an error, and does not count as
agreement.

The model of a reading is a contaminated normal distribution [Tu], with a decision about each reading to
which component it belongs. Under Student's t distribution, the alternative, a gross error would be taken
for the value of a point that was not read before.

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
    """The numbers that define an outlier.

    Attributes
    ----------
    far : float
        The least error of an outlier in standard deviations. One in 16,000 normal errors is as large.
    first, fewest : int
        From `fewest` up to `first` readings, the readings are compared with each other instead of the
        posterior.
    usual_share : float
        The fraction of the first readings that are assumed to be correct.
    agreement : float
        The log odds above which outliers agree, if no later reading contradicts one of them.
    confirming_times : int
        The number of latest times whose outliers can agree with each other.
    chunk : int
        The approximate number of readings whose prior variances are computed at once.
    watched, most : int
        If more than `most` of the latest `watched` readings are outliers, the model is wrong, and they
        are accepted.
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
    """A model that predicts readings: the `Inference` of a bandit, or an object with its methods."""

    def noise_variance(self, state: State) -> float:
        """Return the noise variance of rewards that have none of their own."""

    def with_noise(self, state: State, data: Dataset) -> Dataset:
        """Return data with the learned noise variance in place of missing ones."""

    def compute_prediction_errors(
        self, state: State, data: Dataset, t: float
    ) -> tuple[State, Array, Array, Callable[[Index], Array]]:
        """Return the state conditioned at a time, prediction errors (n,) of `data`, and variances (n,).

        The last value is a function that returns the prior covariance (k, k) of some rows.
        """


def set_outliers_aside(
    model: ErrorModel, state: State, new: NewObservations
) -> tuple[State, NewObservations]:
    """Return the state with new outliers removed or old ones restored, and the accepted observations.

    Parameters
    ----------
    model : ErrorModel
    state : State
        The state before the new observations.
    new : NewObservations
        The new observations. Readings of the same time are judged together, given all earlier ones.
    """
    rewards, readings = new.rewards, state.readings
    if len(rewards) == 0:
        return state, new
    # A copy, so that the accepted rewards can still be appended to the storage of the old ones.
    all_readings, count_before = readings.concatenate(rewards), len(readings)
    outliers_before = np.zeros(count_before, dtype=bool)
    if state.outliers is not None:
        outliers_before[state.outliers.rows] = True
    is_outlier, latest, outliers_of_latest = outliers_before, state, outliers_before
    for rows in np.split(np.arange(len(rewards)), np.flatnonzero(np.diff(rewards.t)) + 1):
        data = all_readings.take(slice(len(is_outlier) + len(rows)))
        if len(data) > CONFIG.first:
            latest = _extend(latest, all_readings, outliers_of_latest, is_outlier)
            outliers_of_latest = is_outlier
            latest, is_outlier = _judge(model, latest, data, is_outlier)
            continue
        is_outlier = find_isolated_readings(data.y, model.noise_variance(state))
        if is_outlier.any():
            reduced = state.with_outliers(data, is_outlier)
            _, is_outlier = _judge(model, reduced, data, is_outlier)
    if (is_outlier[:count_before] != outliers_before).any():
        state = state.with_outliers(readings, is_outlier[:count_before])
    if is_outlier[count_before:].any():
        state = replace(state, outliers=Outliers.from_mask(all_readings, is_outlier))
    return state, replace(new, rewards=rewards.take(~is_outlier[count_before:]))


def _extend(
    state: State, readings: Dataset, before: NDArray[np.bool_], is_outlier: NDArray[np.bool_]
) -> State:
    """Return the state with the first n readings, of which some are outliers.

    If the outliers among the first m have not changed, the others are appended to the state, so that its
    posterior can be updated, at a cost that does not grow with the number of readings.

    Parameters
    ----------
    state : State
        A state with the first m readings.
    readings : Dataset
    before : boolean array of shape (m,)
        The outliers of that state.
    is_outlier : boolean array of shape (n,)
        The outliers among the first n readings.
    """
    m, n = len(before), len(is_outlier)
    if (is_outlier[:m] != before).any():
        return state.with_outliers(readings.take(slice(n)), is_outlier)
    if n == m:
        return state
    rewards = state.rewards.append(readings.take(m + np.flatnonzero(~is_outlier[m:])))
    padded = np.append(is_outlier, np.zeros(len(readings) - n, dtype=bool))
    outliers = Outliers.from_mask(readings, padded) if is_outlier.any() else None
    time = float(readings.t[m:n].max())
    latest = time if state.time is None else max(time, state.time)
    return replace(state.with_record(rewards=rewards, time=latest), outliers=outliers)


def find_isolated_readings(y: Array, noise_variance: float) -> NDArray[np.bool_]:
    """Return a mask of the first readings (n,) that are far from the others and from each other.

    The standard deviation is estimated from the distance from the median within which the fraction
    `CONFIG.usual_share` of the readings lies. As that are few readings, the threshold is the quantile of
    Student's t distribution that corresponds to `CONFIG.far` deviations of a normal distribution.
    """
    if len(y) < CONFIG.fewest:
        return np.zeros(len(y), dtype=bool)
    distance, count = np.abs(y - np.median(y)), math.floor(CONFIG.usual_share * len(y))
    usual = max(np.sort(distance)[count - 1], 3.0 * noise_variance**0.5)
    deviation = usual / float(ndtri(0.5 + CONFIG.usual_share / 2.0))
    differences = np.abs(y[:, None] - y) + np.where(np.eye(len(y)), np.inf, 0.0)
    is_far = distance > float(stdtrit(count - 1, ndtr(CONFIG.far))) * deviation
    return np.asarray(is_far & (differences.min(axis=1) > 0.5 * usual))


def _judge(
    model: ErrorModel, state: State, readings: Dataset, before: NDArray[np.bool_]
) -> tuple[State, NDArray[np.bool_]]:
    """Return which of all readings (n,) are outliers, given a state without the last of them.

    The state returned is conditioned at their time. It has the unit of reward that it learned, so that
    later readings can be judged from it.

    Parameters
    ----------
    model : ErrorModel
    state : State
        A state without outliers and without the readings after the first m.
    readings : Dataset
    before : boolean array of shape (m,)
        The present outliers among the first m readings; if m = n, they are judged again.
    """
    n, m, are_first = len(readings), len(before), len(readings) <= CONFIG.first
    start = np.unique(readings.t)[-CONFIG.confirming_times :][0]
    recent = np.flatnonzero(before & ((readings.t[:m] >= start) | are_first))
    if not are_first:
        accepted = readings.take(np.flatnonzero(~before))
        recent = recent[~_find_refuted(readings.take(recent), accepted)]
    rows = np.concatenate([recent, np.arange(m, n)])
    data = model.with_noise(state, readings.take(rows))
    time = float(readings.t[-1])
    state, error, variance, prior = model.compute_prediction_errors(state, data, time)
    # In chunks, since the covariance matrix of thousands of readings would not fit into memory.
    chunks = np.array_split(np.arange(len(data)), len(data) // CONFIG.chunk + 1)
    prior_variance = np.concatenate([np.diagonal(prior(chunk)) for chunk in chunks])
    is_far = np.abs(error) > CONFIG.far * np.sqrt(variance + prior_variance)
    # A point may change to the value of another point, or to any value between those of two others.
    usual = readings.y[:m][~before]
    margin = CONFIG.far * np.sqrt(prior_variance + data.variance)
    is_far &= (data.y < usual.min(initial=np.inf) - margin) | (
        data.y > usual.max(initial=-np.inf) + margin
    )
    is_outlier = np.concatenate([before, np.zeros(n - m, dtype=bool)])
    is_judged = rows >= (0 if are_first else m)
    is_outlier[rows[is_judged]] = is_far[is_judged]
    if not is_far[is_judged].any():
        return state, is_outlier
    far_rows = np.flatnonzero(is_far)
    agreement = find_agreement(error[far_rows], prior(far_rows), data.variance[far_rows])
    for i, agrees in zip(far_rows, agreement, strict=True):
        if is_judged[i] and agrees.any():
            is_outlier[[rows[i], *rows[far_rows[agrees]]]] = False
    latest = np.argsort(readings.t, kind="stable")[-CONFIG.watched :]
    if is_outlier[latest].sum() > CONFIG.most:
        is_outlier[latest] = False
    return state, is_outlier


def _find_refuted(outliers: Dataset, others: Dataset) -> NDArray[np.bool_]:
    """Return a mask (k,) of the outliers whose point has a later reading that was accepted."""
    same_point = (outliers.X[:, None] == others.X).all(axis=2)
    return np.asarray((same_point & (others.t > outliers.t[:, None])).any(axis=1))


def find_agreement(error: Array, prior: Array, noise: Array) -> NDArray[np.bool_]:
    """Return a mask (k, k) whose row i marks the readings that agree with reading i.

    The row is empty unless the evidence suffices. It must exceed the logarithm of C(k, m), the number of
    ways to choose m of k readings, as each choice may agree by chance.

    Parameters
    ----------
    error, noise : arrays of shape (k,)
        Prediction errors and noise variances of readings that are far from their predictions.
    prior : array of shape (k, k)
        Prior covariance of the readings.
    """
    variance = np.diagonal(prior)
    difference_variance = np.maximum(variance[:, None] + variance - 2.0 * prior, 0.0)
    difference_variance = difference_variance + noise[:, None] + noise
    size = np.maximum(np.abs(error[:, None]), np.abs(error))
    squares = (error[:, None] - error) ** 2 / difference_variance
    log_odds = np.log(size / np.sqrt(difference_variance)) - 0.5 * squares
    agrees = (log_odds > 0) & ~np.eye(len(error), dtype=bool)
    counts = agrees.sum(axis=1)
    threshold = CONFIG.agreement + np.log(comb(len(error), counts + 1))
    suffices = np.where(agrees, log_odds, 0.0).sum(axis=1) > threshold
    suffices &= counts > 1  # two successive errors agree by chance too often
    return np.asarray(agrees & suffices[:, None])
