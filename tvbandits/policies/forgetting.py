"""GP-UCB, and its descendants that forget: resets, a window, weights, a kernel over time, noise, events.

Each is GP-UCB with one part exchanged, and that part holds all of the paper's algorithm but the bound:

===========  ================================================  ====================================
policy       the part                                          is in
===========  ================================================  ====================================
`gp_ucb`     none: the posterior, and the bound                `gp.exact`, `acquisition.rules`
`r_gp_ucb`   `aging`: nothing before the last reset counts     `forgetting.aging.ResetEvery`
`sw_gp_ucb`  `aging`: the last rewards count                   `forgetting.aging.Window`
`w_gp_ucb`   `aging`: weights as noise that grows              `forgetting.aging.Exponential`
`ui_gp_ucb`  `aging`: noise that is injected                   `forgetting.aging.Wiener`, or `Linear`
`tv_gp_ucb`  `kernel`: times a correlation over time           `gp.kernels.space_time.Drift`
`et_gp_ucb`  `reset`: forget all at an event                   `forgetting.event_trigger`
===========  ================================================  ====================================

A rate that is not given is learned: of an aging map by its predictions (`gp.learned_rate`), of a
kernel by log evidence (`gp.evidence`). What authors recommend for one is in `policies.theory`.

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
    forgetting_kernel,
    learning_rule,
    make_bandit,
    posterior_of,
    prior_kernel,
)
from tvbandits.domains.domain import Domain
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.online import Every
from tvbandits.validation import (
    LARGEST_WHOLE,
    SMALLEST_VARIANCE,
    Seed,
    choice,
    describe,
    noise_variance_number,
    optional,
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
    """GP-UCB (Srinivas 2010): never forgets.

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
    """R-GP-UCB (Bogunovic 2016; Zhou & Shroff 2021): forgets everything at regular intervals.

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
        H: start afresh after so many rewards.
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
    # What Bogunovic 2016 adds to GP-UCB: after every block of H rewards it starts from the prior.
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
        W: the last so many rewards count, and no others.
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
    # What Zhou & Shroff 2021 change in GP-UCB: its posterior is that of the last W rewards.
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
        In (0, 1). By default the bandit learns it while it plays, or when a rule says.
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
    # Deng 2022: regression with weights discount^age is one with this noise ([S] section 1.1).
    number, rule = learning_rule("discount", discount)
    # Before it is learned next to nothing ages: a discount for a unit of time may forget all at once.
    weights = aging.Exponential(1.0 - 2.0**-53 if number is None else number)
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


# A fit that is made once, in steps of the median time between rewards.
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
        epsilon. By default it is fitted once by log evidence, and fixed; or whenever a rule says.
    initial_points : int, optional
        After so many rewards it is fitted, by default 50, with the unit of reward; until then it is 0.1
        in a step: the median time between rewards. Only where the rate is fitted once.
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
    kernel, posterior = prior_kernel(domain, kernel), posterior_of(options)
    if posterior is not None and posterior.self_learning:
        needs = f"tv_gp_ucb has one model, adaptive_gp_ucb an ensemble; got {describe(posterior)}"
        raise ValueError(needs)
    number, rule = learning_rule("forgetting_rate", forgetting_rate, ONCE)
    if rule is ONCE:
        rewards = 50 if initial_points is None else initial_points
        whole_number("initial_points", rewards, at_least=2)
        rule = replace(ONCE, first=(rewards,), observations=rewards)
    elif initial_points is not None:
        raise ValueError(
            f"initial_points is for a rate that is fitted once, got {forgetting_rate=}"
        )
    # The model of Bogunovic 2016; its bound is GP-UCB's under this kernel.
    drifting = forgetting_kernel(kernel, number)
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
        Of the growth. By default the bandit learns it while it plays, or when a rule says.
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
    choice("growth", growth, ("wiener", "linear"))
    optional(noise_variance_number, "noise_variance", noise_variance)
    rate, rule = learning_rule("forgetting_rate", forgetting_rate)
    number = optional(positive_number, "forgetting_rate", rate)
    # Before a rate is learned next to nothing ages, whatever the unit of time.
    start = SMALLEST_VARIANCE if number is None else number
    injected: Aging = aging.Linear(start) if growth == "linear" else aging.Wiener(start)
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        learn=rule,
        aging=injected,
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
