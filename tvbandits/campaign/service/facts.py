"""What the page of a campaign says, as numbers: beliefs, the best place, stations in trouble."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.acquisition.widths import DEFAULT_WIDTH
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.names import Names
from tvbandits.campaign.status import HALF_WIDTH
from tvbandits.datasets.tables.sensor_field import find_degrees
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import AtContext
from tvbandits.experts.calibrated import estimate
from tvbandits.validation import Array, Index

# Of a domain that is not finite, or a large one: so many are shown.
MOST_PLACES = 400

# Significant digits of a place that nobody has chosen, and decimals before numbers have an exponent.
DIGITS, MOST_DECIMALS = 4, 6

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
        if campaign.recipe.options.control is not None:
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
        said, control = self.campaign.about.get("unit", ""), self.campaign.recipe.options.control
        beside = "" if control is None else f" beside {self.campaign.names.name(np.array(control))}"
        return f" [{said}]{beside}" if said else beside

    def interval(self, mean: float, deviation: float) -> str:
        """Return mean and 95% interval with the unit: two digits of the interval, or whole numbers."""
        unit, half = self.campaign.about.get("unit", ""), float(f"{HALF_WIDTH * deviation:.2g}")
        decimals = 0 if half == 0 else max(1 - math.floor(math.log10(half)), 0)
        if half == 0 or decimals > MOST_DECIMALS or abs(mean) >= 10**MOST_DECIMALS:
            return f"{mean:.4g} ± {half:g} {unit}".rstrip()
        return f"{mean:.{decimals}f} ± {half:.{decimals}f} {unit}".rstrip()

    @property
    def minimizes(self) -> bool:
        """Lower is better."""
        return bool(self.campaign.recipe.minimize)

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
        beside = self.campaign.recipe.options.control is not None
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
        return int(np.argmin(mean) if self.minimizes else np.argmax(mean))

    @cached_property
    def ranked(self) -> Index:
        """Rows of all places, the best first."""
        mean, _ = self.belief
        return np.argsort(mean if self.minimizes else -mean)

    @property
    def best_guess(self) -> str:
        """The best place, and what is expected there."""
        mean, deviation = self.belief
        return f"{self.names[self.best]}: {self.interval(mean[self.best], deviation[self.best])}"

    @cached_property
    def reasons(self) -> list[tuple[str, str]]:
        """Where to go, and why: the name of each pending point, and a sentence."""
        mean, deviation = self.belief
        found = []
        for point in self.pending:
            name, row = self.name_of(point), self.row_of(point)
            said = self.interval(mean[row], deviation[row])
            if row == self.best:
                found.append((name, f"{name} is the best guess: {said}."))
            else:
                sign = -1 if self.minimizes else 1
                bound = mean[row] + sign * self.width * deviation[row]
                found.append(
                    (name, f"{name} may reach {bound:.4g} ({said}); best guess: {self.best_guess}.")
                )
        return found

    @cached_property
    def most_regret(self) -> float:
        """What the best place could lose at most, as far as the width holds."""
        mean, deviation = self.belief
        sign = -1.0 if self.minimizes else 1.0
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
        """A time as people say it: without seconds where there are none, of midnight the date."""
        text = self.campaign.when(t).removesuffix(" 00:00:00")
        return text[:-3] if text.endswith(":00") else text

    @cached_property
    def stations(self) -> list[StationFacts]:
        """Every place with a row in the history, those in trouble first."""
        found = [_station(str(name), rows) for name, rows in self.history.groupby("place")]
        return sorted(found, key=lambda each: (not each.troubles, each.name))

    @property
    def calibrations(self) -> list[str]:
        """What its earlier answers say about the expert, and about whoever is inside of it."""
        found, known = [], self.campaign.state.queries.expert
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
    """Where beliefs are shown, at the context of the latest points, and what the places are called."""
    if domain.context_parameters and len(latest):
        width = sum(part.width for part in domain.context_parameters.values())
        domain = AtContext(domain, latest[-1, -width:])
    if isinstance(domain, Candidates):
        X = np.delete(domain.X, list(domain.retired), axis=0)
        X = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), MOST_PLACES)).astype(int))]
    else:
        X = domain.sample(MOST_PLACES, np.random.default_rng(0))
        X = X[np.lexsort(X.T[::-1])]
        return X, [names.name(x, DIGITS) for x in X]
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
