"""Define aging maps, which increase the noise variances of observations with their age.

An aging map takes the noise variances and ages of observations, and returns effective noise variances:
those of the observations as readings of the reward at the time of the decision. An infinite variance
means that the observation is forgotten. Maps can be composed.

==================  ==========================================  =====================================
map                 effective variance of an observation        used by
==================  ==========================================  =====================================
`Constant`          s^2                                         GP-UCB
`ResetEvery`        s^2 since the last reset, else infinite     R-GP-UCB
`Window`            s^2 inside the window, else infinite        SW-GP-UCB
`Exponential`       s^2 discount^(-age)                         W-GP-UCB
`Linear`            s^2 (1 + (rate age)^2)                      SparQ-GP-UCB, UI-GP-UCB
`Wiener`            s^2 + rate age                              UI-GP-UCB
`DiscardAbove`      infinite above a threshold g                SparQ-GP-UCB
==================  ==========================================  =====================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.data import Dataset, Source
from tvbandits.validation import (
    Array,
    Index,
    as_list,
    as_vector,
    check_function,
    check_optional,
    finite_number,
    noise_variance_number,
    positive_number,
    refuse,
    whole_number,
)

# The rate and the discount at which next to nothing ages, whatever the unit of time: those of a policy
# until it has learned another one.
SMALLEST_RATE, LARGEST_DISCOUNT = 1e-75, 1.0 - 2.0**-53


@dataclass(frozen=True)
class Ages:
    """The ages of n observations, in time and in rewards.

    Attributes
    ----------
    age : array of shape (n,)
        Time from the observation to the decision, in the user's unit; not negative.
    newer : integer array of shape (n,)
        Number of rewards that are newer than the observation. Of two rewards of one time, the one that
        arrived later is the newer.
    total : int
        Number of all rewards: the "t" of the schedules in the literature.
    """

    age: Array
    newer: Index
    total: int

    @classmethod
    def of(cls, observations: Dataset, now: float, before: int = 0) -> Ages:
        """Return the ages of observations at the time `now`.

        `before` is the number of earlier rewards, which are not in `observations`.
        """
        t = observations.t
        is_reward = observations.source == Source.REWARD
        if is_reward.all() and (t[1:] >= t[:-1]).all():  # the usual case of sorted rewards
            return cls(np.maximum(now - t, 0.0), np.arange(len(t) - 1, -1, -1), before + len(t))
        count = int(is_reward.sum())
        newer = np.empty(len(t), dtype=np.int64)
        reward_times = t[is_reward]
        order = np.argsort(reward_times, kind="stable")
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.arange(count)
        newer[is_reward] = count - 1 - rank
        # An expert's answer is newer than the rewards of its own time.
        older = np.searchsorted(reward_times[order], t[~is_reward], side="right")
        newer[~is_reward] = count - older
        return cls(np.maximum(now - t, 0.0), newer, before + count)


class Aging(Protocol):
    """A map from noise variances (n,) and ages to effective noise variances (n,).

    A map has `monotone = True` if a larger variance, age or number of newer rewards never gives a
    smaller effective variance. All observations older than a forgotten one are then forgotten, too.
    """

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return the effective variance of each observation; infinite if it is forgotten."""


@runtime_checkable
class MaybeMonotone(Protocol):
    """An aging map that declares whether it is monotone."""

    @property
    def monotone(self) -> bool:
        """Return whether all observations older than a forgotten one are forgotten, too."""


@runtime_checkable
class RatedAging(Aging, Protocol):
    """An aging map with a forgetting rate.

    If the rate is a variance per unit of time, the map has `adds_variance = True`, like `Wiener`.
    """

    @property
    def forgetting_rate(self) -> float:
        """Return the forgetting rate; a larger one means faster aging."""

    def at_rate(self, rate: float) -> Aging:
        """Return the same map with another, positive forgetting rate."""


@runtime_checkable
class MaybeAddsVariance(Protocol):
    """An aging map that declares whether its forgetting rate is a variance per unit of time."""

    @property
    def adds_variance(self) -> bool:
        """Return whether the forgetting rate is a variance per unit of time."""


def is_monotone(aging: Aging) -> bool:
    """Return whether an aging map declares that it is monotone."""
    return isinstance(aging, MaybeMonotone) and aging.monotone


def adds_variance(aging: Aging) -> bool:
    """Return whether an aging map declares that its forgetting rate is a variance per unit of time."""
    return isinstance(aging, MaybeAddsVariance) and aging.adds_variance


def has_rate(aging: object) -> TypeGuard[RatedAging]:
    """Return whether an aging map, or a part of a composition, has a forgetting rate to learn."""
    return isinstance(aging, RatedAging) and not math.isnan(aging.forgetting_rate)


