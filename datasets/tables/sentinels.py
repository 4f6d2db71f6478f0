"""Numbers that may stand for no reading, such as -999: a person says whether they do."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from tvbandits.datasets.tables.layout import FileOptions
from tvbandits.option_text import option_text

# Numbers that often stand for no reading: -99, -999.0, 9999, -7999, -32768, 1e30.
SENTINEL = re.compile(
    r"-9{2,}(\.[09]+)?|9{4,}(\.[09]+)?|-?[67]999(\.0+)?|-32768(\.0+)?|-?1e\+(20|30|3[56])"
)


def find_sentinels(values: pd.DataFrame, options: FileOptions) -> dict[str, int]:
    """Return numbers that may stand for no reading, and how often they do: -999 far below all others."""
    numbers = pd.Series(values.to_numpy(float).ravel()).dropna()
    counts = numbers.value_counts()
    texts = {each: f"{each:.10g}" for each in counts.index}
    codes = [each for each in counts.index if SENTINEL.fullmatch(texts[each])]
    if not codes or "none" in options.missing:
        return {}
    others = numbers[~numbers.isin(codes)]
    low, high = (others.min(), others.max()) if len(others) else (np.inf, -np.inf)
    return {texts[each]: int(counts[each]) for each in codes if not low <= each <= high}


def check_sentinels(values: pd.DataFrame, options: FileOptions) -> None:
    """Raise a `ValueError` if numbers may stand for no reading, and nobody has said so."""
    for code, count in find_sentinels(values, options).items():
        raise ValueError(sentinel_text(code, f"comes {count} time{'s' * (count > 1)}"))


def sentinel_text(code: str, what: str = "is there") -> str:
    """Return the question about a number that may stand for no reading: "-999" or "-999 of Nord"."""
    number = code.partition(" ")[0]
    return (
        f"{code} {what}, outside of all other values: if it stands for no reading, say "
        f"{option_text('missing', number)}, and otherwise {option_text('missing', 'none')}"
    )
