"""Pictures out of the rows of a comparison; readable in grey."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tvbandits.observations import Array
from tvbandits.references import References

# Colours are a help, not the carrier: dashes, widths and markers tell the curves apart in grey.
STYLES = [
    ("#999999", "-", 1.4),
    ("#d55e00", "-", 1.8),
    ("#0072b2", "--", 1.8),
    ("#009e73", "-.", 1.8),
    ("#cc79a7", ":", 2.4),
    ("#7f6000", (0, (6, 1, 1, 1, 1, 1)), 1.8),
    ("#3a86c8", (0, (3, 1)), 2.2),
    ("#111111", "-", 2.8),
]
MARKERS = "osD^vP*X"
LONGEST_NAME = 40
"""Letters at the end of a curve."""

REFERENCE_NAMES = {
    "uniform": "uniform choice",
    "best_fixed": "best fixed point",
    "last_best": "last step's best point",
}


def regret_figure(
    rows: pd.DataFrame,
    references: Mapping[str, References] | None = None,
    units: Mapping[str, str] | None = None,
    *,
    bound: bool = False,
) -> Figure:
    """Average regret R_t / t against t: mean over seeds and a band of one deviation.

    One panel a problem and confidence width. The mean curves end in the name of their policy.

    Parameters
    ----------
    rows : DataFrame
        The rows of `tvbandits.compare.compare`.
    references : mapping of problem to References, optional
        Drawn as thin horizontal lines.
    units : mapping of problem to str, optional
        Unit of the reward.
    bound : bool
        Draw the bound of SparQ-GP-UCB's theorem for the policies that ask an expert.
    """
    panels = list(rows.groupby(["problem", "confidence"], sort=False))
    figure = Figure(figsize=(9.0, 4.8 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    for i, ((problem, confidence), group) in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, i + 1)
        unit = (units or {}).get(str(problem), "")
        _draw_panel(axes, group, (references or {}).get(str(problem)), bound=bound)
        width = f"width {confidence}" if confidence != "theory" else "width of the theorem"
        seeds = group["seed"].nunique()
        title = f"{problem}, {width}, {seeds} seed{'s' if seeds > 1 else ''}"
        axes.set_title(textwrap.fill(title, 80), loc="left", parse_math=False)
        axes.set_xlabel("step t")
        escaped = unit.replace("$", r"\$")
        axes.set_ylabel(
            f"average regret $R_t / t$ [{escaped}]" if unit else "average regret $R_t / t$"
        )
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=130)


def _draw_panel(
    axes: Axes, group: pd.DataFrame, references: References | None, *, bound: bool
) -> None:
    ends: list[tuple[float, str, str]] = []
    horizon = int(group["t"].max())
    for i, (policy, rows) in enumerate(group.groupby("policy", sort=False)):
        colour, dashes, width = STYLES[i % len(STYLES)]
        by_seed = rows.pivot_table(index="t", columns="seed", values="average_regret")
        t, mean = by_seed.index.to_numpy(), by_seed.mean(axis=1).to_numpy()
        spread = by_seed.std(axis=1, ddof=1).fillna(0.0).to_numpy()
        axes.plot(
            t,
            mean,
            color=colour,
            linestyle=dashes,
            linewidth=width,
            # Beyond eight policies another marker meets the same dashes and width.
            marker=MARKERS[(i + i // len(STYLES)) % len(MARKERS)],
            markersize=5,
            markevery=_marks(len(t), i),
        )
        axes.fill_between(t, mean - spread, mean + spread, color=colour, alpha=0.12, linewidth=0)
        ends.append((float(mean[-1]), str(policy), colour))
        if bound and rows["queries"].sum() > 0:
            drawn = rows.groupby("t")["bound"].mean().dropna()
            # Before the second step there is nothing to bound: the width has seen no data.
            drawn = drawn[drawn.index >= 2]
            if len(drawn):
                axes.plot(drawn.index, drawn, color="black", linewidth=1.0)
                ends.append((float(drawn.iloc[-1]), f"bound for {policy}", "black"))
    axes.set_xlim(0, horizon)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    shown = _references_beside(references, set(group["policy"]))
    _limit(axes, group, shown.values(), bound=bound)
    low, high = axes.get_ylim()
    for name, value in shown.items():
        if low <= value <= high:
            axes.axhline(value, color="black", linewidth=0.7, linestyle=(0, (1, 3)))
            ends.append((value, REFERENCE_NAMES[name], "#444444"))
    _label_ends(axes, ends)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.3)


def _references_beside(references: References | None, played: set[str]) -> dict[str, float]:
    """References by name, but for one that is played itself: it would lie on its own curve."""
    found = {} if references is None else references._asdict()
    return {name: float(value) for name, value in found.items() if name not in played}


def _marks(n: int, i: int) -> tuple[int, int]:
    """Where markers stand: staggered, so that they do not cover each other."""
    every = max(n // 8, 1)
    return (i * every // 8 + every // 2) % max(n, 1), every


def _limit(axes: Axes, group: pd.DataFrame, references: Iterable[float], *, bound: bool) -> None:
    """Leave the first few steps, where averages jump, out of the choice of limits."""
    late = group[group["t"] > max(int(group["t"].max()) // 20, 1)]
    curves = (late if len(late) else group).groupby(["policy", "t"])["average_regret"].mean()
    positive = curves[curves > 0]
    asked = group[(group["queries"] > 0) & group["bound"].notna()]
    ends = [float(asked.loc[asked["t"] == asked["t"].max(), "bound"].mean())] if len(asked) else []
    if bound and len(positive):
        axes.set_yscale("log")
        low, high = float(positive.min()), float(positive.max())
        axes.set_ylim(low / 1.5, max(high, *(3 * end for end in ends), 0.0) * 1.3)
    else:
        highest = max([*positive, *references, *(ends if bound else [])], default=0.0)
        axes.set_ylim(0, float(highest) * 1.12 or 1.0)


def _label_ends(axes: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Write names right of the picture, pushed apart where curves end close together."""
    low, high = axes.get_ylim()
    logarithmic = axes.get_yscale() == "log"
    heights = np.array([value for value, _, _ in ends])
    if logarithmic:
        place = np.log(np.maximum(heights, low) / low) / np.log(high / low)
    else:
        place = (heights - low) / (high - low)
    for (_, name, colour), at, true in zip(ends, _apart(place, 0.052), place, strict=True):
        axes.annotate(
            _short(name),
            xy=(1.0, float(np.clip(true, 0, 1))),
            xytext=(1.03, at),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkA": 1,
                "relpos": (0.0, 0.5),
            },
        )


