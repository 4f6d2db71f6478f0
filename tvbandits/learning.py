"""Learning while playing: kernels by log evidence, the rate of an aging map by prediction.

Only what the bandit has seen so far is used. A fit looks at a bounded number of observations, takes
a bounded number of iterations from where the last one ended, and comes on a schedule, so that its
cost grows neither with history nor with the horizon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import ConstantKernel

from tvbandits.evidence import Evidence, leaves_of
from tvbandits.observations import Array, Index, Observations


@dataclass(frozen=True)
class Every:
    """When to learn, from how much, and how long.

    Parameters
    ----------
    steps : int
        Learn after so many rewards, again and again.
    first : tuple of int
        And after so many rewards at the start, when little is known.
    observations : int
        A fit looks at so many of them at the most: the latest, and whole steps of the time before.
    recent : float
        Share of them that are the latest.
    iterations : int
        Of L-BFGS in one fit.
    spread : float
        The kernel as given is the median of a log-normal prior on its hyperparameters, and this the
        deviation of their logarithms; infinite: no prior.
    rivals : tuple of kernels
        Others to choose from, by their evidence.
    """

    steps: int = 30
    first: tuple[int, ...] = (4, 8, 12, 18, 26, 40)
    observations: int = 250
    recent: float = 0.9
    iterations: int = 12
    spread: float = 0.65
    rivals: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for name in ("steps", "observations", "iterations"):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if any(not isinstance(n, int | np.integer) or n < 1 for n in self.first):
            raise ValueError(f"first must be whole numbers of at least 1, got {self.first!r}")
        if not 0.0 < self.recent <= 1.0:
            raise ValueError(f"recent must lie in (0, 1], got {self.recent}")
        if not self.spread > 0:
            raise ValueError(f"spread must be positive, got {self.spread}")
        object.__setattr__(self, "first", tuple(self.first))
        object.__setattr__(self, "rivals", tuple(self.rivals))

    def due(self, before: int, now: int) -> bool:
        """Whether a fit falls due between `before` rewards and `now`."""
        early = any(before < n <= now for n in self.first)
        return early or now // self.steps > before // self.steps

    def select(self, t: Array) -> Index:
        """Rows of observations at times `t` (n,) to look at, sorted by time."""
        order = np.argsort(t, kind="stable")
        n = len(t)
        if n <= self.observations:
            return order
        times = t[order]
        latest = math.ceil(self.recent * self.observations)
        # Whole steps: answers of one time say together how the reward differs from place to place.
        start = int(np.searchsorted(times, times[n - latest]))
        steps = np.unique(times[:start])
        room = max(int((self.observations - (n - start)) * len(steps) / max(start, 1)), 0)
        if room == 0 or len(steps) == 0:
            return order[start:]
        chosen = steps[np.unique(np.linspace(0, len(steps) - 1, room).astype(np.int64))]
        return np.concatenate([order[:start][np.isin(times[:start], chosen)], order[start:]])


@dataclass(frozen=True)
class Learned:
    """What learning has come to.

    Attributes
    ----------
    kernels : tuple of kernels
        The kernel of the recipe and its rivals, each as it was fitted last.
    losses : tuple of float
        Minus their log posterior densities, summed over the fits that compared them: one window may
        suit a wrong kernel by chance.
    best : int
        Which of them is in use.
    fits : int
        Number of fits.
    evaluations : int
        Of the evidence, in all fits.
    """

    kernels: tuple[Any, ...]
    losses: tuple[float, ...]
    best: int = 0
    fits: int = 0
    evaluations: int = 0

    @classmethod
    def nothing(cls, kernel: Any, every: Every) -> Learned:
        """Before the first fit."""
        kernels = (kernel, *every.rivals)
        return cls(kernels, (0.0,) * len(kernels))

    @property
    def kernel(self) -> Any:
        """The kernel in use."""
        return self.kernels[self.best]


COMPARED_FIRST, COMPARED_EVERY = 6, 4
"""All rivals are fitted at so many first fits, and then at every fourth: otherwise the best alone."""


def refit(
    every: Every,
    start: Any,
    learned: Learned,
    sample: Observations,
    centre: float,
    scale: float,
    rescaled: float,
) -> Learned:
    """Fit the kernels to a sample.

    Parameters
    ----------
    every : Every
    start : scikit-learn kernel
        The kernel as given: the median of the prior.
    learned : Learned
        Where to go on from.
    sample : Observations
    centre, scale : float
        The values are standardised by these.
    rescaled : float
        Old scale over new: amplitudes are carried over to the new unit.
    """
    values, variance = (sample.y - centre) / scale, sample.variance / scale**2
    together = learned.fits < COMPARED_FIRST or (learned.fits + 1) % COMPARED_EVERY == 0
    kernels, losses, evaluations = list(learned.kernels), list(learned.losses), learned.evaluations
    for i, given in enumerate((start, *every.rivals)):
        kernel = kernels[i]
        if learned.fits and rescaled != 1.0:
            kernel = kernel.clone_with_theta(_rescaled(kernel, 2.0 * math.log(rescaled)))
        if (together or i == learned.best) and len(kernel.theta):
            evidence = Evidence(kernel, sample, values, variance, given.theta, every.spread)
            found = minimize(
                evidence,
                np.clip(kernel.theta, kernel.bounds[:, 0], kernel.bounds[:, 1]),
                jac=True,
                method="L-BFGS-B",
                bounds=kernel.bounds,
                options={"maxiter": every.iterations},
            )
            kernel = kernel.clone_with_theta(found.x)
            if together:
                losses[i] += float(found.fun)
            evaluations += int(found.nfev)
        kernels[i] = kernel
    best = int(np.argmin(losses)) if together else learned.best
    return replace(
        learned,
        kernels=tuple(kernels),
        losses=tuple(losses),
        best=best,
        fits=learned.fits + 1,
        evaluations=evaluations,
    )


def _rescaled(kernel: Any, shift: float) -> Array:
    """Hyperparameters with every amplitude times exp(shift), where every term has just one."""
    theta = np.array(kernel.theta)
    constants = [
        [leaf.where for leaf in term if type(leaf.kernel) is ConstantKernel]
        for term in leaves_of(kernel) or ()
    ]
    free = [[where for where in term if where.start < where.stop] for term in constants]
    if all(len(term) == 1 for term in free):
        for where in {(term[0].start, term[0].stop) for term in free}:
            theta[slice(*where)] += shift
    return np.clip(theta, kernel.bounds[:, 0], kernel.bounds[:, 1]) if len(theta) else theta
