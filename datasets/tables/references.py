"""Players that need no model, with which regret is compared.

One of them reads every place at every step, and forecasts with two numbers that it learns. To it each
place is a slow mean, weather and white noise, all on its own: an Ornstein-Uhlenbeck process of some 200
steps, one of a few steps, and noise. The two numbers are learned online, by the squared errors of
differences between places: the variance of the weather compared with the rest, and how long it lasts.
A policy that asks about a few places only, however cleverly, is to be compared with it.
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
    """A model of places that are a slow mean, weather and white noise, each on its own.

    Attributes
    ----------
    slow_scale : float
        Scale of the slow mean, in steps.
    white : float
        Share of white noise in the variance.
    shares : tuple of float
        Shares of the weather in the variance that are tried side by side.
    scales : tuple of float
        Scales of the weather, in steps, that are tried.
    discount : float
        Weight of a squared error against that of the step after it.
    """

    slow_scale: float = 200.0
    white: float = 0.2
    shares: tuple[float, ...] = (0.25, 0.4, 0.55)
    scales: tuple[float, ...] = (0.7, 1.5, 3.0, 6.0)
    discount: float = 0.99

    def forecasts(self, table: Array) -> Iterator[Array]:
        """Yield forecasts of the steps 2, ..., T of a table (T, A), each from all readings before it."""
        weather, scale = np.array(list(product(self.shares, self.scales))).T
        count = len(weather)
        # Two numbers a place, slow and weather; all places of a model share one covariance.
        prior = np.stack([1.0 - self.white - weather, weather], axis=1)
        keep = np.exp(-1.0 / np.stack([np.full(count, self.slow_scale), scale], axis=1))
        fresh = ((1.0 - keep**2) * prior)[:, :, None] * np.eye(2)
        covariance = prior[:, :, None] * np.eye(2)
        mean = np.zeros((count, 2, table.shape[1]))
        loss, variance, origin = np.zeros(count), 0.0, float(table[0].mean())
        for step, values in enumerate(table[:-1]):
            if step:
                mean = keep[:, :, None] * mean
                covariance = keep[:, :, None] * keep[:, None, :] * covariance + fresh
            errors = values - origin - mean.sum(axis=1)
            # Losses: squared errors of differences, in units of their variance, older ones discounted.
            squares = errors.var(axis=1)
            variance += max(0.02, 1.0 / (step + 1)) * (float(squares.min()) - variance)
            if variance > 0:
                loss = self.discount * loss + errors.shape[1] * squares / (2.0 * variance)
            reach = covariance.sum(axis=2)
            gain = reach / (reach.sum(axis=1, keepdims=True) + self.white)
            mean = mean + gain[:, :, None] * errors[:, None, :]
            covariance = covariance - gain[:, :, None] * reach[:, None, :]
            weights = np.exp(loss.min() - loss)
            yield origin + (weights / weights.sum()) @ (keep[:, :, None] * mean).sum(axis=1)


class References(NamedTuple):
    """Average dynamic regret of players without a model, in the unit of reward.

    Players that choose n points a step have the mean over them, and choose their n best instead of the
    best one.
    """

    uniform: float
    """A site drawn uniformly at every step (expectation)."""
    best_fixed: float
    """The one site with the largest mean reward, known in hindsight."""
    last_best: float
    """The site that was best one step before, all sites having been read then."""
    all_read: float
    """The site of the largest forecast by two numbers learned online, all sites having been read in all
    steps before (`tvbandits.datasets.tables.references`)."""
    points: int = 1
    """n."""
    best_of_uniform: float | None = None
    """Regret of the best of n different sites, drawn uniformly at every step (expectation)."""
    best_of_fixed: float | None = None
    """Regret of the best, at each step, of the n sites of `best_fixed`. Both are None for one point."""

    @property
    def averages(self) -> dict[str, float]:
        """The first four, by name: what a mean over all points is compared with."""
        return dict(zip(self._fields[:4], self[:4], strict=True))

    def plus(self, excess: float) -> References:
        """Return the same players where the best is larger by so much."""
        regrets = {
            name: value + excess
            for name, value in self._asdict().items()
            if name != "points" and value is not None
        }
        return self._replace(**regrets)


def references(values: ArrayLike, allowed: ArrayLike | None = None, points: int = 1) -> References:
    """Return the average dynamic regret of players without a model.

    The first two are means over all T steps. Nothing has been read before the first step, so
    `last_best` and `all_read` are means over the steps 2, ..., T, and equal to `uniform` where there is
    but one step. Among several sites that were equally good they draw uniformly (expectation), so that
    the order of the columns does not matter.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free reward of each of A points at each of T steps; T and A at least 1.
    allowed : boolean array of shape (T, A), optional
        Where limits hold, at one point at least of each step. All players know it and keep to it: the
        best fixed site is left for a uniform draw while it is not allowed.
    points : int
        Number of different sites that a player chooses a step; all, where fewer are allowed.

    Raises
    ------
    ValueError
        If `values` is not a finite numeric matrix with at least one row and one column, or `allowed`
        is no such mask.
    """
    table = as_table(values)
    whole_number("points", points)
    free = np.ones(table.shape, dtype=bool) if allowed is None else np.asarray(allowed)
    if free.shape != table.shape or free.dtype != bool or not free.any(axis=1).all():
        raise ValueError(
            f"allowed must be True or False, of shape {table.shape}, and True somewhere at each step; "
            f"got {free.dtype} of shape {free.shape}"
        )
    best = np.where(free, table, -np.inf).max(axis=1, keepdims=True)
    regret = best - table
    random = np.mean(regret, axis=1, where=free)
    uniform = float(random.mean())
    last_best, all_read = list[float](), list[float]()
    steps = zip(Forecaster().forecasts(table), pairwise(table), free[1:], strict=True)
    for forecast, (before, now), mask in steps:
        last_best.append(_regret(before[mask], now[mask], points))
        all_read.append(_regret(forecast[mask], now[mask], points))
    of_site = np.where(free, regret, random[:, None])
    fixed = np.argsort(of_site.mean(axis=0), kind="stable")[:points]
    found = References(
        uniform=uniform,
        best_fixed=float(of_site[:, fixed].mean(axis=0).mean()),
        last_best=float(np.mean(last_best)) if last_best else uniform,
        all_read=sum(all_read) / len(all_read) if all_read else uniform,
    )
    if points == 1:
        return found
    drawn = [_best_of_draw(row[mask], points) for row, mask in zip(regret, free, strict=True)]
    return found._replace(
        points=points,
        best_of_uniform=float(np.mean(drawn)),
        best_of_fixed=float(of_site[:, fixed].min(axis=1).mean()),
    )


def _regret(expected: Array, values: Array, points: int) -> float:
    """Return the mean regret of playing the sites that are expected to be the best."""
    count = min(points, len(values))
    least = np.partition(expected, -count)[-count]
    sure, tied = expected > least, expected == least
    total = values[sure].sum() + (count - np.count_nonzero(sure)) * values[tied].mean()
    return float(values.max() - total / count)


def _best_of_draw(regret: Array, points: int) -> float:
    """Return the expected least regret of so many different sites that are drawn uniformly."""
    sites, count = len(regret), min(points, len(regret))
    # The j-th site of the order (from 0) is the best of a draw if the others come from those after it.
    after = np.arange(sites - 1, count - 1, -1)
    ratios = (after - count + 1) / after
    chances = count / sites * np.concatenate([[1.0], np.cumprod(ratios)])
    return float(np.sort(regret)[: len(chances)] @ chances)


def as_table(values: ArrayLike) -> Array:
    """Return `values` as a finite matrix (T, A) of floats; a `ValueError` names what is wrong."""
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
