"""How a comparison makes a policy: what it knows of a problem, and the record of a named policy."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvbandits.acquisition.widths import WIDTHS, Confidence, Widths, as_confidence
from tvbandits.bandit.info import Player
from tvbandits.bandit.options import Options
from tvbandits.domains.domain import Domain
from tvbandits.experts.protocol import Expert
from tvbandits.policies.names import is_needed, load, parameters_of, parse_call, parse_spec, path_of
from tvbandits.validation import require


@dataclass(frozen=True)
class Setting:
    """What a comparison knows about a problem before the first step.

    Attributes
    ----------
    domain, kernel, noise_variance
        As for a recipe; the kernel describes the standardised reward, which recipes find by themselves.
    horizon : int
    variation : float
        Change of the reward per unit of time, in prior deviations: in the RKHS norm of [S] eq. 20 where
        the problem has that (`rkhs_variation`), and else the largest change of any point, which is at
        most that (eq. 22).
    scale : float
        The prior deviation, in the unit of reward.
    forgetting_rate : float
        epsilon of the TV-GP-UCB model.
    information_gain : float
        gamma_T, the largest information gain of `horizon` observations.
    beta : Confidence or None
        None: each policy's own default.
    expert : callable, optional
        Makes the expert, for the policies that ask one.
    seed : int

    Examples
    --------
    >>> from tvbandits import compare, policies
    >>> from tvbandits.datasets import DriftingBump
    >>> def fading(setting):  # what a comparison hands to a maker
    ...     return policies.w_gp_ucb(**setting.parts, discount=0.9, seed=setting.seed)
    >>> rows = compare(DriftingBump(candidates=51, horizon=5), {"fading": fading}, seeds=1)
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
        """Domain, kernel and noise variance, as recipes and `Recipe` take them by keyword."""
        return {"domain": self.domain, "kernel": self.kernel, "noise_variance": self.noise_variance}

    @property
    def budgets(self) -> tuple[int, float, float]:
        """T, B_T and gamma_T, as the recommendations take them."""
        return self.horizon, self.variation * self.horizon, self.information_gain

    @property
    def span(self) -> float:
        """The time that a run takes."""
        return float(self.horizon)


# Makes a policy for a problem.
Maker: TypeAlias = Callable[[Setting], Player]

# Parameters of recipes that a comparison alone gives; users set the others. It has no history to give.
SET_BY_COMPARISON = ("domain", "kernel", "expert", "history", "seed")

# Parameters that a recipe takes from the problem where the user says nothing else. A user who says None
# for the noise variance has it learned.
TAKEN_FROM_PROBLEM = ("domain", "noise_variance", "scale", "span", "seed")


# The value of an option, out of a problem and the options that the user says.
Recommendation: TypeAlias = Callable[[Setting, Mapping[str, Any]], Any]


# What a text may say of a policy out of its `Options`: problems and campaigns say the others.
WRITTEN_OPTIONS = (
    "robust",
    "mean",
    "posterior",
    "refit",
    "season",
    "consult",
    "minimum_batch",
    "largest_batch",
)


def written_options() -> dict[str, inspect.Parameter]:
    """Return the options that a text may say of a policy, by name."""
    options = parameters_of(Options)
    return {name: options[name] for name in WRITTEN_OPTIONS}


