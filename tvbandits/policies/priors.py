"""Kalman filters of all arms: predictive sampling on one, and several priors at once on as many.

Predictive sampling: a Thompson sampling that does not explore what will soon be gone.

[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.

Drawn is what the next reward would be expected to be if all rewards after it were known. Under the
model of this module, with every candidate read with noise s^2 in each
future step, each coordinate i of w has from its future an uncertain image gamma w_i + N(0, x_i),

    x_i = 1/2 (b + sqrt(b^2 + 4 gamma^2 delta^2 s_i^2)),  b = delta^2 + s_i^2 - gamma^2 s_i^2,

with delta^2 = 1 - gamma^2 and s_i^2 = s^2 / lambda_i ([LX], section 5, for each coordinate). So the
draw is N(m, gamma^2 V (gamma^2 V + diag x)^-1 V) with the mean m and covariance V of w at the
decision.

The TV-GP-UCB model on a finite domain as a small Kalman filter, in the eigenvectors of its kernel.

With K = U diag(lambda) U^T over the candidates the reward is f = features w, features = U
sqrt(lambda), and the model f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) g has independent
coordinates: w ~ N(0, I), w_{t+h} = gamma w_t + sqrt(1 - gamma^2) v with gamma = (1 - epsilon)^(h /
2). A step costs O(r^2).

Several priors at once: PE-GP-UCB eliminates some of them, HP-GP-TS draws one.

[Zi] = J. Ziomek, M. Adachi and M. A. Osborne. Bayesian optimisation with unknown hyperparameters: regret
bounds logarithmically closer to optimal / Time-varying Gaussian process bandits with unknown prior.
AISTATS 2025.
[SC] = J. Sandberg and M. H. Chehreghani. arXiv 2502.01226, 2026.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import Candidates
from tvbandits.core.linalg import cholesky, eigenpairs, solve_lower, square_root
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain
from tvbandits.gp.kernels.structure import check_kernel
from tvbandits.gp.posteriors.state_space import ROUNDING
from tvbandits.policies import ruled
from tvbandits.policies.setting import Mean, Modelled, listed
from tvbandits.validation import finite_number

# Eigenvalues below this share of the largest are left out.
SMALLEST = 1e-10

# So much may rounding take from, or add to, a covariance that is saved.
SLACK = 1e-6


def features_of(kernel: Any, X: Array) -> tuple[Array, Array]:
    """Features (A, r) of points (A, d), and the eigenvalues (r,) of their kernel matrix."""
    check_kernel(kernel, X)
    values, vectors = eigenpairs(np.asarray(kernel(X)))
    kept = values > SMALLEST * float(values.max())
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept])), np.asarray(values[kept])


@dataclass(frozen=True)
class ArmFilter:
    """The posterior of w at a time, of reward and of the constant 1, as two columns.

    Attributes
    ----------
    features : array of shape (A, r)
    epsilon : float
    mean : array of shape (r, 2)
    covariance : array of shape (r, r)
    time : float or None
        What it speaks about; None: the prior, which is the same at any time.
    """

    features: Array
    epsilon: float
    mean: Array
    covariance: Array
    time: float | None = None

    @classmethod
    def prior(cls, features: Array, epsilon: float) -> ArmFilter:
        """Before any reward."""
        r = features.shape[1]
        return cls(features, epsilon, np.zeros((r, 2)), np.eye(r))

    @classmethod
    def __restored__(
        cls, features: Array, epsilon: float, mean: Array, covariance: Array, time: float | None
    ) -> ArmFilter:
        """As it was saved; a `ValueError` unless it is what the prior and rewards can lead to."""
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
            raise ValueError("a filter holds numbers beyond what can be computed")
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
        """As it is at a time, which is not earlier."""
        if self.time is None or t <= self.time:
            return replace(self, time=t if self.time is None else self.time)
        gamma = (1.0 - self.epsilon) ** ((t - self.time) / 2)
        covariance = gamma**2 * self.covariance
        covariance[np.diag_indices_from(covariance)] += 1.0 - gamma**2
        return replace(self, mean=gamma * self.mean, covariance=covariance, time=t)

    def observed(self, row: int, y: float, noise: float) -> ArmFilter:
        """With a reward at a candidate, at the time it speaks about."""
        h = self.features[row]
        reach = self.covariance @ h
        # A noise below the rounding of the prior variance would leave a covariance of rounding errors.
        spread = max(float(h @ reach), 0.0) + max(noise, ROUNDING * float(h @ h))
        gain = reach / spread
        mean = self.mean + np.outer(gain, np.array([y, 1.0]) - h @ self.mean)
        return replace(self, mean=mean, covariance=self.covariance - np.outer(gain, reach))

    def moments(self, row: int, centre: float) -> tuple[float, float]:
        """Mean and variance at a candidate, of a reward whose prior mean is `centre`."""
        h = self.features[row]
        variance = max(float(h @ self.covariance @ h), 0.0)  # rounding may leave less
        return centre + float(h @ self.centred(centre)), variance

    def centred(self, centre: float) -> Array:
        """Mean (r,) of w, for rewards less `centre`."""
        return np.asarray(self.mean[:, 0] - centre * self.mean[:, 1])

    def surface(self, centre: float) -> tuple[Array, Array]:
        """Mean and deviation at all candidates."""
        variance = np.einsum("ar,ar->a", self.features @ self.covariance, self.features)
        mean = centre + self.features @ self.centred(centre)
        return np.asarray(mean), np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True)
class Centre:
    """The prior mean of rewards: as given, or the mean of those seen.

    Attributes
    ----------
    given : float or "online"
    total, count : float and int
        Of the rewards seen.
    """

    given: Mean
    total: float = 0.0
    count: int = 0

    def seen(self, y: float) -> Centre:
        """With one more reward."""
        return replace(self, total=self.total + y, count=self.count + 1)

    @property
    def value(self) -> float:
        """The prior mean."""
        if self.given == "online":
            return self.total / self.count if self.count else 0.0
        return float(self.given)

    def before(self, y: float) -> float:
        """The prior mean of a reward: the first one is as good as expected."""
        return y if self.given == "online" and not self.count else self.value


def log_density(error: float, variance: float) -> float:
    """Of a normal error."""
    return -0.5 * (math.log(2 * math.pi * variance) + error**2 / variance)


def future_variance(gamma: float, noise: Array) -> Array:
    """x_i, the variance of gamma w_i as all future rewards tell it; `noise` is s_i^2 (r,)."""
    delta = 1.0 - gamma**2
    b = delta + (1.0 - gamma**2) * noise
    return np.asarray(0.5 * (b + np.sqrt(b**2 + 4.0 * gamma**2 * delta * noise)))


def drawn_covariance(V: Array, gamma: float, x: Array) -> Array:
    """gamma^2 V (gamma^2 V + diag x)^-1 V."""
    if gamma == 0.0:
        return np.zeros_like(V)
    if not x.any():
        return V
    half = solve_lower(cholesky(gamma**2 * V + np.diag(x)).L, gamma * V)
    return np.asarray(half.T @ half)


# The default priors: nine, three length scales times three rates of change.
LENGTHS, RATES = "0.5 1 2", "0.001 0.01 0.1"

# Digits of a bound, in prior deviations: what differs by rounding alone ties, and the seed decides.
DIGITS = 6


@dataclass
class Member:
    """One prior: its filter, and what speaks for it.

    Attributes
    ----------
    filter : ArmFilter
    log_evidence : float
        Of all rewards.
    errors, allowance : float
        Over the rounds in which it was chosen: the sum of y - mean, and that of width times deviation.
    rounds : int
        How many these are.
    """

    filter: ArmFilter
    log_evidence: float = 0.0
    errors: float = 0.0
    allowance: float = 0.0
    rounds: int = 0


@dataclass(eq=False)
class SeveralPriors:
    """What the rules share: filters of all priors, told every reward.

    Parameters
    ----------
    domain : Candidates
    members : list of Member
        Every kernel with every rate of change.
    noise : float
        Of a reward, in prior deviations squared.
    centre : Centre
    width : float
    """

    domain: Candidates
    members: list[Member]
    noise: float
    centre: Centre
    width: float

    def __post_init__(self) -> None:
        finite_number("noise", self.noise, low=0.0)
        finite_number("width", self.width, low=0.0)

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Every filter sees the rewards; its evidence is that of the prediction of them."""
        for x, t, y in zip(rewards.X, rewards.t, rewards.y.tolist(), strict=True):
            row, expected, errors = int(self.domain.index(x[None])[0]), self.centre.before(y), []
            for member in self.members:
                now = member.filter.at(float(t))
                mean, variance = now.moments(row, expected)
                member.log_evidence += log_density(y - mean, variance + self.noise)
                member.filter = now.observed(row, y, self.noise)
                errors.append((y - mean, variance))
            self.centre = self.centre.seen(y)
            self._judge(x, errors)

    def _judge(self, x: Array, errors: list[tuple[float, float]]) -> None:
        """Look at the error of each prior's forecast of a reward, and at its variance."""

    def _at(self, p: int, now: float, out: Plays) -> ArmFilter:
        """The filter of a prior at a decision, as if plays that are out had met its mean."""
        found = self.members[p].filter
        for row, t in zip(self.domain.index(out.X).tolist(), out.t.tolist(), strict=True):
            there = found.at(t)
            found = replace(there, covariance=there.observed(row, 0.0, self.noise).covariance)
        return found.at(now)


