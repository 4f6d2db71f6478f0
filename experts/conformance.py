"""`check_expert` finds out whether an expert keeps to the protocol."""

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
    """What became of a check.

    Examples
    --------
    >>> from tvbandits.experts import Outcome
    >>> print([str(outcome) for outcome in Outcome])
    ['ok', 'FAIL', 'remark', '-']
    """

    OK = "ok"
    FAIL = "FAIL"
    REMARK = "remark"
    """It holds, or nobody promised it; but people should know."""
    SKIPPED = "-"
    """Not tried, because of an earlier failure."""


@dataclass(frozen=True)
class Finding:
    """One sentence about the expert, whether it holds, and more about it.

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
    """What was checked, and what that took.

    Attributes
    ----------
    findings : tuple of Finding
    questions, points : int
        Queries that the check made, and points in them.
    cost : float
        What their answers cost, in the expert's unit.

    Examples
    --------
    >>> from tvbandits.experts import Finding, Outcome, Report
    >>> report = Report((Finding("answers a single point", Outcome.FAIL),), questions=1, points=1)
    >>> print(report.passed)
    False
    """

    findings: tuple[Finding, ...]
    questions: int = 0
    points: int = 0
    cost: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(finding.outcome is not Outcome.FAIL for finding in self.findings)

    def __str__(self) -> str:
        took = f"{self.questions} questions about {self.points} points, cost {self.cost:g}"
        return "\n".join([*map(str, self.findings), took])


# Honest noise stays within so many deviations of the difference of two answers.
DEVIATIONS = 8.0


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

    Up to twenty-five questions about all of `X`, which a real expert may charge for; the report says
    what it was. Rewards, made up, are only shown to copies.

    Parameters
    ----------
    expert : Expert
    X : array of shape (q, d)
        Points the expert should be able to answer for, q >= 1.
    t : float
    deterministic : bool
        Whether the expert promises the same answer to the same question.
    outside : array of shape (m, d), optional
        Points it should not be able to answer for: what does it do about them?
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
    >>> print(report.passed)
    True
    """
    points = as_points(X)
    if len(points) == 0:
        raise ValueError(f"X must have at least one point, got shape {points.shape}")
    beyond = None if outside is None else as_points(outside, points.shape[1], "outside")
    whole_number("threads", threads, at_least=0)
    kit = _Kit(expert, points, as_time(t), flag("deterministic", deterministic), beyond, threads)
    kit.check("has a method query(X, t)", _has_query, needs=())
    kit.check("returns valid Answers, one for each point", _answers, needs=(_has_query,))
    if kit.deterministic:
        kit.check("answers the same question the same way", _repeatable)
    kit.check("leaves X as it was", _no_mutation)
    kit.check("answers a single point", _single)
    kit.check("answers points that are asked about twice", _twice)
    kit.check("does not mind the order of points", _order)
    kit.check("answers, refuses or declines other times", _other_times)
    if beyond is not None:
        kit.check("refuses or declines points outside", _outside)
    if threads:
        kit.check(f"answers {threads} threads at once", _in_threads, needs=(_answers, _order))
    kit.check("can be pickled", _pickles)
    if isinstance(expert, Observer):
        kit.check("counts rewards once that are shown twice", _observes)
    findings = tuple(kit.findings.values())
    report = Report(findings, len(kit.asked), sum(kit.asked), sum(kit.costs))
    if not report.passed:
        raise AssertionError(f"the expert does not keep to the protocol:\n{report}")
    return report


class _FailedError(Exception):
    """A sentence does not hold."""


@dataclass
class _Kit:
    """The question, what was found out, and an account of what was asked: points and costs."""

    expert: Expert
    X: Array
    t: float
    deterministic: bool
    outside: Array | None
    threads: int
    asked: list[int] = field(default_factory=list)
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
            detail = str(error) if isinstance(error, _FailedError) else _raised(error)
        self.findings[run] = Finding(sentence, outcome, detail)

    def has_failed(self, run: Run) -> bool:
        """Whether a check failed, or was not tried."""
        return run in self.findings and self.findings[run].outcome in ("FAIL", "-")

    def ask(
        self, X: Array | None = None, t: float | None = None, expert: Expert | None = None
    ) -> Answers:
        """Ask about just this array, or a copy of the points, and check the form of the answer."""
        asked = self.X.copy() if X is None else X
        self.asked.append(len(asked))
        given: object = (expert or self.expert).query(asked, self.t if t is None else t)
        try:
            said = check_answers(given, len(asked))
        except ExpertError as error:
            raise _FailedError(str(error)) from error
        self.costs.append(said.cost)
        return said

    def ask_in_order(self, order: Index) -> Answers:
        """What is said about the points if they are asked about in another order."""
        said, back = self.ask(self.X[order]), np.argsort(order)
        return Answers(said.values[back], said.variance[back], said.cost, said.notes)

    def compare(self, first: Answers, second: Answers, what: str) -> str:
        """Fail if two answers to the same points do not agree; a remark about refusals."""
        # An expert that is not repeatable is only held to its stated variance.
        exactly = self.deterministic and not self.has_failed(_repeatable)
        if not np.array_equal(first.answered, second.answered):
            changed = f"{what} changed which of them were answered"
            if why := (second.notes or first.notes):
                return f"{changed}, and the expert said why: {why[-1]}"
            raise _FailedError(f"{changed}, and no note says why")
        deviation = np.sqrt(first.variance + second.variance)
        tolerance = 1e-9 * np.abs(first.values) if exactly else DEVIATIONS * deviation
        off = np.abs(first.values - second.values) > tolerance
        if off.any():
            row = int(off.argmax())
            one, other = first.values[row], second.values[row]
            raise _FailedError(f"{what} changed the answer for row {row} from {one} to {other}")
        return ""


