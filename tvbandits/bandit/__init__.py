"""The bandit: its recipe (the parts), its state, and its methods `ask` and `tell`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.info import Info
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State

__all__ = ["Bandit", "Info", "Recipe", "State"]


def __getattr__(name: str) -> Any:
    """Import a public class when it is first used, so that observations need no model code."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name.lower()}"), name)


def __dir__() -> list[str]:
    """Return all public names, also those that have not been imported yet."""
    return sorted(__all__)
