"""The numbers on the page of a campaign: beliefs, the best place, stations with problems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.acquisition.widths import DEFAULT_WIDTH
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.names import Names
from tvbandits.campaign.status import HALF_WIDTH
from tvbandits.datasets.sensor_field import find_degrees
from tvbandits.digits import interval_text, number_text
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import AtContext
from tvbandits.experts.calibrated import estimate
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class PageSettings:
    """What the page shows, and when a station has a problem.

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
    """The numbers of a campaign as it is now.

    Attributes
    ----------
    campaign : Campaign
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
        history = campaign.history
        history = history[~history["kind"].isin(("corrected", "retracted"))].reset_index(drop=True)
        history = history.assign(time=history["t"]) if campaign.clock else history
        if campaign.recipe.options.control is not None:
            history = history.assign(reward=history["relative"])
        state = campaign.state
        latest = state.pending.X if len(state.pending) else state.readings.X
        self.campaign, self.pending = campaign, campaign.pending
        self.places, self.names = _places(campaign.recipe.domain, campaign.names, latest)
        self.now = float(history["time"].to_numpy(dtype=float).max(initial=0.0))
        parts: list[Any] = [state.readings, state.failed, state.answers, state.pending]
        X, t = (
            np.concatenate(each) for each in zip(*((part.X, part.t) for part in parts), strict=True)
        )
        places = [self.name_of(x) for x in X[np.argsort(t, kind="stable")]]
        self.history = history.assign(place=places)

    @property
    def unit(self) -> str:
        """The unit of the reward, in brackets, and the control that it is relative to, if any."""
        unit, control = self.campaign.about.get("unit", ""), self.campaign.recipe.options.control
        name = "" if control is None else self.campaign.names.name(np.array(control))
        relative = f" relative to {name}" if name else ""
        return f" [{unit}]{relative}" if unit else relative

    def interval(self, mean: float, deviation: float) -> str:
        """Return mean and 95% interval with the unit."""
        unit = self.campaign.about.get("unit", "")
        return f"{interval_text(mean, HALF_WIDTH * deviation)} {unit}".rstrip()

    @property
    def minimizes(self) -> bool:
        """Whether lower is better."""
        return bool(self.campaign.recipe.minimize)

    @cached_property
    def width(self) -> float:
        """The width of the last decision's bound, in deviations."""
        beta = float(self.campaign.info.beta)
        return beta if np.isfinite(beta) and beta > 0 else DEFAULT_WIDTH

    @cached_property
    def belief(self) -> tuple[Array, Array]:
        """Mean and deviation at every place now, shapes (N,)."""
        return self.predict(self.now)

    def predict(self, t: float) -> tuple[Array, Array]:
        """Return mean and deviation at every place at a time, shapes (N,)."""
        relative = self.campaign.recipe.options.control is not None
        return self.campaign.predict(self.places, t, relative=relative)

    @cached_property
    def course(self) -> list[tuple[float, Array, Array]]:
        """Times of the history, now, and times ahead; mean and deviation at every place at each."""
        past = np.unique([*self.history["time"].to_numpy(dtype=float), self.now])
        step = float(np.median(np.diff(past))) if len(past) > 1 else 1.0
        rows = np.unique(np.linspace(0, len(past) - 1, SETTINGS.past_times).astype(int))
        times = [*past[rows].tolist(), *(self.now + n * step for n in SETTINGS.steps_ahead)]
        return [(t, *self.predict(t)) for t in times]

    @cached_property
    def best(self) -> int:
        """The row of the place with the best mean."""
        mean, _ = self.belief
        return int(np.argmin(mean) if self.minimizes else np.argmax(mean))

    @cached_property
    def ranking(self) -> Index:
        """The rows of all places, the best first."""
        mean, _ = self.belief
        return np.argsort(mean if self.minimizes else -mean)

    @property
    def best_guess(self) -> str:
        """The best place, and its mean with its interval."""
        mean, deviation = self.belief
        return f"{self.names[self.best]}: {self.interval(mean[self.best], deviation[self.best])}"

    @cached_property
    def reasons(self) -> list[tuple[str, str]]:
        """The name of each pending point, and a sentence that says why to go there."""
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
                reach = f"{name} may reach {number_text(bound)} ({interval})"
                reason = f"{reach}; best guess: {self.best_guess}."
            reasons.append((name, reason))
        return reasons

    @cached_property
    def most_regret(self) -> float:
        """The largest regret of the best place, if all rewards are within their bounds."""
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
        return self.names[row] if exact else self.campaign.names.name(point)

    def format_time(self, t: float) -> str:
        """Return a time for people: without seconds if they are 0, at midnight the date."""
        text = self.campaign.format_time(t).removesuffix(" 00:00:00")
        return text[:-3] if text.endswith(":00") else text

    @cached_property
    def stations(self) -> list[StationFacts]:
        """Every place with a row in the history, those with problems first."""
        places = self.history.groupby("place")
        found = self.campaign.doubtful_sites
        retired = {*self.campaign.names.sites} - {*self.campaign.sites}
        stations = [
            _station(str(name), rows, found.get(str(name)), retired=name in retired)
            for name, rows in places
        ]
        return sorted(stations, key=lambda each: (not each.problems, each.name))

    @property
    def calibrations(self) -> list[str]:
        """A sentence on each calibration of the expert, and of the experts inside of it."""
        sentences, expert = [], self.campaign.state.queries.expert
        while expert:
            if pairs := expert.get("pairs"):
                verdict = estimate(*np.array(pairs, dtype=np.float64).reshape(-1, 3).T)
                sentences.append(
                    f"The expert, judged by answers and readings of the same point: {verdict}."
                )
            expert = expert.get("expert")
        return sentences

    @property
    def plane(self) -> Plane | None:
        """The places on a map; None if they have no two coordinates."""
        names, places = self.campaign.names, self.places
        domain = self.campaign.recipe.domain
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
    more = () if remark is None else (remark,)
    problems = () if retired else (*_problems(played), *more)
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
            problems.append(f"stuck: {read[-1]:g} for {stuck} {what}")
    both = played.pivot_table("reward", "time", "source").reindex(columns=["expert", "bandit"])
    differences = (both["expert"] - both["bandit"]).dropna().to_numpy(dtype=float)
    if len(differences) >= SETTINGS.pairs:
        mean = float(differences.mean())
        error = float(differences.std(ddof=1)) / len(differences) ** 0.5
        if abs(mean) > SETTINGS.standard_errors * error > 0:
            problems.append(f"biased: answers differ by {mean:+.3g} from its own readings")
    return tuple(problems)
