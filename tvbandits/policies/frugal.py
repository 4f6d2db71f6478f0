"""A policy that learns how the reward changes and asks an expert few questions; no paper has it."""

from __future__ import annotations

from typing import Any

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import DEFAULT_WIDTH, History, Width, choose_model, make_bandit
from tvbandits.domains.domain import Domain
from tvbandits.experts.protocol import Expert
from tvbandits.queries.plans import (
    MOST_QUESTIONS,
    PLANS,
    OnAverage,
    PlanName,
    QueryConfig,
    QueryPlan,
)
from tvbandits.validation import Seed, check_choice, check_part, finite_number


def frugal_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    expert: Expert | None,
    queries_per_step: float = 3.0,
    plan: PlanName | QueryPlan | None = None,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    history: History | None = None,
    seed: Seed = 0,
) -> Bandit:
    """Learn the drift, keep all answers, and ask about points that could change the next decision.

    On candidates the model is an ensemble of space-time models, weighted by how well they predict
    (`docs/which-policy.md` says which models a domain gets). It asks about the point whose answer helps
    the next decision most, and with every fourth question about the point of the largest deviation.
    After an answer it plays the best mean.

    Elsewhere, and where you give a kernel, or `refit` or `mean` in the options, the kernel is a sum of
    a shared level, a static field and two drifting fields, whose amplitudes and scales it learns by log
    evidence. It asks about plausible maximizers anywhere in the domain. As the questions explore, a
    decision after an answer takes a width of at most 1. In both cases an answer is an observation like
    a reward, and ages at the rate that the model has learned.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Over points, from which the fit starts; or a sum of space-time terms. None suits any problem: a
        smooth and a rough kernel compete.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    expert : Expert or None
        The expert; None: you ask it yourself (`Bandit.questions`, `Bandit.answer`).
    queries_per_step : float
        Questions a step, on average; those that a step does not ask may be asked later.
    plan : str or QueryPlan, optional
        The rule for the points to ask about, by its name in `PLANS`: by default "next" with an ensemble
        and else "plausible". A plan of your own has its own budget.
    beta : Confidence, float, "theory" or another name in `WIDTHS`
        The width of mean + beta deviations; a number is a constant width.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
    history : DataFrame or array of shape (T, A), optional
        Readings before the first decision: a row for each time, a column for each candidate, NaN where
        nothing was read. The index of a frame has the times; the rows of an array end at t = 0. On up
        to 64 candidates that were read together 16 times or more, the bandit learns from it how they
        vary together.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits import Candidates, policies
    >>> from tvbandits.experts import CallableExpert
    >>> sites = Candidates(np.arange(9.0)[:, None])
    >>> station = CallableExpert(lambda X, t: -np.abs(X[:, 0] - 6.0), 0.01)
    >>> bandit = policies.frugal_gp_ucb(sites, noise_variance=0.01, expert=station, queries_per_step=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -np.abs(X[:, 0] - 6.0), t)
    >>> print(bandit.recommend(), info.queries.total_asked)
    [6.] 20
    """
    finite_number("queries_per_step", queries_per_step, low=0.0, high=MOST_QUESTIONS)
    model = choose_model(domain, kernel, beta, options, asks=True)
    is_ensemble = model.posterior.self_learning
    if plan is None:
        plan = "next" if is_ensemble else "plausible"
    if isinstance(plan, str):
        plan = PLANS[check_choice("plan", plan, PLANS)](OnAverage(queries_per_step))
    check_part("plan", plan, "a name, or a query plan such as KDPP()", "choose")
    # The questions explore. After an answer an ensemble therefore plays the best mean, and a fitted
    # kernel a point within one deviation of it, which is plausible under any larger width.
    informed_width = 0.0 if is_ensemble else 1.0
    query_config = QueryConfig(
        plan, expert, pool="domain", reuse_answers=True, informed_width=informed_width
    )
    return make_bandit(
        domain,
        noise_variance=noise_variance,
        query_config=query_config,
        minimize=minimize,
        options=options,
        refits=True,
        history=history,
        seed=seed,
        **model.parts,
    )
