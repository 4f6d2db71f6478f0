"""Common code of all policies: types and defaults of their parameters, and the creation of a bandit.

The two policies that learn how their reward changes choose a model for their domain: on candidates, an
ensemble of space-time models; on arms, independent filters; on a box of several coordinates, or with a
kernel of the user, one kernel that is fitted by its evidence. `docs/which-policy.md` has the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pandas as pd
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.batches import DEFAULT_LARGEST, Batching, BatchRule
from tvbandits.acquisition.rules import (
    PersistentBound,
    RandomFirst,
    SampledBound,
    SpreadFirst,
    ThompsonSampling,
)
from tvbandits.acquisition.widths import (
    DEFAULT_WIDTH as DEFAULT_WIDTH,
    Confidence,
    Fixed,
    PlaysAtATime,
    Widths,
    as_confidence,
)
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options, PosteriorName, Refit, Season
from tvbandits.bandit.past import make_state_with_history
from tvbandits.bandit.recipe import Recipe
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain, check_domain
from tvbandits.domains.parameters import Periodic
from tvbandits.domains.space import Arms, Space, Table, get_space
from tvbandits.forgetting.aging import Window
from tvbandits.gp.additive import (
    Bounded,
    anchors_of,
    box_kernel,
    joint_box_kernel,
    space_kernels,
    structured_kernel,
)
from tvbandits.gp.ensemble.arms import IndependentArms
from tvbandits.gp.ensemble.models import CONFIG as MODEL_CONFIG
from tvbandits.gp.ensemble.posterior import ModelEnsemble
from tvbandits.gp.exact import Exact
from tvbandits.gp.kernels.space_time import Drift, fix_hyperparameters, is_space_time, space_time
from tvbandits.gp.online import Every, as_every
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.gp.sparse import Nystrom
from tvbandits.gp.state_space import StateSpace
from tvbandits.validation import (
    Seed,
    as_generator,
    check_choice,
    check_instance,
    check_optional,
    describe,
    finite_number,
    require,
)

Width: TypeAlias = Confidence | float | str
History: TypeAlias = pd.DataFrame | ArrayLike

# A number; or "learn" or a rule of when to learn it, if the policy learns it while it plays.
Rate: TypeAlias = float | Every | Literal["learn"] | None

# Posteriors by their names in `Options`.
POSTERIORS: dict[PosteriorName, PosteriorRule] = {
    "exact": Exact(),
    "nystrom": Nystrom(),
    "ensemble": ModelEnsemble(),
}


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
    """Return the bandit of a policy.

    Parameters
    ----------
    domain, kernel, noise_variance, options, seed
        As for all policies.
    posterior : PosteriorRule, optional
        The posterior of the policy, unless `options` have one; by default the exact one.
    batch_rule : BatchRule, optional
        The rule that ends a batch, for policies with the batch sizes of `options`.
    refits : bool
        Whether the policy uses `options.refit`.
    history : DataFrame or array of shape (T, A), optional
        Readings before the first decision, as for `parse_history`.
    parts
        Further fields of `Recipe`.

    Raises
    ------
    ValueError
        If the policy cannot use an option.
    """
    kernel = kernel_or_default(domain, kernel)
    options = options_or_default(options)
    if options.refit and not refits:
        raise ValueError(f"refit is for a policy that fits a kernel, got {options.refit!r}")
    sizes = options.minimum_batch, options.largest_batch
    if batch_rule is not None:
        parts["batching"] = Batching(batch_rule, *sizes)
    elif sizes != (1, DEFAULT_LARGEST):
        raise ValueError(
            "minimum_batch and largest_batch are for a policy with a rule that ends a batch, "
            f"got {sizes[0]} and {sizes[1]}: leave them out"
        )
    posterior = resolve_posterior(options) or posterior or Exact()
    recipe = Recipe(
        domain,
        kernel,
        noise_variance,
        posterior=set_season(posterior, options.season, domain),
        mean=options.mean,
        consult=options.consult,
        options=options,
        **parts,
    )
    if history is None:
        return Bandit(recipe, seed=seed)
    return Bandit.from_state(recipe, make_state_with_history(recipe, history, as_generator(seed)))


def kernel_or_default(domain: Domain, kernel: Any | None) -> Any:
    """Return the kernel, or `default_kernel` if it is None.

    Raises
    ------
    ValueError
        If `domain` is not a domain, or `kernel` not a kernel.
    """
    check_domain(domain)
    if kernel is None:
        return default_kernel(domain)
    check_instance("kernel", kernel, Kernel, "a scikit-learn kernel")
    return kernel


def make_forgetting_kernel(kernel: Any, forgetting_rate: float | None) -> Any:
    """Return the kernel k(x, x') (1 - rate)^(abs(t - t') / 2) (Bogunovic 2016; [S] eq. 8).

    If the rate is None, it is 0.1 at first, and can be fitted.
    """
    if forgetting_rate is None:
        return space_time(fix_hyperparameters(kernel)) * Drift(0.1)
    finite_number("forgetting_rate", forgetting_rate, low=0.0, high=1.0)
    return space_time(kernel) * Drift(forgetting_rate, "fixed")  # a fitted rate could not be 0


def options_or_default(options: Options | None) -> Options:
    """Return the options, or the default ones if they are None; a `ValueError` for anything else."""
    if options is None:
        return Options()
    check_instance("options", options, Options, "Options(...)")
    return options


def default_kernel(domain: Domain) -> Any:
    """Return the default kernel on a domain, of variance 1.

    On named parameters it is Matern-5/2 with a length scale of a quarter of each range, otherwise an RBF
    kernel with a length scale of 0.15 of the widest range. Only policies that learn fit it.
    """
    check_domain(domain)
    space = get_space(domain)
    return space_kernels(domain)[0] if space is None else space.kernel()


def resolve_posterior(options: Options | None) -> PosteriorRule | None:
    """Return the posterior of the options, which may be a name in `POSTERIORS`, or None."""
    posterior = options_or_default(options).posterior
    if posterior is None:
        return None
    if isinstance(posterior, str):
        return POSTERIORS[posterior]
    return posterior


def set_season(posterior: PosteriorRule, season: Season, domain: Domain) -> PosteriorRule:
    """Return an ensemble with the season of the options; any other posterior unchanged.

    Raises
    ------
    ValueError
        If there is a season, and the posterior is not an ensemble; the message has a remedy for the
        domain.
    """
    if isinstance(season, str) and season == "find":
        return posterior
    if isinstance(posterior, ModelEnsemble):
        return replace(posterior, season=season)
    if season is None:
        return posterior
    remedy = "Leave out your own kernel, refit, mean and posterior, or leave season out"
    if isinstance(domain, Arms):
        remedy = (
            f"On Arms they do not: leave season out, or replace them by {len(domain)} points that are "
            f"equally far from each other, Candidates(numpy.eye({len(domain)}))"
        )
    elif isinstance(domain, Table):
        remedy = "Instead of a Table give its points, Candidates(table.X), or leave season out"
    elif not isinstance(domain, Candidates):
        remedy = (
            f"Instead of a {type(domain).__name__} give a grid, Candidates.grid(bounds, 20), or leave "
            "season out"
        )
    raise ValueError(
        f"season={describe(season)} needs an ensemble of models, and this bandit has another posterior, "
        f"{type(posterior).__name__}: adaptive_gp_ucb and frugal_gp_ucb have an ensemble on Candidates. "
        f"{remedy}"
    )


def resolve_width(beta: Width, widths: Widths) -> Width:
    """Return the width that a paper's name such as "theory" stands for; any other width unchanged."""
    name = beta.casefold() if isinstance(beta, str) else ""
    return widths[name]() if name in widths else beta


