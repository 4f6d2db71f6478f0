"""A picture for dark pages: `python docs/making/dark.py PICTURE.png` writes PICTURE-dark.png beside it.

Lightness is turned round and the hue stays.
"""

from __future__ import annotations

import io
import sys
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


if __name__ == "__main__":
    for name in sys.argv[1:]:
        given = Path(name)
        made = Image.fromarray(darkened(pixels(given)))
        made.save(given.with_name(f"{given.stem}-dark.png"), optimize=True)
