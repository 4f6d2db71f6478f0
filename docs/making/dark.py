"""A picture for dark pages from one for light pages: lightness is turned round and the hue stays.

A picture that has PICTURE-dark.png beside it does not need this. Those are drawn in the colours of
`dark.mplstyle`: of the concepts by `pictures.py`, of the leaderboard by `boards.py`, of the README by

    MATPLOTLIBRC=docs/making/dark.mplstyle tvbandits compare drifting-bump ... --out DIR

The others are turned round while the site is built. Some come from runs of minutes to hours; the
rest are of examples, each of which would have to run twice. Most are grey, and become light greys.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

PAPER = 0.07
"""What white becomes."""

HALF_TURN = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])
"""CSS's hue-rotate(180deg), which brings the hues of the inverted picture back."""


def darkened(light: np.ndarray) -> np.ndarray:
    """Pixels (height, width, 3) of 0 to 255 for a dark page."""
    inverted = 1.0 - (1.0 - PAPER) * light / 255.0
    return np.asarray(np.clip(255.0 * inverted @ HALF_TURN.T, 0, 255).round(), dtype=np.uint8)


def pixels(source: Path | io.BytesIO) -> np.ndarray:
    """The pixels of a picture on white."""
    with Image.open(source) as picture:
        drawn = picture.convert("RGBA")
        return np.asarray(
            Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn).convert("RGB")
        )
