"""A simulated ozone network, which is as difficult as the measured one and needs no files.

All levels are random. The statistics of the simulation were estimated from measurements at the 28 most
complete sites of New York State, 2008-2009 (US EPA Air Quality System); the package contains none of
these measurements. `ozone` reads the EPA's files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from tvbandits.datasets.base import make_autoregressive
from tvbandits.datasets.table_problem import TableProblem
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import Array, whole_number


@dataclass(frozen=True)
class OzoneField:
    """The statistics of simulated ozone levels, in ppb, km and days.

    A level is a seasonal cycle, plus a daily level that all stations have in common, plus a constant
    offset and a seasonal contrast of the station, plus a residual of the station and day.

    Attributes
    ----------
    geometry_seed : int
        Seed of the stations' places, offsets and contrasts, the same in every realisation.
    year : float
        Length of the seasonal cycle.
    mean, season, peak_day : float
        Mean level and amplitude of its seasonal cycle; day of the year of the peak.
    level_sd, level_persistence : float
        Common daily level: standard deviation, and correlation from one day to the next.
    offset_sd : float
        Standard deviation over stations of their offsets.
    contrast_sd : tuple of float
        Standard deviations over stations of the cosine and sine coefficients of their contrasts.
    residual_sd : float
        Standard deviation of the residuals: a little less than the measured 6.0, so that the regret of
        playing yesterday's best station is as measured.
    fast, slow, slow_share : float
        Correlations from one day to the next of the fast and the slow part of the residual, and the
        slow part's fraction of the variance.
    range, correlation : float
        The correlation of residuals at distance d is correlation * exp(-d / range), before centring.
    summer : float
        Relative amplitude of the seasonal cycle in the deviation of residuals and common level, which
        is largest on the peak day.
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
    residual_sd: float = 5.6
    fast: float = 0.12
    slow: float = 0.97
    slow_share: float = 0.16
    range: float = 250.0
    correlation: float = 0.95
    summer: float = 0.3
    floor: float = 1.0

    def angle(self, days: Array) -> Array:
        """Return the angles (radians) of days in the seasonal cycle."""
        return np.asarray(2 * np.pi * days / self.year)

    def simulate(self, stations: int, days: int, seed: int) -> tuple[Array, Array]:
        """Return the stations' places (stations, 2) in km and their levels (days, stations) in ppb."""
        geometry = np.random.default_rng(self.geometry_seed)
        points = _draw_places(stations, geometry)
        covariance = self.correlation * np.exp(-cdist(points, points) / self.range)
        np.fill_diagonal(covariance, 1.0)
        climate = self._draw_climate(days, covariance, geometry)
        weather = self._draw_weather(days, covariance, seed)
        return points, np.maximum(climate + weather, self.floor)

    def _draw_climate(self, days: int, covariance: Array, rng: np.random.Generator) -> Array:
        """Return the seasonal cycle plus offsets and contrasts of the stations, (days, stations)."""
        stations = len(covariance)
        # A few stations lie far below the other ones, and none far above them.
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

    def _draw_weather(self, days: int, covariance: Array, seed: int) -> Array:
        """Return the common level plus the residuals of the stations, (days, stations)."""
        rng = np.random.default_rng(seed)
        zero = np.zeros(len(covariance))
        shocks = rng.multivariate_normal(zero, covariance, size=(2, days), method="cholesky")
        # The mean over stations is part of the common level; without it, the variance is made 1 again.
        shocks -= shocks.mean(axis=-1, keepdims=True)
        shocks /= np.sqrt(1.0 - covariance.mean())
        noise = rng.standard_normal((days, 1))
        level = self.level_sd * make_autoregressive(noise, self.level_persistence)
        fast = np.sqrt(1.0 - self.slow_share) * make_autoregressive(shocks[0], self.fast)
        slow = np.sqrt(self.slow_share) * make_autoregressive(shocks[1], self.slow)
        residual = self.residual_sd * (fast + slow)
        angle = self.angle(np.arange(float(days))[:, None] - self.peak_day)
        return np.asarray((1.0 + self.summer * np.cos(angle)) * (level + residual))


def ozone_network(seed: int = 0, stations: int = 28, days: int = 731) -> TableProblem:
    """Simulate daily ozone levels of a network of stations, day 1 being the 1st of January.

    The level of a station is a seasonal cycle, plus a daily level that all stations have in common
    (AR(1)), plus a constant offset and a seasonal contrast of the station, plus a residual that is
    correlated between near stations and persists weakly from day to day. Because of the residuals, the
    best station is not that of the day before on about four days of five.

    Parameters
    ----------
    seed : int
        Seed of the weather. The stations, their offsets and contrasts are always the same:
        `problem.realise(seed)` is the same network with different weather.
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


def _draw_places(stations: int, rng: np.random.Generator) -> Array:
    """Return places (stations, 2) in km: every third in one city, the others all over a state."""
    state = rng.uniform([-370.0, -150.0], [150.0, 240.0], size=(stations, 2))
    city = rng.normal([95.0, -150.0], 30.0, size=(stations, 2))
    in_city = np.arange(stations) % 3 == 0
    return np.where(in_city[:, None], city, state)


def _standardise(values: Array) -> Array:
    """Return values shifted and scaled to mean 0 and standard deviation 1."""
    return np.asarray((values - values.mean()) / values.std())


PROBLEMS = (
    NamedProblem(
        "ozone-network", ozone_network, "simulated daily ozone at 28 stations", length="days"
    ),
)
