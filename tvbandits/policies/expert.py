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
from typing import Any, Literal, TypeAlias

from tvbandits.acquisition.batches import Batching
from tvbandits.acquisition.confidence import Fixed, PlaysAtATime, as_confidence
from tvbandits.acquisition.rules import LastingBound, RandomFirst, SpreadFirst, ThompsonSampling
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.context import measured
from tvbandits.domains.domain import Domain
from tvbandits.domains.space import Arms, Space, space_of
from tvbandits.experts.protocol import Expert
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import LogThreshold, Window
from tvbandits.gp.ensemble.arms import IndependentArms
from tvbandits.gp.ensemble.models import CONFIG as MODEL_CONFIG
from tvbandits.gp.ensemble.posterior import ModelEnsemble
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
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.gp.state_space import StateSpace
from tvbandits.policies.common import (
    DEFAULT_WIDTH,
    Learn,
    Mean,
    Posterior,
    Seed,
    Width,
    as_posterior,
    as_rule,
    bandit_of,
    check_domain,
    learning_rule,
    prior_kernel,
)
from tvbandits.queries import plans
from tvbandits.validation import (
    check_part,
    choice,
    finite_number,
    is_finite_number,
    noise_variance_number,
    optional,
    require,
    shown,
    whole_number,
)

Season: TypeAlias = float | Literal["find"] | None

# Up to so many candidates an ensemble is the default: it holds a hundred features of each.
MOST_CANDIDATES = 20_000

# How far draws on arms deviate, in lasting deviations; chosen, among 0.5, 0.7 and 1, on arms that
# keep their rate, walk, or switch.
ARMS_WIDTH = 0.5

# Spread of the prior on the logarithm of a length scale, for a bandit that has no expert. It learns
# from the points that it plays alone; under a narrower prior it may never find out that one is
# short.
LENGTH_SPREAD_WITHOUT_EXPERT = 2.0


def model_parts(
    domain: Domain,
    kernel: Any | None,
    learn: Learn | None,
    confidence: Width | None,
    posterior: Posterior | None,
    mean: Mean,
    *,
    asks: bool,
) -> tuple[Any, dict[str, Any]]:
    """Which models a domain gets: kernel, and other parts of a bandit that learns by itself.

    The one place that decides it, for `adaptive_gp_ucb` and, where it `asks`, for `frugal_gp_ucb`;
    `docs/which-policy.md` has its table. What is None is what suits.
    """
    check_domain(domain)
    if kernel is not None:
        kernel = prior_kernel(domain, kernel)
    parts: dict[str, Any] = {"mean": mean}
    free = kernel is None and posterior is None
    # A box of several coordinates: 96 features are too few. An interval keeps the sum of fields, which
    # finds narrow peaks that move.
    if not asks and free and isinstance(domain, Bounded) and domain.dimension > 1:
        rule = as_rule(learn, CONTEXT_RULE if measured(domain) else BOX_RULE)
        return box_kernel(domain), parts | {
            "learn": replace(rule, in_steps=True, rivals=(*rule.rivals, joint_box_kernel(domain))),
            "aging": Window(last=BOX_REWARDS),
            "acquisition": RandomFirst(FIRST_PLAYS * chosen_coordinates(domain)),
            "confidence": PlaysAtATime(box_width(domain)) if confidence is None else confidence,
        }
    # A kernel to start from, when to learn, a prior mean and a theorem's width: only a fit has these.
    constant = confidence is None or isinstance(as_confidence(confidence), Fixed)
    unfitted = free and learn is None and mean == "online" and constant
    if not asks and unfitted and isinstance(domain, Arms):
        return domain.space.kernel(), {
            "posterior": IndependentArms(),
            "acquisition": ThompsonSampling(lasting=True),
            "batching": Batching(largest=1),
            "confidence": ARMS_WIDTH if confidence is None else confidence,
        }
    parts["confidence"] = DEFAULT_WIDTH if confidence is None else confidence
    plain = isinstance(domain, Candidates) and not domain.context and space_of(domain) is None
    if unfitted and plain and len(domain) <= MOST_CANDIDATES:  # type: ignore[arg-type]
        posterior = ModelEnsemble(both=True)
        if not asks:
            network = len(domain) <= MODEL_CONFIG.largest_network  # type: ignore[arg-type]
            parts["acquisition"] = LastingBound() if network else SpreadFirst()
    every = Every() if asks else Every(space_spread=LENGTH_SPREAD_WITHOUT_EXPERT)
    start, every, beliefs = _kernel_to_fit(domain, kernel, as_rule(learn, every), posterior)
    if not beliefs.self_learning:
        return start, parts | {"posterior": beliefs, "learn": every}
    require(not learn, "an ensemble learns by itself: learn", "None", learn)
    return start, parts | {"posterior": beliefs}


