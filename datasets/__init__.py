"""Problems to compare policies on: made up, simulated, and read from files."""

from tvbandits.core.files import ReadLimits, reading_limits
from tvbandits.datasets.description import describe
from tvbandits.datasets.drifting.arms import AutoregressiveArms, SwitchingArms, WearingArms
from tvbandits.datasets.drifting.exoskeleton import Exoskeleton
from tvbandits.datasets.drifting.new_peak import NewPeak
from tvbandits.datasets.drifting.peaks import GeneralisedMovingPeaks, MovingPeaks
from tvbandits.datasets.epa_ozone.download import DownloadLimits
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone
from tvbandits.datasets.epa_ozone.problem import load_ozone, ozone
from tvbandits.datasets.epa_ozone.simulated import ozone_network
from tvbandits.datasets.finite.nas_bench import nas_bench
from tvbandits.datasets.finite.table_file import table
from tvbandits.datasets.lifted.problem import Lifted
from tvbandits.datasets.regression import abalone, california
from tvbandits.datasets.sensor_network.problem import sensor_field, sensor_field_from_files
from tvbandits.datasets.sensor_network.readings import from_long
from tvbandits.datasets.synthetic import DriftingBump, GPDrift, Switching
from tvbandits.datasets.tables.problem import TableProblem

__all__ = [
    "AutoregressiveArms",
    "DownloadLimits",
    "DriftingBump",
    "Exoskeleton",
    "GPDrift",
    "GeneralisedMovingPeaks",
    "Lifted",
    "MovingPeaks",
    "NewPeak",
    "ReadLimits",
    "Switching",
    "SwitchingArms",
    "TableProblem",
    "WearingArms",
    "abalone",
    "california",
    "describe",
    "fetch_ozone",
    "from_long",
    "load_ozone",
    "nas_bench",
    "ozone",
    "ozone_network",
    "reading_limits",
    "sensor_field",
    "sensor_field_from_files",
    "table",
]
