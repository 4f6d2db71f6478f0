"""Checks for numbers that may stand for a missing reading, such as -999; the user decides about them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from tvbandits.datasets.tables.layout import FileOptions
from tvbandits.option_text import format_option

# Numbers that often stand for a missing reading: -99, -999.0, 9999, -7999, -32768, 1e30, 9.96921e+36.
SENTINEL = re.compile(
    r"-9{2,}(\.[09]+)?|9{4,}(\.[09]+)?|-?[67]999(\.0+)?|-32768(\.0+)?"
    r"|-?\d(\.\d+)?e\+([2-9]\d|\d{3})"
)


def code_text(number: float) -> str:
    """Return the text of a number for the option `missing`, which has as many digits as it needs.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.datasets.tables.sentinels import code_text
    >>> print(code_text(-999.0), code_text(float(np.float32(-999.9))))
    -999 -999.9000244140625
    """
    text = f"{number:.10g}"
    return text if float(text) == number else repr(float(number))


def find_sentinels(values: pd.DataFrame, options: FileOptions) -> dict[str, int]:
    """Return the numbers that may stand for a missing reading, and their counts.

    Such a number, for example -999, is outside of the range of all others.
    """
    numbers = pd.Series(values.to_numpy(float).ravel()).dropna()
    counts = numbers.value_counts()
    codes = [
        number
        for number in counts.index
        if SENTINEL.fullmatch(f"{number:.10g}") or SENTINEL.fullmatch(f"{number:.6g}")
    ]
    if not codes or "none" in options.missing:
        return {}
    others = numbers[~numbers.isin(codes)]
    low, high = (others.min(), others.max()) if len(others) else (np.inf, -np.inf)
    return {code_text(code): int(counts[code]) for code in codes if not low <= code <= high}


def check_sentinels(values: pd.DataFrame, options: FileOptions) -> None:
    """Raise a `ValueError` if a number may stand for a missing reading, unless the options decide."""
    for code, count in find_sentinels(values, options).items():
        raise ValueError(describe_sentinel(code, f"comes {count} time{'s' * (count > 1)}"))


# A value is a spike if it is more than this fraction of all values, and occurs so many times as often
# as the median of so many neighbours on each side; at least so many values must be different.
SPIKE_SHARE, SPIKE_TIMES, SPIKE_BESIDE, FEWEST_VALUES = 0.05, 10, 5, 20


def describe_spikes(values: pd.DataFrame, options: FileOptions) -> list[str]:
    """Return a sentence for each value that is far more frequent than its neighbours, such as no rain.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.layout import FileOptions
    >>> from tvbandits.datasets.tables.sentinels import describe_spikes
    >>> values = pd.DataFrame({"value": [*np.linspace(-3, 3, 180), *[0.0] * 20]})
    >>> print(describe_spikes(values, FileOptions())[0].partition(",")[0])
    0 is 10.0% of the values
    """
    counts = pd.Series(values.to_numpy(float).ravel()).dropna().value_counts().sort_index()
    if len(counts) < FEWEST_VALUES or "none" in options.missing:
        return []
    different, numbers, notes = counts.index.to_numpy(), counts.to_numpy(), list[str]()
    for i in np.flatnonzero(numbers > SPIKE_SHARE * numbers.sum()):
        neighbours = [*numbers[max(i - SPIKE_BESIDE, 0) : i], *numbers[i + 1 :][:SPIKE_BESIDE]]
        if numbers[i] >= SPIKE_TIMES * np.median(neighbours):
            text = code_text(different[i])
            notes.append(
                f"{text} is {numbers[i] / numbers.sum():.1%} of the values, far more than those near "
                f"it: if it stands for no reading, say {format_option('missing', text)}"
            )
    return notes


# A value is isolated if the gap to the others is more than a fraction of their range: a small one for 0
# and -1, which often stand for a missing reading, and a large one for the lowest and the highest value.
ZERO_GAP, EXTREME_GAP = 0.25, 1.0


def describe_isolated_values(values: pd.DataFrame, options: FileOptions) -> list[str]:
    """Return a sentence if 0, -1, the lowest or the highest value is far from all other values.

    Such a value often means a missing reading.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.layout import FileOptions
    >>> from tvbandits.datasets.tables.sentinels import describe_isolated_values
    >>> values = pd.DataFrame({"value": [*np.linspace(12, 20, 98), 0.0, 0.0]})
    >>> print(describe_isolated_values(values, FileOptions())[0].partition(":")[0])
    0 comes 2 times, far from all other values, which are 12 to 20
    """
    numbers = pd.Series(values.to_numpy(float).ravel()).dropna()
    gaps = dict.fromkeys((numbers.min(), numbers.max()), EXTREME_GAP) | {
        0.0: ZERO_GAP,
        -1.0: ZERO_GAP,
    }
    counts = {code: int((numbers == code).sum()) for code in gaps}
    others = numbers[~numbers.isin([*counts])]
    if "none" in options.missing or not any(counts.values()) or others.nunique() < FEWEST_VALUES:
        return []
    low, high = others.min(), others.max()
    isolated = [
        code
        for code, count in counts.items()
        if max(low - code, code - high) > gaps[code] * (high - low)
        and 0 < count < SPIKE_SHARE * len(numbers)
    ]
    usual = numbers[~numbers.isin(isolated)]
    return [
        f"{code_text(code)} comes {counts[code]} time{'s' * (counts[code] > 1)}, far from all other "
        f"values, which are {usual.min():g} to {usual.max():g}: if it stands for no reading, say "
        f"{format_option('missing', code_text(code))}"
        for code in isolated
    ]


def describe_sentinel(code: str, occurrence: str = "is there") -> str:
    """Return the question about a number that may be a missing reading: "-999" or "-999 of Nord"."""
    number = code.partition(" ")[0]
    return (
        f"{code} {occurrence}, outside of all other values: if it stands for no reading, say "
        f"{format_option('missing', number)}, and otherwise {format_option('missing', 'none')}"
    )
