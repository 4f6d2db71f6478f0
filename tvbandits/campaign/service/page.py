"""The page of a campaign: what a person in charge wants to see in five seconds, then the rest.

The template `page.html` has the layout, and `facts` has the numbers. The page contains its style, script
and plotly.js, so that it needs no network. Only these scripts may run: a policy names their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import math
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tvbandits._version import __version__
from tvbandits.acquisition.limits import Limit
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.service.facts import Facts, Plane
from tvbandits.campaign.status import HALF_WIDTH, age_text, drop_command
from tvbandits.digits import number_text
from tvbandits.io import without_nan
from tvbandits.validation import Array, Index

# Rows of a table, places of the forecast, and letters of a name below a picture.
MOST_ROWS, FORECAST_PLACES, LETTERS = 60, 5, 16

LEGEND = {"orientation": "h", "yanchor": "bottom", "y": 1.02}  # above the picture, not over it
MARGIN = {"t": 60, "r": 20}
HOVER_TEMPLATE = "%{text}: %{customdata}<extra></extra>"

# The picture of the history: kinds of rows, with the name and the symbol of each.
HISTORY_KINDS = (("reward", "reading", "circle"), ("answer", "answer", "x-thin-open"))


@dataclass(frozen=True)
class PageTable:
    """A table with a header."""

    caption: str
    header: list[str]
    rows: list[list[object]]


@dataclass(frozen=True)
class Plot:
    """A plotly picture with its caption, and the same numbers as a table.

    Attributes
    ----------
    name, caption : str
    data : list of dict
        Traces. The script replaces the colours "INK" and "LINE" by those of the reader's theme.
    layout : dict
    table : PageTable, optional
    frames : list of dict
        The data at each time of a slider: a `name` and its own `data`.
    first : int
        The frame that is shown first.
    """

    name: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    table: PageTable | None = None
    frames: list[dict[str, Any]] = field(default_factory=list)
    first: int = 0

    @property
    def content(self) -> Any:
        """The content for the script, as plain values."""
        plain = without_nan({"data": self.data, "layout": self.layout, "frames": self.frames})
        return _escape_markup(plain)


def _escape_markup(value: Any) -> Any:
    """Return the value with texts escaped, which plotly would take for markup, except our templates."""
    if isinstance(value, dict):
        return {k: v if k == "hovertemplate" else _escape_markup(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_escape_markup(each) for each in value]
    return escape(value, quote=False) if isinstance(value, str) else value


def campaign_page(campaign: Campaign) -> str:
    """Return the campaign as one page of HTML, which needs no network.

    Parameters
    ----------
    campaign : Campaign

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
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     size = Path("campaign.html").write_text(campaign_page(campaign), encoding="utf-8")
    >>> print(size > 1000)
    True
    """
    facts = Facts(campaign)
    plane = facts.plane
    return _render(
        facts=facts,
        title=campaign.about.get("title", "Campaign"),
        generator=generator_of(campaign),
        glance=_glance(facts),
        pending=_pending(facts),
        plots=[*([sites_map(facts, plane)] if plane else []), belief(facts)],
        forecast=_forecast(facts),
        stations=_stations(facts),
        history=history_plot(facts) if len(facts.history) else None,
        scripts=[_plotly(), _text("page.js")],
    )


def sign_in_page(complaint: str = "") -> str:
    """Return the form for the token."""
    return _render(
        facts=None, title="Campaign", generator="tvbandits", complaint=complaint, scripts=[]
    )


def generator_of(campaign: Campaign) -> str:
    """Return the text by which a page names its generator and its campaign."""
    return f"tvbandits campaign {campaign.id}"


def has_generator(path: Path, generator: str) -> bool:
    """Return whether a file is a page whose head names this generator."""
    head = f'<meta name="generator" content="{escape(generator)}">'.encode()
    with path.open("rb") as file:
        return head in file.read(300 + len(head))


def _render(scripts: list[str], **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("tvbandits.campaign.service", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _format_cell
    return environment.get_template("page.html").render(
        style=Markup(_text("page.css", "tvbandits.comparison") + _text("page.css")),
        scripts=[Markup(each) for each in scripts],
        hashes=[_hash_of(each) for each in scripts],
        version=__version__,
        **values,
    )


def _hash_of(script: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _text(name: str, package: str = "tvbandits.campaign.service") -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        path = resources.files("plotly") / "package_data" / "plotly.min.js"
    except ModuleNotFoundError:
        raise ImportError("a report needs plotly: pip install 'tvbandits[report]'") from None
    return path.read_text(encoding="utf-8").replace("</script", "<\\/script")


def _format_cell(value: object) -> str:
    """Return the text of a cell: a number with four digits, a dash for none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return number_text(value) if isinstance(value, float) else str(value)


