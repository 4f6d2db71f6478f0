"""Policies by name: what a comparison knows of a problem, and how each policy is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvbandits.policies.baselines import make_eps_greedy, make_evolution, make_uniform
from tvbandits.policies.budgeted import make_bbkb, make_bkb, make_gp_bucb
from tvbandits.policies.expert import make_frugal, make_sparq
from tvbandits.policies.sampling import make_thompson
from tvbandits.policies.ucb_family import (
    make_et,
    make_gp,
    make_r,
    make_sw,
    make_tv,
    make_ui,
    make_w,
)


@dataclass(frozen=True)
class Policy:
    """A named policy of a comparison: how to make it, and what it is.

    `make(setting, **parameters)` fills what is not given with the authors' recommendation.
    """

    make: Callable[..., Any]
    summary: str


POLICIES: dict[str, Policy] = {
    "uniform": Policy(make_uniform, "a point of the domain at random"),
    "gp-ucb": Policy(make_gp, "never forgets (Srinivas 2010)"),
    "r-gp-ucb": Policy(make_r, "starts afresh every reset_every rewards (Bogunovic 2016)"),
    "sw-gp-ucb": Policy(make_sw, "the last window rewards (Zhou & Shroff 2021)"),
    "w-gp-ucb": Policy(make_w, "weights discount^age (Deng 2022)"),
    "tv-gp-ucb": Policy(
        make_tv, "a kernel that forgets at rate epsilon, or learns how (Bogunovic 2016)"
    ),
    "ui-gp-ucb": Policy(make_ui, "injects noise at rate, growth=wiener|linear (Brunzema 2022)"),
    "sparq-gp-ucb": Policy(
        make_sparq, "asks an expert about queries * log t points (Mauduit 2025)"
    ),
    "frugal-gp-ucb": Policy(
        make_frugal, "learns the drift, and asks budget questions a step or fewer"
    ),
    "et-gp-ucb": Policy(make_et, "starts afresh when a reward is a surprise (Brunzema 2025)"),
    "bkb": Policy(make_bkb, "a dictionary by leverage scores at every step (Calandriello 2019)"),
    "bbkb": Policy(make_bbkb, "the same in batches, rule=global|local (Calandriello 2020)"),
    "gp-bucb": Policy(make_gp_bucb, "GP-UCB in batches (Desautels 2014)"),
    "thompson": Policy(make_thompson, "batches of posterior samples (Kandasamy 2018)"),
    "evolution": Policy(make_evolution, "regularised evolution (Real 2019)"),
    "eps-greedy": Policy(
        make_eps_greedy, "the best point so far, at random min(epsilon, decay / t)"
    ),
}
"""The policies by command-line name."""


FIRST_COMPARISON = tuple(POLICIES)[:8]
"""The policies of a comparison that names none: those of the paper of SparQ-GP-UCB, and two more."""


AS_IN_THE_PAPER = {"tv-gp-ucb": "tv-gp-ucb:fitted=true"}
"""What a name stands for there, where that differs: an epsilon fitted before the first step."""
