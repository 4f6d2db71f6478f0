"""A call that must be refused, on one line."""

from collections.abc import Callable
from typing import Any

import pytest


def refused(
    error: type[BaseException], match: str, call: Callable[..., object], /, *given: Any, **more: Any
) -> None:
    """Make a call that raises an error whose message matches."""
    __tracebackhide__ = True
    with pytest.raises(error, match=match):
        call(*given, **more)
