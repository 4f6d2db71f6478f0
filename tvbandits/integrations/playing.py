"""The parts that the samplers of other packages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.bandit import Bandit
from tvbandits.data import Plays
from tvbandits.domains.space import Space
from tvbandits.validation import LARGEST_VALUE, Array, describe

# A recipe, or a function like one: `policy(space, minimize=..., seed=...)`.
Maker: TypeAlias = Callable[..., Bandit]


def parameter_name(name: str) -> str:
    """Return the name of a parameter in a `Space`, which reserves the name "context"."""
    return "context, chosen" if name == "context" else name


def to_share(values: ArrayLike, low: float, high: float) -> Array:
    """Return the shares of a range, 0 at `low` and 1 at `high`, for values.

    A bandit plays on shares, since the squares of coordinates such as 1e300 overflow.
    """
    # Halves, since the range of the largest numbers overflows.
    below = np.asarray(values, dtype=np.float64) / 2 - low / 2
    return np.asarray(below / (high / 2 - low / 2))


def from_share(share: float, low: float, high: float) -> float:
    """Return the value at a share of a range."""
    return min(max(low * (1.0 - share) + high * share, low), high)


def make_bandit(policy: Maker, space: Space, *, minimize: bool, seed: int) -> Bandit:
    """Return the bandit of a policy, with its defaults for the space.

    Raises
    ------
    TypeError
        If the policy makes something else.
    """
    bandit = policy(space, minimize=minimize, seed=seed)
    if not isinstance(bandit, Bandit):
        raise TypeError(f"policy must make a Bandit, got {describe(bandit)}")
    return bandit


def set_pending(
    bandit: Bandit, X: Array, t: Array, random: Mapping[str, Any] | None = None
) -> Bandit:
    """Return the bandit with exactly these pending points (n, d), for times (n,).

    `random`, a state of numpy's `bit_generator`, replaces its random numbers.
    """
    before = state = bandit.state
    if not np.array_equal(X, state.pending.X):
        state = state.with_record(pending=Plays(X, t))
    if random is not None:
        state = replace(state, random=random)
    return bandit if state is before else Bandit.from_state(bandit.recipe, state)


def ask_at(
    bandit: Bandit, t: float, n: int | None = None, context: Mapping[str, Any] | None = None
) -> Array:
    """Return points (n, d) for time `t`, or for the latest time of a reward if that is later."""
    latest = bandit.state.time
    return bandit.ask(t if latest is None else max(t, latest), n=n, context=context or None)


def as_readings(values: ArrayLike) -> Array:
    """Return readings (n,), with NaN (a failed reading) for values that have diverged."""
    y = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(y) <= LARGEST_VALUE, y, np.nan)
