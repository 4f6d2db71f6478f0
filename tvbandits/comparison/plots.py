"""Pictures of the beliefs of a bandit and of the results of a comparison. All are readable in grey.

Every function returns a figure that belongs to no window: a notebook shows it, a script saves it.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import hsv_to_rgb, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from tvbandits.bandit.bandit import Bandit
from tvbandits.comparison.frontier import PAPER, WITHOUT, frontier_table
from tvbandits.comparison.summary import Ranks, count_text, panels_of
from tvbandits.data import Dataset
from tvbandits.datasets.tables.references import References
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import Category, Integer, Real
from tvbandits.domains.space import Table, space_of
from tvbandits.gp.kernels.additive import ends_of
from tvbandits.policies import POLICIES
from tvbandits.policies.frugal import PLANS
from tvbandits.validation import Array, Index, of_kind


class NotebookFigure(Figure):
    """A figure of inches (width, height) that is a picture where it is a notebook's last expression.

    It belongs to no pyplot, which would keep it until it is closed.
    """

    def __init__(self, size: tuple[float, float]) -> None:
        super().__init__(figsize=size, layout="constrained")
        FigureCanvasAgg(self)

    def png(self) -> bytes:
        """Return the picture in the format PNG."""
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()

    def _repr_png_(self) -> bytes:
        return self.png()


# --- styles of curves ---------------------------------------------------------------------------------

# Numbers of markers and of dashes have no common factor, so that 52 curves differ without colour.
MARKERS = "osD^vP*X<>phd"
DASHES = ("-", "--", "-.", (0, (1, 1)))


def styles_of(policies: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the style of the curve of each policy, as matplotlib takes it.

    A policy of the package looks the same in every picture: its place among all policies decides. Of
    several settings of one ("name:window=40", "name:window=80"), the plain name or else the first one
    has this style; the others, and policies of one's own, have the next free ones, with hollow markers.
    """
    policies = [str(policy) for policy in policies]
    places = {name: place for place, name in enumerate(POLICIES)}
    styles = {}
    for policy in sorted(policies, key=lambda name: ":" in name):
        place = places.pop(policy.partition(":")[0], None)
        if place is not None:
            styles[policy] = _style(place, hollow=False)
    free = itertools.count(len(POLICIES))
    return styles | {
        policy: _style(next(free), hollow=True) for policy in policies if policy not in styles
    }


