"""What a bandit is made of; and a state for it: the first one, and one that another recipe has left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.batches import Batching, LocalRatio
from tvbandits.acquisition.confidence import (
    DEFAULT_WIDTH,
    Confidence,
    Fixed,
    Situation,
    as_confidence,
)
from tvbandits.acquisition.limits import Limit
from tvbandits.acquisition.rules import Acquisition, UpperConfidenceBound
from tvbandits.bandit.history import COLUMNS
from tvbandits.bandit.options import Options
from tvbandits.bandit.state import ModelState, Questions, State
from tvbandits.data import Dataset, Record
from tvbandits.domains.candidates import (
    Candidates,
    CandidatesInContext,
    as_finite,
    candidates_of,
    with_others,
    with_retired,
)
from tvbandits.domains.context import chosen_of, coordinate_names, joined, measured
from tvbandits.domains.domain import Domain
from tvbandits.domains.space import Arms
from tvbandits.domains.space_kernel import with_arms
from tvbandits.forgetting.aging import Aging, Constant, Paced, Window, has_pace
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.ensemble.arms import IndependentArms
from tvbandits.gp.ensemble.models import CONFIG as MODEL_CONFIG
from tvbandits.gp.exact import Exact
from tvbandits.gp.fitting.calibration import IntervalCalibration
from tvbandits.gp.fitting.noise import NoiseEstimate, estimated_noise, first_guess
from tvbandits.gp.fitting.online import Every, at_step, step_of
from tvbandits.gp.fitting.standardisation import Scaling
from tvbandits.gp.kernels.additive import joint_box_kernel, space_kernels
from tvbandits.gp.kernels.space_time import Beside
from tvbandits.gp.kernels.structure import check_kernel, inputs, is_space_time
from tvbandits.gp.kernels.terms import same_form
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.queries.plans import Asking, CandidatePool
from tvbandits.validation import (
    LARGEST_VALUE,
    Array,
    as_points,
    check_part,
    choice,
    flag,
    is_finite_number,
    noise_variance_number,
    not_negative,
    of_kind,
    require,
    settle,
    shown,
)

# On so many candidates at the most an outcome's kernel is fitted; exact on so many readings.
MOST_FITTED, OUTCOME_READINGS = 2000, 400

# Columns of a campaign, and of the tables that are told to it.
OF_TABLES = ("site", "t", "key", "who")

# When: an outcome is learned at few places first, and each new one tells much.
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
        is learned (`gp.fitting.noise`), at every doubling of the number of rewards up to 256.
    aging : Aging
        Effective noise variance of an old observation.
    posterior : Exact, Nystrom, NystromFilter, StateSpace, ModelEnsemble or IndependentArms
        How the posterior is computed: exactly, on a dictionary of inducing points, by a filter on one,
        for sums of space-time terms by a Kalman filter, or by many of them with a weight each. An
        ensemble of models has a kernel, a unit and a forgetting of its own: of `kernel` it takes what
        points share before the first observation, and `aging`, `learn`, `reset` and `mean` stay as they
        are by default.
    confidence : Confidence
        The width beta; a constant 2 by default, and `Theory()` is the theorem's.
    mean : float or "online"
        A number is the fixed prior mean of the reward, with the kernel in the unit of reward squared.
        "online" learns a centre and a scale from the rewards seen; the kernel then describes the
        standardised reward.
    acquisition : Acquisition
        How beliefs become the next point: `UpperConfidenceBound`, `ThompsonSampling`, on candidates
        `SpreadFirst`, or `LastingBound` on an ensemble of models.
    batching : Batching
        What ends a batch of points; one point by default.
    asking : Asking, optional
        What asks an expert.
    consult : "after tell" or "before ask"
        When the expert is asked: once the rewards of a decision are told, about their time, for the next
        decision (the order of SparQ-GP-UCB); or before a decision, about its own time. Either way it is
        asked once a decision, however its rewards are told.
    learn : Every, optional
        Learns how fast the reward changes from what is seen: the numbers of a kernel that sees time, by
        log evidence, or else the pace of the aging map, by its predictions. As given they are the start.
    reset : EventTrigger, optional
        Forgets everything older than a reward that is an event; nothing does by default.
    lead : float
        A decision at time t takes the ages of observations as of t - lead, though never before the
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
    >>> recipe = Recipe(Box([(0, 10)]), RBF(1.0), 0.01, aging=Window(last=60), confidence=2.0)
    >>> print(replace(recipe, aging=Window(last=30)).aging)
    Window(last=30, within=None)
    """

    domain: Domain
    kernel: Any
    noise_variance: float | None
    aging: Aging = field(default_factory=Constant)
    posterior: PosteriorRule = field(default_factory=Exact)
    confidence: Confidence = field(default_factory=lambda: Fixed(DEFAULT_WIDTH))
    mean: float | Literal["online"] = "online"
    acquisition: Acquisition = field(default_factory=UpperConfidenceBound)
    batching: Batching = field(default_factory=Batching)
    asking: Asking | None = None
    consult: Literal["after tell", "before ask"] = "after tell"
    learn: Every | None = None
    reset: EventTrigger | None = None
    lead: float = 0.0
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
            confidence: Confidence | float | str = ...,
            mean: float | Literal["online"] = "online",
            acquisition: Acquisition = ...,
            batching: Batching = ...,
            asking: Asking | None = None,
            consult: Literal["after tell", "before ask"] = "after tell",
            learn: Every | None = None,
            reset: EventTrigger | None = None,
            lead: float = 0.0,
            minimize: bool = False,
            options: Options = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", as_confidence(self.confidence))
        optional = {each.name for each in fields(self) if each.default is None}
        for name, needs, by in _PARTS:
            part = getattr(self, name)
            if part is None and name in optional:
                continue
            if isinstance(by, str):
                check_part(name, part, needs, by)
            else:
                of_kind(name, part, by, needs)
        if self.posterior.self_learning:
            self._check_ensemble()
        self._check_numbers()
        if isinstance(self.batching.rule, LocalRatio):
            as_finite(self.domain, "the local batch rule")
        if isinstance(self.domain, Candidates) and not self.domain.held and not self.by_leaders:
            raise ValueError(
                "candidates that are not in memory need posterior=Nystrom(), a kernel over points, "
                "upper confidence bounds, no local batch rule, no limits, no control and no expert: "
                f"load them by Candidates(np.load(path)); got {self.domain!r} and {self.posterior!r}"
            )
        self.acquisition.check(self.domain, self.posterior)
        self._check_limits()
        if self.options.control is not None:
            self._check_control()
        if self.learn is not None and not (is_space_time(self.kernel) or has_pace(self.aging)):
            needs = "a kernel over points and time, or an aging map with a pace such as Wiener(0.1)"
            raise ValueError(f"learn= needs {needs}, got aging={shown(self.aging)}")
        points = self.domain.sample(32, np.random.default_rng(0))
        check_kernel(self.kernel, inputs(self.kernel, points, np.arange(32.0)))
        self.posterior.check(self.kernel)
        if self.options.max_history is not None:
            self._check_history()

    @cached_property
    def chooses_plainly(self) -> bool:
        """Whether a decision may go anywhere for nothing: no limits, no control, no cost of moves."""
        options = self.options
        return not options.limits and options.control is None and options.move_cost is None

    @cached_property
    def offers_all(self) -> bool:
        """Whether all of the domain is at hand where nothing is said: no context, and none retired."""
        domain = self.domain
        partly = isinstance(domain, Candidates) and bool(domain.context or domain.retired)
        return not (partly or measured(domain))

    def is_control(self, X: Array) -> NDArray[np.bool_]:
        """Which of the points (n, d) are the control."""
        if self.options.control is None:
            return np.zeros(len(X), dtype=bool)
        return np.asarray((np.array(self.options.control) == X).all(axis=1))

    @cached_property
    def by_leaders(self) -> bool:
        """Whether only those of many candidates that lead are looked at (`gp.top_candidates`)."""
        return (
            isinstance(self.domain, Candidates)
            and (len(self.domain) > MOST_LOOKED_AT or not self.domain.held)
            and self.posterior.on_dictionary(self.kernel)
            and isinstance(self.acquisition, UpperConfidenceBound)
            and not isinstance(self.batching.rule, LocalRatio)
            and self.asking is None
            and self.options.control is None
            and not self.options.limits
        )

    def _check_ensemble(self) -> None:
        """An ensemble of models has its own forgetting, unit and prior, and is told everything once."""
        count = len(as_finite(self.domain, "an ensemble of models"))
        usual = {"aging": Constant(), "learn": None, "reset": None, "mean": "online"}
        for name, plain in usual.items():
            given = getattr(self, name)
            require(given == plain, f"an ensemble learns by itself: {name}", f"{plain!r}", given)
        asking = self.asking
        if asking is not None and not (asking.reuse_answers and asking.most_answers is None):
            given = "Asking(reuse_answers=True, most_answers=None)"
            raise ValueError(f"an ensemble keeps every answer: give {given}")
        situation = Situation(math.nan, 1, count, math.nan, lambda: math.nan)
        if not math.isfinite(self.confidence(situation)):
            needs = "depends on the information gain under one kernel"
            raise ValueError(
                f"{self.confidence!r} {needs}, and an ensemble has many: give a number"
            )

    def _check_limits(self) -> None:
        options = self.options
        names = [limit.name for limit in options.limits]
        shown_as = getattr(self.domain, "decode", None)
        (point,) = self.domain.sample(1, np.random.default_rng(0))
        columns = coordinate_names(self.domain) if shown_as is None else shown_as([point]).columns
        if taken := set(names) & {*columns, *COLUMNS, *OF_TABLES}:
            raise ValueError(f"an outcome may not be called as a column is, got {', '.join(taken)}")
        none = isinstance(options.safe, list | tuple) and len(options.safe) == 0
        given, chosen = options.safe, chosen_of(self.domain)
        with suppress(ValueError):  # places alone, which have no context
            given = joined(chosen.check(given, "safe"), point[chosen.dimension :])
        safe = [] if none else self.domain.check(given, "safe").tolist()
        if safe and not options.limits:
            raise ValueError("safe points are for limits, and there are none")
        settle(self, options=replace(options, safe=tuple(map(tuple, safe))))

    def _check_control(self) -> None:
        """One point, that the posterior can hold others against."""
        domain = self.domain
        if getattr(domain, "context", ()) or measured(domain):
            raise ValueError(f"a control is for a domain without context, got {domain!r}")
        point = domain.check([self.options.control], "control")
        if isinstance(domain, Candidates) and domain.index(point)[0] in domain.retired:
            raise ValueError(f"the control must be one that may be played, got {point[0].tolist()}")
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
        settle(self, options=replace(self.options, control=control))

    def _check_history(self) -> None:
        """So long that whatever is learned anew has enough to learn from; and something may leave it."""
        forgets = self.learn or self.reset or type(self.aging) is not Constant
        by_filter = is_space_time(self.kernel) and isinstance(self.domain, Candidates)
        if self.posterior.in_rows and not (forgets or by_filter):
            parts = f"with {self.posterior!r} and {self.aging!r} every reward counts"
            most = self.options.max_history
            raise ValueError(f"nothing can leave the history: {parts}; got max_history={most}")

    @cached_property
    def beliefs(self) -> tuple[Any, Any]:
        """The rule of the posterior, and its kernel where nothing is fitted; beside the control."""
        rule, kernel, control = self.posterior, self.kernel, self.options.control
        if control is None:
            return rule, kernel
        if not rule.self_learning:
            return rule, Beside(kernel, control)
        lengths = (0.0,) if rule.points_apart else LENGTHS
        return IndependentArms(control, lengths), kernel

    def of_outcome(self, limit: Limit) -> Recipe:
        """What is believed of an outcome: these beliefs, in a unit that is learned; nobody decides.

        On more points than those of a network one kernel is fitted instead, as on a box: an outcome has
        length scales and a drift of its own. An ensemble holds models that are wrong, too, and takes an
        outcome for less known than it is: at the edge of a limit that costs most.
        """
        posterior: Any = self.posterior
        domain = self.domain
        apart = posterior.points_apart or isinstance(domain, Arms)
        least = 1 if getattr(posterior, "both", False) else MODEL_CONFIG.largest_network + 1
        names = ("kernel", "aging", "posterior", "learn", "reset", "lead")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        if isinstance(domain, Candidates) and not apart and least <= len(domain) <= MOST_FITTED:
            latest = Window(last=OUTCOME_READINGS)
            parts = {"kernel": joint_box_kernel(domain), "aging": latest, "learn": OUTCOME_RULE}
        elif getattr(posterior, "prior_scale", 0.0):  # an outcome has one of its own
            parts["posterior"] = replace(posterior, prior_scale=0.0)
        parts["options"] = Options(max_history=self.options.max_history)
        return Recipe(domain, noise_variance=limit.noise_variance, **parts)

    def _check_numbers(self) -> None:
        if self.noise_variance is not None:
            noise_variance_number("noise_variance", self.noise_variance)
        check_mean(self.mean)
        not_negative("lead", self.lead)
        flag("minimize", self.minimize)
        if self.options.move_cost is not None and not getattr(
            self.acquisition, "weighs_reward", True
        ):
            raise ValueError(f"{self.acquisition!r} weighs no rewards to take a move_cost from")
        choice("consult", self.consult, ("after tell", "before ask"))


