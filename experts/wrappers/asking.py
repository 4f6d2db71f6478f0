"""What experts that stand around other experts share."""

from __future__ import annotations

import math

from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Answers, Expert, ExpertError


def checked_expert(expert: Expert) -> Expert:
    """Return `expert`; a `ValueError` if it cannot be asked."""
    if isinstance(expert, type) or not callable(getattr(expert, "query", None)):
        raise ValueError(f"expert must have a method query(X, t), got {expert!r}")
    return expert


def as_time(t: float) -> float:
    """Return `t` as a float; a `ValueError` if it is not a finite number."""
    try:
        when = float(t)
    except (TypeError, ValueError) as error:
        raise ValueError(f"t must be a finite number, got {t!r}") from error
    if not math.isfinite(when):
        raise ValueError(f"t must be a finite number, got {t!r}")
    return when


def ask(expert: Expert, points: Array, t: float) -> Answers:
    """Ask about a copy of the points; an `ExpertError` if the answer does not fit the question."""
    said: object = expert.query(points.copy(), t)
    name = type(expert).__name__
    if not isinstance(said, Answers):
        raise ExpertError(f"{name} must return Answers, got {type(said).__name__}")
    if len(said) != len(points):
        raise ExpertError(f"{name} must answer {len(points)} points, got {len(said)} values")
    return said
