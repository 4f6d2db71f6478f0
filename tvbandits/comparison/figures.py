"""Helpers of all pictures: figures that notebooks display, checks of a user's axes, and labels."""

from __future__ import annotations

from io import BytesIO
from typing import Any, TypeAlias, cast

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tvbandits.validation import check_instance


class NotebookFigure(Figure):
    """A figure with a size in inches (width, height) that a notebook displays as a picture.

    It is not registered with pyplot, which would keep it in memory until it is closed.
    """

    def __init__(self, size: tuple[float, float]) -> None:
        super().__init__(figsize=size, layout="constrained")
        FigureCanvasAgg(self)

    def png(self, dpi: int = 100) -> bytes:
        """Return the picture in PNG format, with a resolution of `dpi` dots per inch."""
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=dpi)
        return picture.getvalue()

    def _repr_png_(self) -> bytes:
        return self.png()


Place: TypeAlias = dict[str, Any]

# The place of the legend in a figure of ours, and within a user's axes, which may have neighbours.
BESIDE: Place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False}
WITHIN: Place = {"loc": "best"}


def check_axes(ax: object, panels: int, remedy: str) -> Axes:
    """Return a user's axes; raise a `ValueError` with the remedy if the picture has several panels."""
    check_instance("ax", ax, Axes, "matplotlib Axes")
    if panels != 1:
        raise ValueError(f"ax holds one panel, and {panels} are needed: {remedy}")
    return cast(Axes, ax)


def label_of(quantity: str, unit: str) -> str:
    """Return the label of a quantity, with its unit if it has one."""
    return f"{quantity} ({unit})" if unit else quantity
