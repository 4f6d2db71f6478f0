"""`check_expert` checks whether an expert follows the protocol."""

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
from tvbandits.validation import (
    Array,
    Index,
    as_bool,
    as_points,
    as_time,
    describe_error,
    whole_number,
)


class Outcome(StrEnum):
    """The outcomes that a check can have.

    Examples
    --------
    >>> from tvbandits.experts import Outcome
    >>> print([str(outcome) for outcome in Outcome])
    ['ok', 'FAIL', 'remark', '-']
    """

    OK = "ok"
    FAIL = "FAIL"
    REMARK = "remark"
    """The check did not fail, but the detail is worth knowing."""
    SKIPPED = "-"
    """The check was skipped because an earlier one failed."""


@dataclass(frozen=True)
class Finding:
    """A sentence about the expert, the outcome of its check, and a detail.

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
    """The findings of `check_expert`, with the number and the cost of its queries.

    Attributes
    ----------
    findings : tuple of Finding
    questions, points : int
        Number of queries, and of points in them.
    cost : float
        Cost of the answers, in the expert's unit.

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
        """Return whether no check failed."""
        return all(finding.outcome is not Outcome.FAIL for finding in self.findings)

    def __str__(self) -> str:
        total = f"{self.questions} queries of {self.points} points, cost {self.cost:g}"
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
    """Query `expert` about `X` at time `t`, and check that it follows the `Expert` protocol.

    It makes up to twenty-five queries of all points of `X`, for which a real expert may charge; the
    report contains their cost. Artificial rewards are shown only to copies of the expert.

    Parameters
    ----------
    expert : Expert
    X : array of shape (q, d)
        Points that the expert should be able to answer for, q >= 1.
    t : float
    deterministic : bool
        Whether equal queries should have equal answers.
    outside : array of shape (m, d), optional
        Points that the expert should not be able to answer for.
    threads : int
        Number of threads that query at once; 0 for an expert that is not used by several threads.

    Returns
    -------
    Report
        A report without failures, which can be printed.

    Raises
    ------
    AssertionError
        If a check fails; the message is the whole report.

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
    outside = None if outside is None else as_points(outside, points.shape[1], "outside")
    whole_number("threads", threads, at_least=0)
    as_bool("deterministic", deterministic)
    session = _Session(expert, points, as_time(t), deterministic, outside, threads)
    session.check("has a method query(X, t)", _check_method, needs=())
    session.check("returns valid Answers, one for each point", _check_validity, (_check_method,))
    if session.deterministic:
        session.check("gives equal answers to equal queries", _check_repetition)
    session.check("does not change X", _check_no_mutation)
    session.check("answers a single point", _check_single)
    session.check("answers a query that contains points twice", _check_duplicates)
    session.check("gives answers that do not depend on the order of points", _check_order)
    session.check("answers, refuses or declines other times", _check_other_times)
    if outside is not None:
        session.check("refuses or declines points outside", _check_outside)
    if threads:
        needs = (_check_validity, _check_order)
        session.check(f"answers {threads} threads at once", _check_threads, needs)
    session.check("can be pickled", _check_pickle)
    if isinstance(expert, Observer):
        session.check("counts rewards once that are shown twice", _check_observe)
    findings = tuple(session.findings.values())
    report = Report(findings, len(session.sizes), sum(session.sizes), sum(session.costs))
    if not report.success:
        raise AssertionError(f"the expert does not follow the protocol:\n{report}")
    return report


class _FailedError(Exception):
    """An error by which a check fails; its message is the detail of the finding."""


@dataclass
class _Session:
    """A run of all checks on an expert: the query, the findings, and the points and costs so far."""

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
        """Run a check, unless one that it needs has failed (by default, that of valid answers)."""
        for requirement in (_check_validity,) if needs is None else needs:
            if self.has_failed(requirement):
                reason = f'skipped, because of "{self.findings[requirement].sentence}"'
                self.findings[run] = Finding(sentence, Outcome.SKIPPED, reason)
                return
        try:
            detail = run(self) or ""
            outcome = Outcome.REMARK if detail else Outcome.OK
        except Exception as error:
            outcome = Outcome.FAIL
            detail = str(error) if isinstance(error, _FailedError) else _describe(error)
        self.findings[run] = Finding(sentence, outcome, detail)

    def has_failed(self, run: Run) -> bool:
        """Return whether a check has failed, or was skipped."""
        return run in self.findings and self.findings[run].outcome in ("FAIL", "-")

    def run_query(
        self, X: Array | None = None, t: float | None = None, expert: Expert | None = None
    ) -> Answers:
        """Return checked answers for `X`, which is passed on without a copy, or for all points."""
        points = self.X.copy() if X is None else X
        self.sizes.append(len(points))
        result: object = (expert or self.expert).query(points, self.t if t is None else t)
        try:
            answers = check_answers(result, len(points))
        except ExpertError as error:
            raise _FailedError(str(error)) from error
        self.costs.append(answers.cost)
        return answers

    def run_query_in_order(self, order: Index) -> Answers:
        """Return the answers for all points, which are queried in another order."""
        answers, inverse = self.run_query(self.X[order]), np.argsort(order)
        variance = None if answers.variance is None else answers.variance[inverse]
        return Answers(answers.values[inverse], variance, answers.cost, answers.notes)

    def compare(
        self, answers: Answers, other: Answers, cause: str, most_deviations: float = 8.0
    ) -> str:
        """Fail if two answers for the same points do not agree, or return a remark about refusals.

        Noise with the stated variances keeps differences within `most_deviations` standard deviations.
        """
        # An expert that is not repeatable must only agree within its stated variances.
        exactly = self.deterministic and not self.has_failed(_check_repetition)
        if not np.array_equal(answers.answered, other.answered):
            effect = f"{cause} changed which points were answered"
            if notes := (other.notes or answers.notes):
                return f"{effect}, and the expert's note says: {notes[-1]}"
            raise _FailedError(f"{effect}, and no note gives the reason")
        if exactly:
            tolerance = 1e-9 * np.abs(answers.values)
        elif answers.variance is None or other.variance is None:
            return "answers vary, and cannot be compared, since the expert states no variances"
        else:
            tolerance = most_deviations * np.sqrt(answers.variance + other.variance)
        differs = np.abs(answers.values - other.values) > tolerance
        if differs.any():
            row = int(differs.argmax())
            raise _FailedError(
                f"{cause} changed the answer for row {row} from {answers.values[row]} to "
                f"{other.values[row]}"
            )
        return ""


# A check returns a remark if there is one, and raises an error if it fails.
Run = Callable[[_Session], str | None]


def _describe(error: Exception) -> str:
    """Return a text about an error and a bandit's reaction to it."""
    reaction = (
        "stops, since this is a mistake"
        if is_mistake(error)
        else "continues without the expert, since this means that it is down"
    )
    return f"raised {describe_error(error)} (a bandit {reaction})"


