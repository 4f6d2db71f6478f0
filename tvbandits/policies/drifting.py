"""Descendants of GP-UCB with a model of the drift: a kernel over time, noise that grows, events.

References
----------
I. Bogunovic, J. Scarlett, V. Cevher. Time-varying Gaussian process bandit optimization. AISTATS 2016.
P. Brunzema, A. von Rohr, S. Trimpe. On controller tuning with time-varying Bayesian optimization. 2022.
P. Brunzema, A. von Rohr, F. Solowjow and S. Trimpe. Event-triggered time-varying Bayesian optimization.
    TMLR 2025.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tvbandits.acquisition.confidence import DEFAULT_WIDTH
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import finite_number, noise_variance_number
from tvbandits.core.coercion import choice
from tvbandits.core.protocols import Domain
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.ensemble.rule import ModelEnsemble
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.space_time import Drift
from tvbandits.gp.kernels.structure import space_time
from tvbandits.policies.learning import (
    box_width,
    has_several,
    learned_by_rivals,
    learned_on_box,
    learned_parts,
    suits_rival_models,
)
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
    as_posterior,
    assembled,
    described,
    learning_rule,
)

LENGTH_SPREAD_WITHOUT_EXPERT = 2.0
"""Spread of the prior on the logarithm of a length scale, for a bandit that has no expert. It learns
from the points that it plays alone; under a narrower prior it may never find out that one is short."""


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
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "bank", optional
        Where the drift is learned, by default `ModelEnsemble("both")` on up to 64 candidates, with
        the width
        of what lasts alone (`acquisition.lasting`), unless kernel, learn or mean is given; else a Kalman
        filter, `StateSpace()`, but on a box. The exact one where it is not learned. Which is better
        where: `docs/bank-of-models.md`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.tv_gp_ucb(sites, RBF(1.0), 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
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
        if suits_rival_models(domain, kernel, learn, common):
            return learned_by_rivals(domain, noise_variance, common)
        start, rule, common = learned_parts(domain, kernel, learn, every, common)
        return assembled(domain, start, noise_variance, common, learn=rule)
    finite_number("epsilon", epsilon, low=0.0, below=1.0)
    learning_rule("epsilon", epsilon, learn)
    if kernel is None:
        raise ValueError(
            f"kernel is None, which is for an epsilon that is not given; got {epsilon}"
        )
    common = Common(confidence, "exact" if posterior is None else posterior, mean, seed, minimise)
    if isinstance(as_posterior(common.posterior or "exact"), ModelEnsemble):
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
    look=PlotStyle("#7f6000", (0, (6, 1, 1, 1, 1, 1)), 1.8, "P"),
    recommended=recommended_tv,
    first_comparison=6,
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
    look=PlotStyle("#3a86c8", (0, (3, 1)), 2.2, "*"),
    recommended=recommended_ui,
    first_comparison=7,
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
    common = Common(confidence, posterior, mean, seed, minimise)
    return assembled(domain, kernel, noise_variance, common, reset=EventTrigger(delta))


ET_GP_UCB = Policy(
    "et-gp-ucb",
    et_gp_ucb,
    "starts afresh when a reward is a surprise",
    paper="Brunzema 2025",
    look=PlotStyle("#9a6700", (0, (8, 1, 1, 1)), 2.0, "H"),
)


POLICIES = (TV_GP_UCB, UI_GP_UCB, ET_GP_UCB)