def _short(name: str) -> str:
    """A name that leaves room for the curves: a long one without its middle."""
    kept = LONGEST_NAME - 1
    return name if len(name) <= LONGEST_NAME else f"{name[: kept - 12]}…{name[-12:]}"


def _apart(places: Array, gap: float) -> Array:
    """The nearest places in [0, 1], in the same order, that are at least `gap` from each other.

    Where [0, 1] has no room for that they stand around its middle.
    """
    order = np.argsort(places, kind="stable")
    wanted = np.clip(places[order], 0.0, 1.0) - gap * np.arange(len(places))
    # Pool adjacent violators: isotonic regression of the places less the room they need.
    blocks: list[list[float]] = []
    for value in wanted:
        blocks.append([float(value), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, count = blocks.pop()
            blocks[-1] = [
                (blocks[-1][0] * blocks[-1][1] + mean * count) / (blocks[-1][1] + count),
                blocks[-1][1] + count,
            ]
    spaced = np.concatenate([np.full(int(count), mean) for mean, count in blocks])
    room = 1.0 - gap * (len(places) - 1)
    spaced = np.clip(spaced, 0.0, room) if room > 0 else np.full(len(places), room / 2)
    placed = np.empty(len(places))
    placed[order] = spaced + gap * np.arange(len(places))
    return placed
