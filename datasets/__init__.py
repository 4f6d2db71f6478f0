"""Problems to compare policies on: made up, simulated, and read from files."""

from tvbandits.datasets.ozone import load_ozone, ozone
from tvbandits.datasets.ozone_network import ozone_network
from tvbandits.datasets.regression import abalone, california
from tvbandits.datasets.synthetic import DriftingBump, GPDrift, Switching
from tvbandits.datasets.table import TableProblem

__all__ = [
    "DriftingBump",
    "GPDrift",
    "Switching",
    "TableProblem",
    "abalone",
    "california",
    "load_ozone",
    "ozone",
    "ozone_network",
]
