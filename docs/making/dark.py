"""Pictures for dark pages from pictures for light pages: lightness is inverted, and the hue stays.

Pictures with a file PICTURE-dark.png do not need this; they are drawn in the colours of
`dark.mplstyle`: the concepts by `pictures.py`, the leaderboard by `boards.py`, the README's by

    MATPLOTLIBRC=docs/making/dark.mplstyle tvbandits compare drifting-bump ... --out DIR

The other pictures are inverted while the site is built, since to draw them again takes minutes to
hours, or a second run of an example. Most of them are grey, and stay so.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

# The lightness, from 0 to 1, that white becomes.
PAPER = 0.07

# CSS's hue-rotate(180deg), which restores the hues of the inverted picture.
HALF_TURN = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])


def darken(light: np.ndarray) -> np.ndarray:
    """Return the pixels (height, width, 3), from 0 to 255, of a picture for a dark page."""
    inverted = 1.0 - (1.0 - PAPER) * light / 255.0
    return np.asarray(np.clip(255.0 * inverted @ HALF_TURN.T, 0, 255).round(), dtype=np.uint8)


def read_pixels(source: Path | io.BytesIO) -> np.ndarray:
    """Return the pixels (height, width, 3), from 0 to 255, of a picture on a white background."""
    with Image.open(source) as file:
        picture = file.convert("RGBA")
        background = Image.new("RGBA", picture.size, "white")
        return np.asarray(Image.alpha_composite(background, picture).convert("RGB"))
