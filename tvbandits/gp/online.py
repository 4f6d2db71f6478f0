"""Fitting kernels while a bandit plays, by log evidence.

It is for bandits that learn their kernel. A schedule (`Every`) defines when to fit, and to which of the
observations so far; these go into `refit`, and out comes `Learned`, the kernel of the recipe and its
rivals with their new hyperparameters.

A fit uses a bounded number of observations, takes a bounded number of iterations from where the last
one ended, and comes on a schedule, so that its cost grows neither with history nor with the horizon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern

from tvbandits.data import Dataset, median_time_step
from tvbandits.domains.space_kernel import with_arms
from tvbandits.gp.evidence import Evidence
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, Terms, leaves_of, rebuilt
from tvbandits.gp.linalg import pivoted_cholesky
from tvbandits.gp.standardisation import Scaling
from tvbandits.ties import first_argmax
from tvbandits.validation import (
    Array,
    Index,
    as_bool,
    as_list,
    check_instance,
    finite_number,
    is_infinite,
    positive_number,
    set_fields,
    whole_number,
)


@dataclass(frozen=True)
class Every:
    """When a kernel is fitted, to how many observations, and for how long.

    Parameters
    ----------
    steps : int
        A fit takes place after so many rewards, again and again.
    first : tuple of int
        And after so many rewards at the start, when each of them has much information.
    observations : int
        A fit uses at most so many of them: the latest, and whole steps of the time before.
    recent : float
        Share of the latest among them.
    iterations : int
        Iterations of L-BFGS in one fit.
    spread, space_spread : float
        The kernel of the recipe is the median of a log-normal prior on its hyperparameters, and these
        are the deviations of their logarithms: of amplitudes and time scales, and of those over points,
        as length scales differ most from problem to problem. Infinite: no prior.
    rivals : tuple of kernels
        Other kernels to choose from, by their evidence.
    in_steps : bool
        Time scales and rates of the kernels of the recipe count in steps, the median time between
        rewards: of all rewards so far until the first fit, and of those in the fit from then on.
    remembered : int
        With a new kernel the posterior is computed anew from at most so many observations, selected as
        those of a fit, and from all that come after it. Under the model, the mean of a reward given some
        of the observations differs from that given all of them by a root mean square of sqrt(v - w),
        where v and w are its two variances: less than the deviation of the prediction.
    diverse : bool
        Besides the latest, those are remembered that are most informative about all others, and
        not whole steps: a bandit that plays near the best for long would forget the other places.

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
        first = as_list("first", self.first, "a tuple of whole numbers")
        for number in first:
            whole_number("each of first", number)
        rivals = as_list("rivals", self.rivals, "a tuple of kernels")
        for rival in rivals:
            check_instance("each of rivals", rival, Kernel, "a scikit-learn kernel")
        finite_number("recent", self.recent, above=0.0, high=1.0)
        for name in ("spread", "space_spread"):
            if not is_infinite(getattr(self, name)):
                positive_number(name, getattr(self, name))
        for name in ("in_steps", "diverse"):
            as_bool(name, getattr(self, name))
        set_fields(self, first=tuple(first), rivals=tuple(rivals))

    def due(self, before: int, now: int) -> bool:
        """Return whether a fit is due between `before` rewards and `now`."""
        early = any(before < n <= now for n in self.first)
        return early or now // self.steps > before // self.steps

    def kept(self, t: Array, fitted: NDArray[np.bool_], kernel: Any, Z: Array) -> NDArray[np.bool_]:
        """Return which observations count after a fit, as a mask (n,).

        Parameters
        ----------
        t : array of shape (n,)
            Their times.
        fitted : boolean array of shape (n,)
            Which of them the fit has used.
        kernel : scikit-learn kernel
        Z : array of shape (n, p)
            Their inputs to the kernel.
        """
        rows = np.flatnonzero(fitted)
        if len(rows) <= self.remembered:
            return np.ones(len(t), dtype=bool)
        if self.diverse:
            order = np.argsort(t[rows], kind="stable")
            older = order[: len(order) - math.ceil(self.recent * self.remembered)]
            latest = order[len(older) :]
            inputs, most = Z[rows[older]], self.remembered - len(latest)

            # Only columns of pivots are computed: the matrix grows with the square of the history.
            def column(i: int) -> Array:
                return np.asarray(kernel(inputs, inputs[i : i + 1])[:, 0])

            pivots = pivoted_cholesky(kernel.diag(inputs), column, most, 0.0).pivots
            selection = np.concatenate([older[pivots], latest])
        else:
            selection = replace(self, observations=self.remembered).select(t[rows])
        mask = ~fitted
        mask[rows[selection]] = True
        return mask

    def select(self, t: Array) -> Index:
        """Return the rows of observations at times `t` (n,) that a fit uses, sorted by time."""
        order = np.argsort(t, kind="stable")
        n = len(t)
        if n <= self.observations:
            return order
        times = t[order]
        latest = math.ceil(self.recent * self.observations)
        # Whole steps: answers of one time show together how the reward differs from place to place.
        start = int(np.searchsorted(times, times[n - latest]))
        steps = np.unique(times[:start])
        room = max(int((self.observations - (n - start)) * len(steps) / max(start, 1)), 0)
        some = steps[np.unique(np.linspace(0, len(steps) - 1, room).astype(np.int64))]
        older = order[:start][np.isin(times[:start], some)]
        # The latest step may have more observations than a fit takes.
        recent = order[start:]
        if len(recent) > self.observations:
            recent = recent[np.linspace(0, len(recent) - 1, self.observations).astype(np.int64)]
        return np.concatenate([older[: self.observations - len(recent)], recent])


