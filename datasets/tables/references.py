"""Model-free reference players, whose regret is compared with that of policies.

One of them reads every place at every step, and forecasts with a simple model. In the model, places are
independent, and each is the sum of a slow mean, weather and white noise: an Ornstein-Uhlenbeck process
with a time constant of about 200 steps, one with a few steps, and noise. Two parameters are learned
online from squared errors of differences between places: the weather's fraction of the variance, and its
time constant. It is a reference for policies that read only a few places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.validation import Array, as_floats, check_sizes, whole_number


@dataclass(frozen=True)
class Forecaster:
    """A forecaster that models each place as the sum of a slow mean, weather and white noise.

    It averages the forecasts of filters with different parameters of the weather, weighted by their
    discounted likelihoods.

    Attributes
    ----------
    slow_scale : float
        Time constant of the slow mean, in steps.
    white : float
        Fraction of the variance that is white noise.
    shares : tuple of float
        Fractions of the variance that are weather, one for each filter.
    scales : tuple of float
        Time constants of the weather, in steps, combined with each of these.
    discount : float
        Weight of a squared error relative to that of the next step.
    """

    slow_scale: float = 200.0
    white: float = 0.2
    shares: tuple[float, ...] = (0.25, 0.4, 0.55)
    scales: tuple[float, ...] = (0.7, 1.5, 3.0, 6.0)
    discount: float = 0.99

    def forecasts(self, table: Array) -> Iterator[Array]:
        """Yield forecasts (A,) of the steps 2, ..., T of a table (T, A), from all earlier readings."""
        weather, scale = np.array(list(product(self.shares, self.scales))).T
        count = len(weather)
        # A place's state is its slow mean and its weather. In a filter, all places have one covariance.
        prior = np.stack([1.0 - self.white - weather, weather], axis=1)
        decay = np.exp(-1.0 / np.stack([np.full(count, self.slow_scale), scale], axis=1))
        innovation = ((1.0 - decay**2) * prior)[:, :, None] * np.eye(2)
        covariance = prior[:, :, None] * np.eye(2)
        mean = np.zeros((count, 2, table.shape[1]))
        loss, variance, origin = np.zeros(count), 0.0, float(table[0].mean())
        for step, values in enumerate(table[:-1]):
            if step:
                mean = decay[:, :, None] * mean
                covariance = decay[:, :, None] * decay[:, None, :] * covariance + innovation
            errors = values - origin - mean.sum(axis=1)
            # The loss is a discounted sum of squared errors of differences, relative to their variance.
            squares = errors.var(axis=1)
            variance += max(0.02, 1.0 / (step + 1)) * (float(squares.min()) - variance)
            if variance > 0:
                loss = self.discount * loss + errors.shape[1] * squares / (2.0 * variance)
            cross_covariance = covariance.sum(axis=2)
            gain = cross_covariance / (cross_covariance.sum(axis=1, keepdims=True) + self.white)
            mean = mean + gain[:, :, None] * errors[:, None, :]
            covariance = covariance - gain[:, :, None] * cross_covariance[:, None, :]
            weights = np.exp(loss.min() - loss)
            yield origin + (weights / weights.sum()) @ (decay[:, :, None] * mean).sum(axis=1)


class References(NamedTuple):
    """Average dynamic regret of model-free players, in the unit of reward.

    With n points per step, players choose their n best sites instead of the best one, and their regret
    is the mean over these.
    """

    uniform: float
    """Regret of a site drawn uniformly at every step (expectation)."""
    best_fixed: float
    """Regret of the site with the largest mean reward, in hindsight."""
    last_best: float
    """Regret of the site that was best one step before, when all sites were read."""
    all_read: float
    """Regret of the site with the largest forecast (`Forecaster`) from all readings before the step."""
    points: int = 1
    """Number of points per step, n."""
    best_of_uniform: float | None = None
    """Regret of the best of n different sites drawn uniformly at every step (expectation), if n > 1."""
    best_of_fixed: float | None = None
    """Regret of the best, at each step, of the n sites of `best_fixed`, if n > 1."""

    @property
    def averages(self) -> dict[str, float]:
        """Return the first four regrets by name, which are means over all points of a step."""
        return dict(zip(self._fields[:4], self[:4], strict=True))

    def plus(self, excess: float) -> References:
        """Return the regrets relative to a best reward that is larger by `excess`."""
        regrets = {
            name: value + excess
            for name, value in self._asdict().items()
            if name != "points" and value is not None
        }
        return self._replace(**regrets)


def references(values: ArrayLike, allowed: ArrayLike | None = None, points: int = 1) -> References:
    """Return the average dynamic regret of model-free players.

    `uniform` and `best_fixed` are means over all T steps. There are no readings before the first step,
    so `last_best` and `all_read` are means over the steps 2, ..., T; for one step they equal `uniform`.
    Among sites that are equally good, players draw uniformly (expectation), so that the order of the
    columns does not matter.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free rewards of A sites at T steps; T and A at least 1.
    allowed : boolean array of shape (T, A), optional
        A mask of sites that satisfy the limits, at least one in each step. Players play only these;
        while the best fixed site is not allowed, its player draws uniformly.
    points : int
        Number of different sites that a player chooses in each step; all, if fewer are allowed.

    Raises
    ------
    ValueError
        If `values` is not a finite numeric matrix with at least one row and one column, or `allowed`
        is not such a mask.
    """
    table = as_table(values)
    whole_number("points", points)
    mask = np.ones(table.shape, dtype=bool) if allowed is None else np.asarray(allowed)
    if mask.shape != table.shape or mask.dtype != bool or not mask.any(axis=1).all():
        raise ValueError(
            f"allowed must be True or False, of shape {table.shape}, and True somewhere at each step; "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    best = np.where(mask, table, -np.inf).max(axis=1, keepdims=True)
    regret = best - table
    uniform_regret = np.mean(regret, axis=1, where=mask)
    uniform = float(uniform_regret.mean())
    last_best, all_read = list[float](), list[float]()
    steps = zip(Forecaster().forecasts(table), pairwise(table), mask[1:], strict=True)
    for forecast, (previous, current), sites in steps:
        last_best.append(_expected_regret(previous[sites], current[sites], points))
        all_read.append(_expected_regret(forecast[sites], current[sites], points))
    regret_of_site = np.where(mask, regret, uniform_regret[:, None])
    best_sites = np.argsort(regret_of_site.mean(axis=0), kind="stable")[:points]
    result = References(
        uniform=uniform,
        best_fixed=float(regret_of_site[:, best_sites].mean(axis=0).mean()),
        last_best=float(np.mean(last_best)) if last_best else uniform,
        all_read=sum(all_read) / len(all_read) if all_read else uniform,
    )
    if points == 1:
        return result
    best_of_uniform = [
        _expected_least_regret(row[sites], points) for row, sites in zip(regret, mask, strict=True)
    ]
    return result._replace(
        points=points,
        best_of_uniform=float(np.mean(best_of_uniform)),
        best_of_fixed=float(regret_of_site[:, best_sites].min(axis=1).mean()),
    )


def _expected_regret(forecast: Array, values: Array, points: int) -> float:
    """Return the mean regret of playing the `points` sites with the largest forecasts."""
    count = min(points, len(values))
    least = np.partition(forecast, -count)[-count]
    is_above, is_tied = forecast > least, forecast == least
    total = values[is_above].sum() + (count - np.count_nonzero(is_above)) * values[is_tied].mean()
    return float(values.max() - total / count)


def _expected_least_regret(regret: Array, points: int) -> float:
    """Return the expected least regret of `points` different sites that are drawn uniformly."""
    sites, count = len(regret), min(points, len(regret))
    # In the order of regret, site j (from 0) is the best of a draw if the others are after it.
    after = np.arange(sites - 1, count - 1, -1)
    ratios = (after - count + 1) / after
    probabilities = count / sites * np.concatenate([[1.0], np.cumprod(ratios)])
    return float(np.sort(regret)[: len(probabilities)] @ probabilities)


def as_table(values: ArrayLike) -> Array:
    """Return `values` as a finite matrix (T, A) of floats; otherwise raise a `ValueError`."""
    table = as_floats(values, "values")
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"values must have shape (T, A), T and A at least 1, got {table.shape}")
    bad = ~np.isfinite(table)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"values must be finite, got {table[row, column]} in row {row}, column {column}"
        )
    check_sizes(table.ravel(), "values")
    return table
