"""What a maker is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.confidence import Confidence, Theory, as_confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.recipe import Recipe
from tvbandits.core.domains import Candidates
from tvbandits.core.protocols import Domain, Expert
from tvbandits.gp.fitting.online import Every, as_every
from tvbandits.gp.kernels.additive import anchors_of, space_kernels, structured_kernel
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import terms_of
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.state_space import StateSpace


class Common(TypedDict, total=False):
    """Keywords that every recipe takes."""

    confidence: Confidence | float | str
    posterior: Exact | Nystrom | StateSpace
    mean: float | Literal["online"]
    seed: int | np.random.Generator


def assembled(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    common: Common,
    learn: Every | None = None,
    **parts: Any,
) -> Bandit:
    known = Common.__annotations__
    unknown = [name for name in common if name not in known]
    if unknown:
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; there are: {', '.join(known)}"
        )
    recipe = Recipe(
        domain,
        kernel,
        noise_variance,
        confidence=as_confidence(common.get("confidence", "theory")),
        posterior=common.get("posterior", Exact()),
        mean=common.get("mean", "online"),
        learn=learn,
        **parts,
    )
    return Bandit(recipe, seed=common.get("seed", 0))


def learning_rule(name: str, given: float | None, learn: Every | int | None) -> Every | None:
    """When to learn a number: never, if it is given."""
    if given is None:
        return Every() if learn is None else as_every(learn)
    if learn is not None:
        raise ValueError(f"learn is for a {name} that is not given, got {name} = {given}")
    return None


def learned_kernel(
    domain: Domain, kernel: Any | None, noise_variance: float, every: Every, common: Common
) -> tuple[Any, float, Common, Every]:
    """Kernel to start from, noise, keywords and rule of a bandit that learns its kernel."""
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"kernel must be a scikit-learn kernel, or None; got {kernel!r}")
    if kernel is not None and is_space_time(kernel):
        kernels: tuple[Any, ...] = (kernel,)
    else:
        smooth, rough = (kernel, None) if kernel else space_kernels(domain)
        kernels = tuple(
            structured_kernel(smooth, other) for other in (smooth, rough) if other is not None
        )
    posterior = StateSpace(None if isinstance(domain, Candidates) else anchors_of(domain))
    made: Common = {"posterior": posterior, **common}
    if terms_of(kernels[0]) is None and isinstance(made["posterior"], StateSpace):
        raise ValueError(f"the kernel must be a sum of space-time terms, got {kernels[0]}")
    rivals = (*every.rivals, *kernels[1:])
    own = kernel is not None and is_space_time(kernel)
    return kernels[0], noise_variance, made, replace(every, rivals=rivals, in_steps=not own)


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