# Of more candidates than this, a sparse posterior looks at those that lead.
MOST_LOOKED_AT = 4096

# Candidates that an ensemble holds against a control: each model has a covariance of all of them.
MOST_BESIDE = 200

# How far candidates may resemble each other then, in extents; 0: not at all.
LENGTHS = (0.0, 0.1, 0.3)

NEEDED_POSTERIOR = "Exact(), Nystrom(), StateSpace() or ModelEnsemble()"

# The parts: what each must be, and the method or the class that tells it.
_PARTS: tuple[tuple[str, str, str | type], ...] = (
    ("domain", "a domain such as Candidates(X) or Box(bounds)", "maximize"),
    ("kernel", "a scikit-learn kernel object", Kernel),
    ("aging", "an aging map such as Window(last=20)", "__call__"),
    ("posterior", NEEDED_POSTERIOR, "condition"),
    ("confidence", 'a width: a number, "theory" or a Confidence', "__call__"),
    ("acquisition", "UpperConfidenceBound() or another such rule", "choose"),
    ("learn", "a rule such as Every(30), or None", "due"),
    ("batching", "Batching(...)", Batching),
    ("asking", "Asking(...) or None", Asking),
    ("reset", "EventTrigger(...) or None", EventTrigger),
    ("options", "Options(...)", Options),
)


