"""Policies by name: what a comparison knows of a problem, and how each policy is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvbandits import recommended
from tvbandits.bandit import Bandit
from tvbandits.baselines import EpsilonGreedy, RegularisedEvolution, Uniform
from tvbandits.budgets import Budget, OnAverage
from tvbandits.confidence import BBKBWidth, BKBWidth, Confidence, Theory
from tvbandits.domains import Box, Candidates
from tvbandits.exact import Exact
from tvbandits.learning import Every
from tvbandits.nystrom import Nystrom
from tvbandits.protocols import Domain, Expert
from tvbandits.queries import (
    KDPP,
    GreedyVariance,
    LogSchedule,
    PlausibleMaximisers,
    QualityKDPP,
    QueryPlan,
    RandomPoints,
    UCBBatch,
)
from tvbandits.recipes import (
    Common,
    bbkb,
    bkb,
    et_gp_ucb,
    frugal_gp_ucb,
    gp_bucb,
    gp_ucb,
    r_gp_ucb,
    sparq_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    w_gp_ucb,
)
from tvbandits.thompson import Thompson


@dataclass(frozen=True)
class Setting:
    """What a comparison knows about a problem before the first step.

    Attributes
    ----------
    domain, kernel, noise_variance
        As for a recipe; the kernel describes the standardised reward.
    horizon : int
    variation : float
        Sup-norm change per unit of time, in prior deviations.
    scale : float
        The prior deviation, in the unit of reward.
    epsilon : float
        Forgetting rate of the TV-GP-UCB model.
    information_gain : float
        gamma_T, the largest information gain of `horizon` observations.
    confidence : Confidence
    expert : callable, optional
        Makes the expert, for the policies that ask one.
    seed : int
    """

    domain: Domain
    kernel: Any
    noise_variance: float
    horizon: int
    variation: float
    scale: float
    epsilon: float
    information_gain: float
    confidence: Confidence
    expert: Callable[[], Expert] | None
    seed: int

    @property
    def parts(self) -> tuple[Domain, Any, float]:
        """The first three arguments of every recipe."""
        return self.domain, self.kernel, self.noise_variance

    @property
    def common(self) -> Common:
        """The keywords of every recipe."""
        return {"confidence": self.confidence, "seed": self.seed}

    def with_posterior(self, name: str) -> Common:
        """The same with the posterior of that name, "exact" or "nystrom"."""
        if name not in ("exact", "nystrom"):
            raise ValueError(f'posterior must be "exact" or "nystrom", got {name!r}')
        return {**self.common, "posterior": Exact() if name == "exact" else Nystrom()}

    def with_width(self, theory: Confidence) -> Common:
        """The same with a paper's own width where the width of the theory is wanted."""
        wanted = theory if isinstance(self.confidence, Theory) else self.confidence
        return {"confidence": wanted, "seed": self.seed}

    @property
    def budgets(self) -> tuple[int, float, float]:
        """T, B_T and gamma_T, as the recommendations take them."""
        return self.horizon, self.variation * self.horizon, self.information_gain


PLANS: dict[str, Callable[[Budget], QueryPlan]] = {
    "plausible": PlausibleMaximisers,
    "ucb": UCBBatch,
    "variance": GreedyVariance,
    "quality": QualityKDPP,
    "kdpp": lambda budget: KDPP(budget=budget),
    "random": RandomPoints,
}
"""Query plans by name, each made from a budget."""


@dataclass(frozen=True)
class Policy:
    """A named policy of a comparison: how to make it, and what it is.

    `make(setting, **parameters)` fills what is not given with the authors' recommendation.
    """

    make: Callable[..., Any]
    summary: str


def _gp(setting: Setting, posterior: str = "exact") -> Bandit:
    return gp_ucb(*setting.parts, **setting.with_posterior(posterior))


def _r(setting: Setting, reset_every: int | None = None, posterior: str = "exact") -> Bandit:
    if reset_every is None:
        reset_every = recommended.reset_period(*setting.budgets)
    return r_gp_ucb(*setting.parts, reset_every=reset_every, **setting.with_posterior(posterior))


def _sw(setting: Setting, window: int | None = None, posterior: str = "exact") -> Bandit:
    if window is None:
        window = recommended.window_length(*setting.budgets)
    return sw_gp_ucb(*setting.parts, window=window, **setting.with_posterior(posterior))


def _w(
    setting: Setting,
    discount: float | None = None,
    learn: bool = False,
    posterior: str = "exact",
) -> Bandit:
    common = setting.with_posterior(posterior)
    if learn:
        return w_gp_ucb(*setting.parts, discount=discount, learn=Every(), **common)
    weight = recommended.discount(*setting.budgets) if discount is None else discount
    return w_gp_ucb(*setting.parts, discount=weight, **common)


def _tv(
    setting: Setting,
    epsilon: float | None = None,
    fitted: bool = False,
    posterior: str = "exact",
) -> Bandit:
    if fitted and epsilon is not None:
        raise ValueError(f"fitted is for an epsilon that is not given, got epsilon = {epsilon}")
    if epsilon is None and not fitted:
        if posterior != "exact":
            raise ValueError(
                f'posterior="{posterior}" needs an epsilon: the learned one is a filter'
            )
        domain, _, noise_variance = setting.parts
        return tv_gp_ucb(domain, None, noise_variance, **setting.common)
    rate = setting.epsilon if epsilon is None else epsilon
    return tv_gp_ucb(*setting.parts, epsilon=rate, **setting.with_posterior(posterior))


