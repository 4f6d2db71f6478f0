"""The recipe of a bandit: its parts, their checks, and their values before anything is learned."""

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

# The largest number of candidates on which the kernel of an outcome is fitted, and the number of latest
# readings in its exact posterior.
MOST_FITTED, OUTCOME_READINGS = 2000, 400

# The names of columns in a campaign and in its tables.
TABLE_COLUMNS = ("site", "t", "key", "who")

# When the kernel of an outcome is fitted: often at first, when each new point changes the fit.
OUTCOME_RULE = Every(10, (4, 7, 10, 13, 16, 20, 24, 28, 32, 36, 40, 45, 50, 55), in_steps=True)


@dataclass(frozen=True)
class Recipe:
    """The recipe of a policy: all its parts.

    Parameters
    ----------
    domain : Domain
        The domain of the points.
    kernel : scikit-learn kernel
        Prior covariance of the reward: over points, or over [point, time] if it contains `OnSpace`,
        `OnTime` or `Drift`. See `mean` for its unit.
    noise_variance : float or None
        Noise variance of rewards without a variance of their own (unit of reward squared). None: it is
        learned (`gp.noise`), at every doubling of the number of rewards up to 256.
    aging : Aging
        Effective noise variance of an old observation.
    posterior : Exact, Nystrom, NystromFilter, StateSpace, ModelEnsemble or IndependentArms
        How the posterior is computed: exactly, on a dictionary of inducing points, by a filter on such a
        dictionary, by a Kalman filter for sums of space-time terms, or by an ensemble of Kalman filters.
        An ensemble learns its own kernels, unit and forgetting. It uses `kernel` only for the
        correlation of points before the first observation, and needs the defaults of `aging`, `learn`,
        `reset` and `mean`.
    beta : Confidence
        The confidence width beta; a constant 2 by default; `Theory()` is that of the theorem.
    mean : float or "online"
        A number is the fixed prior mean of the reward, with the kernel in the unit of reward squared.
        "online" learns a mean and a scale from the rewards; the kernel then describes the standardised
        reward.
    acquisition : Acquisition
        How a point is chosen from the posterior: `UpperConfidenceBound`, `ThompsonSampling`, on
        candidates `SpreadFirst`, or `PersistentBound` on an ensemble of models.
    batching : Batching
        The rule that ends a batch of points; one point by default.
    query_config : QueryConfig, optional
        The query plan for an expert, and the expert.
    consult : "after tell" or "before ask"
        When the expert is queried: after the rewards of a decision are told, about their time, for the
        next decision (the order of SparQ-GP-UCB); or before a decision, about its own time. In both
        cases there is one query for each decision, even if its rewards are told in several calls.
    learn : Every, optional
        When to learn how fast the reward changes: by fitting a kernel over points and time by its
        evidence, or else the rate of the aging map by its predictions. Their numbers in the recipe are
        the initial values.
    reset : EventTrigger, optional
        A rule for events at which everything older is forgotten; none by default.
    age_lag : float
        A decision at time t uses the ages of observations at t - age_lag, or at the time of the newest
        observation if that is later. 0 is the age at the decision; 1 is the convention of SparQ-GP-UCB,
        which decides for step t + 1 with the ages of step t.
    minimize : bool
        Whether smaller rewards are better. Rewards and predictions keep their sign.
    options : Options
        Options of any bandit: limits, a control, a move cost, outliers, memory.

    Raises
    ------
    ValueError
        If a part is invalid, or parts do not fit together; the message names it. This includes
        `max_history` if the bandit never forgets an observation.

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

    if TYPE_CHECKING:  # the arguments may be of more types than the fields

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
        optional = {item.name for item in fields(self) if item.default is None}
        for name, needs, criterion in _PARTS:
            part = getattr(self, name)
            if part is None and name in optional:
                continue
            if isinstance(criterion, str):
                check_part(name, part, needs, criterion)
            else:
                check_instance(name, part, criterion, needs)
        if isinstance(self.domain, AtContext):
            raise ValueError(
                f"the domain must be that of all contexts, got {self.domain!r}: give "
                f"{self.domain.whole!r}, and context= to each ask"
            )
        rule = self.acquisition
        is_complete = hasattr(rule, "counts_pending") and hasattr(rule, "weighs_reward")
        require(is_complete, "acquisition", "of a class that inherits from Acquisition", rule)
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
        """Return whether there are no limits, no control and no move cost."""
        options = self.options
        return not options.limits and options.control is None and options.move_cost is None

    @cached_property
    def offers_all(self) -> bool:
        """Return whether all points are available by default: no context and no retired candidates."""
        domain = self.domain
        has_restriction = isinstance(domain, Candidates) and bool(domain.context or domain.retired)
        return not (has_restriction or domain.context_parameters)

    def is_control(self, X: Array) -> NDArray[np.bool_]:
        """Return a mask (n,) of the points (n, d) that are the control."""
        if self.options.control is None:
            return np.zeros(len(X), dtype=bool)
        return np.asarray((np.array(self.options.control) == X).all(axis=1))

    @cached_property
    def searches_top(self) -> bool:
        """Return whether decisions only evaluate the top of many candidates (`gp.top_candidates`)."""
        return (
            isinstance(self.domain, Candidates)
            and (len(self.domain) > MOST_EVALUATED or not self.domain.in_memory)
            and self.posterior.on_dictionary(self.kernel)
            and isinstance(self.acquisition, UpperConfidenceBound)
            and not isinstance(self.batching.rule, LocalRatio)
            and self.query_config is None
            and self.options.control is None
            and not self.options.limits
        )

    def _check_ensemble(self) -> None:
        """Check the parts that an ensemble of models replaces by its own, and its answers and width.

        An ensemble has its own forgetting, unit and prior, and observes each answer once.
        """
        count = len(as_finite(self.domain, "an ensemble of models"))
        defaults = {"aging": Constant(), "learn": None, "reset": None, "mean": "online"}
        for name, default in defaults.items():
            value = getattr(self, name)
            require(
                value == default, f"an ensemble learns by itself: {name}", f"{default!r}", value
            )
        config = self.query_config
        if config is not None and not (config.reuse_answers and config.most_answers is None):
            needs = "QueryConfig(reuse_answers=True, most_answers=None)"
            raise ValueError(f"an ensemble keeps all answers, got {config!r}: give {needs}")
        situation = Situation(math.nan, 1, count, math.nan, lambda: math.nan)
        if not math.isfinite(self.beta(situation)):
            reason = "depends on the information gain under one kernel"
            raise ValueError(f"{self.beta!r} {reason}, but an ensemble has many: give a number")

    def _check_limits(self) -> None:
        """Check the names of outcomes, and the safe points, which become tuples."""
        options = self.options
        names = [limit.name for limit in options.limits]
        (point,) = self.domain.sample(1, np.random.default_rng(0))
        columns = self.domain.coordinate_names
        conflicts = set(names) & {*columns, *COLUMNS, *TABLE_COLUMNS}
        conflicts |= set(map(name_excess_column, options.limits)) & {*columns, *names}
        if conflicts:
            raise ValueError(
                f"outcomes must not have the names of columns, got {', '.join(conflicts)}: rename them"
            )
        is_empty = isinstance(options.safe, list | tuple) and len(options.safe) == 0
        points, choices = options.safe, self.domain.action_domain
        with suppress(ValueError):  # the points may be given without a context
            points = append_context(choices.check(points, "safe"), point[choices.dimension :])
        safe = [] if is_empty else self.domain.check(points, "safe").tolist()
        if safe and not options.limits:
            raise ValueError(
                "safe points need limits, and there are none: give limits, or leave out safe"
            )
        set_fields(self, options=replace(options, safe=tuple(map(tuple, safe))))

    def _check_control(self) -> None:
        """Check that the control is a point of the domain, and that the recipe can use one."""
        domain = self.domain
        if domain.context_columns:
            raise ValueError(f"a control is for a domain without context, got {domain!r}")
        point = domain.check([self.options.control], "control")
        if isinstance(domain, Candidates) and domain.index(point)[0] in domain.retired:
            raise PlayError(
                "the control must be a candidate that is not retired, got {point}", point=point[0]
            )
        if self.options.robust:
            raise ValueError(
                "robust=True needs rewards with a known level, but with a control it is unknown: leave "
                "one of them out"
            )
        if self.learn is not None or self.reset is not None:
            raise ValueError(
                "a control needs a policy that neither fits a kernel nor resets at events, "
                "such as gp_ucb"
            )
        self_learning = self.posterior.self_learning
        if not (self_learning or self.posterior.dense):
            raise ValueError(f"a control needs posterior=Exact(), got {self.posterior!r}")
        if self_learning and len(domain) > MOST_WITH_CONTROL:  # type: ignore[arg-type]
            raise ValueError(
                f"an ensemble with a control takes at most {MOST_WITH_CONTROL} candidates, "
                f"got {domain!r}: give a kernel to gp_ucb"
            )
        control = tuple(point[0].tolist())
        set_fields(self, options=replace(self.options, control=control))

    def _check_history(self) -> None:
        """Check that the recipe forgets observations, so that the history can be limited."""
        forgets = self.learn or self.reset or type(self.aging) is not Constant
        by_filter = is_space_time(self.kernel) and isinstance(self.domain, Candidates)
        if self.posterior.needs_all_rows and not (forgets or by_filter):
            raise ValueError(
                f"the history cannot be limited: with {self.posterior!r} and {self.aging!r} all rewards "
                f"are used for ever; got max_history={self.options.max_history}: leave it out"
            )

    @cached_property
    def posterior_with_control(self) -> PosteriorRule:
        """Return `posterior`, or the rule for independent arms if an ensemble has a control."""
        rule, control = self.posterior, self.options.control
        if control is None or not rule.self_learning:
            return rule
        return IndependentArms(control, (0.0,) if rule.independent_points else LENGTHS)

    @cached_property
    def kernel_with_control(self) -> Any:
        """Return the kernel of the recipe: of the reward, or of its difference from a control."""
        control = self.options.control
        if control is None or self.posterior.self_learning:
            return self.kernel
        return Beside(self.kernel, control)

    @property
    def bounds_have_slopes(self) -> bool:
        """Return whether upper bounds have slopes, so that the search can use gradient ascent."""
        rule, kernel = self.posterior_with_control, self.kernel_with_control
        return rule.dense and has_slopes(
            kernel, inputs(kernel, np.zeros((1, self.domain.dimension)), 0.0)
        )

    def make_outcome_recipe(self, limit: Limit) -> Recipe:
        """Return the recipe of the model of a limited outcome, in a unit that is learned.

        It has the same model as the reward. On candidates, unless there are few, one kernel is fitted
        instead, as on a box: an outcome has its own length scales and drift. The variance of an ensemble
        is too large there, since it also contains wrong models, and that costs most at the edge of a
        limit.
        """
        posterior, domain = self.posterior, self.domain
        is_independent = posterior.independent_points or isinstance(domain, Arms)
        least = posterior.fewest_candidates_for_fit
        names = ("kernel", "aging", "posterior", "learn", "reset", "age_lag")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        if (
            isinstance(domain, Candidates)
            and not is_independent
            and least <= len(domain) <= MOST_FITTED
        ):
            window = Window(last=OUTCOME_READINGS)
            parts = {"kernel": joint_box_kernel(domain), "aging": window, "learn": OUTCOME_RULE}
        else:
            parts["posterior"] = posterior.for_other_outcome()
        parts["options"] = Options(max_history=self.options.max_history)
        return Recipe(domain, noise_variance=limit.noise_variance, **parts)

    def _check_numbers(self) -> None:
        """Check the numbers, the order of queries, and that the acquisition can use a move cost."""
        if self.noise_variance is not None:
            noise_variance_number("noise_variance", self.noise_variance)
        check_mean(self.mean)
        nonnegative_number("age_lag", self.age_lag)
        as_bool("minimize", self.minimize)
        if self.options.move_cost is not None and not self.acquisition.weighs_reward:
            raise ValueError(
                f"a move_cost is subtracted from rewards, which {self.acquisition!r} does not use: "
                "leave it out"
            )
        check_choice("consult", self.consult, ("after tell", "before ask"))


# With more candidates than this, decisions with a sparse posterior only evaluate the top.
MOST_EVALUATED = 4096

# The largest number of candidates of an ensemble with a control, whose models have full covariances.
MOST_WITH_CONTROL = 200

# Length scales of candidates in an ensemble with a control, in extents; 0: they are independent.
LENGTHS = (0.0, 0.1, 0.3)

# The parts of a recipe: name, requirement, and the method or the class by which it is checked.
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
    """Return an estimate of the noise variance of observations that have none of their own.

    If all rewards have one, the estimate is based on these. None: the recipe states the variance.
    """
    if recipe.noise_variance is not None:
        return None
    reward_variance = data.variance[data.source == Source.REWARD]
    if recipe.query_config is None or not recipe.query_config.reuse_answers:
        # Answers that are not kept would be missing when a correction repeats the estimate.
        data = data.take(np.isnan(data.variance))
    mean = None if isinstance(recipe.mean, str) else recipe.mean
    if recipe.options.control is not None:
        data, mean = data.compute_time_contrasts(), None if mean is None else 0.0
    if np.isnan(data.variance).any():
        # The kernel of a recipe with an ensemble, which is not fitted, may be far too smooth.
        is_ensemble = recipe.posterior.self_learning and not recipe.posterior.independent_points
        rival = space_kernels(recipe.domain)[1] if is_ensemble else None
        return infer_noise(recipe.kernel, data, mean, rival)
    if len(reward_variance) and not np.isnan(reward_variance).any():
        return estimate_from_variances(reward_variance)
    points = recipe.domain.sample(32, np.random.default_rng(0))
    prior = recipe.kernel.diag(inputs(recipe.kernel, points, np.zeros(32)))
    return guess_noise(1.0 if mean is None else float(np.mean(prior)))


def make_initial_kernel(recipe: Recipe, rewards: Dataset) -> Any:
    """Return the kernel before the first fit, with the rewards' time step if it counts in steps."""
    in_steps = recipe.learn is not None and recipe.learn.in_steps
    return scale_times(recipe.kernel, median_time_step(rewards.t)) if in_steps else recipe.kernel
