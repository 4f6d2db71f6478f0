"""Rivals that are bandits with another kernel, width or acquisition.

[WD] = Bardou, Thiran and Ranieri, NeurIPS 2024, who compare with GP-UCB on points and time. [MK] =
Matthias Mandl and Hanne Kekkonen, Sharper Regret Bounds for Time-Varying Gaussian Process Bandits with
Constant Exploration, 2026, arXiv 2608.18863. [BA] = Kelly et al., BOBA, 2026, arXiv 2609.26021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from tvbandits.acquisition.rules import Acquisition, Decision
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import (
    DEFAULT_WIDTH,
    Width,
    as_refit_rule,
    kernel_or_default,
    make_bandit,
    make_forgetting_kernel,
    options_or_default,
)
from tvbandits.domains.domain import Domain, check_domain
from tvbandits.gp.additive import ends_of
from tvbandits.gp.kernels.space_time import OnSpace, OnTime, space_time
from tvbandits.gp.online import Every
from tvbandits.validation import (
    LARGEST_TIME,
    LARGEST_VALUE,
    Array,
    Seed,
    check_optional,
    finite_number,
)


def time_as_input(domain: Domain, span: float) -> Any:
    """Return the kernel to start a fit from: Matern-5/2 over points and over time.

    It has a length scale for each coordinate, and one for time.

    Parameters
    ----------
    domain : Domain
    span : float
        Duration of a run.
    """
    check_domain(domain)
    finite_number("span", span, low=1e-50, high=LARGEST_TIME)
    low, high = ends_of(domain)
    sides = high - low
    lengths = np.where(sides > 0, 0.3 * sides, 1.0)
    space: Any = Matern(lengths, [(0.02 / 0.3 * each, 10 / 0.3 * each) for each in lengths], nu=2.5)
    time: Any = Matern(0.3 * span, (0.01 * span, 10 * span), nu=2.5)
    return ConstantKernel(1.0, (0.05, 20.0)) * OnSpace(space) * OnTime(time)


def time_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    span: float = 500.0,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """GP-UCB with time as one more input, a baseline of Bardou 2024.

    The kernel is Matern-5/2, with a length scale for each coordinate and for time.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Over [point, time], from which the fits start; None: as above.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    span : float
        Duration of a run, which sets the start and the bounds of the fitted time scale.
    beta : Confidence, float, "theory" or another name in `WIDTHS`
        The width of mean + beta deviations; a number is a constant width.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.time_gp_ucb(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    start = time_as_input(domain, span)
    if kernel is not None:
        start = space_time(kernel_or_default(domain, kernel))
    rule = as_refit_rule(options_or_default(options).refit, Every(10))
    return make_bandit(
        domain,
        start,
        noise_variance,
        learn=rule,
        refits=True,
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def constant_width(forgetting_rate: float) -> float:
    """Return the width of [MK] for a rate of change, in deviations.

    The best constants beta of mean + sqrt(beta) deviation in the paper are 2.12, 4.34 and 6.36 for
    rates of 0.1, 0.01 and 0.001, on 400 points with an RBF kernel of length scale 0.1. The width
    interpolates the roots of the first and the last linearly in the logarithm of the rate, 1.46 + 0.53
    (-log10(rate) - 1), and is not below 0. At 0.01 it is 1.99, where the best one is 2.08.
    """
    finite_number("forgetting_rate", forgetting_rate, above=0.0, below=1.0)
    return max(1.46 + 0.53 * (-math.log10(forgetting_rate) - 1.0), 0.0)


def mk_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    forgetting_rate: float,
    beta: Width | None = None,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """TV-GP-UCB with a constant width that depends on its rate (Mandl & Kekkonen 2026).

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    forgetting_rate : float
        epsilon, in (0, 1).
    beta : Confidence, float or a name, optional
        A width in place of the one that depends on the rate.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.mk_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, forgetting_rate=0.03)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    width = constant_width(forgetting_rate) if beta is None else beta
    drifting = make_forgetting_kernel(kernel_or_default(domain, kernel), forgetting_rate)
    return make_bandit(
        domain, drifting, noise_variance, beta=width, minimize=minimize, options=options, seed=seed
    )


@dataclass(frozen=True)
class DesiredOutcome(Acquisition):
    """The acquisition of BOBA ([BA]): near a desired outcome, and where a reward is informative.

    It plays the point of the smallest

        G(x) = -b / 2 log(1 + sd^2 / s^2) + log(s / sd) + (sd^2 + (m - o)^2) / (2 s^2) - 1/2

    with mean m and deviation sd of the reward, noise variance s^2, the outcome o and the weight b.

    Attributes
    ----------
    outcome : float or None
        o, in the unit of reward, where more is better; None: the largest mean + 2 deviations.
    exploration : float
        b (beta in [BA]), the weight of information.
    """

    outcome: float | None
    exploration: float = 1.0

    weighs_reward: ClassVar[bool] = False

    def __post_init__(self) -> None:
        finite_number("exploration", self.exploration, low=0.0, high=LARGEST_VALUE)
        check_optional(
            finite_number, "outcome", self.outcome, low=-LARGEST_VALUE, high=LARGEST_VALUE
        )

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return distinct points (b, d) of the smallest G, none of which is pending.

        G is smaller where the variance is: given pending points, it would choose these again.
        """
        allowed = decision.choices(np.concatenate([decision.same_time, decision.pending]))
        view, outcome = decision.view, self.outcome
        if outcome is None:
            _, outcome = decision.domain.maximize(lambda X: view.upper_bound(X, 2.0), rng)

        def objective(X: Array) -> Array:
            mean, deviation = view.predict(X)
            return -self.value(mean, deviation, decision.noise_variance, outcome)

        batch: list[Array] = []
        for _ in range(decision.n or 1):
            batch.append(allowed.find_best(objective, rng))
            allowed.exclude(batch[-1])
        return np.array(batch)

    def value(self, mean: Array, deviation: Array, noise: float, outcome: float) -> Array:
        """Return G (n,) for these means and deviations."""
        variance = np.maximum(deviation, 1e-12) ** 2
        information = 0.5 * np.log1p(variance / noise)
        distance = (variance + (mean - outcome) ** 2) / (2 * noise)
        divergence = 0.5 * np.log(noise / variance) + distance - 0.5
        return np.asarray(divergence - self.exploration * information)


def boba(
    domain: Domain,
    *,
    noise_variance: float | None = None,
    outcome: float | None = None,
    exploration: float = 1.0,
    span: float = 500.0,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """BOBA (Kelly 2026): play near a desired outcome, and where a reward is informative.

    In the paper the outcome is the largest reward, which is known. The model is that of `time_gp_ucb`.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    outcome : float, optional
        The desired reward. None: the largest upper bound of the model, which is not in the paper.
    exploration : float
        beta in [BA], the weight of information; the paper tunes it for every problem.
    span : float
        Duration of a run.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.boba(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    rule, kernel = DesiredOutcome(outcome, exploration), time_as_input(domain, span)
    if outcome is not None and minimize:
        rule = DesiredOutcome(-outcome, exploration)
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        learn=Every(10),
        acquisition=rule,
        minimize=minimize,
        options=options,
        seed=seed,
    )
