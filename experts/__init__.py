"""Experts: who can be asked for the reward at chosen points, and what to put around them.

Experts: `SimulatorExpert`, `CallableExpert`, `CachedLogExpert`, `SensorExpert`. Around one: `Budgeted`,
`Retrying`, `Recording`, `Calibrated`; around several: `Ensemble`. `check_expert` finds out whether an
expert keeps to the protocol. Sensors over MQTT are in `tvbandits.experts.mqtt`.
"""

from tvbandits.experts.budgeted import Budgeted, Spent
from tvbandits.experts.calibrated import Calibrated, Calibration
from tvbandits.experts.conformance import check_expert
from tvbandits.experts.ensemble import Ensemble
from tvbandits.experts.log import CachedLogExpert
from tvbandits.experts.recording import Recording, recorded
from tvbandits.experts.recording_file import Doubt
from tvbandits.experts.report import Finding, Outcome, Report
from tvbandits.experts.retrying import BackOff, Retrying
from tvbandits.experts.sensors import Reading, SensorExpert, Station, Transport, stations_at
from tvbandits.experts.simulator import CallableExpert, SimulatorExpert
from tvbandits.experts.stub import Faults, StubTransport

__all__ = [
    "BackOff",
    "Budgeted",
    "CachedLogExpert",
    "Calibrated",
    "Calibration",
    "CallableExpert",
    "Doubt",
    "Ensemble",
    "Faults",
    "Finding",
    "Outcome",
    "Reading",
    "Recording",
    "Report",
    "Retrying",
    "SensorExpert",
    "SimulatorExpert",
    "Spent",
    "Station",
    "StubTransport",
    "Transport",
    "check_expert",
    "recorded",
    "stations_at",
]
