"""The named algorithms: one recipe each, and `POLICIES` by command-line name.

>>> from tvbandits import policies
>>> sorted(policies.POLICIES)[:3]
['bbkb', 'bkb', 'eps-greedy']
"""

from tvbandits.policies.baselines import eps_greedy, uniform
from tvbandits.policies.budgeted import bbkb, bkb, gp_bucb, thompson
from tvbandits.policies.expert import frugal_gp_ucb, sparq_gp_ucb
from tvbandits.policies.registry import AS_IN_THE_PAPER, FIRST_COMPARISON, POLICIES
from tvbandits.policies.regularised_evolution import evolution
from tvbandits.policies.setting import Look, Policy, Setting
from tvbandits.policies.ucb_family import (
    et_gp_ucb,
    gp_ucb,
    r_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    w_gp_ucb,
)

__all__ = [
    "AS_IN_THE_PAPER",
    "FIRST_COMPARISON",
    "POLICIES",
    "Look",
    "Policy",
    "Setting",
    "bbkb",
    "bkb",
    "eps_greedy",
    "et_gp_ucb",
    "evolution",
    "frugal_gp_ucb",
    "gp_bucb",
    "gp_ucb",
    "r_gp_ucb",
    "sparq_gp_ucb",
    "sw_gp_ucb",
    "thompson",
    "tv_gp_ucb",
    "ui_gp_ucb",
    "uniform",
    "w_gp_ucb",
]