# Returns a remark if there is one, and raises what is wrong.
Run = Callable[[_Kit], str | None]


def _raised(error: Exception) -> str:
    what = "stops, as it is broken" if is_mistake(error) else "goes on without it, as it is down"
    return f"raised {error_line(error)} (a bandit {what})"


def _is_clear(error: Exception) -> bool:
    """Whether it was raised on purpose, to tell people something."""
    meant = isinstance(error, ExpertError | ValueError | NotImplementedError)
    return bool(str(error)) and (meant or not is_mistake(error))


def _has_query(kit: _Kit) -> None:
    if isinstance(kit.expert, type) or not callable(getattr(kit.expert, "query", None)):
        raise _FailedError(f"{kit.expert!r} has none")


def _answers(kit: _Kit) -> str | None:
    said = kit.ask()
    if said.answered.any():
        return None
    return f"none of the {len(said)} points was answered" + "".join(f"; {n}" for n in said.notes)


def _repeatable(kit: _Kit) -> str:
    return kit.compare(kit.ask(), kit.ask(), "asking again")


def _no_mutation(kit: _Kit) -> None:
    given = kit.X.copy()
    kit.ask(given)
    if not np.array_equal(given, kit.X):
        raise _FailedError("X was changed in place")


def _single(kit: _Kit) -> None:
    kit.ask(kit.X[:1].copy())


def _twice(kit: _Kit) -> None:
    kit.ask(np.repeat(kit.X, 2, axis=0))


def _order(kit: _Kit) -> str:
    backward = np.arange(len(kit.X))[::-1]
    return kit.compare(kit.ask(), kit.ask_in_order(backward), "reversing the points")


def _other_times(kit: _Kit) -> str:
    remarks = []
    for t in (kit.t + 1.0, kit.t - 1.0, kit.t + 0.5):
        said = _declined(kit, kit.X.copy(), t)
        if isinstance(said, str):
            remarks.append(f"t = {t:g} {said}")
        elif not said.answered.any():
            remarks.append(f"t = {t:g} is refused")
    return "; ".join(remarks)


def _declined(kit: _Kit, X: Array, t: float) -> Answers | str:
    """The answers, or how the expert declined to give any; a crash fails."""
    try:
        return kit.ask(X, t)
    except _FailedError:
        raise
    except Exception as error:
        if _is_clear(error):
            return _raised(error)
        why = f"t = {t:g} {_raised(error)}; a clear error says what was wrong"
        raise _FailedError(why) from error


def _outside(kit: _Kit) -> str:
    assert kit.outside is not None
    said = _declined(kit, kit.outside.copy(), kit.t)
    if isinstance(said, str):
        return said
    answered = int(said.answered.sum())
    if answered == 0:
        return ""
    inside = kit.ask()
    usual = np.median(inside.variance[inside.answered]) if inside.answered.any() else np.inf
    sure = int((said.variance[said.answered] <= usual).sum())
    return f"{answered} of {len(said)} are answered, {sure} of them as surely as inside"


def _in_threads(kit: _Kit) -> str:
    before, start = kit.ask(), threading.Barrier(kit.threads)

    def work(number: int) -> Answers:
        start.wait()
        # Every thread asks in another order, so that one's answers do not fit another.
        return kit.ask_in_order(np.roll(np.arange(len(kit.X)), number))

    with ThreadPoolExecutor(kit.threads) as pool:
        found = list(pool.map(work, range(kit.threads)))
    remarks = [kit.compare(before, said, f"asking in thread {i}") for i, said in enumerate(found)]
    return next(filter(None, reversed(remarks)), "")


def _pickles(kit: _Kit) -> str:
    try:
        copy = _copied(kit.expert)
    except Exception as error:
        why = "a bandit with it cannot be saved, nor run in other processes"
        return f"{error_line(error)}; {why}"
    return kit.compare(kit.ask(), kit.ask(expert=copy), "a copy")


def _copied(expert: Expert) -> Expert:
    copied: Expert = pickle.loads(pickle.dumps(expert))
    return copied


def _observes(kit: _Kit) -> str:
    try:
        copies = [_copied(kit.expert), _copied(kit.expert)]
    except Exception:
        return "not tried: rewards are shown to copies only, and it cannot be pickled"
    after = []
    for times, copy in enumerate(copies, start=1):
        said = kit.ask(expert=copy)
        y = np.where(said.answered, said.values + np.sqrt(said.variance), 0.0)
        variance = np.where(said.answered, said.variance, 1.0)
        rewards = Dataset(kit.X, np.full(len(y), kit.t), y, variance)
        assert isinstance(copy, Observer)
        for _ in range(times):
            copy.observe(rewards)
        after.append(kit.ask(expert=copy))
    return kit.compare(after[0], after[1], "showing the rewards again")