def _style(
    place: int, *, hollow: bool, brightness: tuple[float, ...] = (0.32, 0.45, 0.2)
) -> dict[str, Any]:
    """Return the style of a place; the brightness, at most 1, of colours in turn: all show on white."""
    # Hues a golden section apart: neighbours differ, and none comes again.
    hue = hsv_to_rgb((place * 0.618034 % 1.0, 0.85, 1.0))
    luminance = hue @ np.array([0.2126, 0.7152, 0.0722])
    bright = hue * brightness[place % len(brightness)] / luminance
    colour = to_hex(np.minimum(bright, 1.0))
    return {
        "color": colour,
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.8 + 0.4 * (place // (len(MARKERS) * len(DASHES))),
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 11 if MARKERS[place % len(MARKERS)] == "*" else 7,
        "markerfacecolor": "white" if hollow else colour,
        "markeredgecolor": colour if hollow else "white",
        "markeredgewidth": 1.4 if hollow else 0.6,
    }


# --- regret against the step --------------------------------------------------------------------------

# Names of the references in legends, and the dashes of their lines in points.
REFERENCES = {
    "uniform": ("uniform choice", (1, 6)),
    "best_fixed": ("best fixed point", (1, 3)),
    "last_best": ("last step's best point", (6, 3)),
    "all_read": ("forecast, all read", (6, 3, 1, 3)),
}


def regret_figure(
    rows: pd.DataFrame,
    references: Mapping[str, References] | None = None,
    units: Mapping[str, str] | None = None,
) -> NotebookFigure:
    """Draw the average regret R_t / t against t: mean over seeds and a band of one deviation.

    One panel a problem, or one a problem and width where a policy has several. The legend names the
    curves from above to below, as they end; a policy has the same style in every picture.

    Parameters
    ----------
    rows : DataFrame
        The rows of `tvbandits.compare`.
    references : mapping of problem to References, optional
        Drawn as thin horizontal lines.
    units : mapping of problem to str, optional
        Unit of the reward.

    Examples
    --------
    >>> from tvbandits import compare, plots
    >>> from tvbandits.datasets import DriftingBump
    >>> rows = compare(DriftingBump(candidates=51, horizon=20), ["uniform", "eps-greedy"], seeds=2)
    >>> plots.regret_figure(rows).savefig("regret.png")
    """
    panels, styles = panels_of(rows), styles_of(rows["policy"].unique())
    labels = max(group["policy"].nunique() for _, _, group in panels) + len(REFERENCES)
    height = max(4.8, 0.25 * labels)  # inches: a legend may need more room than its panel
    figure = NotebookFigure((9.6, height * len(panels)))
    grid = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, (problem, width, group) in zip(grid, panels, strict=True):
        _draw_regret(axes, group, (references or {}).get(problem), styles)
        width = "width of the theorem" if width == "width theory" else width
        seeds = count_text(group.groupby("policy")["seed"].nunique(), "seed")
        title = textwrap.fill(f"{problem}, {width}, {seeds}", 80)
        axes.set_title(title, loc="left", parse_math=False)
        axes.set_xlabel("step t")
        unit = (units or {}).get(problem, "").replace("$", r"\$")
        axes.set_ylabel("average regret $R_t / t$" + (f" [{unit}]" if unit else ""))
    if rows["seed"].nunique() > 1:
        band = "Curve: mean over the seeds. Band: one standard deviation to either side."
        figure.supxlabel(band, x=0.01, horizontalalignment="left", fontsize=9)
    return figure


def _draw_regret(
    axes: Axes,
    group: pd.DataFrame,
    references: References | None,
    styles: Mapping[str, dict[str, Any]],
) -> None:
    count = group["policy"].nunique()
    for i, (policy, rows) in enumerate(group.groupby("policy", sort=False)):
        style, at_step = styles[str(policy)], rows.groupby("t")["average_regret"]
        mean, spread = at_step.mean(), at_step.std().fillna(0.0)
        every = max(len(mean) // 8, 1)  # markers of several curves stand beside each other
        marks = ((i * every // count + every // (2 * count)) % len(mean), every)
        axes.plot(mean, label=_short(str(policy)), markevery=marks, **style)
        band = mean - spread, mean + spread
        axes.fill_between(mean.index, *band, color=style["color"], alpha=0.12, linewidth=0)
    values = {} if references is None else references._asdict()
    for policy in group["policy"].unique():  # as a line it would lie on its own curve
        values.pop(policy, None)
    for name, value in values.items():
        label, dashes = REFERENCES[name]
        axes.axhline(value, label=label, color="black", linewidth=0.7, linestyle=(0, dashes))
    _limit(axes, group, values.values())
    axes.set_xlim(0, int(group["t"].max()))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    # From above to below, as the curves end.
    lines = sorted(axes.get_lines(), key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False}
    legend = axes.legend(handles=lines, fontsize=9, handlelength=3.0, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.3)


def _limit(axes: Axes, group: pd.DataFrame, references: Iterable[float]) -> None:
    """Leave the first few steps, where averages jump, out of the choice of limits."""
    late = group[group["t"] > max(int(group["t"].max()) // 20, 1)]
    curves = (late if len(late) else group).groupby(["policy", "t"])["average_regret"].mean()
    # Below 0 lies regret against a best that is not the best of all, as of some problem of one's own.
    values = [0.0, *curves.dropna(), *references]
    low, high = 1.12 * min(values), 1.12 * max(values)
    axes.set_ylim(low, high if high > low else 1.0)


def _short(name: str, longest: int = 40) -> str:
    """Return a name that leaves room for the curves: a long one without its middle."""
    return name if len(name) <= longest else f"{name[: longest - 13]}…{name[-12:]}"


# --- regret against the number of queries -------------------------------------------------------------


def frontier_figure(rows: pd.DataFrame, units: Mapping[str, str] | None = None) -> Figure:
    """Draw average regret against queries per step, a curve for each query plan.

    One panel a problem, with 95% intervals over seeds. The policy that asks nobody is a line, the
    paper's a point.
    """
    table = frontier_table(rows)
    problems = table["problem"].unique()
    figure = NotebookFigure((8.6 * len(problems), 4.8))
    grid = figure.subplots(1, len(problems), squeeze=False)[0]
    styles = styles_of([*PLANS, PAPER])  # a plan looks the same whatever else is drawn
    for axes, problem in zip(grid, problems, strict=True):
        part = table[table["problem"] == problem]
        for plan, lines in part.groupby("plan", sort=False):
            x, y = lines["queries_per_step"], lines["average_regret"]
            if plan == WITHOUT:
                axes.axhline(
                    y.iloc[0], color="0.5", linewidth=1.2, label=f"{WITHOUT}, no questions"
                )
            else:
                bars = lines["average_regret_ci95"].fillna(0.0)
                axes.errorbar(x, y, bars, label=str(plan), capsize=3, **styles[str(plan)])
        _scale(axes, part)
        seeds, steps = count_text(part["seeds"], "seed"), count_text(part["horizon"], "step")
        axes.set_title(f"{problem}, {panels_of(part)[0].width}, {seeds}, {steps}")
        axes.set_xlabel("queries per step")
        axes.set_ylabel(label_of("average regret", (units or {}).get(str(problem), "")))
        place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        axes.legend(title="bars: 95% intervals", frameon=False, **place)
    return figure


def _scale(axes: Axes, table: pd.DataFrame) -> None:
    """Put queries in powers of two; regret from zero, or by its logarithm where it spans much."""
    axes.set_xscale("log", base=2)
    queries = table["queries_per_step"][table["queries_per_step"] > 0]
    if len(queries):  # a frontier that was cut short may have no curve yet
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
    """Draw mean ranks as points, best on top; the grey bar is the critical difference."""
    figure = NotebookFigure((8.0, 1.4 + 0.28 * len(ranks.mean)))
    axes = figure.add_subplot()
    places = range(len(ranks.mean))
    axes.plot(ranks.mean.to_numpy(), places, "o", color="#444444", markersize=6)
    if not math.isnan(ranks.critical_difference):
        best = float(ranks.mean.iloc[0])
        axes.axvspan(best, best + ranks.critical_difference, color="#dddddd", zorder=0)
        within = f"within {ranks.critical_difference:.2f} (grey)"
        axes.set_title(f"not different from the best at the 5% level: {within}", fontsize=9)
    axes.set_yticks(list(places), [str(name) for name in ranks.mean.index], fontsize=9)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#cccccc", linewidth=0.6)
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
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return figure


# --- beliefs ------------------------------------------------------------------------------------------

# Half the width of a band, in posterior deviations.
BAND = 2.0
BAND_LABEL = f"mean ± {BAND:g} deviations"

BLUE = "#1f4e79"
WHISKER: dict[str, Any] = {
    "color": BLUE,
    "fmt": "_",
    "markersize": 9,
    "markeredgewidth": 1.8,
    "elinewidth": 5,
    "ecolor": f"{BLUE}40",
    "zorder": 2,
    "label": BAND_LABEL,
}


def _look(shape: str, size: float, face: str, edge: str, width: float = 1.0) -> dict[str, Any]:
    """Return the look of a mark, as `scatter` takes it."""
    return {
        "marker": shape,
        "s": size**2,
        "facecolors": face,
        "edgecolors": edge,
        "linewidths": width,
    }


# Marks are told apart by their shapes, so that grey will do.
LOOKS = {
    "reward": _look("o", 5.5, "black", "white", 0.7),
    "answer": _look("D", 6.5, "white", "#a83200", 1.4),
    "pending": _look("^", 8.5, "#ffb000", "black"),
    "recommended": _look("*", 16, "#e63946", "white", 1.2),
}


@dataclass(frozen=True)
class Axis:
    """A coordinate, or the several of a category: its name, its columns, and its values."""

    name: str
    where: slice
    kind: Real | Integer | Category

    def of(self, X: Array) -> Array:
        """Return positions (n,) of points (n, d) along the axis; categories count from 0."""
        columns = X[:, self.where]
        positions = columns.argmax(axis=1) if isinstance(self.kind, Category) else columns[:, 0]
        return np.asarray(positions, dtype=np.float64)

    def values(self, most: int) -> Array:
        """Return positions (m,) to draw at: all, where they are few and apart."""
        return np.unique(self.kind.from_unit(np.linspace(0.0, 1.0, most)))


@dataclass(frozen=True)
class Picture:
    """The beliefs of a bandit at a time, in the user's sign and unit."""

    bandit: Bandit
    t: float
    axes: tuple[Axis, ...]
    unit: str
    best: Array

    @classmethod
    def of(cls, bandit: Bandit, t: float | None, unit: str) -> Picture:
        """Return the picture of a bandit, by default at the time of its next decision."""
        latest = bandit.state.time
        if t is None:
            t = 1.0 if latest is None else latest + 1.0
        best = bandit.best_point(t)  # which checks the time
        return cls(bandit, float(t), _axes_of(bandit.recipe.domain), unit, best)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and deviation (m,) at points (m, d)."""
        return self.bandit.predict(X, self.t)

    def observations(self) -> list[tuple[str, Dataset]]:
        """Return rewards and answers, by the names of their marks, where there are any."""
        state = self.bandit.state
        both = (("reward", state.rewards), ("answer", state.answers))
        return [(name, data) for name, data in both if len(data)]

    def along(self, axis: Axis, positions: Array) -> Array:
        """Return the recommended point, moved along an axis to each of the positions, (m, d)."""
        X = np.repeat(self.best[None, :], len(positions), axis=0)
        X[:, axis.where] = axis.kind.columns(positions)
        return X


def _axes_of(domain: Domain) -> tuple[Axis, ...]:
    """Return the coordinates of a domain, with names and ranges."""
    space = space_of(domain)
    if space is not None:
        parts = zip(space.columns.items(), space.parameters, strict=True)
        return tuple(Axis(name, where, part) for (name, where), part in parts)
    low, high = ends_of(domain)
    high = np.where(high > low, high, low + 1.0)  # of a single value
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return tuple(Axis(f"x{i}", slice(i, i + 1), Real(*pair)) for i, pair in enumerate(ends))


def mark(ax: Axes, X: Array, name: str, **more: Any) -> None:
    """Draw marks at the positions `X` (n, 2)."""
    ax.scatter(*X.T, **{"zorder": 6, "clip_on": False, "label": f"_{name}", **LOOKS[name], **more})


def mark_by_age(
    picture: Picture, ax: Axes, X: Array, t: Array, name: str, faintest: float = 0.15
) -> None:
    """Draw rewards or answers of times `t` (n,) at `X` (n, 2): old ones fainter, the latest on top."""
    oldest = max(float((picture.t - data.t).max()) for _, data in picture.observations())
    age = np.clip(picture.t - t, 0.0, None) / max(oldest, 1e-12)
    strength = faintest + (1 - faintest) * np.exp(-3.0 * age)
    order = np.argsort(strength, kind="stable")
    above = 5 if name == "reward" else 4
    mark(ax, X[order], name, alpha=strength[order], zorder=above, clip_on=True)


def label_of(what: str, unit: str) -> str:
    """Return a label with its unit, if there is one."""
    return f"{what} ({unit})" if unit else what


# The number of candidates in a ranking.
RANKED = 25


def beliefs(bandit: Bandit, t: float | None = None, *, unit: str = "") -> Figure:
    """Draw the posterior of a bandit at a time, with rewards, answers, and pending points.

    ================================================ ==================================================
    One number, or candidates on a line              mean and band
    Two numbers, or candidates in a plane            maps of the mean and of the deviation
    Candidates of more coordinates                   the 25 best, by rank, with their bands
    A box or space of more, or with categories       for each parameter the slice through the
                                                     recommended point
    ================================================ ==================================================

    Parameters
    ----------
    bandit : Bandit
        It is not changed.
    t : float, optional
        The time of the beliefs; by default that of the next decision.
    unit : str
        Of the reward, for labels.

    Returns
    -------
    figure : matplotlib Figure
        `figure.savefig("beliefs.png")` keeps it. Rewards and answers fade with their age.

    Raises
    ------
    ValueError
        If `bandit` is none, or `t` is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, plots, policies
    >>> sites = Candidates(np.linspace(0, 10, 21)[:, None])
    >>> bandit = policies.adaptive_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> info = bandit.tell([[2.0], [8.0]], [0.1, 0.7], 1)
    >>> figure = plots.beliefs(bandit, unit="mg/l")
    >>> figure.savefig("beliefs.png")
    """
    of_kind("bandit", bandit, Bandit, "a Bandit")
    picture = Picture.of(bandit, t, unit)
    domain, axes_of = bandit.recipe.domain, picture.axes
    draw: Callable[[Picture, list[Axes]], None]
    numbers = not any(isinstance(axis.kind, Category) for axis in axes_of)
    if numbers and len(axes_of) == 1:
        panels, draw, size = 1, _draw_slices, (7.2, 4.4)
    elif numbers and len(axes_of) == 2:
        panels, draw, size = 2, _draw_maps, (10.5, 4.6)
    elif isinstance(domain, Candidates):
        bars = min(len(domain), RANKED)
        panels, draw, size = 1, _draw_ranking, (7.5, 1.8 + 0.24 * bars)
    else:
        panels, draw = len(axes_of), _draw_slices
        size = 1.0 + 3.2 * min(panels, 3), 1.1 + 2.7 * math.ceil(panels / 3)
    figure, columns = NotebookFigure(size), min(panels, 3)
    rows = math.ceil(panels / columns)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=panels > 2)
    for spare in grid.flat[panels:]:
        spare.set_axis_off()
    where = list(grid.flat[:panels])
    draw(picture, where)
    _finish(figure, where, picture)
    return figure


# --- title and legend ---------------------------------------------------------------------------------


def _finish(figure: Figure, where: list[Axes], picture: Picture) -> None:
    """Add the title, and a legend below the panels."""
    title = f"beliefs at t = {picture.t:g}"
    if len(where) > 2:
        title += ", through the recommended point"
    present = [*(name for name, _ in picture.observations()), "recommended"]
    if len(picture.bandit.pending):
        present.insert(-1, "pending")
    handles, labels = where[0].get_legend_handles_labels()
    handles += [where[0].scatter([], [], **LOOKS[name]) for name in present]
    figure.suptitle(title, fontsize=11)
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": 5, "frameon": False}
    figure.legend(handles, labels + present, columnspacing=1.4, handletextpad=0.5, **place)
    figure.align_labels()


# --- curves -------------------------------------------------------------------------------------------


def _draw_slices(
    picture: Picture, where: list[Axes], *, curve: int = 401, separate: int = 40
) -> None:
    """Draw a curve of so many points for each axis; a few separate values are drawn one by one.

    Over candidates on a line it goes through them.
    """
    domain = picture.bandit.recipe.domain
    for i, (axis, ax) in enumerate(zip(picture.axes, where, strict=True)):
        positions, apart = axis.values(curve), 0 < axis.kind.size <= separate
        if isinstance(domain, Candidates):
            positions = np.sort(domain.X[:, 0])
            apart = len(positions) <= separate
        _curve(picture, ax, axis, positions, apart=apart)
        if i % 3 == 0:
            ax.set_ylabel(label_of("reward", picture.unit))


def _curve(picture: Picture, ax: Axes, axis: Axis, positions: Array, *, apart: bool) -> None:
    """Draw mean and band along an axis through the recommended point, with all observations."""
    mean, deviation = picture.predict(picture.along(axis, positions))
    reach = BAND * deviation
    if apart:
        ax.errorbar(positions, mean, reach, **WHISKER)
    else:
        ax.plot(positions, mean, label=BAND_LABEL, color=BLUE, linewidth=1.6, zorder=3)
        band = mean - reach, mean + reach
        ax.fill_between(positions, *band, color=BLUE, alpha=0.16, linewidth=0, zorder=1)
    for name, data in picture.observations():
        mark_by_age(picture, ax, np.column_stack([axis.of(data.X), data.y]), data.t, name)
    out = axis.of(picture.bandit.pending)  # they have no height: they stand on the axis
    foot = np.column_stack([out, np.full(len(out), 0.03)])
    mark(ax, foot, "pending", transform=ax.get_xaxis_transform())
    best = picture.best[None, :]
    mark(ax, np.column_stack([axis.of(best), picture.predict(best)[0]]), "recommended")
    ax.set_xlabel(axis.name)
    ax.grid(alpha=0.25, linewidth=0.6)
    if isinstance(axis.kind, Category):
        ax.set_xticks(np.arange(axis.kind.size), axis.kind.levels)
        ax.set_xlim(-0.5, axis.kind.size - 0.5)


# --- maps ---------------------------------------------------------------------------------------------


def _draw_maps(
    picture: Picture, where: list[Axes], *, points_per_axis: int = 61, site_area: float = 130
) -> None:
    """Draw a map of the mean and one of the deviation: of a grid, or of sites as discs."""
    across, up = picture.axes
    domain = picture.bandit.recipe.domain
    if isinstance(domain, Candidates):
        points = domain.X
        xs, ys = np.unique(points[:, 0]), np.unique(points[:, 1])
        filled = len(xs) * len(ys) == len(points) and min(len(xs), len(ys)) > 1
    else:
        xs, ys = across.values(points_per_axis), up.values(points_per_axis)
        filled = True
    if filled:
        points = np.column_stack([part.ravel() for part in np.meshgrid(xs, ys)])
    mean, deviation = picture.predict(points)
    # From dark to light in even steps, also in grey.
    maps = (mean, "mean", "viridis"), (deviation, "deviation", "cividis")
    for ax, (values, what, colours) in zip(where, maps, strict=True):
        image: ScalarMappable
        if filled:
            grid = values.reshape(len(ys), len(xs))
            image = ax.pcolormesh(xs, ys, grid, cmap=colours, shading="nearest", rasterized=True)
        else:
            order = np.argsort(values)  # the highest lie on top, where they crowd
            ax.margins(0.08)
            look: dict[str, Any] = {"s": site_area, "edgecolors": "0.3", "linewidths": 0.6}
            x, y = points[order].T
            image = ax.scatter(x, y, c=values[order], cmap=colours, **look)
        ax.figure.colorbar(image, ax=ax, label=label_of(what, picture.unit), pad=0.02)
        for name, data in picture.observations():
            # Of a place with many readings the last one is drawn.
            order = np.argsort(data.t, kind="stable")[::-1]
            last = order[np.unique(data.X[order], axis=0, return_index=True)[1]]
            mark_by_age(picture, ax, data.X[last], data.t[last], name)
        mark(ax, picture.bandit.pending, "pending")
        mark(ax, picture.best[None, :], "recommended")
        ax.set_xlabel(across.name)
        ax.set_ylabel(up.name)


# --- ranking ------------------------------------------------------------------------------------------


def _draw_ranking(picture: Picture, where: list[Axes]) -> None:
    """Draw the best candidates by rank, with their bands."""
    ax, domain = where[0], picture.bandit.recipe.domain
    assert isinstance(domain, Candidates)
    mean, deviation = picture.predict(domain.X)
    sign = 1.0 if picture.bandit.recipe.minimize else -1.0
    top = np.argsort(sign * mean, kind="stable")[:RANKED]
    places = np.arange(len(top), dtype=np.float64)
    ax.errorbar(mean[top], places, xerr=BAND * deviation[top], **WHISKER)
    place_of = {int(row): place for place, row in enumerate(top)}
    for name, data in picture.observations():
        rows = domain.index(data.X)
        visible = np.isin(rows, top)
        lines = [place_of[row] for row in rows[visible].tolist()]
        X = np.column_stack([data.y[visible], np.array(lines, dtype=np.float64)])
        mark_by_age(picture, ax, X, data.t[visible], name)
    out = domain.index(picture.bandit.pending).tolist()
    edge = [[0.02, place_of[row]] for row in out if row in place_of]
    mark(ax, np.array(edge).reshape(-1, 2), "pending", transform=ax.get_yaxis_transform())
    best = int(domain.index(picture.best)[0])
    if best in place_of:  # of equal ones it may be another one
        mark(ax, np.array([[mean[best], place_of[best]]]), "recommended")
    ax.set_yticks(places, _names_of(domain, top))
    ax.invert_yaxis()
    ax.set_xlabel(label_of("reward", picture.unit))
    label = "candidates"
    if len(top) < len(domain):
        label += f", the best {len(top)} of {len(domain)}"
    columns = f" ({', '.join(domain.space.names)})" if isinstance(domain, Table) else ""
    ax.set_ylabel(label + columns, labelpad=8)
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)


def _names_of(domain: Candidates, rows: Index) -> list[str]:
    """Return the names of candidates: the values of a table's row, or the row's number."""
    if not isinstance(domain, Table):
        return [f"row {row}" for row in rows]
    frame = domain.decode(domain.X[rows])
    return [
        ", ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row)
        for row in frame.itertuples(index=False, name=None)
    ]
