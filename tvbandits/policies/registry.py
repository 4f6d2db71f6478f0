"""The policies by name, gathered from the modules in which they stand."""

from __future__ import annotations

from collections.abc import Iterable

from tvbandits.policies import (
    baselines,
    budgeted,
    drifting,
    elimination,
    expert,
    forgetting,
    learning,
    opkb,
    predictive,
    priors,
    regularised_evolution,
)
from tvbandits.policies import multi_scale as master
from tvbandits.policies import removing as wdbo
from tvbandits.policies import time_as_input as recipes
from tvbandits.policies.setting import Policy


def gathered(policies: Iterable[Policy]) -> dict[str, Policy]:
    """Policies by name, those of the first comparison first.

    Raises
    ------
    ValueError
        If two have one name.
    """
    found: dict[str, Policy] = {}
    for policy in sorted(policies, key=lambda each: not each.first_comparison):
        if policy.name in found:
            raise ValueError(f'two policies are called "{policy.name}"')
        found[policy.name] = policy
    return found


POLICIES = gathered(
    (
        *baselines.POLICIES,
        *forgetting.POLICIES,
        *drifting.POLICIES,
        *learning.POLICIES,
        *expert.POLICIES,
        *budgeted.POLICIES,
        *regularised_evolution.POLICIES,
        *wdbo.POLICIES,
        *recipes.POLICIES,
        *priors.POLICIES,
        *predictive.POLICIES,
        *master.POLICIES,
        *elimination.POLICIES,
        *opkb.POLICIES,
    )
)
"""The policies by command-line name."""


FIRST_COMPARISON = tuple(name for name, policy in POLICIES.items() if policy.first_comparison)
"""The policies of a comparison that names none: those of the paper of SparQ-GP-UCB, and two more."""