@dataclass(frozen=True)
class Constant:
    """An aging map under which observations never age.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import Constant
    >>> ages = Ages(np.array([9.0, 0.0]), newer=np.array([9, 0]), total=10)
    >>> print(Constant()(np.full(2, 0.1), ages).round(3))
    [0.1 0.1]
    """

    def __call__(self, variance: Array, ages: Ages) -> Array:  # noqa: ARG002 - part of the protocol
        """Return `variance` unchanged."""
        return variance


@dataclass(frozen=True)
class ResetEvery:
    """An aging map that forgets all observations after each `every` rewards.

    After n rewards, the next decision uses the rewards since the last multiple of `every`; right after a
    reset it uses none (Bogunovic 2016; Zhou & Shroff 2021).

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import ResetEvery
    >>> ages = Ages(np.array([9.0, 0.0]), newer=np.array([9, 0]), total=10)
    >>> print(ResetEvery(4)(np.full(2, 0.1), ages).round(3))
    [inf 0.1]
    """

    every: int

    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole_number("every", self.every)

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return the variances, infinite before the last reset."""
        position = ages.total - 1 - ages.newer
        current = position // self.every == ages.total // self.every
        return np.where(current, variance, np.inf)


@dataclass(frozen=True)
class Window:
    """An aging map that forgets all observations outside of a window.

    The window contains the `last` rewards, the observations younger than `within`, or those that satisfy
    both if both are stated. An expert's answer is in it while fewer than `last` rewards are newer.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import Window
    >>> ages = Ages(np.array([9.0, 0.0]), newer=np.array([9, 0]), total=10)
    >>> print(Window(last=5)(np.full(2, 0.1), ages).round(3))
    [inf 0.1]
    """

    last: int | None = None
    within: float | None = None

    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.last is None and self.within is None:
            raise ValueError("a window needs last= (a number of rewards) or within= (a time)")
        check_optional(whole_number, "last", self.last)
        check_optional(positive_number, "within", self.within)

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return the variances, infinite outside of the window."""
        inside = np.ones(len(variance), dtype=bool)
        if self.last is not None:
            inside &= ages.newer < self.last
        if self.within is not None:
            inside &= ages.age < self.within
        return np.where(inside, variance, np.inf)


@dataclass(frozen=True)
class Exponential:
    """An aging map that discounts observations geometrically, s^2 discount^(-age).

    W-GP-UCB uses it (Deng 2022).

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import Exponential
    >>> ages = Ages(np.array([9.0, 0.0]), newer=np.array([9, 0]), total=10)
    >>> print(Exponential(0.9)(np.full(2, 0.1), ages).round(3))
    [0.258 0.1  ]
    """

    discount: float

    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        finite_number("discount", self.discount, above=0.0, below=1.0)

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return variances that grow with age; infinite beyond the range of a float."""
        with np.errstate(over="ignore"):
            return np.asarray(variance * np.exp(-math.log(self.discount) * ages.age))

    @property
    def forgetting_rate(self) -> float:
        """Return -log discount."""
        return -math.log(self.discount)

    def at_rate(self, rate: float) -> Exponential:
        """Return the map with the discount exp(-rate)."""
        # At either end of the range of a float, observations are forgotten at once or never.
        return Exponential(min(math.exp(-min(rate, 700.0)), LARGEST_DISCOUNT))


@dataclass(frozen=True)
class _RateAging:
    """The base of aging maps with a positive forgetting rate."""

    rate: float

    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive_number("rate", self.rate)

    @property
    def forgetting_rate(self) -> float:
        """Return the rate."""
        return self.rate

    def at_rate(self, rate: float) -> Self:
        """Return the map with another rate."""
        return replace(self, rate=rate)


@dataclass(frozen=True)
class Linear(_RateAging):
    """An aging map with a linearly growing noise deviation, s^2 (1 + (rate age)^2).

    SparQ-GP-UCB uses it (eqs. 10 and 15).

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import Linear
    >>> ages = Ages(np.array([9.0, 0.0]), newer=np.array([9, 0]), total=10)
    >>> print(Linear(0.1)(np.full(2, 0.1), ages).round(3))
    [0.181 0.1  ]
    """

    rate: float = 1.0

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return variances that grow with the squared age; infinite beyond the range of a float."""
        with np.errstate(over="ignore"):
            return np.asarray(variance * (1.0 + (self.rate * ages.age) ** 2))


