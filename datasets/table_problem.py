"""A problem whose rewards are a fixed table (time x site)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.datasets.base import CandidatesProblem, mean_change
from tvbandits.datasets.tables.references import References, as_table, references
from tvbandits.domains.candidates import Candidates
from tvbandits.validation import (
    LARGEST_WHOLE,
    Array,
    as_list,
    as_points,
    as_time,
    check_function,
    check_instance,
    check_optional,
    check_text,
    clean,
    noise_variance_number,
    nonnegative_number,
    set_fields,
    whole_number,
)


@dataclass(frozen=True, eq=False)
class TableProblem(CandidatesProblem):
    """A drifting reward from a table of T times and A points.

    Parameters
    ----------
    values : array of shape (T, A)
        Noise-free rewards; row s - 1 contains the rewards at time s = 1, ..., T.
    points : array of shape (A, d)
        The coordinates of the columns' sites, all different.
    name : str
        The name of the problem in rows and pictures.
    unit : str
        Unit of the reward.
    noise_variance : float or None
        Noise variance of a reward (unit of reward squared); None: policies learn it.
    kernel : scikit-learn kernel, optional
        Recommended kernel over points; None: it is fitted on an initial sample.
    labels : tuple of A str, optional
        Names of the columns, for display.
    summary : str, optional
        The origin of the values, in one line.
    steps : int, optional
        Steps of a run; the last row is repeated if the table has only one. None: the number of rows.
    redraw : callable, optional
        Returns the realisation of a seed, for tables that are random themselves.
    added_noise : float, optional
        Variance of the noise that is added to a value when it is played; None: `noise_variance`.
        0 for values that are measurements, and contain their noise already.

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
        labels = tuple(as_list("labels", self.labels, "the names of the columns"))
        if labels and len(labels) != len(domain):
            raise ValueError(f"labels must name {len(domain)} points, got {len(labels)}")
        for name in ("name", "unit", "summary"):
            check_text(name, getattr(self, name))
        for label in labels:
            check_instance("each of labels", label, str, "a text")
        labels = tuple(map(clean, labels))  # labels from files may contain control characters
        if self.steps is not None:
            at_most = LARGEST_WHOLE if len(values) == 1 else len(values)
            whole_number("steps", self.steps, at_least=len(values), at_most=at_most)
        check_optional(check_function, "redraw", self.redraw, "a function of a seed, or None")
        check_optional(
            check_instance, "kernel", self.kernel, Kernel, "a scikit-learn kernel, or None"
        )
        noise = check_optional(noise_variance_number, "noise_variance", self.noise_variance)
        check_optional(nonnegative_number, "added_noise", self.added_noise)
        values.setflags(write=False)
        set_fields(self, values=values, labels=labels, points=domain.X, domain=domain)
        set_fields(self, noise_variance=noise)

    def __str__(self) -> str:
        return f"{self.name}: {self.summary}" if self.summary else self.name

    @property
    def horizon(self) -> int:
        """Return the number of steps T."""
        return self.steps or len(self.values)

    @property
    def variation(self) -> float | None:
        """Return the mean over time of the largest change of any point in one step; None if T = 1."""
        return None if self.horizon == 1 else mean_change(self.values, self.horizon)

    def references(self) -> References:
        """Return the average dynamic regret of model-free players over the whole table."""
        # Two equal rows have the same averages as any longer run on one row.
        constant = len(self.values) == 1 < self.horizon
        return references(np.repeat(self.values, 2, axis=0) if constant else self.values)

    def realise(self, seed: int) -> TableProblem:
        """Return the realisation of a seed; a table of measurements is its own only realisation."""
        whole_number("seed", seed, at_least=0)
        return self if self.redraw is None else self.redraw(seed)

    def rewards_at(self, t: float) -> Array:
        """Return the rewards of all points at time `t`, shape (A,)."""
        step = as_time(t)
        if not (step.is_integer() and 1 <= step <= self.horizon):
            raise ValueError(f"t must be a whole number from 1 to {self.horizon}, got {t}")
        return np.asarray(self.values[min(int(step), len(self.values)) - 1])
