"""OPKB and ADA-OPKB: bandits that optimise the probabilities of arms, and replay old strategies.

[HL] = K. Hong, Y. Li and A. Tewari. An optimization-based algorithm for non-stationary kernel bandits
without prior knowledge. AISTATS 2023.

Block j = 0, 1, ... has 2^j E steps, E = ceil(c3 gamma log(N / delta)). With mu_j = c1 2^(-j/2) and
beta_j = c2 gamma 2^(j/2) its strategy, a distribution over arms that weighs small gaps against
information, is

    P* = argmin_P sum_x P(x) D(x) - (2 / beta_j) log det S(P),
    S(P) = sum_x P(x) phi(x) phi(x)^T + (s / T) I,

with the empirical gaps D of all blocks before. With A = {x: D(x) <= 2 alpha gamma / beta_j}, alpha = c4
s / log(N / delta), and Q = (P* + the D-optimal design of A) / 2, the arms are drawn from (1 - mu_j) Q +
mu_j (the D-optimal design of all arms). Rewards are estimated by importance weights: r(x) = phi(x)^T
mean_t S(P_t)^-1 phi(x_t) (y_t - c), with the mean c of all rewards so far, so that gaps do not depend
on an offset of the rewards.

ADA-OPKB: in each slot of 2^m E steps of a block j the strategy of m < j is replayed with probability
2^((m-j)/2); of several replays that cover a step that of the smallest m is played. At the end of a
replay everything starts again if its gaps and those of the blocks before some k <= j disagree: if for
an arm

    D_I(x) - 4 D_C(k)(x) > 4 c0 mu_min(m,k),  or D_C(k)(x) - 4 D_I(x) > 4 c0 mu_min(m,k).
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

# Largest number of steps of a search on the simplex, and the duality gap over the weight that ends it.
MOST_STEPS, DUALITY_GAP = 5000, 1e-11

# Number of updates of an inverse before it is computed anew.
MOST_UPDATES = 50


def inverse_moment(features: Array, P: Array, ridge: float) -> Array:
    """Return S(P)^-1, shape (r, r)."""
    S = (features.T * P) @ features
    S[np.diag_indices_from(S)] += ridge
    return inverse(cholesky(S, "second moment").L)


class Moment:
    """The matrix S(P)^-1 (r, r), and x^T S(P)^-1 x of every arm (A,), updated as P changes."""

    def __init__(self, features: Array, P: Array, ridge: float) -> None:
        self._features, self._ridge = features, ridge
        self.renew(P)

    def renew(self, P: Array) -> None:
        """Compute both from the distribution."""
        self.inverse = inverse_moment(self._features, P, self._ridge)
        self.norms = np.einsum("ar,ar->a", self._features @ self.inverse, self._features)
        self.age = 0

    def add(self, row: int, share: float) -> None:
        """Add a share to the probability of an arm, by the formula of Sherman and Morrison."""
        u = self.inverse @ self._features[row]
        scale = share / (1.0 + share * float(self._features[row] @ u))
        self.inverse = self.inverse - scale * np.outer(u, u)
        self.norms = self.norms - scale * (self._features @ u) ** 2
        self.age += 1


def strategy(features: Array, gaps: Array, weight: float, ridge: float) -> Array:
    """Return the argmin over the simplex of P . gaps - weight log det S(P), shape (A,).

    Pairwise Frank-Wolfe steps move probability from the arm of the largest slope that has some to the
    arm of the smallest slope, by an exact line search. Gaps of zero give the D-optimal design. With
    hundreds of arms the number of steps is reached before the duality gap is small.
    """
    P = np.full(len(features), 1.0 / len(features))
    moment = Moment(features, P, ridge)
    for _ in range(MOST_STEPS):
        slope = gaps - weight * moment.norms
        target = int(np.argmin(slope))
        is_optimal = float(P @ slope - slope[target]) <= DUALITY_GAP * max(weight, 1e-12)
        if is_optimal and moment.age == 0:
            break
        if is_optimal or moment.age >= MOST_UPDATES:
            moment.renew(P)
            continue
        support = np.flatnonzero(P > 0)
        source = int(support[np.argmax(slope[support])])
        x, z = features[target], features[source]
        u = moment.inverse @ x
        products = (float(x @ u), float(moment.norms[source]), float(z @ u))
        share = _best_share(products, float(gaps[target] - gaps[source]), weight, float(P[source]))
        P[target] += share
        P[source] = 0.0 if share == P[source] else P[source] - share
        moment.add(target, share)
        moment.add(source, -share)
    return np.asarray(P / P.sum())


def _best_share(
    products: tuple[float, float, float], gap_difference: float, weight: float, most: float
) -> float:
    """Return the probability s <= most that the line search moves from arm z to arm x.

    With a = x^T S^-1 x, b = z^T S^-1 z and c = x^T S^-1 z, log det S grows by
    log((1 + s a) (1 - s b) + s^2 c^2). Bisection finds the zero of the slope of the objective.
    """
    a, b, c = products
    curvature = c**2 - a * b

    def slope(s: float) -> float:
        growth = 1 + s * (a - b) + s**2 * curvature
        if growth <= 0:  # no other arm spans the direction of z: log det falls without bound
            return math.inf
        return gap_difference - weight * (a - b + 2 * s * curvature) / growth

    if slope(most) <= 0:
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low


@dataclass(frozen=True)
class Constants:
    """The constants of the algorithm; [HL] tunes c0, ..., c4 over powers of ten.

    Parameters
    ----------
    horizon : int
        T, the number of steps of a run.
    gain : float
        gamma, the largest information gain of a run.
    delta : float
        Probability of failure.
    c0 : float
        Factor of the difference of gaps that leads to a restart.
    c1 : float
        Factor of mu_j, the share of the design over all arms.
    c2 : float
        Factor of beta_j, the weight of gaps against exploration.
    c3 : float
        Factor of E, the length of the first block.
    c4 : float
        Factor of alpha, which decides how large the set A is.
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
        """Return mu_j, at most 1."""
        return min(1.0, self.c1 * math.pow(2.0, -j / 2))

    def beta(self, j: int) -> float:
        """Return beta_j."""
        return self.c2 * self.gain * math.pow(2.0, j / 2)

    def largest_gap(self, j: int, arms: int, noise: float) -> float:
        """Return the largest gap of an arm in A, where s is the deviation `noise`."""
        alpha = self.c4 * noise / math.log(arms / self.delta)
        return 2.0 * alpha * self.gain / self.beta(j)


