"""The protocol of problems, on which policies are compared, and their names on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.validation import Array, as_floats


@runtime_checkable
class Problem(Protocol):
    """A known, drifting reward on which policies can be compared.

    A random problem may also have `realise(seed) -> Problem`: `compare` then plays all policies with
    the same seed on the same realisation.
    """

    @property
    def name(self) -> str:
        """Return the name of the problem in rows and pictures."""

    @property
    def domain(self) -> Domain:
        """Return the domain of the reward."""

    @property
    def horizon(self) -> int:
        """Return the number of steps of a full run; step s is at time s = 1, 2, ..., horizon."""

    @property
    def noise_variance(self) -> float | Array | None:
        """Return the noise variance of a reward (unit of reward squared); None: it is unknown.

        An array (n,) has one for each of n candidates. If it is None, policies learn it, and a
        comparison adds no noise to `value`. It warns of that, unless `added_noise = 0.0` states that the
        values are measurements, or the problem has trials.
        """

    @property
    def unit(self) -> str:
        """Return the unit of the reward, for axes and tables, or an empty text."""

    @property
    def kernel(self) -> Any | None:
        """Return a recommended kernel over points (scikit-learn); None: fit one to a sample."""

    @property
    def variation(self) -> float | None:
        """Return the mean of max_x abs(f(x, t+1) - f(x, t)) per unit of time; None: it is unknown."""

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at the points `X` (n, d) at time `t`, shape (n,)."""

    def best(self, t: float) -> float:
        """Return the largest noise-free reward over the domain at time `t`."""


@dataclass(frozen=True)
class NamedProblem:
    """A problem that has a name on the command line.

    Attributes
    ----------
    name : str
    make : callable
        A function that creates the problem; its parameters are those on the command line.
    summary : str
        A description in one line.
    files : int or None
        The number of first parameters of `make` that are files of `--data`; None: one list of files.
    may_repeat : bool
        Whether the first file may be several.
    length : str
        The parameter for the number of steps, which `--horizon` sets.
    leading : str
        The parameter that may be written without its name, directly after the colon.
    """

    name: str
    make: Callable[..., Problem]
    summary: str
    files: int | None = 0
    length: str = "horizon"
    leading: str = ""
    may_repeat: bool = False


@runtime_checkable
class HasAddedNoise(Protocol):
    """A problem that states the variance of the noise that a comparison adds to its values."""

    @property
    def added_noise(self) -> float | None:
        """Return the variance (unit of reward squared); None: the problem's noise variance."""


def rewards_at(problem: Problem, X: Array, t: float) -> Array:
    """Return the noise-free rewards (n,) at points (n, d) at a time.

    Raises
    ------
    ValueError
        If the problem does not return a number for each point.
    """
    name = f"the value of {problem.name}"
    values = as_floats(problem.value(X, t), name)
    if values.shape != (len(X),):
        raise ValueError(
            f"{name} must have shape ({len(X)},), one for each point, got {values.shape}"
        )
    return values


def get_mean_noise(problem: Problem) -> float | None:
    """Return the noise variance of a reward, averaged over candidates; None: it is unknown."""
    noise = problem.noise_variance
    return None if noise is None else float(np.mean(noise))


def get_noise_at(problem: Problem, X: Array) -> Array | None:
    """Return the noise variances (m,) of rewards at points (m, d); None: they are unknown.

    Raises
    ------
    ValueError
        If candidates have different noise variances, and a point is no candidate.
    """
    noise = problem.noise_variance
    if noise is None:
        return None
    if np.ndim(noise) == 0:
        return np.full(len(X), float(noise))
    assert isinstance(problem.domain, Candidates)
    return np.asarray(noise, dtype=np.float64)[problem.domain.index(X)]


def get_added_noise(problem: Problem) -> float:
    """Return the variance of the noise that a comparison adds to a problem's values.

    It is `added_noise` if the problem states that, such as 0 for values that are measurements.
    Otherwise it is the noise variance of a reward, averaged over candidates, or 0 if that is unknown.
    """
    variance = problem.added_noise if isinstance(problem, HasAddedNoise) else None
    return (get_mean_noise(problem) or 0.0) if variance is None else variance


def get_added_noise_at(problem: Problem, X: Array) -> Array:
    """Return the variance (m,) of the noise that a comparison adds to the values at points (m, d)."""
    if isinstance(problem, HasAddedNoise) and problem.added_noise is not None:
        return np.full(len(X), float(problem.added_noise))
    noise = get_noise_at(problem, X)
    return np.zeros(len(X)) if noise is None else noise


@runtime_checkable
class HasRKHSVariation(Protocol):
    """A problem whose reward lies in the RKHS of its kernel."""

    @property
    def rkhs_variation(self) -> float:
        """Return the mean RKHS norm of f(., t+1) - f(., t) per unit of time ([S] eq. 20)."""


def get_stated_variation(problem: Problem) -> float | None:
    """Return the change of the reward per unit of time, or None if the problem does not state it.

    If the reward lies in the RKHS of its kernel, this is the RKHS norm, as in the papers. Other rewards
    have no such norm, or a norm of thousands of deviations on a few candidates; for them it is the
    largest change at any point.
    """
    if isinstance(problem, HasRKHSVariation):
        return problem.rkhs_variation
    return problem.variation
