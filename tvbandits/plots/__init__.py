"""Pictures of a bandit."""

from tvbandits.plots.panels import beliefs

__all__ = ["beliefs"]