@dataclass
class Replay:
    """A replay of the strategy m from step `start` to before `end` of its block."""

    order: int
    start: int
    end: int


@dataclass
class Epoch:
    """The strategies, replays and weighted rewards since the last restart.

    Attributes
    ----------
    strategies : list of arrays of shape (A,)
        P of each block.
    inverses : list of arrays of shape (r, r)
        S(P)^-1 of each strategy.
    replays : list of Replay
        Those of the present block.
    weighted : list of arrays of shape (r, 2)
        S(P_t)^-1 phi(x_t) (y_t, 1) of each step of the present block.
    before : list of pairs
        Their sum before each block, and the number of steps.
    """

    strategies: list[Array] = field(default_factory=list)
    inverses: list[Array] = field(default_factory=list)
    replays: list[Replay] = field(default_factory=list)
    weighted: list[Array] = field(default_factory=list)
    before: list[tuple[Array, int]] = field(default_factory=lambda: [(np.zeros((1, 2)), 0)])

    @property
    def block(self) -> int:
        """Return the number of the present block."""
        return len(self.before) - 1


@dataclass(eq=False)
class Opkb:
    """The rule of `ada_opkb`.

    Parameters
    ----------
    domain : Candidates
    features : array of shape (A, r)
    constants : Constants
    centre : RunningMean
    noise : float
        Noise variance of a reward, in prior variances.
    adaptive : bool
        Replay and restart (ADA-OPKB), or not (OPKB).
    pending : list
        Of each pending play, the bytes of the point, and the strategy that drew it.
    epoch : Epoch
    restarts : int
    """

    domain: Candidates
    features: Array
    constants: Constants
    centre: RunningMean
    noise: float
    adaptive: bool
    pending: list[tuple[bytes, int]] = field(default_factory=list)
    epoch: Epoch = field(default_factory=Epoch)
    restarts: int = 0

    @property
    def ridge(self) -> float:
        """Return the regulariser of S(P), which is larger than its rounding errors."""
        largest = float(np.einsum("ar,ar->a", self.features, self.features).max())
        rounding = FILTER_CONFIG.smallest_noise * largest
        return max(math.sqrt(self.noise) / self.constants.horizon, rounding)

    @property
    def length(self) -> int:
        """Return E, the length of the first block."""
        constants = self.constants
        return math.ceil(
            constants.c3 * constants.gain * math.log(len(self.domain) / constants.delta)
        )

    @cached_property
    def design(self) -> Array:
        """Return the D-optimal design over all arms, shape (A,)."""
        return strategy(self.features, np.zeros(len(self.domain)), 1.0, self.ridge)

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return an arm (d,) drawn from the strategy of this step."""
        epoch = self._present_epoch(rng)
        points = {x.tobytes() for x in pending.X}
        self.pending = [each for each in self.pending if each[0] in points]
        order = self._order(len(epoch.weighted) + len(self.pending))
        P = epoch.strategies[order]
        P = P * allowed(self.domain.X)
        if not P.any():
            return allowed.sample(rng)
        row = int(rng.choice(len(P), p=P / P.sum()))
        x = np.asarray(self.domain.X[row].copy())
        self.pending.append((x.tobytes(), order))
        return x

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Weight the rewards of points that a strategy drew; then restart, or begin the next block."""
        for x, y in zip(rewards.X, rewards.y, strict=True):
            play = next((each for each in self.pending if each[0] == x.tobytes()), None)
            if play is None:
                continue
            self.pending.remove(play)
            self.centre = self.centre.update(float(y))
            phi = self.features[int(self.domain.index(x[None])[0])]
            weight = self.epoch.inverses[play[1]] @ phi
            self._present_epoch(rng).weighted.append(np.outer(weight, [float(y), 1.0]))
            if self.adaptive and self._has_changed():
                self.restarts += 1
                self.epoch, self.pending = Epoch(), []
            elif len(self.epoch.weighted) == 2**self.epoch.block * self.length:
                self._end_block()

    def gaps(self, total: Array, count: int) -> Array:
        """Return empirical gaps (A,) from the sum of weighted rewards of `count` steps; 0 for none."""
        if count == 0:
            return np.zeros(len(self.features))
        rewards = self.features @ (total[:, 0] - self.centre.value * total[:, 1]) / count
        return np.asarray(rewards.max() - rewards)

    def _present_epoch(self, rng: np.random.Generator) -> Epoch:
        """Return the epoch, with the strategy of its present block.

        Pending plays may be of the block before.
        """
        j, constants, epoch = self.epoch.block, self.constants, self.epoch
        if len(epoch.strategies) > j:
            return epoch
        D = self.gaps(*epoch.before[j])
        P = strategy(self.features, D, 2.0 / constants.beta(j), self.ridge)
        rows = np.flatnonzero(constants.largest_gap(j, len(D), math.sqrt(self.noise)) >= D)
        design = np.zeros(len(D))
        design[rows] = strategy(self.features[rows], np.zeros(len(rows)), 1.0, self.ridge)
        mu = constants.mu(j)
        mixed = (1 - mu) * (P + design) / 2 + mu * self.design
        epoch.strategies.append(mixed / mixed.sum())
        epoch.inverses.append(inverse_moment(self.features, epoch.strategies[j], self.ridge))
        for m in range(j if self.adaptive else 0):
            span = 2**m * self.length
            for slot in range(2 ** (j - m)):
                if rng.random() < 2.0 ** ((m - j) / 2):
                    epoch.replays.append(Replay(m, slot * span, (slot + 1) * span))
        return epoch

    def _order(self, step: int) -> int:
        """Return the smallest order of the replays that cover a step, or that of the block."""
        orders = [each.order for each in self.epoch.replays if each.start <= step < each.end]
        return min(orders, default=self.epoch.block)

    def _has_changed(self) -> bool:
        """Return whether a replay that ends now disagrees with the blocks before."""
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
    """ADA-OPKB (Hong 2023): optimise the probabilities of the arms, replay old strategies, and restart.

    With `adaptive=False` it is OPKB, for rewards that do not drift.

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
        The constants of the algorithm; a comparison sets horizon and information gain.
    scale : float
        Prior deviation of rewards.
    adaptive : bool
        Whether it replays old strategies, and restarts.
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
    # Products of valid constants may overflow or vanish.
    weight = constants.c2 * constants.gain
    block = constants.c3 * constants.gain * math.log(len(arms) / constants.delta)
    for name, value in {"c2 * gain": weight, "c3 * gain * log(A / delta)": block}.items():
        positive_number(name, value)
    features = eigen_features(kernel, arms.X)[0]
    rule = Opkb(arms, features, constants, RunningMean("online"), noise, adaptive)
    return adapter.adapt(domain, rule, kernel, noise_variance, scale, minimize=minimize, seed=seed)
