"""What a journal is made of: rows in one form, each with a checksum of itself and of the row before it.

A row that was changed, left out, put in or moved gives another checksum from there on; what is cut off
behind the last row that is left is seen by whoever keeps the last checksum. They are no signature: who
knows this package can write a journal that says anything.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array


def as_text(body: Mapping[str, Any]) -> str:
    """A body in one form, the same for equal bodies; numbers that JSON does not know are texts."""
    return json.dumps(_plain(body), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def digest_of(before: str, *cells: object) -> str:
    """The checksum of a row after another one's."""
    whole = json.dumps([before, *cells], separators=(",", ":"))
    return hashlib.sha256(whole.encode()).hexdigest()


def numbers(values: Any) -> Array:
    """A column out of a body, with NaN where it says so."""
    return np.asarray(values, dtype=np.float64)
