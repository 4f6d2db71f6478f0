"""What recipes have in common: the types and defaults of their parameters, and the bandit they make.

The two policies that learn how their reward changes have a model that suits their domain. On candidates
it is an ensemble of space-time models; on arms filters that share nothing; on a box of several
coordinates, or where a kernel is given, one kernel that is fitted by log evidence.
`docs/which-policy.md` has the table.
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

# A number that a policy may learn while it plays: "learn", or a rule that says when.
Rate: TypeAlias = float | Every | Literal["learn"] | None

# Posteriors by the words that stand for them.
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
        Readings before the first decision, as for `parse_history`.
    parts
        Further fields of `Recipe`.

    Raises
    ------
    ValueError
        If `options` ask for what the policy does not do.
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
            "minimum_batch and largest_batch are for a policy that says when a batch ends, "
            f"got {sizes[0]} and {sizes[1]}"
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
    """Return the kernel, or `default_kernel` in place of None.

    Raises
    ------
    ValueError
        If this is no domain, or no kernel.
    """
    check_domain(domain)
    if kernel is None:
        return default_kernel(domain)
    check_instance("kernel", kernel, Kernel, "a scikit-learn kernel")
    return kernel


def make_forgetting_kernel(kernel: Any, forgetting_rate: float | None) -> Any:
    """Return k(x, x') (1 - rate)^(abs(t - t') / 2) (Bogunovic 2016; [S] eq. 8).

    Without a rate a fit is to find it, which starts from 0.1.
    """
    if forgetting_rate is None:
        return space_time(fix_hyperparameters(kernel)) * Drift(0.1)
    finite_number("forgetting_rate", forgetting_rate, low=0.0, high=1.0)
    return space_time(kernel) * Drift(forgetting_rate, "fixed")  # so that it may also be 0


def options_or_default(options: Options | None) -> Options:
    """Return the options, or the usual ones in place of None; raise a `ValueError` for anything else."""
    if options is None:
        return Options()
    check_instance("options", options, Options, "Options(...)")
    return options


def default_kernel(domain: Domain) -> Any:
    """Return the kernel of a recipe to which none is given; its variance is 1.

    On named parameters it is Matern-5/2 with a length scale of a quarter of each range, elsewhere an RBF
    kernel with a length scale of 0.15 of the widest range. Nothing fits it, unless the policy learns.
    """
    check_domain(domain)
    space = get_space(domain)
    return space_kernels(domain)[0] if space is None else space.kernel()


def resolve_posterior(options: Options | None) -> PosteriorRule | None:
    """Return the posterior that options name, by a word of `POSTERIORS` or itself; None: none."""
    posterior = options_or_default(options).posterior
    if posterior is None:
        return None
    if isinstance(posterior, str):
        return POSTERIORS[posterior]
    return posterior


def set_season(posterior: PosteriorRule, season: Season, domain: Domain) -> PosteriorRule:
    """Return an ensemble with models of a season, or without; any other posterior as it is.

    Raises
    ------
    ValueError
        If a season is named, and the posterior is no ensemble; it names what suits the domain.
    """
    if isinstance(season, str) and season == "find":
        return posterior
    if isinstance(posterior, ModelEnsemble):
        return replace(posterior, season=season)
    if season is None:
        return posterior
    remedy = "Leave out kernel, refit, mean and posterior of your own, or leave season out"
    if isinstance(domain, Arms):
        remedy = (
            f"Arms have none: leave season out, or make them {len(domain)} points that are equally far "
            f"from each other, Candidates(numpy.eye({len(domain)}))"
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
    """Return the width that a name has in a paper, and any other as it is."""
    name = beta.casefold() if isinstance(beta, str) else ""
    return widths[name]() if name in widths else beta


def parse_rate(
    name: str, value: Rate, default: Every | None = None
) -> tuple[float | None, Every | None]:
    """Return a number that is fixed and None, or None and the rule by which it is learned.

    Parameters
    ----------
    name : str
        The argument, for the message of an error.
    value : float, Every, "learn" or None
        None is "learn".
    default : Every, optional
        The rule of "learn".
    """
    if isinstance(value, Every):
        return None, value
    if value is not None and not isinstance(value, str):
        return value, None
    check_optional(check_choice, f"{name}, if it is no number,", value, ("learn",))
    return None, default or Every()


def as_refit_rule(refit: Refit | None, default: Every) -> Every:
    """Return the rule that `refit` stands for; the default for None and True."""
    return default if refit is None or isinstance(refit, bool) else as_every(refit)


# --- the model that a domain gets --------------------------------------------------------------------


@dataclass(frozen=True)
class ModelChoice:
    """The numbers that the choice of a model depends on.

    Attributes
    ----------
    ensemble_candidates : int
        An ensemble is the default on up to so many candidates: it holds a hundred features of each.
    history_width : float
        Width of a decision on a network with a history, which has explored it; chosen, among 0, 0.5, 1
        and 2, on seven networks.
    arms_width : float
        How far draws on arms deviate, in lasting deviations; chosen, among 0.5, 0.7 and 1, on arms that
        keep their rate, walk, or switch.
    sharing_width : float
        How far draws deviate where more plays than arms are shared out; chosen, among 0.35, 0.5, 0.7 and
        1, on counts of six arms under a daily cycle, that stay, wave, walk or switch.
    length_spread : float
        Spread of the prior on the logarithm of a length scale, for a bandit that has no expert. It
        learns from the points that it plays alone; under a narrower prior it may never find out that
        one is short.
    box_rewards : int
        Of so many rewards on a box, the latest, the posterior selects some (`Every.remembered`): what a
        step may cost is bounded. Chosen among 400 and 2,000 on a heat pump and on peaks that move: with
        400, a category that was played only at first becomes unknown again, and is tried anew.
    context_rewards : int
        How many of them are selected where a context is measured.
    box_width : float
        Width of a decision on a box of d coordinates, times d: the places to explore multiply with
        every coordinate and the plays do not, and 2 in three coordinates goes on exploring corners.
        Chosen, among constants over sqrt d and over d, on Levy, Styblinski-Tang, Rastrigin and random
        dips.
    initial_points : int
        Plays at random to begin with, for each coordinate of a box that is chosen.
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