@dataclass(frozen=True)
class Policy:
    """A named policy: its recipe, and all that a comparison needs besides.

    Attributes
    ----------
    recipe : callable
        Makes it. The options in its signature are its parameters on the command line, its name with
        hyphens is its name there, and the first line of its docstring is its title.
    recommended : mapping of str to callable
        `recommended[name](setting, options)` is what its authors recommend for an option that the user
        does not say (None: the recipe's default). What a problem says itself, such as its scale and
        span, needs none.
    widths : mapping of a name in `tvbandits.acquisition.widths.WIDTHS` to callable
        `widths[name](delta=1 / horizon)` is the width of that name on a problem, as in the experiments
        of its own paper: "theory" elsewhere is SparQ-GP-UCB's.
    learns_kernel : bool
        Whether it learns a kernel where none is given, so that a comparison gives it none.

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
        """Its name on the command line, in tables and in pictures."""
        return self.recipe.__name__.replace("_", "-")

    @property
    def title(self) -> str:
        """What it is, in one line."""
        return (inspect.getdoc(self.recipe) or "").partition("\n")[0].rstrip(".")

    @property
    def asks(self) -> bool:
        """Whether it asks an expert."""
        return "expert" in parameters_of(self.recipe)

    @property
    def own_parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters of the recipe that a user may set, by name, without those of `Options`."""
        return {
            name: parameter
            for name, parameter in parameters_of(self.recipe).items()
            if name not in SET_BY_COMPARISON and name != "options"
        }

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """All that a user may set, by name: of the recipe, and of `Options` where it takes them."""
        takes_options = "options" in parameters_of(self.recipe)
        return self.own_parameters | (written_options() if takes_options else {})

    def bandit(self, **values: Any) -> Player:
        """Make it from parameters of its recipe, and from those of `Options` by their names."""
        own = parameters_of(self.recipe)
        names = [name for name in WRITTEN_OPTIONS if name in values and name not in own]
        if options := {name: values.pop(name) for name in names}:
            values["options"] = Options(**options)
        return self.recipe(**values)

    def make(self, setting: Setting, **options: Any) -> Player:
        """Make it for a problem; an option that is not given is as its authors recommend."""
        parameters = parameters_of(self.recipe)
        values = {name: getattr(setting, name) for name in TAKEN_FROM_PROBLEM if name in parameters}
        if "kernel" in parameters and not self.learns_kernel:
            values["kernel"] = setting.kernel
        if self.asks:
            if setting.expert is None:
                raise ValueError(f"{self.name} asks an expert, and none is given")
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
        for name, of_its_paper in self.widths.items():
            if width == WIDTHS[name]:
                return of_its_paper(delta=1 / max(setting.horizon, 2))
        return width


@dataclass(frozen=True)
class NamedMaker(ABC):
    """A maker of a policy by its text, "name:key=value" or "package.module:maker:key=value".

    It can be sent to another process, where it is looked up again.
    """

    text: str

    @property
    @abstractmethod
    def policy(self) -> Policy | None:
        """The record of the policy, unless the text names a maker."""

    def options(self) -> dict[str, Any]:
        """Return the parameters in the text.

        Raises
        ------
        ValueError
            If there is no such maker, or it has no such parameters.
        """
        policy = self.policy
        if policy is not None:
            return parse_call(policy.parameters, self.text)
        path = path_of(self.text)
        maker = load(path)
        require(callable(maker), f'"{path}"', "a policy, or a function of a Setting", maker)
        parameters = parameters_of(maker, given=1)
        options = parse_call(parameters, self.text)
        missing = [
            name for name, each in parameters.items() if is_needed(each) and name not in options
        ]
        if missing:
            raise ValueError(
                f'"{self.text}": a maker is called with a Setting and the values of the text; '
                f"there is nothing for {', '.join(missing)}"
            )
        return options

    def __call__(self, setting: Setting) -> Player:
        """Make the policy; a `ValueError` names the text."""
        policy, options = self.policy, self.options()
        make = load(path_of(self.text)) if policy is None else policy.make
        try:
            player: Player = make(setting, **options)
        except (TypeError, ValueError) as error:
            message = str(error)
            if self.text not in message:
                message = f'"{self.text}": {message}'
            raise ValueError(message) from error
        return player

    @property
    def takes_width(self) -> bool:
        """Whether it has a width, as far as its text tells."""
        return self.policy is None or "beta" in self.policy.parameters

    def width(self, width: Any) -> Any:
        """Return its own width, or that of the comparison; None if neither is known."""
        own = parse_spec(self.text)[1].get("beta", width)
        if own is None and self.policy is not None:
            own = self.policy.parameters["beta"].default
        return own
