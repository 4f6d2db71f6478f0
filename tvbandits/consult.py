"""Asking an expert, and keeping count of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvbandits.observations import Array
from tvbandits.protocols import Answers, Expert, ExpertError
from tvbandits.queries import Choice
from tvbandits.recipe import Info


def query(expert: Expert, points: Array, t: float) -> Answers:
    """Ask, and check the form of the answer."""
    q = len(points)
    if q == 0:
        return Answers(np.empty(0), np.empty(0))
    try:
        said = expert.query(points, t)
    except Exception as error:
        raise ExpertError(
            f"the expert failed on {q} points at t = {t}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(said, Answers):
        raise ExpertError(f"the expert must return Answers, got {type(said).__name__}")
    if len(said) != q:
        raise ExpertError(f"the expert must answer {q} points, got {len(said)} values")
    return said


def with_queries(info: Info, choice: Choice, said: Answers, seconds: Mapping[str, float]) -> Info:
    """`info` after a query: counts of this one, and of all."""
    asked, answered = len(choice.rows), int(said.answered.sum())
    return replace(
        info,
        queries_asked=asked,
        queries_answered=answered,
        queries_refused=asked - answered,
        total_asked=info.total_asked + asked,
        total_answered=info.total_answered + answered,
        total_refused=info.total_refused + asked - answered,
        cost=said.cost,
        total_cost=info.total_cost + said.cost,
        acceptance=choice.acceptance,
        seconds=seconds,
    )
