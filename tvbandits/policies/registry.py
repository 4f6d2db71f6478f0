"""The policies by name, found in the modules of this folder."""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from tvbandits.policies.setting import LISTED, Policy


def gathered(policies: Iterable[Policy]) -> dict[str, Policy]:
    """Policies by name, those of the first comparison first.

    Raises
    ------
    ValueError
        If two have one name.
    """
    found: dict[str, Policy] = {}
    for policy in sorted(policies, key=lambda each: each.first_comparison or math.inf):
        if policy.name in found:
            raise ValueError(f'two policies are called "{policy.name}"')
        found[policy.name] = policy
    return found


POLICIES = gathered(
    policy
    for found in pkgutil.iter_modules([str(Path(__file__).parent)])
    if found.name != "registry"
    for policy in LISTED.get(import_module(f"tvbandits.policies.{found.name}").__name__, ())
)
"""The policies by command-line name: what every module beside this one lists."""


FIRST_COMPARISON = tuple(name for name, policy in POLICIES.items() if policy.first_comparison)
"""The policies of a comparison that names none: those of the paper of SparQ-GP-UCB, and two more."""
