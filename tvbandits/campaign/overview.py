"""What a page shows of a campaign: its parts at one time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvbandits.campaign.names import Names
from tvbandits.campaign.status import PendingPoint, Status
from tvbandits.clock import Clock
from tvbandits.validation import Array

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.bandit.info import Info
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State


@dataclass(frozen=True, eq=False)
class Overview:
    """The parts of a campaign as they are now, of the names that they have in `Campaign`.

    Attributes
    ----------
    id : str
    about : mapping of str to str
    clock : Clock or None
    names : Names
    sites : list of str
        Those that are not retired.
    doubtful_sites : mapping of str to str
    recipe : Recipe
    state : State
    info : Info
    status : Status
    history : DataFrame
    pending : array of shape (k, d)
    pending_points : list of PendingPoint
    budget : int or None
    drop_after : float or None
    format_time : callable
        Returns a time as text.
    predict : callable
        Returns mean and deviation at points and a time; relative to the control, if there is one.
    """

    id: str
    about: Mapping[str, str]
    clock: Clock | None
    names: Names
    sites: list[str]
    doubtful_sites: Mapping[str, str]
    recipe: Recipe
    state: State
    info: Info
    status: Status
    history: pd.DataFrame
    pending: Array
    pending_points: list[PendingPoint]
    budget: int | None
    drop_after: float | None
    format_time: Callable[[float], str]
    predict: Callable[[Array, float], tuple[Array, Array]]
