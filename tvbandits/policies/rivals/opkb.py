"""OPKB and ADA-OPKB: bandits that solve an optimisation problem for whom to play, and replay the past.

[HL] = K. Hong, Y. Li and A. Tewari. An optimization-based algorithm for non-stationary kernel bandits
without prior knowledge. AISTATS 2023.

Block j = 0, 1, ... has 2^j E steps, E = ceil(c3 gamma log(N / delta)). With mu_j = c1 2^(-j/2) and
beta_j = c2 gamma 2^(j/2) its strategy, a distribution over arms between small gaps and much
information, is

    P* = argmin_P sum_x P(x) D(x) - (2 / beta_j) log det S(P),
    S(P) = sum_x P(x) phi(x) phi(x)^T + (s / T) I,

with empirical gaps D from all blocks before; A = {x: D(x) <= 2 alpha gamma / beta_j}, alpha = c4 s
/ log(N / delta); Q = (P* + the D-optimal design of A) / 2; played is (1 - mu_j) Q + mu_j (D-optimal
design of all). Rewards are estimated by importance weights: r(x) = phi(x)^T mean_t S(P_t)^-1
phi(x_t) (y_t - c), with the mean c of all rewards so far: gaps must not depend on where zero is.

ADA: in each slot of 2^m E steps of a block j the strategy of m < j is replayed with probability
2^((m-j)/2), the smallest m of those that cover a step counts; at the end of a replay everything starts
again if gaps of it and of the blocks before some k <= j disagree: for an arm,

    D_I(x) - 4 D_C(k)(x) > 4 c0 mu_min(m,k),  or the same with D_I and D_C(k) exchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.bandit import adapter
from tvbandits.bandit.adapter import RunningMean
from tvbandits.bandit.policy import kernel_or_default
from tvbandits.data import Dataset, Plays
from tvbandits.domains.availability import ChoiceSet
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.gp.kernel_matrix import eigen_features
from tvbandits.gp.linalg import cholesky, inverse
from tvbandits.gp.state_space import CONFIG as FILTER_CONFIG
from tvbandits.validation import (
    Array,
    Seed,
    as_bool,
    check_instance,
    finite_number,
    nonnegative_number,
    positive_number,
    whole_number,
)

# Most steps of a search on the simplex, and the gap of its duality, over the weight, that ends it.
SWEEPS, ENOUGH = 5000, 1e-11

# So many updates of an inverse, before it is computed anew.
FRESH = 50


def inverse_moment(features: Array, P: Array, ridge: float) -> Array:
    """S(P)^-1, shape (r, r)."""
    S = (features.T * P) @ features
    S[np.diag_indices_from(S)] += ridge
    return inverse(cholesky(S, "second moment").L)


class Moment:
    """S(P)^-1 (r, r), and x^T S(P)^-1 x of every arm (A,), as mass goes from arm to arm."""

    def __init__(self, features: Array, P: Array, ridge: float) -> None:
        self._features, self._ridge = features, ridge
        self.renew(P)

    def renew(self, P: Array) -> None:
        """Compute both out of the distribution."""
        self.inverse = inverse_moment(self._features, P, self._ridge)
        self.norms = np.einsum("ar,ar->a", self._features @ self.inverse, self._features)
        self.age = 0

    def add(self, row: int, share: float) -> None:
        """Mass for an arm, negative if it loses some: the formula of Sherman and Morrison."""
        u = self.inverse @ self._features[row]
        scale = share / (1.0 + share * float(self._features[row] @ u))
        self.inverse = self.inverse - scale * np.outer(u, u)
        self.norms = self.norms - scale * (self._features @ u) ** 2
        self.age += 1


def strategy(features: Array, gaps: Array, weight: float, ridge: float) -> Array:
    """Argmin over the simplex of P . gaps - weight log det S(P), shape (A,).

    By pairwise Frank-Wolfe steps: mass goes from the arm of the largest slope that has some to the arm
    of the least slope, as much as is best along that line. Gaps of zero give the D-optimal design. With
    hundreds of arms the steps are used up before the gap of duality is small.
    """
    P = np.full(len(features), 1.0 / len(features))
    moment = Moment(features, P, ridge)
    for _ in range(SWEEPS):
        slope = gaps - weight * moment.norms
        to = int(np.argmin(slope))
        close = float(P @ slope - slope[to]) <= ENOUGH * max(weight, 1e-12)
        if close and moment.age == 0:
            break
        if close or moment.age >= FRESH:
            moment.renew(P)
            continue
        mass = np.flatnonzero(P > 0)
        source = int(mass[np.argmax(slope[mass])])
        x, z = features[to], features[source]
        reach = moment.inverse @ x
        products = (float(x @ reach), float(moment.norms[source]), float(z @ reach))
        share = _share(products, float(gaps[to] - gaps[source]), weight, float(P[source]))
        P[to] += share
        P[source] = 0.0 if share == P[source] else P[source] - share
        moment.add(to, share)
        moment.add(source, -share)
    return np.asarray(P / P.sum())


def _share(
    products: tuple[float, float, float], from_here: float, weight: float, most: float
) -> float:
    """How much goes from one arm to another.

    With a = x^T S^-1 x, b = z^T S^-1 z, c = x^T S^-1 z, log det S grows by
    log((1 + s a) (1 - s b) + s^2 c^2) as s goes from z to x: its slope is found to be zero by halving.
    """
    a, b, c = products
    less = c**2 - a * b

    def slope(s: float) -> float:
        grown = 1 + s * (a - b) + s**2 * less
        if grown <= 0:  # nothing else spans that arm's direction: log det falls without end
            return math.inf
        return from_here - weight * (a - b + 2 * s * less) / grown

    # All of an arm's mass goes only if that is best.
    if slope(most) <= 0:
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low


@dataclass(frozen=True)
class Constants:
    """What the algorithm is run with; c0, ..., c4 are tuned over decades in [HL].

    Parameters
    ----------
    horizon : int
        T, the length of a run.
    gain : float
        gamma, the largest information gain of a run.
    delta : float
        Probability of failure.
    c0 : float
        How far gaps must disagree for a restart.
    c1 : float
        Of mu_j, the share of the design over all arms.
    c2 : float
        Of beta_j, the weight of gaps against exploration.
    c3 : float
        Of E, the length of the first block.
    c4 : float
        Of alpha, which decides how large the set A is.
    """

    horizon: int = 500
    gain: float = 10.0
    delta: float = 0.05
    c0: float = 1.0
    c1: float = 1.0
    c2: float = 1.0
    c3: float = 0.1
    c4: float = 1.0

    def __post_init__(self) -> None:
        whole_number("horizon", self.horizon)
        finite_number("delta", self.delta, above=0.0, below=1.0)
        for name in ("c0", "c1", "c4"):
            nonnegative_number(name, getattr(self, name))
        for name in ("c2", "c3", "gain"):
            positive_number(name, getattr(self, name))

    def mu(self, j: int) -> float:
        """mu_j, at most 1."""
        return min(1.0, self.c1 * math.pow(2.0, -j / 2))

    def beta(self, j: int) -> float:
        """beta_j."""
        return self.c2 * self.gain * math.pow(2.0, j / 2)

    def near(self, j: int, arms: int, noise: float) -> float:
        """The largest gap of an arm in A, where s is the deviation of the noise."""
        alpha = self.c4 * noise / math.log(arms / self.delta)
        return 2.0 * alpha * self.gain / self.beta(j)


@dataclass
class Replay:
    """A strategy m, to be played from step `start` to before `end` of its block."""

    order: int
    start: int
    end: int


@dataclass
class Epoch:
    """Since the last restart: strategies, replays of the present block, and weighted rewards.

    `inverses` has S(P)^-1 of each strategy; `weighted` S(P_t)^-1 phi(x_t) (y_t, 1) of each step of the
    block, shape (r, 2); `before` their sum before each block, with the numbers of steps.
    """

    strategies: list[Array] = field(default_factory=list)
    inverses: list[Array] = field(default_factory=list)
    replays: list[Replay] = field(default_factory=list)
    weighted: list[Array] = field(default_factory=list)
    before: list[tuple[Array, int]] = field(default_factory=lambda: [(np.zeros((1, 2)), 0)])

    @property
    def block(self) -> int:
        """The block that is played."""
        return len(self.before) - 1


@dataclass(eq=False)
class Opkb:
    """The rule.

    Parameters
    ----------
    domain : Candidates
    features : array of shape (A, r)
    constants : Constants
    centre : RunningMean
    noise : float
        Variance of the noise, which designs look at from then on.
    adaptive : bool
        Replay and restart (ADA-OPKB), or not (OPKB).
    chosen : list
        Plays that are out: the bytes of the point, and the strategy that it was drawn from.
    epoch : Epoch
    restarts : int
    """

    domain: Candidates
    features: Array
    constants: Constants
    centre: RunningMean
    noise: float
    adaptive: bool
    chosen: list[tuple[bytes, int]] = field(default_factory=list)
    epoch: Epoch = field(default_factory=Epoch)
    restarts: int = 0

    @property
    def ridge(self) -> float:
        """What is added to the diagonal of every S(P): more than rounding takes off it."""
        largest = float(np.einsum("ar,ar->a", self.features, self.features).max())
        rounding = FILTER_CONFIG.smallest_noise * largest
        return max(math.sqrt(self.noise) / self.constants.horizon, rounding)

    @property
    def length(self) -> int:
        """E, of the first block."""
        constants = self.constants
        return math.ceil(
            constants.c3 * constants.gain * math.log(len(self.domain) / constants.delta)
        )

    @cached_property
    def uniformly(self) -> Array:
        """The design over all arms, shape (A,)."""
        return strategy(self.features, np.zeros(len(self.domain)), 1.0, self.ridge)

    def choose(self, now: float, allowed: ChoiceSet, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Draw an arm from the strategy that counts in this step."""
        epoch = self._epoch_now(rng)
        waiting = {x.tobytes() for x in out.X}
        self.chosen = [each for each in self.chosen if each[0] in waiting]
        order = self._order(len(epoch.weighted) + len(self.chosen))
        P = epoch.strategies[order]
        free = allowed(self.domain.X)
        if not (P * free).any():
            return allowed.sample(rng)
        row = int(rng.choice(len(P), p=P * free / (P * free).sum()))
        x = np.asarray(self.domain.X[row].copy())
        self.chosen.append((x.tobytes(), order))
        return x

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Weight the rewards of plays that were drawn; test; go on to the next block."""
        for x, y in zip(rewards.X, rewards.y, strict=True):
            drawn = next((each for each in self.chosen if each[0] == x.tobytes()), None)
            if drawn is None:
                continue
            self.chosen.remove(drawn)
            self.centre = self.centre.update(float(y))
            phi = self.features[int(self.domain.index(x[None])[0])]
            weight = self.epoch.inverses[drawn[1]] @ phi
            self._epoch_now(rng).weighted.append(np.outer(weight, [float(y), 1.0]))
            if self.adaptive and self._changed():
                self.restarts += 1
                self.epoch, self.chosen = Epoch(), []
            elif len(self.epoch.weighted) == 2**self.epoch.block * self.length:
                self._end_block()

    def gaps(self, total: Array, count: int) -> Array:
        """Empirical gaps (A,) from a sum of weighted rewards of `count` steps; zeros from none."""
        if count == 0:
            return np.zeros(len(self.features))
        rewards = self.features @ (total[:, 0] - self.centre.value * total[:, 1]) / count
        return np.asarray(rewards.max() - rewards)

    def _epoch_now(self, rng: np.random.Generator) -> Epoch:
        """The epoch, in a block that has begun: plays that are out may last beyond the one before it."""
        j, constants, epoch = self.epoch.block, self.constants, self.epoch
        if len(epoch.strategies) > j:
            return epoch
        D = self.gaps(*epoch.before[j])
        P = strategy(self.features, D, 2.0 / constants.beta(j), self.ridge)
        near = np.flatnonzero(constants.near(j, len(D), math.sqrt(self.noise)) >= D)
        design = np.zeros(len(D))
        design[near] = strategy(self.features[near], np.zeros(len(near)), 1.0, self.ridge)
        mu = constants.mu(j)
        mixed = (1 - mu) * (P + design) / 2 + mu * self.uniformly
        epoch.strategies.append(mixed / mixed.sum())
        epoch.inverses.append(inverse_moment(self.features, epoch.strategies[j], self.ridge))
        for m in range(j if self.adaptive else 0):
            span = 2**m * self.length
            for slot in range(2 ** (j - m)):
                if rng.random() < 2.0 ** ((m - j) / 2):
                    epoch.replays.append(Replay(m, slot * span, (slot + 1) * span))
        return epoch

    def _order(self, step: int) -> int:
        """The smallest order of the replays that cover a step, or the block's own."""
        orders = [each.order for each in self.epoch.replays if each.start <= step < each.end]
        return min(orders, default=self.epoch.block)

    def _changed(self) -> bool:
        """Whether a replay that ends now disagrees with what was known before."""
        epoch, c0 = self.epoch, self.constants.c0
        for replay in epoch.replays:
            if replay.end != len(epoch.weighted):
                continue
            part = epoch.weighted[replay.start : replay.end]
            D = self.gaps(np.sum(part, axis=0), len(part))
            for k in range(1, epoch.block + 1):
                other = self.gaps(*epoch.before[k])
                most = 4 * c0 * self.constants.mu(min(replay.order, k))
                if (D - 4 * other > most).any() or (other - 4 * D > most).any():
                    return True
        return False

    def _end_block(self) -> None:
        epoch = self.epoch
        total, count = epoch.before[-1]
        total = total + np.sum(epoch.weighted, axis=0)
        epoch.before.append((total, count + len(epoch.weighted)))
        epoch.weighted, epoch.replays = [], []


