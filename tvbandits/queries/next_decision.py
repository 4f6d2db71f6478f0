"""Which points to ask about: what the next decision hangs on, and what the model knows least about.

Most questions go where an answer raises the best mean most, on average (the knowledge gradient of
`Beliefs.gains`). It looks one decision ahead and only where the model sees a chance, so that a peak
that appears where all was low would never be found: every fourth question goes to the point of the
largest deviation anywhere, in or outside of the plausible set. Values of answers over many decisions
(lifetime knowledge gradient) instead of it did not do better on the networks it was tried on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvbandits.core.arrays import Index, whole_number
from tvbandits.gp.lookahead import Beliefs
from tvbandits.queries.budgets import Budget, as_budget
from tvbandits.queries.pool import Choice, Pool

DISCOVER_EVERY = 4
PROMISE = 2.0
"""Deviations above its mean that a point may promise."""

LOOKED_AT = 40
"""At the most so many points are candidates for a question."""

COMPARED = 200
"""At the most so many points are candidates for the next decision."""


@dataclass(frozen=True)
class NextDecision:
    """One after the other the point whose answer helps the next decision most; some look elsewhere.

    Unlike `PlausibleMaximisers` it spends its budget at once, and what it discovers need not be
    plausible.

    Parameters
    ----------
    budget : Budget or int
        A number is a number per step.
    discover_every : int, optional
        Each question of this number goes to the point of the largest deviation of the pool; None: none.
    """

    budget: Budget | int
    discover_every: int | None = DISCOVER_EVERY

    def __post_init__(self) -> None:
        as_budget(self.budget)
        if self.discover_every is not None:
            whole_number("discover_every", self.discover_every)

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:  # noqa: ARG002 - one face
        """Draw nothing."""
        allowed = pool.allowed(self.budget)
        if allowed >= len(pool) or allowed == 0:
            return Choice(np.arange(len(pool) if allowed else 0))
        return Choice(questions(pool.believed(), allowed, pool.asked, self.discover_every))


def questions(
    beliefs: Beliefs, budget: int, asked: int = 0, discover_every: int | None = DISCOVER_EVERY
) -> Index:
    """Rows of distinct points to ask about, one after the other as if those before were known.

    Parameters
    ----------
    beliefs : Beliefs
        About the next decision.
    budget : int
    asked : int
        Questions asked before: the discovery goes on from there.
    discover_every : int, optional
        None: never.
    """
    if budget < 0 or (discover_every is not None and discover_every < 1):
        raise ValueError(
            f"budget must not be negative, and discover_every at least 1 or None; got {budget} "
            f"and {discover_every}"
        )
    if budget >= len(beliefs):
        return np.arange(len(beliefs))
    free = np.ones(len(beliefs), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < budget:
        if discover_every is not None and (asked + len(chosen) + 1) % discover_every == 0:
            row = int(np.argmax(np.where(free, beliefs.deviation, -np.inf)))
        else:
            row = _most_useful(beliefs, free)
        chosen.append(row)
        free[row] = False
        if len(chosen) < budget:
            beliefs = beliefs.after(row)
    return np.array(chosen, dtype=np.int64)


def _most_useful(beliefs: Beliefs, free: NDArray[np.bool_]) -> int:
    """The free point whose answer raises the best mean most."""
    ranked = np.argsort(-(beliefs.mean + PROMISE * beliefs.deviation), kind="stable")
    candidates = ranked[free[ranked]][:LOOKED_AT]
    gains = beliefs.gains(candidates.tolist(), ranked[:COMPARED])
    return int(candidates[np.argmax(gains)])
