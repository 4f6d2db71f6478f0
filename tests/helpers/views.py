"""The posterior of a bandit at a time, as for a decision."""

from tvbandits import Bandit
from tvbandits.bandit.state import State
from tvbandits.gp.predictions import ScaledPosterior


def condition(bandit: Bandit, t: float) -> tuple[State, ScaledPosterior]:
    """Return the state and the posterior of a decision at a time, without a change of the bandit."""
    inference, state = bandit._inference, bandit.state
    return inference.condition(state, t, inference.take_generator(state.random))
