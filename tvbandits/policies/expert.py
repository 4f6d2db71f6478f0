"""Policies that ask an expert: SparQ-GP-UCB, and one that asks little.

References
----------
E. Mauduit, E. Berthier and A. Simonetto. Time-varying Gaussian process bandit optimization with
    experts: no-regret in logarithmically-many side queries. arXiv 2510.21274, 2025. ([S]; SparQ-GP-UCB)

`frugal_gp_ucb` is this package's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import is_finite_number, noise_variance_number, not_negative
from tvbandits.core.coercion import check_part, choice, function
from tvbandits.core.protocols import Domain, Expert
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import LogThreshold
from tvbandits.gp.ensemble.rule import ModelEnsemble
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.policies.learning import learned_parts, seasonal_ensemble
from tvbandits.policies.setting import (
    Common,
    Learn,
    Mean,
    PlotStyle,
    Policy,
    Posterior,
    Season,
    Seed,
    Width,
    as_posterior,
    assembled,
    described,
    learning_rule,
)
from tvbandits.queries.asking import Asking
from tvbandits.queries.budgets import Budget, OnAverage
from tvbandits.queries.plans import (
    KDPP,
    LogSchedule,
    NextDecision,
    PlausibleMaximisers,
    QueryPlan,
    RandomPoints,
)

Consult = Literal["after tell", "before ask"]

INFORMED_WIDTH = 1.0
"""Width of a frugal decision after an answered question, at most: what is played then is plausible under
any larger width, and costs at most 2 beta deviations while the bounds hold."""

INFORMED_WIDTH_OF_AN_ENSEMBLE = 0.0
"""With an ensemble of models the best mean is played then: its questions look for what is new, too."""


@described
def sparq_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    expert: Expert | None,
    queries: QueryPlan | float = 6.0,
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
    seed: Seed = 0,
) -> Bandit:
    """SparQ-GP-UCB (Mauduit 2025), [S] Algorithm 1.

    Parameters
    ----------
    expert : Expert or None
        Who is asked; None: you carry the questions (`Bandit.questions`, `Bandit.answer`).
    queries : float or QueryPlan
        c: an approximate k-DPP of ceil(c log t) of the points played; 6 is the paper's. Or another plan.
    sweeps : float, optional
        Length of the chain that draws the k-DPP, in sweeps; only where `queries` is a number.
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
        schedule = LogSchedule(float(queries))  # type: ignore[arg-type]
        queries = KDPP(schedule) if sweeps is None else KDPP(schedule, sweeps)
    elif sweeps is not None:
        raise ValueError(f"sweeps is for a number of queries, got {sweeps} and queries={queries!r}")
    check_part("queries", queries, "a number, or a query plan such as KDPP()", "choose")
    # [S] Algorithm 1, line 5: X^E out of X_t, drawn by Algorithms 2 and 3 (`queries/k_dpp.py`).
    plan: QueryPlan = queries  # type: ignore[assignment]  # a number has become a plan
    noise_variance_number("noise_variance", noise_variance)
    if threshold is not None:
        function("threshold", threshold, "a function of the number of rewards, or None")
    # Line 4: what has aged beyond sigma^2 log t is discarded.
    discarded = aging.DiscardAbove(threshold or LogThreshold(noise_variance))
    return assembled(
        domain,
        kernel,
        noise_variance,
        Common(confidence, posterior, mean, seed, minimise),
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


SPARQ_GP_UCB = Policy(
    "sparq-gp-ucb",
    sparq_gp_ucb,
    "asks an expert about queries * log t points",
    paper="Mauduit 2025",
    look=PlotStyle("#000000", "-", 3.0, "X"),
    first_comparison=8,
)


PLANS: dict[str, Callable[[Budget], QueryPlan]] = {
    "next": NextDecision,
    "plausible": PlausibleMaximisers,
    "kdpp": lambda budget: KDPP(budget=budget),
    "random": RandomPoints,
}
"""Query plans by name, each made from a budget."""

PlanName = Literal["next", "plausible", "kdpp", "random"]


@described
def frugal_gp_ucb(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float,
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
    seed: Seed = 0,
) -> Bandit:
    """Learn the drift, keep every answer, and ask about what could change the next decision.

    On candidates the model is an ensemble of space-time models, weighted by how well they predict
    (`docs/which-policy.md` says which models a domain gets); a question goes where an answer helps the
    next decision most, every fourth where least is known, and after an answer the best mean is played.

    Elsewhere, and where a kernel, `learn` or `mean` is given, the kernel is a sum of a shared level, a
    static field and two drifting fields whose amplitudes and scales are learned by log evidence. The
    expert is asked about plausible maximisers anywhere in the domain. As the questions explore, a
    decision after an answer takes a width of at most `INFORMED_WIDTH`. Either way answers are
    observations like any other, and age by what was learned.

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
        Time after which a part of the reward comes again: 24 for a day where times count hours. Models
        with a season stand beside models without then. "find": on up to 64 candidates a
        period is looked for in what is read, for 1,024 steps. None: there is no
        season (`season=none` on the command line, `season = "none"` in campaign.toml).

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
    common = Common(confidence, posterior, mean, seed, minimise)
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


FRUGAL_GP_UCB = Policy(
    "frugal-gp-ucb",
    frugal_gp_ucb,
    "learns the drift, and asks budget questions a step or fewer",
    paper="this package",
    look=PlotStyle("#a11d1d", (0, (10, 1)), 2.8, "$\\spadesuit$"),
    recommended={"kernel": lambda *_: None},  # it is told nothing about the problem
)


POLICIES = (SPARQ_GP_UCB, FRUGAL_GP_UCB)
