"""The bandit: its parts, its state, and its ask and tell."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import Info, State

__all__ = ["Bandit", "Info", "Recipe", "State"]


def __getattr__(name: str) -> Any:
    """What needs the model is imported when it is used first: what was told can be looked at without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "state" if name == "Info" else name.lower()
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    """What is public, whether it has been imported yet or not."""
    return sorted(__all__)