# --- tables --------------------------------------------------------------------------------------


def _glance(facts: Facts) -> list[tuple[str, object]]:
    """Return the most important numbers, by name."""
    status, campaign = facts.campaign.status, facts.campaign
    noise = campaign.info.model.noise
    values: list[tuple[str, object]] = [
        ("readings", status.readings),
        ("failed", status.failed),
        ("pending", status.pending),
        ("answers", status.answers),
        ("questions", status.questions),
        ("budget of questions", campaign.budget),
        ("limit violations", status.violations if campaign.recipe.options.limits else None),
        *((f"limit on {each.name}", _bounds(each)) for each in campaign.recipe.options.limits),
        *((f"violation of {name}, mean", each) for name, each in status.mean_excess.items()),
        ("cost", float(status.cost)),
        (
            f"the best place is behind any other by at most{facts.unit}, if the reward at each place is "
            f"within {facts.width:g} standard deviations of its mean",
            facts.most_regret,
        ),
        ("stations with problems", sum(bool(each.problems) for each in facts.stations)),
        ("unit of length scales", campaign.about.get("length_unit")),
        ("noise variance", noise if noise is not None and noise.is_known else None),
        *(("look at this", each) for each in campaign.info.health),
    ]
    return [(name, value) for name, value in values if value is not None]


def _bounds(limit: Limit) -> str:
    """Return the bounds of a limit in words."""
    low, high = limit.bounds
    if math.isinf(low):
        return f"at most {high:g}"
    return f"at least {low:g}" if math.isinf(high) else f"{low:g} to {high:g}"


def _pending(facts: Facts) -> PageTable:
    after = facts.campaign.drop_after
    rows: list[list[object]] = [
        [
            x,
            facts.format_time(t),
            *([] if after is None else [facts.format_time(t + after)]),
            age_text(asked),
            who or "–",
            drop_command("FILE", x),
        ]
        for x, t, asked, who in facts.campaign.pending_points
    ]
    until = [] if after is None else ["dropped at"]
    header = ["place", "for", *until, "asked", "by", "to give it up"]
    return PageTable(f"Pending: {len(rows)}", header, rows)


def _forecast(facts: Facts) -> PageTable:
    """Return the table of the places that are best now, at times ahead."""
    columns = [each for each in facts.course if each[0] >= facts.now]
    rows: list[list[object]] = [
        [facts.names[row], *(facts.interval(mean[row], sd[row]) for _, mean, sd in columns)]
        for row in facts.ranking[:FORECAST_PLACES]
    ]
    caption = "Mean and 95% interval without further readings"
    return PageTable(caption, ["place", *(facts.format_time(t) for t, *_ in columns)], rows)


def _stations(facts: Facts) -> PageTable:
    rows: list[list[object]] = [
        [
            each.name,
            "retired" if each.retired else "; ".join(each.problems) or "fine",
            each.readings,
            each.failed,
            facts.format_time(each.last_time) if np.isfinite(each.last_time) else "–",
            each.last_value,
        ]
        for each in facts.stations
    ]
    header = ["place", "state", "readings", "failed", "last", f"value{facts.unit}"]
    return PageTable("Stations with problems first", header, rows)