def parse_rate(
    name: str, value: Rate, default: Every | None = None
) -> tuple[float | None, Every | None]:
    """Return a fixed number and None, or None and the rule of when to learn the number.

    Parameters
    ----------
    name : str
        The name of the argument, for messages.
    value : float, Every, "learn" or None
        None means "learn".
    default : Every, optional
        The rule for "learn".

    Raises
    ------
    ValueError
        If the value is another text.
    """
    if isinstance(value, Every):
        return None, value
    if value is not None and not isinstance(value, str):
        return value, None
    check_optional(check_choice, f"{name}, if it is no number,", value, ("learn",))
    return None, default or Every()


def as_refit_rule(refit: Refit | None, default: Every) -> Every:
    """Return the rule of fits for the option `refit`; None and True stand for the default."""
    return default if refit is None or isinstance(refit, bool) else as_every(refit)


# --- the model for a domain ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelChoice:
    """The numbers that determine the default model of a domain.

    Attributes
    ----------
    ensemble_candidates : int
        The largest number of candidates with an ensemble by default; it has a hundred features of each.
    history_width : float
        Confidence width on a network with a history, which needs less exploration; chosen from 0, 0.5, 1
        and 2 on seven networks.
    arms_width : float
        The deviation of Thompson samples on arms, in persistent standard deviations; chosen from 0.5,
        0.7 and 1 on arms with constant, drifting or switching rates.
    sharing_width : float
        The same if more plays than arms are distributed; chosen from 0.35, 0.5, 0.7 and 1 on counts of
        six arms with a daily cycle and constant, oscillating, drifting or switching rates.
    length_spread : float
        Standard deviation of the prior on the logarithm of a length scale, for a bandit without an
        expert. As it learns only from the points that it plays, it might never find a short length
        scale under a narrower prior.
    box_rewards : int
        The number of latest rewards on a box from which the posterior selects some (`Every.remembered`),
        so that the cost of a step is bounded. Chosen from 400 and 2,000 on a heat pump and on moving
        peaks: with 400, a category that was played only at the start is forgotten and tried again.
    context_rewards : int
        The number of rewards that are selected if a context is measured.
    box_width : float
        Confidence width on a box of d coordinates, times d. The number of regions to explore is
        exponential in d but the number of plays is not: with a width of 2 in three coordinates, the
        bandit never stops exploring corners. Chosen from constants over sqrt d and over d on the
        functions of Levy, Styblinski-Tang and Rastrigin, and on random dips.
    initial_points : int
        The number of random plays at the start, for each coordinate of a box without the context.
    """

    ensemble_candidates: int = 20_000
    history_width: float = 0.5
    arms_width: float = 0.5
    sharing_width: float = 0.7
    length_spread: float = 2.0
    box_rewards: int = 2000
    context_rewards: int = 400
    box_width: float = 2.0 * math.sqrt(2.0)
    initial_points: int = 2


