"""Gaussian-process bandits for rewards that drift, with an interface for asking an expert."""

from tvbandits import policies
from tvbandits._version import __version__
from tvbandits.bandit import Bandit
from tvbandits.compare import compare
from tvbandits.domains import Box, Candidates
from tvbandits.evaluation import EvaluationError, Played, evaluate, play
from tvbandits.observations import Observations
from tvbandits.protocols import (
    Answers,
    Expert,
    ExpertDownWarning,
    ExpertError,
    ExpertUnavailableError,
    Problem,
)
from tvbandits.recipe import Info, Recipe, State

__all__ = [
    "Answers",
    "Bandit",
    "Box",
    "Candidates",
    "EvaluationError",
    "Expert",
    "ExpertDownWarning",
    "ExpertError",
    "ExpertUnavailableError",
    "Info",
    "Observations",
    "Played",
    "Problem",
    "Recipe",
    "State",
    "__version__",
    "compare",
    "evaluate",
    "play",
    "policies",
]
