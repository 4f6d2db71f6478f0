"""Pictures of the posterior of a bandit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from tvbandits.bandit.bandit import Bandit
from tvbandits.comparison.figures import WITHIN, NotebookFigure, Place, check_axes, label_of
from tvbandits.data import Dataset
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import Category, Choice, Log, Parameter, Real
from tvbandits.domains.space import Table, get_space
from tvbandits.gp.additive import ends_of
from tvbandits.text import format_number
from tvbandits.validation import Array, Index, check_instance

# Half the width of a band, in posterior standard deviations.
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


def _mark_style(
    shape: str, size: float, face: str, edge: str, width: float = 1.0
) -> dict[str, Any]:
    """Return the style of a mark, as arguments of matplotlib's `scatter`."""
    return {
        "marker": shape,
        "s": size**2,
        "facecolors": face,
        "edgecolors": edge,
        "linewidths": width,
    }


# Marks have different shapes, so that they can be distinguished in grey.
MARK_STYLES = {
    "reward": _mark_style("o", 5.5, "black", "white", 0.7),
    "answer": _mark_style("D", 6.5, "white", "#a83200", 1.4),
    "pending": _mark_style("^", 8.5, "#ffb000", "black"),
    "recommended": _mark_style("*", 16, "#e63946", "white", 1.2),
}


@dataclass(frozen=True)
class DomainAxis:
    """A coordinate or parameter of a domain, with its name and its columns in points."""

    name: str
    columns: slice
    kind: Parameter

    def positions_of(self, X: Array) -> Array:
        """Return positions (n,) of points (n, d) along the axis; choices and categories count from 0."""
        columns = X[:, self.columns]
        if isinstance(self.kind, Real):  # the range may be a guess, which `codes` would enforce
            return columns[:, 0]
        return self.kind.codes(columns, self.name)

    def label(self, ax: Axes, direction: Literal["x", "y"]) -> None:
        """Label an axis of a panel with the name, and with the values of choices and categories."""
        ax.set(**{f"{direction}label": self.name})
        if isinstance(self.kind, Choice | Category):
            ax.set_xticks(np.arange(self.kind.size), list(map(str, self.kind.levels)))
            ax.set_xlim(-0.5, self.kind.size - 0.5)
        elif isinstance(self.kind, Log):
            ax.set(**{f"{direction}scale": "log"})

    def choose_positions(self, most: int) -> Array:
        """Return positions (m,) to draw at, m <= most: all values of a parameter that has few."""
        return np.unique(self.kind.from_unit(np.linspace(0.0, 1.0, most)))


@dataclass(frozen=True)
class PosteriorPicture:
    """A bandit's posterior at a time, in the user's sign and unit, with what a picture needs.

    Attributes
    ----------
    bandit : Bandit
    t : float
    axes : tuple of DomainAxis
    unit : str
        Unit of the reward.
    best : array of shape (d,)
        The recommended point at time t.
    """

    bandit: Bandit
    t: float
    axes: tuple[DomainAxis, ...]
    unit: str
    best: Array

    @classmethod
    def of(cls, bandit: Bandit, t: float | None, unit: str) -> PosteriorPicture:
        """Return the picture of a bandit, by default at the time of its next decision."""
        latest = bandit.state.time
        if t is None:
            t = 1.0 if latest is None else latest + 1.0
        best = bandit.find_best_point(t)  # this checks the time, too
        return cls(bandit, float(t), _axes_of(bandit.recipe.domain), unit, best)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return posterior mean and standard deviation (m,) at points (m, d)."""
        return self.bandit.predict(X, self.t)

    def observations(self) -> list[tuple[str, Dataset]]:
        """Return the names of marks and the data of rewards and answers, without empty ones."""
        state = self.bandit.state
        both = (("reward", state.rewards), ("answer", state.answers))
        return [(name, data) for name, data in both if len(data)]

    def move_best(self, axis: DomainAxis, positions: Array) -> Array:
        """Return points (m, d) on the line through the recommended point, at positions along an axis."""
        X = np.repeat(self.best[None, :], len(positions), axis=0)
        X[:, axis.columns] = axis.kind.columns(positions)
        return X


def _axes_of(domain: Domain) -> tuple[DomainAxis, ...]:
    """Return the coordinates or parameters of a domain."""
    space = get_space(domain)
    if space is not None:
        pairs = zip(space.columns.items(), space.parameters, strict=True)
        return tuple(DomainAxis(name, columns, kind) for (name, columns), kind in pairs)
    low, high = ends_of(domain)
    high = np.where(high > low, high, low + 1.0)  # for a coordinate with a single value
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return tuple(DomainAxis(f"x{i}", slice(i, i + 1), Real(*pair)) for i, pair in enumerate(ends))


def draw_marks(ax: Axes, X: Array, name: str, **options: Any) -> None:
    """Draw marks at the positions `X` (n, 2); `options` are arguments of matplotlib's `scatter`."""
    style = {"zorder": 6, "clip_on": False, "label": f"_{name}", **MARK_STYLES[name]}
    ax.scatter(*X.T, **{**style, **options})


