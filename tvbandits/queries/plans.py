"""Query plans: rules that choose the points of a pool (`Pool`) to ask the expert about.

=====================  ====================================  =======================================
plan                   uses                                  asks about
=====================  ====================================  =======================================
`KDPP`                 the points                            points that are far apart (the paper)
`NextDecision`         the posterior                         points that help the next decision most
`PlausibleMaximizers`  the posterior                         possible maximizers, until one is left
`RandomPoints`         nothing                               points at random
=====================  ====================================  =======================================

The guarantee of SparQ-GP-UCB needs a choice that depends on the points alone, and not on rewards, as
`KDPP` makes it.

`NextDecision` asks mostly about the point whose answer raises the best mean most on average (the
knowledge gradient of `JointPosterior.knowledge_gradient`). That looks one decision ahead, and would
miss a peak that appears where all rewards were low. Every fourth question is therefore about the point
of the largest deviation, whether it is plausible or not. The value of an answer over many decisions
(lifetime knowledge gradient) was not better on the networks it was tried on. Neither was it better to
exclude points that were just read, where a second answer tells nothing new about the nugget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from tvbandits.experts.protocol import Expert
from tvbandits.gp.cholesky import ExactPosterior, condition_by_cholesky
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.posterior import Data
from tvbandits.queries import k_dpp
from tvbandits.ties import first_argmax
from tvbandits.validation import (
    Array,
    Index,
    as_bool,
    as_list,
    check_choice,
    check_optional,
    check_part,
    describe,
    finite_number,
    nonnegative_number,
    require,
    whole_number,
)


@dataclass(frozen=True)
class PlanConfig:
    """The numbers of query plans.

    Attributes
    ----------
    determined_share : float
        A point joins a full pool if more than this share of its prior variance is left given the rewards
        of the pool.
    pool_noise : float
        Noise variance of the rewards of the pool in that, relative to the prior variance.
    most_steps : float
        Largest length of the chain of a k-DPP, in steps for each point drawn.
    tolerance : float
        eta, which `KDPP(steps="theory")` allows as divergence between the posterior given all points and
        that given the points asked about: at most 1/5 ([S] Proposition 3).
    promise : float
        Points are ranked by their mean plus this number of deviations.
    question_candidates : int
        Largest number of points that are compared for a question.
    decision_candidates : int
        Largest number of points that the next decision is assumed to choose from.
    discover_every : int
        One in so many questions is about the point of the largest deviation.
    """

    determined_share: float = 1e-3
    pool_noise: float = 1e-6
    most_steps: float = 1e6
    tolerance: float = 0.2
    promise: float = 2.0
    question_candidates: int = 40
    decision_candidates: int = 200
    discover_every: int = 4


CONFIG = PlanConfig()

# --- budgets --------------------------------------------------------------------------------------- A
# budget is a function of the number t of decisions so far, including this one, and of the number of
# questions so far. It returns a number of questions; those that are saved now may be asked later. It
# counts decisions instead of rewards because a batch is one decision, also if its rewards come one by
# one.

# Largest number of questions in a decision.
MOST_QUESTIONS = 1e9


@dataclass(frozen=True)
class LogSchedule:
    """A budget of ceil(factor log t) questions in the t-th decision; the paper has factor = 6.

    With `every`, which is not in the paper, there are questions only in decisions whose number is a
    multiple of it.

    Examples
    --------
    >>> from tvbandits.queries import LogSchedule
    >>> print([LogSchedule(6.0)(t) for t in (1, 10, 100)])
    [0, 14, 28]
    >>> print([LogSchedule(6.0, every=5)(t) for t in (9, 10, 11)])
    [0, 14, 0]
    """

    factor: float = 6.0
    every: int = 1

    def __post_init__(self) -> None:
        finite_number("factor", self.factor, low=0.0, high=MOST_QUESTIONS)
        whole_number("every", self.every)

    def __call__(self, count: int, asked: int = 0) -> int:
        """Return the number of questions."""
        return 0 if count % self.every else math.ceil(self.factor * math.log(max(count, 1)))


class Budget(Protocol):
    """A rule for the number of questions of a decision.

    `count` is the number of decisions, except for `Following`, for which it is that of rewards.
    """

    def __call__(self, count: int, asked: int) -> int:
        """Return the number of questions of the `count`-th decision, after `asked` questions so far."""


@dataclass(frozen=True)
class PerStep:
    """A budget of the same number of questions in every decision; none of them is saved."""

    number: int

    def __post_init__(self) -> None:
        whole_number("number", self.number, at_least=0)

    def __call__(self, count: int, asked: int) -> int:
        """Return the number."""
        return self.number


@dataclass(frozen=True)
class OnAverage:
    """A budget of `rate` questions a decision on average.

    In t decisions it allows rate t questions; those that are saved in one may be asked in a later one.

    Examples
    --------
    >>> from tvbandits.queries import OnAverage
    >>> budget = OnAverage(0.5)
    >>> print(budget(4, 0), budget(4, 2))  # nothing asked yet, and two asked
    2 0
    """

    rate: float

    def __post_init__(self) -> None:
        finite_number("rate", self.rate, low=0.0, high=MOST_QUESTIONS)

    def __call__(self, count: int, asked: int) -> int:
        """Return the number of questions that are left."""
        return max(math.floor(self.rate * count + 1e-9) - asked, 0)


@dataclass(frozen=True)
class Following:
    """A budget of as many questions as another bandit has asked: `counts[t - 1]` at the t-th reward.

    A bandit that gets several rewards at once may ask as many as the other one asked in that time.

    Examples
    --------
    >>> from tvbandits.queries import Following
    >>> budget = Following((0, 2, 5))
    >>> print([budget(t, 0) for t in (1, 2, 3)])
    [0, 2, 7]
    """

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        counts = as_list("counts", self.counts, "a sequence of whole numbers")
        for count in counts:
            whole_number("each of counts", count, at_least=0)
        object.__setattr__(self, "counts", tuple(counts))

    def __call__(self, count: int, asked: int) -> int:
        """Return the number that the other bandit has asked by now, less `asked`."""
        return max(sum(self.counts[:count]) - asked, 0)


def as_budget(budget: Budget | int) -> Budget:
    """Return a budget unchanged, and for a number that number of questions in every decision."""
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool | np.timedelta64):
        return PerStep(whole_number("budget", budget, at_least=0))
    if isinstance(budget, type) or not callable(budget):
        needs = "a whole number per step, or a budget such as OnAverage(3)"
        raise ValueError(f"budget must be {needs}; got {describe(budget)}")
    return budget


# --- pools -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlayedPool:
    """The rows of the points played that a plan may choose from.

    Attributes
    ----------
    rows : integer array of shape (P,)
        Rows of the distinct points played.
    visited : int
        Number of distinct points played that were considered so far.
    posterior : ExactPosterior or None
        That given rewards at all points of the pool; None until the pool is full.
    """

    rows: Index
    visited: int
    posterior: ExactPosterior | None

    @classmethod
    def none(cls) -> PlayedPool:
        """Return an empty pool."""
        return cls(np.empty(0, dtype=np.int64), 0, None)

    def extend(
        self, visited: Array, kernel: Any, inputs: Callable[[Array], Array], size: int | None
    ) -> PlayedPool:
        """Return the pool with those of the new points that join it.

        Parameters
        ----------
        visited : array of shape (N, d)
            Distinct points played, the new ones last.
        kernel : scikit-learn kernel
        inputs : callable
            Kernel inputs of points at one time.
        size : int, optional
            Up to this number of points, all of them join.
        """
        if self.visited == len(visited):
            return self
        rows, posterior = self.rows.tolist(), self.posterior
        for row in range(self.visited, len(visited)):
            if size is None or len(rows) < size:
                rows.append(row)
                continue
            if posterior is None:
                posterior = _pool_posterior(kernel, inputs(visited[rows]), None)
            z = inputs(visited[row : row + 1])
            variance = float(posterior.predict(z)[1][0])
            if variance > CONFIG.determined_share * float(kernel.diag(z)[0]):
                rows.append(row)
                posterior = _pool_posterior(kernel, inputs(visited[rows]), posterior)
        return PlayedPool(np.array(rows, dtype=np.int64), len(visited), posterior)


def _pool_posterior(kernel: Any, Z: Array, previous: ExactPosterior | None) -> ExactPosterior:
    """Return the posterior given rewards at inputs Z (n, p) with next to no noise."""
    noise = CONFIG.pool_noise * np.asarray(kernel.diag(Z))
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return condition_by_cholesky(kernel, data, previous=previous)


@dataclass(frozen=True)
class Pool:
    """The points that a plan may choose from, and what is known about them.

    Attributes
    ----------
    points : array of shape (N, d)
        The distinct points played so far, in the order of their first play; or points of the whole
        domain (`QueryConfig.pool`).
    rewards : int
        Number of rewards so far.
    covariance : callable
        `covariance()` returns the prior covariance (N, N) of the reward at the points, at one time.
    posterior : JointPosterior, optional
        The posterior at the points at the time of the next decision, for plans that use it
        (`QueryPlan.looks_at_posterior`).
    asked : int
        Questions asked so far.
    decisions : int
        Number of decisions with questions, including this one: the "t" of budgets. By default the number
        of rewards.
    noise_variance : float, optional
        sigma^2, the noise variance of a reward, in the unit of `covariance`.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries import OnAverage, Pool
    >>> pool = Pool(np.arange(5.0)[:, None], rewards=20, covariance=lambda: np.eye(5), asked=8)
    >>> print(len(pool), pool.allowance(OnAverage(0.5)))
    5 2
    """

    points: Array
    rewards: int
    covariance: Callable[[], Array]
    posterior: JointPosterior | None = None
    asked: int = 0
    decisions: int = -1
    noise_variance: float | None = None

    def __post_init__(self) -> None:
        if self.decisions < 0:
            object.__setattr__(self, "decisions", self.rewards)

    def __len__(self) -> int:
        return len(self.points)

    def allowance(self, budget: Budget | int) -> int:
        """Return the number of questions that a budget allows for this decision."""
        count = self.rewards if isinstance(budget, Following) else self.decisions
        number = as_budget(budget)(count, self.asked)
        return int(whole_number("budget", number, at_least=0))

    def require_posterior(self) -> JointPosterior:
        """Return the posterior; raise a `ValueError` if there is none."""
        if self.posterior is None:
            raise ValueError("this plan uses the posterior: give Pool(..., posterior=...)")
        return self.posterior


# --- plans -----------------------------------------------------------------------------------------


class QueryPlan(Protocol):
    """A rule for the points to ask about; it may choose none. Plans of your own inherit from it.

    Attributes
    ----------
    looks_at_posterior : bool
        Whether it uses the posterior of its pool; if not, that is not computed.
    """

    looks_at_posterior: ClassVar[bool] = True

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Return distinct rows of the pool, shape (q,)."""


