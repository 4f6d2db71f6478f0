"""Players that need no model: what regret is read against."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.core.arrays import Array, as_floats, check_sizes
from tvbandits.datasets.tables.all_read import average_regret


class References(NamedTuple):
    """Average dynamic regret of players that ask nobody what to think, in the unit of reward."""

    uniform: float
    """A site drawn uniformly at every step (expectation)."""
    best_fixed: float
    """The one site with the largest mean reward, known in hindsight."""
    last_best: float
    """The site that was best one step before, all sites having been read then."""
    all_read: float
    """The site of the largest forecast by two numbers learned online, all sites having been read in all
    steps before: what a few answers are to be read against (`tvbandits.datasets.tables.all_read`)."""


def references(values: ArrayLike) -> References:
    """Average dynamic regret of uniform choice, the best fixed site, the last best, and a forecast.

    The first two are means over all T steps. Nothing has been read before the first step, so
    `last_best` and `all_read` are means over the steps 2, ..., T, and equal to `uniform` where there is
    but one step. Among several sites that were equally good they draw uniformly (expectation), so that
    the order of the columns does not matter.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free reward of each of A points at each of T steps; T and A at least 1.

    Raises
    ------
    ValueError
        If `values` is not a finite numeric matrix with at least one row and one column.
    """
    table = as_table(values)
    regret = table.max(axis=1, keepdims=True) - table
    uniform = float(regret.mean())
    followed = _mean_over(regret[1:], regret[:-1] == 0.0)
    return References(
        uniform=uniform,
        best_fixed=float(regret.mean(axis=0).min()),
        last_best=float(followed.mean()) if len(followed) else uniform,
        all_read=average_regret(table) if len(table) > 1 else uniform,
    )


def _mean_over(values: Array, chosen: NDArray[np.bool_]) -> Array:
    """Mean of each row over its chosen columns, at least one of them."""
    return np.asarray((values * chosen).sum(axis=1) / chosen.sum(axis=1))


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
