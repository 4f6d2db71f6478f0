"""Limits on the outcomes of a play, which is to satisfy them with some probability."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.validation import (
    Array,
    as_bool,
    check_instance,
    check_optional,
    check_text,
    describe,
    finite_number,
    noise_variance_number,
)


class LimitWarning(UserWarning):
    """A warning that no point is known to satisfy the limits; the bandit plays the likeliest one."""


def as_outcomes(outcomes: Mapping[str, ArrayLike] | None) -> dict[str, ArrayLike]:
    """Return readings of outcomes by name; raise a `ValueError` unless it is such a mapping, or None.

    None in the place of a value, as in JSON, stands for a reading that failed.
    """
    if outcomes is None:
        return {}
    check_instance("outcomes", outcomes, Mapping, "a mapping of names to values, or None")
    for name in outcomes:
        check_instance("each name of outcomes", name, str, "a text")
    return {
        name: [math.nan if value is None else value for value in values]
        if isinstance(values, list | tuple)
        else values
        for name, values in outcomes.items()
    }


def check_outcome(name: object, limits: Iterable[str]) -> None:
    """Raise a `ValueError` unless there is a limit on such an outcome."""
    names = list(limits)
    if not isinstance(name, str) or name not in names:
        limited = f"there are limits on {', '.join(names) or 'nothing'}"
        raise ValueError(f"unknown outcome: there is no limit on {describe(name)}; {limited}")


@dataclass(frozen=True)
class Limit:
    """A limit on an outcome: at most, at least, or between two numbers.

    Parameters
    ----------
    name : str
        Name of the outcome, by which its readings are passed to `tell`.
    at_most, at_least : float, optional
        At least one of them, in the unit of the outcome.
    probability : float
        Share of all plays that is to satisfy the limit. Violations are risked where that gains most
        reward, at points that satisfy the limit with a probability of at least a half.
    each : bool
        True: each play must satisfy the limit with this probability, by the posterior at its time. That
        costs reward, and far fewer plays violate the limit.
    noise_variance : float, optional
        Noise variance of a reading of the outcome (its unit squared); None: it is learned.

    Raises
    ------
    ValueError
        If there is no bound, the lower one is not below the upper one, or a number cannot be used.

    Examples
    --------
    >>> from tvbandits import Limit
    >>> print(Limit("noise_level", at_most=60).holds([55.0, 61.0]))
    [ True False]
    """

    name: str
    at_most: float | None = None
    at_least: float | None = None
    probability: float = 0.95
    noise_variance: float | None = None
    each: bool = False

    def __post_init__(self) -> None:
        check_text("name", self.name)
        if not self.name.isidentifier():
            raise ValueError(f"the name of a limit must be a word, got {describe(self.name)}")
        for name in ("at_most", "at_least"):
            check_optional(finite_number, name, getattr(self, name))
        low, high = self.bounds
        if not low < high or (self.at_most is None and self.at_least is None):
            needs = "at_most or at_least, the latter below the former"
            raise ValueError(f"a limit needs {needs}, got {self!r}")
        finite_number("probability", self.probability, low=0.5, below=1.0)
        check_optional(noise_variance_number, "noise_variance", self.noise_variance)
        as_bool("each", self.each)

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest value that satisfies the limit, which may be infinite."""
        low = -math.inf if self.at_least is None else self.at_least
        return low, math.inf if self.at_most is None else self.at_most

    def holds(self, values: Array) -> NDArray[np.bool_]:
        """Return which of the values (n,) satisfy the limit; NaN, a failed reading, does."""
        low, high = self.bounds
        return ~((np.asarray(values) < low) | (np.asarray(values) > high))

    def excess(self, values: Array) -> Array:
        """Return the excess (n,) of values over the limit; 0 if there is none, or a value is NaN."""
        low, high = self.bounds
        values = np.asarray(values, dtype=float)
        return np.asarray(np.fmax(np.fmax(low - values, values - high), 0.0))
