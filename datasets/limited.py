"""Problems with a limit that drifts too: a point that is safe at one step may violate it later."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from tvbandits.acquisition.limits import Limit
from tvbandits.datasets.base import (
    CandidatesProblem,
    RandomProblem,
    draw_paths,
    make_autoregressive,
)
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import Array


class LimitedProblem(CandidatesProblem, RandomProblem):
    """A problem with finitely many candidates, a reward, and one more outcome that has a limit.

    A comparison applies the limits of a problem that has `limits`, `safe` (points to start from) and
    `outcomes`.
    """

    limit: ClassVar[Limit]
    ranges: ClassVar = {"horizon": (1, 100_000)}

    @abstractmethod
    def outcome_at(self, t: float) -> Array:
        """Return the outcome of all candidates at time `t`, shape (A,)."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Return the only limit, in a tuple."""
        return (self.limit,)

    def outcomes(self, X: Array, t: float) -> Mapping[str, Array]:
        """Return the noise-free outcome (n,) of candidates (n, d) at time `t`, by its name."""
        return {self.limit.name: np.asarray(self.outcome_at(t)[self.domain.index(X)])}

    def best(self, t: float) -> float:
        """Return the largest reward at `t` of the candidates within the limit; if none is, of all."""
        holds = self.limit.holds(self.outcome_at(t))
        return float(self.rewards_at(t)[holds | ~holds.any()].max())

    def generator(self) -> np.random.Generator:
        """Return the random generator of all random parts."""
        return np.random.default_rng([self.seed, *self.name.encode()])


@dataclass(frozen=True)
class BumpAndWall(LimitedProblem):
    """A bump that swings to and fro, and a wall that swings at a different frequency.

    f(x, t) = exp(-(x - c(t))^2 / 4.5) on [0, 10], with c(t) = 5.5 + 3 sin(0.04 a t + p). The outcome
    "load" is 2 tanh((x - w(t)) / 2) + 0.3 (x - w(t)) with the wall w(t) = 6 + 2 sin(0.03 b t + q), and
    may be at most 0: about half of the time the bump's centre violates this. The speeds a and b are
    uniform on [0.8, 1.25], the phases p and q on [0, 2 pi].

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
        """Return 51 evenly spaced points of [0, 10]."""
        return Candidates(np.linspace(0.0, 10.0, 51)[:, None])

    @property
    def safe(self) -> Array:
        """Return six points (6, 1) where the load is always below its limit."""
        return self.domain.X[:16:3]

    @cached_property
    def waves(self) -> tuple[Array, Array]:
        """Return the speeds (a, b) and the phases (p, q)."""
        rng = self.generator()
        return rng.uniform(0.8, 1.25, 2), rng.uniform(0.0, 2 * np.pi, 2)

    def rewards_at(self, t: float) -> Array:
        """Return the rewards of the bump, shape (51,)."""
        (a, _), (p, _) = self.waves
        centre = 5.5 + 3.0 * np.sin(0.04 * a * t + p)
        return np.asarray(np.exp(-((self.domain.X[:, 0] - centre) ** 2) / 4.5))

    def outcome_at(self, t: float) -> Array:
        """Return the load, shape (51,)."""
        (_, b), (_, q) = self.waves
        excess = self.domain.X[:, 0] - 6.0 - 2.0 * np.sin(0.03 * b * t + q)
        return np.asarray(2.0 * np.tanh(excess / 2.0) + 0.3 * excess)


@dataclass(frozen=True)
class HeatPump(LimitedProblem):
    """A heat pump, whose flow temperature and fan speed are chosen; its compressor may reach 90 degrees.

    The reward is highest if the pump delivers the heat that the weather demands with a slow fan. The
    compressor gets hotter with the flow temperature and in cold weather, and cooler with the fan speed.
    The outdoor temperature is a sine with a period of 120 steps plus a random walk. The coordinates are
    flow temperature / 35 degrees and fan speed / 0.8.

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
        """Return the flow temperatures (135,) and the fan speeds (135,) of the candidates."""
        flow, fan = np.meshgrid(np.linspace(25, 60, 15), np.linspace(0.2, 1.0, 9), indexing="ij")
        return flow.ravel(), fan.ravel()

    @cached_property
    def domain(self) -> Candidates:
        """Return all pairs of 15 flow temperatures and 9 fan speeds."""
        flow, fan = self.settings
        return Candidates(np.column_stack([flow / 35.0, fan / 0.8]))

    @property
    def safe(self) -> Array:
        """Return six points (6, 2) with a low flow temperature and a fast fan."""
        return self.domain.X[[4, 6, 8, 15, 17, 26]]

    @cached_property
    def outdoor_temperatures(self) -> Array:
        """Return the outdoor temperatures, degrees Celsius, shape (horizon,)."""
        rng = self.generator()
        walk = np.cumsum(rng.normal(0.0, 0.4, self.horizon))
        season = np.sin(2 * np.pi * (np.arange(self.horizon) / 120.0 + rng.random()))
        return np.asarray(5.0 - 8.0 * season + walk)

    def rewards_at(self, t: float) -> Array:
        """Return the comfort, shape (135,)."""
        (flow, fan), outdoor = self.settings, self.outdoor_temperatures[self.row_at(t)]
        surplus = (flow - 20.0) * (0.5 + 0.5 * fan) - 11.0 - 0.62 * (20.0 - outdoor)
        return np.asarray(2.0 - (surplus / 12.0) ** 2 - 0.8 * fan**2)

    def outcome_at(self, t: float) -> Array:
        """Return the temperature of the compressor, degrees Celsius, shape (135,)."""
        (flow, fan), outdoor = self.settings, self.outdoor_temperatures[self.row_at(t)]
        heat = 1.1 * (flow - 25.0) + 0.01 * (flow - 25.0) ** 2
        return np.asarray(55.0 + heat + 10.0 * (1.0 - fan) - 0.5 * (outdoor - 5.0))


