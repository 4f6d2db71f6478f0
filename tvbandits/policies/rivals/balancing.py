"""LB-GP-UCB: several length scales at once, of which the one of least suspected regret plays.

[LB] = J. Ziomek, M. Adachi and M. A. Osborne. Bayesian optimisation with unknown hyperparameters:
regret bounds logarithmically closer to optimal. arXiv 2410.10384, 2024.

Of the paper we had the abstract and the introduction. The equations below are those that the authors'
program computes (JuliuszZiomek/LB-GP-UCB); this is a restatement of them, and no code of theirs.

At play t the candidates are

    theta_j = theta_H exp(-j / (d + 5)),  j = 0, 1, ...,  as long as theta_j > theta_H / g(t),
    g(t) = max(exp(5 / (d + 5)), t^growth).

Of those that remain the one of least R(n_j + 1, theta_j) plays by its own upper bound on all data,
where n_j counts its plays so far (the constant factor of R changes no choice):

    R(n, theta) = sqrt(n theta^-d L) (sqrt(theta^-d L) + 1),    L = log(n)^(d+1).

Once all have played, those go for which, with the mean reward y_j of the plays of j, the widths
beta sigma at them, and xi = 2 noise log(candidates pi^2 t^2 / (6 delta)),

    y_j + mean(widths of j) + sqrt(xi / n_j)  <  max over i of  y_i - sqrt(xi / n_i).

Ours: theta_H is that of the kernel, where the program fits it to some uniform plays; beta is a number,
where the program computes it from the information gain; sigma is the deviation of the reward without
the noise of a reading. The window for drift is ours as well, and no theorem covers it: models, sums and
counts n_j look at the last W rewards, t counts up to W, and what was rejected comes back W rewards
later.
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

# So many length scales there are at first.
FIRST = 5

# How the names of length scales end, those of `PerParameter` the second way.
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
    """Logarithm of R(n, theta) for n = 1, 2, ... plays; minus infinity for the first."""
    if n == 1:
        return -math.inf
    reach = (dimension + 1) * math.log(math.log(n)) - dimension * math.log(theta)
    return 0.5 * (math.log(n) + reach) + float(np.logaddexp(reach / 2, 0.0))


@dataclass(eq=False)
class LengthScaleBalancing:
    """The rule.

    Parameters
    ----------
    kernel : scikit-learn kernel
        That of the longest length scale.
    longest : float
        theta_H, as a share of the domain's side.
    noise : float
        Noise variance of a reward.
    width : float
        beta.
    growth : float
        How fast g grows.
    delta : float
        Probability of a wrong rejection.
    window : int or None
    mean : float or "online"
        Prior mean of rewards; "online": the mean of those that count.
    data : Dataset
        The rewards that count.
    played_by : list of int
        For each of them the j of its length scale; -1 if it was not asked for.
    widths : list of float
        beta sigma of each at the time of its play; 0 if it was not asked for.
    told : int
        Rewards so far.
    rejected : dict
        For a j that was rejected, how many rewards were told by then.
    chosen : list
        Plays that are out: the bytes of the point, the j that chose it, and beta sigma.
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
    played_by: list[int] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    told: int = 0
    rejected: dict[int, int] = field(default_factory=dict)
    chosen: list[tuple[bytes, int, float]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many rewards it holds."""
        return len(self.data)

    def ratio(self, j: int) -> float:
        """theta_j / theta_H."""
        return math.exp(-j / (self.data.dimension + 5))

    def candidates(self, t: int) -> list[int]:
        """The j of the candidates at play `t` that are not rejected."""
        t = self._within(t)
        count = math.ceil((self.data.dimension + 5) * self.growth * math.log(t))
        return [j for j in range(max(FIRST, count)) if j not in self.rejected]

    def choose(self, now: float, allowed: ChoiceSet, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Where the length scale of least suspected regret has its largest upper bound."""
        waiting = {x.tobytes() for x in out.X}
        self.chosen = [each for each in self.chosen if each[0] in waiting]
        counts = Counter(self.played_by) + Counter(each[1] for each in self.chosen)
        dimension = self.data.dimension

        def regret(j: int) -> float:
            return log_suspected_regret(counts[j] + 1, self.longest * self.ratio(j), dimension)

        j = min(self.candidates(self.told + len(self.chosen) + 1), key=regret)
        predict = self.posterior(j, out)

        def bound(X: Array) -> Array:
            mean, deviation = predict(X)
            return mean + self.width * deviation

        x = allowed.find_best(bound, rng)
        self.chosen.append((x.tobytes(), j, self.width * float(predict(x[None])[1][0])))
        return x

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Take in rewards one after the other, and reject length scales after each."""
        for i, x in enumerate(rewards.X):
            none = (x.tobytes(), -1, 0.0)
            play = next((each for each in self.chosen if each[0] == none[0]), none)
            self.chosen = [each for each in self.chosen if each is not play]
            self.data = self.data.append(rewards.take(slice(i, i + 1)))
            self.played_by = [*self.played_by, play[1]]
            self.widths = [*self.widths, play[2]]
            self.told += 1
            if self.window is not None:
                self._forget(self.window)
            self._reject()

    def posterior(self, j: int, out: Plays) -> Callable[[Array], tuple[Array, Array]]:
        """Return what gives mean (m,) and deviation (m,) at points (m, d) by a length scale.

        Each play that is out counts as if its mean had been observed.
        """
        kernel, data = with_length_scales(self.kernel, self.ratio(j)), self.data
        learned = float(data.y.mean()) if len(data) else 0.0
        centre = learned if self.mean == "online" else float(self.mean)
        X = np.concatenate([data.X, out.X])
        variance = np.concatenate([data.variance, np.full(len(out), self.noise)])
        K = kernel(X) if len(X) else np.empty((0, 0))
        told = cholesky(K[: len(data), : len(data)] + np.diag(data.variance)).L
        weights = solve_lower(told, solve_lower(told, data.y - centre), transposed=True)
        L = told if len(X) == len(data) else cholesky(K + np.diag(variance)).L

        def predict(points: Array) -> tuple[Array, Array]:
            prior = kernel.diag(points)
            if not len(X):
                return np.full(len(points), centre), np.sqrt(prior)
            cross = kernel(X, points)
            solved = solve_lower(L, cross)
            left = np.maximum(prior - np.einsum("nm,nm->m", solved, solved), 0.0)
            return centre + weights @ cross[: len(data)], np.sqrt(left)

        return predict

    def _within(self, t: int) -> int:
        """A number of plays, up to the window."""
        return t if self.window is None else min(t, self.window)

    def _forget(self, window: int) -> None:
        """Let go of what is older than the window."""
        if len(self.data) > window:
            self.data = self.data.take(slice(-window, None))
        self.played_by, self.widths = self.played_by[-window:], self.widths[-window:]
        self.rejected = {j: at for j, at in self.rejected.items() if self.told - at < window}

    def _reject(self) -> None:
        """Reject the candidates whose rewards are too low, if all have played."""
        candidates = self.candidates(self.told)
        by, widths = np.array(self.played_by), np.array(self.widths)
        counts = np.array([(by == j).sum() for j in candidates])
        if not counts.all():
            return
        t = self._within(self.told)
        tries = len(candidates) * math.pi**2 * t**2 / (6 * self.delta)
        spread = np.sqrt(2 * self.noise * math.log(tries) / counts)
        means = np.array([self.data.y[by == j].mean() for j in candidates])
        most = means + [widths[by == j].mean() for j in candidates] + spread
        low = most < (means - spread).max()
        gone = {j: self.told for j, is_low in zip(candidates, low, strict=True) if is_low}
        self.rejected = self.rejected | gone


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
    """LB-GP-UCB (Ziomek 2024): balances the suspected regret of shorter and shorter length scales.

    It is for a reward that stands still and whose length scale you do not know. The window for drift is
    this package's own, and has no theorem.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points, with the longest length scale. None:
        Matern-5/2 with 0.3 of each side of the domain; on named parameters, `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    window : int, optional
        Only the last so many rewards count, and a length scale that was rejected comes back after as
        many. None: all rewards count.
    growth : float
        After t plays the longest length scale is up to t^growth times the shortest.
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
    usual: Any = Matern(0.3 * sides, nu=2.5) if get_space(choices) is None else None
    start = kernel_or_default(choices, usual if kernel is None else kernel)
    lengths = [np.ravel(each) for each in length_scales_of(start).values()]
    if not lengths:
        raise ValueError(
            f"the kernel of LB-GP-UCB must have a length scale, such as RBF(0.2), got {describe(start)}"
        )
    longest = float(np.exp(np.log(np.concatenate(lengths)).mean() - np.log(sides).mean()))
    unit, noise, prior = adapter.choose_rule_unit(
        noise_variance, scale, mean=mean, minimize=minimize
    )
    width, none = adapter.check_width(beta), Dataset.empty(choices.dimension)
    rule = LengthScaleBalancing(start, longest, noise, width, growth, delta, window, prior, none)
    return adapter.adapt(domain, rule, start, noise_variance, unit, minimize=minimize, seed=seed)
