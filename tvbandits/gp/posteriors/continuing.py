"""A filter goes on from where it was: a step should cost what is new, not what has been seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvbandits.core.observations import Observations
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.protocol import Posterior, Sequential

KEPT = 3
"""So many are remembered: looks ahead are made aside from what a bandit goes on with."""


@dataclass(frozen=True)
class _Absorbed:
    """A posterior, and the rewards and answers that it knows."""

    rewards: Observations
    answers: Observations
    answered: float
    of: object
    posterior: Posterior


class FilterCache:
    """Remembers which observations a filter knows. All it keeps can be computed again."""

    def __init__(self) -> None:
        self._known: tuple[_Absorbed, ...] = ()

    def posterior(
        self,
        rewards: Observations,
        answers: Observations,
        of: object,
        rows: Callable[[Observations], Data],
        now: float,
    ) -> Posterior | None:
        """A filter that has gone on to all that was seen, if one was before some of it.

        Parameters
        ----------
        rewards, answers : Observations
        of : object
            What else it was made from; compared by identity.
        rows : callable
            What a posterior is told of observations.
        now : float
            The time that it shall speak about.
        """
        for known in self._known:
            same = known.of is of and rewards.begins_with(known.rewards)
            if not (same and answers.begins_with(known.answers)):
                continue
            told = rewards.take(slice(len(known.rewards), None))
            said = answers.take(slice(len(known.answers), None))
            # Of one time, rewards come before answers: a reward may not follow them.
            if not isinstance(known.posterior, Sequential) or (
                told.t.min(initial=math.inf) <= known.answered
            ):
                continue
            made = known.posterior.continued(rows(told.append(said)), now)
            if made is not None:
                self.keep(rewards, answers, of, made)
                return made
        return None

    def keep(
        self,
        rewards: Observations,
        answers: Observations,
        of: object,
        posterior: Posterior,
    ) -> None:
        """Remember that `posterior` knows these."""
        if not isinstance(posterior, Sequential):
            self._known = ()
            return
        answered = float(answers.t.max(initial=-math.inf))
        made = _Absorbed(rewards, answers, answered, of, posterior)
        self._known = (made, *self._known[: KEPT - 1])
