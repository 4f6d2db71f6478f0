"""Good arguments for everything public: by the name of a parameter, or of a callable's parameter."""

import functools
import itertools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.ozone_samples import airdata, field
from tvbandits import Bandit, Campaign, Candidates, Clock, Integer, Limit, Recipe, Space, policies
from tvbandits.bandit.adapter import PolicyAdapter
from tvbandits.datasets import DriftingBump, Switching, simulate_nas_bench
from tvbandits.experts import CallableExpert, SensorExpert, SimulatorExpert, Station, StubTransport
from tvbandits.forgetting.aging import Linear
from tvbandits.queries import OnAverage, RandomPoints
from tvbandits.queries.plans import QueryConfig


def reward(X: Any, t: float) -> Any:
    """A reward from 0 to 1 that drifts a little."""
    return 0.5 + 0.5 * np.sin(np.asarray(X)[:, 0] + 0.1 * t)


def line() -> Candidates:
    """A few candidates on a line."""
    return Candidates(np.linspace(0.0, 10.0, 7)[:, None])


def expert() -> CallableExpert:
    """Who knows the reward."""
    return CallableExpert(reward, 0.01)


def played(**parts: Any) -> Bandit:
    """A bandit in the middle of its life, with a point that is out."""
    bandit = Bandit(Recipe(line(), RBF(1.5), 0.01, **parts))
    for t in (1.0, 2.0, 3.0):
        X = bandit.ask(t)
        bandit.tell(X, reward(X, t), t)
    bandit.ask(4.0)
    return bandit


def asking() -> Bandit:
    """One that has questions for an expert that is not reached by a program."""
    return played(query_config=QueryConfig(RandomPoints(OnAverage(2.0)), None, pool="domain"))


def stub() -> StubTransport:
    """Two stations on a table."""
    return StubTransport(np.sin(np.arange(40.0)).reshape(20, 2), ["a", "b"], noise_variance=0.01)


def stations() -> tuple[Station, ...]:
    """Where they stand."""
    return (Station("a", (0.0,), 0.01), Station("b", (10.0,), 0.01))


def log() -> pd.DataFrame:
    """A table of what an expert said."""
    return pd.DataFrame({"x0": [0.0, 5.0], "t": [1.0, 1.0], "value": [0.5, 0.2], "variance": 0.01})


def readings() -> pd.DataFrame:
    """Of a network, wide."""
    rows = pd.date_range("2024-01-01", periods=6, freq="h")
    return pd.DataFrame({"a": np.arange(6.0), "b": np.arange(6.0) ** 2}, index=rows)


def places() -> pd.DataFrame:
    """Where its sensors are."""
    return pd.DataFrame({"id": ["a", "b"], "x": [0.0, 1.0], "y": [0.0, 2.0]})


_held: list[tempfile.TemporaryDirectory[str]] = []  # gone when the process ends


@functools.cache
def folder() -> Path:
    """Small files of every kind."""
    _held.append(tempfile.TemporaryDirectory(prefix="attack"))
    path = Path(_held[0].name)
    log().to_csv(path / "log.csv", index=False)
    readings().to_csv(path / "readings.csv", index_label="time")
    places().to_csv(path / "places.csv", index=False)
    log().rename(columns={"value": "reward"}).to_csv(path / "rewards.csv", index=False)
    ozone().to_csv(path / "ozone.csv", index=False)
    simulate_nas_bench(0, architectures=6).to_csv(path / "cells.csv", index=False)
    regression(
        ("sex", "length", "diameter", "height", "whole_weight", "shucked_weight"),
        ("viscera_weight", "shell_weight", "rings"),
        path / "abalone.csv",
    )
    regression(
        ("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup"),
        ("Latitude", "Longitude", "MedHouseVal"),
        path / "california.csv",
    )
    return path


