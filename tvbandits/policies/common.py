"""What recipes have in common: the types of their options, their defaults, and the bandit they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.confidence import DEFAULT_WIDTH as DEFAULT_WIDTH, Confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.recipe import NEEDED_POSTERIOR, Recipe
from tvbandits.domains.domain import Domain
from tvbandits.domains.space import space_of
from tvbandits.gp.ensemble.posterior import ModelEnsemble
from tvbandits.gp.exact import Exact
from tvbandits.gp.fitting.online import Every, as_every
from tvbandits.gp.kernels.additive import space_kernels
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.gp.sparse import Nystrom
from tvbandits.validation import check_part, choice, of_kind

Width: TypeAlias = Confidence | float | str
Posterior: TypeAlias = PosteriorRule | Literal["exact", "nystrom", "ensemble"]
Mean: TypeAlias = float | Literal["online"]
Seed: TypeAlias = int | np.random.Generator
Learn: TypeAlias = Every | int | bool

# Widths of a paper by the names of `tvbandits.acquisition.confidence.WIDTHS`.
Widths: TypeAlias = Mapping[str, Callable[..., Confidence]]

# Posteriors by the words that stand for them.
POSTERIORS = {"exact": Exact(), "nystrom": Nystrom(), "ensemble": ModelEnsemble()}


def bandit_of(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float | None,
    *,
    posterior: Posterior = "exact",
    options: Options | None = None,
    seed: Seed = 0,
    **parts: Any,
) -> Bandit:
    """Return the bandit of a recipe's options; `parts` are further fields of `Recipe`."""
    kernel = prior_kernel(domain, kernel)
    parts["options"] = Options() if options is None else options
    parts["posterior"] = as_posterior(posterior)
    recipe = Recipe(domain, kernel, noise_variance, **parts)
    return Bandit(recipe, seed=seed)


def prior_kernel(domain: Domain, kernel: Any | None) -> Any:
    """Return the kernel, or `default_kernel` in place of None.

    Raises
    ------
    ValueError
        If this is no domain, or no kernel.
    """
    check_domain(domain)
    if kernel is None:
        return default_kernel(domain)
    of_kind("kernel", kernel, Kernel, "a scikit-learn kernel")
    return kernel


def check_domain(domain: object) -> None:
    """Raise a `ValueError` unless this is a domain."""
    check_part("domain", domain, "a domain such as Candidates(X) or Box(bounds)", "sample")


def default_kernel(domain: Domain) -> Any:
    """Return the kernel of a recipe to which none is given; its variance is 1.

    On named parameters it is Matern-5/2 with a length scale of a quarter of each range, elsewhere an RBF
    kernel with a length scale of 0.15 of the widest range. Nothing fits it, unless the policy learns.
    """
    space = space_of(domain)
    return space_kernels(domain)[0] if space is None else space.kernel()


def as_posterior(posterior: Posterior) -> PosteriorRule:
    """Return the posterior of a word of `POSTERIORS`, and any other as it is."""
    if isinstance(posterior, str):
        return POSTERIORS[choice("posterior", posterior, POSTERIORS)]
    check_part("posterior", posterior, NEEDED_POSTERIOR, "condition")
    return posterior


def width_of(confidence: Width, widths: Widths) -> Width:
    """Return the width that a name has in a paper, and any other as it is."""
    name = confidence.casefold() if isinstance(confidence, str) else ""
    return widths[name]() if name in widths else confidence


def learning_rule(
    name: str, value: float | None, learn: Learn | None, default: Every | None = None
) -> Every | None:
    """Return when to learn a number: never if it is given, otherwise as `learn` says."""
    if value is None:
        return as_rule(learn, default or Every())
    if learn:
        raise ValueError(f"learn is for a {name} that is not given, got {name} = {value}")
    return None


def as_rule(learn: Learn | None, default: Every) -> Every:
    """Return the rule that `learn` stands for; the default for None and True."""
    return default if learn is None or isinstance(learn, bool) else as_every(learn)