# When a kernel is learned on a box: more often than on candidates, since there is more to learn.
BOX_RULE = Every(
    30,
    (4, 7, 10, 13, 16, 20, 24, 28, 32, 36, 40, 45, 50, 55, 70, 80, 100, 110, 130, 140, 160),
    observations=160,
    recent=0.5,
    in_steps=True,
    remembered=200,
    diverse=True,
)

# Where a context is measured: its values come back, and what is old tells about them. Chosen on four
# made processes of two to four numbers.
CONTEXT_RULE = replace(
    BOX_RULE, observations=300, remembered=CONFIG.context_rewards, space_spread=1.0
)


@dataclass(frozen=True)
class ModelParts:
    """A kernel, a posterior, and other parts of a recipe that suit them.

    Attributes
    ----------
    kernel : scikit-learn kernel
    posterior : PosteriorRule
    others : mapping of str to part
        As `Recipe` calls them.
    """

    kernel: Any
    posterior: PosteriorRule
    others: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Any]:
        """All parts of a recipe, by name."""
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
    """Return the model of a domain.

    Parameters
    ----------
    domain, kernel, beta, options
        As of the recipes; None: what suits.
    asks : bool
        Whether an expert is asked: then questions explore, and plays need not.
    has_history : bool
        Whether there are readings before the first decision: these have explored a network.
    """
    check_domain(domain)
    options = options_or_default(options)
    if kernel is not None:
        kernel = kernel_or_default(domain, kernel)
    posterior = resolve_posterior(options)
    is_free = kernel is None and posterior is None
    if not asks and is_free and isinstance(domain, Bounded) and not _is_line(domain):
        return make_box_model(domain, beta, options)
    # A kernel to start from, when to fit, a prior mean and a theorem's width: only a fit has these.
    constant = beta is None or isinstance(as_confidence(beta), Fixed)
    unfitted = is_free and options.refit is None and options.mean == "online" and constant
    if not asks and unfitted and isinstance(domain, Arms):
        return make_arms_model(domain, beta)
    others: dict[str, Any] = {"beta": DEFAULT_WIDTH if beta is None else beta}
    plain = isinstance(domain, Candidates) and not domain.context and get_space(domain) is None
    few = plain and len(domain) <= CONFIG.ensemble_candidates  # type: ignore[arg-type]
    if unfitted and few:
        posterior = ModelEnsemble(both=True)
        if not asks:
            network = len(domain) <= MODEL_CONFIG.largest_network  # type: ignore[arg-type]
            others["acquisition"] = PersistentBound() if network else SpreadFirst()
            if network and has_history and beta is None:
                others["beta"] = CONFIG.history_width
    every = Every() if asks else Every(space_spread=CONFIG.length_spread)
    rule = as_refit_rule(options.refit, every)
    start, rule, posterior = choose_kernel_to_fit(domain, kernel, rule, posterior)
    if posterior.self_learning:
        require(not options.refit, "an ensemble learns by itself: refit", "None", options.refit)
        return ModelParts(start, posterior, others)
    return ModelParts(start, posterior, others | {"learn": rule})


def make_arms_model(arms: Arms, beta: Width | None) -> ModelParts:
    """Return filters of arms that share nothing, played by Thompson sampling."""
    others = {
        "acquisition": ThompsonSampling(persistent=True, sharing_width=CONFIG.sharing_width),
        "batching": Batching(largest=1),
        "beta": CONFIG.arms_width if beta is None else beta,
    }
    return ModelParts(arms.space.kernel(), IndependentArms(), others)


def make_box_model(box: Any, beta: Width | None, options: Options) -> ModelParts:
    """Return kernels that are fitted to the latest rewards of a box of several coordinates.

    For these 96 features, as a filter has them, are too few. An interval keeps the sum of fields, which
    finds narrow peaks that move.
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
    """Whether there is one coordinate, such as an interval or a circle, and nothing else."""
    circle = isinstance(domain, Space) and [*map(type, domain.parameters)] == [Periodic]
    return domain.dimension == 1 or circle


def compute_box_width(box: Bounded) -> float:
    """Return the width beta on a box: the more coordinates are chosen, the smaller it is."""
    return min(
        CONFIG.box_width / count_box_coordinates(box), DEFAULT_WIDTH
    )  # a context is not explored


def count_box_coordinates(box: Bounded) -> int:
    """Return how many coordinates are chosen: a category counts as one, and a context is not chosen."""
    choices = box.action_domain
    return len(choices.names) if isinstance(choices, Space) else choices.dimension


def choose_kernel_to_fit(
    domain: Domain, kernel: Any | None, every: Every, posterior: PosteriorRule | None
) -> tuple[Any, Every, PosteriorRule]:
    """Return a kernel to start from, the rule of its fits with its rivals, and a posterior for it."""
    own = kernel is not None and is_space_time(kernel)
    spaces = space_kernels(domain) if kernel is None else (kernel,)
    first, *others = spaces if own else [structured_kernel(spaces[0], each) for each in spaces]
    if posterior is None:
        posterior = StateSpace(None if isinstance(domain, Candidates) else anchors_of(domain))
    rule = replace(every, rivals=(*every.rivals, *others), in_steps=not own)
    return first, rule, posterior
