"""Which points to ask an expert about, and asking."""

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
