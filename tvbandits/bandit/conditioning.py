"""A cached result of conditioning a bandit's state at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvbandits.bandit.state import State
from tvbandits.gp.predictions import ScaledPosterior


@dataclass(frozen=True)
class ConditioningResult:
    """A cached result of conditioning a state at a time.

    Attributes
    ----------
    start, result : State
        The state before and after conditioning.
    now : float
        The time.
    before, after : mapping
        The states of the random generator before and after conditioning.
    view : ScaledPosterior
        The posterior at time `now`, in the unit of reward.
    """

    start: State
    now: float
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    result: State
    view: ScaledPosterior

    def is_result_for(self, state: State, random: Mapping[str, Any]) -> bool:
        """Return whether conditioning `state` would give this result, with the same random numbers."""
        start = self.start
        return (
            start.answers is state.answers
            and start.model.has_prior_of(state.model)
            and start.posterior is state.posterior
            and start.model.calibration is state.model.calibration
            and start.model.reset_index == state.model.reset_index
            and start.time == state.time
            and self.before == random
        )

    def apply_to(self, state: State) -> State:
        """Return the conditioned `state`: this result's model and posterior with the other fields."""
        result = self.result
        info = replace(state.info, posterior=result.info.posterior, model=result.info.model)
        model = state.model
        if not model.has_prior_of(result.model):
            model = model.with_prior_of(result.model)
        return replace(state, model=model, posterior=result.posterior, info=info)
