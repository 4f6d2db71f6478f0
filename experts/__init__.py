"""Experts, which answer with the reward at some points, and wrappers around them.

Experts: `SimulatorExpert`, `CallableExpert`, `CachedLogExpert`, `SensorExpert`. Wrappers: `Budgeted`,
`Retrying`, `Calibrated`. `check_expert` checks whether an expert keeps to the protocol. Sensors over
MQTT are in `tvbandits.experts.sensors.mqtt`.
"""

from tvbandits.experts.budgeted import Budgeted, Spending
from tvbandits.experts.calibrated import Calibrated, Calibration
from tvbandits.experts.conformance import Finding, Outcome, Report, check_expert
from tvbandits.experts.functions import CallableExpert, SimulatorExpert
from tvbandits.experts.log import CachedLogExpert
from tvbandits.experts.retrying import Retrying
from tvbandits.experts.sensors.expert import Reading, SensorExpert, Station, Transport, stations_at
from tvbandits.experts.sensors.stub import Faults, StubTransport

__all__ = [
    "Budgeted",
    "CachedLogExpert",
    "Calibrated",
    "Calibration",
    "CallableExpert",
    "Faults",
    "Finding",
    "Outcome",
    "Reading",
    "Report",
    "Retrying",
    "SensorExpert",
    "SimulatorExpert",
    "Spending",
    "Station",
    "StubTransport",
    "Transport",
    "check_expert",
    "stations_at",
]
