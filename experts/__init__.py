"""Experts, which answer with the reward at some points, and wrappers around them.

Experts: `SimulatorExpert`, `CallableExpert`, `CachedLogExpert`, `SensorExpert`. Wrappers: `Budgeted`,
`Retrying`, `Calibrated`. `check_expert` checks whether an expert keeps to the protocol. Sensors over
MQTT are in `tvbandits.experts.sensors.mqtt`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvbandits.experts.budgeted import Budgeted, Spending
    from tvbandits.experts.calibrated import Calibrated, Calibration
    from tvbandits.experts.conformance import Finding, Outcome, Report, check_expert
    from tvbandits.experts.functions import CallableExpert, SimulatorExpert
    from tvbandits.experts.log import CachedLogExpert
    from tvbandits.experts.retrying import Retrying
    from tvbandits.experts.sensors.expert import (
        Reading,
        SensorExpert,
        Station,
        Transport,
        stations_at,
    )
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

# The modules of the names, as above: `tvbandits.experts.protocol` is imported without any of them.
_HOMES = {
    "budgeted": "Budgeted Spending",
    "calibrated": "Calibrated Calibration",
    "conformance": "Finding Outcome Report check_expert",
    "functions": "CallableExpert SimulatorExpert",
    "log": "CachedLogExpert",
    "retrying": "Retrying",
    "sensors.expert": "Reading SensorExpert Station Transport stations_at",
    "sensors.stub": "Faults StubTransport",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a name when it is used first."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, whether they have been imported yet or not."""
    return sorted(__all__)
