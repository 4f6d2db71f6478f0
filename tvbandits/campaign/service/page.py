"""The page of a campaign: what who is responsible wants to see in five seconds, then the rest.

The template `page.html` says how it looks; `facts` has the numbers. It needs nothing but itself: style,
script and plotly.js stand in the page as a whole, so that it opens without a network. Only these scripts
may run: a policy names their hashes.
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
from tvbandits.campaign.status import HALF_WIDTH, drop_command, since
from tvbandits.campaign.store.journal import without_nan
from tvbandits.validation import Array, Index

# Of a table, places of the forecast, and letters of a name below a picture.
MOST_ROWS, FORETOLD, LETTERS = 60, 5, 16

LEGEND = {"orientation": "h", "yanchor": "bottom", "y": 1.02}  # above the picture, not over it
MARGIN = {"t": 60, "r": 20}
BELIEVED = "%{text}: %{customdata}<extra></extra>"

# What the picture of the history shows: the kind of a row, what it is called, its symbol.
STORY = (("reward", "reading", "circle"), ("answer", "answer", "x-thin-open"))


@dataclass(frozen=True)
class PageTable:
    """Rows under headings."""

    caption: str
    header: list[str]
    rows: list[list[object]]


@dataclass(frozen=True)
class Plot:
    """A picture of plotly's, what it shows in a sentence, and the same as a table.

    Attributes
    ----------
    name, caption : str
    data : list of dict
        Traces. The colours "INK" and "LINE" become those of the reader's theme.
    layout : dict
    table : PageTable, optional
    frames : list of dict
        What a slider over time shows in place of `data`: each a `name` and its own `data`.
    shown : int
        The frame at first.
    """

    name: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    table: PageTable | None = None
    frames: list[dict[str, Any]] = field(default_factory=list)
    shown: int = 0

    @property
    def content(self) -> Any:
        """What the script draws, as plain values."""
        plain = without_nan({"data": self.data, "layout": self.layout, "frames": self.frames})
        return _literal(plain)


def _literal(value: Any) -> Any:
    """The same, where plotly would take names for markup; the templates beside the pointer are ours."""
    if isinstance(value, dict):
        return {k: v if k == "hovertemplate" else _literal(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_literal(each) for each in value]
    return escape(value, quote=False) if isinstance(value, str) else value


def campaign_page(campaign: Campaign) -> str:
    """One page of HTML that opens anywhere and needs no network.

    Parameters
    ----------
    campaign : Campaign
        It is looked at only.

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
    ...     written = Path("campaign.html").write_text(campaign_page(campaign), encoding="utf-8")
    >>> print(written > 1000)
    True
    """
    facts = Facts(campaign)
    plane = facts.plane
    return _rendered(
        facts=facts,
        title=campaign.about.get("title", "Campaign"),
        generator=generator_of(campaign),
        glance=_glance(facts),
        pending=_pending(facts),
        plots=[*([sites_map(facts, plane)] if plane else []), belief(facts)],
        forecast=_forecast(facts),
        stations=_stations(facts),
        story=story(facts) if len(facts.history) else None,
        scripts=[_plotly(), _text("page.js")],
    )


def sign_in_page(complaint: str = "") -> str:
    """A form for the token."""
    return _rendered(
        facts=None, title="Campaign", generator="tvbandits", complaint=complaint, scripts=[]
    )


def generator_of(campaign: Campaign) -> str:
    """What a page of a campaign says that it was made by and of."""
    return f"tvbandits campaign {campaign.id}"


def generated_by(path: Path, generator: str) -> bool:
    """Return whether a file is a page whose head names this generator."""
    head = f'<meta name="generator" content="{escape(generator)}">'.encode()
    with path.open("rb") as file:
        return head in file.read(300 + len(head))


def _rendered(scripts: list[str], **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("tvbandits.campaign.service", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = _shown
    return environment.get_template("page.html").render(
        style=Markup(_text("page.css", "tvbandits.comparison") + _text("page.css")),
        scripts=[Markup(each) for each in scripts],
        hashes=[_hash_of(each) for each in scripts],
        version=__version__,
        **values,
    )


def _hash_of(script: str) -> str:
    """As a Content-Security-Policy names a script that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _text(name: str, package: str = "tvbandits.campaign.service") -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        found = resources.files("plotly") / "package_data" / "plotly.min.js"
    except ModuleNotFoundError:
        raise ImportError("a report needs plotly: pip install 'tvbandits[report]'") from None
    return found.read_text(encoding="utf-8").replace("</script", "<\\/script")


