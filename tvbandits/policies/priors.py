"""Several priors at once: PE-GP-UCB eliminates some of them, HP-GP-TS draws one.

[Zi] = J. Ziomek, M. Adachi and M. A. Osborne. Bayesian optimisation with unknown hyperparameters: regret
bounds logarithmically closer to optimal / Time-varying Gaussian process bandits with unknown prior.
AISTATS 2025.
[SC] = J. Sandberg and M. H. Chehreghani. arXiv 2502.01226, 2026.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.core.arrays import Array, finite_number, positive_number
from tvbandits.core.candidates import Candidates
from tvbandits.core.linalg import square_root
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain
from tvbandits.policies.predictive import ArmFilter, Centre, features_of, log_density
from tvbandits.policies.ruled import (
    Kinds,
    PolicyAdapter,
    PolicyState,
    constant,
    finite,
    inward,
    numbers_in,
)
from tvbandits.policies.setting import Mean, PlotStyle, Policy, Seed, Setting, described

LENGTHS, RATES = "0.5 1 2", "0.001 0.01 0.1"
"""The default priors: nine, three length scales times three rates of change."""

DIGITS = 6
"""Digits of a bound, in prior deviations: what differs by rounding alone ties, and the seed decides."""


@dataclass
class Member:
    """One prior: its filter, and what speaks for it.

    Attributes
    ----------
    filter : Filter
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


class SeveralPriors(PolicyState):
    """What both rules share: filters of all priors, told every reward.

    Parameters
    ----------
    domain : Candidates
    kernels : sequence of kernels over points
    rates : sequence of float
        Rates of change; every kernel is tried with every rate.
    noise : float
        Of a reward, in prior deviations squared.
    centre : Centre
    width : float
    """

    kept: None = None
    holds: ClassVar[Kinds] = {
        "_domain": Candidates,
        "_noise": Real,
        "_centre": Centre,
        "_width": Real,
        "_steps": Integral,
        "members": list,
    }

    def __init__(
        self,
        domain: Candidates,
        kernels: Sequence[Any],
        rates: Sequence[float],
        noise: float,
        centre: Centre,
        width: float,
    ) -> None:
        features = [features_of(kernel, domain.X)[0] for kernel in kernels]
        self._domain, self._noise, self._centre, self._width = domain, noise, centre, width
        self.members = [Member(ArmFilter.prior(each, rate)) for each in features for rate in rates]
        self._steps = 0

    def _at(self, p: int, now: float, out: Plays) -> ArmFilter:
        """The filter of a prior at a decision."""
        return self.members[p].filter.awaiting(out, self._domain, self._noise).at(now)

    def _best(self, values: Array, allowed: Allowed, rng: np.random.Generator) -> tuple[int, Array]:
        """Row and point of the largest of values (A,) that may be chosen."""
        x = allowed.best(lambda X: values[self._domain.index(X)], rng)
        return int(self._domain.index(x[None])[0]), x

    def _observe(self, t: float, x: Array, y: float) -> None:
        """Every filter sees the reward; its evidence is that of the prediction of it."""
        row, scaled = int(self._domain.index(x[None])[0]), y / self._centre.scale
        for member in self.members:
            now = member.filter.at(t)
            mean, variance = now.moments(row, self._centre.before(scaled))
            member.log_evidence += log_density(scaled - mean, variance + self._noise)
            member.filter = now.observed(row, scaled, self._noise)
        self._centre, self._steps = self._centre.seen(scaled), self._steps + 1


