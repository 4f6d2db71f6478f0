"""The base class of experts that wrap another expert, and a lock that is free in a forked process."""

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


def query_and_check(expert: Expert, points: Array, t: float) -> Answers:
    """Return an expert's answers for points (q, d); raise an `ExpertError` if they are not valid."""
    return check_answers(expert.query(points.copy(), t), len(points), type(expert).__name__)


class Wrapper:
    """An expert that wraps another expert, shows it the rewards, and saves its state.

    A subclass is a dataclass whose first field is `expert`, with a method `query`.

    Attributes
    ----------
    expert : Expert
        The wrapped expert.

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
        """Show rewards to the wrapped expert."""
        inform(self.expert, rewards)

    def state(self) -> dict[str, Any]:
        """Return the state of the wrapped expert."""
        return {"expert": state_of(self.expert)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state of the wrapped expert."""
        if "expert" not in state:
            raise ValueError(
                f"this is not the state of a {type(self).__name__}: 'expert' is missing"
            )
        restore_state(self.expert, state["expert"])


class SharedLock:
    """A lock for threads that is replaced by a new, free one in a forked process and in a copy.

    Otherwise a forked process might inherit a lock that none of its threads will ever release.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedLock, ()

    @property
    def current(self) -> threading.RLock:
        """Return the lock of this process, to be used as a context manager.

        It is Python's own lock, which an interrupt at the start of the block cannot leave locked.
        """
        if os.getpid() != self._process:
            self._lock, self._process = threading.RLock(), os.getpid()
        return self._lock
