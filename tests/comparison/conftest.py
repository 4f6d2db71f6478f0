"""Comparisons without their pictures, where a test reads numbers and texts alone."""

from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save one white dot for each figure: to draw it takes longer than a small comparison."""

    def save(_: Figure, path: Any, **__: Any) -> None:
        Image.new("RGB", (1, 1), "white").save(path, "PNG")

    monkeypatch.setattr(Figure, "savefig", save)
