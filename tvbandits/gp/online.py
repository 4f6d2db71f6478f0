"""Fit kernels by log evidence while a bandit plays.

A schedule (`Every`) defines when a bandit fits its kernel and which observations it uses. `refit` takes
these and returns `Learned`: the kernel of the recipe and its rivals with new hyperparameters.

A fit uses a bounded number of observations and of iterations, starting from the last fit, and is made on
a schedule, so that its cost grows neither with the history nor with the horizon.
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
from tvbandits.domains.space_kernel import add_arms
from tvbandits.gp.evidence import Evidence
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, Terms, leaves_of, rebuild
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
    """A schedule of kernel fits, with the number of observations and iterations of each.

    Parameters
    ----------
    steps : int
        A fit is made each time after this number of rewards.
    first : tuple of int
        Further numbers of rewards after which a fit is made; early rewards are the most informative.
    observations : int
        The largest number of observations in a fit: the latest ones, and whole steps from before them.
    recent : float
        The fraction of the latest among them.
    iterations : int
        Iterations of L-BFGS in one fit.
    spread, space_spread : float
        The kernel of the recipe is the median of a log-normal prior on its hyperparameters. These are
        the deviations of the logarithms: of amplitudes and time scales, and of the hyperparameters over
        points, since length scales differ most between problems. Infinite for no prior.
    rivals : tuple of kernels
        Alternative kernels, which compete with that of the recipe by their evidence.
    in_steps : bool
        Whether time scales and rates of the kernels of the recipe are in steps. A step is the median
        time between rewards: between all rewards until the first fit, then between those of the fit.
    remembered : int
        The largest number of observations from which the posterior is computed after a fit, together
        with all later ones. Under the model, the mean of a reward given some of the observations differs
        from that given all by a root mean square of sqrt(v - w), where v and w are the two variances;
        that is less than the deviation of the prediction.
    diverse : bool
        Whether the remembered observations are the latest and those that are most informative about all
        others, in place of whole steps. A bandit that plays near the optimum for long would otherwise
        forget other places.

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

    def is_due(self, before: int, now: int) -> bool:
        """Return whether a fit is due when the number of rewards rises from `before` to `now`."""
        early = any(before < n <= now for n in self.first)
        return early or now // self.steps > before // self.steps

    def remember(
        self, t: Array, fitted: NDArray[np.bool_], kernel: Any, Z: Array
    ) -> NDArray[np.bool_]:
        """Return the mask (n,) of observations from which the posterior after a fit is computed.

        Parameters
        ----------
        t : array of shape (n,)
            Times of the observations.
        fitted : boolean array of shape (n,)
            Whether the fit has used each observation.
        kernel : scikit-learn kernel
        Z : array of shape (n, p)
            Kernel inputs of the observations.
        """
        rows = np.flatnonzero(fitted)
        if len(rows) <= self.remembered:
            return np.ones(len(t), dtype=bool)
        if self.diverse:
            order = np.argsort(t[rows], kind="stable")
            older = order[: len(order) - math.ceil(self.recent * self.remembered)]
            latest = order[len(older) :]
            inputs, count = Z[rows[older]], self.remembered - len(latest)

            # The whole matrix would grow with the square of the history; only pivot columns are needed.
            def column(i: int) -> Array:
                return np.asarray(kernel(inputs, inputs[i : i + 1])[:, 0])

            pivots = pivoted_cholesky(kernel.diag(inputs), column, count, 0.0).pivots
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
        # Steps are taken whole, because readings of one time together show differences between places.
        start = int(np.searchsorted(times, times[n - latest]))
        steps = np.unique(times[:start])
        count = max(int((self.observations - (n - start)) * len(steps) / max(start, 1)), 0)
        subset = steps[np.unique(np.linspace(0, len(steps) - 1, count).astype(np.int64))]
        older = order[:start][np.isin(times[:start], subset)]
        # The latest step may have more observations than one fit may use.
        recent = order[start:]
        if len(recent) > self.observations:
            recent = recent[np.linspace(0, len(recent) - 1, self.observations).astype(np.int64)]
        return np.concatenate([older[: self.observations - len(recent)], recent])


def as_every(learn: Every | int) -> Every:
    """Return the schedule; an integer is the number of rewards between two fits."""
    return learn if isinstance(learn, Every) else Every(whole_number("learn", learn))


@dataclass(frozen=True)
class Learned:
    """The fitted kernels of a bandit and the choice among them.

    Attributes
    ----------
    kernels : tuple of kernels
        The kernel of the recipe and its rivals, each after its latest fit.
    losses : tuple of float
        Negative log posterior densities of the kernels, summed over the fits that compared them, because
        a wrong kernel may suit the observations of one fit by chance.
    best : int
        Index of the kernel in use.
    fits : int
        Number of fits.
    starts : tuple of kernels
        The prior medians of the kernels.
    at : pair of int
        Numbers of rewards and of answers at the last fit.
    step : float
        Duration of a step, if time scales are in steps.
    """

    kernels: tuple[Any, ...]
    losses: tuple[float, ...]
    best: int = 0
    fits: int = 0
    starts: tuple[Any, ...] = ()
    at: tuple[int, int] = (0, 0)
    step: float = 1.0

    @classmethod
    def initial(cls, kernel: Any, every: Every) -> Learned:
        """Return the kernels before the first fit."""
        kernels = (kernel, *every.rivals)
        return cls(kernels, (0.0,) * len(kernels), starts=kernels)

    def add_arms(self, columns: int) -> Learned:
        """Return the kernels for inputs with more arms, which add `columns` coordinates."""
        kernels, starts = (
            tuple(add_arms(kernel, columns) for kernel in kernels)
            for kernels in (self.kernels, self.starts)
        )
        return replace(self, kernels=kernels, starts=starts)

    @property
    def kernel(self) -> Any:
        """Return the kernel in use."""
        return self.kernels[self.best]


