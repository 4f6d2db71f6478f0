"""What is forgotten for good need not be looked at again.

A step of a bandit that forgets should cost what it remembers, however long it has played. Most maps
forget the oldest observations for good; the rest is a short tail, and everything that an aging map may
look at follows from it and from how many there were before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvbandits.core.observations import Observations
from tvbandits.forgetting.aging import Ages, Aging, Final, Mask, is_final

LOOKED_AT = 64
"""What is gone is looked for whenever the tail has grown by so many, and to twice its length."""


FAINT = 1e28
"""An observation is gone if its variance exceeds that of the reward by this factor. Beyond 1e16 it
cannot move a posterior by one rounding error; the rest is for a scale that may turn out larger."""


@dataclass(frozen=True)
class ActiveWindow:
    """Where what may still count begins.

    Attributes
    ----------
    rewards, answers : int
        How many of the first are gone.
    """

    rewards: int = 0
    answers: int = 0


@dataclass(frozen=True)
class _Known:
    """A tail, what it is of, the latest time before it, and how long it was when it was looked for."""

    rewards: Observations
    answers: Observations
    aging: Aging
    tail: ActiveWindow
    before: float
    length: int


class Memory:
    """Finds the tail, from where it was before. All it keeps can be found again."""

    def __init__(self) -> None:
        self._known: _Known | None = None

    def tail(
        self,
        rewards: Observations,
        answers: Observations,
        aging: Aging,
        time: float,
        prior: Callable[[Observations], float],
    ) -> ActiveWindow:
        """Where what may still count begins.

        Parameters
        ----------
        rewards, answers : Observations
        aging : Aging
        time : float
            The latest time told.
        prior : callable
            Largest prior variance of the reward where there are observations, in its unit squared.
        """
        if not is_final(aging):
            return ActiveWindow()
        known = self._continued(rewards, answers, aging)
        length = len(rewards) + len(answers) - known.tail.rewards - known.tail.answers
        if length >= 2 * known.length + LOOKED_AT:
            known = _shortened(known, time, prior)
        self._known = known
        return known.tail

    def _continued(self, rewards: Observations, answers: Observations, aging: Aging) -> _Known:
        """The tail as it was before, if it is one of these still."""
        known = self._known
        if known is None or known.aging is not aging or not rewards.begins_with(known.rewards):
            return _Known(rewards, answers, aging, ActiveWindow(), -math.inf, 0)
        # Answers may have been replaced by others; rewards are told, and stay.
        same = answers.begins_with(known.answers)
        tail = known.tail if same else replace(known.tail, answers=0)
        if known.before > -math.inf:
            fresh = rewards.t[len(known.rewards) :].min(initial=math.inf)
            if min(fresh, answers.t[tail.answers :].min(initial=math.inf)) < known.before:
                return _Known(rewards, answers, aging, ActiveWindow(), -math.inf, 0)
        return replace(known, rewards=rewards, answers=answers, tail=tail)


def of_tail(
    rewards: Observations, answers: Observations, tail: ActiveWindow, now: float
) -> tuple[Observations, Ages]:
    """The observations from the tail on, and their ages at the time `now`."""
    seen = rewards.take(slice(tail.rewards, None)).append(answers.take(slice(tail.answers, None)))
    ages = Ages.of(seen, now)
    return seen, replace(ages, told=ages.told + tail.rewards)


def _shortened(known: _Known, time: float, prior: Callable[[Observations], float]) -> _Known:
    """The tail without those of its first observations that are gone."""
    seen, ages = of_tail(known.rewards, known.answers, known.tail, time)
    aging = known.aging
    if not isinstance(aging, Final):
        return known
    effective = aging(seen.variance, ages)
    # What is infinite may be so for now only: that is for the map to say.
    faint = np.isfinite(effective) & (effective > FAINT * prior(seen))
    gone = aging.gone(seen.variance, ages) | faint
    of_rewards = len(known.rewards) - known.tail.rewards
    more, answers = _leading(gone[:of_rewards]), _leading(gone[of_rewards:])
    before = max(known.before, seen.t[:more].max(initial=-math.inf))
    rest = np.concatenate([seen.t[more:of_rewards], seen.t[of_rewards + answers :]])
    # Ages are counted within the tail: all rewards before it must be older than what is in it.
    if rest.min(initial=math.inf) < before:
        return replace(known, length=len(seen))
    tail = ActiveWindow(known.tail.rewards + more, known.tail.answers + answers)
    return replace(known, tail=tail, before=float(before), length=len(rest))


def _leading(gone: Mask) -> int:
    """How many come before the first that is not."""
    return len(gone) if gone.all() else int(np.argmin(gone))
