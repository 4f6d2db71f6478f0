"""What the pictures of beliefs and of comparisons share: figures of their own, and axes of a user's."""

from __future__ import annotations

from io import BytesIO
from typing import Any, TypeAlias, cast

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tvbandits.validation import check_instance


class NotebookFigure(Figure):
    """A figure of inches (width, height) that is a picture where it is a notebook's last expression.

    It belongs to no pyplot, which would keep it until it is closed.
    """

    def __init__(self, size: tuple[float, float]) -> None:
        super().__init__(figsize=size, layout="constrained")
        FigureCanvasAgg(self)

    def png(self, dpi: int = 100) -> bytes:
        """Return the picture in the format PNG, with so many dots an inch."""
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=dpi)
        return picture.getvalue()

    def _repr_png_(self) -> bytes:
        return self.png()


Place: TypeAlias = dict[str, Any]

# Where the legend of a figure stands, and that of axes of a user's, which may have neighbours.
BESIDE: Place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False}
WITHIN: Place = {"loc": "best"}


def check_axes(ax: object, panels: int, needs: str) -> Axes:
    """Return axes that are to hold so many panels; an error says what would need but one."""
    check_instance("ax", ax, Axes, "matplotlib Axes")
    if panels != 1:
        raise ValueError(f"ax holds one panel, and {panels} are needed: {needs}")
    return cast(Axes, ax)


def label_of(what: str, unit: str) -> str:
    """Return a label with its unit, if there is one."""
    return f"{what} ({unit})" if unit else what
