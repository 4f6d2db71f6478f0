"""What the recipes share: how their parts are put together, and how a comparison makes them.

A named policy is a function, its recipe, and beside it a `Policy`, the record of what else belongs to
the name: the paper, and the settings that are recommended for a problem.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, cast, get_args, get_type_hints

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel

from tvbandits.acquisition.confidence import DEFAULT_WIDTH, WIDTHS, Confidence, as_confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.recipe import NEEDED_POSTERIOR, Recipe, check_mean
from tvbandits.bandit.state import Player
from tvbandits.core.protocols import Domain, Expert
from tvbandits.gp.ensemble.rule import ModelEnsemble
from tvbandits.gp.fitting.online import Every, as_every
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.protocol import PosteriorRule
from tvbandits.policies.names import meant, parameters_of
from tvbandits.validation import (
    LARGEST_TIME,
    LARGEST_VALUE,
    check_part,
    choice,
    finite_number,
    flag,
    noise_variance_number,
    of_kind,
)

# --- the options that every recipe has ---------------------------------------------------------------

Width: TypeAlias = Confidence | float | str
Posterior: TypeAlias = PosteriorRule | Literal["exact", "nystrom", "ensemble"]
Mean: TypeAlias = float | Literal["online"]
Season: TypeAlias = float | Literal["find"] | None
Seed: TypeAlias = int | np.random.Generator
Learn: TypeAlias = Every | int | bool


class Shared(TypedDict, total=False):
    """Options of every policy; `assembled` describes them, and those below."""

    minimise: bool
    seed: Seed


class Modelled(Shared, total=False):
    """Those of every policy with a model of the reward."""

    mean: Mean


class Common(Modelled, total=False):
    """Those of nearly every policy that is a `Bandit`."""

    confidence: Width
    posterior: Posterior


class Learning(Common, total=False):
    """Those of policies that learn, or have a model of the change."""

    robust: bool


def assembled(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimise: bool = False,
    robust: bool = False,
    seed: Seed = 0,
    **parts: Any,
) -> Bandit:
    """The bandit of these parts: the one place where recipes are made.

    Its words describe each option of a recipe that the recipe itself says nothing of; where a recipe has
    `**common`, its defaults are those of the recipe.

    Parameters
    ----------
    domain : Domain
        Where it may play.
    kernel : scikit-learn kernel
        Prior covariance of the reward over points; see `mean` for its unit.
    noise_variance : float or None
        Noise variance of a reward, unless `tell` gives another (unit of reward squared). None: the
        bandit learns it, and `Bandit.noise` shows it with an interval.
    confidence : Confidence, float, "theory" or a name of `tvbandits.acquisition.confidence.WIDTHS`
        The width beta of mu + beta sigma; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How to compute the posterior: exactly, on a dictionary of inducing points, for sums of
        space-time terms by a Kalman filter, or by an ensemble of such models, weighted by how well they
        predict.
    mean : float or "online"
        A number is the fixed prior mean of the reward, with the kernel in the unit of reward squared.
        "online" learns a centre and a scale from the rewards seen; the kernel then describes the
        standardised reward.
    minimise : bool
        Smaller rewards are better; rewards and predictions keep their sign.
    robust : bool
        Set grossly wrong readings aside, until others agree with them.
    seed : int or numpy.random.Generator
        Fixes all random choices. A generator does not advance: the bandit spawns a child of it.
    """
    recipe = Recipe(
        domain,
        kernel,
        noise_variance,
        confidence=as_confidence(confidence),
        posterior=as_posterior(posterior),
        mean=mean,
        minimise=minimise,
        robust=robust,
        **parts,
    )
    return Bandit(recipe, seed=seed)


# By the words that stand for them.
POSTERIORS = {"exact": Exact(), "nystrom": Nystrom(), "ensemble": ModelEnsemble()}


def as_posterior(posterior: Posterior) -> PosteriorRule:
    """`"exact"`, `"nystrom"`, `"ensemble"`, or any posterior as it is."""
    if isinstance(posterior, str):
        return POSTERIORS[choice("posterior", posterior, POSTERIORS)]
    check_part("posterior", posterior, NEEDED_POSTERIOR, "condition")
    return posterior


def learning_rule(
    name: str, given: float | None, learn: Learn | None, default: Every | None = None
) -> Every | None:
    """When to learn a number: never, if it is given; `Every()` by default."""
    if given is None:
        return as_rule(learn, default or Every())
    if learn:
        raise ValueError(f"learn is for a {name} that is not given, got {name} = {given}")
    return None


def as_rule(learn: Learn | None, default: Every) -> Every:
    """The rule that is meant; the default for True, and where none is given."""
    return default if learn is None or isinstance(learn, bool) else as_every(learn)


# --- what every recipe shows, and checks -------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


# Widths of policies by the names of `tvbandits.acquisition.confidence.WIDTHS`.
Widths: TypeAlias = Mapping[str, Callable[..., Confidence]]


def described(recipe: F, widths: Widths = MappingProxyType({})) -> F:
    """Show every parameter of a recipe in its signature and in its docstring.

    `**common` becomes the options that its type has, with the defaults of `assembled`, whose words
    describe whatever the recipe is silent about. A keyword that it does not have is a TypeError that
    names the one that may be meant; what all recipes have in common is checked here, once for all. A
    name in `widths` is that width as the paper of the recipe has it.

    Raises
    ------
    KeyError
        If a parameter is described nowhere.
    ValueError
        If something is described that is no parameter.
    """
    signature = inspect.signature(recipe, eval_str=True)
    parameters = {**signature.parameters}
    if common := parameters.pop("common", None):
        (options,) = get_args(common.annotation)
        known = inspect.signature(assembled, eval_str=True).parameters
        parameters |= {name: known[name] for name in known if name in get_type_hints(options)}
    title, own, examples = _sections(recipe)
    if strange := own.keys() - parameters.keys():
        raise ValueError(f"{recipe.__name__} has no parameter {', '.join(sorted(strange))}")
    words = _sections(assembled)[1] | own
    entries = [words[name] for name in parameters]
    recipe.__doc__ = "\n".join([title, "", *PARAMETERS, *entries, ""]) + examples
    hints = {name: each.annotation for name, each in parameters.items()}

    by_place = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]

    @functools.wraps(recipe)
    def called(*given: Any, **options: Any) -> Any:
        if len(given) > len(by_place):
            rest = ", ".join(name for name in parameters if name not in by_place)
            taken = " and ".join(by_place)
            raise TypeError(
                f"{recipe.__name__} takes {taken} by position, got {len(given)} values; by name: {rest}"
            )
        for name in options:
            if name not in parameters:
                hint = meant(name, parameters).rstrip() or f"there are {', '.join(parameters)}"
                raise TypeError(f"{recipe.__name__} has no parameter {name!r}; {hint}")
        for name, value in {**dict(zip(parameters, given, strict=False)), **options}.items():
            if name in IN_COMMON and not (value is None and NoneType in get_args(hints[name])):
                IN_COMMON[name](value)
        width = options.get("confidence")
        word = width.casefold() if isinstance(width, str) else ""
        if word in widths:
            options["confidence"] = widths[word]()
        return recipe(*given, **options)

    called.__annotations__ = hints
    called.__signature__ = signature.replace(parameters=[*parameters.values()])  # type: ignore[attr-defined]
    return cast(F, called)


PARAMETERS = ("Parameters", "----------")


def _sections(function: Callable[..., Any]) -> tuple[str, dict[str, str], str]:
    """What a docstring says at first, of each parameter, and by examples."""
    said, *examples = inspect.getdoc(function).partition("\nExamples\n--------\n")  # type: ignore[union-attr]
    title, _, entries = said.partition("\n".join(["", *PARAMETERS, ""]))
    words = {
        entry.partition(" : ")[0]: entry.rstrip()
        for entry in re.split(r"\n(?=\S)", entries)
        if entry
    }
    return title.rstrip(), words, "".join(examples)


# Checks of options that mean the same in every recipe that has them.
IN_COMMON: Mapping[str, Callable[[Any], object]] = {
    "domain": lambda given: check_part(
        "domain", given, "a domain such as Candidates(X) or Box(bounds)", "sample"
    ),
    "kernel": lambda given: of_kind("kernel", given, Kernel, "a scikit-learn kernel"),
    "noise_variance": lambda given: noise_variance_number("noise_variance", given),
    "mean": check_mean,
    "scale": lambda given: finite_number("scale", given, low=1 / LARGEST_VALUE, high=LARGEST_VALUE),
    "span": lambda given: finite_number("span", given, low=1e-50, high=LARGEST_TIME),
    "minimise": lambda given: flag("minimise", given),
    "robust": lambda given: flag("robust", given),
}


# --- how a comparison makes a policy -----------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """What a comparison knows about a problem before the first step.

    Attributes
    ----------
    domain, kernel, noise_variance
        As for a recipe; the kernel describes the standardised reward, which recipes find by themselves,
        and `reward_kernel` the reward as it is told.
    horizon : int
    variation : float
        Sup-norm change per unit of time, in prior deviations.
    scale : float
        The prior deviation, in the unit of reward.
    epsilon : float
        Forgetting rate of the TV-GP-UCB model.
    information_gain : float
        gamma_T, the largest information gain of `horizon` observations.
    confidence : Confidence or None
        None: each policy's own default.
    expert : callable, optional
        Makes the expert, for the policies that ask one.
    seed : int

    Examples
    --------
    >>> from tvbandits import compare, policies
    >>> from tvbandits.datasets import DriftingBump
    >>> def fading(setting):  # what a comparison hands to a maker
    ...     return policies.w_gp_ucb(*setting.parts, discount=0.9, seed=setting.seed)
    >>> rows = compare(DriftingBump(candidates=51, horizon=5), {"fading": fading}, seeds=1)
    >>> print(len(list(rows)))
    5
    """

    domain: Domain
    kernel: Any
    noise_variance: float | None
    horizon: int
    variation: float
    scale: float
    epsilon: float
    information_gain: float
    confidence: Confidence | None
    expert: Callable[[], Expert] | None
    seed: int

    @property
    def parts(self) -> tuple[Domain, Any, float | None]:
        """Domain, kernel and noise variance of a `Recipe`, which standardises rewards itself."""
        return self.domain, self.kernel, self.noise_variance

    @property
    def reward_kernel(self) -> Any:
        """The kernel in the unit of reward squared: for a model that standardises nothing."""
        return ConstantKernel(self.scale**2, "fixed") * self.kernel

    @property
    def budgets(self) -> tuple[int, float, float]:
        """T, B_T and gamma_T, as the recommendations take them."""
        return self.horizon, self.variation * self.horizon, self.information_gain


# What a comparison gives a recipe; everything else in its signature is for the user. The noise
# variance is the problem's unless the user says another, or none: then it is learned.
FROM_THE_PROBLEM = ("domain", "kernel", "expert", "seed")


# The value of an option, out of a problem and what else is given.
Recommendation: TypeAlias = Callable[[Setting, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Policy:
    """A named policy: its recipe, and all that a comparison needs besides.

    Attributes
    ----------
    name : str
        On the command line, in tables and in pictures.
    recipe : callable
        Makes it; the options in its signature are its parameters on the command line.
    summary : str
        One line.
    paper : str
        Whose idea it is; an empty text, if nobody's.
    recommended : mapping of str to callable
        `recommended[name](setting, given)` is what its authors recommend for an option that is not given
        (None: the recipe's default), out of the problem and what else is given. What a problem says
        itself, such as epsilon, scale and horizon, needs none.
    widths : mapping of a name in `tvbandits.acquisition.confidence.WIDTHS` to callable
        `widths[name](delta=1 / horizon)` is the width of that name on a problem, as in the experiments
        of its own paper: "theory" elsewhere is SparQ-GP-UCB's.
    first_comparison : int, optional
        Its place in a comparison that names no policies.

    Examples
    --------
    >>> from tvbandits import policies
    >>> policy = policies.POLICIES["sw-gp-ucb"]
    >>> print(policy.recipe.__name__, "|", policy.summary)
    sw_gp_ucb | the last window rewards
    """

    name: str
    recipe: Callable[..., Player]
    summary: str
    paper: str
    recommended: Mapping[str, Recommendation] = field(default_factory=dict)
    widths: Widths = field(default_factory=dict)
    first_comparison: int | None = None

    @property
    def title(self) -> str:
        """Summary and paper."""
        return f"{self.summary} ({self.paper})" if self.paper else self.summary

    @property
    def asks(self) -> bool:
        """Whether it asks an expert."""
        return "expert" in inspect.signature(self.recipe).parameters

    @property
    def learns_kernel(self) -> bool:
        """Whether it learns a kernel where none is given."""
        return NoneType in get_args(get_type_hints(self.recipe).get("kernel"))

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What a user may set, by name."""
        own = parameters_of(self.recipe)
        return {name: each for name, each in own.items() if name not in FROM_THE_PROBLEM}

    def make(self, setting: Setting, **given: Any) -> Player:
        """Make it for a problem; what is not given is as its authors recommend, or as in the recipe."""
        if self.asks and setting.expert is None:
            raise ValueError(f"{self.name} asks an expert, and none is given")
        known = inspect.signature(self.recipe).parameters
        from_problem = vars(setting) | {"span": float(setting.horizon)}
        options = {name: from_problem[name] for name in known if name in from_problem}
        options.pop("confidence", None)
        if self.learns_kernel:
            options["kernel"] = None
        if setting.expert is not None and self.asks:
            options["expert"] = setting.expert()
        if given.get("learn") or given.get("first_sample") is not None:  # found in the rewards
            options.pop("epsilon", None)
        else:
            for name in IN_COMMON.keys() & {name for name in given if given[name] is not None}:
                IN_COMMON[name](given[name])  # what is recommended may follow from it
            for name, recommend in self.recommended.items():
                if given.get(name) is None:
                    options[name] = recommend(setting, given)
        options |= {
            name: value
            for name, value in given.items()
            if not (value is None and name in options and name != "noise_variance")
        }
        width = given.get("confidence", setting.confidence)
        if width is not None and "confidence" in known:
            options["confidence"] = self._width_on(setting, as_confidence(width))
        return self.recipe(**options)

    def _width_on(self, setting: Setting, width: Confidence) -> Confidence:
        for name, of_its_paper in self.widths.items():
            if width == WIDTHS[name]:
                return of_its_paper(delta=1 / max(setting.horizon, 2))
        return width


# The policies of the modules that are imported.
LISTED: dict[str, Policy] = {}


def listed(summary: str, *, paper: str, **more: Any) -> Callable[[F], F]:
    """Decorator of a recipe: `described`, and entered as the `Policy` of its name, with hyphens.

    Takes the fields of `Policy` but the first two.

    Raises
    ------
    ValueError
        If another one has that name.
    """

    def entered(recipe: F) -> F:
        made = described(recipe, more.get("widths", {}))
        name = recipe.__name__.replace("_", "-")
        if name in LISTED:
            raise ValueError(f'two policies are called "{name}"')
        LISTED[name] = Policy(name, made, summary, paper, **more)
        return made

    return entered
