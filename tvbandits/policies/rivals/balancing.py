"""LB-GP-UCB: balances length scales, of which the one of the smallest suspected regret plays.

[LB] = J. Ziomek, M. Adachi and M. A. Osborne. Bayesian optimisation with unknown hyperparameters:
regret bounds logarithmically closer to optimal. arXiv 2410.10384, 2024.

The equations restate those of the authors' program (JuliuszZiomek/LB-GP-UCB), without any code of it.
Of the paper itself only the abstract and the introduction were available.

At play t the candidates are

    theta_j = theta_H exp(-j / (d + 5)),  j = 0, 1, ...,  as long as theta_j > theta_H / g(t),
    g(t) = max(exp(5 / (d + 5)), t^growth).

Of those that are not rejected, the one of the smallest R(n_j + 1, theta_j) plays the point of its
largest upper bound given all data. n_j is the number of its plays so far; the constant factor of R is
left out:

    R(n, theta) = sqrt(n theta^-d L) (sqrt(theta^-d L) + 1),    L = log(n)^(d+1).

Once all have played, j is rejected if, with the mean reward y_j of its plays, their widths beta sigma,
and xi = 2 noise log(candidates pi^2 t^2 / (6 delta)),

    y_j + mean(widths of j) + sqrt(xi / n_j)  <  max over i of  y_i - sqrt(xi / n_i).

Here theta_H is the length scale of the kernel, which the program fits to some random plays; beta is a
number, which the program computes from the information gain; and sigma is the deviation of the reward
without noise. The window for drift is not in the paper, and no theorem covers it: models, means and
counts n_j use the last W rewards, t is at most W, and a rejected length scale returns after W rewards.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Matern

from tvbandits.bandit import adapter
from tvbandits.bandit.options import Mean
from tvbandits.bandit.policy import DEFAULT_WIDTH, Width, kernel_or_default
from tvbandits.data import Dataset, Plays
from tvbandits.domains.availability import ChoiceSet
from tvbandits.domains.domain import Domain
from tvbandits.domains.space import get_space
from tvbandits.gp.additive import ends_of
from tvbandits.gp.linalg import cholesky, solve_lower
from tvbandits.validation import Array, Seed, check_optional, describe, finite_number, whole_number

# Number of length scales at the start.
FIRST = 5

# Ends of the names of length scales; the second is that of `PerParameter`.
LENGTHS = ("length_scale", "scales")


def length_scales_of(kernel: Any) -> dict[str, Any]:
    """Return the length scales of a kernel by the names of its parameters."""
    parameters = kernel.get_params()
    return {name: parameters[name] for name in parameters if name.endswith(LENGTHS)}


def with_length_scales(kernel: Any, factor: float) -> Any:
    """Return a copy of the kernel with all length scales multiplied by a factor."""
    shorter = {name: factor * np.asarray(each) for name, each in length_scales_of(kernel).items()}
    return clone(kernel).set_params(**shorter)


def log_suspected_regret(n: int, theta: float, dimension: int) -> float:
    """Return the logarithm of R(n, theta) for n = 1, 2, ... plays; minus infinity for the first."""
    if n == 1:
        return -math.inf
    reach = (dimension + 1) * math.log(math.log(n)) - dimension * math.log(theta)
    return 0.5 * (math.log(n) + reach) + float(np.logaddexp(reach / 2, 0.0))


@dataclass(eq=False)
class LengthScaleBalancing:
    """The rule of `lb_gp_ucb`.

    Parameters
    ----------
    kernel : scikit-learn kernel
        The kernel with the longest length scale.
    longest : float
        theta_H, in sides of the domain.
    noise : float
        Noise variance of a reward.
    width : float
        beta.
    growth : float
        The exponent of g.
    delta : float
        Probability of a wrong rejection.
    window : int or None
        W; None: all rewards are used.
    mean : float or "online"
        Prior mean of rewards; "online": the mean of `data`.
    data : Dataset
        The rewards within the window.
    sources : list of int
        For each of them the j that chose its point; -1 if the policy did not choose it.
    widths : list of float
        beta sigma of each when its point was chosen; 0 if the policy did not choose it.
    reward_count : int
        Number of rewards so far.
    rejected : dict
        Of each rejected j, the number of rewards at that time.
    pending : list
        Of each pending play, the bytes of the point, the j that chose it, and beta sigma.
    """

    kernel: Any
    longest: float
    noise: float
    width: float
    growth: float
    delta: float
    window: int | None
    mean: Mean
    data: Dataset
    sources: list[int] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    reward_count: int = 0
    rejected: dict[int, int] = field(default_factory=dict)
    pending: list[tuple[bytes, int, float]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the number of rewards within the window."""
        return len(self.data)

    def ratio(self, j: int) -> float:
        """Return theta_j / theta_H."""
        return math.exp(-j / (self.data.dimension + 5))

    def candidates(self, t: int) -> list[int]:
        """Return the j of the candidates at play `t` that are not rejected."""
        t = self._within(t)
        count = math.ceil((self.data.dimension + 5) * self.growth * math.log(t))
        return [j for j in range(max(FIRST, count)) if j not in self.rejected]

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return the largest upper bound's point (d,) under the length scale of the smallest R."""
        points = {x.tobytes() for x in pending.X}
        self.pending = [each for each in self.pending if each[0] in points]
        counts = Counter(self.sources) + Counter(each[1] for each in self.pending)
        dimension = self.data.dimension

        def regret(j: int) -> float:
            return log_suspected_regret(counts[j] + 1, self.longest * self.ratio(j), dimension)

        j = min(self.candidates(self.reward_count + len(self.pending) + 1), key=regret)
        predict = self.posterior(j, pending)

        def bound(X: Array) -> Array:
            mean, deviation = predict(X)
            return mean + self.width * deviation

        x = allowed.find_best(bound, rng)
        self.pending.append((x.tobytes(), j, self.width * float(predict(x[None])[1][0])))
        return x

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Add rewards one by one, and reject length scales after each."""
        for i, x in enumerate(rewards.X):
            unknown = (x.tobytes(), -1, 0.0)
            play = next((each for each in self.pending if each[0] == unknown[0]), unknown)
            self.pending = [each for each in self.pending if each is not play]
            self.data = self.data.append(rewards.take(slice(i, i + 1)))
            self.sources = [*self.sources, play[1]]
            self.widths = [*self.widths, play[2]]
            self.reward_count += 1
            if self.window is not None:
                self._forget(self.window)
            self._reject()

    def posterior(self, j: int, pending: Plays) -> Callable[[Array], tuple[Array, Array]]:
        """Return the function of points (m, d) whose values are mean (m,) and deviation (m,) under j.

        The rewards of pending plays are taken to equal their means.
        """
        kernel, data = with_length_scales(self.kernel, self.ratio(j)), self.data
        data_mean = float(data.y.mean()) if len(data) else 0.0
        centre = data_mean if self.mean == "online" else float(self.mean)
        X = np.concatenate([data.X, pending.X])
        variance = np.concatenate([data.variance, np.full(len(pending), self.noise)])
        K = kernel(X) if len(X) else np.empty((0, 0))
        data_root = cholesky(K[: len(data), : len(data)] + np.diag(data.variance)).L
        weights = solve_lower(data_root, solve_lower(data_root, data.y - centre), transposed=True)
        L = data_root if len(X) == len(data) else cholesky(K + np.diag(variance)).L

        def predict(points: Array) -> tuple[Array, Array]:
            prior = kernel.diag(points)
            if not len(X):
                return np.full(len(points), centre), np.sqrt(prior)
            cross = kernel(X, points)
            solved = solve_lower(L, cross)
            variance = np.maximum(prior - np.einsum("nm,nm->m", solved, solved), 0.0)
            return centre + weights @ cross[: len(data)], np.sqrt(variance)

        return predict

    def _within(self, t: int) -> int:
        """Return a number of plays, at most the window."""
        return t if self.window is None else min(t, self.window)

    def _forget(self, window: int) -> None:
        """Drop the rewards before the window, and rejections as old."""
        if len(self.data) > window:
            self.data = self.data.take(slice(-window, None))
        self.sources, self.widths = self.sources[-window:], self.widths[-window:]
        self.rejected = {
            j: count for j, count in self.rejected.items() if self.reward_count - count < window
        }

    def _reject(self) -> None:
        """Reject the candidates whose rewards are too low, if all have played."""
        candidates = self.candidates(self.reward_count)
        sources, widths = np.array(self.sources), np.array(self.widths)
        counts = np.array([(sources == j).sum() for j in candidates])
        if not counts.all():
            return
        t = self._within(self.reward_count)
        terms = len(candidates) * math.pi**2 * t**2 / (6 * self.delta)
        spread = np.sqrt(2 * self.noise * math.log(terms) / counts)
        means = np.array([self.data.y[sources == j].mean() for j in candidates])
        most = means + [widths[sources == j].mean() for j in candidates] + spread
        low = most < (means - spread).max()
        self.rejected = self.rejected | {
            j: self.reward_count for j, is_low in zip(candidates, low, strict=True) if is_low
        }


def lb_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    window: int | None = None,
    growth: float = 0.5,
    delta: float = 0.01,
    scale: float = 1.0,
    beta: Width = DEFAULT_WIDTH,
    mean: Mean = "online",
    minimize: bool = False,
    seed: Seed = 0,
) -> adapter.PolicyAdapter:
    """LB-GP-UCB (Ziomek 2024): balance the suspected regret of shorter and shorter length scales.

    It is for a reward that does not drift and whose length scale is unknown. The window for drift is not
    in the paper, and no theorem covers it.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points, with the longest length scale. None:
        Matern-5/2 with 0.3 of each side of the domain; on a `Space`, `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    window : int, optional
        Number of the latest rewards that are used; a rejected length scale returns after as many. None:
        all rewards are used.
    growth : float
        The longest length scale is at most t^growth times the shortest after t plays.
    delta : float
        Probability of a wrong rejection of a length scale.
    scale : float
        Prior deviation of rewards, where the mean is "online".
    beta : Confidence or float
        The width of mean + beta deviations: a number, or a constant width.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns the centre from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.lb_gp_ucb(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.ask(11))
    10 [[2.]]
    """
    choices = adapter.get_action_domain(domain)
    check_optional(whole_number, "window", window)
    finite_number("growth", growth, above=0.0, high=1.0)
    finite_number("delta", delta, above=0.0, below=1.0)
    low, high = ends_of(choices)
    sides = np.where(high > low, high - low, 1.0)
    default: Any = Matern(0.3 * sides, nu=2.5) if get_space(choices) is None else None
    start = kernel_or_default(choices, default if kernel is None else kernel)
    lengths = [np.ravel(each) for each in length_scales_of(start).values()]
    if not lengths:
        raise ValueError(
            f"the kernel of LB-GP-UCB must have a length scale, such as RBF(0.2), got {describe(start)}"
        )
    longest = float(np.exp(np.log(np.concatenate(lengths)).mean() - np.log(sides).mean()))
    unit, noise, prior = adapter.choose_rule_unit(
        noise_variance, scale, mean=mean, minimize=minimize
    )
    width, empty = adapter.check_width(beta), Dataset.empty(choices.dimension)
    rule = LengthScaleBalancing(start, longest, noise, width, growth, delta, window, prior, empty)
    return adapter.adapt(domain, rule, start, noise_variance, unit, minimize=minimize, seed=seed)
