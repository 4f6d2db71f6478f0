"""What `check_expert` found out, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
