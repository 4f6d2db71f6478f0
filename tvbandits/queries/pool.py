"""Which of the points played a query plan may choose from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.queries.budgets import Budget, as_budget, check_number

DETERMINED = 1e-3
"""A point joins a full pool if this share of its prior variance is left once the pool is known."""


NOISE = 1e-6
"""Relative noise with which the pool counts as known."""


@dataclass(frozen=True)
class CandidatePool:
    """The pool: rows of the points played, and the posterior of knowing the reward there.

    Attributes
    ----------
    rows : integer array of shape (P,)
    seen : int
        How many of the points played have been looked at.
    known : ExactPosterior or None
        Made when the pool is full for the first time.
    """

    rows: Index
    seen: int
    known: ExactPosterior | None

    @classmethod
    def none(cls) -> CandidatePool:
        """An empty pool."""
        return cls(np.empty(0, dtype=np.int64), 0, None)

    def grown(
        self, visited: Array, kernel: Any, inputs: Callable[[Array], Array], size: int | None
    ) -> CandidatePool:
        """With those of the new points that belong to the pool.

        Parameters
        ----------
        visited : array of shape (N, d)
            Distinct points played, the new ones last.
        kernel : scikit-learn kernel
        inputs : callable
            Kernel inputs of points at one time.
        size : int, optional
            Up to this many points all of them belong to it.
        """
        rows, known = self.rows.tolist(), self.known
        for row in range(self.seen, len(visited)):
            if size is None or len(rows) < size:
                rows.append(row)
                continue
            if known is None:
                known = _knowing(kernel, inputs(visited[rows]), None)
            z = inputs(visited[row : row + 1])
            left = float(known.predict(z)[1][0])
            if left > DETERMINED * float(kernel.diag(z)[0]):
                rows.append(row)
                known = _knowing(kernel, inputs(visited[rows]), known)
        return CandidatePool(np.array(rows, dtype=np.int64), len(visited), known)


def _knowing(kernel: Any, Z: Array, previous: ExactPosterior | None) -> ExactPosterior:
    noise = NOISE * np.asarray(kernel.diag(Z))
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return Factored().condition(kernel, data, previous=previous)


@dataclass(frozen=True)
class Pool:
    """What a plan may choose from.

    Attributes
    ----------
    points : array of shape (N, d)
        The distinct points played so far, in the order of their first play; or points of the whole
        domain, where the recipe says so.
    told : int
        Number of rewards told so far.
    covariance : callable
        `covariance()` returns the prior covariance (N, N) of the reward at the points, at one time.
    beliefs : Beliefs, optional
        What the posterior says about the points at the time of the next decision; there for plans that
        look at it.
    asked : int
        Questions asked so far.
    decisions : int
        How many decisions there have been questions for, with this one: the "t" of schedules and of
        budgets; the number of rewards told by default.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries import OnAverage, Pool
    >>> pool = Pool(np.arange(5.0)[:, None], told=20, covariance=lambda: np.eye(5), asked=8)
    >>> print(len(pool), pool.allowed(OnAverage(0.5)))
    5 2
    """

    points: Array
    told: int
    covariance: Callable[[], Array]
    beliefs: JointPosterior | None = None
    asked: int = 0
    decisions: int = -1

    def __post_init__(self) -> None:
        if self.decisions < 0:
            object.__setattr__(self, "decisions", self.told)

    def __len__(self) -> int:
        return len(self.points)

    def allowed(self, budget: Budget | int) -> int:
        """How many questions a budget has for this decision."""
        counted = self.told if getattr(budget, "per_reward", False) else self.decisions
        number = as_budget(budget)(counted, self.asked)
        check_number("budget", number)
        return int(number)

    def believed(self) -> JointPosterior:
        """The beliefs, for plans that cannot do without."""
        if self.beliefs is None:
            raise ValueError("this plan looks at the posterior, and the pool has no beliefs")
        return self.beliefs


@dataclass(frozen=True)
class Choice:
    """Rows of the pool to ask about, and how the draw went.

    Attributes
    ----------
    rows : integer array of shape (q,)
    acceptance : float
        Share of the chain's steps that moved; NaN where no chain ran.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries import Choice
    >>> print(Choice(np.array([0, 3])).rows)
    [0 3]
    """

    rows: Index
    acceptance: float = math.nan
