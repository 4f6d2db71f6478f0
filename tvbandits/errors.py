"""Errors about points and times, which keep both as values for whoever has other words for them.

And warnings that name the line of the caller.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def time_text(t: float) -> str:
    """Return a time as text."""
    return f"t = {t:.15g}"


class PlayError(ValueError):
    """Something is wrong with a point or a time.

    Parameters
    ----------
    sentence : str
        What is wrong, with the names of values in braces: "there is no reading of {point} at {t}".
    **values
        By name: an array (d,) is a point, a float is a time; anything else is said as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.errors import PlayError
    >>> error = PlayError("{point} is not pending at {t}", point=np.array([2.5]), t=8.0)
    >>> print(error, "|", error.message(lambda point: "mill", lambda t: "8 o'clock"))
    [2.5] is not pending at t = 8 | mill is not pending at 8 o'clock
    """

    def __init__(self, sentence: str, **values: Any) -> None:
        super().__init__(sentence)
        self.sentence, self.values = sentence, values

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.sentence, self.values)

    def __str__(self) -> str:
        return self.message(lambda point: str(point.tolist()), time_text)

    def message(
        self, name: Callable[[NDArray[np.float64]], str], when: Callable[[float], str]
    ) -> str:
        """Return the message with other words for points and times."""
        if not self.values:
            return self.sentence

        def word(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return name(value)
            return when(value) if isinstance(value, float) else value

        return self.sentence.format_map({key: word(value) for key, value in self.values.items()})


class CallWithinCallError(RuntimeError):
    """A bandit was called from inside of one of its own calls, such as by the expert that it asks."""


def warn_caller(warning: Warning) -> None:
    """Give a warning that names the line outside of this package which led here.

    Another bandit's warning on that line is no reason to be silent.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tvbandits."):
        frame = frame.f_back
    warnings.warn_explicit(
        warning, type(warning), frame.f_code.co_filename, frame.f_lineno, registry={}
    )


def _restore(kind: type[PlayError], sentence: str, values: Mapping[str, Any]) -> PlayError:
    return kind(sentence, **values)
