"""Pictures of a bandit."""

from tvbandits.plots.beliefs import beliefs

__all__ = ["beliefs"]
