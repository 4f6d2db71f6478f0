"""A check that a call is refused, in one line."""

from collections.abc import Callable
from typing import Any

import pytest


def assert_refused(
    error: type[BaseException],
    match: str,
    call: Callable[..., object],
    /,
    *arguments: Any,
    **keywords: Any,
) -> None:
    """Check that a call raises an error whose message matches."""
    __tracebackhide__ = True
    with pytest.raises(error, match=match):
        call(*arguments, **keywords)
