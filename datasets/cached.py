"""`functools.cached_property`, as every type checker understands it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # pyright does not compare the type of a cached value with that of a property of a protocol.
    cached_property = property
else:
    from functools import cached_property as cached_property
