"""The named algorithms: one recipe each, and `POLICIES` by command-line name.

>>> from tvbandits import policies
>>> sorted(policies.POLICIES)[:3]
['bbkb', 'bkb', 'eps-greedy']
"""

from tvbandits.policies.budgeted import bbkb, bkb, gp_bucb
from tvbandits.policies.expert import frugal_gp_ucb, sparq_gp_ucb
from tvbandits.policies.registry import AS_IN_THE_PAPER, FIRST_COMPARISON, POLICIES, Policy
from tvbandits.policies.setting import Common, Setting
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
    "Common",
    "Policy",
    "Setting",
    "bbkb",
    "bkb",
    "et_gp_ucb",
    "frugal_gp_ucb",
    "gp_bucb",
    "gp_ucb",
    "r_gp_ucb",
    "sparq_gp_ucb",
    "sw_gp_ucb",
    "tv_gp_ucb",
    "ui_gp_ucb",
    "w_gp_ucb",
]