def check_mean(mean: object) -> None:
    """Raise a `ValueError` unless this is a prior mean: "online", or a number that a reward may be."""
    known = is_finite_number(mean) and abs(mean) <= LARGEST_VALUE  # type: ignore[arg-type]
    needs = f'"online" or a finite number of at most {LARGEST_VALUE:g} in size'
    require(known or (isinstance(mean, str) and mean == "online"), "mean", needs, mean)


# --- a state for a recipe ---------------------------------------------------------------------------


def first_state(recipe: Recipe, rng: np.random.Generator) -> State:
    """Nothing was told."""
    nothing = Record.of_nothing(recipe.domain.dimension)
    noise = learned_noise(recipe, nothing.rewards)
    return State(
        **vars(nothing),
        visited=nothing.rewards.X,
        model=ModelState(_first_scaling(recipe), recipe.kernel, recipe.aging, noise=noise),
        posterior=None,
        questions=Questions(CandidatePool.none()),
        random=rng.bit_generator.state,
        domain=recipe.domain,
        outcomes=_outcomes_for(recipe, {}),
    )


def check_state(recipe: object, state: object) -> None:
    """Raise a `ValueError` unless a bandit of `recipe` can go on from `state`."""
    if not (isinstance(recipe, Recipe) and isinstance(state, State)):
        names = f"{type(recipe).__name__} and {type(state).__name__} as recipe and state"
        raise ValueError(f"from_state takes a Recipe and then a State, got {names}")
    held, d = state.rewards.dimension, recipe.domain.dimension
    if held != d:
        raise ValueError(f"the state has points of {held} coordinates, the recipe's domain of {d}")
    recipe.domain.check(state.visited, "points played")
    recipe.domain.check(state.pending.X, "points pending")


