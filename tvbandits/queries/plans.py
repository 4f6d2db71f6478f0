"""Query plans: which points to ask the expert about, now, out of those that it may choose from (`Pool`).

=====================  ====================================  =======================================
plan                   looks at                              asks about
=====================  ====================================  =======================================
`KDPP`                 inputs                                points that are far apart (the paper)
`NextDecision`         the posterior                         what helps the next decision most
`PlausibleMaximisers`  the posterior                         what could be the best, until it is settled
`RandomPoints`         nothing                               points at random
=====================  ====================================  =======================================

The guarantee of SparQ-GP-UCB rests on a choice that sees inputs only, never values: that is `KDPP`.

Which points to ask about: what the next decision hangs on, and what the model knows least about.

Most questions go where an answer raises the best mean most, on average (the knowledge gradient of
`JointPosterior.gains`). It looks one decision ahead and only where the model sees a chance, so that
a peak that appears where all was low would never be found: every fourth question goes to the point of
the largest deviation anywhere, in or outside of the plausible set. Values of answers over many
decisions (lifetime knowledge gradient) did not do better on the networks they were tried on. A place
that was just read may be asked again, though the nugget is the same then: to count it once did no
better on networks that it was not made on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tvbandits.core.arrays import (
    Array,
    Index,
    finite_number,
    not_negative,
    positive_number,
    whole_number,
)
from tvbandits.core.linalg import first_largest
from tvbandits.gp.posteriors.cholesky import ExactPosterior, by_cholesky
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.queries import k_dpp
from tvbandits.queries.budgets import Budget, LogSchedule, as_budget, check_number, whole

__all__ = [
    "KDPP",
    "Choice",
    "LogSchedule",
    "NextDecision",
    "PlausibleMaximisers",
    "Pool",
    "QueryPlan",
    "RandomPoints",
]

# A point joins a full pool if this share of its prior variance is left once the pool is known.
DETERMINED = 1e-3


# Relative noise with which the pool counts as known.
NOISE = 1e-6


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
        if self.seen == len(visited):
            return self
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
    return by_cholesky(kernel, data, previous=previous)


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


# --- plans -----------------------------------------------------------------------------------------


class QueryPlan(Protocol):
    """A rule for the points to ask about; it may choose none.

    A plan may have an attribute `looks_at_posterior`: False says that it does not need the beliefs of
    its pool, and spares computing them.
    """

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:
        """Distinct rows of the pool."""


# Longest chain, in sweeps: no draw needs a thousandth of it.
MOST_SWEEPS = 1e6


@dataclass(frozen=True)
class KDPP:
    """An approximate k-DPP over the points played so far: SparQ-GP-UCB, Algorithms 1 to 3.

    Parameters
    ----------
    schedule : callable or int
        `schedule(t)` returns how many points to ask about in the t-th decision. Where fewer distinct
        points have been played, all of them are asked. A number is a constant schedule.
    sweeps : float
        Length of the chain in lazy steps for each chosen point: `ceil(sweeps k)` steps from the greedy
        set. The paper leaves it open. About 5 N steps on a pool of N cannot be told from an exact draw.
        But the greedy set leaves a smaller trace tr(K - Q), the quantity that the guarantee is about,
        than a typical draw does, and under the theorem's width regret grows with the length of the
        chain (`python -m benchmarks --only chain`), so the default stays near the greedy set.
    accuracy : float, optional
        Where given, the length is the theory's O(N k log(N / accuracy)) instead of `sweeps`.
    jitter : float
        Relative to the mean prior variance; see `tvbandits.queries.k_dpp`.
    budget : Budget, optional
        Where given, it says how many instead of the schedule.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries import KDPP, Pool
    >>> pool = Pool(np.arange(5.0)[:, None], told=20, covariance=lambda: np.eye(5))
    >>> len(KDPP(3).choose(pool, np.random.default_rng(0)).rows)
    3
    """

    schedule: Callable[[int], int] | int = field(default_factory=LogSchedule)
    sweeps: float = 0.5
    accuracy: float | None = None
    jitter: float = 1e-8
    budget: Budget | None = None

    looks_at_posterior: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.budget is not None:
            as_budget(self.budget)
        if isinstance(self.schedule, type) or not callable(self.schedule):
            whole_number("schedule, where it is no function,", self.schedule, at_least=0)
        finite_number("sweeps", self.sweeps, low=0.0, high=MOST_SWEEPS)
        positive_number("jitter", self.jitter)
        if self.accuracy is not None:
            finite_number("accuracy", self.accuracy, above=0.0, below=1.0)

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:
        """Run the chain."""
        N = len(pool)
        if self.budget is not None:
            _, k = _allowed(self.budget, pool)
        else:
            k = (
                whole(self.schedule, pool.decisions)
                if callable(self.schedule)
                else int(self.schedule)
            )
        if k >= N or k == 0:
            return _all_or_none(N, k)
        steps = math.ceil(self.sweeps * k)
        if self.accuracy is not None:
            steps = k_dpp.mixing_steps(N, k, self.accuracy)
        sample = k_dpp.sample_mcmc(pool.covariance(), k, steps=steps, rng=rng, jitter=self.jitter)
        return Choice(sample.indices, sample.acceptance)


# Deviations above its mean that a plausible point may promise.
PROMISE = 2.0


@dataclass(frozen=True)
class PlausibleMaximisers:
    """One after the other the point whose answer helps the next decision most, until it is settled.

    Plausible is a point whose upper bound exceeds the best lower bound: no other can be the maximiser
    while the bounds hold. Among the `looked_at` plausible points that promise most (`PROMISE`), the one
    of the largest gain is asked about (`JointPosterior.gains`: how much its answer raises the best
    mean, on
    average), as if those before were known. The gain looks one decision ahead, and by itself may never
    ask about what is worth knowing for long; so every `explore_every`-th question goes to the plausible
    point of the largest deviation. It ends when the best gain falls below `tolerance` noise deviations
    of an answer, with nothing left but one plausible point, or with the budget.

    Parameters
    ----------
    budget : Budget or int
        A number is a number per step.
    tolerance : float
        A gain that is not worth a question, in noise deviations; 0 spends the budget.
    explore_every : int, optional
        None: never.
    looked_at, compared : int
        At the most so many points are candidates for a question, and so many for the next decision.

    Examples
    --------
    >>> from tvbandits import Candidates, experts, policies
    >>> from tvbandits.queries import PlausibleMaximisers
    >>> plan, sites = PlausibleMaximisers(2), Candidates([[0.0], [1.0], [2.0]])
    >>> station = experts.CallableExpert(lambda X, t: X[:, 0], 0.01)
    >>> bandit = policies.frugal_gp_ucb(sites, None, 0.01, expert=station, plan=plan)
    >>> print(bandit.tell([[1.0]], [0.5], 1).queries.total_asked)
    2
    """

    budget: Budget | int
    tolerance: float = 0.0
    explore_every: int | None = 4
    looked_at: int = 40
    compared: int = 200

    def __post_init__(self) -> None:
        as_budget(self.budget)
        not_negative("tolerance", self.tolerance)
        for name in ("looked_at", "compared", "explore_every"):
            value = getattr(self, name)
            if value is None and name == "explore_every":
                continue
            whole_number(name, value)

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:  # noqa: ARG002 - one face
        """Draw nothing."""
        N, k = _allowed(self.budget, pool)
        if k == 0 or N == 0:
            return _all_or_none(N, 0)
        beliefs = pool.believed()
        enough = self.tolerance * math.sqrt(float(np.mean(beliefs.noise_variance)))
        rows: list[int] = []
        while len(rows) < min(k, N):
            plausible = np.flatnonzero(beliefs.upper >= beliefs.lower.max())
            # A width of theory would look at what is least known first, however poor it promises to be.
            promise = beliefs.mean + PROMISE * beliefs.deviation
            short = (promise.max() - promise[plausible]) / _smallest(beliefs.deviation)
            # Points that tie keep their order, whatever the last bits say.
            ranked = plausible[np.argsort(np.rint(short), kind="stable")]
            candidates = [int(i) for i in ranked[: self.looked_at + len(rows)] if i not in rows]
            if len(plausible) == 1 or not candidates:
                break
            gains = beliefs.gains(candidates, ranked[: self.compared])
            # Where no answer changes the decision, the point of the largest promise is asked about.
            best = first_largest(gains)
            if gains[best] < enough:
                break
            if self._explores(pool.asked + len(rows)):
                left = plausible[~np.isin(plausible, rows)]
                rows.append(int(left[first_largest(beliefs.deviation[left])]))
            else:
                rows.append(candidates[best])
            if len(rows) < k:
                beliefs = beliefs.after(rows[-1])
        return Choice(np.array(rows, dtype=np.int64))

    def _explores(self, asked: int) -> bool:
        """Whether the question after so many ones explores."""
        return self.explore_every is not None and (asked + 1) % self.explore_every == 0


@dataclass(frozen=True)
class RandomPoints:
    """Points at random, each subset of the size of the budget with the same chance.

    Parameters
    ----------
    budget : Budget or int
        A number is a number per step.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries import RandomPoints, Pool
    >>> pool = Pool(np.arange(5.0)[:, None], told=20, covariance=lambda: np.eye(5))
    >>> len(RandomPoints(3).choose(pool, np.random.default_rng(0)).rows)
    3
    """

    budget: Budget | int

    looks_at_posterior: ClassVar[bool] = False

    def __post_init__(self) -> None:
        as_budget(self.budget)

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:
        """Look at nothing."""
        N, k = _allowed(self.budget, pool)
        return Choice(np.sort(rng.choice(N, min(k, N), replace=False)))


def _allowed(budget: Budget | int, pool: Pool) -> tuple[int, int]:
    """Size of the pool, and how many questions there may be now."""
    return len(pool), pool.allowed(budget)


def _all_or_none(N: int, k: int) -> Choice:
    return Choice(np.arange(N if k >= N else 0))


def _smallest(deviation: Array) -> float:
    """A deviation that counts as none."""
    return max(1e-9 * float(deviation.max(initial=0.0)), 1e-300)


# Each question of this number looks elsewhere.
DISCOVER_EVERY = 4

# At the most so many points are candidates for a question.
LOOKED_AT = 40

# At the most so many points are candidates for the next decision.
COMPARED = 200


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

    Examples
    --------
    >>> from tvbandits import Candidates, experts, policies
    >>> from tvbandits.queries import NextDecision
    >>> plan, sites = NextDecision(2), Candidates([[0.0], [1.0], [2.0]])
    >>> station = experts.CallableExpert(lambda X, t: X[:, 0], 0.01)
    >>> bandit = policies.frugal_gp_ucb(sites, None, 0.01, expert=station, plan=plan)
    >>> print(bandit.tell([[1.0]], [0.5], 1).queries.total_asked)
    2
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
    beliefs: JointPosterior,
    budget: int,
    asked: int = 0,
    discover_every: int | None = DISCOVER_EVERY,
) -> Index:
    """Rows of distinct points to ask about, one after the other as if those before were known.

    These count as answered as expected. The mean over answers a deviation above and below, which is the
    knowledge gradient of all together, had 0.99 +- 0.01 of the regret on 14 networks (78 runs).

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


def _most_useful(beliefs: JointPosterior, free: NDArray[np.bool_]) -> int:
    """The free point whose answer raises the best mean most."""
    ranked = (-(beliefs.mean + PROMISE * beliefs.deviation)).argsort(kind="stable")
    candidates = ranked[free[ranked]][:LOOKED_AT]
    gains = beliefs.gains(candidates, ranked[:COMPARED])
    return int(candidates[gains.argmax()])
