"""Maps of a sensor network: what is drawn where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tvbandits.comparison.sensor_map import MapSnapshot, sensor_map

POINTS = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 2.0], [4.0, 4.0]])
LEVELS = np.array([3.0, 9.5, 4.0, 7.0])


def week(days: int) -> list[MapSnapshot]:
    return [MapSnapshot(f"day {d}", LEVELS + d, np.array([0, 2]), 3) for d in range(days)]


def maps(figure: Figure) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_title()]


def test_sites_rings_and_marks() -> None:
    figure = sensor_map(POINTS, week(1), unit="ppb")
    (axes,) = maps(figure)
    assert axes.get_title() == "day 0: missed 2.5 ppb"
    sites, rings = axes.collections
    np.testing.assert_array_equal(np.sort(sites.get_offsets(), axis=0), np.sort(POINTS, axis=0))
    np.testing.assert_array_equal(rings.get_offsets(), POINTS[[0, 2]])
    chosen, best = axes.lines
    assert chosen.get_xydata().tolist() == [[4.0, 4.0]]
    assert best.get_xydata().tolist() == [[3.0, 1.0]]
    # The highest level has the lightest colour, and its star shows it too.
    lightness = np.asarray(sites.get_facecolors())[:, :3].sum(axis=1)
    np.testing.assert_array_equal(sites.get_offsets()[np.argmax(lightness)], POINTS[1])
    np.testing.assert_allclose(best.get_markerfacecolor(), sites.get_facecolors()[-1])
    labels = {axes.get_ylabel() for axes in figure.axes} | {a.get_xlabel() for a in figure.axes}
    assert {"north (km)", "east (km)", "level (ppb)"} <= labels


def test_a_hit_is_said() -> None:
    snapshot = MapSnapshot("today", LEVELS, np.array([], dtype=np.int64), 1)
    (axes,) = maps(sensor_map(POINTS, [snapshot]))
    assert axes.get_title() == "today: met the best"


@pytest.mark.parametrize("days", [1, 2, 7, 8])
def test_a_map_for_every_step_and_a_legend(days: int) -> None:
    figure = sensor_map(POINTS, week(days))
    assert len(maps(figure)) == days
    legends = [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]
    assert len(legends) == 1
    texts = [text.get_text() for text in legends[0].get_texts()]
    assert texts == ["site", "asked", "chosen", "best"]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: sensor_map(POINTS[:, :1], week(1)), r"points must have shape \(A, 2\), got"),
        (lambda: sensor_map(POINTS, []), "snapshots must hold at least one step"),
        (lambda: sensor_map(POINTS[:3], week(1)), r'levels of "day 0" must have shape \(3,\)'),
        (lambda: MapSnapshot("x", LEVELS, np.array([4]), 0), "rows from 0 to 3, got 4"),
        (lambda: MapSnapshot("x", LEVELS, np.array([1]), -1), "rows from 0 to 3, got -1"),
        (
            lambda: MapSnapshot("x", np.array([1.0, np.nan]), np.array([0]), 0),
            r'levels of "x" must be finite',
        ),
    ],
)
def test_bad_maps(call: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()
