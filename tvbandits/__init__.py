"""Gaussian-process bandits for rewards that drift, with an interface for asking an expert.

Names are imported when they are used first, so that `tvbandits --help` need not wait for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tvbandits._version import __version__

if TYPE_CHECKING:
    from tvbandits import bandit, datasets, experts, policies, queries
    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.play import EvaluationError, Played, evaluate, play
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import Info, State
    from tvbandits.comparison.compare import compare
    from tvbandits.core.domains import Box, Candidates
    from tvbandits.core.observations import Observations
    from tvbandits.core.protocols import (
        Answers,
        Expert,
        ExpertDownWarning,
        ExpertError,
        ExpertUnavailableError,
        Problem,
    )

_HOMES = {
    "bandit.bandit": ("Bandit",),
    "bandit.play": ("EvaluationError", "Played", "evaluate", "play"),
    "bandit.recipe": ("Recipe",),
    "bandit.state": ("Info", "State"),
    "comparison.compare": ("compare",),
    "core.domains": ("Box", "Candidates"),
    "core.observations": ("Observations",),
    "core.protocols": (
        "Answers",
        "Expert",
        "ExpertDownWarning",
        "ExpertError",
        "ExpertUnavailableError",
        "Problem",
    ),
}
"""Where the names stand, as above."""

_PACKAGES = ("bandit", "datasets", "experts", "policies", "queries")

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
    "bandit",
    "compare",
    "datasets",
    "evaluate",
    "experts",
    "play",
    "policies",
    "queries",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"tvbandits.{name}")
    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"tvbandits.{home}"), name)
            return found
    raise AttributeError(f"module 'tvbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
