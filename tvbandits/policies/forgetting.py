"""GP-UCB, and its descendants that forget: resets, a window, weights, a kernel over time, noise, events.

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
from tvbandits.domains.domain import Domain
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.space_time import Drift
from tvbandits.gp.kernels.structure import space_time, without_bounds
from tvbandits.policies.common import (
    DEFAULT_WIDTH,
    Learn,
    Mean,
    Posterior,
    Seed,
    Width,
    as_posterior,
    bandit_of,
    learning_rule,
    prior_kernel,
)
from tvbandits.validation import (
    LARGEST_WHOLE,
    SMALLEST_VARIANCE,
    choice,
    noise_variance_number,
    optional,
    shown,
    whole_number,
)


def gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """GP-UCB (Srinivas 2010): nothing is ever forgotten.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
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
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def r_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    reset_every: int,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """R-GP-UCB (Bogunovic 2016; Zhou & Shroff 2021): start afresh, again and again.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    reset_every : int
        H: start afresh after so many rewards.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
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
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    # What Bogunovic 2016 adds to GP-UCB: after every block of H rewards it starts from the prior.
    period = aging.ResetEvery(whole_number("reset_every", reset_every))
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        aging=period,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
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
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
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
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    window : int
        W: the last so many rewards count, and no others.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
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
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    # What Zhou & Shroff 2021 change in GP-UCB: its posterior is that of the last W rewards.
    latest = aging.Window(last=whole_number("window", window))
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        aging=latest,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def w_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    discount: float | None = None,
    learn: Learn | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
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
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    discount : float, optional
        In (0, 1). Without it, it is learned while the bandit plays.
    learn : Every, int or bool, optional
        When to learn it: a rule, a number of rewards between two fits, or True for `Every()`.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
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
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    # Deng 2022: regression with weights discount^age is one with this noise ([S] section 1.1).
    weights = aging.Exponential(0.95 if discount is None else discount)
    rule = learning_rule("discount", discount, learn)
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        learn=rule,
        aging=weights,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


# Rate of forgetting until one is fitted, and where the fit begins; and after how many rewards.
FIRST_EPSILON, FIRST_SAMPLE = 0.1, 50
ONCE = Every(LARGEST_WHOLE, iterations=50, spread=math.inf, in_steps=True)


def forgetting_kernel(kernel: Any, epsilon: float | None) -> Any:
    """k(x, x') (1 - epsilon)^(abs(t - t') / 2) (Bogunovic 2016; [S] eq. 8); None: to be fitted."""
    if epsilon is None:
        return space_time(without_bounds(kernel)) * Drift(FIRST_EPSILON)
    return space_time(kernel) * Drift(epsilon, "fixed")  # so that epsilon may also be 0


def tv_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    epsilon: float | None = None,
    first_sample: int | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """TV-GP-UCB (Bogunovic 2016): the kernel k(x, x') (1 - epsilon)^(abs(t - t') / 2).

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    epsilon : float, optional
        Rate of forgetting. Without it, it is fitted once by log evidence, and fixed.
    first_sample : int, optional
        After so many rewards it is fitted, by default 50, with the unit of reward; until then it is 0.1
        in a step: the median time between rewards. Only without epsilon.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.tv_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, epsilon=0.05)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    kernel = prior_kernel(domain, kernel)
    if as_posterior(posterior).self_learning:
        given = f"got {shown(posterior)}"
        raise ValueError(f"tv_gp_ucb has one model, adaptive_gp_ucb an ensemble; {given}")
    # The model of Bogunovic 2016; its bound is GP-UCB's under this kernel.
    drifting, once = forgetting_kernel(kernel, epsilon), None
    if epsilon is None:
        rewards = FIRST_SAMPLE if first_sample is None else first_sample
        whole_number("first_sample", rewards, at_least=2)
        once = replace(ONCE, first=(rewards,), observations=rewards)
    elif first_sample is not None:
        raise ValueError(f"first_sample is for an epsilon that is not given, got {epsilon = }")
    return bandit_of(
        domain,
        drifting,
        noise_variance,
        learn=once,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def ui_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    rate: float | None = None,
    growth: Literal["wiener", "linear"] = "wiener",
    learn: Learn | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
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
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    rate : float, optional
        Of the growth. Without it, it is learned while the bandit plays.
    growth : "wiener" or "linear"
        s^2 + rate age, or s^2 (1 + (rate age)^2), the injection of SparQ-GP-UCB without queries.
    learn : Every, int or bool, optional
        When to learn it: a rule, a number of rewards between two fits, or True for `Every()`.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.ui_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01, rate=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    choice("growth", growth, ("wiener", "linear"))
    optional(noise_variance_number, "noise_variance", noise_variance)
    rule = learning_rule("rate", rate, learn)
    if growth == "linear":
        injected: Aging = aging.Linear(1.0 if rate is None else rate)
    else:
        # Without a noise variance, next to nothing ages before a rate is learned.
        start = SMALLEST_VARIANCE if noise_variance is None else noise_variance
        injected = aging.Wiener(start if rate is None else rate)
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        learn=rule,
        aging=injected,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
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
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
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
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    delta : float
        Probability of a reset without a cause.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
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
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        reset=EventTrigger(delta),
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )
