"""Errors about points and times, and warnings that name the line of the caller.

An error keeps points and times as values, so that a campaign can show site names and dates instead.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def format_plain_time(t: float) -> str:
    """Return a time as the text `t = 8`."""
    return f"t = {t:.15g}"


class PlayError(ValueError):
    """An error about a point or a time.

    Parameters
    ----------
    sentence : str
        The message, with the names of values in braces: "there is no reading of {point} at {t}".
    **values
        The values by name. An array (d,) is a point, a float is a time; others appear as their `str`.

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
        return self.message(lambda point: str(point.tolist()), format_plain_time)

    def message(
        self,
        format_point: Callable[[NDArray[np.float64]], str],
        format_time: Callable[[float], str],
    ) -> str:
        """Return the message, with points and times as two functions write them."""
        if not self.values:
            return self.sentence

        def replace(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return format_point(value)
            return format_time(value) if isinstance(value, float) else value

        return self.sentence.format_map({key: replace(value) for key, value in self.values.items()})


class CallWithinCallError(RuntimeError):
    """An error for a call of a bandit during another call of it, such as by its own expert."""


def warn_caller(warning: Warning) -> None:
    """Issue a warning that names the line outside of this package from which the call came.

    It is shown each time, also if another bandit has warned from the same line.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tvbandits."):
        frame = frame.f_back
    warnings.warn_explicit(
        warning, type(warning), frame.f_code.co_filename, frame.f_lineno, registry={}
    )


def _restore(kind: type[PlayError], sentence: str, values: Mapping[str, Any]) -> PlayError:
    """Return an unpickled error."""
    return kind(sentence, **values)