CONFIG = ModelChoice()

# When a kernel is fitted on a box: more often than on candidates, since there is more to learn.
BOX_RULE = Every(
    30,
    (4, 7, 10, 13, 16, 20, 24, 28, 32, 36, 40, 45, 50, 55, 70, 80, 100, 110, 130, 140, 160),
    observations=160,
    recent=0.5,
    in_steps=True,
    remembered=200,
    diverse=True,
)

# The rule if a context is measured: its values recur, so that old rewards remain informative. Chosen on
# four simulated processes of two to four parameters.
CONTEXT_RULE = replace(
    BOX_RULE, observations=300, remembered=CONFIG.context_rewards, space_spread=1.0
)


@dataclass(frozen=True)
class ModelParts:
    """The parts of a recipe that make up the model of a domain.

    Attributes
    ----------
    kernel : scikit-learn kernel
    posterior : PosteriorRule
    others : mapping of str to part
        Further fields of `Recipe`, by name.
    """

    kernel: Any
    posterior: PosteriorRule
    others: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Any]:
        """Return all parts, by their names in `Recipe`."""
        return {"kernel": self.kernel, "posterior": self.posterior, **self.others}


def choose_model(
    domain: Domain,
    kernel: Any | None,
    beta: Width | None,
    options: Options | None,
    *,
    asks: bool,
    has_history: bool = False,
) -> ModelParts:
    """Return the model for a domain.

    Parameters
    ----------
    domain, kernel, beta, options
        As for all policies; None: a default for the domain.
    asks : bool
        Whether an expert is queried, so that plays need not explore.
    has_history : bool
        Whether there are readings before the first decision, so that a network needs less exploration.
    """
    check_domain(domain)
    options = options_or_default(options)
    if kernel is not None:
        kernel = kernel_or_default(domain, kernel)
    posterior = resolve_posterior(options)
    is_default = kernel is None and posterior is None
    if not asks and is_default and isinstance(domain, Bounded) and not _is_line(domain):
        return make_box_model(domain, beta, options)
    # The user's kernel, rule of fits, prior mean or theorem's width needs a model with a fitted kernel.
    is_constant = beta is None or isinstance(as_confidence(beta), Fixed)
    may_be_unfitted = (
        is_default and options.refit is None and options.mean == "online" and is_constant
    )
    if not asks and may_be_unfitted and isinstance(domain, Arms):
        return make_arms_model(domain, beta)
    others: dict[str, Any] = {"beta": DEFAULT_WIDTH if beta is None else beta}
    is_plain = isinstance(domain, Candidates) and not domain.context and get_space(domain) is None
    is_small = is_plain and len(domain) <= CONFIG.ensemble_candidates  # type: ignore[arg-type]
    if may_be_unfitted and is_small:
        posterior = ModelEnsemble(both=True)
        if not asks:
            is_network = len(domain) <= MODEL_CONFIG.largest_network  # type: ignore[arg-type]
            others["acquisition"] = PersistentBound() if is_network else SpreadFirst()
            if is_network and has_history and beta is None:
                others["beta"] = CONFIG.history_width
    default_rule = Every() if asks else Every(space_spread=CONFIG.length_spread)
    rule = as_refit_rule(options.refit, default_rule)
    initial_kernel, rule, posterior = choose_kernel_to_fit(domain, kernel, rule, posterior)
    if posterior.self_learning:
        require(not options.refit, "an ensemble learns by itself: refit", "None", options.refit)
        return ModelParts(initial_kernel, posterior, others)
    return ModelParts(initial_kernel, posterior, others | {"learn": rule})


