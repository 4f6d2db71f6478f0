"""The bandit: its parts, its state, and its ask and tell."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.info import Info
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State

__all__ = ["Bandit", "Info", "Recipe", "State"]


def __getattr__(name: str) -> Any:
    """Import what needs the model when it is used first: what was told can be looked at without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name.lower()}"), name)


def __dir__() -> list[str]:
    """Return what is public, whether it has been imported yet or not."""
    return sorted(__all__)
