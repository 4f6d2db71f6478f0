"""The parts of a policy that learns how its reward changes: a bank of models, or a fitted kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.confidence import Fixed, as_confidence
from tvbandits.core.coercion import check_part, shown
from tvbandits.core.domains import Candidates, space_of
from tvbandits.core.protocols import Domain
from tvbandits.gp.bank.posterior import ModelBank
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.additive import anchors_of, space_kernels, structured_kernel
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import terms_of
from tvbandits.gp.posteriors.state_space import StateSpace
from tvbandits.policies.setting import Common, Learn, Width, as_posterior, as_rule

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
    nothing_given = kernel is None and learn is None and common.posterior is None
    plain = bank and nothing_given and common.mean == "online"
    if plain and _suits_a_bank(domain, common.confidence):
        common = replace(common, posterior=ModelBank())
    start, every, common = _fitted(domain, kernel, as_rule(learn, default), common)
    if not isinstance(common.posterior, ModelBank):
        return start, every, common
    if learn:
        raise ValueError(
            f"a bank of models learns by itself: learn must be None, got {shown(learn)}"
        )
    return start, None, common


def _suits_a_bank(domain: Domain, confidence: Width) -> bool:
    plain = isinstance(domain, Candidates) and not domain.context and space_of(domain) is None
    small = plain and len(domain) <= MOST_CANDIDATES  # type: ignore[arg-type]
    return small and isinstance(as_confidence(confidence), Fixed)


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
