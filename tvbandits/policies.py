"""The named algorithms: one recipe each, and `POLICIES` by command-line name.

>>> from tvbandits import policies
>>> sorted(policies.POLICIES)[:3]
['bbkb', 'bkb', 'eps-greedy']
"""

from tvbandits.recipes import (
    Common,
    bbkb,
    bkb,
    et_gp_ucb,
    frugal_gp_ucb,
    gp_bucb,
    gp_ucb,
    r_gp_ucb,
    sparq_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    w_gp_ucb,
)
from tvbandits.registry import AS_IN_THE_PAPER, FIRST_COMPARISON, POLICIES, Policy, Setting

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