# --- pictures ------------------------------------------------------------------------------------


def belief(facts: Facts) -> Plot:
    """Return the picture of mean and 95% interval over time: a curve, or the best of all places."""
    mean, deviation = facts.belief
    best = facts.ranking[:MOST_ROWS]
    line = facts.places.shape[1] == 1
    rows = np.argsort(facts.places[:, 0]) if line else best
    draw = _curve if line else _bars
    frames: list[dict[str, Any]] = [
        {"name": facts.format_time(t), "data": draw(facts, rows, m[rows], s[rows])}
        for t, m, s in facts.course
    ]
    first = [t for t, *_ in facts.course].index(facts.now)
    ends = [(m + side * s)[rows] for _, m, s in facts.course for side in (-2.1, 2.1)]
    across = {"title": {"text": facts.campaign.names.coordinates[0]}}
    layout = {
        "xaxis": across if line else {"type": "category", "tickangle": -60},
        "yaxis": {"title": {"text": f"reward{facts.unit}"}, "range": [np.min(ends), np.max(ends)]},
        "legend": LEGEND,
        "margin": MARGIN,
    }
    cells: list[list[object]] = [
        [facts.names[i], float(mean[i]), float(HALF_WIDTH * deviation[i])] for i in best
    ]
    header = ["place", f"mean{facts.unit}", f"± (95% interval){facts.unit}"]
    table = PageTable(f"Best first, {facts.format_time(facts.now)}", header, cells)
    caption = "Mean and 95% interval at the time of the slider, from all readings until now"
    return Plot("belief", caption, frames[first]["data"], layout, table, frames, first)


def _curve(facts: Facts, rows: Index, mean: Array, deviation: Array) -> list[dict[str, Any]]:
    x, half = facts.places[rows, 0], HALF_WIDTH * deviation
    return [
        {
            "type": "scatter", "mode": "lines", "name": "95% interval", "x": [*x, *x[::-1]],
            "y": [*(mean + half), *(mean - half)[::-1]], "fill": "toself",
            "fillcolor": "LINE", "opacity": 0.5, "line": {"width": 0}, "hoverinfo": "skip",
        },
        {
            "type": "scatter", "mode": "lines", "name": "mean", "x": x, "y": mean,
            "line": {"color": "INK"}, **_hover_text(facts, rows, mean, deviation),
        },
    ]  # fmt: skip


def _bars(facts: Facts, rows: Index, mean: Array, deviation: Array) -> list[dict[str, Any]]:
    return [
        {
            "type": "scatter", "mode": "markers", "name": "mean and 95% interval",
            "x": [f"{i} {_short(facts.names[row])}" for i, row in enumerate(rows, start=1)],
            "y": mean,
            "error_y": {"type": "data", "array": HALF_WIDTH * deviation, "color": "INK"},
            "marker": {"symbol": "circle", "size": 8, "color": "INK"},
            **_hover_text(facts, rows, mean, deviation),
        }
    ]  # fmt: skip