@dataclass(frozen=True)
class _WithBudget(QueryPlan):
    """A plan with a budget, or with a number of questions for every step."""

    budget: Budget | int

    def __post_init__(self) -> None:
        as_budget(self.budget)


@dataclass(frozen=True)
class KDPP(QueryPlan):
    """A plan that draws a k-DPP over the points of the pool: Algorithms 1 to 3 of SparQ-GP-UCB.

    Parameters
    ----------
    budget : Budget or int
        The number of points to ask about; an int is the number in every step. Where the pool has fewer
        points, it asks about all of them.
    steps : float or "theory"
        Length of the chain from the greedy set, in lazy steps for each point: it has `ceil(steps k)`
        steps. "theory" is the length after which the distribution is as near to the k-DPP as [S]
        Proposition 2 asks (eq. 56). The default is much shorter. The greedy set has a smaller trace
        tr(K - Q), on which the guarantee depends, than a typical draw; and with the theorem's width
        regret grows with the length of the chain, until it exceeds that of GP-UCB (`python -m
        benchmarks --only chain`; docs/printed-tables.md has the figures).
    sampler : "mcmc" or "exact"
        The chain of Algorithm 2, or an exact draw by the library dppy, which takes milliseconds.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries import KDPP, Pool
    >>> pool = Pool(np.arange(5.0)[:, None], rewards=20, covariance=lambda: np.eye(5))
    >>> len(KDPP(3).choose(pool, np.random.default_rng(0)))
    3
    """

    budget: Budget | int = field(default_factory=LogSchedule)
    steps: float | Literal["theory"] = 0.5
    sampler: Literal["mcmc", "exact"] = "mcmc"

    looks_at_posterior: ClassVar[bool] = False

    def __post_init__(self) -> None:
        as_budget(self.budget)
        if isinstance(self.steps, str):
            check_choice("steps", self.steps, ("theory",))
        else:
            finite_number("steps", self.steps, low=0.0, high=CONFIG.most_steps)
        check_choice("sampler", self.sampler, ("mcmc", "exact"))
        if self.sampler == "exact" and self.steps != type(self).steps:
            raise ValueError(f'steps is for sampler="mcmc", got steps = {describe(self.steps)}')

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Return the rows of a k-DPP, by the chain or an exact draw."""
        k = pool.allowance(self.budget)
        if k >= len(pool) or k == 0:
            return np.arange(len(pool) if k else 0)
        K = pool.covariance()
        if self.sampler == "exact":
            return k_dpp.sample_exact(K, k, rng=rng)
        if self.steps == "theory":
            steps = k_dpp.mixing_steps(K, k, chain_accuracy(pool, float(np.diagonal(K).max())))
        else:
            steps = math.ceil(self.steps * k)
        return k_dpp.sample_mcmc(K, k, steps=steps, rng=rng).indices


def chain_accuracy(pool: Pool, prior_variance: float) -> float:
    """Return epsilon_t = sigma^2 eta / (4 t M_k^2) of [S] eq. 56, after t rewards.

    A set whose distribution has at most the total variation epsilon_t from the k-DPP adds at most half
    of eta to the divergence between the posteriors (eq. 55a).

    Parameters
    ----------
    pool : Pool
        It must have a noise variance.
    prior_variance : float
        M_k^2, the largest k(x, x).
    """
    if pool.noise_variance is None:
        raise ValueError(
            'steps="theory" needs the noise variance of rewards: Pool(noise_variance=...)'
        )
    t = max(pool.rewards, 1)
    return pool.noise_variance * CONFIG.tolerance / (4 * t * prior_variance)


@dataclass(frozen=True)
class PlausibleMaximizers(_WithBudget):
    """A plan that asks about possible maximizers, until one of them is left.

    A point is plausible if its upper bound exceeds the best lower bound: while the bounds hold, no
    other point can be the maximizer. Of the plausible points with the largest mean plus deviations
    (`PlanConfig.promise`) the plan asks about the one of the largest gain, which is how much its answer
    raises the best mean on average (`JointPosterior.knowledge_gradient`), given answers to the
    questions before. The gain looks one decision ahead, and may never choose a point that is worth
    knowing for long. Every fourth question is therefore about the plausible point of the largest
    deviation. The plan stops when one plausible point is left, or at the end of its budget.

    Parameters
    ----------
    budget : Budget or int
        An int is the number of questions in every step.

    Examples
    --------
    >>> from tvbandits import Candidates, experts, policies
    >>> from tvbandits.queries import PlausibleMaximizers
    >>> plan, sites = PlausibleMaximizers(2), Candidates([[0.0], [1.0], [2.0]])
    >>> station = experts.CallableExpert(lambda X, t: X[:, 0], 0.01)
    >>> bandit = policies.frugal_gp_ucb(sites, noise_variance=0.01, expert=station, plan=plan)
    >>> print(bandit.tell([[1.0]], [0.5], 1).queries.total_asked)
    2
    """

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Return the rows of the points to ask about, without a random draw."""
        k = min(pool.allowance(self.budget), len(pool))
        rows: list[int] = []
        posterior = pool.require_posterior() if k else None
        while posterior is not None and len(rows) < k:
            plausible = np.flatnonzero(posterior.upper >= posterior.lower.max())
            # The width of a theorem would rank the points of the largest deviation first, whatever their
            # mean is.
            ranked = _by_promise(posterior, plausible)
            candidates = [
                int(i) for i in ranked[: CONFIG.question_candidates + len(rows)] if i not in rows
            ]
            if len(plausible) == 1 or not candidates:
                break
            others = plausible[~np.isin(plausible, rows)]
            number = pool.asked + len(rows) + 1
            rows.append(_most_helpful(posterior, number, others, candidates, ranked))
            if len(rows) < k:
                posterior = posterior.condition_on(rows[-1])
        return np.array(rows, dtype=np.int64)


