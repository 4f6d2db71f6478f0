"""Signs that a run is lost, in words: for `Info`, and for the page of a campaign.

It is for a person who looks at a bandit once a day. What was played and read so far goes in; out come a
few sentences, none in good health. Nothing that a bandit does depends on them.
"""

from __future__ import annotations

import math

import numpy as np

from tvbandits.data import Dataset
from tvbandits.domains.domain import Domain
from tvbandits.validation import Array

# So many plays are looked at, and so many are needed to say something.
PLAYS = 20
# A flat reward is a sign where the latest plays were at several points.
MOST_PLAYS, FEWEST_POINTS = 400, 5
# A play is at the edge within this share of the range of a coordinate.
EDGE = 0.01
# The variance of rewards, and that of the means of points, is that of the noise up to this factor: the
# 99% quantile for 20 of them.
FLAT = 1.9
# Of intervals that hold 95% of readings, fewer than this share do in less than 1 of 1,000 cases.
LEAST_COVERAGE = 0.8


def signs_of_trouble(
    domain: Domain, rewards: Dataset, noise_variance: float, coverage: float
) -> tuple[str, ...]:
    """Return what a person should look at.

    Parameters
    ----------
    domain : Domain
    rewards : Dataset
        All rewards, in the order they were told.
    noise_variance : float
        Of a reward without one of its own.
    coverage : float
        Share of the latest 95% intervals that held the reading; NaN where nobody watches them.
    """
    signs: list[str] = []
    if len(rewards) >= PLAYS:
        signs += _edges(domain, rewards.X[-PLAYS:])
        readings = rewards.with_noise(noise_variance)
        if _spread(readings.y, readings.variance) <= FLAT and _is_flat(readings):
            signs.append(
                "no reward has differed from the others by more than the noise: "
                "the plays may all be where the reward is flat"
            )
    if not math.isnan(coverage) and coverage < LEAST_COVERAGE:
        signs.append(
            f"only {coverage:.0%} of the latest 95% intervals held their reading: "
            "deviations are too small"
        )
    return tuple(signs)


def _spread(y: Array, variance: Array) -> float:
    """Return the mean square of values about their mean, in units of the variance of their noise."""
    mean = np.average(y, weights=1.0 / variance)
    return float(np.mean((y - mean) ** 2 / variance))


def _is_flat(rewards: Dataset) -> bool:
    """Return whether the latest plays were at several points whose means do not differ, either.

    A click tells nothing beyond its noise, and many clicks of each arm do.
    """
    latest = slice(-MOST_PLAYS, None)
    points, of_point = np.unique(rewards.X[latest], axis=0, return_inverse=True)
    if len(points) < FEWEST_POINTS:
        return False
    weights = 1.0 / rewards.variance[latest]
    sums = np.bincount(of_point, weights), np.bincount(of_point, weights * rewards.y[latest])
    return _spread(sums[1] / sums[0], 1.0 / sums[0]) <= FLAT


def _edges(domain: Domain, X: Array) -> list[str]:
    """Return a sign for each coordinate at one of whose ends all plays (n, d) lie."""
    if domain.intervals is None:
        return []
    low, high = domain.intervals.T
    latest = (X[-1, : len(low)] - low) / (high - low)
    if (
        latest.min() > EDGE and latest.max() < 1.0 - EDGE
    ):  # the usual case: all need not be looked at
        return []
    shares = (X[:, : len(low)] - low) / (high - low)
    ends = ("lower", shares <= EDGE), ("upper", shares >= 1.0 - EDGE)
    return [
        f"the latest {PLAYS} plays lie at the {end} end of {domain.coordinate_names[i]}: "
        "the best may lie beyond it"
        for end, near in ends
        for i in np.flatnonzero(near.all(axis=0)).tolist()
    ]