@dataclass(frozen=True)
class Wiener(_RateAging):
    """An aging map for a reward that diffuses, s^2 + rate age (Van Vaerenbergh 2012; Brunzema 2022).

    The unit of `rate` is that of the reward squared per unit of time.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import Wiener
    >>> ages = Ages(np.array([9.0, 0.0]), newer=np.array([9, 0]), total=10)
    >>> print(Wiener(0.02)(np.full(2, 0.1), ages).round(3))
    [0.28 0.1 ]
    """

    adds_variance: ClassVar[bool] = True

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return variances that grow with the age; infinite beyond the range of a float."""
        with np.errstate(over="ignore"):
            return np.asarray(variance + self.rate * ages.age)


@dataclass(frozen=True)
class LogThreshold:
    """The threshold g(t) = noise_variance log t after t rewards (SparQ-GP-UCB, section 3).

    If the noise variance is None, a learned one is used (`set_noise`).
    """

    noise_variance: float | None

    def __post_init__(self) -> None:
        check_optional(noise_variance_number, "noise_variance", self.noise_variance)

    def __call__(self, total: int) -> float:
        """Return the threshold after `total` rewards."""
        assert self.noise_variance is not None  # `set_noise` sets it
        return self.noise_variance * math.log(max(total, 1))


@dataclass(frozen=True)
class DiscardAbove:
    """An aging map that forgets observations with variances above a threshold g(t), after t rewards.

    It never forgets the newest reward. The theory of SparQ-GP-UCB holds for any g(t) = o(t^(1/4)).

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import DiscardAbove
    >>> ages = Ages(np.array([9.0, 0.0]), newer=np.array([9, 0]), total=10)
    >>> print(DiscardAbove(lambda total: 0.2)(np.array([0.3, 0.1]), ages).round(3))
    [inf 0.1]
    """

    threshold: Callable[[int], float]

    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_function("threshold", self.threshold, "a function of t")

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return the variances, infinite above the threshold except for the newest reward."""
        limit = self.threshold(ages.total)
        if not isinstance(limit, float) or math.isnan(limit):
            limit = finite_number(f"threshold({ages.total})", limit)
        # [S] Algorithm 1, line 4.
        return np.where((variance <= limit) | (ages.newer == 0), variance, np.inf)


@dataclass(frozen=True)
class Composition:
    """An aging map that applies several maps one after the other."""

    maps: tuple[Aging, ...]

    def __post_init__(self) -> None:
        maps = tuple(as_list("maps", self.maps, "a sequence of aging maps"))
        if not maps:
            raise ValueError("a composition needs at least one aging map, got none")
        for aging in maps:
            check_function("maps of a composition", aging, "aging maps")
        object.__setattr__(self, "maps", maps)

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Return the variances after all maps, applied in their order."""
        for aging in self.maps:
            variance = aging(variance, ages)
        return variance

    def at_rate(self, rate: float) -> Composition:
        """Return the composition with another forgetting rate for all maps that have one."""
        maps = (
            aging.at_rate(rate) if isinstance(aging, RatedAging) else aging for aging in self.maps
        )
        return Composition(tuple(maps))

    @property
    def forgetting_rate(self) -> float:
        """Return the rate of the first map that has one; NaN if none has.

        At most one map should have a rate.
        """
        return next((aging.forgetting_rate for aging in self.maps if has_rate(aging)), math.nan)

    @property
    def monotone(self) -> bool:
        """Return whether all maps are monotone."""
        return all(map(is_monotone, self.maps))

    @property
    def adds_variance(self) -> bool:
        """Return whether the forgetting rate of one of the maps is a variance."""
        return any(map(adds_variance, self.maps))


def compose(*maps: Aging) -> Composition:
    """Return the composition of maps, which are applied in order: `compose(Linear(1), DiscardAbove(g))`.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.forgetting.aging import Ages
    >>> from tvbandits.forgetting.aging import Linear, Window, compose
    >>> ages = Ages(np.array([9.0, 2.0, 0.0]), newer=np.array([9, 2, 0]), total=10)
    >>> print(compose(Linear(0.5), Window(last=5))(np.full(3, 0.1), ages))
    [inf 0.2 0.1]
    """
    return Composition(tuple(maps))


def set_noise(aging: Aging, variance: float) -> Aging:
    """Return the map with a learned noise variance in each `LogThreshold` without one."""
    if isinstance(aging, Composition):
        return Composition(tuple(set_noise(part, variance) for part in aging.maps))
    if isinstance(aging, DiscardAbove) and aging.threshold == LogThreshold(None):
        return DiscardAbove(LogThreshold(variance))
    return aging


def check_effective(values: ArrayLike, n: int) -> Array:
    """Return the effective variances (n,) of an aging map after checking them.

    Raises
    ------
    ValueError
        If a variance is NaN or not positive, or there are not `n` of them.
    """
    column = as_vector(values, n, "what the aging map returns")
    needs = "the aging map must return positive variances, infinite for forgotten observations"
    refuse(~(column > 0), column, needs)
    return column
