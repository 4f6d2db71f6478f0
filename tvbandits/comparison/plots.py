"""Pictures of a bandit's posterior and of the results of comparisons, which can be read in grey, too.

Every function returns a figure without a window, which a notebook displays and a script can save. With
`ax`, a function whose picture has one panel draws into these axes of yours, and returns them. Colours
follow the style of matplotlib: on a dark background (`dark_background`) they are light.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, overload

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from tvbandits.comparison.belief_plots import beliefs as beliefs
from tvbandits.comparison.figures import (
    BESIDE,
    WITHIN,
    NotebookFigure as NotebookFigure,
    Place,
    check_axes,
    label_of,
)
from tvbandits.comparison.frontier import PAPER, WITHOUT, frontier_table
from tvbandits.comparison.summary import Panel, Ranks, count_text, panels_of
from tvbandits.datasets.tables.references import References
from tvbandits.policies.registry import POLICIES
from tvbandits.queries.plans import PLANS
from tvbandits.text import format_number
from tvbandits.validation import check_instance

# --- styles of curves ---------------------------------------------------------------------------------

# The numbers of markers and dashes have no common factor, so that 44 curves differ even without colour.
# Hues become similar after 8, 13, 21 and 34 curves, which have other markers or dashes.
MARKERS = "osD^vP*X<>p"
DASHES = ("-", "--", "-.", (0, (1, 1)))


def styles_of(policies: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the style of each policy's curve, as arguments of matplotlib's `plot`.

    A policy of the package has the same style in every picture, by its index among all policies. Of
    several settings of a policy ("name:window=40", "name:window=80"), the plain name, or else the first
    setting, has this style. The other settings, and the user's own policies, have further styles, with
    hollow markers.
    """
    policies = [str(policy) for policy in policies]
    indices = {name: index for index, name in enumerate(POLICIES)}
    styles = {}
    for policy in sorted(policies, key=lambda name: ":" in name):
        index = indices.pop(policy.partition(":")[0], None)
        if index is not None:
            styles[policy] = _make_style(index, hollow=False)
    next_index = itertools.count(len(POLICIES))
    return styles | {
        policy: _make_style(next(next_index), hollow=True)
        for policy in policies
        if policy not in styles
    }


# Luminances of consecutive colours that are visible on a light and on a dark background.
ON_LIGHT, ON_DARK = (0.32, 0.45, 0.2), (0.6, 0.8, 0.5)
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


def _find_background() -> tuple[str, tuple[float, ...]]:
    """Return the background colour, and the luminances that are visible on it."""
    background: str = rcParams["axes.facecolor"]
    return background, ON_DARK if np.dot(to_rgb(background), LUMINANCE) < 0.5 else ON_LIGHT


