"""The bank that a rule begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tvbandits.core.arrays import Array, positive_number
from tvbandits.core.coercion import shown
from tvbandits.gp.bank.bank import GUESS_OF_A_FUNCTION, Bank
from tvbandits.gp.bank.settings import (
    SMALL_NETWORK,
    Setting,
    function_settings,
    network_settings,
)

Models = Sequence[Setting] | Literal["both"] | None
"""The models; None: those that suit the number of points; "both": a network's and a function's."""


def are_given(settings: object) -> bool:
    """Whether the models are the user's own, rather than those that suit the points."""
    return not (settings is None or isinstance(settings, str))


def check_models(settings: Models, season: float | Literal["find"] | None) -> None:
    """Raise a `ValueError` unless a bank can have these models and this season."""
    if isinstance(settings, str) and settings != "both":
        raise ValueError(f'settings must be models, "both" or None, got {shown(settings)}')
    if are_given(settings):
        given = settings if isinstance(settings, Sequence) else ()
        if not given or not all(isinstance(each, Setting) for each in given):
            raise ValueError(
                f'settings must be models (Setting), at least one, "both" or None, got {shown(settings)}'
            )
    named = isinstance(season, str)
    if named and season != "find":
        raise ValueError(f'season must be a positive number, "find" or None, got {shown(season)}')
    if season is not None and not named:
        positive_number("season", season)
        if are_given(settings):
            raise ValueError(
                f"season is for models that are not given, got season={season} and settings"
            )


def started(
    points: Array, noise_variance: float, settings: Models, capacity: int, season: float | None
) -> Bank:
    """Before any observation.

    With "both", up to 64 points may be places of a network or lie on a smooth function: the models of
    the two are rivals, and the first guess of the scale is worth as much as for a function. What has a
    season is taken for a network.
    """
    if not isinstance(settings, str):
        return Bank.of(points, noise_variance, settings, capacity=capacity, season=season)
    bank = Bank.of(points, noise_variance, capacity=capacity, season=season)
    if season is not None or len(points) > SMALL_NETWORK:
        return bank
    rivals = network_settings() + function_settings()
    return replace(bank, settings=rivals, guess=GUESS_OF_A_FUNCTION)
