"""The named algorithms: one recipe each, and `POLICIES` by command-line name.

Examples
--------
>>> from tvbandits import policies
>>> sorted(policies.POLICIES)[:3]
['ada-opkb', 'adaptive-gp-ucb', 'bbkb']
"""

import math
import pkgutil
from importlib import import_module
from typing import Any

from tvbandits.policies.baselines import (
    eps_greedy as eps_greedy,
    evolution as evolution,
    uniform as uniform,
)
from tvbandits.policies.beta_bernoulli import discounted_thompson as discounted_thompson
from tvbandits.policies.budgeted import (
    bbkb as bbkb,
    bkb as bkb,
    gp_bucb as gp_bucb,
    mini_gp_ucb as mini_gp_ucb,
    thompson as thompson,
    tv_bbkb as tv_bbkb,
)
from tvbandits.policies.elimination import r_perp as r_perp
from tvbandits.policies.expert import (
    adaptive_gp_ucb as adaptive_gp_ucb,
    frugal_gp_ucb as frugal_gp_ucb,
    sparq_gp_ucb as sparq_gp_ucb,
)
from tvbandits.policies.forgetting import (
    et_gp_ucb as et_gp_ucb,
    gp_ucb as gp_ucb,
    r_gp_ucb as r_gp_ucb,
    sw_gp_ucb as sw_gp_ucb,
    tv_gp_ucb as tv_gp_ucb,
    ui_gp_ucb as ui_gp_ucb,
    w_gp_ucb as w_gp_ucb,
)
from tvbandits.policies.multi_scale import master as master
from tvbandits.policies.opkb import ada_opkb as ada_opkb
from tvbandits.policies.priors import (
    hp_gp_ts as hp_gp_ts,
    pe_gp_ucb as pe_gp_ucb,
    predictive_sampling as predictive_sampling,
)
from tvbandits.policies.removing import w_dbo as w_dbo
from tvbandits.policies.setting import LISTED, Policy as Policy, Setting as Setting
from tvbandits.policies.time_as_input import (
    boba as boba,
    mk_gp_ucb as mk_gp_ucb,
    time_gp_ucb as time_gp_ucb,
)

# A module that nobody imports has policies, too.
for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

POLICIES = dict(
    sorted(
        LISTED.items(),
        key=lambda item: (item[1].first_comparison or math.inf, item[1].recipe.__module__),
    )
)
"""The policies by command-line name: what every module of this folder lists."""


FIRST_COMPARISON = tuple(name for name, policy in POLICIES.items() if policy.first_comparison)
"""The policies of a comparison that names none: those of the paper of SparQ-GP-UCB, and two more."""

__all__ = [
    *sorted(policy.recipe.__name__ for policy in POLICIES.values()),
    *("discounted_thompson", "FIRST_COMPARISON", "POLICIES", "Policy", "Setting"),
]


def __getattr__(name: str) -> Any:
    """A recipe of `POLICIES` that is not named above; type checkers know of what is."""
    for policy in POLICIES.values():
        if policy.recipe.__name__ == name:
            return policy.recipe
    raise AttributeError(f"module 'tvbandits.policies' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public."""
    return sorted(__all__)