def _make_style(index: int, *, hollow: bool) -> dict[str, Any]:
    """Return the style with an index."""
    background, luminances = _find_background()
    # Steps of the golden section: consecutive hues differ, and no hue is repeated.
    hue = hsv_to_rgb((index * 0.618034 % 1.0, 0.85, 1.0))
    bright = hue * luminances[index % len(luminances)] / (hue @ LUMINANCE)
    colour = to_hex(np.minimum(bright, 1.0))
    return {
        "color": colour,
        "linestyle": DASHES[index % len(DASHES)],
        "linewidth": 1.8 + 0.4 * (index // (len(MARKERS) * len(DASHES))),
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 11 if MARKERS[index % len(MARKERS)] == "*" else 7,
        "markerfacecolor": background if hollow else colour,
        "markeredgecolor": colour if hollow else background,
        "markeredgewidth": 1.4 if hollow else 0.6,
    }


# --- regret against the step --------------------------------------------------------------------------

# The names of the references in legends, and the dashes of their lines, in points.
REFERENCES = {
    "uniform": ("uniform choice", (1, 6)),
    "best_fixed": ("best fixed point", (1, 3)),
    "last_best": ("last step's best point", (6, 3)),
    "all_read": ("forecast, all read", (6, 3, 1, 3)),
}


def reference_label(name: str, references: References | None) -> str:
    """Return the name of a reference in legends and tables, with its points per step if several."""
    label, points = REFERENCES[name][0], 1 if references is None else references.points
    if points == 1 or "best" not in label:
        return label
    return f"{label.replace('best', f'{points} best')}s"


@overload
def regret_figure(
    rows: pd.DataFrame,
    references: Mapping[str, References] | None = None,
    units: Mapping[str, str] | None = None,
) -> NotebookFigure: ...
@overload
def regret_figure(
    rows: pd.DataFrame,
    references: Mapping[str, References] | None = None,
    units: Mapping[str, str] | None = None,
    *,
    ax: Axes,
) -> Axes: ...
def regret_figure(
    rows: pd.DataFrame,
    references: Mapping[str, References] | None = None,
    units: Mapping[str, str] | None = None,
    *,
    ax: Axes | None = None,
) -> NotebookFigure | Axes:
    """Draw the average regret R_t / t against t: the mean over seeds with a band of one deviation.

    There is a panel for each problem, or, if a policy has several widths, for each problem and width.
    The legend has the order of the curves' ends, from top to bottom. A policy has the same style in
    every picture.

    Parameters
    ----------
    rows : DataFrame
        The rows of `tvbandits.compare`.
    references : mapping of problem to References, optional
        Regrets that are drawn as thin horizontal lines.
    units : mapping of problem to str, optional
        Units of the rewards.
    ax : matplotlib Axes, optional
        Your own axes, for rows of one panel.

    Returns
    -------
    matplotlib Figure, or `ax`

    Raises
    ------
    ValueError
        If `ax` are no axes, the rows need several panels, or references are no `References`.

    Examples
    --------
    >>> from tvbandits import compare, plots
    >>> from tvbandits.datasets import DriftingBump
    >>> rows = compare(DriftingBump(candidates=51, horizon=20), ["uniform", "eps-greedy"], seeds=2)
    >>> plots.regret_figure(rows).savefig("regret.png")

    >>> from matplotlib.figure import Figure
    >>> left, right = Figure().subplots(1, 2)
    >>> print(plots.regret_figure(rows, ax=left).get_xlabel())
    step t
    """
    panels, styles = panels_of(rows), styles_of(rows["policy"].unique())
    for problem, value in (references or {}).items():
        requirement = "References, such as References(**values) with the values in a run.json"
        check_instance(f"the references of {problem}", value, References, requirement)
    if ax is not None:
        axes = check_axes(ax, len(panels), "give rows of one problem and width")
        _draw_panel(axes, panels[0], styles, references or {}, units or {}, WITHIN)
        return axes
    labels = max(group["policy"].nunique() for _, _, group in panels) + len(REFERENCES)
    height = max(4.8, 0.25 * labels)  # inches; the legend may be higher than its panel
    figure = NotebookFigure((9.6, height * len(panels)))
    grid = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, panel in zip(grid, panels, strict=True):
        _draw_panel(axes, panel, styles, references or {}, units or {}, BESIDE)
    if rows["seed"].nunique() > 1:
        band = "Curve: mean over the seeds. Band: one standard deviation to either side."
        figure.supxlabel(band, x=0.01, horizontalalignment="left", fontsize=9)
    return figure


def _draw_panel(
    axes: Axes,
    panel: Panel,
    styles: Mapping[str, dict[str, Any]],
    references: Mapping[str, References],
    units: Mapping[str, str],
    place: Place,
) -> None:
    """Draw the curves of a panel, with title and labels."""
    problem, width, group = panel
    _draw_regret(axes, group, references.get(problem), styles, place)
    width = "width of the theorem" if width == "width theory" else width
    seeds = count_text(group.groupby("policy")["seed"].nunique(), "seed")
    title = textwrap.fill(f"{problem}, {width}, {seeds}", 80)
    axes.set_title(title, loc="left", parse_math=False)
    axes.set_xlabel("step t")
    unit = units.get(problem, "").replace("$", r"\$")
    axes.set_ylabel("average regret $R_t / t$" + (f" [{unit}]" if unit else ""))


def _draw_regret(
    axes: Axes,
    group: pd.DataFrame,
    references: References | None,
    styles: Mapping[str, dict[str, Any]],
    place: Place,
) -> None:
    count = group["policy"].nunique()
    for i, (policy, rows) in enumerate(group.groupby("policy", sort=False)):
        style, at_step = styles[str(policy)], rows.groupby("t")["average_regret"]
        mean, spread = at_step.mean(), at_step.std().fillna(0.0)
        every = max(len(mean) // 8, 1)  # markers of different curves are at different steps
        marks = ((i * every // count + every // (2 * count)) % len(mean), every)
        axes.plot(mean, label=_shorten(str(policy)), markevery=marks, **style)
        band = mean - spread, mean + spread
        axes.fill_between(mean.index, *band, color=style["color"], alpha=0.12, linewidth=0)
    values = {} if references is None else references.averages
    for policy in group["policy"].unique():  # a reference that is played has a curve already
        values.pop(policy, None)
    for name, value in values.items():
        label, dashes = reference_label(name, references), REFERENCES[name][1]
        axes.axhline(
            value, label=label, color=rcParams["text.color"], linewidth=0.7, linestyle=(0, dashes)
        )
    _set_limits(axes, group, values.values())
    axes.set_xlim(0, int(group["t"].max()))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    # The order of the legend is that of the curves' ends, from top to bottom.
    lines = sorted(axes.get_lines(), key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    legend = axes.legend(handles=lines, fontsize=9, handlelength=3.0, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.3)


def _set_limits(axes: Axes, group: pd.DataFrame, references: Iterable[float]) -> None:
    """Set the limits of the y axis, by all but the first steps, in which averages vary most."""
    late = group[group["t"] > max(int(group["t"].max()) // 20, 1)]
    curves = (late if len(late) else group).groupby(["policy", "t"])["average_regret"].mean()
    # Regret is negative if the `best` of a user's problem is not the largest reward.
    values = [0.0, *curves.dropna(), *references]
    low, high = 1.12 * min(values), 1.12 * max(values)
    axes.set_ylim(low, high if high > low else 1.0)


def _shorten(name: str, longest: int = 40) -> str:
    """Return a name of at most `longest` characters, without the middle of a longer one."""
    return name if len(name) <= longest else f"{name[: longest - 13]}…{name[-12:]}"


# --- regret against the number of queries -------------------------------------------------------------


@overload
def frontier_figure(rows: pd.DataFrame, units: Mapping[str, str] | None = None) -> Figure: ...
@overload
def frontier_figure(
    rows: pd.DataFrame, units: Mapping[str, str] | None = None, *, ax: Axes
) -> Axes: ...
def frontier_figure(
    rows: pd.DataFrame, units: Mapping[str, str] | None = None, *, ax: Axes | None = None
) -> Figure | Axes:
    """Draw average regret against queries per step, with a curve for each query plan.

    There is a panel for each problem, with 95% intervals over seeds. The policy without an expert is a
    horizontal line, the paper's policy a point. With `ax`, rows of one problem are drawn into your axes.
    """
    table = frontier_table(rows)
    parts = [part for _, part in table.groupby("problem", sort=False)]
    if ax is not None:
        axes = check_axes(ax, len(parts), "give rows of one problem")
        _draw_frontier(axes, parts[0], units or {}, WITHIN)
        return axes
    figure = NotebookFigure((8.6 * len(parts), 4.8))
    grid = figure.subplots(1, len(parts), squeeze=False)[0]
    for axes, part in zip(grid, parts, strict=True):
        _draw_frontier(axes, part, units or {}, BESIDE)
    return figure


def _draw_frontier(axes: Axes, part: pd.DataFrame, units: Mapping[str, str], place: Place) -> None:
    """Draw the curves of a problem, whose lines of `frontier_table` are given."""
    problem = str(part["problem"].iloc[0])
    styles = styles_of([*PLANS, PAPER])  # a plan has the same style in every picture
    for plan, lines in part.groupby("plan", sort=False):
        x, y = lines["queries_per_step"], lines["average_regret"]
        if plan == WITHOUT:
            axes.axhline(y.iloc[0], color="0.5", linewidth=1.2, label=f"{WITHOUT}, no questions")
        else:
            bars = lines["average_regret_ci95"].fillna(0.0)
            axes.errorbar(x, y, bars, label=str(plan), capsize=3, **styles[str(plan)])
    _set_scales(axes, part)
    seeds, steps = count_text(part["seeds"], "seed"), count_text(part["horizon"], "step")
    axes.set_title(f"{problem}, {panels_of(part)[0].width}, {seeds}, {steps}")
    axes.set_xlabel("queries per step")
    axes.set_ylabel(label_of("average regret", units.get(problem, "")))
    axes.legend(title="bars: 95% intervals", **place)


def _set_scales(axes: Axes, table: pd.DataFrame) -> None:
    """Set a logarithmic scale for queries, and for regret a linear one unless its range is large."""
    axes.set_xscale("log", base=2)
    queries = table["queries_per_step"][table["queries_per_step"] > 0]
    if len(queries):  # a frontier that was interrupted may have no curve
        low, high = math.floor(math.log2(queries.min())), math.ceil(math.log2(queries.max()))
        ticks = [2.0**power for power in range(low, high + 1)]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    regrets = table["average_regret"]
    if regrets.min() > 0 and regrets.max() > 8 * regrets.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, None)


# --- the pictures of a board --------------------------------------------------------------------------


def rank_figure(ranks: Ranks) -> Figure:
    """Draw mean ranks as points, the best at the top; the grey band is the critical difference."""
    figure = NotebookFigure((8.0, 1.4 + 0.28 * len(ranks.mean)))
    axes = figure.add_subplot()
    ink = rcParams["text.color"]
    places = range(len(ranks.mean))
    axes.plot(ranks.mean.to_numpy(), places, "o", color=ink, markersize=6)
    if not math.isnan(ranks.critical_difference):
        best = float(ranks.mean.iloc[0])
        axes.axvspan(
            best, best + ranks.critical_difference, color=ink, alpha=0.15, linewidth=0, zorder=0
        )
        within = f"within {format_number(ranks.critical_difference, 3)} (grey)"
        axes.set_title(f"not different from the best at the 5% level: {within}", fontsize=9)
    axes.set_yticks(list(places), [str(name) for name in ranks.mean.index], fontsize=9)
    axes.invert_yaxis()
    axes.grid(axis="x", linewidth=0.6)
    axes.set_xlabel(f"mean rank over {ranks.problems} problems (1 is best)")
    return figure


def profile_figure(shares: pd.DataFrame) -> Figure:
    """Draw the share of problems within a factor of the best policy's regret, a line a policy."""
    figure = NotebookFigure((9.0, 5.2))
    axes = figure.add_subplot()
    styles = styles_of(shares.columns)
    every = max(len(shares) // 6, 1)
    for i, name in enumerate(shares.columns):
        marks = {"markersize": 6, "markevery": (i % every, every)}
        line = styles[str(name)] | marks
        axes.step(shares.index, shares[name], where="post", label=str(name), **line)
    axes.set_xscale("log")
    ticks = [1, 1.5, 2, 3, 5, 10]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("factor of the best policy's average regret")
    axes.set_ylabel("share of problems")
    axes.set_ylim(-0.02, 1.02)
    axes.legend(fontsize=8, **BESIDE)
    return figure
