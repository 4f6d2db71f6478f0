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
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

import tvbandits.policies.theory as theory
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.protocols import Domain
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.space_time import Drift
from tvbandits.gp.kernels.structure import space_time, without_bounds
from tvbandits.policies.setting import (
    Common,
    Learn,
    Learning,
    Setting,
    as_posterior,
    assembled,
    learning_rule,
    listed,
)
from tvbandits.validation import LARGEST_WHOLE, SMALLEST_VARIANCE, choice, shown, whole_number


@listed("never forgets", paper="Srinivas 2010", first_comparison=2)
def gp_ucb(
    domain: Domain, kernel: Any, noise_variance: float | None, **common: Unpack[Common]
) -> Bandit:
    """GP-UCB (Srinivas 2010): nothing is ever forgotten.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.gp_ucb(sites, RBF(1.0), 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    return assembled(domain, kernel, noise_variance, **common)


@listed(
    "starts afresh every reset_every rewards",
    paper="Bogunovic 2016",
    recommended={"reset_every": lambda setting, _: theory.window_length(*setting.budgets)},
    first_comparison=3,
)
def r_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    reset_every: int,
    **common: Unpack[Common],
) -> Bandit:
    """R-GP-UCB (Bogunovic 2016; Zhou & Shroff 2021): start afresh, again and again.

    Parameters
    ----------
    reset_every : int
        H: start afresh after so many rewards.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.r_gp_ucb(sites, RBF(1.0), 0.01, reset_every=20)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    # What Bogunovic 2016 adds to GP-UCB: after every block of H rewards it starts from the prior.
    period = aging.ResetEvery(whole_number("reset_every", reset_every))
    return assembled(domain, kernel, noise_variance, aging=period, **common)


@listed(
    "the last window rewards",
    paper="Zhou & Shroff 2021",
    recommended={"window": lambda setting, _: theory.window_length(*setting.budgets)},
    first_comparison=4,
)
def sw_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    window: int,
    **common: Unpack[Common],
) -> Bandit:
    """SW-GP-UCB (Zhou & Shroff 2021): a sliding window.

    Parameters
    ----------
    window : int
        W: the last so many rewards count, and no others.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.sw_gp_ucb(sites, RBF(1.0), 0.01, window=20)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    # What Zhou & Shroff 2021 change in GP-UCB: its posterior is that of the last W rewards.
    latest = aging.Window(last=whole_number("window", window))
    return assembled(domain, kernel, noise_variance, aging=latest, **common)


@listed(
    "weights discount^age",
    paper="Deng 2022",
    recommended={"discount": lambda setting, _: theory.discount(*setting.budgets)},
    first_comparison=5,
)
def w_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    discount: float | None = None,
    learn: Learn | None = None,
    **common: Unpack[Learning],
) -> Bandit:
    """W-GP-UCB (Deng 2022): weights discount^age, that is noise variance s^2 discount^(-age).

    Parameters
    ----------
    discount : float, optional
        In (0, 1). Without it, it is learned while the bandit plays.
    learn : Every, int or bool, optional
        When to learn it: a rule, a number of rewards between two fits, or True for `Every()`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.w_gp_ucb(sites, RBF(1.0), 0.01, discount=0.95)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    # Deng 2022: regression with weights discount^age is one with this noise ([S] section 1.1).
    weights = aging.Exponential(0.95 if discount is None else discount)
    rule = learning_rule("discount", discount, learn)
    return assembled(domain, kernel, noise_variance, learn=rule, aging=weights, **common)


# Rate of forgetting until one is fitted, and where the fit begins; and after how many rewards.
FIRST_EPSILON, FIRST_SAMPLE = 0.1, 50
ONCE = Every(LARGEST_WHOLE, iterations=50, spread=math.inf, in_steps=True)


def forgetting_kernel(kernel: Any, epsilon: float | None) -> Any:
    """k(x, x') (1 - epsilon)^(abs(t - t') / 2) (Bogunovic 2016; [S] eq. 8); None: to be fitted."""
    if epsilon is None:
        return space_time(without_bounds(kernel)) * Drift(FIRST_EPSILON)
    return space_time(kernel) * Drift(epsilon, "fixed")  # so that epsilon may also be 0


@listed("a kernel that forgets at rate epsilon", paper="Bogunovic 2016", first_comparison=6)
def tv_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    epsilon: float | None = None,
    first_sample: int | None = None,
    **common: Unpack[Learning],
) -> Bandit:
    """TV-GP-UCB (Bogunovic 2016): the kernel k(x, x') (1 - epsilon)^(abs(t - t') / 2).

    Parameters
    ----------
    epsilon : float, optional
        Rate of forgetting. Without it, it is fitted once by log evidence, and fixed.
    first_sample : int, optional
        After so many rewards it is fitted, by default 50, with the unit of reward; until then it is 0.1
        in a step: the median time between rewards. Only without epsilon.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.tv_gp_ucb(sites, RBF(1.0), 0.01, epsilon=0.05)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    posterior = common.get("posterior", "exact")
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
    return assembled(domain, drifting, noise_variance, learn=once, **common)


def recommended_rate(setting: Setting, given: Mapping[str, Any]) -> float:
    """The rate at which a reward's variance grows under the drift model."""
    # Under the drift model a reward's increment has variance 2 (1 - sqrt(1 - eps)) scale^2.
    increment: float = 2 * (1 - (1 - setting.epsilon) ** 0.5)
    wiener = given.get("growth", "wiener") == "wiener"
    return max(increment, 1e-12) * setting.scale**2 if wiener else 1.0


@listed(
    "injects noise at rate, growth=wiener|linear",
    paper="Brunzema 2022",
    recommended={"rate": recommended_rate},
    first_comparison=7,
)
def ui_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    rate: float | None = None,
    growth: Literal["wiener", "linear"] = "wiener",
    learn: Learn | None = None,
    **common: Unpack[Learning],
) -> Bandit:
    """Uncertainty injection (Brunzema 2022): the noise variance of a reward grows with its age.

    Parameters
    ----------
    rate : float, optional
        Of the growth. Without it, it is learned while the bandit plays.
    growth : "wiener" or "linear"
        s^2 + rate age, or s^2 (1 + (rate age)^2), the injection of SparQ-GP-UCB without queries.
    learn : Every, int or bool, optional
        When to learn it: a rule, a number of rewards between two fits, or True for `Every()`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.ui_gp_ucb(sites, RBF(1.0), 0.01, rate=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    choice("growth", growth, ("wiener", "linear"))
    rule = learning_rule("rate", rate, learn)
    if growth == "linear":
        injected: Aging = aging.Linear(1.0 if rate is None else rate)
    else:
        # Without a noise variance, next to nothing ages before a rate is learned.
        start = SMALLEST_VARIANCE if noise_variance is None else noise_variance
        injected = aging.Wiener(start if rate is None else rate)
    return assembled(domain, kernel, noise_variance, learn=rule, aging=injected, **common)


@listed("starts afresh when a reward is a surprise", paper="Brunzema 2025")
def et_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    delta: float = 0.1,
    **common: Unpack[Common],
) -> Bandit:
    """ET-GP-UCB (Brunzema 2025): forget everything when a reward leaves its confidence interval.

    No rate of change is needed.

    Parameters
    ----------
    delta : float
        Probability of a reset without a cause.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.et_gp_ucb(sites, RBF(1.0), 0.01, delta=0.1)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    return assembled(domain, kernel, noise_variance, reset=EventTrigger(delta), **common)
