"""The parts of a policy that learns how its reward changes: a bank of models, or a fitted kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeGuard

from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.confidence import Fixed, as_confidence
from tvbandits.acquisition.rules import LastingBound
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.box import Box
from tvbandits.core.candidates import Candidates
from tvbandits.core.coercion import check_part, shown
from tvbandits.core.protocols import Domain
from tvbandits.core.space import space_of
from tvbandits.forgetting.aging import Window
from tvbandits.gp.ensemble.rule import ModelEnsemble
from tvbandits.gp.ensemble.settings import SMALL_NETWORK
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.additive import anchors_of, box_kernel, space_kernels, structured_kernel
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import terms_of
from tvbandits.gp.posteriors.state_space import StateSpace
from tvbandits.policies.setting import (
    Common,
    Learn,
    Season,
    as_posterior,
    as_rule,
    assembled,
)

MOST_CANDIDATES = 2000
"""Up to so many candidates a bank of models is the default: its features need all their distances."""


def learned_parts(
    domain: Domain,
    kernel: Any | None,
    learn: Learn | None,
    default: Every,
    common: Common,
    *,
    bank: bool = False,
) -> tuple[Any, Every | None, Common]:
    """Kernel, rule of learning and options of a bandit that learns how the reward changes.

    With `bank`, it is a bank of models on candidates, unless something is given that only a fit has: a
    kernel to start from, when to learn, a prior mean, a posterior, or a width that is a theorem's.
    """
    check_part("domain", domain, "a domain such as Candidates(X) or Box(bounds)", "sample")
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"kernel must be a scikit-learn kernel, or None; got {shown(kernel)}")
    if bank and _leaves_it_to_a_bank(domain, kernel, learn, common):
        common = replace(common, posterior=ModelEnsemble("both"))
    start, every, common = _fitted(domain, kernel, as_rule(learn, default), common)
    if not isinstance(common.posterior, ModelEnsemble):
        return start, every, common
    if learn:
        raise ValueError(
            f"a bank of models learns by itself: learn must be None, got {shown(learn)}"
        )
    return start, None, common


def seasonal_bank(posterior: Any, season: Season) -> Any:
    """A bank with models of a season, or without; other posteriors have none to be found."""
    if isinstance(season, str) and season == "find":
        return posterior
    if season is None or (isinstance(season, str) and season == "none"):
        return (
            replace(posterior, season=None) if isinstance(posterior, ModelEnsemble) else posterior
        )
    if not isinstance(posterior, ModelEnsemble):
        raise ValueError(
            f"season={shown(season)} needs a bank of models, which is played on candidates where no "
            "kernel, learn, mean or other posterior is given"
        )
    return replace(posterior, season=season)


def _leaves_it_to_a_bank(
    domain: Domain, kernel: Any | None, learn: Learn | None, common: Common
) -> TypeGuard[Candidates]:
    """Whether candidates are plain and not too many, and nothing is given that only a fit has."""
    given = (kernel, learn, common.posterior)
    if any(each is not None for each in given) or common.mean != "online":
        return False
    plain = isinstance(domain, Candidates) and not domain.context and space_of(domain) is None
    small = plain and len(domain) <= MOST_CANDIDATES  # type: ignore[arg-type]
    return small and isinstance(as_confidence(common.confidence), Fixed)


def suits_rival_models(
    domain: Domain, kernel: Any | None, learn: Learn | None, common: Common
) -> bool:
    """Whether a bandit that asks nobody plays `learned_by_rivals`: a few candidates, nothing given."""
    return _leaves_it_to_a_bank(domain, kernel, learn, common) and len(domain) <= SMALL_NETWORK


def learned_by_rivals(domain: Domain, noise_variance: float, common: Common) -> Bandit:
    """A bank of a network's models and a function's, and a width of what lasts alone."""
    common = replace(common, posterior=ModelEnsemble("both", season=None))
    start, _, common = learned_parts(domain, None, None, Every(), common)
    return assembled(domain, start, noise_variance, common, acquisition=LastingBound())


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


def learned_on_box(box: Box, noise_variance: float, learn: Learn | None, common: Common) -> Bandit:
    """The bandit that learns its kernel on a box, with an exact posterior of the latest rewards."""
    return assembled(
        box,
        box_kernel(box),
        noise_variance,
        common,
        learn=replace(as_rule(learn, BOX_RULE), in_steps=True),
        aging=Window(last=BOX_REWARDS),
    )
