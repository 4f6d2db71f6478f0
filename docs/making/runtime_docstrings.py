"""Signatures and docstrings of policies as `help` shows them: a decorator adds what they share."""

from __future__ import annotations

import inspect
import pkgutil
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Takes signature and docstring of a function of `tvbandits.policies` from the function itself."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Called for every function that is read."""
        if func.docstring is None or not func.path.startswith("tvbandits.policies."):
            return
        if func.parent is None or not func.parent.is_module:
            return
        made = pkgutil.resolve_name(func.path)
        if made.__doc__:
            func.docstring.value = inspect.cleandoc(made.__doc__)
        if "common" not in func.parameters or not hasattr(made, "__signature__"):
            return
        del func.parameters["common"]
        for name, each in made.__signature__.parameters.items():
            if name not in func.parameters:
                kind = griffe.ParameterKind.keyword_only
                hint = inspect.formatannotation(each.annotation)  # a type, or a text as it is
                shown = griffe.Parameter(
                    name, annotation=hint.strip("'"), kind=kind, default=repr(each.default)
                )
                func.parameters.add(shown)
