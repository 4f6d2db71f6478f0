"""The pictures on the page of a campaign: plain SVG, whose colours and width are those of the page.

Positions are shares of the width and the height, in percent, so that a picture suits any screen while
its text keeps its size. A mark has its words as a `title`, which a browser shows beside the pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from tvbandits.text import format_number
from tvbandits.validation import Array

# Letters of the longest name that stands in a picture, or beside it, in full.
LETTERS = 20


@dataclass(frozen=True)
class Axis:
    """An axis: the values at its ends, its title, and the texts at some values."""

    low: float
    high: float
    title: str
    ticks: Sequence[tuple[float, str]]

    @classmethod
    def around(
        cls,
        values: Array,
        title: str,
        label: Callable[[float], str] = format_number,
        count: int = 5,
    ) -> Axis:
        """Return the axis that shows all of some values, with up to `count` intervals between texts."""
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        # Room for the marks at the ends; also around a single value.
        room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
        low, high = low - room, high + room
        places = [t for t in MaxNLocator(count).tick_values(low, high) if low <= t <= high]
        return cls(low, high, title, [(t, label(t)) for t in places])

    @classmethod
    def of_names(cls, names: Sequence[str]) -> Axis:
        """Return an axis with a name at each of the values 0, -1, -2, ..."""
        return cls(0.5 - len(names), 0.5, "", [(-i, short(name)) for i, name in enumerate(names)])

    def share(self, values: Array) -> Array:
        """Return the positions of values between the ends, in percent, to two digits."""
        return np.round(100.0 * (values - self.low) / (self.high - self.low), 2)

    @property
    def positions(self) -> list[tuple[float, str]]:
        """Return the position of each text."""
        return [(float(self.share(np.array(at))), text) for at, text in self.ticks]


@dataclass(frozen=True)
class Picture:
    """A picture in frames, of which a slider shows one; it may have only one.

    Attributes
    ----------
    name, caption : str
    x, y : Axis
    frames : list of (str, Markup)
        The name of each frame, and its marks as SVG.
    first : int
        The frame that is shown first.
    legend : list of (str, str)
        The class of a mark, and what it stands for.
    scale : (str, str, str), optional
        The texts at the ends of a scale of colours, and its name.
    labels : list of (float, float, str)
        Names in the picture, at positions from the left and the bottom; of names that would cover each
        other the page shows the first.
    rows : int
        The number of names beside the picture, which need so much height.
    """

    name: str
    caption: str
    x: Axis
    y: Axis
    frames: list[tuple[str, Markup]]
    first: int = 0
    legend: list[tuple[str, str]] = field(default_factory=list)
    scale: tuple[str, str, str] | None = None
    labels: list[tuple[float, float, str]] = field(default_factory=list)
    rows: int = 0


def short(name: str) -> str:
    """Return a name that fits beside a picture."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1].rstrip()}…"


def mark(kind: str, x: float, y: float, text: str = "", colour: str = "currentColor") -> Markup:
    """Return a mark of a kind at a position in percent; `text` is shown beside the pointer."""
    title = Markup("<title>{}</title>").format(text) if text else ""
    return Markup('<use href="#{}" x="{:g}%" y="{:g}%" fill="{}">{}</use>').format(
        kind, x, 100 - y, colour, title
    )


def span(x: tuple[float, float], y: float, text: str) -> Markup:
    """Return a line from left to right at positions in percent."""
    return Markup(
        '<line class="span" x1="{:g}%" x2="{:g}%" y1="{:g}%" y2="{:g}%"><title>{}</title></line>'
    ).format(*x, 100 - y, 100 - y, text)


def path(kind: str, x: Array, y: Array) -> Markup:
    """Return a line through positions in percent, or the area in it, by the kind."""
    points = " ".join(f"{a:g},{100 - b:g}" for a, b in zip(x, y, strict=True))
    return _stretched(Markup('<path class="{}" d="M{}"/>').format(kind, points))


def dots(kind: str, x: Array, y: Array) -> Markup:
    """Return a dot at each of many positions in percent, in a few letters each."""
    points = "".join(f"M{a:g} {100 - b:g}h0" for a, b in zip(x, y, strict=True))
    return _stretched(Markup('<path class="{}" d="{}"/>').format(kind, points))


def _stretched(marks: Markup) -> Markup:
    """Return marks whose numbers are percents of the width and the height."""
    return Markup('<svg viewBox="0 0 100 100" preserveAspectRatio="none">{}</svg>').format(marks)


def join(marks: Iterable[Markup]) -> Markup:
    """Return marks one after another; later ones cover earlier ones."""
    return Markup("").join(marks)
