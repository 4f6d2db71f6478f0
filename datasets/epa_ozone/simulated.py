"""A simulated ozone network, which is as difficult as the measured one and needs no files.

Every level is made up by this module. The statistics that the simulation is set to were measured on a
real field (the 28 most complete sites of New York State, 2008-2009, US EPA Air Quality System); no
measurement is in the package. `ozone` reads the real files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from tvbandits.datasets.base import autoregressive
from tvbandits.datasets.table_problem import TableProblem
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import Array, whole_number


@dataclass(frozen=True)
class OzoneField:
    """The statistics of the levels, in ppb, km and days.

    Attributes
    ----------
    geometry_seed : int
        Seed of the places of the stations and their lasting differences, the same in every realisation.
    year : float
        Length of the seasonal cycle.
    mean, season, peak_day : float
        Mean level and amplitude of its seasonal cycle; day of the year of the peak.
    level_sd, level_persistence : float
        Daily level that all stations share: deviation, and correlation from one day to the next.
    offset_sd : float
        Deviation over stations of their lasting difference.
    contrast_sd : tuple of float
        The same of their cosine and sine of the season.
    departure_sd : float
        Deviation of a station's departure from all that: a little under the 6.0 measured, which brings
        the regret of the last best station to the measured one.
    fast, slow, slow_share : float
        Correlation from one day to the next of the fast and the slow part of the departure, and the slow
        part's share of the variance.
    range, shared : float
        Departures at distance d are correlated by shared * exp(-d / range), before centring.
    summer : float
        Departures and shared level swing this much more in summer, and less in winter.
    floor : float
        The lowest level.
    """

    geometry_seed: int = 28
    year: float = 365.25
    mean: float = 36.0
    season: float = 11.0
    peak_day: float = 149.0
    level_sd: float = 7.1
    level_persistence: float = 0.55
    offset_sd: float = 3.2
    contrast_sd: tuple[float, float] = (4.1, 2.3)
    departure_sd: float = 5.6
    fast: float = 0.12
    slow: float = 0.97
    slow_share: float = 0.16
    range: float = 250.0
    shared: float = 0.95
    summer: float = 0.3
    floor: float = 1.0

    def angle(self, days: Array) -> Array:
        """Return the angles of days of the year."""
        return np.asarray(2 * np.pi * days / self.year)

    def simulate(self, stations: int, days: int, seed: int) -> tuple[Array, Array]:
        """Return places (stations, 2) and levels (days, stations)."""
        geometry = np.random.default_rng(self.geometry_seed)
        points = _places(stations, geometry)
        covariance = self.shared * np.exp(-cdist(points, points) / self.range)
        np.fill_diagonal(covariance, 1.0)
        levels = self._climate(days, covariance, geometry) + self._weather(days, covariance, seed)
        return points, np.maximum(levels, self.floor)

    def _climate(self, days: int, covariance: Array, rng: np.random.Generator) -> Array:
        """Return the seasons and the stations' lasting part, the same in every realisation."""
        stations = len(covariance)
        # A few stations lie far below the rest, and none far above it.
        offset = -self.offset_sd * _standardise(rng.gamma(2.0, size=stations))
        zero = np.zeros(stations)
        cosine, sine = (
            sd * _standardise(rng.multivariate_normal(zero, covariance, method="cholesky"))
            for sd in self.contrast_sd
        )
        day = np.arange(float(days))[:, None]
        angle = self.angle(day)
        common = self.mean + self.season * np.cos(self.angle(day - self.peak_day))
        return np.asarray(common + offset + cosine * np.cos(angle) + sine * np.sin(angle))

    def _weather(self, days: int, covariance: Array, seed: int) -> Array:
        """Return the shared level and the departures of the stations, (days, stations)."""
        rng = np.random.default_rng(seed)
        zero = np.zeros(len(covariance))
        shocks = rng.multivariate_normal(zero, covariance, size=(2, days), method="cholesky")
        # The mean over stations belongs to the shared level; the rest is brought to unit variance.
        shocks -= shocks.mean(axis=-1, keepdims=True)
        shocks /= np.sqrt(1.0 - covariance.mean())
        noise = rng.standard_normal((days, 1))
        level = self.level_sd * autoregressive(noise, self.level_persistence)
        fast = np.sqrt(1.0 - self.slow_share) * autoregressive(shocks[0], self.fast)
        slow = np.sqrt(self.slow_share) * autoregressive(shocks[1], self.slow)
        departure = self.departure_sd * (fast + slow)
        angle = self.angle(np.arange(float(days))[:, None] - self.peak_day)
        return np.asarray((1.0 + self.summer * np.cos(angle)) * (level + departure))


def ozone_network(seed: int = 0, stations: int = 28, days: int = 731) -> TableProblem:
    """Simulate daily ozone levels of a network of stations, day 1 being the 1st of January.

    The level of a station is a seasonal cycle, plus a daily level that all stations share (AR(1)),
    plus a standing difference and a seasonal one of that station, plus a departure that is
    correlated between near stations and persists weakly from day to day; the last is what makes
    another station best on about four days of five.

    Parameters
    ----------
    seed : int
        The seed of the weather. The stations and their lasting differences are always the same:
        `problem.realise(seed)` is the same network in other weather.
    stations : int
        At least 2.
    days : int
        At least 1.

    Returns
    -------
    TableProblem
        Points in km (east, north), one step a day, rewards in ppb and positive.

    Examples
    --------
    >>> from tvbandits.datasets import ozone_network
    >>> problem = ozone_network(stations=8, days=30)
    >>> print(problem.values.shape, problem.unit)
    (30, 8) ppb
    """
    whole_number("seed", seed, at_least=0)
    whole_number("stations", stations, at_least=2, at_most=2000)
    whole_number("days", days, at_most=36525)  # a hundred years
    points, levels = OzoneField().simulate(stations, days, seed)
    return TableProblem(
        levels,
        points,
        name="ozone-network",
        unit="ppb",
        noise_variance=1.0,
        labels=tuple(f"station-{station}" for station in range(stations)),
        summary=f"simulated, {stations} stations, {days} days",
        redraw=partial(ozone_network, stations=stations, days=days),
    )


def _places(stations: int, rng: np.random.Generator) -> Array:
    """Return places (stations, 2) in km: every third in one large city, the others over a state."""
    state = rng.uniform([-370.0, -150.0], [150.0, 240.0], size=(stations, 2))
    city = rng.normal([95.0, -150.0], 30.0, size=(stations, 2))
    in_city = np.arange(stations) % 3 == 0
    return np.where(in_city[:, None], city, state)


def _standardise(values: Array) -> Array:
    """Return values with mean 0 and deviation 1."""
    return np.asarray((values - values.mean()) / values.std())


PROBLEMS = (
    NamedProblem(
        "ozone-network", ozone_network, "simulated daily ozone at 28 stations", length="days"
    ),
)
