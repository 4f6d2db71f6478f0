"""GP-UCB, and those of its descendants that forget by counting: resets, a window, weights.

References
----------
N. Srinivas, A. Krause, S. Kakade, M. Seeger. Gaussian process optimization in the bandit setting. 2010.
I. Bogunovic, J. Scarlett, V. Cevher. Time-varying Gaussian process bandit optimization. AISTATS 2016.
X. Zhou and N. Shroff. No-regret algorithms for time-varying Bayesian optimization. CISS 2021.
Y. Deng, X. Zhou, B. Kim, A. Tewari, A. Gupta and N. Shroff. Weighted Gaussian process bandits for
    non-stationary environments. AISTATS 2022. (W-GP-UCB)
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, Literal

from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import whole_number
from tvbandits.core.coercion import choice
from tvbandits.core.protocols import Domain
from tvbandits.forgetting import aging
from tvbandits.policies import theory
from tvbandits.policies.setting import (
    Common,
    Learn,
    Mean,
    PlotStyle,
    Policy,
    Posterior,
    Seed,
    Setting,
    Width,
    assembled,
    described,
    learning_rule,
)


@described
def gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
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
    common = Common(confidence, posterior, mean, seed, minimise)
    return assembled(domain, kernel, noise_variance, common)


GP_UCB = Policy(
    "gp-ucb",
    gp_ucb,
    "never forgets",
    paper="Srinivas 2010",
    look=PlotStyle("#d55e00", "-", 1.8, "s"),
    first_comparison=2,
)


@described
def r_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    reset_every: int,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
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
    common = Common(confidence, posterior, mean, seed, minimise)
    period = aging.ResetEvery(whole_number("reset_every", reset_every))
    return assembled(domain, kernel, noise_variance, common, aging=period)


def recommended_period(setting: Setting, given: Mapping[str, Any]) -> int:
    """The period of Zhou & Shroff 2021 for the variation, or that of Bogunovic 2016 for epsilon."""
    if choice("period", given["period"], ("variation", "bogunovic")) == "bogunovic":
        return theory.reset_period_under_drift(setting.horizon, setting.epsilon)
    return theory.reset_period(*setting.budgets)


R_GP_UCB = Policy(
    "r-gp-ucb",
    r_gp_ucb,
    "starts afresh every reset_every rewards, period=variation|bogunovic",
    paper="Bogunovic 2016",
    look=PlotStyle("#0072b2", "--", 1.8, "D"),
    recommended={"reset_every": recommended_period},
    words=(
        Parameter(
            "period",
            Parameter.KEYWORD_ONLY,
            default="variation",
            annotation=Literal["variation", "bogunovic"],
        ),
    ),
    first_comparison=3,
)


@described
def sw_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    window: int,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
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
    common = Common(confidence, posterior, mean, seed, minimise)
    latest = aging.Window(last=whole_number("window", window))
    return assembled(domain, kernel, noise_variance, common, aging=latest)


SW_GP_UCB = Policy(
    "sw-gp-ucb",
    sw_gp_ucb,
    "the last window rewards",
    paper="Zhou & Shroff 2021",
    look=PlotStyle("#00805d", "-.", 1.8, "^"),
    recommended={"window": lambda setting, _: theory.window_length(*setting.budgets)},
    first_comparison=4,
)


@described
def w_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    discount: float | None = None,
    learn: Learn | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """W-GP-UCB (Deng 2022): weights discount^age, that is noise variance s^2 discount^(-age).

    Parameters
    ----------
    discount : float, optional
        In (0, 1). Without it, it is learned while the bandit plays.

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
    common = Common(confidence, posterior, mean, seed, minimise)
    return assembled(
        domain,
        kernel,
        noise_variance,
        common,
        learn=learning_rule("discount", discount, learn),
        aging=aging.Exponential(0.95 if discount is None else discount),
    )


def recommended_discount(setting: Setting, given: Mapping[str, Any]) -> float | None:
    """The discount of Deng 2022 for the variation of the problem, unless it is to be learned."""
    return None if given.get("learn") else theory.discount(*setting.budgets)


W_GP_UCB = Policy(
    "w-gp-ucb",
    w_gp_ucb,
    "weights discount^age",
    paper="Deng 2022",
    look=PlotStyle("#b8478d", ":", 2.4, "v"),
    recommended={"discount": recommended_discount},
    first_comparison=5,
)


POLICIES = (GP_UCB, R_GP_UCB, SW_GP_UCB, W_GP_UCB)
