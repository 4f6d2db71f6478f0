"""Made networks of stations with a day: what the benchmarks of it share."""

from __future__ import annotations

import numpy as np

from tvbandits.datasets import TableProblem

HOURS = 24


def day_network(
    seed: int,
    *,
    stations: int = 12,
    days: int = 10,
    day: float = 15.0,
    offsets: float = 5.0,
    weather: float = 4.0,
    lasts: float = 8.0,
    phases: float = 0.0,
    noise_variance: float = 4.0,
) -> TableProblem:
    """Hourly means at stations: a level, offsets, a day, weather that comes and goes.

    Parameters
    ----------
    seed : int
    stations, days : int
    day : float
        Amplitude of the day, which has its peak in the afternoon and a second harmonic.
    offsets, weather : float
        Deviations of the stations' own levels, and of weather, which resembles that of neighbours.
    lasts : float
        Hours in which the correlation of weather falls to 1/e.
    phases : float
        Deviation, in hours, of the hour at which each station's day has its peak; 0: a shared day.
    noise_variance : float
    """
    rng = np.random.default_rng([seed, stations])
    points = rng.uniform(0.0, 30.0, (stations, 2))
    hours = np.arange(HOURS * days)[:, None]
    angle = 2.0 * np.pi * (hours - 15.0 - phases * rng.standard_normal(stations)) / HOURS
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    root = np.linalg.cholesky(np.exp(-apart / 10.0))
    kept = np.exp(-1.0 / lasts)
    blown = [root @ rng.standard_normal(stations)]
    for _ in hours[1:]:
        fresh = root @ rng.standard_normal(stations)
        blown.append(kept * blown[-1] + np.sqrt(1.0 - kept**2) * fresh)
    level = 40.0 + offsets * rng.standard_normal(stations) + weather * np.array(blown)
    values = level + day * (np.cos(angle) + 0.3 * np.cos(2.0 * angle))
    return TableProblem(values, points, "day network", "ug/m3", noise_variance=noise_variance)
