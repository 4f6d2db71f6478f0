"""The parts that a bandit is made of, and what they are before anything is learned."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.batches import Batching, LocalRatio
from tvbandits.acquisition.limits import Limit
from tvbandits.acquisition.rules import Acquisition, UpperConfidenceBound
from tvbandits.acquisition.widths import DEFAULT_WIDTH, Confidence, Fixed, Situation, as_confidence
from tvbandits.bandit.history import COLUMNS, name_excess_column
from tvbandits.bandit.options import NEEDED_POSTERIOR, Options, check_mean
from tvbandits.data import Dataset, Source, median_time_step
from tvbandits.domains.candidates import Candidates, as_finite
from tvbandits.domains.domain import AtContext, Domain, append_context
from tvbandits.domains.space import Arms
from tvbandits.errors import PlayError
from tvbandits.forgetting.aging import Aging, Constant, Window, has_rate
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.additive import joint_box_kernel, space_kernels
from tvbandits.gp.ensemble.arms import IndependentArms
from tvbandits.gp.exact import Exact
from tvbandits.gp.kernel_matrix import check_kernel, inputs
from tvbandits.gp.kernels.space_time import Beside, is_space_time
from tvbandits.gp.noise import NoiseEstimate, estimate_from_variances, guess_noise, infer_noise
from tvbandits.gp.online import Every, scale_times
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.gp.predictions import has_slopes
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import (
    Array,
    as_bool,
    check_choice,
    check_instance,
    check_part,
    describe,
    noise_variance_number,
    nonnegative_number,
    require,
    set_fields,
)

# On so many candidates at the most an outcome's kernel is fitted; exact on so many readings.
MOST_FITTED, OUTCOME_READINGS = 2000, 400

# Columns of a campaign, and of the tables that are told to it.
OF_TABLES = ("site", "t", "key", "who")

# When the kernel of an outcome is fitted: often at first, since each of the first places tells much.
OUTCOME_RULE = Every(10, (4, 7, 10, 13, 16, 20, 24, 28, 32, 36, 40, 45, 50, 55), in_steps=True)


@dataclass(frozen=True)
class Recipe:
    """The parts of a policy.

    Parameters
    ----------
    domain : Domain
        Where it may play.
    kernel : scikit-learn kernel
        Prior covariance of the reward: over points, or over [point, time] where it is built from
        `OnSpace`, `OnTime` or `Drift`. See `mean` for its unit.
    noise_variance : float or None
        Noise variance of a reward told without a variance of its own (unit of reward squared). None: it
        is learned (`gp.noise`), at every doubling of the number of rewards up to 256.
    aging : Aging
        Effective noise variance of an old observation.
    posterior : Exact, Nystrom, NystromFilter, StateSpace, ModelEnsemble or IndependentArms
        How the posterior is computed: exactly, on a dictionary of inducing points, by a filter on one,
        for sums of space-time terms by a Kalman filter, or by many of them with a weight each. An
        ensemble of models has a kernel, a unit and a forgetting of its own: of `kernel` it takes what
        points share before the first observation, and `aging`, `learn`, `reset` and `mean` stay as they
        are by default.
    beta : Confidence
        The width beta; a constant 2 by default, and `Theory()` is the theorem's.
    mean : float or "online"
        A number is the fixed prior mean of the reward, with the kernel in the unit of reward squared.
        "online" learns a mean and a scale from the rewards seen; the kernel then describes the
        standardised reward.
    acquisition : Acquisition
        How beliefs become the next point: `UpperConfidenceBound`, `ThompsonSampling`, on candidates
        `SpreadFirst`, or `PersistentBound` on an ensemble of models.
    batching : Batching
        What ends a batch of points; one point by default.
    query_config : QueryConfig, optional
        What asks an expert.
    consult : "after tell" or "before ask"
        When the expert is asked: once the rewards of a decision are told, about their time, for the next
        decision (the order of SparQ-GP-UCB); or before a decision, about its own time. Either way it is
        asked once a decision, however its rewards are told.
    learn : Every, optional
        Learns how fast the reward changes from what is seen: the numbers of a kernel that sees time, by
        log evidence, or else the rate of the aging map, by its predictions. As given they are the start.
    reset : EventTrigger, optional
        Forgets everything older than a reward that is an event; nothing does by default.
    age_lag : float
        A decision at time t takes the ages of observations as of t - age_lag, though never before the
        newest one: 0 is the age at the decision; 1 is the convention of SparQ-GP-UCB, which decides
        for step t + 1 with the ages of step t.
    minimize : bool
        Smaller rewards are better. Everything that is told or shown keeps its sign.
    options : Options
        What applies to any bandit: limits, a control, the cost of moves, outliers, memory.

    Raises
    ------
    ValueError
        If a part is not what it must be, or parts do not fit together; the message names it. So it is
        for `max_history` where nothing can leave, since nothing is ever forgotten.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Box, Recipe
    >>> from tvbandits.forgetting.aging import Window
    >>> recipe = Recipe(Box([(0, 10)]), RBF(1.0), 0.01, aging=Window(last=60), beta=2.0)
    >>> print(replace(recipe, aging=Window(last=30)).aging)
    Window(last=30, within=None)
    """

    domain: Domain
    kernel: Any
    noise_variance: float | None
    aging: Aging = field(default_factory=Constant)
    posterior: PosteriorRule = field(default_factory=Exact)
    beta: Confidence = field(default_factory=lambda: Fixed(DEFAULT_WIDTH))
    mean: float | Literal["online"] = "online"
    acquisition: Acquisition = field(default_factory=UpperConfidenceBound)
    batching: Batching = field(default_factory=Batching)
    query_config: QueryConfig | None = None
    consult: Literal["after tell", "before ask"] = "after tell"
    learn: Every | None = None
    reset: EventTrigger | None = None
    age_lag: float = 0.0
    minimize: bool = False
    options: Options = field(default_factory=Options)

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            domain: Domain,
            kernel: Any,
            noise_variance: float | None,
            aging: Aging = ...,
            posterior: PosteriorRule = ...,
            beta: Confidence | float | str = ...,
            mean: float | Literal["online"] = "online",
            acquisition: Acquisition = ...,
            batching: Batching = ...,
            query_config: QueryConfig | None = None,
            consult: Literal["after tell", "before ask"] = "after tell",
            learn: Every | None = None,
            reset: EventTrigger | None = None,
            age_lag: float = 0.0,
            minimize: bool = False,
            options: Options = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", as_confidence(self.beta))
        optional = {each.name for each in fields(self) if each.default is None}
        for name, needs, by in _PARTS:
            part = getattr(self, name)
            if part is None and name in optional:
                continue
            if isinstance(by, str):
                check_part(name, part, needs, by)
            else:
                check_instance(name, part, by, needs)
        if isinstance(self.domain, AtContext):
            raise ValueError(
                f"a bandit plays on the whole domain, got {self.domain!r}: give "
                f"{self.domain.whole!r}, and context= to each ask"
            )
        rule = self.acquisition
        whole = hasattr(rule, "counts_pending") and hasattr(rule, "weighs_reward")
        require(whole, "acquisition", "of a class that inherits from Acquisition", rule)
        if self.posterior.self_learning:
            self._check_ensemble()
        self._check_numbers()
        if isinstance(self.batching.rule, LocalRatio):
            as_finite(self.domain, "the local batch rule")
        if (
            isinstance(self.domain, Candidates)
            and not self.domain.in_memory
            and not self.searches_top
        ):
            raise ValueError(
                "candidates that are not in memory need posterior=Nystrom(), a kernel over points, "
                "upper confidence bounds, no local batch rule, no limits, no control and no expert: "
                f"load them by Candidates(np.load(path)); got {self.domain!r} and {self.posterior!r}"
            )
        self.acquisition.check(self.domain, self.posterior)
        self._check_limits()
        if self.options.control is not None:
            self._check_control()
        if self.learn is not None and not (is_space_time(self.kernel) or has_rate(self.aging)):
            needs = "a kernel over points and time, or an aging map with a rate such as Wiener(0.1)"
            raise ValueError(f"learn= needs {needs}, got aging={describe(self.aging)}")
        points = self.domain.sample(32, np.random.default_rng(0))
        check_kernel(self.kernel, inputs(self.kernel, points, np.arange(32.0)))
        self.posterior.check(self.kernel)
        if self.options.max_history is not None:
            self._check_history()

    @cached_property
    def is_unrestricted(self) -> bool:
        """Whether a decision may go anywhere for nothing: no limits, no control, no cost of moves."""
        options = self.options
        return not options.limits and options.control is None and options.move_cost is None

    @cached_property
    def offers_all(self) -> bool:
        """Whether all of the domain is at hand where nothing is said: no context, and none retired."""
        domain = self.domain
        partly = isinstance(domain, Candidates) and bool(domain.context or domain.retired)
        return not (partly or domain.context_parameters)

    def is_control(self, X: Array) -> NDArray[np.bool_]:
        """Which of the points (n, d) are the control."""
        if self.options.control is None:
            return np.zeros(len(X), dtype=bool)
        return np.asarray((np.array(self.options.control) == X).all(axis=1))

    @cached_property
    def searches_top(self) -> bool:
        """Whether only the top of many candidates is looked at (`gp.top_candidates`)."""
        return (
            isinstance(self.domain, Candidates)
            and (len(self.domain) > MOST_LOOKED_AT or not self.domain.in_memory)
            and self.posterior.on_dictionary(self.kernel)
            and isinstance(self.acquisition, UpperConfidenceBound)
            and not isinstance(self.batching.rule, LocalRatio)
            and self.query_config is None
            and self.options.control is None
            and not self.options.limits
        )

    def _check_ensemble(self) -> None:
        """An ensemble of models has its own forgetting, unit and prior, and is told everything once."""
        count = len(as_finite(self.domain, "an ensemble of models"))
        usual = {"aging": Constant(), "learn": None, "reset": None, "mean": "online"}
        for name, plain in usual.items():
            value = getattr(self, name)
            require(value == plain, f"an ensemble learns by itself: {name}", f"{plain!r}", value)
        query_config = self.query_config
        if query_config is not None and not (
            query_config.reuse_answers and query_config.most_answers is None
        ):
            needs = "QueryConfig(reuse_answers=True, most_answers=None)"
            raise ValueError(f"an ensemble keeps every answer: give {needs}")
        situation = Situation(math.nan, 1, count, math.nan, lambda: math.nan)
        if not math.isfinite(self.beta(situation)):
            needs = "depends on the information gain under one kernel"
            raise ValueError(f"{self.beta!r} {needs}, and an ensemble has many: give a number")

    def _check_limits(self) -> None:
        options = self.options
        names = [limit.name for limit in options.limits]
        (point,) = self.domain.sample(1, np.random.default_rng(0))
        columns = self.domain.coordinate_names
        taken_names = set(names) & {*columns, *COLUMNS, *OF_TABLES}
        taken_names |= set(map(name_excess_column, options.limits)) & {*columns, *names}
        if taken_names:
            raise ValueError(
                f"an outcome may not be called as a column is, got {', '.join(taken_names)}"
            )
        none = isinstance(options.safe, list | tuple) and len(options.safe) == 0
        points, choices = options.safe, self.domain.action_domain
        with suppress(ValueError):  # places alone, which have no context
            points = append_context(choices.check(points, "safe"), point[choices.dimension :])
        safe = [] if none else self.domain.check(points, "safe").tolist()
        if safe and not options.limits:
            raise ValueError("safe points are for limits, and there are none")
        set_fields(self, options=replace(options, safe=tuple(map(tuple, safe))))

    def _check_control(self) -> None:
        """One point, that the posterior can hold others against."""
        domain = self.domain
        if domain.context_columns:
            raise ValueError(f"a control is for a domain without context, got {domain!r}")
        point = domain.check([self.options.control], "control")
        if isinstance(domain, Candidates) and domain.index(point)[0] in domain.retired:
            raise PlayError(
                "the control must be one that may be played, got {point}", point=point[0]
            )
        if self.options.robust:
            raise ValueError("robust=True needs a level that is known, which no control gives")
        if self.learn is not None or self.reset is not None:
            raise ValueError("a control needs a recipe that fits no kernel, nor starts afresh")
        learns = self.posterior.self_learning
        if not (learns or self.posterior.dense):
            raise ValueError(f"a control needs posterior=Exact(), got {self.posterior!r}")
        if learns and len(domain) > MOST_BESIDE:  # type: ignore[arg-type]
            most = f"at most {MOST_BESIDE} candidates against a control"
            raise ValueError(f"an ensemble holds {most}, got {domain!r}: give a kernel to gp_ucb")
        control = tuple(point[0].tolist())
        set_fields(self, options=replace(self.options, control=control))

    def _check_history(self) -> None:
        """So long that whatever is learned anew has enough to learn from; and something may leave it."""
        forgets = self.learn or self.reset or type(self.aging) is not Constant
        by_filter = is_space_time(self.kernel) and isinstance(self.domain, Candidates)
        if self.posterior.needs_all_rows and not (forgets or by_filter):
            parts = f"with {self.posterior!r} and {self.aging!r} every reward counts"
            most = self.options.max_history
            raise ValueError(f"nothing can leave the history: {parts}; got max_history={most}")

    @cached_property
    def posterior_with_control(self) -> PosteriorRule:
        """How the posterior is computed: by `posterior`, or by arms where an ensemble has a control."""
        rule, control = self.posterior, self.options.control
        if control is None or not rule.self_learning:
            return rule
        return IndependentArms(control, (0.0,) if rule.independent_points else LENGTHS)

    @cached_property
    def kernel_with_control(self) -> Any:
        """The kernel where nothing is fitted: of the reward, or of the difference to a control."""
        control = self.options.control
        if control is None or self.posterior.self_learning:
            return self.kernel
        return Beside(self.kernel, control)

    @property
    def bounds_have_slopes(self) -> bool:
        """Whether the upper bounds of several points have slopes, so that the search for each climbs."""
        rule, kernel = self.posterior_with_control, self.kernel_with_control
        return rule.dense and has_slopes(
            kernel, inputs(kernel, np.zeros((1, self.domain.dimension)), 0.0)
        )

    def make_outcome_recipe(self, limit: Limit) -> Recipe:
        """What is believed of an outcome: these beliefs, in a unit that is learned; nobody decides.

        On more points than those of a network one kernel is fitted instead, as on a box: an outcome has
        length scales and a drift of its own. An ensemble holds models that are wrong, too, and takes an
        outcome for less known than it is: at the edge of a limit that costs most.
        """
        posterior, domain = self.posterior, self.domain
        apart = posterior.independent_points or isinstance(domain, Arms)
        least = posterior.fewest_candidates_for_fit
        names = ("kernel", "aging", "posterior", "learn", "reset", "age_lag")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        if isinstance(domain, Candidates) and not apart and least <= len(domain) <= MOST_FITTED:
            latest = Window(last=OUTCOME_READINGS)
            parts = {"kernel": joint_box_kernel(domain), "aging": latest, "learn": OUTCOME_RULE}
        else:
            parts["posterior"] = posterior.for_other_outcome()
        parts["options"] = Options(max_history=self.options.max_history)
        return Recipe(domain, noise_variance=limit.noise_variance, **parts)

    def _check_numbers(self) -> None:
        if self.noise_variance is not None:
            noise_variance_number("noise_variance", self.noise_variance)
        check_mean(self.mean)
        nonnegative_number("age_lag", self.age_lag)
        as_bool("minimize", self.minimize)
        if self.options.move_cost is not None and not self.acquisition.weighs_reward:
            raise ValueError(f"{self.acquisition!r} weighs no rewards to take a move_cost from")
        check_choice("consult", self.consult, ("after tell", "before ask"))


# Of more candidates than this, a sparse posterior looks at those that lead.
MOST_LOOKED_AT = 4096

# Candidates that an ensemble holds against a control: each model has a covariance of all of them.
MOST_BESIDE = 200

# How far candidates may resemble each other then, in extents; 0: not at all.
LENGTHS = (0.0, 0.1, 0.3)

# The parts: what each must be, and the method or the class that tells it.
_PARTS: tuple[tuple[str, str, str | type], ...] = (
    ("domain", "a domain such as Candidates(X) or Box(bounds)", "maximize"),
    ("kernel", "a scikit-learn kernel object", Kernel),
    ("aging", "an aging map such as Window(last=20)", "__call__"),
    ("posterior", NEEDED_POSTERIOR, "condition"),
    ("beta", 'a width: a number, "theory" or a Confidence', "__call__"),
    ("acquisition", "UpperConfidenceBound() or another such rule", "choose"),
    ("learn", "a rule such as Every(30), or None", "is_due"),
    ("batching", "Batching(...)", Batching),
    ("query_config", "QueryConfig(...) or None", QueryConfig),
    ("reset", "EventTrigger(...) or None", EventTrigger),
    ("options", "Options(...)", Options),
)


def estimate_noise(recipe: Recipe, data: Dataset) -> NoiseEstimate | None:
    """Return the noise of observations without a variance of their own, as all suggest.

    Where all rewards have one of their own, the next is as noisy as they are. None: the recipe says it.
    """
    if recipe.noise_variance is not None:
        return None
    own = data.variance[data.source == Source.REWARD]
    if recipe.query_config is None or not recipe.query_config.reuse_answers:
        # Answers that do not stay would be missing once a reward is corrected.
        data = data.take(np.isnan(data.variance))
    mean = None if isinstance(recipe.mean, str) else recipe.mean
    if recipe.options.control is not None:
        data, mean = data.compute_time_contrasts(), None if mean is None else 0.0
    if np.isnan(data.variance).any():
        # The kernel that an ensemble of models has before any reading may be far too smooth.
        ensemble = recipe.posterior.self_learning and not recipe.posterior.independent_points
        rival = space_kernels(recipe.domain)[1] if ensemble else None
        return infer_noise(recipe.kernel, data, mean, rival)
    if len(own) and not np.isnan(own).any():
        return estimate_from_variances(own)
    points = recipe.domain.sample(32, np.random.default_rng(0))
    prior = recipe.kernel.diag(inputs(recipe.kernel, points, np.zeros(32)))
    return guess_noise(1.0 if mean is None else float(np.mean(prior)))


def make_initial_kernel(recipe: Recipe, rewards: Dataset) -> Any:
    """Return the kernel before the first fit: the recipe's, or that at the steps of these rewards."""
    in_steps = recipe.learn is not None and recipe.learn.in_steps
    return scale_times(recipe.kernel, median_time_step(rewards.t)) if in_steps else recipe.kernel
