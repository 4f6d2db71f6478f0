"""Problems to compare policies on: made up, simulated, and read from files."""

from tvbandits.datasets.describe import describe
from tvbandits.datasets.fetch import fetch_ozone
from tvbandits.datasets.field import sensor_field, sensor_field_from_files
from tvbandits.datasets.ozone import load_ozone, ozone
from tvbandits.datasets.ozone_network import ozone_network
from tvbandits.datasets.regression import abalone, california
from tvbandits.datasets.synthetic import DriftingBump, GPDrift, Switching
from tvbandits.datasets.table import TableProblem
from tvbandits.datasets.wide import from_long

__all__ = [
    "DriftingBump",
    "GPDrift",
    "Switching",
    "TableProblem",
    "abalone",
    "california",
    "describe",
    "fetch_ozone",
    "from_long",
    "load_ozone",
    "ozone",
    "ozone_network",
    "sensor_field",
    "sensor_field_from_files",
]
