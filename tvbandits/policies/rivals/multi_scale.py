"""MASTER: adapts any bandit to drift, by copies on many time scales and two tests.

[WL] = C.-Y. Wei and H. Luo. Non-stationary reinforcement learning without prior knowledge: an optimal
black-box approach. COLT 2021.

A block of 2^n steps has 2^(n-m) slots of each order m = n, ..., 0. In each slot a copy of the base, of
length 2^m, starts with probability rho(2^n) / rho(2^m), which is 1 for order n. The shortest copy that
covers a step chooses its point and learns from its reward; the others do nothing. The optimistic value
g~ of a step is the upper bound at its point, and U is the smallest g~ of the block. Where the mean is
learned, a copy gets rewards less the mean of all rewards before its start, so that its prior mean is
that mean. Everything starts again at n = 0

    1. at the end of a copy of order m, if the mean reward over its time is at least U + 9 rho^(2^m);
    2. if the mean of g~ - reward over the block so far is at least 3 rho^(its length);

with rho(t) = min(1, regret / sqrt t), the shape of the bound on the base's average regret, and
rho^(t) = factor (log2 T + 1) log(T / delta) rho(t). Rewards are in prior deviations.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvbandits.bandit import adapter
from tvbandits.bandit.adapter import RunningMean
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.extremes import OutlierWarning
from tvbandits.bandit.options import Mean, Options
from tvbandits.bandit.policy import DEFAULT_WIDTH, Width, kernel_or_default, make_bandit
from tvbandits.data import Dataset, Plays
from tvbandits.domains.availability import ChoiceSet, NothingAvailableError
from tvbandits.domains.domain import Domain
from tvbandits.validation import (
    LARGEST_VALUE,
    Array,
    Seed,
    check_function,
    check_instance,
    finite_number,
    nonnegative_number,
    positive_number,
    whole_number,
)

Base = Callable[..., Bandit]


@dataclass(frozen=True)
class Thresholds:
    """The constants of the two tests.

    Parameters
    ----------
    horizon : int
        T, the number of steps of a run.
    delta : float
        Probability of a false alarm.
    regret : float
        The average regret of the base over t steps is assumed to be min(1, regret / sqrt(t)).
    factor : float
        The factor in both tests, 6 in the paper.
    """

    horizon: int = 500
    delta: float = 0.05
    regret: float = 1.0
    factor: float = 6.0

    def __post_init__(self) -> None:
        whole_number("horizon", self.horizon)
        finite_number("delta", self.delta, above=0.0, below=1.0)
        positive_number("regret", self.regret)
        nonnegative_number("factor", self.factor)

    def rho(self, t: float) -> float:
        """Return the average regret of the base over t steps that is assumed."""
        return min(1.0, self.regret / math.sqrt(t))

    def rho_hat(self, t: float) -> float:
        """Return rho^(t), the bound on the average regret with high probability."""
        T = self.horizon
        return self.factor * (math.log2(T) + 1) * math.log(T / self.delta) * self.rho(t)


@dataclass
class Copy:
    """A copy of the base for the steps `start` to `end` of its block, both included.

    It gets rewards in prior deviations less `centre`. This is the mean of the rewards before its start,
    or the first reward if there was none before (None until then); and 0 where the prior mean is a
    number.
    """

    order: int
    start: int
    end: int
    bandit: Bandit
    centre: float | None


@dataclass
class Block:
    """The present block, with a number for each step; copies are drawn for the first `drawn_steps`."""

    order: int
    drawn_steps: int = 0
    copies: list[Copy] = field(default_factory=list)
    optimistic: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


@dataclass(eq=False)
class Master:
    """The rule of `master`.

    Parameters
    ----------
    base : callable or None
        The recipe of the copies; None: GP-UCB.
    domain, kernel, noise, beta
        Arguments of the recipe.
    tests : Thresholds
    centre : RunningMean
        The mean of rewards, where it is learned.
    block : Block
        The present block.
    pending : list
        Of each pending play, the point, the copy that chose it, and its optimistic value.
    restarts : int
        Number of restarts so far.
    """

    base: Base | None
    domain: Domain
    kernel: Any
    noise: float
    beta: Width
    tests: Thresholds
    centre: RunningMean
    block: Block = field(default_factory=lambda: Block(0))
    pending: list[tuple[Array, Copy, float]] = field(default_factory=list)
    restarts: int = 0

    def _copy_base(self, seed: int) -> Bandit:
        """Return a copy of the base with this seed."""
        recipe: Base = make_bandit if self.base is None else self.base
        return recipe(
            self.domain,
            kernel=self.kernel,
            noise_variance=self.noise,
            beta=self.beta,
            options=Options(mean=self.centre.prior),
            seed=seed,
        )

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return the point (d,) of the shortest copy that covers the step, given all pending plays."""
        active = self._active(rng)
        if active.bandit.state.pending != pending:
            state = active.bandit.state.with_record(pending=pending)
            active.bandit = Bandit.from_state(active.bandit.recipe, state)
        bandit = active.bandit
        try:
            x: Array = bandit.ask(now, available=None if allowed.is_everything else allowed)[0]
        except NothingAvailableError:
            allowed.sample(rng)  # all points of a small space are pending: they may be chosen again
            x = bandit.ask(now, available=allowed)[0]
        mean, deviation = bandit.predict(x[None], now)
        optimistic = float(mean[0] + bandit.info.beta * deviation[0])
        points = {each.tobytes() for each in pending.X}
        self.pending = [each for each in self.pending if each[0].tobytes() in points]
        self.pending.append((x, active, optimistic))
        return x

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Update the copies that chose the points, and restart if a test fails.

        Rewards of points that the policy did not choose are ignored.
        """
        for x, t, y, v in zip(rewards.X, rewards.t, rewards.y, rewards.variance, strict=True):
            play = next((each for each in self.pending if np.array_equal(each[0], x)), None)
            if play is None:
                continue
            self.pending = [each for each in self.pending if each is not play]
            _, copy, optimistic = play
            if copy.centre is None:
                copy.centre = self.centre.before(float(y))
            self.centre = self.centre.update(float(y))
            centred = np.clip([float(y) - copy.centre], -LARGEST_VALUE, LARGEST_VALUE)
            with warnings.catch_warnings():  # the adapter has warned of the reward itself
                warnings.simplefilter("ignore", OutlierWarning)
                copy.bandit.tell(x[None], centred, t, v)
            self._active(rng)
            self.block.optimistic.append(copy.centre + optimistic)
            self.block.rewards.append(float(y))
            if self._has_changed():
                self.restarts += 1
                self.block, self.pending = Block(0), []
            elif len(self.block.rewards) == 2**self.block.order:
                self.block = Block(self.block.order + 1)

    def _active(self, rng: np.random.Generator) -> Copy:
        """Return the shortest copy that covers the present step, after the copies that start in it."""
        step, copies = len(self.block.rewards), self.block.copies
        if self.block.drawn_steps == step:
            self.block.drawn_steps += 1
            n, rho = self.block.order, self.tests.rho
            mean = self.centre.value if self.centre.count else None
            centre = mean if self.centre.prior == "online" else 0.0
            for m in range(n, -1, -1):
                starts = step % 2**m == 0
                if starts and (m == n or rng.random() < rho(2**n) / rho(2**m)):
                    bandit = self._copy_base(int(rng.integers(2**31)))
                    copies.append(Copy(m, step, step + 2**m - 1, bandit, centre))
        covering = [copy for copy in copies if copy.start <= step <= copy.end]
        return min(covering, key=lambda copy: (copy.order, -copy.start))

    def _has_changed(self) -> bool:
        """Return whether one of the tests says that the rewards have changed."""
        block, tests = self.block, self.tests
        step = len(block.rewards) - 1
        lowest = min(block.optimistic)
        for copy in block.copies:
            if copy.end == step:
                mean = float(np.mean(block.rewards[copy.start : copy.end + 1]))
                if mean >= lowest + 9.0 * tests.rho_hat(2**copy.order):
                    return True
        shortfall = float(np.mean(np.subtract(block.optimistic, block.rewards)))
        return shortfall >= 3.0 * tests.rho_hat(step + 1)


def master(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    base: Base | None = None,
    thresholds: Thresholds | None = None,
    scale: float = 1.0,
    beta: Width = DEFAULT_WIDTH,
    mean: Mean = "online",
    minimize: bool = False,
    seed: Seed = 0,
) -> adapter.PolicyAdapter:
    """MASTER (Wei & Luo 2021): run copies of a bandit on many time scales, with restarts.

    With the constants of the paper the tests hardly ever lead to a restart.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    base : callable, optional
        A recipe with the parameters (domain, kernel=, noise_variance=, beta=, options=, seed=). GP-UCB
        by default; on the command line for example tvbandits.policies:w_gp_ucb.
    thresholds : Thresholds, optional
        The constants of the two tests, by default those of the paper. A comparison sets the horizon.
    scale : float
        Prior deviation of rewards, where the mean is "online".
    beta : Confidence, float, "theory" or another name in `WIDTHS`
        The width of mean + beta deviations; a number is a constant width.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.master(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.ask(11).shape)
    10 (1, 1)
    """
    kernel = kernel_or_default(adapter.get_action_domain(domain), kernel)
    if thresholds is None:
        thresholds = Thresholds()
    check_instance("thresholds", thresholds, Thresholds, "Thresholds(...)")
    if base is not None:
        check_function("base", base, "a function that makes a Bandit, such as policies.w_gp_ucb")
    unit, noise, prior = adapter.choose_rule_unit(
        noise_variance, scale, mean=mean, minimize=minimize
    )
    rule = Master(
        base, adapter.get_action_domain(domain), kernel, noise, beta, thresholds, RunningMean(prior)
    )
    check_instance("the result of base", rule._copy_base(0), Bandit, "a Bandit")
    return adapter.adapt(domain, rule, kernel, noise_variance, unit, minimize=minimize, seed=seed)
