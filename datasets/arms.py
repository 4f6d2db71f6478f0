"""Bandits whose arms switch, drift with a long memory, wear out with each play, or have a daily cycle.

References
----------
K. Hong, Y. Li and A. Tewari. An optimization-based algorithm for non-stationary kernel bandits without
    prior knowledge. AISTATS 2023. (its experiment)
online-ml/river, river/bandit/envs/candy_cane.py. (arms whose rewards fall with every pull)
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
    draw_paths,
    make_autoregressive,
)
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.domains.space import Arms
from tvbandits.gp.linalg import cholesky, inverse, square_root
from tvbandits.validation import Array, as_bool, finite_number, nonnegative_number


@dataclass(frozen=True)
class SwitchingArms(PathProblem):
    """The experiment of Hong, Li and Tewari (2023): arms on a sphere whose rewards all switch together.

    The rewards of `arms` uniform points on the unit sphere in three dimensions are draws of
    GP(0, RBF(0.2)), scaled to a largest absolute value of 0.8; the noise has standard deviation 0.1.
    The rewards switch twice, after steps 1500 and 5000 of 10,000, and at the same fractions of another
    horizon. The dimension of the sphere is our choice.

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
    kernel = RBF(0.2)  # the kernel of the draws

    @cached_property
    def domain(self) -> Candidates:
        """Return uniform points of the unit sphere, shape (arms, 3)."""
        normal = self.make_rng(0x48).standard_normal((self.arms, 3))
        return Candidates(normal / np.sqrt((normal**2).sum(axis=1, keepdims=True)))

    @property
    def switches(self) -> tuple[int, ...]:
        """Return the steps after which the rewards switch."""
        return tuple(round(fraction * self.horizon) for fraction in (0.15, 0.5))

    @cached_property
    def path(self) -> Array:
        """Return the rewards of each piece between switches, shape (pieces, arms)."""
        pieces = draw_paths(self.kernel(self.domain.X), len(self.switches) + 1, self.make_rng(0x49))
        return np.asarray(0.8 * pieces / np.abs(pieces).max(axis=1, keepdims=True))

    def row_at(self, t: float) -> int:
        """Return the index of the piece at step `t`."""
        step = super().row_at(t)
        return sum(step >= switch for switch in self.switches)


def autoregressive_coefficients(
    order: int = 20, decay: float = 6.0, total: float = 0.97
) -> tuple[Array, float]:
    """Return the coefficients and the noise variance of an AR process with unit variance.

    The coefficients a_r, shape (order,), are proportional to exp(-r / decay) and sum to `total`. The
    variance of z_t = sum_r a_r z_{t-r} + e_t is that of e times the mean over frequencies w of
    |1 - sum_r a_r exp(-i w r)|^-2; a sum over 2^16 frequencies is exact to rounding.
    """
    weights = np.exp(-np.arange(1, order + 1) / decay)
    coefficients = total * weights / weights.sum()
    response = np.fft.fft(np.concatenate([[1.0], -coefficients]), 2**16)
    return coefficients, float(1.0 / np.mean(np.abs(response) ** -2.0))


@dataclass(frozen=True)
class AutoregressiveArms(PathProblem):
    """Arms on a grid that drift with a memory of 20 steps, which no first-order model describes.

    f(x, t) = m(x) + z(x, t); z is an AR(20) process in time with unit variance. Its correlation over
    the grid is C = (I + 5 L)^-1, scaled to a unit diagonal, where L is the Laplacian of the grid's
    graph. The means m are a draw of N(0, C / 4). The noise has standard deviation 0.3.

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
    # Steps that are simulated before the first: the slowest mode has a time constant of about 200.
    burn_in: ClassVar[int] = 3000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size((self.horizon + self.burn_in) * self.side**2, 100_000_000)

    @cached_property
    def domain(self) -> Candidates:
        """Return the grid on the unit square."""
        return Candidates.grid([(0.0, 1.0), (0.0, 1.0)], self.side)

    @cached_property
    def correlation(self) -> Array:
        """Return C, shape (A, A), for a grid whose last coordinate varies fastest."""
        line = np.diag(np.ones(self.side - 1), 1)
        line = line + line.T
        adjacency = np.kron(line, np.eye(self.side)) + np.kron(np.eye(self.side), line)
        laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
        C = inverse(cholesky(np.eye(len(laplacian)) + 5.0 * laplacian).L)
        scale = np.sqrt(np.diagonal(C))
        return np.asarray(C / np.outer(scale, scale))

    @cached_property
    def path(self) -> Array:
        """Return the rewards of all steps and arms, shape (horizon, A)."""
        root = square_root(self.correlation)
        rng = self.make_rng(0xA2)
        means = 0.5 * root @ rng.standard_normal(root.shape[1])
        coefficients, variance = autoregressive_coefficients()
        noise = rng.standard_normal((self.horizon + self.burn_in, root.shape[1])) @ root.T
        order = len(coefficients)
        z = np.zeros((order + len(noise), len(means)))
        for step, innovation in enumerate(noise, start=order):
            past = z[step - order : step][::-1]
            z[step] = coefficients @ past + variance**0.5 * innovation
        return np.asarray(means + z[-self.horizon :])


@dataclass(frozen=True)
class WearingArms(CandidatesProblem, RandomProblem):
    """Arms that wear out: each play lowers the reward of its arm by 3%.

    Initial rewards are uniform on [0, 1], and change only by plays. `best` is the largest current reward
    of this player; to play that arm is optimal, since rewards can only fall. The original has Bernoulli
    rewards with these probabilities; here a reward is the probability plus Gaussian noise. In a
    comparison, each run plays on its own copy (`begin`), which is changed by its plays (`wear`).

    Parameters
    ----------
    arms : int
        Number of arms, evenly spaced on [0, 1].
    loss : float
        Fraction of an arm's reward that a play takes away, at least 0 and below 1.
    length_scale : float
        Length scale of the correlation between initial rewards; 0: they are independent, as in the
        original.
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import WearingArms
    >>> arms = WearingArms(arms=10, horizon=50)
    >>> run = arms.begin()
    >>> run.wear(arms.domain.X[:1])  # a play of the first arm
    >>> print(run.value(arms.domain.X[:1], 2) < arms.value(arms.domain.X[:1], 2))
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
        """Return the positions of the arms, shape (arms, 1)."""
        return Candidates(np.linspace(0.0, 1.0, self.arms)[:, None])

    @cached_property
    def rewards(self) -> Array:
        """Return the current rewards of the arms, shape (arms,)."""
        rng = self.make_rng(0xCC)
        if self.length_scale == 0:
            return rng.random(self.arms)
        root = square_root(RBF(self.length_scale)(self.domain.X))
        return np.asarray(ndtr(root @ rng.standard_normal(root.shape[1])))

    def begin(self) -> WearingArmsRun:
        """Return a copy for one run."""
        return WearingArmsRun(**asdict(self))

    def rewards_at(self, t: float) -> Array:
        """Return the current rewards of the arms, shape (arms,); they do not depend on `t`."""
        self.row_at(t)
        return self.rewards


