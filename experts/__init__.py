"""Experts, which answer queries about the reward at some points, and wrappers around experts.

Experts: `SimulatorExpert`, `CallableExpert`, `CachedLogExpert`, `SensorExpert`. Wrappers: `Budgeted`,
`Retrying`, `Calibrated`. `check_expert` checks whether an expert follows the protocol. Sensors over
MQTT are in `tvbandits.experts.sensors.mqtt`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvbandits.experts.budgeted import Budgeted as Budgeted, Spending as Spending
    from tvbandits.experts.calibrated import Calibrated as Calibrated, Calibration as Calibration
    from tvbandits.experts.conformance import (
        Finding as Finding,
        Outcome as Outcome,
        Report as Report,
        check_expert as check_expert,
    )
    from tvbandits.experts.functions import (
        CallableExpert as CallableExpert,
        SimulatorExpert as SimulatorExpert,
    )
    from tvbandits.experts.log import CachedLogExpert as CachedLogExpert
    from tvbandits.experts.retrying import Retrying as Retrying
    from tvbandits.experts.sensors.expert import (
        Reading as Reading,
        SensorExpert as SensorExpert,
        Station as Station,
        Transport as Transport,
        stations_at as stations_at,
    )
    from tvbandits.experts.sensors.stub import Faults as Faults, StubTransport as StubTransport

# The public names of each module, as above.
_MODULES = {
    "budgeted": "Budgeted Spending",
    "calibrated": "Calibrated Calibration",
    "conformance": "Finding Outcome Report check_expert",
    "functions": "CallableExpert SimulatorExpert",
    "log": "CachedLogExpert",
    "retrying": "Retrying",
    "sensors.expert": "Reading SensorExpert Station Transport stations_at",
    "sensors.stub": "Faults StubTransport",
}

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the protocol alone needs neither pandas nor scipy."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    """Return all public names, including those that have not been imported yet."""
    return sorted(__all__)
