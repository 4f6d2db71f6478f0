"""The questions for an expert who answers later, with their answers if there are any."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvbandits.campaign.store.errors import ConflictError
from tvbandits.campaign.store.store import Row, to_array
from tvbandits.text import first_few

# A place without the zeros at its end, and the time that the question is about.
Question = tuple[tuple[float, ...], float]

# Open questions that an error lists.
MOST_LISTED = 8


def coordinates(x: Sequence[float]) -> tuple[float, ...]:
    """Return a point without the zeros at its end, which come with arms that are added later."""
    return tuple(x[: max((i + 1 for i, each in enumerate(x) if each), default=0)])


class Questions:
    """The questions of a journal, and the answer to each.

    Attributes
    ----------
    answers : dict
        The answer to each question, the latest question last: None before there is one, NaN where the
        expert had none.
    """

    def __init__(self) -> None:
        self.answers: dict[Question, float | None] = {}

    def follow(self, row: Row) -> None:
        """Follow a row of the journal that asks, answers, or corrects answers."""
        arguments = row.arguments
        if row.kind == "questions":
            for x in row.body["result"]:
                self.answers.setdefault((coordinates(x), arguments["t"]), None)
            return
        if row.kind == "correct_answers":
            times = to_array(row.body["result"])[:, 0].tolist()
        else:
            times = [arguments["t"]] * len(arguments["X"])
        values = to_array(arguments["values"]).reshape(-1).tolist()
        for x, t, value in zip(arguments["X"], times, values, strict=True):
            self.answers[coordinates(x), t] = value

    def time_of(self, X: Sequence[Sequence[float]]) -> float | None:
        """Return the latest time of questions about all of these points: of open ones, if there are."""
        points = [coordinates(x) for x in X]
        times = dict.fromkeys(t for _, t in reversed(self.answers))
        asked = [t for t in times if all((x, t) in self.answers for x in points)]
        open_ones = [t for t in asked if all(_is_open(self.answers[x, t]) for x in points)]
        return next(iter([*open_ones, *asked]), None)

    def check(
        self,
        arguments: Mapping[str, Any],
        name: Callable[[Sequence[float]], str],
        format_time: Callable[[float], str],
        *,
        second: bool,
    ) -> None:
        """Raise an error unless the answers of these arguments can be recorded.

        `second` says whether a question that has an answer may have another.

        Raises
        ------
        ConflictError
            If there is an answer to one of the questions already, whether it is the same or not.
        """
        t = arguments["t"]
        values = to_array(arguments["values"]).reshape(-1).tolist()
        before = [self.answers.get((coordinates(x), t)) for x in arguments["X"]]
        same = all(map(_same, before, values))
        for x, old, value in zip(arguments["X"], before, values, strict=True):
            news = _is_open(old) and (old is None or not math.isnan(value))
            if second or news:
                continue
            text = "the expert had none" if _is_open(old) else f"{old:g}"
            raise ConflictError(
                f"there is already an answer about {name(x)} at {format_time(t)}: {text}",
                "replace or withdraw it by {correct_answers}, or give {key} if both are to count",
                same=same,
            )

    def check_asked(
        self,
        arguments: Mapping[str, Any],
        name: Callable[[Sequence[float]], str],
        format_time: Callable[[float], str],
    ) -> None:
        """Raise a `ValueError`, which lists the open questions, unless all of these were asked."""
        t = arguments["t"]
        for x in arguments["X"]:
            if (coordinates(x), t) in self.answers:
                continue
            pending = [question for question, value in self.answers.items() if _is_open(value)]
            texts = [f"{name(x)} at {format_time(t)}" for x, t in reversed(pending)]
            listed = first_few(texts, MOST_LISTED, "; ")
            which = f"open questions: {listed}" if texts else "no question is open"
            raise ValueError(
                f"nobody has asked the expert about {name(x)} at {format_time(t)}; {which}"
            )


def _is_open(value: float | None) -> bool:
    return value is None or math.isnan(value)


def _same(before: float | None, now: float) -> bool:
    """Tell whether an answer is the same; NaN equals NaN."""
    return before is not None and (before == now or (math.isnan(before) and math.isnan(now)))
