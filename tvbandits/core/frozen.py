"""Frozen values that follow from others: every step of a bandit makes dozens of them."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def changed(value: T, **changes: Any) -> T:
    """As `dataclasses.replace`, in a tenth of its time, for values that check nothing when made.

    What is cached with the value stays behind.

    Examples
    --------
    >>> from tvbandits.core.frozen import changed
    >>> from tvbandits.core.observations import Gone
    >>> print(changed(Gone(rewards=2), answers=1))
    Gone(rewards=2, answers=1, failed=0, until=-inf, first=nan)
    """
    made, kept = object.__new__(type(value)), value.__dict__
    names = type(value).__dataclass_fields__  # type: ignore[attr-defined]  # a dataclass
    if len(kept) > len(names):
        kept = {name: kept[name] for name in names}
    object.__setattr__(made, "__dict__", kept | changes)
    return made
