"""`functools.cached_property`, as every type checker understands it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # pyright does not compare the type of a cached value with that of a property of a protocol.
    from builtins import property as cached_property
else:
    from functools import cached_property

__all__ = ["cached_property"]