def seasonal_ensemble(posterior: Any, season: Season) -> Any:
    """An ensemble with models of a season, or without; other posteriors have none to be found."""
    if isinstance(season, str) and season == "find":
        return posterior
    if hasattr(posterior, "season"):
        return replace(posterior, season=season)
    if season is None:
        return posterior
    raise ValueError(
        f"season={shown(season)} needs an ensemble of models, which is played on candidates where "
        "no kernel, learn, mean or other posterior is given"
    )


def _kernel_to_fit(
    domain: Domain, kernel: Any | None, every: Every, posterior: Posterior | None
) -> tuple[Any, Every, PosteriorRule]:
    """With a kernel to start from, its rivals, and a posterior that suits them."""
    own = kernel is not None and is_space_time(kernel)
    spaces = space_kernels(domain) if kernel is None else (kernel,)
    first, *others = spaces if own else [structured_kernel(spaces[0], each) for each in spaces]
    if posterior is None:
        posterior = StateSpace(None if isinstance(domain, Candidates) else anchors_of(domain))
    learned = replace(every, rivals=(*every.rivals, *others), in_steps=not own)
    return first, learned, as_posterior(posterior)


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


def sparq_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    expert: Expert | None,
    queries: plans.QueryPlan | float = 6.0,
    ask_every: int = 1,
    rate: float | None = None,
    learn: Learn | None = None,
    about: Literal["played", "domain"] = "played",
    informed_width: float | None = None,
    consult: Consult = "after tell",
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """SparQ-GP-UCB (Mauduit 2025): ask an expert about some of the points played, [S] Algorithm 1.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    expert : Expert or None
        Who is asked; None: you carry the questions (`Bandit.questions`, `Bandit.answer`).
    queries : float or QueryPlan
        c: an approximate k-DPP of ceil(c log t) of the points played; 6 is the paper's. Or another plan:
        `KDPP(LogSchedule(6.0), sampler="exact")` draws that set exactly.
    ask_every : int
        One burst of questions in so many decisions, and none in between: ours, to see what they are
        worth. The paper's is 1. Only where `queries` is a number.
    rate : float, optional
        Of the linear injection s^2 (1 + (rate age)^2); 1, as in [S] eq. 15, unless it is learned.
    learn : Every, int or bool, optional
        Learn the rate while the bandit plays, and when.
    about : "played" or "domain"
        What may be asked about: the points played so far, as in the paper, or all of the domain. With a
        sparse posterior a point joins the first 256 only if they do not determine its value.
    informed_width : float, optional
        The width is at most this in a decision before which a question was answered.
    consult : "after tell" or "before ask"
        When to ask the expert: once you have told a decision's rewards, about their time, or before a
        decision, about its own time.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> from tvbandits.experts import CallableExpert
    >>> sites = Candidates(np.arange(9.0)[:, None])
    >>> station = CallableExpert(lambda X, t: -np.abs(X[:, 0] - 6.0), 0.01)
    >>> bandit = policies.sparq_gp_ucb(sites, kernel=RBF(2.0), noise_variance=0.01, expert=station)
    >>> for t in range(1, 31):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -np.abs(X[:, 0] - 6.0), t)
    >>> print(bandit.recommend(), info.queries.total_asked > 0)
    [6.] True
    """
    kernel = prior_kernel(domain, kernel)
    optional(noise_variance_number, "noise_variance", noise_variance)
    sparse = as_posterior(posterior).on_dictionary(kernel)
    pool = 256 if sparse else None
    if is_finite_number(queries):
        finite_number("queries", queries, low=0.0, high=plans.MOST_QUESTIONS)
        whole_number("ask_every", ask_every)
        queries = plans.KDPP(plans.LogSchedule(float(queries), ask_every))  # type: ignore[arg-type]
    elif ask_every != 1:
        raise ValueError(f"ask_every is for a number of queries, got {ask_every} and {queries=}")
    check_part("queries", queries, "a number, or a query plan such as KDPP()", "choose")
    # [S] Algorithm 1, line 5: X^E out of X_t, drawn by Algorithms 2 and 3 (`queries/k_dpp.py`).
    plan: plans.QueryPlan = queries  # type: ignore[assignment]  # a number has become a plan
    asking = plans.Asking(plan, expert, about=about, pool_size=pool, informed_width=informed_width)
    # Line 4: what has aged beyond sigma^2 log t is discarded.
    discarded = aging.DiscardAbove(LogThreshold(noise_variance))
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        learn=None if learn is None or learn is False else learning_rule("rate", rate, learn),
        aging=aging.compose(aging.Linear(1.0 if rate is None else rate), discarded),
        asking=asking,
        # Lines 3 and 6: y_t is told, and then the expert is asked about f_t.
        consult=consult,
        # Lines 7 and 8: from both the posterior at t + 1, and x_{t+1} where its bound is largest.
        lead=1.0,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


