"""Docstrings of policies as `help` shows them: what they have in common is written by a decorator."""

from __future__ import annotations

import inspect
import pkgutil
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Takes the docstring of a function of `tvbandits.policies` from the function itself."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Called for every function that is read."""
        if func.docstring is None or not func.path.startswith("tvbandits.policies."):
            return
        if func.parent is None or not func.parent.is_module:
            return
        text = pkgutil.resolve_name(func.path).__doc__
        if text:
            func.docstring.value = inspect.cleandoc(text)
