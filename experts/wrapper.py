"""The base of experts that wrap another expert, and a lock that is free in a forked child."""

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

# The requirement on an expert, in messages.
NEEDS = "an object with a method query(X, t)"


def ask(expert: Expert, points: Array, t: float) -> Answers:
    """Return the answers of an expert; an `ExpertError` if they do not fit the points (q, d)."""
    return check_answers(expert.query(points.copy(), t), len(points), type(expert).__name__)


class Wrapper:
    """An expert around another one, which sees the rewards and whose state is saved with it.

    A subclass is a dataclass that begins with the field `expert` and has a method `query`.

    Attributes
    ----------
    expert : Expert
        The expert that is wrapped.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from tvbandits import Answers
    >>> from tvbandits.experts.protocol import Expert
    >>> from tvbandits.experts import CallableExpert
    >>> from tvbandits.experts.wrapper import Wrapper
    >>> @dataclass
    ... class Cautious(Wrapper):
    ...     expert: Expert
    ...     factor: float = 4.0
    ...     def query(self, X, t):
    ...         answers = self.expert.query(X, t)
    ...         return Answers(answers.values, self.factor * answers.variance)
    >>> expert = Cautious(CallableExpert(lambda X, t: X[:, 0], 0.01))
    >>> print(expert.query(np.array([[2.0]]), 1.0).variance)
    [0.04]
    """

    expert: Expert

    def observe(self, rewards: Dataset) -> None:
        """Show rewards to the expert."""
        inform(self.expert, rewards)

    def state(self) -> dict[str, Any]:
        """Return the state of the expert."""
        return {"expert": state_of(self.expert)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state of the expert."""
        if "expert" not in state:
            raise ValueError(f"not the state of a {type(self).__name__}: 'expert' is missing")
        restore_state(self.expert, state["expert"])


class SharedLock:
    """A lock of threads that is new in a forked child, where nobody holds it, and in a copy.

    Otherwise the child would inherit a lock that no thread will ever release.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedLock, ()

    @property
    def now(self) -> threading.RLock:
        """The lock for a block: Python's own, which no interrupt parts from its block."""
        if os.getpid() != self._process:
            self._lock, self._process = threading.RLock(), os.getpid()
        return self._lock
