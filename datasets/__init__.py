"""Problems to compare policies on: synthetic ones, simulations, and tables read from files."""

from tvbandits.datasets.arms import (
    AutoregressiveArms,
    Banners,
    BannersByDay,
    SwitchingArms,
    WearingArms,
)
from tvbandits.datasets.epa_ozone.benchmark import ozone
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone
from tvbandits.datasets.epa_ozone.simulated import ozone_network
from tvbandits.datasets.fields import Field
from tvbandits.datasets.finite import abalone, california, table
from tvbandits.datasets.hidden import BerkenkampToy, NarrowBump
from tvbandits.datasets.lifted import Lifted
from tvbandits.datasets.limited import BumpAndWall, HeatPump, QuietNetwork
from tvbandits.datasets.network_architectures import nas_bench, simulate_nas_bench
from tvbandits.datasets.peaks import GeneralisedMovingPeaks, MovingPeaks, NewPeak
from tvbandits.datasets.sensor_field import sensor_field
from tvbandits.datasets.synthetic import (
    DriftingBump,
    Exoskeleton,
    GPDrift,
    Switching,
    TimedParabola,
)
from tvbandits.datasets.table_problem import TableProblem
from tvbandits.datasets.tables.layout import FileOptions

__all__ = [
    "AutoregressiveArms",
    "Banners",
    "BannersByDay",
    "BerkenkampToy",
    "BumpAndWall",
    "DriftingBump",
    "Exoskeleton",
    "Field",
    "FileOptions",
    "GPDrift",
    "GeneralisedMovingPeaks",
    "HeatPump",
    "Lifted",
    "MovingPeaks",
    "NarrowBump",
    "NewPeak",
    "QuietNetwork",
    "Switching",
    "SwitchingArms",
    "TableProblem",
    "TimedParabola",
    "WearingArms",
    "abalone",
    "california",
    "fetch_ozone",
    "nas_bench",
    "ozone",
    "ozone_network",
    "sensor_field",
    "simulate_nas_bench",
    "table",
]