class Elimination(SeveralPriors):
    """PE-GP-UCB ([Zi]): the most optimistic of the priors that nothing speaks against.

    (x, p) maximises m_p(x) + b sd_p(x) over points and priors that are left. With S_p the rounds
    that p was chosen in, p goes once

        |sum_{S_p} (y_i - m_p(x_i))|
            > sqrt(2 s^2 |S_p| log(pi^2 t^2 |U| / (3 delta))) + sum_{S_p} b sd_p(x_i).
    """

    holds: ClassVar[Kinds] = {**SeveralPriors.holds, "_delta": Real, "_chosen": dict, "left": list}

    def __init__(self, *parts: Any, delta: float) -> None:
        super().__init__(*parts)
        self.left = list(range(len(self.members)))
        self._delta = delta
        self._chosen: dict[bytes, int] = {}

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:
        """The point of the largest upper bound of all priors that are left."""
        found: tuple[float, int, Array] | None = None
        for p in self.left:
            centre = self._centre.value
            mean, deviation = self._at(p, now, out).surface(centre)
            bound = np.round(mean - centre + self._width * deviation, DIGITS)
            row, x = self._best(bound, allowed, rng)
            if found is None or bound[row] > found[0]:
                found = (float(bound[row]), p, x)
        assert found is not None  # one prior is always left
        self._chosen[found[2].tobytes()] = found[1]
        return found[2]

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Charge the prior that chose a point with its error; then all see the reward."""
        for x, t, y in zip(rewards.X, rewards.t, rewards.y, strict=True):
            p = self._chosen.pop(x.tobytes(), None)
            if p is not None:
                self._charge(self.members[p], float(t), x, float(y))
            self._observe(float(t), x, float(y))
            if p is not None:
                self._judge(p)

    def _charge(self, member: Member, t: float, x: Array, y: float) -> None:
        row = int(self._domain.index(x[None])[0])
        scaled = y / self._centre.scale
        mean, variance = member.filter.at(t).moments(row, self._centre.before(scaled))
        member.errors += scaled - mean
        member.allowance += self._width * math.sqrt(max(variance, 0.0))
        member.rounds += 1

    def _judge(self, p: int) -> None:
        member, priors = self.members[p], len(self.members)
        logarithm = math.log(math.pi**2 * self._steps**2 * priors / (3 * self._delta))
        most = math.sqrt(2 * self._noise * member.rounds * max(logarithm, 0.0)) + member.allowance
        if p in self.left and len(self.left) > 1 and abs(member.errors) > most:
            self.left.remove(p)


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
        w = found.centred(self._centre.value) + self._width * root @ rng.standard_normal(
            root.shape[1]
        )
        return self._best(found.features @ w, allowed, rng)[1]

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:  # noqa: ARG002
        """All priors see the rewards."""
        for x, t, y in zip(rewards.X, rewards.t, rewards.y, strict=True):
            self._observe(float(t), x, float(y))


class Stretched:
    """A stationary kernel with its lengths times a factor."""

    def __init__(self, kernel: Any, factor: float) -> None:
        self._kernel, self._factor = kernel, positive_number("each of lengths", factor)

    def __call__(self, X: Array) -> Array:
        """The kernel matrix of points (n, d)."""
        return np.asarray(self._kernel(X / self._factor))


def _parts(
    name: str,
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    lengths: str,
    rates: str,
    width: float,
    mean: Mean,
    scale: float,
) -> tuple[Any, ...]:
    """What both rules are made of."""
    positive_number("noise_variance", noise_variance)
    unit = 1.0 if mean != "online" else positive_number("scale", scale)
    kernels = [Stretched(kernel, factor) for factor in numbers_in(lengths, "lengths")]
    of_change = [
        finite_number("each of rates", r, low=0.0, below=1.0) for r in numbers_in(rates, "rates")
    ]
    centre = Centre(mean, unit)
    return finite(domain, name), kernels, of_change, noise_variance / unit**2, centre, width


@described
def pe_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    lengths: str = LENGTHS,
    rates: str = RATES,
    delta: float = 0.1,
    scale: float = 1.0,
    confidence: float = 2.0,
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> PolicyAdapter:
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
    width, prior = constant(confidence), inward(mean, minimise)
    parts = _parts("PE-GP-UCB", domain, kernel, noise_variance, lengths, rates, width, prior, scale)
    return PolicyAdapter(domain, Elimination(*parts, delta=delta), minimise=minimise, seed=seed)


@described
def hp_gp_ts(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    lengths: str = LENGTHS,
    rates: str = RATES,
    scale: float = 1.0,
    confidence: float = 1.0,
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> PolicyAdapter:
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
    width, prior = constant(confidence), inward(mean, minimise)
    parts = _parts("HP-GP-TS", domain, kernel, noise_variance, lengths, rates, width, prior, scale)
    return PolicyAdapter(domain, PosteriorOfPriors(*parts), minimise=minimise, seed=seed)


def recommended_scale(setting: Setting, scale: float | None = None) -> Mapping[str, Any]:
    """The prior deviation of a first sample."""
    return {"scale": setting.scale if scale is None else scale}


POLICIES = (
    Policy(
        "pe-gp-ucb",
        pe_gp_ucb,
        "the most optimistic of several priors, with elimination",
        paper="Ziomek 2025",
        look=PlotStyle("#bc29cc", (0, (6, 2)), 1.8, "1"),
        recommended=recommended_scale,
    ),
    Policy(
        "hp-gp-ts",
        hp_gp_ts,
        "Thompson sampling of a prior, then of the reward",
        paper="Sandberg & Chehreghani 2026",
        look=PlotStyle("#811c8c", (0, (2, 2)), 2.0, "2"),
        recommended=recommended_scale,
    ),
)
