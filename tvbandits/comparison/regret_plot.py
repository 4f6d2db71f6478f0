"""Pictures out of the rows of a comparison; readable in grey."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tvbandits.comparison.summary import counted, panels_of
from tvbandits.datasets.tables.references import References
from tvbandits.plots.figure import NotebookFigure
from tvbandits.policies import POLICIES

Dashes: TypeAlias = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class PlotStyle:
    """How one curve is drawn. Dashes, width and marker tell it apart in grey; colour is a help."""

    colour: str
    dashes: Dashes
    width: float
    marker: str
    hollow: bool = False

    @property
    def line(self) -> dict[str, Any]:
        """As matplotlib takes it."""
        # A white edge would hide a marker that is made of lines.
        edge = self.hollow or self.marker not in Line2D.filled_markers
        return {
            "color": self.colour,
            "linestyle": self.dashes,
            "linewidth": self.width,
            "marker": self.marker,
            "markersize": MARKER_SIZES.get(self.marker, 7),
            "markerfacecolor": "white" if self.hollow else self.colour,
            "markeredgecolor": self.colour if edge else "white",
            "markeredgewidth": 1.4 if edge and "$" not in self.marker else 0.6,
        }


MARKER_SIZES = {"*": 11, "X": 9, "P": 8, "d": 9, "<": 8, ">": 8, "8": 7.5}
MARKER_SIZES |= dict.fromkeys(
    (f"${symbol}$" for symbol in (r"\spadesuit", r"\clubsuit", r"\heartsuit", r"\diamondsuit")), 10
)
MARKER_SIZES |= {r"$\infty$": 12, r"$\oplus$": 10} | dict.fromkeys("1234x|", 10)
"""Points, of markers that would look small in the usual 7."""


# Of the policies, in the order of their register: told apart by colour, and by marker alone.
COLOURS = (
    "#767676", "#d55e00", "#0072b2", "#00805d", "#b8478d", "#7f6000", "#3a86c8", "#000000",
    "#294e66", "#333314", "#662514", "#7e30f2", "#a0522d", "#38418c", "#66701f", "#d92b4e", "#5d24b2",
    "#a11d1d", "#4d7c0f", "#59513e", "#442459", "#a65642", "#125920", "#bc29cc",
    "#811c8c", "#80465d", "#2121a6", "#795ba6", "#3057f2",
)  # fmt: skip


MARKERS = (
    "o", "s", "D", "^", "v", "P", "*", "X", "8", "h", "<", ">", r"$\odot$", "p", r"$\otimes$", "d", "|",
    r"$\spadesuit$", r"$\infty$", "H", "4", "x", "3", "1", "2", r"$\clubsuit$",
    r"$\heartsuit$", r"$\diamondsuit$", r"$\oplus$",
)  # fmt: skip


DASHES: tuple[Dashes, ...] = ("-", "--", "-.", (0, (1, 1)), (0, (9, 2)))


# Far from the colours of all names and from each other; no more than two of 36 share one.
FREE_COLOURS = (
    "#197580", "#991f5c", "#9b52cc", "#5b7350", "#661445", "#2654bf",
    "#d92b82", "#0f4c40", "#6457d9", "#4c3643", "#a530f2", "#6b7099",
    "#421980", "#cc29ab", "#143566", "#5e5073", "#532ee5", "#62388c",
)  # fmt: skip


FREE_DASHES: tuple[Dashes, ...] = tuple(
    (0, on_off) for on_off in ((7, 3), (3, 3, 1, 3), (12, 2, 1, 2), (5, 2, 1, 1, 1, 2))
)


# For a second setting of a policy, and for policies of one's own: dashes that no name has.
FREE_MARKERS = "osD^vP*X<"


# Letters of a name in the legend.
LONGEST_NAME = 40


# Inches: a panel is at least so high, and higher where its legend needs the room.
PANEL_HEIGHT, LABEL_HEIGHT = 4.8, 0.25


# Below the picture, where there is more than one seed.
BAND = "Curve: mean over the seeds. Band: one standard deviation to either side."


REFERENCE_NAMES = {
    "uniform": "uniform choice",
    "best_fixed": "best fixed point",
    "last_best": "last step's best point",
    "all_read": "forecast with all read",
}

# Thin and black: they differ by their dashes, in points.
REFERENCE_DASHES = {
    "uniform": (1, 6),
    "best_fixed": (1, 3),
    "last_best": (6, 3),
    "all_read": (6, 3, 1, 3),
}


def regret_figure(
    rows: pd.DataFrame,
    references: Mapping[str, References] | None = None,
    units: Mapping[str, str] | None = None,
) -> NotebookFigure:
    """Average regret R_t / t against t: mean over seeds and a band of one deviation.

    One panel a problem, or one a problem and width where a policy has several. The legend names the
    curves from above to below, as they end; a policy has the same style in every picture.

    Parameters
    ----------
    rows : DataFrame
        The rows of `tvbandits.comparison.compare.compare`.
    references : mapping of problem to References, optional
        Drawn as thin horizontal lines.
    units : mapping of problem to str, optional
        Unit of the reward.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits import compare
    >>> from tvbandits.comparison.regret_plot import regret_figure
    >>> from tvbandits.datasets import DriftingBump
    >>> problem = DriftingBump(candidates=51, horizon=20)
    >>> rows = pd.DataFrame(compare(problem, ["uniform", "eps-greedy"], seeds=2))
    >>> regret_figure(rows).savefig("regret.png")
    """
    panels = panels_of(rows)
    styles = styles_of(rows["policy"].unique())
    labels = max(group["policy"].nunique() for _, _, group in panels) + len(REFERENCE_NAMES)
    height = max(PANEL_HEIGHT, LABEL_HEIGHT * labels)
    figure = NotebookFigure((9.6, height * len(panels)))
    for i, (problem, width, group) in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, i + 1)
        unit = (units or {}).get(problem, "")
        _draw_panel(axes, group, (references or {}).get(problem), styles)
        width = "width of the theorem" if width == "width theory" else width
        seeds = counted(group.groupby("policy")["seed"].nunique(), "seed")
        title = textwrap.fill(f"{problem}, {width}, {seeds}", 80)
        axes.set_title(title, loc="left", parse_math=False)
        axes.set_xlabel("step t")
        escaped = f" [{unit}]".replace("$", r"\$") if unit else ""
        axes.set_ylabel(f"average regret $R_t / t${escaped}")
    if rows["seed"].nunique() > 1:
        figure.supxlabel(BAND, x=0.01, horizontalalignment="left", fontsize=9)
    return figure


def styles_of(policies: Iterable[str]) -> dict[str, PlotStyle]:
    """A style for each policy: that of its name, or the next free one.

    Of several settings of one policy ("name:window=40", "name:window=80"), the plain name has the
    style, or else the first of them.
    """
    found: dict[str, PlotStyle] = {}
    names = [str(policy) for policy in policies]
    known = dict(zip(POLICIES, zip(COLOURS, MARKERS, strict=True), strict=False))
    for policy in sorted(names, key=lambda name: ":" in name):
        name = policy.partition(":")[0]
        if name in known:
            colour, marker = known.pop(name)
            dashes = DASHES[COLOURS.index(colour) % len(DASHES)]
            found[policy] = PlotStyle(colour, dashes, 1.8, marker)
    others = [policy for policy in names if policy not in found]
    return found | {policy: _free_style(i) for i, policy in enumerate(others)}


def _free_style(i: int) -> PlotStyle:
    """The i-th style that belongs to no name."""
    period = len(FREE_DASHES) * len(FREE_MARKERS)
    return PlotStyle(
        FREE_COLOURS[i % len(FREE_COLOURS)],
        FREE_DASHES[i % len(FREE_DASHES)],
        1.8 + 0.4 * (i // period),
        FREE_MARKERS[i % len(FREE_MARKERS)],
        hollow=True,
    )


def _draw_panel(
    axes: Axes, group: pd.DataFrame, references: References | None, styles: Mapping[str, PlotStyle]
) -> None:
    ends: list[tuple[float, Line2D]] = []
    count = group["policy"].nunique()
    for i, (policy, rows) in enumerate(group.groupby("policy", sort=False)):
        style = styles[str(policy)]
        by_seed = rows.pivot_table(index="t", columns="seed", values="average_regret")
        t, mean = by_seed.index.to_numpy(), by_seed.mean(axis=1).to_numpy()
        spread = by_seed.std(axis=1, ddof=1).fillna(0.0).to_numpy()
        (curve,) = axes.plot(
            t, mean, label=_short(str(policy)), markevery=_marks(len(t), i, count), **style.line
        )
        axes.fill_between(
            t, mean - spread, mean + spread, color=style.colour, alpha=0.12, linewidth=0
        )
        ends.append((float(mean[-1]), curve))
    axes.set_xlim(0, int(group["t"].max()))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    named = {} if references is None else references._asdict()
    # One that is played itself would lie on its own curve.
    shown = {name: named[name] for name in named if name not in set(group["policy"])}
    _limit(axes, group, shown.values())
    for name, value in shown.items():
        line = axes.axhline(
            value,
            label=REFERENCE_NAMES[name],
            color="black",
            linewidth=0.7,
            linestyle=(0, REFERENCE_DASHES[name]),
        )
        ends.append((value, line))
    # From above to below, as the curves end.
    by_height = [line for _, line in sorted(ends, key=lambda end: -end[0])]
    legend = axes.legend(
        handles=by_height, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
        fontsize=9, handlelength=3.0,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.3)


def _marks(n: int, i: int, count: int) -> tuple[int, int]:
    """Where markers of the i-th of `count` curves stand: they do not cover each other."""
    every = max(n // 8, 1)
    return (i * every // count + every // (2 * count)) % max(n, 1), every


def _limit(axes: Axes, group: pd.DataFrame, references: Iterable[float]) -> None:
    """Leave the first few steps, where averages jump, out of the choice of limits."""
    late = group[group["t"] > max(int(group["t"].max()) // 20, 1)]
    curves = (late if len(late) else group).groupby(["policy", "t"])["average_regret"].mean()
    # Below 0 lies regret against a best that is not the best of all, as of some problem of one's own.
    shown = [0.0, *curves.dropna(), *references]
    low, high = 1.12 * min(shown), 1.12 * max(shown)
    axes.set_ylim(low, high if high > low else 1.0)


def _short(name: str) -> str:
    """A name that leaves room for the curves: a long one without its middle."""
    kept = LONGEST_NAME - 1
    return name if len(name) <= LONGEST_NAME else f"{name[: kept - 12]}…{name[-12:]}"