def ada_opkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    constants: Constants | None = None,
    scale: float = 1.0,
    adaptive: bool = True,
    minimize: bool = False,
    seed: Seed = 0,
) -> adapter.PolicyAdapter:
    """ADA-OPKB (Hong 2023): optimizes the chances of the arms, replays the past, and restarts.

    Not `adaptive`: OPKB, for rewards that stand still.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    constants : Constants, optional
        A comparison has its own horizon and information gain.
    scale : float
        Prior deviation of rewards, which they are divided by, less their mean.
    adaptive : bool
        Whether it replays the past, and restarts.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> bandit = policies.ada_opkb(Candidates([[0.0], [2.0]]), kernel=RBF(1.0), noise_variance=0.01)
    """
    kernel = kernel_or_default(adapter.get_action_domain(domain), kernel)
    noise = adapter.compute_initial_noise(noise_variance, scale)
    if constants is None:
        constants = Constants()
    check_instance("constants", constants, Constants, "Constants(...)")
    as_bool("adaptive", adaptive)
    arms = adapter.get_finite_action_domain(domain, "OPKB")
    # Each part may be usable, and what is computed of them overflow, or vanish.
    weight = constants.c2 * constants.gain
    block = constants.c3 * constants.gain * math.log(len(arms) / constants.delta)
    for name, value in {"c2 * gain": weight, "c3 * gain * log(A / delta)": block}.items():
        positive_number(name, value)
    features = eigen_features(kernel, arms.X)[0]
    rule = Opkb(arms, features, constants, RunningMean("online"), noise, adaptive)
    return adapter.adapt(domain, rule, kernel, noise_variance, scale, minimize=minimize, seed=seed)
