"""The policies by name: the recipe of each, and the parameters that its authors recommend.

`NamedPolicy` makes a policy from a text, which names one of these or a function of the user's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF

from tvbandits.acquisition.widths import BKBWidth, ThompsonWidth
from tvbandits.bandit.info import Player
from tvbandits.domains.candidates import Candidates
from tvbandits.experts.functions import CallableExpert
from tvbandits.policies import (
    adaptive,
    baselines,
    batch_ucb,
    forgetting,
    frugal,
    mini,
    sketching,
    sparq,
    theory,
    thompson_sampling,
)
from tvbandits.policies.names import (
    find_spec,
    is_needed,
    load,
    parameters_of,
    parse_call,
    parse_spec,
    path_of,
)
from tvbandits.policies.rivals import balancing, multi_scale, opkb, predictive, time_as_input, wdbo
from tvbandits.policies.setting import Maker, Policy, Setting
from tvbandits.validation import as_list, describe, require


def recommend_window(setting: Setting, _: Mapping[str, Any]) -> int:
    """Return W of SW-GP-UCB and H of R-GP-UCB (Zhou & Shroff 2021)."""
    return theory.window_length(*setting.budgets)


def recommend_discount(setting: Setting, _: Mapping[str, Any]) -> float:
    """Return the discount of W-GP-UCB (Deng 2022)."""
    return theory.discount(*setting.budgets)


def recommend_rate(setting: Setting, options: Mapping[str, Any]) -> float:
    """Return the rate at which a reward's variance grows under the drift model."""
    # Under the drift model a reward's increment has variance 2 (1 - sqrt(1 - eps)) scale^2.
    increment: float = 2 * (1 - (1 - setting.forgetting_rate) ** 0.5)
    wiener = options.get("growth", "wiener") == "wiener"
    return max(increment, 1e-12) * setting.scale**2 if wiener else 1.0


def recommend_forgetting(setting: Setting, options: Mapping[str, Any]) -> float | None:
    """Return epsilon of the TV-GP-UCB model; None if it is to be learned from the first plays."""
    return setting.forgetting_rate if options.get("initial_points") is None else None


def recommend_constants(setting: Setting, _: Mapping[str, Any]) -> opkb.Constants:
    """Return the constants of ADA-OPKB, with the information gain of the run (Hong 2023)."""
    return opkb.Constants(setting.horizon, max(setting.information_gain, 1e-6))


def recommend_thresholds(setting: Setting, _: Mapping[str, Any]) -> multi_scale.Thresholds:
    """Return the thresholds of MASTER for the horizon of the run."""
    return multi_scale.Thresholds(setting.horizon)


def recommend_points(setting: Setting, _: Mapping[str, Any]) -> int:
    """Return the number of random plays of W-DBO: the authors' share, 15 of 600 ([WD] H.1)."""
    return min(15, max(wdbo.FEWEST, math.ceil(setting.horizon / 40)))


# The position of a policy decides the style of its curve in every picture: add new ones at the end.
_POLICIES = (
    Policy(baselines.uniform),
    Policy(forgetting.gp_ucb),
    Policy(forgetting.r_gp_ucb, recommended={"reset_every": recommend_window}),
    Policy(forgetting.sw_gp_ucb, recommended={"window": recommend_window}),
    Policy(forgetting.w_gp_ucb, recommended={"discount": recommend_discount}),
    Policy(forgetting.tv_gp_ucb, recommended={"forgetting_rate": recommend_forgetting}),
    Policy(forgetting.ui_gp_ucb, recommended={"forgetting_rate": recommend_rate}),
    Policy(sparq.sparq_gp_ucb),
    Policy(baselines.eps_greedy),
    Policy(baselines.evolution),
    Policy(sketching.bkb, widths={"theory": BKBWidth}),
    Policy(sketching.bbkb, widths=sketching.BBKB_WIDTHS),
    Policy(
        sketching.tv_bbkb,
        recommended={"forgetting_rate": recommend_forgetting},
        widths=sketching.BBKB_WIDTHS,
    ),
    Policy(batch_ucb.gp_bucb),
    Policy(mini.mini_gp_ucb),
    Policy(thompson_sampling.thompson, widths={"theory": ThompsonWidth}),
    Policy(frugal.frugal_gp_ucb, learns_kernel=True),
    Policy(adaptive.adaptive_gp_ucb, learns_kernel=True),
    Policy(forgetting.et_gp_ucb),
    Policy(multi_scale.master, recommended={"thresholds": recommend_thresholds}),
    Policy(opkb.ada_opkb, recommended={"constants": recommend_constants}),
    Policy(predictive.predictive_sampling, recommended={"forgetting_rate": recommend_forgetting}),
    Policy(wdbo.w_dbo, recommended={"initial_points": recommend_points}),
    Policy(time_as_input.time_gp_ucb, learns_kernel=True),
    Policy(time_as_input.mk_gp_ucb, recommended={"forgetting_rate": recommend_forgetting}),
    Policy(time_as_input.boba),
    Policy(balancing.lb_gp_ucb, learns_kernel=True),
)

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _POLICIES}
"""The policies by command-line name."""

