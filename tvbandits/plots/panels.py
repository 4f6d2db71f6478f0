"""A picture of what a bandit believes, and of what it believes it from.

What is drawn depends on the domain: a curve with its band over one number; maps of the mean and of the
deviation over two; candidates by rank, or slices through the recommended point, over more.

What a picture of beliefs shows: a bandit at a time along some axes, and the looks of its marks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array, Index
from tvbandits.core.candidates import Candidates
from tvbandits.core.observations import Observations
from tvbandits.core.parameters import Category, Integer, Real
from tvbandits.core.protocols import Domain
from tvbandits.core.space import Table, space_of
from tvbandits.gp.kernels.additive import ends_of
from tvbandits.plots.figure import NotebookFigure
from tvbandits.validation import of_kind

# Half the width of a band, in posterior deviations.
BAND = 2.0
BAND_LABEL = f"mean ± {BAND:g} deviations"

# So many values are drawn one by one.
SEPARATE = 40

# From dark to light in even steps, also in grey.
MEAN_COLOURS, SPREAD_COLOURS = "viridis", "cividis"

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

# Opacity of the oldest rewards and answers.
FAINTEST = 0.15

# Area of a candidate on a map of sites.
SITE = 130


@dataclass(frozen=True)
class Axis:
    """A coordinate, or a category's several: its name, its columns, and its values."""

    name: str
    where: slice
    kind: Real | Integer | Category

    def of(self, X: Array) -> Array:
        """Positions (n,) of points (n, d) along it; categories count from 0."""
        columns = X[:, self.where]
        positions = columns.argmax(axis=1) if isinstance(self.kind, Category) else columns[:, 0]
        return np.asarray(positions, dtype=np.float64)

    def values(self, most: int) -> Array:
        """Positions (m,) to draw at: all, where they are few and apart."""
        return np.unique(self.kind.from_unit(np.linspace(0.0, 1.0, most)))


