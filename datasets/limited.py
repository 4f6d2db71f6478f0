"""Rewards under limits that drift as well: a point that may be played now may be forbidden soon."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from tvbandits.acquisition.limits import Limit
from tvbandits.datasets.base import CandidatesProblem, RandomProblem, autoregressive, draw_paths
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import Array


class LimitedProblem(CandidatesProblem, RandomProblem):
    """A reward and one more outcome, both known at every candidate; the best point satisfies the limit.

    A problem has limits if it has `limits`, `safe` (points to start from) and `outcomes`.
    """

    limit: ClassVar[Limit]
    ranges: ClassVar = {"horizon": (1, 100_000)}

    @abstractmethod
    def outcome_at(self, t: float) -> Array:
        """Return the outcome of all candidates at time `t`, shape (A,)."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limit."""
        return (self.limit,)

    def outcomes(self, X: Array, t: float) -> Mapping[str, Array]:
        """Return the outcome of candidates (n, d) at time `t`, without noise, by its name."""
        return {self.limit.name: np.asarray(self.outcome_at(t)[self.domain.index(X)])}

    def best(self, t: float) -> float:
        """Return the largest reward at `t` of the candidates within the limit; of all if none is."""
        holds = self.limit.holds(self.outcome_at(t))
        return float(self.rewards_at(t)[holds | ~holds.any()].max())

    def generator(self) -> np.random.Generator:
        """Return the generator of all random parts."""
        return np.random.default_rng([self.seed, *self.name.encode()])


@dataclass(frozen=True)
class BumpAndWall(LimitedProblem):
    """A bump that wanders to and fro before a wall that does so at another pace.

    f(x, t) = exp(-(x - c(t))^2 / 4.5) on [0, 10], with c(t) = 5.5 + 3 sin(0.04 a t + p). The load is
    2 tanh((x - w(t)) / 2) + 0.3 (x - w(t)) with w(t) = 6 + 2 sin(0.03 b t + q), and may be at most 0:
    the best point lies behind the wall half of the time. a and b are drawn from [0.8, 1.25], p and q
    evenly.

    Examples
    --------
    >>> from tvbandits.datasets import BumpAndWall
    >>> problem = BumpAndWall(horizon=20)
    >>> print(problem.limits[0].name, problem.best(5) <= problem.rewards_at(5).max())
    load True
    """

    horizon: int = 100
    noise_variance: float = 0.01
    name: str = "bump-and-wall"
    limit: ClassVar[Limit] = Limit("load", at_most=0.0, noise_variance=0.04)

    @cached_property
    def domain(self) -> Candidates:
        """The 51 points."""
        return Candidates(np.linspace(0.0, 10.0, 51)[:, None])

    @property
    def safe(self) -> Array:
        """Six points before the wall."""
        return self.domain.X[:16:3]

    @cached_property
    def waves(self) -> tuple[Array, Array]:
        """The speeds a and b, and the phases p and q."""
        rng = self.generator()
        return rng.uniform(0.8, 1.25, 2), rng.uniform(0.0, 2 * np.pi, 2)

    def rewards_at(self, t: float) -> Array:
        """Return the bump."""
        (a, _), (p, _) = self.waves
        centre = 5.5 + 3.0 * np.sin(0.04 * a * t + p)
        return np.asarray(np.exp(-((self.domain.X[:, 0] - centre) ** 2) / 4.5))

    def outcome_at(self, t: float) -> Array:
        """Return the load."""
        (_, b), (_, q) = self.waves
        behind = self.domain.X[:, 0] - 6.0 - 2.0 * np.sin(0.03 * b * t + q)
        return np.asarray(2.0 * np.tanh(behind / 2.0) + 0.3 * behind)


