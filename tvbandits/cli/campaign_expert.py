"""The expert of a campaign, by the name of its maker: the user's own code."""

from __future__ import annotations

from typing import Any

from tvbandits.experts.budgeted import Budgeted
from tvbandits.experts.protocol import Expert
from tvbandits.policies.names import instance_of
from tvbandits.validation import check_part


def check_expert(name: str, maker: str) -> None:
    """Raise a `ValueError` unless --expert is the maker in the configuration: the only code imported."""
    if name != maker:
        needs = f"must be {maker}, as in its" if maker else "is for a campaign with a maker in its"
        raise ValueError(f"--expert {needs} configuration, got {name}")


def make_expert(maker: Any, budget: int | None) -> Expert:
    """Return an expert from the function that makes it, or from itself, with a budget of questions."""
    expert: Expert = instance_of(maker)
    check_part("[expert] what the maker returns", expert, "an object with query(X, t)", "query")
    return expert if budget is None else Budgeted(expert, total=budget)
