"""The pictures of the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvbandits.campaign.report.facts import Facts
from tvbandits.core.arrays import Array
from tvbandits.core.display.page import Plot, table

FRAMES, AHEAD = 13, 3
"""Positions of the time slider, and how many of them speak of times ahead."""

SITES = {"type": "category", "tickangle": -60}
"""An axis of names."""

LEGEND = {
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02},
    "margin": {"t": 60, "r": 20},
}
"""Above the picture, and not over it."""

MOST_ROWS = 60
"""Of a table."""


def belief(facts: Facts) -> Plot:
    """Mean and two deviations at every place, with a slider over time."""
    span = max(FRAMES - AHEAD - 1, 1)
    started = float(facts.history["time"].min()) if len(facts.history) else facts.now
    back = np.linspace(min(started, facts.now), facts.now, span + 1)
    times = np.unique([*back, *(facts.now + facts.spacing * np.arange(1, AHEAD + 1))])
    shown = int(np.argmin(np.abs(times - facts.now)))
    frames = [_belief_at(facts, float(t)) for t in times]
    curve = _is_line(facts)
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "place"}, **({} if curve else SITES)},
        "yaxis": {"title": {"text": f"reward{facts.unit}"}, "range": _range(frames)},
        **LEGEND,
    }
    mean, deviation = facts.belief
    order = np.argsort(mean if facts.minimises else -mean)[:MOST_ROWS]
    rows = [[facts.names[i], float(mean[i]), float(deviation[i])] for i in order]
    content = table(["place", "mean", "deviation"], rows, f"Best first, {facts.when(facts.now)}")
    said = [
        {"name": facts.when(float(t)), "data": frame}
        for t, frame in zip(times, frames, strict=True)
    ]
    caption = "What is believed about every place"
    return Plot("belief", caption, frames[shown], layout, content, said, shown, "belief about")


def sites_map(facts: Facts) -> Plot | None:
    """Sites in the plane, lighter where the mean is higher; None where places have no such map."""
    if facts.places.shape[1] != 2 or not facts.sites:
        return None
    mean, deviation = facts.belief
    troubled = {each.name for each in facts.stations if each.troubles}
    rows = [i for i, name in enumerate(facts.names) if name in troubled]
    out = [facts.row_of(point) for point in facts.pending]
    x, y = facts.places[:, 0], facts.places[:, 1]
    across, up = facts.axes
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers", "name": "mean", "x": x, "y": y,
            "text": facts.names, "customdata": np.stack([mean, deviation], axis=1),
            "hovertemplate": "%{text}: %{customdata[0]:.4g} ± %{customdata[1]:.2g}<extra></extra>",
            "marker": {
                "size": 16, "color": mean, "colorscale": "Cividis", "line": {"width": 1, "color": "INK"},
                "colorbar": {"title": {"text": f"mean{facts.unit}"}, "thickness": 12},
            },
        },
        _ringed(facts, out, "where to go", "circle-open", 28),
        _ringed(facts, rows, "in trouble", "x-thin-open", 16),
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": across}, "constrain": "domain"},
        "yaxis": {"title": {"text": up}, "scaleanchor": "x", "constrain": "domain"},
        "hovermode": "closest",
        **LEGEND,
    }
    return Plot("map", f"The mean at every site, {facts.when(facts.now)}", data, layout)


def _ringed(facts: Facts, rows: list[int], name: str, symbol: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": facts.places[rows, 0], "y": facts.places[rows, 1], "visible": bool(rows),
        "marker": {"symbol": symbol, "size": size, "color": "INK", "line": {"width": 3, "color": "INK"}},
    }  # fmt: skip


def _is_line(facts: Facts) -> bool:
    return facts.places.shape[1] == 1 and len(facts.places) > 40


def _belief_at(facts: Facts, t: float) -> list[dict[str, Any]]:
    mean, deviation = facts.believed(t)
    seen = (np.abs(facts.history["time"].to_numpy(dtype=float) - t) <= facts.spacing / 2).tolist()
    rows = [facts.row_of(point) for point in facts.coordinates[seen]]
    values = facts.history["reward"].to_numpy(dtype=float)[seen]
    marked = {
        "type": "scatter",
        "mode": "markers",
        "name": "read then",
        "marker": {"symbol": "x", "size": 10, "color": "INK"},
    }
    if _is_line(facts):
        x = facts.places[:, 0]
        order = np.argsort(x)
        x, mean, deviation = x[order], mean[order], deviation[order]
        band = [*(mean + 2 * deviation), *(mean - 2 * deviation)[::-1]]
        return [
            {
                "type": "scatter", "mode": "lines", "name": "two deviations", "x": [*x, *x[::-1]],
                "y": band, "fill": "toself", "fillcolor": "LINE", "opacity": 0.5,
                "line": {"width": 0}, "hoverinfo": "skip",
            },
            {
                "type": "scatter", "mode": "lines", "name": "mean", "x": x, "y": mean,
                "customdata": deviation, "line": {"color": "INK"},
                "hovertemplate": "%{x:.4g}: %{y:.4g} ± %{customdata:.2g}",
            },
            {**marked, "x": facts.places[rows, 0], "y": values},
        ]  # fmt: skip
    names = _short(facts.names)
    return [
        {
            "type": "scatter", "mode": "markers", "name": "mean and two deviations", "x": names,
            "y": mean, "error_y": {"type": "data", "array": 2 * deviation, "color": "INK"},
            "text": facts.names, "customdata": deviation,
            "marker": {"symbol": "circle", "size": 8, "color": "INK"},
            "hovertemplate": "%{text}: %{y:.4g} ± %{customdata:.2g}<extra></extra>",
        },
        {**marked, "x": [names[row] for row in rows], "y": values},
    ]  # fmt: skip


def _short(names: list[str]) -> list[str]:
    """Names that fit under an axis, still different from each other."""
    cut = [name if len(name) <= 18 else f"{name[:16]}…" for name in names]
    return cut if len(set(cut)) == len(names) else [f"{i + 1} {name}" for i, name in enumerate(cut)]


def _range(frames: list[list[dict[str, Any]]]) -> list[float]:
    """One for all positions of the slider."""
    low, high = np.inf, -np.inf
    for frame in frames:
        for trace in frame:
            y = np.asarray(trace["y"], dtype=float)
            extra = np.asarray(trace.get("error_y", {}).get("array", 0.0), dtype=float)
            if y.size:
                low = min(low, float(np.nanmin(y - extra))) if not np.isnan(y).all() else low
                high = max(high, float(np.nanmax(y + extra))) if not np.isnan(y).all() else high
    room = 0.05 * max(high - low, 1e-12)
    return [low - room, high + room]


def story(facts: Facts) -> Plot:
    """What came back, over time."""
    history = facts.history
    names = [facts.name_of(point) for point in facts.coordinates]
    times = [_moment(facts, t) for t in history["time"]]
    looks = {"reward": ("circle", "played"), "answer": ("x-thin-open", "asked")}
    data = []
    for kind, (symbol, label) in looks.items():
        of_kind = np.flatnonzero((history["kind"] == kind).to_numpy())
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label,
                "x": [times[i] for i in of_kind],
                "y": history["reward"].to_numpy(dtype=float)[of_kind],
                "text": [names[i] for i in of_kind],
                "marker": {"symbol": symbol, "size": 6, "color": "INK"},
                "hovertemplate": "%{text}, %{x}: %{y:.4g}<extra></extra>",
            }
        )
    layout = {
        "xaxis": {"title": {"text": "time"}},
        "yaxis": {"title": {"text": f"reward{facts.unit}"}},
        **LEGEND,
    }
    last = history.tail(MOST_ROWS)
    rows = [
        [times[i], names[i], float(row["reward"]), str(row["kind"]), str(row["source"])]
        for i, row in zip(last.index, last.to_dict("records"), strict=True)
    ][::-1]
    content = table(["time", "place", "reward", "kind", "source"], rows, "The latest first")
    return Plot("story", "What was read and answered, over time", data, layout, content)


def _moment(facts: Facts, t: float) -> str | float:
    clock = facts.campaign.clock
    return float(t) if clock is None else f"{clock.time(float(t)):%Y-%m-%d %H:%M:%S}"


def costs(facts: Facts) -> Plot | None:
    """Questions asked so far, over time; None where nobody is asked."""
    history = facts.history
    answers = history[history["source"] == "expert"]
    if not len(answers):
        return None
    by_time = answers.groupby("time").size().cumsum()
    times: list[Any] = [_moment(facts, t) for t in by_time.index]
    counts: Array = by_time.to_numpy().astype(np.float64)
    data = [
        {
            "type": "scatter", "mode": "lines", "name": "answers", "x": times, "y": counts,
            "line": {"shape": "hv", "color": "INK"},
        }
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "time"}},
        "yaxis": {"title": {"text": "answers so far"}, "rangemode": "tozero"},
        "margin": {"t": 20, "r": 20},
    }
    every = max(len(times) // MOST_ROWS, 1)
    content = table(["time", "answers so far"], list(zip(times, counts, strict=True))[::every])
    return Plot("costs", "Answers on record, over time", data, layout, content)
