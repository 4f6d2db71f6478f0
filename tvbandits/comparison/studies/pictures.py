"""Pictures of a board: mean ranks with the critical difference, and performance profiles."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tvbandits.comparison.regret_plot import styles_of
from tvbandits.comparison.studies.metrics import Ranks

GREY = "#444444"


def rank_figure(found: Ranks) -> Figure:
    """Mean ranks as points, best on top; the bar is the critical difference from the best one."""
    n = len(found.mean)
    figure = Figure(figsize=(8.0, 1.4 + 0.28 * n), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(n)
    axes.plot(found.mean.to_numpy(), places, "o", color=GREY, markersize=6)
    if not math.isnan(found.critical_difference) and n:
        best = float(found.mean.iloc[0])
        axes.axvspan(best, best + found.critical_difference, color="#dddddd", zorder=0)
        axes.set_title(
            f"not different from the best at the 5% level: within {found.critical_difference:.2f} "
            "(grey)",
            fontsize=9,
        )
    axes.set_yticks(list(places), [str(name) for name in found.mean.index], fontsize=9)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#cccccc", linewidth=0.6)
    axes.set_xlabel(f"mean rank over {found.problems} problems (1 is best)")
    return figure


def profile_figure(shares: pd.DataFrame) -> Figure:
    """Share of problems within a factor of the best policy's regret, a line a policy."""
    figure = Figure(figsize=(9.0, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    styles = styles_of([str(name) for name in shares.columns])
    every = max(len(shares) // 6, 1)
    for i, name in enumerate(shares.columns):
        look = styles[str(name)]
        axes.step(
            shares.index,
            shares[name],
            where="post",
            color=look.colour,
            linestyle=look.dashes,
            linewidth=look.width,
            marker=look.marker,
            markevery=(i % every, every),
            markersize=6,
            label=str(name),
        )
    axes.set_xscale("log")
    ticks = [1, 1.5, 2, 3, 5, 10]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("factor of the best policy's average regret")
    axes.set_ylabel("share of problems")
    axes.set_ylim(-0.02, 1.02)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return figure