def make_arms_model(arms: Arms, beta: Width | None) -> ModelParts:
    """Return the model of independent arms: a filter for each, with Thompson sampling."""
    others = {
        "acquisition": ThompsonSampling(persistent=True, sharing_width=CONFIG.sharing_width),
        "batching": Batching(largest=1),
        "beta": CONFIG.arms_width if beta is None else beta,
    }
    return ModelParts(arms.space.kernel(), IndependentArms(), others)


def make_box_model(box: Any, beta: Width | None, options: Options) -> ModelParts:
    """Return the model of a box of several coordinates: a kernel fitted to the latest rewards.

    The 96 features of a Kalman filter are too few for such a box. On an interval they suffice, and a sum
    of kernels finds narrow peaks that move.
    """
    rule = as_refit_rule(options.refit, CONTEXT_RULE if box.context_parameters else BOX_RULE)
    others = {
        "learn": replace(rule, in_steps=True, rivals=(*rule.rivals, joint_box_kernel(box))),
        "aging": Window(last=CONFIG.box_rewards),
        "acquisition": RandomFirst(
            CONFIG.initial_points * count_box_coordinates(box), SampledBound()
        ),
        "beta": PlaysAtATime(compute_box_width(box)) if beta is None else beta,
    }
    return ModelParts(box_kernel(box), Exact(), others)


def _is_line(domain: Bounded) -> bool:
    """Return whether the domain is an interval or a circle, without any other coordinate."""
    is_circle = isinstance(domain, Space) and [*map(type, domain.parameters)] == [Periodic]
    return domain.dimension == 1 or is_circle


def compute_box_width(box: Bounded) -> float:
    """Return the confidence width on a box, which decreases with the number of its coordinates."""
    return min(
        CONFIG.box_width / count_box_coordinates(box), DEFAULT_WIDTH
    )  # a context is not explored


def count_box_coordinates(box: Bounded) -> int:
    """Return the number of coordinates without the context, where a category counts as one."""
    choices = box.action_domain
    return len(choices.names) if isinstance(choices, Space) else choices.dimension


def choose_kernel_to_fit(
    domain: Domain, kernel: Any | None, rule: Every, posterior: PosteriorRule | None
) -> tuple[Any, Every, PosteriorRule]:
    """Return an initial kernel, the rule of its fits with rival kernels, and a posterior for it."""
    is_given = kernel is not None and is_space_time(kernel)
    spaces = space_kernels(domain) if kernel is None else (kernel,)
    kernels = spaces if is_given else [structured_kernel(spaces[0], space) for space in spaces]
    initial_kernel, *rivals = kernels
    if posterior is None:
        posterior = StateSpace(None if isinstance(domain, Candidates) else anchors_of(domain))
    rule = replace(rule, rivals=(*rule.rivals, *rivals), in_steps=not is_given)
    return initial_kernel, rule, posterior
