"""R-PERP: phases of plays in random order, elimination after each, and a restart now and then.

[IT] = S. Iwazaki and S. Takeno. Near-optimal algorithm for non-stationary kernelized bandits.
AISTATS 2025.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.core.arrays import Array, Index
from tvbandits.core.candidates import Candidates
from tvbandits.core.linalg import cholesky, solve_lower
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain
from tvbandits.gp.kernels.structure import check_kernel
from tvbandits.policies import ruled, theory
from tvbandits.policies.setting import Mean, Modelled, Setting, listed
from tvbandits.validation import whole_number


def most_uncertain(K: Array, noise: float, count: int) -> Index:
    """Rows of `count` candidates, each the one of largest variance after those before it.

    What is observed there does not matter for that. The same candidate may come again.

    Parameters
    ----------
    K : array of shape (A, A)
        Prior covariance of the candidates.
    noise : float
    count : int
    """
    covariance = K.copy()
    rows = np.empty(count, dtype=np.int64)
    for i in range(count):
        rows[i] = int(np.argmax(np.diagonal(covariance)))
        reach = covariance[rows[i]].copy()
        covariance -= np.outer(reach, reach) / (reach[rows[i]] + noise)
    return rows


@dataclass(eq=False)
class PhasedElimination:
    """The rule.

    Phase i = 0, 1, ... has `first` 2^i plays: the most uncertain ones of the surviving candidates, in
    **uniformly random order**, so that drift averages out. Its rewards alone are fitted after it, and
    candidates go whose upper bound is below the best lower one. After `reset_every` plays
    everything starts again.

    Parameters
    ----------
    domain : Candidates
    K : array of shape (A, A)
        Their prior covariance.
    noise : float
        In prior deviations squared; a new one counts for all rewards of the phase.
    reset_every, first : int
    width : float
    mean : float or "online"
        "online": the mean of the phase's rewards.
    surviving : array of int
        Rows of the candidates that are left.
    length, plays : int
        Of the phase, and since the last restart.
    queue, rows : list of int
        What the phase still plays, and what it has played.
    rewards : list of float
    """

    domain: Candidates
    K: Array
    noise: float
    reset_every: int
    first: int
    width: float
    mean: Mean
    surviving: Index
    length: int
    plays: int = 0
    queue: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """The next play of the phase; one that is not available is put off, and what is out is last."""
        if not self.queue:
            K = self.K[np.ix_(self.surviving, self.surviving)]
            rows = self.surviving[most_uncertain(K, self.noise, self.length)]
            self.queue = [int(row) for row in rng.permutation(rows)]
        first, last = list(self.queue), []
        for row in self.domain.index(out.X).tolist():
            if row in first:
                first.remove(row)
                last.append(row)
        for row in first + last:
            if allowed(self.domain.X[row][None])[0]:
                return np.asarray(self.domain.X[row].copy())
        return allowed.sample(rng)

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Count plays of the phase, whoever chose them; eliminate at its end."""
        for x, y in zip(rewards.X, rewards.y, strict=True):
            row = int(self.domain.index(x[None])[0])
            if row in self.queue:
                self.queue.remove(row)
            self.rows.append(row)
            self.rewards.append(float(y))
            self.plays += 1
            if self.plays >= self.reset_every:
                self.surviving, self.length, self.plays = np.arange(len(self.domain)), self.first, 0
                self.queue, self.rows, self.rewards = [], [], []
            elif not self.queue and len(self.rows) >= self.length:
                mean, deviation = self.beliefs()
                upper, lower = mean + self.width * deviation, mean - self.width * deviation
                alive = self.surviving
                self.surviving = alive[upper[alive] >= lower[alive].max()]
                self.length, self.rows, self.rewards = 2 * self.length, [], []

    def beliefs(self) -> tuple[Array, Array]:
        """Mean and deviation at all candidates, by the rewards of this phase."""
        rows, y = np.array(self.rows, dtype=np.int64), np.array(self.rewards)
        centre = float(y.mean()) if self.mean == "online" else float(self.mean)
        L = cholesky(self.K[np.ix_(rows, rows)] + self.noise * np.eye(len(rows))).L
        reach = solve_lower(L, self.K[rows])
        mean = centre + reach.T @ solve_lower(L, y - centre)
        variance = np.diagonal(self.K) - (reach**2).sum(axis=0)
        return np.asarray(mean), np.sqrt(np.maximum(variance, 0.0))


def recommended_period(setting: Setting, given: Mapping[str, Any]) -> int:
    """The period that balances phases and variation."""
    noise = ruled.first_noise(setting.noise_variance, given.get("scale") or setting.scale)
    return theory.elimination_period(*setting.budgets, noise, DEFAULT_WIDTH)


@listed(
    "phases in random order, elimination, restarts",
    paper="Iwazaki & Takeno 2025",
    recommended={"reset_every": recommended_period},
)
def r_perp(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    reset_every: int,
    first: int = 4,
    scale: float = 1.0,
    confidence: float = DEFAULT_WIDTH,
    **common: Unpack[Modelled],
) -> ruled.PolicyAdapter:
    """R-PERP (Iwazaki & Takeno 2025): phased elimination in random order, with restarts.

    Parameters
    ----------
    reset_every : int
        H: everything starts again after so many plays.
    first : int
        Plays of the first phase; each has twice as many as the one before.
    scale : float
        Prior deviation of rewards, where the mean is "online".
    confidence : float
        The width of the bounds, a constant.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.r_perp(sites, RBF(1.0), 0.01, reset_every=20)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    whole_number("reset_every", reset_every)
    whole_number("first", first, at_most=100_000)
    unit, noise, prior = ruled.in_unit(noise_variance, scale, **common)
    width, arms = ruled.constant(confidence), ruled.finite(domain, "R-PERP")
    check_kernel(kernel, arms.X)
    K, every = np.asarray(kernel(arms.X)), np.arange(len(arms))
    rule = PhasedElimination(arms, K, noise, reset_every, first, width, prior, every, length=first)
    return ruled.adapted(domain, rule, kernel, noise_variance, unit, **common)
