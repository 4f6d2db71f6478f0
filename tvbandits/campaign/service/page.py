"""The page of a campaign: a summary on top, then tables and pictures.

The template `page.html` has the layout, and `Facts` has the numbers. The page contains its style, script
and pictures, so that it needs no network. Only this script may run: a policy names its hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import resources
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import colormaps
from matplotlib.colors import to_hex

from tvbandits._version import __version__
from tvbandits.acquisition.limits import Limit
from tvbandits.acquisition.widths import DEFAULT_WIDTH
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.names import Names
from tvbandits.campaign.service.pictures import Axis, Picture, dots, join, mark, path, short, span
from tvbandits.campaign.status import HALF_WIDTH, age_text, drop_command, with_answer
from tvbandits.datasets.sensor_field import find_degrees
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import AtContext
from tvbandits.experts.calibrated import estimate
from tvbandits.text import format_cell, format_interval, format_number
from tvbandits.validation import Array, Index

# Rows of a table, of that of the stations, and places of the forecast.
MOST_ROWS, MOST_STATIONS, FORECAST_PLACES = 60, 500, 5

# Places in the picture of beliefs, and rows in that of the history.
PICTURE_PLACES, MOST_DOTS = 24, 20_000

MAP_SHAPE = 4 / 3  # the width of the map by its height, as in `page.css`

# The picture of the history: kinds of rows, and the name of each.
HISTORY_KINDS = (("answer", "answer"), ("reward", "reading"))


@dataclass(frozen=True)
class PageTable:
    """A table with a header."""

    caption: str
    header: list[str]
    rows: list[list[object]]


def campaign_page(campaign: Campaign) -> str:
    """Return the campaign as one page of HTML, which needs no network.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> from tvbandits.campaign.service.page import campaign_page
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     page = campaign_page(campaign)
    >>> size = Path("campaign.html").write_text(page, encoding="utf-8")
    >>> print(size > 1000)
    True
    """
    facts = Facts(campaign)
    plane = facts.plane
    return _render(
        facts=facts,
        title=facts.about.get("title", "Campaign"),
        generator=generator_of(campaign.id),
        glance=_glance(facts),
        pending=_pending(facts),
        plots=[
            *([(sites_map(facts, plane), None)] if plane else []),
            (belief(facts), _belief_table(facts)),
        ],
        forecast=_forecast(facts),
        stations=_stations(facts),
        history=(history_plot(facts), _history_table(facts)) if len(facts.history) else None,
        script=_text("page.js"),
    )


def sign_in_page(complaint: str = "") -> str:
    """Return the form for the token."""
    return _render(
        facts=None, title="Campaign", generator="tvbandits", complaint=complaint, script=""
    )


def generator_of(campaign_id: str) -> str:
    """Return the text by which a page names its generator and its campaign."""
    return f"tvbandits campaign {campaign_id}"


def has_generator(path: Path, generator: str) -> bool:
    """Return whether a file is a page whose head names this generator."""
    head = f'<meta name="generator" content="{escape(generator)}">'.encode()
    with path.open("rb") as file:
        return head in file.read(300 + len(head))


def _render(script: str, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("tvbandits.campaign.service", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = format_cell
    return environment.get_template("page.html").render(
        style=Markup(_text("page.css", "tvbandits.comparison") + _text("page.css")),
        script=Markup(script),
        hash=_hash_of(script),
        version=__version__,
        **values,
    )


def _hash_of(script: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _text(name: str, package: str = "tvbandits.campaign.service") -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


# --- tables --------------------------------------------------------------------------------------


def _glance(facts: Facts) -> list[tuple[str, object]]:
    """Return the most important numbers, by name."""
    status, limits = facts.status, facts.recipe.options.limits
    noise = facts.info.model.noise
    interval = f"{noise.low:.2g} to {noise.high:.2g}" if noise and noise.is_known else None
    values: list[tuple[str, object]] = [
        ("readings", status.readings),
        ("failed", status.failed),
        ("pending", status.pending),
        ("answers", status.answers),
        ("questions", status.questions),
        ("budget of questions", facts.campaign.budget),
        ("limit violations", status.violations if limits else None),
        *((f"limit on {each.name}", _bounds(each)) for each in limits),
        *((f"mean violation of {name}", each) for name, each in status.mean_excess.items()),
        ("cost", float(status.cost)),
        (
            f"largest loss of the best guess{facts.unit}, within {facts.width:g} standard deviations",
            facts.most_regret,
        ),
        ("stations with problems", sum(bool(each.problems) for each in facts.stations)),
        ("unit of length scales", facts.about.get("length_unit")),
        ("noise variance, 95%", interval),
        *(("please check", each) for each in facts.info.health),
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
    header = ["place", "for time", *until, "asked", "by", "to drop it"]
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


def _state(station: StationFacts) -> str:
    problems = (with_answer(each, "FILE", station.name) for each in station.problems)
    return "; ".join(problems) or "good"


def _stations(facts: Facts) -> PageTable:
    rows: list[list[object]] = [
        [
            each.name,
            "retired" if each.retired else _state(each),
            each.readings,
            each.failed,
            facts.format_time(each.last_time) if np.isfinite(each.last_time) else "–",
            each.last_value,
        ]
        for each in facts.stations[:MOST_STATIONS]
    ]
    header = ["place", "state", "readings", "failed", "last", f"value{facts.unit}"]
    more = len(facts.stations) - len(rows)
    caption = f"Stations, those with problems first{f'; {more} more are not shown' if more else ''}"
    return PageTable(caption, header, rows)


# --- pictures ------------------------------------------------------------------------------------


def belief(facts: Facts) -> Picture:
    """Return the picture of mean and 95% interval over time: a curve, or the best of all places."""
    ends = [m + side * s for _, m, s in facts.course for side in (-2.1, 2.1)]
    if facts.places.shape[1] == 1:
        rows = np.argsort(facts.places[:, 0])
        name = facts.site_names.coordinates[0]
        x, y = Axis.around(facts.places[:, 0], name), Axis.around(np.array(ends), facts.reward)
        across = x.share(facts.places[rows, 0])

        def draw(mean: Array, deviation: Array) -> Markup:
            low, high = (y.share(mean + side * HALF_WIDTH * deviation)[rows] for side in (-1, 1))
            band = path("band", np.r_[across, across[::-1]], np.r_[high, low[::-1]])
            return band + path("curve", across, y.share(mean)[rows])

        legend = [("curve", "mean"), ("band", "95% interval")]
    else:
        rows = facts.ranking[:PICTURE_PLACES]
        values = np.array([each[rows] for each in ends])
        x, y = Axis.around(values, facts.reward), Axis.of_names([facts.names[i] for i in rows])

        def draw(mean: Array, deviation: Array) -> Markup:
            marks = []
            for row, up in zip(rows, y.share(-np.arange(float(len(rows)))), strict=True):
                text = f"{facts.names[row]}: {facts.interval(mean[row], deviation[row])}"
                half = HALF_WIDTH * deviation[row]
                low, at, high = x.share(mean[row] + np.array([-half, 0.0, half]))
                marks += [span((low, high), up, text), mark("dot", at, up, text)]
            return join(marks)

        legend = [("dot", "mean"), ("span", "95% interval")]
    first = [t for t, *_ in facts.course].index(facts.now)
    return Picture(
        "belief",
        "Mean and 95% interval at the time on the slider, from all readings so far",
        x,
        y,
        [(facts.format_time(t), draw(m, s)) for t, m, s in facts.course],
        first,
        legend,
        rows=0 if facts.places.shape[1] == 1 else len(rows),
    )


def _belief_table(facts: Facts) -> PageTable:
    mean, deviation = facts.belief
    cells: list[list[object]] = [
        [facts.names[i], float(mean[i]), float(HALF_WIDTH * deviation[i])]
        for i in facts.ranking[:MOST_ROWS]
    ]
    header = ["place", f"mean{facts.unit}", f"± (95% interval){facts.unit}"]
    return PageTable(f"The best first, at {facts.format_time(facts.now)}", header, cells)


def sites_map(facts: Facts, plane: Plane) -> Picture:
    """Return the map of the sites, lighter if the mean is higher, with pending points and problems.

    Sites that matter have their names, the most important first.
    """
    with_problems = {each.name for each in facts.stations if each.problems}
    problems = [i for i, name in enumerate(facts.names) if name in with_problems]
    pending = [facts.row_of(point) for point in facts.pending]
    mean, deviation = facts.belief
    x, y = _map_axes(plane)
    across, up = x.share(plane.x), y.share(plane.y)
    low, high = float(mean.min()), float(mean.max())
    colours = colormaps["cividis"]((mean - low) / (high - low or 1.0))
    texts = [
        f"{name}: {facts.interval(*each)}"
        for name, *each in zip(facts.names, mean, deviation, strict=True)
    ]
    marks = [
        *(mark("ring", across[i], up[i]) for i in pending),
        mark("diamond", across[facts.best], up[facts.best]),
        *map(
            mark,
            repeat("site" if len(texts) <= MOST_ROWS else "dot"),
            across,
            up,
            texts,
            map(to_hex, colours),
        ),
        *(mark("cross", across[i], up[i]) for i in problems),
    ]
    legend = [("ring", "where to go")] * bool(pending) + [("diamond", "best guess")]
    legend += [("cross", "with problems")] * bool(problems)
    rows = dict.fromkeys([*pending, facts.best, *problems])
    return Picture(
        "map",
        f"The mean at every site, at {facts.format_time(facts.now)}",
        x,
        y,
        [("", join(marks))],
        legend=legend,
        scale=(format_number(low), format_number(high), f"mean{facts.unit}"),
        labels=[(float(across[i]), float(up[i]), short(facts.names[i])) for i in rows],
    )


def _map_axes(plane: Plane) -> tuple[Axis, Axis]:
    """Return axes on which a length is as long in both directions, in a picture of `MAP_SHAPE`."""
    ends = [np.array([each.min(), each.max()]) for each in (plane.x, plane.y)]
    width, height = np.ptp(ends[0]), np.ptp(ends[1]) * plane.ratio
    wide = max(width, height * MAP_SHAPE)
    for each, add in ((0, wide - width), (1, (wide / MAP_SHAPE - height) / plane.ratio)):
        ends[each] = ends[each] + np.array([-add / 2, add / 2])
    return Axis.around(ends[0], plane.across), Axis.around(ends[1], plane.up)


def history_plot(facts: Facts) -> Picture:
    """Return the picture of readings and answers over time."""
    history = facts.history.tail(MOST_DOTS)
    x = Axis.around(history["time"].to_numpy(float), "time", facts.format_time, 3)
    y = Axis.around(history["reward"].to_numpy(float), facts.reward)
    marks, legend = [], []
    for kind, name in HISTORY_KINDS:
        points = history[(history["kind"] == kind) & history["reward"].notna()]
        if len(points):
            across, up = (points[each].to_numpy(float) for each in ("time", "reward"))
            marks.append(dots(name, x.share(across), y.share(up)))
            legend.append((name, name))
    more = f", only the latest {MOST_DOTS}" if len(facts.history) > MOST_DOTS else ""
    caption = f"Readings and answers over time{more}"
    return Picture("history", caption, x, y, [("", join(marks))], legend=legend)


def _history_table(facts: Facts) -> PageTable:
    outcomes = [limit.name for limit in facts.recipe.options.limits]
    columns = ["time", "place", "reward", *outcomes, "kind", "source"]
    rows = facts.history[columns].tail(MOST_ROWS)[::-1]
    cells = rows.assign(time=[*map(facts.format_time, rows["time"])]).to_numpy().tolist()
    header = ["time", "place", facts.reward, *outcomes, "kind", "source"]
    return PageTable("The latest first", header, cells)


# --- values on the page -------------------------------------------------------------------------------


@dataclass(frozen=True)
class PageSettings:
    """The constants of the page, and of problems of a station.

    Attributes
    ----------
    places : int
        The largest number of places; a larger or continuous domain is sampled.
    digits : int
        Significant digits of a place that nobody has chosen.
    past_times : int
        Times up to now with beliefs.
    steps_ahead : tuple of int
        Times ahead of now, in steps of the history.
    equal_readings, failed_readings : int
        A station is stuck after so many equal readings, and silent after so many that failed.
    pairs, standard_errors : int, float
        An expert is biased at a station if its answers differ by so many standard errors from the
        readings, over so many pairs or more.
    """

    places: int = 400
    digits: int = 4
    past_times: int = 10
    steps_ahead: tuple[int, ...] = (1, 2, 3, 5)
    equal_readings: int = 5
    failed_readings: int = 3
    pairs: int = 6
    standard_errors: float = 4.0


SETTINGS = PageSettings()


@dataclass(frozen=True)
class StationFacts:
    """A place with readings, and its problems, if there are any."""

    name: str
    readings: int
    failed: int
    last_time: float
    last_value: float
    problems: tuple[str, ...]
    retired: bool = False


@dataclass(frozen=True)
class Plane:
    """A map of the places.

    Attributes
    ----------
    x, y : arrays of shape (N,)
        Coordinates to the right and up: longitude and latitude, if there are.
    across, up : str
        Their names.
    ratio : float
        The length of a unit of y divided by that of a unit of x.
    """

    x: Array
    y: Array
    across: str
    up: str
    ratio: float


class Facts:
    """The numbers of a campaign as it is now, of which many pictures and tables are made.

    Attributes
    ----------
    campaign : Campaign
    about, site_names, recipe, state, info, status
        Those of the campaign: `about`, `names` and so on.
    places : array of shape (N, d)
        The places with beliefs.
    names : list of str
        The names of the places.
    now : float
        The latest time of the history.
    history : DataFrame
        The history, with the name of the `place` of each row.
    pending : array of shape (k, d)
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self.about, self.site_names = campaign, campaign.about, campaign.names
        self.recipe, self.state, self.info = campaign.recipe, campaign.state, campaign.info
        self.status, self.pending = campaign.status, campaign.pending
        history = campaign.history
        history = history[~history["kind"].isin(("corrected", "retracted"))].reset_index(drop=True)
        history = history.assign(time=history["t"]) if campaign.clock else history
        if self.is_relative:
            history = history.assign(reward=history["relative"])
        state = self.state
        latest = state.pending.X if len(state.pending) else state.readings.X
        self.places, self.names = _places(self.recipe.domain, self.site_names, latest)
        self.now = float(history["time"].to_numpy(dtype=float).max(initial=0.0))
        parts: list[Any] = [state.readings, state.failed, state.answers, state.pending]
        X, t = (
            np.concatenate(each) for each in zip(*((part.X, part.t) for part in parts), strict=True)
        )
        places = [self.name_of(x) for x in X[np.argsort(t, kind="stable")]]
        self.history = history.assign(place=places)

    @property
    def is_relative(self) -> bool:
        """Return whether rewards are shown relative to a control."""
        return self.recipe.options.control is not None

    @property
    def unit(self) -> str:
        """Return the unit of the reward in brackets, and the control, if rewards are relative to one."""
        unit, control = self.about.get("unit", ""), self.recipe.options.control
        name = "" if control is None else self.site_names.name(np.array(control))
        relative = f" relative to {name}" if name else ""
        return f" [{unit}]{relative}" if unit else relative

    @property
    def reward(self) -> str:
        """Return the name of the reward with its unit."""
        return f"reward{self.unit}"

    def interval(self, mean: float, deviation: float) -> str:
        """Return mean and 95% interval with the unit."""
        unit = self.about.get("unit", "")
        return f"{format_interval(mean, HALF_WIDTH * deviation)} {unit}".rstrip()

    @property
    def minimizes(self) -> bool:
        """Return whether lower rewards are better."""
        return bool(self.recipe.minimize)

    @cached_property
    def width(self) -> float:
        """Return the width of the last decision's bound, in deviations."""
        beta = float(self.info.beta)
        return beta if np.isfinite(beta) and beta > 0 else DEFAULT_WIDTH

    @cached_property
    def belief(self) -> tuple[Array, Array]:
        """Return the present mean and deviation at every place, shapes (N,)."""
        return self.predict(self.now)

    def predict(self, t: float) -> tuple[Array, Array]:
        """Return mean and deviation at every place at a time, shapes (N,)."""
        return self.campaign.predict(self.places, t, relative=self.is_relative)

    @cached_property
    def course(self) -> list[tuple[float, Array, Array]]:
        """Return past times, now and times ahead, each with mean and deviation at every place."""
        past = np.unique([*self.history["time"].to_numpy(dtype=float), self.now])
        step = float(np.median(np.diff(past))) if len(past) > 1 else 1.0
        rows = np.unique(np.linspace(0, len(past) - 1, SETTINGS.past_times).astype(int))
        times = [*past[rows].tolist(), *(self.now + n * step for n in SETTINGS.steps_ahead)]
        return [(t, *self.predict(t)) for t in times]

    @cached_property
    def best(self) -> int:
        """Return the row of the place with the best mean."""
        mean, _ = self.belief
        return int(np.argmin(mean) if self.minimizes else np.argmax(mean))

    @cached_property
    def ranking(self) -> Index:
        """Return the rows of all places, the best first."""
        mean, _ = self.belief
        return np.argsort(mean if self.minimizes else -mean)

    @property
    def best_guess(self) -> str:
        """Return the best place, with its mean and interval."""
        mean, deviation = self.belief
        return f"{self.names[self.best]}: {self.interval(mean[self.best], deviation[self.best])}"

    @cached_property
    def reasons(self) -> list[tuple[str, str]]:
        """Return the name of each pending point, with a sentence why it was chosen."""
        mean, deviation = self.belief
        reasons = []
        for point in self.pending:
            name, row = self.name_of(point), self.row_of(point)
            interval = self.interval(mean[row], deviation[row])
            sign = -1 if self.minimizes else 1
            bound = mean[row] + sign * self.width * deviation[row]
            if row == self.best:
                reason = f"{name} is the best guess: {interval}."
            else:
                reach = f"{name} may reach {format_number(bound)} ({interval})"
                reason = f"{reach}; best guess: {self.best_guess}."
            reasons.append((name, reason))
        return reasons

    @cached_property
    def most_regret(self) -> float:
        """Return the largest regret of the best place, if all rewards are within their bounds."""
        mean, deviation = self.belief
        sign = -1.0 if self.minimizes else 1.0
        upper = sign * mean + self.width * deviation
        lower = sign * mean[self.best] - self.width * deviation[self.best]
        return max(float(upper.max() - lower), 0.0)

    def row_of(self, point: Array) -> int:
        """Return the row of the place nearest to a point."""
        return int(np.argmin(((self.places - point) ** 2).sum(axis=1)))

    def name_of(self, point: Array) -> str:
        """Return the name of a point: that of its place, or its coordinates."""
        row = self.row_of(point)
        exact = bool((self.places[row] == point).all())
        return self.names[row] if exact else self.site_names.name(point)

    def format_time(self, t: float) -> str:
        """Return a time for people: without seconds if they are 0, at midnight the date."""
        text = self.campaign.format_time(t).removesuffix(" 00:00:00")
        return text[:-3] if text.endswith(":00") else text

    @cached_property
    def stations(self) -> list[StationFacts]:
        """Return every place with a row in the history, those with problems first."""
        places = self.history.groupby("place")
        doubts = self.campaign.doubtful_sites
        retired = {*self.site_names.sites} - {*self.campaign.sites}
        stations = [
            _station(str(name), rows, doubts.get(str(name)), retired=name in retired)
            for name, rows in places
        ]
        return sorted(stations, key=lambda each: (not each.problems, each.name))

    @property
    def calibrations(self) -> list[str]:
        """Return a sentence on each calibration of the expert, and of the experts inside of it."""
        sentences, expert = [], self.state.queries.expert
        while expert:
            if pairs := expert.get("pairs"):
                verdict = estimate(*np.array(pairs, dtype=np.float64).reshape(-1, 3).T)
                sentences.append(
                    f"The expert, compared with readings of the same points: {verdict}."
                )
            expert = expert.get("expert")
        return sentences

    @property
    def plane(self) -> Plane | None:
        """Return the places on a map; None if they do not have two coordinates."""
        names, places = self.site_names, self.places
        domain = self.recipe.domain
        if not isinstance(domain, Candidates):
            return None
        table = pd.DataFrame(places, columns=names.coordinates)
        if names.table:  # degrees of all sites, in their order
            rows = domain.index(places)
            table = pd.DataFrame(names.table).iloc[rows.tolist()]
        degrees = find_degrees(table.columns)
        if degrees is not None:
            latitude, longitude = degrees
            x, y = (table[column].to_numpy(dtype=float) for column in (longitude, latitude))
            return Plane(x, y, longitude, latitude, float(1 / np.cos(np.radians(y.mean()))))
        if places.shape[1] != 2:
            return None
        across, up = names.coordinates
        return Plane(places[:, 0], places[:, 1], across, up, 1.0)


def _places(domain: Any, names: Names, latest: Array) -> tuple[Array, list[str]]:
    """Return the places with beliefs, in the context of the latest point, and their names."""
    if domain.context_parameters and len(latest):
        domain = AtContext(domain, latest[-1, list(domain.context_columns)])
    if isinstance(domain, Candidates):
        X = domain.active
        X = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), SETTINGS.places)).astype(int))]
    else:
        X = domain.sample(SETTINGS.places, np.random.default_rng(0))
        X = X[np.lexsort(X.T[::-1])]
        return X, [names.name(x, SETTINGS.digits) for x in X]
    return X, [names.name(x) for x in X]


def _station(name: str, rows: pd.DataFrame, remark: str | None, *, retired: bool) -> StationFacts:
    played = rows[rows["kind"] != "pending"]
    values = played["reward"].dropna().to_numpy(dtype=float)
    last = float(values[-1]) if len(values) else float("nan")
    time = float(played["time"].max()) if len(played) else float("nan")
    failed = int((played["kind"] == "failed").sum())
    own = _problems(played)
    kinds = {each.partition(":")[0] for each in own}
    more = () if remark is None or remark.partition(":")[0] in kinds else (remark,)
    problems = () if retired else (*own, *more)
    return StationFacts(name, len(values), failed, time, last, problems, retired)


def _problems(played: pd.DataFrame) -> tuple[str, ...]:
    """Return the problems of a place in words, for its own readings and the expert's answers."""
    problems = []
    for source, own in played.groupby("source"):
        what = "answers" if source == "expert" else "readings"
        values = own["reward"].to_numpy(dtype=float)
        missing = np.isnan(values)
        silent = int(np.argmin([*missing[::-1], False]))
        if silent >= SETTINGS.failed_readings:
            problems.append(f"silent: the last {silent} {what} failed")
        read = values[~missing]
        stuck = int(np.argmin([*(read == read[-1:])[::-1], False]))
        if stuck >= SETTINGS.equal_readings:
            problems.append(f"stuck: the last {stuck} {what} are all {read[-1]:g}")
    if played["source"].nunique() < 2:
        return tuple(problems)
    both = played.pivot_table("reward", "time", "source").reindex(columns=["expert", "bandit"])
    differences = (both["expert"] - both["bandit"]).dropna().to_numpy(dtype=float)
    if len(differences) >= SETTINGS.pairs:
        mean = float(differences.mean())
        error = float(differences.std(ddof=1)) / len(differences) ** 0.5
        if abs(mean) > SETTINGS.standard_errors * error > 0:
            problems.append(f"biased: answers differ by {mean:+.3g} from its own readings")
    return tuple(problems)
