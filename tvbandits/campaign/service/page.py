"""The page of a campaign: what who is responsible wants to see in five seconds, then the rest.

The pictures of the page.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from tvbandits._version import __version__
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.service.facts import Facts, Plane
from tvbandits.campaign.status import ago, drop_command
from tvbandits.core.files.page import Plot, cards, page, scrolled, section, table

# An axis of names.
SITES = {"title": {"text": "place"}, "type": "category", "tickangle": -60}

# Above the picture, and not over it.
LEGEND = {
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02},
    "margin": {"t": 60, "r": 20},
}

# Of a table.
MOST_ROWS = 60


def belief(facts: Facts) -> Plot:
    """Mean and two deviations at every place, now."""
    curve = _is_line(facts)
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": facts.campaign.names.coordinates[0]}} if curve else SITES,
        "yaxis": {"title": {"text": f"reward{facts.unit}"}},
        **LEGEND,
    }
    mean, deviation = facts.belief
    order = np.argsort(mean if facts.minimises else -mean)[:MOST_ROWS]
    rows = [[facts.names[i], float(mean[i]), float(deviation[i])] for i in order]
    header = ["place", f"mean{facts.unit}", f"deviation{facts.unit}"]
    content = table(header, rows, f"Best first, {facts.when(facts.now)}")
    caption = f"What is believed about every place, {facts.when(facts.now)}"
    return Plot("belief", caption, _believed(facts), layout, content)


def sites_map(facts: Facts) -> Plot | None:
    """Sites in the plane, lighter where the mean is higher; None where places have no such map."""
    plane = facts.plane
    believed = "%{customdata[0]:.4g} ± %{customdata[1]:.2g}"
    if plane is None:
        return None
    mean, deviation = facts.belief
    troubled = {each.name for each in facts.stations if each.troubles}
    rows = [i for i, name in enumerate(facts.names) if name in troubled]
    out = [facts.row_of(point) for point in facts.pending]
    named = {*out, facts.best, *rows}  # the others are named where one points at them
    texts = [name if i in named else "" for i, name in enumerate(facts.names)]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers+text", "name": "mean", "x": plane.x, "y": plane.y,
            "text": texts, "textposition": "top center", "cliponaxis": False,
            "hovertext": facts.names,
            "customdata": np.stack([mean, deviation], axis=1),
            "hovertemplate": f"%{{hovertext}}: {believed}<extra></extra>",
            "marker": {
                "size": 16, "color": mean, "colorscale": "Cividis", "line": {"width": 1, "color": "INK"},
                "colorbar": {"title": {"text": f"mean{facts.unit}"}, "thickness": 12},
            },
        },
        _ringed(plane, out, "where to go", "circle-open", 28),
        _ringed(plane, rows, "in trouble", "x-thin-open", 16),
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": plane.across}, "constrain": "domain"},
        "yaxis": {
            "title": {"text": plane.up}, "constrain": "domain", "scaleanchor": "x",
            "scaleratio": plane.ratio,
        },
        "hovermode": "closest",
        **LEGEND,
    }  # fmt: skip
    return Plot("map", f"The mean at every site, {facts.when(facts.now)}", data, layout)


def _ringed(plane: Plane, rows: list[int], name: str, symbol: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": plane.x[rows], "y": plane.y[rows], "visible": bool(rows),
        "marker": {"symbol": symbol, "size": size, "color": "INK", "line": {"width": 3, "color": "INK"}},
    }  # fmt: skip


def _is_line(facts: Facts) -> bool:
    return facts.places.shape[1] == 1 and len(facts.places) > 40


def _believed(facts: Facts) -> list[dict[str, Any]]:
    mean, deviation = facts.belief
    apart = np.abs(facts.history["time"].to_numpy(dtype=float) - facts.now)
    seen = (apart <= facts.spacing / 2).tolist()
    rows = [facts.row_of(point) for point in facts.coordinates[seen]]
    values = facts.history["reward"].to_numpy(dtype=float)[seen]
    marked = {
        "type": "scatter", "mode": "markers", "name": "read then",
        "marker": {"symbol": "x", "size": 10, "color": "INK"},
    }  # fmt: skip
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


def story(facts: Facts) -> Plot:
    """What came back, over time."""
    history = facts.history
    names = [facts.name_of(point) for point in facts.coordinates]
    times = [_moment(facts, t) for t in history["time"]]
    looks = {"reward": ("circle", "played"), "answer": ("x-thin-open", "asked")}
    data = []
    for kind, (symbol, label) in looks.items():
        of_kind = np.flatnonzero((history["kind"] == kind).to_numpy())
        data.append({
            "type": "scatter", "mode": "markers", "name": label,
            "x": [times[i] for i in of_kind],
            "y": history["reward"].to_numpy(dtype=float)[of_kind],
            "text": [names[i] for i in of_kind],
            "marker": {"symbol": symbol, "size": 6, "color": "INK"},
            "hovertemplate": "%{text}, %{x}: %{y:.4g}<extra></extra>",
        })  # fmt: skip
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
    header = ["time", "place", f"reward{facts.unit}", "kind", "source"]
    content = table(header, rows, "The latest first")
    return Plot("story", "What was read and answered, over time", data, layout, content)


def _moment(facts: Facts, t: float) -> str | float:
    clock = facts.campaign.clock
    return float(t) if clock is None else f"{clock.time(float(t)):%Y-%m-%d %H:%M:%S}"


# Steps ahead of the forecast.
SHOWN_AHEAD = (1, 2, 3, 5)

FORECAST_PLACES = 5


def campaign_page(campaign: Campaign, *, served: bool = False) -> str:
    """One page of HTML that opens anywhere and needs no network.

    Parameters
    ----------
    campaign : Campaign
        It is looked at only.
    served : bool
        It comes from a service, which it may ask again.

    Raises
    ------
    ImportError
        If plotly is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> from tvbandits.campaign.service.page import campaign_page
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     written = Path("campaign.html").write_text(campaign_page(campaign), encoding="utf-8")
    >>> print(written > 1000)
    True
    """
    facts = Facts.of(campaign)
    title = campaign.about.get("title", "Campaign")
    parts = [_next(facts), _glance(facts)]
    seen = sites_map(facts)
    parts.append(section("What is believed", seen.html() if seen else "", belief(facts).html()))
    parts.append(section("What comes next", _forecast(facts)))
    paid = cards(facts.spent)
    known = "".join(f"<p>{escape(each)}</p>" for each in facts.expert)
    parts.append(section("What was asked, and paid", paid, known))
    parts.append(section("Stations", _stations(facts)))
    parts.append(section("History", story(facts).html() if len(facts.history) else "<p>Empty.</p>"))
    return page(
        title,
        f"As of {facts.when(facts.now)}, {len(facts.history)} rows",
        "".join(parts),
        f"tvbandits {__version__}",
        served=served,
        generator=generator_of(campaign),
    )


def generator_of(campaign: Campaign) -> str:
    """What a page of a campaign says that it was made by and of."""
    return f"tvbandits campaign {campaign.id}"


def _next(facts: Facts) -> str:
    """Where to go, and why."""
    mean, deviation = facts.belief
    best = facts.best
    unit = facts.campaign.about.get("unit", "")
    guess = f"{facts.names[best]}: {mean[best]:.4g} ± {2 * deviation[best]:.2g} {unit}".rstrip()
    if not len(facts.pending):
        said = "Nothing is out. The next point is chosen when it is asked for."
        return _box(f"Best guess: {guess}", said)
    names = [facts.name_of(point) for point in facts.pending]
    rows = [facts.row_of(point) for point in facts.pending]
    why = []
    for name, row in zip(names, rows, strict=True):
        hoped = mean[row] + (-1 if facts.minimises else 1) * facts.width * deviation[row]
        if row == best:
            why.append(f"{name} is the best guess: {mean[row]:.4g} ± {2 * deviation[row]:.2g}.")
        else:
            why.append(
                f"{name} could reach {hoped:.4g} ({mean[row]:.4g} ± {2 * deviation[row]:.2g}); "
                f"the best guess is {guess}."
            )
    first = "Go to " + ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    return _box(first, *why[:5]) + _out(facts)


def _out(facts: Facts) -> str:
    """Since when points are out, and how to give up on them."""
    rows: list[list[object]] = [
        [
            each.place, facts.when(each.t), "–" if each.asked is None else
            f"{each.asked[:16].replace('T', ' ')} UTC, {ago(each.asked)}", each.who or "–",
            drop_command("FILE", each.place),
        ]
        for each in facts.out
    ]  # fmt: skip
    shown = table(["place", "for", "asked", "by", "to give up on it"], rows)
    after = facts.campaign.drop_after
    said = (
        ""
        if after is None
        else f"<p>What is not told within {after:g} units of time is dropped.</p>"
    )
    return f"<details><summary>Out: {len(rows)}</summary>{scrolled(shown, 'Out')}{said}</details>"


def _box(first: str, *more: str) -> str:
    said = "".join(f"<p>{escape(each)}</p>" for each in more)
    return f'<div class="now"><strong>{escape(first)}</strong>{said}</div>'


def _glance(facts: Facts) -> str:
    status, unit = facts.campaign.status, facts.campaign.about.get("length_unit", "")
    troubled = sum(bool(each.troubles) for each in facts.stations)
    return cards(
        [
            ("readings", status.told),
            ("failed", status.failed),
            ("pending", status.pending),
            ("answers", status.answers),
            *([("limits violated", status.violations)] if facts.campaign.recipe.limits else []),
            ("cost", float(status.cost)),
            (f"left to lose at most{facts.unit}, width {facts.width:g}", facts.most_regret),
            ("stations in trouble", troubled),
            *([("length scales in", unit)] if unit else []),
            *facts.noise,
        ]
    )


def _forecast(facts: Facts) -> str:
    """The best places of now, at times ahead."""
    mean, _ = facts.belief
    order = np.argsort(mean if facts.minimises else -mean)[:FORECAST_PLACES]
    times = [facts.now, *(facts.now + facts.spacing * step for step in SHOWN_AHEAD)]
    columns = [facts.believed(t) for t in times]
    rows = [
        [facts.names[row], *(f"{m[row]:.4g} ± {2 * s[row]:.2g}" for m, s in columns)]
        for row in order
    ]
    header = ["place", *(facts.when(t) for t in times)]
    said = f"Mean and two deviations{facts.unit}, if nothing more is read."
    return f'{scrolled(table(header, rows), said)}<p class="soft">{said}</p>'


def _stations(facts: Facts) -> str:
    troubled = [each for each in facts.stations if each.troubles]
    rows: list[list[object]] = [
        [
            each.name,
            "; ".join(each.troubles) or "in order",
            each.readings,
            each.failed,
            facts.when(each.last_time) if np.isfinite(each.last_time) else "–",
            each.last_value,
        ]
        for each in facts.stations
    ]
    header = ["place", "state", "readings", "failed", "last", f"value{facts.unit}"]
    shown = scrolled(table(header, rows), "All stations")
    if not rows:
        return "<p>None has been read yet.</p>"
    if not troubled:
        return f"<p>All in order.</p><details><summary>All {len(rows)}</summary>{shown}</details>"
    said = "".join(
        f"<li>{escape(each.name)}: {escape('; '.join(each.troubles))}</li>" for each in troubled
    )
    return (
        f'<div class="now warn"><strong>{len(troubled)} in trouble</strong><ul>{said}</ul></div>'
        f"<details><summary>All {len(rows)}</summary>{shown}</details>"
    )
