"""A `cached_property` (that of `functools`) whose type every type checker accepts."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # pyright does not accept a cached property where a protocol declares a property.
    cached_property = property
else:
    from functools import cached_property as cached_property
