"""What recipes have in common: the types and defaults of their parameters, and the bandit they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pandas as pd
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.batches import USUAL_LARGEST, Batching, BatchRule
from tvbandits.acquisition.widths import DEFAULT_WIDTH as DEFAULT_WIDTH, Confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options, Refit, Season
from tvbandits.bandit.past import state_with_history
from tvbandits.bandit.recipe import Recipe
from tvbandits.domains.domain import Domain, check_domain
from tvbandits.domains.space import space_of
from tvbandits.gp.additive import space_kernels
from tvbandits.gp.ensemble.posterior import ModelEnsemble
from tvbandits.gp.exact import Exact
from tvbandits.gp.kernels.space_time import Drift
from tvbandits.gp.kernels.structure import space_time, without_bounds
from tvbandits.gp.online import Every, as_every
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.gp.sparse import Nystrom
from tvbandits.validation import (
    Seed,
    as_generator,
    choice,
    describe,
    finite_number,
    of_kind,
    optional,
)

Width: TypeAlias = Confidence | float | str
History: TypeAlias = pd.DataFrame | ArrayLike

# A number that a policy may learn while it plays: "learn", or a rule that says when.
Rate: TypeAlias = float | Every | Literal["learn"] | None

# Widths of a paper by the names of `tvbandits.acquisition.widths.WIDTHS`.
Widths: TypeAlias = Mapping[str, Callable[..., Confidence]]

# Posteriors by the words that stand for them.
POSTERIORS = {"exact": Exact(), "nystrom": Nystrom(), "ensemble": ModelEnsemble()}


def make_bandit(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float | None,
    *,
    posterior: PosteriorRule | None = None,
    options: Options | None = None,
    batch_rule: BatchRule | None = None,
    refits: bool = False,
    history: History | None = None,
    seed: Seed = 0,
    **parts: Any,
) -> Bandit:
    """Return the bandit of a recipe's parameters.

    Parameters
    ----------
    domain, kernel, noise_variance, options, seed
        As of every recipe.
    posterior : PosteriorRule, optional
        That of the policy, where `options` name none; by default the exact one.
    batch_rule : BatchRule, optional
        What ends a batch, of a policy whose batches are as large as `options` allow.
    refits : bool
        Whether the policy takes its rule of fits from `options.refit`.
    history : DataFrame or array of shape (T, A), optional
        Readings before the first decision, as of `history_readings`.
    parts
        Further fields of `Recipe`.

    Raises
    ------
    ValueError
        If `options` ask for what the policy does not do.
    """
    kernel = prior_kernel(domain, kernel)
    options = options_or_default(options)
    if options.refit and not refits:
        raise ValueError(f"refit is for a policy that fits a kernel, got {options.refit!r}")
    sizes = options.minimum_batch, options.largest_batch
    if batch_rule is not None:
        parts["batching"] = Batching(batch_rule, *sizes)
    elif sizes != (1, USUAL_LARGEST):
        raise ValueError(
            "minimum_batch and largest_batch are for a policy that says when a batch ends, "
            f"got {sizes[0]} and {sizes[1]}"
        )
    posterior = posterior_of(options) or posterior or Exact()
    recipe = Recipe(
        domain,
        kernel,
        noise_variance,
        posterior=with_season(posterior, options.season),
        mean=options.mean,
        consult=options.consult,
        options=options,
        **parts,
    )
    if history is None:
        return Bandit(recipe, seed=seed)
    return Bandit.from_state(recipe, state_with_history(recipe, history, as_generator(seed)))


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


def forgetting_kernel(kernel: Any, forgetting_rate: float | None) -> Any:
    """Return k(x, x') (1 - rate)^(abs(t - t') / 2) (Bogunovic 2016; [S] eq. 8).

    Without a rate a fit is to find it, which starts from 0.1.
    """
    if forgetting_rate is None:
        return space_time(without_bounds(kernel)) * Drift(0.1)
    finite_number("forgetting_rate", forgetting_rate, low=0.0, high=1.0)
    return space_time(kernel) * Drift(forgetting_rate, "fixed")  # so that it may also be 0


def options_or_default(options: Options | None) -> Options:
    """Return the options, or the usual ones in place of None; raise a `ValueError` for anything else."""
    if options is None:
        return Options()
    of_kind("options", options, Options, "Options(...)")
    return options


def default_kernel(domain: Domain) -> Any:
    """Return the kernel of a recipe to which none is given; its variance is 1.

    On named parameters it is Matern-5/2 with a length scale of a quarter of each range, elsewhere an RBF
    kernel with a length scale of 0.15 of the widest range. Nothing fits it, unless the policy learns.
    """
    space = space_of(domain)
    return space_kernels(domain)[0] if space is None else space.kernel()


def posterior_of(options: Options | None) -> PosteriorRule | None:
    """Return the posterior that options name, by a word of `POSTERIORS` or itself; None: none."""
    posterior = options_or_default(options).posterior
    if posterior is None:
        return None
    if isinstance(posterior, str):
        return POSTERIORS[choice("posterior", posterior, POSTERIORS)]
    return posterior


def with_season(posterior: PosteriorRule, season: Season) -> PosteriorRule:
    """Return an ensemble with models of a season, or without; any other posterior as it is.

    Raises
    ------
    ValueError
        If a season is named, and the posterior is no ensemble.
    """
    if isinstance(season, str) and season == "find":
        return posterior
    if isinstance(posterior, ModelEnsemble):
        return replace(posterior, season=season)
    if season is None:
        return posterior
    raise ValueError(
        f"season={describe(season)} needs an ensemble of models, and this bandit has another posterior, "
        f"{describe(posterior)}: adaptive_gp_ucb and frugal_gp_ucb have an ensemble on Candidates, "
        "without kernel, refit, mean or posterior of your own. Instead of a Box give a grid, "
        "Candidates.grid(bounds, 20), or leave season out"
    )


def width_of(beta: Width, widths: Widths) -> Width:
    """Return the width that a name has in a paper, and any other as it is."""
    name = beta.casefold() if isinstance(beta, str) else ""
    return widths[name]() if name in widths else beta


def learning_rule(value: Rate, default: Every | None = None) -> tuple[float | None, Every | None]:
    """Return a number that is fixed and None, or None and the rule by which it is learned.

    Parameters
    ----------
    value : float, Every, "learn" or None
        None is "learn".
    default : Every, optional
        The rule of "learn".
    """
    if isinstance(value, Every):
        return None, value
    if value is not None and not isinstance(value, str):
        return value, None
    optional(choice, "a rate that is no number", value, ("learn",))
    return None, default or Every()


def as_rule(refit: Refit | None, default: Every) -> Every:
    """Return the rule that `refit` stands for; the default for None and True."""
    return default if refit is None or isinstance(refit, bool) else as_every(refit)
