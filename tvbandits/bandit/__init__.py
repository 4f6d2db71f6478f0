"""The bandit: its parts, its state, and its ask and tell."""

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import Info, State

__all__ = ["Bandit", "Info", "Recipe", "State"]
