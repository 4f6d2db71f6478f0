"""A problem on a fixed table of rewards (time x site), and references to read regret against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.domains import Candidates
from tvbandits.observations import Array, as_floats


class References(NamedTuple):
    """Average dynamic regret of three players that need no model, in the unit of reward."""

    uniform: float
    """A site drawn uniformly at every step (expectation)."""
    best_fixed: float
    """The one site with the largest mean reward, known in hindsight."""
    last_best: float
    """The site that was best one step before, all sites having been read then."""


def references(values: ArrayLike) -> References:
    """Average dynamic regret of uniform choice, of the best fixed site, and of the last best site.

    The first two are means over all T steps. Nothing has been read before the first step, so
    `last_best` is a mean over the steps 2, ..., T, and equal to `uniform` where there is but one
    step. Among several sites that were equally good it draws uniformly (expectation), so that the
    order of the columns does not matter.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free reward of each of A points at each of T steps; T and A at least 1.

    Raises
    ------
    ValueError
        If `values` is not a finite numeric matrix with at least one row and one column.
    """
    table = _as_table(values)
    regret = table.max(axis=1, keepdims=True) - table
    uniform = float(regret.mean())
    followed = _mean_over(regret[1:], regret[:-1] == 0.0)
    return References(
        uniform=uniform,
        best_fixed=float(regret.mean(axis=0).min()),
        last_best=float(followed.mean()) if len(followed) else uniform,
    )


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A drifting reward that is known at A points and T times; a `tvbandits.protocols.Problem`.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free reward; row s - 1 holds the rewards of time s = 1, ..., T.
    points : array of shape (A, d)
        Where the columns stand; no two alike.
    name : str
        What rows and pictures call the problem.
    unit : str
        Unit of the reward.
    noise_variance : float
        Noise variance of a told reward (unit of reward squared); positive.
    kernel : scikit-learn kernel, optional
        Recommended prior over points; None: fitted on a first sample.
    labels : tuple of A str, optional
        Names of the columns, for people.
    summary : str, optional
        Where the values come from, in one line.
    redraw : callable, optional
        Maps a seed to another realisation, for tables that are random themselves.

    Raises
    ------
    ValueError
        If shapes disagree, a value is not finite, or the noise variance is not positive.
    """

    values: Array
    points: Array
    name: str
    unit: str
    noise_variance: float
    kernel: Any | None = None
    labels: tuple[str, ...] = ()
    summary: str = ""
    redraw: Callable[[int], TableProblem] | None = None
    domain: Candidates = field(init=False)

    def __post_init__(self) -> None:
        values = _as_table(self.values)
        domain = Candidates(self.points)
        if len(domain) != values.shape[1]:
            raise ValueError(
                f"points must have {values.shape[1]} rows, one for each column of values, "
                f"got {len(domain)}"
            )
        if self.labels and len(self.labels) != len(domain):
            raise ValueError(f"labels must name {len(domain)} points, got {len(self.labels)}")
        variance = float(self.noise_variance)
        if not (np.isfinite(variance) and variance > 0):
            raise ValueError(f"noise_variance must be positive, got {self.noise_variance}")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "points", domain.X)
        object.__setattr__(self, "noise_variance", variance)
        object.__setattr__(self, "domain", domain)

    def __str__(self) -> str:
        return f"{self.name}: {self.summary}" if self.summary else self.name

    @property
    def horizon(self) -> int:
        """Number of steps T."""
        return len(self.values)

    @property
    def variation(self) -> float | None:
        """Mean over time of the largest change of any point in one step; None for one step."""
        if self.horizon == 1:
            return None
        return float(np.abs(np.diff(self.values, axis=0)).max(axis=1).mean())

    def value(self, X: Array, t: float) -> Array:
        """Noise-free reward at the points `X` (n, d) at time `t` = 1, ..., T, shape (n,).

        Raises
        ------
        ValueError
            If `t` is not one of the table's times, or a point is not one of its points.
        """
        return np.asarray(self._row(t)[self.domain.index(X)])

    def best(self, t: float) -> float:
        """Largest noise-free reward at time `t` = 1, ..., T."""
        return float(self._row(t).max())

    def references(self) -> References:
        """Average dynamic regret of the players without a model over the whole table."""
        return references(self.values)

    def realise(self, seed: int) -> TableProblem:
        """The realisation of `seed`; a table of measurements has one realisation, itself."""
        return self if self.redraw is None else self.redraw(seed)

    def _row(self, t: float) -> Array:
        step = float(t)
        if not (step.is_integer() and 1 <= step <= self.horizon):
            raise ValueError(f"t must be a whole number from 1 to {self.horizon}, got {t}")
        return np.asarray(self.values[int(step) - 1])


def _mean_over(values: Array, chosen: NDArray[np.bool_]) -> Array:
    """Mean of each row over its chosen columns, at least one of them."""
    return np.asarray((values * chosen).sum(axis=1) / chosen.sum(axis=1))


def _as_table(values: ArrayLike) -> Array:
    table = as_floats(values, "values")
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"values must have shape (T, A), T and A at least 1, got {table.shape}")
    bad = ~np.isfinite(table)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"values must be finite, got {table[row, column]} in row {row}, column {column}"
        )
    return table