@dataclass(frozen=True)
class HeatPump(LimitedProblem):
    """A heat pump's flow temperature and fan speed, with a compressor that may be 90 degrees hot.

    The reward is highest for the heat that the weather asks for with a quiet fan; the compressor gets
    hotter with the flow and in the cold, and cooler with the fan. The temperature outside has a season
    of 120 steps and a random walk. Coordinates are per 35 degrees and per 0.8 of the speed.

    Examples
    --------
    >>> from tvbandits.datasets import HeatPump
    >>> problem = HeatPump(horizon=20)
    >>> print(len(problem.domain), problem.limits[0].at_most)
    135 90.0
    """

    horizon: int = 100
    noise_variance: float = 0.02
    name: str = "heat-pump"
    limit: ClassVar[Limit] = Limit("compressor", at_most=90.0, noise_variance=1.0)

    @cached_property
    def settings(self) -> tuple[Array, Array]:
        """Flow temperatures and fan speeds of the candidates."""
        flow, fan = np.meshgrid(np.linspace(25, 60, 15), np.linspace(0.2, 1.0, 9), indexing="ij")
        return flow.ravel(), fan.ravel()

    @cached_property
    def domain(self) -> Candidates:
        """15 flow temperatures with 9 fan speeds."""
        flow, fan = self.settings
        return Candidates(np.column_stack([flow / 35.0, fan / 0.8]))

    @property
    def safe(self) -> Array:
        """A cool flow with a fast fan."""
        return self.domain.X[[4, 6, 8, 15, 17, 26]]

    @cached_property
    def outside(self) -> Array:
        """Temperatures outside, shape (horizon,)."""
        rng = self.generator()
        walk = np.cumsum(rng.normal(0.0, 0.4, self.horizon))
        season = np.sin(2 * np.pi * (np.arange(self.horizon) / 120.0 + rng.random()))
        return np.asarray(5.0 - 8.0 * season + walk)

    def rewards_at(self, t: float) -> Array:
        """Return the comfort."""
        (flow, fan), outside = self.settings, self.outside[self.row(t)]
        surplus = (flow - 20.0) * (0.5 + 0.5 * fan) - 11.0 - 0.62 * (20.0 - outside)
        return np.asarray(2.0 - (surplus / 12.0) ** 2 - 0.8 * fan**2)

    def outcome_at(self, t: float) -> Array:
        """Return the temperature of the compressor."""
        (flow, fan), outside = self.settings, self.outside[self.row(t)]
        heat = 1.1 * (flow - 25.0) + 0.01 * (flow - 25.0) ** 2
        return np.asarray(55.0 + heat + 10.0 * (1.0 - fan) - 0.5 * (outside - 5.0))


@dataclass(frozen=True)
class QuietNetwork(LimitedProblem):
    """Places on a map of which some are too loud now: a reward and a noise level that both drift.

    Each is a fixed part and one that forgets at rate 0.03, draws of Gaussian processes over the map
    (RBF(2.5) on 10 x 10). The level is 55 +- 10, and may be at most 60.

    Examples
    --------
    >>> from tvbandits.datasets import QuietNetwork
    >>> problem = QuietNetwork(places=20, horizon=20)
    >>> print(problem.outcome_at(3).shape, problem.safe.shape)
    (20,) (6, 2)
    """

    places: int = 30
    horizon: int = 100
    noise_variance: float = 0.05
    name: str = "quiet-network"
    limit: ClassVar[Limit] = Limit("noise_level", at_most=60.0, noise_variance=4.0)
    ranges: ClassVar = {**LimitedProblem.ranges, "places": (6, 1000)}

    @cached_property
    def domain(self) -> Candidates:
        """Random places, the same ones in every realisation."""
        return Candidates(10.0 * np.random.default_rng(self.places).random((self.places, 2)))

    @property
    def safe(self) -> Array:
        """The six quietest places at the start."""
        return self.domain.X[np.argsort(self.paths[1][0])[:6]]

    @cached_property
    def paths(self) -> tuple[Array, Array]:
        """Rewards and levels, shape (horizon, places) each."""
        rng, X = self.generator(), self.domain.X
        K = np.exp(-cdist(X, X, "sqeuclidean") / (2 * 2.5**2))
        rewards, levels = (self._drift(K, rng) for _ in range(2))
        return rewards, 55.0 + 10.0 * levels

    def _drift(self, covariance: Array, rng: np.random.Generator, epsilon: float = 0.03) -> Array:
        """Return a fixed part and one that forgets at a rate, shape (horizon, places)."""
        fixed, *noise = draw_paths(covariance, self.horizon + 1, rng)
        drift = autoregressive(np.array(noise), (1.0 - epsilon) ** 0.5, epsilon**0.5)
        return np.asarray(0.7 * fixed + 0.7 * drift)

    def rewards_at(self, t: float) -> Array:
        """Return the rewards of a step."""
        return np.asarray(self.paths[0][self.row(t)])

    def outcome_at(self, t: float) -> Array:
        """Return the levels of a step."""
        return np.asarray(self.paths[1][self.row(t)])


PROBLEMS = (
    NamedProblem("bump-and-wall", BumpAndWall, "a bump that wanders towards a wall that wanders"),
    NamedProblem(
        "heat-pump", HeatPump, "a heat pump with a limit on its temperature, as the weather changes"
    ),
    NamedProblem("quiet-network", QuietNetwork, "a network of places with a limit on noise"),
)
