"""The page of a campaign: what who is responsible wants to see in five seconds, then the rest.

First what it says, as numbers; then how it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from tvbandits._version import __version__
from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.naming import Names
from tvbandits.campaign.status import drop_command, since
from tvbandits.core.arrays import Array, Index
from tvbandits.core.candidates import Candidates
from tvbandits.core.context import AtContext, measured
from tvbandits.core.files.page import Plot, cards, page, scrolled, section, table
from tvbandits.datasets.tables.sensor_field import degrees_in
from tvbandits.experts.calibrated import estimate
from tvbandits.queries.plans import LogSchedule, OnAverage, PerStep

# Of a domain that is not finite, or a large one: so many are shown.
MOST_PLACES = 400

# Times up to now that are shown, and steps ahead of it.
BACK, AHEAD = 10, (1, 2, 3, 5)

# When a station is called stuck, silent or biased.
SAME_IN_A_ROW, FAILED_IN_A_ROW, FEWEST_PAIRS, STANDARD_ERRORS = 5, 3, 6, 4.0


@dataclass(frozen=True)
class StationFacts:
    """A place that has been read, and what is wrong with it, if anything is."""

    name: str
    readings: int
    failed: int
    last_time: float
    last_value: float
    troubles: tuple[str, ...]


@dataclass(frozen=True)
class Plane:
    """A map of the places.

    Attributes
    ----------
    x, y : arrays of shape (N,)
        Across, and up: longitude and latitude where there are such.
    across, up : str
        What they are.
    ratio : float
        How much longer one unit up is than one across.
    """

    x: Array
    y: Array
    across: str
    up: str
    ratio: float


class Facts:
    """Of a campaign as it is now.

    Attributes
    ----------
    campaign : Campaign
    places : array of shape (N, d)
        Where beliefs are shown.
    names : list of str
        Of the places.
    now : float
        The latest time told, or asked about.
    history : DataFrame
        With the name of the `place` of each row.
    pending : array of shape (k, d)
    """

    def __init__(self, campaign: Campaign) -> None:
        history = campaign.history
        history = history[~history["kind"].isin(("corrected", "retracted"))].reset_index(drop=True)
        history = history.assign(time=history["t"]) if campaign.clock else history
        if campaign.recipe.control is not None:
            history = history.assign(reward=history["relative"])
        known = campaign.state
        latest = known.pending.X if len(known.pending) else known.readings.X
        self.campaign, self.pending = campaign, campaign.pending
        self.places, self.names = _places(campaign.recipe.domain, campaign.names, latest)
        self.now = float(history["time"].to_numpy(dtype=float).max(initial=0.0))
        parts: list[Any] = [known.readings, known.failed, known.answers, known.pending]
        X, t = (np.concatenate([getattr(part, of) for part in parts]) for of in ("X", "t"))
        places = [self.name_of(x) for x in X[np.argsort(t, kind="stable")]]
        self.history = history.assign(place=places)

    @property
    def unit(self) -> str:
        """Of the reward, in brackets, and what it is held against; empty where nobody said."""
        said, control = self.campaign.about.get("unit", ""), self.campaign.recipe.control
        beside = "" if control is None else f" beside {self.campaign.names.name(np.array(control))}"
        return f" [{said}]{beside}" if said else beside

    @property
    def minimises(self) -> bool:
        """Lower is better."""
        return bool(self.campaign.recipe.minimise)

    @cached_property
    def width(self) -> float:
        """Deviations of the last decision's bound."""
        beta = float(self.campaign.info.beta)
        return beta if np.isfinite(beta) and beta > 0 else DEFAULT_WIDTH

    @cached_property
    def belief(self) -> tuple[Array, Array]:
        """Mean and deviation of every place now, shapes (N,)."""
        return self.believed(self.now)

    def believed(self, t: float) -> tuple[Array, Array]:
        """Mean and deviation of every place at a time, shapes (N,)."""
        beside = self.campaign.recipe.control is not None
        return self.campaign.predict(self.places, t, relative=beside)

    @cached_property
    def course(self) -> list[tuple[float, Array, Array]]:
        """Times of the history, now, and times ahead; mean and deviation of every place at each."""
        known = np.unique([*self.history["time"].to_numpy(dtype=float), self.now])
        step = float(np.median(np.diff(known))) if len(known) > 1 else 1.0
        some = known[np.unique(np.linspace(0, len(known) - 1, BACK).astype(int))]
        times = [*some.tolist(), *(self.now + steps * step for steps in AHEAD)]
        return [(t, *self.believed(t)) for t in times]

    @cached_property
    def best(self) -> int:
        """The place of the best mean."""
        mean, _ = self.belief
        return int(np.argmin(mean) if self.minimises else np.argmax(mean))

    @cached_property
    def most_regret(self) -> float:
        """What the best place could lose at most, as far as the width holds."""
        mean, deviation = self.belief
        sign = -1.0 if self.minimises else 1.0
        hoped = sign * mean + self.width * deviation
        kept = sign * mean[self.best] - self.width * deviation[self.best]
        return max(float(hoped.max() - kept), 0.0)

    def row_of(self, point: Array) -> int:
        """The place nearest to a point."""
        return int(np.argmin(((self.places - point) ** 2).sum(axis=1)))

    def name_of(self, point: Array) -> str:
        """Of a point: of its place, or its coordinates."""
        row = self.row_of(point)
        exact = bool((self.places[row] == point).all())
        return self.names[row] if exact else self.campaign.names.name(point)

    def when(self, t: float) -> str:
        """A time as people say it; of midnight the date."""
        return self.campaign.when(t).removesuffix(" 00:00:00")

    @cached_property
    def stations(self) -> list[StationFacts]:
        """Every place with a row in the history, those in trouble first."""
        found = [_station(str(name), rows) for name, rows in self.history.groupby("place")]
        return sorted(found, key=lambda each: (not each.troubles, each.name))

    @property
    def budget(self) -> str:
        """How many questions may be asked, as people say it."""
        asking = self.campaign.recipe.asking
        if asking is None:
            return "nobody is asked"
        match getattr(asking.plan, "budget", "no limit here"):
            case int(number) | PerStep(number):
                return f"{number} a decision"
            case OnAverage(rate):
                return f"{rate:g} a decision on average"
            case LogSchedule(factor, 1):
                return f"{factor:g} log t in decision t"
            case other:
                return str(other)

    @property
    def calibrations(self) -> list[str]:
        """What its earlier answers say about the expert, and about whoever is inside of it."""
        found, known = [], self.campaign.state.expert
        while known:
            if pairs := known.get("pairs"):
                verdict = estimate(*np.array(pairs, dtype=np.float64).reshape(-1, 3).T)
                found.append(f"The expert, by answers beside readings of its questions: {verdict}.")
            known = known.get("expert")
        return found

    @property
    def plane(self) -> Plane | None:
        """Where the places are on a map; None where they have no such map."""
        names, places = self.campaign.names, self.places
        domain = self.campaign.recipe.domain
        if not isinstance(domain, Candidates):
            return None
        table = pd.DataFrame(places, columns=names.coordinates)
        if names.given:  # degrees, of all sites, in their order
            rows = domain.index(places)
            table = pd.DataFrame(names.given).iloc[rows.tolist()]
        degrees = degrees_in(table.columns)
        if degrees is not None:
            latitude, longitude = degrees
            x, y = (table[column].to_numpy(dtype=float) for column in (longitude, latitude))
            return Plane(x, y, longitude, latitude, float(1 / np.cos(np.radians(y.mean()))))
        if places.shape[1] != 2:
            return None
        across, up = names.coordinates
        return Plane(places[:, 0], places[:, 1], across, up, 1.0)