@dataclass(frozen=True)
class QuietNetwork(LimitedProblem):
    """Places on a map with a reward and a noise level that both drift; some places are too loud.

    Each of the two is the sum of a constant part and an AR(1) part with forgetting rate 0.03, both
    draws of Gaussian processes over the map (RBF(2.5) on a square of side 10). The noise level has mean
    55 and a standard deviation of about 10, and may be at most 60.

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
        """Return random places, the same in every realisation."""
        return Candidates(10.0 * np.random.default_rng(self.places).random((self.places, 2)))

    @property
    def safe(self) -> Array:
        """Return the six quietest places at step 1, shape (6, 2)."""
        return self.domain.X[np.argsort(self.paths[1][0])[:6]]

    @cached_property
    def paths(self) -> tuple[Array, Array]:
        """Return rewards and noise levels, shape (horizon, places) each."""
        rng, X = self.generator(), self.domain.X
        K = np.exp(-cdist(X, X, "sqeuclidean") / (2 * 2.5**2))
        rewards, levels = (self._draw_path(K, rng) for _ in range(2))
        return rewards, 55.0 + 10.0 * levels

    def _draw_path(
        self, covariance: Array, rng: np.random.Generator, forgetting_rate: float = 0.03
    ) -> Array:
        """Return the sum of a constant and an AR(1) part, shape (horizon, places)."""
        constant, *noise = draw_paths(covariance, self.horizon + 1, rng)
        drift = make_autoregressive(
            np.array(noise), (1.0 - forgetting_rate) ** 0.5, forgetting_rate**0.5
        )
        return np.asarray(0.7 * constant + 0.7 * drift)

    def rewards_at(self, t: float) -> Array:
        """Return the rewards of all places at step `t`, shape (places,)."""
        return np.asarray(self.paths[0][self.row_at(t)])

    def outcome_at(self, t: float) -> Array:
        """Return the noise levels of all places at step `t`, shape (places,)."""
        return np.asarray(self.paths[1][self.row_at(t)])


PROBLEMS = (
    NamedProblem("bump-and-wall", BumpAndWall, "a bump that wanders towards a wall that wanders"),
    NamedProblem(
        "heat-pump", HeatPump, "a heat pump with a limit on its temperature, as the weather changes"
    ),
    NamedProblem("quiet-network", QuietNetwork, "a network of places with a limit on noise"),
)
