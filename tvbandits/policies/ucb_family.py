"""GP-UCB and those of its descendants that forget: one recipe each, and its record beside it.

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

from collections.abc import Mapping
from typing import Any, Literal

from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import finite_number, noise_variance_number, whole_number
from tvbandits.core.coercion import choice
from tvbandits.core.protocols import Domain
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.bank.posterior import ModelBank
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.space_time import Drift
from tvbandits.gp.kernels.structure import space_time
from tvbandits.policies import theory
from tvbandits.policies.learning import box_width, has_several, learned_on_box, learned_parts
from tvbandits.policies.setting import (
    Common,
    Learn,
    Look,
    Mean,
    Policy,
    Posterior,
    Seed,
    Setting,
    Width,
    as_posterior,
    assembled,
    described,
    learning_rule,
)

LENGTH_SPREAD_WITHOUT_EXPERT = 2.0
"""Spread of the prior on the logarithm of a length scale, for a bandit that has no expert. It learns
from the points that it plays alone; under a narrower prior it may never find out that one is short."""


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
    """GP-UCB (Srinivas 2010): nothing is ever forgotten."""
    common = Common(confidence, posterior, mean, seed, minimise)
    return assembled(domain, kernel, noise_variance, common)


GP_UCB = Policy(
    "gp-ucb",
    gp_ucb,
    "never forgets",
    paper="Srinivas 2010",
    look=Look("#d55e00", "-", 1.8, "s"),
    first_comparison=True,
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
    """
    common = Common(confidence, posterior, mean, seed, minimise)
    period = aging.ResetEvery(whole_number("reset_every", reset_every))
    return assembled(domain, kernel, noise_variance, common, aging=period)


def recommended_r(
    setting: Setting,
    reset_every: int | None = None,
    period: Literal["variation", "bogunovic"] = "variation",
) -> Mapping[str, Any]:
    """The period of Zhou & Shroff 2021 for the variation, or that of Bogunovic 2016 for epsilon."""
    choice("period", period, ("variation", "bogunovic"))
    if reset_every is not None:
        return {"reset_every": reset_every}
    if period == "bogunovic":
        return {"reset_every": theory.reset_period_under_drift(setting.horizon, setting.epsilon)}
    return {"reset_every": theory.reset_period(*setting.budgets)}