@dataclass(eq=False)
class PredictiveSampling(SeveralPriors):
    """The rule of `predictive_sampling`: one prior, whose deviations are multiplied by `width`."""

    eigenvalues: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.eigenvalues) & (self.eigenvalues > 0)).all():
            raise ValueError(f"eigenvalues must be finite and above 0, got {self.eigenvalues}")

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:
        """The best point of a draw."""
        found = self._at(0, now, out)
        gamma = math.sqrt(1.0 - found.epsilon)
        future = future_variance(gamma, self.noise / self.eigenvalues)
        root = square_root(drawn_covariance(found.covariance, gamma, future))
        step = root @ rng.standard_normal(root.shape[1])
        values = found.features @ (found.centred(self.centre.value) + self.width * step)
        return allowed.best_of(values, rng)


@dataclass(eq=False)
class Elimination(SeveralPriors):
    """PE-GP-UCB ([Zi]): the most optimistic of the priors that nothing speaks against.

    (x, p) maximises m_p(x) + b sd_p(x) over points and priors that are left. With S_p the rounds
    that p was chosen in, p goes once

        |sum_{S_p} (y_i - m_p(x_i))|
            > sqrt(2 s^2 |S_p| log(pi^2 t^2 |U| / (3 delta))) + sum_{S_p} b sd_p(x_i).
    """

    delta: float = field(kw_only=True)
    left: list[int] = field(kw_only=True)
    chosen: dict[bytes, int] = field(kw_only=True, default_factory=dict)

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:
        """The point of the largest upper bound of all priors that are left."""
        found: tuple[float, int, Array] | None = None
        for p in self.left:
            centre = self.centre.value
            mean, deviation = self._at(p, now, out).surface(centre)
            bound = np.round(mean - centre + self.width * deviation, DIGITS)
            x = allowed.best_of(bound, rng)
            (height,) = bound[self.domain.index(x[None])]
            if found is None or height > found[0]:
                found = (float(height), p, x)
        assert found is not None  # one prior is always left
        self.chosen[found[2].tobytes()] = found[1]
        return found[2]

    def _judge(self, x: Array, errors: list[tuple[float, float]]) -> None:
        """Charge the prior that chose a point with its error; then it may go."""
        p = self.chosen.pop(x.tobytes(), None)
        if p is None:
            return
        member, priors = self.members[p], len(self.members)
        error, variance = errors[p]
        member.errors += error
        member.allowance += self.width * math.sqrt(variance)
        member.rounds += 1
        logarithm = math.log(math.pi**2 * self.centre.count**2 * priors / (3 * self.delta))
        most = math.sqrt(2 * self.noise * member.rounds * max(logarithm, 0.0)) + member.allowance
        if p in self.left and len(self.left) > 1 and abs(member.errors) > most:
            self.left.remove(p)


