"""The ozone benchmark: find the highest ozone of a state, day by day, by asking four of its 28 sensors.

A decision rests on what was asked the day before: on the map, today's levels are the colours, and the
rings the sites that were asked yesterday.

Give EPA files to use real levels, or fetch them first:

    tvbandits data fetch ozone --years 2008 2009 --state "New York"
    python examples/03_ozone_sensors.py FILE...

Without files a simulated network stands in. The sensors are a stub in this process: it replays the
levels with noise, and loses one answer in ten. `tvbandits.experts.sensors.mqtt` asks real ones
in the same way.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tvbandits import policies
from tvbandits.comparison.sensor_map import MapSnapshot, sensor_map
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.datasets import TableProblem, ozone, ozone_network
from tvbandits.experts.sensors.expert import SensorExpert, stations_at
from tvbandits.experts.sensors.stub import Faults, StubTransport

HERE = Path(__file__).resolve().parent
DAYS, WEEK, ASKED = 240, 7, 4


def network(files: Sequence[str | Path]) -> TableProblem:
    """Real levels where there are files, simulated ones otherwise."""
    return ozone(files, sites=28) if files else ozone_network()


def main(out: Path = HERE, files: Sequence[str | Path] = ()) -> float:
    problem = network(files)
    print(problem)
    points, days = problem.points, min(DAYS, problem.horizon)
    sensors = SensorExpert(
        stations_at(points, problem.labels, noise_variance=1.0),
        StubTransport(
            problem.values,
            problem.labels,
            noise_variance=1.0,
            faults=Faults(loss=0.1),
        ),
        cost=1.0,  # a reading
    )
    bandit = policies.frugal_gp_ucb(
        problem.domain, None, problem.noise_variance, expert=sensors, budget=ASKED
    )
    missed, week = [], []
    for day in range(1, days + 1):
        answers = bandit.state.answers
        asked = problem.domain.index(answers.X[answers.t == day - 1])
        site = bandit.ask(day)
        level = problem.value(site, day)
        bandit.tell(site, level + keyed_normal(0, 1, site, day), day)
        missed.append(problem.best(day) - level[0])
        if day > days - WEEK:
            chosen = int(problem.domain.index(site)[0])
            week.append(MapSnapshot(f"day {day}", problem.values[day - 1], asked, chosen))
    info = bandit.info
    uniform = problem.values[:days].max(axis=1).mean() - problem.values[:days].mean()
    print(
        f"asked {info.queries.total_asked} readings, got {info.queries.total_answered}; in {days} days "
        f"{np.mean(missed):.2f} {problem.unit} a day below the best site, {uniform:.2f} by chance"
    )
    sensor_map(points, week, unit=problem.unit).savefig(out / "03_ozone_sensors.png", dpi=110)
    return float(np.mean(missed))


if __name__ == "__main__":
    main(files=sys.argv[1:])
