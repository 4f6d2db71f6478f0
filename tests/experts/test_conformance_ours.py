"""Every expert of the package keeps to the protocol, alone and wrapped.

The experts are found in the package: any class that answers a `query`. One that nobody here makes is
missed by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.discovery import classes_with, is_wrapper
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Expert
from tvbandits.datasets import ozone_network
from tvbandits.experts import (
    Budgeted,
    CachedLogExpert,
    Calibrated,
    CallableExpert,
    Ensemble,
    Faults,
    Recording,
    Retrying,
    SensorExpert,
    SimulatorExpert,
    StubTransport,
    check_expert,
    recorded,
    stations_at,
)
from tvbandits.forgetting.aging import Wiener

NETWORK = ozone_network(stations=6, days=20)
POINTS, FAR = NETWORK.points[:4], np.array([[9e3, 9e3]])


def log() -> pd.DataFrame:
    days = np.repeat(np.arange(1.0, 21.0), 6)
    places = np.tile(NETWORK.points, (20, 1))
    return pd.DataFrame(
        {
            "x0": places[:, 0],
            "x1": places[:, 1],
            "t": days,
            "value": NETWORK.values.ravel(),
            "variance": 1.0,
        }
    )


def sensors(faults: Any = ()) -> SensorExpert:
    transport = StubTransport(NETWORK.values, NETWORK.labels, noise_variance=1.0, faults=faults)
    stations = stations_at(NETWORK.points, NETWORK.labels, noise_variance=1.0)
    return SensorExpert(
        stations, transport, tolerance=1.0, staleness=2.0, aging=Wiener(1.0), cost=1.0
    )


def levels(X: Array, t: float) -> Array:
    return np.asarray(X[:, 0] / 100 + t)


OURS: dict[str, Callable[[Path], Expert]] = {
    "simulator": lambda _: SimulatorExpert(NETWORK),
    "callable": lambda _: CallableExpert(levels, 1.0),
    "log": lambda _: CachedLogExpert(log(), staleness=2.0, aging=Wiener(1.0), tolerance=1.0),
    "sensors": lambda _: sensors(),
    "sensors that lose answers": lambda _: sensors(Faults(loss=0.4)),
    "recording": lambda path: Recording(sensors(), path / "answers.sqlite"),
    "recording without reuse": lambda path: Recording(
        sensors(), path / "answers.sqlite", reuse=False
    ),
    "retrying": lambda _: Retrying(sensors(), attempts=2, sleep=lambda _seconds: None),
    "budgeted": lambda _: Budgeted(sensors(), total=10_000, cost=1e6, price=1.0),
    "calibrated": lambda _: Calibrated(sensors()),
    "ensemble": lambda _: Ensemble([sensors(), SimulatorExpert(NETWORK)]),
    "all of them": lambda path: Recording(
        Budgeted(
            Retrying(Calibrated(Ensemble([sensors(), sensors(Faults(bias=1.0))])), attempts=2),
            total=10_000,
        ),
        path / "answers.sqlite",
    ),
}
MADE = {
    name: kind
    for name, kind in classes_with("query", "X", "t").items()
    if kind.__module__.startswith("tvbandits.experts.")
}
NEW = {
    name: lambda _, kind=kind: kind(sensors())
    for name, kind in MADE.items()
    if is_wrapper(kind) and name.casefold() not in OURS
}
OURS |= NEW
"""A wrapper that is not in the list is put around sensors, with nothing but its defaults."""

FOR_EVERYWHERE = {"callable"}
"""Those that answer wherever they are asked."""


def unmade(experts: dict[str, type], path: Path) -> set[str]:
    """The classes of which no expert here is one, by name."""
    return set(experts) - {type(make(path)).__name__ for make in OURS.values()}


def test_every_expert_of_the_package_is_made_here(tmp_path: Path) -> None:
    # A campaign's record of an expert is part of its journal, and tested there.
    assert {"SimulatorExpert", "SensorExpert", "Recording"} <= set(MADE)
    missing = unmade(MADE, tmp_path)
    assert not missing, f"{sorted(missing)} need a maker in OURS of this file"
    assert unmade({**MADE, "Silent": object}, tmp_path) == {"Silent"}


@pytest.mark.parametrize("name", OURS)
def test_ours_keep_to_the_protocol(name: str, tmp_path: Path) -> None:
    expert = OURS[name](tmp_path)
    outside = None if name in FOR_EVERYWHERE else FAR
    report = check_expert(expert, POINTS, 5.0, deterministic=True, outside=outside)
    assert report.passed
    assert len(report.findings) >= 12


def test_what_was_checked_through_a_recording_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    check_expert(Recording(sensors(), path), POINTS, 5.0, deterministic=True)
    frame = recorded(path)
    written = int((frame["value"].notna() & (frame["t"] == 5.0)).sum())
    assert written == len(POINTS)  # each once, however often it was asked
