"""What a bandit believes at a time, for tests that look inside of it."""

from tvbandits import Bandit
from tvbandits.bandit.state import State, generator_of
from tvbandits.gp.predictions import ScaledPosterior


def condition(bandit: Bandit, t: float) -> tuple[State, ScaledPosterior]:
    """Return the state of a bandit that speaks about a time, and what it says."""
    state = bandit.state
    return bandit._inference.condition(state, t, generator_of(state.random))
