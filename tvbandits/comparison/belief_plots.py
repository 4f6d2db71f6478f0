"""Pictures of the beliefs of a bandit."""

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
from tvbandits.domains.space import Table, space_of
from tvbandits.gp.additive import ends_of
from tvbandits.text import format_number
from tvbandits.validation import Array, Index, check_instance

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
    """A coordinate or a parameter: its name, its columns, and its values."""

    name: str
    where: slice
    kind: Parameter

    def of(self, X: Array) -> Array:
        """Return positions (n,) of points (n, d) along the axis; choices and categories count from 0."""
        columns = X[:, self.where]
        if isinstance(self.kind, Real):  # of a domain whose ends are a guess
            return columns[:, 0]
        return self.kind.codes(columns, self.name)

    def label(self, ax: Axes, which: Literal["x", "y"]) -> None:
        """Write the name at the axis, and the values of choices and categories."""
        ax.set(**{f"{which}label": self.name})
        if isinstance(self.kind, Choice | Category):
            ax.set_xticks(np.arange(self.kind.size), list(map(str, self.kind.levels)))
            ax.set_xlim(-0.5, self.kind.size - 0.5)
        elif isinstance(self.kind, Log):
            ax.set(**{f"{which}scale": "log"})

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
        best = bandit.find_best_point(t)  # which checks the time
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


# The number of candidates in a ranking.
RANKED = 25


@overload
def beliefs(bandit: Bandit, t: float | None = None, *, unit: str = "") -> Figure: ...
@overload
def beliefs(bandit: Bandit, t: float | None = None, *, unit: str = "", ax: Axes) -> Axes: ...
def beliefs(
    bandit: Bandit, t: float | None = None, *, unit: str = "", ax: Axes | None = None
) -> Figure | Axes:
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
    ax : matplotlib Axes, optional
        Axes of yours, for one number or for a ranking.

    Returns
    -------
    figure : matplotlib Figure, or the Axes that were given
        `figure.savefig("beliefs.png")` keeps it. Rewards and answers fade with their age.

    Raises
    ------
    ValueError
        If `bandit` is none, `t` is not finite, or `ax` are no axes or too few.

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
    picture = Picture.of(bandit, t, unit)
    domain, axes_of = bandit.recipe.domain, picture.axes
    draw: Callable[[Picture, list[Axes]], None]
    numbers = not any(isinstance(axis.kind, Choice | Category) for axis in axes_of)
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
    if ax is not None:
        axes = check_axes(ax, panels, "leave ax out")
        draw(picture, [axes])
        axes.set_title(f"beliefs at t = {picture.t:g}", fontsize=11)
        axes.legend(*_legend_entries(axes, picture), **WITHIN)
        return axes
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
    figure.suptitle(title, fontsize=11)
    place: Place = {"loc": "outside lower center", "ncols": 5, "frameon": False}
    entries = _legend_entries(where[0], picture)
    figure.legend(*entries, columnspacing=1.4, handletextpad=0.5, **place)
    figure.align_labels()


def _legend_entries(ax: Axes, picture: Picture) -> tuple[list[Any], list[str]]:
    """Return handles and labels of what is drawn."""
    present = [*(name for name, _ in picture.observations()), "recommended"]
    if len(picture.bandit.pending):
        present.insert(-1, "pending")
    handles, labels = ax.get_legend_handles_labels()
    return handles + [ax.scatter([], [], **LOOKS[name]) for name in present], labels + present


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
            positions = np.sort(axis.of(domain.X))
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
    axis.label(ax, "x")
    ax.grid(alpha=0.25, linewidth=0.6)


# --- maps ---------------------------------------------------------------------------------------------


def _draw_maps(
    picture: Picture, where: list[Axes], *, points_per_axis: int = 61, site_area: float = 130
) -> None:
    """Draw a map of the mean and one of the deviation: of a grid, or of sites as discs."""
    across, up = picture.axes
    domain = picture.bandit.recipe.domain

    def positions(X: Array) -> Array:
        return np.column_stack([across.of(X), up.of(X)])

    if isinstance(domain, Candidates):
        X, points = domain.X, positions(domain.X)
        xs, ys = np.unique(points[:, 0]), np.unique(points[:, 1])
        filled = len(xs) * len(ys) == len(points) and min(len(xs), len(ys)) > 1
    else:
        xs, ys = across.values(points_per_axis), up.values(points_per_axis)
        filled = True
    if filled:
        grids = zip(picture.axes, np.meshgrid(xs, ys), strict=True)
        X = np.hstack([axis.kind.columns(grid.ravel()) for axis, grid in grids])
    mean, deviation = picture.predict(X)
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
            mark_by_age(picture, ax, positions(data.X[last]), data.t[last], name)
        mark(ax, positions(picture.bandit.pending), "pending")
        mark(ax, positions(picture.best[None, :]), "recommended")
        across.label(ax, "x")
        up.label(ax, "y")


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
        ", ".join(format_number(v) if isinstance(v, float) else str(v) for v in row)
        for row in frame.itertuples(index=False, name=None)
    ]
