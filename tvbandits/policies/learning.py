"""A policy that learns by itself how its reward changes: an ensemble of models, or a fitted kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeGuard

from tvbandits.acquisition.confidence import Fixed
from tvbandits.acquisition.rules import LastingBound
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.box import Box
from tvbandits.core.candidates import Candidates
from tvbandits.core.coercion import shown
from tvbandits.core.protocols import Domain
from tvbandits.core.space import space_of
from tvbandits.forgetting.aging import Window
from tvbandits.gp.ensemble.models import SMALL_NETWORK
from tvbandits.gp.ensemble.rule import ModelEnsemble
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.additive import anchors_of, box_kernel, space_kernels, structured_kernel
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import terms_of
from tvbandits.gp.posteriors.state_space import StateSpace
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
    as_rule,
    assembled,
    described,
    width_of,
)

MOST_CANDIDATES = 2000
"""Up to so many candidates an ensemble is the default with an expert: its features need distances."""

LENGTH_SPREAD_WITHOUT_EXPERT = 2.0
"""Spread of the prior on the logarithm of a length scale, for a bandit that has no expert. It learns
from the points that it plays alone; under a narrower prior it may never find out that one is short."""


def learned_parts(
    domain: Domain, kernel: Any | None, learn: Learn | None, common: Common, *, asks: bool
) -> tuple[Any, Common, dict[str, Any]]:
    """Which models a domain gets: kernel, options and further parts of a bandit that learns by itself.

    The one place that decides it, for `adaptive_gp_ucb` and, where it `asks`, for `frugal_gp_ucb`;
    `docs/which-policy.md` has its table.
    """
    if not asks and kernel is None and common.posterior is None and has_several(domain):
        width = box_width(domain) if common.confidence is None else common.confidence
        rule = replace(as_rule(learn, BOX_RULE), in_steps=True)
        parts = {"learn": rule, "aging": Window(last=BOX_REWARDS)}
        return box_kernel(domain), replace(common, confidence=width, posterior="exact"), parts
    parts = {}
    if _takes_an_ensemble(
        domain, kernel, learn, common, MOST_CANDIDATES if asks else SMALL_NETWORK
    ):
        common = replace(common, posterior=ModelEnsemble("both", season="find" if asks else None))
        parts = {} if asks else {"acquisition": LastingBound()}
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
    domain: Domain, kernel: Any | None, learn: Learn | None, common: Common, most: int
) -> bool:
    """Whether candidates are plain and at most so many, and nothing is given that only a fit has.

    That is a kernel to start from, when to learn, a prior mean, a posterior, or a theorem's width.
    """
    given = (kernel, learn, common.posterior)
    if any(each is not None for each in given) or common.mean != "online":
        return False
    plain = isinstance(domain, Candidates) and not domain.context and space_of(domain) is None
    small = plain and len(domain) <= most  # type: ignore[arg-type]
    return small and isinstance(width_of(common), Fixed)


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


BOX_RULE = Every(
    10,
    (4, 7, 10, 13, 16, 20, 24, 28, 32, 36, 40, 45, 50, 55),
    in_steps=True,
)
"""When a kernel is learned on a box: more often than on candidates, since there is more to learn."""

BOX_WIDTH = 2.0 * math.sqrt(2.0)
"""Width of a decision on a box of d coordinates, times d: the places to explore multiply with every
coordinate and the plays do not, and 2 in three coordinates goes on exploring corners. Chosen, among
constants over sqrt d and over d, on Levy, Styblinski-Tang, Rastrigin and random dips."""

BOX_REWARDS = 400
"""Rewards that the exact posterior on a box looks at, the latest: what a step may cost is bounded."""


def has_several(domain: Domain) -> TypeGuard[Box]:
    """Whether a domain is a box of several coordinates, for which 96 features are too few.

    An interval keeps the sum of fields, which finds narrow peaks that move.
    """
    return isinstance(domain, Box) and domain.dimension > 1


def box_width(box: Box) -> float:
    """The width of a decision on a box, where none is given."""
    return BOX_WIDTH / box.dimension


# --- the policy ---------------------------------------------------------------------------------


@described
def adaptive_gp_ucb(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float,
    *,
    learn: Learn | None = None,
    confidence: Width | None = None,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """Learn by itself how the reward drifts: an ensemble of models, or a kernel that is fitted.

    `docs/which-policy.md` says which models a domain gets.

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem.
    learn : Every, int or bool, optional
        When to fit the numbers of `structured_kernel`, or on a box of `box_kernel` (in
        `kernels.additive`), by log evidence.
    confidence : Confidence, float or str, optional
        2; 2 sqrt 2 / d on a box of d > 1 coordinates where kernel and posterior are not given.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble", optional
        `ModelEnsemble("both")` on up to 64 candidates, with the width of what lasts alone
        (`acquisition.lasting`), unless kernel, learn or mean is given; else a Kalman filter,
        `StateSpace()`, but on a box. Which is better where: `docs/ensemble.md`.

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
    common = Common(confidence, posterior, mean, seed, minimise)
    start, common, parts = learned_parts(domain, kernel, learn, common, asks=False)
    return assembled(domain, start, noise_variance, common, **parts)


ADAPTIVE_GP_UCB = Policy(
    "adaptive-gp-ucb",
    adaptive_gp_ucb,
    "learns by itself how the reward drifts",
    paper="this package",
    look=PlotStyle("#4d7c0f", (0, (6, 1, 1, 1, 1, 1, 1, 1)), 2.4, "$\\infty$"),
    recommended={"kernel": lambda *_: None},  # it is told nothing about the problem
)


POLICIES = (ADAPTIVE_GP_UCB,)
