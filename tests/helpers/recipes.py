"""Bandits from parameters by name, whether these belong to the recipe or to its options."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvbandits import Options


def build(recipe: Callable[..., Any], domain: Any, /, **values: Any) -> Any:
    """Return the bandit of a recipe; values that are no parameters of the recipe become options."""
    parameters = inspect.signature(recipe).parameters
    options = {name: values.pop(name) for name in [*values] if name not in parameters}
    if options:
        values["options"] = replace(values.get("options") or Options(), **options)
    return recipe(domain, **values)
