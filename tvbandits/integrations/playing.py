"""What every package that runs a bandit needs: one on a space, and points not before its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.bandit import Bandit
from tvbandits.data import Plays
from tvbandits.domains.space import Space
from tvbandits.validation import LARGEST_VALUE, Array, describe

# `maker(space, kernel, None, minimize=..., seed=...)`: a recipe, or a function like one.
Maker: TypeAlias = Callable[..., Bandit]


def called(name: str) -> str:
    """What a parameter is called in a `Space`, where "context" stands for what nobody chooses."""
    return "context, chosen" if name == "context" else name


def share_of(values: ArrayLike, low: float, high: float) -> Array:
    """The shares of a range, 0 at `low` and 1 at `high`, at which values lie.

    A bandit plays on shares: squares of coordinates as large as 1e300, or as small, are no numbers.
    """
    # By halves, since the range of the largest numbers is none.
    below = np.asarray(values, dtype=np.float64) / 2 - low / 2
    return np.asarray(below / (high / 2 - low / 2))


def value_at(share: float, low: float, high: float) -> float:
    """The value at a share of a range."""
    return min(max(low * (1.0 - share) + high * share, low), high)


def bandit_on(policy: Maker, space: Space, *, minimize: bool, seed: int) -> Bandit:
    """The bandit of a policy, with its defaults for the space.

    Raises
    ------
    TypeError
        If the policy makes something else.
    """
    made = policy(space, minimize=minimize, seed=seed)
    if not isinstance(made, Bandit):
        raise TypeError(f"policy must make a Bandit, got {describe(made)}")
    return made


def with_pending(bandit: Bandit, X: Array, t: Array) -> Bandit:
    """The bandit with exactly these points (n, d), asked for times (n,), pending."""
    if np.array_equal(X, bandit.state.pending.X):
        return bandit
    return Bandit.from_state(bandit.recipe, bandit.state.with_record(pending=Plays(X, t)))


def asked(bandit: Bandit, t: float, n: int | None = None) -> Array:
    """Points (n, d) for a time, or for the latest that was told."""
    latest = bandit.state.time
    return bandit.ask(t if latest is None else max(t, latest), n=n)


def readings(values: ArrayLike) -> Array:
    """Values (n,) that can be told; what diverged is no reading (NaN)."""
    y = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(y) <= LARGEST_VALUE, y, np.nan)
