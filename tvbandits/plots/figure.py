"""Figures that need no window: a notebook shows one as a picture, a script saves it."""

from __future__ import annotations

from io import BytesIO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure of inches (width, height) that is a picture where it is a notebook's last expression.

    It belongs to no pyplot, which would keep it until it is closed.
    """

    def __init__(self, size: tuple[float, float]) -> None:
        super().__init__(figsize=size, layout="constrained")
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()
