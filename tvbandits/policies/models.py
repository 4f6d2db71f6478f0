"""Which model a domain gets, for the two policies that learn how their reward changes.

On candidates it is an ensemble of space-time models; on arms filters that share nothing; on a box of
several coordinates, or where a kernel is given, one kernel that is fitted by log evidence.
`docs/which-policy.md` has the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from tvbandits.acquisition.batches import Batching
from tvbandits.acquisition.rules import LastingBound, RandomFirst, SpreadFirst, ThompsonSampling
from tvbandits.acquisition.widths import Fixed, PlaysAtATime, as_confidence
from tvbandits.bandit.options import Options
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain, check_domain
from tvbandits.domains.parameters import Periodic
from tvbandits.domains.space import Arms, Space, space_of
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
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.online import Every
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.gp.state_space import StateSpace
from tvbandits.policies.common import (
    DEFAULT_WIDTH,
    Width,
    as_rule,
    options_or_default,
    posterior_of,
    prior_kernel,
)
from tvbandits.validation import require


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
        Rewards that the exact posterior on a box looks at, the latest: what a step may cost is bounded.
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
    box_rewards: int = 400
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
CONTEXT_RULE = replace(BOX_RULE, observations=300, remembered=CONFIG.box_rewards, space_spread=1.0)


@dataclass(frozen=True)
class Model:
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


def model_of(
    domain: Domain,
    kernel: Any | None,
    beta: Width | None,
    options: Options | None,
    *,
    asks: bool,
    has_history: bool = False,
) -> Model:
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
        kernel = prior_kernel(domain, kernel)
    posterior = posterior_of(options)
    is_free = kernel is None and posterior is None
    if not asks and is_free and isinstance(domain, Bounded) and not _is_line(domain):
        return box_model(domain, beta, options)
    # A kernel to start from, when to fit, a prior mean and a theorem's width: only a fit has these.
    constant = beta is None or isinstance(as_confidence(beta), Fixed)
    unfitted = is_free and options.refit is None and options.mean == "online" and constant
    if not asks and unfitted and isinstance(domain, Arms):
        return arms_model(domain, beta)
    others: dict[str, Any] = {"beta": DEFAULT_WIDTH if beta is None else beta}
    plain = isinstance(domain, Candidates) and not domain.context and space_of(domain) is None
    few = plain and len(domain) <= CONFIG.ensemble_candidates  # type: ignore[arg-type]
    if unfitted and few:
        posterior = ModelEnsemble(both=True)
        if not asks:
            network = len(domain) <= MODEL_CONFIG.largest_network  # type: ignore[arg-type]
            others["acquisition"] = LastingBound() if network else SpreadFirst()
            if network and has_history and beta is None:
                others["beta"] = CONFIG.history_width
    every = Every() if asks else Every(space_spread=CONFIG.length_spread)
    rule = as_rule(options.refit, every)
    start, rule, posterior = kernel_to_fit(domain, kernel, rule, posterior)
    if posterior.self_learning:
        require(not options.refit, "an ensemble learns by itself: refit", "None", options.refit)
        return Model(start, posterior, others)
    return Model(start, posterior, others | {"learn": rule})


def arms_model(arms: Arms, beta: Width | None) -> Model:
    """Return filters of arms that share nothing, played by Thompson sampling."""
    others = {
        "acquisition": ThompsonSampling(lasting=True, sharing=CONFIG.sharing_width),
        "batching": Batching(largest=1),
        "beta": CONFIG.arms_width if beta is None else beta,
    }
    return Model(arms.space.kernel(), IndependentArms(), others)


def box_model(box: Any, beta: Width | None, options: Options) -> Model:
    """Return kernels that are fitted to the latest rewards of a box of several coordinates.

    For these 96 features, as a filter has them, are too few. An interval keeps the sum of fields, which
    finds narrow peaks that move.
    """
    rule = as_rule(options.refit, CONTEXT_RULE if box.context_parameters else BOX_RULE)
    others = {
        "learn": replace(rule, in_steps=True, rivals=(*rule.rivals, joint_box_kernel(box))),
        "aging": Window(last=CONFIG.box_rewards),
        "acquisition": RandomFirst(CONFIG.initial_points * box_coordinates(box)),
        "beta": PlaysAtATime(box_width(box)) if beta is None else beta,
    }
    return Model(box_kernel(box), Exact(), others)


def _is_line(domain: Bounded) -> bool:
    """Whether there is one coordinate, such as an interval or a circle, and nothing else."""
    circle = isinstance(domain, Space) and [*map(type, domain.parameters)] == [Periodic]
    return domain.dimension == 1 or circle


def box_width(box: Bounded) -> float:
    """Return the width beta on a box: the more coordinates are chosen, the smaller it is."""
    return min(CONFIG.box_width / box_coordinates(box), DEFAULT_WIDTH)  # a context is not explored


def box_coordinates(box: Bounded) -> int:
    """Return how many coordinates are chosen: a category counts as one, and a context is not chosen."""
    choices = box.action_domain
    return len(choices.names) if isinstance(choices, Space) else choices.dimension


def kernel_to_fit(
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