@dataclass(frozen=True)
class Picture:
    """All that is drawn, in the user's sign and unit."""

    bandit: Bandit
    t: float
    axes: tuple[Axis, ...]
    unit: str
    best: Array

    @classmethod
    def of(cls, bandit: Bandit, t: float | None, unit: str) -> Picture:
        """Look at a bandit once."""
        latest = bandit.state.time
        if t is None:
            t = 1.0 if latest is None else latest + 1.0
        best = bandit._best(t, None)  # which checks the time
        return cls(bandit, float(t), _axes_of(bandit.recipe.domain), unit, best)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and deviation (m,) at points (m, d)."""
        return self.bandit.predict(X, self.t)

    def seen(self) -> list[tuple[str, Observations]]:
        """Rewards and answers, by the names of their marks, where there are any."""
        state = self.bandit.state
        both = (("reward", state.rewards), ("answer", state.answers))
        return [(name, seen) for name, seen in both if len(seen)]

    def along(self, axis: Axis, positions: Array) -> Array:
        """The recommended point, moved along an axis to each of the positions, (m, d)."""
        X = np.repeat(self.best[None, :], len(positions), axis=0)
        X[:, axis.where] = axis.kind.columns(positions)
        return X


def _axes_of(domain: Domain) -> tuple[Axis, ...]:
    """The coordinates of a domain, with names and ranges."""
    space = space_of(domain)
    if space is not None:
        parts = zip(space.columns.items(), space.parameters, strict=True)
        return tuple(Axis(name, where, part) for (name, where), part in parts)
    low, high = ends_of(domain)
    high = np.where(high > low, high, low + 1.0)  # of a single value
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return tuple(Axis(f"x{i}", slice(i, i + 1), Real(*pair)) for i, pair in enumerate(ends))


def mark(ax: Axes, X: Array, name: str, **more: Any) -> None:
    """Marks at the positions `X` (n, 2)."""
    ax.scatter(*X.T, **{"zorder": 6, "clip_on": False, "label": f"_{name}", **LOOKS[name], **more})


def seen_marks(picture: Picture, ax: Axes, X: Array, t: Array, name: str) -> None:
    """Rewards or answers of times `t` (n,) at `X` (n, 2), the older the fainter, the latest on top."""
    oldest = max(float((picture.t - seen.t).max()) for _, seen in picture.seen())
    age = np.clip(picture.t - t, 0.0, None) / max(oldest, 1e-12)
    strength = FAINTEST + (1 - FAINTEST) * np.exp(-3.0 * age)
    order = np.argsort(strength, kind="stable")
    above = 5 if name == "reward" else 4
    mark(ax, X[order], name, alpha=strength[order], zorder=above, clip_on=True)


def label_of(what: str, unit: str) -> str:
    """A label with its unit, if there is one."""
    return f"{what} ({unit})" if unit else what


# Points of a curve, and of a map along an axis; candidates shown.
CURVE, GRID, RANKED = 401, 61, 25


def beliefs(bandit: Bandit, t: float | None = None, *, unit: str = "") -> Figure:
    """Draw the posterior of a bandit at a time, with what was told, answered, and is still out.

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
        The time spoken about; by default the time of the next decision.
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
    >>> bandit = policies.adaptive_gp_ucb(Candidates(np.linspace(0, 10, 21)[:, None]), RBF(1.0), 0.01)
    >>> info = bandit.tell([[2.0], [8.0]], [0.1, 0.7], 1)
    >>> figure = plots.beliefs(bandit, unit="mg/l")
    >>> figure.savefig("beliefs.png")
    """
    of_kind("bandit", bandit, Bandit, "a Bandit")
    picture = Picture.of(bandit, t, unit)
    domain, axes_of = bandit.recipe.domain, picture.axes
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


# --- where it is drawn --------------------------------------------------------------------------------


def _finish(figure: Figure, where: list[Axes], picture: Picture) -> None:
    """The title, and the legend outside of what is drawn."""
    title = f"beliefs at t = {picture.t:g}"
    if len(where) > 2:
        title += ", through the recommended point"
    present = [*(name for name, _ in picture.seen()), "recommended"]
    if len(picture.bandit.pending):
        present.insert(-1, "pending")
    handles, labels = where[0].get_legend_handles_labels()
    handles += [where[0].scatter([], [], **LOOKS[name]) for name in present]
    figure.suptitle(title, fontsize=11)
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": 5, "frameon": False}
    figure.legend(handles, labels + present, columnspacing=1.4, handletextpad=0.5, **place)
    figure.align_labels()


# --- curves -------------------------------------------------------------------------------------------


def _draw_slices(picture: Picture, where: list[Axes]) -> None:
    """A curve for each axis; over candidates on a line it goes through them."""
    domain = picture.bandit.recipe.domain
    for i, (axis, ax) in enumerate(zip(picture.axes, where, strict=True)):
        positions, apart = axis.values(CURVE), 0 < axis.kind.size <= SEPARATE
        if isinstance(domain, Candidates):
            positions = np.sort(domain.X[:, 0])
            apart = len(positions) <= SEPARATE
        _curve(picture, ax, axis, positions, apart=apart)
        if i % 3 == 0:
            ax.set_ylabel(label_of("reward", picture.unit))


def _curve(picture: Picture, ax: Axes, axis: Axis, positions: Array, *, apart: bool) -> None:
    """Mean and band along an axis through the recommended point, and everything that was seen."""
    mean, deviation = picture.predict(picture.along(axis, positions))
    reach = BAND * deviation
    if apart:
        ax.errorbar(positions, mean, reach, **WHISKER)
    else:
        ax.plot(positions, mean, label=BAND_LABEL, color=BLUE, linewidth=1.6, zorder=3)
        band = mean - reach, mean + reach
        ax.fill_between(positions, *band, color=BLUE, alpha=0.16, linewidth=0, zorder=1)
    for name, seen in picture.seen():
        seen_marks(picture, ax, np.column_stack([axis.of(seen.X), seen.y]), seen.t, name)
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


def _draw_maps(picture: Picture, where: list[Axes]) -> None:
    across, up = picture.axes
    domain = picture.bandit.recipe.domain
    if isinstance(domain, Candidates):
        points = domain.X
        xs, ys = np.unique(points[:, 0]), np.unique(points[:, 1])
        filled = len(xs) * len(ys) == len(points) and min(len(xs), len(ys)) > 1
    else:
        xs, ys = across.values(GRID), up.values(GRID)
        filled = True
    if filled:
        points = np.column_stack([part.ravel() for part in np.meshgrid(xs, ys)])
    mean, deviation = picture.predict(points)
    shown = (mean, "mean", MEAN_COLOURS), (deviation, "deviation", SPREAD_COLOURS)
    for ax, (values, what, colours) in zip(where, shown, strict=True):
        drawn: ScalarMappable
        if filled:
            grid = values.reshape(len(ys), len(xs))
            drawn = ax.pcolormesh(xs, ys, grid, cmap=colours, shading="nearest", rasterized=True)
        else:
            order = np.argsort(values)  # the highest lie on top, where they crowd
            ax.margins(0.08)
            look: dict[str, Any] = {"s": SITE, "edgecolors": "0.3", "linewidths": 0.6}
            x, y = points[order].T
            drawn = ax.scatter(x, y, c=values[order], cmap=colours, **look)
        ax.figure.colorbar(drawn, ax=ax, label=label_of(what, picture.unit), pad=0.02)
        for name, seen in picture.seen():
            # A place that was seen often is drawn as of the last time.
            order = np.argsort(seen.t, kind="stable")[::-1]
            last = order[np.unique(seen.X[order], axis=0, return_index=True)[1]]
            seen_marks(picture, ax, seen.X[last], seen.t[last], name)
        mark(ax, picture.bandit.pending, "pending")
        mark(ax, picture.best[None, :], "recommended")
        ax.set_xlabel(across.name)
        ax.set_ylabel(up.name)


# --- ranking ------------------------------------------------------------------------------------------


def _draw_ranking(picture: Picture, where: list[Axes]) -> None:
    ax, domain = where[0], picture.bandit.recipe.domain
    assert isinstance(domain, Candidates)
    mean, deviation = picture.predict(domain.X)
    sign = 1.0 if picture.bandit.recipe.minimise else -1.0
    top = np.argsort(sign * mean, kind="stable")[:RANKED]
    places = np.arange(len(top), dtype=np.float64)
    ax.errorbar(mean[top], places, xerr=BAND * deviation[top], **WHISKER)
    place_of = {int(row): place for place, row in enumerate(top)}
    for name, seen in picture.seen():
        rows = domain.index(seen.X)
        visible = np.isin(rows, top)
        lines = [place_of[row] for row in rows[visible].tolist()]
        X = np.column_stack([seen.y[visible], np.array(lines, dtype=np.float64)])
        seen_marks(picture, ax, X, seen.t[visible], name)
    out = domain.index(picture.bandit.pending).tolist()
    edge = [[0.02, place_of[row]] for row in out if row in place_of]
    mark(ax, np.array(edge).reshape(-1, 2), "pending", transform=ax.get_yaxis_transform())
    best = int(domain.index(picture.best)[0])
    if best in place_of:  # of equal ones it may be another one
        mark(ax, np.array([[mean[best], place_of[best]]]), "recommended")
    ax.set_yticks(places, _names_of(domain, top))
    ax.invert_yaxis()
    ax.set_xlabel(label_of("reward", picture.unit))
    left = len(domain) - len(top)
    told = f"candidates, the best {len(top)} of {len(domain)}" if left else "candidates"
    columns = f" ({', '.join(domain.space.names)})" if isinstance(domain, Table) else ""
    ax.set_ylabel(told + columns, labelpad=8)
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)


def _names_of(domain: Candidates, rows: Index) -> list[str]:
    """What people call candidates: the values of a table's row, or the row's number."""
    if not isinstance(domain, Table):
        return [f"row {row}" for row in rows]
    frame = domain.decode(domain.X[rows])
    return [
        ", ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row)
        for row in frame.itertuples(index=False, name=None)
    ]
