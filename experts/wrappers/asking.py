"""What experts that stand around other experts share."""

from __future__ import annotations

from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Answers, Expert, checked_answers


def checked_expert(expert: Expert) -> Expert:
    """Return `expert`; a `ValueError` if it cannot be asked."""
    if isinstance(expert, type) or not callable(getattr(expert, "query", None)):
        raise ValueError(f"expert must have a method query(X, t), got {expert!r}")
    return expert


def ask(expert: Expert, points: Array, t: float) -> Answers:
    """Ask about a copy of the points; an `ExpertError` if the answer does not fit the question."""
    return checked_answers(expert.query(points.copy(), t), len(points), type(expert).__name__)