def _ui(
    setting: Setting,
    rate: float | None = None,
    growth: str = "wiener",
    learn: bool = False,
    posterior: str = "exact",
) -> Bandit:
    common = setting.with_posterior(posterior)
    if learn:
        return ui_gp_ucb(*setting.parts, rate=rate, growth=growth, learn=Every(), **common)  # type: ignore[arg-type]
    if rate is None:
        # Under the drift model a reward's increment has variance 2 (1 - sqrt(1 - eps)) scale^2.
        increment = 2 * (1 - (1 - setting.epsilon) ** 0.5)
        rate = max(increment * setting.scale**2, 1e-12) if growth == "wiener" else 1.0
    return ui_gp_ucb(*setting.parts, rate=rate, growth=growth, **common)  # type: ignore[arg-type]


def _et(setting: Setting, delta: float = 0.1, posterior: str = "exact") -> Bandit:
    return et_gp_ucb(*setting.parts, delta=delta, **setting.with_posterior(posterior))


def _sparq(
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


def _frugal(setting: Setting, budget: float = 3.0, plan: str = "plausible") -> Bandit:
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


def _bkb(setting: Setting, oversampling: float = 2.0, keep: bool = True) -> Bandit:
    common = setting.with_width(BKBWidth(delta=1 / max(setting.horizon, 2)))
    return bkb(*setting.parts, oversampling=oversampling, keep=keep, **common)


def _bbkb(
    setting: Setting,
    ratio_bound: float = 2.0,
    rule: str = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
) -> Bandit:
    return bbkb(
        *setting.parts,
        ratio_bound=ratio_bound,
        rule=rule,  # type: ignore[arg-type]
        oversampling=oversampling,
        keep=keep,
        minimum_batch=minimum_batch,
        **setting.with_width(BBKBWidth(delta=1 / max(setting.horizon, 2))),
    )


def _gp_bucb(setting: Setting, ratio_bound: float = 2.0, minimum_batch: int = 1) -> Bandit:
    return gp_bucb(
        *setting.parts, ratio_bound=ratio_bound, minimum_batch=minimum_batch, **setting.common
    )


def _eps_greedy(setting: Setting, epsilon: float = 1.0, decay: float = 100.0) -> EpsilonGreedy:
    return EpsilonGreedy(setting.domain, epsilon=epsilon, decay=decay, seed=setting.seed)


def _thompson(setting: Setting, batch: int = 30) -> Thompson:
    common = setting.with_width(BBKBWidth(delta=1 / max(setting.horizon, 2)))
    return Thompson(
        *setting.parts,
        batch=batch,
        width=common["confidence"],
        seed=setting.seed,
    )


def _evolution(
    setting: Setting, population: int = 100, tournament: int = 10
) -> RegularisedEvolution:
    domain = setting.domain
    if not isinstance(domain, Candidates | Box):
        raise ValueError(f"evolution needs Candidates or a Box, got {domain!r}")
    return RegularisedEvolution(
        domain, population=population, tournament=tournament, seed=setting.seed
    )


def _uniform(setting: Setting) -> Uniform:
    return Uniform(setting.domain, seed=setting.seed)


POLICIES: dict[str, Policy] = {
    "uniform": Policy(_uniform, "a point of the domain at random"),
    "gp-ucb": Policy(_gp, "never forgets (Srinivas 2010)"),
    "r-gp-ucb": Policy(_r, "starts afresh every reset_every rewards (Bogunovic 2016)"),
    "sw-gp-ucb": Policy(_sw, "the last window rewards (Zhou & Shroff 2021)"),
    "w-gp-ucb": Policy(_w, "weights discount^age (Deng 2022)"),
    "tv-gp-ucb": Policy(
        _tv, "a kernel that forgets at rate epsilon, or learns how (Bogunovic 2016)"
    ),
    "ui-gp-ucb": Policy(_ui, "injects noise at rate, growth=wiener|linear (Brunzema 2022)"),
    "sparq-gp-ucb": Policy(_sparq, "asks an expert about queries * log t points (Mauduit 2025)"),
    "frugal-gp-ucb": Policy(_frugal, "learns the drift, and asks budget questions a step or fewer"),
    "et-gp-ucb": Policy(_et, "starts afresh when a reward is a surprise (Brunzema 2025)"),
    "bkb": Policy(_bkb, "a dictionary by leverage scores at every step (Calandriello 2019)"),
    "bbkb": Policy(_bbkb, "the same in batches, rule=global|local (Calandriello 2020)"),
    "gp-bucb": Policy(_gp_bucb, "GP-UCB in batches (Desautels 2014)"),
    "thompson": Policy(_thompson, "batches of posterior samples (Kandasamy 2018)"),
    "evolution": Policy(_evolution, "regularised evolution (Real 2019)"),
    "eps-greedy": Policy(_eps_greedy, "the best point so far, at random min(epsilon, decay / t)"),
}
"""The policies by command-line name."""

FIRST_COMPARISON = tuple(POLICIES)[:8]
"""The policies of a comparison that names none: those of the paper of SparQ-GP-UCB, and two more."""

AS_IN_THE_PAPER = {"tv-gp-ucb": "tv-gp-ucb:fitted=true"}
"""What a name stands for there, where that differs: an epsilon fitted before the first step."""
