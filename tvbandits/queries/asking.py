"""What a bandit asks an expert: whom, about what, and what becomes of the answers.

Asking an expert, and keeping count of it.

An expert that raises is down: its points count as refused, people are warned once for every outage, and
the bandit goes on with what it has. An expert that answers in a form that cannot be used, or raises what
Python raises for mistakes in a program, is broken: that is an `ExpertError`, and nothing is changed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvbandits.core.arrays import Array, as_points, flag, not_negative, whole_number
from tvbandits.core.coercion import check_part, choice
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
from tvbandits.queries.plans import QueryPlan


@dataclass(frozen=True)
class Asking:
    """What asks an expert.

    Parameters
    ----------
    plan : QueryPlan
        Which points to ask about.
    expert : Expert, optional
        Who is asked. Without one, the questions are the user's to carry: `Bandit.questions` names them,
        and `Bandit.answer` takes the answers, which may come later, in parts, or never.
    about : "played" or "domain"
        What the plan chooses from: the points played so far, or all of the domain (of one that is not
        finite, points drawn from it anew and those played).
    reuse_answers : bool
        Keep answers and age them like rewards; otherwise those of a query replace those of the last.
    most_answers : int, optional
        Keep the latest so many of them at the most.
    pool_size : int, optional
        Of the points played, the plan chooses from all up to so many. Once they are more, a new one
        joins the pool only if the reward there does not follow from that at the points in the pool, so
        that a step's cost stops growing.
    informed_width : float, optional
        The width is at most this in a decision before which a question was answered: then the questions
        explore, and what is played stays plausible under the full width.

    Raises
    ------
    ValueError
        If a part has no such method, or a number is out of range.
    """

    plan: QueryPlan
    expert: Expert | None = None
    about: Literal["played", "domain"] = "played"
    reuse_answers: bool = False
    most_answers: int | None = None
    pool_size: int | None = None
    informed_width: float | None = None

    def __post_init__(self) -> None:
        check_part("plan", self.plan, "a query plan such as KDPP()", "choose")
        if self.expert is not None:
            check_part("expert", self.expert, "an object with a method query(X, t)", "query")
        choice("about", self.about, ("played", "domain"))
        if self.informed_width is not None:
            not_negative("informed_width", self.informed_width)
        flag("reuse_answers", self.reuse_answers)
        for name in ("pool_size", "most_answers"):
            count = getattr(self, name)
            if count is not None:
                whole_number(name, count)


@dataclass(frozen=True)
class QueryResult:
    """One query: what was said, and the error of an expert that could not be reached."""

    said: Answers
    failure: Exception | None = None


def consult(expert: Expert, points: Array, t: float) -> QueryResult:
    """Ask, and check the form of the answer.

    Raises
    ------
    ExpertError
        If the expert is broken.
    """
    given: object = points
    if not isinstance(given, np.ndarray):
        points = as_points(points, name="points")
    q = len(points)
    if q == 0:
        return QueryResult(Answers.none(0))
    try:
        # [S] Algorithm 1, line 6.
        said = expert.query(points, t)
    except Exception as error:
        if is_mistake(error):
            raise ExpertError(
                f"the expert failed on {q} points at t = {t}: {type(error).__name__}: {error}"
            ) from error
        return QueryResult(Answers.none(q, notes=(_described(error),)), error)
    return QueryResult(checked_answers(said, q))


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
        warnings.warn(message, ExpertDownWarning, stacklevel=7)  # the line that called `tell`
    except ExpertDownWarning as strict:
        raise strict from failure


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
