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
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern

from tvbandits.core.linalg import pivoted_cholesky
from tvbandits.core.observations import Observations
from tvbandits.core.space_kernel import with_arms
from tvbandits.gp.fitting.evidence import Evidence
from tvbandits.gp.fitting.standardisation import Scaling
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.kernels.terms import Terms, leaves_of, rebuilt
from tvbandits.validation import (
    Array,
    Index,
    finite_number,
    flag,
    is_infinite,
    of_kind,
    positive_number,
    settle,
    several,
    whole_number,
)


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
    spread, space_spread : float
        The kernel as given is the median of a log-normal prior on its hyperparameters, and these are the
        deviations of their logarithms: of amplitudes and time scales, and of what is over points (length
        scales differ most from problem to problem). Infinite: no prior.
    rivals : tuple of kernels
        Others to choose from, by their evidence.
    in_steps : bool
        Time scales and rates of the kernels as given count in steps, the median time between rewards:
        that of all so far until the first fit, and of those that are fitted from then on.
    remembered : int
        With a new kernel everything is computed anew from so many observations at the most, chosen as
        those of a fit, and from all that come after it. Under the model, the mean of a reward that was
        given some of the observations differs from that given all of them by a root mean square of
        sqrt(v - w), where v and w are its two variances: less than the deviation that is stated.
    diverse : bool
        What is remembered besides the latest is what tells most about all the rest, under the kernel,
        and not whole steps: who plays near the best for long would forget what is elsewhere.

    Examples
    --------
    >>> from tvbandits import Every
    >>> rule = Every(30)
    >>> print(rule.steps, rule.first)
    30 (4, 8, 12, 18, 26, 40)
    """

    steps: int = 30
    first: tuple[int, ...] = (4, 8, 12, 18, 26, 40)
    observations: int = 250
    recent: float = 0.9
    iterations: int = 12
    spread: float = 0.65
    space_spread: float = 0.65
    rivals: tuple[Any, ...] = ()
    in_steps: bool = False
    remembered: int = 500
    diverse: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "observations", "iterations", "remembered"):
            whole_number(name, getattr(self, name))
        first = several("first", self.first, "a tuple of whole numbers")
        for number in first:
            whole_number("each of first", number)
        rivals = several("rivals", self.rivals, "a tuple of kernels")
        for rival in rivals:
            of_kind("each of rivals", rival, Kernel, "a scikit-learn kernel")
        finite_number("recent", self.recent, above=0.0, high=1.0)
        for name in ("spread", "space_spread"):
            if not is_infinite(getattr(self, name)):
                positive_number(name, getattr(self, name))
        for name in ("in_steps", "diverse"):
            flag(name, getattr(self, name))
        settle(self, first=tuple(first), rivals=tuple(rivals))

    def due(self, before: int, now: int) -> bool:
        """Whether a fit falls due between `before` rewards and `now`."""
        early = any(before < n <= now for n in self.first)
        return early or now // self.steps > before // self.steps

    def kept(self, t: Array, fitted: NDArray[np.bool_], kernel: Any, Z: Array) -> NDArray[np.bool_]:
        """Which observations at times `t` (n,) count after a fit that saw those that are `fitted`.

        `Z` (n, p) are their inputs to the kernel.
        """
        rows = np.flatnonzero(fitted)
        if len(rows) <= self.remembered:
            return np.ones(len(t), dtype=bool)
        if self.diverse:
            order = np.argsort(t[rows], kind="stable")
            older = order[: len(order) - math.ceil(self.recent * self.remembered)]
            latest = order[len(older) :]
            inputs, most = Z[rows[older]], self.remembered - len(latest)

            # Only the columns of chosen rows: the whole matrix grows with the square of the history.
            def column(i: int) -> Array:
                return np.asarray(kernel(inputs, inputs[i : i + 1])[:, 0])

            apart = pivoted_cholesky(kernel.diag(inputs), column, most, 0.0).pivots
            chosen = np.concatenate([older[apart], latest])
        else:
            chosen = replace(self, observations=self.remembered).select(t[rows])
        kept = ~fitted
        kept[rows[chosen]] = True
        return kept

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
        chosen = steps[np.unique(np.linspace(0, len(steps) - 1, room).astype(np.int64))]
        older = order[:start][np.isin(times[:start], chosen)]
        # Steps of many observations may make more of them than asked for.
        recent = order[start:]
        if len(recent) > self.observations:
            recent = recent[np.linspace(0, len(recent) - 1, self.observations).astype(np.int64)]
        return np.concatenate([older[: self.observations - len(recent)], recent])


def as_every(learn: Every | int) -> Every:
    """A number is a number of rewards."""
    return learn if isinstance(learn, Every) else Every(whole_number("learn", learn))


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
    starts : tuple of kernels
        The medians of their priors.
    at : pair of int
        Numbers of rewards and of answers at the last fit.
    step : float
        What they take a step to be, where time scales count in steps.
    """

    kernels: tuple[Any, ...]
    losses: tuple[float, ...]
    best: int = 0
    fits: int = 0
    starts: tuple[Any, ...] = ()
    at: tuple[int, int] = (0, 0)
    step: float = 1.0

    @classmethod
    def nothing(cls, kernel: Any, every: Every) -> Learned:
        """Before the first fit."""
        kernels = (kernel, *every.rivals)
        return cls(kernels, (0.0,) * len(kernels), starts=kernels)

    def widened(self, columns: int) -> Learned:
        """Once there are so many more arms."""
        parts = ([with_arms(k, columns) for k in each] for each in (self.kernels, self.starts))
        kernels, starts = map(tuple, parts)
        return replace(self, kernels=kernels, starts=starts)

    @property
    def kernel(self) -> Any:
        """The kernel in use."""
        return self.kernels[self.best]


