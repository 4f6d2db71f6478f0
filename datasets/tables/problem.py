"""A problem on a fixed table of rewards (time x site)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.datasets.tables.references import References, as_table, references
from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates
from tvbandits.gp.linalg import square_root
from tvbandits.validation import (
    LARGEST_WHOLE,
    Array,
    as_points,
    as_time,
    cleaned,
    function,
    is_finite_number,
    noise_variance_number,
    not_negative,
    of_kind,
    optional,
    settle,
    several,
    shown,
    text,
    whole_number,
)


def mean_change(rewards: Iterable[Array], steps: int) -> float:
    """Mean over steps of the largest change of any point, of rewards (A,), one after the other."""
    changes = [np.abs(after - before).max() for before, after in pairwise(rewards)]
    return float(np.sum(changes) / max(steps - 1, 1))


def autoregressive(drawn: Array, kept: float, new: float | None = None) -> Array:
    """Paths along axis 0 of which each step is `kept` of the one before, and `new` of what is drawn.

    By default so much of it that the variance stays that of what is drawn.
    """
    path = drawn.copy()
    path[1:] *= math.sqrt(1.0 - kept**2) if new is None else new
    for step in range(1, len(path)):
        path[step] += kept * path[step - 1]
    return path


def draws(covariance: Array, count: int, rng: np.random.Generator) -> Array:
    """So many draws of a Gaussian process, a row each."""
    root = square_root(covariance)
    return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)


class MadeUp:
    """A reward that is made up, without a unit; no kernel and no drift are known of it but its own."""

    unit: ClassVar[str] = ""
    kernel: Any = None
    variation: Any = None
    name: Any
    horizon: Any
    noise_variance: Any
    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """From where to where its whole numbers go, by name, where that is not from 1 to any."""

    def __post_init__(self) -> None:
        """Check what all have: names, variances and, by their types, whole numbers."""
        ranges = {"seed": (0, LARGEST_WHOLE), **self.ranges}
        for each in fields(self):  # type: ignore[arg-type]  # a dataclass
            if each.type == "int":
                least, most = ranges.get(each.name, (1, LARGEST_WHOLE))
                whole_number(each.name, getattr(self, each.name), least, most)
        text("name", self.name)
        noise_variance_number("noise_variance", self.noise_variance)

    def _check_size(self, numbers: int, most: int) -> None:
        """Raise a `ValueError` if it is made of more numbers than a memory should hold."""
        if numbers > most:
            raise ValueError(
                f"horizon = {self.horizon} makes {self.name} of {shown(numbers)} numbers, more than "
                f"{most}: take a shorter one, or fewer places"
            )

    def check_known(self, t: float) -> None:
        """Raise a `ValueError` unless 1 <= t <= horizon."""
        if not (is_finite_number(t) and 1 <= t <= self.horizon):
            known = f"known for 1 <= t <= {self.horizon}"
            raise ValueError(f"{self.name} is {known}; got t = {shown(t)}")

    def row(self, t: float) -> int:
        """Row of step `t` = 1, ..., horizon in what is known at whole steps."""
        if not (is_finite_number(t) and 1 <= t <= self.horizon and float(t).is_integer()):
            known = f"known at t = 1, 2, ..., {self.horizon}"
            raise ValueError(f"{self.name} is {known}; got t = {shown(t)}")
        return int(t) - 1

    def _row_of_piece(self, t: float, every: int) -> int:
        """Row of the piece at time `t` in what changes after each `every` steps."""
        if not (is_finite_number(t) and 1 <= t < self.horizon + 1):
            known = f"known for 1 <= t < {self.horizon + 1}"
            raise ValueError(f"{self.name} is {known}; got t = {shown(t)}")
        return (int(t) - 1) // every


@dataclass(frozen=True)
class Drawn(MadeUp):
    """One that is drawn anew for every seed."""

    seed: int = field(default=0, kw_only=True)

    def realise(self, seed: int) -> Self:
        """Another one of the same kind."""
        return replace(self, seed=seed)


class OnInterval(MadeUp, ABC):
    """A formula on an interval, of which there are so many evenly spaced candidates; 0: all of it."""

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
        """Noise-free reward at points (n, 1), shape (n,)."""

    @abstractmethod
    def best_of_all(self, t: float) -> float:
        """Largest reward over the interval at time `t`."""

    def best(self, t: float) -> float:
        """Largest reward over the domain at time `t`."""
        if isinstance(self.domain, Candidates):
            return float(self.value(self.domain.X, t).max())
        return self.best_of_all(t)


class OnCandidates(ABC):
    """A reward that is known at every candidate."""

    domain: Any

    @abstractmethod
    def rewards_at(self, t: float) -> Array:
        """Noise-free rewards of all candidates at time `t`, shape (A,)."""

    def value(self, X: Array, t: float) -> Array:
        """Noise-free reward at candidates (n, d) at time `t`, shape (n,)."""
        return np.asarray(self.rewards_at(t)[self.domain.index(X)])

    def best(self, t: float) -> float:
        """Largest noise-free reward at time `t`."""
        return float(self.rewards_at(t).max())


class OnPath(OnCandidates, Drawn):
    """A reward that is known at whole steps: a row of `path`, shape (horizon, A), each.

    One that stays between switches has a row for each piece of time, and says which one by `row`.
    """

    path: Any

    @cached_property
    def variation(self) -> float:
        """Mean of max_x abs(f(x, t+1) - f(x, t)) on this path, switches spread over all steps."""
        return mean_change(self.path, self.horizon)

    def rewards_at(self, t: float) -> Array:
        """A row of the path."""
        return np.asarray(self.path[self.row(t)])


@dataclass(frozen=True, eq=False)
class TableProblem(OnCandidates):
    """A drifting reward that is known at A points and T times; a `tvbandits.protocols.Problem`.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free reward; row s - 1 holds the rewards of time s = 1, ..., T.
    points : array of shape (A, d)
        Where the columns stand; no two alike.
    name : str
        What rows and pictures call the problem.
    unit : str
        Unit of the reward.
    noise_variance : float or None
        Noise variance of a told reward (unit of reward squared); None: policies learn it.
    kernel : scikit-learn kernel, optional
        Recommended prior over points; None: fitted on a first sample.
    labels : tuple of A str, optional
        Names of the columns, for people.
    summary : str, optional
        Where the values come from, in one line.
    steps : int, optional
        Steps of a run on a table of one row, which stays; otherwise there are as many as rows.
    redraw : callable, optional
        Maps a seed to another realisation, for tables that are random themselves.
    added_noise : float, optional
        Variance of the noise that is added when the values are played; `noise_variance` where left out.
        0 for values that are measurements, and hold their noise already.

    Raises
    ------
    ValueError
        If shapes disagree, a value is not finite, or the noise variance is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.datasets import TableProblem
    >>> levels = np.array([[3.0, 1.0], [2.0, 4.0], [0.0, 5.0]])  # 3 steps, 2 places
    >>> problem = TableProblem(levels, np.array([[0.0], [1.0]]), "levels", "m", noise_variance=0.01)
    >>> print(problem.horizon, problem.best(2), problem.references().uniform)
    3 4.0 1.5
    """

    values: Array
    points: Array
    name: str
    unit: str
    noise_variance: float | None
    kernel: Any | None = None
    labels: tuple[str, ...] = ()
    summary: str = ""
    steps: int | None = None
    redraw: Callable[[int], TableProblem] | None = None
    added_noise: float | None = None
    domain: Candidates = field(init=False)

    def __post_init__(self) -> None:
        values = as_table(self.values)
        domain = Candidates(as_points(self.points, name="points"))
        if len(domain) != values.shape[1]:
            raise ValueError(
                f"points must have {values.shape[1]} rows, one for each column of values, "
                f"got {len(domain)}"
            )
        labels = tuple(several("labels", self.labels, "the names of the columns"))
        if labels and len(labels) != len(domain):
            raise ValueError(f"labels must name {len(domain)} points, got {len(labels)}")
        for name in ("name", "unit", "summary"):
            text(name, getattr(self, name))
        for label in labels:
            of_kind("each of labels", label, str, "a text")
        labels = tuple(map(cleaned, labels))  # they come from files, and are shown to people
        if self.steps is not None:
            at_most = LARGEST_WHOLE if len(values) == 1 else len(values)
            whole_number("steps", self.steps, at_least=len(values), at_most=at_most)
        optional(function, "redraw", self.redraw, "a function of a seed, or None")
        optional(of_kind, "kernel", self.kernel, Kernel, "a scikit-learn kernel, or None")
        noise = optional(noise_variance_number, "noise_variance", self.noise_variance)
        optional(not_negative, "added_noise", self.added_noise)
        values.setflags(write=False)
        settle(self, values=values, labels=labels, points=domain.X, domain=domain)
        settle(self, noise_variance=noise)

    def __str__(self) -> str:
        return f"{self.name}: {self.summary}" if self.summary else self.name

    @property
    def horizon(self) -> int:
        """Number of steps T."""
        return self.steps or len(self.values)

    @property
    def variation(self) -> float | None:
        """Mean over time of the largest change of any point in one step; None for one step."""
        return None if self.horizon == 1 else mean_change(self.values, self.horizon)

    def references(self) -> References:
        """Average dynamic regret of the players without a model over the whole table."""
        # Two equal steps stand for any longer run on one row: its means are the same.
        stays = len(self.values) == 1 < self.horizon
        return references(np.repeat(self.values, 2, axis=0) if stays else self.values)

    def realise(self, seed: int) -> TableProblem:
        """The realisation of `seed`; a table of measurements has one realisation, itself."""
        whole_number("seed", seed, at_least=0)
        return self if self.redraw is None else self.redraw(seed)

    def rewards_at(self, t: float) -> Array:
        """Row t of the table."""
        step = as_time(t)
        if not (step.is_integer() and 1 <= step <= self.horizon):
            raise ValueError(f"t must be a whole number from 1 to {self.horizon}, got {t}")
        return np.asarray(self.values[min(int(step), len(self.values)) - 1])
