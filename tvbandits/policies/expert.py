"""Policies that ask an expert: SparQ-GP-UCB, one that asks little, and one that asks nobody.

The last two learn how their reward changes: by an ensemble of models, or by a kernel that is fitted.

References
----------
E. Mauduit, E. Berthier and A. Simonetto. Time-varying Gaussian process bandit optimization with
    experts: no-regret in logarithmically-many side queries. arXiv 2510.21274, 2025. ([S]; SparQ-GP-UCB)

`adaptive_gp_ucb` and `frugal_gp_ucb` are this package's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeGuard

from tvbandits.acquisition.batches import Batching
from tvbandits.acquisition.confidence import DEFAULT_WIDTH, Fixed, PlaysAtATime
from tvbandits.acquisition.rules import LastingBound, RandomFirst, SpreadFirst, ThompsonSampling
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import is_finite_number, not_negative, whole_number
from tvbandits.core.candidates import Candidates
from tvbandits.core.coercion import check_part, choice, function, shown
from tvbandits.core.context import measured
from tvbandits.core.protocols import Domain, Expert
from tvbandits.core.space import Arms, Space, space_of
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import LogThreshold, Window
from tvbandits.gp.ensemble.arms import IndependentArms
from tvbandits.gp.ensemble.models import SMALL_NETWORK
from tvbandits.gp.ensemble.rule import ModelEnsemble
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.additive import (
    Bounded,
    anchors_of,
    box_kernel,
    joint_box_kernel,
    space_kernels,
    structured_kernel,
)
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import terms_of
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.state_space import StateSpace
from tvbandits.policies.setting import (
    Common,
    Learn,
    Mean,
    PlotStyle,
    Posterior,
    Season,
    Seed,
    Width,
    as_posterior,
    as_rule,
    assembled,
    learning_rule,
    listed,
    width_of,
)
from tvbandits.queries.plans import (
    KDPP,
    Asking,
    Budget,
    LogSchedule,
    NextDecision,
    OnAverage,
    PlausibleMaximisers,
    QueryPlan,
    RandomPoints,
)

# Up to so many candidates an ensemble is the default: it holds a hundred features of each.
MOST_CANDIDATES = 20_000

# How far draws on arms deviate, in lasting deviations; chosen, among 0.5, 0.7 and 1, on arms that
# keep their rate, walk, or switch.
ARMS_WIDTH = 0.5

# Spread of the prior on the logarithm of a length scale, for a bandit that has no expert. It learns
# from the points that it plays alone; under a narrower prior it may never find out that one is
# short.
LENGTH_SPREAD_WITHOUT_EXPERT = 2.0


def learned_parts(
    domain: Domain, kernel: Any | None, learn: Learn | None, common: Common, *, asks: bool
) -> tuple[Any, Common, dict[str, Any]]:
    """Which models a domain gets: kernel, options and further parts of a bandit that learns by itself.

    The one place that decides it, for `adaptive_gp_ucb` and, where it `asks`, for `frugal_gp_ucb`;
    `docs/which-policy.md` has its table.
    """
    if not asks and kernel is None and common.posterior is None and has_several(domain):
        width = common.confidence
        width = PlaysAtATime(box_width(domain)) if width is None else width
        rule = as_rule(learn, CONTEXT_RULE if measured(domain) else BOX_RULE)
        rule = replace(rule, in_steps=True, rivals=(*rule.rivals, joint_box_kernel(domain)))
        first = RandomFirst(FIRST_PLAYS * chosen_coordinates(domain))
        parts = {"learn": rule, "aging": Window(last=BOX_REWARDS), "acquisition": first}
        return box_kernel(domain), replace(common, confidence=width, posterior="exact"), parts
    if not asks and isinstance(domain, Arms) and _gives_no_fit(kernel, learn, common):
        width = ARMS_WIDTH if common.confidence is None else common.confidence
        common = replace(common, confidence=width, posterior=IndependentArms())
        parts = {"acquisition": ThompsonSampling(lasting=True), "batching": Batching(largest=1)}
        return domain.space.kernel(), common, parts
    parts = {}
    if _takes_an_ensemble(domain, kernel, learn, common):
        common = replace(common, posterior=ModelEnsemble(both=True))
        if not asks:
            network = len(domain) <= SMALL_NETWORK  # type: ignore[arg-type]
            parts = {"acquisition": LastingBound() if network else SpreadFirst()}
    every = Every() if asks else Every(space_spread=LENGTH_SPREAD_WITHOUT_EXPERT)
    start, every, common = _fitted(domain, kernel, as_rule(learn, every), common)
    if not isinstance(common.posterior, ModelEnsemble):
        return start, common, {"learn": every}
    if learn:
        raise ValueError(
            f"an ensemble of models learns by itself: learn must be None, got {shown(learn)}"
        )
    return start, common, parts


def _takes_an_ensemble(
    domain: Domain, kernel: Any | None, learn: Learn | None, common: Common
) -> bool:
    """Whether candidates are plain and not too many, and nothing is given that only a fit has."""
    plain = isinstance(domain, Candidates) and not domain.context and space_of(domain) is None
    small = plain and len(domain) <= MOST_CANDIDATES  # type: ignore[arg-type]
    return small and _gives_no_fit(kernel, learn, common)


def _gives_no_fit(kernel: Any | None, learn: Learn | None, common: Common) -> bool:
    """Whether nothing is given that only a fit has.

    That is a kernel to start from, when to learn, a prior mean, a posterior, or a theorem's width.
    """
    given = (kernel, learn, common.posterior)
    if any(each is not None for each in given) or common.mean != "online":
        return False
    return isinstance(width_of(common), Fixed)


def seasonal_ensemble(posterior: Any, season: Season) -> Any:
    """An ensemble with models of a season, or without; other posteriors have none to be found."""
    if isinstance(season, str) and season == "find":
        return posterior
    if season is None:
        return (
            replace(posterior, season=None) if isinstance(posterior, ModelEnsemble) else posterior
        )
    if not isinstance(posterior, ModelEnsemble):
        raise ValueError(
            f"season={shown(season)} needs an ensemble of models, which is played on candidates where "
            "no kernel, learn, mean or other posterior is given"
        )
    return replace(posterior, season=season)


def _fitted(
    domain: Domain, kernel: Any | None, every: Every, common: Common
) -> tuple[Any, Every, Common]:
    """With a kernel to start from, its rivals, and a posterior that suits them."""
    own = kernel is not None and is_space_time(kernel)
    if own:
        kernels: tuple[Any, ...] = (kernel,)
    else:
        smooth, rough = (kernel, None) if kernel else space_kernels(domain)
        kernels = tuple(
            structured_kernel(smooth, other) for other in (smooth, rough) if other is not None
        )
    posterior = common.posterior
    if posterior is None:
        posterior = StateSpace(None if isinstance(domain, Candidates) else anchors_of(domain))
    posterior = as_posterior(posterior)
    if terms_of(kernels[0]) is None and isinstance(posterior, StateSpace):
        raise ValueError(f"the kernel must be a sum of space-time terms, got {kernels[0]}")
    rivals = (*every.rivals, *kernels[1:])
    every = replace(every, rivals=rivals, in_steps=not own)
    return kernels[0], every, replace(common, posterior=posterior)


# --- on boxes -----------------------------------------------------------------------------------


# When a kernel is learned on a box: more often than on candidates, since there is more to learn.
BOX_RULE = Every(
    30,
    (4, 7, 10, 13, 16, 20, 24, 28, 32, 36, 40, 45, 50, 55, 70, 80, 100, 110, 130, 140, 160),
    observations=160,
    recent=0.5,
    in_steps=True,
    remembered=200,
    diverse=True,
)

# Rewards that the exact posterior on a box looks at, the latest: what a step may cost is bounded.
BOX_REWARDS = 400

# Where a context is measured: its values come back, and what is old tells about them. Chosen on
# four made processes of two to four numbers.
CONTEXT_RULE = replace(BOX_RULE, observations=300, remembered=BOX_REWARDS, space_spread=1.0)

# Width of a decision on a box of d coordinates, times d: the places to explore multiply with every
# coordinate and the plays do not, and 2 in three coordinates goes on exploring corners. Chosen,
# among constants over sqrt d and over d, on Levy, Styblinski-Tang, Rastrigin and random dips.
BOX_WIDTH = 2.0 * math.sqrt(2.0)

# Plays at random to begin with, for each coordinate that is chosen.
FIRST_PLAYS = 2


def has_several(domain: Domain) -> TypeGuard[Bounded]:
    """Whether a domain is a box of several coordinates, for which 96 features are too few.

    An interval keeps the sum of fields, which finds narrow peaks that move.
    """
    return isinstance(domain, Bounded) and domain.dimension > 1


def box_width(box: Bounded) -> float:
    """The width of a decision on a box, of one play at a time: a context is not explored."""
    return min(BOX_WIDTH / chosen_coordinates(box), DEFAULT_WIDTH)


def chosen_coordinates(box: Bounded) -> int:
    """How many coordinates are chosen: a category counts as one, and a context is not chosen."""
    chosen = box.chosen
    return len(chosen.names) if isinstance(chosen, Space) else chosen.dimension


# --- asking an expert, and none -----------------------------------------------------------------


Consult = Literal["after tell", "before ask"]

# Width of a frugal decision after an answered question, at most: what is played then is plausible
# under any larger width, and costs at most 2 beta deviations while the bounds hold.
INFORMED_WIDTH = 1.0

# With an ensemble of models the best mean is played then: its questions look for what is new, too.
INFORMED_WIDTH_OF_AN_ENSEMBLE = 0.0


@listed(
    "asks an expert about queries * log t points",
    paper="Mauduit 2025",
    look=PlotStyle("#000000", "-", 3.0, "X"),
    first_comparison=8,
)
def sparq_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    expert: Expert | None,
    queries: QueryPlan | float = 6.0,
    ask_every: int = 1,
    sweeps: float | None = None,
    rate: float | None = None,
    threshold: Callable[[int], float] | None = None,
    pool_size: int | None = None,
    learn: Learn | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    about: Literal["played", "domain"] = "played",
    informed_width: float | None = None,
    consult: Consult = "after tell",
    minimise: bool = False,
    robust: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """SparQ-GP-UCB (Mauduit 2025), [S] Algorithm 1.

    Parameters
    ----------
    expert : Expert or None
        Who is asked; None: you carry the questions (`Bandit.questions`, `Bandit.answer`).
    queries : float or QueryPlan
        c: an approximate k-DPP of ceil(c log t) of the points played; 6 is the paper's. Or another plan.
    ask_every : int
        One burst of questions in so many decisions, and none in between: ours, to see what they are
        worth. The paper's is 1. Only where `queries` is a number, as is `sweeps`.
    sweeps : float, optional
        Length of the chain that draws the k-DPP, in sweeps.
    rate : float, optional
        Of the linear injection s^2 (1 + (rate age)^2); 1, as in [S] eq. 15, unless it is learned.
    threshold : callable, optional
        g(t): observations above it are discarded; noise_variance log t by default.
    pool_size : int, optional
        Size up to which all points played may be asked about; beyond it a point joins only if those in
        the pool do not determine its value. All by default, and 256 with a sparse posterior.
    about : "played" or "domain"
        What may be asked about: the points played so far, as in the paper, or all of the domain.
    informed_width : float, optional
        The width is at most this in a decision before which a question was answered.
    learn : Every, int or bool, optional
        Learn the rate while the bandit plays, and when.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> from tvbandits.experts import CallableExpert
    >>> sites = Candidates(np.arange(9.0)[:, None])
    >>> station = CallableExpert(lambda X, t: -np.abs(X[:, 0] - 6.0), 0.01)
    >>> bandit = policies.sparq_gp_ucb(sites, RBF(2.0), 0.01, expert=station)
    >>> for t in range(1, 31):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -np.abs(X[:, 0] - 6.0), t)
    >>> print(bandit.recommend(), info.queries.total_asked > 0)
    [6.] True
    """
    if pool_size is None and isinstance(as_posterior(posterior), Nystrom):
        pool_size = 256
    if is_finite_number(queries):
        not_negative("queries", queries)
        whole_number("ask_every", ask_every)
        schedule = LogSchedule(float(queries), ask_every)  # type: ignore[arg-type]
        queries = KDPP(schedule) if sweeps is None else KDPP(schedule, sweeps)
    elif sweeps is not None or ask_every != 1:
        raise ValueError(
            f"sweeps and ask_every are for a number of queries, got {sweeps}, {ask_every} and "
            f"queries={queries!r}"
        )
    check_part("queries", queries, "a number, or a query plan such as KDPP()", "choose")
    # [S] Algorithm 1, line 5: X^E out of X_t, drawn by Algorithms 2 and 3 (`queries/k_dpp.py`).
    plan: QueryPlan = queries  # type: ignore[assignment]  # a number has become a plan
    if threshold is not None:
        function("threshold", threshold, "a function of the number of rewards, or None")
    # Line 4: what has aged beyond sigma^2 log t is discarded.
    discarded = aging.DiscardAbove(threshold or LogThreshold(noise_variance))
    return assembled(
        domain,
        kernel,
        noise_variance,
        Common(confidence, posterior, mean, seed, minimise, robust),
        learn=None if learn is None or learn is False else learning_rule("rate", rate, learn),
        aging=aging.compose(aging.Linear(1.0 if rate is None else rate), discarded),
        asking=Asking(
            plan, expert, about=about, pool_size=pool_size, informed_width=informed_width
        ),
        # Lines 3 and 6: y_t is told, and then the expert is asked about f_t.
        consult=consult,
        # Lines 7 and 8: from both the posterior at t + 1, and x_{t+1} where its bound is largest.
        lead=1.0,
    )


# Query plans by name, each made from a budget.
PLANS: dict[str, Callable[[Budget], QueryPlan]] = {
    "next": NextDecision,
    "plausible": PlausibleMaximisers,
    "kdpp": lambda budget: KDPP(budget=budget),
    "random": RandomPoints,
}

PlanName = Literal["next", "plausible", "kdpp", "random"]


@listed(
    "learns the drift, and asks budget questions a step or fewer",
    paper="this package",
    look=PlotStyle("#a11d1d", (0, (10, 1)), 2.8, "$\\spadesuit$"),
    recommended={"kernel": lambda *_: None},  # it is told nothing about the problem
)
def frugal_gp_ucb(
    domain: Domain,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    *,
    expert: Expert | None,
    budget: float = 3.0,
    plan: PlanName | None = None,
    queries: QueryPlan | None = None,
    learn: Learn | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior | None = None,
    season: Season = "find",
    mean: Mean = "online",
    consult: Consult = "after tell",
    minimise: bool = False,
    robust: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """Learn the drift, keep every answer, and ask about what could change the next decision.

    On candidates the model is an ensemble of space-time models, weighted by how well they predict
    (`docs/which-policy.md` says which models a domain gets). A question goes where an answer helps the
    next decision most, and every fourth where least is known. After an answer it plays the best mean.

    Elsewhere, and where you give a kernel, `learn` or `mean`, the kernel is a sum of a shared level, a
    static field and two drifting fields, whose amplitudes and scales it learns by log evidence. It asks
    about plausible maximisers anywhere in the domain. As the questions explore, a decision after an
    answer takes a width of at most `INFORMED_WIDTH`. Either way answers are observations like any
    other, and age as it has learned.

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem: a smooth and a
        rough one compete.
    expert : Expert or None
        Who is asked; None: you carry the questions (`Bandit.questions`, `Bandit.answer`).
    budget : float
        Answers a step, on average; what a step saves is spent later.
    plan : str, optional
        How the questions are chosen, a name in `PLANS`: "next" with an ensemble, else "plausible".
    queries : QueryPlan, optional
        Instead of the plan of that name and budget.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble", optional
        An ensemble or a Kalman filter by default; `docs/which-policy.md` has the table.
    season : float, "find" or None
        Time after which a part of the reward returns: 24 for a day where times count hours. The ensemble
        then also holds models with that season. "find": on up to 64 candidates look for a period in the
        readings, for 1,024 steps. None: no season (`season=none` on the command line, `season = "none"`
        in campaign.toml).

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits import Candidates, policies
    >>> from tvbandits.experts import CallableExpert
    >>> sites = Candidates(np.arange(9.0)[:, None])
    >>> station = CallableExpert(lambda X, t: -np.abs(X[:, 0] - 6.0), 0.01)
    >>> bandit = policies.frugal_gp_ucb(sites, None, 0.01, expert=station, budget=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -np.abs(X[:, 0] - 6.0), t)
    >>> print(bandit.recommend(), info.queries.total_asked)
    [6.] 20
    """
    not_negative("budget", budget)
    if plan is not None:
        choice("plan", plan, PLANS)
    if queries is not None:
        check_part("queries", queries, "a query plan such as KDPP(), or None", "choose")
    common = Common(confidence, posterior, mean, seed, minimise, robust)
    start, common, parts = learned_parts(domain, kernel, learn, common, asks=True)
    with_ensemble = isinstance(common.posterior, ModelEnsemble)
    common = replace(common, posterior=seasonal_ensemble(common.posterior, season))
    if plan is None:
        plan = "next" if with_ensemble else "plausible"
    return assembled(
        domain,
        start,
        noise_variance,
        common,
        asking=Asking(
            PLANS[plan](OnAverage(budget)) if queries is None else queries,
            expert,
            about="domain",
            reuse_answers=True,
            informed_width=INFORMED_WIDTH_OF_AN_ENSEMBLE if with_ensemble else INFORMED_WIDTH,
        ),
        consult=consult,
        **parts,
    )


@listed(
    "learns by itself how the reward drifts",
    paper="this package",
    look=PlotStyle("#4d7c0f", (0, (6, 1, 1, 1, 1, 1, 1, 1)), 2.4, "$\\infty$"),
    recommended={"kernel": lambda *_: None},  # it is told nothing about the problem
)
def adaptive_gp_ucb(
    domain: Domain,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    *,
    learn: Learn | None = None,
    confidence: Width | None = None,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimise: bool = False,
    robust: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """Learn by itself how the reward drifts: an ensemble of models, or a kernel that is fitted.

    `docs/which-policy.md` says which models a domain gets.

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem.
    learn : Every, int or bool, optional
        When to fit the numbers of `structured_kernel`, or on a box of `box_kernel` and
        `joint_box_kernel` (in `kernels.additive`), by log evidence.
    confidence : Confidence, float or str, optional
        2; on a box of d > 1 coordinates where kernel and posterior are not given, 2 sqrt(2 n) / d for a
        mean of n rewards at a time, and 2 at most.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble", optional
        By default `ModelEnsemble(both=True)` on up to 20,000 candidates, unless you give kernel, learn
        or mean; on up to 64 its width counts the lasting deviation (`LastingBound`), on more its first
        plays go where a reward tells most (`SpreadFirst`). Elsewhere a Kalman filter, `StateSpace()`,
        and on a box `Exact`. `docs/ensemble.md` compares them.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.adaptive_gp_ucb(sites, None, 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    common = Common(confidence, posterior, mean, seed, minimise, robust)
    start, common, parts = learned_parts(domain, kernel, learn, common, asks=False)
    return assembled(domain, start, noise_variance, common, **parts)
