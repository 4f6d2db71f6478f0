"""Asking an expert, and keeping count of it.

An expert that raises is down: its points count as refused, people are warned once for every outage, and
the bandit goes on with what it has. An expert that answers in a form that cannot be used, or raises what
Python raises for mistakes in a program, is broken: that is an `ExpertError`, and nothing is changed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import (
    Answers,
    Expert,
    ExpertDownWarning,
    ExpertError,
    checked_answers,
    inform,
    is_mistake,
)


@dataclass(frozen=True)
class Consultation:
    """One query: what was said, and the error of an expert that could not be reached."""

    said: Answers
    failure: Exception | None = None


def consult(expert: Expert, points: Array, t: float) -> Consultation:
    """Ask, and check the form of the answer.

    Raises
    ------
    ExpertError
        If the expert is broken.
    """
    q = len(points)
    if q == 0:
        return Consultation(Answers.none(0))
    try:
        said = expert.query(points, t)
    except Exception as error:
        if is_mistake(error):
            raise ExpertError(
                f"the expert failed on {q} points at t = {t}: {type(error).__name__}: {error}"
            ) from error
        return Consultation(Answers.none(q, notes=(_described(error),)), error)
    return Consultation(checked_answers(said, q))


def show(expert: Expert, rewards: Observations) -> None:
    """Show rewards to an expert that wants to see them; an `ExpertError` if it fails on them."""
    try:
        inform(expert, rewards)
    except Exception as error:
        raise ExpertError(
            f"the expert failed on being shown {len(rewards)} rewards: {_described(error)}"
        ) from error


def warn_of(failure: Exception, t: float) -> None:
    """Tell people that the expert is down."""
    message = (
        f"the expert cannot be reached at t = {t:g} ({_described(failure)}); "
        "going on without its answers until it can"
    )
    try:
        warnings.warn(message, ExpertDownWarning, stacklevel=6)  # the line that called `tell`
    except ExpertDownWarning as strict:
        raise strict from failure


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