def _is_clear(error: Exception) -> bool:
    """Return whether an error has a message and is of a kind that is raised on purpose."""
    deliberate = isinstance(error, ExpertError | ValueError | NotImplementedError)
    return bool(str(error)) and (deliberate or not is_mistake(error))


def _check_method(session: _Session) -> None:
    valid = isinstance(session.expert, Expert) and callable(session.expert.query)
    if isinstance(session.expert, type) or not valid:
        raise _FailedError(f"{session.expert!r} has none")


def _check_validity(session: _Session) -> str | None:
    answers = session.run_query()
    if answers.answered.any():
        return None
    return "; ".join([f"none of the {len(answers)} points was answered", *answers.notes])


def _check_repetition(session: _Session) -> str:
    return session.compare(session.run_query(), session.run_query(), "repeating the query")


def _check_no_mutation(session: _Session) -> None:
    X = session.X.copy()
    session.run_query(X)
    if not np.array_equal(X, session.X):
        raise _FailedError("X was changed in place")


def _check_single(session: _Session) -> None:
    session.run_query(session.X[:1].copy())


def _check_duplicates(session: _Session) -> None:
    session.run_query(np.repeat(session.X, 2, axis=0))


def _check_order(session: _Session) -> str:
    # A rotation moves every point, and changes the parity of its position.
    order = np.roll(np.arange(len(session.X)), 1)
    return session.compare(
        session.run_query(), session.run_query_in_order(order), "another order of the points"
    )