def draw_observations(
    picture: PosteriorPicture, ax: Axes, X: Array, t: Array, name: str, faintest: float = 0.15
) -> None:
    """Draw rewards or answers of times `t` (n,) at `X` (n, 2), with old ones fainter and below."""
    oldest = max(float((picture.t - data.t).max()) for _, data in picture.observations())
    age = np.clip(picture.t - t, 0.0, None) / max(oldest, 1e-12)
    opacity = faintest + (1 - faintest) * np.exp(-3.0 * age)
    order = np.argsort(opacity, kind="stable")
    zorder = 5 if name == "reward" else 4
    draw_marks(ax, X[order], name, alpha=opacity[order], zorder=zorder, clip_on=True)


# The largest number of candidates in a ranking.
MOST_RANKED = 25


@overload
def beliefs(bandit: Bandit, t: float | None = None, *, unit: str = "") -> Figure: ...
@overload
def beliefs(bandit: Bandit, t: float | None = None, *, unit: str = "", ax: Axes) -> Axes: ...
def beliefs(
    bandit: Bandit, t: float | None = None, *, unit: str = "", ax: Axes | None = None
) -> Figure | Axes:
    """Draw the posterior of a bandit at a time, with rewards, answers, and pending points.

    ================================================ ==================================================
    domain                                           picture
    ================================================ ==================================================
    One number, or candidates on a line              mean and band
    Two numbers, or candidates in a plane            maps of the mean and of the deviation
    Candidates with more coordinates                 the 25 best, by rank, with their bands
    A larger box or space, or one with categories    for each parameter the slice through the
                                                     recommended point
    ================================================ ==================================================

    Parameters
    ----------
    bandit : Bandit
        The bandit, which is not changed.
    t : float, optional
        The time of the posterior. None: the time of the next decision.
    unit : str
        Unit of the reward, for labels.
    ax : matplotlib Axes, optional
        Your own axes, for a picture with one panel.

    Returns
    -------
    figure : matplotlib Figure, or `ax`
        The picture, in which older rewards and answers are fainter.

    Raises
    ------
    ValueError
        If `bandit` is no `Bandit`, `t` is not finite, or `ax` are no axes or the picture needs several.

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
    check_instance("bandit", bandit, Bandit, "a Bandit")
    picture = PosteriorPicture.of(bandit, t, unit)
    domain, domain_axes = bandit.recipe.domain, picture.axes
    draw: Callable[[PosteriorPicture, list[Axes]], None]
    are_numbers = not any(isinstance(axis.kind, Choice | Category) for axis in domain_axes)
    if are_numbers and len(domain_axes) == 1:
        panels, draw, size = 1, _draw_slices, (7.2, 4.4)
    elif are_numbers and len(domain_axes) == 2:
        panels, draw, size = 2, _draw_maps, (10.5, 4.6)
    elif isinstance(domain, Candidates):
        bars = min(len(domain), MOST_RANKED)
        panels, draw, size = 1, _draw_ranking, (7.5, 1.8 + 0.24 * bars)
    else:
        panels, draw = len(domain_axes), _draw_slices
        size = 1.0 + 3.2 * min(panels, 3), 1.1 + 2.7 * math.ceil(panels / 3)
    if ax is not None:
        axes = check_axes(ax, panels, "leave ax out")
        draw(picture, [axes])
        axes.set_title(f"beliefs at t = {picture.t:g}", fontsize=11)
        axes.legend(*_legend_entries(axes, picture), **WITHIN)
        return axes
    figure, columns = NotebookFigure(size), min(panels, 3)
    rows = math.ceil(panels / columns)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=panels > 2)
    for unused in grid.flat[panels:]:
        unused.set_axis_off()
    panel_axes = list(grid.flat[:panels])
    draw(picture, panel_axes)
    _add_title_and_legend(figure, panel_axes, picture)
    return figure


# --- title and legend ---------------------------------------------------------------------------------


def _add_title_and_legend(figure: Figure, panels: list[Axes], picture: PosteriorPicture) -> None:
    """Add the title, and a legend below the panels."""
    title = f"beliefs at t = {picture.t:g}"
    if len(panels) > 2:
        title += ", through the recommended point"
    figure.suptitle(title, fontsize=11)
    place: Place = {"loc": "outside lower center", "ncols": 5, "frameon": False}
    entries = _legend_entries(panels[0], picture)
    figure.legend(*entries, columnspacing=1.4, handletextpad=0.5, **place)
    figure.align_labels()


def _legend_entries(ax: Axes, picture: PosteriorPicture) -> tuple[list[Any], list[str]]:
    """Return the handles and labels of a legend."""
    marks = [*(name for name, _ in picture.observations()), "recommended"]
    if len(picture.bandit.pending):
        marks.insert(-1, "pending")
    handles, labels = ax.get_legend_handles_labels()
    return handles + [ax.scatter([], [], **MARK_STYLES[name]) for name in marks], labels + marks


# --- curves -------------------------------------------------------------------------------------------


def _draw_slices(
    picture: PosteriorPicture,
    panels: list[Axes],
    *,
    curve_points: int = 401,
    most_separate: int = 40,
) -> None:
    """Draw the posterior along each axis, through the recommended point.

    It is a curve with `curve_points` points, or, for at most `most_separate` values, bars at these. For
    candidates on a line, the points are the candidates.
    """
    domain = picture.bandit.recipe.domain
    for i, (axis, ax) in enumerate(zip(picture.axes, panels, strict=True)):
        positions = axis.choose_positions(curve_points)
        are_separate = 0 < axis.kind.size <= most_separate
        if isinstance(domain, Candidates):
            positions = np.sort(axis.positions_of(domain.X))
            are_separate = len(positions) <= most_separate
        _draw_slice(picture, ax, axis, positions, are_separate=are_separate)
        if i % 3 == 0:
            ax.set_ylabel(label_of("reward", picture.unit))


def _draw_slice(
    picture: PosteriorPicture, ax: Axes, axis: DomainAxis, positions: Array, *, are_separate: bool
) -> None:
    """Draw mean and band along an axis through the recommended point, with all observations."""
    mean, deviation = picture.predict(picture.move_best(axis, positions))
    half_width = BAND * deviation
    if are_separate:
        ax.errorbar(positions, mean, half_width, **WHISKER)
    else:
        ax.plot(positions, mean, label=BAND_LABEL, color=BLUE, linewidth=1.6, zorder=3)
        band = mean - half_width, mean + half_width
        ax.fill_between(positions, *band, color=BLUE, alpha=0.16, linewidth=0, zorder=1)
    for name, data in picture.observations():
        X = np.column_stack([axis.positions_of(data.X), data.y])
        draw_observations(picture, ax, X, data.t, name)
    # Pending points have no reward, so they are drawn just above the axis.
    pending = axis.positions_of(picture.bandit.pending)
    X = np.column_stack([pending, np.full(len(pending), 0.03)])
    draw_marks(ax, X, "pending", transform=ax.get_xaxis_transform())
    best = picture.best[None, :]
    X = np.column_stack([axis.positions_of(best), picture.predict(best)[0]])
    draw_marks(ax, X, "recommended")
    axis.label(ax, "x")
    ax.grid(alpha=0.25, linewidth=0.6)


# --- maps ---------------------------------------------------------------------------------------------


def _draw_maps(
    picture: PosteriorPicture,
    panels: list[Axes],
    *,
    points_per_axis: int = 61,
    site_area: float = 130,
) -> None:
    """Draw maps of the mean and of the deviation: filled for a grid, or with sites as discs."""
    x_axis, y_axis = picture.axes
    domain = picture.bandit.recipe.domain

    def positions_of(X: Array) -> Array:
        return np.column_stack([x_axis.positions_of(X), y_axis.positions_of(X)])

    if isinstance(domain, Candidates):
        X, points = domain.X, positions_of(domain.X)
        xs, ys = np.unique(points[:, 0]), np.unique(points[:, 1])
        is_grid = len(xs) * len(ys) == len(points) and min(len(xs), len(ys)) > 1
    else:
        xs = x_axis.choose_positions(points_per_axis)
        ys = y_axis.choose_positions(points_per_axis)
        is_grid = True
    if is_grid:
        grids = zip(picture.axes, np.meshgrid(xs, ys), strict=True)
        X = np.hstack([axis.kind.columns(grid.ravel()) for axis, grid in grids])
    mean, deviation = picture.predict(X)
    # The lightness of these colour maps is uniform, so that they can be read in grey.
    maps = (mean, "mean", "viridis"), (deviation, "deviation", "cividis")
    for ax, (values, quantity, colours) in zip(panels, maps, strict=True):
        image: ScalarMappable
        if is_grid:
            grid = values.reshape(len(ys), len(xs))
            image = ax.pcolormesh(xs, ys, grid, cmap=colours, shading="nearest", rasterized=True)
        else:
            order = np.argsort(values)  # if discs overlap, the highest are on top
            ax.margins(0.08)
            style: dict[str, Any] = {"s": site_area, "edgecolors": "0.3", "linewidths": 0.6}
            x, y = points[order].T
            image = ax.scatter(x, y, c=values[order], cmap=colours, **style)
        ax.figure.colorbar(image, ax=ax, label=label_of(quantity, picture.unit), pad=0.02)
        for name, data in picture.observations():
            # Only the latest reading at each point is drawn.
            order = np.argsort(data.t, kind="stable")[::-1]
            latest = order[np.unique(data.X[order], axis=0, return_index=True)[1]]
            draw_observations(picture, ax, positions_of(data.X[latest]), data.t[latest], name)
        draw_marks(ax, positions_of(picture.bandit.pending), "pending")
        draw_marks(ax, positions_of(picture.best[None, :]), "recommended")
        x_axis.label(ax, "x")
        y_axis.label(ax, "y")


# --- ranking ------------------------------------------------------------------------------------------


def _draw_ranking(picture: PosteriorPicture, panels: list[Axes]) -> None:
    """Draw the best candidates by rank, with their bands."""
    ax, domain = panels[0], picture.bandit.recipe.domain
    assert isinstance(domain, Candidates)
    mean, deviation = picture.predict(domain.X)
    sign = 1.0 if picture.bandit.recipe.minimize else -1.0
    top = np.argsort(sign * mean, kind="stable")[:MOST_RANKED]
    ranks = np.arange(len(top), dtype=np.float64)
    ax.errorbar(mean[top], ranks, xerr=BAND * deviation[top], **WHISKER)
    rank_of = {int(row): rank for rank, row in enumerate(top)}
    for name, data in picture.observations():
        rows = domain.index(data.X)
        is_visible = np.isin(rows, top)
        visible_ranks = [rank_of[row] for row in rows[is_visible].tolist()]
        X = np.column_stack([data.y[is_visible], np.array(visible_ranks, dtype=np.float64)])
        draw_observations(picture, ax, X, data.t[is_visible], name)
    pending = domain.index(picture.bandit.pending).tolist()
    X = np.array([[0.02, rank_of[row]] for row in pending if row in rank_of]).reshape(-1, 2)
    draw_marks(ax, X, "pending", transform=ax.get_yaxis_transform())
    best = int(domain.index(picture.best)[0])
    if best in rank_of:  # among candidates with equal means, it may not be one of the best 25
        draw_marks(ax, np.array([[mean[best], rank_of[best]]]), "recommended")
    ax.set_yticks(ranks, _names_of(domain, top))
    ax.invert_yaxis()
    ax.set_xlabel(label_of("reward", picture.unit))
    label = "candidates"
    if len(top) < len(domain):
        label += f", the best {len(top)} of {len(domain)}"
    columns = f" ({', '.join(domain.space.names)})" if isinstance(domain, Table) else ""
    ax.set_ylabel(label + columns, labelpad=8)
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)


def _names_of(domain: Candidates, rows: Index) -> list[str]:
    """Return names of candidates: the values in their row of a table, or the number of the row."""
    if not isinstance(domain, Table):
        return [f"row {row}" for row in rows]
    frame = domain.decode(domain.X[rows])
    return [
        ", ".join(format_number(v) if isinstance(v, float) else str(v) for v in row)
        for row in frame.itertuples(index=False, name=None)
    ]
