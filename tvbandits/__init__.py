"""Gaussian-process bandits for rewards that drift, with an interface for asking an expert."""

from tvbandits import policies
from tvbandits._version import __version__
from tvbandits.bandit import plots
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.play import EvaluationError, Played, evaluate, play
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import Info, State
from tvbandits.comparison.compare import compare
from tvbandits.core.clock import Clock
from tvbandits.core.domains import Box, Candidates, Integer, Space
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import (
    Answers,
    Expert,
    ExpertDownWarning,
    ExpertError,
    ExpertUnavailableError,
    Problem,
)

__all__ = [
    "Answers",
    "Bandit",
    "Box",
    "Candidates",
    "Clock",
    "EvaluationError",
    "Expert",
    "ExpertDownWarning",
    "ExpertError",
    "ExpertUnavailableError",
    "Info",
    "Integer",
    "Observations",
    "Played",
    "Problem",
    "Recipe",
    "Space",
    "State",
    "__version__",
    "compare",
    "evaluate",
    "play",
    "plots",
    "policies",
]
