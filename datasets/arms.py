"""Arms that switch, drift with a long memory, wear out with each play, or share days and nights.

References
----------
K. Hong, Y. Li and A. Tewari. An optimization-based algorithm for non-stationary kernel bandits without
    prior knowledge. AISTATS 2023. (its experiment)
online-ml/river, river/bandit/envs/candy_cane.py. (arms that lose at every pull)
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF

from tvbandits.datasets.base import (
    CandidatesProblem,
    PathProblem,
    RandomProblem,
    autoregressive,
    draw_paths,
)
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.domains.space import Arms
from tvbandits.gp.linalg import cholesky, inverse, square_root
from tvbandits.validation import Array, as_bool, finite_number, nonnegative_number


@dataclass(frozen=True)
class SwitchingArms(PathProblem):
    """The experiment of Hong, Li and Tewari (2023): arms on a sphere whose rewards switch at once.

    The rewards of `arms` uniform points of the unit sphere are draws of GP(0, RBF(0.2)), each scaled to
    a largest size of 0.8 and read with noise of deviation 0.1. They switch twice, at 1500 and 5000 of
    10,000 steps; a shorter horizon has them at the same shares. The dimension of their sphere is not
    stated in what this was written from; here it is 3.

    Parameters
    ----------
    arms : int
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import SwitchingArms
    >>> problem = SwitchingArms(arms=20, horizon=100)
    >>> print(len(problem.domain), problem.best(5) == problem.value(problem.domain.X, 5).max())
    20 True
    """

    arms: int = 100
    horizon: int = 10_000
    noise_variance: float = 0.01
    name: str = "switching-arms"
    ranges: ClassVar = {"arms": (1, 10_000)}
    kernel = RBF(0.2)  # of the rewards

    @cached_property
    def domain(self) -> Candidates:
        """Uniform points of the unit sphere."""
        normal = self.rng(0x48).standard_normal((self.arms, 3))
        return Candidates(normal / np.sqrt((normal**2).sum(axis=1, keepdims=True)))

    @property
    def switches(self) -> tuple[int, ...]:
        """The last steps of all pieces but the last."""
        return tuple(round(share * self.horizon) for share in (0.15, 0.5))

    @cached_property
    def path(self) -> Array:
        """Rewards between switches, shape (pieces, arms)."""
        pieces = draw_paths(self.kernel(self.domain.X), len(self.switches) + 1, self.rng(0x49))
        return np.asarray(0.8 * pieces / np.abs(pieces).max(axis=1, keepdims=True))

    def row(self, t: float) -> int:
        """Return the number of the piece."""
        step = super().row(t)
        return sum(step >= switch for switch in self.switches)


def autoregression(order: int = 20, decay: float = 6.0, total: float = 0.97) -> tuple[Array, float]:
    """Return coefficients (order,) with a sum, proportional to exp(-r / decay), and a variance.

    The variance of z_t = sum_r a_r z_{t-r} + e_t is that of e times the mean over frequencies of
    |1 - sum_r a_r exp(-i w r)|^-2, an integral that a sum on 2^16 points has to rounding. The variance
    that is returned is that of e for which that of z is 1.
    """
    weights = np.exp(-np.arange(1, order + 1) / decay)
    coefficients = total * weights / weights.sum()
    response = np.fft.fft(np.concatenate([[1.0], -coefficients]), 2**16)
    return coefficients, float(1.0 / np.mean(np.abs(response) ** -2.0))


@dataclass(frozen=True)
class AutoregressiveArms(PathProblem):
    """Arms of a grid that drift with a memory of 20 steps, which no first-order model describes.

    f(x, t) = m(x) + z(x, t); z is an AR(20) process in time with unit variance and correlation
    C = (I + 5 L)^-1 over the grid, scaled to a unit diagonal, L the Laplacian of the grid's graph; the
    means are a draw of N(0, C / 4). The noise has a deviation of 0.3.

    Parameters
    ----------
    side : int
        The grid has side x side arms.
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import AutoregressiveArms
    >>> problem = AutoregressiveArms(side=3, horizon=20)
    >>> print(len(problem.domain), problem.best(5) >= problem.value(problem.domain.X, 5).max())
    9 True
    """

    side: int = 10
    horizon: int = 2000
    noise_variance: float = 0.09
    name: str = "ar-arms"
    ranges: ClassVar = {"side": (1, 60)}
    # Steps before the first one: the slowest mode forgets with a time of about 200.
    burn_in: ClassVar[int] = 3000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size((self.horizon + self.burn_in) * self.side**2, 100_000_000)

    @cached_property
    def domain(self) -> Candidates:
        """The grid on the unit square."""
        return Candidates.grid([(0.0, 1.0), (0.0, 1.0)], self.side)

    @cached_property
    def correlation(self) -> Array:
        """C, shape (A, A); the last coordinate of the grid runs fastest."""
        line = np.diag(np.ones(self.side - 1), 1)
        line = line + line.T
        adjacency = np.kron(line, np.eye(self.side)) + np.kron(np.eye(self.side), line)
        laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
        C = inverse(cholesky(np.eye(len(laplacian)) + 5.0 * laplacian).L)
        scale = np.sqrt(np.diagonal(C))
        return np.asarray(C / np.outer(scale, scale))

    @cached_property
    def path(self) -> Array:
        """Rewards of all steps and arms, shape (horizon, A)."""
        root = square_root(self.correlation)
        rng = self.rng(0xA2)
        means = 0.5 * root @ rng.standard_normal(root.shape[1])
        coefficients, variance = autoregression()
        noise = rng.standard_normal((self.horizon + self.burn_in, root.shape[1])) @ root.T
        order = len(coefficients)
        z = np.zeros((order + len(noise), len(means)))
        for step, innovation in enumerate(noise, start=order):
            past = z[step - order : step][::-1]
            z[step] = coefficients @ past + variance**0.5 * innovation
        return np.asarray(means + z[-self.horizon :])


@dataclass(frozen=True)
class WearingArms(CandidatesProblem, RandomProblem):
    """Arms that wear out: each play takes 3% of the reward of its arm.

    Rewards start uniform in [0, 1], and nothing but the player moves them. `best` is the
    largest reward that is left to this player; to play that arm is optimal, since rewards only ever
    fall. The original draws Bernoulli rewards with these chances; here a reward is the chance with
    Gaussian noise. A comparison plays each run on a copy of its own (`begin`), and reports the plays to
    it (`wear`).

    Parameters
    ----------
    arms : int
        Evenly spaced on [0, 1].
    loss : float
        Share that a play takes, at least 0 and below 1.
    length_scale : float
        Of the field that neighbours share; 0: they are independent, as in the original.
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import WearingArms
    >>> arms = WearingArms(arms=10, horizon=50)
    >>> game = arms.begin()  # what an arm gives falls with every play of it
    >>> game.wear(arms.domain.X[:1])
    >>> print(game.value(arms.domain.X[:1], 2) < arms.value(arms.domain.X[:1], 2))
    [ True]
    """

    arms: int = 100
    loss: float = 0.03
    length_scale: float = 0.0
    horizon: int = 2000
    noise_variance: float = 0.05
    name: str = "wearing-arms"
    ranges: ClassVar = {"arms": (1, 10_000)}

    def __post_init__(self) -> None:
        super().__post_init__()
        finite_number("loss", self.loss, low=0.0, below=1.0)
        nonnegative_number("length_scale", self.length_scale)

    @cached_property
    def domain(self) -> Candidates:
        """The places of the arms."""
        return Candidates(np.linspace(0.0, 1.0, self.arms)[:, None])

    @cached_property
    def rewards(self) -> Array:
        """The rewards of the arms, shape (arms,)."""
        rng = self.rng(0xCC)
        if self.length_scale == 0:
            return rng.random(self.arms)
        root = square_root(RBF(self.length_scale)(self.domain.X))
        return np.asarray(ndtr(root @ rng.standard_normal(root.shape[1])))

    def begin(self) -> WearingArmsRun:
        """Return a copy for one player."""
        return WearingArmsRun(**asdict(self))

    def rewards_at(self, t: float) -> Array:
        """Return the rewards, which are the same at all times between two plays."""
        self.row(t)
        return self.rewards


class WearingArmsRun(WearingArms):
    """The arms of one player."""

    def wear(self, X: Array) -> None:
        """Let the rewards of arms (n, 1) fall, which were played one after the other."""
        for row in self.domain.index(X):
            self.rewards[row] *= 1.0 - self.loss


@dataclass(frozen=True)
class BannersByDay(CandidatesProblem, RandomProblem):
    """Banners over days and nights: a step is an hour, and all share a level that changes with it.

    Each banner's effect is a sum of one that stays and one that an Ornstein-Uhlenbeck process of 500
    hours draws, both normal with a variance of 1/2. The level is a wave of 24 hours, from night to day
    twice as large as the effects lie apart on average (largest less smallest), and a walk of the
    weather, an Ornstein-Uhlenbeck process of 12 hours that deviates by a quarter of that.

    Parameters
    ----------
    banners : int
    with_control : bool
        Whether bandits compare with the first banner as their control.
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import BannersByDay
    >>> problem = BannersByDay(horizon=48)
    >>> night, noon = problem.rewards_at(24), problem.rewards_at(12)
    >>> print(problem.domain.names[0], (noon - night).mean() > 3.0)
    banner 1 True
    """

    banners: int = 8
    with_control: bool = True
    horizon: int = 336
    noise_variance: float = 0.25
    name: str = "banners-by-day"
    ranges: ClassVar = {"horizon": (1, 100_000), "banners": (2, 10_000)}

    def __post_init__(self) -> None:
        super().__post_init__()
        as_bool("with_control", self.with_control)

    @cached_property
    def domain(self) -> Arms:
        """The banners by name."""
        return Arms([f"banner {i + 1}" for i in range(self.banners)])

    @property
    def control(self) -> Array | None:
        """The first banner."""
        return self.domain.X[0] if self.with_control else None

    @cached_property
    def parts(self) -> tuple[Array, Array]:
        """Effects (horizon, banners) and levels (horizon,)."""
        rng = self.rng(0x4A)
        fixed, *drifts = rng.standard_normal((self.horizon + 1, self.banners))
        drift = autoregressive(np.array(drifts), math.exp(-1.0 / 500.0))
        weather = autoregressive(rng.standard_normal(self.horizon), math.exp(-1.0 / 12.0))
        effects = math.sqrt(0.5) * (fixed + drift)
        swing = 2.0 * np.ptp(effects, axis=1).mean()
        hours = np.arange(1, self.horizon + 1)
        return effects, swing * (0.5 * np.cos(2 * np.pi * (hours - 12) / 24) + 0.25 * weather)

    def rewards_at(self, t: float) -> Array:
        """Return effects plus level."""
        row = self.row(t)
        effects, levels = self.parts
        return np.asarray(effects[row] + levels[row])


@dataclass(frozen=True)
class Banners(CandidatesProblem, RandomProblem):
    """Banners of which few visits convert: a reading is the share of the visits of a play that do.

    The logarithm of each banner's chance is a wave between 0.5% and 5%, with a period of 2,000 to 6,000
    steps.

    Parameters
    ----------
    banners : int
    trials : int
        Visits a play.
    horizon : int
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import Banners
    >>> problem = Banners(horizon=48)
    >>> print(problem.domain.names[0], 0.005 <= problem.best(3) <= 0.05)
    banner 1 True
    """

    banners: int = 8
    trials: int = 1
    horizon: int = 3000
    name: str = "banners"
    ranges: ClassVar = {"banners": (2, 10_000)}

    @property
    def noise_variance(self) -> float:
        """Noise variance of a share of visits where 2% of them convert."""
        return 0.02 * 0.98 / self.trials

    @cached_property
    def domain(self) -> Arms:
        """The banners by name."""
        return Arms([f"banner {i + 1}" for i in range(self.banners)])

    @cached_property
    def waves(self) -> Array:
        """Periods and phases, shape (2, banners)."""
        rng = self.rng(0x4B)
        return np.array(
            [rng.uniform(2000, 6000, self.banners), rng.uniform(0, 2 * np.pi, self.banners)]
        )

    def rewards_at(self, t: float) -> Array:
        """Return the chances."""
        period, phase = self.waves
        angle = 2 * np.pi * self.row(t) / period + phase
        return np.asarray(0.005 * 10.0 ** (0.5 + 0.5 * np.sin(angle)))


PROBLEMS = (
    NamedProblem(
        "switching-arms", SwitchingArms, "arms on a sphere that switch at once (Hong 2023)"
    ),
    NamedProblem(
        "ar-arms", AutoregressiveArms, "a grid of arms that drift with a memory of 20 steps"
    ),
    NamedProblem("wearing-arms", WearingArms, "arms that wear out with each play"),
    NamedProblem(
        "banners-by-day", BannersByDay, "banners over days and nights, in batches with a control"
    ),
    NamedProblem("banners", Banners, "banners that convert few visits, one visit at a time"),
)
