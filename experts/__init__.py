"""Experts: who can be asked for the reward at chosen points, and what to put around them.

Experts: `SimulatorExpert`, `CallableExpert`, `CachedLogExpert`, `SensorExpert`. Around one: `Budgeted`,
`Retrying`, `Recording`, `Calibrated`; around several: `Ensemble`. `check_expert` finds out whether an
expert keeps to the protocol. Sensors over MQTT are in `tvbandits.experts.mqtt`.
"""

from tvbandits.experts.conformance.check_expert import check_expert
from tvbandits.experts.conformance.report import Finding, Outcome, Report
from tvbandits.experts.functions import CallableExpert, SimulatorExpert
from tvbandits.experts.records.checksums import DamagedRecordingError
from tvbandits.experts.records.log import CachedLogExpert
from tvbandits.experts.records.recording import Recording, recorded, verify_recording
from tvbandits.experts.records.schema import Verified
from tvbandits.experts.records.sqlite_file import Doubt
from tvbandits.experts.sensors.expert import SensorExpert, Station, Transport, stations_at
from tvbandits.experts.sensors.readings import Reading
from tvbandits.experts.sensors.stub import Faults, StubTransport
from tvbandits.experts.wrappers.budgeted import Budgeted, Spent
from tvbandits.experts.wrappers.calibrated import Calibrated
from tvbandits.experts.wrappers.calibration import Calibration
from tvbandits.experts.wrappers.ensemble import Ensemble
from tvbandits.experts.wrappers.retrying import BackOff, Retrying

__all__ = [
    "BackOff",
    "Budgeted",
    "CachedLogExpert",
    "Calibrated",
    "Calibration",
    "CallableExpert",
    "DamagedRecordingError",
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
    "Verified",
    "check_expert",
    "recorded",
    "stations_at",
    "verify_recording",
]