def state_for(recipe: Recipe, state: State) -> State:
    """`state` without what was computed by parts that are not the recipe's."""
    if recipe.mean != "online" or state.model.scaling.estimated_at == 0:
        state = state.with_model(scaling=_first_scaling(recipe))
    if state.outliers is not None and not recipe.options.robust:
        told = state.readings
        state = replace(state.with_outliers(told, np.zeros(len(told), dtype=bool)), posterior=None)
    state = _with_noise_of(recipe, _with_kernel_of(recipe, _with_aging_of(recipe, state)))
    kernel = state.model.kernel if recipe.options.control is None else recipe.beliefs[1]
    same = state.domain == recipe.domain and (
        state.posterior is not None and bool(state.posterior.kernel == kernel)
    )
    questions = state.questions
    if state.domain != recipe.domain:
        questions = replace(questions, available=None)  # it speaks of points of the other one
    return replace(
        state,
        domain=recipe.domain,
        posterior=state.posterior if same else None,
        questions=questions,
        outcomes=_outcomes_for(recipe, state.outcomes),
    )


def changed_candidates(recipe: Recipe, state: State, X: Any) -> Candidates | CandidatesInContext:
    """The candidates `X`, or arms of these names, and all points that recipe and state know of.

    Where a context is measured, `X` (A, d) is what is chosen.

    Raises
    ------
    ValueError
        If the recipe's domain is no such domain, or `X` is none of its points.
    """
    domain = recipe.domain
    if isinstance(domain, Arms):
        return domain.changed(X)
    chosen = candidates_of(domain)
    if type(chosen) is not Candidates:
        raise ValueError(f"with_candidates needs a domain of Candidates, got {domain!r}")
    offered = Candidates(as_points(X, chosen.dimension), chosen.context)
    named = [
        *recipe.options.safe,
        *([] if recipe.options.control is None else [recipe.options.control]),
    ]
    points = np.array(named).reshape(-1, domain.dimension)
    known = np.concatenate([state.visited, state.pending.X, state.answers.X, points])
    return with_others(domain, with_retired(offered, known[:, : chosen.dimension]))