@dataclass(frozen=True)
class FittingConfig:
    """Constants of the fits.

    Attributes
    ----------
    largest_rate : float
        The largest forgetting rate. Converted to a time unit of many steps, a rate may round to 1.
    first_comparisons, comparison_period : int
        All rivals are fitted at the first fits, of this number, and then once in each period. At other
        fits only the best kernel is fitted, to save time.
    longer_step : float
        The step is estimated again if the median time between rewards has grown by more than this
        factor, because rewards from before the first decision may be closer together.
    """

    largest_rate: float = 1.0 - 1e-12
    first_comparisons: int = 6
    comparison_period: int = 4
    longer_step: float = 2.0


CONFIG = FittingConfig()


def refit(
    every: Every, start: Any, learned: Learned, sample: Dataset, scaling: Scaling, old: Scaling
) -> Learned:
    """Return the kernels fitted to a sample.

    Parameters
    ----------
    every : Every
    start : scikit-learn kernel
        The kernel of the recipe, which is the prior median.
    learned : Learned
        The kernels after the last fit, from which the iterations start.
    sample : Dataset
    scaling, old : Scaling
        The scaling of the values, and the previous one, whose amplitudes are converted.
    """
    values = (sample.y - scaling.anchor) / scaling.scale
    variance = sample.variance / scaling.scale**2
    first = learned.fits < CONFIG.first_comparisons
    compares = first or (learned.fits + 1) % CONFIG.comparison_period == 0
    starts: tuple[Any, ...] = (start, *every.rivals)
    kernels, losses = list(learned.kernels), list(learned.losses)
    step = learned.step
    if every.in_steps:
        gap = median_time_step(sample.t)
        changes = not learned.fits or gap > CONFIG.longer_step * step
        step = gap if changes else step
        starts = tuple(scale_times(k, step) for k in starts) if changes else learned.starts
        kernels = list(starts) if changes else kernels
    shift = 2.0 * math.log(old.scale / scaling.scale) if learned.fits else 0.0
    for i, prior in enumerate(starts):
        fits = compares or i == learned.best
        if not fits and shift == 0.0:
            continue
        # These are read once, since scikit-learn collects them from all parts at each access.
        kernel = kernels[i]
        terms, theta, bounds = leaves_of(kernel), kernel.theta, kernel.bounds
        if shift != 0.0:
            theta = _rescale(terms or (), theta, bounds, shift)
        if fits:
            spreads = _spreads(every, terms or (), len(theta))
            evidence = Evidence(kernel, sample, values, variance, prior.theta, spreads, terms)
            theta, loss = _minimize(evidence, theta, bounds, every.iterations)
            losses[i] += loss if compares else 0.0
        kernels[i] = kernel.clone_with_theta(theta)
    best = first_argmax(-np.array(losses)) if compares else learned.best
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
    """Return the hyperparameters after `iterations`, and their negative log posterior density."""
    if len(theta) == 0:
        return theta, evidence(theta)[0]
    start = np.clip(theta, bounds[:, 0], bounds[:, 1])
    result = minimize(evidence, start, jac=True, bounds=bounds, options={"maxiter": iterations})
    return np.asarray(result.x), float(result.fun)


def _spreads(every: Every, terms: Terms, count: int) -> Array:
    """Return the prior deviations of the logarithms of `count` hyperparameters."""
    spreads = np.full(count, float(every.spread))
    for term in terms:
        for leaf in term:
            if type(leaf.kernel) is OnSpace:
                spreads[leaf.where] = every.space_spread
    return spreads


def scale_times(kernel: Any, step: float) -> Any:
    """Return the kernel with its time scales converted from steps to the unit of time."""
    return kernel if step == 1.0 else rebuild(kernel, lambda leaf: _scale_leaf_time(leaf, step))


def _scale_leaf_time(leaf: Any, step: float) -> Any:
    """Return a leaf with its time scale and the bounds of the time scale multiplied by `step`."""
    if type(leaf) is Drift:
        bounds = leaf.epsilon_bounds
        if not isinstance(bounds, str):
            bounds = (_convert_rate(bounds[0], step), _convert_rate(bounds[1], step))
        return Drift(_convert_rate(leaf.epsilon, step), bounds)
    if type(leaf) is not OnTime or type(leaf.kernel) is not Matern:
        return leaf
    matern = leaf.kernel
    bounds = matern.length_scale_bounds
    if not isinstance(bounds, str):
        bounds = (bounds[0] * step, bounds[1] * step)
    return OnTime(Matern(matern.length_scale * step, bounds, nu=matern.nu))


def _convert_rate(epsilon: float, step: float) -> float:
    """Return a rate per step as a rate per unit of time, which is kept below 1."""
    return min(-math.expm1(math.log1p(-epsilon) / step), CONFIG.largest_rate)


def _rescale(terms: Terms, theta: Array, bounds: Array, shift: float) -> Array:
    """Return hyperparameters with all amplitudes times exp(shift), if each term has exactly one."""
    theta = np.array(theta)
    constants = [
        [leaf.where for leaf in term if type(leaf.kernel) is ConstantKernel] for term in terms
    ]
    free = [[part for part in term if part.start < part.stop] for term in constants]
    if all(len(term) == 1 for term in free):
        for ends in {(term[0].start, term[0].stop) for term in free}:
            theta[slice(*ends)] += shift
    return np.clip(theta, bounds[:, 0], bounds[:, 1]) if len(theta) else theta
