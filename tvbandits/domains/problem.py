"""The protocol of problems, and how the command line knows one by name."""

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
    """A known, drifting reward that policies can be compared on.

    A problem may also have `realise(seed) -> Problem`, for problems that are random themselves:
    `compare` then plays every policy of one seed on the same realisation.
    """

    @property
    def name(self) -> str:
        """The name of the problem in rows and pictures."""

    @property
    def domain(self) -> Domain:
        """The points that may be played."""

    @property
    def horizon(self) -> int:
        """Number of steps of a full run; step s is played at time s = 1, 2, ..., horizon."""

    @property
    def noise_variance(self) -> float | Array | None:
        """Noise variance of a reward (unit of reward squared); None: nobody knows it.

        An array (n,) has one for each of n candidates. With None policies learn it, and a comparison
        adds no noise to `value`: it warns, unless `added_noise = 0.0` says that the values are
        measurements, or the problem has trials.
        """

    @property
    def unit(self) -> str:
        """Unit of the reward, for axes and tables; an empty string where it has none."""

    @property
    def kernel(self) -> Any | None:
        """Recommended prior covariance over points (scikit-learn), or None: fitted on a sample."""

    @property
    def variation(self) -> float | None:
        """Mean of max_x abs(f(x, t+1) - f(x, t)) per unit of time, where it is known."""

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at the points `X` (n, d) at time `t`, shape (n,)."""

    def best(self, t: float) -> float:
        """Return the largest noise-free reward over the domain at time `t`."""


@dataclass(frozen=True)
class NamedProblem:
    """A problem that the command line knows by name.

    Attributes
    ----------
    name : str
    make : callable
        Makes it; what is in its signature are its parameters on the command line.
    summary : str
        One line.
    files : int or None
        How many files `make` takes first, those of `--data`; None: a list of them.
    length : str
        The parameter that makes it longer, which `--horizon` sets.
    leading : str
        The parameter that may be written without its name, right after the colon.
    """

    name: str
    make: Callable[..., Problem]
    summary: str
    files: int | None = 0
    length: str = "horizon"
    leading: str = ""


@runtime_checkable
class NoiseOfItsOwn(Protocol):
    """A problem that says how much noise a comparison adds to its values."""

    @property
    def added_noise(self) -> float | None:
        """Variance of that noise (unit of reward squared); None: the problem's noise variance."""


def rewards_at(problem: Problem, X: Array, t: float) -> Array:
    """Return the noise-free rewards (n,) at points (n, d) at a time.

    Raises
    ------
    ValueError
        If the problem returns anything else than a number for each point.
    """
    name = f"the value of {problem.name}"
    values = as_floats(problem.value(X, t), name)
    if values.shape != (len(X),):
        raise ValueError(
            f"{name} must have shape ({len(X)},), one for each point, got {values.shape}"
        )
    return values


def usual_noise(problem: Problem) -> float | None:
    """Return the noise variance of a reward, as a mean over candidates where each has its own."""
    noise = problem.noise_variance
    return None if noise is None else float(np.mean(noise))


def noise_at(problem: Problem, X: Array) -> Array | None:
    """Return the noise variance (m,) of a reward at points (m, d); None: nobody knows it.

    Raises
    ------
    ValueError
        If each candidate has its own, and a point is no candidate.
    """
    noise = problem.noise_variance
    if noise is None:
        return None
    if np.ndim(noise) == 0:
        return np.full(len(X), float(noise))
    assert isinstance(problem.domain, Candidates)
    return np.asarray(noise, dtype=np.float64)[problem.domain.index(X)]


def noise_to_add(problem: Problem) -> float:
    """Return the variance of the noise that a comparison adds to a problem's values.

    It is that of a reward, unless the problem says otherwise by `added_noise`, as one does whose values
    are measurements. Where nobody knows the noise of a reward, there is none to add. Where each
    candidate has its own, it is their mean.
    """
    own = problem.added_noise if isinstance(problem, NoiseOfItsOwn) else None
    return (usual_noise(problem) or 0.0) if own is None else own


def noise_to_add_at(problem: Problem, X: Array) -> Array:
    """Return the variance (m,) of the noise that a comparison adds to the values at points (m, d)."""
    if isinstance(problem, NoiseOfItsOwn) and problem.added_noise is not None:
        return np.full(len(X), float(problem.added_noise))
    noise = noise_at(problem, X)
    return np.zeros(len(X)) if noise is None else noise


@runtime_checkable
class HasRKHSVariation(Protocol):
    """A problem whose reward lies in the RKHS of its kernel."""

    @property
    def rkhs_variation(self) -> float:
        """Mean of the RKHS norm of f(., t+1) - f(., t) per unit of time ([S] eq. 20)."""


def stated_variation(problem: Problem) -> float | None:
    """Return the change of the reward per unit of time, where a problem says it.

    It is in the norm of the papers where the reward lies in the RKHS of its kernel. The change of a
    reward that does not has no such norm, or on a few candidates one of thousands of deviations: there
    it is the largest change of any point.
    """
    if isinstance(problem, HasRKHSVariation):
        return problem.rkhs_variation
    return problem.variation
