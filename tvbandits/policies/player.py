"""What policies without a model of the reward share: the same ask and tell as a bandit's."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Allowed, Among, available
from tvbandits.bandit.state import Info
from tvbandits.bandit.told import checked_told
from tvbandits.core.arrays import Array, as_generator, as_time, flag, whole_number
from tvbandits.core.coercion import check_part
from tvbandits.core.files.saving import save_value
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain
from tvbandits.core.tables import history_of

if TYPE_CHECKING:
    import pandas as pd

TRIES = 20
"""So often a policy may name a point that is not available, before one that is is drawn for it."""


class ModelFree(ABC):
    """A domain, a generator, points that are out, and checks before anything moves.

    Parameters
    ----------
    domain : Domain
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.
    minimise : bool
        Smaller rewards are better.
    """

    def __init__(
        self, domain: Domain, seed: int | np.random.Generator = 0, minimise: bool = False
    ) -> None:
        check_part("domain", domain, "a domain such as Candidates(X) or Box(bounds)", "sample")
        self._domain = domain
        rng = as_generator(seed)
        self._rng = rng.spawn(1)[0] if rng is seed else rng
        self._sign = -1.0 if flag("minimise", minimise) else 1.0
        self._seen = Observations.empty(domain.dimension)
        self._failed = self._pending = Plays.none(domain.dimension)
        self._told = 0

    def __repr__(self) -> str:
        out = f", {len(self._pending)} out" if len(self._pending) else ""
        return f"<{type(self).__name__} on {self._domain!r}, {self._told} rewards told{out}>"

    @property
    def info(self) -> Info:
        """The numbers of rewards told, and of readings that failed."""
        return Info(told=self._told, failed=len(self._failed))

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        return self._pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """What was told and asked: time, coordinates, reward, variance, source, kind."""
        none = Observations.empty(self._domain.dimension)
        return history_of(self._domain, self._seen, none, self._failed, self._pending)

    def ask(
        self,
        t: float | None = None,
        n: int | None = None,
        among: Among = None,
        context: ArrayLike | None = None,
    ) -> Array:
        """Where to play next, shape (n, d): one point by default.

        Parameters
        ----------
        t : float, optional
        n : int, optional
            So many points, distinct where the domain has as many.
        among, context
            What is available, as for `Bandit.ask`.

        Raises
        ------
        ValueError
            If `t`, `n`, `among` or `context` cannot be used.
        NothingAvailableError
            If nothing is available.
        """
        now = self._next_time() if t is None else as_time(t)
        count = 1 if n is None else whole_number("n", n, at_most=100_000)
        taken = self._pending.X[self._pending.t == now]
        allowed = Allowed(self._domain, available(self._domain, among, context), taken)
        out = self._pending
        for _ in range(count):
            x = self._chosen(allowed, now, out)
            allowed.exclude(x)
            out = out.append(x[None, :], np.array([now]))
        X = out.X[len(self._pending) :].copy()
        self._pending = out
        return X

    def _chosen(self, allowed: Allowed, now: float, out: Plays) -> Array:  # noqa: ARG002 - others look
        """A point (d,) that may be chosen, at the time `now`, while `out` wait for their rewards."""
        for _ in range(TRIES):
            x = self._choose()[0]
            if allowed.everything or allowed(x[None, :])[0]:
                return np.asarray(x)
        return allowed.sample(self._rng)

    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike,
        t: ArrayLike | None = None,
        variance: ArrayLike | None = None,
    ) -> Info:
        """Learn rewards (n,) of points (n, d), asked for or not; NaN: played, and no reading.

        Whatever is wrong with what is told, nothing happens; an interrupt (Ctrl-C), unlike that of a
        `Bandit`, may come in the middle. Times and variances are checked and kept, and that is all.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is infinite, a variance is not positive, or a point lies
            outside the domain.
        """
        told = checked_told(self._domain, 1.0, self._pending, self._next_time(), X, y, t, variance)
        rewards = told.rewards
        self._learned(rewards)
        self._seen = self._seen.append(rewards)
        self._failed = self._failed.replaced_by(rewards.X, rewards.t)
        self._failed = self._failed.append(told.failed.X, told.failed.t)
        self._pending = self._pending.without(told.X, told.t)
        self._told += len(rewards)
        return self.info

    def drop(self, X: ArrayLike) -> None:
        """Give up on points that were asked and will not be told; `ValueError` if one is not out."""
        points = self._domain.check(X)
        self._pending = self._pending.dropped(points)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that no code can be run from, as `Bandit.save`."""
        save_value(path, self)

    def __saved__(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def __restored__(cls, **parts: Any) -> Self:
        made = object.__new__(cls)
        check_part("domain", parts["_domain"], "a domain such as Candidates(X)", "sample")
        expected = vars(cls._alike(parts))
        for name, value in expected.items():
            if name != "_decay" and not isinstance(parts.get(name), type(value)):
                raise ValueError(f"{name} must be {type(value).__name__}, got {parts.get(name)!r}")
        if parts.keys() != expected.keys():
            raise ValueError(f"unknown parts: {sorted(parts.keys() - expected.keys())}")
        vars(made).update(parts)
        return made

    @classmethod
    def _alike(cls, parts: Mapping[str, Any]) -> Self:
        """A new one, which says what parts one that is read from a file must have."""
        return cls(parts["_domain"])

    def _next_time(self) -> float:
        seen = np.concatenate([self._seen.t, self._failed.t])
        return float(seen.max()) + 1.0 if len(seen) else 1.0

    def _learned(self, rewards: Observations) -> None:
        """Take in rewards as they were told."""
        self._learn(rewards.X, self._sign * rewards.y)

    @abstractmethod
    def _choose(self) -> Array:
        """The next point, shape (1, d)."""

    @abstractmethod
    def _learn(self, X: Array, y: Array) -> None:
        """Take in rewards `y` (n,), larger being better, of points `X` (n, d), which are checked."""
