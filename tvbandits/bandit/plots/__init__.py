"""Pictures of a bandit."""

from tvbandits.bandit.plots.panels import beliefs

__all__ = ["beliefs"]