def _shown(value: object) -> str:
    """A cell: a number with four digits, a dash for none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# --- tables --------------------------------------------------------------------------------------


def _glance(facts: Facts) -> list[tuple[str, object]]:
    """Numbers that are read at a glance, by name."""
    status, campaign = facts.campaign.status, facts.campaign
    found: list[tuple[str, object]] = [
        ("readings", status.told),
        ("failed", status.failed),
        ("pending", status.pending),
        ("answers", status.answers),
        ("questions asked", status.questions),
        ("questions in all", campaign.budget),
        ("limits violated", status.violations if campaign.recipe.options.limits else None),
        *((f"limit on {each.name}", _bounds(each)) for each in campaign.recipe.options.limits),
        ("cost", float(status.cost)),
        (f"regret at most{facts.unit}, by bounds of {facts.width:g} deviations", facts.most_regret),
        ("stations in trouble", sum(bool(each.troubles) for each in facts.stations)),
        ("length scales in", campaign.about.get("length_unit")),
        ("noise variance", campaign.info.model.noise),
    ]
    return [(name, value) for name, value in found if value is not None]


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
            facts.when(t),
            *([] if after is None else [facts.when(t + after)]),
            since(asked),
            who or "–",
            drop_command("FILE", x),
        ]
        for x, t, asked, who in facts.campaign.outstanding
    ]
    until = [] if after is None else ["dropped from"]
    header = ["place", "for", *until, "asked", "by", "to give up on it"]
    return PageTable(f"Pending: {len(rows)}", header, rows)


def _forecast(facts: Facts) -> PageTable:
    """The best places of now, at times ahead."""
    columns = [each for each in facts.course if each[0] >= facts.now]
    rows: list[list[object]] = [
        [facts.names[row], *(facts.interval(mean[row], sd[row]) for _, mean, sd in columns)]
        for row in facts.ranked[:FORETOLD]
    ]
    caption = "Mean and 95% interval if nothing more is read"
    return PageTable(caption, ["place", *(facts.when(t) for t, *_ in columns)], rows)


def _stations(facts: Facts) -> PageTable:
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
    return PageTable("Those in trouble first", header, rows)


# --- pictures ------------------------------------------------------------------------------------


def belief(facts: Facts) -> Plot:
    """Mean and 95% interval, with a slider over time: a curve, or the best of all places."""
    mean, deviation = facts.belief
    best = facts.ranked[:MOST_ROWS]
    line = facts.places.shape[1] == 1
    rows = np.argsort(facts.places[:, 0]) if line else best
    drawn = _curve if line else _bars
    frames: list[dict[str, Any]] = [
        {"name": facts.when(t), "data": drawn(facts, rows, m[rows], s[rows])}
        for t, m, s in facts.course
    ]
    shown = [t for t, *_ in facts.course].index(facts.now)
    reach = [(m + side * s)[rows] for _, m, s in facts.course for side in (-2.1, 2.1)]
    across = {"title": {"text": facts.campaign.names.coordinates[0]}}
    layout = {
        "xaxis": across if line else {"type": "category", "tickangle": -60},
        "yaxis": {
            "title": {"text": f"reward{facts.unit}"},
            "range": [np.min(reach), np.max(reach)],
        },
        "legend": LEGEND,
        "margin": MARGIN,
    }
    cells: list[list[object]] = [
        [facts.names[i], float(mean[i]), float(HALF_WIDTH * deviation[i])] for i in best
    ]
    header = ["place", f"mean{facts.unit}", f"± (95% interval){facts.unit}"]
    table = PageTable(f"Best first, {facts.when(facts.now)}", header, cells)
    caption = "Mean and 95% interval at the time of the slider, by all that is known now"
    return Plot("belief", caption, frames[shown]["data"], layout, table, frames, shown)


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
            "line": {"color": "INK"}, **_tips(facts, rows, mean, deviation),
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
            **_tips(facts, rows, mean, deviation),
        }
    ]  # fmt: skip


def _short(name: str) -> str:
    """Return a name that fits below a picture."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1].rstrip()}…"