class WearingArmsRun(WearingArms):
    """Arms of one run, which are changed by its plays."""

    def wear(self, X: Array) -> None:
        """Lower the rewards of arms (n, 1) in place, as plays do; an arm may occur more than once."""
        for row in self.domain.index(X):
            self.rewards[row] *= 1.0 - self.loss


@dataclass(frozen=True)
class BannersByDay(CandidatesProblem, RandomProblem):
    """Banners over days and nights: a step is an hour, and all banners have a common level.

    The reward of a banner is its effect plus the common level. Its effect is a constant plus an
    Ornstein-Uhlenbeck process with a time constant of 500 hours, each normal with variance 1/2. The
    level is a wave with a period of 24 hours plus an Ornstein-Uhlenbeck process ("weather") with a time
    constant of 12 hours. From trough to crest, the wave is twice the mean difference between the largest
    and the smallest effect; the standard deviation of the weather is a quarter of that.

    Parameters
    ----------
    banners : int
    with_control : bool
        Whether the first banner is the control that bandits compare with.
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
        """Return the banners by name."""
        return Arms([f"banner {i + 1}" for i in range(self.banners)])

    @property
    def control(self) -> Array | None:
        """Return the first banner, or None without a control."""
        return self.domain.X[0] if self.with_control else None

    @cached_property
    def effects_and_levels(self) -> tuple[Array, Array]:
        """Return the effects (horizon, banners) and the levels (horizon,)."""
        rng = self.make_rng(0x4A)
        constant, *noise = rng.standard_normal((self.horizon + 1, self.banners))
        drift = make_autoregressive(np.array(noise), math.exp(-1.0 / 500.0))
        weather = make_autoregressive(rng.standard_normal(self.horizon), math.exp(-1.0 / 12.0))
        effects = math.sqrt(0.5) * (constant + drift)
        swing = 2.0 * np.ptp(effects, axis=1).mean()
        hours = np.arange(1, self.horizon + 1)
        return effects, swing * (0.5 * np.cos(2 * np.pi * (hours - 12) / 24) + 0.25 * weather)

    def rewards_at(self, t: float) -> Array:
        """Return the effects plus the level at step `t`, shape (banners,)."""
        row = self.row_at(t)
        effects, levels = self.effects_and_levels
        return np.asarray(effects[row] + levels[row])


@dataclass(frozen=True)
class Banners(CandidatesProblem, RandomProblem):
    """Banners with low conversion rates: a reading is the fraction of a play's visits that convert.

    The logarithm of each banner's conversion rate is a sine, so that the rate is between 0.5% and 5%,
    with a period of 2,000 to 6,000 steps.

    Parameters
    ----------
    banners : int
    trials : int
        Visits per play.
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
        """Return the variance of the fraction of visits that convert, at a conversion rate of 2%."""
        return 0.02 * 0.98 / self.trials

    @cached_property
    def domain(self) -> Arms:
        """Return the banners by name."""
        return Arms([f"banner {i + 1}" for i in range(self.banners)])

    @cached_property
    def waves(self) -> Array:
        """Return the periods (steps) and phases (radians) of the sines, shape (2, banners)."""
        rng = self.make_rng(0x4B)
        return np.array(
            [rng.uniform(2000, 6000, self.banners), rng.uniform(0, 2 * np.pi, self.banners)]
        )

    def rewards_at(self, t: float) -> Array:
        """Return the conversion rates at step `t`, shape (banners,)."""
        period, phase = self.waves
        angle = 2 * np.pi * self.row_at(t) / period + phase
        return np.asarray(0.005 * 10.0 ** (0.5 + 0.5 * np.sin(angle)))


PROBLEMS = (
    NamedProblem(
        "switching-arms", SwitchingArms, "arms on a sphere that all switch together (Hong 2023)"
    ),
    NamedProblem(
        "ar-arms", AutoregressiveArms, "a grid of arms that drift with a memory of 20 steps"
    ),
    NamedProblem("wearing-arms", WearingArms, "arms that wear out with each play"),
    NamedProblem(
        "banners-by-day",
        BannersByDay,
        "banners over days and nights, with the first as the control",
    ),
    NamedProblem("banners", Banners, "banners that convert few visits, one visit at a time"),
)
