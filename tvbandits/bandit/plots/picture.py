"""What a picture of beliefs shows: a bandit at a time along some axes, and the looks of its marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array
from tvbandits.core.coercion import shown
from tvbandits.core.domains import Box, Candidates, Category, Integer, Real, space_of
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import Domain

SEPARATE = 40
"""So many values are drawn one by one."""

MEAN_COLOURS, SPREAD_COLOURS = "viridis", "cividis"
"""From dark to light in even steps, also in grey."""

LINE: dict[str, Any] = {"color": "#1f4e79", "linewidth": 1.6, "zorder": 3}
SHADE: dict[str, Any] = {"color": "#1f4e79", "alpha": 0.16, "linewidth": 0, "zorder": 1}
WHISKER: dict[str, Any] = {
    "color": "#1f4e79",
    "fmt": "_",
    "markersize": 9,
    "markeredgewidth": 1.8,
    "elinewidth": 5,
    "ecolor": "#1f4e7940",
    "zorder": 2,
}


def _look(shape: str, size: float, face: str, edge: str, width: float = 1.0) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": shape,
        "markersize": size,
        "markerfacecolor": face,
        "markeredgecolor": edge,
        "markeredgewidth": width,
    }


LOOKS = {
    "reward": _look("o", 5.5, "black", "white", 0.7),
    "answer": _look("D", 6.5, "none", "#a83200", 1.4),
    "pending": _look("^", 8.5, "#ffb000", "black"),
    "recommended": _look("*", 16, "#e63946", "white", 1.2),
}
"""Marks are told apart by their shapes, so that grey will do."""

FAINTEST = 0.15
"""Opacity of the oldest rewards and answers."""

SITE = 130
"""Area of a candidate on a map of sites."""


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
        kind = self.kind
        if isinstance(kind, Category):
            return np.arange(float(kind.size))
        if isinstance(kind, Integer):
            whole = np.linspace(kind.low, kind.high, min(kind.size, most))
            return np.unique(np.rint(whole))
        return np.linspace(kind.low, kind.high, most)

    def apart(self) -> bool:
        """Whether its values are drawn one by one."""
        return 0 < self.kind.size <= SEPARATE


@dataclass(frozen=True)
class Picture:
    """All that is drawn, in the user's sign and unit."""

    bandit: Bandit
    t: float
    axes: tuple[Axis, ...]
    unit: str
    band: float
    best: Array

    @classmethod
    def of(
        cls, bandit: Bandit, t: float | None, names: Sequence[str] | None, unit: str, band: float
    ) -> Picture:
        """Look at a bandit once."""
        latest = bandit.state.time
        if t is None:
            t = 1.0 if latest is None else latest + 1.0
        best = bandit._best(t, None)  # which checks the time
        axes = _axes_of(bandit.recipe.domain, names)
        return cls(bandit, float(t), axes, unit, float(band), best)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and deviation (m,) at points (m, d)."""
        return self.bandit.predict(X, self.t)

    def seen(self) -> list[tuple[str, Observations]]:
        """Rewards and answers, by the names of their marks, where there are any."""
        state = self.bandit.state
        both = (("reward", state.rewards), ("answer", state.answers))
        return [(name, seen) for name, seen in both if len(seen)]

    @property
    def oldest(self) -> float:
        """Age of the oldest of them."""
        return max((float((self.t - seen.t).max()) for _, seen in self.seen()), default=0.0)

    def along(self, axis: Axis, positions: Array) -> Array:
        """The recommended point, moved along an axis to each of the positions, (m, d)."""
        X = np.repeat(self.best[None, :], len(positions), axis=0)
        X[:, axis.where] = axis.kind.columns(positions)
        return X


def _axes_of(domain: Domain, names: Sequence[str] | None) -> tuple[Axis, ...]:
    """The coordinates of a domain, with names and ranges."""
    space = space_of(domain)
    if space is not None:
        columns = space.columns
        parts = zip(space.names, space.parameters, strict=True)
        axes = [Axis(name, columns[name], part) for name, part in parts]
    else:
        if isinstance(domain, Box):
            low, high = domain.bounds.T
        else:
            points = domain.X if isinstance(domain, Candidates) else _drawn(domain)
            low, high = points.min(axis=0), points.max(axis=0)
        high = np.where(high > low, high, low + 1.0)  # of a single value
        ends = zip(low.tolist(), high.tolist(), strict=True)
        axes = [Axis(f"x{i}", slice(i, i + 1), Real(*pair)) for i, pair in enumerate(ends)]
    if names is not None:
        if isinstance(names, str) or len(names) != len(axes):
            raise ValueError(f"names must be {len(axes)} texts, got {shown(names)}")
        axes = [Axis(str(n), axis.where, axis.kind) for n, axis in zip(names, axes, strict=True)]
    return tuple(axes)


def _drawn(domain: Domain) -> Array:
    """Points of a domain that is neither finite nor a box, to see how far it reaches."""
    return domain.sample(1024, np.random.default_rng(0))


def mark(ax: Axes, X: Array, name: str, **more: Any) -> None:
    """Marks at the positions `X` (n, 2)."""
    ax.plot(*X.T, **{"zorder": 6, "clip_on": False, **LOOKS[name], **more})


def seen_marks(
    picture: Picture, ax: Axes, X: Array, t: Array, name: str, *, on: str = "paper"
) -> None:
    """Rewards or answers of times `t` (n,) at `X` (n, 2), the older the fainter, the latest on top.

    `on` says what they stand out from: "paper", a coloured "map", or the "sites" that they belong to.
    """
    look, fill = LOOKS[name], LOOKS[name]["markerfacecolor"]
    age = np.clip(picture.t - t, 0.0, None) / max(picture.oldest, 1e-12)
    strength = FAINTEST + (1 - FAINTEST) * np.exp(-3.0 * age)
    order = np.argsort(strength, kind="stable")
    hollow, size = fill == "none", look["markersize"] ** 2
    if on == "sites":  # a dot in a site, and a frame around it
        size = 2.4 * SITE if hollow else size
    elif on == "map" and hollow:
        fill = "white"
    # On colours a white rim is all that tells a faint dot from a dark place.
    rim = np.ones(len(X)) if on != "paper" and not hollow else strength
    ax.scatter(
        X[order, 0],
        X[order, 1],
        s=size,
        marker=look["marker"],
        facecolors="none" if fill == "none" else _faint(fill, strength[order]),
        edgecolors=_faint(look["markeredgecolor"], rim[order]),
        linewidths=look["markeredgewidth"],
        zorder=4 if hollow else 5,
    )


def _faint(colour: str, strength: Array) -> list[tuple[float, float, float, float]]:
    """A colour in each of some opacities (n,)."""
    red, green, blue, _ = to_rgba(colour)
    return [(red, green, blue, float(opacity)) for opacity in strength]


def label_of(what: str, unit: str) -> str:
    """A label with its unit, if there is one."""
    return f"{what} ({unit})" if unit else what