def on_candidates(
    recipe: Recipe, state: State, domain: Candidates | CandidatesInContext
) -> tuple[Recipe, State]:
    """Recipe and state on other candidates, which have more coordinates where arms were added."""
    of_kind("domain", domain, (Candidates, CandidatesInContext), "candidates")
    columns, learn = domain.dimension - recipe.domain.dimension, recipe.learn
    if columns == 0:
        return replace(recipe, domain=domain), state
    kernel = with_arms(recipe.kernel, columns)
    if learn is not None:
        learn = replace(learn, rivals=tuple(with_arms(each, columns) for each in learn.rivals))
    none = (0.0,) * columns
    safe = [(*point, *none) for point in recipe.options.safe]
    control = None if recipe.options.control is None else (*recipe.options.control, *none)
    options = replace(recipe.options, safe=safe, control=control)
    made = replace(recipe, domain=domain, kernel=kernel, learn=learn, options=options)
    return made, state.widened(columns)


def _outcomes_for(recipe: Recipe, known: Mapping[str, State]) -> dict[str, State]:
    """A state for each outcome that has a limit, out of what is known of it."""
    made = {}
    for limit in recipe.options.limits:
        beliefs, state = recipe.of_outcome(limit), known.get(limit.name)
        first = first_state(beliefs, np.random.default_rng(0))
        made[limit.name] = first if state is None else state_for(beliefs, state)
    return made