def _tips(facts: Facts, rows: Index, mean: Array, deviation: Array) -> dict[str, Any]:
    """What stands beside the pointer."""
    said = [facts.interval(*each) for each in zip(mean, deviation, strict=True)]
    return {
        "text": [facts.names[row] for row in rows],
        "customdata": said,
        "hovertemplate": BELIEVED,
    }


def sites_map(facts: Facts, plane: Plane) -> Plot:
    """Sites in the plane, lighter where the mean is higher; where to go, and what is in trouble.

    Names stand at the sites that matter, of which the script hides those that would cover others: what
    comes later is shown first.
    """
    troubled = {each.name for each in facts.stations if each.troubles}
    rows = [i for i, name in enumerate(facts.names) if name in troubled]
    out = [facts.row_of(point) for point in facts.pending]
    mean, deviation = facts.belief
    everywhere = np.arange(len(mean))
    sites = {
        "type": "scatter", "mode": "markers", "name": "mean", "x": plane.x, "y": plane.y,
        **_tips(facts, everywhere, mean, deviation),
        "marker": {
            "size": 16, "color": mean, "colorscale": "Cividis", "line": {"width": 1, "color": "INK"},
            "colorbar": {
                "title": {"text": f"mean{facts.unit}"}, "orientation": "h",
                "yref": "container", "y": 0, "yanchor": "bottom", "thickness": 12,
            },
        },
    }  # fmt: skip
    marks = [
        _marks(plane, rows, "in trouble", "x-thin-open", 16),
        _marks(plane, [facts.best], "best guess", "diamond-open", 24),
        _marks(plane, out, "where to go", "circle-open", 30),
    ]
    named = [*dict.fromkeys([*out, facts.best, *rows])][::-1]
    names = {
        **_marks(plane, named, "names", "circle", 30), "mode": "markers+text",
        "text": [facts.names[row] for row in named], "textposition": _sides(plane.x, named),
        "cliponaxis": False, "showlegend": False,
    }  # fmt: skip
    names["marker"]["opacity"] = 0  # they stand clear of the marks
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
        "map", f"The mean at every site, {facts.when(facts.now)}", [sites, *marks, names], layout
    )


def _marks(plane: Plane, rows: list[int], name: str, symbol: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": plane.x[rows], "y": plane.y[rows], "visible": bool(rows),
        "marker": {"symbol": symbol, "size": size, "color": "INK", "line": {"width": 3, "color": "INK"}},
    }  # fmt: skip


def _sides(x: Array, rows: list[int]) -> list[str]:
    """Where names stand: near the left and right end, towards the middle."""
    share = (x[rows] - x.min()) / (np.ptp(x) or 1.0)
    return ["top right" if s < 0.3 else "top left" if s > 0.7 else "top center" for s in share]


def story(facts: Facts) -> Plot:
    """What came back, over time."""
    history, clock = facts.history, facts.campaign.clock
    times = history["time"].map(lambda t: t if clock is None else str(clock.time(t)))
    shown = history.assign(time=times)
    data = []
    for kind, name, symbol in STORY:
        some = shown[shown["kind"] == kind]
        data.append({
            "type": "scatter", "mode": "markers", "name": name, "x": some["time"].tolist(),
            "y": some["reward"].to_numpy(dtype=float), "text": some["place"].tolist(),
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
    cells = rows.assign(time=[*map(facts.when, rows["time"])]).to_numpy().tolist()
    header = ["time", "place", f"reward{facts.unit}", *outcomes, "kind", "source"]
    table = PageTable("The latest first", header, cells)
    return Plot("story", "What was read and answered, over time", data, layout, table)
