"""How a comparison makes a policy: the facts of a problem, and the record of a named policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvbandits.acquisition.widths import WIDTHS, Confidence, Widths, as_confidence
from tvbandits.bandit.info import Player
from tvbandits.bandit.options import Options
from tvbandits.domains.domain import Domain
from tvbandits.experts.protocol import Expert
from tvbandits.policies.names import parameters_of


@dataclass(frozen=True)
class Setting:
    """The facts of a problem that a comparison passes to a policy before the first step.

    Attributes
    ----------
    domain, kernel, noise_variance
        As for a recipe. The kernel is that of the standardised reward, as recipes standardise.
    horizon : int
        Number of steps.
    variation : float
        Change of the reward per unit of time, in prior deviations: the RKHS norm of [S] eq. 20 where
        the problem states it (`rkhs_variation`), else the largest change of any point, which is not
        larger (eq. 22).
    scale : float
        The prior deviation, in the unit of reward.
    forgetting_rate : float
        epsilon of the TV-GP-UCB model.
    information_gain : float
        gamma_T, the largest information gain of `horizon` observations.
    beta : Confidence or None
        The width; None: the default of each policy.
    expert : callable, optional
        A function that makes the expert, for policies with an expert.
    seed : int

    Examples
    --------
    >>> from tvbandits import compare, policies
    >>> from tvbandits.datasets import DriftingBump
    >>> def discounted(setting):  # a comparison calls it with a Setting
    ...     return policies.w_gp_ucb(**setting.parts, discount=0.9, seed=setting.seed)
    >>> rows = compare(DriftingBump(candidates=51, horizon=5), {"w": discounted}, seeds=1)
    >>> print(len(rows))
    5
    """

    domain: Domain
    kernel: Any
    noise_variance: float | None
    horizon: int
    variation: float
    scale: float
    forgetting_rate: float
    information_gain: float
    beta: Confidence | None
    expert: Callable[[], Expert] | None
    seed: int

    @property
    def parts(self) -> dict[str, Any]:
        """Return domain, kernel and noise variance as keyword arguments of a recipe."""
        return {"domain": self.domain, "kernel": self.kernel, "noise_variance": self.noise_variance}

    @property
    def budgets(self) -> tuple[int, float, float]:
        """Return T, B_T and gamma_T, the arguments of the recommendations of `policies.theory`."""
        return self.horizon, self.variation * self.horizon, self.information_gain

    @property
    def span(self) -> float:
        """Return the duration of a run."""
        return float(self.horizon)


# A function that makes a policy for a problem.
Maker: TypeAlias = Callable[[Setting], Player]

# Parameters of recipes that a comparison sets, and no user; it has no history.
SET_BY_COMPARISON = ("domain", "kernel", "expert", "history", "seed")

# Parameters of recipes that come from the problem unless the user sets them. Where the user sets the
# noise variance to None, it is learned.
PROBLEM_PARAMETERS = ("domain", "noise_variance", "scale", "span", "seed")


# A function of a problem and the options that the user sets, which returns the value of an option.
Recommendation: TypeAlias = Callable[[Setting, Mapping[str, Any]], Any]


# The fields of `Options` that a text may set; problems and campaigns set the others.
TEXT_OPTIONS = (
    "robust",
    "mean",
    "posterior",
    "refit",
    "season",
    "consult",
    "minimum_batch",
    "largest_batch",
)


def text_options() -> dict[str, inspect.Parameter]:
    """Return the fields of `Options` that a text may set, by name."""
    options = parameters_of(Options)
    return {name: options[name] for name in TEXT_OPTIONS}


@dataclass(frozen=True)
class Policy:
    """A named policy: its recipe, and what a comparison needs besides.

    Attributes
    ----------
    recipe : callable
        The function that makes it. Its parameters can be set on the command line, where its name is
        written with hyphens; the first line of its docstring is the title of the policy.
    recommended : mapping of str to callable
        `recommended[name](setting, options)` is the value that its authors recommend for an option that
        the user does not set (None: the recipe's default). Options that a problem states itself, such as
        its scale and span, need none.
    widths : mapping of a name in `tvbandits.acquisition.widths.WIDTHS` to callable
        `widths[name](delta=1 / horizon)` is the width of that name on a problem, as in the experiments
        of its own paper: "theory" elsewhere is SparQ-GP-UCB's.
    learns_kernel : bool
        Whether it learns its kernel, so that a comparison passes none.

    Examples
    --------
    >>> from tvbandits import policies
    >>> policy = policies.POLICIES["sw-gp-ucb"]
    >>> print(policy.recipe.__name__, "|", policy.title)
    sw_gp_ucb | SW-GP-UCB (Zhou & Shroff 2021): a sliding window
    """

    recipe: Callable[..., Player]
    recommended: Mapping[str, Recommendation] = field(default_factory=dict)
    widths: Widths = field(default_factory=dict)
    learns_kernel: bool = False

    @property
    def name(self) -> str:
        """Return its name on the command line, in tables and in pictures."""
        return self.recipe.__name__.replace("_", "-")

    @property
    def title(self) -> str:
        """Return the first line of the docstring of its recipe."""
        return (inspect.getdoc(self.recipe) or "").partition("\n")[0].rstrip(".")

    @property
    def asks(self) -> bool:
        """Return whether it asks an expert."""
        return "expert" in parameters_of(self.recipe)

    @property
    def own_parameters(self) -> dict[str, inspect.Parameter]:
        """Return what a user may set of the recipe, by name, without the fields of `Options`."""
        return {
            name: parameter
            for name, parameter in parameters_of(self.recipe).items()
            if name not in SET_BY_COMPARISON and name != "options"
        }

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return all that a user may set, by name, with the fields of `Options` if it takes them."""
        takes_options = "options" in parameters_of(self.recipe)
        return self.own_parameters | (text_options() if takes_options else {})

    def bandit(self, **values: Any) -> Player:
        """Return the policy with these parameters of its recipe and of `Options`."""
        own = parameters_of(self.recipe)
        names = [name for name in TEXT_OPTIONS if name in values and name not in own]
        if options := {name: values.pop(name) for name in names}:
            values["options"] = Options(**options)
        return self.recipe(**values)

    def make(self, setting: Setting, **options: Any) -> Player:
        """Return the policy for a problem; options that are not set are as its authors recommend."""
        parameters = parameters_of(self.recipe)
        values = {name: getattr(setting, name) for name in PROBLEM_PARAMETERS if name in parameters}
        if "kernel" in parameters and not self.learns_kernel:
            values["kernel"] = setting.kernel
        if self.asks:
            if setting.expert is None:
                raise ValueError(f"{self.name} asks an expert, and the problem has none")
            values["expert"] = setting.expert()
        for name, recommend in self.recommended.items():
            if options.get(name) is None:
                values[name] = recommend(setting, options)
        for name, value in options.items():
            if value is not None or name not in values or name == "noise_variance":
                values[name] = value
        width = options.get("beta", setting.beta)
        if width is not None and "beta" in parameters:
            values["beta"] = self._width_on(setting, as_confidence(width))
        return self.bandit(**values)

    def _width_on(self, setting: Setting, width: Confidence) -> Confidence:
        for name, paper_width in self.widths.items():
            if width == WIDTHS[name]:
                return paper_width(delta=1 / max(setting.horizon, 2))
        return width
