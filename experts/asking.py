"""What experts that stand around other experts share.

A lock that a fork leaves free in the child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from tvbandits.data import Dataset
from tvbandits.experts.protocol import (
    Answers,
    Expert,
    check_answers,
    inform,
    restore_state,
    state_of,
)
from tvbandits.validation import Array

# What an expert must be.
NEEDS = "an object with a method query(X, t)"


def ask(expert: Expert, points: Array, t: float) -> Answers:
    """Ask about a copy of the points; an `ExpertError` if the answer does not fit the question."""
    return check_answers(expert.query(points.copy(), t), len(points), type(expert).__name__)


class Wrapper:
    """An expert around another one: rewards go through it, and so does what is known inside.

    A subclass is a dataclass that begins with the field `expert` and has a method `query`.

    Attributes
    ----------
    expert : Expert
        The one inside.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from tvbandits import Answers
    >>> from tvbandits.experts.protocol import Expert
    >>> from tvbandits.experts import CallableExpert
    >>> from tvbandits.experts.asking import Wrapper
    >>> @dataclass
    ... class Doubted(Wrapper):
    ...     expert: Expert
    ...     factor: float = 4.0
    ...     def query(self, X, t):
    ...         answers = self.expert.query(X, t)
    ...         return Answers(answers.values, self.factor * answers.variance)
    >>> expert = Doubted(CallableExpert(lambda X, t: X[:, 0], 0.01))
    >>> print(expert.query(np.array([[2.0]]), 1.0).variance)
    [0.04]
    """

    expert: Expert

    def observe(self, rewards: Dataset) -> None:
        """Show rewards to the expert."""
        inform(self.expert, rewards)

    def state(self) -> dict[str, Any]:
        """What the expert knows."""
        return {"expert": state_of(self.expert)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Give the expert back what it knew."""
        if "expert" not in state:
            raise ValueError(f"not the state of a {type(self).__name__}: 'expert' is missing")
        restore_state(self.expert, state["expert"])


class SharedLock:
    """A lock of threads that is new in a forked child, where nobody holds it, and in a copy.

    Otherwise the child would inherit a lock that nobody will ever release.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedLock, ()

    @property
    def now(self) -> threading.RLock:
        """The lock of a block: Python's own, since no interrupt comes between it and its block."""
        if os.getpid() != self._process:
            self._lock, self._process = threading.RLock(), os.getpid()
        return self._lock
