"""What a journal is made of: rows in one form, each with a checksum of itself and of the row before it.

A row that was changed, left out, put in or moved gives another checksum from there on; what is cut off
behind the last row that is left is seen by whoever keeps the last checksum. They are no signature: who
knows this package can write a journal that says anything.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvbandits.validation import Array


def as_text(body: Mapping[str, Any]) -> str:
    """A body in one form, the same for equal bodies; numbers that JSON does not know are texts."""
    return json.dumps(plain(body, str), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any, odd: Callable[[float], str | None]) -> Any:
    """Plain values for JSON; dates are texts, and `odd` takes the place of what is NaN or infinite."""
    if hasattr(value, "tolist"):
        return plain(value.tolist(), odd)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return odd(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each, odd) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, odd) for each in value]
    return value


def without_nan(value: Any) -> Any:
    """Plain values for JSON; what is NaN or infinite becomes null."""
    return plain(value, lambda _: None)


def digest_of(before: str, *cells: object) -> str:
    """The checksum of a row after another one's."""
    whole = json.dumps([before, *cells], separators=(",", ":"))
    return hashlib.sha256(whole.encode()).hexdigest()


def numbers(values: Any) -> Array:
    """A column out of a body, with NaN where it says so."""
    return np.asarray(values, dtype=np.float64)


def points(values: Any, dimension: int) -> Array:
    """Points (n, d) out of a body; arms that were added since are coordinates more, which are 0."""
    X = numbers(values)
    if X.ndim == 2 and 0 < X.shape[1] < dimension:
        return np.pad(X, ((0, 0), (0, dimension - X.shape[1])))
    return X.reshape(-1, dimension)