def _short(name: str) -> str:
    """Return a name that fits below a picture."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1].rstrip()}…"


def _hover_text(facts: Facts, rows: Index, mean: Array, deviation: Array) -> dict[str, Any]:
    """Return the text beside the pointer."""
    return {
        "text": [facts.names[row] for row in rows],
        "customdata": [facts.interval(*each) for each in zip(mean, deviation, strict=True)],
        "hovertemplate": HOVER_TEMPLATE,
    }


def sites_map(facts: Facts, plane: Plane) -> Plot:
    """Return the map of the sites, lighter if the mean is higher, with pending points and problems.

    Sites that matter have their names. The script hides names that would cover others; later ones come
    first.
    """
    with_problems = {each.name for each in facts.stations if each.problems}
    rows = [i for i, name in enumerate(facts.names) if name in with_problems]
    pending = [facts.row_of(point) for point in facts.pending]
    mean, deviation = facts.belief
    everywhere = np.arange(len(mean))
    sites = {
        "type": "scatter", "mode": "markers", "name": "mean", "x": plane.x, "y": plane.y,
        **_hover_text(facts, everywhere, mean, deviation),
        "marker": {
            "size": 16, "color": mean, "colorscale": "Cividis", "line": {"width": 1, "color": "INK"},
            "colorbar": {
                "title": {"text": f"mean{facts.unit}"}, "orientation": "h",
                "yref": "container", "y": 0, "yanchor": "bottom", "thickness": 12,
            },
        },
    }  # fmt: skip
    marks = [
        _marks(plane, rows, "with problems", "x-thin-open", 16),
        _marks(plane, [facts.best], "best guess", "diamond-open", 24),
        _marks(plane, pending, "where to go", "circle-open", 30),
    ]
    labels = [*dict.fromkeys([*pending, facts.best, *rows])][::-1]
    names = {
        **_marks(plane, labels, "names", "circle", 30), "mode": "markers+text",
        "text": [facts.names[row] for row in labels], "textposition": _label_sides(plane.x, labels),
        "cliponaxis": False, "showlegend": False,
    }  # fmt: skip
    names["marker"]["opacity"] = 0  # invisible, so that labels keep clear of the marks
    layout = {
        "xaxis": {"title": {"text": plane.across}, "constrain": "domain"},
        "yaxis": {
            "title": {"text": plane.up}, "constrain": "domain", "scaleanchor": "x",
            "scaleratio": plane.ratio,
        },
        "hovermode": "closest",
        "legend": LEGEND,
        "margin": {**MARGIN, "b": 120},  # the axis, and the scale of colours below it
    }  # fmt: skip
    return Plot(
        "map",
        f"The mean at every site, {facts.format_time(facts.now)}",
        [sites, *marks, names],
        layout,
    )


def _marks(plane: Plane, rows: list[int], name: str, symbol: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": plane.x[rows], "y": plane.y[rows], "visible": bool(rows),
        "marker": {"symbol": symbol, "size": size, "color": "INK", "line": {"width": 3, "color": "INK"}},
    }  # fmt: skip


def _label_sides(x: Array, rows: list[int]) -> list[str]:
    """Return the side of each label: towards the middle near the left and right end."""
    share = (x[rows] - x.min()) / (np.ptp(x) or 1.0)
    return ["top right" if s < 0.3 else "top left" if s > 0.7 else "top center" for s in share]


def history_plot(facts: Facts) -> Plot:
    """Return the picture of readings and answers over time."""
    history, clock = facts.history, facts.campaign.clock
    times = history["time"].map(lambda t: t if clock is None else str(clock.time(t)))
    shown = history.assign(time=times)
    data = []
    for kind, name, symbol in HISTORY_KINDS:
        points = shown[shown["kind"] == kind]
        data.append({
            "type": "scatter", "mode": "markers", "name": name, "x": points["time"].tolist(),
            "y": points["reward"].to_numpy(dtype=float), "text": points["place"].tolist(),
            "marker": {"symbol": symbol, "size": 7, "color": "INK"},
            "hovertemplate": "%{text}, %{x}: %{y:.4g}<extra></extra>",
        })  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "time"}},
        "yaxis": {"title": {"text": f"reward{facts.unit}"}},
        "legend": LEGEND,
        "margin": MARGIN,
    }
    outcomes = [limit.name for limit in facts.campaign.recipe.options.limits]
    rows = history[["time", "place", "reward", *outcomes, "kind", "source"]].tail(MOST_ROWS)[::-1]
    cells = rows.assign(time=[*map(facts.format_time, rows["time"])]).to_numpy().tolist()
    header = ["time", "place", f"reward{facts.unit}", *outcomes, "kind", "source"]
    table = PageTable("The latest first", header, cells)
    return Plot("history", "Readings and answers over time", data, layout, table)
