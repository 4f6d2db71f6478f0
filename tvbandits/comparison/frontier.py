"""Frontiers, which show the regret of each query plan against the number of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from tvbandits.comparison.summary import summarise
from tvbandits.policies.names import parse_spec
from tvbandits.queries.plans import PLANS

# The plans are compared with the same policy without an expert, and with the policy of the paper.
WITHOUT, PAPER = "adaptive-gp-ucb", "sparq-gp-ucb"


def frontier_policies(budgets: Sequence[float], plans: Sequence[str]) -> list[str]:
    """Return the names of a frontier's policies, for `tvbandits.compare`.

    `budgets` are numbers of queries per step, `plans` the names of query plans.

    Raises
    ------
    ValueError
        If a budget is not positive, or there is no plan of that name.
    """
    for budget in budgets:
        if not 0 < budget < math.inf:
            raise ValueError(f"budgets must be positive and finite, got {budget:g}")
    for plan in plans:
        if plan not in PLANS:
            raise ValueError(f'unknown plan "{plan}"; there are: {", ".join(PLANS)}')
    frugal = [
        f"frugal-gp-ucb:queries_per_step={budget:g},plan={plan}"
        for plan in dict.fromkeys(plans)
        for budget in sorted(set(budgets))
    ]
    return [WITHOUT, PAPER, *frugal]


def frontier_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of a frontier's rows, with the columns plan and budget (NaN without one)."""
    summary = summarise(rows)
    parsed = [parse_spec(text) for text in summary["policy"]]
    summary["plan"] = [parameters.get("plan", name) for name, parameters in parsed]
    summary["budget"] = [
        float(parameters.get("queries_per_step", "nan")) for _, parameters in parsed
    ]
    return summary
