"""An ensemble on networks of sensors: regret, coverage and time, beside players without a model.

    python -m benchmarks.networks VALUES SITES --noise-variance V [--answers B] [--seeds N]

VALUES and SITES are tables as `tvbandits.datasets.sensor_field` reads them. `wind`, `temperature` and
`ozone_of` are problems for a board, `--problem benchmarks.networks:wind:year=1975`: their files are in
the folder `data`, or another one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.core.protocols import added_noise
from tvbandits.datasets import TableProblem, ozone, sensor_field
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.queries.plans import questions


def wind(folder: str = "data", year: int = 1975) -> TableProblem:
    """Daily means of twelve stations of Ireland (Haslett & Raftery 1989), knots."""
    return sensor_field(
        Path(folder) / "ireland_wind_daily.csv",
        Path(folder) / "ireland_wind_sites.csv",
        noise_variance=0.25,
        start=f"{year}-01-01",
        end=f"{year}-12-31",
    )


def temperature(folder: str = "data") -> TableProblem:
    """Daily means of 45 Swedish towns, October to December 2014, degrees Celsius."""
    return sensor_field(
        Path(folder) / "sweden_temperature_daily.csv",
        Path(folder) / "sweden_temperature_sites.csv",
        noise_variance=0.25,
    )


def ozone_of(state: str, folder: str = "data") -> TableProblem:
    """Daily ozone of the stations of a state, May to September 2021, ppb."""
    return ozone(
        Path(folder) / "daily_44201_2021.zip", state=state, start="2021-05-01", end="2021-09-30"
    )


class Played(NamedTuple):
    """Regret of each step, whether 95% intervals one step ahead held, and seconds of each step."""

    regret: Array
    covered: Array
    seconds: Array


def play(problem: TableProblem, answers: int, seed: int) -> Played:
    """Play the best mean; after each reward ask about so many places, as the plan `next` does."""
    rng = np.random.default_rng([seed, 7])
    assert problem.noise_variance is not None
    noise = np.sqrt(added_noise(problem))
    values, sites = problem.values, len(problem.points)
    ensemble = FilterEnsemble.of(problem.points, problem.noise_variance, both=True)
    asked, row = 0, int(rng.integers(sites))
    regret, covered, seconds = [], [], []
    for step, truth in enumerate(values):
        regret.append(truth.max() - truth[row])
        begun = time.perf_counter()
        ensemble = ensemble.observe(
            [row], truth[[row]] + noise * rng.standard_normal(1), None, step
        )
        if answers:
            rows = questions(ensemble.beliefs(step + 1.0), answers, asked)
            asked += len(rows)
            told = truth[rows] + noise * rng.standard_normal(len(rows))
            ensemble = ensemble.observe(rows, told, None, step)
        forecast = ensemble.predict(step + 1.0)
        row = int(forecast.mean.argmax())
        seconds.append(time.perf_counter() - begun)
        if step + 1 < len(values):
            off = np.abs(values[step + 1] - forecast.mean)
            covered.append((off < 1.96 * forecast.deviation).mean())
    return Played(np.array(regret), np.array(covered), np.array(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks", description=__doc__)
    parser.add_argument("values")
    parser.add_argument("sites")
    parser.add_argument("--noise-variance", type=float, required=True)
    parser.add_argument("--answers", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    problem = sensor_field(given.values, given.sites, noise_variance=given.noise_variance)
    known = problem.references()
    print(problem)
    print(f"uniform {known.uniform:.3f}, best fixed {known.best_fixed:.3f}")
    print(f"last step's best {known.last_best:.3f}, forecast with all read {known.all_read:.3f}")
    for answers, seeds in ((given.answers, given.seeds), (len(problem.points), 1)):
        runs = [play(problem, answers, seed) for seed in range(seeds)]
        means = np.array([run.regret.mean() for run in runs])
        half = 1.96 * means.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
        coverage = np.mean([run.covered.mean() for run in runs])
        slow = 1e3 * np.median(np.concatenate([run.seconds for run in runs]))
        print(
            f"ensemble, {answers} answers a step: {means.mean():.3f} +- {half:.3f}, "
            f"coverage {coverage:.3f}, {slow:.1f} ms a step"
        )


if __name__ == "__main__":
    main()