@dataclass(frozen=True)
class RandomPoints(_WithBudget):
    """A plan that draws points at random, each subset with the same probability.

    Parameters
    ----------
    budget : Budget or int
        An int is the number of questions in every step.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.queries import RandomPoints, Pool
    >>> pool = Pool(np.arange(5.0)[:, None], rewards=20, covariance=lambda: np.eye(5))
    >>> len(RandomPoints(3).choose(pool, np.random.default_rng(0)))
    3
    """

    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Return rows at random, ascending."""
        k = min(pool.allowance(self.budget), len(pool))
        return np.sort(rng.choice(len(pool), k, replace=False))


@dataclass(frozen=True)
class NextDecision(_WithBudget):
    """A plan that asks about the points whose answers improve the next decision most.

    Every fourth question is about the point of the largest deviation. Unlike `PlausibleMaximizers` the
    plan always uses its whole budget, and may ask about points that are not plausible.

    Parameters
    ----------
    budget : Budget or int
        An int is the number of questions in every step.

    Examples
    --------
    >>> from tvbandits import Candidates, experts, policies
    >>> from tvbandits.queries import NextDecision
    >>> plan, sites = NextDecision(2), Candidates([[0.0], [1.0], [2.0]])
    >>> station = experts.CallableExpert(lambda X, t: X[:, 0], 0.01)
    >>> bandit = policies.frugal_gp_ucb(sites, noise_variance=0.01, expert=station, plan=plan)
    >>> print(bandit.tell([[1.0]], [0.5], 1).queries.total_asked)
    2
    """

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        """Return the rows of the points to ask about, without a random draw."""
        count = pool.allowance(self.budget)
        if count >= len(pool) or count == 0:
            return np.arange(len(pool) if count else 0)
        return choose_questions(pool.require_posterior(), count, pool.asked)


def choose_questions(posterior: JointPosterior, count: int, asked: int = 0) -> Index:
    """Return the rows of `count` distinct points whose answers improve the next decision most.

    Each point is chosen given that the answers at the points before it equal their means. The knowledge
    gradient of all points together, from answers a deviation above and below their means, had 0.99 +-
    0.01 of the regret on 14 networks (78 runs).

    Parameters
    ----------
    posterior : JointPosterior
        At the time of the next decision.
    count : int
    asked : int
        Number of questions so far, which decides which of the new ones are about the largest deviation.
    """
    if count >= len(posterior):
        return np.arange(len(posterior))
    free = np.ones(len(posterior), dtype=bool)
    rows: list[int] = []
    while len(rows) < count:
        ranked = _by_promise(posterior, np.arange(len(free)))
        candidates, number = (
            ranked[free[ranked]][: CONFIG.question_candidates],
            asked + len(rows) + 1,
        )
        row = _most_helpful(posterior, number, np.flatnonzero(free), candidates, ranked)
        rows.append(row)
        free[row] = False
        if len(rows) < count:
            posterior = posterior.condition_on(row)
    return np.array(rows, dtype=np.int64)


def _most_helpful(
    posterior: JointPosterior,
    number: int,
    others: Index,
    candidates: Sequence[int] | Index,
    ranked: Index,
) -> int:
    """Return the row for a question of this number.

    It is the candidate of the largest gain, and of the highest rank if no answer changes the decision.
    Every fourth time it is the one of `others`, the rows not yet chosen, with the largest deviation.
    """
    if number % CONFIG.discover_every == 0:
        return int(others[first_argmax(posterior.deviation[others])])
    gains = posterior.knowledge_gradient(candidates, ranked[: CONFIG.decision_candidates])
    return int(candidates[first_argmax(gains)])


def _by_promise(posterior: JointPosterior, rows: Index) -> Index:
    """Return rows in descending order of their upper bounds; rows that tie keep their order."""
    promise = posterior.mean + CONFIG.promise * posterior.deviation
    resolution = max(
        1e-9 * float(posterior.deviation.max()), 1e-300
    )  # smaller gaps are rounding errors
    return rows[np.argsort(np.rint((promise.max() - promise[rows]) / resolution), kind="stable")]


# --- configuration
# ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryConfig:
    """How a bandit asks an expert.

    Parameters
    ----------
    plan : QueryPlan
        The rule for the points to ask about.
    expert : Expert, optional
        Without one, you ask yourself: `Bandit.questions` returns the points, and `Bandit.answer` takes
        the answers, which may come later, in parts, or never.
    pool : "played" or "domain"
        The plan chooses from the points played so far, or from the whole domain. Of a domain that is not
        finite these are random points, drawn anew for each decision, and those played.
    reuse_answers : bool
        Whether answers are kept and age like rewards; otherwise new answers replace those before.
    most_answers : int, optional
        Largest number of answers that are kept, which are the latest.
    pool_size : int, optional
        The plan chooses from all points played as long as these are no more. A further point then joins
        the pool only if its reward does not follow from those of the pool, so that the cost of a step
        stops growing.
    informed_width : float, optional
        Largest width of a decision after an answer: the answers explore, and the point that is played is
        plausible under the full width, too.

    Raises
    ------
    ValueError
        If a part has no such method, or a number is out of range.
    """

    plan: QueryPlan
    expert: Expert | None = None
    pool: Literal["played", "domain"] = "played"
    reuse_answers: bool = False
    most_answers: int | None = None
    pool_size: int | None = None
    informed_width: float | None = None

    def __post_init__(self) -> None:
        check_part("plan", self.plan, "a query plan such as KDPP()", "choose")
        inherits = hasattr(self.plan, "looks_at_posterior")
        require(inherits, "plan", "of a class that inherits from QueryPlan", self.plan)
        if self.expert is not None:
            check_part("expert", self.expert, "an object with a method query(X, t)", "query")
        check_choice("pool", self.pool, ("played", "domain"))
        check_optional(nonnegative_number, "informed_width", self.informed_width)
        as_bool("reuse_answers", self.reuse_answers)
        for name in ("pool_size", "most_answers"):
            check_optional(whole_number, name, getattr(self, name))


PlanName = Literal["next", "plausible", "kdpp", "random"]

PLANS: dict[str, Callable[[Budget], QueryPlan]] = {
    "next": NextDecision,
    "plausible": PlausibleMaximizers,
    "kdpp": KDPP,
    "random": RandomPoints,
}
"""Query plans by name: functions of a budget that return the plan."""
