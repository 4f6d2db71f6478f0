"""Regret and coverage of the ensemble on networks of sensors, against simple references.

    python -m benchmarks.networks FOLDER [--seeds 10] [--only NAME ...]

prints the table of the page about the ensemble; FOLDER has the files of ozone and wind. `wind`,
`temperature` and `ozone_of` are also problems for a board, as `--problem
benchmarks.networks:wind:year=1975`, with their files in the folder `data` or another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import heading, line, make_files_parser, select_cases
from tvbandits import compare
from tvbandits.comparison.summary import summarise
from tvbandits.datasets import TableProblem, ozone, sensor_field
from tvbandits.domains.problem import get_added_noise
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.queries.plans import choose_questions

STATES = (
    "Georgia", "North Carolina", "Michigan", "Wisconsin", "Missouri", "Oklahoma", "Tennessee",
    "Kentucky", "Alabama", "Illinois",
)  # fmt: skip
ANSWERS = 3
POLICIES = ("adaptive-gp-ucb", f"frugal-gp-ucb:queries_per_step={ANSWERS}")
COLUMNS = (
    "network", "places", "best fixed", "last step's best", "adaptive, one reading",
    "frugal, three answers", "coverage", "ensemble, all read", "forecast, all read",
)  # fmt: skip


def wind(folder: str = "data", year: int = 1975, last: int | None = None) -> TableProblem:
    """Return daily wind at twelve stations of Ireland (Haslett & Raftery 1989), knots, up to `last`."""
    return sensor_field(
        Path(folder) / "ireland_wind_daily.csv",
        Path(folder) / "ireland_wind_sites.csv",
        noise_variance=0.25,
        start=f"{year}-01-01",
        end=f"{last or year}-12-31",
    )


def temperature(folder: str = "data") -> TableProblem:
    """Return daily temperature of 45 Swedish towns, October to December 2014, degrees Celsius."""
    return sensor_field(
        Path(folder) / "sweden_temperature_daily.csv",
        Path(folder) / "sweden_temperature_sites.csv",
        noise_variance=0.25,
    )


def ozone_of(state: str, folder: str = "data") -> TableProblem:
    """Return daily ozone of the stations of a state, May to September 2021, ppb."""
    return ozone(
        Path(folder) / "daily_44201_2021.zip", state=state, start="2021-05-01", end="2021-09-30"
    )


def play(problem: TableProblem, answers: int, seed: int) -> tuple[float, float]:
    """Return the regret of the best mean, and the coverage of 95% intervals one step ahead.

    After each reward the ensemble gets a number of answers, at places that the plan `next` chooses.
    """
    rng = np.random.default_rng([seed, 7])
    assert problem.noise_variance is not None
    noise = np.sqrt(get_added_noise(problem))
    values, sites = problem.values, len(problem.points)
    ensemble = FilterEnsemble.of(problem.points, problem.noise_variance, both=True)
    count, row = 0, int(rng.integers(sites))
    regret, covered = [], []
    for step, truth in enumerate(values):
        regret.append(truth.max() - truth[row])
        ensemble = ensemble.update([row], truth[[row]] + noise * rng.standard_normal(1), None, step)
        if answers:
            rows = choose_questions(ensemble.joint_posterior(step + 1.0), answers, count)
            count += len(rows)
            readings = truth[rows] + noise * rng.standard_normal(len(rows))
            ensemble = ensemble.update(rows, readings, None, step)
        forecast = ensemble.predict(step + 1.0)
        row = int(forecast.mean.argmax())
        if step + 1 < len(values):
            error = np.abs(values[step + 1] - forecast.mean)
            covered.append((error < 1.96 * forecast.deviation).mean())
    return float(np.mean(regret)), float(np.mean(covered))


def networks(folder: str) -> dict[str, Callable[[], TableProblem]]:
    """Return the makers of the networks by name."""
    whole_year = Path(folder) / "daily_44201_2021.zip"
    new_york = [Path(folder) / f"daily_ozone_{year}.csv" for year in (2008, 2009)]
    return {
        **{state: partial(ozone_of, state, folder) for state in STATES},
        **{f"wind {year}": partial(wind, folder, year) for year in (1965, 1972, 1975)},
        "wind 1961-62": partial(wind, folder, 1961, 1962),
        **{name: partial(ozone, whole_year, state=name) for name in ("Arizona", "Indiana")},
        "New York 2008-09": partial(ozone, new_york),
        "New York, most complete": partial(ozone, new_york, sites=28),
    }


def main() -> None:
    options = make_files_parser(__doc__, seeds=10).parse_args()
    heading(*COLUMNS)
    for name, make in select_cases(networks(options.folder), options.only).items():
        problem = make()
        references, places = problem.references(), len(problem.points)
        summary = summarise(compare([problem], POLICIES, options.seeds))
        half_widths = 1.96 / math.sqrt(options.seeds) * summary["average_regret_sd"]
        adaptive, frugal = (
            f"{mean:.2f} ± {half:.2f}"
            for mean, half in zip(summary["average_regret"], half_widths, strict=True)
        )
        runs = [play(problem, ANSWERS, seed) for seed in range(options.seeds)]
        line(
            f"{name}, {len(problem.values)} days",
            places,
            f"{references.best_fixed:.2f}",
            f"{references.last_best:.2f}",
            adaptive,
            frugal,
            f"{np.mean([covered for _, covered in runs]):.3f}",
            f"{play(problem, places, 0)[0]:.2f}",
            f"{references.all_read:.2f}",
        )


if __name__ == "__main__":
    main()
