"""The named algorithms: one recipe each, and `POLICIES` by command-line name.

Examples
--------
>>> from tvbandits import policies
>>> sorted(policies.POLICIES)[:3]
['ada-opkb', 'adaptive-gp-ucb', 'bbkb']
"""

from tvbandits.bandit.policy import default_kernel as default_kernel
from tvbandits.policies.adaptive import adaptive_gp_ucb as adaptive_gp_ucb
from tvbandits.policies.baselines import (
    eps_greedy as eps_greedy,
    evolution as evolution,
    uniform as uniform,
)
from tvbandits.policies.batch_ucb import gp_bucb as gp_bucb
from tvbandits.policies.beta_bernoulli import discounted_thompson as discounted_thompson
from tvbandits.policies.forgetting import (
    et_gp_ucb as et_gp_ucb,
    gp_ucb as gp_ucb,
    r_gp_ucb as r_gp_ucb,
    sw_gp_ucb as sw_gp_ucb,
    tv_gp_ucb as tv_gp_ucb,
    ui_gp_ucb as ui_gp_ucb,
    w_gp_ucb as w_gp_ucb,
)
from tvbandits.policies.frugal import frugal_gp_ucb as frugal_gp_ucb
from tvbandits.policies.mini import mini_gp_ucb as mini_gp_ucb
from tvbandits.policies.registry import FIRST_COMPARISON as FIRST_COMPARISON, POLICIES as POLICIES
from tvbandits.policies.rivals.balancing import lb_gp_ucb as lb_gp_ucb
from tvbandits.policies.rivals.multi_scale import master as master
from tvbandits.policies.rivals.opkb import ada_opkb as ada_opkb
from tvbandits.policies.rivals.predictive import predictive_sampling as predictive_sampling
from tvbandits.policies.rivals.time_as_input import (
    boba as boba,
    mk_gp_ucb as mk_gp_ucb,
    time_gp_ucb as time_gp_ucb,
)
from tvbandits.policies.rivals.wdbo import w_dbo as w_dbo
from tvbandits.policies.setting import Policy as Policy, Setting as Setting
from tvbandits.policies.sketching import bbkb as bbkb, bkb as bkb, tv_bbkb as tv_bbkb
from tvbandits.policies.sparq import sparq_gp_ucb as sparq_gp_ucb
from tvbandits.policies.thompson_sampling import thompson as thompson

__all__ = [
    *sorted(policy.recipe.__name__ for policy in POLICIES.values()),
    *("FIRST_COMPARISON", "POLICIES", "Policy", "Setting", "default_kernel", "discounted_thompson"),
]


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
