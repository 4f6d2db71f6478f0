"""The ozone benchmark: find the highest ozone of a state every day, with queries to four of 28 sensors.

A decision uses the answers of the day before. On the maps the colours are the levels of the day, and
rings mark the sites that the policy queried the day before.

To use real levels, download the EPA's files and give their paths:

    tvbandits data fetch ozone --years 2008 2009 --state "New York"
    python examples/03_ozone_sensors.py FILE...

Without files the script simulates a network. The sensors are a stub in this process, which replays the
levels with noise, and loses one answer in ten. `tvbandits.experts.sensors.mqtt` queries real sensors in
the same way.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tvbandits import policies
from tvbandits.datasets import TableProblem, ozone, ozone_network
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.experts.sensors.expert import SensorExpert, stations_at
from tvbandits.experts.sensors.stub import Faults, StubTransport

HERE = Path(__file__).resolve().parent
DAYS, WEEK, QUERIES = 240, 7, 4


def load_network(files: Sequence[str | Path]) -> TableProblem:
    """Return the levels in files, or simulated levels without files."""
    return ozone(files, sites=28) if files else ozone_network()


def draw_maps(problem: TableProblem, week: list[tuple[int, np.ndarray, int]]) -> Figure:
    """Draw a map for each day, with levels, and the sites that are queried, chosen and best."""
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    grid = figure.subplots(2, 4, sharex=True, sharey=True)
    east, north = problem.points.T
    week_levels = problem.values[[day - 1 for day, _, _ in week]]
    colours = ScalarMappable(Normalize(week_levels.min(), week_levels.max()), "viridis")
    for axes, (day, queries, choice) in zip(grid.flat, week, strict=False):
        levels = problem.values[day - 1]
        best = int(np.argmax(levels))
        axes.scatter(east, north, 60, colours.to_rgba(levels), edgecolors="0.35", label="site")
        axes.scatter(
            east[queries],
            north[queries],
            190,
            facecolors="none",
            edgecolors="black",
            label="queried the day before",
        )
        mark = {"markerfacecolor": "none", "markeredgecolor": "#b00020", "markeredgewidth": 2.0}
        axes.plot(east[choice], north[choice], "s", markersize=15, label="chosen", **mark)
        axes.plot(
            east[best], north[best], "*", markersize=11, color="white", mec="black", label="best"
        )
        axes.set_title(f"day {day}: regret {levels[best] - levels[choice]:.1f} {problem.unit}")
        axes.set_aspect("equal")
    for axes in grid.flat[len(week) :]:
        axes.set_axis_off()
        axes.legend(*grid.flat[0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.supxlabel("east (km)")
    figure.supylabel("north (km)")
    figure.colorbar(colours, ax=grid, label=f"level ({problem.unit})")
    return figure


def main(folder: Path = HERE, files: Sequence[str | Path] = ()) -> float:
    problem = load_network(files)
    print(problem)
    points, days = problem.points, min(DAYS, problem.horizon)
    sensors = SensorExpert(
        stations_at(points, problem.labels, noise_variance=1.0),
        StubTransport(problem.values, problem.labels, noise_variance=1.0, faults=Faults(loss=0.1)),
        cost=1.0,  # of each query to a station
    )
    bandit = policies.frugal_gp_ucb(
        problem.domain,
        noise_variance=problem.noise_variance,
        expert=sensors,
        queries_per_step=QUERIES,
    )
    regret, week = [], []
    for day in range(1, days + 1):
        answers = bandit.state.answers
        queries = problem.domain.index(answers.X[answers.t == day - 1])
        site = bandit.ask(day)
        level = problem.value(site, day)
        bandit.tell(site, level + keyed_normal(0, 1, site, day), day)
        regret.append(problem.best(day) - level[0])
        if day > days - WEEK:
            week.append((day, queries, int(problem.domain.index(site)[0])))
    info = bandit.info
    uniform = problem.values[:days].max(axis=1).mean() - problem.values[:days].mean()
    print(
        f"{info.queries.total_asked} queries, {info.queries.total_answered} answers in {days} days; "
        f"average regret {np.mean(regret):.2f} {problem.unit}, of uniform choice {uniform:.2f}"
    )
    draw_maps(problem, week).savefig(folder / "03_ozone_sensors.png", dpi=110)
    return float(np.mean(regret))


if __name__ == "__main__":
    main(files=sys.argv[1:])
