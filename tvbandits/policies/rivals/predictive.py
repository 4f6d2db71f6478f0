"""Predictive sampling: Thompson sampling that does not explore what it would soon forget.

[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.

The model is that of TV-GP-UCB on a finite domain, as a Kalman filter of the weights w of the
eigenvectors of its kernel. With K = U diag(lambda) U^T over the candidates the reward is f = features
w, features = U sqrt(lambda), and the model f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) g has
independent coordinates: w ~ N(0, I), w_{t+h} = gamma w_t + sqrt(1 - gamma^2) v with gamma = (1 -
epsilon)^(h / 2). A step costs O(r^2).

The policy draws the expectation of the next reward given all rewards after it. If every candidate is
observed with noise variance s^2 in each future step, these rewards tell of each coordinate i of w as
much as one observation gamma w_i + N(0, x_i) does, with

    x_i = 1/2 (b + sqrt(b^2 + 4 gamma^2 delta^2 s_i^2)),  b = delta^2 + s_i^2 - gamma^2 s_i^2,

with delta^2 = 1 - gamma^2 and s_i^2 = s^2 / lambda_i ([LX], section 5, for each coordinate). So the
draw is N(m, gamma^2 V (gamma^2 V + diag x)^-1 V) with the mean m and covariance V of w at the
decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvbandits.bandit import adapter
from tvbandits.bandit.adapter import RunningMean
from tvbandits.bandit.options import Mean
from tvbandits.bandit.policy import kernel_or_default
from tvbandits.data import Dataset, Plays
from tvbandits.domains.availability import ChoiceSet
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.gp.kernel_matrix import eigen_features
from tvbandits.gp.linalg import cholesky, solve_lower, square_root
from tvbandits.gp.state_space import CONFIG as FILTER_CONFIG
from tvbandits.validation import Array, Seed, finite_number

# Largest effect of rounding on the eigenvalues of a saved covariance.
SLACK = 1e-6


@dataclass(frozen=True)
class ArmFilter:
    """The posterior of w at a time.

    Attributes
    ----------
    features : array of shape (A, r)
    epsilon : float
    mean : array of shape (r, 2)
        Given the rewards, and given observations of 1 in their place, so that a centre can be subtracted
        later.
    covariance : array of shape (r, r)
    time : float or None
        The time of the posterior; None for the prior, which is the same at any time.
    """

    features: Array
    epsilon: float
    mean: Array
    covariance: Array
    time: float | None = None

    @classmethod
    def prior(cls, features: Array, epsilon: float) -> ArmFilter:
        """Return the filter before any reward."""
        r = features.shape[1]
        return cls(features, epsilon, np.zeros((r, 2)), np.eye(r))

    @classmethod
    def __restored__(
        cls, features: Array, epsilon: float, mean: Array, covariance: Array, time: float | None
    ) -> ArmFilter:
        """Return a saved filter; raise a `ValueError` if no rewards lead to such a filter."""
        finite_number("epsilon", epsilon, low=0.0, below=1.0)
        if time is not None:
            finite_number("time", time)
        r = features.shape[-1]
        shapes = features.shape[1:], mean.shape, covariance.shape
        if shapes != ((r,), (r, 2), (r, r)):
            raise ValueError(f"features, mean and covariance of a filter have shapes {shapes}")
        with np.errstate(all="ignore"):
            squares = np.square(np.square(features).sum(axis=1)), np.square(features @ mean)
        if not all(np.isfinite(each).all() for each in (covariance, mean, *squares)):
            raise ValueError("a filter has numbers that overflow, or are not finite")
        values = np.linalg.eigvalsh(covariance)  # the prior's are 1, and rewards lower them
        if np.abs(covariance - covariance.T).max() > SLACK:
            raise ValueError("the covariance of a filter is not symmetric")
        if np.abs(values - 0.5).max() > 0.5 + SLACK:
            raise ValueError(
                f"covariance of a filter: eigenvalues from 0 to 1 expected, got {values.min():g} to "
                f"{values.max():g}"
            )
        return cls(features, epsilon, mean, covariance, time)

    def at(self, t: float) -> ArmFilter:
        """Return the filter at a later time; itself if the time is not later."""
        if self.time is None or t <= self.time:
            return replace(self, time=t if self.time is None else self.time)
        gamma = (1.0 - self.epsilon) ** ((t - self.time) / 2)
        covariance = gamma**2 * self.covariance
        covariance[np.diag_indices_from(covariance)] += 1.0 - gamma**2
        return replace(self, mean=gamma * self.mean, covariance=covariance, time=t)

    def update(self, row: int, y: float, noise: float) -> ArmFilter:
        """Return the filter given a reward at a candidate at the time of the filter."""
        h = self.features[row]
        covariances = self.covariance @ h
        # A noise below the rounding of the prior variance would leave a covariance of rounding errors.
        variance = max(float(h @ covariances), 0.0) + max(
            noise, FILTER_CONFIG.smallest_noise * float(h @ h)
        )
        gain = covariances / variance
        mean = self.mean + np.outer(gain, np.array([y, 1.0]) - h @ self.mean)
        return replace(self, mean=mean, covariance=self.covariance - np.outer(gain, covariances))

    def centred_mean(self, centre: float) -> Array:
        """Return the mean (r,) of w given the rewards less `centre`."""
        return np.asarray(self.mean[:, 0] - centre * self.mean[:, 1])


def future_variance(gamma: float, noise: Array) -> Array:
    """Return x_i (r,), the noise variance of gamma w_i in future rewards, from s_i^2 `noise` (r,)."""
    delta = 1.0 - gamma**2
    b = delta + (1.0 - gamma**2) * noise
    return np.asarray(0.5 * (b + np.sqrt(b**2 + 4.0 * gamma**2 * delta * noise)))


def sample_covariance(V: Array, gamma: float, x: Array) -> Array:
    """Return the covariance gamma^2 V (gamma^2 V + diag x)^-1 V of the draw."""
    if gamma == 0.0:
        return np.zeros_like(V)
    if not x.any():
        return V
    half = solve_lower(cholesky(gamma**2 * V + np.diag(x)).L, gamma * V)
    return np.asarray(half.T @ half)


@dataclass(eq=False)
class PredictiveSampling:
    """The rule of `predictive_sampling`.

    Parameters
    ----------
    domain : Candidates
    filter : ArmFilter
        The posterior given all rewards.
    noise : float
        Noise variance of a reward, in prior variances.
    centre : RunningMean
    width : float
        Factor of the deviations of a draw.
    eigenvalues : array of shape (r,)
    """

    domain: Candidates
    filter: ArmFilter
    noise: float
    centre: RunningMean
    width: float
    eigenvalues: Array

    def __post_init__(self) -> None:
        finite_number("noise", self.noise, low=0.0)
        finite_number("width", self.width, low=0.0)
        if not (np.isfinite(self.eigenvalues) & (self.eigenvalues > 0)).all():
            raise ValueError(f"eigenvalues must be finite and above 0, got {self.eigenvalues}")

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Update the filter with every reward."""
        rows = self.domain.index(rewards.X).tolist()
        for row, t, y in zip(rows, rewards.t.tolist(), rewards.y.tolist(), strict=True):
            self.filter = self.filter.at(t).update(row, y, self.noise)
            self.centre = self.centre.update(y)

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return the point (d,) that is best in a draw."""
        posterior = self._posterior_at(now, pending)
        gamma = math.sqrt(1.0 - posterior.epsilon)
        future = future_variance(gamma, self.noise / self.eigenvalues)
        root = square_root(sample_covariance(posterior.covariance, gamma, future))
        draw = root @ rng.standard_normal(root.shape[1])
        values = posterior.features @ (
            posterior.centred_mean(self.centre.value) + self.width * draw
        )
        return allowed.find_best_candidate(values, rng)

    def _posterior_at(self, now: float, pending: Plays) -> ArmFilter:
        """Return the filter at a decision, as if the rewards of pending plays had equalled its mean."""
        posterior = self.filter
        for row, t in zip(self.domain.index(pending.X).tolist(), pending.t.tolist(), strict=True):
            posterior = posterior.at(t)
            fantasy = posterior.update(row, 0.0, self.noise)
            posterior = replace(posterior, covariance=fantasy.covariance)
        return posterior.at(now)


def predictive_sampling(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    forgetting_rate: float,
    scale: float = 1.0,
    beta: float = 1.0,
    mean: Mean = "online",
    minimize: bool = False,
    seed: Seed = 0,
) -> adapter.PolicyAdapter:
    """Predictive sampling (Liu 2023): draw what future rewards would confirm.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    forgetting_rate : float
        epsilon of the TV-GP-UCB model, in [0, 1).
    scale : float
        Prior deviation of rewards, where the mean is "online".
    beta : float
        Factor of the deviations of a draw.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.predictive_sampling(
    ...     sites, kernel=RBF(1.0), noise_variance=0.01, forgetting_rate=0.03
    ... )
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.ask(11).shape)
    10 (1, 1)
    """
    kernel = kernel_or_default(adapter.get_action_domain(domain), kernel)
    finite_number("forgetting_rate", forgetting_rate, low=0.0, below=1.0)
    width, arms = (
        adapter.check_width(beta),
        adapter.get_finite_action_domain(domain, "predictive sampling"),
    )
    unit, noise, prior = adapter.choose_rule_unit(
        noise_variance, scale, mean=mean, minimize=minimize
    )
    features, values = eigen_features(kernel, arms.X)
    start = ArmFilter.prior(features, forgetting_rate)
    rule = PredictiveSampling(arms, start, noise, RunningMean(prior), width, values)
    return adapter.adapt(domain, rule, kernel, noise_variance, unit, minimize=minimize, seed=seed)