def _places(domain: Any, names: Names, latest: Array) -> tuple[Array, list[str]]:
    """Where beliefs are shown, at the context of the latest points, and what the places are called."""
    if measured(domain) and len(latest):
        width = sum(part.width for part in measured(domain).values())
        domain = AtContext(domain, domain.chosen, latest[-1, -width:])
    if isinstance(domain, Candidates):
        X = np.delete(domain.X, list(domain.retired), axis=0)
        X = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), MOST_PLACES)).astype(int))]
    else:
        X = domain.sample(MOST_PLACES, np.random.default_rng(0))
        X = X[np.lexsort(X.T[::-1])]
    return X, [names.name(x) for x in X]


def _station(name: str, rows: pd.DataFrame) -> StationFacts:
    played = rows[rows["kind"] != "pending"]
    values = played["reward"].dropna().to_numpy(dtype=float)
    last = float(values[-1]) if len(values) else float("nan")
    time = float(played["time"].max()) if len(played) else float("nan")
    failed = int((played["kind"] == "failed").sum())
    return StationFacts(name, len(values), failed, time, last, _troubles(played))


def _troubles(played: pd.DataFrame) -> tuple[str, ...]:
    """What is wrong with a place, in words; its own readings and the expert's answers each by itself."""
    found = []
    for source, own in played.groupby("source"):
        what = "answers" if source == "expert" else "readings"
        values = own["reward"].to_numpy(dtype=float)
        missing = np.isnan(values)
        silent = int(np.argmin([*missing[::-1], False]))
        if silent >= FAILED_IN_A_ROW:
            found.append(f"silent: the last {silent} {what} failed")
        read = values[~missing]
        stuck = int(np.argmin([*(read == read[-1:])[::-1], False]))
        if stuck >= SAME_IN_A_ROW:
            found.append(f"stuck: {read[-1]:g} for {stuck} {what}")
    both = played.pivot_table("reward", "time", "source").reindex(columns=["expert", "bandit"])
    apart = (both["expert"] - both["bandit"]).dropna().to_numpy(dtype=float)
    if len(apart) >= FEWEST_PAIRS:
        mean, error = float(apart.mean()), float(apart.std(ddof=1)) / len(apart) ** 0.5
        if abs(mean) > STANDARD_ERRORS * error > 0:
            found.append(f"biased: answers are {mean:+.3g} from its own readings")
    return tuple(found)


