"""Whether two states are the same to the last bit."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def fingerprint(value: Any) -> Any:
    """Something that is equal for two states exactly where they agree bit for bit.

    Where and how arrays are stored is left out.
    """
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), np.ascontiguousarray(value).tobytes()
    if hasattr(value, "buffer"):  # rows that grow: what is behind the last one is not theirs
        return fingerprint(value.array)
    if is_dataclass(value):
        names = [each.name for each in fields(value) if each.name != "storage"]
        return {name: fingerprint(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {name: fingerprint(entry) for name, entry in value.items()}
    return repr(value)
