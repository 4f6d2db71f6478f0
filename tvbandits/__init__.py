"""Gaussian-process bandits for rewards that drift, with an interface for asking an expert.

A public name is imported when it is first used, so that `tvbandits --help` does not import the models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tvbandits._version import __version__ as __version__

if TYPE_CHECKING:
    from tvbandits import (
        bandit as bandit,
        datasets as datasets,
        experts as experts,
        policies as policies,
        queries as queries,
    )
    from tvbandits.acquisition.limits import Limit as Limit, LimitWarning as LimitWarning
    from tvbandits.bandit.bandit import Bandit as Bandit
    from tvbandits.bandit.extremes import OutlierWarning as OutlierWarning
    from tvbandits.bandit.inference import ExpensiveWarning as ExpensiveWarning
    from tvbandits.bandit.info import Info as Info
    from tvbandits.bandit.loading import load as load
    from tvbandits.bandit.options import Options as Options
    from tvbandits.bandit.recipe import Recipe as Recipe
    from tvbandits.bandit.state import State as State
    from tvbandits.campaign import Campaign as Campaign
    from tvbandits.clock import Clock as Clock
    from tvbandits.comparison import plots as plots
    from tvbandits.comparison.compare import compare as compare
    from tvbandits.counts import count as count, rate as rate
    from tvbandits.data import Dataset as Dataset
    from tvbandits.domains.availability import NothingAvailableError as NothingAvailableError
    from tvbandits.domains.box import Box as Box
    from tvbandits.domains.candidates import Candidates as Candidates
    from tvbandits.domains.parameters import Integer as Integer, Log as Log, Periodic as Periodic
    from tvbandits.domains.problem import Problem as Problem
    from tvbandits.domains.space import Arms as Arms, Space as Space
    from tvbandits.experts.protocol import (
        Answers as Answers,
        Expert as Expert,
        ExpertDownWarning as ExpertDownWarning,
        ExpertError as ExpertError,
        ExpertUnavailableError as ExpertUnavailableError,
    )
    from tvbandits.gp.exact import Exact as Exact
    from tvbandits.gp.online import Every as Every
    from tvbandits.gp.sparse import Nystrom as Nystrom
    from tvbandits.gp.sparse_filter import NystromFilter as NystromFilter
    from tvbandits.gp.state_space import StateSpace as StateSpace
    from tvbandits.io import SavedFileError as SavedFileError

# The public names by their modules, as above.
_NAMES_BY_MODULE = {
    "domains.availability": "NothingAvailableError",
    "bandit.bandit": "Bandit",
    "bandit.extremes": "OutlierWarning",
    "bandit.inference": "ExpensiveWarning",
    "bandit.loading": "load",
    "bandit.options": "Options",
    "bandit.recipe": "Recipe",
    "bandit.info": "Info",
    "bandit.state": "State",
    "campaign": "Campaign",
    "comparison.compare": "compare",
    "domains.box": "Box",
    "domains.candidates": "Candidates",
    "clock": "Clock",
    "counts": "count rate",
    "io": "SavedFileError",
    "acquisition.limits": "Limit LimitWarning",
    "data": "Dataset",
    "domains.parameters": "Integer Log Periodic",
    "domains.problem": "Problem",
    "experts.protocol": "Answers Expert ExpertDownWarning ExpertError ExpertUnavailableError",
    "domains.space": "Arms Space",
    "gp.online": "Every",
    "gp.exact": "Exact",
    "gp.sparse": "Nystrom",
    "gp.sparse_filter": "NystromFilter",
    "gp.state_space": "StateSpace",
}

# The modules and packages that are public names themselves.
_MODULES = {
    name: f"tvbandits.{name}" for name in ("bandit", "datasets", "experts", "policies", "queries")
} | {"plots": "tvbandits.comparison.plots"}

_MODULE_BY_NAME = {
    name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()
}

__all__ = sorted([*_MODULE_BY_NAME, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _MODULE_BY_NAME:
        value = globals()[name] = getattr(import_module(f"tvbandits.{_MODULE_BY_NAME[name]}"), name)
        return value
    raise AttributeError(f"module 'tvbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all public names, also those that have not been imported yet."""
    return sorted(__all__)
