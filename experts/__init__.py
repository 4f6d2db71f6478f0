"""Experts: who can be asked for the reward at chosen points."""

from tvbandits.experts.conformance import check_expert
from tvbandits.experts.simulator import CallableExpert, SimulatorExpert

__all__ = ["CallableExpert", "SimulatorExpert", "check_expert"]
