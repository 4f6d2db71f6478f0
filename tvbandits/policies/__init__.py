"""The named algorithms: one recipe each, and `POLICIES` by command-line name.

>>> from tvbandits import policies
>>> sorted(policies.POLICIES)[:3]
['ada-opkb', 'adaptive-gp-ucb', 'bbkb']
"""

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvbandits.policies.baselines import eps_greedy, evolution, uniform
    from tvbandits.policies.beta_bernoulli import discounted_thompson
    from tvbandits.policies.budgeted import bbkb, bkb, gp_bucb, thompson
    from tvbandits.policies.elimination import r_perp
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
    from tvbandits.policies.mini import mini_gp_ucb
    from tvbandits.policies.multi_scale import master
    from tvbandits.policies.opkb import ada_opkb
    from tvbandits.policies.priors import hp_gp_ts, pe_gp_ucb, predictive_sampling
    from tvbandits.policies.registry import FIRST_COMPARISON, POLICIES
    from tvbandits.policies.removing import w_dbo
    from tvbandits.policies.setting import PlotStyle, Policy, Setting
    from tvbandits.policies.time_as_input import boba, mk_gp_ucb, time_gp_ucb

__all__ = [
    "FIRST_COMPARISON",
    "POLICIES",
    "PlotStyle",
    "Policy",
    "Setting",
    "ada_opkb",
    "adaptive_gp_ucb",
    "bbkb",
    "bkb",
    "boba",
    "discounted_thompson",
    "eps_greedy",
    "et_gp_ucb",
    "evolution",
    "frugal_gp_ucb",
    "gp_bucb",
    "gp_ucb",
    "hp_gp_ts",
    "master",
    "mini_gp_ucb",
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

# Modules beside this one by the names that they define.
_HOMES = {
    **{
        name: path.stem
        for path in sorted(Path(__file__).parent.glob("*.py"))
        for name in re.findall(
            r"^@(?:described|listed)\b[\s\S]*?^def (\w+)\(", path.read_text("utf-8"), re.MULTILINE
        )
    },
    **dict.fromkeys(("FIRST_COMPARISON", "POLICIES"), "registry"),
    **dict.fromkeys(("PlotStyle", "Policy", "Setting"), "setting"),
}

__all__ += sorted(_HOMES.keys() - {*__all__})


def __getattr__(name: str) -> Any:
    """What is used first is imported then, alone; type checkers know of what is named above."""
    if name in _HOMES:
        found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found
    if not name.startswith("__"):
        registry = import_module(f"{__name__}.registry")
        for policy in registry.POLICIES.values():
            if policy.recipe.__name__ == name:
                return policy.recipe
    raise AttributeError(f"module 'tvbandits.policies' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
