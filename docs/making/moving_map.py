"""The moving picture of the first page: `python docs/making/moving_map.py FILE ...`, of daily ozone.

Forty days of the network: the levels of a day, the sites that were asked before, and the choice.
Without files the network is a simulated one.
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


def played(problem: object) -> list[tuple[int, np.ndarray, int, float]]:
    """Day, rows that were asked for it, row that was chosen, and the mean regret until then."""
    bandit = policies.frugal_gp_ucb(
        problem.domain,
        noise_variance=problem.noise_variance,
        expert=SimulatorExpert(problem),
        queries_per_step=BUDGET,
    )
    days, lost = [], 0.0
    for day in range(1, FIRST + DAYS):
        site = bandit.ask(day)
        answers = bandit.state.answers
        asked = problem.domain.index(answers.X[answers.t == answers.t.max(initial=0.0)])
        level = problem.value(site, day)
        bandit.tell(site, level + keyed_normal(0, 1, site, day), day)
        lost += problem.best(day) - float(level[0])
        days.append((day, asked, int(problem.domain.index(site)[0]), lost / day))
    return days[FIRST - 1 :]


def main(files: Sequence[str] = (), out: Path = DOCS) -> None:
    """Play, and draw a frame for each day."""
    problem = ozone(files, sites=28) if files else ozone_network()
    frames = played(problem)
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    axes = figure.subplots()
    east, north = problem.points.T
    shown = problem.values[[day - 1 for day, *_ in frames]]
    colours = ScalarMappable(Normalize(shown.min(), shown.max()), "viridis")
    figure.colorbar(colours, ax=axes, label=f"ozone ({problem.unit})")

    def draw(frame: tuple[int, np.ndarray, int, float]) -> None:
        day, asked, chosen, lost = frame
        levels = problem.values[day - 1]
        best = int(np.argmax(levels))
        axes.clear()
        axes.scatter(east, north, 70, colours.to_rgba(levels), edgecolors="0.35", label="site")
        axes.scatter(
            east[asked], north[asked], 200, facecolors="none", edgecolors="black", label="asked"
        )
        mark = {"markerfacecolor": "none", "markeredgecolor": "#b00020", "markeredgewidth": 2.0}
        axes.plot(east[chosen], north[chosen], "s", markersize=15, label="chosen", **mark)
        axes.plot(
            east[best], north[best], "*", markersize=11, color="white", mec="black", label="best"
        )
        axes.set(xlabel="east (km)", ylabel="north (km)", aspect="equal")
        axes.set_title(
            f"day {day}: {lost:.1f} {problem.unit} a day below the best site so far", size=10
        )
        axes.legend(loc="upper left", frameon=False, fontsize=8, labelspacing=1.1)

    moving = FuncAnimation(figure, draw, frames=frames, init_func=lambda: None)
    moving.save(out / "ozone-days.gif", PillowWriter(fps=2), dpi=90)


if __name__ == "__main__":
    main(sys.argv[1:])
