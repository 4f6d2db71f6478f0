"""`check_expert` checks whether an expert keeps to the protocol."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.data import Dataset
from tvbandits.experts.protocol import (
    Answers,
    Expert,
    ExpertError,
    Observer,
    check_answers,
    is_mistake,
)
from tvbandits.validation import Array, Index, as_points, as_time, error_line, flag, whole_number


class Outcome(StrEnum):
    """The outcome of a check.

    Examples
    --------
    >>> from tvbandits.experts import Outcome
    >>> print([str(outcome) for outcome in Outcome])
    ['ok', 'FAIL', 'remark', '-']
    """

    OK = "ok"
    FAIL = "FAIL"
    REMARK = "remark"
    """It holds, or is not promised, but people should know."""
    SKIPPED = "-"
    """Not tried, because of an earlier failure."""


@dataclass(frozen=True)
class Finding:
    """One sentence about the expert, whether it holds, and details.

    Examples
    --------
    >>> from tvbandits.experts import Finding, Outcome
    >>> print(Finding("answers a single point", Outcome.OK))
    ok     answers a single point
    """

    sentence: str
    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.outcome:<6} {self.sentence}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class Report:
    """The findings of a check, and its questions and cost.

    Attributes
    ----------
    findings : tuple of Finding
    questions, points : int
        Queries of the check, and points in them.
    cost : float
        Cost of their answers, in the expert's unit.

    Examples
    --------
    >>> from tvbandits.experts import Finding, Outcome, Report
    >>> report = Report((Finding("answers a single point", Outcome.FAIL),), questions=1, points=1)
    >>> print(report.success)
    False
    """

    findings: tuple[Finding, ...]
    questions: int = 0
    points: int = 0
    cost: float = 0.0

    @property
    def success(self) -> bool:
        """Whether nothing failed."""
        return all(finding.outcome is not Outcome.FAIL for finding in self.findings)

    def __str__(self) -> str:
        total = f"{self.questions} questions about {self.points} points, cost {self.cost:g}"
        return "\n".join([*map(str, self.findings), total])


def check_expert(
    expert: Expert,
    X: ArrayLike,
    t: float,
    *,
    deterministic: bool = False,
    outside: ArrayLike | None = None,
    threads: int = 4,
) -> Report:
    """Ask `expert` about `X` at time `t` and check that it keeps to the `Expert` protocol.

    It asks up to twenty-five questions about all of `X`, which a real expert may charge for; the report
    has their cost. Artificial rewards are only shown to copies.

    Parameters
    ----------
    expert : Expert
    X : array of shape (q, d)
        Points the expert should be able to answer for, q >= 1.
    t : float
    deterministic : bool
        Whether the expert promises the same answer to the same question.
    outside : array of shape (m, d), optional
        Points that the expert should not be able to answer for.
    threads : int
        How many threads ask at once; 0 for an expert that is not meant for threads.

    Returns
    -------
    Report
        Printable; nothing in it failed.

    Raises
    ------
    AssertionError
        If a sentence does not hold; the message is the whole report.

    Examples
    --------
    >>> from tvbandits.experts import CallableExpert, check_expert
    >>> report = check_expert(CallableExpert(lambda X, t: X[:, 0], 0.01), [[1.0], [2.0]], t=1.0)
    >>> print(report.success)
    True
    """
    points = as_points(X)
    if len(points) == 0:
        raise ValueError(f"X must have at least one point, got shape {points.shape}")
    far = None if outside is None else as_points(outside, points.shape[1], "outside")
    whole_number("threads", threads, at_least=0)
    kit = _Kit(expert, points, as_time(t), flag("deterministic", deterministic), far, threads)
    kit.check("has a method query(X, t)", _has_query, needs=())
    kit.check("returns valid Answers, one for each point", _answers, needs=(_has_query,))
    if kit.deterministic:
        kit.check("answers the same question the same way", _repeatable)
    kit.check("leaves X as it was", _no_mutation)
    kit.check("answers a single point", _single)
    kit.check("answers points that are asked about twice", _twice)
    kit.check("does not mind the order of points", _order)
    kit.check("answers, refuses or declines other times", _other_times)
    if far is not None:
        kit.check("refuses or declines points outside", _outside)
    if threads:
        kit.check(f"answers {threads} threads at once", _in_threads, needs=(_answers, _order))
    kit.check("can be pickled", _pickles)
    if isinstance(expert, Observer):
        kit.check("counts rewards once that are shown twice", _observes)
    findings = tuple(kit.findings.values())
    report = Report(findings, len(kit.sizes), sum(kit.sizes), sum(kit.costs))
    if not report.success:
        raise AssertionError(f"the expert does not keep to the protocol:\n{report}")
    return report


class _FailedError(Exception):
    """A sentence does not hold."""


@dataclass
class _Kit:
    """The expert, the question, the findings, and an account of points and costs."""

    expert: Expert
    X: Array
    t: float
    deterministic: bool
    outside: Array | None
    threads: int
    sizes: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    findings: dict[Run, Finding] = field(default_factory=dict)

    def check(self, sentence: str, run: Run, needs: tuple[Run, ...] | None = None) -> None:
        """Check a sentence, unless one that it needs has failed; by default that answers are valid."""
        for each in (_answers,) if needs is None else needs:
            if self.has_failed(each):
                why = f'not tried, because of "{self.findings[each].sentence}"'
                self.findings[run] = Finding(sentence, Outcome.SKIPPED, why)
                return
        try:
            detail = run(self) or ""
            outcome = Outcome.REMARK if detail else Outcome.OK
        except Exception as error:
            outcome = Outcome.FAIL
            detail = str(error) if isinstance(error, _FailedError) else _describe(error)
        self.findings[run] = Finding(sentence, outcome, detail)

    def has_failed(self, run: Run) -> bool:
        """Return whether a check failed, or was not tried."""
        return run in self.findings and self.findings[run].outcome in ("FAIL", "-")

    def ask(
        self, X: Array | None = None, t: float | None = None, expert: Expert | None = None
    ) -> Answers:
        """Ask about this very array, or a copy of the points, and check the form of the answer."""
        points = self.X.copy() if X is None else X
        self.sizes.append(len(points))
        result: object = (expert or self.expert).query(points, self.t if t is None else t)
        try:
            answers = check_answers(result, len(points))
        except ExpertError as error:
            raise _FailedError(str(error)) from error
        self.costs.append(answers.cost)
        return answers

    def ask_in_order(self, order: Index) -> Answers:
        """Return the answers for the points, which are asked about in another order."""
        answers, back = self.ask(self.X[order]), np.argsort(order)
        variance = None if answers.variance is None else answers.variance[back]
        return Answers(answers.values[back], variance, answers.cost, answers.notes)

    def compare(
        self, first: Answers, second: Answers, what: str, most_deviations: float = 8.0
    ) -> str:
        """Fail if two answers for the same points do not agree, or return a remark about refusals.

        Honest noise stays within so many deviations of the difference.
        """
        # An expert that is not repeatable is only held to its stated variance.
        exactly = self.deterministic and not self.has_failed(_repeatable)
        if not np.array_equal(first.answered, second.answered):
            effect = f"{what} changed which of them were answered"
            if notes := (second.notes or first.notes):
                return f"{effect}, and the expert said why: {notes[-1]}"
            raise _FailedError(f"{effect}, and no note says why")
        if exactly:
            tolerance = 1e-9 * np.abs(first.values)
        elif first.variance is None or second.variance is None:
            return "its answers vary, and it states no variance to hold them against"
        else:
            tolerance = most_deviations * np.sqrt(first.variance + second.variance)
        off = np.abs(first.values - second.values) > tolerance
        if off.any():
            row = int(off.argmax())
            one, other = first.values[row], second.values[row]
            raise _FailedError(f"{what} changed the answer for row {row} from {one} to {other}")
        return ""


# A check returns a remark if there is one, and raises an error if it fails.
Run = Callable[[_Kit], str | None]


def _describe(error: Exception) -> str:
    """Return an error, and how a bandit reacts to it."""
    what = "stops, as it is broken" if is_mistake(error) else "goes on without it, as it is down"
    return f"raised {error_line(error)} (a bandit {what})"


def _is_clear(error: Exception) -> bool:
    """Return whether an error was raised on purpose, with a message for people."""
    deliberate = isinstance(error, ExpertError | ValueError | NotImplementedError)
    return bool(str(error)) and (deliberate or not is_mistake(error))


def _has_query(kit: _Kit) -> None:
    valid = isinstance(kit.expert, Expert) and callable(kit.expert.query)
    if isinstance(kit.expert, type) or not valid:
        raise _FailedError(f"{kit.expert!r} has none")


def _answers(kit: _Kit) -> str | None:
    answers = kit.ask()
    if answers.answered.any():
        return None
    return "; ".join([f"none of the {len(answers)} points was answered", *answers.notes])


def _repeatable(kit: _Kit) -> str:
    return kit.compare(kit.ask(), kit.ask(), "asking again")


def _no_mutation(kit: _Kit) -> None:
    X = kit.X.copy()
    kit.ask(X)
    if not np.array_equal(X, kit.X):
        raise _FailedError("X was changed in place")


def _single(kit: _Kit) -> None:
    kit.ask(kit.X[:1].copy())


def _twice(kit: _Kit) -> None:
    kit.ask(np.repeat(kit.X, 2, axis=0))


def _order(kit: _Kit) -> str:
    # No point keeps its place, nor whether its number is even.
    shifted = np.roll(np.arange(len(kit.X)), 1)
    return kit.compare(kit.ask(), kit.ask_in_order(shifted), "another order of the points")


def _other_times(kit: _Kit) -> str:
    remarks = []
    for t in (kit.t + 1.0, kit.t - 1.0, kit.t + 0.5):
        answers = _try(kit, kit.X.copy(), t)
        if isinstance(answers, str):
            remarks.append(f"t = {t:g} {answers}")
        elif not answers.answered.any():
            remarks.append(f"t = {t:g} is refused")
    return "; ".join(remarks)


def _try(kit: _Kit, X: Array, t: float) -> Answers | str:
    """Return the answers, or the way in which the expert declined to give any; a crash fails."""
    try:
        return kit.ask(X, t)
    except _FailedError:
        raise
    except Exception as error:
        if _is_clear(error):
            return _describe(error)
        message = f"t = {t:g} {_describe(error)}; a clear error says what was wrong"
        raise _FailedError(message) from error


def _outside(kit: _Kit) -> str:
    assert kit.outside is not None
    answers = _try(kit, kit.outside.copy(), kit.t)
    if isinstance(answers, str):
        return answers
    answered = int(answers.answered.sum())
    if answered == 0:
        return ""
    inside, remark = kit.ask(), f"{answered} of {len(answers)} are answered"
    if inside.variance is None or answers.variance is None:
        return remark
    usual = np.median(inside.variance[inside.answered]) if inside.answered.any() else np.inf
    certain = int((answers.variance[answers.answered] <= usual).sum())
    return f"{remark}, {certain} of them as surely as inside"


def _in_threads(kit: _Kit) -> str:
    before, start = kit.ask(), threading.Barrier(kit.threads)

    def work(number: int) -> Answers:
        start.wait()
        # Every thread asks in another order, so that one's answers do not fit another.
        return kit.ask_in_order(np.roll(np.arange(len(kit.X)), number))

    with ThreadPoolExecutor(kit.threads) as pool:
        after = list(pool.map(work, range(kit.threads)))
    remarks = [kit.compare(before, each, f"asking in thread {i}") for i, each in enumerate(after)]
    return next(filter(None, reversed(remarks)), "")


def _pickles(kit: _Kit) -> str:
    try:
        copy = _copy(kit.expert)
    except Exception as error:
        return f"{error_line(error)}; a bandit with it cannot be saved, nor run in other processes"
    return kit.compare(kit.ask(), kit.ask(expert=copy), "a copy")


def _copy(expert: Expert) -> Expert:
    """Return a copy by way of a pickle."""
    copy: Expert = pickle.loads(pickle.dumps(expert))
    return copy


def _observes(kit: _Kit) -> str:
    try:
        copies = [_copy(kit.expert), _copy(kit.expert)]
    except Exception:
        return "not tried: rewards are shown to copies only, and it cannot be pickled"
    after = []
    for times, copy in enumerate(copies, start=1):
        answers = kit.ask(expert=copy)
        stated = np.ones(len(answers)) if answers.variance is None else answers.variance
        variance = np.where(answers.answered, stated, 1.0)
        y = np.where(answers.answered, answers.values + np.sqrt(variance), 0.0)
        rewards = Dataset(kit.X, np.full(len(y), kit.t), y, variance)
        assert isinstance(copy, Observer)
        for _ in range(times):
            copy.observe(rewards)
        after.append(kit.ask(expert=copy))
    return kit.compare(after[0], after[1], "showing the rewards again")