FIRST_COMPARISON = tuple(policy.name for policy in _POLICIES[:8])
"""The policies of a comparison that names none: those of SparQ-GP-UCB's paper, and two more."""


@dataclass(frozen=True)
class NamedPolicy:
    """A maker of a policy from a text, "name:key=value" or "package.module:maker:key=value".

    It can be sent to another process, which looks the maker up again.
    """

    text: str

    @property
    def policy(self) -> Policy | None:
        """Return the record of the policy; None if the text names a function of the user's."""
        name, _ = parse_spec(self.text)
        target = load(name) if path_of(self.text) else POLICIES[name]
        return target if isinstance(target, Policy) else None

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
        parameters = parameters_of(maker, skip=1)
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
        """Return the policy for a problem; a `ValueError` names the text."""
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
        """Return whether it has a width; True for a function of the user's, which may have one."""
        return self.policy is None or "beta" in self.policy.parameters

    def width(self, width: Any) -> Any:
        """Return its own width, or that of the comparison; None if there is neither."""
        own = parse_spec(self.text)[1].get("beta", width)
        if own is None and self.policy is not None:
            own = self.policy.parameters["beta"].default
        return own


# Names, recipes of the package, functions of a Setting, and classes that are called with one.
Policies = str | Maker | Sequence[str | Maker] | Mapping[str, str | Maker]


def label_policies(policies: Policies, *, has_expert: bool) -> dict[str, Maker]:
    """Return the makers of policies by label.

    Each named policy is made once for a problem of two points, so that a mistake in its text is reported
    before the first run and not after hours.
    """
    if isinstance(policies, Mapping):
        pairs: list[tuple[str | None, Any]] = list(policies.items())
    else:
        is_one = isinstance(policies, str | pd.DataFrame) or not isinstance(policies, Iterable)
        needs = "names, makers, or a mapping of labels to them"
        values = [policies] if is_one else as_list("policies", policies, needs)
        pairs = [(None, policy) for policy in values]
    makers: dict[str, Maker] = {}
    for label, policy in pairs:
        name, maker = _maker(label, policy, has_expert)
        if name in makers and makers[name] != maker:
            raise ValueError(
                f'two policies are named "{name}": give a mapping of your own labels to policies'
            )
        makers[name] = maker
    if not makers:
        raise ValueError("policies must name at least one policy, got none")
    return makers


def _maker(label: str | None, policy: Any, has_expert: bool) -> tuple[str, Maker]:
    """Return the label and the maker of a policy, which is a name, a recipe, a function or a class."""
    recipes = {each.recipe: name for name, each in POLICIES.items()}
    if isinstance(policy, FunctionType) and policy in recipes:
        policy = recipes[policy]
    if isinstance(policy, str):
        spec = find_spec("policy", policy, POLICIES)
        named = NamedPolicy(policy if spec is None else spec)
        named.options()
        if spec is not None:
            named(_two_points(has_expert))
        return named.text if label is None else label, named
    what = "policies" if label is None else f'policy "{label}"'
    if isinstance(policy, partial) and policy.func in recipes:
        options = ",".join(f"{name}={value}" for name, value in policy.keywords.items())
        raise TypeError(
            f'{what}: give a recipe with options as text, "{recipes[policy.func]}:{options}", or as a '
            f"function of a Setting; got {describe(policy)}"
        )
    if not (callable(policy) and _takes_setting(policy)):
        raise TypeError(
            f"{what} must be names, or makers: functions or classes of a Setting; got "
            f"{describe(policy)}"
        )
    if label is not None:
        return label, policy
    if not isinstance(policy, FunctionType | type) or policy.__name__ == "<lambda>":
        raise TypeError(f"{describe(policy)} has no name: give a mapping of labels to policies")
    return policy.__name__, policy


def _takes_setting(maker: Callable[..., Any]) -> bool:
    """Return whether a function or class can be called with a Setting alone."""
    try:
        signature(maker).bind(None)
    except (TypeError, ValueError):  # it needs other arguments, or has no signature
        return False
    return True


def _two_points(has_expert: bool) -> Setting:
    """Return the setting of a problem of two points."""
    return Setting(
        domain=Candidates(np.array([[0.0], [1.0]])),
        kernel=RBF(),
        noise_variance=1.0,
        horizon=10,
        variation=1.0,
        scale=1.0,
        forgetting_rate=0.1,
        information_gain=1.0,
        beta=None,
        expert=(lambda: CallableExpert(lambda X, t: X[:, 0] * t, 1.0)) if has_expert else None,
        seed=0,
    )
