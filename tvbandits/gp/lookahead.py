"""Compute how answers to expert queries would change the posterior of the next decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.validation import Array, Index

# Gauss-Hermite quadrature for the expectation of a function of a standard normal variable.
NODES, WEIGHTS = hermegauss(9)
WEIGHTS /= WEIGHTS.sum()

ALL_POINTS = slice(None)


Rows: TypeAlias = Sequence[int] | Index


class CrossCovariance(Protocol):
    """The posterior covariance between the rewards of now and of the decision."""

    def __call__(self, rows: Rows, others: Index | slice = ALL_POINTS) -> Array:
        """Return the covariance (r, q) of rewards at `rows` now and at `others` at the decision."""


@dataclass(frozen=True)
class JointPosterior:
    """The joint posterior of the reward at some points, now and at the next decision.

    An expert answers about the reward now, and the decision is made later. How informative the answer is
    for the decision follows from the posterior covariance between the two times.

    Attributes
    ----------
    mean, deviation : arrays of shape (N,)
        Moments of the reward at the decision, in the unit of the reward.
    beta : float
        Confidence width, in deviations.
    noise_variance : float or array of shape (N,)
        Noise variance of an answer, in the unit of the reward squared.
    cross_covariance : callable
        `cross_covariance(rows, others)` is the posterior covariance (r, q) of the reward at points
        `rows` now with the reward at points `others`, by default all, at the time of the decision.
    covariance : callable
        `covariance(rows, others)` is the posterior covariance (r, q) of the reward at points `rows` with
        that at points `others`, both now.
    variance : array of shape (N,), optional
        Posterior variance of the reward now, if the caller has it: the diagonal of `covariance`.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.gp.lookahead import JointPosterior
    >>> covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> joint = JointPosterior(
    ...     np.array([0.2, 0.0]), np.ones(2), 2.0, 0.25,
    ...     cross_covariance=lambda rows, others=slice(None): covariance[list(rows)][:, others],
    ...     covariance=lambda rows, others: covariance[np.ix_(rows, others)],
    ... )
    >>> print(joint.upper, joint.condition_on(0).deviation.round(3))
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
        """Return the upper confidence bounds, shape (N,)."""
        return np.asarray(self.mean + self.beta * self.deviation)

    @property
    def lower(self) -> Array:
        """Return the lower confidence bounds, shape (N,)."""
        return np.asarray(self.mean - self.beta * self.deviation)

    def take(self, rows: Index) -> JointPosterior:
        """Return the posterior of some of the points, without the answers it was conditioned on."""
        cross_covariance, covariance = self.cross_covariance, self.covariance
        return JointPosterior(
            self.mean[rows],
            self.deviation[rows],
            self.beta,
            np.broadcast_to(self.noise_variance, self.mean.shape)[rows],
            lambda first, others=ALL_POINTS: cross_covariance(
                rows[list(first)].tolist(), rows[others]
            ),
            lambda first, second: covariance(
                rows[list(first)].tolist(), rows[list(second)].tolist()
            ),
            None if self.variance is None else self.variance[rows],
        )

    def answer_effects(
        self, rows: Rows, others: Index | slice = ALL_POINTS
    ) -> tuple[Array, Array, Array]:
        """Return the effect that one answer about each of the points `rows` would have on the means.

        Returns
        -------
        moves : array of shape (r, q)
            Change of the means of `others` at the decision if the answer is one deviation above its
            expectation.
        variance : array of shape (r,)
            Predictive variance of the answers, including their noise.
        below : array of shape (n, r)
            Covariance with the n answers of `condition_on`, whitened by the factor of these.
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

    def condition_on(self, *rows: int) -> JointPosterior:
        """Return the posterior given unknown answers about points `rows`; only deviations change.

        The answers add rows to the Cholesky factor of the covariance of all observations, and the
        variance at x falls by the squares of the new entries.
        """
        moves, variance, below = self.answer_effects(rows)
        root = np.sqrt(variance)[:, None]
        if len(rows) > 1:
            joint = self.covariance(rows, rows) - below.T @ below
            np.fill_diagonal(joint, variance)
            covariance, root = moves * root, linalg.cholesky(joint, "answers").L
            moves = linalg.solve_lower(root, covariance)
        n, k = len(self._rows), len(rows)
        factor = np.zeros((n + k, n + k))
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = self._factor, below.T, root
        variance = np.maximum(self.deviation**2 - (moves**2).sum(axis=0), 0.0)
        return replace_fields(
            self,
            deviation=np.sqrt(variance),
            _rows=(*self._rows, *rows),
            _factor=factor,
            _moves=np.vstack([self._moves, moves]) if n else moves,
        )

    def knowledge_gradient(self, rows: Rows, candidates: Index, rounding: float = 1e-12) -> Array:
        """Return the knowledge gradient (r,): the expected rise of the best mean by one answer each.

        An answer that is Z ~ N(0, 1) deviations above its expectation changes the means to
        mean + moves Z. The knowledge gradient is E[max_j (mean_j + moves_j Z)] - max_j mean_j over the
        candidates (Frazier, Powell & Dayanik 2009), here by Gauss-Hermite quadrature. Values below
        `rounding` times the largest deviation are returned as 0.
        """
        moves, *_ = self.answer_effects(rows, candidates)
        mean, largest = self.mean[candidates], NODES[-1] * np.abs(moves).max(axis=0, initial=0.0)
        # Candidates that no answer of the quadrature makes the best are left out.
        can_lead = mean + largest >= (mean - largest).max()
        moves, mean = moves[:, can_lead], mean[can_lead]
        means = NODES[:, None] * moves.T[:, None]
        means += mean[:, None, None]
        # A cumulative sum adds in a fixed order, so that the rounding does not vary.
        best = (WEIGHTS[:, None] * means.max(axis=0)).cumsum(axis=0)[-1]
        # The true value is never negative; values within rounding of 0 are set to 0.
        gain = best - mean.max()
        return np.where(gain > rounding * float(self.deviation.max(initial=0.0)), gain, 0.0)
