"""Maps of a sensor network: what it measured, whom a bandit asked, and where it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tvbandits.core.arrays import Array, Index
from tvbandits.plots.figure import NotebookFigure

COLOURS = "viridis"
"""From dark to light in even steps, also in grey."""


SITE, RING, CHOSEN, BEST = 60, 190, 15, 8
"""Sizes: areas of a site and of its ring, widths of the marks."""


WIDTH = 2.9
"""Of a map, inches."""


@dataclass(frozen=True)
class MapSnapshot:
    """One step on a network of A sites.

    Attributes
    ----------
    title : str
    levels : array of shape (A,)
        Reward at each site, in its unit.
    asked : integer array
        Rows of the sites that an expert was asked about.
    chosen : int
        Row of the site that was played.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.comparison.sensor_map import MapSnapshot
    >>> print(MapSnapshot("Monday", np.array([41.0, 55.0, 38.0]), asked=np.array([0]), chosen=1).best)
    1
    """

    title: str
    levels: Array
    asked: Index
    chosen: int

    def __post_init__(self) -> None:
        sites = len(self.levels)
        if not np.isfinite(self.levels).all():
            raise ValueError(f'levels of "{self.title}" must be finite, got {self.levels}')
        rows = np.append(np.asarray(self.asked, dtype=np.int64), self.chosen)
        if ((rows < 0) | (rows >= sites)).any():
            wrong = rows[(rows < 0) | (rows >= sites)][0]
            raise ValueError(f"sites must be rows from 0 to {sites - 1}, got {wrong}")

    @property
    def best(self) -> int:
        """Row of the site of the highest level."""
        return int(np.argmax(self.levels))


def sensor_map(
    points: Array,
    snapshots: Sequence[MapSnapshot],
    *,
    unit: str = "",
    distance_unit: str = "km",
    columns: int = 4,
) -> Figure:
    """One map a step: sites coloured by level, asked ones ringed, the chosen and the best one marked.

    Parameters
    ----------
    points : array of shape (A, 2)
        Where the sites stand: east and north.
    snapshots : sequence of Snapshot
        At least one.
    unit, distance_unit : str
        Of the levels, and of the points.
    columns : int
        Maps in a row.

    Raises
    ------
    ValueError
        If the points are not in a plane, or the levels are not one a site.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.comparison.sensor_map import MapSnapshot, sensor_map
    >>> points = np.array([[0.0, 0.0], [1.0, 0.5], [0.3, 1.0]])
    >>> monday = MapSnapshot("Monday", np.array([41.0, 55.0, 38.0]), asked=np.array([0]), chosen=1)
    >>> sensor_map(points, [monday], unit="ppb").savefig("map.png")
    """
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must have shape (A, 2), got {points.shape}")
    if not snapshots:
        raise ValueError("snapshots must hold at least one step")
    for each in snapshots:
        if each.levels.shape != (len(points),):
            raise ValueError(
                f'levels of "{each.title}" must have shape ({len(points)},), got {each.levels.shape}'
            )
    columns = min(columns, len(snapshots))
    lines = -(-len(snapshots) // columns)
    width, height = np.ptp(points, axis=0)
    shape = float(np.clip(height / max(width, 1e-12), 0.4, 1.6))
    size = (WIDTH * columns + 1.3, (WIDTH * shape + 0.5) * lines + 0.8)
    figure = NotebookFigure(size)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    every = np.concatenate([each.levels for each in snapshots])
    colours = ScalarMappable(Normalize(every.min(), every.max()), COLOURS)
    for axes, snapshot in zip(grid.flat, snapshots, strict=False):
        _draw(axes, points, snapshot, colours, unit)
    # The legend takes the first place that is free, where there is one.
    free = grid.flat[len(snapshots) :]
    for axes in free:
        axes.set_axis_off()
    if len(free):
        free[0].legend(handles=_legend(), loc="center", frameon=False, labelspacing=1.1)
    else:
        figure.legend(handles=_legend(), loc="outside upper center", ncols=4, frameon=False)
    for axes in grid.flat[len(snapshots) - columns : len(snapshots)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(f"east ({distance_unit})")
    for axes in grid[:, 0]:
        axes.set_ylabel(f"north ({distance_unit})")
    figure.colorbar(colours, ax=grid, label=f"level ({unit})" if unit else "level", pad=0.02)
    return figure


def _draw(
    axes: Axes, points: Array, snapshot: MapSnapshot, colours: ScalarMappable, unit: str
) -> None:
    # The highest sites lie on top, where sites crowd.
    order = np.argsort(snapshot.levels)
    axes.scatter(
        points[order, 0],
        points[order, 1],
        s=SITE,
        c=colours.to_rgba(snapshot.levels[order]),
        edgecolors="0.35",
        linewidths=0.5,
    )
    asked = np.asarray(snapshot.asked, dtype=np.int64)
    axes.scatter(
        points[asked, 0],
        points[asked, 1],
        s=RING,
        facecolors="none",
        edgecolors="black",
        linewidths=1.2,
    )
    axes.plot(*points[snapshot.chosen], **_CHOSEN)
    level = colours.to_rgba(snapshot.levels[snapshot.best])
    axes.plot(*points[snapshot.best], **{**_BEST, "markerfacecolor": level})
    lost = float(snapshot.levels[snapshot.best] - snapshot.levels[snapshot.chosen])
    missed = f"missed {lost:.1f} {unit}".rstrip() if lost else "met the best"
    axes.set_title(f"{snapshot.title}: {missed}", fontsize=10)
    axes.set_aspect("equal", adjustable="box")
    axes.margins(0.12)


_CHOSEN: dict[str, Any] = {
    "marker": "s",
    "markersize": CHOSEN,
    "markerfacecolor": "none",
    "markeredgecolor": "#b00020",
    "markeredgewidth": 2.0,
    "linestyle": "none",
}


_BEST: dict[str, Any] = {
    "marker": "*",
    "markersize": BEST + 3,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.9,
    "linestyle": "none",
}


def _legend() -> list[Line2D]:
    plain: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "black"}
    return [
        Line2D([], [], marker="o", markersize=7, markerfacecolor="0.6", label="site", **plain),
        Line2D([], [], marker="o", markersize=13, markerfacecolor="none", label="asked", **plain),
        Line2D([], [], label="chosen", **{**_CHOSEN, "markersize": 11}),
        Line2D([], [], label="best", **_BEST),
    ]
