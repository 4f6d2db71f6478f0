"""What experts that stand around other experts share."""

from __future__ import annotations

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.core.coercion import shown
from tvbandits.core.protocols import Answers, Expert, checked_answers


def checked_expert(expert: Expert, name: str = "expert") -> Expert:
    """Return `expert`; a `ValueError` if it cannot be asked."""
    kinds = (type, np.ndarray, str, int, float)
    if isinstance(expert, kinds) or not callable(getattr(expert, "query", None)):
        raise ValueError(f"{name} must have a method query(X, t), got {shown(expert)}")
    return expert


def ask(expert: Expert, points: Array, t: float) -> Answers:
    """Ask about a copy of the points; an `ExpertError` if the answer does not fit the question."""
    return checked_answers(expert.query(points.copy(), t), len(points), type(expert).__name__)
