"""Base classes of synthetic problems, and the random paths that many of them are built from."""

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
    """Return the mean over steps of the largest absolute change of any candidate's reward.

    `rewards` yields the rewards (A,) of each step; a step without a change may be left out, since the
    mean is over `steps` - 1 changes.
    """
    changes = [np.abs(after - before).max() for before, after in pairwise(rewards)]
    return float(np.sum(changes) / max(steps - 1, 1))


def draw_paths(covariance: Array, count: int, rng: np.random.Generator) -> Array:
    """Return `count` draws (count, A) of a Gaussian process with covariance (A, A)."""
    root = square_root(covariance)
    return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)


def make_autoregressive(noise: Array, decay: float, gain: float | None = None) -> Array:
    """Return AR(1) paths along axis 0: a step is `decay` times the step before plus `gain` times noise.

    The default gain, sqrt(1 - decay^2), keeps the variance equal to that of the noise.
    """
    path = noise.copy()
    path[1:] *= math.sqrt(1.0 - decay**2) if gain is None else gain
    for step in range(1, len(path)):
        path[step] += decay * path[step - 1]
    return path


class Synthetic:
    """A synthetic reward without a unit; its kernel and variation are None unless a subclass sets them.

    `ranges` maps the name of an integer parameter to its smallest and largest value; parameters that
    it does not name may be any integer from 1 on.
    """

    unit = ""
    kernel: Any = None
    variation: Any = None
    name: Any
    horizon: Any
    noise_variance: Any
    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {}

    def __post_init__(self) -> None:
        """Check the name, the noise variance and every field of type int."""
        ranges = {"seed": (0, LARGEST_WHOLE), **self.ranges}
        for parameter in fields(self):  # type: ignore[arg-type]  # a dataclass
            if parameter.type == "int":
                least, most = ranges.get(parameter.name, (1, LARGEST_WHOLE))
                whole_number(parameter.name, getattr(self, parameter.name), least, most)
        check_text("name", self.name)
        noise_variance_number("noise_variance", self.noise_variance)

    def _check_size(self, numbers: int, most: int) -> None:
        """Raise a `ValueError` if the problem would store more than `most` numbers."""
        if numbers > most:
            raise ValueError(
                f"{self.name} with horizon = {self.horizon} would store {describe(numbers)} numbers, "
                f"more than {most}: choose a shorter horizon or fewer points"
            )

    def _time_error(self, times: str, t: object) -> ValueError:
        """Return the error for a time at which the reward is not defined; `times` says when it is."""
        return ValueError(f"{self.name} is defined {times}; got t = {describe(t)}")

    def check_time(self, t: float) -> None:
        """Raise a `ValueError` unless 1 <= t <= horizon."""
        if not (is_finite_number(t) and 1 <= t <= self.horizon):
            raise self._time_error(f"for 1 <= t <= {self.horizon}", t)

    def row_at(self, t: float) -> int:
        """Return the row of step `t` = 1, ..., horizon in a table of rewards at whole steps."""
        if not (is_finite_number(t) and 1 <= t <= self.horizon and float(t).is_integer()):
            raise self._time_error(f"at t = 1, 2, ..., {self.horizon}", t)
        return int(t) - 1

    def piece_at(self, t: float, every: int) -> int:
        """Return the index of the piece at time `t` of a reward that switches after `every` steps."""
        whole_number("every", every)
        if not (is_finite_number(t) and 1 <= t < self.horizon + 1):
            raise self._time_error(f"for 1 <= t < {self.horizon + 1}", t)
        return (int(t) - 1) // every


@dataclass(frozen=True)
class RandomProblem(Synthetic):
    """A synthetic reward with a different realisation for every seed."""

    seed: int = field(default=0, kw_only=True)

    def realise(self, seed: int) -> Self:
        """Return the realisation of a seed."""
        return replace(self, seed=seed)

    def make_rng(self, stream: int) -> np.random.Generator:
        """Return the random generator of one part of the problem, by the number of its stream."""
        return np.random.default_rng([self.seed, stream])


class IntervalProblem(Synthetic, ABC):
    """A formula on an interval; its domain is `candidates` evenly spaced points, or, if 0, all of it."""

    ends: ClassVar[tuple[float, float]]
    candidates: Any
    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {
        "candidates": (0, 1_000_000),
        "horizon": (1, 10_000_000),
    }

    @cached_property
    def domain(self) -> Candidates | Box:
        """Return the interval, or a grid on it."""
        if self.candidates == 0:
            return Box(np.array([self.ends]))
        return Candidates(np.linspace(*self.ends, self.candidates)[:, None])

    @abstractmethod
    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, 1), shape (n,)."""

    @abstractmethod
    def largest_reward(self, t: float) -> float:
        """Return the largest reward over the interval at time `t`."""

    def best(self, t: float) -> float:
        """Return the largest reward over the domain at time `t`."""
        if isinstance(self.domain, Candidates):
            return float(self.value(self.domain.X, t).max())
        return self.largest_reward(t)


class CandidatesProblem(ABC):
    """A problem with finitely many candidates, whose rewards at a time are one array."""

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
    """A reward that is defined at whole steps; the rewards of a step are a row of `path` (horizon, A).

    If the reward is constant between switches, `path` has a row for each piece, and `row_at` returns the
    index of the piece.
    """

    path: Any
    # The most rewards that a path may have, steps times candidates: 1.6 GB.
    largest_path: ClassVar[int] = 200_000_000

    @cached_property
    def variation(self) -> float:
        """Return the mean over steps of max_x abs(f(x, t+1) - f(x, t)) on this path."""
        return mean_change(self.path, self.horizon)

    def rewards_at(self, t: float) -> Array:
        """Return the rewards of all candidates at step `t`, shape (A,)."""
        return np.asarray(self.path[self.row_at(t)])
