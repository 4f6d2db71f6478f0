"""Sparq, frugal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import not_negative
from tvbandits.core.protocols import Domain, Expert
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import LogThreshold
from tvbandits.gp.fitting.online import Every, as_every
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.policies.setting import Common, Setting, assembled, learned_kernel, learning_rule
from tvbandits.queries.asking import Asking
from tvbandits.queries.budgets import Budget, OnAverage
from tvbandits.queries.plans import (
    KDPP,
    GreedyVariance,
    LogSchedule,
    PlausibleMaximisers,
    QualityKDPP,
    QueryPlan,
    RandomPoints,
    UCBBatch,
)

INFORMED_WIDTH = 1.0
"""Width of a frugal decision after an answered question, at most: what is played then is plausible under
any larger width, and costs at most 2 beta deviations while the bounds hold."""


def sparq_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    expert: Expert,
    queries: QueryPlan | None = None,
    rate: float | None = None,
    threshold: Callable[[int], float] | None = None,
    pool_size: int | None = None,
    learn: Every | int | None = None,
    **common: Unpack[Common],
) -> Bandit:
    """SparQ-GP-UCB (Mauduit, Berthier & Simonetto), Algorithm 1.

    Parameters
    ----------
    expert : Expert
        Asked after every reward about the reward at that time.
    queries : QueryPlan, optional
        The paper's by default: an approximate k-DPP of ceil(6 log t) of the points played.
    rate : float
        Of the linear injection s^2 (1 + (rate age)^2); 1, as in eq. 15, unless it is learned.
    threshold : callable, optional
        g(t): observations above it are discarded; noise_variance log t by default.
    pool_size : int, optional
        Size up to which all points played may be asked about; then only those that add to them. All by
        default, and 256 with a sparse posterior.
    learn : Every, optional
        Learn the rate while the bandit plays.
    """
    if pool_size is None and isinstance(common.get("posterior"), Nystrom):
        pool_size = 256
    discarded = aging.DiscardAbove(threshold or LogThreshold(noise_variance))
    return assembled(
        domain,
        kernel,
        noise_variance,
        common,
        None if learn is None else learning_rule("rate", rate, learn),
        aging=aging.compose(aging.Linear(1.0 if rate is None else rate), discarded),
        asking=Asking(queries or KDPP(), expert, pool_size=pool_size),
        lead=1.0,
    )


def frugal_gp_ucb(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float,
    *,
    expert: Expert,
    budget: float = 3.0,
    learn: Every | int | None = None,
    queries: QueryPlan | None = None,
    **common: Unpack[Common],
) -> Bandit:
    """Learn the drift, keep every answer, and ask only about what could change the next decision.

    The kernel is a sum of a shared level, a static field and two drifting fields whose amplitudes and
    scales are learned by log evidence; answers are observations like any other, and age by what was
    learned. The expert is asked about plausible maximisers anywhere in the domain. As the questions
    explore, a decision after an answer takes a width of at most `INFORMED_WIDTH`.

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem: a smooth and a
        rough one compete.
    expert : Expert
    budget : float
        Answers a step, on average; what a step saves is spent later.
    learn : Every, optional
        When to learn; every 30 rewards, and at some early ones.
    queries : QueryPlan, optional
        Instead of `PlausibleMaximisers(OnAverage(budget))`.
    """
    not_negative("budget", budget)
    every = Every() if learn is None else as_every(learn)
    learning = learned_kernel(domain, kernel, noise_variance, every, common)
    return assembled(
        domain,
        *learning,
        asking=Asking(
            queries or PlausibleMaximisers(OnAverage(budget)),
            expert,
            about="domain",
            reuse_answers=True,
            informed_width=INFORMED_WIDTH,
        ),
    )


PLANS: dict[str, Callable[[Budget], QueryPlan]] = {
    "plausible": PlausibleMaximisers,
    "ucb": UCBBatch,
    "variance": GreedyVariance,
    "quality": QualityKDPP,
    "kdpp": lambda budget: KDPP(budget=budget),
    "random": RandomPoints,
}
"""Query plans by name, each made from a budget."""


def make_sparq(
    setting: Setting,
    queries: float = 6.0,
    rate: float | None = None,
    learn: bool = False,
    sweeps: float | None = None,
    posterior: str = "exact",
) -> Bandit:
    if setting.expert is None:
        raise ValueError("sparq-gp-ucb asks an expert, and none is given")
    from_schedule = (
        KDPP(LogSchedule(queries)) if sweeps is None else KDPP(LogSchedule(queries), sweeps)
    )
    return sparq_gp_ucb(
        *setting.parts,
        expert=setting.expert(),
        queries=from_schedule,
        rate=rate,
        learn=Every() if learn else None,
        **setting.with_posterior(posterior),
    )


def make_frugal(setting: Setting, budget: float = 3.0, plan: str = "plausible") -> Bandit:
    if setting.expert is None:
        raise ValueError("frugal-gp-ucb asks an expert, and none is given")
    domain, _, noise_variance = setting.parts
    if plan not in PLANS:
        raise ValueError(f"plan must be one of {', '.join(PLANS)}, got {plan!r}")
    return frugal_gp_ucb(
        domain,
        None,  # it is told nothing about the problem
        noise_variance,
        expert=setting.expert(),
        queries=PLANS[plan](OnAverage(budget)),
        **setting.common,
    )
