"""The named policies: the recipe of each, and what a comparison needs besides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tvbandits.acquisition.confidence import BBKBWidth, BKBWidth
from tvbandits.policies import theory
from tvbandits.policies.baselines import eps_greedy, evolution, uniform
from tvbandits.policies.budgeted import (
    BBKB_WIDTHS,
    bbkb,
    bkb,
    gp_bucb,
    mini_gp_ucb,
    thompson,
    tv_bbkb,
)
from tvbandits.policies.expert import adaptive_gp_ucb, frugal_gp_ucb, sparq_gp_ucb
from tvbandits.policies.forgetting import (
    et_gp_ucb,
    gp_ucb,
    r_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    w_gp_ucb,
)
from tvbandits.policies.rivals.multi_scale import master
from tvbandits.policies.rivals.opkb import ada_opkb
from tvbandits.policies.rivals.predictive import predictive_sampling
from tvbandits.policies.rivals.time_as_input import boba, mk_gp_ucb, time_gp_ucb
from tvbandits.policies.rivals.wdbo import FEWEST, w_dbo
from tvbandits.policies.setting import Policy, Setting


def recommended_window(setting: Setting, _: Mapping[str, Any]) -> int:
    """Return W of SW-GP-UCB and H of R-GP-UCB (Zhou & Shroff 2021)."""
    return theory.window_length(*setting.budgets)


def recommended_discount(setting: Setting, _: Mapping[str, Any]) -> float:
    """Return the discount of W-GP-UCB (Deng 2022)."""
    return theory.discount(*setting.budgets)


def recommended_rate(setting: Setting, options: Mapping[str, Any]) -> float:
    """Return the rate at which a reward's variance grows under the drift model."""
    # Under the drift model a reward's increment has variance 2 (1 - sqrt(1 - eps)) scale^2.
    increment: float = 2 * (1 - (1 - setting.epsilon) ** 0.5)
    wiener = options.get("growth", "wiener") == "wiener"
    return max(increment, 1e-12) * setting.scale**2 if wiener else 1.0


def recommended_gain(setting: Setting, _: Mapping[str, Any]) -> float:
    """Return gamma of ADA-OPKB, the information gain of the run (Hong 2023)."""
    return max(setting.information_gain, 1e-6)


def recommended_first(setting: Setting, _: Mapping[str, Any]) -> int:
    """Return the uniform plays of W-DBO: its authors' share of time, 15 of 600 ([WD] H.1)."""
    return min(15, max(FEWEST, math.ceil(setting.horizon / 40)))


_POLICIES = (
    Policy(uniform, "a point of the domain at random", compared_first=True),
    Policy(gp_ucb, "never forgets", "Srinivas 2010", compared_first=True),
    Policy(
        r_gp_ucb,
        "starts afresh every reset_every rewards",
        "Bogunovic 2016",
        recommended={"reset_every": recommended_window},
        compared_first=True,
    ),
    Policy(
        sw_gp_ucb,
        "the last window rewards",
        "Zhou & Shroff 2021",
        recommended={"window": recommended_window},
        compared_first=True,
    ),
    Policy(
        w_gp_ucb,
        "weights discount^age",
        "Deng 2022",
        recommended={"discount": recommended_discount},
        compared_first=True,
    ),
    Policy(
        tv_gp_ucb, "a kernel that forgets at rate epsilon", "Bogunovic 2016", compared_first=True
    ),
    Policy(
        ui_gp_ucb,
        "injects noise at rate, growth=wiener|linear",
        "Brunzema 2022",
        recommended={"rate": recommended_rate},
        compared_first=True,
    ),
    Policy(
        sparq_gp_ucb,
        "asks an expert about queries * log t points",
        "Mauduit 2025",
        compared_first=True,
    ),
    Policy(eps_greedy, "the best point so far, at random min(1, decay / t)", "Auer 2002"),
    Policy(evolution, "regularised evolution", "Real 2019"),
    Policy(
        bkb,
        "a dictionary by leverage scores at every step",
        "Calandriello 2019",
        widths={"theory": BKBWidth},
    ),
    Policy(bbkb, "the same in batches, rule=global|local", "Calandriello 2020", widths=BBKB_WIDTHS),
    Policy(
        tv_bbkb,
        "bbkb whose dictionary forgets at rate epsilon",
        "Calandriello 2020 and Bogunovic 2016",
        widths=BBKB_WIDTHS,
    ),
    Policy(gp_bucb, "GP-UCB in batches", "Desautels 2014"),
    Policy(mini_gp_ucb, "few points, each many times", "Calandriello 2022"),
    Policy(
        thompson, "batches of posterior samples", "Kandasamy 2018", widths={"theory": BBKBWidth}
    ),
    Policy(
        frugal_gp_ucb,
        "learns the drift, and asks budget questions a step or fewer",
        "this package",
        learns_kernel=True,
    ),
    Policy(
        adaptive_gp_ucb,
        "learns by itself how the reward drifts",
        "this package",
        learns_kernel=True,
    ),
    Policy(et_gp_ucb, "starts afresh when a reward is a surprise", "Brunzema 2025"),
    Policy(master, "copies of a bandit on many scales, and two tests", "Wei & Luo 2021"),
    Policy(
        ada_opkb,
        "solves for whom to play, replays the past, restarts",
        "Hong 2023",
        recommended={"gain": recommended_gain},
    ),
    Policy(predictive_sampling, "draws what all future rewards would still confirm", "Liu 2023"),
    Policy(
        w_dbo,
        "removes what the future can do without, removal=relevance|oldest|random",
        "Bardou 2024",
        recommended={"first": recommended_first},
    ),
    Policy(
        time_gp_ucb, "GP-UCB to which time is one more input", "Bardou 2024", learns_kernel=True
    ),
    Policy(mk_gp_ucb, "TV-GP-UCB, the width decided by epsilon", "Mandl & Kekkonen 2026"),
    Policy(boba, "near a desired outcome that must be known", "Kelly 2026"),
)

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _POLICIES}
"""The policies by command-line name."""

FIRST_COMPARISON = tuple(name for name, policy in POLICIES.items() if policy.compared_first)
"""The policies of a comparison that names none: those of the paper of SparQ-GP-UCB, and two more."""
