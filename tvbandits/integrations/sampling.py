"""Functions that the sampler for Optuna and the generator for Xopt have in common."""

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

# A recipe of the package, or any function `policy(space, minimize=..., seed=...)`.
Maker: TypeAlias = Callable[..., Bandit]


def parameter_name(name: str) -> str:
    """Return the name that a parameter has in a `Space`, which reserves the name "context"."""
    return "context, chosen" if name == "context" else name


def normalize(values: ArrayLike, low: float, high: float) -> Array:
    """Return values scaled so that `low` becomes 0 and `high` becomes 1.

    A bandit plays on such coordinates, since the squares of values such as 1e300 overflow.
    """
    # Halves are subtracted, since the difference of the largest floats overflows.
    numerator = np.asarray(values, dtype=np.float64) / 2 - low / 2
    return np.asarray(numerator / (high / 2 - low / 2))


def denormalize(coordinate: float, low: float, high: float) -> float:
    """Return the value of a coordinate: `low` for 0, `high` for 1."""
    return min(max(low * (1.0 - coordinate) + high * coordinate, low), high)


def build_bandit(policy: Maker, space: Space, *, minimize: bool, seed: int) -> Bandit:
    """Return the bandit that a policy makes for a space.

    Raises
    ------
    TypeError
        If the policy does not return a `Bandit`.
    """
    bandit = policy(space, minimize=minimize, seed=seed)
    if not isinstance(bandit, Bandit):
        raise TypeError(f"policy must make a Bandit, got {describe(bandit)}")
    return bandit


def set_pending(
    bandit: Bandit, X: Array, t: Array, random: Mapping[str, Any] | None = None
) -> Bandit:
    """Return the bandit with these pending points (n, d) for times (n,), instead of its own.

    `random`, a state of numpy's `bit_generator`, replaces the bandit's random state.
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
    """Ask for points (n, d) for time `t`, or for the time of the latest reward if that is later."""
    latest = bandit.state.time
    return bandit.ask(t if latest is None else max(t, latest), n=n, context=context or None)


def as_readings(values: ArrayLike) -> Array:
    """Return values (n,) as readings: NaN (a failed reading) for a value that has diverged."""
    y = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(y) <= LARGEST_VALUE, y, np.nan)
