"""Gaussian-process bandits for rewards that drift, with an interface for asking an expert.

Names are imported when they are used first, so that `tvbandits --help` need not wait for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tvbandits._version import __version__

if TYPE_CHECKING:
    from tvbandits import bandit, datasets, experts, plots, policies, queries
    from tvbandits.acquisition.availability import NothingAvailableError
    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.play import EvaluationError, Played, evaluate, play
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import Info, State
    from tvbandits.campaign import Campaign
    from tvbandits.comparison.compare import compare
    from tvbandits.core.box import Box
    from tvbandits.core.candidates import Candidates
    from tvbandits.core.clock import Clock
    from tvbandits.core.counts import count, rate
    from tvbandits.core.files.saving import load
    from tvbandits.core.files.values import SavedFileError
    from tvbandits.core.limits import Limit, LimitWarning
    from tvbandits.core.observations import Observations
    from tvbandits.core.parameters import Integer
    from tvbandits.core.protocols import (
        Answers,
        Expert,
        ExpertDownWarning,
        ExpertError,
        ExpertUnavailableError,
        Problem,
    )
    from tvbandits.core.space import Arms, Space
    from tvbandits.gp.fitting.online import Every
    from tvbandits.gp.posteriors.exact import Exact
    from tvbandits.gp.posteriors.expense import ExpensiveWarning
    from tvbandits.gp.posteriors.nystrom import Nystrom
    from tvbandits.gp.posteriors.state_space import StateSpace

_HOMES = {
    "acquisition.availability": ("NothingAvailableError",),
    "bandit.bandit": ("Bandit",),
    "bandit.play": (
        "EvaluationError",
        "Played",
        "evaluate",
        "play",
    ),
    "bandit.recipe": ("Recipe",),
    "bandit.state": (
        "Info",
        "State",
    ),
    "campaign": ("Campaign",),
    "comparison.compare": ("compare",),
    "core.box": ("Box",),
    "core.candidates": ("Candidates",),
    "core.clock": ("Clock",),
    "core.counts": ("count", "rate"),
    "core.files.values": ("SavedFileError",),
    "core.files.saving": ("load",),
    "core.limits": ("Limit", "LimitWarning"),
    "core.observations": ("Observations",),
    "core.parameters": ("Integer",),
    "core.protocols": (
        "Answers",
        "Expert",
        "ExpertDownWarning",
        "ExpertError",
        "ExpertUnavailableError",
        "Problem",
    ),
    "core.space": ("Arms", "Space"),
    "gp.fitting.online": ("Every",),
    "gp.posteriors.exact": ("Exact",),
    "gp.posteriors.expense": ("ExpensiveWarning",),
    "gp.posteriors.nystrom": ("Nystrom",),
    "gp.posteriors.state_space": ("StateSpace",),
}
"""Where the names stand, as above."""

_PACKAGES = ("bandit", "datasets", "experts", "plots", "policies", "queries")

__all__ = [
    "Answers",
    "Arms",
    "Bandit",
    "Box",
    "Campaign",
    "Candidates",
    "Clock",
    "EvaluationError",
    "Every",
    "Exact",
    "ExpensiveWarning",
    "Expert",
    "ExpertDownWarning",
    "ExpertError",
    "ExpertUnavailableError",
    "Info",
    "Integer",
    "Limit",
    "LimitWarning",
    "NothingAvailableError",
    "Nystrom",
    "Observations",
    "Played",
    "Problem",
    "Recipe",
    "SavedFileError",
    "Space",
    "State",
    "StateSpace",
    "__version__",
    "bandit",
    "compare",
    "count",
    "datasets",
    "evaluate",
    "experts",
    "load",
    "play",
    "plots",
    "policies",
    "queries",
    "rate",
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
