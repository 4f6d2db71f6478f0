"""Query plans, which choose the points to ask an expert about, and their budgets."""

from tvbandits.gp.lookahead import JointPosterior
from tvbandits.queries.plans import (
    KDPP,
    Budget,
    Following,
    LogSchedule,
    NextDecision,
    OnAverage,
    PlausibleMaximizers,
    Pool,
    QueryPlan,
    RandomPoints,
)

__all__ = [
    "KDPP",
    "Budget",
    "Following",
    "JointPosterior",
    "LogSchedule",
    "NextDecision",
    "OnAverage",
    "PlausibleMaximizers",
    "Pool",
    "QueryPlan",
    "RandomPoints",
]