# In a unit of time of many steps, a rate of forgetting is too near to 1 to be told from it.
MOST_FORGOTTEN = 1.0 - 1e-12

# All rivals are fitted at so many first fits, and then at every fourth: otherwise the best alone.
COMPARED_FIRST, COMPARED_EVERY = 6, 4


def refit(
    every: Every, start: Any, learned: Learned, sample: Observations, scaled: Scaling, old: Scaling
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
    scaled, old : Scaling
        The values are standardised by the one; amplitudes are carried over to its unit from the other's.
    """
    values, variance = (sample.y - scaled.anchor) / scaled.scale, sample.variance / scaled.scale**2
    together = learned.fits < COMPARED_FIRST or (learned.fits + 1) % COMPARED_EVERY == 0
    starts: tuple[Any, ...] = (start, *every.rivals)
    kernels, losses = list(learned.kernels), list(learned.losses)
    step = learned.step
    if every.in_steps:
        found = step_of(sample.t)
        # Rewards told before the first decision may be closer together than decisions are.
        longer = learned.fits > 0 and found > 2.0 * step
        step = found if longer or not learned.fits else step
        again = longer or not learned.fits
        starts = tuple(at_step(each, step) for each in starts) if again else learned.starts
        kernels = list(starts) if again else kernels
    shift = 2.0 * math.log(old.scale / scaled.scale) if learned.fits else 0.0
    for i, given in enumerate(starts):
        fitted = together or i == learned.best
        if not fitted and shift == 0.0:
            continue
        # scikit-learn gathers these anew from all parts at every look.
        kernel = kernels[i]
        terms, theta, bounds = leaves_of(kernel), kernel.theta, kernel.bounds
        if shift != 0.0:
            theta = _rescaled(terms or (), theta, bounds, shift)
        if fitted:
            spreads = _spreads(every, terms or (), len(theta))
            evidence = Evidence(kernel, sample, values, variance, given.theta, spreads, terms)
            theta, loss = _fitted(evidence, theta, bounds, every.iterations)
            losses[i] += loss if together else 0.0
        kernels[i] = kernel.clone_with_theta(theta)
    best = int(np.argmin(losses)) if together else learned.best
    return replace(
        learned,
        kernels=tuple(kernels),
        losses=tuple(losses),
        best=best,
        fits=learned.fits + 1,
        starts=starts,
        step=step,
    )


def _fitted(evidence: Evidence, theta: Array, bounds: Any, iterations: int) -> tuple[Array, float]:
    """Hyperparameters after some iterations, and minus their log posterior density."""
    if len(theta) == 0:
        return theta, evidence(theta)[0]
    start = np.clip(theta, bounds[:, 0], bounds[:, 1])
    found = minimize(evidence, start, jac=True, bounds=bounds, options={"maxiter": iterations})
    return np.asarray(found.x), float(found.fun)


def _spreads(every: Every, terms: Terms, count: int) -> Array:
    """Deviation of the prior of each of so many hyperparameters."""
    spreads = np.full(count, float(every.spread))
    for term in terms:
        for leaf in term:
            if type(leaf.kernel) is OnSpace:
                spreads[leaf.where] = every.space_spread
    return spreads


def step_of(t: Array) -> float:
    """Median time between successive ones of the times `t`; 1 where there is but one."""
    gaps = np.diff(np.unique(t))
    return float(np.median(gaps)) if len(gaps) else 1.0


def at_step(kernel: Any, step: float) -> Any:
    """A kernel whose time scales count in steps, with those times a step, and their bounds."""
    return kernel if step == 1.0 else rebuilt(kernel, lambda leaf: _leaf_at_step(leaf, step))


def _leaf_at_step(leaf: Any, step: float) -> Any:
    if type(leaf) is Drift:
        bounds = leaf.epsilon_bounds
        if not isinstance(bounds, str):
            bounds = (_forgotten(bounds[0], step), _forgotten(bounds[1], step))
        return Drift(_forgotten(leaf.epsilon, step), bounds)
    if type(leaf) is not OnTime or type(leaf.kernel) is not Matern:
        return leaf
    given = leaf.kernel
    bounds = given.length_scale_bounds
    if not isinstance(bounds, str):
        bounds = (bounds[0] * step, bounds[1] * step)
    return OnTime(Matern(given.length_scale * step, bounds, nu=given.nu))


def _forgotten(epsilon: float, step: float) -> float:
    """In a unit of time, where epsilon is forgotten in a step; 1 would be beyond what is a rate."""
    return min(-math.expm1(math.log1p(-epsilon) / step), MOST_FORGOTTEN)


def _rescaled(terms: Terms, theta: Array, bounds: Array, shift: float) -> Array:
    """Hyperparameters with every amplitude times exp(shift), where every term has just one."""
    theta = np.array(theta)
    constants = [
        [leaf.where for leaf in term if type(leaf.kernel) is ConstantKernel] for term in terms
    ]
    free = [[where for where in term if where.start < where.stop] for term in constants]
    if all(len(term) == 1 for term in free):
        for where in {(term[0].start, term[0].stop) for term in free}:
            theta[slice(*where)] += shift
    return np.clip(theta, bounds[:, 0], bounds[:, 1]) if len(theta) else theta
