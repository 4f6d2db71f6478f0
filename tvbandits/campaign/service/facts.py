"""What the page says, as numbers: of a campaign as it is now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.naming import Names
from tvbandits.campaign.status import PointOut
from tvbandits.core.arrays import Array, Index
from tvbandits.core.candidates import Candidates
from tvbandits.core.context import measured
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


@dataclass(frozen=True)
class Facts:
    """Of a campaign at one time.

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
    pending : array of shape (k, d)
    out : list of PointOut
        The same points by name, with the time that each is for, and who asked when.
    """

    campaign: Campaign
    places: Array
    names: list[str]
    now: float
    history: pd.DataFrame
    pending: Array
    out: list[PointOut]

    @classmethod
    def of(cls, campaign: Campaign) -> Facts:
        """As it is now."""
        domain = campaign.recipe.domain
        history = campaign.history
        history = history[~history["kind"].isin(("corrected", "retracted"))].reset_index(drop=True)
        history = history.assign(time=history["t"]) if campaign.clock else history
        if campaign.recipe.control is not None:
            history = history.assign(reward=history["relative"])
        times = history["time"].to_numpy(dtype=float)
        known = campaign.state
        latest = known.pending.X if len(known.pending) else known.readings.X
        places, names = _places(domain, campaign.names, latest)
        now = float(times.max(initial=0.0))
        return cls(campaign, places, names, now, history, campaign.pending, campaign.outstanding)

    @property
    def noise(self) -> list[tuple[str, object]]:
        """The noise variance of a reading, where it is learned."""
        learned = self.campaign.info.model.noise
        return [] if learned is None else [("noise variance", str(learned))]

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
        """A time as people say it."""
        clock = self.campaign.clock
        if clock is None:
            return f"t = {t:.15g}"
        # A clock that counts days has no need of hours, but for times between two of them.
        days = pd.Timedelta(clock.unit) % pd.Timedelta("1D") == pd.Timedelta(0)
        return f"{clock.time(round(t) if days else t):{'%Y-%m-%d' if days else '%Y-%m-%d %H:%M'}}"

    @cached_property
    def coordinates(self) -> Array:
        """Of every row of the history, shape (n, d): by number, also where the domain has names."""
        state = self.campaign.state
        parts: list[Any] = [state.readings, state.failed, state.answers, state.pending]
        X = np.concatenate([np.asarray(part.X, dtype=float) for part in parts])
        t = np.concatenate([np.asarray(part.t, dtype=float) for part in parts])
        return np.asarray(X[np.argsort(t, kind="stable")])

    @cached_property
    def stations(self) -> list[StationFacts]:
        """Every place with a row in the history, those in trouble first."""
        if not len(self.history):
            return []
        _, which = np.unique(self.coordinates, axis=0, return_inverse=True)
        which = which.ravel()
        found = [self._station(np.flatnonzero(which == i)) for i in range(which.max() + 1)]
        return sorted(found, key=lambda each: (not each.troubles, each.name))

    def _station(self, rows: Index) -> StationFacts:
        table = self.history.iloc[rows]
        name = self.name_of(self.coordinates[rows[0]])
        played = table[table["kind"] != "pending"]
        read = played[played["reward"].notna()]
        values = read["reward"].to_numpy(dtype=float)
        last = values[-1] if len(values) else float("nan")
        time = float(played["time"].max()) if len(played) else float("nan")
        failed = int((played["kind"] == "failed").sum())
        return StationFacts(name, len(read), failed, time, float(last), _troubles(played))

    @property
    def budget(self) -> str:
        """How many questions may be asked, as people say it."""
        asking = self.campaign.recipe.asking
        if asking is None:
            return "nobody is asked"
        budget = getattr(asking.plan, "budget", None)
        match getattr(asking.plan, "schedule", None) if budget is None else budget:
            case None:
                return "no limit here"
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
        """What its earlier answers say about the expert, in sentences."""
        found, known = [], self.campaign.state.expert
        while known:  # and whoever is inside of it
            if known.get("pairs"):
                made = estimate(*np.array(known["pairs"], dtype=np.float64).reshape(-1, 3).T)
                bias = f"biased: {made.bias:+.3g}{self.unit}" if made.biased else "not found biased"
                found.append(
                    f"The expert, by {made.pairs} answers beside a reading of the same place and "
                    f"time: {bias} (standard error {made.standard_error:.2g}); "
                    f"the variance that it states: {made.verdict}."
                )
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
        domain = domain._at(latest[-1, -sum(part.width for part in measured(domain).values()) :])
    if isinstance(domain, Candidates):
        X = np.delete(domain.X, list(domain.retired), axis=0)
        X = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), MOST_PLACES)).astype(int))]
    else:
        X = domain.sample(MOST_PLACES, np.random.default_rng(0))
        X = X[np.lexsort(X.T[::-1])]
    return X, [names.name(x) for x in X]


def _troubles(played: pd.DataFrame) -> tuple[str, ...]:
    """What is wrong with a place, in words; its own readings and the expert's answers each by itself."""
    found = []
    for source, own in played.groupby("source"):
        what = "answers" if source == "expert" else "readings"
        values = own["reward"].to_numpy(dtype=float)
        missing = np.isnan(values)
        silent = len(values) if missing.all() else int(np.argmin(missing[::-1]))
        if silent >= FAILED_IN_A_ROW:
            found.append(f"silent: the last {silent} {what} failed")
        read = values[~missing]
        stuck = len(read) if (read == read[-1:]).all() else int(np.argmin((read == read[-1])[::-1]))
        if stuck >= SAME_IN_A_ROW:
            found.append(f"stuck: {read[-1]:g} for {stuck} {what}")
    offset = _offset(played)
    if offset is not None:
        found.append(f"biased: answers are {offset:+.3g} from its own readings")
    return tuple(found)


def _offset(played: pd.DataFrame) -> float | None:
    """Answers less readings of the same time, where they differ by more than chance."""
    read = played[played["reward"].notna()]
    own = read[read["source"] == "bandit"].groupby("time")["reward"].mean()
    asked = read[read["source"] == "expert"].groupby("time")["reward"].mean()
    differences = (asked - own).dropna().to_numpy(dtype=float)
    if len(differences) < FEWEST_PAIRS:
        return None
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / len(differences) ** 0.5
    return mean if abs(mean) > STANDARD_ERRORS * error > 0 else None