def regression(some: tuple[str, ...], others: tuple[str, ...], path: Path) -> None:
    """A small table of numbers; `sex` is a text."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.lognormal(size=(6, 9)), columns=[*some, *others])
    if "sex" in table:
        table["sex"] = ["M", "F", "I", "M", "F", "I"]
    table.to_csv(path, index=False)


def ozone() -> pd.DataFrame:
    """Some sites, six days, as the EPA writes them."""
    return airdata(field())


_places = itertools.count()


def new_place() -> Path:
    """Where there is nothing yet."""
    return folder() / f"new-{next(_places)}.db"


def campaign() -> Campaign:
    """One that has begun, in a new file, with a point that is out."""
    going = Campaign.create(new_place(), asking())
    going.ask(5.0)
    return going


def saved() -> Path:
    """A saved bandit."""
    place = folder() / "saved"
    if not place.exists():
        played().save(place)
    return place


def campaign_place() -> Path:
    """Where one is that has begun."""
    place = new_place()
    Campaign.create(place, asking()).close()
    return place


def at(name: str) -> Callable[[], Path]:
    """One of these files."""
    return lambda: folder() / name


def uniform_with_one_out() -> PolicyAdapter:
    """A policy without a model, with a point that is out."""
    policy = policies.uniform(Candidates([[5.0]]))
    policy.ask(4.0)
    return policy


# Values that nobody can spoil, and the names of the parameters that they are good for.
SHARED: tuple[tuple[Any, str], ...] = (
    (0, "seed"),
    (1, "low dimension"),
    (2, "steps number q"),
    (3, "points_per_axis"),
    (5, "reset_every window total horizon every high"),
    (2008, "years"),
    (0.01, "noise_variance variance"),
    (0.1, "epsilon forgetting_rate"),
    (0.9, "discount"),
    (1.0, "rate"),
    (4.0, "t"),
    ("a", "station id"),
    ("a name", "name"),
    ("ppb", "unit"),
    ("2024-01-02", "when"),
    ((1, 2), "counts"),
    ((0.0,), "coordinates"),
    ((Linear(1.0),), "maps"),
)

# Good values by the name of a parameter.
GOOD: dict[str, Callable[[], Any]] = {
    **{name: lambda value=value: value for value, names in SHARED for name in names.split()},
    "domain": line,
    "kernel": lambda: RBF(1.5),
    "expert": expert,
    "X": lambda: np.array([[5.0]]),
    "y": lambda: np.array([0.5]),
    "values": lambda: np.array([0.5]),
    "recipe": lambda: Recipe(line(), RBF(1.5), 0.01),
    "bounds": lambda: [(0.0, 10.0)],
    "bandit": played,
    "names": lambda: ["a", "b"],
    "move_cost": lambda: 0.1,
    "history": lambda: None,
    "other": played,
    "control": lambda: [5.0],
    "limits": lambda: [Limit("noise_level", at_most=60.0)],
    "successes": lambda: 3,
    "trials": lambda: 10,
    "events": lambda: 3,
    "exposure": lambda: 10.0,
    "function": lambda: reward,
    "problems": lambda: DriftingBump(candidates=11, horizon=3),
    "problem": lambda: DriftingBump(candidates=11, horizon=3),
    "policies": lambda: ["gp-ucb"],
    "budget": lambda: OnAverage(2.0),
    "threshold": lambda: lambda told: 1.0 + told,
    "frame": log,
    "path": at("log.csv"),
    "file": at("log.csv"),
    "files": at("ozone.csv"),
    "stations": stations,
    "transport": stub,
    "ids": lambda: ["a", "b"],
    "points": lambda: [[0.0], [10.0]],
    "context": lambda: [5.0],
    "location": new_place,
}

# Where the same name means something else: callable.parameter.
SPECIAL: dict[str, Callable[[], Any]] = {
    "tvbandits.Dataset.t": lambda: [1.0],
    "tvbandits.Dataset.variance": lambda: [0.01],
    "tvbandits.Answers.values": lambda: [0.5, 0.1],
    "tvbandits.Answers.variance": lambda: 0.01,
    "tvbandits.Clock.time.number": lambda: 3.0,
    "tvbandits.Candidates.X": lambda: np.linspace(0.0, 10.0, 7)[:, None],
    "experts.StubTransport.values": lambda: np.sin(np.arange(40.0)).reshape(20, 2),
    "experts.StubTransport.read.t": lambda: 1.0,
    "experts.StubTransport.request.stations": lambda: ["a", "b"],
    "datasets.TableProblem.values": lambda: np.sin(np.arange(40.0)).reshape(10, 4),
    "datasets.TableProblem.points": lambda: np.arange(4.0)[:, None],
    "datasets.sensor_field.values": readings,
    "datasets.sensor_field.sites": places,
    "datasets.table.file": at("rewards.csv"),
    "datasets.nas_bench.source": at("cells.csv"),
    "tvbandits.Candidates.index.X": lambda: [[0.0, 5.0]],
    "datasets.TableProblem.value.X": lambda: [[1.0]],
    "tvbandits.Bandit.drop.X": lambda: asking().pending,
    "tvbandits.Limit.name": lambda: "load",
    **{
        f"tvbandits.{kind}.{verb}.X": lambda: asking().state.rewards.X[:1]
        for kind in ("Bandit", "Campaign")
        for verb in ("correct", "retract")
    },
    **{
        f"tvbandits.{kind}.correct_answers.X": lambda: asking().state.answers.X[:1]
        for kind in ("Bandit", "Campaign")
    },
    "tvbandits.Bandit.save.path": new_place,
    "tvbandits.Campaign.open.location": campaign_place,
    "tvbandits.Campaign.drop.X": lambda: asking().pending,
    "tvbandits.Campaign.recorded_keys.keys": lambda: ["monday"],
    "tvbandits.Campaign.record.readings": lambda: [{"X": asking().pending, "y": [0.5]}],
    "tvbandits.Campaign.backup.path": new_place,
    "tvbandits.load.path": saved,
    "datasets.GPDrift.value.X": lambda: [[0.0, 0.0]],
    "datasets.Switching.value.X": lambda: Switching().domain.X[:1],
    "tvbandits.Box.by_sample.centres": lambda: np.empty((0, 1)),
    "tvbandits.Candidates.by_sample.centres": lambda: np.array([[0.0, 5.0]]),
    "tvbandits.Space.by_sample.centres": lambda: np.array([[1.0, 2.0, 1.0, 0.0]]),
    "tvbandits.Space.encode.points": lambda: {"a": 1.0, "b": 2, "c": "x"},
    "tvbandits.Space.decode.X": lambda: np.array([[1.0, 2.0, 1.0, 0.0]]),
    "tvbandits.Space.table.points": lambda: pd.DataFrame({"a": [1.0], "b": [2], "c": ["x"]}),
    "tvbandits.Bandit.from_state.state": lambda: played().state,
    "experts.SensorExpert.query.X": lambda: np.array([[0.0]]),
    "experts.SimulatorExpert.query.X": lambda: np.array([[0.5]]),
}

# Objects whose methods are called, where good values of the constructor make no useful one.
OBJECTS: dict[str, Callable[[], Any]] = {
    "tvbandits.Bandit": asking,
    "tvbandits.Campaign": campaign,
    "tvbandits.Space": lambda: Space(a=(0.0, 2.0), b=Integer(1, 5), c=["x", "y"]),
    "tvbandits.Clock": Clock,
    "experts.SensorExpert": lambda: SensorExpert(stations(), stub()),
    "tvbandits.Candidates": lambda: Candidates([[0.0, 5.0], [1.0, 5.0]], context=[1]),
    "policies.uniform": uniform_with_one_out,
    "experts.SimulatorExpert": lambda: SimulatorExpert(DriftingBump(candidates=11, horizon=3)),
}

# Options of which one must be given.
TOGETHER: dict[str, Mapping[str, Any]] = {
    "experts.Budgeted": {"total": 5},
    "forgetting.aging.Window": {"last": 5},
    "tvbandits.Space": {"a": (0.0, 1.0)},
    "tvbandits.Limit": {"at_most": 1.0},
    "tvbandits.Bandit.correct": {"y": 0.5},
    "tvbandits.Campaign.correct": {"y": 0.5},
    "datasets.fetch_ozone": {"base_url": "http://127.0.0.1:9/"},
    "datasets.abalone": {"file": at("abalone.csv")()},
    "datasets.california": {"file": at("california.csv")()},
    "datasets.nas_bench": {"source": at("cells.csv")()},
}