def as_every(learn: Every | int) -> Every:
    """Return the schedule; a number is that of rewards between two fits."""
    return learn if isinstance(learn, Every) else Every(whole_number("learn", learn))


@dataclass(frozen=True)
class Learned:
    """The kernels that were fitted, and which of them is in use.

    Attributes
    ----------
    kernels : tuple of kernels
        The kernel of the recipe and its rivals, each after its latest fit.
    losses : tuple of float
        Minus their log posterior densities, summed over the fits that compared them, as a wrong kernel
        may suit the observations of one fit by chance.
    best : int
        Number of the kernel in use.
    fits : int
        Number of fits.
    starts : tuple of kernels
        The medians of their priors.
    at : pair of int
        Numbers of rewards and of answers at the last fit.
    step : float
        Duration of a step, where time scales count in steps.
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
        """Return the kernels before the first fit."""
        kernels = (kernel, *every.rivals)
        return cls(kernels, (0.0,) * len(kernels), starts=kernels)

    def widened(self, columns: int) -> Learned:
        """Return the kernels for so many more arms."""
        parts = ([with_arms(k, columns) for k in each] for each in (self.kernels, self.starts))
        kernels, starts = map(tuple, parts)
        return replace(self, kernels=kernels, starts=starts)

    @property
    def kernel(self) -> Any:
        """Return the kernel in use."""
        return self.kernels[self.best]


@dataclass(frozen=True)
class FittingConfig:
    """The constants of the fits.

    Attributes
    ----------
    largest_rate : float
        Largest rate of forgetting: in a unit of time of many steps it may round to 1.
    first_comparisons, comparison_period : int
        All rivals are fitted at so many first fits, and then at every fourth; else the best alone, to
        save time.
    longer_step : float
        A step is taken to be longer if the median gap has grown by more than this factor: rewards from
        before the first decision may be closer together than decisions are.
    """

    largest_rate: float = 1.0 - 1e-12
    first_comparisons: int = 6
    comparison_period: int = 4
    longer_step: float = 2.0


CONFIG = FittingConfig()


def refit(
    every: Every, start: Any, learned: Learned, sample: Dataset, scaled: Scaling, old: Scaling
) -> Learned:
    """Return the kernels fitted to a sample.

    Parameters
    ----------
    every : Every
    start : scikit-learn kernel
        The kernel of the recipe, which is the median of the prior.
    learned : Learned
        The kernels so far, from which the iterations start.
    sample : Dataset
    scaled, old : Scaling
        The scaling of the values, and the one before, from whose unit amplitudes are converted.
    """
    values, variance = (sample.y - scaled.anchor) / scaled.scale, sample.variance / scaled.scale**2
    first = learned.fits < CONFIG.first_comparisons
    together = first or (learned.fits + 1) % CONFIG.comparison_period == 0
    starts: tuple[Any, ...] = (start, *every.rivals)
    kernels, losses = list(learned.kernels), list(learned.losses)
    step = learned.step
    if every.in_steps:
        gap = median_time_step(sample.t)
        changes = not learned.fits or gap > CONFIG.longer_step * step
        step = gap if changes else step
        starts = tuple(at_step(each, step) for each in starts) if changes else learned.starts
        kernels = list(starts) if changes else kernels
    shift = 2.0 * math.log(old.scale / scaled.scale) if learned.fits else 0.0
    for i, prior in enumerate(starts):
        fits = together or i == learned.best
        if not fits and shift == 0.0:
            continue
        # Taken once: scikit-learn collects these from all parts at each access.
        kernel = kernels[i]
        terms, theta, bounds = leaves_of(kernel), kernel.theta, kernel.bounds
        if shift != 0.0:
            theta = _rescale(terms or (), theta, bounds, shift)
        if fits:
            spreads = _spreads(every, terms or (), len(theta))
            evidence = Evidence(kernel, sample, values, variance, prior.theta, spreads, terms)
            theta, loss = _minimize(evidence, theta, bounds, every.iterations)
            losses[i] += loss if together else 0.0
        kernels[i] = kernel.clone_with_theta(theta)
    best = first_argmax(-np.array(losses)) if together else learned.best
    return replace(
        learned,
        kernels=tuple(kernels),
        losses=tuple(losses),
        best=best,
        fits=learned.fits + 1,
        starts=starts,
        step=step,
    )


def _minimize(
    evidence: Evidence, theta: Array, bounds: Any, iterations: int
) -> tuple[Array, float]:
    """Return hyperparameters after some iterations, and minus their log posterior density."""
    if len(theta) == 0:
        return theta, evidence(theta)[0]
    start = np.clip(theta, bounds[:, 0], bounds[:, 1])
    result = minimize(evidence, start, jac=True, bounds=bounds, options={"maxiter": iterations})
    return np.asarray(result.x), float(result.fun)


def _spreads(every: Every, terms: Terms, count: int) -> Array:
    """Return the deviations of the prior of so many hyperparameters."""
    spreads = np.full(count, float(every.spread))
    for term in terms:
        for leaf in term:
            if type(leaf.kernel) is OnSpace:
                spreads[leaf.where] = every.space_spread
    return spreads


def at_step(kernel: Any, step: float) -> Any:
    """Return a kernel whose time scales count in steps as one for the unit of time."""
    return kernel if step == 1.0 else rebuilt(kernel, lambda leaf: _leaf_at_step(leaf, step))


def _leaf_at_step(leaf: Any, step: float) -> Any:
    """Return a leaf with its time scale, and the bounds of it, times a step."""
    if type(leaf) is Drift:
        bounds = leaf.epsilon_bounds
        if not isinstance(bounds, str):
            bounds = (_rate_at_step(bounds[0], step), _rate_at_step(bounds[1], step))
        return Drift(_rate_at_step(leaf.epsilon, step), bounds)
    if type(leaf) is not OnTime or type(leaf.kernel) is not Matern:
        return leaf
    matern = leaf.kernel
    bounds = matern.length_scale_bounds
    if not isinstance(bounds, str):
        bounds = (bounds[0] * step, bounds[1] * step)
    return OnTime(Matern(matern.length_scale * step, bounds, nu=matern.nu))


def _rate_at_step(epsilon: float, step: float) -> float:
    """Return the rate for the unit of time, of one for a step; below 1, which is no rate."""
    return min(-math.expm1(math.log1p(-epsilon) / step), CONFIG.largest_rate)


def _rescale(terms: Terms, theta: Array, bounds: Array, shift: float) -> Array:
    """Return hyperparameters with every amplitude times exp(shift), if every term has just one."""
    theta = np.array(theta)
    constants = [
        [leaf.where for leaf in term if type(leaf.kernel) is ConstantKernel] for term in terms
    ]
    free = [[where for where in term if where.start < where.stop] for term in constants]
    if all(len(term) == 1 for term in free):
        for where in {(term[0].start, term[0].stop) for term in free}:
            theta[slice(*where)] += shift
    return np.clip(theta, bounds[:, 0], bounds[:, 1]) if len(theta) else theta
