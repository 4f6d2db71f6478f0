"""The form of the rows of a journal: canonical JSON, with a checksum that covers the row before it.

A row that was changed, removed, inserted or moved changes every checksum from there on. Rows that were
removed at the end are noticed by whoever remembers the last checksum. The checksums are not signatures:
whoever knows this package can write a journal that says anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvbandits.io import to_plain
from tvbandits.validation import Array


def to_json(body: Mapping[str, Any]) -> str:
    """Return JSON that is the same for equal bodies; numbers that JSON does not have become texts."""
    return json.dumps(to_plain(body, str), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(before: str, *cells: object) -> str:
    """Return the checksum of a row whose predecessor has the checksum `before`."""
    whole = json.dumps([before, *cells], separators=(",", ":"))
    return hashlib.sha256(whole.encode()).hexdigest()


def to_array(values: Any) -> Array:
    """Return numbers of a body as an array; the text "nan" becomes NaN."""
    return np.asarray(values, dtype=np.float64)


def to_points(values: Any, dimension: int) -> Array:
    """Return points (n, d) of a body; arms that were added later are more coordinates, which are 0."""
    X = to_array(values)
    if X.ndim == 2 and 0 < X.shape[1] < dimension:
        return np.pad(X, ((0, 0), (0, dimension - X.shape[1])))
    return X.reshape(-1, dimension)
