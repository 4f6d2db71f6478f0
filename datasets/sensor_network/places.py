"""Where sensors stand: kilometres from degrees, gaps, and sites at one place."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from tvbandits.core.arrays import Array
from tvbandits.datasets.tables.files import few

EARTH_RADIUS = 6371.0088
"""Mean radius of the earth, km."""


def kilometres(latitude: Array, longitude: Array) -> Array:
    """Kilometres east and north of the mean position, by the equirectangular projection.

    Takes degrees, each of shape (A,), and returns shape (A, 2). At the scale of a state, distances
    are right to about one per cent.
    """
    north = np.radians(latitude - latitude.mean())
    east = np.radians(longitude - longitude.mean()) * np.cos(np.radians(latitude.mean()))
    return EARTH_RADIUS * np.column_stack([east, north])


def without_gaps(
    table: pd.DataFrame, method: Literal["linear", "index"] = "linear"
) -> pd.DataFrame:
    """The table with gaps filled linearly from row to row, and at the ends with the nearest value.

    `method` "index" goes by the times of the index instead of by rows. A column needs one value.
    """
    return table.interpolate(method=method, limit_direction="both")


def check_places(ids: pd.Series[str], places: pd.DataFrame) -> None:
    """Raise a `ValueError` that names them, unless all sites have a place, each its own.

    Parameters
    ----------
    ids : Series of A str
        Names of the sites.
    places : DataFrame of A rows
        Their coordinates, a column each.
    """
    nowhere = places.isna().any(axis=1)
    if nowhere.any():
        missing = " or ".join(str(column) for column in places.columns)
        raise ValueError(f"site {ids[nowhere].iloc[0]} has no {missing}")
    shared = places.duplicated(keep=False)
    if shared.any():
        raise ValueError(f"sites stand at the same place as others: {few(ids[shared])}")
