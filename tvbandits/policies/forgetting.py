"""GP-UCB, and the policies that forget: by resets, a window, weights, a kernel over time, noise, events.

Each is GP-UCB with one part exchanged. That part is the paper's algorithm, except for the bound:

===========  ================================================  ====================================
policy       the part                                          is in
===========  ================================================  ====================================
`gp_ucb`     none: exact posterior, upper bound               `gp.exact`, `acquisition.rules`
`r_gp_ucb`   `aging`: drop what is before the last reset       `forgetting.aging.ResetEvery`
`sw_gp_ucb`  `aging`: drop all but the last rewards            `forgetting.aging.Window`
`w_gp_ucb`   `aging`: weights, as noise that grows with age    `forgetting.aging.Exponential`
`ui_gp_ucb`  `aging`: inject noise that grows with age         `forgetting.aging.Wiener`, or `Linear`
`tv_gp_ucb`  `kernel`: multiply by a correlation over time     `gp.kernels.space_time.Drift`
`et_gp_ucb`  `reset`: forget everything at an event            `forgetting.event_trigger`
===========  ================================================  ====================================

Where you give no rate, it is learned: that of an aging map from its predictions (`gp.learned_rate`),
that of a kernel by log evidence (`gp.evidence`). `policies.theory` has the rates that authors recommend.

References
----------
N. Srinivas, A. Krause, S. Kakade, M. Seeger. Gaussian process optimization in the bandit setting. 2010.
I. Bogunovic, J. Scarlett, V. Cevher. Time-varying Gaussian process bandit optimization. AISTATS 2016.
X. Zhou and N. Shroff. No-regret algorithms for time-varying Bayesian optimization. CISS 2021.
Y. Deng, X. Zhou, B. Kim, A. Tewari, A. Gupta and N. Shroff. Weighted Gaussian process bandits for
    non-stationary environments. AISTATS 2022. (W-GP-UCB)
P. Brunzema, A. von Rohr, S. Trimpe. On controller tuning with time-varying Bayesian optimization. 2022.
P. Brunzema, A. von Rohr, F. Solowjow and S. Trimpe. Event-triggered time-varying Bayesian optimization.
    TMLR 2025.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import (
    DEFAULT_WIDTH,
    Rate,
    Width,
    kernel_or_default,
    make_bandit,
    make_forgetting_kernel,
    parse_rate,
    resolve_posterior,
)
from tvbandits.domains.domain import Domain
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.online import Every
from tvbandits.validation import (
    LARGEST_WHOLE,
    Seed,
    check_choice,
    check_optional,
    describe,
    noise_variance_number,
    positive_number,
    whole_number,
)


def gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """GP-UCB (Srinivas 2010): never forget.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
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
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    return make_bandit(
        domain, kernel, noise_variance, beta=beta, minimize=minimize, options=options, seed=seed
    )


def r_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    reset_every: int,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """R-GP-UCB (Bogunovic 2016; Zhou & Shroff 2021): forget everything at regular intervals.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    reset_every : int
        H, the number of rewards after which it starts from the prior again.
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
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.r_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, reset_every=20)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    # Bogunovic 2016: GP-UCB that starts from the prior after every block of H rewards.
    period = aging.ResetEvery(whole_number("reset_every", reset_every))
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        aging=period,
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def sw_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    window: int,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """SW-GP-UCB (Zhou & Shroff 2021): a sliding window.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    window : int
        W, the number of rewards that it keeps, which are the latest.
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
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.sw_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, window=20)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    # Zhou & Shroff 2021: GP-UCB whose posterior is that of the last W rewards.
    latest = aging.Window(last=whole_number("window", window))
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        aging=latest,
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def w_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    discount: Rate = None,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """W-GP-UCB (Deng 2022): weights discount^age, that is noise variance s^2 discount^(-age).

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    discount : float, Every or "learn", optional
        In (0, 1). By default the bandit learns it while it plays; `Every` says how often.
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
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.w_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, discount=0.95)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    # Deng 2022: regression with weights discount^age is regression with this noise ([S] section 1.1).
    number, rule = parse_rate("discount", discount)
    weights = aging.Exponential(aging.LARGEST_DISCOUNT if number is None else number)
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        learn=rule,
        aging=weights,
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


# One fit, whose unit of time is the median time between rewards.
ONCE = Every(LARGEST_WHOLE, iterations=50, spread=math.inf, in_steps=True)


def tv_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    forgetting_rate: Rate = None,
    initial_points: int | None = None,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """TV-GP-UCB (Bogunovic 2016): the kernel k(x, x') (1 - rate)^(abs(t - t') / 2).

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    forgetting_rate : float, Every or "learn", optional
        epsilon. By default it is fitted once by log evidence; `Every` says how often else.
    initial_points : int, optional
        Number of rewards after which the rate is fitted, together with the scale of the reward: 50 by
        default. Until then the rate is 0.1 a step, where a step is the median time between rewards. It
        needs a rate that is fitted once.
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
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.tv_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, forgetting_rate=0.05)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    kernel, posterior = kernel_or_default(domain, kernel), resolve_posterior(options)
    if posterior is not None and posterior.self_learning:
        raise ValueError(
            f"tv_gp_ucb has one model, and {describe(posterior)} is an ensemble: use adaptive_gp_ucb"
        )
    number, rule = parse_rate("forgetting_rate", forgetting_rate, ONCE)
    if rule is ONCE:
        rewards = 50 if initial_points is None else initial_points
        whole_number("initial_points", rewards, at_least=2)
        rule = replace(ONCE, first=(rewards,), observations=rewards)
    elif initial_points is not None:
        raise ValueError(
            f"initial_points is for a rate that is fitted once, got {forgetting_rate=}"
        )
    # The model of Bogunovic 2016; its bound is GP-UCB's under this kernel.
    drifting = make_forgetting_kernel(kernel, number)
    return make_bandit(
        domain,
        drifting,
        noise_variance,
        learn=rule,
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def ui_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    forgetting_rate: Rate = None,
    growth: Literal["wiener", "linear"] = "wiener",
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """Uncertainty injection (Brunzema 2022): the noise variance of a reward grows with its age.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    forgetting_rate : float, Every or "learn", optional
        Rate of the growth. By default the bandit learns it while it plays; `Every` says how often.
    growth : "wiener" or "linear"
        s^2 + rate age, or s^2 (1 + (rate age)^2), the injection of SparQ-GP-UCB without queries.
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
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.ui_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, forgetting_rate=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    check_choice("growth", growth, ("wiener", "linear"))
    check_optional(noise_variance_number, "noise_variance", noise_variance)
    rate, rule = parse_rate("forgetting_rate", forgetting_rate)
    number = check_optional(positive_number, "forgetting_rate", rate)
    start = aging.SMALLEST_RATE if number is None else number
    growing: Aging = aging.Linear(start) if growth == "linear" else aging.Wiener(start)
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        learn=rule,
        aging=growing,
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def et_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    delta: float = 0.1,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """ET-GP-UCB (Brunzema 2025): forget everything when a reward leaves its confidence interval.

    No rate of change is needed.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    delta : float
        Probability of a reset without a cause.
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
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.et_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, delta=0.1)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        reset=EventTrigger(delta),
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )
