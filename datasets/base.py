"""The bases of made-up problems, and the random paths that many of them are made of."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from tvbandits.datasets.cached import cached_property
from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates
from tvbandits.gp.linalg import square_root
from tvbandits.validation import (
    LARGEST_WHOLE,
    Array,
    check_text,
    describe,
    is_finite_number,
    noise_variance_number,
    whole_number,
)


def mean_change(rewards: Iterable[Array], steps: int) -> float:
    """Return the mean over steps of the largest change of any point, of rewards (A,) step by step."""
    changes = [np.abs(after - before).max() for before, after in pairwise(rewards)]
    return float(np.sum(changes) / max(steps - 1, 1))


def draw_paths(covariance: Array, count: int, rng: np.random.Generator) -> Array:
    """Return so many draws (count, A) of a Gaussian process with a covariance (A, A)."""
    root = square_root(covariance)
    return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)


def autoregressive(noise: Array, decay: float, share: float | None = None) -> Array:
    """Return paths along axis 0: each step is `decay` times the one before plus `share` times noise.

    By default the share is such that the variance stays that of the noise.
    """
    path = noise.copy()
    path[1:] *= math.sqrt(1.0 - decay**2) if share is None else share
    for step in range(1, len(path)):
        path[step] += decay * path[step - 1]
    return path


class Synthetic:
    """A made-up reward without a unit, whose kernel and variation are unknown unless a class has them.

    `ranges` has the least and the largest value of parameters that are whole numbers, by name, where
    that is not from 1 to any.
    """

    unit = ""
    kernel: Any = None
    variation: Any = None
    name: Any
    horizon: Any
    noise_variance: Any
    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {}

    def __post_init__(self) -> None:
        """Check name, noise variance and, by their types, whole numbers."""
        ranges = {"seed": (0, LARGEST_WHOLE), **self.ranges}
        for each in fields(self):  # type: ignore[arg-type]  # a dataclass
            if each.type == "int":
                least, most = ranges.get(each.name, (1, LARGEST_WHOLE))
                whole_number(each.name, getattr(self, each.name), least, most)
        check_text("name", self.name)
        noise_variance_number("noise_variance", self.noise_variance)

    def _check_size(self, numbers: int, most: int) -> None:
        """Raise a `ValueError` if it is made of more numbers than a memory should hold."""
        if numbers > most:
            raise ValueError(
                f"horizon = {self.horizon} makes {self.name} of {describe(numbers)} numbers, more than "
                f"{most}: take a shorter one, or fewer places"
            )

    def _refuse(self, times: str, t: object) -> ValueError:
        """Return the error of a time at which there is no reward."""
        return ValueError(f"{self.name} is known {times}; got t = {describe(t)}")

    def check_time(self, t: float) -> None:
        """Raise a `ValueError` unless 1 <= t <= horizon."""
        if not (is_finite_number(t) and 1 <= t <= self.horizon):
            raise self._refuse(f"for 1 <= t <= {self.horizon}", t)

    def row(self, t: float) -> int:
        """Return the row of step `t` = 1, ..., horizon in a table of rewards at whole steps."""
        if not (is_finite_number(t) and 1 <= t <= self.horizon and float(t).is_integer()):
            raise self._refuse(f"at t = 1, 2, ..., {self.horizon}", t)
        return int(t) - 1

    def piece(self, t: float, every: int) -> int:
        """Return the number of the piece at time `t` of a reward that changes after `every` steps."""
        whole_number("every", every)
        if not (is_finite_number(t) and 1 <= t < self.horizon + 1):
            raise self._refuse(f"for 1 <= t < {self.horizon + 1}", t)
        return (int(t) - 1) // every


@dataclass(frozen=True)
class RandomProblem(Synthetic):
    """A made-up reward that is another one for every seed."""

    seed: int = field(default=0, kw_only=True)

    def realise(self, seed: int) -> Self:
        """Return the problem of another seed."""
        return replace(self, seed=seed)

    def rng(self, stream: int) -> np.random.Generator:
        """Return the generator of one part of the problem."""
        return np.random.default_rng([self.seed, stream])


class IntervalProblem(Synthetic, ABC):
    """A formula on an interval, of which there are `candidates` evenly spaced points; 0: all of it."""

    ends: ClassVar[tuple[float, float]]
    candidates: Any
    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {
        "candidates": (0, 1_000_000),
        "horizon": (1, 10_000_000),
    }

    @cached_property
    def domain(self) -> Candidates | Box:
        """The interval, or a grid on it."""
        if self.candidates == 0:
            return Box(np.array([self.ends]))
        return Candidates(np.linspace(*self.ends, self.candidates)[:, None])

    @abstractmethod
    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, 1), shape (n,)."""

    @abstractmethod
    def largest(self, t: float) -> float:
        """Return the largest reward over the interval at time `t`."""

    def best(self, t: float) -> float:
        """Return the largest reward over the domain at time `t`."""
        if isinstance(self.domain, Candidates):
            return float(self.value(self.domain.X, t).max())
        return self.largest(t)


class CandidatesProblem(ABC):
    """A reward that is known at every candidate."""

    domain: Any

    @abstractmethod
    def rewards_at(self, t: float) -> Array:
        """Return the noise-free rewards of all candidates at time `t`, shape (A,)."""

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at candidates (n, d) at time `t`, shape (n,)."""
        return np.asarray(self.rewards_at(t)[self.domain.index(X)])

    def best(self, t: float) -> float:
        """Return the largest noise-free reward at time `t`."""
        return float(self.rewards_at(t).max())


class PathProblem(CandidatesProblem, RandomProblem):
    """A reward at whole steps, each of which is a row of `path`, shape (horizon, A).

    A reward that stays between switches has a row for each piece of time, which `row` finds.
    """

    path: Any
    # The most rewards of a path, steps times candidates: 1.6 GB.
    largest_path: ClassVar[int] = 200_000_000

    @cached_property
    def variation(self) -> float:
        """Mean of max_x abs(f(x, t+1) - f(x, t)) on this path, switches spread over all steps."""
        return mean_change(self.path, self.horizon)

    def rewards_at(self, t: float) -> Array:
        """Return a row of the path."""
        return np.asarray(self.path[self.row(t)])
