"""The named algorithms: one recipe each, and `POLICIES` by command-line name.

>>> from tvbandits import policies
>>> sorted(policies.POLICIES)[:3]
['ada-opkb', 'bbkb', 'bkb']
"""

from tvbandits.policies.budgeted import bbkb, bkb, gp_bucb, thompson
from tvbandits.policies.catalogue.registry import AS_IN_THE_PAPER, FIRST_COMPARISON, POLICIES
from tvbandits.policies.expert import frugal_gp_ucb, sparq_gp_ucb
from tvbandits.policies.model_free.baselines import eps_greedy, uniform
from tvbandits.policies.model_free.regularised_evolution import evolution
from tvbandits.policies.rivals.designed.opkb import ada_opkb
from tvbandits.policies.rivals.elimination import r_perp
from tvbandits.policies.rivals.master import master
from tvbandits.policies.rivals.predictive import predictive_sampling
from tvbandits.policies.rivals.priors import hp_gp_ts, pe_gp_ucb
from tvbandits.policies.rivals.recipes import boba, mk_gp_ucb, time_gp_ucb
from tvbandits.policies.rivals.removing.wdbo import bolt, w_dbo
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
    "ada_opkb",
    "bbkb",
    "bkb",
    "boba",
    "bolt",
    "eps_greedy",
    "et_gp_ucb",
    "evolution",
    "frugal_gp_ucb",
    "gp_bucb",
    "gp_ucb",
    "hp_gp_ts",
    "master",
    "mk_gp_ucb",
    "pe_gp_ucb",
    "predictive_sampling",
    "r_gp_ucb",
    "r_perp",
    "sparq_gp_ucb",
    "sw_gp_ucb",
    "thompson",
    "time_gp_ucb",
    "tv_gp_ucb",
    "ui_gp_ucb",
    "uniform",
    "w_dbo",
    "w_gp_ucb",
]
