"""What every package that runs a bandit needs: one on a space, and points not before its time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import LARGEST_VALUE, Array
from tvbandits.core.coercion import shown
from tvbandits.core.space import Space

# `maker(space, kernel, None, minimise=..., seed=...)`: a recipe, or a function like one.
Maker: TypeAlias = Callable[..., Bandit]


def called(name: str) -> str:
    """What a parameter is called in a `Space`, where "context" stands for what nobody chooses."""
    return "context, chosen" if name == "context" else name


def bandit_on(policy: Maker, space: Space, *, minimise: bool, seed: int) -> Bandit:
    """The bandit of a policy; who learns no kernel gets that of the space.

    Raises
    ------
    TypeError
        If the policy makes something else.
    """
    kernel = inspect.signature(policy).parameters.get("kernel")
    learns = kernel is not None and kernel.default is None
    made = policy(space, None if learns else space.kernel(), None, minimise=minimise, seed=seed)
    if not isinstance(made, Bandit):
        raise TypeError(f"policy must make a Bandit, got {shown(made)}")
    return made


def asked(bandit: Bandit, t: float, n: int | None = None) -> Array:
    """Points (n, d) for a time, or for the latest that was told."""
    latest = bandit.state.time
    return bandit.ask(t if latest is None else max(t, latest), n=n)


def readings(values: ArrayLike) -> Array:
    """Values (n,) that can be told; what diverged is no reading (NaN)."""
    y = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(y) <= LARGEST_VALUE, y, np.nan)