@dataclass(eq=False)
class PosteriorOfPriors(SeveralPriors):
    """HP-GP-TS ([SC]): draw a prior from its posterior, then a reward from the prior's."""

    def weights(self) -> Array:
        """Posterior probabilities of the priors."""
        logs = np.array([member.log_evidence for member in self.members])
        shares = np.exp(logs - logs.max())
        return np.asarray(shares / shares.sum())

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:
        """The best point of the draw; `width` stretches its deviations."""
        p = int(rng.choice(len(self.members), p=self.weights()))
        found = self._at(p, now, out)
        root = square_root(found.covariance)
        step = self.width * root @ rng.standard_normal(root.shape[1])
        values = found.features @ (found.centred(self.centre.value) + step)
        return allowed.best_of(values, rng)


@listed("draws what all future rewards would still confirm", paper="Liu 2023")
def predictive_sampling(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    epsilon: float,
    scale: float = 1.0,
    confidence: float = 1.0,
    **common: Unpack[Modelled],
) -> ruled.PolicyAdapter:
    """Predictive sampling (Liu 2023): Thompson sampling of what the future would still confirm.

    Parameters
    ----------
    epsilon : float
        Rate of change.
    scale : float
        Prior deviation of rewards, where the mean is "online".
    confidence : float
        What the deviations of a draw are multiplied by.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.predictive_sampling(sites, RBF(1.0), 0.01, epsilon=0.03)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    finite_number("epsilon", epsilon, low=0.0, below=1.0)
    width, arms = ruled.constant(confidence), ruled.finite(domain, "predictive sampling")
    unit, noise, prior = ruled.in_unit(noise_variance, scale, **common)
    features, values = features_of(kernel, arms.X)
    known = [Member(ArmFilter.prior(features, epsilon))]
    rule = PredictiveSampling(arms, known, noise, Centre(prior), width, values)
    return ruled.adapted(domain, rule, kernel, noise_variance, unit, **common)


def priors_of(kernel: Any, arms: Candidates, lengths: str, rates: str) -> list[Member]:
    """The kernel with its lengths times each factor, and all rates."""
    factors = ruled.numbers_in(lengths, "lengths", above=0.0)
    of_change = ruled.numbers_in(rates, "rates", low=0.0, below=1.0)
    # Of a stationary kernel: lengths times a factor are points over it.
    features = [features_of(kernel, arms.X / factor)[0] for factor in factors]
    return [Member(ArmFilter.prior(each, rate)) for each in features for rate in of_change]


@listed("the most optimistic of several priors, with elimination", paper="Ziomek 2025")
def pe_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    lengths: str = LENGTHS,
    rates: str = RATES,
    delta: float = 0.1,
    scale: float = 1.0,
    confidence: float = 2.0,
    **common: Unpack[Modelled],
) -> ruled.PolicyAdapter:
    """PE-GP-UCB (Ziomek 2025): the most optimistic of several priors, until the data speak against it.

    Parameters
    ----------
    lengths : str
        Factors of the kernel's length scales that are tried, with spaces between them.
    rates : str
        Rates of change epsilon that are tried, with spaces between them.
    delta : float
        Probability with which the right prior may be eliminated.
    scale : float
        Prior deviation of rewards, where the mean is "online".
    confidence : float
        The width b, a constant.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.pe_gp_ucb(sites, RBF(1.0), 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    finite_number("delta", delta, above=0.0, high=1.0)
    width, arms = ruled.constant(confidence), ruled.finite(domain, "PE-GP-UCB")
    unit, noise, prior = ruled.in_unit(noise_variance, scale, **common)
    members = priors_of(kernel, arms, lengths, rates)
    left = list(range(len(members)))
    rule = Elimination(arms, members, noise, Centre(prior), width, delta=delta, left=left)
    return ruled.adapted(domain, rule, kernel, noise_variance, unit, **common)


@listed("Thompson sampling of a prior, then of the reward", paper="Sandberg & Chehreghani 2026")
def hp_gp_ts(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    lengths: str = LENGTHS,
    rates: str = RATES,
    scale: float = 1.0,
    confidence: float = 1.0,
    **common: Unpack[Modelled],
) -> ruled.PolicyAdapter:
    """HP-GP-TS (Sandberg & Chehreghani 2026): Thompson sampling of the prior, then of the reward.

    Parameters
    ----------
    lengths : str
        Factors of the kernel's length scales that are tried, with spaces between them.
    rates : str
        Rates of change epsilon that are tried, with spaces between them.
    scale : float
        Prior deviation of rewards, where the mean is "online".
    confidence : float
        What the deviations of a draw are multiplied by.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.hp_gp_ts(sites, RBF(1.0), 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    width, arms = ruled.constant(confidence), ruled.finite(domain, "HP-GP-TS")
    unit, noise, prior = ruled.in_unit(noise_variance, scale, **common)
    members = priors_of(kernel, arms, lengths, rates)
    rule = PosteriorOfPriors(arms, members, noise, Centre(prior), width)
    return ruled.adapted(domain, rule, kernel, noise_variance, unit, **common)