# --- the page ----------------------------------------------------------------------------------------


# Above the picture, and not over it.
LEGEND = {
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02},
    "margin": {"t": 60, "r": 20},
}

# Of a table.
MOST_ROWS = 60

# Places of the forecast.
FORETOLD = 5

BELIEVED = "%{text}: %{y:.4g} ± %{customdata:.2g}<extra></extra>"

# What the picture of the history shows: the kind of a row, what it is called, its symbol.
STORY = (("reward", "played", "circle"), ("answer", "asked", "x-thin-open"))


def belief(facts: Facts) -> Plot:
    """Mean and two deviations, with a slider over time: a curve, or the best of all places."""
    mean, deviation = facts.belief
    best = _best(facts)[:MOST_ROWS]
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
        **LEGEND,
    }
    cells = [[facts.names[i], float(mean[i]), float(deviation[i])] for i in best]
    header = ["place", f"mean{facts.unit}", f"deviation{facts.unit}"]
    content = table(header, cells, f"Best first, {facts.when(facts.now)}")
    caption = "Mean and two deviations, at the time of the slider, by all that is known now"
    return Plot("belief", caption, frames[shown]["data"], layout, content, frames, shown)


def _curve(facts: Facts, rows: Index, mean: Array, deviation: Array) -> list[dict[str, Any]]:
    x = facts.places[rows, 0]
    return [
        {
            "type": "scatter", "mode": "lines", "name": "two deviations", "x": [*x, *x[::-1]],
            "y": [*(mean + 2 * deviation), *(mean - 2 * deviation)[::-1]], "fill": "toself",
            "fillcolor": "LINE", "opacity": 0.5, "line": {"width": 0}, "hoverinfo": "skip",
        },
        {
            "type": "scatter", "mode": "lines", "name": "mean", "x": x, "y": mean,
            "text": [facts.names[row] for row in rows], "customdata": deviation,
            "line": {"color": "INK"}, "hovertemplate": BELIEVED,
        },
    ]  # fmt: skip


def _bars(facts: Facts, rows: Index, mean: Array, deviation: Array) -> list[dict[str, Any]]:
    return [
        {
            "type": "scatter", "mode": "markers", "name": "mean and two deviations",
            "x": [f"{i} {facts.names[row][:16]}" for i, row in enumerate(rows, start=1)], "y": mean,
            "error_y": {"type": "data", "array": 2 * deviation, "color": "INK"},
            "text": [facts.names[row] for row in rows], "customdata": deviation,
            "marker": {"symbol": "circle", "size": 8, "color": "INK"}, "hovertemplate": BELIEVED,
        }
    ]  # fmt: skip