# Query plans by name, each made from a budget.
PLANS: dict[str, Callable[[plans.Budget], plans.QueryPlan]] = {
    "next": plans.NextDecision,
    "plausible": plans.PlausibleMaximizers,
    "kdpp": plans.KDPP,
    "random": plans.RandomPoints,
}

PlanName = Literal["next", "plausible", "kdpp", "random"]


def frugal_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    expert: Expert | None,
    budget: float = 3.0,
    plan: PlanName | plans.QueryPlan | None = None,
    learn: Learn | None = None,
    season: Season = "find",
    consult: Consult = "after tell",
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """Learn the drift, keep every answer, and ask about what could change the next decision.

    On candidates the model is an ensemble of space-time models, weighted by how well they predict
    (`docs/which-policy.md` says which models a domain gets). A question goes where an answer helps the
    next decision most, and every fourth where least is known. After an answer it plays the best mean.

    Elsewhere, and where you give a kernel, `learn` or `mean`, the kernel is a sum of a shared level, a
    static field and two drifting fields, whose amplitudes and scales it learns by log evidence. It asks
    about plausible maximizers anywhere in the domain. As the questions explore, a decision after an
    answer takes a width of at most `INFORMED_WIDTH`. Either way answers are observations like any
    other, and age as it has learned.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem: a smooth and a
        rough one compete.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    expert : Expert or None
        Who is asked; None: you carry the questions (`Bandit.questions`, `Bandit.answer`).
    budget : float
        Answers a step, on average; what a step saves is spent later.
    plan : str or QueryPlan, optional
        How the questions are chosen, a name in `PLANS`: "next" with an ensemble, else "plausible". Or a
        plan of your own, with a budget of its own.
    learn : Every, int or bool, optional
        When to learn how fast the reward changes: a rule, a number of rewards between two fits, or True
        for `Every()`.
    season : float, "find" or None
        Time after which a part of the reward returns: 24 for a day where times count hours. The ensemble
        then also holds models with that season. "find": on up to 64 candidates look for a period in the
        readings, for 1,024 steps. None: no season (`season=none` on the command line, `season = "none"`
        in campaign.toml).
    consult : "after tell" or "before ask"
        When to ask the expert: once you have told a decision's rewards, about their time, or before a
        decision, about its own time.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble", optional
        An ensemble or a Kalman filter by default; `docs/which-policy.md` has the table.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits import Candidates, policies
    >>> from tvbandits.experts import CallableExpert
    >>> sites = Candidates(np.arange(9.0)[:, None])
    >>> station = CallableExpert(lambda X, t: -np.abs(X[:, 0] - 6.0), 0.01)
    >>> bandit = policies.frugal_gp_ucb(sites, noise_variance=0.01, expert=station, budget=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -np.abs(X[:, 0] - 6.0), t)
    >>> print(bandit.recommend(), info.queries.total_asked)
    [6.] 20
    """
    finite_number("budget", budget, low=0.0, high=plans.MOST_QUESTIONS)
    given = kernel, learn, confidence, posterior, mean
    start, parts = model_parts(domain, *given, asks=True)
    with_ensemble = parts["posterior"].self_learning
    parts["posterior"] = seasonal_ensemble(parts["posterior"], season)
    if plan is None:
        plan = "next" if with_ensemble else "plausible"
    if isinstance(plan, str):
        plan = PLANS[choice("plan", plan, PLANS)](plans.OnAverage(budget))
    check_part("plan", plan, "a name, or a query plan such as KDPP()", "choose")
    width = INFORMED_WIDTH_OF_AN_ENSEMBLE if with_ensemble else INFORMED_WIDTH
    asking = plans.Asking(plan, expert, about="domain", reuse_answers=True, informed_width=width)
    parts |= {"asking": asking, "consult": consult, "options": options}
    return bandit_of(domain, start, noise_variance, minimize=minimize, seed=seed, **parts)


def adaptive_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    learn: Learn | None = None,
    confidence: Width | None = None,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """Learn by itself how the reward drifts: an ensemble of models, or a kernel that is fitted.

    `docs/which-policy.md` says which models a domain gets.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
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
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.adaptive_gp_ucb(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    given = kernel, learn, confidence, posterior, mean
    start, parts = model_parts(domain, *given, asks=False)
    parts |= {"options": options, "minimize": minimize}
    return bandit_of(domain, start, noise_variance, seed=seed, **parts)