def learned_noise(recipe: Recipe, seen: Dataset) -> NoiseEstimate | None:
    """The noise of observations without a variance of their own, as all suggest; None: it is given."""
    if recipe.noise_variance is not None:
        return None
    if recipe.asking is None or not recipe.asking.reuse_answers:
        # Answers that are not kept would be missing once a reward is corrected.
        seen = seen.take(np.isnan(seen.variance))
    mean = None if isinstance(recipe.mean, str) else recipe.mean
    if recipe.options.control is not None:
        seen, mean = seen.beside_levels(), None if mean is None else 0.0
    if np.isnan(seen.variance).any():
        # The kernel that an ensemble of models has before any reading may be far too smooth.
        ensemble = recipe.posterior.self_learning and not recipe.posterior.points_apart
        rival = space_kernels(recipe.domain)[1] if ensemble else None
        return estimated_noise(recipe.kernel, seen, mean, rival)
    points = recipe.domain.sample(32, np.random.default_rng(0))
    prior = recipe.kernel.diag(inputs(recipe.kernel, points, np.zeros(32)))
    return first_guess(1.0 if mean is None else float(np.mean(prior)))


def _with_noise_of(recipe: Recipe, state: State) -> State:
    """`state` with the recipe's noise variance, or with what was learned of it."""
    given = recipe.noise_variance
    if given is None:
        if state.model.noise is not None:
            return state
        return state.with_model(noise=learned_noise(recipe, state.rewards.joined(state.answers)))
    learned = state.model.noise
    posterior = state.posterior if learned is None or learned.variance == given else None
    rewards, answers = state.rewards.with_noise(given), state.answers.with_noise(given)
    made = state.with_model(noise=None)
    return replace(made, rewards=rewards, answers=answers, posterior=posterior, coming=None)


def _first_scaling(recipe: Recipe) -> Scaling:
    sign = -1.0 if recipe.minimize else 1.0
    return Scaling(0.0 if recipe.mean == "online" else sign * recipe.mean, 1.0)


def _with_aging_of(recipe: Recipe, state: State) -> State:
    """`state` with the recipe's aging map, or that map at the pace that was learned."""
    given, known = recipe.aging, state.model.aging
    if (
        recipe.learn is not None
        and isinstance(given, Paced)
        and isinstance(known, Paced)
        and known.pace > 0  # not that of a composition without one, which is not a number
        and given.at_pace(1.0) == known.at_pace(1.0)
    ):
        return state
    return state.with_model(aging=given, about={"pace": math.nan})


def first_kernel(recipe: Recipe, rewards: Dataset) -> Any:
    """The kernel before the first fit: as given, or at the steps of time of these rewards."""
    in_steps = recipe.learn is not None and recipe.learn.in_steps
    return at_step(recipe.kernel, step_of(rewards.t)) if in_steps else recipe.kernel


def _with_kernel_of(recipe: Recipe, state: State) -> State:
    """`state` with the recipe's kernel, or what was learned from kernels of that form."""
    learned = state.model.learned
    if recipe.learn is not None and learned is not None:
        given, known = (recipe.kernel, *recipe.learn.rivals), learned.kernels
        if len(given) == len(known) and all(map(same_form, known, given)):
            return state.with_model(kernel=learned.kernel)
    made = state.with_model(kernel=first_kernel(recipe, state.rewards), learned=None)
    return replace(made, calibration=IntervalCalibration())
