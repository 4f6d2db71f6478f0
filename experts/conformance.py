"""`check_expert` finds out whether an expert keeps to the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.observations import Array, as_points
from tvbandits.protocols import Answers, Expert


@dataclass(frozen=True)
class Report:
    """What was checked: pairs of a sentence and what went wrong, None where it holds."""

    findings: tuple[tuple[str, str | None], ...]

    @property
    def passed(self) -> bool:
        """Whether every sentence holds."""
        return all(problem is None for _, problem in self.findings)

    def __str__(self) -> str:
        return "\n".join(
            f"{'ok  ' if problem is None else 'FAIL'} {sentence}"
            + (f": {problem}" if problem else "")
            for sentence, problem in self.findings
        )


def check_expert(expert: Expert, X: ArrayLike, t: float, *, deterministic: bool = False) -> Report:
    """Ask `expert` about `X` at time `t` and check that it keeps to the `Expert` protocol.

    Parameters
    ----------
    expert : Expert
    X : array of shape (q, d)
        Points the expert should be able to answer for, q >= 1.
    t : float
    deterministic : bool
        Whether the expert promises the same answer to the same question.

    Returns
    -------
    Report
        Printable; every sentence in it holds.

    Raises
    ------
    AssertionError
        If a sentence does not hold; the message is the whole report.
    """
    points = as_points(X)
    if len(points) == 0:
        raise ValueError(f"X must have at least one point, got shape {points.shape}")
    checks: list[tuple[str, Callable[[Expert, Array, float], str | None]]] = [
        ("has a method query(X, t)", _has_query),
        ("returns Answers with one value for each point", _shapes),
        ("leaves X as it was", _no_mutation),
        ("answers a single point", _single),
        ("does not mind the order of points", _order),
    ]
    if deterministic:
        checks.append(("answers the same question the same way", _repeatable))
        checks.append(("gives the same answers whatever the order of points", _same_order))
    report = Report(
        tuple((sentence, _outcome(check, expert, points, t)) for sentence, check in checks)
    )
    if not report.passed:
        raise AssertionError(f"the expert does not keep to the protocol:\n{report}")
    return report


def _outcome(
    check: Callable[[Expert, Array, float], str | None], expert: Expert, X: Array, t: float
) -> str | None:
    try:
        return check(expert, X.copy(), t)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"


def _has_query(expert: Expert, X: Array, t: float) -> str | None:  # noqa: ARG001 - one face
    return None if callable(getattr(expert, "query", None)) else f"{expert!r} has none"


def _shapes(expert: Expert, X: Array, t: float) -> str | None:
    said: object = expert.query(X, t)
    if not isinstance(said, Answers):
        return f"returned {type(said).__name__}"
    # `Answers` itself checks finite values and positive variances when it is made.
    return None if len(said) == len(X) else f"{len(said)} values for {len(X)} points"


def _no_mutation(expert: Expert, X: Array, t: float) -> str | None:
    before = X.copy()
    expert.query(X, t)
    return None if np.array_equal(before, X) else "X was changed in place"


def _single(expert: Expert, X: Array, t: float) -> str | None:
    said = expert.query(X[:1].copy(), t)
    return None if len(said) == 1 else f"{len(said)} values for 1 point"


def _order(expert: Expert, X: Array, t: float) -> str | None:
    forward, backward = expert.query(X.copy(), t), expert.query(X[::-1].copy(), t)
    if not np.array_equal(forward.answered, backward.answered[::-1]):
        return "reversing the points changed which of them were answered"
    # Honest noise stays within 8 deviations of the difference of two answers.
    deviation = np.sqrt(forward.variance + backward.variance[::-1])
    return _moved(forward, backward, 8.0 * deviation)


def _same_order(expert: Expert, X: Array, t: float) -> str | None:
    forward, backward = expert.query(X.copy(), t), expert.query(X[::-1].copy(), t)
    return _moved(forward, backward, 1e-9 * np.abs(forward.values))


def _moved(forward: Answers, backward: Answers, tolerance: Array) -> str | None:
    """How the answers to the same points in reverse differ by more than a tolerance (q,)."""
    reversed_back = backward.values[::-1]
    off = np.abs(forward.values - reversed_back) > tolerance
    if not off.any():
        return None
    row = int(off.argmax())
    return (
        f"reversing the points changed the answer for row {row} "
        f"from {forward.values[row]} to {reversed_back[row]}"
    )


def _repeatable(expert: Expert, X: Array, t: float) -> str | None:
    first, second = expert.query(X.copy(), t), expert.query(X.copy(), t)
    same = np.array_equal(first.values, second.values, equal_nan=True)
    return None if same else f"answered {first.values} and then {second.values}"
