"""The joint posterior of the next decision, and what answers to questions would change about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.validation import Array, Index

# For the mean of a function of a standard normal number.
NODES, WEIGHTS = hermegauss(9)
WEIGHTS /= WEIGHTS.sum()

# All points.
EVERY = slice(None)


Rows: TypeAlias = Sequence[int] | Index


class CrossCovariance(Protocol):
    """The posterior covariance across the time from now to the decision."""

    def __call__(self, rows: Rows, others: Index | slice = EVERY) -> Array:
        """Return that of the reward at points `rows` now and at `others` then, (r, q)."""


@dataclass(frozen=True)
class JointPosterior:
    """The posterior of the reward at some points at the time of the next decision.

    An answer speaks about the reward now, the decision is made later: how much the one tells about the
    other is the posterior covariance across that time.

    Attributes
    ----------
    mean, deviation : arrays of shape (N,)
        In the unit of reward.
    beta : float
        Confidence width, in deviations.
    noise_variance : float or array of shape (N,)
        Of an answer (unit of reward squared).
    cross_covariance : callable
        `cross_covariance(rows, others)` is the posterior covariance (r, q) between the reward at points
        `rows` now and the reward at points `others`, by default all, at the time of the decision.
    covariance : callable
        `covariance(rows, others)` is the posterior covariance (r, q) between the reward at points `rows`
        and at points `others`, all of them now.
    variance : array of shape (N,), optional
        Posterior variance of the reward now: the diagonal of `covariance`, where it is at hand.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.gp.lookahead import JointPosterior
    >>> covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> beliefs = JointPosterior(
    ...     np.array([0.2, 0.0]), np.ones(2), 2.0, 0.25,
    ...     cross_covariance=lambda rows, others=slice(None): covariance[list(rows)][:, others],
    ...     covariance=lambda rows, others: covariance[np.ix_(rows, others)],
    ... )
    >>> print(beliefs.upper, beliefs.after(0).deviation.round(3))
    [2.2 2. ] [0.447 0.894]
    """

    mean: Array
    deviation: Array
    beta: float
    noise_variance: Array | float
    cross_covariance: CrossCovariance
    covariance: Callable[[Rows, Rows], Array]
    variance: Array | None = None
    _rows: tuple[int, ...] = ()
    _factor: Array = field(default_factory=lambda: np.empty((0, 0)))
    _moves: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def upper(self) -> Array:
        """Upper confidence bounds, shape (N,)."""
        return np.asarray(self.mean + self.beta * self.deviation)

    @property
    def lower(self) -> Array:
        """Lower confidence bounds, shape (N,)."""
        return np.asarray(self.mean - self.beta * self.deviation)

    def take(self, rows: Index) -> JointPosterior:
        """Return the posterior of some points alone, before any question about them."""
        cross_covariance, covariance = self.cross_covariance, self.covariance
        return JointPosterior(
            self.mean[rows],
            self.deviation[rows],
            self.beta,
            np.broadcast_to(self.noise_variance, self.mean.shape)[rows],
            lambda some, others=EVERY: cross_covariance(rows[list(some)].tolist(), rows[others]),
            lambda some, more: covariance(rows[list(some)].tolist(), rows[list(more)].tolist()),
            None if self.variance is None else self.variance[rows],
        )

    def answers(self, rows: Rows, others: Index | slice = EVERY) -> tuple[Array, Array, Array]:
        """Return what an answer about each of some points, on its own, would move.

        Returns
        -------
        moves : array of shape (r, q)
            Change of the means of `others` at the decision if the answer is one deviation above its
            expectation.
        variance : array of shape (r,)
            Of the answers, with their noise.
        below : array of shape (n, r)
            What the questions before add to the factor for them.
        """
        rows = np.asarray(rows, dtype=np.int64)
        covariance = self.cross_covariance(rows, others)
        if self.variance is None:
            variance = np.diagonal(self.covariance(rows, rows)).copy()
        else:
            variance = self.variance[rows]
        below = np.empty((0, len(rows)))
        if self._rows:
            below = linalg.solve_lower(self._factor, self.covariance(self._rows, rows))
            covariance = covariance - below.T @ self._moves[:, others]
            variance -= np.einsum("ij,ij->j", below, below)
        noise = np.asarray(self.noise_variance)
        variance = np.maximum(variance, 0.0) + (noise[rows] if noise.ndim else noise)
        return covariance / np.sqrt(variance)[:, None], variance, below

    def after(self, *rows: int) -> JointPosterior:
        """Return the posterior after questions about points `rows`: means stay, deviations shrink.

        The observations so far and the answers together have a covariance matrix whose Cholesky factor
        grows by these rows; the variance at x falls by the squares of the new entries.
        """
        fresh, variance, below = self.answers(rows)
        root = np.sqrt(variance)[:, None]
        if len(rows) > 1:
            joint = self.covariance(rows, rows) - below.T @ below
            np.fill_diagonal(joint, variance)
            scaled, root = fresh * root, linalg.cholesky(joint, "answers").L
            fresh = linalg.solve_lower(root, scaled)
        n, k = len(self._rows), len(rows)
        factor = np.zeros((n + k, n + k))
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = self._factor, below.T, root
        variance = np.maximum(self.deviation**2 - (fresh**2).sum(axis=0), 0.0)
        return replace_fields(
            self,
            deviation=np.sqrt(variance),
            _rows=(*self._rows, *rows),
            _factor=factor,
            _moves=np.vstack([self._moves, fresh]) if n else fresh,
        )

    def gains(self, rows: Rows, candidates: Index, rounding: float = 1e-12) -> Array:
        """Return by how much an answer about each of some points would raise the best mean, (r,).

        With the answer one unit Z ~ N(0, 1) of its deviation off, the means become mean + moves Z:
        the gain is E[max_j (mean_j + moves_j Z)] - max_j mean_j over the candidates, the knowledge
        gradient (Frazier, Powell & Dayanik 2009), by Gauss-Hermite quadrature. A gain below a share
        `rounding` of the largest deviation is none.
        """
        moves, *_ = self.answers(rows, candidates)
        mean, most = self.mean[candidates], NODES[-1] * np.abs(moves).max(axis=0, initial=0.0)
        # Points that come out best under no answer are not looked at for every one of them.
        leads = mean + most >= (mean - most).max()
        moves, mean = moves[:, leads], mean[leads]
        means = NODES[:, None] * moves.T[:, None]
        means += mean[:, None, None]
        best = (WEIGHTS[:, None] * means.max(axis=0)).cumsum(axis=0)[-1]  # in order: same bits
        # An answer cannot hurt, and what is within rounding is nothing.
        gain = best - mean.max()
        return np.where(gain > rounding * float(self.deviation.max(initial=0.0)), gain, 0.0)
