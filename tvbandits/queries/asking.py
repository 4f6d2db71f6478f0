"""What a bandit asks an expert: whom, about what, and how long answers are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tvbandits.core.arrays import flag, not_negative, whole_number
from tvbandits.core.coercion import check_part, choice
from tvbandits.core.protocols import Expert
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
