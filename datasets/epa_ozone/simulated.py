"""A simulated ozone network: the benchmark's difficulty without its files.

Every number here is made up by this module. The statistics that the simulation is set to were
measured on a real field (the 28 most complete sites of New York State, 2008-2009, US EPA Air
Quality System); no measurement is in the package. `ozone` reads the real files.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from tvbandits.datasets.tables.problem import TableProblem, autoregressive
from tvbandits.protocols import NamedProblem
from tvbandits.validation import Array, whole_number

# Draws where the stations stand and how they differ for good: the same in every realisation.
GEOMETRY_SEED = 28


# Length of the seasonal cycle, days.
YEAR = 365.25


# Mean level and amplitude of its seasonal cycle, ppb; day of the year of the peak.
MEAN, SEASON, PEAK_DAY = 36.0, 11.0, 149.0


# Of the daily level that all stations share: sd (ppb) and correlation from one day to the next.
LEVEL_SD, LEVEL_PERSISTENCE = 7.1, 0.55


# Sd over stations, ppb: of their standing difference, of their cosine and sine of the season.
OFFSET_SD, CONTRAST_SD = 3.2, (4.1, 2.3)


# Sd of a station's departure from all that, ppb: a little under the 6.0 measured, which brings the
# regret of the last best station to the measured one.
DEPARTURE_SD = 5.6


# Correlation from one day to the next of its fast and of its slow part, and the slow part's share
# of the variance.
FAST, SLOW, SLOW_SHARE = 0.12, 0.97, 0.16


# Departures at distance d are correlated by SHARED * exp(-d / RANGE_KM), before centring.
RANGE_KM, SHARED = 250.0, 0.95


# Departures and shared level swing this much more in summer, and less in winter.
SUMMER = 0.3


# Largest network that is simulated, and the longest time: a hundred years.
MOST_STATIONS, MOST_DAYS = 2000, 36525


# No level lies below this, ppb.
FLOOR = 1.0


# Noise variance of a reading, ppb^2, as for the real field.
NOISE_VARIANCE = 1.0


def ozone_network(seed: int = 0, stations: int = 28, days: int = 731) -> TableProblem:
    """Simulate daily ozone levels of a network of stations, day 1 being the 1st of January.

    The level of a station is a seasonal cycle, plus a daily level that all stations share (AR(1)),
    plus a standing difference and a seasonal one of that station, plus a departure that is
    correlated between near stations and persists weakly from day to day; the last is what makes
    another station best on about four days of five.

    Parameters
    ----------
    seed : int
        Draws the weather. The stations, and what sets them apart for good, are always the same:
        `problem.realise(seed)` is the same network in other weather.
    stations : int
        How many stations, at least 2.
    days : int
        How many days, at least 1.

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
    whole_number("stations", stations, at_least=2, at_most=MOST_STATIONS)
    whole_number("days", days, at_most=MOST_DAYS)
    geometry = np.random.default_rng(GEOMETRY_SEED)
    points = _places(stations, geometry)
    covariance = SHARED * np.exp(-cdist(points, points) / RANGE_KM)
    np.fill_diagonal(covariance, 1.0)
    return TableProblem(
        np.maximum(_standing(days, covariance, geometry) + _weather(days, covariance, seed), FLOOR),
        points,
        name="ozone-network",
        unit="ppb",
        noise_variance=NOISE_VARIANCE,
        labels=tuple(f"station-{station}" for station in range(stations)),
        summary=f"simulated, {stations} stations, {days} days",
        redraw=partial(ozone_network, stations=stations, days=days),
    )


def _places(stations: int, rng: np.random.Generator) -> Array:
    """Places (stations, 2) in km: every third in one large city, the others over a state."""
    state = rng.uniform([-370.0, -150.0], [150.0, 240.0], size=(stations, 2))
    city = rng.normal([95.0, -150.0], 30.0, size=(stations, 2))
    in_city = np.arange(stations) % 3 == 0
    return np.where(in_city[:, None], city, state)


def _standing(days: int, covariance: Array, rng: np.random.Generator) -> Array:
    """What is the same in every realisation: the seasons and the stations' own part in them."""
    stations = len(covariance)
    # A few stations lie far below the rest, and none far above it.
    offset = -OFFSET_SD * _standard(rng.gamma(2.0, size=stations))
    none = np.zeros(stations)
    contrast = [
        sd * _standard(rng.multivariate_normal(none, covariance, method="cholesky"))
        for sd in CONTRAST_SD
    ]
    angle = 2 * np.pi * np.arange(days)[:, None] / YEAR
    common = MEAN + SEASON * np.cos(angle - 2 * np.pi * PEAK_DAY / YEAR)
    return np.asarray(common + offset + contrast[0] * np.cos(angle) + contrast[1] * np.sin(angle))


def _weather(days: int, covariance: Array, seed: int) -> Array:
    """What `seed` draws: the shared level and the departures of the stations, (days, stations)."""
    rng = np.random.default_rng(seed)
    stations = len(covariance)
    none = np.zeros(stations)
    shocks = rng.multivariate_normal(none, covariance, size=(2, days), method="cholesky")
    # The mean over stations belongs to the shared level; what is left is brought to unit variance.
    shocks -= shocks.mean(axis=-1, keepdims=True)
    shocks /= np.sqrt(1.0 - covariance.mean())
    level = LEVEL_SD * autoregressive(rng.standard_normal((days, 1)), LEVEL_PERSISTENCE)
    fast = np.sqrt(1.0 - SLOW_SHARE) * autoregressive(shocks[0], FAST)
    slow = np.sqrt(SLOW_SHARE) * autoregressive(shocks[1], SLOW)
    departure = DEPARTURE_SD * (fast + slow)
    angle = 2 * np.pi * (np.arange(days)[:, None] - PEAK_DAY) / YEAR
    return np.asarray((1.0 + SUMMER * np.cos(angle)) * (level + departure))


def _standard(values: Array) -> Array:
    """The values with mean 0 and sd 1."""
    return np.asarray((values - values.mean()) / values.std())


PROBLEMS = (
    NamedProblem(
        "ozone-network", ozone_network, "simulated daily ozone at 28 stations", length="days"
    ),
)
