"""The named policies: the recipe of each, and what its authors recommend for a problem.

A text names one of them with its parameters, or a maker of the user's (`NamedPolicy`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvbandits.acquisition.widths import BKBWidth, ThompsonWidth
from tvbandits.bandit.info import Player
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
from tvbandits.policies.names import is_needed, load, parameters_of, parse_call, parse_spec, path_of
from tvbandits.policies.rivals import balancing, multi_scale, opkb, predictive, time_as_input, wdbo
from tvbandits.policies.setting import Policy, Setting
from tvbandits.validation import require


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
    """Return epsilon of the TV-GP-UCB model; None after first plays, from which it is learned."""
    return setting.forgetting_rate if options.get("initial_points") is None else None


def recommend_constants(setting: Setting, _: Mapping[str, Any]) -> opkb.Constants:
    """Return the constants of ADA-OPKB, of which the information gain is the run's (Hong 2023)."""
    return opkb.Constants(setting.horizon, max(setting.information_gain, 1e-6))


def recommend_thresholds(setting: Setting, _: Mapping[str, Any]) -> multi_scale.Thresholds:
    """Return the thresholds of MASTER for the horizon of the run."""
    return multi_scale.Thresholds(setting.horizon)


def recommend_points(setting: Setting, _: Mapping[str, Any]) -> int:
    """Return the uniform plays of W-DBO: its authors' share of time, 15 of 600 ([WD] H.1)."""
    return min(15, max(wdbo.FEWEST, math.ceil(setting.horizon / 40)))


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
"""The policies of a comparison that names none: those of the paper of SparQ-GP-UCB, and two more."""


@dataclass(frozen=True)
class NamedPolicy:
    """A maker of a policy by its text, "name:key=value" or "package.module:maker:key=value".

    It can be sent to another process, where it is looked up again.
    """

    text: str

    @property
    def policy(self) -> Policy | None:
        """The record of the policy, unless the text names a maker."""
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
