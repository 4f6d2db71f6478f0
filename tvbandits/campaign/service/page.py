"""The page of a campaign: what who is responsible wants to see in five seconds, then the rest."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from tvbandits._version import __version__
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.service.facts import Facts, Plane
from tvbandits.campaign.status import ago, drop_command
from tvbandits.core.arrays import Index
from tvbandits.core.files.page import Plot, cards, page, scrolled, section, table

# Above the picture, and not over it.
LEGEND = {
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02},
    "margin": {"t": 60, "r": 20},
}

# Of a table.
MOST_ROWS = 60


def belief(facts: Facts) -> Plot:
    """What is believed about every place now: a map where they have one, or the best of them."""
    mean, deviation = facts.belief
    best = np.argsort(mean if facts.minimises else -mean)[:MOST_ROWS]
    plane = facts.plane
    data, layout = _bars(facts, best) if plane is None else _map(facts, plane)
    rows = [[facts.names[i], float(mean[i]), float(deviation[i])] for i in best]
    header = ["place", f"mean{facts.unit}", f"deviation{facts.unit}"]
    content = table(header, rows, f"Best first, {facts.when(facts.now)}")
    caption = f"What is believed about every place, {facts.when(facts.now)}"
    return Plot("belief", caption, data, {**layout, **LEGEND}, content)


def _map(facts: Facts, plane: Plane) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Sites in the plane, lighter where the mean is higher."""
    troubled = {each.name for each in facts.stations if each.troubles}
    rows = [i for i, name in enumerate(facts.names) if name in troubled]
    out = [facts.row_of(point) for point in facts.pending]
    named = {*out, facts.best, *rows}  # the others are named where one points at them
    texts = [name if i in named else "" for i, name in enumerate(facts.names)]
    mean, deviation = facts.belief
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers+text", "name": "mean", "x": plane.x, "y": plane.y,
            "text": texts, "textposition": "top center", "cliponaxis": False,
            "hovertext": facts.names, "customdata": np.stack([mean, deviation], axis=1),
            "hovertemplate":
                "%{hovertext}: %{customdata[0]:.4g} ± %{customdata[1]:.2g}<extra></extra>",
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
    }  # fmt: skip
    return data, layout


def _ringed(plane: Plane, rows: list[int], name: str, symbol: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": plane.x[rows], "y": plane.y[rows], "visible": bool(rows),
        "marker": {"symbol": symbol, "size": size, "color": "INK", "line": {"width": 3, "color": "INK"}},
    }  # fmt: skip


def _bars(facts: Facts, best: Index) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Mean and two deviations: of all places on a line, of the best ones elsewhere."""
    line = facts.places.shape[1] == 1
    rows = np.arange(len(facts.places)) if line else best
    x = facts.places[:, 0] if line else 1 + np.arange(len(best))
    mean, deviation = (each[rows] for each in facts.belief)
    data = {
        "type": "scatter", "mode": "markers", "name": "mean and two deviations", "x": x, "y": mean,
        "error_y": {"type": "data", "array": 2 * deviation, "color": "INK"},
        "text": [facts.names[row] for row in rows], "customdata": deviation,
        "marker": {"symbol": "circle", "size": 8, "color": "INK"},
        "hovertemplate": "%{text}: %{y:.4g} ± %{customdata:.2g}<extra></extra>",
    }  # fmt: skip
    across = facts.campaign.names.coordinates[0] if line else "place, the best first"
    return [data], {
        "xaxis": {"title": {"text": across}},
        "yaxis": {"title": {"text": f"reward{facts.unit}"}},
    }


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
    parts.append(section("What is believed", belief(facts).html()))
    parts.append(section("Stations", _stations(facts)))
    parts.append(section("History", _history(facts)))
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
    budget = facts.campaign.budget
    return cards(
        [
            ("readings", status.told),
            ("failed", status.failed),
            ("pending", status.pending),
            ("answers", status.answers),
            ("questions asked", status.questions),
            *([] if budget is None else [("of them in all", budget)]),
            *([("limits violated", status.violations)] if facts.campaign.recipe.limits else []),
            ("cost", float(status.cost)),
            (f"left to lose at most{facts.unit}, width {facts.width:g}", facts.most_regret),
            ("stations in trouble", troubled),
            *([("length scales in", unit)] if unit else []),
            *facts.noise,
        ]
    )


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


def _history(facts: Facts) -> str:
    """What came back, the latest first."""
    last = facts.history.tail(MOST_ROWS)
    rows: list[list[object]] = [
        [
            facts.when(row["time"]),
            facts.name_of(facts.coordinates[i]),
            float(row["reward"]),
            row["kind"],
            row["source"],
        ]
        for i, row in zip(last.index, last.to_dict("records"), strict=True)
    ]
    header = ["time", "place", f"reward{facts.unit}", "kind", "source"]
    said = "What was read and answered, the latest first"
    return scrolled(table(header, rows[::-1]), said) if rows else "<p>Empty.</p>"
