"""R-PERP: phases of plays in random order, elimination after each, and a restart now and then.

[IT] = S. Iwazaki and S. Takeno. Near-optimal algorithm for non-stationary kernelized bandits.
AISTATS 2025.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.core.arrays import Array, Index, positive_number, whole_number
from tvbandits.core.candidates import Candidates
from tvbandits.core.linalg import cholesky, solve_lower
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain
from tvbandits.policies import theory
from tvbandits.policies.ruled import Kinds, PolicyAdapter, PolicyState, constant, finite, inward
from tvbandits.policies.setting import Mean, PlotStyle, Policy, Seed, Setting, described


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


class PhasedElimination(PolicyState):
    """The rule.

    Phase i = 0, 1, ... has `first` 2^i plays: the most uncertain ones of the surviving candidates, in
    **uniformly random order**, so that drift averages out. Its rewards alone are fitted after it, and
    candidates go whose upper bound is below the best lower one. After `reset_every` plays
    everything starts again.

    Parameters
    ----------
    domain : Candidates
    kernel : scikit-learn kernel
    noise : float
        In prior deviations squared.
    reset_every, first : int
    width : float
    mean : float or "online"
        "online": the mean of the phase's rewards.
    scale : float
    """

    kept: None = None
    holds: ClassVar[Kinds] = {
        "_domain": Candidates,
        "_noise": Real,
        "_width": Real,
        "_K": np.ndarray,
        "_mean": Real | str,
        "_scale": Real,
        "_reset_every": Integral,
        "_first": Integral,
        "_plays": Integral,
        "_length": Integral,
        "_queue": list,
        "_rows": list,
        "_rewards": list,
        "surviving": np.ndarray,
    }

    def __init__(
        self,
        domain: Candidates,
        kernel: Any,
        noise: float,
        reset_every: int,
        first: int,
        width: float,
        mean: Mean,
        scale: float,
    ) -> None:
        self._domain, self._noise, self._width = domain, noise, width
        self._K = np.asarray(kernel(domain.X))
        self._mean, self._scale, self._reset_every, self._first = mean, scale, reset_every, first
        self._plays = 0
        self._restart()

    def _restart(self) -> None:
        self.surviving: Index = np.arange(len(self._domain))
        self._length, self._plays = self._first, 0
        self._queue: list[int] = []
        self._rows: list[int] = []
        self._rewards: list[float] = []

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """The next play of the phase; one that is not available is put off, and what is out is last."""
        if not self._queue:
            K = self._K[np.ix_(self.surviving, self.surviving)]
            rows = self.surviving[most_uncertain(K, self._noise, self._length)]
            self._queue = [int(row) for row in rng.permutation(rows)]
        first, last = list(self._queue), []
        for row in self._domain.index(out.X).tolist():
            if row in first:
                first.remove(row)
                last.append(row)
        for row in first + last:
            if allowed(self._domain.X[row][None])[0]:
                return np.asarray(self._domain.X[row].copy())
        return allowed.sample(rng)

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Count plays of the phase, whoever chose them; eliminate at its end."""
        for x, y in zip(rewards.X, rewards.y, strict=True):
            row = int(self._domain.index(x[None])[0])
            if row in self._queue:
                self._queue.remove(row)
            self._rows.append(row)
            self._rewards.append(float(y) / self._scale)
            self._plays += 1
            if self._plays >= self._reset_every:
                self._restart()
            elif not self._queue and len(self._rows) >= self._length:
                self._eliminate()

    def _eliminate(self) -> None:
        mean, deviation = self.beliefs()
        upper, lower = mean + self._width * deviation, mean - self._width * deviation
        alive = self.surviving
        self.surviving = alive[upper[alive] >= lower[alive].max()]
        self._length *= 2
        self._rows, self._rewards = [], []

    def beliefs(self) -> tuple[Array, Array]:
        """Mean and deviation at all candidates, by the rewards of this phase."""
        rows, y = np.array(self._rows, dtype=np.int64), np.array(self._rewards)
        centre = float(y.mean()) if self._mean == "online" else float(self._mean) / self._scale
        L = cholesky(self._K[np.ix_(rows, rows)] + self._noise * np.eye(len(rows))).L
        reach = solve_lower(L, self._K[rows])
        mean = centre + reach.T @ solve_lower(L, y - centre)
        variance = np.diagonal(self._K) - (reach**2).sum(axis=0)
        return np.asarray(mean), np.sqrt(np.maximum(variance, 0.0))


@described
def r_perp(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    reset_every: int,
    first: int = 4,
    scale: float = 1.0,
    confidence: float = DEFAULT_WIDTH,
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> PolicyAdapter:
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
    unit = 1.0 if mean != "online" else positive_number("scale", scale)
    width = constant(confidence)
    noise = positive_number("noise_variance", noise_variance) / unit**2
    prior, arms = inward(mean, minimise), finite(domain, "R-PERP")
    rule = PhasedElimination(arms, kernel, noise, reset_every, first, width, prior, unit)
    return PolicyAdapter(domain, rule, minimise=minimise, seed=seed)


def recommended(
    setting: Setting, reset_every: int | None = None, scale: float | None = None
) -> Mapping[str, Any]:
    """The period that balances phases and variation, and the deviation of a first sample."""
    unit = setting.scale if scale is None else scale
    if reset_every is None:
        noise = setting.noise_variance / unit**2
        reset_every = theory.elimination_period(*setting.budgets, noise, DEFAULT_WIDTH)
    return {"reset_every": reset_every, "scale": unit}


POLICIES = (
    Policy(
        "r-perp",
        r_perp,
        "phases in random order, elimination, restarts",
        paper="Iwazaki & Takeno 2025",
        look=PlotStyle("#5d24b2", (0, (1, 2)), 2.2, "|"),
        recommended=recommended,
    ),
)
