"""W-DBO: removes observations that no longer matter; and controls that remove others in their place.

[WD] = A. Bardou, P. Thiran and G. Ranieri. This too shall pass: removing stale observations in dynamic
Bayesian optimization. NeurIPS 2024.

The relevance of an observation is the 2-Wasserstein distance between the posteriors with and without
it, by the bound of [WD], integrated over all points and all times from now on, and divided by the same
distance between posterior and prior. The authors' program inverts a matrix for each observation, which
is O(n^4) for all. Here, with Q = (K + s^2 I)^-1, u_i = Q e_i, q_i = Q_ii, a = Q y, and the integrated
products of kernels C,

    relevance_i = sqrt( (u_i^T C u_i) (a_i^2 / q_i + 1) / q_i ) / sqrt( a^T C a + 1^T (Q o C) 1 ),

since removing i subtracts u_i u_i^T / q_i from Q, and u_i a_i / q_i from a; that is O(n^3) for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import erfc, gamma, kv
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from tvbandits.bandit import adapter
from tvbandits.data import Dataset, Plays
from tvbandits.domains.availability import ChoiceSet
from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.gp.additive import space_kernels
from tvbandits.gp.evidence import fit
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.linalg import cholesky, inverse
from tvbandits.ties import first_argmax
from tvbandits.validation import (
    LARGEST_VARIANCE,
    Array,
    Seed,
    check_choice,
    check_optional,
    describe,
    noise_variance_number,
    nonnegative_number,
    whole_number,
)


def precision(K: Array, noise: float) -> Array:
    """Return Q = (K + noise I)^-1, shape (n, n)."""
    return inverse(cholesky(K + noise * np.eye(len(K))).L)


def relevance(Q: Array, y: Array, C: Array) -> Array:
    """Return the relevance (n,) of each observation, from Q (n, n), values y (n,) and C (n, n)."""
    a, q = Q @ y, np.diagonal(Q)
    products = np.einsum("ij,ij->j", Q, C @ Q)
    squares = np.maximum(products, 0.0) * (a**2 / q + 1.0) / q
    total = a @ C @ a + (Q * C).sum()
    return np.asarray(np.sqrt(squares) / math.sqrt(max(float(total), 1e-300)))


def downdate(Q: Array, i: int) -> Array:
    """Return Q of the data without observation i, shape (n - 1, n - 1)."""
    others = np.delete(np.arange(len(Q)), i)
    u = Q[others, i]
    return np.asarray(Q[np.ix_(others, others)] - np.outer(u, u) / Q[i, i])


# --- integrated products of kernels ----------------------------------------------------------------

# Smoothness of the kernels.
SPACE_NU, TIME_NU = 2.5, 1.5


def over_space(X: Array, length: float, nu: float) -> Array:
    """Return products (n, n) of isotropic Matern kernels integrated over R^d, up to a constant factor.

    The spectral density of the product is the square of Matern's, (a^2 + w^2)^-(2 nu + d), which is
    that of a Matern kernel of smoothness 2 nu + d / 2 and the same a = sqrt(2 nu) / length. An infinite
    nu is the RBF kernel: exp(-r^2 / (4 length^2)).
    """
    r = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    if math.isinf(nu):
        return np.asarray(np.exp(-(r**2) / (4 * length**2)))
    smooth = 2 * nu + X.shape[1] / 2
    scaled = math.sqrt(2 * nu) / length * r
    apart = scaled > 1e-10
    scaled = np.where(apart, scaled, 1.0)
    covariance = 2 ** (1 - smooth) / gamma(smooth) * scaled**smooth * kv(smooth, scaled)
    return np.where(apart, covariance, 1.0)


def over_future(t: Array, now: float, length: float, nu: float) -> Array:
    """Return products (n, n) of kernels integrated over all times from `now` on.

    The smoothness nu is 1/2, 3/2 or infinite.

    With p = a (now - t_i), q = a (now - t_j):
    1/2: exp(-(p + q)) / (2 a);
    3/2: exp(-(p + q)) / (2 a) ((1 + p)(1 + q) + (2 + p + q) / 2 + 1/2);
    RBF: sqrt(pi) l / 2 exp(-(t_i - t_j)^2 / (4 l^2)) erfc((2 now - t_i - t_j) / (2 l)).
    """
    age = now - t
    if math.isinf(nu):
        apart, both = age[:, None] - age, age[:, None] + age
        bell = np.exp(-(apart**2) / (4 * length**2))
        return np.asarray(0.5 * math.sqrt(math.pi) * length * bell * erfc(both / (2 * length)))
    a = math.sqrt(2 * nu) / length
    p, q = a * age[:, None], a * age
    fall = np.exp(-(p + q)) / (2 * a)
    if nu == 0.5:
        return np.asarray(fall)
    return np.asarray(fall * ((1 + p) * (1 + q) + (2 + p + q) / 2 + 0.5))


def matern(X: Array, Z: Array, length: float, nu: float) -> Array:
    """Return an isotropic Matern kernel of variance 1 between points, shape (n, m)."""
    kernel: Any = Matern(length, nu=nu)
    return np.asarray(kernel(X, Z))


# Smallest number of observations that are kept, as in the authors' program.
FEWEST = 2
# Shortest time scale of a fit, in mean times between rewards.
#
# The authors' program has neither a bound nor a prior. The best fit to a few points may be a time scale
# close to 0. Then the budget grows without bound, and all but two points are removed, from which no fit
# recovers. With this bound about fifteen of the latest rewards are always kept.
SHORTEST = 5.0

Removal = Literal["relevance", "oldest", "random"]


@dataclass(frozen=True)
class Hyperparameters:
    """The variance lambda, l_S (in the unit cube), l_T and the noise of standardised rewards."""

    variance: float = 1.0
    space: float = 0.5
    time: float = 20.0
    noise: float = 0.01


@dataclass(eq=False)
class Relevant:
    """The rule of `w_dbo`.

    Parameters
    ----------
    domain : Box or Candidates
    noise : float or None
        Noise variance of a reward; None: it is learned.
    alpha : float
        The budget grows by the factor 1 + alpha in a time l_T.
    removal : "relevance", "oldest" or "random"
        Which observations are removed; W-DBO's budget says how many.
    first : int
        Number of random points at the start.
    low, side : array of shape (d,)
        Corner and sides of the domain, which are scaled to the unit cube.
    data : Dataset
        The observations that are kept, with points in the unit cube.
    hyperparameters : Hyperparameters
        Those of the latest fit.
    budget : float
    reward_count : int
        Number of rewards so far.
    time, first_time : float, optional
        Of the latest removal, and of the first reward.
    """

    domain: Box | Candidates
    noise: float | None
    alpha: float
    removal: Removal
    first: int
    low: Array
    side: Array
    data: Dataset
    hyperparameters: Hyperparameters = Hyperparameters()
    budget: float = 1.0
    reward_count: int = 0
    time: float | None = None
    first_time: float | None = None

    @property
    def size(self) -> int:
        """Return the number of observations that are kept."""
        return len(self.data)

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return a random point (d,) at first, then that of the largest upper bound ([WD] section 5).

        The width of the bound is sqrt(0.2 d log(2 n)).
        """
        if self.reward_count < self.first or len(self.data) < FEWEST:
            return allowed.sample(rng)
        y, centre, scale = self._standardised()
        width = math.sqrt(0.2 * self.domain.dimension * math.log(2 * len(y)))
        noise, points = self.hyperparameters.noise, self.low + self.data.X * self.side
        Q, rule = precision(self._kernel(), noise), self
        if len(pending):
            X = self._unit(pending.X)
            y = np.append(y, self._between(X, pending.t) @ (Q @ y))
            fantasies = Dataset(X, pending.t, np.zeros(len(X)), np.full(len(X), noise))
            rule = replace(self, data=self.data.append(fantasies))
            Q = precision(rule._kernel(), noise)
        return allowed.find_best(
            ReadingBound(rule, now, Q, Q @ y, centre, scale, width, points), rng
        )

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Add rewards, fit the hyperparameters, and remove observations as of the latest time."""
        unit = Dataset(self._unit(rewards.X), rewards.t, rewards.y, rewards.variance)
        self.data = self.data.append(unit)
        self.reward_count += len(rewards)
        first = float(rewards.t.min())
        self.first_time = first if self.first_time is None else min(self.first_time, first)
        if self.reward_count < self.first or len(self.data) < FEWEST:
            return
        self._fit()
        self._remove(float(self.data.t.max()), rng)

    def _unit(self, X: Array) -> Array:
        return np.asarray((X - self.low) / self.side)

    def _standardised(self) -> tuple[Array, float, float]:
        """Return the standardised rewards (n,), and mean and deviation of the rewards."""
        y = self.data.y
        scale = float(y.std()) or 1.0
        return (y - y.mean()) / scale, float(y.mean()), scale

    def cross(self, X: Array, now: float) -> Array:
        """Return the kernel (m, n) between points (m, d) of the domain at a time and the data."""
        return self._between(self._unit(X), np.full(len(X), now))

    def cross_slopes(self, X: Array, now: float) -> Array:
        """Return the derivatives (m, n, d) of `cross` by the coordinates of the points."""
        parameters, data = self.hyperparameters, self.data
        apart = self._unit(X)[:, None] - data.X
        s = math.sqrt(5.0) / parameters.space * np.sqrt((apart**2).sum(axis=2))
        fall = -5.0 / (3.0 * parameters.space**2) * parameters.variance * (1.0 + s) * np.exp(-s)
        fall = fall * matern(np.array([[now]]), data.t[:, None], parameters.time, TIME_NU)
        return np.asarray(fall[:, :, None] * apart / self.side)

    def _kernel(self) -> Array:
        return self._between(self.data.X, self.data.t)

    def _between(self, X: Array, t: Array) -> Array:
        parameters, data = self.hyperparameters, self.data
        space = matern(X, data.X, parameters.space, SPACE_NU)
        time = matern(t[:, None], data.t[:, None], parameters.time, TIME_NU)
        return np.asarray(parameters.variance * space * time)

    def _fit(self) -> None:
        """Fit the hyperparameters to standardised rewards by log evidence."""
        y, _, scale = self._standardised()
        noise = min(max(adapter.compute_initial_noise(self.noise, scale), 1e-6), LARGEST_VARIANCE)
        parameters, first_time = self.hyperparameters, self.first_time
        assert first_time is not None  # there are rewards
        span = float(self.data.t.max()) - first_time or 1.0
        shortest, longest = SHORTEST * span / max(self.reward_count - 1, 1), 10 * span
        start = float(np.clip(parameters.time, shortest, longest))
        space: Any = OnSpace(Matern(parameters.space, (0.02, 10.0), nu=SPACE_NU))
        time: Any = OnTime(Matern(start, (shortest, longest), nu=TIME_NU))
        kernel = ConstantKernel(parameters.variance, (0.05, 20.0)) * space * time
        data = Dataset(self.data.X, self.data.t, y, np.full(len(y), noise))
        best = fit(kernel, data, mean=0.0, max_iterations=15)
        amplitude, space, time = best.k1.k1, best.k1.k2.kernel, best.k2.kernel
        numbers = amplitude.constant_value, space.length_scale, time.length_scale, noise
        self.hyperparameters = Hyperparameters(*map(float, numbers))

    def _remove(self, now: float, rng: np.random.Generator) -> None:
        """Remove observations as long as the budget allows ([WD] Algorithm 1)."""
        last = now if self.time is None else self.time
        try:
            self.budget *= (1.0 + self.alpha) ** ((now - last) / self.hyperparameters.time)
        except OverflowError:  # a larger budget than removing all observations costs
            self.budget = math.inf
        self.time = now
        y = self._standardised()[0]
        n, rows = len(y), np.arange(len(y))
        Q = precision(self._kernel(), self.hyperparameters.noise)
        C = self._products(now)
        while len(rows) > FEWEST:
            scores = relevance(Q, y[rows], C[np.ix_(rows, rows)])
            least = first_argmax(-scores)
            cost = float(scores[least]) + 1.0
            if cost >= self.budget:
                break
            self.budget /= cost
            Q, rows = downdate(Q, least), np.delete(rows, least)
        # A control removes as many observations.
        count = n - len(rows)
        if self.removal == "oldest":
            rows = np.sort(np.argsort(self.data.t, kind="stable")[count:])
        elif self.removal == "random":
            rows = np.sort(rng.permutation(n)[count:])
        self.data = self.data.take(rows)

    def _products(self, now: float) -> Array:
        """Return the integrated products C (n, n) of the kernels of the data."""
        parameters, data = self.hyperparameters, self.data
        if isinstance(self.domain, Candidates):
            cross = matern(data.X, self._unit(self.domain.X), parameters.space, SPACE_NU)
            space = cross @ cross.T / cross.shape[1]
        else:
            space = over_space(data.X, parameters.space, SPACE_NU)
        return np.asarray(space * over_future(data.t, now, parameters.time, TIME_NU))


@dataclass(frozen=True)
class ReadingBound:
    """The upper bound of a reading, mean + width deviations, with its slopes ([WD] section 5)."""

    rule: Relevant
    now: float
    Q: Array
    weights: Array
    centre: float
    scale: float
    width: float
    near: Array

    def __call__(self, X: Array) -> Array:
        """Return the bound (m,) at points (m, d)."""
        return self._values(X)[0]

    def values_and_slopes(self, X: Array) -> tuple[Array, Array]:
        """Return the bound (m,) and its slopes (m, d) at points (m, d)."""
        values, solved, deviation = self._values(X)
        cross_slopes = self.rule.cross_slopes(X, self.now)
        deviation_slopes = -np.einsum("mnd,mn->md", cross_slopes, solved) / deviation[:, None]
        slopes = self.weights @ cross_slopes + self.width * deviation_slopes
        return values, np.asarray(self.scale * slopes)

    def _values(self, X: Array) -> tuple[Array, Array, Array]:
        """Return the bound (m,), the solved covariances k(X, data) Q (m, n), and deviations (m,)."""
        parameters, cross = self.rule.hyperparameters, self.rule.cross(X, self.now)
        solved = cross @ self.Q
        variance = parameters.variance - np.einsum("ij,ij->i", solved, cross)
        deviation = np.sqrt(np.maximum(variance, 0.0) + parameters.noise)
        bound = cross @ self.weights + self.width * deviation
        return np.asarray(self.centre + self.scale * bound), solved, deviation


def w_dbo(
    domain: Domain,
    *,
    noise_variance: float | None = None,
    alpha: float = 0.25,
    removal: Removal = "relevance",
    initial_points: int = 15,
    minimize: bool = False,
    seed: Seed = 0,
) -> adapter.PolicyAdapter:
    """W-DBO (Bardou 2024): remove observations that matter little to the future posterior.

    The kernel is Matern-5/2 over points, scaled to the unit cube, times Matern-3/2 over time, with
    fitted variance and scales. All relevances are computed at once, and the hyperparameters are fitted
    once a step, whereas the authors' program fits after every removal. The fitted time scale is at
    least five mean times between rewards; the program has no bound, and may keep only two points for
    good.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    alpha : float
        The budget of removal grows by the factor 1 + alpha in one time scale.
    removal : "relevance", "oldest" or "random"
        Which observations are removed: the least relevant; or, as a control, as many of the oldest or at
        random.
    initial_points : int
        Number of random points at the start. A comparison of T steps takes ceil(T / 40), at least 2 and
        at most 15, since the authors take 15 of 600.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.w_dbo(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.ask(11).shape)
    10 (1, 1)
    """
    check_optional(noise_variance_number, "noise_variance", noise_variance)
    nonnegative_number("alpha", alpha)
    whole_number("initial_points", initial_points)
    check_choice("removal", removal, ("relevance", "oldest", "random"))
    choices = adapter.get_action_domain(domain)
    if not isinstance(choices, Box | Candidates):
        raise ValueError(
            f"the domain of W-DBO must be a Box or Candidates, got {describe(choices)}"
        )
    low, high = choices.bounds.T
    side, empty = np.where(high > low, high - low, 1.0), Dataset.empty(choices.dimension)
    rule = Relevant(choices, noise_variance, alpha, removal, initial_points, low, side, empty)
    kernel = space_kernels(choices)[0]
    return adapter.adapt(domain, rule, kernel, noise_variance, minimize=minimize, seed=seed)