def _check_other_times(session: _Session) -> str:
    remarks = []
    for t in (session.t + 1.0, session.t - 1.0, session.t + 0.5):
        answers = _try(session, session.X.copy(), t)
        if isinstance(answers, str):
            remarks.append(f"t = {t:g} {answers}")
        elif not answers.answered.any():
            remarks.append(f"t = {t:g} is refused")
    return "; ".join(remarks)


def _try(session: _Session, X: Array, t: float) -> Answers | str:
    """Return the answers, or a description of a clear error; fail after any other error."""
    try:
        return session.run_query(X, t)
    except _FailedError:
        raise
    except Exception as error:
        if _is_clear(error):
            return _describe(error)
        message = f"t = {t:g} {_describe(error)}; raise an error that says what was wrong"
        raise _FailedError(message) from error


def _check_outside(session: _Session) -> str:
    assert session.outside is not None
    answers = _try(session, session.outside.copy(), session.t)
    if isinstance(answers, str):
        return answers
    answered = int(answers.answered.sum())
    if answered == 0:
        return ""
    inside, remark = session.run_query(), f"{answered} of {len(answers)} points were answered"
    if inside.variance is None or answers.variance is None:
        return remark
    median = np.median(inside.variance[inside.answered]) if inside.answered.any() else np.inf
    certain = int((answers.variance[answers.answered] <= median).sum())
    return f"{remark}, {certain} of them with no more variance than inside"


def _check_threads(session: _Session) -> str:
    before, start = session.run_query(), threading.Barrier(session.threads)

    def work(number: int) -> Answers:
        start.wait()
        # Every thread has another order, so that an answer to the wrong thread is noticed.
        return session.run_query_in_order(np.roll(np.arange(len(session.X)), number))

    with ThreadPoolExecutor(session.threads) as pool:
        results = list(pool.map(work, range(session.threads)))
    remarks = [
        session.compare(before, answers, f"querying in thread {i}")
        for i, answers in enumerate(results)
    ]
    return next(filter(None, reversed(remarks)), "")


def _check_pickle(session: _Session) -> str:
    try:
        copy = _copy(session.expert)
    except Exception as error:
        return (
            f"{describe_error(error)}; a bandit with it cannot be saved, nor run in other processes"
        )
    return session.compare(session.run_query(), session.run_query(expert=copy), "a copy")


def _copy(expert: Expert) -> Expert:
    """Return a copy of the expert, made by pickling it."""
    copy: Expert = pickle.loads(pickle.dumps(expert))
    return copy


def _check_observe(session: _Session) -> str:
    try:
        copies = [_copy(session.expert), _copy(session.expert)]
    except Exception:
        return "skipped: rewards are shown only to copies, and the expert cannot be pickled"
    results = []
    for times, copy in enumerate(copies, start=1):
        answers = session.run_query(expert=copy)
        variance = np.ones(len(answers)) if answers.variance is None else answers.variance
        variance = np.where(answers.answered, variance, 1.0)
        y = np.where(answers.answered, answers.values + np.sqrt(variance), 0.0)
        rewards = Dataset(session.X, np.full(len(y), session.t), y, variance)
        assert isinstance(copy, Observer)
        for _ in range(times):
            copy.observe(rewards)
        results.append(session.run_query(expert=copy))
    return session.compare(results[0], results[1], "showing the rewards again")
