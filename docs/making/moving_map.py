"""Draw the animation of the first page: `python docs/making/moving_map.py FILE ...`, of daily ozone.

A frame shows the levels of a day, the sites that the policy asked about before, and its choice. Without
files the network is simulated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tvbandits import policies
from tvbandits.datasets import ozone, ozone_network
from tvbandits.experts import SimulatorExpert
from tvbandits.experts.keyed_noise import keyed_normal

DOCS = Path(__file__).resolve().parents[1]
FIRST, DAYS, BUDGET = 180, 40, 3


def play(problem: object) -> list[tuple[int, np.ndarray, int, float]]:
    """Play a network, and return a frame for each of its last `DAYS` days.

    A frame has the day, the rows of the sites that the policy asked about, the row of its choice, and
    the mean regret so far.
    """
    bandit = policies.frugal_gp_ucb(
        problem.domain,
        noise_variance=problem.noise_variance,
        expert=SimulatorExpert(problem),
        queries_per_step=BUDGET,
    )
    frames, regret = [], 0.0
    for day in range(1, FIRST + DAYS):
        site = bandit.ask(day)
        answers = bandit.state.answers
        queries = problem.domain.index(answers.X[answers.t == answers.t.max(initial=0.0)])
        level = problem.value(site, day)
        bandit.tell(site, level + keyed_normal(0, 1, site, day), day)
        regret += problem.best(day) - float(level[0])
        frames.append((day, queries, int(problem.domain.index(site)[0]), regret / day))
    return frames[FIRST - 1 :]


def main(files: Sequence[str] = (), out: Path = DOCS) -> None:
    """Play, and draw a frame for each day."""
    problem = ozone(files, sites=28) if files else ozone_network()
    frames = play(problem)
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    axes = figure.subplots()
    east, north = problem.points.T
    levels_of_all = problem.values[[day - 1 for day, *_ in frames]]
    colours = ScalarMappable(Normalize(levels_of_all.min(), levels_of_all.max()), "viridis")
    figure.colorbar(colours, ax=axes, label=f"ozone ({problem.unit})")

    def draw(frame: tuple[int, np.ndarray, int, float]) -> None:
        day, queries, choice, regret = frame
        levels = problem.values[day - 1]
        best = int(np.argmax(levels))
        axes.clear()
        axes.scatter(east, north, 70, colours.to_rgba(levels), edgecolors="0.35", label="site")
        axes.scatter(
            east[queries], north[queries], 200, facecolors="none", edgecolors="black", label="asked"
        )
        mark = {"markerfacecolor": "none", "markeredgecolor": "#b00020", "markeredgewidth": 2.0}
        axes.plot(east[choice], north[choice], "s", markersize=15, label="chosen", **mark)
        axes.plot(
            east[best], north[best], "*", markersize=11, color="white", mec="black", label="best"
        )
        axes.set(xlabel="east (km)", ylabel="north (km)", aspect="equal")
        axes.set_title(
            f"day {day}: {regret:.1f} {problem.unit} a day below the best site so far", size=10
        )
        axes.legend(loc="upper left", frameon=False, fontsize=8, labelspacing=1.1)

    animation = FuncAnimation(figure, draw, frames=frames, init_func=lambda: None)
    animation.save(out / "ozone-days.gif", PillowWriter(fps=2), dpi=90)


if __name__ == "__main__":
    main(sys.argv[1:])