R_GP_UCB = Policy(
    "r-gp-ucb",
    r_gp_ucb,
    "starts afresh every reset_every rewards, period=variation|bogunovic",
    paper="Bogunovic 2016",
    look=Look("#0072b2", "--", 1.8, "D"),
    recommended=recommended_r,
    first_comparison=True,
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
    """
    common = Common(confidence, posterior, mean, seed, minimise)
    latest = aging.Window(last=whole_number("window", window))
    return assembled(domain, kernel, noise_variance, common, aging=latest)


def recommended_sw(setting: Setting, window: int | None = None) -> Mapping[str, Any]:
    """The window of Zhou & Shroff 2021 for the variation of the problem."""
    return {"window": theory.window_length(*setting.budgets) if window is None else window}


SW_GP_UCB = Policy(
    "sw-gp-ucb",
    sw_gp_ucb,
    "the last window rewards",
    paper="Zhou & Shroff 2021",
    look=Look("#00805d", "-.", 1.8, "^"),
    recommended=recommended_sw,
    first_comparison=True,
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


def recommended_w(
    setting: Setting, discount: float | None = None, learn: Learn | None = None
) -> Mapping[str, Any]:
    """The discount of Deng 2022 for the variation of the problem, unless it is to be learned."""
    if learn:
        return {"discount": discount, "learn": learn}
    return {"discount": theory.discount(*setting.budgets) if discount is None else discount}


W_GP_UCB = Policy(
    "w-gp-ucb",
    w_gp_ucb,
    "weights discount^age",
    paper="Deng 2022",
    look=Look("#b8478d", ":", 2.4, "v"),
    recommended=recommended_w,
    first_comparison=True,
)


@described
def tv_gp_ucb(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float,
    *,
    epsilon: float | None = None,
    learn: Learn | None = None,
    confidence: Width | None = None,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """TV-GP-UCB (Bogunovic 2016): the kernel k(x, x') (1 - epsilon)^(abs(t - t') / 2).

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Over points. None only without epsilon: one that suits any problem.
    epsilon : float, optional
        Rate of forgetting. Without it the drift is learned: the numbers of `structured_kernel`, or on
        a box of `box_kernel` (in `kernels.additive`), are fitted by log evidence while the bandit plays.
    learn : Every, int or bool, optional
        When to fit; only without epsilon.
    confidence : Confidence, float or str, optional
        2; 2 sqrt 2 / d where the drift is learned on a box of d > 1 coordinates.
    posterior : Exact, Nystrom, StateSpace, ModelBank, "exact", "nystrom" or "bank", optional
        A Kalman filter where the drift is learned, but on a box, and the exact one elsewhere. A bank
        is now the better one and now the poorer (`docs/bank-of-models.md`).
    """
    if epsilon is None and kernel is None and posterior is None and has_several(domain):
        width = box_width(domain) if confidence is None else confidence
        return learned_on_box(
            domain, noise_variance, learn, Common(width, "exact", mean, seed, minimise)
        )
    confidence = DEFAULT_WIDTH if confidence is None else confidence
    if epsilon is None:
        every = Every(space_spread=LENGTH_SPREAD_WITHOUT_EXPERT)
        common = Common(confidence, posterior, mean, seed, minimise)
        start, rule, common = learned_parts(domain, kernel, learn, every, common)
        return assembled(domain, start, noise_variance, common, learn=rule)
    finite_number("epsilon", epsilon, low=0.0, below=1.0)
    learning_rule("epsilon", epsilon, learn)
    if kernel is None:
        raise ValueError(
            f"kernel is None, which is for an epsilon that is not given; got {epsilon}"
        )
    common = Common(confidence, "exact" if posterior is None else posterior, mean, seed, minimise)
    if isinstance(as_posterior(common.posterior or "exact"), ModelBank):
        raise ValueError(f"a bank of models learns by itself: epsilon must be None, got {epsilon}")
    drifting = space_time(kernel) * Drift(epsilon, "fixed")  # so that epsilon may also be 0
    return assembled(domain, drifting, noise_variance, common)


def recommended_tv(
    setting: Setting, epsilon: float | None = None, fitted: bool = False
) -> Mapping[str, Any]:
    """To learn the drift and the kernel; with `fitted`, an epsilon fitted before the first step."""
    if fitted and epsilon is not None:
        raise ValueError(f"fitted is for an epsilon that is not given, got epsilon = {epsilon}")
    if epsilon is None and not fitted:
        return {"kernel": None}
    return {"epsilon": setting.epsilon if epsilon is None else epsilon}


TV_GP_UCB = Policy(
    "tv-gp-ucb",
    tv_gp_ucb,
    "a kernel that forgets at rate epsilon, or learns how",
    paper="Bogunovic 2016",
    look=Look("#7f6000", (0, (6, 1, 1, 1, 1, 1)), 1.8, "P"),
    recommended=recommended_tv,
    first_comparison=True,
    in_the_paper="fitted=true",
)


@described
def ui_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    rate: float | None = None,
    growth: Literal["wiener", "linear"] = "wiener",
    learn: Learn | None = None,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """Uncertainty injection (Brunzema 2022): the noise variance of a reward grows with its age.

    Parameters
    ----------
    rate : float, optional
        Of the growth. Without it, it is learned while the bandit plays.
    growth : "wiener" or "linear"
        s^2 + rate age, or s^2 (1 + (rate age)^2), the injection of SparQ-GP-UCB without queries.
    """
    choice("growth", growth, ("wiener", "linear"))
    noise_variance_number("noise_variance", noise_variance)
    rule = learning_rule("rate", rate, learn)
    if growth == "linear":
        injected: Aging = aging.Linear(1.0 if rate is None else rate)
    else:
        injected = aging.Wiener(noise_variance if rate is None else rate)
    common = Common(confidence, posterior, mean, seed, minimise)
    return assembled(domain, kernel, noise_variance, common, learn=rule, aging=injected)


def recommended_ui(
    setting: Setting,
    rate: float | None = None,
    growth: str = "wiener",
    learn: Learn | None = None,
) -> Mapping[str, Any]:
    """The rate at which a reward's variance grows under the drift model, unless it is to be learned."""
    if learn:
        return {"rate": rate, "growth": growth, "learn": learn}
    if rate is None:
        # Under the drift model a reward's increment has variance 2 (1 - sqrt(1 - eps)) scale^2.
        increment = 2 * (1 - (1 - setting.epsilon) ** 0.5)
        rate = max(increment * setting.scale**2, 1e-12) if growth == "wiener" else 1.0
    return {"rate": rate, "growth": growth}


UI_GP_UCB = Policy(
    "ui-gp-ucb",
    ui_gp_ucb,
    "injects noise at rate, growth=wiener|linear",
    paper="Brunzema 2022",
    look=Look("#3a86c8", (0, (3, 1)), 2.2, "*"),
    recommended=recommended_ui,
    first_comparison=True,
)


@described
def et_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    delta: float = 0.1,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimise: bool = False,
    seed: Seed = 0,
) -> Bandit:
    """ET-GP-UCB (Brunzema 2025): forget everything when a reward leaves its confidence interval.

    No rate of change is needed.

    Parameters
    ----------
    delta : float
        Probability of a reset without a cause.
    """
    common = Common(confidence, posterior, mean, seed, minimise)
    return assembled(domain, kernel, noise_variance, common, reset=EventTrigger(delta))


ET_GP_UCB = Policy(
    "et-gp-ucb",
    et_gp_ucb,
    "starts afresh when a reward is a surprise",
    paper="Brunzema 2025",
    look=Look("#9a6700", (0, (8, 1, 1, 1)), 2.0, "H"),
)


POLICIES = (GP_UCB, R_GP_UCB, SW_GP_UCB, W_GP_UCB, TV_GP_UCB, UI_GP_UCB, ET_GP_UCB)