def _best(facts: Facts) -> Index:
    """Places, the best first."""
    mean, _ = facts.belief
    return np.argsort(mean if facts.minimises else -mean)


def sites_map(facts: Facts, plane: Plane) -> Plot:
    """Sites in the plane, lighter where the mean is higher; where to go, and what is in trouble."""
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
        **LEGEND,
    }  # fmt: skip
    return Plot("map", f"The mean at every site, {facts.when(facts.now)}", data, layout)


def _ringed(plane: Plane, rows: list[int], name: str, symbol: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": plane.x[rows], "y": plane.y[rows], "visible": bool(rows),
        "marker": {"symbol": symbol, "size": size, "color": "INK", "line": {"width": 3, "color": "INK"}},
    }  # fmt: skip


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
        **LEGEND,
    }
    rows = history[["time", "place", "reward", "kind", "source"]].tail(MOST_ROWS)[::-1]
    cells = rows.assign(time=[*map(facts.when, rows["time"])]).to_numpy().tolist()
    header = ["time", "place", f"reward{facts.unit}", "kind", "source"]
    content = table(header, cells, "The latest first")
    return Plot("story", "What was read and answered, over time", data, layout, content)


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
    facts = Facts(campaign)
    title = campaign.about.get("title", "Campaign")
    parts = [_next(facts), _glance(facts)]
    plane = facts.plane
    seen = "" if plane is None else sites_map(facts, plane).html()
    parts.append(section("What is believed", seen, belief(facts).html()))
    parts.append(section("What comes next", _forecast(facts)))
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
        said = "Nothing is pending. The next point is chosen when it is asked for."
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
    return _box(first, *why[:5]) + _pending(facts)


def _pending(facts: Facts) -> str:
    """For when the pending points are, since when, and how to give up on them."""
    rows: list[list[object]] = [
        [x, facts.when(t), since(asked), who or "–", drop_command("FILE", x)]
        for x, t, asked, who in facts.campaign.outstanding
    ]
    header, after = ["place", "for", "asked", "by", "to give up on it"], facts.campaign.drop_after
    points = scrolled(table(header, rows), "Pending points")
    said = "" if after is None else f"<p>After {after:g} units of time a point is dropped.</p>"
    return f"<details><summary>Pending: {len(rows)}</summary>{points}{said}</details>"


def _box(first: str, *more: str) -> str:
    said = "".join(f"<p>{escape(each)}</p>" for each in more)
    return f'<div class="now"><strong>{escape(first)}</strong>{said}</div>'


def _glance(facts: Facts) -> str:
    status, unit = facts.campaign.status, facts.campaign.about.get("length_unit", "")
    troubled = sum(bool(each.troubles) for each in facts.stations)
    budget, noise = facts.campaign.budget, facts.campaign.info.model.noise
    return cards(
        [
            ("readings", status.told),
            ("failed", status.failed),
            ("pending", status.pending),
            ("answers", status.answers),
            ("questions asked", status.questions),
            ("budget", facts.budget),
            *([] if budget is None else [("questions in all", budget)]),
            *([("limits violated", status.violations)] if facts.campaign.recipe.limits else []),
            ("cost", float(status.cost)),
            (f"left to lose at most{facts.unit}, width {facts.width:g}", facts.most_regret),
            ("stations in trouble", troubled),
            *([("length scales in", unit)] if unit else []),
            *([] if noise is None else [("noise variance", str(noise))]),
        ]
    )


def _forecast(facts: Facts) -> str:
    """The best places of now, at times ahead."""
    columns = [each for each in facts.course if each[0] >= facts.now]
    rows = [
        [facts.names[row], *(f"{mean[row]:.4g} ± {2 * sd[row]:.2g}" for _, mean, sd in columns)]
        for row in _best(facts)[:FORETOLD]
    ]
    said = f"Mean and two deviations{facts.unit}, if nothing more is read."
    shown = scrolled(table(["place", *(facts.when(t) for t, *_ in columns)], rows), said)
    return f'{shown}<p class="soft">{said}</p>'


def _stations(facts: Facts) -> str:
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
    known = "".join(f"<p>{escape(each)}</p>" for each in facts.calibrations)
    return known + scrolled(table(header, rows, "Those in trouble first"), "All stations")
